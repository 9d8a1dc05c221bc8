// Scores by confidences: by hand, against a scorer that tries every rule on every candidate, on any
// number of threads, and the choice of thresholds against rankings made one by one.
#include "proof/ranking/confidence_scorer.h"

#include <math.h>

#include "proof/graph/kinship_graph.h"
#include "proof/path_case.h"

#define MAX_FIRED 4096

static EsPathRules mine_all(const EsKnowledgeGraph *graph) {
    EsPathMinerSettings settings = es_path_miner_defaults();
    settings.min_support = 1;
    settings.min_confidence = 0;
    return mine_paths(graph, &settings, 1);
}

// --- by hand ---

// Three rules for near: road, 2 of 5 pairs; rail and ferry, 1 of 2.
static EsKnowledgeGraph *make_towns(void) {
    return make_small_graph(
        "near(a,b) near(c,d) near(q,r) "
        "road(a,b) road(c,d) road(e,f) road(g,h) rail(a,b) rail(e,f) ferry(q,r) "
        "ferry(i,j) road(i,j)",
        "", "near(e,f) near(g,h) near(i,j) near(e,h)");
}

static EsConfidenceSettings by_hand(EsConfidenceAggregation aggregation, int32_t top) {
    return (EsConfidenceSettings){
        .aggregation = aggregation, .top = top, .smoothing = 1, .min_support = 1, .max_steps = 1};
}

static void score_one(EsConfidenceScorer *scorer, EsAtom atom, EsCandidateScore *score) {
    EsCandidateScorer candidates = es_confidence_scorer_candidates(scorer, 1);
    REQUIRE_OK(candidates.score(candidates.context, 0, &atom, 1, score));
}

TEST(scores_by_hand) {
    EsKnowledgeGraph *graph = make_towns();
    EsPathRules rules = mine_all(graph);
    EsConfidenceScorer *scorer;
    EsCandidateScore score;
    const double third = log(0.5); // odds of road, 2/(5+1), and of the others, 1/(2+1)
    EsConfidenceSettings settings = by_hand(ES_CONFIDENCE_MAX, 0);
    REQUIRE_OK(es_confidence_scorer_create(graph, &rules, &settings, 1, &scorer));
    score_one(scorer, small_atom(graph, "near(g,h)"), &score);
    EXPECT_NEAR(score.score, third, 1e-12);
    EXPECT_EQ(score.depth, 1);
    score_one(scorer, small_atom(graph, "near(e,h)"), &score);
    EXPECT_NEAR(score.score, -100, 0);
    EXPECT_EQ(score.depth, ES_KG_DEPTH_NONE);
    es_confidence_scorer_destroy(scorer);
    // two rules: 1 - (2/3)^2 = 5/9, odds 5/4; top 1 is one of them
    settings = by_hand(ES_CONFIDENCE_NOISY_OR, 0);
    REQUIRE_OK(es_confidence_scorer_create(graph, &rules, &settings, 1, &scorer));
    score_one(scorer, small_atom(graph, "near(e,f)"), &score);
    EXPECT_NEAR(score.score, log(1.25), 1e-12);
    int64_t n_candidates, n_fired;
    score_one(scorer, small_atom(graph, "near(e,h)"), &score);
    es_confidence_scorer_count(scorer, &n_candidates, &n_fired);
    EXPECT_EQ(n_candidates, 2);
    EXPECT_EQ(n_fired, 1);
    es_confidence_scorer_destroy(scorer);
    settings.top = 1;
    REQUIRE_OK(es_confidence_scorer_create(graph, &rules, &settings, 1, &scorer));
    score_one(scorer, small_atom(graph, "near(e,f)"), &score);
    EXPECT_NEAR(score.score, third, 1e-12);
    es_confidence_scorer_destroy(scorer);
    es_path_rules_destroy(&rules);
    es_kg_destroy(graph);
}

// Road and rail are equally confident, 1/3. near(e,h) has one of them, near(e,f) both.
TEST(max_looks_at_the_next_where_the_highest_are_equal) {
    EsKnowledgeGraph *graph = make_small_graph(
        "near(a,b) near(c,d) road(a,b) rail(c,d) rail(e,f) road(e,f) rail(g,h) road(e,h)", "",
        "near(e,f) near(e,h) near(e,b)");
    EsPathRules rules = mine_all(graph);
    EsConfidenceSettings settings = by_hand(ES_CONFIDENCE_MAX, 0);
    settings.smoothing = 0;
    EsConfidenceScorer *scorer;
    EsCandidateScore scores[3];
    const EsAtom atoms[] = {small_atom(graph, "near(e,h)"), small_atom(graph, "near(e,f)"),
                            small_atom(graph, "near(e,b)")};
    REQUIRE_OK(es_confidence_scorer_create(graph, &rules, &settings, 1, &scorer));
    EsCandidateScorer candidates = es_confidence_scorer_candidates(scorer, 0);
    REQUIRE_OK(candidates.score(candidates.context, 0, atoms, 3, scores));
    EXPECT_NEAR(scores[2].score, 0, 0);
    EXPECT_NEAR(scores[0].score, 1, 0);
    EXPECT_NEAR(scores[1].score, 2, 0);
    es_confidence_scorer_destroy(scorer);
    es_path_rules_destroy(&rules);
    es_kg_destroy(graph);
}

// --- a scorer that tries every rule on every candidate ---

static int compare_down(const void *left, const void *right) {
    const double *x = left, *y = right;
    return (*x < *y) - (*x > *y);
}

// The confidences of the rules that fire, highest first; returns how many.
static int32_t list_naively(const EsKnowledgeGraph *graph, const EsPathRules *rules,
                            const EsConfidenceSettings *settings, EsAtom atom, double *list) {
    int32_t count = 0;
    for (int32_t i = 0; i < rules->count; i++) {
        const EsPathRule *rule = &rules->items[i];
        double confidence = rule->support / ((double)rule->n_given + settings->smoothing);
        if (rule->head == atom.predicate && rule->support >= settings->min_support &&
            confidence >= settings->min_confidence &&
            (rule->fixed != 0 ? settings->uses_constants : rule->n_steps <= settings->max_steps) &&
            path_fires(graph, rule, atom.a, atom.b)) {
            EXPECT(count < MAX_FIRED);
            list[count++] = confidence;
        }
    }
    qsort(list, (size_t)count, sizeof *list, compare_down);
    return count;
}

static int compare_naively(const double *x, int32_t n_x, const double *y, int32_t n_y) {
    for (int32_t k = 0; k < n_x && k < n_y; k++) {
        if (x[k] != y[k]) {
            return x[k] > y[k] ? 1 : -1;
        }
    }
    return (n_x > n_y) - (n_x < n_y);
}

static double combine_naively(const EsConfidenceSettings *settings, const double *list,
                              int32_t count) {
    double misses = 1;
    for (int32_t k = 0; k < count && (settings->top == 0 || k < settings->top); k++) {
        misses *= 1 - list[k];
    }
    if (settings->aggregation == ES_CONFIDENCE_MAX && count > 0) {
        misses = 1 - list[0];
    }
    return count == 0 ? -100 : log((1 - misses) / misses);
}

// All candidates of a query, the query first, then heads, then tails.
static int32_t list_candidates(const EsKnowledgeGraph *graph, EsAtom query, EsAtom *atoms) {
    int32_t count = 0;
    atoms[count++] = query;
    for (int32_t c = 1; c <= graph->n_constants; c++) {
        if (c != query.a) {
            atoms[count++] = (EsAtom){query.predicate, c, query.b};
        }
    }
    for (int32_t c = 1; c <= graph->n_constants; c++) {
        if (c != query.b) {
            atoms[count++] = (EsAtom){query.predicate, query.a, c};
        }
    }
    return count;
}

static void compare_query(const EsKnowledgeGraph *graph, const EsPathRules *rules,
                          const EsConfidenceSettings *settings, EsConfidenceScorer *scorer,
                          EsAtom query) {
    static double lists[2 * PATH_CONSTANTS][MAX_FIRED], explained[MAX_FIRED];
    int32_t counts[2 * PATH_CONSTANTS], n_explained;
    EsAtom atoms[2 * PATH_CONSTANTS];
    EsCandidateScore odds[2 * PATH_CONSTANTS], places[2 * PATH_CONSTANTS];
    int32_t count = list_candidates(graph, query, atoms);
    EsCandidateScorer candidates = es_confidence_scorer_candidates(scorer, 1);
    REQUIRE_OK(candidates.score(candidates.context, 0, atoms, count, odds));
    candidates = es_confidence_scorer_candidates(scorer, 0);
    REQUIRE_OK(candidates.score(candidates.context, 0, atoms, count, places));
    for (int32_t i = 0; i < count; i++) {
        counts[i] = list_naively(graph, rules, settings, atoms[i], lists[i]);
        EXPECT_NEAR(odds[i].score, combine_naively(settings, lists[i], counts[i]), 1e-9);
        EXPECT_EQ(odds[i].depth > 0, counts[i] > 0);
        REQUIRE_OK(es_confidence_scorer_explain(scorer, 0, atoms[i], explained, NULL, MAX_FIRED,
                                                &n_explained));
        EXPECT_EQ(n_explained, counts[i]);
        EXPECT_EQ(memcmp(explained, lists[i], (size_t)counts[i] * sizeof *explained), 0);
    }
    for (int32_t i = 0; i < count * count && settings->aggregation == ES_CONFIDENCE_MAX; i++) {
        int32_t x = i / count, y = i % count;
        double difference = places[x].score - places[y].score;
        EXPECT_EQ((difference > 0) - (difference < 0),
                  compare_naively(lists[x], counts[x], lists[y], counts[y]));
    }
}

TEST(scores_are_those_of_a_naive_scorer) {
    for (uint32_t number = 0; number < 10; number++) {
        EsKnowledgeGraph *graph = draw_path_graph(40 + number, 14 + 4 * (int)(number % 4), "");
        EsPathRules rules = mine_all(graph);
        EsConfidenceSettings settings = {.aggregation = (EsConfidenceAggregation)(number % 2),
                                         .top = (int32_t)(number % 4),
                                         .smoothing = number % 3 + 1,
                                         .min_support = 1 + (int32_t)(number % 2),
                                         .min_confidence = number % 5 == 0 ? 0.1 : 0,
                                         .max_steps = 1 + (int)(number % 3),
                                         .uses_constants = number % 3 != 1};
        EsConfidenceScorer *scorer;
        Dice dice = {900 + number, 0};
        REQUIRE_OK(es_confidence_scorer_create(graph, &rules, &settings, 1, &scorer));
        for (int k = 0; k < 6; k++) {
            EsAtom query = {1 + throw_dice(&dice, PATH_PREDICATES),
                            1 + throw_dice(&dice, PATH_CONSTANTS),
                            1 + throw_dice(&dice, PATH_CONSTANTS)};
            compare_query(graph, &rules, &settings, scorer, query);
        }
        es_confidence_scorer_destroy(scorer);
        es_path_rules_destroy(&rules);
        es_kg_destroy(graph);
    }
}

// --- a village ---

typedef struct Village {
    EsKnowledgeGraph *graph;
    EsKnownAtoms *known;
    EsThreadPool *pool;
    EsPathRules rules;
} Village;

static Village make_village(int n_threads) {
    Village village;
    EsPathMinerSettings settings = es_path_miner_defaults();
    REQUIRE_OK(es_kinship_graph_create(150, 2, &village.graph));
    REQUIRE_OK(es_known_atoms_create(village.graph, &village.known));
    REQUIRE_OK(es_thread_pool_create(&village.pool, n_threads));
    REQUIRE_OK(es_path_rules_mine(village.graph, &settings, village.pool, &village.rules));
    return village;
}

static void destroy_village(Village *village) {
    es_path_rules_destroy(&village->rules);
    es_thread_pool_destroy(village->pool);
    es_known_atoms_destroy(village->known);
    es_kg_destroy(village->graph);
}

// MRR of the first `count` queries of a split.
static double rank(const Village *village, const EsConfidenceSettings *settings, EsKgSplit split,
                   int32_t count, int gives_odds) {
    EsConfidenceScorer *scorer;
    EsRanking *ranking;
    EsRankingSettings corruptions = es_ranking_defaults();
    corruptions.n_corruptions = 30;
    REQUIRE_OK(es_confidence_scorer_create(village->graph, &village->rules, settings,
                                           es_thread_pool_size(village->pool), &scorer));
    EsCandidateScorer candidates = es_confidence_scorer_candidates(scorer, gives_odds);
    REQUIRE_OK(es_ranking_create(village->known, &corruptions, &candidates, village->pool,
                                 village->graph->splits[split].atoms, NULL, count, &ranking));
    double mrr = ranking->all.reciprocal.mean;
    es_ranking_destroy(ranking);
    es_confidence_scorer_destroy(scorer);
    return mrr;
}

static void count_call(void *context, int32_t n_done, int32_t count) {
    int32_t *n_calls = context;
    *n_calls += n_done <= count;
}

TEST(the_choice_reports_progress) {
    Village village = make_village(1);
    EsConfidenceSettings settings;
    EsConfidenceChoice choice = {0};
    EsRankingSettings corruptions = es_ranking_defaults();
    int32_t n_calls = 0;
    corruptions.n_corruptions = 5;
    corruptions.progress = count_call;
    corruptions.progress_context = &n_calls;
    REQUIRE_OK(es_confidence_choose(village.known, village.graph, &village.rules, &corruptions,
                                    village.pool, village.graph->splits[ES_KG_SPLIT_VALID].atoms, 4,
                                    &settings, &choice));
    EXPECT_EQ(n_calls, 3 * 4);
    destroy_village(&village);
}

static EsConfidenceSettings choose(const Village *village, int32_t count,
                                   EsConfidenceChoice *choice) {
    EsConfidenceSettings settings;
    EsRankingSettings corruptions = es_ranking_defaults();
    corruptions.n_corruptions = 30;
    REQUIRE_OK(es_confidence_choose(village->known, village->graph, &village->rules, &corruptions,
                                    village->pool, village->graph->splits[ES_KG_SPLIT_VALID].atoms,
                                    count, &settings, choice));
    return settings;
}

// The figure of the choice is that of a ranking with its settings, and no setting tried is better.
TEST(the_choice_is_the_best_of_its_grid) {
    Village village = make_village(2);
    for (int k = 0; k < 1 + ES_N_CONFIDENCE_AGGREGATIONS; k++) {
        EsConfidenceChoice choice = {.fixes_aggregation = k > 0,
                                     .aggregation = (EsConfidenceAggregation)ES_MAX(k - 1, 0)};
        EsConfidenceSettings settings = choose(&village, 40, &choice);
        EXPECT(k == 0 || settings.aggregation == choice.aggregation);
        EXPECT_NEAR(rank(&village, &settings, ES_KG_SPLIT_VALID, 40, 0), choice.mrr, 1e-12);
        for (int t = 0; t < 12; t++) {
            EsConfidenceSettings other = {.aggregation = k == 0 ? (EsConfidenceAggregation)(t % 2)
                                                                : choice.aggregation,
                                          .top = t % 3 == 0 ? 10 : 3,
                                          .smoothing = t % 4 < 2 ? 5 : 20,
                                          .min_support = t % 3 == 1 ? 5 : 2,
                                          .min_confidence = t % 5 == 0 ? 0.2 : 0.01,
                                          .max_steps = 2 + t % 2,
                                          .uses_constants = t > 5};
            EXPECT(rank(&village, &other, ES_KG_SPLIT_VALID, 40, 0) <= choice.mrr + 1e-12);
        }
    }
    destroy_village(&village);
}

TEST(threads_give_the_same_bits) {
    Village one = make_village(1), three = make_village(3);
    EsConfidenceChoice first = {0}, second = {0};
    EsConfidenceSettings of_one = choose(&one, 30, &first), of_three = choose(&three, 30, &second);
    EXPECT_NEAR(first.mrr, second.mrr, 0);
    EXPECT_EQ(of_one.aggregation, of_three.aggregation);
    EXPECT_EQ(of_one.top, of_three.top);
    EXPECT_EQ(of_one.min_support, of_three.min_support);
    EXPECT_NEAR(of_one.smoothing, of_three.smoothing, 0);
    for (int a = 0; a < ES_N_CONFIDENCE_AGGREGATIONS; a++) {
        of_one.aggregation = (EsConfidenceAggregation)a;
        for (int gives_odds = 0; gives_odds < 2; gives_odds++) {
            EXPECT_NEAR(rank(&one, &of_one, ES_KG_SPLIT_TEST, 60, gives_odds),
                        rank(&three, &of_one, ES_KG_SPLIT_TEST, 60, gives_odds), 0);
        }
    }
    destroy_village(&one);
    destroy_village(&three);
}

// Queries of all splits are no facts: scores are the same when the graph has others.
TEST(queries_do_not_leak) {
    const char *held_out = "p0(c1,c2) p1(c2,c1) p2(c1,c3) p0(c3,c2) p1(c5,c6) p2(c6,c5)";
    EsKnowledgeGraph *graphs[2] = {draw_path_graph(8, 22, ""), draw_path_graph(8, 22, held_out)};
    EsConfidenceSettings settings = es_confidence_defaults();
    EsCandidateScore scores[2][2 * PATH_CONSTANTS];
    EsAtom atoms[2 * PATH_CONSTANTS], query = {1, 2, 3};
    int32_t count = list_candidates(graphs[0], query, atoms), n_fired = 0;
    for (int g = 0; g < 2; g++) {
        EsPathRules rules = mine_all(graphs[g]);
        EsConfidenceScorer *scorer;
        REQUIRE_OK(es_confidence_scorer_create(graphs[g], &rules, &settings, 1, &scorer));
        EsCandidateScorer candidates = es_confidence_scorer_candidates(scorer, 0);
        REQUIRE_OK(candidates.score(candidates.context, 0, atoms, count, scores[g]));
        es_confidence_scorer_destroy(scorer);
        es_path_rules_destroy(&rules);
    }
    for (int32_t i = 0; i < count; i++) {
        EXPECT_NEAR(scores[0][i].score, scores[1][i].score, 0);
        n_fired += scores[0][i].depth > 0;
    }
    EXPECT(n_fired > 0);
    es_kg_destroy(graphs[0]);
    es_kg_destroy(graphs[1]);
}

TEST(a_choice_needs_queries) {
    Village village = make_village(1);
    EsConfidenceChoice choice = {0};
    EsConfidenceSettings settings;
    EsRankingSettings corruptions = es_ranking_defaults();
    EXPECT_STATUS(es_confidence_choose(village.known, village.graph, &village.rules, &corruptions,
                                       village.pool, NULL, 0, &settings, &choice),
                  ARGUMENT);
    destroy_village(&village);
}
