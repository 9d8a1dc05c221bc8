// Letters: E environments, N images, C channels, H W height and width.
#include "es_test.h"
#include "kernels/kernel_case.h"

typedef struct Shape {
    int64_t E, N, C, H, W;
    int has_running;
    const char *golden;
} Shape;

static const Shape shapes[] = {
    {1, 2, 1, 1, 1, 1, "case0"}, {2, 4, 3, 5, 3, 1, "case1"}, {3, 7, 5, 1, 1, 1, "case2"},
    {1, 3, 8, 7, 4, 1, "case3"}, {2, 1, 3, 1, 1, 1, NULL}, // one value of each channel
    {2, 4, 8, 8, 8, 1, NULL},    {1, 33, 1, 3, 1, 0, NULL},   {1, 5, 33, 3, 43, 1, NULL},
    {3, 129, 5, 1, 1, 0, NULL},  {1, 8, 3, 31, 33, 1, NULL},
};

static const EsNormOptions options = {.epsilon = 1e-5f, .momentum = 0.1f};

static void run(const EsCaseRun *r) {
    const EsTensor *x = es_case_at(r, "x"), *gamma = es_case_at(r, "gamma");
    const EsTensor *beta = es_case_at(r, "beta"), *d_y = es_case_at(r, "d_y");
    const EsTensor *mean = es_case_at(r, "mean"), *inv_std = es_case_at(r, "inv_std");
    const EsTensor *d_gamma = es_case_at(r, "d_gamma"), *d_beta = es_case_at(r, "d_beta");
    const EsTensor *running_mean = es_case_at(r, "running_mean");
    const EsTensor *running_variance = es_case_at(r, "running_variance");
    const EsKernels *k = r->kernels;
    k->batchnorm_statistics(r->stream, options, x, mean, inv_std, running_mean, running_variance);
    k->batchnorm_apply(r->stream, x, mean, inv_std, gamma, beta, es_case_at(r, "y"));
    k->batchnorm_backward_sums(r->stream, x, mean, inv_std, d_y, d_gamma, d_beta);
    k->batchnorm_backward_input(r->stream, x, mean, inv_std, gamma, d_gamma, d_beta, d_y,
                                es_case_at(r, "d_x"));
    if (running_mean != NULL) {
        const EsTensor *mean_eval = es_case_at(r, "mean_eval");
        const EsTensor *inv_std_eval = es_case_at(r, "inv_std_eval");
        k->batchnorm_from_running(r->stream, options, running_mean, running_variance, mean_eval,
                                  inv_std_eval);
        k->batchnorm_apply(r->stream, x, mean_eval, inv_std_eval, gamma, beta,
                           es_case_at(r, "y_eval"));
    }
}

typedef struct Channel {
    double n, mean, variance, d_beta, d_gamma; // of the batch; biased variance
    double running_mean, running_variance;     // after the update
} Channel;

static int64_t element_of(const Shape *s, int64_t channel, int64_t k) {
    int64_t area = s->H * s->W, image = channel / s->C * s->N + k / area;
    return (image * s->C + channel % s->C) * area + k % area;
}

static Channel measure(const EsCase *c, int64_t channel) {
    const Shape *s = c->settings;
    const double *x = es_case_initial(c, "x"), *d_y = es_case_initial(c, "d_y");
    int64_t count = s->N * s->H * s->W;
    Channel m = {.n = (double)count};
    for (int64_t k = 0; k < count; k++) {
        m.mean += x[element_of(s, channel, k)] / m.n;
    }
    for (int64_t k = 0; k < count; k++) {
        double centred = x[element_of(s, channel, k)] - m.mean;
        m.variance += centred * centred / m.n;
        m.d_beta += d_y[element_of(s, channel, k)];
        m.d_gamma += d_y[element_of(s, channel, k)] * centred;
    }
    m.d_gamma /= sqrt(m.variance + 1e-5);
    if (s->has_running) {
        double unbiased = count > 1 ? m.variance * m.n / (m.n - 1.0) : m.variance;
        m.running_mean = 0.9 * es_case_initial(c, "running_mean")[channel] + 0.1 * m.mean;
        m.running_variance = 0.9 * es_case_initial(c, "running_variance")[channel] + 0.1 * unbiased;
    }
    return m;
}

static int expect(const EsCase *c, const char *output, double *expected) {
    const Shape *s = c->settings;
    const double *x = es_case_initial(c, "x"), *d_y = es_case_initial(c, "d_y");
    const double *gamma = es_case_initial(c, "gamma"), *beta = es_case_initial(c, "beta");
    for (int64_t channel = 0; channel < s->E * s->C; channel++) {
        Channel m = measure(c, channel);
        double inv_std = 1.0 / sqrt(m.variance + 1e-5);
        double inv_std_eval = 1.0 / sqrt(m.running_variance + 1e-5);
        const struct {
            const char *name;
            double value;
        } values[] = {{"mean", m.mean},
                      {"inv_std", inv_std},
                      {"d_gamma", m.d_gamma},
                      {"d_beta", m.d_beta},
                      {"running_mean", m.running_mean},
                      {"running_variance", m.running_variance},
                      {"mean_eval", m.running_mean},
                      {"inv_std_eval", inv_std_eval}};
        for (size_t i = 0; i < ES_COUNT_OF(values); i++) {
            if (strcmp(output, values[i].name) == 0) {
                expected[channel] = values[i].value;
            }
        }
        for (int64_t k = 0; k < s->N * s->H * s->W; k++) {
            int64_t at = element_of(s, channel, k);
            double xhat = (x[at] - m.mean) * inv_std;
            if (strcmp(output, "y") == 0) {
                expected[at] = xhat * gamma[channel] + beta[channel];
            } else if (strcmp(output, "y_eval") == 0) {
                expected[at] =
                    (x[at] - m.running_mean) * inv_std_eval * gamma[channel] + beta[channel];
            } else if (strcmp(output, "d_x") == 0) {
                expected[at] =
                    gamma[channel] * inv_std * (d_y[at] - m.d_beta / m.n - xhat * m.d_gamma / m.n);
            }
        }
    }
    return 1;
}

static void build(EsCase *c, const Shape *s) {
    es_case_begin(c, "batchnorm", s->golden, run, s);
    c->expect = expect;
    // xhat is up to 3 and carries the rounding of x - mean and of inv_std; epsilon as a float is
    // 1e-5 (1 + 2e-8)
    c->reference = (EsCaseBound){2e-6, 2e-6};
    c->parity = (EsCaseBound){4e-6, 4e-6};
    double over_map = sqrt((double)(s->N * s->H * s->W));
    EsCaseTensor *x =
        es_case_activation(c, ES_CASE_INPUT, "x", ES_DIMS(s->E, s->N, s->C, s->H, s->W));
    x->low = -2.0;
    x->high = 3.0;
    es_case_activation(c, ES_CASE_INPUT, "d_y", ES_DIMS(s->E, s->N, s->C, s->H, s->W));
    es_case_parameter(c, ES_CASE_INPUT, "gamma", ES_DIMS(s->E, s->C));
    es_case_parameter(c, ES_CASE_INPUT, "beta", ES_DIMS(s->E, s->C));
    es_case_parameter(c, ES_CASE_OUTPUT, "mean", ES_DIMS(s->E, s->C));
    es_case_parameter(c, ES_CASE_OUTPUT, "inv_std", ES_DIMS(s->E, s->C));
    es_case_activation(c, ES_CASE_OUTPUT, "y", ES_DIMS(s->E, s->N, s->C, s->H, s->W));
    es_case_parameter(c, ES_CASE_OUTPUT, "d_gamma", ES_DIMS(s->E, s->C))->scale = over_map;
    es_case_parameter(c, ES_CASE_OUTPUT, "d_beta", ES_DIMS(s->E, s->C))->scale = over_map;
    es_case_activation(c, ES_CASE_OUTPUT, "d_x", ES_DIMS(s->E, s->N, s->C, s->H, s->W));
    if (s->has_running) {
        es_case_parameter(c, ES_CASE_STATE, "running_mean", ES_DIMS(s->E, s->C));
        es_case_parameter(c, ES_CASE_STATE, "running_variance", ES_DIMS(s->E, s->C))->low = 0.5;
        es_case_parameter(c, ES_CASE_OUTPUT, "mean_eval", ES_DIMS(s->E, s->C));
        es_case_parameter(c, ES_CASE_OUTPUT, "inv_std_eval", ES_DIMS(s->E, s->C));
        es_case_activation(c, ES_CASE_OUTPUT, "y_eval", ES_DIMS(s->E, s->N, s->C, s->H, s->W));
    }
}

ES_KERNEL_TESTS(shapes, build)

// x = apply(x), after d_y = backward_input(d_y); statistics are given, any will do
static void run_in_place(const EsCaseRun *r) {
    const EsTensor *x = es_case_at(r, "x"), *d_y = es_case_at(r, "d_y");
    const EsTensor *mean = es_case_at(r, "mean"), *inv_std = es_case_at(r, "inv_std");
    const EsTensor *gamma = es_case_at(r, "gamma");
    r->kernels->batchnorm_backward_input(r->stream, x, mean, inv_std, gamma,
                                         es_case_at(r, "d_gamma"), es_case_at(r, "d_beta"), d_y,
                                         d_y);
    r->kernels->batchnorm_apply(r->stream, x, mean, inv_std, gamma, es_case_at(r, "beta"), x);
}

static int expect_in_place(const EsCase *c, const char *output, double *expected) {
    const Shape *s = c->settings;
    const double *x = es_case_initial(c, "x"), *d_y = es_case_initial(c, "d_y");
    double n = (double)(s->N * s->H * s->W);
    for (int64_t channel = 0; channel < s->E * s->C; channel++) {
        double gamma = es_case_initial(c, "gamma")[channel];
        double inv_std = es_case_initial(c, "inv_std")[channel];
        for (int64_t k = 0; k < s->N * s->H * s->W; k++) {
            int64_t at = element_of(s, channel, k);
            double xhat = (x[at] - es_case_initial(c, "mean")[channel]) * inv_std;
            double d_x = gamma * inv_std *
                         (d_y[at] - es_case_initial(c, "d_beta")[channel] / n -
                          xhat * es_case_initial(c, "d_gamma")[channel] / n);
            expected[at] =
                strcmp(output, "x") == 0 ? xhat * gamma + es_case_initial(c, "beta")[channel] : d_x;
        }
    }
    return 1;
}

static void build_in_place(EsCase *c, const Shape *s) {
    es_case_begin(c, "batchnorm", NULL, run_in_place, s);
    c->expect = expect_in_place;
    c->reference = (EsCaseBound){2e-6, 2e-6};
    c->parity = (EsCaseBound){4e-6, 4e-6};
    es_case_activation(c, ES_CASE_STATE, "x", ES_DIMS(s->E, s->N, s->C, s->H, s->W));
    es_case_activation(c, ES_CASE_STATE, "d_y", ES_DIMS(s->E, s->N, s->C, s->H, s->W));
    static const char *const names[] = {"mean", "gamma", "beta", "d_gamma", "d_beta"};
    for (size_t i = 0; i < ES_COUNT_OF(names); i++) {
        es_case_parameter(c, ES_CASE_INPUT, names[i], ES_DIMS(s->E, s->C));
    }
    EsCaseTensor *inv_std = es_case_parameter(c, ES_CASE_INPUT, "inv_std", ES_DIMS(s->E, s->C));
    inv_std->low = 0.5;
    inv_std->high = 2.0;
}

TEST(in_place) {
    ES_KERNEL_MODE(reference, shapes, build_in_place)
    if (es_device_cuda_count() > 0) {
        ES_KERNEL_MODE(parity, shapes, build_in_place)
    }
}
