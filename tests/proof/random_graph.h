// Small random knowledge graphs as text, so that tests can change the text and build again, and the
// closure of one by plain enumeration.
#ifndef ES_TESTS_RANDOM_GRAPH_H
#define ES_TESTS_RANDOM_GRAPH_H

#include "base/random_rules.h"
#include "small_graph.h"

#define RANDOM_CONSTANTS  6
#define RANDOM_PREDICATES 4
#define RANDOM_FACTS      9
#define RANDOM_RULES      5

typedef struct RandomGraph {
    SmallAtom facts[RANDOM_FACTS + 1]; // room for one more
    int n_facts;
    char rules[RANDOM_RULES][256];
    int n_rules;
    char queries[8192]; // all atoms over all names, which fixes the index space
} RandomGraph;

typedef struct Dice {
    uint32_t graph, draw;
} Dice;

static inline int throw_dice(Dice *dice, int sides) {
    EsRandom4 r = es_random_draw(20, dice->graph, ES_PURPOSE_DATA_GENERATION, 0, dice->draw++);
    return (int)es_random_below(r.word[0], (uint32_t)sides);
}

static inline SmallAtom draw_fact(Dice *dice) {
    SmallAtom atom;
    snprintf(atom.predicate, sizeof atom.predicate, "p%d", throw_dice(dice, RANDOM_PREDICATES));
    snprintf(atom.a, sizeof atom.a, "c%d", throw_dice(dice, RANDOM_CONSTANTS));
    snprintf(atom.b, sizeof atom.b, "c%d", throw_dice(dice, RANDOM_CONSTANTS));
    return atom;
}

// A rule of one or two body atoms, among them heads p(x,x) and bodies q(y,y). `is_layered` keeps
// the body's predicates below the head's, so that no derivation is longer than the predicates are
// many.
static inline void draw_rule(Dice *dice, int is_layered, char *text, size_t bytes) {
    int head = is_layered ? 1 + throw_dice(dice, RANDOM_PREDICATES - 1)
                          : throw_dice(dice, RANDOM_PREDICATES);
    int n_below = is_layered ? head : RANDOM_PREDICATES;
    int first = throw_dice(dice, n_below), second = throw_dice(dice, n_below);
    // the head's variables occur in the body
    static const char *const shapes[] = {
        "p%d(x,y) -> p%d(x,y)",          "p%d(y,x) -> p%d(x,y)",
        "p%d(x,z) -> p%d(x,x)",          "p%d(x,h) p%d(h,y) -> p%d(x,y)",
        "p%d(h,x) p%d(y,h) -> p%d(x,y)", "p%d(x,h) p%d(y,k) -> p%d(x,y)",
        "p%d(x,y) p%d(y,y) -> p%d(y,x)", "p%d(x,h) p%d(h,x) -> p%d(x,x)"};
    int shape = throw_dice(dice, (int)(sizeof shapes / sizeof *shapes));
    // NOLINTNEXTLINE(clang-diagnostic-format-nonliteral): the shapes above
    snprintf(text, bytes, shapes[shape], first, shape < 3 ? head : second, head);
}

static inline RandomGraph draw_graph(uint32_t number, int is_layered) {
    RandomGraph random = {.n_facts = RANDOM_FACTS, .n_rules = RANDOM_RULES};
    Dice dice = {number, 0};
    for (int i = 0; i < RANDOM_FACTS; i++) {
        random.facts[i] = draw_fact(&dice);
    }
    for (int i = 0; i < RANDOM_RULES; i++) {
        draw_rule(&dice, is_layered, random.rules[i], sizeof random.rules[i]);
    }
    size_t length = 0;
    for (int p = 0; p < RANDOM_PREDICATES; p++) {
        for (int ab = 0; ab < RANDOM_CONSTANTS * RANDOM_CONSTANTS; ab++) {
            length +=
                (size_t)snprintf(random.queries + length, sizeof random.queries - length,
                                 "p%d(c%d,c%d) ", p, ab / RANDOM_CONSTANTS, ab % RANDOM_CONSTANTS);
        }
    }
    return random;
}

// Facts and rules forwards or backwards; fact `without` is left out when not negative.
static inline EsKnowledgeGraph *build_graph(const RandomGraph *random, int is_reversed, int without,
                                            const char *more_facts) {
    char facts[4096] = "", rules[4096] = "";
    size_t length = 0;
    for (int i = 0; i < random->n_facts; i++) {
        int k = is_reversed ? random->n_facts - 1 - i : i;
        if (k != without) {
            const SmallAtom *fact = &random->facts[k];
            length += (size_t)snprintf(facts + length, sizeof facts - length, "%s(%s,%s) ",
                                       fact->predicate, fact->a, fact->b);
        }
    }
    snprintf(facts + length, sizeof facts - length, "%s", more_facts);
    length = 0;
    for (int i = 0; i < random->n_rules; i++) {
        length += (size_t)snprintf(rules + length, sizeof rules - length, "%s%s", i > 0 ? "; " : "",
                                   random->rules[is_reversed ? random->n_rules - 1 - i : i]);
    }
    return make_small_graph(facts, rules, random->queries);
}

// --- closure ---

#define RANDOM_NAMES (RANDOM_CONSTANTS + 1)

typedef struct SmallClosure {
    unsigned char holds[RANDOM_PREDICATES + 1][RANDOM_NAMES][RANDOM_NAMES];
} SmallClosure;

static inline unsigned char *closure_cell(SmallClosure *closure, EsAtom atom,
                                          const int32_t *values) {
    int32_t a = atom.a < 0 ? values[-1 - atom.a] : atom.a;
    int32_t b = atom.b < 0 ? values[-1 - atom.b] : atom.b;
    return &closure->holds[atom.predicate][a][b];
}

// Atoms that follow from the facts, `query` not among these, in at most `n_rounds` rounds of all
// rules under all assignments.
static inline SmallClosure close_graph(const EsKnowledgeGraph *graph, EsAtom query, int n_rounds) {
    SmallClosure closure = {{{{0}}}};
    for (int32_t i = 0; i < graph->n_facts; i++) {
        *closure_cell(&closure, graph->facts[i], NULL) = 1;
    }
    *closure_cell(&closure, query, NULL) = 0;
    for (int round = 0, is_changed = 1; round < n_rounds && is_changed; round++) {
        SmallClosure before = closure;
        is_changed = 0;
        for (int32_t r = 0; r < graph->n_rules; r++) {
            const EsHornRule *rule = &graph->rules[r];
            int n_assignments = 1;
            for (int v = 0; v < rule->n_variables; v++) {
                n_assignments *= RANDOM_CONSTANTS;
            }
            for (int k = 0; k < n_assignments; k++) {
                int32_t values[ES_HORN_MAX_VARIABLES];
                for (int v = 0, left = k; v < rule->n_variables; v++, left /= RANDOM_CONSTANTS) {
                    values[v] = 1 + left % RANDOM_CONSTANTS;
                }
                int holds = 1;
                for (int i = 0; i < rule->n_body; i++) {
                    holds = holds && *closure_cell(&before, rule->body[i], values);
                }
                unsigned char *head = closure_cell(&closure, rule->head, values);
                is_changed |= holds && !*head;
                *head = (unsigned char)(*head | holds);
            }
        }
    }
    return closure;
}

#endif
