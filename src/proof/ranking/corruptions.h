// Atoms that are taken to be false: a query with one argument replaced, none of them known true.
//
// Known are the facts and the queries of all splits. A replacement is uniform over the constants,
// or, in a graph with domains that uses them, over the domain of the one it replaces. Everything is
// a function of (seed, query, place): two evaluations rank against the same candidates. A place is
// the number of an argument, from 0; a query without arguments has no corruption. Atoms have the
// cells of the query's predicate (es_kg_cells), one atom behind the other.
//
//     EsKnownAtoms *known; ES_TRY(es_known_atoms_create(graph, &known));
//     EsCorruptionSettings settings = {.seed = 1, .uses_domains = 0};
//     int32_t n = es_corruptions_list(known, &settings, &query, ES_CORRUPT_HEAD, 100, atoms);
#ifndef ES_PROOF_CORRUPTIONS_H
#define ES_PROOF_CORRUPTIONS_H

#include "proof/ranking/corruption_rules.h"

ES_EXTERN_C_BEGIN

// For settings that use domains: INPUT when the graph has none, since any constant would then do.
// `option` is the user's name of the setting, `name` that of the graph; both are in the message.
EsStatus es_corruptions_need_domains(const EsKnowledgeGraph *graph, const char *option,
                                     const char *name);

// Facts and queries of all splits, for exact membership; borrows the graph, read by any threads.
typedef struct EsKnownAtoms EsKnownAtoms;
EsStatus es_known_atoms_create(const EsKnowledgeGraph *graph, EsKnownAtoms **known);
void es_known_atoms_destroy(EsKnownAtoms *known);
int es_known_atoms_has(const EsKnownAtoms *known, const EsAtom *atom);
const EsKnowledgeGraph *es_known_atoms_graph(const EsKnownAtoms *known);
const EsKnownTable *es_known_atoms_table(const EsKnownAtoms *known); // borrowed

// The most that es_corruptions_list can give for any query and place.
int32_t es_corruptions_capacity(const EsKnownAtoms *known);

// `count` distinct corruptions that are not known, in the order drawn; fewer when there are fewer.
// count 0: all, by number of the constant. Returns how many were written; 0 for a place that the
// predicate has not.
int32_t es_corruptions_list(const EsKnownAtoms *known, const EsCorruptionSettings *settings,
                            const EsAtom *query, int place, int32_t count, EsAtom *atoms);

// One corruption for training; `draw` numbers the draws. Returns 0 when the query has none in that
// place; the atom is then the query itself. `atom` may be `query`.
int es_corruption_draw(const EsKnownAtoms *known, const EsCorruptionSettings *settings,
                       const EsAtom *query, int place, uint64_t draw, EsAtom *atom);

ES_EXTERN_C_END

#endif
