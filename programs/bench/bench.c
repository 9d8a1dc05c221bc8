// `esper bench`: runs suites of cases after the protocol in bench_suite.h and prints records.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/words.h"
#include "bench/bench_suite.h"
#include "cli/frame.h"
#include "cli/options.h"
#include "esper/log.h"

// --- use of the GPU by others ---

// Benchmarks refuse to run beside other processes on the same GPU. Asks NVML, the driver's
// management library, which is loaded by name: a machine without a driver has none.

// As in nvml.h, version 3 of the call.
typedef struct ProcessInfo {
    unsigned int pid;
    unsigned long long used_bytes;
    unsigned int gpu_instance, compute_instance;
} ProcessInfo;

#define MAX_PROCESSES 256

typedef int (*InitFunction)(void);
typedef int (*HandleFunction)(unsigned int index, void **device);
typedef int (*ProcessesFunction)(void *device, unsigned int *count, ProcessInfo *infos);

// A function of the library as the type at `target`; dlsym's object pointer is copied, not cast.
static int find(void *library, const char *name, void **target) {
    *target = dlsym(library, name);
    return *target != NULL;
}

// Number of other processes that compute on CUDA device `index`, or -1 when that cannot be found
// out.
static int count_other_processes(int index) {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library == NULL) {
        return -1;
    }
    int n_others = -1;
    union {
        void *object;
        InitFunction call;
    } init, shutdown;
    union {
        void *object;
        HandleFunction call;
    } handle;
    union {
        void *object;
        ProcessesFunction call;
    } processes;
    if (find(library, "nvmlInit_v2", &init.object) &&
        find(library, "nvmlShutdown", &shutdown.object) &&
        find(library, "nvmlDeviceGetHandleByIndex_v2", &handle.object) &&
        find(library, "nvmlDeviceGetComputeRunningProcesses_v3", &processes.object) &&
        init.call() == 0) {
        void *device = NULL;
        ProcessInfo infos[MAX_PROCESSES];
        unsigned int count = MAX_PROCESSES;
        if (handle.call((unsigned int)index, &device) == 0 &&
            processes.call(device, &count, infos) == 0) {
            n_others = 0;
            for (unsigned int i = 0; i < count; i++) {
                n_others += infos[i].pid != (unsigned int)getpid();
            }
        }
        shutdown.call();
    }
    dlclose(library);
    return n_others;
}

// --- suites and names ---

static const EsBenchSuite *const suites[] = {
    &es_bench_kernels, &es_bench_host, &es_bench_growth,    &es_bench_policy,   &es_bench_prove,
    &es_bench_ranks,   &es_bench_sync, &es_bench_telemetry, &es_bench_transfer,
};

typedef struct BenchOptions {
    const char *device, *filter, *baseline;
    int n_threads, n_lanes, n_samples, as_json, only_list, allow_busy;
    const char *sweep_text;
    const char *command; // as typed
    EsBenchHost host;
} BenchOptions;

// Names and parameters of the cases that were run: records borrow them.
typedef struct BenchTexts {
    char **texts; // owned, each too
    int n_texts, capacity;
} BenchTexts;

static EsStatus keep_text(BenchTexts *kept, const char *text, const char *end, const char **copy) {
    if (kept->n_texts == kept->capacity) {
        int capacity = ES_MAX(64, 2 * kept->capacity);
        char **grown = realloc(kept->texts, (size_t)capacity * sizeof *grown);
        if (grown == NULL) {
            return ES_FAIL(MEMORY, "no memory for the names of %d cases", capacity);
        }
        kept->texts = grown;
        kept->capacity = capacity;
    }
    size_t bytes = strlen(text) + strlen(end) + 1;
    char *made = malloc(bytes);
    if (made == NULL) {
        return ES_FAIL(MEMORY, "no memory for the name of a case");
    }
    snprintf(made, bytes, "%s%s", text, end);
    kept->texts[kept->n_texts++] = made;
    *copy = made;
    return ES_STATUS_OK;
}

static void release_texts(BenchTexts *kept) {
    for (int i = 0; i < kept->n_texts; i++) {
        free(kept->texts[i]);
    }
    free(kept->texts);
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
    int is_wanted = arguments->n_positional == 0 && !suite->is_apart;
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

// --- one value of a sweep ---

// Shared by all cases of the run.
typedef struct BenchRun {
    const BenchOptions *options;
    const EsArguments *arguments;
    EsBenchSweep sweep;
    BenchTexts texts;       // owned
    EsBenchRecords records; // owned
    int n_cases;
} BenchRun;

// Run, or list, one case. `end` is added to its parameters.
static EsStatus visit_case(BenchRun *run, const EsBench *bench, const EsBenchSuite *suite,
                           const EsBenchCase *bench_case, const char *end) {
    EsBenchCase kept = *bench_case;
    ES_TRY(keep_text(&run->texts, bench_case->name, "", &kept.name));
    ES_TRY(keep_text(&run->texts, bench_case->parameters, end, &kept.parameters));
    int is_left_out = kept.is_cpu_only && bench->device != NULL &&
                      es_device_info(bench->device)->kind != ES_DEVICE_CPU;
    if (is_left_out || !is_wanted_case(suite, &kept, run->options->filter)) {
        return ES_STATUS_OK;
    }
    run->n_cases++;
    if (run->options->only_list) {
        printf("%s/%s %s\n", suite->name, kept.name, kept.parameters);
        return ES_STATUS_OK;
    }
    es_log(ES_LOG_DEBUG, "bench: %s/%s %s", suite->name, kept.name, kept.parameters);
    return suite->is_counted
               ? es_bench_count_case(bench, suite, &kept, &run->records)
               : es_bench_time_case(bench, suite, &kept, run->options->n_samples, &run->records);
}

// Returns whether a suite has cases for each value of the sweep.
static int is_swept(const EsBenchSuite *suite, EsBenchSwept what) {
    return what == ES_BENCH_SWEPT_NONE || what == ES_BENCH_SWEPT_THREADS ||
           (suite->sweeps != NULL && strstr(suite->sweeps, es_bench_swept_name(what)) != NULL);
}

static EsStatus visit_suite(BenchRun *run, const EsBench *bench, const EsBenchSuite *suite,
                            const EsBenchHost *wanted, const char *end) {
    EsBenchCase custom[ES_BENCH_MAX_CUSTOM];
    const EsBenchCase *cases = suite->cases;
    int n_cases = suite->n_cases, n_custom = 0;
    if (suite->choose != NULL) {
        ES_TRY(suite->choose(wanted, custom, &n_custom));
    }
    if (n_custom > 0) {
        cases = custom;
        n_cases = n_custom;
    }
    for (int k = 0; k < n_cases; k++) {
        ES_TRY(visit_case(run, bench, suite, &cases[k], end));
    }
    return ES_STATUS_OK;
}

static EsStatus visit_value(BenchRun *run, const EsBench *bench, int value) {
    EsBenchHost wanted = run->options->host;
    EsBenchSwept what = run->sweep.what;
    char end[32] = "";
    int *const fields[] = {NULL, &wanted.n_envs, &wanted.batch, &wanted.n_hidden, NULL};
    if (what == ES_BENCH_SWEPT_THREADS) {
        snprintf(end, sizeof end, " threads=%d", value);
    } else if (what != ES_BENCH_SWEPT_NONE) {
        *fields[what] = value;
    }
    for (size_t i = 0; i < ES_COUNT_OF(suites); i++) {
        if (is_wanted_suite(suites[i], run->arguments) && is_swept(suites[i], what)) {
            ES_TRY(visit_suite(run, bench, suites[i], &wanted, end));
        }
    }
    return ES_STATUS_OK;
}

// --- the run ---

static EsStatus check_names(const BenchRun *run) {
    for (int i = 0; i < run->arguments->n_positional; i++) {
        ES_TRY(check_suite_name(run->arguments->positional[i]));
    }
    for (size_t i = 0; i < ES_COUNT_OF(suites) && run->arguments->n_positional > 0; i++) {
        if (is_wanted_suite(suites[i], run->arguments) && !is_swept(suites[i], run->sweep.what)) {
            return ES_FAIL(ARGUMENT, "--sweep: suite %s has no cases that differ in %s",
                           suites[i]->name, es_bench_swept_name(run->sweep.what));
        }
    }
    return ES_STATUS_OK;
}

static EsStatus open_bench(const BenchOptions *options, int n_threads, EsBench *bench) {
    EsDeviceOptions device_options = {.n_threads = n_threads, .n_lanes = options->n_lanes};
    ES_TRY(es_device_open(options->device, &device_options, &bench->device));
    const EsDeviceInfo *opened = es_device_info(bench->device);
    int n_others = opened->kind == ES_DEVICE_CUDA ? count_other_processes(opened->index) : 0;
    if (n_others > 0 && !options->allow_busy) {
        return ES_FAIL(ARGUMENT,
                       "%d other processes use cuda:%d; timings would mean nothing (--allow-busy)",
                       n_others, opened->index);
    }
    return es_stream_create(bench->device, &bench->stream);
}

// Every value with a device of its own, since threads may differ.
static EsStatus run_values(BenchRun *run, char *device, size_t device_bytes) {
    for (int i = 0; i < run->sweep.n_values; i++) {
        EsStatus status = ES_STATUS_OK;
        EsBench bench = {NULL, NULL};
        int value = run->sweep.values[i];
        int n_threads = run->sweep.what == ES_BENCH_SWEPT_THREADS ? value : run->options->n_threads;
        if (!run->options->only_list) {
            ES_TRY_GOTO(open_bench(run->options, n_threads, &bench));
            const EsDeviceInfo *info = es_device_info(bench.device);
            snprintf(device, device_bytes, "%s, %s, %d %s", info->name, info->architecture,
                     info->n_processors,
                     info->kind == ES_DEVICE_CPU ? "threads" : "multiprocessors");
        }
        status = visit_value(run, &bench, value);
    done:
        es_stream_destroy(bench.stream);
        es_device_close(bench.device);
        ES_TRY(status);
    }
    return run->n_cases > 0
               ? ES_STATUS_OK
               : ES_FAIL(ARGUMENT, "no case contains \"%.100s\"", run->options->filter);
}

static EsStatus print_records(const BenchRun *run, const char *device) {
    char build[160], hash[17];
    snprintf(build, sizeof build, "%s, %.80s, binary %s", es_build_type(), es_build_compiler(),
             es_build_binary_hash(hash));
    EsBenchOrigin origin = {.commit = es_build_commit(),
                            .device = device,
                            .build = build,
                            .command = run->options->command};
    time_t now = time(NULL);
    struct tm parts;
    strftime(origin.date, sizeof origin.date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
    if (run->options->as_json) {
        return es_output_status(es_bench_records_print_json(&run->records, &origin, stdout));
    }
    es_bench_records_print_table(&run->records, &origin, stdout);
    return ES_STATUS_OK;
}

// The records are printed before they are found wanting.
static EsStatus run_bench(const BenchOptions *options, const EsArguments *arguments) {
    BenchRun run = {.options = options, .arguments = arguments};
    EsStatus status = ES_STATUS_OK, compared = ES_STATUS_OK;
    char device[224] = "";
    ES_TRY(es_bench_sweep_parse(options->sweep_text, &run.sweep));
    ES_TRY(check_names(&run));
    ES_TRY_GOTO(run_values(&run, device, sizeof device));
    if (options->only_list) {
        goto done;
    }
    for (size_t i = 0; i < ES_COUNT_OF(suites); i++) {
        if (suites[i]->is_counted && compared == ES_STATUS_OK) {
            compared = es_bench_count_compare(&run.records, suites[i]->name);
        }
    }
    if (options->baseline != NULL) {
        ES_TRY_GOTO(es_bench_records_compare(&run.records, options->baseline));
    }
    status = print_records(&run, device);
done:
    es_bench_records_destroy(&run.records);
    release_texts(&run.texts);
    return status == ES_STATUS_OK ? compared : status;
}

// Options that some suites alone look at, as their help says.
static void note_unused(const EsOptionTable *table, const EsArguments *arguments) {
    static const struct {
        const char *options, *where;
        const EsBenchSuite *suites[3];
    } uses[] = {
        {"task batch",
         "outside the suites host, growth and sync",
         {&es_bench_host, &es_bench_growth, &es_bench_sync}},
        {"blocks precision", "outside the suite host", {&es_bench_host}},
        {"seeds step-batches validation-images amp-dtype",
         "outside the suite growth",
         {&es_bench_growth}},
        {"tf32", "outside the suites host and growth", {&es_bench_host, &es_bench_growth}},
        {"hidden", "outside the suite policy", {&es_bench_policy}},
        {"data", "outside the suite prove", {&es_bench_prove}},
    };
    for (size_t i = 0; i < ES_COUNT_OF(uses); i++) {
        int is_used = 0;
        for (size_t k = 0; k < ES_COUNT_OF(uses[i].suites); k++) {
            is_used |= uses[i].suites[k] != NULL && is_wanted_suite(uses[i].suites[k], arguments);
        }
        if (!is_used) {
            es_options_note_unused(table, arguments, uses[i].options, uses[i].where);
        }
    }
}

static void print_suites(void) {
    printf("\nsuites:\n");
    for (size_t i = 0; i < ES_COUNT_OF(suites); i++) {
        printf("  %-12s %s\n", suites[i]->name, suites[i]->summary);
    }
}

// After the command line was understood: the suites, with the command in their records.
static EsStatus run_command(int argc, char **argv, const EsOptionTable *table,
                            const EsArguments *arguments, BenchOptions *wanted) {
    EsText command = {0};
    EsStatus status = es_bench_write_command(argc, argv, &command);
    if (status == ES_STATUS_OK) {
        note_unused(table, arguments);
        if (wanted->only_list) {
            es_options_note_unused(table, arguments, "samples baseline json allow-busy",
                                   "with --list");
        }
        wanted->command = command.bytes;
        status = run_bench(wanted, arguments);
    }
    es_text_destroy(&command);
    return status;
}

// Settings of cases, for the suites that their help names.
#define SUITE_OPTIONS(host)                                                                        \
    ES_OPTION_TEXT("task", &(host)->task, NULL, "NAME",                                            \
                   "host, growth, sync: one task (esper hosts --help), or the path of a host "     \
                   "file, instead of the list"),                                                   \
        ES_OPTION_INT("envs", &(host)->n_envs, "0", 0, 65536, "N",                                 \
                      "environments side by side, 0 = 4 (policy 64, prove 128)"),                  \
        ES_OPTION_INT("hosts", &(host)->n_envs, "0", 0, 65536, "N", "the same as --envs"),         \
        ES_OPTION_INT("batch", &(host)->batch, "0", 0, 65536, "N",                                 \
                      "host, growth, sync: images per batch, 0 = the task's"),                     \
        ES_OPTION_INT("blocks", &(host)->n_blocks, "0", 0, 12, "N",                                \
                      "host: blocks, 0 = the task's"),                                             \
        ES_OPTION_TEXT("precision", &(host)->precision, "f32", "P", "host: f32, or bf16 on CUDA"), \
        ES_OPTION_TEXT("seeds", &(host)->seeds, NULL, "S",                                         \
                       "growth: none, holding (norm, depthwise, conv_light), or blueprints by "    \
                       "commas"),                                                                  \
        ES_OPTION_INT("step-batches", &(host)->step_batches, "0", -1, 100000, "N",                 \
                      "growth: batches per step, 0 = 8, -1 = a pass over the images / envs"),      \
        ES_OPTION_INT("validation-images", &(host)->n_validation, "0", 0, 10000000, "N",           \
                      "growth: validation images of a step, 0 = 2000"),                            \
        ES_OPTION_TEXT("amp-dtype", &(host)->amp_dtype, "off", "T",                                \
                       "growth: off, bfloat16 or float16 on CUDA, auto as in `esper grow`"),       \
        ES_OPTION_TEXT("tf32", &(host)->tf32, "on", "on|off",                                      \
                       "host, growth: f32 convolutions on CUDA multiply in TF32"),                 \
        ES_OPTION_INT("hidden", &(host)->n_hidden, "0", 0, 4096, "N",                              \
                      "policy: units of the LSTM, 0 = the list"),                                  \
        ES_OPTION_TEXT("data", &(host)->data, NULL, "DIR",                                         \
                       "prove: folder of a knowledge graph instead of the generated one")

EsExit cmd_bench(int argc, char **argv) {
    BenchOptions wanted;
    const EsOption options[] = {
        ES_OPTION_TEXT("device", &wanted.device, "cpu", "NAME", "cpu, cuda or cuda:N"),
        ES_OPTION_INT("threads", &wanted.n_threads, "0", 0, 1024, "N",
                      "CPU threads, 0 = one per processor"),
        ES_OPTION_INT("lanes", &wanted.n_lanes, "0", 0, 16, "N",
                      "CPU vectors of 4, 8 or 16 floats, 0 = the widest"),
        ES_OPTION_INT("samples", &wanted.n_samples, "11", 5, ES_BENCH_MAX_SAMPLES, "N",
                      "timed samples, or pairs, per case"),
        ES_OPTION_TEXT("filter", &wanted.filter, "", "TEXT",
                       "only cases whose line in --list contains TEXT"),
        ES_OPTION_TEXT("baseline", &wanted.baseline, NULL, "FILE",
                       "compare with an earlier --json output"),
        SUITE_OPTIONS(&wanted.host),
        ES_OPTION_TEXT("sweep", &wanted.sweep_text, NULL, "LIST",
                       "envs=1,4,16: the cases once per value; also batch, hidden, threads"),
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
        .print_more = print_suites,
        .options = options,
        .n_options = ES_COUNT_OF(options),
        .max_positional = 16,
    };
    EsArguments arguments;
    EsExit code;
    if (es_bench_ranks_asked() != NULL) {
        return es_command_finish("bench", es_bench_ranks_serve(es_bench_ranks_asked()));
    }
    if (!es_options_begin(&table, argc, argv, &arguments, &code)) {
        return code;
    }
    return es_command_finish("bench", run_command(argc, argv, &table, &arguments, &wanted));
}
