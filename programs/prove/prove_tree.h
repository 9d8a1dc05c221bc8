// Proof trees for people and programs.
#ifndef ES_PROGRAMS_PROVE_TREE_H
#define ES_PROGRAMS_PROVE_TREE_H

#include <jansson.h>
#include <stdio.h>

#include "proof/search/proof_tree.h"

// Print a proof as an indented tree, atoms on the left, their rules or "fact" in a column on the
// right; `indent` blanks before each line. Branches are drawn with box characters when the stream
// is a terminal with a UTF-8 locale, else with | ` and -.
EsStatus es_prove_tree_print(const EsProofTree *tree, int indent, FILE *stream);

// {"atom", "fact": true} or {"atom", "rule": text, "line": of the rule file, "body": [...]}; NULL
// when out of memory.
json_t *es_prove_tree_json(const EsProofTree *tree);

// "predicate(a,b)" as JSON, null when it is not UTF-8.
json_t *es_prove_atom_json(const EsKnowledgeGraph *graph, EsAtom atom);

#endif
