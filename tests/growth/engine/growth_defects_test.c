// Defects of the original that show only where weights are trained; each test would fail there. The
// list is in docs/testing.md.
#include "es_test.h"

#include "growth/growing_case.h"

static EsDataset dataset;

static EsGrowth *begin(const EsGrowthOptions *options) {
    if (dataset.images == NULL) {
        make_small_dataset(&dataset, 64, 40);
    }
    EsGrowth *growth = create_growth(options, &dataset, 1);
    REQUIRE_OK(es_growth_reset(growth, 0));
    return growth;
}

static uint64_t hash_part(const EsTensor *slab, int64_t first, int64_t end) {
    return hash_bytes(slab_row(slab, 0) + first, (size_t)(end - first) * sizeof(float), 1);
}

static uint64_t hash_gate(const EsGrowth *growth, int slot) {
    const EsGrowthLayout *layout = &growth->model.layout;
    return hash_part(&growth->store->parameters, layout->region[slot], layout->seed[slot]);
}

static uint64_t hash_seed(const EsGrowth *growth, int slot) {
    const EsGrowthLayout *layout = &growth->model.layout;
    return hash_part(&growth->store->parameters, layout->seed[slot], layout->region_end[slot]);
}

// --- seeds ---

// Original: once the last convolution is not 0 a norm blows the branch up to variance 1. Here a
// step that moves parameters by 1e-3 moves the output by about that times a normalised value.
TEST(the_first_step_is_gentle) {
    static const int blueprints[] = {ES_BLUEPRINT_CONV_LIGHT, ES_BLUEPRINT_NORM,
                                     ES_BLUEPRINT_DEPTHWISE,  ES_BLUEPRINT_BOTTLENECK,
                                     ES_BLUEPRINT_CONV_SMALL, ES_BLUEPRINT_CONV_HEAVY};
    for (size_t b = 0; b < ES_COUNT_OF(blueprints); b++) {
        Ground ground;
        Runner r;
        EsTopology topology = es_topology_empty();
        topology.blueprint[0] = (int8_t)blueprints[b];
        ground_begin(&ground, "r0c1", (int32_t[]){0}, 1);
        runner_begin(&r, &ground, &topology, 6, 1, ES_COMPILE_OFF);
        ground_initialise(&ground, r.graph.graph);
        runner_set(&r, 0, ES_BLEND_INCUBATE, 0.0f);
        runner_run(&r);
        float *p = slab_row(&ground.store->parameters, 0), largest = 0, change = 0;
        const float *g = slab_row(&ground.store->gradients, 0);
        const EsGrowthLayout *layout = &ground.model.layout;
        for (int64_t k = layout->seed[0]; k < layout->region_end[0]; k++) {
            largest = fmaxf(largest, fabsf(g[k]));
        }
        for (int64_t k = layout->seed[0]; k < layout->region_end[0]; k++) {
            p[k] -= 1e-3f / largest * g[k];
        }
        runner_run(&r);
        const EsNode *blend = find_node(r.graph.graph, ES_OP_BLEND_FORWARD, 0);
        EsTensor h = es_plan_tensor(r.plan, blend->input[0]);
        const float *s = es_plan_tensor(r.plan, blend->input[1]).data;
        for (int64_t k = 0; k < es_tensor_count(&h); k++) {
            change = fmaxf(change, fabsf(s[k] - ((const float *)h.data)[k]));
        }
        EXPECT(change > 0.0f && change < 0.02f);
        runner_end(&r);
        ground_end(&ground);
    }
}

// Original: up to 8 channels a group is one channel, which has nothing to say about one pixel.
TEST(a_map_of_one_pixel_is_not_normalised_to_nothing) {
    enum { N = 2, C = 4 };
    EsDevice *device = NULL;
    EsStream *stream = NULL;
    EsGraph *graph = NULL;
    EsStore *store = NULL;
    EsPlan *plan = NULL;
    float image[N * C];
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &device));
    REQUIRE_OK(es_stream_create(device, &stream));
    REQUIRE_OK(es_graph_create(1, &graph));
    EsValueId x = es_graph_input(graph, "x", ES_DTYPE_F32, 4, (int64_t[]){N, C, 1, 1});
    EsValueId s = es_blueprint_build(graph, ES_BLUEPRINT_CONV_SMALL, "seed", x);
    es_graph_keep(graph, s);
    REQUIRE_OK(es_store_create(graph, device, &store));
    REQUIRE_OK(es_store_initialise(store, graph, stream, 1, (int32_t[]){0}));
    EsTensor gamma = es_store_tensor(store, graph, es_graph_find(graph, "seed.norm.gamma"));
    for (int k = 0; k < N * C; k++) {
        image[k] = small_draw((uint32_t)k);
        ((float *)gamma.data)[k % C] = 1.0f;
    }
    EsPlanOptions options = es_plan_defaults();
    EsTensor tensor = es_tensor_view(image, ES_DTYPE_F32, device, 5, (int64_t[]){1, N, C, 1, 1});
    REQUIRE_OK(es_plan_create(graph, store, &options, &plan));
    REQUIRE_OK(es_plan_bind(plan, x, &tensor));
    REQUIRE_OK(es_plan_run(plan, stream));
    const float *y = es_plan_tensor(plan, s).data;
    for (int n = 0; n < N; n++) { // the branch of an image: mean 0, variance 1 over its channels
        double squares = 0;
        for (int k = n * C; k < (n + 1) * C; k++) {
            squares += pow((double)y[k] - (double)image[k], 2) / C;
        }
        EXPECT_NEAR(squares, 1, 1e-2); // epsilon takes a little
    }
    es_plan_destroy(plan);
    es_store_destroy(store);
    es_graph_destroy(graph);
    es_stream_destroy(stream);
    es_device_close(device);
}

// Original: the gate network is not in the optimiser before the seed is a fossil, and its gradients
// add up from batch to batch.
TEST(a_gate_learns_while_it_blends) {
    EsGrowthOptions options = small_options("r0c1", 1);
    options.settings.tempo[2] = 4;
    EsGrowth *growth = begin(&options);
    const EsGrowthLayout *layout = &growth->model.layout;
    EsAction action = germinate(0, ES_BLUEPRINT_CONV_SMALL, ES_STYLE_GATED_GATE);
    action.head[ES_HEAD_TEMPO] = 2;
    step_all(growth, action);
    uint64_t born = hash_gate(growth, 0);
    wait_for_stage(growth, 0, ES_STAGE_BLENDING); // has trained one step of it
    uint64_t blending = hash_gate(growth, 0);
    EXPECT(blending != born);
    wait_for_stage(growth, 0, ES_STAGE_HOLDING);
    EXPECT(hash_gate(growth, 0) != blending);
    EXPECT(growth->shown.state.env.n_fossils[0] == 0);
    // the same batch again gives the same gradients
    growth->options.host_learning_rate = growth->options.seed_learning_rate = 0.0f;
    REQUIRE_OK(es_growth_train(growth));
    uint64_t once = hash_part(&growth->store->gradients, layout->region[0], layout->seed[0]);
    REQUIRE_OK(es_growth_train(growth));
    EXPECT(hash_part(&growth->store->gradients, layout->region[0], layout->seed[0]) == once);
    destroy_growth(growth);
}

// The gate is not asked in TRAINING: a seed with one is as healthy there as the same seed without.
TEST(an_idle_gate_is_not_sick) {
    for (int b = 1; b < ES_BLUEPRINT_COUNT; b++) {
        EsGrowthOptions options = small_options("r0c1", 1);
        options.settings.training_dwell = 100;
        options.mode = ES_COMPILE_OFF; // bits do not depend on what else is in the graph
        EsGrowth *plain = begin(&options), *gated = begin(&options);
        step_all(plain, germinate(0, b, ES_STYLE_LINEAR_ADD));
        step_all(gated, germinate(0, b, ES_STYLE_GATED_GATE));
        for (int step = 0; step < 3; step++) {
            const EsSeed a = es_seed_load(&plain->shown.state.seed, 0);
            const EsSeed g = es_seed_load(&gated->shown.state.seed, 0);
            EXPECT_EQ(g.stage, ES_STAGE_TRAINING);
            EXPECT(g.gradient_health >= 0 && g.gradient_health == a.gradient_health);
            EXPECT_EQ(g.n_vanishing, a.n_vanishing);
            EXPECT(g.gradient_norm == a.gradient_norm && g.gradient_ratio == a.gradient_ratio);
            step_all(plain, es_action_wait());
            step_all(gated, es_action_wait());
        }
        destroy_growth(plain);
        destroy_growth(gated);
    }
}

// Original: the step that enters BLENDING trains with alpha 0, without any gradient.
TEST(a_seed_learns_in_every_step) {
    EsGrowthOptions options = small_options("r0c1", 1);
    EsGrowth *growth = begin(&options);
    step_all(growth, germinate(0, ES_BLUEPRINT_CONV_LIGHT, ES_STYLE_LINEAR_ADD));
    uint64_t last = hash_seed(growth, 0);
    int n_stages = 0;
    for (int i = 0; i < 8; i++) {
        int stage = stage_of(growth, 0, 0);
        step_all(growth, es_action_wait());
        EXPECT(hash_seed(growth, 0) != last);
        EXPECT(growth->shown.state.seed.gradient_norm[0] > 1e-7f);
        last = hash_seed(growth, 0);
        n_stages += stage != stage_of(growth, 0, 0);
    }
    EXPECT_EQ(n_stages, 2);
    EXPECT_EQ(stage_of(growth, 0, 0), ES_STAGE_HOLDING);
    destroy_growth(growth);
}

// Original: run by hand (its heuristic), gradients are never looked at and nothing is ablated, so a
// seed leaves neither TRAINING nor HOLDING.
TEST(a_seed_becomes_a_fossil_by_hand) {
    EsGrowthOptions options = small_options("r1c0", 1);
    options.settings.auto_forward = 0;
    EsGrowth *growth = begin(&options);
    step_all(growth, germinate(0, ES_BLUEPRINT_CONV_LIGHT, ES_STYLE_LINEAR_MULTIPLY));
    for (int i = 0; i < 12 && stage_of(growth, 0, 0) != ES_STAGE_HOLDING; i++) {
        step_all(growth, act(ES_GROWTH_OP_ADVANCE, 0));
    }
    step_all(growth, act(ES_GROWTH_OP_FOSSILIZE, 0));
    EXPECT_EQ(stage_of(growth, 0, 0), ES_STAGE_FOSSILIZED);
    destroy_growth(growth);
}

// Original: the freeze of a seed on its way out lifts one step late.
TEST(a_seed_on_its_way_out_is_frozen_and_no_longer) {
    EsGrowthOptions options = small_options("r0c0", 1);
    EsGrowth *growth = begin(&options);
    const EsGrowthLayout *layout = &growth->model.layout;
    step_all(growth, germinate(0, ES_BLUEPRINT_CONV_LIGHT, ES_STYLE_LINEAR_ADD));
    wait_for_stage(growth, 0, ES_STAGE_HOLDING);
    EsAction down = act(ES_GROWTH_OP_SET_ALPHA_TARGET, 0);
    down.head[ES_HEAD_STYLE] = ES_STYLE_LINEAR_ADD;
    down.head[ES_HEAD_ALPHA_TARGET] = 0; // one half
    down.head[ES_HEAD_ALPHA_SPEED] = 1;  // three ticks
    uint64_t weights = hash_seed(growth, 0);
    uint64_t momentum = hash_part(&growth->momentum, layout->region[0], layout->region_end[0]);
    step_all(growth, down);
    for (int tick = 1; tick <= 3; tick++) {
        int is_frozen = growth->shown.state.seed.alpha_mode[0] == ES_ALPHA_DOWN;
        EXPECT_EQ(is_frozen, tick < 3);
        EXPECT((hash_seed(growth, 0) == weights) == is_frozen);
        EXPECT((hash_part(&growth->momentum, layout->region[0], layout->region_end[0]) ==
                momentum) == is_frozen);
        if (tick < 3) {
            step_all(growth, es_action_wait());
        }
    }
    EXPECT_NEAR(growth->shown.state.seed.alpha[0], 0.5, 0);
    destroy_growth(growth);
}

// --- steps ---

// Original: every environment validates on a share of its own, and the test split is the signal.
TEST(all_validate_on_the_same_images_and_none_on_the_test_split) {
    EsGrowthOptions options = small_options("r0c0", 3);
    options.host_learning_rate = 0.0f;
    EsGrowth *growth = begin(&options);
    for (int64_t e = 1; e < 3; e++) { // one host three times
        memcpy(slab_row(&growth->store->parameters, e), slab_row(&growth->store->parameters, 0),
               (size_t)growth->store->parameters.dim[1] * sizeof(float));
        memcpy(slab_row(&growth->store->states, e), slab_row(&growth->store->states, 0),
               (size_t)growth->store->states.dim[1] * sizeof(float));
    }
    REQUIRE_OK(es_growth_validate(growth));
    for (int64_t e = 1; e < 3; e++) {
        EXPECT(growth->results[e].validation_loss == growth->results[0].validation_loss);
    }
    destroy_growth(growth);

    // 10 of the validation images become a test split that nobody could read unnoticed
    EsDataset shorter = dataset;
    size_t labels_bytes = (size_t)dataset.n_images * sizeof *dataset.labels;
    shorter.labels = malloc(labels_bytes);
    memcpy(shorter.labels, dataset.labels, labels_bytes);
    shorter.train.labels = shorter.labels;
    shorter.validation.labels = shorter.labels + shorter.train.count;
    shorter.validation.count = 30;
    memset(shorter.validation.labels + 30, 255, 10 * sizeof *shorter.labels);
    options = small_options("r0c0", 2);
    options.n_validation_images = 30;
    growth = create_growth(&options, &shorter, 1);
    REQUIRE_OK(es_growth_reset(growth, 0));
    for (int step = 0; step < 12; step++) { // several passes over the training images
        step_all(growth, es_action_wait());
    }
    destroy_growth(growth);
    free(shorter.labels);
}

// Original: a validation may create parts of a seed. Here it leaves no trace.
TEST(validation_changes_nothing) {
    EsGrowthOptions options = small_options("r0c0,r1c1", 2);
    EsGrowth *growth = begin(&options);
    step_all(growth, germinate(1, ES_BLUEPRINT_NORM, ES_STYLE_GATED_GATE));
    for (int step = 0; step < 8; step++) {
        uint64_t before[2] = {hash_env(growth, 0), hash_env(growth, 1)};
        REQUIRE_OK(es_growth_validate(growth));
        for (int e = 0; e < 2; e++) {
            EXPECT(hash_env(growth, e) == before[e]);
        }
        step_all(growth, es_action_wait());
    }
    destroy_growth(growth);
}

// The clip bounds host and seed each by its own norm: one step of plain SGD is no longer than rate
// times clip, and exactly that long where the gradient is longer.
TEST(host_and_seed_are_clipped_apart) {
    EsGrowthOptions options = small_options("r0c1", 1);
    options.clip = 1e-3f;
    options.recipe.momentum = options.recipe.weight_decay = 0.0f;
    options.host_learning_rate = 1.0f;
    options.seed_learning_rate = 2.0f;
    EsGrowth *growth = begin(&options);
    const EsGrowthLayout *layout = &growth->model.layout;
    step_all(growth, germinate(0, ES_BLUEPRINT_CONV_LIGHT, ES_STYLE_LINEAR_ADD));
    int64_t n = layout->n_parameters;
    double host = 0, seed = 0;
    float *before = malloc((size_t)n * sizeof(float));
    const float *row = slab_row(&growth->store->parameters, 0);
    memcpy(before, row, (size_t)n * sizeof(float));
    REQUIRE_OK(es_growth_train(growth));
    for (int64_t k = 0; k < n; k++) {
        double d = (double)row[k] - (double)before[k];
        *(k < layout->n_host_parameters ? &host : &seed) += d * d;
    }
    EXPECT(growth->results[0].host_gradient_norm > 1e-2); // far above the clip
    EXPECT(growth->shown.state.seed.gradient_norm[0] > 1e-2f);
    // weights of size 1 are rounded to 6e-8; 600 of them leave 1.5e-6
    EXPECT_NEAR(sqrt(host), 1e-3, 1e-5);
    EXPECT_NEAR(sqrt(seed), 2e-3, 1e-5);
    free(before);
    destroy_growth(growth);
}

// Original: a rollback in mid-episode is forgotten by the next healthy step.
TEST(a_rollback_is_not_forgotten) {
    EsGrowthOptions options = small_options("r0c0", 1);
    EsGrowth *growth = begin(&options);
    step_all(growth, germinate(0, ES_BLUEPRINT_NORM, ES_STYLE_LINEAR_ADD));
    slab_row(&growth->store->parameters, 0)[0] = NAN;
    step_all(growth, es_action_wait());
    for (int step = 0; step < 6; step++) {
        step_all(growth, es_action_wait());
        EXPECT_EQ(growth->shown.state.env.n_rollbacks[0], 1);
        EXPECT_EQ(growth->shown.state.env.n_unrewarded_prunes[0], 1);
        EXPECT_EQ(growth->shown.state.env.panic[0], ES_PANIC_NONE);
    }
    destroy_growth(growth);
}
