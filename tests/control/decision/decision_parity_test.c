// The rules of the decision phase on CUDA and on the CPU: observation, heuristic, uniform and
// learned choices with their gradients, rewards. All state and all results equal bit for bit in
// every step; one NaN is as good as another.
#include "control/decision_parity_life.h"
#include "es_test.h"
#include "tensor/device.h"

#define N_ENVS  4096
#define N_STEPS 120 // two to four episodes

// --- settings ---

static LifeSettings make_kind(int kind) {
    static const int32_t n_slots[LIFE_KINDS] = {3, 1, 2, 5, 3, 16, 4, 8};
    static const float floors[ES_N_HEADS] = {0.05f, 0.12f, 0.08f, 0.12f,
                                             0.08f, 0.06f, 0.06f, 0.15f};
    LifeSettings s;
    memset(&s, 0, sizeof s);
    s.growth = kind < 6 ? es_growth_settings_tiny(n_slots[kind], 10)
                        : es_growth_settings_default(n_slots[kind], 10);
    s.growth.episode_steps = 30 + 5 * kind;
    s.growth.auto_forward = kind % 4 == 0 ? 0 : kind;
    s.growth.is_strict = kind == 4 || kind == 7;
    s.growth.max_seeds = kind == 3 ? 2 : 0;
    s.growth.blueprints = kind == 2 ? ES_BLUEPRINTS_TRANSFORMER : ES_BLUEPRINTS_CNN;
    for (int slot = 0; slot < ES_SLOTS_MAX; slot++) {
        for (int b = 0; b < ES_N_BLUEPRINT_IDS; b++) {
            s.growth.blueprint_parameters[slot][b] = 37 * b + 11 * slot;
        }
        s.growth.gate_parameters[slot] = kind % 3 == 1 ? 60 : 9;
        s.growth.slot_channels[slot] = 4 + 7 * slot;
        s.growth.slot_side[slot] = 32 >> (slot % 5);
        s.growth.slot_pool[slot] = slot % 3;
    }
    s.growth.n_host_parameters = 150 + 400 * kind;
    s.growth.n_blocks = 3;
    // too little for the larger blueprints, for several seeds, and for a gate
    s.growth.max_parameters =
        kind % 3 == 1 ? s.growth.n_host_parameters + (kind == 1 ? 250 : 900) : 0;
    s.growth.rate_decay = kind % 4;
    for (int mode = 0; mode < ES_N_REWARD_MODES; mode++) {
        s.reward[mode] = es_reward_settings_default();
        s.reward[mode].mode = mode;
        s.reward[mode].credit_steps = kind % 2 == 0 ? 0 : 3;
        s.reward[mode].param_budget = kind == 6 ? 5000 : 0;
    }
    s.n_host_parameters = 150 + 400 * kind;
    for (int head = 0; head < ES_N_HEADS; head++) {
        // without a floor, as published, and so high that it is cut
        s.floor[head] = kind % 4 == 1 ? 0.0f : kind == 6 ? 0.4f : floors[head];
    }
    s.noise = kind % 2 == 0 ? 0.01f : 0.5f;
    return s;
}

static void make_kinds(LifeSettings *kinds) {
    for (int kind = 0; kind < LIFE_KINDS; kind++) {
        kinds[kind] = make_kind(kind);
        REQUIRE_OK(es_growth_settings_check(&kinds[kind].growth));
        for (int mode = 0; mode < ES_N_REWARD_MODES; mode++) {
            REQUIRE_OK(es_reward_settings_check(&kinds[kind].reward[mode]));
        }
    }
}

static LifeWorld *make_worlds(uint32_t n_envs) {
    LifeWorld *worlds = calloc(n_envs, sizeof *worlds);
    if (worlds == NULL) {
        printf("no memory for %u worlds\n", n_envs);
        exit(1);
    }
    return worlds;
}

// --- comparing ---

typedef struct Comparison {
    uint32_t env, step;
    int64_t n_different; // elements
} Comparison;

static int is_nan_float(const void *bytes) {
    float x;
    memcpy(&x, bytes, sizeof x);
    return isnan(x);
}

static int is_nan_double(const void *bytes) {
    double x;
    memcpy(&x, bytes, sizeof x);
    return isnan(x);
}

static int is_never_nan(const void *bytes) {
    (void)bytes;
    return 0;
}

static void print_bytes(const unsigned char *bytes, size_t n) {
    for (size_t i = n; i > 0; i--) {
        printf("%02x", bytes[i - 1]);
    }
}

static void compare_elements(Comparison *c, const char *part, int index, const char *name,
                             const void *here, const void *there, size_t n, size_t bytes,
                             int (*is_nan)(const void *)) {
    const unsigned char *a = here, *b = there;
    for (size_t i = 0; i < n; i++, a += bytes, b += bytes) {
        if (memcmp(a, b, bytes) == 0 || (is_nan(a) && is_nan(b))) {
            continue;
        }
        if (c->n_different++ < 20) {
            printf("  environment %u, step %u: %s %d, %s[%zu] is ", c->env, c->step, part, index,
                   name, i);
            print_bytes(a, bytes);
            printf(" on the CPU, ");
            print_bytes(b, bytes);
            printf(" on CUDA\n");
        }
    }
}

#define COMPARE(part, index, name, here, there, n, type)                                           \
    compare_elements(c, part, index, name, here, there, n, sizeof(type),                           \
                     _Generic((type){0}, float                                                     \
                              : is_nan_float, double                                               \
                              : is_nan_double, default                                             \
                              : is_never_nan))

static void compare_state(Comparison *c, const LifeWorld *a, const LifeWorld *b) {
#define X(type, name, empty, meaning)                                                              \
    COMPARE("environment", 0, #name, &a->env.name, &b->env.name, 1, type);
    ES_GROWTH_ENV_FIELDS(X)
#undef X
#define X(type, name, count, meaning)                                                              \
    COMPARE("environment", 0, #name, a->env.name, b->env.name, count, type);
    ES_GROWTH_ENV_ARRAYS(X)
#undef X
    for (int s = 0; s < ES_SLOTS_MAX; s++) {
#define X(type, name, empty, meaning)                                                              \
    COMPARE("slot", s, #name, &a->seeds[s].name, &b->seeds[s].name, 1, type);
        ES_SEED_FIELDS(X)
#undef X
    }
    // only numbers of 32 bits, none of them NaN: whole structs
    COMPARE("heuristic", 0, "settings", &a->rules, &b->rules, sizeof a->rules / 4, int32_t);
    COMPARE("heuristic", 0, "memory", &a->memory, &b->memory, sizeof a->memory / 4, int32_t);
}

static void compare_rewards(Comparison *c, const LifeWorld *a, const LifeWorld *b) {
    for (int mode = 0; mode < ES_N_REWARD_MODES; mode++) {
        const EsRewardEnv *m = &a->reward[mode], *n = &b->reward[mode];
#define X(type, name, start, meaning) COMPARE("reward", mode, #name, &m->name, &n->name, 1, type);
        ES_REWARD_ENV_FIELDS(X)
#undef X
#define X(type, name, count, meaning) COMPARE("reward", mode, #name, m->name, n->name, count, type);
        ES_REWARD_ENV_ARRAYS(X)
#undef X
    }
}

static void compare_worlds(Comparison *c, const LifeWorld *a, const LifeWorld *b) {
    if (memcmp(a, b, sizeof *a) == 0) {
        return;
    }
    compare_state(c, a, b);
    compare_rewards(c, a, b);
#define X(type, name, count)                                                                       \
    COMPARE("result", 0, #name, a->results.name, b->results.name, count, type);
    LIFE_RESULTS(X)
#undef X
}

// --- what the lives came across ---

typedef struct Census {
    int64_t n_effective[ES_N_GROWTH_OPS], n_by_heuristic[ES_N_GROWTH_OPS];
    int64_t n_stage[16];
    int64_t n_terms[ES_N_REWARD_MODES][LIFE_TERMS]; // that are not 0
    int64_t n_refused, n_rollbacks, n_contributing, n_forced, n_ends, n_nan, n_slopes, n_rows;
    int64_t n_empty_rows, n_over_budget, n_gates_over_budget;
} Census;

static void count_world(Census *census, const LifeSettings *s, const LifeWorld *world) {
    const LifeResults *r = &world->results;
    int is_success = world->env.is_success && world->env.effective_op >= 0;
    census->n_effective[world->env.effective_op] += is_success;
    census->n_by_heuristic[r->heuristic_action[ES_HEAD_OP]]++;
    for (int slot = 0; slot < s->growth.n_slots; slot++) {
        census->n_stage[world->seeds[slot].stage & 15]++;
        census->n_contributing += world->seeds[slot].is_contributing;
    }
    for (int i = 0; i < ES_N_REWARD_MODES * LIFE_TERMS; i++) {
        census->n_terms[i / LIFE_TERMS][i % LIFE_TERMS] += r->terms[i] != 0;
    }
    census->n_rollbacks += world->env.refusal == ES_REFUSAL_ROLLED_BACK;
    census->n_refused += world->env.refusal != ES_REFUSAL_NONE;
    census->n_forced += r->legality[2] != 0;
    census->n_ends += world->env.step > s->growth.episode_steps;
    census->n_nan += isnan(r->drawn[0]);
    for (int i = 0; i < LIFE_LOGITS; i++) {
        census->n_slopes += r->d_logits[i] != 0;
    }
    for (int i = 0; i < ES_CHOICE_MAX; i++) {
        census->n_rows += r->row_d_logits[i] != 0;
    }
    census->n_empty_rows += r->row_choices[0] == 0;
    for (int slot = 0; slot < s->growth.n_slots; slot++) {
        census->n_over_budget += r->over_budget[slot] != 0;
        census->n_gates_over_budget += r->gate_over_budget[slot] != r->over_budget[slot];
    }
}

// A parity of lives in which nothing happens would say nothing.
static void expect_everything(const Census *census) {
    static const int32_t stages[] = {ES_STAGE_DORMANT,  ES_STAGE_GERMINATED, ES_STAGE_TRAINING,
                                     ES_STAGE_BLENDING, ES_STAGE_HOLDING,    ES_STAGE_FOSSILIZED,
                                     ES_STAGE_PRUNED,   ES_STAGE_EMBARGOED,  ES_STAGE_RESETTING};
    for (int op = 0; op < ES_N_GROWTH_OPS; op++) {
        EXPECT(census->n_effective[op] >= 20);
        // the heuristic never changes the target of a blend
        EXPECT((census->n_by_heuristic[op] >= 20) == (op != ES_GROWTH_OP_SET_ALPHA_TARGET));
    }
    for (size_t i = 0; i < ES_COUNT_OF(stages); i++) {
        // a prune goes on to the embargo within the tick
        EXPECT(census->n_stage[stages[i]] >= 20 || stages[i] == ES_STAGE_PRUNED);
    }
    for (int term = 0; term < LIFE_TERMS; term++) {
        EXPECT(census->n_terms[ES_REWARD_SHAPED][term] >= 20);
    }
    EXPECT(census->n_terms[ES_REWARD_BASIC][0] >= 20);
    EXPECT(census->n_terms[ES_REWARD_SPARSE][0] >= 20);
    EXPECT(census->n_rollbacks >= 20 && census->n_refused >= 20 && census->n_ends >= 20);
    EXPECT(census->n_contributing >= 20 && census->n_forced >= 20 && census->n_nan >= 20);
    EXPECT(census->n_slopes >= 20 && census->n_rows >= 20 && census->n_empty_rows >= 1);
    EXPECT(census->n_over_budget >= 20 && census->n_gates_over_budget >= 20);
}

// --- tests ---

TEST(lives_reach_everything) {
    enum { FEW = 640 };
    LifeSettings kinds[LIFE_KINDS];
    Census census;
    LifeWorld *worlds = make_worlds(FEW);
    make_kinds(kinds);
    memset(&census, 0, sizeof census);
    for (uint32_t step = 0; step < N_STEPS; step++) {
        for (uint32_t env = 0; env < FEW; env++) {
            life_step(kinds, &worlds[env], env, step);
            count_world(&census, life_settings(kinds, env), &worlds[env]);
        }
    }
    expect_everything(&census);
    free(worlds);
}

// The comparison sees a changed bit in each part, and takes all NaN for one.
TEST(a_difference_is_found) {
    LifeSettings kinds[LIFE_KINDS];
    LifeWorld *worlds = make_worlds(2);
    LifeWorld *here = &worlds[0], *there = &worlds[1];
    make_kinds(kinds);
    for (uint32_t step = 0; step < 20; step++) {
        life_step(kinds, here, 8, step);
    }
    void *const changed[] = {
        &there->env.n_tracked,       &there->env.loss_history[1], &there->seeds[2].alpha,
        &there->rules.rotation[1],   &there->memory.penalty[1],   &there->reward[1].total,
        &there->reward[2].recent[3], &there->results.features[7], &there->results.best_action[1],
        &there->results.legal[1],    &there->results.terms[12],   &there->results.row_p[0]};
    for (size_t i = 0; i < ES_COUNT_OF(changed); i++) {
        Comparison c = {.env = 0, .step = 20, .n_different = 100}; // too many to be printed
        *there = *here;
        compare_worlds(&c, here, there);
        EXPECT_EQ(c.n_different, 100);
        *(unsigned char *)changed[i] ^= 1;
        compare_worlds(&c, here, there);
        EXPECT_EQ(c.n_different, 101);
    }
    Comparison c = {0};
    *there = *here;
    here->results.drawn[0] = NAN;
    there->results.drawn[0] = -NAN;
    compare_worlds(&c, here, there);
    EXPECT_EQ(c.n_different, 0);
    free(worlds);
}

TEST(parity) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    LifeSettings kinds[LIFE_KINDS];
    Comparison c = {0};
    Census census;
    LivesCuda *lives;
    LifeWorld *here = make_worlds(N_ENVS), *there = make_worlds(N_ENVS);
    make_kinds(kinds);
    memset(&census, 0, sizeof census);
    REQUIRE_OK(lives_cuda_create(kinds, N_ENVS, &lives));
    for (c.step = 0; c.step < N_STEPS && c.n_different == 0; c.step++) {
        REQUIRE_OK(lives_cuda_step(lives, c.step, there));
        for (c.env = 0; c.env < N_ENVS; c.env++) {
            life_step(kinds, &here[c.env], c.env, c.step);
            count_world(&census, life_settings(kinds, c.env), &here[c.env]);
            compare_worlds(&c, &here[c.env], &there[c.env]);
        }
    }
    printf("%d environments, %u steps: %lld numbers differ\n", N_ENVS, c.step,
           (long long)c.n_different);
    printf("parity decision f32: bound 0 + 0, at most %.3f of it used\n",
           c.n_different == 0 ? 0.0 : INFINITY);
    EXPECT_EQ(c.n_different, 0);
    if (c.n_different == 0) {
        expect_everything(&census);
    }
    lives_cuda_destroy(lives);
    free(here);
    free(there);
}
