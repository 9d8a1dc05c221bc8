// The three checks of a kernel case: reference, gradient, parity.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "kernel_case_internal.h"
#include "tensor/safetensors.h"
#include "test_data.h"

// elements of each input that a gradient check perturbs
#define PROBES 6

// --- reference ---

// The golden values "<case>.<name><suffix>", or NULL where the file has none. A tensor of the wrong
// shape ends the test.
static double *find_golden(const EsSafetensors *file, const EsCase *c, const EsCaseTensor *t,
                           const char *suffix) {
    char name[128];
    snprintf(name, sizeof name, "%s.%s%s", c->golden, t->name, suffix);
    for (int i = 0; i < es_safetensors_count(file); i++) {
        EsNamedTensor found = es_safetensors_at(file, i);
        if (strcmp(found.name, name) != 0) {
            continue;
        }
        EsTensor shape = es_tensor_view(found.tensor.data, t->dtype, NULL, t->rank, t->dim);
        if (!es_tensor_same_shape(&shape, &found.tensor)) {
            char text[128];
            printf("%s: golden %s is %s, not the shape of the case\n", c->stem, name,
                   es_tensor_describe(&found.tensor, text, sizeof text));
            exit(1);
        }
        double *value = es_case_take(sizeof(double) * (size_t)ES_MAX(t->count, 1));
        es_case_decode(found.tensor.dtype, found.tensor.data, t->count, value);
        return value;
    }
    return NULL;
}

static EsSafetensors *open_golden(const EsCase *c) {
    if (c->golden == NULL) {
        return NULL;
    }
    char path[512];
    snprintf(path, sizeof path, "%s/%s.safetensors", es_test_data(), c->stem);
    EsSafetensors *file = NULL;
    ES_CASE_REQUIRE(es_safetensors_open(path, &file));
    return file;
}

static int load_inputs(EsCase *c, const EsSafetensors *file) {
    int n_failures = 0;
    for (int i = 0; i < c->n_tensors; i++) {
        EsCaseTensor *t = &c->tensor[i];
        if (!es_case_is_read(t)) {
            continue;
        }
        double *value = find_golden(file, c, t, "");
        if (value == NULL) {
            printf("%s: the golden file has no %s.%s\n", c->stem, c->golden, t->name);
            n_failures++;
            continue;
        }
        es_release(t->initial);
        t->initial = value;
    }
    return n_failures;
}

static int compare_golden(const EsCase *c, const EsSafetensors *file,
                          const EsCaseResults *results) {
    int n_failures = 0, n_compared = 0;
    for (int i = 0; i < c->n_tensors; i++) {
        const EsCaseTensor *t = &c->tensor[i];
        double *expected = es_case_is_written(t)
                               ? find_golden(file, c, t, t->role == ES_CASE_STATE ? "_after" : "")
                               : NULL;
        if (expected != NULL) {
            n_compared++;
            n_failures += es_case_compare_tensor(c, t, "against PyTorch", results->value[i],
                                                 expected, c->reference);
            es_release(expected);
        }
    }
    if (n_compared == 0) {
        printf("%s: the golden file has no result of %s\n", c->stem, c->golden);
        n_failures++;
    }
    return n_failures;
}

static int compare_expected(const EsCase *c, const EsCaseResults *results) {
    int n_failures = 0, n_compared = 0;
    for (int i = 0; i < c->n_tensors; i++) {
        const EsCaseTensor *t = &c->tensor[i];
        if (!es_case_is_written(t)) {
            continue;
        }
        double *expected = es_case_take(sizeof(double) * (size_t)ES_MAX(t->count, 1));
        if (c->expect(c, t->name, expected)) {
            n_compared++;
            n_failures += es_case_compare_tensor(c, t, "against the naive loop", results->value[i],
                                                 expected, c->reference);
        }
        es_release(expected);
    }
    if (n_compared == 0) {
        printf("%s: the naive loop covers no output\n", c->stem);
        n_failures++;
    }
    return n_failures;
}

// One vector width: threads, environments apart, golden values, the naive loop.
static int check_width(EsCase *c, const EsSafetensors *file, int n_lanes) {
    int n_failures = 0;
    EsCaseResults one = {0}, three = {0}, apart = {0};
    EsCaseSide side = es_case_open("cpu", 1, n_lanes);
    n_failures += es_case_execute(c, side, 0, ES_CASE_CONTIGUOUS, &one);
    es_case_close(side);
    side = es_case_open("cpu", 3, n_lanes);
    n_failures += es_case_execute(c, side, 0, ES_CASE_CONTIGUOUS, &three);
    n_failures += es_case_execute(c, side, 0, ES_CASE_ALL_APART, &apart);
    es_case_close(side);
    n_failures += es_case_compare_bits(c, "on one and on three threads", &one, &three);
    n_failures += es_case_compare_bits(c, "with environments apart", &one, &apart);
    if (file != NULL) {
        n_failures += compare_golden(c, file, &one);
    }
    if (c->expect != NULL) {
        n_failures += compare_expected(c, &one);
    }
    es_case_release(&one, c);
    es_case_release(&three, c);
    es_case_release(&apart, c);
    if (n_failures > 0) {
        printf("%s: the failures above are those of %d lanes\n", c->stem, n_lanes);
    }
    return n_failures;
}

static int widest_lanes(void) {
    EsCaseSide side = es_case_open("cpu", 1, 0);
    int n_lanes = es_device_info(side.device)->n_lanes;
    es_case_close(side);
    return n_lanes;
}

int es_case_check_reference(EsCase *c) {
    int n_failures = 0, widest = widest_lanes();
    EsSafetensors *file = open_golden(c);
    es_case_fill(c);
    if (file != NULL) {
        n_failures += load_inputs(c, file);
    }
    for (int n_lanes = 4; n_lanes <= widest; n_lanes *= 2) {
        n_failures += check_width(c, file, n_lanes);
    }
    es_safetensors_close(file);
    return n_failures;
}

// --- gradient ---

// <cotangents, outputs>, in double
static double scalar_of(EsCase *c, EsCaseSide side) {
    EsCaseResults results = {0};
    es_case_execute(c, side, 0, ES_CASE_CONTIGUOUS, &results);
    double sum = 0.0;
    for (int i = 0; i < c->n_tensors; i++) {
        const EsCaseTensor *t = &c->tensor[i];
        int d = es_case_find(c, "d_", t->name);
        int has_input = d >= 0 && c->tensor[d].role == ES_CASE_INPUT;
        if (t->role != ES_CASE_OUTPUT || (!has_input && t->cotangent == 0.0)) {
            continue;
        }
        for (int64_t k = 0; k < t->count; k++) {
            sum += results.value[i][k] * (has_input ? c->tensor[d].initial[k] : t->cotangent);
        }
    }
    es_case_release(&results, c);
    return sum;
}

static int probe_tensor(EsCase *c, EsCaseSide side, int index, int gradient,
                        const EsCaseResults *analytic) {
    EsCaseTensor *t = &c->tensor[index];
    const EsCaseTensor *d = &c->tensor[gradient];
    int n_failures = 0;
    int64_t n_probes = ES_MIN(t->count, PROBES);
    for (int64_t p = 0; p < n_probes; p++) {
        int64_t k = t->count <= PROBES ? p
                                       : (int64_t)es_case_uniform((uint32_t)(100 + index), p, 0.0,
                                                                  (double)t->count);
        double middle = t->initial[k];
        double above = (double)(float)(middle + c->step), below = (double)(float)(middle - c->step);
        t->initial[k] = above;
        double f_above = scalar_of(c, side);
        t->initial[k] = below;
        double f_below = scalar_of(c, side);
        t->initial[k] = middle;
        double numeric = (f_above - f_below) / (above - below);
        double actual = analytic->value[gradient][k];
        double bound = c->gradient.absolute * d->scale + c->gradient.relative * fabs(numeric);
        if (!(fabs(actual - numeric) <= bound)) {
            char label[256];
            es_case_label(c, d, "gradient", label, sizeof label);
            printf("%s: element %lld is %.6g, central difference %.6g (bound %.3g)\n", label,
                   (long long)k, actual, numeric, bound);
            n_failures++;
        }
    }
    return n_failures;
}

static int check_gradient_at(EsCase *c, int n_lanes) {
    int n_failures = 0, n_checked = 0;
    EsCaseResults analytic = {0};
    EsCaseSide side = es_case_open("cpu", 1, n_lanes);
    es_case_execute(c, side, 0, ES_CASE_CONTIGUOUS, &analytic);
    for (int i = 0; i < c->n_tensors; i++) {
        int d = es_case_find(c, "d_", c->tensor[i].name);
        if (c->tensor[i].role == ES_CASE_INPUT && es_case_is_float(c->tensor[i].dtype) && d >= 0 &&
            c->tensor[d].role == ES_CASE_OUTPUT) {
            n_failures += probe_tensor(c, side, i, d, &analytic);
            n_checked++;
        }
    }
    if (n_checked == 0) {
        printf("%s: no input x with an output d_x\n", c->stem);
        n_failures++;
    }
    es_case_release(&analytic, c);
    es_case_close(side);
    return n_failures;
}

int es_case_check_gradient(EsCase *c) {
    int n_failures = 0, widest = widest_lanes();
    es_case_fill(c);
    for (int n_lanes = 4; n_lanes <= widest; n_lanes *= 2) {
        n_failures += check_gradient_at(c, n_lanes);
    }
    return n_failures;
}

// --- parity ---

// The largest share of its bound that an element of the tensor uses; elements without a bound must
// be equal anyway.
static double bound_used(const EsCaseTensor *t, const double *actual, const double *expected,
                         EsCaseBound bound) {
    double most = 0.0;
    for (int64_t i = 0; i < t->count; i++) {
        double allowed = bound.absolute * t->scale + bound.relative * fabs(expected[i]);
        double used = allowed > 0.0 ? fabs(actual[i] - expected[i]) / allowed : 0.0;
        most = used > most ? used : most;
    }
    return most;
}

static int compare_devices(EsCase *c, EsCaseSide cpu, EsCaseSide cuda, int use_bf16) {
    int n_failures = 0;
    double most_used = 0.0;
    EsCaseBound bound = use_bf16 ? c->parity_bf16 : c->parity;
    const char *what = use_bf16 ? "CUDA bf16 against CPU" : "CUDA f32 against CPU";
    EsCaseResults expected = {0}, actual = {0}, again = {0};
    n_failures += es_case_execute(c, cpu, 0, ES_CASE_PARAMETERS_APART, &expected);
    n_failures += es_case_execute(c, cuda, use_bf16, ES_CASE_PARAMETERS_APART, &actual);
    n_failures += es_case_execute(c, cuda, use_bf16, ES_CASE_PARAMETERS_APART, &again);
    n_failures += es_case_compare_bits(c, "on two CUDA runs", &actual, &again);
    for (int i = 0; i < c->n_tensors; i++) {
        const EsCaseTensor *t = &c->tensor[i];
        if (es_case_is_written(t)) {
            double used = bound_used(t, actual.value[i], expected.value[i], bound);
            most_used = used > most_used ? used : most_used;
            n_failures +=
                es_case_compare_tensor(c, t, what, actual.value[i], expected.value[i], bound);
        }
    }
    printf("parity %s %s: bound %.2g + %.2g, at most %.3f of it used\n", c->stem,
           use_bf16 ? "bf16" : "f32", bound.absolute, bound.relative, most_used);
    es_case_release(&expected, c);
    es_case_release(&actual, c);
    es_case_release(&again, c);
    return n_failures;
}

int es_case_check_parity(EsCase *c) {
    int n_failures = 0, has_activation = 0;
    EsCaseSide cpu = es_case_open("cpu", 1, 4), cuda = es_case_open("cuda", 0, 0);
    es_case_fill(c);
    n_failures += compare_devices(c, cpu, cuda, 0);
    for (int i = 0; i < c->n_tensors; i++) {
        EsCaseTensor *t = &c->tensor[i];
        has_activation |= t->is_activation;
        // both sides start from the same values: all floats are rounded, since a kernel may round
        // weights itself
        for (int64_t k = 0; es_case_is_read(t) && es_case_is_float(t->dtype) && k < t->count; k++) {
            t->initial[k] = es_case_round_bf16(t->initial[k]);
        }
    }
    if (has_activation) {
        n_failures += compare_devices(c, cpu, cuda, 1);
    }
    es_case_close(cpu);
    es_case_close(cuda);
    return n_failures;
}
