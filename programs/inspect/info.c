// `esper info`: the parts of this build and the devices of this machine.
#include <gnu/libc-version.h>
#include <stdio.h>

#include "base/json.h"
#include "base/macros.h"
#include "cli/frame.h"
#include "cli/options.h"
#include "cli/run_command.h"
#include "esper/version.h"
#include "kernels/kernels.h"
#include "telemetry/event.h"
#include "telemetry/sink.h"
#include "telemetry/sinks/sqlite_views.h"
#include "tensor/device.h"

// --- telemetry ---

static const char *const level_names[] = {[ES_LEVEL_OFF] = "off",
                                          [ES_LEVEL_MINIMAL] = "minimal",
                                          [ES_LEVEL_NORMAL] = "normal",
                                          [ES_LEVEL_DEBUG] = "debug"};
static const char *const type_names[] = {
    [ES_COLUMN_INT] = "INTEGER", [ES_COLUMN_REAL] = "REAL", [ES_COLUMN_TEXT] = "TEXT"};

static void print_event_list(FILE *stream) {
    fprintf(
        stream,
        "## Events\n\n"
        "Version %d of the schema. Every event is a table `event_<name>` in run.db and an object "
        "per line in events.jsonl.\n\n"
        "| event | when | from level | on | if a queue is full |\n|---|---|---|---|---|\n",
        ES_EVENT_SCHEMA_VERSION);
    for (int type = 0; type < ES_EVENT_COUNT; type++) {
        const EsEventSchema *schema = es_event_schema((EsEventType)type);
        fprintf(stream, "| `%s` | %s | %s | %s | %s |\n", schema->name, schema->help,
                level_names[schema->level],
                schema->pace == ES_PACE_STRIDED ? "the stride" : "every occasion",
                schema->delivery == ES_DELIVERY_KEPT ? "kept" : "dropped");
    }
}

static void print_event(FILE *stream, const EsEventSchema *schema) {
    fprintf(stream, "\n### `event_%s`\n\n| column | type | meaning |\n|---|---|---|\n",
            schema->name);
    for (int i = 0; i < schema->n_columns; i++) {
        const EsEventColumn *column = &schema->columns[i];
        fprintf(stream, "| `%s` | %s | %s |\n", column->name, type_names[column->type],
                column->help);
    }
}

static void print_view(FILE *stream, const EsView *view) {
    fprintf(stream, "\n### `%s`\n\n%s.\n\n| column | meaning |\n|---|---|\n", view->name,
            view->help);
    for (int i = 0; i < view->n_columns; i++) {
        fprintf(stream, "| `%s` | %s |\n", view->columns[i].name, view->columns[i].help);
    }
}

// A summary's columns follow from those of its event: they are named, not described again.
static void print_summary(FILE *stream, const EsSummary *summary) {
    const char *name = es_event_schema(summary->type)->name;
    fprintf(stream, "| `summary_%s` | %s | %s | %s |", name, summary->help,
            summary->has_level_1 ? "1, 16" : "16", summary->key != NULL ? summary->key : "");
    for (int i = 0; i < summary->n_columns; i++) {
        fprintf(stream, "%s `%s`", i > 0 ? "," : "", summary->columns[i]);
    }
    fprintf(stream, " |\n");
}

static void print_summaries(FILE *stream) {
    fprintf(stream, "\n## Summaries\n\n"
                    "Tables of sums over rounds, `summary_<name>` of the rows of `event_<name>`. A "
                    "row is a bucket of `level` rounds, `first` to `last`, and a key where there "
                    "is one; `n_rows` counts its rows, and of each column x there are the count "
                    "of its values `x_n`, `x_sum`, `x_min` and `x_max`. There are complete "
                    "buckets alone: rounds after the last are in the event tables.\n\n"
                    "| table | of | levels | key | columns |\n|---|---|---|---|---|\n");
    for (int i = 0; i < es_summary_count(); i++) {
        print_summary(stream, es_summary(i));
    }
}

// Prints events, summaries and views as markdown tables, for --telemetry and docs/telemetry.md.
static void print_telemetry(FILE *stream) {
    print_event_list(stream);
    fprintf(stream,
            "\nAll event tables begin with these columns; any other value may be NULL, which means "
            "not measured.\n\n"
            "| column | type | meaning |\n|---|---|---|\n"
            "| `sequence` | INTEGER | position in the order of emission, from 1 in each session |\n"
            "| `row` | INTEGER | position in its packet, from 0 |\n"
            "| `unix_time` | REAL | when it was emitted, seconds |\n"
            "| `round` | INTEGER | from 1; 0 for what comes before the first |\n"
            "| `step` | INTEGER | in the round, from 0; NULL for events of a whole round |\n");
    for (int type = 0; type < ES_EVENT_COUNT; type++) {
        print_event(stream, es_event_schema((EsEventType)type));
    }
    print_summaries(stream);
    fprintf(stream, "\n## Views\n");
    for (int i = 0; i < es_view_count(); i++) {
        print_view(stream, es_view(i));
    }
}

// Append one device; a device that does not open is listed with the reason.
static EsStatus describe_device(const char *name, json_t *devices) {
    EsDevice *device = NULL;
    EsStatus status = es_device_open(name, NULL, &device);
    if (status == ES_STATUS_MEMORY) {
        return status;
    }
    json_t *entry = json_object();
    json_object_set_new(entry, "device", json_string(name));
    if (status != ES_STATUS_OK) {
        json_object_set_new(entry, "error", json_string(es_status_detail()));
        json_array_append_new(devices, entry);
        return ES_STATUS_OK;
    }
    const EsDeviceInfo *info = es_device_info(device);
    json_object_set_new(entry, "model", json_string(info->name));
    json_object_set_new(entry, "architecture", json_string(info->architecture));
    json_object_set_new(entry, "memory_bytes", json_integer((json_int_t)info->memory_bytes));
    if (info->kind == ES_DEVICE_CPU) {
        json_object_set_new(entry, "threads", json_integer(info->n_processors));
        json_object_set_new(entry, "lanes", json_integer(info->n_lanes));
        json_object_set_new(entry, "precisions", json_string("f32"));
    } else {
        json_object_set_new(entry, "multiprocessors", json_integer(info->n_processors));
        json_object_set_new(entry, "precisions", json_string("f32, TF32, bf16, f16"));
    }
    es_device_close(device);
    json_array_append_new(devices, entry);
    return ES_STATUS_OK;
}

static json_t *text_or_null(const char *text) {
    return text != NULL ? json_string(text) : json_null();
}

// json_decref the description. MEMORY when a part of it is missing.
static EsStatus describe_build(json_t **description) {
    json_t *info = *description = json_object();
    json_object_set_new(info, "version", json_string(ES_VERSION));
    json_object_set_new(info, "commit", json_string(es_build_commit()));
    json_object_set_new(info, "compiler", json_string(es_build_compiler()));
    json_object_set_new(info, "build", json_string(es_build_type()));
    json_object_set_new(info, "cuda", json_boolean(es_kernels_cuda() != NULL));

    json_t *devices = json_array();
    EsStatus status = describe_device("cpu", devices);
    for (int i = 0; i < es_device_cuda_count() && status == ES_STATUS_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "cuda:%d", i);
        status = describe_device(name, devices);
    }
    json_object_set_new(info, "devices", devices);
    ES_TRY(status);

    json_t *libraries = json_object();
    json_object_set_new(libraries, "jansson", json_string(jansson_version_str()));
    json_object_set_new(libraries, "inih", json_string(es_build_inih_version()));
    json_object_set_new(libraries, "libc", json_string(gnu_get_libc_version()));
    json_object_set_new(libraries, "sqlite", text_or_null(es_sqlite_sink_version()));
    json_object_set_new(libraries, "libmicrohttpd", text_or_null(es_prometheus_sink_version()));
    json_object_set_new(libraries, "open_mpi", text_or_null(es_ranks_mpi_version()));
    json_object_set_new(libraries, "nccl", text_or_null(es_nccl_version()));
    json_object_set_new(info, "libraries", libraries);
    return es_json_lacked_memory() ? ES_FAIL(MEMORY, "not enough memory to describe this build")
                                   : ES_STATUS_OK;
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static long long number_of(const json_t *object, const char *key) {
    return (long long)json_integer_value(json_object_get(object, key));
}

static void print_device(const json_t *device) {
    if (json_object_get(device, "error") != NULL) {
        es_print("%-10s %s\n", text_of(device, "device"), text_of(device, "error"));
        return;
    }
    es_print("%-10s %s, %s, %.1f GiB", text_of(device, "device"), text_of(device, "model"),
             text_of(device, "architecture"),
             (double)number_of(device, "memory_bytes") / (1024.0 * 1024.0 * 1024.0));
    if (json_object_get(device, "threads") != NULL) {
        printf(", %lld threads, %lld images per vector", number_of(device, "threads"),
               number_of(device, "lanes"));
    } else {
        printf(", %lld multiprocessors", number_of(device, "multiprocessors"));
    }
    printf(", computes in %s\n", text_of(device, "precisions"));
}

static void print_info(const json_t *info) {
    es_print("esper      %s, commit %s\n", text_of(info, "version"), text_of(info, "commit"));
    es_print("build      %s, %s, CUDA %s\n", text_of(info, "build"), text_of(info, "compiler"),
             es_build_cuda());
    size_t index;
    json_t *device;
    json_array_foreach(json_object_get(info, "devices"), index, device) { print_device(device); }
    const json_t *libraries = json_object_get(info, "libraries");
    printf("libraries  jansson %s, inih %s, libc %s", text_of(libraries, "jansson"),
           text_of(libraries, "inih"), text_of(libraries, "libc"));
    static const char *const optional[][2] = {{"sqlite", "SQLite"},
                                              {"libmicrohttpd", "libmicrohttpd"},
                                              {"open_mpi", "Open MPI"},
                                              {"nccl", "NCCL"}};
    for (size_t i = 0; i < ES_COUNT_OF(optional); i++) {
        const char *version = text_of(libraries, optional[i][0]);
        printf(", %s %s", optional[i][1], version[0] != '\0' ? version : "not built in");
    }
    printf("\n");
}

EsExit cmd_info(int argc, char **argv) {
    int as_json = 0, lists_telemetry = 0;
    const EsOption options[] = {
        ES_OPTION_FLAG("json", &as_json, "print one JSON object"),
        ES_OPTION_FLAG("telemetry", &lists_telemetry,
                       "print all events, columns and views instead, as markdown"),
    };
    const EsOptionTable table = {
        .command = "info",
        .usage = "[--json | --telemetry]",
        .summary = "Print version, compiler, devices and libraries of this build on this machine.",
        .example = "esper info --json",
        .options = options,
        .n_options = ES_COUNT_OF(options),
    };
    EsArguments arguments;
    EsExit code;
    if (!es_options_begin(&table, argc, argv, &arguments, &code)) {
        return code;
    }
    if (lists_telemetry && as_json) {
        return es_command_finish("info", ES_FAIL(ARGUMENT, "--json and --telemetry exclude each "
                                                           "other: the tables are markdown"));
    }
    if (lists_telemetry) {
        print_telemetry(stdout);
        return ES_EXIT_DONE;
    }
    json_t *info = NULL;
    EsStatus status = describe_build(&info);
    if (status == ES_STATUS_OK && as_json) {
        status = es_output_status(es_json_write(json_incref(info), JSON_INDENT(2), stdout));
    } else if (status == ES_STATUS_OK) {
        print_info(info);
    }
    json_decref(info);
    return es_command_finish("info", status);
}
