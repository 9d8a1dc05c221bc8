// The heuristic policy as a table of decisions, and over whole lives.
#include "control/rules/heuristic_rules.h"

#include "control/random_life.h"
#include "es_test.h"
#include "growth/lifecycle_case.h"

typedef struct Decider {
    LifecycleCase c;
    EsHeuristicSettings rules;
    EsHeuristic memory;
} Decider;

static Decider begin(EsGrowthSettings settings) {
    Decider d = {.c = case_begin(settings), .memory = es_heuristic_start()};
    d.rules = es_heuristic_settings(&d.c.settings);
    return d;
}

static EsAction decide(Decider *d) {
    d->c.masks = es_env_masks(&d->c.settings, &d->c.env, d->c.seeds);
    return es_heuristic_decide(&d->rules, &d->c.settings, &d->c.env, d->c.seeds, &d->c.masks,
                               &d->memory);
}

static int decided_op(Decider *d) { return decide(d).head[ES_HEAD_OP]; }

// A stabilised host on a plateau, late enough.
static Decider settled(EsGrowthSettings settings) {
    Decider d = begin(settings);
    d.c.env.step = 20;
    d.c.env.loss = 1;
    d.c.env.accuracy = 50;
    d.c.env.is_stabilised = 1;
    d.c.env.plateau_steps = 3;
    return d;
}

// The same with a seed in slot 1 that is old enough for everything.
static Decider with_seed(int32_t stage, int32_t steps_in_stage) {
    Decider d = settled(es_growth_settings_default(3, 10));
    EsSeed *seed = &d.c.seeds[1];
    seed->stage = stage;
    seed->blueprint = ES_BLUEPRINT_ID_NORM;
    seed->steps_in_stage = steps_in_stage;
    seed->age = 15;
    seed->accuracy_initial = seed->accuracy_stage_start = 48;
    seed->accuracy_now = 50;
    return d;
}

TEST(published_numbers) {
    EsGrowthSettings growth = es_growth_settings_default(3, 10);
    EsHeuristicSettings s = es_heuristic_settings(&growth);
    EXPECT_EQ(s.first_step, 5);
    EXPECT_EQ(s.pause_steps, 5);
    EXPECT_EQ(s.prune_steps, 5);
    const int32_t rotation[] = {1, 7, 2, 3, 4};
    for (int i = 0; i < 5; i++) {
        EXPECT_EQ(s.rotation[i], rotation[i]);
    }
    growth = es_growth_settings_tiny(3, 10);
    s = es_heuristic_settings(&growth);
    EXPECT_EQ(s.first_step, 1);
    EXPECT_EQ(s.pause_steps, 2);
    EXPECT_EQ(s.prune_steps, 2);
}

TEST(every_topology_has_a_rotation) {
    EsGrowthSettings growth = es_growth_settings_default(3, 10);
    growth.blueprints = ES_BLUEPRINTS_TRANSFORMER;
    EsHeuristicSettings s = es_heuristic_settings(&growth);
    EXPECT_EQ(s.n_rotation, 5);
    for (int i = 0; i < s.n_rotation; i++) {
        EXPECT(es_blueprint_is_legal(&growth, s.rotation[i]));
    }
    for (int b = 1; b < ES_N_BLUEPRINT_IDS; b++) {
        growth.blueprints = ES_BLUEPRINT_ID_BIT(b);
        s = es_heuristic_settings(&growth);
        EXPECT_EQ(s.n_rotation, 1);
        EXPECT_EQ(s.rotation[0], b);
    }
}

TEST(germination) {
    Decider d = settled(es_growth_settings_default(3, 10));
    EsAction action = decide(&d);
    EXPECT_EQ(action.head[ES_HEAD_OP], ES_GROWTH_OP_GERMINATE);
    EXPECT_EQ(action.head[ES_HEAD_SLOT], 0);
    EXPECT_EQ(action.head[ES_HEAD_BLUEPRINT], ES_BLUEPRINT_ID_CONV_LIGHT);
    EXPECT_EQ(action.head[ES_HEAD_STYLE], ES_STYLE_SIGMOID_ADD);
    EXPECT_EQ(action.head[ES_HEAD_TEMPO], ES_TEMPO_STANDARD);
    EXPECT_EQ(action.head[ES_HEAD_ALPHA_TARGET], ES_ALPHA_TARGET_FULL);
    // the first slot is taken by a fossil: the next legal one, and the next blueprint
    d.c.seeds[0].stage = ES_STAGE_FOSSILIZED;
    action = decide(&d);
    EXPECT_EQ(action.head[ES_HEAD_SLOT], 1);
    EXPECT_EQ(action.head[ES_HEAD_BLUEPRINT], ES_BLUEPRINT_ID_CONV_HEAVY);
}

TEST(reasons_not_to_germinate) {
    EsGrowthSettings settings = es_growth_settings_default(2, 10);
    Decider d = settled(settings);
    d.memory.last_prune_step = 16; // 4 steps ago
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_WAIT);
    d.memory.last_prune_step = 15;
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_GERMINATE);
    d = settled(settings);
    d.c.env.is_stabilised = 0;
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_WAIT);
    d = settled(settings);
    d.c.env.step = 4;
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_WAIT);
    d.c.env.step = 5;
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_GERMINATE);
    d = settled(settings);
    d.c.env.plateau_steps = 2;
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_WAIT);
    d = settled(settings);
    d.c.seeds[0].stage = d.c.seeds[1].stage = ES_STAGE_FOSSILIZED; // no free slot
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_WAIT);
    d = settled(settings);
    d.c.seeds[0].stage = ES_STAGE_EMBARGOED; // another slot cools down: not legal
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_WAIT);
    EXPECT_EQ(d.memory.next, 0); // the rotation did not move
}

TEST(germinated_and_training) {
    Decider d = with_seed(ES_STAGE_GERMINATED, 1);
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_ADVANCE);
    EXPECT_EQ(decide(&d).head[ES_HEAD_SLOT], 1);
    d = with_seed(ES_STAGE_TRAINING, 5);
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_ADVANCE);
    d.c.seeds[1].accuracy_now = 46; // exactly -2: not below
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_ADVANCE);
    d.c.seeds[1].accuracy_now = 45.9f;
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_PRUNE);
    d = with_seed(ES_STAGE_TRAINING, 4);
    d.c.seeds[1].accuracy_now = 30; // too early to judge
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_ADVANCE);
}

TEST(blending) {
    Decider d = with_seed(ES_STAGE_BLENDING, 3);
    EsSeed *seed = &d.c.seeds[1];
    seed->alpha = 0.5f;
    seed->alpha_target = 1;
    seed->alpha_mode = ES_ALPHA_UP;
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_WAIT);
    seed->alpha = 1;
    seed->alpha_mode = ES_ALPHA_HOLD;
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_ADVANCE);
    seed->alpha = seed->alpha_target = 0.7f; // rests below 1
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_WAIT);
    seed->steps_in_stage = 5;
    seed->accuracy_now = 40;
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_PRUNE);
    seed->alpha_mode = ES_ALPHA_UP; // not legal while alpha moves
    seed->alpha_target = 1;
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_WAIT);
}

TEST(holding) {
    // contribution, whether measured, accuracy when it germinated and now, what follows
    const struct {
        float contribution;
        int32_t age;
        float initial, now;
        int op;
    } rows[] = {
        {0, -1, 48, 50, ES_GROWTH_OP_WAIT},
        {2, 0, 48, 50, ES_GROWTH_OP_FOSSILIZE},
        {0.6f, 0, 48, 50, ES_GROWTH_OP_FOSSILIZE},
        {0.5f, 0, 48, 50, ES_GROWTH_OP_PRUNE}, // not above
        {-1, 0, 48, 50, ES_GROWTH_OP_PRUNE},
        {2, 0, 50, 49.9f, ES_GROWTH_OP_PRUNE},  // the host is worse: ransom
        {2, 0, 50, 50, ES_GROWTH_OP_FOSSILIZE}, // not worse
        {0.05f, 0, 50, 40, ES_GROWTH_OP_PRUNE}, // of no use
    };
    for (size_t i = 0; i < ES_COUNT_OF(rows); i++) {
        Decider d = with_seed(ES_STAGE_HOLDING, 3);
        EsSeed *seed = &d.c.seeds[1];
        seed->alpha = seed->alpha_target = 1;
        seed->contribution = rows[i].contribution;
        seed->contribution_age = rows[i].age;
        seed->accuracy_initial = rows[i].initial;
        seed->accuracy_now = rows[i].now;
        int op = decided_op(&d);
        if (op != rows[i].op) {
            ES_TEST_FAIL("row %zu: op %d, expected %d", i, op, rows[i].op);
        }
    }
}

TEST(what_is_not_legal_becomes_wait) {
    Decider d = with_seed(ES_STAGE_TRAINING, 12);
    d.c.settings.auto_forward = ES_AUTO_FORWARD_ALL; // stages advance on their own
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_WAIT);
    d = with_seed(ES_STAGE_HOLDING, 3);
    d.c.seeds[1].contribution = 3;
    d.c.seeds[1].contribution_age = 0;
    d.c.env.n_divergences = 1; // nothing may become permanent
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_WAIT);
    d = with_seed(ES_STAGE_HOLDING, 3);
    d.c.seeds[1].contribution_age = 0;
    d.c.seeds[1].age = 4; // too young
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_WAIT);
    EXPECT(d.memory.penalty[ES_BLUEPRINT_ID_NORM] == 0); // and nobody is blamed
}

TEST(a_prune_is_remembered) {
    Decider d = with_seed(ES_STAGE_HOLDING, 3);
    d.c.seeds[1].contribution_age = 0;
    EsAction action = decide(&d);
    EXPECT_EQ(action.head[ES_HEAD_OP], ES_GROWTH_OP_PRUNE);
    EXPECT_EQ(action.head[ES_HEAD_ALPHA_SPEED], ES_ALPHA_SPEED_INSTANT);
    EXPECT_EQ(d.memory.last_prune_step, 20);
    EXPECT_NEAR(d.memory.penalty[ES_BLUEPRINT_ID_NORM], 2, 0);
    decide(&d); // the same step: no decay, pruned again
    EXPECT_NEAR(d.memory.penalty[ES_BLUEPRINT_ID_NORM], 4, 0);
    d.c.seeds[1].stage = ES_STAGE_EMBARGOED;
    const double expected[] = {2, 1, 0.5, 0.25, 0.125, 0, 0}; // forgotten below 0.1
    for (int i = 0; i < 7; i++) {
        d.c.env.step++;
        decide(&d);
        EXPECT_NEAR(d.memory.penalty[ES_BLUEPRINT_ID_NORM], expected[i], 0);
    }
}

TEST(the_rotation_passes_over_penalties) {
    Decider d = begin(es_growth_settings_default(3, 10));
    EXPECT_EQ(es_heuristic_blueprint(&d.rules, ~0u, &d.memory), ES_BLUEPRINT_ID_CONV_LIGHT);
    d.memory.penalty[ES_BLUEPRINT_ID_CONV_HEAVY] = 3; // from the threshold on
    d.memory.penalty[ES_BLUEPRINT_ID_ATTENTION] = 2.9f;
    EXPECT_EQ(es_heuristic_blueprint(&d.rules, ~0u, &d.memory), ES_BLUEPRINT_ID_ATTENTION);
    EXPECT_EQ(es_heuristic_blueprint(&d.rules, ~0u, &d.memory), ES_BLUEPRINT_ID_NORM);
    EXPECT_EQ(es_heuristic_blueprint(&d.rules, ~0u, &d.memory), ES_BLUEPRINT_ID_DEPTHWISE);
    EXPECT_EQ(es_heuristic_blueprint(&d.rules, ~0u, &d.memory), ES_BLUEPRINT_ID_CONV_LIGHT);
    for (int b = 0; b < ES_N_BLUEPRINT_IDS; b++) {
        d.memory.penalty[b] = 5;
    }
    d.memory.penalty[ES_BLUEPRINT_ID_DEPTHWISE] = 4;
    EXPECT_EQ(es_heuristic_blueprint(&d.rules, ~0u, &d.memory), ES_BLUEPRINT_ID_DEPTHWISE);
    d.memory.penalty[ES_BLUEPRINT_ID_DEPTHWISE] = 5;
    EXPECT_EQ(es_heuristic_blueprint(&d.rules, ~0u, &d.memory), ES_BLUEPRINT_ID_CONV_LIGHT);
}

TEST(the_rotation_passes_over_blueprints_that_are_not_allowed) {
    Decider d = begin(es_growth_settings_default(3, 10));
    uint32_t allowed = 1u << ES_BLUEPRINT_ID_NORM | 1u << ES_BLUEPRINT_ID_DEPTHWISE;
    d.memory.penalty[ES_BLUEPRINT_ID_NORM] = 4;
    EXPECT_EQ(es_heuristic_blueprint(&d.rules, allowed, &d.memory), ES_BLUEPRINT_ID_DEPTHWISE);
    d.memory.penalty[ES_BLUEPRINT_ID_DEPTHWISE] = 5; // both from the threshold on
    EXPECT_EQ(es_heuristic_blueprint(&d.rules, allowed, &d.memory), ES_BLUEPRINT_ID_NORM);
    int32_t next = d.memory.next;
    EXPECT_EQ(es_heuristic_blueprint(&d.rules, 1u << ES_BLUEPRINT_ID_NOOP, &d.memory),
              ES_BLUEPRINT_ID_NOOP);
    EXPECT_EQ(d.memory.next, next);
}

TEST(a_step_that_is_not_measured_is_left_alone) {
    Decider d = settled(es_growth_settings_default(3, 10));
    d.c.env.accuracy = NAN;
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_WAIT);
    d.c.env.accuracy = 50;
    d.c.env.loss = INFINITY;
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_WAIT);
    EXPECT_EQ(d.memory.next, 0);
    // a rollback takes seeds out: the pause begins
    d = with_seed(ES_STAGE_TRAINING, 12);
    d.c.env.panic = ES_PANIC_NAN;
    EXPECT_EQ(decided_op(&d), ES_GROWTH_OP_WAIT);
    EXPECT_EQ(d.memory.last_prune_step, 20);
}

// The original could neither leave TRAINING nor fossilise: health and contribution never reached
// it.
TEST(a_whole_life) {
    Decider d = begin(es_growth_settings_tiny(2, 10));
    int32_t fossil_step = 0;
    for (int step = 1; step <= 30; step++) {
        case_measure(&d.c); // loss 1, accuracy 50: a plateau from the start
        EsAction action = decide(&d);
        EXPECT(action.head[ES_HEAD_OP] == 0 ||
               case_allows(&d.c, action.head[ES_HEAD_OP], action.head[ES_HEAD_SLOT]));
        es_env_apply(&d.c.settings, &d.c.env, d.c.seeds, &action);
        es_env_tick(&d.c.settings, &d.c.env, d.c.seeds);
        if (fossil_step == 0 && d.c.env.n_fossils > 0) {
            fossil_step = step;
        }
    }
    // stable and on a plateau after step 4; ADVANCE in 5, 8 and 10 open the three gates
    EXPECT_EQ(fossil_step, 11);
    EXPECT_EQ(d.c.env.n_fossils, 2); // both slots
    EXPECT_EQ(d.c.seeds[0].blueprint, ES_BLUEPRINT_ID_CONV_LIGHT);
    EXPECT_EQ(d.c.seeds[1].blueprint, ES_BLUEPRINT_ID_CONV_HEAVY);
}

TEST(never_illegal) {
    static RandomLife life;
    int64_t n_steps = 0, n_ops[ES_N_GROWTH_OPS] = {0};
    for (uint32_t world = 0; n_steps < 100000; world++) {
        life_begin(&life, 4, world);
        EsHeuristicSettings rules = es_heuristic_settings(&life.settings);
        rules.plateau_steps = 0; // losses are noise: wait for nothing
        EsHeuristic memory = es_heuristic_start();
        EsAction action;
        do {
            life_measure(&life);
            life.env.is_stabilised = 1;
            action = es_heuristic_decide(&rules, &life.settings, &life.env, life.seeds, &life.masks,
                                         &memory);
            if (!life_allows(&life, &action)) {
                ES_TEST_FAIL("world %u, step %d: an illegal action", world, life.env.step);
                return;
            }
            n_ops[action.head[ES_HEAD_OP]]++;
            n_steps++;
        } while (life_act(&life, &action));
    }
    EXPECT(n_ops[ES_GROWTH_OP_GERMINATE] > 1000 && n_ops[ES_GROWTH_OP_ADVANCE] > 1000);
    EXPECT(n_ops[ES_GROWTH_OP_PRUNE] > 100 && n_ops[ES_GROWTH_OP_FOSSILIZE] > 100);
    EXPECT_EQ(n_ops[ES_GROWTH_OP_SET_ALPHA_TARGET], 0);
}
