// Bad input to growth: refused, with messages that say where and what.
#include "es_test.h"

#include "growth/growing_case.h"

static const EsCompileMode modes[] = {ES_COMPILE_OFF, ES_COMPILE_DEFAULT};

TEST(labels_out_of_range_in_training) {
    for (size_t m = 0; m < ES_COUNT_OF(modes); m++) {
        EsDataset dataset;
        make_small_dataset(&dataset, 64, 40);
        EsGrowthOptions options = small_options("r0c1", 2);
        options.mode = modes[m];
        options.step_batches = 4; // one whole pass
        EsGrowth *growth = create_growth(&options, &dataset, 1);
        dataset.labels[13] = 3; // the classes are 0, 1, 2
        dataset.labels[14] = 65535;
        EXPECT_STATUS(es_growth_reset(growth, 0), INPUT);
        EXPECT_CONTAINS(es_status_detail(), "2 labels of environment 0's batches are outside 0..2");
        // with a seed in the graph, too
        for (int i = 0; i < 64; i++) {
            dataset.labels[i] = 1;
        }
        REQUIRE_OK(es_growth_reset(growth, 0));
        step_all(growth, germinate(0, ES_BLUEPRINT_CONV_LIGHT, ES_STYLE_GATED_GATE));
        dataset.labels[40] = 9;
        EsAction actions[2] = {es_action_wait(), es_action_wait()};
        EXPECT_STATUS(es_growth_step(growth, actions), INPUT);
        EXPECT_CONTAINS(es_status_detail(), "1 labels of environment 0's batches are outside 0..2");
        destroy_growth(growth);
        destroy_small_dataset(&dataset);
    }
}

TEST(labels_out_of_range_in_validation) {
    for (size_t m = 0; m < ES_COUNT_OF(modes); m++) {
        EsDataset dataset;
        make_small_dataset(&dataset, 64, 40);
        EsGrowthOptions options = small_options("r0c1", 2);
        options.mode = modes[m];
        EsGrowth *growth = create_growth(&options, &dataset, 1);
        REQUIRE_OK(es_growth_reset(growth, 0));
        dataset.validation.labels[39] = 77;
        EsAction actions[2] = {es_action_wait(), es_action_wait()};
        EXPECT_STATUS(es_growth_step(growth, actions), INPUT);
        EXPECT_CONTAINS(es_status_detail(), "1 validation labels are outside 0..2");
        destroy_growth(growth);
        destroy_small_dataset(&dataset);
    }
}

TEST(images_that_do_not_fit) {
    EsDataset dataset;
    EsGrowth *growth = NULL;
    make_small_dataset(&dataset, 64, 40);
    EsGrowthOptions options = small_options("r0c1", 2);
    options.host.image_size = 16;
    EXPECT_STATUS(create_growth_on("cpu", 1, &options, &dataset, &growth), INPUT);
    EXPECT_TEXT(es_status_detail(), "host \"small\" takes 16 x 16 x 1 images of up to 3 classes; "
                                    "data set \"small\" has 8 x 8 x 1 of 3");
    EXPECT(growth == NULL);
    options = small_options("r0c1", 2);
    options.host.image_channels = 3;
    EXPECT_STATUS(create_growth_on("cpu", 1, &options, &dataset, &growth), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "8 x 8 x 3 images");
    options = small_options("r0c1", 2);
    options.host.n_classes = 2;
    EXPECT_STATUS(create_growth_on("cpu", 1, &options, &dataset, &growth), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "up to 2 classes");
    destroy_small_dataset(&dataset);
}

TEST(slots_that_are_not_there) {
    EsHostSpec host = small_host();
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    static const char *const unknown[] = {"r0c2", "r2c0", "R0C0", "r0c0 ", "r0c0,,r0c1", "mid"};
    for (size_t i = 0; i < ES_COUNT_OF(unknown); i++) {
        EXPECT_STATUS(es_slots_parse(&host, unknown[i], slots, &n_slots), ARGUMENT);
        EXPECT_CONTAINS(es_status_detail(), "host \"small\" has no slot \"");
        EXPECT_CONTAINS(es_status_detail(), "it has r0c0, r0c1, r1c0, r1c1");
    }
    // without pools there is no second row
    host.n_pools = 0;
    EXPECT_STATUS(es_slots_parse(&host, "r1c0", slots, &n_slots), ARGUMENT);
    EXPECT_TEXT(es_status_detail(), "host \"small\" has no slot \"r1c0\"; it has r0c0, r0c1");
}

TEST(sizes_that_make_no_sense) {
    EsDataset dataset;
    EsGrowth *growth = NULL;
    make_small_dataset(&dataset, 64, 40);
    static const struct {
        int field;
        const char *part;
    } cases[] = {{0, "given are 1, 0, 1, 10, 144"},
                 {1, "given are 1, 2, 0, 10, 144"},
                 {2, "a batch of 65 does not fit the 64 training images"},
                 {3, "41 validation images are asked for, the data set has 40"},
                 {4, "training_dwell"},
                 {5, "given are 0, 2, 1, 10, 144"}};
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        EsGrowthOptions options = small_options("r0c1", 2);
        switch (cases[i].field) {
        case 0:
            options.n_envs = 0;
            break;
        case 1:
            options.step_batches = 0;
            break;
        case 2:
            options.batch = 65;
            break;
        case 3:
            options.n_validation_images = 41;
            break;
        case 4:
            options.settings.training_dwell = -1;
            break;
        default:
            options.n_slots = 0;
        }
        EsStatus status = create_growth_on("cpu", 1, &options, &dataset, &growth);
        EXPECT(status != ES_STATUS_OK && growth == NULL);
        EXPECT_CONTAINS(es_status_detail(), cases[i].part);
    }
    destroy_small_dataset(&dataset);
}

// Actions come from a policy and are never trusted: what is out of range counts as WAIT.
TEST(actions_out_of_range_do_nothing) {
    EsDataset dataset;
    make_small_dataset(&dataset, 64, 40);
    EsGrowthOptions options = small_options("r0c0,r0c1", 1);
    options.settings.episode_steps = 40;
    EsGrowth *growth = create_growth(&options, &dataset, 1);
    REQUIRE_OK(es_growth_reset(growth, 0));
    static const int8_t values[] = {-128, -1, 2, 13, 127};
    for (int head = 0; head < ES_N_HEADS; head++) {
        for (size_t i = 0; i < ES_COUNT_OF(values); i++) {
            EsAction action = germinate(0, ES_BLUEPRINT_NORM, ES_STYLE_LINEAR_ADD);
            action.head[head] = values[i];
            int is_legal = values[i] >= 0 && values[i] < es_head_size(head, 2);
            int matters = es_head_matters(ES_GROWTH_OP_GERMINATE, head);
            if (is_legal || !matters || es_growth_is_over(growth)) {
                continue;
            }
            REQUIRE_OK(es_growth_step(growth, &action));
            EXPECT_EQ(growth->shown.state.env.effective_op[0], ES_GROWTH_OP_WAIT);
            EXPECT(growth->shown.state.env.refusal[0] != ES_REFUSAL_NONE);
            EXPECT_EQ(growth->shown.state.env.n_germinated[0], 0);
        }
    }
    while (!es_growth_is_over(growth)) {
        step_all(growth, es_action_wait());
    }
    EXPECT_STATUS(es_growth_step(growth, (EsAction[]){es_action_wait()}), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "the episode is over after 40 steps");
    destroy_growth(growth);
    destroy_small_dataset(&dataset);
}

// More topologies in one step than plans are kept is an error that says so, not a crash.
TEST(too_few_plans) {
    EsDataset dataset;
    make_small_dataset(&dataset, 64, 40);
    EsGrowthOptions options = small_options("r0c0,r0c1", 14);
    options.plan_capacity = 8;
    options.settings.training_dwell = 1;
    EsGrowth *growth = create_growth(&options, &dataset, 1);
    REQUIRE_OK(es_growth_reset(growth, 0));
    EsAction actions[14];
    for (int e = 0; e < 14; e++) {
        actions[e] = germinate(e % 2, 1 + e / 2, ES_STYLE_LINEAR_ADD);
    }
    EXPECT_STATUS(es_growth_step(growth, actions), MEMORY);
    EXPECT_CONTAINS(es_status_detail(), "more than the 8 plans");
    destroy_growth(growth);
    destroy_small_dataset(&dataset);
}

TEST(the_cpu_computes_in_float32) {
    EsDataset dataset;
    make_small_dataset(&dataset, 64, 40);
    EsGrowthOptions options = small_options("r0c0", 2);
    EsGrowth *growth = NULL;
    options.precision = ES_DTYPE_BF16;
    EXPECT_STATUS(create_growth_on("cpu", 1, &options, &dataset, &growth), UNSUPPORTED);
    EXPECT_CONTAINS(es_status_detail(), "the CPU computes in F32");
    destroy_small_dataset(&dataset);
}
