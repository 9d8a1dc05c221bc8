// Crafted files of provers: training.bin, training.safetensors, policies and embedding models whose
// checksums fit and whose numbers do not. Each is refused by name; nothing is ever used unchecked.
#include "base/range_check.h"
#include "esper/log.h"
#include "mutate.h"
#include "proof/agent/proof_env_internal.h"
#include "proof/agent/proof_training.h"
#include "proof/proof_env_walk.h"
#include "proof/proof_policy_case.h"
#include "proof/ranking/embedding_model.h"
#include "proof/wide_village.h"

#define HEAD_BYTES REFIT_ENV_HEAD_BYTES

// --- the environment's slab ---

typedef struct EnvCase {
    EsKnowledgeGraph *graph;
    EsProofEnv *env;
    unsigned char *saved; // owned, as is the next
    unsigned char *crafted;
    size_t n_bytes;
} EnvCase;

// On predicates of two arguments, or of 0 to 4.
static EnvCase create_env_case(int skips, int is_wide) {
    EnvCase test = {.graph = NULL};
    EsProofEnvSettings settings = es_proof_env_defaults();
    settings.n_envs = 20;
    settings.max_depth = 6;
    settings.skips_unary = skips;
    settings.n_negatives = 2;
    REQUIRE_OK(es_kinship_graph_create(60, 5, &test.graph));
    if (is_wide) {
        EsKnowledgeGraph *wide = make_wide_village(test.graph);
        es_kg_destroy(test.graph);
        test.graph = wide;
        settings.max_atoms = 12;
    }
    REQUIRE_OK(es_proof_env_create(test.graph, &settings, NULL, &test.env));
    for (int step = 0; step < 40; step++) {
        walk_step(test.env);
    }
    test.n_bytes = es_proof_env_saved_bytes(test.env);
    test.saved = malloc(test.n_bytes);
    test.crafted = malloc(test.n_bytes);
    REQUIRE_OK(es_proof_env_save(test.env, test.saved));
    return test;
}

static void destroy_env_case(EnvCase *test) {
    es_proof_env_destroy(test->env);
    es_kg_destroy(test->graph);
    free(test->saved);
    free(test->crafted);
}

static size_t place_of(const EnvCase *test, const void *member) {
    return HEAD_BYTES + (size_t)((const unsigned char *)member - test->env->slab);
}

// With other bytes at a place it is refused, and the environment is as it was.
static void expect_env_refused(EnvCase *test, const void *member, const void *value, size_t bytes,
                               const char *named) {
    memcpy(test->crafted, test->saved, test->n_bytes);
    memcpy(test->crafted + place_of(test, member), value, bytes);
    refit_proof_env(test->crafted, test->n_bytes);
    EXPECT_STATUS(es_proof_env_load(test->env, "crafted.bin", test->crafted, test->n_bytes), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "crafted.bin: ");
    EXPECT_CONTAINS(es_status_detail(), named);
    REQUIRE_OK(es_proof_env_save(test->env, test->crafted));
    EXPECT(memcmp(test->crafted, test->saved, test->n_bytes) == 0);
}

TEST(every_number_of_a_slot_is_checked) {
    for (int skips = 0; skips < 2; skips++) {
        EnvCase test = create_env_case(skips, 0);
        const EsProofEnv *env = test.env;
        int32_t C = test.graph->n_constants, P = test.graph->n_predicates, index = 3;
        // an environment that has gone some way
        while (env->episodes[index].depth < 1 || env->episodes[index].n_visited < 2) {
            index++;
            REQUIRE_OK(index < 20 ? ES_STATUS_OK : ES_FAIL(INPUT, "no episode is under way"));
        }
        const EsProofEpisode *at = &env->episodes[index];
        const EsAtom *state = es_proof_env_goals(env, index);
        size_t first = (size_t)index * (size_t)env->max_visited;
        const EsAtom *visited = env->visited + first * (size_t)env->settings.max_atoms;
        const struct {
            const int32_t *member;
            int64_t least, most;
            const char *named;
        } fields[] = {
            {&at->query.predicate, 1, P, "query["},
            {&at->query.a, 1, C, "query["},
            {&at->query.b, 1, C, "query["},
            {&at->label, 0, 1, "label["},
            {&at->depth, 0, 5, "depth["},
            {&at->n_atoms, 1, 6, "n_atoms["},
            {&at->n_visited, 1, (at->depth + 1) * (skips ? 21 : 1), "n_visited["},
            {&state->predicate, 1, P, "predicate in a state of environment["},
            {&state->a, 1, C + 1, "term in a state of environment["},
            {&state->b, 1, C + 2, "term in a state of environment["},
            {&visited->predicate, 1, P, "predicate in a state of environment["},
            {&visited->a, 1, C + 1, "term in a state of environment["},
            {&visited->b, 1, C + 2, "term in a state of environment["},
            {&env->n_visited_atoms[first], 1, 6, "n_visited_atoms["},
        };
        for (size_t i = 0; i < ES_COUNT_OF(fields); i++) {
            const int64_t values[] = {INT32_MIN, -1,   fields[i].least - 1, fields[i].most + 1,
                                      255,       4000, fields[i].most + 64, INT32_MAX};
            for (size_t v = 0; v < ES_COUNT_OF(values); v++) {
                if (values[v] < fields[i].least || values[v] > fields[i].most) {
                    expect_env_refused(&test, fields[i].member, &(int32_t){(int32_t)values[v]}, 4,
                                       fields[i].named);
                }
            }
        }
        expect_env_refused(&test, &env->visited_hash[first], &(uint64_t){7}, 8, "visited_hash[");
        destroy_env_case(&test);
    }
}

// Second cells of queries and of states, and places that a predicate has not.
TEST(every_number_of_a_second_cell_is_checked) {
    EnvCase test = create_env_case(0, 1);
    const EsProofEnv *env = test.env;
    const EsKnowledgeGraph *graph = test.graph;
    int32_t C = graph->n_constants, wrong[] = {INT32_MIN, -2, C + 100, INT32_MAX};
    int n_wide = 0, n_narrow = 0;
    for (int32_t index = 0; index < env->settings.n_envs; index++) {
        const EsAtom *query = &env->episodes[index].query, *rest = &env->query_rest[index];
        const EsAtom *state = es_proof_env_goals(env, index);
        int arity = graph->arities[query->predicate];
        for (size_t v = 0; v < ES_COUNT_OF(wrong); v++) {
            expect_env_refused(&test, &rest->a, &wrong[v], 4, "query[");
            expect_env_refused(&test, &rest->b, &wrong[v], 4, "query[");
            expect_env_refused(&test, &rest->predicate, &wrong[v], 4, "query[");
            if (es_kg_cells(graph, state->predicate) == 2) {
                expect_env_refused(&test, &state[1].a, &wrong[v], 4, "term in a state");
                expect_env_refused(&test, &state[1].predicate, &wrong[v], 4, "predicate in a");
            }
        }
        if (arity < 4) { // one more argument than the query has
            const int32_t *none = arity < 1   ? &query->a
                                  : arity < 2 ? &query->b
                                  : arity < 3 ? &rest->a
                                              : &rest->b;
            expect_env_refused(&test, none, &(int32_t){1}, 4, "query[");
        }
        n_wide += arity > 2;
        n_narrow += arity <= 2;
    }
    EXPECT(n_wide > 3 && n_narrow > 0);
    REQUIRE_OK(es_proof_env_load(test.env, "saved", test.saved, test.n_bytes));
    destroy_env_case(&test);
}

TEST(every_counter_is_checked) {
    EnvCase test = create_env_case(0, 0);
    const EsProofEnvCounters *counters = &test.env->counters[1];
    const int64_t *words = (const int64_t *)(const void *)counters;
    static const int64_t wrong[] = {INT64_MIN, -1, ES_COUNTER_MAX + 1, INT64_MAX - 1, INT64_MAX};
    static const double unreal[] = {NAN, INFINITY, -INFINITY, 1e300};
    for (size_t i = 0; i < sizeof *counters / sizeof *words; i++) {
        int is_reward = (const void *)&words[i] == &counters->reward[0] ||
                        (const void *)&words[i] == &counters->reward[1];
        for (size_t v = 0; v < ES_COUNT_OF(wrong) && !is_reward; v++) {
            expect_env_refused(&test, &words[i], &wrong[v], 8, "[1] is ");
        }
        for (size_t v = 0; v < ES_COUNT_OF(unreal) && is_reward; v++) {
            expect_env_refused(&test, &words[i], &unreal[v], 8, "reward[1] is ");
        }
    }
    REQUIRE_OK(es_proof_env_load(test.env, "saved", test.saved, test.n_bytes));
    destroy_env_case(&test);
}

// An accepted environment can be stepped.
TEST(changed_environments_are_refused_or_played) {
    int n_all = mutation_count(600), n_refused = 0;
    for (int kind = 0; kind < 4; kind++) {
        EnvCase test = create_env_case(kind % 2, kind / 2);
        Mutator mutator = {.seed = 11 + (uint64_t)kind};
        size_t slots_end = place_of(&test, test.env->states);
        for (int i = 0; i < n_all / 4; i++) {
            memcpy(test.crafted, test.saved, test.n_bytes);
            mutate_bytes(&mutator, test.crafted, HEAD_BYTES,
                         mutate_draw(&mutator, 2) == 0 ? slots_end : test.n_bytes);
            refit_proof_env(test.crafted, test.n_bytes);
            EsStatus status =
                es_proof_env_load(test.env, "crafted.bin", test.crafted, test.n_bytes);
            EXPECT(status == ES_STATUS_OK || status == ES_STATUS_INPUT);
            n_refused += status != ES_STATUS_OK;
            for (int step = 0; step < 3 && status == ES_STATUS_OK; step++) {
                walk_step(test.env);
            }
        }
        destroy_env_case(&test);
    }
    printf("  %d of %d refused\n", n_refused, n_all);
    EXPECT(n_refused > n_all / 4 && n_refused < n_all);
}

// --- training.bin and training.safetensors ---

typedef struct TrainingCase {
    EsKnowledgeGraph *graph;
    EsDevice *device;
    EsProofTraining *training;
    const char *weights, *state, *crafted;
} TrainingCase;

static TrainingCase create_training_case(void) {
    TrainingCase test = {.weights = temp_path("training.safetensors"),
                         .state = temp_path("training.bin"),
                         .crafted = temp_path("crafted")};
    EsProofTrainingSettings settings = es_proof_training_defaults();
    EsDeviceOptions options = {.n_threads = 1};
    EsProofRound round;
    settings.env.n_envs = 6;
    settings.n_steps = 4;
    settings.policy = small_settings(8, 8, 1);
    REQUIRE_OK(es_kinship_graph_create(40, 1, &test.graph));
    REQUIRE_OK(es_device_open("cpu", &options, &test.device));
    REQUIRE_OK(es_proof_training_create(test.device, test.graph, &settings, &test.training));
    REQUIRE_OK(es_proof_training_round(test.training, NULL, &round));
    REQUIRE_OK(es_proof_training_save(test.training, test.weights, test.state));
    return test;
}

static void destroy_training_case(TrainingCase *test) {
    es_proof_training_destroy(test->training);
    es_device_close(test->device);
    es_kg_destroy(test->graph);
}

TEST(every_number_before_the_environment_is_checked) {
    TrainingCase test = create_training_case();
    FileBytes file = read_bytes(test.state);
    static const struct {
        const char *named;
        int is_real;
    } words[] = {
        {"state of a training", 0}, {"rounds done is", 0},           {"reward_scale[0] is", 1},
        {"reward_scale[1] is", 1},  {"reward_scale[2] is", 1},       {"value_scale[0] is", 1},
        {"value_scale[1] is", 1},   {"value_scale[2] is", 1},        {"updates is", 0},
        {"passes is", 0},           {"updates without a step is", 0}};
    static const int64_t wrong[] = {INT64_MIN, -1, ES_COUNTER_MAX + 1, INT64_MAX};
    static const double unreal[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < ES_COUNT_OF(words); i++) {
        unsigned char before[8];
        memcpy(before, file.bytes + 8 * i, 8);
        size_t n_values = words[i].is_real ? ES_COUNT_OF(unreal) : ES_COUNT_OF(wrong);
        for (size_t v = 0; v < n_values; v++) {
            memcpy(file.bytes + 8 * i,
                   words[i].is_real ? (const void *)&unreal[v] : (const void *)&wrong[v], 8);
            write_bytes(test.crafted, file.bytes, file.count);
            EXPECT_STATUS(es_proof_training_load(test.training, test.weights, test.crafted), INPUT);
            EXPECT_CONTAINS(es_status_detail(), words[i].named);
            EXPECT_CONTAINS(es_status_detail(), test.crafted);
        }
        memcpy(file.bytes + 8 * i, before, 8);
    }
    REQUIRE_OK(es_proof_training_load(test.training, test.weights, test.state));
    es_release(file.bytes);
    destroy_training_case(&test);
}

TEST(weights_and_moments_are_finite) {
    TrainingCase test = create_training_case();
    static const char *const tensors[] = {"body0.weight",         "head1.bias",
                                          "constants.weight",     "moment1.value0.weight",
                                          "moment2.body1.weight", "moment2.variables.weight"};
    static const float wrong[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < ES_COUNT_OF(tensors); i++) {
        for (size_t v = 0; v < ES_COUNT_OF(wrong); v++) {
            char named[80];
            craft_number(test.weights, test.crafted, tensors[i], 5, &wrong[v], 4);
            EXPECT_STATUS(es_proof_training_load(test.training, test.crafted, test.state), INPUT);
            snprintf(named, sizeof named, "%s[5] is ", tensors[i]);
            EXPECT_CONTAINS(es_status_detail(), named);
        }
    }
    craft_number(test.weights, test.crafted, "moment2.body0.weight", 2, &(float){-1}, 4);
    EXPECT_STATUS(es_proof_training_load(test.training, test.crafted, test.state), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "moment2.body0.weight[2] is -1, must be finite and not");
    static const int32_t steps[] = {INT32_MIN, -1, INT32_MAX, INT32_MAX / 2 + 1};
    for (size_t v = 0; v < ES_COUNT_OF(steps); v++) {
        craft_number(test.weights, test.crafted, "n_steps", 0, &steps[v], 4);
        EXPECT_STATUS(es_proof_training_load(test.training, test.crafted, test.state), INPUT);
        EXPECT_CONTAINS(es_status_detail(), "n_steps[0] is ");
    }
    destroy_training_case(&test);
}

TEST(changed_trainings_are_refused_or_go_on) {
    TrainingCase test = create_training_case();
    FileBytes state = read_bytes(test.state), weights = read_bytes(test.weights);
    unsigned char *crafted = malloc(state.count);
    Mutator mutator = {.seed = 21};
    int n_all = mutation_count(300), n_refused = 0;
    for (int i = 0; i < 2 * n_all; i++) {
        int is_state = i % 2 == 0;
        if (is_state) {
            memcpy(crafted, state.bytes, state.count);
            mutate_bytes(&mutator, crafted, 0,
                         mutate_draw(&mutator, 2) == 0 ? REFIT_TRAINING_BYTES : state.count);
            refit_training_bin(crafted, state.count);
            write_bytes(test.crafted, crafted, state.count);
        } else {
            mutate_safetensors(&mutator, &weights, test.crafted);
        }
        EsStatus status =
            es_proof_training_load(test.training, is_state ? test.weights : test.crafted,
                                   is_state ? test.crafted : test.state);
        EXPECT(status == ES_STATUS_OK || status == ES_STATUS_INPUT);
        n_refused += status != ES_STATUS_OK;
        if (status == ES_STATUS_OK && i % 16 < 2) {
            EsProofRound round;
            // weights near the largest float make numbers that are not finite, which is told
            status = es_proof_training_round(test.training, NULL, &round);
            EXPECT(status == ES_STATUS_OK || status == ES_STATUS_NUMERIC);
        }
    }
    printf("  %d of %d refused\n", n_refused, 2 * n_all);
    EXPECT(n_refused > n_all / 2 && n_refused < 2 * n_all);
    free(crafted);
    es_release(state.bytes);
    es_release(weights.bytes);
    destroy_training_case(&test);
}

// --- policies ---

static char last_note[512];

static void keep_note(void *context, EsLogLevel level, const char *line) {
    (void)context;
    snprintf(last_note, sizeof last_note, "%d %s", (int)level, line);
}

static void expect_policy_refused(const PolicyCase *test, const char *path, const char *named) {
    EsProofPolicy *loaded = NULL;
    EXPECT_STATUS(es_proof_policy_file_load(test->device, test->graph, path, &loaded), INPUT);
    EXPECT_CONTAINS(es_status_detail(), path);
    EXPECT_CONTAINS(es_status_detail(), named);
    EXPECT(loaded == NULL);
}

TEST(crafted_policies_are_refused) {
    EsProofPolicySettings settings = small_settings(8, 8, 1);
    PolicyCase test = make_case(&settings, 40, 1);
    const char *good = temp_path("policy.safetensors"), *bad = temp_path("crafted.safetensors");
    REQUIRE_OK(es_proof_policy_file_save(test.policy, good));
    static const char *const keys[] = {"n_constants",    "n_predicates", "embed",
                                       "hidden",         "layers",       "temperature",
                                       "separate_value", "l2",           "embedder"};
    static const char *const values[] = {"-1",  "1e30", "-9223372036854775808",
                                         "nan", "inf",  "9223372036854775807",
                                         "",    "x",    "2147483648"};
    for (size_t k = 0; k < ES_COUNT_OF(keys); k++) {
        for (size_t v = 0; v < ES_COUNT_OF(values); v++) {
            craft_metadata(good, bad, keys[k], values[v]);
            expect_policy_refused(&test, bad, "crafted");
        }
        craft_metadata(good, bad, keys[k], NULL);
        expect_policy_refused(&test, bad, keys[k]);
        craft_metadata(good, bad, keys[k], "1.5");
        EsProofPolicy *loaded = NULL;
        // a temperature may be that, the others are whole
        EsStatus status = es_proof_policy_file_load(test.device, test.graph, bad, &loaded);
        int is_real = strcmp(keys[k], "temperature") == 0;
        EXPECT_EQ(status, is_real ? ES_STATUS_OK : ES_STATUS_INPUT);
        es_proof_policy_destroy(loaded);
    }
    // sizes that the file has not are noticed before a policy of such sizes is built
    craft_metadata(good, bad, "hidden", "4096");
    expect_policy_refused(&test, bad, "hidden 4096 and embed 8 are not its sizes");
    craft_metadata(good, bad, "embed", "4096");
    expect_policy_refused(&test, bad, "hidden 8 and embed 4096 are not its sizes");
    craft_number(good, bad, "value1.weight", 3, &(float){NAN}, 4);
    expect_policy_refused(&test, bad, "value1.weight[3] is nan, must be finite");
    craft_number(good, bad, "predicates.weight", 9, &(float){INFINITY}, 4);
    expect_policy_refused(&test, bad, "predicates.weight[9] is inf, must be finite");
    destroy_case(&test);
}

TEST(crafted_policies_by_structure_are_refused) {
    EsProofPolicySettings settings = small_settings(8, 8, 1), by_names = settings;
    settings.encoder = ES_PROOF_ENCODER_STRUCTURE;
    PolicyCase test = make_case(&settings, 40, 1), other = make_case(&by_names, 40, 1);
    const char *good = temp_path("policy.safetensors"), *bad = temp_path("crafted.safetensors");
    REQUIRE_OK(es_proof_policy_file_save(test.policy, good));
    craft_metadata(good, bad, "features", "1");
    expect_policy_refused(&test, bad, "features of version 1, this program has version 2");
    craft_metadata(good, bad, "features", "3");
    expect_policy_refused(&test, bad, "features of version 3, this program has version 2");
    static const char *const values[] = {"-1", "1e30", "nan", "", "x", "1.5"};
    for (size_t v = 0; v < ES_COUNT_OF(values); v++) {
        craft_metadata(good, bad, "features", values[v]);
        expect_policy_refused(&test, bad, "features");
        craft_metadata(good, bad, "encoder", values[v]);
        expect_policy_refused(&test, bad, "encoder");
        craft_metadata(good, bad, "embed", values[v]);
        expect_policy_refused(&test, bad, "embed");
    }
    craft_metadata(good, bad, "features", NULL);
    expect_policy_refused(&test, bad, "features");
    craft_metadata(good, bad, "encoder", NULL);
    expect_policy_refused(&test, bad, "encoder");
    craft_metadata(good, bad, "encoder", "names");
    expect_policy_refused(&test, bad, "must be \"structure\"");
    // the other format: weights of names are not there, nor are sizes those of names
    craft_metadata(good, bad, "format", "esper proof policy 1");
    expect_policy_refused(&test, bad, "hidden 8 and embed 8 are not its sizes");
    craft_metadata(good, bad, "format", "esper proof policy 3");
    expect_policy_refused(&test, bad, "not a proof policy");
    // neither embed nor hidden may ask for more than the file has
    craft_metadata(good, bad, "embed", "4096");
    expect_policy_refused(&test, bad, "hidden 8 and embed 4096 are not its sizes");
    craft_metadata(good, bad, "hidden", "4096");
    expect_policy_refused(&test, bad, "hidden 4096 and embed 8 are not its sizes");
    craft_number(good, bad, "body0.weight", 3, &(float){NAN}, 4);
    expect_policy_refused(&test, bad, "body0.weight[3] is nan, must be finite");
    // a policy of the one kind is not reloaded by one of the other
    EXPECT_STATUS(es_proof_policy_file_reload(other.policy, good), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "different encoders");
    destroy_case(&test);
    destroy_case(&other);
}

// A policy of the run's own settings is taken, another one is not: its weights have other places.
TEST(weights_of_other_settings_are_refused) {
    EsProofPolicySettings small = small_settings(8, 8, 1), large = small_settings(8, 24, 1);
    PolicyCase test = make_case(&small, 40, 1), other = make_case(&large, 40, 1);
    const char *path = temp_path("policy.safetensors");
    REQUIRE_OK(es_proof_policy_file_save(other.policy, path));
    EXPECT_STATUS(es_proof_policy_file_reload(test.policy, path), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "hidden is 24 in the file and 8 in the policy");
    REQUIRE_OK(es_proof_policy_file_reload(other.policy, path));
    destroy_case(&test);
    destroy_case(&other);
}

TEST(the_hash_of_the_tensors_is_checked) {
    EsProofPolicySettings settings = small_settings(8, 8, 1);
    PolicyCase test = make_case(&settings, 40, 1);
    const char *good = temp_path("policy.safetensors"), *bad = temp_path("crafted.safetensors");
    EsProofPolicy *loaded = NULL;
    REQUIRE_OK(es_proof_policy_file_save(test.policy, good));
    FileBytes file = read_bytes(good);
    file.bytes[file.count - 2] ^= 1;
    write_bytes(bad, file.bytes, file.count);
    expect_policy_refused(&test, bad, "tensors_sha256");
    es_log_set_handler(keep_note, NULL, ES_LOG_INFO);
    last_note[0] = '\0';
    REQUIRE_OK(es_proof_policy_file_load(test.device, test.graph, good, &loaded));
    es_proof_policy_destroy(loaded);
    EXPECT_EQ(last_note[0], 0); // nothing to say of this one
    craft_metadata(good, bad, "tensors_sha256", NULL);
    REQUIRE_OK(es_proof_policy_file_load(test.device, test.graph, bad, &loaded));
    es_proof_policy_destroy(loaded);
    EXPECT_CONTAINS(last_note, "crafted.safetensors was written by an earlier version");
    es_log_set_handler(NULL, NULL, ES_LOG_INFO);
    es_release(file.bytes);
    destroy_case(&test);
}

static void mutate_policies(EsProofEncoder encoder) {
    EsProofPolicySettings settings = small_settings(8, 8, 1);
    settings.encoder = encoder;
    PolicyCase test = make_case(&settings, 40, 1);
    const char *good = temp_path("policy.safetensors"), *bad = temp_path("crafted.safetensors");
    REQUIRE_OK(es_proof_policy_file_save(test.policy, good));
    FileBytes file = read_bytes(good);
    Mutator mutator = {.seed = 31};
    int n_all = mutation_count(300), n_refused = 0;
    for (int i = 0; i < n_all; i++) {
        EsProofPolicy *loaded = NULL;
        mutate_safetensors(&mutator, &file, bad);
        EsStatus status = es_proof_policy_file_load(test.device, test.graph, bad, &loaded);
        EXPECT(status == ES_STATUS_OK || status == ES_STATUS_INPUT);
        n_refused += status != ES_STATUS_OK;
        es_proof_policy_destroy(loaded);
    }
    printf("  %d of %d refused\n", n_refused, n_all);
    EXPECT(n_refused > n_all / 4 && n_refused < n_all);
    es_release(file.bytes);
    destroy_case(&test);
}

TEST(changed_policies_are_refused_or_loaded) {
    mutate_policies(ES_PROOF_ENCODER_NAMES);
    mutate_policies(ES_PROOF_ENCODER_STRUCTURE);
}

// --- embedding models ---

static void expect_model_refused(const EsKnowledgeGraph *graph, const char *path,
                                 const char *named) {
    EsEmbeddingModel *loaded = NULL;
    EXPECT_STATUS(es_embedding_model_load(path, graph, &loaded), INPUT);
    EXPECT_CONTAINS(es_status_detail(), path);
    EXPECT_CONTAINS(es_status_detail(), named);
    EXPECT(loaded == NULL);
}

TEST(crafted_embedding_models_are_refused) {
    EsKnowledgeGraph *graph = NULL;
    EsEmbeddingModel *model = NULL, *loaded = NULL;
    const char *good = temp_path("model.safetensors"), *bad = temp_path("crafted.safetensors");
    REQUIRE_OK(es_kinship_graph_create(40, 1, &graph));
    REQUIRE_OK(es_embedding_model_create(graph, 8, &model));
    REQUIRE_OK(es_embedding_model_save(model, good));
    static const char *const keys[] = {"kind", "version", "model", "dimensions", "names_sha256"};
    static const char *const values[] = {"-1", "9223372036854775807", "nan", "", "16"};
    for (size_t k = 0; k < ES_COUNT_OF(keys); k++) {
        for (size_t v = 0; v < ES_COUNT_OF(values); v++) {
            craft_metadata(good, bad, keys[k], values[v]);
            expect_model_refused(graph, bad, "crafted");
        }
    }
    craft_number(good, bad, "constants", 17, &(float){NAN}, 4);
    expect_model_refused(graph, bad, "constants[17] is nan");
    craft_number(good, bad, "relations", 0, &(float){-INFINITY}, 4);
    expect_model_refused(graph, bad, "relations[0] is -inf");
    FileBytes file = read_bytes(good);
    file.bytes[file.count - 3] ^= 16;
    write_bytes(bad, file.bytes, file.count);
    expect_model_refused(graph, bad, "tensors_sha256");
    es_release(file.bytes);
    es_log_set_handler(keep_note, NULL, ES_LOG_INFO);
    craft_metadata(good, bad, "tensors_sha256", NULL);
    REQUIRE_OK(es_embedding_model_load(bad, graph, &loaded));
    EXPECT_CONTAINS(last_note, "crafted.safetensors was written by an earlier version");
    es_log_set_handler(NULL, NULL, ES_LOG_INFO);
    es_embedding_model_destroy(loaded);
    es_embedding_model_destroy(model);
    es_kg_destroy(graph);
}

TEST(changed_embedding_models_are_refused_or_score) {
    EsKnowledgeGraph *graph = NULL;
    EsEmbeddingModel *model = NULL;
    const char *good = temp_path("model.safetensors"), *bad = temp_path("crafted.safetensors");
    REQUIRE_OK(es_kinship_graph_create(40, 1, &graph));
    REQUIRE_OK(es_embedding_model_create(graph, 8, &model));
    REQUIRE_OK(es_embedding_model_save(model, good));
    FileBytes file = read_bytes(good);
    Mutator mutator = {.seed = 41};
    int n_all = mutation_count(300), n_refused = 0;
    for (int i = 0; i < n_all; i++) {
        EsEmbeddingModel *loaded = NULL;
        float score[4];
        mutate_safetensors(&mutator, &file, bad);
        EsStatus status = es_embedding_model_load(bad, graph, &loaded);
        EXPECT(status == ES_STATUS_OK || status == ES_STATUS_INPUT);
        n_refused += status != ES_STATUS_OK;
        if (status == ES_STATUS_OK) {
            es_embedding_model_scores(loaded, ES_CORRUPT_TAIL, graph->facts, 4, score);
        }
        es_embedding_model_destroy(loaded);
    }
    printf("  %d of %d refused\n", n_refused, n_all);
    EXPECT(n_refused > n_all / 4 && n_refused < n_all);
    es_release(file.bytes);
    es_embedding_model_destroy(model);
    es_kg_destroy(graph);
}
