// `esper prove embed`: trains an embedding model on the facts of a graph.
#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "base/macros.h"
#include "cli/frame.h"
#include "proof/ranking/embedding_train.h"
#include "prove/prove_action.h"
#include "runs/stop_signal.h"

typedef struct Embed {
    const EsProveSource *source;
    const char *out;
    int n_dimensions, n_epochs, batch, n_candidates, valid_every, patience, n_valid, n_threads;
    int seed;
    double learning_rate, regularisation;
    int is_quiet, as_json;
    int32_t n_left_out; // predicates of another number of arguments than two
} Embed;

// --- results ---

static EsStatus print_json(const Embed *embed, const EsEmbeddingSettings *settings,
                           const EsEmbeddingReport *report) {
    // a path that is not UTF-8 cannot be written as JSON
    json_t *name = json_string(es_prove_source_name(embed->source));
    json_t *out = json_string(embed->out);
    json_t *mrr = report->best_epoch > 0 ? json_real(report->best_mrr) : json_null();
    json_t *root = json_pack(
        "{s:o, s:o, s:i, s:i, s:i, s:i, s:f, s:f, s:I, s:i, s:f, s:o, s:i, s:f}", "data",
        name != NULL ? name : json_null(), "model", out != NULL ? out : json_null(),
        "predicates_left_out", embed->n_left_out, "dimensions", settings->n_dimensions, "batch",
        settings->batch, "candidates", settings->n_candidates, "rate",
        (double)settings->learning_rate, "regularisation", (double)settings->regularisation, "seed",
        (json_int_t)settings->seed, "epochs", report->epoch, "loss", report->loss, "valid_mrr", mrr,
        "best_epoch", report->best_epoch, "seconds", report->seconds);
    return es_json_print(root, 6);
}

static void print_result(const Embed *embed, const EsEmbeddingReport *report) {
    if (report->best_epoch > 0) {
        es_print("%s: valid MRR %.4f after epoch %d of %d; %.1f s\n", embed->out, report->best_mrr,
                 report->best_epoch, report->epoch, report->seconds);
    } else {
        es_print("%s: epoch %d, nothing to validate with; loss %.4f, %.1f s\n", embed->out,
                 report->epoch, report->loss, report->seconds);
    }
}

// --- the training ---

static int show_progress(void *context, const EsEmbeddingReport *report) {
    const Embed *embed = context;
    char mrr[64] = "";
    if (report->is_ranked) {
        snprintf(mrr, sizeof mrr, "   valid MRR %.4f%s", report->valid_mrr,
                 report->best_epoch == report->epoch ? " *" : "");
    }
    if (!embed->is_quiet) {
        es_message("epoch %4d   loss %8.4f   %7.1f s%s\n", report->epoch, report->loss,
                   report->seconds, mrr);
    }
    return es_stop_signal_time_ns() != 0;
}

// Settings left at their default follow the size of the graph.
static EsEmbeddingSettings make_settings(const Embed *embed, const EsKnowledgeGraph *graph) {
    EsEmbeddingSettings settings = es_embedding_defaults(graph);
    settings.n_dimensions = embed->n_dimensions;
    settings.n_epochs = embed->n_epochs;
    settings.batch = embed->batch;
    if (embed->n_candidates >= 0) {
        settings.n_candidates = embed->n_candidates;
    }
    settings.learning_rate = (float)embed->learning_rate;
    settings.regularisation = (float)embed->regularisation;
    settings.valid_every = embed->valid_every;
    settings.patience = embed->patience;
    settings.n_valid = embed->n_valid;
    settings.seed = (uint64_t)embed->seed;
    return settings;
}

static EsStatus run_embed(Embed *embed) {
    EsKnowledgeGraph *graph = NULL;
    EsEmbeddingModel *model = NULL;
    EsEmbeddingReport report;
    EsDevice *device = NULL;
    EsDeviceOptions device_options = {.n_threads = embed->n_threads};
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_stop_signal_begin("\nstopping after this epoch; the best model so far is kept\n",
                                "\nstopped at once; nothing was written\n"));
    ES_TRY_GOTO(es_file_writer_try(embed->out)); // minutes of training must not end at no folder
    // rules teach the model nothing, but their predicates count among the names that it is made for
    ES_TRY_GOTO(es_prove_source_load_using(embed->source, ES_KG_RULES_IF_THERE, &graph));
    ES_TRY_GOTO(es_prove_take_binary(&graph, "the embedding", &embed->n_left_out));
    EsEmbeddingSettings settings = make_settings(embed, graph);
    ES_TRY_GOTO(es_device_open("cpu", &device_options, &device));
    ES_TRY_GOTO(
        es_embedding_model_train(device, graph, &settings, show_progress, embed, &report, &model));
    ES_TRY_GOTO(es_embedding_model_save(model, embed->out));
    // a model on stdout stands there alone
    int is_alone = es_file_is_stdout(embed->out);
    if (embed->as_json && !is_alone) {
        ES_TRY_GOTO(print_json(embed, &settings, &report));
    } else if (!is_alone) {
        print_result(embed, &report);
    }
    if (report.is_stopped) {
        status = ES_FAIL(INTERRUPTED, "stopped after epoch %d; %s holds the best model so far",
                         report.epoch, embed->out);
    }
done:
    es_stop_signal_end();
    es_embedding_model_destroy(model);
    es_device_close(device);
    es_kg_destroy(graph);
    return status;
}

EsExit cmd_prove_embed(int argc, char **argv) {
    EsProveSource source = {.folder = NULL};
    Embed embed = {.source = &source};
    const EsOption options[] = {
        ES_PROVE_SOURCE_OPTIONS(&source),
        ES_OPTION_TEXT("out", &embed.out, NULL, "FILE", "file to write the model to (safetensors)"),
        ES_OPTION_INT("dimensions", &embed.n_dimensions, "64", ES_EMBEDDING_DIMENSION_STEP,
                      ES_EMBEDDING_MAX_DIMENSIONS, "N",
                      "complex numbers per vector, a multiple of 8"),
        ES_OPTION_INT("epochs", &embed.n_epochs, "40", 1, 1000000, "N",
                      "maximum passes over the facts"),
        ES_OPTION_INT("batch", &embed.batch, "500", 1, 65536, "N", "questions per step"),
        ES_OPTION_INT("candidates", &embed.n_candidates, "-1", -1, 1 << 28, "N",
                      "constants compared per step; 0: all, -1: all up to 8192, else 2048"),
        ES_OPTION_FLOAT("rate", &embed.learning_rate, "0.1", 1e-6, 100, "X",
                        "learning rate of Adagrad"),
        ES_OPTION_FLOAT("regularisation", &embed.regularisation, "0.03", 0, 100, "X",
                        "weight of the regularisation N3"),
        ES_OPTION_INT("valid-every", &embed.valid_every, "5", 1, 1000000, "N",
                      "epochs between rankings of the validation queries"),
        ES_OPTION_INT("patience", &embed.patience, "4", 1, 1000000, "N",
                      "rankings without a new best before it stops"),
        ES_OPTION_INT("valid-queries", &embed.n_valid, "500", 0, 2147483647, "N",
                      "validation queries to rank, evenly spaced; 0: all"),
        ES_OPTION_INT("training-seed", &embed.seed, "1", 0, 2147483647, "N",
                      "seed of the initial model and the order of facts"),
        ES_OPTION_INT("threads", &embed.n_threads, "0", 0, 1024, "N",
                      "threads; 0: one per processor"),
        ES_OPTION_FLAG("quiet", &embed.is_quiet, "print no progress on stderr"),
        ES_OPTION_FLAG("json", &embed.as_json, "print the result as JSON"),
    };
    const EsOptionTable table = {
        .command = "prove embed",
        .usage = "--out FILE [options]",
        .summary =
            "Trains an embedding model (ComplEx) on the facts, keeps the weights that "
            "rank the validation queries best,\nand writes them to FILE. Ctrl-C ends it after the "
            "epoch and keeps the best so far. The graph needs no rules. Predicates of other than "
            "two "
            "arguments are left out.",
        .example = "esper prove embed --data kg/family --out family.safetensors",
        .options = options,
        .n_options = ES_COUNT_OF(options),
    };
    EsArguments arguments;
    EsExit code;
    if (!es_prove_source_begin(&source, &table, argc, argv, &arguments, &code)) {
        return code;
    }
    EsStatus status =
        embed.out == NULL
            ? ES_FAIL(ARGUMENT, "--out FILE is missing; it names the file of the model")
            : run_embed(&embed);
    return es_command_finish("prove embed", status);
}
