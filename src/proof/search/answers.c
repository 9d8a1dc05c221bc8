// A question is parsed, its candidates are listed, by the closure or by a search with free
// variables, and the prover finds the steps of each.
//
// A state of that search is the goals left to prove and, as its last atom, the question itself,
// with predicate 0: no fact and no rule has that, so it stays to the end and collects the bindings.
// A state of that atom alone is an answer. Steps by facts cost nothing, steps by rules one; states
// are taken by their cost, so that each is reached first in the cheapest way.
#include "proof/search/answers.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/words.h"
#include "proof/graph/knowledge_text.h"
#include "proof/search/goal_table.h"
#include "proof/search/proof_array.h"

// --- the text of a question ---

typedef struct Reader {
    const char *text, *at;
} Reader;

typedef char Word[ES_KG_MAX_NAME_BYTES + 1];

#define FAIL_AT(reader, position, format, ...)                                                     \
    ES_FAIL(INPUT, "question, column %zu: " format, (size_t)((position) - (reader)->text) + 1,     \
            __VA_ARGS__)

static void skip_blanks(Reader *reader) { reader->at += strspn(reader->at, " \t\r\n"); }

static EsStatus take_byte(Reader *reader, char wanted, const char *where) {
    skip_blanks(reader);
    if (*reader->at != wanted) {
        EsExcerpt excerpt;
        return FAIL_AT(reader, reader->at, "%s where '%c' is expected %s",
                       *reader->at == '\0'
                           ? "the end"
                           : es_text_excerpt((EsPiece){reader->at, strlen(reader->at)}, excerpt),
                       wanted, where);
    }
    reader->at++;
    return ES_STATUS_OK;
}

// A name in quotes, or up to one of `ends`.
static EsStatus take_name(Reader *reader, const char *ends, const char *what, EsNameText *name) {
    skip_blanks(reader);
    const char *begin = reader->at;
    EsPiece rest = {begin, strlen(begin)};
    if (*begin == '"' || *begin == '\'') {
        if (!es_text_take_quoted(&rest, ends, name)) {
            return FAIL_AT(reader, begin, "the quote of the %s is never closed", what);
        }
        reader->at = rest.text;
    } else {
        size_t length = strcspn(begin, ends);
        reader->at += length;
        while (length > 0 && isspace((unsigned char)begin[length - 1])) {
            length--;
        }
        *name = es_name_text_bare((EsPiece){begin, length});
    }
    size_t bytes = es_name_text_copy(*name, NULL, 0);
    if (bytes == 0 || bytes > ES_KG_MAX_NAME_BYTES) {
        return FAIL_AT(reader, begin, "the %s has a name of %zu bytes, expected 1 to %d", what,
                       bytes, ES_KG_MAX_NAME_BYTES);
    }
    return ES_STATUS_OK;
}

static void copy_word(EsNameText name, Word word) {
    word[es_name_text_copy(name, word, sizeof(Word) - 1)] = '\0';
}

static EsStatus find_number(const Reader *reader, EsNameText name, const char *what,
                            const char *const *names, int32_t n_names, int32_t *number) {
    Word word;
    copy_word(name, word);
    EsSpelling spelling = es_spelling_begin(word);
    for (int32_t i = 1; i <= n_names; i++) {
        if (strcmp(names[i], word) == 0) {
            *number = i;
            return ES_STATUS_OK;
        }
        es_spelling_offer(&spelling, names[i]);
    }
    const char *nearest = es_spelling_suggestion(&spelling);
    EsExcerpt excerpt;
    EsPiece piece = name.inside;
    es_text_excerpt(piece, excerpt);
    return nearest != NULL ? FAIL_AT(reader, piece.text, "unknown %s %s; did you mean \"%.100s\"?",
                                     what, excerpt, nearest)
                           : FAIL_AT(reader, piece.text, "unknown %s %s", what, excerpt);
}

static EsStatus number_argument(const EsKnowledgeGraph *graph, const Reader *reader,
                                EsNameText name, EsQuestion *question, int32_t *term) {
    EsPiece piece = name.inside;
    char first = piece.text[0];
    if (name.is_quoted || !(isupper((unsigned char)first) || first == '_' || first == '?')) {
        return find_number(reader, name, "constant", graph->constant_names, graph->n_constants,
                           term);
    }
    int is_nameless = piece.bytes == 1 && first == '_';
    if (question->n_variables == 1 && !is_nameless &&
        es_piece_equals(question->variables[0], piece)) {
        *term = -1;
        return ES_STATUS_OK;
    }
    question->variables[question->n_variables++] = piece;
    *term = -question->n_variables;
    Word word;
    copy_word(name, word);
    int32_t shadowed = es_kg_constant(graph, word);
    question->shadowed = shadowed != 0 ? shadowed : question->shadowed;
    return ES_STATUS_OK;
}

EsStatus es_question_parse(const EsKnowledgeGraph *graph, const char *text, EsQuestion *question) {
    memset(question, 0, sizeof *question);
    Reader reader = {text, text};
    EsNameText predicate, a, b;
    ES_TRY(take_name(&reader, "(", "predicate", &predicate));
    ES_TRY(take_byte(&reader, '(', "after the predicate, as in predicate(a,X)"));
    ES_TRY(take_name(&reader, ",()", "first argument", &a));
    ES_TRY(take_byte(&reader, ',', "between two arguments"));
    ES_TRY(take_name(&reader, ",()", "second argument", &b));
    ES_TRY(take_byte(&reader, ')', "after the second argument"));
    skip_blanks(&reader);
    reader.at += *reader.at == '.';
    skip_blanks(&reader);
    if (*reader.at != '\0') {
        EsExcerpt excerpt;
        return FAIL_AT(&reader, reader.at, "%s after the atom",
                       es_text_excerpt((EsPiece){reader.at, strlen(reader.at)}, excerpt));
    }
    ES_TRY(find_number(&reader, predicate, "predicate", graph->predicate_names, graph->n_predicates,
                       &question->form.predicate));
    if (es_kg_is_test(graph, question->form.predicate)) {
        return FAIL_AT(&reader, text, "%s", "a comparison alone is no question");
    }
    ES_TRY(number_argument(graph, &reader, a, question, &question->form.a));
    return number_argument(graph, &reader, b, question, &question->form.b);
}

int es_question_matches(EsAtom form, EsAtom atom) {
    return form.predicate == atom.predicate && (form.a < 0 || form.a == atom.a) &&
           (form.b < 0 || form.b == atom.b) && (form.a > 0 || form.a != form.b || atom.a == atom.b);
}

// --- lists of atoms ---

// A list of atoms that grows; all zero is empty.
typedef struct AtomList {
    EsAtom *atoms; // owned
    int32_t count;
    int64_t capacity;
} AtomList;

static EsStatus add_to_list(AtomList *list, EsAtom atom) {
    if (list->count == INT32_MAX) {
        return ES_FAIL(MEMORY, "more than %d atoms in one list", list->count);
    }
    ES_TRY(es_proof_array_grow((void **)&list->atoms, sizeof *list->atoms, list->count,
                               (int64_t)list->count + 1, &list->capacity));
    list->atoms[list->count++] = atom;
    return ES_STATUS_OK;
}

// --- candidates by a search with free variables ---

#define ANSWER_PREDICATE 0

typedef struct OpenSearch {
    const EsKnowledgeGraph *graph;
    EsKnowledgeGraph factual; // the same graph without rules; borrows all but its rule_start
    EsProofSettings settings;
    int32_t max_rules; // steps by rules
    int32_t max_states;
    EsGoalTable goals;
    EsSuccessors successors;
    AtomList *found;
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

// Keeps the successors of an expansion, reached with n_rules steps by rules.
static EsStatus keep_successors(OpenSearch *search, int32_t n_rules) {
    const EsSuccessors *successors = &search->successors;
    search->report->n_overlong += successors->n_overlong;
    ES_ASSERT(successors->n_overflow == 0);
    for (int32_t k = 0; k < successors->count && successors->outcome == ES_PROOF_OPEN; k++) {
        EsAtomSpan state = es_successor(successors, k);
        EsAtomSpan goals = {state.atoms, state.count - 1};
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
    if (state.count == 1) {
        return ES_STATUS_OK;
    }
    state = put_goal_first(search, state, atoms);
    es_proof_expand(with_rules ? search->graph : &search->factual, &search->settings, none,
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

static EsStatus search_all(OpenSearch *search, EsAtom form) {
    int32_t n_constants = search->graph->n_constants, number;
    // the variables -1 and -2 come in this order, so that they are C + 1 and C + 2 in a state
    EsAtom goal = {form.predicate, form.a > 0 ? form.a : n_constants - form.a,
                   form.b > 0 ? form.b : n_constants - form.b};
    EsAtom first[2] = {goal, {ANSWER_PREDICATE, goal.a, goal.b}};
    EsAtomSpan state = {first, 2};
    ES_TRY(es_goal_table_add(&search->goals, first, 2, es_proof_hash(first, 2), &number));
    int32_t begin = 0;
    for (int32_t n_rules = 0; n_rules <= search->max_rules && !search->report->is_full; n_rules++) {
        ES_TRY(take_level(search, &begin, n_rules));
    }
    for (int32_t i = 0; i < search->goals.count; i++) {
        state = es_goal_table_at(&search->goals, i);
        EsAtom atom = {form.predicate, state.atoms[0].a, state.atoms[0].b};
        if (state.count == 1 && !es_kg_has_fact(search->graph, atom)) {
            ES_TRY(add_to_list(search->found, atom));
        }
    }
    return ES_STATUS_OK;
}

// Find the atoms of the form that are no facts and have a proof with at most max_depth steps by
// rules. The report says which limit was met, if any.
static EsStatus search_candidates(const EsKnowledgeGraph *graph, const EsProverSettings *settings,
                                  EsAtom form, AtomList *found, EsAnswersReport *report) {
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

static EsStatus list_facts(const EsKnowledgeGraph *graph, EsAtom form, AtomList *facts) {
    EsAtomSpan span = form.a > 0   ? es_kg_facts_with_a(graph, form.predicate, form.a)
                      : form.b > 0 ? es_kg_facts_with_b(graph, form.predicate, form.b)
                                   : es_kg_facts_of(graph, form.predicate);
    for (int32_t i = 0; i < span.count; i++) {
        if (es_question_matches(form, span.atoms[i])) {
            ES_TRY(add_to_list(facts, span.atoms[i]));
        }
    }
    return ES_STATUS_OK;
}

// Atoms of the form that the rules add to the facts, if the closure fits its limit.
static EsStatus list_closure(const EsKnowledgeGraph *graph, const EsAnswersSettings *settings,
                             EsThreadPool *pool, EsAtom form, AtomList *derived,
                             EsAnswers *answers) {
    EsClosure *closure = NULL;
    if (settings->closure_limit == 0) {
        return ES_STATUS_OK;
    }
    const EsClosureSettings limits = {settings->closure_limit, settings->keeps_closure, pool};
    ES_TRY(es_closure_create_with(graph, &limits, &closure));
    EsStatus status = ES_STATUS_OK;
    answers->is_closure_known = closure->is_complete;
    int32_t end = closure->is_complete ? es_closure_count(closure, form.predicate) : 0;
    for (int32_t i = es_closure_count_facts(closure, form.predicate); i < end; i++) {
        EsAtom atom = es_closure_atom(closure, form.predicate, i);
        if (es_question_matches(form, atom)) {
            ES_TRY_GOTO(add_to_list(derived, atom));
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
                                EsThreadPool *pool, EsAtom form, AtomList *derived,
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
    return es_atom_compare(&x->atom, &y->atom);
}

// Puts facts, proved atoms and those of the closure into the answers, and counts those without a
// proof within the limits.
static EsStatus sort_out(const AtomList *facts, const AtomList *derived, const int32_t *depths,
                         EsAnswers *answers) {
    size_t most = (size_t)facts->count + (size_t)derived->count;
    ES_TRY(es_allocate(ES_MAX(most, 1) * sizeof *answers->items, (void **)&answers->items));
    for (int32_t i = 0; i < facts->count; i++) {
        answers->items[answers->count++] = (EsAnswer){facts->atoms[i], 0};
    }
    for (int32_t i = 0; i < derived->count; i++) {
        if (depths[i] > 0 || answers->is_closure_known) {
            answers->items[answers->count++] =
                (EsAnswer){derived->atoms[i], depths[i] > 0 ? depths[i] : ES_ANSWER_BEYOND};
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
                              EsThreadPool *pool, EsAtom query, EsAnswers *answers) {
    EsProverReport report;
    AtomList none = {NULL, 0, 0}, derived = {NULL, 0, 0};
    AtomList itself = {&query, 1, 1};
    int32_t depth;
    ES_TRY(es_prover_find_depths(graph, &settings->prover, pool, &query, 1, &depth, &report));
    answers->n_steps_otherwise = depth;
    if (es_kg_has_fact(graph, query)) {
        return sort_out(&itself, &none, NULL, answers);
    }
    EsStatus status = ES_STATUS_OK;
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
    es_release(derived.atoms);
    return status;
}

EsStatus es_answers_find(const EsKnowledgeGraph *graph, const EsAnswersSettings *settings,
                         EsThreadPool *pool, EsAtom form, EsAnswers *answers) {
    memset(answers, 0, sizeof *answers);
    ES_ASSERT(form.predicate >= 1 && form.predicate <= graph->n_predicates);
    answers->n_steps_otherwise = ES_KG_DEPTH_NONE;
    AtomList facts = {NULL, 0, 0}, derived = {NULL, 0, 0};
    EsProverReport report;
    void *depths = NULL;
    EsStatus status = ES_STATUS_OK;
    if (form.a > 0 && form.b > 0) {
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
