// Questions: the text of goals such as "uncle(X,Y), lives(Y,paris), X != Y", and the answers to
// several of them at once. answers.h answers those of one goal.
//
// An answer is a constant for each variable such that every goal follows and every comparison
// holds. Answers come from a join over the closure: distinct, in the order of their names, complete
// when the closure is. A plain _ is a variable of its own each time, which some constant must fit
// but which makes no answers of its own.
//
//     EsQuestion question; ES_TRY(es_question_parse(graph, text, &question));
//     EsJoinedAnswers answers;
//     const EsClosureSettings settings = {.limit = ES_ANSWERS_CLOSURE_LIMIT};
//     ES_TRY(es_question_join(graph, &question, &settings, &answers));
//     for (int32_t i = 0; i < answers.count; i++) { show(es_joined_row(&answers, i)); }
//     es_joined_answers_destroy(&answers);
#ifndef ES_PROOF_QUESTION_H
#define ES_PROOF_QUESTION_H

#include "proof/graph/text_line.h"
#include "proof/search/closure.h"

ES_EXTERN_C_BEGIN

// --- the text ---

// One side of a comparison; an integer need not be a constant of the graph.
typedef struct EsOperand {
    int32_t term;  // as in goals; 0: an integer that the graph does not have
    int64_t value; // of that
} EsOperand;

typedef struct EsComparison {
    EsKgTest test;
    EsOperand sides[2];
} EsComparison;

typedef struct EsQuestion {
    EsWideAtom goals[ES_HORN_MAX_BODY]; // constants, or variables -1, -2, ...
    int n_goals;                        // 1 or more
    EsComparison comparisons[ES_HORN_MAX_BODY];
    int n_comparisons;
    EsPiece variables[ES_HORN_MAX_VARIABLES]; // names of -1, -2, ... by first appearance; borrowed
                                              // from the text
    int n_variables;
    int32_t shadowed; // a constant that is spelt like one of the variables, 0: none
} EsQuestion;

// Read goals "predicate(a,b)" and comparisons with commas between them, a period allowed at the
// end. An argument in quotes is a constant; one that begins with a capital letter, _ or ? is a
// variable (a plain _ is one of its own each time); any other is a constant. INPUT says where, as
// "question:1:COLUMN", and for an unknown name the nearest known one.
EsStatus es_question_parse(const EsKnowledgeGraph *graph, const char *text, EsQuestion *question);

// Returns whether a question asks for one goal and nothing else.
static inline int es_question_is_single(const EsQuestion *question) {
    return question->n_goals == 1 && question->n_comparisons == 0;
}

// Returns whether a variable -v has a name, so that answers differ by it.
int es_question_is_named(const EsQuestion *question, int v);

// Returns whether a ground atom has the form of a goal.
int es_question_matches(const EsKnowledgeGraph *graph, const EsAtom *form, const EsAtom *atom);

// --- several goals ---

// answers that are kept, before those that differ in a plain _ alone are taken for one
#define ES_QUESTION_MAX_ROWS 10000000

typedef struct EsJoinedAnswers {
    int32_t *rows; // constants of -1, -2, ...; owned                      (count x n_variables)
    int32_t count, n_variables;
    int is_complete;      // no answer is missing
    int is_closure_known; // the closure did not meet its limit
    int32_t n_closure;    // its atoms
    EsClosure *closure;   // that with provenance, NULL: not asked for; owned
} EsJoinedAnswers;

// Find the answers by a closure; what one that was stopped at its limit gives does follow. Kept in
// the answers when it is to have provenance. After a failure there is nothing to destroy.
EsStatus es_question_join(const EsKnowledgeGraph *graph, const EsQuestion *question,
                          const EsClosureSettings *settings, EsJoinedAnswers *answers);
void es_joined_answers_destroy(EsJoinedAnswers *answers);

// The constants of an answer. A question without variables has one answer or none.
const int32_t *es_joined_row(const EsJoinedAnswers *answers, int32_t i);

// A goal under an answer.
EsWideAtom es_question_goal(const EsKnowledgeGraph *graph, const EsQuestion *question, int goal,
                            const int32_t *row);

ES_EXTERN_C_END

#endif
