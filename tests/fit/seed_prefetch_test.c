// Graphs made ahead: every request ends in one way, also under load, with errors, and with a thread
// that hangs; what a decision takes is what it would have made.
#include "fit/seed_prefetch.h"

#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "es_test.h"
#include "growth/growing_case.h"

enum { N_SLOTS = 4, N_BLUEPRINTS = 6 };
static const int blueprints[N_BLUEPRINTS] = {0, 1, 2, 3, 4, 5};

typedef struct Case {
    EsDataset dataset;
    EsDevice *device;
    EsGrowth *growth;
} Case;

static void begin_case(Case *test) {
    make_small_dataset(&test->dataset, 64, 40);
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &test->device));
    EsGrowthOptions options = small_options("all", 2);
    REQUIRE_OK(es_growth_create(&options, &test->dataset, test->device, &test->growth));
    REQUIRE_OK(es_growth_begin(test->growth, 0));
    REQUIRE_OK(es_growth_advance(test->growth));
}

static void end_case(Case *test) {
    es_growth_destroy(test->growth);
    es_device_close(test->device);
    destroy_small_dataset(&test->dataset);
}

static EsSeedPreparation *foresee(const Case *test, int i) {
    EsSeedPreparation *preparation = NULL;
    REQUIRE_OK(es_seed_preparation_foresee(test->growth, 0, i % N_SLOTS,
                                           blueprints[i / N_SLOTS % N_BLUEPRINTS], &preparation));
    EXPECT(preparation != NULL);
    return preparation;
}

// Waits until nothing is in flight, at most ten seconds.
static EsPrefetchCounts wait_until_made(EsSeedPrefetch *prefetch) {
    EsPrefetchCounts counts = es_seed_prefetch_counts(prefetch);
    for (int i = 0; i < 10000 && counts.in_flight > 0; i++) {
        usleep(1000);
        counts = es_seed_prefetch_counts(prefetch);
    }
    return counts;
}

static int64_t sum_of(const EsPrefetchCounts *counts) {
    return counts->used + counts->failed + counts->timed_out + counts->canceled + counts->stale +
           counts->in_flight + counts->ready;
}

static int never(const EsTopology *topology, void *context) {
    (void)topology;
    (void)context;
    return 0;
}

static int always(const EsTopology *topology, void *context) {
    (void)topology;
    (void)context;
    return 1;
}

TEST(two_hundred_and_fifty_six_requests) {
    Case test;
    EsSeedPrefetch *prefetch;
    begin_case(&test);
    REQUIRE_OK(es_seed_prefetch_create(1e6, NULL, &prefetch));
    // while it trains
    for (int i = 0; i < ES_PREFETCH_MAX; i++) {
        EXPECT(es_seed_prefetch_request(prefetch, foresee(&test, i)));
        if (i % 64 == 0) {
            step_all(test.growth, es_action_wait());
        }
    }
    EsPrefetchCounts counts = wait_until_made(prefetch);
    EXPECT(!es_seed_prefetch_request(prefetch, foresee(&test, 0))); // one too many
    EXPECT_EQ(counts.requested, ES_PREFETCH_MAX);
    EXPECT_EQ(counts.ready, ES_PREFETCH_MAX);
    EXPECT_EQ(sum_of(&counts), ES_PREFETCH_MAX);
    es_seed_prefetch_drop(prefetch, always, NULL);
    counts = es_seed_prefetch_counts(prefetch);
    EXPECT_EQ(counts.ready, ES_PREFETCH_MAX);
    es_seed_prefetch_drop(prefetch, never, NULL);
    counts = es_seed_prefetch_counts(prefetch);
    EXPECT_EQ(counts.stale, ES_PREFETCH_MAX);
    EXPECT_EQ(counts.made, ES_PREFETCH_MAX);
    EXPECT(counts.made_ms > 0 && counts.last_ms > 0);
    EXPECT(es_seed_prefetch_request(prefetch, foresee(&test, 0))); // there are places again
    es_seed_prefetch_destroy(prefetch);
    end_case(&test);
}

// Ends with the hash of a host that got this seed, with or without a graph made ahead.
static uint64_t grow_one(int is_ahead) {
    Case test;
    EsSeedPrefetch *prefetch;
    EsSeedPreparation *wanted = NULL;
    begin_case(&test);
    REQUIRE_OK(es_seed_prefetch_create(1e6, NULL, &prefetch));
    for (int i = 0; is_ahead && i < N_SLOTS * N_BLUEPRINTS; i++) {
        es_seed_prefetch_request(prefetch, foresee(&test, i));
    }
    wait_until_made(prefetch);
    for (int step = 0; step < 6; step++) {
        EsAction actions[2] = {es_action_wait(), es_action_wait()};
        if (step == 1) {
            actions[0] = germinate(1, blueprints[3], 0);
        }
        REQUIRE_OK(es_seed_preparation_create(test.growth, actions, &wanted));
        if (wanted != NULL) {
            es_seed_prefetch_take(prefetch, wanted);
            REQUIRE_OK(es_seed_preparation_run(wanted));
        }
        REQUIRE_OK(es_growth_decide_prepared(test.growth, actions, wanted));
        es_seed_preparation_destroy(wanted);
        REQUIRE_OK(es_growth_advance(test.growth));
    }
    EsPrefetchCounts counts = es_seed_prefetch_counts(prefetch);
    EXPECT_EQ(counts.used, is_ahead);
    EXPECT_EQ(sum_of(&counts), counts.requested);
    uint64_t hash = hash_env(test.growth, 0);
    es_seed_prefetch_destroy(prefetch);
    end_case(&test);
    return hash;
}

TEST(a_decision_takes_what_it_would_have_made) { EXPECT(grow_one(1) == grow_one(0)); }

TEST(slots_with_seeds_are_not_foreseen) {
    Case test;
    EsSeedPreparation *preparation = NULL;
    begin_case(&test);
    step_all(test.growth, germinate(1, blueprints[3], 0));
    REQUIRE_OK(es_seed_preparation_foresee(test.growth, 0, 1, blueprints[0], &preparation));
    EXPECT(preparation == NULL);
    REQUIRE_OK(es_seed_preparation_foresee(test.growth, 0, 2, blueprints[0], &preparation));
    EXPECT_EQ(es_seed_preparation_topology(preparation)->blueprint[1], blueprints[3]);
    EXPECT_EQ(es_seed_preparation_topology(preparation)->blueprint[2], blueprints[0]);
    es_seed_preparation_destroy(preparation);
    end_case(&test);
}

// Fails every second call; hangs while it may.
typedef struct Fault {
    atomic_int n_calls, hangs, n_inside;
} Fault;

static EsStatus go_wrong(void *context) {
    Fault *fault = context;
    int call = atomic_fetch_add(&fault->n_calls, 1);
    atomic_fetch_add(&fault->n_inside, 1);
    while (atomic_load(&fault->hangs)) {
        usleep(1000);
    }
    atomic_fetch_sub(&fault->n_inside, 1);
    return call % 2 == 1 ? ES_FAIL(INPUT, "drill") : ES_STATUS_OK;
}

TEST(errors_are_counted_and_cost_nothing_else) {
    static Fault fault;
    Case test;
    EsSeedPrefetch *prefetch;
    begin_case(&test);
    REQUIRE_OK(es_seed_prefetch_create(1e6, &(EsDeadlineDrill){go_wrong, &fault}, &prefetch));
    for (int i = 0; i < 20; i++) {
        es_seed_prefetch_request(prefetch, foresee(&test, i));
    }
    EsPrefetchCounts counts = wait_until_made(prefetch);
    EXPECT_EQ(counts.ready, 10);
    EXPECT_EQ(counts.failed, 10);
    es_seed_prefetch_drop(prefetch, always, NULL);
    counts = es_seed_prefetch_counts(prefetch);
    EXPECT_EQ(counts.failed, 10);
    EXPECT_EQ(sum_of(&counts), 20);
    es_seed_prefetch_destroy(prefetch);
    end_case(&test);
}

TEST(a_thread_that_hangs_is_not_waited_for) {
    static Fault fault;
    Case test;
    EsSeedPrefetch *prefetch;
    atomic_store(&fault.hangs, 1);
    begin_case(&test);
    REQUIRE_OK(es_seed_prefetch_create(20, &(EsDeadlineDrill){go_wrong, &fault}, &prefetch));
    for (int i = 0; i < 5; i++) {
        es_seed_prefetch_request(prefetch, foresee(&test, i));
    }
    while (atomic_load(&fault.n_inside) == 0) {
        usleep(1000);
    }
    usleep(50000); // longer than the time-out
    EXPECT(!es_seed_prefetch_request(prefetch, foresee(&test, 6)));
    es_seed_prefetch_drop(prefetch, always, NULL);
    EsPrefetchCounts counts = es_seed_prefetch_counts(prefetch);
    EXPECT_EQ(counts.timed_out, 5);
    EXPECT_EQ(sum_of(&counts), 5);
    es_seed_prefetch_destroy(prefetch); // its thread still hangs, with a preparation of its own
    atomic_store(&fault.hangs, 0);
    while (atomic_load(&fault.n_inside) > 0) {
        usleep(1000);
    }
    end_case(&test);
}

TEST(requests_that_are_not_wanted_any_more_are_canceled) {
    static Fault fault;
    Case test;
    EsSeedPrefetch *prefetch;
    atomic_store(&fault.hangs, 1);
    begin_case(&test);
    REQUIRE_OK(es_seed_prefetch_create(1e6, &(EsDeadlineDrill){go_wrong, &fault}, &prefetch));
    for (int i = 0; i < 5; i++) {
        es_seed_prefetch_request(prefetch, foresee(&test, i));
    }
    es_seed_prefetch_drop(prefetch, never, NULL);
    EsPrefetchCounts counts = es_seed_prefetch_counts(prefetch);
    EXPECT_EQ(counts.canceled, 5);
    EXPECT_EQ(sum_of(&counts), 5);
    atomic_store(&fault.hangs, 0);
    es_seed_prefetch_destroy(prefetch);
    while (atomic_load(&fault.n_inside) > 0) {
        usleep(1000);
    }
    end_case(&test);
}
