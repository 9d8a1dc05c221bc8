// The budget of parameters over random lives: masks and execution agree about every germination and
// every gate, and no policy ever exceeds it.
#include "control/random_life.h"
#include "control/rules/heuristic_rules.h"
#include "control/rules/sampling_rules.h"
#include "es_test.h"

#define N_LIVES 150

// Costs of blueprints and gates, and a budget that is too small for most of them.
static void limit(RandomLife *life) {
    EsGrowthSettings *g = &life->settings;
    g->n_host_parameters = 500 + (int32_t)life_below(life, 500);
    g->max_parameters = g->n_host_parameters + (int32_t)life_below(life, 900);
    for (int s = 0; s < g->n_slots; s++) {
        g->gate_parameters[s] = (int32_t)life_below(life, 80);
        for (int b = 1; b < ES_N_BLUEPRINT_IDS; b++) {
            g->blueprint_parameters[s][b] = (int32_t)life_below(life, 400);
        }
    }
}

// Counted here once more: everything that is neither empty nor gone.
static int64_t used(const RandomLife *life) {
    int64_t n = life->settings.n_host_parameters;
    for (int s = 0; s < life->settings.n_slots; s++) {
        const EsSeed *seed = &life->seeds[s];
        int is_gone = seed->stage == ES_STAGE_DORMANT || seed->stage == ES_STAGE_PRUNED ||
                      seed->stage == ES_STAGE_EMBARGOED || seed->stage == ES_STAGE_RESETTING;
        n += is_gone ? 0 : seed->n_parameters;
    }
    return n;
}

static int allows(uint32_t mask, int value) { return (mask >> value) & 1; }

// Masks as they narrow, head by head.
static int is_legal(const RandomLife *life, const EsAction *action) {
    int op = es_action_value(action, ES_HEAD_OP);
    int legal = allows(life->masks.head[ES_HEAD_OP], op);
    for (int head = 0; legal && head < ES_HEAD_OP; head++) {
        legal = !es_head_matters(op, head) || allows(es_masks_next(&life->masks, action, op, head),
                                                     es_action_value(action, head));
    }
    return legal;
}

// Every germination and every change of style on a copy of the host.
static void try_all(const RandomLife *life, int64_t *n_legal, int64_t *n_over) {
    static const int ops[] = {ES_GROWTH_OP_GERMINATE, ES_GROWTH_OP_SET_ALPHA_TARGET};
    static RandomLife copy;
    int n_slots = life->settings.n_slots;
    for (int i = 0; i < 2 * n_slots * ES_N_BLUEPRINT_IDS * ES_N_STYLES; i++) {
        EsAction action = es_action_wait();
        int rest = i / 2 / n_slots;
        action.head[ES_HEAD_OP] = (int8_t)ops[i % 2];
        action.head[ES_HEAD_SLOT] = (int8_t)(i / 2 % n_slots);
        action.head[ES_HEAD_BLUEPRINT] = (int8_t)(rest % ES_N_BLUEPRINT_IDS);
        action.head[ES_HEAD_STYLE] = (int8_t)(rest / ES_N_BLUEPRINT_IDS);
        copy = *life;
        es_env_execute(&copy.settings, &copy.env, copy.seeds, &action);
        int is_refused = copy.env.effective_op == ES_GROWTH_OP_WAIT;
        int legal = is_legal(life, &action);
        EXPECT(used(&copy) <= copy.settings.max_parameters);
        if (legal == is_refused) {
            ES_TEST_FAIL("op %d, slot %d, blueprint %d, style %d: legal %d, refusal %d", ops[i % 2],
                         action.head[ES_HEAD_SLOT], action.head[ES_HEAD_BLUEPRINT],
                         action.head[ES_HEAD_STYLE], legal, copy.env.refusal);
            return;
        }
        *n_legal += legal;
        *n_over += copy.env.refusal == ES_REFUSAL_SEED_LIMIT;
    }
}

TEST(masks_and_execution_agree) {
    static RandomLife life;
    int64_t n_legal = 0, n_over = 0;
    for (uint32_t world = 0; world < N_LIVES; world++) {
        life_begin(&life, 31, world);
        limit(&life);
        EsAction action;
        do {
            life_measure(&life);
            int is_measured = isfinite(life.env.loss) && isfinite(life.env.accuracy);
            if (is_measured && life.env.step % 5 == 0) { // else execution refuses everything
                try_all(&life, &n_legal, &n_over);
            }
            EsActionKey key = {9, world, (uint32_t)life.env.step};
            action = es_uniform_action(&key, &life.masks);
        } while (life_act(&life, &action));
    }
    EXPECT(n_legal > 1000);
    EXPECT(n_over > 1000);
}

typedef enum Who { UNIFORM, HEURISTIC, ROW, TABLE, N_KINDS } Who;

static EsAction decide(Who who, RandomLife *life, EsHeuristic *memory, uint32_t world) {
    static float logits[6 + 53 * ES_SLOTS_MAX];
    const float floor[ES_N_HEADS] = {0};
    EsActionKey key = {9, world, (uint32_t)life->env.step};
    if (who == UNIFORM) {
        return es_uniform_action(&key, &life->masks);
    }
    if (who == HEURISTIC) {
        EsHeuristicSettings rules = es_heuristic_settings(&life->settings);
        life->env.is_stabilised = 1;
        life->env.plateau_steps = rules.plateau_steps;
        return es_heuristic_decide(&rules, &life->settings, &life->env, life->seeds, &life->masks,
                                   memory);
    }
    for (size_t i = 0; i < ES_COUNT_OF(logits); i++) {
        logits[i] = life_between(life, -3, 3);
    }
    EsLogits given = {logits, life->settings.n_slots, who == TABLE};
    return es_policy_sample_from(&given, &life->masks, floor, &key, 0).action;
}

TEST(no_policy_exceeds_it) {
    static RandomLife life;
    for (Who who = UNIFORM; who < N_KINDS; who++) {
        int64_t n_germinated = 0, n_full = 0;
        for (uint32_t world = 0; world < N_LIVES; world++) {
            life_begin(&life, 37, world);
            limit(&life);
            EsHeuristic memory = es_heuristic_start();
            EsAction action;
            do {
                life_measure(&life);
                action = decide(who, &life, &memory, world);
                EXPECT(is_legal(&life, &action));
                n_germinated += es_action_value(&action, ES_HEAD_OP) == ES_GROWTH_OP_GERMINATE;
                n_full += life.masks.over_budget[0] != 0;
            } while (life_act(&life, &action) && used(&life) <= life.settings.max_parameters);
            EXPECT(used(&life) <= life.settings.max_parameters);
        }
        EXPECT(n_germinated > 100);
        EXPECT(n_full > 100);
    }
}

// Without a budget masks are as they were.
TEST(no_budget_no_limit) {
    static RandomLife life;
    life_begin(&life, 41, 3);
    limit(&life);
    life.settings.max_parameters = 0;
    life_measure(&life);
    EXPECT_EQ(es_parameters_left(&life.settings, life.seeds), INT64_MAX);
    for (int s = 0; s < ES_SLOTS_MAX; s++) {
        EXPECT_EQ(life.masks.over_budget[s], 0);
        EXPECT_EQ(life.masks.gate_over_budget[s], 0);
    }
}
