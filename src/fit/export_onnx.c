// A network as an ONNX model, opset 17, written with a small encoder of protocol buffers. Group
// norms are decomposed into means, differences and products, which every runtime has.
//
// Field numbers are those of onnx.proto3 (https://github.com/onnx/onnx): they never change.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "esper/version.h"
#include "fit/network_export.h"

// --- protocol buffers: a message is bytes that grow ---

typedef struct Message {
    uint8_t *bytes; // owned
    size_t count, capacity;
    EsStatus status; // of the first allocation that failed
} Message;

static void put_bytes(Message *m, const void *bytes, size_t count) {
    if (m->status == ES_STATUS_OK && m->count + count > m->capacity) {
        size_t capacity = ES_MAX(2 * m->capacity, m->count + count + 256);
        m->status = es_reallocate((void **)&m->bytes, m->capacity, capacity);
        m->capacity = m->status == ES_STATUS_OK ? capacity : m->capacity;
    }
    if (m->status == ES_STATUS_OK && count > 0) {
        memcpy(m->bytes + m->count, bytes, count);
        m->count += count;
    }
}

static void put_varint(Message *m, uint64_t value) {
    uint8_t bytes[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7) {
        bytes[n++] = (uint8_t)(value | 0x80);
    }
    bytes[n++] = (uint8_t)value;
    put_bytes(m, bytes, n);
}

enum { WIRE_VARINT = 0, WIRE_BYTES = 2, WIRE_FLOAT = 5 };

static void put_integer(Message *m, int field, int64_t value) {
    put_varint(m, (uint64_t)field << 3 | WIRE_VARINT);
    put_varint(m, (uint64_t)value);
}

static void put_float(Message *m, int field, float value) {
    put_varint(m, (uint64_t)field << 3 | WIRE_FLOAT);
    put_bytes(m, &value, sizeof value); // little-endian, as the machines we run on
}

static void put_data(Message *m, int field, const void *bytes, size_t count) {
    put_varint(m, (uint64_t)field << 3 | WIRE_BYTES);
    put_varint(m, count);
    put_bytes(m, bytes, count);
}

static void put_text(Message *m, int field, const char *text) {
    put_data(m, field, text, strlen(text));
}

// Puts a message into another one, and ends it.
static void put_message(Message *m, int field, Message *inner) {
    if (inner->status == ES_STATUS_OK) {
        put_data(m, field, inner->bytes, inner->count);
    } else if (m->status == ES_STATUS_OK) {
        m->status = inner->status;
    }
    es_release(inner->bytes);
    *inner = (Message){0};
}

// --- ONNX ---

// fields
enum {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER_NAME = 2,
    MODEL_PRODUCER_VERSION = 3,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    MODEL_METADATA = 14,
    OPSET_DOMAIN = 1,
    OPSET_VERSION = 2,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OP = 4,
    NODE_ATTRIBUTE = 5,
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_F = 2,
    ATTRIBUTE_I = 3,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_TYPE = 20,
    TENSOR_DIMS = 1,
    TENSOR_TYPE = 2,
    TENSOR_NAME = 8,
    TENSOR_RAW = 9,
    VALUE_NAME = 1,
    VALUE_TYPE = 2,
    TYPE_TENSOR = 1,
    TENSOR_ELEMENT = 1,
    TENSOR_SHAPE = 2,
    SHAPE_DIM = 1,
    DIM_VALUE = 1,
    DIM_NAME = 2
};
enum { TYPE_FLOAT = 1, TYPE_INT64 = 7 };
enum { ATTRIBUTE_IS_FLOAT = 1, ATTRIBUTE_IS_INT = 2, ATTRIBUTE_IS_INTS = 7 };
enum { IR_VERSION = 8, OPSET = 17 };

#define NAME_BYTES 128

typedef struct Writer {
    const EsGrownNetwork *network;
    const EsExportList *list;
    Message graph, node;
    int n_helpers; // names of values between the steps of one layer
} Writer;

// Begins a node; attributes may follow, until end_node. Empty names are optional inputs left out.
static void begin_node(Writer *w, const char *op, const char *output, int n_inputs, ...) {
    va_list inputs;
    va_start(inputs, n_inputs);
    for (int i = 0; i < n_inputs; i++) {
        put_text(&w->node, NODE_INPUT, va_arg(inputs, const char *));
    }
    va_end(inputs);
    put_text(&w->node, NODE_OUTPUT, output);
    put_text(&w->node, NODE_NAME, output);
    put_text(&w->node, NODE_OP, op);
}

static void end_node(Writer *w) { put_message(&w->graph, GRAPH_NODE, &w->node); }

// n times the same.
static void set_integers(Writer *w, const char *name, int n, int64_t value) {
    Message attribute = {0};
    put_text(&attribute, ATTRIBUTE_NAME, name);
    for (int i = 0; i < n; i++) {
        put_integer(&attribute, ATTRIBUTE_INTS, value);
    }
    put_integer(&attribute, ATTRIBUTE_TYPE, ATTRIBUTE_IS_INTS);
    put_message(&w->node, NODE_ATTRIBUTE, &attribute);
}

static void set_integer(Writer *w, const char *name, int64_t value) {
    Message attribute = {0};
    put_text(&attribute, ATTRIBUTE_NAME, name);
    put_integer(&attribute, ATTRIBUTE_I, value);
    put_integer(&attribute, ATTRIBUTE_TYPE, ATTRIBUTE_IS_INT);
    put_message(&w->node, NODE_ATTRIBUTE, &attribute);
}

static void set_real(Writer *w, const char *name, float value) {
    Message attribute = {0};
    put_text(&attribute, ATTRIBUTE_NAME, name);
    put_float(&attribute, ATTRIBUTE_F, value);
    put_integer(&attribute, ATTRIBUTE_TYPE, ATTRIBUTE_IS_FLOAT);
    put_message(&w->node, NODE_ATTRIBUTE, &attribute);
}

// The axes of a mean: from `first` on, n of them.
static void set_axes(Writer *w, int n, int64_t first, int keeps) {
    Message attribute = {0};
    put_text(&attribute, ATTRIBUTE_NAME, "axes");
    for (int i = 0; i < n; i++) {
        put_integer(&attribute, ATTRIBUTE_INTS, first + i);
    }
    put_integer(&attribute, ATTRIBUTE_TYPE, ATTRIBUTE_IS_INTS);
    put_message(&w->node, NODE_ATTRIBUTE, &attribute);
    set_integer(w, "keepdims", keeps);
}

static void add_node(Writer *w, const char *op, const char *output, const char *a, const char *b) {
    begin_node(w, op, output, b != NULL ? 2 : 1, a, b);
    end_node(w);
}

static void add_tensor(Writer *w, const char *name, int type, int rank, const int64_t *dims,
                       const void *data) {
    Message tensor = {0};
    int64_t count = 1;
    for (int i = 0; i < rank; i++) {
        put_integer(&tensor, TENSOR_DIMS, dims[i]);
        count *= dims[i];
    }
    put_integer(&tensor, TENSOR_TYPE, type);
    put_text(&tensor, TENSOR_NAME, name);
    put_data(&tensor, TENSOR_RAW, data,
             (size_t)count * (type == TYPE_FLOAT ? sizeof(float) : sizeof(int64_t)));
    put_message(&w->graph, GRAPH_INITIALIZER, &tensor);
}

static void add_numbers(Writer *w, const char *name, int rank, const int64_t *dims,
                        const float *data) {
    add_tensor(w, name, TYPE_FLOAT, rank, dims, data);
}

// --- names ---

typedef struct Name {
    char text[NAME_BYTES];
} Name;

static Name map_name(const Writer *w, int map) {
    Name name;
    if (map == w->list->output) {
        snprintf(name.text, sizeof name.text, "logits");
    } else {
        snprintf(name.text, sizeof name.text, "map%d", map);
    }
    return name;
}

static Name helper_name(Writer *w) {
    Name name;
    snprintf(name.text, sizeof name.text, "step%d", w->n_helpers++);
    return name;
}

static Name part_name(const EsExportLayer *layer, const char *part) {
    Name name;
    snprintf(name.text, sizeof name.text, "%s.%s", layer->name, part);
    return name;
}

// --- layers ---

static void write_conv(Writer *w, const EsExportLayer *layer, Name x, Name y) {
    Name weight = part_name(layer, "weight"), bias = part_name(layer, "bias");
    int is_depthwise = layer->kind == ES_EXPORT_DEPTHWISE;
    const int64_t dims[] = {layer->n_channels, is_depthwise ? 1 : layer->n_inputs, layer->kernel,
                            layer->kernel};
    add_numbers(w, weight.text, 4, dims, layer->weight);
    begin_node(w, "Conv", y.text, layer->bias != NULL ? 3 : 2, x.text, weight.text, bias.text);
    if (layer->bias != NULL) {
        add_numbers(w, bias.text, 1, dims, layer->bias);
    }
    set_integers(w, "kernel_shape", 2, layer->kernel);
    set_integers(w, "pads", 4, layer->kernel / 2);
    set_integer(w, "group", is_depthwise ? layer->n_channels : 1);
    end_node(w);
}

static void write_linear(Writer *w, const EsExportLayer *layer, Name x, Name y) {
    Name weight = part_name(layer, "weight"), bias = part_name(layer, "bias");
    const int64_t dims[] = {layer->n_channels, layer->n_inputs};
    add_numbers(w, weight.text, 2, dims, layer->weight);
    if (layer->bias != NULL) {
        add_numbers(w, bias.text, 1, dims, layer->bias);
    }
    begin_node(w, "Gemm", y.text, layer->bias != NULL ? 3 : 2, x.text, weight.text, bias.text);
    set_integer(w, "transB", 1);
    end_node(w);
}

static void write_batchnorm(Writer *w, const EsExportLayer *layer, Name x, Name y) {
    const struct {
        Name name;
        const float *data;
    } parts[] = {{part_name(layer, "gamma"), layer->weight},
                 {part_name(layer, "beta"), layer->bias},
                 {part_name(layer, "running_mean"), layer->mean},
                 {part_name(layer, "running_variance"), layer->variance}};
    for (size_t i = 0; i < ES_COUNT_OF(parts); i++) {
        add_numbers(w, parts[i].name.text, 1, (int64_t[]){layer->n_channels}, parts[i].data);
    }
    begin_node(w, "BatchNormalization", y.text, 5, x.text, parts[0].name.text, parts[1].name.text,
               parts[2].name.text, parts[3].name.text);
    set_real(w, "epsilon", layer->epsilon);
    end_node(w);
}

static Name add_constant(Writer *w, float value) {
    Name name = helper_name(w);
    add_numbers(w, name.text, 0, NULL, &value);
    return name;
}

static Name reshape(Writer *w, Name x, int rank, const int64_t *dims) {
    Name shape = helper_name(w), y = helper_name(w);
    add_tensor(w, shape.text, TYPE_INT64, 1, (int64_t[]){rank}, dims);
    add_node(w, "Reshape", y.text, x.text, shape.text);
    return y;
}

static Name add_step(Writer *w, const char *op, Name a, Name b) {
    Name y = helper_name(w);
    add_node(w, op, y.text, a.text, b.text);
    return y;
}

static Name add_mean(Writer *w, Name x, int n_axes, int64_t first, int keeps) {
    Name y = helper_name(w);
    begin_node(w, "ReduceMean", y.text, 1, x.text);
    set_axes(w, n_axes, first, keeps);
    end_node(w);
    return y;
}

// [N, C, H, W] as [N, groups, all the rest], 0: as the input has it.
static void write_groupnorm(Writer *w, const EsExportLayer *layer, Name x, Name y) {
    Name gamma = part_name(layer, "gamma"), beta = part_name(layer, "beta");
    const int64_t per_channel[] = {layer->n_channels, 1, 1};
    add_numbers(w, gamma.text, 3, per_channel, layer->weight);
    add_numbers(w, beta.text, 3, per_channel, layer->bias);
    Name grouped = reshape(w, x, 3, (int64_t[]){0, layer->n_groups, -1});
    Name centred = add_step(w, "Sub", grouped, add_mean(w, grouped, 1, 2, 1));
    Name variance = add_mean(w, add_step(w, "Mul", centred, centred), 1, 2, 1);
    Name moved = add_step(w, "Add", variance, add_constant(w, layer->epsilon));
    Name deviation = helper_name(w);
    add_node(w, "Sqrt", deviation.text, moved.text, NULL);
    Name normal = reshape(w, add_step(w, "Div", centred, deviation), 4,
                          (int64_t[]){0, layer->n_channels, layer->height, layer->width});
    add_node(w, "Add", y.text, add_step(w, "Mul", normal, gamma).text, beta.text);
}

static void write_pool(Writer *w, const EsExportLayer *layer, Name x, Name y) {
    if (layer->kind == ES_EXPORT_MAXPOOL) {
        begin_node(w, "MaxPool", y.text, 1, x.text);
        set_integers(w, "kernel_shape", 2, 2);
        set_integers(w, "strides", 2, 2);
    } else {
        begin_node(w, "ReduceMean", y.text, 1, x.text);
        set_axes(w, 2, 2, 0);
    }
    end_node(w);
}

// [N, C] as [N, C, 1, 1]
static Name add_pixel_axes(Writer *w, Name x) {
    Name axes = helper_name(w), y = helper_name(w);
    add_tensor(w, axes.text, TYPE_INT64, 1, (int64_t[]){2}, (int64_t[]){2, 3});
    add_node(w, "Unsqueeze", y.text, x.text, axes.text);
    return y;
}

static void write_mix(Writer *w, const EsExportLayer *layer, Name x, Name seed, Name y) {
    Name difference = add_step(w, "Sub", seed, x), share = add_constant(w, layer->share);
    if (layer->kind == ES_EXPORT_GATED_MIX) {
        share = add_step(w, "Mul", add_pixel_axes(w, map_name(w, layer->in[2])), share);
    }
    add_node(w, "Add", y.text, x.text, add_step(w, "Mul", difference, share).text);
}

static void write_multiply(Writer *w, const EsExportLayer *layer, Name x, Name seed, Name y) {
    Name bent = helper_name(w);
    add_node(w, "Tanh", bent.text, add_step(w, "Sub", seed, x).text, NULL);
    Name factor = add_step(w, "Add", add_step(w, "Mul", bent, add_constant(w, layer->share)),
                           add_constant(w, 1));
    add_node(w, "Mul", y.text, x.text, factor.text);
}

static void write_layer(Writer *w, int i) {
    const EsExportLayer *layer = &w->list->layers[i];
    Name x = map_name(w, layer->in[0]), y = map_name(w, i + 1);
    Name other = map_name(w, layer->in[1]);
    switch (layer->kind) {
    case ES_EXPORT_CONV:
    case ES_EXPORT_DEPTHWISE:
        write_conv(w, layer, x, y);
        break;
    case ES_EXPORT_BATCHNORM:
        write_batchnorm(w, layer, x, y);
        break;
    case ES_EXPORT_GROUPNORM:
        write_groupnorm(w, layer, x, y);
        break;
    case ES_EXPORT_RELU:
        add_node(w, "Relu", y.text, x.text, NULL);
        break;
    case ES_EXPORT_TANH:
        add_node(w, "Tanh", y.text, x.text, NULL);
        break;
    case ES_EXPORT_SIGMOID:
        add_node(w, "Sigmoid", y.text, x.text, NULL);
        break;
    case ES_EXPORT_MAXPOOL:
    case ES_EXPORT_GLOBAL_MEAN:
        write_pool(w, layer, x, y);
        break;
    case ES_EXPORT_LINEAR:
        write_linear(w, layer, x, y);
        break;
    case ES_EXPORT_ADD:
        add_node(w, "Add", y.text, x.text, other.text);
        break;
    case ES_EXPORT_MIX:
    case ES_EXPORT_GATED_MIX:
        write_mix(w, layer, x, other, y);
        break;
    case ES_EXPORT_MULTIPLY:
        write_multiply(w, layer, x, other, y);
        break;
    case ES_EXPORT_CHANNEL_SCALE:
        add_node(w, "Mul", y.text, x.text, add_pixel_axes(w, other).text);
        break;
    }
}

// --- the model ---

// A float tensor [N, dims...] at the border of the graph.
static void write_border(Writer *w, int field, const char *name, int rank, const int64_t *dims) {
    Message dim = {0}, shape = {0}, tensor = {0}, type = {0}, value = {0};
    put_text(&dim, DIM_NAME, "N");
    put_message(&shape, SHAPE_DIM, &dim);
    for (int i = 0; i < rank; i++) {
        put_integer(&dim, DIM_VALUE, dims[i]);
        put_message(&shape, SHAPE_DIM, &dim);
    }
    put_integer(&tensor, TENSOR_ELEMENT, TYPE_FLOAT);
    put_message(&tensor, TENSOR_SHAPE, &shape);
    put_message(&type, TYPE_TENSOR, &tensor);
    put_text(&value, VALUE_NAME, name);
    put_message(&value, VALUE_TYPE, &type);
    put_message(&w->graph, field, &value);
}

// (input - centre) scale is map 0; rows become images of one pixel.
static EsStatus write_input(Writer *w) {
    const EsHostSpec *host = &w->network->spec.host;
    int is_rows = w->network->spec.kind == ES_INPUT_ROWS;
    const int64_t dims[] = {host->image_channels, host->image_size, host->image_size};
    const int64_t per_channel[] = {host->image_channels, 1, 1};
    float *numbers = NULL;
    size_t n = (size_t)host->image_channels;
    ES_TRY(es_allocate(2 * sizeof *numbers * n, (void **)&numbers));
    for (int c = 0; c < host->image_channels; c++) {
        es_grown_network_normaliser(w->network, c, &numbers[c], &numbers[n + (size_t)c]);
    }
    write_border(w, GRAPH_INPUT, "input", is_rows ? 1 : 3, dims);
    add_numbers(w, "input.centre", is_rows ? 1 : 3, per_channel, numbers);
    add_numbers(w, "input.scale", is_rows ? 1 : 3, per_channel, numbers + n);
    es_release(numbers);
    add_node(w, "Sub", "input.centred", "input", "input.centre");
    add_node(w, "Mul", is_rows ? "input.normal" : "map0", "input.centred", "input.scale");
    if (is_rows) {
        const int64_t axes[] = {2, 3};
        add_tensor(w, "input.axes", TYPE_INT64, 1, (int64_t[]){2}, axes);
        add_node(w, "Unsqueeze", "map0", "input.normal", "input.axes");
    }
    return ES_STATUS_OK;
}

static void put_entry(Message *model, const char *key, const char *value) {
    Message entry = {0};
    put_text(&entry, ENTRY_KEY, key);
    put_text(&entry, ENTRY_VALUE, value);
    put_message(model, MODEL_METADATA, &entry);
}

static void write_model(Writer *w, Message *model) {
    Message opset = {0};
    put_text(&opset, OPSET_DOMAIN, "");
    put_integer(&opset, OPSET_VERSION, OPSET);
    put_integer(model, MODEL_IR_VERSION, IR_VERSION);
    put_text(model, MODEL_PRODUCER_NAME, "esper");
    put_text(model, MODEL_PRODUCER_VERSION, ES_VERSION);
    put_message(model, MODEL_GRAPH, &w->graph);
    put_message(model, MODEL_OPSET, &opset);
    for (int k = 0; k < w->network->spec.host.n_classes; k++) {
        char key[32];
        snprintf(key, sizeof key, "class.%d", k);
        put_entry(model, key, w->network->spec.class_names[k]);
    }
}

EsStatus es_grown_export_onnx(const EsGrownNetwork *network, const char *path) {
    EsExportList list;
    Message model = {0};
    ES_TRY(es_export_list_create(network, &list));
    Writer w = {.network = network, .list = &list};
    put_text(&w.graph, GRAPH_NAME, network->spec.host.name);
    EsStatus status = write_input(&w);
    for (int i = 0; i < list.n_layers; i++) {
        write_layer(&w, i);
    }
    write_border(&w, GRAPH_OUTPUT, "logits", 1, (int64_t[]){network->spec.host.n_classes});
    write_model(&w, &model);
    status = status == ES_STATUS_OK ? model.status : status;
    if (status == ES_STATUS_OK) {
        status = es_file_write_all(path, model.bytes, model.count);
    }
    es_release(model.bytes);
    es_export_list_destroy(&list);
    return status;
}
