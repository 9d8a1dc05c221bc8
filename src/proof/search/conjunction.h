// Questions of several goals: "uncle(X,Y), lives(Y,paris), X != Y".
//
// An answer is a constant for each variable such that every goal follows and every comparison
// holds. Answers come from a join over the closure: distinct, in the order of their names, complete
// when the closure is. A plain _ is a variable of its own each time, which some constant must fit
// but which makes no answers of its own.
//
//     EsConjunction question; ES_TRY(es_conjunction_parse(graph, text, &question));
//     EsConjunctionAnswers answers;
//     const EsClosureSettings settings = {.limit = ES_ANSWERS_CLOSURE_LIMIT};
//     ES_TRY(es_conjunction_find(graph, &question, &settings, &answers));
//     for (int32_t i = 0; i < answers.count; i++) { show(es_conjunction_row(&answers, i)); }
//     es_conjunction_answers_destroy(&answers);
#ifndef ES_PROOF_CONJUNCTION_H
#define ES_PROOF_CONJUNCTION_H

#include "proof/graph/text_line.h"
#include "proof/search/closure.h"

ES_EXTERN_C_BEGIN

// answers that are kept, before those that differ in a plain _ alone are taken for one
#define ES_CONJUNCTION_MAX_ROWS 10000000

// One side of a comparison; an integer need not be a constant of the graph.
typedef struct EsOperand {
    int32_t term;  // as in goals; 0: an integer that the graph does not have
    int64_t value; // of that
} EsOperand;

typedef struct EsComparison {
    EsKgTest test;
    EsOperand sides[2];
} EsComparison;

typedef struct EsConjunction {
    EsAtom goals[ES_HORN_MAX_BODY]; // constants, or variables -1, -2, ...
    int n_goals;                    // 1 or more
    EsComparison comparisons[ES_HORN_MAX_BODY];
    int n_comparisons;
    EsPiece variables[ES_HORN_MAX_VARIABLES]; // names of -1, -2, ...; borrowed from the text
    int n_variables;
    int32_t shadowed; // a constant that is spelt like one of the variables, 0: none
} EsConjunction;

// Returns whether a question has several goals, by a comma outside of brackets and quotes.
int es_question_is_conjunction(const char *text);

// Read goals and comparisons with commas between them; variables as in es_question_parse. INPUT
// says where, as "question:1:COLUMN".
EsStatus es_conjunction_parse(const EsKnowledgeGraph *graph, const char *text,
                              EsConjunction *question);

// Returns whether a variable -v has a name, so that answers differ by it.
int es_conjunction_is_named(const EsConjunction *question, int v);

typedef struct EsConjunctionAnswers {
    int32_t *rows; // constants of -1, -2, ...; owned                      (count x n_variables)
    int32_t count, n_variables;
    int is_complete;      // no answer is missing
    int is_closure_known; // the closure did not meet its limit
    int32_t n_closure;    // its atoms
    EsClosure *closure;   // that with provenance, NULL: not asked for; owned
} EsConjunctionAnswers;

// Find the answers by a closure; what one that was stopped at its limit gives does follow. Kept in
// the answers when it is to have provenance. After a failure there is nothing to destroy.
EsStatus es_conjunction_find(const EsKnowledgeGraph *graph, const EsConjunction *question,
                             const EsClosureSettings *settings, EsConjunctionAnswers *answers);
void es_conjunction_answers_destroy(EsConjunctionAnswers *answers);

// The constants of an answer. A question without variables has one answer or none.
const int32_t *es_conjunction_row(const EsConjunctionAnswers *answers, int32_t i);

// A goal under an answer.
EsAtom es_conjunction_goal(const EsConjunction *question, int goal, const int32_t *row);

ES_EXTERN_C_END

#endif
