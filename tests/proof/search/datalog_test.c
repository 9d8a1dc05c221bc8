// Random programs against plain enumeration of all assignments, larger ones against searches in the
// graph they describe; every derivation is checked against its rule.
#include "proof/search/datalog.h"

#include "base/memory.h"
#include "base/random_rules.h"
#include "es_test.h"

#define C           3 // constants of a random program
#define RELATIONS   7
#define MAX_RULES   9
#define MAX_BODY    5
#define N_VARIABLES 4
#define MAX_CELLS   256 // (C + 1)^4

typedef struct Dice {
    uint32_t round, draw;
} Dice;

static int throw_dice(Dice *dice, int sides) {
    EsRandom4 r = es_random_draw(11, dice->round, ES_PURPOSE_DATA_GENERATION, 0, dice->draw++);
    return (int)es_random_below(r.word[0], (uint32_t)sides);
}

typedef struct RandomProgram {
    EsDatalogProgram program;
    int32_t arities[RELATIONS], levels[RELATIONS];
    EsDatalogRule rules[MAX_RULES];
    EsLiteral body[MAX_RULES][MAX_BODY];
    int64_t values[C + 1];
    struct {
        int32_t relation, terms[ES_DATALOG_MAX_ARITY];
    } facts[40];
    int n_facts;
} RandomProgram;

static EsLiteral draw_atom(Dice *dice, const RandomProgram *random, int relation) {
    EsLiteral atom = {ES_LITERAL_ATOM, relation, {0}};
    for (int i = 0; i < random->arities[relation]; i++) {
        atom.terms[i] =
            throw_dice(dice, 8) == 0 ? 1 + throw_dice(dice, C) : -1 - throw_dice(dice, N_VARIABLES);
    }
    return atom;
}

// A relation of a level up to `level`.
static int draw_relation(Dice *dice, const RandomProgram *random, int level) {
    int relation;
    do {
        relation = throw_dice(dice, RELATIONS);
    } while (random->levels[relation] > level);
    return relation;
}

// Variables that no positive atom has become ones that some has, or constants.
static void make_safe(Dice *dice, const RandomProgram *random, const EsDatalogRule *rule,
                      EsLiteral *literal) {
    int n = literal->kind <= ES_LITERAL_NOT ? random->arities[literal->relation] : 2;
    for (int i = 0; i < n; i++) {
        int is_bound = literal->terms[i] > 0;
        int32_t other = 1 + throw_dice(dice, C);
        for (int32_t k = 0; k < rule->n_body; k++) {
            const EsLiteral *atom = &rule->body[k];
            for (int j = 0; atom->kind == ES_LITERAL_ATOM && j < random->arities[atom->relation];
                 j++) {
                is_bound |= atom->terms[j] == literal->terms[i];
                other = throw_dice(dice, 2) == 0 ? atom->terms[j] : other;
            }
        }
        literal->terms[i] = is_bound ? literal->terms[i] : other;
    }
}

static void draw_rule(Dice *dice, RandomProgram *random, int number) {
    EsDatalogRule *rule = &random->rules[number];
    EsLiteral *body = random->body[number];
    // relation 0 is of the lowest level
    int head = throw_dice(dice, RELATIONS), level = random->levels[head];
    *rule = (EsDatalogRule){draw_atom(dice, random, head), body,
                            1 + throw_dice(dice, 1 + throw_dice(dice, MAX_BODY))};
    for (int32_t k = 0; k < rule->n_body; k++) {
        int kind = k == 0 ? 3 + throw_dice(dice, 10) : throw_dice(dice, 10);
        body[k] = draw_atom(dice, random, draw_relation(dice, random, level));
        if (kind < 2 && level > 0) {
            body[k] = draw_atom(dice, random, draw_relation(dice, random, level - 1));
            body[k].kind = ES_LITERAL_NOT;
        } else if (kind < 4) {
            body[k].kind = (EsLiteralKind)(ES_LITERAL_NOT_EQUAL + throw_dice(dice, 5));
            body[k].terms[0] = -1 - throw_dice(dice, N_VARIABLES);
            body[k].terms[1] =
                throw_dice(dice, 3) == 0 ? 1 + throw_dice(dice, C) : -1 - throw_dice(dice, 4);
        }
    }
    for (int32_t k = 0; k < rule->n_body; k++) {
        if (body[k].kind != ES_LITERAL_ATOM) {
            make_safe(dice, random, rule, &body[k]);
        }
    }
    make_safe(dice, random, rule, &rule->head);
}

static void draw_program(uint32_t round, RandomProgram *random) {
    Dice dice = {round, 0};
    memset(random, 0, sizeof *random);
    for (int i = 0; i < RELATIONS; i++) {
        random->arities[i] = i == 3 ? 0 : 1 + throw_dice(&dice, ES_DATALOG_MAX_ARITY);
        random->levels[i] = i == 0 ? 0 : throw_dice(&dice, 3);
    }
    for (int i = 0; i <= C; i++) {
        random->values[i] = i == 2 ? ES_DATALOG_NO_INTEGER : (i * 7) % 5 - 2;
    }
    random->program = (EsDatalogProgram){.n_relations = RELATIONS,
                                         .n_constants = C,
                                         .n_rules = 1 + throw_dice(&dice, MAX_RULES),
                                         .arities = random->arities,
                                         .rules = random->rules,
                                         .values = random->values};
    for (int32_t r = 0; r < random->program.n_rules; r++) {
        draw_rule(&dice, random, r);
    }
    random->n_facts = 10 + throw_dice(&dice, 30);
    for (int i = 0; i < random->n_facts; i++) {
        random->facts[i].relation = throw_dice(&dice, RELATIONS);
        for (int j = 0; j < ES_DATALOG_MAX_ARITY; j++) {
            random->facts[i].terms[j] = 1 + throw_dice(&dice, C);
        }
    }
}

// --- plain enumeration ---

typedef struct Tables {
    char holds[RELATIONS][MAX_CELLS];
} Tables;

static int cell_of(const RandomProgram *random, int relation, const int32_t *terms) {
    int cell = 0;
    for (int i = 0; i < random->arities[relation]; i++) {
        cell = cell * (C + 1) + terms[i];
    }
    return cell;
}

static void ground(const EsLiteral *literal, const int32_t *assignment, int32_t *terms) {
    for (int i = 0; i < ES_DATALOG_MAX_ARITY; i++) {
        terms[i] = literal->terms[i] < 0 ? assignment[-1 - literal->terms[i]] : literal->terms[i];
    }
}

static int literal_holds(const RandomProgram *random, const Tables *tables,
                         const EsLiteral *literal, const int32_t *assignment) {
    int32_t terms[ES_DATALOG_MAX_ARITY];
    ground(literal, assignment, terms);
    int64_t a = random->values[terms[0] % (C + 1)], b = random->values[terms[1] % (C + 1)];
    int are_integers = a != ES_DATALOG_NO_INTEGER && b != ES_DATALOG_NO_INTEGER;
    switch (literal->kind) {
    case ES_LITERAL_ATOM:
        return tables->holds[literal->relation][cell_of(random, literal->relation, terms)];
    case ES_LITERAL_NOT:
        return !tables->holds[literal->relation][cell_of(random, literal->relation, terms)];
    case ES_LITERAL_NOT_EQUAL:
        return terms[0] != terms[1];
    case ES_LITERAL_LESS:
        return are_integers && a < b;
    case ES_LITERAL_LESS_EQUAL:
        return are_integers && a <= b;
    case ES_LITERAL_GREATER:
        return are_integers && a > b;
    default:
        return are_integers && a >= b;
    }
}

static int apply_rule(const RandomProgram *random, const EsDatalogRule *rule, Tables *tables) {
    int n_new = 0, n_assignments = 1;
    for (int v = 0; v < N_VARIABLES; v++) {
        n_assignments *= C;
    }
    for (int n = 0; n < n_assignments; n++) {
        int32_t assignment[N_VARIABLES], terms[ES_DATALOG_MAX_ARITY];
        for (int v = 0, rest = n; v < N_VARIABLES; v++, rest /= C) {
            assignment[v] = 1 + rest % C;
        }
        int holds = 1;
        for (int32_t k = 0; k < rule->n_body && holds; k++) {
            holds = literal_holds(random, tables, &rule->body[k], assignment);
        }
        ground(&rule->head, assignment, terms);
        char *cell =
            &tables->holds[rule->head.relation][cell_of(random, rule->head.relation, terms)];
        n_new += holds && !*cell;
        *cell = (char)(*cell || holds);
    }
    return n_new;
}

static Tables enumerate(const RandomProgram *random) {
    Tables tables;
    memset(&tables, 0, sizeof tables);
    for (int i = 0; i < random->n_facts; i++) {
        int relation = random->facts[i].relation;
        tables.holds[relation][cell_of(random, relation, random->facts[i].terms)] = 1;
    }
    for (int level = 0; level < 3; level++) {
        for (int n_new = 1; n_new > 0;) {
            n_new = 0;
            for (int32_t r = 0; r < random->program.n_rules; r++) {
                if (random->levels[random->rules[r].head.relation] == level) {
                    n_new += apply_rule(random, &random->rules[r], &tables);
                }
            }
        }
    }
    return tables;
}

// --- the comparison ---

static EsDatalog *evaluate(const RandomProgram *random, int64_t limit, int keeps_provenance,
                           EsThreadPool *pool) {
    EsDatalogSettings settings = {limit, keeps_provenance};
    EsDatalog *datalog;
    REQUIRE_OK(es_datalog_create(&random->program, &settings, &datalog));
    for (int i = 0; i < random->n_facts; i++) {
        REQUIRE_OK(es_datalog_add_fact(datalog, random->facts[i].relation, random->facts[i].terms));
    }
    REQUIRE_OK(es_datalog_run(datalog, pool));
    return datalog;
}

// Every tuple is in the tables, each once; all of them when it is complete. Returns how many.
static int64_t compare_tables(const RandomProgram *random, const EsDatalog *datalog,
                              const Tables *tables) {
    int64_t n_tuples = 0;
    for (int32_t p = 0; p < RELATIONS; p++) {
        int32_t count = es_datalog_count(datalog, p), n_cells = 0;
        static char is_met[MAX_CELLS];
        memset(is_met, 0, sizeof is_met);
        for (int32_t i = 0; i < count; i++) {
            const int32_t *terms = es_datalog_tuple(datalog, p, i);
            int cell = cell_of(random, p, terms);
            EXPECT(tables->holds[p][cell] && !is_met[cell]);
            EXPECT(es_datalog_has(datalog, p, terms));
            EXPECT_EQ(es_datalog_find(datalog, p, terms), i);
            is_met[cell] = 1;
        }
        int32_t terms[ES_DATALOG_MAX_ARITY] = {0};
        for (int32_t n = 0; n < C * C * C * C; n++) {
            for (int i = 0, rest = n; i < random->arities[p]; i++, rest /= C) {
                terms[i] = 1 + rest % C;
            }
            int cell = cell_of(random, p, terms);
            EXPECT_EQ(es_datalog_has(datalog, p, terms), is_met[cell]);
        }
        for (int cell = 0; cell < MAX_CELLS; cell++) {
            n_cells += tables->holds[p][cell];
        }
        EXPECT(!es_datalog_is_complete(datalog) || count == n_cells);
        n_tuples += count;
    }
    return n_tuples;
}

// Sets the variables of an atom; returns whether the tuple is an instance.
static int match(const EsLiteral *literal, const int32_t *terms, int arity, int32_t *assignment) {
    for (int i = 0; i < arity; i++) {
        int32_t term = literal->terms[i];
        int32_t *known = term < 0 ? &assignment[-1 - term] : &term;
        if (*known != 0 && *known != terms[i]) {
            return 0;
        }
        *known = terms[i];
    }
    return 1;
}

// Follows the first derivations down to facts; heights: 0 unknown, -1 at work. Returns the height.
static int32_t check_derivation(const RandomProgram *random, const EsDatalog *datalog,
                                const Tables *tables, int32_t p, int32_t i,
                                int32_t heights[RELATIONS][MAX_CELLS]) {
    if (heights[p][i] != 0) {
        EXPECT(heights[p][i] > 0);
        return heights[p][i];
    }
    heights[p][i] = -1;
    int32_t height = 1;
    EsDerivation derivation = es_datalog_derivation(datalog, p, i);
    EXPECT_EQ(derivation.rule < 0, i < es_datalog_count_facts(datalog, p));
    if (derivation.rule >= 0) {
        const EsDatalogRule *rule = &random->rules[derivation.rule];
        int32_t assignment[N_VARIABLES] = {0}, place = 0;
        EXPECT_EQ(rule->head.relation, p);
        EXPECT(match(&rule->head, es_datalog_tuple(datalog, p, i), random->arities[p], assignment));
        for (int32_t k = 0; k < rule->n_body; k++) {
            const EsLiteral *literal = &rule->body[k];
            if (literal->kind == ES_LITERAL_ATOM) {
                int32_t number = derivation.body[place++], q = literal->relation;
                EXPECT(q != p || number < i);
                EXPECT(match(literal, es_datalog_tuple(datalog, q, number), random->arities[q],
                             assignment));
                height = ES_MAX(height,
                                1 + check_derivation(random, datalog, tables, q, number, heights));
            }
        }
        for (int32_t k = 0; k < rule->n_body; k++) {
            EXPECT(literal_holds(random, tables, &rule->body[k], assignment));
        }
    }
    heights[p][i] = height;
    return height;
}

static void check_derivations(const RandomProgram *random, const EsDatalog *datalog,
                              const Tables *tables) {
    static int32_t heights[RELATIONS][MAX_CELLS];
    memset(heights, 0, sizeof heights);
    for (int32_t p = 0; p < RELATIONS; p++) {
        for (int32_t i = 0; i < es_datalog_count(datalog, p); i++) {
            check_derivation(random, datalog, tables, p, i, heights);
        }
    }
}

TEST(random_programs_agree_with_plain_enumeration) {
    static RandomProgram random;
    int64_t n_derived = 0, n_negated = 0;
    for (uint32_t round = 0; round < 1500; round++) {
        draw_program(round, &random);
        Tables tables = enumerate(&random);
        EsDatalog *plain = evaluate(&random, INT32_MAX, 0, NULL);
        EsDatalog *proved = evaluate(&random, INT32_MAX, 1, NULL);
        EXPECT(es_datalog_is_complete(plain) && es_datalog_is_complete(proved));
        int64_t n = compare_tables(&random, plain, &tables);
        EXPECT_EQ(compare_tables(&random, proved, &tables), n);
        check_derivations(&random, proved, &tables);
        int64_t n_facts = 0;
        for (int32_t p = 0; p < RELATIONS; p++) {
            n_facts += es_datalog_count_facts(proved, p);
        }
        n_derived += n - n_facts;
        for (int32_t r = 0; r < random.program.n_rules; r++) {
            for (int32_t k = 0; k < random.rules[r].n_body; k++) {
                n_negated += random.rules[r].body[k].kind == ES_LITERAL_NOT;
            }
        }
        // what is there within a limit does follow
        int64_t limit = n_facts + (n - n_facts) / 2;
        EsDatalog *limited = evaluate(&random, limit, round % 2 == 0, NULL);
        EXPECT_EQ(es_datalog_is_complete(limited), limit == n);
        EXPECT_EQ(compare_tables(&random, limited, &tables), limit);
        es_datalog_destroy(plain);
        es_datalog_destroy(proved);
        es_datalog_destroy(limited);
    }
    EXPECT(n_derived > 3000 && n_negated > 500);
}

// --- larger ones ---

enum { EDGE, PATH, APART, N_GRAPH_RELATIONS };

// path is the transitive closure of edge, by its own square when is_square; apart are the pairs of
// the first ten constants that no path connects.
typedef struct GraphProgram {
    EsLiteral body[3][3];
    EsDatalogRule rules[3];
    EsDatalogProgram program;
} GraphProgram;

static const int32_t graph_arities[N_GRAPH_RELATIONS] = {2, 2, 2};

static void make_graph_program(GraphProgram *made, int32_t n_constants, int is_square) {
    memset(made, 0, sizeof *made);
    made->body[0][0] = (EsLiteral){ES_LITERAL_ATOM, EDGE, {-1, -2}};
    made->rules[0] = (EsDatalogRule){{ES_LITERAL_ATOM, PATH, {-1, -2}}, made->body[0], 1};
    made->body[1][0] = (EsLiteral){ES_LITERAL_ATOM, PATH, {-1, -2}};
    made->body[1][1] = (EsLiteral){ES_LITERAL_ATOM, is_square ? PATH : EDGE, {-2, -3}};
    made->rules[1] = (EsDatalogRule){{ES_LITERAL_ATOM, PATH, {-1, -3}}, made->body[1], 2};
    made->body[2][0] = (EsLiteral){ES_LITERAL_ATOM, EDGE, {-1, -2}};
    made->body[2][1] = (EsLiteral){ES_LITERAL_ATOM, EDGE, {-3, -4}};
    made->body[2][2] = (EsLiteral){ES_LITERAL_NOT, PATH, {-1, -4}};
    made->rules[2] = (EsDatalogRule){{ES_LITERAL_ATOM, APART, {-1, -4}}, made->body[2], 3};
    made->program = (EsDatalogProgram){.n_relations = N_GRAPH_RELATIONS,
                                       .n_constants = n_constants,
                                       .n_rules = 2,
                                       .arities = graph_arities,
                                       .rules = made->rules};
}

// Without threads the edges are added one by one, else at once.
static EsDatalog *close_edges(const EsDatalogProgram *program, const int32_t (*edges)[2], int n,
                              int keeps_provenance, int n_threads) {
    EsDatalogSettings settings = {INT32_MAX, keeps_provenance};
    EsThreadPool *pool = NULL;
    EsDatalog *datalog;
    REQUIRE_OK(es_datalog_create(program, &settings, &datalog));
    if (n_threads > 0) {
        REQUIRE_OK(es_thread_pool_create(&pool, n_threads));
        REQUIRE_OK(es_datalog_add_facts(datalog, EDGE, edges[0], 2, n, pool));
    }
    for (int i = 0; i < n && n_threads == 0; i++) {
        REQUIRE_OK(es_datalog_add_fact(datalog, EDGE, edges[i]));
    }
    REQUIRE_OK(es_datalog_run(datalog, pool));
    es_thread_pool_destroy(pool);
    return datalog;
}

static void expect_same(const EsDatalog *x, const EsDatalog *y, int with_provenance) {
    EXPECT_EQ(es_datalog_n_joined(x), es_datalog_n_joined(y));
    for (int32_t p = 0; p < N_GRAPH_RELATIONS; p++) {
        EXPECT_EQ(es_datalog_count(x, p), es_datalog_count(y, p));
        for (int32_t i = 0; i < es_datalog_count(x, p); i++) {
            EXPECT(memcmp(es_datalog_tuple(x, p, i), es_datalog_tuple(y, p, i),
                          2 * sizeof(int32_t)) == 0);
            if (with_provenance) {
                EsDerivation a = es_datalog_derivation(x, p, i), b = es_datalog_derivation(y, p, i);
                EXPECT(a.rule == b.rule && (a.rule < 0 || a.body[0] == b.body[0]) &&
                       (a.rule < 1 || a.body[1] == b.body[1]));
            }
        }
    }
}

#define MAX_EDGES 60000
static int32_t edges[MAX_EDGES][2];

// Chains of 12 edges on many constants: slots, and lists found by slots.
static int32_t draw_chains(int n_edges, int32_t step) {
    int32_t at = 1;
    for (int i = 0; i < n_edges; i++) {
        edges[i][0] = at;
        edges[i][1] = at + step;
        at += i % 12 == 11 ? 2 * step : step;
    }
    return at;
}

TEST(chains_close_alike_with_any_threads) {
    GraphProgram made;
    // a step of 50 leaves most constants without atoms
    int32_t n_constants = draw_chains(24000, 50);
    for (int is_square = 0; is_square < 2; is_square++) {
        make_graph_program(&made, n_constants, is_square);
        for (int with = 0; with < 2; with++) {
            EsDatalog *one = close_edges(&made.program, edges, 24000, with, 0);
            EXPECT(es_datalog_is_complete(one));
            EXPECT_EQ(es_datalog_count(one, PATH), 2000 * 12 * 13 / 2);
            // edges, then a join for every pair, and with squares for every place between
            EXPECT_EQ(es_datalog_n_joined(one), is_square ? 24000 + 2000 * 286 : 2000 * 78);
            EXPECT(es_datalog_has(one, PATH, (int32_t[]){1, 601}));
            EXPECT(!es_datalog_has(one, PATH, (int32_t[]){601, 1}));
            EXPECT(!es_datalog_has(one, PATH, (int32_t[]){1, 602}));
            for (int n_threads = 1; n_threads <= 3; n_threads++) {
                EsDatalog *other = close_edges(&made.program, edges, 24000, with, n_threads);
                expect_same(one, other, with);
                es_datalog_destroy(other);
            }
            es_datalog_destroy(one);
        }
    }
}

// Returns how many constants a search reaches from `first`, marked in is_met.
static int32_t reach(int32_t first, int32_t n_constants, int n_edges, char *is_met,
                     int32_t *stack) {
    int32_t n_met = 0, n_stack = 1;
    memset(is_met, 0, (size_t)n_constants + 1);
    stack[0] = first;
    while (n_stack > 0) {
        int32_t at = stack[--n_stack];
        for (int i = 0; i < n_edges; i++) {
            if (edges[i][0] == at && !is_met[edges[i][1]]) {
                is_met[edges[i][1]] = 1;
                stack[n_stack++] = edges[i][1];
                n_met++;
            }
        }
    }
    return n_met;
}

TEST(a_dense_graph_closes_alike_with_any_threads) {
    enum { N_NODES = 700, N_EDGES = 1500 };
    static char is_met[N_NODES + 1];
    static int32_t stack[N_NODES + 1];
    GraphProgram made;
    for (int i = 0; i < N_EDGES; i++) {
        EsRandom4 r = es_random_draw(5, 0, ES_PURPOSE_DATA_GENERATION, 0, (uint32_t)i);
        edges[i][0] = 1 + (int32_t)es_random_below(r.word[0], N_NODES);
        edges[i][1] = 1 + (int32_t)es_random_below(r.word[1], N_NODES);
    }
    make_graph_program(&made, N_NODES, 0);
    made.program.n_rules = 3;
    for (int with = 0; with < 2; with++) {
        EsDatalog *one = close_edges(&made.program, edges, N_EDGES, with, 0);
        int64_t n_paths = 0;
        for (int32_t node = 1; node <= N_NODES; node++) {
            n_paths += reach(node, N_NODES, N_EDGES, is_met, stack);
            for (int32_t to = 1; to <= N_NODES; to++) {
                EXPECT_EQ(es_datalog_has(one, PATH, (int32_t[]){node, to}), is_met[to]);
            }
        }
        EXPECT_EQ(es_datalog_count(one, PATH), n_paths);
        EXPECT(n_paths > 100000);
        EXPECT(es_datalog_count(one, APART) > 10000);
        for (int n_threads = 1; n_threads <= 3; n_threads++) {
            EsDatalog *other = close_edges(&made.program, edges, N_EDGES, with, n_threads);
            expect_same(one, other, with);
            es_datalog_destroy(other);
        }
        es_datalog_destroy(one);
    }
}

TEST(a_product_is_joined_in_bounded_memory) {
    // r(x) :- p(x), q(y), q(z): over 12 million bodies for 2 heads
    enum { N_Q = 2500 };
    const EsLiteral body[] = {
        {ES_LITERAL_ATOM, 0, {-1}}, {ES_LITERAL_ATOM, 1, {-2}}, {ES_LITERAL_ATOM, 1, {-3}}};
    const EsDatalogRule rule = {{ES_LITERAL_ATOM, 2, {-1, -1}}, body, 3};
    const int32_t arities[] = {1, 1, 2};
    // as many constants as make bits too many
    const EsDatalogProgram program = {
        .n_relations = 3, .n_constants = 1 << 20, .n_rules = 1, .arities = arities, .rules = &rule};
    EsDatalogSettings settings = {INT32_MAX, 0};
    EsDatalog *datalog;
    es_allocation_begin(0);
    REQUIRE_OK(es_datalog_create(&program, &settings, &datalog));
    for (int32_t i = 1; i <= N_Q; i++) {
        REQUIRE_OK(es_datalog_add_fact(datalog, 1, &i));
    }
    for (int32_t i = 1; i <= 2; i++) {
        REQUIRE_OK(es_datalog_add_fact(datalog, 0, &i));
    }
    REQUIRE_OK(es_datalog_run(datalog, NULL));
    EXPECT(es_allocation_end().peak_bytes < 64u << 20);
    EXPECT_EQ(es_datalog_count(datalog, 2), 2);
    EXPECT_EQ(es_datalog_n_joined(datalog), 2 * N_Q * N_Q);
    es_datalog_destroy(datalog);
}

// --- programs that are refused ---

TEST(negation_in_a_cycle_is_named) {
    const EsLiteral body[3][1] = {
        {{ES_LITERAL_NOT, 1, {-1}}}, {{ES_LITERAL_ATOM, 2, {-1}}}, {{ES_LITERAL_ATOM, 0, {-1}}}};
    EsDatalogRule rules[3];
    for (int i = 0; i < 3; i++) {
        rules[i] = (EsDatalogRule){{ES_LITERAL_ATOM, i, {1}}, body[i], 1};
    }
    EsLiteral safe[2] = {{ES_LITERAL_ATOM, 3, {-1}}, body[0][0]};
    rules[0].body = safe;
    rules[0].n_body = 2;
    const int32_t arities[] = {1, 1, 1, 1};
    const char *const names[] = {"wins", "loses", "draws", "plays"};
    EsDatalogProgram program = {.n_relations = 4,
                                .n_constants = 3,
                                .n_rules = 3,
                                .arities = arities,
                                .rules = rules,
                                .names = names};
    EsDatalogSettings settings = {100, 0};
    EsDatalog *datalog;
    EXPECT_STATUS(es_datalog_create(&program, &settings, &datalog), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "wins <- not loses");
    EXPECT_CONTAINS(es_status_detail(), "loses <- draws");
    // without the last rule it is stratified
    program.n_rules = 2;
    int32_t strata[4];
    REQUIRE_OK(es_datalog_stratify(&program, strata));
    EXPECT(strata[0] == 1 && strata[1] == 0 && strata[2] == 0 && strata[3] == 0);
}

TEST(a_variable_without_an_atom_is_refused) {
    const EsLiteral body[] = {{ES_LITERAL_ATOM, 0, {-1}}, {ES_LITERAL_NOT, 0, {-2}}};
    const EsDatalogRule rule = {{ES_LITERAL_ATOM, 1, {-1}}, body, 2};
    const int32_t arities[] = {1, 1};
    EsDatalogProgram program = {
        .n_relations = 2, .n_constants = 3, .n_rules = 1, .arities = arities, .rules = &rule};
    EsDatalogSettings settings = {100, 0};
    EsDatalog *datalog;
    EXPECT_STATUS(es_datalog_create(&program, &settings, &datalog), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "variable 2 of rule 0");
}
