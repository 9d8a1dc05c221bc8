// Hosts: the small convolutional networks that grow. A host is blocks of convolution (no bias),
// batch norm, ReLU and 2x2 max-pooling, then the global average and a linear layer; channels double
// from block to block.
#ifndef ES_GROWTH_HOST_H
#define ES_GROWTH_HOST_H

#include "network/graph.h"

ES_EXTERN_C_BEGIN

typedef struct EsHostSpec {
    const char *name;    // borrowed
    const char *dataset; // name for es_dataset_create, borrowed
    int image_channels;
    int image_size; // height and width
    int base;       // channels of the first block
    int kernel;
    int n_blocks;
    int n_pools; // the first so many blocks end in a pool
    int n_classes;
    int batch; // usual batch size
} EsHostSpec;

// A preset by name ("cifar_baseline", "tiny", ...); ARGUMENT lists the names when there is none.
EsStatus es_host_preset(const char *name, EsHostSpec *spec);

// Number of presets, and their specs in order, for --help.
int es_host_preset_count(void);
const EsHostSpec *es_host_preset_at(int i);

// Can this host be built? Blocks, channels, kernel, pools against the image size.
EsStatus es_host_check(const EsHostSpec *spec);

// Append the host to the graph: images [E, N, C, H, W] to logits [E, N, classes].
EsValueId es_host_build(EsGraph *graph, const EsHostSpec *spec, EsValueId images, int is_training);

// A place in the host where a seed can be put: what flows there is handed to `hook`, and what it
// returns flows on. is_after_pool tells the two places of a block apart; a block without a pool has
// the first alone.
typedef EsValueId (*EsHostHook)(void *context, EsGraph *graph, int block, int is_after_pool,
                                EsValueId x);

// The same with a hook at every place, in the order in which they run.
EsValueId es_host_build_with(EsGraph *graph, const EsHostSpec *spec, EsValueId images,
                             int is_training, EsHostHook hook, void *context);

ES_EXTERN_C_END

#endif
