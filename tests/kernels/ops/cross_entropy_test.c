#include "es_test.h"
#include "kernels/kernel_case.h"

typedef struct Shape {
    int64_t E, N, K;
    double size; // of the logits
    int has_d_loss;
    const char *golden;
    float smoothing;
} Shape;

// rows one below, at and above the 64 of a piece; logits whose plain exponentials overflow
static const Shape shapes[] = {
    {1, 1, 1, 1, 0, "case0", 0},   {2, 5, 10, 3, 1, "case1", 0},    {3, 7, 3, 1, 0, "case2", 0},
    {1, 65, 31, 5, 1, "case3", 0}, {2, 4, 10, 2000, 0, "case4", 0}, {2, 63, 2, 3, 1, NULL, 0},
    {1, 64, 10, 3, 0, NULL, 0},    {5, 129, 33, 10, 1, NULL, 0},    {1, 1, 257, 3, 0, NULL, 0},
    {2, 65, 10, 3, 1, NULL, 0.1f}, {1, 3, 40, 2000, 0, NULL, 0.5f}, {1, 7, 1, 3, 0, NULL, 1.0f},
};

static void run(const EsCaseRun *r) {
    const EsTensor *logits = es_case_at(r, "logits"), *labels = es_case_at(r, "labels");
    float smoothing = ((const Shape *)r->settings)->smoothing;
    r->kernels->cross_entropy_forward(r->stream, smoothing, logits, labels, es_case_at(r, "loss"),
                                      es_case_at(r, "n_correct"), es_case_at(r, "n_invalid"));
    r->kernels->cross_entropy_backward(r->stream, smoothing, logits, labels,
                                       es_case_at(r, "d_loss"), es_case_at(r, "d_logits"));
}

// log of the sum of exponentials, by its definition around the largest logit
static double log_sum(const double *logits, int64_t K, int64_t *first_largest) {
    double sum = 0.0;
    *first_largest = 0;
    for (int64_t k = 0; k < K; k++) {
        *first_largest = logits[k] > logits[*first_largest] ? k : *first_largest;
    }
    for (int64_t k = 0; k < K; k++) {
        sum += exp(logits[k] - logits[*first_largest]);
    }
    return log(sum) + logits[*first_largest];
}

static int expect(const EsCase *c, const char *output, double *expected) {
    const Shape *s = c->settings;
    const double *d_loss = es_case_initial(c, "d_loss");
    for (int64_t e = 0; e < s->E; e++) {
        double loss = 0.0, n_correct = 0.0, n_invalid = 0.0;
        for (int64_t n = 0; n < s->N; n++) {
            int64_t row = e * s->N + n, best = 0;
            const double *logits = es_case_initial(c, "logits") + row * s->K;
            int64_t label = (int64_t)es_case_initial(c, "labels")[row];
            int is_valid = label >= 0 && label < s->K;
            double lse = log_sum(logits, s->K, &best);
            // the target: 1 - s on the label, s shared by all
            double s_all = (double)s->smoothing / (double)s->K, of_label = 1 - (double)s->smoothing;
            for (int64_t k = 0; is_valid && k < s->K; k++) {
                double target = s_all + (k == label ? of_label : 0);
                loss += target * (lse - logits[k]) / (double)s->N;
            }
            n_correct += is_valid && best == label;
            n_invalid += !is_valid;
            for (int64_t k = 0; strcmp(output, "d_logits") == 0 && k < s->K; k++) {
                double target = s_all + (k == label ? of_label : 0);
                double gradient = (exp(logits[k] - lse) - target) / (double)s->N;
                expected[row * s->K + k] =
                    is_valid ? gradient * (d_loss != NULL ? d_loss[e] : 1.0) : 0.0;
            }
        }
        if (strcmp(output, "loss") == 0) {
            expected[e] = loss;
        } else if (strcmp(output, "n_correct") == 0) {
            expected[e] = n_correct;
        } else if (strcmp(output, "n_invalid") == 0) {
            expected[e] = n_invalid;
        }
    }
    return 1;
}

static void build(EsCase *c, const Shape *s) {
    es_case_begin(c, "cross_entropy", s->golden, run, s);
    c->expect = expect;
    EsCaseTensor *logits =
        es_case_activation(c, ES_CASE_INPUT, "logits", ES_DIMS(s->E, s->N, s->K));
    logits->low = -s->size;
    logits->high = s->size;
    es_case_integers(c, ES_CASE_INPUT, "labels", ES_DTYPE_I32, -1, (int)s->K, ES_DIMS(s->E, s->N));
    EsCaseTensor *loss = es_case_parameter(c, ES_CASE_OUTPUT, "loss", ES_DIMS(s->E));
    loss->cotangent = 1.0;
    // counts are exact: no absolute allowance, and the relative one stays below 1
    es_case_integers(c, ES_CASE_OUTPUT, "n_correct", ES_DTYPE_I32, 0, 0, ES_DIMS(s->E))->scale =
        0.0;
    es_case_integers(c, ES_CASE_OUTPUT, "n_invalid", ES_DTYPE_I32, 0, 0, ES_DIMS(s->E))->scale =
        0.0;
    es_case_activation(c, ES_CASE_OUTPUT, "d_logits", ES_DIMS(s->E, s->N, s->K));
    if (s->has_d_loss) {
        es_case_parameter(c, ES_CASE_INPUT, "d_loss", ES_DIMS(s->E));
    }
}

ES_KERNEL_REFERENCE(shapes, build)
ES_KERNEL_PARITY(shapes, build)

// differences of logits in the thousands are beyond a step of 5e-3 in f32
static const Shape smooth[] = {{1, 1, 2, 1, 0, NULL, 0},
                               {2, 5, 10, 3, 1, NULL, 0},
                               {3, 7, 3, 1, 0, NULL, 0},
                               {1, 9, 33, 2, 1, NULL, 0}};
ES_KERNEL_GRADIENT(smooth, build)

// equal logits: the first one counts as the answer
TEST(first_largest_is_the_answer) {
    EsDevice *device = NULL;
    EsStream *stream = NULL;
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &device));
    REQUIRE_OK(es_stream_create(device, &stream));
    float logits[3][3] = {{2, 2, 1}, {2, 2, 1}, {0, 0, 0}};
    int32_t labels[3] = {0, 1, 2}, n_correct[3], n_invalid[3];
    float loss[3];
    EsTensor x = es_tensor_view(logits, ES_DTYPE_F32, device, 3, (int64_t[]){3, 1, 3});
    EsTensor l = es_tensor_view(labels, ES_DTYPE_I32, device, 2, (int64_t[]){3, 1});
    EsTensor y = es_tensor_view(loss, ES_DTYPE_F32, device, 1, (int64_t[]){3});
    EsTensor a = es_tensor_view(n_correct, ES_DTYPE_I32, device, 1, (int64_t[]){3});
    EsTensor b = es_tensor_view(n_invalid, ES_DTYPE_I32, device, 1, (int64_t[]){3});
    es_kernels_of(device)->cross_entropy_forward(stream, 0, &x, &l, &y, &a, &b);
    EXPECT_EQ(n_correct[0], 1);
    EXPECT_EQ(n_correct[1], 0);
    EXPECT_EQ(n_correct[2], 0);
    EXPECT_NEAR(loss[2], log(3.0), 1e-6);
    // divergence stays visible
    logits[0][2] = NAN;
    es_kernels_of(device)->cross_entropy_forward(stream, 0, &x, &l, &y, &a, &b);
    EXPECT(isnan(loss[0]));
    es_stream_destroy(stream);
    es_device_close(device);
}
