// Crafted files of the growth policy: policy.safetensors and training.safetensors whose hashes fit
// and whose numbers do not. Each is refused by name; what is let through can be played and trained.
#include "base/range_check.h"
#include "control/ruled_hosts.h"
#include "esper/log.h"
#include "mutate.h"

typedef struct FileCase {
    Hosts hosts;
    EsDevice *device;
    EsPolicy *policy;
    const char *policy_path, *training_path, *crafted;
} FileCase;

static FileCase *create_file_case(void) {
    static FileCase test;
    EsPpoReport report;
    hosts_create(&test.hosts, 2, 3);
    test.device = open_cpu();
    // small, since thousands of files of it are read
    EsPolicySpec spec = es_policy_spec_default(test.hosts.state.n_slots, 16);
    EsPpoSettings ppo = es_policy_ppo_defaults();
    EsPolicyContext context = hosts_context(&test.hosts, test.device, 5);
    REQUIRE_OK(
        es_policy_create(&spec, &ppo, &context, test.hosts.settings.episode_steps, &test.policy));
    hosts_play(&test.hosts, test.policy, 0, &report);
    test.policy_path = temp_path("policy.safetensors");
    test.training_path = temp_path("training.safetensors");
    test.crafted = temp_path("crafted.safetensors");
    REQUIRE_OK(es_policy_save(test.policy, test.policy_path));
    REQUIRE_OK(es_policy_training_save(test.policy, test.training_path));
    return &test;
}

static void destroy_file_case(FileCase *test) {
    es_policy_destroy(test->policy);
    es_device_close(test->device);
    hosts_destroy(&test->hosts);
}

static EsStatus open_policy(const FileCase *test, const char *path, EsPolicy **policy) {
    EsPolicyContext context = hosts_context(&test->hosts, test->device, 5);
    return es_policy_open(path, &context, policy);
}

static void expect_refused(const FileCase *test, const char *named) {
    EsPolicy *opened = NULL;
    EXPECT_STATUS(open_policy(test, test->crafted, &opened), INPUT);
    EXPECT_CONTAINS(es_status_detail(), test->crafted);
    EXPECT_CONTAINS(es_status_detail(), named);
    EXPECT(opened == NULL);
}

// --- policy.safetensors ---

TEST(numbers_of_a_policy_are_checked) {
    FileCase *test = create_file_case();
    static const char *const tensors[] = {"blueprint_embedding.table", "lstm.weight_hh",
                                          "head.op.linear1.bias", "contribution.linear0.weight"};
    static const float wrong[] = {NAN, INFINITY, -INFINITY};
    static const double unreal[] = {NAN, INFINITY, -INFINITY};
    static const int64_t counts[] = {INT64_MIN, -1, ES_COUNTER_MAX + 1, INT64_MAX};
    char named[80];
    for (size_t v = 0; v < ES_COUNT_OF(wrong); v++) {
        for (size_t i = 0; i < ES_COUNT_OF(tensors); i++) {
            craft_number(test->policy_path, test->crafted, tensors[i], 1, &wrong[v], 4);
            snprintf(named, sizeof named, "%s[1] is ", tensors[i]);
            expect_refused(test, named);
        }
        craft_number(test->policy_path, test->crafted, "normaliser.mean", 4, &unreal[v], 8);
        expect_refused(test, "normaliser.mean[4] is ");
        craft_number(test->policy_path, test->crafted, "normaliser.variance", 0, &unreal[v], 8);
        expect_refused(test, "normaliser.variance[0] is ");
    }
    craft_number(test->policy_path, test->crafted, "normaliser.variance", 7, &(double){-1}, 8);
    expect_refused(test, "normaliser.variance[7] is -1, must be finite and not negative");
    for (size_t v = 0; v < ES_COUNT_OF(counts); v++) {
        craft_number(test->policy_path, test->crafted, "normaliser.n_merged", 0, &counts[v], 8);
        expect_refused(test, "normaliser.n_merged is ");
    }
    destroy_file_case(test);
}

// The file with one member of one of its JSON objects set to a text of JSON.
static void craft_member(const FileCase *test, const char *entry, const char *member,
                         const char *value) {
    FileBytes file = read_bytes(test->policy_path);
    json_t *header = json_loadb((const char *)file.bytes + 8, (size_t)header_bytes(&file), 0, NULL);
    const json_t *entries = json_object_get(header, "__metadata__");
    json_t *object = json_loads(json_string_value(json_object_get(entries, entry)), 0, NULL);
    EXPECT(json_object_get(object, member) != NULL);
    json_object_set_new(object, member, json_loads(value, JSON_DECODE_ANY, NULL));
    char *text = json_dumps(object, 0);
    craft_metadata(test->policy_path, test->crafted, entry, text);
    free(text);
    json_decref(object);
    json_decref(header);
    es_release(file.bytes);
}

TEST(members_of_the_metadata_are_checked) {
    FileCase *test = create_file_case();
    FileBytes file = read_bytes(test->policy_path);
    json_t *header = json_loadb((const char *)file.bytes + 8, (size_t)header_bytes(&file), 0, NULL);
    static const char *const entries[] = {"network", "growth", "floors"};
    // neither an integer of 32 bits nor a float, a list, a name
    static const char *const never[] = {"1e300", "\"x\"", "null", "true", "{}", "[[]]"};
    static const char *const huge[] = {"-9223372036854775808", "9223372036854775807", "-2147483648",
                                       "2147483647"};
    for (size_t e = 0; e < ES_COUNT_OF(entries); e++) {
        const char *text =
            json_string_value(json_object_get(json_object_get(header, "__metadata__"), entries[e]));
        json_t *object = json_loads(text, 0, NULL), *value;
        const char *member;
        json_object_foreach(object, member, value) {
            for (size_t v = 0; v < ES_COUNT_OF(never); v++) {
                craft_member(test, entries[e], member, never[v]);
                expect_refused(test, "crafted");
            }
            // a loss at which hosts count as diverged may be huge, nothing else may
            int is_loss = strcmp(member, "divergence_loss") == 0;
            for (size_t v = 0; v < ES_COUNT_OF(huge) && !is_loss; v++) {
                craft_member(test, entries[e], member, huge[v]);
                expect_refused(test, "crafted");
            }
        }
        json_decref(object);
    }
    static const char *const top[] = {"version", "observation"};
    static const char *const numbers[] = {"-1", "2147483648", "9223372036854775808", "nan", ""};
    for (size_t i = 0; i < ES_COUNT_OF(top) * ES_COUNT_OF(numbers); i++) {
        craft_metadata(test->policy_path, test->crafted, top[i % 2], numbers[i / 2]);
        expect_refused(test, top[i % 2]);
    }
    // sizes that the file has not are noticed before a network of such sizes is built
    craft_member(test, "network", "n_hidden", "4096");
    expect_refused(test, "\"lstm.weight_hh\" is F32 [");
    craft_member(test, "network", "n_features", "4096");
    expect_refused(test, "this policy needs F32 [4096]");
    craft_metadata(test->policy_path, test->crafted, "floors", "{\"slot\": 0}");
    expect_refused(test, "floor of head");
    json_decref(header);
    es_release(file.bytes);
    destroy_file_case(test);
}

static char last_note[512];

static void keep_note(void *context, EsLogLevel level, const char *line) {
    (void)context;
    snprintf(last_note, sizeof last_note, "%d %s", (int)level, line);
}

TEST(the_hash_of_the_tensors_is_checked) {
    FileCase *test = create_file_case();
    EsPolicy *opened = NULL;
    FileBytes file = read_bytes(test->policy_path);
    file.bytes[file.count - 1] ^= 1; // a weight, and still finite
    write_bytes(test->crafted, file.bytes, file.count);
    expect_refused(test, "tensors_sha256");
    es_log_set_handler(keep_note, NULL, ES_LOG_INFO);
    craft_metadata(test->policy_path, test->crafted, "tensors_sha256", NULL);
    REQUIRE_OK(open_policy(test, test->crafted, &opened));
    EXPECT_CONTAINS(last_note, "crafted.safetensors was written by an earlier version");
    es_log_set_handler(NULL, NULL, ES_LOG_INFO);
    es_policy_destroy(opened);
    es_release(file.bytes);
    destroy_file_case(test);
}

TEST(changed_policies_are_refused_or_play) {
    FileCase *test = create_file_case();
    FileBytes file = read_bytes(test->policy_path);
    Mutator mutator = {.seed = 51};
    int n_all = mutation_count(200), n_refused = 0;
    for (int i = 0; i < n_all; i++) {
        EsPolicy *opened = NULL;
        mutate_safetensors(&mutator, &file, test->crafted);
        EsStatus status = open_policy(test, test->crafted, &opened);
        EXPECT(status == ES_STATUS_OK || status == ES_STATUS_INPUT);
        n_refused += status != ES_STATUS_OK;
        if (status == ES_STATUS_OK) {
            hosts_begin(&test->hosts, 0);
            REQUIRE_OK(es_policy_begin(opened, 0));
            hosts_step(&test->hosts, opened);
        }
        es_policy_destroy(opened);
    }
    printf("  %d of %d refused\n", n_refused, n_all);
    EXPECT(n_refused > n_all / 4 && n_refused < n_all);
    es_release(file.bytes);
    destroy_file_case(test);
}

// --- training.safetensors ---

static void expect_training_refused(const FileCase *test, const char *named) {
    EXPECT_STATUS(es_policy_training_load(test->policy, test->crafted), INPUT);
    EXPECT_CONTAINS(es_status_detail(), test->crafted);
    EXPECT_CONTAINS(es_status_detail(), named);
}

TEST(numbers_of_a_training_are_checked) {
    FileCase *test = create_file_case();
    static const int64_t counts[] = {INT64_MIN, -1, ES_COUNTER_MAX + 1, INT64_MAX};
    static const char *const counters[] = {
        "updates is ", "passes is ", "updates without a step is ", "rounds in the normaliser is "};
    for (size_t i = 0; i < 16; i++) {
        craft_number(test->training_path, test->crafted, "policy.counters", (int64_t)i / 4,
                     &counts[i % 4], 8);
        expect_training_refused(test, counters[i / 4]);
    }
    static const int32_t steps[] = {INT32_MIN, -1, INT32_MAX};
    for (size_t v = 0; v < ES_COUNT_OF(steps); v++) {
        craft_number(test->training_path, test->crafted, "policy.n_steps", 0, &steps[v], 4);
        expect_training_refused(test, "policy.n_steps is ");
    }
    static const char *const reals[] = {"policy.reward_scale", "policy.value_scale",
                                        "policy.features.mean", "policy.features.variance"};
    static const double unreal[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < ES_COUNT_OF(reals) * ES_COUNT_OF(unreal); i++) {
        craft_number(test->training_path, test->crafted, reals[i / 3], (int64_t)i % 3,
                     &unreal[i % 3], 8);
        expect_training_refused(test, reals[i / 3]);
    }
    for (int64_t index = 1; index < 3; index++) {
        craft_number(test->training_path, test->crafted, reals[0], index, &(double){-1}, 8);
        expect_training_refused(test, "reward_scale");
    }
    craft_number(test->training_path, test->crafted, "policy.value.linear0.weight", 2,
                 &(float){NAN}, 4);
    expect_training_refused(test, "policy.value.linear0.weight[2] is nan, must be finite");
    REQUIRE_OK(es_policy_training_load(test->policy, test->training_path));
    destroy_file_case(test);
}

TEST(changed_trainings_are_refused_or_go_on) {
    FileCase *test = create_file_case();
    FileBytes file = read_bytes(test->training_path);
    Mutator mutator = {.seed = 61};
    int n_all = mutation_count(200), n_refused = 0;
    for (int i = 0; i < n_all; i++) {
        mutate_safetensors(&mutator, &file, test->crafted);
        EsStatus status = es_policy_training_load(test->policy, test->crafted);
        EXPECT(status == ES_STATUS_OK || status == ES_STATUS_INPUT);
        n_refused += status != ES_STATUS_OK;
        if (status == ES_STATUS_OK && i % 16 == 0) {
            EsPpoReport report;
            hosts_play(&test->hosts, test->policy, 0, NULL);
            // weights near the largest float make numbers that are not finite, which is told
            status = es_policy_training_update(test->policy, &test->hosts.state, &report);
            EXPECT(status == ES_STATUS_OK || status == ES_STATUS_NUMERIC);
        }
    }
    printf("  %d of %d refused\n", n_refused, n_all);
    EXPECT(n_refused > n_all / 4 && n_refused < n_all);
    es_release(file.bytes);
    destroy_file_case(test);
}
