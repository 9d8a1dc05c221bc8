// Blueprints: the small networks that a seed can be, as fragments of a graph.
//
// A blueprint reads [E, N, C, H, W] and gives the same shape, at any resolution. Convolutional ones
// are x + norm(branch(x)): the branch ends in a group norm whose gamma starts at 0, with nothing
// after it, so a fresh seed is the identity and its first step already has a gradient under every
// way of blending. Convolutions have no bias; GN is a group norm.
//
//     EsValueId x = es_graph_seed_input(graph, h, mode);
//     EsValueId seed = es_blueprint_build(graph, ES_BLUEPRINT_CONV_LIGHT, "r0c0", x);
#ifndef ES_GROWTH_BLUEPRINT_H
#define ES_GROWTH_BLUEPRINT_H

#include "network/graph/graph_blend.h"

ES_EXTERN_C_BEGIN

// In the order of the policy's blueprint head: identifier, name, what it computes.
// clang-format off
#define ES_BLUEPRINT_LIST(X)                                                                       \
    X(NOOP,       "noop")       /* x */                                                            \
    X(CONV_LIGHT, "conv_light") /* x + GN(conv 3x3) */                                             \
    X(ATTENTION,  "attention")  /* x times a learned factor per image and channel */               \
    X(NORM,       "norm")       /* x + tanh(g) (GN(x) - x) */                                      \
    X(DEPTHWISE,  "depthwise")  /* x + GN(conv 1x1 of depthwise 3x3) */                            \
    X(BOTTLENECK, "bottleneck") /* x + GN(conv 1x1 of relu conv 3x3 of relu conv 1x1), narrow */   \
    X(CONV_SMALL, "conv_small") /* x + GN(conv 1x1) */                                             \
    X(CONV_HEAVY, "conv_heavy") /* x + GN(conv 3x3 of relu GN(conv 3x3)) */
// clang-format on

typedef enum EsBlueprint {
#define X(identifier, name) ES_BLUEPRINT_##identifier,
    ES_BLUEPRINT_LIST(X)
#undef X
        ES_BLUEPRINT_COUNT
} EsBlueprint;

const char *es_blueprint_name(EsBlueprint blueprint);

// ARGUMENT lists the names when there is none such.
EsStatus es_blueprint_parse(const char *name, EsBlueprint *blueprint);

// Groups of a norm over this many channels: one below 32 channels, so that a map of few values is
// never normalised to nothing; above, the most groups, a power of 2 up to 32, of 16 channels or
// more.
int es_blueprint_group_count(int64_t n_channels);

// Trainable numbers of a seed on n_channels channels.
int64_t es_blueprint_parameter_count(EsBlueprint blueprint, int64_t n_channels);

// Append the blueprint to the graph; its parameters are called "<name>.<layer>.<part>".
EsValueId es_blueprint_build(EsGraph *graph, EsBlueprint blueprint, const char *name, EsValueId x);

ES_EXTERN_C_END

#endif
