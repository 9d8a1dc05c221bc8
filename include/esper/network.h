// Grown networks for programs of your own: open the files that `esper fit` or `esper grow
// --keep-best` has written, and predict with data in memory.
//
// Inputs are given as they come, pixels 0..255 or columns as measured; the network normalises them
// itself. One thread at a time may use an EsNetwork; it has threads of its own, whose number does
// not change a bit of its results. A failing call returns its status and leaves a text
// (es_status_detail).
//
//     ES_TRY_GOTO(es_network_open("runs/first/networks/1", 0, &network));
//     const EsNetworkInfo *info = es_network_info(network);
//     ES_TRY_GOTO(es_network_predict(network, pixels, n, scores));
//     es_network_softmax(network, scores, n);
//     es_network_close(network);
//
// N inputs, C channels or columns, H, W height and width, K classes.
#ifndef ESPER_NETWORK_H
#define ESPER_NETWORK_H

#include <stdint.h>
#include <stdio.h>

#include "esper/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct EsNetwork EsNetwork;

// `path` is the folder with network.json and network.safetensors, one of these files, or a run
// folder, whose best network is taken. The files are not trusted: INPUT says what is wrong with
// them and where. n_threads 0 = one per processor.
ES_API EsStatus es_network_open(const char *path, int n_threads, EsNetwork **network);
ES_API void es_network_close(EsNetwork *network); // accepts NULL

// Texts and arrays live as long as the network.
typedef struct EsNetworkInfo {
    int is_rows;                     // 1: rows of columns; 0: images
    int n_channels, height, width;   // C, H, W; rows: columns, 1, 1
    int64_t n_inputs;                // numbers of one input, C H W
    int n_classes;                   // K
    const char *const *class_names;  // [K]
    const char *const *column_names; // [C]; NULL: images, or columns without names
    int64_t n_parameters;            // trainable numbers
    int n_seeds;                     // that were grown into the host
    const char *host;                // name of the host
    const char *data;                // name of the data it was trained on
    double validation_accuracy;      // percent; NaN = not known
    double test_accuracy;
} EsNetworkInfo;

ES_API const EsNetworkInfo *es_network_info(const EsNetwork *network);

// Logits [N][K] of inputs [N][C][H][W] or [N][C].
ES_API EsStatus es_network_predict(EsNetwork *network, const float *inputs, int64_t n,
                                   float *logits);

// The same for pixels in bytes; ARGUMENT for a network of rows.
ES_API EsStatus es_network_predict_bytes(EsNetwork *network, const uint8_t *pixels, int64_t n,
                                         float *logits);

// Logits [N][K] become probabilities, in place.
ES_API void es_network_softmax(const EsNetwork *network, float *logits, int64_t n);

// Writes network.json and network.safetensors into a folder, which is made where it is missing.
ES_API EsStatus es_network_save(const EsNetwork *network, const char *folder);

// Prints a line for each layer and seed: shape of the output, parameters.
ES_API void es_network_draw(const EsNetwork *network, FILE *stream);

// --- inputs from files ---

// Images, arrays and tables, a few at a time:
//   a PNG or JPEG file, or a folder of them with its sub-folders
//   .npy  whole or real numbers; images [N, H, W], [N, C, H, W] or [N, H, W, C]; rows [N, D]
//   .csv  rows; with a header columns are found by name, and others are left out
//   IDX   images of bytes
// Images of bytes are scaled and letter-boxed to the network's size; floats must have it.
typedef struct EsNetworkReader EsNetworkReader;

// The network is borrowed until close. INPUT says what is wrong with a file, and where.
ES_API EsStatus es_network_reader_open(const EsNetwork *network, const char *path,
                                       EsNetworkReader **reader);
ES_API void es_network_reader_close(EsNetworkReader *reader); // accepts NULL

// The next inputs, at most max_n and 256, ready for es_network_predict. *n is 0 at the end.
ES_API EsStatus es_network_reader_next(EsNetworkReader *reader, int64_t max_n, float *inputs,
                                       int64_t *n);

// Name of input i of the last call: "cat.png", "digits.npy[17]", "iris.csv:18" (the line).
ES_API const char *es_network_reader_name(const EsNetworkReader *reader, int64_t i);

// --- for other programs ---

typedef enum EsNetworkFormat {
    ES_NETWORK_ONNX,  // a file: ONNX, opset 17; input [N, C, H, W] or [N, C], output "logits"
    ES_NETWORK_C99,   // a folder: NAME.c and NAME.h, no allocation, nothing but libm
    ES_NETWORK_TORCH, // a file: a Python module that reads network.safetensors beside it
} EsNetworkFormat;

// Write the network; plain inputs are normalised inside. `name` is an identifier of C for C99 and
// NULL for the others.
ES_API EsStatus es_network_export(const EsNetwork *network, EsNetworkFormat format,
                                  const char *path, const char *name);

// How well the samples of a data set are predicted with floats and with 8 bits.
typedef struct EsNetworkInt8 {
    int64_t n_samples;
    double float_accuracy, int8_accuracy; // percent
} EsNetworkInt8;

// C99 with weights and activations in 8 bits. `data` is a data set as esper's commands take it: the
// first 512 validation samples give the scales, the first 2,000 the report. INPUT when the set does
// not fit the network.
ES_API EsStatus es_network_export_int8(EsNetwork *network, const char *folder, const char *name,
                                       const char *data, EsNetworkInt8 *report);

#ifdef __cplusplus
}
#endif

#endif
