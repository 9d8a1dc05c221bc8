// One block per row: a row of four million words takes one of them under a millisecond, once per
// round.
// E environments, P parameters of one.
#include "kernels/cuda_common.cuh"
#include "kernels/hash_rules.h"

#define HASH_THREADS 1024

static __global__ void slab_hash_kernel(EsEnvs<const float> slab, unsigned long long *hash,
                                        int64_t n_words) {
    const float *row = slab.at(blockIdx.x);
    unsigned long long sum = 0;
    for (int64_t j = threadIdx.x; j < n_words; j += HASH_THREADS) {
        sum += es_hash_word((uint64_t)j, __float_as_uint(row[j]));
    }
    sum = es_block_sum(sum);
    if (threadIdx.x == 0) {
        hash[blockIdx.x] = sum;
    }
}

void es_slab_hash_cuda(EsStream *s, EsIn slab, EsOut hash) {
    EsLaunch launch(s, "slab_hash");
    launch.start(slab_hash_kernel, dim3((unsigned)slab->dim[0]), HASH_THREADS, es_in<float>(slab),
                 (unsigned long long *)hash->data, slab->dim[1]);
}
