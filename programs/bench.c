// `esper bench`: runs suites of cases after the protocol in bench_suite.h and prints records.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/spelling.h"
#include "bench_record.h"
#include "bench_suite.h"
#include "build_info.h"
#include "command.h"
#include "gpu_use.h"
#include "options.h"

static const EsBenchSuite *const suites[] = {
    &es_bench_kernels,
    &es_bench_host,
    &es_bench_growth,
    &es_bench_policy,
    &es_bench_telemetry,
};

// a sample lasts at least this long, so that the clock and one interruption weigh little
#define SAMPLE_SECONDS  0.004
#define WARM_UP_SECONDS 0.02
#define MAX_SAMPLES     1000

typedef struct BenchOptions {
    const char *device, *filter, *baseline;
    int n_threads, n_lanes, n_samples, as_json, only_list, allow_busy;
    EsBenchHost host;
} BenchOptions;

// Seconds of `n_runs` runs of a variant, until the device has finished them.
static EsStatus time_runs(const EsBench *bench, const EsBenchCase *bench_case, void *state,
                          int variant, int n_runs, double *seconds) {
    int64_t start_ns = es_clock_ns();
    for (int i = 0; i < n_runs; i++) {
        ES_TRY(bench_case->run(state, variant));
    }
    ES_TRY(es_stream_synchronize(bench->stream));
    *seconds = es_clock_seconds_since(start_ns);
    return es_device_status(bench->device);
}

// Run until warm; returns how many runs make one sample.
static EsStatus warm_up(const EsBench *bench, const EsBenchCase *bench_case, void *state,
                        int variant, int *n_runs) {
    double spent = 0, seconds = 0;
    *n_runs = 1;
    do {
        ES_TRY(time_runs(bench, bench_case, state, variant, *n_runs, &seconds));
        spent += seconds;
        if (seconds < SAMPLE_SECONDS && *n_runs < (1 << 20)) {
            *n_runs *= 2;
        }
    } while (spent < WARM_UP_SECONDS || (seconds < SAMPLE_SECONDS && *n_runs < (1 << 20)));
    return ES_STATUS_OK;
}

static EsStatus add_records(const EsBenchSuite *suite, const EsBenchCase *bench_case,
                            double *seconds, int n_samples, double ratio, EsBenchRecords *records) {
    double work = bench_case->work(bench_case);
    double rates[MAX_SAMPLES];
    for (int i = 0; i < n_samples; i++) {
        rates[i] = work / seconds[i];
        seconds[i] *= 1e3;
    }
    EsBenchRecord record = {
        .suite = suite->name,
        .name = bench_case->name,
        .parameters = bench_case->parameters,
        .metric = "time",
        .unit = "ms",
        .is_lower_better = 1,
        .summary = es_bench_summarise(seconds, n_samples),
        .peer = bench_case->peer,
        .ratio = ratio,
    };
    ES_TRY(es_bench_records_add(records, &record));
    record.metric = "rate";
    record.unit = bench_case->rate_unit;
    record.is_lower_better = 0;
    record.summary = es_bench_summarise(rates, n_samples);
    return es_bench_records_add(records, &record);
}

// What the samples allocated, which is to be nothing.
static EsStatus add_allocations(const EsBenchSuite *suite, const EsBenchCase *bench_case,
                                int64_t n_allocations, EsBenchRecords *records) {
    double count[1] = {(double)n_allocations};
    EsBenchRecord record = {.suite = suite->name,
                            .name = bench_case->name,
                            .parameters = bench_case->parameters,
                            .metric = "allocations",
                            .unit = "in all samples",
                            .is_lower_better = 1,
                            .summary = es_bench_summarise(count, 1)};
    return es_bench_records_add(records, &record);
}

static EsStatus run_case(const EsBench *bench, const EsBenchSuite *suite,
                         const EsBenchCase *bench_case, int n_samples, EsBenchRecords *records) {
    EsStatus status = ES_STATUS_OK;
    int n_variants = bench_case->peer != NULL ? 2 : 1;
    int n_runs[2] = {1, 1};
    double seconds[2][MAX_SAMPLES], ratios[MAX_SAMPLES];
    void *state = NULL;
    ES_TRY(bench_case->begin(bench_case, bench, &state));
    for (int variant = 0; variant < n_variants; variant++) {
        ES_TRY_GOTO(warm_up(bench, bench_case, state, variant, &n_runs[variant]));
    }
    int64_t n_before = bench_case->allocations != NULL ? bench_case->allocations(state) : 0;
    for (int i = 0; i < n_samples; i++) {
        for (int variant = 0; variant < n_variants; variant++) {
            double *sample = &seconds[variant][i];
            ES_TRY_GOTO(time_runs(bench, bench_case, state, variant, n_runs[variant], sample));
            *sample /= n_runs[variant];
        }
        ratios[i] = seconds[n_variants - 1][i] / seconds[0][i];
    }
    double ratio = n_variants == 2 ? es_bench_summarise(ratios, n_samples).median : 0;
    ES_TRY_GOTO(add_records(suite, bench_case, seconds[0], n_samples, ratio, records));
    if (bench_case->allocations != NULL) {
        status =
            add_allocations(suite, bench_case, bench_case->allocations(state) - n_before, records);
    }
done:
    bench_case->end(state);
    return status;
}

static EsStatus check_suite_name(const char *name) {
    EsSpelling spelling = es_spelling_begin(name);
    for (size_t i = 0; i < ES_COUNT_OF(suites); i++) {
        if (strcmp(suites[i]->name, name) == 0) {
            return ES_STATUS_OK;
        }
        es_spelling_offer(&spelling, suites[i]->name);
    }
    const char *nearest = es_spelling_suggestion(&spelling);
    return nearest != NULL
               ? ES_FAIL(ARGUMENT, "unknown suite \"%.100s\"; did you mean \"%s\"?", name, nearest)
               : ES_FAIL(ARGUMENT, "unknown suite \"%.100s\"", name);
}

static int is_wanted_suite(const EsBenchSuite *suite, const EsArguments *arguments) {
    int is_wanted = arguments->n_positional == 0;
    for (int i = 0; i < arguments->n_positional; i++) {
        is_wanted |= strcmp(arguments->positional[i], suite->name) == 0;
    }
    return is_wanted;
}

// The filter is part of "suite/case parameters".
static int is_wanted_case(const EsBenchSuite *suite, const EsBenchCase *bench_case,
                          const char *filter) {
    char name[256];
    snprintf(name, sizeof name, "%s/%s %s", suite->name, bench_case->name, bench_case->parameters);
    return strstr(name, filter) != NULL;
}

// Run, or list, every wanted case.
static EsStatus visit_cases(const BenchOptions *options, const EsArguments *arguments,
                            const EsBench *bench, EsBenchRecords *records) {
    int n_cases = 0;
    for (size_t i = 0; i < ES_COUNT_OF(suites); i++) {
        const EsBenchSuite *suite = suites[i];
        EsBenchSuite chosen = *suite;
        EsBenchCase custom;
        int is_custom = 0;
        if (suite->choose != NULL) {
            ES_TRY(suite->choose(&options->host, &custom, &is_custom));
        }
        if (is_custom) {
            chosen.cases = &custom;
            chosen.n_cases = 1;
            suite = &chosen;
        }
        for (int k = 0; is_wanted_suite(suite, arguments) && k < suite->n_cases; k++) {
            const EsBenchCase *bench_case = &suite->cases[k];
            if (!is_wanted_case(suite, bench_case, options->filter)) {
                continue;
            }
            n_cases++;
            if (options->only_list) {
                printf("%s/%s %s\n", suite->name, bench_case->name, bench_case->parameters);
                continue;
            }
            es_log(ES_LOG_DEBUG, "bench: %s/%s %s", suite->name, bench_case->name,
                   bench_case->parameters);
            ES_TRY(run_case(bench, suite, bench_case, options->n_samples, records));
        }
    }
    return n_cases > 0 ? ES_STATUS_OK
                       : ES_FAIL(ARGUMENT, "no case contains \"%.100s\"", options->filter);
}

static EsStatus run_bench(const BenchOptions *options, const EsArguments *arguments) {
    EsStatus status = ES_STATUS_OK;
    EsBench bench = {NULL, NULL};
    EsBenchRecords records = {NULL, 0, 0};
    char build[160], hash[17];
    for (int i = 0; i < arguments->n_positional; i++) {
        ES_TRY(check_suite_name(arguments->positional[i]));
    }
    if (options->only_list) {
        return visit_cases(options, arguments, &bench, &records);
    }
    EsDeviceOptions device_options = {.n_threads = options->n_threads, .n_lanes = options->n_lanes};
    ES_TRY(es_device_open(options->device, &device_options, &bench.device));
    const EsDeviceInfo *opened = es_device_info(bench.device);
    int n_others = opened->kind == ES_DEVICE_CUDA ? es_gpu_other_processes(opened->index) : 0;
    if (n_others > 0 && !options->allow_busy) {
        status = ES_FAIL(
            ARGUMENT, "%d other processes use cuda:%d; timings would mean nothing (--allow-busy)",
            n_others, opened->index);
        goto done;
    }
    ES_TRY_GOTO(es_stream_create(bench.device, &bench.stream));
    ES_TRY_GOTO(visit_cases(options, arguments, &bench, &records));
    if (options->baseline != NULL) {
        ES_TRY_GOTO(es_bench_records_compare(&records, options->baseline));
    }

    const EsDeviceInfo *info = es_device_info(bench.device);
    char device[224];
    snprintf(device, sizeof device, "%s, %s, %d %s", info->name, info->architecture, info->n_units,
             info->kind == ES_DEVICE_CPU ? "threads" : "multiprocessors");
    snprintf(build, sizeof build, "%s, %.80s, binary %s", es_build_type(), es_build_compiler(),
             es_build_binary_hash(hash));
    EsBenchOrigin origin = {es_build_commit(), device, build, ""};
    time_t now = time(NULL);
    struct tm parts;
    strftime(origin.date, sizeof origin.date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
    if (options->as_json) {
        status = es_bench_records_print_json(&records, &origin, stdout);
    } else {
        es_bench_records_print_table(&records, &origin, stdout);
    }
done:
    es_bench_records_destroy(&records);
    es_stream_destroy(bench.stream);
    es_device_close(bench.device);
    return status;
}

static void print_suites(void) {
    printf("\nsuites:\n");
    for (size_t i = 0; i < ES_COUNT_OF(suites); i++) {
        printf("  %-12s %s\n", suites[i]->name, suites[i]->summary);
    }
}

EsExit es_bench_run(int argc, char **argv) {
    BenchOptions wanted;
    const EsOption options[] = {
        ES_OPTION_TEXT("device", &wanted.device, "cpu", "NAME", "cpu, cuda or cuda:N"),
        ES_OPTION_INT("threads", &wanted.n_threads, "0", 0, 1024, "N",
                      "CPU threads, 0 = one per processor"),
        ES_OPTION_INT("lanes", &wanted.n_lanes, "0", 0, 16, "N",
                      "CPU vectors of 4, 8 or 16 floats, 0 = the widest"),
        ES_OPTION_INT("samples", &wanted.n_samples, "11", 5, MAX_SAMPLES, "N",
                      "timed samples, or pairs, per case"),
        ES_OPTION_TEXT("filter", &wanted.filter, "", "TEXT",
                       "only cases whose line in --list contains TEXT"),
        ES_OPTION_TEXT("baseline", &wanted.baseline, NULL, "FILE",
                       "compare with a former --json output"),
        ES_OPTION_TEXT("task", &wanted.host.task, NULL, "NAME",
                       "host: train this one (esper hosts --help) instead of the list"),
        ES_OPTION_INT("hosts", &wanted.host.n_envs, "0", 0, 65536, "N", "host: how many, 0 = 4"),
        ES_OPTION_INT("batch", &wanted.host.batch, "0", 0, 65536, "N",
                      "host: images per step, 0 = the task's"),
        ES_OPTION_INT("blocks", &wanted.host.n_blocks, "0", 0, 12, "N",
                      "host: blocks, 0 = the task's"),
        ES_OPTION_TEXT("precision", &wanted.host.precision, "f32", "P",
                       "host: f32, or bf16 on CUDA"),
        ES_OPTION_FLAG("json", &wanted.as_json, "print records as a JSON array"),
        ES_OPTION_FLAG("allow-busy", &wanted.allow_busy, "run even if others use the GPU"),
        ES_OPTION_FLAG("list", &wanted.only_list, "print the cases, run nothing"),
    };
    const EsOptionTable table = {
        .command = "bench",
        .usage = "[options] [SUITE ...]",
        .summary = "Run benchmark suites (default: all) and print median and interquartile range "
                   "of each case.\n"
                   "Ratios say how many times better than the peer; CHANGED marks more than 3 % "
                   "that the spread\n"
                   "does not explain.",
        .example = "esper bench kernels --filter conv2d --baseline before.json",
        .options = options,
        .n_options = ES_COUNT_OF(options),
        .max_positional = 16,
    };
    EsArguments arguments;
    EsStatus status = es_options_parse(&table, argc, argv, &arguments);
    if (status == ES_STATUS_OK && arguments.wants_help) {
        es_options_print_help(&table, stdout);
        print_suites();
        return ES_EXIT_DONE;
    }
    if (status == ES_STATUS_OK) {
        status = run_bench(&wanted, &arguments);
    }
    return es_command_finish("bench", status);
}
