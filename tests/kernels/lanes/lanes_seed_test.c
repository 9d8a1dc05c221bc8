// The operations of seeds on the vector engine against double loops, for every vector width this
// machine can run. Lanes without an image carry values but no gradient.
#include "lanes_case.h"

#include "kernels/lanes/lanes.h"
#include "kernels/ops/blend_rules.h"

#define BOUND 5e-6 // as in lanes_test.c

typedef struct Shape {
    int channels, height, width, n_groups;
} Shape;

static const Shape shapes[] = {{1, 1, 1, 1}, {3, 2, 2, 1},  {4, 5, 7, 2},   {2, 1, 3, 1},
                               {6, 4, 4, 3}, {32, 3, 3, 2}, {8, 16, 16, 1}, {1, 32, 32, 1}};

#define MAX_CHANNELS 32

// Maps of one operation, released together.
typedef struct Maps {
    const EsLaneKernels *kernels;
    const EsLaneSeedKernels *seeds;
    Shape shape;
    int n_valid;
    Map x, s, d_y, d_x, d_s, y; // d_x, d_s and y have a border to keep clean
    Map w, d_w, mean, inv_std;  // one pixel
} Maps;

static Maps maps_make(const EsLaneKernels *kernels, Shape shape, int n_valid) {
    Maps m = {.kernels = kernels, .seeds = kernels->seeds, .shape = shape, .n_valid = n_valid};
    Map *const full[] = {&m.x, &m.s, &m.d_y, &m.d_x, &m.d_s, &m.y};
    Map *const pixel[] = {&m.w, &m.d_w, &m.mean, &m.inv_std};
    for (size_t i = 0; i < ES_COUNT_OF(full); i++) {
        *full[i] = make_map(kernels->n_lanes, shape.channels, shape.height, shape.width, 1);
    }
    for (size_t i = 0; i < ES_COUNT_OF(pixel); i++) {
        *pixel[i] = make_map(kernels->n_lanes, shape.channels, 1, 1, 0);
    }
    fill_map(&m.x, 0.7, 1.0);
    fill_map(&m.s, 0.2, 1.0);
    fill_map(&m.w, 0.0, 1.0);
    fill_map(&m.d_y, 0.0, 1.0);
    FOR_EACH_ELEMENT(&m.d_y) { *at(&m.d_y, c, r, k, lane) *= lane < n_valid ? 1.0f : 0.0f; }
    return m;
}

static void maps_release(Maps *m) {
    Map *const all[] = {&m->x, &m->s, &m->d_y, &m->d_x,  &m->d_s,
                        &m->y, &m->w, &m->d_w, &m->mean, &m->inv_std};
    for (size_t i = 0; i < ES_COUNT_OF(all); i++) {
        es_release(all[i]->memory);
    }
}

static double value(const Map *m, int c, int r, int k, int lane) {
    return (double)*at(m, c, r, k, lane);
}

// 0 outside, as the border is
static double padded(const Map *m, int c, int r, int k, int lane) {
    int is_inside = r >= 0 && r < m->map.height && k >= 0 && k < m->map.width;
    return is_inside ? value(m, c, r, k, lane) : 0.0;
}

// Sums of two runs over the same group: = first, then +=.
static void expect_sums(const Maps *m, const float *accumulator, int count, const double *exact,
                        double size, const char *what) {
    double totals[MAX_CHANNELS * 9];
    m->kernels->lane_totals(accumulator, 0, 1, count, totals);
    for (int i = 0; i < count; i++) {
        if (!(fabs(totals[i] - 2.0 * exact[i]) <= 2e-6 * (size + 1e-30))) {
            ES_TEST_FAIL("%s: sum %d is %.9g, expected %.9g", what, i, totals[i], 2.0 * exact[i]);
        }
    }
}

static void check_groupnorm(Maps *m, int has_residual) {
    int n_channels = m->shape.channels / m->shape.n_groups, lanes = m->kernels->n_lanes;
    int area = m->shape.height * m->shape.width;
    float gamma[MAX_CHANNELS], beta[MAX_CHANNELS];
    for (int c = 0; c < m->shape.channels; c++) {
        gamma[c] = normal(0.0, 1.0);
        beta[c] = normal(0.0, 1.0);
    }
    EsLaneGroupNorm norm = {m->shape.n_groups, 1e-5f, gamma, beta};
    float *sums = aligned_floats((size_t)m->shape.channels * (size_t)lanes * 2);
    EsLaneMap none = {0};
    m->seeds->groupnorm_forward(&norm, &m->x.map, has_residual ? &m->s.map : &none, &m->mean.map,
                                &m->inv_std.map, &m->y.map);
    for (int again = 0; again < 2; again++) {
        m->seeds->groupnorm_backward(&norm, &m->x.map, &m->mean.map, &m->inv_std.map, &m->d_y.map,
                                     &m->d_x.map, again == 0, sums);
    }
    double mean[MAX_CHANNELS][MAX_LANES] = {{0}}, variance[MAX_CHANNELS][MAX_LANES] = {{0}};
    double average[MAX_CHANNELS][MAX_LANES] = {{0}}, tilt[MAX_CHANNELS][MAX_LANES] = {{0}};
    double count = (double)(n_channels * area), exact[2 * MAX_CHANNELS] = {0}, size = 0.0;
    FOR_EACH_ELEMENT(&m->x) { mean[c / n_channels][lane] += value(&m->x, c, r, k, lane) / count; }
    FOR_EACH_ELEMENT(&m->x) {
        double v = value(&m->x, c, r, k, lane) - mean[c / n_channels][lane];
        variance[c / n_channels][lane] += v * v / count;
    }
    Distance forward = {0}, backward = {0};
    FOR_EACH_ELEMENT(&m->x) {
        int g = c / n_channels;
        double xhat =
            (value(&m->x, c, r, k, lane) - mean[g][lane]) / sqrt(variance[g][lane] + 1e-5);
        double d = value(&m->d_y, c, r, k, lane);
        double residual = has_residual ? value(&m->s, c, r, k, lane) : 0.0;
        add_distance(&forward, value(&m->y, c, r, k, lane),
                     xhat * (double)gamma[c] + (double)beta[c] + residual);
        average[g][lane] += d * (double)gamma[c] / count;
        tilt[g][lane] += d * (double)gamma[c] * xhat / count;
        exact[2 * c] += d;
        exact[2 * c + 1] += d * xhat;
        size += fabs(d) + fabs(d * xhat);
    }
    FOR_EACH_ELEMENT(&m->x) {
        int g = c / n_channels;
        double inv = 1.0 / sqrt(variance[g][lane] + 1e-5);
        double xhat = (value(&m->x, c, r, k, lane) - mean[g][lane]) * inv;
        double d = value(&m->d_y, c, r, k, lane) * (double)gamma[c];
        add_distance(&backward, value(&m->d_x, c, r, k, lane),
                     inv * (d - average[g][lane] - xhat * tilt[g][lane]));
    }
    // one value is its own mean: its gradient is what rounding leaves of 0, times 1/sqrt(epsilon)
    expect_close(forward, BOUND, "groupnorm");
    if (n_channels * area > 1) {
        expect_close(backward, BOUND, "groupnorm_input");
    }
    expect_sums(m, sums, 2 * m->shape.channels, exact, size, "groupnorm_input");
    expect_clean_border(&m->y, "groupnorm");
    expect_clean_border(&m->d_x, "groupnorm_input");
    es_release(sums);
}

static void check_depthwise(Maps *m) {
    int lanes = m->kernels->n_lanes;
    float weight[MAX_CHANNELS * 9];
    for (int i = 0; i < 9 * m->shape.channels; i++) {
        weight[i] = normal(0.0, 1.0);
    }
    float *sums = aligned_floats((size_t)m->shape.channels * (size_t)lanes * 9);
    m->seeds->depthwise_forward(&m->x.map, weight, 0, &m->y.map);
    m->seeds->depthwise_forward(&m->d_y.map, weight, 1, &m->d_x.map);
    m->seeds->depthwise_backward_weight(&m->x.map, &m->d_y.map, 1, sums);
    m->seeds->depthwise_backward_weight(&m->x.map, &m->d_y.map, 0, sums);
    double exact[9 * MAX_CHANNELS] = {0}, size = 0.0;
    Distance forward = {0}, backward = {0};
    FOR_EACH_ELEMENT(&m->x) {
        double y = 0.0, d_x = 0.0, d = value(&m->d_y, c, r, k, lane);
        for (int t = 0; t < 9; t++) {
            double w = (double)weight[9 * c + t];
            double x = padded(&m->x, c, r + t / 3 - 1, k + t % 3 - 1, lane);
            y += w * x;
            d_x += w * padded(&m->d_y, c, r - t / 3 + 1, k - t % 3 + 1, lane);
            exact[9 * c + t] += d * x;
            size += fabs(d * x);
        }
        add_distance(&forward, value(&m->y, c, r, k, lane), y);
        add_distance(&backward, value(&m->d_x, c, r, k, lane), d_x);
    }
    expect_close(forward, BOUND, "depthwise");
    expect_close(backward, BOUND, "depthwise, flipped");
    expect_sums(m, sums, 9 * m->shape.channels, exact, size, "depthwise_weight");
    expect_clean_border(&m->y, "depthwise");
    es_release(sums);
}

static void check_scale_and_mix(Maps *m) {
    const float t = -0.6f;
    float *sums = aligned_floats((size_t)m->kernels->n_lanes);
    Distance forward = {0}, backward = {0}, weight = {0};
    double exact_weight[MAX_CHANNELS][MAX_LANES] = {{0}}, exact = 0.0, size = 0.0;
    m->seeds->channel_scale_forward(&m->x.map, &m->w.map, &m->y.map);
    m->seeds->channel_scale_backward(&m->x.map, &m->w.map, &m->d_y.map, &m->d_x.map, &m->d_w.map);
    FOR_EACH_ELEMENT(&m->x) {
        double x = value(&m->x, c, r, k, lane), d = value(&m->d_y, c, r, k, lane);
        double w = value(&m->w, c, 0, 0, lane);
        add_distance(&forward, value(&m->y, c, r, k, lane), x * w);
        add_distance(&backward, value(&m->d_x, c, r, k, lane), d * w);
        exact_weight[c][lane] += d * x;
    }
    FOR_EACH_ELEMENT(&m->d_w) {
        add_distance(&weight, value(&m->d_w, c, r, k, lane), exact_weight[c][lane]);
    }
    expect_close(forward, BOUND, "channel_scale");
    expect_close(backward, BOUND, "channel_scale_input");
    expect_close(weight, BOUND, "channel_scale_input, factors");

    Distance mixed = {0}, of_x = {0}, of_s = {0};
    m->seeds->norm_mix_forward(&m->x.map, &m->s.map, t, &m->y.map);
    for (int again = 0; again < 2; again++) {
        m->seeds->norm_mix_backward(&m->x.map, &m->s.map, t, &m->d_y.map, &m->d_x.map, &m->d_s.map,
                                    again == 0, sums);
    }
    FOR_EACH_ELEMENT(&m->x) {
        double x = value(&m->x, c, r, k, lane), d = value(&m->d_y, c, r, k, lane);
        double n = value(&m->s, c, r, k, lane);
        add_distance(&mixed, value(&m->y, c, r, k, lane), x + (double)t * (n - x));
        add_distance(&of_x, value(&m->d_x, c, r, k, lane), d * (1.0 - (double)t));
        add_distance(&of_s, value(&m->d_s, c, r, k, lane), d * (double)t);
        exact += d * (n - x);
        size += fabs(d * (n - x));
    }
    expect_close(mixed, BOUND, "norm_mix");
    expect_close(of_x, BOUND, "norm_mix_input");
    expect_close(of_s, BOUND, "norm_mix_input, normalised");
    expect_sums(m, sums, 1, &exact, size, "norm_mix_input");
    expect_clean_border(&m->y, "norm_mix");
    es_release(sums);
}

// The formulas of blend_rules.h, in float as they stand there, with ways closed.
static void check_blend_closed(Maps *m, int32_t mode, float alpha, int has_gate, int32_t closed) {
    Map gate = make_map(m->kernels->n_lanes, 1, 1, 1, 0),
        d_gate = make_map(m->kernels->n_lanes, 1, 1, 1, 0);
    // closed, half open and open gates
    FOR_EACH_ELEMENT(&gate) {
        *at(&gate, c, r, k, lane) = lane == 0 ? 0.0f : lane == 1 ? 1.0f : (float)uniform();
    }
    EsLaneMap none = {0};
    EsLaneBlend blend = {mode, alpha, &m->x.map, &m->s.map, has_gate ? &gate.map : &none, closed};
    m->seeds->blend_forward(&blend, &m->y.map);
    m->seeds->blend_backward(&blend, &m->d_y.map, &m->d_x.map, &m->d_s.map, &d_gate.map);
    Distance forward = {0}, of_h = {0}, of_s = {0}, of_gate = {0};
    double gate_sums[MAX_LANES] = {0};
    int n_inexact = 0;
    float a = es_blend_clamp(alpha);
    FOR_EACH_ELEMENT(&m->x) {
        float h = *at(&m->x, c, r, k, lane), s = *at(&m->s, c, r, k, lane);
        float d = *at(&m->d_y, c, r, k, lane), y = *at(&m->y, c, r, k, lane);
        float share = es_blend_share(mode, alpha, has_gate ? *at(&gate, 0, 0, 0, lane) : 1.0f);
        EsBlendGradient gradient = {d, mode == ES_BLEND_INCUBATE ? d : 0.0f};
        float expected = h;
        if (share != 0.0f) {
            expected = es_blend_value(mode, share, h, s);
            gradient = es_blend_gradient(mode, share, h, s, d);
        }
        gradient.h = closed & ES_BLEND_CLOSED_HOST ? 0.0f : gradient.h;
        gradient.s = closed & ES_BLEND_CLOSED_SEED ? 0.0f : gradient.s;
        int is_end = share == 0.0f || (share == 1.0f && mode != ES_BLEND_MULTIPLY);
        n_inexact += is_end && memcmp(&y, &expected, sizeof y) != 0;
        add_distance(&forward, (double)y, (double)expected);
        add_distance(&of_h, value(&m->d_x, c, r, k, lane), (double)gradient.h);
        add_distance(&of_s, value(&m->d_s, c, r, k, lane), (double)gradient.s);
        int has_gate_gradient = mode == ES_BLEND_GATE && !(closed & ES_BLEND_CLOSED_SEED);
        gate_sums[lane] += has_gate_gradient ? (double)d * ((double)s - (double)h) : 0.0;
    }
    FOR_EACH_ELEMENT(&d_gate) {
        add_distance(&of_gate, value(&d_gate, c, r, k, lane), (double)a * gate_sums[lane]);
    }
    EXPECT_EQ(n_inexact, 0);
    expect_close(forward, BOUND, "blend");
    expect_close(of_h, BOUND, "blend_input, host");
    expect_close(of_s, BOUND, "blend_input, seed");
    expect_close(of_gate, BOUND, "blend_input, gate");
    expect_clean_border(&m->y, "blend");
    expect_clean_border(&m->d_s, "blend_input");
    es_release(gate.memory);
    es_release(d_gate.memory);
}

static void check_blend(Maps *m, int32_t mode, float alpha, int has_gate) {
    for (int32_t ways = 0; ways < 4; ways++) {
        int32_t closed =
            (ways & 1 ? ES_BLEND_CLOSED_HOST : 0) | (ways & 2 ? ES_BLEND_CLOSED_SEED : 0);
        check_blend_closed(m, mode, alpha, has_gate, closed);
    }
}

// A seed that takes no part may hold anything; one at full strength may hold -0 and infinities.
static void check_blend_ends(Maps *m) {
    EsLaneMap none = {0};
    FOR_EACH_ELEMENT(&m->s) { *at(&m->s, c, r, k, lane) = NAN; }
    const int32_t modes[] = {ES_BLEND_NONE, ES_BLEND_INCUBATE, ES_BLEND_ADD, ES_BLEND_MULTIPLY, 77};
    for (size_t i = 0; i < ES_COUNT_OF(modes); i++) {
        int is_mixed = es_blend_is_mixed(modes[i]);
        EsLaneBlend blend = {modes[i], is_mixed ? 0.0f : 0.7f, &m->x.map, &m->s.map, &none, 0};
        m->seeds->blend_forward(&blend, &m->y.map);
        m->seeds->blend_backward(&blend, &m->d_y.map, &m->d_x.map, &m->d_s.map, &none);
        int n_wrong = 0;
        FOR_EACH_ELEMENT(&m->x) {
            n_wrong += *at(&m->y, c, r, k, lane) != *at(&m->x, c, r, k, lane);
        }
        m->seeds->seed_input_backward(modes[i], &m->d_y.map, &m->x.map, &m->y.map);
        FOR_EACH_ELEMENT(&m->x) {
            float rest = *at(&m->x, c, r, k, lane);
            n_wrong +=
                *at(&m->y, c, r, k, lane) != (is_mixed ? rest + *at(&m->d_y, c, r, k, lane) : rest);
        }
        m->seeds->seed_input_backward(modes[i], &m->d_y.map, &none, &m->y.map);
        FOR_EACH_ELEMENT(&m->x) {
            float d = *at(&m->d_y, c, r, k, lane);
            n_wrong += *at(&m->y, c, r, k, lane) != (is_mixed ? d : 0.0f);
            n_wrong += *at(&m->d_x, c, r, k, lane) != d;
            n_wrong += *at(&m->d_s, c, r, k, lane) != (modes[i] == ES_BLEND_INCUBATE ? d : 0.0f);
        }
        EXPECT_EQ(n_wrong, 0);
    }
    FOR_EACH_ELEMENT(&m->s) {
        *at(&m->s, c, r, k, lane) = lane % 3 == 0 ? -0.0f : lane % 3 == 1 ? INFINITY : NAN;
    }
    EsLaneBlend all = {ES_BLEND_ADD, 1.0f, &m->x.map, &m->s.map, &none, 0};
    m->seeds->blend_forward(&all, &m->y.map);
    int n_wrong = 0;
    FOR_EACH_ELEMENT(&m->y) {
        n_wrong += memcmp(at(&m->y, c, r, k, lane), at(&m->s, c, r, k, lane), sizeof(float)) != 0;
    }
    EXPECT_EQ(n_wrong, 0);
}

// tanh by way of MULTIPLY: y - 1 = tanh(s - 1) where h = 1, from tiny to far arguments.
static void check_tangent(Maps *m) {
    EsLaneMap none = {0};
    EsLaneBlend blend = {ES_BLEND_MULTIPLY, 1.0f, &m->x.map, &m->s.map, &none, 0};
    double worst = 0.0;
    int n = 0;
    for (double v = -20.0; v <= 20.0; v += 0.03) {
        FOR_EACH_ELEMENT(&m->x) {
            *at(&m->x, c, r, k, lane) = 1.0f;
            *at(&m->s, c, r, k, lane) = (float)(1.0 + v);
        }
        m->seeds->blend_forward(&blend, &m->y.map);
        double difference = (double)((float)(1.0 + v) - 1.0f);
        worst = fmax(worst, fabs(value(&m->y, 0, 0, 0, 0) - (1.0 + tanh(difference))));
        n++;
    }
    EXPECT(n > 1000);
    // two roundings of numbers up to 2, and 2e-7 of the tangent
    EXPECT_NEAR(worst, 0.0, 6e-7);
    *at(&m->s, 0, 0, 0, 0) = NAN;
    *at(&m->s, 0, 0, 0, 1) = INFINITY;
    *at(&m->s, 0, 0, 0, 2) = -INFINITY;
    m->seeds->blend_forward(&blend, &m->y.map);
    EXPECT(isnan(*at(&m->y, 0, 0, 0, 0)));
    EXPECT(*at(&m->y, 0, 0, 0, 1) == 2.0f);
    EXPECT(*at(&m->y, 0, 0, 0, 2) == 0.0f);
}

static void check_width(int n_lanes) {
    const EsLaneKernels *kernels = engine(n_lanes);
    if (kernels == NULL) {
        SKIP("this machine has no %d lanes", n_lanes);
    }
    for (size_t i = 0; i < ES_COUNT_OF(shapes); i++) {
        random_state = 1 + i;
        int before = es_test_failures, n_valid = i % 2 == 0 ? n_lanes : 1 + (int)i % (n_lanes - 1);
        Maps m = maps_make(kernels, shapes[i], n_valid);
        check_groupnorm(&m, 0);
        check_groupnorm(&m, 1);
        check_depthwise(&m);
        check_scale_and_mix(&m);
        const float alphas[] = {-1.0f, 0.0f, 0.2f, 0.5f, 0.9f, 1.0f, 3.0f};
        for (int32_t mode = ES_BLEND_NONE; mode <= ES_BLEND_MULTIPLY + 1; mode++) {
            for (size_t k = 0; k < ES_COUNT_OF(alphas); k++) {
                check_blend(&m, mode, alphas[k], 0);
                check_blend(&m, mode, alphas[k], 1);
            }
        }
        check_blend_ends(&m);
        if (i == 0) {
            check_tangent(&m);
        }
        if (es_test_failures > before) {
            printf("  for %d channels of %d x %d\n", shapes[i].channels, shapes[i].height,
                   shapes[i].width);
        }
        maps_release(&m);
    }
}

TEST(width_4) { check_width(4); }
TEST(width_8) { check_width(8); }
TEST(width_16) { check_width(16); }
