// Collects names, facts, queries and rules in any order, then makes a knowledge graph of them.
//
// While collecting, names have provisional numbers from 1 in order of appearance; finishing sorts
// the names and renumbers every atom. One thread per builder; with a pool it shares out its work,
// and that of the texts it reads, to the same bits.
//
//     EsKgBuilder *builder; ES_TRY(es_kg_builder_create(&builder));
//     int32_t ann; EsStatus status = es_kg_builder_intern(builder, ES_KG_CONSTANT, "ann", 3, &ann);
//     ...
//     if (status == ES_STATUS_OK) { status = es_kg_builder_finish(builder, &graph); }
//     es_kg_builder_destroy(builder);
#ifndef ES_PROOF_KNOWLEDGE_BUILDER_H
#define ES_PROOF_KNOWLEDGE_BUILDER_H

#include "base/thread_pool.h"
#include "proof/graph/knowledge_graph.h"

ES_EXTERN_C_BEGIN

typedef struct EsKgBuilder EsKgBuilder;

// Names of variables are kept for a warning about those that are spelt as a constant.
typedef enum EsKgNameKind {
    ES_KG_CONSTANT,
    ES_KG_PREDICATE,
    ES_KG_VARIABLE,
    ES_KG_N_NAME_KINDS
} EsKgNameKind;

EsStatus es_kg_builder_create(EsKgBuilder **builder);
void es_kg_builder_destroy(EsKgBuilder *builder);

// A builder with the names, queries and rules of a graph, but none of its facts. Its numbers are
// those of the graph, and so are those of the graph it makes unless names are added.
EsStatus es_kg_builder_create_from(const EsKnowledgeGraph *graph, EsKgBuilder **builder);

// Borrowed until the builder is destroyed; NULL, as at first: the calling thread alone.
void es_kg_builder_set_pool(EsKgBuilder *builder, EsThreadPool *pool);
EsThreadPool *es_kg_builder_pool(const EsKgBuilder *builder);

// The provisional number of a name, new or known. The text holds no zero byte and is copied.
EsStatus es_kg_builder_intern(EsKgBuilder *builder, EsKgNameKind kind, const char *text,
                              size_t bytes, int32_t *number);

// Begin to fetch what es_kg_builder_intern will read for a name of at least one byte.
void es_kg_builder_prefetch(const EsKgBuilder *builder, EsKgNameKind kind, const char *text,
                            size_t bytes);

// The provisional number of a predicate that compares, for bodies of rules.
EsStatus es_kg_builder_intern_test(EsKgBuilder *builder, EsKgTest test, int32_t *number);

// The provisional number of the predicate that negates another, for bodies of rules; *negated is
// that of the other, and both have as many arguments.
EsStatus es_kg_builder_intern_negation(EsKgBuilder *builder, const char *text, size_t bytes,
                                       int arity, int32_t *number, int32_t *negated);

// Say how many arguments a predicate has, at most ES_KG_MAX_ARITY. Returns what was said first; two
// where nothing ever is. An atom has two cells when its predicate was said to have over two.
int es_kg_builder_claim_arity(EsKgBuilder *builder, int32_t predicate, int arity);

// The number of arguments that was claimed for a name; -1 for none, or one without a claim.
int es_kg_builder_claimed_arity(const EsKgBuilder *builder, const char *text, size_t bytes);

// Make room for as many queries of a split, and facts besides for ES_KG_SPLIT_TRAIN; a hint.
EsStatus es_kg_builder_reserve(EsKgBuilder *builder, EsKgSplit split, int64_t n_atoms);

// Atoms in provisional numbers. Repeated facts are kept once.
EsStatus es_kg_builder_add_fact(EsKgBuilder *builder, const EsAtom *atom);
EsStatus es_kg_builder_add_query(EsKgBuilder *builder, EsKgSplit split, const EsAtom *atom);

// Predicates and constants in provisional numbers, variables as EsHornRule has them.
EsStatus es_kg_builder_add_rule(EsKgBuilder *builder, const EsHornRule *rule);

// Remember how a variable of a rule file is spelt, and its line the first time.
EsStatus es_kg_builder_note_variable(EsKgBuilder *builder, const char *text, size_t bytes,
                                     int line);

// Add the names, facts and queries of builders that hold neither rules nor variables, in their
// order and as if each atom had been added here, provisional numbers included. Where a predicate
// has two numbers of arguments nothing is done, and *is_absorbed is 0. The pieces can only be
// destroyed afterwards.
EsStatus es_kg_builder_absorb(EsKgBuilder *builder, EsKgBuilder *const *pieces, int n_pieces,
                              int *is_absorbed);

// Make the graph; no domains, all depths absent. INPUT when its atoms cannot be numbered, or when
// a fact, a query or the head of a rule has a predicate that compares. The builder is spent and can
// only be destroyed.
EsStatus es_kg_builder_finish(EsKgBuilder *builder, EsKnowledgeGraph **graph);

// Give a graph with its names its facts, of one cell and in its numbers: without repetitions, in
// both orders, and indexed. `pool` may be NULL.
EsStatus es_fact_index_make(const EsAtom *facts, int32_t count, EsThreadPool *pool,
                            EsKnowledgeGraph *graph);

ES_EXTERN_C_END

#endif
