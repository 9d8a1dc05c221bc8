// Scores of a network on labelled samples, the file of its confusions, and the drawing of its
// layers.
#include "fit/network_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/statistics.h"
#include "growth/host/blueprint.h"
#include "telemetry/text.h"

#define CHUNK 512 // samples predicted at a time

// --- scores ---

double es_network_score_recall(const EsNetworkScore *score, int k) {
    const int64_t *row = score->confused + (int64_t)k * score->n_classes;
    int64_t n = 0;
    for (int j = 0; j < score->n_classes; j++) {
        n += row[j];
    }
    return n > 0 ? 100.0 * (double)row[k] / (double)n : NAN;
}

static int find_largest(const float *logits, int n) {
    int best = 0;
    for (int k = 1; k < n; k++) {
        best = logits[k] > logits[best] ? k : best;
    }
    return best;
}

EsStatus es_network_check_data(const EsGrownNetwork *network, const EsDataset *dataset,
                               const char *name) {
    const EsGrownSpec *spec = &network->spec;
    const EsHostSpec *host = &spec->host;
    int is_same_kind = (dataset->kind == ES_DATASET_ROWS) == (spec->kind == ES_INPUT_ROWS);
    if (!is_same_kind || dataset->n_channels != host->image_channels ||
        dataset->height != host->image_size || dataset->width != host->image_size ||
        dataset->n_classes != host->n_classes) {
        return ES_FAIL(INPUT,
                       "%s has %d x %d x %d inputs in %d classes, the network takes %d x %d x %d "
                       "in %d",
                       name, dataset->n_channels, dataset->height, dataset->width,
                       dataset->n_classes, host->image_channels, host->image_size, host->image_size,
                       host->n_classes);
    }
    for (int k = 0; dataset->class_names != NULL && k < host->n_classes; k++) {
        if (strcmp(dataset->class_names[k], spec->class_names[k]) != 0) {
            return ES_FAIL(INPUT, "%s: class %d is \"%.100s\", the network's is \"%.100s\"", name,
                           k, dataset->class_names[k], spec->class_names[k]);
        }
    }
    return ES_STATUS_OK;
}

// softmax of the logits at its largest
static double probability_of(const float *logits, int n, int largest) {
    double sum = 0;
    for (int k = 0; k < n; k++) {
        sum += exp((double)logits[k] - (double)logits[largest]);
    }
    return 1 / sum;
}

// Keeps the mistake among the most probable ones; samples come in their order.
static void keep_mistake(EsNetworkScore *score, EsMistake mistake) {
    int at = score->n_mistakes;
    while (at > 0 && score->mistakes[at - 1].probability < mistake.probability) {
        at--;
    }
    if (at < ES_MISTAKES_KEPT && mistake.probability > 0) { // not where a logit is not a number
        int n_moved = ES_MIN(score->n_mistakes, ES_MISTAKES_KEPT - 1) - at;
        memmove(&score->mistakes[at + 1], &score->mistakes[at],
                sizeof mistake * (size_t)ES_MAX(n_moved, 0));
        score->mistakes[at] = mistake;
        score->n_mistakes = ES_MIN(score->n_mistakes + 1, ES_MISTAKES_KEPT);
    }
}

static EsStatus count_samples(EsGrownNetwork *network, EsThreadPool *pool, const EsDataset *dataset,
                              const EsSplit *split, float *logits, EsNetworkScore *score) {
    int64_t first = es_split_first(dataset, split);
    int is_rows = dataset->kind == ES_DATASET_ROWS;
    for (int64_t at = 0; at < split->count; at += CHUNK) {
        int64_t n = ES_MIN(split->count - at, CHUNK);
        const void *inputs =
            is_rows ? (const void *)(dataset->rows + (first + at) * dataset->n_channels)
                    : split->images + (size_t)at * dataset->image_bytes;
        ES_TRY(es_grown_network_predict(
            network, pool, is_rows ? ES_INPUT_NORMALISED : ES_INPUT_BYTES, inputs, n, logits));
        for (int64_t i = 0; i < n; i++) {
            int label = split->labels[at + i];
            const float *own = logits + i * score->n_classes;
            int found = find_largest(own, score->n_classes);
            score->confused[(int64_t)label * score->n_classes + found]++;
            score->n_correct += label == found;
            if (label != found) {
                double probability = probability_of(own, score->n_classes, found);
                keep_mistake(score, (EsMistake){at + i, label, found, probability});
            }
        }
    }
    return ES_STATUS_OK;
}

EsStatus es_network_score(EsGrownNetwork *network, EsThreadPool *pool, const EsDataset *dataset,
                          const EsSplit *split, EsNetworkScore *score) {
    int K = network->spec.host.n_classes;
    float *logits = NULL;
    EsStatus status = ES_STATUS_OK;
    *score = (EsNetworkScore){.n = split->count, .n_classes = K};
    ES_TRY(es_network_check_data(network, dataset, dataset->name));
    if (split->count < 1) {
        return ES_FAIL(INPUT, "data set \"%s\" has no samples to measure a network on",
                       dataset->name);
    }
    ES_TRY_GOTO(
        es_allocate(sizeof *score->confused * (size_t)K * (size_t)K, (void **)&score->confused));
    ES_TRY_GOTO(es_allocate(sizeof *logits * CHUNK * (size_t)K, (void **)&logits));
    ES_TRY_GOTO(count_samples(network, pool, dataset, split, logits, score));
    score->accuracy = 100.0 * (double)score->n_correct / (double)score->n;
    es_wilson_interval(score->n_correct, score->n, &score->low, &score->high);
done:
    es_release(logits);
    if (status != ES_STATUS_OK) {
        es_network_score_destroy(score);
    }
    return status;
}

void es_network_score_destroy(EsNetworkScore *score) {
    es_release(score->confused);
    score->confused = NULL;
}

// --- the file of confusions ---

#define CONFUSION_FORMAT "esper.confusion.1"

// a matrix of more classes is scored for a test accuracy alone
#define CONFUSED_CLASSES_MAX 4096

const EsSplit *es_network_confusion_split(const EsDataset *dataset) {
    if (dataset->test.count > 0) {
        return &dataset->test;
    }
    return dataset->validation.count > 0 && dataset->n_classes <= CONFUSED_CLASSES_MAX
               ? &dataset->validation
               : NULL;
}
#define PICTURE_SIDE  64 // pixels; larger images are averaged
#define PICTURE_BYTES ((size_t)ES_DATASET_MAX_CHANNELS * PICTURE_SIDE * PICTURE_SIDE)
#define COLUMNS_SHOWN 8

// Bytes in base64, as a new text of JSON.
static json_t *base64_json(const uint8_t *bytes, size_t n) {
    EsText text = {0};
    es_text_add_base64(&text, bytes, n);
    json_t *value = json_stringn(text.bytes, text.length);
    es_text_destroy(&text);
    return value;
}

// An image of the data set in at most PICTURE_SIDE pixels a side: means of squares.
typedef struct Picture {
    int factor, height, width;
} Picture;

static Picture picture_of(const EsDataset *dataset) {
    int factor = (ES_MAX(dataset->height, dataset->width) + PICTURE_SIDE - 1) / PICTURE_SIDE;
    return (Picture){factor, ES_MAX(dataset->height / factor, 1),
                     ES_MAX(dataset->width / factor, 1)};
}

static uint8_t mean_of_square(const EsDataset *dataset, const uint8_t *plane, Picture picture,
                              int row, int column) {
    int f = picture.factor, sum = 0, n = 0;
    for (int y = row * f; y < ES_MIN((row + 1) * f, dataset->height); y++) {
        for (int x = column * f; x < ES_MIN((column + 1) * f, dataset->width); x++) {
            sum += plane[y * dataset->width + x];
            n++;
        }
    }
    return (uint8_t)((sum + n / 2) / n);
}

static json_t *pixels_json(const EsDataset *dataset, const uint8_t *image, uint8_t *room) {
    Picture picture = picture_of(dataset);
    size_t n = 0;
    for (int c = 0; c < dataset->n_channels; c++) {
        const uint8_t *plane = image + (size_t)c * (size_t)dataset->height * (size_t)dataset->width;
        for (int y = 0; y < picture.height; y++) {
            for (int x = 0; x < picture.width; x++) {
                room[n++] = mean_of_square(dataset, plane, picture, y, x);
            }
        }
    }
    return base64_json(room, n);
}

// The columns that lie farthest from their mean, in deviations, in their order and as measured.
static json_t *values_json(const EsDataset *dataset, const float *row) {
    int shown[COLUMNS_SHOWN], n_shown = 0;
    json_t *values = json_array();
    for (int c = 0; c < dataset->n_channels; c++) {
        int at = ES_MIN(n_shown, COLUMNS_SHOWN - 1);
        if (n_shown == COLUMNS_SHOWN && fabsf(row[c]) <= fabsf(row[shown[at]])) {
            continue;
        }
        for (; at > 0 && fabsf(row[shown[at - 1]]) < fabsf(row[c]); at--) {
            shown[at] = shown[at - 1];
        }
        shown[at] = c;
        n_shown = ES_MIN(n_shown + 1, COLUMNS_SHOWN);
    }
    for (int c = 0; c < dataset->n_channels && (int)json_array_size(values) < n_shown; c++) {
        for (int i = 0; i < n_shown; i++) {
            if (shown[i] == c) {
                double value = (double)row[c] * (double)dataset->column_std[c] +
                               (double)dataset->column_mean[c];
                json_t *entry =
                    json_pack("{s:i, s:o}", "column", c, "value", es_json_number(value));
                if (dataset->column_names != NULL) {
                    const char *name = dataset->column_names[c];
                    json_object_set_new(entry, "name", es_text_json(name, strlen(name)));
                }
                json_array_append_new(values, entry);
            }
        }
    }
    return values;
}

static json_t *mistakes_json(const EsDataset *dataset, const EsSplit *split,
                             const EsNetworkScore *score, uint8_t *room) {
    int64_t first = es_split_first(dataset, split);
    json_t *list = json_array();
    for (int i = 0; i < score->n_mistakes; i++) {
        const EsMistake *mistake = &score->mistakes[i];
        json_t *entry = json_pack("{s:I, s:i, s:i, s:f}", "index", (json_int_t)mistake->index,
                                  "label", mistake->label, "predicted", mistake->found,
                                  "probability", mistake->probability);
        if (dataset->kind == ES_DATASET_ROWS) {
            const float *row = dataset->rows + (first + mistake->index) * dataset->n_channels;
            json_object_set_new(entry, "values", values_json(dataset, row));
        } else {
            const uint8_t *image = split->images + (size_t)mistake->index * dataset->image_bytes;
            json_object_set_new(entry, "pixels", pixels_json(dataset, image, room));
        }
        json_array_append_new(list, entry);
    }
    return list;
}

// Cells of the matrix that are not 0, by rows: [label, predicted, samples].
static json_t *cells_json(const EsNetworkScore *score) {
    json_t *cells = json_array();
    for (int i = 0; i < score->n_classes; i++) {
        for (int j = 0; j < score->n_classes; j++) {
            int64_t n = score->confused[(int64_t)i * score->n_classes + j];
            if (n > 0) {
                json_array_append_new(cells, json_pack("[i, i, I]", i, j, (json_int_t)n));
            }
        }
    }
    return cells;
}

EsStatus es_network_write_confusion(const EsGrownNetwork *network, const EsDataset *dataset,
                                    const EsSplit *split, const char *split_name,
                                    const EsNetworkScore *score, const char *folder) {
    char path[4096], hash[ES_SHA256_TEXT_BYTES], *text = NULL;
    uint8_t *room = NULL; // for the bytes of a picture
    if (snprintf(path, sizeof path, "%s/" ES_NETWORK_CONFUSION_FILE, folder) >= (int)sizeof path) {
        return ES_FAIL(ARGUMENT, "the path %.100s... is too long", folder);
    }
    ES_TRY(es_grown_network_hash(network, hash));
    ES_TRY(es_allocate(PICTURE_BYTES, (void **)&room));
    json_t *classes = json_array(), *root = json_object();
    for (int k = 0; k < score->n_classes; k++) {
        const char *name = network->spec.class_names[k];
        json_array_append_new(classes, es_text_json(name, strlen(name)));
    }
    json_object_set_new(root, "format", json_string(CONFUSION_FORMAT));
    json_object_set_new(root, "tensors_sha256", json_string(hash));
    json_object_set_new(root, "split", json_string(split_name));
    json_object_set_new(root, "samples", json_integer((json_int_t)score->n));
    json_object_set_new(root, "correct", json_integer((json_int_t)score->n_correct));
    json_object_set_new(root, "classes", classes);
    json_object_set_new(root, "cells", cells_json(score));
    if (dataset->kind == ES_DATASET_IMAGES) {
        Picture picture = picture_of(dataset);
        json_object_set_new(root, "picture",
                            json_pack("{s:i, s:i, s:i}", "channels", dataset->n_channels, "height",
                                      picture.height, "width", picture.width));
    }
    json_object_set_new(root, "mistakes", mistakes_json(dataset, split, score, room));
    es_release(room);
    ES_TRY(es_json_dump(path, root, JSON_COMPACT | JSON_REAL_PRECISION(6), &text));
    size_t bytes = strlen(text);
    EsStatus status = bytes <= ES_NETWORK_CONFUSION_BYTES_MAX ? es_file_write_all(path, text, bytes)
                                                              : ES_STATUS_OK;
    free(text);
    return status;
}

// --- drawing ---

typedef struct Drawing {
    const EsGrownNetwork *network;
    FILE *stream;
    int channels, side; // of the map at hand
} Drawing;

// "14 x 14 x 24", or "24" for a row.
static void draw_line(const Drawing *d, const char *layer, int64_t n_parameters) {
    char shape[48];
    if (d->side > 1) {
        snprintf(shape, sizeof shape, "%d x %d x %d", d->side, d->side, d->channels);
    } else {
        snprintf(shape, sizeof shape, "%d", d->channels);
    }
    fprintf(d->stream, "  %-34s %-16s", layer, shape);
    if (n_parameters > 0) {
        fprintf(d->stream, " %9lld", (long long)n_parameters);
    }
    fputc('\n', d->stream);
}

// Seeds at a place of a block, as branches of the line.
static void draw_seeds(const Drawing *d, int block, int is_after_pool) {
    const EsGrownSpec *spec = &d->network->spec;
    for (int i = 0; i < spec->n_seeds; i++) {
        const EsGrownSeed *seed = &spec->seeds[i];
        char text[96];
        if (seed->slot.column != block || seed->slot.row != is_after_pool) {
            continue;
        }
        int has_gate = es_grown_seed_algorithm(seed) == ES_ALGORITHM_GATE;
        int64_t n = es_blueprint_parameter_count(seed->blueprint, seed->slot.n_channels) +
                    (has_gate ? es_graph_gate_parameter_count(seed->slot.n_channels) : 0);
        snprintf(text, sizeof text, "  + %s in %s, %.0f %%", es_blueprint_name(seed->blueprint),
                 seed->slot.name, 100 * (double)seed->alpha);
        draw_line(d, text, n);
    }
}

static void draw_block(Drawing *d, int i) {
    const EsHostBlock block = es_host_block(&d->network->spec.host, i);
    int n_in = d->channels;
    char text[96];
    d->channels = block.n_channels;
    snprintf(text, sizeof text, d->side > 1 ? "conv %dx%d, norm, relu" : "layer, norm, relu",
             block.kernel, block.kernel);
    draw_line(d, text,
              (int64_t)n_in * block.n_channels * block.kernel * block.kernel +
                  2 * block.n_channels);
    draw_seeds(d, i, 0);
    if (block.has_pool) {
        d->side /= 2;
        draw_line(d, "max pool 2x2", 0);
        draw_seeds(d, i, 1);
    }
}

void es_grown_network_draw(const EsGrownNetwork *network, FILE *stream) {
    const EsHostSpec *host = &network->spec.host;
    Drawing d = {network, stream, host->image_channels, host->image_size};
    draw_line(&d, "input", 0);
    for (int i = 0; i < host->n_blocks; i++) {
        draw_block(&d, i);
    }
    int64_t n_in = d.channels;
    int is_map = d.side > 1;
    d.side = 1;
    d.channels = host->n_classes;
    draw_line(&d, is_map ? "mean over pixels, linear" : "linear", (n_in + 1) * host->n_classes);
    fprintf(stream, "  %-34s %-16s %9lld\n", "in all", "", (long long)network->n_parameters);
}
