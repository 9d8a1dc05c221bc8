// The network of a proof policy in double, one state at a time, written from the formulas of
// proof_policy.h without its code. It reads the parameters by name.
#ifndef ES_TESTS_PROOF_POLICY_REFERENCE_H
#define ES_TESTS_PROOF_POLICY_REFERENCE_H

#include "es_test.h"
#include "proof/agent/proof_policy_network.h"

enum { REFERENCE_WIDTH_MAX = 512 };

typedef struct Reference {
    const EsProofPolicy *policy;
    double *parameters; // owned; a copy of the policy's slab
    int64_t count;
} Reference;

static inline Reference reference_create(const EsProofPolicy *policy) {
    Reference r = {.policy = policy, .count = policy->layout->n_parameters};
    r.parameters = malloc(sizeof(double) * (size_t)r.count);
    for (int64_t i = 0; i < r.count; i++) {
        r.parameters[i] = (double)((const float *)policy->store->parameters.data)[i];
    }
    return r;
}

static inline const double *reference_find(const Reference *r, const char *layer, int number,
                                           const char *part) {
    char name[ES_NAME_BYTES], suffix[16] = "";
    if (number >= 0) {
        snprintf(suffix, sizeof suffix, "%d", number);
    }
    snprintf(name, sizeof name, "%s%s.%s", layer, suffix, part);
    EsValueId id = es_graph_find(r->policy->layout, name);
    if (id == ES_NO_VALUE) {
        printf("no parameter %s\n", name);
        exit(1);
    }
    return r->parameters + r->policy->layout->values[id].slab_offset;
}

static inline void reference_linear(const Reference *r, const char *layer, int number,
                                    const double *x, int n_in, int n_out, double *y) {
    const double *weight = reference_find(r, layer, number, "weight");
    const double *bias = reference_find(r, layer, number, "bias");
    for (int o = 0; o < n_out; o++) {
        y[o] = bias[o];
        for (int i = 0; i < n_in; i++) {
            y[o] += weight[o * n_in + i] * x[i];
        }
    }
}

static inline void reference_relu(double *x, int n) {
    for (int i = 0; i < n; i++) {
        x[i] = x[i] > 0 ? x[i] : 0;
    }
}

static inline void reference_layer(const Reference *r, const char *layer, int number,
                                   const double *x, int n_in, int n_out, double *y) {
    const double *gamma = reference_find(r, layer, number, "gamma");
    const double *beta = reference_find(r, layer, number, "beta");
    double mean = 0, variance = 0;
    reference_linear(r, layer, number, x, n_in, n_out, y);
    reference_relu(y, n_out);
    for (int i = 0; i < n_out; i++) {
        mean += y[i] / n_out;
    }
    for (int i = 0; i < n_out; i++) {
        variance += (y[i] - mean) * (y[i] - mean) / n_out;
    }
    for (int i = 0; i < n_out; i++) {
        y[i] = (y[i] - mean) / sqrt(variance + 1e-5) * gamma[i] + beta[i];
    }
}

static inline double reference_term(const Reference *r, int32_t term, int e) {
    int n_constants = r->policy->graph->n_constants, E = r->policy->settings.embed;
    if (term == 0) {
        return 0;
    }
    return term <= n_constants
               ? reference_find(r, "constants", -1, "weight")[term * E + e]
               : reference_find(r, "variables", -1, "weight")[(term - n_constants - 1) * E + e];
}

// [goal, mean of all], or the features, which have a test of their own
static inline void reference_embed(const Reference *r, EsAtomSpan state, EsGoalSelection selection,
                                   double *x) {
    int E = r->policy->settings.embed, goal = 0;
    int is_transe = r->policy->settings.embedder == ES_PROOF_EMBEDDER_TRANSE;
    if (r->policy->settings.encoder == ES_PROOF_ENCODER_STRUCTURE) {
        float row[ES_PROOF_FEATURES];
        es_proof_features_describe(r->policy->features, state, &(EsAtom){0}, selection, row);
        for (int i = 0; i < ES_PROOF_FEATURES; i++) {
            x[i] = (double)row[i];
        }
        return;
    }
    const double *predicates = reference_find(r, "predicates", -1, "weight");
    for (int i = 1; i < state.count && selection == ES_GOAL_CONSTRAINED; i++) {
        int C = r->policy->graph->n_constants;
        int best = (state.atoms[goal].a > C) + (state.atoms[goal].b > C);
        goal = (state.atoms[i].a > C) + (state.atoms[i].b > C) < best ? i : goal;
    }
    for (int e = 0; e < E; e++) {
        x[e] = x[E + e] = 0;
        for (int i = 0; i < state.count; i++) {
            EsAtom atom = state.atoms[i];
            double h = reference_term(r, atom.a, e), t = reference_term(r, atom.b, e);
            double y = predicates[atom.predicate * E + e] + (is_transe ? h - t : -(h + t));
            x[e] = i == goal ? y : x[e];
            x[E + e] += y / state.count;
        }
    }
}

static inline void reference_body(const Reference *r, const char *name, const double *input,
                                  double *x) {
    int is_structure = r->policy->settings.encoder == ES_PROOF_ENCODER_STRUCTURE;
    int n_input = is_structure ? ES_PROOF_FEATURES : 2 * r->policy->settings.embed;
    int H = r->policy->settings.hidden;
    double y[REFERENCE_WIDTH_MAX];
    reference_layer(r, name, 0, input, n_input, H, x);
    for (int l = 1; l <= r->policy->settings.layers; l++) {
        reference_layer(r, name, l, x, H, H, y);
        for (int i = 0; i < H; i++) {
            x[i] += y[i];
        }
    }
}

static inline void reference_encode(const Reference *r, EsAtomSpan state, EsGoalSelection selection,
                                    double *u) {
    int E = r->policy->settings.embed, H = r->policy->settings.hidden;
    double input[2 * REFERENCE_WIDTH_MAX], x[REFERENCE_WIDTH_MAX], y[REFERENCE_WIDTH_MAX];
    double squares = 0;
    reference_embed(r, state, selection, input);
    reference_body(r, "body", input, x);
    reference_linear(r, "head", 0, x, H, H, y);
    reference_relu(y, H);
    reference_linear(r, "head", 1, y, H, E, u);
    for (int e = 0; e < E; e++) {
        squares += u[e] * u[e];
    }
    for (int e = 0; e < E && r->policy->settings.l2; e++) {
        u[e] /= fmax(sqrt(squares), 1e-3);
    }
}

static inline double reference_value(const Reference *r, EsAtomSpan state,
                                     EsGoalSelection selection) {
    int H = r->policy->settings.hidden;
    double input[2 * REFERENCE_WIDTH_MAX], x[REFERENCE_WIDTH_MAX], y[REFERENCE_WIDTH_MAX], value;
    reference_embed(r, state, selection, input);
    reference_body(r, r->policy->settings.separate_value ? "value_body" : "body", input, x);
    reference_linear(r, "value", 0, x, H, H, y);
    reference_relu(y, H);
    reference_linear(r, "value", 1, y, H, 1, &value);
    return value;
}

// of two encodings
static inline double reference_logit(const Reference *r, const double *u, const double *w) {
    double product = 0;
    for (int e = 0; e < r->policy->settings.embed; e++) {
        product += u[e] * w[e];
    }
    return product / (double)r->policy->settings.temperature;
}

#endif
