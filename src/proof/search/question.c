// The atoms of the closure that goals ask for are sorted by each argument that is known when they
// are. Goals are taken one after the other, the one with the fewest unknown arguments first, each
// bound to every atom that fits; comparisons are made as soon as their terms are known.
#include "proof/search/question.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/words.h"
#include "proof/graph/knowledge_text.h"
#include "proof/search/proof_array.h"

// --- the text ---

static EsStatus find_number(const EsTextLines *lines, EsNameText name, const char *what,
                            const char *const *names, int32_t n_names, int32_t *number) {
    char word[ES_KG_MAX_NAME_BYTES + 1];
    word[es_name_text_copy(name, word, sizeof word - 1)] = '\0';
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
    es_text_excerpt(name.inside, excerpt);
    return nearest != NULL
               ? ES_LINE_FAIL(lines, name.inside.text, "unknown %s %s; did you mean \"%.100s\"?",
                              what, excerpt, nearest)
               : ES_LINE_FAIL(lines, name.inside.text, "unknown %s %s", what, excerpt);
}

static int is_variable(EsNameText name) {
    char first = name.inside.text[0];
    return !name.is_quoted && (isupper((unsigned char)first) || first == '_' || first == '?');
}

static EsStatus number_term(const EsKnowledgeGraph *graph, const EsTextLines *lines,
                            EsNameText name, EsQuestion *question, int32_t *term) {
    EsPiece piece = name.inside;
    char first = piece.text[0];
    if (!is_variable(name)) {
        return find_number(lines, name, "constant", graph->constant_names, graph->n_constants,
                           term);
    }
    int is_nameless = piece.bytes == 1 && first == '_', i = 0;
    while (i < question->n_variables &&
           (is_nameless || !es_piece_equals(question->variables[i], piece))) {
        i++;
    }
    if (i == ES_HORN_MAX_VARIABLES) {
        return ES_LINE_FAIL(lines, piece.text, "more than %d variables in one question",
                            ES_HORN_MAX_VARIABLES);
    }
    if (i == question->n_variables) {
        char word[ES_KG_MAX_NAME_BYTES + 1];
        word[es_name_text_copy(name, word, sizeof word - 1)] = '\0';
        int32_t shadowed = es_kg_constant(graph, word);
        question->shadowed = shadowed != 0 ? shadowed : question->shadowed;
        question->variables[question->n_variables++] = piece;
    }
    *term = -1 - i;
    return ES_STATUS_OK;
}

static EsStatus add_comparison(const EsKnowledgeGraph *graph, const EsTextLines *lines,
                               const EsLiteralText *literal, EsQuestion *question) {
    EsComparison comparison = {.test = literal->test};
    for (int side = 0; side < 2; side++) {
        EsNameText name = literal->atom.terms[side];
        EsOperand *operand = &comparison.sides[side];
        char word[ES_KG_MAX_NAME_BYTES + 1];
        word[es_name_text_copy(name, word, sizeof word - 1)] = '\0';
        operand->value = es_kg_integer(word);
        if (!is_variable(name)) {
            ES_TRY(es_text_check_operand(lines, literal->test, name));
        }
        if (operand->value == ES_KG_NO_INTEGER || es_kg_constant(graph, word) != 0) {
            ES_TRY(number_term(graph, lines, name, question, &operand->term));
        }
    }
    question->comparisons[question->n_comparisons++] = comparison;
    return ES_STATUS_OK;
}

// Add a goal or a comparison.
static EsStatus add_literal(const EsKnowledgeGraph *graph, const EsTextLines *lines,
                            const EsLiteralText *literal, EsQuestion *question) {
    if (question->n_goals + question->n_comparisons == ES_HORN_MAX_BODY) {
        return ES_LINE_FAIL(lines, lines->begin, "more than %d goals in one question",
                            ES_HORN_MAX_BODY);
    }
    if (literal->test == ES_KG_NEGATION) {
        return ES_LINE_FAIL(lines, literal->atom.predicate.whole.text, "%s",
                            "a negation in a question; a rule can have it");
    }
    if (literal->test != ES_KG_NO_TEST) {
        return add_comparison(graph, lines, literal, question);
    }
    const EsAtomText *spelt = &literal->atom;
    int32_t predicate, terms[ES_KG_MAX_ARITY];
    ES_TRY(find_number(lines, spelt->predicate, "predicate", graph->predicate_names,
                       graph->n_predicates, &predicate));
    if (es_kg_is_test(graph, predicate)) {
        return ES_LINE_FAIL(lines, spelt->predicate.whole.text, "%s",
                            "no atom with facts or rules");
    }
    if (graph->arities[predicate] != spelt->n_terms) {
        EsExcerpt excerpt;
        return ES_LINE_FAIL(lines, spelt->predicate.whole.text, "%s has %d argument%s, not %d",
                            es_text_excerpt(spelt->predicate.inside, excerpt),
                            graph->arities[predicate], graph->arities[predicate] == 1 ? "" : "s",
                            spelt->n_terms);
    }
    for (int i = 0; i < spelt->n_terms; i++) {
        ES_TRY(number_term(graph, lines, spelt->terms[i], question, &terms[i]));
    }
    question->goals[question->n_goals++] = es_wide_atom_make(predicate, terms, spelt->n_terms);
    return ES_STATUS_OK;
}

static EsStatus check_variables(const EsKnowledgeGraph *graph, const EsTextLines *lines,
                                const EsQuestion *question) {
    for (int v = 1; v <= question->n_variables; v++) {
        int is_in_goal = 0;
        for (int k = 0; k < question->n_goals; k++) {
            const EsAtom *goal = question->goals[k].cells;
            for (int i = 0; i < graph->arities[goal->predicate]; i++) {
                is_in_goal |= es_atom_term(goal, i) == -v;
            }
        }
        if (!is_in_goal) {
            EsExcerpt excerpt;
            return ES_LINE_FAIL(lines, question->variables[v - 1].text,
                                "the variable %s is compared, but in no atom predicate(a,b)",
                                es_text_excerpt(question->variables[v - 1], excerpt));
        }
    }
    return question->n_goals > 0
               ? ES_STATUS_OK
               : ES_LINE_FAIL(lines, lines->begin, "%s", "a comparison alone is no question");
}

EsStatus es_question_parse(const EsKnowledgeGraph *graph, const char *text, EsQuestion *question) {
    memset(question, 0, sizeof *question);
    EsTextLines lines = es_text_lines_begin("question", text, strlen(text));
    lines.number = 1;
    EsPiece rest = es_piece_trim((EsPiece){text, strlen(text)});
    for (;;) {
        EsLiteralText literal;
        ES_TRY(es_text_take_literal(&lines, &rest, &literal));
        ES_TRY(add_literal(graph, &lines, &literal, question));
        rest = es_piece_skip_blanks(rest);
        if (rest.bytes == 0 || (rest.bytes == 1 && rest.text[0] == '.')) {
            return check_variables(graph, &lines, question);
        }
        if (rest.text[0] != ',') {
            EsExcerpt excerpt;
            return ES_LINE_FAIL(&lines, rest.text, "%s after a goal, expected a comma",
                                es_text_excerpt(rest, excerpt));
        }
        rest = (EsPiece){rest.text + 1, rest.bytes - 1};
    }
}

int es_question_is_named(const EsQuestion *question, int v) {
    EsPiece name = question->variables[v - 1];
    return name.bytes > 1 || name.text[0] != '_';
}

int es_question_matches(const EsKnowledgeGraph *graph, const EsAtom *form, const EsAtom *atom) {
    if (form->predicate != atom->predicate) {
        return 0;
    }
    for (int i = 0; i < graph->arities[form->predicate]; i++) {
        int32_t term = es_atom_term(form, i), wanted = term;
        for (int k = 0; k < i && term < 0; k++) {
            wanted = es_atom_term(form, k) == term ? es_atom_term(atom, k) : wanted;
        }
        if (wanted > 0 && wanted != es_atom_term(atom, i)) {
            return 0;
        }
    }
    return 1;
}

// --- the join ---

// The atoms of the closure of one predicate.
typedef struct Table {
    int32_t predicate, count;
    int arity;
    int32_t *terms;                  // owned                                      (count x arity)
    int32_t *order[ES_KG_MAX_ARITY]; // their numbers by the term in that place, made when it is
                                     // asked for; owned                                  (count)
} Table;

typedef struct Join {
    const EsKnowledgeGraph *graph;
    const EsQuestion *question;
    Table tables[ES_HORN_MAX_BODY];
    int n_tables, table_of[ES_HORN_MAX_BODY]; // of each goal
    int64_t capacity;                         // of rows, in numbers
    EsJoinedAnswers *answers;
} Join;

// Constants of the variables, 0: not known yet.
typedef struct Binding {
    int32_t of[ES_HORN_MAX_VARIABLES];
} Binding;

static const int32_t *tuple_at(const Table *table, int32_t i) {
    return table->terms + (size_t)i * (size_t)table->arity;
}

static EsStatus fill_table(const EsClosure *closure, int32_t predicate, Table *table) {
    *table = (Table){.predicate = predicate,
                     .count = es_closure_count(closure, predicate),
                     .arity = closure->graph->arities[predicate]};
    size_t n_terms = (size_t)table->count * (size_t)table->arity;
    ES_TRY(es_allocate(ES_MAX(n_terms, 1) * sizeof *table->terms, (void **)&table->terms));
    for (int32_t i = 0; i < table->count; i++) {
        EsWideAtom atom = es_closure_atom(closure, predicate, i);
        for (int k = 0; k < table->arity; k++) {
            table->terms[(size_t)i * (size_t)table->arity + (size_t)k] =
                es_atom_term(atom.cells, k);
        }
    }
    return ES_STATUS_OK;
}

// A table for each predicate of the goals.
static EsStatus fill_tables(Join *join, const EsClosure *closure) {
    for (int k = 0; k < join->question->n_goals; k++) {
        int32_t predicate = join->question->goals[k].cells->predicate;
        int t = 0;
        while (t < join->n_tables && join->tables[t].predicate != predicate) {
            t++;
        }
        join->table_of[k] = t;
        if (t == join->n_tables) {
            join->n_tables++;
            ES_TRY(fill_table(closure, predicate, &join->tables[t]));
        }
    }
    return ES_STATUS_OK;
}

static void release_tables(Join *join) {
    for (int t = 0; t < join->n_tables; t++) {
        es_release(join->tables[t].terms);
        for (int place = 0; place < ES_KG_MAX_ARITY; place++) {
            es_release(join->tables[t].order[place]);
        }
    }
}

typedef struct Place {
    const Table *table;
    int place;
} Place;

static int compare_tuples(const void *left, const void *right, void *context) {
    const Place *by = context;
    int32_t i = *(const int32_t *)left, k = *(const int32_t *)right;
    int32_t x = tuple_at(by->table, i)[by->place], y = tuple_at(by->table, k)[by->place];
    return x != y ? (x < y ? -1 : 1) : (i > k) - (i < k);
}

static EsStatus sort_table(Table *table, int place) {
    if (table->order[place] != NULL) {
        return ES_STATUS_OK;
    }
    Place by = {table, place};
    size_t count = (size_t)table->count;
    ES_TRY(es_allocate(ES_MAX(count, 1) * sizeof(int32_t), (void **)&table->order[place]));
    for (int32_t i = 0; i < table->count; i++) {
        table->order[place][i] = i;
    }
    qsort_r(table->order[place], count, sizeof(int32_t), compare_tuples, &by);
    return ES_STATUS_OK;
}

// The first tuple in the order of a place whose term there is not below `term`.
static int32_t find_first(const Table *table, int place, int32_t term) {
    int32_t low = 0, high = table->count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (tuple_at(table, table->order[place][middle])[place] < term) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// Tuples order[begin] to order[end - 1]; without an order their own numbers.
typedef struct Range {
    const int32_t *order;
    int32_t begin, end;
} Range;

static int32_t value_of(const Binding *binding, int32_t term) {
    return term < 0 ? binding->of[-1 - term] : term;
}

static int bind_term(Binding *binding, int32_t term, int32_t constant) {
    if (term > 0) {
        return term == constant;
    }
    int32_t *bound = &binding->of[-1 - term];
    *bound = *bound != 0 ? *bound : constant;
    return *bound == constant;
}

// Returns whether a comparison holds, or may hold while a variable of it is not known.
static int may_hold(const EsKnowledgeGraph *graph, const EsComparison *comparison,
                    const Binding *binding) {
    int32_t terms[2];
    int64_t values[2];
    for (int side = 0; side < 2; side++) {
        EsOperand operand = comparison->sides[side];
        terms[side] = value_of(binding, operand.term);
        if (terms[side] == 0 && operand.term != 0) {
            return 1;
        }
        values[side] =
            operand.term == 0 ? operand.value : es_kg_integer(graph->constant_names[terms[side]]);
    }
    if (comparison->test == ES_KG_NOT_EQUAL) {
        return terms[0] != terms[1] || (terms[0] == 0 && values[0] != values[1]);
    }
    return es_kg_compare((int)comparison->test, values[0], values[1]);
}

// Returns whether no comparison whose terms are known is false.
static int passes(const Join *join, const Binding *binding) {
    for (int k = 0; k < join->question->n_comparisons; k++) {
        if (!may_hold(join->graph, &join->question->comparisons[k], binding)) {
            return 0;
        }
    }
    return 1;
}

static EsStatus add_row(Join *join, const Binding *binding) {
    EsJoinedAnswers *answers = join->answers;
    int32_t n_variables = answers->n_variables;
    if (answers->count == ES_QUESTION_MAX_ROWS) {
        answers->is_complete = 0;
        return ES_STATUS_OK;
    }
    int64_t used = (int64_t)answers->count * n_variables;
    ES_TRY(es_proof_array_grow((void **)&answers->rows, sizeof *answers->rows, used,
                               used + ES_MAX(n_variables, 1), &join->capacity));
    for (int32_t v = 0; v < n_variables; v++) {
        answers->rows[used + v] = binding->of[v];
    }
    answers->count++;
    return ES_STATUS_OK;
}

// Unknown arguments of a goal.
static int count_unknown(const Join *join, const Binding *binding, int k) {
    const EsAtom *goal = join->question->goals[k].cells;
    int n = 0;
    for (int i = 0; i < join->graph->arities[goal->predicate]; i++) {
        n += value_of(binding, es_atom_term(goal, i)) == 0;
    }
    return n;
}

// The open goal with the fewest unknown arguments.
static int choose_goal(const Join *join, unsigned open, const Binding *binding) {
    int best = -1, fewest = ES_KG_MAX_ARITY + 1;
    for (int k = 0; k < join->question->n_goals; k++) {
        int n_unknown = count_unknown(join, binding, k);
        if ((open >> k & 1u) != 0 && n_unknown < fewest) {
            best = k;
            fewest = n_unknown;
        }
    }
    return best;
}

// The tuples that have one of the goal's known arguments in its place, of which there are the
// fewest.
static EsStatus find_range(Table *table, const EsAtom *goal, const Binding *binding, Range *range) {
    *range = (Range){NULL, 0, table->count};
    for (int place = 0; place < table->arity; place++) {
        int32_t term = value_of(binding, es_atom_term(goal, place));
        if (term != 0) {
            ES_TRY(sort_table(table, place));
            int32_t begin = find_first(table, place, term);
            int32_t end = find_first(table, place, term + 1);
            if (range->order == NULL || end - begin < range->end - range->begin) {
                *range = (Range){table->order[place], begin, end};
            }
        }
    }
    return ES_STATUS_OK;
}

static int bind_tuple(const EsAtom *goal, const Table *table, const int32_t *tuple,
                      Binding *binding) {
    int fits = 1;
    for (int i = 0; i < table->arity && fits; i++) {
        fits = bind_term(binding, es_atom_term(goal, i), tuple[i]);
    }
    return fits;
}

static EsStatus join_goals(Join *join, unsigned open, const Binding *binding) {
    if (!passes(join, binding)) {
        return ES_STATUS_OK;
    }
    if (open == 0) {
        return add_row(join, binding);
    }
    int k = choose_goal(join, open, binding);
    const EsAtom *goal = join->question->goals[k].cells;
    Table *table = &join->tables[join->table_of[k]];
    Range range;
    ES_TRY(find_range(table, goal, binding, &range));
    for (int32_t i = range.begin; i < range.end && join->answers->is_complete; i++) {
        const int32_t *tuple = tuple_at(table, range.order != NULL ? range.order[i] : i);
        Binding extended = *binding;
        if (bind_tuple(goal, table, tuple, &extended)) {
            ES_TRY(join_goals(join, open & ~(1u << k), &extended));
        }
    }
    return ES_STATUS_OK;
}

// --- the answers ---

// By the variables with names, then by the others.
static int compare_rows(const void *left, const void *right, void *context) {
    const EsQuestion *question = context;
    const int32_t *x = left, *y = right;
    for (int is_named = 1; is_named >= 0; is_named--) {
        for (int v = 0; v < question->n_variables; v++) {
            if (es_question_is_named(question, v + 1) == is_named && x[v] != y[v]) {
                return x[v] < y[v] ? -1 : 1;
            }
        }
    }
    return 0;
}

static int are_same_answer(const EsQuestion *question, const int32_t *x, const int32_t *y) {
    for (int v = 0; v < question->n_variables; v++) {
        if (es_question_is_named(question, v + 1) && x[v] != y[v]) {
            return 0;
        }
    }
    return 1;
}

static void make_distinct(const EsQuestion *question, EsJoinedAnswers *answers) {
    size_t width = (size_t)answers->n_variables;
    int32_t count = 0;
    if (width == 0) {
        answers->count = ES_MIN(answers->count, 1);
        return;
    }
    if (answers->count > 0) {
        qsort_r(answers->rows, (size_t)answers->count, width * sizeof *answers->rows, compare_rows,
                (void *)question);
    }
    for (int32_t i = 0; i < answers->count; i++) {
        const int32_t *row = answers->rows + (size_t)i * width;
        if (count == 0 ||
            !are_same_answer(question, row, answers->rows + (size_t)(count - 1) * width)) {
            memmove(answers->rows + (size_t)count++ * width, row, width * sizeof *row);
        }
    }
    answers->count = count;
}

EsStatus es_question_join(const EsKnowledgeGraph *graph, const EsQuestion *question,
                          const EsClosureSettings *settings, EsJoinedAnswers *answers) {
    memset(answers, 0, sizeof *answers);
    answers->n_variables = question->n_variables;
    answers->is_complete = 1;
    EsClosure *closure = NULL;
    Join join = {.graph = graph, .question = question, .answers = answers};
    Binding none = {{0}};
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_closure_create_with(graph, settings, &closure));
    answers->is_closure_known = closure->is_complete;
    answers->n_closure = closure->count;
    ES_TRY_GOTO(fill_tables(&join, closure));
    ES_TRY_GOTO(join_goals(&join, (1u << question->n_goals) - 1u, &none));
    make_distinct(question, answers);
    answers->is_complete &= closure->is_complete && graph->n_skipped == 0;
    if (settings->keeps_provenance) {
        answers->closure = closure;
        closure = NULL;
    }
done:
    es_closure_destroy(closure);
    release_tables(&join);
    if (status != ES_STATUS_OK) {
        es_joined_answers_destroy(answers);
    }
    return status;
}

void es_joined_answers_destroy(EsJoinedAnswers *answers) {
    es_release(answers->rows);
    es_closure_destroy(answers->closure);
    memset(answers, 0, sizeof *answers);
}

const int32_t *es_joined_row(const EsJoinedAnswers *answers, int32_t i) {
    return answers->rows + (size_t)i * (size_t)answers->n_variables;
}

EsWideAtom es_question_goal(const EsKnowledgeGraph *graph, const EsQuestion *question, int goal,
                            const int32_t *row) {
    EsWideAtom atom = question->goals[goal];
    for (int i = 0; i < graph->arities[atom.cells->predicate]; i++) {
        int32_t term = es_atom_term(atom.cells, i);
        es_atom_set_term(atom.cells, i, term < 0 ? row[-1 - term] : term);
    }
    return atom;
}
