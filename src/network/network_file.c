// Collects a network's tensors by name and writes them, or checks a file's against the graph and
// copies them in.
#include "network/network_file.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/range_check.h"

// One slab and the values of the graph that lie in it.
typedef struct FiledSlab {
    const EsTensor *slab; // f32 [E, P]
    EsRole role;
    const char *prefix;
} FiledSlab;

#define MAX_SLABS 4
#define MOMENT2   "moment2."

static int list_slabs(const EsStore *store, const EsOptimiser *optimiser,
                      FiledSlab slabs[MAX_SLABS]) {
    int n = 0;
    slabs[n++] = (FiledSlab){&store->parameters, ES_ROLE_PARAMETER, ""};
    slabs[n++] = (FiledSlab){&store->states, ES_ROLE_STATE, ""};
    if (optimiser != NULL) {
        slabs[n++] = (FiledSlab){&optimiser->moment1, ES_ROLE_PARAMETER, "moment1."};
        if (optimiser->moment2.data != NULL) {
            slabs[n++] = (FiledSlab){&optimiser->moment2, ES_ROLE_PARAMETER, MOMENT2};
        }
    }
    return n;
}

// The shape of one value in a file: [E, ...], [1, ...] of a shared store.
static EsTensor filed_shape(const FiledSlab *filed, const EsValue *value) {
    int64_t dims[ES_MAX_RANK];
    memcpy(dims, value->dim, sizeof dims);
    dims[0] = filed->slab->dim[0];
    return es_tensor_view(NULL, ES_DTYPE_F32, NULL, value->rank, dims);
}

// Between a slab [E, P] and one value's own contiguous [E, ...].
static void unpack(float *to, const float *from, const EsTensor *slab, const EsValue *value) {
    int64_t count = es_value_count(value);
    for (int64_t e = 0; e < slab->dim[0]; e++) {
        memcpy(to + e * count, from + e * slab->stride[0] + value->slab_offset,
               (size_t)count * sizeof(float));
    }
}

static void pack(float *to, const float *from, const EsTensor *slab, const EsValue *value) {
    int64_t count = es_value_count(value);
    for (int64_t e = 0; e < slab->dim[0]; e++) {
        memcpy(to + e * slab->stride[0] + value->slab_offset, from + e * count,
               (size_t)count * sizeof(float));
    }
}

// Contents of a file, collected in CPU memory.
typedef struct Collection {
    EsNamedTensor *tensors;            // owned
    char (*names)[ES_NAME_BYTES + 16]; // owned
    int count;
} Collection;

static EsStatus collect_slab(Collection *collection, const EsGraph *graph, const FiledSlab *filed,
                             EsStream *stream) {
    float *staging = NULL;
    ES_TRY(es_allocate(es_tensor_bytes(filed->slab), (void **)&staging));
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_stream_copy(stream, staging, filed->slab->data, es_tensor_bytes(filed->slab),
                               ES_COPY_TO_HOST));
    ES_TRY_GOTO(es_stream_synchronize(stream));
    for (int v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        if (value->role != filed->role) {
            continue;
        }
        int i = collection->count;
        void *memory = NULL;
        EsTensor tensor = filed_shape(filed, value);
        ES_TRY_GOTO(es_allocate(es_tensor_bytes(&tensor), &memory));
        tensor.data = memory;
        unpack(memory, staging, filed->slab, value);
        snprintf(collection->names[i], sizeof collection->names[i], "%s%s", filed->prefix,
                 value->name);
        collection->tensors[i] = (EsNamedTensor){collection->names[i], tensor};
        collection->count++;
    }
done:
    es_release(staging);
    return status;
}

static EsStatus collect_steps(Collection *collection, const EsOptimiser *optimiser,
                              EsStream *stream) {
    void *memory = NULL;
    size_t bytes = es_tensor_bytes(&optimiser->n_steps);
    ES_TRY(es_allocate(bytes, &memory));
    EsTensor tensor = es_tensor_view(memory, ES_DTYPE_I32, NULL, 1, optimiser->n_steps.dim);
    collection->tensors[collection->count++] = (EsNamedTensor){"n_steps", tensor};
    ES_TRY(es_stream_copy(stream, memory, optimiser->n_steps.data, bytes, ES_COPY_TO_HOST));
    return es_stream_synchronize(stream);
}

EsStatus es_network_file_save(const char *path, const EsGraph *graph, const EsStore *store,
                              const EsOptimiser *optimiser, EsStream *stream,
                              const EsMetadata *metadata, int n_metadata) {
    ES_TRY(es_store_check_weights(store, graph));
    Collection collection = {0};
    EsStatus status = ES_STATUS_OK;
    size_t most = (size_t)graph->n_values * MAX_SLABS + 1;
    ES_TRY_GOTO(es_allocate(sizeof *collection.tensors * most, (void **)&collection.tensors));
    ES_TRY_GOTO(es_allocate(sizeof *collection.names * most, (void **)&collection.names));
    FiledSlab slabs[MAX_SLABS];
    int n_slabs = list_slabs(store, optimiser, slabs);
    for (int i = 0; i < n_slabs; i++) {
        ES_TRY_GOTO(collect_slab(&collection, graph, &slabs[i], stream));
    }
    if (optimiser != NULL && optimiser->n_steps.data != NULL) {
        ES_TRY_GOTO(collect_steps(&collection, optimiser, stream));
    }
    ES_TRY_GOTO(
        es_safetensors_save(path, collection.tensors, collection.count, metadata, n_metadata));
done:
    for (int i = 0; i < collection.count; i++) {
        es_release(collection.tensors[i].tensor.data);
    }
    es_release(collection.tensors);
    es_release(collection.names);
    return status;
}

static EsStatus find_checked(const EsSafetensors *file, const char *path, const char *name,
                             const EsTensor *wanted, EsTensor *view) {
    ES_TRY(es_safetensors_find(file, name, view));
    if (view->dtype != wanted->dtype || !es_tensor_same_shape(view, wanted)) {
        char found[96], expected[96];
        return ES_FAIL(INPUT, "%s: \"%s\" is %s, this network needs %s", path, name,
                       es_tensor_describe(view, found, sizeof found),
                       es_tensor_describe(wanted, expected, sizeof expected));
    }
    return ES_STATUS_OK;
}

// Finite numbers, and second moments that can be sums of squares.
static EsStatus check_finite(const char *path, const char *name, const EsTensor *view,
                             int is_square) {
    const float *values = view->data;
    int64_t count = es_tensor_count(view);
    ES_TRY(es_check_finite(path, name, values, count));
    for (int64_t i = 0; i < count && is_square; i++) {
        ES_TRY(es_check_real((EsFileField){path, name, i}, (double)values[i], 0, DBL_MAX));
    }
    return ES_STATUS_OK;
}

static EsStatus check_steps(const char *path, const EsTensor *view) {
    const int32_t *steps = view->data;
    for (int64_t e = 0; e < es_tensor_count(view); e++) {
        ES_TRY(es_check_integer((EsFileField){path, "n_steps", e}, steps[e], 0,
                                ES_OPTIMISER_STEPS_MAX));
    }
    return ES_STATUS_OK;
}

// Fill a staging slab from the file.
static EsStatus read_slab(const EsSafetensors *file, const char *path, const EsGraph *graph,
                          const FiledSlab *filed, EsNumbers numbers, float *staging) {
    for (int v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        if (value->role == filed->role) {
            char name[ES_NAME_BYTES + 16];
            snprintf(name, sizeof name, "%s%s", filed->prefix, value->name);
            EsTensor view, wanted = filed_shape(filed, value);
            ES_TRY(find_checked(file, path, name, &wanted, &view));
            if (numbers == ES_NUMBERS_FINITE) {
                ES_TRY(check_finite(path, name, &view, strcmp(filed->prefix, MOMENT2) == 0));
            }
            pack(staging, view.data, filed->slab, value);
        }
    }
    return ES_STATUS_OK;
}

EsStatus es_network_file_load(const char *path, const EsGraph *graph, EsStore *store,
                              EsOptimiser *optimiser, EsStream *stream, EsNumbers numbers) {
    ES_TRY(es_store_check_weights(store, graph));
    EsSafetensors *file = NULL;
    float *staging[MAX_SLABS] = {0};
    FiledSlab slabs[MAX_SLABS];
    int n_slabs = list_slabs(store, optimiser, slabs);
    EsTensor n_steps = {0};
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_safetensors_open(path, &file));
    for (int i = 0; i < n_slabs; i++) {
        ES_TRY_GOTO(es_allocate(es_tensor_bytes(slabs[i].slab), (void **)&staging[i]));
        ES_TRY_GOTO(read_slab(file, path, graph, &slabs[i], numbers, staging[i]));
    }
    if (optimiser != NULL && optimiser->n_steps.data != NULL) {
        ES_TRY_GOTO(find_checked(file, path, "n_steps", &optimiser->n_steps, &n_steps));
        ES_TRY_GOTO(check_steps(path, &n_steps));
    }
    // from here on nothing can be wrong with the file
    for (int i = 0; i < n_slabs; i++) {
        ES_TRY_GOTO(es_stream_copy(stream, slabs[i].slab->data, staging[i],
                                   es_tensor_bytes(slabs[i].slab), ES_COPY_TO_DEVICE));
    }
    if (n_steps.data != NULL) {
        ES_TRY_GOTO(es_stream_copy(stream, optimiser->n_steps.data, n_steps.data,
                                   es_tensor_bytes(&n_steps), ES_COPY_TO_DEVICE));
    }
    ES_TRY_GOTO(es_stream_synchronize(stream));
done:
    for (int i = 0; i < n_slabs; i++) {
        es_release(staging[i]);
    }
    es_safetensors_close(file);
    return status;
}
