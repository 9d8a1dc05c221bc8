// Every blueprint in a slot of a small host, under every mode: counts, gradients against finite
// differences, life at birth, and what must stay exact.
#include "es_test.h"

#include "base/random_rules.h"
#include "growth/host/blueprint.h"
#include "network/plan/plan.h"

#define N_ENVS     2
#define N_ROWS     5
#define N_CHANNELS 4
#define N_CLASSES  3
#define MAX_INPUTS 4

#define FOR_EACH_BLUEPRINT(b)                                                                      \
    for (int b = 0; b < ES_BLUEPRINT_END; b++)                                                     \
        if (es_blueprint_exists(b))

// A host of one block, the slot, a convolution and a head, with everything that runs it. Parameters
// are called stem, seed, gate, next, head.
typedef struct Trial {
    EsDevice *device;
    EsStream *stream;
    EsGraph *graph;
    EsStore *store;
    EsPlan *plan;
    EsValueId h, seed, y, logits;
    void *memory[MAX_INPUTS]; // of the inputs
    int n_inputs;
    float *alpha;  // [E], among the inputs
    int32_t *mode; // [E], likewise
    int is_plain;  // has a layer that the vector engine refuses
    double step;   // of central differences
} Trial;

// A seed's way into y, and how far it has come.
typedef struct Stage {
    EsBlendMode mode;
    float alpha;
} Stage;

static float draw(uint32_t number) {
    EsRandom4 r = es_random_draw(17, 0, ES_PURPOSE_EVALUATION, 0, number / 4);
    return 2.0f * es_random_uniform(r.word[number % 4]) - 1.0f;
}

static void *bind_input(Trial *t, const char *name) {
    EsValueId id = es_graph_find(t->graph, name);
    const EsValue *value = &t->graph->values[id];
    EsTensor tensor = es_tensor_view(NULL, value->dtype, t->device, value->rank, value->dim);
    REQUIRE_OK(es_device_allocate(t->device, es_tensor_bytes(&tensor), &tensor.data));
    REQUIRE_OK(es_plan_bind(t->plan, id, &tensor));
    ES_ASSERT(t->n_inputs < MAX_INPUTS);
    t->memory[t->n_inputs++] = tensor.data;
    return tensor.data;
}

static void build_network(Trial *t, EsBlueprint blueprint) {
    EsGraph *g = t->graph;
    EsValueId x = es_graph_input(g, "x", ES_DTYPE_F32, 4, (int64_t[]){N_ROWS, 2, 5, 5});
    EsValueId labels = es_graph_input(g, "labels", ES_DTYPE_I32, 1, (int64_t[]){N_ROWS});
    EsValueId alpha = es_graph_input(g, "alpha", ES_DTYPE_F32, 0, NULL);
    EsValueId mode = es_graph_input(g, "mode", ES_DTYPE_I32, 0, NULL);
    t->h =
        es_graph_activation(g, ES_ACTIVATION_TANH, es_graph_conv2d(g, "stem", x, N_CHANNELS, 3, 1));
    EsValueId read = es_graph_seed_input(g, t->h, mode);
    t->seed = es_blueprint_build(g, blueprint, "seed", read);
    t->y = es_graph_blend(g, t->h, t->seed, es_graph_gate(g, "gate", read), alpha, mode);
    EsValueId next = es_graph_conv2d(g, "next", t->y, 3, 3, 1);
    next = t->is_plain ? es_graph_depthwise(g, "wide", next, 5) : next;
    next = es_graph_pool(g, ES_POOL_GLOBAL, es_graph_activation(g, ES_ACTIVATION_TANH, next));
    t->logits = es_graph_linear(g, "head", next, N_CLASSES);
    REQUIRE_OK(es_graph_differentiate(g, es_graph_cross_entropy(g, t->logits, labels).loss));
}

static void trial_begin_with(Trial *t, EsBlueprint blueprint, EsCompileMode mode, int is_plain) {
    memset(t, 0, sizeof *t);
    t->is_plain = is_plain;
    t->step = blueprint == ES_BLUEPRINT_MLP ? 1e-4 : 5e-4; // it has most elements with a kink
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &t->device));
    REQUIRE_OK(es_stream_create(t->device, &t->stream));
    REQUIRE_OK(es_graph_create(N_ENVS, &t->graph));
    build_network(t, blueprint);
    REQUIRE_OK(es_store_create(t->graph, t->device, &t->store));
    REQUIRE_OK(es_store_initialise(t->store, t->graph, t->stream, 5, (int32_t[]){0, 1}));
    EsPlanOptions options = es_plan_defaults();
    options.mode = mode;
    REQUIRE_OK(es_plan_create(t->graph, t->store, &options, &t->plan));
    float *x = bind_input(t, "x");
    for (uint32_t i = 0; i < N_ENVS * N_ROWS * 2 * 25; i++) {
        x[i] = draw(i);
    }
    int32_t *labels = bind_input(t, "labels");
    for (int i = 0; i < N_ENVS * N_ROWS; i++) {
        labels[i] = i % N_CLASSES;
    }
    t->alpha = bind_input(t, "alpha");
    t->mode = bind_input(t, "mode");
}

static void trial_begin(Trial *t, EsBlueprint blueprint, EsCompileMode mode) {
    trial_begin_with(t, blueprint, mode, 0);
}

static void trial_end(Trial *t) {
    es_plan_destroy(t->plan);
    es_store_destroy(t->store);
    es_graph_destroy(t->graph);
    for (int i = 0; i < t->n_inputs; i++) {
        es_device_release(t->device, t->memory[i]);
    }
    es_stream_destroy(t->stream);
    es_device_close(t->device);
}

static void set_stage(Trial *t, Stage stage) {
    for (int e = 0; e < N_ENVS; e++) {
        t->alpha[e] = stage.alpha;
        t->mode[e] = (int32_t)stage.mode;
    }
}

static void run_trial(Trial *t) { REQUIRE_OK(es_plan_run(t->plan, t->stream)); }

static EsTensor tensor_of(const Trial *t, EsValueId value) {
    return es_plan_tensor(t->plan, value);
}

static const float *values_of(const Trial *t, EsValueId value) { return tensor_of(t, value).data; }

// Is v a parameter of this layer ("seed")?
static int is_parameter_of(const Trial *t, EsValueId v, const char *layer) {
    const EsValue *value = &t->graph->values[v];
    size_t length = strlen(layer);
    return value->role == ES_ROLE_PARAMETER && strncmp(value->name, layer, length) == 0 &&
           value->name[length] == '.';
}

static float *copy_slab(const EsTensor *slab) {
    float *copy = malloc(es_tensor_bytes(slab));
    memcpy(copy, slab->data, es_tensor_bytes(slab));
    return copy;
}

// The largest gradient, in size, of a layer's parameters in one environment.
static float largest_gradient(const Trial *t, const char *layer, int env) {
    float largest = 0.0f;
    for (EsValueId v = 0; v < t->graph->n_values; v++) {
        const EsValue *value = &t->graph->values[v];
        const float *gradient = (const float *)t->store->gradients.data +
                                env * t->store->gradients.stride[0] + value->slab_offset;
        for (int64_t k = 0; is_parameter_of(t, v, layer) && k < es_value_count(value); k++) {
            largest = fmaxf(largest, fabsf(gradient[k]));
        }
    }
    return largest;
}

// --- counts ---

static int64_t count_built(EsBlueprint blueprint, int64_t n_channels) {
    EsGraph *graph = NULL;
    REQUIRE_OK(es_graph_create(1, &graph));
    EsValueId x = es_graph_input(graph, "x", ES_DTYPE_F32, 4, (int64_t[]){1, n_channels, 3, 3});
    es_blueprint_build(graph, blueprint, "seed", x);
    REQUIRE_OK(es_graph_status(graph));
    int64_t count = es_graph_parameter_count(graph);
    es_graph_destroy(graph);
    return count;
}

TEST(parameter_counts) {
    static const int64_t channels[] = {1, 4, 8, 16, 32, 64, 128};
    static const int64_t table[ES_BLUEPRINT_END][7] = {
        [ES_BLUEPRINT_NOOP] = {0, 0, 0, 0, 0, 0, 0},
        [ES_BLUEPRINT_NORM] = {3, 9, 17, 33, 65, 129, 257},
        [ES_BLUEPRINT_ATTENTION] = {3, 12, 40, 144, 544, 2112, 8320},
        [ES_BLUEPRINT_DEPTHWISE] = {12, 60, 152, 432, 1376, 4800, 17792},
        [ES_BLUEPRINT_BOTTLENECK] = {594, 648, 720, 864, 1152, 4480, 17664},
        [ES_BLUEPRINT_CONV_SMALL] = {3, 24, 80, 288, 1088, 4224, 16640},
        [ES_BLUEPRINT_CONV_LIGHT] = {11, 152, 592, 2336, 9280, 36992, 147712},
        [ES_BLUEPRINT_CONV_HEAVY] = {22, 304, 1184, 4672, 18560, 73984, 295424},
        [ES_BLUEPRINT_MLP_SMALL] = {6, 72, 272, 1056, 4160, 16512, 65792},
        [ES_BLUEPRINT_MLP] = {10, 136, 528, 2080, 8256, 32896, 131328},
    };
    FOR_EACH_BLUEPRINT(b) {
        for (size_t c = 0; c < ES_COUNT_OF(channels); c++) {
            EXPECT_EQ(es_blueprint_parameter_count((EsBlueprint)b, channels[c]), table[b][c]);
            EXPECT_EQ(count_built((EsBlueprint)b, channels[c]), table[b][c]);
        }
    }
    EXPECT_EQ(es_graph_gate_parameter_count(64), 1057);
    EXPECT_EQ(es_graph_gate_parameter_count(384), 37057);
}

TEST(groups_of_norms) {
    static const int pairs[][2] = {{1, 1},  {2, 1},    {8, 1},  {16, 1},   {31, 1},
                                   {32, 2}, {48, 2},   {64, 4}, {100, 4},  {128, 8},
                                   {33, 1}, {256, 16}, {36, 2}, {512, 32}, {1024, 32}};
    for (size_t i = 0; i < ES_COUNT_OF(pairs); i++) {
        EXPECT_EQ(es_blueprint_group_count(pairs[i][0]), pairs[i][1]);
    }
}

TEST(names) {
    FOR_EACH_BLUEPRINT(b) {
        EsBlueprint parsed = ES_BLUEPRINT_COUNT;
        REQUIRE_OK(es_blueprint_parse(es_blueprint_name((EsBlueprint)b), &parsed));
        EXPECT_EQ(parsed, b);
    }
    // the policy's head has them in this order
    EXPECT_TEXT(es_blueprint_name((EsBlueprint)3), "norm");
    EXPECT_TEXT(es_blueprint_name((EsBlueprint)7), "conv_heavy");
    EXPECT_TEXT(es_blueprint_name((EsBlueprint)10), "mlp_small");
    EXPECT_TEXT(es_blueprint_name((EsBlueprint)11), "mlp");
    EXPECT(!es_blueprint_exists(-1) && !es_blueprint_exists(8) && !es_blueprint_exists(12));
    EsBlueprint parsed;
    EXPECT_STATUS(es_blueprint_parse("conv", &parsed), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(),
                    "no blueprint is called \"conv\"; there are noop, conv_light, attention");
}

// --- gradients ---

// Parameters that start at one number (gammas at 0, say) get values at which every path is open.
static void open_paths(Trial *t) {
    for (EsValueId v = 0; v < t->graph->n_values; v++) {
        const EsValue *value = &t->graph->values[v];
        if (value->role != ES_ROLE_PARAMETER || value->bound > 0.0f) {
            continue;
        }
        EsTensor tensor = es_store_tensor(t->store, t->graph, v);
        for (int64_t k = 0; k < N_ENVS * es_value_count(value); k++) {
            int64_t env = k % N_ENVS, element = k / N_ENVS;
            ((float *)tensor.data)[env * tensor.stride[0] + element] +=
                0.75f * draw((uint32_t)(10000 + 1000 * v + k));
        }
    }
}

// The loss of one environment in double: what f32 leaves of it is too coarse for the short steps
// below.
static double loss_of(const Trial *t, int env) {
    double loss = 0.0;
    for (int row = env * N_ROWS; row < (env + 1) * N_ROWS; row++) {
        const float *logits = values_of(t, t->logits) + (size_t)row * N_CLASSES;
        double sum = 0.0;
        for (int k = 0; k < N_CLASSES; k++) {
            sum += exp((double)logits[k]);
        }
        loss += (log(sum) - (double)logits[row % N_CLASSES]) / N_ROWS;
    }
    return loss;
}

// Differentiated scalar: the loss, or <weight, seed output> when there is a weight.
static double scalar_of(Trial *t, int env, const float *weight) {
    run_trial(t);
    if (weight == NULL) {
        return loss_of(t, env);
    }
    int64_t count = es_value_count(&t->graph->values[t->seed]);
    const float *seed = values_of(t, t->seed);
    double sum = 0.0;
    for (int64_t k = env * count; k < (env + 1) * count; k++) {
        sum += (double)weight[k] * (double)seed[k];
    }
    return sum;
}

// Central differences of a few elements of one parameter. The step is long enough that rounding of
// the logits (6e-8 at most, averaged over rows) stays below 1e-4 of the quotient, and short enough
// that few elements cross a kink of a ReLU, each of which counts with a share of the step.
static void check_parameter(Trial *t, EsValueId v, const char *what, const float *analytic,
                            const float *weight) {
    const double step = t->step;
    const EsValue *value = &t->graph->values[v];
    EsTensor tensor = es_store_tensor(t->store, t->graph, v);
    int64_t count = es_value_count(value);
    for (int64_t k = 0; k < ES_MIN(count, 6); k++) {
        int env = (int)(k % N_ENVS);
        int64_t element = env * tensor.stride[0] + k * 7 % count;
        float *parameter = (float *)tensor.data + element, before = *parameter;
        *parameter = (float)((double)before + step);
        double up = scalar_of(t, env, weight), high = (double)*parameter;
        *parameter = (float)((double)before - step);
        double down = scalar_of(t, env, weight), low = (double)*parameter;
        *parameter = before;
        double numeric = (up - down) / (high - low);
        double exact = (double)analytic[element + value->slab_offset];
        if (!(fabs(numeric - exact) <= 2e-4 + 1e-2 * fabs(numeric))) {
            ES_TEST_FAIL("%s: %s env %d element %lld: gradient %.6g, differences give %.6g", what,
                         value->name, env, (long long)(k * 7 % count), exact, numeric);
        }
    }
}

static const Stage blending[] = {{ES_BLEND_ADD, 0.3f},     {ES_BLEND_ADD, 0.7f},
                                 {ES_BLEND_ADD, 1.0f},     {ES_BLEND_GATE, 0.5f},
                                 {ES_BLEND_GATE, 1.0f},    {ES_BLEND_MULTIPLY, 0.3f},
                                 {ES_BLEND_MULTIPLY, 1.0f}};

TEST(gradients_while_blending) {
    FOR_EACH_BLUEPRINT(b) {
        Trial t;
        trial_begin(&t, (EsBlueprint)b, ES_COMPILE_OFF);
        open_paths(&t);
        for (size_t i = 0; i < ES_COUNT_OF(blending); i++) {
            char what[64];
            snprintf(what, sizeof what, "%s mode %d alpha %g", es_blueprint_name((EsBlueprint)b),
                     (int)blending[i].mode, (double)blending[i].alpha);
            set_stage(&t, blending[i]);
            run_trial(&t);
            float *analytic = copy_slab(&t.store->gradients);
            for (EsValueId v = 0; v < t.graph->n_values; v++) {
                if (t.graph->values[v].role == ES_ROLE_PARAMETER) {
                    check_parameter(&t, v, what, analytic, NULL);
                }
            }
            // nothing upstream is walled off, at alpha 1 neither
            for (int e = 0; e < N_ENVS; e++) {
                EXPECT(largest_gradient(&t, "stem", e) > 1e-3f);
            }
            free(analytic);
        }
        trial_end(&t);
    }
}

// y = h, the host learns as if there were no seed, and the seed from the gradient of y.
TEST(gradients_while_incubating) {
    FOR_EACH_BLUEPRINT(b) {
        Trial t;
        trial_begin(&t, (EsBlueprint)b, ES_COMPILE_OFF);
        open_paths(&t);
        set_stage(&t, (Stage){ES_BLEND_NONE, 0.0f});
        run_trial(&t);
        float *without = copy_slab(&t.store->gradients);
        EXPECT(largest_gradient(&t, "seed", 0) == 0.0f && largest_gradient(&t, "gate", 1) == 0.0f);
        set_stage(&t, (Stage){ES_BLEND_INCUBATE, 0.0f});
        run_trial(&t);
        EsTensor y = tensor_of(&t, t.y);
        EXPECT(memcmp(y.data, values_of(&t, t.h), es_tensor_bytes(&y)) == 0);
        EXPECT(largest_gradient(&t, "gate", 0) == 0.0f && largest_gradient(&t, "gate", 1) == 0.0f);
        float *incubated = copy_slab(&t.store->gradients);
        EsTensor gradient = tensor_of(&t, t.graph->values[t.y].gradient);
        float *d_y = copy_slab(&gradient);
        for (EsValueId v = 0; v < t.graph->n_values; v++) {
            const EsValue *value = &t.graph->values[v];
            if (is_parameter_of(&t, v, "seed")) {
                check_parameter(&t, v, es_blueprint_name((EsBlueprint)b), incubated, d_y);
                continue;
            }
            for (int64_t e = 0; value->role == ES_ROLE_PARAMETER && e < N_ENVS; e++) {
                int64_t at = e * t.store->gradients.stride[0] + value->slab_offset;
                EXPECT(memcmp(incubated + at, without + at,
                              (size_t)es_value_count(value) * sizeof(float)) == 0);
            }
        }
        free(without);
        free(incubated);
        free(d_y);
        trial_end(&t);
    }
}

// --- at birth ---

// Residual seeds and norm start as the identity, attention as a common factor.
TEST(outputs_at_birth) {
    FOR_EACH_BLUEPRINT(b) {
        Trial t;
        trial_begin(&t, (EsBlueprint)b, ES_COMPILE_OFF);
        set_stage(&t, (Stage){ES_BLEND_INCUBATE, 0.0f});
        run_trial(&t);
        const float *h = values_of(&t, t.h), *seed = values_of(&t, t.seed);
        for (int64_t k = 0; k < N_ENVS * es_value_count(&t.graph->values[t.h]); k++) {
            if (b == ES_BLUEPRINT_ATTENTION) {
                EXPECT_NEAR(seed[k], h[k] / (1.0f + expf(-3.0f)), 1e-6);
            } else {
                EXPECT(seed[k] == h[k]);
            }
        }
        trial_end(&t);
    }
}

// One step of gradient descent on the seed alone, at a rate that moves its parameters by at most
// 0.05.
static void step_seed(Trial *t) {
    for (int e = 0; e < N_ENVS; e++) {
        float largest = largest_gradient(t, "seed", e);
        EXPECT(largest > 1e-5f);
        for (EsValueId v = 0; v < t->graph->n_values; v++) {
            if (!is_parameter_of(t, v, "seed")) {
                continue;
            }
            EsTensor tensor = es_store_tensor(t->store, t->graph, v);
            const float *gradient =
                (const float *)t->store->gradients.data + t->graph->values[v].slab_offset;
            for (int64_t k = 0; k < es_value_count(&t->graph->values[v]); k++) {
                int64_t at = e * tensor.stride[0] + k;
                ((float *)tensor.data)[at] -= 0.05f / largest * gradient[at];
            }
        }
    }
}

static float largest_change(const Trial *t, EsValueId value, const float *before, int env) {
    int64_t count = es_value_count(&t->graph->values[value]);
    const float *after = values_of(t, value);
    float largest = 0.0f;
    for (int64_t k = env * count; k < (env + 1) * count; k++) {
        largest = fmaxf(largest, fabsf(after[k] - before[k]));
    }
    return largest;
}

TEST(first_step_changes_the_output) {
    static const Stage stages[] = {{ES_BLEND_INCUBATE, 0.0f},
                                   {ES_BLEND_ADD, 0.5f},
                                   {ES_BLEND_GATE, 0.5f},
                                   {ES_BLEND_MULTIPLY, 0.5f}};
    FOR_EACH_BLUEPRINT(b) {
        for (size_t i = 0; b != ES_BLUEPRINT_NOOP && i < ES_COUNT_OF(stages); i++) {
            Trial t;
            trial_begin(&t, (EsBlueprint)b, ES_COMPILE_OFF);
            set_stage(&t, stages[i]);
            run_trial(&t);
            EsTensor seed = tensor_of(&t, t.seed), y = tensor_of(&t, t.y);
            float *seed_before = copy_slab(&seed), *y_before = copy_slab(&y);
            double loss[N_ENVS];
            for (int e = 0; e < N_ENVS; e++) {
                loss[e] = loss_of(&t, e);
            }
            step_seed(&t);
            run_trial(&t);
            for (int e = 0; e < N_ENVS; e++) {
                float seed_change = largest_change(&t, t.seed, seed_before, e);
                float y_change = largest_change(&t, t.y, y_before, e);
                int is_mixed = stages[i].mode != ES_BLEND_INCUBATE;
                // far above the rounding of values up to 1; a factor of attention moves by 2e-3
                if (!(seed_change > 1e-5f) || (is_mixed ? !(y_change > 1e-5f) : y_change != 0.0f)) {
                    ES_TEST_FAIL("%s mode %d env %d: the seed moves by %g, y by %g",
                                 es_blueprint_name((EsBlueprint)b), (int)stages[i].mode, e,
                                 (double)seed_change, (double)y_change);
                }
                // downhill
                EXPECT(!is_mixed || loss_of(&t, e) < loss[e]);
            }
            free(seed_before);
            free(y_before);
            trial_end(&t);
        }
    }
}

// --- plans and neighbours ---

static float *record_gradients(EsBlueprint blueprint, EsCompileMode compile, int is_plain,
                               const Stage *stages) {
    Trial t;
    trial_begin_with(&t, blueprint, compile, is_plain);
    open_paths(&t);
    for (int e = 0; e < N_ENVS; e++) {
        t.alpha[e] = stages[e].alpha;
        t.mode[e] = (int32_t)stages[e].mode;
    }
    run_trial(&t);
    float *gradients = copy_slab(&t.store->gradients);
    EXPECT_EQ(es_plan_report(t.plan).uses_lanes, compile == ES_COMPILE_DEFAULT && !is_plain);
    trial_end(&t);
    return gradients;
}

// Sharing memory between activations changes no bit, nor does the stage of another environment, on
// plain kernels and on the vector engine.
TEST(memory_and_neighbours_change_nothing) {
    const Stage gated = {ES_BLEND_GATE, 0.6f};
    for (int i = 0; i < 2 * ES_BLUEPRINT_END; i++) {
        EsBlueprint b = (EsBlueprint)(i / 2);
        int is_plain = i % 2;
        if (!es_blueprint_exists((int)b)) {
            continue;
        }
        float *shared =
            record_gradients(b, ES_COMPILE_DEFAULT, is_plain, (const Stage[]){gated, gated});
        float *mixed = record_gradients(b, ES_COMPILE_DEFAULT, is_plain,
                                        (const Stage[]){{ES_BLEND_INCUBATE, 0.0f}, gated});
        Trial t;
        trial_begin_with(&t, b, ES_COMPILE_OFF, is_plain);
        size_t bytes = (size_t)t.store->gradients.stride[0] * sizeof(float);
        trial_end(&t);
        if (is_plain) {
            float *apart =
                record_gradients(b, ES_COMPILE_OFF, is_plain, (const Stage[]){gated, gated});
            EXPECT(memcmp(apart, shared, N_ENVS * bytes) == 0);
            free(apart);
        }
        EXPECT(memcmp(shared, mixed, bytes) != 0);
        EXPECT(memcmp((char *)shared + bytes, (char *)mixed + bytes, bytes) == 0);
        free(shared);
        free(mixed);
    }
}
