// `esper predict`: classes that a grown network gives to images, arrays and tables, a row each.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/macros.h"
#include "base/memory.h"
#include "cli/options.h"
#include "esper/network.h"

enum { CHUNK = 256 }; // inputs read and predicted at a time

static const char summary[] =
    "Predict with a grown network. NETWORK is a folder with network.json and network.safetensors, "
    "one\n"
    "of these files, or a run of `esper fit` (or `esper grow --keep-best`), whose best network is\n"
    "taken. An INPUT is\n\n"
    "  a PNG or JPEG file, or a folder of them with its sub-folders: scaled and letter-boxed\n"
    "  .npy   numbers; images [N, H, W], [N, C, H, W] or [N, H, W, C]; rows [N, D]\n"
    "  .csv   rows; with a header columns are found by name, and others (a label) are left out\n"
    "  IDX    images of bytes, as MNIST has them\n\n"
    "One row per input, with tabs between: name, class, probability. --probabilities adds one "
    "column\n"
    "per class. Tabs, line breaks and backslashes in names are written \\t, \\n, \\\\.";

typedef struct Prediction {
    EsNetwork *network;   // owned
    const char *out;      // NULL: stdout
    EsFileWriter *writer; // owned, of --out
    int with_probabilities;
    float *inputs, *scores; // owned
} Prediction;

// A field of a row; bytes that would break the row or command a terminal are escaped.
static void put_field(FILE *stream, const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        if (*at == '\\') {
            fputs("\\\\", stream);
        } else if (*at == '\t' || *at == '\n') {
            fputs(*at == '\t' ? "\\t" : "\\n", stream);
        } else if (*at < ' ' || *at == 127) {
            fprintf(stream, "\\x%02x", *at);
        } else {
            fputc(*at, stream);
        }
    }
}

static void put_header(FILE *stream, const Prediction *p) {
    const EsNetworkInfo *info = es_network_info(p->network);
    fputs("input\tclass\tprobability", stream);
    for (int k = 0; p->with_probabilities && k < info->n_classes; k++) {
        fputc('\t', stream);
        put_field(stream, info->class_names[k]);
    }
    fputc('\n', stream);
}

static void put_row(FILE *stream, const Prediction *p, const char *name, const float *row) {
    const EsNetworkInfo *info = es_network_info(p->network);
    int best = 0;
    for (int k = 1; k < info->n_classes; k++) {
        best = row[k] > row[best] ? k : best;
    }
    put_field(stream, name);
    fputc('\t', stream);
    put_field(stream, info->class_names[best]);
    fprintf(stream, "\t%.6f", (double)row[best]);
    for (int k = 0; p->with_probabilities && k < info->n_classes; k++) {
        fprintf(stream, "\t%.6f", (double)row[k]);
    }
    fputc('\n', stream);
}

// Text of one chunk to where it goes.
static EsStatus give(Prediction *p, const char *text, size_t bytes) {
    if (p->writer != NULL) {
        return es_file_writer_append(p->writer, text, bytes);
    }
    fwrite(text, 1, bytes, stdout); // main reports a stdout that takes no more
    fflush(stdout);
    return ES_STATUS_OK;
}

static EsStatus predict_chunk(Prediction *p, const EsNetworkReader *reader, int64_t n) {
    char *text = NULL;
    size_t bytes = 0;
    int n_classes = es_network_info(p->network)->n_classes;
    ES_TRY(es_network_predict(p->network, p->inputs, n, p->scores));
    es_network_softmax(p->network, p->scores, n);
    FILE *stream = open_memstream(&text, &bytes);
    if (stream == NULL) {
        return ES_FAIL(MEMORY, "no memory for %lld rows", (long long)n);
    }
    for (int64_t i = 0; i < n; i++) {
        put_row(stream, p, es_network_reader_name(reader, i), p->scores + i * n_classes);
    }
    EsStatus status = es_memory_stream_close(stream, &text);
    if (status == ES_STATUS_OK) {
        status = give(p, text, bytes);
    }
    free(text);
    return status;
}

static EsStatus predict_path(Prediction *p, const char *path) {
    EsNetworkReader *reader = NULL;
    int64_t n = 1;
    EsStatus status = es_network_reader_open(p->network, path, &reader);
    while (status == ES_STATUS_OK && n > 0 && !es_output_is_lost()) {
        status = es_network_reader_next(reader, CHUNK, p->inputs, &n);
        if (status == ES_STATUS_OK && n > 0) {
            status = predict_chunk(p, reader, n);
        }
    }
    es_network_reader_close(reader);
    return status;
}

static EsStatus begin(Prediction *p) {
    const EsNetworkInfo *info = es_network_info(p->network);
    char *text = NULL;
    size_t bytes = 0;
    ES_TRY(es_allocate(sizeof *p->inputs * CHUNK * (size_t)info->n_inputs, (void **)&p->inputs));
    ES_TRY(es_allocate(sizeof *p->scores * CHUNK * (size_t)info->n_classes, (void **)&p->scores));
    if (p->out != NULL) {
        ES_TRY(es_file_writer_open(p->out, &p->writer));
    }
    FILE *stream = open_memstream(&text, &bytes);
    if (stream == NULL) {
        return ES_FAIL(MEMORY, "no memory for the names of %d classes", info->n_classes);
    }
    put_header(stream, p);
    EsStatus status = es_memory_stream_close(stream, &text);
    if (status == ES_STATUS_OK) {
        status = give(p, text, bytes);
    }
    free(text);
    return status;
}

static EsStatus predict_all(Prediction *p, const EsArguments *arguments, int n_threads) {
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_network_open(arguments->positional[0], n_threads, &p->network));
    ES_TRY_GOTO(begin(p));
    for (int i = 1; i < arguments->n_positional; i++) {
        ES_TRY_GOTO(predict_path(p, arguments->positional[i]));
    }
    if (p->writer != NULL) {
        status = es_file_writer_commit(p->writer);
        p->writer = NULL;
    }
done:
    es_file_writer_abandon(p->writer);
    es_network_close(p->network);
    es_release(p->inputs);
    es_release(p->scores);
    return status;
}

EsExit cmd_predict(int argc, char **argv) {
    Prediction p = {0};
    int n_threads;
    EsArguments arguments;
    EsExit code;
    const EsOption options[] = {
        ES_OPTION_FLAG("probabilities", &p.with_probabilities, "one more column for every class"),
        ES_OPTION_TEXT("out", &p.out, NULL, "FILE", "write there instead of on stdout"),
        ES_OPTION_INT("threads", &n_threads, "0", 0, 1024, "N", "0 = one per processor"),
    };
    const EsOptionTable table = {
        .command = "predict",
        .usage = "NETWORK INPUT... [options]",
        .summary = summary,
        .example = "esper predict runs/first/networks/1 photos/ more.png --out predictions.tsv",
        .options = options,
        .n_options = ES_COUNT_OF(options),
        .max_positional = ES_MAX_ARGUMENTS,
    };
    if (!es_options_begin(&table, argc, argv, &arguments, &code)) {
        return code;
    }
    if (arguments.n_positional < 2) {
        return es_command_finish("predict", ES_FAIL(ARGUMENT, "%s",
                                                    arguments.n_positional == 0
                                                        ? "which network? name its folder"
                                                        : "predict what? name files or folders"));
    }
    return es_command_finish("predict", predict_all(&p, &arguments, n_threads));
}
