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

// cells of atoms and tests before the arrow of a rule
#define ES_HORN_MAX_BODY 16
// proof_rules.h has one bit for each of them and each variable of a state
#define ES_HORN_MAX_VARIABLES 24

// arguments of a predicate
#define ES_KG_MAX_ARITY 4

// predicate(a,b). A term is a constant (> 0), a variable of a rule (< 0) or nothing (0): predicate
// and predicate(a) have zeros. An atom of three or four arguments has a second cell behind it, with
// the predicate ES_ATOM_MORE and these arguments. Lists of goals hold atoms of one and of two cells
// one behind the other; a pointer to an atom is to its first cell.
typedef struct EsAtom {
    int32_t predicate, a, b;
} EsAtom;

#define ES_ATOM_MORE      (-1)
#define ES_ATOM_MAX_CELLS 2

// An atom with room for any number of arguments; the second cell is zero when it has none.
typedef struct EsWideAtom {
    EsAtom cells[ES_ATOM_MAX_CELLS];
} EsWideAtom;

// The compiler sees that a caller's atom has one cell, or sets one, and not that its predicate has
// at most two arguments then.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Warray-bounds"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

// The term in a place, from 0, of an atom that has as many arguments.
static inline ES_HOST_DEVICE int32_t es_atom_term(const EsAtom *atom, int place) {
    const EsAtom *cell = atom + place / 2;
    return place % 2 == 0 ? cell->a : cell->b;
}

static inline ES_HOST_DEVICE void es_atom_set_term(EsAtom *atom, int place, int32_t term) {
    EsAtom *cell = atom + place / 2;
    if (place % 2 == 0) {
        cell->a = term;
    } else {
        cell->b = term;
    }
}

// An atom of its terms.
static inline ES_HOST_DEVICE EsWideAtom es_wide_atom_make(int32_t predicate, const int32_t *terms,
                                                          int arity) {
    EsWideAtom atom = {{{predicate, 0, 0}, {arity > 2 ? ES_ATOM_MORE : 0, 0, 0}}};
    for (int i = 0; i < arity; i++) {
        es_atom_set_term(atom.cells, i, terms[i]);
    }
    return atom;
}

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

// The same for atoms of two cells.
static inline int es_wide_atom_compare(const void *left, const void *right) {
    const EsAtom *x = (const EsAtom *)left, *y = (const EsAtom *)right;
    int order = es_atom_compare(x, y);
    return order != 0 ? order : es_atom_compare(x + 1, y + 1);
}

// head :- body[0], ..., body[n_body - 1]. A term is a constant (> 0) or a variable (< 0); the
// variables of the head and of tests occur in a body atom that is no test.
typedef struct EsHornRule {
    union {
        EsAtom head;
        EsAtom head_cells[ES_ATOM_MAX_CELLS];
    };
    int n_body;                    // cells, 1 to ES_HORN_MAX_BODY
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

// Facts of predicates of three and four arguments. They are found by the constant in any place.
typedef struct EsWideFacts {
    int32_t count;                   // distinct
    EsAtom *atoms;                   // by predicate and arguments; owned                (2 count)
    int32_t *start;                  // facts of p: start[p] to start[p+1] - 1; owned      (P + 2)
    int32_t *order[ES_KG_MAX_ARITY]; // numbers of facts by predicate, the term in that place, and
                                     // number; owned                                      (count)
} EsWideFacts;

// the depth of a query for which none was published
#define ES_KG_DEPTH_ABSENT INT32_MIN
// published: no derivation was found
#define ES_KG_DEPTH_NONE (-1)

// Queries in the order of their file, repetitions kept.
typedef struct EsQuerySplit {
    EsAtom *atoms;   // query i begins at i * query_cells of the graph     (count x query_cells)
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

    unsigned char *arities; // arguments of each predicate; 0 of the terminal ones         (P + 8)
    int has_wide;           // some predicate has over two arguments
    int query_cells;        // 1, or 2 with has_wide

    // of predicates of at most two arguments
    int32_t n_facts;     // distinct
    EsAtom *facts;       // sorted by (predicate, a, b)                                    (n_facts)
    EsAtom *facts_by_b;  // the same, sorted by (predicate, b, a)                          (n_facts)
    int32_t *fact_start; // facts of p: fact_start[p] to fact_start[p+1] - 1, in both arrays (P + 2)
    EsFactIndex by_a;    // p(x,?) in `facts`
    EsFactIndex by_b;    // p(?,x) in facts_by_b
    EsWideFacts wide;    // of the others, all zero without has_wide

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
                            //                                        (n_decided x query_cells)
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

// Write "predicate(a,b)", or "predicate" without arguments, as snprintf does; variables of rules
// are V1, V2, ... Names that could not be read back otherwise are in quotes. A comparison is "a !=
// b".
int es_kg_format_atom(const EsKnowledgeGraph *graph, const EsAtom *atom, char *text, size_t bytes);

// Write a name of a fact as it can be read back: in single quotes when it begins with a quote or %,
// or has blanks, commas or brackets.
int es_kg_format_name(const char *name, char *text, size_t bytes);

// Returns whether an argument without quotes is a variable in a rule file: a letter with nothing
// but digits behind it (x, y2), or anything that begins with a capital letter, _ or ?.
int es_kg_looks_variable(const char *text, size_t bytes);

// holds any rule or atom whose names are within ES_KG_MAX_NAME_BYTES, every byte of them escaped
#define ES_RULE_TEXT_BYTES    112640
#define ES_KG_ATOM_TEXT_BYTES 10368

// Write "b1(x,z), z != y, b2(z,paris) -> head(x,y)" as snprintf does, as a rule file has it. The
// variables are x, y, z, u, v, w, s, t by their number and then x9, x10, ..., so that the head of a
// rule without constants is head(x,y) or head(x,x).
int es_horn_rule_format(const EsKnowledgeGraph *graph, const EsHornRule *rule, char *text,
                        size_t bytes);

// SHA-256 of all names in order: graphs with the same hash number their constants and predicates
// alike; facts may differ.
void es_kg_names_hash(const EsKnowledgeGraph *graph, char text[ES_SHA256_TEXT_BYTES]);

// SHA-256 of the predicates' numbers of arguments, in the order of their names.
void es_kg_arities_hash(const EsKnowledgeGraph *graph, char text[ES_SHA256_TEXT_BYTES]);

// Cells of an atom by its predicate.
static inline ES_HOST_DEVICE int es_kg_cells(const EsKnowledgeGraph *graph, int32_t predicate) {
    return graph->has_wide && graph->arities[predicate] > 2 ? 2 : 1;
}

// Facts of all predicates.
static inline ES_HOST_DEVICE int32_t es_kg_count_facts(const EsKnowledgeGraph *graph) {
    return graph->n_facts + graph->wide.count;
}

// Facts of one predicate.
static inline ES_HOST_DEVICE int32_t es_kg_count_facts_of(const EsKnowledgeGraph *graph,
                                                          int32_t predicate) {
    const int32_t *start =
        es_kg_cells(graph, predicate) == 2 ? graph->wide.start : graph->fact_start;
    return start[predicate + 1] - start[predicate];
}

// Query i of a split.
static inline ES_HOST_DEVICE const EsAtom *es_kg_query(const EsKnowledgeGraph *graph,
                                                       EsKgSplit split, int32_t i) {
    return graph->splits[split].atoms + (size_t)i * (size_t)graph->query_cells;
}

// Returns whether an atom is over the graph's predicates and constants, without variables.
static inline ES_HOST_DEVICE int es_kg_is_ground(const EsKnowledgeGraph *graph,
                                                 const EsAtom *atom) {
    if (atom->predicate < 1 || atom->predicate > graph->n_predicates) {
        return 0;
    }
    int arity = graph->arities[atom->predicate], n_places = arity > 2 ? ES_KG_MAX_ARITY : 2;
    for (int i = 0; i < n_places; i++) {
        int32_t term = es_atom_term(atom, i);
        if (i < arity ? term < 1 || term > graph->n_constants : term != 0) {
            return 0;
        }
    }
    return arity <= 2 || atom[1].predicate == ES_ATOM_MORE;
}

// Returns how many predicates have another number of arguments than two; where there are some,
// *first is one of them, else 0. `first` may be NULL.
int32_t es_kg_count_not_binary(const EsKnowledgeGraph *graph, int32_t *first);

// Fails when there are some, as `what` needs it.
EsStatus es_kg_check_binary(const EsKnowledgeGraph *graph, const char *what);

// The facts and queries of predicates of two arguments as a graph of their own, with the names and
// numbers of the whole: the other predicates have two arguments there and no facts. No rules, no
// domains, all depths absent.
EsStatus es_kg_binary_part(const EsKnowledgeGraph *graph, EsKnowledgeGraph **part);

// The lookups below take 1 <= predicate <= P, of at most two arguments, and terms up to C; a place
// that the predicate has not is 0.

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

// Facts of one predicate of three or four arguments that have a term in a place: numbers
// order[begin] to order[end - 1]; all of them for place -1.
typedef struct EsWideSpan {
    const int32_t *order;
    int32_t begin, end;
} EsWideSpan;

// The first of a predicate's facts in the order of a place whose term there is at least `term`.
static inline ES_HOST_DEVICE int32_t es_wide_facts_from(const EsWideFacts *facts, int32_t predicate,
                                                        int place, int32_t term) {
    int32_t low = facts->start[predicate], high = facts->start[predicate + 1];
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        const EsAtom *fact = facts->atoms + 2 * (size_t)facts->order[place][middle];
        if (es_atom_term(fact, place) < term) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// Facts that may unify with a goal of three or four arguments: those with one of its constants, of
// which there are the fewest. Terms above C are variables.
static inline ES_HOST_DEVICE EsWideSpan es_kg_wide_facts(const EsKnowledgeGraph *graph,
                                                         const EsAtom *goal) {
    const EsWideFacts *facts = &graph->wide;
    int32_t predicate = goal->predicate;
    EsWideSpan best = {facts->order[0], facts->start[predicate], facts->start[predicate + 1]};
    for (int place = 0; place < graph->arities[predicate]; place++) {
        int32_t term = es_atom_term(goal, place);
        if (term <= graph->n_constants) {
            int32_t begin = es_wide_facts_from(facts, predicate, place, term);
            int32_t end = es_wide_facts_from(facts, predicate, place, term + 1);
            if (end - begin < best.end - best.begin) {
                best.order = facts->order[place];
                best.begin = begin;
                best.end = end;
            }
        }
    }
    return best;
}

// Returns whether atoms of two cells are the same.
static inline ES_HOST_DEVICE int es_wide_atom_equals(const EsAtom *x, const EsAtom *y) {
    return x[0].predicate == y[0].predicate && x[0].a == y[0].a && x[0].b == y[0].b &&
           x[1].a == y[1].a && x[1].b == y[1].b;
}

// The order of the facts of one predicate of three or four arguments: below 0 when x is before y.
static inline ES_HOST_DEVICE int es_wide_atom_order(const EsAtom *x, const EsAtom *y) {
    for (int place = 0; place < ES_KG_MAX_ARITY; place++) {
        int32_t of_x = es_atom_term(x, place), of_y = es_atom_term(y, place);
        if (of_x != of_y) {
            return of_x < of_y ? -1 : 1;
        }
    }
    return 0;
}

// Returns whether a ground atom of any number of arguments is a fact; a binary search.
static inline ES_HOST_DEVICE int es_kg_is_fact(const EsKnowledgeGraph *graph, const EsAtom *atom) {
    if (es_kg_cells(graph, atom->predicate) == 1) {
        return es_kg_has_fact(graph, *atom);
    }
    int32_t low = graph->wide.start[atom->predicate], high = graph->wide.start[atom->predicate + 1];
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        int order = es_wide_atom_order(graph->wide.atoms + 2 * (size_t)middle, atom);
        if (order == 0) {
            return 1;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return 0;
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

// Returns whether a ground atom of a negated predicate follows; it must have been decided. The atom
// has the predicate "not q" or q, and `predicate` is q.
static inline ES_HOST_DEVICE int es_kg_was_decided(const EsKnowledgeGraph *graph, int32_t predicate,
                                                   const EsAtom *atom) {
    int32_t low = 0, high = graph->n_decided;
    int n_places = es_kg_cells(graph, predicate) * 2;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        const EsAtom *other = graph->decided + (size_t)middle * (size_t)graph->query_cells;
        int32_t x = other->predicate, y = predicate;
        for (int i = 0; i < n_places && x == y; i++) {
            x = es_atom_term(other, i);
            y = es_atom_term(atom, i);
        }
        if (x == y) {
            return 1;
        }
        if (x < y) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return 0;
}

// Returns whether a comparison of two constants, or a negation, holds.
static inline ES_HOST_DEVICE int es_kg_test_holds(const EsKnowledgeGraph *graph,
                                                  const EsAtom *atom) {
    int test = graph->test_of[atom->predicate];
    if (test == ES_KG_NEGATION) {
        return !es_kg_was_decided(graph, graph->negated[atom->predicate], atom);
    }
    return test == ES_KG_NOT_EQUAL
               ? atom->a != atom->b
               : es_kg_compare(test, graph->values[atom->a], graph->values[atom->b]);
}

// Rules with this head predicate, in the order of their file; *count of them.
static inline ES_HOST_DEVICE const EsHornRule *es_kg_rules_of(const EsKnowledgeGraph *graph,
                                                              int32_t predicate, int32_t *count) {
    *count = graph->rule_start[predicate + 1] - graph->rule_start[predicate];
    return graph->rules + graph->rule_start[predicate];
}

// Atoms and tests of a rule's body.
static inline ES_HOST_DEVICE int es_kg_count_body(const EsKnowledgeGraph *graph,
                                                  const EsHornRule *rule) {
    int n = 0;
    for (int k = 0; k < rule->n_body; k += es_kg_cells(graph, rule->body[k].predicate)) {
        n++;
    }
    return n;
}

#pragma GCC diagnostic pop

ES_EXTERN_C_END

#endif
