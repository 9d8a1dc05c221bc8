// Kernel cases: their values, their description, one run, one comparison. The checks stand in
// kernel_checks.c.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random_rules.h"
#include "kernel_case_internal.h"

void *es_case_take(size_t bytes) {
    void *memory = NULL;
    ES_CASE_REQUIRE(es_allocate(bytes, &memory));
    return memory;
}

// --- values ---

double es_case_uniform(uint32_t stream, int64_t index, double low, double high) {
    EsRandom4 r = es_random_draw(0x5EEDu, stream, ES_PURPOSE_EVALUATION, 0, (uint32_t)(index / 4));
    return low + (high - low) * (double)es_random_uniform(r.word[index % 4]);
}

double es_case_round_bf16(double value) {
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    bits = (bits + 0x7FFFu + ((bits >> 16) & 1u)) & 0xFFFF0000u;
    memcpy(&single, &bits, sizeof single);
    return (double)single;
}

int es_case_is_float(EsDtype dtype) { return dtype == ES_DTYPE_F32 || dtype == ES_DTYPE_BF16; }

static void encode(EsDtype dtype, const double *value, int64_t count, void *bytes) {
    for (int64_t i = 0; i < count; i++) {
        float single = (float)value[i];
        uint32_t bits;
        memcpy(&bits, &single, sizeof bits);
        switch (dtype) {
        case ES_DTYPE_F32:
            ((float *)bytes)[i] = single;
            break;
        case ES_DTYPE_F64:
            ((double *)bytes)[i] = value[i];
            break;
        case ES_DTYPE_BF16: // the values were rounded before
            ((uint16_t *)bytes)[i] = (uint16_t)(bits >> 16);
            break;
        case ES_DTYPE_I32:
            ((int32_t *)bytes)[i] = (int32_t)value[i];
            break;
        case ES_DTYPE_I64:
            ((int64_t *)bytes)[i] = (int64_t)value[i];
            break;
        case ES_DTYPE_U8:
            ((uint8_t *)bytes)[i] = (uint8_t)value[i];
            break;
        case ES_DTYPE_U16:
            ((uint16_t *)bytes)[i] = (uint16_t)value[i];
            break;
        default:
            ES_ASSERT(0 && "dtype without use in kernel cases");
        }
    }
}

void es_case_decode(EsDtype dtype, const void *bytes, int64_t count, double *value) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        float single;
        switch (dtype) {
        case ES_DTYPE_F32:
            value[i] = (double)((const float *)bytes)[i];
            break;
        case ES_DTYPE_F64:
            value[i] = ((const double *)bytes)[i];
            break;
        case ES_DTYPE_BF16:
            bits = (uint32_t)((const uint16_t *)bytes)[i] << 16;
            memcpy(&single, &bits, sizeof single);
            value[i] = (double)single;
            break;
        case ES_DTYPE_I32:
            value[i] = (double)((const int32_t *)bytes)[i];
            break;
        case ES_DTYPE_I64:
            value[i] = (double)((const int64_t *)bytes)[i];
            break;
        case ES_DTYPE_U8:
            value[i] = (double)((const uint8_t *)bytes)[i];
            break;
        case ES_DTYPE_U16:
            value[i] = (double)((const uint16_t *)bytes)[i];
            break;
        default:
            ES_ASSERT(0 && "dtype without use in kernel cases");
        }
    }
}

int es_case_is_read(const EsCaseTensor *t) {
    return t->role == ES_CASE_INPUT || t->role == ES_CASE_STATE;
}

int es_case_is_written(const EsCaseTensor *t) {
    return t->role == ES_CASE_OUTPUT || t->role == ES_CASE_STATE;
}

void es_case_fill(EsCase *c) {
    for (int i = 0; i < c->n_tensors; i++) {
        EsCaseTensor *t = &c->tensor[i];
        if (!es_case_is_read(t)) {
            continue;
        }
        if (t->initial == NULL) {
            t->initial = es_case_take(sizeof(double) * (size_t)ES_MAX(t->count, 1));
        }
        for (int64_t k = 0; k < t->count; k++) {
            if (es_case_is_float(t->dtype)) {
                t->initial[k] = (double)(float)es_case_uniform((uint32_t)i, k, t->low, t->high);
            } else {
                double value = floor(es_case_uniform((uint32_t)i, k, t->low, t->high + 1.0));
                t->initial[k] = ES_MIN(value, t->high);
            }
        }
    }
}

// --- describing ---

void es_case_begin(EsCase *c, const char *stem, const char *golden, EsCaseFunction run,
                   const void *settings) {
    memset(c, 0, sizeof *c);
    c->stem = stem;
    c->golden = golden;
    c->run = run;
    c->settings = settings;
    c->reference = (EsCaseBound){1e-5, 1e-5};
    // Sums of a few hundred f32 terms in another order differ by a few units of 2^-24.
    c->parity = (EsCaseBound){1e-5, 2e-5};
    // Both sides start from the same bf16 values and sum in f32; the result is rounded once, 2^-9
    // relative. Twice that, and as much again for an intermediate result that was stored in bf16.
    c->parity_bf16 = (EsCaseBound){1e-3, 8e-3};
    // Central differences of <d_y, y> with step h: truncation h^2/6 f''' is about 4e-6 f''',
    // rounding 6e-8 sqrt(n) |y d_y| / 2h about 6e-6 sqrt(n) * 0.3; for n up to 10^4 outputs and
    // |f'''| up to 100 both stay below 5e-4. A wrong sign, factor, or term shows at the size of the
    // gradient, 0.1 and more.
    c->step = 5e-3;
    c->gradient = (EsCaseBound){2e-3, 2e-2};
}

static EsCaseTensor *append(EsCase *c, EsCaseRole role, const char *name, EsDtype dtype, int rank,
                            const int64_t *dims) {
    ES_ASSERT(c->n_tensors < ES_CASE_MAX_TENSORS);
    EsCaseTensor *t = &c->tensor[c->n_tensors++];
    snprintf(t->name, sizeof t->name, "%s", name);
    t->role = role;
    t->dtype = dtype;
    t->rank = rank;
    t->count = 1;
    for (int i = 0; i < rank; i++) {
        t->dim[i] = dims[i];
        t->count *= dims[i];
    }
    t->low = -1.0;
    t->high = 1.0;
    t->scale = 1.0;
    return t;
}

EsCaseTensor *es_case_activation(EsCase *c, EsCaseRole role, const char *name, int rank,
                                 const int64_t *dims) {
    EsCaseTensor *t = append(c, role, name, ES_DTYPE_F32, rank, dims);
    t->is_activation = 1;
    return t;
}

EsCaseTensor *es_case_parameter(EsCase *c, EsCaseRole role, const char *name, int rank,
                                const int64_t *dims) {
    EsCaseTensor *t = append(c, role, name, ES_DTYPE_F32, rank, dims);
    t->is_parameter = 1;
    return t;
}

EsCaseTensor *es_case_integers(EsCase *c, EsCaseRole role, const char *name, EsDtype dtype, int low,
                               int high, int rank, const int64_t *dims) {
    EsCaseTensor *t = append(c, role, name, dtype, rank, dims);
    t->low = low;
    t->high = high;
    return t;
}

void es_case_end(EsCase *c) {
    for (int i = 0; i < c->n_tensors; i++) {
        es_release(c->tensor[i].initial);
    }
}

int es_case_find(const EsCase *c, const char *prefix, const char *name) {
    char full[64];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    for (int i = 0; i < c->n_tensors; i++) {
        if (strcmp(c->tensor[i].name, full) == 0) {
            return i;
        }
    }
    return -1;
}

const EsTensor *es_case_at(const EsCaseRun *run, const char *name) {
    int i = es_case_find(run->of, "", name);
    return i < 0 ? NULL : &run->tensor[i];
}

const double *es_case_initial(const EsCase *c, const char *name) {
    int i = es_case_find(c, "", name);
    return i < 0 ? NULL : c->tensor[i].initial;
}

// --- running ---

EsCaseSide es_case_open(const char *name, int n_threads, int n_lanes) {
    EsCaseSide side;
    EsDeviceOptions options = {.n_threads = n_threads, .n_lanes = n_lanes};
    ES_CASE_REQUIRE(es_device_open(name, &options, &side.device));
    ES_CASE_REQUIRE(es_stream_create(side.device, &side.stream));
    return side;
}

void es_case_close(EsCaseSide side) {
    es_stream_destroy(side.stream);
    es_device_close(side.device);
}

// elements between two environments that stand apart, and the byte they are made of: 0.046 as f32
// and bf16, out of range as a label or an id
#define GAP      5
#define GAP_BYTE 0x3D

static int is_apart(const EsCase *c, const EsCaseTensor *t, EsCaseLayout layout) {
    int is_asked = (layout == ES_CASE_PARAMETERS_APART && t->is_parameter) ||
                   (layout == ES_CASE_ALL_APART && t->role != ES_CASE_SCRATCH);
    return is_asked && !c->is_flat && t->rank >= 2;
}

// Bytes of one environment, and from its start to the next one's; a tensor that does not stand
// apart is one piece.
typedef struct Spacing {
    int64_t n_pieces, piece_count;
    size_t piece_bytes, step_bytes;
} Spacing;

static Spacing spacing_of(const EsCaseTensor *t, const EsTensor *tensor) {
    int64_t E = t->rank >= 2 ? t->dim[0] : 1;
    size_t element = es_dtype_bytes(tensor->dtype);
    int64_t per_environment = E > 0 ? t->count / E : 0;
    if (t->rank < 2 || tensor->stride[0] == per_environment) {
        return (Spacing){1, t->count, (size_t)t->count * element, (size_t)t->count * element};
    }
    return (Spacing){E, per_environment, (size_t)per_environment * element,
                     (size_t)tensor->stride[0] * element};
}

static void copy_whole(EsCaseSide side, void *to, const void *from, size_t bytes,
                       EsCopy direction) {
    ES_CASE_REQUIRE(es_stream_copy(side.stream, to, from, bytes, direction));
    ES_CASE_REQUIRE(es_stream_synchronize(side.stream));
}

// Place every tensor on the device: inputs and states with their values, the rest with bytes that
// read as NaN.
static void place_tensors(EsCase *c, EsCaseSide side, int use_bf16, EsCaseLayout layout,
                          EsCaseRun *run) {
    for (int i = 0; i < c->n_tensors; i++) {
        EsCaseTensor *t = &c->tensor[i];
        EsDtype dtype = use_bf16 && t->is_activation ? ES_DTYPE_BF16 : t->dtype;
        EsTensor *tensor = &run->tensor[i];
        *tensor = es_tensor_view(NULL, dtype, side.device, t->rank, t->dim);
        if (is_apart(c, t, layout)) {
            tensor->stride[0] += GAP;
        }
        Spacing spacing = spacing_of(t, tensor);
        size_t bytes = (size_t)spacing.n_pieces * spacing.step_bytes;
        ES_CASE_REQUIRE(es_device_allocate(side.device, ES_MAX(bytes, 1), &tensor->data));
        unsigned char *host = es_case_take(ES_MAX(bytes, 1));
        memset(host, GAP_BYTE, bytes);
        for (int64_t p = 0; p < spacing.n_pieces; p++) {
            unsigned char *piece = host + (size_t)p * spacing.step_bytes;
            if (es_case_is_read(t)) {
                encode(dtype, t->initial + p * spacing.piece_count, spacing.piece_count, piece);
            } else {
                memset(piece, 0xFF, spacing.piece_bytes);
            }
        }
        copy_whole(side, tensor->data, host, bytes, ES_COPY_TO_DEVICE);
        es_release(host);
    }
}

static int has_gap_changed(const Spacing *spacing, const unsigned char *host) {
    for (int64_t p = 0; p < spacing->n_pieces; p++) {
        const unsigned char *piece = host + (size_t)p * spacing->step_bytes;
        for (size_t k = spacing->piece_bytes; k < spacing->step_bytes; k++) {
            if (piece[k] != GAP_BYTE) {
                return 1;
            }
        }
    }
    return 0;
}

// Take the values of a written tensor from the device. Returns whether a gap has changed.
static int fetch_tensor(EsCase *c, EsCaseSide side, int i, const EsTensor *tensor,
                        EsCaseResults *results) {
    const EsCaseTensor *t = &c->tensor[i];
    Spacing spacing = spacing_of(t, tensor);
    size_t bytes = (size_t)spacing.n_pieces * spacing.step_bytes;
    unsigned char *host = es_case_take(ES_MAX(bytes, 1));
    copy_whole(side, host, tensor->data, bytes, ES_COPY_TO_HOST);
    results->value[i] = NULL;
    if (es_case_is_written(t)) {
        results->value[i] = es_case_take(sizeof(double) * (size_t)ES_MAX(t->count, 1));
        for (int64_t p = 0; p < spacing.n_pieces; p++) {
            es_case_decode(tensor->dtype, host + (size_t)p * spacing.step_bytes,
                           spacing.piece_count, results->value[i] + p * spacing.piece_count);
        }
    }
    int has_changed = has_gap_changed(&spacing, host);
    if (has_changed) {
        char label[256];
        es_case_label(c, t, "with environments apart", label, sizeof label);
        printf("%s: something was written between the environments\n", label);
    }
    es_release(host);
    return has_changed;
}

int es_case_execute(EsCase *c, EsCaseSide side, int use_bf16, EsCaseLayout layout,
                    EsCaseResults *results) {
    int n_failures = 0;
    EsCaseRun run = {.kernels = es_kernels_of(side.device),
                     .stream = side.stream,
                     .settings = c->settings,
                     .of = c};
    place_tensors(c, side, use_bf16, layout, &run);
    c->run(&run);
    ES_CASE_REQUIRE(es_stream_synchronize(side.stream));
    ES_CASE_REQUIRE(es_device_status(side.device));
    for (int i = 0; i < c->n_tensors; i++) {
        n_failures += fetch_tensor(c, side, i, &run.tensor[i], results);
        es_device_release(side.device, run.tensor[i].data);
    }
    return n_failures;
}

void es_case_release(EsCaseResults *results, const EsCase *c) {
    for (int i = 0; i < c->n_tensors; i++) {
        es_release(results->value[i]);
    }
}

// --- comparing ---

void es_case_label(const EsCase *c, const EsCaseTensor *t, const char *what, char *text,
                   size_t text_bytes) {
    int used = snprintf(text, text_bytes, "%s%s%s %s: %s [", c->stem, c->golden == NULL ? "" : " ",
                        c->golden == NULL ? "" : c->golden, what, t->name);
    for (int i = 0; i < t->rank && used < (int)text_bytes; i++) {
        used += snprintf(text + used, text_bytes - (size_t)used, "%s%lld", i > 0 ? ", " : "",
                         (long long)t->dim[i]);
    }
    if (used < (int)text_bytes) {
        snprintf(text + used, text_bytes - (size_t)used, "]");
    }
}

int es_case_compare(const char *label, const double *actual, const double *expected, int64_t count,
                    double absolute, double relative) {
    int64_t worst = -1, n_bad = 0;
    double worst_excess = 0.0;
    for (int64_t i = 0; i < count; i++) {
        double error = fabs(actual[i] - expected[i]);
        double bound = absolute + relative * fabs(expected[i]);
        // NaN compares false, so it lands here with an excess above every number
        if (!(error <= bound)) {
            double excess = isnan(error) ? INFINITY : error - bound;
            n_bad++;
            if (worst < 0 || excess > worst_excess) {
                worst = i;
                worst_excess = excess;
            }
        }
    }
    if (n_bad > 0) {
        printf("%s: %lld of %lld elements out of bounds, worst at %lld: %.9g, expected %.9g "
               "(error %.3g, bound %.3g)\n",
               label, (long long)n_bad, (long long)count, (long long)worst, actual[worst],
               expected[worst], fabs(actual[worst] - expected[worst]),
               absolute + relative * fabs(expected[worst]));
    }
    return n_bad > 0 ? 1 : 0;
}

int es_case_compare_tensor(const EsCase *c, const EsCaseTensor *t, const char *what,
                           const double *actual, const double *expected, EsCaseBound bound) {
    char label[256];
    es_case_label(c, t, what, label, sizeof label);
    return es_case_compare(label, actual, expected, t->count, bound.absolute * t->scale,
                           bound.relative);
}

int es_case_compare_bits(const EsCase *c, const char *what, const EsCaseResults *a,
                         const EsCaseResults *b) {
    int n_failures = 0;
    for (int i = 0; i < c->n_tensors; i++) {
        const EsCaseTensor *t = &c->tensor[i];
        size_t bytes = sizeof(double) * (size_t)t->count;
        if (es_case_is_written(t) && memcmp(a->value[i], b->value[i], bytes) != 0) {
            char label[256];
            es_case_label(c, t, what, label, sizeof label);
            printf("%s: the bits differ\n", label);
            n_failures++;
        }
    }
    return n_failures;
}
