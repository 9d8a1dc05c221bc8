// The public face of growth: a seed's life through plain C types, the same bits as the engine,
// every mistake told, and the header's example true.
#include "esper/esper.h"

#include <stdint.h>

#include "growth/growth_with_device.h"
#include "temp_folder.h"

static EsGrowOptions small_options(void) {
    return (EsGrowOptions){.slots = "r0c0,r0c1",
                           .n_envs = 2,
                           .batch = 16,
                           .step_batches = 2,
                           .validation_images = 60,
                           .episode_steps = 10,
                           .auto_forward = 1,
                           .n_threads = 1};
}

static EsGrow *create(const EsGrowOptions *options) {
    EsGrow *grow = NULL;
    REQUIRE_OK(es_grow_create(options, &grow));
    return grow;
}

// Every host waits but the first, which does this.
static void act(int8_t actions[2][ES_N_HEADS], EsGrowthOp op, int slot) {
    es_grow_fill_action(actions[0], op, slot);
    es_grow_fill_action(actions[1], ES_GROWTH_OP_WAIT, 0);
}

// --- a seed's life ---

TEST(a_seed_is_planted_and_kept) {
    EsGrowOptions options = small_options();
    EsGrow *grow = create(&options);
    int8_t actions[2][ES_N_HEADS];
    EXPECT(es_grow_observe(grow).is_over);
    REQUIRE_OK(es_grow_reset(grow, 0));
    EsGrowView view = es_grow_observe(grow);
    EXPECT_EQ(view.n_envs, 2);
    EXPECT_EQ(view.n_slots, 2);
    EXPECT_EQ(view.step, 1);
    EXPECT(!view.is_over);
    EXPECT_EQ(view.hosts[0].n_parameters, 438);
    EXPECT_EQ(view.slots[1].stage, ES_STAGE_DORMANT);
    EXPECT_EQ(view.slots[1].blueprint, ES_BLUEPRINT_ID_NONE);
    EXPECT(isnan(view.slots[1].contribution) && isnan(view.slots[1].gradient_health));
    EXPECT_EQ(view.slots[1].contribution_age, -1);
    EXPECT_EQ(view.masks[0].slot_by_op[ES_GROWTH_OP_GERMINATE], 3);
    EXPECT_EQ(view.masks[0].slot_by_op[ES_GROWTH_OP_FOSSILIZE], 0);
    EXPECT(view.hosts[0].train_loss > 0 && view.hosts[0].validation_loss > 0);

    // tiny: TRAINING from step 2, BLENDING at 5, HOLDING at 6
    static const int stages[] = {3, 3, 3, 4, 6, 7, 7};
    for (int step = 0; step < 7; step++) {
        act(actions,
            step == 0   ? ES_GROWTH_OP_GERMINATE
            : step == 5 ? ES_GROWTH_OP_FOSSILIZE
                        : ES_GROWTH_OP_WAIT,
            1);
        REQUIRE_OK(es_grow_step(grow, &actions[0][0]));
        view = es_grow_observe(grow);
        EXPECT_EQ(view.step, step + 2);
        EXPECT_EQ(view.slots[1].stage, stages[step]);
        EXPECT_EQ(view.slots[3].stage, ES_STAGE_DORMANT); // of the second host
        EXPECT_EQ(view.hosts[0].refusal, 0);
        EXPECT_EQ(isnan(view.slots[1].contribution), step < 3); // nothing to switch off
    }
    EXPECT_EQ(view.slots[1].blueprint, ES_BLUEPRINT_ID_CONV_LIGHT);
    EXPECT(view.slots[1].alpha == 1);
    EXPECT_EQ(view.slots[1].n_parameters, 9 * 64 + 16);
    EXPECT_EQ(view.hosts[0].n_parameters, 438 + 9 * 64 + 16);
    EXPECT_EQ(view.hosts[1].n_parameters, 438);
    EXPECT(view.slots[1].gradient_health >= 0 && view.slots[1].gradient_health <= 1);
    es_grow_destroy(grow);
}

TEST(seed_states_and_shares_of_a_batch) {
    EsGrowOptions options = small_options();
    EsGrow *grow = create(&options);
    int8_t actions[2][ES_N_HEADS];
    EsGrowSeedState states[2];
    double weights[4] = {9, 9, 9, 9};
    int n_ramp_steps = 0;
    EXPECT_EQ(es_grow_export_seed_states(grow, 0, states), 0); // no episode
    EXPECT_STATUS(es_grow_attribute_batch(grow, 0, 16, weights), ARGUMENT);
    REQUIRE_OK(es_grow_reset(grow, 0));
    for (int step = 0; step < 7; step++) {
        act(actions, step == 0 ? ES_GROWTH_OP_GERMINATE : ES_GROWTH_OP_WAIT, 1);
        actions[0][ES_HEAD_TEMPO] = 2; // blends in three steps
        REQUIRE_OK(es_grow_step(grow, &actions[0][0]));
        EsGrowSlot slot = es_grow_observe(grow).slots[1];
        EXPECT_EQ(es_grow_export_seed_states(grow, 0, states), 1);
        EXPECT_EQ(states[0].slot, 1);
        EXPECT_EQ(states[0].stage, slot.stage);
        EXPECT_EQ(states[0].age, slot.age);
        EXPECT(states[0].alpha == slot.alpha);
        EXPECT_EQ(states[0].is_blend_allowed, slot.stage >= ES_STAGE_BLENDING);
        REQUIRE_OK(es_grow_attribute_batch(grow, 0, 16, weights));
        double sum = weights[0] + weights[1];
        EXPECT(weights[0] == 0 && weights[2] == 0 && weights[3] == 0);
        EXPECT(slot.alpha > 0 ? sum == 0 || sum == 1 : sum == 0);
        if (states[0].alpha_total_steps > 0) {
            EXPECT_EQ(states[0].alpha_total_steps, 3);
            EXPECT(states[0].alpha_temperature > 0);
            n_ramp_steps += states[0].alpha_steps;
        }
    }
    EXPECT_EQ(n_ramp_steps, 1 + 2);
    EXPECT_EQ(es_grow_export_seed_states(grow, 1, states), 0);
    EXPECT_EQ(es_grow_export_seed_states(grow, 2, states), 0);
    es_grow_destroy(grow);
}

TEST(refusals_say_why) {
    EsGrowOptions options = small_options();
    options.max_seeds = 1;
    EsGrow *grow = create(&options);
    int8_t actions[2][ES_N_HEADS];
    REQUIRE_OK(es_grow_reset(grow, 0));
    act(actions, ES_GROWTH_OP_FOSSILIZE, 0);
    REQUIRE_OK(es_grow_step(grow, &actions[0][0]));
    EsGrowView view = es_grow_observe(grow);
    EXPECT_EQ(view.hosts[0].op, ES_GROWTH_OP_WAIT);
    EXPECT_TEXT(es_grow_refusal_message(view.hosts[0].refusal), "the slot holds no living seed");
    act(actions, ES_GROWTH_OP_GERMINATE, 0);
    actions[0][ES_HEAD_BLUEPRINT] = 0; // does nothing, never legal
    EXPECT(!(view.masks[0].head[ES_HEAD_BLUEPRINT] & 1));
    REQUIRE_OK(es_grow_step(grow, &actions[0][0]));
    EXPECT_EQ(es_grow_observe(grow).slots[0].stage, ES_STAGE_DORMANT);
    EXPECT(es_grow_observe(grow).hosts[0].refusal != 0);
    actions[0][ES_HEAD_BLUEPRINT] = ES_BLUEPRINT_ID_NORM;
    REQUIRE_OK(es_grow_step(grow, &actions[0][0]));
    EXPECT_EQ(es_grow_observe(grow).hosts[0].op, ES_GROWTH_OP_GERMINATE);
    REQUIRE_OK(es_grow_step(grow, &actions[0][0]));
    view = es_grow_observe(grow);
    EXPECT_TEXT(es_grow_refusal_message(view.hosts[0].refusal), "the slot is occupied");
    EXPECT_EQ(view.masks[0].slot_by_op[ES_GROWTH_OP_GERMINATE], 0); // one seed is the most
    memset(actions, 99, sizeof actions);                            // no such operation
    REQUIRE_OK(es_grow_step(grow, &actions[0][0]));
    EXPECT_TEXT(es_grow_refusal_message(es_grow_observe(grow).hosts[1].refusal),
                "there is no such operation");
    es_grow_destroy(grow);
}

// Without auto_forward nothing moves on its own.
TEST(stages_advance_by_hand) {
    EsGrowOptions options = small_options();
    options.auto_forward = 0;
    options.n_envs = 1;
    EsGrow *grow = create(&options);
    int8_t action[ES_N_HEADS];
    REQUIRE_OK(es_grow_reset(grow, 0));
    es_grow_fill_action(action, ES_GROWTH_OP_GERMINATE, 0);
    REQUIRE_OK(es_grow_step(grow, action));
    es_grow_fill_action(action, ES_GROWTH_OP_WAIT, 0);
    REQUIRE_OK(es_grow_step(grow, action));
    EXPECT_TEXT(es_grow_stage_name(es_grow_observe(grow).slots[0].stage), "GERMINATED");
    es_grow_fill_action(action, ES_GROWTH_OP_ADVANCE, 0);
    REQUIRE_OK(es_grow_step(grow, action));
    EXPECT_TEXT(es_grow_stage_name(es_grow_observe(grow).slots[0].stage), "TRAINING");
    es_grow_destroy(grow);
}

// --- sameness ---

// The losses of an episode in which the first host grows a seed.
static void record(EsGrow *grow, double losses[10]) {
    int8_t actions[2][ES_N_HEADS];
    REQUIRE_OK(es_grow_reset(grow, 5));
    int n = 0;
    for (EsGrowView view = es_grow_observe(grow); !view.is_over; view = es_grow_observe(grow)) {
        losses[n++] = view.hosts[0].validation_loss + 10 * view.hosts[1].train_loss;
        act(actions, view.step == 2 ? ES_GROWTH_OP_GERMINATE : ES_GROWTH_OP_WAIT, 0);
        REQUIRE_OK(es_grow_step(grow, &actions[0][0]));
    }
    EXPECT_EQ(n, 10);
}

TEST(same_bits_again_and_on_any_number_of_threads) {
    double first[10], again[10], threaded[10], other[10];
    EsGrowOptions options = small_options();
    EsGrow *grow = create(&options);
    record(grow, first);
    record(grow, again);
    es_grow_destroy(grow);
    options.n_threads = 2;
    grow = create(&options);
    record(grow, threaded);
    es_grow_destroy(grow);
    options.seed = 43;
    grow = create(&options);
    record(grow, other);
    es_grow_destroy(grow);
    EXPECT(memcmp(first, again, sizeof first) == 0);
    EXPECT(memcmp(first, threaded, sizeof first) == 0);
    EXPECT(memcmp(first, other, sizeof first) != 0);
}

// The public rows equal the engine's state.
TEST(rows_are_those_of_the_engine) {
    double public_losses[10];
    EsGrowOptions options = small_options();
    EsGrow *grow = create(&options);
    record(grow, public_losses);
    es_grow_destroy(grow);

    EsHostSpec host;
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    EsDataset dataset;
    EsDatasetOptions wanted = {.seed = 1};
    REQUIRE_OK(es_host_preset("tiny", &host));
    REQUIRE_OK(es_slots_parse(&host, "r0c0,r0c1", slots, &n_slots));
    REQUIRE_OK(es_dataset_open(&dataset, "tiny", &wanted, NULL));
    EsGrowthOptions own = es_growth_defaults(&host, slots, n_slots, 2);
    own.batch = 16;
    own.step_batches = 2;
    own.n_validation_images = 60;
    own.settings.episode_steps = 10;
    own.settings.auto_forward = ES_AUTO_FORWARD_ALL;
    EsGrowth *growth = create_growth(&own, &dataset, 1);
    REQUIRE_OK(es_growth_reset(growth, 5));
    for (int step = 0; step < 10; step++) {
        const EsGrowthResult *results = es_growth_results(growth);
        EXPECT(public_losses[step] == results[0].validation_loss + 10 * results[1].train_loss);
        EsAction actions[2] = {es_action_wait(), es_action_wait()};
        if (step == 1) {
            actions[0].head[ES_HEAD_OP] = ES_GROWTH_OP_GERMINATE;
            actions[0].head[ES_HEAD_BLUEPRINT] = ES_BLUEPRINT_ID_CONV_LIGHT;
        }
        REQUIRE_OK(es_growth_step(growth, actions));
    }
    EXPECT(es_growth_is_over(growth));
    destroy_growth(growth);
    es_dataset_destroy(&dataset);
}

// --- options ---

static void expect_failure(const EsGrowOptions *options, EsStatus status, const char *message) {
    EsGrow *grow = (EsGrow *)(uintptr_t)64;
    EsStatus given = es_grow_create(options, &grow);
    EXPECT_TEXT(es_status_name(given), es_status_name(status));
    EXPECT_TEXT(es_status_detail(), message);
    EXPECT(grow == NULL);
}

TEST(options_that_do_not_fit_are_told) {
    EsGrowOptions options = {.n_envs = -1};
    expect_failure(&options, ES_STATUS_ARGUMENT, "n_envs is -1, must be 0..1048576");
    options = (EsGrowOptions){.auto_forward = 2};
    expect_failure(&options, ES_STATUS_ARGUMENT, "auto_forward is 2, must be 0..1");
    options = (EsGrowOptions){.task = "tiny", .host_file = "x.ini"};
    expect_failure(&options, ES_STATUS_ARGUMENT,
                   "task \"tiny\" and host file \"x.ini\" are given; use one of them");
    options = (EsGrowOptions){.slots = "r0c5"};
    expect_failure(&options, ES_STATUS_ARGUMENT,
                   "host \"tiny\" has no slot \"r0c5\"; it has r0c0, r0c1, r1c0, r1c1");
    options = (EsGrowOptions){.data = "tiny", .folder = "here"};
    expect_failure(
        &options, ES_STATUS_ARGUMENT,
        "data set \"tiny\" is generated and has no use for folder \"here\"; cifar10 and idx "
        "read files");
    options = (EsGrowOptions){.batch = 100000};
    expect_failure(&options, ES_STATUS_ARGUMENT,
                   "a batch of 100000 does not fit the 8000 training images");
    unsetenv("ES_DATA_DIR");
    options = (EsGrowOptions){.data = "cifar10"};
    expect_failure(&options, ES_STATUS_ARGUMENT,
                   "data set \"cifar10\" needs a folder (--folder DIR) or ES_DATA_DIR");
}

TEST(devices_and_their_numbers) {
    EsGrowOptions options = small_options();
    options.amp_dtype = "bf16";
    expect_failure(&options, ES_STATUS_ARGUMENT,
                   "amp_dtype is \"bf16\", not auto, off, bfloat16 or float16");
    options.amp_dtype = "bfloat16";
    expect_failure(&options, ES_STATUS_UNSUPPORTED, "the CPU computes in F32; BF16 is asked for");
    options.amp_dtype = NULL;
    options.device = "cuda";
    EsGrow *grow = NULL;
    if (es_device_cuda_count() == 0) {
        EXPECT_STATUS(es_grow_create(&options, &grow), UNSUPPORTED);
        EXPECT(grow == NULL);
        return;
    }
    options.episode_steps = 2;
    options.batch = 8;
    options.step_batches = 1;
    options.validation_images = 8;
    grow = create(&options);
    REQUIRE_OK(es_grow_reset(grow, 0));
    int8_t actions[2][ES_N_HEADS];
    act(actions, ES_GROWTH_OP_GERMINATE, 0);
    REQUIRE_OK(es_grow_step(grow, &actions[0][0]));
    EsGrowView view = es_grow_observe(grow);
    EXPECT(view.hosts[0].validation_loss > 0 && isfinite(view.hosts[0].validation_loss));
    EXPECT_EQ(view.hosts[0].op, ES_GROWTH_OP_GERMINATE);
    es_grow_destroy(grow);
}

TEST(calls_out_of_turn_are_told) {
    EsGrowOptions options = small_options();
    options.episode_steps = 1;
    EsGrow *grow = create(&options);
    int8_t actions[2][ES_N_HEADS];
    act(actions, ES_GROWTH_OP_WAIT, 0);
    EXPECT_STATUS(es_grow_step(grow, &actions[0][0]), ARGUMENT);
    EXPECT_TEXT(es_status_detail(), "no episode runs; reset begins one");
    EXPECT_STATUS(es_grow_reset(grow, -1), ARGUMENT);
    EXPECT_STATUS(es_grow_reset(grow, INT32_MAX), ARGUMENT);
    REQUIRE_OK(es_grow_reset(grow, 0));
    REQUIRE_OK(es_grow_step(grow, &actions[0][0]));
    EXPECT(es_grow_observe(grow).is_over);
    EXPECT_STATUS(es_grow_step(grow, &actions[0][0]), ARGUMENT);
    EXPECT_TEXT(es_status_detail(), "the episode is over; reset begins another");
    REQUIRE_OK(es_grow_reset(grow, 0));
    EXPECT(!es_grow_observe(grow).is_over);
    es_grow_destroy(grow);
    es_grow_destroy(NULL);
}

// A host of one's own: only its slots, its blocks in the description, and its images or none.
TEST(hosts_from_files) {
    static const char text[] = "[host]\nname = mine\nbatch = 16\n[block0]\nchannels = 6\n"
                               "kernel = 5\npool = max\nbefore_pool = off\nafter_pool = on\n"
                               "[block1]\nchannels = 3\n";
    EsGrowOptions options = {
        .host_file = write_temp_text("host.ini", text), .step_batches = 1, .validation_images = 20};
    expect_failure(&options, ES_STATUS_ARGUMENT,
                   "host \"mine\" names no data set, and none is given");
    options.data = "generated";
    expect_failure(&options, ES_STATUS_INPUT,
                   "host \"mine\" takes 16 x 16 x 1 images of up to 10 classes; data set "
                   "\"generated\" has 32 x 32 x 3 of 10");
    options.data = "tiny";
    EsGrow *grow = create(&options);
    REQUIRE_OK(es_grow_reset(grow, 0));
    EXPECT_EQ(es_grow_observe(grow).n_slots, 2);
    EXPECT_TEXT(es_grow_slot_name(grow, 0), "r0c1");
    EXPECT_TEXT(es_grow_slot_name(grow, 1), "r1c0");
    EXPECT_TEXT(es_grow_slot_name(grow, 2), "?");
    char description[2048], cut[20];
    es_grow_describe(grow, description, sizeof description);
    EXPECT_CONTAINS(description, "host \"mine\": 370 parameters, images 16 x 16 x 1, 10 classes\n"
                                 "  block0: 5x5, 6 channels, 16 x 16, pooled to 8 x 8\n"
                                 "  block1: 3x3, 3 channels, 8 x 8\n"
                                 "  slot 0: r0c1, 3 channels, seeds of 7 to 630 parameters\n");
    EXPECT_CONTAINS(description, "data \"tiny\": 8000 training");
    EXPECT_CONTAINS(description, "MiB weights and snapshots");
    memset(cut, 'x', sizeof cut);
    es_grow_describe(grow, cut, 10);
    EXPECT_TEXT(cut, "host \"min");
    EXPECT_EQ(cut[10], 'x');
    es_grow_describe(grow, cut, 1);
    EXPECT_TEXT(cut, "");
    es_grow_destroy(grow);
}

// --- the header ---

static char *read_source(const char *name) {
    char path[512];
    snprintf(path, sizeof path, ES_TEST_DATA "/../../%s", name);
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 16);
    if (file != NULL && text != NULL) {
        size_t n = fread(text, 1, (1 << 16) - 1, file);
        text[n] = '\0';
        fclose(file);
        return text;
    }
    free(text);
    return NULL;
}

// Lines of the header's example, which are indented by five, stand in the example program.
TEST(the_example_in_the_header_is_in_the_example) {
    char *header = read_source("include/esper/grow.h");
    char *example = read_source("examples/grow_by_hand.c");
    if (header == NULL || example == NULL) {
        free(header);
        free(example);
        SKIP("the sources are not here");
    }
    int n_lines = 0;
    char *rest = NULL;
    for (char *line = strtok_r(header, "\n", &rest); strncmp(line, "//", 2) == 0;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "//     ", 7) == 0) {
            EXPECT_CONTAINS(example, line + 7 + strspn(line + 7, " "));
            n_lines++;
        }
    }
    EXPECT_EQ(n_lines, 7);
    free(header);
    free(example);
}
