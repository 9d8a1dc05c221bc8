// The environment: rewards, episodes, observation, restarts, limits.
#include "proof/agent/proof_env.h"

#include "proof/graph/kinship_graph.h"
#include "proof/search/proof_tree.h"
#include "proof/small_graph.h"

#define MAX_ENVS 40
#define GRANDS   "parent(x,y) parent(y,z) -> grand(x,z)"

static EsProofEnv *make_env(const EsKnowledgeGraph *graph, const EsProofEnvSettings *settings) {
    EsProofEnv *env;
    REQUIRE_OK(es_proof_env_create(graph, settings, NULL, &env));
    return env;
}

static EsProofChoices choices_of(EsProofEnv *env) {
    EsProofChoices choices;
    REQUIRE_OK(es_proof_env_choices(env, &choices));
    return choices;
}

static int equals_text(const EsKnowledgeGraph *graph, EsAtom atom, const char *text) {
    return es_atom_equals(atom, small_atom(graph, text));
}

TEST(rewards_follow_the_table) {
    // proved and true, not and true, proved and false, not and false; ratio 4
    static const float table[ES_N_PROOF_REWARDS][4] = {{1, 0, 0, 0},       {1, 0, -1, 0},
                                                       {1, 0, 0, 1},       {1, -0.5f, -1.5f, 1},
                                                       {1, -1, -1, 0.25f}, {1, -1, -1, 0.25f}};
    for (int type = 0; type < ES_N_PROOF_REWARDS; type++) {
        EXPECT_EQ(es_proof_reward(type, 4, 1, 1, 0) * 100, table[type][0] * 100);
        EXPECT_EQ(es_proof_reward(type, 4, 1, 0, 0) * 100, table[type][1] * 100);
        EXPECT_EQ(es_proof_reward(type, 4, 0, 1, 0) * 100, table[type][2] * 100);
        EXPECT_EQ(es_proof_reward(type, 4, 0, 0, 0) * 100, table[type][3] * 100);
        // giving up is rewarded by type 5 alone, and only where it is right
        EXPECT_NEAR(es_proof_reward(type, 4, 0, 0, 1), table[type][3] + (type == 5 ? 0.3 : 0),
                    1e-6);
        EXPECT_EQ(es_proof_reward(type, 4, 1, 0, 1) * 100, table[type][1] * 100);
    }
    EXPECT_EQ(es_proof_reward(4, 1, 0, 0, 0), 1);
    EXPECT_EQ(es_proof_reward(4, 0, 0, 0, 0), 1);
}

TEST(plans_alternate_and_cover_the_pool) {
    unsigned seen = 0;
    for (uint32_t episode = 0; episode < 30; episode++) {
        EsEpisodePlan plan = es_episode_plan(ES_QUERY_ROUND_ROBIN, 2, 10, 1, 5, episode);
        EXPECT_EQ(plan.is_negative, episode % 3 != 0);
        EXPECT_EQ(plan.n_before, episode % 3 == 0 ? plan.n_before
                                                  : (int32_t)(2 * (episode / 3) + episode % 3 - 1));
        seen |= plan.is_negative ? 0 : 1u << plan.query;
    }
    EXPECT_EQ(seen, 0x3ff);
    int counts[10] = {0};
    for (uint32_t episode = 0; episode < 10000; episode++) {
        counts[es_episode_plan(ES_QUERY_UNIFORM, 0, 10, 1, 5, episode).query]++;
    }
    for (int i = 0; i < 10; i++) {
        EXPECT(counts[i] > 880 && counts[i] < 1120);
    }
}

// The worked example of grandparents, action by action.
TEST(a_proof_is_made_and_the_next_query_begins) {
    EsKnowledgeGraph *graph =
        make_small_graph("parent(ann,bob) parent(bob,cy) parent(cy,dan)", GRANDS, "grand(ann,cy)");
    EsAtom query = small_atom(graph, "grand(ann,cy)");
    EsProofEnvSettings settings = es_proof_env_defaults();
    settings.n_envs = 1;
    settings.n_negatives = 0;
    settings.queries = &query;
    settings.n_queries = 1;
    EsProofEnv *env = make_env(graph, &settings);
    const EsProofResult *result = es_proof_env_result(env);
    EsProofChoices choices = choices_of(env);
    EXPECT_EQ(choices.n_states, 1);
    EXPECT_EQ(choices.states[0].count, 1);
    EXPECT(es_atom_equals(choices.states[0].atoms[0], query));
    EXPECT_EQ(choices.first[1], 2); // the rule, and End
    EXPECT_EQ(choices.successors[0].count, 2);
    EXPECT(equals_text(graph, choices.successors[0].atoms[0], "parent(ann,V1)"));
    EXPECT(equals_text(graph, choices.successors[0].atoms[1], "parent(V1,cy)"));
    EXPECT_EQ(choices.successors[1].atoms[0].predicate, graph->n_predicates + ES_PROOF_ENDED);
    REQUIRE_OK(es_proof_env_step(env, (int32_t[]){0}));
    EXPECT_EQ(result->is_done[0], 0);
    EXPECT_EQ(result->depth[0], 1);
    EXPECT_EQ(result->reward[0], 0);
    EXPECT_EQ(es_proof_env_proof(env, 0).count, 0);
    choices = choices_of(env);
    EXPECT_EQ(choices.states[0].count, 2);
    EXPECT_EQ(choices.n_queries, 1);
    EXPECT(es_atom_equals(choices.queries[0], query)); // the episode's, as long as it goes on
    EXPECT_EQ(choices.first[1], 1);                    // True alone, no End beside it
    EXPECT_EQ(choices.successors[0].atoms[0].predicate, graph->n_predicates + ES_PROOF_PROVED);
    REQUIRE_OK(es_proof_env_step(env, (int32_t[]){0}));
    EXPECT_EQ(result->is_done[0], 1);
    EXPECT_EQ(result->is_success[0], 1);
    EXPECT_EQ(result->is_truncated[0], 0);
    EXPECT_EQ(result->depth[0], 2);
    EXPECT_EQ(result->reward[0], 1);
    EXPECT_EQ(result->label[0], 1);
    EXPECT(es_atom_equals(result->query[0], query));
    EXPECT_EQ(result->reached[0].atoms[0].predicate, graph->n_predicates + ES_PROOF_PROVED);
    EsProofTrace proof = es_proof_env_proof(env, 0);
    EXPECT_EQ(proof.count, 2);
    EXPECT(es_atom_equals(proof.states[0].atoms[0], query));
    EXPECT_EQ(proof.states[1].count, 2);
    EXPECT(equals_text(graph, proof.states[1].atoms[1], "parent(V1,cy)"));
    EXPECT_EQ(es_proof_env_proof(env, ES_PROOF_TRACED).count, 0);
    EXPECT_EQ(es_proof_env_episode(env, 0).episode, 1);
    EXPECT_EQ(es_proof_env_episode(env, 0).depth, 0);
    choices = choices_of(env);
    EXPECT(es_atom_equals(choices.states[0].atoms[0], query));
    // End: not proved
    REQUIRE_OK(es_proof_env_step(env, (int32_t[]){1}));
    EXPECT(result->is_done[0] && result->is_by_end[0] && !result->is_success[0]);
    EXPECT_EQ(result->reward[0], -1);
    EXPECT_EQ(es_proof_env_proof(env, 0).count, 0);
    EsProofEnvCounters counters = es_proof_env_counters(env);
    EXPECT_EQ(counters.n_steps, 3);
    EXPECT_EQ(counters.n_episodes[1], 2);
    EXPECT_EQ(counters.n_proved[1], 1);
    EXPECT_EQ(counters.n_by_end[1], 1);
    EXPECT_EQ(counters.n_actions[1], 3);
    EXPECT_EQ(counters.reward[1], 0);
    EXPECT_STATUS(es_proof_env_step(env, (int32_t[]){2}), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "action 2 of environment 0, which has 2 successors");
    EXPECT_STATUS(es_proof_env_step(env, (int32_t[]){-1}), ARGUMENT);
    EXPECT_EQ(es_proof_env_counters(env).n_steps, 3);
    es_proof_env_destroy(env);
    es_proof_env_destroy(NULL);
    es_kg_destroy(graph);
}

TEST(the_limit_on_depth_truncates) {
    EsKnowledgeGraph *graph =
        make_small_graph("parent(ann,bob) parent(bob,cy)", GRANDS, "grand(ann,cy)");
    EsAtom query = small_atom(graph, "grand(ann,cy)");
    EsProofEnvSettings settings = es_proof_env_defaults();
    settings.n_envs = 2;
    settings.max_depth = 1;
    settings.n_negatives = 0;
    settings.queries = &query;
    settings.n_queries = 1;
    EsProofEnv *env = make_env(graph, &settings);
    REQUIRE_OK(es_proof_env_step(env, (int32_t[]){0, 1}));
    const EsProofResult *result = es_proof_env_result(env);
    EXPECT(result->is_done[0] && result->is_truncated[0] && !result->is_success[0]);
    EXPECT_EQ(result->reward[0], -1); // done and not proved
    EXPECT_EQ(result->reached[0].count, 2);
    EXPECT(equals_text(graph, result->reached[0].atoms[0], "parent(ann,V1)"));
    EXPECT(result->is_done[1] && !result->is_truncated[1] && result->is_by_end[1]);
    es_proof_env_destroy(env);
    es_kg_destroy(graph);
}

// p(x,y) and p(y,x) follow from each other: without memory a walk may go on for ever.
TEST(memory_leaves_out_what_was_visited) {
    EsKnowledgeGraph *graph = make_small_graph("q(a,b)", "p(y,x) -> p(x,y)", "p(a,b)");
    EsAtom query = small_atom(graph, "p(a,b)");
    EsProofEnvSettings settings = es_proof_env_defaults();
    settings.n_envs = 1;
    settings.n_negatives = settings.has_end = 0;
    settings.queries = &query;
    settings.n_queries = 1;
    for (int has_memory = 0; has_memory < 2; has_memory++) {
        settings.has_memory = has_memory;
        EsProofEnv *env = make_env(graph, &settings);
        int n_steps = 0;
        do {
            EXPECT_EQ(choices_of(env).first[1], 1);
            REQUIRE_OK(es_proof_env_step(env, (int32_t[]){0}));
            n_steps++;
        } while (!es_proof_env_result(env)->is_done[0] && n_steps < 100);
        // p(a,b), p(b,a), and then False, or round and round
        EXPECT_EQ(n_steps, has_memory ? 2 : 20);
        EXPECT_EQ(es_proof_env_result(env)->is_truncated[0], !has_memory);
        es_proof_env_destroy(env);
    }
    es_kg_destroy(graph);
}

TEST(negatives_are_not_known_and_take_sides_in_turn) {
    EsKnowledgeGraph *graph;
    REQUIRE_OK(es_kinship_graph_create(120, 3, &graph));
    EsProofEnvSettings settings = es_proof_env_defaults();
    settings.n_envs = MAX_ENVS;
    settings.n_negatives = 2;
    EsKnownAtoms *known;
    REQUIRE_OK(es_known_atoms_create(graph, &known));
    EsProofEnv *env = make_env(graph, &settings);
    EsAtomSpan pool = es_proof_env_queries(env);
    int32_t actions[MAX_ENVS];
    int n_ended[2] = {0, 0};
    for (int step = 0; step < 400; step++) {
        for (int32_t i = 0; i < MAX_ENVS; i++) {
            EsProofEpisode episode = es_proof_env_episode(env, i);
            EXPECT_EQ(episode.label, episode.episode % 3 == 0);
            EXPECT_EQ(es_known_atoms_has(known, &episode.query), episode.label);
            EXPECT(episode.query.predicate > 0 && episode.query.a > 0 && episode.query.b > 0);
            EsEpisodePlan plan = es_episode_plan(ES_QUERY_UNIFORM, 2, pool.count, settings.seed,
                                                 (uint32_t)i, episode.episode);
            EsAtom positive = pool.atoms[plan.query];
            EXPECT_EQ(episode.query.predicate, positive.predicate);
            EXPECT_EQ(episode.query.a != positive.a, plan.is_negative && plan.n_before % 2 == 0);
            EXPECT_EQ(episode.query.b != positive.b, plan.is_negative && plan.n_before % 2 == 1);
        }
        es_proof_env_draw_actions(env, actions);
        REQUIRE_OK(es_proof_env_step(env, actions));
        for (int32_t i = 0; i < MAX_ENVS; i++) {
            n_ended[es_proof_env_result(env)->label[i]] += es_proof_env_result(env)->is_done[i];
        }
    }
    EsProofEnvCounters counters = es_proof_env_counters(env);
    EXPECT_EQ(counters.n_not_corrupted, 0);
    EXPECT_EQ(counters.n_overflow, 0);
    EXPECT_EQ(counters.n_episodes[0], n_ended[0]);
    EXPECT_EQ(counters.n_episodes[1], n_ended[1]);
    EXPECT(n_ended[0] > 1000 && n_ended[1] > 500);
    es_proof_env_destroy(env);
    es_known_atoms_destroy(known);
    es_kg_destroy(graph);
}

TEST(a_negative_that_is_nowhere_becomes_the_positive) {
    EsKnowledgeGraph *graph =
        make_small_graph("p(a,a) p(a,b) p(b,a) p(b,b)", "p(x,y) p(y,z) -> p(x,z)", "");
    EsProofEnvSettings settings = es_proof_env_defaults();
    settings.queries = graph->facts;
    settings.n_queries = graph->n_facts;
    settings.n_envs = 3;
    EsProofEnv *env = make_env(graph, &settings);
    int32_t actions[3];
    for (int step = 0; step < 60; step++) {
        es_proof_env_draw_actions(env, actions);
        REQUIRE_OK(es_proof_env_step(env, actions));
        for (int i = 0; i < 3; i++) {
            EsProofEpisode episode = es_proof_env_episode(env, i);
            EXPECT_EQ(episode.label, 1);
            EXPECT(es_kg_has_fact(graph, episode.query));
        }
    }
    EsProofEnvCounters counters = es_proof_env_counters(env);
    EXPECT_EQ(counters.n_episodes[0], 0);
    EXPECT(counters.n_not_corrupted > 5);
    es_proof_env_destroy(env);
    es_kg_destroy(graph);
}

// p0 to p29 in a chain: one rule each, so that all but the ends are passed over, 20 at a time.
TEST(unary_states_are_passed_over) {
    char rules[2048] = "";
    for (int i = 0; i < 29; i++) {
        size_t used = strlen(rules);
        snprintf(rules + used, sizeof rules - used, "%sp%d(x,y) -> p%d(x,y)", i > 0 ? ";" : "",
                 i + 1, i);
    }
    EsKnowledgeGraph *graph = make_small_graph("p29(a,b)", rules, "p0(a,b)");
    EsAtom query = small_atom(graph, "p0(a,b)");
    EsProofEnvSettings settings = es_proof_env_defaults();
    settings.n_envs = 1;
    settings.n_negatives = 0;
    settings.skips_unary = 1;
    settings.queries = &query;
    settings.n_queries = 1;
    EsProofEnv *env = make_env(graph, &settings);
    EsProofChoices choices = choices_of(env);
    EXPECT(equals_text(graph, choices.states[0].atoms[0], "p20(a,b)"));
    EXPECT(equals_text(graph, choices.successors[0].atoms[0], "p21(a,b)"));
    EXPECT_EQ(es_proof_env_episode(env, 0).depth, 0);
    EXPECT_EQ(es_proof_env_episode(env, 0).n_visited, 21);
    // loading passes nothing over that was not passed over when it was saved
    unsigned char *saved = malloc(es_proof_env_saved_bytes(env));
    REQUIRE_OK(es_proof_env_save(env, saved));
    REQUIRE_OK(es_proof_env_load(env, "saved", saved, es_proof_env_saved_bytes(env)));
    EXPECT(equals_text(graph, choices_of(env).states[0].atoms[0], "p20(a,b)"));
    free(saved);
    REQUIRE_OK(es_proof_env_step(env, (int32_t[]){0}));
    EXPECT(equals_text(graph, es_proof_env_result(env)->reached[0].atoms[0], "p21(a,b)"));
    choices = choices_of(env);
    EXPECT(equals_text(graph, choices.states[0].atoms[0], "p28(a,b)"));
    EXPECT_EQ(choices.first[1], 1); // True
    REQUIRE_OK(es_proof_env_step(env, (int32_t[]){0}));
    EXPECT_EQ(es_proof_env_result(env)->is_success[0], 1);
    EXPECT_EQ(es_proof_env_result(env)->depth[0], 2);
    EXPECT_EQ(es_proof_env_counters(env).n_skipped, 20 + 7 + 20);
    es_proof_env_destroy(env);
    es_kg_destroy(graph);
}

// Proofs of random walks: a tree for each that the first environments make, passed over states
// included.
TEST(proofs_of_walks_are_trees) {
    EsKnowledgeGraph *graph;
    REQUIRE_OK(es_kinship_graph_create(60, 3, &graph));
    for (int variant = 0; variant < 4; variant++) {
        EsProofEnvSettings settings = es_proof_env_defaults();
        settings.n_envs = MAX_ENVS;
        settings.skips_unary = variant & 1;
        settings.selection = variant & 2 ? ES_GOAL_LEFTMOST : ES_GOAL_CONSTRAINED;
        EsProofEnv *env = make_env(graph, &settings);
        const EsProofResult *result = es_proof_env_result(env);
        int n_proofs = 0, n_longer = 0;
        for (int step = 0; step < 400; step++) {
            int32_t actions[MAX_ENVS];
            es_proof_env_draw_actions(env, actions);
            REQUIRE_OK(es_proof_env_step(env, actions));
            for (int32_t i = 0; i < MAX_ENVS; i++) {
                EsProofTrace proof = es_proof_env_proof(env, i);
                EXPECT_EQ(proof.count > 0, i < ES_PROOF_TRACED && result->is_success[i]);
                if (proof.count == 0) {
                    continue;
                }
                EsProofTree *tree = NULL;
                REQUIRE_OK(es_proof_tree_create(graph, settings.selection, proof.states,
                                                proof.count, &tree));
                EXPECT_STATUS(es_proof_tree_check(tree), OK);
                EXPECT(es_atom_equals(tree->nodes[0].atom, result->query[i]));
                EXPECT(proof.count >= result->depth[i]);
                n_longer += proof.count > result->depth[i];
                n_proofs++;
                es_proof_tree_destroy(tree);
            }
        }
        EXPECT(n_proofs > 10);
        EXPECT_EQ(n_longer > 0, settings.skips_unary);
        es_proof_env_destroy(env);
    }
    es_kg_destroy(graph);
}

TEST(queries_are_filtered_and_settings_checked) {
    const char *atoms = "parent(ann,bob) parent(bob,cy) grand(ann,cy) grand(bob,bob)";
    EsKnowledgeGraph *graph = make_small_graph(atoms, GRANDS, atoms);
    EsQuerySplit *split = &graph->splits[ES_KG_SPLIT_TEST];
    EsProofEnvSettings settings = es_proof_env_defaults(), wrong;
    settings.split = ES_KG_SPLIT_TEST;
    EsProofEnv *env = make_env(graph, &settings);
    EXPECT_EQ(es_proof_env_queries(env).count, 2);        // no rule has parent as its head
    EXPECT_EQ(es_proof_env_settings(env)->max_states, 4); // two facts, a rule, End
    es_proof_env_destroy(env);
    for (int32_t i = 0; i < split->count; i++) {
        split->depths[i] = equals_text(graph, split->atoms[i], "grand(ann,cy)") ? 2 : -1;
    }
    settings.min_query_depth = 1;
    settings.max_query_depth = 14;
    env = make_env(graph, &settings);
    EXPECT_EQ(es_proof_env_queries(env).count, 1);
    EXPECT(equals_text(graph, es_proof_env_queries(env).atoms[0], "grand(ann,cy)"));
    es_proof_env_destroy(env);
    settings.min_query_depth = 3;
    EXPECT_STATUS(es_proof_env_create(graph, &settings, NULL, &env), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "none of 4 queries is left to prove");
    EXPECT(env == NULL);
    settings.min_query_depth = settings.max_query_depth = 0;
#define EXPECT_WRONG(field, value)                                                                 \
    wrong = settings;                                                                              \
    wrong.field = (value);                                                                         \
    EXPECT_STATUS(es_proof_env_create(graph, &wrong, NULL, &env), ARGUMENT);                       \
    EXPECT_CONTAINS(es_status_detail(), #field)
    EXPECT_WRONG(n_envs, 0);
    EXPECT_WRONG(max_atoms, 0);
    EXPECT_WRONG(max_atoms, ES_PROOF_MAX_ATOMS + 1);
    EXPECT_WRONG(max_states, 1);
    EXPECT_WRONG(max_depth, 0);
    EXPECT_WRONG(n_negatives, -1);
    EXPECT_WRONG(reward_type, 6);
    EXPECT_WRONG(first_env, -1);
    wrong = settings;
    wrong.is_corrupting[0] = wrong.is_corrupting[1] = 0;
    EXPECT_STATUS(es_proof_env_create(graph, &wrong, NULL, &env), ARGUMENT);
    EsAtom outside = {1, 1, 99};
    wrong = settings;
    wrong.queries = &outside;
    wrong.n_queries = 1;
    EXPECT_STATUS(es_proof_env_create(graph, &wrong, NULL, &env), ARGUMENT);
    es_kg_destroy(graph);
}

// Steps of uniform actions in one call leave what as many calls leave; the environments of a
// device's stream are those of its pool.
TEST(a_walk_is_its_steps) {
    enum { STEPS = 30 };
    static int32_t actions[STEPS][MAX_ENVS], counts[STEPS][MAX_ENVS];
    static float rewards[STEPS][MAX_ENVS];
    static unsigned char dones[STEPS][MAX_ENVS];
    EsProofEnvSettings settings = es_proof_env_defaults();
    EsKnowledgeGraph *graph;
    EsDevice *device;
    EsStream *stream;
    EsProofEnv *walked;
    settings.n_envs = MAX_ENVS;
    REQUIRE_OK(es_kinship_graph_create(60, 3, &graph));
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 2}, &device));
    REQUIRE_OK(es_stream_create(device, &stream));
    REQUIRE_OK(es_proof_env_create_on(graph, &settings, stream, &walked));
    EsProofEnv *env = make_env(graph, &settings);
    REQUIRE_OK(es_proof_env_walk(walked, STEPS,
                                 &(EsProofRows){actions[0], counts[0], rewards[0], dones[0]}));
    for (int t = 0; t < STEPS; t++) {
        int32_t drawn[MAX_ENVS];
        EsProofChoices choices = choices_of(env);
        for (int e = 0; e < MAX_ENVS; e++) {
            EXPECT_EQ(counts[t][e], choices.first[e + 1] - choices.first[e]);
        }
        es_proof_env_draw_actions(env, drawn);
        REQUIRE_OK(es_proof_env_step(env, drawn));
        const EsProofResult *result = es_proof_env_result(env);
        EXPECT_EQ(memcmp(actions[t], drawn, sizeof drawn), 0);
        EXPECT_EQ(memcmp(rewards[t], result->reward, sizeof rewards[t]), 0);
        EXPECT_EQ(memcmp(dones[t], result->is_done, sizeof dones[t]), 0);
    }
    size_t bytes = es_proof_env_saved_bytes(env);
    unsigned char *one = malloc(bytes), *other = malloc(bytes);
    REQUIRE_OK(es_proof_env_save(env, one));
    REQUIRE_OK(es_proof_env_save(walked, other));
    EXPECT_EQ(memcmp(one, other, bytes), 0);
    free(one);
    free(other);
    es_proof_env_destroy(env);
    es_proof_env_destroy(walked);
    es_stream_destroy(stream);
    es_device_close(device);
    es_kg_destroy(graph);
}
