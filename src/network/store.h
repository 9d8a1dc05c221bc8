// The memory of E networks: one slab per class, [E, P] parameters, [E, P] gradients, [E, S] state.
//
// A store is laid out by a graph; every graph that declares the same parameters and states in the
// same order can run on it (training and evaluation graphs of one network do).
#ifndef ES_NETWORK_STORE_H
#define ES_NETWORK_STORE_H

#include "network/graph.h"

ES_EXTERN_C_BEGIN

typedef struct EsStore {
    EsDevice *device;    // borrowed
    EsTensor parameters; // f32 [E, P]
    EsTensor gradients;  // f32 [E, P], same offsets
    EsTensor states;     // f32 [E, S]: running statistics
    uint64_t layout;     // hash of names, shapes and offsets; 0 for a sized store
} EsStore;

EsStatus es_store_create(const EsGraph *graph, EsDevice *device, EsStore **store);

// A store for networks of different shapes: any graph whose parts are not larger can run on it.
// What lies where is up to its owner (es_graph_seek_parameters).
EsStatus es_store_create_sized(EsDevice *device, int64_t n_envs, int64_t n_parameters,
                               int64_t n_states, EsStore **store);
void es_store_destroy(EsStore *store);

// Fresh parameters and states for every environment, from (seed, episode[e]); gradients are
// cleared. Waits for the stream.
EsStatus es_store_initialise(EsStore *store, const EsGraph *graph, EsStream *stream, uint64_t seed,
                             const int32_t *episode);

// Fresh values for the parameters of `graph` at offsets from `first` on, of one environment; the
// rest is left alone. Draws are keyed by (seed, episode, purpose GERMINATION, step), so that a seed
// does not depend on when others were made. Gradients there are cleared. Host memory alone.
void es_store_initialise_region(EsStore *store, const EsGraph *graph, int64_t env, int64_t first,
                                uint64_t seed, uint32_t episode, uint32_t step);

// Does this graph's layout fit the store?
EsStatus es_store_check(const EsStore *store, const EsGraph *graph);

// The tensor of a parameter, gradient or state value: [E, ...] with the slab's stride over
// environments.
EsTensor es_store_tensor(const EsStore *store, const EsGraph *graph, EsValueId value);

ES_EXTERN_C_END

#endif
