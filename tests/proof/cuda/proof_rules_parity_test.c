// The rules of proofs on the GPU and on the CPU: states of random walks are expanded on both, and
// every list of successors is compared, byte for byte.
//
// ES_FUZZ_STEPS sets the number of expansions of each graph and selection; ES_KG_DIR names the
// folder of the published graphs.
#include "base/memory.h"
#include "es_test.h"
#include "proof/agent/proof_env.h"
#include "proof/cuda/device_graphs.h"
#include "proof/cuda/expand_cuda.h"
#include "proof/graph/knowledge_device.h"
#include "proof/random_graph.h"
#include "proof/search/prover.h"

#define N_WALKS    64
#define MAX_STATES 1024
#define MAX_DEPTH  (EXPAND_VISITED - 1)

// --- walks ---

typedef struct Walks {
    const EsKnowledgeGraph *graph;
    EsProofSettings settings;
    ExpandTask tasks[N_WALKS];
    uint32_t episode[N_WALKS];
    int32_t depth[N_WALKS];
} Walks;

static void enter(ExpandTask *task, const EsAtom *atoms, int32_t n_atoms) {
    memset(task->state, 0, sizeof task->state);
    memcpy(task->state, atoms, (size_t)n_atoms * sizeof *atoms);
    task->n_atoms = n_atoms;
    int32_t v = task->n_visited++;
    memcpy(task->visited[v], task->state, sizeof task->state);
    task->n_visited_atoms[v] = n_atoms;
    task->visited_hash[v] = es_proof_hash(atoms, n_atoms);
}

// Queries of all splits, by turns.
static void begin_walk(Walks *walks, uint32_t i) {
    const EsKnowledgeGraph *graph = walks->graph;
    uint32_t episode = walks->episode[i]++;
    EsKgSplit split = (EsKgSplit)((episode + i) % ES_KG_N_SPLITS);
    while (graph->splits[split].count == 0) {
        split = (EsKgSplit)((split + 1) % ES_KG_N_SPLITS);
    }
    EsEpisodePlan plan =
        es_episode_plan(ES_QUERY_UNIFORM, 0, graph->splits[split].count, 5, i, episode);
    const EsAtom *query = es_kg_query(graph, split, plan.query);
    int32_t n_cells = es_kg_cells(graph, query->predicate);
    ExpandTask *task = &walks->tasks[i];
    memset(task, 0, sizeof *task);
    memcpy(task->query, query, (size_t)n_cells * sizeof *query);
    walks->depth[i] = 0;
    enter(task, query, n_cells);
}

static void go_on(Walks *walks, uint32_t i, const EsSuccessors *out) {
    int32_t action = es_proof_random_action(5, i, walks->episode[i], walks->depth[i]++, out->count);
    EsAtomSpan next = es_successor(out, action);
    if (next.atoms[0].predicate > walks->graph->n_predicates || walks->depth[i] == MAX_DEPTH) {
        begin_walk(walks, i);
    } else {
        enter(&walks->tasks[i], next.atoms, next.count);
    }
}

// --- both sides ---

// Lists in device memory with a copy on the CPU; the lists of the CPU's own expansions beside them.
typedef struct Sides {
    EsDevice *device;
    EsStream *stream;
    EsKnowledgeDevice *graph;
    ExpandTask *tasks;   // device
    EsSuccessors *lists; // device
    unsigned char *there, *back;
    EsSuccessors theirs[N_WALKS]; // pointers into `there`
    size_t bytes, list_bytes;
    size_t start_at, hash_at;
    EsSuccessors ours;
} Sides;

static void open_sides(Sides *sides, const Walks *walks, EsDevice *device) {
    const EsProofSettings *settings = &walks->settings;
    memset(sides, 0, sizeof *sides);
    sides->device = device;
    REQUIRE_OK(es_stream_create(device, &sides->stream));
    REQUIRE_OK(es_kg_device_create(walks->graph, sides->stream, &sides->graph));
    REQUIRE_OK(es_successors_create(settings->max_states, settings->max_atoms, &sides->ours));
    size_t S = (size_t)settings->max_states, A = (size_t)settings->max_atoms;
    size_t table_size = (size_t)sides->ours.table_size, *bytes = &sides->list_bytes;
    size_t atoms = es_slab_add(bytes, (S + 1) * A * sizeof(EsAtom));
    sides->start_at = es_slab_add(bytes, (S + 2) * sizeof(int32_t));
    sides->hash_at = es_slab_add(bytes, (S + 1) * sizeof(uint64_t));
    size_t place = es_slab_add(bytes, (S + 1) * sizeof(int32_t));
    size_t table = es_slab_add(bytes, table_size * sizeof(int32_t));
    *bytes = (*bytes + ES_ALIGNMENT - 1) / ES_ALIGNMENT * ES_ALIGNMENT;
    sides->bytes = N_WALKS * sides->list_bytes;
    REQUIRE_OK(es_device_allocate(device, sides->bytes, (void **)&sides->there));
    REQUIRE_OK(es_allocate(sides->bytes, (void **)&sides->back));
    REQUIRE_OK(es_device_allocate(device, sizeof walks->tasks, (void **)&sides->tasks));
    REQUIRE_OK(es_device_allocate(device, sizeof sides->theirs, (void **)&sides->lists));
    for (size_t i = 0; i < N_WALKS; i++) {
        unsigned char *list = sides->there + i * sides->list_bytes;
        sides->theirs[i] = (EsSuccessors){.atoms = (void *)(list + atoms),
                                          .start = (void *)(list + sides->start_at),
                                          .hash = (void *)(list + sides->hash_at),
                                          .place = (void *)(list + place),
                                          .table = (void *)(list + table),
                                          .table_size = (int32_t)table_size};
    }
}

static void close_sides(Sides *sides) {
    es_successors_destroy(&sides->ours);
    es_device_release(sides->device, sides->there);
    es_device_release(sides->device, sides->tasks);
    es_device_release(sides->device, sides->lists);
    es_release(sides->back);
    es_kg_device_destroy(sides->graph);
    es_stream_destroy(sides->stream);
}

static void expand_there(Sides *sides, const Walks *walks) {
    EsKnowledgeGraph view = es_kg_device_view(sides->graph);
    EsStream *stream = sides->stream;
    REQUIRE_OK(
        es_stream_copy(stream, sides->tasks, walks->tasks, sizeof walks->tasks, ES_COPY_TO_DEVICE));
    REQUIRE_OK(es_stream_copy(stream, sides->lists, sides->theirs, sizeof sides->theirs,
                              ES_COPY_TO_DEVICE));
    REQUIRE_OK(
        expand_on_device(stream, &view, &walks->settings, N_WALKS, sides->tasks, sides->lists));
    REQUIRE_OK(
        es_stream_copy(stream, sides->theirs, sides->lists, sizeof sides->theirs, ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_copy(stream, sides->back, sides->there, sides->bytes, ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(stream));
}

// Returns whether the device's list i is the CPU's.
static int is_same(const Sides *sides, int i) {
    const EsSuccessors *here = &sides->ours, *there = &sides->theirs[i];
    if (here->outcome != there->outcome || here->count != there->count ||
        here->n_overlong != there->n_overlong || here->n_overflow != there->n_overflow) {
        return 0;
    }
    const unsigned char *list = sides->back + (size_t)i * sides->list_bytes; // its atoms first
    size_t n = (size_t)here->count, n_atoms = (size_t)here->start[here->count];
    return memcmp(here->start, list + sides->start_at, (n + 1) * sizeof *here->start) == 0 &&
           memcmp(here->atoms, list, n_atoms * sizeof *here->atoms) == 0 &&
           memcmp(here->hash, list + sides->hash_at, n * sizeof *here->hash) == 0;
}

// --- the comparison ---

static void compare_under(const EsKnowledgeGraph *graph, EsDevice *device,
                          EsGoalSelection selection, int32_t max_atoms, int32_t max_states) {
    static Walks walks;
    Sides sides;
    int64_t n_successors = 0, n_outcomes[4] = {0}, n_overlong = 0, n_overflow = 0;
    memset(&walks, 0, sizeof walks);
    walks.graph = graph;
    walks.settings = (EsProofSettings){.selection = selection,
                                       .max_atoms = max_atoms,
                                       .max_states = max_states,
                                       .has_end = max_atoms % 2 == 0};
    for (uint32_t i = 0; i < N_WALKS; i++) {
        begin_walk(&walks, i);
    }
    open_sides(&sides, &walks, device);
    long long n_steps = count_steps(2000), n_done = 0;
    int is_equal = 1;
    for (; n_done < n_steps && is_equal; n_done += N_WALKS) {
        expand_there(&sides, &walks);
        for (int i = 0; i < N_WALKS && is_equal; i++) {
            expand_task(graph, &walks.settings, &walks.tasks[i], &sides.ours);
            is_equal = is_same(&sides, i);
            n_successors += sides.ours.count;
            n_outcomes[sides.ours.outcome]++;
            n_overlong += sides.ours.n_overlong;
            n_overflow += sides.ours.n_overflow;
            go_on(&walks, (uint32_t)i, &sides.ours);
        }
    }
    EXPECT(is_equal);
    EXPECT(n_outcomes[ES_PROOF_OPEN] > 0);
    printf("  selection %d, %d cells, %d states: %lld expansions, %lld successors; %lld proved, "
           "%lld failed; %lld too long, %lld too many; graph of %zu bytes\n",
           (int)selection, max_atoms, max_states, n_done, (long long)n_successors,
           (long long)n_outcomes[ES_PROOF_PROVED], (long long)n_outcomes[ES_PROOF_FAILED],
           (long long)n_overlong, (long long)n_overflow, es_kg_device_bytes(sides.graph));
    close_sides(&sides);
}

// Both selections, with and without End, with limits that drop much and limits that drop little.
static void compare_graph(const EsKnowledgeGraph *graph, EsDevice *device) {
    for (int selection = 0; selection <= ES_GOAL_LEFTMOST; selection++) {
        compare_under(graph, device, (EsGoalSelection)selection, 6, MAX_STATES);
        compare_under(graph, device, (EsGoalSelection)selection, 5, 4);
    }
    compare_under(graph, device, ES_GOAL_CONSTRAINED, ES_PROOF_MAX_ATOMS, 64);
}

static void compare_made(EsKnowledgeGraph *graph) {
    if (graph == NULL) {
        SKIP("ES_KG_DIR is not set");
    }
    EsDevice *device = open_cuda();
    if (device != NULL) {
        compare_graph(graph, device);
        es_device_close(device);
    }
    es_kg_destroy(graph);
    if (device == NULL) {
        SKIP("no CUDA device");
    }
}

TEST(generated) { compare_made(make_village(150)); }
TEST(wide) { compare_made(make_wide_graph(150)); }
TEST(comparisons) { compare_made(make_comparing_graph()); }
TEST(family) { compare_made(load_published("family")); }
TEST(umls) { compare_made(load_published("umls")); }
TEST(wn18rr) { compare_made(load_published("wn18rr")); }
TEST(countries) { compare_made(load_published("countries_s3")); }

// p(x,x), constants, repeated variables
TEST(random_graphs) {
    WITH_DEVICE(device)
    for (uint32_t number = 0; number < 3; number++) {
        RandomGraph random = draw_graph(number, 0);
        EsKnowledgeGraph *graph = build_graph(&random, 0, -1, "");
        compare_under(graph, device, ES_GOAL_CONSTRAINED, 6, MAX_STATES);
        compare_under(graph, device, ES_GOAL_LEFTMOST, 7, MAX_STATES);
        es_kg_destroy(graph);
    }
    es_device_close(device);
}
