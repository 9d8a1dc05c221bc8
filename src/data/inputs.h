// Inputs for a network that is trained already: images, arrays and tables without labels, read a
// few at a time, so that a folder of any size takes little memory.
//
//   a PNG or JPEG file, or a folder of them with its sub-folders, in the order of their names
//   .npy   whole or real numbers; images [N, H, W], [N, C, H, W], [N, H, W, C], or one of them;
//          rows [N, D]
//   .csv   rows; with a header columns are found by name, and others are left out
//   IDX    images of bytes, as MNIST has them
//
// Images of bytes are fitted to the network's square as those of its training were (data/image.h);
// other numbers are pixels 0..255, floats 0..1 where all of a file are, and must have its size.
// Files are not trusted: INPUT names the fault and its place.
//
//     EsInputReader *reader; ES_TRY(es_input_reader_open("photos", &shape, &reader));
//     int64_t n; ES_TRY(es_input_reader_next(reader, 64, inputs, &n)); // 0: no more
#ifndef ES_DATA_INPUTS_H
#define ES_DATA_INPUTS_H

#include <stdint.h>

#include "base/macros.h"
#include "esper/status.h"

ES_EXTERN_C_BEGIN

#define ES_INPUTS_MAX 256 // of one call

// Shape of the network's inputs; texts are borrowed while the reader is open.
typedef struct EsInputShape {
    int is_rows;
    int n_channels;                  // or columns
    int size;                        // height and width; rows: 1
    const char *const *column_names; // nullable [n_channels]
} EsInputShape;

typedef struct EsInputReader EsInputReader;

EsStatus es_input_reader_open(const char *path, const EsInputShape *shape, EsInputReader **reader);
void es_input_reader_close(EsInputReader *reader);

// The next inputs, at most max_n <= ES_INPUTS_MAX of them: plain numbers [N, C, H, W] or [N, C]. *n
// is 0 at the end.
EsStatus es_input_reader_next(EsInputReader *reader, int64_t max_n, float *inputs, int64_t *n);

// Name of input i of the last call: "cat.png", "digits.npy[17]", "iris.csv:18" (the line). Valid
// until the next call.
const char *es_input_reader_name(const EsInputReader *reader, int64_t i);

ES_EXTERN_C_END

#endif
