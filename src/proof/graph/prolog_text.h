// Knowledge graphs as Prolog text: facts p("a",b). and rules h(X,Y) :- p(X,Z), q(Z,paris), X \= Y.
//
// Reading takes all clauses that a knowledge graph can hold: ground facts with at most
// ES_KG_MAX_ARITY arguments, and rules of up to ES_HORN_MAX_BODY atoms, negations (\+) and
// comparisons (\= \== dif/2 < =< > >=) whose head, negated and compared variables occur in an atom
// of the body; integer(X) beside a comparison of X says nothing new. Declarations (:- dynamic p/2.)
// are passed over. Any other clause or directive is an INPUT failure with file, line, column and
// reason, or is passed over and counted on request. Text that is no Prolog (a quote or clause that
// never ends, a zero byte) is always a failure, and so is a fact or rule with a name of over
// ES_KG_MAX_NAME_BYTES.
#ifndef ES_PROOF_PROLOG_TEXT_H
#define ES_PROOF_PROLOG_TEXT_H

#include "proof/graph/knowledge_builder.h"

ES_EXTERN_C_BEGIN

typedef struct EsPrologCounts {
    int32_t n_facts, n_rules;
    int32_t n_directives;
    int32_t n_skipped; // clauses and directives that were not understood
    int first_skipped; // line of the first of them, from 1; 0: none
} EsPrologCounts;

// Adds the facts and rules of the text; facts are queries of the train split too. Leading
// underscores of predicates are taken off, since a bare name cannot begin with one; quotes are
// taken off, with \\, \' and \" and doubled quotes inside them put right.
EsStatus es_prolog_text_read(EsKgBuilder *builder, const char *name, const char *text, size_t bytes,
                             int skips_unknown, EsPrologCounts *counts);

// Write facts and rules so that SWI-Prolog runs them: every predicate tabled, so that recursive
// rules end; integers bare, other names in quotes; comparisons at the end of their bodies. Queries
// are not written.
EsStatus es_prolog_text_save(const EsKnowledgeGraph *graph, const char *path);

ES_EXTERN_C_END

#endif
