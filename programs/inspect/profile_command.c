// `esper profile`: where the time of a growth step goes, as tables for people, JSON for programs
// and a trace for Perfetto.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/macros.h"
#include "cli/frame.h"
#include "cli/run_command.h"
#include "control/policy/policy_training.h"
#include "runs/grow/grow_episode.h"
#include "runs/grow/grow_settings.h"
#include "tensor/profile.h"

typedef struct Result {
    const EsGrowSettings *settings; // borrowed
    EsDeviceInfo device;            // of growth
    int n_wait, n_warmup, n_active; // steps
    double active_ms;               // the host's clock over the active steps
    EsProfileReport report;         // owned: phases, idle time, counts
    EsProfileReport direct;         // owned: launch by launch, where work is captured otherwise
    int is_split;                   // operations are of `direct`, not of `report`
} Result;

// phases and operations
typedef enum Section { PHASES, OPERATIONS } Section;

static int is_in(const EsProfileRow *row, Section section) {
    return (row->kind == ES_PROFILE_RANGE) == (section == PHASES);
}

static double sum_of(const EsProfileReport *report, Section section) {
    double sum = 0;
    for (int i = 0; i < report->n_rows; i++) {
        sum += is_in(&report->rows[i], section) ? report->rows[i].total_ms : 0;
    }
    return sum;
}

// Returns the report with the times of operations.
static const EsProfileReport *operations_of(const Result *result) {
    return result->is_split ? &result->direct : &result->report;
}

static double steps_per_second(const Result *result) {
    return 1e3 * result->n_active * result->settings->n_envs / result->active_ms;
}

// Rows are sorted within their kind; launches, replays and copies are shown as one list.
static const EsProfileRow *next_longest(const EsProfileReport *report, Section section,
                                        const EsProfileRow *after) {
    const EsProfileRow *best = NULL;
    for (int i = 0; i < report->n_rows; i++) {
        const EsProfileRow *row = &report->rows[i];
        int is_left = after == NULL || row->total_ms < after->total_ms ||
                      (row->total_ms == after->total_ms && row > after);
        if (is_in(row, section) && is_left && (best == NULL || row->total_ms > best->total_ms)) {
            best = row;
        }
    }
    return best;
}

// --- tables ---

static void print_rows(const Result *result, const EsProfileReport *report, Section section) {
    double sum = sum_of(report, section);
    char shape[ES_PROFILE_SHAPE_BYTES];
    printf("%-28s %-7s %9s %11s %6s %9s %9s %9s%s\n", section == PHASES ? "phase" : "operation",
           section == PHASES ? "" : "kind", "per step", "ms per step", "share", "min ms", "mean ms",
           "max ms", section == PHASES ? "" : "  shape of the longest");
    const EsProfileRow *row = next_longest(report, section, NULL);
    for (; row != NULL; row = next_longest(report, section, row)) {
        es_profile_shape_text(&row->shape, shape);
        printf("%-28s %-7s %9.1f %11.3f %5.1f%% %9.4f %9.4f %9.4f%s%s\n", row->name,
               section == PHASES ? "" : es_profile_kind_name(row->kind),
               (double)row->count / result->n_active, row->total_ms / result->n_active,
               sum > 0 ? 100 * row->total_ms / sum : 0, row->min_ms,
               row->total_ms / (double)row->count, row->max_ms, shape[0] != '\0' ? "  " : "",
               shape);
    }
    if (sum == 0) {
        printf("(none)\n");
    }
}

static const char *const directions[ES_COPY_DIRECTIONS] = {"to device", "from device", "on device"};

static void print_counts(const Result *result) {
    const EsDeviceCounters *counters = &result->report.counters;
    const struct {
        const char *name;
        int64_t count;
    } rows[] = {{"launches", counters->n_launches},
                {"copies", counters->n_copies},
                {"synchronisations", counters->n_synchronizations},
                {"allocations", counters->n_allocations}};
    printf("per step:");
    for (size_t i = 0; i < ES_COUNT_OF(rows); i++) {
        printf("%s %s %.1f", i > 0 ? "," : "", rows[i].name,
               (double)rows[i].count / result->n_active);
    }
    printf("\nbytes copied per step:");
    for (size_t i = 0; i < ES_COUNT_OF(directions); i++) {
        printf("%s %s %.0f", i > 0 ? "," : "", directions[i],
               (double)counters->copied_bytes[i] / result->n_active);
    }
    printf("\n");
}

static void print_tables(const Result *result) {
    const EsGrowSettings *settings = result->settings;
    const EsProfileReport *report = &result->report, *operations = operations_of(result);
    double idle_ms = report->window_ms - report->busy_ms;
    es_print("%s, %d environments, policy %s, on %s (%s)\n", settings->task, settings->n_envs,
             settings->policy, settings->run.device, result->device.name);
    printf("%d steps after %d of waiting and %d of warm-up: %.3f ms per step, %.0f environment "
           "steps/s while timed\n\n",
           result->n_active, result->n_wait, result->n_warmup, result->active_ms / result->n_active,
           steps_per_second(result));
    print_rows(result, report, PHASES);
    printf("\n");
    print_rows(result, operations, OPERATIONS);
    printf("\nidle: %.3f ms per step (%.1f %%) with no operation running%s\n",
           idle_ms / result->n_active,
           report->window_ms > 0 ? 100 * idle_ms / report->window_ms : 0,
           result->is_split ? ": between launches; a replay counts as one, and none is seen inside"
                            : "");
    print_counts(result);
    if (result->is_split) {
        printf("operations were timed launch by launch, in steps of their own without captures; "
               "the rest is of\nsteps with them, where a replay is one launch\n");
    } else if (result->device.kind == ES_DEVICE_CPU) {
        printf("operations are summed over threads; the rules of growth and the update of weights "
               "are none\n");
    }
    int64_t n_dropped = report->n_dropped + (result->is_split ? operations->n_dropped : 0);
    if (n_dropped > 0) {
        printf("%lld operations were not timed: there was room for the first ones alone; --active "
               "asks for fewer steps\n",
               (long long)n_dropped);
    }
}

// --- JSON ---

static json_t *rows_json(const EsProfileReport *report, Section section) {
    json_t *array = json_array();
    double sum = sum_of(report, section);
    char shape[ES_PROFILE_SHAPE_BYTES];
    const EsProfileRow *row = next_longest(report, section, NULL);
    for (; row != NULL; row = next_longest(report, section, row)) {
        json_array_append_new(
            array, json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:s}", "name", row->name,
                             "kind", es_profile_kind_name(row->kind), "count",
                             (json_int_t)row->count, "total_ms", row->total_ms, "min_ms",
                             row->min_ms, "mean_ms", row->total_ms / (double)row->count, "max_ms",
                             row->max_ms, "share", sum > 0 ? row->total_ms / sum : 0.0, "shape",
                             es_profile_shape_text(&row->shape, shape)));
    }
    return array;
}

static json_t *counts_json(const Result *result) {
    const EsDeviceCounters *counters = &result->report.counters;
    double n = result->n_active;
    const int64_t *bytes = counters->copied_bytes;
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "launches",
                     (double)counters->n_launches / n, "copies", (double)counters->n_copies / n,
                     "synchronisations", (double)counters->n_synchronizations / n, "allocations",
                     (double)counters->n_allocations / n, "bytes_to_device",
                     (double)bytes[ES_COPY_TO_DEVICE] / n, "bytes_from_device",
                     (double)bytes[ES_COPY_TO_HOST] / n, "bytes_on_device",
                     (double)bytes[ES_COPY_ON_DEVICE] / n);
}

static EsStatus print_json(const Result *result) {
    const EsGrowSettings *settings = result->settings;
    const EsProfileReport *report = &result->report, *operations = operations_of(result);
    json_int_t n_dropped = report->n_dropped;
    n_dropped += result->is_split ? operations->n_dropped : 0;
    json_t *root = json_pack(
        "{s:s, s:i, s:s, s:s, s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:b, s:I}",
        "task", settings->task, "envs", settings->n_envs, "policy", settings->policy, "device",
        settings->run.device, "device_name", result->device.name, "wait", result->n_wait, "warmup",
        result->n_warmup, "active", result->n_active, "active_ms", result->active_ms,
        "environment_steps_per_second", steps_per_second(result), "window_ms", report->window_ms,
        "idle_ms", report->window_ms - report->busy_ms, "per_step", counts_json(result), "phases",
        rows_json(report, PHASES), "operations", rows_json(operations, OPERATIONS),
        "operations_without_captures", result->is_split, "dropped", n_dropped);
    return es_json_print(root, 15);
}

// --- the trace ---

// The trace of `esper profile`: the format of chrome://tracing, which Perfetto opens. A process per
// source: steps as they run, and where operations were timed apart, those steps; in it a track per
// thread on the CPU, on a GPU one of phases and one of operations.

typedef struct Trace {
    FILE *file;
    int is_cuda;
    int n_events;
    int failed;
} Trace;

// Takes the reference; NULL is a failure.
static void add_event(Trace *trace, json_t *event) {
    if (event == NULL || fputs(trace->n_events++ > 0 ? ",\n" : "\n", trace->file) == EOF ||
        json_dumpf(event, trace->file, JSON_COMPACT | JSON_REAL_PRECISION(15)) != 0) {
        trace->failed = 1;
    }
    json_decref(event);
}

static void add_name(Trace *trace, const char *what, int process, int thread, const char *name) {
    add_event(trace, json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "ph", "M", "name", what, "pid",
                               process, "tid", thread, "args", "name", name));
}

static void add_span(Trace *trace, const EsProfileSpan *span, int process, double start_ms) {
    int track = trace->is_cuda ? 1 + (span->kind != ES_PROFILE_RANGE) : span->thread;
    char shape[ES_PROFILE_SHAPE_BYTES];
    add_event(trace, json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:{s:f, s:s}}", "ph", "X",
                               "name", span->name, "cat", es_profile_kind_name(span->kind), "pid",
                               process, "tid", track, "ts", (span->begin_ms - start_ms) * 1e3,
                               "dur", (span->end_ms - span->begin_ms) * 1e3, "args", "queued_us",
                               (span->queued_ms - start_ms) * 1e3, "shape",
                               es_profile_shape_text(&span->shape, shape)));
}

static void add_report(Trace *trace, const EsProfileReport *report, int process, const char *name) {
    double start_ms = report->n_spans > 0 ? report->spans[0].queued_ms : 0;
    for (int i = 0; i < report->n_spans; i++) {
        start_ms = ES_MIN(start_ms, report->spans[i].queued_ms);
    }
    add_name(trace, "process_name", process, 0, name);
    if (trace->is_cuda) {
        add_name(trace, "thread_name", process, 1, "phases");
        add_name(trace, "thread_name", process, 2, "operations");
    }
    for (int i = 0; i < report->n_spans; i++) {
        add_span(trace, &report->spans[i], process, start_ms);
    }
}

static void write_events(const Result *result, Trace *trace) {
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", trace->file);
    add_report(trace, &result->report, 1, "growth");
    if (result->is_split) {
        add_report(trace, &result->direct, 11, "growth, launch by launch");
    }
    fputs("\n]}\n", trace->file);
}

// Writes the active steps as Chrome trace JSON, whole or not at all.
static EsStatus write_trace(const Result *result, const char *path) {
    char *text = NULL;
    size_t bytes = 0;
    Trace trace = {.file = open_memstream(&text, &bytes),
                   .is_cuda = result->device.kind == ES_DEVICE_CUDA};
    if (trace.file == NULL) {
        return ES_FAIL(MEMORY, "not enough memory to write %s", path);
    }
    write_events(result, &trace);
    EsStatus status = es_memory_stream_close(trace.file, &text);
    if (es_json_lacked_memory() || trace.failed) {
        status = ES_FAIL(MEMORY, "not enough memory to write %s", path);
    }
    if (status == ES_STATUS_OK) {
        status = es_file_write_all(path, text, bytes);
    }
    free(text);
    return status;
}

// spans of all active steps; each costs two events on CUDA
#define CAPACITY_CPU  (1 << 18)
#define CAPACITY_CUDA (1 << 14)

// --- running steps ---

// Steps of one schedule. A step lasts from one decision wanted to the next.
typedef struct Schedule {
    EsEpisodeRunner *runner;
    EsPolicy *policy;
    Result *result;
    EsProfileReport *report; // filled at the end
    EsDevice *device;
    int forbids_capture;
    int n_steps; // done
    int is_started, is_done;
    int64_t active_ns; // when the first active step began
} Schedule;

static EsStatus start_profile(Schedule *schedule) {
    int is_cuda = es_device_info(schedule->device)->kind == ES_DEVICE_CUDA;
    EsProfileOptions options = {.capacity = is_cuda ? CAPACITY_CUDA : CAPACITY_CPU,
                                .forbids_capture = schedule->forbids_capture};
    schedule->is_started = 1;
    return es_profile_start(schedule->device, &options);
}

// Captures are made in the first steps, so refusing them begins before.
static EsStatus step_measured(void *context, int64_t step) {
    Schedule *schedule = context;
    Result *result = schedule->result;
    int first_active = result->n_wait + result->n_warmup;
    (void)step;
    if (schedule->n_steps == result->n_wait && !schedule->is_started) {
        ES_TRY(start_profile(schedule));
    }
    if (schedule->n_steps == first_active) {
        es_profile_reset(schedule->device);
        schedule->active_ns = es_clock_ns();
    }
    if (schedule->n_steps == first_active + result->n_active) {
        if (!schedule->forbids_capture) {
            result->active_ms = es_clock_seconds_since(schedule->active_ns) * 1e3;
        }
        ES_TRY(es_profile_report(schedule->device, schedule->report));
        schedule->is_done = 1;
        return ES_FAIL(INTERRUPTED, "the profile is complete");
    }
    schedule->n_steps++;
    return ES_STATUS_OK;
}

static EsStatus step_decided(void *context, int64_t step) {
    const Schedule *schedule = context;
    const EsEpisodeRunner *runner = schedule->runner;
    (void)step;
    return es_grow_settings_train(runner->settings)
               ? es_policy_training_record(
                     schedule->policy, &es_growth_snapshot(runner->growth)->state, runner->rewards,
                     runner->settings->reward.rollback_penalty)
               : ES_STATUS_OK;
}

// Episodes one after the other until the schedule is through.
static EsStatus run_steps(Schedule *schedule) {
    EsGrowWatch watch = {schedule, step_measured, step_decided};
    int64_t n_envs = schedule->runner->settings->n_envs;
    if (schedule->forbids_capture) {
        ES_TRY(start_profile(schedule));
    }
    for (int64_t episode = 0; !schedule->is_done; episode += n_envs) {
        EsStatus status = es_grow_episode_run(schedule->runner, schedule->policy, episode, &watch);
        if (status != ES_STATUS_OK && !schedule->is_done) {
            return status;
        }
    }
    return ES_STATUS_OK;
}

// Hosts and a policy of its own for every pass, so that both begin alike.
static EsStatus run_pass(Result *result, EsDevice *device, int forbids_capture,
                         EsProfileReport *report) {
    const EsGrowSettings *settings = result->settings;
    EsEpisodeRunner runner = {0};
    EsPolicy *policy = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_grow_episode_create(settings, device, &runner));
    ES_TRY_GOTO(es_grow_settings_train(settings)
                    ? es_grow_episode_create_policy(&runner, settings->n_envs, &policy)
                    : es_grow_episode_open_policy(&runner, settings->policy, &policy));
    Schedule schedule = {.runner = &runner,
                         .policy = policy,
                         .result = result,
                         .report = report,
                         .device = device,
                         .forbids_capture = forbids_capture};
    status = run_steps(&schedule);
done:
    es_profile_stop(device);
    es_grow_episode_destroy_policy(&runner, policy);
    es_grow_episode_destroy(&runner);
    return status;
}

static int has_replays(const EsProfileReport *report) {
    for (int i = 0; i < report->n_rows; i++) {
        if (report->rows[i].kind == ES_PROFILE_REPLAY) {
            return 1;
        }
    }
    return 0;
}

// --- the command ---

// Before the work, not after it.
static EsStatus check_trace(const char *path) {
    EsStatus status = path == NULL ? ES_STATUS_OK : es_file_writer_try(path);
    if (status == ES_STATUS_OK || status == ES_STATUS_MEMORY) {
        return status;
    }
    char reason[512];
    snprintf(reason, sizeof reason, "%s", es_status_detail());
    return ES_FAIL(INPUT, "--trace: cannot write %s: %s", path, reason);
}

static EsStatus run_profile(Result *result, const char *trace, int as_json) {
    EsDevice *device = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(check_trace(trace));
    ES_TRY(es_grow_episode_open_device(result->settings, &device));
    result->device = *es_device_info(device);
    ES_TRY_GOTO(run_pass(result, device, 0, &result->report));
    result->is_split = has_replays(&result->report);
    if (result->is_split) {
        ES_TRY_GOTO(run_pass(result, device, 1, &result->direct));
    }
    if (trace != NULL) {
        ES_TRY_GOTO(write_trace(result, trace));
        es_message("trace of %d spans: %s (open it at ui.perfetto.dev or chrome://tracing)\n",
                   result->report.n_spans + result->direct.n_spans, trace);
    }
    if (as_json) {
        status = print_json(result);
    } else {
        print_tables(result);
    }
done:
    es_profile_report_destroy(&result->report);
    es_profile_report_destroy(&result->direct);
    es_device_close(device);
    return status;
}

static const char summary[] =
    "Time the steps of `esper grow`, without a run folder: phases of a step, every operation by "
    "name,\nwith the shape of its longest call, idle time, and launches, copies and their bytes, "
    "synchronisations and\nallocations per step. Some steps run untimed, some are timed and "
    "discarded (warm-up), some timed and kept. To see grown "
    "hosts, "
    "let them\ngrow first: --policy heuristic --wait 40. On a GPU the steps run as captured "
    "graphs, "
    "as always;\na second pass without captures times launch by launch.";

EsExit cmd_profile(int argc, char **argv) {
    EsRunCommand command = {0};
    EsGrowSettings settings, before;
    Result result = {.settings = &settings};
    const char *trace;
    int as_json;
    EsConfig config = es_grow_run_config(&settings);
    const EsOption options[] = {
        ES_OPTION_INT("wait", &result.n_wait, "1", 0, 1000000, "N",
                      "steps before anything is timed"),
        ES_OPTION_INT("warmup", &result.n_warmup, "2", 0, 1000000, "N",
                      "steps timed and discarded"),
        ES_OPTION_INT("active", &result.n_active, "5", 1, 100000, "N", "steps timed and kept"),
        ES_OPTION_TEXT("trace", &trace, NULL, "FILE",
                       "write the active steps as a timeline for Perfetto (Chrome trace JSON)"),
        ES_OPTION_FLAG("json", &as_json, "print the profile as JSON"),
        ES_OPTION_KEY("task", "grow.task", "NAME"),
        ES_OPTION_KEY("envs", "grow.envs", "N"),
        ES_OPTION_KEY("policy", "grow.policy", "P"),
        ES_OPTION_KEY("episode-steps", "grow.episode_steps", "N"),
        ES_OPTION_KEY("slots", "grow.slots", "LIST"),
        ES_OPTION_KEY("max-seeds", "grow.max_seeds", "N"),
        ES_OPTION_KEY("batch", "grow.batch", "N"),
        ES_OPTION_KEY("step-batches", "grow.step_batches", "N"),
        ES_OPTION_KEY("validation-images", "grow.validation_images", "N"),
        ES_OPTION_KEY("amp-dtype", "grow.amp_dtype", "TYPE"),
        ES_OPTION_KEY("tf32", "grow.tf32", "on|off"),
        ES_OPTION_KEY("unfused", "grow.unfused", NULL),
        ES_OPTION_KEY("hidden", "policy.hidden", "N"),
        ES_OPTION_KEY("data", "grow.data", "NAME"),
        ES_DATA_OPTIONS("grow"),
        ES_OPTION_KEY("device", "run.device", "NAME"),
        ES_OPTION_KEY("threads", "run.threads", "N"),
        ES_OPTION_KEY("seed", "run.seed", "N"),
        ES_OPTION_TEXT("config", &command.config_path, NULL, "FILE",
                       "read settings of `esper grow` from FILE; options on the command line win"),
    };
    const EsOptionTable table = {
        .command = "profile",
        .usage = "[options]",
        .summary = summary,
        .example = "esper profile --task cifar_baseline --envs 4 --policy heuristic --trace "
                   "step.json",
        .options = options,
        .n_options = ES_COUNT_OF(options),
        .config = &config,
    };
    EsArguments arguments;
    EsExit code;
    if (!es_options_begin(&table, argc, argv, &arguments, &code)) {
        return code;
    }
    EsStatus status = es_run_command_configure(&command, &table, &arguments, &before);
    if (status == ES_STATUS_OK) {
        status = run_profile(&result, trace, as_json);
    }
    return es_command_finish("profile", status);
}
