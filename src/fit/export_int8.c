// Runs the calls of an exported network one input at a time, with floats or 8 bits, to find scales
// and to measure their cost. The loops are those of the exported C.
#include "fit/export_int8.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

// so that sums of 127 x 255 stay within 32 bits
#define SUM_PRODUCTS_MAX 66000

// A run over the samples.
typedef struct Runner {
    const EsExportPlan *plan;
    const EsInt8Plan *int8; // NULL: floats
    float *maps;            // owned [n_floats]
    int16_t *quantised;     // owned [largest map]
    float **weight, **bias; // owned, by call: folded floats
    float *least, *most;    // owned, by call: range of its input so far
} Runner;

// --- weighted calls ---

// Numbers of the call's filter at one output and the area it runs over.
typedef struct Geometry {
    int n_in, n_out, height, width, kernel, is_depthwise;
} Geometry;

static Geometry geometry_of(const EsExportPlan *plan, const EsExportLayer *layer) {
    EsExportShape in = es_export_map_shape(plan->network, &plan->list, layer->in[0]);
    return (Geometry){.n_in = layer->kind == ES_EXPORT_DEPTHWISE ? 1 : layer->n_inputs,
                      .n_out = layer->n_channels,
                      .height = layer->kind == ES_EXPORT_LINEAR ? 1 : in.height,
                      .width = layer->kind == ES_EXPORT_LINEAR ? 1 : in.width,
                      .kernel = layer->kernel,
                      .is_depthwise = layer->kind == ES_EXPORT_DEPTHWISE};
}

// Sum over a filter at pixel (r, c) of output o; TERM(weight index, input index) adds one product.
#define SUM_FILTER(g, o, r, c, TERM)                                                               \
    for (int i = 0; i < (g).n_in; i++) {                                                           \
        for (int p = 0; p < (g).kernel; p++) {                                                     \
            for (int q = 0; q < (g).kernel; q++) {                                                 \
                int u = (r) + p - (g).kernel / 2, v = (c) + q - (g).kernel / 2;                    \
                int64_t channel = (g).is_depthwise ? (o) : i;                                      \
                if (u >= 0 && u < (g).height && v >= 0 && v < (g).width) {                         \
                    TERM((((int64_t)(o) * (g).n_in + i) * (g).kernel + p) * (g).kernel + q,        \
                         (channel * (g).height + u) * (g).width + v);                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

static void run_float(const Runner *run, int c, const Geometry *g, const float *x, float *y) {
    const float *weight = run->weight[c];
    for (int64_t k = 0; k < (int64_t)g->n_out * g->height * g->width; k++) {
        int o = (int)(k / (g->height * g->width)), at = (int)(k % (g->height * g->width));
        float sum = run->bias[c][o];
#define ADD_PRODUCT(w, in) sum += weight[w] * x[in]
        SUM_FILTER(*g, o, at / g->width, at % g->width, ADD_PRODUCT)
#undef ADD_PRODUCT
        y[k] = sum;
    }
}

static void run_int8(const Runner *run, int c, const Geometry *g, const float *x, int64_t n_inputs,
                     float *y) {
    const EsInt8Call *call = &run->int8->calls[c];
    float inverse = 1.0f / call->input_scale;
    for (int64_t k = 0; k < n_inputs; k++) {
        run->quantised[k] = (int16_t)es_int8_round(x[k], inverse, call->is_unsigned);
    }
    for (int64_t k = 0; k < (int64_t)g->n_out * g->height * g->width; k++) {
        int o = (int)(k / (g->height * g->width)), at = (int)(k % (g->height * g->width));
        int32_t sum = 0;
#define ADD_PRODUCT(w, in) sum += call->weight[w] * run->quantised[in]
        SUM_FILTER(*g, o, at / g->width, at % g->width, ADD_PRODUCT)
#undef ADD_PRODUCT
        y[k] = (float)sum * (call->input_scale * call->weight_scale[o]) + call->bias[o];
    }
}

static void run_weighted(const Runner *run, int c, const EsExportLayer *layer, const float *x,
                         float *y) {
    const EsExportPlan *plan = run->plan;
    int64_t n_inputs = es_export_map_count(plan->network, &plan->list, layer->in[0]);
    int64_t n = es_export_map_count(plan->network, &plan->list, plan->calls[c].output);
    Geometry g = geometry_of(plan, layer);
    if (run->int8 != NULL) {
        run_int8(run, c, &g, x, n_inputs, y);
    } else {
        for (int64_t k = 0; k < n_inputs; k++) {
            run->least[c] = fminf(run->least[c], x[k]);
            run->most[c] = fmaxf(run->most[c], x[k]);
        }
        run_float(run, c, &g, x, y);
    }
    for (int64_t k = 0; plan->calls[c].relu && k < n; k++) {
        y[k] = y[k] > 0 ? y[k] : 0;
    }
}

// --- the other calls ---

static void run_groupnorm(const EsExportLayer *layer, const float *x, float *y) {
    int area = layer->height * layer->width, width = layer->n_channels / layer->n_groups;
    int64_t n = (int64_t)width * area;
    for (int g = 0; g < layer->n_groups; g++) {
        const float *in = x + g * n;
        float mean = 0, variance = 0;
        for (int64_t k = 0; k < n; k++) {
            mean += in[k];
        }
        mean /= (float)n;
        for (int64_t k = 0; k < n; k++) {
            variance += (in[k] - mean) * (in[k] - mean);
        }
        float slope = 1.0f / sqrtf(variance / (float)n + layer->epsilon);
        for (int64_t k = 0; k < n; k++) {
            int64_t c = g * width + k / area;
            y[g * n + k] = (in[k] - mean) * slope * layer->weight[c] + layer->bias[c];
        }
    }
}

static void run_maxpool(const EsExportLayer *layer, EsExportShape in, const float *x, float *y) {
    for (int64_t k = 0; k < (int64_t)layer->n_channels * layer->height * layer->width; k++) {
        int64_t c = k / (layer->height * layer->width), r = k / layer->width % layer->height;
        const float *at = x + (c * in.height + 2 * r) * in.width + 2 * (k % layer->width);
        y[k] = fmaxf(fmaxf(at[0], at[1]), fmaxf(at[in.width], at[in.width + 1]));
    }
}

static void run_elements(const EsExportLayer *layer, int64_t n, const float *a, const float *b,
                         const float *gate, float *y) {
    float share = gate != NULL ? layer->share * gate[0] : layer->share;
    int area = layer->height * layer->width;
    for (int64_t k = 0; k < n; k++) {
        switch (layer->kind) {
        case ES_EXPORT_RELU:
            y[k] = a[k] > 0 ? a[k] : 0;
            break;
        case ES_EXPORT_TANH:
            y[k] = tanhf(a[k]);
            break;
        case ES_EXPORT_SIGMOID:
            y[k] = 1.0f / (1.0f + expf(-a[k]));
            break;
        case ES_EXPORT_ADD:
            y[k] = a[k] + b[k];
            break;
        case ES_EXPORT_MULTIPLY:
            y[k] = a[k] * (1.0f + share * tanhf(b[k] - a[k]));
            break;
        case ES_EXPORT_CHANNEL_SCALE:
            y[k] = a[k] * b[k / area];
            break;
        default: // mixes
            y[k] = a[k] + share * (b[k] - a[k]);
        }
    }
}

static void run_call(const Runner *run, int c) {
    const EsExportPlan *plan = run->plan;
    const EsExportCall *call = &plan->calls[c];
    const EsExportLayer *layer = &plan->list.layers[call->layer];
    EsExportShape in = es_export_map_shape(plan->network, &plan->list, layer->in[0]);
    const float *maps[3] = {NULL, NULL, NULL};
    for (int k = 0; k < 3; k++) {
        maps[k] = layer->in[k] >= 0 ? run->maps + plan->map_offset[layer->in[k]] : NULL;
    }
    float *y = run->maps + plan->map_offset[call->output];
    switch (layer->kind) {
    case ES_EXPORT_CONV:
    case ES_EXPORT_DEPTHWISE:
    case ES_EXPORT_LINEAR:
        run_weighted(run, c, layer, maps[0], y);
        break;
    case ES_EXPORT_GROUPNORM:
        run_groupnorm(layer, maps[0], y);
        break;
    case ES_EXPORT_MAXPOOL:
        run_maxpool(layer, in, maps[0], y);
        break;
    case ES_EXPORT_GLOBAL_MEAN:
        for (int i = 0; i < layer->n_channels; i++) {
            float sum = 0;
            for (int k = 0; k < in.height * in.width; k++) {
                sum += maps[0][i * in.height * in.width + k];
            }
            y[i] = sum / (float)(in.height * in.width);
        }
        break;
    default:
        run_elements(layer, es_export_map_count(plan->network, &plan->list, call->output), maps[0],
                     maps[1], maps[2], y);
    }
}

// Class of one plain input.
static int run_input(const Runner *run, const float *input) {
    const EsExportPlan *plan = run->plan;
    const EsHostSpec *host = &plan->network->spec.host;
    int64_t count = es_grown_network_input_count(plan->network);
    int64_t area = count / host->image_channels;
    int best = 0;
    for (int64_t k = 0; k < count; k++) {
        float centre = 0, scale = 0;
        es_grown_network_normaliser(plan->network, (int)(k / area), &centre, &scale);
        run->maps[k] = (input[k] - centre) * scale;
    }
    for (int c = 0; c < plan->n_calls; c++) {
        run_call(run, c);
    }
    const float *logits = run->maps + plan->map_offset[plan->list.output];
    for (int k = 1; k < host->n_classes; k++) {
        best = logits[k] > logits[best] ? k : best;
    }
    return best;
}

// --- life ---

static void end_runner(Runner *run) {
    for (int c = 0; run->weight != NULL && run->bias != NULL && c < run->plan->n_calls; c++) {
        es_release(run->weight[c]);
        es_release(run->bias[c]);
    }
    es_release(run->weight);
    es_release(run->bias);
    es_release(run->least);
    es_release(run->most);
    es_release(run->maps);
    es_release(run->quantised);
}

static EsStatus begin_runner(const EsExportPlan *plan, Runner *run) {
    size_t n = (size_t)plan->n_calls;
    *run = (Runner){.plan = plan};
    ES_TRY(es_allocate(sizeof *run->maps * (size_t)plan->n_floats, (void **)&run->maps));
    ES_TRY(es_allocate(sizeof *run->quantised * (size_t)plan->n_floats, (void **)&run->quantised));
    ES_TRY(es_allocate(sizeof *run->weight * n, (void **)&run->weight));
    ES_TRY(es_allocate(sizeof *run->bias * n, (void **)&run->bias));
    ES_TRY(es_allocate(sizeof *run->least * n, (void **)&run->least));
    ES_TRY(es_allocate(sizeof *run->most * n, (void **)&run->most));
    for (int c = 0; c < plan->n_calls; c++) {
        int64_t n_weights = 0;
        if (es_export_is_weighted(plan->list.layers[plan->calls[c].layer].kind)) {
            ES_TRY(
                es_export_fold(plan, &plan->calls[c], &run->weight[c], &run->bias[c], &n_weights));
        }
    }
    return ES_STATUS_OK;
}

// Weights of each output channel on a scale of its own.
static EsStatus quantise(const EsExportPlan *plan, int c, float least, float most,
                         EsInt8Call *int8) {
    const EsExportLayer *layer = &plan->list.layers[plan->calls[c].layer];
    float *weight = NULL;
    int64_t n_products = (int64_t)layer->n_inputs * layer->kernel * layer->kernel;
    if (n_products > SUM_PRODUCTS_MAX) {
        return ES_FAIL(UNSUPPORTED, "%s sums %lld products; int8 sums of 32 bits take %d",
                       layer->name, (long long)n_products, SUM_PRODUCTS_MAX);
    }
    EsStatus status = es_export_fold(plan, &plan->calls[c], &weight, &int8->bias, &int8->n_weights);
    if (status == ES_STATUS_OK) {
        status = es_allocate((size_t)int8->n_weights, (void **)&int8->weight);
    }
    if (status == ES_STATUS_OK) {
        status =
            es_allocate(sizeof(float) * (size_t)layer->n_channels, (void **)&int8->weight_scale);
    }
    int64_t row = status == ES_STATUS_OK ? int8->n_weights / layer->n_channels : 0;
    for (int o = 0; status == ES_STATUS_OK && o < layer->n_channels; o++) {
        float largest = 0;
        for (int64_t i = 0; i < row; i++) {
            largest = fmaxf(largest, fabsf(weight[o * row + i]));
        }
        int8->weight_scale[o] = largest > 0 ? largest / 127.0f : 1.0f;
        for (int64_t i = 0; i < row; i++) {
            int8->weight[o * row + i] =
                (int8_t)es_int8_round(weight[o * row + i], 1.0f / int8->weight_scale[o], 0);
        }
    }
    int8->is_unsigned = least >= 0;
    float range = int8->is_unsigned ? most / 255.0f : fmaxf(-least, most) / 127.0f;
    int8->input_scale = range > 0 ? range : 1.0f;
    es_release(weight);
    return status;
}

EsStatus es_int8_plan_create(const EsExportPlan *plan, const EsInt8Samples *samples,
                             EsInt8Plan *int8) {
    Runner run;
    int64_t count = es_grown_network_input_count(plan->network);
    *int8 = (EsInt8Plan){.n_calls = plan->n_calls};
    EsStatus status = begin_runner(plan, &run);
    for (int64_t i = 0; status == ES_STATUS_OK && i < ES_MIN(samples->n, ES_INT8_CALIBRATED); i++) {
        run_input(&run, samples->inputs + i * count);
    }
    if (status == ES_STATUS_OK) {
        status = es_allocate(sizeof *int8->calls * (size_t)plan->n_calls, (void **)&int8->calls);
    }
    for (int c = 0; status == ES_STATUS_OK && c < plan->n_calls; c++) {
        const EsExportLayer *layer = &plan->list.layers[plan->calls[c].layer];
        if (es_export_is_weighted(layer->kind)) {
            int64_t n = es_export_map_count(plan->network, &plan->list, layer->in[0]);
            int8->n_scratch = ES_MAX(int8->n_scratch, n);
            status = quantise(plan, c, run.least[c], run.most[c], &int8->calls[c]);
        }
    }
    end_runner(&run);
    if (status != ES_STATUS_OK) {
        es_int8_plan_destroy(int8);
    }
    return status;
}

void es_int8_plan_destroy(EsInt8Plan *int8) {
    for (int c = 0; int8->calls != NULL && c < int8->n_calls; c++) {
        es_release(int8->calls[c].weight);
        es_release(int8->calls[c].weight_scale);
        es_release(int8->calls[c].bias);
    }
    es_release(int8->calls);
    int8->calls = NULL;
}

EsStatus es_int8_plan_measure(const EsExportPlan *plan, const EsInt8Plan *int8,
                              const EsInt8Samples *samples, double *float_accuracy,
                              double *int8_accuracy) {
    Runner run;
    int64_t count = es_grown_network_input_count(plan->network);
    EsStatus status = begin_runner(plan, &run);
    for (int is_int8 = 0; status == ES_STATUS_OK && is_int8 < 2; is_int8++) {
        int64_t n_correct = 0;
        run.int8 = is_int8 ? int8 : NULL;
        for (int64_t i = 0; i < samples->n; i++) {
            n_correct += run_input(&run, samples->inputs + i * count) == samples->labels[i];
        }
        *(is_int8 ? int8_accuracy : float_accuracy) =
            100.0 * (double)n_correct / (double)samples->n;
    }
    end_runner(&run);
    return status;
}
