// Searches for one proof: against the prover and the closure on random graphs, and small graphs by
// hand.
#include "proof/search/proof_search.h"

#include "proof/random_graph.h"
#include "proof/search_case.h"

#define N_GRAPHS 12

static EsProofAnswer find(EsProofSearch *search, EsAtom query) {
    EsProofAnswer answer;
    REQUIRE_OK(es_proof_search_find(search, &query, &answer));
    return answer;
}

// An answer once, with a search of its own; the proof is gone with it.
static EsProofAnswer find_once(const EsKnowledgeGraph *graph, const EsProofSearchSettings *settings,
                               const EsProofGuide *guide, const char *query) {
    EsProofSearch *search = NULL;
    REQUIRE_OK(es_proof_search_create(graph, settings, guide, &search));
    EsProofAnswer answer = find(search, small_atom(graph, query));
    if (answer.is_proved) {
        expect_replays(graph, settings, small_atom(graph, query), &answer);
    }
    es_proof_search_destroy(search);
    answer.path = NULL;
    answer.actions = NULL;
    return answer;
}

// --- random graphs ---

// All atoms of a graph: the exhaustive kinds prove what the prover does, and walks no more.
static void compare_with_prover(const EsKnowledgeGraph *graph,
                                const EsProofSearchSettings *settings, const EsProofGuide *guide,
                                int *n_proved) {
    EsProverSettings prover_settings = es_prover_defaults();
    EsProver *prover = NULL;
    EsProofSearch *search = NULL;
    prover_settings.selection = settings->selection;
    prover_settings.max_depth = settings->max_depth;
    prover_settings.max_atoms = settings->max_atoms;
    REQUIRE_OK(es_prover_create(graph, &prover_settings, &prover));
    REQUIRE_OK(es_proof_search_create(graph, settings, guide, &search));
    int is_walk = settings->kind == ES_SEARCH_GREEDY || settings->kind == ES_SEARCH_SAMPLED;
    for (int32_t i = 0; i < graph->splits[ES_KG_SPLIT_TEST].count; i++) {
        EsAtom query = graph->splits[ES_KG_SPLIT_TEST].atoms[i];
        EsProverAnswer depth;
        REQUIRE_OK(es_prover_find_depth(prover, &query, &depth));
        EsProofAnswer answer = find(search, query);
        EXPECT(!answer.met_expanded && !answer.met_entries);
        EXPECT_EQ(answer.is_proved,
                  is_walk ? answer.is_proved && depth.depth > 0 : depth.depth > 0);
        if (settings->kind == ES_SEARCH_BREADTH || settings->kind == ES_SEARCH_BEAM) {
            EXPECT_EQ(answer.depth, depth.depth);
        }
        if (!answer.is_proved) {
            EXPECT_EQ(answer.depth, ES_KG_DEPTH_NONE);
            continue;
        }
        ++*n_proved;
        EXPECT(answer.depth >= depth.depth && answer.depth <= settings->max_depth);
        expect_replays(graph, settings, query, &answer);
        SmallClosure closure = close_graph(graph, query, 100);
        EXPECT(*closure_cell(&closure, query, NULL));
        if (guide != NULL) {
            EXPECT_NEAR(
                answer.log_probability,
                probability_of_actions(graph, settings, guide, query, answer.actions, answer.depth),
                1e-5);
        }
    }
    es_proof_search_destroy(search);
    es_prover_destroy(prover);
}

TEST(searches_prove_what_the_prover_does) {
    int n_proved[ES_N_SEARCH_KINDS] = {0}, n_by_value[ES_N_SEARCH_KINDS] = {0};
    int n_ends_valued = 0;
    for (uint32_t number = 0; number < N_GRAPHS; number++) {
        RandomGraph random = draw_graph(number, 0);
        EsKnowledgeGraph *graph = build_graph(&random, 0, -1, "");
        HashGuide state = {.n_predicates = graph->n_predicates};
        EsProofGuide guide = {&state, score_by_hash};
        EsProofSearchSettings settings = es_proof_search_defaults();
        settings.max_expanded = 1000000;
        settings.beam_width = 1 << 20;
        settings.max_depth = 4;
        settings.batch = 1 + (int32_t)(number % 3) * 4;
        settings.has_end = number % 2 == 1;
        settings.selection = number % 4 == 3 ? ES_GOAL_LEFTMOST : ES_GOAL_CONSTRAINED;
        for (int kind = 0; kind < ES_N_SEARCH_KINDS; kind++) {
            settings.kind = (EsSearchKind)kind;
            compare_with_prover(graph, &settings, NULL, &n_proved[kind]);
            compare_with_prover(graph, &settings, &guide, &n_proved[kind]);
            if (kind == ES_SEARCH_BEST_FIRST || kind == ES_SEARCH_BEAM) {
                settings.value_weight = 2;
                compare_with_prover(graph, &settings, &guide, &n_by_value[kind]);
                settings.value_weight = 0;
            }
        }
        EXPECT(!state.is_broken && state.n_calls > 0);
        EXPECT(state.most_states <= settings.batch);
        n_ends_valued += state.n_ends_valued;
        es_kg_destroy(graph);
    }
    for (int kind = 0; kind < ES_N_SEARCH_KINDS; kind++) {
        printf("%s: %d proofs\n", es_search_kind_names[kind], n_proved[kind]);
        EXPECT(n_proved[kind] > 100);
    }
    EXPECT(n_ends_valued > 100);
    EXPECT_EQ(n_proved[ES_SEARCH_BEST_FIRST], n_proved[ES_SEARCH_BREADTH]);
    EXPECT_EQ(2 * n_by_value[ES_SEARCH_BEST_FIRST], n_proved[ES_SEARCH_BREADTH]);
    EXPECT_EQ(2 * n_by_value[ES_SEARCH_BEAM], n_proved[ES_SEARCH_BEAM]);
    EXPECT(n_proved[ES_SEARCH_GREEDY] < n_proved[ES_SEARCH_SAMPLED]);
    EXPECT(n_proved[ES_SEARCH_SAMPLED] < n_proved[ES_SEARCH_BREADTH]);
}

TEST(limits_are_kept_and_told) {
    int n_cut[ES_N_SEARCH_KINDS] = {0};
    RandomGraph random = draw_graph(4, 0);
    EsKnowledgeGraph *graph = build_graph(&random, 0, -1, "");
    for (int kind = 0; kind < ES_N_SEARCH_KINDS; kind++) {
        EsProofSearchSettings settings = es_proof_search_defaults();
        EsProofSearch *wide = NULL, *narrow = NULL, *small = NULL;
        settings.kind = (EsSearchKind)kind;
        settings.max_depth = 6;
        settings.max_expanded = 1000000;
        REQUIRE_OK(es_proof_search_create(graph, &settings, NULL, &wide));
        settings.max_expanded = 3;
        REQUIRE_OK(es_proof_search_create(graph, &settings, NULL, &narrow));
        settings.max_expanded = 1000000;
        settings.max_entries = 4;
        REQUIRE_OK(es_proof_search_create(graph, &settings, NULL, &small));
        for (int32_t i = 0; i < graph->splits[ES_KG_SPLIT_TEST].count; i++) {
            EsAtom query = graph->splits[ES_KG_SPLIT_TEST].atoms[i];
            EsProofAnswer all = find(wide, query), cut = find(narrow, query);
            EXPECT(!all.met_expanded);
            EXPECT(cut.n_expanded <= 3);
            EXPECT_EQ(cut.met_expanded, all.n_expanded > 3);
            n_cut[kind] += cut.met_expanded;
            EsProofAnswer few = find(small, query);
            if (kind <= ES_SEARCH_BEAM) {
                EXPECT(few.n_entries <= 4);
                EXPECT_EQ(few.met_entries, all.n_entries > 4 && !few.is_proved);
            }
        }
        es_proof_search_destroy(wide);
        es_proof_search_destroy(narrow);
        es_proof_search_destroy(small);
        EXPECT(n_cut[kind] > 0);
    }
    es_kg_destroy(graph);
}

TEST(walks_do_not_depend_on_the_batch) {
    RandomGraph random = draw_graph(2, 0);
    EsKnowledgeGraph *graph = build_graph(&random, 0, -1, "");
    HashGuide state = {.n_predicates = graph->n_predicates};
    EsProofGuide guide = {&state, score_by_hash};
    EsProofSearchSettings settings = es_proof_search_defaults();
    EsProofSearch *searches[3] = {NULL};
    settings.kind = ES_SEARCH_SAMPLED;
    settings.max_expanded = 1000000;
    for (int i = 0; i < 3; i++) {
        settings.batch = 1 + 6 * i;
        REQUIRE_OK(es_proof_search_create(graph, &settings, &guide, &searches[i]));
    }
    for (int32_t i = 0; i < graph->splits[ES_KG_SPLIT_TEST].count; i++) {
        EsAtom query = graph->splits[ES_KG_SPLIT_TEST].atoms[i];
        EsProofAnswer one = find(searches[0], query);
        for (int k = 1; k < 3; k++) {
            EsProofAnswer other = find(searches[k], query);
            EXPECT_EQ(other.is_proved, one.is_proved);
            EXPECT_EQ(other.depth, one.depth);
            EXPECT_EQ(other.n_expanded, one.n_expanded);
            EXPECT(other.log_probability == one.log_probability);
        }
    }
    for (int i = 0; i < 3; i++) {
        es_proof_search_destroy(searches[i]);
    }
    es_kg_destroy(graph);
}

// --- small graphs ---

// goal(a,z) by two ways: short through s1, of three steps through l1 and l2.
static EsKnowledgeGraph *make_ways(void) {
    return make_small_graph("s(a,z) l(a,m) l(m,z)",
                            "l1(x,y) -> goal(x,y); l2(x,y) -> l1(x,y); l(x,h) l(h,y) -> l2(x,y); "
                            "s2(x,y) -> goal(x,y); s(x,y) -> s2(x,y)",
                            "goal(a,z) goal(z,a)");
}

// Prefers successors of one predicate, nine to one.
static EsStatus score_by_predicate(void *context, const EsProofChoices *choices,
                                   float *log_probability, float *value) {
    const int32_t *preferred = context;
    (void)value;
    EXPECT(choices->n_queries == 1 && choices->queries[0].a != choices->queries[0].b);
    for (int32_t i = 0; i < choices->n_states; i++) {
        int32_t begin = choices->first[i], end = choices->first[i + 1], n_preferred = 0;
        for (int32_t k = begin; k < end; k++) {
            n_preferred += choices->successors[k].atoms[0].predicate == *preferred;
        }
        double sum = 9 * n_preferred + (end - begin - n_preferred);
        for (int32_t k = begin; k < end; k++) {
            int is_preferred = choices->successors[k].atoms[0].predicate == *preferred;
            log_probability[k] = (float)log((is_preferred ? 9 : 1) / sum);
        }
    }
    return ES_STATUS_OK;
}

TEST(the_guide_decides_which_proof) {
    EsKnowledgeGraph *graph = make_ways();
    int32_t preferred = es_kg_predicate(graph, "l1");
    EsProofGuide guide = {&preferred, score_by_predicate};
    EsProofSearchSettings settings = es_proof_search_defaults();
    settings.kind = ES_SEARCH_BREADTH;
    EXPECT_EQ(find_once(graph, &settings, &guide, "goal(a,z)").depth, 2);
    settings.kind = ES_SEARCH_BEST_FIRST;
    EsProofAnswer answer = find_once(graph, &settings, &guide, "goal(a,z)");
    EXPECT_EQ(answer.depth, 4);
    EXPECT_NEAR(answer.log_probability, log(0.9), 1e-6);
    EXPECT_EQ(answer.n_expanded, 4);
    settings.kind = ES_SEARCH_GREEDY;
    EXPECT_EQ(find_once(graph, &settings, &guide, "goal(a,z)").depth, 4);
    preferred = es_kg_predicate(graph, "s2");
    EXPECT_EQ(find_once(graph, &settings, &guide, "goal(a,z)").depth, 2);
    settings.kind = ES_SEARCH_BEST_FIRST;
    EXPECT_EQ(find_once(graph, &settings, &guide, "goal(a,z)").depth, 2);
    settings.kind = ES_SEARCH_BEAM;
    settings.beam_width = 1;
    EXPECT_EQ(find_once(graph, &settings, &guide, "goal(a,z)").depth, 2);
    preferred = es_kg_predicate(graph, "l1");
    EXPECT_EQ(find_once(graph, &settings, &guide, "goal(a,z)").depth, 4);
    answer = find_once(graph, &settings, &guide, "goal(z,a)");
    EXPECT(!answer.is_proved && answer.log_probability == 0);
    es_kg_destroy(graph);
}

typedef struct ValueGuide {
    int32_t preferred; // predicate
    int32_t valued;    // predicate whose states have `value`, the others `rest`
    float value, rest;
} ValueGuide;

static EsStatus score_by_value(void *context, const EsProofChoices *choices, float *log_probability,
                               float *value) {
    ValueGuide *guide = context;
    for (int32_t k = 0; value != NULL && k < choices->first[choices->n_states]; k++) {
        int is_valued = choices->successors[k].atoms[0].predicate == guide->valued;
        value[k] = is_valued ? guide->value : guide->rest;
    }
    return score_by_predicate(&guide->preferred, choices, log_probability, NULL);
}

// The long way has 0.9 of the probability; values may outweigh it.
TEST(values_have_a_say_in_the_order) {
    EsKnowledgeGraph *graph = make_ways();
    int32_t long_way = es_kg_predicate(graph, "l1");
    ValueGuide state = {long_way, long_way, 0.05f, 1};
    EsProofGuide guide = {&state, score_by_value};
    EsProofSearchSettings settings = es_proof_search_defaults();
    settings.beam_width = 1;
    for (int kind = ES_SEARCH_BEST_FIRST; kind <= ES_SEARCH_BEAM; kind++) {
        settings.kind = (EsSearchKind)kind;
        settings.value_weight = 0;
        EXPECT_EQ(find_once(graph, &settings, &guide, "goal(a,z)").depth, 4);
        // 0.9 x 0.05 is less than 0.1, and 0.9 x sqrt(0.05) more
        settings.value_weight = 1;
        state.value = 0.05f;
        EsProofAnswer answer = find_once(graph, &settings, &guide, "goal(a,z)");
        EXPECT_EQ(answer.depth, 2);
        EXPECT_EQ(answer.n_expanded, 2);
        EXPECT_NEAR(answer.log_probability, log(0.1), 1e-6);
        settings.value_weight = 0.5;
        EXPECT_EQ(find_once(graph, &settings, &guide, "goal(a,z)").depth, 4);
        // what is less than 0.01 counts as that: against 0.1 x 0.02, and against 0.1 x 1
        settings.value_weight = 1;
        state.value = -3;
        state.rest = 0.02f;
        EXPECT_EQ(find_once(graph, &settings, &guide, "goal(a,z)").depth, 4);
        state.rest = 1;
        EXPECT_EQ(find_once(graph, &settings, &guide, "goal(a,z)").depth, 2);
    }
    es_kg_destroy(graph);
}

// mid(a,z) is met first by the probable way of four steps, too late for the limit on depth, and
// must be expanded again when the short way comes to it.
TEST(a_shorter_way_opens_a_state_again) {
    EsKnowledgeGraph *graph = make_small_graph(
        "f(a,z)",
        "l1(x,y) -> goal(x,y); s1(x,y) -> goal(x,y); l2(x,y) -> l1(x,y); l3(x,y) -> l2(x,y); "
        "mid(x,y) -> l3(x,y); mid(x,y) -> s1(x,y); m2(x,y) -> mid(x,y); m3(x,y) -> m2(x,y); "
        "f(x,y) -> m3(x,y)",
        "goal(a,z)");
    int32_t preferred = es_kg_predicate(graph, "l1");
    EsProofGuide guide = {&preferred, score_by_predicate};
    EsProofSearchSettings settings = es_proof_search_defaults();
    settings.max_depth = 5;
    EsProofAnswer answer = find_once(graph, &settings, &guide, "goal(a,z)");
    EXPECT_EQ(answer.depth, 5);
    EXPECT_NEAR(answer.log_probability, log(0.1), 1e-6);
    // goal, l1, l2, l3, mid; then s1, mid, m2, m3
    EXPECT_EQ(answer.n_expanded, 9);
    settings.max_depth = 7;
    EXPECT_EQ(find_once(graph, &settings, &guide, "goal(a,z)").depth, 7);
    es_kg_destroy(graph);
}

// The long way has 0.9 of the probability, the short one 0.1; they are the only proofs.
TEST(all_proofs_are_weighed) {
    EsKnowledgeGraph *graph = make_ways();
    int32_t preferred = es_kg_predicate(graph, "l1");
    EsProofGuide guide = {&preferred, score_by_predicate};
    EsProofSearchSettings settings = es_proof_search_defaults();
    settings.temperature = 1;
    EsProofAnswer answer = find_once(graph, &settings, &guide, "goal(a,z)");
    EXPECT(answer.n_proofs == 1 && answer.evidence == 0);
    settings.finds_all = 1;
    for (int kind = ES_SEARCH_BREADTH; kind <= ES_SEARCH_BEAM; kind++) {
        settings.kind = (EsSearchKind)kind;
        settings.temperature = 1;
        answer = find_once(graph, &settings, &guide, "goal(a,z)");
        EXPECT_EQ(answer.n_proofs, 2);
        EXPECT_NEAR(answer.evidence, 0, 1e-6);
        // what is told is the first proof
        EXPECT_EQ(answer.depth, kind == ES_SEARCH_BEST_FIRST ? 4 : 2);
        EXPECT_NEAR(answer.log_probability, kind == ES_SEARCH_BEST_FIRST ? log(0.9) : log(0.1),
                    1e-6);
        settings.temperature = 2;
        answer = find_once(graph, &settings, &guide, "goal(a,z)");
        EXPECT_NEAR(answer.evidence, log(sqrt(0.9) + sqrt(0.1)), 1e-6);
        answer = find_once(graph, &settings, &guide, "goal(z,a)");
        EXPECT(!answer.is_proved && answer.n_proofs == 0 && answer.evidence == 0);
    }
    settings.kind = ES_SEARCH_BEST_FIRST;
    settings.max_expanded = 4;
    answer = find_once(graph, &settings, &guide, "goal(a,z)");
    EXPECT(answer.n_proofs == 1 && answer.met_expanded);
    es_kg_destroy(graph);
}

// Nine of ten walks take the long way.
TEST(walks_follow_the_probabilities) {
    EsKnowledgeGraph *graph = make_ways();
    int32_t preferred = es_kg_predicate(graph, "l1");
    EsProofGuide guide = {&preferred, score_by_predicate};
    EsProofSearchSettings settings = es_proof_search_defaults();
    settings.kind = ES_SEARCH_SAMPLED;
    settings.n_samples = 1;
    int n_long = 0;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        settings.seed = seed;
        n_long += find_once(graph, &settings, &guide, "goal(a,z)").depth == 4;
    }
    // five standard deviations: sqrt(2000 * 0.9 * 0.1) = 13.4
    EXPECT_NEAR(n_long, 1800, 67);
    settings.n_samples = 200;
    EsProofAnswer best = find_once(graph, &settings, &guide, "goal(a,z)");
    EXPECT_NEAR(best.log_probability, log(0.9), 1e-6);
    es_kg_destroy(graph);
}

TEST(the_end_takes_its_share) {
    EsKnowledgeGraph *graph = make_ways();
    HashGuide state = {.n_predicates = graph->n_predicates, .end_preference = 50};
    EsProofGuide guide = {&state, score_by_hash};
    EsProofSearchSettings settings = es_proof_search_defaults();
    settings.has_end = 1;
    settings.kind = ES_SEARCH_GREEDY;
    EsProofAnswer answer = find_once(graph, &settings, &guide, "goal(a,z)");
    EXPECT(!answer.is_proved);
    EXPECT_EQ(answer.n_expanded, 1);
    EXPECT_NEAR(answer.log_probability, 0, 1e-6);
    settings.kind = ES_SEARCH_BEST_FIRST;
    answer = find_once(graph, &settings, &guide, "goal(a,z)");
    EXPECT(answer.is_proved && answer.log_probability < -40);
    es_kg_destroy(graph);
}

TEST(successors_over_the_limit_are_counted) {
    EsKnowledgeGraph *graph = make_ways();
    EsProofSearchSettings settings = es_proof_search_defaults();
    settings.kind = ES_SEARCH_BREADTH;
    settings.max_successors = 1;
    EsProofAnswer answer = find_once(graph, &settings, NULL, "goal(a,z)");
    EXPECT_EQ(answer.depth, 4);
    EXPECT_EQ(answer.n_overflow, 1);
    settings.max_successors = 0;
    settings.max_atoms = 1;
    // l(a,h), l(h,z) is too long for the long way
    answer = find_once(graph, &settings, NULL, "goal(z,a)");
    EXPECT_EQ(answer.n_overlong, 1);
    es_kg_destroy(graph);
}

// --- what is refused ---

static EsStatus score_as_nan(void *context, const EsProofChoices *choices, float *log_probability,
                             float *value) {
    (void)context, (void)value;
    for (int32_t k = 0; k < choices->first[choices->n_states]; k++) {
        log_probability[k] = NAN;
    }
    return ES_STATUS_OK;
}

static EsStatus score_badly(void *context, const EsProofChoices *choices, float *log_probability,
                            float *value) {
    (void)context, (void)choices, (void)log_probability, (void)value;
    return ES_FAIL(DEVICE, "the guide fell asleep");
}

TEST(failures_are_passed_on) {
    EsKnowledgeGraph *graph = make_ways();
    EsProofSearchSettings settings = es_proof_search_defaults();
    EsProofGuide nan_guide = {NULL, score_as_nan}, bad_guide = {NULL, score_badly};
    EsProofSearch *search = NULL;
    EsProofAnswer answer;
    EsProofOutcome outcome;
    EsAtom query = small_atom(graph, "goal(a,z)"), wrong = query;
    for (int kind = 0; kind < ES_N_SEARCH_KINDS; kind++) {
        settings.kind = (EsSearchKind)kind;
        REQUIRE_OK(es_proof_search_create(graph, &settings, &nan_guide, &search));
        EXPECT_STATUS(es_proof_search_find(search, &query, &answer), NUMERIC);
        es_proof_search_destroy(search);
        REQUIRE_OK(es_proof_search_create(graph, &settings, &bad_guide, &search));
        EXPECT_STATUS(es_proof_search_find(search, &query, &answer), DEVICE);
        EXPECT_CONTAINS(es_status_detail(), "asleep");
        wrong.a = graph->n_constants + 1;
        EXPECT_STATUS(es_proof_search_find(search, &wrong, &answer), ARGUMENT);
        es_proof_search_destroy(search);
    }
    settings.kind = ES_SEARCH_BEST_FIRST;
    settings.value_weight = 1;
    ValueGuide state = {.value = NAN, .rest = NAN};
    EsProofGuide value_guide = {&state, score_by_value};
    REQUIRE_OK(es_proof_search_create(graph, &settings, &value_guide, &search));
    EXPECT_STATUS(es_proof_search_find(search, &query, &answer), NUMERIC);
    EXPECT_CONTAINS(es_status_detail(), "the value nan");
    es_proof_search_destroy(search);
    settings.value_weight = -1;
    EXPECT_STATUS(es_proof_search_create(graph, &settings, NULL, &search), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "value_weight is -1");
    settings.kind = ES_SEARCH_SAMPLED;
    settings.value_weight = 1;
    EXPECT_STATUS(es_proof_search_create(graph, &settings, NULL, &search), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "not of sampled");
    settings.value_weight = 0;
    EXPECT_STATUS(es_proof_replay(graph, &settings, &wrong, NULL, 0, &outcome), ARGUMENT);
    EXPECT_STATUS(es_proof_replay(graph, &settings, &query, NULL, -1, &outcome), ARGUMENT);
    settings.finds_all = 1;
    EXPECT_STATUS(es_proof_search_create(graph, &settings, NULL, &search), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "not by sampled");
    settings.temperature = 0;
    EXPECT_STATUS(es_proof_search_create(graph, &settings, NULL, &search), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "temperature is 0");
    settings.beam_width = 0;
    EXPECT_STATUS(es_proof_search_create(graph, &settings, NULL, &search), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "beam_width is 0");
    EXPECT(search == NULL);
    es_kg_destroy(graph);
}
