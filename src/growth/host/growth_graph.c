// Lays out the slabs of hosts, gates and seeds, and builds the graph of a host with a set of seeds.
#include "growth/host/growth_graph.h"

#include <stdio.h>
#include <string.h>

// --- layout ---

// Elements of a slot's gate network, and of the largest seed that fits the host.
static EsStatus measure_slot(const EsHostSpec *host, const EsSlot *slot, int64_t *gate,
                             int64_t *seed) {
    const int64_t dims[] = {1, slot->n_channels, 2, 2};
    *gate = *seed = 0;
    for (int b = -1; b < ES_BLUEPRINT_END; b++) {
        EsGraph *graph = NULL;
        if (b >= 0 && !(es_slots_blueprints(host) & ES_BLUEPRINT_ID_BIT(b))) {
            continue;
        }
        ES_TRY(es_graph_create(1, &graph));
        EsValueId x = es_graph_input(graph, "x", ES_DTYPE_F32, 4, dims);
        if (b < 0) {
            es_graph_gate(graph, "gate", x);
            *gate = graph->n_parameters;
        } else {
            es_blueprint_build(graph, (EsBlueprint)b, "seed", x);
            *seed = ES_MAX(*seed, graph->n_parameters);
        }
        EsStatus status = es_graph_status(graph);
        es_graph_destroy(graph);
        ES_TRY(status);
    }
    return ES_STATUS_OK;
}

// The host alone, on one image, for its parameters in their order.
static EsStatus host_graph(const EsHostSpec *host, EsGraph **graph) {
    ES_TRY(es_graph_create(1, graph));
    EsValueId images =
        es_graph_input(*graph, "x", ES_DTYPE_F32, 4,
                       (int64_t[]){1, host->image_channels, host->image_size, host->image_size});
    es_host_build(*graph, host, images, 0);
    return ES_STATUS_OK;
}

EsStatus es_growth_layout_create(EsGrowthModel *model) {
    EsGrowthLayout *layout = &model->layout;
    EsGraph *graph = NULL;
    ES_TRY(host_graph(&model->host, &graph));
    layout->n_host_weights = es_graph_parameter_count(graph);
    layout->n_host_parameters = graph->n_parameters;
    layout->n_states = graph->n_states;
    EsStatus status = es_graph_status(graph);
    es_graph_destroy(graph);
    ES_TRY(status);
    int64_t end = layout->n_host_parameters;
    for (int s = 0; s < model->n_slots; s++) {
        int64_t gate = 0, seed = 0;
        ES_TRY(measure_slot(&model->host, &model->slots[s], &gate, &seed));
        layout->region[s] = end;
        layout->seed[s] = end + gate;
        layout->region_end[s] = end + gate + seed;
        end = layout->region_end[s];
    }
    layout->n_parameters = end;
    return ES_STATUS_OK;
}

// --- parameter tensors ---

// The values of a role in a graph, `first` elements further on. The graph ends here.
static EsStatus list_spans(EsGraph *graph, EsRole role, int64_t first, EsSpans *spans) {
    EsStatus status = es_graph_status(graph);
    spans->n = 0;
    for (int v = 0; status == ES_STATUS_OK && v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        if (value->role == role) {
            ES_ASSERT(spans->n < ES_SPANS_MAX);
            spans->offset[spans->n] = first + value->slab_offset;
            spans->length[spans->n] = es_value_count(value);
            spans->n++;
        }
    }
    es_graph_destroy(graph);
    return status;
}

EsStatus es_growth_host_spans(const EsGrowthModel *model, EsSpans *spans) {
    EsGraph *graph = NULL;
    ES_TRY(host_graph(&model->host, &graph));
    return list_spans(graph, ES_ROLE_PARAMETER, 0, spans);
}

EsStatus es_growth_host_states(const EsGrowthModel *model, EsSpans *spans) {
    EsGraph *graph = NULL;
    ES_TRY(host_graph(&model->host, &graph));
    return list_spans(graph, ES_ROLE_STATE, 0, spans);
}

// A map of the slot's channels, of any size.
static EsStatus slot_graph(const EsGrowthModel *model, int slot, EsGraph **graph, EsValueId *x) {
    const int64_t dims[] = {1, model->slots[slot].n_channels, 2, 2};
    ES_TRY(es_graph_create(1, graph));
    *x = es_graph_input(*graph, "x", ES_DTYPE_F32, 4, dims);
    return ES_STATUS_OK;
}

EsStatus es_growth_seed_spans(const EsGrowthModel *model, int slot, EsBlueprint blueprint,
                              EsSpans *spans) {
    EsGraph *graph = NULL;
    EsValueId x = ES_NO_VALUE;
    ES_TRY(slot_graph(model, slot, &graph, &x));
    es_blueprint_build(graph, blueprint, "seed", x);
    return list_spans(graph, ES_ROLE_PARAMETER, model->layout.seed[slot], spans);
}

EsStatus es_growth_gate_spans(const EsGrowthModel *model, int slot, EsSpans *spans) {
    EsGraph *graph = NULL;
    EsValueId x = ES_NO_VALUE;
    ES_TRY(slot_graph(model, slot, &graph, &x));
    es_graph_gate(graph, "gate", x);
    return list_spans(graph, ES_ROLE_PARAMETER, model->layout.region[slot], spans);
}

// --- graphs ---

EsTopology es_topology_empty(void) {
    EsTopology topology;
    memset(&topology, 0, sizeof topology);
    memset(topology.blueprint, ES_NO_SEED, sizeof topology.blueprint);
    return topology;
}

typedef struct SlotBuilder {
    const EsGrowthModel *model;
    const EsTopology *topology;
    EsGrowthGraph *growth_graph;
} SlotBuilder;

static EsValueId slot_input(EsGraph *graph, const EsSlot *slot, const char *what, EsDtype dtype) {
    char name[ES_NAME_BYTES];
    snprintf(name, sizeof name, "%s.%s", slot->name, what);
    return es_graph_input(graph, name, dtype, 0, NULL);
}

static EsValueId build_slot(void *context, EsGraph *graph, int block, int is_after_pool,
                            EsValueId h) {
    const SlotBuilder *builder = context;
    const EsGrowthModel *model = builder->model;
    int s = es_slot_at(model->slots, model->n_slots, block, is_after_pool);
    if (s < 0 || builder->topology->blueprint[s] == ES_NO_SEED) {
        return h;
    }
    const EsSlot *slot = &model->slots[s];
    EsGrowthGraph *out = builder->growth_graph;
    char name[ES_NAME_BYTES];
    out->alpha[s] = slot_input(graph, slot, "alpha", ES_DTYPE_F32);
    out->mode[s] = slot_input(graph, slot, "mode", ES_DTYPE_I32);
    EsValueId x = es_graph_seed_input(graph, h, out->mode[s]), gate = ES_NO_VALUE;
    int64_t host_next = es_graph_seek_parameters(graph, model->layout.region[s]);
    if (builder->topology->has_gate[s]) {
        snprintf(name, sizeof name, "%s.gate", slot->name);
        gate = es_graph_gate(graph, name, x);
    }
    es_graph_seek_parameters(graph, model->layout.seed[s]);
    EsValueId seed = es_blueprint_build_with(graph, (EsBlueprint)builder->topology->blueprint[s],
                                             slot->name, x, es_host_norm_epsilon(&model->host));
    es_graph_seek_parameters(graph, host_next);
    return es_graph_blend(graph, h, seed, gate, out->alpha[s], out->mode[s]);
}

EsSampleOrder es_growth_order(const EsGrowthModel *model) {
    return (EsSampleOrder){.seed = model->seed,
                           .n_samples = model->dataset->train.count,
                           .n_shares = ES_MAX(model->n_shares, 1)};
}

// --- the data set ---

EsGrowthInputs es_growth_inputs(const EsDataset *dataset) {
    int is_rows = dataset->kind == ES_DATASET_ROWS;
    return (EsGrowthInputs){
        .dtype = is_rows ? ES_DTYPE_F32 : ES_DTYPE_U8,
        .dims = {dataset->n_images, dataset->n_channels, dataset->height, dataset->width},
        .values = is_rows ? (const void *)dataset->rows : dataset->images};
}

EsGatherOptions es_growth_gather(const EsDataset *dataset, const EsRecipe *recipe, uint64_t seed) {
    EsGatherOptions gather = {.seed = seed};
    if (dataset->kind == ES_DATASET_ROWS) {
        return gather;
    }
    if (recipe != NULL) {
        gather = es_recipe_gather(recipe, seed);
    }
    for (int c = 0; c < dataset->n_channels; c++) {
        gather.mean[c] = dataset->mean[c];
        gather.inv_std[c] = 1.0f / dataset->std[c];
    }
    return gather;
}

EsStatus es_growth_check_dataset(const EsHostSpec *host, const EsDataset *dataset) {
    int is_rows = dataset->kind == ES_DATASET_ROWS;
    if (is_rows != (host->kind == ES_HOST_DENSE)) {
        return ES_FAIL(INPUT, "host \"%s\" takes %s, data set \"%s\" has %s", host->name,
                       is_rows ? "images" : "rows", dataset->name, is_rows ? "rows" : "images");
    }
    if (dataset->n_channels != host->image_channels || dataset->height != host->image_size ||
        dataset->width != host->image_size || dataset->n_classes > host->n_classes) {
        return ES_FAIL(INPUT,
                       "host \"%s\" takes %d x %d x %d images of up to %d classes; data set \"%s\" "
                       "has %d x %d x %d of %d",
                       host->name, host->image_size, host->image_size, host->image_channels,
                       host->n_classes, dataset->name, dataset->height, dataset->width,
                       dataset->n_channels, dataset->n_classes);
    }
    return ES_STATUS_OK;
}

// --- graphs ---

static EsStatus build(const EsGrowthModel *model, const EsTopology *topology, int is_training,
                      EsGrowthGraph *out) {
    const EsGrowthInputs inputs = es_growth_inputs(model->dataset);
    EsGatherOptions gather =
        es_growth_gather(model->dataset, is_training ? &model->recipe : NULL, model->seed);
    EsGraph *graph = out->graph;
    SlotBuilder builder = {model, topology, out};
    out->images = es_graph_shared_input(graph, "data set", inputs.dtype, 4, inputs.dims);
    out->labels = es_graph_shared_input(graph, "data labels", ES_DTYPE_U16, 1, inputs.dims);
    out->episode = es_graph_input(graph, "episode", ES_DTYPE_I32, 0, NULL);
    out->step = es_graph_shared_input(graph, "step", ES_DTYPE_I32, 1, (int64_t[]){1});
    out->index = is_training ? es_graph_gather_order(graph, es_growth_order(model), out->batch,
                                                     out->episode, out->step)
                             : es_graph_input(graph, "index", ES_DTYPE_I32, 1, &out->batch);
    EsValueId images =
        es_graph_gather_images(graph, gather, out->images, out->index, out->episode, out->step);
    EsValueId labels = es_graph_gather_labels(graph, out->labels, out->index);
    EsValueId logits =
        es_host_build_with(graph, &model->host, images, is_training, build_slot, &builder);
    out->loss = es_graph_cross_entropy(graph, logits, labels);
    if (is_training) {
        es_graph_smooth_labels(graph, out->loss, model->recipe.smoothing);
        ES_TRY(es_graph_differentiate(graph, out->loss.loss));
    }
    return es_graph_status(graph);
}

EsStatus es_growth_graph_create(const EsGrowthModel *model, const EsTopology *topology,
                                int64_t batch, int is_training, EsGrowthGraph *growth_graph) {
    memset(growth_graph, 0, sizeof *growth_graph);
    growth_graph->batch = batch;
    for (int s = 0; s < ES_SLOTS_MAX; s++) {
        growth_graph->alpha[s] = growth_graph->mode[s] = ES_NO_VALUE;
    }
    ES_TRY(es_graph_create(model->n_envs, &growth_graph->graph));
    EsStatus status = build(model, topology, is_training, growth_graph);
    if (status != ES_STATUS_OK) {
        es_growth_graph_destroy(growth_graph);
    }
    return status;
}

void es_growth_graph_destroy(EsGrowthGraph *growth_graph) {
    es_graph_destroy(growth_graph->graph);
    growth_graph->graph = NULL;
}
