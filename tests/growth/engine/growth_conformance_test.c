// Output of a slot, seen through whole hosts: h where the seed has no effect, s where it has taken
// over, and never a trace of a seed that is broken while it incubates.
#include "es_test.h"

#include "growth/growing_host.h"

enum { N = 6, STAGES = 7, SLOTS = 4 };

// Stages in which y = h, one per environment; all environments have the same host and batch.
static const struct {
    EsBlendMode mode;
    float alpha;
} idle[STAGES] = {{ES_BLEND_NONE, 0.0f},     {ES_BLEND_NONE, 0.7f}, {ES_BLEND_INCUBATE, 0.0f},
                  {ES_BLEND_INCUBATE, 0.6f}, {ES_BLEND_ADD, 0.0f},  {ES_BLEND_GATE, 0.0f},
                  {ES_BLEND_MULTIPLY, 0.0f}};
static const int32_t same_episode[STAGES] = {3, 3, 3, 3, 3, 3, 3};

// Slots 0..3 are r0c0, r0c1, r1c0, r1c1: two seeds, one before a pool and one after.
static EsTopology pair_topology(int blueprint, int number) {
    EsTopology topology = es_topology_empty();
    int first = number % 2 == 0 ? 0 : 1, second = number % 2 == 0 ? 3 : 2;
    topology.blueprint[first] = topology.blueprint[second] = (int8_t)blueprint;
    topology.has_gate[first] = topology.has_gate[second] = 1;
    return topology;
}

static void set_idle(Runner *r) {
    for (int s = 0; s < SLOTS; s++) {
        for (int e = 0; e < STAGES; e++) {
            r->mode[s][e] = (int32_t)idle[e].mode;
            r->alpha[s][e] = idle[e].alpha;
        }
    }
}

static void expect_equal_hosts(const Runner *grown, const Runner *bare, EsCompileMode mode) {
    for (int e = 0; e < STAGES; e++) {
        float a = runner_loss(grown, e), b = runner_loss(bare, e);
        // the engines may differ by the rounding of a few dozen operations, 6e-8 of 1 each
        if (!(mode == ES_COMPILE_OFF ? a == b : fabsf(a - b) <= 5e-6f)) {
            ES_TEST_FAIL("mode %d alpha %g: the loss is %.9g, without the seed %.9g",
                         (int)idle[e].mode, (double)idle[e].alpha, (double)a, (double)b);
        }
        EXPECT_EQ(runner_correct(grown, e), runner_correct(bare, e));
    }
}

static float *copy_gradients(const Ground *ground) {
    size_t bytes = es_tensor_bytes(&ground->store->gradients);
    float *copy = malloc(bytes);
    memcpy(copy, ground->store->gradients.data, bytes);
    return copy;
}

// The host's gradients, too, are those without the seed.
static void expect_equal_gradients(const Ground *ground, const float *grown, const float *bare,
                                   EsCompileMode mode) {
    int64_t stride = ground->store->gradients.stride[0];
    for (int e = 0; e < STAGES; e++) {
        for (int64_t k = 0; k < ground->model.layout.n_host_parameters; k++) {
            float a = grown[e * stride + k], b = bare[e * stride + k];
            if (!(mode == ES_COMPILE_OFF ? a == b : fabsf(a - b) <= 5e-6f)) {
                ES_TEST_FAIL("mode %d: gradient %lld is %.9g, without the seed %.9g",
                             (int)idle[e].mode, (long long)k, (double)a, (double)b);
                break;
            }
        }
    }
}

static void check_idle(int blueprint, int number, int is_training, EsCompileMode mode) {
    Ground ground;
    Runner grown, bare;
    EsTopology topology = pair_topology(blueprint, number), empty = es_topology_empty();
    ground_begin(&ground, "all", same_episode, STAGES);
    runner_begin(&grown, &ground, &topology, N, is_training, mode);
    runner_begin(&bare, &ground, &empty, N, is_training, mode);
    ground_initialise(&ground, grown.graph.graph);
    ground_open_paths(&ground, grown.graph.graph);
    set_idle(&grown);
    runner_run(&bare);
    float *without = copy_gradients(&ground);
    runner_run(&grown);
    float *with = copy_gradients(&ground);
    expect_equal_hosts(&grown, &bare, mode);
    if (is_training) {
        expect_equal_gradients(&ground, with, without, mode);
    }
    free(with);
    free(without);
    runner_end(&grown);
    runner_end(&bare);
    ground_end(&ground);
}

TEST(seeds_without_effect_leave_the_loss_plain_kernels) {
    for (int b = 1; b < ES_BLUEPRINT_COUNT; b++) {
        for (int i = 0; i < 4; i++) {
            check_idle(b, i, i / 2, ES_COMPILE_OFF);
        }
    }
}

TEST(seeds_without_effect_leave_the_loss_default) {
    for (int b = 1; b < ES_BLUEPRINT_COUNT; b++) {
        for (int i = 0; i < 4; i++) {
            check_idle(b, i, i / 2, ES_COMPILE_DEFAULT);
        }
    }
}

// Factors of attention near 0.05: h + (s - h) is then not s. Residual seeds are too near to h for
// the difference to be rounded.
static void shrink_factors(const Ground *ground, const EsGraph *graph) {
    for (EsValueId v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        int is_bias = strstr(value->name, ".excite.bias") != NULL;
        for (int64_t e = 0; is_bias && e < ground->model.n_envs; e++) {
            float *row = slab_row(&ground->store->parameters, e) + value->slab_offset;
            for (int64_t k = 0; k < es_value_count(value); k++) {
                row[k] -= 6.0f;
            }
        }
    }
}

// The same at the slot itself: y is h bit for bit, and s bit for bit for ADD at alpha 1 (and above:
// it is clamped), where s is not h.
TEST(slot_outputs_bit_for_bit) {
    for (int b = 1; b < ES_BLUEPRINT_COUNT; b++) {
        Ground ground;
        Runner r;
        EsTopology topology = pair_topology(b, b);
        ground_begin(&ground, "all", same_episode, STAGES);
        runner_begin(&r, &ground, &topology, N, 0, ES_COMPILE_OFF);
        ground_initialise(&ground, r.graph.graph);
        ground_open_paths(&ground, r.graph.graph);
        shrink_factors(&ground, r.graph.graph);
        for (int taken = 0; taken < 2; taken++) {
            set_idle(&r);
            for (int s = 0; s < SLOTS && taken; s++) {
                runner_set(&r, s, ES_BLEND_ADD, s < 2 ? 1.0f : 1.5f);
            }
            runner_run(&r);
            for (int i = 0; i < 2; i++) {
                const EsNode *blend = find_node(r.graph.graph, ES_OP_BLEND_FORWARD, i);
                EsTensor y = es_plan_tensor(r.plan, blend->output[0]);
                EsTensor h = es_plan_tensor(r.plan, blend->input[0]);
                EsTensor s = es_plan_tensor(r.plan, blend->input[1]);
                EXPECT(memcmp(y.data, taken ? s.data : h.data, es_tensor_bytes(&y)) == 0);
                EXPECT(memcmp(h.data, s.data, es_tensor_bytes(&y)) != 0);
            }
        }
        runner_end(&r);
        ground_end(&ground);
    }
}

// --- a seed that has taken over ---

typedef struct Insertion {
    const EsGrowthModel *model;
    const EsTopology *topology;
} Insertion;

// The seed in the place of the slot, with no slot around it.
static EsValueId insert_seed(void *context, EsGraph *graph, int block, int is_after_pool,
                             EsValueId h) {
    const Insertion *insertion = context;
    const EsGrowthModel *model = insertion->model;
    int s = es_slot_at(model->slots, model->n_slots, block, is_after_pool);
    if (insertion->topology->blueprint[s] == ES_NO_SEED) {
        return h;
    }
    int64_t next = es_graph_seek_parameters(graph, model->layout.seed[s]);
    EsValueId y = es_blueprint_build(graph, (EsBlueprint)insertion->topology->blueprint[s],
                                     model->slots[s].name, h);
    es_graph_seek_parameters(graph, next);
    return y;
}

// An evaluation graph of the host with seeds as ordinary layers, put together by hand.
static void build_inserted(const Ground *ground, const EsTopology *topology, EsGrowthGraph *out) {
    const EsDataset *dataset = &ground->dataset;
    const int64_t dims[] = {dataset->n_images, 1, dataset->height, dataset->width};
    Insertion insertion = {&ground->model, topology};
    EsGatherOptions gather = {.seed = GROUND_SEED};
    gather.mean[0] = dataset->mean[0];
    gather.inv_std[0] = 1.0f / dataset->std[0];
    memset(out, 0, sizeof *out);
    out->batch = N;
    for (int s = 0; s < ES_SLOTS_MAX; s++) {
        out->alpha[s] = out->mode[s] = ES_NO_VALUE;
    }
    REQUIRE_OK(es_graph_create(ground->model.n_envs, &out->graph));
    EsGraph *graph = out->graph;
    out->images = es_graph_shared_input(graph, "data set", ES_DTYPE_U8, 4, dims);
    out->labels = es_graph_shared_input(graph, "data labels", ES_DTYPE_U16, 1, dims);
    out->episode = es_graph_input(graph, "episode", ES_DTYPE_I32, 0, NULL);
    out->step = es_graph_shared_input(graph, "step", ES_DTYPE_I32, 1, (int64_t[]){1});
    out->index = es_graph_input(graph, "index", ES_DTYPE_I32, 1, (int64_t[]){N});
    EsValueId images =
        es_graph_gather_images(graph, gather, out->images, out->index, out->episode, out->step);
    EsValueId logits =
        es_host_build_with(graph, &ground->model.host, images, 0, insert_seed, &insertion);
    out->loss = es_graph_cross_entropy(graph, logits,
                                       es_graph_gather_labels(graph, out->labels, out->index));
    REQUIRE_OK(es_graph_status(graph));
}

static void check_taken_over(int blueprint, int number, EsCompileMode mode) {
    Ground ground;
    Runner grown, inserted, bare;
    EsTopology topology = pair_topology(blueprint, number), empty = es_topology_empty();
    ground_begin(&ground, "all", (int32_t[]){0, 1}, 2);
    runner_begin(&grown, &ground, &topology, N, 0, mode);
    runner_begin(&bare, &ground, &empty, N, 0, mode);
    ground_initialise(&ground, grown.graph.graph);
    ground_open_paths(&ground, grown.graph.graph);
    memset(&inserted, 0, sizeof inserted);
    build_inserted(&ground, &topology, &inserted.graph);
    runner_plan(&inserted, &ground, mode);
    memcpy(inserted.index, grown.index, sizeof grown.index);
    for (int s = 0; s < SLOTS; s++) {
        runner_set(&grown, s, ES_BLEND_ADD, 1.0f);
    }
    runner_run(&grown);
    runner_run(&inserted);
    runner_run(&bare);
    for (int e = 0; e < 2; e++) {
        float a = runner_loss(&grown, e), b = runner_loss(&inserted, e);
        if (!(mode == ES_COMPILE_OFF ? a == b : fabsf(a - b) <= 5e-6f)) {
            ES_TEST_FAIL("%s env %d: the loss at alpha 1 is %.9g, with the seed as a layer %.9g",
                         es_blueprint_name((EsBlueprint)blueprint), e, (double)a, (double)b);
        }
        EXPECT_EQ(runner_correct(&grown, e), runner_correct(&inserted, e));
        EXPECT(fabsf(a - runner_loss(&bare, e)) > 1e-4f); // the seeds do something
    }
    runner_end(&grown);
    runner_end(&inserted);
    runner_end(&bare);
    ground_end(&ground);
}

TEST(seeds_at_alpha_1_are_layers_of_the_host) {
    for (int b = 1; b < ES_BLUEPRINT_COUNT; b++) {
        for (int number = 0; number < 2; number++) {
            check_taken_over(b, number, ES_COMPILE_OFF);
            check_taken_over(b, number, ES_COMPILE_DEFAULT);
        }
    }
}

// --- a broken seed ---

// Weights of NaN in a seed that incubates, or is not there: the host neither sees nor learns them.
TEST(a_broken_seed_without_effect_is_not_seen) {
    for (int compiled = 0; compiled < 2; compiled++) {
        EsCompileMode mode = compiled ? ES_COMPILE_DEFAULT : ES_COMPILE_OFF;
        for (int b = 1; b < ES_BLUEPRINT_COUNT; b++) {
            Ground ground;
            Runner grown, bare;
            EsTopology topology = pair_topology(b, b), empty = es_topology_empty();
            ground_begin(&ground, "all", same_episode, STAGES);
            runner_begin(&grown, &ground, &topology, N, 1, mode);
            runner_begin(&bare, &ground, &empty, N, 1, mode);
            ground_initialise(&ground, grown.graph.graph);
            for (int e = 0; e < STAGES; e++) {
                float *row = slab_row(&ground.store->parameters, e);
                for (int64_t k = ground.model.layout.n_host_parameters;
                     k < ground.model.layout.n_parameters; k++) {
                    row[k] = NAN;
                }
            }
            set_idle(&grown);
            for (int s = 0; s < SLOTS; s++) { // alpha 0 of a mixing mode never meets NaN in growth
                for (int e = 4; e < STAGES; e++) {
                    grown.mode[s][e] = ES_BLEND_INCUBATE;
                }
            }
            runner_run(&bare);
            float *without = copy_gradients(&ground);
            runner_run(&grown);
            float *with = copy_gradients(&ground);
            expect_equal_hosts(&grown, &bare, mode);
            expect_equal_gradients(&ground, with, without, mode);
            free(with);
            free(without);
            runner_end(&grown);
            runner_end(&bare);
            ground_end(&ground);
        }
    }
}
