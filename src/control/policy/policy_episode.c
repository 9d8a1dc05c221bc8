// A policy in the midst of an episode: its memory as tensors with a row for each environment, in a
// file or moved to a policy of other environments. Draws follow from episode and step, so that
// nothing else is needed to decide alike.
#include <math.h>
#include <string.h>

#include "base/range_check.h"
#include "control/policy/policy_internal.h"
#include "control/policy/policy_network_internal.h"
#include "tensor/safetensors.h"

#define FORMAT    "esper.policy_episode.1"
#define N_TENSORS 3

#define HEURISTIC_WORDS (sizeof(EsHeuristic) / sizeof(int32_t))
_Static_assert(HEURISTIC_WORDS * sizeof(int32_t) == sizeof(EsHeuristic), "all of it is saved");

// Episodes, and the memory of a heuristic or the recurrent state of a network, over the policy's
// own memory. Returns their number.
static int list_tensors(const EsPolicy *policy, EsNamedTensor tensors[N_TENSORS]) {
    EsDevice *device = policy->context.device;
    int64_t n_envs = policy->context.n_envs;
    int n = 0;
    tensors[n++] = (EsNamedTensor){
        "episode", es_tensor_view(policy->episodes, ES_DTYPE_I32, device, 1, &n_envs)};
    if (policy->memory != NULL) {
        tensors[n++] = (EsNamedTensor){
            "heuristic", es_tensor_view(policy->memory, ES_DTYPE_I32, device, 2,
                                        (int64_t[]){n_envs, (int64_t)HEURISTIC_WORDS})};
    }
    if (policy->learned.network != NULL) {
        const EsPolicyActing *acting = &policy->learned.network->acting;
        const int64_t dims[] = {n_envs, policy->learned.network->spec.n_hidden};
        tensors[n++] = (EsNamedTensor){
            "h", es_tensor_view(acting->h.tensor.data, ES_DTYPE_F32, device, 2, dims)};
        tensors[n++] = (EsNamedTensor){
            "c", es_tensor_view(acting->c.tensor.data, ES_DTYPE_F32, device, 2, dims)};
    }
    return n;
}

static EsStatus check_kind(const EsPolicy *policy) {
    const EsLearned *learned = &policy->learned;
    ES_ASSERT(learned->rollout == NULL);
    if (learned->network != NULL &&
        es_device_info(learned->network->device)->kind != ES_DEVICE_CPU) {
        return ES_FAIL(UNSUPPORTED, "the memory of a policy is saved and moved on the CPU alone");
    }
    return ES_STATUS_OK;
}

EsStatus es_policy_save_episode(const EsPolicy *policy, const char *path) {
    EsNamedTensor tensors[N_TENSORS];
    const EsMetadata metadata[] = {{"format", FORMAT}, ES_TENSORS_HASH_ENTRY};
    ES_TRY(check_kind(policy));
    int n = list_tensors(policy, tensors);
    return es_safetensors_save(path, tensors, n, metadata, ES_COUNT_OF(metadata));
}

// --- loading ---

// Places in the rotation index it; penalties are compared.
static EsStatus check_heuristic(const char *path, const EsTensor *found) {
    const EsHeuristic *memory = found->data;
    for (int64_t e = 0; e < found->dim[0]; e++) {
        const EsFileField field = {path, "heuristic", e * (int64_t)HEURISTIC_WORDS};
        ES_TRY(es_check_integer(field, memory[e].next, 0, ES_ROTATION_MAX - 1));
        ES_TRY(es_check_integer(field, memory[e].last_prune_step, -100, INT32_MAX));
        ES_TRY(es_check_integer(field, memory[e].last_decay_step, -1, INT32_MAX));
        for (int b = 0; b < ES_N_BLUEPRINT_IDS; b++) {
            ES_TRY(es_check_real(field, (double)memory[e].penalty[b], 0.0, 1e6));
        }
    }
    return ES_STATUS_OK;
}

static EsStatus check_tensor(const char *path, const EsNamedTensor *own, const EsTensor *found) {
    if (found->dtype != own->tensor.dtype || !es_tensor_same_shape(found, &own->tensor)) {
        return ES_FAIL(INPUT, "%s: tensor \"%s\" is not of this policy and its environments", path,
                       own->name);
    }
    if (strcmp(own->name, "heuristic") == 0) {
        return check_heuristic(path, found);
    }
    for (int64_t i = 0; i < es_tensor_count(found); i++) {
        const EsFileField field = {path, own->name, i};
        if (found->dtype == ES_DTYPE_I32) {
            ES_TRY(es_check_integer(field, ((const int32_t *)found->data)[i], 0, INT32_MAX));
        } else {
            ES_TRY(es_check_real(field, (double)((const float *)found->data)[i], -1e6, 1e6));
        }
    }
    return ES_STATUS_OK;
}

static EsStatus check_file(const char *path, const EsSafetensors *file, const EsNamedTensor *own,
                           int n, EsTensor *found) {
    const char *format = es_safetensors_metadata(file, "format");
    if (format == NULL || strcmp(format, FORMAT) != 0) {
        return ES_FAIL(INPUT, "%s: its format is \"%s\", not \"%s\"", path,
                       format != NULL ? format : "", FORMAT);
    }
    for (int i = 0; i < n; i++) {
        ES_TRY(es_safetensors_find(file, own[i].name, &found[i]));
        ES_TRY(check_tensor(path, &own[i], &found[i]));
    }
    return ES_STATUS_OK;
}

EsStatus es_policy_load_episode(EsPolicy *policy, const char *path) {
    EsNamedTensor own[N_TENSORS];
    EsTensor found[N_TENSORS];
    EsSafetensors *file = NULL;
    ES_TRY(check_kind(policy));
    int n = list_tensors(policy, own);
    ES_TRY(es_safetensors_open(path, &file));
    EsStatus status = check_file(path, file, own, n, found);
    for (int i = 0; status == ES_STATUS_OK && i < n; i++) {
        memcpy(own[i].tensor.data, found[i].data, es_tensor_bytes(&own[i].tensor));
    }
    es_safetensors_close(file);
    return status;
}

// --- moving ---

EsStatus es_policy_take_envs(EsPolicy *policy, const EsPolicy *from, const int64_t *envs) {
    EsNamedTensor own[N_TENSORS], theirs[N_TENSORS];
    ES_TRY(check_kind(policy));
    ES_ASSERT(policy->kind == from->kind);
    int n = list_tensors(policy, own);
    list_tensors(from, theirs);
    for (int i = 0; i < n; i++) {
        size_t row_bytes = es_tensor_bytes(&own[i].tensor) / (size_t)policy->context.n_envs;
        for (int64_t e = 0; e < policy->context.n_envs; e++) {
            memcpy((unsigned char *)own[i].tensor.data + (size_t)e * row_bytes,
                   (const unsigned char *)theirs[i].tensor.data + (size_t)envs[e] * row_bytes,
                   row_bytes);
        }
    }
    return ES_STATUS_OK;
}
