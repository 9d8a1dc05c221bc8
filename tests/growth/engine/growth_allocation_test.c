// Ten thousand steps of a very small host: memory is asked for when a plan is built and never
// otherwise. Every allocation of the process counts, whoever makes it.
#include "es_test.h"

#include <malloc.h>

#include "growth/growing_case.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define COUNTS_CALLS 0 // their allocator is already another
#else
#define COUNTS_CALLS 1
#endif

static int64_t n_calls; // of malloc and its kin, by any thread

#if COUNTS_CALLS
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static void count_call(void) { __atomic_fetch_add(&n_calls, 1, __ATOMIC_RELAXED); }

void *malloc(size_t bytes) {
    count_call();
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    count_call();
    return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes) {
    count_call();
    return __libc_realloc(memory, bytes);
}

void *memalign(size_t alignment, size_t bytes) {
    count_call();
    return __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    count_call();
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    count_call();
    *memory = __libc_memalign(alignment, bytes);
    return *memory == NULL;
}
#endif

TEST(ten_thousand_steps) {
    enum { STEPS = 10000 };
    EsDataset dataset;
    make_small_dataset(&dataset, 64, 40);
    EsGrowthOptions options = small_options("r1c1", 2);
    options.settings.episode_steps = 100;
    options.batch = 4;
    options.n_validation_images = 4;
    EsGrowth *growth = create_growth(&options, &dataset, 2);
    int64_t n_quiet = 0, n_loud = 0, n_resets = 0, n_seeds = 0, n_device = 0, n_device_loud = 0;
    EXPECT(!COUNTS_CALLS || n_calls > 10);
    for (int step = 0, episode = 0; step < STEPS; step++) {
        int64_t before = n_calls, builds = es_growth_plans(growth).n_builds;
        int64_t device_before = es_device_counters(growth->device).n_allocations;
        int is_reset = step == 0 || es_growth_is_over(growth);
        if (is_reset) {
            REQUIRE_OK(es_growth_reset(growth, 2 * episode++));
        } else {
            EsAction actions[2] = {wild_action(growth, 0, (uint64_t)episode),
                                   wild_action(growth, 1, (uint64_t)episode)};
            REQUIRE_OK(es_growth_step(growth, actions));
        }
        int has_built = es_growth_plans(growth).n_builds > builds;
        *(has_built ? &n_loud : is_reset ? &n_resets : &n_quiet) += n_calls - before;
        *(has_built ? &n_device_loud : &n_device) +=
            es_device_counters(growth->device).n_allocations - device_before;
        n_seeds += es_growth_snapshot(growth)->state.env.effective_op[0] == ES_GROWTH_OP_GERMINATE;
    }
    EXPECT_EQ(n_quiet, 0);
    EXPECT(n_resets <= STEPS / options.settings.episode_steps); // fresh weights are staged
    EXPECT_EQ(n_device, 0);
    EXPECT(!COUNTS_CALLS || n_loud > 100); // it does count
    EXPECT(n_device_loud > 0);
    EXPECT(n_seeds > STEPS / 100);
    // 7 blueprints with and without a gate, and no seed; each to train and to evaluate
    EXPECT(es_growth_plans(growth).n_builds <= 30 && es_growth_plans(growth).n_builds > 15);
    EXPECT_EQ(es_growth_plans(growth).n_evictions, 0);
    destroy_growth(growth);
    destroy_small_dataset(&dataset);
}
