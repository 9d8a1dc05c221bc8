// Environments of proofs in device memory against those of the CPU: stepped together with equal
// actions, everything that either shows is compared after every step, bit for bit.
//
// ES_FUZZ_STEPS sets the steps of each graph and selection, of all environments together;
// ES_KG_DIR names the folder of the published graphs.
#include "base/memory.h"
#include "proof/agent/proof_env.h"
#include "proof/cuda/device_graphs.h"

typedef struct Pair {
    EsDevice *device;
    EsStream *stream;
    EsProofEnv *here, *there;
    int32_t *actions;
    int32_t n_envs;
    const EsKnowledgeGraph *graph;
} Pair;

static void open_pair(Pair *pair, EsDevice *device, const EsKnowledgeGraph *graph,
                      const EsProofEnvSettings *settings) {
    *pair = (Pair){.device = device, .n_envs = settings->n_envs, .graph = graph};
    REQUIRE_OK(es_stream_create(device, &pair->stream));
    REQUIRE_OK(es_proof_env_create(graph, settings, NULL, &pair->here));
    REQUIRE_OK(es_proof_env_create_on(graph, settings, pair->stream, &pair->there));
    REQUIRE_OK(es_allocate((size_t)pair->n_envs * sizeof(int32_t), (void **)&pair->actions));
}

static void close_pair(Pair *pair) {
    es_proof_env_destroy(pair->here);
    es_proof_env_destroy(pair->there);
    es_stream_destroy(pair->stream);
    es_release(pair->actions);
}

// --- what they show ---

static int spans_equal(const EsAtomSpan *x, const EsAtomSpan *y) {
    return x->count == y->count &&
           memcmp(x->atoms, y->atoms, (size_t)x->count * sizeof *x->atoms) == 0;
}

static int choices_equal(Pair *pair, int64_t *n_successors) {
    EsProofChoices here, there;
    REQUIRE_OK(es_proof_env_choices(pair->here, &here));
    REQUIRE_OK(es_proof_env_choices(pair->there, &there));
    size_t N = (size_t)pair->n_envs;
    int is_equal = memcmp(here.first, there.first, (N + 1) * sizeof *here.first) == 0 &&
                   memcmp(here.queries, there.queries,
                          N * (size_t)pair->graph->query_cells * sizeof(EsAtom)) == 0;
    for (size_t e = 0; e < N && is_equal; e++) {
        is_equal = spans_equal(&here.states[e], &there.states[e]);
    }
    for (int32_t k = 0; is_equal && k < here.first[N]; k++) {
        is_equal = spans_equal(&here.successors[k], &there.successors[k]);
    }
    *n_successors += here.first[N];
    return is_equal;
}

static int results_equal(const Pair *pair) {
    const EsProofResult *x = es_proof_env_result(pair->here), *y = es_proof_env_result(pair->there);
    size_t N = (size_t)pair->n_envs;
    int is_equal =
        memcmp(x->reward, y->reward, N * sizeof *x->reward) == 0 &&
        memcmp(x->is_done, y->is_done, N) == 0 && memcmp(x->is_success, y->is_success, N) == 0 &&
        memcmp(x->is_truncated, y->is_truncated, N) == 0 &&
        memcmp(x->is_by_end, y->is_by_end, N) == 0 && memcmp(x->label, y->label, N) == 0 &&
        memcmp(x->depth, y->depth, N * sizeof *x->depth) == 0 &&
        memcmp(x->query, y->query, N * (size_t)pair->graph->query_cells * sizeof *x->query) == 0;
    for (size_t e = 0; e < N && is_equal; e++) {
        is_equal = spans_equal(&x->reached[e], &y->reached[e]);
    }
    for (int32_t e = 0; e < pair->n_envs && is_equal; e++) {
        EsProofTrace of_x = es_proof_env_proof(pair->here, e),
                     of_y = es_proof_env_proof(pair->there, e);
        is_equal = of_x.count == of_y.count;
        for (int32_t i = 0; i < of_x.count && is_equal; i++) {
            is_equal = spans_equal(&of_x.states[i], &of_y.states[i]);
        }
    }
    return is_equal;
}

static int episodes_equal(const Pair *pair) {
    int is_equal = 1;
    for (int32_t e = 0; e < pair->n_envs && is_equal; e++) {
        EsProofEpisode x = es_proof_env_episode(pair->here, e),
                       y = es_proof_env_episode(pair->there, e);
        is_equal = memcmp(&x, &y, sizeof x) == 0;
    }
    return is_equal;
}

// All that the future depends on, and the counters. Sums of rewards are of whole numbers here, so
// that their order does not matter.
static int saved_equal(Pair *pair) {
    size_t bytes = es_proof_env_saved_bytes(pair->here);
    void *here, *there;
    REQUIRE_OK(es_allocate(bytes, &here));
    REQUIRE_OK(es_allocate(bytes, &there));
    REQUIRE_OK(es_proof_env_save(pair->here, here));
    REQUIRE_OK(es_proof_env_save(pair->there, there));
    int is_equal =
        es_proof_env_saved_bytes(pair->there) == bytes && memcmp(here, there, bytes) == 0;
    es_release(here);
    es_release(there);
    return is_equal;
}

// --- steps together ---

// Uniform actions, but every fifth environment keeps to its first successor, which goes deep.
static void draw(Pair *pair) {
    es_proof_env_draw_actions(pair->here, pair->actions);
    for (int32_t e = 0; e < pair->n_envs; e += 5) {
        pair->actions[e] = 0;
    }
}

static void walk_together(Pair *pair, const char *what, long long n_steps) {
    int64_t n_successors = 0;
    long long n_done = 0;
    int is_equal = choices_equal(pair, &n_successors) && episodes_equal(pair);
    for (; n_done < n_steps && is_equal; n_done += pair->n_envs) {
        draw(pair);
        REQUIRE_OK(es_proof_env_step(pair->here, pair->actions));
        REQUIRE_OK(es_proof_env_step(pair->there, pair->actions));
        is_equal =
            choices_equal(pair, &n_successors) && results_equal(pair) && episodes_equal(pair);
    }
    EXPECT(is_equal);
    EXPECT(saved_equal(pair));
    EsProofEnvCounters counters = es_proof_env_counters(pair->here);
    printf(
        "  %s: %lld steps, %lld successors; %lld + %lld episodes, %lld + %lld proved, %lld + %lld "
        "cut; %lld passed over; %lld too long, %lld too many\n",
        what, n_done, (long long)n_successors, (long long)counters.n_episodes[0],
        (long long)counters.n_episodes[1], (long long)counters.n_proved[0],
        (long long)counters.n_proved[1], (long long)counters.n_truncated[0],
        (long long)counters.n_truncated[1], (long long)counters.n_skipped,
        (long long)counters.n_overlong, (long long)counters.n_overflow);
}

// As many steps of uniform actions, which either side draws by itself: one launch on the device.
static void walk_apart(Pair *pair, long long n_steps) {
    int64_t n_successors = 0;
    int32_t n_each = (int32_t)(n_steps / pair->n_envs) + 1;
    REQUIRE_OK(es_proof_env_walk(pair->here, n_each, NULL));
    REQUIRE_OK(es_proof_env_walk(pair->there, n_each, NULL));
    EXPECT(results_equal(pair) && episodes_equal(pair) && choices_equal(pair, &n_successors));
    EXPECT(saved_equal(pair));
}

static EsProofEnvSettings settings_for(EsGoalSelection selection) {
    EsProofEnvSettings settings = es_proof_env_defaults();
    settings.n_envs = getenv("ES_FUZZ_STEPS") != NULL ? 256 : 37; // no multiple of a block
    settings.selection = selection;
    settings.seed = 3;
    return settings;
}

static void compare_with(EsDevice *device, const EsKnowledgeGraph *graph,
                         const EsProofEnvSettings *settings, const char *what, long long n_steps) {
    Pair pair;
    open_pair(&pair, device, graph, settings);
    walk_together(&pair, what, n_steps);
    walk_apart(&pair, n_steps);
    close_pair(&pair);
}

// Both selections, and settings that reach every branch of a step.
static void compare_graph(EsDevice *device, const EsKnowledgeGraph *graph, EsKgSplit split) {
    for (int selection = 0; selection <= ES_GOAL_LEFTMOST; selection++) {
        EsProofEnvSettings settings = settings_for((EsGoalSelection)selection);
        settings.split = split;
        compare_with(device, graph, &settings, selection == 0 ? "constrained" : "leftmost",
                     count_steps(1500));
        EsProofEnvSettings other = settings;
        other.skips_unary = 1;
        other.max_depth = 6;
        other.reward_type = 3; // halves: sums are exact
        other.order = ES_QUERY_ROUND_ROBIN;
        other.n_negatives = 3;
        other.uses_domains = graph->domains.count > 0;
        compare_with(device, graph, &other, "  passing over", count_steps(1500) / 4);
        other = settings;
        other.has_memory = other.has_end = 0;
        other.max_states = 5;
        other.max_atoms = 20;
        other.reward_type = 2;
        other.is_corrupting[ES_CORRUPT_HEAD] = 0;
        compare_with(device, graph, &other, "  five successors", count_steps(1500) / 4);
    }
}

static void compare_made(EsKnowledgeGraph *graph, EsKgSplit split) {
    if (graph == NULL) {
        SKIP("ES_KG_DIR is not set");
    }
    EsDevice *device = open_cuda();
    if (device != NULL) {
        compare_graph(device, graph, split);
        es_device_close(device);
    }
    es_kg_destroy(graph);
    if (device == NULL) {
        SKIP("no CUDA device");
    }
}

TEST(generated) { compare_made(make_village(150), ES_KG_SPLIT_TRAIN); }
TEST(wide) { compare_made(make_wide_graph(150), ES_KG_SPLIT_TRAIN); }
TEST(comparisons) { compare_made(make_comparing_graph(), ES_KG_SPLIT_TEST); }
TEST(family) { compare_made(load_published("family"), ES_KG_SPLIT_TRAIN); }
TEST(umls) { compare_made(load_published("umls"), ES_KG_SPLIT_TRAIN); }
TEST(wn18rr) { compare_made(load_published("wn18rr"), ES_KG_SPLIT_TRAIN); }
TEST(countries) { compare_made(load_published("countries_s3"), ES_KG_SPLIT_TEST); }

// --- uniform actions drawn on the device ---

#define ROWS 40

typedef struct Rows {
    int32_t action[ROWS * 37], count[ROWS * 37];
    float reward[ROWS * 37];
    unsigned char is_done[ROWS * 37];
} Rows;

static EsProofRows rows_in(Rows *rows) {
    return (EsProofRows){rows->action, rows->count, rows->reward, rows->is_done};
}

// One launch of many steps leaves what as many steps leave, and the same rows.
TEST(a_walk_is_its_steps) {
    WITH_DEVICE(device)
    static Rows here, back;
    Rows *there = NULL;
    EsKnowledgeGraph *graph = make_village(150);
    EsProofEnvSettings settings = settings_for(ES_GOAL_CONSTRAINED);
    Pair pair;
    int64_t n_successors = 0;
    settings.n_envs = 37;
    open_pair(&pair, device, graph, &settings);
    REQUIRE_OK(es_device_allocate(device, sizeof *there, (void **)&there));
    EsProofRows here_rows = rows_in(&here), there_rows = rows_in(there);
    for (int i = 0; i < 3; i++) {
        REQUIRE_OK(es_proof_env_walk(pair.here, ROWS, &here_rows));
        REQUIRE_OK(es_proof_env_walk(pair.there, ROWS, &there_rows));
        REQUIRE_OK(es_stream_copy(pair.stream, &back, there, sizeof back, ES_COPY_TO_HOST));
        REQUIRE_OK(es_stream_synchronize(pair.stream));
        EXPECT(memcmp(&here, &back, sizeof here) == 0);
        EXPECT(results_equal(&pair) && episodes_equal(&pair));
        EXPECT(choices_equal(&pair, &n_successors));
    }
    EXPECT(saved_equal(&pair));
    es_device_release(device, there);
    close_pair(&pair);
    es_kg_destroy(graph);
    es_device_close(device);
}

// --- saving, cost, refusals ---

// What one side has saved the other goes on from.
TEST(either_side_goes_on_from_the_other) {
    WITH_DEVICE(device)
    EsKnowledgeGraph *graph = make_wide_graph(60);
    EsProofEnvSettings settings = settings_for(ES_GOAL_CONSTRAINED);
    Pair pair;
    settings.skips_unary = 1; // loading passes nothing over a second time
    settings.n_envs = 37;
    open_pair(&pair, device, graph, &settings);
    size_t bytes = es_proof_env_saved_bytes(pair.here);
    void *saved;
    REQUIRE_OK(es_allocate(bytes, &saved));
    for (int i = 0; i < 4; i++) {
        EsProofEnv *from = i % 2 == 0 ? pair.there : pair.here;
        EsProofEnv *to = i % 2 == 0 ? pair.here : pair.there;
        REQUIRE_OK(es_proof_env_walk(from, 7, NULL));
        REQUIRE_OK(es_proof_env_save(from, saved));
        REQUIRE_OK(es_proof_env_load(to, "saved", saved, bytes));
        EXPECT(episodes_equal(&pair));
        EXPECT(saved_equal(&pair));
        walk_together(&pair, "on from a save", 37 * 4);
    }
    es_release(saved);
    close_pair(&pair);
    es_kg_destroy(graph);
    es_device_close(device);
}

// A step of any number of environments, and a walk of any number of steps: one launch, one wait.
TEST(a_step_costs_one_launch) {
    WITH_DEVICE(device)
    EsKnowledgeGraph *graph = make_village(60);
    for (int n_envs = 3; n_envs <= 300; n_envs *= 10) {
        EsProofEnvSettings settings = settings_for(ES_GOAL_CONSTRAINED);
        Pair pair;
        settings.n_envs = n_envs;
        open_pair(&pair, device, graph, &settings);
        EsDeviceCounters before = es_device_counters(device);
        REQUIRE_OK(es_proof_env_walk(pair.there, 5, NULL));
        EsDeviceCounters cost = es_device_counters_since(device, before);
        EXPECT_EQ(cost.n_launches, 1);
        EXPECT_EQ(cost.n_synchronizations, 1);
        EXPECT_EQ(cost.n_copies, 2);
        EXPECT_EQ(cost.n_allocations, 0);
        draw(&pair);
        es_proof_env_draw_actions(pair.there, pair.actions);
        before = es_device_counters(device);
        REQUIRE_OK(es_proof_env_step(pair.there, pair.actions));
        cost = es_device_counters_since(device, before);
        EXPECT_EQ(cost.n_launches, 1);
        EXPECT_EQ(cost.n_synchronizations, 1);
        EXPECT_EQ(cost.n_copies, 3);
        close_pair(&pair);
    }
    es_kg_destroy(graph);
    es_device_close(device);
}

TEST(actions_out_of_range_change_nothing) {
    WITH_DEVICE(device)
    EsKnowledgeGraph *graph = make_village(60);
    EsProofEnvSettings settings = settings_for(ES_GOAL_CONSTRAINED);
    Pair pair;
    settings.n_envs = 5;
    open_pair(&pair, device, graph, &settings);
    draw(&pair);
    pair.actions[3] = 1 << 20;
    EXPECT_STATUS(es_proof_env_step(pair.there, pair.actions), ARGUMENT);
    EXPECT(saved_equal(&pair));
    close_pair(&pair);
    es_kg_destroy(graph);
    es_device_close(device);
}
