// Settings and weights: declares every parameter of the network by name in one slab, initialises it
// from the seed, and keeps the rows of padding at 0.
//
// D width of embeddings, H of the body, L residual blocks.
#include <math.h>
#include <stdio.h>
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
    return ES_STATUS_OK;
}

// --- parameters ---

// Declare "<layer>.<part>" and return its offset.
static int64_t declare(EsProofPolicy *policy, const char *layer, const char *part, int rank,
                       const int64_t *dims, EsInitial initial, float bound, float start) {
    char name[ES_NAME_BYTES];
    snprintf(name, sizeof name, "%s.%s", layer, part);
    EsValueId id = es_graph_parameter_with(policy->layout, name, rank, dims, initial, bound, start);
    return id == ES_NO_VALUE ? 0 : policy->layout->values[id].slab_offset;
}

static EsProofLinear declare_linear(EsProofPolicy *policy, const char *name, int64_t n_in,
                                    int64_t n_out, EsInitial initial, float scale) {
    float bound = initial == ES_INITIAL_UNIFORM ? sqrtf(6.0f / (float)n_in) : scale;
    EsProofLinear linear = {.n_in = n_in, .n_out = n_out};
    linear.weight =
        declare(policy, name, "weight", 2, (int64_t[]){n_out, n_in}, initial, bound, 0.0f);
    linear.bias = declare(policy, name, "bias", 1, &n_out, ES_INITIAL_UNIFORM, 0.0f, 0.0f);
    return linear;
}

static void declare_body(EsProofPolicy *policy, const char *prefix, EsProofLayer *body) {
    int64_t H = policy->settings.hidden;
    for (int l = 0; l <= policy->settings.layers; l++) {
        char name[ES_NAME_BYTES / 2];
        snprintf(name, sizeof name, "%s%d", prefix, l);
        int64_t n_in = l == 0 ? 2 * (int64_t)policy->settings.embed : H;
        body[l].linear = declare_linear(policy, name, n_in, H, ES_INITIAL_UNIFORM, 0.0f);
        body[l].gamma = declare(policy, name, "gamma", 1, &H, ES_INITIAL_UNIFORM, 0.0f, 1.0f);
        body[l].beta = declare(policy, name, "beta", 1, &H, ES_INITIAL_UNIFORM, 0.0f, 0.0f);
    }
}

static int64_t declare_table(EsProofPolicy *policy, const char *name, int64_t n_rows) {
    return declare(policy, name, "weight", 2, (int64_t[]){n_rows, policy->settings.embed},
                   ES_INITIAL_NORMAL, 1.0f, 0.0f);
}

static void declare_parameters(EsProofPolicy *policy) {
    const EsProofPolicySettings *s = &policy->settings;
    declare_body(policy, "body", policy->body[ES_PROOF_TOWER_POLICY]);
    EsProofHead *head = &policy->head[ES_PROOF_TOWER_POLICY];
    head->first = declare_linear(policy, "head0", s->hidden, s->hidden, ES_INITIAL_UNIFORM, 0.0f);
    head->last =
        declare_linear(policy, "head1", s->hidden, s->embed, ES_INITIAL_ORTHOGONAL, sqrtf(2.0f));
    if (s->separate_value) {
        declare_body(policy, "value_body", policy->body[ES_PROOF_TOWER_VALUE]);
    }
    head = &policy->head[ES_PROOF_TOWER_VALUE];
    head->first = declare_linear(policy, "value0", s->hidden, s->hidden, ES_INITIAL_UNIFORM, 0.0f);
    head->last = declare_linear(policy, "value1", s->hidden, 1, ES_INITIAL_ORTHOGONAL, 1.0f);
    policy->n_layers = policy->layout->n_parameters;
    policy->constants = declare_table(policy, "constants", policy->graph->n_constants + 1);
    policy->variables = declare_table(policy, "variables", 2 * ES_PROOF_MAX_ATOMS);
    policy->predicates =
        declare_table(policy, "predicates", es_proof_policy_predicate_rows(policy->graph));
}

void es_proof_policy_clear_padding(EsProofPolicy *policy) {
    float *parameters = policy->store->parameters.data;
    size_t row_bytes = sizeof(float) * (size_t)policy->settings.embed;
    memset(parameters + policy->constants, 0, row_bytes);
    memset(parameters + policy->predicates, 0, row_bytes);
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
    ES_TRY_GOTO(es_stream_create(device, &policy->stream));
    ES_TRY_GOTO(es_graph_create(1, &policy->layout));
    declare_parameters(policy);
    ES_TRY_GOTO(es_store_create(policy->layout, device, &policy->store));
    ES_TRY_GOTO(
        es_store_initialise(policy->store, policy->layout, policy->stream, seed, &(int32_t){0}));
    es_proof_policy_clear_padding(policy);
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
    return es_graph_parameter_count(policy->layout) - 2 * (int64_t)policy->settings.embed;
}
