// The random policy: an operation drawn uniformly from the legal ones, then every head that matters
// to it, uniformly from its legal values.
//
// Draws are numbers of (seed, episode, ACTION, step, head), so that an environment's choices do not
// depend on the others.
#ifndef ES_CONTROL_UNIFORM_RULES_H
#define ES_CONTROL_UNIFORM_RULES_H

#include "base/random_rules.h"
#include "growth/rules/mask_rules.h"

// Where the draws of one decision come from.
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

#endif
