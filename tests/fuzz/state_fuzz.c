// Readers of what a run keeps to go on with: the state of a training of proofs, checkpoints of runs
// with their chain of hashes, the run's own counters, comparisons of policies.
#include <sys/stat.h>

#include "base/file.h"
#include "base/folder.h"
#include "base/memory.h"
#include "fuzz.h"
#include "proof/agent/proof_env_internal.h"
#include "proof/agent/proof_training.h"
#include "proof/graph/kinship_graph.h"
#include "refit.h"
#include "runs/grow/grow_evaluate.h"
#include "runs/inspect/run_report.h"
#include "runs/prove/prove_evaluate.h"
#include "runs/run.h"

// --- training.bin ---

typedef struct Proving {
    EsKnowledgeGraph *graph;
    EsDevice *device;
    EsProofTraining *training;
    const char *weights, *state; // as they were at first
    unsigned char *saved;        // the bytes of `state`
    size_t saved_bytes;
} Proving;

static Proving *small_proving(void) {
    static Proving p;
    if (p.training != NULL) {
        return &p;
    }
    EsProofTrainingSettings settings = es_proof_training_defaults();
    settings.env.n_envs = 3;
    settings.env.max_atoms = 4;
    settings.env.max_depth = 4;
    settings.n_steps = 2;
    settings.policy.embed = 2;
    settings.policy.hidden = 3;
    settings.policy.layers = 1;
    settings.ppo.n_epochs = 1;
    FUZZ_OK(es_kinship_graph_create(6, 1, &p.graph));
    FUZZ_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &p.device));
    FUZZ_OK(es_proof_training_create(p.device, p.graph, &settings, &p.training));
    EsProofRound round;
    FUZZ_OK(es_proof_training_round(p.training, NULL, &round));
    p.weights = fuzz_path("proving.safetensors");
    p.state = fuzz_path("proving.bin");
    FUZZ_OK(es_proof_training_save(p.training, p.weights, p.state));
    FUZZ_OK(es_file_read_all(p.state, 1 << 24, (void **)&p.saved, &p.saved_bytes));
    return &p;
}

// An input stands in the place of the training's state and of the environment's slab: the head
// between them, which says what graph and settings it belongs to, is put in, and the checksum
// fitted.
FuzzVerdict fuzz_proof_training(const uint8_t *data, size_t bytes) {
    Proving *p = small_proving();
    unsigned char *forged = malloc(p->saved_bytes);
    FUZZ_CHECK(forged != NULL);
    memcpy(forged, p->saved, p->saved_bytes);
    size_t front = ES_MIN(bytes, (size_t)REFIT_TRAINING_BYTES);
    size_t slab = REFIT_TRAINING_BYTES + REFIT_ENV_HEAD_BYTES;
    memcpy(forged, data, front);
    memcpy(forged + slab, data + front, ES_MIN(bytes - front, p->saved_bytes - slab));
    refit_training_bin(forged, p->saved_bytes);
    const char *path = fuzz_file("forged.bin", forged, p->saved_bytes);
    free(forged);
    FuzzVerdict verdict = fuzz_judge(es_proof_training_load(p->training, p->weights, path));
    if (verdict == FUZZ_ACCEPTED) {
        EsProofRound round;
        EsStatus status = ES_STATUS_OK;
        for (int i = 0; i < 2 && status == ES_STATUS_OK; i++) {
            status = es_proof_training_round(p->training, NULL, &round);
        }
        FUZZ_CHECK(status == ES_STATUS_OK || status == ES_STATUS_NUMERIC);
        FUZZ_OK(es_proof_training_load(p->training, p->weights, p->state));
    }
    return verdict;
}

// --- a folder with a checkpoint ---

static void write_json(const json_t *value, const char *folder, const char *name) {
    char path[ES_RUN_PATH_BYTES + 128], *text = json_dumps(value, JSON_ENCODE_ANY);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FUZZ_CHECK(text != NULL);
    FUZZ_OK(es_file_write_all(path, text, strlen(text)));
    free(text);
}

// {"files": {name: text}, "rank": mark, "manifest": manifest}: what is there is written, then sizes
// and hashes are fitted from the files up to DONE. 0 when they could not be.
static int write_checkpoint(const json_t *input, const char *folder) {
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(input, "files"), name, value) {
        char path[ES_RUN_PATH_BYTES + 128];
        size_t length = strlen(name);
        if (json_is_string(value) && length > 0 && length < 100 && strchr(name, '/') == NULL &&
            name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", folder, name);
            FUZZ_OK(es_file_write_all(path, json_string_value(value), json_string_length(value)));
        }
    }
    write_json(json_object_get(input, "rank"), folder, "rank0.json");
    write_json(json_object_get(input, "manifest"), folder, "manifest.json");
    return refit_checkpoint(folder);
}

// Ask for every value in every way.
static void read_values(const EsCheckpoint *checkpoint, const json_t *values) {
    const char *key, *text = NULL;
    json_t *value;
    int64_t integer = 0;
    double real = 0;
    json_object_foreach((json_t *)values, key, value) {
        fuzz_judge(es_checkpoint_int(checkpoint, key, &integer));
        fuzz_judge(es_checkpoint_real(checkpoint, key, &real));
        if (fuzz_judge(es_checkpoint_text(checkpoint, key, &text)) == FUZZ_ACCEPTED) {
            FUZZ_CHECK(strcmp(text, json_string_value(value)) == 0);
        }
    }
}

static FuzzVerdict read_checkpoints(const EsRunFolder *folder, const json_t *values) {
    EsCheckpoint *checkpoint = NULL;
    EsCheckpointInfo *infos = NULL;
    EsRunRemoval preview = {.is_preview = 1};
    int n_infos = 0, n_checkpoints = 0;
    FUZZ_OK(es_checkpoint_list(folder, &infos, &n_infos));
    es_release(infos);
    FuzzVerdict verdict = fuzz_judge(es_checkpoint_open_latest(folder, 0, 1, &checkpoint));
    if (checkpoint != NULL) {
        FUZZ_CHECK(es_checkpoint_round(checkpoint) == 7);
        read_values(checkpoint, values);
    } else {
        verdict = FUZZ_REFUSED;
    }
    es_checkpoint_end(checkpoint);
    FUZZ_OK(es_checkpoint_prune_with(folder, 1, &preview, &n_checkpoints));
    FUZZ_OK(es_checkpoint_prune(folder, 1));
    return verdict;
}

FuzzVerdict fuzz_checkpoint_folder(const uint8_t *data, size_t bytes) {
    const char *root = fuzz_path("run");
    char path[ES_RUN_PATH_BYTES];
    EsRunFolder *folder = NULL;
    FuzzVerdict verdict = FUZZ_UNFIT;
    json_t *input = json_loadb((const char *)data, bytes, 0, NULL);
    if (json_is_object(json_object_get(input, "rank")) &&
        json_is_object(json_object_get(input, "manifest"))) {
        FUZZ_OK(es_run_folder_create(root, "case", &folder));
        es_run_folder_path(folder, "config.ini", path);
        FUZZ_OK(es_file_write_all(path, "[run]\nkind = case\n", 18));
        es_run_folder_path(folder, "checkpoints", path);
        FUZZ_CHECK(mkdir(path, 0700) == 0);
        es_run_folder_path(folder, "checkpoints/7", path);
        FUZZ_CHECK(mkdir(path, 0700) == 0);
        int is_fitted = write_checkpoint(input, path);
        verdict =
            read_checkpoints(folder, json_object_get(json_object_get(input, "rank"), "values"));
        verdict = is_fitted ? verdict : FUZZ_UNFIT;
        es_run_folder_close(folder);
        FUZZ_OK(es_folder_remove(root));
    }
    json_decref(input);
    return verdict;
}

// --- going on with a run ---

typedef struct ToySettings {
    EsRunSettings run;
} ToySettings;

static const EsConfigKey toy_keys[] = {ES_RUN_CONFIG_KEYS(ToySettings, run, "toy", "1")};

static void describe_toy(void *context, EsRunStartedEvent *row) {
    (void)context;
    row->task = "toy";
}

static EsStatus play_toy(void *context, EsRun *run, int64_t round, EsRoundReport *report) {
    (void)context;
    (void)run;
    report->accuracy = (double)(round % 4);
    report->n_steps = 5;
    report->n_episodes = 2;
    return ES_STATUS_OK;
}

static EsStatus save_toy(void *context, EsCheckpoint *checkpoint) {
    char path[ES_RUN_PATH_BYTES];
    (void)context;
    ES_TRY(es_checkpoint_add_file(checkpoint, "toy.bin", path));
    return es_file_write_all(path, "toy", 3);
}

static EsStatus load_toy(void *context, const EsCheckpoint *checkpoint) {
    (void)context;
    (void)checkpoint;
    return ES_STATUS_OK;
}

// Run the toy in a folder until `n_rounds` are done.
static EsStatus run_toy(const char *path, int n_rounds, int is_resumed, int has_database) {
    static ToySettings settings;
    EsConfig config = {toy_keys, (int)ES_COUNT_OF(toy_keys), &settings, sizeof settings};
    es_config_reset(&config);
    settings.run.n_rounds = n_rounds;
    settings.run.sqlite = has_database;
    settings.run.tensorboard = settings.run.spill_mib = 0;
    settings.run.queue_packets = 1;
    EsRunOptions options = {.config = &config, .settings = &settings.run, .build = "fuzz"};
    *(is_resumed ? &options.resume : &options.out) = path;
    EsRunWork work = {
        .describe = describe_toy, .round = play_toy, .save = save_toy, .load = load_toy};
    EsRun *run = NULL;
    ES_TRY(es_run_open(&options, &run));
    EsStatus status = es_run_start(run);
    if (status == ES_STATUS_OK) {
        status = es_run_rounds(run, &work);
    }
    return es_run_close(run, status, NULL);
}

// Values of the checkpoint of a run that has done its first round are replaced by those of the
// input, which is an object, before it is resumed and plays the next ones.
FuzzVerdict fuzz_run_resume(const uint8_t *data, size_t bytes) {
    const char *checkpoint = fuzz_path("toy/checkpoints/1");
    json_t *input = json_loadb((const char *)data, bytes, 0, NULL), *mark = NULL;
    FuzzVerdict verdict = FUZZ_UNFIT;
    if (json_is_object(input)) {
        FUZZ_OK(run_toy(fuzz_path("toy"), 1, 0, 0));
        FUZZ_CHECK((mark = json_load_file(fuzz_path("toy/checkpoints/1/rank0.json"), 0, NULL)));
        FUZZ_CHECK(json_object_update(json_object_get(mark, "values"), input) == 0);
        write_json(mark, checkpoint, "rank0.json");
        json_decref(mark);
        FUZZ_CHECK(refit_checkpoint(checkpoint));
        verdict = fuzz_judge(run_toy(fuzz_path("toy"), 4, 1, 0));
        FUZZ_OK(es_folder_remove(fuzz_path("toy")));
    }
    json_decref(input);
    return verdict;
}

// Reads a run with edited settings as `esper runs` and `esper diff` do.
FuzzVerdict fuzz_run_config(const uint8_t *data, size_t bytes) {
    EsRunSummary summary;
    EsRunOutcomeName outcome;
    EsRunReport *report = NULL;
    const char *path = fuzz_path("listed");
    static int is_made;
    if (!is_made) {
        FUZZ_OK(run_toy(path, 1, 0, 1));
        is_made = 1;
    }
    fuzz_file("listed/config.ini", data, bytes);
    FuzzVerdict verdict = fuzz_judge(es_run_summarise(path, &summary));
    if (verdict == FUZZ_ACCEPTED) {
        FUZZ_CHECK(memchr(summary.kind, '\0', sizeof summary.kind) != NULL);
        FUZZ_CHECK(summary.n_rounds >= -1);
        es_run_outcome_name(&summary, outcome);
        verdict = summary.n_rounds >= 0 ? FUZZ_ACCEPTED : FUZZ_REFUSED;
    }
    if (fuzz_judge(es_run_report_read(path, &report)) == FUZZ_ACCEPTED) {
        es_run_report_destroy(report);
    }
    return verdict;
}

// --- comparisons of policies ---

// An accepted marker is written, and read again.
FuzzVerdict fuzz_run_marker(const uint8_t *data, size_t bytes) {
    char kind[ES_RUN_KIND_BYTES];
    fuzz_file(ES_RUN_MARKER_NAME, data, bytes);
    FuzzVerdict verdict = fuzz_judge(es_run_marker_read(fuzz_path(""), kind));
    if (verdict == FUZZ_ACCEPTED) {
        FUZZ_CHECK(es_run_kind_is_valid(kind));
    }
    return verdict;
}

FuzzVerdict fuzz_grow_evaluation(const uint8_t *data, size_t bytes) {
    EsGrowEvaluation *evaluation = NULL, *again = NULL;
    EsStatus status = es_grow_evaluation_load(fuzz_file("grow.json", data, bytes), &evaluation);
    if (status != ES_STATUS_OK) {
        FUZZ_CHECK(evaluation == NULL);
        return fuzz_judge(status);
    }
    FUZZ_CHECK(evaluation->n_variants >= 1 && evaluation->n_variants <= ES_GROW_VARIANTS_MAX);
    const char *path = fuzz_path("grow_copy.json");
    FUZZ_OK(es_grow_evaluation_save(evaluation, path));
    FUZZ_OK(es_grow_evaluation_load(path, &again));
    FUZZ_CHECK(again->n_variants == evaluation->n_variants &&
               again->n_episodes == evaluation->n_episodes);
    es_grow_evaluation_destroy(again);
    es_grow_evaluation_destroy(evaluation);
    return FUZZ_ACCEPTED;
}

FuzzVerdict fuzz_prove_evaluation(const uint8_t *data, size_t bytes) {
    static EsProveEvaluation evaluation, again;
    memset(&evaluation, 0, sizeof evaluation);
    const char *path = fuzz_file("prove.json", data, bytes);
    FuzzVerdict verdict = fuzz_judge(es_prove_evaluation_load(path, &evaluation));
    if (verdict == FUZZ_ACCEPTED) {
        const char *copy = fuzz_path("prove_copy.json");
        FUZZ_OK(es_prove_evaluation_save(&evaluation, copy));
        FUZZ_OK(es_prove_evaluation_load(copy, &again));
        int is_taken = 0;
        FUZZ_OK(es_prove_evaluation_take(copy, &evaluation, &again, &is_taken));
        FUZZ_CHECK(is_taken);
    }
    return verdict;
}

// --- first inputs ---

// Training state and slab; the head between them is the target's.
static void write_training_seed(const char *folder) {
    const Proving *p = small_proving();
    size_t slab = REFIT_TRAINING_BYTES + REFIT_ENV_HEAD_BYTES;
    unsigned char *input = malloc(p->saved_bytes);
    FUZZ_CHECK(input != NULL);
    memcpy(input, p->saved, REFIT_TRAINING_BYTES);
    memcpy(input + REFIT_TRAINING_BYTES, p->saved + slab, p->saved_bytes - slab);
    FUZZ_OK(es_file_write_all(fuzz_seed_path(folder, "proof_training"), input,
                              p->saved_bytes - REFIT_ENV_HEAD_BYTES));
    free(input);
}

static void write_json_seed(const char *folder, const char *target, json_t *input) {
    char *text = json_dumps(input, JSON_INDENT(1));
    FUZZ_CHECK(text != NULL);
    FUZZ_OK(es_file_write_all(fuzz_seed_path(folder, target), text, strlen(text)));
    free(text);
    json_decref(input);
}

// The toy's checkpoint, renumbered to the round that the target expects, and its values.
static void write_run_seeds(const char *folder) {
    FUZZ_OK(run_toy(fuzz_path("toy"), 1, 0, 0));
    json_t *mark = json_load_file(fuzz_path("toy/checkpoints/1/rank0.json"), 0, NULL);
    json_t *manifest = json_load_file(fuzz_path("toy/checkpoints/1/manifest.json"), 0, NULL);
    FUZZ_CHECK(mark != NULL && manifest != NULL);
    FUZZ_OK(es_folder_remove(fuzz_path("toy")));
    json_t *values = json_deep_copy(json_object_get(mark, "values"));
    json_object_set_new(mark, "round", json_integer(7));
    json_object_set_new(manifest, "round", json_integer(7));
    write_json_seed(folder, "run_resume", values);
    write_json_seed(folder, "checkpoint_folder",
                    json_pack("{s:{s:s}, s:o, s:o}", "files", "toy.bin", "toy", "rank", mark,
                              "manifest", manifest));
}

void fuzz_write_state_seeds(const char *folder) {
    static EsProveEvaluation proved;
    static EsGrowEvaluation grown;
    EsGrowOutcome outcomes[2] = {{{50, 60, 1, 1.5, 1, 0}}, {{55, 61, 2, 1.25, 0, 1}}};
    write_training_seed(folder);
    write_run_seeds(folder);
    FUZZ_OK(es_prove_evaluation_save(&proved, fuzz_seed_path(folder, "prove_evaluation")));
    grown.n_episodes = 2;
    grown.n_variants = 1;
    snprintf(grown.variants[0].name, sizeof grown.variants[0].name, "ppo");
    grown.variants[0].outcomes = outcomes;
    FUZZ_OK(es_grow_evaluation_save(&grown, fuzz_seed_path(folder, "grow_evaluation")));
}
