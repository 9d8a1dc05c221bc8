// The settings' limits, the slab and its fields, the loops over environments, and the names.
#include "growth/engine/lifecycle.h"

#include "es_test.h"
#include "growth/lifecycle_case.h"
#include "growth/rules/growth_names.h"

#define DEFAULTS es_growth_settings_default(3, 10)

TEST(settings_are_checked) {
    EsGrowthSettings settings = DEFAULTS;
    EXPECT_STATUS(es_growth_settings_check(&settings), OK);
    settings = es_growth_settings_tiny(16, 4);
    EXPECT_STATUS(es_growth_settings_check(&settings), OK);
    settings.n_slots = 17;
    EXPECT_STATUS(es_growth_settings_check(&settings), CONFIG);
    EXPECT_CONTAINS(es_status_detail(), "slots is 17, must be 1 to 16");
    settings = DEFAULTS;
    settings.governor_minimum = 21;
    EXPECT_STATUS(es_growth_settings_check(&settings), CONFIG);
    EXPECT_CONTAINS(es_status_detail(), "governor_minimum is 21, must be 1 to 20");
    settings = DEFAULTS;
    settings.min_health = NAN;
    EXPECT_STATUS(es_growth_settings_check(&settings), CONFIG);
    EXPECT_CONTAINS(es_status_detail(), "min_health is");
    settings = DEFAULTS;
    settings.alpha_target[1] = 0;
    EXPECT_STATUS(es_growth_settings_check(&settings), CONFIG);
    settings = DEFAULTS;
    settings.slot_column[2] = 1;
    EXPECT_STATUS(es_growth_settings_check(&settings), CONFIG);
    EXPECT_CONTAINS(es_status_detail(), "r0c1 follows r0c1");
    settings = DEFAULTS;
    settings.blueprints = 1; // noop alone
    EXPECT_STATUS(es_growth_settings_check(&settings), CONFIG);
}

TEST(slab_layout) {
    const int32_t n_envs = 5, n_slots = 3;
    size_t bytes = es_growth_state_bytes(n_envs, n_slots), end = 0;
    char *slab = malloc(bytes);
    memset(slab, 0xEE, bytes);
    EsGrowthState state;
    es_growth_state_bind(&state, slab, n_envs, n_slots);
    EsGrowthSettings settings = es_growth_settings_default(n_slots, 10);
    es_lifecycle_reset(&state, &settings);
    for (int32_t i = 0; i < es_growth_field_count(); i++) {
        EsGrowthField field = es_growth_field_at(i, n_envs, n_slots);
        EXPECT_EQ(field.offset_bytes, end);
        end += es_growth_array_bytes((size_t)(n_envs * field.n_columns));
        for (int32_t k = 0; k < i; k++) { // names are unique
            EXPECT(strcmp(es_growth_field_at(k, n_envs, n_slots).name, field.name) != 0);
        }
        const uint32_t *words = (const uint32_t *)(void *)(slab + field.offset_bytes);
        for (int64_t w = 0; w < n_envs * field.n_columns; w++) {
            EXPECT(words[w] != 0xEEEEEEEE); // every element is written
        }
        if (strcmp(field.name, "seed.alpha") == 0) {
            EXPECT(slab + field.offset_bytes == (char *)state.seed.alpha);
            EXPECT_EQ(field.dtype, ES_DTYPE_F32);
            EXPECT_EQ(field.n_columns, n_slots);
        }
        if (strcmp(field.name, "env.governed_loss") == 0) {
            EXPECT(slab + field.offset_bytes == (char *)state.env.governed_loss);
            EXPECT_EQ(field.n_columns, 20);
        }
        if (strcmp(field.name, "env.step") == 0) {
            EXPECT_EQ(field.dtype, ES_DTYPE_I32);
            EXPECT_EQ(words[4], 1);
        }
    }
    EXPECT_EQ(end, bytes);
    free(slab);
}

// Environments with different fates in one slab do what each would do alone.
TEST(loops_equal_the_rules) {
    enum { E = 4, S = 2 };
    EsGrowthSettings settings = automatic(es_growth_settings_tiny(S, 10));
    LifecycleCase cases[E];
    void *slab = malloc(es_growth_state_bytes(E, S));
    EsGrowthState state;
    es_growth_state_bind(&state, slab, E, S);
    es_lifecycle_reset(&state, &settings);
    for (int e = 0; e < E; e++) {
        cases[e] = case_begin(settings);
    }
    for (int step = 0; step < 200; step++) {
        float loss[E], accuracy[E], patterns[E][ES_ABLATION_PATTERNS_MAX];
        EsAction actions[E];
        EsAblation lists[E];
        EsActionMasks masks[E];
        EsGradientSums sums[E * S];
        for (int e = 0; e < E; e++) {
            int op = (step * 5 + e) % ES_N_GROWTH_OPS;
            actions[e] = action_on(op, (step / 6 + e) % S);
            loss[e] = cases[e].loss = step == 20 + e ? NAN : 1;
            accuracy[e] = cases[e].accuracy = 50 + (float)e;
            sums[e * S] = sums[e * S + 1] = healthy_sums(&settings);
        }
        es_lifecycle_measure(&state, &settings, loss, accuracy);
        es_lifecycle_record_gradients(&state, &settings, sums, sums);
        es_lifecycle_list_ablations(&state, &settings, lists);
        for (int e = 0; e < E; e++) {
            for (int k = 0; k < es_ablation_count(&lists[e]); k++) {
                patterns[e][k] = accuracy[e] - 2 * (float)__builtin_popcount((unsigned)k);
            }
        }
        es_lifecycle_record_contributions(&state, &settings, lists, patterns[0], NULL);
        es_lifecycle_masks(&state, &settings, masks);
        es_lifecycle_apply(&state, &settings, actions);
        es_lifecycle_tick(&state, &settings);
        for (int e = 0; e < E; e++) {
            case_step(&cases[e], actions[e]);
            EXPECT(memcmp(&masks[e], &cases[e].masks, sizeof masks[e]) == 0);
            EsGrowthEnv env = es_growth_env_load(&state.env, (size_t)e);
            EXPECT_EQ(env.step, cases[e].env.step);
            EXPECT_EQ(env.n_pruned, cases[e].env.n_pruned);
            EXPECT_EQ(env.refusal, cases[e].env.refusal);
            for (int s = 0; s < S; s++) {
                EsSeed seed = es_seed_load(&state.seed, (size_t)e * S + (size_t)s);
                EXPECT(memcmp(&seed, &cases[e].seeds[s], sizeof seed) == 0);
            }
        }
    }
    for (int e = 0; e < E; e++) { // it was not for nothing
        EXPECT(cases[e].env.n_germinated > 1);
        EXPECT_EQ(cases[e].env.n_rollbacks, 1);
    }
    free(slab);
}

TEST(names) {
    EXPECT_TEXT(es_stage_name(ES_STAGE_FOSSILIZED), "FOSSILIZED");
    EXPECT_TEXT(es_stage_name(5), "?");
    EXPECT_TEXT(es_growth_op_name(ES_GROWTH_OP_SET_ALPHA_TARGET), "SET_ALPHA_TARGET");
    EXPECT_TEXT(es_growth_op_name(6), "?");
    EXPECT_TEXT(es_head_name(ES_HEAD_ALPHA_TARGET), "alpha_target");
    EXPECT_TEXT(es_blueprint_id_name(12), "flex_attention");
    EXPECT_TEXT(es_blueprint_id_name(-1), "?");
    EXPECT_TEXT(es_style_name(ES_STYLE_GATED_GATE), "GATED_GATE");
    EXPECT_TEXT(es_algorithm_name(ES_ALGORITHM_GATE), "GATE");
    EXPECT_TEXT(es_tempo_name(2), "SLOW");
    EXPECT_TEXT(es_alpha_target_name(1), "SEVENTY");
    EXPECT_TEXT(es_alpha_speed_name(0), "INSTANT");
    EXPECT_TEXT(es_curve_choice_name(4), "SIGMOID_SHARP");
    EXPECT_TEXT(es_alpha_mode_name(ES_ALPHA_DOWN), "DOWN");
    EXPECT_TEXT(es_panic_name(ES_PANIC_LOBOTOMY), "governor_lobotomy");
    EXPECT_TEXT(es_prune_reason_name(ES_PRUNE_SCHEDULED), "scheduled_prune");
    EXPECT_TEXT(es_prune_initiator_name(ES_PRUNE_SCHEDULED), "schedule");
    EXPECT_TEXT(es_refusal_name(ES_REFUSAL_FOSSIL), "FOSSIL");
    EXPECT_TEXT(es_refusal_message(ES_REFUSAL_FOSSIL), "a fossil is permanent");
}

TEST(slot_names) {
    char text[24];
    int32_t row, column;
    EXPECT_TEXT(es_slot_write(1, 12, text), "r1c12");
    EXPECT_STATUS(es_slot_parse("r1c12", &row, &column), OK);
    EXPECT_EQ(row, 1);
    EXPECT_EQ(column, 12);
    const char *wrong[] = {"",    "early", "r",     "rc1",  "r1",
                           "r1c", "r-1c0", "r1c1x", "R1C1", "r1c12345"};
    for (size_t i = 0; i < ES_COUNT_OF(wrong); i++) {
        EXPECT_STATUS(es_slot_parse(wrong[i], &row, &column), ARGUMENT);
    }
    EXPECT_CONTAINS(es_status_detail(), "\"r1c12345\" is not a slot");
}
