// The public face of grown networks: include/esper/network.h over fit/grown_network.h.
#include "esper/network.h"

#include "base/memory.h"
#include "fit/network_export.h"

struct EsNetwork {
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
    ES_TRY_GOTO(es_grown_network_load(path, &network->grown));
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
