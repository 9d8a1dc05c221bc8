// The candidates of a question are listed, by the closure or by a search with free variables, and
// the prover finds the steps of each.
//
// A state of that search is the goals left to prove and, as its last cells, the arguments of the
// question, with predicate 0: no fact and no rule has that, so they stay to the end and collect the
// bindings. A state of these alone is an answer. Steps by facts cost nothing, steps by rules one;
// states are taken by their cost, so that each is reached first in the cheapest way.
#include "proof/search/answers.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "proof/search/goal_table.h"
#include "proof/search/proof_array.h"

// --- lists of atoms ---

// A list of atoms that grows; empty when nothing but `cells` is set.
typedef struct AtomList {
    int cells;     // of an atom: query_cells of the graph
    EsAtom *atoms; // owned                                                       (count x cells)
    int32_t count;
    int64_t capacity;
} AtomList;

static const EsAtom *list_at(const AtomList *list, int32_t i) {
    return list->atoms + (size_t)i * (size_t)list->cells;
}

// The atom has at least the cells of its predicate.
static EsStatus add_to_list(const EsKnowledgeGraph *graph, AtomList *list, const EsAtom *atom) {
    if (list->count == INT32_MAX) {
        return ES_FAIL(MEMORY, "more than %d atoms in one list", list->count);
    }
    int64_t used = (int64_t)list->count * list->cells;
    ES_TRY(es_proof_array_grow((void **)&list->atoms, sizeof *list->atoms, used, used + list->cells,
                               &list->capacity));
    EsAtom *to = list->atoms + used;
    memset(to, 0, (size_t)list->cells * sizeof *to);
    memcpy(to, atom, (size_t)es_kg_cells(graph, atom->predicate) * sizeof *to);
    list->count++;
    return ES_STATUS_OK;
}

// --- candidates by a search with free variables ---

#define ARGUMENTS_PREDICATE 0

typedef struct OpenSearch {
    const EsKnowledgeGraph *graph;
    EsKnowledgeGraph factual; // the same graph without rules; borrows all but its rule_start
    EsProofSettings settings;
    int32_t max_rules; // steps by rules
    int32_t max_states;
    int32_t n_arguments; // cells of them in a state
    EsGoalTable goals;
    EsSuccessors successors;
    AtomList *found;
    EsAnswersReport *report;
} OpenSearch;

// The goal with the fewest free arguments comes first, which is where a leftmost selection takes
// it; the arguments of the question stay last.
static EsAtomSpan put_goal_first(const OpenSearch *search, EsAtomSpan state, EsAtom *atoms) {
    int32_t n_goals = state.count - search->n_arguments;
    int32_t goal = es_proof_select(search->graph, state.atoms, n_goals, ES_GOAL_CONSTRAINED);
    int32_t end = goal + es_kg_cells(search->graph, state.atoms[goal].predicate), n = 0;
    for (int32_t i = goal; i < end; i++) {
        atoms[n++] = state.atoms[i];
    }
    for (int32_t i = 0; i < state.count; i++) {
        if (i < goal || i >= end) {
            atoms[n++] = state.atoms[i];
        }
    }
    return (EsAtomSpan){atoms, n};
}

// Keeps the successors of an expansion, reached with n_rules steps by rules.
static EsStatus keep_successors(OpenSearch *search, int32_t n_rules) {
    const EsSuccessors *successors = &search->successors;
    search->report->n_overlong += successors->n_overlong;
    ES_ASSERT(successors->n_overflow == 0);
    for (int32_t k = 0; k < successors->count && successors->outcome == ES_PROOF_OPEN; k++) {
        EsAtomSpan state = es_successor(successors, k);
        EsAtomSpan goals = {state.atoms, state.count - search->n_arguments};
        int32_t number;
        if (es_proof_may_end(search->graph, goals, search->max_rules - n_rules)) {
            ES_TRY(es_goal_table_add(&search->goals, state.atoms, state.count, successors->hash[k],
                                     &number));
        }
    }
    return ES_STATUS_OK;
}

// Resolve the goal of a state of cost n_rules against the facts, or against rules and facts.
static EsStatus expand(OpenSearch *search, int32_t number, int32_t n_rules, int with_rules) {
    EsAtom atoms[ES_PROOF_MAX_ATOMS];
    const EsAtom none = {0, 0, 0};
    EsAtomSpan state = es_goal_table_at(&search->goals, number);
    if (state.count == search->n_arguments) {
        return ES_STATUS_OK;
    }
    state = put_goal_first(search, state, atoms);
    es_proof_expand(with_rules ? search->graph : &search->factual, &search->settings, &none,
                    state.atoms, state.count, NULL, &search->successors);
    return keep_successors(search, n_rules + with_rules);
}

// All states of one cost, which begin at *begin: first resolved against facts, at the same cost,
// until nothing new comes, then all of these against rules; states that facts give are known by
// then and not taken for the work of a rule. *begin becomes the first state of the next cost.
static EsStatus take_level(OpenSearch *search, int32_t *begin, int32_t n_rules) {
    int32_t end = INT32_MAX, first = *begin;
    for (int pass = 0; pass <= (n_rules < search->max_rules); pass++) {
        for (int32_t i = first; i < ES_MIN(search->goals.count, end); i++) {
            if (search->goals.count > search->max_states) {
                search->report->is_full = 1;
                return ES_STATUS_OK;
            }
            ES_TRY(expand(search, i, n_rules, pass));
        }
        end = pass == 0 ? search->goals.count : end;
    }
    *begin = end;
    return ES_STATUS_OK;
}

// Put the goal into a state, and behind it its arguments once more, with the predicate that no fact
// has. The variables -1, -2, ... come in this order, so that they are C + 1, C + 2, ...
static int32_t write_first(OpenSearch *search, const EsAtom *form, EsAtom *state) {
    int32_t n_cells = es_kg_cells(search->graph, form->predicate);
    for (int32_t i = 0; i < n_cells; i++) {
        int32_t n_constants = search->graph->n_constants;
        EsAtom cell = {form[i].predicate, form[i].a >= 0 ? form[i].a : n_constants - form[i].a,
                       form[i].b >= 0 ? form[i].b : n_constants - form[i].b};
        state[i] = cell;
        state[n_cells + i] = (EsAtom){ARGUMENTS_PREDICATE, cell.a, cell.b};
    }
    search->n_arguments = n_cells;
    return 2 * n_cells;
}

static EsStatus search_all(OpenSearch *search, const EsAtom *form) {
    EsAtom first[2 * ES_ATOM_MAX_CELLS];
    int32_t number, n_first = write_first(search, form, first), begin = 0;
    ES_TRY(
        es_goal_table_add(&search->goals, first, n_first, es_proof_hash(first, n_first), &number));
    for (int32_t n_rules = 0; n_rules <= search->max_rules && !search->report->is_full; n_rules++) {
        ES_TRY(take_level(search, &begin, n_rules));
    }
    for (int32_t i = 0; i < search->goals.count; i++) {
        EsAtomSpan state = es_goal_table_at(&search->goals, i);
        EsWideAtom atom = {{{0, 0, 0}, {0, 0, 0}}};
        if (state.count == search->n_arguments) {
            memcpy(atom.cells, state.atoms, (size_t)state.count * sizeof(EsAtom));
            atom.cells[0].predicate = form->predicate;
            atom.cells[1].predicate = state.count == 2 ? ES_ATOM_MORE : 0;
            if (!es_kg_is_fact(search->graph, atom.cells)) {
                ES_TRY(add_to_list(search->graph, search->found, atom.cells));
            }
        }
    }
    return ES_STATUS_OK;
}

// Find the atoms of the form that are no facts and have a proof with at most max_depth steps by
// rules. The report says which limit was met, if any.
static EsStatus search_candidates(const EsKnowledgeGraph *graph, const EsProverSettings *settings,
                                  const EsAtom *form, AtomList *found, EsAnswersReport *report) {
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
    // the limit on atoms is for the goals of a ground atom, which are fewer: nothing is pruned
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
    report->n_states = search.goals.count;
done:
    es_release(search.factual.rule_start);
    es_successors_destroy(&search.successors);
    es_goal_table_destroy(&search.goals);
    return status;
}

// --- the answers ---

EsAnswersSettings es_answers_defaults(void) {
    return (EsAnswersSettings){.prover = es_prover_defaults(),
                               .closure_limit = ES_ANSWERS_CLOSURE_LIMIT};
}

// Sorted, each once.
static void make_distinct(AtomList *list) {
    int (*compare)(const void *, const void *) =
        list->cells == 2 ? es_wide_atom_compare : es_atom_compare;
    size_t cells = (size_t)list->cells;
    int32_t count = 0;
    if (list->count > 0) {
        qsort(list->atoms, (size_t)list->count, cells * sizeof *list->atoms, compare);
    }
    for (int32_t i = 0; i < list->count; i++) {
        if (count == 0 || compare(list_at(list, i), list_at(list, count - 1)) != 0) {
            memmove(list->atoms + (size_t)count++ * cells, list_at(list, i),
                    cells * sizeof *list->atoms);
        }
    }
    list->count = count;
}

static EsStatus list_wide_facts(const EsKnowledgeGraph *graph, const EsAtom *form,
                                AtomList *facts) {
    const EsWideFacts *wide = &graph->wide;
    for (int32_t i = wide->start[form->predicate]; i < wide->start[form->predicate + 1]; i++) {
        const EsAtom *fact = wide->atoms + 2 * (size_t)i;
        if (es_question_matches(graph, form, fact)) {
            ES_TRY(add_to_list(graph, facts, fact));
        }
    }
    return ES_STATUS_OK;
}

static EsStatus list_facts(const EsKnowledgeGraph *graph, const EsAtom *form, AtomList *facts) {
    if (es_kg_cells(graph, form->predicate) == 2) {
        return list_wide_facts(graph, form, facts);
    }
    EsAtomSpan span = form->a > 0   ? es_kg_facts_with_a(graph, form->predicate, form->a)
                      : form->b > 0 ? es_kg_facts_with_b(graph, form->predicate, form->b)
                                    : es_kg_facts_of(graph, form->predicate);
    for (int32_t i = 0; i < span.count; i++) {
        if (es_question_matches(graph, form, &span.atoms[i])) {
            ES_TRY(add_to_list(graph, facts, &span.atoms[i]));
        }
    }
    return ES_STATUS_OK;
}

// Atoms of the form that the rules add to the facts, if the closure fits its limit.
static EsStatus list_closure(const EsKnowledgeGraph *graph, const EsAnswersSettings *settings,
                             EsThreadPool *pool, const EsAtom *form, AtomList *derived,
                             EsAnswers *answers) {
    EsClosure *closure = NULL;
    if (settings->closure_limit == 0) {
        return ES_STATUS_OK;
    }
    const EsClosureSettings limits = {settings->closure_limit, settings->keeps_closure, pool};
    ES_TRY(es_closure_create_with(graph, &limits, &closure));
    EsStatus status = ES_STATUS_OK;
    answers->is_closure_known = closure->is_complete;
    int32_t end = closure->is_complete ? es_closure_count(closure, form->predicate) : 0;
    for (int32_t i = es_closure_count_facts(closure, form->predicate); i < end; i++) {
        EsWideAtom atom = es_closure_atom(closure, form->predicate, i);
        if (es_question_matches(graph, form, atom.cells)) {
            ES_TRY_GOTO(add_to_list(graph, derived, atom.cells));
        }
    }
    if (settings->keeps_closure && closure->is_complete) {
        answers->closure = closure;
        closure = NULL;
    }
done:
    es_closure_destroy(closure);
    return status;
}

static EsStatus list_candidates(const EsKnowledgeGraph *graph, const EsAnswersSettings *settings,
                                EsThreadPool *pool, const EsAtom *form, AtomList *derived,
                                EsAnswers *answers) {
    answers->method = ES_ANSWERS_CLOSURE;
    ES_TRY(list_closure(graph, settings, pool, form, derived, answers));
    if (!answers->is_closure_known) {
        answers->method = ES_ANSWERS_SEARCH;
        ES_TRY(search_candidates(graph, &settings->prover, form, derived, &answers->search));
    }
    make_distinct(derived);
    return ES_STATUS_OK;
}

static int compare_answers(const void *left, const void *right) {
    const EsAnswer *x = left, *y = right;
    if (x->n_steps != y->n_steps) {
        return x->n_steps < y->n_steps ? -1 : 1;
    }
    return es_wide_atom_compare(x->cells, y->cells);
}

static EsAnswer make_answer(const AtomList *list, int32_t i, int32_t n_steps) {
    EsAnswer answer = {.n_steps = n_steps};
    memcpy(answer.cells, list_at(list, i), (size_t)list->cells * sizeof(EsAtom));
    return answer;
}

// Puts facts, proved atoms and those of the closure into the answers, and counts those without a
// proof within the limits.
static EsStatus sort_out(const AtomList *facts, const AtomList *derived, const int32_t *depths,
                         EsAnswers *answers) {
    size_t most = (size_t)facts->count + (size_t)derived->count;
    ES_TRY(es_allocate(ES_MAX(most, 1) * sizeof *answers->items, (void **)&answers->items));
    for (int32_t i = 0; i < facts->count; i++) {
        answers->items[answers->count++] = make_answer(facts, i, 0);
    }
    for (int32_t i = 0; i < derived->count; i++) {
        if (depths[i] > 0 || answers->is_closure_known) {
            answers->items[answers->count++] =
                make_answer(derived, i, depths[i] > 0 ? depths[i] : ES_ANSWER_BEYOND);
        }
        answers->n_deeper += depths[i] == ES_KG_DEPTH_NONE;
        answers->n_undecided += depths[i] == ES_PROVER_DEPTH_UNKNOWN;
    }
    answers->is_complete =
        answers->is_closure_known ||
        (!answers->search.is_full && answers->search.n_overlong == 0 && answers->n_undecided == 0);
    qsort(answers->items, (size_t)answers->count, sizeof *answers->items, compare_answers);
    return ES_STATUS_OK;
}

// Answers a ground question: a fact or not, and the steps of a proof that does not use it.
static EsStatus answer_ground(const EsKnowledgeGraph *graph, const EsAnswersSettings *settings,
                              EsThreadPool *pool, const EsAtom *query, EsAnswers *answers) {
    EsProverReport report;
    int cells = graph->query_cells;
    AtomList none = {.cells = cells}, derived = {.cells = cells}, itself = {.cells = cells};
    int32_t depth;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(add_to_list(graph, &itself, query));
    ES_TRY_GOTO(
        es_prover_find_depths(graph, &settings->prover, pool, itself.atoms, 1, &depth, &report));
    answers->n_steps_otherwise = depth;
    if (es_kg_is_fact(graph, query)) {
        ES_TRY_GOTO(sort_out(&itself, &none, NULL, answers));
        goto done;
    }
    if (depth < 1) {
        ES_TRY_GOTO(list_closure(graph, settings, pool, query, &derived, answers));
    }
    // outside a known closure there is no proof at all, even if a limit was met
    int is_possible = !answers->is_closure_known || derived.count > 0;
    ES_TRY_GOTO(sort_out(&none, is_possible ? &itself : &none, &depth, answers));
    if (!answers->is_closure_known) {
        answers->n_deeper = 0;
    }
done:
    es_release(itself.atoms);
    es_release(derived.atoms);
    return status;
}

EsStatus es_answers_find(const EsKnowledgeGraph *graph, const EsAnswersSettings *settings,
                         EsThreadPool *pool, const EsAtom *form, EsAnswers *answers) {
    memset(answers, 0, sizeof *answers);
    ES_ASSERT(form->predicate >= 1 && form->predicate <= graph->n_predicates);
    answers->n_steps_otherwise = ES_KG_DEPTH_NONE;
    AtomList facts = {.cells = graph->query_cells}, derived = {.cells = graph->query_cells};
    EsProverReport report;
    void *depths = NULL;
    EsStatus status = ES_STATUS_OK;
    if (es_kg_is_ground(graph, form)) {
        ES_TRY_GOTO(answer_ground(graph, settings, pool, form, answers));
        goto done;
    }
    ES_TRY_GOTO(list_facts(graph, form, &facts));
    ES_TRY_GOTO(list_candidates(graph, settings, pool, form, &derived, answers));
    ES_TRY_GOTO(es_allocate((size_t)ES_MAX(derived.count, 1) * sizeof(int32_t), &depths));
    ES_TRY_GOTO(es_prover_find_depths(graph, &settings->prover, pool, derived.atoms, derived.count,
                                      depths, &report));
    ES_TRY_GOTO(sort_out(&facts, &derived, depths, answers));
done:
    es_release(facts.atoms);
    es_release(derived.atoms);
    es_release(depths);
    if (status != ES_STATUS_OK) {
        es_answers_destroy(answers);
    }
    return status;
}

void es_answers_destroy(EsAnswers *answers) {
    es_release(answers->items);
    es_closure_destroy(answers->closure);
    memset(answers, 0, sizeof *answers);
}
