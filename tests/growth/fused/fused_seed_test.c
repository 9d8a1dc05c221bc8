// Seeds of every blueprint in a fused step, in every stage and at every kind of place, against the
// CPU's plans: gradients of host, seeds and gates, losses, and what must be left alone.
//
// The host has blocks of 8 and 12 channels with places before and after their pools, and one of 40
// channels without a pool: whole channel groups, a channel group that is half padding, and group
// norms of two groups.
#include "es_test.h"

#include "growth/fused/fused_step.h"
#include "growth/growing_host.h"

#define N_ENVS     7
#define N_IMAGES   19
#define N_CHECKED  11   // images of an evaluation
#define N_TRIALS   24   // rows of an evaluation
#define SMALLEST   1e-3 // gradients of a loss near 1: where all cancels only noise is left
#define UNTOUCHED  77777.0f
#define LOSS_SCALE 1024.0 // a power of 2: f16 needs it, f32 gives the same bits

typedef struct Stage {
    EsBlendMode mode;
    float alpha;
} Stage;

// environment e's slot s is in stage (e + 2 s) % N_ENVS: both slots of a block in many combinations
static const Stage stages[N_ENVS] = {{ES_BLEND_INCUBATE, 0.5f}, {ES_BLEND_ADD, 0.35f},
                                     {ES_BLEND_GATE, 0.8f},     {ES_BLEND_MULTIPLY, 0.6f},
                                     {ES_BLEND_NONE, 0.0f},     {ES_BLEND_ADD, 1.0f},
                                     {ES_BLEND_GATE, 0.4f}};

static Stage stage_of(int env, int slot) { return stages[(env + 2 * slot) % N_ENVS]; }

// Slots with odd numbers have no gate: GATE is ADD there.
static int has_gate(int slot) { return slot % 2 == 0; }

static EsHostSpec host_with_places(void) {
    EsHostSpec host = small_host();
    int both = ES_HOST_BEFORE_POOL | ES_HOST_AFTER_POOL;
    host.n_blocks = 3;
    host.blocks[0] = (EsHostBlock){8, 3, 1, both};
    host.blocks[1] = (EsHostBlock){12, 3, 1, both};
    host.blocks[2] = (EsHostBlock){40, 1, 0, ES_HOST_BEFORE_POOL};
    return host;
}

static EsTopology topology_with(EsBlueprint blueprint, int n_slots) {
    EsTopology topology = es_topology_empty();
    for (int s = 0; s < n_slots; s++) {
        topology.blueprint[s] = (int8_t)blueprint;
        topology.has_gate[s] = (int8_t)has_gate(s);
    }
    return topology;
}

static void begin_ground(Ground *ground) {
    memset(ground, 0, sizeof *ground);
    EsGrowthModel *model = &ground->model;
    make_small_dataset(&ground->dataset, 64, 40);
    model->host = host_with_places();
    REQUIRE_OK(es_slots_parse(&model->host, "all", model->slots, &model->n_slots));
    model->n_envs = N_ENVS;
    model->seed = GROUND_SEED;
    model->recipe.pad = 1;
    model->recipe.flip = 1;
    model->dataset = &ground->dataset;
    for (int e = 0; e < N_ENVS; e++) {
        ground->episode[e] = e;
    }
    REQUIRE_OK(es_growth_layout_create(model));
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &ground->device));
    REQUIRE_OK(es_stream_create(ground->device, &ground->stream));
    REQUIRE_OK(es_store_create_sized(ground->device, N_ENVS, model->layout.n_parameters,
                                     model->layout.n_states, &ground->store));
}

// --- the fused step ---

typedef struct Fused {
    const Ground *ground;
    EsDevice *device;
    EsStream *stream;
    EsStore *store;
    EsTensor images, labels, episode, env, step, loss_scale, n_active, slots;
    EsFusedStep *step_of_all;
    EsFusedInstances instances;
} Fused;

static EsTensor send(Fused *f, EsDtype dtype, int64_t count, const void *data) {
    EsTensor tensor;
    REQUIRE_OK(es_device_create_tensor(f->device, dtype, 1, &count, &tensor));
    REQUIRE_OK(
        es_stream_copy(f->stream, tensor.data, data, es_tensor_bytes(&tensor), ES_COPY_TO_DEVICE));
    REQUIRE_OK(es_stream_synchronize(f->stream));
    return tensor;
}

static void send_slab(Fused *f, const EsTensor *to, const float *data) {
    REQUIRE_OK(es_stream_copy(f->stream, to->data, data, es_tensor_bytes(to), ES_COPY_TO_DEVICE));
    REQUIRE_OK(es_stream_synchronize(f->stream));
}

// Whose instance r is, and how many instances there are; both in reverse order when asked for.
static void begin_fused(Fused *f, const Ground *ground, EsDtype precision, int is_tf32,
                        int is_reversed, int32_t n_active) {
    const EsDataset *data = &ground->dataset;
    int32_t env[N_ENVS], step = 0;
    float loss_scale[N_ENVS];
    memset(f, 0, sizeof *f);
    f->ground = ground;
    REQUIRE_OK(es_device_open("cuda", NULL, &f->device));
    REQUIRE_OK(es_stream_create(f->device, &f->stream));
    REQUIRE_OK(es_store_create_sized(f->device, N_ENVS, ground->model.layout.n_parameters,
                                     ground->model.layout.n_states, &f->store));
    f->images = send(f, ES_DTYPE_U8, data->n_images * (int64_t)data->image_bytes, data->images);
    f->labels = send(f, ES_DTYPE_U16, data->n_images, data->labels);
    f->episode = send(f, ES_DTYPE_I32, N_ENVS, ground->episode);
    for (int r = 0; r < N_ENVS; r++) {
        env[r] = is_reversed ? N_ENVS - 1 - r : r;
        loss_scale[r] = (float)LOSS_SCALE;
    }
    f->env = send(f, ES_DTYPE_I32, N_ENVS, env);
    f->step = send(f, ES_DTYPE_I32, 1, &step);
    f->loss_scale = send(f, ES_DTYPE_F32, N_ENVS, loss_scale);
    f->n_active = send(f, ES_DTYPE_I32, 1, &n_active);
    const EsFusedOptions options = {.model = &ground->model,
                                    .store = f->store,
                                    .images = f->images,
                                    .labels = f->labels,
                                    .episode = f->episode,
                                    .precision = precision,
                                    .is_tf32 = is_tf32,
                                    .batch = N_IMAGES,
                                    .max_instances = N_TRIALS,
                                    .max_evaluated = 8};
    REQUIRE_OK(es_fused_step_create(&options, &f->step_of_all));
}

// Row r is of environment env(r) and holds blueprint[r] in every slot.
static void set_rows(Fused *f, const EsBlueprint *blueprint, int is_reversed) {
    EsFusedSlot slots[N_ENVS * ES_SLOTS_MAX];
    int n_slots = f->ground->model.n_slots;
    for (int r = 0; r < N_ENVS; r++) {
        for (int s = 0; s < n_slots; s++) {
            Stage stage = stage_of(is_reversed ? N_ENVS - 1 - r : r, s);
            slots[r * n_slots + s] =
                (EsFusedSlot){(int32_t)blueprint[r], (int32_t)stage.mode, stage.alpha, has_gate(s)};
        }
    }
    es_device_destroy_tensor(&f->slots);
    f->slots = send(f, ES_DTYPE_U8, (int64_t)sizeof(EsFusedSlot) * N_ENVS * n_slots, slots);
    f->instances = (EsFusedInstances){.n_instances = N_ENVS,
                                      .n_active = f->n_active.data,
                                      .env = f->env.data,
                                      .slots = f->slots.data};
}

static float *fetch(Fused *f, const EsTensor *tensor) {
    float *values = malloc(es_tensor_bytes(tensor));
    REQUIRE_OK(
        es_stream_copy(f->stream, values, tensor->data, es_tensor_bytes(tensor), ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(f->stream));
    REQUIRE_OK(es_device_status(f->device));
    return values;
}

// One batch with the ground's parameters; its gradients, to be freed.
static float *train_fused(Fused *f) {
    const EsStore *from = f->ground->store;
    int64_t n = es_tensor_count(&f->store->gradients);
    float *untouched = malloc((size_t)n * sizeof *untouched);
    for (int64_t i = 0; i < n; i++) {
        untouched[i] = UNTOUCHED;
    }
    send_slab(f, &f->store->gradients, untouched);
    send_slab(f, &f->store->parameters, from->parameters.data);
    send_slab(f, &f->store->states, from->states.data);
    es_fused_step_train(f->step_of_all, f->stream, &f->instances,
                        &(EsFusedBatch){f->step.data, f->loss_scale.data});
    free(untouched);
    return fetch(f, &f->store->gradients);
}

static void end_fused(Fused *f) {
    EsTensor *tensors[] = {&f->images, &f->labels,     &f->episode,  &f->env,
                           &f->step,   &f->loss_scale, &f->n_active, &f->slots};
    es_fused_step_destroy(f->step_of_all);
    for (size_t i = 0; i < ES_COUNT_OF(tensors); i++) {
        es_device_destroy_tensor(tensors[i]);
    }
    es_store_destroy(f->store);
    es_stream_destroy(f->stream);
    es_device_close(f->device);
}

// --- comparisons ---

typedef struct Comparison {
    const Ground *ground;
    const float *expected, *actual; // [E, P]
    double bound, most;             // relative; the worst of all
    double smooth_bound;            // and behind the last block
    double most_smooth;
    int is_whole; // vectors are compared, not tensors
    const char *blueprint;
} Comparison;

static void expect_ratio(Comparison *c, int env, const char *what, double ratio) {
    // behind the last block nothing jumps but a seed's own ReLUs, of which the bottleneck has two
    int is_smooth = strncmp(what, "r0c2", 4) == 0 && strcmp(c->blueprint, "bottleneck") != 0;
    double bound = is_smooth ? c->smooth_bound : c->bound;
    double *most = is_smooth ? &c->most_smooth : &c->most;
    *most = ratio <= *most ? *most : ratio;
    if (!(ratio <= (c->is_whole ? bound : c->bound))) {
        ES_TEST_FAIL("%s, environment %d, %s: off by %.3g of the largest", c->blueprint, env, what,
                     ratio);
    }
}

// Every tensor by its largest number, or all of them as one vector by its length.
static void compare_tensors(Comparison *c, int env, const char *what, const EsSpans *spans) {
    int64_t stride = c->ground->model.layout.n_parameters;
    double size = 0, distance = 0;
    for (int k = 0; k < spans->n; k++) {
        const float *a = c->actual + env * stride + spans->offset[k];
        const float *b = c->expected + env * stride + spans->offset[k];
        double top = SMALLEST, off = 0;
        for (int64_t i = 0; i < spans->length[k]; i++) {
            double expected = (double)b[i], difference = fabs((double)a[i] / LOSS_SCALE - expected);
            top = fmax(top, fabs(expected));
            off = difference <= off ? off : difference; // NaN comes through
            size += expected * expected;
            distance += difference * difference;
        }
        if (!c->is_whole) {
            expect_ratio(c, env, what, off / top);
        }
    }
    if (c->is_whole) {
        expect_ratio(c, env, what, sqrt(distance) / fmax(sqrt(size), 10 * SMALLEST));
    }
}

static void expect_untouched(Comparison *c, int env, const char *what, const EsSpans *spans) {
    int64_t stride = c->ground->model.layout.n_parameters;
    for (int k = 0; k < spans->n; k++) {
        const float *a = c->actual + env * stride + spans->offset[k];
        for (int64_t i = 0; i < spans->length[k]; i++) {
            if (a[i] != UNTOUCHED) {
                ES_TEST_FAIL("%s, environment %d, %s, tensor %d: written to", c->blueprint, env,
                             what, k);
                break;
            }
        }
    }
}

static void compare_environment(Comparison *c, EsBlueprint blueprint, int env) {
    const EsGrowthModel *model = &c->ground->model;
    EsSpans spans;
    REQUIRE_OK(es_growth_host_spans(model, &spans));
    compare_tensors(c, env, "host", &spans);
    for (int s = 0; s < model->n_slots; s++) {
        char what[64];
        Stage stage = stage_of(env, s);
        int is_gated = stage.mode == ES_BLEND_GATE && has_gate(s);
        snprintf(what, sizeof what, "%s in mode %d", model->slots[s].name, (int)stage.mode);
        REQUIRE_OK(es_growth_seed_spans(model, s, blueprint, &spans));
        (stage.mode == ES_BLEND_NONE ? expect_untouched : compare_tensors)(c, env, what, &spans);
        snprintf(what, sizeof what, "gate of %s", model->slots[s].name);
        REQUIRE_OK(es_growth_gate_spans(model, s, &spans));
        (is_gated ? compare_tensors : expect_untouched)(c, env, what, &spans);
    }
}

static void set_stages(Runner *runner) {
    for (int s = 0; s < runner->ground->model.n_slots; s++) {
        for (int e = 0; e < N_ENVS; e++) {
            runner->mode[s][e] = (int32_t)stage_of(e, s).mode;
            runner->alpha[s][e] = stage_of(e, s).alpha;
        }
    }
}

static void fill(EsBlueprint *blueprints, EsBlueprint blueprint) {
    for (int r = 0; r < N_ENVS; r++) {
        blueprints[r] = blueprint;
    }
}

// 3e-3 of a gradient's length where nothing jumps; conv_heavy has a ReLU of its own.
static double smooth_in_tf32(EsBlueprint blueprint) {
    return blueprint == ES_BLUEPRINT_CONV_HEAVY ? 5e-2 : 3e-3;
}

// A loss does not jump where a gradient does: of it, what the rounding of activations leaves.
static double loss_bound(EsDtype precision, int is_tf32) {
    return precision == ES_DTYPE_BF16 ? 4e-3 : precision == ES_DTYPE_F16 || is_tf32 ? 4e-4 : 1e-5;
}

// Gradients of one batch in each of the precisions against the CPU's.
static void compare_training(Ground *ground, EsBlueprint blueprint, EsDtype precision, int is_tf32,
                             double bound) {
    EsTopology topology = topology_with(blueprint, ground->model.n_slots);
    EsBlueprint blueprints[N_ENVS];
    Runner runner;
    Fused fused;
    runner_begin(&runner, ground, &topology, N_IMAGES, 1, ES_COMPILE_OFF);
    ground_initialise(ground, runner.graph.graph);
    ground_open_paths(ground, runner.graph.graph);
    set_stages(&runner);
    begin_fused(&fused, ground, precision, is_tf32, 0, N_ENVS);
    fill(blueprints, blueprint);
    set_rows(&fused, blueprints, 0);
    float *actual = train_fused(&fused); // first: training moves the running statistics
    runner_run(&runner);
    Comparison c = {.ground = ground,
                    .expected = ground->store->gradients.data,
                    .actual = actual,
                    .bound = bound,
                    .smooth_bound = is_tf32 ? smooth_in_tf32(blueprint) : bound / 10,
                    .is_whole = precision != ES_DTYPE_F32 || is_tf32,
                    .blueprint = es_blueprint_name(blueprint)};
    for (int e = 0; e < N_ENVS; e++) {
        compare_environment(&c, blueprint, e);
    }
    EsTensor loss = es_fused_step_trained(fused.step_of_all).loss;
    float *losses = fetch(&fused, &loss);
    double most_loss = 0;
    for (int e = 0; e < N_ENVS; e++) {
        double expected = runner_loss(&runner, e);
        most_loss = fmax(most_loss, fabs((double)losses[e] - expected) / expected);
        EXPECT_NEAR(losses[e], expected, loss_bound(precision, is_tf32) * expected);
    }
    printf("losses %.2g off; ", most_loss);
    printf("%s: %.2g of the largest gradient, %.2g behind the last block\n", c.blueprint, c.most,
           c.most_smooth);
    free(losses);
    free(actual);
    end_fused(&fused);
    runner_end(&runner);
}

static int has_device(void) { return es_device_cuda_count() > 0; }

TEST(gradients_equal_the_cpu) {
    if (!has_device()) {
        SKIP("no CUDA device");
    }
    Ground ground;
    begin_ground(&ground);
    for (int b = 1; b < ES_BLUEPRINT_COUNT; b++) { // all but noop
        compare_training(&ground, (EsBlueprint)b, ES_DTYPE_F32, 0, 1e-4);
    }
    ground_end(&ground);
}

// 16-bit activations round at every layer, and where rounding changes the winner of a window or the
// sign of a ReLU's input a whole gradient moves: one in a few hundred for bf16, in a few thousand
// for f16.
TEST(gradients_in_narrow_types_are_near) {
    if (!has_device()) {
        SKIP("no CUDA device");
    }
    Ground ground;
    begin_ground(&ground);
    for (int b = 1; b < ES_BLUEPRINT_COUNT; b++) {
        compare_training(&ground, (EsBlueprint)b, ES_DTYPE_F16, 0, 0.15);
    }
    compare_training(&ground, ES_BLUEPRINT_CONV_LIGHT, ES_DTYPE_BF16, 0, 0.5);
    compare_training(&ground, ES_BLUEPRINT_DEPTHWISE, ES_DTYPE_BF16, 0, 0.5);
    compare_training(&ground, ES_BLUEPRINT_BOTTLENECK, ES_DTYPE_BF16, 0, 0.5);
    ground_end(&ground);
}

// TF32 has the bits of f16: something jumps about as often.
TEST(gradients_in_tf32_are_near) {
    if (!has_device()) {
        SKIP("no CUDA device");
    }
    Ground ground;
    begin_ground(&ground);
    for (int b = 1; b < ES_BLUEPRINT_COUNT; b++) {
        compare_training(&ground, (EsBlueprint)b, ES_DTYPE_F32, 1, 0.2);
    }
    ground_end(&ground);
}

// Rounding to TF32 by adding half of the last bit would make -0 of this NaN.
TEST(nan_stays_nan_in_tf32) {
    if (!has_device()) {
        SKIP("no CUDA device");
    }
    Ground ground;
    Fused fused;
    EsBlueprint blueprints[N_ENVS];
    EsSpans spans;
    const uint32_t bits = 0x7FFFFFFFu;
    begin_ground(&ground);
    float *parameters = ground.store->parameters.data;
    for (int64_t i = 0; i < es_tensor_count(&ground.store->parameters); i++) {
        parameters[i] = 0.4f * small_draw((uint32_t)i);
    }
    REQUIRE_OK(es_growth_host_spans(&ground.model, &spans));
    memcpy(&parameters[spans.offset[3]], &bits, sizeof bits); // block 1 of environment 0
    begin_fused(&fused, &ground, ES_DTYPE_F32, 1, 0, N_ENVS);
    fill(blueprints, ES_BLUEPRINT_CONV_LIGHT);
    set_rows(&fused, blueprints, 0);
    free(train_fused(&fused));
    EsTensor loss = es_fused_step_trained(fused.step_of_all).loss;
    float *losses = fetch(&fused, &loss);
    EXPECT(isnan(losses[0]));
    for (int e = 1; e < N_ENVS; e++) {
        EXPECT(isfinite(losses[e]));
    }
    free(losses);
    end_fused(&fused);
    ground_end(&ground);
}

// Every instance another blueprint, environments in reverse, the last instance idle: the same bits
// as in a batch of one kind.
TEST(rows_do_not_depend_on_their_company) {
    if (!has_device()) {
        SKIP("no CUDA device");
    }
    Ground ground;
    Fused fused;
    EsBlueprint mixed[N_ENVS], alike[N_ENVS];
    begin_ground(&ground);
    float *parameters = ground.store->parameters.data;
    for (int64_t i = 0; i < es_tensor_count(&ground.store->parameters); i++) {
        parameters[i] = 0.4f * small_draw((uint32_t)i);
    }
    for (int r = 0; r < N_ENVS; r++) {
        mixed[r] = (EsBlueprint)(1 + r % (ES_BLUEPRINT_COUNT - 1));
    }
    size_t row_bytes = (size_t)ground.model.layout.n_parameters * sizeof(float);
    begin_fused(&fused, &ground, ES_DTYPE_BF16, 0, 1, N_ENVS - 1);
    set_rows(&fused, mixed, 1);
    float *of_mixed = train_fused(&fused);
    end_fused(&fused);
    for (int64_t i = 0; i < ground.model.layout.n_parameters; i++) {
        EXPECT(of_mixed[i] == UNTOUCHED); // environment 0 is that of the last instance
    }
    begin_fused(&fused, &ground, ES_DTYPE_BF16, 0, 0, N_ENVS);
    for (int r = 0; r < N_ENVS - 1; r++) {
        int env = N_ENVS - 1 - r;
        fill(alike, mixed[r]);
        set_rows(&fused, alike, 0);
        float *of_alike = train_fused(&fused);
        int64_t first = env * ground.model.layout.n_parameters;
        EXPECT(memcmp(of_alike + first, of_mixed + first, row_bytes) == 0);
        free(of_alike);
    }
    end_fused(&fused);
    free(of_mixed);
    ground_end(&ground);
}

TEST(evaluation_equals_the_cpu) {
    if (!has_device()) {
        SKIP("no CUDA device");
    }
    Ground ground;
    begin_ground(&ground);
    for (int b = 1; b < ES_BLUEPRINT_COUNT; b++) {
        EsTopology topology = topology_with((EsBlueprint)b, ground.model.n_slots);
        EsBlueprint blueprints[N_ENVS];
        Runner runner;
        Fused fused;
        runner_begin(&runner, &ground, &topology, N_CHECKED, 0, ES_COMPILE_OFF);
        ground_initialise(&ground, runner.graph.graph);
        ground_open_paths(&ground, runner.graph.graph);
        set_stages(&runner);
        runner_run(&runner);
        begin_fused(&fused, &ground, ES_DTYPE_F32, 0, 0, N_ENVS);
        fill(blueprints, (EsBlueprint)b);
        set_rows(&fused, blueprints, 0);
        send_slab(&fused, &fused.store->parameters, ground.store->parameters.data);
        send_slab(&fused, &fused.store->states, ground.store->states.data);
        es_fused_step_evaluate(fused.step_of_all, fused.stream, &fused.instances,
                               ground.dataset.train.count, N_CHECKED);
        EsFusedResults results = es_fused_step_evaluated(fused.step_of_all);
        float *loss = fetch(&fused, &results.loss);
        for (int e = 0; e < N_ENVS; e++) {
            EXPECT_NEAR(loss[e] / N_CHECKED, runner_loss(&runner, e), 1e-4);
        }
        free(loss);
        end_fused(&fused);
        runner_end(&runner);
    }
    ground_end(&ground);
}

// --- trials ---

// Trial t is of one of four environments in no order, with any of its seeds on; slots hold seeds of
// several blueprints in all stages, as in set_rows.
static void draw_trials(int n_slots, int32_t *env, EsFusedSlot *slots) {
    for (int t = 0; t < N_TRIALS; t++) {
        EsRandom4 draw = es_random_draw(5, (uint32_t)t, ES_PURPOSE_EVALUATION, 0, 0);
        env[t] = (int32_t)(draw.word[0] % 4);
        for (int s = 0; s < n_slots; s++) {
            Stage stage = stage_of(env[t], s);
            EsFusedSlot *slot = &slots[t * n_slots + s];
            int blueprint = 1 + (env[t] + s) % (ES_BLUEPRINT_COUNT - 1);
            *slot = draw.word[1] >> s & 1
                        ? (EsFusedSlot){blueprint, (int32_t)stage.mode, stage.alpha, has_gate(s)}
                        : (EsFusedSlot){ES_NO_SEED, ES_BLEND_NONE, 0.0f, 0};
        }
    }
}

typedef struct Trials {
    float loss[N_TRIALS];
    int32_t n_correct[N_TRIALS];
} Trials;

// Trials [first, first + n) in one evaluation.
static void evaluate(Fused *f, const EsTensor *env, const EsTensor *slots, int first, int n,
                     Trials *trials) {
    EsFusedInstances instances = {.n_instances = n,
                                  .env = (const int32_t *)env->data + first,
                                  .slots = (const EsFusedSlot *)slots->data +
                                           (int64_t)first * f->ground->model.n_slots};
    es_fused_step_evaluate(f->step_of_all, f->stream, &instances, f->ground->dataset.train.count,
                           N_CHECKED);
    EsFusedResults results = es_fused_step_evaluated(f->step_of_all);
    float *loss = fetch(f, &results.loss), *n_correct = fetch(f, &results.n_correct);
    memcpy(trials->loss + first, loss, sizeof *loss * (size_t)n);
    memcpy(trials->n_correct + first, n_correct, sizeof *n_correct * (size_t)n);
    free(loss);
    free(n_correct);
}

// Instances that share what they have in common have the bits of instances that are evaluated one
// at a time.
TEST(trials_share_without_a_difference) {
    if (!has_device()) {
        SKIP("no CUDA device");
    }
    static const struct {
        EsDtype precision;
        int is_tf32;
    } kinds[] = {{ES_DTYPE_F32, 0}, {ES_DTYPE_F32, 1}, {ES_DTYPE_BF16, 0}, {ES_DTYPE_F16, 0}};
    Ground ground;
    begin_ground(&ground);
    float *parameters = ground.store->parameters.data, *states = ground.store->states.data;
    for (int64_t i = 0; i < es_tensor_count(&ground.store->parameters); i++) {
        parameters[i] = 0.4f * small_draw((uint32_t)i);
    }
    for (int64_t i = 0; i < es_tensor_count(&ground.store->states); i++) {
        states[i] = 0.3f + 0.2f * small_draw((uint32_t)i); // means, and variances above 0
    }
    for (size_t kind = 0; kind < ES_COUNT_OF(kinds); kind++) {
        static EsFusedSlot slots[N_TRIALS * ES_SLOTS_MAX];
        int32_t env[N_TRIALS];
        Fused fused;
        Trials together, alone;
        int n_slots = ground.model.n_slots, n_distinct = 0;
        begin_fused(&fused, &ground, kinds[kind].precision, kinds[kind].is_tf32, 0, N_ENVS);
        send_slab(&fused, &fused.store->parameters, parameters);
        send_slab(&fused, &fused.store->states, states);
        draw_trials(n_slots, env, slots);
        EsTensor env_device = send(&fused, ES_DTYPE_I32, N_TRIALS, env);
        EsTensor slots_device =
            send(&fused, ES_DTYPE_U8, (int64_t)sizeof *slots * N_TRIALS * n_slots, slots);
        evaluate(&fused, &env_device, &slots_device, 0, N_TRIALS, &together);
        for (int t = 0; t < N_TRIALS; t++) {
            evaluate(&fused, &env_device, &slots_device, t, 1, &alone);
        }
        for (int t = 0; t < N_TRIALS; t++) {
            EXPECT(together.loss[t] == alone.loss[t]);
            EXPECT_EQ(together.n_correct[t], alone.n_correct[t]);
            EXPECT(isfinite(together.loss[t]));
            n_distinct += t == 0 || together.loss[t] != together.loss[t - 1];
        }
        EXPECT(n_distinct > N_TRIALS / 2); // the trials are not all alike
        es_device_destroy_tensor(&env_device);
        es_device_destroy_tensor(&slots_device);
        end_fused(&fused);
    }
    ground_end(&ground);
}
