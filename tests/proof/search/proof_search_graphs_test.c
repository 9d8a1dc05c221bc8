// Searches on the knowledge graphs under ES_KG_DIR: best-first proves what the prover does, every
// proof replays, and none lies outside the closure, which is too large to be built for wn18rr.
#include <limits.h>

#include "base/memory.h"
#include "proof/graph/knowledge_file.h"
#include "proof/ranking/ranking.h"
#include "proof/search/closure.h"
#include "proof/search_case.h"

// Some test queries and corruptions of them, by one kind of search. Without a closure, which may be
// NULL, proofs replay.
static void expect_sound(const EsKnowledgeGraph *graph, const EsClosure *closure,
                         EsProofSearchSettings settings, int32_t n_queries, int is_exhaustive) {
    const EsQuerySplit *split = &graph->splits[ES_KG_SPLIT_TEST];
    HashGuide state = {.n_predicates = graph->n_predicates};
    EsProofGuide guide = {&state, score_by_hash};
    EsProverSettings prover_settings = es_prover_defaults();
    EsProver *prover = NULL;
    EsProofSearch *search = NULL;
    int32_t numbers[10000], n_proved = 0, n_outside = 0, n_different = 0;
    prover_settings.max_depth = settings.max_depth;
    REQUIRE_OK(es_prover_create(graph, &prover_settings, &prover));
    REQUIRE_OK(es_proof_search_create(graph, &settings, &guide, &search));
    n_queries = es_ranking_choose(split->count, n_queries, 1, numbers);
    for (int32_t i = 0; i < 2 * n_queries; i++) {
        EsAtom query = split->atoms[numbers[i / 2]];
        EsProofAnswer answer;
        if (i % 2 == 1) {
            query.a = 1 + (query.a + i) % graph->n_constants;
        }
        REQUIRE_OK(es_proof_search_find(search, &query, &answer));
        n_proved += answer.is_proved;
        if (answer.is_proved) {
            expect_replays(graph, &settings, query, &answer);
            n_outside += closure != NULL && !es_closure_has(closure, &query);
        }
        if (is_exhaustive) {
            EsProverAnswer depth;
            REQUIRE_OK(es_prover_find_depth(prover, &query, &depth));
            n_different += answer.is_proved != (depth.depth > 0);
        }
    }
    printf("%s, depth %d: %d of %d proved\n", es_search_kind_names[settings.kind],
           settings.max_depth, n_proved, 2 * n_queries);
    EXPECT(n_proved > n_queries / 4);
    EXPECT_EQ(n_outside, 0);
    EXPECT_EQ(n_different, 0);
    es_proof_search_destroy(search);
    es_prover_destroy(prover);
}

static void expect_sound_kinds(const char *name, int has_closure, int32_t max_depth,
                               int32_t n_queries) {
    char folder[PATH_MAX];
    EsKnowledgeGraph *graph = NULL;
    EsClosure *closure = NULL;
    snprintf(folder, sizeof folder, "%s/%s", getenv("ES_KG_DIR"), name);
    REQUIRE_OK(es_kg_load(folder, NULL, &graph));
    if (has_closure) {
        REQUIRE_OK(es_closure_create(graph, ES_CLOSURE_DEFAULT_LIMIT, &closure));
        EXPECT(closure->is_complete);
    }
    for (int kind = 0; kind < ES_N_SEARCH_KINDS; kind++) {
        EsProofSearchSettings settings = es_proof_search_defaults();
        int is_exhaustive = kind <= ES_SEARCH_BEST_FIRST;
        settings.kind = (EsSearchKind)kind;
        settings.batch = 1 + 3 * (kind % 2);
        settings.max_depth = is_exhaustive ? max_depth : 20;
        settings.max_expanded = is_exhaustive ? 1000000 : 300;
        settings.n_samples = 32;
        expect_sound(graph, closure, settings, n_queries, is_exhaustive);
    }
    es_closure_destroy(closure);
    es_kg_destroy(graph);
}

TEST(umls_proofs_are_sound) {
    if (getenv("ES_KG_DIR") == NULL) {
        SKIP("ES_KG_DIR is not set");
    }
    expect_sound_kinds("umls", 1, 4, 400);
}

TEST(family_proofs_are_sound) {
    if (getenv("ES_KG_DIR") == NULL) {
        SKIP("ES_KG_DIR is not set");
    }
    expect_sound_kinds("family", 1, 3, 200);
}

TEST(wn18rr_proofs_replay) {
    if (getenv("ES_KG_DIR") == NULL) {
        SKIP("ES_KG_DIR is not set");
    }
    expect_sound_kinds("wn18rr", 0, 4, 200);
}
