// A proof policy: its weights, declared by name in one slab, the forward and backward passes of one
// worker, and its settings and life. States are embedded one by one; from there on every layer is a
// kernel call over all rows of the batch. The value comes from the policy's body or, where it has
// one, its own.
//
// D width of embeddings, H of the body, n rows of a batch.
#include "proof/agent/proof_policy_network.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "kernels/ops/double_sums.h"

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
        int64_t n_in = l == 0 ? es_proof_policy_input(policy) : H;
        body[l].linear = declare_linear(policy, name, n_in, H, ES_INITIAL_UNIFORM, 0.0f);
        body[l].gamma = declare(policy, name, "gamma", 1, &H, ES_INITIAL_UNIFORM, 0.0f, 1.0f);
        body[l].beta = declare(policy, name, "beta", 1, &H, ES_INITIAL_UNIFORM, 0.0f, 0.0f);
    }
}

static int64_t declare_table(EsProofPolicy *policy, const char *name, int64_t n_rows) {
    return declare(policy, name, "weight", 2, (int64_t[]){n_rows, policy->settings.embed},
                   ES_INITIAL_NORMAL, 1.0f, 0.0f);
}

void es_proof_network_declare(EsProofPolicy *policy) {
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
    if (policy->features != NULL) {
        return;
    }
    policy->constants = declare_table(policy, "constants", policy->graph->n_constants + 1);
    policy->variables = declare_table(policy, "variables", 2 * ES_PROOF_MAX_ATOMS);
    policy->predicates =
        declare_table(policy, "predicates", es_proof_policy_predicate_rows(policy->graph));
}

void es_proof_network_clear_padding(EsProofPolicy *policy) {
    float *parameters = policy->store->parameters.data;
    size_t row_bytes = sizeof(float) * (size_t)policy->settings.embed;
    if (policy->features != NULL) {
        return;
    }
    memset(parameters + policy->constants, 0, row_bytes);
    memset(parameters + policy->predicates, 0, row_bytes);
}

// --- views for the kernels ---
//
// A tensor has no const data: the contract of a kernel says which operands it writes, and none of
// those is a parameter.

static EsTensor view_rows(const EsProofWorker *w, const float *data, int64_t n, int64_t width) {
    return es_tensor_view((float *)data, ES_DTYPE_F32, w->device, 3, (int64_t[]){1, n, width});
}

static EsTensor view_vector(const EsProofWorker *w, const float *data, int64_t width) {
    return es_tensor_view((float *)data, ES_DTYPE_F32, w->device, 2, (int64_t[]){1, width});
}

// The weight of a layer in a slab of parameters or gradients.
static EsTensor view_weight(const EsProofWorker *w, const float *slab,
                            const EsProofLinear *linear) {
    return view_rows(w, slab + linear->weight, linear->n_out, linear->n_in);
}

// --- memory ---

static float *take(EsProofWorker *w, size_t *used_bytes, int64_t count) {
    size_t offset = es_slab_add(used_bytes, sizeof(float) * (size_t)count);
    return w->slab == NULL ? NULL : (float *)((unsigned char *)w->slab + offset);
}

static void lay_out_body(EsProofWorker *w, EsProofLayerMemory *layer, size_t *used_bytes) {
    int64_t n = ES_PROOF_BATCH_STATES, H = w->policy->settings.hidden;
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
    int64_t n = ES_PROOF_BATCH_STATES, D = s->embed, H = s->hidden;
    int64_t n_input = es_proof_policy_input(w->policy);
    size_t used_bytes = 0;
    w->input = take(w, &used_bytes, n * n_input);
    lay_out_body(w, w->layer[ES_PROOF_TOWER_POLICY], &used_bytes);
    if (s->separate_value) {
        lay_out_body(w, w->layer[ES_PROOF_TOWER_VALUE], &used_bytes);
    }
    for (int tower = 0; tower < ES_PROOF_N_TOWERS; tower++) {
        w->head[tower].active = take(w, &used_bytes, n * H);
        w->head[tower].y = take(w, &used_bytes, n * (tower == ES_PROOF_TOWER_POLICY ? D : 1));
    }
    w->branch = take(w, &used_bytes, n * H);
    w->length = take(w, &used_bytes, n);
    if (w->keeps) {
        w->d_encoding = take(w, &used_bytes, n * D);
        w->d_x = take(w, &used_bytes, n * H);
        w->d_active = take(w, &used_bytes, n * H);
        w->d_in = take(w, &used_bytes, n * ES_MAX(H, n_input));
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
    ES_TRY(es_allocate(sizeof *worker, (void **)&worker));
    worker->policy = policy;
    worker->keeps = keeps;
    ES_TRY_GOTO(es_device_open_serial(policy->device, &worker->device));
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

// to[] += the embedding of an atom. A second cell has no predicate of its own, and every other
// column of its terms is negated, so that an argument counts by its place.
static void add_atom(const EsProofPolicy *policy, const EsAtom *atom, float *ES_RESTRICT to) {
    const float *parameters = es_proof_policy_parameters(policy);
    const float *p = parameters + es_proof_policy_predicate(policy, atom->predicate);
    const float *h = parameters + es_proof_policy_term(policy, atom->a);
    const float *t = parameters + es_proof_policy_term(policy, atom->b);
    float sign = es_proof_policy_sign(policy);
    for (int e = 0; e < policy->settings.embed; e++) {
        to[e] += p[e] + sign * h[e] - t[e];
    }
    if (es_kg_cells(policy->graph, atom->predicate) == 2) {
        h = parameters + es_proof_policy_term(policy, atom[1].a);
        t = parameters + es_proof_policy_term(policy, atom[1].b);
        for (int e = 0; e < policy->settings.embed; e++) {
            float more = sign * h[e] - t[e];
            to[e] += e % 2 == 0 ? more : -more;
        }
    }
}

// to[] += factor from[]
static void add_scaled(float *ES_RESTRICT to, const float *ES_RESTRICT from, float factor,
                       int64_t count) {
    for (int64_t e = 0; e < count; e++) {
        to[e] += factor * from[e];
    }
}

// Atoms of a state of n_cells.
static int32_t count_atoms(const EsKnowledgeGraph *graph, EsAtomSpan state) {
    int32_t n = 0;
    for (int32_t i = 0; i < state.count; i += es_kg_cells(graph, state.atoms[i].predicate)) {
        n++;
    }
    return n;
}

static void embed_state(const EsProofPolicy *policy, EsAtomSpan state, EsGoalSelection selection,
                        float *goal) {
    const EsKnowledgeGraph *graph = policy->graph;
    int D = policy->settings.embed;
    float *mean = goal + D;
    if (policy->features != NULL) {
        EsAtomSpan goals = {state.atoms, state.count - graph->query_cells};
        es_proof_features_describe(policy->features, goals, state.atoms + goals.count, selection,
                                   goal);
        return;
    }
    float share = 1.0f / (float)count_atoms(graph, state);
    memset(goal, 0, sizeof *goal * 2 * (size_t)D);
    int32_t selected = es_proof_select(graph, state.atoms, state.count, selection);
    add_atom(policy, &state.atoms[selected], goal);
    for (int32_t i = 0; i < state.count; i += es_kg_cells(graph, state.atoms[i].predicate)) {
        if (i == selected) {
            add_scaled(mean, goal, 1.0f, D);
        } else {
            add_atom(policy, &state.atoms[i], mean);
        }
    }
    for (int e = 0; e < D; e++) {
        mean[e] *= share;
    }
}

// to[] += factor from[] for columns from `begin` on, those of odd number negated
static void add_alternating(float *ES_RESTRICT to, const float *ES_RESTRICT from, float factor,
                            int64_t begin, int64_t count) {
    for (int64_t e = 0; e < count; e++) {
        to[e] += (begin + e) % 2 == 0 ? factor * from[e] : -factor * from[e];
    }
}

static void scatter_atom(const EsProofPolicy *policy, const EsAtom *atom, const float *d_atom,
                         float factor, int64_t begin, int64_t count, float *gradient) {
    float *p = gradient + es_proof_policy_predicate(policy, atom->predicate) + begin;
    float sign = es_proof_policy_sign(policy);
    add_scaled(p, d_atom, factor, count);
    if (atom->a != 0) {
        add_scaled(gradient + es_proof_policy_term(policy, atom->a) + begin, d_atom, factor * sign,
                   count);
    }
    if (atom->b != 0) {
        add_scaled(gradient + es_proof_policy_term(policy, atom->b) + begin, d_atom, -factor,
                   count);
    }
    if (es_kg_cells(policy->graph, atom->predicate) == 2) {
        add_alternating(gradient + es_proof_policy_term(policy, atom[1].a) + begin, d_atom,
                        factor * sign, begin, count);
        if (atom[1].b != 0) {
            add_alternating(gradient + es_proof_policy_term(policy, atom[1].b) + begin, d_atom,
                            -factor, begin, count);
        }
    }
}

void es_proof_network_scatter(const EsProofPolicy *policy, const EsProofBatch *batch,
                              const float *d_input, int64_t begin, int64_t end, float *gradient) {
    const EsKnowledgeGraph *graph = policy->graph;
    int64_t D = policy->settings.embed, count = end - begin;
    for (int64_t n = 0; n < batch->count; n++) {
        EsAtomSpan state = es_goal_table_at(batch->goals, batch->numbers[n]);
        const float *d_goal = d_input + n * 2 * D + begin, *d_mean = d_goal + D;
        float share = 1.0f / (float)count_atoms(graph, state);
        int32_t selected = es_proof_select(graph, state.atoms, state.count, batch->selection);
        scatter_atom(policy, &state.atoms[selected], d_goal, 1.0f, begin, count, gradient);
        for (int32_t i = 0; i < state.count; i += es_kg_cells(graph, state.atoms[i].predicate)) {
            scatter_atom(policy, &state.atoms[i], d_mean, share, begin, count, gradient);
        }
    }
}

// --- layers ---

static void linear_forward(EsProofWorker *w, const EsProofLinear *linear, float *x, int64_t n,
                           float *y) {
    const float *parameters = es_proof_policy_parameters(w->policy);
    EsTensor in = view_rows(w, x, n, linear->n_in), out = view_rows(w, y, n, linear->n_out);
    EsTensor weight = view_weight(w, parameters, linear);
    EsTensor bias = view_vector(w, parameters + linear->bias, linear->n_out);
    w->kernels->linear_forward(w->stream, &in, &weight, &bias, &out);
}

static void relu_forward(EsProofWorker *w, float *x, int64_t count) {
    EsTensor view = view_vector(w, x, count);
    w->kernels->activation_forward(w->stream, ES_ACTIVATION_RELU, &view, &view);
}

// y = LayerNorm(ReLU(Linear(x)))
static void layer_forward(EsProofWorker *w, const EsProofLayer *layer, EsProofLayerMemory *memory,
                          float *x, int64_t n, float *y) {
    int64_t H = layer->linear.n_out;
    const float *parameters = es_proof_policy_parameters(w->policy);
    linear_forward(w, &layer->linear, x, n, memory->active);
    relu_forward(w, memory->active, n * H);
    EsTensor active = view_rows(w, memory->active, n, H), out = view_rows(w, y, n, H);
    EsTensor gamma = view_vector(w, parameters + layer->gamma, H);
    EsTensor beta = view_vector(w, parameters + layer->beta, H);
    EsTensor mean = view_vector(w, memory->mean, n);
    EsTensor inv_std = view_vector(w, memory->inv_std, n);
    w->kernels->layernorm_forward(w->stream, (EsNormOptions){.epsilon = 1e-5f}, &active, &gamma,
                                  &beta, &mean, &inv_std, &out);
}

// The output stands in the last layer's x.
static void body_forward(EsProofWorker *w, EsProofTower tower, int64_t first, int64_t n) {
    const EsProofLayer *body = w->policy->body[tower];
    EsProofLayerMemory *memory = w->layer[tower];
    int64_t n_input = es_proof_policy_input(w->policy), H = w->policy->settings.hidden;
    layer_forward(w, &body[0], &memory[0], w->input + first * n_input, n, memory[0].x);
    for (int l = 1; l <= w->policy->settings.layers; l++) {
        layer_forward(w, &body[l], &memory[l], memory[l - 1].x, n, w->branch);
        EsTensor x = view_rows(w, memory[l - 1].x, n, H), y = view_rows(w, memory[l].x, n, H);
        EsTensor branch = view_rows(w, w->branch, n, H);
        w->kernels->add(w->stream, &x, &branch, &y);
    }
}

static void head_forward(EsProofWorker *w, EsProofTower tower, float *x, int64_t first, int64_t n) {
    const EsProofHead *head = &w->policy->head[tower];
    EsProofHeadMemory *memory = &w->head[tower];
    float *active = memory->active + first * head->first.n_out;
    linear_forward(w, &head->first, x, n, active);
    relu_forward(w, active, n * head->first.n_out);
    linear_forward(w, &head->last, active, n, memory->y + first * head->last.n_out);
}

// Encodings to length 1.
static void normalise(EsProofWorker *w, int64_t first, int64_t n) {
    int64_t D = w->policy->settings.embed;
    for (int64_t i = first; i < first + n; i++) {
        float *y = w->head[ES_PROOF_TOWER_POLICY].y + i * D;
        double length = sqrt(es_double_centred_dot(y, 0.0, y, 0.0, D));
        w->length[i] = w->policy->settings.l2 ? ES_MAX((float)length, ES_PROOF_SHORTEST) : 1.0f;
        for (int64_t e = 0; w->policy->settings.l2 && e < D; e++) {
            y[e] /= w->length[i];
        }
    }
}

void es_proof_worker_forward(EsProofWorker *w, const EsProofBatch *batch) {
    const EsProofPolicySettings *s = &w->policy->settings;
    int64_t H = s->hidden, n_policy = batch->count - batch->first_policy;
    ES_ASSERT(batch->count <= ES_PROOF_BATCH_STATES && n_policy >= 0 &&
              batch->n_value <= batch->count);
    int64_t start_ns = es_clock_ns();
    for (int64_t n = 0; n < batch->count; n++) {
        EsAtomSpan state = es_goal_table_at(batch->goals, batch->numbers[n]);
        embed_state(w->policy, state, batch->selection,
                    w->input + n * es_proof_policy_input(w->policy));
    }
    int64_t embedded_ns = es_clock_ns();
    w->embed_ns += embedded_ns - start_ns;
    // a shared body sees all rows, one of the policy's own only those it needs
    int64_t first = s->separate_value ? batch->first_policy : 0;
    float *x = w->layer[ES_PROOF_TOWER_POLICY][s->layers].x;
    if (batch->count > first) {
        body_forward(w, ES_PROOF_TOWER_POLICY, first, batch->count - first);
    }
    if (n_policy > 0) {
        head_forward(w, ES_PROOF_TOWER_POLICY, x + (batch->first_policy - first) * H,
                     batch->first_policy, n_policy);
        normalise(w, batch->first_policy, n_policy);
    }
    if (batch->n_value > 0) {
        if (s->separate_value) {
            body_forward(w, ES_PROOF_TOWER_VALUE, 0, batch->n_value);
            x = w->layer[ES_PROOF_TOWER_VALUE][s->layers].x;
        }
        head_forward(w, ES_PROOF_TOWER_VALUE, x, 0, batch->n_value);
    }
    w->layer_ns += es_clock_ns() - embedded_ns;
}

// --- backward ---

// x[] += y[]
static void add_onto(EsProofWorker *w, float *x, float *y, int64_t count) {
    EsTensor sum = view_vector(w, x, count), more = view_vector(w, y, count);
    w->kernels->add(w->stream, &sum, &more, &sum);
}

static void relu_backward(EsProofWorker *w, float *active, float *d_active, int64_t count) {
    EsTensor y = view_vector(w, active, count);
    EsTensor d = view_vector(w, d_active, count);
    w->kernels->activation_backward(w->stream, ES_ACTIVATION_RELU, &y, &d, &d);
}

// Gradients of weight and bias are added; d_x, where wanted, is replaced.
static void linear_backward(EsProofWorker *w, const EsProofLinear *linear, float *x, float *d_y,
                            int64_t n, float *gradient, float *d_x) {
    EsTensor in = view_rows(w, x, n, linear->n_in);
    EsTensor d_out = view_rows(w, d_y, n, linear->n_out);
    EsTensor d_weight = view_weight(w, gradient, linear);
    EsTensor weight = view_weight(w, es_proof_policy_parameters(w->policy), linear);
    EsTensor d_in = view_rows(w, d_x, n, linear->n_in);
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
static void normalise_backward(EsProofWorker *w, int64_t first, int64_t n, float *d_encoding) {
    int64_t D = w->policy->settings.embed;
    for (int64_t i = first; i < first + n; i++) {
        const float *y = w->head[ES_PROOF_TOWER_POLICY].y + i * D;
        float *d = d_encoding + i * D;
        int is_divided = w->length[i] > ES_PROOF_SHORTEST;
        float along = is_divided ? (float)es_double_centred_dot(y, 0.0, d, 0.0, D) : 0.0f;
        for (int64_t e = 0; e < D; e++) {
            d[e] = (d[e] - y[e] * along) / w->length[i];
        }
    }
}

// d_body, rows of the gradient of the body's output, += those from the head.
static void head_backward(EsProofWorker *w, EsProofTower tower, float *x, int64_t first, int64_t n,
                          float *d_y, float *gradient, float *d_body) {
    const EsProofHead *head = &w->policy->head[tower];
    int64_t H = head->first.n_out;
    float *active = w->head[tower].active + first * H;
    linear_backward(w, &head->last, active, d_y, n, gradient, w->d_active);
    relu_backward(w, active, w->d_active, n * H);
    linear_backward(w, &head->first, x, w->d_active, n, gradient, w->d_in);
    add_onto(w, d_body, w->d_in, n * head->first.n_in);
}

// From the gradient of a layer's output, w->d_x, to that of its input, w->d_in.
static void layer_backward(EsProofWorker *w, const EsProofLayer *layer, EsProofLayerMemory *memory,
                           float *x, int64_t n, float *gradient) {
    int64_t H = layer->linear.n_out;
    EsTensor active = view_rows(w, memory->active, n, H);
    EsTensor d_y = view_rows(w, w->d_x, n, H);
    EsTensor d_active = view_rows(w, w->d_active, n, H);
    EsTensor mean = view_vector(w, memory->mean, n);
    EsTensor inv_std = view_vector(w, memory->inv_std, n);
    EsTensor gamma = view_vector(w, es_proof_policy_parameters(w->policy) + layer->gamma, H);
    EsTensor d_gamma = view_vector(w, w->d_gamma, H);
    EsTensor d_beta = view_vector(w, w->d_beta, H);
    w->kernels->layernorm_backward(w->stream, &active, &mean, &inv_std, &gamma, &d_y, &d_active,
                                   &d_gamma, &d_beta);
    add_onto(w, gradient + layer->gamma, w->d_gamma, H);
    add_onto(w, gradient + layer->beta, w->d_beta, H);
    relu_backward(w, memory->active, w->d_active, n * H);
    linear_backward(w, &layer->linear, x, w->d_active, n, gradient, w->d_in);
}

// d_input, rows of the gradient of the embedded states, += the gradient that
// passes through a body from w->d_x.
static void body_backward(EsProofWorker *w, EsProofTower tower, int64_t first, int64_t n,
                          float *gradient, float *d_input) {
    const EsProofLayer *body = w->policy->body[tower];
    EsProofLayerMemory *memory = w->layer[tower];
    int64_t n_input = es_proof_policy_input(w->policy), H = w->policy->settings.hidden;
    for (int l = w->policy->settings.layers; l > 0; l--) {
        layer_backward(w, &body[l], &memory[l], memory[l - 1].x, n, gradient);
        add_onto(w, w->d_x, w->d_in, n * H);
    }
    layer_backward(w, &body[0], &memory[0], w->input + first * n_input, n, gradient);
    add_onto(w, d_input + first * n_input, w->d_in, n * n_input);
}

void es_proof_worker_backward(EsProofWorker *w, const EsProofBatch *batch, float *d_encoding,
                              const float *d_value, float *gradient, float *d_input) {
    const EsProofPolicySettings *s = &w->policy->settings;
    int64_t H = s->hidden, D = s->embed, n_policy = batch->count - batch->first_policy;
    int64_t first = s->separate_value ? batch->first_policy : 0;
    size_t body_bytes = sizeof(float) * (size_t)(batch->count * H);
    ES_ASSERT(w->keeps);
    memset(d_input, 0, sizeof *d_input * (size_t)(batch->count * es_proof_policy_input(w->policy)));
    memset(w->d_x, 0, body_bytes);
    // the value first: with a shared body its gradient waits in d_x for the policy's
    if (batch->n_value > 0) {
        EsProofTower tower = s->separate_value ? ES_PROOF_TOWER_VALUE : ES_PROOF_TOWER_POLICY;
        float *d_y = w->branch;
        memcpy(d_y, d_value, sizeof *d_y * (size_t)batch->n_value);
        head_backward(w, ES_PROOF_TOWER_VALUE, w->layer[tower][s->layers].x, 0, batch->n_value, d_y,
                      gradient, w->d_x);
        if (s->separate_value) {
            body_backward(w, ES_PROOF_TOWER_VALUE, 0, batch->n_value, gradient, d_input);
            memset(w->d_x, 0, body_bytes);
        }
    }
    if (n_policy > 0) {
        int64_t offset = (batch->first_policy - first) * H;
        if (s->l2) {
            normalise_backward(w, batch->first_policy, n_policy, d_encoding);
        }
        head_backward(w, ES_PROOF_TOWER_POLICY,
                      w->layer[ES_PROOF_TOWER_POLICY][s->layers].x + offset, batch->first_policy,
                      n_policy, d_encoding + batch->first_policy * D, gradient, w->d_x + offset);
    }
    if (batch->count > first) {
        body_backward(w, ES_PROOF_TOWER_POLICY, first, batch->count - first, gradient, d_input);
    }
}

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
