// Drills of the rails: each runs a small fit twice, once with the fault and once with what the
// rules make of it, and compares events, counters and the bits of all networks.
#include "esper/drill.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/folder.h"
#include "base/memory.h"
#include "base/random_rules.h"
#include "runs/fit/fit_drill.h"
#include "runs/fit/fit_search.h"

enum { EPOCHS = 10 };

// --- the fault ---

typedef enum FaultKind { NO_FAULT, FAILS, SLEEPS, HANGS } FaultKind;

// Calls first .. last of the controller, of preparing seeds, or of making graphs ahead, counted
// from 1, go wrong. It outlives threads that hang.
typedef struct Fault {
    FaultKind kind;
    int is_of_seeds, is_of_prefetch; // else of the controller
    int first, last;
    double seconds; // of SLEEPS
    atomic_int n_calls;
    atomic_int is_over;  // HANGS may return
    atomic_int n_inside; // calls that have not returned
} Fault;

static EsStatus go_wrong(void *context) {
    Fault *fault = context;
    FaultKind kind = fault->kind; // nothing is read after the call has left
    int call = atomic_fetch_add(&fault->n_calls, 1) + 1;
    if (call < fault->first || call > fault->last) {
        return ES_STATUS_OK;
    }
    atomic_fetch_add(&fault->n_inside, 1);
    if (kind == SLEEPS) {
        usleep((useconds_t)(fault->seconds * 1e6));
    }
    while (kind == HANGS && !atomic_load(&fault->is_over)) {
        usleep(1000);
    }
    atomic_fetch_sub(&fault->n_inside, 1);
    return kind == FAILS ? ES_FAIL(INPUT, "drill: call %d fails", call) : ES_STATUS_OK;
}

// Lets calls that hang return and waits for all, so that the next drill finds nobody inside.
static void end_fault(Fault *fault) {
    atomic_store(&fault->is_over, 1);
    while (atomic_load(&fault->n_inside) > 0) {
        usleep(1000);
    }
}

// --- a fit ---

// One of the two fits of a drill.
typedef struct Fit {
    EsFitSettings settings;
    EsFitDevices devices;
    EsDataset dataset;
    EsFitPlan plan;
    EsFitRails *rails;
    EsFitSearch *search;
    Fault *fault;
    EsDeadlineDrill drill, seed_drill, prefetch_drill;
    int64_t n_named[12]; // of the events that are asked for
    double slowest_hook_ms;
    int n_left_inside; // epochs that went on while a call had not returned
    uint64_t hash;     // of all networks at the end
} Fit;

static const char *const counted_events[] = {"tolaria.tamiyo_timeout",
                                             "tolaria.tamiyo_error",
                                             "tolaria.tamiyo_abandoned",
                                             "tolaria.kasmina_timeout",
                                             "tolaria.kasmina_error",
                                             "prefetch_timeout",
                                             "tolaria.conservative_mode_entered",
                                             "tolaria.conservative_mode_cleared",
                                             "tolaria.epoch_budget_exceeded",
                                             "tolaria.hook_budget_exceeded",
                                             "tolaria.breaker_opened",
                                             "tolaria.emergency.halt"};

static void close_fit(Fit *fit) {
    es_fit_search_destroy(fit->search);
    es_fit_rails_destroy(fit->rails);
    es_fit_plan_destroy(&fit->plan);
    es_dataset_destroy(&fit->dataset);
    es_fit_devices_close(&fit->devices);
}

// Candidates on `tiny`, few updates, a policy that remembers nothing. `drill` is of the controller.
static EsStatus open_fit(Fit *fit, const EsRailsSettings *rails, int n_epochs, Fault *fault,
                         EsDeadlineDrill drill, EsDeadlineDrill seed_drill) {
    memset(fit, 0, sizeof *fit);
    EsFitSettings *settings = &fit->settings;
    es_fit_run_config(settings); // defaults
    snprintf(settings->data.name, sizeof settings->data.name, "tiny");
    snprintf(settings->task, sizeof settings->task, "tiny");
    snprintf(settings->policy, sizeof settings->policy, "random");
    settings->run.n_rounds = n_epochs;
    settings->run.n_threads = 1;
    settings->n_candidates = n_epochs > EPOCHS ? 2 : 8; // long ones are about rails
    settings->epoch_batches = 2;
    settings->max_parameters = 3000;
    settings->host_learning_rate = settings->seed_learning_rate = ES_FIT_RATE;
    settings->rails = *rails;
    fit->fault = fault;
    fit->drill = drill;
    fit->seed_drill = seed_drill;
    EsDatasetOptions options = es_data_settings_options(&settings->data);
    EsThreadPool *pool = NULL;
    ES_TRY(es_thread_pool_create(&pool, 1));
    EsStatus status = es_dataset_open(&fit->dataset, settings->data.name, &options, pool);
    es_thread_pool_destroy(pool);
    ES_TRY(status);
    ES_TRY(es_fit_devices_open(settings, &fit->devices));
    ES_TRY(es_fit_plan_create(settings, &fit->dataset, &fit->devices, &fit->plan));
    ES_TRY(es_fit_rails_create(&settings->rails, &fit->rails));
    fit->rails->drill = &fit->drill;
    fit->rails->seed_drill = &fit->seed_drill;
    if (fault->is_of_prefetch) {
        fit->prefetch_drill = (EsDeadlineDrill){go_wrong, fault};
        fit->rails->prefetch_drill = &fit->prefetch_drill;
    }
    EsFitSearchOptions search =
        es_fit_plan_search(&fit->plan, settings, &fit->dataset, &fit->devices);
    search.rails = fit->rails;
    return es_fit_search_create(&search, &fit->search);
}

static EsStatus open_drill(Fit *fit, const EsRailsSettings *rails, Fault *fault) {
    const EsDeadlineDrill none = {0}, drill = {go_wrong, fault};
    return open_fit(fit, rails, EPOCHS, fault,
                    fault->is_of_seeds || fault->is_of_prefetch ? none : drill,
                    fault->is_of_seeds ? drill : none);
}

static EsStatus hash_networks(Fit *fit) {
    EsStateHash *hash = NULL;
    ES_TRY(es_state_hash_create(fit->devices.device, fit->settings.n_candidates, &hash));
    es_state_hash_begin(hash);
    EsStatus status = ES_STATUS_OK;
    for (int g = 0; g < fit->search->n_groups && status == ES_STATUS_OK; g++) {
        if (fit->search->groups[g]->n > 0) {
            status = es_growth_append_state(fit->search->groups[g]->growth, hash);
        }
    }
    fit->hash = es_state_hash_value(hash);
    es_state_hash_destroy(hash);
    return status;
}

static void count_events(Fit *fit) {
    const EsRails *rails = &fit->rails->rails;
    for (int i = 0; i < rails->n_events; i++) {
        for (size_t k = 0; k < ES_COUNT_OF(counted_events); k++) {
            fit->n_named[k] += strcmp(rails->events[i].name, counted_events[k]) == 0;
        }
    }
}

// An epoch and its assessment, with times that are given, so that no drill depends on the machine.
static EsStatus run_epoch(Fit *fit, int epoch, const EsRailsEpoch *measured, int64_t now_ns,
                          EsRailsVerdict *verdict) {
    EsRails *rails = &fit->rails->rails;
    es_rails_begin_epoch(rails);
    ES_TRY(es_fit_search_advance(fit->search, epoch));
    int64_t start_ns = es_clock_ns();
    ES_TRY(es_fit_search_decide(fit->search, epoch));
    double hook_ms = 1e3 * es_clock_seconds_since(start_ns);
    fit->slowest_hook_ms = ES_MAX(fit->slowest_hook_ms, hook_ms);
    fit->n_left_inside += atomic_load(&fit->fault->n_inside) > 0;
    *verdict = es_rails_assess(rails, measured, now_ns);
    count_events(fit);
    return ES_STATUS_OK;
}

// Epochs until the end or a halt; an epoch a second, by the breaker's clock.
static EsStatus run_fit(Fit *fit, double (*latency_ms)(int epoch)) {
    EsRailsVerdict verdict = {.must_halt = 0};
    for (int epoch = 1; epoch <= EPOCHS && !verdict.must_halt; epoch++) {
        const EsRailsEpoch measured = {.latency_ms = latency_ms(epoch), .hook_ms = 0};
        ES_TRY(run_epoch(fit, epoch, &measured, (int64_t)epoch * 1000000000, &verdict));
    }
    return hash_networks(fit);
}

// --- promises ---

void es_drill_promise(EsDrillReport *report, int holds, const char *format, ...) {
    va_list values;
    va_start(values, format);
    if (!holds && report->problem[0] == '\0') {
        vsnprintf(report->problem, sizeof report->problem, format, values);
    }
    va_end(values);
}

static void promise_events(EsDrillReport *report, const Fit *fit, const char *name, int64_t n) {
    for (size_t k = 0; k < ES_COUNT_OF(counted_events); k++) {
        if (strcmp(counted_events[k], name) == 0) {
            es_drill_promise(report, fit->n_named[k] == n, "%lld events %s, expected %lld",
                             (long long)fit->n_named[k], name, (long long)n);
        }
    }
}

static void describe(EsDrillReport *report, const Fit *fit) {
    size_t used = 0;
    const EsRails *rails = &fit->rails->rails;
    for (size_t k = 0; k < ES_COUNT_OF(counted_events) && used < sizeof report->happened; k++) {
        if (fit->n_named[k] > 0) {
            used += (size_t)snprintf(report->happened + used, sizeof report->happened - used,
                                     "%lld %s, ", (long long)fit->n_named[k], counted_events[k]);
        }
    }
    if (used < sizeof report->happened) {
        snprintf(report->happened + used, sizeof report->happened - used,
                 "%lld of %lld epochs failed; slowest decision %.1f ms",
                 (long long)rails->counts.failed, (long long)rails->counts.epochs,
                 fit->slowest_hook_ms);
    }
}

static double no_time(int epoch) {
    (void)epoch;
    return 0;
}

static EsRailsSettings usual_rails(void) {
    return (EsRailsSettings){.is_on = 1,
                             .epoch_budget_ms = 1000,
                             .controller_deadline_ms = 60e3f,
                             .seed_deadline_ms = 60e3f,
                             .breaker_failures = 3,
                             .breaker_successes = 1,
                             .breaker_seconds = 3};
}

// Runs a fit without faults: a drill whose networks are like its own would prove nothing.
static EsStatus hash_calm_fit(uint64_t *hash) {
    static Fault none;
    Fit fit;
    const EsRailsSettings rails = usual_rails();
    EsStatus status = open_drill(&fit, &rails, &none);
    status = status == ES_STATUS_OK ? run_fit(&fit, no_time) : status;
    *hash = fit.hash;
    close_fit(&fit);
    return status;
}

static void promise_networks(EsDrillReport *report, const Fit *fit, const Fit *twin,
                             uint64_t calm_hash, const char *problem) {
    es_drill_promise(report, fit->hash == twin->hash, "%s", problem);
    es_drill_promise(report, fit->hash != calm_hash, "the fault has changed no network");
}

// Runs the fit with the fault and its twin, in which the same calls fail at once; the caller closes
// both.
static EsStatus run_twins(Fit *fit, Fit *twin, const EsRailsSettings *rails, Fault *fault,
                          Fault *twin_fault, uint64_t *calm_hash) {
    const EsRailsSettings patient = usual_rails();
    memset(fit, 0, sizeof *fit);
    memset(twin, 0, sizeof *twin);
    ES_TRY(hash_calm_fit(calm_hash));
    ES_TRY(open_drill(fit, rails, fault));
    ES_TRY(run_fit(fit, no_time));
    ES_TRY(open_drill(twin, &patient, twin_fault));
    return run_fit(twin, no_time);
}

// The second decision, or the second time that there are seeds to prepare, fails.
static EsStatus fail_call(EsDrillReport *report, int is_of_seeds) {
    static Fault fault, again;
    Fit fit, twin;
    uint64_t calm_hash = 0;
    EsRailsSettings rails = usual_rails();
    fault = (Fault){.kind = FAILS, .is_of_seeds = is_of_seeds, .first = 2, .last = 2};
    again = (Fault){.kind = FAILS, .is_of_seeds = is_of_seeds, .first = 2, .last = 2};
    EsStatus status = run_twins(&fit, &twin, &rails, &fault, &again, &calm_hash);
    if (status == ES_STATUS_OK) {
        describe(report, &fit);
        promise_events(report, &fit, "tolaria.tamiyo_error", !is_of_seeds);
        promise_events(report, &fit, "tolaria.kasmina_error", is_of_seeds);
        promise_events(report, &fit, "tolaria.conservative_mode_entered", 1);
        promise_events(report, &fit, "tolaria.conservative_mode_cleared", 1);
        es_drill_promise(report, fit.rails->rails.counts.failed == 1,
                         "%lld failed epochs, expected 1",
                         (long long)fit.rails->rails.counts.failed);
        es_drill_promise(report, is_of_seeds || atomic_load(&fault.n_calls) == EPOCHS - 1,
                         "%d calls, expected all but the one of the conservative epoch",
                         atomic_load(&fault.n_calls));
        promise_networks(report, &fit, &twin, calm_hash, "two such fits have different networks");
    }
    close_fit(&fit);
    close_fit(&twin);
    return status;
}

static EsStatus drill_error(EsDrillReport *report) { return fail_call(report, 0); }

static EsStatus drill_seed_error(EsDrillReport *report) { return fail_call(report, 1); }

// The same call takes longer than its deadline.
static EsStatus delay_call(EsDrillReport *report, int is_of_seeds) {
    static Fault fault, failing;
    Fit fit, twin;
    uint64_t calm_hash = 0;
    EsRailsSettings rails = usual_rails();
    *(is_of_seeds ? &rails.seed_deadline_ms : &rails.controller_deadline_ms) = 1000;
    fault =
        (Fault){.kind = SLEEPS, .is_of_seeds = is_of_seeds, .first = 2, .last = 2, .seconds = 3};
    failing = (Fault){.kind = FAILS, .is_of_seeds = is_of_seeds, .first = 2, .last = 2};
    EsStatus status = run_twins(&fit, &twin, &rails, &fault, &failing, &calm_hash);
    if (status == ES_STATUS_OK) {
        const EsRailsCounts *counts = &fit.rails->rails.counts;
        describe(report, &fit);
        promise_events(report, &fit, "tolaria.tamiyo_timeout", !is_of_seeds);
        promise_events(report, &fit, "tolaria.kasmina_timeout", is_of_seeds);
        promise_events(report, &fit, "tolaria.conservative_mode_cleared", 1);
        es_drill_promise(report,
                         counts->tamiyo_timeouts == !is_of_seeds &&
                             counts->kasmina_timeouts == is_of_seeds,
                         "the counters are %lld and %lld", (long long)counts->tamiyo_timeouts,
                         (long long)counts->kasmina_timeouts);
        es_drill_promise(report, fit.n_left_inside > 0, "training waited for the answer");
        promise_networks(report, &fit, &twin, calm_hash,
                         "the networks differ from those of a fit in which the same call fails");
    }
    end_fault(&fault);
    close_fit(&fit);
    close_fit(&twin);
    return status;
}

static EsStatus drill_timeout(EsDrillReport *report) { return delay_call(report, 0); }

static EsStatus drill_seed_timeout(EsDrillReport *report) { return delay_call(report, 1); }

static EsStatus drill_hang(EsDrillReport *report) {
    static Fault fault, failing;
    Fit fit, twin;
    uint64_t calm_hash = 0;
    EsRailsSettings rails = usual_rails();
    rails.controller_deadline_ms = 100;
    fault = (Fault){.kind = HANGS, .first = 1, .last = 1000};
    failing = (Fault){.kind = FAILS, .first = 1, .last = 1000};
    EsStatus status = run_twins(&fit, &twin, &rails, &fault, &failing, &calm_hash);
    if (status == ES_STATUS_OK) {
        describe(report, &fit);
        promise_events(report, &fit, "tolaria.tamiyo_timeout", ES_DEADLINE_ABANDONED_MAX);
        promise_events(report, &fit, "tolaria.tamiyo_abandoned", 1);
        es_drill_promise(report, fit.rails->rails.is_spent, "it would be asked again");
        es_drill_promise(report, atomic_load(&fault.n_inside) <= ES_DEADLINE_ABANDONED_MAX,
                         "%d threads hang", atomic_load(&fault.n_inside));
        promise_networks(report, &fit, &twin, calm_hash,
                         "the networks differ from those of hosts that only wait");
    }
    end_fault(&fault);
    close_fit(&fit);
    close_fit(&twin);
    return status;
}

// The thread that makes graphs ahead hangs in its first: they are made when they are needed.
static EsStatus drill_prefetch(EsDrillReport *report) {
    static Fault fault;
    Fit fit;
    uint64_t calm_hash = 0;
    EsRailsSettings rails = usual_rails();
    rails.prefetch = 16;
    rails.prefetch_timeout_ms = 1;
    fault = (Fault){.kind = HANGS, .is_of_prefetch = 1, .first = 1, .last = 1000};
    EsStatus status = hash_calm_fit(&calm_hash);
    memset(&fit, 0, sizeof fit);
    if (status == ES_STATUS_OK) {
        status = open_drill(&fit, &rails, &fault);
    }
    status = status == ES_STATUS_OK ? run_fit(&fit, no_time) : status;
    for (int i = 0; i < 5000 && atomic_load(&fault.n_inside) == 0; i++) {
        usleep(1000); // a busy machine may not have let the thread in yet
    }
    if (status == ES_STATUS_OK) {
        const EsPrefetchCounts *counts = &fit.rails->prefetch;
        describe(report, &fit);
        es_drill_promise(report, atomic_load(&fault.n_inside) > 0, "training waited for a graph");
        es_drill_promise(report, counts->requested > 0 && counts->used == 0,
                         "%lld requests, %lld used", (long long)counts->requested,
                         (long long)counts->used);
        es_drill_promise(report, counts->timed_out > 0, "no request timed out");
        es_drill_promise(report, fit.rails->rails.counts.failed == 0,
                         "%lld epochs failed, expected none",
                         (long long)fit.rails->rails.counts.failed);
        es_drill_promise(report, fit.hash == calm_hash, "the networks differ from those without");
    }
    close_fit(&fit); // requests that wait are gone before the thread goes on
    end_fault(&fault);
    return status;
}

// Epochs 3 to 5 take too long.
static double slow_in_the_middle(int epoch) { return epoch >= 3 && epoch <= 5 ? 2000 : 1; }

// Three slow epochs open the breaker once; n_failed epochs fail until it is closed again.
static void promise_breaker(EsDrillReport *report, const Fit *fit, int64_t n_failed) {
    const EsRails *rails = &fit->rails->rails;
    promise_events(report, fit, "tolaria.epoch_budget_exceeded", 3);
    promise_events(report, fit, "tolaria.breaker_opened", 1);
    es_drill_promise(report, rails->counts.failed == n_failed, "%lld failed epochs, expected %lld",
                     (long long)rails->counts.failed, (long long)n_failed);
    es_drill_promise(report, rails->breaker.state == ES_BREAKER_CLOSED,
                     "the breaker did not close");
}

static EsStatus drill_breaker(EsDrillReport *report) {
    static Fault none;
    Fit fit;
    EsRailsSettings rails = usual_rails();
    EsStatus status = open_drill(&fit, &rails, &none);
    status = status == ES_STATUS_OK ? run_fit(&fit, slow_in_the_middle) : status;
    if (status == ES_STATUS_OK) {
        describe(report, &fit);
        promise_breaker(report, &fit, 5); // open from epoch 5 on, half open and good in epoch 8
        es_drill_promise(report, fit.rails->rails.level == ES_EMERGENCY_NOTICE, "the level stays");
    }
    close_fit(&fit);
    return status;
}

static double always_slow(int epoch) {
    (void)epoch;
    return 2000;
}

static EsStatus drill_halt(EsDrillReport *report) {
    static Fault none;
    Fit fit;
    EsRailsSettings rails = usual_rails();
    rails.halt_failures = 4;
    EsStatus status = open_drill(&fit, &rails, &none);
    status = status == ES_STATUS_OK ? run_fit(&fit, always_slow) : status;
    if (status == ES_STATUS_OK) {
        describe(report, &fit);
        promise_events(report, &fit, "tolaria.emergency.halt", 1);
        es_drill_promise(report, fit.rails->rails.counts.epochs == 4, "%lld epochs, expected 4",
                         (long long)fit.rails->rails.counts.epochs);
        es_drill_promise(report, fit.search->best != NULL, "there is no network");
    }
    close_fit(&fit);
    return status;
}

// --- a clock that jumps ---

// Seconds of the clock at each epoch: an hour ahead when the breaker opens, then back where it was.
static int64_t jumping_ns(int epoch) {
    return ((int64_t)epoch + (epoch >= 3 && epoch <= 5 ? 3600 : 0)) * 1000000000;
}

static EsStatus drill_clock(EsDrillReport *report) {
    static Fault none;
    Fit fit;
    EsRailsSettings rails = usual_rails();
    EsRailsVerdict verdict;
    EsStatus status = open_drill(&fit, &rails, &none);
    for (int epoch = 1; epoch <= EPOCHS && status == ES_STATUS_OK; epoch++) {
        // an epoch in which the clock goes back seems to end before it has begun
        const EsRailsEpoch measured = {.latency_ms =
                                           epoch == 6 ? -3600e3 : slow_in_the_middle(epoch)};
        status = run_epoch(&fit, epoch, &measured, jumping_ns(epoch), &verdict);
    }
    if (status == ES_STATUS_OK) {
        describe(report, &fit);
        // open from epoch 5 on; its time begins anew in epoch 6, half open and good in epoch 9
        promise_breaker(report, &fit, 6);
    }
    close_fit(&fit);
    return status;
}

// --- stress: faults drawn from a seed ---

// Faults of an epoch. Those of the controller strike only when it is asked, those of seeds when
// there are some to prepare.
typedef enum StressKind {
    STRESS_NONE,
    STRESS_ERROR,
    STRESS_TIMEOUT,
    STRESS_SEED_ERROR,
    STRESS_SEED_TIMEOUT,
    STRESS_SLOW_EPOCH,
    STRESS_SLOW_HOOK,
    STRESS_CLOCK
} StressKind;

// The fault of controller or seeds of the epoch at hand. Outlives threads whose answer is late.
typedef struct StressFault {
    Fault fault;                                    // for n_inside
    atomic_int kind;                                // StressKind
    atomic_int is_over;                             // a call that is late may return
    atomic_llong n_struck[STRESS_SEED_TIMEOUT + 1]; // by kind
    int fails_only;                                 // in the twin: late calls fail at once
} StressFault;

static EsStatus strike(StressFault *stress, int error_kind, int timeout_kind) {
    int kind = atomic_load(&stress->kind);
    if (kind != error_kind && kind != timeout_kind) {
        return ES_STATUS_OK;
    }
    atomic_fetch_add(&stress->n_struck[kind], 1);
    if (kind == error_kind || stress->fails_only) {
        return ES_FAIL(INPUT, "drill: the call fails");
    }
    atomic_fetch_add(&stress->fault.n_inside, 1);
    while (!atomic_load(&stress->is_over)) {
        usleep(1000);
    }
    atomic_fetch_sub(&stress->fault.n_inside, 1);
    return ES_STATUS_OK;
}

static EsStatus strike_controller(void *context) {
    return strike(context, STRESS_ERROR, STRESS_TIMEOUT);
}

static EsStatus strike_seeds(void *context) {
    return strike(context, STRESS_SEED_ERROR, STRESS_SEED_TIMEOUT);
}

static long long count_struck(const StressFault *stress) {
    long long n = 0;
    for (int kind = STRESS_ERROR; kind <= STRESS_SEED_TIMEOUT; kind++) {
        n += atomic_load(&stress->n_struck[kind]);
    }
    return n;
}

static StressKind draw_fault(uint64_t seed, int epoch) {
    EsRandom4 random = es_random_draw(seed, 0, ES_PURPOSE_EVALUATION, (uint32_t)epoch, 0);
    uint32_t share = random.word[0] % 1000; // of thousand
    return share < 3     ? STRESS_TIMEOUT
           : share < 100 ? STRESS_ERROR
           : share < 180 ? STRESS_SLOW_EPOCH
           : share < 230 ? STRESS_SLOW_HOOK
           : share < 250 ? STRESS_CLOCK
           : share < 350 ? STRESS_SEED_ERROR
           : share < 360 ? STRESS_SEED_TIMEOUT
                         : STRESS_NONE;
}

// Counts of a stress, by what was injected and what the verdicts say.
typedef struct StressCounts {
    int64_t slow_epochs, slow_hooks, jumps;
    int64_t struck,
        open; // epochs with a fault that struck; failed because the breaker is open alone
} StressCounts;

static EsStatus run_stress(Fit *fit, StressFault *stress, int n_epochs, uint64_t seed,
                           StressCounts *counts) {
    int64_t now_ns = 0;
    for (int epoch = 1; epoch <= n_epochs; epoch++) {
        StressKind kind = draw_fault(seed, epoch);
        long long n_before = count_struck(stress);
        const EsRailsEpoch measured = {.latency_ms = kind == STRESS_SLOW_EPOCH ? 2000 : 1,
                                       .hook_ms = kind == STRESS_SLOW_HOOK ? 100 : 1};
        EsRailsVerdict verdict;
        // back by up to an hour, where the clock jumps
        now_ns += kind == STRESS_CLOCK ? -(int64_t)(epoch % 3600) * 1000000000 : 1000000000;
        atomic_store(&stress->is_over, 0);
        atomic_store(&stress->kind, kind);
        ES_TRY(run_epoch(fit, epoch, &measured, now_ns, &verdict));
        atomic_store(&stress->is_over, 1);
        while (atomic_load(&stress->fault.n_inside) > 0) {
            usleep(1000);
        }
        int has_struck = kind == STRESS_SLOW_EPOCH || kind == STRESS_SLOW_HOOK ||
                         count_struck(stress) > n_before;
        counts->slow_epochs += kind == STRESS_SLOW_EPOCH;
        counts->slow_hooks += kind == STRESS_SLOW_HOOK;
        counts->jumps += kind == STRESS_CLOCK;
        counts->struck += has_struck;
        counts->open += !has_struck && verdict.reason == ES_RAILS_BREAKER_OPEN;
    }
    return hash_networks(fit);
}

static void promise_stress(EsDrillReport *report, const Fit *fit, const StressFault *stress,
                           const StressCounts *counts, int n_epochs) {
    const EsRailsCounts *found = &fit->rails->rails.counts;
    int64_t entered = 0, cleared = 0;
    for (size_t k = 0; k < ES_COUNT_OF(counted_events); k++) {
        if (strcmp(counted_events[k], "tolaria.conservative_mode_entered") == 0) {
            entered = fit->n_named[k];
        } else if (strcmp(counted_events[k], "tolaria.conservative_mode_cleared") == 0) {
            cleared = fit->n_named[k];
        }
    }
    const atomic_llong *struck = stress->n_struck;
    promise_events(report, fit, "tolaria.tamiyo_error", atomic_load(&struck[STRESS_ERROR]));
    promise_events(report, fit, "tolaria.tamiyo_timeout", atomic_load(&struck[STRESS_TIMEOUT]));
    promise_events(report, fit, "tolaria.kasmina_error", atomic_load(&struck[STRESS_SEED_ERROR]));
    promise_events(report, fit, "tolaria.kasmina_timeout",
                   atomic_load(&struck[STRESS_SEED_TIMEOUT]));
    promise_events(report, fit, "tolaria.epoch_budget_exceeded", counts->slow_epochs);
    promise_events(report, fit, "tolaria.hook_budget_exceeded", counts->slow_hooks);
    promise_events(report, fit, "tolaria.tamiyo_abandoned", 0);
    es_drill_promise(report,
                     found->tamiyo_timeouts == atomic_load(&struck[STRESS_TIMEOUT]) &&
                         found->kasmina_timeouts == atomic_load(&struck[STRESS_SEED_TIMEOUT]),
                     "%lld and %lld time-outs counted, %lld and %lld injected",
                     (long long)found->tamiyo_timeouts, (long long)found->kasmina_timeouts,
                     (long long)atomic_load(&struck[STRESS_TIMEOUT]),
                     (long long)atomic_load(&struck[STRESS_SEED_TIMEOUT]));
    es_drill_promise(report, found->epochs == n_epochs, "%lld epochs counted, %d run",
                     (long long)found->epochs, n_epochs);
    es_drill_promise(report, found->failed == counts->struck + counts->open,
                     "%lld failed epochs counted, %lld faults struck, %lld more while the breaker "
                     "was open",
                     (long long)found->failed, (long long)counts->struck, (long long)counts->open);
    es_drill_promise(report, entered - cleared == fit->rails->rails.is_conservative,
                     "conservative mode entered %lld times, cleared %lld times", (long long)entered,
                     (long long)cleared);
}

static EsStatus open_stress(Fit *fit, StressFault *stress, int n_epochs, int fails_only) {
    EsRailsSettings rails = usual_rails();
    rails.hook_budget_ms = 50;
    rails.controller_deadline_ms = rails.seed_deadline_ms = fails_only ? 60e3f : 2000;
    stress->fails_only = fails_only;
    return open_fit(fit, &rails, n_epochs, &stress->fault,
                    (EsDeadlineDrill){strike_controller, stress},
                    (EsDeadlineDrill){strike_seeds, stress});
}

// A sanitizer starts a thread of its own with the first of ours, and keeps it.
static EsStatus start_first_thread(void) {
    EsThreadPool *pool = NULL;
    ES_TRY(es_thread_pool_create(&pool, 2));
    es_thread_pool_destroy(pool);
    return ES_STATUS_OK;
}

// Threads of this process; 0 where the system does not say.
static int count_threads(void) {
    EsFolderEntry *entries = NULL;
    int n = 0;
    if (es_folder_list("/proc/self/task", &entries, &n) != ES_STATUS_OK) {
        return 0;
    }
    es_release(entries);
    return n;
}

// Workers end by themselves, soon after nobody needs them.
static void promise_threads(EsDrillReport *report, int n_before) {
    int n = count_threads();
    for (int i = 0; i < 5000 && n > n_before; i++) {
        usleep(1000);
        n = count_threads();
    }
    es_drill_promise(report, n <= n_before, "%d threads, before it %d", n, n_before);
}

EsStatus es_drill_stress(int64_t n_epochs, uint64_t seed, EsDrillReport *report) {
    // static: a call that is late may still read it
    static StressFault stress, again;
    StressCounts counts = {0}, twin_counts = {0};
    Fit fit, twin;
    memset(report, 0, sizeof *report);
    memset(&fit, 0, sizeof fit);
    memset(&twin, 0, sizeof twin);
    memset(&stress, 0, sizeof stress);
    memset(&again, 0, sizeof again);
    report->name = "stress";
    report->injected = "faults of controller, seeds, budgets and clock, drawn from the seed";
    report->shown = "a warning for each; training goes on";
    if (n_epochs < 1 || n_epochs > ES_DRILL_EPOCHS_MAX) {
        return ES_FAIL(ARGUMENT, "a stress has 1 to %d epochs", ES_DRILL_EPOCHS_MAX);
    }
    ES_TRY(start_first_thread());
    int n_threads = count_threads();
    EsStatus status = open_stress(&fit, &stress, (int)n_epochs, 0);
    status =
        status == ES_STATUS_OK ? run_stress(&fit, &stress, (int)n_epochs, seed, &counts) : status;
    status = status == ES_STATUS_OK ? open_stress(&twin, &again, (int)n_epochs, 1) : status;
    status = status == ES_STATUS_OK ? run_stress(&twin, &again, (int)n_epochs, seed, &twin_counts)
                                    : status;
    if (status == ES_STATUS_OK) {
        describe(report, &fit);
        promise_stress(report, &fit, &stress, &counts, (int)n_epochs);
        es_drill_promise(report, fit.hash == twin.hash,
                         "the networks differ from those of calls that fail instead of being "
                         "late");
    }
    close_fit(&fit);
    close_fit(&twin);
    promise_threads(report, n_threads);
    report->has_passed = status == ES_STATUS_OK && report->problem[0] == '\0';
    return status;
}

// --- the list ---

static const EsDrill drills[] = {
    {"controller-error", "the policy fails in its second decision",
     "a warning tolaria.tamiyo_error; that epoch and the next decide nothing", drill_error},
    {"controller-timeout", "the second decision takes longer than its deadline",
     "a warning tolaria.tamiyo_timeout; the late answer is thrown away", drill_timeout},
    {"controller-hang", "no decision ever ends",
     "four time-outs, then tolaria.tamiyo_abandoned; training goes on without growth", drill_hang},
    {"seed-error", "preparing seeds fails for the second time that there are some",
     "a warning tolaria.kasmina_error; the seeds are not planted", drill_seed_error},
    {"seed-timeout", "preparing seeds takes longer than its deadline",
     "a warning tolaria.kasmina_timeout; the late seeds are thrown away", drill_seed_timeout},
    {"prefetch-timeout", "the thread that makes graphs of seeds ahead hangs",
     "a warning prefetch_timeout; graphs are made when they are needed, with the same bits",
     drill_prefetch},
    {"breaker", "three epochs in a row exceed their budget",
     "tolaria.breaker_opened; it closes after its time and a good epoch", drill_breaker},
    {"emergency-halt", "every epoch exceeds its budget",
     "tolaria.emergency.halt; the fit ends and its best network is kept", drill_halt},
    {"clock-jump", "the clock goes an hour ahead while epochs are slow, then back",
     "tolaria.breaker_opened; its time begins anew and it closes", drill_clock},
};

static const EsDrill *drill_at(int index) {
    ES_ASSERT(index >= 0 && index < es_drill_count());
    int n = (int)ES_COUNT_OF(drills);
    return index < n ? &drills[index] : &es_disk_drills[index - n];
}

int es_drill_count(void) { return (int)ES_COUNT_OF(drills) + es_n_disk_drills; }

const char *es_drill_name(int index) { return drill_at(index)->name; }

EsStatus es_drill_run(const char *name, EsDrillReport *report) {
    memset(report, 0, sizeof *report);
    for (int i = 0; i < es_drill_count(); i++) {
        const EsDrill *drill = drill_at(i);
        if (strcmp(drill->name, name) == 0) {
            report->name = drill->name;
            report->injected = drill->injected;
            report->shown = drill->shown;
            ES_TRY(drill->run(report));
            report->has_passed = report->problem[0] == '\0';
            return ES_STATUS_OK;
        }
    }
    return ES_FAIL(ARGUMENT, "there is no drill \"%.100s\"", name);
}
