// One description of a kernel case (tensors, a run, bounds), checked in three modes.
//
// reference  the CPU result, at every vector width this machine runs, against golden values from
//            PyTorch and/or a naive double-precision loop; also equal bits on one and on three
//            threads, and with environments apart.
// gradient   the backward kernels against central differences of the forward kernels, likewise.
// parity     CUDA against the CPU's specification, with f32 and with bf16 activations, parameters
//            apart.
//
// Environments apart: axis 0 has a stride longer than one environment, as in a slab, and the gap
// between environments holds a pattern that must be there after the run.
//
// Tensors are paired by name: an input "x" with an output "d_x" has its gradient checked; an output
// "y" with an input "d_y" enters the scalar <d_y, y> that is differentiated. Outputs hold NaN
// before a run, so what a kernel leaves unwritten or accumulates into is seen.
//
//     typedef struct Shape { int64_t E, N, D; const char *golden; } Shape;
//     static const Shape shapes[] = {{1, 1, 1, NULL}, {2, 3, 5, "case0"}};
//     static void run(const EsCaseRun *r) {
//         r->kernels->activation_forward(r->stream, ES_ACTIVATION_RELU, es_case_at(r, "x"),
//         es_case_at(r, "y"));
//     }
//     static void build(EsCase *c, const Shape *s) {
//         es_case_begin(c, "activation", s->golden, run, s);
//         es_case_activation(c, ES_CASE_INPUT, "x", ES_DIMS(s->E, s->N, s->D));
//         es_case_activation(c, ES_CASE_OUTPUT, "y", ES_DIMS(s->E, s->N, s->D));
//     }
//     ES_KERNEL_TESTS(shapes, build)    // TEST(reference), TEST(gradient), TEST(parity)
#ifndef ES_TESTS_KERNEL_CASE_H
#define ES_TESTS_KERNEL_CASE_H

#include "kernels/kernels.h"

#define ES_CASE_MAX_TENSORS 40

// STATE is read and written: its golden result is called "<name>_after". SCRATCH is not compared.
typedef enum EsCaseRole {
    ES_CASE_INPUT,
    ES_CASE_OUTPUT,
    ES_CASE_STATE,
    ES_CASE_SCRATCH
} EsCaseRole;

// |actual - expected| <= absolute * scale of the tensor + relative * |expected|
typedef struct EsCaseBound {
    double absolute, relative;
} EsCaseBound;

typedef struct EsCaseTensor {
    char name[32];
    EsCaseRole role;
    EsDtype dtype;
    int is_activation; // stored as bf16 in the second parity run
    int is_parameter;  // environments apart in parity runs; the CUDA kernels may take the rest as
                       // contiguous
    int rank;
    int64_t dim[ES_MAX_RANK];
    int64_t count;
    double low,
        high;     // inputs and states are filled uniformly from here; integers include both ends
    double scale; // expected magnitude of the values, multiplies the absolute bound; 1
    double cotangent; // of an output without an input "d_<name>", such as a loss; 0
    double *initial;  // owned; values before the run, exact in dtype
} EsCaseTensor;

typedef struct EsCase EsCase;

// One execution on one device; made by the harness.
typedef struct EsCaseRun {
    const EsKernels *kernels;
    EsStream *stream;
    const void *settings; // as given to es_case_begin
    const EsCase *of;
    EsTensor tensor[ES_CASE_MAX_TENSORS];
} EsCaseRun;

typedef void (*EsCaseFunction)(const EsCaseRun *run);

// Naive double-precision result of one output or state; returns 0 where it has none for that name.
typedef int (*EsCaseExpect)(const EsCase *c, const char *output, double *expected);

struct EsCase {
    const char *stem;
    const char *golden;   // prefix of the names in <stem>.safetensors, "case0"; NULL: none
    const void *settings; // borrowed
    EsCaseFunction run;
    EsCaseExpect expect; // nullable
    int is_flat;         // the kernels take whole tensors as one array: environments never apart
    EsCaseBound reference, gradient, parity, parity_bf16;
    double step; // of the central differences
    int n_tensors;
    EsCaseTensor tensor[ES_CASE_MAX_TENSORS];
};

// ES_DIMS(2, 3, 4) stands for the two arguments rank and dims
#define ES_DIMS(...)                                                                               \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

// --- describing a case: the pointers returned may be used to change the defaults of a tensor ---

void es_case_begin(EsCase *c, const char *stem, const char *golden, EsCaseFunction run,
                   const void *settings);

// f32, in [-1, 1]; an activation becomes bf16 in the second parity run, a parameter stays f32 and
// has is_parameter set.
EsCaseTensor *es_case_activation(EsCase *c, EsCaseRole role, const char *name, int rank,
                                 const int64_t *dims);
EsCaseTensor *es_case_parameter(EsCase *c, EsCaseRole role, const char *name, int rank,
                                const int64_t *dims);
// I32, I64, U8 or U16, in [low, high].
EsCaseTensor *es_case_integers(EsCase *c, EsCaseRole role, const char *name, EsDtype dtype, int low,
                               int high, int rank, const int64_t *dims);

// --- inside run and expect ---

// NULL where the case has no such tensor, which is what nullable parameters want.
const EsTensor *es_case_at(const EsCaseRun *run, const char *name);

// Values before the run; NULL where the case has no such tensor.
const double *es_case_initial(const EsCase *c, const char *name);

// --- checking: each prints what is wrong and returns the number of failures ---

int es_case_check_reference(EsCase *c);
int es_case_check_gradient(EsCase *c);
int es_case_check_parity(EsCase *c);
void es_case_end(EsCase *c);

// For tests of their own: compare arrays, naming the worst element; NaN anywhere fails.
int es_case_compare(const char *label, const double *actual, const double *expected, int64_t count,
                    double absolute, double relative);

// A uniform value of the harness's own Philox stream: a function of (stream, index) alone.
double es_case_uniform(uint32_t stream, int64_t index, double low, double high);

// The nearest bf16 value, ties to even.
double es_case_round_bf16(double value);

#define ES_KERNEL_MODE(mode, shapes, build)                                                        \
    for (size_t es_i_ = 0; es_i_ < ES_COUNT_OF(shapes); es_i_++) {                                 \
        EsCase es_case_;                                                                           \
        build(&es_case_, &(shapes)[es_i_]);                                                        \
        int es_failures_ = es_case_check_##mode(&es_case_);                                        \
        es_case_end(&es_case_);                                                                    \
        if (es_failures_ > 0) {                                                                    \
            ES_TEST_FAIL("case %zu of the list: %d failures", es_i_, es_failures_);                \
        }                                                                                          \
    }

#define ES_KERNEL_REFERENCE(shapes, build)                                                         \
    TEST(reference) { ES_KERNEL_MODE(reference, shapes, build) }

#define ES_KERNEL_GRADIENT(shapes, build)                                                          \
    TEST(gradient) { ES_KERNEL_MODE(gradient, shapes, build) }

#define ES_KERNEL_PARITY(shapes, build)                                                            \
    TEST(parity) {                                                                                 \
        if (es_device_cuda_count() == 0) {                                                         \
            SKIP("no CUDA device");                                                                \
        }                                                                                          \
        ES_KERNEL_MODE(parity, shapes, build)                                                      \
    }

#define ES_KERNEL_TESTS(shapes, build)                                                             \
    ES_KERNEL_REFERENCE(shapes, build)                                                             \
    ES_KERNEL_GRADIENT(shapes, build)                                                              \
    ES_KERNEL_PARITY(shapes, build)

#endif
