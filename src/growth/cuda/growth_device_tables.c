// Where the parameters of hosts, gates and seeds lie and what they start from, as tables that
// kernels read: made once, when growth is created on a GPU.
#include <string.h>

#include "base/memory.h"
#include "growth/cuda/growth_on_device.h"

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

// --- tensors ---

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
        for (int b = 0; b < ES_BLUEPRINT_COUNT; b++) {
            ES_TRY(list_tensors(tables, growth->seed_graphs[s][b], ES_ROLE_PARAMETER,
                                &tables->map->seed[s][b]));
        }
    }
    return ES_STATUS_OK;
}

// --- chunks and places ---

static void add_chunks(Tables *tables, int32_t part, int slot, int64_t first, int64_t end) {
    for (; first < end; first += ES_GROWTH_CHUNK) {
        tables->chunks[tables->n_chunks++] =
            (EsGrowthChunk){part, slot, first, ES_MIN(first + ES_GROWTH_CHUNK, end)};
    }
}

static void list_chunks(Tables *tables) {
    const EsGrowthLayout *layout = &tables->growth->model.layout;
    add_chunks(tables, ES_GROWTH_PART_HOST, 0, 0, layout->n_host_parameters);
    for (int s = 0; s < tables->growth->model.n_slots; s++) {
        add_chunks(tables, ES_GROWTH_PART_GATE, s, layout->region[s], layout->seed[s]);
        add_chunks(tables, ES_GROWTH_PART_SEED, s, layout->seed[s], layout->region_end[s]);
    }
    tables->n_parameter_chunks = tables->n_chunks;
    add_chunks(tables, ES_GROWTH_PART_STATE, 0, 0, layout->n_states);
}

static void add_places(Tables *tables, int32_t part, int slot, int32_t n) {
    for (int32_t number = 0; number < n; number++) {
        tables->places[tables->n_places++] = (EsGrowthPlace){part, slot, number};
    }
}

static void list_places(Tables *tables) {
    int n_slots = tables->growth->model.n_slots;
    add_places(tables, ES_GROWTH_PART_HOST, 0, tables->map->host.n);
    for (int s = 0; s < n_slots; s++) {
        int32_t most = 0;
        for (int b = 0; b < ES_BLUEPRINT_COUNT; b++) {
            most = ES_MAX(most, tables->map->seed[s][b].n);
        }
        tables->groups.first[1 + s] = tables->n_places;
        add_places(tables, ES_GROWTH_PART_GATE, s, tables->map->gate[s].n);
        add_places(tables, ES_GROWTH_PART_SEED, s, most);
    }
    tables->groups.first[1 + n_slots] = tables->n_places;
}

// Elements of the largest tensor that can be at a place.
static int64_t longest_at(const Tables *tables, const EsGrowthPlace *place) {
    const EsGrowthMap *map = tables->map;
    const EsGrowthRange *ranges = place->part == ES_GROWTH_PART_HOST   ? &map->host
                                  : place->part == ES_GROWTH_PART_GATE ? &map->gate[place->slot]
                                                                       : map->seed[place->slot];
    int n_ranges = place->part == ES_GROWTH_PART_SEED ? ES_BLUEPRINT_COUNT : 1;
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

// --- the block ---

static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Room for the largest tables this model can have: settings, then these.
typedef struct Room {
    size_t map, spans, chunks, places, pieces, first_piece, bytes;
} Room;

static Room measure(const EsGrowth *growth) {
    const EsGrowthLayout *layout = &growth->model.layout;
    size_t n_slots = (size_t)growth->model.n_slots;
    size_t n_spans = (2 + n_slots * (1 + ES_BLUEPRINT_COUNT)) * ES_SPANS_MAX;
    size_t n_chunks =
        (size_t)(layout->n_parameters + layout->n_states) / ES_GROWTH_CHUNK + 2 + 2 * n_slots;
    size_t n_places = (1 + 2 * n_slots) * ES_SPANS_MAX;
    // tensors at a slot's places are of several blueprints, each no longer than the slot's region
    size_t n_pieces =
        n_places + ES_BLUEPRINT_COUNT * (size_t)layout->n_parameters / ES_GROWTH_PIECE + 1;
    Room room = {.map = aligned(sizeof(EsGrowthSettings))};
    room.spans = room.map + aligned(sizeof(EsGrowthMap));
    room.chunks = room.spans + aligned(n_spans * sizeof(EsGrowthSpan));
    room.places = room.chunks + aligned(n_chunks * sizeof(EsGrowthChunk));
    room.pieces = room.places + aligned(n_places * sizeof(EsGrowthPlace));
    room.first_piece = room.pieces + aligned(n_pieces * sizeof(EsGrowthPiece));
    room.bytes = room.first_piece + aligned(n_places * sizeof(int32_t));
    return room;
}

static void bind_tables(EsGrowthOnDevice *d, const Tables *tables, const Room *room) {
    char *block = d->tables;
    d->parts.settings = (const EsGrowthSettings *)(void *)block;
    d->parts.map = (const EsGrowthMap *)(void *)(block + room->map);
    d->parts.spans = (const EsGrowthSpan *)(void *)(block + room->spans);
    d->parts.chunks = (const EsGrowthChunk *)(void *)(block + room->chunks);
    d->parts.places = (const EsGrowthPlace *)(void *)(block + room->places);
    d->parts.pieces = (const EsGrowthPiece *)(void *)(block + room->pieces);
    d->parts.first_piece = (const int32_t *)(void *)(block + room->first_piece);
    d->parts.n_pieces = tables->n_pieces;
    d->parts.groups = tables->groups;
    d->parts.n_chunks = tables->n_chunks;
    d->parts.n_parameter_chunks = tables->n_parameter_chunks;
    d->parts.n_places = tables->n_places;
}

EsStatus es_growth_tables_create(EsGrowth *growth) {
    EsGrowthOnDevice *d = growth->on_device;
    Room room = measure(growth);
    char *block = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_allocate(room.bytes, (void **)&block));
    Tables tables = {.growth = growth,
                     .map = (EsGrowthMap *)(void *)(block + room.map),
                     .spans = (EsGrowthSpan *)(void *)(block + room.spans),
                     .chunks = (EsGrowthChunk *)(void *)(block + room.chunks),
                     .places = (EsGrowthPlace *)(void *)(block + room.places),
                     .pieces = (EsGrowthPiece *)(void *)(block + room.pieces),
                     .first_piece = (int32_t *)(void *)(block + room.first_piece)};
    memcpy(block, &growth->options.settings, sizeof growth->options.settings);
    ES_TRY_GOTO(list_host(&tables));
    ES_TRY_GOTO(list_slots(&tables));
    list_chunks(&tables);
    list_places(&tables);
    list_pieces(&tables);
    ES_TRY_GOTO(es_device_allocate(growth->device, room.bytes, &d->tables));
    ES_TRY_GOTO(es_stream_copy(growth->stream, d->tables, block, room.bytes, ES_COPY_TO_DEVICE));
    ES_TRY_GOTO(es_stream_synchronize(growth->stream));
    bind_tables(d, &tables, &room);
done:
    es_release(block);
    return status;
}
