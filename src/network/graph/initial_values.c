// The kinds that are computed element by element are in initial_rules.h; here are orthogonal
// matrices, which need a whole tensor at once.
#include "network/graph/initial_values.h"

#include "network/graph/initial_rules.h"

// columns made orthogonal together: while they are, each earlier one is read once for all of them
#define BLOCK 8
// a vector that shrinks below this share of its length has lost digits and is projected again
#define SHRUNK 1e-3

// --- orthogonal matrices ---

static int64_t rows_of(const EsValue *value) { return value->dim[1]; }

static int64_t columns_of(const EsValue *value) { return es_value_count(value) / value->dim[1]; }

// Eight running sums in a fixed order, which the compiler can turn into vectors.
static double dot(const double *a, const double *b, int64_t n) {
    double part[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (int j = 0; j < 8; j++) {
            part[j] += a[i + j] * b[i + j];
        }
    }
    for (int j = 0; i + j < n; j++) {
        part[j] += a[i + j] * b[i + j];
    }
    return ((part[0] + part[1]) + (part[2] + part[3])) +
           ((part[4] + part[5]) + (part[6] + part[7]));
}

// v -= (unit . v) unit
static void remove_projection(const double *ES_RESTRICT unit, double *ES_RESTRICT v, int64_t n) {
    double share = dot(unit, v, n);
    for (int64_t i = 0; i < n; i++) {
        v[i] -= share * unit[i];
    }
}

// The last of the earlier vectors, then length 1.
static void finish_vector(double *vectors, int64_t block, int64_t j, int64_t n, double before) {
    double *v = vectors + j * n;
    for (int64_t i = block; i < j; i++) {
        remove_projection(vectors + i * n, v, n);
    }
    double length = es_math_sqrt(dot(v, v, n));
    if (length < SHRUNK * before) {
        for (int64_t i = 0; i < j; i++) {
            remove_projection(vectors + i * n, v, n);
        }
        length = es_math_sqrt(dot(v, v, n));
    }
    for (int64_t i = 0; i < n; i++) {
        v[i] /= length;
    }
}

// Modified Gram-Schmidt over `count` vectors of `n` elements, count <= n: the Q of their QR
// decomposition with the diagonal of R positive.
static void make_orthonormal(double *vectors, int64_t count, int64_t n) {
    for (int64_t block = 0; block < count; block += BLOCK) {
        int64_t end = ES_MIN(block + BLOCK, count);
        double before[BLOCK];
        for (int64_t j = block; j < end; j++) {
            before[j - block] = es_math_sqrt(dot(vectors + j * n, vectors + j * n, n));
        }
        for (int64_t i = 0; i < block; i++) {
            for (int64_t j = block; j < end; j++) {
                remove_projection(vectors + i * n, vectors + j * n, n);
            }
        }
        for (int64_t j = block; j < end; j++) {
            finish_vector(vectors, block, j, n, before[j - block]);
        }
    }
}

// gain times a matrix whose columns, or rows where those are fewer, are orthonormal.
static void fill_orthogonal(const EsValue *value, const EsInitialKey *key, double *vectors,
                            float *part) {
    int64_t n_rows = rows_of(value), n_columns = columns_of(value);
    int64_t count = ES_MIN(n_rows, n_columns), n = ES_MAX(n_rows, n_columns);
    // element i of vector j stands at j vector_step + i element_step
    int64_t vector_step = n_rows < n_columns ? n_columns : 1;
    int64_t element_step = n_rows < n_columns ? 1 : n_columns;
    float *first = part + value->slab_offset;
    for (int64_t j = 0; j < count; j++) {
        for (int64_t i = 0; i < n; i++) {
            int64_t place = value->slab_offset + j * vector_step + i * element_step;
            vectors[j * n + i] = es_initial_gaussian(key, place);
        }
    }
    make_orthonormal(vectors, count, n);
    for (int64_t j = 0; j < count; j++) {
        for (int64_t i = 0; i < n; i++) {
            first[j * vector_step + i * element_step] =
                (float)((double)value->bound * vectors[j * n + i]);
        }
    }
}

// --- all kinds ---

size_t es_initial_workspace(const EsGraph *graph) {
    int64_t most = 0;
    for (int v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        if (value->role == ES_ROLE_PARAMETER && value->initial == ES_INITIAL_ORTHOGONAL) {
            most = ES_MAX(most, es_value_count(value));
        }
    }
    return (size_t)most;
}

void es_initial_values(const EsValue *value, const EsInitialKey *key, double *workspace,
                       float *part) {
    if (value->initial == ES_INITIAL_ORTHOGONAL) {
        ES_ASSERT(workspace != NULL);
        fill_orthogonal(value, key, workspace, part);
        return;
    }
    int64_t first = value->slab_offset;
    EsInitialTensor tensor = {.count = es_value_count(value),
                              .initial = (int32_t)value->initial,
                              .bound = value->bound,
                              .start = value->start};
    for (int64_t k = 0; k < tensor.count; k++) {
        part[first + k] = es_initial_value(&tensor, key, first, k);
    }
}
