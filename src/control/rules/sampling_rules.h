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
    EsAction action;
    int32_t op = es_uniform_bit(masks->head[ES_HEAD_OP], es_action_word(key, ES_HEAD_OP));
    for (int32_t head = 0; head < ES_HEAD_OP; head++) {
        uint32_t word = es_action_word(key, head);
        action.head[head] = (int8_t)es_uniform_bit(es_masks_head(masks, op, head), word);
    }
    action.head[ES_HEAD_OP] = (int8_t)op;
    return action;
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

// logits [A], floor [ES_N_HEADS]. Greedy takes the most likely values.
static inline ES_HOST_DEVICE EsSampled es_policy_sample(const float *logits, int32_t n_slots,
                                                        const EsActionMasks *masks,
                                                        const float *floor, const EsActionKey *key,
                                                        int is_greedy) {
    EsSampled sampled;
    double p[ES_SLOTS_MAX], sum = 0;
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
        uint32_t mask = i == 0 ? masks->head[ES_HEAD_OP] : es_masks_head(masks, op, head);
        int32_t size = es_head_size(head, n_slots);
        const float *z = logits + es_head_first_logit(head, n_slots);
        int n_legal = es_choice_probabilities(z, size, mask, floor[head], p);
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
