// The memory of E networks: one slab per class, [E, P] parameters, [E, P] gradients, [E, S] state.
//
// A store is laid out by a graph; every graph that declares the same parameters and states in the
// same order can run on it (training and evaluation graphs of one network do).
//
// A *shared* store holds one network, [1, P], that all environments of a graph use, and G rows of
// gradients, [G, P]: environment e of a graph writes row e, and the optimiser sums them. A graph of
// any number of environments can run on it, so that acting and training share their parameters.
#ifndef ES_NETWORK_STORE_H
#define ES_NETWORK_STORE_H

#include "network/graph/graph.h"

ES_EXTERN_C_BEGIN

typedef struct EsStore {
    EsDevice *device;    // borrowed
    EsTensor parameters; // f32 [E, P]; shared [1, P]
    EsTensor gradients;  // f32 [E, P], same offsets; shared [G, P]
    EsTensor states;     // f32 [E, S]: running statistics; none in a shared store
    uint64_t layout;     // hash of names, shapes and offsets; 0 for a sized store
    int is_shared;
} EsStore;

EsStatus es_store_create(const EsGraph *graph, EsDevice *device, EsStore **store);

// A store for networks of different shapes: any graph whose parts are not larger can run on it. Its
// owner decides the layout (es_graph_seek_parameters).
EsStatus es_store_create_sized(EsDevice *device, int64_t n_envs, int64_t n_parameters,
                               int64_t n_states, EsStore **store);

// One set of parameters, gradients of n_gradients environments. The graph has no states.
EsStatus es_store_create_shared(const EsGraph *graph, EsDevice *device, int64_t n_gradients,
                                EsStore **store);

// Second weights for the graphs of a store: parameters and states of the same layout, no gradients,
// so that graphs without them alone can run on it (averaged weights, for evaluation).
EsStatus es_store_create_twin(const EsStore *store, EsStore **twin);
void es_store_destroy(EsStore *store);

// Fresh parameters and states for every environment, from (seed, episode[e]), in a shared store for
// the one network from (seed, episode[0]); gradients are cleared. Waits for the stream.
EsStatus es_store_initialise(EsStore *store, const EsGraph *graph, EsStream *stream, uint64_t seed,
                             const int32_t *episode);

// Fresh values for the parameters of `graph`, of one environment; the rest is left alone. Draws are
// keyed by (seed, episode, purpose GERMINATION, step), so that a seed does not depend on when
// others were made. Gradients there are cleared. Host memory alone; no ORTHOGONAL parameters.
void es_store_initialise_region(EsStore *store, const EsGraph *graph, int64_t env, uint64_t seed,
                                uint32_t episode, uint32_t step);

// The same in two halves: the values outside of any store, by any thread, into a region that begins
// with element `base` of an environment's parameters; and putting them in.
void es_graph_initial_values(const EsGraph *graph, uint64_t seed, uint32_t episode, uint32_t step,
                             int64_t base, float *region);
void es_store_set_region(EsStore *store, const EsGraph *graph, int64_t env, int64_t base,
                         const float *region);

// Do this graph's parameters and states lie where the store has them?
EsStatus es_store_check_weights(const EsStore *store, const EsGraph *graph);

// Can the graph run on the store? Its weights fit, and its gradients, of a shared one those of at
// most G environments.
EsStatus es_store_check(const EsStore *store, const EsGraph *graph);

// The tensor of a parameter, gradient or state value: [E, ...] with the slab's stride over
// environments, which for parameters of a shared store is 0.
EsTensor es_store_tensor(const EsStore *store, const EsGraph *graph, EsValueId value);

ES_EXTERN_C_END

#endif
