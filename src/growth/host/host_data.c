#include "growth/host/host_data.h"

#include <stdlib.h>
#include <string.h>

#include "esper/log.h"

static int is_given(const char *text) { return text != NULL && text[0] != '\0'; }

int es_host_is_file(const char *task) {
    size_t length = strlen(task);
    return strchr(task, '/') != NULL || (length > 4 && strcmp(task + length - 4, ".ini") == 0);
}

EsStatus es_host_find(const char *task, EsHostSpec *host) {
    if (!es_host_is_file(task)) {
        return es_host_preset(task, host);
    }
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    EsStatus status = es_host_load(task, host, slots, &n_slots);
    // a description that cannot be read is wrong input: the user has named it
    return status != ES_STATUS_IO ? status : ES_FAIL(INPUT, "host: %s", es_status_detail());
}

// The data's sizes are taken; a file that states others was written for other data.
static void note_sizes(const EsHostSpec *host, const EsDataset *dataset) {
    if (host->states_images &&
        (host->image_channels != dataset->n_channels || host->image_size != dataset->height)) {
        es_log(ES_LOG_WARNING,
               "host \"%.100s\": its file says images of %d x %d x %d, data set \"%s\" has %d x %d "
               "x %d; the host is made for these",
               host->name, host->image_size, host->image_size, host->image_channels, dataset->name,
               dataset->height, dataset->width, dataset->n_channels);
    }
    if (host->states_classes && host->n_classes != dataset->n_classes) {
        es_log(
            ES_LOG_WARNING,
            "host \"%.100s\": its file says %d classes, data set \"%s\" has %d; the host is made "
            "for these",
            host->name, host->n_classes, dataset->name, dataset->n_classes);
    }
}

EsStatus es_host_open_dataset(EsHostSpec *host, const char *data, const char *folder, uint64_t seed,
                              int n_threads, EsDataset *dataset) {
    const char *name = is_given(data) ? data : host->dataset;
    int is_read = strcmp(name, "cifar10") == 0 || strcmp(name, "idx") == 0;
    const char *source = is_given(folder) ? folder : getenv("ES_DATA_DIR");
    if (name[0] == '\0') {
        return ES_FAIL(ARGUMENT, "host \"%s\" names no data set, and none is given", host->name);
    }
    if (is_read && !is_given(source)) {
        return ES_FAIL(ARGUMENT, "data set \"%s\" needs a folder (--folder DIR) or ES_DATA_DIR",
                       name);
    }
    if (!is_read && is_given(folder)) {
        return ES_FAIL(ARGUMENT,
                       "data set \"%s\" is generated and has no use for folder \"%s\"; cifar10 and "
                       "idx read files",
                       name, folder);
    }
    EsDatasetOptions wanted = {.seed = seed, .folder = source, .n_classes = host->n_classes};
    EsThreadPool *pool = NULL;
    ES_TRY(es_thread_pool_create(&pool, n_threads));
    EsStatus status = es_dataset_create(dataset, name, &wanted, pool);
    es_thread_pool_destroy(pool);
    ES_TRY(status);
    if (dataset->height != dataset->width) {
        return ES_FAIL(INPUT, "hosts take square images, data set \"%s\" has %d x %d", name,
                       dataset->height, dataset->width);
    }
    note_sizes(host, dataset);
    host->image_channels = dataset->n_channels;
    host->image_size = dataset->height;
    host->n_classes = dataset->n_classes;
    return ES_STATUS_OK;
}
