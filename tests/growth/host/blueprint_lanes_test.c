// Blueprints on the vector engine against the plain kernels: every blueprint under every way of
// blending (one per environment), at both places of a slot, for 1 to 128 channels, odd maps and
// single pixels, batches that leave lanes empty; training with all gradients, and evaluation.
//
// No bound holds for every graph. Where two pixels of a pooling window are equal but for rounding
// (a ReLU has cut everything that both are computed from, or chance), or a ReLU's input is 0 but
// for rounding, Winograd's tiles and the plain kernels decide otherwise, and the gradient takes the
// way of another pixel: one graph in some hundreds, another one on another machine. A case that
// misses the bound is therefore drawn again, with other weights and images of the same shape, and
// both new draws must hold it; a test in which more than MAX_REDRAWN cases miss it fails. Outputs
// alone do not jump: evaluation has no such cases.
#include "es_test.h"

#include "base/random_rules.h"
#include "growth/host/blueprint.h"
#include "network/plan/plan.h"

#define N_MODES     5 // environment e blends by mode e
#define MAX_SLOTS   3
#define N_RANDOM    60
#define MAX_VALUES  4000000
#define BOUND       3e-4 // as in lane_program_test.c
#define ALL_THREADS 6    // more than environments: the groups of a host are shared out
#define N_REDRAWS   2
#define MAX_REDRAWN 2 // of 30 to 286 cases of training in a test; of evaluation none

typedef struct Draw {
    uint32_t seed, count;
} Draw;

static int below(Draw *d, int n) {
    EsRandom4 r = es_random_draw(d->seed, 0, ES_PURPOSE_EVALUATION, 0, d->count++);
    return (int)es_random_below(r.word[0], (uint32_t)n);
}

static float uniform(Draw *d) {
    EsRandom4 r = es_random_draw(d->seed, 1, ES_PURPOSE_EVALUATION, 0, d->count++);
    return 2.0f * es_random_uniform(r.word[1]) - 1.0f;
}

// A network to build: two blocks of convolution, batch norm, ReLU and pooling, with up to three
// slots.
typedef struct Case {
    uint32_t seed;
    int64_t n_images, size, n_channels;
    int n_slots;
    EsBlueprint blueprint[MAX_SLOTS];
    int place[MAX_SLOTS];    // 2 block + (0: before the pool, 1: behind it)
    int has_gate[MAX_SLOTS]; // gate mode without a gate is ADD
    int is_training;
} Case;

typedef struct Slots {
    EsValueId alpha[MAX_SLOTS], mode[MAX_SLOTS];
} Slots;

static EsValueId add_slots(EsGraph *graph, const Case *c, int place, const Slots *slots,
                           EsValueId h) {
    for (int i = 0; i < c->n_slots; i++) {
        if (c->place[i] != place) {
            continue;
        }
        char name[32], gate_name[32];
        snprintf(name, sizeof name, "slot%d", i);
        snprintf(gate_name, sizeof gate_name, "gate%d", i);
        EsValueId x = es_graph_seed_input(graph, h, slots->mode[i]);
        EsValueId seed = es_blueprint_build(graph, c->blueprint[i], name, x);
        EsValueId gate = c->has_gate[i] ? es_graph_gate(graph, gate_name, x) : ES_NO_VALUE;
        h = es_graph_blend(graph, h, seed, gate, slots->alpha[i], slots->mode[i]);
        es_graph_keep(graph, h);
    }
    return h;
}

static EsValueId build_network(EsGraph *graph, const Case *c, EsValueId x, const Slots *slots) {
    for (int block = 0; block < 2; block++) {
        char name[32];
        snprintf(name, sizeof name, "block%d", block);
        x = es_graph_conv2d(graph, name, x, c->n_channels, 3, 0);
        x = es_graph_batchnorm(graph, name, x, c->is_training);
        x = es_graph_activation(graph, ES_ACTIVATION_RELU, x);
        x = add_slots(graph, c, 2 * block, slots, x);
        if (graph->status == ES_STATUS_OK && graph->values[x].dim[3] >= 2) {
            x = es_graph_pool(graph, ES_POOL_MAX2, x);
        }
        x = add_slots(graph, c, 2 * block + 1, slots, x);
    }
    return es_graph_linear(graph, "head", es_graph_pool(graph, ES_POOL_GLOBAL, x), 3);
}

typedef struct Outcome {
    int64_t n_values;
    float *values; // owned: losses, gradients, states, outputs of slots
    int uses_lanes;
    char fallback[256];
} Outcome;

static void take_values(Outcome *outcome, const EsTensor *tensor) {
    int64_t count = es_tensor_count(tensor);
    ES_ASSERT(outcome->n_values + count <= MAX_VALUES);
    memcpy(outcome->values + outcome->n_values, tensor->data, es_tensor_bytes(tensor));
    outcome->n_values += count;
}

// Parameters that start at a constant are moved, so that no branch is silent.
static void move_parameters(EsStore *store, const EsGraph *graph, Draw *d) {
    for (int v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        EsTensor parameter =
            value->role == ES_ROLE_PARAMETER ? es_store_tensor(store, graph, v) : (EsTensor){0};
        for (int64_t e = 0; e < N_MODES && parameter.data != NULL && value->bound == 0.0f; e++) {
            for (int64_t k = 0; k < es_value_count(value); k++) {
                ((float *)parameter.data)[e * parameter.stride[0] + k] += uniform(d);
            }
        }
    }
}

// Random memory for every input; modes by environment, alphas with both ends among them.
static void bind_inputs(EsPlan *plan, const EsGraph *graph, EsDevice *device, Draw *d,
                        EsTensor *tensors) {
    for (int v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        if (value->role != ES_ROLE_INPUT) {
            continue;
        }
        REQUIRE_OK(
            es_device_create_tensor(device, value->dtype, value->rank, value->dim, &tensors[v]));
        int is_mode = strncmp(value->name, "mode", 4) == 0;
        int is_alpha = strncmp(value->name, "alpha", 5) == 0;
        for (int64_t i = 0; i < es_tensor_count(&tensors[v]); i++) {
            if (value->dtype == ES_DTYPE_I32) {
                ((int32_t *)tensors[v].data)[i] = is_mode ? (int32_t)i : below(d, 3);
            } else {
                int kind = below(d, 6);
                float any = uniform(d);
                ((float *)tensors[v].data)[i] = !is_alpha   ? any
                                                : kind == 0 ? 0.0f
                                                : kind == 1 ? 1.0f
                                                            : 0.5f + 0.5f * any;
            }
        }
        REQUIRE_OK(es_plan_bind(plan, v, &tensors[v]));
    }
}

static void run_case(const Case *c, EsCompileMode mode, int n_threads, int n_lanes,
                     Outcome *outcome) {
    Draw d = {c->seed, 0};
    EsDevice *device = NULL;
    EsStream *stream = NULL;
    EsGraph *graph = NULL;
    EsStore *store = NULL;
    EsPlan *plan = NULL;
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = n_threads, .n_lanes = n_lanes},
                              &device));
    REQUIRE_OK(es_stream_create(device, &stream));
    REQUIRE_OK(es_graph_create(N_MODES, &graph));
    EsValueId x =
        es_graph_input(graph, "x", ES_DTYPE_F32, 4, (int64_t[]){c->n_images, 2, c->size, c->size});
    EsValueId labels = es_graph_input(graph, "labels", ES_DTYPE_I32, 1, &c->n_images);
    Slots slots;
    for (int i = 0; i < c->n_slots; i++) {
        char name[32];
        snprintf(name, sizeof name, "alpha%d", i);
        slots.alpha[i] = es_graph_input(graph, name, ES_DTYPE_F32, 0, NULL);
        snprintf(name, sizeof name, "mode%d", i);
        slots.mode[i] = es_graph_input(graph, name, ES_DTYPE_I32, 0, NULL);
    }
    EsLoss loss = es_graph_cross_entropy(graph, build_network(graph, c, x, &slots), labels);
    REQUIRE_OK(es_graph_status(graph));
    if (c->is_training) {
        REQUIRE_OK(es_graph_differentiate(graph, loss.loss));
    }
    REQUIRE_OK(es_store_create(graph, device, &store));
    REQUIRE_OK(es_store_initialise(store, graph, stream, c->seed, (int32_t[]){0, 1, 2, 3, 4}));
    move_parameters(store, graph, &d);
    EsPlanOptions options = es_plan_defaults();
    options.mode = mode;
    REQUIRE_OK(es_plan_create(graph, store, &options, &plan));
    EsTensor *tensors = calloc((size_t)graph->n_values, sizeof *tensors);
    ES_ASSERT(tensors != NULL);
    bind_inputs(plan, graph, device, &d, tensors);
    REQUIRE_OK(es_plan_run(plan, stream));
    outcome->n_values = 0;
    EsTensor losses = es_plan_tensor(plan, loss.loss);
    take_values(outcome, &losses);
    take_values(outcome, &store->gradients);
    take_values(outcome, &store->states);
    for (int v = 0; v < graph->n_values; v++) {
        if (graph->values[v].role == ES_ROLE_RESULT && graph->values[v].rank == 5) {
            EsTensor kept = es_plan_tensor(plan, v);
            take_values(outcome, &kept);
        }
        es_device_destroy_tensor(&tensors[v]);
    }
    EsPlanReport report = es_plan_report(plan);
    outcome->uses_lanes = report.uses_lanes;
    snprintf(outcome->fallback, sizeof outcome->fallback, "%s", report.fallback);
    free(tensors);
    es_plan_destroy(plan);
    es_store_destroy(store);
    es_graph_destroy(graph);
    es_stream_destroy(stream);
    es_device_close(device);
}

typedef struct Compared {
    Outcome plain, lanes, other;
    double worst;  // distance over the largest value of its graph, of cases within the bound
    int n_redrawn; // cases that missed it
} Compared;

static void compared_open(Compared *m) {
    *m = (Compared){0};
    Outcome *const all[] = {&m->plain, &m->lanes, &m->other};
    for (size_t i = 0; i < ES_COUNT_OF(all); i++) {
        all[i]->values = malloc(MAX_VALUES * sizeof(float));
        ES_ASSERT(all[i]->values != NULL);
    }
}

static void compared_close(Compared *m, int max_redrawn) {
    printf("worst distance %.3g of the largest value; %d cases drawn again\n", m->worst,
           m->n_redrawn);
    EXPECT(m->n_redrawn <= max_redrawn);
    free(m->plain.values);
    free(m->lanes.values);
    free(m->other.values);
}

// Returns the largest distance between plain and lanes over the largest value of plain.
static double measure_distance(const Outcome *plain, const Outcome *lanes) {
    double largest = 1.0, distance = 0.0;
    for (int64_t i = 0; i < plain->n_values; i++) {
        largest = fmax(largest, fabs((double)plain->values[i]));
        distance = fmax(distance, fabs((double)plain->values[i] - (double)lanes->values[i]));
        if (isnan(plain->values[i]) || isnan(lanes->values[i])) {
            return INFINITY;
        }
    }
    return distance / largest;
}

// Runs the case by the plain kernels and on n_lanes lanes; returns their distance.
static double run_both(Compared *m, const Case *c, int n_lanes) {
    run_case(c, ES_COMPILE_OFF, 1, 4, &m->plain);
    run_case(c, ES_COMPILE_DEFAULT, 1, n_lanes, &m->lanes);
    EXPECT_EQ(m->plain.n_values, m->lanes.n_values);
    if (!m->lanes.uses_lanes) {
        ES_TEST_FAIL("case %u: no lanes: %s", c->seed, m->lanes.fallback);
    }
    return measure_distance(&m->plain, &m->lanes);
}

// Expects plain kernels and lanes near each other, for this draw of the case or for others. Leaves
// this draw's outcome in m->lanes.
static void expect_near(Compared *m, const Case *c, int n_lanes) {
    double distance = run_both(m, c, n_lanes);
    if (distance <= BOUND) {
        m->worst = fmax(m->worst, distance);
        return;
    }
    printf("case %u misses the bound by %.3g of the largest value\n", c->seed, distance);
    m->n_redrawn++;
    for (uint32_t k = 1; k <= N_REDRAWS; k++) {
        Case again = *c;
        again.seed = c->seed + 100000 * k;
        distance = run_both(m, &again, n_lanes);
        if (!(distance <= BOUND)) {
            ES_TEST_FAIL("case %u: %lld channels, %lld images of %lld, %s: off by %.3g", again.seed,
                         (long long)c->n_channels, (long long)c->n_images, (long long)c->size,
                         es_blueprint_name(c->blueprint[0]), distance);
        }
    }
    run_case(c, ES_COMPILE_DEFAULT, 1, n_lanes, &m->lanes);
}

// Plain kernels against the widest engine on one thread; 2 and ALL_THREADS give the same bits.
static void compare_case(Compared *m, const Case *c) {
    expect_near(m, c, 0);
    for (int n_threads = 2; n_threads <= ALL_THREADS; n_threads += ALL_THREADS - 2) {
        run_case(c, ES_COMPILE_DEFAULT, n_threads, 0, &m->other);
        EXPECT(m->lanes.n_values == m->other.n_values &&
               memcmp(m->lanes.values, m->other.values,
                      (size_t)m->lanes.n_values * sizeof(float)) == 0);
    }
}

TEST(every_blueprint_at_every_width) {
    static const int64_t channels[] = {1, 2, 3, 5, 8, 16, 31, 32, 48, 64, 128};
    static const int64_t sizes[] = {1, 3, 4, 7, 8}, batches[] = {5, 17, 33, 16, 9};
    Compared m;
    compared_open(&m);
    uint32_t seed = 1;
    for (size_t i = 0; i < ES_COUNT_OF(channels); i++) {
        for (int blueprint = 0; blueprint < ES_BLUEPRINT_COUNT; blueprint++) {
            for (int place = 1; place <= 2; place++, seed++) {
                int is_large = channels[i] >= 48;
                Case c = {.seed = seed,
                          .n_images = is_large ? 9 : batches[seed % 5],
                          .size = is_large ? 4 : sizes[(seed / 2) % 5],
                          .n_channels = channels[i],
                          .n_slots = 1,
                          .blueprint = {(EsBlueprint)blueprint},
                          .place = {place},
                          .has_gate = {1},
                          .is_training = 1};
                compare_case(&m, &c);
            }
        }
    }
    compared_close(&m, MAX_REDRAWN);
}

// Those of dense hosts, most often on the single pixel of a row.
TEST(layers_at_every_width) {
    static const EsBlueprint blueprints[] = {ES_BLUEPRINT_NORM, ES_BLUEPRINT_MLP_SMALL,
                                             ES_BLUEPRINT_MLP};
    static const int64_t channels[] = {1, 3, 8, 17, 32, 64, 128}, sizes[] = {1, 1, 4};
    Compared m;
    compared_open(&m);
    uint32_t seed = 4001;
    for (size_t i = 0; i < ES_COUNT_OF(channels); i++) {
        for (size_t b = 0; b < ES_COUNT_OF(blueprints); b++, seed++) {
            Case c = {.seed = seed,
                      .n_images = seed % 2 ? 9 : 33,
                      .size = channels[i] >= 64 ? 1 : sizes[(seed + i) % 3],
                      .n_channels = channels[i],
                      .n_slots = 2,
                      .blueprint = {blueprints[b], blueprints[(b + 1) % 3]},
                      .place = {0, 2},
                      .has_gate = {1, 1},
                      .is_training = 1};
            compare_case(&m, &c);
        }
    }
    compared_close(&m, MAX_REDRAWN);
}

static Case random_case(uint32_t seed, int is_training) {
    static const int64_t channels[] = {1, 2, 3, 4, 5, 6, 8, 9};
    static const int64_t sizes[] = {1, 2, 3, 5, 6, 8, 9, 12}, batches[] = {5, 8, 15, 17, 33, 40};
    Draw d = {seed, 1000};
    Case c = {.seed = seed,
              .n_images = batches[below(&d, 6)],
              .size = sizes[below(&d, 8)],
              .n_channels = channels[below(&d, 8)],
              .n_slots = 1 + below(&d, MAX_SLOTS),
              .is_training = is_training};
    for (int i = 0; i < c.n_slots; i++) {
        c.blueprint[i] = (EsBlueprint)below(&d, ES_BLUEPRINT_COUNT);
        c.place[i] = below(&d, 4);
        c.has_gate[i] = below(&d, 3) > 0;
    }
    return c;
}

TEST(slots_together) {
    Compared m;
    compared_open(&m);
    for (uint32_t seed = 1001; seed < 1001 + N_RANDOM; seed++) {
        Case c = random_case(seed, 1);
        compare_case(&m, &c);
    }
    compared_close(&m, MAX_REDRAWN);
}

TEST(evaluation) {
    Compared m;
    compared_open(&m);
    for (uint32_t seed = 2001; seed < 2001 + N_RANDOM; seed++) {
        Case c = random_case(seed, 0);
        compare_case(&m, &c);
    }
    compared_close(&m, 0);
}

TEST(narrower_vectors) {
    Compared m;
    compared_open(&m);
    EsDevice *device = NULL;
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &device));
    int widest = es_device_info(device)->n_lanes;
    es_device_close(device);
    for (uint32_t seed = 3001; seed < 3001 + N_RANDOM / 2; seed++) {
        Case c = random_case(seed, 1);
        for (int n_lanes = 4; n_lanes < widest; n_lanes *= 2) {
            expect_near(&m, &c, n_lanes);
        }
    }
    compared_close(&m, MAX_REDRAWN);
}
