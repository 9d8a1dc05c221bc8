// A few proofs tried side by side, for tests of policies: a slot has a query, a state and its
// successors; a step moves every slot. A proof pays 1, everything else 0, and a new query follows.
//
//     Play *play = play_create(graph, n_slots, ES_GOAL_CONSTRAINED, seed);
//     EsProofChoices choices = play_choices(play);
//     play_step(play, action);        // then play->reward, is_done, is_proved per slot
#ifndef ES_TESTS_PROOF_PLAY_H
#define ES_TESTS_PROOF_PLAY_H

#include "base/random_rules.h"
#include "es_test.h"
#include "proof/agent/proof_policy_inference.h"
#include "proof/search/prover.h"

enum { PLAY_SLOTS_MAX = 64, PLAY_ATOMS = 6, PLAY_STATES = 64, PLAY_DEPTH = 6 };

typedef struct PlaySlot {
    EsAtom query, state[PLAY_ATOMS];
    int32_t n_atoms;
    EsSuccessors successors;
} PlaySlot;

typedef struct Play {
    const EsKnowledgeGraph *graph;
    EsProofSettings settings;
    uint64_t seed;
    int n_slots;
    PlaySlot slot[PLAY_SLOTS_MAX];
    EsProofTurn turn[PLAY_SLOTS_MAX];
    float reward[PLAY_SLOTS_MAX];
    uint8_t is_done[PLAY_SLOTS_MAX], is_proved[PLAY_SLOTS_MAX];
    EsAtomSpan states[PLAY_SLOTS_MAX], successors[PLAY_SLOTS_MAX * PLAY_STATES];
    int32_t first[PLAY_SLOTS_MAX + 1];
} Play;

static inline void play_expand(Play *play, int i) {
    PlaySlot *slot = &play->slot[i];
    es_proof_expand(play->graph, &play->settings, slot->query, slot->state, slot->n_atoms, NULL,
                    &slot->successors);
}

// The next query that some rule could prove.
static inline void play_begin_episode(Play *play, int i) {
    const EsQuerySplit *split = &play->graph->splits[ES_KG_SPLIT_TRAIN];
    for (uint32_t draw = 0;; draw++) {
        EsRandom4 random = es_random_draw(play->seed, play->turn[i].episode, ES_PURPOSE_DATA_ORDER,
                                          (uint32_t)i, draw);
        EsAtom query = split->atoms[es_random_below(random.word[0], (uint32_t)split->count)];
        int32_t n_rules = 0;
        es_kg_rules_of(play->graph, query.predicate, &n_rules);
        if (n_rules > 0) {
            play->slot[i].query = play->slot[i].state[0] = query;
            break;
        }
    }
    play->slot[i].n_atoms = 1;
    play->turn[i].step = 0;
    play_expand(play, i);
}

static inline Play *play_create(const EsKnowledgeGraph *graph, int n_slots,
                                EsGoalSelection selection, uint64_t seed) {
    Play *play = calloc(1, sizeof *play);
    play->graph = graph;
    play->settings = (EsProofSettings){
        .selection = selection, .max_atoms = PLAY_ATOMS, .max_states = PLAY_STATES, .has_end = 1};
    play->seed = seed;
    play->n_slots = n_slots;
    for (int i = 0; i < n_slots; i++) {
        play->turn[i].slot = (uint32_t)i;
        REQUIRE_OK(es_successors_create(PLAY_STATES, PLAY_ATOMS, &play->slot[i].successors));
        play_begin_episode(play, i);
    }
    return play;
}

static inline void play_destroy(Play *play) {
    for (int i = 0; i < play->n_slots; i++) {
        es_successors_destroy(&play->slot[i].successors);
    }
    free(play);
}

// Valid until the next step.
static inline EsProofChoices play_choices(Play *play) {
    int32_t n = 0;
    for (int i = 0; i < play->n_slots; i++) {
        const PlaySlot *slot = &play->slot[i];
        play->states[i] = (EsAtomSpan){slot->state, slot->n_atoms};
        play->first[i] = n;
        for (int32_t k = 0; k < slot->successors.count; k++) {
            play->successors[n++] = es_successor(&slot->successors, k);
        }
    }
    play->first[play->n_slots] = n;
    return (EsProofChoices){play->states, play->first, play->successors, play->n_slots,
                            play->settings.selection};
}

static inline void play_step(Play *play, const int32_t *action) {
    for (int i = 0; i < play->n_slots; i++) {
        PlaySlot *slot = &play->slot[i];
        EsAtomSpan next = es_successor(&slot->successors, action[i]);
        int32_t special = next.atoms[0].predicate - play->graph->n_predicates;
        play->is_proved[i] = special == ES_PROOF_PROVED;
        play->reward[i] = play->is_proved[i];
        play->turn[i].step++;
        play->is_done[i] = special > 0 || play->turn[i].step == PLAY_DEPTH;
        if (play->is_done[i]) {
            play->turn[i].episode++;
            play_begin_episode(play, i);
            continue;
        }
        memmove(slot->state, next.atoms, sizeof *next.atoms * (size_t)next.count);
        slot->n_atoms = next.count;
        play_expand(play, i);
    }
}

// A step by chance, without a policy.
static inline void play_step_randomly(Play *play) {
    int32_t action[PLAY_SLOTS_MAX];
    for (int i = 0; i < play->n_slots; i++) {
        EsRandom4 random = es_random_draw(play->seed, play->turn[i].episode, ES_PURPOSE_EVALUATION,
                                          play->turn[i].step, (uint32_t)i);
        action[i] =
            (int32_t)es_random_below(random.word[0], (uint32_t)play->slot[i].successors.count);
    }
    play_step(play, action);
}

#endif
