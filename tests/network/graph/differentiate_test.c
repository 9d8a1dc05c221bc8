// Gradients of whole graphs against finite differences: every layer, values read twice, dropout,
// and the paths that the vector engine does not run.
#include "es_test.h"

#include "base/random_rules.h"
#include "network/plan/plan.h"

#define N_ENVS    2
#define N_ROWS    5
#define N_CLASSES 3

// A graph under test with everything it needs to run. Inputs are filled from Philox.
typedef struct Trial {
    EsDevice *device;
    EsStream *stream;
    EsGraph *graph;
    EsStore *store;
    EsPlan *plan;
    EsLoss loss;
    void *memory[8]; // of the inputs
    int n_inputs;
} Trial;

typedef EsValueId (*BuildFunction)(Trial *trial, EsValueId x);

static float draw(uint32_t number) {
    EsRandom4 r = es_random_draw(99, 0, ES_PURPOSE_EVALUATION, 0, number / 4);
    return 2.0f * es_random_uniform(r.word[number % 4]) - 1.0f;
}

static void bind_inputs(Trial *trial) {
    for (int v = 0; v < trial->graph->n_values; v++) {
        const EsValue *value = &trial->graph->values[v];
        if (value->role != ES_ROLE_INPUT) {
            continue;
        }
        EsTensor tensor =
            es_tensor_view(NULL, value->dtype, trial->device, value->rank, value->dim);
        REQUIRE_OK(es_device_allocate(trial->device, es_tensor_bytes(&tensor), &tensor.data));
        for (int64_t i = 0; i < es_tensor_count(&tensor); i++) {
            uint32_t number = (uint32_t)(i + 1000 * v);
            if (value->dtype == ES_DTYPE_F32) {
                ((float *)tensor.data)[i] = draw(number);
            } else if (value->dtype == ES_DTYPE_U8) {
                ((uint8_t *)tensor.data)[i] = draw(number) > 0.6f;
            } else {
                ((int32_t *)tensor.data)[i] = (int32_t)((draw(number) * 0.5f + 0.5f) * N_CLASSES);
            }
        }
        trial->memory[trial->n_inputs++] = tensor.data;
        REQUIRE_OK(es_plan_bind(trial->plan, v, &tensor));
    }
}

static void trial_begin(Trial *trial, BuildFunction build, EsCompileMode mode, int rank,
                        const int64_t *dims) {
    memset(trial, 0, sizeof *trial);
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &trial->device));
    REQUIRE_OK(es_stream_create(trial->device, &trial->stream));
    REQUIRE_OK(es_graph_create(N_ENVS, &trial->graph));
    EsValueId x = es_graph_input(trial->graph, "x", ES_DTYPE_F32, rank, dims);
    EsValueId rows = build(trial, x);
    int64_t n_rows = trial->graph->status == ES_STATUS_OK ? trial->graph->values[rows].dim[1] : 1;
    EsValueId labels = es_graph_input(trial->graph, "labels", ES_DTYPE_I32, 1, &n_rows);
    trial->loss = es_graph_cross_entropy(
        trial->graph, es_graph_linear(trial->graph, "head", rows, N_CLASSES), labels);
    REQUIRE_OK(es_graph_status(trial->graph));
    REQUIRE_OK(es_graph_differentiate(trial->graph, trial->loss.loss));
    REQUIRE_OK(es_store_create(trial->graph, trial->device, &trial->store));
    REQUIRE_OK(
        es_store_initialise(trial->store, trial->graph, trial->stream, 5, (int32_t[]){0, 1}));
    EsPlanOptions options = es_plan_defaults();
    options.mode = mode;
    REQUIRE_OK(es_plan_create(trial->graph, trial->store, &options, &trial->plan));
    bind_inputs(trial);
}

static void trial_end(Trial *trial) {
    es_plan_destroy(trial->plan);
    es_store_destroy(trial->store);
    es_graph_destroy(trial->graph);
    for (int i = 0; i < trial->n_inputs; i++) {
        es_device_release(trial->device, trial->memory[i]);
    }
    es_stream_destroy(trial->stream);
    es_device_close(trial->device);
}

static double run_loss(Trial *trial, int env) {
    REQUIRE_OK(es_plan_run(trial->plan, trial->stream));
    EsTensor loss = es_plan_tensor(trial->plan, trial->loss.loss);
    return (double)((const float *)loss.data)[env];
}

// A few elements of every parameter of every environment, by central differences. The step is large
// enough that f32 rounding of the loss (about 1e-7) stays below 1e-4 of the quotient; the curvature
// term is of the order of the step squared.
static void check_gradients(BuildFunction build, EsCompileMode mode, int rank,
                            const int64_t *dims) {
    const double step = 4e-3;
    Trial trial;
    trial_begin(&trial, build, mode, rank, dims);
    run_loss(&trial, 0);
    int64_t n_parameters = es_tensor_count(&trial.store->gradients);
    float *analytic = malloc((size_t)n_parameters * sizeof(float));
    memcpy(analytic, trial.store->gradients.data, (size_t)n_parameters * sizeof(float));
    for (int v = 0; v < trial.graph->n_values; v++) {
        const EsValue *value = &trial.graph->values[v];
        EsTensor tensor = value->role == ES_ROLE_PARAMETER
                              ? es_store_tensor(trial.store, trial.graph, v)
                              : (EsTensor){0};
        int64_t count = value->role == ES_ROLE_PARAMETER ? es_tensor_count(&tensor) / N_ENVS : 0;
        for (int64_t k = 0; k < ES_MIN(count, 6); k++) {
            int env = (int)(k % N_ENVS);
            int64_t element = env * tensor.stride[0] + k * 7 % count;
            float *parameter = (float *)tensor.data + element;
            float before = *parameter;
            *parameter = (float)((double)before + step);
            double up = run_loss(&trial, env), high = (double)*parameter;
            *parameter = (float)((double)before - step);
            double down = run_loss(&trial, env), low = (double)*parameter;
            *parameter = before;
            double numeric = (up - down) / (high - low);
            double exact = (double)analytic[element + value->slab_offset];
            if (!(fabs(numeric - exact) <= 2e-4 + 1e-2 * fabs(numeric))) {
                ES_TEST_FAIL("%s env %d element %lld: gradient %.6g, differences give %.6g",
                             value->name, env, (long long)(k * 7 % count), exact, numeric);
            }
        }
    }
    free(analytic);
    trial_end(&trial);
}

static const int64_t image_dims[] = {N_ROWS, 2, 5, 5};

// smooth activations: differences across a kink of ReLU or a maximum measure nothing
static EsValueId build_plain_cnn(Trial *t, EsValueId x) {
    x = es_graph_conv2d(t->graph, "conv", x, 3, 3, 1);
    x = es_graph_activation(t->graph, ES_ACTIVATION_TANH, x);
    x = es_graph_pool(t->graph, ES_POOL_AVERAGE2, x);
    x = es_graph_conv2d(t->graph, "point", x, 4, 1, 1);
    x = es_graph_activation(t->graph, ES_ACTIVATION_SIGMOID, x);
    return es_graph_pool(t->graph, ES_POOL_GLOBAL, x);
}

static EsValueId build_residual(Trial *t, EsValueId x, int64_t kernel) {
    x = es_graph_batchnorm(t->graph, "norm", es_graph_conv2d(t->graph, "conv", x, 4, 3, 0), 1);
    EsValueId branch =
        es_graph_groupnorm(t->graph, "group", es_graph_depthwise(t->graph, "depth", x, kernel), 2);
    branch = es_graph_activation(t->graph, ES_ACTIVATION_TANH, branch);
    // x is read three times: by the branch and twice here
    return es_graph_pool(t->graph, ES_POOL_GLOBAL,
                         es_graph_add(t->graph, es_graph_add(t->graph, x, branch), x));
}

static EsValueId build_residual_norm(Trial *t, EsValueId x) { return build_residual(t, x, 3); }

// A depthwise kernel that the vector engine does not have.
static EsValueId build_residual_wide(Trial *t, EsValueId x) { return build_residual(t, x, 5); }

static EsValueId build_fused_norm(Trial *t, EsValueId x) {
    x = es_graph_batchnorm(t->graph, "norm", es_graph_conv2d(t->graph, "conv", x, 4, 3, 0), 1);
    return es_graph_pool(t->graph, ES_POOL_GLOBAL,
                         es_graph_activation(t->graph, ES_ACTIVATION_TANH, x));
}

static EsValueId build_rows(Trial *t, EsValueId x) {
    EsValueId ids = es_graph_input(t->graph, "ids", ES_DTYPE_I32, 1, (int64_t[]){N_ROWS});
    EsValueId episode = es_graph_input(t->graph, "episode", ES_DTYPE_I32, 0, NULL);
    EsValueId step = es_graph_shared_input(t->graph, "step", ES_DTYPE_I32, 1, (int64_t[]){1});
    x = es_graph_layernorm(t->graph, "norm", es_graph_linear(t->graph, "first", x, 6));
    x = es_graph_add(t->graph, x, es_graph_embedding(t->graph, "words", ids, 4, 6));
    EsDropoutOptions dropout = {.seed = 3, .layer = 1, .probability = 0.3f};
    return es_graph_dropout(t->graph, dropout, episode, step,
                            es_graph_activation(t->graph, ES_ACTIVATION_TANH, x));
}

static EsValueId build_sequence(Trial *t, EsValueId x) {
    const int64_t n_steps = 4, n_rows = 3;
    EsValueId reset =
        es_graph_input(t->graph, "reset", ES_DTYPE_U8, 2, (int64_t[]){n_steps, n_rows});
    EsValueId start = es_graph_input(t->graph, "start", ES_DTYPE_F32, 2, (int64_t[]){n_rows, 5});
    x = es_graph_linear(t->graph, "first", x, 6);
    x = es_graph_reshape(t->graph, x, 3, (int64_t[]){n_steps, n_rows, 6});
    x = es_graph_lstm(t->graph, "lower", x, reset, start, ES_NO_VALUE, 5).y;
    x = es_graph_lstm(t->graph, "upper", x, reset, ES_NO_VALUE, ES_NO_VALUE, 4).y;
    return es_graph_reshape(t->graph, x, 2, (int64_t[]){n_steps * n_rows, 4});
}

// Sets of three members: broadcast, weighed, averaged; the maximum is of equal ones, where it has
// no kink.
static EsValueId build_sets(Trial *t, EsValueId x) {
    EsGraph *g = t->graph;
    EsValueId weights = es_graph_input(g, "weights", ES_DTYPE_F32, 2, (int64_t[]){N_ROWS, 3});
    EsValueId y = es_graph_activation(g, ES_ACTIVATION_TANH, es_graph_linear(g, "first", x, 4));
    EsValueId sets = es_graph_set_broadcast(g, y, 3);
    EsValueId members = es_graph_reshape(g, sets, 2, (int64_t[]){N_ROWS, 12});
    members = es_graph_linear(g, "members", members, 12);
    members = es_graph_reshape(g, es_graph_activation(g, ES_ACTIVATION_TANH, members), 3,
                               (int64_t[]){N_ROWS, 3, 4});
    return es_graph_concat(g, 3,
                           (EsValueId[]){es_graph_set_sum(g, members, weights, 1.0f),
                                         es_graph_set_sum(g, members, ES_NO_VALUE, 1.0f / 3),
                                         es_graph_set_max(g, sets)});
}

TEST(sets_of_rows) {
    check_gradients(build_sets, ES_COMPILE_OFF, 2, (int64_t[]){N_ROWS, 4});
    check_gradients(build_sets, ES_COMPILE_DEFAULT, 2, (int64_t[]){N_ROWS, 4});
}

TEST(sets_check_their_shapes) {
    EsGraph *graph = NULL;
    REQUIRE_OK(es_graph_create(1, &graph));
    EsValueId x = es_graph_input(graph, "x", ES_DTYPE_F32, 3, (int64_t[]){2, 3, 4});
    EsValueId w = es_graph_input(graph, "w", ES_DTYPE_F32, 2, (int64_t[]){2, 4});
    EXPECT_EQ(es_graph_set_sum(graph, x, w, 1.0f), ES_NO_VALUE);
    EXPECT_STATUS(es_graph_status(graph), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "set_sum");
    es_graph_destroy(graph);
    REQUIRE_OK(es_graph_create(1, &graph));
    x = es_graph_input(graph, "x", ES_DTYPE_F32, 2, (int64_t[]){2, 3});
    EsValueId learned = es_graph_linear(graph, "first", x, 3);
    EsValueId sets = es_graph_set_broadcast(graph, learned, 3);
    EXPECT_EQ(es_graph_set_sum(graph, sets, learned, 1.0f), ES_NO_VALUE);
    EXPECT_STATUS(es_graph_status(graph), UNSUPPORTED);
    EXPECT_CONTAINS(es_status_detail(), "depend on a parameter");
    es_graph_destroy(graph);
}

TEST(two_lstm_layers) {
    check_gradients(build_sequence, ES_COMPILE_OFF, 2, (int64_t[]){12, 3});
    check_gradients(build_sequence, ES_COMPILE_DEFAULT, 2, (int64_t[]){12, 3});
}

TEST(plain_cnn) {
    check_gradients(build_plain_cnn, ES_COMPILE_OFF, 4, image_dims);
    check_gradients(build_plain_cnn, ES_COMPILE_DEFAULT, 4, image_dims);
}

TEST(residual_with_norms) {
    check_gradients(build_residual_norm, ES_COMPILE_OFF, 4, image_dims);
    check_gradients(build_residual_norm, ES_COMPILE_DEFAULT, 4, image_dims);
}

TEST(batch_norm_without_relu) {
    check_gradients(build_fused_norm, ES_COMPILE_DEFAULT, 4, image_dims);
}

TEST(rows_with_embedding_and_dropout) {
    check_gradients(build_rows, ES_COMPILE_OFF, 2, (int64_t[]){N_ROWS, 4});
    check_gradients(build_rows, ES_COMPILE_DEFAULT, 2, (int64_t[]){N_ROWS, 4});
}

// Sharing memory between activations changes no bit.
TEST(shared_memory_changes_nothing) {
    Trial apart, shared;
    trial_begin(&apart, build_residual_wide, ES_COMPILE_OFF, 4, image_dims);
    trial_begin(&shared, build_residual_wide, ES_COMPILE_DEFAULT, 4, image_dims);
    EsPlanReport report = es_plan_report(shared.plan);
    EXPECT(!report.uses_lanes);
    EXPECT_CONTAINS(report.fallback, "depthwise_forward");
    EXPECT(report.activation_bytes < report.unshared_bytes / 2);
    run_loss(&apart, 0);
    run_loss(&shared, 0);
    EXPECT(memcmp(apart.store->gradients.data, shared.store->gradients.data,
                  es_tensor_bytes(&apart.store->gradients)) == 0);
    trial_end(&apart);
    trial_end(&shared);
}

// Values that a caller keeps are the same fused and unfused; what the vector engine fuses away
// makes the plan fall back.
static void check_kept(const char *name, int expects_lanes) {
    float values[2][2000];
    for (int mode = ES_COMPILE_OFF; mode <= ES_COMPILE_DEFAULT; mode++) {
        Trial trial;
        trial_begin(&trial, build_fused_norm, ES_COMPILE_OFF, 4, image_dims);
        EsValueId kept = es_graph_find(trial.graph, name);
        ES_ASSERT(kept != ES_NO_VALUE);
        es_graph_keep(trial.graph, kept);
        es_plan_destroy(trial.plan);
        EsPlanOptions options = es_plan_defaults();
        options.mode = (EsCompileMode)mode;
        REQUIRE_OK(es_plan_create(trial.graph, trial.store, &options, &trial.plan));
        bind_inputs(&trial);
        run_loss(&trial, 0);
        EsTensor tensor = es_plan_tensor(trial.plan, kept);
        ES_ASSERT(es_tensor_count(&tensor) <= 2000);
        memcpy(values[mode], tensor.data, es_tensor_bytes(&tensor));
        if (mode == ES_COMPILE_DEFAULT) {
            EXPECT_EQ(es_plan_report(trial.plan).uses_lanes, expects_lanes);
            double size = 0;
            for (int64_t i = 0; i < es_tensor_count(&tensor); i++) {
                EXPECT_NEAR(values[1][i], values[0][i], 1e-5);
                size += fabs((double)values[0][i]);
            }
            EXPECT(size > 0);
        }
        trial_end(&trial);
    }
}

TEST(kept_values_are_there) {
    check_kept("d activation", 1);
    check_kept("d norm", 1);
    check_kept("d conv", 1);
    check_kept("d head", 1);
    check_kept("batch mean", 0);
    check_kept("conv", 0);
}
