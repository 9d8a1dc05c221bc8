// Float16: a seed whose gradient leaves the range of the type, in a whole growth step. The loss
// scale of its environment falls until the gradient fits, its batches are left out until then, the
// seed lives on and learns; other environments do not notice.
#include "es_test.h"

#include "growth/device_case.h"

enum { E = 3, BROKEN = 1, STEPS_MAX = 12 };

static EsDataset dataset;

static EsGrowthOptions overflow_options(void) {
    EsGrowthOptions options = stripes_options("r0c0", E);
    options.precision = ES_DTYPE_F16;
    options.batch = 8;
    options.step_batches = 1;
    options.n_validation_images = 8;
    options.settings.episode_steps = STEPS_MAX + 2;
    options.settings.training_dwell = STEPS_MAX + 2; // the host never hears of the seed
    return options;
}

// The last norm's gamma multiplies all gradients that go further back into the seed; 2,000 is far
// inside float16's range, 2,000 times the loss scale is not.
static void break_seed(EsGrowth *growth) {
    EsSpans spans;
    float gamma[64];
    REQUIRE_OK(es_growth_seed_spans(&growth->model, 0, ES_BLUEPRINT_CONV_LIGHT, &spans));
    int64_t offset = spans.offset[spans.n - 2], length = spans.length[spans.n - 2];
    ES_ASSERT(length <= 64);
    float *row = (float *)growth->store->parameters.data +
                 BROKEN * growth->store->parameters.stride[0] + offset;
    for (int64_t i = 0; i < length; i++) {
        gamma[i] = 2000.0f;
    }
    put(growth, row, gamma, sizeof(float) * (size_t)length);
}

static int rows_are_equal(const float *a, const float *b, int64_t width, int e) {
    return memcmp(a + e * width, b + e * width, sizeof(float) * (size_t)width) == 0;
}

static int all_finite(const float *numbers, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(numbers[i])) {
            return 0;
        }
    }
    return 1;
}

TEST(an_overflowing_seed_is_alone) {
    make_stripes(&dataset, 64, 40, 0);
    EsGrowth *growth = create_on_cuda(overflow_options(), &dataset);
    SKIP_WITHOUT(growth);
    EsGrowth *calm = create_on_cuda(overflow_options(), &dataset);
    int64_t width = growth->store->parameters.dim[1];
    float scale[E], expected = ES_LOSS_SCALE_START;
    REQUIRE_OK(es_growth_reset(growth, 5));
    REQUIRE_OK(es_growth_reset(calm, 5));
    step_all(growth, germinate(0, ES_BLUEPRINT_CONV_LIGHT, 0));
    step_all(calm, germinate(0, ES_BLUEPRINT_CONV_LIGHT, 0));
    break_seed(growth);
    int n_left_out = 0, n_learned = 0;
    for (int step = 0; step < STEPS_MAX; step++) {
        float *before = fetch_slab(growth, &growth->store->parameters);
        step_all(growth, es_action_wait());
        step_all(calm, es_action_wait());
        float *after = fetch_slab(growth, &growth->store->parameters);
        float *others = fetch_slab(calm, &calm->store->parameters);
        fetch(growth, scale, growth->on_device->arrays.loss_scale, sizeof scale);
        int is_left_out = rows_are_equal(before, after, width, BROKEN);
        expected *= is_left_out ? 0.5f : 1.0f;
        n_left_out += is_left_out;
        n_learned += !is_left_out;
        for (int e = 0; e < E; e++) {
            EXPECT(scale[e] == (e == BROKEN ? expected : ES_LOSS_SCALE_START));
            EXPECT(e == BROKEN || rows_are_equal(after, others, width, e));
            EXPECT(e == BROKEN || !rows_are_equal(before, after, width, e));
            EXPECT_EQ(growth->shown.state.seed.stage[e], ES_STAGE_TRAINING);
            EXPECT_EQ(growth->shown.state.env.n_rollbacks[e], 0);
        }
        EXPECT(all_finite(after, E * width));
        free(before);
        free(after);
        free(others);
    }
    printf("%d batches left out, scale %g, then %d learned\n", n_left_out, (double)expected,
           n_learned);
    EXPECT(n_left_out > 0 && n_learned > 0);
    destroy_growth(growth);
    destroy_growth(calm);
    destroy_small_dataset(&dataset);
}
