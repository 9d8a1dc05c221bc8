// Validation with ablations against one evaluation after the other: each pattern in a graph of its
// own, one environment, seeds switched off by their mode instead of left out.
#include "es_test.h"

#include "growth/growing_case.h"

enum { IMAGES = 40, SLOTS = 4 };

// One environment's weights in a store of its own.
typedef struct Lone {
    Ground ground;
    Runner runner;
} Lone;

static void lone_begin(Lone *lone, const EsGrowth *growth, int64_t env, EsCompileMode mode) {
    const EsGrowthState *state = &es_growth_snapshot(growth)->state;
    EsTopology topology = es_topology_empty();
    ground_begin(&lone->ground, "all", (int32_t[]){0}, 1);
    EXPECT_EQ(lone->ground.model.n_slots, state->n_slots);
    for (int s = 0; s < state->n_slots; s++) {
        size_t i = (size_t)(env * state->n_slots + s);
        if (es_stage_in(state->seed.stage[i], ES_STAGES_LIVING)) {
            topology.blueprint[s] = (int8_t)state->seed.blueprint[i];
            topology.has_gate[s] = state->seed.algorithm[i] == ES_ALGORITHM_GATE;
        }
    }
    runner_begin(&lone->runner, &lone->ground, &topology, IMAGES, 0, mode);
    const EsStore *from = growth->store, *to = lone->ground.store;
    EXPECT_EQ(from->parameters.dim[1], to->parameters.dim[1]);
    memcpy(to->parameters.data, slab_row(&from->parameters, env), es_tensor_bytes(&to->parameters));
    memcpy(to->states.data, slab_row(&from->states, env), es_tensor_bytes(&to->states));
}

static void lone_end(Lone *lone) {
    runner_end(&lone->runner);
    ground_end(&lone->ground);
}

// The environment as it is, but for the slots in `off`. Modes come from the stage table of the
// specification.
static void lone_run(Lone *lone, const EsGrowth *growth, int64_t env, int32_t off) {
    const EsGrowthState *state = &es_growth_snapshot(growth)->state;
    for (int s = 0; s < state->n_slots; s++) {
        size_t i = (size_t)(env * state->n_slots + s);
        int stage = state->seed.stage[i], algorithm = state->seed.algorithm[i];
        EsBlendMode mode = ES_BLEND_NONE;
        if (stage == ES_STAGE_TRAINING) {
            mode = ES_BLEND_INCUBATE;
        } else if (stage == ES_STAGE_BLENDING || stage == ES_STAGE_HOLDING ||
                   stage == ES_STAGE_FOSSILIZED) {
            mode = algorithm == ES_ALGORITHM_ADD        ? ES_BLEND_ADD
                   : algorithm == ES_ALGORITHM_MULTIPLY ? ES_BLEND_MULTIPLY
                                                        : ES_BLEND_GATE;
        }
        int is_off = off >> s & 1;
        runner_set(&lone->runner, s, is_off ? ES_BLEND_NONE : mode, state->seed.alpha[i]);
    }
    runner_run(&lone->runner);
}

static const EsGrowthTrial *find_trial(const EsGrowth *growth, int64_t env, int32_t pattern) {
    const EsGrowthTrial *found = NULL;
    for (int i = 0; i < growth->n_trials; i++) {
        if (growth->trials[i].env == env && growth->trials[i].pattern == pattern) {
            EXPECT(found == NULL); // once
            found = &growth->trials[i];
        }
    }
    return found;
}

// Checks the patterns against counts of our own: f[off], off a set of positions in the list.
static void check_attribution(const EsGrowth *growth, int64_t env, const EsAblation *list,
                              const double *f, const EsSeed *previous) {
    const EsGrowthState *state = &es_growth_snapshot(growth)->state;
    for (int i = 0; i < list->n; i++) {
        size_t at = (size_t)(env * state->n_slots + list->slot[i]);
        const EsSeed *old = &previous[list->slot[i]];
        double contribution = f[0] - f[1 << i], velocity = 0, sum = 0, boost = 0;
        EXPECT_NEAR(state->seed.contribution[at], contribution, 1e-4);
        EXPECT_EQ(state->seed.contribution_age[at], 0);
        if (old->contribution_age >= 0 && old->number == state->seed.number[at]) {
            velocity = 0.7 * (double)old->contribution_velocity +
                       0.3 * (contribution - (double)old->contribution);
        }
        EXPECT_NEAR(state->seed.contribution_velocity[at], velocity, 1e-4);
        for (int j = 0; j < list->n; j++) {
            int all = (1 << list->n) - 1, pair = 1 << i | 1 << j;
            if (j != i) {
                double value = f[all & ~pair] - f[all & ~(1 << i)] - f[all & ~(1 << j)] + f[all];
                sum += value;
                boost = fmax(boost, value);
            }
        }
        EXPECT_NEAR(state->seed.interaction_sum[at], sum, 1e-4);
        EXPECT_NEAR(state->seed.boost_received[at], boost, 1e-4);
    }
    float measured[16];
    double phi[4], total = 0;
    for (int k = 0; k < 1 << list->n; k++) {
        measured[k] = (float)f[k];
    }
    es_shapley_exact(list->n, measured, phi);
    for (int i = 0; i < list->n; i++) {
        total += phi[i];
    }
    EXPECT_NEAR(total, list->n > 0 ? f[0] - f[(1 << list->n) - 1] : 0, 1e-4);
    EXPECT_NEAR(state->env.committed_accuracy[env], f[(1 << list->n) - 1], 1e-4);
}

// All patterns of one environment at this decision. Returns the number of ablatable seeds.
static int check_environment(const EsGrowth *growth, int64_t env, EsCompileMode mode,
                             const EsSeed *previous) {
    const EsAblation *list = &growth->ablations[env];
    double f[16];
    EXPECT(list->n <= 4);
    Lone lone;
    lone_begin(&lone, growth, env, mode);
    int32_t n_patterns = 1 << list->n, seen = 0;
    for (int32_t k = 0; k < n_patterns; k++) {
        const EsGrowthTrial *trial = find_trial(growth, env, k);
        int32_t off = 0;
        for (int i = 0; i < list->n; i++) {
            off |= (k >> i & 1) << list->slot[i];
        }
        EXPECT_EQ(trial->slots_off, off);
        EXPECT(!(seen >> k & 1));
        seen |= 1 << k;
        lone_run(&lone, growth, env, off);
        EXPECT_NEAR(trial->loss / IMAGES, runner_loss(&lone.runner, 0), 1e-6);
        EXPECT_EQ(trial->n_correct, runner_correct(&lone.runner, 0));
        f[k] = 100.0 * runner_correct(&lone.runner, 0) / IMAGES;
        EXPECT_NEAR(es_growth_ablation_accuracy(growth)[env * ES_ABLATION_PATTERNS_MAX + k], f[k],
                    1e-5);
        if (k == 0) {
            EXPECT_NEAR(es_growth_results(growth)[env].validation_loss,
                        runner_loss(&lone.runner, 0), 1e-6);
        }
    }
    EXPECT(find_trial(growth, env, n_patterns) == NULL); // distinct ones alone
    check_attribution(growth, env, list, f, previous);
    lone_end(&lone);
    return list->n;
}

// Loss of samples with one seed's share set to 0; none: -1.
static double loss_without(EsGrowth *growth, const EsSplit *samples, int64_t env, int slot) {
    double loss[8], accuracy[8];
    float *alpha = growth->shown.state.seed.alpha + env * SLOTS + ES_MAX(slot, 0);
    float kept = *alpha;
    *alpha = slot < 0 ? kept : 0;
    REQUIRE_OK(es_growth_evaluate(growth, samples, loss, accuracy));
    *alpha = kept;
    return loss[env];
}

// Shares of samples in the middle of the training set. Returns the hosts that have any.
static int check_shares(EsGrowth *growth) {
    enum { FIRST = 7, COUNT = 33, E = 6 };
    const EsDataset *dataset = growth->model.dataset;
    double weights[E * SLOTS];
    int n_with = 0;
    EsSplit samples = {.images = dataset->train.images + FIRST * dataset->image_bytes,
                       .labels = dataset->train.labels + FIRST,
                       .count = COUNT};
    REQUIRE_OK(es_growth_attribute_batch(growth, FIRST, COUNT, weights));
    for (int e = 0; e < E; e++) {
        double gain[SLOTS], sum = 0, loss = loss_without(growth, &samples, e, -1);
        for (int s = 0; s < SLOTS; s++) {
            gain[s] = fmax(0, loss_without(growth, &samples, e, s) - loss);
            sum += gain[s];
        }
        for (int s = 0; s < SLOTS; s++) {
            EXPECT_NEAR(weights[e * SLOTS + s], sum > 0 ? gain[s] / sum : 0, 1e-6);
        }
        n_with += sum > 0;
    }
    return n_with;
}

static void check_growth(EsCompileMode mode) {
    enum { E = 6, STEPS = 24 };
    EsDataset dataset;
    int n_by_count[5] = {0}, n_boosted = 0, n_worth = 0, n_fossils = 0, n_shared = 0;
    make_small_dataset(&dataset, 64, IMAGES);
    EsGrowthOptions options = small_options("all", E);
    options.settings.episode_steps = STEPS;
    options.settings.training_dwell = 1;
    options.seed_learning_rate = options.host_learning_rate = 0.1f; // so that seeds soon matter
    options.step_batches = 4;
    options.mode = mode;
    EsGrowth *growth = create_growth(&options, &dataset, 2);
    REQUIRE_OK(es_growth_reset(growth, 0));
    while (!es_growth_is_over(growth)) {
        EsAction actions[E];
        EsSeed previous[E][SLOTS];
        int step = es_growth_snapshot(growth)->state.env.step[0];
        for (int e = 0; e < E; e++) {
            actions[e] = es_action_wait();
            for (int s = 0; s < SLOTS; s++) {
                previous[e][s] =
                    es_seed_load(&growth->shown.state.seed, (size_t)e * SLOTS + (size_t)s);
            }
            if (step % 4 == 1) { // one slot after the other, everything everywhere
                actions[e] = germinate((step / 4 + e) % SLOTS, 1 + (step + 2 * e) % 7,
                                       (step / 4 + e) % ES_N_STYLES);
                actions[e].head[ES_HEAD_ALPHA_TARGET] = (int8_t)(e % 3);
            } else if (step == 20 && e == 2) {
                actions[e] = act(ES_GROWTH_OP_FOSSILIZE, 2);
            }
        }
        REQUIRE_OK(es_growth_step(growth, actions));
        for (int e = 0; e < E && !es_growth_is_over(growth); e++) {
            int n = check_environment(growth, e, mode, previous[e]);
            n_by_count[n]++;
            n_boosted += growth->shown.state.seed.boost_received[e * SLOTS] > 0;
            n_worth += n > 0 && growth->accuracy[e * ES_ABLATION_PATTERNS_MAX] !=
                                    growth->accuracy[e * ES_ABLATION_PATTERNS_MAX + 1];
        }
        n_shared += es_growth_is_over(growth) ? 0 : check_shares(growth);
    }
    for (int e = 0; e < E; e++) {
        n_fossils += growth->shown.state.env.n_fossils[e];
    }
    // it was not for nothing
    for (int n = 0; n <= 4; n++) {
        EXPECT(n_by_count[n] > 0);
    }
    EXPECT(n_boosted > 0 && n_worth > 0 && n_fossils == 1 && n_shared > 0);
    destroy_growth(growth);
    destroy_small_dataset(&dataset);
}

TEST(ablations_equal_one_by_one_evaluation_plain_kernels) { check_growth(ES_COMPILE_OFF); }

TEST(samples_out_of_range_have_no_shares) {
    EsDataset dataset;
    double weights[SLOTS];
    make_small_dataset(&dataset, 64, IMAGES);
    EsGrowthOptions options = small_options("all", 1);
    EsGrowth *growth = create_growth(&options, &dataset, 1);
    REQUIRE_OK(es_growth_reset(growth, 0));
    EXPECT_STATUS(es_growth_attribute_batch(growth, 60, 5, weights), ARGUMENT);
    EXPECT_STATUS(es_growth_attribute_batch(growth, -1, 5, weights), ARGUMENT);
    EXPECT_STATUS(es_growth_attribute_batch(growth, 0, 0, weights), ARGUMENT);
    REQUIRE_OK(es_growth_attribute_batch(growth, 59, 5, weights));
    EXPECT(weights[0] == 0 && weights[SLOTS - 1] == 0); // there is no seed
    destroy_growth(growth);
    destroy_small_dataset(&dataset);
}

TEST(ablations_equal_one_by_one_evaluation_default) { check_growth(ES_COMPILE_DEFAULT); }

// 300 images are a whole batch of 250 and a rest of 50: each image counts once and alike.
TEST(the_rest_of_the_images_weighs_by_its_size) {
    EsDataset dataset;
    make_small_dataset(&dataset, 64, 300);
    EsGrowthOptions options = small_options("r0c0", 1);
    options.n_validation_images = 300;
    // the host stays the one that reset makes
    options.host_learning_rate = options.seed_learning_rate = 0.0f;
    EsGrowth *growth = create_growth(&options, &dataset, 1);
    REQUIRE_OK(es_growth_reset(growth, 0));
    step_all(growth, es_action_wait());
    double loss = 0, parts[2] = {0, 0};
    int64_t n_correct = 0;
    EsGrowthModel model = growth->model;
    EsGrowthGraph graph;
    EsTopology empty = es_topology_empty();
    REQUIRE_OK(es_growth_graph_create(&model, &empty, 50, 0, &graph));
    EsPlan *plan = NULL;
    EsPlanOptions plan_options = es_plan_defaults();
    REQUIRE_OK(es_plan_create(graph.graph, growth->store, &plan_options, &plan));
    int32_t index[50], step = 0;
    const struct {
        EsValueId value;
        void *data;
    } inputs[] = {{graph.images, dataset.images},
                  {graph.labels, dataset.labels},
                  {graph.episode, growth->episode.data},
                  {graph.step, &step},
                  {graph.index, index}};
    for (size_t i = 0; i < ES_COUNT_OF(inputs); i++) {
        const EsValue *value = &graph.graph->values[inputs[i].value];
        EsTensor tensor =
            es_tensor_view(inputs[i].data, value->dtype, growth->device, value->rank, value->dim);
        REQUIRE_OK(es_plan_bind(plan, inputs[i].value, &tensor));
    }
    for (int part = 0; part < 6; part++) {
        for (int i = 0; i < 50; i++) {
            index[i] = 64 + 50 * part + i;
        }
        REQUIRE_OK(es_plan_run(plan, growth->stream));
        double mean = (double)*(float *)es_plan_tensor(plan, graph.loss.loss).data;
        n_correct += *(int32_t *)es_plan_tensor(plan, graph.loss.n_correct).data;
        loss += mean / 6;
        parts[part == 5] += mean / (part == 5 ? 1 : 5);
    }
    EXPECT_NEAR(growth->results[0].validation_loss, loss, 1e-6);
    EXPECT_NEAR(growth->results[0].validation_accuracy, 100.0 * (double)n_correct / 300, 1e-9);
    EXPECT(fabs((parts[0] + parts[1]) / 2 - loss) > 1e-4); // the mean of batch means is another
    es_plan_destroy(plan);
    es_growth_graph_destroy(&graph);
    destroy_growth(growth);
    destroy_small_dataset(&dataset);
}

// Splits that are evaluated have the numbers that growth itself measures, and leave those alone.
static void check_evaluation(EsGrowth *growth, const EsDataset *from) {
    EsGrowthResult before[2];
    double loss[2][2], accuracy[2][2]; // by split and environment
    memcpy(before, es_growth_results(growth), sizeof before);
    REQUIRE_OK(es_growth_evaluate(growth, &from->test, loss[0], accuracy[0]));
    REQUIRE_OK(es_growth_evaluate(growth, &from->validation, loss[1], accuracy[1]));
    EXPECT(memcmp(before, es_growth_results(growth), sizeof before) == 0);
    for (int e = 0; e < 2; e++) {
        EXPECT_NEAR(loss[0][e], before[e].test_loss, 0);
        EXPECT_NEAR(accuracy[0][e], before[e].test_accuracy, 0);
        EXPECT_NEAR(loss[1][e], before[e].validation_loss, 0);
        EXPECT_NEAR(accuracy[1][e], before[e].validation_accuracy, 0);
    }
}

// The test images of one growth are the validation images of another.
TEST(the_test_split_is_measured_like_validation) {
    EsDataset dataset, other;
    make_small_dataset(&dataset, 64, 600);
    make_small_dataset(&other, 64, 600);
    size_t first = 64 + 300;
    dataset.validation.count = 300;
    dataset.test = (EsSplit){dataset.images + first * dataset.image_bytes, dataset.labels + first,
                             290}; // two runs of images, the second one short
    other.validation =
        (EsSplit){other.images + first * other.image_bytes, other.labels + first, 290};
    EsGrowthOptions options = small_options("r0c0", 2);
    options.n_validation_images = 300;
    EsGrowth *growth = create_growth(&options, &dataset, 2);
    options.n_validation_images = 290;
    EsGrowth *judge = create_growth(&options, &other, 2);
    REQUIRE_OK(es_growth_reset(growth, 7));
    REQUIRE_OK(es_growth_reset(judge, 7));
    EsAction first_action = germinate(0, ES_BLUEPRINT_CONV_LIGHT, 0);
    int n_different = 0, n_blended = 0;
    for (int step = 0; step < 8; step++) {
        EXPECT(isnan(es_growth_results(growth)[0].test_accuracy));
        REQUIRE_OK(es_growth_test(growth));
        for (int e = 0; e < 2; e++) {
            const EsGrowthResult *a = &es_growth_results(growth)[e],
                                 *b = &es_growth_results(judge)[e];
            EXPECT_NEAR(a->test_loss, b->validation_loss, 0);
            EXPECT_NEAR(a->test_accuracy, b->validation_accuracy, 0);
            n_different += a->test_loss != a->validation_loss;
            n_blended += es_growth_snapshot(growth)->state.seed.alpha[e] > 0;
        }
        check_evaluation(growth, &dataset);
        step_all(growth, step == 0 ? first_action : es_action_wait());
        step_all(judge, step == 0 ? first_action : es_action_wait());
    }
    EXPECT_EQ(n_different, 16);
    EXPECT(n_blended > 0); // seeds take part
    dataset.test.count = 0;
    EXPECT_STATUS(es_growth_test(growth), INPUT);
    destroy_growth(judge);
    destroy_growth(growth);
    destroy_small_dataset(&dataset);
    destroy_small_dataset(&other);
}
