// Images of any size: decoded from PNG and JPEG files, fitted to the square that a network takes,
// written as PNG.
//
// Fitting is one rule for training and prediction: the longer side is scaled to the square's, the
// shorter one in proportion, the image is put in the middle, and the bars beside it take the mean
// colour of its edge. Shrinking averages over the pixels that fall on one (weights of a triangle),
// enlarging is bilinear. An image that has the size already keeps its bytes.
//
//     EsImage image;
//     ES_TRY(es_image_load("cats/1.jpg", &image));
//     EsStatus status = es_image_fit(&image, 32, 3, planes);
//     es_image_destroy(&image);
#ifndef ES_DATA_IMAGE_H
#define ES_DATA_IMAGE_H

#include <stddef.h>

#include "base/macros.h"
#include "esper/status.h"

ES_EXTERN_C_BEGIN

#define ES_IMAGE_MAX_SIDE     20000
#define ES_IMAGE_MAX_PIXELS   (1 << 25)
#define ES_IMAGE_DEFAULT_SIDE 64   // the most that is chosen where no size is asked for
#define ES_IMAGE_MAX_FIT      1024 // largest square that images are fitted to

typedef struct EsImage {
    int width, height;
    int n_channels;  // 1 grey, 3 red, green, blue; up to 4 in arrays
    uint8_t *pixels; // owned     [height, width, n_channels]; NULL: the header alone was read
} EsImage;

// Decodes the bytes of a PNG or JPEG file: grey images have one channel, all others three;
// transparent parts lie over white, 16 bits become 8. `name` is for messages. INPUT when the bytes
// are damaged or of another format, UNSUPPORTED without the library. On failure *image is empty.
EsStatus es_image_decode(const char *name, const void *bytes, size_t n_bytes, EsImage *image);

// Size and channels alone, without the pixels.
EsStatus es_image_decode_header(const char *name, const void *bytes, size_t n_bytes,
                                EsImage *image);

EsStatus es_image_load(const char *path, EsImage *image);
EsStatus es_image_load_header(const char *path, EsImage *image);

void es_image_destroy(EsImage *image);

// Fit an image into planes u8 [n_channels, size, size]. Between grey and colour it converts:
// grey = (299 red + 587 green + 114 blue) / 1000; other numbers of channels must be equal.
EsStatus es_image_fit(const EsImage *image, int size, int n_channels, uint8_t *planes);

// Write an image of 1 or 3 channels as a PNG file.
EsStatus es_image_save(const EsImage *image, const char *path);

// Returns whether a file of this name is read as an image: .png, .jpg, .jpeg in any case.
int es_image_is_name(const char *name);

ES_EXTERN_C_END

#endif
