// Scores of a network on labelled samples, and the drawing of its layers.
#include "fit/network_report.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/statistics.h"
#include "growth/host/blueprint.h"

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
            int found = find_largest(logits + i * score->n_classes, score->n_classes);
            score->confused[(int64_t)label * score->n_classes + found]++;
            score->n_correct += label == found;
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
