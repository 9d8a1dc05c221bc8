// Fits images of any size into the square that a network takes: scaling, conversion between grey
// and colour, bars.
#include "data/image.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/memory.h"

#define MAX_FILE_BYTES ((size_t)256 << 20)

void es_image_destroy(EsImage *image) {
    es_release(image->pixels);
    memset(image, 0, sizeof *image);
}

static EsStatus load(const char *path, int is_header, EsImage *image) {
    void *bytes = NULL;
    size_t n_bytes = 0;
    memset(image, 0, sizeof *image);
    ES_TRY(es_file_read_all(path, MAX_FILE_BYTES, &bytes, &n_bytes));
    EsStatus status = is_header ? es_image_decode_header(path, bytes, n_bytes, image)
                                : es_image_decode(path, bytes, n_bytes, image);
    es_release(bytes);
    return status;
}

EsStatus es_image_load(const char *path, EsImage *image) { return load(path, 0, image); }

EsStatus es_image_load_header(const char *path, EsImage *image) { return load(path, 1, image); }

int es_image_is_name(const char *name) {
    const char *end = strrchr(name, '.');
    return end != NULL && (strcasecmp(end, ".png") == 0 || strcasecmp(end, ".jpg") == 0 ||
                           strcasecmp(end, ".jpeg") == 0);
}

// --- scaling ---

// Weights of the source pixels that one output pixel is made of.
typedef struct Taps {
    int first, n;
    float *weight; // [n]
} Taps;

// The taps of all n_out pixels of an axis; *weights is released by the caller.
static EsStatus make_taps(int n_in, int n_out, Taps *taps, float **weights) {
    double scale = (double)n_in / n_out, reach = scale > 1.0 ? scale : 1.0;
    size_t n_most = (size_t)(2.0 * reach) + 3;
    ES_TRY(es_allocate((size_t)n_out * n_most * sizeof **weights, (void **)weights));
    for (int i = 0; i < n_out; i++) {
        double centre = (i + 0.5) * scale;
        int first = (int)floor(centre - reach), last = (int)ceil(centre + reach);
        first = ES_MAX(first, 0);
        last = ES_MIN(last, n_in - 1);
        taps[i] = (Taps){first, 0, *weights + (size_t)i * n_most};
        double sum = 0.0;
        for (int k = first; k <= last && (size_t)taps[i].n < n_most; k++) {
            double weight = 1.0 - fabs(k + 0.5 - centre) / reach;
            weight = weight > 0.0 ? weight : 0.0;
            taps[i].weight[taps[i].n++] = (float)weight;
            sum += weight;
        }
        for (int k = 0; k < taps[i].n; k++) {
            taps[i].weight[k] = (float)((double)taps[i].weight[k] / sum);
        }
    }
    return ES_STATUS_OK;
}

// One row of the image to `width` pixels.
static void scale_row(const uint8_t *row, int n_channels, const Taps *taps, int width, float *to) {
    for (int x = 0; x < width; x++) {
        const uint8_t *from = row + (size_t)taps[x].first * (size_t)n_channels;
        for (int c = 0; c < n_channels; c++) {
            float sum = 0.0f;
            for (int k = 0; k < taps[x].n; k++) {
                sum += taps[x].weight[k] * (float)from[k * n_channels + c];
            }
            *to++ = sum;
        }
    }
}

static uint8_t round_pixel(float value) {
    return value <= 0.0f ? 0 : value >= 255.0f ? 255 : (uint8_t)lroundf(value);
}

// Scales to width x height, interleaved as before.
static EsStatus scale_image(const EsImage *image, int width, int height, uint8_t *pixels) {
    EsStatus status = ES_STATUS_OK;
    Taps *taps = NULL;
    float *weights[2] = {NULL, NULL}, *narrow = NULL, *sums = NULL;
    size_t row_values = (size_t)width * (size_t)image->n_channels;
    size_t source_bytes = (size_t)image->width * (size_t)image->n_channels;
    ES_TRY_GOTO(es_allocate(sizeof *taps * (size_t)(width + height), (void **)&taps));
    ES_TRY_GOTO(make_taps(image->width, width, taps, &weights[0]));
    ES_TRY_GOTO(make_taps(image->height, height, taps + width, &weights[1]));
    ES_TRY_GOTO(es_allocate((size_t)image->height * row_values * sizeof(float), (void **)&narrow));
    ES_TRY_GOTO(es_allocate(row_values * sizeof(float), (void **)&sums));
    for (int y = 0; y < image->height; y++) {
        scale_row(image->pixels + (size_t)y * source_bytes, image->n_channels, taps, width,
                  narrow + (size_t)y * row_values);
    }
    for (int y = 0; y < height; y++) {
        const Taps *rows = &taps[width + y];
        memset(sums, 0, row_values * sizeof(float));
        for (int k = 0; k < rows->n; k++) {
            const float *row = narrow + (size_t)(rows->first + k) * row_values;
            for (size_t i = 0; i < row_values; i++) {
                sums[i] += rows->weight[k] * row[i];
            }
        }
        for (size_t i = 0; i < row_values; i++) {
            *pixels++ = round_pixel(sums[i]);
        }
    }
done:
    es_release(taps);
    es_release(weights[0]);
    es_release(weights[1]);
    es_release(narrow);
    es_release(sums);
    return status;
}

// --- fitting ---

// Channel c of n_channels of a pixel.
static uint8_t convert(const uint8_t *pixel, int n_from, int n_channels, int c) {
    if (n_from == n_channels) {
        return pixel[c];
    }
    return n_from == 1 ? pixel[0]
                       : (uint8_t)((299 * pixel[0] + 587 * pixel[1] + 114 * pixel[2] + 500) / 1000);
}

// Mean of one channel over the edge of a scaled image.
static uint8_t edge_mean(const EsImage *image, int n_channels, int c) {
    int64_t sum = 0, n = 0;
    for (int y = 0; y < image->height; y++) {
        int is_whole = y == 0 || y == image->height - 1;
        int step = is_whole || image->width == 1 ? 1 : image->width - 1;
        for (int x = 0; x < image->width; x += step) {
            const uint8_t *pixel = image->pixels + ((size_t)y * (size_t)image->width + (size_t)x) *
                                                       (size_t)image->n_channels;
            sum += convert(pixel, image->n_channels, n_channels, c);
            n++;
        }
    }
    return (uint8_t)((sum + n / 2) / n);
}

static void place_image(const EsImage *image, int size, int n_channels, uint8_t *planes) {
    int left = (size - image->width) / 2, top = (size - image->height) / 2;
    int has_bars = image->width != size || image->height != size;
    for (int c = 0; c < n_channels; c++) {
        uint8_t *plane = planes + (size_t)c * (size_t)size * (size_t)size;
        if (has_bars) {
            memset(plane, edge_mean(image, n_channels, c), (size_t)size * (size_t)size);
        }
        const uint8_t *pixel = image->pixels;
        for (int y = 0; y < image->height; y++) {
            uint8_t *to = plane + (size_t)(top + y) * (size_t)size + left;
            for (int x = 0; x < image->width; x++, pixel += image->n_channels) {
                to[x] = convert(pixel, image->n_channels, n_channels, c);
            }
        }
    }
}

EsStatus es_image_fit(const EsImage *image, int size, int n_channels, uint8_t *planes) {
    ES_ASSERT(image->pixels != NULL && size >= 1 && size <= ES_IMAGE_MAX_FIT);
    ES_ASSERT(n_channels == image->n_channels || (n_channels == 1 && image->n_channels == 3) ||
              (n_channels == 3 && image->n_channels == 1));
    int longer = ES_MAX(image->width, image->height);
    if (longer == size) {
        place_image(image, size, n_channels, planes);
        return ES_STATUS_OK;
    }
    // rounded to the nearest, at least one pixel
    int width = (int)(((int64_t)2 * image->width * size + longer) / ((int64_t)2 * longer));
    int height = (int)(((int64_t)2 * image->height * size + longer) / ((int64_t)2 * longer));
    EsImage scaled = {ES_MAX(width, 1), ES_MAX(height, 1), image->n_channels, NULL};
    ES_TRY(es_allocate((size_t)scaled.width * (size_t)scaled.height * (size_t)scaled.n_channels,
                       (void **)&scaled.pixels));
    EsStatus status = scale_image(image, scaled.width, scaled.height, scaled.pixels);
    if (status == ES_STATUS_OK) {
        place_image(&scaled, size, n_channels, planes);
    }
    es_image_destroy(&scaled);
    return status;
}
