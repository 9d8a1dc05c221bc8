// The policy network once more, in double precision and by plain loops, from its equations: what
// the graphs and kernels are compared with, and what finite differences are taken of.
//
//     x = ReLU(LN(W_f [obs; e(b_1); ...; e(b_S)] + b_f)), projected to H where F differs
//     i, f, g, o = W_ih x + b_ih + W_hh h + b_hh;  c' = f c + i g;  h' = o tanh(c')
//     z = LN(h') + x; every output reads z
//
// Version 2:
//
//     e_s = ReLU(W ReLU(LN(W [slot s; e(b_s)])))
//     x = ReLU(LN(W [ReLU(LN(W host)); mean e; max e]))
//     score of slot s, or values of a head given slot s, for op v: W_v ReLU(C z + D e_s)
//
// R rows (T x E), H hidden units, F features of the feature layer, A logits.
#ifndef ES_TESTS_CONTROL_POLICY_REFERENCE_H
#define ES_TESTS_CONTROL_POLICY_REFERENCE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/policy/policy_network.h"

typedef struct Lookups {
    double *known[1024];
    int n_known, next;
} Lookups;

typedef struct Reference {
    EsPolicySpec spec;
    const EsGraph *graph; // names and places of the parameters
    double *parameters;   // owned, as the store's one row
    // every row asks for the same parameters in the same order: the first one remembers them
    Lookups *lookups; // owned
    const EsRollout *rollout;
    int n_logits;
    double *z;      // owned [R, H]
    double *frozen; // owned [R, H]: what detached outputs read
    int is_frozen;  // keep `frozen` as it is; else it follows z
    double *logits, *value, *action_value, *contribution; // owned, filled by reference_forward
    double *encodings;                                    // owned [R, S, K]: of version 2,
    double *frozen_encodings; // owned: and those that detached outputs read
    const float *dropped;     // [R, H / 2] factors of the dropout, or NULL for none
} Reference;

static double *new_doubles(int64_t n) { return calloc((size_t)n, sizeof(double)); }

static Reference create_reference(EsPolicyNetwork *network, const EsRollout *rollout) {
    Reference r = {.spec = *es_policy_network_spec(network),
                   .graph = es_policy_network_graph(network),
                   .rollout = rollout};
    EsStore *store = es_policy_network_store(network);
    int64_t n = store->parameters.dim[1], R = rollout->n_rows, H = r.spec.n_hidden;
    r.n_logits = es_policy_spec_shape(&r.spec).n_logits;
    r.parameters = new_doubles(n);
    for (int64_t i = 0; i < n; i++) {
        r.parameters[i] = (double)((const float *)store->parameters.data)[i];
    }
    r.lookups = calloc(1, sizeof *r.lookups);
    r.z = new_doubles(R * H);
    r.frozen = new_doubles(R * H);
    r.encodings = new_doubles(R * r.spec.n_slots * es_policy_spec_encoding(&r.spec));
    r.frozen_encodings = new_doubles(R * r.spec.n_slots * es_policy_spec_encoding(&r.spec));
    r.logits = new_doubles(R * r.n_logits);
    r.value = new_doubles(R);
    r.action_value = new_doubles(R);
    r.contribution = new_doubles(R * r.spec.n_slots);
    return r;
}

static void destroy_reference(Reference *r) {
    double *const all[] = {r->parameters,      r->z,         r->frozen,       r->logits,
                           r->value,           r->encodings, r->action_value, r->contribution,
                           r->frozen_encodings};
    for (size_t i = 0; i < ES_COUNT_OF(all); i++) {
        free(all[i]);
    }
    free(r->lookups);
}

static double *reference_parameter(const Reference *r, const char *layer, const char *part) {
    Lookups *lookups = r->lookups;
    if (lookups->next < lookups->n_known) {
        return lookups->known[lookups->next++];
    }
    char name[ES_NAME_BYTES * 2];
    snprintf(name, sizeof name, "%s.%s", layer, part);
    EsValueId id = es_graph_find(r->graph, name);
    if (id == ES_NO_VALUE) {
        printf("no parameter %s\n", name);
        exit(1);
    }
    double *parameter = r->parameters + r->graph->values[id].slab_offset;
    ES_ASSERT(lookups->n_known < (int)ES_COUNT_OF(lookups->known));
    lookups->known[lookups->n_known++] = parameter;
    lookups->next = lookups->n_known;
    return parameter;
}

#define WIDEST 512

// y may be x
static void reference_linear(const Reference *r, const char *layer, const double *x, int64_t n_in,
                             int64_t n_out, double *y) {
    const double *weight = reference_parameter(r, layer, "weight");
    const double *bias = reference_parameter(r, layer, "bias");
    double result[WIDEST];
    for (int64_t o = 0; o < n_out; o++) {
        result[o] = bias[o];
        for (int64_t i = 0; i < n_in; i++) {
            result[o] += weight[o * n_in + i] * x[i];
        }
    }
    memcpy(y, result, (size_t)n_out * sizeof(double));
}

static void reference_norm(const Reference *r, const char *layer, double *x, int64_t n) {
    const double *gamma = reference_parameter(r, layer, "gamma");
    const double *beta = reference_parameter(r, layer, "beta");
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < n; i++) {
        mean += x[i] / (double)n;
    }
    for (int64_t i = 0; i < n; i++) {
        variance += (x[i] - mean) * (x[i] - mean) / (double)n;
    }
    for (int64_t i = 0; i < n; i++) {
        x[i] = (x[i] - mean) / sqrt(variance + (double)1e-5f) * gamma[i] + beta[i];
    }
}

static void reference_relu(double *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        x[i] = x[i] > 0 ? x[i] : 0;
    }
}

static double reference_sigmoid(double x) { return 1 / (1 + exp(-x)); }

static void reference_features(const Reference *r, int64_t row, double *x) {
    const EsPolicySpec *spec = &r->spec;
    int64_t S = spec->n_slots, D = es_observation_size(spec->n_slots), F = spec->n_features;
    const double *table = reference_parameter(r, "blueprint_embedding", "table");
    double all[WIDEST];
    for (int64_t i = 0; i < D; i++) {
        all[i] = (double)r->rollout->features[row * D + i];
    }
    for (int64_t s = 0; s < S; s++) {
        for (int64_t k = 0; k < 4; k++) {
            all[D + 4 * s + k] = table[r->rollout->ids[row * S + s] * 4 + k];
        }
    }
    reference_linear(r, "feature", all, D + 4 * S, F, x);
    reference_norm(r, "feature_norm", x, F);
    reference_relu(x, F);
    if (F != spec->n_hidden) {
        reference_linear(r, "projection", x, F, spec->n_hidden, x);
    }
}

// h and c are those of one environment and move on.
static void reference_cell(const Reference *r, const double *x, double *h, double *c) {
    int64_t H = r->spec.n_hidden;
    const double *w_x = reference_parameter(r, "lstm", "weight_ih");
    const double *w_h = reference_parameter(r, "lstm", "weight_hh");
    const double *b_x = reference_parameter(r, "lstm", "bias_ih");
    const double *b_h = reference_parameter(r, "lstm", "bias_hh");
    double gates[4 * WIDEST];
    for (int64_t q = 0; q < 4 * H; q++) {
        gates[q] = b_x[q] + b_h[q];
        for (int64_t k = 0; k < H; k++) {
            gates[q] += w_x[q * H + k] * x[k] + w_h[q * H + k] * h[k];
        }
    }
    for (int64_t k = 0; k < H; k++) {
        c[k] = reference_sigmoid(gates[H + k]) * c[k] +
               reference_sigmoid(gates[k]) * tanh(gates[2 * H + k]);
        h[k] = reference_sigmoid(gates[3 * H + k]) * tanh(c[k]);
    }
}

static double reference_value(const Reference *r, const char *name, const double *z, int64_t n) {
    int64_t H = r->spec.n_hidden;
    double x[WIDEST];
    char layer[ES_NAME_BYTES];
    memcpy(x, z, (size_t)n * sizeof(double));
    for (int i = 0; i < 4; i++) {
        int64_t n_in = i == 0 ? n : H >> i, n_out = i == 3 ? 1 : H >> (i + 1);
        snprintf(layer, sizeof layer, "%s.linear%d", name, i);
        reference_linear(r, layer, x, n_in, n_out, x);
        if (i < 2) {
            snprintf(layer, sizeof layer, "%s.norm%d", name, i);
            reference_norm(r, layer, x, n_out);
        }
        if (i < 3) {
            reference_relu(x, n_out);
        }
    }
    return x[0];
}

static void reference_heads(const Reference *r, const double *z, double *logits) {
    static const char *const names[] = {"slot",         "blueprint",   "style",       "tempo",
                                        "alpha_target", "alpha_speed", "alpha_curve", "op"};
    int64_t H = r->spec.n_hidden;
    const int64_t sizes[] = {r->spec.n_slots, 13, 4, 3, 3, 4, 5, 6};
    for (int head = 0; head < 8; head++) {
        double x[WIDEST];
        char layer[ES_NAME_BYTES];
        int64_t n = H;
        memcpy(x, z, (size_t)H * sizeof(double));
        int n_layers = head == 1 ? 3 : 2;
        for (int i = 0; i < n_layers; i++) {
            int64_t n_out = i == n_layers - 1 ? sizes[head] : head == 1 && i == 0 ? H : H / 2;
            snprintf(layer, sizeof layer, "head.%s.linear%d", names[head], i);
            reference_linear(r, layer, x, n, n_out, x);
            n = n_out;
            if (i < n_layers - 1) {
                reference_relu(x, n);
            }
        }
        memcpy(logits, x, (size_t)n * sizeof(double));
        logits += n;
    }
}

static void reference_contribution(const Reference *r, int64_t row, const double *z, double *y) {
    int64_t H = r->spec.n_hidden;
    double x[WIDEST];
    reference_linear(r, "contribution.linear0", z, H, H / 2, x);
    reference_norm(r, "contribution.norm0", x, H / 2);
    reference_relu(x, H / 2);
    for (int64_t i = 0; i < H / 2 && r->dropped != NULL; i++) {
        x[i] *= (double)r->dropped[row * (H / 2) + i];
    }
    reference_linear(r, "contribution.linear1", x, H / 2, H / 4, x);
    reference_relu(x, H / 4);
    reference_linear(r, "contribution.linear2", x, H / 4, r->spec.n_slots, y);
}

// --- version 2 ---

static void reference_product(const Reference *r, const char *layer, const double *x, int64_t n_in,
                              int64_t n_out, double *y) {
    const double *weight = reference_parameter(r, layer, "weight");
    for (int64_t o = 0; o < n_out; o++) {
        y[o] = 0;
        for (int64_t i = 0; i < n_in; i++) {
            y[o] += weight[o * n_in + i] * x[i];
        }
    }
}

static void reference_encode(const Reference *r, int64_t row, int64_t s, double *e) {
    int64_t S = r->spec.n_slots, D = 39 + 66 * S, K = es_policy_spec_encoding(&r->spec);
    const double *table = reference_parameter(r, "blueprint_embedding", "table");
    double x[70];
    for (int64_t i = 0; i < 66; i++) {
        x[i] = (double)r->rollout->features[row * D + 39 + 66 * s + i];
    }
    for (int64_t k = 0; k < 4; k++) {
        x[66 + k] = table[r->rollout->ids[row * S + s] * 4 + k];
    }
    reference_linear(r, "slot.linear0", x, 70, K, e);
    reference_norm(r, "slot.norm0", e, K);
    reference_relu(e, K);
    reference_linear(r, "slot.linear1", e, K, K, e);
    reference_relu(e, K);
}

static void reference_set_features(Reference *r, int64_t row, double *x) {
    int64_t S = r->spec.n_slots, D = 39 + 66 * S, F = r->spec.n_features;
    int64_t K = es_policy_spec_encoding(&r->spec);
    double *e = r->encodings + row * S * K, all[WIDEST];
    for (int64_t i = 0; i < 39; i++) {
        all[i] = (double)r->rollout->features[row * D + i];
    }
    reference_linear(r, "host", all, 39, F, all);
    reference_norm(r, "host_norm", all, F);
    reference_relu(all, F);
    for (int64_t s = 0; s < S; s++) {
        reference_encode(r, row, s, e + s * K);
    }
    for (int64_t k = 0; k < K; k++) {
        all[F + k] = 0;
        all[F + K + k] = e[k];
        for (int64_t s = 0; s < S; s++) {
            all[F + k] += e[s * K + k] / (double)S;
            all[F + K + k] = fmax(all[F + K + k], e[s * K + k]);
        }
    }
    reference_linear(r, "feature", all, F + 2 * K, r->spec.n_hidden, x);
    reference_norm(r, "feature_norm", x, r->spec.n_hidden);
    reference_relu(x, r->spec.n_hidden);
    if (!r->is_frozen) {
        memcpy(r->frozen_encodings + row * S * K, e, (size_t)(S * K) * sizeof(double));
    }
}

// C z + D e, H / 2 numbers.
static void reference_join(const Reference *r, const char *name, const double *z, const double *e,
                           double *y) {
    int64_t H = r->spec.n_hidden, K = es_policy_spec_encoding(&r->spec);
    double own[WIDEST];
    char layer[ES_NAME_BYTES];
    snprintf(layer, sizeof layer, "%s.core", name);
    reference_linear(r, layer, z, H, H / 2, y);
    snprintf(layer, sizeof layer, "%s.slot", name);
    reference_product(r, layer, e, K, H / 2, own);
    for (int64_t i = 0; i < H / 2; i++) {
        y[i] += own[i];
    }
}

// The operations that read each head, as the table of actions in docs/growing.md has them.
static const char *const reference_readers[] = {"12345", "1", "12", "1", "12", "23", "23"};

// Values of a head for slot s under an operation: those of the last layer's variant. 0 where the
// operation does not read it.
static void reference_choice(const Reference *r, int head, const double *z, const double *e, int op,
                             double *y) {
    static const char *const names[] = {"head.slot",       "head.blueprint",    "head.style",
                                        "head.tempo",      "head.alpha_target", "head.alpha_speed",
                                        "head.alpha_curve"};
    static const int64_t sizes[] = {1, 13, 4, 3, 3, 4, 5};
    const char *readers = reference_readers[head], *reader = strchr(readers, '0' + op);
    int64_t n = sizes[head], n_variants = (int64_t)strlen(readers);
    double x[WIDEST];
    char layer[ES_NAME_BYTES];
    reference_join(r, names[head], z, e, x);
    reference_relu(x, r->spec.n_hidden / 2);
    snprintf(layer, sizeof layer, "%s.linear1", names[head]);
    reference_linear(r, layer, x, r->spec.n_hidden / 2, n * n_variants, x);
    for (int64_t i = 0; i < n; i++) {
        // a head with one reader has its values under any operation
        y[i] = n_variants == 1 ? x[i] : reader != NULL ? x[(reader - readers) * n + i] : 0;
    }
}

static void reference_set_heads(const Reference *r, int64_t row, const double *z, double *logits) {
    int64_t S = r->spec.n_slots, K = es_policy_spec_encoding(&r->spec), H = r->spec.n_hidden;
    const double *e = r->encodings + row * S * K, none[WIDEST] = {0};
    const int sizes[] = {0, 13, 4, 3, 3, 4, 5};
    int op = r->rollout->action[row * 8 + 7], slot = r->rollout->action[row * 8];
    double x[WIDEST];
    for (int64_t s = 0; s < S; s++) {
        reference_choice(r, 0, z, e + s * K, op, &logits[s]);
    }
    logits += S;
    for (int head = 1; head < 7; head++) {
        reference_choice(r, head, z, op > 0 ? e + slot * K : none, op, logits);
        logits += sizes[head];
    }
    reference_linear(r, "head.op.linear0", z, H, H / 2, x);
    reference_relu(x, H / 2);
    reference_linear(r, "head.op.linear1", x, H / 2, 6, logits);
}

static void reference_set_contribution(const Reference *r, int64_t row, const double *z,
                                       double *y) {
    int64_t S = r->spec.n_slots, K = es_policy_spec_encoding(&r->spec), H = r->spec.n_hidden;
    const double *e = (r->spec.aux_stops ? r->frozen_encodings : r->encodings) + row * S * K;
    for (int64_t s = 0; s < S; s++) {
        double x[WIDEST];
        reference_join(r, "contribution", z, e + s * K, x);
        reference_norm(r, "contribution.norm0", x, H / 2);
        reference_relu(x, H / 2);
        reference_linear(r, "contribution.linear1", x, H / 2, H / 4, x);
        reference_relu(x, H / 4);
        reference_linear(r, "contribution.linear2", x, H / 4, 1, &y[s]);
    }
}

// --- both ---

static void reference_outputs(Reference *r, int64_t row) {
    int64_t H = r->spec.n_hidden;
    const double *z = r->z + row * H, *frozen = r->frozen + row * H;
    double with_op[WIDEST] = {0};
    memcpy(with_op, frozen, (size_t)H * sizeof(double));
    int op = r->rollout->action[row * 8 + 7];
    if (op >= 0 && op < 6) {
        with_op[H + op] = 1;
    }
    if (r->spec.is_set) {
        reference_set_heads(r, row, z, r->logits + row * r->n_logits);
    } else {
        reference_heads(r, z, r->logits + row * r->n_logits);
    }
    r->value[row] = reference_value(r, "value", z, H);
    r->action_value[row] = reference_value(r, "action_value", with_op, H + 6);
    (r->spec.is_set ? reference_set_contribution : reference_contribution)(
        r, row, r->spec.aux_stops ? frozen : z, r->contribution + row * r->spec.n_slots);
}

static void reference_forward(Reference *r) {
    int64_t T = r->rollout->shape.n_steps, E = r->rollout->shape.n_envs, H = r->spec.n_hidden;
    double *h = new_doubles(E * H), *c = new_doubles(E * H);
    for (int64_t row = 0; row < T * E; row++) {
        int64_t e = row % E;
        double x[WIDEST], normed[WIDEST];
        r->lookups->next = 0;
        if (r->rollout->is_reset[row]) {
            memset(h + e * H, 0, (size_t)H * sizeof(double));
            memset(c + e * H, 0, (size_t)H * sizeof(double));
        }
        if (r->spec.is_set) {
            reference_set_features(r, row, x);
        } else {
            reference_features(r, row, x);
        }
        reference_cell(r, x, h + e * H, c + e * H);
        memcpy(normed, h + e * H, (size_t)H * sizeof(double));
        reference_norm(r, "lstm_norm", normed, H);
        for (int64_t k = 0; k < H; k++) {
            r->z[row * H + k] = normed[k] + x[k];
        }
        if (!r->is_frozen) {
            memcpy(r->frozen + row * H, r->z + row * H, (size_t)H * sizeof(double));
        }
        reference_outputs(r, row);
    }
    free(h);
    free(c);
}

// <gradients, outputs> of a forward pass; NULL gradients count nothing.
static double reference_loss(Reference *r, const EsOutputs *gradients) {
    reference_forward(r);
    int64_t R = r->rollout->n_rows;
    const struct {
        const float *gradient;
        const double *output;
        int64_t count;
    } parts[] = {{gradients->logits, r->logits, R * r->n_logits},
                 {gradients->value, r->value, R},
                 {gradients->action_value, r->action_value, R},
                 {gradients->auxiliary, r->contribution, R * r->spec.n_slots}};
    double loss = 0;
    for (size_t p = 0; p < ES_COUNT_OF(parts); p++) {
        for (int64_t i = 0; i < parts[p].count && parts[p].gradient != NULL; i++) {
            loss += (double)parts[p].gradient[i] * parts[p].output[i];
        }
    }
    return loss;
}

#endif
