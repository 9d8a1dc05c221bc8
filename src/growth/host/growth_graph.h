// The graphs of hosts with seeds: one per topology, all on one store.
//
// A topology says which blueprint each slot holds. Parameters lie at fixed places of an
// environment's part of the slab: the host's first, then one region per slot, gate network first,
// as large as the largest blueprint needs. A slot's blending (alpha, mode) is an input of the
// graph, so a seed's life from TRAINING to FOSSILIZED runs on one graph.
//
// E environments, N images of a batch.
#ifndef ES_GROWTH_GROWTH_GRAPH_H
#define ES_GROWTH_GROWTH_GRAPH_H

#include "data/dataset.h"
#include "growth/host/blueprint.h"
#include "growth/host/host.h"
#include "growth/rules/recipe.h"

ES_EXTERN_C_BEGIN

// --- where things lie ---

typedef struct EsGrowthLayout {
    int64_t n_host_weights;       // trainable numbers of the host
    int64_t n_host_parameters;    // slab elements, padding included
    int64_t region[ES_SLOTS_MAX]; // first element of a slot: the gate network
    int64_t seed[ES_SLOTS_MAX];   // first element of its seed
    int64_t region_end[ES_SLOTS_MAX];
    int64_t n_parameters, n_states; // of an environment in all
} EsGrowthLayout;

// Parts of an environment's parameters that begin at different moments: the host, then of each slot
// the gate network and the seed.
#define ES_GROWTH_HOST           0
#define ES_GROWTH_GATE(slot)     (1 + 2 * (slot))
#define ES_GROWTH_SEED(slot)     (2 + 2 * (slot))
#define ES_GROWTH_PARTS(n_slots) (1 + 2 * (n_slots))

// Properties common to all graphs of a run; everything is borrowed.
typedef struct EsGrowthModel {
    EsHostSpec host;
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots;
    int64_t n_envs;
    uint64_t seed;    // of the run
    EsRecipe recipe;  // labels and augmentation in training
    int64_t n_shares; // that share each pass over them; 0 = 1
    const EsDataset *dataset;
    EsGrowthLayout layout; // filled by es_growth_layout_create
} EsGrowthModel;

EsStatus es_growth_layout_create(EsGrowthModel *model);

// --- the data set as graphs see it ---

// Inputs of a data set: u8 images [M, C, H, W], or f32 rows as images of one pixel [M, D, 1, 1].
typedef struct EsGrowthInputs {
    EsDtype dtype;
    int64_t dims[4];
    const void *values; // borrowed from the data set
} EsGrowthInputs;
EsGrowthInputs es_growth_inputs(const EsDataset *dataset);

// Options to gather batches with: augmentation by the recipe, NULL: none. Rows have none either.
EsGatherOptions es_growth_gather(const EsDataset *dataset, const EsRecipe *recipe, uint64_t seed);

// INPUT when the host does not take the data set.
EsStatus es_growth_check_dataset(const EsHostSpec *host, const EsDataset *dataset);

// Assignment of training images to batches.
EsSampleOrder es_growth_order(const EsGrowthModel *model);

// The parameter tensors of one part of a network, in the order in which its builder declares them
// (host: per block conv.weight, norm.gamma, norm.beta, then head.weight, head.bias).
#define ES_SPANS_MAX (3 * ES_HOST_BLOCKS_MAX + 2)
typedef struct EsSpans {
    int n;
    int64_t offset[ES_SPANS_MAX]; // elements from the start of an environment's parameters
    int64_t length[ES_SPANS_MAX]; // trainable numbers
} EsSpans;
EsStatus es_growth_host_spans(const EsGrowthModel *model, EsSpans *spans);
// Running statistics, mean and variance block by block; elements from the start of its states.
EsStatus es_growth_host_states(const EsGrowthModel *model, EsSpans *spans);
EsStatus es_growth_seed_spans(const EsGrowthModel *model, int slot, EsBlueprint blueprint,
                              EsSpans *spans);
EsStatus es_growth_gate_spans(const EsGrowthModel *model, int slot, EsSpans *spans);

// --- graphs ---

#define ES_NO_SEED (-1)

// Blueprint in each slot. Plain bytes: topologies are compared with memcmp.
typedef struct EsTopology {
    int8_t blueprint[ES_SLOTS_MAX]; // EsBlueprint or ES_NO_SEED
    int8_t has_gate[ES_SLOTS_MAX];
} EsTopology;

EsTopology es_topology_empty(void);

typedef struct EsGrowthGraph {
    EsGraph *graph; // owned
    EsValueId images, labels, episode;
    EsValueId step;                                    // training: shared i32 [1], counts batches
    EsValueId index;                                   // evaluation: i32 [E, N]
    EsValueId alpha[ES_SLOTS_MAX], mode[ES_SLOTS_MAX]; // f32, i32 [E]; ES_NO_VALUE without a seed
    EsLoss loss;
    int64_t batch;
} EsGrowthGraph;

EsStatus es_growth_graph_create(const EsGrowthModel *model, const EsTopology *topology,
                                int64_t batch, int is_training, EsGrowthGraph *growth_graph);
void es_growth_graph_destroy(EsGrowthGraph *growth_graph);

ES_EXTERN_C_END

#endif
