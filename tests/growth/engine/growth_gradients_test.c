// Gradients of whole hosts with seeds against finite differences: every blueprint, style and stage,
// slots before and after a pool, two seeds at once; and that no seed is born dead nor walls
// anything off.
#include "es_test.h"

#include "growth/growing_host.h"

enum { N = 6, SLOTS = 4, R0C0 = 0, R0C1 = 1, R1C0 = 2, R1C1 = 3 };

static const EsBlendMode styles[] = {ES_BLEND_ADD, ES_BLEND_MULTIPLY, ES_BLEND_GATE};

// One seed in its slot.
typedef struct Planted {
    int slot;
    int blueprint;
    EsBlendMode mode;
    float alpha;
} Planted;

// A host with up to SLOTS seeds, as plain kernels and as the default plan on one store.
typedef struct Garden {
    Ground ground;
    Runner plain, fast;
    char what[256];
} Garden;

static void garden_begin(Garden *garden, const Planted *planted, int n_planted, int is_open) {
    EsTopology topology = es_topology_empty();
    size_t used = 0;
    for (int i = 0; i < n_planted; i++) {
        topology.blueprint[planted[i].slot] = (int8_t)planted[i].blueprint;
        topology.has_gate[planted[i].slot] = planted[i].mode == ES_BLEND_GATE;
    }
    ground_begin(&garden->ground, "all", (int32_t[]){5}, 1);
    runner_begin(&garden->plain, &garden->ground, &topology, N, 1, ES_COMPILE_OFF);
    runner_begin(&garden->fast, &garden->ground, &topology, N, 1, ES_COMPILE_DEFAULT);
    ground_initialise(&garden->ground, garden->plain.graph.graph);
    if (is_open) {
        ground_open_paths(&garden->ground, garden->plain.graph.graph);
    }
    for (int i = 0; i < n_planted; i++) {
        const Planted *seed = &planted[i];
        runner_set(&garden->plain, seed->slot, seed->mode, seed->alpha);
        runner_set(&garden->fast, seed->slot, seed->mode, seed->alpha);
        used += (size_t)snprintf(
            garden->what + used, sizeof garden->what - used, "[%s %s mode %d alpha %g]",
            garden->ground.model.slots[seed->slot].name,
            es_blueprint_name((EsBlueprint)seed->blueprint), (int)seed->mode, (double)seed->alpha);
    }
}

static void garden_end(Garden *garden) {
    runner_end(&garden->plain);
    runner_end(&garden->fast);
    ground_end(&garden->ground);
}

static float *copy_row(const EsTensor *slab) {
    float *copy = malloc((size_t)slab->dim[1] * sizeof(float));
    memcpy(copy, slab->data, (size_t)slab->dim[1] * sizeof(float));
    return copy;
}

static int slot_of(const Garden *garden, const EsValue *value) {
    const EsGrowthLayout *layout = &garden->ground.model.layout;
    for (int s = 0; s < SLOTS; s++) {
        if (value->slab_offset >= layout->region[s] && value->slab_offset < layout->region_end[s]) {
            return s;
        }
    }
    return -1;
}

// --- finite differences ---

// Differentiated scalar: the loss, or <d_y, s> for parameters of a seed that incubates.
typedef struct Scalar {
    EsValueId seed;   // ES_NO_VALUE: the loss
    const float *d_y; // of the slot's output
} Scalar;

static double evaluate(Garden *garden, const Scalar *scalar) {
    Runner *r = &garden->plain;
    runner_run(r);
    if (scalar->seed == ES_NO_VALUE) {
        return runner_exact_loss(r, 0);
    }
    const float *s = es_plan_tensor(r->plan, scalar->seed).data;
    double sum = 0;
    for (int64_t k = 0; k < es_value_count(&r->graph.graph->values[scalar->seed]); k++) {
        sum += (double)scalar->d_y[k] * (double)s[k];
    }
    return sum;
}

// The derivative along a direction, by central differences. p holds f32, so what was really added
// is measured: the slope is that along (high - low).
static double difference(Garden *garden, const Scalar *scalar, float *p, const double *direction,
                         int64_t count, double step, const float *gradient, double *predicted) {
    float before[1024];
    double moved[1024];
    memcpy(before, p, (size_t)count * sizeof(float));
    for (int64_t k = 0; k < count; k++) {
        p[k] = (float)((double)before[k] + step * direction[k]);
        moved[k] = (double)p[k];
    }
    double up = evaluate(garden, scalar);
    *predicted = 0;
    for (int64_t k = 0; k < count; k++) {
        p[k] = (float)((double)before[k] - step * direction[k]);
        moved[k] -= (double)p[k];
        *predicted += moved[k] * (double)gradient[k] / (2 * step);
    }
    double down = evaluate(garden, scalar);
    memcpy(p, before, (size_t)count * sizeof(float));
    return (up - down) / (2 * step);
}

// Both directions have norm 1: along the gradient, where every element counts by its size, and one
// of random signs, where every element counts alike.
//
// The bound: logits of size 1 are rounded to 6e-8 at a few dozen places, which leaves about 1e-7 of
// a mean over rows, so the quotient of the middle step is off by about 2.5e-4. ReLU and max-pooling
// have kinks, and one within the step costs up to half of what its element adds. Which lie there
// depends on the step, so that one of three lengths must agree to 2 percent of the gradient's norm;
// an error in the gradient shows in all.
static void check_tensor(Garden *garden, const EsValue *value, const Scalar *scalar,
                         const float *gradient, const char *engine) {
    static const double steps[] = {4e-4, 1e-4, 2e-3};
    int64_t count = es_value_count(value);
    const float *g = gradient + value->slab_offset;
    float *p = slab_row(&garden->ground.store->parameters, 0) + value->slab_offset;
    double direction[1024], norm = 0;
    ES_ASSERT(count <= 1024);
    for (int64_t k = 0; k < count; k++) {
        norm += (double)g[k] * (double)g[k];
    }
    norm = sqrt(norm);
    for (int way = 0; way < 2; way++) {
        double numeric[3], exact[3];
        int is_near = 0;
        for (int64_t k = 0; k < count; k++) {
            double sign = small_draw((uint32_t)(77 * value->slab_offset + k)) < 0 ? -1.0 : 1.0;
            direction[k] = way == 1     ? sign / sqrt((double)count)
                           : norm > 0.0 ? (double)g[k] / norm
                                        : 0.0;
        }
        for (int i = 0; i < 3 && !is_near; i++) {
            numeric[i] = difference(garden, scalar, p, direction, count, steps[i], g, &exact[i]);
            is_near = fabs(numeric[i] - exact[i]) <= 5e-4 + 2e-2 * norm;
        }
        if (!is_near) {
            ES_TEST_FAIL("%s %s %s, %s: gradient gives %.6g and %.6g, differences %.6g and %.6g",
                         garden->what, engine, value->name, way ? "random" : "along", exact[0],
                         exact[1], numeric[0], numeric[1]);
        }
    }
}

// Every parameter of the host and its seeds, in both engines; differences always come from the
// plain kernels, where logits can be read.
static void check_garden(const Planted *planted, int n_planted) {
    Garden garden;
    garden_begin(&garden, planted, n_planted, 1);
    const EsGraph *graph = garden.plain.graph.graph;
    runner_run(&garden.fast);
    float *fast = copy_row(&garden.ground.store->gradients);
    runner_run(&garden.plain);
    float *plain = copy_row(&garden.ground.store->gradients);
    Scalar scalars[SLOTS + 1]; // the loss last
    float *d_y[SLOTS] = {NULL};
    for (int i = 0; i <= SLOTS; i++) {
        scalars[i] = (Scalar){ES_NO_VALUE, NULL};
    }
    for (int n = 0; n < n_planted; n++) { // blends stand in running order
        const EsNode *blend = find_node(graph, ES_OP_BLEND_FORWARD, n);
        for (int i = 0; i < n_planted; i++) {
            if (planted[i].mode != ES_BLEND_INCUBATE ||
                blend->input[4] != garden.plain.graph.mode[planted[i].slot]) {
                continue;
            }
            EsTensor g =
                es_plan_tensor(garden.plain.plan, graph->values[blend->output[0]].gradient);
            d_y[n] = malloc(es_tensor_bytes(&g));
            memcpy(d_y[n], g.data, es_tensor_bytes(&g));
            scalars[planted[i].slot] = (Scalar){blend->input[1], d_y[n]};
        }
    }
    for (EsValueId v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        if (value->role == ES_ROLE_PARAMETER) {
            int s = slot_of(&garden, value);
            const Scalar *scalar = &scalars[s < 0 ? SLOTS : s];
            check_tensor(&garden, value, scalar, plain, "plain");
            check_tensor(&garden, value, scalar, fast, "default");
        }
    }
    for (int n = 0; n < SLOTS; n++) {
        free(d_y[n]);
    }
    free(plain);
    free(fast);
    garden_end(&garden);
}

TEST(blending_before_a_pool) {
    for (int b = 1; b < ES_BLUEPRINT_COUNT; b++) {
        for (size_t m = 0; m < ES_COUNT_OF(styles); m++) {
            check_garden(&(Planted){b % 2 ? R0C0 : R0C1, b, styles[m], 0.4f}, 1);
        }
    }
}

TEST(blending_after_a_pool) {
    for (int b = 1; b < ES_BLUEPRINT_COUNT; b++) {
        for (size_t m = 0; m < ES_COUNT_OF(styles); m++) {
            check_garden(&(Planted){b % 2 ? R1C1 : R1C0, b, styles[m], 0.7f}, 1);
        }
    }
}

// HOLDING and FOSSILIZED: alpha 1
TEST(holding_at_alpha_1) {
    for (int b = 1; b < ES_BLUEPRINT_COUNT; b++) {
        for (size_t m = 0; m < ES_COUNT_OF(styles); m++) {
            check_garden(&(Planted){(b + (int)m) % SLOTS, b, styles[m], 1.0f}, 1);
        }
    }
}

TEST(incubating) {
    for (int b = 1; b < ES_BLUEPRINT_COUNT; b++) {
        check_garden(&(Planted){b % SLOTS, b, ES_BLEND_INCUBATE, 0.0f}, 1);
        check_garden(&(Planted){(b + 2) % SLOTS, b, ES_BLEND_INCUBATE, 0.0f}, 1);
    }
}

// The other blueprint, the other style, the other stage, in every combination of places.
TEST(two_slots_at_once) {
    static const int places[][2] = {{R0C0, R1C0}, {R0C0, R0C1}, {R1C0, R1C1}, {R0C1, R1C1}};
    for (int b = 1; b < ES_BLUEPRINT_COUNT; b++) {
        const int *place = places[b % 4];
        int other = b % (ES_BLUEPRINT_COUNT - 1) + 1;
        check_garden((Planted[]){{place[0], b, styles[b % 3], 0.6f},
                                 {place[1], other, styles[(b + 1) % 3], 1.0f}},
                     2);
        check_garden((Planted[]){{place[0], b, ES_BLEND_INCUBATE, 0.0f},
                                 {place[1], other, styles[b % 3], 0.8f}},
                     2);
        check_garden((Planted[]){{place[0], b, styles[(b + 2) % 3], 0.3f},
                                 {place[1], other, ES_BLEND_INCUBATE, 0.0f}},
                     2);
    }
}

// --- life ---

static float *copy_tensor(const Runner *r, EsValueId value) {
    EsTensor tensor = es_plan_tensor(r->plan, value);
    float *copy = malloc(es_tensor_bytes(&tensor));
    memcpy(copy, tensor.data, es_tensor_bytes(&tensor));
    return copy;
}

static float largest_change(const Runner *r, EsValueId value, const float *before) {
    EsTensor tensor = es_plan_tensor(r->plan, value);
    float largest = 0.0f;
    for (int64_t k = 0; k < es_tensor_count(&tensor); k++) {
        largest = fmaxf(largest, fabsf(((const float *)tensor.data)[k] - before[k]));
    }
    return largest;
}

// One step of SGD on the slot's parameters alone, from birth, at a rate that moves them by at most
// 0.05; then the same batch again. A dead branch would leave every bit as it was. The bound is far
// above the rounding of values near 1; a factor of attention moves by 2e-3.
static void check_first_step(int blueprint, EsBlendMode mode, int slot, int is_fast) {
    Garden garden;
    garden_begin(&garden, &(Planted){slot, blueprint, mode, 0.5f}, 1, 0);
    const EsGrowthLayout *layout = &garden.ground.model.layout;
    const EsNode *blend = find_node(garden.plain.graph.graph, ES_OP_BLEND_FORWARD, 0);
    float *gradient = slab_row(&garden.ground.store->gradients, 0), largest = 0.0f;
    float *parameter = slab_row(&garden.ground.store->parameters, 0);
    runner_run(&garden.plain);
    float *s = copy_tensor(&garden.plain, blend->input[1]);
    float *y = copy_tensor(&garden.plain, blend->output[0]);
    double loss = runner_exact_loss(&garden.plain, 0);
    runner_run(is_fast ? &garden.fast : &garden.plain);
    for (int64_t k = layout->region[slot]; k < layout->region_end[slot]; k++) {
        largest = fmaxf(largest, fabsf(gradient[k]));
    }
    for (int64_t k = layout->region[slot]; k < layout->region_end[slot]; k++) {
        parameter[k] -= 0.05f / largest * gradient[k];
    }
    runner_run(&garden.plain);
    float s_change = largest_change(&garden.plain, blend->input[1], s);
    float y_change = largest_change(&garden.plain, blend->output[0], y);
    double loss_change = fabs(runner_exact_loss(&garden.plain, 0) - loss);
    int is_mixed = mode != ES_BLEND_INCUBATE;
    if (!(s_change > 1e-4f) ||
        !(is_mixed ? y_change > 1e-5f && loss_change > 0 : y_change == 0 && loss_change == 0)) {
        ES_TEST_FAIL("%s: the seed moves by %g, y by %g, the loss by %g", garden.what,
                     (double)s_change, (double)y_change, loss_change);
    }
    free(s);
    free(y);
    garden_end(&garden);
}

TEST(one_step_of_sgd_changes_the_output) {
    for (int b = 1; b < ES_BLUEPRINT_COUNT; b++) {
        for (int slot = 0; slot < SLOTS; slot++) {
            for (int is_fast = 0; is_fast < 2; is_fast++) {
                check_first_step(b, ES_BLEND_INCUBATE, slot, is_fast);
                for (size_t m = 0; m < ES_COUNT_OF(styles); m++) {
                    check_first_step(b, styles[m], slot, is_fast);
                }
            }
        }
    }
}

static double tensor_norm(const Garden *garden, const EsValue *value) {
    const float *g = slab_row(&garden->ground.store->gradients, 0) + value->slab_offset;
    double sum = 0;
    for (int64_t k = 0; k < es_value_count(value); k++) {
        sum += (double)g[k] * (double)g[k];
    }
    return sqrt(sum);
}

// A fossil in the last slot at alpha 1, seeds of every stage before it: every parameter upstream
// still has a gradient. Averages after a ReLU are positive, so an attention whose first layer is
// too has an open ReLU.
static void check_upstream(int fossil, EsBlendMode style, int other) {
    Garden garden;
    const Planted planted[] = {{R0C0, other, ES_BLEND_INCUBATE, 0.0f},
                               {R1C0, other, style, 0.5f},
                               {R0C1, fossil, ES_BLEND_ADD, 1.0f},
                               {R1C1, fossil, style, 1.0f}};
    garden_begin(&garden, planted, (int)ES_COUNT_OF(planted), 1);
    const EsGraph *graph = garden.plain.graph.graph;
    for (EsValueId v = 0; v < graph->n_values; v++) {
        float *p = slab_row(&garden.ground.store->parameters, 0) + graph->values[v].slab_offset;
        int is_squeeze = strstr(graph->values[v].name, ".squeeze.") != NULL;
        for (int64_t k = 0; is_squeeze && k < es_value_count(&graph->values[v]); k++) {
            p[k] = fabsf(p[k]);
        }
    }
    for (int is_fast = 0; is_fast < 2; is_fast++) {
        runner_run(is_fast ? &garden.fast : &garden.plain);
        for (EsValueId v = 0; v < graph->n_values; v++) {
            const EsValue *value = &graph->values[v];
            // a wall gives exactly 0; what is smallest here comes near 1e-6 through four norms
            if (value->role == ES_ROLE_PARAMETER && !(tensor_norm(&garden, value) > 1e-7)) {
                ES_TEST_FAIL("%s: the gradient of %s is %g", garden.what, value->name,
                             tensor_norm(&garden, value));
            }
        }
    }
    garden_end(&garden);
}

TEST(a_fossil_downstream_walls_nothing_off) {
    for (int b = 1; b < ES_BLUEPRINT_COUNT; b++) {
        for (size_t m = 0; m < ES_COUNT_OF(styles); m++) {
            check_upstream(b, styles[m], b % (ES_BLUEPRINT_COUNT - 1) + 1);
        }
    }
}
