#include <string.h>

#include "kernels/env_data.h"
#include "kernels/kernels.h"

typedef struct Copy {
    const EsTensor *mask, *from, *to;
} Copy;

static void copy_env(void *context, int64_t env, int worker) {
    (void)worker;
    const Copy *copy = context;
    if (((const uint8_t *)copy->mask->data)[env] != 0) {
        memcpy(es_env_f32(copy->to, env), es_env_f32(copy->from, env),
               (size_t)copy->from->dim[1] * sizeof(float));
    }
}

void es_masked_copy_cpu(EsStream *s, EsIn mask, EsIn from, EsOut to) {
    Copy copy = {mask, from, to};
    es_stream_parallel(s, from->dim[0], copy_env, &copy);
}
