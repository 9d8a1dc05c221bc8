// The terms of a reward on hand-made states. Values are those the published program gives for the
// same inputs (100,000 host parameters, 150 steps) wherever the term is unchanged; the potential is
// tested in reward_loops_test.c.
#include "reward/reward_rules.h"

#include "es_test.h"

#define HOST 100000

// One step of one environment, as it looks when the reward is computed.
typedef struct Step {
    EsRewardSettings settings;
    EsGrowthSettings growth;
    EsGrowthEnv env;
    EsRewardEnv memory;
    EsSeed seeds[ES_SLOTS_MAX]; // after the tick
    EsRewardSeed latched[ES_SLOTS_MAX];
} Step;

// Step 40 of 150, all slots empty, nothing done, accuracy 64.
static Step step_begin(void) {
    Step t;
    memset(&t, 0, sizeof t);
    t.settings = es_reward_settings_default();
    t.growth = es_growth_settings_default(3, 10);
    es_growth_env_reset(&t.env);
    es_reward_env_reset(&t.memory);
    t.env.step = 41;
    t.env.loss = 1;
    t.env.accuracy = t.env.committed_accuracy = 64;
    for (int s = 0; s < ES_SLOTS_MAX; s++) {
        es_seed_reset(&t.seeds[s]);
        t.latched[s] = es_reward_seed_latch(&t.seeds[s]);
    }
    return t;
}

// A seed germinated in step 18, alpha 1, not measured.
static void put_seed(Step *t, int slot, int32_t stage, int32_t n, int32_t n_parameters) {
    EsSeed *seed = &t->seeds[slot];
    seed->stage = stage;
    seed->steps_in_stage = n;
    seed->germinated_step = 18;
    seed->n_parameters = n_parameters;
    seed->alpha = 1;
    seed->accuracy_germination = t->env.accuracy;
    t->latched[slot] = es_reward_seed_latch(seed);
}

static void measure_seed(Step *t, int slot, double contribution, double progress) {
    EsRewardSeed *seed = &t->latched[slot];
    seed->contribution = (float)contribution;
    seed->contribution_age = 0;
    seed->accuracy_germination = (float)((double)t->env.accuracy - progress);
}

static void set_joint(Step *t, double joint) {
    t->env.committed_accuracy = (float)((double)t->env.accuracy - joint);
}

static void set_op(Step *t, int32_t op, int32_t slot) {
    t->env.effective_op = op;
    t->env.acted_slot = slot;
}

static EsRewardTerms pay(Step *t) {
    EsRewardRules rules = {&t->settings, &t->growth, HOST};
    EsRewardTerms terms = es_reward_step(&rules, &t->memory, t->latched, &t->env, t->seeds);
    t->env.n_unrewarded_prunes = 0; // as the owner of the state does
    return terms;
}

// The seed of the vectors: slot 0, contribution c, all seeds together CF, progress p.
static Step vector(int32_t stage, int32_t n, double c, double joint, double p, int n_parameters) {
    Step t = step_begin();
    t.settings.shaping_weight = 0;
    put_seed(&t, 0, stage, n, n_parameters);
    measure_seed(&t, 0, c, p);
    set_joint(&t, joint);
    return t;
}

TEST(waiting_pays_what_a_seed_adds) {
    Step t = vector(ES_STAGE_BLENDING, 2, 2, 2, 1.5, 9610); // 10,000 in use with the slot's 390
    EsRewardTerms r = pay(&t);
    EXPECT_NEAR(r.attribution, 1.7142857, 1e-6);
    EXPECT_NEAR(r.rent, -0.0476551, 1e-6);
    EXPECT_NEAR(r.total, 1.750481 - 0.08385, 1e-6);
    t = vector(ES_STAGE_HOLDING, 4, 3, 3, 2, 10000);
    r = pay(&t);
    EXPECT_NEAR(r.attribution, 2.4, 1e-6);
    EXPECT_NEAR(r.warning, -0.2, 1e-6);
    EXPECT_NEAR(r.rent, -0.049425, 1e-6);
    EXPECT_NEAR(r.total, 2.230525 - 0.07995, 1e-6);
}

TEST(fossilising_pays_once) {
    Step t = vector(ES_STAGE_HOLDING, 5, 3, 3, 2, 10000);
    set_op(&t, ES_GROWTH_OP_FOSSILIZE, 0);
    EsRewardTerms r = pay(&t);
    EXPECT_NEAR(r.action, 1.754538, 1e-6);
    EXPECT_NEAR(r.warning, 0, 0);
    EXPECT_NEAR(r.total, 4.184614 - 0.0795, 2e-6);
    // a fossil of 2 steps of 5 counts 2/5
    t = vector(ES_STAGE_HOLDING, 2, 3, 3, 2, 10000);
    set_op(&t, ES_GROWTH_OP_FOSSILIZE, 0);
    EXPECT_NEAR(pay(&t).action, 0.4 * 1.764538 - 0.01, 1e-6);
    // and in full where no dwell is asked for
    t.growth.holding_dwell = 0;
    EXPECT_NEAR(pay(&t).action, 1.754538, 1e-6);
    // the threshold is growth's
    t.growth.min_contribution = 3.5f;
    EXPECT_NEAR(pay(&t).action, -0.21, 1e-6);
}

TEST(fossilising_what_harms_or_does_little_costs) {
    const double table[][3] = {{0.9, 0.5, -0.21}, // too little
                               {0.05, -1, -0.71}, // all seeds harm by 1
                               {0.05, -9, -1.51}, // capped
                               {2, -1, -1.01},    // and it holds them to ransom
                               {2, -0.2, -0.55}}; // which takes more than 0.2
    for (size_t i = 0; i < ES_COUNT_OF(table); i++) {
        Step t = vector(ES_STAGE_HOLDING, 5, table[i][0], table[i][1], 2, 0);
        set_op(&t, ES_GROWTH_OP_FOSSILIZE, 0);
        EsRewardTerms r = pay(&t);
        EXPECT_NEAR(r.action, table[i][2], 2e-6);
        if (table[i][1] < 0) {
            EXPECT_NEAR(r.attribution, 0, 0);
        }
    }
}

TEST(a_closed_gate_costs_and_changes_nothing_else) {
    Step t = vector(ES_STAGE_HOLDING, 4, 3, 3, 2, 0);
    set_op(&t, ES_GROWTH_OP_FOSSILIZE, 0);
    t.env.is_success = 0;
    t.env.refusal = ES_REFUSAL_GATE_CLOSED;
    EsRewardTerms r = pay(&t);
    EXPECT_NEAR(r.action, -1.01, 1e-6);
    EXPECT_NEAR(r.attribution, 2.4, 1e-6);
    EXPECT_NEAR(r.warning, -0.2, 1e-6); // still lingering
    // an executed one that nothing is known about
    t.env.is_success = 1;
    t.env.committed_accuracy = ES_NOT_MEASURED;
    EXPECT_NEAR(pay(&t).action, -1.01, 1e-6);
}

TEST(refused_operations_are_not_blamed) {
    Step t = vector(ES_STAGE_HOLDING, 1, 3, 3, 2, 0);
    t.env.sampled_op = ES_GROWTH_OP_FOSSILIZE;
    t.env.effective_op = ES_GROWTH_OP_WAIT;
    t.env.acted_slot = -1;
    t.env.is_success = 0;
    t.env.refusal = ES_REFUSAL_DIVERGENCE_PENDING;
    EsRewardTerms r = pay(&t);
    EXPECT_NEAR(r.action, 0, 0);
    EXPECT_NEAR(r.attribution, 2.4, 1e-6);
}

TEST(pruning_turns_attribution_round) {
    Step t = vector(ES_STAGE_BLENDING, 6, -1, -1, 2, 10000);
    t.memory.harm_charged[0] = 5; // of the steps before
    set_op(&t, ES_GROWTH_OP_PRUNE, 0);
    EsRewardTerms r = pay(&t);
    EXPECT_NEAR(r.attribution, 1, 1e-6);
    EXPECT_NEAR(r.warning, -0.4, 1e-6);
    EXPECT_NEAR(r.action, 0.145, 1e-6);
    EXPECT_NEAR(r.rent, -0.049425, 1e-6);
    t = vector(ES_STAGE_HOLDING, 3, 2, 2, 2, 10000);
    set_op(&t, ES_GROWTH_OP_PRUNE, 0);
    r = pay(&t);
    EXPECT_NEAR(r.attribution, -2, 1e-6);
    EXPECT_NEAR(r.action, -0.405, 1e-6);
    EXPECT_NEAR(r.total, -2 - 0.405 - 0.049425, 1e-6);
}

TEST(pruning_gives_back_no_more_harm_than_was_charged) {
    Step t = vector(ES_STAGE_BLENDING, 1, -3, 1, 2, 0);
    set_op(&t, ES_GROWTH_OP_PRUNE, 0);
    EXPECT_NEAR(pay(&t).attribution, 0, 0); // at first sight: nothing was charged
    set_op(&t, ES_GROWTH_OP_WAIT, -1);
    EXPECT_NEAR(pay(&t).attribution, -3, 1e-6);
    measure_seed(&t, 0, -1, 2);
    EXPECT_NEAR(pay(&t).attribution, -1, 1e-6);
    measure_seed(&t, 0, -9, 2);
    set_op(&t, ES_GROWTH_OP_PRUNE, 0);
    EXPECT_NEAR(pay(&t).attribution, 4, 1e-6);
    EXPECT_NEAR(pay(&t).attribution, 0, 0); // not twice
    t.memory.harm_charged[0] = 5;
    t.latched[0].stage = ES_STAGE_TRAINING; // another seed
    set_op(&t, ES_GROWTH_OP_WAIT, -1);
    pay(&t);
    EXPECT_NEAR(t.memory.harm_charged[0], 0, 0);
}

TEST(credit_can_be_limited_to_a_number_of_steps) {
    Step t = vector(ES_STAGE_HOLDING, 4, 3, 3, 2, 0);
    t.settings.credit_steps = 2;
    EXPECT_NEAR(pay(&t).attribution, 2.4, 1e-6);
    EXPECT_NEAR(pay(&t).attribution, 2.4, 1e-6);
    EsRewardTerms r = pay(&t);
    EXPECT_NEAR(r.attribution, 0, 0);
    EXPECT_NEAR(r.warning, -0.2, 1e-6); // it still lingers
    measure_seed(&t, 0, -1, 2);
    EXPECT_NEAR(pay(&t).attribution, -1, 1e-6); // harm is always charged
}

TEST(pruning_table) {
    const double table[][2] = {{-0.6, 0.145}, {-0.5, 0.095}, {-0.01, 0.095},
                               {0, -0.305},   {4, -0.505},   {50, -0.905}};
    for (size_t i = 0; i < ES_COUNT_OF(table); i++) {
        Step t = vector(ES_STAGE_HOLDING, 3, table[i][0], 1, 2, 0);
        set_op(&t, ES_GROWTH_OP_PRUNE, 0);
        EXPECT_NEAR(pay(&t).action, table[i][1], 1e-6);
    }
    Step t = vector(ES_STAGE_TRAINING, 3, 7, 1, 2, 0);
    t.latched[0].contribution_age = ES_NOT_MEASURED;
    set_op(&t, ES_GROWTH_OP_PRUNE, 0);
    EXPECT_NEAR(pay(&t).action, -0.005, 1e-9);
}

TEST(the_ratio_penalty_is_not_turned_round) {
    Step t = vector(ES_STAGE_BLENDING, 3, 8, 1, 5, 0);
    EXPECT_NEAR(pay(&t).attribution, 6.153846 - 0.06, 1e-6);
    set_op(&t, ES_GROWTH_OP_PRUNE, 0);
    EXPECT_NEAR(pay(&t).attribution, -6.153846 - 0.06, 1e-6);
    t = vector(ES_STAGE_BLENDING, 3, 8, 0.05, 5, 0);
    EXPECT_NEAR(pay(&t).attribution, 6.153846 - 0.24, 1e-6);
    t = vector(ES_STAGE_BLENDING, 3, 40, 1, 50, 0); // capped
    EXPECT_NEAR(pay(&t).attribution, 40 - 0.3, 1e-5);
    t = vector(ES_STAGE_BLENDING, 3, 1, 0, 50, 0); // too small to be asked
    EXPECT_NEAR(pay(&t).attribution, 1, 1e-6);
    t = vector(ES_STAGE_BLENDING, 3, 40, 1, 50, 0);
    t.settings.ratio_penalty = 0;
    EXPECT_NEAR(pay(&t).attribution, 40, 1e-5);
}

TEST(credit_fades_where_all_seeds_harm) {
    Step t = vector(ES_STAGE_BLENDING, 3, 2, -0.5, 1, 0);
    EsRewardTerms r = pay(&t);
    EXPECT_NEAR(r.attribution, 1.3333333 * 0.1824255, 1e-6);
    EXPECT_NEAR(r.warning, -0.25, 1e-6);
    t = vector(ES_STAGE_BLENDING, 3, 2, -90, 1, 0); // no overflow
    r = pay(&t);
    EXPECT_NEAR(r.attribution, 0, 1e-6);
    t = vector(ES_STAGE_BLENDING, 3, -2, -90, 1, 0); // harm is never discounted
    EXPECT_NEAR(pay(&t).attribution, -2, 1e-6);
}

TEST(credit_is_bounded_by_progress) {
    const double table[][3] = {{2, 0, 0}, {2, -3, 0}, {2, 5, 2}, {2, 2, 2}, {3, 2, 2.4}, {0, 0, 0}};
    for (size_t i = 0; i < ES_COUNT_OF(table); i++) {
        Step t = vector(ES_STAGE_BLENDING, 1, table[i][0], 1, table[i][1], 0);
        EXPECT_NEAR(pay(&t).attribution, table[i][2], 1e-6);
    }
}

TEST(early_germinations_earn_less) {
    const double table[][2] = {{0, 0.4}, {1, 0.46}, {5, 0.7}, {9, 0.94}, {10, 1}, {99, 1}};
    EsRewardSettings s = es_reward_settings_default();
    for (size_t i = 0; i < ES_COUNT_OF(table); i++) {
        EXPECT_NEAR(es_reward_timing(&s, (int32_t)table[i][0]), table[i][1], 1e-7);
    }
    s.germination_warmup = 0;
    EXPECT_NEAR(es_reward_timing(&s, 0), 1, 0);
    Step t = vector(ES_STAGE_BLENDING, 1, 2, 1, 5, 0);
    t.latched[0].germinated_step = 5;
    EXPECT_NEAR(pay(&t).attribution, 1.4, 1e-6);
}

// The original described the first slot alone on WAIT (HEAD-BUG 13).
TEST(all_measured_seeds_are_rewarded_whichever_acts) {
    Step t = step_begin();
    t.settings.shaping_weight = 0;
    put_seed(&t, 0, ES_STAGE_HOLDING, 1, 0);
    put_seed(&t, 1, ES_STAGE_FOSSILIZED, 9, 0);
    put_seed(&t, 2, ES_STAGE_BLENDING, 1, 0);
    measure_seed(&t, 0, 1, 5);
    measure_seed(&t, 1, 50, 5); // a fossil is never paid, whatever its fields say
    measure_seed(&t, 2, -2, 5);
    set_joint(&t, 3);
    EXPECT_NEAR(pay(&t).attribution, -1, 1e-6);
    set_op(&t, ES_GROWTH_OP_PRUNE, 2);
    EXPECT_NEAR(pay(&t).attribution, 3, 1e-6); // 2 given back
    t.latched[0].contribution_age = 1;         // measured a step ago: not this step's
    EXPECT_NEAR(pay(&t).attribution, 0, 0);
}

TEST(the_worst_warning_counts_alone) {
    Step t = step_begin();
    put_seed(&t, 0, ES_STAGE_BLENDING, 2, 0);
    put_seed(&t, 1, ES_STAGE_BLENDING, 9, 0);
    set_joint(&t, -0.1);
    EXPECT_NEAR(pay(&t).warning, -0.4, 1e-6);
    t.settings.warning_weight = 0;
    EXPECT_NEAR(pay(&t).warning, 0, 0);
    const double holding[][2] = {{1, 0}, {2, -0.1}, {3, -0.15}, {5, -0.25}, {6, -0.3}, {60, -0.3}};
    for (size_t i = 0; i < ES_COUNT_OF(holding); i++) {
        t = vector(ES_STAGE_HOLDING, (int32_t)holding[i][0], 2, 2, 2, 0);
        EXPECT_NEAR(pay(&t).warning, holding[i][1], 1e-6);
    }
    // what earns nothing is not urged on
    t = vector(ES_STAGE_HOLDING, 9, -1, 2, 2, 0);
    EXPECT_NEAR(pay(&t).warning, 0, 0);
}

TEST(synergy_takes_the_largest_interaction) {
    Step t = vector(ES_STAGE_HOLDING, 1, 2, 2, 2, 0);
    put_seed(&t, 1, ES_STAGE_BLENDING, 1, 0);
    measure_seed(&t, 1, 1, 2);
    t.latched[0].interaction_sum = 2;
    t.latched[1].interaction_sum = 1;
    EXPECT_NEAR(pay(&t).synergy, 0.0761594, 1e-6);
    measure_seed(&t, 0, -2, 2); // a seed that earns nothing has no share in it
    EXPECT_NEAR(pay(&t).synergy, 0.0462117, 1e-6);
    t.latched[1].interaction_sum = -1;
    EXPECT_NEAR(pay(&t).synergy, 0, 0);
    t.latched[1].interaction_sum = 2;
    set_joint(&t, -0.1);
    EXPECT_NEAR(pay(&t).synergy, 0, 0);
}

TEST(rent_is_logarithmic_and_capped) {
    Step t = step_begin();
    put_seed(&t, 0, ES_STAGE_TRAINING, 3, 50000); // not yet in use
    EXPECT_NEAR(pay(&t).rent, 0, 0);
    put_seed(&t, 0, ES_STAGE_FOSSILIZED, 3, 10000);
    EXPECT_NEAR(pay(&t).rent, -0.0494246, 1e-6);
    put_seed(&t, 0, ES_STAGE_HOLDING, 3, 10000);
    t.latched[0].alpha = 0.5f;
    EXPECT_NEAR(pay(&t).rent, -0.5 * log(1.0539), 1e-6);
    put_seed(&t, 0, ES_STAGE_HOLDING, 3, 10000000);
    EXPECT_NEAR(pay(&t).rent, -1.5, 0);
    t.settings.rent_floor = 1e9f; // a host counts as no smaller than this
    EXPECT_NEAR(pay(&t).rent, -0.5 * log(1 + 10000390 / 1e9), 1e-7);
}

TEST(shock_is_charged_to_the_step_that_moves_alpha) {
    Step t = step_begin();
    put_seed(&t, 0, ES_STAGE_BLENDING, 3, HOST);
    t.latched[0].alpha = 0.8f; // now 1
    EXPECT_NEAR(pay(&t).shock, -0.1958 * 0.04, 1e-6);
    t.seeds[0].alpha = 0;
    t.latched[0].n_parameters = 100 * HOST;
    EXPECT_NEAR(pay(&t).shock, -1, 0);
    t.settings.shock_weight = 0;
    EXPECT_NEAR(pay(&t).shock, 0, 0);
}

// Slots that cool down counted as occupied in the original (defect 15).
TEST(occupancy_counts_living_seeds) {
    Step t = step_begin();
    put_seed(&t, 0, ES_STAGE_GERMINATED, 1, 0);
    EXPECT_NEAR(pay(&t).occupancy, 0, 0);
    put_seed(&t, 1, ES_STAGE_EMBARGOED, 1, 0);
    EXPECT_NEAR(pay(&t).occupancy, 0, 0);
    put_seed(&t, 1, ES_STAGE_FOSSILIZED, 1, 0);
    put_seed(&t, 2, ES_STAGE_HOLDING, 1, 0);
    EXPECT_NEAR(pay(&t).occupancy, -0.022, 1e-7);
}

TEST(operations_have_costs) {
    Step t = step_begin();
    set_op(&t, ES_GROWTH_OP_GERMINATE, 1);
    EXPECT_NEAR(pay(&t).action, -0.15, 1e-7);
    put_seed(&t, 1, ES_STAGE_TRAINING, 10, 0);
    set_op(&t, ES_GROWTH_OP_ADVANCE, 1);
    EXPECT_NEAR(pay(&t).action, -0.1, 1e-7);
    put_seed(&t, 1, ES_STAGE_BLENDING, 10, 0);
    EXPECT_NEAR(pay(&t).action, 0, 0);
    set_op(&t, ES_GROWTH_OP_SET_ALPHA_TARGET, 1);
    EXPECT_NEAR(pay(&t).action, -0.005, 1e-9);
    t.settings.action_weight = 0;
    EXPECT_NEAR(pay(&t).action, 0, 0);
}

TEST(the_end_pays_accuracy) {
    Step t = step_begin();
    t.env.accuracy = t.env.committed_accuracy = 70;
    t.env.step = 150;
    EXPECT_NEAR(pay(&t).terminal, 0, 0);
    t.env.step = 151;
    EXPECT_NEAR(pay(&t).total, 3.5, 1e-6);
    t.env.accuracy = NAN;
    EXPECT_NEAR(pay(&t).total, 0, 0);
}

TEST(potential_of_a_slot) {
    const struct {
        int32_t stage;
        double phi;
    } table[] = {{ES_STAGE_UNKNOWN, 0},    {ES_STAGE_DORMANT, 0},    {ES_STAGE_GERMINATED, 1},
                 {ES_STAGE_TRAINING, 2},   {ES_STAGE_BLENDING, 3.5}, {ES_STAGE_HOLDING, 5.5},
                 {ES_STAGE_FOSSILIZED, 6}, {ES_STAGE_PRUNED, 0},     {ES_STAGE_EMBARGOED, 0},
                 {ES_STAGE_RESETTING, 0}};
    EsRewardSettings s = es_reward_settings_default();
    for (size_t i = 0; i < ES_COUNT_OF(table); i++) {
        double phi = table[i].phi;
        EXPECT_NEAR(es_reward_slot_potential(&s, table[i].stage, 0), phi, 0);
        EXPECT_NEAR(es_reward_slot_potential(&s, table[i].stage, 4), phi > 0 ? phi + 1.2 : 0, 1e-6);
        EXPECT_NEAR(es_reward_slot_potential(&s, table[i].stage, 7), phi > 0 ? phi + 2 : 0, 1e-6);
    }
}

TEST(shaping_of_a_stage_that_goes_on) {
    const double n[] = {1, 6, 7, 8};
    const double training[] = {0.08655, 0.0843, 0.054, -0.006};
    const double holding[] = {0.0813, 0.07905, 0.04875, -0.01125};
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 2; k++) {
            Step t = step_begin();
            double phi = k == 0 ? 2 : 5.5;
            put_seed(&t, 0, k == 0 ? ES_STAGE_TRAINING : ES_STAGE_HOLDING, (int32_t)n[i], 0);
            t.memory.potential = (float)(phi + fmin(0.3 * (n[i] - 1), 2));
            EXPECT_NEAR(pay(&t).shaping, k == 0 ? training[i] : holding[i], 1e-6);
            EXPECT_NEAR(t.memory.potential, phi + fmin(0.3 * n[i], 2), 1e-6);
        }
    }
}

// The original lost the penalty unless the panic came in the last step (HEAD-BUG 9), and blamed the
// next action for what the governor pruned.
TEST(a_rollback_pays_at_once_and_closes_the_potential) {
    Step t = vector(ES_STAGE_HOLDING, 4, 3, 3, 2, 10000);
    t.settings.shaping_weight = 0.3f;
    t.memory.potential = 10;
    t.env.refusal = ES_REFUSAL_ROLLED_BACK;
    t.env.is_success = 0;
    t.env.n_unrewarded_prunes = 2;
    t.env.accuracy = NAN;
    t.env.step = 151; // not even the last step pays
    EsRewardTerms r = pay(&t);
    EXPECT_NEAR(r.penalty, -10.4, 1e-6);
    EXPECT_NEAR(r.shaping, -0.3 * 0.995 * 10, 1e-6);
    EXPECT_NEAR(r.total, -10.4 - 2.985, 1e-6);
    EXPECT_NEAR(t.memory.potential, 0, 0);
    EXPECT_NEAR(r.attribution, 0, 0);
    t.env.refusal = ES_REFUSAL_NONE;
    EXPECT_NEAR(pay(&t).penalty, 0, 0);
}

TEST(basic_pays_fossils_and_the_gain_of_the_episode) {
    Step t = vector(ES_STAGE_BLENDING, 2, 2, 2, 1.5, 9610);
    t.settings.mode = ES_REWARD_BASIC;
    EsRewardTerms r = pay(&t);
    EXPECT_NEAR(r.total, -0.002, 1e-7);
    t = vector(ES_STAGE_HOLDING, 5, 3, 3, 2, 0);
    t.settings.mode = ES_REWARD_BASIC;
    set_op(&t, ES_GROWTH_OP_FOSSILIZE, 0);
    EXPECT_NEAR(pay(&t).action, 1.8, 1e-6);
    measure_seed(&t, 0, 0.9, 2);
    EXPECT_NEAR(pay(&t).action, -0.2, 1e-7);
    set_joint(&t, 0);
    EXPECT_NEAR(pay(&t).action, -0.5, 1e-7);
    measure_seed(&t, 0, 0.1, 2);
    EXPECT_NEAR(pay(&t).action, -0.2, 1e-7);
    t.env.is_success = 0;
    EXPECT_NEAR(pay(&t).action, -0.5, 1e-7);
    t.settings.param_budget = 39;
    EXPECT_NEAR(pay(&t).rent, -1, 1e-6);
    // the last step's change alone counted in the original (HEAD-BUG 6)
    t = step_begin();
    t.settings.mode = ES_REWARD_BASIC;
    t.memory.first_accuracy = 24;
    t.memory.last_accuracy = 63.9f;
    t.env.step = 151;
    EXPECT_NEAR(pay(&t).total, 2, 1e-6);
    t.env.accuracy = NAN; // then the last one measured
    EXPECT_NEAR(pay(&t).total, 2, 1e-6);
}

TEST(sparse_pays_what_is_committed_at_the_end) {
    Step t = step_begin();
    t.settings.mode = ES_REWARD_SPARSE;
    put_seed(&t, 0, ES_STAGE_FOSSILIZED, 3, 100000);
    put_seed(&t, 1, ES_STAGE_HOLDING, 3, 900000);
    t.env.accuracy = 90;
    t.env.committed_accuracy = 70;
    EXPECT_NEAR(pay(&t).total, 0, 0);
    t.env.step = 151;
    EXPECT_NEAR(pay(&t).total, 0.68, 1e-6); // the budget is 5 hosts
    t.settings.param_budget = 50000;
    t.settings.sparse_scale = 2;
    EXPECT_NEAR(pay(&t).total, 1, 1e-6);
    t.settings.param_budget = 1;
    EXPECT_NEAR(pay(&t).total, -2, 1e-6);
    t.settings.param_budget = 0;
    t.settings.sparse_scale = 1;
    t.env.committed_accuracy = NAN; // then the last one measured
    EXPECT_NEAR(pay(&t).total, 0.68, 1e-6);
    t.env.n_unrewarded_prunes = 1;
    EXPECT_NEAR(pay(&t).penalty, -0.2, 1e-7);
}

TEST(nothing_measured_earns_nothing) {
    Step t = vector(ES_STAGE_HOLDING, 4, 3, 3, 2, 0);
    t.env.committed_accuracy = NAN;
    EsRewardTerms r = pay(&t);
    EXPECT_NEAR(r.attribution, 0, 0);
    EXPECT_NEAR(r.warning, 0, 0);
    t = vector(ES_STAGE_HOLDING, 4, 3, 3, 2, 0);
    t.env.accuracy = ES_NOT_MEASURED;
    EXPECT_NEAR(pay(&t).attribution, 0, 0);
}

TEST(budget_pays_what_growing_gained_over_the_control) {
    Step t = step_begin(); // accuracy 64
    t.settings.mode = ES_REWARD_BUDGET;
    t.settings.control = 2;
    t.memory.control_accuracy = 60;
    put_seed(&t, 0, ES_STAGE_FOSSILIZED, 3, 30000);
    put_seed(&t, 1, ES_STAGE_TRAINING, 3, 20000); // all that lives counts, in full
    t.latched[0].alpha = 0.5f;
    t.growth.max_parameters = HOST + 100000;
    EsRewardTerms r = pay(&t);
    EXPECT_NEAR(r.attribution, 0.04 / 150, 1e-9);
    // the curve weighs a tenth of the end, and so does its rent
    EXPECT_NEAR(r.rent, -0.1 * 0.5 * 0.1 / 150, 1e-9);
    EXPECT_NEAR(r.total, (0.04 - 0.005) / 150, 1e-9);
    t.env.step = 151;
    r = pay(&t);
    EXPECT_NEAR(r.terminal, 0.4, 1e-7);
    EXPECT_NEAR(r.rent, -0.05 * (1 + 0.1 / 150), 1e-7);
    EXPECT_NEAR(r.total, 0.4 - 0.05 + (0.04 - 0.005) / 150, 1e-7);
    t.growth.max_parameters = 0; // then five hosts
    EXPECT_NEAR(pay(&t).rent, -0.1 * 0.1 * (1 + 0.1 / 150), 1e-7);
    t.growth.max_parameters = HOST; // no room at all: finite
    EXPECT_NEAR(pay(&t).rent, -0.1 * 50000 * (1 + 0.1 / 150), 1e-3);
    t.growth.max_parameters = HOST + 100000;
    t.settings.budget_curve = 0; // then the end alone pays and is paid
    EXPECT_NEAR(pay(&t).rent, -0.05, 1e-7);
    t.settings.budget_curve = 3;
    t.settings.budget_terminal = 0; // finite: the whole rent, once over the episode
    EXPECT_NEAR(pay(&t).rent, -0.05 * (1 + 1.0 / 150), 1e-7);
    t.settings.budget_curve = 1;
    t.settings.budget_terminal = 10;
    // a control that is not measured gives nothing to compare with; without one it is the start
    t.memory.control_accuracy = ES_NOT_MEASURED;
    EXPECT_NEAR(pay(&t).total, 0, 0);
    t.settings.control = 0;
    t.memory.first_accuracy = 14;
    EXPECT_NEAR(pay(&t).terminal, 5, 1e-6);
}
