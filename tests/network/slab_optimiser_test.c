// AdamW and averages over slabs, against plain loops in double; the same bits on any number of
// threads.
#include "es_test.h"

#include "kernels/ops/schedule_rules.h"
#include "network/slab_optimiser.h"

// rows longer than a piece of work
enum { E = 2, P = 16384 + 37, STEPS = 6 };

typedef struct Slabs {
    float rate[E], weight_decay[E], scheduled[E];
    int32_t n_steps[E], update;
    float gradient[E][P], moment1[E][P], moment2[E][P], parameter[E][P], average[E][P];
} Slabs;

static float draw(int64_t i) { return sinf((float)(i * 37 % 1009)) * 0.7f; }

static EsTensor view(EsDevice *device, void *data, EsDtype dtype, int rank) {
    return es_tensor_view(data, dtype, device, rank, (int64_t[]){E, P});
}

static const EsAdamOptions adam = {.beta1 = 0.8f, .beta2 = 0.95f, .epsilon = 1e-8f};

static Slabs *start(void) {
    Slabs *slabs = calloc(1, sizeof *slabs);
    for (int e = 0; e < E; e++) {
        slabs->rate[e] = 0.01f * (float)(1 + e);
        slabs->weight_decay[e] = 0.1f + 0.2f * (float)e;
        slabs->n_steps[e] = 3 * e; // began at different times
        for (int64_t i = 0; i < P; i++) {
            slabs->parameter[e][i] = draw(i + e);
        }
    }
    return slabs;
}

static Slabs *run(int n_threads, EsLearningRateSchedule schedule) {
    Slabs *slabs = start();
    EsDevice *device = NULL;
    EsStream *stream = NULL;
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = n_threads}, &device));
    REQUIRE_OK(es_stream_create(device, &stream));
    EsSgdRates rates = {.learning_rate = view(device, slabs->rate, ES_DTYPE_F32, 1),
                        .weight_decay = view(device, slabs->weight_decay, ES_DTYPE_F32, 1),
                        .schedule = schedule};
    if (schedule.n_updates > 0) {
        rates.update = es_tensor_view(&slabs->update, ES_DTYPE_I32, device, 1, (int64_t[]){1});
    }
    EsTensor scheduled = view(device, slabs->scheduled, ES_DTYPE_F32, 1);
    EsTensor n_steps = view(device, slabs->n_steps, ES_DTYPE_I32, 1);
    EsTensor gradient = view(device, slabs->gradient, ES_DTYPE_F32, 2);
    EsTensor moment1 = view(device, slabs->moment1, ES_DTYPE_F32, 2);
    EsTensor moment2 = view(device, slabs->moment2, ES_DTYPE_F32, 2);
    EsTensor parameter = view(device, slabs->parameter, ES_DTYPE_F32, 2);
    EsTensor average = view(device, slabs->average, ES_DTYPE_F32, 2);
    for (slabs->update = 0; slabs->update < STEPS; slabs->update++) {
        for (int64_t i = 0; i < (int64_t)E * P; i++) {
            slabs->gradient[i / P][i % P] = draw(i + 5 * slabs->update);
        }
        es_adamw_step(stream, adam, &rates, &scheduled, &gradient, &moment1, &moment2, &n_steps,
                      &parameter);
        es_average_update(stream, es_average_share(0.2f, slabs->update), &parameter, &average);
    }
    es_stream_destroy(stream);
    es_device_close(device);
    return slabs;
}

// A linear course from 1 to a half, written out.
static double linear_share(int step) { return 1 - 0.5 * (step + 1) / STEPS; }

static void check_steps(EsLearningRateSchedule schedule) {
    Slabs *first = start(), *slabs = run(1, schedule);
    for (int e = 0; e < E; e++) {
        EXPECT_EQ(slabs->n_steps[e], 3 * e + STEPS);
        for (int64_t i = 0; i < P; i++) {
            double p = (double)first->parameter[e][i], m = 0, v = 0, average = 0;
            for (int step = 0; step < STEPS; step++) {
                double g = (double)draw((int64_t)e * P + i + 5 * step);
                double share = schedule.n_updates > 0 ? linear_share(step) : 1;
                double rate = (double)first->rate[e] * share;
                int n = 3 * e + step + 1;
                m = (double)adam.beta1 * m + (1 - (double)adam.beta1) * g;
                v = (double)adam.beta2 * v + (1 - (double)adam.beta2) * g * g;
                p -= rate * (double)first->weight_decay[e] * p;
                p -= rate * (m / (1 - pow((double)adam.beta1, n))) /
                     (sqrt(v / (1 - pow((double)adam.beta2, n))) + (double)adam.epsilon);
                // (1 + t) / (10 + t) is above 0.2 from t = 2 on
                double kept = step == 0 ? 0.1 : step == 1 ? 2.0 / 11 : 0.2;
                average = kept * average + (1 - kept) * p;
            }
            EXPECT_NEAR(slabs->parameter[e][i], p, 2e-6);
            EXPECT_NEAR(slabs->average[e][i], average, 2e-6);
        }
    }
    free(first);
    free(slabs);
}

TEST(adamw_follows_a_plain_loop) { check_steps((EsLearningRateSchedule){0}); }

TEST(adamw_follows_its_schedule) {
    check_steps((EsLearningRateSchedule){ES_DECAY_LINEAR, 0.0f, 0.5f, STEPS});
}

TEST(threads_change_no_bit) {
    Slabs *one = run(1, (EsLearningRateSchedule){0}), *two = run(2, (EsLearningRateSchedule){0});
    EXPECT(memcmp(one, two, sizeof *one) == 0);
    free(one);
    free(two);
}

// Weights that stay leave their average as it is.
TEST(averages_rest) {
    float weights[5] = {0.1f, -3.7f, 1e-20f, 0, 7e8f}, average[5];
    EsDevice *device = NULL;
    EsStream *stream = NULL;
    memcpy(average, weights, sizeof average);
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &device));
    REQUIRE_OK(es_stream_create(device, &stream));
    EsTensor from = es_tensor_view(weights, ES_DTYPE_F32, device, 2, (int64_t[]){1, 5});
    EsTensor to = es_tensor_view(average, ES_DTYPE_F32, device, 2, (int64_t[]){1, 5});
    for (int i = 0; i < 100; i++) {
        es_average_update(stream, es_average_share(0.997f, i), &from, &to);
    }
    EXPECT(memcmp(average, weights, sizeof average) == 0);
    es_stream_destroy(stream);
    es_device_close(device);
}

TEST(adamw_skips_no_steps) {
    EsDevice *device = NULL;
    EsGraph *graph = NULL;
    EsStore *store = NULL;
    EsOptimiser *optimiser = NULL;
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &device));
    REQUIRE_OK(es_graph_create(1, &graph));
    REQUIRE_OK(es_store_create(graph, device, &store));
    EsOptimiserOptions options = es_optimiser_defaults(ES_OPTIMISER_ADAMW);
    options.skips_nonfinite = 1;
    EXPECT_STATUS(es_optimiser_create(graph, store, &options, &optimiser), UNSUPPORTED);
    EXPECT_CONTAINS(es_status_detail(), "AdamW runs on the CPU, and skips no steps");
    options = es_optimiser_defaults(ES_OPTIMISER_ADAM);
    options.weight_decay = 0.5f;
    EXPECT_STATUS(es_optimiser_create(graph, store, &options, &optimiser), UNSUPPORTED);
    es_store_destroy(store);
    es_graph_destroy(graph);
    es_device_close(device);
}
