// Norms: one block per (environment, span), sums in double, in a fixed order.
// Letters: E environments, P parameters of one, S spans, G clip groups.
#include "kernels/cuda/cuda_common.cuh"
#include "kernels/ops/hash_rules.h"

#define SUM_THREADS   1024
#define SUM_AHEAD     8     // fours of a thread that are on their way at once
#define TREE_LEVELS   24    // of a tree over fewer than 2^24 rows
#define CLIP_ELEMENTS 16384 // of a span that one block scales, when the span is as long as the slab

static __device__ __forceinline__ bool is_finite(float x) {
    return (__float_as_uint(x) & 0x7F800000u) != 0x7F800000u;
}

// A thread's part of a span.
struct SquareSum {
    double sum;
    int32_t n_nonfinite;

    __device__ __forceinline__ void add(float value) {
        bool is_counted = is_finite(value);
        sum += is_counted ? (double)value * (double)value : 0.0;
        n_nonfinite += !is_counted;
    }
};

// The longest span decides how long this takes, and one block has it: many loads are on their way
// at once.
static __global__ void __launch_bounds__(SUM_THREADS)
    slab_norms_kernel(EsEnvs<const float> slab, const int64_t *spans, EsEnvs<double> sum_squares,
                      EsEnvs<int32_t> n_nonfinite, uint32_t n_spans) {
    int64_t env = blockIdx.x / n_spans;
    uint32_t span = blockIdx.x % n_spans;
    const float *x = slab.at(env) + spans[2 * span];
    int64_t length = spans[2 * span + 1], first = 0;
    SquareSum mine = {0.0, 0};
    const int64_t n_at_once = 4 * SUM_THREADS * SUM_AHEAD;
    if ((uintptr_t)x % 16 == 0) {
        for (; first + n_at_once <= length; first += n_at_once) {
            float4 four[SUM_AHEAD];
#pragma unroll
            for (int i = 0; i < SUM_AHEAD; i++) {
                four[i] = ((const float4 *)(x + first))[i * SUM_THREADS + threadIdx.x];
            }
#pragma unroll
            for (int i = 0; i < SUM_AHEAD; i++) {
                mine.add(four[i].x);
                mine.add(four[i].y);
                mine.add(four[i].z);
                mine.add(four[i].w);
            }
        }
    }
    for (int64_t i = first + threadIdx.x; i < length; i += SUM_THREADS) {
        mine.add(x[i]);
    }
    double sum = es_block_sum(mine.sum);
    int32_t nonfinite = es_block_sum(mine.n_nonfinite);
    if (threadIdx.x == 0) {
        sum_squares.at(env)[span] = sum;
        n_nonfinite.at(env)[span] = nonfinite;
    }
}

static __global__ void slab_group_norm_kernel(const int32_t *groups,
                                              EsEnvs<const double> sum_squares,
                                              EsEnvs<float> group_norm, uint32_t n_spans,
                                              uint32_t n_groups, int64_t n_all) {
    int64_t j = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    if (j >= n_all) {
        return;
    }
    int64_t env = j / n_groups;
    int32_t group = (int32_t)(j % n_groups);
    double sum = 0.0;
    for (uint32_t span = 0; span < n_spans; span++) {
        sum += groups[span] == group ? sum_squares.at(env)[span] : 0.0;
    }
    group_norm.at(env)[group] = (float)sqrt(sum);
}

static __global__ void slab_clip_kernel(const int64_t *spans, const int32_t *groups,
                                        EsEnvs<const float> max_norm,
                                        EsEnvs<const float> group_norm, EsEnvs<float> slab,
                                        uint32_t n_spans) {
    int64_t env = blockIdx.x / n_spans;
    uint32_t span = blockIdx.x % n_spans;
    int32_t group = groups[span];
    float limit = max_norm.at(env)[group];
    float scale = limit / (group_norm.at(env)[group] + 1e-6f);
    // a factor of 1 is left out: elements below the limit keep their bits
    if (!(limit > 0.0f && scale < 1.0f)) {
        return;
    }
    float *x = slab.at(env) + spans[2 * span];
    int64_t length = spans[2 * span + 1];
    int64_t first = (int64_t)blockIdx.y * ES_THREADS + threadIdx.x;
    for (int64_t i = first; i < length; i += (int64_t)gridDim.y * ES_THREADS) {
        x[i] *= scale;
    }
}

// One thread per column. partial[k] holds the sum of 2^k neighbours, as the bits of a count of
// rows: a new row is carried upwards, and the remaining partial sums are joined from the right at
// the end. Same tree as on the CPU.
static __global__ void tree_sum_kernel(EsEnvs<const float> slab, float *y, int64_t n_rows,
                                       int64_t n_columns) {
    int64_t column = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    if (column >= n_columns) {
        return;
    }
    float partial[TREE_LEVELS];
    for (int64_t row = 0; row < n_rows; row++) {
        float sum = slab.at(row)[column];
        int level = 0;
        for (; (row >> level & 1) != 0; level++) {
            sum = partial[level] + sum;
        }
        partial[level] = sum;
    }
    float total = 0.0f;
    bool has_total = false;
    for (int level = 0; level < TREE_LEVELS; level++) {
        if ((n_rows >> level & 1) != 0) {
            total = has_total ? partial[level] + total : partial[level];
            has_total = true;
        }
    }
    y[column] = total;
}

// The same tree over the eight rows that learning has (docs/decisions/0007).
static __global__ void tree_sum_8_kernel(EsEnvs<const float> slab, float *y, int64_t n_columns) {
    int64_t column = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    if (column < n_columns) {
        float x[8];
#pragma unroll
        for (int row = 0; row < 8; row++) {
            x[row] = slab.at(row)[column];
        }
        y[column] = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
    }
}

void es_slab_norms_cuda(EsStream *s, EsIn slab, EsIn spans, EsOut sum_squares, EsOut n_nonfinite) {
    EsLaunch launch(s, "slab_norms");
    dim3 grid((unsigned)(slab->dim[0] * spans->dim[0]));
    launch.start(slab_norms_kernel, grid, SUM_THREADS, es_in<float>(slab), es_data<int64_t>(spans),
                 es_out<double>(sum_squares), es_out<int32_t>(n_nonfinite), spans->dim[0]);
}

void es_slab_clip_cuda(EsStream *s, EsIn spans, EsIn groups, EsIn sum_squares, EsIn max_norm,
                       EsOut slab, EsOut group_norm) {
    EsLaunch launch(s, "slab_clip");
    int64_t n_spans = spans->dim[0], n_groups = group_norm->dim[1];
    int64_t n_all = slab->dim[0] * n_groups;
    dim3 norm_grid((unsigned)es_ceil_div(n_all, ES_THREADS));
    launch.start(slab_group_norm_kernel, norm_grid, ES_THREADS, es_data<int32_t>(groups),
                 es_in<double>(sum_squares), es_out<float>(group_norm), n_spans, n_groups, n_all);
    // the lengths of the spans are on the device, so the second axis is sized by the slab
    int64_t n_parts = ES_MIN(es_ceil_div(slab->dim[1], CLIP_ELEMENTS), 64);
    dim3 grid((unsigned)(slab->dim[0] * n_spans), (unsigned)n_parts);
    launch.start(slab_clip_kernel, grid, ES_THREADS, es_data<int64_t>(spans),
                 es_data<int32_t>(groups), es_in<float>(max_norm), es_in<float>(group_norm),
                 es_out<float>(slab), n_spans);
}

void es_tree_sum_cuda(EsStream *s, EsIn slab, EsOut y) {
    EsLaunch launch(s, "tree_sum");
    ES_ASSERT(slab->dim[0] < (int64_t)1 << TREE_LEVELS);
    dim3 grid((unsigned)es_ceil_div(slab->dim[1], ES_THREADS));
    if (slab->dim[0] == 8) {
        launch.start(tree_sum_8_kernel, grid, ES_THREADS, es_in<float>(slab), es_data<float>(y),
                     slab->dim[1]);
        return;
    }
    launch.start(tree_sum_kernel, grid, ES_THREADS, es_in<float>(slab), es_data<float>(y),
                 slab->dim[0], slab->dim[1]);
}

// --- hash ---

// Blocks add up parts of a row. The sums are integers: the bits do not depend on their order.
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

// --- masked copy ---

static __global__ void masked_copy_kernel(const uint8_t *mask, EsEnvs<const float> from,
                                          EsEnvs<float> to, EsTiles tiles) {
    EsTileSpan span = es_tile_span(tiles);
    if (mask[span.env] == 0) {
        return;
    }
    for (uint32_t j = span.j; j < span.end; j += ES_THREADS) {
        to.at(span.env)[j] = from.at(span.env)[j];
    }
}

void es_masked_copy_cuda(EsStream *s, EsIn mask, EsIn from, EsOut to) {
    EsLaunch launch(s, "masked_copy");
    EsTiles tiles = es_tiles(from->dim[1]);
    launch.start(masked_copy_kernel, es_tiles_grid(tiles, from->dim[0]), ES_THREADS,
                 es_data<const uint8_t>(mask), es_in<float>(from), es_out<float>(to), tiles);
}
