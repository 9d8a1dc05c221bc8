// The texts a knowledge graph is made of: triples, rules, depths, domains.
//
// Each call reads one whole text; `name` stands for it in messages, which say file, line and column
// (both from 1, columns in bytes): "train.txt:12:7: ...". Text is any bytes; a line that does not
// fit the format is an INPUT failure, never skipped. Lines end with LF or CRLF, the last may lack
// its end; blank lines are skipped, and outside of tab-separated files so are those that begin with
// %.
#ifndef ES_PROOF_KNOWLEDGE_TEXT_H
#define ES_PROOF_KNOWLEDGE_TEXT_H

#include "proof/graph/knowledge_builder.h"

ES_EXTERN_C_BEGIN

// of a constant, predicate, variable or domain
#define ES_KG_MAX_NAME_BYTES 1024

// "predicate(a,b)." with none to ES_KG_MAX_ARITY arguments, with or without the period and quotes,
// or three tab-separated columns head, relation, tail, when the first line has a tab outside of
// quotes and brackets. Adds queries to the split, and facts besides for ES_KG_SPLIT_TRAIN. *n_read:
// lines that held an atom.
EsStatus es_kg_text_read_triples(EsKgBuilder *builder, EsKgSplit split, const char *name,
                                 const char *text, size_t bytes, int32_t *n_read);

// "NAME:CONFIDENCE:b1(x,y), y != z, b2(y,paris) -> head(x,z)"; one to ES_HORN_MAX_BODY atoms,
// negations not p(x,y) and comparisons (!= < <= > >=) before the arrow, where an atom of over two
// arguments counts twice. An argument in quotes is a
// constant; a letter with nothing but digits behind it, or what begins with a capital letter, _ or
// ?, is a variable of its line (a plain _ is a new one each time); anything else is a constant. The
// variables of the head and of comparisons occur in an atom of the body. Name and confidence (a
// number) are not kept.
EsStatus es_kg_text_read_rules(EsKgBuilder *builder, const char *name, const char *text,
                               size_t bytes, int32_t *n_read);

// "predicate(a,b) DEPTH", -1 for none; each atom must be a query of the split.
EsStatus es_kg_text_read_depths(EsKnowledgeGraph *graph, EsKgSplit split, const char *name,
                                const char *text, size_t bytes);

// "domain constant constant ..." and, after the domains they name, "predicate:domain:domain". To be
// called once for a graph.
EsStatus es_kg_text_read_domains(EsKnowledgeGraph *graph, const char *name, const char *text,
                                 size_t bytes);

ES_EXTERN_C_END

#endif
