// Growth on a GPU as a whole: it follows the CPU, gives the same bits twice, captured or not,
// queued ahead or waited for; and its waits, copies and launches do not depend on the number of
// environments.
#include "es_test.h"

#include <unistd.h>

#include "growth/device_case.h"
#include "temp_folder.h"
#include "tensor/device_internal.h"
#include "tensor/profile.h"

static EsDataset dataset;

// --- against the CPU ---

// 20 updates with seeds of several kinds in all stages: weights and losses within 1e-4 of the
// CPU's. SGD amplifies the last bits of sums in another order; a wrong gradient is off by 1e-2 and
// more after one update.
TEST(twenty_updates_follow_the_cpu) {
    enum { E = 4, STEPS = 9 };
    make_stripes(&dataset, 96, 40, 40);
    EsGrowthOptions options = stripes_options("r0c0,r0c1", E);
    EsGrowth *there = create_on_cuda(options, &dataset);
    SKIP_WITHOUT(there);
    EsGrowth *here = create_growth(&options, &dataset, 1);
    static const int blueprint[E] = {ES_BLUEPRINT_CONV_LIGHT, ES_BLUEPRINT_NORM,
                                     ES_BLUEPRINT_DEPTHWISE, ES_BLUEPRINT_ATTENTION};
    REQUIRE_OK(es_growth_reset(here, 11));
    REQUIRE_OK(es_growth_reset(there, 11));
    for (int step = 0; step < STEPS; step++) {
        EsAction actions[E];
        for (int e = 0; e < E; e++) {
            actions[e] = step == 0 ? germinate(e % 2, blueprint[e], e) : es_action_wait();
        }
        REQUIRE_OK(es_growth_step(here, actions));
        REQUIRE_OK(es_growth_step(there, actions));
        for (int e = 0; e < E; e++) {
            EXPECT_NEAR(there->results[e].train_loss, here->results[e].train_loss, 1e-4);
            EXPECT_NEAR(there->results[e].validation_loss, here->results[e].validation_loss, 1e-4);
            EXPECT_NEAR(there->results[e].host_gradient_norm, here->results[e].host_gradient_norm,
                        1e-3);
            EXPECT_EQ(there->shown.state.seed.stage[2 * e + e % 2],
                      here->shown.state.seed.stage[2 * e + e % 2]);
        }
    }
    EXPECT_EQ(here->shown.state.seed.stage[0], ES_STAGE_HOLDING);
    float *theirs = fetch_slab(there, &there->store->parameters);
    const float *ours = here->store->parameters.data;
    double worst = 0;
    for (int64_t i = 0; i < es_tensor_count(&here->store->parameters); i++) {
        worst = fmax(worst, fabs((double)(theirs[i] - ours[i])));
    }
    printf("largest difference of a weight: %.3g\n", worst);
    EXPECT(worst < 1e-4);
    free(theirs);
    REQUIRE_OK(es_growth_test(here));
    REQUIRE_OK(es_growth_test(there));
    for (int e = 0; e < E; e++) {
        EXPECT_NEAR(there->results[e].test_loss, here->results[e].test_loss, 1e-4);
    }
    destroy_growth(here);
    destroy_growth(there);
    destroy_small_dataset(&dataset);
}

// Hosts that have seeds from the first step on: the state by the same rules, fresh weights of the
// same bits, training that follows the CPU's; a host beside them stays alone. A second episode
// begins without what was planted in the first.
TEST(planted_seeds_follow_the_cpu) {
    enum { E = 3, STEPS = 3 };
    make_stripes(&dataset, 96, 40, 40);
    EsGrowthOptions options = stripes_options("r0c0,r0c1", E);
    EsGrowth *there = create_on_cuda(options, &dataset);
    SKIP_WITHOUT(there);
    EsGrowth *here = create_growth(&options, &dataset, 1);
    EsGrowth *const both[] = {here, there};
    EsAction waits[E];
    for (int e = 0; e < E; e++) {
        waits[e] = es_action_wait();
    }
    for (int episode = 0; episode < 2; episode++) {
        for (int i = 0; i < 2; i++) {
            REQUIRE_OK(es_growth_begin(both[i], 11));
            if (episode == 0) {
                REQUIRE_OK(es_growth_plant(both[i], 0, 0, ES_BLUEPRINT_CONV_LIGHT, 0));
                REQUIRE_OK(es_growth_plant(both[i], 0, 1, ES_BLUEPRINT_DEPTHWISE, 0));
                REQUIRE_OK(es_growth_plant(both[i], 2, 1, ES_BLUEPRINT_NORM, 3));
                EXPECT_EQ(es_growth_plant(both[i], 2, 1, ES_BLUEPRINT_NORM, 0), ES_STATUS_ARGUMENT);
            }
            REQUIRE_OK(es_growth_advance(both[i]));
            for (int step = 0; step < STEPS; step++) {
                REQUIRE_OK(es_growth_step(both[i], waits));
            }
        }
        for (int e = 0; e < E; e++) {
            EXPECT_EQ(es_growth_parameter_count(there, e), es_growth_parameter_count(here, e));
            EXPECT_EQ(there->shown.state.env.n_fossils[e], here->shown.state.env.n_fossils[e]);
            EXPECT_NEAR(there->results[e].train_loss, here->results[e].train_loss, 1e-4);
            EXPECT_NEAR(there->results[e].validation_loss, here->results[e].validation_loss, 1e-4);
        }
        EXPECT_EQ(there->shown.state.env.n_fossils[0], episode == 0 ? 2 : 0);
        EXPECT_EQ(there->shown.state.env.n_fossils[1], 0);
    }
    destroy_growth(here);
    destroy_growth(there);
    destroy_small_dataset(&dataset);
}

// --- the same bits ---

typedef struct Trace {
    uint64_t hash[32];
    int n;
} Trace;

static void note(Trace *trace, const EsGrowth *growth) {
    uint64_t hash = hash_state(growth);
    size_t n = (size_t)growth->options.n_envs;
    hash = hash_bytes(growth->masks, sizeof *growth->masks * n, hash);
    for (size_t e = 0; e < n; e++) {
        hash = hash_bytes(&growth->results[e], offsetof(EsGrowthResult, test_loss), hash);
    }
    trace->hash[trace->n++] = hash;
}

// Few steps on few images: under emulation a kernel's thread is a function call.
static EsGrowthOptions short_options(int64_t n_envs) {
    EsGrowthOptions options = stripes_options("r0c0,r1c1", n_envs);
    options.settings.episode_steps = 8;
    options.batch = 8;
    options.n_validation_images = 12;
    return options;
}

// An episode under a wild policy, the host waiting in every step.
static uint64_t run_waiting(EsGrowth *growth, Trace *trace) {
    EsAction actions[8];
    trace->n = 0;
    REQUIRE_OK(es_growth_reset(growth, 3));
    while (!es_growth_is_over(growth)) {
        note(trace, growth);
        wild_actions(growth, 9, actions);
        REQUIRE_OK(es_growth_decide(growth, actions));
        note(trace, growth);
        REQUIRE_OK(es_growth_advance(growth));
    }
    return hash_slabs(growth);
}

TEST(an_episode_has_the_same_bits_twice_and_uncaptured) {
    make_stripes(&dataset, 64, 40, 0);
    EsGrowthOptions options = short_options(3);
    EsGrowth *growth = create_on_cuda(options, &dataset);
    SKIP_WITHOUT(growth);
    Trace first, second, plain;
    uint64_t weights = run_waiting(growth, &first);
    EXPECT(weights == run_waiting(growth, &second));
    EsGrowthDeviceReport report = es_growth_device_report(growth);
    EXPECT_EQ(report.n_captures, ES_GROWTH_WORK_COUNT);
    EXPECT_EQ(report.n_fallbacks, 0);
    EXPECT(report.n_replays > 20);
    options.mode = ES_COMPILE_OFF;
    EsGrowth *uncaptured = create_on_cuda(options, &dataset);
    EXPECT(weights == run_waiting(uncaptured, &plain));
    EXPECT_EQ(es_growth_device_report(uncaptured).n_captures, 0);
    EXPECT_EQ(first.n, 2 * options.settings.episode_steps);
    for (int i = 0; i < first.n; i++) {
        EXPECT(first.hash[i] == second.hash[i]);
        EXPECT(first.hash[i] == plain.hash[i]);
    }
    destroy_growth(growth);
    destroy_growth(uncaptured);
    destroy_small_dataset(&dataset);
}

// The same episode with the host one step behind: step t + 1 is queued before t is looked at.
// Actions come from a run that waited, so that they need not be known to the host.
TEST(queued_steps_show_what_waiting_ones_do) {
    enum { E = 3, STEPS = 8 };
    make_stripes(&dataset, 64, 40, 0);
    EsGrowthOptions options = short_options(E);
    EsGrowth *growth = create_on_cuda(options, &dataset);
    SKIP_WITHOUT(growth);
    Trace waiting, queued = {.n = 0};
    static EsAction actions[STEPS][E];
    REQUIRE_OK(es_growth_reset(growth, 3));
    for (int t = 0; t < STEPS; t++) {
        wild_actions(growth, 9, actions[t]);
        REQUIRE_OK(es_growth_step(growth, actions[t]));
    }
    uint64_t weights = run_waiting(growth, &waiting);
    const EsGrowthDevice *device = es_growth_device(growth);
    REQUIRE_OK(es_growth_queue_reset(growth, 3));
    REQUIRE_OK(es_growth_queue_advance(growth));
    for (int t = 0; t < STEPS; t++) {
        REQUIRE_OK(es_growth_queue_report(growth, ES_GROWTH_MEASURED));
        REQUIRE_OK(es_stream_copy(device->stream, device->actions, actions[t], sizeof actions[t],
                                  ES_COPY_TO_DEVICE));
        REQUIRE_OK(es_growth_queue_decision(growth));
        REQUIRE_OK(es_growth_queue_report(growth, ES_GROWTH_DECIDED));
        REQUIRE_OK(es_growth_queue_collect(growth));
        EXPECT_STATUS(es_growth_queue_collect(growth), ARGUMENT); // the first is not received yet
        REQUIRE_OK(es_growth_queue_advance(growth));
        REQUIRE_OK(es_growth_receive(growth, ES_GROWTH_MEASURED));
        EXPECT_EQ(growth->shown.state.env.step[0], t + 1);
        EXPECT_EQ(es_growth_snapshot(growth)->step, t + 1);
        EXPECT_EQ(es_growth_snapshot(growth)->moment, ES_GROWTH_MEASURED);
        note(&queued, growth);
        REQUIRE_OK(es_growth_receive(growth, ES_GROWTH_DECIDED));
        EXPECT_EQ(growth->shown.state.env.step[0], t + 2);
        EXPECT_EQ(es_growth_snapshot(growth)->step, t + 1);
        EXPECT_EQ(es_growth_snapshot(growth)->moment, ES_GROWTH_DECIDED);
        note(&queued, growth);
    }
    EXPECT_STATUS(es_growth_receive(growth, ES_GROWTH_MEASURED), ARGUMENT);
    EXPECT(es_growth_is_over(growth));
    EXPECT(weights == hash_slabs(growth));
    EXPECT_EQ(queued.n, waiting.n);
    for (int i = 0; i < queued.n; i++) {
        EXPECT(queued.hash[i] == waiting.hash[i]);
    }
    destroy_growth(growth);
    destroy_small_dataset(&dataset);
}

// --- episodes that move ---

// Goes on to the end under a wild policy from a decision; returns a hash of all that is left of it.
static uint64_t finish(EsGrowth *growth) {
    EsAction actions[8];
    REQUIRE_OK(es_growth_advance(growth));
    while (!es_growth_is_over(growth)) {
        wild_actions(growth, 9, actions);
        REQUIRE_OK(es_growth_step(growth, actions));
    }
    EXPECT(hash_state(growth) == hash_device_state(growth));
    return hash_bytes(&(uint64_t){hash_state(growth)}, sizeof(uint64_t), hash_slabs(growth));
}

// Saved at several steps and loaded; and moved to another growth, in order and out of it and back.
TEST(an_episode_goes_on_elsewhere_with_the_same_bits) {
    enum { E = 3 };
    make_stripes(&dataset, 64, 40, 0);
    EsGrowthOptions options = short_options(E);
    options.recipe.decay = ES_DECAY_COSINE;
    options.recipe.nesterov = 1;
    EsGrowth *whole = create_on_cuda(options, &dataset);
    SKIP_WITHOUT(whole);
    EsGrowth *moved = create_on_cuda(options, &dataset), *back = create_on_cuda(options, &dataset);
    for (int last = 1; last < options.settings.episode_steps; last += 3) {
        EsAction actions[E];
        REQUIRE_OK(es_growth_reset(whole, 3));
        for (int step = 1; step <= last; step++) {
            REQUIRE_OK(step > 1 ? es_growth_advance(whole) : ES_STATUS_OK);
            wild_actions(whole, 9, actions);
            REQUIRE_OK(es_growth_decide(whole, actions));
        }
        REQUIRE_OK(es_growth_save(whole, temp_path("a.safetensors")));
        REQUIRE_OK(es_growth_take_envs(moved, whole, (int64_t[]){2, 0, 1}));
        EXPECT_EQ(es_growth_episode(moved, 0), 5);
        REQUIRE_OK(es_growth_take_envs(back, moved, (int64_t[]){1, 2, 0}));
        uint64_t hash = finish(whole);
        EXPECT(hash == finish(back));
        EXPECT(hash != finish(moved));
        REQUIRE_OK(es_growth_load(moved, temp_path("a.safetensors")));
        EXPECT_EQ(es_growth_snapshot(moved)->step, last);
        EXPECT(hash == finish(moved));
    }
    destroy_growth(whole);
    destroy_growth(moved);
    destroy_growth(back);
    destroy_small_dataset(&dataset);
}

// Loss scales would be lost: nothing is written, and nothing that is there changes.
TEST(episodes_in_float16_do_not_move) {
    make_stripes(&dataset, 64, 40, 0);
    EsGrowthOptions options = short_options(2);
    options.precision = ES_DTYPE_F16;
    EsGrowth *growth = create_on_cuda(options, &dataset);
    SKIP_WITHOUT(growth);
    EsGrowth *other = create_on_cuda(options, &dataset);
    EsAction actions[2];
    REQUIRE_OK(es_growth_reset(growth, 0));
    REQUIRE_OK(es_growth_reset(other, 0));
    wild_actions(growth, 9, actions);
    REQUIRE_OK(es_growth_decide(growth, actions));
    uint64_t hash = hash_slabs(other);
    EXPECT_STATUS(es_growth_save(growth, temp_path("half.safetensors")), UNSUPPORTED);
    EXPECT(access(temp_path("half.safetensors"), F_OK) != 0);
    EXPECT_STATUS(es_growth_load(growth, temp_path("half.safetensors")), UNSUPPORTED);
    EXPECT_STATUS(es_growth_take_envs(other, growth, (int64_t[]){1, 0}), UNSUPPORTED);
    EXPECT(hash_slabs(other) == hash);
    destroy_growth(growth);
    destroy_growth(other);
    destroy_small_dataset(&dataset);
}

// --- captures that fail ---

static const EsDeviceInterface *working; // of the device whose captures are broken

// Waiting for a stream that records makes the recording invalid: at once, so that every launch into
// it fails, or when all of them are in it.
static EsStatus begin_broken(EsStream *stream) {
    ES_TRY(working->capture_begin(stream));
    EXPECT(working->synchronize(stream) != ES_STATUS_OK);
    return ES_STATUS_OK;
}

static EsStatus end_broken(EsStream *stream, void **handle) {
    EXPECT(working->synchronize(stream) != ES_STATUS_OK);
    EsStatus status = working->capture_end(stream, handle);
    EXPECT(status != ES_STATUS_OK);
    return status;
}

typedef enum Breakage { FORBIDDEN, BROKEN_AT_BEGIN, BROKEN_AT_END, N_BREAKAGES } Breakage;

// The episode of run_waiting without a capture that works.
static uint64_t run_broken(EsGrowthOptions options, Breakage breakage, Trace *trace) {
    EsGrowth *growth = create_on_cuda(options, &dataset);
    EsDevice *device = growth->device;
    working = device->interface;
    EsDeviceInterface broken = *working;
    if (breakage == FORBIDDEN) {
        EsProfileOptions forbidding = {.capacity = 1, .forbids_capture = 1};
        REQUIRE_OK(es_profile_start(device, &forbidding));
    } else if (breakage == BROKEN_AT_BEGIN) {
        broken.capture_begin = begin_broken;
    } else {
        broken.capture_end = end_broken;
    }
    device->interface = &broken;
    uint64_t weights = run_waiting(growth, trace);
    EsGrowthDeviceReport report = es_growth_device_report(growth);
    EXPECT_EQ(report.n_fallbacks, ES_GROWTH_WORK_COUNT);
    EXPECT_EQ(report.n_captures, 0);
    EXPECT_EQ(report.n_replays, 0);
    EXPECT_CONTAINS(report.fallback, "capture failed: ");
    REQUIRE_OK(es_device_status(device)); // what failed in a recording is no failure of the device
    device->interface = working;
    es_profile_stop(device);
    destroy_growth(growth);
    return weights;
}

TEST(captures_that_fail_change_no_bit) {
    make_stripes(&dataset, 64, 40, 0);
    EsGrowthOptions options = short_options(2);
    EsGrowth *growth = create_on_cuda(options, &dataset);
    SKIP_WITHOUT(growth);
    Trace captured, broken;
    uint64_t weights = run_waiting(growth, &captured);
    EsGrowthDeviceReport report = es_growth_device_report(growth);
    EXPECT_EQ(report.n_captures, ES_GROWTH_WORK_COUNT);
    EXPECT_EQ(report.n_fallbacks, 0);
    destroy_growth(growth);
    for (int breakage = 0; breakage < N_BREAKAGES; breakage++) {
        EXPECT(weights == run_broken(options, (Breakage)breakage, &broken));
        EXPECT_EQ(broken.n, captured.n);
        for (int i = 0; i < captured.n; i++) {
            EXPECT(broken.hash[i] == captured.hash[i]);
        }
    }
    destroy_small_dataset(&dataset);
}

// An end closes the innermost range: one that failed work left open would be closed in place of the
// caller's, which would then go on to the report.
TEST(failed_work_leaves_no_range_open) {
    make_stripes(&dataset, 64, 40, 0);
    EsGrowth *growth = create_on_cuda(short_options(1), &dataset);
    SKIP_WITHOUT(growth);
    EsDevice *device = growth->device;
    REQUIRE_OK(es_growth_reset(growth, 0));
    REQUIRE_OK(es_profile_start(device, &(EsProfileOptions){.capacity = 64}));
    es_profile_range_begin(device, growth->stream, "caller");
    device->status = ES_STATUS_DEVICE; // as a launch that failed leaves it
    EXPECT_STATUS(es_growth_queue_advance(growth), DEVICE);
    es_device_forgive(device);
    es_profile_range_end(device, growth->stream);
    es_profile_range_begin(device, growth->stream, "after");
    es_profile_range_end(device, growth->stream);
    EsProfileReport report;
    REQUIRE_OK(es_profile_report(device, &report));
    double caller_end_ms = NAN, after_begin_ms = NAN;
    for (int i = 0; i < report.n_spans; i++) {
        const EsProfileSpan *span = &report.spans[i];
        caller_end_ms = strcmp(span->name, "caller") == 0 ? span->end_ms : caller_end_ms;
        after_begin_ms = strcmp(span->name, "after") == 0 ? span->begin_ms : after_begin_ms;
    }
    EXPECT(caller_end_ms <= after_begin_ms);
    es_profile_report_destroy(&report);
    es_profile_stop(device);
    destroy_growth(growth);
    destroy_small_dataset(&dataset);
}

// --- what a step costs the host ---

static EsDeviceCounters count_step(int64_t n_envs) {
    EsGrowthOptions options = short_options(n_envs);
    EsGrowth *growth = create_on_cuda(options, &dataset);
    REQUIRE_OK(es_growth_reset(growth, 0));
    for (int i = 0; i < 3; i++) { // run, record, replay
        step_all(growth, germinate(i % 2, ES_BLUEPRINT_NORM, 0));
    }
    EsDeviceCounters before = es_device_counters(growth->device);
    step_all(growth, es_action_wait());
    step_all(growth, es_action_wait());
    EsDeviceCounters counted = es_device_counters_since(growth->device, before);
    EsGrowthTimes times = es_growth_times(growth);
    EXPECT(times.train_ms >= 0 && times.validate_ms >= 0 && times.decide_ms >= 0);
    destroy_growth(growth);
    return counted;
}

TEST(a_step_waits_once_whatever_the_number_of_environments) {
    make_stripes(&dataset, 64, 40, 0);
    EsGrowth *probe = create_on_cuda(short_options(1), &dataset);
    SKIP_WITHOUT(probe);
    destroy_growth(probe);
    EsDeviceCounters few = count_step(2), many = count_step(13);
    EXPECT_EQ(few.n_synchronizations, 2); // of two steps
    EXPECT_EQ(few.n_allocations, 0);
    EXPECT_EQ(few.n_copies, 2 * 3); // actions, the state kept, the packed copy
    EXPECT_EQ(many.n_synchronizations, few.n_synchronizations);
    EXPECT_EQ(many.n_allocations, 0);
    EXPECT_EQ(many.n_copies, few.n_copies);
    EXPECT_EQ(few.copied_bytes[ES_COPY_TO_DEVICE], (int64_t)(2 * 2 * sizeof(EsAction)));
    EXPECT_EQ(many.copied_bytes[ES_COPY_TO_DEVICE], (int64_t)(2 * 13 * sizeof(EsAction)));
    EXPECT(many.copied_bytes[ES_COPY_TO_HOST] > few.copied_bytes[ES_COPY_TO_HOST]);
    EXPECT_EQ(many.n_launches, few.n_launches);
    EXPECT_EQ(many.n_launches, 2 * ES_GROWTH_WORK_COUNT); // every part is a replay
    destroy_small_dataset(&dataset);
}

// --- the rest of the interface ---

TEST(seeds_are_worth_what_they_are_worth_together) {
    enum { E = 3 };
    make_stripes(&dataset, 96, 40, 20);
    EsGrowthOptions options = stripes_options("r0c0,r0c1", E);
    EsGrowth *growth = create_on_cuda(options, &dataset);
    SKIP_WITHOUT(growth);
    REQUIRE_OK(es_growth_reset(growth, 2));
    step_all(growth, germinate(0, ES_BLUEPRINT_CONV_LIGHT, 0));
    wait_for_stage(growth, 0, ES_STAGE_HOLDING);
    REQUIRE_OK(es_growth_attribute(growth));
    for (int e = 0; e < E; e++) {
        const float *accuracy = es_growth_ablation_accuracy(growth) + e * ES_ABLATION_PATTERNS_MAX;
        EXPECT_EQ(es_growth_ablations(growth)[e].n, 1);
        EXPECT_NEAR(es_growth_shapley(growth)[2 * e], (double)accuracy[0] - (double)accuracy[1],
                    1e-9);
        EXPECT(isnan(es_growth_shapley(growth)[2 * e + 1]));
        EXPECT(isnan(growth->results[e].test_loss));
    }
    REQUIRE_OK(es_growth_test(growth));
    EXPECT(growth->results[0].test_loss > 0 && growth->results[0].test_accuracy >= 0);
    destroy_growth(growth);
    destroy_small_dataset(&dataset);
}

// The governor prunes a broken host's seed; a reward that accounts for it takes it off the state,
// that of the device, too: the next packed copy brings it back.
TEST(settled_prunes_are_settled_on_the_device) {
    enum { E = 2 };
    make_stripes(&dataset, 64, 40, 0);
    EsGrowth *growth = create_on_cuda(short_options(E), &dataset);
    SKIP_WITHOUT(growth);
    REQUIRE_OK(es_growth_reset(growth, 0));
    step_all(growth, germinate(0, ES_BLUEPRINT_NORM, 0));
    const float nan = NAN;
    put(growth, growth->store->parameters.data, &nan, sizeof nan); // a weight of environment 0
    step_all(growth, es_action_wait());                            // trains on it
    EXPECT_EQ(es_growth_snapshot(growth)->state.env.panic[0], ES_PANIC_NAN);
    const EsAction wait[E] = {es_action_wait(), es_action_wait()};
    REQUIRE_OK(es_growth_decide(growth, wait));
    EXPECT_EQ(es_growth_snapshot(growth)->state.env.n_unrewarded_prunes[0], 1);
    EXPECT_EQ(es_growth_snapshot(growth)->state.env.n_unrewarded_prunes[1], 0);
    REQUIRE_OK(es_growth_settle_prunes(growth, (const int32_t[E]){1, 0}));
    REQUIRE_OK(es_growth_advance(growth));
    EXPECT_EQ(es_growth_snapshot(growth)->moment, ES_GROWTH_MEASURED);
    EXPECT_EQ(es_growth_snapshot(growth)->state.env.n_unrewarded_prunes[0], 0);
    EXPECT_EQ(es_growth_snapshot(growth)->state.env.n_unrewarded_prunes[1], 0);
    destroy_growth(growth);
    destroy_small_dataset(&dataset);
}

TEST(others_report_with_the_packed_copy) {
    make_stripes(&dataset, 64, 40, 0);
    EsGrowth *growth = create_on_cuda(stripes_options("r0c0", 2), &dataset);
    SKIP_WITHOUT(growth);
    void *room = NULL, *again = NULL;
    REQUIRE_OK(es_growth_reserve_report(growth, 100, &room));
    EXPECT_STATUS(es_growth_reserve_report(growth, 100, &again), ARGUMENT);
    char text[100] = "what others say";
    put(growth, room, text, sizeof text);
    REQUIRE_OK(es_growth_reset(growth, 0));
    EXPECT_TEXT(es_growth_received_report(growth), text);
    destroy_growth(growth);
    destroy_small_dataset(&dataset);
}

TEST(wrong_labels_are_found) {
    make_stripes(&dataset, 64, 40, 0);
    dataset.labels[70] = 256; // in the validation split
    EsGrowth *growth = create_on_cuda(stripes_options("r0c0", 2), &dataset);
    SKIP_WITHOUT(growth);
    EXPECT_STATUS(es_growth_reset(growth, 0), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "validation are outside 0..9");
    destroy_growth(growth);
    destroy_small_dataset(&dataset);
}
