// A query that the environment calls proved is true: it follows from the facts without the query,
// and every step of it is a step of the engine.
#include "proof/graph/knowledge_file.h"
#include "proof/proof_env_walk.h"
#include "proof/random_graph.h"
#include "proof/search/closure.h"
#include "proof/search/prover.h"

#define N_ENVS    16
#define MAX_STEPS 24

// The states of the episodes under way.
typedef struct Record {
    EsAtom atoms[N_ENVS][MAX_STEPS][ES_PROOF_MAX_ATOMS];
    int32_t n_atoms[N_ENVS][MAX_STEPS];
    int32_t length[N_ENVS];
} Record;

// Returns whether each state of an episode is a successor of the one before, the query alone the
// first.
static int replays(const EsKnowledgeGraph *graph, const Record *record, int32_t i, EsAtom query,
                   EsGoalSelection selection, EsSuccessors *successors) {
    EsProofSettings settings = {
        .selection = selection, .max_atoms = 6, .max_states = successors->table_size / 2};
    const EsAtom *state = &query;
    int32_t n_atoms = 1;
    for (int32_t step = 0; step < record->length[i]; step++) {
        int is_found = 0;
        es_proof_expand(graph, &settings, &query, state, n_atoms, NULL, successors);
        for (int32_t k = 0; k < successors->count && !is_found; k++) {
            EsAtomSpan next = es_successor(successors, k);
            is_found = next.count == record->n_atoms[i][step] &&
                       es_goals_equal(next.atoms, record->atoms[i][step], next.count);
        }
        if (!is_found) {
            return 0;
        }
        state = record->atoms[i][step];
        n_atoms = record->n_atoms[i][step];
    }
    return n_atoms == 1 && state[0].predicate == graph->n_predicates + ES_PROOF_PROVED;
}

static void note_step(Record *record, const EsProofResult *result, int32_t i) {
    int32_t step = record->length[i]++;
    EXPECT_EQ(result->depth[i], record->length[i]);
    record->n_atoms[i][step] = result->reached[i].count;
    memcpy(record->atoms[i][step], result->reached[i].atoms,
           (size_t)result->reached[i].count * sizeof(EsAtom));
}

typedef struct Proofs {
    EsAtom *queries; // distinct, sorted
    int32_t count;
    int n_episodes, n_proved[2];
} Proofs;

// Walk and replay every success; returns what was proved, to be freed.
static Proofs walk(const EsKnowledgeGraph *graph, EsProofEnvSettings settings, int n_steps) {
    static Record record; // large
    EsProofEnv *env;
    EsSuccessors successors;
    Proofs proofs = {.queries = malloc((size_t)(N_ENVS * n_steps) * sizeof(EsAtom))};
    settings.n_envs = N_ENVS;
    memset(&record, 0, sizeof record);
    REQUIRE_OK(es_successors_create(es_proof_max_candidates(graph) + 1, 6, &successors));
    REQUIRE_OK(es_proof_env_create(graph, &settings, NULL, &env));
    const EsProofResult *result = es_proof_env_result(env);
    for (int step = 0; step < n_steps; step++) {
        walk_step(env);
        for (int32_t i = 0; i < N_ENVS; i++) {
            note_step(&record, result, i);
            if (!result->is_done[i]) {
                continue;
            }
            proofs.n_episodes++;
            EXPECT_EQ(result->is_success[i], replays(graph, &record, i, result->query[i],
                                                     settings.selection, &successors));
            if (result->is_success[i]) {
                proofs.n_proved[result->label[i]]++;
                proofs.queries[proofs.count++] = result->query[i];
            }
            record.length[i] = 0;
        }
    }
    EXPECT_EQ(es_proof_env_counters(env).n_overflow, 0);
    es_proof_env_destroy(env);
    es_successors_destroy(&successors);
    qsort(proofs.queries, (size_t)proofs.count, sizeof(EsAtom), es_atom_compare);
    int32_t n_distinct = 0;
    for (int32_t i = 0; i < proofs.count; i++) {
        if (n_distinct == 0 || !es_atom_equals(proofs.queries[i], proofs.queries[n_distinct - 1])) {
            proofs.queries[n_distinct++] = proofs.queries[i];
        }
    }
    proofs.count = n_distinct;
    return proofs;
}

TEST(proofs_on_random_graphs_follow_from_the_facts) {
    int n_proofs = 0;
    for (uint32_t number = 0; number < 120; number++) {
        RandomGraph random = draw_graph(number, 0);
        EsKnowledgeGraph *graph = build_graph(&random, 0, -1, "");
        EsProofEnvSettings settings = es_proof_env_defaults();
        settings.selection = number % 2 ? ES_GOAL_LEFTMOST : ES_GOAL_CONSTRAINED;
        settings.has_memory = number % 3 > 0;
        settings.has_end = number % 5 > 0;
        settings.n_negatives = 0; // every atom there can be is a query
        settings.split = ES_KG_SPLIT_TEST;
        settings.seed = number;
        Proofs proofs = walk(graph, settings, 60);
        for (int32_t i = 0; i < proofs.count; i++) {
            SmallClosure closure = close_graph(graph, proofs.queries[i], 1000);
            EXPECT(*closure_cell(&closure, proofs.queries[i], NULL));
        }
        n_proofs += proofs.count;
        free(proofs.queries);
        es_kg_destroy(graph);
    }
    printf("%d proofs\n", n_proofs);
    EXPECT(n_proofs > 500);
}

// --- published graphs ---

// The same graph with the same numbers, without one fact and without queries.
static EsKnowledgeGraph *remove_fact(const EsKnowledgeGraph *graph, EsAtom fact) {
    EsKgBuilder *builder;
    EsKnowledgeGraph *made;
    int32_t number;
    REQUIRE_OK(es_kg_builder_create(&builder));
    for (int32_t c = 1; c <= graph->n_constants; c++) {
        const char *name = graph->constant_names[c];
        REQUIRE_OK(es_kg_builder_intern(builder, ES_KG_CONSTANT, name, strlen(name), &number));
    }
    for (int32_t p = 1; p <= graph->n_predicates; p++) {
        const char *name = graph->predicate_names[p];
        REQUIRE_OK(es_kg_builder_intern(builder, ES_KG_PREDICATE, name, strlen(name), &number));
    }
    for (int32_t i = 0; i < graph->n_facts; i++) {
        if (!es_atom_equals(graph->facts[i], fact)) {
            REQUIRE_OK(es_kg_builder_add_fact(builder, &graph->facts[i]));
        }
    }
    for (int32_t r = 0; r < graph->n_rules; r++) {
        REQUIRE_OK(es_kg_builder_add_rule(builder, &graph->rules[r]));
    }
    REQUIRE_OK(es_kg_builder_finish(builder, &made));
    es_kg_builder_destroy(builder);
    return made;
}

// All that is no fact against one closure, and `n_facts` facts each against its own.
static void expect_closed(const EsKnowledgeGraph *graph, const Proofs *proofs, int n_facts) {
    EsClosure *closure;
    REQUIRE_OK(es_closure_create(graph, ES_CLOSURE_DEFAULT_LIMIT, &closure));
    EXPECT(closure->is_complete);
    for (int32_t i = 0; i < proofs->count; i++) {
        EsAtom query = proofs->queries[i];
        EXPECT(es_closure_has(closure, &query));
        if (es_kg_has_fact(graph, query) && n_facts-- > 0) {
            EsClosure *without;
            EsKnowledgeGraph *other = remove_fact(graph, query);
            EXPECT_EQ(other->n_facts, graph->n_facts - 1);
            REQUIRE_OK(es_closure_create(other, ES_CLOSURE_DEFAULT_LIMIT, &without));
            EXPECT(es_closure_has(without, &query));
            es_closure_destroy(without);
            es_kg_destroy(other);
        }
    }
    es_closure_destroy(closure);
}

TEST(proofs_on_published_graphs_follow_from_the_facts) {
    static const struct {
        const char *name;
        int n_steps, n_facts, uses_domains, has_closure;
    } cases[] = {{"countries_s3", 2000, 60, 1, 1},
                 {"umls", 1500, 20, 0, 1},
                 {"family", 500, 5, 0, 1},
                 {"wn18rr", 500, 0, 0, 0}}; // its closure is too large: successes replay
    const char *folder = getenv("ES_KG_DIR");
    if (folder == NULL || folder[0] == '\0') {
        SKIP("ES_KG_DIR is not set");
    }
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char path[1024];
        EsKnowledgeGraph *graph;
        snprintf(path, sizeof path, "%s/%s", folder, cases[c].name);
        REQUIRE_OK(es_kg_load(path, NULL, &graph));
        for (int split = 0; split < ES_KG_N_SPLITS; split++) {
            EsProofEnvSettings settings = es_proof_env_defaults();
            settings.split = (EsKgSplit)split;
            settings.uses_domains = cases[c].uses_domains;
            settings.has_end = 0;
            Proofs proofs = walk(graph, settings, cases[c].n_steps);
            printf("%s split %d: %d episodes, proved %d true and %d false\n", cases[c].name, split,
                   proofs.n_episodes, proofs.n_proved[1], proofs.n_proved[0]);
            EXPECT(proofs.n_proved[1] > 50);
            if (cases[c].has_closure) {
                expect_closed(graph, &proofs, cases[c].n_facts);
            }
            free(proofs.queries);
        }
        es_kg_destroy(graph);
    }
}
