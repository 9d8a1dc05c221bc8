// The layers of a network for its exports: the nodes of its evaluation graph without those that
// only growth needs. Shares are numbers here, and a seed that has taken its slot over replaces its
// input.
#include "fit/network_export.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

typedef struct Listing {
    const EsGrownNetwork *network;
    const EsGraph *graph;
    EsExportList *list;
    int *map_of; // owned, by value: the map that holds it, -1
} Listing;

static int map_at(const Listing *l, EsValueId value) {
    return value == ES_NO_VALUE ? -1 : l->map_of[value];
}

static const float *weights_at(const Listing *l, EsValueId value) {
    return value == ES_NO_VALUE ? NULL : es_grown_network_weights(l->network, value);
}

// The layer that a parameter belongs to: "r0c0.conv" of "r0c0.conv.weight".
static void name_layer(const Listing *l, EsValueId parameter, EsExportLayer *layer) {
    snprintf(layer->name, sizeof layer->name, "%s", l->graph->values[parameter].name);
    char *dot = strrchr(layer->name, '.');
    if (dot != NULL) {
        *dot = '\0';
    }
}

// A new layer with the output's shape: [1, N, C, H, W], rows [1, N, C].
static EsExportLayer *add_layer(Listing *l, EsExportKind kind, EsValueId x, EsValueId y) {
    const EsValue *in = &l->graph->values[x], *out = &l->graph->values[y];
    EsExportLayer *layer = &l->list->layers[l->list->n_layers++];
    *layer = (EsExportLayer){.kind = kind,
                             .in = {map_at(l, x), -1, -1},
                             .n_channels = (int)out->dim[2],
                             .height = out->rank == 5 ? (int)out->dim[3] : 1,
                             .width = out->rank == 5 ? (int)out->dim[4] : 1,
                             .n_inputs = (int)in->dim[2],
                             .kernel = 1};
    l->map_of[y] = l->list->n_layers;
    return layer;
}

static void add_weighted(Listing *l, EsExportKind kind, const EsNode *node, EsValueId bias) {
    EsExportLayer *layer = add_layer(l, kind, node->input[0], node->output[0]);
    const EsValue *weight = &l->graph->values[node->input[1]];
    layer->kernel = kind == ES_EXPORT_LINEAR ? 1 : (int)weight->dim[weight->rank - 1];
    layer->weight = weights_at(l, node->input[1]);
    layer->bias = weights_at(l, bias);
    name_layer(l, node->input[1], layer);
}

static void add_batchnorm(Listing *l, const EsNode *node) {
    EsExportLayer *layer = add_layer(l, ES_EXPORT_BATCHNORM, node->input[0], node->output[0]);
    const EsNode *running = &l->graph->nodes[l->graph->values[node->input[1]].producer];
    layer->mean = weights_at(l, running->input[0]);
    layer->variance = weights_at(l, running->input[1]);
    layer->epsilon = running->attributes.norm.epsilon;
    layer->weight = weights_at(l, node->input[3]);
    layer->bias = weights_at(l, node->input[4]);
    name_layer(l, node->input[3], layer);
}

static void add_groupnorm(Listing *l, const EsNode *node) {
    // statistics come first among the outputs, as the kernel has them
    EsExportLayer *layer = add_layer(l, ES_EXPORT_GROUPNORM, node->input[0], node->output[2]);
    layer->n_groups = node->attributes.norm.n_groups;
    layer->epsilon = node->attributes.norm.epsilon;
    layer->weight = weights_at(l, node->input[1]);
    layer->bias = weights_at(l, node->input[2]);
    name_layer(l, node->input[1], layer);
}

static void add_two(Listing *l, EsExportKind kind, const EsNode *node, float share) {
    EsExportLayer *layer = add_layer(l, kind, node->input[0], node->output[0]);
    layer->in[1] = map_at(l, node->input[1]);
    layer->share = share;
}

static const EsGrownSeed *seed_of(const Listing *l, EsValueId alpha) {
    int i = 0;
    while (l->network->single.alpha[i] != alpha) {
        i++;
    }
    return &l->network->spec.seeds[i];
}

static void add_blend(Listing *l, const EsNode *node) {
    const EsGrownSeed *seed = seed_of(l, node->input[ES_BLEND_INPUT_ALPHA]);
    switch (es_grown_seed_mode(seed)) {
    case ES_BLEND_MULTIPLY:
        add_two(l, ES_EXPORT_MULTIPLY, node, seed->alpha);
        break;
    case ES_BLEND_GATE:
        add_two(l, ES_EXPORT_GATED_MIX, node, seed->alpha);
        l->list->layers[l->list->n_layers - 1].in[2] = map_at(l, node->input[2]);
        break;
    default:
        if (seed->alpha < 1) {
            add_two(l, ES_EXPORT_MIX, node, seed->alpha);
        } else {
            l->map_of[node->output[0]] = map_at(l, node->input[1]);
        }
    }
}

static EsStatus add_pool(Listing *l, const EsNode *node) {
    if (node->attributes.pool == ES_POOL_AVERAGE2) {
        return ES_FAIL(UNSUPPORTED, "exports do not know averages over 2 x 2 pixels");
    }
    add_layer(l, node->attributes.pool == ES_POOL_MAX2 ? ES_EXPORT_MAXPOOL : ES_EXPORT_GLOBAL_MEAN,
              node->input[0], node->output[0]);
    return ES_STATUS_OK;
}

static EsStatus add_node(Listing *l, const EsNode *node) {
    static const EsExportKind activations[] = {[ES_ACTIVATION_RELU] = ES_EXPORT_RELU,
                                               [ES_ACTIVATION_TANH] = ES_EXPORT_TANH,
                                               [ES_ACTIVATION_SIGMOID] = ES_EXPORT_SIGMOID};
    switch (node->op) {
    case ES_OP_CONV2D_FORWARD:
        add_weighted(l, ES_EXPORT_CONV, node, node->input[2]);
        break;
    case ES_OP_DEPTHWISE_FORWARD:
        add_weighted(l, ES_EXPORT_DEPTHWISE, node, ES_NO_VALUE);
        break;
    case ES_OP_LINEAR_FORWARD:
        add_weighted(l, ES_EXPORT_LINEAR, node, node->input[2]);
        break;
    case ES_OP_BATCHNORM_FROM_RUNNING:
        break; // belongs to the next
    case ES_OP_BATCHNORM_APPLY:
        add_batchnorm(l, node);
        break;
    case ES_OP_GROUPNORM_FORWARD:
        add_groupnorm(l, node);
        break;
    case ES_OP_ACTIVATION_FORWARD:
        add_layer(l, activations[node->attributes.activation], node->input[0], node->output[0]);
        break;
    case ES_OP_POOL_FORWARD:
        return add_pool(l, node);
    case ES_OP_ADD:
        add_two(l, ES_EXPORT_ADD, node, 1);
        break;
    case ES_OP_NORM_MIX_FORWARD:
        add_two(l, ES_EXPORT_MIX, node, tanhf(*weights_at(l, node->input[2])));
        name_layer(l, node->input[2], &l->list->layers[l->list->n_layers - 1]);
        break;
    case ES_OP_CHANNEL_SCALE_FORWARD:
        add_two(l, ES_EXPORT_CHANNEL_SCALE, node, 1);
        break;
    case ES_OP_BLEND_FORWARD:
        add_blend(l, node);
        break;
    case ES_OP_SEED_INPUT:
    case ES_OP_RESHAPE: // of a gate's score
    case ES_OP_DETACH:
        l->map_of[node->output[0]] = map_at(l, node->input[0]);
        break;
    default:
        return ES_FAIL(UNSUPPORTED, "exports do not know the operation %s", es_op_name(node->op));
    }
    return ES_STATUS_OK;
}

EsStatus es_export_list_create(const EsGrownNetwork *network, EsExportList *list) {
    const EsGrownGraph *single = &network->single;
    Listing l = {network, single->graph, list, NULL};
    EsStatus status = ES_STATUS_OK;
    *list = (EsExportList){0};
    ES_TRY_GOTO(
        es_allocate(sizeof *list->layers * (size_t)single->graph->n_nodes, (void **)&list->layers));
    ES_TRY_GOTO(
        es_allocate(sizeof *l.map_of * (size_t)single->graph->n_values, (void **)&l.map_of));
    memset(l.map_of, -1, sizeof *l.map_of * (size_t)single->graph->n_values);
    l.map_of[single->input] = 0;
    for (int i = 0; i < single->graph->n_nodes; i++) {
        ES_TRY_GOTO(add_node(&l, &single->graph->nodes[i]));
    }
    list->output = l.map_of[single->logits];
done:
    es_release(l.map_of);
    if (status != ES_STATUS_OK) {
        es_export_list_destroy(list);
    }
    return status;
}

void es_export_list_destroy(EsExportList *list) {
    es_release(list->layers);
    list->layers = NULL;
}

EsExportShape es_export_map_shape(const EsGrownNetwork *network, const EsExportList *list,
                                  int map) {
    const EsHostSpec *host = &network->spec.host;
    const EsExportLayer *layer = &list->layers[ES_MAX(map - 1, 0)];
    return map == 0 ? (EsExportShape){host->image_channels, host->image_size, host->image_size}
                    : (EsExportShape){layer->n_channels, layer->height, layer->width};
}

int64_t es_export_map_count(const EsGrownNetwork *network, const EsExportList *list, int map) {
    EsExportShape shape = es_export_map_shape(network, list, map);
    return (int64_t)shape.n_channels * shape.height * shape.width;
}
