// Everything that training needs to go on, in one safetensors file: weights and moments by name,
// normalisers, counters. One list of tensors serves saving and loading; loading checks everything
// before it changes anything.
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/range_check.h"
#include "control/policy/policy_internal.h"
#include "network/checkpoint.h"

#define FORMAT "esper.policy.training.1"

enum { SLAB_PARAMETERS, SLAB_MOMENT1, SLAB_MOMENT2, N_SLABS };
enum { N_FIXED = 7 }; // tensors beside those of the slabs
enum { COUNTER_UPDATES, COUNTER_PASSES, COUNTER_SKIPPED, COUNTER_MERGED, N_COUNTERS };

typedef char TensorName[ES_NAME_BYTES + 24];

// The state in host memory, and the list of its tensors as they stand in the file.
typedef struct TrainingState {
    EsTensor device[N_SLABS]; // borrowed [1, P]
    EsTensor device_steps;    // borrowed [1]: Adam's step
    float *slab[N_SLABS];     // owned
    double *mean, *variance;  // owned [D]
    int64_t n_features;
    int32_t n_steps;
    int64_t counters[N_COUNTERS];
    double rewards[3], values[3]; // mean, variance, samples
    EsNamedTensor *tensors;       // owned; views of the above
    TensorName *names;            // owned
    int count;
} TrainingState;

static void list_tensor(TrainingState *state, const char *prefix, const char *name, void *data,
                        EsDtype dtype, int rank, const int64_t *dims) {
    int i = state->count++;
    snprintf(state->names[i], sizeof state->names[i], "policy.%s%s", prefix, name);
    state->tensors[i] =
        (EsNamedTensor){state->names[i], es_tensor_view(data, dtype, NULL, rank, dims)};
}

static void list_all(TrainingState *state, const EsGraph *graph) {
    static const char *const prefix[N_SLABS] = {"", "moment1.", "moment2."};
    const int64_t one = 1, three = 3, n_counters = N_COUNTERS;
    for (int i = 0; i < N_SLABS; i++) {
        for (int v = 0; v < graph->n_values; v++) {
            const EsValue *value = &graph->values[v];
            if (value->role == ES_ROLE_PARAMETER) {
                list_tensor(state, prefix[i], value->name, state->slab[i] + value->slab_offset,
                            ES_DTYPE_F32, value->rank, value->dim);
            }
        }
    }
    list_tensor(state, "", "n_steps", &state->n_steps, ES_DTYPE_I32, 1, &one);
    list_tensor(state, "", "features.mean", state->mean, ES_DTYPE_F64, 1, &state->n_features);
    list_tensor(state, "", "features.variance", state->variance, ES_DTYPE_F64, 1,
                &state->n_features);
    list_tensor(state, "", "reward_scale", state->rewards, ES_DTYPE_F64, 1, &three);
    list_tensor(state, "", "value_scale", state->values, ES_DTYPE_F64, 1, &three);
    list_tensor(state, "", "counters", state->counters, ES_DTYPE_I64, 1, &n_counters);
}

static EsStatus create_state(const EsLearned *learned, TrainingState *state) {
    const EsGraph *graph = es_policy_network_graph(learned->network);
    const EsOptimiser *optimiser = es_policy_network_optimiser(learned->network);
    *state = (TrainingState){.n_features = learned->features.n_features};
    state->device[SLAB_PARAMETERS] = es_policy_network_store(learned->network)->parameters;
    state->device[SLAB_MOMENT1] = optimiser->moment1;
    state->device[SLAB_MOMENT2] = optimiser->moment2;
    state->device_steps = optimiser->n_steps;
    size_t most = (size_t)graph->n_values * N_SLABS + N_FIXED;
    size_t row_bytes = sizeof(double) * (size_t)state->n_features;
    for (int i = 0; i < N_SLABS; i++) {
        // one network: the values of a slab's only row are contiguous
        ES_ASSERT(state->device[i].rank == 2 && state->device[i].dim[0] == 1);
        ES_TRY(es_allocate(es_tensor_bytes(&state->device[i]), (void **)&state->slab[i]));
    }
    ES_TRY(es_allocate(row_bytes, (void **)&state->mean));
    ES_TRY(es_allocate(row_bytes, (void **)&state->variance));
    ES_TRY(es_allocate(sizeof *state->tensors * most, (void **)&state->tensors));
    ES_TRY(es_allocate(sizeof *state->names * most, (void **)&state->names));
    list_all(state, graph);
    ES_ASSERT((size_t)state->count <= most);
    return ES_STATUS_OK;
}

static void destroy_state(TrainingState *state) {
    for (int i = 0; i < N_SLABS; i++) {
        es_release(state->slab[i]);
    }
    es_release(state->mean);
    es_release(state->variance);
    es_release(state->tensors);
    es_release(state->names);
}

// --- between the state in host memory and the policy ---

static void scale_to_numbers(const EsScaleNormaliser *scale, double *numbers) {
    numbers[0] = scale->mean;
    numbers[1] = scale->variance;
    numbers[2] = scale->n_samples;
}

static EsScaleNormaliser scale_from_numbers(const double *numbers) {
    return (EsScaleNormaliser){.mean = numbers[0], .variance = numbers[1], .n_samples = numbers[2]};
}

static EsPpoState ppo_state_of(const TrainingState *state) {
    return (EsPpoState){.rewards = scale_from_numbers(state->rewards),
                        .values = scale_from_numbers(state->values),
                        .n_updates = state->counters[COUNTER_UPDATES],
                        .n_passes = state->counters[COUNTER_PASSES],
                        .n_skipped = state->counters[COUNTER_SKIPPED]};
}

static EsStatus fetch_state(const EsLearned *learned, TrainingState *state) {
    EsStream *stream = es_policy_network_stream(learned->network);
    const EsPpoState *ppo = es_ppo_state(learned->ppo);
    size_t row_bytes = sizeof(double) * (size_t)state->n_features;
    for (int i = 0; i < N_SLABS; i++) {
        ES_TRY(es_stream_copy(stream, state->slab[i], state->device[i].data,
                              es_tensor_bytes(&state->device[i]), ES_COPY_TO_HOST));
    }
    ES_TRY(es_stream_copy(stream, &state->n_steps, state->device_steps.data, sizeof state->n_steps,
                          ES_COPY_TO_HOST));
    ES_TRY(es_stream_synchronize(stream));
    memcpy(state->mean, learned->features.mean, row_bytes);
    memcpy(state->variance, learned->features.variance, row_bytes);
    scale_to_numbers(&ppo->rewards, state->rewards);
    scale_to_numbers(&ppo->values, state->values);
    state->counters[COUNTER_UPDATES] = ppo->n_updates;
    state->counters[COUNTER_PASSES] = ppo->n_passes;
    state->counters[COUNTER_SKIPPED] = ppo->n_skipped;
    state->counters[COUNTER_MERGED] = learned->features.n_merged;
    return ES_STATUS_OK;
}

static EsStatus store_state(EsLearned *learned, const TrainingState *state) {
    EsStream *stream = es_policy_network_stream(learned->network);
    size_t row_bytes = sizeof(double) * (size_t)state->n_features;
    for (int i = 0; i < N_SLABS; i++) {
        ES_TRY(es_stream_copy(stream, state->device[i].data, state->slab[i],
                              es_tensor_bytes(&state->device[i]), ES_COPY_TO_DEVICE));
    }
    ES_TRY(es_stream_copy(stream, state->device_steps.data, &state->n_steps, sizeof state->n_steps,
                          ES_COPY_TO_DEVICE));
    ES_TRY(es_stream_synchronize(stream));
    memcpy(learned->features.mean, state->mean, row_bytes);
    memcpy(learned->features.variance, state->variance, row_bytes);
    *es_ppo_state(learned->ppo) = ppo_state_of(state);
    learned->features.n_merged = state->counters[COUNTER_MERGED];
    return ES_STATUS_OK;
}

// --- the file ---

static EsStatus read_tensors(const EsSafetensors *file, const char *path, TrainingState *state) {
    for (int i = 0; i < state->count; i++) {
        const EsNamedTensor *wanted = &state->tensors[i];
        EsTensor view;
        ES_TRY(es_safetensors_find(file, wanted->name, &view));
        if (view.dtype != wanted->tensor.dtype || !es_tensor_same_shape(&view, &wanted->tensor)) {
            char found[96], expected[96];
            return ES_FAIL(INPUT, "%s: \"%s\" is %s, this policy needs %s", path, wanted->name,
                           es_tensor_describe(&view, found, sizeof found),
                           es_tensor_describe(&wanted->tensor, expected, sizeof expected));
        }
        memcpy(wanted->tensor.data, view.data, es_tensor_bytes(&wanted->tensor));
    }
    return ES_STATUS_OK;
}

// All weights and moments are finite; squares and variances are not negative. `policy.counters` are
// checked as the state of PPO.
static EsStatus check_floats(const char *path, const EsNamedTensor *named) {
    const EsTensor *tensor = &named->tensor;
    int64_t count = es_tensor_count(tensor);
    const char *name = named->name + strlen("policy.");
    int is_square = strncmp(name, "moment2.", 8) == 0 || strcmp(name, "features.variance") == 0;
    for (int64_t i = 0; i < count; i++) {
        double number = tensor->dtype == ES_DTYPE_F32 ? (double)((const float *)tensor->data)[i]
                                                      : ((const double *)tensor->data)[i];
        ES_TRY(es_check_real((EsFileField){path, named->name, i}, number, is_square ? 0 : -DBL_MAX,
                             DBL_MAX));
    }
    return ES_STATUS_OK;
}

// Numbers that training could not go on with.
static EsStatus check_numbers(const char *path, const TrainingState *state) {
    for (int i = 0; i < state->count; i++) {
        EsDtype dtype = state->tensors[i].tensor.dtype;
        if (dtype == ES_DTYPE_F32 || dtype == ES_DTYPE_F64) {
            ES_TRY(check_floats(path, &state->tensors[i]));
        }
    }
    EsPpoState ppo = ppo_state_of(state);
    ES_TRY(es_ppo_state_check(&ppo, path));
    ES_TRY(es_check_counter((EsFileField){path, "rounds in the normaliser", ES_NO_INDEX},
                            state->counters[COUNTER_MERGED]));
    return es_check_integer((EsFileField){path, "policy.n_steps", ES_NO_INDEX}, state->n_steps, 0,
                            ES_OPTIMISER_STEPS_MAX);
}

EsStatus es_policy_save_training(const EsPolicy *policy, const char *path) {
    const EsMetadata metadata[] = {{"format", FORMAT}};
    ES_ASSERT(policy->learned.rollout != NULL);
    TrainingState state;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(create_state(&policy->learned, &state));
    ES_TRY_GOTO(fetch_state(&policy->learned, &state));
    ES_TRY_GOTO(es_safetensors_save(path, state.tensors, state.count, metadata,
                                    (int)ES_COUNT_OF(metadata)));
done:
    destroy_state(&state);
    return status;
}

EsStatus es_policy_load_training(EsPolicy *policy, const char *path) {
    EsSafetensors *file = NULL;
    ES_ASSERT(policy->learned.rollout != NULL);
    TrainingState state;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(create_state(&policy->learned, &state));
    ES_TRY_GOTO(es_safetensors_open(path, &file));
    const char *format = es_safetensors_metadata(file, "format");
    if (format == NULL || strcmp(format, FORMAT) != 0) {
        status = ES_FAIL(INPUT, "%s: its format is %s, not " FORMAT, path,
                         format != NULL ? format : "not said");
        goto done;
    }
    ES_TRY_GOTO(read_tensors(file, path, &state));
    ES_TRY_GOTO(check_numbers(path, &state));
    ES_TRY_GOTO(store_state(&policy->learned, &state));
done:
    es_safetensors_close(file);
    destroy_state(&state);
    return status;
}

// Adam's count of steps follows from the counters.
EsStatus es_policy_append_state(const EsPolicy *policy, EsStateHash *hash) {
    const EsLearned *learned = &policy->learned;
    if (learned->rollout == NULL) {
        return ES_STATUS_OK;
    }
    EsStream *stream = es_policy_network_stream(learned->network);
    const EsOptimiser *optimiser = es_policy_network_optimiser(learned->network);
    const EsTensor *const slabs[] = {&es_policy_network_store(learned->network)->parameters,
                                     &optimiser->moment1, &optimiser->moment2};
    for (size_t i = 0; i < ES_COUNT_OF(slabs); i++) {
        ES_TRY(es_state_hash_append(hash, stream, slabs[i]));
    }
    const EsPpoState *ppo = es_ppo_state(learned->ppo);
    size_t row_bytes = sizeof(double) * (size_t)learned->features.n_features;
    const int64_t counters[N_COUNTERS] = {ppo->n_updates, ppo->n_passes, ppo->n_skipped,
                                          learned->features.n_merged};
    double scales[6];
    scale_to_numbers(&ppo->rewards, scales);
    scale_to_numbers(&ppo->values, scales + 3);
    es_state_hash_append_bytes(hash, learned->features.mean, row_bytes);
    es_state_hash_append_bytes(hash, learned->features.variance, row_bytes);
    es_state_hash_append_bytes(hash, scales, sizeof scales);
    es_state_hash_append_bytes(hash, counters, sizeof counters);
    return ES_STATUS_OK;
}
