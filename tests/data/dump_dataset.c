// Write a generated data set so that people and other programs can look at it.
//
//     dump_dataset sheet tiny tiny.ppm        twelve images of every class, one class per row
//     dump_dataset raw tiny tiny.bin          header i32 {C, H, W, n_train, n_validation}, then
//     label and pixels of
//                                             each train and validation image
// A third argument is the seed (default 1). calibrate_hosts.py reads the raw form.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset.h"

#define COLUMNS 12
#define GAP     1

static void put_pixel(const EsDataset *dataset, const uint8_t *image, int y, int x, FILE *stream) {
    int plane = dataset->height * dataset->width;
    for (int c = 0; c < 3; c++) {
        fputc(image[(dataset->n_channels == 3 ? c : 0) * plane + y * dataset->width + x], stream);
    }
}

static void write_sheet(const EsDataset *dataset, FILE *stream) {
    int height = dataset->height + GAP, width = dataset->width + GAP;
    int64_t next[16] = {0};
    fprintf(stream, "P6\n%d %d\n255\n", COLUMNS * width, dataset->n_classes * height);
    for (int label = 0; label < dataset->n_classes; label++) {
        const uint8_t *images[COLUMNS];
        for (int i = 0; i < COLUMNS; i++) {
            while (dataset->train.labels[next[label]] != label) {
                next[label]++;
            }
            images[i] = dataset->train.images + (size_t)next[label]++ * dataset->image_bytes;
        }
        for (int y = 0; y < height; y++) {
            for (int x = 0; x < COLUMNS * width; x++) {
                if (y >= dataset->height || x % width >= dataset->width) {
                    fwrite("\0\0\0", 1, 3, stream);
                } else {
                    put_pixel(dataset, images[x / width], y, x % width, stream);
                }
            }
        }
    }
}

static void write_raw(const EsDataset *dataset, FILE *stream) {
    int32_t header[5] = {dataset->n_channels, dataset->height, dataset->width,
                         (int32_t)dataset->train.count, (int32_t)dataset->validation.count};
    fwrite(header, sizeof header, 1, stream);
    // train and validation lie one after the other
    for (int64_t i = 0; i < dataset->train.count + dataset->validation.count; i++) {
        fputc(dataset->labels[i], stream);
        fwrite(dataset->images + (size_t)i * dataset->image_bytes, 1, dataset->image_bytes, stream);
    }
}

int main(int argc, char **argv) {
    if (argc < 4 || (strcmp(argv[1], "sheet") != 0 && strcmp(argv[1], "raw") != 0)) {
        fprintf(stderr, "usage: dump_dataset sheet|raw tiny|generated FILE [SEED]\n");
        return 2;
    }
    EsDataset dataset;
    EsDatasetOptions options = {.seed = argc > 4 ? strtoull(argv[4], NULL, 10) : 1};
    if (es_dataset_open(&dataset, argv[2], &options, NULL) != ES_STATUS_OK) {
        fprintf(stderr, "%s\n", es_status_detail());
        return 2;
    }
    FILE *stream = fopen(argv[3], "wb");
    if (stream == NULL) {
        perror(argv[3]);
        return 1;
    }
    (strcmp(argv[1], "sheet") == 0 ? write_sheet : write_raw)(&dataset, stream);
    int is_failed = ferror(stream) | fclose(stream);
    char text[1024];
    es_dataset_describe(&dataset, text, sizeof text);
    printf("%s", text);
    es_dataset_destroy(&dataset);
    return is_failed != 0;
}
