// Drills of the rails: each runs a small fit twice, once with the fault and once with what the
// rules make of it, and compares events, counters and the bits of all networks.
#include "esper/drill.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "runs/fit/fit_search.h"

enum { EPOCHS = 10 };

// --- the fault ---

typedef enum FaultKind { NO_FAULT, FAILS, SLEEPS, HANGS } FaultKind;

// Calls first .. last of the controller, counted from 1, go wrong. It outlives threads that hang.
typedef struct Fault {
    FaultKind kind;
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
    EsControllerDrill drill;
    int n_named[8]; // of the events that are asked for
    double slowest_hook_ms;
    int n_left_inside; // epochs that went on while a call had not returned
    uint64_t hash;     // of all networks at the end
} Fit;

static const char *const counted_events[] = {"tolaria.tamiyo_timeout",
                                             "tolaria.tamiyo_error",
                                             "tolaria.tamiyo_abandoned",
                                             "tolaria.conservative_mode_entered",
                                             "tolaria.conservative_mode_cleared",
                                             "tolaria.epoch_budget_exceeded",
                                             "tolaria.breaker_opened",
                                             "tolaria.emergency.halt"};

static void close_fit(Fit *fit) {
    es_fit_search_destroy(fit->search);
    es_fit_rails_destroy(fit->rails);
    es_fit_plan_destroy(&fit->plan);
    es_dataset_destroy(&fit->dataset);
    es_fit_devices_close(&fit->devices);
}

// Candidates on `tiny`, few updates, a policy that remembers nothing.
static EsStatus open_fit(Fit *fit, const EsRailsSettings *rails, Fault *fault) {
    memset(fit, 0, sizeof *fit);
    EsFitSettings *settings = &fit->settings;
    es_fit_run_config(settings); // defaults
    snprintf(settings->data.name, sizeof settings->data.name, "tiny");
    snprintf(settings->task, sizeof settings->task, "tiny");
    snprintf(settings->policy, sizeof settings->policy, "random");
    settings->run.n_rounds = EPOCHS;
    settings->run.n_threads = 1;
    settings->n_candidates = 8;
    settings->epoch_batches = 2;
    settings->max_parameters = 3000;
    settings->host_learning_rate = settings->seed_learning_rate = ES_FIT_RATE;
    settings->rails = *rails;
    fit->fault = fault;
    fit->drill = (EsControllerDrill){go_wrong, fault};
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
    EsFitSearchOptions search =
        es_fit_plan_search(&fit->plan, settings, &fit->dataset, &fit->devices);
    search.rails = fit->rails;
    return es_fit_search_create(&search, &fit->search);
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

// Epochs until the end or a halt; their latency is given, so that no drill depends on the machine.
static EsStatus run_fit(Fit *fit, double (*latency_ms)(int epoch)) {
    EsRails *rails = &fit->rails->rails;
    for (int epoch = 1; epoch <= EPOCHS && rails->level != ES_EMERGENCY_HALT; epoch++) {
        es_rails_begin_epoch(rails);
        ES_TRY(es_fit_search_advance(fit->search, epoch));
        int64_t start_ns = es_clock_ns();
        ES_TRY(es_fit_search_decide(fit->search, epoch));
        double hook_ms = 1e3 * es_clock_seconds_since(start_ns);
        fit->slowest_hook_ms = ES_MAX(fit->slowest_hook_ms, hook_ms);
        fit->n_left_inside += atomic_load(&fit->fault->n_inside) > 0;
        const EsRailsEpoch measured = {.latency_ms = latency_ms(epoch), .hook_ms = 0};
        // an epoch a second, by the breaker's clock
        es_rails_assess(rails, &measured, (int64_t)epoch * 1000000000);
        count_events(fit);
    }
    return hash_networks(fit);
}

// --- promises ---

typedef struct Drill {
    const char *name, *injected, *shown;
    EsStatus (*run)(EsDrillReport *report);
} Drill;

// Notes the first promise that does not hold.
__attribute__((format(printf, 3, 4))) static void promise(EsDrillReport *report, int holds,
                                                          const char *format, ...) {
    va_list values;
    va_start(values, format);
    if (!holds && report->problem[0] == '\0') {
        vsnprintf(report->problem, sizeof report->problem, format, values);
    }
    va_end(values);
}

static void promise_events(EsDrillReport *report, const Fit *fit, const char *name, int n) {
    for (size_t k = 0; k < ES_COUNT_OF(counted_events); k++) {
        if (strcmp(counted_events[k], name) == 0) {
            promise(report, fit->n_named[k] == n, "%d events %s, expected %d", fit->n_named[k],
                    name, n);
        }
    }
}

static void describe(EsDrillReport *report, const Fit *fit) {
    size_t used = 0;
    const EsRails *rails = &fit->rails->rails;
    for (size_t k = 0; k < ES_COUNT_OF(counted_events) && used < sizeof report->happened; k++) {
        if (fit->n_named[k] > 0) {
            used += (size_t)snprintf(report->happened + used, sizeof report->happened - used,
                                     "%d %s, ", fit->n_named[k], counted_events[k]);
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
                             .breaker_failures = 3,
                             .breaker_successes = 1,
                             .breaker_seconds = 3};
}

// Runs a fit without faults: a drill whose networks are like its own would prove nothing.
static EsStatus hash_calm_fit(uint64_t *hash) {
    static Fault none;
    Fit fit;
    const EsRailsSettings rails = usual_rails();
    EsStatus status = open_fit(&fit, &rails, &none);
    status = status == ES_STATUS_OK ? run_fit(&fit, no_time) : status;
    *hash = fit.hash;
    close_fit(&fit);
    return status;
}

static void promise_networks(EsDrillReport *report, const Fit *fit, const Fit *twin,
                             uint64_t calm_hash, const char *problem) {
    promise(report, fit->hash == twin->hash, "%s", problem);
    promise(report, fit->hash != calm_hash, "the fault has changed no network");
}

// Runs the fit with the fault and its twin, in which the same calls fail at once; the caller closes
// both.
static EsStatus run_twins(Fit *fit, Fit *twin, const EsRailsSettings *rails, Fault *fault,
                          Fault *twin_fault, uint64_t *calm_hash) {
    const EsRailsSettings patient = usual_rails();
    memset(fit, 0, sizeof *fit);
    memset(twin, 0, sizeof *twin);
    ES_TRY(hash_calm_fit(calm_hash));
    ES_TRY(open_fit(fit, rails, fault));
    ES_TRY(run_fit(fit, no_time));
    ES_TRY(open_fit(twin, &patient, twin_fault));
    return run_fit(twin, no_time);
}

static EsStatus drill_error(EsDrillReport *report) {
    static Fault fault, again;
    Fit fit, twin;
    uint64_t calm_hash = 0;
    EsRailsSettings rails = usual_rails();
    fault = (Fault){.kind = FAILS, .first = 2, .last = 2};
    again = (Fault){.kind = FAILS, .first = 2, .last = 2};
    EsStatus status = run_twins(&fit, &twin, &rails, &fault, &again, &calm_hash);
    if (status == ES_STATUS_OK) {
        describe(report, &fit);
        promise_events(report, &fit, "tolaria.tamiyo_error", 1);
        promise_events(report, &fit, "tolaria.conservative_mode_entered", 1);
        promise_events(report, &fit, "tolaria.conservative_mode_cleared", 1);
        promise(report, fit.rails->rails.counts.failed == 1, "%lld failed epochs, expected 1",
                (long long)fit.rails->rails.counts.failed);
        promise(report, atomic_load(&fault.n_calls) == EPOCHS - 1,
                "%d calls, expected all but the one of the conservative epoch",
                atomic_load(&fault.n_calls));
        promise_networks(report, &fit, &twin, calm_hash, "two such fits have different networks");
    }
    close_fit(&fit);
    close_fit(&twin);
    return status;
}

static EsStatus drill_timeout(EsDrillReport *report) {
    static Fault fault, failing;
    Fit fit, twin;
    uint64_t calm_hash = 0;
    EsRailsSettings rails = usual_rails();
    rails.controller_deadline_ms = 1000;
    fault = (Fault){.kind = SLEEPS, .first = 2, .last = 2, .seconds = 3};
    failing = (Fault){.kind = FAILS, .first = 2, .last = 2};
    EsStatus status = run_twins(&fit, &twin, &rails, &fault, &failing, &calm_hash);
    if (status == ES_STATUS_OK) {
        describe(report, &fit);
        promise_events(report, &fit, "tolaria.tamiyo_timeout", 1);
        promise_events(report, &fit, "tolaria.conservative_mode_cleared", 1);
        promise(report, fit.rails->rails.counts.tamiyo_timeouts == 1, "the counter is %lld",
                (long long)fit.rails->rails.counts.tamiyo_timeouts);
        promise(report, fit.n_left_inside > 0, "training waited for the answer");
        promise_networks(report, &fit, &twin, calm_hash,
                         "the networks differ from those of a policy that fails in the same call");
    }
    end_fault(&fault);
    close_fit(&fit);
    close_fit(&twin);
    return status;
}

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
        promise(report, fit.rails->rails.is_spent, "it would be asked again");
        promise(report, atomic_load(&fault.n_inside) <= ES_DEADLINE_ABANDONED_MAX,
                "%d threads hang", atomic_load(&fault.n_inside));
        promise_networks(report, &fit, &twin, calm_hash,
                         "the networks differ from those of hosts that only wait");
    }
    end_fault(&fault);
    close_fit(&fit);
    close_fit(&twin);
    return status;
}

// Epochs 3 to 5 take too long.
static double slow_in_the_middle(int epoch) { return epoch >= 3 && epoch <= 5 ? 2000 : 1; }

static EsStatus drill_breaker(EsDrillReport *report) {
    static Fault none;
    Fit fit;
    EsRailsSettings rails = usual_rails();
    EsStatus status = open_fit(&fit, &rails, &none);
    status = status == ES_STATUS_OK ? run_fit(&fit, slow_in_the_middle) : status;
    if (status == ES_STATUS_OK) {
        describe(report, &fit);
        promise_events(report, &fit, "tolaria.epoch_budget_exceeded", 3);
        promise_events(report, &fit, "tolaria.breaker_opened", 1);
        // open from epoch 5 on, half open in epoch 8, which succeeds and closes it
        promise(report, fit.rails->rails.counts.failed == 5, "%lld failed epochs, expected 5",
                (long long)fit.rails->rails.counts.failed);
        promise(report, fit.rails->rails.breaker.state == ES_BREAKER_CLOSED, "it did not close");
        promise(report, fit.rails->rails.level == ES_EMERGENCY_NOTICE, "the level stays");
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
    EsStatus status = open_fit(&fit, &rails, &none);
    status = status == ES_STATUS_OK ? run_fit(&fit, always_slow) : status;
    if (status == ES_STATUS_OK) {
        describe(report, &fit);
        promise_events(report, &fit, "tolaria.emergency.halt", 1);
        promise(report, fit.rails->rails.counts.epochs == 4, "%lld epochs, expected 4",
                (long long)fit.rails->rails.counts.epochs);
        promise(report, fit.search->best != NULL, "there is no network");
    }
    close_fit(&fit);
    return status;
}

// --- the list ---

static const Drill drills[] = {
    {"controller-error", "the policy fails in its second decision",
     "a warning tolaria.tamiyo_error; that epoch and the next decide nothing", drill_error},
    {"controller-timeout", "the second decision takes longer than its deadline",
     "a warning tolaria.tamiyo_timeout; the late answer is thrown away", drill_timeout},
    {"controller-hang", "no decision ever ends",
     "four time-outs, then tolaria.tamiyo_abandoned; training goes on without growth", drill_hang},
    {"breaker", "three epochs in a row exceed their budget",
     "tolaria.breaker_opened; it closes after its time and a good epoch", drill_breaker},
    {"emergency-halt", "every epoch exceeds its budget",
     "tolaria.emergency.halt; the fit ends and its best network is kept", drill_halt},
};

int es_drill_count(void) { return (int)ES_COUNT_OF(drills); }

const char *es_drill_name(int index) {
    ES_ASSERT(index >= 0 && index < es_drill_count());
    return drills[index].name;
}

EsStatus es_drill_run(const char *name, EsDrillReport *report) {
    memset(report, 0, sizeof *report);
    for (size_t i = 0; i < ES_COUNT_OF(drills); i++) {
        if (strcmp(drills[i].name, name) == 0) {
            report->name = drills[i].name;
            report->injected = drills[i].injected;
            report->shown = drills[i].shown;
            ES_TRY(drills[i].run(report));
            report->has_passed = report->problem[0] == '\0';
            return ES_STATUS_OK;
        }
    }
    return ES_FAIL(ARGUMENT, "there is no drill \"%.100s\"", name);
}
