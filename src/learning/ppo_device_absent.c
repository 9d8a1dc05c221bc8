// PPO in a build without CUDA: an update on a device is refused.
#include "learning/ppo_internal.h"

EsStatus es_ppo_device_finish(EsPpoUpdate *update) {
    (void)update;
    return ES_FAIL(UNSUPPORTED, "ppo: an update on a device, but this build has no CUDA");
}

EsStatus es_ppo_device_passes(EsPpoUpdate *update) {
    (void)update;
    return ES_FAIL(UNSUPPORTED, "ppo: an update on a device, but this build has no CUDA");
}

void es_ppo_device_destroy(EsPpoDevice *device) { (void)device; }
