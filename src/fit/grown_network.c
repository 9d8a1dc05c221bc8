// Grown networks: copied out of growth tensor by tensor, and run in batches of fixed size, so that
// an input's logits have the same bits in any batch.
#include "fit/grown_network.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "growth/rules/alpha_rules.h"
#include "growth/rules/growth_names.h"
#include "network/plan/plan_host.h"

// Inputs of one run of a plan: few inputs, and large ones, take the small one. Both are multiples
// of all vector widths.
#define SMALL_BATCH 16
#define LARGE_BATCH 64
#define N_BATCHES   2
#define MANY_INPUTS 256
#define LARGE_INPUT 65536 // numbers

typedef struct EngineWorker {
    EsPlanWorker *runner; // owned
    float *inputs;        // owned [batch, C, H, W]
} EngineWorker;

struct EsGrownEngine {
    EsGrownGraph graphs[N_BATCHES]; // owned
    EsPlan *plans[N_BATCHES];       // owned
    int n_plans;
    float alpha[ES_SLOTS_MAX];
    int32_t mode[ES_SLOTS_MAX]; // EsBlendMode
    EngineWorker *workers;      // owned [n_workers]
    int n_workers;
    float *centre, *scale; // owned [C]
};

// --- styles ---

static const struct {
    const char *name;
    int ramp, algorithm;
} styles[] = {
#define X(name, ramp, algorithm) {#name, ES_RAMP_##ramp, ES_ALGORITHM_##algorithm},
    ES_STYLE_LIST(X)
#undef X
};

const char *es_grown_style_name(int style) { return styles[style].name; }

int es_grown_seed_algorithm(const EsGrownSeed *seed) { return styles[seed->style].algorithm; }

int es_grown_seed_mode(const EsGrownSeed *seed) {
    return es_slot_blend_mode(ES_STAGE_FOSSILIZED, es_grown_seed_algorithm(seed));
}

static int find_style(int ramp, int algorithm) {
    int found = 0;
    for (int i = 0; i < (int)ES_COUNT_OF(styles); i++) {
        if (styles[i].algorithm == algorithm &&
            (styles[i].ramp == ramp || styles[found].algorithm != algorithm)) {
            found = i;
        }
    }
    return found;
}

// --- life ---

// Copies texts into one block: pointers, then characters.
static EsStatus copy_texts(const char *const *from, int64_t n, const char *const **to) {
    char **texts = NULL;
    size_t bytes = sizeof *texts * (size_t)n;
    for (int64_t i = 0; i < n; i++) {
        bytes += strlen(from[i]) + 1;
    }
    ES_TRY(es_allocate(bytes, (void **)&texts));
    char *at = (char *)(texts + n);
    for (int64_t i = 0; i < n; i++) {
        size_t length = strlen(from[i]) + 1;
        texts[i] = memcpy(at, from[i], length);
        at += length;
    }
    *to = (const char *const *)texts;
    return ES_STATUS_OK;
}

static EsStatus copy_numbers(const float *from, int64_t n, const float **to) {
    float *numbers = NULL;
    ES_TRY(es_allocate(sizeof *numbers * (size_t)n, (void **)&numbers));
    memcpy(numbers, from, sizeof *numbers * (size_t)n);
    *to = numbers;
    return ES_STATUS_OK;
}

static void release_constant(const void *memory) { es_release((void *)(uintptr_t)memory); }

static EsStatus copy_spec(const EsGrownSpec *from, EsGrownSpec *to) {
    const EsHostSpec *host = &from->host;
    const char *const name[] = {host->name};
    const char *const *owned_name = NULL;
    *to = *from;
    to->host.text = NULL;
    to->host.name = to->host.dataset = "";
    to->norm_epsilon = from->norm_epsilon > 0 ? from->norm_epsilon : es_host_norm_epsilon(host);
    to->mean = to->std = NULL;
    to->column_names = to->class_names = NULL;
    ES_TRY(copy_texts(name, 1, &owned_name));
    to->host.text = (char *)(uintptr_t)owned_name;
    to->host.name = owned_name[0];
    ES_TRY(copy_numbers(from->mean, host->image_channels, &to->mean));
    ES_TRY(copy_numbers(from->std, host->image_channels, &to->std));
    if (from->column_names != NULL) {
        ES_TRY(copy_texts(from->column_names, host->image_channels, &to->column_names));
    }
    return copy_texts(from->class_names, host->n_classes, &to->class_names);
}

// No map of the host may be larger than the limit; seeds keep the size of theirs.
static EsStatus check_maps(const EsHostSpec *host) {
    int64_t side = host->image_size;
    for (int i = 0; i < host->n_blocks; i++) {
        const EsHostBlock block = es_host_block(host, i);
        if (block.n_channels * side * side > ES_NETWORK_MAP_MAX) {
            return ES_FAIL(ARGUMENT,
                           "block %d has maps of %d x %lld x %lld numbers, at most %d fit", i,
                           block.n_channels, (long long)side, (long long)side, ES_NETWORK_MAP_MAX);
        }
        side = block.has_pool ? side / 2 : side;
    }
    return ES_STATUS_OK;
}

static EsStatus check_seed(const EsGrownSpec *spec, int i) {
    const EsGrownSeed *seed = &spec->seeds[i];
    EsSlot slots[2 * ES_SLOTS_MAX];
    int n_slots = es_slots_of(&spec->host, slots), is_found = 0;
    for (int s = 0; s < n_slots; s++) {
        is_found |= slots[s].row == seed->slot.row && slots[s].column == seed->slot.column &&
                    slots[s].n_channels == seed->slot.n_channels;
    }
    if (!is_found) {
        return ES_FAIL(ARGUMENT, "seed %d: the host has no slot r%dc%d", i, seed->slot.row,
                       seed->slot.column);
    }
    for (int k = 0; k < i; k++) {
        if (spec->seeds[k].slot.row == seed->slot.row &&
            spec->seeds[k].slot.column == seed->slot.column) {
            return ES_FAIL(ARGUMENT, "slot r%dc%d holds two seeds", seed->slot.row,
                           seed->slot.column);
        }
    }
    return ES_STATUS_OK;
}

static EsStatus check_spec(const EsGrownSpec *spec) {
    ES_TRY(es_host_check(&spec->host));
    ES_TRY(check_maps(&spec->host));
    if (spec->n_seeds > ES_SLOTS_MAX) {
        return ES_FAIL(ARGUMENT, "%d seeds, at most %d fit", spec->n_seeds, ES_SLOTS_MAX);
    }
    for (int i = 0; i < spec->n_seeds; i++) {
        ES_TRY(check_seed(spec, i));
    }
    for (int c = 0; c < spec->host.image_channels; c++) {
        if (!isfinite(spec->mean[c]) || !(spec->std[c] > 0) || !isfinite(spec->std[c])) {
            return ES_FAIL(ARGUMENT, "input %d has no usable mean and deviation", c);
        }
    }
    return ES_STATUS_OK;
}

// --- graphs ---

typedef struct SeedBuilder {
    const EsGrownSpec *spec;
    EsGrownGraph *out;
} SeedBuilder;

static EsValueId build_seed(void *context, EsGraph *graph, int block, int is_after_pool,
                            EsValueId h) {
    const SeedBuilder *builder = context;
    int i = 0;
    while (i < builder->spec->n_seeds && (builder->spec->seeds[i].slot.column != block ||
                                          builder->spec->seeds[i].slot.row != is_after_pool)) {
        i++;
    }
    if (i == builder->spec->n_seeds) {
        return h;
    }
    const EsGrownSeed *seed = &builder->spec->seeds[i];
    char name[ES_NAME_BYTES], alpha[ES_NAME_BYTES], mode[ES_NAME_BYTES], gate_name[ES_NAME_BYTES];
    es_slot_write(seed->slot.row, seed->slot.column, name);
    snprintf(alpha, sizeof alpha, "%.24s.alpha", name);
    snprintf(mode, sizeof mode, "%.24s.mode", name);
    snprintf(gate_name, sizeof gate_name, "%.24s.gate", name);
    EsValueId gate = ES_NO_VALUE;
    builder->out->alpha[i] = es_graph_input(graph, alpha, ES_DTYPE_F32, 0, NULL);
    builder->out->mode[i] = es_graph_input(graph, mode, ES_DTYPE_I32, 0, NULL);
    EsValueId x = es_graph_seed_input(graph, h, builder->out->mode[i]);
    if (es_grown_seed_algorithm(seed) == ES_ALGORITHM_GATE) {
        gate = es_graph_gate(graph, gate_name, x);
    }
    EsValueId y =
        es_blueprint_build_with(graph, seed->blueprint, name, x, builder->spec->norm_epsilon);
    return es_graph_blend(graph, h, y, gate, builder->out->alpha[i], builder->out->mode[i]);
}

static EsStatus create_graph(const EsGrownSpec *spec, int64_t batch, EsGrownGraph *out) {
    const EsHostSpec *host = &spec->host;
    SeedBuilder builder = {spec, out};
    out->batch = batch;
    ES_TRY(es_graph_create(1, &out->graph));
    out->input = es_graph_input(
        out->graph, "input", ES_DTYPE_F32, 4,
        (int64_t[]){batch, host->image_channels, host->image_size, host->image_size});
    out->logits = es_host_build_with(out->graph, host, out->input, 0, build_seed, &builder);
    if (out->logits != ES_NO_VALUE) {
        es_graph_keep(out->graph, out->logits);
    }
    return es_graph_status(out->graph);
}

static int64_t count_numbers(const EsGraph *graph) {
    int64_t count = 0;
    for (int v = 0; v < graph->n_values; v++) {
        EsRole role = graph->values[v].role;
        count += role == ES_ROLE_PARAMETER || role == ES_ROLE_STATE
                     ? es_value_count(&graph->values[v])
                     : 0;
    }
    return count;
}

static EsStatus create_parts(const EsGrownSpec *spec, int64_t n_numbers, EsDevice *device,
                             EsGrownNetwork *network) {
    ES_TRY(copy_spec(spec, &network->spec));
    network->origin.validation_accuracy = network->origin.test_accuracy = NAN;
    ES_TRY(create_graph(&network->spec, 1, &network->single));
    network->n_parameters = es_graph_parameter_count(network->single.graph);
    if (count_numbers(network->single.graph) > n_numbers) {
        return ES_FAIL(ARGUMENT, "the network has %lld numbers, there are %lld",
                       (long long)count_numbers(network->single.graph), (long long)n_numbers);
    }
    network->device = device;
    return es_store_create(network->single.graph, device, &network->store);
}

EsStatus es_grown_network_create(const EsGrownSpec *spec, EsDevice *device,
                                 EsGrownNetwork **network) {
    return es_grown_network_create_within(spec, INT64_MAX, device, network);
}

EsStatus es_grown_network_create_within(const EsGrownSpec *spec, int64_t n_numbers,
                                        EsDevice *device, EsGrownNetwork **network_out) {
    EsGrownNetwork *network = NULL;
    *network_out = NULL;
    ES_TRY(check_spec(spec));
    ES_TRY(es_allocate(sizeof *network, (void **)&network));
    EsStatus status = create_parts(spec, n_numbers, device, network);
    if (status != ES_STATUS_OK) {
        es_grown_network_destroy(network);
        return status;
    }
    *network_out = network;
    return ES_STATUS_OK;
}

static void destroy_engine(EsGrownEngine *engine) {
    if (engine == NULL) {
        return;
    }
    for (int w = 0; w < engine->n_workers; w++) {
        es_plan_worker_destroy(engine->workers[w].runner);
        es_release(engine->workers[w].inputs);
    }
    for (int b = 0; b < N_BATCHES; b++) {
        es_plan_destroy(engine->plans[b]);
        es_graph_destroy(engine->graphs[b].graph);
    }
    es_release(engine->workers);
    es_release(engine->centre);
    es_release(engine->scale);
    es_release(engine);
}

void es_grown_network_destroy(EsGrownNetwork *network) {
    if (network == NULL) {
        return;
    }
    destroy_engine(network->engine);
    es_graph_destroy(network->single.graph);
    es_store_destroy(network->store);
    es_release(network->spec.host.text);
    release_constant(network->spec.mean);
    release_constant(network->spec.std);
    release_constant(network->spec.column_names);
    release_constant(network->spec.class_names);
    es_release(network);
}

// --- out of growth ---

static int order_of(const EsSlot *slot) { return 2 * slot->column + slot->row; }

void es_grown_seeds_list(const EsGrowth *growth, int64_t env, EsGrownSpec *spec,
                         EsTopology *topology) {
    const EsGrowthState *state = &es_growth_snapshot(growth)->state;
    const EsGrowthModel *model = es_growth_model(growth);
    *topology = es_topology_empty();
    for (int s = 0; s < model->n_slots; s++) {
        EsSeed seed = es_seed_load(&state->seed, (size_t)(env * model->n_slots + s));
        if (!es_slot_is_on(seed.stage, seed.alpha, 0, s)) {
            continue;
        }
        EsGrownSeed grown = {.slot = model->slots[s],
                             .blueprint = (EsBlueprint)seed.blueprint,
                             .style = find_style(seed.ramp, seed.algorithm),
                             .alpha = seed.alpha};
        int place = spec->n_seeds++;
        for (; place > 0 && order_of(&spec->seeds[place - 1].slot) > order_of(&grown.slot);
             place--) {
            spec->seeds[place] = spec->seeds[place - 1];
        }
        spec->seeds[place] = grown;
        topology->blueprint[s] = (int8_t)seed.blueprint;
        topology->has_gate[s] = seed.algorithm == ES_ALGORITHM_GATE;
    }
}

static float *own_weights(const EsGrownNetwork *network, const EsValue *value) {
    const EsStore *store = network->store;
    float *slab = value->role == ES_ROLE_STATE ? store->states.data : store->parameters.data;
    return slab + value->slab_offset;
}

// Tensors have the same names in both graphs.
static EsStatus copy_weights(EsGrownNetwork *network, const EsGraph *from, const float *parameters,
                             const float *states) {
    const EsGraph *graph = network->single.graph;
    for (int v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        if (value->role != ES_ROLE_PARAMETER && value->role != ES_ROLE_STATE) {
            continue;
        }
        EsValueId other = es_graph_find(from, value->name);
        ES_ASSERT(other != ES_NO_VALUE &&
                  es_value_count(&from->values[other]) == es_value_count(value));
        const float *slab = value->role == ES_ROLE_STATE ? states : parameters;
        memcpy(own_weights(network, value), slab + from->values[other].slab_offset,
               sizeof(float) * (size_t)es_value_count(value));
    }
    return ES_STATUS_OK;
}

static EsStatus take_weights(EsGrowth *growth, int64_t env, const EsTopology *topology,
                             EsGrownNetwork *network) {
    const EsGrowthLayout *layout = &es_growth_model(growth)->layout;
    EsGrowthGraph graph = {0};
    float *parameters = NULL, *states = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_growth_graph_create(es_growth_model(growth), topology, 1, 0, &graph));
    ES_TRY_GOTO(es_allocate(sizeof(float) * (size_t)layout->n_parameters, (void **)&parameters));
    ES_TRY_GOTO(es_allocate(sizeof(float) * (size_t)layout->n_states, (void **)&states));
    ES_TRY_GOTO(es_growth_read_weights(growth, env, parameters, states));
    ES_TRY_GOTO(copy_weights(network, graph.graph, parameters, states));
done:
    es_release(parameters);
    es_release(states);
    es_growth_graph_destroy(&graph);
    return status;
}

// Classes without names are called by their numbers.
static EsStatus number_classes(int n_classes, const char *const **names) {
    enum { WIDTH = 8 };
    char(*texts)[WIDTH] = NULL;
    const char **pointers = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_allocate((size_t)n_classes * WIDTH, (void **)&texts));
    ES_TRY_GOTO(es_allocate((size_t)n_classes * sizeof *pointers, (void **)&pointers));
    for (int k = 0; k < n_classes; k++) {
        snprintf(texts[k], WIDTH, "%d", k % 1000000);
        pointers[k] = texts[k];
    }
    status = copy_texts(pointers, n_classes, names);
done:
    es_release(pointers);
    es_release(texts);
    return status;
}

EsStatus es_grown_network_take(EsGrowth *growth, int64_t env, EsDevice *device,
                               EsGrownNetwork **network) {
    const EsGrowthModel *model = es_growth_model(growth);
    const EsDataset *dataset = model->dataset;
    int is_rows = dataset->kind == ES_DATASET_ROWS;
    EsTopology topology;
    EsGrownSpec spec = {.host = model->host,
                        .kind = is_rows ? ES_INPUT_ROWS : ES_INPUT_IMAGES,
                        .mean = is_rows ? dataset->column_mean : dataset->mean,
                        .std = is_rows ? dataset->column_std : dataset->std,
                        .column_names = dataset->column_names,
                        .class_names = dataset->class_names};
    const char *const *numbers = NULL;
    *network = NULL;
    es_grown_seeds_list(growth, env, &spec, &topology);
    if (spec.class_names == NULL) {
        ES_TRY(number_classes(spec.host.n_classes, &numbers));
        spec.class_names = numbers;
    }
    EsStatus status = es_grown_network_create(&spec, device, network);
    release_constant(numbers);
    ES_TRY(status);
    status = take_weights(growth, env, &topology, *network);
    if (status != ES_STATUS_OK) {
        es_grown_network_destroy(*network);
        *network = NULL;
    }
    return status;
}

// --- prediction ---

static EsStatus create_plan(const EsGrownNetwork *network, EsGrownEngine *engine, int b) {
    static const int64_t batches[N_BATCHES] = {SMALL_BATCH, LARGE_BATCH};
    EsGrownGraph *graph = &engine->graphs[b];
    EsPlanOptions options = es_plan_defaults();
    options.is_hosted = 1;
    ES_TRY(create_graph(&network->spec, batches[b], graph));
    ES_TRY(es_plan_create(graph->graph, network->store, &options, &engine->plans[b]));
    for (int i = 0; i < network->spec.n_seeds; i++) {
        EsTensor alpha =
            es_tensor_view(&engine->alpha[i], ES_DTYPE_F32, network->device, 1, (int64_t[]){1});
        EsTensor mode =
            es_tensor_view(&engine->mode[i], ES_DTYPE_I32, network->device, 1, (int64_t[]){1});
        ES_TRY(es_plan_bind(engine->plans[b], graph->alpha[i], &alpha));
        ES_TRY(es_plan_bind(engine->plans[b], graph->mode[i], &mode));
    }
    return ES_STATUS_OK;
}

static EsStatus fill_engine(const EsGrownNetwork *network, EsGrownEngine *engine) {
    int n_channels = network->spec.host.image_channels;
    ES_TRY(es_allocate(sizeof(float) * (size_t)n_channels, (void **)&engine->centre));
    ES_TRY(es_allocate(sizeof(float) * (size_t)n_channels, (void **)&engine->scale));
    for (int c = 0; c < n_channels; c++) {
        es_grown_network_normaliser(network, c, &engine->centre[c], &engine->scale[c]);
    }
    for (int i = 0; i < network->spec.n_seeds; i++) {
        engine->alpha[i] = network->spec.seeds[i].alpha;
        engine->mode[i] = es_grown_seed_mode(&network->spec.seeds[i]);
    }
    engine->n_plans = es_grown_network_input_count(network) < LARGE_INPUT ? N_BATCHES : 1;
    for (int b = 0; b < engine->n_plans; b++) {
        ES_TRY(create_plan(network, engine, b));
    }
    return ES_STATUS_OK;
}

static EsStatus reserve_worker(const EsGrownNetwork *network, EngineWorker *worker) {
    const EsGrownEngine *engine = network->engine;
    int64_t batch = engine->graphs[engine->n_plans - 1].batch;
    size_t count = (size_t)(es_grown_network_input_count(network) * batch);
    ES_TRY(es_plan_worker_create(network->device, &worker->runner));
    for (int b = 0; b < engine->n_plans; b++) {
        ES_TRY(es_plan_worker_reserve(worker->runner, network->engine->plans[b]));
    }
    return es_allocate(sizeof(float) * count, (void **)&worker->inputs);
}

// Plans at the first call, and a worker for every thread.
static EsStatus reserve(EsGrownNetwork *network, int n_threads) {
    if (network->engine == NULL) {
        EsGrownEngine *engine = NULL;
        ES_TRY(es_allocate(sizeof *engine, (void **)&engine));
        EsStatus status = fill_engine(network, engine);
        if (status != ES_STATUS_OK) {
            destroy_engine(engine);
            return status;
        }
        network->engine = engine;
    }
    EsGrownEngine *engine = network->engine;
    if (n_threads > engine->n_workers) {
        ES_TRY(es_reallocate((void **)&engine->workers,
                             sizeof *engine->workers * (size_t)engine->n_workers,
                             sizeof *engine->workers * (size_t)n_threads));
    }
    while (engine->n_workers < n_threads) {
        EngineWorker *worker = &engine->workers[engine->n_workers++];
        *worker = (EngineWorker){0};
        EsStatus status = reserve_worker(network, worker);
        if (status != ES_STATUS_OK) {
            es_plan_worker_destroy(worker->runner);
            es_release(worker->inputs);
            engine->n_workers--;
            return status;
        }
    }
    return ES_STATUS_OK;
}

typedef struct Prediction {
    const EsGrownNetwork *network;
    EsInputForm form;
    const void *inputs;
    float *logits;
    int64_t n_inputs;
    int b; // index of the batch size
} Prediction;

static void load_inputs(const Prediction *p, int64_t first, int64_t n, float *to) {
    const EsGrownEngine *engine = p->network->engine;
    const EsHostSpec *host = &p->network->spec.host;
    int64_t area = (int64_t)host->image_size * host->image_size;
    int64_t count = area * host->image_channels;
    const float *plain = (const float *)p->inputs + first * count;
    const uint8_t *bytes = (const uint8_t *)p->inputs + first * count;
    if (p->form == ES_INPUT_NORMALISED) {
        memcpy(to, plain, sizeof *to * (size_t)(n * count));
        return;
    }
    for (int64_t i = 0; i < n * host->image_channels; i++) {
        float centre = engine->centre[i % host->image_channels];
        float scale = engine->scale[i % host->image_channels];
        for (int64_t k = i * area; k < (i + 1) * area; k++) {
            float x = p->form == ES_INPUT_BYTES ? (float)bytes[k] : plain[k];
            to[k] = (x - centre) * scale;
        }
    }
}

// One batch; the rest of the last one is zeros.
static void run_batch(void *context, int64_t piece, int worker_index) {
    const Prediction *p = context;
    const EsGrownEngine *engine = p->network->engine;
    const EsGrownGraph *graph = &engine->graphs[p->b];
    EngineWorker *worker = &engine->workers[worker_index];
    int64_t first = piece * graph->batch, n = ES_MIN(graph->batch, p->n_inputs - first);
    size_t count = (size_t)es_grown_network_input_count(p->network);
    size_t n_classes = (size_t)p->network->spec.host.n_classes;
    load_inputs(p, first, n, worker->inputs);
    memset(worker->inputs + (size_t)n * count, 0,
           sizeof *worker->inputs * (size_t)(graph->batch - n) * count);
    EsTensor inputs = es_tensor_view(worker->inputs, ES_DTYPE_F32, p->network->device, 5,
                                     graph->graph->values[graph->input].dim);
    es_plan_worker_begin(worker->runner, engine->plans[p->b], 0);
    es_plan_worker_bind(worker->runner, graph->input, &inputs);
    es_plan_worker_run(worker->runner);
    const float *logits = es_plan_worker_tensor(worker->runner, graph->logits).data;
    memcpy(p->logits + (size_t)first * n_classes, logits, sizeof *logits * (size_t)n * n_classes);
}

EsStatus es_grown_network_predict(EsGrownNetwork *network, EsThreadPool *pool, EsInputForm form,
                                  const void *inputs, int64_t n_inputs, float *logits) {
    if (form == ES_INPUT_BYTES && network->spec.kind != ES_INPUT_IMAGES) {
        return ES_FAIL(ARGUMENT, "the network takes rows of numbers, not bytes");
    }
    int n_threads = pool != NULL ? es_thread_pool_size(pool) : 1;
    Prediction p = {network, form, inputs, logits, n_inputs, 0};
    ES_TRY(reserve(network, n_threads));
    p.b = n_inputs >= MANY_INPUTS && network->engine->n_plans > 1;
    int64_t batch = network->engine->graphs[p.b].batch;
    int64_t n_pieces = (n_inputs + batch - 1) / batch;
    if (pool != NULL) {
        es_thread_pool_run(pool, n_pieces, run_batch, &p);
    }
    for (int64_t i = 0; pool == NULL && i < n_pieces; i++) {
        run_batch(&p, i, 0);
    }
    return ES_STATUS_OK;
}

void es_grown_network_softmax(float *logits, int64_t n_inputs, int n_classes) {
    for (int64_t i = 0; i < n_inputs; i++) {
        float *row = logits + i * n_classes;
        float most = row[0];
        double sum = 0;
        for (int k = 1; k < n_classes; k++) {
            most = ES_MAX(most, row[k]);
        }
        for (int k = 0; k < n_classes; k++) {
            sum += exp((double)row[k] - (double)most);
        }
        for (int k = 0; k < n_classes; k++) {
            row[k] = (float)(exp((double)row[k] - (double)most) / sum);
        }
    }
}

// --- looking at it ---

int64_t es_grown_network_input_count(const EsGrownNetwork *network) {
    const EsHostSpec *host = &network->spec.host;
    return (int64_t)host->image_channels * host->image_size * host->image_size;
}

void es_grown_network_normaliser(const EsGrownNetwork *network, int channel, float *centre,
                                 float *scale) {
    float range = network->spec.kind == ES_INPUT_IMAGES ? 255.0f : 1.0f;
    *centre = range * network->spec.mean[channel];
    *scale = 1.0f / (range * network->spec.std[channel]);
}

const float *es_grown_network_weights(const EsGrownNetwork *network, EsValueId value) {
    return own_weights(network, &network->single.graph->values[value]);
}
