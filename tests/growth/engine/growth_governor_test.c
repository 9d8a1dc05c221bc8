// Rollback of real weights: host and fossils come back bit for bit, momentum is gone, other slots
// are empty, the snapshot survives the panic, and nobody else notices.
#include "es_test.h"

#include "growth/growing_case.h"

enum { FOSSIL = 1, OTHER = 0, GATED = 2 };

// Everything of an environment that a rollback has to do with; the averages, and those that the
// snapshot has.
typedef struct Copy {
    float *parameters, *states, *momentum, *saved_parameters, *saved_states;
    float *average, *average_states, *saved_average, *saved_average_states;
} Copy;

static float *copy_row(const EsTensor *slab, int64_t env) {
    size_t bytes = (size_t)slab->dim[1] * sizeof(float);
    float *copy = malloc(bytes);
    memcpy(copy, slab_row(slab, env), bytes);
    return copy;
}

static Copy copy_env(const EsGrowth *growth, int64_t env) {
    Copy copy = {copy_row(&growth->store->parameters, env),
                 copy_row(&growth->store->states, env),
                 copy_row(&growth->momentum, env),
                 copy_row(&growth->saved_parameters, env),
                 copy_row(&growth->saved_states, env),
                 NULL,
                 NULL,
                 NULL,
                 NULL};
    const EsGrowthAverage *average = &growth->average;
    if (average->store != NULL) {
        copy.average = copy_row(&average->store->parameters, env);
        copy.average_states = copy_row(&average->store->states, env);
        copy.saved_average = copy_row(&average->saved_parameters, env);
        copy.saved_average_states = copy_row(&average->saved_states, env);
    }
    return copy;
}

static void copy_free(Copy *copy) {
    float *const rows[] = {copy->parameters,       copy->states,        copy->momentum,
                           copy->saved_parameters, copy->saved_states,  copy->average,
                           copy->average_states,   copy->saved_average, copy->saved_average_states};
    for (size_t i = 0; i < ES_COUNT_OF(rows); i++) {
        free(rows[i]);
    }
}

static int is_equal(const float *a, const float *b, int64_t first, int64_t end) {
    return memcmp(a + first, b + first, (size_t)(end - first) * sizeof(float)) == 0;
}

static int is_zero(const float *a, int64_t first, int64_t end) {
    int64_t n = 0;
    for (int64_t k = first; k < end; k++) {
        n += a[k] != 0.0f;
    }
    return n == 0;
}

// Two environments, alike in what they do: a fossil of r0c1 with a gate, and a seed that blends
// before it in r0c0 while r1c0 stays empty. The last snapshot is two steps old.
static EsGrowth *grow(const EsDataset *dataset, EsCompileMode mode, float average) {
    EsGrowthOptions options = small_options("r0c0,r0c1,r1c0", 2);
    options.settings.episode_steps = 60;
    options.mode = mode;
    options.recipe.average = average;
    options.recipe.optimiser = average > 0 ? ES_RECIPE_ADAMW : ES_RECIPE_SGD;
    EsGrowth *growth = create_growth(&options, dataset, 1);
    REQUIRE_OK(es_growth_reset(growth, 0));
    grow_fossil(growth, FOSSIL, ES_BLUEPRINT_CONV_LIGHT, ES_STYLE_GATED_GATE);
    while (es_growth_snapshot(growth)->state.env.step[0] % 5 != 1) {
        step_all(growth, es_action_wait());
    }
    step_all(growth, germinate(OTHER, ES_BLUEPRINT_DEPTHWISE, ES_STYLE_LINEAR_ADD));
    EXPECT_EQ(es_growth_snapshot(growth)->state.env.snapshot_step[0] % 5, 0);
    return growth;
}

// The decision of a step and what it does to the weights, without the batches that follow.
static void decide(EsGrowth *growth, const EsAction *actions) {
    es_lifecycle_apply(&growth->shown.state, &growth->options.settings, actions);
    es_lifecycle_tick(&growth->shown.state, &growth->options.settings);
    es_growth_weights_update(growth);
}

// The averages are those of the snapshot, too, of the host and of the fossil.
static void check_averages(const EsGrowthLayout *layout, const Copy *before, const Copy *broken,
                           const Copy *after) {
    int64_t first = layout->region[FOSSIL], end = layout->region_end[FOSSIL];
    EXPECT(!is_equal(before->average, before->parameters, 0, layout->n_host_parameters));
    EXPECT(!is_equal(broken->average, broken->saved_average, 0, layout->n_host_parameters));
    EXPECT(is_equal(after->saved_average, before->saved_average, 0, layout->n_parameters));
    EXPECT(is_equal(after->average, before->saved_average, 0, layout->n_host_parameters));
    EXPECT(is_equal(after->average, before->saved_average, first, end));
    EXPECT(!is_equal(after->average, after->parameters, first, end));
    EXPECT(is_equal(after->average_states, before->saved_average_states, 0, layout->n_states));
    EXPECT(is_zero(after->average, layout->region[OTHER], layout->region_end[OTHER]));
}

// The host is broken and the next step sees it. Breaking the last layer leaves nothing upstream to
// chance.
static void check_rollback(int kind, EsCompileMode mode, float average) {
    EsDataset dataset;
    make_small_dataset(&dataset, 64, 40);
    EsGrowth *growth = grow(&dataset, mode, average);
    const EsGrowthLayout *layout = &growth->model.layout;
    const EsGrowthState *state = &es_growth_snapshot(growth)->state;
    float *row = slab_row(&growth->store->parameters, 0);
    // steps 3 and 4 after the snapshot; then one that would take another
    step_all(growth, es_action_wait());
    step_all(growth, es_action_wait());
    Copy before = copy_env(growth, 0);
    int32_t snapshot_step = state->env.snapshot_step[0];
    EXPECT(!is_equal(before.parameters, before.saved_parameters, 0, layout->n_host_parameters));
    EXPECT(!is_equal(before.parameters, before.saved_parameters, layout->region[FOSSIL],
                     layout->region_end[FOSSIL])); // fossils go on learning
    EXPECT(!is_zero(before.momentum, layout->region[FOSSIL], layout->region_end[FOSSIL]));
    if (kind == 0) {
        row[layout->n_host_parameters - 16] = NAN; // the bias of the head
    } else {
        growth->shown.state.env.n_governed[0] = growth->options.settings.governor_minimum;
        growth->shown.state.env.n_divergences[0] = 2;
        for (int i = 0; i < 5; i++) {
            growth->shown.state.env.governed_loss[i] = 1.0f;
        }
        growth->options.settings.divergence_loss = 0.0f; // every loss above 3 diverges
        for (int64_t k = 0; k < layout->n_host_parameters; k++) {
            row[k] *= k >= layout->n_host_parameters - 48 ? 1000.0f : 1.0f; // the head
        }
    }
    step_all(growth, es_action_wait()); // trains on it, sees the loss
    EXPECT_EQ(state->env.step[0] % 5, 0);
    EXPECT_EQ(state->env.panic[0], kind == 0 ? ES_PANIC_NAN : ES_PANIC_DIVERGENCE);
    EXPECT_EQ(state->env.panic[1], ES_PANIC_NONE);
    Copy broken = copy_env(growth, 0), neighbour = copy_env(growth, 1);
    EXPECT(!is_equal(broken.parameters, broken.saved_parameters, 0, layout->n_host_parameters));

    EsAction actions[2] = {germinate(GATED, ES_BLUEPRINT_NORM, ES_STYLE_LINEAR_ADD),
                           es_action_wait()};
    decide(growth, actions);
    Copy after = copy_env(growth, 0), neighbour_after = copy_env(growth, 1);
    // host and fossil as the snapshot has them, which is the one from before
    EXPECT(is_equal(after.saved_parameters, before.saved_parameters, 0, layout->n_parameters));
    EXPECT(is_equal(after.saved_states, before.saved_states, 0, layout->n_states));
    EXPECT_EQ(state->env.snapshot_step[0], snapshot_step);
    EXPECT(is_equal(after.parameters, before.saved_parameters, 0, layout->n_host_parameters));
    EXPECT(is_equal(after.parameters, before.saved_parameters, layout->region[FOSSIL],
                    layout->region_end[FOSSIL]));
    EXPECT(is_equal(after.states, before.saved_states, 0, layout->n_states));
    if (average > 0) {
        check_averages(layout, &before, &broken, &after);
        EXPECT(is_zero(slab_row(&growth->moment2, 0), 0, layout->n_parameters));
        EXPECT(!is_zero(slab_row(&growth->moment2, 1), 0, layout->n_parameters));
        for (int k = 0; k < ES_GROWTH_PARTS(3); k++) {
            EXPECT_EQ(((const int32_t *)growth->adam_steps.data)[k], 0);
        }
    }
    // no momentum anywhere, other slots empty, the action dropped
    EXPECT(is_zero(after.momentum, 0, layout->n_parameters));
    EXPECT(is_zero(after.parameters, layout->region[OTHER], layout->region_end[OTHER]));
    EXPECT_EQ(stage_of(growth, 0, FOSSIL), ES_STAGE_FOSSILIZED);
    EXPECT_EQ(stage_of(growth, 0, OTHER), ES_STAGE_EMBARGOED);
    EXPECT_EQ(stage_of(growth, 0, GATED), ES_STAGE_DORMANT);
    EXPECT_EQ(state->env.n_rollbacks[0], 1);
    EXPECT_EQ(state->env.effective_op[0], ES_GROWTH_OP_WAIT);
    EXPECT_EQ(state->env.refusal[0], ES_REFUSAL_ROLLED_BACK);
    // the other environment took its snapshot and changed nothing else
    EXPECT_EQ(state->env.n_rollbacks[1], 0);
    EXPECT(is_equal(neighbour_after.parameters, neighbour.parameters, 0, layout->n_parameters));
    EXPECT(is_equal(neighbour_after.momentum, neighbour.momentum, 0, layout->n_parameters));
    EXPECT(is_equal(neighbour_after.states, neighbour.states, 0, layout->n_states));
    EXPECT(
        is_equal(neighbour_after.saved_parameters, neighbour.parameters, 0, layout->n_parameters));
    EXPECT_EQ(state->env.snapshot_step[1] % 5, 0);
    EXPECT(state->env.snapshot_step[1] > snapshot_step);
    // and it goes on: finite, with the fossil in it
    step_all(growth, es_action_wait());
    EXPECT(isfinite(growth->results[0].train_loss) && isfinite(growth->results[0].validation_loss));
    EXPECT_EQ(state->env.panic[0], ES_PANIC_NONE);
    Copy *copies[] = {&before, &broken, &neighbour, &after, &neighbour_after};
    for (size_t i = 0; i < ES_COUNT_OF(copies); i++) {
        copy_free(copies[i]);
    }
    destroy_growth(growth);
    destroy_small_dataset(&dataset);
}

TEST(rollback_after_nan_plain_kernels) { check_rollback(0, ES_COMPILE_OFF, 0); }

TEST(rollback_after_nan_default) { check_rollback(0, ES_COMPILE_DEFAULT, 0); }

TEST(rollback_after_divergence) { check_rollback(1, ES_COMPILE_DEFAULT, 0); }

// with AdamW, too
TEST(rollback_of_averages_after_nan) { check_rollback(0, ES_COMPILE_DEFAULT, 0.9f); }

TEST(rollback_of_averages_after_divergence) { check_rollback(1, ES_COMPILE_DEFAULT, 0.9f); }

// The same through the public functions alone: with a rate of 0 the weights after the next step's
// batches are still those of the restore.
TEST(rollback_seen_through_a_rate_of_0) {
    EsDataset dataset;
    make_small_dataset(&dataset, 64, 40);
    EsGrowth *growth = grow(&dataset, ES_COMPILE_DEFAULT, 0);
    const EsGrowthLayout *layout = &growth->model.layout;
    float *row = slab_row(&es_growth_store(growth)->parameters, 0);
    Copy before = copy_env(growth, 0);
    row[0] = INFINITY;
    step_all(growth, es_action_wait());
    growth->options.host_learning_rate = growth->options.seed_learning_rate = 0.0f;
    step_all(growth, es_action_wait());
    EXPECT_EQ(es_growth_snapshot(growth)->state.env.n_rollbacks[0], 1);
    EXPECT(is_equal(row, before.saved_parameters, 0, layout->n_host_parameters));
    EXPECT(
        is_equal(row, before.saved_parameters, layout->region[FOSSIL], layout->region_end[FOSSIL]));
    copy_free(&before);
    destroy_growth(growth);
    destroy_small_dataset(&dataset);
}

// A fossil is in the snapshot of its own step, whatever the step's number.
TEST(a_young_fossil_is_covered) {
    EsDataset dataset;
    make_small_dataset(&dataset, 64, 40);
    EsGrowthOptions options = small_options("r0c0", 1);
    options.settings.snapshot_every = 1000;
    EsGrowth *growth = create_growth(&options, &dataset, 1);
    const EsGrowthLayout *layout = &growth->model.layout;
    REQUIRE_OK(es_growth_reset(growth, 0));
    step_all(growth, germinate(0, ES_BLUEPRINT_CONV_SMALL, ES_STYLE_SIGMOID_ADD));
    wait_for_stage(growth, 0, ES_STAGE_HOLDING);
    EXPECT_EQ(growth->shown.state.env.snapshot_step[0], 0);
    Copy judged = copy_env(growth, 0);
    int32_t step = growth->shown.state.env.step[0];
    step_all(growth, act(ES_GROWTH_OP_FOSSILIZE, 0));
    EXPECT_EQ(growth->shown.state.env.snapshot_step[0], step);
    EXPECT(is_equal(slab_row(&growth->saved_parameters, 0), judged.parameters, 0,
                    layout->n_parameters));
    slab_row(&growth->store->parameters, 0)[layout->seed[0]] = NAN;
    step_all(growth, es_action_wait());
    EXPECT_EQ(growth->shown.state.env.panic[0], ES_PANIC_NAN);
    decide(growth, (EsAction[]){es_action_wait()});
    EXPECT_EQ(stage_of(growth, 0, 0), ES_STAGE_FOSSILIZED);
    EXPECT(is_equal(slab_row(&growth->store->parameters, 0), judged.parameters, 0,
                    layout->n_parameters));
    copy_free(&judged);
    destroy_growth(growth);
    destroy_small_dataset(&dataset);
}
