// Blocks add up parts of a row. The sums are integers: in whatever order they arrive, the bits are
// the same.
// E environments, P parameters of one.
#include "kernels/cuda/cuda_common.cuh"
#include "kernels/ops/hash_rules.h"

#define HASH_THREADS 512
// Words that a block takes, and most blocks of a row: enough for all of a GPU's multiprocessors.
#define HASH_WORDS 16384
#define HASH_PARTS 256

static __global__ void slab_hash_kernel(EsEnvs<const float> slab, unsigned long long *hash,
                                        int64_t n_words) {
    const float *row = slab.at(blockIdx.x);
    unsigned long long sum = 0;
    for (int64_t j = (int64_t)blockIdx.y * HASH_THREADS + threadIdx.x; j < n_words;
         j += (int64_t)gridDim.y * HASH_THREADS) {
        sum += es_hash_word((uint64_t)j, __float_as_uint(row[j]));
    }
    sum = es_block_sum(sum);
    if (threadIdx.x == 0) {
        atomicAdd(&hash[blockIdx.x], sum);
    }
}

void es_slab_hash_cuda(EsStream *s, EsIn slab, EsOut hash) {
    EsLaunch launch(s, "slab_hash");
    int64_t n_parts = ES_MIN(es_ceil_div(slab->dim[1], HASH_WORDS), HASH_PARTS);
    dim3 grid((unsigned)slab->dim[0], (unsigned)n_parts);
    launch.fill_zero(hash);
    launch.start(slab_hash_kernel, grid, HASH_THREADS, es_in<float>(slab),
                 (unsigned long long *)hash->data, slab->dim[1]);
}
