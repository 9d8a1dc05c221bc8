#include "growth/host_data.h"

#include <stdlib.h>
#include <string.h>

static int is_given(const char *text) { return text != NULL && text[0] != '\0'; }

EsStatus es_host_open_dataset(EsHostSpec *host, const char *data, const char *folder, uint64_t seed,
                              EsThreadPool *pool, EsDataset *dataset) {
    const char *name = is_given(data) ? data : host->dataset;
    int is_read = strcmp(name, "cifar10") == 0 || strcmp(name, "idx") == 0;
    const char *source = is_given(folder) ? folder : getenv("ES_DATA_DIR");
    if (is_read && !is_given(source)) {
        return ES_FAIL(ARGUMENT, "data set \"%s\" needs --folder or ES_DATA_DIR", name);
    }
    if (!is_read && is_given(folder)) {
        return ES_FAIL(ARGUMENT,
                       "--folder has no use for data set \"%s\", which is generated; "
                       "--data cifar10 and --data idx read files",
                       name);
    }
    EsDatasetOptions wanted = {.seed = seed, .folder = source};
    ES_TRY(es_dataset_create(dataset, name, &wanted, pool));
    if (dataset->height != dataset->width) {
        return ES_FAIL(INPUT, "hosts take square images, data set \"%s\" has %d x %d", name,
                       dataset->height, dataset->width);
    }
    host->image_channels = dataset->n_channels;
    host->image_size = dataset->height;
    host->n_classes = dataset->n_classes;
    return ES_STATUS_OK;
}
