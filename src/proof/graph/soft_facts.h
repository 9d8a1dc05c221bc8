// Soft facts: atoms that a model holds to be true, with its score and their rank, to be added to
// the facts of a graph.
//
// A line is "predicate(a,b) SCORE RANK"; lines that begin with # or % are skipped. Atoms that are
// queries of the valid or test split are always dropped: adding them would give the answers away.
#ifndef ES_PROOF_SOFT_FACTS_H
#define ES_PROOF_SOFT_FACTS_H

#include "proof/graph/knowledge_builder.h"

ES_EXTERN_C_BEGIN

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

// Add to a builder that has the names and facts of `graph` under its numbers (knowledge_builder.h).
// INPUT says file, line and column.
EsStatus es_soft_facts_read(EsKgBuilder *builder, const EsKnowledgeGraph *graph,
                            const EsSoftFilter *filter, const char *name, const char *text,
                            size_t bytes, EsSoftCounts *counts);

ES_EXTERN_C_END

#endif
