// dgrad of a block of known shape, in 16-bit types: from the gradient of its raw output, a tile in
// shared memory, straight to device memory, with the sums that the batch norm of the block before
// needs.
//
// A set of pixels is ROWS rows of 8 columns. Product t of it has rows t and t + ROWS / 2, so
// product t + 1 reads the rows that product t reads one below: a matrix is loaded once for the
// three rows of a kernel.
#ifndef ES_GROWTH_FUSED_DGRAD_CUH
#define ES_GROWTH_FUSED_DGRAD_CUH

#include "growth/fused/fused_instance.cuh"
#include "growth/fused/fused_raw.cuh"

// FROM channel groups of the block's output, TO of its input; a warp takes N of the latter at a
// time.
template <int FROM, int TO, int SIZE_, int N, int ROWS> struct EsReadShape {
    static constexpr int SIZE = SIZE_, SIDE = SIZE + 2, PIXELS = SIZE * SIZE;
    static constexpr int PAIRS = FROM / 2; // of input channel groups, a product each
    static constexpr int STEPS = 9 * PAIRS;
    static constexpr int IN = TO, C8 = N, GROUPS = TO / N;
    static constexpr int SHARING = ES_FUSED_WARPS / GROUPS; // warps that share a group's pixels
    static constexpr int PRODUCTS = ROWS / 2;
    static constexpr int SETS = PIXELS / (8 * ROWS); // of an image
    static_assert(FROM % 2 == 0 && TO % N == 0 && SIZE % 8 == 0 && SIZE % ROWS == 0 &&
                      ES_FUSED_WARPS % GROUPS == 0,
                  "shape");
};

// The products of a set: `from` is the lane's pixel of product 0 at the kernel's first tap in the
// tile, `weights` the lane's own of the first output channel group.
template <typename T, typename Shape>
static __device__ __forceinline__ void
es_dgrad_multiply(const T *from, const uint2 *weights,
                  float (&sum)[Shape::PRODUCTS][Shape::C8][4]) {
    constexpr int C8 = Shape::C8;
#pragma unroll
    for (int i = 0; i < 3 * Shape::PAIRS; i++) { // columns of the kernel, pairs of channel groups
        int column = i / Shape::PAIRS, pair = i % Shape::PAIRS;
        const T *at = from + (2 * pair * Shape::SIDE * Shape::SIDE + column) * ES_C8;
        uint2 w[3][C8];
#pragma unroll
        for (int j = 0; j < 3 * C8; j++) {
            int step = (j / C8 * 3 + column) * Shape::PAIRS + pair;
            w[j / C8][j % C8] = weights[(j % C8 * Shape::STEPS + step) * 32];
        }
#pragma unroll
        for (int row = 0; row < Shape::PRODUCTS + 2; row++) {
            uint32_t a[4];
            es_load_matrix_x4(a, at + row * Shape::SIDE * ES_C8);
#pragma unroll
            for (int j = 0; j < 3 * C8; j++) {
                int t = row - j / C8, u = j % C8;
                const uint32_t b[2] = {w[j / C8][u].x, w[j / C8][u].y};
                if (t >= 0 && t < Shape::PRODUCTS) {
                    es_multiply_matrix<T>(sum[t][u], a, b);
                }
            }
        }
    }
}

// Add two channels of a pixel to the sums of d_z and d_z x (es_norm_add); scale and shift are the
// channels' own.
template <typename T, int C8>
static __device__ __forceinline__ void es_dgrad_add(EsRawSums<C8> &sums, int u, uint32_t x_bits,
                                                    uint32_t g_bits, float2 scale, float2 shift) {
    float2 x = es_pair_floats(x_bits, T()), g = es_pair_floats(g_bits, T());
    es_norm_add(fmaf(x.x, scale.x, shift.x), x.x, g.x, sums.of[u], 0);
    es_norm_add(fmaf(x.y, scale.y, shift.y), x.y, g.y, sums.of[u], 1);
}

// The chunk's images from `d`, a tile with border 1, into d_in; x is the pooled output of the block
// before, `norm` its table. Both maps are [image][c8][pixel][8] from the chunk's first image on.
template <typename T, typename Shape>
static __device__ __forceinline__ void
es_dgrad_convolve(const T *d, const void *packed, const EsNormTable &norm, int n_images, const T *x,
                  T *d_in, EsRawSums<Shape::C8> &sums) {
    constexpr int SIDE = Shape::SIDE, SIZE = Shape::SIZE, PRODUCTS = Shape::PRODUCTS;
    constexpr int C8 = Shape::C8, HELD = 2 * PRODUCTS * C8; // pairs that a lane makes
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int first_c8 = warp % Shape::GROUPS * C8, channel = 2 * (lane % 4);
    const uint2 *weights = (const uint2 *)packed + first_c8 * Shape::STEPS * 32 + lane;
    const float *scale = norm.scale + first_c8 * ES_C8 + channel;
    const float *shift = norm.shift + first_c8 * ES_C8 + channel;
    // channel group, row and column of the lane's pixel in a product as it is loaded, and as it is
    // held
    d += ((lane / 16 * SIDE + lane / 8 % 2 * PRODUCTS) * SIDE + lane % 8) * ES_C8;
    int held = (first_c8 * SIZE * SIZE + lane / 4) * ES_C8 + channel;
    for (int set = warp / Shape::GROUPS; set < n_images * Shape::SETS; set += Shape::SHARING) {
        int image = set / Shape::SETS, column = set % (SIZE / 8) * 8;
        int row = set % Shape::SETS / (SIZE / 8) * 2 * PRODUCTS;
        int at = held + ((image * Shape::IN * SIZE + row) * SIZE + column) * ES_C8;
        constexpr auto place = [](int i) { // of pair i: [c8][row]
            return (i / (2 * PRODUCTS) * SIZE + i % (2 * PRODUCTS)) * SIZE * ES_C8;
        };
        uint32_t x_bits[HELD];
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            x_bits[i] = *(const uint32_t *)(x + at + place(i));
        }
        float sum[PRODUCTS][C8][4] = {};
        es_dgrad_multiply<T, Shape>(
            d + ((image * 2 * Shape::PAIRS * SIDE + row) * SIDE + column) * ES_C8, weights, sum);
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            int u = i / (2 * PRODUCTS), half = i / PRODUCTS % 2;
            const float(&v)[4] = sum[i % PRODUCTS][u];
            uint32_t g_bits = es_pair_bits(v[2 * half], v[2 * half + 1], T());
            *(uint32_t *)(d_in + at + place(i)) = g_bits;
            es_dgrad_add<T>(sums, u, x_bits[i], g_bits, *(const float2 *)(scale + u * ES_C8),
                            *(const float2 *)(shift + u * ES_C8));
        }
    }
}

#endif
