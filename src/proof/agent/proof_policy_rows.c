// E width of embeddings, H of the body, n rows of a call.
#include "proof/agent/proof_policy_rows.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "kernels/ops/double_sums.h"

// --- memory ---

static float *take(EsProofWorker *w, size_t *used_bytes, int64_t count) {
    size_t offset = es_slab_add(used_bytes, sizeof(float) * (size_t)count);
    return w->slab == NULL ? NULL : (float *)((unsigned char *)w->slab + offset);
}

static void lay_out_body(EsProofWorker *w, EsProofLayerMemory *layer, size_t *used_bytes) {
    int64_t n = ES_PROOF_ROWS, H = w->policy->settings.hidden;
    for (int l = 0; l <= w->policy->settings.layers; l++) {
        if (l > 0 && !w->keeps) {
            layer[l] = layer[0];
            continue;
        }
        layer[l].active = take(w, used_bytes, n * H);
        layer[l].x = take(w, used_bytes, n * H);
        layer[l].mean = take(w, used_bytes, n);
        layer[l].inv_std = take(w, used_bytes, n);
    }
}

// Give every array its place in the slab; with slab NULL, measure it.
static size_t lay_out(EsProofWorker *w) {
    const EsProofPolicySettings *s = &w->policy->settings;
    int64_t n = ES_PROOF_ROWS, E = s->embed, H = s->hidden;
    size_t used_bytes = 0;
    w->input = take(w, &used_bytes, n * 2 * E);
    lay_out_body(w, w->layer[ES_PROOF_PART_POLICY], &used_bytes);
    if (s->separate_value) {
        lay_out_body(w, w->layer[ES_PROOF_PART_VALUE], &used_bytes);
    }
    for (int part = 0; part < ES_PROOF_N_PARTS; part++) {
        w->head[part].active = take(w, &used_bytes, n * H);
        w->head[part].y = take(w, &used_bytes, n * (part == ES_PROOF_PART_POLICY ? E : 1));
    }
    w->branch = take(w, &used_bytes, n * H);
    w->length = take(w, &used_bytes, n);
    if (w->keeps) {
        w->d_encoding = take(w, &used_bytes, n * E);
        w->d_x = take(w, &used_bytes, n * H);
        w->d_active = take(w, &used_bytes, n * H);
        w->d_in = take(w, &used_bytes, n * ES_MAX(H, 2 * E));
        w->d_gamma = take(w, &used_bytes, H);
        w->d_beta = take(w, &used_bytes, H);
    }
    return used_bytes;
}

EsStatus es_proof_worker_create(const EsProofPolicy *policy, int keeps,
                                EsProofWorker **worker_out) {
    *worker_out = NULL;
    EsProofWorker *worker = NULL;
    EsStatus status = ES_STATUS_OK;
    EsDeviceOptions options = {.n_threads = 1, .n_lanes = es_device_info(policy->device)->n_lanes};
    ES_TRY(es_allocate(sizeof *worker, (void **)&worker));
    worker->policy = policy;
    worker->keeps = keeps;
    ES_TRY_GOTO(es_device_open("cpu", &options, &worker->device));
    ES_TRY_GOTO(es_stream_create(worker->device, &worker->stream));
    worker->kernels = es_kernels_of(worker->device);
    ES_TRY_GOTO(es_allocate(lay_out(worker), &worker->slab));
    lay_out(worker);
    *worker_out = worker;
done:
    if (status != ES_STATUS_OK) {
        es_proof_worker_destroy(worker);
    }
    return status;
}

void es_proof_worker_destroy(EsProofWorker *worker) {
    if (worker != NULL) {
        es_release(worker->slab);
        es_stream_destroy(worker->stream);
        es_device_close(worker->device);
        es_release(worker);
    }
}

// --- embeddings ---

// to[] += the embedding of an atom
static void add_atom(const EsProofPolicy *policy, EsAtom atom, float *ES_RESTRICT to) {
    const float *parameters = es_proof_policy_parameters(policy);
    const float *p = parameters + es_proof_policy_predicate(policy, atom.predicate);
    const float *h = parameters + es_proof_policy_term(policy, atom.a);
    const float *t = parameters + es_proof_policy_term(policy, atom.b);
    float sign = es_proof_policy_sign(policy);
    for (int e = 0; e < policy->settings.embed; e++) {
        to[e] += p[e] + sign * h[e] - t[e];
    }
}

// to[] += factor from[]
static void add_scaled(float *ES_RESTRICT to, const float *ES_RESTRICT from, float factor,
                       int64_t count) {
    for (int64_t e = 0; e < count; e++) {
        to[e] += factor * from[e];
    }
}

static void embed_state(const EsProofPolicy *policy, EsAtomSpan state, EsGoalSelection selection,
                        float *goal) {
    int E = policy->settings.embed;
    float *mean = goal + E, share = 1.0f / (float)state.count;
    memset(goal, 0, sizeof *goal * 2 * (size_t)E);
    int32_t selected = es_proof_select(policy->graph, state.atoms, state.count, selection);
    add_atom(policy, state.atoms[selected], goal);
    for (int32_t i = 0; i < state.count; i++) {
        if (i == selected) {
            add_scaled(mean, goal, 1.0f, E);
        } else {
            add_atom(policy, state.atoms[i], mean);
        }
    }
    for (int e = 0; e < E; e++) {
        mean[e] *= share;
    }
}

static void spread_atom(const EsProofPolicy *policy, EsAtom atom, const float *d_atom, float factor,
                        int64_t begin, int64_t count, float *gradient) {
    float *p = gradient + es_proof_policy_predicate(policy, atom.predicate) + begin;
    add_scaled(p, d_atom, factor, count);
    if (atom.a != 0) {
        add_scaled(gradient + es_proof_policy_term(policy, atom.a) + begin, d_atom,
                   factor * es_proof_policy_sign(policy), count);
    }
    if (atom.b != 0) {
        add_scaled(gradient + es_proof_policy_term(policy, atom.b) + begin, d_atom, -factor, count);
    }
}

void es_proof_policy_spread(const EsProofPolicy *policy, const EsProofRows *rows,
                            const float *d_input, int64_t begin, int64_t end, float *gradient) {
    int64_t E = policy->settings.embed, count = end - begin;
    for (int64_t n = 0; n < rows->count; n++) {
        EsAtomSpan state = es_proof_state(rows->states, rows->numbers[n]);
        const float *d_goal = d_input + n * 2 * E + begin, *d_mean = d_goal + E;
        float share = 1.0f / (float)state.count;
        int32_t selected =
            es_proof_select(policy->graph, state.atoms, state.count, rows->selection);
        spread_atom(policy, state.atoms[selected], d_goal, 1.0f, begin, count, gradient);
        for (int32_t i = 0; i < state.count; i++) {
            spread_atom(policy, state.atoms[i], d_mean, share, begin, count, gradient);
        }
    }
}

// --- layers ---

static void apply_linear(EsProofWorker *w, const EsProofLinear *linear, float *x, int64_t n,
                         float *y) {
    float *parameters = es_proof_policy_parameters(w->policy);
    EsTensor in = es_proof_view_rows(w, x, n, linear->n_in),
             out = es_proof_view_rows(w, y, n, linear->n_out);
    EsTensor weight = es_proof_view_weight(w, parameters, linear);
    EsTensor bias = es_proof_view_vector(w, parameters + linear->bias, linear->n_out);
    w->kernels->linear_forward(w->stream, &in, &weight, &bias, &out);
}

static void apply_relu(EsProofWorker *w, float *x, int64_t count) {
    EsTensor view = es_proof_view_vector(w, x, count);
    w->kernels->activation_forward(w->stream, ES_ACTIVATION_RELU, &view, &view);
}

// y = LayerNorm(ReLU(Linear(x)))
static void apply_layer(EsProofWorker *w, const EsProofLayer *layer, EsProofLayerMemory *memory,
                        float *x, int64_t n, float *y) {
    int64_t H = layer->linear.n_out;
    float *parameters = es_proof_policy_parameters(w->policy);
    apply_linear(w, &layer->linear, x, n, memory->active);
    apply_relu(w, memory->active, n * H);
    EsTensor active = es_proof_view_rows(w, memory->active, n, H),
             out = es_proof_view_rows(w, y, n, H);
    EsTensor gamma = es_proof_view_vector(w, parameters + layer->gamma, H);
    EsTensor beta = es_proof_view_vector(w, parameters + layer->beta, H);
    EsTensor mean = es_proof_view_vector(w, memory->mean, n);
    EsTensor inv_std = es_proof_view_vector(w, memory->inv_std, n);
    w->kernels->layernorm_forward(w->stream, (EsNormOptions){.epsilon = 1e-5f}, &active, &gamma,
                                  &beta, &mean, &inv_std, &out);
}

// The output stands in the last layer's x.
static void apply_body(EsProofWorker *w, EsProofPart part, int64_t first, int64_t n) {
    const EsProofLayer *body = w->policy->body[part];
    EsProofLayerMemory *memory = w->layer[part];
    int64_t E = w->policy->settings.embed, H = w->policy->settings.hidden;
    apply_layer(w, &body[0], &memory[0], w->input + first * 2 * E, n, memory[0].x);
    for (int l = 1; l <= w->policy->settings.layers; l++) {
        apply_layer(w, &body[l], &memory[l], memory[l - 1].x, n, w->branch);
        EsTensor x = es_proof_view_rows(w, memory[l - 1].x, n, H),
                 y = es_proof_view_rows(w, memory[l].x, n, H);
        EsTensor branch = es_proof_view_rows(w, w->branch, n, H);
        w->kernels->add(w->stream, &x, &branch, &y);
    }
}

static void apply_head(EsProofWorker *w, EsProofPart part, float *x, int64_t first, int64_t n) {
    const EsProofHead *head = &w->policy->head[part];
    EsProofHeadMemory *memory = &w->head[part];
    float *active = memory->active + first * head->first.n_out;
    apply_linear(w, &head->first, x, n, active);
    apply_relu(w, active, n * head->first.n_out);
    apply_linear(w, &head->last, active, n, memory->y + first * head->last.n_out);
}

// Encodings to length 1.
static void normalise(EsProofWorker *w, int64_t first, int64_t n) {
    int64_t E = w->policy->settings.embed;
    for (int64_t i = first; i < first + n; i++) {
        float *y = w->head[ES_PROOF_PART_POLICY].y + i * E;
        double length = sqrt(es_double_centred_dot(y, 0.0, y, 0.0, E));
        w->length[i] = w->policy->settings.l2 ? ES_MAX((float)length, ES_PROOF_SHORTEST) : 1.0f;
        for (int64_t e = 0; w->policy->settings.l2 && e < E; e++) {
            y[e] /= w->length[i];
        }
    }
}

void es_proof_worker_forward(EsProofWorker *w, const EsProofRows *rows) {
    const EsProofPolicySettings *s = &w->policy->settings;
    int64_t H = s->hidden, n_policy = rows->count - rows->first_policy;
    ES_ASSERT(rows->count <= ES_PROOF_ROWS && n_policy >= 0 && rows->n_value <= rows->count);
    int64_t start_ns = es_clock_ns();
    for (int64_t n = 0; n < rows->count; n++) {
        EsAtomSpan state = es_proof_state(rows->states, rows->numbers[n]);
        embed_state(w->policy, state, rows->selection, w->input + n * 2 * s->embed);
    }
    int64_t embedded_ns = es_clock_ns();
    w->embed_ns += embedded_ns - start_ns;
    // a shared body sees all rows, one of the policy's own only those it needs
    int64_t first = s->separate_value ? rows->first_policy : 0;
    float *x = w->layer[ES_PROOF_PART_POLICY][s->layers].x;
    if (rows->count > first) {
        apply_body(w, ES_PROOF_PART_POLICY, first, rows->count - first);
    }
    if (n_policy > 0) {
        apply_head(w, ES_PROOF_PART_POLICY, x + (rows->first_policy - first) * H,
                   rows->first_policy, n_policy);
        normalise(w, rows->first_policy, n_policy);
    }
    if (rows->n_value > 0) {
        if (s->separate_value) {
            apply_body(w, ES_PROOF_PART_VALUE, 0, rows->n_value);
            x = w->layer[ES_PROOF_PART_VALUE][s->layers].x;
        }
        apply_head(w, ES_PROOF_PART_VALUE, x, 0, rows->n_value);
    }
    w->layer_ns += es_clock_ns() - embedded_ns;
}
