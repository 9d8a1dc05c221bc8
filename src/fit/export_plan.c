// The calls of an exported C file: batch norms folded into the convolutions before them, ReLUs
// inside them, and a place for every map in one array that they share by the time they live.
#include "fit/export_plan.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

// --- calls ---

static int count_readers(const EsExportList *list, int map) {
    int n = map == list->output;
    for (int i = 0; i < list->n_layers; i++) {
        for (int k = 0; k < 3; k++) {
            n += list->layers[i].in[k] == map;
        }
    }
    return n;
}

// The layer that alone reads this map, if it is of that kind and reads it first.
static int sole_reader(const EsExportList *list, int map, EsExportKind kind) {
    if (count_readers(list, map) != 1) {
        return -1;
    }
    for (int i = 0; i < list->n_layers; i++) {
        if (list->layers[i].in[0] == map && list->layers[i].kind == kind) {
            return i;
        }
    }
    return -1;
}

int es_export_is_weighted(EsExportKind kind) {
    return kind == ES_EXPORT_CONV || kind == ES_EXPORT_DEPTHWISE || kind == ES_EXPORT_LINEAR;
}

static void list_calls(EsExportPlan *plan, unsigned char *is_inside) {
    const EsExportList *list = &plan->list;
    for (int i = 0; i < list->n_layers; i++) {
        if (is_inside[i]) {
            continue;
        }
        EsExportCall *call = &plan->calls[plan->n_calls++];
        *call = (EsExportCall){.layer = i, .norm = -1, .output = i + 1};
        if (es_export_is_weighted(list->layers[i].kind)) {
            int norm = sole_reader(list, call->output, ES_EXPORT_BATCHNORM);
            if (norm >= 0) {
                is_inside[norm] = 1;
                call->norm = norm;
                call->output = norm + 1;
            }
            int relu = sole_reader(list, call->output, ES_EXPORT_RELU);
            if (relu >= 0) {
                is_inside[relu] = 1;
                call->relu = 1;
                call->output = relu + 1;
            }
        }
    }
}

// Elementwise calls may write over their first input.
static int works_in_place(EsExportKind kind) {
    return kind != ES_EXPORT_MAXPOOL && kind != ES_EXPORT_GLOBAL_MEAN &&
           !es_export_is_weighted(kind);
}

// First fit: a map takes the lowest place that no living map overlaps.
static void place_maps(EsExportPlan *plan) {
    const EsExportList *list = &plan->list;
    int n_maps = list->n_layers + 1;
    unsigned char *lives = (unsigned char *)(plan->last_use + n_maps);
    for (int m = 0; m < n_maps; m++) {
        plan->last_use[m] = -1;
        lives[m] = 0;
    }
    for (int c = 0; c < plan->n_calls; c++) {
        for (int k = 0; k < 3; k++) {
            int map = list->layers[plan->calls[c].layer].in[k];
            if (map >= 0) {
                plan->last_use[map] = c;
            }
        }
    }
    plan->last_use[list->output] = plan->n_calls;
    lives[0] = 1;
    plan->n_floats = es_export_map_count(plan->network, list, 0);
    for (int c = 0; c < plan->n_calls; c++) {
        EsExportCall *call = &plan->calls[c];
        const EsExportLayer *layer = &list->layers[call->layer];
        int64_t count = es_export_map_count(plan->network, list, call->output), at = 0;
        if (works_in_place(layer->kind) && plan->last_use[layer->in[0]] == c) {
            at = plan->map_offset[layer->in[0]];
        } else {
            for (int m = 0; m < n_maps; m++) {
                int64_t first = plan->map_offset[m];
                int64_t end = first + es_export_map_count(plan->network, list, m);
                if (lives[m] && at < end && first < at + count) {
                    at = end;
                    m = -1; // from the start: it may now overlap another
                }
            }
        }
        plan->map_offset[call->output] = at;
        plan->n_floats = ES_MAX(plan->n_floats, at + count);
        lives[call->output] = 1;
        for (int m = 0; m < n_maps; m++) {
            lives[m] &= plan->last_use[m] > c;
        }
    }
}

void es_export_plan_destroy(EsExportPlan *plan) {
    es_release(plan->calls);
    es_release(plan->last_use);
    es_release(plan->map_offset);
    es_export_list_destroy(&plan->list);
}

EsStatus es_export_plan_create(const EsGrownNetwork *network, const char *name,
                               EsExportPlan *plan) {
    unsigned char *is_inside = NULL;
    EsStatus status = ES_STATUS_OK;
    *plan = (EsExportPlan){.network = network, .name = name};
    ES_TRY(es_export_list_create(network, &plan->list));
    size_t n = (size_t)plan->list.n_layers + 1;
    ES_TRY_GOTO(es_allocate(sizeof *plan->calls * n, (void **)&plan->calls));
    ES_TRY_GOTO(es_allocate((sizeof *plan->last_use + 1) * n, (void **)&plan->last_use));
    ES_TRY_GOTO(es_allocate(sizeof *plan->map_offset * n, (void **)&plan->map_offset));
    ES_TRY_GOTO(es_allocate(n, (void **)&is_inside));
    list_calls(plan, is_inside);
    place_maps(plan);
done:
    es_release(is_inside);
    if (status != ES_STATUS_OK) {
        es_export_plan_destroy(plan);
    }
    return status;
}

// --- weights ---

// Weights and bias with the norm folded in: w' = w s, b' = (b - mean) s + beta with
// s = gamma / sqrt(variance + epsilon). Both are released by the caller.
EsStatus es_export_fold(const EsExportPlan *plan, const EsExportCall *call, float **weight,
                        float **bias, int64_t *n_weights) {
    const EsExportLayer *layer = &plan->list.layers[call->layer];
    const EsExportLayer *norm = call->norm >= 0 ? &plan->list.layers[call->norm] : NULL;
    int64_t n_outputs = layer->n_channels;
    int64_t row = layer->kind == ES_EXPORT_DEPTHWISE ? 1 : layer->n_inputs;
    row *= (int64_t)layer->kernel * layer->kernel;
    *n_weights = n_outputs * row;
    ES_TRY(es_allocate(sizeof **weight * (size_t)*n_weights, (void **)weight));
    ES_TRY(es_allocate(sizeof **bias * (size_t)n_outputs, (void **)bias));
    for (int64_t o = 0; o < n_outputs; o++) {
        double scale = 1, shift = layer->bias != NULL ? (double)layer->bias[o] : 0;
        if (norm != NULL) {
            scale =
                (double)norm->weight[o] / sqrt((double)norm->variance[o] + (double)norm->epsilon);
            shift = (shift - (double)norm->mean[o]) * scale + (double)norm->bias[o];
        }
        for (int64_t i = 0; i < row; i++) {
            (*weight)[o * row + i] = (float)((double)layer->weight[o * row + i] * scale);
        }
        (*bias)[o] = (float)shift;
    }
    return ES_STATUS_OK;
}
