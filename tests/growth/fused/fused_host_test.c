// Hosts under the fused executor against the CPU engine and against the plan of single kernels:
// parameters, running statistics and losses after some steps, for hosts of every shape that it
// takes; and how far TF32 and the 16-bit types are from f32.
#include "es_test.h"

#include "growth/engine/host_trainer.h"

#define N_ENVS 3

typedef struct Outcome {
    int64_t n_parameters, n_states;
    float *initial, *parameters, *states; // owned [E, ...]
    EsHostResult last[N_ENVS];
    EsPlanReport report;
} Outcome;

static float *fetch(EsDevice *device, const EsTensor *slab) {
    EsStream *stream = NULL;
    float *values = malloc(es_tensor_bytes(slab));
    REQUIRE_OK(es_stream_create(device, &stream));
    REQUIRE_OK(es_stream_copy(stream, values, slab->data, es_tensor_bytes(slab), ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(stream));
    es_stream_destroy(stream);
    return values;
}

static EsHostTrainerOptions options_for(const char *name, int64_t batch) {
    EsHostSpec host;
    REQUIRE_OK(es_host_preset(name, &host));
    EsHostTrainerOptions options = es_host_trainer_defaults(&host, N_ENVS);
    options.batch = batch;
    options.recipe.pad = 2;
    options.recipe.flip = 1;
    options.is_tf32 = 0;
    return options;
}

// Every part of a recipe at once.
static EsHostTrainerOptions options_with_recipe(const char *name, int64_t batch) {
    EsHostTrainerOptions options = options_for(name, batch);
    options.recipe.nesterov = 1;
    options.recipe.decay = ES_DECAY_COSINE;
    options.recipe.warmup = 0.3f;
    options.recipe.smoothing = 0.1f;
    options.recipe.border = ES_BORDER_REFLECT;
    options.recipe.erase = 0.5f;
    options.n_updates = 6;
    return options;
}

// Norms begin with gamma 1 and beta 0, which nothing else is. Make them of both signs, and 0.
static void mix_gammas(EsDevice *device, EsStore *store) {
    static const float gammas[] = {1, -1, 0, 0.5f, -0.25f};
    int64_t n = es_tensor_count(&store->parameters), n_gammas = 0;
    float *values = fetch(device, &store->parameters);
    EsStream *stream = NULL;
    for (int64_t i = 0; i < n; i++) {
        if (values[i] == 1) {
            values[i] = gammas[n_gammas++ % (int64_t)ES_COUNT_OF(gammas)];
        } else if (values[i] == 0) {
            values[i] = 0.1f; // so that a ReLU lets gamma 0 through
        }
    }
    EXPECT(n_gammas > 0);
    REQUIRE_OK(es_stream_create(device, &stream));
    REQUIRE_OK(es_stream_copy(stream, store->parameters.data, values,
                              es_tensor_bytes(&store->parameters), ES_COPY_TO_DEVICE));
    REQUIRE_OK(es_stream_synchronize(stream));
    es_stream_destroy(stream);
    free(values);
}

static Outcome train_from(const EsHostTrainerOptions *options, const char *device_name,
                          int64_t n_steps, void (*prepare)(EsDevice *, EsStore *)) {
    Outcome outcome = {0};
    EsDevice *device = NULL;
    EsDataset dataset;
    EsHostTrainer *trainer = NULL;
    EsDatasetOptions small = {.seed = 7, .n_train = 90, .n_validation = 20, .n_test = 10};
    REQUIRE_OK(es_device_open(device_name, NULL, &device));
    REQUIRE_OK(es_dataset_open(&dataset, options->host.dataset, &small, NULL));
    REQUIRE_OK(es_host_trainer_create(options, &dataset, device, &trainer));
    EsStore *store = es_host_trainer_store(trainer);
    if (prepare != NULL) {
        prepare(device, store);
    }
    outcome.initial = fetch(device, &store->parameters);
    REQUIRE_OK(es_host_trainer_train(trainer, n_steps));
    REQUIRE_OK(es_host_trainer_last_batch(trainer, outcome.last));
    outcome.n_parameters = es_tensor_count(&store->parameters);
    outcome.n_states = es_tensor_count(&store->states);
    outcome.parameters = fetch(device, &store->parameters);
    outcome.states = fetch(device, &store->states);
    outcome.report = es_host_trainer_report(trainer);
    es_host_trainer_destroy(trainer);
    es_dataset_destroy(&dataset);
    es_device_close(device);
    return outcome;
}

static Outcome train(const EsHostTrainerOptions *options, const char *device_name,
                     int64_t n_steps) {
    return train_from(options, device_name, n_steps, NULL);
}

static void release(Outcome *outcome) {
    free(outcome->initial);
    free(outcome->parameters);
    free(outcome->states);
}

// Largest difference over the largest value.
static double distance(const float *a, const float *b, int64_t n) {
    double most = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        double difference = fabs((double)a[i] - (double)b[i]);
        most = difference <= most ? most : difference; // NaN comes through
        size = fmax(size, fabs((double)b[i]));
    }
    return most / fmax(size, 1e-30);
}

static void expect_near(const char *what, const Outcome *a, const Outcome *b, double bound) {
    ES_ASSERT(a->n_parameters == b->n_parameters && a->n_states == b->n_states);
    double parameters = distance(a->parameters, b->parameters, a->n_parameters);
    double states = distance(a->states, b->states, a->n_states);
    printf("%s: parameters %.2g, states %.2g, losses %.6f %.6f\n", what, parameters, states,
           a->last[0].loss, b->last[0].loss);
    EXPECT_NEAR(parameters, 0, bound);
    EXPECT_NEAR(states, 0, bound);
    for (int e = 0; e < N_ENVS; e++) {
        EXPECT_NEAR(a->last[e].loss, b->last[e].loss, bound * (1 + b->last[e].loss));
    }
}

// How far apart training left two of them, over how far it led; `zeros`: of those parameters alone
// that began as 0.
static double drift_of(const Outcome *a, const Outcome *b, int zeros) {
    double apart = 0, way = 0;
    for (int64_t i = 0; i < a->n_parameters; i++) {
        double difference = (double)a->parameters[i] - (double)b->parameters[i];
        double step = (double)b->parameters[i] - (double)b->initial[i];
        int counts = !zeros || b->initial[i] == 0;
        apart += counts ? difference * difference : 0;
        way += counts ? step * step : 0;
    }
    return sqrt(apart / way);
}

static double drift(const Outcome *a, const Outcome *b) { return drift_of(a, b, 0); }

static void compare_with(EsHostTrainerOptions options, int64_t n_steps, double bound) {
    const char *name = options.host.name;
    Outcome cpu = train(&options, "cpu", n_steps), fused = train(&options, "cuda", n_steps);
    EXPECT_EQ(fused.report.is_fused, 1);
    expect_near(name, &fused, &cpu, bound);
    // parameters hardly move in a few steps: what moved them is compared too
    double off = drift(&fused, &cpu);
    printf("%s: %.2g of the way off\n", name, off);
    EXPECT_NEAR(off, 0, 5e-5);
    release(&cpu);
    release(&fused);
}

static void compare(const char *name, int64_t batch, int64_t n_steps, double bound) {
    compare_with(options_for(name, batch), n_steps, bound);
}

static int has_device(void) { return es_device_cuda_count() > 0; }

TEST(one_step_of_every_host_equals_the_cpu) {
    if (!has_device()) {
        SKIP("no CUDA device");
    }
    compare("tiny", 13, 1, 1e-5);
    compare("cifar_baseline", 5, 1, 1e-5);
    compare("cifar_impaired", 5, 1, 1e-5);
    compare("cifar_minimal", 3, 1, 1e-5);
    compare("cifar_scale", 6, 1, 1e-5);
}

// How far two updates of the fused step are from those of the nearer reference: the CPU, or the
// plan of single kernels.
static double drift_from_reference(EsHostTrainerOptions options) {
    Outcome fused = train(&options, "cuda", 2), cpu = train(&options, "cpu", 2);
    EXPECT_EQ(fused.report.is_fused, 1);
    options.is_generic = 1;
    Outcome plan = train(&options, "cuda", 2);
    double from_plan = drift(&fused, &plan), from_cpu = drift(&fused, &cpu);
    printf("%.2g of the way off the plan, %.2g off the CPU\n", from_plan, from_cpu);
    expect_near(options.host.name, &fused, from_plan < from_cpu ? &plan : &cpu, 1e-4);
    release(&plan);
    release(&cpu);
    release(&fused);
    return fmin(from_plan, from_cpu);
}

// Erased rectangles are flat: pixels of a pool are almost equal there, and rounding decides which
// is the largest, in each of the three executors for itself (without erasing all agree). A case in
// which the fused step is alone is drawn again twice, with other weights and images, and both must
// hold; one of the four may be such a case.
TEST(a_recipe_equals_the_cpu_and_the_plan) {
    if (!has_device()) {
        SKIP("no CUDA device");
    }
    int n_redrawn = 0;
    compare_with(options_with_recipe("tiny", 13), 6, 1e-4);
    for (int border = ES_BORDER_MEAN; border <= ES_BORDER_REFLECT; border++) {
        for (int64_t batch = 5; batch < 9; batch += 3) {
            EsHostTrainerOptions options = options_with_recipe("cifar_baseline", batch);
            options.recipe.border = border;
            options.recipe.erase = 0;
            EXPECT_NEAR(drift_from_reference(options), 0, 5e-5);
            options.recipe.erase = 0.5f;
            if (drift_from_reference(options) <= 5e-5) {
                continue;
            }
            n_redrawn++;
            for (int k = 0; k < 2; k++) {
                options.seed += 1000;
                EXPECT_NEAR(drift_from_reference(options), 0, 5e-5);
            }
        }
    }
    EXPECT(n_redrawn <= 1);
}

// The pooled value depends on the sign of gamma; with gamma 0 all pixels are equal, and the first
// is pooled; the gradient of gamma shows which. The CPU's vectors pool otherwise there, so the plan
// of single kernels is the reference.
TEST(pools_follow_gamma) {
    if (!has_device()) {
        SKIP("no CUDA device");
    }
    static const struct {
        EsDtype precision;
        double bound;
    } cases[] = {{ES_DTYPE_F32, 5e-5}, {ES_DTYPE_F16, 5e-2}, {ES_DTYPE_BF16, 0.12}};
    EsHostTrainerOptions options = options_for("cifar_baseline", 9);
    options.is_generic = 1;
    Outcome plan = train_from(&options, "cuda", 1, mix_gammas);
    EXPECT_EQ(plan.report.is_fused, 0);
    options.is_generic = 0;
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        options.precision = cases[i].precision;
        Outcome fused = train_from(&options, "cuda", 1, mix_gammas);
        EXPECT_EQ(fused.report.is_fused, 1);
        double off = drift(&fused, &plan), zeros_off = drift_of(&fused, &plan, 1);
        printf("gammas of both signs in %s: gradients %.2g off, of gammas 0 %.2g\n",
               es_dtype_name(cases[i].precision), off, zeros_off);
        EXPECT_NEAR(off, 0, cases[i].bound);
        EXPECT_NEAR(zeros_off, 0, 2 * cases[i].bound);
        release(&fused);
    }
    release(&plan);
}

TEST(twenty_steps_equal_the_cpu) {
    if (!has_device()) {
        SKIP("no CUDA device");
    }
    compare("tiny", 16, 20, 1e-3);
}

TEST(runs_repeat_and_recording_changes_nothing) {
    if (!has_device()) {
        SKIP("no CUDA device");
    }
    EsHostTrainerOptions options = options_for("tiny", 17);
    for (int kind = 0; kind < 3; kind++) {
        options.precision = kind == 2 ? ES_DTYPE_BF16 : ES_DTYPE_F32;
        options.is_tf32 = kind == 1;
        Outcome first = train(&options, "cuda", 4), second = train(&options, "cuda", 4);
        EXPECT(memcmp(first.parameters, second.parameters,
                      (size_t)first.n_parameters * sizeof(float)) == 0);
        EXPECT(memcmp(first.states, second.states, (size_t)first.n_states * sizeof(float)) == 0);
        release(&first);
        release(&second);
    }
}

// 16-bit activations round at every layer: near f32, not equal. The first step is along the
// gradient. In cifar_minimal, without pools, little jumps; in cifar_baseline a window's winner
// does.
TEST(narrow_types_follow_f32) {
    if (!has_device()) {
        SKIP("no CUDA device");
    }
    static const struct {
        const char *name;
        EsDtype precision;
        double bound;
    } cases[] = {{"cifar_minimal", ES_DTYPE_F16, 4e-3},
                 {"cifar_minimal", ES_DTYPE_BF16, 2e-2},
                 {"cifar_baseline", ES_DTYPE_F16, 5e-2},
                 {"cifar_baseline", ES_DTYPE_BF16, 0.12}};
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        EsHostTrainerOptions options = options_for(cases[i].name, 9);
        Outcome single = train(&options, "cuda", 1);
        options.precision = cases[i].precision;
        Outcome narrow = train(&options, "cuda", 1);
        EXPECT_EQ(narrow.report.is_fused, 1);
        double off = drift(&narrow, &single);
        printf("%s in %s: gradients %.2g off, losses %.6f %.6f\n", cases[i].name,
               es_dtype_name(cases[i].precision), off, narrow.last[0].loss, single.last[0].loss);
        EXPECT_NEAR(off, 0, cases[i].bound);
        EXPECT(narrow.last[0].loss != single.last[0].loss);
        for (int e = 0; e < N_ENVS; e++) {
            EXPECT_NEAR(narrow.last[e].loss, single.last[e].loss, 2e-3 * single.last[e].loss);
        }
        release(&single);
        release(&narrow);
    }
}

// Mean over the hosts of how much their losses differ, of the loss.
static double loss_drift(const Outcome *a, const Outcome *b) {
    double sum = 0;
    for (int e = 0; e < N_ENVS; e++) {
        sum += fabs(a->last[e].loss - b->last[e].loss) / b->last[e].loss / N_ENVS;
    }
    return sum;
}

// Operands of 11 bits, and the first step is along the gradient: 3e-3 of its length where nothing
// jumps. Where rounding changes the winner of a window or the sign of a ReLU's input, in one of
// some thousand, a whole gradient moves: the root of that.
TEST(tf32_is_near_f32) {
    if (!has_device()) {
        SKIP("no CUDA device");
    }
    static const struct {
        const char *name;
        int64_t batch;
        double bound;
    } cases[] = {{"cifar_minimal", 3, 3e-3}, {"tiny", 13, 3e-2}, {"cifar_baseline", 9, 3e-2}};
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        EsHostTrainerOptions options = options_for(cases[i].name, cases[i].batch);
        Outcome single = train(&options, "cuda", 1);
        options.is_tf32 = 1;
        Outcome rounded = train(&options, "cuda", 1);
        EXPECT_EQ(rounded.report.is_fused, 1);
        double off = drift(&rounded, &single);
        printf("%s: gradients in TF32 %.2g off\n", cases[i].name, off);
        EXPECT_NEAR(off, 0, cases[i].bound);
        EXPECT(off > 1e-6); // it is not f32
        expect_near("TF32", &rounded, &single, 1e-3);
        release(&single);
        release(&rounded);
    }
}

// Rounding adds up: what 60 batches make of it, as numbers.
TEST(drift_over_sixty_batches) {
    if (!has_device()) {
        SKIP("no CUDA device");
    }
    static const struct {
        const char *name;
        EsDtype precision;
        int is_tf32;
        double loss_bound;
    } kinds[] = {{"TF32", ES_DTYPE_F32, 1, 0.02},
                 {"f16", ES_DTYPE_F16, 0, 0.02},
                 {"bf16", ES_DTYPE_BF16, 0, 0.1}};
    EsHostTrainerOptions options = options_for("tiny", 16);
    Outcome single = train(&options, "cuda", 60);
    for (size_t i = 0; i < ES_COUNT_OF(kinds); i++) {
        options.precision = kinds[i].precision;
        options.is_tf32 = kinds[i].is_tf32;
        Outcome rounded = train(&options, "cuda", 60);
        double parameters = drift(&rounded, &single), loss = loss_drift(&rounded, &single);
        printf("60 batches of tiny in %s: parameters %.3g of their way, losses %.3g\n",
               kinds[i].name, parameters, loss);
        EXPECT_NEAR(loss, 0, kinds[i].loss_bound);
        release(&rounded);
    }
    release(&single);
}
