// Growth in a build without CUDA: there is no such backend.
#include "growth/engine/growth_internal.h"

#include "growth/fused/fused_step.h"

const EsGrowthBackend *es_growth_backend_cuda(void) { return NULL; }

// --- the fused step ---

// Fused steps in a build without CUDA: there are none.

EsStatus es_fused_step_check(const EsGrowthModel *model, const EsDevice *device,
                             EsDtype precision) {
    (void)model, (void)device, (void)precision;
    return ES_FAIL(UNSUPPORTED, "this build has no CUDA");
}

EsStatus es_fused_step_create(const EsFusedOptions *options, EsFusedStep **fused) {
    (void)options;
    *fused = NULL;
    return ES_FAIL(UNSUPPORTED, "this build has no CUDA");
}

void es_fused_step_destroy(EsFusedStep *fused) { ES_ASSERT(fused == NULL); }

void es_fused_step_train(EsFusedStep *fused, EsStream *stream, const EsFusedInstances *instances,
                         const EsFusedBatch *batch) {
    (void)stream, (void)instances, (void)batch;
    ES_ASSERT(fused != NULL);
}

void es_fused_step_evaluate(EsFusedStep *fused, EsStream *stream, const EsFusedInstances *instances,
                            int64_t first_image, int64_t n_images) {
    (void)stream, (void)instances, (void)first_image, (void)n_images;
    ES_ASSERT(fused != NULL);
}

EsFusedResults es_fused_step_trained(const EsFusedStep *fused) {
    ES_ASSERT(fused != NULL);
    EsFusedResults none = {{0}, {0}, {0}};
    return none;
}

EsFusedResults es_fused_step_evaluated(const EsFusedStep *fused) {
    return es_fused_step_trained(fused);
}

size_t es_fused_step_bytes(const EsFusedStep *fused) {
    ES_ASSERT(fused != NULL);
    return 0;
}
