// The emulation itself: what it computes, and that mistakes in kernels are found and named.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "es_test.h"
#include "kernels/cuda/cuda_launch.cuh"

#define COUNT 256

static int *device_ints(int count) {
    int *memory = NULL;
    EXPECT_EQ(cudaMalloc(&memory, (size_t)count * sizeof(int)), cudaSuccess);
    return memory;
}

static std::vector<int> fetch(const int *from, int count) {
    std::vector<int> values((size_t)count);
    EXPECT_EQ(cudaMemcpy(values.data(), from, (size_t)count * sizeof(int), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return values;
}

// A kernel with a mistake: the device is dead until it is reset, and says why.
template <typename... P> static void expect_failure(void (*kernel)(P...), const char *part) {
    int *out = device_ints(COUNT);
    EXPECT_EQ(es_launch_kernel(kernel, 2, 64, 0, NULL, out), cudaErrorLaunchFailure);
    EXPECT_CONTAINS(cudaGetErrorString(cudaGetLastError()), part);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
    cudaDeviceReset();
    EXPECT_EQ(cudaFree(out), cudaSuccess);
}

// --- mistakes ---

static __global__ void barrier_in_a_branch_kernel(int *out) {
    if (threadIdx.x < 40) {
        __syncthreads();
    }
    out[threadIdx.x] = 1;
}

static __global__ void early_return_kernel(int *out) {
    if (threadIdx.x >= 40) {
        return;
    }
    __syncthreads();
    out[threadIdx.x] = 1;
}

static __global__ void missing_lanes_kernel(int *out) {
    if (threadIdx.x % 32 < 20) {
        out[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFu, 1, 1);
    }
}

static __global__ void lane_outside_mask_kernel(int *out) {
    out[threadIdx.x] = (int)__ballot_sync(0xFFFFu, 1);
}

static __global__ void different_collectives_kernel(int *out) {
    out[threadIdx.x] =
        threadIdx.x % 2 ? __any_sync(0xFFFFFFFFu, 1) : __shfl_sync(0xFFFFFFFFu, 1, 0);
}

static __global__ void past_the_end_kernel(int *out) {
    ES_DYNAMIC_SHARED(bytes);
    bytes[threadIdx.x] = 1;
    out[threadIdx.x] = bytes[threadIdx.x];
}

TEST(a_barrier_that_some_do_not_reach) {
    expect_failure(barrier_in_a_branch_kernel, "barrier_in_a_branch_kernel in block (0, 0, 0)");
    expect_failure(barrier_in_a_branch_kernel, "threads 0-39: __syncthreads, 40-63: ended");
    expect_failure(early_return_kernel, "early_return_kernel");
}

TEST(a_collective_with_missing_lanes) {
    expect_failure(missing_lanes_kernel, "missing_lanes_kernel");
    expect_failure(missing_lanes_kernel, "threads 0-19: __shfl_sync, 20-31: ended");
    expect_failure(lane_outside_mask_kernel, "a mask that it is not in");
    expect_failure(different_collectives_kernel, "waits for lanes that do not come");
}

TEST(dynamic_shared_memory_has_its_size) {
    int *out = device_ints(COUNT);
    EXPECT_EQ(es_launch_kernel(past_the_end_kernel, 1, 64, 64, NULL, out), cudaSuccess);
    EXPECT_EQ(es_launch_kernel(past_the_end_kernel, 1, 65, 64, NULL, out), cudaErrorLaunchFailure);
    EXPECT_CONTAINS(cudaGetErrorString(cudaGetLastError()), "out of bounds");
    cudaDeviceReset();
    // as on sm_90: 48 KB, up to 227 KB when the kernel is allowed to
    EXPECT_EQ(es_launch_kernel(past_the_end_kernel, 1, 64, 50000, NULL, out),
              cudaErrorInvalidValue);
    EXPECT_EQ(cudaFuncSetAttribute(past_the_end_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   50000),
              cudaSuccess);
    EXPECT_EQ(es_launch_kernel(past_the_end_kernel, 1, 64, 50000, NULL, out), cudaSuccess);
    EXPECT_EQ(cudaFuncSetAttribute(past_the_end_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   240000),
              cudaErrorInvalidValue);
    cudaGetLastError();
    cudaFree(out);
}

TEST(grids_and_copies_out_of_range) {
    int *out = device_ints(COUNT);
    int here[COUNT + 1] = {};
    EXPECT_EQ(es_launch_kernel(past_the_end_kernel, 1, 1025, 0, NULL, out),
              cudaErrorInvalidConfiguration);
    EXPECT_EQ(es_launch_kernel(past_the_end_kernel, dim3(1, 65536), 1, 0, NULL, out),
              cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaMemcpy(here, out, sizeof here, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemcpy(out, here, 4, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemset(here, 0, 4), cudaErrorInvalidValue);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess); // none of them killed the device
    cudaFree(out);
}

// --- blocks that wait for each other ---

#define N_ROUNDS 5

static __device__ unsigned look(const unsigned *p, unsigned i) {
    uint4 four = es_exchange_load(p + i / 4 * 4);
    return i % 4 == 0 ? four.x : i % 4 == 1 ? four.y : i % 4 == 2 ? four.z : four.w;
}

// Every block waits in every round for the word that the block before it in a ring has written.
static __global__ void ring_kernel(float *words, int n_written) {
    ES_DYNAMIC_SHARED(bytes);
    unsigned before = (blockIdx.x + gridDim.x - 1) % gridDim.x;
    for (int round = 0; round < N_ROUNDS; round++) {
        if (threadIdx.x == 0 && round < n_written) {
            es_exchange_store(words + round * gridDim.x + blockIdx.x, 1.0f);
        }
        while (threadIdx.x % 2 == 0 &&
               look((const unsigned *)words, round * gridDim.x + before) == 0xFFFFFFFFu) {
            es_exchange_pause();
        }
        __syncwarp();
        bytes[threadIdx.x] = (unsigned char)blockIdx.x;
        __syncthreads();
    }
    if (bytes[blockDim.x - 1 - threadIdx.x] != blockIdx.x) {
        words[0] = 7.0f; // another block's shared memory
    }
}

TEST(blocks_of_a_cooperative_launch_take_turns) {
    const unsigned n_blocks = 12;
    float *words = NULL, first = 0.0f;
    size_t bytes = N_ROUNDS * n_blocks * sizeof *words;
    EXPECT_EQ(cudaMalloc(&words, bytes), cudaSuccess);
    EXPECT_EQ(es_launch_cooperative(ring_kernel, n_blocks, 64, 64, NULL, words, N_ROUNDS),
              cudaSuccess);
    EXPECT_EQ(cudaMemcpy(&first, words, sizeof first, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_NEAR(first, 1.0f, 0.0f);
    // more of them than an H200 holds at once
    EXPECT_EQ(es_launch_cooperative(ring_kernel, 132 * 32 + 1, 64, 64, NULL, words, N_ROUNDS),
              cudaErrorCooperativeLaunchTooLarge);
    cudaGetLastError();
    cudaMemset(words, 0xFF, bytes);
    EXPECT_EQ(es_launch_cooperative(ring_kernel, n_blocks, 64, 64, NULL, words, N_ROUNDS - 1),
              cudaErrorLaunchFailure);
    EXPECT_CONTAINS(cudaGetErrorString(cudaGetLastError()), "wait for each other for ever");
    cudaDeviceReset();
    cudaMemset(words, 0xFF, bytes);
    EXPECT_EQ(es_launch_kernel(ring_kernel, n_blocks, 64, 64, NULL, words, N_ROUNDS),
              cudaErrorLaunchFailure);
    EXPECT_CONTAINS(cudaGetErrorString(cudaGetLastError()), "not cooperative");
    cudaDeviceReset();
    cudaFree(words);
}

// --- memory that nobody has written ---

template <typename V> static __device__ V read_shared(int writes) {
    __shared__ V values[4];
    V found = values[1];
    __syncthreads();
    if (writes) {
        values[1] = V(5);
    }
    return found;
}

static __global__ void unwritten_kernel(int *out) {
    ES_DYNAMIC_SHARED(bytes);
    __shared__ alignas(16) int plain[3];
    out[3 * blockIdx.x] = read_shared<int>(1);
    out[3 * blockIdx.x + 1] = plain[2];
    out[3 * blockIdx.x + 2] = ((int *)bytes)[0];
    plain[2] = 6;
    ((int *)bytes)[0] = 7;
}

TEST(unwritten_memory_is_poisoned) {
    int *out = device_ints(9);
    EXPECT_EQ(fetch(out, 9)[8], -1);
    EXPECT_EQ(es_launch_kernel(unwritten_kernel, 3, 1, 16, NULL, out), cudaSuccess);
    for (int value : fetch(out, 9)) {
        EXPECT_EQ(value, -1); // also in the second block, after the first has written
    }
    cudaFree(out);
}

// --- collectives ---

static __global__ void collectives_kernel(int *out) {
    int lane = (int)threadIdx.x % 32, *mine = out + 8 * threadIdx.x;
    mine[0] = __shfl_sync(0xFFFFFFFFu, lane, 35, 16);
    mine[1] = __shfl_up_sync(0xFFFFFFFFu, lane, 3);
    mine[2] = __shfl_down_sync(0xFFFFFFFFu, lane, 3, 8);
    mine[3] = __shfl_xor_sync(0xFFFFFFFFu, lane, 5);
    mine[4] = (int)__ballot_sync(0xFFFFFFFFu, lane % 3 == 0);
    if (lane < 8) {
        __syncwarp(0xFFu);
        mine[5] = __any_sync(0xFFu, lane == 7) + 2 * __all_sync(0xFFu, lane < 7);
    }
    mine[6] = __syncthreads_count(threadIdx.x % 5 == 0);
    mine[7] = __reduce_add_sync(0xFFFFFFFFu, lane);
}

TEST(collectives) {
    int *out = device_ints(8 * 64);
    EXPECT_EQ(es_launch_kernel(collectives_kernel, 1, 64, 0, NULL, out), cudaSuccess);
    std::vector<int> values = fetch(out, 8 * 64);
    for (int i = 0; i < 64; i++) {
        const int *mine = &values[(size_t)(8 * i)];
        int lane = i % 32;
        EXPECT_EQ(mine[0], lane / 16 * 16 + 3);
        EXPECT_EQ(mine[1], lane < 3 ? lane : lane - 3);
        EXPECT_EQ(mine[2], lane % 8 < 5 ? lane + 3 : lane);
        EXPECT_EQ(mine[3], lane ^ 5);
        EXPECT_EQ(mine[4], 0x49249249);
        EXPECT_EQ(mine[5], lane < 8 ? 1 : -1);
        EXPECT_EQ(mine[6], 13);
        EXPECT_EQ(mine[7], 31 * 16);
    }
    cudaFree(out);
}

// A warp reads what another wrote, without a barrier in between: the two orders see it differently.
static __global__ void race_kernel(int *out) {
    __shared__ int values[64];
    values[threadIdx.x] = (int)threadIdx.x;
    out[threadIdx.x] = values[63 - threadIdx.x];
}

TEST(a_race_shows_in_the_other_order) {
    int *out = device_ints(64);
    EXPECT_EQ(es_launch_kernel(race_kernel, 1, 64, 0, NULL, out), cudaSuccess);
    std::vector<int> forward = fetch(out, 64);
    setenv("ES_CUDA_ORDER", "reverse", 1);
    EXPECT_EQ(es_launch_kernel(race_kernel, 1, 64, 0, NULL, out), cudaSuccess);
    unsetenv("ES_CUDA_ORDER");
    std::vector<int> backward = fetch(out, 64);
    EXPECT_EQ(forward[0], -1);
    EXPECT_EQ(backward[0], 63);
    cudaFree(out);
}

// --- 16-bit numbers ---

TEST(narrow_numbers_round_to_nearest_even) {
    EXPECT_EQ(__bfloat16_as_ushort(__float2bfloat16_rn(1.0f + 0x1p-8f)), 0x3F80);
    EXPECT_EQ(__bfloat16_as_ushort(__float2bfloat16_rn(1.0f + 3 * 0x1p-8f)), 0x3F82);
    EXPECT_EQ(__bfloat16_as_ushort(__float2bfloat16_rn(NAN)), 0x7FFF);
    EXPECT_EQ(__half_as_ushort(__float2half_rn(1.0f + 0x1p-11f)), 0x3C00);
    EXPECT_EQ(__half_as_ushort(__float2half_rn(1.0f + 3 * 0x1p-11f)), 0x3C02);
    EXPECT_EQ(__half_as_ushort(__float2half_rn(65519.0f)), 0x7BFF);
    EXPECT_EQ(__half_as_ushort(__float2half_rn(-65520.0f)), 0xFC00);
    EXPECT_EQ(__half_as_ushort(__float2half_rn(0x1p-25f)), 0x0000);
    EXPECT_EQ(__half_as_ushort(__float2half_rn(3 * 0x1p-25f)), 0x0002);
    EXPECT_EQ(__half_as_ushort(__float2half_rn(0x1.ffcp-15f)), 0x0400);
    for (unsigned bits = 0; bits < 0x10000; bits++) {
        float f16 = __half2float(__ushort_as_half((unsigned short)bits));
        float bf16 = __bfloat162float(__ushort_as_bfloat16((unsigned short)bits));
        if ((!isnan(f16) && __half_as_ushort(__float2half_rn(f16)) != bits) ||
            (!isnan(bf16) && __bfloat16_as_ushort(__float2bfloat16_rn(bf16)) != bits)) {
            ES_TEST_FAIL("0x%04x does not come back", bits);
        }
    }
}

// --- captures ---

static __global__ void count_kernel(int *out) { atomicAdd(&out[threadIdx.x], 1); }

TEST(captures_record_and_replay) {
    cudaStream_t stream = NULL, other = NULL;
    cudaEvent_t fork = NULL, join = NULL;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t executable = NULL;
    int *out = device_ints(32);
    cudaStreamCreate(&stream);
    cudaStreamCreate(&other);
    cudaEventCreate(&fork);
    cudaEventCreate(&join);
    cudaMemset(out, 0, 32 * sizeof(int));
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_EQ(es_launch_kernel(count_kernel, 1, 32, 0, stream, out), cudaSuccess);
    cudaEventRecord(fork, stream);
    cudaStreamWaitEvent(other, fork);
    EXPECT_EQ(es_launch_kernel(count_kernel, 2, 32, 0, other, out), cudaSuccess);
    cudaEventRecord(join, other);
    cudaStreamWaitEvent(stream, join);
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    EXPECT_EQ(fetch(out, 32)[31], 0);
    EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    cudaGraphDestroy(graph);
    EXPECT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
    EXPECT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
    EXPECT_EQ(fetch(out, 32)[31], 6);
    cudaGraphExecDestroy(executable);

    // neither waiting nor allocating is allowed in between
    int *more = NULL;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    EXPECT_EQ(cudaMalloc(&more, 4), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    cudaEventDestroy(fork);
    cudaEventDestroy(join);
    cudaStreamDestroy(stream);
    cudaStreamDestroy(other);
    cudaFree(out);
}
