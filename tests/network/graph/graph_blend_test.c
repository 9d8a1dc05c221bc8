// Builders of slots and of parts of seeds: parameters, mistakes that are told where they are made,
// and a slot in a bf16 plan.
#include "es_test.h"

#include "network/graph/graph_blend.h"
#include "network/plan/plan.h"

// A graph of two environments with an activation h [2, 4, 6, 5, 5], alpha and mode.
typedef struct Slot {
    EsGraph *graph;
    EsValueId x, h, alpha, mode;
} Slot;

static Slot slot_begin(void) {
    Slot slot = {0};
    REQUIRE_OK(es_graph_create(2, &slot.graph));
    slot.x = es_graph_input(slot.graph, "x", ES_DTYPE_F32, 4, (int64_t[]){4, 3, 5, 5});
    slot.alpha = es_graph_input(slot.graph, "alpha", ES_DTYPE_F32, 0, NULL);
    slot.mode = es_graph_input(slot.graph, "mode", ES_DTYPE_I32, 0, NULL);
    slot.h = es_graph_conv2d(slot.graph, "stem", slot.x, 6, 3, 0);
    return slot;
}

static void expect_refusal(Slot *slot, EsValueId result, const char *text) {
    EXPECT_EQ(result, ES_NO_VALUE);
    EXPECT_STATUS(es_graph_status(slot->graph), ARGUMENT);
    EXPECT_TEXT(es_status_detail(), text);
    es_graph_destroy(slot->graph);
}

TEST(wrong_inputs_are_refused) {
    Slot s = slot_begin();
    expect_refusal(&s, es_graph_seed_input(s.graph, s.x, s.mode),
                   "seed input: \"x\" is not computed by the graph; a seed reads an activation");
    s = slot_begin();
    expect_refusal(&s, es_graph_seed_input(s.graph, s.h, s.alpha),
                   "seed input: \"alpha\" is F32 of rank 1, expected I32 of rank 1");
    s = slot_begin();
    expect_refusal(&s, es_graph_blend(s.graph, s.h, s.x, ES_NO_VALUE, s.alpha, s.mode),
                   "blend: \"stem\" and \"x\" have different shapes");
    s = slot_begin();
    expect_refusal(&s, es_graph_blend(s.graph, s.h, s.h, ES_NO_VALUE, s.mode, s.mode),
                   "blend: \"mode\" is I32 of rank 1, expected F32 of rank 1");
    s = slot_begin();
    EsValueId gate = es_graph_input(s.graph, "gate", ES_DTYPE_F32, 1, (int64_t[]){3});
    expect_refusal(&s, es_graph_blend(s.graph, s.h, s.h, gate, s.alpha, s.mode),
                   "blend: \"gate\" has 3 at axis 1, expected 4");
    s = slot_begin();
    EsValueId w = es_graph_input(s.graph, "w", ES_DTYPE_F32, 2, (int64_t[]){4, 5});
    expect_refusal(&s, es_graph_channel_scale(s.graph, s.h, w),
                   "channel scale: \"w\" has 5 at axis 2, expected 6");
    s = slot_begin();
    expect_refusal(&s, es_graph_norm_mix(s.graph, "mix", s.h, s.x),
                   "mix: \"stem\" and \"x\" have different shapes");
    s = slot_begin();
    const char *name = "a name that leaves no room for the layers inside, as names end";
    char text[128];
    snprintf(text, sizeof text, "layer name \"%s\" is too long", name);
    expect_refusal(&s, es_graph_gate(s.graph, name, s.h), text);
}

static const EsValue *value_named(const Slot *s, const char *name) {
    EsValueId id = es_graph_find(s->graph, name);
    return id == ES_NO_VALUE ? NULL : &s->graph->values[id];
}

TEST(parts_have_their_parameters) {
    Slot s = slot_begin();
    int64_t before = es_graph_parameter_count(s.graph);
    EsValueId gate = es_graph_gate(s.graph, "gate", s.h);
    REQUIRE_OK(es_graph_status(s.graph));
    EXPECT_EQ(s.graph->values[gate].rank, 2);
    EXPECT_EQ(s.graph->values[gate].dim[1], 4);
    EXPECT_EQ(es_graph_parameter_count(s.graph) - before, 8 * (6 + 2) + 1);
    EXPECT_EQ(es_graph_gate_parameter_count(6), 8 * (6 + 2) + 1);

    EsValueId scaled = es_graph_squeeze_excite(s.graph, "se", s.h);
    es_graph_norm_mix(s.graph, "mix", s.h, scaled);
    REQUIRE_OK(es_graph_status(s.graph));
    EXPECT(value_named(&s, "se.squeeze.bias") == NULL);
    EXPECT(value_named(&s, "se.squeeze.weight")->bound > 0.0f);
    EXPECT(value_named(&s, "se.excite.weight")->bound == 0.0f);
    EXPECT(value_named(&s, "se.excite.weight")->start == 0.0f);
    EXPECT(value_named(&s, "se.excite.bias")->bound == 0.0f);
    EXPECT(value_named(&s, "se.excite.bias")->start == 3.0f);
    EXPECT(value_named(&s, "mix.mix")->start == 0.0f);
    es_graph_destroy(s.graph);
}

// The seed's input is the memory of h.
TEST(seed_input_is_h) {
    Slot s = slot_begin();
    EsValueId read = es_graph_seed_input(s.graph, s.h, s.mode);
    EXPECT_EQ(s.graph->values[read].alias_of, s.h);
    EXPECT(s.graph->values[read].needs_gradient);
    es_graph_destroy(s.graph);
}

// --- a slot on CUDA ---

#define N_SAMPLES 32

static EsTensor upload(EsDevice *device, EsStream *stream, EsDtype dtype, int rank,
                       const int64_t *dims, const void *values) {
    EsTensor tensor;
    REQUIRE_OK(es_device_create_tensor(device, dtype, rank, dims, &tensor));
    REQUIRE_OK(
        es_stream_copy(stream, tensor.data, values, es_tensor_bytes(&tensor), ES_COPY_TO_DEVICE));
    REQUIRE_OK(es_stream_synchronize(stream));
    return tensor;
}

// A host with one slot, whose seed is made of all the parts, on a small set of images.
typedef struct Training {
    EsGraph *graph;
    EsValueId input[6]; // images, answers, step, episode, alpha, mode
    EsValueId loss;
} Training;

static const int64_t image_dims[] = {N_SAMPLES, 3, 8, 8}, one = 1, n_envs = 2,
                     n_samples = N_SAMPLES;

static Training build_training(void) {
    Training t = {0};
    REQUIRE_OK(es_graph_create(n_envs, &t.graph));
    EsGraph *g = t.graph;
    EsValueId images = es_graph_shared_input(g, "images", ES_DTYPE_U8, 4, image_dims);
    EsValueId answers = es_graph_shared_input(g, "answers", ES_DTYPE_U16, 1, &n_samples);
    EsValueId step = es_graph_shared_input(g, "step", ES_DTYPE_I32, 1, &one);
    EsValueId episode = es_graph_input(g, "episode", ES_DTYPE_I32, 0, NULL);
    EsValueId alpha = es_graph_input(g, "alpha", ES_DTYPE_F32, 0, NULL);
    EsValueId mode = es_graph_input(g, "mode", ES_DTYPE_I32, 0, NULL);
    EsValueId index = es_graph_gather_order(g, (EsSampleOrder){1, N_SAMPLES, 1}, 16, episode, step);
    EsGatherOptions options = {.seed = 1, .mean = {0.5f, 0.5f, 0.5f}, .inv_std = {4, 4, 4}};
    EsValueId h = es_graph_gather_images(g, options, images, index, episode, step);
    h = es_graph_activation(g, ES_ACTIVATION_RELU, es_graph_conv2d(g, "stem", h, 6, 3, 0));
    EsValueId x = es_graph_seed_input(g, h, mode);
    EsValueId seed = es_graph_squeeze_excite(g, "seed", x);
    seed = es_graph_norm_mix(g, "seed", seed, es_graph_groupnorm(g, "norm", x, 2));
    h = es_graph_blend(g, h, seed, es_graph_gate(g, "gate", x), alpha, mode);
    EsValueId logits = es_graph_linear(g, "head", es_graph_pool(g, ES_POOL_GLOBAL, h), 4);
    t.loss = es_graph_cross_entropy(g, logits, es_graph_gather_labels(g, answers, index)).loss;
    memcpy(t.input, (EsValueId[]){images, answers, step, episode, alpha, mode}, sizeof t.input);
    REQUIRE_OK(es_graph_differentiate(g, t.loss));
    return t;
}

static void upload_inputs(EsDevice *device, EsStream *stream, EsTensor *bound) {
    unsigned char pixels[N_SAMPLES * 3 * 64];
    uint16_t labels[N_SAMPLES];
    for (int i = 0; i < N_SAMPLES * 3 * 64; i++) {
        pixels[i] = (unsigned char)(i * 37 % 251);
    }
    for (int i = 0; i < N_SAMPLES; i++) {
        labels[i] = (uint16_t)(i % 4);
    }
    const int32_t modes[] = {ES_BLEND_GATE, ES_BLEND_MULTIPLY};
    bound[0] = upload(device, stream, ES_DTYPE_U8, 4, image_dims, pixels);
    bound[1] = upload(device, stream, ES_DTYPE_U16, 1, &n_samples, labels);
    bound[2] = upload(device, stream, ES_DTYPE_I32, 1, &one, (int32_t[]){0});
    bound[3] = upload(device, stream, ES_DTYPE_I32, 1, &n_envs, (int32_t[]){0, 1});
    bound[4] = upload(device, stream, ES_DTYPE_F32, 1, &n_envs, (float[]){0.7f, 0.4f});
    bound[5] = upload(device, stream, ES_DTYPE_I32, 1, &n_envs, modes);
}

// The losses of a gated and a multiplied slot in the last of n_runs steps of SGD on one batch.
static void train_slots(const char *device_name, EsDtype precision, int n_runs, float *loss) {
    EsDevice *device = NULL;
    EsStream *stream = NULL;
    EsStore *store = NULL;
    EsOptimiser *optimiser = NULL;
    EsPlan *plan = NULL;
    EsTensor bound[6];
    Training t = build_training();
    REQUIRE_OK(es_device_open(device_name, NULL, &device));
    REQUIRE_OK(es_stream_create(device, &stream));
    REQUIRE_OK(es_store_create(t.graph, device, &store));
    REQUIRE_OK(es_store_initialise(store, t.graph, stream, 1, (int32_t[]){0, 1}));
    EsOptimiserOptions sgd = es_optimiser_defaults(ES_OPTIMISER_SGD);
    sgd.learning_rate = 0.1f;
    REQUIRE_OK(es_optimiser_create(t.graph, store, &sgd, &optimiser));
    EsPlanOptions options = es_plan_defaults();
    options.activation_dtype = precision;
    options.optimiser = optimiser;
    REQUIRE_OK(es_plan_create(t.graph, store, &options, &plan));
    upload_inputs(device, stream, bound);
    for (size_t i = 0; i < ES_COUNT_OF(bound); i++) {
        REQUIRE_OK(es_plan_bind(plan, t.input[i], &bound[i]));
    }
    for (int run = 0; run < n_runs; run++) {
        REQUIRE_OK(es_plan_run(plan, stream));
    }
    EsTensor losses = es_plan_tensor(plan, t.loss);
    REQUIRE_OK(es_stream_copy(stream, loss, losses.data, 2 * sizeof *loss, ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(stream));
    for (size_t i = 0; i < ES_COUNT_OF(bound); i++) {
        es_device_destroy_tensor(&bound[i]);
    }
    es_plan_destroy(plan);
    es_optimiser_destroy(optimiser);
    es_store_destroy(store);
    es_graph_destroy(t.graph);
    es_stream_destroy(stream);
    es_device_close(device);
}

TEST(slots_train) {
    float before[2], after[2];
    train_slots("cpu", ES_DTYPE_F32, 1, before);
    train_slots("cpu", ES_DTYPE_F32, 30, after);
    for (int e = 0; e < 2; e++) {
        EXPECT(after[e] < before[e] - 0.01f);
    }
}

// Alphas are F32 inputs in every precision.
TEST(slots_train_on_cuda_as_on_the_cpu) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    float cpu[2], single[2], half[2];
    // the third run is a captured one
    train_slots("cpu", ES_DTYPE_F32, 4, cpu);
    train_slots("cuda", ES_DTYPE_F32, 4, single);
    train_slots("cuda", ES_DTYPE_BF16, 4, half);
    for (int e = 0; e < 2; e++) {
        EXPECT_NEAR(single[e], cpu[e], 1e-4);
        EXPECT_NEAR(half[e], cpu[e], 0.02 * (double)cpu[e]);
    }
}
