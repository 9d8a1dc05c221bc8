// Blueprints: the small networks that a seed can be, as fragments of a graph.
//
// A blueprint reads [E, N, C, H, W] and gives the same shape, at any resolution. Those of
// convolutions and layers are x + norm(branch(x)): the branch ends in a group norm whose gamma
// starts at 0, with nothing after it, so a fresh seed is the identity and its first step already
// has a gradient under every way of blending. Convolutions have no bias; GN is a group norm.
//
//     EsValueId x = es_graph_seed_input(graph, h, mode);
//     EsValueId seed = es_blueprint_build(graph, ES_BLUEPRINT_CONV_LIGHT, "r0c0", x);
#ifndef ES_GROWTH_BLUEPRINT_H
#define ES_GROWTH_BLUEPRINT_H

#include "esper/growth_terms.h"
#include "network/graph/graph_blend.h"

ES_EXTERN_C_BEGIN

// Every blueprint, once: a row is its identifier and its layers in order, in the order of the
// policy's blueprint head, whose list (action_rules.h) names it. The graph, the number of
// parameters and the tensors that fused kernels pack all come from here; a reader of the table
// defines the meaning of each kind of layer:
//
//   CONV2D(part, n_in, n_out, kernel)  convolution without bias
//   CONV_DEPTHWISE(part)               3x3 convolution of each channel with itself
//   RELU()
//   GROUPNORM(part)                    group norm
//   BRANCH(part)                       x + group norm whose gamma starts at 0; ends a row
//   MIX()                              x + tanh(g) (y - x); ends a row
//   ATTEND()                           x times a factor per image and channel; ends a row
//
// with C channels, `narrow` for the middle of a bottleneck and `squeezed` for that of ATTEND.
// clang-format off
#define ES_BLUEPRINT_TABLE(ROW, CONV2D, CONV_DEPTHWISE, RELU, GROUPNORM, BRANCH, MIX, ATTEND)      \
    ROW(NOOP,       )                                                                              \
    ROW(CONV_LIGHT, CONV2D("conv", C, C, 3) BRANCH("norm"))                                        \
    ROW(ATTENTION,  ATTEND())                                                                      \
    ROW(NORM,       GROUPNORM("norm") MIX())                                                       \
    ROW(DEPTHWISE,  CONV_DEPTHWISE("depthwise") CONV2D("pointwise", C, C, 1)                       \
                    BRANCH("norm"))                                                                \
    ROW(BOTTLENECK, CONV2D("down", C, narrow, 1) RELU()                                            \
                    CONV2D("conv", narrow, narrow, 3) RELU()                                       \
                    CONV2D("up", narrow, C, 1) BRANCH("norm"))                                     \
    ROW(CONV_SMALL, CONV2D("conv", C, C, 1) BRANCH("norm"))                                        \
    ROW(CONV_HEAVY, CONV2D("conv0", C, C, 3) GROUPNORM("norm0") RELU()                             \
                    CONV2D("conv1", C, C, 3) BRANCH("norm"))                                       \
    ROW(MLP_SMALL,  CONV2D("up", C, 2 * C, 1) RELU()                                               \
                    CONV2D("down", 2 * C, C, 1) BRANCH("norm"))                                    \
    ROW(MLP,        CONV2D("up", C, 4 * C, 1) RELU()                                               \
                    CONV2D("down", 4 * C, C, 1) BRANCH("norm"))

// The rows without their layers: X(identifier, ).
#define ES_BLUEPRINT_LIST(X)                                                                       \
    ES_BLUEPRINT_TABLE(X, ES_NO_LAYER, ES_NO_LAYER, ES_NO_LAYER, ES_NO_LAYER, ES_NO_LAYER,         \
                       ES_NO_LAYER, ES_NO_LAYER)
// clang-format on
#define ES_NO_LAYER(...)

// A blueprint has the number of its identifier (EsBlueprintId). Those of hosts for images come
// first, COUNT of them, and fused kernels have a row for each; not every number from there to the
// end is one of a blueprint.
typedef enum EsBlueprint {
#define X(identifier, layers) ES_BLUEPRINT_##identifier = ES_BLUEPRINT_ID_##identifier,
    ES_BLUEPRINT_LIST(X)
#undef X
        ES_BLUEPRINT_COUNT = ES_BLUEPRINT_ID_CONV_HEAVY + 1,
    ES_BLUEPRINT_END = ES_BLUEPRINT_ID_MLP + 1
} EsBlueprint;

// --- tensors, in the order in which the graph creates them ---

enum EsBlueprintTensorKind {
    ES_TENSOR_VECTOR,    // n_out numbers
    ES_TENSOR_CONV,      // [n_out][n_in][kernel][kernel]
    ES_TENSOR_DEPTHWISE, // [n_out][3][3]
};

typedef struct EsBlueprintTensor {
    int kind, n_in, n_out, kernel;
} EsBlueprintTensor;

// Widths of narrow layers: the middle of a bottleneck or a gate; that of ATTEND.
static inline ES_HOST_DEVICE int es_blueprint_narrow(int n_channels) {
    return n_channels / 4 > 8 ? n_channels / 4 : 8;
}
static inline ES_HOST_DEVICE int es_blueprint_squeezed(int n_channels) {
    return n_channels / 4 > 1 ? n_channels / 4 : 1;
}

static inline ES_HOST_DEVICE EsBlueprintTensor es_blueprint_vector(int count) {
    EsBlueprintTensor tensor = {ES_TENSOR_VECTOR, 1, count, 1};
    return tensor;
}

// The table for readers of tensors, which define PREFIX_CONV and so on; ReLU has none.
#define ES_BLUEPRINT_TENSORS(ROW, PREFIX)                                                          \
    ES_BLUEPRINT_TABLE(ROW, PREFIX##_CONV, PREFIX##_DEPTHWISE, ES_NO_LAYER, PREFIX##_NORM,         \
                       PREFIX##_NORM, PREFIX##_MIX, PREFIX##_ATTEND)

static inline ES_HOST_DEVICE int es_blueprint_tensor_count(int blueprint) {
#define COUNT_CONV(...)      +1
#define COUNT_DEPTHWISE(...) +1
#define COUNT_NORM(...)      +2
#define COUNT_MIX(...)       +1
#define COUNT_ATTEND(...)    +3
#define ROW(identifier, layers)                                                                    \
    case ES_BLUEPRINT_##identifier:                                                                \
        return 0 layers;
    switch (blueprint) { ES_BLUEPRINT_TENSORS(ROW, COUNT) }
    return 0;
#undef ROW
#undef COUNT_CONV
#undef COUNT_DEPTHWISE
#undef COUNT_NORM
#undef COUNT_MIX
#undef COUNT_ATTEND
}

// Tensor k of a blueprint on n_channels; an empty one behind the last.
static inline ES_HOST_DEVICE EsBlueprintTensor es_blueprint_tensor(int n_channels, int blueprint,
                                                                   int k) {
    const int C = n_channels, narrow = es_blueprint_narrow(C), squeezed = es_blueprint_squeezed(C);
    EsBlueprintTensor tensor = es_blueprint_vector(0);
#define AT(kind_, n_in_, n_out_, kernel_)                                                          \
    if (k-- == 0) {                                                                                \
        tensor.kind = kind_;                                                                       \
        tensor.n_in = n_in_;                                                                       \
        tensor.n_out = n_out_;                                                                     \
        tensor.kernel = kernel_;                                                                   \
    }
#define AT_CONV(part, n_in, n_out, kernel) AT(ES_TENSOR_CONV, n_in, n_out, kernel)
#define AT_DEPTHWISE(part)                 AT(ES_TENSOR_DEPTHWISE, 1, C, 3)
#define AT_NORM(part)                                                                              \
    AT(ES_TENSOR_VECTOR, 1, C, 1)                                                                  \
    AT(ES_TENSOR_VECTOR, 1, C, 1)
#define AT_MIX() AT(ES_TENSOR_VECTOR, 1, 1, 1)
#define AT_ATTEND()                                                                                \
    AT(ES_TENSOR_VECTOR, 1, squeezed *C, 1)                                                        \
    AT(ES_TENSOR_VECTOR, 1, squeezed *C, 1)                                                        \
    AT(ES_TENSOR_VECTOR, 1, C, 1)
#define ROW(identifier, layers)                                                                    \
    case ES_BLUEPRINT_##identifier:                                                                \
        layers break;
    switch (blueprint) { ES_BLUEPRINT_TENSORS(ROW, AT) }
    return tensor;
#undef ROW
#undef AT
#undef AT_CONV
#undef AT_DEPTHWISE
#undef AT_NORM
#undef AT_MIX
#undef AT_ATTEND
}

// Gamma of a blueprint's last norm; beta is the tensor behind it. -1: there is none.
static inline ES_HOST_DEVICE int es_blueprint_last_norm(int blueprint) {
#define LAST_CONV(...)      n_before++;
#define LAST_DEPTHWISE(...) n_before++;
#define LAST_NORM(...)                                                                             \
    last = n_before;                                                                               \
    n_before += 2;
#define LAST_MIX(...)    n_before++;
#define LAST_ATTEND(...) n_before += 3;
#define ROW(identifier, layers)                                                                    \
    case ES_BLUEPRINT_##identifier:                                                                \
        layers break;
    int n_before = 0, last = -1;
    switch (blueprint) { ES_BLUEPRINT_TENSORS(ROW, LAST) }
    (void)n_before;
    return last;
#undef ROW
#undef LAST_CONV
#undef LAST_DEPTHWISE
#undef LAST_NORM
#undef LAST_MIX
#undef LAST_ATTEND
}

// --- names, counts, graphs ---

// Returns whether a number below ES_BLUEPRINT_END is that of a blueprint.
int es_blueprint_exists(int number);

const char *es_blueprint_name(EsBlueprint blueprint);

// ARGUMENT lists the names when there is none such.
EsStatus es_blueprint_parse(const char *name, EsBlueprint *blueprint);

// Groups of a norm over this many channels: one below 32 channels, so that a map of few values is
// never normalised to nothing; above, the most groups, a power of 2 up to 32, of 16 channels or
// more.
int es_blueprint_group_count(int64_t n_channels);

// Trainable numbers of a seed on n_channels channels.
int64_t es_blueprint_parameter_count(EsBlueprint blueprint, int64_t n_channels);

// Floating-point operations of one image on maps of side x side pixels, as es_host_flops has them.
double es_blueprint_flops(EsBlueprint blueprint, int64_t n_channels, int64_t side);

// Added to the variance of a norm, in seeds of hosts for images and for rows. A row's group is the
// few units of a layer instead of a map: where they nearly agree, 1e-5 would multiply the rounding
// errors of all that comes before by hundreds.
#define ES_NORM_EPSILON_IMAGES ES_NORM_EPSILON
#define ES_NORM_EPSILON_ROWS   1e-2f

// Append the blueprint to the graph, for images; its parameters are called "<name>.<layer>.<part>".
EsValueId es_blueprint_build(EsGraph *graph, EsBlueprint blueprint, const char *name, EsValueId x);

// The same with the epsilon of a host's seeds (es_host_norm_epsilon).
EsValueId es_blueprint_build_with(EsGraph *graph, EsBlueprint blueprint, const char *name,
                                  EsValueId x, float norm_epsilon);

ES_EXTERN_C_END

#endif
