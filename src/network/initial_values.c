// Element q of a slab uses draw q / 4: uniform values its word q % 4, Gaussian ones the pair of
// words that it shares with its neighbour, one taking the cosine and one the sine (Box and Muller).
#include "network/initial_values.h"

#include "base/math_rules.h"

#define PI 3.14159265358979323846

// columns made orthogonal together: while they are, each earlier one is read once for all of them
#define BLOCK 8
// a vector that shrinks below this share of its length has lost digits and is projected again
#define SHRUNK 1e-3

static EsRandom4 draw_at(const EsInitialKey *key, int64_t q) {
    return es_random_draw(key->seed, key->episode, key->purpose, key->step, (uint32_t)(q / 4));
}

// Standard normal. The halves keep the logarithm and both circle functions away from 0.
static double gaussian_at(const EsInitialKey *key, int64_t q) {
    EsRandom4 draw = draw_at(key, q);
    int64_t pair = q % 4 / 2 * 2;
    double size = ((double)draw.word[pair] + 0.5) * 0x1p-32;
    double turn = ((double)draw.word[pair + 1] + 0.5) * 0x1p-32;
    double angle = 2.0 * PI * turn - (q % 2 == 1 ? PI / 2.0 : 0.0);
    return es_math_sqrt(-2.0 * es_math_log(size)) * es_math_cos(angle);
}

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
            vectors[j * n + i] = gaussian_at(key, place);
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

static float uniform_at(const EsValue *value, const EsInitialKey *key, int64_t q) {
    if (!(value->bound > 0.0f)) {
        return value->start;
    }
    float uniform = es_random_uniform(draw_at(key, q).word[q % 4]);
    return value->start + (2.0f * uniform - 1.0f) * value->bound;
}

void es_initial_values(const EsValue *value, const EsInitialKey *key, double *workspace,
                       float *part) {
    int64_t count = es_value_count(value), first = value->slab_offset;
    switch (value->initial) {
    case ES_INITIAL_UNIFORM:
        for (int64_t q = first; q < first + count; q++) {
            part[q] = uniform_at(value, key, q);
        }
        break;
    case ES_INITIAL_NORMAL:
        for (int64_t q = first; q < first + count; q++) {
            part[q] = (float)((double)value->start + (double)value->bound * gaussian_at(key, q));
        }
        break;
    case ES_INITIAL_ORTHOGONAL:
        ES_ASSERT(workspace != NULL);
        fill_orthogonal(value, key, workspace, part);
        break;
    case ES_INITIAL_FORGET:
        for (int64_t k = 0; k < count; k++) {
            part[first + k] = k >= count / 4 && k < count / 2 ? value->start : 0.0f;
        }
    }
}
