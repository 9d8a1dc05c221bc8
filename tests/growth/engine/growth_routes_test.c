// Gradients by route in the engine: routes add up to the gradient, hosts with fewer than two seeds
// that change their output train as without aggregation, bit for bit, and reports count updates.
#include "es_test.h"

#include "growth/growing_case.h"

enum { SLOTS = 4, STEPS = 18 };

typedef struct Case {
    int slots[3], blueprints[3], styles[3], n_seeds;
} Case;

static const Case cases[] = {
    {{0, 2}, {ES_BLUEPRINT_ID_CONV_LIGHT, ES_BLUEPRINT_ID_NORM}, {0, 0}, 2},
    {{1, 3}, {ES_BLUEPRINT_ID_DEPTHWISE, ES_BLUEPRINT_ID_ATTENTION}, {1, 2}, 2},
    {{0, 1, 3},
     {ES_BLUEPRINT_ID_NORM, ES_BLUEPRINT_ID_CONV_SMALL, ES_BLUEPRINT_ID_CONV_HEAVY},
     {2, 0, 3},
     3},
    {{2, 3}, {ES_BLUEPRINT_ID_BOTTLENECK, ES_BLUEPRINT_ID_CONV_LIGHT}, {3, 1}, 2},
};

static EsGrowthOptions routed_options(int64_t n_envs, EsCompileMode mode) {
    EsGrowthOptions options = small_options("all", n_envs);
    options.settings.episode_steps = STEPS;
    options.settings.training_dwell = 1;
    options.host_learning_rate = options.seed_learning_rate = 0.1f; // so that routes soon differ
    options.step_batches = 3;
    options.mode = mode;
    options.aggregation = ES_AGGREGATION_SEED;
    return options;
}

// The seeds of a case, each when the one before it blends in; then waiting.
static EsAction action_at(const Case *c, int step) {
    int number = step / 2;
    return step % 2 == 0 && number < c->n_seeds
               ? germinate(c->slots[number], c->blueprints[number], c->styles[number])
               : es_action_wait();
}

// Of the last update of a step: the worst difference of the sum of all routes from the gradient,
// over its norm.
static double worst_difference(const EsGrowth *growth, int n_routes) {
    EsRouteMemory memory = es_growth_route_memory(growth, &growth->workers[0]);
    int64_t n = growth->model.layout.n_parameters;
    double worst = 0, square = 0;
    for (int64_t k = 0; k < n; k++) {
        double sum = 0, plain = (double)memory.plain[k];
        for (int r = 0; r < n_routes; r++) {
            sum += (double)memory.routes[r * n + k];
        }
        worst = fmax(worst, fabs(sum - plain));
        square += plain * plain;
    }
    return worst / sqrt(square);
}

// Returns the conflicts that were met.
static int check_sum(const Case *c, EsCompileMode mode) {
    EsDataset dataset;
    int n_checked = 0, n_conflicts = 0;
    make_small_dataset(&dataset, 64, 40);
    EsGrowthOptions options = routed_options(1, mode);
    EsGrowth *growth = create_growth(&options, &dataset, 1);
    REQUIRE_OK(es_growth_reset(growth, 0));
    for (int step = 0; step < STEPS - 1; step++) {
        step_all(growth, action_at(c, step));
        const EsRouteReport *report = es_growth_routes(growth);
        EXPECT_EQ(report->n_updates, 3);
        if (report->n_routed == 0) {
            EXPECT(isnan(report->conflict_ratio) && isnan(report->teacher_share));
            continue;
        }
        int n_routes = 1;
        double shares = report->teacher_share;
        for (int s = 0; s < SLOTS; s++) {
            n_routes += report->seed[s].n_updates > 0;
            shares += report->seed[s].n_updates > 0 ? report->seed[s].share : 0;
        }
        EXPECT_EQ(report->n_routed, 3);
        EXPECT(n_routes >= 3 && n_routes <= 1 + c->n_seeds);
        EXPECT_NEAR(shares, 1, 1e-9);
        EXPECT_NEAR(worst_difference(growth, n_routes), 0, 1e-6);
        n_checked++;
        n_conflicts += report->n_conflicts;
    }
    EXPECT(n_checked >= 8);
    destroy_growth(growth);
    destroy_small_dataset(&dataset);
    return n_conflicts;
}

TEST(routes_add_up_to_the_gradient) {
    int n_conflicts = 0;
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        n_conflicts += check_sum(&cases[i], ES_COMPILE_DEFAULT);
        n_conflicts += check_sum(&cases[i], ES_COMPILE_OFF);
    }
    EXPECT(n_conflicts > 0);
}

// Weights of all environments, after every step of the same actions.
static void run_hashes(const EsGrowthOptions *options, const Case *c, int n_threads,
                       uint64_t hashes[STEPS]) {
    EsDataset dataset;
    make_small_dataset(&dataset, 64, 40);
    EsGrowth *growth = create_growth(options, &dataset, n_threads);
    REQUIRE_OK(es_growth_reset(growth, 0));
    for (int step = 0; step < STEPS - 1; step++) {
        step_all(growth, action_at(c, step));
        hashes[step] = 0;
        for (int64_t e = 0; e < options->n_envs; e++) {
            hashes[step] ^= hash_env(growth, e) + (uint64_t)e;
        }
    }
    destroy_growth(growth);
    destroy_small_dataset(&dataset);
}

// One seed, or none: the plain update. With two that are blended in it differs.
TEST(a_single_seed_takes_the_plain_update) {
    uint64_t plain[STEPS], routed[STEPS];
    for (int n_seeds = 1; n_seeds <= 2; n_seeds++) {
        Case c = cases[0];
        c.n_seeds = n_seeds;
        EsGrowthOptions options = routed_options(2, ES_COMPILE_DEFAULT);
        run_hashes(&options, &c, 1, routed);
        options.aggregation = ES_AGGREGATION_NONE;
        run_hashes(&options, &c, 1, plain);
        int n_different = 0;
        for (int step = 0; step < STEPS - 1; step++) {
            n_different += plain[step] != routed[step];
        }
        EXPECT(n_seeds == 1 ? n_different == 0 : n_different > 0);
    }
}

TEST(bits_do_not_depend_on_threads) {
    uint64_t one[STEPS], three[STEPS];
    EsGrowthOptions options = routed_options(5, ES_COMPILE_DEFAULT);
    run_hashes(&options, &cases[2], 1, one);
    run_hashes(&options, &cases[2], 3, three);
    EXPECT(memcmp(one, three, (STEPS - 1) * sizeof *one) == 0);
}
