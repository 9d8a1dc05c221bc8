// Candidates by a search with free variables.
//
// A state is what is left to prove and, as its last atom, the question itself, with predicate 0:
// there is no fact and no rule for that, so it stays to the end and collects the bindings. A state
// of that atom alone is an answer. Steps by facts cost nothing, steps by rules one; states are
// taken by their cost, so that each is reached first in the cheapest way.
#include <string.h>

#include "base/memory.h"
#include "proof/search/answers.h"
#include "proof/search/proof_states.h"

#define ANSWER_PREDICATE 0

typedef struct OpenSearch {
    const EsKnowledgeGraph *graph;
    EsKnowledgeGraph factual; // the same graph without rules; borrows all but its rule_start
    EsProofSettings settings;
    int32_t max_rules; // steps by rules
    int32_t max_states;
    EsProofStates states;
    EsSuccessors successors;
    EsAtomList *found;
    EsAnswersReport *report;
} OpenSearch;

// The goal with the fewest free arguments comes first, which is where a leftmost selection takes
// it; the question stays last.
static EsAtomSpan put_goal_first(const OpenSearch *search, EsAtomSpan state, EsAtom *atoms) {
    int32_t n_goals = state.count - 1;
    int32_t goal = es_proof_select(search->graph, state.atoms, n_goals, ES_GOAL_CONSTRAINED);
    int32_t n = 0;
    atoms[n++] = state.atoms[goal];
    for (int32_t i = 0; i < state.count; i++) {
        if (i != goal) {
            atoms[n++] = state.atoms[i];
        }
    }
    return (EsAtomSpan){atoms, n};
}

// Keep what an expansion gave, reached with n_rules steps by rules.
static EsStatus keep_successors(OpenSearch *search, int32_t n_rules) {
    const EsSuccessors *successors = &search->successors;
    search->report->n_overlong += successors->n_overlong;
    ES_ASSERT(successors->n_overflow == 0);
    for (int32_t k = 0; k < successors->count && successors->outcome == ES_PROOF_OPEN; k++) {
        EsAtomSpan state = es_successor(successors, k);
        EsAtomSpan goals = {state.atoms, state.count - 1};
        int32_t number;
        if (es_proof_may_end(search->graph, goals, search->max_rules - n_rules)) {
            ES_TRY(es_proof_states_add(&search->states, state.atoms, state.count,
                                       successors->hash[k], &number));
        }
    }
    return ES_STATUS_OK;
}

// Resolve the goal of a state of cost n_rules against the facts, or against rules and facts.
static EsStatus expand(OpenSearch *search, int32_t number, int32_t n_rules, int with_rules) {
    EsAtom atoms[ES_PROOF_MAX_ATOMS];
    const EsAtom none = {0, 0, 0};
    EsAtomSpan state = es_proof_state(&search->states, number);
    if (state.count == 1) {
        return ES_STATUS_OK;
    }
    state = put_goal_first(search, state, atoms);
    es_proof_expand(with_rules ? search->graph : &search->factual, &search->settings, none,
                    state.atoms, state.count, NULL, &search->successors);
    return keep_successors(search, n_rules + with_rules);
}

// All states of one cost, which begin at *begin: first what facts make of them at the same cost,
// until nothing new comes, then what rules make of all of these; what facts give is known by then
// and not taken for the work of a rule. *begin becomes the first state of the next cost.
static EsStatus take_level(OpenSearch *search, int32_t *begin, int32_t n_rules) {
    int32_t end = INT32_MAX, first = *begin;
    for (int pass = 0; pass <= (n_rules < search->max_rules); pass++) {
        for (int32_t i = first; i < ES_MIN(search->states.count, end); i++) {
            if (search->states.count > search->max_states) {
                search->report->is_full = 1;
                return ES_STATUS_OK;
            }
            ES_TRY(expand(search, i, n_rules, pass));
        }
        end = pass == 0 ? search->states.count : end;
    }
    *begin = end;
    return ES_STATUS_OK;
}

static EsStatus search_all(OpenSearch *search, EsAtom form) {
    int32_t n_constants = search->graph->n_constants, number;
    // the variables -1 and -2 come in this order, so that they are C + 1 and C + 2 in a state
    EsAtom goal = {form.predicate, form.a > 0 ? form.a : n_constants - form.a,
                   form.b > 0 ? form.b : n_constants - form.b};
    EsAtom first[2] = {goal, {ANSWER_PREDICATE, goal.a, goal.b}};
    EsAtomSpan state = {first, 2};
    ES_TRY(es_proof_states_add(&search->states, first, 2, es_proof_hash(first, 2), &number));
    int32_t begin = 0;
    for (int32_t n_rules = 0; n_rules <= search->max_rules && !search->report->is_full; n_rules++) {
        ES_TRY(take_level(search, &begin, n_rules));
    }
    for (int32_t i = 0; i < search->states.count; i++) {
        state = es_proof_state(&search->states, i);
        EsAtom atom = {form.predicate, state.atoms[0].a, state.atoms[0].b};
        if (state.count == 1 && !es_kg_has_fact(search->graph, atom)) {
            ES_TRY(es_atom_list_add(search->found, atom));
        }
    }
    return ES_STATUS_OK;
}

EsStatus es_answers_search(const EsKnowledgeGraph *graph, const EsProverSettings *settings,
                           EsAtom form, EsAtomList *found, EsAnswersReport *report) {
    OpenSearch search;
    memset(&search, 0, sizeof search);
    search.graph = graph;
    search.factual = *graph;
    search.factual.rule_start = NULL;
    search.max_rules = settings->max_depth;
    search.max_states = settings->max_states;
    search.found = found;
    search.report = report;
    memset(report, 0, sizeof *report);
    // the limit on atoms is for what is left of a ground atom, which is less: nothing is pruned
    // while it is open
    search.settings = (EsProofSettings){.selection = ES_GOAL_LEFTMOST,
                                        .max_atoms = ES_PROOF_MAX_ATOMS,
                                        .max_states = ES_MAX(es_proof_max_candidates(graph), 2)};
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_allocate(((size_t)graph->n_predicates + 2) * sizeof(int32_t),
                            (void **)&search.factual.rule_start));
    ES_TRY_GOTO(
        es_successors_create(search.settings.max_states, ES_PROOF_MAX_ATOMS, &search.successors));
    ES_TRY_GOTO(search_all(&search, form));
    report->n_states = search.states.count;
done:
    es_release(search.factual.rule_start);
    es_successors_destroy(&search.successors);
    es_proof_states_destroy(&search.states);
    return status;
}
