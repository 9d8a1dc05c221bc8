// Code of the fused kernels for known shapes and 16-bit types, against plain loops in double:
// wgrad, gradients of raw outputs through windows, and dgrad.
#include <vector>

#include "base/random_rules.h"
#include "es_test.h"
#include "growth/fused/fused_dgrad.cuh"
#include "growth/fused/fused_wgrad.cuh"
#include "growth/fused/fused_window_gradient.cuh"
#include "kernels/cuda/cuda_launch.cuh"

static float draw(uint32_t salt, size_t i) {
    return 2 * es_random_uniform(
                   es_random_draw(7, salt, ES_PURPOSE_EVALUATION, (uint32_t)i, 0).word[0]) -
           1;
}

template <typename V> static V *send(const std::vector<V> &values) {
    V *to = NULL;
    EXPECT_EQ(cudaMalloc(&to, values.size() * sizeof(V)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(to, values.data(), values.size() * sizeof(V), cudaMemcpyHostToDevice),
              cudaSuccess);
    return to;
}

template <typename V> static void fetch(std::vector<V> &values, V *from) {
    EXPECT_EQ(cudaMemcpy(values.data(), from, values.size() * sizeof(V), cudaMemcpyDeviceToHost),
              cudaSuccess);
    cudaFree(from);
}

static int has_device(void) {
    int n_devices = 0;
    return cudaGetDeviceCount(&n_devices) == cudaSuccess && n_devices > 0;
}

// --- gradients of weights ---

template <typename T, int IN, int OUT, int SIZE>
static __global__ void gradient_kernel(const T *in, const T *d, int n_images, float *partial) {
    ES_DYNAMIC_SHARED(memory);
    const EsTile in_tile = {IN, SIZE, 1}, d_tile = {OUT, SIZE, 1};
    int n_in = n_images * in_tile.image_c8() * ES_C8;
    int n_d = n_images * d_tile.image_c8() * ES_C8;
    T *in_shared = (T *)memory, *d_shared = in_shared + n_in;
    for (int i = threadIdx.x; i < n_in; i += ES_FUSED_THREADS) {
        in_shared[i] = in[i];
    }
    for (int i = threadIdx.x; i < n_d; i += ES_FUSED_THREADS) {
        d_shared[i] = d[i];
    }
    __syncthreads();
    es_tile_wgrad(EsKnownMaps<IN, OUT, SIZE>(), in_shared, d_shared, n_images,
                  (float *)(d_shared + n_d), partial);
}

// A tile of draws in its inside and zeros around them.
template <typename T>
static std::vector<T> draw_tile(const EsTile &tile, int n_images, uint32_t salt) {
    std::vector<T> values((size_t)(n_images * tile.image_c8() * ES_C8), T(0.0f));
    for (int k = 0; k < n_images * tile.n_c8 * tile.size * tile.size * 8; k++) {
        int column = k / 8 % tile.size, row = k / 8 / tile.size % tile.size;
        int plane = k / 8 / tile.size / tile.size;
        int at = tile.at(plane / tile.n_c8, plane % tile.n_c8, row, column) * ES_C8;
        values[(size_t)(at + k % 8)] = T(draw(salt, (size_t)k));
    }
    return values;
}

template <typename T, int IN, int OUT, int SIZE> static void run_gradient(int n_images) {
    const EsTile in_tile = {IN, SIZE, 1}, d_tile = {OUT, SIZE, 1};
    std::vector<T> in = draw_tile<T>(in_tile, n_images, 1), d = draw_tile<T>(d_tile, n_images, 2);
    std::vector<float> partial((size_t)es_weight_partial_length(9 * IN, OUT), -1.0f);
    size_t bytes = (in.size() + d.size()) * sizeof(T) + es_weight_scratch_bytes(9 * IN, OUT);
    T *in_device = send(in), *d_device = send(d);
    float *partial_device = send(partial);
    EXPECT_EQ(cudaFuncSetAttribute(gradient_kernel<T, IN, OUT, SIZE>,
                                   cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
              cudaSuccess);
    EXPECT_EQ(es_launch_kernel(gradient_kernel<T, IN, OUT, SIZE>, 1, ES_FUSED_THREADS, bytes, NULL,
                               in_device, d_device, n_images, partial_device),
              cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    fetch(partial, partial_device);
    cudaFree(in_device);
    cudaFree(d_device);
    for (int k = 0; k < (int)partial.size(); k++) { // [tap][c8][o][8 inputs]
        int i = k % 8, o = k / 8 % (8 * OUT), q = k / 64 / OUT, tap = q / IN;
        double sum = 0;
        for (int m = 0; m < n_images * SIZE * SIZE; m++) {
            int column = m % SIZE, row = m / SIZE % SIZE, image = m / SIZE / SIZE;
            int of = in_tile.at(image, q % IN, row + tap / 3 - 1, column + tap % 3 - 1);
            int at = d_tile.at(image, o / 8, row, column);
            sum += (double)(float)in[(size_t)(of * 8 + i)] *
                   (double)(float)d[(size_t)(at * 8 + o % 8)];
        }
        // products are exact; every sum of two rounds by 2^-24 of at most n_images SIZE^2
        EXPECT_NEAR(partial[(size_t)k], sum, n_images * SIZE * SIZE * 0x1p-20);
    }
}

template <typename T> static void run_gradients(void) {
    run_gradient<T, 1, 1, 32>(1);
    run_gradient<T, 1, 1, 32>(2);
    run_gradient<T, 1, 2, 16>(1);
    run_gradient<T, 1, 2, 16>(3);
    run_gradient<T, 2, 4, 8>(1);
    run_gradient<T, 2, 4, 8>(5);
}

TEST(gradients_of_weights) {
    if (!has_device()) {
        SKIP("no CUDA device");
    }
    run_gradients<__nv_bfloat16>();
    run_gradients<__half>();
}

// --- windows ---

#define N_WINDOWS ES_FUSED_THREADS

// [scale, shift, slope, level][8 channels]
struct Norm {
    float v[4][8];
};

template <typename T>
static __global__ void window_kernel(const T *raw, const float *g, Norm norm, T *d) {
    __shared__ __align__(16) float table[2][8], slopes[3 * 8];
    if (threadIdx.x < 8) {
        int c = threadIdx.x;
        table[0][c] = norm.v[0][c];
        table[1][c] = norm.v[1][c];
        EsNormGradient::write(slopes, 8, c, norm.v[2][c], norm.v[3][c], norm.v[0][c] > 0.0f);
    }
    __syncthreads();
    EsNormTable of = {table[0], table[1], NULL, NULL};
    EsNormGradient backward(of, slopes, 8, 0);
    float mine[8];
    es_c8_load(mine, g + threadIdx.x * 8);
    es_window_gradient(raw + threadIdx.x * 32, 2, backward, mine, d + threadIdx.x * 32, 2);
}

// Raw values are multiples of a quarter, so that many windows have two winners: the first counts.
template <typename T> static void run_windows(double relative) {
    Norm norm = {{{1.5f, -0.75f, 0.0f, 0.5f, -2.0f, 1.0f, 0.25f, -1.0f},
                  {0.25f, 0.5f, 1.0f, -0.25f, 0.0f, -3.0f, 0.125f, 0.75f},
                  {0.1f, -0.3f, 0.0f, 0.7f, 0.2f, -0.5f, 0.9f, 0.4f},
                  {-0.2f, 0.6f, 0.1f, 0.3f, -0.8f, 0.5f, 0.0f, 0.35f}}};
    std::vector<T> raw(N_WINDOWS * 32), d(N_WINDOWS * 32);
    std::vector<float> g(N_WINDOWS * 8);
    for (size_t i = 0; i < raw.size(); i++) {
        raw[i] = T(rintf(4 * draw(3, i)) / 4);
    }
    for (size_t i = 0; i < g.size(); i++) {
        g[i] = draw(4, i) + 3;
    }
    T *raw_device = send(raw), *d_device = send(d);
    float *g_device = send(g);
    EXPECT_EQ(es_launch_kernel(window_kernel<T>, 1, N_WINDOWS, 0, NULL, raw_device, g_device, norm,
                               d_device),
              cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    fetch(d, d_device);
    cudaFree(raw_device);
    cudaFree(g_device);
    for (size_t i = 0; i < g.size(); i++) {
        size_t window = i / 8, c = i % 8, winner = 0;
        double z[4], x[4];
        for (size_t k = 0; k < 4; k++) {
            x[k] = (double)(float)raw[window * 32 + k * 8 + c];
            z[k] = x[k] * (double)norm.v[0][c] + (double)norm.v[1][c];
            winner = z[k] > z[winner] ? k : winner;
        }
        for (size_t k = 0; k < 4; k++) {
            double expected = (double)norm.v[2][c] * x[k] + (double)norm.v[3][c];
            expected += k == winner && z[k] > 0 ? (double)norm.v[0][c] * (double)g[i] : 0;
            EXPECT_NEAR((float)d[window * 32 + k * 8 + c], expected,
                        relative * fabs(expected) + 1e-6);
        }
    }
}

TEST(windows) {
    if (!has_device()) {
        SKIP("no CUDA device");
    }
    // results are rounded once, to 24, 11 and 8 bits; the arithmetic before it is f32
    run_windows<float>(0x1p-22);
    run_windows<__half>(0x1.01p-11);
    run_windows<__nv_bfloat16>(0x1.01p-8);
}

// --- dgrad ---

template <typename T, typename Read>
static __global__ void read_kernel(const T *d, const uint2 *packed, const float *norm, const T *x,
                                   int n_images, T *d_in, float *totals) {
    ES_DYNAMIC_SHARED(memory);
    __shared__ float kept[ES_FUSED_WARPS * Read::C8 * 16];
    __shared__ __align__(16) float table[2][Read::IN * 8];
    int n_d = n_images * 2 * Read::PAIRS * Read::SIDE * Read::SIDE * ES_C8;
    for (int i = threadIdx.x; i < n_d; i += ES_FUSED_THREADS) {
        ((T *)memory)[i] = d[i];
    }
    if (threadIdx.x < 2 * Read::IN * 8) {
        table[0][threadIdx.x] = norm[threadIdx.x];
    }
    __syncthreads();
    EsNormTable of = {table[0], table[1], NULL, NULL};
    EsRawSums<Read::C8> sums = {};
    es_dgrad_convolve<T, Read>((const T *)memory, packed, of, n_images, x, d_in, sums);
    es_raw_sum<Read::IN, Read::GROUPS>(sums, kept, totals);
}

// Weights [IN 8 outputs][9 FROM 8 inputs] as the b operands of products: lane l has inputs
// 2 (l % 4) and the next of output l / 4, of a step's first channel group and of its second.
template <typename T>
static std::vector<T> pack(const std::vector<T> &weights, int n_outputs, int n_inputs) {
    std::vector<T> packed(weights.size());
    for (int k = 0; k < n_outputs * n_inputs; k++) {
        int half = k % 2, word = k / 2 % 2, lane = k / 4 % 32, step = k / 128 % (n_inputs / 16);
        int o = k / 128 / (n_inputs / 16) * 8 + lane / 4;
        int i = step * 16 + word * 8 + 2 * (lane % 4) + half;
        packed[(size_t)k] = weights[(size_t)(o * n_inputs + i)];
    }
    return packed;
}

template <typename T, int FROM, int IN, int SIZE, int C8, int ROWS>
static void run_read(int n_images, double relative) {
    using Read = EsReadShape<FROM, IN, SIZE, C8, ROWS>;
    const EsTile tile = {FROM, SIZE, 1};
    int n_inputs = 9 * FROM * 8, pixels = SIZE * SIZE;
    std::vector<T> d = draw_tile<T>(tile, n_images, 5), weights((size_t)(IN * 8 * n_inputs));
    std::vector<T> x((size_t)(n_images * IN * pixels * 8)), d_in(x.size(), T(-9.0f));
    std::vector<float> norm(2 * IN * 8), totals(2 * IN * 8, -9.0f);
    for (size_t i = 0; i < weights.size(); i++) {
        weights[i] = T(draw(6, i));
    }
    for (size_t i = 0; i < x.size(); i++) {
        x[i] = T(draw(7, i));
    }
    for (size_t i = 0; i < norm.size(); i++) {
        norm[i] = draw(8, i);
    }
    T *d_device = send(d), *packed = send(pack(weights, IN * 8, n_inputs)), *x_device = send(x);
    T *d_in_device = send(d_in);
    float *norm_device = send(norm), *totals_device = send(totals);
    size_t bytes = d.size() * sizeof(T);
    EXPECT_EQ(cudaFuncSetAttribute(read_kernel<T, Read>,
                                   cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
              cudaSuccess);
    EXPECT_EQ(es_launch_kernel(read_kernel<T, Read>, 1, ES_FUSED_THREADS, bytes, NULL, d_device,
                               (const uint2 *)packed, norm_device, x_device, n_images, d_in_device,
                               totals_device),
              cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    fetch(d_in, d_in_device);
    fetch(totals, totals_device);
    cudaFree(d_device), cudaFree(packed), cudaFree(x_device), cudaFree(norm_device);
    std::vector<double> sums(totals.size()), sizes(totals.size());
    for (int k = 0; k < (int)d_in.size(); k++) { // [image][c8][pixel][8]
        int pixel = k / 8 % pixels, c8 = k / 8 / pixels % IN, image = k / 8 / pixels / IN;
        double expected = 0, value = (double)(float)x[(size_t)k],
               g = (double)(float)d_in[(size_t)k];
        for (int i = 0; i < n_inputs; i++) { // [tap][c8][8]
            int tap = i / 8 / FROM;
            int at = tile.at(image, i / 8 % FROM, pixel / SIZE + tap / 3 - 1,
                             pixel % SIZE + tap % 3 - 1);
            size_t weight = (size_t)((c8 * 8 + k % 8) * n_inputs + i);
            expected += (double)(float)weights[weight] * (double)(float)d[(size_t)(at * 8 + i % 8)];
        }
        // one rounding to T after sums of n_inputs exact products of at most 1
        EXPECT_NEAR(g, expected, relative * fabs(expected) + n_inputs * 0x1p-20);
        size_t c = (size_t)(c8 * 8 + k % 8);
        bool counts = fmaf((float)value, norm[c], norm[IN * 8 + c]) > 0.0f;
        sums[c] += counts ? g : 0, sums[IN * 8 + c] += counts ? g * value : 0;
        sizes[c] += fabs(g), sizes[IN * 8 + c] += fabs(g);
    }
    for (size_t i = 0; i < totals.size(); i++) { // of what was stored, so in f32 alone
        EXPECT_NEAR(totals[i], sums[i], 0x1p-20 * sizes[i]);
    }
}

template <typename T> static void run_reads(double relative) {
    run_read<T, 2, 1, 16, 1, 8>(1, relative);
    run_read<T, 2, 1, 16, 1, 8>(3, relative);
    run_read<T, 4, 2, 8, 2, 8>(9, relative);
    run_read<T, 4, 2, 8, 1, 4>(1, relative);
    run_read<T, 4, 2, 8, 1, 4>(4, relative);
}

TEST(gradients_of_what_was_read) {
    if (!has_device()) {
        SKIP("no CUDA device");
    }
    run_reads<__half>(0x1.01p-11);
    run_reads<__nv_bfloat16>(0x1.01p-8);
}

TEST(one_c8_is_known_in_the_first_block_alone) {
    EsFusedNet net = {};
    for (int b = 0; b < 2; b++) {
        net.block[b].in_c8 = net.block[b].out_c8 = 1;
        net.block[b].size = b == 0 ? 64 : 32;
        net.block[b].kernel = 3, net.block[b].has_pool = 1;
    }
    EXPECT((!EsBlockShape<1, 1, 32>::fits(net, 1)));
    net.block[0].size = 32;
    EXPECT((EsBlockShape<1, 1, 32>::fits(net, 0)));
    net.block[1].out_c8 = 2, net.block[1].size = 16;
    EXPECT((EsBlockShape<1, 2, 16>::fits(net, 1)));
}
