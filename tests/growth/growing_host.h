// Hosts with seeds, run plan by plan, for tests: a small data set, one store, and any number of
// plans of different topologies on it. What a slot does is written into `alpha` and `mode`.
//
//     Ground ground;
//     ground_begin(&ground, "r0c0,r1c1", (int32_t[]){0, 0}, 2);
//     Runner runner;
//     runner_begin(&runner, &ground, &topology, 6, 1, ES_COMPILE_OFF);
//     runner.mode[0][1] = ES_BLEND_ADD;
//     runner_run(&runner);
//
// E environments, N images of a batch, S slots.
#ifndef ES_TEST_GROWING_HOST_H
#define ES_TEST_GROWING_HOST_H

#include "base/random_rules.h"
#include "growth/host/growth_graph.h"
#include "network/plan/plan.h"

#define GROUND_ENVS_MAX   8
#define GROUND_IMAGES_MAX 64
#define GROUND_SEED       11

typedef struct Ground {
    EsDataset dataset;
    EsDevice *device;
    EsStream *stream;
    EsGrowthModel model;
    EsStore *store;
    int32_t episode[GROUND_ENVS_MAX];
} Ground;

typedef struct Runner {
    Ground *ground;
    EsGrowthGraph graph;
    EsPlan *plan;
    int32_t step[1];
    int32_t index[GROUND_ENVS_MAX * GROUND_IMAGES_MAX];
    float alpha[ES_SLOTS_MAX][GROUND_ENVS_MAX];
    int32_t mode[ES_SLOTS_MAX][GROUND_ENVS_MAX]; // EsBlendMode
} Runner;

// --- data ---

static inline float small_draw(uint32_t number) {
    EsRandom4 r = es_random_draw(29, 0, ES_PURPOSE_EVALUATION, 0, number / 4);
    return 2.0f * es_random_uniform(r.word[number % 4]) - 1.0f;
}

// Room for n images with one channel of size x size; pixels, labels and splits are the caller's.
static inline void begin_gray_dataset(EsDataset *dataset, const char *name, int size, int n_classes,
                                      int64_t n) {
    memset(dataset, 0, sizeof *dataset);
    snprintf(dataset->name, sizeof dataset->name, "%s", name);
    dataset->n_channels = 1;
    dataset->height = dataset->width = size;
    dataset->n_classes = n_classes;
    dataset->image_bytes = (size_t)size * (size_t)size;
    dataset->n_images = n;
    dataset->images = malloc((size_t)n * dataset->image_bytes);
    dataset->labels = malloc((size_t)n * sizeof *dataset->labels);
    dataset->mean[0] = 0.5f;
    dataset->std[0] = 0.25f;
}

// 8 x 8 images of three classes that differ in where they are bright, with noise.
static inline void make_small_dataset(EsDataset *dataset, int64_t n_train, int64_t n_validation) {
    enum { SIZE = 8, CLASSES = 3 };
    int64_t n = n_train + n_validation;
    begin_gray_dataset(dataset, "small", SIZE, CLASSES, n);
    for (int64_t i = 0; i < n; i++) {
        int label = (int)(i * 7 % 11 % CLASSES);
        dataset->labels[i] = (uint16_t)label;
        for (int p = 0; p < SIZE * SIZE; p++) {
            int band = label == 0 ? p / SIZE : label == 1 ? p % SIZE : (p / SIZE + p % SIZE) / 2;
            float noise = 70.0f * small_draw((uint32_t)(i * SIZE * SIZE + p));
            dataset->images[i * SIZE * SIZE + p] =
                (uint8_t)(128.0f + (band < 4 ? 40.0f : -40.0f) + noise);
        }
    }
    dataset->train = (EsSplit){dataset->images, dataset->labels, n_train};
    dataset->validation = (EsSplit){dataset->images + (size_t)n_train * dataset->image_bytes,
                                    dataset->labels + n_train, n_validation};
}

static inline void destroy_small_dataset(EsDataset *dataset) {
    free(dataset->images);
    free(dataset->labels);
}

static inline EsHostSpec small_host(void) {
    return (EsHostSpec){.name = "small",
                        .dataset = "small",
                        .image_channels = 1,
                        .image_size = 8,
                        .base = 4,
                        .kernel = 3,
                        .n_blocks = 2,
                        .n_pools = 2,
                        .n_classes = 3,
                        .batch = 8};
}

// --- the store ---

// Environments with equal episodes have equal weights and see equal batches.
static inline void ground_begin(Ground *ground, const char *slots, const int32_t *episodes,
                                int64_t n_envs) {
    memset(ground, 0, sizeof *ground);
    EsGrowthModel *model = &ground->model;
    make_small_dataset(&ground->dataset, 64, 40);
    model->host = small_host();
    REQUIRE_OK(es_slots_parse(&model->host, slots, model->slots, &model->n_slots));
    model->n_envs = n_envs;
    model->seed = GROUND_SEED;
    model->dataset = &ground->dataset;
    memcpy(ground->episode, episodes, sizeof *episodes * (size_t)n_envs);
    REQUIRE_OK(es_growth_layout_create(model));
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &ground->device));
    REQUIRE_OK(es_stream_create(ground->device, &ground->stream));
    REQUIRE_OK(es_store_create_sized(ground->device, n_envs, model->layout.n_parameters,
                                     model->layout.n_states, &ground->store));
}

static inline void ground_end(Ground *ground) {
    es_store_destroy(ground->store);
    es_stream_destroy(ground->stream);
    es_device_close(ground->device);
    destroy_small_dataset(&ground->dataset);
}

static inline float *slab_row(const EsTensor *slab, int64_t env) {
    return (float *)slab->data + env * slab->stride[0];
}

// Fresh values for host and seeds of the graph.
static inline void ground_initialise(Ground *ground, const EsGraph *graph) {
    REQUIRE_OK(
        es_store_initialise(ground->store, graph, ground->stream, GROUND_SEED, ground->episode));
}

// Parameters that start at one number (gammas at 0, say) get values at which every path is open.
static inline void ground_open_paths(Ground *ground, const EsGraph *graph) {
    for (EsValueId v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        for (int64_t e = 0; e < ground->model.n_envs; e++) {
            float *row = slab_row(&ground->store->parameters, e) + value->slab_offset;
            int is_open = value->role != ES_ROLE_PARAMETER || value->bound > 0.0f;
            for (int64_t k = 0; !is_open && k < es_value_count(value); k++) {
                int64_t number = value->slab_offset + k + 4096 * ground->episode[e];
                row[k] += 0.6f * small_draw((uint32_t)number);
            }
        }
    }
}

// --- plans ---

static inline void bind(Runner *r, EsValueId input, void *data) {
    if (input != ES_NO_VALUE) {
        const EsValue *value = &r->graph.graph->values[input];
        EsTensor tensor =
            es_tensor_view(data, value->dtype, r->ground->device, value->rank, value->dim);
        REQUIRE_OK(es_plan_bind(r->plan, input, &tensor));
    }
}

// A plan for a graph that is already in r->graph.
static inline void runner_plan(Runner *r, Ground *ground, EsCompileMode mode) {
    EsPlanOptions options = es_plan_defaults();
    options.mode = mode;
    r->ground = ground;
    REQUIRE_OK(es_plan_create(r->graph.graph, ground->store, &options, &r->plan));
    bind(r, r->graph.images, ground->dataset.images);
    bind(r, r->graph.labels, ground->dataset.labels);
    bind(r, r->graph.episode, ground->episode);
    bind(r, r->graph.step, r->step);
    if (r->graph.graph->values[r->graph.index].role == ES_ROLE_INPUT) {
        bind(r, r->graph.index, r->index);
    }
    for (int s = 0; s < ground->model.n_slots; s++) {
        bind(r, r->graph.alpha[s], r->alpha[s]);
        bind(r, r->graph.mode[s], r->mode[s]);
    }
}

static inline void runner_begin(Runner *r, Ground *ground, const EsTopology *topology,
                                int64_t batch, int is_training, EsCompileMode mode) {
    memset(r, 0, sizeof *r);
    REQUIRE_OK(es_growth_graph_create(&ground->model, topology, batch, is_training, &r->graph));
    runner_plan(r, ground, mode);
    for (int64_t i = 0; i < ground->model.n_envs * batch; i++) { // validation images
        r->index[i] = (int32_t)(ground->dataset.train.count + i % batch);
    }
}

static inline void runner_end(Runner *r) {
    es_plan_destroy(r->plan);
    es_growth_graph_destroy(&r->graph);
}

// Every environment's slot in this stage.
static inline void runner_set(Runner *r, int slot, EsBlendMode mode, float alpha) {
    for (int64_t e = 0; e < r->ground->model.n_envs; e++) {
        r->mode[slot][e] = (int32_t)mode;
        r->alpha[slot][e] = alpha;
    }
}

static inline void runner_run(Runner *r) { REQUIRE_OK(es_plan_run(r->plan, r->ground->stream)); }

static inline float runner_loss(const Runner *r, int64_t env) {
    return ((const float *)es_plan_tensor(r->plan, r->graph.loss.loss).data)[env];
}

static inline int32_t runner_correct(const Runner *r, int64_t env) {
    return ((const int32_t *)es_plan_tensor(r->plan, r->graph.loss.n_correct).data)[env];
}

// The node of this kind with that number, in running order.
static inline const EsNode *find_node(const EsGraph *graph, EsOp op, int number) {
    for (int n = 0; n < graph->n_nodes; n++) {
        if (graph->nodes[n].op == op && number-- == 0) {
            return &graph->nodes[n];
        }
    }
    return NULL;
}

// The loss in double, from the logits; plans of ES_COMPILE_OFF alone.
static inline double runner_exact_loss(const Runner *r, int64_t env) {
    const EsNode *node = find_node(r->graph.graph, ES_OP_CROSS_ENTROPY_FORWARD, 0);
    EsTensor logits = es_plan_tensor(r->plan, node->input[0]);
    int64_t n_rows = logits.dim[1], n_classes = logits.dim[2];
    const int32_t *labels = es_plan_tensor(r->plan, node->input[1]).data;
    double loss = 0;
    for (int64_t row = env * n_rows; row < (env + 1) * n_rows; row++) {
        const float *at = (const float *)logits.data + row * n_classes;
        double sum = 0;
        for (int64_t k = 0; k < n_classes; k++) {
            sum += exp((double)at[k]);
        }
        loss += (log(sum) - (double)at[labels[row]]) / (double)n_rows;
    }
    return loss;
}

static inline EsTopology topology_of(const int8_t *blueprints, const int8_t *gates, int n_slots) {
    EsTopology topology = es_topology_empty();
    memcpy(topology.blueprint, blueprints, (size_t)n_slots);
    memcpy(topology.has_gate, gates, (size_t)n_slots);
    return topology;
}

#endif
