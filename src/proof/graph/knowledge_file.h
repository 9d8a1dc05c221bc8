// Reads a knowledge graph from the files of a folder, or from one Prolog file.
//
//     train.txt or train.tsv            the facts, which are the queries of the train split too
//     rules.txt                         Horn rules, in the order in which they are tried
//     valid.txt, test.txt (or .tsv)     queries; a split without a file is empty
//     train_depths.txt, valid_..., test_...    published minimal depths; may be missing
//     domain2constants.txt              groups of constants; may be missing
//
// A path that ends in ".pl" is one file of facts and rules (prolog_text.h). knowledge_text.h and
// docs/proving.md describe the others.
#ifndef ES_PROOF_KNOWLEDGE_FILE_H
#define ES_PROOF_KNOWLEDGE_FILE_H

#include "proof/graph/prolog_text.h"

ES_EXTERN_C_BEGIN

// Soft facts: atoms that a model holds to be true, with its score and their rank, to be added to
// the facts of a graph. A line is "predicate(a,b) SCORE RANK"; lines that begin with # or % are
// skipped. Atoms that are queries of the valid or test split are always dropped: adding them would
// give the answers away.
typedef struct EsSoftFilter {
    double min_score; // lines with a lower score are left out
    int64_t max_rank; // and those with a higher rank; 0: any rank
} EsSoftFilter;

typedef struct EsSoftCounts {
    int32_t n_read;     // lines that held an atom
    int32_t n_filtered; // left out for score or rank
    int32_t n_queries;  // dropped as queries of the valid or test split
    int32_t n_known;    // facts already
    int32_t n_added;    // a line that comes twice counts twice
} EsSoftCounts;

typedef enum EsKgRulesUse {
    ES_KG_RULES_NEEDED,
    ES_KG_RULES_IF_THERE, // may be missing; where they are, their names are the graph's, as ever
    ES_KG_RULES_LEFT_OUT, // a file of rules is not looked at
} EsKgRulesUse;

typedef struct EsKgSource {
    const char *path;       // a folder, or a file that ends in ".pl"
    const char *rules;      // a file name in the folder or a path with a slash in it, NULL:
                            // rules.txt; for a Prolog file a path, NULL: its own rules alone
    EsKgRulesUse rules_use; // may be missing: rules.txt alone, not a file that is named
    const char *soft;       // path of a file of soft facts, NULL: none
    EsSoftFilter filter;    // of soft facts
    int skips_unknown;      // clauses of a Prolog file that are not understood
    EsThreadPool *pool;     // for files of triples; NULL: the calling thread alone
} EsKgSource;

// Counts of the Prolog file and of soft facts; all zero where there was no such file.
typedef struct EsKgReading {
    EsPrologCounts prolog;
    EsSoftCounts soft;
} EsKgReading;

// INPUT when a file is wrong, with line and column, or when one that must be there is missing.
// `reading` may be NULL. Logged as warnings: clauses of a Prolog file that were passed over, rules
// that are needed and can never be used, variables of a rule file that are spelt as a constant,
// constants of its bodies that no fact and no query has, and decimals where rules compare in order.
EsStatus es_kg_load_source(const EsKgSource *source, EsKgReading *reading,
                           EsKnowledgeGraph **graph);

// The same for a path and rules alone.
EsStatus es_kg_load(const char *path, const char *rules, EsKnowledgeGraph **graph);

// Add to a builder that has the names and facts of `graph` under its numbers (knowledge_builder.h).
// INPUT says file, line and column.
EsStatus es_soft_facts_read(EsKgBuilder *builder, const EsKnowledgeGraph *graph,
                            const EsSoftFilter *filter, const char *name, const char *text,
                            size_t bytes, EsSoftCounts *counts);

ES_EXTERN_C_END

#endif
