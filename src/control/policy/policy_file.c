// A trained policy as a file: its tensors, beside the metadata (policy_metadata.c). Everything that
// is read comes from outside: nothing is taken that is missing, of another shape or not finite.
#include "control/policy/policy_file.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/range_check.h"

#define MEAN     "normaliser.mean"
#define VARIANCE "normaliser.variance"
#define MERGED   "normaliser.n_merged"
#define N_SCALES 3

// --- tensors ---

// The shape of a parameter in a file: without the environment axis.
static EsTensor file_view(const EsValue *value, float *data) {
    return es_tensor_view(data, ES_DTYPE_F32, NULL, value->rank - 1, value->dim + 1);
}

// Tensors of the normaliser, which version 2 does not have.
static int count_scales(const EsPolicySpec *spec) { return spec->is_set ? 0 : N_SCALES; }

// Features that the normaliser is for.
static int count_normalised(const EsPolicySpec *spec) {
    return spec->is_set ? 0 : es_observation_size(spec->n_slots);
}

static int count_parameters(const EsGraph *graph) {
    int n = 0;
    for (int v = 0; v < graph->n_values; v++) {
        n += graph->values[v].role == ES_ROLE_PARAMETER;
    }
    return n;
}

// --- saving ---

static EsStatus check_metadata(const EsPolicyMetadata *metadata, const EsPolicySpec *spec,
                               const EsFeatureNormaliser *features) {
    if (metadata->spec.n_slots != spec->n_slots || metadata->spec.n_hidden != spec->n_hidden ||
        metadata->spec.n_features != spec->n_features || metadata->spec.is_set != spec->is_set ||
        metadata->settings.n_slots != spec->n_slots) {
        return ES_FAIL(ARGUMENT,
                       "the metadata is of another policy: %d slots (growth: %d), %d hidden units, "
                       "%d features; the network has %d, %d and %d",
                       metadata->spec.n_slots, metadata->settings.n_slots, metadata->spec.n_hidden,
                       metadata->spec.n_features, spec->n_slots, spec->n_hidden, spec->n_features);
    }
    int n_wanted = count_normalised(spec);
    if (features->n_features != n_wanted) {
        return ES_FAIL(ARGUMENT, "the normaliser is for %d features, the policy observes %d",
                       features->n_features, n_wanted);
    }
    return es_growth_settings_check(&metadata->settings);
}

static void list_tensors(const EsGraph *graph, float *slab, const EsFeatureNormaliser *features,
                         EsNamedTensor *tensors) {
    int n = 0;
    int64_t n_features = features->n_features, one = 1;
    for (int v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        if (value->role == ES_ROLE_PARAMETER) {
            tensors[n++] =
                (EsNamedTensor){value->name, file_view(value, slab + value->slab_offset)};
        }
    }
    if (n_features == 0) {
        return;
    }
    tensors[n++] =
        (EsNamedTensor){MEAN, es_tensor_view(features->mean, ES_DTYPE_F64, NULL, 1, &n_features)};
    tensors[n++] = (EsNamedTensor){
        VARIANCE, es_tensor_view(features->variance, ES_DTYPE_F64, NULL, 1, &n_features)};
    tensors[n] = (EsNamedTensor){
        MERGED, es_tensor_view((int64_t *)&features->n_merged, ES_DTYPE_I64, NULL, 1, &one)};
}

EsStatus es_policy_file_save(const char *path, const EsPolicyMetadata *metadata,
                             const EsPolicyNetwork *network, const EsFeatureNormaliser *features) {
    ES_TRY(check_metadata(metadata, es_policy_network_spec(network), features));
    const EsGraph *graph = es_policy_network_graph(network);
    const EsStore *store = es_policy_network_store(network);
    EsStream *stream = es_policy_network_stream(network);
    size_t slab_bytes = es_tensor_bytes(&store->parameters);
    int n_tensors = count_parameters(graph) + count_scales(es_policy_network_spec(network));
    int n_entries = 0;
    float *slab = NULL;
    EsNamedTensor *tensors = NULL;
    EsMetadata entries[ES_POLICY_METADATA_MAX + 1] = {0};
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_allocate(slab_bytes, (void **)&slab));
    ES_TRY_GOTO(es_allocate(sizeof *tensors * (size_t)n_tensors, (void **)&tensors));
    ES_TRY_GOTO(es_stream_copy(stream, slab, store->parameters.data, slab_bytes, ES_COPY_TO_HOST));
    ES_TRY_GOTO(es_stream_synchronize(stream));
    ES_TRY_GOTO(es_policy_metadata_write(metadata, entries, &n_entries));
    list_tensors(graph, slab, features, tensors);
    entries[n_entries] = ES_TENSORS_HASH_ENTRY;
    status = es_safetensors_save(path, tensors, n_tensors, entries, n_entries + 1);
    entries[n_entries] = (EsMetadata){0}; // not to be freed
done:
    es_policy_metadata_release(entries);
    es_release(tensors);
    es_release(slab);
    return status;
}

// --- loading ---

// Returns whether the file begins as safetensors do: the length of a header, and its brace.
static int begins_well(const char *path) {
    unsigned char start[9] = {0};
    FILE *stream = fopen(path, "rbe");
    size_t n = stream != NULL ? fread(start, 1, sizeof start, stream) : 0;
    if (stream != NULL) {
        fclose(stream);
    }
    // headers are far below 2^32 bytes
    return n == sizeof start && memcmp(start + 4, "\0\0\0", 4) == 0 && start[8] == '{';
}

// A file that cannot be read is wrong input: the user has named it.
static EsStatus open_file(const char *path, EsSafetensors **file) {
    EsStatus status = es_safetensors_open(path, file);
    if (status == ES_STATUS_IO) {
        return ES_FAIL(INPUT, "%s", es_status_detail());
    }
    return status != ES_STATUS_INPUT
               ? status
               : ES_FAIL(INPUT, "%s is %s (%s)", path,
                         begins_well(path) ? "cut short or damaged" : "not a policy file",
                         es_status_detail());
}

// A tensor of the file with exactly this type and shape.
static EsStatus find(const EsSafetensors *file, const char *path, const char *name,
                     const EsTensor *wanted, EsTensor *view) {
    ES_TRY(es_safetensors_find(file, name, view));
    if (view->dtype != wanted->dtype || view->rank != wanted->rank ||
        !es_tensor_same_shape(view, wanted)) {
        char found[96], expected[96];
        return ES_FAIL(INPUT, "%s: \"%s\" is %s, this policy needs %s", path, name,
                       es_tensor_describe(view, found, sizeof found),
                       es_tensor_describe(wanted, expected, sizeof expected));
    }
    return ES_STATUS_OK;
}

// Networks are built from the metadata, so that these may not ask for more than the file holds.
static EsStatus check_sizes(const EsSafetensors *file, const char *path, const EsPolicySpec *spec) {
    const int64_t n_features = spec->n_features, recurrent[] = {4 * spec->n_hidden, spec->n_hidden};
    EsTensor view, bias = es_tensor_view(NULL, ES_DTYPE_F32, NULL, 1, &n_features);
    EsTensor weight = es_tensor_view(NULL, ES_DTYPE_F32, NULL, 2, recurrent);
    ES_TRY(find(file, path, spec->is_set ? "host.bias" : "feature.bias", &bias, &view));
    return find(file, path, "lstm.weight_hh", &weight, &view);
}

EsStatus es_policy_file_metadata(const char *path, EsPolicyMetadata *metadata) {
    EsSafetensors *file = NULL;
    ES_TRY(open_file(path, &file));
    EsStatus status = es_policy_metadata_read(file, path, metadata);
    if (status == ES_STATUS_OK) {
        status = check_sizes(file, path, &metadata->spec);
    }
    es_safetensors_close(file);
    return status;
}

static EsStatus check_network(const EsPolicyMetadata *metadata, const EsPolicySpec *spec,
                              const EsFeatureNormaliser *features, const char *path) {
    if ((metadata->spec.n_slots != spec->n_slots && !spec->is_set) ||
        metadata->spec.n_hidden != spec->n_hidden ||
        metadata->spec.n_features != spec->n_features || metadata->spec.is_set != spec->is_set) {
        return ES_FAIL(INPUT,
                       "%s: a policy of %d slots, %d hidden units and %d features; the network "
                       "has %d, %d and %d",
                       path, metadata->spec.n_slots, metadata->spec.n_hidden,
                       metadata->spec.n_features, spec->n_slots, spec->n_hidden, spec->n_features);
    }
    if (features->n_features != count_normalised(spec)) {
        return ES_FAIL(ARGUMENT, "the normaliser is for %d features, the policy in %s observes %d",
                       features->n_features, path, count_normalised(spec));
    }
    return ES_STATUS_OK;
}

static EsStatus read_parameters(const EsSafetensors *file, const char *path, const EsGraph *graph,
                                float *slab) {
    for (int v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        if (value->role != ES_ROLE_PARAMETER) {
            continue;
        }
        EsTensor view, wanted = file_view(value, NULL);
        ES_TRY(find(file, path, value->name, &wanted, &view));
        ES_TRY(es_check_finite(path, value->name, view.data, es_tensor_count(&view)));
        memcpy(slab + value->slab_offset, view.data, es_tensor_bytes(&view));
    }
    return ES_STATUS_OK;
}

typedef struct Scales {
    EsTensor mean, variance, n_merged; // views of the file
} Scales;

static EsStatus read_scales(const EsSafetensors *file, const char *path, int64_t n_features,
                            Scales *scales) {
    const int64_t one = 1;
    EsTensor wanted = es_tensor_view(NULL, ES_DTYPE_F64, NULL, 1, &n_features);
    EsTensor number = es_tensor_view(NULL, ES_DTYPE_I64, NULL, 1, &one);
    ES_TRY(find(file, path, MEAN, &wanted, &scales->mean));
    ES_TRY(find(file, path, VARIANCE, &wanted, &scales->variance));
    ES_TRY(find(file, path, MERGED, &number, &scales->n_merged));
    const double *mean = scales->mean.data, *variance = scales->variance.data;
    for (int64_t i = 0; i < n_features; i++) {
        ES_TRY(es_check_real((EsFileField){path, MEAN, i}, mean[i], -DBL_MAX, DBL_MAX));
        ES_TRY(es_check_real((EsFileField){path, VARIANCE, i}, variance[i], 0, DBL_MAX));
    }
    return es_check_counter((EsFileField){path, MERGED, ES_NO_INDEX},
                            *(const int64_t *)scales->n_merged.data);
}

EsStatus es_policy_file_load(const char *path, EsPolicyNetwork *network,
                             EsFeatureNormaliser *features) {
    const EsGraph *graph = es_policy_network_graph(network);
    EsStore *store = es_policy_network_store(network);
    EsStream *stream = es_policy_network_stream(network);
    size_t slab_bytes = es_tensor_bytes(&store->parameters);
    int n_wanted = count_parameters(graph) + count_scales(es_policy_network_spec(network));
    EsSafetensors *file = NULL;
    float *slab = NULL;
    EsPolicyMetadata metadata;
    Scales scales;
    ES_TRY(es_safetensors_open(path, &file));
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_policy_metadata_read(file, path, &metadata));
    ES_TRY_GOTO(check_network(&metadata, es_policy_network_spec(network), features, path));
    ES_TRY_GOTO(es_allocate(slab_bytes, (void **)&slab));
    ES_TRY_GOTO(read_parameters(file, path, graph, slab));
    if (features->n_features > 0) {
        ES_TRY_GOTO(read_scales(file, path, features->n_features, &scales));
    }
    if (es_safetensors_count(file) != n_wanted) {
        status = ES_FAIL(INPUT, "%s has %d tensors, a policy of these sizes has %d", path,
                         es_safetensors_count(file), n_wanted);
        goto done;
    }
    es_safetensors_note_hash(file);
    // from here on nothing can be wrong with the file
    if (features->n_features > 0) {
        size_t scale_bytes = (size_t)features->n_features * sizeof(double);
        memcpy(features->mean, scales.mean.data, scale_bytes);
        memcpy(features->variance, scales.variance.data, scale_bytes);
        features->n_merged = *(const int64_t *)scales.n_merged.data;
    }
    ES_TRY_GOTO(
        es_stream_copy(stream, store->parameters.data, slab, slab_bytes, ES_COPY_TO_DEVICE));
    status = es_stream_synchronize(stream);
done:
    es_release(slab);
    es_safetensors_close(file);
    return status;
}
