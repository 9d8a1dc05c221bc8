// The life of the half of growth that is on a GPU: device memory, pinned buffers, events, mirrors
// of the packed copies, and the tables of where parameters lie and how they start.
#include <stddef.h>
#include <string.h>

#include "base/memory.h"
#include "growth/cuda/growth_on_device.h"

// Hands out aligned parts of a block; without a block it measures.
typedef struct Cursor {
    char *block; // nullable
    size_t used;
} Cursor;

static void *take(Cursor *cursor, int64_t count, size_t element_bytes) {
    void *part = cursor->block == NULL ? NULL : cursor->block + cursor->used;
    cursor->used += ((size_t)count * element_bytes + 63) / 64 * 64;
    return part;
}

// --- report block ---

static void plan_packing(EsGrowth *growth) {
    EsGrowthPacking *packing = &growth->on_device->packing;
    int64_t n = growth->options.n_envs;
    size_t state = es_growth_state_bytes((int32_t)n, growth->model.n_slots);
    Cursor at = {.used = state};
    packing->masks = at.used;
    take(&at, n, sizeof(EsActionMasks));
    packing->results = at.used;
    take(&at, n, sizeof(EsGrowthResult));
    packing->ablations = at.used;
    take(&at, n, sizeof(EsAblation));
    packing->pairs = at.used;
    take(&at, n, sizeof(EsInteractions));
    packing->accuracy = at.used;
    take(&at, n * ES_ABLATION_PATTERNS_MAX, sizeof(float));
    packing->n_invalid = at.used;
    take(&at, 2 * n, sizeof(int32_t));
    packing->measured_bytes = packing->decided = at.used;
    packing->others = packing->decided + state;
    packing->bytes = packing->others;
}

static void bind_live(EsGrowth *growth) {
    EsGrowthOnDevice *d = growth->on_device;
    const EsGrowthPacking *packing = &d->packing;
    EsGrowthArrays *arrays = &d->arrays;
    char *live = d->live;
    es_growth_state_bind(&arrays->state, live, arrays->n_envs, arrays->n_slots);
    arrays->masks = (EsActionMasks *)(void *)(live + packing->masks);
    arrays->results = (EsGrowthResult *)(void *)(live + packing->results);
    arrays->ablations = (EsAblation *)(void *)(live + packing->ablations);
    arrays->pairs = (EsInteractions *)(void *)(live + packing->pairs);
    arrays->accuracy = (float *)(void *)(live + packing->accuracy);
    arrays->n_invalid = (int32_t *)(void *)(live + packing->n_invalid);
}

void es_growth_on_device_mirror(EsGrowth *growth, void *memory, EsGrowthMoment moment) {
    const EsGrowthPacking *packing = &growth->on_device->packing;
    char *block = memory;
    growth->slab = block + (moment == ES_GROWTH_DECIDED ? packing->decided : 0);
    es_growth_state_bind(&growth->shown.state, growth->slab, (int32_t)growth->options.n_envs,
                         growth->model.n_slots);
    growth->masks = (EsActionMasks *)(void *)(block + packing->masks);
    growth->results = (EsGrowthResult *)(void *)(block + packing->results);
    growth->ablations = (EsAblation *)(void *)(block + packing->ablations);
    growth->pairs = (EsInteractions *)(void *)(block + packing->pairs);
    growth->accuracy = (float *)(void *)(block + packing->accuracy);
    growth->n_invalid = (int32_t *)(void *)(block + packing->n_invalid);
}

static void release_packed(EsGrowth *growth) {
    EsGrowthOnDevice *d = growth->on_device;
    es_device_release(growth->device, d->packed);
    d->packed = NULL;
    for (int i = 0; i < 2; i++) {
        es_device_release_host(growth->device, d->readback[i].memory);
        d->readback[i].memory = NULL;
    }
}

static EsStatus allocate_packed(EsGrowth *growth) {
    EsGrowthOnDevice *d = growth->on_device;
    ES_TRY(es_device_allocate(growth->device, d->packing.bytes, &d->packed));
    for (int i = 0; i < 2; i++) {
        ES_TRY(es_device_allocate_host(growth->device, d->packing.bytes, &d->readback[i].memory));
    }
    es_growth_on_device_mirror(growth, d->readback[1].memory, ES_GROWTH_MEASURED);
    return ES_STATUS_OK;
}

EsStatus es_growth_on_device_reserve(EsGrowth *growth, size_t bytes, void **device_memory) {
    EsGrowthOnDevice *d = growth->on_device;
    *device_memory = NULL;
    if (d->n_collected > 0 || d->packing.bytes > d->packing.others) {
        return ES_FAIL(ARGUMENT, "room in the packed copy is reserved once, before the first step");
    }
    release_packed(growth);
    d->packing.bytes = d->packing.others + bytes;
    ES_TRY(allocate_packed(growth));
    *device_memory = (char *)d->packed + d->packing.others;
    return ES_STATUS_OK;
}

// --- rows ---

static void take_training(EsGrowthArrays *arrays, Cursor *at) {
    int64_t n = arrays->n_envs, n_seeds = n * arrays->n_slots;
    arrays->actions = take(at, n, sizeof(EsAction));
    arrays->train_env = take(at, n, sizeof(int32_t));
    arrays->train_slots = take(at, n_seeds, sizeof(EsFusedSlot));
    arrays->batch_number = take(at, arrays->step_batches, sizeof(int32_t));
    arrays->sum_squares = take(at, n * arrays->n_pieces, sizeof(double));
    arrays->n_nonfinite = take(at, n * arrays->n_pieces, sizeof(int32_t));
    arrays->n_arrived = take(at, n, sizeof(int32_t));
    arrays->clip_factor = take(at, n + n_seeds, sizeof(float));
    arrays->unscale = take(at, n, sizeof(float));
    arrays->loss_scale = take(at, n, sizeof(float));
    arrays->n_good = take(at, n, sizeof(int32_t));
    arrays->host_sums = take(at, n, sizeof(EsGradientSums));
    arrays->seed_sums = take(at, n_seeds, sizeof(EsGradientSums));
    arrays->train_loss = take(at, n, sizeof(double));
    arrays->train_correct = take(at, n, sizeof(int64_t));
    arrays->rates.host_learning_rate = take(at, n, sizeof(float));
    arrays->rates.seed_learning_rate = take(at, n, sizeof(float));
    arrays->rates.momentum = take(at, n, sizeof(float));
    arrays->rates.host_decay = take(at, n, sizeof(float));
    arrays->rates.clip = take(at, n, sizeof(float));
    arrays->average_share = take(at, n * ES_GROWTH_PARTS(arrays->n_slots), sizeof(float));
}

static void take_trials(EsGrowthArrays *arrays, int64_t max_trials, Cursor *at) {
    arrays->n_trials = take(at, 1, sizeof(int32_t));
    arrays->first_trial = take(at, arrays->n_envs, sizeof(int32_t));
    arrays->trial_env = take(at, max_trials, sizeof(int32_t));
    arrays->trial_off = take(at, max_trials, sizeof(int32_t));
    arrays->trial_slots = take(at, max_trials * arrays->n_slots, sizeof(EsFusedSlot));
    arrays->loss_row = take(at, arrays->n_envs, sizeof(float));
    arrays->accuracy_row = take(at, arrays->n_envs, sizeof(float));
}

// Numbers that are the same in every step.
static EsStatus fill_rows(EsGrowth *growth) {
    const EsGrowthOptions *options = &growth->options;
    const EsGrowthArrays *arrays = &growth->on_device->arrays;
    const struct {
        void *row;
        size_t offset; // of its number in EsGrowthRates
    } rates[] = {{arrays->rates.host_learning_rate, offsetof(EsGrowthRates, host_learning_rate)},
                 {arrays->rates.seed_learning_rate, offsetof(EsGrowthRates, seed_learning_rate)},
                 {arrays->rates.momentum, offsetof(EsGrowthRates, momentum)},
                 {arrays->rates.host_decay, offsetof(EsGrowthRates, weight_decay)},
                 {arrays->rates.clip, offsetof(EsGrowthRates, clip)}};
    size_t bytes = sizeof(float) * (size_t)options->n_envs;
    float *numbers = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_allocate(bytes, (void **)&numbers));
    for (size_t i = 0; i <= ES_COUNT_OF(rates); i++) {
        int is_rate = i < ES_COUNT_OF(rates);
        for (int64_t e = 0; e < options->n_envs; e++) {
            int32_t number = (int32_t)e;
            EsGrowthRates own = es_growth_rates(growth, e);
            const char *rate = (const char *)&own + (is_rate ? rates[i].offset : 0);
            memcpy(&numbers[e], is_rate ? rate : (const char *)&number, sizeof number);
        }
        ES_TRY_GOTO(es_stream_copy(growth->stream, is_rate ? rates[i].row : arrays->train_env,
                                   numbers, bytes, ES_COPY_TO_DEVICE));
        ES_TRY_GOTO(es_stream_synchronize(growth->stream));
    }
done:
    es_release(numbers);
    return status;
}

static EsStatus create_rows(EsGrowth *growth) {
    EsGrowthOnDevice *d = growth->on_device;
    EsGrowthArrays measured = d->arrays;
    Cursor at = {0};
    take_training(&measured, &at);
    take_trials(&measured, d->max_trials, &at);
    ES_TRY(es_device_allocate(growth->device, at.used, &d->rows));
    at = (Cursor){.block = d->rows};
    take_training(&d->arrays, &at);
    take_trials(&d->arrays, d->max_trials, &at);
    size_t n_numbers = 1 + ES_GROWTH_TRIAL_NUMBERS * (size_t)d->max_trials;
    ES_TRY(es_device_allocate_host(growth->device,
                                   sizeof *d->sent_actions * (size_t)growth->options.n_envs,
                                   (void **)&d->sent_actions));
    ES_TRY(es_device_allocate_host(growth->device, sizeof(int32_t) * n_numbers,
                                   (void **)&d->sent_trials));
    return fill_rows(growth);
}

// --- tables of the model: its tensors ---

typedef struct Tables {
    const EsGrowth *growth;
    EsGrowthMap *map;
    EsGrowthSpan *spans;
    EsGrowthChunk *chunks;
    EsGrowthPlace *places;
    EsGrowthPiece *pieces;
    int32_t *first_piece;
    EsGrowthGroups groups;
    int32_t n_spans, n_chunks, n_parameter_chunks, n_places, n_pieces;
} Tables;

// The tensors of one role in a graph, whose offsets are those of the slabs.
static EsStatus list_tensors(Tables *tables, const EsGraph *graph, EsRole role,
                             EsGrowthRange *range) {
    *range = (EsGrowthRange){.first = tables->n_spans};
    for (int v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        if (value->role != role) {
            continue;
        }
        if (value->initial == ES_INITIAL_ORTHOGONAL) {
            return ES_FAIL(UNSUPPORTED,
                           "\"%s\" starts from an orthogonal matrix, which is not "
                           "made on a GPU",
                           value->name);
        }
        EsGrowthSpan *span = &tables->spans[tables->n_spans++];
        span->offset = value->slab_offset;
        span->tensor = (EsInitialTensor){.count = es_value_count(value),
                                         .initial = (int32_t)value->initial,
                                         .bound = value->bound,
                                         .start = value->start};
        range->n++;
        range->end = ES_MAX(range->end, span->offset + span->tensor.count);
    }
    return ES_STATUS_OK;
}

static EsStatus list_host(Tables *tables) {
    const EsHostSpec *host = &tables->growth->model.host;
    EsGraph *graph = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_graph_create(1, &graph));
    EsValueId images =
        es_graph_input(graph, "x", ES_DTYPE_F32, 4,
                       (int64_t[]){1, host->image_channels, host->image_size, host->image_size});
    es_host_build(graph, host, images, 0);
    ES_TRY_GOTO(es_graph_status(graph));
    ES_TRY_GOTO(list_tensors(tables, graph, ES_ROLE_PARAMETER, &tables->map->host));
    ES_TRY_GOTO(list_tensors(tables, graph, ES_ROLE_STATE, &tables->map->state));
done:
    es_graph_destroy(graph);
    return status;
}

static EsStatus list_slots(Tables *tables) {
    const EsGrowth *growth = tables->growth;
    for (int s = 0; s < growth->model.n_slots; s++) {
        ES_TRY(
            list_tensors(tables, growth->gate_graphs[s], ES_ROLE_PARAMETER, &tables->map->gate[s]));
        for (int b = 0; b < ES_BLUEPRINT_END; b++) {
            const EsGraph *graph = growth->seed_graphs[s][b];
            ES_TRY(graph == NULL
                       ? ES_STATUS_OK
                       : list_tensors(tables, graph, ES_ROLE_PARAMETER, &tables->map->seed[s][b]));
        }
    }
    return ES_STATUS_OK;
}

// --- tables of the model: chunks and places ---

static void add_chunks(Tables *tables, int32_t section, int slot, int64_t first, int64_t end) {
    for (; first < end; first += ES_GROWTH_CHUNK) {
        tables->chunks[tables->n_chunks++] =
            (EsGrowthChunk){section, slot, first, ES_MIN(first + ES_GROWTH_CHUNK, end)};
    }
}

static void list_chunks(Tables *tables) {
    const EsGrowthLayout *layout = &tables->growth->model.layout;
    add_chunks(tables, ES_GROWTH_SECTION_HOST, 0, 0, layout->n_host_parameters);
    for (int s = 0; s < tables->growth->model.n_slots; s++) {
        add_chunks(tables, ES_GROWTH_SECTION_GATE, s, layout->region[s], layout->seed[s]);
        add_chunks(tables, ES_GROWTH_SECTION_SEED, s, layout->seed[s], layout->region_end[s]);
    }
    tables->n_parameter_chunks = tables->n_chunks;
    add_chunks(tables, ES_GROWTH_SECTION_STATE, 0, 0, layout->n_states);
}

static void add_places(Tables *tables, int32_t section, int slot, int32_t n) {
    for (int32_t number = 0; number < n; number++) {
        tables->places[tables->n_places++] = (EsGrowthPlace){section, slot, number};
    }
}

static void list_places(Tables *tables) {
    int n_slots = tables->growth->model.n_slots;
    add_places(tables, ES_GROWTH_SECTION_HOST, 0, tables->map->host.n);
    for (int s = 0; s < n_slots; s++) {
        int32_t most = 0;
        for (int b = 0; b < ES_BLUEPRINT_END; b++) {
            most = ES_MAX(most, tables->map->seed[s][b].n);
        }
        tables->groups.first[1 + s] = tables->n_places;
        add_places(tables, ES_GROWTH_SECTION_GATE, s, tables->map->gate[s].n);
        add_places(tables, ES_GROWTH_SECTION_SEED, s, most);
    }
    tables->groups.first[1 + n_slots] = tables->n_places;
}

// Elements of the largest tensor that can be at a place.
static int64_t longest_at(const Tables *tables, const EsGrowthPlace *place) {
    const EsGrowthMap *map = tables->map;
    const EsGrowthRange *ranges = place->section == ES_GROWTH_SECTION_HOST ? &map->host
                                  : place->section == ES_GROWTH_SECTION_GATE
                                      ? &map->gate[place->slot]
                                      : map->seed[place->slot];
    int n_ranges = place->section == ES_GROWTH_SECTION_SEED ? ES_BLUEPRINT_END : 1;
    int64_t most = 0;
    for (int i = 0; i < n_ranges; i++) {
        if (place->number < ranges[i].n) {
            most = ES_MAX(most, tables->spans[ranges[i].first + place->number].tensor.count);
        }
    }
    return most;
}

static void list_pieces(Tables *tables) {
    for (int32_t p = 0; p < tables->n_places; p++) {
        int64_t longest = longest_at(tables, &tables->places[p]);
        tables->first_piece[p] = tables->n_pieces;
        for (int64_t first = 0; first < longest; first += ES_GROWTH_PIECE) {
            tables->pieces[tables->n_pieces++] = (EsGrowthPiece){tables->places[p], first};
        }
    }
}

// --- tables of the model: one block ---

static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Offsets of the tables, each as large as this model can need: settings, then these.
typedef struct TableOffsets {
    size_t map, spans, chunks, places, pieces, first_piece, epoch_share, bytes;
} TableOffsets;

// Epochs with a share of the learning rate of their own.
static int64_t count_epochs(const EsGrowth *growth) {
    int has_steps = growth->options.recipe.decay == ES_DECAY_STEP;
    return has_steps ? growth->options.settings.episode_steps : 0;
}

static TableOffsets measure(const EsGrowth *growth) {
    const EsGrowthLayout *layout = &growth->model.layout;
    size_t n_slots = (size_t)growth->model.n_slots;
    size_t n_spans = (2 + n_slots * (1 + ES_BLUEPRINT_END)) * ES_SPANS_MAX;
    size_t n_chunks =
        (size_t)(layout->n_parameters + layout->n_states) / ES_GROWTH_CHUNK + 2 + 2 * n_slots;
    size_t n_places = (1 + 2 * n_slots) * ES_SPANS_MAX;
    // tensors at a slot's places are of several blueprints, each no longer than the slot's region
    size_t n_pieces =
        n_places + ES_BLUEPRINT_END * (size_t)layout->n_parameters / ES_GROWTH_PIECE + 1;
    TableOffsets offsets = {.map = aligned(sizeof(EsGrowthSettings))};
    offsets.spans = offsets.map + aligned(sizeof(EsGrowthMap));
    offsets.chunks = offsets.spans + aligned(n_spans * sizeof(EsGrowthSpan));
    offsets.places = offsets.chunks + aligned(n_chunks * sizeof(EsGrowthChunk));
    offsets.pieces = offsets.places + aligned(n_places * sizeof(EsGrowthPlace));
    offsets.first_piece = offsets.pieces + aligned(n_pieces * sizeof(EsGrowthPiece));
    offsets.epoch_share = offsets.first_piece + aligned(n_places * sizeof(int32_t));
    offsets.bytes = offsets.epoch_share + aligned((size_t)count_epochs(growth) * sizeof(float));
    return offsets;
}

static void bind_tables(EsGrowthOnDevice *d, const Tables *tables, const TableOffsets *offsets) {
    char *block = d->tables;
    d->arrays.settings = (const EsGrowthSettings *)(void *)block;
    d->arrays.map = (const EsGrowthMap *)(void *)(block + offsets->map);
    d->arrays.spans = (const EsGrowthSpan *)(void *)(block + offsets->spans);
    d->arrays.chunks = (const EsGrowthChunk *)(void *)(block + offsets->chunks);
    d->arrays.places = (const EsGrowthPlace *)(void *)(block + offsets->places);
    d->arrays.pieces = (const EsGrowthPiece *)(void *)(block + offsets->pieces);
    d->arrays.first_piece = (const int32_t *)(void *)(block + offsets->first_piece);
    if (count_epochs(tables->growth) > 0) {
        d->arrays.epoch_share = (const float *)(void *)(block + offsets->epoch_share);
    }
    d->arrays.n_pieces = tables->n_pieces;
    d->arrays.groups = tables->groups;
    d->arrays.n_chunks = tables->n_chunks;
    d->arrays.n_parameter_chunks = tables->n_parameter_chunks;
    d->arrays.n_places = tables->n_places;
}

static EsStatus create_tables(EsGrowth *growth) {
    EsGrowthOnDevice *d = growth->on_device;
    TableOffsets offsets = measure(growth);
    char *block = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_allocate(offsets.bytes, (void **)&block));
    Tables tables = {.growth = growth,
                     .map = (EsGrowthMap *)(void *)(block + offsets.map),
                     .spans = (EsGrowthSpan *)(void *)(block + offsets.spans),
                     .chunks = (EsGrowthChunk *)(void *)(block + offsets.chunks),
                     .places = (EsGrowthPlace *)(void *)(block + offsets.places),
                     .pieces = (EsGrowthPiece *)(void *)(block + offsets.pieces),
                     .first_piece = (int32_t *)(void *)(block + offsets.first_piece)};
    memcpy(block, &growth->options.settings, sizeof growth->options.settings);
    ES_TRY_GOTO(list_host(&tables));
    ES_TRY_GOTO(list_slots(&tables));
    list_chunks(&tables);
    list_places(&tables);
    list_pieces(&tables);
    for (int64_t step = 0; step < count_epochs(growth); step++) {
        float share = es_recipe_epoch_share(&growth->options.recipe, step);
        memcpy(block + offsets.epoch_share + (size_t)step * sizeof share, &share, sizeof share);
    }
    ES_TRY_GOTO(es_device_allocate(growth->device, offsets.bytes, &d->tables));
    ES_TRY_GOTO(es_stream_copy(growth->stream, d->tables, block, offsets.bytes, ES_COPY_TO_DEVICE));
    ES_TRY_GOTO(es_stream_synchronize(growth->stream));
    bind_tables(d, &tables, &offsets);
done:
    es_release(block);
    return status;
}

// --- create ---

// Sizes, settings and slabs that kernels read.
static void fill_arrays(EsGrowth *growth) {
    EsGrowthOnDevice *d = growth->on_device;
    EsGrowthArrays *arrays = &d->arrays;
    const EsGrowthOptions *options = &growth->options;
    int32_t n_slots = growth->model.n_slots;
    arrays->n_envs = (int32_t)options->n_envs;
    arrays->n_slots = n_slots;
    arrays->max_patterns = n_slots <= ES_ABLATION_FULL_MAX
                               ? 1 << n_slots
                               : ES_MAX(1 << ES_ABLATION_FULL_MAX, n_slots + 2);
    arrays->is_scaled = options->precision == ES_DTYPE_F16;
    arrays->n_parameters = growth->model.layout.n_parameters;
    arrays->n_states = growth->model.layout.n_states;
    arrays->step_batches = options->step_batches;
    arrays->batch = options->batch;
    arrays->n_validation_images = options->n_validation_images;
    arrays->seed = options->seed;
    arrays->schedule = es_growth_schedule(options);
    arrays->is_nesterov = options->recipe.nesterov;
    arrays->parameters = growth->store->parameters.data;
    arrays->gradients = growth->store->gradients.data;
    arrays->states = growth->store->states.data;
    arrays->momentum = growth->momentum.data;
    arrays->saved_parameters = growth->saved_parameters.data;
    arrays->saved_states = growth->saved_states.data;
    arrays->episode = growth->episode.data;
    const EsGrowthAverage *average = &growth->average;
    if (average->store != NULL) {
        arrays->average_decay = options->recipe.average;
        arrays->average = average->store->parameters.data;
        arrays->average_states = average->store->states.data;
        arrays->saved_average = average->saved_parameters.data;
        arrays->saved_average_states = average->saved_states.data;
        arrays->average_updates = average->n_updates.data;
    }
    d->max_trials = options->n_envs * arrays->max_patterns;
}

static EsStatus upload(EsGrowth *growth, EsDtype dtype, int rank, const int64_t *dims,
                       const void *bytes, EsTensor *tensor) {
    ES_TRY(es_device_create_tensor(growth->device, dtype, rank, dims, tensor));
    ES_TRY(es_stream_copy(growth->stream, tensor->data, bytes, es_tensor_bytes(tensor),
                          ES_COPY_TO_DEVICE));
    return es_stream_synchronize(growth->stream);
}

// The data set, and what runs the hosts on it.
static EsStatus create_executor(EsGrowth *growth) {
    EsGrowthOnDevice *d = growth->on_device;
    const EsDataset *dataset = growth->model.dataset;
    const EsGrowthInputs inputs = es_growth_inputs(dataset);
    ES_TRY(upload(growth, inputs.dtype, 4, inputs.dims, inputs.values, &d->images));
    ES_TRY(upload(growth, ES_DTYPE_U16, 1, &dataset->n_images, dataset->labels, &d->labels));
    ES_TRY(d->executor->create(growth));
    EsFusedResults trained = d->executor->trained(growth);
    EsFusedResults evaluated = d->executor->evaluated(growth);
    d->arrays.trained_loss = trained.loss.data;
    d->arrays.trained_correct = trained.n_correct.data;
    d->arrays.trained_invalid = trained.n_invalid.data;
    d->arrays.evaluated_loss = evaluated.loss.data;
    d->arrays.evaluated_correct = evaluated.n_correct.data;
    d->arrays.evaluated_invalid = evaluated.n_invalid.data;
    return ES_STATUS_OK;
}

// The state of hosts without seeds.
static EsStatus create_fresh(EsGrowth *growth) {
    EsGrowthOnDevice *d = growth->on_device;
    int32_t n_envs = d->arrays.n_envs, n_slots = d->arrays.n_slots;
    ES_TRY(es_allocate(es_growth_state_bytes(n_envs, n_slots), &d->fresh_slab));
    es_growth_state_bind(&d->fresh, d->fresh_slab, n_envs, n_slots);
    es_lifecycle_reset(&d->fresh, &growth->options.settings);
    return ES_STATUS_OK;
}

static EsStatus create_readbacks(EsGrowth *growth) {
    for (int i = 0; i < 2; i++) {
        EsReadback *readback = &growth->on_device->readback[i];
        ES_TRY(es_event_create(growth->device, &readback->arrived));
        for (size_t k = 0; k < ES_COUNT_OF(readback->began); k++) {
            ES_TRY(es_event_create(growth->device, &readback->began[k]));
        }
    }
    return ES_STATUS_OK;
}

// The fused step where it runs this host.
static EsStatus choose_executor(EsGrowth *growth) {
    EsGrowthOnDevice *d = growth->on_device;
    const EsGrowthOptions *options = &growth->options;
    int is_fused = 0;
    ES_TRY(es_growth_choose_executor(&growth->model, growth->device, options->precision,
                                     options->is_generic, &is_fused, d->not_fused));
    d->executor = is_fused ? es_growth_executor_fused() : es_growth_executor_planned();
    return ES_STATUS_OK;
}

EsStatus es_growth_on_device_create(EsGrowth *growth) {
    ES_TRY(es_allocate(sizeof *growth->on_device, (void **)&growth->on_device));
    EsGrowthOnDevice *d = growth->on_device;
    ES_TRY(choose_executor(growth));
    fill_arrays(growth);
    plan_packing(growth);
    ES_TRY(create_tables(growth));
    ES_TRY(es_device_allocate(growth->device, d->packing.measured_bytes, &d->live));
    bind_live(growth);
    ES_TRY(create_rows(growth));
    ES_TRY(allocate_packed(growth));
    ES_TRY(create_readbacks(growth));
    ES_TRY(create_fresh(growth));
    ES_TRY(create_executor(growth));
    d->view = (EsGrowthDevice){.stream = growth->stream,
                               .state = d->arrays.state,
                               .settings = d->arrays.settings,
                               .masks = d->arrays.masks,
                               .episode = d->arrays.episode,
                               .actions = d->arrays.actions,
                               .rates = d->arrays.rates,
                               .n_envs = growth->options.n_envs};
    return ES_STATUS_OK;
}

void es_growth_on_device_destroy(EsGrowth *growth) {
    EsGrowthOnDevice *d = growth->on_device;
    if (d == NULL) {
        return;
    }
    es_stream_synchronize(growth->stream); // no copy may be in flight into memory released now
    for (int work = 0; work < ES_GROWTH_WORK_COUNT; work++) {
        es_graph_capture_destroy(&d->graph_captures[work]);
    }
    if (d->executor != NULL) {
        d->executor->destroy(growth);
    }
    for (int i = 0; i < 2; i++) {
        es_event_destroy(d->readback[i].arrived);
        for (size_t k = 0; k < ES_COUNT_OF(d->readback[i].began); k++) {
            es_event_destroy(d->readback[i].began[k]);
        }
    }
    release_packed(growth);
    es_device_destroy_tensor(&d->images);
    es_device_destroy_tensor(&d->labels);
    void *const blocks[] = {d->tables, d->rows, d->live};
    for (size_t i = 0; i < ES_COUNT_OF(blocks); i++) {
        es_device_release(growth->device, blocks[i]);
    }
    es_device_release_host(growth->device, d->sent_actions);
    es_device_release_host(growth->device, d->sent_trials);
    // the mirrors went with the pinned memory
    growth->slab = NULL;
    growth->masks = NULL;
    growth->results = NULL;
    growth->ablations = NULL;
    growth->pairs = NULL;
    growth->accuracy = NULL;
    growth->n_invalid = NULL;
    es_release(d->fresh_slab);
    es_release(d);
    growth->on_device = NULL;
}
