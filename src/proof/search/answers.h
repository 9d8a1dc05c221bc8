// Questions with variables: which atoms of a form can be proved, and in how many steps.
//
// An answer is a ground atom of the form asked. Facts are answers of 0 steps; the steps of another
// are those of its shortest proof, as es_prover_find_depth counts them. One that follows by the
// closure, but for which the prover has no proof within its limits, is an answer, too; its steps
// are not known. Answers are distinct and come in a fixed order: fewest steps first, then by name.
//
// Candidates come first, their steps afterwards. Where the closure fits its limit, every atom of it
// that has the form is a candidate: that is exact at any depth, costs well under a second, and does
// not depend on how many variables are asked for. Where it does not, a search with free variables
// finds the candidates: it resolves the open question goal by goal and counts only steps by rules,
// of which a proof has at most as many as steps; so within max_depth it misses none either, unless
// it meets its limit on states or leaves out one of too many atoms, which the report says. It sees
// only atoms that the question reaches, but with two variables in a large graph that may be
// everything.
//
//     EsQuestion question; ES_TRY(es_question_parse(graph, "uncle(otto,X)", &question));
//     EsAnswersSettings settings = es_answers_defaults();
//     EsAnswers answers;
//     ES_TRY(es_answers_find(graph, &settings, pool, question.goals[0].cells, &answers));
//     for (int32_t i = 0; i < answers.count; i++) { show(answers.items[i].cells); }
//     es_answers_destroy(&answers);
#ifndef ES_PROOF_ANSWERS_H
#define ES_PROOF_ANSWERS_H

#include "proof/search/prover.h"
#include "proof/search/question.h"

ES_EXTERN_C_BEGIN

#define ES_ANSWERS_CLOSURE_LIMIT 1000000

typedef struct EsAnswersSettings {
    EsProverSettings prover; // limits of each proof; max_states is the limit of the search too
    int32_t closure_limit;   // atoms; 0: never make the closure
    int keeps_closure;       // with provenance, in the answers, where one was made
} EsAnswersSettings;

typedef enum EsAnswersMethod {
    ES_ANSWERS_DIRECT, // nothing was asked for but a ground atom
    ES_ANSWERS_CLOSURE,
    ES_ANSWERS_SEARCH
} EsAnswersMethod;

// the steps of an answer whose proofs are all beyond the limits of the prover
#define ES_ANSWER_BEYOND INT32_MAX

typedef struct EsAnswer {
    union {
        EsAtom atom;
        EsAtom cells[ES_ATOM_MAX_CELLS];
    };
    int32_t n_steps; // 0: a fact; ES_ANSWER_BEYOND
} EsAnswer;

// Counts of the search with free variables; all zero without one.
typedef struct EsAnswersReport {
    int64_t n_states;
    int is_full; // it met max_states
    int64_t
        n_overlong; // states it left out: over ES_PROOF_MAX_ATOMS atoms, which no setting raises
} EsAnswersReport;

typedef struct EsAnswers {
    EsAnswer *items; // owned
    int32_t count;
    EsAnswersMethod method;
    int is_complete;      // no answer within the limits of the prover is missing
    int is_closure_known; // no answer is missing at all
    int32_t n_deeper;    // atoms that follow, but not within the limits on steps and atoms; answers
                         // when the closure is known
    int32_t n_undecided; // atoms whose proof met the limit on states; likewise
    int32_t n_steps_otherwise; // a ground question that is a fact: steps of a proof without that
                               // fact, or as EsProverAnswer has it
    EsAnswersReport search;
    EsClosure *closure; // with provenance, NULL: none was made or asked for; owned
} EsAnswers;

// Those of es_prover_defaults, and ES_ANSWERS_CLOSURE_LIMIT.
EsAnswersSettings es_answers_defaults(void);

// `form` is a goal of a question. The same for any number of threads. After a failure there is
// nothing to destroy.
EsStatus es_answers_find(const EsKnowledgeGraph *graph, const EsAnswersSettings *settings,
                         EsThreadPool *pool, const EsAtom *form, EsAnswers *answers);
void es_answers_destroy(EsAnswers *answers);

ES_EXTERN_C_END

#endif
