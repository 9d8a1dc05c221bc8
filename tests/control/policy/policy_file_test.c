// Policy files: what was saved comes back; what is not a policy, or one of another host, is
// refused.
#include "control/policy/policy_file.h"

#include "base/file.h"
#include "control/policy_case.h"
#include "temp_folder.h"
#include "tensor/safetensors.h"

typedef struct FileCase {
    PolicyCase policy;
    EsFeatureNormaliser features;
    EsPolicyMetadata metadata;
    const char *path;
} FileCase;

static EsPolicyMetadata some_metadata(EsPolicySpec spec) {
    EsPolicyMetadata metadata = {.spec = spec,
                                 .observation_version = ES_OBSERVATION_VERSION,
                                 .settings = es_growth_settings_tiny(spec.n_slots, 10)};
    // places of slots that are not there are not kept
    for (int i = spec.n_slots; i < ES_SLOTS_MAX; i++) {
        metadata.settings.slot_column[i] = 0;
    }
    metadata.settings.auto_forward = ES_AUTO_FORWARD_G1;
    metadata.settings.min_ratio = 0.123456789f;
    for (int head = 0; head < ES_N_HEADS; head++) {
        metadata.floor[head] = 0.01f * (float)(head + 1);
    }
    return metadata;
}

static FileCase create_file_case(void) {
    EsPolicySpec spec = {
        .n_slots = 2, .n_hidden = 16, .n_features = 24, .dropout = 0.1f, .aux_stops = 1};
    FileCase test = {.policy = create_case(spec, 3, 2, 1, 0), .metadata = some_metadata(spec)};
    REQUIRE_OK(es_feature_normaliser_create(es_observation_size(2), &test.features));
    for (int i = 0; i < test.features.n_features; i++) {
        test.features.mean[i] = (double)draw_uniform(20, i);
        test.features.variance[i] = 0.1 + fabs((double)draw_uniform(21, i));
    }
    test.features.n_merged = 41;
    test.path = temp_path("policy.safetensors");
    REQUIRE_OK(es_policy_file_save(test.path, &test.metadata, test.policy.network, &test.features));
    return test;
}

static void destroy_file_case(FileCase *test) {
    es_feature_normaliser_destroy(&test->features);
    destroy_case(&test->policy);
}

static size_t slab_bytes(EsPolicyNetwork *network) {
    return es_tensor_bytes(&es_policy_network_store(network)->parameters);
}

static const void *slab(EsPolicyNetwork *network) {
    return es_policy_network_store(network)->parameters.data;
}

// --- there and back ---

TEST(a_policy_comes_back) {
    FileCase test = create_file_case();
    EsPolicyMetadata metadata;
    REQUIRE_OK(es_policy_file_metadata(test.path, &metadata));
    EXPECT(memcmp(&metadata, &test.metadata, sizeof metadata) == 0);
    REQUIRE_OK(es_policy_metadata_check(&metadata, &test.metadata.settings, test.path));

    EsPolicyNetwork *loaded;
    EsFeatureNormaliser features;
    REQUIRE_OK(es_feature_normaliser_create(es_observation_size(2), &features));
    REQUIRE_OK(es_policy_network_create(test.policy.device, &metadata.spec, 9, 0, &loaded));
    REQUIRE_OK(es_policy_file_load(test.path, loaded, &features));
    EXPECT(memcmp(slab(loaded), slab(test.policy.network), slab_bytes(loaded)) == 0);
    size_t scale_bytes = (size_t)features.n_features * sizeof(double);
    EXPECT(memcmp(features.mean, test.features.mean, scale_bytes) == 0);
    EXPECT(memcmp(features.variance, test.features.variance, scale_bytes) == 0);
    EXPECT_EQ(features.n_merged, 41);
    es_policy_network_destroy(loaded);
    es_feature_normaliser_destroy(&features);
    destroy_file_case(&test);
}

TEST(saving_twice_gives_the_same_bytes) {
    FileCase test = create_file_case();
    const char *other = temp_path("again.safetensors");
    void *first, *second;
    size_t n_first, n_second;
    REQUIRE_OK(es_policy_file_save(other, &test.metadata, test.policy.network, &test.features));
    REQUIRE_OK(es_file_read_all(test.path, 1 << 24, &first, &n_first));
    REQUIRE_OK(es_file_read_all(other, 1 << 24, &second, &n_second));
    EXPECT_EQ(n_first, n_second);
    EXPECT(memcmp(first, second, n_first) == 0);
    es_release(first);
    es_release(second);
    destroy_file_case(&test);
}

TEST(people_can_read_the_metadata) {
    FileCase test = create_file_case();
    EsSafetensors *file;
    REQUIRE_OK(es_safetensors_open(test.path, &file));
    EXPECT_TEXT(es_safetensors_metadata(file, "format"), "esper-policy");
    EXPECT_TEXT(es_safetensors_metadata(file, "version"), "1");
    EXPECT_TEXT(es_safetensors_metadata(file, "observation"), "1");
    EXPECT_TEXT(es_safetensors_metadata(file, "network"),
                "{\"n_slots\": 2, \"n_hidden\": 16, \"n_features\": 24, \"dropout\": 0.1, "
                "\"aux_stops\": 1}");
    const char *growth = es_safetensors_metadata(file, "growth");
    EXPECT_CONTAINS(growth, "\"slots\": [\"r0c0\", \"r0c1\"]");
    EXPECT_CONTAINS(growth, "\"blueprints\": [\"conv_light\", ");
    EXPECT_CONTAINS(growth, "\"episode_steps\": 30");
    EXPECT_CONTAINS(growth, "\"tempo\": [1, 2, 3]");
    EXPECT_CONTAINS(growth, "\"alpha_target\": [0.5, 0.7, 1.0]");
    EXPECT_CONTAINS(es_safetensors_metadata(file, "floors"), "\"op\": 0.08");
    // weights as other readers expect them: without an environment axis
    EsTensor weight;
    REQUIRE_OK(es_safetensors_find(file, "lstm.weight_hh", &weight));
    EXPECT_EQ(weight.rank, 2);
    EXPECT_EQ(weight.dim[0], 64);
    es_safetensors_close(file);
    destroy_file_case(&test);
}

TEST(metadata_of_another_policy_is_not_saved) {
    FileCase test = create_file_case();
    EsPolicyMetadata metadata = test.metadata;
    metadata.spec.n_hidden = 24;
    EXPECT_STATUS(es_policy_file_save(test.path, &metadata, test.policy.network, &test.features),
                  ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "24 hidden units");
    metadata = test.metadata;
    metadata.settings.n_slots = 3;
    EXPECT_STATUS(es_policy_file_save(test.path, &metadata, test.policy.network, &test.features),
                  ARGUMENT);
    destroy_file_case(&test);
}

// --- another host ---

static void expect_refusal(const FileCase *test, const EsGrowthSettings *host, const char *first,
                           const char *second) {
    EXPECT_STATUS(es_policy_metadata_check(&test->metadata, host, "some/policy"), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "some/policy: ");
    EXPECT_CONTAINS(es_status_detail(), first);
    EXPECT_CONTAINS(es_status_detail(), second);
}

TEST(a_host_that_differs_is_refused) {
    FileCase test = create_file_case();
    EsGrowthSettings host = test.metadata.settings;
    host.episode_steps = 150;
    expect_refusal(&test, &host, "trained with --episode-steps 30;", "this run has 150");
    host = test.metadata.settings;
    host.tempo[2] = 8;
    expect_refusal(&test, &host, "(tempo[2] is 3 there and 8 here)",
                   "the --task it was trained with");
    host = test.metadata.settings;
    host.alpha_target[0] = 0.4f;
    expect_refusal(&test, &host, "(alpha_target[0] is 0.5 there and 0.4 here)", "--task");
    host = test.metadata.settings;
    host.n_slots = 3;
    host.slot_column[2] = 2;
    expect_refusal(&test, &host, "--slots r0c0,r0c1;", "this run has r0c0,r0c1,r0c2");
    host = test.metadata.settings;
    host.slot_row[1] = 1;
    expect_refusal(&test, &host, "--slots r0c0,r0c1;", "this run has r0c0,r1c1");
    host = test.metadata.settings;
    host.blueprints = ES_BLUEPRINT_ID_BIT(ES_BLUEPRINT_ID_NORM);
    expect_refusal(&test, &host, "blueprints conv_light, ", "this host has norm");
    host = test.metadata.settings;
    host.auto_forward = ES_AUTO_FORWARD_ALL;
    expect_refusal(&test, &host, "--grow.auto_forward=1;", "this run has on");
    host = test.metadata.settings;
    host.is_strict = 1;
    expect_refusal(&test, &host, "trained with --gates permissive;", "this run has strict");
    test.metadata.observation_version = 9;
    expect_refusal(&test, &test.metadata.settings, "version 9", "version 1");
    destroy_file_case(&test);
}

TEST(thresholds_may_differ) {
    FileCase test = create_file_case();
    EsGrowthSettings host = test.metadata.settings;
    host.divergence_sigmas = 7;
    host.random_loss = 4.6f;
    host.blueprint_parameters[0][1] = 999;
    REQUIRE_OK(es_policy_metadata_check(&test.metadata, &host, test.path));
    destroy_file_case(&test);
}

TEST(a_network_of_other_sizes_is_refused) {
    FileCase test = create_file_case();
    EsPolicySpec spec = test.metadata.spec;
    EsPolicyNetwork *network;
    spec.n_hidden = 24;
    REQUIRE_OK(es_policy_network_create(test.policy.device, &spec, 3, 0, &network));
    EXPECT_STATUS(es_policy_file_load(test.path, network, &test.features), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "16 hidden units");
    es_policy_network_destroy(network);
    EsFeatureNormaliser narrow;
    REQUIRE_OK(es_feature_normaliser_create(23, &narrow));
    EXPECT_STATUS(es_policy_file_load(test.path, test.policy.network, &narrow), ARGUMENT);
    es_feature_normaliser_destroy(&narrow);
    destroy_file_case(&test);
}

// --- files that are no policies ---

// The file's tensors and metadata, with changes, as a new file.
typedef struct Forgery {
    const char *drop;        // tensor left out
    const char *rename;      // tensor under another name
    const char *key, *value; // metadata entry replaced; value NULL: left out
    const char *spoil;       // tensor whose first number becomes NaN
    int is_flat;             // "feature.bias" gets another shape
} Forgery;

static void forge(const FileCase *test, const Forgery *forgery, const char *path) {
    static const char *const keys[] = {"format",  "version", "observation",
                                       "network", "growth",  "floors"};
    EsSafetensors *file;
    EsNamedTensor tensors[128];
    EsMetadata metadata[ES_COUNT_OF(keys)];
    int n = 0, n_metadata = 0;
    REQUIRE_OK(es_safetensors_open(test->path, &file));
    for (int i = 0; i < es_safetensors_count(file); i++) {
        EsNamedTensor tensor = es_safetensors_at(file, i);
        if (forgery->drop != NULL && strcmp(tensor.name, forgery->drop) == 0) {
            continue;
        }
        if (forgery->spoil != NULL && strcmp(tensor.name, forgery->spoil) == 0) {
            memset(tensor.tensor.data, 0xff, es_dtype_bytes(tensor.tensor.dtype));
        }
        if (forgery->rename != NULL && strcmp(tensor.name, forgery->rename) == 0) {
            tensor.name = "surprise\x1b[2J";
        }
        if (forgery->is_flat && strcmp(tensor.name, "feature.bias") == 0) {
            tensor.tensor = es_tensor_reshape(&tensor.tensor, 2, (int64_t[]){4, 6});
        }
        tensors[n++] = tensor;
    }
    for (size_t k = 0; k < ES_COUNT_OF(keys); k++) {
        int is_changed = forgery->key != NULL && strcmp(keys[k], forgery->key) == 0;
        const char *value = is_changed ? forgery->value : es_safetensors_metadata(file, keys[k]);
        if (value != NULL) {
            metadata[n_metadata++] = (EsMetadata){keys[k], value};
        }
    }
    REQUIRE_OK(es_safetensors_save(path, tensors, n, metadata, n_metadata));
    es_safetensors_close(file);
}

// Refused with a text that holds `part`, and nothing has changed.
static void expect_refused(FileCase *test, Forgery forgery, const char *part) {
    const char *path = temp_path("policy.safetensors.forged");
    forge(test, &forgery, path);
    size_t bytes = slab_bytes(test->policy.network);
    void *before = malloc(bytes);
    memcpy(before, slab(test->policy.network), bytes);
    double mean = test->features.mean[0];
    EXPECT_STATUS(es_policy_file_load(path, test->policy.network, &test->features), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "policy.safetensors.forged");
    EXPECT_CONTAINS(es_status_detail(), part);
    EXPECT(strchr(es_status_detail(), '\x1b') == NULL);
    EXPECT(memcmp(before, slab(test->policy.network), bytes) == 0);
    EXPECT(test->features.mean[0] == mean);
    free(before);
}

TEST(forged_tensors) {
    FileCase test = create_file_case();
    expect_refused(&test, (Forgery){.drop = "lstm.bias_hh"}, "lstm.bias_hh");
    expect_refused(&test, (Forgery){.drop = "normaliser.mean"}, "normaliser.mean");
    expect_refused(&test, (Forgery){.rename = "head.op.linear0.bias"}, "head.op.linear0.bias");
    expect_refused(&test, (Forgery){.spoil = "value.linear2.weight"}, "value.linear2.weight[0] is");
    expect_refused(&test, (Forgery){.spoil = "normaliser.variance"}, "normaliser.variance[0] is");
    expect_refused(&test, (Forgery){.spoil = "normaliser.n_merged"}, "n_merged");
    expect_refused(&test, (Forgery){.is_flat = 1}, "\"feature.bias\" is F32 [4, 6]");
    destroy_file_case(&test);
}

TEST(forged_metadata) {
    FileCase test = create_file_case();
    const struct {
        const char *key, *value, *part;
    } cases[] = {
        {"format", NULL, "not a policy"},
        {"format", "pickle", "not a policy"},
        {"version", "2", "\"ranges\" is missing"},
        {"version", "3", "version 3"},
        {"version", "1e9", "\"version\" is \"1e9\""},
        {"observation", NULL, "\"observation\""},
        {"network", NULL, "\"network\" is missing"},
        {"network", "[]", "not a JSON object"},
        {"network", "{", "not a JSON object"},
        {"network", "{\"n_slots\": 2}", "\"n_hidden\" is missing"},
        {"network",
         "{\"n_slots\": 2, \"n_hidden\": 17, \"n_features\": 24, \"dropout\": 0.1, "
         "\"aux_stops\": 1}",
         "multiple of 8"},
        {"network",
         "{\"n_slots\": 2, \"n_hidden\": 1e30, \"n_features\": 24, \"dropout\": 0.1, "
         "\"aux_stops\": 1}",
         "\"n_hidden\" is not an integer"},
        {"network",
         "{\"n_slots\": 3, \"n_hidden\": 16, \"n_features\": 24, \"dropout\": 0.1, "
         "\"aux_stops\": 1}",
         "3 slots, its growth 2"},
        {"network",
         "{\"n_slots\": 2, \"n_hidden\": 16, \"n_features\": 24, \"dropout\": 0.1, "
         "\"aux_stops\": 1, \"extra\": 1}",
         "6 members"},
        {"growth", "{\"slots\": []}", "\"slots\""},
        {"growth", "{\"slots\": [\"r0\\u001b[2Jc0\"]}", "slot 0"},
        {"growth", "{\"slots\": [\"r0c0\"], \"blueprints\": [\"bomb\"]}", "\"bomb\""},
        {"growth", "{\"slots\": [\"r0c0\"], \"blueprints\": []}", "\"max_seeds\" is missing"},
        {"floors", "{\"slot\": 2}", "head \"slot\""},
    };
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        expect_refused(&test, (Forgery){.key = cases[i].key, .value = cases[i].value},
                       cases[i].part);
    }
    destroy_file_case(&test);
}

TEST(settings_out_of_range) {
    FileCase test = create_file_case();
    EsSafetensors *file;
    REQUIRE_OK(es_safetensors_open(test.path, &file));
    char growth[4096];
    snprintf(growth, sizeof growth, "%s", es_safetensors_metadata(file, "growth"));
    es_safetensors_close(file);
    char *place = strstr(growth, "\"episode_steps\": 30");
    memcpy(place, "\"episode_steps\": -1", strlen("\"episode_steps\": -1"));
    expect_refused(&test, (Forgery){.key = "growth", .value = growth}, "episode_steps is -1");
    destroy_file_case(&test);
}

// Every file that ends too early is refused.
TEST(truncated_files) {
    FileCase test = create_file_case();
    void *bytes;
    size_t n;
    EsPolicyMetadata metadata;
    REQUIRE_OK(es_file_read_all(test.path, 1 << 24, &bytes, &n));
    for (int i = 0; i < 40; i++) {
        size_t kept = i < 20 ? (size_t)i * (n / 20) : n - (size_t)(40 - i);
        const char *path = write_temp_file("short", bytes, kept);
        EXPECT_STATUS(es_policy_file_metadata(path, &metadata), INPUT);
        EXPECT_CONTAINS(es_status_detail(), "short");
    }
    es_release(bytes);
    EXPECT_STATUS(es_policy_file_metadata("/nowhere/policy", &metadata), INPUT);
    destroy_file_case(&test);
}

// One byte of the header changed: a message or a policy, never a crash (run under the sanitizers).
TEST(damaged_headers) {
    FileCase test = create_file_case();
    void *memory;
    size_t n;
    REQUIRE_OK(es_file_read_all(test.path, 1 << 24, &memory, &n));
    unsigned char *bytes = memory;
    int n_refused = 0, n_files = count_open_files();
    for (uint32_t i = 0; i < 300; i++) {
        EsRandom4 draw = es_random_draw(3, i, ES_PURPOSE_EVALUATION, 0, 0);
        size_t place = draw.word[0] % 9000;
        unsigned char before = bytes[place];
        bytes[place] = (unsigned char)draw.word[1];
        const char *path = write_temp_file("damaged", bytes, n);
        n_refused += es_policy_file_load(path, test.policy.network, &test.features) != ES_STATUS_OK;
        bytes[place] = before;
    }
    EXPECT(n_refused > 200);
    EXPECT_EQ(count_open_files(), n_files);
    es_release(memory);
    destroy_file_case(&test);
}
