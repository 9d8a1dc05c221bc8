// Training hosts side by side: they learn, bits do not depend on threads or neighbours, evaluation
// covers a whole split, and data that does not fit is refused.
#include "es_test.h"

#include "growth/engine/host_trainer.h"
#include "tensor/profile.h"

#define MAX_ENVS 8

typedef struct Session {
    EsDevice *device;
    EsDataset dataset;
    EsHostTrainer *trainer;
} Session;

static EsHostTrainerOptions tiny_options(int64_t n_envs) {
    EsHostSpec host;
    REQUIRE_OK(es_host_preset("tiny", &host));
    EsHostTrainerOptions options = es_host_trainer_defaults(&host, n_envs);
    options.is_tf32 = 0; // compared with the CPU
    return options;
}

// The trainer borrows the session's data set, so the session must not move.
static void session_begin(Session *session, const EsHostTrainerOptions *options, const char *device,
                          int n_threads) {
    memset(session, 0, sizeof *session);
    EsDatasetOptions small = {.seed = 7, .n_train = 700, .n_validation = 333, .n_test = 50};
    REQUIRE_OK(
        es_device_open(device, &(EsDeviceOptions){.n_threads = n_threads}, &session->device));
    REQUIRE_OK(es_dataset_open(&session->dataset, "tiny", &small, NULL));
    REQUIRE_OK(
        es_host_trainer_create(options, &session->dataset, session->device, &session->trainer));
}

static void session_end(Session *session) {
    es_host_trainer_destroy(session->trainer);
    es_dataset_destroy(&session->dataset);
    es_device_close(session->device);
}

TEST(hosts_learn) {
    EsHostTrainerOptions options = tiny_options(3);
    Session session;
    session_begin(&session, &options, "cpu", 2);
    EsHostResult before[MAX_ENVS], after[MAX_ENVS];
    REQUIRE_OK(es_host_trainer_evaluate(session.trainer, &session.dataset.train, before));
    REQUIRE_OK(es_host_trainer_train(session.trainer, 400));
    REQUIRE_OK(es_host_trainer_evaluate(session.trainer, &session.dataset.train, after));
    for (int e = 0; e < 3; e++) {
        EXPECT(after[e].loss < before[e].loss - 0.2);
        EXPECT(after[e].accuracy > before[e].accuracy + 5.0);
        EXPECT(after[e].loss != after[(e + 1) % 3].loss);
    }
    session_end(&session);
}

// Parameters after a few augmented steps.
static void record(EsHostTrainerOptions options, const char *device, int n_threads,
                   float *parameters, int64_t env) {
    options.recipe.pad = 2;
    options.recipe.flip = 1;
    Session session;
    session_begin(&session, &options, device, n_threads);
    REQUIRE_OK(es_host_trainer_train(session.trainer, 12));
    REQUIRE_OK(es_host_trainer_wait(session.trainer));
    const EsTensor *slab = &es_host_trainer_store(session.trainer)->parameters;
    ES_ASSERT(slab->dim[1] <= 1024);
    EsStream *stream = NULL;
    REQUIRE_OK(es_stream_create(session.device, &stream));
    REQUIRE_OK(es_stream_copy(stream, parameters, (const float *)slab->data + env * slab->stride[0],
                              (size_t)slab->dim[1] * sizeof(float), ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(stream));
    es_stream_destroy(stream);
    session_end(&session);
}

TEST(threads_and_neighbours_change_nothing) {
    float alone[1024] = {0}, shared[1024] = {0}, many[1024] = {0};
    EsHostTrainerOptions options = tiny_options(1);
    options.first_episode = 2;
    record(options, "cpu", 1, alone, 0);
    record(options, "cpu", 2, shared, 0);
    // the same episode as the third of five
    record(tiny_options(5), "cpu", 2, many, 2);
    EXPECT(memcmp(alone, shared, sizeof alone) == 0);
    EXPECT(memcmp(alone, many, sizeof alone) == 0);
}

// Weights and statistics of all hosts, averaged update by update in double.
TEST(averages_follow_a_plain_loop) {
    enum { ENVS = 3, MOST = 4096, STEPS = 14 };
    static double expected[2][MOST];
    EsHostTrainerOptions options = tiny_options(ENVS);
    options.recipe.average = 0.6f;
    Session session;
    session_begin(&session, &options, "cpu", 2);
    const EsStore *store = es_host_trainer_store(session.trainer);
    const EsStore *average = es_host_trainer_average(session.trainer);
    const EsTensor *const slabs[2][2] = {{&store->parameters, &average->parameters},
                                         {&store->states, &average->states}};
    for (int step = -1; step < STEPS; step++) {
        double share = step < 0 ? 0 : fmin((double)0.6f, (1.0 + step) / (10.0 + step));
        if (step >= 0) {
            REQUIRE_OK(es_host_trainer_train(session.trainer, 1));
        }
        for (int k = 0; k < 2; k++) {
            const float *weights = slabs[k][0]->data, *averaged = slabs[k][1]->data;
            int64_t count = es_tensor_count(slabs[k][0]);
            ES_ASSERT(count <= MOST);
            for (int64_t i = 0; i < count; i++) {
                expected[k][i] = share * expected[k][i] + (1 - share) * (double)weights[i];
                EXPECT_NEAR(averaged[i], expected[k][i], 1e-5);
            }
        }
    }
    EXPECT(memcmp(store->parameters.data, average->parameters.data,
                  es_tensor_bytes(&store->parameters)) != 0);
    session_end(&session);
}

// Hosts without an average whose weights are the averages of others measure the same; training is
// not touched by averages.
TEST(averages_are_evaluated) {
    EsHostTrainerOptions options = tiny_options(2);
    EsHostResult averaged[MAX_ENVS], plain[MAX_ENVS], copied[MAX_ENVS];
    Session with, without;
    session_begin(&without, &options, "cpu", 1);
    options.recipe.average = 0.95f;
    session_begin(&with, &options, "cpu", 2);
    REQUIRE_OK(es_host_trainer_train(with.trainer, 30));
    REQUIRE_OK(es_host_trainer_train(without.trainer, 30));
    const EsStore *average = es_host_trainer_average(with.trainer);
    const EsStore *trained = es_host_trainer_store(with.trainer);
    EsStore *store = es_host_trainer_store(without.trainer);
    EXPECT(es_host_trainer_average(without.trainer) == NULL);
    EXPECT(memcmp(store->parameters.data, trained->parameters.data,
                  es_tensor_bytes(&store->parameters)) == 0);
    REQUIRE_OK(es_host_trainer_evaluate(with.trainer, &with.dataset.validation, averaged));
    REQUIRE_OK(es_host_trainer_evaluate(without.trainer, &without.dataset.validation, plain));
    memcpy(store->parameters.data, average->parameters.data, es_tensor_bytes(&store->parameters));
    memcpy(store->states.data, average->states.data, es_tensor_bytes(&store->states));
    REQUIRE_OK(es_host_trainer_evaluate(without.trainer, &without.dataset.validation, copied));
    for (int e = 0; e < 2; e++) {
        EXPECT(averaged[e].loss == copied[e].loss);
        EXPECT(averaged[e].loss != plain[e].loss);
    }
    session_end(&with);
    session_end(&without);
}

// The same bits as rates that are set by hand between epochs of two updates.
TEST(learning_rates_drop_by_epochs) {
    EsHostTrainerOptions options = tiny_options(2);
    Session by_hand, by_recipe;
    session_begin(&by_hand, &options, "cpu", 1);
    options.recipe.decay = ES_DECAY_STEP;
    options.recipe.step_epochs = 3;
    options.recipe.step_factor = 0.25f;
    options.n_updates = 16;
    options.epoch_updates = 2;
    session_begin(&by_recipe, &options, "cpu", 1);
    EsStream *stream = NULL;
    REQUIRE_OK(es_stream_create(by_hand.device, &stream));
    for (int epoch = 0; epoch < 8; epoch++) {
        float rate = options.optimiser.learning_rate * (epoch < 3   ? 1.0f
                                                        : epoch < 6 ? 0.25f
                                                                    : 0.0625f);
        REQUIRE_OK(es_optimiser_set_rates(es_host_trainer_optimiser(by_hand.trainer), stream,
                                          (float[]){rate, rate}, NULL, NULL));
        REQUIRE_OK(es_host_trainer_train(by_hand.trainer, 2));
    }
    REQUIRE_OK(es_host_trainer_train(by_recipe.trainer, 16));
    const EsTensor *expected = &es_host_trainer_store(by_hand.trainer)->parameters;
    EXPECT(memcmp(es_host_trainer_store(by_recipe.trainer)->parameters.data, expected->data,
                  es_tensor_bytes(expected)) == 0);
    es_stream_destroy(stream);
    session_end(&by_hand);
    session_end(&by_recipe);
}

TEST(cuda_runs_repeat) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    float first[1024] = {0}, second[1024] = {0}, cpu[1024] = {0};
    record(tiny_options(3), "cuda", 0, first, 1);
    record(tiny_options(3), "cuda", 0, second, 1);
    record(tiny_options(3), "cpu", 1, cpu, 1);
    EXPECT(memcmp(first, second, sizeof first) == 0);
    for (int i = 0; i < 1024; i++) {
        EXPECT_NEAR(first[i], cpu[i], 1e-3);
    }
}

// bf16 rounds at every layer: after some steps the losses are near those of f32, not equal
TEST(bf16_follows_f32_on_cuda) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    EsHostResult single[MAX_ENVS], half[MAX_ENVS];
    EsHostTrainerOptions options = tiny_options(2);
    options.batch = 16; // an emulated GPU takes a millisecond for an image
    Session session;
    session_begin(&session, &options, "cuda", 0);
    REQUIRE_OK(es_host_trainer_train(session.trainer, 60));
    REQUIRE_OK(es_host_trainer_evaluate(session.trainer, &session.dataset.validation, single));
    session_end(&session);
    options.precision = ES_DTYPE_BF16;
    session_begin(&session, &options, "cuda", 0);
    REQUIRE_OK(es_host_trainer_train(session.trainer, 60));
    REQUIRE_OK(es_host_trainer_evaluate(session.trainer, &session.dataset.validation, half));
    session_end(&session);
    for (int e = 0; e < 2; e++) {
        EXPECT_NEAR(half[e].loss, single[e].loss, 0.05 * single[e].loss);
        EXPECT(half[e].loss != single[e].loss);
    }
}

// Number of copies from the device since the profile began.
static int64_t count_copies_home(EsDevice *device) {
    EsProfileReport report;
    int64_t n = 0;
    REQUIRE_OK(es_profile_report(device, &report));
    for (int i = 0; i < report.n_rows; i++) {
        n += strcmp(report.rows[i].name, "copy to host") == 0 ? report.rows[i].count : 0;
    }
    es_profile_report_destroy(&report);
    return n;
}

TEST(results_come_home_in_one_copy) {
    const char *const devices[] = {"cpu", "cuda"};
    for (int i = 0; i < 1 + (es_device_cuda_count() > 0); i++) {
        EsHostTrainerOptions options = tiny_options(3);
        EsHostResult results[MAX_ENVS];
        Session session;
        session_begin(&session, &options, devices[i], 0);
        REQUIRE_OK(es_host_trainer_train(session.trainer, 3));
        REQUIRE_OK(es_profile_start(session.device, &(EsProfileOptions){.capacity = 4096}));
        REQUIRE_OK(es_host_trainer_last_batch(session.trainer, results));
        EXPECT_EQ(count_copies_home(session.device), 1);
        EXPECT(results[0].loss > 0 && results[2].loss > 0);
        session_end(&session);
    }
}

// The report names the executor, and the reason where it is not the fastest.
TEST(the_executor_is_named) {
    char text[ES_EXECUTOR_BYTES];
    EsHostTrainerOptions options = tiny_options(1);
    Session session;
    session_begin(&session, &options, "cpu", 1);
    EsPlanReport report = es_host_trainer_report(session.trainer);
    EXPECT_TEXT(es_plan_report_executor(&report, text), "vector engine");
    session_end(&session);
    options.mode = ES_COMPILE_OFF;
    session_begin(&session, &options, "cpu", 1);
    report = es_host_trainer_report(session.trainer);
    EXPECT_CONTAINS(es_plan_report_executor(&report, text), " single operations: as was asked for");
    session_end(&session);
    if (es_device_cuda_count() == 0) {
        return;
    }
    options.mode = ES_COMPILE_DEFAULT;
    session_begin(&session, &options, "cuda", 0);
    report = es_host_trainer_report(session.trainer);
    EXPECT_TEXT(es_plan_report_executor(&report, text), "fused kernels");
    session_end(&session);
    options.host.kernel = 5;
    session_begin(&session, &options, "cuda", 0);
    report = es_host_trainer_report(session.trainer);
    EXPECT_CONTAINS(es_plan_report_executor(&report, text),
                    " single operations: not fused, which is slower: block 0");
    EXPECT_CONTAINS(report.fallback, "kernel 5");
    session_end(&session);
}

TEST(evaluation_covers_the_split) {
    EsHostTrainerOptions options = tiny_options(2);
    Session session;
    session_begin(&session, &options, "cpu", 1);
    EsHostResult whole[MAX_ENVS], parts[MAX_ENVS], sum[MAX_ENVS] = {{0}};
    REQUIRE_OK(es_host_trainer_train(session.trainer, 5));
    const EsSplit *split = &session.dataset.validation;
    REQUIRE_OK(es_host_trainer_evaluate(session.trainer, split, whole));
    // 333 = 200 + 133: both sizes differ from the usual batch
    for (int64_t first = 0; first < split->count; first += 200) {
        int64_t count = ES_MIN(200, split->count - first);
        EsSplit part = {split->images + (size_t)first * session.dataset.image_bytes,
                        split->labels + first, count};
        REQUIRE_OK(es_host_trainer_evaluate(session.trainer, &part, parts));
        for (int e = 0; e < 2; e++) {
            sum[e].loss += parts[e].loss * (double)count / (double)split->count;
            sum[e].accuracy += parts[e].accuracy * (double)count / (double)split->count;
        }
    }
    for (int e = 0; e < 2; e++) {
        EXPECT_NEAR(whole[e].loss, sum[e].loss, 1e-6);
        EXPECT_NEAR(whole[e].accuracy, sum[e].accuracy, 1e-9);
    }
    session_end(&session);
}

TEST(unfused_training_agrees) {
    EsHostResult fused[MAX_ENVS], unfused[MAX_ENVS];
    for (int mode = ES_COMPILE_OFF; mode <= ES_COMPILE_DEFAULT; mode++) {
        EsHostTrainerOptions options = tiny_options(2);
        options.mode = (EsCompileMode)mode;
        options.recipe = (EsRecipe){.nesterov = 1,
                                    .decay = ES_DECAY_COSINE,
                                    .warmup = 0.3f,
                                    .smoothing = 0.1f,
                                    .pad = 3,
                                    .flip = 1,
                                    .border = ES_BORDER_REFLECT,
                                    .erase = 0.5f};
        options.n_updates = 8;
        Session session;
        session_begin(&session, &options, "cpu", 1);
        REQUIRE_OK(es_host_trainer_train(session.trainer, 8));
        REQUIRE_OK(
            es_host_trainer_last_batch(session.trainer, mode == ES_COMPILE_OFF ? unfused : fused));
        EXPECT_EQ(es_host_trainer_report(session.trainer).uses_lanes, mode == ES_COMPILE_DEFAULT);
        session_end(&session);
    }
    for (int e = 0; e < 2; e++) {
        EXPECT_NEAR(fused[e].loss, unfused[e].loss, 1e-4);
    }
}

TEST(bad_labels_and_sizes_are_refused) {
    EsHostTrainerOptions options = tiny_options(1);
    Session session;
    session_begin(&session, &options, "cpu", 1);
    EsHostResult result[MAX_ENVS];
    es_host_trainer_destroy(session.trainer);
    session.dataset.validation.labels[7] = 200;
    REQUIRE_OK(
        es_host_trainer_create(&options, &session.dataset, session.device, &session.trainer));
    EXPECT_STATUS(es_host_trainer_evaluate(session.trainer, &session.dataset.validation, result),
                  INPUT);
    EXPECT_CONTAINS(es_status_detail(), "1 labels of a batch of 256 are outside 0..9");
    EsHostTrainer *other = NULL;
    EsHostSpec baseline;
    REQUIRE_OK(es_host_preset("cifar_baseline", &baseline));
    options = es_host_trainer_defaults(&baseline, 1);
    EXPECT_STATUS(es_host_trainer_create(&options, &session.dataset, session.device, &other),
                  INPUT);
    EXPECT_CONTAINS(
        es_status_detail(),
        "takes 32 x 32 x 3 images of up to 10 classes; data set \"tiny\" has 16 x 16 x 1");
    session_end(&session);
}
