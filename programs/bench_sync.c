// The suite `sync`: what a step asks of the device, and that it does not ask more of it for more
// environments. Counted, not timed.
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "bench_cases.h"

static EsStatus begin_growth(const EsBenchCase *bench_case, const EsBench *bench, void **state) {
    return es_bench_growth_begin(bench_case->settings, bench, state);
}

// Hosts run on the device of the benchmark itself.
typedef struct CountedHosts {
    EsDevice *device; // borrowed
    void *hosts;      // owned
} CountedHosts;

static void end_hosts(void *context) {
    CountedHosts *state = context;
    if (state != NULL) {
        es_bench_host_end(state->hosts);
        es_release(state);
    }
}

static EsStatus begin_hosts(const EsBenchCase *bench_case, const EsBench *bench, void **state_out) {
    CountedHosts *state = NULL;
    *state_out = NULL;
    ES_TRY(es_allocate(sizeof *state, (void **)&state));
    state->device = bench->device;
    EsStatus status = es_bench_host_begin(bench_case->settings, bench, &state->hosts);
    if (status != ES_STATUS_OK) {
        end_hosts(state);
        return status;
    }
    *state_out = state;
    return ES_STATUS_OK;
}

static EsStatus run_hosts(void *context, int variant) {
    return es_bench_host_step(((CountedHosts *)context)->hosts, variant);
}

static EsDeviceCounters count_hosts(void *context) {
    return es_device_counters(((CountedHosts *)context)->device);
}

#define GROWTH_CASE(label, ...)                                                                    \
    {                                                                                              \
        .name = "growth", .parameters = label, .settings = &(const EsBenchHost){__VA_ARGS__},      \
        .begin = begin_growth, .run = es_bench_growth_step, .end = es_bench_growth_end,            \
        .counters = es_bench_growth_counters                                                       \
    }
#define HOSTS_CASE(label, ...)                                                                     \
    {                                                                                              \
        .name = "hosts", .parameters = label, .settings = &(const EsBenchHost){__VA_ARGS__},       \
        .begin = begin_hosts, .run = run_hosts, .end = end_hosts, .counters = count_hosts          \
    }
#define TINY(n)         .task = "tiny", .n_envs = n, .precision = "f32", .amp_dtype = "off"
#define TINY_GROWTH(n)  TINY(n), .n_validation = 500, .seeds = "holding"
#define GROWTH_LABEL(n) "E=" n " task=tiny seeds=holding"
#define HOSTS_LABEL(n)  "E=" n " task=tiny"

static const EsBenchCase cases[] = {
    GROWTH_CASE(GROWTH_LABEL("1"), TINY_GROWTH(1)),
    GROWTH_CASE(GROWTH_LABEL("4"), TINY_GROWTH(4)),
    GROWTH_CASE(GROWTH_LABEL("16"), TINY_GROWTH(16)),
    HOSTS_CASE(HOSTS_LABEL("1"), TINY(1)),
    HOSTS_CASE(HOSTS_LABEL("4"), TINY(4)),
    HOSTS_CASE(HOSTS_LABEL("16"), TINY(16)),
};

// Growth and hosts of the command line.
static EsStatus choose_sync(const EsBenchHost *wanted, EsBenchCase *custom, int *n_custom) {
    static EsBenchHost growth, hosts; // cases run one after the other
    static char growth_parameters[160], hosts_parameters[160];
    char parameters[128];
    int is_chosen = 0;
    *n_custom = 0;
    ES_TRY(es_bench_growth_choose(wanted, &growth, parameters, sizeof parameters, &is_chosen));
    if (!is_chosen) {
        return ES_STATUS_OK;
    }
    snprintf(growth_parameters, sizeof growth_parameters, "%s task=%.20s", parameters, growth.task);
    hosts = growth;
    snprintf(hosts_parameters, sizeof hosts_parameters, "E=%d P=%.8s task=%.20s", hosts.n_envs,
             hosts.precision, hosts.task);
    custom[0] = cases[0];
    custom[0].parameters = growth_parameters;
    custom[0].settings = &growth;
    custom[1] = cases[ES_COUNT_OF(cases) - 1];
    custom[1].parameters = hosts_parameters;
    custom[1].settings = &hosts;
    *n_custom = 2;
    return ES_STATUS_OK;
}

const EsBenchSuite es_bench_sync = {
    .name = "sync",
    .summary = "synchronisations, copies, launches per step; fails if they grow with --envs",
    .cases = cases,
    .n_cases = ES_COUNT_OF(cases),
    .choose = choose_sync,
    .sweeps = "envs batch",
    .is_counted = 1,
};
