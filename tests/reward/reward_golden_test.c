// Rewards of random states and of whole episodes against numbers from an independent script
// (tools/record_rewards): every term and the total, in all modes, under default and other settings.
//
// T steps, E environments, S slots.
#include "golden_file.h"

#include "growth/engine/lifecycle.h"
#include "reward/reward.h"

#define S       3
#define N_TERMS 11 // total, then ES_REWARD_TERMS

// A growth state that the test writes by itself.
typedef struct World {
    EsGrowthState state;
    void *slab;
} World;

static World world_create(int32_t n_envs) {
    World world;
    world.slab = calloc(1, es_growth_state_bytes(n_envs, S));
    ES_ASSERT(world.slab != NULL);
    es_growth_state_bind(&world.state, world.slab, n_envs, S);
    for (size_t e = 0; e < (size_t)n_envs; e++) {
        EsGrowthEnv env;
        memset(&env, 0, sizeof env);
        es_growth_env_reset(&env);
        es_growth_env_store(&world.state.env, e, &env);
        for (size_t s = 0; s < S; s++) {
            EsSeed seed;
            es_seed_reset(&seed);
            es_seed_reset_report(&seed);
            es_seed_store(&world.state.seed, e * S + s, &seed);
        }
    }
    return world;
}

// Overwrite the recorded fields of all environments with those of step t. Returns their number.
static int world_read(World *world, const EsSafetensors *file, const char *prefix, int64_t t) {
    int64_t n_envs = world->state.n_envs;
    char env_prefix[96], seed_prefix[96];
    snprintf(env_prefix, sizeof env_prefix, "%s.env.", prefix);
    snprintf(seed_prefix, sizeof seed_prefix, "%s.seed.", prefix);
    int n_read = 0;
#define X(type, name, start, meaning)                                                              \
    n_read += golden_read(file, env_prefix, #name, GOLDEN_TYPE(type), t * n_envs, n_envs,          \
                          world->state.env.name);
    ES_GROWTH_ENV_FIELDS(X)
#undef X
#define X(type, name, empty, meaning)                                                              \
    n_read += golden_read(file, seed_prefix, #name, GOLDEN_TYPE(type), t * n_envs * S, n_envs * S, \
                          world->state.seed.name);
    ES_SEED_STATE_FIELDS(X)
#undef X
    return n_read;
}

// Rolled-back steps are recorded as a flag, since the number of a refusal is ours.
static void world_refuse(World *world, const EsSafetensors *file, const char *prefix, int64_t t) {
    char name[128];
    snprintf(name, sizeof name, "%s.env.is_rolled_back", prefix);
    const int32_t *is_rolled_back = golden_ints(file, name, -1);
    for (int64_t e = 0; e < world->state.n_envs; e++) {
        int is_refused = is_rolled_back[t * world->state.n_envs + e];
        int is_closed = !world->state.env.is_success[e];
        world->state.env.refusal[e] = is_refused  ? ES_REFUSAL_ROLLED_BACK
                                      : is_closed ? ES_REFUSAL_GATE_CLOSED
                                                  : ES_REFUSAL_NONE;
    }
}

static int read_settings(const EsSafetensors *file, const char *group, EsRewardSettings *settings) {
    char prefix[64];
    snprintf(prefix, sizeof prefix, "%s.settings.", group);
    int n_read = golden_read(file, prefix, "gamma", ES_DTYPE_F32, 0, 1, &settings->gamma);
#define X(T, m, kind, name, value, lowest, highest, help)                                          \
    n_read += golden_read(file, prefix, #name, GOLDEN_TYPE(ES_REWARD_TYPE_##kind), 0, 1,           \
                          &settings->name);
    ES_REWARD_SETTINGS(X, , )
#undef X
    EXPECT_EQ(n_read, golden_count(file, prefix));
    return n_read;
}

static EsGrowthSettings read_growth(const EsSafetensors *file, const char *group) {
    EsGrowthSettings growth = es_growth_settings_default(S, 10);
    char prefix[64];
    snprintf(prefix, sizeof prefix, "%s.growth.", group);
    int n_read =
        golden_read(file, prefix, "episode_steps", ES_DTYPE_I32, 0, 1, &growth.episode_steps) +
        golden_read(file, prefix, "holding_dwell", ES_DTYPE_I32, 0, 1, &growth.holding_dwell) +
        golden_read(file, prefix, "min_contribution", ES_DTYPE_F32, 0, 1,
                    &growth.min_contribution) +
        golden_read(file, prefix, "governor_prune_penalty", ES_DTYPE_F32, 0, 1,
                    &growth.governor_prune_penalty);
    EXPECT_EQ(n_read, golden_count(file, prefix));
    return growth;
}

static const char *const term_names[N_TERMS] = {"total",
#define X(name, help) #name,
                                                ES_REWARD_TERMS(X)
#undef X
};

static void compare(const char *what, int64_t t, int64_t e, const EsRewardTerms *terms,
                    const float *expected) {
    const float actual[N_TERMS] = {terms->total,
#define X(name, help) terms->name,
                                   ES_REWARD_TERMS(X)
#undef X
    };
    for (int k = 0; k < N_TERMS; k++) {
        double bound = 1e-6 + 1e-6 * fabs((double)expected[k]);
        if (!(fabs((double)actual[k] - (double)expected[k]) <= bound)) {
            ES_TEST_FAIL("%s, step %lld, environment %lld: %s is %.9g, expected %.9g", what,
                         (long long)t, (long long)e, term_names[k], (double)actual[k],
                         (double)expected[k]);
        }
    }
}

// Play the recorded steps of `states` under the settings of `group`, compare all terms.
static void play(const EsSafetensors *file, const char *states, const char *group, int32_t mode,
                 int64_t T) {
    EsRewardSettings settings = es_reward_settings_default();
    read_settings(file, group, &settings);
    settings.mode = mode;
    EsGrowthSettings growth = read_growth(file, group);
    char name[128], before[64], after[64];
    snprintf(before, sizeof before, "%s.before", states);
    snprintf(after, sizeof after, "%s.after", states);
    snprintf(name, sizeof name, "%s.host", group);
    int32_t n_host = golden_int(file, name);
    snprintf(name, sizeof name, "%s.%s", group, es_reward_mode_name(mode));
    EsTensor table;
    REQUIRE_OK(es_safetensors_find(file, name, &table));
    int64_t E = es_tensor_count(&table) / (T * N_TERMS);
    const float *expected = golden_floats(file, name, T * E * N_TERMS);
    World world = world_create((int32_t)E);
    EsReward *reward;
    REQUIRE_OK(es_reward_create(&settings, &growth, n_host, E, &reward));
    es_reward_reset(reward);
    for (int64_t t = 0; t < T; t++) {
        EXPECT_EQ(world_read(&world, file, before, t), golden_count(file, before));
        es_reward_latch(reward, &world.state);
        // is_rolled_back is no field of ours
        EXPECT_EQ(world_read(&world, file, after, t) + 1, golden_count(file, after));
        world_refuse(&world, file, after, t);
        es_reward_compute(reward, &world.state);
        es_lifecycle_settle_prunes(&world.state, es_reward_settled_prunes(reward));
        for (int64_t e = 0; e < E; e++) {
            compare(name, t, e, &es_reward_terms(reward)[e], expected + (t * E + e) * N_TERMS);
            EXPECT_EQ(world.state.env.n_unrewarded_prunes[e], 0);
        }
    }
    snprintf(name, sizeof name, "%s.%s_sum", group, es_reward_mode_name(mode));
    const double *sums = golden_doubles(file, name, E);
    snprintf(name, sizeof name, "%s.%s_stability", group, es_reward_mode_name(mode));
    const double *stability = golden_doubles(file, name, E);
    for (int64_t e = 0; e < E; e++) {
        EXPECT_NEAR(es_reward_totals(reward)[e], sums[e], 1e-5 * (1 + fabs(sums[e])));
        EXPECT_NEAR(es_reward_stability(reward, e), stability[e], 1e-5);
    }
    es_reward_destroy(reward);
    free(world.slab);
}

static void play_modes(const char *states, const char *group) {
    EsSafetensors *file = golden_open("rewards");
    char name[128];
    snprintf(name, sizeof name, "%s.before.env.step", states);
    EsTensor steps;
    REQUIRE_OK(es_safetensors_find(file, name, &steps));
    for (int32_t mode = 0; mode < ES_N_REWARD_MODES; mode++) {
        play(file, states, group, mode, steps.dim[0]);
    }
    es_safetensors_close(file);
}

TEST(random_states) { play_modes("states", "states"); }

TEST(random_states_under_other_settings) { play_modes("states", "varied"); }

TEST(whole_lives) { play_modes("lives", "lives"); }

// the recorded defaults are the ones of the specification
TEST(default_settings) {
    EsSafetensors *file = golden_open("rewards");
    EsRewardSettings ours = es_reward_settings_default(), recorded = ours;
    EXPECT(read_settings(file, "states", &recorded) > 60);
#define X(T, m, kind, name, value, lowest, highest, help) EXPECT_NEAR(ours.name, recorded.name, 0);
    ES_REWARD_SETTINGS(X, , )
#undef X
    EXPECT_NEAR(ours.gamma, recorded.gamma, 0);
    es_safetensors_close(file);
}
