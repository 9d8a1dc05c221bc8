#include "es_test.h"
#include "kernels/kernel_case.h"

// steps in a row, each with a gradient of its own
#define N_STEPS 5

typedef struct Shape {
    int is_adam;
    int64_t E, P;
    const char *golden;
    int is_nesterov;
    EsLearningRateSchedule schedule; // of SGD
} Shape;

// around the 4096 parameters of a piece
static const Shape shapes[] = {
    {0, 1, 1, "case0", 0, {0}},
    {0, 3, 17, "case1", 0, {0}},
    {1, 1, 1, "case2", 0, {0}},
    {1, 3, 17, "case3", 0, {0}},
    {0, 2, 4095, NULL, 0, {0}},
    {0, 1, 4096, NULL, 0, {0}},
    {0, 3, 4097, NULL, 0, {0}},
    {1, 2, 4097, NULL, 0, {0}},
    {1, 1, 4096, NULL, 0, {0}},
    {0, 2, 17, NULL, 1, {0}},
    {0, 3, 4097, NULL, 1, {ES_DECAY_COSINE, 0.4f, 0.1f, 5}},
    {0, 2, 33, NULL, 0, {ES_DECAY_LINEAR, 0.0f, 0.0f, 4}},
    {0, 1, 5, NULL, 0, {ES_DECAY_CONSTANT, 1.0f, 0.5f, 5}},
};

static const EsAdamOptions adam_options = {.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f};

static void run(const EsCaseRun *r) {
    const Shape *s = r->settings;
    for (int64_t step = 0; step < N_STEPS; step++) {
        EsTensor slice = es_tensor_slice(es_case_at(r, "gradient"), 0, step, 1);
        EsTensor gradient = es_tensor_reshape(&slice, 2, (int64_t[]){s->E, s->P});
        if (s->is_adam) {
            r->kernels->adam_step(r->stream, adam_options, es_case_at(r, "rate"), &gradient,
                                  es_case_at(r, "moment1"), es_case_at(r, "moment2"),
                                  es_case_at(r, "n_steps"), es_case_at(r, "parameter"));
        } else {
            EsSgdRates rates = {.learning_rate = *es_case_at(r, "rate"),
                                .momentum = *es_case_at(r, "momentum_rate"),
                                .weight_decay = *es_case_at(r, "weight_decay"),
                                .is_nesterov = s->is_nesterov,
                                .schedule = s->schedule};
            if (s->schedule.n_updates > 0) {
                rates.update = es_tensor_slice(es_case_at(r, "update"), 0, step, 1);
            }
            r->kernels->sgd_step(r->stream, &rates, &gradient, es_case_at(r, "momentum"),
                                 es_case_at(r, "parameter"));
        }
    }
}

// Warm-up in even steps, then the decay; the last update has the final share.
static double share_of(const EsLearningRateSchedule *schedule, int64_t step) {
    double n = (double)schedule->n_updates, warmup = (double)schedule->warmup * n;
    double done = fmin((double)step + 1, n), final_share = (double)schedule->final_share;
    if (schedule->n_updates == 0) {
        return 1;
    }
    if (done < warmup) {
        return done / warmup;
    }
    double left = n > warmup ? (n - done) / (n - warmup) : 0; // 1 to 0
    return schedule->decay == ES_DECAY_COSINE
               ? final_share + (1 - final_share) * (1 - cos(acos(-1.0) * left)) / 2
           : schedule->decay == ES_DECAY_LINEAR ? final_share + (1 - final_share) * left
                                                : 1;
}

static int expect_sgd(const EsCase *c, const char *output, double *expected) {
    const Shape *s = c->settings;
    for (int64_t i = 0; i < s->E * s->P; i++) {
        double parameter = es_case_initial(c, "parameter")[i];
        double momentum = es_case_initial(c, "momentum")[i];
        int64_t e = i / s->P;
        for (int64_t step = 0; step < N_STEPS; step++) {
            double gradient = es_case_initial(c, "gradient")[step * s->E * s->P + i];
            double d = gradient + es_case_initial(c, "weight_decay")[e] * parameter;
            double keep = es_case_initial(c, "momentum_rate")[e];
            int64_t update =
                s->schedule.n_updates > 0 ? (int64_t)es_case_initial(c, "update")[step] : 0;
            momentum = keep * momentum + d;
            parameter -= es_case_initial(c, "rate")[e] * share_of(&s->schedule, update) *
                         (s->is_nesterov ? d + keep * momentum : momentum);
        }
        expected[i] = strcmp(output, "parameter") == 0 ? parameter : momentum;
    }
    return 1;
}

static int expect_adam(const EsCase *c, const char *output, double *expected) {
    const Shape *s = c->settings;
    double beta1 = (double)adam_options.beta1, beta2 = (double)adam_options.beta2;
    for (int64_t i = 0; i < s->E * s->P; i++) {
        int64_t e = i / s->P;
        double parameter = es_case_initial(c, "parameter")[i];
        double moment1 = es_case_initial(c, "moment1")[i];
        double moment2 = es_case_initial(c, "moment2")[i];
        double n_steps = es_case_initial(c, "n_steps")[e];
        for (int64_t step = 0; step < N_STEPS; step++) {
            double gradient = es_case_initial(c, "gradient")[step * s->E * s->P + i];
            n_steps += 1.0;
            moment1 = beta1 * moment1 + (1.0 - beta1) * gradient;
            moment2 = beta2 * moment2 + (1.0 - beta2) * gradient * gradient;
            double corrected1 = moment1 / (1.0 - pow(beta1, n_steps));
            double corrected2 = moment2 / (1.0 - pow(beta2, n_steps));
            parameter -= es_case_initial(c, "rate")[e] * corrected1 /
                         (sqrt(corrected2) + (double)adam_options.epsilon);
        }
        if (strcmp(output, "n_steps") == 0) {
            expected[e] = n_steps;
        } else {
            expected[i] = strcmp(output, "parameter") == 0 ? parameter
                          : strcmp(output, "moment1") == 0 ? moment1
                                                           : moment2;
        }
    }
    return 1;
}

static void add_rate(EsCase *c, const Shape *s, const char *name, double low, double high) {
    EsCaseTensor *t = es_case_parameter(c, ES_CASE_INPUT, name, ES_DIMS(s->E));
    t->low = low;
    t->high = high;
}

static void build(EsCase *c, const Shape *s) {
    es_case_begin(c, "optimiser", s->golden, run, s);
    c->expect = s->is_adam ? expect_adam : expect_sgd;
    es_case_parameter(c, ES_CASE_INPUT, "gradient", ES_DIMS(N_STEPS, s->E, s->P));
    es_case_parameter(c, ES_CASE_STATE, "parameter", ES_DIMS(s->E, s->P));
    add_rate(c, s, "rate", 0.001, 0.1);
    if (s->is_adam) {
        es_case_parameter(c, ES_CASE_STATE, "moment1", ES_DIMS(s->E, s->P));
        EsCaseTensor *moment2 = es_case_parameter(c, ES_CASE_STATE, "moment2", ES_DIMS(s->E, s->P));
        moment2->low = 0.1;
        es_case_integers(c, ES_CASE_STATE, "n_steps", ES_DTYPE_I32, 0, 2000, ES_DIMS(s->E))->scale =
            0.0;
    } else {
        es_case_parameter(c, ES_CASE_STATE, "momentum", ES_DIMS(s->E, s->P));
        if (s->schedule.n_updates > 0) { // in any order, and beyond the last
            es_case_integers(c, ES_CASE_INPUT, "update", ES_DTYPE_I32, 0,
                             (int)s->schedule.n_updates + 1, ES_DIMS(N_STEPS));
        }
        add_rate(c, s, "momentum_rate", 0.0, 0.95);
        add_rate(c, s, "weight_decay", 0.0, 0.1);
    }
}

ES_KERNEL_REFERENCE(shapes, build)
ES_KERNEL_PARITY(shapes, build)
