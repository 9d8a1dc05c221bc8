// Guides and checks for tests of proof search.
#ifndef ES_TESTS_PROOF_SEARCH_CASE_H
#define ES_TESTS_PROOF_SEARCH_CASE_H

#include "es_test.h"
#include "proof/search/proof_search.h"
#include "proof/search/prover.h"

// A guide that prefers some successors by their hash: the same for a state wherever it stands.
// Its values are arbitrary, too, from -0.25 to 1, and NaN for terminal states, which have none.
typedef struct HashGuide {
    int32_t n_predicates;
    float end_preference; // of the action End
    int32_t n_calls, most_states;
    int32_t n_ends_valued; // terminal successors whose values were asked
    int is_broken;         // a state without successors, or a terminal one, was seen
} HashGuide;

static inline EsStatus score_by_hash(void *context, const EsProofChoices *choices,
                                     float *log_probability, float *value) {
    HashGuide *guide = context;
    guide->n_calls++;
    guide->most_states = ES_MAX(guide->most_states, choices->n_states);
    for (int32_t i = 0; i < choices->n_states; i++) {
        double sum = 0;
        int32_t begin = choices->first[i], end = choices->first[i + 1];
        guide->is_broken |= begin >= end || choices->states[i].count < 1 ||
                            choices->states[i].atoms[0].predicate > guide->n_predicates;
        for (int32_t k = begin; k < end; k++) {
            EsAtomSpan state = choices->successors[k];
            int is_end = state.atoms[0].predicate > guide->n_predicates;
            float preference =
                (float)(es_proof_hash(state.atoms, state.count) >> 40) * (6.0f / 16777216.0f);
            log_probability[k] = is_end ? guide->end_preference : preference;
            if (value != NULL) {
                float drawn = (float)(es_proof_hash(state.atoms, state.count) & 1023) / 819.2f;
                value[k] = is_end ? NAN : 1 - drawn;
                guide->n_ends_valued += is_end;
            }
            sum += exp((double)log_probability[k]);
        }
        for (int32_t k = begin; k < end; k++) {
            log_probability[k] -= (float)log(sum);
        }
    }
    return ES_STATUS_OK;
}

// Probability that the guide gives to the actions of a proof, taken one by one with the plain
// engine.
static inline double probability_of_actions(const EsKnowledgeGraph *graph,
                                            const EsProofSearchSettings *settings,
                                            const EsProofGuide *guide, EsAtom query,
                                            const int32_t *actions, int32_t n_actions) {
    EsAtom atoms[64 * ES_PROOF_MAX_ATOMS];
    int32_t n_atoms[64] = {1};
    uint64_t hash[64] = {es_proof_hash(&query, 1)};
    float log_probability[4096];
    EsAtomSpan spans[4096];
    EsSuccessors successors;
    double sum = 0;
    int32_t most = es_proof_max_candidates(graph) + 1;
    REQUIRE_OK(es_successors_create(most, settings->max_atoms, &successors));
    EsProofSettings listing = {.selection = settings->selection,
                               .max_atoms = settings->max_atoms,
                               .max_states = most,
                               .has_end = settings->has_end};
    atoms[0] = query;
    for (int32_t i = 0; i < n_actions; i++) {
        EsVisitedGoals visited = {atoms, n_atoms, hash, i + 1, ES_PROOF_MAX_ATOMS};
        EsAtomSpan state = {atoms + i * ES_PROOF_MAX_ATOMS, n_atoms[i]};
        es_proof_expand(graph, &listing, &query, state.atoms, state.count, &visited, &successors);
        int32_t first[2] = {0, successors.count};
        for (int32_t k = 0; k < successors.count; k++) {
            spans[k] = es_successor(&successors, k);
        }
        if (successors.outcome == ES_PROOF_OPEN) {
            EsProofChoices choices = {.states = &state,
                                      .first = first,
                                      .successors = spans,
                                      .n_states = 1,
                                      .selection = settings->selection};
            REQUIRE_OK(guide->score(guide->context, &choices, log_probability, NULL));
            sum += (double)log_probability[actions[i]];
        }
        EsAtomSpan next = spans[actions[i]];
        memcpy(atoms + (i + 1) * ES_PROOF_MAX_ATOMS, next.atoms,
               (size_t)next.count * sizeof *atoms);
        n_atoms[i + 1] = next.count;
        hash[i + 1] = successors.hash[actions[i]];
    }
    es_successors_destroy(&successors);
    return sum;
}

// A proof must replay; not with an action less, more or out of range.
static inline void expect_replays(const EsKnowledgeGraph *graph,
                                  const EsProofSearchSettings *settings, EsAtom query,
                                  const EsProofAnswer *answer) {
    EsProofOutcome outcome;
    int32_t actions[66] = {0};
    EXPECT(answer->depth >= 1 && answer->depth <= 64);
    memcpy(actions, answer->actions, (size_t)answer->depth * sizeof *actions);
    REQUIRE_OK(es_proof_replay(graph, settings, &query, actions, answer->depth, &outcome));
    EXPECT_EQ(outcome, ES_PROOF_PROVED);
    REQUIRE_OK(es_proof_replay(graph, settings, &query, actions, answer->depth - 1, &outcome));
    EXPECT_EQ(outcome, ES_PROOF_OPEN);
    REQUIRE_OK(es_proof_replay(graph, settings, &query, actions, answer->depth + 1, &outcome));
    EXPECT_EQ(outcome, ES_PROOF_FAILED);
    actions[answer->depth - 1] = 1;
    REQUIRE_OK(es_proof_replay(graph, settings, &query, actions, answer->depth, &outcome));
    EXPECT_EQ(outcome, ES_PROOF_FAILED);
    EXPECT(es_goals_equal(answer->path[0].atoms, &query, 1));
}

#endif
