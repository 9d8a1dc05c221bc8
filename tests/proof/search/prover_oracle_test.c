// Depths against recorded ones, on the knowledge graphs under ES_KG_DIR: the correct ones
// (derived/*.tsv, from an independent program) and the published ones, which come from a defective
// renaming of variables. Proofs against the closure.
#include <limits.h>

#include "base/memory.h"
#include "proof/graph/knowledge_file.h"
#include "proof/search/closure.h"
#include "proof/search/prover.h"
#include "proof/small_graph.h"

// Load a graph, or say why the test cannot run.
static EsKnowledgeGraph *load(const char *name, const char *rules) {
    const char *root = getenv("ES_KG_DIR");
    char folder[PATH_MAX];
    EsKnowledgeGraph *graph = NULL;
    snprintf(folder, sizeof folder, "%s/%s", root, name);
    REQUIRE_OK(es_kg_load(folder, rules, &graph));
    return graph;
}

#define NEEDS_GRAPHS()                                                                             \
    if (getenv("ES_KG_DIR") == NULL) {                                                             \
        SKIP("ES_KG_DIR is not set");                                                              \
    }

static int32_t *find_depths(const EsKnowledgeGraph *graph, const EsProverSettings *settings,
                            const EsAtom *queries, int32_t count) {
    EsThreadPool *pool = NULL;
    EsProverReport report;
    void *depths = NULL;
    REQUIRE_OK(es_allocate((size_t)count * sizeof(int32_t), &depths));
    REQUIRE_OK(es_thread_pool_create(&pool, 2));
    REQUIRE_OK(es_prover_find_depths(graph, settings, pool, queries, count, depths, &report));
    es_thread_pool_destroy(pool);
    EXPECT_EQ(report.n_unknown, 0);
    return depths;
}

// --- recorded depths ---

typedef struct Recorded {
    EsAtom query;
    int32_t depth[2]; // by EsGoalSelection
} Recorded;

// Lines "atom <tab> leftmost <tab> constrained <tab> published"; returns how many.
static int32_t read_recorded(const EsKnowledgeGraph *graph, const char *name, const char *file,
                             Recorded **rows) {
    char path[PATH_MAX], line[1024];
    int32_t count = 0;
    snprintf(path, sizeof path, "%s/%s/derived/%s", getenv("ES_KG_DIR"), name, file);
    FILE *stream = fopen(path, "r");
    void *memory = NULL;
    REQUIRE_OK(es_allocate(100000 * sizeof **rows, &memory));
    *rows = memory;
    if (stream == NULL) {
        ES_TEST_FAIL("cannot read %s", path);
        return 0;
    }
    while (fgets(line, sizeof line, stream) != NULL && count < 100000) {
        Recorded *row = &(*rows)[count++];
        char *tab = strchr(line, '\t');
        EXPECT(tab != NULL && sscanf(tab, "%d %d", &row->depth[ES_GOAL_LEFTMOST],
                                     &row->depth[ES_GOAL_CONSTRAINED]) == 2);
        row->query = small_atom(graph, line);
    }
    fclose(stream);
    return count;
}

static void expect_recorded(const char *name, const char *file, int32_t max_depth,
                            int32_t max_atoms, int32_t expected_count) {
    EsKnowledgeGraph *graph = load(name, NULL);
    Recorded *rows = NULL;
    int32_t count = read_recorded(graph, name, file, &rows);
    EXPECT_EQ(count, expected_count);
    void *memory = NULL;
    REQUIRE_OK(es_allocate((size_t)count * sizeof(EsAtom), &memory));
    EsAtom *queries = memory;
    for (int32_t i = 0; i < count; i++) {
        queries[i] = rows[i].query;
    }
    for (int s = 0; s < 2; s++) {
        EsProverSettings settings = es_prover_defaults();
        settings.selection = s == 0 ? ES_GOAL_CONSTRAINED : ES_GOAL_LEFTMOST;
        settings.max_depth = max_depth;
        settings.max_atoms = max_atoms;
        int32_t *depths = find_depths(graph, &settings, queries, count);
        int32_t n_same = 0;
        for (int32_t i = 0; i < count; i++) {
            n_same += depths[i] == rows[i].depth[settings.selection];
        }
        printf("%s, %s, %s: %d of %d depths agree\n", name, file,
               s == 0 ? "constrained" : "leftmost", n_same, count);
        EXPECT_EQ(n_same, count);
        es_release(depths);
    }
    es_release(queries);
    es_release(rows);
    es_kg_destroy(graph);
}

TEST(countries_depths) {
    NEEDS_GRAPHS();
    expect_recorded("countries_s3", "train_sld_depths_d10_a20.tsv", 10, 20, 111);
    expect_recorded("countries_s3", "valid_sld_depths_d10_a20.tsv", 10, 20, 24);
    expect_recorded("countries_s3", "test_sld_depths_d10_a20.tsv", 10, 20, 24);
}

TEST(family_depths) {
    NEEDS_GRAPHS();
    expect_recorded("family", "valid_sld_depths_d4_a6.tsv", 4, 6, 2799);
    expect_recorded("family", "test_sld_depths_d4_a6.tsv", 4, 6, 5626);
}

TEST(umls_depths) {
    NEEDS_GRAPHS();
    expect_recorded("umls", "valid_sld_depths_d6_a6.tsv", 6, 6, 1300);
    expect_recorded("umls", "train_sld_depths_d6_a6.tsv", 6, 6, 1959);
}

TEST(wn18rr_depths) {
    NEEDS_GRAPHS();
    expect_recorded("wn18rr", "valid_sld_depths_d4_a6.tsv", 4, 6, 2824);
}

// --- published depths ---

static void expect_published(const char *name, const char *rules, EsKgSplit split,
                             int32_t max_depth, int32_t expected_count) {
    EsKnowledgeGraph *graph = load(name, rules);
    const EsQuerySplit *queries = &graph->splits[split];
    EsProverSettings settings = es_prover_defaults();
    settings.selection = ES_GOAL_LEFTMOST;
    settings.max_depth = max_depth;
    settings.max_atoms = 20;
    settings.uses_published_naming = 1;
    int32_t *depths = find_depths(graph, &settings, queries->atoms, queries->count);
    int32_t n_same = 0, n_published = 0;
    for (int32_t i = 0; i < queries->count; i++) {
        n_published += queries->depths[i] != ES_KG_DEPTH_ABSENT;
        n_same += depths[i] == queries->depths[i];
    }
    printf("%s, split %d: %d of %d published depths agree\n", name, (int)split, n_same,
           n_published);
    EXPECT_EQ(n_published, expected_count);
    EXPECT_EQ(n_same, expected_count);
    es_release(depths);
    es_kg_destroy(graph);
}

TEST(countries_as_published) {
    NEEDS_GRAPHS();
    expect_published("countries_s3", NULL, ES_KG_SPLIT_TRAIN, 10, 111);
    expect_published("countries_s3", NULL, ES_KG_SPLIT_VALID, 10, 24);
    expect_published("countries_s3", NULL, ES_KG_SPLIT_TEST, 10, 24);
}

TEST(family_as_published) {
    NEEDS_GRAPHS();
    expect_published("family", "rules_amie.txt", ES_KG_SPLIT_TRAIN, 8, 19845);
    expect_published("family", "rules_amie.txt", ES_KG_SPLIT_VALID, 8, 2799);
    expect_published("family", "rules_amie.txt", ES_KG_SPLIT_TEST, 8, 5626);
}

TEST(umls_as_published) {
    NEEDS_GRAPHS();
    expect_published("umls", NULL, ES_KG_SPLIT_TRAIN, 10, 1959);
    expect_published("umls", NULL, ES_KG_SPLIT_VALID, 10, 1300);
    expect_published("umls", NULL, ES_KG_SPLIT_TEST, 10, 3245);
}

TEST(wn18rr_as_published) {
    NEEDS_GRAPHS();
    expect_published("wn18rr", NULL, ES_KG_SPLIT_VALID, 7, 2824);
    expect_published("wn18rr", NULL, ES_KG_SPLIT_TEST, 7, 2924);
}

// --- closure ---

// Every proof is in the closure; with a depth that suffices the two agree.
static void expect_in_closure(const char *name, EsKgSplit split, int32_t max_depth,
                              int32_t expected_proved) {
    EsKnowledgeGraph *graph = load(name, NULL);
    EsClosure *closure = NULL;
    REQUIRE_OK(es_closure_create(graph, ES_CLOSURE_DEFAULT_LIMIT, &closure));
    EXPECT(closure->is_complete);
    const EsQuerySplit *queries = &graph->splits[split];
    EsProverSettings settings = es_prover_defaults();
    settings.max_depth = max_depth;
    int32_t *depths = find_depths(graph, &settings, queries->atoms, queries->count);
    int32_t n_proved = 0, n_unsound = 0;
    for (int32_t i = 0; i < queries->count; i++) {
        n_proved += depths[i] > 0;
        n_unsound += depths[i] > 0 && !es_closure_has(closure, &queries->atoms[i]);
    }
    EXPECT_EQ(n_unsound, 0);
    EXPECT_EQ(n_proved, expected_proved);
    es_release(depths);
    es_closure_destroy(closure);
    es_kg_destroy(graph);
}

TEST(proofs_are_in_the_closure) {
    NEEDS_GRAPHS();
    expect_in_closure("countries_s3", ES_KG_SPLIT_TEST, 10, 24);
    expect_in_closure("umls", ES_KG_SPLIT_VALID, 6, 1300 - 248);
    // as many as the closure holds
    expect_in_closure("family", ES_KG_SPLIT_TEST, 8, 5420);
}
