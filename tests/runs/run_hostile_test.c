// Runs resumed from crafted checkpoints: all hashes fit, one number does not. They are refused by
// file, field and value, and the checkpoint stays; what is let through goes on to its end.
#include "base/range_check.h"
#include "mutate.h"
#include "proof/agent/proof_policy_file.h"
#include "runs/fit/fit_run.h"
#include "runs/grow/hosts_run.h"
#include "runs/prove/prove_run.h"

// A run that was saved after its first round of two.
typedef struct SavedRun {
    EsProveSettings prove_settings;
    EsHostsSettings hosts_settings;
    EsFitSettings fit_settings;
    EsConfig config;
    EsRunSettings *settings;
    EsRunWork work;
    EsProveRun *prove; // owned, or
    EsHostsRun *hosts; // owned, or
    EsFitRun *fit;     // owned
    const char *root, *checkpoint, *mark_path;
    json_t *mark; // owned: rank0.json as it was written
} SavedRun;

static EsStatus sit(SavedRun *saved, int is_resumed) {
    EsRunOptions options = {.config = &saved->config,
                            .settings = saved->settings,
                            .out = is_resumed ? NULL : saved->root,
                            .resume = is_resumed ? saved->root : NULL,
                            .build = "test"};
    EsRun *run = NULL;
    ES_TRY(es_run_open(&options, &run));
    EsStatus status = es_run_start(run);
    if (status == ES_STATUS_OK) {
        status = es_run_rounds(run, &saved->work);
    }
    return es_run_close(run, status, NULL);
}

// A fit that goes on must know from the start how many epochs there are: n_rounds is 2 then.
static void save_first_round(SavedRun *saved, int n_rounds) {
    saved->root = temp_path("run");
    saved->checkpoint = temp_path("run/checkpoints/1");
    saved->mark_path = temp_path("run/checkpoints/1/rank0.json");
    saved->settings->n_threads = 1;
    saved->settings->level = 0;
    saved->settings->checkpoint_every = 1;
    saved->settings->checkpoint_keep = 8;
    saved->settings->n_rounds = n_rounds;
    REQUIRE_OK(sit(saved, 0));
    saved->settings->n_rounds = 2;
    saved->mark = json_load_file(saved->mark_path, 0, NULL);
    EXPECT(saved->mark != NULL);
}

static SavedRun *create_prove(void) {
    static SavedRun saved;
    saved = (SavedRun){.settings = &saved.prove_settings.run};
    EsProveSettings *settings = &saved.prove_settings;
    saved.config = es_prove_run_config(settings);
    settings->n_people = 40;
    settings->n_envs = 4;
    settings->n_steps = 3;
    settings->policy.embed = 8;
    settings->policy.hidden = 8;
    settings->policy.layers = 1;
    settings->anneal_rounds = 2;
    settings->validate_every = 1;
    settings->n_validated = 2;
    settings->n_validated_corruptions = 1;
    settings->n_nodes = 2;
    settings->search_depth = 2;
    settings->n_evaluated = -1;
    REQUIRE_OK(es_prove_run_create(settings, &saved.prove));
    saved.work = es_prove_run_work(saved.prove);
    save_first_round(&saved, 1);
    return &saved;
}

static SavedRun *create_hosts(void) {
    static SavedRun saved;
    saved = (SavedRun){.settings = &saved.hosts_settings.run};
    saved.config = es_hosts_run_config(&saved.hosts_settings);
    saved.hosts_settings.n_envs = 2;
    saved.hosts_settings.batch = 512;
    REQUIRE_OK(es_hosts_run_create(&saved.hosts_settings, &saved.hosts));
    saved.work = es_hosts_run_work(saved.hosts);
    save_first_round(&saved, 1);
    return &saved;
}

static void create_fit_work(SavedRun *saved) {
    es_fit_run_destroy(saved->fit);
    REQUIRE_OK(es_fit_run_create(&saved->fit_settings, &saved->fit));
    saved->work = es_fit_run_work(saved->fit);
}

static SavedRun *create_fit(void) {
    static SavedRun saved;
    saved = (SavedRun){.settings = &saved.fit_settings.run};
    EsFitSettings *settings = &saved.fit_settings;
    saved.config = es_fit_run_config(settings);
    snprintf(settings->data.name, sizeof settings->data.name, "tiny");
    snprintf(settings->task, sizeof settings->task, "tiny"); // one group
    snprintf(settings->policy, sizeof settings->policy, "heuristic");
    settings->run.n_rounds = 2;
    settings->n_candidates = 3;
    settings->max_parameters = 4000;
    settings->epoch_batches = 1;
    settings->max_seconds = 1e6f;
    create_fit_work(&saved);
    save_first_round(&saved, 2);
    return &saved;
}

static void destroy_saved(SavedRun *saved) {
    es_prove_run_destroy(saved->prove);
    es_hosts_run_destroy(saved->hosts);
    es_fit_run_destroy(saved->fit);
    json_decref(saved->mark);
}

// Go on from the first round, with its checksums refitted.
static EsStatus resume(SavedRun *saved) {
    REQUIRE_OK(es_folder_remove(temp_path("run/checkpoints/2")));
    EXPECT(refit_checkpoint(saved->checkpoint));
    if (saved->fit != NULL) {
        create_fit_work(saved);
    }
    return sit(saved, 1);
}

static void write_mark(const SavedRun *saved, json_t *mark) {
    EXPECT_EQ(json_dump_file(mark, saved->mark_path, JSON_INDENT(2)), 0);
}

// Resume with one value of rank0.json replaced; takes over `value`.
static EsStatus resume_with(SavedRun *saved, const char *key, json_t *value) {
    json_t *mark = json_deep_copy(saved->mark);
    EXPECT(json_object_get(json_object_get(mark, "values"), key) != NULL);
    json_object_set_new(json_object_get(mark, "values"), key, value);
    write_mark(saved, mark);
    json_decref(mark);
    return resume(saved);
}

static void expect_refused(SavedRun *saved, const char *key, json_t *value, const char *named) {
    EXPECT_STATUS(resume_with(saved, key, value), INPUT);
    EXPECT_CONTAINS(es_status_detail(), saved->mark_path);
    EXPECT_CONTAINS(es_status_detail(), named);
    EXPECT(access(temp_path("run/checkpoints/1/DONE"), F_OK) == 0);
}

static json_t *pack_real(double value) {
    char bits[17];
    uint64_t word;
    memcpy(&word, &value, sizeof word);
    snprintf(bits, sizeof bits, "%016llx", (unsigned long long)word);
    return json_pack("{s:n, s:s}", "real", "bits", bits);
}

static json_t *pack_state(const EsAnomalyState *state) {
    const unsigned char *bytes = (const unsigned char *)state;
    char text[2 * sizeof *state + 1];
    for (size_t i = 0; i < sizeof *state; i++) {
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    }
    return json_string(text);
}

static EsAnomalyState unpack_state(const SavedRun *saved) {
    EsAnomalyState state;
    const char *text =
        json_string_value(json_object_get(json_object_get(saved->mark, "values"), "anomaly_state"));
    for (size_t i = 0; i < sizeof state; i++) {
        char digits[3] = {text[2 * i], text[2 * i + 1], 0};
        ((unsigned char *)&state)[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    return state;
}

// --- rank0.json ---

TEST(values_of_a_prover_are_checked) {
    SavedRun *saved = create_prove();
    static const json_int_t wrong[] = {INT64_MIN, -1, ES_COUNTER_MAX + 1, INT64_MAX};
    static const double unreal[] = {INFINITY, -INFINITY, -1, 1.5};
    for (size_t v = 0; v < ES_COUNT_OF(wrong); v++) {
        expect_refused(saved, "n_episodes", json_integer(wrong[v]), "n_episodes is ");
        expect_refused(saved, "best_round", json_integer(wrong[v]), "best_round is ");
        expect_refused(saved, "best_mrr", pack_real(unreal[v]), "best_mrr is ");
    }
    expect_refused(saved, "best_round", json_integer(2), "best_round is 2, must be 0 to 1");
    REQUIRE_OK(resume_with(saved, "best_mrr", pack_real(NAN)));
    REQUIRE_OK(resume_with(saved, "best_mrr", pack_real(0.5)));
    destroy_saved(saved);
}

TEST(anomaly_states_are_checked) {
    SavedRun *saved = create_prove();
    EsAnomalyState good = unpack_state(saved), bad;
    static const int64_t wrong[] = {INT64_MIN, -1, ES_COUNTER_MAX + 1, INT64_MAX};
    static const double unreal[] = {NAN, INFINITY, -INFINITY};
    for (size_t v = 0; v < ES_COUNT_OF(wrong); v++) {
        bad = good;
        bad.n_accuracies = wrong[v];
        expect_refused(saved, "anomaly_state", pack_state(&bad), "anomaly_state: n_accuracies is ");
        bad = good;
        bad.n_gradients = wrong[v];
        expect_refused(saved, "anomaly_state", pack_state(&bad), "anomaly_state: n_gradients is ");
    }
    for (size_t v = 0; v < ES_COUNT_OF(unreal); v++) {
        bad = good;
        bad.accuracy[9] = unreal[v];
        expect_refused(saved, "anomaly_state", pack_state(&bad), "anomaly_state: accuracy[9] is ");
        bad = good;
        bad.gradient_norm_mean = unreal[v];
        expect_refused(saved, "anomaly_state", pack_state(&bad), "gradient_norm_mean is ");
        bad = good;
        bad.gradient_health_mean = unreal[v];
        expect_refused(saved, "anomaly_state", pack_state(&bad), "gradient_health_mean is ");
        bad = good;
        bad.rolling_accuracy = unreal[v];
        expect_refused(saved, "anomaly_state", pack_state(&bad), "rolling_accuracy is ");
    }
    bad = good;
    bad.n_low_updates[15] = -1;
    expect_refused(saved, "anomaly_state", pack_state(&bad), "n_low_updates[15] is -1");
    expect_refused(saved, "anomaly_state", json_string("00"), "anomaly_state is not");
    REQUIRE_OK(resume_with(saved, "anomaly_state", pack_state(&good)));
    destroy_saved(saved);
}

TEST(batches_of_hosts_are_checked) {
    SavedRun *saved = create_hosts();
    json_int_t right =
        json_integer_value(json_object_get(json_object_get(saved->mark, "values"), "batches"));
    const json_int_t wrong[] = {INT64_MIN, -1, 0, right - 1, right + 1, INT32_MAX, INT64_MAX};
    for (size_t v = 0; v < ES_COUNT_OF(wrong); v++) {
        expect_refused(saved, "batches", json_integer(wrong[v]), "batches is ");
    }
    REQUIRE_OK(resume_with(saved, "batches", json_integer(right)));
    destroy_saved(saved);
}

TEST(values_of_a_fit_are_checked) {
    SavedRun *saved = create_fit();
    static const char *const wrong[] = {
        "3", "1,0", "0,0", "-1", "x", "0;1", "99999999999999999999"};
    static const double unreal[] = {NAN, INFINITY, -1, 100.5};
    const json_t *right = json_object_get(json_object_get(saved->mark, "values"), "candidates0");
    for (size_t v = 0; v < ES_COUNT_OF(wrong); v++) {
        expect_refused(saved, "candidates0", json_string(wrong[v]), "candidates0 is ");
    }
    for (size_t v = 0; v < ES_COUNT_OF(unreal); v++) {
        expect_refused(saved, "best_accuracy", pack_real(unreal[v]), "best_accuracy is ");
    }
    expect_refused(saved, "best_epoch", json_integer(-1), "best_epoch is -1, must be 0 to 1");
    expect_refused(saved, "best_epoch", json_integer(2), "best_epoch is 2, must be 0 to 1");
    expect_refused(saved, "best_candidate", json_integer(3), "best_candidate is 3, must be 0 to 2");
    expect_refused(saved, "seconds", pack_real(NAN), "seconds is ");
    expect_refused(saved, "seconds", pack_real(-1), "seconds is ");
    // more, or fewer, than those in the files
    const char *other = strchr(json_string_value(right), ',') != NULL ? "0" : "0,1";
    EXPECT_STATUS(resume_with(saved, "candidates0", json_string(other)), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "is not of this host and its slots");
    EXPECT_STATUS(resume_with(saved, "epochs", json_integer(3)), CONFIG);
    REQUIRE_OK(resume_with(saved, "candidates0", json_string(json_string_value(right))));
    destroy_saved(saved);
}

// A host that diverged is one of many: the run goes on, and its numbers stay as they are.
TEST(diverged_hosts_go_on) {
    SavedRun *saved = create_hosts();
    const char *path = temp_path("run/checkpoints/1/hosts.safetensors"),
               *copy = temp_path("good.safetensors");
    FileBytes file = read_bytes(path);
    write_bytes(copy, file.bytes, file.count);
    craft_number(copy, path, "head.bias", 3, &(float){NAN}, 4);
    EXPECT_STATUS(resume(saved), OK);
    EXPECT(access(temp_path("run/checkpoints/2/DONE"), F_OK) == 0);
    es_release(file.bytes);
    destroy_saved(saved);
}

// --- files that do not belong together ---

TEST(a_training_of_another_round_is_refused) {
    SavedRun *saved = create_prove();
    const char *path = temp_path("run/checkpoints/1/training.bin");
    FileBytes file = read_bytes(path);
    memcpy(file.bytes + 8, &(int64_t){0}, 8);
    write_bytes(path, file.bytes, file.count);
    EXPECT_STATUS(resume(saved), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "training.bin: rounds done is 0, must be 1");
    es_release(file.bytes);
    destroy_saved(saved);
}

// The best weights of a policy of another width would have other places.
TEST(best_weights_of_other_settings_are_refused) {
    SavedRun *saved = create_prove();
    EsProofPolicySettings settings = saved->prove_settings.policy;
    EsDevice *device = NULL;
    EsProofPolicy *other = NULL;
    settings.hidden *= 4;
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &device));
    REQUIRE_OK(
        es_proof_policy_create(device, es_prove_run_graph(saved->prove), &settings, 1, &other));
    REQUIRE_OK(es_proof_policy_file_save(other, temp_path("run/checkpoints/1/best.safetensors")));
    EXPECT_STATUS(resume(saved), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "best.safetensors: hidden is 32 in the file and 8");
    es_proof_policy_destroy(other);
    es_device_close(device);
    destroy_saved(saved);
}

// --- random changes ---

// Characters of rank0.json, or bytes of the anomaly state in it.
TEST(changed_marks_are_refused_or_resumed) {
    SavedRun *saved = create_prove();
    char *text = json_dumps(saved->mark, JSON_INDENT(2));
    size_t length = strlen(text), values = (size_t)(strstr(text, "\"values\"") - text);
    unsigned char *crafted = malloc(length);
    Mutator mutator = {.seed = 71};
    int n_all = mutation_count(60), n_refused = 0;
    for (int i = 0; i < n_all; i++) {
        EsStatus status;
        saved->settings->n_rounds = i % 16 == 0 ? 2 : 1; // to go on costs more than to load
        if (mutate_draw(&mutator, 2) == 0) {
            EsAnomalyState state = unpack_state(saved);
            mutate_bytes(&mutator, (unsigned char *)&state, 0, sizeof state);
            status = resume_with(saved, "anomaly_state", pack_state(&state));
        } else {
            // NOLINTNEXTLINE(bugprone-not-null-terminated-result): bytes of a file
            memcpy(crafted, text, length);
            mutate_text(&mutator, crafted, values, length);
            write_bytes(saved->mark_path, crafted, length);
            json_t *mark = json_load_file(saved->mark_path, 0, NULL);
            int is_json = mark != NULL;
            json_decref(mark);
            status = is_json ? resume(saved) : ES_STATUS_INPUT;
        }
        EXPECT(status == ES_STATUS_OK || status == ES_STATUS_INPUT || status == ES_STATUS_CONFIG);
        n_refused += status != ES_STATUS_OK;
        write_mark(saved, saved->mark);
    }
    printf("  %d of %d refused\n", n_refused, n_all);
    EXPECT(n_refused > n_all / 8 && n_refused < n_all);
    free(crafted);
    free(text);
    destroy_saved(saved);
}
