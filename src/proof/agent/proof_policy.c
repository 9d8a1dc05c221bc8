// A proof policy: its settings, and the life of its weights, which proof_policy_network.c declares.
#include "proof/agent/proof_policy.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "proof/agent/proof_policy_network.h"

// --- settings ---

EsProofPolicySettings es_proof_policy_defaults(void) {
    EsProofPolicySettings settings = {
#define X(type, name, start, lowest, highest, help) .name = (type)(start),
        ES_PROOF_POLICY_SETTINGS(X)
#undef X
            .embedder = ES_PROOF_EMBEDDER_TRANSE};
    return settings;
}

EsStatus es_proof_policy_settings_check(const EsProofPolicySettings *settings) {
    // written so that NaN fails
#define X(type, name, start, lowest, highest, help)                                                \
    if (!((double)settings->name >= (double)(lowest) &&                                            \
          (double)settings->name <= (double)(highest))) {                                          \
        return ES_FAIL(CONFIG, "proof policy: %s is %g, must be %g to %g", #name,                  \
                       (double)settings->name, (double)(lowest), (double)(highest));               \
    }
    ES_PROOF_POLICY_SETTINGS(X)
#undef X
    if (settings->embedder != ES_PROOF_EMBEDDER_TRANSE &&
        settings->embedder != ES_PROOF_EMBEDDER_SUM) {
        return ES_FAIL(CONFIG, "proof policy: embedder is number %d, must be one of %s",
                       (int)settings->embedder, ES_PROOF_EMBEDDERS);
    }
    if (settings->encoder != ES_PROOF_ENCODER_NAMES &&
        settings->encoder != ES_PROOF_ENCODER_STRUCTURE) {
        return ES_FAIL(CONFIG, "proof policy: encoder is number %d, must be one of %s",
                       (int)settings->encoder, ES_PROOF_ENCODERS);
    }
    return ES_STATUS_OK;
}

// --- life ---

EsStatus es_proof_policy_create(EsDevice *device, const EsKnowledgeGraph *graph,
                                const EsProofPolicySettings *settings, uint64_t seed,
                                EsProofPolicy **policy_out) {
    *policy_out = NULL;
    ES_TRY(es_proof_policy_settings_check(settings));
    if (es_device_info(device)->kind != ES_DEVICE_CPU) {
        return ES_FAIL(UNSUPPORTED, "proof policies run on the CPU, not on %s",
                       es_device_info(device)->name);
    }
    EsProofPolicy *policy = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_allocate(sizeof *policy, (void **)&policy));
    policy->settings = *settings;
    policy->device = device;
    policy->graph = graph;
    policy->version = 1;
    if (settings->encoder == ES_PROOF_ENCODER_STRUCTURE) {
        ES_TRY_GOTO(es_proof_features_create(graph, &policy->features));
    }
    ES_TRY_GOTO(es_stream_create(device, &policy->stream));
    ES_TRY_GOTO(es_graph_create(1, &policy->layout));
    es_proof_network_declare(policy);
    ES_TRY_GOTO(es_store_create(policy->layout, device, &policy->store));
    ES_TRY_GOTO(
        es_store_initialise(policy->store, policy->layout, policy->stream, seed, &(int32_t){0}));
    es_proof_network_clear_padding(policy);
    *policy_out = policy;
done:
    if (status != ES_STATUS_OK) {
        es_proof_policy_destroy(policy);
    }
    return status;
}

void es_proof_policy_destroy(EsProofPolicy *policy) {
    if (policy != NULL) {
        es_store_destroy(policy->store);
        es_graph_destroy(policy->layout);
        es_stream_destroy(policy->stream);
        es_proof_features_destroy(policy->features);
        es_release(policy);
    }
}

void es_proof_policy_copy(EsProofPolicy *policy, const EsProofPolicy *from) {
    size_t bytes = es_tensor_bytes(&policy->store->parameters);
    ES_ASSERT(bytes == es_tensor_bytes(&from->store->parameters));
    memcpy(policy->store->parameters.data, from->store->parameters.data, bytes);
    policy->version++;
}

const EsProofPolicySettings *es_proof_policy_settings(const EsProofPolicy *policy) {
    return &policy->settings;
}

const EsKnowledgeGraph *es_proof_policy_graph(const EsProofPolicy *policy) { return policy->graph; }

int es_proof_policy_is_finite(const EsProofPolicy *policy) {
    const float *weights = es_proof_policy_parameters(policy);
    int64_t n = es_tensor_count(&policy->store->parameters);
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(weights[i])) {
            return 0;
        }
    }
    return 1;
}

int64_t es_proof_policy_parameter_count(const EsProofPolicy *policy) {
    int64_t n_padding = policy->features == NULL ? 2 * (int64_t)policy->settings.embed : 0;
    return es_graph_parameter_count(policy->layout) - n_padding;
}
