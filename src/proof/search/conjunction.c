// The atoms of the closure that goals ask for are sorted twice, by either argument. Goals are then
// taken one after the other, the one with the most known arguments first, each bound to every atom
// that fits; comparisons are made as soon as their terms are known.
#include "proof/search/conjunction.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/words.h"
#include "proof/graph/knowledge_text.h"
#include "proof/search/proof_array.h"

// --- the text ---

int es_question_is_conjunction(const char *text) {
    EsNameText unused;
    int n_open = 0;
    while (*text != '\0') {
        EsPiece rest = {text, strlen(text)};
        if ((*text == '"' || *text == '\'') && es_text_take_quoted(&rest, "(),<>!", &unused)) {
            text = rest.text;
            continue;
        }
        n_open += (*text == '(') - (*text == ')');
        if (*text == ',' && n_open == 0) {
            return 1;
        }
        text++;
    }
    return 0;
}

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
                            EsNameText name, EsConjunction *question, int32_t *term) {
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
                               const EsLiteralText *literal, EsConjunction *question) {
    EsComparison comparison = {.test = literal->test};
    for (int side = 0; side < 2; side++) {
        EsNameText name = side == 0 ? literal->atom.a : literal->atom.b;
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
                            const EsLiteralText *literal, EsConjunction *question) {
    if (question->n_goals + question->n_comparisons == ES_HORN_MAX_BODY) {
        return ES_LINE_FAIL(lines, literal->atom.a.whole.text, "more than %d goals in one question",
                            ES_HORN_MAX_BODY);
    }
    if (literal->test == ES_KG_NEGATION) {
        return ES_LINE_FAIL(lines, literal->atom.predicate.whole.text, "%s",
                            "a negation in a question; a rule can have it");
    }
    if (literal->test != ES_KG_NO_TEST) {
        return add_comparison(graph, lines, literal, question);
    }
    EsAtom *goal = &question->goals[question->n_goals];
    ES_TRY(find_number(lines, literal->atom.predicate, "predicate", graph->predicate_names,
                       graph->n_predicates, &goal->predicate));
    if (es_kg_is_test(graph, goal->predicate)) {
        return ES_LINE_FAIL(lines, literal->atom.predicate.whole.text, "%s",
                            "no atom with facts or rules");
    }
    ES_TRY(number_term(graph, lines, literal->atom.a, question, &goal->a));
    ES_TRY(number_term(graph, lines, literal->atom.b, question, &goal->b));
    question->n_goals++;
    return ES_STATUS_OK;
}

static EsStatus check_variables(const EsTextLines *lines, const EsConjunction *question) {
    for (int v = 1; v <= question->n_variables; v++) {
        int is_in_goal = 0;
        for (int k = 0; k < question->n_goals; k++) {
            is_in_goal |= question->goals[k].a == -v || question->goals[k].b == -v;
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
               : ES_LINE_FAIL(lines, lines->begin, "%s", "comparisons alone and no atom");
}

EsStatus es_conjunction_parse(const EsKnowledgeGraph *graph, const char *text,
                              EsConjunction *question) {
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
            return check_variables(&lines, question);
        }
        if (rest.text[0] != ',') {
            EsExcerpt excerpt;
            return ES_LINE_FAIL(&lines, rest.text, "%s after a goal, expected a comma",
                                es_text_excerpt(rest, excerpt));
        }
        rest = (EsPiece){rest.text + 1, rest.bytes - 1};
    }
}

int es_conjunction_is_named(const EsConjunction *question, int v) {
    EsPiece name = question->variables[v - 1];
    return name.bytes > 1 || name.text[0] != '_';
}

// --- the join ---

typedef struct Join {
    const EsKnowledgeGraph *graph;
    const EsConjunction *question;
    EsAtom *by_a, *by_b; // atoms of the closure by (p,a,b) and by (p,b,a); owned       (n_atoms)
    int32_t n_atoms;
    int64_t capacity; // of rows, in numbers
    EsConjunctionAnswers *answers;
} Join;

// Constants of the variables, 0: not known yet.
typedef struct Binding {
    int32_t of[ES_HORN_MAX_VARIABLES];
} Binding;

static int compare_by_b(const void *left, const void *right) {
    const EsAtom *x = left, *y = right;
    EsAtom x_turned = {x->predicate, x->b, x->a}, y_turned = {y->predicate, y->b, y->a};
    return es_atom_compare(&x_turned, &y_turned);
}

// Each predicate of the goals once.
static int is_asked_before(const EsConjunction *question, int goal) {
    for (int k = 0; k < goal; k++) {
        if (question->goals[k].predicate == question->goals[goal].predicate) {
            return 1;
        }
    }
    return 0;
}

static EsStatus index_closure(Join *join, const EsClosure *closure) {
    const EsConjunction *question = join->question;
    size_t bytes = (size_t)ES_MAX(closure->count, 1) * sizeof(EsAtom);
    ES_TRY(es_allocate(bytes, (void **)&join->by_a));
    for (int k = 0; k < question->n_goals; k++) {
        int32_t predicate = question->goals[k].predicate;
        int32_t count = is_asked_before(question, k) ? 0 : es_closure_count(closure, predicate);
        for (int32_t i = 0; i < count; i++) {
            join->by_a[join->n_atoms++] = es_closure_atom(closure, predicate, i);
        }
    }
    size_t count = (size_t)join->n_atoms;
    ES_TRY(es_allocate(ES_MAX(count, 1) * sizeof(EsAtom), (void **)&join->by_b));
    qsort(join->by_a, count, sizeof(EsAtom), es_atom_compare);
    memcpy(join->by_b, join->by_a, count * sizeof(EsAtom));
    qsort(join->by_b, count, sizeof(EsAtom), compare_by_b);
    return ES_STATUS_OK;
}

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
    EsConjunctionAnswers *answers = join->answers;
    int32_t n_variables = answers->n_variables;
    if (answers->count == ES_CONJUNCTION_MAX_ROWS) {
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

// The open goal with the most known arguments.
static int choose_goal(const Join *join, unsigned open, const Binding *binding) {
    int best = -1, best_known = -1;
    for (int k = 0; k < join->question->n_goals; k++) {
        EsAtom goal = join->question->goals[k];
        int n_known = (value_of(binding, goal.a) != 0) + (value_of(binding, goal.b) != 0);
        if ((open >> k & 1u) != 0 && n_known > best_known) {
            best = k;
            best_known = n_known;
        }
    }
    return best;
}

// The first atom that is not before `key` in the order.
static int32_t find_first(const EsAtom *atoms, int32_t count, EsAtom key,
                          int (*compare)(const void *, const void *)) {
    int32_t low = 0, high = count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (compare(&atoms[middle], &key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static EsStatus join_goals(Join *join, unsigned open, const Binding *binding) {
    if (!passes(join, binding)) {
        return ES_STATUS_OK;
    }
    if (open == 0) {
        return add_row(join, binding);
    }
    int k = choose_goal(join, open, binding);
    EsAtom goal = join->question->goals[k];
    int32_t a = value_of(binding, goal.a), b = value_of(binding, goal.b);
    // unknown arguments are 0, which comes before every constant
    EsAtom key = {goal.predicate, a, b};
    int is_by_b = a == 0 && b != 0;
    const EsAtom *atoms = is_by_b ? join->by_b : join->by_a;
    int32_t i = find_first(atoms, join->n_atoms, key, is_by_b ? compare_by_b : es_atom_compare);
    for (; i < join->n_atoms && join->answers->is_complete; i++) {
        EsAtom atom = atoms[i];
        if (atom.predicate != goal.predicate || (a != 0 && atom.a != a) ||
            (b != 0 && atom.b != b)) {
            break;
        }
        Binding extended = *binding;
        if (bind_term(&extended, goal.a, atom.a) && bind_term(&extended, goal.b, atom.b)) {
            ES_TRY(join_goals(join, open & ~(1u << k), &extended));
        }
    }
    return ES_STATUS_OK;
}

// --- the answers ---

// By the variables with names, then by the others.
static int compare_rows(const void *left, const void *right, void *context) {
    const EsConjunction *question = context;
    const int32_t *x = left, *y = right;
    for (int is_named = 1; is_named >= 0; is_named--) {
        for (int v = 0; v < question->n_variables; v++) {
            if (es_conjunction_is_named(question, v + 1) == is_named && x[v] != y[v]) {
                return x[v] < y[v] ? -1 : 1;
            }
        }
    }
    return 0;
}

static int are_same_answer(const EsConjunction *question, const int32_t *x, const int32_t *y) {
    for (int v = 0; v < question->n_variables; v++) {
        if (es_conjunction_is_named(question, v + 1) && x[v] != y[v]) {
            return 0;
        }
    }
    return 1;
}

static void make_distinct(const EsConjunction *question, EsConjunctionAnswers *answers) {
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

EsStatus es_conjunction_find(const EsKnowledgeGraph *graph, const EsConjunction *question,
                             const EsClosureSettings *settings, EsConjunctionAnswers *answers) {
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
    ES_TRY_GOTO(index_closure(&join, closure));
    ES_TRY_GOTO(join_goals(&join, (1u << question->n_goals) - 1u, &none));
    make_distinct(question, answers);
    answers->is_complete &= closure->is_complete && graph->n_skipped == 0;
    if (settings->keeps_provenance) {
        answers->closure = closure;
        closure = NULL;
    }
done:
    es_closure_destroy(closure);
    es_release(join.by_a);
    es_release(join.by_b);
    if (status != ES_STATUS_OK) {
        es_conjunction_answers_destroy(answers);
    }
    return status;
}

void es_conjunction_answers_destroy(EsConjunctionAnswers *answers) {
    es_release(answers->rows);
    es_closure_destroy(answers->closure);
    memset(answers, 0, sizeof *answers);
}

const int32_t *es_conjunction_row(const EsConjunctionAnswers *answers, int32_t i) {
    return answers->rows + (size_t)i * (size_t)answers->n_variables;
}

EsAtom es_conjunction_goal(const EsConjunction *question, int goal, const int32_t *row) {
    EsAtom atom = question->goals[goal];
    atom.a = atom.a < 0 ? row[-1 - atom.a] : atom.a;
    atom.b = atom.b < 0 ? row[-1 - atom.b] : atom.b;
    return atom;
}
