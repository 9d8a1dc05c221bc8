// The environments depend on nothing but their number, whatever the threads and however many
// others there are; observations keep their form; what is saved goes on as if nothing had happened.
#include "proof/graph/kinship_graph.h"
#include "proof/proof_env_walk.h"

#define MAX_ENVS 40
#define N_STEPS  150

static EsKnowledgeGraph *make_graph(void) {
    EsKnowledgeGraph *graph;
    REQUIRE_OK(es_kinship_graph_create(150, 7, &graph));
    return graph;
}

static EsProofEnvSettings settings_of(int kind) {
    EsProofEnvSettings settings = es_proof_env_defaults();
    settings.seed = 11;
    settings.max_depth = 7;
    if (kind == 1) {
        settings.selection = ES_GOAL_LEFTMOST;
        settings.has_memory = 0;
        settings.max_states = 9;
        settings.order = ES_QUERY_ROUND_ROBIN;
    } else if (kind == 2) {
        settings.skips_unary = 1;
        settings.has_end = 0;
        settings.max_atoms = 3;
        settings.n_negatives = 3;
        settings.reward_type = 5;
    }
    return settings;
}
#define N_KINDS 3

static void trace_walk(const EsKnowledgeGraph *graph, EsProofEnvSettings settings, int n_threads,
                       int32_t first, int32_t n_envs, uint64_t *traces) {
    EsThreadPool *pool;
    EsProofEnv *env;
    settings.first_env = first;
    settings.n_envs = n_envs;
    REQUIRE_OK(es_thread_pool_create(&pool, n_threads));
    REQUIRE_OK(es_proof_env_create(graph, &settings, pool, &env));
    memset(traces, 0, (size_t)n_envs * sizeof *traces);
    for (int step = 0; step < N_STEPS; step++) {
        walk_step(env);
        for (int32_t i = 0; i < n_envs; i++) {
            traces[i] = trace_env(traces[i], env, i);
        }
    }
    es_proof_env_destroy(env);
    es_thread_pool_destroy(pool);
}

TEST(environments_do_not_depend_on_threads_or_on_each_other) {
    EsKnowledgeGraph *graph = make_graph();
    static const struct {
        int n_threads;
        int32_t first, n_envs;
    } runs[] = {{2, 0, 40}, {3, 0, 40}, {1, 0, 1}, {2, 0, 17}, {3, 5, 16}, {1, 39, 1}};
    for (int kind = 0; kind < N_KINDS; kind++) {
        uint64_t traces[MAX_ENVS], others[MAX_ENVS];
        trace_walk(graph, settings_of(kind), 1, 0, MAX_ENVS, traces);
        for (int32_t i = 1; i < MAX_ENVS; i++) {
            EXPECT(traces[i] != traces[0]);
        }
        for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
            trace_walk(graph, settings_of(kind), runs[r].n_threads, runs[r].first, runs[r].n_envs,
                       others);
            for (int32_t i = 0; i < runs[r].n_envs; i++) {
                EXPECT(others[i] == traces[runs[r].first + i]);
            }
        }
        EsProofEnvSettings other_seed = settings_of(kind);
        other_seed.seed++;
        trace_walk(graph, other_seed, 1, 0, 1, others);
        EXPECT(others[0] != traces[0]);
    }
    es_kg_destroy(graph);
}

// --- observations ---

#define PAD_STATES 12
#define PAD_ROW    (6 * 3)

static int32_t count_rows(const int32_t *row, int32_t max_atoms) {
    int32_t n = 0;
    while (n < max_atoms && row[3 * n] != 0) {
        n++;
    }
    for (int32_t i = 3 * n; i < 3 * max_atoms; i++) {
        EXPECT_EQ(row[i], 0); // no hole before an atom, nothing behind the last
    }
    return n;
}

static void expect_same(const int32_t *row, EsAtomSpan span, int32_t max_atoms) {
    EXPECT_EQ(count_rows(row, max_atoms), span.count);
    for (int32_t i = 0; i < span.count; i++) {
        EsAtom atom = {row[3 * i], row[3 * i + 1], row[3 * i + 2]};
        EXPECT(es_atom_equals(atom, span.atoms[i]));
    }
}

static void expect_observation(EsProofEnv *env, const EsKnowledgeGraph *graph, int32_t max_atoms) {
    int32_t state[MAX_ENVS * PAD_ROW], successors[MAX_ENVS * PAD_STATES * PAD_ROW];
    unsigned char mask[MAX_ENVS * PAD_STATES];
    EsProofChoices choices;
    memset(successors, 0x55, sizeof successors);
    int64_t n_left_out = es_proof_env_pad(env, PAD_STATES, state, successors, mask), n_over = 0;
    REQUIRE_OK(es_proof_env_choices(env, &choices));
    for (int32_t i = 0; i < MAX_ENVS; i++) {
        int32_t n = choices.first[i + 1] - choices.first[i];
        EXPECT(n >= 1);
        EXPECT_EQ(es_goals_outcome(graph, choices.states[i].atoms, choices.states[i].count),
                  ES_PROOF_OPEN);
        expect_same(state + i * 3 * max_atoms, choices.states[i], max_atoms);
        for (int32_t k = 0; k < PAD_STATES; k++) {
            const int32_t *row = successors + (i * PAD_STATES + k) * 3 * max_atoms;
            EXPECT_EQ(mask[i * PAD_STATES + k], k < n);
            EsAtomSpan none = {NULL, 0};
            expect_same(row, k < n ? choices.successors[choices.first[i] + k] : none, max_atoms);
            for (int32_t t = 0; t < max_atoms; t++) {
                EXPECT(row[3 * t + 1] <= graph->n_constants + 2 * max_atoms);
                EXPECT(row[3 * t + 2] <= graph->n_constants + 2 * max_atoms);
            }
        }
        n_over += n > PAD_STATES ? n - PAD_STATES : 0;
    }
    EXPECT_EQ(n_left_out, n_over);
}

TEST(observations_keep_their_form) {
    EsKnowledgeGraph *graph = make_graph();
    for (int kind = 0; kind < N_KINDS; kind++) {
        EsProofEnv *env;
        EsProofEnvSettings settings = settings_of(kind);
        settings.n_envs = MAX_ENVS;
        REQUIRE_OK(es_proof_env_create(graph, &settings, NULL, &env));
        int64_t n_offered = 0;
        for (int step = 0; step < 60; step++) {
            EsProofChoices choices;
            expect_observation(env, graph, settings.max_atoms);
            REQUIRE_OK(es_proof_env_choices(env, &choices));
            n_offered += choices.first[MAX_ENVS];
            walk_step(env);
        }
        EsProofEnvCounters counters = es_proof_env_counters(env);
        EsProofChoices choices;
        REQUIRE_OK(es_proof_env_choices(env, &choices));
        EXPECT_EQ(counters.n_successors, n_offered + choices.first[MAX_ENVS]);
        // nine successors are too few for leftmost goals, three atoms for some rules
        EXPECT_EQ(counters.n_overflow > 0, kind == 1);
        EXPECT(kind != 2 || counters.n_overlong > 0);
        EXPECT_EQ(counters.n_skipped > 0, kind == 2);
        es_proof_env_destroy(env);
    }
    es_kg_destroy(graph);
}

// --- saving ---

TEST(a_saved_environment_goes_on_with_the_same_bits) {
    EsKnowledgeGraph *graph = make_graph();
    for (int kind = 0; kind < N_KINDS; kind++) {
        EsProofEnv *env, *other;
        EsProofEnvSettings settings = settings_of(kind);
        settings.n_envs = MAX_ENVS;
        REQUIRE_OK(es_proof_env_create(graph, &settings, NULL, &env));
        REQUIRE_OK(es_proof_env_create(graph, &settings, NULL, &other));
        for (int step = 0; step < 33; step++) {
            walk_step(env);
        }
        size_t bytes = es_proof_env_saved_bytes(env);
        unsigned char *saved = malloc(bytes), *again = malloc(bytes);
        REQUIRE_OK(es_proof_env_save(env, saved));
        REQUIRE_OK(es_proof_env_load(other, "saved", saved, bytes));
        REQUIRE_OK(es_proof_env_save(other, again));
        EXPECT(memcmp(saved, again, bytes) == 0);
        for (int step = 0; step < 50; step++) {
            walk_step(env);
            walk_step(other);
            for (int32_t i = 0; i < MAX_ENVS; i++) {
                EXPECT(trace_env(0, env, i) == trace_env(0, other, i));
            }
        }
        EsProofEnvCounters a = es_proof_env_counters(env), b = es_proof_env_counters(other);
        EXPECT(memcmp(&a, &b, sizeof a) == 0);
        // what does not fit is refused and changes nothing
        REQUIRE_OK(es_proof_env_save(env, again));
        EXPECT_STATUS(es_proof_env_load(env, "saved", saved, bytes - 1), INPUT);
        saved[bytes - 1] ^= 1;
        EXPECT_STATUS(es_proof_env_load(env, "saved", saved, bytes), INPUT);
        EXPECT_CONTAINS(es_status_detail(), "damaged");
        es_proof_env_destroy(other);
        settings.seed++;
        REQUIRE_OK(es_proof_env_create(graph, &settings, NULL, &other));
        saved[bytes - 1] ^= 1;
        EXPECT_STATUS(es_proof_env_load(other, "saved", saved, bytes), INPUT);
        EXPECT_CONTAINS(es_status_detail(), "other settings");
        REQUIRE_OK(es_proof_env_save(env, saved));
        EXPECT(memcmp(saved, again, bytes) == 0);
        free(saved);
        free(again);
        es_proof_env_destroy(env);
        es_proof_env_destroy(other);
    }
    es_kg_destroy(graph);
}
