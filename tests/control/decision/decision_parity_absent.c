// The CUDA half of decision_parity_test.c in a build without CUDA: its test is skipped before.
#include "control/decision_parity_life.h"

EsStatus lives_cuda_create(const LifeSettings *kinds, uint32_t n_envs, LivesCuda **lives) {
    (void)kinds;
    *lives = NULL;
    return ES_FAIL(UNSUPPORTED, "%u lives on CUDA were asked for, but this build has no CUDA",
                   n_envs);
}

EsStatus lives_cuda_step(LivesCuda *lives, uint32_t step, LifeWorld *worlds) {
    (void)lives;
    (void)worlds;
    return ES_FAIL(UNSUPPORTED, "step %u on CUDA was asked for, but this build has no CUDA", step);
}

void lives_cuda_destroy(LivesCuda *lives) { (void)lives; }
