// The suite `sync`: the requests of a step to the device, which do not grow with the number of
// environments: growth as `esper grow` runs it, its engine alone, plain hosts. Counted, not timed.
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "bench/bench_cases.h"

static EsStatus begin_growth(const EsBenchCase *bench_case, const EsBench *bench, void **fixture) {
    return es_bench_growth_begin(bench_case->settings, bench, fixture);
}

// Hosts run on the device of the benchmark itself.
typedef struct CountedHosts {
    EsDevice *device; // borrowed
    void *hosts;      // owned
} CountedHosts;

static void end_hosts(void *context) {
    CountedHosts *fixture = context;
    if (fixture != NULL) {
        es_bench_host_end(fixture->hosts);
        es_release(fixture);
    }
}

static EsStatus begin_hosts(const EsBenchCase *bench_case, const EsBench *bench,
                            void **fixture_out) {
    CountedHosts *fixture = NULL;
    *fixture_out = NULL;
    ES_TRY(es_allocate(sizeof *fixture, (void **)&fixture));
    fixture->device = bench->device;
    EsStatus status = es_bench_host_begin(bench_case->settings, bench, &fixture->hosts);
    if (status != ES_STATUS_OK) {
        end_hosts(fixture);
        return status;
    }
    *fixture_out = fixture;
    return ES_STATUS_OK;
}

static EsStatus run_hosts(void *context, int variant) {
    return es_bench_host_step(((CountedHosts *)context)->hosts, variant);
}

static EsDeviceCounters count_hosts(void *context) {
    return es_device_counters(((CountedHosts *)context)->device);
}

#define GROWTH_CASE(n, label, ...)                                                                 \
    {                                                                                              \
        .name = n, .parameters = label, .settings = &(const EsBenchHost){__VA_ARGS__},             \
        .begin = begin_growth, .run = es_bench_growth_step, .end = es_bench_growth_end,            \
        .counters = es_bench_growth_counters                                                       \
    }
#define HOSTS_CASE(label, ...)                                                                     \
    {                                                                                              \
        .name = "hosts", .parameters = label, .settings = &(const EsBenchHost){__VA_ARGS__},       \
        .begin = begin_hosts, .run = run_hosts, .end = end_hosts, .counters = count_hosts          \
    }
#define TINY(n)         .task = "tiny", .n_envs = n, .precision = "f32", .amp_dtype = "off"
#define TINY_ENGINE(n)  TINY(n), .n_validation = 500, .seeds = "holding", .policy = "none"
#define TINY_GROWTH(n)  TINY(n), .n_validation = 500, .seeds = "holding", .policy = "learned"
#define ENGINE_LABEL(n) "E=" n " task=tiny seeds=holding policy=none"
#define GROWTH_LABEL(n) "E=" n " task=tiny seeds=holding policy=learned"
#define HOSTS_LABEL(n)  "E=" n " task=tiny"

enum { FIRST_ENGINE = 0, FIRST_GROWTH = 3, FIRST_HOSTS = 6 };

static const EsBenchCase cases[] = {
    GROWTH_CASE("engine", ENGINE_LABEL("1"), TINY_ENGINE(1)),
    GROWTH_CASE("engine", ENGINE_LABEL("4"), TINY_ENGINE(4)),
    GROWTH_CASE("engine", ENGINE_LABEL("16"), TINY_ENGINE(16)),
    GROWTH_CASE("growth", GROWTH_LABEL("1"), TINY_GROWTH(1)),
    GROWTH_CASE("growth", GROWTH_LABEL("4"), TINY_GROWTH(4)),
    GROWTH_CASE("growth", GROWTH_LABEL("16"), TINY_GROWTH(16)),
    HOSTS_CASE(HOSTS_LABEL("1"), TINY(1)),
    HOSTS_CASE(HOSTS_LABEL("4"), TINY(4)),
    HOSTS_CASE(HOSTS_LABEL("16"), TINY(16)),
};

// Engine, growth and hosts of the command line.
static EsStatus choose_sync(const EsBenchHost *wanted, EsBenchCase *custom, int *n_custom) {
    static const char *const policies[] = {"none", "learned", NULL};
    static EsBenchHost chosen[ES_COUNT_OF(policies)]; // cases run one after the other
    static char parameters[ES_COUNT_OF(policies)][200];
    const EsBenchCase *like[] = {&cases[FIRST_ENGINE], &cases[FIRST_GROWTH], &cases[FIRST_HOSTS]};
    char text[160];
    *n_custom = 0;
    for (size_t i = 0; i < ES_COUNT_OF(policies); i++) {
        EsBenchHost *host = &chosen[i];
        int is_hosts = policies[i] == NULL, is_chosen = 0;
        ES_TRY(es_bench_growth_choose(wanted, is_hosts ? "none" : policies[i], host, text,
                                      sizeof text, &is_chosen));
        if (!is_chosen) {
            return ES_STATUS_OK;
        }
        if (is_hosts) {
            snprintf(text, sizeof text, "E=%d P=%.8s", host->n_envs, host->precision);
        }
        snprintf(parameters[i], sizeof parameters[i], "%s task=%.20s", text, host->task);
        custom[i] = *like[i];
        custom[i].parameters = parameters[i];
        custom[i].settings = host;
        (*n_custom)++;
    }
    return ES_STATUS_OK;
}

const EsBenchSuite es_bench_sync = {
    .name = "sync",
    .summary = "synchronisations, copies, launches per step (fails if they grow with --envs), and "
               "bytes copied by direction",
    .cases = cases,
    .n_cases = ES_COUNT_OF(cases),
    .choose = choose_sync,
    .sweeps = "envs batch",
    .is_counted = 1,
};
