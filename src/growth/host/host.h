// Hosts: the small networks that grow. A host for images is blocks of convolution (no bias), batch
// norm, ReLU and 2x2 max-pooling, then the global average and a linear layer. A dense host takes
// rows of D numbers as images of D channels and one pixel: its blocks are layers, 1x1 convolutions
// without a pool, and the average is that of the one pixel. Without layers it is a linear
// classifier.
//
// Presets are a family: channels double from block to block, the kernel is the same, the first
// blocks end in a pool. Other hosts describe each block (host_file.h reads them from a file). Ask
// es_host_block, which knows both.
#ifndef ES_GROWTH_HOST_H
#define ES_GROWTH_HOST_H

#include "growth/rules/action_rules.h"
#include "network/graph/graph.h"

ES_EXTERN_C_BEGIN

#define ES_HOST_BLOCKS_MAX   12
#define ES_HOST_CHANNELS_MAX 4096 // of a block that is described

typedef enum EsHostKind {
    ES_HOST_CNN,   // 2 to ES_HOST_BLOCKS_MAX blocks
    ES_HOST_DENSE, // 0 to ES_HOST_BLOCKS_MAX layers; image_channels columns, image_size 1
} EsHostKind;

// Places for seeds in a block.
enum { ES_HOST_BEFORE_POOL = 1, ES_HOST_AFTER_POOL = 2 };

typedef struct EsHostBlock {
    int n_channels;
    int kernel;   // 1, 3, 5 or 7
    int has_pool; // 2x2 max-pooling, which halves height and width
    int places;   // ES_HOST_*_POOL, as bits; a block without a pool has no place after it
} EsHostBlock;

typedef struct EsHostSpec {
    const char *name;    // borrowed
    const char *dataset; // name for es_dataset_open, borrowed
    int image_channels;
    int image_size; // height and width
    int base;       // channels of the first block
    int kernel;
    int n_blocks;
    int n_pools; // this many blocks, from the first on, end in a pool
    int n_classes;
    int batch; // usual batch size
    // blocks that are described one by one; 0 channels: as base, kernel and n_pools say
    EsHostBlock blocks[ES_HOST_BLOCKS_MAX];
    char *text;         // allocated by es_host_load (es_host_unload), NULL in presets
    int states_images;  // its file says image_channels or image_size
    int states_classes; // its file says classes
    EsHostKind kind;
} EsHostSpec;

// A preset by name ("cifar_baseline", "tiny", ...); ARGUMENT lists the names when there is none.
EsStatus es_host_preset(const char *name, EsHostSpec *spec);

// Number of presets, and their specs in order, for --help.
int es_host_preset_count(void);
const EsHostSpec *es_host_preset_at(int i);

// Block i of the host, whichever way it is described; places that it cannot have are left out.
EsHostBlock es_host_block(const EsHostSpec *spec, int i);

// Can this host be built? Blocks, channels, kernels, pools against the image size.
EsStatus es_host_check(const EsHostSpec *spec);

// Trainable numbers of a host that can be built: convolutions, norms, the linear layer.
int64_t es_host_parameter_count(const EsHostSpec *spec);

// Floating-point operations of one image through the host: two for each multiplication of a
// convolution or linear layer; norms, activations and pools are left out.
double es_host_flops(const EsHostSpec *spec);

// Added to the variance in the norms of this host's seeds, by its kind.
float es_host_norm_epsilon(const EsHostSpec *spec);

// Append the host to the graph: images [E, N, C, H, W] to logits [E, N, classes].
EsValueId es_host_build(EsGraph *graph, const EsHostSpec *spec, EsValueId images, int is_training);

// A place in the host where a seed can be put: `hook` gets the value there, and its result takes
// the value's place. is_after_pool tells the two places of a block apart; a block without a pool
// has the first alone.
typedef EsValueId (*EsHostHook)(void *context, EsGraph *graph, int block, int is_after_pool,
                                EsValueId x);

// The same with a hook at every place, in the order in which they run.
EsValueId es_host_build_with(EsGraph *graph, const EsHostSpec *spec, EsValueId images,
                             int is_training, EsHostHook hook, void *context);

// --- slots ---

// Slots: the places of a host where seeds can be put, and the seeds that fit there.
//
// A slot is called r<row>c<column>: the column is the block, row 0 lies between its ReLU and its
// pool, row 1 after the pool. Lists of slots are row-major, which is the order of actions and
// observations; they run in another, block by block (`order`).
//
//     EsSlot slots[ES_SLOTS_MAX]; int n_slots;
//     ES_TRY(es_slots_parse(&host, "r0c0,r0c1,r0c2", slots, &n_slots));

typedef struct EsSlot {
    char name[28]; // room for any two numbers
    int row, column;
    int order; // position among the slots of the list, as they run
    int64_t n_channels;
} EsSlot;

// All slots a host has, row by row. Returns their number, at most 2 * ES_SLOTS_MAX.
int es_slots_of(const EsHostSpec *host, EsSlot slots[2 * ES_SLOTS_MAX]);

// The slots named in a list separated by commas, "all" for every one, sorted row by row. ARGUMENT
// for one that the host does not have (naming those it has), that comes twice, or more than
// ES_SLOTS_MAX.
EsStatus es_slots_parse(const EsHostSpec *host, const char *names, EsSlot slots[ES_SLOTS_MAX],
                        int *n_slots);

// Blueprints that seeds in the host's slots may have, as bits of EsBlueprintId: noop, and those of
// its kind.
int32_t es_slots_blueprints(const EsHostSpec *host);

// The slot at a place of the host, or -1.
int es_slot_at(const EsSlot *slots, int n_slots, int block, int is_after_pool);

ES_EXTERN_C_END

#endif
