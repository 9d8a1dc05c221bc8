// The suite `prove`: proof search on a knowledge graph, the generated one or --data. `engine`,
// `env` and `walk` run under a policy that takes any successor, the rest under a network. `env` and
// `walk` run on any device, the rest on the CPU.
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random_rules.h"
#include "bench/bench_suite.h"
#include "proof/agent/proof_env.h"
#include "proof/agent/proof_policy_inference.h"
#include "proof/agent/proof_training.h"
#include "proof/graph/knowledge_builder.h"
#include "proof/ranking/ranking_scorers.h"
#include "proof/search/closure.h"
#include "proof/search/prover.h"
#include "prove/prove_action.h"

// The settings of a case.
typedef struct ProveBench {
    const char *folder;   // NULL: the generated graph
    int n_envs;           // engine: walkers
    int n_wide, n_layers; // of the policy's network; 0: as by default
    // closure
    int n_chains; // of CHAIN_EDGES edges; 0: n_edges between n_nodes, drawn
    int n_nodes, n_edges;
    int n_atoms; // facts included
} ProveBench;

// --- a policy that acts, learns and ranks ---

#define ROUND_STEPS 32
// of the ranking: queries, corruptions of either side, and nodes of a search
#define N_QUERIES     16
#define N_CORRUPTIONS 20
#define N_NODES       20

typedef struct AgentFixture {
    const ProveBench *wanted;
    EsKnowledgeGraph *graph; // owned, as is all below
    EsProofTraining *training;
    double env_ms, policy_ms, update_ms; // of all rounds
    EsProofPolicyTrainingCounters kept;  // after the last
    int n_threads;
    // evaluation
    EsKnownAtoms *known;
    EsProofGuides guides;
    EsProofScorer *scorer;
} AgentFixture;

static void end_agent(void *context) {
    AgentFixture *fixture = context;
    if (fixture == NULL) {
        return;
    }
    es_proof_scorer_destroy(fixture->scorer);
    es_proof_guides_destroy(&fixture->guides);
    es_known_atoms_destroy(fixture->known);
    es_proof_training_destroy(fixture->training);
    es_kg_destroy(fixture->graph);
    es_release(fixture);
}

static EsStatus open_training(AgentFixture *fixture, const EsBench *bench) {
    EsProveSource source = {.folder = fixture->wanted->folder, .seed = 1};
    EsProofTrainingSettings settings = es_proof_training_defaults();
    settings.env.n_envs = fixture->wanted->n_envs;
    settings.n_steps = ROUND_STEPS;
    if (fixture->wanted->n_wide > 0) {
        settings.policy.embed = settings.policy.hidden = fixture->wanted->n_wide;
        settings.policy.layers = fixture->wanted->n_layers;
    }
    ES_TRY(es_prove_source_load(&source, &fixture->graph));
    ES_TRY(es_proof_training_create(bench->device, fixture->graph, &settings, &fixture->training));
    fixture->n_threads = es_thread_pool_size(es_proof_training_pool(fixture->training));
    return ES_STATUS_OK;
}

static EsStatus finish_agent(EsStatus status, AgentFixture *fixture, void **fixture_out) {
    if (status != ES_STATUS_OK) {
        end_agent(fixture);
        fixture = NULL;
    }
    *fixture_out = fixture;
    return status;
}

// rollout and train: rounds of a fixed number of steps of all environments.
static EsStatus begin_agent(const EsBenchCase *bench_case, const EsBench *bench,
                            void **fixture_out) {
    AgentFixture *fixture = NULL;
    ES_TRY(es_allocate(sizeof *fixture, (void **)&fixture));
    fixture->wanted = bench_case->settings;
    return finish_agent(open_training(fixture, bench), fixture, fixture_out);
}

// --- rounds ---

static void add_round(AgentFixture *fixture, const EsProofRound *round) {
    fixture->env_ms += round->env_ms;
    fixture->policy_ms += round->policy_ms;
    fixture->update_ms += round->update_ms;
    fixture->kept = es_proof_training_counters(fixture->training);
}

static EsStatus run_rollout(void *context, int variant) {
    AgentFixture *fixture = context;
    EsProofRound round;
    (void)variant;
    ES_TRY(es_proof_training_rollout(fixture->training, NULL, &round));
    add_round(fixture, &round);
    return ES_STATUS_OK;
}

static EsStatus run_training(void *context, int variant) {
    AgentFixture *fixture = context;
    EsProofRound round;
    (void)variant;
    ES_TRY(es_proof_training_round(fixture->training, NULL, &round));
    add_round(fixture, &round);
    return ES_STATUS_OK;
}

static double count_steps(const EsBenchCase *bench_case) {
    return (double)((const ProveBench *)bench_case->settings)->n_envs * ROUND_STEPS;
}

// Divides the time of all rounds so far into the categories of source document 003. The threads'
// work in the network counts by their number; the rest of its time is waiting for the last of them.
static int list_shares(void *context, EsBenchShare shares[ES_BENCH_MAX_SHARES]) {
    const AgentFixture *fixture = context;
    double all = fixture->env_ms + fixture->policy_ms + fixture->update_ms;
    double embed = fixture->kept.embed_ms / fixture->n_threads;
    double layers = fixture->kept.layer_ms / fixture->n_threads;
    const EsBenchShare found[] = {
        {"environment", "% environment", fixture->env_ms / all},
        {"embedding", "% embedding", embed / all},
        {"linear layers", "% linear layers", layers / all},
        {"transfers", "% transfers", 0}, // all is in one memory
        {"synchronisation", "% synchronisation", (fixture->kept.network_ms - embed - layers) / all},
        {"other", "% other",
         (fixture->policy_ms + fixture->update_ms - fixture->kept.network_ms) / all}};
    for (size_t i = 0; i < ES_COUNT_OF(found); i++) {
        shares[i] = found[i];
    }
    return ES_COUNT_OF(found);
}

// --- evaluation ---

static EsStatus open_ranking(AgentFixture *fixture, const EsBench *bench) {
    EsProofSearchSettings search = es_proof_search_defaults();
    search.max_expanded = N_NODES;
    search.max_depth = 4;
    search.batch = 4;
    ES_TRY(open_training(fixture, bench));
    if (fixture->graph->splits[ES_KG_SPLIT_TEST].count < N_QUERIES) {
        return ES_FAIL(INPUT, "the graph has %d test queries; %d are ranked",
                       fixture->graph->splits[ES_KG_SPLIT_TEST].count, N_QUERIES);
    }
    ES_TRY(es_known_atoms_create(fixture->graph, &fixture->known));
    ES_TRY(es_proof_guides_create(es_proof_training_policy(fixture->training), fixture->n_threads,
                                  &fixture->guides));
    return es_proof_scorer_create_search(fixture->graph, &search, fixture->guides.guides,
                                         ES_SCORE_PROBABILITY, fixture->n_threads,
                                         &fixture->scorer);
}

// evaluation: test queries against corruptions, by searches that an untrained policy guides.
static EsStatus begin_ranking(const EsBenchCase *bench_case, const EsBench *bench,
                              void **fixture_out) {
    AgentFixture *fixture = NULL;
    ES_TRY(es_allocate(sizeof *fixture, (void **)&fixture));
    fixture->wanted = bench_case->settings;
    return finish_agent(open_ranking(fixture, bench), fixture, fixture_out);
}

// The scorers begin anew each time: memories of the run before would make it look faster.
static EsStatus run_ranking(void *context, int variant) {
    AgentFixture *fixture = context;
    EsRankingSettings settings = es_ranking_defaults();
    EsProofPolicy *policy = es_proof_training_policy(fixture->training);
    EsCandidateScorer scorer = es_proof_scorer_candidates(fixture->scorer);
    EsRanking *ranking = NULL;
    (void)variant;
    settings.n_corruptions = N_CORRUPTIONS;
    es_proof_policy_copy(policy, policy);
    ES_TRY(es_ranking_create(
        fixture->known, &settings, &scorer, es_proof_training_pool(fixture->training),
        fixture->graph->splits[ES_KG_SPLIT_TEST].atoms, NULL, N_QUERIES, &ranking));
    es_ranking_destroy(ranking);
    return ES_STATUS_OK;
}

static double count_candidates(const EsBenchCase *bench_case) {
    (void)bench_case;
    return N_QUERIES * (1 + ES_N_CORRUPT_SIDES * N_CORRUPTIONS);
}

// steps of a walker per run of `engine`
#define WALK_STEPS 64

// --- the graph and the threads, which all cases have ---

typedef struct ProveFixture {
    const ProveBench *wanted;
    EsKnowledgeGraph *graph; // owned, as is all below
    EsThreadPool *pool;
    EsProofEnvSettings settings;
    // engine
    struct Walker *walkers; // (n_envs)
    EsSuccessors *scratch;  // (workers)
    int n_workers;
    // env, walk
    EsDevice *device; // borrowed
    EsProofEnv *env, *single;
    int32_t *actions; // (n_envs)
} ProveFixture;

static EsStatus open_graph(ProveFixture *fixture, const EsBench *bench) {
    EsProveSource source = {.folder = fixture->wanted->folder, .seed = 1};
    const EsDeviceInfo *info = es_device_info(bench->device);
    ES_TRY(es_prove_source_load(&source, &fixture->graph));
    return es_thread_pool_create(&fixture->pool,
                                 info->kind == ES_DEVICE_CPU ? info->n_processors : 0);
}

static EsStatus create_state(const EsBenchCase *bench_case, const EsBench *bench,
                             ProveFixture **fixture) {
    ES_TRY(es_allocate(sizeof **fixture, (void **)fixture));
    (*fixture)->wanted = bench_case->settings;
    (*fixture)->settings = es_proof_env_defaults();
    (*fixture)->settings.n_envs = (*fixture)->wanted->n_envs;
    return open_graph(*fixture, bench);
}

static void end_prove(void *context) {
    ProveFixture *fixture = context;
    if (fixture == NULL) {
        return;
    }
    es_proof_env_destroy(fixture->env);
    es_proof_env_destroy(fixture->single);
    for (int i = 0; i < fixture->n_workers && fixture->scratch != NULL; i++) {
        es_successors_destroy(&fixture->scratch[i]);
    }
    es_release(fixture->scratch);
    es_release(fixture->walkers);
    es_release(fixture->actions);
    es_thread_pool_destroy(fixture->pool);
    es_kg_destroy(fixture->graph);
    es_release(fixture);
}

static EsStatus finish_begin(EsStatus status, ProveFixture *fixture, void **fixture_out) {
    if (status != ES_STATUS_OK) {
        end_prove(fixture);
        fixture = NULL;
    }
    *fixture_out = fixture;
    return status;
}

// --- engine: expansions with memory, no environment around them ---

// A proof on its way: positives of TRAIN one after the other.
typedef struct Walker {
    EsAtom visited[21][6]; // depth and atoms as es_proof_env_defaults has them
    int32_t n_atoms[21];
    uint64_t hash[21];
    int32_t depth;
    uint32_t episode;
} Walker;

static void begin_walk(const ProveFixture *fixture, Walker *walker, int64_t number) {
    const EsQuerySplit *split = &fixture->graph->splits[ES_KG_SPLIT_TRAIN];
    EsEpisodePlan plan =
        es_episode_plan(ES_QUERY_UNIFORM, 0, split->count, 1, (uint32_t)number, walker->episode);
    walker->visited[0][0] = split->atoms[plan.query];
    walker->n_atoms[0] = 1;
    walker->hash[0] = es_proof_hash(walker->visited[0], 1);
    walker->depth = 0;
}

static void walk(void *context, int64_t number, int worker) {
    ProveFixture *fixture = context;
    Walker *walker = &fixture->walkers[number];
    EsSuccessors *out = &fixture->scratch[worker];
    EsProofSettings settings = {.max_atoms = 6, .max_states = out->table_size / 2, .has_end = 1};
    for (int i = 0; i < WALK_STEPS; i++) {
        int32_t depth = walker->depth;
        EsVisitedGoals visited = {walker->visited[0], walker->n_atoms, walker->hash, depth + 1, 6};
        es_proof_expand(fixture->graph, &settings, walker->visited[0], walker->visited[depth],
                        walker->n_atoms[depth], &visited, out);
        int32_t action =
            es_proof_random_action(1, (uint32_t)number, walker->episode, depth, out->count);
        EsAtomSpan next = es_successor(out, action);
        if (next.atoms[0].predicate > fixture->graph->n_predicates || depth == 19) {
            walker->episode++;
            begin_walk(fixture, walker, number);
            continue;
        }
        walker->depth = ++depth;
        memcpy(walker->visited[depth], next.atoms, (size_t)next.count * sizeof *next.atoms);
        walker->n_atoms[depth] = next.count;
        walker->hash[depth] = out->hash[action];
    }
}

static EsStatus open_engine(ProveFixture *fixture) {
    size_t n_walkers = (size_t)fixture->wanted->n_envs;
    if (fixture->graph->splits[ES_KG_SPLIT_TRAIN].count == 0) {
        return ES_FAIL(INPUT, "a graph without facts has no queries to prove");
    }
    int32_t max_states = es_proof_max_candidates(fixture->graph) + 1;
    fixture->n_workers = es_thread_pool_size(fixture->pool);
    ES_TRY(es_allocate(n_walkers * sizeof *fixture->walkers, (void **)&fixture->walkers));
    ES_TRY(es_allocate((size_t)fixture->n_workers * sizeof *fixture->scratch,
                       (void **)&fixture->scratch));
    for (int i = 0; i < fixture->n_workers; i++) {
        ES_TRY(es_successors_create(max_states, 6, &fixture->scratch[i]));
    }
    for (size_t i = 0; i < n_walkers; i++) {
        begin_walk(fixture, &fixture->walkers[i], (int64_t)i);
    }
    return ES_STATUS_OK;
}

static EsStatus begin_engine(const EsBenchCase *bench_case, const EsBench *bench,
                             void **fixture_out) {
    ProveFixture *fixture = NULL;
    EsStatus status = create_state(bench_case, bench, &fixture);
    return finish_begin(status == ES_STATUS_OK ? open_engine(fixture) : status, fixture,
                        fixture_out);
}

static EsStatus run_engine(void *context, int variant) {
    ProveFixture *fixture = context;
    (void)variant;
    es_thread_pool_run(fixture->pool, fixture->wanted->n_envs, walk, fixture);
    return ES_STATUS_OK;
}

static double count_walked(const EsBenchCase *bench_case) {
    return (double)((const ProveBench *)bench_case->settings)->n_envs * WALK_STEPS;
}

// --- env: all environments one step, against one environment as many steps ---

static EsStatus open_env(ProveFixture *fixture, const EsBench *bench) {
    ES_TRY(es_allocate((size_t)fixture->wanted->n_envs * sizeof *fixture->actions,
                       (void **)&fixture->actions));
    ES_TRY(
        es_proof_env_create_on(fixture->graph, &fixture->settings, bench->stream, &fixture->env));
    EsProofEnvSettings one = fixture->settings;
    one.n_envs = 1;
    return es_proof_env_create_on(fixture->graph, &one, bench->stream, &fixture->single);
}

static EsStatus begin_with(const EsBenchCase *bench_case, const EsBench *bench,
                           EsStatus (*open)(ProveFixture *fixture, const EsBench *bench),
                           void **fixture_out) {
    ProveFixture *fixture = NULL;
    EsStatus status = create_state(bench_case, bench, &fixture);
    return finish_begin(status == ES_STATUS_OK ? open(fixture, bench) : status, fixture,
                        fixture_out);
}

static EsStatus begin_env(const EsBenchCase *bench_case, const EsBench *bench, void **fixture_out) {
    return begin_with(bench_case, bench, open_env, fixture_out);
}

static EsStatus run_env(void *context, int variant) {
    ProveFixture *fixture = context;
    EsProofEnv *env = variant == 0 ? fixture->env : fixture->single;
    int n_steps = variant == 0 ? 1 : fixture->wanted->n_envs;
    for (int i = 0; i < n_steps; i++) {
        EsProofChoices choices;
        ES_TRY(es_proof_env_choices(env, &choices));
        es_proof_env_draw_actions(env, fixture->actions);
        ES_TRY(es_proof_env_step(env, fixture->actions));
    }
    return ES_STATUS_OK;
}

static double count_envs(const EsBenchCase *bench_case) {
    return (double)((const ProveBench *)bench_case->settings)->n_envs;
}

// --- walk: many steps of all environments in one call, against one thread of the CPU ---

// steps of a run; on CUDA they are one launch
#define WALK_TOGETHER 128

static EsStatus open_walk(ProveFixture *fixture, const EsBench *bench) {
    fixture->device = bench->device;
    ES_TRY(
        es_proof_env_create_on(fixture->graph, &fixture->settings, bench->stream, &fixture->env));
    return es_proof_env_create(fixture->graph, &fixture->settings, NULL, &fixture->single);
}

static EsStatus begin_walks(const EsBenchCase *bench_case, const EsBench *bench,
                            void **fixture_out) {
    return begin_with(bench_case, bench, open_walk, fixture_out);
}

static EsStatus run_walks(void *context, int variant) {
    ProveFixture *fixture = context;
    return es_proof_env_walk(variant == 0 ? fixture->env : fixture->single, WALK_TOGETHER, NULL);
}

static double count_walks(const EsBenchCase *bench_case) {
    return (double)((const ProveBench *)bench_case->settings)->n_envs * WALK_TOGETHER;
}

static EsDeviceCounters count_device(void *context) {
    return es_device_counters(((ProveFixture *)context)->device);
}

// --- closure: paths along chains, and in a random graph that is mostly one component ---

#define CHAIN_EDGES 18

// An edge between nodes that are numbered from 0.
static EsStatus add_edge(EsKgBuilder *builder, int32_t edge, int from, int to) {
    EsAtom fact = {edge, 0, 0};
    char name[16];
    int bytes = snprintf(name, sizeof name, "n%d", from);
    ES_TRY(es_kg_builder_intern(builder, ES_KG_CONSTANT, name, (size_t)bytes, &fact.a));
    bytes = snprintf(name, sizeof name, "n%d", to);
    ES_TRY(es_kg_builder_intern(builder, ES_KG_CONSTANT, name, (size_t)bytes, &fact.b));
    return es_kg_builder_add_fact(builder, &fact);
}

// edge(x,y) -> path(x,y); path(x,y), edge(y,z) -> path(x,z)
static EsStatus build_paths(const ProveBench *wanted, EsKgBuilder *builder) {
    int32_t edge, path;
    ES_TRY(es_kg_builder_intern(builder, ES_KG_PREDICATE, "edge", 4, &edge));
    ES_TRY(es_kg_builder_intern(builder, ES_KG_PREDICATE, "path", 4, &path));
    EsHornRule rule = {.head = {path, -1, -2}, .n_body = 1, .n_variables = 2, .line = 1};
    rule.body[0] = (EsAtom){edge, -1, -2};
    ES_TRY(es_kg_builder_add_rule(builder, &rule));
    rule = (EsHornRule){.head = {path, -1, -2}, .n_body = 2, .n_variables = 3, .line = 2};
    rule.body[0] = (EsAtom){path, -1, -3};
    rule.body[1] = (EsAtom){edge, -3, -2};
    ES_TRY(es_kg_builder_add_rule(builder, &rule));
    for (int i = 0; i < wanted->n_chains * CHAIN_EDGES; i++) {
        int from = i + i / CHAIN_EDGES;
        ES_TRY(add_edge(builder, edge, from, from + 1));
    }
    for (int i = 0; i < wanted->n_edges; i++) {
        EsRandom4 r = es_random_draw(1, 0, ES_PURPOSE_DATA_GENERATION, 0, (uint32_t)i);
        uint32_t n = (uint32_t)wanted->n_nodes;
        ES_TRY(add_edge(builder, edge, (int)es_random_below(r.word[0], n),
                        (int)es_random_below(r.word[1], n)));
    }
    return ES_STATUS_OK;
}

static EsStatus open_paths(ProveFixture *fixture, const EsBench *bench) {
    const EsDeviceInfo *info = es_device_info(bench->device);
    EsKgBuilder *builder = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_thread_pool_create(&fixture->pool,
                                 info->kind == ES_DEVICE_CPU ? info->n_processors : 0));
    ES_TRY(es_kg_builder_create(&builder));
    ES_TRY_GOTO(build_paths(fixture->wanted, builder));
    ES_TRY_GOTO(es_kg_builder_finish(builder, &fixture->graph));
done:
    es_kg_builder_destroy(builder);
    return status;
}

static EsStatus begin_closure(const EsBenchCase *bench_case, const EsBench *bench,
                              void **fixture_out) {
    ProveFixture *fixture = NULL;
    ES_TRY(es_allocate(sizeof *fixture, (void **)&fixture));
    fixture->wanted = bench_case->settings;
    return finish_begin(open_paths(fixture, bench), fixture, fixture_out);
}

static EsStatus run_closure(void *context, int variant) {
    ProveFixture *fixture = context;
    const EsClosureSettings settings = {.limit = ES_CLOSURE_MAX_LIMIT, .pool = fixture->pool};
    EsClosure *closure;
    (void)variant;
    ES_TRY(es_closure_create_with(fixture->graph, &settings, &closure));
    int32_t n_atoms = closure->count;
    es_closure_destroy(closure);
    return n_atoms == fixture->wanted->n_atoms
               ? ES_STATUS_OK
               : ES_FAIL(NUMERIC, "a closure of %d atoms, expected %d", n_atoms,
                         fixture->wanted->n_atoms);
}

static double count_atoms(const EsBenchCase *bench_case) {
    return ((const ProveBench *)bench_case->settings)->n_atoms;
}

// --- cases ---

#define ENGINE_CASE(label, ...)                                                                    \
    {                                                                                              \
        .name = "engine", .parameters = label, .settings = &(const ProveBench){__VA_ARGS__},       \
        .begin = begin_engine, .run = run_engine, .end = end_prove, .work = count_walked,          \
        .rate_unit = "steps/s", .is_cpu_only = 1                                                   \
    }

#define WALK_CASE(label, ...)                                                                      \
    {                                                                                              \
        .name = "walk", .parameters = label, .settings = &(const ProveBench){__VA_ARGS__},         \
        .begin = begin_walks, .run = run_walks, .end = end_prove, .work = count_walks,             \
        .rate_unit = "steps/s", .peer = "one CPU thread", .counters = count_device,                \
        .n_steps = WALK_TOGETHER                                                                   \
    }

#define ENV_CASE(label, ...)                                                                       \
    {                                                                                              \
        .name = "env", .parameters = label, .settings = &(const ProveBench){__VA_ARGS__},          \
        .begin = begin_env, .run = run_env, .end = end_prove, .work = count_envs,                  \
        .rate_unit = "steps/s", .peer = "E=1"                                                      \
    }

#define AGENT_CASE(title, run_function, label, ...)                                                \
    {                                                                                              \
        .name = title, .parameters = label, .settings = &(const ProveBench){__VA_ARGS__},          \
        .begin = begin_agent, .run = run_function, .end = end_agent, .work = count_steps,          \
        .rate_unit = "steps/s", .shares = list_shares, .is_cpu_only = 1                            \
    }
#define ROLLOUT_CASE(label, ...) AGENT_CASE("rollout", run_rollout, label, __VA_ARGS__)
#define TRAIN_CASE(label, ...)   AGENT_CASE("train", run_training, label, __VA_ARGS__)

#define RANKING_CASE(label, ...)                                                                   \
    {                                                                                              \
        .name = "evaluation", .parameters = label, .settings = &(const ProveBench){__VA_ARGS__},   \
        .begin = begin_ranking, .run = run_ranking, .end = end_agent, .work = count_candidates,    \
        .rate_unit = "candidates/s", .is_cpu_only = 1                                              \
    }

#define CLOSURE_CASE(label, ...)                                                                   \
    {                                                                                              \
        .name = "closure", .parameters = label, .settings = &(const ProveBench){__VA_ARGS__},      \
        .begin = begin_closure, .run = run_closure, .end = end_prove, .work = count_atoms,         \
        .rate_unit = "atoms/s", .is_cpu_only = 1                                                   \
    }

// width and layers of the published network
#define WIDE_NET .n_wide = 256, .n_layers = 8

static const EsBenchCase cases[] = {
    ENGINE_CASE("E=128 data=generated", .n_envs = 128),
    ENV_CASE("E=1 data=generated", .n_envs = 1),
    ENV_CASE("E=2 data=generated", .n_envs = 2),
    ENV_CASE("E=4 data=generated", .n_envs = 4),
    ENV_CASE("E=8 data=generated", .n_envs = 8),
    ENV_CASE("E=128 data=generated", .n_envs = 128),
    ENV_CASE("E=1024 data=generated", .n_envs = 1024),
    WALK_CASE("E=1 data=generated", .n_envs = 1),
    WALK_CASE("E=2 data=generated", .n_envs = 2),
    WALK_CASE("E=4 data=generated", .n_envs = 4),
    WALK_CASE("E=8 data=generated", .n_envs = 8),
    WALK_CASE("E=128 data=generated", .n_envs = 128),
    WALK_CASE("E=1024 data=generated", .n_envs = 1024),
    WALK_CASE("E=4096 data=generated", .n_envs = 4096),
    WALK_CASE("E=16384 data=generated", .n_envs = 16384),
    ROLLOUT_CASE("E=1 data=generated", .n_envs = 1),
    ROLLOUT_CASE("E=8 data=generated", .n_envs = 8),
    ROLLOUT_CASE("E=128 data=generated", .n_envs = 128),
    ROLLOUT_CASE("E=1024 data=generated", .n_envs = 1024),
    ROLLOUT_CASE("E=128 net=256x8 data=generated", .n_envs = 128, WIDE_NET),
    TRAIN_CASE("E=128 data=generated", .n_envs = 128),
    TRAIN_CASE("E=128 net=256x8 data=generated", .n_envs = 128, WIDE_NET),
    RANKING_CASE("data=generated", .n_envs = 1),
    // a fifth of the graphs of benchmarks/compare_closure
    CLOSURE_CASE("data=chains", .n_chains = 11111, .n_atoms = 2099979),
    CLOSURE_CASE("data=dense", .n_nodes = 1500, .n_edges = 4500, .n_atoms = 1999634),
};

// One of each kind but `closure`, in the list's order, for --data and --envs.
static EsStatus choose_prove(const EsBenchHost *wanted, EsBenchCase *custom, int *n_custom) {
    static ProveBench chosen; // one run of the program has one command line
    static char parameters[128];
    *n_custom = 0;
    if (wanted->n_envs == 0 && wanted->data == NULL) {
        return ES_STATUS_OK;
    }
    chosen =
        (ProveBench){.folder = wanted->data, .n_envs = wanted->n_envs > 0 ? wanted->n_envs : 128};
    const char *slash = wanted->data != NULL ? strrchr(wanted->data, '/') : NULL;
    const char *name = wanted->data == NULL ? "generated" : wanted->data;
    snprintf(parameters, sizeof parameters, "E=%d data=%.80s", chosen.n_envs,
             slash != NULL && slash[1] != '\0' ? slash + 1 : name);
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        if (cases[i].begin != begin_closure &&
            (i == 0 || strcmp(cases[i].name, cases[i - 1].name) != 0)) {
            ES_ASSERT(*n_custom < ES_BENCH_MAX_CUSTOM);
            custom[*n_custom] = cases[i];
            custom[*n_custom].parameters = parameters;
            custom[(*n_custom)++].settings = &chosen;
        }
    }
    return ES_STATUS_OK;
}

const EsBenchSuite es_bench_prove = {
    .name = "prove",
    .summary =
        "proof search: engine, environments, walks, a policy that acts, learns and ranks, closure",
    .cases = cases,
    .n_cases = ES_COUNT_OF(cases),
    .choose = choose_prove,
    .sweeps = "envs",
};
