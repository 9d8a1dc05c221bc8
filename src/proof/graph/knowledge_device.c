// One block in device memory: a list of parts is made first, each with its place, then all are
// copied.
#include "proof/graph/knowledge_device.h"

#include <string.h>

#include "base/memory.h"

struct EsKnowledgeDevice {
    EsDevice *device; // borrowed
    EsKnowledgeGraph view;
    void *memory; // owned, on the device
    size_t bytes;
};

// An array of the graph, and where the view has its pointer.
typedef struct Part {
    const void *from;
    void **to;
    size_t bytes, at;
} Part;

#define MAX_PARTS 32

typedef struct Parts {
    Part part[MAX_PARTS];
    int count;
    size_t bytes;
} Parts;

// An array of no elements stays NULL.
static void add_part(Parts *parts, void *member, size_t count, size_t element_bytes) {
    void **to = member;
    ES_ASSERT(parts->count < MAX_PARTS);
    Part *part = &parts->part[parts->count++];
    *part = (Part){.from = *to, .to = to, .bytes = *to != NULL ? count * element_bytes : 0};
    part->at = es_slab_add(&parts->bytes, part->bytes);
    *to = NULL;
}

static size_t count_entries(const EsKnowledgeGraph *graph, const EsFactIndex *index) {
    const EsFactRows *last = &index->rows[graph->n_predicates];
    return (size_t)last->first +
           (last->mask < 0 ? (size_t)graph->n_constants + 2 : 3 * ((size_t)last->mask + 1));
}

// The arrays that rules read, in the order of the block.
static void list_parts(const EsKnowledgeGraph *graph, EsKnowledgeGraph *view, Parts *parts) {
    size_t P = (size_t)graph->n_predicates, C = (size_t)graph->n_constants;
    size_t n_facts = (size_t)graph->n_facts, n_wide = (size_t)graph->wide.count;
    add_part(parts, &view->arities, P + 8, 1);
    add_part(parts, &view->test_of, P + 1, 1);
    add_part(parts, &view->negated, P + 1, sizeof(int32_t));
    add_part(parts, &view->fact_start, P + 2, sizeof(int32_t));
    add_part(parts, &view->rule_start, P + 2, sizeof(int32_t));
    add_part(parts, &view->by_a.rows, P + 1, sizeof(EsFactRows));
    add_part(parts, &view->by_b.rows, P + 1, sizeof(EsFactRows));
    add_part(parts, &view->rules, (size_t)graph->n_rules, sizeof(EsHornRule));
    add_part(parts, &view->by_a.entries, count_entries(graph, &graph->by_a), sizeof(int32_t));
    add_part(parts, &view->by_b.entries, count_entries(graph, &graph->by_b), sizeof(int32_t));
    add_part(parts, &view->facts, n_facts, sizeof(EsAtom));
    add_part(parts, &view->facts_by_b, n_facts, sizeof(EsAtom));
    add_part(parts, &view->wide.start, P + 2, sizeof(int32_t));
    add_part(parts, &view->wide.atoms, 2 * n_wide, sizeof(EsAtom));
    for (int place = 0; place < ES_KG_MAX_ARITY; place++) {
        add_part(parts, &view->wide.order[place], n_wide, sizeof(int32_t));
    }
    add_part(parts, &view->values, C + 1, sizeof(int64_t));
    add_part(parts, &view->decided,
             (size_t)ES_MAX(graph->n_decided, 0) * (size_t)graph->query_cells, sizeof(EsAtom));
    add_part(parts, &view->domains.of_constant, C + 1, sizeof(int32_t));
}

// Pointers that no kernel may follow.
static void forget_names(EsKnowledgeGraph *view) {
    view->constant_names = view->predicate_names = NULL;
    view->name_text = NULL;
    memset(view->splits, 0, sizeof view->splits);
    view->domains.names = NULL;
    view->domains.start = view->domains.members = view->domains.of_argument = NULL;
    view->domains.name_text = NULL;
}

static EsStatus copy_parts(EsKnowledgeDevice *there, EsStream *stream, const Parts *parts) {
    ES_TRY(es_device_allocate(there->device, ES_MAX(parts->bytes, 1), &there->memory));
    there->bytes = parts->bytes;
    for (int i = 0; i < parts->count; i++) {
        const Part *part = &parts->part[i];
        if (part->bytes > 0) {
            *part->to = (unsigned char *)there->memory + part->at;
            ES_TRY(es_stream_copy(stream, *part->to, part->from, part->bytes, ES_COPY_TO_DEVICE));
        }
    }
    return es_stream_synchronize(stream);
}

EsStatus es_kg_device_create(const EsKnowledgeGraph *graph, EsStream *stream,
                             EsKnowledgeDevice **there) {
    EsKnowledgeDevice *made = NULL;
    Parts parts = {.count = 0};
    *there = NULL;
    ES_TRY(es_allocate(sizeof *made, (void **)&made));
    made->device = es_stream_device(stream);
    made->view = *graph;
    forget_names(&made->view);
    list_parts(graph, &made->view, &parts);
    EsStatus status = copy_parts(made, stream, &parts);
    if (status != ES_STATUS_OK) {
        es_kg_device_destroy(made);
        return status;
    }
    *there = made;
    return ES_STATUS_OK;
}

void es_kg_device_destroy(EsKnowledgeDevice *there) {
    if (there == NULL) {
        return;
    }
    if (there->memory != NULL) {
        es_device_release(there->device, there->memory);
    }
    es_release(there);
}

EsKnowledgeGraph es_kg_device_view(const EsKnowledgeDevice *there) { return there->view; }

size_t es_kg_device_bytes(const EsKnowledgeDevice *there) { return there->bytes; }
