// Reads a knowledge graph from the files of a folder.
//
//     train.txt or train.tsv            the facts, which are the queries of the train split too
//     rules.txt                         Horn rules, in the order in which they are tried
//     valid.txt, test.txt (or .tsv)     queries; a split without a file is empty
//     train_depths.txt, valid_..., test_...    published minimal depths; may be missing
//     domain2constants.txt              groups of constants; may be missing
//
// What the files look like is in knowledge_text.h and docs/proving.md.
#ifndef ES_PROOF_KNOWLEDGE_FILE_H
#define ES_PROOF_KNOWLEDGE_FILE_H

#include "proof/knowledge_graph.h"

ES_EXTERN_C_BEGIN

// `rules` is a file name in the folder or a path with a slash in it, NULL for rules.txt. INPUT when
// a file is wrong, with line and column, or when one that must be there is missing.
EsStatus es_kg_load(const char *folder, const char *rules, EsKnowledgeGraph **graph);

ES_EXTERN_C_END

#endif
