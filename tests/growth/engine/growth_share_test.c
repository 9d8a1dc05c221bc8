// Training images divided among environments: an episode's images depend on its number and on the
// number of shares alone, and CPU and GPU draw the same ones.
#include "es_test.h"

#include "growth/device_case.h"

enum { E = 4, STEPS = 2 };

static EsDataset dataset;

static EsGrowthOptions share_options(int64_t n_envs, int64_t n_shares) {
    EsGrowthOptions options = stripes_options("r0c0", n_envs);
    options.batch = 8;
    options.n_validation_images = 8;
    options.n_shares = n_shares;
    return options;
}

// Losses [STEPS + 1, n_envs] of the batches of episodes 8, 9, ... under waiting.
static void play(EsGrowth *growth, double *losses) {
    int64_t n_envs = growth->options.n_envs;
    REQUIRE_OK(es_growth_reset(growth, 8));
    for (int step = 0; step <= STEPS; step++) {
        for (int64_t e = 0; e < n_envs; e++) {
            losses[step * n_envs + e] = growth->results[e].train_loss;
        }
        if (step < STEPS) {
            step_all(growth, es_action_wait());
        }
    }
    destroy_growth(growth);
}

TEST(cpu) {
    double whole[STEPS + 1][E], shared[STEPS + 1][E], few[STEPS + 1][2], one[STEPS + 1][E];
    make_stripes(&dataset, 96, 40, 0);
    EsGrowthOptions options = share_options(E, 0);
    play(create_growth(&options, &dataset, 1), &whole[0][0]);
    options = share_options(E, 1);
    play(create_growth(&options, &dataset, 1), &one[0][0]);
    options = share_options(E, E);
    play(create_growth(&options, &dataset, 1), &shared[0][0]);
    options = share_options(2, E);
    play(create_growth(&options, &dataset, 1), &few[0][0]);
    EXPECT(memcmp(whole, one, sizeof whole) == 0);
    for (int step = 0; step <= STEPS; step++) {
        // episode 8 leads its group: its first batch is what it would draw alone
        EXPECT(shared[step][1] != whole[step][1]);
        EXPECT(memcmp(few[step], shared[step], sizeof few[step]) == 0);
    }
    options.n_shares = -1;
    EsGrowth *none = NULL;
    EXPECT_STATUS(create_growth_on("cpu", 1, &options, &dataset, &none), ARGUMENT);
    destroy_small_dataset(&dataset);
}

// Other images would move the losses by a tenth and more.
TEST(cuda) {
    double here[STEPS + 1][E], there[STEPS + 1][E];
    make_stripes(&dataset, 96, 40, 0);
    EsGrowthOptions options = share_options(E, E);
    EsGrowth *growth = create_on_cuda(options, &dataset);
    SKIP_WITHOUT(growth);
    play(growth, &there[0][0]);
    play(create_growth(&options, &dataset, 1), &here[0][0]);
    for (int i = 0; i < (STEPS + 1) * E; i++) {
        EXPECT_NEAR((&there[0][0])[i], (&here[0][0])[i], 1e-4);
    }
    destroy_small_dataset(&dataset);
}
