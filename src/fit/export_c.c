// A network as one C99 file with its weights: no other code than libm, no allocation, maps in one
// static array that they share by the time they live. Batch norms are folded into the convolutions
// before them.
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "esper/version.h"
#include "fit/export_int8.h"

#define PATH_BYTES 4096

// --- weights ---

static void put_array(FILE *stream, const char *what, int number, const float *numbers,
                      int64_t count) {
    fprintf(stream, "static const float %s%d[%lld] = {", what, number, (long long)count);
    for (int64_t i = 0; i < count; i++) {
        fprintf(stream, "%s%.8ef", i % 6 == 0 ? (i == 0 ? "\n    " : ",\n    ") : ", ",
                (double)numbers[i]);
    }
    fprintf(stream, "};\n");
}

static void put_bytes(FILE *stream, int number, const int8_t *numbers, int64_t count) {
    fprintf(stream, "static const signed char weight%d[%lld] = {", number, (long long)count);
    for (int64_t i = 0; i < count; i++) {
        fprintf(stream, "%s%d", i % 20 == 0 ? (i == 0 ? "\n    " : ",\n    ") : ", ", numbers[i]);
    }
    fprintf(stream, "};\n");
}

static void put_int8_weights(FILE *stream, const EsExportPlan *plan, int c) {
    const EsInt8Call *call = &plan->int8->calls[c];
    const EsExportLayer *layer = &plan->list.layers[plan->calls[c].layer];
    fprintf(stream, "\n/* %s */\n", layer->name);
    put_bytes(stream, c, call->weight, call->n_weights);
    put_array(stream, "factor", c, call->weight_scale, layer->n_channels);
    put_array(stream, "bias", c, call->bias, layer->n_channels);
}

static EsStatus put_weights(const EsExportPlan *plan, FILE *stream) {
    for (int c = 0; c < plan->n_calls; c++) {
        const EsExportCall *call = &plan->calls[c];
        const EsExportLayer *layer = &plan->list.layers[call->layer];
        if (es_export_is_weighted(layer->kind) && plan->int8 != NULL) {
            put_int8_weights(stream, plan, c);
        } else if (es_export_is_weighted(layer->kind)) {
            float *weight = NULL, *bias = NULL;
            int64_t n_weights = 0;
            EsStatus status = es_export_fold(plan, call, &weight, &bias, &n_weights);
            if (status == ES_STATUS_OK) {
                fprintf(stream, "\n/* %s */\n", layer->name);
                put_array(stream, "weight", c, weight, n_weights);
                put_array(stream, "bias", c, bias, layer->n_channels);
            }
            es_release(weight);
            es_release(bias);
            ES_TRY(status);
        } else if (layer->kind == ES_EXPORT_GROUPNORM) {
            fprintf(stream, "\n/* %s */\n", layer->name);
            put_array(stream, "gamma", c, layer->weight, layer->n_channels);
            put_array(stream, "beta", c, layer->bias, layer->n_channels);
        }
    }
    return ES_STATUS_OK;
}

// --- functions that the file may need; those that it does are written ---

static const struct {
    EsExportKind kind;
    const char *text;
} functions[] = {
    {ES_EXPORT_CONV,
     "/* y[O][H][W] = x[I][H][W] * w[O][I][K][K] + b, zero padding, then ReLU if asked */\n"
     "static void convolve(const float *x, const float *w, const float *b, float *y, int I, int "
     "O,\n"
     "                     int H, int W, int K, int relu) {\n"
     "    int o, i, p, q, r, c;\n"
     "    for (o = 0; o < O; o++) {\n"
     "        float *out = y + (long)o * H * W;\n"
     "        for (r = 0; r < H * W; r++) out[r] = b[o];\n"
     "        for (i = 0; i < I; i++) {\n"
     "            const float *in = x + (long)i * H * W;\n"
     "            for (p = 0; p < K; p++)\n"
     "                for (q = 0; q < K; q++) {\n"
     "                    const float f = w[(((long)o * I + i) * K + p) * K + q];\n"
     "                    const int dy = p - K / 2, dx = q - K / 2;\n"
     "                    const int r0 = dy < 0 ? -dy : 0, r1 = dy > 0 ? H - dy : H;\n"
     "                    const int c0 = dx < 0 ? -dx : 0, c1 = dx > 0 ? W - dx : W;\n"
     "                    for (r = r0; r < r1; r++)\n"
     "                        for (c = c0; c < c1; c++)\n"
     "                            out[r * W + c] += f * in[(r + dy) * W + c + dx];\n"
     "                }\n"
     "        }\n"
     "        for (r = 0; relu && r < H * W; r++)\n"
     "            if (!(out[r] > 0.0f)) out[r] = 0.0f;\n"
     "    }\n"
     "}\n"},
    {ES_EXPORT_DEPTHWISE,
     "/* every channel with a filter of its own: w[C][K][K] */\n"
     "static void convolve_depthwise(const float *x, const float *w, const float *b, float *y,\n"
     "                               int C, int H, int W, int K, int relu) {\n"
     "    int o, p, q, r, c;\n"
     "    for (o = 0; o < C; o++)\n"
     "        for (r = 0; r < H; r++)\n"
     "            for (c = 0; c < W; c++) {\n"
     "                float sum = b[o];\n"
     "                for (p = 0; p < K; p++)\n"
     "                    for (q = 0; q < K; q++) {\n"
     "                        const int u = r + p - K / 2, v = c + q - K / 2;\n"
     "                        if (u >= 0 && u < H && v >= 0 && v < W)\n"
     "                            sum += w[(o * K + p) * K + q] * x[((long)o * H + u) * W + v];\n"
     "                    }\n"
     "                y[((long)o * H + r) * W + c] = relu && !(sum > 0.0f) ? 0.0f : sum;\n"
     "            }\n"
     "}\n"},
    {ES_EXPORT_LINEAR, "/* y[O] = w[O][I] x[I] + b */\n"
                       "static void multiply(const float *x, const float *w, const float *b, float "
                       "*y, int I, int O,\n"
                       "                     int relu) {\n"
                       "    int o, i;\n"
                       "    for (o = 0; o < O; o++) {\n"
                       "        float sum = b[o];\n"
                       "        for (i = 0; i < I; i++) sum += w[(long)o * I + i] * x[i];\n"
                       "        y[o] = relu && !(sum > 0.0f) ? 0.0f : sum;\n"
                       "    }\n"
                       "}\n"},
    {ES_EXPORT_GROUPNORM,
     "/* zero mean and variance 1 over each of G groups of channels, then gamma and beta */\n"
     "static void normalise(const float *x, const float *gamma, const float *beta, float *y, int "
     "C,\n"
     "                      int area, int G, float epsilon) {\n"
     "    const int width = C / G;\n"
     "    const long n = (long)width * area;\n"
     "    int g, c;\n"
     "    long k;\n"
     "    for (g = 0; g < G; g++) {\n"
     "        const float *in = x + g * n;\n"
     "        float *out = y + g * n;\n"
     "        float mean = 0.0f, variance = 0.0f, slope;\n"
     "        for (k = 0; k < n; k++) mean += in[k];\n"
     "        mean /= (float)n;\n"
     "        for (k = 0; k < n; k++) variance += (in[k] - mean) * (in[k] - mean);\n"
     "        slope = 1.0f / sqrtf(variance / (float)n + epsilon);\n"
     "        for (c = 0; c < width; c++)\n"
     "            for (k = (long)c * area; k < (long)(c + 1) * area; k++)\n"
     "                out[k] = (in[k] - mean) * slope * gamma[g * width + c] + beta[g * width + "
     "c];\n"
     "    }\n"
     "}\n"},
    {ES_EXPORT_BATCHNORM, NULL},
    {ES_EXPORT_RELU, "static void rectify(const float *x, float *y, long n) {\n"
                     "    long k;\n"
                     "    for (k = 0; k < n; k++) y[k] = x[k] > 0.0f ? x[k] : 0.0f;\n"
                     "}\n"},
    {ES_EXPORT_TANH, "static void bend(const float *x, float *y, long n) {\n"
                     "    long k;\n"
                     "    for (k = 0; k < n; k++) y[k] = tanhf(x[k]);\n"
                     "}\n"},
    {ES_EXPORT_SIGMOID, "static void squash(const float *x, float *y, long n) {\n"
                        "    long k;\n"
                        "    for (k = 0; k < n; k++) y[k] = 1.0f / (1.0f + expf(-x[k]));\n"
                        "}\n"},
    {ES_EXPORT_MAXPOOL, "/* the largest of 2 x 2 pixels; an odd last row or column is left out */\n"
                        "static void pool(const float *x, float *y, int C, int H, int W) {\n"
                        "    int c, r, k;\n"
                        "    for (c = 0; c < C; c++)\n"
                        "        for (r = 0; r < H / 2; r++)\n"
                        "            for (k = 0; k < W / 2; k++) {\n"
                        "                const float *in = x + ((long)c * H + 2 * r) * W + 2 * k;\n"
                        "                float most = in[0];\n"
                        "                if (in[1] > most) most = in[1];\n"
                        "                if (in[W] > most) most = in[W];\n"
                        "                if (in[W + 1] > most) most = in[W + 1];\n"
                        "                y[((long)c * (H / 2) + r) * (W / 2) + k] = most;\n"
                        "            }\n"
                        "}\n"},
    {ES_EXPORT_GLOBAL_MEAN, "static void average(const float *x, float *y, int C, int area) {\n"
                            "    int c, k;\n"
                            "    for (c = 0; c < C; c++) {\n"
                            "        float sum = 0.0f;\n"
                            "        for (k = 0; k < area; k++) sum += x[(long)c * area + k];\n"
                            "        y[c] = sum / (float)area;\n"
                            "    }\n"
                            "}\n"},
    {ES_EXPORT_ADD, "static void add(const float *a, const float *b, float *y, long n) {\n"
                    "    long k;\n"
                    "    for (k = 0; k < n; k++) y[k] = a[k] + b[k];\n"
                    "}\n"},
    {ES_EXPORT_MIX,
     "/* from a towards b by a share */\n"
     "static void mix(const float *a, const float *b, float share, float *y, long n) {\n"
     "    long k;\n"
     "    for (k = 0; k < n; k++) y[k] = a[k] + share * (b[k] - a[k]);\n"
     "}\n"},
    {ES_EXPORT_MULTIPLY,
     "static void blend(const float *a, const float *b, float share, float *y, long n) {\n"
     "    long k;\n"
     "    for (k = 0; k < n; k++) y[k] = a[k] * (1.0f + share * tanhf(b[k] - a[k]));\n"
     "}\n"},
    {ES_EXPORT_CHANNEL_SCALE,
     "static void scale(const float *x, const float *factor, float *y, int C, int area) {\n"
     "    long k;\n"
     "    for (k = 0; k < (long)C * area; k++) y[k] = x[k] * factor[k / area];\n"
     "}\n"},
};

// In place of all functions with weights: q is the input in 8 bits, sums are integers.
static const char int8_functions[] =
    "/* q = x / s rounded, within bounds */\n"
    "static void quantise(const float *x, long n, float inverse, int least, int most) {\n"
    "    long k;\n"
    "    for (k = 0; k < n; k++) {\n"
    "        const float scaled = x[k] * inverse;\n"
    "        const int v = (int)(scaled < 0.0f ? scaled - 0.5f : scaled + 0.5f);\n"
    "        q[k] = (short)(v < least ? least : (v > most ? most : v));\n"
    "    }\n"
    "}\n"
    "\n"
    "/* y[O][H][W] = q[I][H][W] * w[O][I][K][K] s f[O] + b[O], zero padding; depthwise: I is 1 "
    "and\n"
    "   output o reads channel o; a linear layer has H = W = K = 1 */\n"
    "static void convolve(const signed char *w, const float *f, const float *b, float s, float "
    "*y,\n"
    "                     int I, int O, int H, int W, int K, int depthwise, int relu) {\n"
    "    int o, i, p, k, r, c;\n"
    "    for (o = 0; o < O; o++)\n"
    "        for (r = 0; r < H; r++)\n"
    "            for (c = 0; c < W; c++) {\n"
    "                long sum = 0;\n"
    "                float value;\n"
    "                for (i = 0; i < I; i++)\n"
    "                    for (p = 0; p < K; p++)\n"
    "                        for (k = 0; k < K; k++) {\n"
    "                            const int u = r + p - K / 2, v = c + k - K / 2;\n"
    "                            if (u >= 0 && u < H && v >= 0 && v < W)\n"
    "                                sum += (long)w[(((long)o * I + i) * K + p) * K + k] *\n"
    "                                       q[((long)(depthwise ? o : i) * H + u) * W + v];\n"
    "                        }\n"
    "                value = (float)sum * (s * f[o]) + b[o];\n"
    "                y[((long)o * H + r) * W + c] = relu && !(value > 0.0f) ? 0.0f : value;\n"
    "            }\n"
    "}\n";

static EsExportKind function_of(EsExportKind kind) {
    return kind == ES_EXPORT_GATED_MIX ? ES_EXPORT_MIX : kind;
}

static void put_functions(const EsExportPlan *plan, FILE *stream) {
    if (plan->int8 != NULL) {
        fprintf(stream, "\n%s", int8_functions);
    }
    for (size_t f = 0; f < ES_COUNT_OF(functions); f++) {
        int is_used = 0;
        for (int c = 0; c < plan->n_calls; c++) {
            is_used |=
                function_of(plan->list.layers[plan->calls[c].layer].kind) == functions[f].kind;
        }
        is_used &= plan->int8 == NULL || !es_export_is_weighted(functions[f].kind);
        if (is_used && functions[f].text != NULL) {
            fprintf(stream, "\n%s", functions[f].text);
        }
    }
}

// --- the function ---

static void put_int8_call(const EsExportPlan *plan, int c, FILE *stream) {
    const EsInt8Call *int8 = &plan->int8->calls[c];
    const EsExportCall *call = &plan->calls[c];
    const EsExportLayer *layer = &plan->list.layers[call->layer];
    int is_depthwise = layer->kind == ES_EXPORT_DEPTHWISE;
    fprintf(stream, "    quantise(m + %lld, %lld, %.8ef, %d, %d);\n",
            (long long)plan->map_offset[layer->in[0]],
            (long long)es_export_map_count(plan->network, &plan->list, layer->in[0]),
            (double)(1.0f / int8->input_scale), int8->is_unsigned ? 0 : -127,
            int8->is_unsigned ? 255 : 127);
    fprintf(stream,
            "    convolve(weight%d, factor%d, bias%d, %.8ef, m + %lld, %d, %d, %d, %d, %d, %d, "
            "%d);\n",
            c, c, c, (double)int8->input_scale, (long long)plan->map_offset[call->output],
            is_depthwise ? 1 : layer->n_inputs, layer->n_channels, layer->height, layer->width,
            layer->kernel, is_depthwise, call->relu);
}

// A call that joins two maps.
static void put_blend(const EsExportPlan *plan, const EsExportCall *call, FILE *stream) {
    const EsExportLayer *layer = &plan->list.layers[call->layer];
    long long a = plan->map_offset[layer->in[0]], b = plan->map_offset[layer->in[1]];
    long long gate = layer->in[2] >= 0 ? plan->map_offset[layer->in[2]] : 0;
    long long y = plan->map_offset[call->output];
    long long n = es_export_map_count(plan->network, &plan->list, call->output);
    switch (layer->kind) {
    case ES_EXPORT_ADD:
        fprintf(stream, "add(m + %lld, m + %lld, m + %lld, %lld);", a, b, y, n);
        break;
    case ES_EXPORT_MIX:
        fprintf(stream, "mix(m + %lld, m + %lld, %.8ef, m + %lld, %lld);", a, b,
                (double)layer->share, y, n);
        break;
    case ES_EXPORT_GATED_MIX:
        fprintf(stream, "mix(m + %lld, m + %lld, %.8ef * m[%lld], m + %lld, %lld);", a, b,
                (double)layer->share, gate, y, n);
        break;
    case ES_EXPORT_MULTIPLY:
        fprintf(stream, "blend(m + %lld, m + %lld, %.8ef, m + %lld, %lld);", a, b,
                (double)layer->share, y, n);
        break;
    default: // ES_EXPORT_CHANNEL_SCALE
        fprintf(stream, "scale(m + %lld, m + %lld, m + %lld, %d, %d);", a, b, y, layer->n_channels,
                layer->height * layer->width);
        break;
    }
}

static void put_call(const EsExportPlan *plan, int c, FILE *stream) {
    const EsExportCall *call = &plan->calls[c];
    const EsExportLayer *layer = &plan->list.layers[call->layer];
    long long a = plan->map_offset[layer->in[0]], y = plan->map_offset[call->output];
    long long n = es_export_map_count(plan->network, &plan->list, call->output);
    int C = layer->n_channels, H = layer->height, W = layer->width;
    EsExportShape in = es_export_map_shape(plan->network, &plan->list, layer->in[0]);
    fputs("    ", stream);
    switch (layer->kind) {
    case ES_EXPORT_CONV:
        fprintf(stream, "convolve(m + %lld, weight%d, bias%d, m + %lld, %d, %d, %d, %d, %d, %d);",
                a, c, c, y, layer->n_inputs, C, H, W, layer->kernel, call->relu);
        break;
    case ES_EXPORT_DEPTHWISE:
        fprintf(stream,
                "convolve_depthwise(m + %lld, weight%d, bias%d, m + %lld, %d, %d, %d, %d, %d);", a,
                c, c, y, C, H, W, layer->kernel, call->relu);
        break;
    case ES_EXPORT_LINEAR:
        fprintf(stream, "multiply(m + %lld, weight%d, bias%d, m + %lld, %d, %d, %d);", a, c, c, y,
                layer->n_inputs, C, call->relu);
        break;
    case ES_EXPORT_GROUPNORM:
        fprintf(stream, "normalise(m + %lld, gamma%d, beta%d, m + %lld, %d, %d, %d, %.8ef);", a, c,
                c, y, C, H * W, layer->n_groups, (double)layer->epsilon);
        break;
    case ES_EXPORT_RELU:
        fprintf(stream, "rectify(m + %lld, m + %lld, %lld);", a, y, n);
        break;
    case ES_EXPORT_TANH:
        fprintf(stream, "bend(m + %lld, m + %lld, %lld);", a, y, n);
        break;
    case ES_EXPORT_SIGMOID:
        fprintf(stream, "squash(m + %lld, m + %lld, %lld);", a, y, n);
        break;
    case ES_EXPORT_MAXPOOL:
        fprintf(stream, "pool(m + %lld, m + %lld, %d, %d, %d);", a, y, C, in.height, in.width);
        break;
    case ES_EXPORT_GLOBAL_MEAN:
        fprintf(stream, "average(m + %lld, m + %lld, %d, %d);", a, y, C, in.height * in.width);
        break;
    case ES_EXPORT_ADD:
    case ES_EXPORT_MIX:
    case ES_EXPORT_GATED_MIX:
    case ES_EXPORT_MULTIPLY:
    case ES_EXPORT_CHANNEL_SCALE:
        put_blend(plan, call, stream);
        break;
    case ES_EXPORT_BATCHNORM: // always behind a convolution, and folded into it
        break;
    }
    fputc('\n', stream);
}

// A C string; bytes beyond ASCII in octal, which no digit behind them can prolong.
static void put_text(FILE *stream, const char *text) {
    fputc('"', stream);
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\' || *at == '?') {
            fprintf(stream, "\\%c", *at);
        } else if (*at < ' ' || *at > 126) {
            fprintf(stream, "\\%03o", *at);
        } else {
            fputc(*at, stream);
        }
    }
    fputc('"', stream);
}

static void put_input(const EsExportPlan *plan, FILE *stream) {
    const EsHostSpec *host = &plan->network->spec.host;
    int n = host->image_channels;
    fprintf(stream, "\nstatic const float centre[%d] = {", n);
    for (int is_scale = 0; is_scale < 2; is_scale++) {
        for (int c = 0; c < n; c++) {
            float centre = 0, scale = 0;
            es_grown_network_normaliser(plan->network, c, &centre, &scale);
            fprintf(stream, "%s%.8ef", c == 0 ? "" : (c % 6 == 0 ? ",\n    " : ", "),
                    (double)(is_scale ? scale : centre));
        }
        fputs("};\n", stream);
        if (!is_scale) {
            fprintf(stream, "static const float factor[%d] = {", n);
        }
    }
}

static EsStatus put_source(const EsExportPlan *plan, FILE *stream) {
    const EsGrownSpec *spec = &plan->network->spec;
    const char *name = plan->name;
    int64_t n_inputs = es_grown_network_input_count(plan->network);
    fprintf(stream,
            "/* A grown network of %lld parameters, written by esper " ES_VERSION ". See %s.h. */\n"
            "#include \"%s.h\"\n\n#include <math.h>\n\n/* all maps: %lld bytes */\n"
            "static float m[%lld];\n",
            (long long)plan->network->n_parameters, name, name, 4 * (long long)plan->n_floats,
            (long long)plan->n_floats);
    if (plan->int8 != NULL) {
        fprintf(stream, "/* the input of a layer in 8 bits */\nstatic short q[%lld];\n",
                (long long)plan->int8->n_scratch);
    }
    put_input(plan, stream);
    ES_TRY(put_weights(plan, stream));
    fprintf(stream, "\nconst char *const %s_classes[%d] = {", name, spec->host.n_classes);
    for (int k = 0; k < spec->host.n_classes; k++) {
        fputs(k == 0 ? "\n    " : ",\n    ", stream);
        put_text(stream, spec->class_names[k]);
    }
    fputs("};\n", stream);
    put_functions(plan, stream);
    fprintf(stream,
            "\nint %s_predict(const float *input, float *logits) {\n"
            "    long i;\n    int best = 0;\n"
            "    for (i = 0; i < %lld; i++)\n"
            "        m[i] = (input[i] - centre[i / %lld]) * factor[i / %lld];\n",
            name, (long long)n_inputs, (long long)(n_inputs / spec->host.image_channels),
            (long long)(n_inputs / spec->host.image_channels));
    for (int c = 0; c < plan->n_calls; c++) {
        if (plan->int8 != NULL &&
            es_export_is_weighted(plan->list.layers[plan->calls[c].layer].kind)) {
            put_int8_call(plan, c, stream);
        } else {
            put_call(plan, c, stream);
        }
    }
    fprintf(stream,
            "    for (i = 0; i < %d; i++) {\n"
            "        logits[i] = m[%lld + i];\n"
            "        if (logits[i] > logits[best]) best = (int)i;\n"
            "    }\n    return best;\n}\n",
            spec->host.n_classes, (long long)plan->map_offset[plan->list.output]);
    return ES_STATUS_OK;
}

static EsStatus put_header(const EsExportPlan *plan, FILE *stream) {
    const EsHostSpec *host = &plan->network->spec.host;
    const char *name = plan->name;
    char guard[128];
    size_t n = 0;
    for (; name[n] != '\0' && n + 1 < sizeof guard; n++) {
        guard[n] = (char)toupper((unsigned char)name[n]);
    }
    guard[n] = '\0';
    int64_t n_scratch = plan->int8 != NULL ? plan->int8->n_scratch : 0; // of 16 bits
    fprintf(stream,
            "/* A grown network, written by esper " ES_VERSION ": C99, no allocation, %lld"
            " bytes of static memory.\n *\n * Input: ",
            4 * (long long)plan->n_floats + 2 * (long long)n_scratch);
    if (plan->network->spec.kind == ES_INPUT_ROWS) {
        fprintf(stream, "%d columns as measured.", host->image_channels);
    } else {
        fprintf(stream, "pixels 0 to 255, channel by channel, row by row [%d][%d][%d].",
                host->image_channels, host->image_size, host->image_size);
    }
    fprintf(stream,
            "\n * Not reentrant: calls share the static memory.\n */\n"
            "#ifndef %s_H\n#define %s_H\n\n#define %s_INPUTS %lld\n#define %s_CLASSES %d\n\n"
            "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
            "extern const char *const %s_classes[%s_CLASSES];\n\n"
            "/* Fills in the logits; returns the most likely class. */\n"
            "int %s_predict(const float *input, float *logits);\n\n"
            "#ifdef __cplusplus\n}\n#endif\n\n#endif\n",
            guard, guard, guard, (long long)es_grown_network_input_count(plan->network), guard,
            host->n_classes, name, guard, name);
    return ES_STATUS_OK;
}

// --- files ---

static EsStatus check_name(const char *name) {
    int is_good = name[0] != '\0' && !isdigit((unsigned char)name[0]) && strlen(name) <= 63;
    for (const char *at = name; *at != '\0'; at++) {
        is_good &= isalnum((unsigned char)*at) || *at == '_';
    }
    return is_good ? ES_STATUS_OK
                   : ES_FAIL(ARGUMENT,
                             "\"%.80s\" is no name for a function in C: letters, digits and _, at "
                             "most 63",
                             name);
}

static EsStatus write_part(const EsExportPlan *plan, const char *folder, const char *end,
                           EsStatus (*put)(const EsExportPlan *plan, FILE *stream)) {
    char path[PATH_BYTES], *text = NULL;
    size_t bytes = 0;
    if (snprintf(path, sizeof path, "%s/%s%s", folder, plan->name, end) >= (int)sizeof path) {
        return ES_FAIL(ARGUMENT, "the path %.100s... is too long", folder);
    }
    FILE *stream = open_memstream(&text, &bytes);
    if (stream == NULL) {
        return ES_FAIL(MEMORY, "no memory for %s", path);
    }
    EsStatus status = put(plan, stream), closed = es_memory_stream_close(stream, &text);
    status = status == ES_STATUS_OK ? closed : status;
    if (status == ES_STATUS_OK) {
        status = es_file_write_all(path, text, bytes);
    }
    free(text);
    return status;
}

static EsStatus write_files(const EsExportPlan *plan, const char *folder) {
    ES_TRY(write_part(plan, folder, ".h", put_header));
    return write_part(plan, folder, ".c", put_source);
}

EsStatus es_grown_export_c(const EsGrownNetwork *network, EsExportC *options) {
    EsExportPlan plan;
    EsInt8Plan int8 = {0};
    EsStatus status = ES_STATUS_OK;
    ES_TRY(check_name(options->name));
    ES_TRY(es_folder_make(options->folder));
    ES_TRY(es_export_plan_create(network, options->name, &plan));
    if (options->int8 != NULL) {
        ES_TRY_GOTO(es_int8_plan_create(&plan, options->int8, &int8));
        ES_TRY_GOTO(es_int8_plan_measure(&plan, &int8, options->int8, &options->float_accuracy,
                                         &options->int8_accuracy));
        plan.int8 = &int8;
    }
    status = write_files(&plan, options->folder);
done:
    es_int8_plan_destroy(&int8);
    es_export_plan_destroy(&plan);
    return status;
}
