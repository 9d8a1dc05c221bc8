// Environments, negatives, features, the network and rankings on graphs whose predicates have 0 to
// 4 arguments: steps by hand, a village with the same proofs as one of binary predicates, and plain
// enumeration.
#include "proof/wide_village.h"

#include <math.h>

#include "base/file.h"
#include "base/memory.h"
#include "proof/agent/proof_env.h"
#include "proof/agent/proof_features.h"
#include "proof/agent/proof_policy_network.h"
#include "proof/graph/knowledge_file.h"
#include "proof/ranking/ranking_scorers.h"
#include "proof/search/closure.h"
#include "temp_folder.h"

// --- by hand ---

static EsKnowledgeGraph *load_texts(const char *train, const char *rules, const char *test) {
    static int n_made;
    char names[3][96];
    const char *const files[] = {"train.txt", "rules.txt", "test.txt"};
    const char *const texts[] = {train, rules, test};
    EsKnowledgeGraph *graph = NULL;
    char folder[64];
    snprintf(folder, sizeof folder, "graph%d", n_made++);
    const char *path = temp_path(folder);
    EXPECT_EQ(mkdir(path, 0700), 0);
    for (int i = 0; i < 3; i++) {
        snprintf(names[i], sizeof names[i], "%s/%s", folder, files[i]);
        REQUIRE_OK(es_file_write_all(temp_path(names[i]), texts[i], strlen(texts[i])));
    }
    REQUIRE_OK(es_kg_load(path, NULL, &graph));
    return graph;
}

// Adds a state as text: "gives(V1,V2,cy) person(V1)".
static void print_state(const EsKnowledgeGraph *graph, EsAtomSpan state, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < state.count; i += es_kg_cells(graph, state.atoms[i].predicate)) {
        const EsAtom *atom = &state.atoms[i];
        int arity = graph->arities[atom->predicate];
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", i > 0 ? " " : "",
                                 atom->predicate <= graph->n_predicates
                                     ? graph->predicate_names[atom->predicate]
                                     : "end");
        for (int k = 0; k < arity; k++) {
            int32_t term = es_atom_term(atom, k);
            char variable[16];
            snprintf(variable, sizeof variable, "V%d", term - graph->n_constants);
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", k == 0 ? "(" : ",",
                                     term > graph->n_constants ? variable
                                                               : graph->constant_names[term]);
        }
        used += (size_t)snprintf(text + used, bytes - used, "%s", arity > 0 ? ")" : "");
    }
}

// The state of environment 0 and its successors, End left out, are these.
static void expect_choices(const EsKnowledgeGraph *graph, EsProofEnv *env, const char *state,
                           const char *const *successors, int n_successors) {
    EsProofChoices choices;
    char text[512];
    REQUIRE_OK(es_proof_env_choices(env, &choices));
    print_state(graph, choices.states[0], text, sizeof text);
    EXPECT_TEXT(text, state);
    EXPECT_EQ(choices.first[1] - choices.first[0], n_successors);
    for (int i = 0; i < n_successors; i++) {
        print_state(graph, choices.successors[i], text, sizeof text);
        EXPECT_TEXT(text, successors[i]);
    }
}

TEST(an_environment_steps_through_wide_states) {
    EsKnowledgeGraph *graph = load_texts(
        "person(ann)\nperson(bob)\ngives(ann,book,bob)\ngives(bob,pen,cy)\nlikes(cy,pen)\n",
        "r:1:owns(x,z), likes(x,z) -> happy(x)\nr:1:gives(x,z,y), person(x) -> owns(y,z)\n"
        "r:1:lends(x,z,y) -> gives(x,z,y)\n",
        "happy(cy)\ngives(cy,pen,bob)\n");
    EsProofEnvSettings settings = es_proof_env_defaults();
    settings.n_envs = 1;
    settings.n_negatives = 0;
    settings.has_end = 0;
    settings.split = ES_KG_SPLIT_TEST;
    settings.order = ES_QUERY_ROUND_ROBIN;
    EsProofEnv *env = NULL;
    const int32_t second = 1, first = 0;
    REQUIRE_OK(es_proof_env_create(graph, &settings, NULL, &env));
    EXPECT_EQ(es_proof_env_queries(env).count, 2);
    const char *bodies[] = {"owns(cy,V1) likes(cy,V1)"};
    expect_choices(graph, env, "happy(cy)", bodies, 1);
    REQUIRE_OK(es_proof_env_step(env, &first));
    const char *givers[] = {"gives(V1,V2,cy) person(V1) likes(cy,V2)"};
    expect_choices(graph, env, bodies[0], givers, 1);
    REQUIRE_OK(es_proof_env_step(env, &first));
    const char *people[] = {"gives(ann,V1,cy) likes(cy,V1)", "gives(bob,V1,cy) likes(cy,V1)"};
    expect_choices(graph, env, givers[0], people, 2);
    REQUIRE_OK(es_proof_env_step(env, &second));
    const char *proved[] = {"end"}; // gives(bob,pen,cy) leaves likes(cy,pen), a fact
    expect_choices(graph, env, people[1], proved, 1);
    REQUIRE_OK(es_proof_env_step(env, &first));
    const EsProofResult *result = es_proof_env_result(env);
    EXPECT(result->is_success[0] && result->is_done[0]);
    EXPECT_EQ(result->depth[0], 4);
    EXPECT_EQ(result->query[0].predicate, es_kg_predicate(graph, "happy"));
    // the next query has three arguments
    const char *lent[] = {"lends(cy,pen,bob)"};
    expect_choices(graph, env, "gives(cy,pen,bob)", lent, 1);
    EXPECT_EQ(es_proof_env_query(env, 0)[1].a, es_kg_constant(graph, "bob"));
    es_proof_env_destroy(env);
    settings.max_atoms = 1;
    EXPECT_STATUS(es_proof_env_create(graph, &settings, NULL, &env), ARGUMENT);
    es_kg_destroy(graph);
}

// --- the village ---

TEST(proofs_are_those_of_the_binary_village) {
    enum { N = 200 };
    EsKnowledgeGraph *narrow = NULL;
    REQUIRE_OK(es_kinship_graph_create(60, 1, &narrow));
    EsKnowledgeGraph *wide = make_wide_village(narrow);
    EsProverSettings settings = es_prover_defaults();
    EsProverReport report;
    EsThreadPool *pool = NULL;
    int32_t depths[2][N], n = ES_MIN(N, narrow->splits[ES_KG_SPLIT_TEST].count), n_proved = 0;
    REQUIRE_OK(es_thread_pool_create(&pool, 2));
    settings.max_depth = 3;
    settings.max_atoms = 20;
    REQUIRE_OK(es_prover_find_depths(narrow, &settings, pool, es_kg_query(narrow, 2, 0), n,
                                     depths[0], &report));
    REQUIRE_OK(es_prover_find_depths(wide, &settings, pool, es_kg_query(wide, 2, 0), n, depths[1],
                                     &report));
    for (int32_t i = 0; i < n; i++) {
        EXPECT_EQ(depths[1][i], depths[0][i]);
        n_proved += depths[0][i] > 0;
    }
    EXPECT(n_proved > n / 2);
    es_thread_pool_destroy(pool);
    es_kg_destroy(narrow);
    es_kg_destroy(wide);
}

static EsKnowledgeGraph *make_village(int n_people) {
    EsKnowledgeGraph *narrow = NULL;
    REQUIRE_OK(es_kinship_graph_create(n_people, 1, &narrow));
    EsKnowledgeGraph *wide = make_wide_village(narrow);
    es_kg_destroy(narrow);
    return wide;
}

static int atoms_equal(const EsKnowledgeGraph *graph, const EsAtom *x, const EsAtom *y) {
    int is_equal = x->predicate == y->predicate;
    for (int i = 0; i < graph->arities[x->predicate]; i++) {
        is_equal = is_equal && es_atom_term(x, i) == es_atom_term(y, i);
    }
    return is_equal;
}

// By looking at every fact and every query.
static int find_known(const EsKnowledgeGraph *graph, const EsAtom *atom) {
    int is_known = 0;
    for (int32_t i = 0; i < graph->n_facts; i++) {
        is_known |= atoms_equal(graph, &graph->facts[i], atom);
    }
    for (int32_t i = 0; i < graph->wide.count; i++) {
        is_known |= atoms_equal(graph, graph->wide.atoms + 2 * (size_t)i, atom);
    }
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        for (int32_t i = 0; i < graph->splits[split].count; i++) {
            is_known |= atoms_equal(graph, es_kg_query(graph, (EsKgSplit)split, i), atom);
        }
    }
    return is_known;
}

// Test query number `skip` of a predicate with this number of arguments.
static const EsAtom *query_at(const EsKnowledgeGraph *graph, int arity, int skip) {
    for (int32_t i = 0; i < graph->splits[ES_KG_SPLIT_TEST].count; i++) {
        const EsAtom *query = es_kg_query(graph, ES_KG_SPLIT_TEST, i);
        if (graph->arities[query->predicate] == arity && skip-- == 0) {
            return query;
        }
    }
    ES_TEST_FAIL("no query of %d arguments", arity);
    return NULL;
}

static const EsAtom *query_of_arity(const EsKnowledgeGraph *graph, int arity) {
    return query_at(graph, arity, 0);
}

static EsWideAtom replace(const EsKnowledgeGraph *graph, const EsAtom *query, int place,
                          int32_t constant) {
    EsWideAtom atom = {{query[0]}};
    if (es_kg_cells(graph, query->predicate) == 2) {
        atom.cells[1] = query[1];
    }
    es_atom_set_term(atom.cells, place, constant);
    return atom;
}

TEST(corruptions_of_every_place) {
    EsKnowledgeGraph *graph = make_village(40);
    EsKnownAtoms *known = NULL;
    EsCorruptionSettings settings = {.seed = 3};
    REQUIRE_OK(es_known_atoms_create(graph, &known));
    EsAtom *atoms = NULL;
    REQUIRE_OK(es_allocate(2 * ((size_t)graph->n_constants + 1) * sizeof *atoms, (void **)&atoms));
    for (int arity = 0; arity <= ES_KG_MAX_ARITY; arity++) {
        const EsAtom *query = query_of_arity(graph, arity);
        size_t cells = (size_t)es_kg_cells(graph, query->predicate);
        EXPECT(es_known_atoms_has(known, query));
        for (int place = 0; place < ES_KG_MAX_ARITY; place++) {
            int32_t n = es_corruptions_list(known, &settings, query, place, 0, atoms), n_found = 0;
            for (int32_t c = 1; c <= graph->n_constants && place < arity; c++) {
                EsWideAtom atom = replace(graph, query, place, c);
                if (!find_known(graph, atom.cells)) {
                    EXPECT(n_found < n &&
                           atoms_equal(graph, atoms + (size_t)n_found * cells, atom.cells));
                    n_found++;
                }
            }
            EXPECT_EQ(n, n_found);
            int32_t n_some = es_corruptions_list(known, &settings, query, place, 5, atoms);
            EXPECT_EQ(n_some, ES_MIN(n, 5));
            EsWideAtom drawn;
            EXPECT_EQ(es_corruption_draw(known, &settings, query, place, 7, drawn.cells), n > 0);
            EXPECT_EQ(!find_known(graph, drawn.cells), n > 0);
        }
    }
    es_release(atoms);
    es_known_atoms_destroy(known);
    es_kg_destroy(graph);
}

// Places of one atom are drawn for by themselves: no two begin with the same constants.
TEST(places_are_drawn_apart) {
    EsKnowledgeGraph *graph = make_village(40);
    EsKnownAtoms *known = NULL;
    EsCorruptionSettings settings = {.seed = 3};
    EsAtom atoms[2 * 5];
    int32_t drawn[ES_KG_MAX_ARITY][5];
    REQUIRE_OK(es_known_atoms_create(graph, &known));
    const EsAtom *query = query_of_arity(graph, ES_KG_MAX_ARITY);
    for (int place = 0; place < ES_KG_MAX_ARITY; place++) {
        EXPECT_EQ(es_corruptions_list(known, &settings, query, place, 5, atoms), 5);
        for (int i = 0; i < 5; i++) {
            drawn[place][i] = es_atom_term(atoms + 2 * (ptrdiff_t)i, place);
        }
        for (int other = 0; other < place; other++) {
            EXPECT(memcmp(drawn[other], drawn[place], sizeof drawn[0]) != 0);
        }
    }
    es_known_atoms_destroy(known);
    es_kg_destroy(graph);
}

// Negatives of an environment take all places in turn, and those without arguments stay positives.
TEST(negatives_of_every_place) {
    EsKnowledgeGraph *graph = make_village(40);
    EsProofEnvSettings settings = es_proof_env_defaults();
    EsKnownAtoms *known = NULL;
    EsProofEnv *env = NULL;
    int n_changed[ES_KG_MAX_ARITY] = {0};
    settings.n_envs = 64;
    settings.max_atoms = 12;
    settings.order = ES_QUERY_ROUND_ROBIN;
    REQUIRE_OK(es_known_atoms_create(graph, &known));
    REQUIRE_OK(es_proof_env_create(graph, &settings, NULL, &env));
    EsAtomSpan pool = es_proof_env_queries(env);
    for (int step = 0; step < 200; step++) {
        int32_t actions[64];
        for (int i = 0; i < 64; i++) {
            EsProofEpisode episode = es_proof_env_episode(env, i);
            const EsAtom *query = es_proof_env_query(env, i);
            EsEpisodePlan plan = es_episode_plan(settings.order, 1, pool.count, settings.seed,
                                                 (uint32_t)i, episode.episode);
            const EsAtom *from = pool.atoms + 2 * (size_t)plan.query;
            EXPECT_EQ(es_known_atoms_has(known, query), episode.label);
            EXPECT_EQ(query->predicate, from->predicate);
            int n_different = 0;
            for (int k = 0; k < graph->arities[query->predicate]; k++) {
                int is_different = es_atom_term(query, k) != es_atom_term(from, k);
                n_different += is_different;
                n_changed[k] += is_different;
            }
            EXPECT_EQ(n_different, !episode.label);
        }
        es_proof_env_draw_actions(env, actions);
        REQUIRE_OK(es_proof_env_step(env, actions));
    }
    for (int k = 0; k < ES_KG_MAX_ARITY; k++) {
        EXPECT(n_changed[k] > 20);
    }
    es_proof_env_destroy(env);
    es_known_atoms_destroy(known);
    es_kg_destroy(graph);
}

// --- ranking ---

// The shorter the proof the higher.
static int score_of(EsProver *prover, const EsAtom *atom) {
    EsProverAnswer answer;
    REQUIRE_OK(es_prover_find_depth(prover, atom, &answer));
    return answer.depth > 0 ? -answer.depth : INT32_MIN;
}

// The rank of a query among all corruptions of a place, by enumeration.
static double rank_in_place(const EsKnowledgeGraph *graph, EsProver *prover, const EsAtom *query,
                            int place) {
    int32_t n_better = 0, n_tied = 0;
    int own = score_of(prover, query);
    for (int32_t c = 1; c <= graph->n_constants; c++) {
        EsWideAtom atom = replace(graph, query, place, c);
        if (!find_known(graph, atom.cells)) {
            int other = score_of(prover, atom.cells);
            n_better += other > own;
            n_tied += other == own;
        }
    }
    return es_expected_reciprocal(n_better, n_tied);
}

// Compares the ranks of a query with enumeration; returns their mean.
static double expect_ranks(const EsKnowledgeGraph *graph, EsProver *prover, const EsAtom *query,
                           const EsQueryRank *rank) {
    int arity = graph->arities[query->predicate];
    double ranks[ES_KG_MAX_ARITY] = {0}, mean = 0, rest = 0;
    for (int place = 0; place < arity; place++) {
        ranks[place] = rank_in_place(graph, prover, query, place);
        mean += ranks[place] / arity;
        rest += place > 0 ? ranks[place] / (arity - 1) : 0;
    }
    EXPECT_NEAR(rank->mean.reciprocal, mean, 1e-12);
    EXPECT_NEAR(rank->sides[ES_CORRUPT_HEAD].reciprocal, ranks[0], 1e-12);
    EXPECT_NEAR(rank->sides[ES_CORRUPT_TAIL].reciprocal, rest, 1e-12);
    return mean;
}

TEST(ranks_of_one_to_four_places_by_enumeration) {
    enum { PER_ARITY = 3, N = 1 + PER_ARITY * ES_KG_MAX_ARITY };
    EsKnowledgeGraph *graph = make_village(40);
    EsProverSettings prover_settings = es_prover_defaults();
    EsRankingSettings settings = es_ranking_defaults();
    EsKnownAtoms *known = NULL;
    EsThreadPool *pool = NULL;
    EsProver *prover = NULL;
    EsProofScorer *proofs = NULL;
    EsRanking *ranking = NULL;
    EsAtom queries[2 * N] = {{0}};
    prover_settings.max_depth = 1;
    prover_settings.max_atoms = 12;
    settings.n_corruptions = 0;
    memcpy(queries, query_of_arity(graph, 0), 2 * sizeof *queries);
    for (int i = 1; i < N; i++) {
        const EsAtom *query = query_at(graph, 1 + (i - 1) / PER_ARITY, (i - 1) % PER_ARITY);
        memcpy(queries + 2 * (size_t)i, query, 2 * sizeof *queries);
    }
    REQUIRE_OK(es_known_atoms_create(graph, &known));
    REQUIRE_OK(es_thread_pool_create(&pool, 2));
    REQUIRE_OK(es_prover_create(graph, &prover_settings, &prover));
    REQUIRE_OK(
        es_proof_scorer_create_prover(graph, &prover_settings, ES_SCORE_SHORTEST, 2, &proofs));
    EsCandidateScorer scorer = es_proof_scorer_candidates(proofs);
    REQUIRE_OK(es_ranking_create(known, &settings, &scorer, pool, queries, NULL, N, &ranking));
    double all = 0;
    for (int i = 0; i < N; i++) {
        all += expect_ranks(graph, prover, queries + 2 * (size_t)i, &ranking->queries[i]) / (N - 1);
    }
    // that without arguments has no corruption
    EXPECT_EQ(ranking->n_without, 1);
    EXPECT_EQ(ranking->all.n_queries, N - 1);
    EXPECT_NEAR(ranking->all.reciprocal.mean, all, 1e-12);
    EXPECT(all > 0.1 && all < 0.95);
    es_ranking_destroy(ranking);
    es_proof_scorer_destroy(proofs);
    es_prover_destroy(prover);
    es_thread_pool_destroy(pool);
    es_known_atoms_destroy(known);
    es_kg_destroy(graph);
}

// --- features ---

static EsWideAtom atom_at(const EsKnowledgeGraph *graph, const char *predicate,
                          const char *const *names) {
    int32_t terms[ES_KG_MAX_ARITY] = {0}, number = es_kg_predicate(graph, predicate);
    int arity = graph->arities[number];
    for (int i = 0; i < arity; i++) {
        terms[i] = names[i] != NULL ? es_kg_constant(graph, names[i]) : graph->n_constants + 1 + i;
    }
    return es_wide_atom_make(number, terms, arity);
}

#define ATOM(predicate, ...)                                                                       \
    atom_at(graph, predicate, (const char *const[]){__VA_ARGS__, NULL, NULL, NULL, NULL})

TEST(costs_and_confidences_of_any_arity) {
    EsKnowledgeGraph *graph =
        load_texts("person(ann)\nperson(bob)\nperson(cy)\ngives(ann,book,bob)\ngives(bob,pen,cy)\n"
                   "gives(cy,pen,ann)\nowns(bob,book)\nowns(cy,pen)\nrich(cy)\nrain.\n",
                   "r1:1:gives(x,z,y), person(x) -> owns(y,z)\n" // three, of which two are facts
                   "r2:1:gives(x,z,y), gives(y,z,u) -> chain(x,y,z,u)\n"
                   "r3:1:person(x), not rich(x) -> poor(x)\n" // two, and no fact
                   "r4:1:rain, person(x) -> wet(x)\n",
                   "chain(ann,bob,pen,cy)\n");
    EsProofFeatures *features = NULL;
    const EsWideAtom none = {0};
    REQUIRE_OK(es_closure_decide(graph, 1000));
    REQUIRE_OK(es_proof_features_create(graph, &features));
    for (int32_t r = 0; r < graph->n_rules; r++) {
        int line = graph->rules[r].line;
        double expected = line == 1 ? 2.0 / (3 + ES_PROOF_SMOOTHING) : 0;
        EXPECT_NEAR(es_proof_features_confidence(features, r), expected, 1e-7);
    }
    const struct {
        EsWideAtom goal;
        int cost;
    } cases[] = {{ATOM("gives", "ann", "book", "bob"), 0},
                 {ATOM("gives", "ann", NULL, "bob"), 0},
                 {ATOM("gives", "ann", "pen", "bob"), 6},
                 {ATOM("owns", "ann", "pen"), 1},
                 {ATOM("owns", "ann", "book"), 6},
                 {ATOM("wet", "ann"), 1},
                 {ATOM("chain", "bob", "cy", "pen", "ann"), 1},
                 {ATOM("chain", "ann", "cy", NULL, NULL), 6},
                 {ATOM("poor", "ann"), 1},
                 {ATOM("poor", "cy"), 6}};
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        EXPECT_EQ(es_proof_features_cost(features, cases[i].goal.cells, none.cells, 1),
                  cases[i].cost);
    }
    // a fact that is asked for does not count
    EXPECT_EQ(es_proof_features_cost(features, cases[0].goal.cells, cases[0].goal.cells, 1), 6);
    es_proof_features_destroy(features);
    es_kg_destroy(graph);
}

// A state and the same with its goals exchanged differ in the selected goal alone, and every number
// is from 0 to 4.
TEST(features_of_wide_states) {
    EsKnowledgeGraph *graph = make_village(40);
    EsProofFeatures *features = NULL;
    const EsWideAtom none = {0};
    float row[2][ES_PROOF_FEATURES];
    REQUIRE_OK(es_proof_features_create(graph, &features));
    for (int arity = 0; arity <= ES_KG_MAX_ARITY; arity++) {
        const EsAtom *x = query_of_arity(graph, arity), *y = query_of_arity(graph, 3);
        int32_t of_x = es_kg_cells(graph, x->predicate), n = of_x + 2;
        EsAtom states[2][4];
        memcpy(states[0], x, (size_t)of_x * sizeof *x);
        memcpy(states[0] + of_x, y, 2 * sizeof *y);
        memcpy(states[1], y, 2 * sizeof *y);
        memcpy(states[1] + 2, x, (size_t)of_x * sizeof *x);
        for (int i = 0; i < 2; i++) {
            es_proof_features_describe(features, (EsAtomSpan){states[i], n}, none.cells,
                                       ES_GOAL_LEFTMOST, row[i]);
        }
        for (int e = 0; e < ES_PROOF_FEATURES; e++) {
            EXPECT(row[0][e] >= 0 && row[0][e] <= 4);
            if (e >= ES_PROOF_GOAL_FEATURES) {
                EXPECT_NEAR(row[0][e], row[1][e], 1e-6);
            }
        }
        EXPECT(arity == 3 || memcmp(row[0], row[1], sizeof *row) != 0);
    }
    es_proof_features_destroy(features);
    es_kg_destroy(graph);
}

// p(x,y), and the same facts as p(x,y,y) and p(x,y,y,y): what is said of the arguments behind the
// first is their mean, and so the same. Only the facts with a constant are more, in the selected
// goal and in the mean over goals.
TEST(repeated_arguments_change_no_mean) {
    static const char *const facts[] = {"a c", "b d", "e c", "e f", "a d"};
    static const char *const heads[] = {"p(x,y)", "p(x,y,y)", "p(x,y,y,y)"};
    float rows[3][ES_PROOF_FEATURES];
    const EsWideAtom none = {0};
    for (int n = 0; n < 3; n++) {
        char train[512] = "", rules[64];
        for (size_t i = 0; i < ES_COUNT_OF(facts); i++) {
            char x = facts[i][0], y = facts[i][2];
            size_t used = strlen(train);
            used += (size_t)snprintf(train + used, sizeof train - used, "p(%c,%c", x, y);
            for (int k = 0; k < n; k++) {
                used += (size_t)snprintf(train + used, sizeof train - used, ",%c", y);
            }
            snprintf(train + used, sizeof train - used, ")\n");
        }
        snprintf(rules, sizeof rules, "0:1:%s -> h(x,y)\n", heads[n]);
        EsKnowledgeGraph *graph = load_texts(train, rules, "h(a,c)\n");
        EsProofFeatures *features = NULL;
        REQUIRE_OK(es_proof_features_create(graph, &features));
        EsWideAtom goal = ATOM("p", "e", "c", "c", "c");
        int32_t cells = es_kg_cells(graph, goal.cells[0].predicate);
        es_proof_features_describe(features, (EsAtomSpan){goal.cells, cells}, none.cells,
                                   ES_GOAL_LEFTMOST, rows[n]);
        es_proof_features_destroy(features);
        es_kg_destroy(graph);
    }
    for (int n = 1; n < 3; n++) {
        int n_others = 0;
        for (int e = 0; e < ES_PROOF_FEATURES; e++) {
            n_others += fabsf(rows[n][e] - rows[0][e]) > 1e-6f;
        }
        EXPECT_EQ(n_others, 2);
    }
}

// --- the network ---

// sum over e of weight_e encoding_e of one state.
static double encode(EsProofWorker *worker, const EsProofBatch *batch, const float *weight) {
    double sum = 0;
    es_proof_worker_forward(worker, batch);
    for (int e = 0; e < 16; e++) {
        sum += (double)weight[e] * (double)worker->head[ES_PROOF_TOWER_POLICY].y[e];
    }
    return sum;
}

// Gradients of the embeddings of constants by their place, against finite differences; and places
// are told apart.
TEST(embeddings_of_wide_atoms) {
    EsKnowledgeGraph *graph = make_village(30);
    EsDevice *device = NULL;
    EsDeviceOptions options = {.n_threads = 1};
    EsProofPolicySettings settings = es_proof_policy_defaults();
    EsProofPolicy *policy = NULL;
    EsProofWorker *worker = NULL;
    EsGoalTable goals = {0};
    int32_t number = 0, swapped_number = 0;
    float weight[16], d_encoding[16], *gradient = NULL, *d_input = NULL;
    settings.embed = 16;
    settings.hidden = 24;
    settings.layers = 1;
    REQUIRE_OK(es_device_open("cpu", &options, &device));
    REQUIRE_OK(es_proof_policy_create(device, graph, &settings, 5, &policy));
    REQUIRE_OK(es_proof_worker_create(policy, 1, &worker));
    EsAtom state[3] = {{0}};
    memcpy(state, query_of_arity(graph, 4), 2 * sizeof *state);
    memcpy(state + 2, query_of_arity(graph, 1), sizeof *state);
    EsAtom swapped[3] = {state[0], state[1], state[2]};
    swapped[0].b = state[1].a;
    swapped[1].a = state[0].b;
    REQUIRE_OK(es_goal_table_add(&goals, state, 3, es_proof_hash(state, 3), &number));
    REQUIRE_OK(es_goal_table_add(&goals, swapped, 3, es_proof_hash(swapped, 3), &swapped_number));
    EsProofBatch batch = {&goals, &number, 1, 0, 0, ES_GOAL_LEFTMOST};
    EsProofBatch other = {&goals, &swapped_number, 1, 0, 0, ES_GOAL_LEFTMOST};
    size_t n = (size_t)es_tensor_count(&policy->store->parameters);
    REQUIRE_OK(es_allocate(n * sizeof *gradient, (void **)&gradient));
    REQUIRE_OK(es_allocate(2 * 16 * sizeof *d_input, (void **)&d_input));
    for (int e = 0; e < 16; e++) {
        weight[e] = d_encoding[e] = 0.1f * (float)(e % 5) - 0.15f;
    }
    double before = encode(worker, &batch, weight);
    EXPECT(fabs(before - encode(worker, &other, weight)) > 1e-4);
    encode(worker, &batch, weight);
    es_proof_worker_backward(worker, &batch, d_encoding, NULL, gradient, d_input);
    es_proof_network_scatter(policy, &batch, d_input, 0, 7, gradient);
    es_proof_network_scatter(policy, &batch, d_input, 7, 16, gradient);
    float *parameters = policy->store->parameters.data;
    for (int place = 0; place < ES_KG_MAX_ARITY; place++) {
        for (int e = 0; e < 16; e++) {
            int64_t at = es_proof_policy_term(policy, es_atom_term(state, place)) + e;
            float kept = parameters[at], step = 2e-3f;
            parameters[at] = kept + step;
            double up = encode(worker, &batch, weight);
            parameters[at] = kept - step;
            double down = encode(worker, &batch, weight);
            parameters[at] = kept;
            EXPECT_NEAR(gradient[at], (up - down) / (2 * (double)step), 2e-3);
        }
    }
    es_release(gradient);
    es_release(d_input);
    es_goal_table_destroy(&goals);
    es_proof_worker_destroy(worker);
    es_proof_policy_destroy(policy);
    es_device_close(device);
    es_kg_destroy(graph);
}

// --- the part of two arguments ---

TEST(the_binary_part_keeps_numbers) {
    EsKnowledgeGraph *graph = make_village(40), *part = NULL;
    char names[2][ES_SHA256_TEXT_BYTES];
    int32_t first = 0, n_facts = 0;
    EXPECT_EQ(es_kg_count_not_binary(graph, &first), 6);
    EXPECT_TEXT(graph->predicate_names[first], "child");
    REQUIRE_OK(es_kg_binary_part(graph, &part));
    es_kg_names_hash(graph, names[0]);
    es_kg_names_hash(part, names[1]);
    EXPECT_TEXT(names[1], names[0]);
    EXPECT_EQ(es_kg_count_not_binary(part, NULL), 0);
    EXPECT(!part->has_wide && part->n_rules == 0);
    for (int32_t p = 1; p <= graph->n_predicates; p++) {
        int is_binary = graph->arities[p] == 2;
        EXPECT_EQ(es_kg_count_facts_of(part, p), is_binary ? es_kg_count_facts_of(graph, p) : 0);
        n_facts += is_binary ? es_kg_count_facts_of(graph, p) : 0;
    }
    EXPECT_EQ(part->n_facts, n_facts);
    EXPECT(n_facts > 0 && part->splits[ES_KG_SPLIT_TEST].count > 0);
    es_kg_destroy(part);
    es_kg_destroy(graph);
}
