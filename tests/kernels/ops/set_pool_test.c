// Letters: E environments, R sets, S members of a set, D features.
#include "es_test.h"
#include "kernels/kernel_case.h"

typedef struct Shape {
    int64_t E, R, S, D;
    int is_weighted;
} Shape;

// one member, one feature, around the 16 sets of a piece and the threads of a block
static const Shape shapes[] = {
    {1, 1, 1, 1, 0},   {2, 3, 4, 5, 1},   {3, 15, 2, 7, 0},  {2, 16, 12, 3, 1},
    {1, 17, 6, 33, 1}, {2, 5, 16, 64, 0}, {1, 257, 3, 1, 1}, {1, 2, 5, 129, 1},
};

static void run(const EsCaseRun *r) {
    const Shape *s = r->settings;
    const EsTensor *w = s->is_weighted ? es_case_at(r, "w") : NULL;
    const EsTensor *x = es_case_at(r, "x"), *row = es_case_at(r, "row");
    const EsTensor *most = es_case_at(r, "most");
    r->kernels->set_sum(r->stream, 0.25f, x, w, es_case_at(r, "sum"));
    r->kernels->set_broadcast(r->stream, 0.5f, row, w, es_case_at(r, "broadcast"));
    r->kernels->set_max_forward(r->stream, x, most);
    r->kernels->set_max_backward(r->stream, x, most, es_case_at(r, "d_most"),
                                 es_case_at(r, "d_members"));
}

// The first member that is as large as any.
static int64_t largest(const double *x, int64_t S, int64_t D) {
    int64_t best = 0;
    for (int64_t s = 1; s < S; s++) {
        best = x[s * D] > x[best * D] ? s : best;
    }
    return best;
}

static int expect(const EsCase *c, const char *output, double *expected) {
    const Shape *h = c->settings;
    const double *x = es_case_initial(c, "x"), *row = es_case_initial(c, "row");
    const double *d_most = es_case_initial(c, "d_most");
    const double *w = h->is_weighted ? es_case_initial(c, "w") : NULL;
    for (int64_t set = 0; set < h->E * h->R; set++) {
        for (int64_t d = 0; d < h->D; d++) {
            const double *member = x + set * h->S * h->D + d;
            int64_t best = largest(member, h->S, h->D);
            double sum = 0;
            for (int64_t s = 0; s < h->S; s++) {
                double weight = w != NULL ? w[set * h->S + s] : 1;
                int64_t at = (set * h->S + s) * h->D + d;
                sum += 0.25 * weight * member[s * h->D];
                if (strcmp(output, "broadcast") == 0) {
                    expected[at] = 0.5 * weight * row[set * h->D + d];
                } else if (strcmp(output, "d_members") == 0) {
                    expected[at] = s == best ? d_most[set * h->D + d] : 0;
                }
            }
            if (strcmp(output, "sum") == 0) {
                expected[set * h->D + d] = sum;
            } else if (strcmp(output, "most") == 0) {
                expected[set * h->D + d] = member[best * h->D];
            }
        }
    }
    return 1;
}

static void build(EsCase *c, const Shape *s) {
    es_case_begin(c, "set_pool", NULL, run, s);
    c->expect = expect;
    c->reference = (EsCaseBound){2e-7, 2e-7};
    c->parity = (EsCaseBound){2e-7, 2e-7};
    es_case_activation(c, ES_CASE_INPUT, "x", ES_DIMS(s->E, s->R, s->S, s->D));
    es_case_activation(c, ES_CASE_INPUT, "row", ES_DIMS(s->E, s->R, s->D));
    es_case_activation(c, ES_CASE_INPUT, "d_most", ES_DIMS(s->E, s->R, s->D));
    es_case_activation(c, ES_CASE_OUTPUT, "sum", ES_DIMS(s->E, s->R, s->D))->scale = (double)s->S;
    es_case_activation(c, ES_CASE_OUTPUT, "broadcast", ES_DIMS(s->E, s->R, s->S, s->D));
    es_case_activation(c, ES_CASE_OUTPUT, "most", ES_DIMS(s->E, s->R, s->D));
    es_case_activation(c, ES_CASE_OUTPUT, "d_members", ES_DIMS(s->E, s->R, s->S, s->D));
    if (s->is_weighted) {
        es_case_activation(c, ES_CASE_INPUT, "w", ES_DIMS(s->E, s->R, s->S));
    }
}

ES_KERNEL_REFERENCE(shapes, build)
ES_KERNEL_PARITY(shapes, build)

// A tie goes to the first member, NaN stays and gives its gradient to none.
TEST(ties_and_nan) {
    EsDevice *device = NULL;
    EsStream *stream = NULL;
    REQUIRE_OK(es_device_open("cpu", NULL, &device));
    REQUIRE_OK(es_stream_create(device, &stream));
    float x[] = {2, NAN, 1, 2, 5, 3}, y[2], d_y[] = {7, 9}, d_x[6];
    const int64_t sets[] = {1, 1, 3, 2}, rows[] = {1, 1, 2};
    EsTensor x_view = es_tensor_view(x, ES_DTYPE_F32, device, 4, sets);
    EsTensor d_x_view = es_tensor_view(d_x, ES_DTYPE_F32, device, 4, sets);
    EsTensor y_view = es_tensor_view(y, ES_DTYPE_F32, device, 3, rows);
    EsTensor d_y_view = es_tensor_view(d_y, ES_DTYPE_F32, device, 3, rows);
    x[4] = 2; // members 0 and 2 are equal in feature 0
    es_kernels_of(device)->set_max_forward(stream, &x_view, &y_view);
    es_kernels_of(device)->set_max_backward(stream, &x_view, &y_view, &d_y_view, &d_x_view);
    REQUIRE_OK(es_stream_synchronize(stream));
    EXPECT_EQ(y[0], 2.0f);
    EXPECT(isnan(y[1]));
    const float expected[] = {7, 0, 0, 0, 0, 0};
    for (int i = 0; i < 6; i++) {
        EXPECT_EQ(d_x[i], expected[i]);
    }
    es_stream_destroy(stream);
    es_device_close(device);
}
