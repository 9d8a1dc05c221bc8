// Forward a thread per element. Backward a warp per (row, 128 features): the first row that names
// an id sums all rows that name it, in row order, so no two warps write one entry and nothing is
// atomic.
// Letters: E environments, V rows of the table, D features, N ids.
#include "kernels/cuda/cuda_common.cuh"

#define ROWS_PER_BLOCK 4
#define PER_LANE       4
#define AHEAD          8 // rows that a warp reads before it adds them

template <typename T>
static __global__ void embedding_forward_kernel(EsEnvs<const float> table, const int32_t *ids, T *y,
                                                uint32_t n_ids, uint32_t n_features,
                                                int64_t n_entries, EsTiles tiles) {
    EsTileSpan span = es_tile_span(tiles);
    for (uint32_t j = span.j; j < span.end; j += ES_THREADS) {
        int32_t id = ids[span.env * n_ids + j / n_features];
        bool is_valid = id >= 0 && id < n_entries;
        int64_t entry = (int64_t)(is_valid ? id : 0) * n_features + j % n_features;
        es_store(y + span.env * tiles.count + j, is_valid ? table.at(span.env)[entry] : 0.0f);
    }
}

static __global__ void embedding_count_kernel(const int32_t *ids, int32_t *n_invalid,
                                              uint32_t n_ids, int64_t n_entries) {
    int32_t invalid = 0;
    for (uint32_t n = threadIdx.x; n < n_ids; n += blockDim.x) {
        int32_t id = ids[(int64_t)blockIdx.x * n_ids + n];
        invalid += id < 0 || id >= n_entries;
    }
    invalid = es_block_sum(invalid);
    if (threadIdx.x == 0) {
        n_invalid[blockIdx.x] = invalid;
    }
}

template <typename T>
static __global__ void
embedding_backward_kernel(const int32_t *ids, const T *d_y, EsEnvs<float> d_table, uint32_t n_ids,
                          uint32_t n_features, int64_t n_entries, uint32_t blocks_per_env) {
    uint32_t lane = threadIdx.x % 32;
    int64_t env = blockIdx.x / blocks_per_env;
    uint32_t row = blockIdx.x % blocks_per_env * ROWS_PER_BLOCK + threadIdx.x / 32;
    uint32_t feature = blockIdx.y * (32 * PER_LANE) + lane;
    ids += env * n_ids;
    d_y += env * n_ids * n_features;
    if (row >= n_ids) {
        return;
    }
    int32_t id = ids[row];
    if (id < 0 || id >= n_entries) {
        return;
    }
    // lanes below 32 beyond the end never match, so the ballots stay whole
    for (uint32_t n0 = 0; n0 < row; n0 += 32) {
        if (__ballot_sync(0xFFFFFFFFu, n0 + lane < row && ids[n0 + lane] == id) != 0) {
            return;
        }
    }
    float sum[PER_LANE] = {};
    for (uint32_t n0 = row; n0 < n_ids; n0 += 32) {
        unsigned matches = __ballot_sync(0xFFFFFFFFu, n0 + lane < n_ids && ids[n0 + lane] == id);
        while (matches != 0) {
            float value[AHEAD][PER_LANE];
            int n_rows = min(__popc(matches), AHEAD);
#pragma unroll
            for (int row_ahead = 0; row_ahead < AHEAD; row_ahead++) {
                const T *from = d_y + (int64_t)(n0 + __ffs((int)matches) - 1) * n_features;
#pragma unroll
                for (int i = 0; i < PER_LANE; i++) {
                    uint32_t d = feature + 32 * i;
                    bool is_there = row_ahead < n_rows && d < n_features;
                    value[row_ahead][i] = is_there ? es_load(from + d) : 0.0f;
                }
                matches &= matches - 1;
            }
#pragma unroll
            for (int row_ahead = 0; row_ahead < AHEAD; row_ahead++) {
#pragma unroll
                for (int i = 0; i < PER_LANE; i++) {
                    sum[i] = row_ahead < n_rows ? sum[i] + value[row_ahead][i] : sum[i];
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) {
        if (feature + 32 * i < n_features) {
            d_table.at(env)[(int64_t)id * n_features + feature + 32 * i] = sum[i];
        }
    }
}

void es_embedding_forward_cuda(EsStream *s, EsIn table, EsIn ids, EsOut y, EsOut n_invalid) {
    EsLaunch launch(s, "embedding_forward");
    int64_t n_envs = table->dim[0], n_ids = ids->dim[1], n_features = table->dim[2];
    EsTiles tiles = es_tiles(n_ids * n_features);
    ES_DISPATCH_DTYPE(y->dtype, T,
                      launch.start(embedding_forward_kernel<T>, es_tiles_grid(tiles, n_envs),
                                   ES_THREADS, es_in<float>(table), es_data<int32_t>(ids),
                                   es_data<T>(y), n_ids, n_features, table->dim[1], tiles));
    launch.start(embedding_count_kernel, dim3((unsigned)n_envs), ES_THREADS, es_data<int32_t>(ids),
                 es_data<int32_t>(n_invalid), n_ids, table->dim[1]);
}

void es_embedding_backward_cuda(EsStream *s, EsIn ids, EsIn d_y, EsOut d_table) {
    EsLaunch launch(s, "embedding_backward");
    int64_t n_envs = d_table->dim[0], n_ids = ids->dim[1], n_features = d_table->dim[2];
    uint32_t blocks_per_env = (uint32_t)es_ceil_div(n_ids, ROWS_PER_BLOCK);
    dim3 grid((unsigned)(n_envs * blocks_per_env),
              (unsigned)es_ceil_div(n_features, 32 * PER_LANE));
    launch.fill_zero(d_table);
    ES_DISPATCH_DTYPE(d_y->dtype, T,
                      launch.start(embedding_backward_kernel<T>, grid, ROWS_PER_BLOCK * 32,
                                   es_data<int32_t>(ids), es_data<T>(d_y), es_out<float>(d_table),
                                   n_ids, n_features, d_table->dim[1], blocks_per_env));
}
