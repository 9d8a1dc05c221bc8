// Builders for networks that grow: a slot's input from the host and the blending of its seed
// (kernels/kernel_list.h), and the layers of seeds.
//
// alpha f32 [E] and mode i32 [E] (EsBlendMode) are inputs of the graph: a lifecycle moves a seed
// from stage to stage by writing them, and the plan stays as it is.
//
//     EsValueId x = es_graph_seed_input(graph, h, mode);
//     EsValueId seed = es_graph_conv2d(graph, "seed", x, n_channels, 3, 0);
//     EsValueId gate = es_graph_gate(graph, "gate", x);
//     h = es_graph_blend(graph, h, seed, gate, alpha, mode);
#ifndef ES_NETWORK_GRAPH_BLEND_H
#define ES_NETWORK_GRAPH_BLEND_H

#include "network/graph/graph.h"

ES_EXTERN_C_BEGIN

// --- a slot ---

// Input of a seed: h itself, an activation; the gradient passes back to h from the blending modes
// on. Costs nothing forward.
EsValueId es_graph_seed_input(EsGraph *graph, EsValueId h, EsValueId mode);

// A score in (0, 1) per image, [E, N]: global average, linear to max(8, C/4), ReLU, linear to 1,
// sigmoid. Parameters as es_graph_gate_parameter_count says.
EsValueId es_graph_gate(EsGraph *graph, const char *name, EsValueId x);
int64_t es_graph_gate_parameter_count(int64_t n_channels);

// The slot's output: h and seed of one shape [E, N, ...], gate [E, N] or ES_NO_VALUE.
EsValueId es_graph_blend(EsGraph *graph, EsValueId h, EsValueId seed, EsValueId gate,
                         EsValueId alpha, EsValueId mode);

// --- parts of seeds ---

// x [E, N, C, H, W] times w [E, N, C].
EsValueId es_graph_channel_scale(EsGraph *graph, EsValueId x, EsValueId w);

// x + tanh(g) (n - x) with the parameter "<name>.mix", one number per environment that starts at 0.
EsValueId es_graph_norm_mix(EsGraph *graph, const char *name, EsValueId x, EsValueId n);

// x times a factor per image and channel, sigmoid(W2 relu(W1 z) + b2) of the channel averages z; W1
// to max(1, C/4) without bias; W2 starts at 0 and b2 at 3, so every factor starts at 0.953.
EsValueId es_graph_squeeze_excite(EsGraph *graph, const char *name, EsValueId x);

ES_EXTERN_C_END

#endif
