// The graph of policy version 2: slots as a set. One encoder reads every slot; the mean and the
// maximum of the encodings, beside the host's own features, feed the recurrent core; the slot head
// scores every slot by its encoding and the core, and the other heads read the encoding of the slot
// that was drawn and have a last layer for each operation. The number of parameters does not depend
// on the number of slots.
//
// Acting gives the table of sampling_rules.h, training the logits given what was drawn; both
// are the same sums: core(z) + slot(e), then a ReLU and the last layer.
//
// G shards, T steps, N environments of a shard, S slots, F features, K features of an encoding, H
// hidden units.
#include <stdio.h>

#include "control/policy/policy_network_internal.h"
#include "control/rules/sampling_rules.h"
#include "growth/rules/growth_names.h"

int64_t es_policy_set_count(const EsPolicySpec *spec) {
    int64_t H = spec->n_hidden, F = spec->n_features, K = es_policy_spec_encoding(spec);
    int64_t count = (int64_t)ES_OBSERVATION_BLUEPRINTS * ES_POLICY_EMBEDDING_WIDTH;
    count += es_count_linear(ES_SET_OBSERVATION_HOST, F) + 2 * F;
    count += es_count_linear(ES_SET_OBSERVATION_SLOT + ES_POLICY_EMBEDDING_WIDTH, K) + 2 * K;
    count += es_count_linear(K, K);
    count += es_count_linear(F + 2 * K, H) + 2 * H;
    count += 2 * (4 * H * H + 4 * H) + 2 * H;
    for (int32_t head = 0; head < ES_HEAD_OP; head++) {
        int64_t n_out = (int64_t)es_head_variants(head) * es_slot_logits(head);
        count += es_count_linear(H, H / 2) + K * (H / 2) + es_count_linear(H / 2, n_out);
    }
    count += es_count_linear(H, H / 2) + es_count_linear(H / 2, ES_N_GROWTH_OPS);
    count += es_count_value(H, H) + es_count_value(H + ES_N_GROWTH_OPS, H);
    return count + es_count_linear(H, H / 2) + K * (H / 2) + 2 * (H / 2) +
           es_count_linear(H / 2, H / 4) + es_count_linear(H / 4, 1);
}

static int64_t count_rows(const EsPolicyGraph *p) { return p->size.n_steps * p->size.n_rows; }

// e = ReLU(W ReLU(LN(W [slot; embedding of its blueprint]))), rows of all slots [T N S, K]
static EsSignal build_encodings(EsPolicyGraph *p, const EsPolicySpec *spec) {
    EsGraph *graph = p->graph;
    int64_t n_slots = count_rows(p) * spec->n_slots, K = es_policy_spec_encoding(spec);
    p->slots = es_graph_input(graph, "slots", ES_DTYPE_F32, 2,
                              (int64_t[]){n_slots, ES_SET_OBSERVATION_SLOT});
    p->blueprints = es_graph_input(graph, "blueprints", ES_DTYPE_I32, 1, &n_slots);
    EsValueId embedded = es_graph_embedding_normal(
        graph, "blueprint_embedding", p->blueprints, ES_OBSERVATION_BLUEPRINTS,
        ES_POLICY_EMBEDDING_WIDTH, ES_POLICY_EMBEDDING_SPREAD);
    EsValueId both = es_graph_concat(graph, 2, (EsValueId[]){p->slots, embedded});
    EsSignal e = {graph, both, ES_SET_OBSERVATION_SLOT + ES_POLICY_EMBEDDING_WIDTH, 0};
    return es_signal_rectify(es_signal_stack(e, "slot", 2, (int64_t[]){K, K}, 1, ES_GAIN_LAYER));
}

// x = ReLU(LN(W [host; mean of e; maximum of e])). Rows of training may come from hosts with fewer
// slots: those that a row lacks are copies of its first slot, which leave the maximum as it is, and
// have a weight of 0 in the mean.
static EsSignal build_core_input(EsPolicyGraph *p, const EsPolicySpec *spec, EsSignal e) {
    EsGraph *graph = p->graph;
    int64_t n_rows = count_rows(p), S = spec->n_slots, K = e.width, F = spec->n_features;
    p->features = es_graph_input(graph, "features", ES_DTYPE_F32, 2,
                                 (int64_t[]){n_rows, ES_SET_OBSERVATION_HOST});
    EsSignal host = {graph, p->features, ES_SET_OBSERVATION_HOST, 0};
    host = es_signal_linear(host, "host", F, ES_GAIN_LAYER);
    host = es_signal_rectify(es_signal_normalise(host, "host_norm"));
    EsValueId sets = es_graph_reshape(graph, e.value, 3, (int64_t[]){n_rows, S, K});
    EsValueId mean = ES_NO_VALUE;
    if (p->size.is_training) {
        p->share = es_graph_input(graph, "share", ES_DTYPE_F32, 2, (int64_t[]){n_rows, S});
        mean = es_graph_set_sum(graph, sets, p->share, 1.0f);
    } else {
        mean = es_graph_set_sum(graph, sets, ES_NO_VALUE, 1.0f / (float)S);
    }
    const EsValueId parts[] = {host.value, mean, es_graph_set_max(graph, sets)};
    EsSignal x = {graph, es_graph_concat(graph, 3, parts), F + 2 * K, 0};
    x = es_signal_linear(x, "feature", spec->n_hidden, ES_GAIN_LAYER);
    return es_signal_rectify(es_signal_normalise(x, "feature_norm"));
}

// W z + b + W e: z has a row for each decision, e one for each of its n_members slots.
static EsSignal join(EsSignal z, EsSignal e, const char *name, int64_t n_out, int64_t n_members) {
    char core[ES_NAME_BYTES], own[ES_NAME_BYTES];
    EsGraph *graph = z.graph;
    snprintf(core, sizeof core, "%s.core", name);
    snprintf(own, sizeof own, "%s.slot", name);
    z = es_signal_linear(z, core, n_out, ES_GAIN_LAYER);
    e = es_signal_product(e, own, n_out, ES_GAIN_LAYER);
    if (e.is_declared || es_graph_status(graph) != ES_STATUS_OK) {
        return e;
    }
    if (n_members > 1) {
        int64_t n_rows = graph->values[e.value].dim[1];
        z.value = es_signal_reshape(graph, es_graph_set_broadcast(graph, z.value, n_members),
                                    n_rows, n_out);
    }
    e.value = es_graph_add(graph, z.value, e.value);
    return e;
}

// One of the variants [R, V n] of a head, by the operation that was drawn: [R, n].
static EsValueId choose_variant(EsPolicyGraph *p, int32_t head, EsValueId x, int64_t n_rows) {
    int64_t V = es_head_variants(head), n = es_slot_logits(head);
    if (V == 1) {
        return x;
    }
    char name[ES_NAME_BYTES];
    snprintf(name, sizeof name, "variant.%s", es_head_name(head));
    p->variant[head] = es_graph_input(p->graph, name, ES_DTYPE_F32, 2, (int64_t[]){n_rows, V});
    EsValueId sets = es_graph_reshape(p->graph, x, 3, (int64_t[]){n_rows, V, n});
    return es_graph_set_sum(p->graph, sets, p->variant[head], 1.0f);
}

// The head's logits: of acting all variants of all slots [T N S, V n], of training those that were
// read [T N, size of the head].
static EsValueId build_head(EsPolicyGraph *p, const EsPolicySpec *spec, int32_t head, EsSignal z,
                            EsSignal each, EsSignal chosen) {
    int64_t S = spec->n_slots, n_rows = count_rows(p);
    int points = head == ES_HEAD_SLOT, is_each = points || !p->size.is_training;
    int64_t n_out = (int64_t)es_head_variants(head) * es_slot_logits(head);
    char name[ES_NAME_BYTES / 2], last[ES_NAME_BYTES - 8];
    snprintf(name, sizeof name, "head.%s", es_head_name(head));
    snprintf(last, sizeof last, "%s.linear1", name);
    EsSignal y = join(z, is_each ? each : chosen, name, spec->n_hidden / 2, is_each ? S : 1);
    y = es_signal_linear(es_signal_rectify(y), last, n_out, ES_GAIN_HEAD);
    if (!p->size.is_training) {
        return y.value;
    }
    EsValueId logits = choose_variant(p, head, y.value, points ? n_rows * S : n_rows);
    return points ? es_signal_reshape(p->graph, logits, n_rows, S) : logits;
}

static void build_heads(EsPolicyGraph *p, const EsPolicySpec *spec, EsSignal z, EsSignal e) {
    EsGraph *graph = p->graph;
    int64_t n_rows = count_rows(p), S = spec->n_slots, K = e.width;
    EsSignal chosen = e;
    if (p->size.is_training) {
        p->slot = es_graph_input(graph, "slot", ES_DTYPE_F32, 2, (int64_t[]){n_rows, S});
        EsValueId sets = es_graph_reshape(graph, e.value, 3, (int64_t[]){n_rows, S, K});
        chosen.value = es_graph_set_sum(graph, sets, p->slot, 1.0f);
    }
    EsValueId logits[ES_N_HEADS];
    for (int32_t head = 0; head < ES_HEAD_OP; head++) {
        logits[head] = build_head(p, spec, head, z, e, chosen);
    }
    EsSignal op = es_signal_stack(z, "head.op", 2, (int64_t[]){spec->n_hidden / 2, ES_N_GROWTH_OPS},
                                  0, ES_GAIN_HEAD);
    if (p->size.is_training) {
        logits[ES_HEAD_OP] = op.value;
        p->logits = es_graph_concat(graph, ES_N_HEADS, logits);
        return;
    }
    EsValueId table = es_graph_concat(graph, ES_HEAD_OP, logits);
    table = es_signal_reshape(graph, table, n_rows, S * es_slot_first_logit(ES_HEAD_OP));
    p->logits = es_graph_concat(graph, 2, (EsValueId[]){op.value, table});
}

// A prediction for every slot from its encoding and the core: LN, ReLU, dropout, two more layers.
static void build_contribution(EsPolicyGraph *p, const EsPolicySpec *spec, EsSignal z, EsSignal e) {
    EsGraph *graph = p->graph;
    int64_t H = spec->n_hidden, S = spec->n_slots;
    z.is_declared = e.is_declared = !p->size.is_training;
    if (p->size.is_training && spec->aux_stops) {
        z.value = es_graph_detach(graph, z.value);
        e.value = es_graph_detach(graph, e.value);
    }
    EsSignal x = join(z, e, "contribution", H / 2, S);
    x = es_signal_rectify(es_signal_normalise(x, "contribution.norm0"));
    x = es_policy_graph_dropout(p, spec, x);
    x = es_signal_rectify(es_signal_linear(x, "contribution.linear1", H / 4, ES_GAIN_LAYER));
    x = es_signal_linear(x, "contribution.linear2", 1, ES_GAIN_VALUE);
    p->contribution =
        x.is_declared ? ES_NO_VALUE : es_signal_reshape(graph, x.value, count_rows(p), S);
}

void es_policy_set_build(EsPolicyGraph *p, const EsPolicySpec *spec) {
    EsSignal e = build_encodings(p, spec);
    EsSignal z = es_policy_graph_recurrence(p, spec, build_core_input(p, spec, e));
    build_heads(p, spec, z, e);
    p->value = es_signal_value(z, "value", spec->n_hidden).value;
    es_policy_graph_action_value(p, spec, z);
    build_contribution(p, spec, z, e);
}
