// Datalog with constants, comparisons and stratified negation, evaluated bottom up.
//
// A program has numbered relations of 0 to 4 columns and rules over them; terms are constants
// (1..n_constants) and variables (-1, -2, ...; any numbers, each rule by itself). Facts are added,
// then run derives everything that follows: semi-naive, so that every combination of body atoms is
// met once, in an order that does not depend on the number of threads. It stops when `limit` tuples
// are there, facts included, and then says so; what was derived up to then does follow. With
// provenance it keeps the first derivation of every tuple, whose body came before it, so that
// following derivations always ends at facts.
//
//     EsDatalog *datalog; ES_TRY(es_datalog_create(&program, &settings, &datalog));
//     ES_TRY(es_datalog_add_fact(datalog, edge, (int32_t[]){1, 2}));
//     ES_TRY(es_datalog_run(datalog, pool));
//     for (int32_t i = 0; i < es_datalog_count(datalog, path); i++) {
//         visit(es_datalog_tuple(datalog, path, i));
//     }
//     es_datalog_destroy(datalog);
#ifndef ES_PROOF_DATALOG_H
#define ES_PROOF_DATALOG_H

#include "base/thread_pool.h"
#include "proof/search/tuple_relation.h"

ES_EXTERN_C_BEGIN

#define ES_DATALOG_MAX_ARITY ES_TUPLE_MAX_ARITY

typedef enum EsLiteralKind {
    ES_LITERAL_ATOM,
    ES_LITERAL_NOT, // the atom does not follow
    // comparisons of terms[0] and terms[1]; all but != hold of integers alone
    ES_LITERAL_NOT_EQUAL,
    ES_LITERAL_LESS,
    ES_LITERAL_LESS_EQUAL,
    ES_LITERAL_GREATER,
    ES_LITERAL_GREATER_EQUAL
} EsLiteralKind;

typedef struct EsLiteral {
    EsLiteralKind kind;
    int32_t relation;                    // of atoms
    int32_t terms[ES_DATALOG_MAX_ARITY]; // as many as the relation has columns
} EsLiteral;

// Every variable occurs in an atom of the body that is not negated.
typedef struct EsDatalogRule {
    EsLiteral head;
    const EsLiteral *body; // in any order
    int32_t n_body;
} EsDatalogRule;

// the value of a constant that is no integer
#define ES_DATALOG_NO_INTEGER INT64_MIN

typedef struct EsDatalogProgram {
    int32_t n_relations; // numbered from 0
    int32_t n_constants; // numbered from 1
    int32_t n_rules;
    const int32_t *arities; // 0 to ES_DATALOG_MAX_ARITY                          (n_relations)
    const EsDatalogRule *rules;
    const int64_t *values;    // of constants, or ES_DATALOG_NO_INTEGER; NULL: no integers
                              //                                              (n_constants + 1)
    const char *const *names; // of relations, for errors; NULL: numbers          (n_relations)
} EsDatalogProgram;

typedef struct EsDatalogSettings {
    int64_t limit; // tuples, facts included; at most 2^31 - 1
    int keeps_provenance;
} EsDatalogSettings;

typedef struct EsDatalog EsDatalog;

// The stratum of every relation, from 0: that of a rule's head is at least those of its body, and
// above those of negated atoms. INPUT names a cycle through negation when there is one.
EsStatus es_datalog_stratify(const EsDatalogProgram *program, int32_t *strata);

// The program must outlive it. INPUT when it is not stratified; ARGUMENT when it breaks the
// contract above.
EsStatus es_datalog_create(const EsDatalogProgram *program, const EsDatalogSettings *settings,
                           EsDatalog **datalog);
void es_datalog_destroy(EsDatalog *datalog);

// Before the run. A fact that is there already is not added again; facts may exceed the limit.
EsStatus es_datalog_add_fact(EsDatalog *datalog, int32_t relation, const int32_t *terms);

// `count` facts of a relation, each `stride` words behind the last; quickest as its first and in
// ascending order. `pool` may be NULL.
EsStatus es_datalog_add_facts(EsDatalog *datalog, int32_t relation, const int32_t *terms,
                              int32_t stride, int32_t count, EsThreadPool *pool);

// Derive everything, once. `pool` may be NULL: this thread alone.
EsStatus es_datalog_run(EsDatalog *datalog, EsThreadPool *pool);

// Returns whether the run came to its end: a tuple that is not there does not follow.
int es_datalog_is_complete(const EsDatalog *datalog);

// Tuples of a relation, the facts first, in the order they were added, then in that of derivation.
int32_t es_datalog_count(const EsDatalog *datalog, int32_t relation);
int32_t es_datalog_count_facts(const EsDatalog *datalog, int32_t relation);
const int32_t *es_datalog_tuple(const EsDatalog *datalog, int32_t relation, int32_t i);
int es_datalog_has(const EsDatalog *datalog, int32_t relation, const int32_t *terms);

// The number of a tuple, -1 when it is not there. Quick with provenance, a search without.
int32_t es_datalog_find(const EsDatalog *datalog, int32_t relation, const int32_t *terms);

// Times a rule's body was satisfied, whether or not it gave something new.
int64_t es_datalog_n_joined(const EsDatalog *datalog);

// The first derivation of a tuple. body[k] is the number of the tuple that the k-th atom of the
// rule's body that is not negated became, in its relation.
typedef struct EsDerivation {
    int32_t rule;        // of the program; -1: a fact
    const int32_t *body; // NULL for a fact
} EsDerivation;

// With provenance alone.
EsDerivation es_datalog_derivation(const EsDatalog *datalog, int32_t relation, int32_t i);

// Bytes that provenance takes for a derived tuple of a relation.
size_t es_datalog_provenance_bytes(const EsDatalog *datalog, int32_t relation);

ES_EXTERN_C_END

#endif
