// A network as a PyTorch module: one Python file that reads network.safetensors by itself. Weights
// are parameters, running statistics buffers, so that the module can also be trained on.
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "fit/network_export.h"

static const char head[] =
    "import json\n"
    "import os\n"
    "import struct\n"
    "\n"
    "import torch\n"
    "import torch.nn.functional as F\n"
    "\n"
    "\n"
    "def read_safetensors(path):\n"
    "    \"\"\"The tensors of a safetensors file of float32 numbers, by name.\"\"\"\n"
    "    with open(path, \"rb\") as file:\n"
    "        (length,) = struct.unpack(\"<Q\", file.read(8))\n"
    "        header = json.loads(file.read(length))\n"
    "        data = bytearray(file.read())\n"
    "    tensors = {}\n"
    "    for name, entry in header.items():\n"
    "        if name != \"__metadata__\":\n"
    "            first, end = entry[\"data_offsets\"]\n"
    "            flat = torch.frombuffer(data, dtype=torch.float32, count=(end - first) // 4,"
    " offset=first)\n"
    "            tensors[name] = flat.reshape(entry[\"shape\"]).clone()\n"
    "    return tensors\n"
    "\n"
    "\n";

// A text of Python: characters outside ASCII as \u, which no encoding of the file can spoil.
static void put_text(FILE *stream, const char *text) {
    fputc('"', stream);
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\') {
            fprintf(stream, "\\%c", *at);
        } else if (*at < ' ' || *at == 127) {
            fprintf(stream, "\\x%02x", *at);
        } else {
            fputc(*at, stream); // UTF-8 is Python's own encoding
        }
    }
    fputc('"', stream);
}

static void put_numbers(FILE *stream, const EsGrownNetwork *network, int is_scale) {
    fputc('[', stream);
    for (int c = 0; c < network->spec.host.image_channels; c++) {
        float centre = 0, scale = 0;
        es_grown_network_normaliser(network, c, &centre, &scale);
        fprintf(stream, "%s%.9g", c > 0 ? ", " : "", (double)(is_scale ? scale : centre));
    }
    fputc(']', stream);
}

static void put_init(FILE *stream, const EsGrownNetwork *network) {
    const EsHostSpec *host = &network->spec.host;
    int is_rows = network->spec.kind == ES_INPUT_ROWS;
    fprintf(stream, "class Network(torch.nn.Module):\n    \"\"\"%s: ", is_rows ? "Rows" : "Images");
    if (is_rows) {
        fprintf(stream, "columns as measured [N, %d]", host->image_channels);
    } else {
        fprintf(stream, "pixels 0 to 255 [N, %d, %d, %d]", host->image_channels, host->image_size,
                host->image_size);
    }
    fprintf(stream, " to logits [N, %d].\"\"\"\n\n    classes = [", host->n_classes);
    for (int k = 0; k < host->n_classes; k++) {
        fprintf(stream, k > 0 ? ", " : "");
        put_text(stream, network->spec.class_names[k]);
    }
    fprintf(stream,
            "]\n\n"
            "    def __init__(self, path=None):\n"
            "        \"\"\"`path`: the network.safetensors; None: the one beside this file.\"\"\"\n"
            "        super().__init__()\n"
            "        if path is None:\n"
            "            path = os.path.join(os.path.dirname(os.path.abspath(__file__)),"
            " \"" ES_NETWORK_TENSORS_FILE "\")\n"
            "        for name, tensor in read_safetensors(path).items():\n"
            "            key = name.replace(\".\", \"_\")\n"
            "            if \"running_\" in name:\n"
            "                self.register_buffer(key, tensor)\n"
            "            else:\n"
            "                self.register_parameter(key, torch.nn.Parameter(tensor))\n"
            "        self.register_buffer(\"centre\", torch.tensor(");
    put_numbers(stream, network, 0);
    fprintf(stream,
            ").reshape(1, -1, 1, 1))\n        self.register_buffer(\"scale\", torch.tensor(");
    put_numbers(stream, network, 1);
    fprintf(stream,
            ").reshape(1, -1, 1, 1))\n\n"
            "    def forward(self, x):\n"
            "        w = self\n"
            "        m0 = (x.float()%s - w.centre) * w.scale\n",
            is_rows ? ".reshape(x.shape[0], -1, 1, 1)" : "");
}

// self's name of a part of the layer
static void put_part(FILE *stream, const EsExportLayer *layer, const char *part) {
    fputs("w.", stream);
    for (const char *at = layer->name; *at != '\0'; at++) {
        fputc(*at == '.' ? '_' : *at, stream);
    }
    fprintf(stream, "_%s", part);
}

static void put_norm_parts(FILE *stream, const EsExportLayer *layer) {
    fputs(", ", stream);
    put_part(stream, layer, "gamma");
    fputs(", ", stream);
    put_part(stream, layer, "beta");
}

static void put_bias(FILE *stream, const EsExportLayer *layer) {
    fputs(", ", stream);
    if (layer->bias != NULL) {
        put_part(stream, layer, "bias");
    } else {
        fputs("None", stream);
    }
}

static void put_convolution(FILE *stream, const EsExportLayer *layer) {
    int is_depthwise = layer->kind == ES_EXPORT_DEPTHWISE;
    fprintf(stream, "F.conv2d(m%d, ", layer->in[0]);
    put_part(stream, layer, "weight");
    if (is_depthwise) {
        fprintf(stream, ".reshape(%d, 1, %d, %d)", layer->n_channels, layer->kernel, layer->kernel);
    }
    put_bias(stream, layer);
    fprintf(stream, ", padding=%d, groups=%d)", layer->kernel / 2,
            is_depthwise ? layer->n_channels : 1);
}

static void put_norm(FILE *stream, const EsExportLayer *layer) {
    int is_batch = layer->kind == ES_EXPORT_BATCHNORM;
    if (is_batch) {
        fprintf(stream, "F.batch_norm(m%d, ", layer->in[0]);
        put_part(stream, layer, "running_mean");
        fputs(", ", stream);
        put_part(stream, layer, "running_variance");
    } else {
        fprintf(stream, "F.group_norm(m%d, %d", layer->in[0], layer->n_groups);
    }
    put_norm_parts(stream, layer);
    fprintf(stream, "%s, %.9g)", is_batch ? ", self.training, 0.1" : "", (double)layer->epsilon);
}

// The share is a constant of the blend, or a parameter of the layer.
static void put_mix(FILE *stream, const EsExportLayer *layer) {
    fprintf(stream, "m%d + ", layer->in[0]);
    if (layer->name[0] != '\0') {
        fputs("torch.tanh(", stream);
        put_part(stream, layer, "mix");
        fputc(')', stream);
    } else {
        fprintf(stream, "%.9g", (double)layer->share);
    }
    fprintf(stream, " * (m%d - m%d)", layer->in[1], layer->in[0]);
}

static void put_layer(FILE *stream, const EsExportLayer *layer, int map) {
    int a = layer->in[0], b = layer->in[1];
    fprintf(stream, "        m%d = ", map);
    switch (layer->kind) {
    case ES_EXPORT_CONV:
    case ES_EXPORT_DEPTHWISE:
        put_convolution(stream, layer);
        break;
    case ES_EXPORT_BATCHNORM:
    case ES_EXPORT_GROUPNORM:
        put_norm(stream, layer);
        break;
    case ES_EXPORT_RELU:
        fprintf(stream, "torch.relu(m%d)", a);
        break;
    case ES_EXPORT_TANH:
        fprintf(stream, "torch.tanh(m%d)", a);
        break;
    case ES_EXPORT_SIGMOID:
        fprintf(stream, "torch.sigmoid(m%d)", a);
        break;
    case ES_EXPORT_MAXPOOL:
        fprintf(stream, "F.max_pool2d(m%d, 2)", a);
        break;
    case ES_EXPORT_GLOBAL_MEAN:
        fprintf(stream, "m%d.mean((2, 3))", a);
        break;
    case ES_EXPORT_LINEAR:
        fprintf(stream, "F.linear(m%d, ", a);
        put_part(stream, layer, "weight");
        put_bias(stream, layer);
        fputc(')', stream);
        break;
    case ES_EXPORT_ADD:
        fprintf(stream, "m%d + m%d", a, b);
        break;
    case ES_EXPORT_MIX:
        put_mix(stream, layer);
        break;
    case ES_EXPORT_GATED_MIX:
        fprintf(stream, "m%d + %.9g * m%d[:, :, None, None] * (m%d - m%d)", a, (double)layer->share,
                layer->in[2], b, a);
        break;
    case ES_EXPORT_MULTIPLY:
        fprintf(stream, "m%d * (1 + %.9g * torch.tanh(m%d - m%d))", a, (double)layer->share, b, a);
        break;
    case ES_EXPORT_CHANNEL_SCALE:
        fprintf(stream, "m%d * m%d[:, :, None, None]", a, b);
        break;
    }
    fputc('\n', stream);
}

EsStatus es_grown_export_torch(const EsGrownNetwork *network, const char *path) {
    EsExportList list;
    char *text = NULL;
    size_t bytes = 0;
    ES_TRY(es_export_list_create(network, &list));
    FILE *stream = open_memstream(&text, &bytes);
    EsStatus status = stream != NULL ? ES_STATUS_OK : ES_FAIL(MEMORY, "no memory for %s", path);
    if (status == ES_STATUS_OK) {
        fprintf(stream, "# The grown network ");
        put_text(stream, network->spec.host.name);
        fprintf(stream,
                ", %lld parameters, written by esper export.\n"
                "#\n"
                "#     network = Network().eval()\n"
                "#     probabilities = torch.softmax(network(inputs), 1)\n",
                (long long)network->n_parameters);
        fputs(head, stream);
        put_init(stream, network);
        for (int i = 0; i < list.n_layers; i++) {
            put_layer(stream, &list.layers[i], i + 1);
        }
        fprintf(stream, "        return m%d\n", list.output);
        status = es_memory_stream_close(stream, &text);
    }
    if (status == ES_STATUS_OK) {
        status = es_file_write_all(path, text, bytes);
    }
    free(text);
    es_export_list_destroy(&list);
    return status;
}
