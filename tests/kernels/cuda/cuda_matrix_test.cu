// The matrix instructions of cuda_matrix.cuh: products of random matrices against plain loops, with
// every way of loading a fragment. Run on a GPU it tests the wrappers, run in the emulation the
// emulation, so that both have the same layouts. Skipped without a CUDA device.
#include <cstring>
#include <vector>

#include "base/random_rules.h"
#include "es_test.h"
#include "kernels/cuda/cuda_launch.cuh"
#include "kernels/cuda/cuda_matrix.cuh"

#define M 16
#define N 8
#define K 16

// Work of one warp: c += a b, four times, with differently loaded fragments.
template <typename T> struct Product {
    T a[M][K], b[K][N];
    float c[4][M][N];
};

template <typename T> struct Staged {
    T a[M][K], a_columns[K][M]; // row-major, and its transpose
    T b[K][N], b_columns[N][K];
};

template <typename T> static __device__ void stage(Staged<T> *staged, const Product<T> *product) {
    for (unsigned i = threadIdx.x; i < M * K; i += 32) {
        staged->a[i / K][i % K] = product->a[i / K][i % K];
        staged->a_columns[i % K][i / K] = product->a[i / K][i % K];
    }
    for (unsigned i = threadIdx.x; i < K * N; i += 32) {
        staged->b[i / N][i % N] = product->b[i / N][i % N];
        staged->b_columns[i % N][i / N] = product->b[i / N][i % N];
    }
}

// Rows 0-7 and 8-15 of columns 0-7, then of columns 8-15; `way` 1 reads the transpose.
template <typename T>
static __device__ void load_a(uint32_t (&a)[4], const Staged<T> *staged, unsigned way) {
    unsigned lane = threadIdx.x, row = lane % 8 + 8 * (lane / 8 % 2), column = 8 * (lane / 16);
    if (way % 2 == 0) {
        es_load_matrix_x4(a, &staged->a[row][column]);
    } else {
        unsigned from_row = lane % 8 + 8 * (lane / 16), from_column = 8 * (lane / 8 % 2);
        es_load_matrix_x4_transposed(a, &staged->a_columns[from_row][from_column]);
    }
}

template <typename T>
static __device__ void load_b(uint32_t (&b)[2], const Staged<T> *staged, unsigned way) {
    unsigned lane = threadIdx.x % 16;
    if (way / 2 == 0) {
        es_load_matrix_x2_transposed(b, &staged->b[lane][0]);
    } else {
        es_load_matrix_x2(b, &staged->b_columns[lane % 8][8 * (lane / 8)]);
    }
}

template <typename T> static __global__ void product_kernel(Product<T> *products) {
    ES_DYNAMIC_SHARED(shared);
    Staged<T> *staged = (Staged<T> *)shared;
    Product<T> *product = &products[blockIdx.x];
    stage(staged, product);
    __syncwarp();
    unsigned row = threadIdx.x / 4, column = 2 * (threadIdx.x % 4);
    for (unsigned way = 0; way < 4; way++) {
        uint32_t a[4], b[2];
        float d[4];
        load_a(a, staged, way);
        load_b(b, staged, way);
        for (unsigned i = 0; i < 4; i++) {
            d[i] = product->c[way][row + 8 * (i / 2)][column + i % 2];
        }
        es_multiply_matrix<T>(d, a, b);
        for (unsigned i = 0; i < 4; i++) {
            product->c[way][row + 8 * (i / 2)][column + i % 2] = d[i];
        }
    }
}

static float uniform(uint32_t number, uint32_t product) {
    return 2 * es_random_uniform(
                   es_random_draw(3, product, ES_PURPOSE_EVALUATION, number, 0).word[0]) -
           1;
}

template <typename T> static Product<T> random_product(uint32_t number) {
    Product<T> product;
    for (uint32_t i = 0; i < M * K; i++) {
        product.a[i / K][i % K] = T(uniform(i, number));
    }
    for (uint32_t i = 0; i < K * N; i++) {
        product.b[i / N][i % N] = T(uniform(1000 + i, number));
    }
    for (uint32_t i = 0; i < 4 * M * N; i++) {
        product.c[i / (M * N)][i / N % M][i % N] = uniform(2000 + i % (M * N), number);
    }
    return product;
}

// Operands are exact, products of them too; 17 sums of size 5 at most, each to 2^-24 or, as the
// hardware truncates, 2^-22 of the largest.
template <typename T> static void compare(const Product<T> &start, const Product<T> &result) {
    for (int i = 0; i < 4 * M * N; i++) {
        int way = i / (M * N), row = i / N % M, column = i % N;
        double expected = start.c[way][row][column];
        for (int k = 0; k < K; k++) {
            expected += (double)(float)start.a[row][k] * (double)(float)start.b[k][column];
        }
        EXPECT_NEAR(result.c[way][row][column], expected, 17 * 5 * 0x1p-22);
    }
}

template <typename T> static void run_products() {
    enum { COUNT = 3 };
    std::vector<Product<T>> start, result(COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        start.push_back(random_product<T>(i));
    }
    size_t bytes = COUNT * sizeof start[0];
    Product<T> *products = NULL;
    EXPECT_EQ(cudaMalloc(&products, bytes), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(products, start.data(), bytes, cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(es_launch_kernel(product_kernel<T>, COUNT, 32, sizeof(Staged<T>), NULL, products),
              cudaSuccess);
    EXPECT_EQ(cudaMemcpy(result.data(), products, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < COUNT; i++) {
        compare(start[i], result[i]);
    }
    cudaFree(products);
}

TEST(parity) {
    int n_devices = 0;
    if (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices == 0) {
        SKIP("no CUDA device");
    }
    run_products<__nv_bfloat16>();
    run_products<__half>();
}
