// The way back through the network of a proof policy. E width of embeddings, H of the body, n rows.
#include <string.h>

#include "kernels/ops/double_sums.h"
#include "proof/agent/proof_policy_rows.h"

// x[] += y[]
static void add_onto(EsProofWorker *w, float *x, float *y, int64_t count) {
    EsTensor sum = es_proof_view_vector(w, x, count), more = es_proof_view_vector(w, y, count);
    w->kernels->add(w->stream, &sum, &more, &sum);
}

static void undo_relu(EsProofWorker *w, float *active, float *d_active, int64_t count) {
    EsTensor y = es_proof_view_vector(w, active, count);
    EsTensor d = es_proof_view_vector(w, d_active, count);
    w->kernels->activation_backward(w->stream, ES_ACTIVATION_RELU, &y, &d, &d);
}

// Gradients of weight and bias are added; d_x, where wanted, is replaced.
static void undo_linear(EsProofWorker *w, const EsProofLinear *linear, float *x, float *d_y,
                        int64_t n, float *gradient, float *d_x) {
    EsTensor in = es_proof_view_rows(w, x, n, linear->n_in);
    EsTensor d_out = es_proof_view_rows(w, d_y, n, linear->n_out);
    EsTensor d_weight = es_proof_view_weight(w, gradient, linear);
    EsTensor weight = es_proof_view_weight(w, es_proof_policy_parameters(w->policy), linear);
    EsTensor d_in = es_proof_view_rows(w, d_x, n, linear->n_in);
    float *ES_RESTRICT d_bias = gradient + linear->bias;
    w->kernels->matmul(w->stream, 1, 0, 1.0f, &d_out, &in, &d_weight);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t o = 0; o < linear->n_out; o++) {
            d_bias[o] += d_y[i * linear->n_out + o];
        }
    }
    w->kernels->linear_backward_input(w->stream, &weight, &d_out, &d_in);
}

// With y = u / |u|:  d_u = (d_y - y <y, d_y>) / |u|. Where the divisor is not |u| but a constant,
// d_u = d_y over it.
static void undo_normalisation(EsProofWorker *w, int64_t first, int64_t n, float *d_encoding) {
    int64_t E = w->policy->settings.embed;
    for (int64_t i = first; i < first + n; i++) {
        const float *y = w->head[ES_PROOF_PART_POLICY].y + i * E;
        float *d = d_encoding + i * E;
        int is_divided = w->length[i] > ES_PROOF_SHORTEST;
        float along = is_divided ? (float)es_double_centred_dot(y, 0.0, d, 0.0, E) : 0.0f;
        for (int64_t e = 0; e < E; e++) {
            d[e] = (d[e] - y[e] * along) / w->length[i];
        }
    }
}

// d_body, rows of the gradient of the body's output, += what the head asks of them.
static void undo_head(EsProofWorker *w, EsProofPart part, float *x, int64_t first, int64_t n,
                      float *d_y, float *gradient, float *d_body) {
    const EsProofHead *head = &w->policy->head[part];
    int64_t H = head->first.n_out;
    float *active = w->head[part].active + first * H;
    undo_linear(w, &head->last, active, d_y, n, gradient, w->d_active);
    undo_relu(w, active, w->d_active, n * H);
    undo_linear(w, &head->first, x, w->d_active, n, gradient, w->d_in);
    add_onto(w, d_body, w->d_in, n * head->first.n_in);
}

// From the gradient of a layer's output, w->d_x, to that of its input, w->d_in.
static void undo_layer(EsProofWorker *w, const EsProofLayer *layer, EsProofLayerMemory *memory,
                       float *x, int64_t n, float *gradient) {
    int64_t H = layer->linear.n_out;
    EsTensor active = es_proof_view_rows(w, memory->active, n, H);
    EsTensor d_y = es_proof_view_rows(w, w->d_x, n, H);
    EsTensor d_active = es_proof_view_rows(w, w->d_active, n, H);
    EsTensor mean = es_proof_view_vector(w, memory->mean, n);
    EsTensor inv_std = es_proof_view_vector(w, memory->inv_std, n);
    EsTensor gamma =
        es_proof_view_vector(w, es_proof_policy_parameters(w->policy) + layer->gamma, H);
    EsTensor d_gamma = es_proof_view_vector(w, w->d_gamma, H);
    EsTensor d_beta = es_proof_view_vector(w, w->d_beta, H);
    w->kernels->layernorm_backward(w->stream, &active, &mean, &inv_std, &gamma, &d_y, &d_active,
                                   &d_gamma, &d_beta);
    add_onto(w, gradient + layer->gamma, w->d_gamma, H);
    add_onto(w, gradient + layer->beta, w->d_beta, H);
    undo_relu(w, memory->active, w->d_active, n * H);
    undo_linear(w, &layer->linear, x, w->d_active, n, gradient, w->d_in);
}

// d_input, rows of the gradient of the embedded states, += what comes back through a body from
// w->d_x.
static void undo_body(EsProofWorker *w, EsProofPart part, int64_t first, int64_t n, float *gradient,
                      float *d_input) {
    const EsProofLayer *body = w->policy->body[part];
    EsProofLayerMemory *memory = w->layer[part];
    int64_t E = w->policy->settings.embed, H = w->policy->settings.hidden;
    for (int l = w->policy->settings.layers; l > 0; l--) {
        undo_layer(w, &body[l], &memory[l], memory[l - 1].x, n, gradient);
        add_onto(w, w->d_x, w->d_in, n * H);
    }
    undo_layer(w, &body[0], &memory[0], w->input + first * 2 * E, n, gradient);
    add_onto(w, d_input + first * 2 * E, w->d_in, n * 2 * E);
}

void es_proof_worker_backward(EsProofWorker *w, const EsProofRows *rows, float *d_encoding,
                              const float *d_value, float *gradient, float *d_input) {
    const EsProofPolicySettings *s = &w->policy->settings;
    int64_t H = s->hidden, E = s->embed, n_policy = rows->count - rows->first_policy;
    int64_t first = s->separate_value ? rows->first_policy : 0;
    size_t body_bytes = sizeof(float) * (size_t)(rows->count * H);
    ES_ASSERT(w->keeps);
    memset(d_input, 0, sizeof *d_input * (size_t)(rows->count * 2 * E));
    memset(w->d_x, 0, body_bytes);
    // the value first: with a shared body its gradient waits in d_x for the policy's
    if (rows->n_value > 0) {
        EsProofPart part = s->separate_value ? ES_PROOF_PART_VALUE : ES_PROOF_PART_POLICY;
        float *d_y = w->branch;
        memcpy(d_y, d_value, sizeof *d_y * (size_t)rows->n_value);
        undo_head(w, ES_PROOF_PART_VALUE, w->layer[part][s->layers].x, 0, rows->n_value, d_y,
                  gradient, w->d_x);
        if (s->separate_value) {
            undo_body(w, ES_PROOF_PART_VALUE, 0, rows->n_value, gradient, d_input);
            memset(w->d_x, 0, body_bytes);
        }
    }
    if (n_policy > 0) {
        int64_t offset = (rows->first_policy - first) * H;
        if (s->l2) {
            undo_normalisation(w, rows->first_policy, n_policy, d_encoding);
        }
        undo_head(w, ES_PROOF_PART_POLICY, w->layer[ES_PROOF_PART_POLICY][s->layers].x + offset,
                  rows->first_policy, n_policy, d_encoding + rows->first_policy * E, gradient,
                  w->d_x + offset);
    }
    if (rows->count > first) {
        undo_body(w, ES_PROOF_PART_POLICY, first, rows->count - first, gradient, d_input);
    }
}
