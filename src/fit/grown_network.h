// A grown network by itself: taken out of the growth that made it, kept in two files, run on data.
//
// The network is a host with the seeds that take part in its output, one set of weights, and all
// that its inputs and outputs need: sizes, normalisation, names of classes. Inputs are given as
// they come (pixels 0..255, columns as measured); the network normalises them itself.
//
//     EsGrownNetwork *network; ES_TRY(es_grown_network_load("runs/a/networks/1", cpu, &network));
//     ES_TRY(es_grown_network_predict(network, pool, ES_INPUT_BYTES, images, n, logits));
//     es_grown_network_destroy(network);
//
// One thread at a time may use a network; prediction shares its work out over the pool. An input's
// logits depend neither on the number of threads nor on the other inputs.
//
// N inputs, C channels or columns, H, W height and width, K classes.
#ifndef ES_FIT_GROWN_NETWORK_H
#define ES_FIT_GROWN_NETWORK_H

#include "base/checksum.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "growth/engine/growth.h"
#include "network/store.h"

ES_EXTERN_C_BEGIN

// Limits of a network that is not trusted yet.
#define ES_NETWORK_SIDE_MAX   1024
#define ES_NETWORK_MAP_MAX    (1 << 21) // numbers of the largest map of an image
#define ES_NETWORK_NAME_BYTES 1024      // of a class, a column, a host

// --- its parts ---

typedef enum EsInputKind { ES_INPUT_IMAGES, ES_INPUT_ROWS } EsInputKind;

typedef struct EsGrownSeed {
    EsSlot slot; // name, row, column and channels; `order` is unused
    EsBlueprint blueprint;
    int style;   // of ES_STYLE_LIST: ramp and algorithm
    float alpha; // share of the seed, above 0
} EsGrownSeed;

// Structure of a network, without its weights. Texts and arrays are borrowed; a network has its own
// copies.
typedef struct EsGrownSpec {
    EsHostSpec host; // rows: image_channels columns, image_size 1
    EsInputKind kind;
    const float *mean, *std;         // [C]: images of pixel / 255, rows of the column
    const char *const *column_names; // rows [C], nullable
    const char *const *class_names;  // [K]
    EsGrownSeed seeds[ES_SLOTS_MAX]; // as they run
    int n_seeds;
    float norm_epsilon; // of the seeds' norms; 0 = that of the host, as in networks that grow
} EsGrownSpec;

// Origin of a network, for its reader; "" and NaN where it is not known.
typedef struct EsGrownOrigin {
    char version[32], command[64]; // of Esper
    char data[1024], data_sha256[ES_SHA256_TEXT_BYTES];
    char policy[1024];
    int64_t seed, episode;
    double validation_accuracy, test_accuracy; // percent
} EsGrownOrigin;

// An evaluation graph of the network for one batch size, on its store.
typedef struct EsGrownGraph {
    EsGraph *graph; // owned
    int64_t batch;
    EsValueId input, logits; // f32 [1, N, C, H, W], normalised; [1, N, K], kept
    EsValueId alpha[ES_SLOTS_MAX], mode[ES_SLOTS_MAX]; // by seed
} EsGrownGraph;

typedef struct EsGrownEngine EsGrownEngine;

typedef struct EsGrownNetwork {
    EsGrownSpec spec;      // owned copies
    EsGrownOrigin origin;  // free to be filled in
    int64_t n_parameters;  // trainable numbers
    EsGrownGraph single;   // owned: of one input; names and places of weights, and for exports
    EsDevice *device;      // borrowed, a CPU
    EsStore *store;        // owned: weights and running statistics
    EsGrownEngine *engine; // owned: plans and workers; NULL until something is predicted
} EsGrownNetwork;

// --- life ---

// A network with weights and statistics of 0. ARGUMENT when there can be none such. The device,
// here and below, is a CPU that holds the weights; it is borrowed until the network is destroyed.
EsStatus es_grown_network_create(const EsGrownSpec *spec, EsDevice *device,
                                 EsGrownNetwork **network);

// The same for a description that is not trusted: also ARGUMENT, before memory is taken for it,
// when the network has more than `n_numbers` weights and statistics.
EsStatus es_grown_network_create_within(const EsGrownSpec *spec, int64_t n_numbers,
                                        EsDevice *device, EsGrownNetwork **network);
void es_grown_network_destroy(EsGrownNetwork *network);

// The host of one environment as it was last measured or decided on, with the seeds that change its
// output: es_growth_snapshot says which moment that is. Waits for a GPU.
EsStatus es_grown_network_take(EsGrowth *growth, int64_t env, EsDevice *device,
                               EsGrownNetwork **network);

// The seeds of that network alone, added to those of `spec` in the order in which they run;
// *topology has them by slots of the growth.
void es_grown_seeds_list(const EsGrowth *growth, int64_t env, EsGrownSpec *spec,
                         EsTopology *topology);

// --- files (docs/networks.md) ---

#define ES_NETWORK_TENSORS_FILE "network.safetensors"
#define ES_NETWORK_BEFORE_FILE  "network.before.safetensors" // while both are being replaced
#define ES_NETWORK_JSON_FILE    "network.json"
// confusions of the network, written by network_report.h; may be missing
#define ES_NETWORK_CONFUSION_FILE "confusion.json"
// of that file; more, of thousands of classes, is not written: viewers read it on every update
#define ES_NETWORK_CONFUSION_BYTES_MAX (4 << 20)

// Writes network.safetensors and network.json into a folder that exists, in place of those that are
// there: one that is killed meanwhile leaves the network before.
EsStatus es_grown_network_save(const EsGrownNetwork *network, const char *folder);

// The same in two steps, of which another thread may take the second: a copy of both files in
// memory, to be destroyed by the caller, and their writing.
EsStatus es_grown_network_hold(const EsGrownNetwork *network, const char *folder,
                               EsHeldFiles **files);
EsStatus es_grown_network_replace(const char *folder, const EsHeldFiles *files);

// Writes both files as they are, into a folder that has no network: a checkpoint's.
EsStatus es_grown_network_write(const EsGrownNetwork *network, const char *folder);

// The hash of its tensors, by which files that belong to it know it.
EsStatus es_grown_network_hash(const EsGrownNetwork *network, char hash[ES_SHA256_TEXT_BYTES]);

// `path` is the folder, one of the two files, or a run folder, whose best network is taken. The
// files are not trusted: INPUT names the entry that is missing, out of range or does not fit.
EsStatus es_grown_network_load(const char *path, EsDevice *device, EsGrownNetwork **network);

// --- use ---

typedef enum EsInputForm {
    ES_INPUT_BYTES,     // uint8: pixels; images alone
    ES_INPUT_PLAIN,     // float: pixels 0..255, or columns as measured
    ES_INPUT_NORMALISED // float: normalised already, as rows of a data set are
} EsInputForm;

// Logits f32 [N, K] of inputs [N, C, H, W] or [N, C]. The pool is borrowed during the call, NULL:
// the calling thread alone. Memory is allocated at the first call, and when the pool is larger.
EsStatus es_grown_network_predict(EsGrownNetwork *network, EsThreadPool *pool, EsInputForm form,
                                  const void *inputs, int64_t n_inputs, float *logits);

// Probabilities from logits [N, K], in place.
void es_grown_network_softmax(float *logits, int64_t n_inputs, int n_classes);

// Numbers of one input: C H W, or C.
int64_t es_grown_network_input_count(const EsGrownNetwork *network);

// Normalised numbers are (x - centre[c]) scale[c] of plain ones.
void es_grown_network_normaliser(const EsGrownNetwork *network, int channel, float *centre,
                                 float *scale);

// EsBlendMode and EsAlgorithm of a seed.
int es_grown_seed_mode(const EsGrownSeed *seed);
int es_grown_seed_algorithm(const EsGrownSeed *seed);
const char *es_grown_style_name(int style); // "SIGMOID_ADD"

// Weights of a parameter or state of network->single, contiguous.
const float *es_grown_network_weights(const EsGrownNetwork *network, EsValueId value);

ES_EXTERN_C_END

#endif
