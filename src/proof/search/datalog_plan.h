// Join plans of a Datalog program: for each rule and each atom of its body that new tuples may come
// in by, the order of the other atoms, and how each is looked up.
#ifndef ES_PROOF_DATALOG_PLAN_H
#define ES_PROOF_DATALOG_PLAN_H

#include "proof/search/datalog.h"

ES_EXTERN_C_BEGIN

typedef enum EsStepKind {
    ES_STEP_SCAN,  // all tuples
    ES_STEP_INDEX, // those with known terms in some columns
    ES_STEP_FIND,  // one tuple, all terms known
    ES_STEP_NOT,
    ES_STEP_COMPARE
} EsStepKind;

// Which tuples of its relation a step sees.
typedef enum EsStepSight {
    ES_SIGHT_TAKEN,  // of another relation than the new tuples': those taken so far
    ES_SIGHT_BEFORE, // of the same, before them in the body: not the new ones
    ES_SIGHT_ALL     // of the same, behind them: the new ones, too
} EsStepSight;

// A column of an atom and a variable: to set from it, or to compare with it.
typedef struct EsColumnUse {
    int column;
    int32_t variable; // place in the bindings
} EsColumnUse;

typedef struct EsStep {
    EsStepKind kind;
    EsLiteralKind literal; // of a comparison
    EsStepSight sight;
    int32_t relation;
    int32_t place; // among the atoms of the body that are not negated
    int index;     // of the relation
    int n_key;     // terms to look up, or to compare: a constant, or -1 - variable
    int32_t key[ES_DATALOG_MAX_ARITY];
    int n_set, n_same;
    EsColumnUse set[ES_DATALOG_MAX_ARITY];  // variables that the tuple gives
    EsColumnUse same[ES_DATALOG_MAX_ARITY]; // and that it has again
} EsStep;

// A rule whose body is entered by one atom; steps[0] takes the new tuples and has constants of the
// atom in its key, by `columns`. Without atoms there is no such step.
typedef struct EsPlan {
    int32_t rule, stratum;
    int32_t delta; // relation of the new tuples, -1: none
    int32_t head;  // relation
    int32_t head_terms[ES_DATALOG_MAX_ARITY];
    int columns[ES_DATALOG_MAX_ARITY];
    EsStep *steps; // owned by the plans
    int32_t n_steps;
    int32_t n_places; // atoms of the body that are not negated
} EsPlan;

typedef struct EsPlans {
    EsPlan *plans; // by stratum, relation of new tuples, head; owned
    int32_t count;
    int32_t n_variables; // most of any rule
    int32_t n_places;    // likewise
    int32_t n_strata;
    int32_t *strata; // of relations; owned                                       (n_relations)
    EsStep *steps;   // of all plans; owned
} EsPlans;

// Checks the program, finds the strata, and plans; adds the indices to the relations. After a
// failure es_plans_end still has to be called.
EsStatus es_plans_begin(const EsDatalogProgram *program, EsTupleRelation *relations,
                        EsPlans *plans);
void es_plans_end(EsPlans *plans);

ES_EXTERN_C_END

#endif
