// Fixture of the network tests: a host on fixed inputs, built, bound and run in any mode on any
// device.
#ifndef ES_TESTS_NETWORK_CASE_H
#define ES_TESTS_NETWORK_CASE_H

#include "es_test.h"

#include "growth/host/host.h"
#include "network/plan/plan.h"
#include "tensor/safetensors.h"
#include "test_data.h"

// A golden case of tests/golden/cnn_training.safetensors.
typedef struct NetworkShape {
    const char *golden; // prefix of its names
    int64_t n_envs, n_rows;
    EsHostSpec host;
} NetworkShape;

static const NetworkShape network_shapes[] = {
    {"pooled", 2, 19, {"pooled", "", 3, 10, 5, 3, 2, 2, 4, 19, {{0}}, NULL, 0, 0, ES_HOST_CNN}},
    {"unpooled", 2, 17, {"unpooled", "", 1, 7, 3, 3, 3, 1, 5, 17, {{0}}, NULL, 0, 0, ES_HOST_CNN}},
    {"pointwise",
     1,
     16,
     {"pointwise", "", 2, 6, 4, 1, 2, 2, 3, 16, {{0}}, NULL, 0, 0, ES_HOST_CNN}},
    {"tiled", 1, 18, {"tiled", "", 2, 8, 4, 3, 2, 2, 4, 18, {{0}}, NULL, 0, 0, ES_HOST_CNN}},
};

typedef struct NetworkRun {
    const NetworkShape *shape;
    EsDevice *device;       // owned
    EsStream *stream;       // owned
    EsSafetensors *golden;  // owned
    EsGraph *graph;         // owned
    EsStore *store;         // owned
    EsOptimiser *optimiser; // owned
    EsPlan *plan;           // owned
    EsTensor x, labels;     // owned memory
    EsLoss loss;
} NetworkRun;

static inline EsTensor golden_tensor(const NetworkRun *run, const char *part, const char *name) {
    char full[160];
    snprintf(full, sizeof full, "%s.%s%s", run->shape->golden, part, name);
    EsTensor tensor;
    REQUIRE_OK(es_safetensors_find(run->golden, full, &tensor));
    return tensor;
}

// Copy a contiguous host tensor [E, ...] into a device tensor whose environments stand apart, and
// back.
static inline void copy_in(NetworkRun *run, const EsTensor *to, const EsTensor *from) {
    size_t bytes = es_tensor_bytes(from) / (size_t)from->dim[0],
           element = es_dtype_bytes(to->dtype);
    for (int64_t e = 0; e < from->dim[0]; e++) {
        REQUIRE_OK(
            es_stream_copy(run->stream, (char *)to->data + (size_t)(e * to->stride[0]) * element,
                           (const char *)from->data + (size_t)e * bytes, bytes, ES_COPY_TO_DEVICE));
    }
    REQUIRE_OK(es_stream_synchronize(run->stream));
}

static inline void copy_out(NetworkRun *run, void *to, const EsTensor *from) {
    size_t bytes = (size_t)(es_tensor_count(from) / from->dim[0]) * es_dtype_bytes(from->dtype);
    for (int64_t e = 0; e < from->dim[0]; e++) {
        const char *source =
            (const char *)from->data + (size_t)(e * from->stride[0]) * es_dtype_bytes(from->dtype);
        REQUIRE_OK(es_stream_copy(run->stream, (char *)to + (size_t)e * bytes, source, bytes,
                                  ES_COPY_TO_HOST));
    }
    REQUIRE_OK(es_stream_synchronize(run->stream));
}

static inline EsTensor device_tensor(NetworkRun *run, const EsTensor *from) {
    EsTensor tensor = es_tensor_view(NULL, from->dtype, run->device, from->rank, from->dim);
    REQUIRE_OK(es_device_allocate(run->device, es_tensor_bytes(&tensor), &tensor.data));
    copy_in(run, &tensor, from);
    return tensor;
}

// Graph of the host on inputs x and labels.
static inline void build_network(NetworkRun *run, int is_training) {
    const EsHostSpec *host = &run->shape->host;
    REQUIRE_OK(es_graph_create(run->shape->n_envs, &run->graph));
    int64_t n = run->shape->n_rows;
    EsValueId x =
        es_graph_input(run->graph, "x", ES_DTYPE_F32, 4,
                       (int64_t[]){n, host->image_channels, host->image_size, host->image_size});
    EsValueId labels = es_graph_input(run->graph, "labels", ES_DTYPE_I32, 1, &n);
    run->loss =
        es_graph_cross_entropy(run->graph, es_host_build(run->graph, host, x, is_training), labels);
    if (is_training) {
        REQUIRE_OK(es_graph_differentiate(run->graph, run->loss.loss));
    }
    REQUIRE_OK(es_graph_status(run->graph));
}

static inline void create_network_plan(NetworkRun *run, EsCompileMode mode,
                                       EsOptimiser *optimiser) {
    EsPlanOptions options = es_plan_defaults();
    options.mode = mode;
    options.optimiser = optimiser;
    REQUIRE_OK(es_plan_create(run->graph, run->store, &options, &run->plan));
    REQUIRE_OK(es_plan_bind(run->plan, es_graph_find(run->graph, "x"), &run->x));
    REQUIRE_OK(es_plan_bind(run->plan, es_graph_find(run->graph, "labels"), &run->labels));
}

// Device, data, parameters of the golden, optimiser and training plan.
static inline NetworkRun network_begin(const NetworkShape *shape, const char *device, int n_threads,
                                       int n_lanes, EsCompileMode mode) {
    NetworkRun run = {.shape = shape};
    EsDeviceOptions device_options = {.n_threads = n_threads, .n_lanes = n_lanes};
    REQUIRE_OK(es_device_open(device, &device_options, &run.device));
    REQUIRE_OK(es_stream_create(run.device, &run.stream));
    char path[512];
    snprintf(path, sizeof path, "%s/cnn_training.safetensors", es_test_data());
    REQUIRE_OK(es_safetensors_open(path, &run.golden));
    EsTensor x = golden_tensor(&run, "", "x"), labels = golden_tensor(&run, "", "labels");
    run.x = device_tensor(&run, &x);
    run.labels = device_tensor(&run, &labels);
    build_network(&run, 1);
    REQUIRE_OK(es_store_create(run.graph, run.device, &run.store));
    REQUIRE_OK(es_store_initialise(run.store, run.graph, run.stream, 1, (int32_t[]){0, 1, 2, 3}));
    for (int v = 0; v < run.graph->n_values; v++) {
        if (run.graph->values[v].role == ES_ROLE_PARAMETER) {
            EsTensor to = es_store_tensor(run.store, run.graph, v);
            EsTensor from = golden_tensor(&run, "", run.graph->values[v].name);
            copy_in(&run, &to, &from);
        }
    }
    EsOptimiserOptions sgd = es_optimiser_defaults(ES_OPTIMISER_SGD);
    sgd.learning_rate = 0.05f;
    REQUIRE_OK(es_optimiser_create(run.graph, run.store, &sgd, &run.optimiser));
    create_network_plan(&run, mode, run.optimiser);
    return run;
}

// Adam with clipping in place of SGD; a fresh plan.
static inline void network_use_adam(NetworkRun *run) {
    es_plan_destroy(run->plan);
    es_optimiser_destroy(run->optimiser);
    EsOptimiserOptions options = es_optimiser_defaults(ES_OPTIMISER_ADAM);
    options.max_norm = 1.0f;
    REQUIRE_OK(es_optimiser_create(run->graph, run->store, &options, &run->optimiser));
    create_network_plan(run, ES_COMPILE_DEFAULT, run->optimiser);
}

static inline void network_step(NetworkRun *run, float *losses) {
    REQUIRE_OK(es_plan_run(run->plan, run->stream));
    EsTensor loss = es_plan_tensor(run->plan, run->loss.loss);
    copy_out(run, losses, &loss);
}

static inline void network_end(NetworkRun *run) {
    es_plan_destroy(run->plan);
    es_optimiser_destroy(run->optimiser);
    es_store_destroy(run->store);
    es_graph_destroy(run->graph);
    es_safetensors_close(run->golden);
    es_device_release(run->device, run->x.data);
    es_device_release(run->device, run->labels.data);
    es_stream_destroy(run->stream);
    es_device_close(run->device);
}

#endif
