// One block in device memory: a list of arrays is made first, each with its place, then all are
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
typedef struct Array {
    const void *from;
    void **to;
    size_t bytes, at;
} Array;

#define MAX_ARRAYS 32

typedef struct ArrayList {
    Array array[MAX_ARRAYS];
    int count;
    size_t bytes;
} ArrayList;

// An array of no elements stays NULL.
static void add_array(ArrayList *list, void *member, size_t count, size_t element_bytes) {
    void **to = member;
    ES_ASSERT(list->count < MAX_ARRAYS);
    Array *array = &list->array[list->count++];
    *array = (Array){.from = *to, .to = to, .bytes = *to != NULL ? count * element_bytes : 0};
    array->at = es_slab_add(&list->bytes, array->bytes);
    *to = NULL;
}

static size_t count_entries(const EsKnowledgeGraph *graph, const EsFactIndex *index) {
    const EsFactRows *last = &index->rows[graph->n_predicates];
    return (size_t)last->first +
           (last->mask < 0 ? (size_t)graph->n_constants + 2 : 3 * ((size_t)last->mask + 1));
}

// The arrays that rules read, in the order of the block.
static void list_arrays(const EsKnowledgeGraph *graph, EsKnowledgeGraph *view, ArrayList *list) {
    size_t P = (size_t)graph->n_predicates, C = (size_t)graph->n_constants;
    size_t n_facts = (size_t)graph->n_facts, n_wide = (size_t)graph->wide.count;
    add_array(list, &view->arities, P + 8, 1);
    add_array(list, &view->test_of, P + 1, 1);
    add_array(list, &view->negated, P + 1, sizeof(int32_t));
    add_array(list, &view->fact_start, P + 2, sizeof(int32_t));
    add_array(list, &view->rule_start, P + 2, sizeof(int32_t));
    add_array(list, &view->by_a.rows, P + 1, sizeof(EsFactRows));
    add_array(list, &view->by_b.rows, P + 1, sizeof(EsFactRows));
    add_array(list, &view->rules, (size_t)graph->n_rules, sizeof(EsHornRule));
    add_array(list, &view->by_a.entries, count_entries(graph, &graph->by_a), sizeof(int32_t));
    add_array(list, &view->by_b.entries, count_entries(graph, &graph->by_b), sizeof(int32_t));
    add_array(list, &view->facts, n_facts, sizeof(EsAtom));
    add_array(list, &view->facts_by_b, n_facts, sizeof(EsAtom));
    add_array(list, &view->wide.start, P + 2, sizeof(int32_t));
    add_array(list, &view->wide.atoms, 2 * n_wide, sizeof(EsAtom));
    for (int place = 0; place < ES_KG_MAX_ARITY; place++) {
        add_array(list, &view->wide.order[place], n_wide, sizeof(int32_t));
    }
    add_array(list, &view->values, C + 1, sizeof(int64_t));
    add_array(list, &view->decided,
              (size_t)ES_MAX(graph->n_decided, 0) * (size_t)graph->query_cells, sizeof(EsAtom));
    add_array(list, &view->domains.of_constant, C + 1, sizeof(int32_t));
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

static EsStatus copy_arrays(EsKnowledgeDevice *there, EsStream *stream, const ArrayList *list) {
    ES_TRY(es_device_allocate(there->device, ES_MAX(list->bytes, 1), &there->memory));
    there->bytes = list->bytes;
    for (int i = 0; i < list->count; i++) {
        const Array *array = &list->array[i];
        if (array->bytes > 0) {
            *array->to = (unsigned char *)there->memory + array->at;
            ES_TRY(
                es_stream_copy(stream, *array->to, array->from, array->bytes, ES_COPY_TO_DEVICE));
        }
    }
    return es_stream_synchronize(stream);
}

EsStatus es_kg_device_create(const EsKnowledgeGraph *graph, EsStream *stream,
                             EsKnowledgeDevice **there) {
    EsKnowledgeDevice *made = NULL;
    ArrayList list = {.count = 0};
    *there = NULL;
    ES_TRY(es_allocate(sizeof *made, (void **)&made));
    made->device = es_stream_device(stream);
    made->view = *graph;
    forget_names(&made->view);
    list_arrays(graph, &made->view, &list);
    EsStatus status = copy_arrays(made, stream, &list);
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
