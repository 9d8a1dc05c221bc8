// Readers of safetensors files: the format itself, checkpoints of networks, and the files of
// policies and embeddings. What is accepted is used: tensors are read whole, a policy decides, a
// model scores. What is refused leaves the network as it was.
#include "base/file.h"
#include "base/memory.h"
#include "control/policy/policy_training.h"
#include "fit/network_export.h"
#include "fuzz.h"
#include "growth/engine/lifecycle.h"
#include "network/network_file.h"
#include "proof/agent/proof_policy_file.h"
#include "proof/agent/proof_policy_training.h"
#include "proof/graph/kinship_graph.h"
#include "proof/ranking/embedding_model.h"
#include "refit.h"
#include "tensor/safetensors.h"

#define N_SLOTS 2
#define N_ENVS  2

static EsDevice *open_cpu(void) {
    static EsDevice *device; // one thread: a fuzzer has the others
    if (device == NULL) {
        FUZZ_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &device));
    }
    return device;
}

// A graph that a small file can be for.
static const EsKnowledgeGraph *small_graph(void) {
    static EsKnowledgeGraph *graph;
    if (graph == NULL) {
        FUZZ_OK(es_kinship_graph_create(4, 1, &graph));
    }
    return graph;
}

// The input as a file, the hash of its tensors fitted where it has one.
static const char *write_tensors(const char *name, const uint8_t *data, size_t bytes) {
    uint8_t *fitted = malloc(bytes + 1);
    FUZZ_CHECK(fitted != NULL);
    memcpy(fitted, data, bytes);
    refit_safetensors(fitted, bytes);
    const char *path = fuzz_file(name, fitted, bytes);
    free(fitted);
    return path;
}

// Checks whether it is safetensors at all; what comes after that is the format's own.
static FuzzVerdict judge_tensors(EsStatus status, const char *path) {
    FuzzVerdict verdict = fuzz_judge(status);
    EsSafetensors *file = NULL;
    if (verdict == FUZZ_REFUSED && es_safetensors_open(path, &file) != ES_STATUS_OK) {
        return FUZZ_UNFIT;
    }
    es_safetensors_close(file);
    return verdict;
}

// --- the format ---

static void expect_same_tensors(const EsSafetensors *file, const EsSafetensors *copy) {
    FUZZ_CHECK(es_safetensors_count(copy) == es_safetensors_count(file));
    for (int i = 0; i < es_safetensors_count(file); i++) {
        EsNamedTensor named = es_safetensors_at(file, i);
        EsTensor again, found;
        FUZZ_OK(es_safetensors_find(file, named.name, &found));
        FUZZ_CHECK(found.data == named.tensor.data);
        FUZZ_OK(es_safetensors_find(copy, named.name, &again));
        FUZZ_CHECK(again.dtype == named.tensor.dtype && again.rank == named.tensor.rank);
        FUZZ_CHECK(es_tensor_same_shape(&again, &named.tensor));
        FUZZ_CHECK(memcmp(again.data, named.tensor.data, es_tensor_bytes(&again)) == 0);
    }
}

// Everything comes back from a file that is written of it.
FuzzVerdict fuzz_safetensors(const uint8_t *data, size_t bytes) {
    EsSafetensors *file = NULL, *copy = NULL;
    EsStatus status = es_safetensors_open(write_tensors("any.safetensors", data, bytes), &file);
    if (status != ES_STATUS_OK) {
        FUZZ_CHECK(file == NULL);
        return fuzz_judge(status);
    }
    int n_tensors = es_safetensors_count(file);
    EsNamedTensor *tensors = calloc((size_t)n_tensors + 1, sizeof *tensors);
    FUZZ_CHECK(tensors != NULL);
    for (int i = 0; i < n_tensors; i++) {
        tensors[i] = es_safetensors_at(file, i);
    }
    const char *path = fuzz_path("copy.safetensors");
    FUZZ_OK(es_safetensors_save(path, tensors, n_tensors, NULL, 0));
    FUZZ_OK(es_safetensors_open(path, &copy));
    expect_same_tensors(file, copy);
    FUZZ_CHECK(es_safetensors_metadata(copy, "format") == NULL);
    es_safetensors_close(copy);
    es_safetensors_close(file);
    free(tensors);
    return FUZZ_ACCEPTED;
}

// --- a network with its optimiser ---

typedef struct Network {
    EsGraph *graph;
    EsStore *store;
    EsOptimiser *optimiser;
    EsStream *stream;
} Network;

static const Network *small_network(void) {
    static Network n;
    if (n.graph != NULL) {
        return &n;
    }
    static const int32_t episodes[N_ENVS] = {0};
    EsOptimiserOptions adam = es_optimiser_defaults(ES_OPTIMISER_ADAM);
    FUZZ_OK(es_graph_create(N_ENVS, &n.graph));
    EsValueId x = es_graph_input(n.graph, "x", ES_DTYPE_F32, 4, (int64_t[]){3, 1, 4, 4});
    EsValueId h =
        es_graph_batchnorm(n.graph, "norm", es_graph_conv2d(n.graph, "conv", x, 2, 3, 0), 1);
    es_graph_linear(n.graph, "head", es_graph_pool(n.graph, ES_POOL_GLOBAL, h), 2);
    FUZZ_OK(es_graph_status(n.graph));
    FUZZ_OK(es_stream_create(open_cpu(), &n.stream));
    FUZZ_OK(es_store_create(n.graph, open_cpu(), &n.store));
    FUZZ_OK(es_store_initialise(n.store, n.graph, n.stream, 1, episodes));
    FUZZ_OK(es_optimiser_create(n.graph, n.store, &adam, &n.optimiser));
    FUZZ_OK(es_optimiser_reset(n.optimiser, n.stream));
    return &n;
}

// A refused file has changed nothing; an accepted one is saved as it was read.
FuzzVerdict fuzz_network_checkpoint(const uint8_t *data, size_t bytes) {
    const Network *n = small_network();
    const char *path = write_tensors("network.safetensors", data, bytes);
    size_t slab_bytes = es_tensor_bytes(&n->store->parameters);
    void *before = malloc(slab_bytes);
    FUZZ_CHECK(before != NULL);
    memcpy(before, n->store->parameters.data, slab_bytes);
    EsStatus status =
        es_network_file_load(path, n->graph, n->store, n->optimiser, n->stream, ES_NUMBERS_FINITE);
    FuzzVerdict verdict = judge_tensors(status, path);
    FUZZ_CHECK(verdict == FUZZ_ACCEPTED ||
               memcmp(before, n->store->parameters.data, slab_bytes) == 0);
    free(before);
    if (verdict != FUZZ_ACCEPTED) {
        // the weights alone may still do
        fuzz_judge(es_network_file_load(path, n->graph, n->store, NULL, n->stream, ES_NUMBERS_ANY));
    }
    return verdict;
}

// --- policies that grow hosts ---

typedef struct Growing {
    EsGrowthSettings settings;
    EsSlot slots[ES_SLOTS_MAX];
    EsGrowthState state;
    EsPolicy *training;
    EsPolicyContext context;
} Growing;

static Growing *small_growing(void) {
    static Growing g;
    if (g.training != NULL) {
        return &g;
    }
    EsPolicySpec spec = {.n_slots = N_SLOTS, .n_hidden = 8, .n_features = 8, .aux_stops = 1};
    EsPpoSettings ppo = es_policy_ppo_defaults();
    void *slab = NULL;
    g.settings = es_growth_settings_tiny(N_SLOTS, 10);
    for (int s = 0; s < N_SLOTS; s++) {
        snprintf(g.slots[s].name, sizeof g.slots[s].name, "r0c%d", s);
        g.slots[s].column = g.slots[s].order = s;
    }
    FUZZ_OK(es_allocate(es_growth_state_bytes(N_ENVS, N_SLOTS), &slab));
    es_growth_state_bind(&g.state, slab, N_ENVS, N_SLOTS);
    g.context = (EsPolicyContext){.settings = &g.settings,
                                  .slots = g.slots,
                                  .device = open_cpu(),
                                  .n_envs = N_ENVS,
                                  .seed = 1};
    FUZZ_OK(es_policy_create(&spec, &ppo, &g.context, 3, &g.training));
    return &g;
}

// The first steps of an episode; a policy in training learns from them.
static void runner(Growing *g, EsPolicy *policy, int n_steps, int is_training) {
    EsActionMasks masks[N_ENVS];
    EsAction actions[N_ENVS];
    const float loss[N_ENVS] = {1, 0.5f}, accuracy[N_ENVS] = {10, 50}, rewards[N_ENVS] = {0.5f, -1};
    EsPpoReport report;
    es_lifecycle_reset(&g->state, &g->settings);
    FUZZ_OK(es_policy_begin(policy, 0));
    for (int step = 0; step < n_steps; step++) {
        es_lifecycle_measure(&g->state, &g->settings, loss, accuracy);
        es_lifecycle_masks(&g->state, &g->settings, masks);
        FUZZ_OK(es_policy_decide(policy, &g->state, masks, actions));
        for (int e = 0; e < N_ENVS; e++) {
            int32_t op = es_action_value(&actions[e], ES_HEAD_OP);
            for (int head = 0; head < ES_N_HEADS; head++) {
                FUZZ_CHECK(!es_head_matters(op, head) ||
                           (masks[e].head[head] >> actions[e].head[head] & 1));
            }
        }
        es_lifecycle_apply(&g->state, &g->settings, actions);
        es_lifecycle_tick(&g->state, &g->settings);
        if (is_training) {
            FUZZ_OK(es_policy_training_record(policy, &g->state, rewards, 10));
        }
    }
    if (is_training) {
        EsStatus status = es_policy_training_update(policy, &g->state, &report);
        FUZZ_CHECK(status == ES_STATUS_OK || status == ES_STATUS_NUMERIC);
    }
}

FuzzVerdict fuzz_policy_file(const uint8_t *data, size_t bytes) {
    Growing *g = small_growing();
    EsPolicy *policy = NULL;
    const char *path = write_tensors("policy.safetensors", data, bytes);
    EsStatus status = es_policy_open(path, &g->context, &policy);
    if (status != ES_STATUS_OK) {
        FUZZ_CHECK(policy == NULL);
        return judge_tensors(status, path);
    }
    runner(g, policy, 2, 0);
    es_policy_destroy(policy);
    return FUZZ_ACCEPTED;
}

// After a refusal the policy is as it was, so that the next input meets the same one.
FuzzVerdict fuzz_policy_training(const uint8_t *data, size_t bytes) {
    Growing *g = small_growing();
    const char *path = write_tensors("training.safetensors", data, bytes);
    static const char *start;
    if (start == NULL) {
        start = fuzz_path("start.safetensors");
        FUZZ_OK(es_policy_training_save(g->training, start));
    }
    FuzzVerdict verdict = judge_tensors(es_policy_training_load(g->training, path), path);
    // an update takes longer than all the rest: a quarter of what was accepted goes on to one
    if (verdict == FUZZ_ACCEPTED && es_crc32c(data, bytes) % 4 == 0) {
        runner(g, g->training, 3, 1);
        FUZZ_OK(es_policy_training_load(g->training, start));
    }
    return verdict;
}

// --- grown networks ---

// Two blocks and a gated seed, saved once.
static EsGrownNetwork *small_grown(void) {
    static EsGrownNetwork *network;
    const EsHostBlock block = {.n_channels = 2,
                               .kernel = 3,
                               .has_pool = 1,
                               .places = ES_HOST_BEFORE_POOL | ES_HOST_AFTER_POOL};
    if (network == NULL) {
        static const float mean = 0.5f, deviation = 0.25f;
        static const char *const classes[] = {"no", "yes"};
        EsGrownSpec spec = {.host = {.name = "small",
                                     .dataset = "",
                                     .image_channels = 1,
                                     .image_size = 4,
                                     .n_blocks = 2,
                                     .n_classes = 2,
                                     .blocks = {block, block}},
                            .mean = &mean,
                            .std = &deviation,
                            .class_names = classes,
                            .seeds = {{.slot = {.row = 1, .column = 0, .n_channels = 2},
                                       .blueprint = ES_BLUEPRINT_ATTENTION,
                                       .style = 3,
                                       .alpha = 0.5f}},
                            .n_seeds = 1};
        FUZZ_OK(es_grown_network_create(&spec, open_cpu(), &network));
    }
    return network;
}

// The two files, one of them the input; the hash in network.json is that of the tensors.
static FuzzVerdict load_grown(const char *json_path, const char *tensors_path) {
    EsGrownNetwork *network = NULL;
    EsSafetensors *file = NULL;
    EsExportList list;
    json_t *root = json_load_file(json_path, 0, NULL);
    const char *hash = NULL;
    if (es_safetensors_open(tensors_path, &file) == ES_STATUS_OK) {
        hash = es_safetensors_metadata(file, ES_TENSORS_HASH);
    }
    if (json_is_object(root) && hash != NULL) {
        json_object_set_new(root, ES_TENSORS_HASH, json_string(hash));
        FUZZ_CHECK(json_dump_file(root, json_path, 0) == 0);
    }
    int is_fit = json_is_object(root) && file != NULL;
    json_decref(root);
    es_safetensors_close(file);
    EsStatus status = es_grown_network_load(json_path, open_cpu(), &network);
    if (status != ES_STATUS_OK) {
        FUZZ_CHECK(network == NULL);
        FuzzVerdict verdict = fuzz_judge(status);
        return is_fit ? verdict : FUZZ_UNFIT;
    }
    FUZZ_OK(es_export_list_create(network, &list));
    es_export_list_destroy(&list);
    int64_t count = es_grown_network_input_count(network);
    if (count <= 4096) { // large ones take their time
        float *input = calloc((size_t)count, sizeof *input);
        float *logits = malloc(sizeof *logits * (size_t)network->spec.host.n_classes);
        FUZZ_CHECK(input != NULL && logits != NULL);
        FUZZ_OK(es_grown_network_predict(network, NULL, ES_INPUT_PLAIN, input, 1, logits));
        free(input);
        free(logits);
    }
    es_grown_network_destroy(network);
    return FUZZ_ACCEPTED;
}

FuzzVerdict fuzz_grown_tensors(const uint8_t *data, size_t bytes) {
    static char *json; // of the small network
    static size_t json_bytes;
    const char *json_path = fuzz_path("network.json");
    if (json == NULL) {
        void *text = NULL;
        FUZZ_OK(es_grown_network_save(small_grown(), fuzz_path(".")));
        FUZZ_OK(es_file_read_all(json_path, 1 << 20, &text, &json_bytes));
        json = text;
    }
    fuzz_file("network.json", json, json_bytes);
    return load_grown(json_path, write_tensors("network.safetensors", data, bytes));
}

FuzzVerdict fuzz_grown_json(const uint8_t *data, size_t bytes) {
    static const char *tensors;
    if (tensors == NULL) {
        FUZZ_OK(es_grown_network_save(small_grown(), fuzz_path(".")));
        tensors = fuzz_path("network.safetensors");
    }
    return load_grown(fuzz_file("network.json", data, bytes), tensors);
}

static void write_grown_seeds(const char *folder) {
    static const char *const seeds[][2] = {{"grown_tensors", "network.safetensors"},
                                           {"grown_json", "network.json"}};
    FUZZ_OK(es_grown_network_save(small_grown(), fuzz_path(".")));
    for (size_t i = 0; i < ES_COUNT_OF(seeds); i++) {
        void *bytes = NULL;
        size_t count = 0;
        FUZZ_OK(es_file_read_all(fuzz_path(seeds[i][1]), 1 << 20, &bytes, &count));
        FUZZ_OK(es_file_write_all(fuzz_seed_path(folder, seeds[i][0]), bytes, count));
        es_release(bytes);
    }
}

// --- models of knowledge graphs ---

FuzzVerdict fuzz_embedding_model(const uint8_t *data, size_t bytes) {
    const EsKnowledgeGraph *graph = small_graph();
    EsEmbeddingModel *model = NULL;
    const char *path = write_tensors("embedding.safetensors", data, bytes);
    EsStatus status = es_embedding_model_load(path, graph, &model);
    if (status != ES_STATUS_OK) {
        FUZZ_CHECK(model == NULL);
        return judge_tensors(status, path);
    }
    float scores[16];
    const EsAtom *facts = graph->facts;
    int32_t n = ES_MIN(graph->n_facts, 4);
    FUZZ_CHECK(graph->n_constants <= 16);
    for (int side = 0; side < 2; side++) {
        es_embedding_model_scores(model, (EsCorruptSide)side, facts, n, scores);
        es_embedding_model_ratios(model, (EsCorruptSide)side, facts[0], facts, 1, scores);
        es_embedding_model_score_all(model, (EsCorruptSide)side, facts[0], scores);
    }
    es_embedding_model_destroy(model);
    return FUZZ_ACCEPTED;
}

FuzzVerdict fuzz_proof_policy(const uint8_t *data, size_t bytes) {
    EsProofPolicy *policy = NULL;
    const char *path = write_tensors("proof.safetensors", data, bytes);
    EsStatus status = es_proof_policy_file_load(open_cpu(), small_graph(), path, &policy);
    if (status != ES_STATUS_OK) {
        FUZZ_CHECK(policy == NULL);
        es_proof_policy_file_is_foreign(path, small_graph());
        return judge_tensors(status, path);
    }
    EsProofPolicy *again = NULL;
    const char *copy = fuzz_path("proof_copy.safetensors");
    FUZZ_OK(es_proof_policy_file_save(policy, copy));
    FUZZ_OK(es_proof_policy_file_load(open_cpu(), small_graph(), copy, &again));
    es_proof_policy_destroy(again);
    es_proof_policy_destroy(policy);
    return FUZZ_ACCEPTED;
}

static EsProofPolicyTraining *small_proof_training(EsProofPolicy **policy_out) {
    static EsProofPolicy *policy;
    static EsProofPolicyTraining *training;
    if (training == NULL) {
        EsProofPolicySettings settings = es_proof_policy_defaults();
        settings.embed = 2;
        settings.hidden = 3;
        settings.layers = 1;
        FUZZ_OK(es_proof_policy_create(open_cpu(), small_graph(), &settings, 1, &policy));
        FUZZ_OK(es_proof_policy_training_create(policy, &training));
    }
    *policy_out = policy;
    return training;
}

// The same file with the moments of training.
FuzzVerdict fuzz_proof_weights(const uint8_t *data, size_t bytes) {
    EsProofPolicy *policy = NULL;
    const char *path = write_tensors("proof_weights.safetensors", data, bytes);
    return judge_tensors(es_proof_policy_training_load(small_proof_training(&policy), path), path);
}

// --- first inputs ---

void fuzz_write_tensor_seeds(const char *folder) {
    const Network *n = small_network();
    Growing *g = small_growing();
    EsEmbeddingModel *model = NULL;
    EsProofPolicy *policy = NULL;
    EsProofPolicyTraining *training = small_proof_training(&policy);
    float numbers[] = {1, -2, 0.5f};
    int64_t counts[] = {7};
    EsNamedTensor tensors[] = {
        {"weight", es_tensor_view(numbers, ES_DTYPE_F32, NULL, 2, (int64_t[]){1, 3})},
        {"n", es_tensor_view(counts, ES_DTYPE_I64, NULL, 1, (int64_t[]){1})},
        {"none", es_tensor_view(numbers, ES_DTYPE_U8, NULL, 1, (int64_t[]){0})}};
    EsMetadata metadata[] = {{"format", "any"}, ES_TENSORS_HASH_ENTRY};
    FUZZ_OK(es_safetensors_save(fuzz_seed_path(folder, "safetensors"), tensors, 3, metadata, 2));
    FUZZ_OK(es_network_file_save(fuzz_seed_path(folder, "network_checkpoint"), n->graph, n->store,
                                 n->optimiser, n->stream, NULL, 0));
    write_grown_seeds(folder);
    FUZZ_OK(es_policy_save(g->training, fuzz_seed_path(folder, "policy_file")));
    FUZZ_OK(es_policy_training_save(g->training, fuzz_seed_path(folder, "policy_training")));
    FUZZ_OK(es_embedding_model_create(small_graph(), ES_EMBEDDING_DIMENSION_STEP, &model));
    FUZZ_OK(es_embedding_model_save(model, fuzz_seed_path(folder, "embedding_model")));
    es_embedding_model_destroy(model);
    FUZZ_OK(es_proof_policy_file_save(policy, fuzz_seed_path(folder, "proof_policy")));
    FUZZ_OK(es_proof_policy_training_save(training, fuzz_seed_path(folder, "proof_weights")));
}
