// Questions of several goals for `esper prove query`, and the drawing of proofs that they share
// with questions of one.
#ifndef ES_PROGRAMS_PROVE_CONJUNCTION_H
#define ES_PROGRAMS_PROVE_CONJUNCTION_H

#include <jansson.h>
#include <stdio.h>

#include "proof/search/answers.h"
#include "proof/search/proof_tree.h"

typedef struct EsProveConjunction {
    const char *data; // name of the graph in results
    const char *text; // the question
    const EsKnowledgeGraph *graph;
    const EsQuestion *question;
    EsProverSettings prover; // limits of the shortest proofs; others are the closure's
    int32_t closure_limit;
    int limit; // answers shown
    int explains, as_json;
} EsProveConjunction;

// Answer a question of several goals and print it.
EsStatus es_prove_conjunction(const EsProveConjunction *ask);

// Print a proof as an indented tree, atoms on the left, their rules or "fact" in a column on the
// right; `indent` blanks before each line. Branches are drawn with box characters when the stream
// is a terminal with a UTF-8 locale, else with | ` and -.
EsStatus es_prove_print_tree(const EsProofTree *tree, int indent, FILE *stream);

// what stands for a proof of over ES_PROOF_TREE_MAX_NODES
extern const char es_prove_too_large[];

// {"atom", "fact": true}, {"atom", "comparison": true}, {"atom", "negation": true} or {"atom",
// "rule": text, "line": of its file, "body": [...]}; NULL when out of memory.
json_t *es_prove_tree_json(const EsProofTree *tree);

#endif
