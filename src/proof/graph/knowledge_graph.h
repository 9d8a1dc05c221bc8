// A knowledge graph in memory: names, facts with two indices, Horn rules, and queries to prove.
//
// Everything is numbers. Constants are 1..C and predicates 1..P, each in byte order of their names;
// 0 stands for "no term". In rules a variable is negative: -1, -2, ... by first appearance, head
// before body, counted anew in each rule. A graph is made once (knowledge_file.h reads one,
// kinship_graph.h generates one), is never changed afterwards, and may be read by any number of
// threads. The arrays are plain, so that a copy of the struct with device pointers serves the same
// functions on a GPU.
//
//     EsKnowledgeGraph *graph; ES_TRY(es_kg_load("kg/family", NULL, &graph));
//     int32_t aunt = es_kg_predicate(graph, "aunt"), ann = es_kg_constant(graph, "ann");
//     EsAtomSpan span = es_kg_facts_with_a(graph, aunt, ann); // aunt(ann,?)
//     for (int32_t i = 0; i < span.count; i++) { visit(span.atoms[i].b); }
//     es_kg_destroy(graph);
#ifndef ES_PROOF_KNOWLEDGE_GRAPH_H
#define ES_PROOF_KNOWLEDGE_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "base/checksum.h"
#include "base/macros.h"
#include "esper/status.h"

ES_EXTERN_C_BEGIN

// atoms and tests before the arrow of a rule
#define ES_HORN_MAX_BODY 16
// proof_rules.h has one bit for each of them and each variable of a state
#define ES_HORN_MAX_VARIABLES 24

// predicate(a,b). A term is a constant (> 0), a variable of a rule (< 0) or nothing (0).
typedef struct EsAtom {
    int32_t predicate, a, b;
} EsAtom;

// The order of facts, by predicate and then arguments; for qsort over EsAtom.
static inline int es_atom_compare(const void *left, const void *right) {
    const EsAtom *x = (const EsAtom *)left, *y = (const EsAtom *)right;
    if (x->predicate != y->predicate) {
        return x->predicate < y->predicate ? -1 : 1;
    }
    if (x->a != y->a) {
        return x->a < y->a ? -1 : 1;
    }
    return (x->b > y->b) - (x->b < y->b);
}

// head :- body[0], ..., body[n_body - 1]. A term is a constant (> 0) or a variable (< 0); the
// variables of the head and of tests occur in a body atom that is no test.
typedef struct EsHornRule {
    EsAtom head;
    int n_body;                    // 1 to ES_HORN_MAX_BODY
    int n_variables;               // -1 to -n_variables occur
    EsAtom body[ES_HORN_MAX_BODY]; // zero past n_body
    int line;                      // in its file, from 1; for generated rules their number
    int is_prolog;                 // that file is Prolog text, which may have a rule file beside it
} EsHornRule;

// Predicates that compare their two terms, for bodies of rules alone. A graph whose rules use one
// has it among its predicates, under the name that rule files spell it with. != compares any two
// constants; the others hold of integers alone, constants that are spelt as one: 0, 12, -7, without
// leading zeros and of at most 18 digits.
typedef enum EsKgTest {
    ES_KG_NO_TEST,
    ES_KG_NOT_EQUAL,
    ES_KG_LESS,
    ES_KG_LESS_EQUAL,
    ES_KG_GREATER,
    ES_KG_GREATER_EQUAL,
    // the predicate "not q" holds of terms that q does not follow of; decided beforehand, by the
    // closure (es_closure_decide)
    ES_KG_NEGATION,
    ES_KG_N_TESTS
} EsKgTest;

// "", "!=", "<", "<=", ">", ">=", "not"
extern const char *const es_kg_test_names[ES_KG_N_TESTS];

// Returns whether a name is one of these or begins with "not ", which no predicate with facts or
// rules can have.
int es_kg_is_test_name(const char *text, size_t bytes);

// the value of a constant that is no integer
#define ES_KG_NO_INTEGER INT64_MIN

// Neighbouring atoms of an index; borrowed from the graph.
typedef struct EsAtomSpan {
    const EsAtom *atoms;
    int32_t count;
} EsAtomSpan;

// How the facts of one predicate are found by a constant.
typedef struct EsFactRows {
    int64_t first; // of its entries
    int32_t mask;  // of slots; -1: rows
} EsFactRows;

// Finds the facts of a predicate that have a constant in one place. A predicate with many facts
// has a row for every constant: entry x says where its facts begin, entry x + 1 where they end. One
// with few, for which that would be mostly holes, has a hash table of (constant, begin, end), at
// most two thirds full; constant 0 is a free slot. Memory follows the facts: at most 36 bytes for
// each, or 4 MB where rows for everything take no more.
typedef struct EsFactIndex {
    EsFactRows *rows; // owned                                                             (P + 1)
    int32_t *entries; // owned
} EsFactIndex;

// the depth of a query for which none was published
#define ES_KG_DEPTH_ABSENT INT32_MIN
// published: no derivation was found
#define ES_KG_DEPTH_NONE (-1)

// Queries in the order of their file, repetitions kept.
typedef struct EsQuerySplit {
    EsAtom *atoms;   // (count)
    int32_t *depths; // published minimal depth, ES_KG_DEPTH_NONE or ES_KG_DEPTH_ABSENT    (count)
    int32_t count;
} EsQuerySplit;

typedef enum EsKgSplit {
    ES_KG_SPLIT_TRAIN, // the facts themselves, as queries: the prover must leave out the one asked
    ES_KG_SPLIT_VALID,
    ES_KG_SPLIT_TEST,
    ES_KG_N_SPLITS
} EsKgSplit;

// Groups of constants, for drawing a replacement of the same kind.
typedef struct EsDomains {
    int32_t count;        // 0: the graph has none; domains are 1..count in the order of the file
    const char **names;   // [0] is ""                                     (count + 1)
    int32_t *start;       // constants of domain d: members[start[d]] to members[start[d+1] - 1]
    int32_t *members;     // in the order of the file; constants that never occur are left out
    int32_t *of_constant; // first domain a constant is in, 0: none                     (C + 1)
    int32_t *of_argument; // domains of a predicate's a and b as typed by the file, 0: not typed
                          //                                                        (P + 1 x 2)
    int32_t n_unknown;    // names in the file that are no constant of this graph
    char *name_text;      // text of the names
} EsDomains;

// C constants, P predicates. All arrays owned.
typedef struct EsKnowledgeGraph {
    int32_t n_constants, n_predicates;
    const char **constant_names;  // byte order; [0] is ""                                (C + 1)
    const char **predicate_names; // byte order; [0] is ""                                (P + 1)

    int32_t n_facts;     // distinct
    EsAtom *facts;       // sorted by (predicate, a, b)                                    (n_facts)
    EsAtom *facts_by_b;  // the same, sorted by (predicate, b, a)                          (n_facts)
    int32_t *fact_start; // facts of p: fact_start[p] to fact_start[p+1] - 1, in both arrays (P + 2)
    EsFactIndex by_a;    // p(x,?) in `facts`
    EsFactIndex by_b;    // p(?,x) in facts_by_b

    int32_t n_rules;
    EsHornRule *rules;   // by head predicate, within one in the order of the file         (n_rules)
    int32_t *rule_start; // rules with head p: rule_start[p] to rule_start[p+1] - 1          (P + 2)
    int max_body;        // of any rule
    int max_rules;       // of any head

    int has_tests;          // some rule compares terms
    unsigned char *test_of; // EsKgTest of each predicate; NULL without tests              (P + 1)
    int32_t *negated;       // q of each predicate "not q", else 0; NULL without tests     (P + 1)
    int has_negation;       // some rule does
    EsAtom *decided;        // atoms that follow of predicates that are negated, sorted; owned
    int32_t n_decided;      // -1: not decided yet
    int64_t *values;        // of constants, ES_KG_NO_INTEGER: none; NULL without tests    (C + 1)

    int32_t n_skipped; // clauses of its file that were passed over: more may follow than is known

    // for warnings: variables of the rule file that are spelt as a constant of the graph
    int32_t n_shadowed;
    int32_t shadowed; // the first such constant, 0: none
    int shadowed_line;

    EsQuerySplit splits[ES_KG_N_SPLITS];
    EsDomains domains;
    char *name_text; // text of all names
} EsKnowledgeGraph;

// Accepts NULL.
void es_kg_destroy(EsKnowledgeGraph *graph);

// The number of a name, 0 when the graph has none such.
int32_t es_kg_constant(const EsKnowledgeGraph *graph, const char *name);
int32_t es_kg_predicate(const EsKnowledgeGraph *graph, const char *name);

// The value of a name that is spelt as an integer, ES_KG_NO_INTEGER for any other.
int64_t es_kg_integer(const char *name);

// Write "predicate(a,b)" as snprintf does; variables of rules are V1, V2, ... Names that could not
// be read back otherwise are in quotes. A comparison is "a != b".
int es_kg_format_atom(const EsKnowledgeGraph *graph, EsAtom atom, char *text, size_t bytes);

// Write a name of a fact as it can be read back: in single quotes when it begins with a quote or %,
// or has blanks, commas or brackets.
int es_kg_format_name(const char *name, char *text, size_t bytes);

// Returns whether an argument without quotes is a variable in a rule file: a letter with nothing
// but digits behind it (x, y2), or anything that begins with a capital letter, _ or ?.
int es_kg_looks_variable(const char *text, size_t bytes);

// holds any rule or atom whose names are within ES_KG_MAX_NAME_BYTES, every byte of them escaped
#define ES_RULE_TEXT_BYTES    106496
#define ES_KG_ATOM_TEXT_BYTES 6272

// Write "b1(x,z), z != y, b2(z,paris) -> head(x,y)" as snprintf does, as a rule file has it. The
// variables are x, y, z, u, v, w, s, t by their number and then x9, x10, ..., so that the head of a
// rule without constants is head(x,y) or head(x,x).
int es_horn_rule_format(const EsKnowledgeGraph *graph, const EsHornRule *rule, char *text,
                        size_t bytes);

// SHA-256 of all names in order: graphs with the same hash number their constants and predicates
// alike; facts may differ.
void es_kg_names_hash(const EsKnowledgeGraph *graph, char text[ES_SHA256_TEXT_BYTES]);

// Returns whether an atom is over the graph's predicates and constants, without variables.
static inline ES_HOST_DEVICE int es_kg_is_ground(const EsKnowledgeGraph *graph, EsAtom atom) {
    return atom.predicate >= 1 && atom.predicate <= graph->n_predicates && atom.a >= 1 &&
           atom.a <= graph->n_constants && atom.b >= 1 && atom.b <= graph->n_constants;
}

// The lookups below take 1 <= predicate <= P and 1 <= a, b <= C.

// Facts p(?,?), by (a, b).
static inline ES_HOST_DEVICE EsAtomSpan es_kg_facts_of(const EsKnowledgeGraph *graph,
                                                       int32_t predicate) {
    int32_t begin = graph->fact_start[predicate];
    EsAtomSpan span = {graph->facts + begin, graph->fact_start[predicate + 1] - begin};
    return span;
}

static inline ES_HOST_DEVICE uint32_t es_fact_index_slot(int32_t term, int32_t mask) {
    uint32_t mixed = (uint32_t)term * 0x9E3779B1u;
    return (mixed ^ (mixed >> 15)) & (uint32_t)mask;
}

// Finds where the facts of a predicate with this constant begin and end; the same twice when there
// are none.
static inline ES_HOST_DEVICE void es_fact_index_find(const EsFactIndex *index, int32_t predicate,
                                                     int32_t term, int32_t *begin, int32_t *end) {
    EsFactRows rows = index->rows[predicate];
    const int32_t *entries = index->entries + rows.first;
    if (rows.mask < 0) {
        *begin = entries[term];
        *end = entries[term + 1];
        return;
    }
    uint32_t slot = es_fact_index_slot(term, rows.mask);
    while (entries[3 * (size_t)slot] != 0 && entries[3 * (size_t)slot] != term) {
        slot = (slot + 1) & (uint32_t)rows.mask;
    }
    *begin = entries[3 * (size_t)slot + 1];
    *end = entries[3 * (size_t)slot + 2];
}

// Facts p(a,?), by b.
static inline ES_HOST_DEVICE EsAtomSpan es_kg_facts_with_a(const EsKnowledgeGraph *graph,
                                                           int32_t predicate, int32_t a) {
    int32_t begin, end;
    es_fact_index_find(&graph->by_a, predicate, a, &begin, &end);
    EsAtomSpan span = {graph->facts + begin, end - begin};
    return span;
}

// Facts p(?,b), by a.
static inline ES_HOST_DEVICE EsAtomSpan es_kg_facts_with_b(const EsKnowledgeGraph *graph,
                                                           int32_t predicate, int32_t b) {
    int32_t begin, end;
    es_fact_index_find(&graph->by_b, predicate, b, &begin, &end);
    EsAtomSpan span = {graph->facts_by_b + begin, end - begin};
    return span;
}

// Exact; a binary search in the facts p(a,?).
static inline ES_HOST_DEVICE int es_kg_has_fact(const EsKnowledgeGraph *graph, EsAtom atom) {
    EsAtomSpan span = es_kg_facts_with_a(graph, atom.predicate, atom.a);
    int32_t low = 0, high = span.count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (span.atoms[middle].b < atom.b) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < span.count && span.atoms[low].b == atom.b;
}

// Returns whether a predicate compares or negates.
static inline ES_HOST_DEVICE int es_kg_is_test(const EsKnowledgeGraph *graph, int32_t predicate) {
    return graph->has_tests && graph->test_of[predicate] != ES_KG_NO_TEST;
}

// Returns whether a comparison in order holds of two values.
static inline ES_HOST_DEVICE int es_kg_compare(int test, int64_t a, int64_t b) {
    if (a == ES_KG_NO_INTEGER || b == ES_KG_NO_INTEGER) {
        return 0;
    }
    switch (test) {
    case ES_KG_LESS:
        return a < b;
    case ES_KG_LESS_EQUAL:
        return a <= b;
    case ES_KG_GREATER:
        return a > b;
    default:
        return a >= b;
    }
}

// Returns whether a ground atom of a negated predicate follows; it must have been decided.
static inline ES_HOST_DEVICE int es_kg_was_decided(const EsKnowledgeGraph *graph, int32_t predicate,
                                                   int32_t a, int32_t b) {
    int32_t low = 0, high = graph->n_decided;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        const EsAtom *atom = &graph->decided[middle];
        int is_before = atom->predicate != predicate ? atom->predicate < predicate
                        : atom->a != a               ? atom->a < a
                                                     : atom->b < b;
        if (is_before) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < graph->n_decided && graph->decided[low].predicate == predicate &&
           graph->decided[low].a == a && graph->decided[low].b == b;
}

// Returns whether a comparison of two constants, or a negation, holds.
static inline ES_HOST_DEVICE int es_kg_test_holds(const EsKnowledgeGraph *graph, EsAtom atom) {
    int test = graph->test_of[atom.predicate];
    if (test == ES_KG_NEGATION) {
        return !es_kg_was_decided(graph, graph->negated[atom.predicate], atom.a, atom.b);
    }
    return test == ES_KG_NOT_EQUAL
               ? atom.a != atom.b
               : es_kg_compare(test, graph->values[atom.a], graph->values[atom.b]);
}

// Rules with this head predicate, in the order of their file; *count of them.
static inline ES_HOST_DEVICE const EsHornRule *es_kg_rules_of(const EsKnowledgeGraph *graph,
                                                              int32_t predicate, int32_t *count) {
    *count = graph->rule_start[predicate + 1] - graph->rule_start[predicate];
    return graph->rules + graph->rule_start[predicate];
}

ES_EXTERN_C_END

#endif
