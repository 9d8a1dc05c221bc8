// Grown networks for other programs: ONNX, C99, PyTorch.
//
// All three are written from one list of layers, so that they agree on the network. They take plain
// inputs (pixels 0..255, columns as measured) and normalise inside.
//
//     ES_TRY(es_grown_export_onnx(network, "network.onnx"));
//     ES_TRY(es_grown_export_c(network, &(EsExportC){.folder = "out", .name = "network"}));
#ifndef ES_FIT_NETWORK_EXPORT_H
#define ES_FIT_NETWORK_EXPORT_H

#include "fit/grown_network.h"

ES_EXTERN_C_BEGIN

// --- layers ---

typedef enum EsExportKind {
    ES_EXPORT_CONV,          // zero padding, stride 1: weight [O][I][K][K]
    ES_EXPORT_DEPTHWISE,     // weight [C][K][K]
    ES_EXPORT_BATCHNORM,     // (x - mean) / sqrt(variance + epsilon) gamma + beta
    ES_EXPORT_GROUPNORM,     // the same with the statistics of the group
    ES_EXPORT_RELU,          //
    ES_EXPORT_TANH,          //
    ES_EXPORT_SIGMOID,       //
    ES_EXPORT_MAXPOOL,       // 2 x 2, an odd last row or column is left out
    ES_EXPORT_GLOBAL_MEAN,   // [C][H][W] to [C]
    ES_EXPORT_LINEAR,        // weight [O][I], bias [O]
    ES_EXPORT_ADD,           // in[0] + in[1]
    ES_EXPORT_MIX,           // in[0] + share (in[1] - in[0]); one with a name learns its share
    ES_EXPORT_GATED_MIX,     // the same with share times in[2], one number
    ES_EXPORT_MULTIPLY,      // in[0] (1 + share tanh(in[1] - in[0]))
    ES_EXPORT_CHANNEL_SCALE, // in[0] times in[1], a number per channel
} EsExportKind;

// One layer. Its output is map 1 + its place in the list; map 0 is the normalised input.
typedef struct EsExportLayer {
    EsExportKind kind;
    int in[3]; // maps, -1: none
    int n_channels, height, width;
    int n_inputs; // channels or features of in[0]
    int kernel, n_groups;
    float epsilon, share;
    // borrowed from the network; names are those of network.safetensors without the part's name
    const float *weight, *bias; // of norms gamma and beta; NULL: there is none
    const float *mean, *variance;
    // of the layer: weight is name.weight, or name.gamma; share is tanh(name.mix)
    char name[ES_NAME_BYTES];
} EsExportLayer;

typedef struct EsExportList {
    EsExportLayer *layers; // owned
    int n_layers;
    int output; // map of the logits
} EsExportList;

// UNSUPPORTED names an operation that exports do not know.
EsStatus es_export_list_create(const EsGrownNetwork *network, EsExportList *list);
void es_export_list_destroy(EsExportList *list);

// Shape and numbers of a map.
typedef struct EsExportShape {
    int n_channels, height, width;
} EsExportShape;
EsExportShape es_export_map_shape(const EsGrownNetwork *network, const EsExportList *list, int map);
int64_t es_export_map_count(const EsGrownNetwork *network, const EsExportList *list, int map);

// --- files ---

// Opset 17; input float32 [N, C, H, W], rows [N, C], with any N; output "logits" [N, K].
EsStatus es_grown_export_onnx(const EsGrownNetwork *network, const char *path);

// A module that reads network.safetensors by itself and needs torch alone.
EsStatus es_grown_export_torch(const EsGrownNetwork *network, const char *path);

// FOLDER/NAME.c and NAME.h; the folder is made where it is missing.
typedef struct EsExportC {
    const char *folder;
    const char *name; // an identifier of C
    // weights and activations in 8 bits, with scales from these samples; NULL: floats
    const struct EsInt8Samples *int8;
    double float_accuracy, int8_accuracy; // filled in: percent of the samples
} EsExportC;
EsStatus es_grown_export_c(const EsGrownNetwork *network, EsExportC *options);

ES_EXTERN_C_END

#endif
