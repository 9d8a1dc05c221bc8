// Declarations shared by kernel_case.c and kernel_checks.c.
#ifndef ES_TESTS_KERNEL_CASE_INTERNAL_H
#define ES_TESTS_KERNEL_CASE_INTERNAL_H

#include "kernel_case.h"

// A device opened for one check.
typedef struct EsCaseSide {
    EsDevice *device;
    EsStream *stream;
} EsCaseSide;

// Outputs and states of a run, in the order of the case's tensors; NULL for the others.
typedef struct EsCaseResults {
    double *value[ES_CASE_MAX_TENSORS]; // owned
} EsCaseResults;

// Tensors of rank 2 and more with a stride between environments in a run.
typedef enum EsCaseLayout {
    ES_CASE_CONTIGUOUS,
    ES_CASE_PARAMETERS_APART,
    ES_CASE_ALL_APART // but scratch, which tests fill themselves
} EsCaseLayout;

// A set-up failure makes the whole test pointless.
#define ES_CASE_REQUIRE(call)                                                                      \
    do {                                                                                           \
        EsStatus require_status_ = (call);                                                         \
        if (require_status_ != ES_STATUS_OK) {                                                     \
            printf("%s:%d: %s gives %s (%s)\n", __FILE__, __LINE__, #call,                         \
                   es_status_name(require_status_), es_status_detail());                           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

// Zeroed memory, or the end of the test; give it back with es_release.
void *es_case_take(size_t bytes);

int es_case_is_float(EsDtype dtype);
int es_case_is_read(const EsCaseTensor *t);
int es_case_is_written(const EsCaseTensor *t);

// Values of memory that holds `count` elements of `dtype`.
void es_case_decode(EsDtype dtype, const void *bytes, int64_t count, double *value);

// Draw the values of all inputs and states.
void es_case_fill(EsCase *c);

// Index of the tensor called prefix + name, or -1.
int es_case_find(const EsCase *c, const char *prefix, const char *name);

// n_lanes: the CPU's variant, 4 the specification; 0 the widest
EsCaseSide es_case_open(const char *name, int n_threads, int n_lanes);
void es_case_close(EsCaseSide side);

// Run the case once on fresh memory; with use_bf16 activations are stored as bf16. Returns the
// number of tensors between whose environments the kernels wrote. Release the results.
int es_case_execute(EsCase *c, EsCaseSide side, int use_bf16, EsCaseLayout layout,
                    EsCaseResults *results);
void es_case_release(EsCaseResults *results, const EsCase *c);

// "conv2d case1 against PyTorch: d_x [2, 3]"
void es_case_label(const EsCase *c, const EsCaseTensor *t, const char *what, char *text,
                   size_t text_bytes);

// Both print and return the number of failures.
int es_case_compare_tensor(const EsCase *c, const EsCaseTensor *t, const char *what,
                           const double *actual, const double *expected, EsCaseBound bound);
int es_case_compare_bits(const EsCase *c, const char *what, const EsCaseResults *a,
                         const EsCaseResults *b);

#endif
