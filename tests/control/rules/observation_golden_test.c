// Observations of random states against numbers from an independent script
// (tools/record_observations).
#include "golden_file.h"

#include "control/rules/observation_rules.h"

#define N_SLOTS 4 // of the recorded arrays; a state has 1 to 4

// All fields that were recorded; the others stay as in an empty slot. Returns their number.
static int read_state(const EsSafetensors *file, int64_t i, EsGrowthEnv *env, EsSeed *seeds) {
    int n_read = 0;
    es_growth_env_reset(env);
#define X(type, name, start, meaning)                                                              \
    n_read += golden_read(file, "env.", #name, GOLDEN_TYPE(type), i, 1, &env->name);
    ES_GROWTH_ENV_FIELDS(X)
#undef X
#define X(type, name, count, meaning)                                                              \
    n_read += golden_read(file, "env.", #name, GOLDEN_TYPE(type), i * (count), count, env->name);
    ES_GROWTH_ENV_ARRAYS(X)
#undef X
    for (int64_t s = 0; s < N_SLOTS; s++) {
        es_seed_reset(&seeds[s]);
        es_seed_reset_report(&seeds[s]);
        int64_t at = i * N_SLOTS + s;
        int n_fields = 0;
#define X(type, name, empty, meaning)                                                              \
    n_fields += golden_read(file, "seed.", #name, GOLDEN_TYPE(type), at, 1, &seeds[s].name);
        ES_SEED_STATE_FIELDS(X)
#undef X
        n_read += s == 0 ? n_fields : 0;
    }
    return n_read;
}

static void compare(int64_t i, int32_t n_slots, const float *actual, const float *expected) {
    for (int32_t k = 0; k < es_observation_size(n_slots); k++) {
        double bound = 1e-6 * fmax(1, fabs((double)expected[k]));
        if (!(fabs((double)actual[k] - (double)expected[k]) <= bound)) {
            int32_t slot = (k - ES_OBSERVATION_HOST) / ES_OBSERVATION_SLOT;
            int32_t base =
                k < ES_OBSERVATION_HOST ? 0 : ES_OBSERVATION_HOST + slot * ES_OBSERVATION_SLOT;
            ES_TEST_FAIL("state %lld, feature %d (%s +%d) is %.9g, expected %.9g", (long long)i, k,
                         k < ES_OBSERVATION_HOST ? "host" : "slot", k - base, (double)actual[k],
                         (double)expected[k]);
        }
    }
}

TEST(observations_agree_with_an_independent_script) {
    EsSafetensors *file = golden_open("observations");
    int64_t size = es_observation_size(N_SLOTS);
    const float *expected = golden_floats(file, "features", -1);
    EsTensor features;
    REQUIRE_OK(es_safetensors_find(file, "features", &features));
    int64_t n_states = es_tensor_count(&features) / size;
    EXPECT(n_states >= 200);
    const int32_t *n_slots = golden_ints(file, "n_slots", n_states);
    const int32_t *episode_steps = golden_ints(file, "episode_steps", n_states);
    const int32_t *blueprints = golden_ints(file, "blueprints", n_states * N_SLOTS);
    for (int64_t i = 0; i < n_states; i++) {
        EsGrowthSettings settings = es_growth_settings_default(n_slots[i], 10);
        settings.episode_steps = episode_steps[i];
        EsGrowthEnv env;
        EsSeed seeds[ES_SLOTS_MAX];
        EXPECT_EQ(read_state(file, i, &env, seeds),
                  golden_count(file, "env.") + golden_count(file, "seed."));
        float actual[ES_OBSERVATION_HOST + N_SLOTS * ES_OBSERVATION_SLOT];
        int32_t ids[N_SLOTS];
        es_env_observe(&settings, &env, seeds, actual, ids);
        compare(i, n_slots[i], actual, expected + i * size);
        for (int64_t s = 0; s < n_slots[i]; s++) {
            EXPECT_EQ(ids[s], blueprints[i * N_SLOTS + s]);
        }
    }
    es_safetensors_close(file);
}
