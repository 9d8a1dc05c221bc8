// Convolutions of float tiles and the gradients of their weights against plain loops in double, as
// they are and in TF32. The loops round operands where the kernels do, so that what is left is the
// rounding of sums: a product in the wrong place, or an operand that was cut and not rounded, is
// far outside the bound.
#include <vector>

#include "base/random_rules.h"
#include "es_test.h"
#include "growth/fused/fused_convolve.cuh"
#include "growth/fused/fused_wgrad.cuh"
#include "kernels/cuda/cuda_launch.cuh"

struct Case {
    int in_c8, out_c8, size, kernel, n_images;

    __host__ __device__ EsTile in() const {
        return {in_c8, size, kernel / 2, es_fused_reciprocal(size),
                es_fused_reciprocal(size * size)};
    }
    __host__ __device__ EsTile out() const {
        return {out_c8, size, 0, es_fused_reciprocal(size), es_fused_reciprocal(size * size)};
    }
    __host__ __device__ int taps() const { return kernel * kernel * in_c8; }
    __host__ __device__ int in_floats() const { return n_images * in().image_c8() * ES_C8; }
    __host__ __device__ int out_floats() const { return n_images * out().image_c8() * ES_C8; }
    __host__ __device__ int weights() const { return taps() * out_c8 * 64; }
};

// All in device memory: in and d are tiles, weight is [tap channel group][8 in][out].
struct Numbers {
    float *in, *weight, *d, *packed, *out, *partial;
};

// In a launch of its own: convolutions read packed weights as constants.
static __global__ void pack_kernel(Case c, Numbers x, int is_tf32) {
    int n_out = c.out_c8 * ES_C8;
    for (int i = threadIdx.x; i < c.weights(); i += ES_FUSED_THREADS) {
        int o = i % n_out, input = i / n_out % 8, q = i / n_out / 8;
        x.packed[(o / 8 * c.taps() + q) * 64 + es_packed_place(input, o % 8)] =
            es_packed_float(x.weight[i], is_tf32);
    }
}

static __global__ void tile_kernel(Case c, Numbers x, int is_tf32) {
    ES_DYNAMIC_SHARED(memory);
    float *in = (float *)memory, *out = in + c.in_floats();
    int *offsets = (int *)(out + c.out_floats());
    for (int i = threadIdx.x; i < c.in_floats(); i += ES_FUSED_THREADS) {
        in[i] = x.in[i];
    }
    es_tap_offsets(offsets, c.in(), c.kernel);
    __syncthreads();
    es_tile_convolve(in, c.in(), offsets, c.taps(), x.packed, out, c.out(), c.n_images, is_tf32);
    __syncthreads();
    for (int i = threadIdx.x; i < c.out_floats(); i += ES_FUSED_THREADS) {
        x.out[i] = out[i];
        out[i] = x.d[i];
    }
    __syncthreads();
    es_tile_wgrad(in, c.in(), offsets, c.taps(), out, c.out(), c.n_images, NULL, NULL, x.partial,
                  is_tf32);
}

// --- by plain loops ---

static double rounded(float x, int is_tf32) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = is_tf32 ? (bits + 0x1000u) & 0xFFFFE000u : bits;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

// Number q of a case's taps and input channel groups, input i, seen from a pixel.
static int input_at(const Case &c, int image, int row, int column, int q, int i) {
    int tap = q / c.in_c8, half = c.kernel / 2;
    return c.in().at(image, q % c.in_c8, row + tap / c.kernel - half,
                     column + tap % c.kernel - half) *
               ES_C8 +
           i;
}

static void expect_convolution(const Case &c, const std::vector<float> &in,
                               const std::vector<float> &weight, const std::vector<float> &out,
                               int is_tf32) {
    int n_out = c.out_c8 * ES_C8;
    for (int k = 0; k < c.n_images * c.size * c.size * n_out; k++) {
        int o = k % n_out, pixel = k / n_out % (c.size * c.size);
        int image = k / n_out / (c.size * c.size), row = pixel / c.size, column = pixel % c.size;
        double sum = 0;
        for (int q = 0; q < c.taps(); q++) {
            for (int i = 0; i < 8; i++) {
                sum += rounded(in[input_at(c, image, row, column, q, i)], is_tf32) *
                       rounded(weight[(q * 8 + i) * n_out + o], is_tf32);
            }
        }
        int at = c.out().at(image, o / 8, row, column) * ES_C8 + o % 8;
        EXPECT_NEAR(out[at], sum, 8 * c.taps() * 0x1p-22);
    }
}

static void expect_gradient(const Case &c, const std::vector<float> &in,
                            const std::vector<float> &d, const std::vector<float> &partial,
                            int is_tf32) {
    int n_out = c.out_c8 * ES_C8, n_pixels = c.n_images * c.size * c.size;
    for (int k = 0; k < c.weights(); k++) { // [q][o][8 inputs]
        int i = k % 8, o = k / 8 % n_out, q = k / 8 / n_out;
        double sum = 0;
        for (int m = 0; m < n_pixels; m++) {
            int image = m / (c.size * c.size), pixel = m % (c.size * c.size);
            int row = pixel / c.size, column = pixel % c.size;
            int at = c.out().at(image, o / 8, row, column) * ES_C8 + o % 8;
            sum += rounded(in[input_at(c, image, row, column, q, i)], is_tf32) *
                   rounded(d[at], is_tf32);
        }
        EXPECT_NEAR(partial[k], sum, n_pixels * 0x1p-22);
    }
}

// --- cases ---

static std::vector<float> draws(int n, uint32_t salt) {
    std::vector<float> values((size_t)n);
    for (int i = 0; i < n; i++) {
        values[(size_t)i] =
            2 * es_random_uniform(
                    es_random_draw(5, salt, ES_PURPOSE_EVALUATION, (uint32_t)i, 0).word[0]) -
            1;
    }
    return values;
}

// Inputs with their border of zeros.
static std::vector<float> draw_inputs(const Case &c) {
    std::vector<float> all = draws(c.in_floats(), 1), in(all.size(), 0.0f);
    for (int k = 0; k < c.n_images * c.in_c8 * c.size * c.size * 8; k++) {
        int pixel = k / 8 % (c.size * c.size), c8 = k / 8 / (c.size * c.size) % c.in_c8;
        int image = k / 8 / (c.size * c.size) / c.in_c8;
        int at = c.in().at(image, c8, pixel / c.size, pixel % c.size) * ES_C8 + k % 8;
        in[(size_t)at] = all[(size_t)at];
    }
    return in;
}

static float *send(const std::vector<float> &values) {
    float *to = NULL;
    EXPECT_EQ(cudaMalloc(&to, values.size() * sizeof(float)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(to, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice),
              cudaSuccess);
    return to;
}

static void fetch(std::vector<float> &values, float *from) {
    EXPECT_EQ(
        cudaMemcpy(values.data(), from, values.size() * sizeof(float), cudaMemcpyDeviceToHost),
        cudaSuccess);
}

static void run_case(const Case &c, int is_tf32) {
    std::vector<float> in = draw_inputs(c), weight = draws(c.weights(), 2),
                       d = draws(c.out_floats(), 3), out(d.size()), partial(weight.size());
    Numbers x = {send(in), send(weight), send(d), send(weight), send(out), send(partial)};
    size_t bytes = (size_t)(c.in_floats() + c.out_floats() + c.taps() + 1) * sizeof(float);
    EXPECT_EQ(es_launch_kernel(pack_kernel, 1, ES_FUSED_THREADS, 0, NULL, c, x, is_tf32),
              cudaSuccess);
    EXPECT_EQ(es_launch_kernel(tile_kernel, 1, ES_FUSED_THREADS, bytes, NULL, c, x, is_tf32),
              cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    fetch(out, x.out);
    fetch(partial, x.partial);
    expect_convolution(c, in, weight, out, is_tf32);
    expect_gradient(c, in, d, partial, is_tf32);
    float *const all[] = {x.in, x.weight, x.d, x.packed, x.out, x.partial};
    for (float *numbers : all) {
        cudaFree(numbers);
    }
}

// one pixel; one channel group; odd sizes, so that pixels end inside a product; several groups of
// output channel groups; more sets of taps than warps
static const Case cases[] = {{1, 1, 1, 1, 1}, {1, 1, 5, 3, 1}, {1, 2, 4, 3, 3}, {2, 5, 4, 3, 2},
                             {3, 3, 5, 1, 2}, {2, 1, 6, 3, 1}, {4, 6, 3, 3, 2}};

static void run_cases(int is_tf32) {
    int n_devices = 0;
    if (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices == 0) {
        SKIP("no CUDA device");
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_case(cases[i], is_tf32);
    }
}

TEST(f32) { run_cases(0); }

TEST(tf32) { run_cases(1); }
