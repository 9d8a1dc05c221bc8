// An embedding model as a file: two tensors, and metadata that says which graph it is for.
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/range_check.h"
#include "proof/ranking/embedding_model.h"
#include "tensor/safetensors.h"

#define KIND      "esper-embedding"
#define CONSTANTS "constants"
#define RELATIONS "relations"

static EsTensor view_of(float *data, int64_t n_rows, int64_t width) {
    return es_tensor_view(data, ES_DTYPE_F32, NULL, 2, (int64_t[]){n_rows, width});
}

EsStatus es_embedding_model_save(const EsEmbeddingModel *model, const char *path) {
    char dimensions[16];
    snprintf(dimensions, sizeof dimensions, "%d", model->n_dimensions);
    const EsNamedTensor tensors[] = {
        {CONSTANTS, view_of(model->constants, model->n_constants, model->width)},
        {RELATIONS, view_of(model->relations, 2 * (int64_t)model->n_predicates, model->width)},
    };
    const EsMetadata metadata[] = {
        {"kind", KIND},
        {"version", "1"},
        {"model", "complex"},
        {"dimensions", dimensions},
        {"names_sha256", model->names_hash},
        ES_TENSORS_HASH_ENTRY,
    };
    return es_safetensors_save(path, tensors, ES_COUNT_OF(tensors), metadata,
                               ES_COUNT_OF(metadata));
}

// --- loading ---

static EsStatus check_entry(const EsSafetensors *file, const char *path, const char *key,
                            const char *wanted) {
    const char *value = es_safetensors_metadata(file, key);
    if (value == NULL) {
        return ES_FAIL(INPUT, "%s is not an embedding model: its metadata has no \"%s\"", path,
                       key);
    }
    if (strcmp(value, wanted) != 0) {
        return ES_FAIL(INPUT, "%s: \"%s\" is \"%.100s\"; this program reads \"%s\"", path, key,
                       value, wanted);
    }
    return ES_STATUS_OK;
}

static EsStatus find_rows(const EsSafetensors *file, const char *path, const char *name,
                          EsTensor *view) {
    ES_TRY(es_safetensors_find(file, name, view));
    if (view->dtype != ES_DTYPE_F32 || view->rank != 2) {
        char found[96];
        return ES_FAIL(INPUT, "%s: \"%s\" is %s, not a table of F32", path, name,
                       es_tensor_describe(view, found, sizeof found));
    }
    return ES_STATUS_OK;
}

// Sizes first: they tell a person more than a hash.
static EsStatus check_graph(const char *path, const EsTensor *constants, const EsTensor *relations,
                            const char *names_hash, const EsKnowledgeGraph *graph) {
    if (constants->dim[0] != graph->n_constants ||
        relations->dim[0] != 2 * (int64_t)graph->n_predicates) {
        return ES_FAIL(INPUT,
                       "%s is a model of another graph: %lld constants and %lld rows of relations; "
                       "this one has %d constants and %d predicates, two rows each",
                       path, (long long)constants->dim[0], (long long)relations->dim[0],
                       graph->n_constants, graph->n_predicates);
    }
    char wanted[ES_SHA256_TEXT_BYTES];
    es_kg_names_hash(graph, wanted);
    if (names_hash == NULL || strcmp(names_hash, wanted) != 0) {
        return ES_FAIL(INPUT,
                       "%s is a model of another graph of the same sizes: the hash of its names is "
                       "%.12s, of this one's %.12s",
                       path, names_hash != NULL ? names_hash : "missing", wanted);
    }
    return ES_STATUS_OK;
}

static EsStatus copy_finite(const char *path, const char *name, const EsTensor *from, float *to) {
    ES_TRY(es_check_finite(path, name, from->data, es_tensor_count(from)));
    memcpy(to, from->data, es_tensor_bytes(from));
    return ES_STATUS_OK;
}

static EsStatus read_model(const EsSafetensors *file, const char *path,
                           const EsKnowledgeGraph *graph, EsEmbeddingModel **model) {
    EsTensor constants, relations;
    ES_TRY(check_entry(file, path, "kind", KIND));
    ES_TRY(check_entry(file, path, "version", "1"));
    ES_TRY(check_entry(file, path, "model", "complex"));
    ES_TRY(find_rows(file, path, CONSTANTS, &constants));
    ES_TRY(find_rows(file, path, RELATIONS, &relations));
    ES_TRY(check_graph(path, &constants, &relations, es_safetensors_metadata(file, "names_sha256"),
                       graph));
    int64_t width = constants.dim[1];
    if (relations.dim[1] != width || width < 2 || width > 2 * ES_EMBEDDING_MAX_DIMENSIONS ||
        width % (2 * ES_EMBEDDING_DIMENSION_STEP) != 0) {
        return ES_FAIL(INPUT,
                       "%s: rows of %lld and %lld numbers; both take the same multiple of %d up to "
                       "%d",
                       path, (long long)width, (long long)relations.dim[1],
                       2 * ES_EMBEDDING_DIMENSION_STEP, 2 * ES_EMBEDDING_MAX_DIMENSIONS);
    }
    if (es_safetensors_metadata(file, "dimensions") != NULL) {
        char dimensions[24];
        snprintf(dimensions, sizeof dimensions, "%lld", (long long)width / 2);
        ES_TRY(check_entry(file, path, "dimensions", dimensions));
    }
    ES_TRY(es_embedding_model_create(graph, (int32_t)(width / 2), model));
    ES_TRY(copy_finite(path, CONSTANTS, &constants, (*model)->constants));
    ES_TRY(copy_finite(path, RELATIONS, &relations, (*model)->relations));
    es_safetensors_note_hash(file);
    return ES_STATUS_OK;
}

EsStatus es_embedding_model_load(const char *path, const EsKnowledgeGraph *graph,
                                 EsEmbeddingModel **model) {
    EsSafetensors *file = NULL;
    *model = NULL;
    EsStatus status = es_safetensors_open(path, &file);
    if (status != ES_STATUS_OK) {
        // a file that cannot be read is wrong input as well: the user has named it
        return status == ES_STATUS_IO ? ES_FAIL(INPUT, "%s", es_status_detail()) : status;
    }
    status = read_model(file, path, graph, model);
    if (status != ES_STATUS_OK) {
        es_embedding_model_destroy(*model);
        *model = NULL;
    }
    es_safetensors_close(file);
    return status;
}
