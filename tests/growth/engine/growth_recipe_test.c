// The recipe in growth: averaged weights follow a plain loop through the lives of seeds, are the
// weights that validation measures and a network is read from, and change nothing else; AdamW
// follows a plain loop, and begins anew with every seed.
#include "es_test.h"

#include "growth/growing_case.h"

static EsDataset dataset;

static EsGrowthOptions recipe_options(const char *slots, int64_t n_envs) {
    if (dataset.images == NULL) {
        make_small_dataset(&dataset, 64, 40);
    }
    EsGrowthOptions options = small_options(slots, n_envs);
    options.settings.episode_steps = 60;
    options.recipe.nesterov = 1;
    return options;
}

static uint64_t hash_of(EsGrowth *growth) {
    EsStateHash *hash = NULL;
    REQUIRE_OK(es_state_hash_create(growth->device, growth->options.n_envs, &hash));
    es_state_hash_begin(hash);
    REQUIRE_OK(es_growth_append_state(growth, hash));
    uint64_t value = es_state_hash_value(hash);
    es_state_hash_destroy(hash);
    return value;
}

// Two seeds, one with a gate; the first is switched off slowly, and germinates again.
static EsAction action_of_step(int step) {
    EsAction action = es_action_wait();
    if (step == 2 || step == 26) {
        action = germinate(0, ES_BLUEPRINT_CONV_LIGHT, ES_STYLE_LINEAR_ADD);
    } else if (step == 8) {
        action = germinate(1, ES_BLUEPRINT_DEPTHWISE, ES_STYLE_GATED_GATE);
    } else if (step == 14) {
        action = act(ES_GROWTH_OP_PRUNE, 0);
        action.head[ES_HEAD_ALPHA_SPEED] = 2;
    }
    return action;
}

// --- averages ---

// An average by its definition, in double, of elements [first, end).
typedef struct AveragedRange {
    int64_t first, end;
    int n_updates;
} AveragedRange;

enum { N_STEPS = 32, MOST = 4096 };

static int moves(const float *before, const float *after, const AveragedRange *part) {
    return memcmp(before + part->first, after + part->first,
                  sizeof *before * (size_t)(part->end - part->first)) != 0;
}

static void add_update(AveragedRange *part, float decay, const float *weights, double *average) {
    double warming = (1.0 + part->n_updates) / (10.0 + part->n_updates);
    double share = fmin((double)decay, warming);
    for (int64_t i = part->first; i < part->end; i++) {
        average[i] = share * average[i] + (1 - share) * (double)weights[i];
    }
    part->n_updates++;
}

static void expect_average(const EsGrowth *growth, const double *average, int64_t n) {
    const float *row = slab_row(&growth->average.store->parameters, 0);
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs((double)row[i] - average[i]));
    }
    EXPECT_NEAR(worst, 0, 1e-6);
}

TEST(averages_follow_a_plain_loop) {
    EsGrowthOptions options = recipe_options("r0c0,r0c1", 1);
    static float before[MOST];
    static double average[MOST];
    options.host_learning_rate = 0;
    EsGrowth *still = create_growth(&options, &dataset, 1);
    REQUIRE_OK(es_growth_reset(still, 0));
    options.host_learning_rate = 0.05f;
    options.recipe.average = 0.5f;
    EsGrowth *growth = create_growth(&options, &dataset, 1);
    REQUIRE_OK(es_growth_reset(growth, 0));
    const EsGrowthLayout *layout = &growth->model.layout;
    const EsGrowthState *state = &growth->shown.state;
    const float *weights = slab_row(&growth->store->parameters, 0);
    const float *averaged = slab_row(&growth->average.store->parameters, 0);
    size_t row_bytes = sizeof *weights * (size_t)layout->n_parameters;
    ES_ASSERT(layout->n_parameters <= MOST);
    // the first weights are those of a host that does not learn
    for (int64_t i = 0; i < layout->n_parameters; i++) {
        average[i] = (double)slab_row(&still->store->parameters, 0)[i];
    }
    AveragedRange host = {0, layout->n_host_parameters, 0}, gates[2], seeds[2];
    for (int s = 0; s < 2; s++) {
        gates[s] = (AveragedRange){layout->region[s], layout->seed[s], 0};
        seeds[s] = (AveragedRange){layout->seed[s], layout->region_end[s], 0};
    }
    add_update(&host, 0.5f, weights, average);
    int n_frozen = 0, n_begun = 0;
    for (int step = 1; step < N_STEPS; step++) {
        expect_average(growth, average, layout->n_parameters);
        EsAction action = action_of_step(step);
        REQUIRE_OK(es_growth_decide(growth, &action));
        for (int s = 0; s < 2; s++) { // a slot that was filled or cleared begins with its weights
            if (state->seed.requests[s] & (ES_SEED_REQUEST_INITIALISE | ES_SEED_REQUEST_CLEAR)) {
                n_begun++;
                EXPECT(memcmp(averaged + layout->region[s], weights + layout->region[s],
                              sizeof *weights *
                                  (size_t)(layout->region_end[s] - layout->region[s])) == 0);
                gates[s].n_updates = seeds[s].n_updates = 0;
                for (int64_t i = layout->region[s]; i < layout->region_end[s]; i++) {
                    average[i] = (double)weights[i];
                }
            }
        }
        memcpy(before, weights, row_bytes);
        REQUIRE_OK(es_growth_advance(growth));
        add_update(&host, 0.5f, weights, average);
        for (int s = 0; s < 2; s++) {
            int is_alive = es_stage_in(state->seed.stage[s], ES_STAGES_LIVING);
            if (moves(before, weights, &seeds[s])) {
                add_update(&seeds[s], 0.5f, weights, average);
                if (state->seed.algorithm[s] == ES_ALGORITHM_GATE) {
                    add_update(&gates[s], 0.5f, weights, average);
                }
            } else {
                n_frozen += is_alive;
            }
        }
    }
    EXPECT_EQ(n_frozen, 4); // the steps on its way out
    EXPECT_EQ(n_begun, 4);  // filled three times, cleared once
    destroy_growth(still);
    destroy_growth(growth);
}

// A growth without an average whose weights are these measures what one with it has measured.
TEST(averages_are_measured_and_read) {
    EsGrowthOptions options = recipe_options("r0c0,r0c1", 2);
    EsGrowth *plain = create_growth(&options, &dataset, 1);
    options.recipe.average = 0.9f;
    EsGrowth *growth = create_growth(&options, &dataset, 1);
    REQUIRE_OK(es_growth_reset(plain, 0));
    REQUIRE_OK(es_growth_reset(growth, 0));
    for (int step = 1; step < 14; step++) {
        step_all(growth, action_of_step(step));
    }
    EXPECT(es_ablation_count(&growth->ablations[1]) > 1);
    memcpy(plain->slab, growth->slab, es_growth_state_bytes(2, 2));
    for (int64_t e = 0; e < 2; e++) {
        REQUIRE_OK(es_growth_read_weights(growth, e, slab_row(&plain->store->parameters, e),
                                          slab_row(&plain->store->states, e)));
    }
    REQUIRE_OK(es_growth_validate(plain));
    for (int64_t e = 0; e < 2; e++) {
        EXPECT(growth->results[e].validation_loss == plain->results[e].validation_loss);
        for (int k = 0; k < es_ablation_count(&growth->ablations[e]); k++) {
            int64_t at = e * ES_ABLATION_PATTERNS_MAX + k;
            EXPECT(growth->accuracy[at] == plain->accuracy[at]);
        }
    }
    memcpy(plain->store->parameters.data, growth->store->parameters.data,
           es_tensor_bytes(&plain->store->parameters));
    REQUIRE_OK(es_growth_validate(plain));
    EXPECT(growth->results[0].validation_loss != plain->results[0].validation_loss);
    destroy_growth(plain);
    destroy_growth(growth);
}

// Statistics of batch norm are averaged with the weights of the host.
TEST(statistics_are_averaged) {
    EsGrowthOptions options = recipe_options("r0c0", 1);
    options.recipe.average = 0.9f;
    EsGrowth *growth = create_growth(&options, &dataset, 1);
    REQUIRE_OK(es_growth_reset(growth, 0));
    const float *states = slab_row(&growth->store->states, 0);
    const float *averaged = slab_row(&growth->average.store->states, 0);
    double expected[256];
    int64_t n = growth->model.layout.n_states;
    ES_ASSERT(n <= (int64_t)ES_COUNT_OF(expected));
    for (int64_t i = 0; i < n; i++) {
        expected[i] = (double)averaged[i];
    }
    for (int step = 1; step < 12; step++) {
        step_all(growth, es_action_wait());
        double share = fmin((double)0.9f, (1.0 + step) / (10.0 + step));
        for (int64_t i = 0; i < n; i++) {
            expected[i] += (1 - share) * ((double)states[i] - expected[i]);
            EXPECT_NEAR(averaged[i], expected[i], 1e-5);
        }
    }
    destroy_growth(growth);
}

// The same weights are trained, and none are kept twice without the key.
TEST(averages_change_no_training) {
    EsGrowthOptions options = recipe_options("r0c0,r0c1", 2);
    EsGrowth *plain = create_growth(&options, &dataset, 1);
    options.recipe.average = 0.99f;
    EsGrowth *growth = create_growth(&options, &dataset, 1);
    REQUIRE_OK(es_growth_reset(plain, 3));
    REQUIRE_OK(es_growth_reset(growth, 3));
    for (int step = 1; step < 10; step++) {
        step_all(plain, action_of_step(step));
        step_all(growth, action_of_step(step));
    }
    EXPECT(memcmp(plain->store->parameters.data, growth->store->parameters.data,
                  es_tensor_bytes(&plain->store->parameters)) == 0);
    EXPECT(plain->average.store == NULL && plain->evaluated == plain->store);
    EXPECT_EQ(
        es_growth_weight_bytes(growth) - es_growth_weight_bytes(plain),
        2 * (es_tensor_bytes(&plain->store->parameters) + es_tensor_bytes(&plain->store->states)));
    destroy_growth(plain);
    destroy_growth(growth);
}

// --- AdamW ---

typedef struct Moments {
    int64_t first, end;
    int n_steps;
    double rate, weight_decay;
} Moments;

static double m[MOST], v[MOST];

static void forget(Moments *part) {
    part->n_steps = 0;
    for (int64_t i = part->first; i < part->end; i++) {
        m[i] = v[i] = 0;
    }
}

// A step by its definition from the weights before; the gradients are those after clipping.
static double step_error(Moments *part, const float *before, const float *gradient,
                         const float *after) {
    double worst = 0;
    part->n_steps++;
    for (int64_t i = part->first; i < part->end; i++) {
        double g = (double)gradient[i], p = (double)before[i];
        m[i] = 0.7 * m[i] + 0.3 * g;
        v[i] = 0.9 * v[i] + 0.1 * g * g;
        p *= 1 - part->rate * part->weight_decay;
        p -= part->rate * (m[i] / (1 - pow(0.7, part->n_steps))) /
             (sqrt(v[i] / (1 - pow(0.9, part->n_steps))) + 1e-8);
        worst = fmax(worst, fabs((double)after[i] - p));
    }
    return worst;
}

TEST(adamw_follows_a_plain_loop) {
    EsGrowthOptions options = recipe_options("r0c0,r0c1", 1);
    static float before[MOST];
    options.host_learning_rate = options.seed_learning_rate = 0.004f;
    options.recipe.optimiser = ES_RECIPE_ADAMW;
    options.recipe.beta1 = 0.7f;
    options.recipe.beta2 = 0.9f;
    options.recipe.weight_decay = 0.3f;
    EsGrowth *growth = create_growth(&options, &dataset, 1);
    REQUIRE_OK(es_growth_reset(growth, 0));
    const EsGrowthLayout *layout = &growth->model.layout;
    const EsGrowthState *state = &growth->shown.state;
    const float *weights = slab_row(&growth->store->parameters, 0);
    const float *gradient = slab_row(&growth->store->gradients, 0);
    const int32_t *n_steps = growth->adam_steps.data;
    ES_ASSERT(layout->n_parameters <= MOST);
    Moments host = {0, layout->n_host_parameters, 1, 0.004, 0.3}, seeds[2], gates[2];
    for (int64_t i = 0; i < host.end; i++) { // after the first step
        m[i] = (double)slab_row(&growth->momentum, 0)[i];
        v[i] = (double)slab_row(&growth->moment2, 0)[i];
        EXPECT_NEAR(v[i], 0.1 * (double)gradient[i] * (double)gradient[i], 1e-7);
    }
    for (int s = 0; s < 2; s++) {
        seeds[s] = (Moments){layout->seed[s], layout->region_end[s], 0, 0.004, 0};
        gates[s] = (Moments){layout->region[s], layout->seed[s], 0, 0.004, 0};
    }
    for (int step = 1; step < N_STEPS; step++) {
        EsAction action = action_of_step(step);
        REQUIRE_OK(es_growth_decide(growth, &action));
        for (int s = 0; s < 2; s++) {
            if (state->seed.requests[s] & (ES_SEED_REQUEST_INITIALISE | ES_SEED_REQUEST_CLEAR)) {
                forget(&seeds[s]);
                forget(&gates[s]);
            }
        }
        memcpy(before, weights, sizeof *weights * (size_t)layout->n_parameters);
        REQUIRE_OK(es_growth_advance(growth));
        EXPECT_NEAR(step_error(&host, before, gradient, weights), 0, 2e-6);
        for (int s = 0; s < 2; s++) {
            AveragedRange range = {seeds[s].first, seeds[s].end, 0};
            if (!moves(before, weights, &range)) {
                continue; // empty or on its way out
            }
            EXPECT_NEAR(step_error(&seeds[s], before, gradient, weights), 0, 2e-6);
            if (state->seed.algorithm[s] == ES_ALGORITHM_GATE) {
                EXPECT_NEAR(step_error(&gates[s], before, gradient, weights), 0, 2e-6);
            }
        }
        EXPECT_EQ(n_steps[ES_GROWTH_HOST], step + 1);
        EXPECT_EQ(n_steps[ES_GROWTH_SEED(0)], seeds[0].n_steps);
        EXPECT_EQ(n_steps[ES_GROWTH_SEED(1)], seeds[1].n_steps);
        EXPECT_EQ(n_steps[ES_GROWTH_GATE(1)], gates[1].n_steps);
    }
    EXPECT_EQ(seeds[0].n_steps, N_STEPS - 26); // of its second life
    EXPECT(gates[1].n_steps > 20);
    destroy_growth(growth);
}

// --- steps of the learning rate ---

// The same bits as rates that are set by hand before the steps of an episode.
TEST(learning_rates_drop_by_steps) {
    EsGrowthOptions options = recipe_options("r0c0,r0c1", 2);
    EsGrowth *by_hand = create_growth(&options, &dataset, 1);
    options.recipe.decay = ES_DECAY_STEP;
    options.recipe.step_epochs = 4;
    EsGrowth *by_recipe = create_growth(&options, &dataset, 1);
    REQUIRE_OK(es_growth_reset(by_hand, 0));
    REQUIRE_OK(es_growth_reset(by_recipe, 0));
    for (int step = 1; step < 12; step++) {
        by_hand->options.host_learning_rate = by_hand->options.seed_learning_rate =
            0.01f * (step < 4   ? 1.0f
                     : step < 8 ? 0.5f
                                : 0.25f);
        step_all(by_hand, action_of_step(step));
        step_all(by_recipe, action_of_step(step));
        EXPECT(hash_of(by_hand) == hash_of(by_recipe));
    }
    destroy_growth(by_hand);
    destroy_growth(by_recipe);
}

// --- threads ---

TEST(threads_change_no_bit) {
    EsGrowthOptions options = recipe_options("r0c0,r0c1", 3);
    options.recipe.average = 0.9f;
    options.recipe.optimiser = ES_RECIPE_ADAMW;
    EsGrowth *one = create_growth(&options, &dataset, 1);
    EsGrowth *two = create_growth(&options, &dataset, 2); // one host is left to the team
    EXPECT(two->has_team);
    REQUIRE_OK(es_growth_reset(one, 0));
    REQUIRE_OK(es_growth_reset(two, 0));
    for (int step = 1; step < 16; step++) {
        step_all(one, action_of_step(step));
        step_all(two, action_of_step(step));
        EXPECT(hash_of(one) == hash_of(two));
    }
    destroy_growth(one);
    destroy_growth(two);
}
