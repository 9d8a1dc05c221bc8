// The tensors of every blueprint as the fused kernels see them: kind, offset of the packed form,
// and offset of the partial sums of each.
//
// Packed, per place: for each convolution of the blueprint, forward then mirrored; a depthwise one
// in 16-bit types alone. Partial sums of a chunk: the
// gate's tensors, then the blueprint's, each padded to whole channel groups.
#ifndef ES_GROWTH_FUSED_SEED_LAYOUT_CUH
#define ES_GROWTH_FUSED_SEED_LAYOUT_CUH

#include "growth/fused/fused_convolve.cuh"
#include "growth/fused/fused_instance.cuh"
#include "growth/fused/fused_kernels.h"
#include "growth/fused/fused_wgrad.cuh"

// Thread blocks that are to share a multiprocessor, which bounds their registers and the images
// that es_fused_seed_images gives them; unbounded, the backward kernel takes 170 registers and a
// multiprocessor for itself.
#define ES_SEED_FORWARD_BLOCKS  3
#define ES_SEED_BACKWARD_BLOCKS 2

// A place's shape where the kernel was compiled for one: whole channel groups, maps of EDGE.
// N_C8 0: any place.
template <int N_C8, int EDGE> struct EsPlaceShape {
    static constexpr int C8 = N_C8, SIZE = EDGE;

    static bool fits(const EsFusedPlace &place) {
        return place.n_channels == C8 * ES_C8 && place.size == SIZE;
    }
};

// Run a statement with P standing for the shape of a place: one of those that kernels of type T are
// compiled for, or any. f32 has the last alone.
#define ES_DISPATCH_PLACE(place, T, P, ...)                                                        \
    do {                                                                                           \
        if (EsPlaceShape<1, 32>::fits(place)) {                                                    \
            ES_WITH_PLACE(T, P, 1, 32, __VA_ARGS__);                                               \
        } else if (EsPlaceShape<2, 16>::fits(place)) {                                             \
            ES_WITH_PLACE(T, P, 2, 16, __VA_ARGS__);                                               \
        } else if (EsPlaceShape<4, 8>::fits(place)) {                                              \
            ES_WITH_PLACE(T, P, 4, 8, __VA_ARGS__);                                                \
        } else {                                                                                   \
            ES_WITH_PLACE(T, P, 0, 0, __VA_ARGS__);                                                \
        }                                                                                          \
    } while (0)
#define ES_WITH_PLACE(T, P, n_c8, size, ...)                                                       \
    do {                                                                                           \
        typedef EsPlaceShape<sizeof(T) == 4 ? 0 : n_c8, sizeof(T) == 4 ? 0 : size> P;              \
        __VA_ARGS__;                                                                               \
    } while (0)

// Stands for the gate network where a blueprint is expected.
#define ES_SEED_GATE (-1)

// A tensor of a blueprint. Partial sums of a vector lie as the vector does, those of a convolution
// as es_tile_wgrad has them, those of a depthwise one as [tap % 2][tap / 2][channels].
struct EsSeedTensor {
    int kind, n_in, n_out, kernel; // as EsBlueprintTensor

    __host__ __device__ int in_c8() const { return (n_in + 7) / ES_C8; }
    __host__ __device__ int out_c8() const { return (n_out + 7) / ES_C8; }
    __host__ __device__ int partial_length() const {
        return kind == ES_TENSOR_CONV
                   ? es_weight_partial_length(kernel * kernel * in_c8(), out_c8())
               : kind == ES_TENSOR_DEPTHWISE ? 10 * out_c8() * ES_C8
                                             : out_c8() * ES_C8;
    }
};

static __host__ __device__ __forceinline__ int es_seed_tensor_count(int blueprint) {
    return blueprint == ES_SEED_GATE ? ES_FUSED_GATE_TENSORS : es_blueprint_tensor_count(blueprint);
}

// Tensor k of a blueprint (blueprint.h) or of the gate network (graph_blend.c).
static __host__ __device__ EsSeedTensor es_seed_tensor(int n_channels, int blueprint, int k) {
    int narrow = es_blueprint_narrow(n_channels);
    EsBlueprintTensor of = blueprint == ES_SEED_GATE
                               ? es_blueprint_vector(k == 0   ? narrow * n_channels
                                                     : k == 3 ? 1
                                                              : narrow)
                               : es_blueprint_tensor(n_channels, blueprint, k);
    EsSeedTensor tensor = {of.kind, of.n_in, of.n_out, of.kernel};
    return tensor;
}

// --- packed weights ---

template <typename T>
static __host__ __device__ size_t es_seed_packed_tensor_bytes(EsSeedTensor tensor,
                                                              int is_backward) {
    int in = is_backward ? tensor.out_c8() : tensor.in_c8();
    int out = is_backward ? tensor.in_c8() : tensor.out_c8();
    if (tensor.kind == ES_TENSOR_DEPTHWISE && sizeof(T) < 4) {
        return es_packed_bytes<T>(ES_DEPTHWISE_TAPS, tensor.out_c8());
    }
    return tensor.kind == ES_TENSOR_CONV
               ? es_packed_bytes<T>(tensor.kernel * tensor.kernel * in, out)
               : 0;
}

// Offset of packed tensor k from the start of the place; for k = number of tensors, the end.
template <typename T>
static __host__ __device__ size_t es_seed_packed_offset(int n_channels, int blueprint, int k,
                                                        int is_backward) {
    size_t offset = 0;
    for (int i = 0; i < k; i++) {
        EsSeedTensor tensor = es_seed_tensor(n_channels, blueprint, i);
        offset += es_seed_packed_tensor_bytes<T>(tensor, 0);
        offset += es_seed_packed_tensor_bytes<T>(tensor, 1);
    }
    return is_backward
               ? offset +
                     es_seed_packed_tensor_bytes<T>(es_seed_tensor(n_channels, blueprint, k), 0)
               : offset;
}

// --- partial sums ---

// Offset of tensor k's sums in a chunk's partial sums; for k = number of tensors, the end.
static inline __host__ __device__ int es_seed_partial_offset(int n_channels, int blueprint, int k) {
    int offset = 0;
    if (blueprint != ES_SEED_GATE) {
        for (int i = 0; i < ES_FUSED_GATE_TENSORS; i++) {
            offset += es_seed_tensor(n_channels, ES_SEED_GATE, i).partial_length();
        }
    }
    for (int i = 0; i < k; i++) {
        offset += es_seed_tensor(n_channels, blueprint, i).partial_length();
    }
    return offset;
}

#endif
