#include "proof/search/answers.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "proof/search/closure.h"
#include "proof/search/proof_array.h"

EsAnswersSettings es_answers_defaults(void) {
    return (EsAnswersSettings){.prover = es_prover_defaults(),
                               .closure_limit = ES_ANSWERS_CLOSURE_LIMIT};
}

EsStatus es_atom_list_add(EsAtomList *list, EsAtom atom) {
    if (list->count == INT32_MAX) {
        return ES_FAIL(MEMORY, "more than %d atoms in one list", list->count);
    }
    ES_TRY(es_proof_array_grow((void **)&list->atoms, sizeof *list->atoms, list->count,
                               (int64_t)list->count + 1, &list->capacity));
    list->atoms[list->count++] = atom;
    return ES_STATUS_OK;
}

// Sorted, each once.
static void make_distinct(EsAtomList *list) {
    int32_t count = 0;
    if (list->count > 0) {
        qsort(list->atoms, (size_t)list->count, sizeof *list->atoms, es_atom_compare);
    }
    for (int32_t i = 0; i < list->count; i++) {
        if (count == 0 || es_atom_compare(&list->atoms[i], &list->atoms[count - 1]) != 0) {
            list->atoms[count++] = list->atoms[i];
        }
    }
    list->count = count;
}

static EsStatus list_facts(const EsKnowledgeGraph *graph, EsAtom form, EsAtomList *facts) {
    EsAtomSpan span = form.a > 0   ? es_kg_facts_with_a(graph, form.predicate, form.a)
                      : form.b > 0 ? es_kg_facts_with_b(graph, form.predicate, form.b)
                                   : es_kg_facts_of(graph, form.predicate);
    for (int32_t i = 0; i < span.count; i++) {
        if (es_question_matches(form, span.atoms[i])) {
            ES_TRY(es_atom_list_add(facts, span.atoms[i]));
        }
    }
    return ES_STATUS_OK;
}

// Atoms of the form that the rules add to the facts, if the closure fits its limit.
static EsStatus list_closure(const EsKnowledgeGraph *graph, int32_t limit, EsAtom form,
                             EsAtomList *derived, int *is_complete) {
    EsClosure *closure = NULL;
    *is_complete = 0;
    if (limit == 0) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_closure_create(graph, limit, &closure));
    EsStatus status = ES_STATUS_OK;
    *is_complete = closure->is_complete;
    for (int32_t i = closure->n_facts; i < closure->count && closure->is_complete; i++) {
        if (es_question_matches(form, closure->atoms[i])) {
            ES_TRY_GOTO(es_atom_list_add(derived, closure->atoms[i]));
        }
    }
done:
    es_closure_destroy(closure);
    return status;
}

static EsStatus list_candidates(const EsKnowledgeGraph *graph, const EsAnswersSettings *settings,
                                EsAtom form, EsAtomList *derived, EsAnswers *answers) {
    answers->method = ES_ANSWERS_CLOSURE;
    ES_TRY(list_closure(graph, settings->closure_limit, form, derived, &answers->is_closure_known));
    if (!answers->is_closure_known) {
        answers->method = ES_ANSWERS_SEARCH;
        ES_TRY(es_answers_search(graph, &settings->prover, form, derived, &answers->search));
    }
    make_distinct(derived);
    return ES_STATUS_OK;
}

static int compare_answers(const void *left, const void *right) {
    const EsAnswer *x = left, *y = right;
    if (x->n_steps != y->n_steps) {
        return x->n_steps < y->n_steps ? -1 : 1;
    }
    return es_atom_compare(&x->atom, &y->atom);
}

// Put the facts and what has a proof into the answers, count the others.
static EsStatus sort_out(const EsAtomList *facts, const EsAtomList *derived, const int32_t *depths,
                         EsAnswers *answers) {
    size_t most = (size_t)facts->count + (size_t)derived->count;
    ES_TRY(es_allocate(ES_MAX(most, 1) * sizeof *answers->items, (void **)&answers->items));
    for (int32_t i = 0; i < facts->count; i++) {
        answers->items[answers->count++] = (EsAnswer){facts->atoms[i], 0};
    }
    for (int32_t i = 0; i < derived->count; i++) {
        if (depths[i] > 0) {
            answers->items[answers->count++] = (EsAnswer){derived->atoms[i], depths[i]};
        }
        answers->n_deeper += depths[i] == ES_KG_DEPTH_NONE;
        answers->n_undecided += depths[i] == ES_PROVER_DEPTH_UNKNOWN;
    }
    answers->is_complete =
        !answers->search.is_full && answers->search.n_overlong == 0 && answers->n_undecided == 0;
    qsort(answers->items, (size_t)answers->count, sizeof *answers->items, compare_answers);
    return ES_STATUS_OK;
}

// A ground question: a fact or not, and what a proof takes that does not use it.
static EsStatus answer_ground(const EsKnowledgeGraph *graph, const EsAnswersSettings *settings,
                              EsThreadPool *pool, EsAtom query, EsAnswers *answers) {
    EsProverReport report;
    EsAtomList none = {NULL, 0, 0}, derived = {NULL, 0, 0};
    EsAtomList itself = {&query, 1, 1};
    int32_t depth;
    ES_TRY(es_prover_find_depths(graph, &settings->prover, pool, &query, 1, &depth, &report));
    answers->n_steps_otherwise = depth;
    if (es_kg_has_fact(graph, query)) {
        return sort_out(&itself, &none, NULL, answers);
    }
    EsStatus status = ES_STATUS_OK;
    if (depth < 1) {
        ES_TRY_GOTO(list_closure(graph, settings->closure_limit, query, &derived,
                                 &answers->is_closure_known));
    }
    // outside of a closure that is known there is no proof at all, whatever limit was met
    int is_possible = !answers->is_closure_known || derived.count > 0;
    ES_TRY_GOTO(sort_out(&none, is_possible ? &itself : &none, &depth, answers));
    if (!answers->is_closure_known) {
        answers->n_deeper = 0;
    }
done:
    es_release(derived.atoms);
    return status;
}

EsStatus es_answers_find(const EsKnowledgeGraph *graph, const EsAnswersSettings *settings,
                         EsThreadPool *pool, EsAtom form, EsAnswers *answers) {
    memset(answers, 0, sizeof *answers);
    ES_ASSERT(form.predicate >= 1 && form.predicate <= graph->n_predicates);
    answers->n_steps_otherwise = ES_KG_DEPTH_NONE;
    EsAtomList facts = {NULL, 0, 0}, derived = {NULL, 0, 0};
    EsProverReport report;
    void *depths = NULL;
    EsStatus status = ES_STATUS_OK;
    if (form.a > 0 && form.b > 0) {
        ES_TRY_GOTO(answer_ground(graph, settings, pool, form, answers));
        goto done;
    }
    ES_TRY_GOTO(list_facts(graph, form, &facts));
    ES_TRY_GOTO(list_candidates(graph, settings, form, &derived, answers));
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
    memset(answers, 0, sizeof *answers);
}
