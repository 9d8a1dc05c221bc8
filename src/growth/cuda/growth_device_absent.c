// Growth in a build without CUDA: creating it on such a device fails, so nothing else is reached.
#include "growth/cuda/growth_device.h"
#include "growth/engine/growth_internal.h"

static EsStatus refuse(void) {
    return ES_FAIL(UNSUPPORTED, "this build has no CUDA; growth runs on the CPU");
}

EsStatus es_growth_on_device_create(EsGrowth *growth) {
    (void)growth;
    return refuse();
}

void es_growth_on_device_destroy(EsGrowth *growth) { (void)growth; }

EsStatus es_growth_on_device_reset(EsGrowth *growth, int64_t first_episode) {
    (void)growth;
    (void)first_episode;
    return refuse();
}

EsStatus es_growth_on_device_decide(EsGrowth *growth, const EsAction *actions) {
    (void)growth;
    (void)actions;
    return refuse();
}

EsStatus es_growth_on_device_advance(EsGrowth *growth) {
    (void)growth;
    return refuse();
}

EsStatus es_growth_on_device_run_trials(EsGrowth *growth) {
    (void)growth;
    return refuse();
}

const EsGrowthDevice *es_growth_device(EsGrowth *growth) {
    (void)growth;
    return NULL;
}

EsGrowthDeviceReport es_growth_device_report(const EsGrowth *growth) {
    (void)growth;
    return (EsGrowthDeviceReport){0};
}

EsStatus es_growth_queue_reset(EsGrowth *growth, int64_t first_episode) {
    (void)growth;
    (void)first_episode;
    return refuse();
}

EsStatus es_growth_queue_advance(EsGrowth *growth) {
    (void)growth;
    return refuse();
}

EsStatus es_growth_queue_decision(EsGrowth *growth) {
    (void)growth;
    return refuse();
}

EsStatus es_growth_queue_report(EsGrowth *growth, int moment) {
    (void)growth;
    (void)moment;
    return refuse();
}

EsStatus es_growth_queue_collect(EsGrowth *growth) {
    (void)growth;
    return refuse();
}

EsStatus es_growth_receive(EsGrowth *growth, int moment) {
    (void)growth;
    (void)moment;
    return refuse();
}

EsStatus es_growth_reserve_report(EsGrowth *growth, size_t bytes, void **device_memory) {
    (void)growth;
    (void)bytes;
    *device_memory = NULL;
    return refuse();
}

const void *es_growth_received_report(const EsGrowth *growth) {
    (void)growth;
    return NULL;
}
