// Draws of actions. The random policy draws an operation uniformly from the legal ones, then every
// head that matters to it, uniformly from its legal values.
//
// The learned policy goes from logits to an action: the operation is drawn first, then the heads
// that matter to it, each from its legal values; and the masks as a rollout keeps them.
//
// Probabilities are mixed with a floor (learning/choice_rules.h). Draws are numbers of (seed,
// episode, ACTION, step, head). Heads that do not matter keep their placeholders: they have
// probability 1 and entropy 0.
//
//     EsSampled sampled = es_policy_sample(logits, n_slots, &masks, floor, &key, is_greedy);
//     EsLegality legality = es_masks_legality(&masks, sampled op);
//
// A logits: those of the heads one after the other, in the order of EsHead.
#ifndef ES_CONTROL_SAMPLING_RULES_H
#define ES_CONTROL_SAMPLING_RULES_H

#include "base/random_rules.h"
#include "growth/rules/mask_rules.h"
#include "learning/choice_rules.h"

// --- the random policy ---

// Random key of one decision.
typedef struct EsActionKey {
    uint64_t seed;
    uint32_t episode, step;
} EsActionKey;

static inline ES_HOST_DEVICE uint32_t es_action_word(const EsActionKey *key, int32_t head) {
    return es_random_draw(key->seed, key->episode, ES_PURPOSE_ACTION, key->step, (uint32_t)head)
        .word[0];
}

// A set bit of a mask, all alike; 0 when there is none.
static inline ES_HOST_DEVICE int32_t es_uniform_bit(uint32_t mask, uint32_t word) {
    uint32_t n_legal = 0;
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        n_legal++;
    }
    uint32_t skip = es_random_below(word, n_legal);
    for (int32_t bit = 0; bit < 32; bit++) {
        if ((mask >> bit & 1u) != 0 && skip-- == 0) {
            return bit;
        }
    }
    return 0;
}

static inline ES_HOST_DEVICE EsAction es_uniform_action(const EsActionKey *key,
                                                        const EsActionMasks *masks) {
    EsAction action = es_action_wait();
    int32_t op = es_uniform_bit(masks->head[ES_HEAD_OP], es_action_word(key, ES_HEAD_OP));
    for (int32_t head = 0; head < ES_HEAD_OP; head++) {
        uint32_t word = es_action_word(key, head);
        action.head[head] = (int8_t)es_uniform_bit(es_masks_next(masks, &action, op, head), word);
    }
    action.head[ES_HEAD_OP] = (int8_t)op;
    return action;
}

// --- tables of logits ---

// Logits of policy version 2, for every operation and slot that may be drawn: a table.
//
// The operation is drawn first, then the slot given the operation, then the other heads given both.
// One pass through the network gives all of it: logits of the operation, and for each slot those of
// every head, once for each operation that reads the head (its *variants*, in the order of
// operations). Of the slot head a slot has its own score, one for each variant.
//
//     op [6] | slot 0: scores [5], blueprint [1, 13], style [2, 4], ... | slot 1: ... | ...
//
// A training pass, which knows what was drawn, has the logits of a plain policy instead.

// Operations that read the head; 1 for the operation itself.
static inline ES_HOST_DEVICE int32_t es_head_variants(int32_t head) {
    if (head == ES_HEAD_OP) {
        return 1;
    }
    int32_t n = 0;
    for (int32_t op = 0; op < ES_N_GROWTH_OPS; op++) {
        n += es_head_matters(op, head);
    }
    return n;
}

// Number of the operation among those that read the head; -1 when it does not.
static inline ES_HOST_DEVICE int32_t es_head_variant(int32_t head, int32_t op) {
    if (!es_head_matters(op, head)) {
        return -1;
    }
    int32_t n = 0;
    for (int32_t other = 0; head != ES_HEAD_OP && other < op; other++) {
        n += es_head_matters(other, head);
    }
    return n;
}

// Logits of one variant that a slot has: a score in the slot head, all values in the others.
static inline ES_HOST_DEVICE int32_t es_slot_logits(int32_t head) {
    return head == ES_HEAD_SLOT ? 1 : es_head_size(head, 1);
}

// Logits that a slot has in the heads before this one.
static inline ES_HOST_DEVICE int32_t es_slot_logits_before(int32_t head) {
    int32_t n = 0;
    for (int32_t h = 0; h < head; h++) {
        n += es_head_variants(h) * es_slot_logits(h);
    }
    return n;
}

// Index of a head's first logit among those of a slot; for ES_HEAD_OP their number. A constant for
// each head, so that no draw counts them.
static inline ES_HOST_DEVICE int32_t es_slot_first_logit(int32_t head) {
    switch (head) {
#define X(name, spelling, size, placeholder)                                                       \
    case ES_HEAD_##name:                                                                           \
        return es_slot_logits_before(ES_HEAD_##name);
        ES_HEAD_LIST(X)
#undef X
    default:
        return 0;
    }
}

static inline ES_HOST_DEVICE int32_t es_choice_table_size(int32_t n_slots) {
    return ES_N_GROWTH_OPS + es_slot_first_logit(ES_HEAD_OP) * n_slots;
}

// The logits of a head in a row of the table, given the operation and, for heads other than slot
// and operation, the slot. The head matters to the operation. Those of the slot head are gathered
// into `scores` [n_slots].
static inline ES_HOST_DEVICE const float *es_choice_table_logits(const float *table,
                                                                 int32_t n_slots, int32_t head,
                                                                 int32_t op, int32_t slot,
                                                                 float *scores) {
    int32_t width = es_slot_first_logit(ES_HEAD_OP), variant = es_head_variant(head, op);
    const float *slots = table + ES_N_GROWTH_OPS;
    if (head == ES_HEAD_OP) {
        return table;
    }
    if (head != ES_HEAD_SLOT) {
        return slots + width * slot + es_slot_first_logit(head) + variant * es_slot_logits(head);
    }
    for (int32_t s = 0; s < n_slots; s++) {
        scores[s] = slots[width * s + variant];
    }
    return scores;
}

// --- the learned policy ---

typedef struct EsSampled {
    EsAction action;
    float log_probability; // sum over the heads that matter to the operation
    float confidence;      // probability of the operation
    float entropy;         // of the op head, 0..1
} EsSampled;

// Index of a head's first logit; for ES_N_HEADS the number of logits.
static inline ES_HOST_DEVICE int32_t es_head_first_logit(int32_t head, int32_t n_slots) {
    int32_t first = 0;
    for (int32_t h = 0; h < head; h++) {
        first += es_head_size(h, n_slots);
    }
    return first;
}

// Logits to draw from: a row [A], or a table as above.
typedef struct EsLogits {
    const float *data;
    int32_t n_slots;
    int is_table;
} EsLogits;

// es_choice_probabilities, or what gives the same bits.
typedef int (*EsProbabilities)(const float *logits, int n, uint64_t mask, float floor, double *p);

// floor [ES_N_HEADS]. Greedy takes the most likely values.
static inline ES_HOST_DEVICE EsSampled es_policy_sample_by(EsProbabilities probabilities,
                                                           const EsLogits *logits,
                                                           const EsActionMasks *masks,
                                                           const float *floor,
                                                           const EsActionKey *key, int is_greedy) {
    EsSampled sampled;
    int32_t n_slots = logits->n_slots;
    double p[ES_SLOTS_MAX], sum = 0;
    float scores[ES_SLOTS_MAX];
    sampled.action = es_action_wait();
    sampled.confidence = 1;
    sampled.entropy = 0;
    // the operation first: the masks of the others depend on it
    for (int32_t i = 0; i < ES_N_HEADS; i++) {
        int32_t head = i == 0 ? (int32_t)ES_HEAD_OP : i - 1;
        int32_t op =
            i == 0 ? (int32_t)ES_GROWTH_OP_WAIT : es_action_value(&sampled.action, ES_HEAD_OP);
        if (i > 0 && !es_head_matters(op, head)) {
            continue;
        }
        uint32_t mask =
            i == 0 ? masks->head[ES_HEAD_OP] : es_masks_next(masks, &sampled.action, op, head);
        int32_t size = es_head_size(head, n_slots);
        const float *z =
            logits->is_table
                ? es_choice_table_logits(logits->data, n_slots, head, op,
                                         es_action_value(&sampled.action, ES_HEAD_SLOT), scores)
                : logits->data + es_head_first_logit(head, n_slots);
        int n_legal = probabilities(z, size, mask, floor[head], p);
        float u = es_random_uniform(es_action_word(key, head));
        int value = is_greedy ? es_choice_best(p, size, mask) : es_choice_draw(p, size, mask, u);
        sampled.action.head[head] = (int8_t)value;
        sum += es_choice_log_probability(p, value);
        if (i == 0) {
            sampled.confidence = (float)p[value];
            sampled.entropy = (float)es_choice_entropy(p, size, n_legal);
        }
    }
    sampled.log_probability = (float)sum;
    return sampled;
}

static inline ES_HOST_DEVICE EsSampled es_policy_sample_from(const EsLogits *logits,
                                                             const EsActionMasks *masks,
                                                             const float *floor,
                                                             const EsActionKey *key,
                                                             int is_greedy) {
    return es_policy_sample_by(es_choice_probabilities, logits, masks, floor, key, is_greedy);
}

// From a row of logits [A].
static inline ES_HOST_DEVICE EsSampled es_policy_sample(const float *logits, int32_t n_slots,
                                                        const EsActionMasks *masks,
                                                        const float *floor, const EsActionKey *key,
                                                        int is_greedy) {
    EsLogits row = {logits, n_slots, 0};
    return es_policy_sample_from(&row, masks, floor, key, is_greedy);
}

// The masks as a rollout keeps them.
typedef struct EsLegality {
    uint64_t mask[ES_N_HEADS]; // legal values of a head, if an operation that reads it is taken
    uint32_t used;             // heads that the sampled operation reads, as bits
    uint32_t available;        // heads that some legal operation reads, as bits
    int is_forced;             // WAIT is the only legal operation
} EsLegality;

// A slot depends on the operation. If the sampled one reads none: slots that any legal operation
// could act on, so that the head's entropy is over its real choices; the first slot alone when
// there is no such operation.
static inline ES_HOST_DEVICE EsLegality es_masks_legality(const EsActionMasks *masks, int32_t op) {
    EsLegality legality;
    uint32_t slots = 0;
    legality.used = (uint32_t)es_growth_op_heads(op);
    legality.available = 0;
    for (int32_t other = 0; other < ES_N_GROWTH_OPS; other++) {
        if ((masks->head[ES_HEAD_OP] >> other) & 1) {
            legality.available |= (uint32_t)es_growth_op_heads(other);
            slots |= other == ES_GROWTH_OP_WAIT ? 0u : masks->slot_by_op[other];
        }
    }
    for (int32_t head = 0; head < ES_N_HEADS; head++) {
        legality.mask[head] = masks->head[head];
    }
    if (es_head_matters(op, ES_HEAD_SLOT)) {
        slots = masks->slot_by_op[op];
    }
    legality.mask[ES_HEAD_SLOT] = slots != 0 ? slots : 1u;
    legality.is_forced = masks->head[ES_HEAD_OP] == 1u << ES_GROWTH_OP_WAIT;
    return legality;
}

#endif
