// Growth with a device of its own, for tests: opened before it and closed after it.
#ifndef ES_TEST_GROWTH_WITH_DEVICE_H
#define ES_TEST_GROWTH_WITH_DEVICE_H

#include "es_test.h"
#include "growth/engine/growth.h"

// On failure the device is closed and *growth is NULL.
static inline EsStatus create_growth_on(const char *device_name, int n_threads,
                                        const EsGrowthOptions *options, const EsDataset *dataset,
                                        EsGrowth **growth) {
    EsDevice *device = NULL;
    REQUIRE_OK(es_device_open(device_name, &(EsDeviceOptions){.n_threads = n_threads}, &device));
    EsStatus status = es_growth_create(options, dataset, device, growth);
    if (status != ES_STATUS_OK) {
        es_device_close(device);
    }
    return status;
}

static inline EsGrowth *create_growth(const EsGrowthOptions *options, const EsDataset *dataset,
                                      int n_threads) {
    EsGrowth *growth = NULL;
    REQUIRE_OK(create_growth_on("cpu", n_threads, options, dataset, &growth));
    return growth;
}

static inline void destroy_growth(EsGrowth *growth) {
    EsDevice *device = es_growth_store(growth)->device;
    es_growth_destroy(growth);
    es_device_close(device);
}

#endif
