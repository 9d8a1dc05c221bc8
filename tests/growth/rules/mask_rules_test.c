// Legal actions, per operation and per head.
#include "growth/rules/mask_rules.h"

#include "es_test.h"
#include "growth/lifecycle_case.h"

static LifecycleCase three_slots(void) { return case_begin(es_growth_settings_default(3, 10)); }

// A living seed with alpha at rest.
static void put(LifecycleCase *c, int32_t slot, int32_t stage, int32_t age) {
    es_seed_reset(&c->seeds[slot]);
    c->seeds[slot].stage = stage;
    c->seeds[slot].age = age;
    c->seeds[slot].blueprint = 1;
    es_alpha_set(&c->seeds[slot], stage == ES_STAGE_HOLDING ? 1 : 0);
}

static EsActionMasks masks_of(const LifecycleCase *c) {
    return es_env_masks(&c->settings, &c->env, c->seeds);
}

TEST(empty_host_may_wait_or_germinate) {
    LifecycleCase c = three_slots();
    EsActionMasks masks = masks_of(&c);
    EXPECT_EQ(masks.head[ES_HEAD_OP], 1 << ES_GROWTH_OP_WAIT | 1 << ES_GROWTH_OP_GERMINATE);
    EXPECT_EQ(masks.slot_by_op[ES_GROWTH_OP_GERMINATE], 7);
    EXPECT_EQ(masks.slot_by_op[ES_GROWTH_OP_WAIT], 7);
    EXPECT_EQ(masks.head[ES_HEAD_SLOT], 7);
    EXPECT_EQ(masks.head[ES_HEAD_STYLE], 15);
    EXPECT_EQ(masks.head[ES_HEAD_TEMPO], 7);
    EXPECT_EQ(masks.head[ES_HEAD_ALPHA_TARGET], 7);
    EXPECT_EQ(masks.head[ES_HEAD_ALPHA_SPEED], 15);
    EXPECT_EQ(masks.head[ES_HEAD_ALPHA_CURVE], 31);
}

TEST(noop_is_never_legal_and_topology_decides) {
    LifecycleCase c = three_slots();
    EXPECT_EQ(masks_of(&c).head[ES_HEAD_BLUEPRINT], 0xFE);
    c.settings.blueprints = ES_BLUEPRINTS_TRANSFORMER;
    EXPECT_EQ(masks_of(&c).head[ES_HEAD_BLUEPRINT],
              1 << 2 | 1 << 3 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12);
    c.settings.blueprints = 0x1FFF;
    EXPECT_EQ(masks_of(&c).head[ES_HEAD_BLUEPRINT], 0x1FFE);
}

TEST(development_is_sequential) {
    const int32_t blocking[] = {ES_STAGE_GERMINATED, ES_STAGE_TRAINING, ES_STAGE_PRUNED,
                                ES_STAGE_EMBARGOED, ES_STAGE_RESETTING};
    const int32_t open[] = {ES_STAGE_BLENDING, ES_STAGE_HOLDING, ES_STAGE_FOSSILIZED};
    for (size_t i = 0; i < ES_COUNT_OF(blocking); i++) {
        LifecycleCase c = three_slots();
        put(&c, 1, blocking[i], 20);
        EXPECT_EQ(masks_of(&c).slot_by_op[ES_GROWTH_OP_GERMINATE], 0);
        EXPECT_EQ((masks_of(&c).head[ES_HEAD_OP] >> ES_GROWTH_OP_GERMINATE) & 1, 0);
    }
    for (size_t i = 0; i < ES_COUNT_OF(open); i++) {
        LifecycleCase c = three_slots();
        put(&c, 1, open[i], 20);
        EXPECT_EQ(masks_of(&c).slot_by_op[ES_GROWTH_OP_GERMINATE], 1 | 4);
    }
}

TEST(seed_limit_counts_fossils) {
    LifecycleCase c = three_slots();
    c.settings.max_seeds = 2;
    put(&c, 0, ES_STAGE_FOSSILIZED, 40);
    EXPECT_EQ(masks_of(&c).slot_by_op[ES_GROWTH_OP_GERMINATE], 2 | 4);
    put(&c, 1, ES_STAGE_HOLDING, 20);
    EXPECT_EQ(masks_of(&c).slot_by_op[ES_GROWTH_OP_GERMINATE], 0);
    c.settings.max_seeds = 0;
    EXPECT_EQ(masks_of(&c).slot_by_op[ES_GROWTH_OP_GERMINATE], 4);
}

// one row per stage: the operations that may act on such a seed, aged 20, at rest
TEST(operations_by_stage) {
    const struct {
        int32_t stage, ops;
    } rows[] = {
        {ES_STAGE_GERMINATED, 1 << ES_GROWTH_OP_PRUNE | 1 << ES_GROWTH_OP_ADVANCE},
        {ES_STAGE_TRAINING, 1 << ES_GROWTH_OP_PRUNE | 1 << ES_GROWTH_OP_ADVANCE},
        {ES_STAGE_BLENDING,
         1 << ES_GROWTH_OP_PRUNE | 1 << ES_GROWTH_OP_ADVANCE | 1 << ES_GROWTH_OP_SET_ALPHA_TARGET},
        {ES_STAGE_HOLDING, 1 << ES_GROWTH_OP_PRUNE | 1 << ES_GROWTH_OP_FOSSILIZE |
                               1 << ES_GROWTH_OP_SET_ALPHA_TARGET},
        {ES_STAGE_FOSSILIZED, 0},
        {ES_STAGE_PRUNED, 0},
        {ES_STAGE_EMBARGOED, 0},
        {ES_STAGE_RESETTING, 0},
    };
    for (size_t i = 0; i < ES_COUNT_OF(rows); i++) {
        LifecycleCase c = case_begin(es_growth_settings_default(1, 10));
        put(&c, 0, rows[i].stage, 20);
        EXPECT_EQ(masks_of(&c).head[ES_HEAD_OP], rows[i].ops | 1 << ES_GROWTH_OP_WAIT);
    }
}

TEST(young_or_moving_seeds_are_not_pruned) {
    LifecycleCase c = three_slots();
    put(&c, 0, ES_STAGE_TRAINING, 4);
    EXPECT_EQ(masks_of(&c).slot_by_op[ES_GROWTH_OP_PRUNE], 0);
    c.seeds[0].age = 5;
    EXPECT_EQ(masks_of(&c).slot_by_op[ES_GROWTH_OP_PRUNE], 1);
    put(&c, 0, ES_STAGE_BLENDING, 20);
    es_alpha_retarget(&c.seeds[0], 1, 5, ES_CURVE_LINEAR, 12);
    EXPECT_EQ(masks_of(&c).slot_by_op[ES_GROWTH_OP_PRUNE], 0);
    EXPECT_EQ(masks_of(&c).slot_by_op[ES_GROWTH_OP_SET_ALPHA_TARGET], 0);
}

TEST(advance_goes_when_all_is_automatic) {
    LifecycleCase c = three_slots();
    put(&c, 0, ES_STAGE_TRAINING, 20);
    c.settings.auto_forward = ES_AUTO_FORWARD_G1 | ES_AUTO_FORWARD_G2;
    EXPECT_EQ(masks_of(&c).slot_by_op[ES_GROWTH_OP_ADVANCE], 1);
    c.settings.auto_forward = ES_AUTO_FORWARD_ALL;
    EXPECT_EQ(masks_of(&c).slot_by_op[ES_GROWTH_OP_ADVANCE], 0);
}

TEST(blending_heads_are_pinned_when_nothing_blends) {
    LifecycleCase c = three_slots();
    put(&c, 0, ES_STAGE_TRAINING, 1);
    EXPECT_EQ(masks_of(&c).head[ES_HEAD_STYLE], 1 << ES_STYLE_SIGMOID_ADD);
    EXPECT_EQ(masks_of(&c).head[ES_HEAD_ALPHA_TARGET], 1 << ES_ALPHA_TARGET_FULL);
    EXPECT_EQ(masks_of(&c).head[ES_HEAD_TEMPO], 7);
    EXPECT_EQ(masks_of(&c).head[ES_HEAD_BLUEPRINT], 0xFE);
    put(&c, 1, ES_STAGE_HOLDING, 20); // may be retargeted
    EXPECT_EQ(masks_of(&c).head[ES_HEAD_STYLE], 15);
    EXPECT_EQ(masks_of(&c).head[ES_HEAD_ALPHA_TARGET], 7);
}

TEST(nothing_becomes_permanent_while_the_loss_diverges) {
    LifecycleCase c = three_slots();
    put(&c, 0, ES_STAGE_HOLDING, 20);
    EXPECT_EQ(masks_of(&c).slot_by_op[ES_GROWTH_OP_FOSSILIZE], 1);
    c.env.n_divergences = 1;
    EXPECT_EQ(masks_of(&c).slot_by_op[ES_GROWTH_OP_FOSSILIZE], 0);
}

TEST(sixteen_slots) {
    LifecycleCase c = case_begin(es_growth_settings_default(16, 10));
    EXPECT_EQ(masks_of(&c).slot_by_op[ES_GROWTH_OP_GERMINATE], 0xFFFF);
    put(&c, 15, ES_STAGE_HOLDING, 20);
    EXPECT_EQ(masks_of(&c).slot_by_op[ES_GROWTH_OP_GERMINATE], 0x7FFF);
    EXPECT_EQ(masks_of(&c).slot_by_op[ES_GROWTH_OP_FOSSILIZE], 0x8000);
}

// the table of control.md, section 1.4
TEST(heads_that_matter) {
    const char *rows[] = {
        // slot, blueprint, style, tempo, target, speed, curve, op
        "00000001", // WAIT
        "11111001", // GERMINATE
        "10101111", // SET_ALPHA_TARGET
        "10000111", // PRUNE
        "10000001", // FOSSILIZE
        "10000001", // ADVANCE
    };
    for (int32_t op = 0; op < ES_N_GROWTH_OPS; op++) {
        for (int32_t head = 0; head < ES_N_HEADS; head++) {
            EXPECT_EQ(es_head_matters(op, head), rows[op][head] == '1');
        }
    }
}

TEST(heads_given_the_op) {
    LifecycleCase c = three_slots();
    put(&c, 2, ES_STAGE_HOLDING, 20);
    EsActionMasks masks = masks_of(&c);
    EXPECT_EQ(es_masks_head(&masks, ES_GROWTH_OP_WAIT, ES_HEAD_SLOT), 1);
    EXPECT_EQ(es_masks_head(&masks, ES_GROWTH_OP_WAIT, ES_HEAD_STYLE), 1 << 2);
    EXPECT_EQ(es_masks_head(&masks, ES_GROWTH_OP_GERMINATE, ES_HEAD_SLOT), 3);
    EXPECT_EQ(es_masks_head(&masks, ES_GROWTH_OP_GERMINATE, ES_HEAD_BLUEPRINT), 0xFE);
    EXPECT_EQ(es_masks_head(&masks, ES_GROWTH_OP_PRUNE, ES_HEAD_SLOT), 4);
    EXPECT_EQ(es_masks_head(&masks, ES_GROWTH_OP_PRUNE, ES_HEAD_BLUEPRINT), 1);
    EXPECT_EQ(es_masks_head(&masks, ES_GROWTH_OP_PRUNE, ES_HEAD_TEMPO), 2);
    EXPECT_EQ(es_masks_head(&masks, ES_GROWTH_OP_PRUNE, ES_HEAD_ALPHA_CURVE), 31);
}

TEST(vocabulary) {
    EXPECT_EQ(es_style_ramp(ES_STYLE_SIGMOID_ADD), ES_RAMP_SIGMOID);
    EXPECT_EQ(es_style_algorithm(ES_STYLE_SIGMOID_ADD), ES_ALGORITHM_ADD);
    EXPECT_EQ(es_style_ramp(ES_STYLE_GATED_GATE), ES_RAMP_GATED);
    EXPECT_EQ(es_style_algorithm(ES_STYLE_LINEAR_MULTIPLY), ES_ALGORITHM_MULTIPLY);
    EXPECT_EQ(es_style_algorithm(4), ES_ALGORITHM_NONE);
    float k;
    EXPECT_EQ(es_curve_choice(0, &k), ES_CURVE_LINEAR);
    EXPECT_EQ(es_curve_choice(4, &k), ES_CURVE_SIGMOID);
    EXPECT_NEAR(k, 24, 0);
    EXPECT_EQ(es_curve_choice(5, &k), ES_CURVE_NONE);
    EXPECT_EQ(es_head_size(ES_HEAD_BLUEPRINT, 3), 13);
    EXPECT_EQ(es_head_size(ES_HEAD_SLOT, 3), 3);
    EXPECT_EQ(ES_BLUEPRINT_ID_FLEX_ATTENTION, 12);
    EXPECT_EQ(ES_HEAD_OP, 7);
}
