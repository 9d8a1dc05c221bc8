// The public face of grown networks: include/esper/network.h over fit/grown_network.h, and
// include/esper/fit.h over runs/fit/fit_search.h.
#include "esper/network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/api_internal.h"
#include "base/clock.h"
#include "base/folder.h"
#include "base/memory.h"
#include "data/inputs.h"
#include "esper/fit.h"
#include "fit/export_int8.h"
#include "fit/network_report.h"
#include "runs/fit/fit_search.h"

struct EsNetwork {
    EsDevice *device;      // owned, a CPU that holds the weights: the pool predicts
    EsGrownNetwork *grown; // owned
    EsThreadPool *pool;    // owned
    EsNetworkInfo info;    // borrows from grown
};

static void fill_info(const EsGrownNetwork *grown, EsNetworkInfo *info) {
    const EsGrownSpec *spec = &grown->spec;
    *info = (EsNetworkInfo){.is_rows = spec->kind == ES_INPUT_ROWS,
                            .n_channels = spec->host.image_channels,
                            .height = spec->host.image_size,
                            .width = spec->host.image_size,
                            .n_inputs = es_grown_network_input_count(grown),
                            .n_classes = spec->host.n_classes,
                            .class_names = spec->class_names,
                            .column_names = spec->column_names,
                            .n_parameters = grown->n_parameters,
                            .n_seeds = spec->n_seeds,
                            .host = spec->host.name,
                            .data = grown->origin.data,
                            .validation_accuracy = grown->origin.validation_accuracy,
                            .test_accuracy = grown->origin.test_accuracy};
}

EsStatus es_network_open(const char *path, int n_threads, EsNetwork **network_out) {
    EsNetwork *network = NULL;
    EsStatus status = ES_STATUS_OK;
    *network_out = NULL;
    if (n_threads < 0 || n_threads > 1024) {
        return ES_FAIL(ARGUMENT, "n_threads is %d, must be 0..1024", n_threads);
    }
    ES_TRY(es_allocate(sizeof *network, (void **)&network));
    ES_TRY_GOTO(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &network->device));
    ES_TRY_GOTO(es_grown_network_load(path, network->device, &network->grown));
    ES_TRY_GOTO(es_thread_pool_create(&network->pool, n_threads));
    fill_info(network->grown, &network->info);
done:
    if (status != ES_STATUS_OK) {
        es_network_close(network);
        return status;
    }
    *network_out = network;
    return ES_STATUS_OK;
}

void es_network_close(EsNetwork *network) {
    if (network == NULL) {
        return;
    }
    es_grown_network_destroy(network->grown);
    es_device_close(network->device);
    es_thread_pool_destroy(network->pool);
    es_release(network);
}

const EsNetworkInfo *es_network_info(const EsNetwork *network) { return &network->info; }

static EsStatus predict(EsNetwork *network, EsInputForm form, const void *inputs, int64_t n,
                        float *logits) {
    if (n < 0) {
        return ES_FAIL(ARGUMENT, "%lld inputs", (long long)n);
    }
    return es_grown_network_predict(network->grown, network->pool, form, inputs, n, logits);
}

EsStatus es_network_predict(EsNetwork *network, const float *inputs, int64_t n, float *logits) {
    return predict(network, ES_INPUT_PLAIN, inputs, n, logits);
}

EsStatus es_network_predict_bytes(EsNetwork *network, const uint8_t *pixels, int64_t n,
                                  float *logits) {
    return predict(network, ES_INPUT_BYTES, pixels, n, logits);
}

void es_network_softmax(const EsNetwork *network, float *logits, int64_t n) {
    es_grown_network_softmax(logits, n, network->info.n_classes);
}

EsStatus es_network_save(const EsNetwork *network, const char *folder) {
    ES_TRY(es_folder_make(folder));
    return es_grown_network_save(network->grown, folder);
}

void es_network_draw(const EsNetwork *network, FILE *stream) {
    es_grown_network_draw(network->grown, stream);
}

// --- fitting ---

// Sets section.key to a number, unless it is 0, which leaves the default.
static EsStatus set_number(const EsConfig *config, const char *key, double value) {
    char text[128];
    snprintf(text, sizeof text, "%s=%.17g", key, value);
    return value == 0 ? ES_STATUS_OK : es_config_override(config, text);
}

static EsStatus set_text(const EsConfig *config, const char *key, const char *value) {
    char text[1280];
    if (value == NULL) {
        return ES_STATUS_OK;
    }
    int length = snprintf(text, sizeof text, "%s=%s", key, value);
    return length < (int)sizeof text ? es_config_override(config, text)
                                     : ES_FAIL(ARGUMENT, "%s is too long", key);
}

// The settings of the command, checked by its limits.
static EsStatus configure(const EsFitOptions *options, EsFitSettings *settings) {
    EsConfig config = es_fit_run_config(settings);
    ES_TRY(set_number(&config, "run.threads", options->n_threads));
    ES_TRY(set_number(&config, "fit.max_params", (double)options->max_parameters));
    ES_TRY(set_number(&config, "run.rounds", options->n_epochs));
    ES_TRY(set_number(&config, "fit.candidates", options->n_candidates));
    ES_TRY(set_number(&config, "fit.max_seconds", options->max_seconds));
    ES_TRY(set_number(&config, "fit.target_accuracy", options->target_accuracy));
    ES_TRY(set_number(&config, "run.seed", options->seed));
    ES_TRY(set_text(&config, "fit.policy", options->policy));
    ES_TRY(set_text(&config, "fit.task", options->task));
    for (int i = 0; i < options->n_settings; i++) {
        ES_TRY(es_config_override(&config, options->settings[i]));
    }
    return ES_STATUS_OK;
}

static EsFitProgress progress_of(const EsFitSearch *search, int64_t epoch) {
    EsFitPlace places[ES_FIT_CANDIDATES_MAX];
    int n = es_fit_search_list(search, places);
    EsFitProgress progress = {.epoch = (int)epoch,
                              .n_epochs = (int)search->options.n_epochs,
                              .n_candidates = n,
                              .accuracy = n > 0 ? places[0].accuracy : -1,
                              .best_accuracy = search->best_accuracy};
    if (search->best != NULL) {
        progress.n_parameters = search->best->n_parameters;
        progress.n_seeds = search->best->spec.n_seeds;
    }
    return progress;
}

static EsStatus run_epochs(EsFitSearch *search, const EsFitOptions *options, int64_t start_ns) {
    const EsFitSettings *settings = search->options.settings;
    int is_over = 0;
    for (int64_t epoch = 1; epoch <= search->options.n_epochs && !is_over; epoch++) {
        ES_TRY(es_fit_search_advance(search, epoch));
        ES_TRY(es_fit_search_decide(search, epoch));
        EsFitProgress progress = progress_of(search, epoch);
        is_over =
            es_fit_is_enough(settings, es_clock_seconds_since(start_ns), search->best_accuracy) ||
            (options->is_stopped != NULL && options->is_stopped(options->context, &progress));
    }
    return search->best != NULL
               ? ES_STATUS_OK
               : ES_FAIL(INPUT, "no candidate had a finite loss; try a lower fit.rate");
}

// Takes the best network out of the search, with its accuracy on the test samples.
static EsStatus take_best(EsFitSearch *search, const EsDataset *dataset, EsNetwork *network) {
    EsNetworkScore score = {0};
    network->grown = search->best;
    search->best = NULL;
    if (dataset->test.count > 0) {
        EsStatus status =
            es_network_score(network->grown, network->pool, dataset, &dataset->test, &score);
        network->grown->origin.test_accuracy = score.accuracy;
        es_network_score_destroy(&score);
        ES_TRY(status);
    }
    fill_info(network->grown, &network->info);
    return ES_STATUS_OK;
}

static EsStatus fit(const EsDataset *dataset, const EsFitOptions *options,
                    const EsFitSettings *settings, EsNetwork *network) {
    EsFitPlan plan = {0};
    EsFitSearch *search = NULL;
    EsFitDevices devices;
    EsStatus status = ES_STATUS_OK;
    int64_t start_ns = es_clock_ns();
    ES_TRY(es_fit_devices_open(settings, &devices));
    network->device = devices.cpu; // stays with the network; a GPU does not
    ES_TRY_GOTO(es_thread_pool_create(&network->pool, settings->run.n_threads));
    ES_TRY_GOTO(es_fit_plan_create(settings, dataset, &devices, &plan));
    EsFitSearchOptions wanted = es_fit_plan_search(&plan, settings, dataset, &devices);
    if (wanted.n_epochs == 0) {
        double ignored = 0;
        ES_TRY_GOTO(es_fit_choose_epochs(&wanted, es_clock_seconds_since(start_ns), &ignored));
    }
    ES_TRY_GOTO(es_fit_search_create(&wanted, &search));
    ES_TRY_GOTO(run_epochs(search, options, start_ns));
    ES_TRY_GOTO(take_best(search, dataset, network));
done:
    es_fit_search_destroy(search);
    es_fit_plan_destroy(&plan);
    if (devices.device != devices.cpu) {
        es_device_close(devices.device);
    }
    return status;
}

EsStatus es_fit(const EsData *data, const EsFitOptions *options, EsNetwork **network_out) {
    EsFitOptions chosen = options != NULL ? *options : (EsFitOptions){0};
    EsFitSettings settings;
    EsNetwork *network = NULL;
    *network_out = NULL;
    ES_TRY(configure(&chosen, &settings));
    ES_TRY(es_allocate(sizeof *network, (void **)&network));
    EsStatus status = fit(es_data_dataset(data), &chosen, &settings, network);
    if (status != ES_STATUS_OK) {
        es_network_close(network);
        return status;
    }
    *network_out = network;
    return ES_STATUS_OK;
}

// --- inputs from files ---

struct EsNetworkReader {
    EsInputReader *inputs; // owned
};

EsStatus es_network_reader_open(const EsNetwork *network, const char *path,
                                EsNetworkReader **reader) {
    const EsInputShape shape = {.is_rows = network->info.is_rows,
                                .n_channels = network->info.n_channels,
                                .size = network->info.height,
                                .column_names = network->info.column_names};
    *reader = NULL;
    ES_TRY(es_allocate(sizeof **reader, (void **)reader));
    EsStatus status = es_input_reader_open(path, &shape, &(*reader)->inputs);
    if (status != ES_STATUS_OK) {
        es_network_reader_close(*reader);
        *reader = NULL;
    }
    return status;
}

void es_network_reader_close(EsNetworkReader *reader) {
    if (reader != NULL) {
        es_input_reader_close(reader->inputs);
        es_release(reader);
    }
}

EsStatus es_network_reader_next(EsNetworkReader *reader, int64_t max_n, float *inputs, int64_t *n) {
    return es_input_reader_next(reader->inputs, ES_MIN(max_n, ES_INPUTS_MAX), inputs, n);
}

const char *es_network_reader_name(const EsNetworkReader *reader, int64_t i) {
    return es_input_reader_name(reader->inputs, i);
}

EsStatus es_network_export(const EsNetwork *network, EsNetworkFormat format, const char *path,
                           const char *name) {
    switch (format) {
    case ES_NETWORK_ONNX:
        return es_grown_export_onnx(network->grown, path);
    case ES_NETWORK_C99:
        return es_grown_export_c(
            network->grown, &(EsExportC){.folder = path, .name = name != NULL ? name : "network"});
    case ES_NETWORK_TORCH:
        return es_grown_export_torch(network->grown, path);
    }
    return ES_FAIL(ARGUMENT, "there is no format %d", (int)format);
}

// --- 8 bits ---

#define INT8_SAMPLES 2000
#define DATA_SEED    1 // of generated sets, as in esper grow

static EsStatus check_data(const EsNetwork *network, const EsDataset *data, const char *name) {
    ES_TRY(es_network_check_data(network->grown, data, name));
    return data->validation.count > 0 ? ES_STATUS_OK
                                      : ES_FAIL(INPUT, "%s has no validation samples", name);
}

// Validation samples as plain numbers.
static void fill_samples(const EsDataset *data, int64_t n, float *inputs) {
    int64_t n_columns = data->n_channels;
    int64_t first = data->validation.labels - data->labels;
    if (data->kind == ES_DATASET_IMAGES) {
        for (int64_t i = 0; i < n * (int64_t)data->image_bytes; i++) {
            inputs[i] = (float)data->validation.images[i];
        }
        return;
    }
    for (int64_t i = 0; i < n * n_columns; i++) {
        inputs[i] = data->rows[first * n_columns + i] * data->column_std[i % n_columns] +
                    data->column_mean[i % n_columns];
    }
}

EsStatus es_network_export_int8(EsNetwork *network, const char *folder, const char *name,
                                const char *data, EsNetworkInt8 *report) {
    const EsDatasetOptions options = {.seed = DATA_SEED, .folder = getenv("ES_DATA_DIR")};
    EsDataset dataset = {0};
    float *inputs = NULL;
    EsStatus status = ES_STATUS_OK;
    *report = (EsNetworkInt8){0};
    ES_TRY(es_dataset_open(&dataset, data, &options, network->pool));
    ES_TRY_GOTO(check_data(network, &dataset, data));
    report->n_samples = ES_MIN(dataset.validation.count, INT8_SAMPLES);
    ES_TRY_GOTO(es_allocate(sizeof *inputs * (size_t)(report->n_samples * network->info.n_inputs),
                            (void **)&inputs));
    fill_samples(&dataset, report->n_samples, inputs);
    const EsInt8Samples samples = {inputs, dataset.validation.labels, report->n_samples};
    EsExportC export = {.folder = folder, .name = name, .int8 = &samples};
    ES_TRY_GOTO(es_grown_export_c(network->grown, &export));
    report->float_accuracy = export.float_accuracy;
    report->int8_accuracy = export.int8_accuracy;
done:
    es_release(inputs);
    es_dataset_destroy(&dataset);
    return status;
}
