// E environments, P parameters of one.
#include <string.h>

#include "kernels/env_data.h"
#include "kernels/kernels.h"
#include "kernels/ops/hash_rules.h"

typedef struct Hashing {
    EsIn slab;
    EsOut hash;
} Hashing;

static void hash_row(void *context, int64_t e, int worker) {
    (void)worker;
    const Hashing *job = context;
    const float *row = es_env_f32(job->slab, e);
    uint64_t sum = 0;
    for (int64_t j = 0; j < job->slab->dim[1]; j++) {
        uint32_t word;
        memcpy(&word, &row[j], sizeof word);
        sum += es_hash_word((uint64_t)j, word);
    }
    memcpy((int64_t *)job->hash->data + e, &sum, sizeof sum);
}

void es_slab_hash_cpu(EsStream *s, EsIn slab, EsOut hash) {
    Hashing job = {slab, hash};
    es_stream_parallel(s, slab->dim[0], hash_row, &job);
}
