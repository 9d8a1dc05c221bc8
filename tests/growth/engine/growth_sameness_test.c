// Many environments under a wild policy: the same bits on any number of threads and whatever the
// others do; and no memory is asked for once plans exist.
#include "es_test.h"

#include "growth/growing_case.h"

static void run_wild(EsGrowth *growth, uint64_t salt, int64_t broken_env) {
    EsAction actions[64];
    int64_t n_envs = es_growth_snapshot(growth)->state.n_envs;
    REQUIRE_OK(es_growth_reset(growth, 7));
    while (!es_growth_is_over(growth)) {
        for (int64_t e = 0; e < n_envs; e++) {
            actions[e] = wild_action(growth, e, salt);
        }
        if (broken_env >= 0 && es_growth_snapshot(growth)->state.env.step[0] % 6 == 0) {
            slab_row(&growth->store->parameters, broken_env)[1] = NAN;
        }
        REQUIRE_OK(es_growth_step(growth, actions));
    }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { E = 24, STEPS = 24 }; // they are ten times slower
#else
enum { E = 64, STEPS = 50 };
#endif

// Two growths in step; in one every decision is prepared, every fourth by a stale preparation.
TEST(prepared_seeds_are_the_same) {
    enum { N = 8 };
    EsDataset dataset;
    EsAction actions[N];
    int n_prepared = 0, n_used = 0;
    make_small_dataset(&dataset, 64, 40);
    EsGrowthOptions options = small_options("r0c0,r0c1,r1c1", N);
    options.n_validation_images = 24;
    options.recipe.average = 0.9f;
    EsGrowth *plain = create_growth(&options, &dataset, 1);
    EsGrowth *prepared = create_growth(&options, &dataset, 1);
    EsSeedPreparation *stale = NULL;
    REQUIRE_OK(es_growth_reset(plain, 7));
    REQUIRE_OK(es_growth_reset(prepared, 7));
    for (int step = 0; !es_growth_is_over(plain); step++) {
        EsSeedPreparation *preparation = NULL;
        for (int64_t e = 0; e < N; e++) {
            actions[e] = wild_action(plain, e, 5);
        }
        REQUIRE_OK(es_seed_preparation_create(prepared, actions, &preparation));
        if (preparation != NULL) {
            REQUIRE_OK(es_seed_preparation_run(preparation));
            n_prepared++;
        }
        EsSeedPreparation *given = step % 4 == 3 ? stale : preparation;
        REQUIRE_OK(es_growth_decide_prepared(prepared, actions, given));
        for (int i = 0; given != NULL && i < N * 3; i++) {
            int is_there = es_seed_preparation_values(given, prepared, i / 3, i % 3) != NULL;
            EXPECT(!is_there || step % 4 != 3);
            n_used += is_there;
        }
        REQUIRE_OK(es_growth_decide(plain, actions));
        REQUIRE_OK(es_growth_advance(plain));
        REQUIRE_OK(es_growth_advance(prepared));
        for (int e = 0; e < N; e++) {
            EXPECT(hash_env(plain, e) == hash_env(prepared, e));
        }
        es_seed_preparation_destroy(stale);
        stale = preparation;
    }
    EXPECT(n_prepared > 4 && n_used > 4);
    // a graph that was prepared is not built again
    EXPECT_EQ(es_growth_plans(prepared).n_builds, es_growth_plans(plain).n_builds);
    es_seed_preparation_destroy(stale);
    destroy_growth(plain);
    destroy_growth(prepared);
    destroy_small_dataset(&dataset);
}

static void run_many(int n_threads, uint64_t hashes[E], int64_t *n_seeds, int64_t *n_fossils) {
    EsDataset dataset;
    make_small_dataset(&dataset, 64, 40);
    EsGrowthOptions options = small_options("r0c0,r0c1,r1c1", E);
    options.settings.episode_steps = STEPS;
    options.n_validation_images = 24;
    EsGrowth *growth = create_growth(&options, &dataset, n_threads);
    run_wild(growth, 21, -1);
    *n_seeds = *n_fossils = 0;
    for (int64_t e = 0; e < E; e++) {
        hashes[e] = hash_env(growth, e);
        *n_seeds += es_growth_snapshot(growth)->state.env.n_germinated[e];
        *n_fossils += es_growth_snapshot(growth)->state.env.n_fossils[e];
    }
    destroy_growth(growth);
    destroy_small_dataset(&dataset);
}

TEST(sixty_four_environments_on_one_and_two_threads) {
    static uint64_t one[E], two[E];
    int64_t n_seeds, n_fossils;
    run_many(1, one, &n_seeds, &n_fossils);
    EXPECT(n_seeds > E && n_fossils > 0); // wild enough
    run_many(2, two, &n_seeds, &n_fossils);
    for (int e = 0; e < E; e++) {
        EXPECT(one[e] == two[e]);
        EXPECT(e == 0 || one[e] != one[e - 1]);
    }
}

// One of the others is broken again and again; all of them but the first three are missing.
TEST(neighbours_do_not_matter) {
    EsDataset dataset;
    make_small_dataset(&dataset, 64, 40);
    EsGrowthOptions options = small_options("r0c0,r1c0", 8);
    EsGrowth *whole = create_growth(&options, &dataset, 1),
             *broken = create_growth(&options, &dataset, 1);
    options.n_envs = 3;
    EsGrowth *few = create_growth(&options, &dataset, 1);
    run_wild(whole, 5, -1);
    run_wild(broken, 5, 4);
    run_wild(few, 5, -1);
    EXPECT(es_growth_snapshot(broken)->state.env.n_rollbacks[4] >= 3);
    for (int64_t e = 0; e < 8; e++) {
        EXPECT((hash_env(whole, e) == hash_env(broken, e)) == (e != 4));
        EXPECT(e >= 3 || hash_env(whole, e) == hash_env(few, e));
    }
    destroy_growth(whole);
    destroy_growth(broken);
    destroy_growth(few);
    destroy_small_dataset(&dataset);
}
