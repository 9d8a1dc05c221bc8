#include "proof/ranking/corruptions.h"

#include "proof/graph/knowledge_file.h"
#include "proof/knowledge_case.h"

#define MAX_ATOMS 64

static int find_known(const EsKnowledgeGraph *graph, EsAtom atom) {
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        for (int32_t i = 0; i < graph->splits[split].count; i++) {
            if (es_atom_compare(&graph->splits[split].atoms[i], &atom) == 0) {
                return 1;
            }
        }
    }
    return 0;
}

// A graph of one predicate over c0 to c9 whose facts and queries leave little.
static EsKnowledgeGraph *make_dense_graph(EsKnownAtoms **known) {
    EsKnowledgeGraph *graph;
    REQUIRE_OK(build_case("p(c0,c1)\np(c0,c2)\np(c0,c3)\np(c1,c1)\np(c5,c9)\nq(c4,c4)\n",
                          "p(c0,c4)\np(c0,c5)\np(c8,c1)\np(c7,c6)\n", NULL, &graph));
    EXPECT_EQ(graph->n_constants, 10);
    REQUIRE_OK(es_known_atoms_create(graph, known));
    return graph;
}

TEST(known_are_facts_and_queries_of_all_splits) {
    EsKnownAtoms *known;
    EsKnowledgeGraph *graph = make_dense_graph(&known);
    int n_known = 0;
    for (int32_t p = 1; p <= graph->n_predicates; p++) {
        for (int32_t ab = 0; ab < 100; ab++) {
            EsAtom atom = {p, 1 + ab / 10, 1 + ab % 10};
            EXPECT_EQ(es_known_atoms_has(known, &atom), find_known(graph, atom));
            n_known += es_known_atoms_has(known, &atom);
        }
    }
    EXPECT_EQ(n_known, 10);
    es_known_atoms_destroy(known);
    es_known_atoms_destroy(NULL);
    es_kg_destroy(graph);
}

TEST(all_corruptions_are_those_not_known_by_number) {
    EsKnownAtoms *known;
    EsKnowledgeGraph *graph = make_dense_graph(&known);
    EsCorruptionSettings settings = {.seed = 5};
    EsAtom atoms[MAX_ATOMS], query = find_atom(graph, "p", "c0", "c1");
    EXPECT_EQ(es_corruptions_capacity(known), 9);
    // c0 has p to c1..c5: left are c0, c6, c7, c8, c9
    static const int32_t tails[] = {1, 7, 8, 9, 10};
    EXPECT_EQ(es_corruptions_list(known, &settings, &query, ES_CORRUPT_TAIL, 0, atoms), 5);
    for (int i = 0; i < 5; i++) {
        EXPECT_EQ(atoms[i].predicate, query.predicate);
        EXPECT_EQ(atoms[i].a, query.a);
        EXPECT_EQ(atoms[i].b, tails[i]);
    }
    // p(c1,c1) and p(c8,c1) are known
    static const int32_t heads[] = {3, 4, 5, 6, 7, 8, 10};
    EXPECT_EQ(es_corruptions_list(known, &settings, &query, ES_CORRUPT_HEAD, 0, atoms), 7);
    for (int i = 0; i < 7; i++) {
        EXPECT_EQ(atoms[i].a, heads[i]);
        EXPECT_EQ(atoms[i].b, query.b);
    }
    es_known_atoms_destroy(known);
    es_kg_destroy(graph);
}

TEST(some_corruptions_are_a_prefix_of_one_order) {
    EsKnownAtoms *known;
    EsKnowledgeGraph *graph = make_dense_graph(&known);
    EsAtom all[MAX_ATOMS], some[MAX_ATOMS], query = find_atom(graph, "p", "c0", "c1");
    int n_orders = 0;
    int32_t last_first = 0;
    for (uint64_t seed = 0; seed < 30; seed++) {
        EsCorruptionSettings settings = {.seed = seed};
        int32_t n = es_corruptions_list(known, &settings, &query, ES_CORRUPT_TAIL, 50, all);
        EXPECT_EQ(n, 5);
        unsigned seen = 0;
        for (int32_t i = 0; i < n; i++) {
            EXPECT(!find_known(graph, all[i]));
            EXPECT((seen >> all[i].b & 1u) == 0);
            seen |= 1u << all[i].b;
        }
        for (int32_t count = 1; count <= 5; count++) {
            EXPECT_EQ(es_corruptions_list(known, &settings, &query, ES_CORRUPT_TAIL, count, some),
                      count);
            EXPECT(memcmp(some, all, (size_t)count * sizeof *all) == 0);
        }
        n_orders += all[0].b != last_first;
        last_first = all[0].b;
    }
    EXPECT(n_orders > 10);
    es_known_atoms_destroy(known);
    es_kg_destroy(graph);
}

// Returns whether counts of those in the bit set `left` are as of equal probability.
static void expect_uniform(const int *counts, unsigned left, int n_left, int n_draws) {
    double expected = (double)n_draws / n_left, chi_square = 0;
    for (int i = 1; i <= 10; i++) {
        int is_left = (int)(left >> i & 1u);
        EXPECT(is_left || counts[i] == 0);
        chi_square += is_left ? (counts[i] - expected) * (counts[i] - expected) / expected : 0;
    }
    printf("chi square %.2f with %d degrees of freedom\n", chi_square, n_left - 1);
    EXPECT(chi_square < (n_left == 2 ? 15.2 : 31.9)); // p = 1e-4 for 1 and 8 degrees
}

TEST(single_draws_are_uniform_over_what_is_left) {
    EsKnowledgeGraph *graph;
    EsKnownAtoms *known;
    enum { N_DRAWS = 20000 };
    // p leaves c1 and cx, so that of 35 draws one is known 16 times in turn; q leaves nine
    REQUIRE_OK(build_case("p(c1,c2)\np(c1,c3)\np(c1,c4)\np(c1,c5)\np(c1,c6)\np(c1,c7)\n"
                          "p(c1,c8)\nq(c1,c1)\nr(c9,cx)\n",
                          "p(c1,c9)\n", NULL, &graph));
    REQUIRE_OK(es_known_atoms_create(graph, &known));
    EXPECT_EQ(graph->n_constants, 10);
    const struct {
        EsAtom query;
        unsigned left;
        int n_left;
    } cases[] = {{find_atom(graph, "p", "c1", "c2"), 0x402u, 2},
                 {find_atom(graph, "q", "c1", "c1"), 0x7fcu, 9}};
    EsCorruptionSettings settings = {.seed = 9};
    for (int i = 0; i < 2; i++) {
        EsAtom query = cases[i].query, atom, again, list[2];
        int counts[11] = {0}, list_counts[11] = {0};
        for (uint64_t draw = 0; draw < N_DRAWS; draw++) {
            uint64_t number = draw << 28; // also beyond 32 bits
            EXPECT(es_corruption_draw(known, &settings, &query, ES_CORRUPT_TAIL, number, &atom));
            EXPECT(es_corruption_draw(known, &settings, &query, ES_CORRUPT_TAIL, number, &again));
            EXPECT_EQ(es_atom_compare(&atom, &again), 0);
            counts[atom.b]++;
            EsCorruptionSettings other = {.seed = draw};
            EXPECT_EQ(es_corruptions_list(known, &other, &query, ES_CORRUPT_TAIL, 1, list), 1);
            list_counts[list[0].b]++;
        }
        expect_uniform(counts, cases[i].left, cases[i].n_left, N_DRAWS);
        expect_uniform(list_counts, cases[i].left, cases[i].n_left, N_DRAWS);
    }
    es_known_atoms_destroy(known);
    es_kg_destroy(graph);
}

TEST(domains_confine_replacements) {
    EsKnowledgeGraph *graph;
    EsKnownAtoms *known;
    REQUIRE_OK(
        build_case("p(a1,x1)\np(a2,x2)\np(a3,x3)\np(lone,x1)\np(free,x2)\n", NULL, NULL, &graph));
    // unsorted, with a repetition and an unknown name
    const char *text = "letters a3 a1 nobody a2 a1\nothers x3 x2 x1\nsingle lone\n";
    REQUIRE_OK(es_kg_text_read_domains(graph, "domains", text, strlen(text)));
    REQUIRE_OK(es_known_atoms_create(graph, &known));
    EsCorruptionSettings settings = {.seed = 1, .uses_domains = 1};
    EsAtom atoms[MAX_ATOMS], atom, query = find_atom(graph, "p", "a1", "x1");
    EXPECT_EQ(es_corruptions_list(known, &settings, &query, ES_CORRUPT_HEAD, 0, atoms), 2);
    EXPECT_EQ(atoms[0].a, es_kg_constant(graph, "a2"));
    EXPECT_EQ(atoms[1].a, es_kg_constant(graph, "a3"));
    EXPECT_EQ(es_corruptions_list(known, &settings, &query, ES_CORRUPT_TAIL, 100, atoms), 2);
    EXPECT_EQ(atoms[0].b + atoms[1].b, es_kg_constant(graph, "x2") + es_kg_constant(graph, "x3"));
    // a domain of one has nothing to offer
    EsAtom single = find_atom(graph, "p", "lone", "x1");
    EXPECT_EQ(es_corruptions_list(known, &settings, &single, ES_CORRUPT_HEAD, 10, atoms), 0);
    EXPECT_EQ(es_corruption_draw(known, &settings, &single, ES_CORRUPT_HEAD, 3, &atom), 0);
    EXPECT_EQ(es_atom_compare(&atom, &single), 0);
    // without a domain: any of the eight, less itself and a2, whose p(a2,x2) is known
    EsAtom untyped = find_atom(graph, "p", "free", "x2");
    EXPECT_EQ(es_corruptions_list(known, &settings, &untyped, ES_CORRUPT_HEAD, 0, atoms), 6);
    settings.uses_domains = 0;
    EXPECT_EQ(es_corruptions_list(known, &settings, &single, ES_CORRUPT_HEAD, 0, atoms), 6);
    es_known_atoms_destroy(known);
    es_kg_destroy(graph);
}

TEST(nothing_is_left_where_all_is_known) {
    EsKnowledgeGraph *graph;
    EsKnownAtoms *known;
    EsAtom atoms[MAX_ATOMS], atom;
    REQUIRE_OK(build_case("p(a,a)\np(a,b)\np(b,a)\np(b,b)\n", NULL, NULL, &graph));
    REQUIRE_OK(es_known_atoms_create(graph, &known));
    EsCorruptionSettings settings = {.seed = 1};
    EsAtom query = find_atom(graph, "p", "a", "b");
    for (int side = 0; side < ES_N_CORRUPT_SIDES; side++) {
        EXPECT_EQ(es_corruptions_list(known, &settings, &query, side, 0, atoms), 0);
        EXPECT_EQ(es_corruptions_list(known, &settings, &query, side, 7, atoms), 0);
        EXPECT_EQ(es_corruption_draw(known, &settings, &query, side, 0, &atom), 0);
    }
    es_known_atoms_destroy(known);
    es_kg_destroy(graph);
}

// The filter counts facts whose published depth is "none" too: family has 4,788 of these.
TEST(no_fact_of_family_is_drawn) {
    const char *folder = getenv("ES_KG_DIR");
    if (folder == NULL || folder[0] == '\0') {
        SKIP("ES_KG_DIR is not set");
    }
    char path[1024];
    snprintf(path, sizeof path, "%s/family", folder);
    EsKnowledgeGraph *graph;
    EsKnownAtoms *known;
    REQUIRE_OK(es_kg_load(path, NULL, &graph));
    REQUIRE_OK(es_known_atoms_create(graph, &known));
    EsCorruptionSettings settings = {.seed = 2};
    const EsQuerySplit *test = &graph->splits[ES_KG_SPLIT_TEST];
    EsAtom atoms[100], atom;
    for (int32_t i = 0; i < test->count; i += 50) {
        int side = i / 50 % 2;
        EXPECT_EQ(es_corruptions_list(known, &settings, &test->atoms[i], side, 100, atoms), 100);
        for (int32_t k = 0; k < 100; k++) {
            EXPECT(!es_kg_has_fact(graph, atoms[k]) && !find_known(graph, atoms[k]));
        }
        EXPECT(es_corruption_draw(known, &settings, &test->atoms[i], side, 1, &atom));
        EXPECT(!find_known(graph, atom));
    }
    es_known_atoms_destroy(known);
    es_kg_destroy(graph);
}
