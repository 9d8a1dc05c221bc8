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
    uint64_t layout;     // hash of names, shapes and offsets
} EsStore;

EsStatus es_store_create(const EsGraph *graph, EsDevice *device, EsStore **store);
void es_store_destroy(EsStore *store);

// Fresh parameters and states for every environment, from (seed, episode[e]); gradients are
// cleared. Waits for the stream.
EsStatus es_store_initialise(EsStore *store, const EsGraph *graph, EsStream *stream, uint64_t seed,
                             const int32_t *episode);

// Does this graph's layout fit the store?
EsStatus es_store_check(const EsStore *store, const EsGraph *graph);

// The tensor of a parameter, gradient or state value: [E, ...] with the slab's stride over
// environments.
EsTensor es_store_tensor(const EsStore *store, const EsGraph *graph, EsValueId value);

ES_EXTERN_C_END

#endif
