// Lifecycles: the transition table, the timing, and every operation with its refusals.
#include "growth/rules/lifecycle_rules.h"

#include "es_test.h"
#include "growth/lifecycle_case.h"
#include "growth/rules/growth_names.h"

#define DEFAULTS es_growth_settings_default(3, 10)

// --- stages ---

TEST(transition_table) {
    // rows from, columns to: 0 UNKNOWN .. 4 BLENDING, 5 retired, 6 HOLDING .. 10 RESETTING
    const char *rows[11] = {
        "01000000000", // UNKNOWN
        "00100000000", // DORMANT
        "00010000100", // GERMINATED
        "00001000100", // TRAINING
        "00000010100", // BLENDING
        "00000000000", // retired
        "00001001100", // HOLDING
        "00000000000", // FOSSILIZED
        "00000000010", // PRUNED
        "00000000001", // EMBARGOED
        "01000000000", // RESETTING
    };
    for (int32_t from = 0; from <= 10; from++) {
        for (int32_t to = 0; to <= 10; to++) {
            EsSeed seed;
            es_seed_reset(&seed);
            es_seed_reset_report(&seed);
            seed.stage = from;
            seed.steps_in_stage = 7;
            seed.accuracy_now = 33;
            EsSeed before = seed;
            int legal = rows[from][to] == '1';
            EXPECT_EQ(es_stage_may_follow(from, to), legal);
            EXPECT_EQ(es_seed_enter(&seed, to), legal);
            if (!legal) {
                EXPECT(memcmp(&seed, &before, sizeof seed) == 0);
                continue;
            }
            EXPECT_EQ(seed.stage, to);
            EXPECT_EQ(seed.previous_stage, from);
            EXPECT_EQ(seed.previous_stage_steps, 7);
            EXPECT_EQ(seed.steps_in_stage, 0);
            EXPECT_NEAR(seed.accuracy_stage_start, 33, 0);
        }
    }
    EXPECT(!es_stage_may_follow(-1, 1) && !es_stage_may_follow(11, 1));
}

TEST(stage_codes) {
    const int32_t stages[ES_N_STAGES] = {0, 1, 2, 3, 4, 6, 7, 8, 9, 10};
    for (int32_t i = 0; i < ES_N_STAGES; i++) {
        EXPECT_EQ(es_stage_one_hot(stages[i]), i);
    }
    EXPECT_EQ(es_stage_one_hot(5), -1);
    EXPECT_EQ(es_stage_one_hot(11), -1);
    EXPECT(!es_stage_is_valid(5));
    EXPECT(!es_stage_in(5, ~0));
}

TEST(stage_path) {
    EsSeed seed;
    es_seed_reset(&seed);
    es_seed_reset_report(&seed);
    EXPECT_EQ(es_stage_path_length(seed.stage_path), 0);
    seed.stage = ES_STAGE_HOLDING;
    es_seed_enter(&seed, ES_STAGE_BLENDING);
    es_seed_enter(&seed, ES_STAGE_PRUNED);
    es_seed_enter(&seed, ES_STAGE_EMBARGOED);
    const int32_t expected[] = {ES_STAGE_HOLDING, ES_STAGE_BLENDING, ES_STAGE_PRUNED,
                                ES_STAGE_EMBARGOED};
    EXPECT_EQ(es_stage_path_length(seed.stage_path), 3);
    for (int32_t i = 0; i < 3; i++) {
        int32_t from, to;
        es_stage_path_step(seed.stage_path, i, &from, &to);
        EXPECT_EQ(from, expected[i]);
        EXPECT_EQ(to, expected[i + 1]);
    }
}

// --- timing ---

// Germinate in step t and let everything happen by itself; dwell D, tempo N.
static void expect_timing(EsGrowthSettings settings, int8_t tempo) {
    LifecycleCase c = case_begin(automatic(settings));
    int32_t d = settings.training_dwell, n = settings.tempo[tempo];
    EsAction germinate = action_on(ES_GROWTH_OP_GERMINATE, 0);
    germinate.head[ES_HEAD_TEMPO] = tempo;
    germinate.head[ES_HEAD_STYLE] = ES_STYLE_LINEAR_ADD;
    case_wait(&c, 4);
    int32_t t = c.env.step;
    case_step(&c, germinate);
    if (d > 0) {
        EXPECT_EQ(c.seeds[0].stage, ES_STAGE_TRAINING); // from tick t
    } else {
        EXPECT_EQ(c.seeds[0].stage, n > 1 ? ES_STAGE_BLENDING : ES_STAGE_HOLDING);
        EXPECT_NEAR(c.seeds[0].alpha, 1.0 / n, 1e-7);
    }
    for (int32_t u = t + 1; u <= t + d + n - 1; u++) {
        case_step(&c, es_action_wait());
        EXPECT(!case_allows(&c, ES_GROWTH_OP_FOSSILIZE, 0));
        int32_t ticks = u - (t + d) + 1; // of the ramp, after this tick
        if (u < t + d) {
            EXPECT_EQ(c.seeds[0].stage, ES_STAGE_TRAINING);
            EXPECT_NEAR(c.seeds[0].alpha, 0, 0);
            EXPECT_EQ(c.seeds[0].steps_in_stage, u - t + 1);
        } else {
            EXPECT_EQ(c.seeds[0].stage, ticks < n ? ES_STAGE_BLENDING : ES_STAGE_HOLDING);
            EXPECT_NEAR(c.seeds[0].alpha, (double)ticks / n, 1e-7);
        }
        EXPECT_EQ(c.seeds[0].age, u - t + 1);
    }
    EXPECT_EQ(c.env.step, t + d + n);
    case_step(&c, action_on(ES_GROWTH_OP_FOSSILIZE, 0));
    EXPECT(case_allows(&c, ES_GROWTH_OP_FOSSILIZE, 0));
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_FOSSILIZED);
}

// Original: BLENDING is entered with alpha 0, and the seed trains a step without gradient.
TEST(automatic_timing) {
    EsGrowthSettings swift = DEFAULTS;
    es_growth_settings_set_pace(&swift, ES_PACE_SWIFT);
    EsGrowthSettings instant = DEFAULTS;
    es_growth_settings_set_pace(&instant, ES_PACE_INSTANT);
    for (int8_t tempo = 0; tempo < 3; tempo++) {
        expect_timing(DEFAULTS, tempo);
        expect_timing(es_growth_settings_tiny(3, 10), tempo);
        expect_timing(swift, tempo);
        expect_timing(instant, tempo);
    }
    // in numbers, once: germinated in step 1, tempo 5
    LifecycleCase c = case_begin(automatic(DEFAULTS));
    case_step(&c, action_on(ES_GROWTH_OP_GERMINATE, 0));
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_TRAINING);
    case_wait(&c, 9);
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_TRAINING); // after tick t+9
    case_wait(&c, 1);
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_BLENDING); // t+10
    EXPECT_NEAR(c.seeds[0].alpha, .02424, 5.1e-6);
    case_wait(&c, 3);
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_BLENDING); // t+13
    case_wait(&c, 1);
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_HOLDING); // t+9+5
    EXPECT_NEAR(c.seeds[0].alpha, 1, 0);
}

TEST(manual_timing) {
    LifecycleCase c = case_begin(DEFAULTS);
    const EsAction advance = action_on(ES_GROWTH_OP_ADVANCE, 0);
    case_step(&c, action_on(ES_GROWTH_OP_GERMINATE, 0)); // t
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_GERMINATED);
    case_step(&c, advance); // t+1
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_TRAINING);
    case_wait(&c, 8);
    case_step(&c, advance); // t+10: one step short
    EXPECT_EQ(c.env.refusal, ES_REFUSAL_GATE_CLOSED);
    EXPECT_EQ(c.seeds[0].gate, ES_GATE_G2);
    EXPECT_EQ(c.seeds[0].gate_failed, 1 << ES_GATE_CHECK_DWELL);
    EXPECT_EQ(c.env.effective_op, ES_GROWTH_OP_ADVANCE);
    EXPECT_EQ(c.env.is_success, 0);
    case_step(&c, advance); // t+11, and alpha moves in the same step
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_BLENDING);
    EXPECT(c.seeds[0].alpha > 0);
    case_wait(&c, 3);
    EXPECT(c.seeds[0].alpha < 1);
    case_wait(&c, 1); // t+10+5
    EXPECT_NEAR(c.seeds[0].alpha, 1, 0);
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_BLENDING);
    case_step(&c, advance); // t+11+5
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_HOLDING);
    case_step(&c, action_on(ES_GROWTH_OP_FOSSILIZE, 0)); // t+12+5
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_FOSSILIZED);
    EXPECT_EQ(c.env.step, 1 + 12 + 5 + 1);
}

TEST(first_prune) {
    for (int tiny = 0; tiny < 2; tiny++) {
        LifecycleCase c = case_begin(automatic(tiny ? es_growth_settings_tiny(3, 10) : DEFAULTS));
        case_step(&c, action_on(ES_GROWTH_OP_GERMINATE, 0));
        for (int32_t age = 1; age <= c.settings.prune_age; age++) {
            case_step(&c, es_action_wait());
            EXPECT_EQ(case_allows(&c, ES_GROWTH_OP_PRUNE, 0), age == c.settings.prune_age);
        }
    }
}

// Steps from a prune until a slot can be germinated again.
static int32_t steps_until_free(LifecycleCase *c) {
    for (int32_t n = 1; n < 100; n++) {
        case_measure(c);
        if (case_allows(c, ES_GROWTH_OP_GERMINATE, 0)) {
            return n;
        }
        EsAction wait = es_action_wait();
        es_env_apply(&c->settings, &c->env, c->seeds, &wait);
        es_env_tick(&c->settings, &c->env, c->seeds);
    }
    return -1;
}

// Original: accuracy recording and tick both advance the counters, and 7 steps become 5.
TEST(pruned_slots_are_free_after_seven_steps) {
    for (int tiny = 0; tiny < 2; tiny++) {
        EsGrowthSettings settings = automatic(tiny ? es_growth_settings_tiny(3, 10) : DEFAULTS);
        int32_t expected = tiny ? 4 : 7;
        // at once, by the policy
        LifecycleCase c = case_begin(settings);
        case_grow(&c, 0);
        case_step(&c, action_on(ES_GROWTH_OP_PRUNE, 0));
        EXPECT_EQ(c.seeds[0].stage, ES_STAGE_EMBARGOED);
        EXPECT_EQ(steps_until_free(&c), expected);
        // by a ramp of 3 ticks: over in the tick two steps later
        c = case_begin(settings);
        case_grow(&c, 0);
        EsAction fade = action_on(ES_GROWTH_OP_PRUNE, 0);
        fade.head[ES_HEAD_ALPHA_SPEED] = 1;
        case_step(&c, fade);
        EXPECT_EQ(c.seeds[0].stage, ES_STAGE_BLENDING);
        EXPECT(es_seed_is_frozen(&c.seeds[0]));
        case_wait(&c, 1);
        EXPECT_EQ(c.seeds[0].stage, ES_STAGE_BLENDING);
        case_wait(&c, 1);
        EXPECT_EQ(c.seeds[0].stage, ES_STAGE_EMBARGOED);
        EXPECT_EQ(c.seeds[0].prune_reason, ES_PRUNE_SCHEDULED);
        EXPECT_EQ(c.seeds[0].requests, ES_SEED_REQUEST_CLEAR);
        EXPECT_EQ(steps_until_free(&c), expected);
        // by the governor
        c = case_begin(settings);
        case_grow(&c, 0);
        c.loss = NAN;
        case_wait(&c, 1);
        c.loss = 1;
        EXPECT_EQ(steps_until_free(&c), expected);
    }
}

// --- counters, accuracies, freshness ---

TEST(cooling_slots_record_no_accuracy) {
    LifecycleCase c = case_begin(automatic(DEFAULTS));
    case_grow(&c, 0);
    case_step(&c, action_on(ES_GROWTH_OP_PRUNE, 0));
    c.accuracy = 99;
    for (int32_t n = 1; n <= 4; n++) {
        EXPECT_EQ(c.seeds[0].stage, ES_STAGE_EMBARGOED);
        EXPECT_EQ(c.seeds[0].steps_in_stage, n); // once per step
        case_wait(&c, 1);
        EXPECT_NEAR(c.seeds[0].accuracy_now, 50, 0);
        EXPECT_NEAR(c.seeds[0].accuracy_best, 50, 0);
    }
}

TEST(accuracies) {
    LifecycleCase c = case_begin(automatic(DEFAULTS));
    c.accuracy = 40;
    case_step(&c, action_on(ES_GROWTH_OP_GERMINATE, 0));
    EXPECT_NEAR(c.seeds[0].accuracy_germination, 40, 0);
    EXPECT_NEAR(c.seeds[0].accuracy_initial, ES_NOT_MEASURED, 0);
    c.accuracy = 45;
    case_wait(&c, 1);
    EXPECT_NEAR(c.seeds[0].accuracy_initial, 45, 0);
    EXPECT_NEAR(c.seeds[0].accuracy_stage_start, 45, 0);
    c.accuracy = 44;
    case_wait(&c, 1);
    EXPECT_NEAR(c.seeds[0].accuracy_initial, 45, 0);
    EXPECT_NEAR(c.seeds[0].accuracy_best, 45, 0);
    EXPECT_NEAR(es_seed_improvement(&c.seeds[0]), -1, 0);
    c.accuracy = 48;
    case_wait(&c, 8);
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_BLENDING);
    EXPECT_NEAR(c.seeds[0].accuracy_blending_start, 48, 0);
    EXPECT_NEAR(c.seeds[0].accuracy_stage_start, 48, 0);
    EXPECT_EQ(c.seeds[0].previous_stage, ES_STAGE_TRAINING);
    EXPECT_EQ(c.seeds[0].previous_stage_steps, 10);
}

// Original: the counter is created before any ablation, so that a seed in TRAINING looks fresh; and
// targets are judged after it was advanced, so that they are always stale.
TEST(freshness_begins_with_a_measurement) {
    LifecycleCase c = case_begin(automatic(DEFAULTS));
    case_step(&c, action_on(ES_GROWTH_OP_GERMINATE, 0));
    case_wait(&c, 10);
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_BLENDING);
    EXPECT_EQ(c.seeds[0].contribution_age, ES_NOT_MEASURED);
    case_wait(&c, 1);
    EXPECT_EQ(c.contribution_age, 0); // fresh at the decision,
    EXPECT_EQ(c.seeds[0].contribution_age, 1);
    c.contribution = NAN;
    case_wait(&c, 2); // not measured: it ages
    EXPECT_EQ(c.contribution_age, 2);
    EXPECT_NEAR(c.seeds[0].contribution, 2, 0);
}

// Original: health is part of telemetry; without it no seed ever leaves TRAINING, and unmeasured
// ones look healthy.
TEST(health_gates_blending) {
    LifecycleCase c = case_begin(automatic(DEFAULTS));
    c.has_no_gradients = 1;
    case_step(&c, action_on(ES_GROWTH_OP_GERMINATE, 0));
    case_wait(&c, 30);
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_TRAINING);
    EXPECT(c.seeds[0].gate_failed & 1 << ES_GATE_CHECK_HEALTH_MEASURED);
    EXPECT_NEAR(c.seeds[0].previous_health, ES_NOT_MEASURED, 0);
    c.has_no_gradients = 0;
    case_wait(&c, 1); // asked again in every tick
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_BLENDING);
    EXPECT_NEAR(c.seeds[0].previous_health, 1, 0);
}

// --- operations ---

TEST(germinate_sets_the_seed_up) {
    EsGrowthSettings settings = DEFAULTS;
    settings.blueprint_parameters[1][4] = 432;
    settings.gate_parameters[1] = 77;
    LifecycleCase c = case_begin(settings);
    EsAction action = action_on(ES_GROWTH_OP_GERMINATE, 1);
    action.head[ES_HEAD_BLUEPRINT] = 4;
    action.head[ES_HEAD_STYLE] = ES_STYLE_GATED_GATE;
    action.head[ES_HEAD_TEMPO] = 2;
    action.head[ES_HEAD_ALPHA_TARGET] = 1;
    case_step(&c, action);
    const EsSeed *seed = &c.seeds[1];
    EXPECT_EQ(seed->stage, ES_STAGE_GERMINATED);
    EXPECT_EQ(seed->number, 1);
    EXPECT_EQ(seed->germinated_step, 1);
    EXPECT_EQ(seed->blueprint, 4);
    EXPECT_EQ(seed->ramp, ES_RAMP_GATED);
    EXPECT_EQ(seed->algorithm, ES_ALGORITHM_GATE);
    EXPECT_EQ(seed->tempo, 8);
    EXPECT_NEAR(seed->first_target, 0.7, 1e-7);
    EXPECT_EQ(seed->n_parameters, 432 + 77);
    // original: the gate network appears after the slot's optimiser and never trains
    EXPECT_EQ(seed->requests, ES_SEED_REQUEST_INITIALISE | ES_SEED_REQUEST_ZERO_MOMENTUM |
                                  ES_SEED_REQUEST_INITIALISE_GATE);
    EXPECT_EQ(seed->gate, ES_GATE_G0);
    EXPECT_EQ(c.env.n_germinated, 1);
    EXPECT_EQ(c.env.acted_slot, 1);
    case_wait(&c, 1);
    EXPECT_EQ(seed->requests, 0); // requests are of one step
}

TEST(gated_ramps_are_linear_sigmoid_ones_not) {
    for (int style = 0; style < ES_N_STYLES; style++) {
        LifecycleCase c = case_begin(automatic(DEFAULTS));
        EsAction action = action_on(ES_GROWTH_OP_GERMINATE, 0);
        action.head[ES_HEAD_STYLE] = (int8_t)style;
        case_step(&c, action);
        case_wait(&c, 10);
        double expected = style == ES_STYLE_SIGMOID_ADD ? .02424 : .2;
        EXPECT_NEAR(c.seeds[0].alpha, expected, 5.1e-6);
    }
}

TEST(partial_targets_wait_for_a_full_one) {
    LifecycleCase c = case_begin(automatic(DEFAULTS));
    EsAction action = action_on(ES_GROWTH_OP_GERMINATE, 0);
    action.head[ES_HEAD_ALPHA_TARGET] = 0;
    case_step(&c, action);
    case_wait(&c, 30);
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_BLENDING);
    EXPECT_NEAR(c.seeds[0].alpha, 0.5, 0);
    EXPECT_EQ(c.seeds[0].gate_failed, 1 << ES_GATE_CHECK_TARGET_FULL);
    EsAction full = action_on(ES_GROWTH_OP_SET_ALPHA_TARGET, 0);
    case_step(&c, full); // instant
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_HOLDING);
    EXPECT_NEAR(c.seeds[0].alpha, 1, 0);
}

TEST(set_alpha_target_from_holding) {
    EsGrowthSettings settings = automatic(DEFAULTS);
    settings.gate_parameters[0] = 9;
    LifecycleCase c = case_begin(settings);
    case_grow(&c, 0);
    EsAction action = action_on(ES_GROWTH_OP_SET_ALPHA_TARGET, 0);
    action.head[ES_HEAD_ALPHA_SPEED] = 3;
    action.head[ES_HEAD_ALPHA_CURVE] = 1;
    action.head[ES_HEAD_STYLE] = ES_STYLE_GATED_GATE;
    case_step(&c, action); // target 1: stays, but the algorithm changes
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_HOLDING);
    EXPECT_EQ(c.env.is_success, 1);
    EXPECT_EQ(c.seeds[0].algorithm, ES_ALGORITHM_GATE);
    EXPECT_EQ(c.seeds[0].requests, ES_SEED_REQUEST_INITIALISE_GATE);
    EXPECT_EQ(c.seeds[0].n_parameters, 9);
    EXPECT_EQ(c.seeds[0].ramp, ES_RAMP_SIGMOID); // style gives the algorithm alone
    action.head[ES_HEAD_ALPHA_TARGET] = 0;
    action.head[ES_HEAD_STYLE] = ES_STYLE_LINEAR_MULTIPLY;
    case_step(&c, action); // down to 0.5 in 8 ticks
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_BLENDING);
    EXPECT_EQ(c.seeds[0].algorithm, ES_ALGORITHM_MULTIPLY);
    EXPECT_EQ(c.seeds[0].n_parameters, 0);
    EXPECT_EQ(c.seeds[0].requests, 0);
    EXPECT_NEAR(c.seeds[0].alpha, 1 - 0.5 * .03806, 5.1e-6);
    EXPECT(es_seed_is_frozen(&c.seeds[0]));
    case_wait(&c, 7);
    EXPECT_NEAR(c.seeds[0].alpha, 0.5, 0);
    EXPECT(!es_seed_is_frozen(&c.seeds[0]));
}

TEST(prune_before_blending_is_instant) {
    LifecycleCase c = case_begin(automatic(DEFAULTS));
    case_step(&c, action_on(ES_GROWTH_OP_GERMINATE, 0));
    case_wait(&c, 5);
    EsAction slow = action_on(ES_GROWTH_OP_PRUNE, 0);
    slow.head[ES_HEAD_ALPHA_SPEED] = 3;
    case_step(&c, slow);
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_EMBARGOED);
    EXPECT_EQ(c.seeds[0].prune_reason, ES_PRUNE_POLICY);
    EXPECT_NEAR(c.seeds[0].gradient_health, ES_NOT_MEASURED, 0);
    EXPECT_EQ(c.env.n_pruned, 1);
    EXPECT_EQ(c.env.n_unrewarded_prunes, 0); // only the governor's count
}

TEST(empty_means_empty) {
    LifecycleCase c = case_begin(automatic(DEFAULTS));
    EsSeed blank = c.seeds[0];
    case_grow(&c, 0);
    case_step(&c, action_on(ES_GROWTH_OP_PRUNE, 0));
    case_wait(&c, 6);
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_DORMANT);
    EXPECT_EQ(c.seeds[0].stage_path, ES_STAGE_RESETTING << 4 | ES_STAGE_DORMANT);
    case_wait(&c, 1);
    EXPECT(memcmp(&blank, &c.seeds[0], sizeof blank) == 0);
}

TEST(fossils) {
    LifecycleCase c = case_begin(automatic(DEFAULTS));
    case_grow(&c, 0);
    case_step(&c, action_on(ES_GROWTH_OP_FOSSILIZE, 0));
    EXPECT_EQ(c.seeds[0].is_contributing, 1); // 2 percent points
    EXPECT_EQ(c.env.n_fossils, 1);
    EXPECT_EQ(c.env.n_contributing, 1);
    EXPECT_EQ(c.seeds[0].requests, 0); // keeps its momentum
    c.contribution = 0.5f;
    case_grow(&c, 1);
    case_step(&c, action_on(ES_GROWTH_OP_FOSSILIZE, 1));
    EXPECT_EQ(c.seeds[1].is_contributing, 0);
    EXPECT_EQ(c.env.n_fossils, 2);
    EXPECT_EQ(c.env.n_contributing, 1);
    for (int32_t op = 1; op < ES_N_GROWTH_OPS; op++) {
        case_step(&c, action_on(op, 0));
        EXPECT_EQ(c.seeds[0].stage, ES_STAGE_FOSSILIZED);
        EXPECT(c.env.refusal != ES_REFUSAL_NONE);
    }
    c.loss = NAN;
    case_wait(&c, 1);
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_FOSSILIZED);
    EXPECT_NEAR(c.seeds[0].alpha, 1, 0);
}

// --- refusals ---

// The action must be refused for this reason, count as WAIT and leave every seed as it was.
static void expect_refusal(LifecycleCase *c, EsAction action, int32_t refusal) {
    EsSeed before[ES_SLOTS_MAX];
    memcpy(before, c->seeds, sizeof before);
    EsGrowthEnv env = c->env;
    es_env_execute(&c->settings, &c->env, c->seeds, &action);
    if (c->env.refusal != refusal) {
        ES_TEST_FAIL("refused with %s, expected %s", es_refusal_name(c->env.refusal),
                     es_refusal_name(refusal));
    }
    EXPECT_EQ(c->env.effective_op, ES_GROWTH_OP_WAIT);
    EXPECT_EQ(c->env.is_success, 0);
    EXPECT_EQ(c->env.acted_slot, -1);
    EXPECT(memcmp(before, c->seeds, sizeof before) == 0);
    c->env = env;
}

static EsAction with(EsAction action, int32_t head, int32_t value) {
    action.head[head] = (int8_t)value;
    return action;
}

TEST(refusals_of_any_operation) {
    LifecycleCase c = case_begin(DEFAULTS);
    case_measure(&c);
    EsAction germinate = action_on(ES_GROWTH_OP_GERMINATE, 0);
    expect_refusal(&c, action_on(6, 0), ES_REFUSAL_OP_UNKNOWN);
    expect_refusal(&c, action_on(-1, 0), ES_REFUSAL_OP_UNKNOWN);
    expect_refusal(&c, action_on(ES_GROWTH_OP_GERMINATE, 3), ES_REFUSAL_SLOT_UNKNOWN);
    expect_refusal(&c, action_on(ES_GROWTH_OP_PRUNE, -1), ES_REFUSAL_SLOT_UNKNOWN);
    expect_refusal(&c, with(germinate, ES_HEAD_BLUEPRINT, 0), ES_REFUSAL_BLUEPRINT);
    expect_refusal(&c, with(germinate, ES_HEAD_BLUEPRINT, 10), ES_REFUSAL_BLUEPRINT);
    expect_refusal(&c, with(germinate, ES_HEAD_BLUEPRINT, 13), ES_REFUSAL_HEAD_VALUE);
    expect_refusal(&c, with(germinate, ES_HEAD_STYLE, 4), ES_REFUSAL_HEAD_VALUE);
    expect_refusal(&c, with(germinate, ES_HEAD_TEMPO, -1), ES_REFUSAL_HEAD_VALUE);
    expect_refusal(&c, with(germinate, ES_HEAD_ALPHA_TARGET, 3), ES_REFUSAL_HEAD_VALUE);
    // heads that do not matter may hold anything
    EsAction odd = with(with(germinate, ES_HEAD_ALPHA_SPEED, 99), ES_HEAD_ALPHA_CURVE, -9);
    es_env_execute(&c.settings, &c.env, c.seeds, &odd);
    EXPECT_EQ(c.env.refusal, ES_REFUSAL_NONE);
}

TEST(refusals_by_state) {
    LifecycleCase c = case_begin(DEFAULTS);
    case_measure(&c);
    expect_refusal(&c, action_on(ES_GROWTH_OP_ADVANCE, 0), ES_REFUSAL_SLOT_EMPTY);
    expect_refusal(&c, action_on(ES_GROWTH_OP_FOSSILIZE, 0), ES_REFUSAL_SLOT_EMPTY);
    case_step(&c, action_on(ES_GROWTH_OP_GERMINATE, 0));
    case_measure(&c);
    expect_refusal(&c, action_on(ES_GROWTH_OP_GERMINATE, 0), ES_REFUSAL_SLOT_OCCUPIED);
    expect_refusal(&c, action_on(ES_GROWTH_OP_GERMINATE, 1), ES_REFUSAL_DEVELOPING);
    expect_refusal(&c, action_on(ES_GROWTH_OP_PRUNE, 0), ES_REFUSAL_TOO_YOUNG);
    expect_refusal(&c, action_on(ES_GROWTH_OP_FOSSILIZE, 0), ES_REFUSAL_STAGE);
    expect_refusal(&c, action_on(ES_GROWTH_OP_SET_ALPHA_TARGET, 0), ES_REFUSAL_STAGE);
    c.settings.auto_forward = ES_AUTO_FORWARD_ALL;
    case_wait(&c, 12);
    case_measure(&c);
    EXPECT_EQ(c.seeds[0].stage, ES_STAGE_BLENDING);
    expect_refusal(&c, action_on(ES_GROWTH_OP_ADVANCE, 0), ES_REFUSAL_AUTO_FORWARD);
    expect_refusal(&c, action_on(ES_GROWTH_OP_PRUNE, 0), ES_REFUSAL_ALPHA_MOVING);
    expect_refusal(&c, action_on(ES_GROWTH_OP_SET_ALPHA_TARGET, 0), ES_REFUSAL_ALPHA_MOVING);
    c.settings.max_seeds = 1;
    expect_refusal(&c, action_on(ES_GROWTH_OP_GERMINATE, 1), ES_REFUSAL_SEED_LIMIT);
    case_wait(&c, 5);
    case_step(&c, action_on(ES_GROWTH_OP_FOSSILIZE, 0));
    case_measure(&c);
    expect_refusal(&c, action_on(ES_GROWTH_OP_PRUNE, 0), ES_REFUSAL_FOSSIL);
}

TEST(nothing_is_done_without_a_measurement) {
    LifecycleCase c = case_begin(DEFAULTS);
    EsAction germinate = action_on(ES_GROWTH_OP_GERMINATE, 0);
    expect_refusal(&c, germinate, ES_REFUSAL_NOT_MEASURED); // no validation yet
    c.accuracy = NAN;
    case_measure(&c);
    expect_refusal(&c, germinate, ES_REFUSAL_NOT_MEASURED);
    EsAction wait = es_action_wait();
    es_env_execute(&c.settings, &c.env, c.seeds, &wait);
    EXPECT_EQ(c.env.refusal, ES_REFUSAL_NONE);
    EXPECT_EQ(c.env.is_success, 1);
}
