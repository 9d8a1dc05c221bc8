// Groups of candidates: no network ever exceeds the limit of parameters, whatever the policy wants,
// and candidates that stay go on as they do among the others.
#include "runs/fit/fit_group.h"

#include <stdatomic.h>
#include <unistd.h>

#include "es_test.h"
#include "temp_folder.h"

#include "growth/growing_case.h"

enum { STEPS = 40 };

typedef struct Case {
    EsDataset dataset;
    EsDevice *device;
    EsFitGroupOptions options;
} Case;

// Hosts of 375 parameters with slots in all four places.
static void begin_case(Case *test, const char *policy, int64_t max_parameters, uint64_t seed) {
    make_small_dataset(&test->dataset, 64, 40);
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 2}, &test->device));
    EsGrowthOptions growth = small_options("all", 1);
    growth.settings.episode_steps = STEPS;
    growth.seed = seed;
    growth.n_validation_images = seed % 2 == 0 ? 40 : 24; // all, or some to decide on
    test->options = (EsFitGroupOptions){.growth = growth,
                                        .dataset = &test->dataset,
                                        .device = test->device,
                                        .cpu = test->device,
                                        .policy = policy,
                                        .max_parameters = max_parameters};
}

static void end_case(Case *test) {
    es_device_close(test->device);
    destroy_small_dataset(&test->dataset);
}

static EsFitGroup *create_group(const Case *test, int n, int first) {
    EsFitGroup *group = NULL;
    REQUIRE_OK(es_fit_group_create(&test->options, n, first, &group));
    return group;
}

static int count_seeds(const EsFitGroup *group) {
    const EsGrowthState *state = &es_growth_snapshot(group->growth)->state;
    int n = 0;
    for (int64_t i = 0; i < state->n_envs * state->n_slots; i++) {
        n += es_stage_in(state->seed.stage[i], ES_STAGES_LIVING);
    }
    return n;
}

static void check_networks(const EsFitGroup *group, int64_t most) {
    for (int i = 0; i < group->n; i++) {
        EXPECT(es_growth_parameter_count(group->growth, i) <= most);
    }
}

// Losses and accuracies are those of the whole validation split.
static void check_measured(const EsFitGroup *group) {
    double loss[8], accuracy[8];
    REQUIRE_OK(
        es_growth_evaluate(group->growth, &group->options.dataset->validation, loss, accuracy));
    for (int i = 0; i < group->n; i++) {
        EXPECT_NEAR(group->loss[i], loss[i], 0);
        EXPECT_NEAR(group->accuracy[i], accuracy[i], 0);
    }
}

TEST(no_candidate_exceeds_the_limit) {
    static const int64_t limits[] = {375, 400, 450, 600, 1000, 3000};
    for (size_t k = 0; k < ES_COUNT_OF(limits); k++) {
        Case test;
        begin_case(&test, "random", limits[k], k);
        EsFitGroup *group = create_group(&test, 6, 0);
        int n_seeds = 0;
        int64_t n_most = 0;
        for (int step = 0; step < STEPS; step++) {
            REQUIRE_OK(es_fit_group_advance(group));
            check_networks(group, limits[k]);
            check_measured(group);
            REQUIRE_OK(es_fit_group_decide(group));
            check_networks(group, limits[k]);
            n_seeds += count_seeds(group);
            for (int i = 0; i < group->n; i++) {
                n_most = ES_MAX(n_most, es_growth_parameter_count(group->growth, i));
            }
        }
        // nothing fits beside the host alone; a larger limit is made use of
        EXPECT((n_seeds > 0) == (limits[k] > 375));
        EXPECT(n_most > limits[k] - 100 || limits[k] == 3000);
        es_fit_group_destroy(group);
        end_case(&test);
    }
}

// The same candidates in a group of their own from the start.
TEST(candidates_that_stay_go_on_as_they_were) {
    static const char *const policies[] = {"random", "heuristic", "eager"};
    for (size_t p = 0; p < ES_COUNT_OF(policies); p++) {
        Case test;
        begin_case(&test, policies[p], 2000, 3);
        EsFitGroup *whole = create_group(&test, 5, 10), *part = create_group(&test, 5, 10);
        for (int step = 1; step <= STEPS; step++) {
            REQUIRE_OK(es_fit_group_advance(whole));
            REQUIRE_OK(es_fit_group_advance(part));
            REQUIRE_OK(es_fit_group_decide(whole));
            REQUIRE_OK(es_fit_group_decide(part));
            if (step == 9) {
                REQUIRE_OK(es_fit_group_keep(part, (int[]){1, 2, 4}, 3));
            } else if (step == 20) {
                REQUIRE_OK(es_fit_group_keep(part, (int[]){0, 2}, 2)); // 11 and 14
            }
            for (int i = 0; i < part->n; i++) {
                int there = part->candidates[i] - 10;
                EXPECT(hash_env(part->growth, i) == hash_env(whole->growth, there) || step == 9 ||
                       step == 20); // results are of the next step
                EXPECT_NEAR(part->accuracy[i], step == 9 || step == 20 ? 0 : whole->accuracy[there],
                            0);
            }
        }
        EXPECT_EQ(part->n, 2);
        EXPECT_EQ(part->candidates[0], 11);
        EXPECT_EQ(part->candidates[1], 14);
        REQUIRE_OK(es_fit_group_keep(part, NULL, 0));
        EXPECT_EQ(part->n, 0);
        EXPECT(part->growth == NULL && part->policy == NULL);
        es_fit_group_destroy(whole);
        es_fit_group_destroy(part);
        end_case(&test);
    }
}

// Runs all steps, with graphs made ahead or without; candidates are dropped on the way.
static uint64_t grow_ahead(int n_ahead, EsPrefetchCounts *counts) {
    Case test;
    EsFitRails *rails = NULL;
    uint64_t hash = 0;
    EsRailsSettings settings = {.is_on = 1, .prefetch = n_ahead, .prefetch_timeout_ms = 60000};
    begin_case(&test, "eager", 2000, 6);
    REQUIRE_OK(es_fit_rails_create(&settings, &rails));
    test.options.rails = rails;
    EsFitGroup *group = create_group(&test, 4, 0);
    for (int step = 0; step < STEPS; step++) {
        es_rails_begin_epoch(&rails->rails);
        REQUIRE_OK(es_fit_group_advance(group));
        while (n_ahead > 0 && es_seed_prefetch_counts(group->prefetch).in_flight > 0) {
            usleep(1000);
        }
        REQUIRE_OK(es_fit_group_decide(group));
        if (step == 20) {
            REQUIRE_OK(es_fit_group_keep(group, (int[]){0, 3}, 2));
        }
    }
    for (int i = 0; i < group->n; i++) {
        hash = hash * 31 + hash_env(group->growth, i);
    }
    es_fit_group_destroy(group);
    *counts = rails->prefetch;
    es_fit_rails_destroy(rails);
    end_case(&test);
    return hash;
}

TEST(graphs_made_ahead_change_no_bit) {
    EsPrefetchCounts none, some;
    EXPECT(grow_ahead(0, &none) == grow_ahead(64, &some));
    EXPECT_EQ(none.requested, 0);
    EXPECT(some.requested > 0);
    EXPECT(some.used > 0);
    EXPECT_EQ(some.in_flight, 0);
    EXPECT_EQ(some.ready, 0);
    EXPECT_EQ(some.failed, 0);
    EXPECT_EQ(some.requested, some.used + some.canceled + some.stale + some.timed_out);
    printf("%lld requested, %lld used, %lld canceled, %lld stale\n", (long long)some.requested,
           (long long)some.used, (long long)some.canceled, (long long)some.stale);
}

TEST(a_loaded_group_goes_on_with_the_same_bits) {
    Case test;
    begin_case(&test, "random", 2000, 4);
    EsFitGroup *group = create_group(&test, 4, 0), *loaded = create_group(&test, 4, 0);
    for (int step = 0; step < 12; step++) {
        REQUIRE_OK(es_fit_group_advance(group));
        REQUIRE_OK(es_fit_group_decide(group));
    }
    REQUIRE_OK(es_fit_group_keep(group, (int[]){0, 3}, 2));
    const char *growth = temp_path("growth.safetensors"), *policy = temp_path("policy.safetensors");
    REQUIRE_OK(es_fit_group_save(group, growth, policy));
    REQUIRE_OK(es_fit_group_load(loaded, (int[]){0, 3}, 2, growth, policy));
    for (int step = 0; step < 12; step++) {
        REQUIRE_OK(es_fit_group_advance(group));
        REQUIRE_OK(es_fit_group_advance(loaded));
        REQUIRE_OK(es_fit_group_decide(group));
        REQUIRE_OK(es_fit_group_decide(loaded));
        for (int i = 0; i < 2; i++) {
            EXPECT(hash_env(group->growth, i) == hash_env(loaded->growth, i));
            EXPECT_NEAR(group->accuracy[i], loaded->accuracy[i], 0);
        }
    }
    // of another number of candidates
    EXPECT_STATUS(es_fit_group_load(loaded, (int[]){0, 1, 3}, 3, growth, policy), INPUT);
    es_fit_group_destroy(group);
    es_fit_group_destroy(loaded);
    end_case(&test);
}

TEST(a_policy_file_may_not_change_on_the_way) {
    Case test;
    char policy[512];
    write_temp_text("schedule", "2 * germinate r0c0 norm\n");
    snprintf(policy, sizeof policy, "script:%s", temp_path("schedule"));
    begin_case(&test, policy, 2000, 1);
    EsFitGroup *group = create_group(&test, 3, 0);
    REQUIRE_OK(es_fit_group_advance(group));
    REQUIRE_OK(es_fit_group_decide(group));
    REQUIRE_OK(es_fit_group_keep(group, (int[]){0, 2}, 2));
    write_temp_text("schedule", "3 * germinate r0c0 norm\n");
    REQUIRE_OK(es_fit_group_advance(group));
    REQUIRE_OK(es_fit_group_decide(group));
    EXPECT_STATUS(es_fit_group_keep(group, (int[]){1}, 1), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "has changed since the fit began");
    EXPECT_EQ(group->n, 2); // it is as it was
    es_fit_group_destroy(group);
    end_case(&test);
}

// A policy in training for the hosts of a group.
static void save_policy(const Case *test, const EsFitGroup *group, const char *path) {
    const EsGrowthSettings *settings = es_growth_settings(group->growth);
    const EsPolicySpec spec = es_policy_spec_default(settings->n_slots, 16);
    const EsPpoSettings ppo = es_policy_ppo_defaults();
    const EsPolicyContext context = {.settings = settings,
                                     .slots = es_growth_model(group->growth)->slots,
                                     .device = test->device,
                                     .n_envs = 1,
                                     .seed = 1};
    EsPolicy *policy = NULL;
    REQUIRE_OK(es_policy_create(&spec, &ppo, &context, STEPS, &policy));
    REQUIRE_OK(es_policy_save(policy, path));
    es_policy_destroy(policy);
}

TEST(the_policy_is_named_with_a_reason) {
    Case test;
    begin_case(&test, "", 2000, 1);
    test.options.policy_folder = "";
    EsFitGroup *group = create_group(&test, 1, 0);
    EXPECT_TEXT(group->policy_name, "eager");
    EXPECT_TEXT(group->reason, "there is no policy in ES_POLICY_DIR, nor beside the program");
    es_fit_group_destroy(group);
    // a file that is no policy is passed over, and the reason says so
    write_temp_text("broken.safetensors", "nothing");
    write_temp_text("notes.txt", "nothing");
    test.options.policy_folder = temp_folder();
    group = create_group(&test, 1, 0);
    EXPECT_TEXT(group->policy_name, "eager");
    EXPECT_CONTAINS(group->reason, "broken.safetensors does not fit: ");
    // one that was trained for this host is taken
    save_policy(&test, group, temp_path("made.safetensors"));
    es_fit_group_destroy(group);
    group = create_group(&test, 1, 0);
    EXPECT_TEXT(group->policy_name, temp_path("made.safetensors"));
    EXPECT_TEXT(group->reason, "it is for hosts of such slots, epochs and budgets");
    es_fit_group_destroy(group);
    test.options.policy = "nothing-like-it";
    EXPECT_STATUS(es_fit_group_create(&test.options, 1, 0, &group), ARGUMENT);
    EXPECT(group == NULL);
    end_case(&test);
}

// --- rails ---

static EsFitRails *make_rails(float deadline_ms, const EsDeadlineDrill *drill) {
    const EsRailsSettings settings = {.is_on = 1,
                                      .controller_deadline_ms = deadline_ms,
                                      .breaker_failures = 100,
                                      .breaker_successes = 1};
    EsFitRails *rails = NULL;
    REQUIRE_OK(es_fit_rails_create(&settings, &rails));
    rails->drill = drill;
    return rails;
}

static void set_seed_deadline(EsFitRails *rails, float deadline_ms, const EsDeadlineDrill *drill) {
    rails->rails.settings.seed_deadline_ms = deadline_ms;
    rails->seed_drill = drill;
    if (rails->deadline == NULL && deadline_ms > 0) {
        REQUIRE_OK(es_deadline_create(&rails->deadline));
    }
}

static EsRailsReason run_epoch(EsFitGroup *group, EsFitRails *rails) {
    es_rails_begin_epoch(&rails->rails);
    REQUIRE_OK(es_fit_group_advance(group));
    REQUIRE_OK(es_fit_group_decide(group));
    return es_rails_assess(&rails->rails, &(EsRailsEpoch){.latency_ms = 1, .hook_ms = 1}, 0).reason;
}

// With deadlines that are met, and with none, on a thread or not: the same bits as without rails.
TEST(rails_that_hold_change_nothing) {
    static const char *const policies[] = {"random", "heuristic", "eager"};
    for (size_t p = 0; p < 4 * ES_COUNT_OF(policies); p++) {
        Case test;
        begin_case(&test, policies[p / 4], 2000, 3);
        EsFitGroup *plain = create_group(&test, 5, 10);
        EsFitRails *rails = make_rails(p % 2 == 0 ? 60e3f : 0, NULL);
        set_seed_deadline(rails, p % 4 < 2 ? 60e3f : 0, NULL);
        test.options.rails = rails;
        EsFitGroup *railed = create_group(&test, 5, 10);
        EXPECT((railed->controller != NULL) == (p % 2 == 0));
        for (int step = 1; step <= STEPS; step++) {
            REQUIRE_OK(es_fit_group_advance(plain));
            REQUIRE_OK(es_fit_group_decide(plain));
            EXPECT_EQ(run_epoch(railed, rails), ES_RAILS_NONE);
            if (step == 9) {
                REQUIRE_OK(es_fit_group_keep(plain, (int[]){1, 2, 4}, 3));
                REQUIRE_OK(es_fit_group_keep(railed, (int[]){1, 2, 4}, 3));
            }
            for (int i = 0; i < plain->n; i++) {
                EXPECT(hash_env(plain->growth, i) == hash_env(railed->growth, i));
            }
        }
        if (p % 4 == 1) { // seeds alone
            EsDeadlineCounts counts = es_deadline_counts(rails->deadline);
            EXPECT(counts.completed > 2);
            EXPECT_EQ(counts.submitted, counts.completed);
            EXPECT(rails->rails.seeds_ms > 0);
        }
        es_fit_group_destroy(plain);
        es_fit_group_destroy(railed);
        es_fit_rails_destroy(rails);
        end_case(&test);
    }
}

// A level that a checkpoint has brought back is seen by others before the first epoch ends.
TEST(a_level_that_was_loaded_is_raised_at_once) {
    for (int level = ES_EMERGENCY_NOTICE; level <= ES_EMERGENCY_CONSERVATIVE; level++) {
        EsFitRails *rails = make_rails(0, NULL);
        EsSignal signal;
        char text[1024] = "";
        remove(temp_path("lines"));
        snprintf(rails->rails.settings.emergency_file, sizeof rails->rails.settings.emergency_file,
                 "%s", temp_path("lines"));
        rails->rails.settings.emergency_timeout_ms = 60e3f;
        rails->rails.settings.emergency_per_minute = 60;
        rails->rails.level = (EsEmergencyLevel)level;
        for (int i = 0; i < 2; i++) { // the second finds all there
            REQUIRE_OK(es_fit_rails_open_signal(rails, temp_path("."), 5));
        }
        REQUIRE_OK(es_signal_read(temp_path("."), &signal));
        EXPECT_EQ(signal.is_raised, level > ES_EMERGENCY_NOTICE);
        EXPECT_EQ(signal.level, level);
        EXPECT_TEXT(signal.reason, level > ES_EMERGENCY_NOTICE ? "resumed" : "");
        FILE *file = fopen(temp_path("lines"), "re");
        EXPECT((file != NULL) == (level > ES_EMERGENCY_NOTICE));
        if (file != NULL) {
            EXPECT(fgets(text, sizeof text, file) != NULL);
            EXPECT_CONTAINS(text, "\"reason\":\"resumed\"");
            EXPECT_CONTAINS(text, "\"epoch\":5");
            EXPECT(fgets(text, sizeof text, file) == NULL);
            fclose(file);
        }
        es_fit_rails_destroy(rails);
    }
}

// A controller that says no, or stands at a gate, in some decisions.
typedef struct Drill {
    atomic_int n_calls;
    int first_bad, last_bad; // numbers of calls, from 1
    int hangs;               // until is_open; else it fails
    atomic_int is_open;
} Drill;

static EsStatus misbehave(void *context) {
    Drill *drill = context;
    int call = atomic_fetch_add(&drill->n_calls, 1) + 1;
    if (call < drill->first_bad || call > drill->last_bad) {
        return ES_STATUS_OK;
    }
    while (drill->hangs && !atomic_load(&drill->is_open)) {
        usleep(1000);
    }
    return drill->hangs ? ES_STATUS_OK : ES_FAIL(INPUT, "call %d is refused", call);
}

// A call that has missed its deadline may not even have begun on a busy machine.
static void wait_for_calls(Drill *drill, int n) {
    for (int i = 0; i < 60000 && atomic_load(&drill->n_calls) < n; i++) {
        usleep(1000);
    }
}

TEST(a_controller_that_fails_is_waited_out) {
    static Drill drill = {.first_bad = 3, .last_bad = 3};
    const EsDeadlineDrill hook = {misbehave, &drill};
    Case test;
    begin_case(&test, "eager", 2000, 3);
    EsFitRails *rails = make_rails(60e3f, &hook);
    test.options.rails = rails;
    EsFitGroup *group = create_group(&test, 3, 0);
    EXPECT_EQ(run_epoch(group, rails), ES_RAILS_NONE);
    EXPECT_EQ(run_epoch(group, rails), ES_RAILS_NONE);
    EXPECT_EQ(group->is_answered, 1);
    EXPECT_EQ(run_epoch(group, rails), ES_RAILS_TAMIYO_ERROR);
    EXPECT_EQ(group->is_answered, 0);
    EXPECT_CONTAINS(rails->rails.events[0].attributes, "call 3 is refused");
    for (int i = 0; i < group->n; i++) {
        EXPECT_EQ(es_action_value(&group->actions[i], ES_HEAD_OP), ES_GROWTH_OP_WAIT);
    }
    EXPECT(rails->rails.is_conservative);
    EXPECT_EQ(run_epoch(group, rails), ES_RAILS_NONE); // it was not asked, and training went well
    EXPECT_EQ(atomic_load(&drill.n_calls), 3);
    EXPECT_EQ(group->is_answered, 0);
    EXPECT_EQ(run_epoch(group, rails), ES_RAILS_NONE);
    EXPECT_EQ(atomic_load(&drill.n_calls), 4);
    EXPECT_EQ(group->is_answered, 1);
    es_fit_group_destroy(group);
    es_fit_rails_destroy(rails);
    end_case(&test);
}

TEST(a_controller_that_hangs_is_given_up) {
    static Drill drill = {.first_bad = 2, .last_bad = 5, .hangs = 1};
    const EsDeadlineDrill hook = {misbehave, &drill};
    Case test;
    begin_case(&test, "random", 2000, 3);
    EsFitRails *rails = make_rails(2000, &hook);
    test.options.rails = rails;
    EsFitGroup *group = create_group(&test, 3, 0);
    EXPECT_EQ(run_epoch(group, rails), ES_RAILS_NONE);
    rails->rails.settings.controller_deadline_ms = 20;
    for (int n = 1; n <= ES_DEADLINE_ABANDONED_MAX; n++) {
        EXPECT_EQ(run_epoch(group, rails), ES_RAILS_TAMIYO_TIMEOUT);
        EXPECT_EQ(group->is_answered, 0);
        wait_for_calls(&drill, n + 1);
        EXPECT_EQ(rails->rails.counts.tamiyo_timeouts, n);
        EXPECT(group->policy != NULL);
        EXPECT_EQ(run_epoch(group, rails), ES_RAILS_NONE); // conservative: not asked
    }
    EXPECT_EQ(run_epoch(group, rails), ES_RAILS_NONE);
    EXPECT(rails->rails.is_spent);
    EXPECT_EQ(es_deadline_counts(rails->deadline).abandoned, ES_DEADLINE_ABANDONED_MAX);
    // candidates go on without it: dropped, saved, loaded
    REQUIRE_OK(es_fit_group_keep(group, (int[]){0, 2}, 2));
    const char *growth = temp_path("growth.safetensors"), *policy = temp_path("policy.safetensors");
    REQUIRE_OK(es_fit_group_save(group, growth, policy));
    REQUIRE_OK(es_fit_group_load(group, (int[]){0, 2}, 2, growth, policy));
    EXPECT_EQ(run_epoch(group, rails), ES_RAILS_NONE);
    EXPECT_EQ(atomic_load(&drill.n_calls), 5);
    es_fit_group_destroy(group);
    es_fit_rails_destroy(rails);
    end_case(&test);
    atomic_store(&drill.is_open, 1); // the threads that were given up end by themselves
    usleep(50000);
}

static void expect_all_wait(const EsFitGroup *group) {
    for (int i = 0; i < group->n; i++) {
        EXPECT_EQ(es_action_value(&group->actions[i], ES_HEAD_OP), ES_GROWTH_OP_WAIT);
        EXPECT_EQ(es_growth_snapshot(group->growth)->state.env.n_germinated[i], 0);
    }
}

// Epochs up to the next in which seeds are prepared.
static EsRailsReason run_to_seeds(EsFitGroup *group, EsFitRails *rails, Drill *drill) {
    int n_before = atomic_load(&drill->n_calls);
    EsRailsReason reason = ES_RAILS_NONE;
    for (int i = 0; i < STEPS / 2 && atomic_load(&drill->n_calls) == n_before; i++) {
        EXPECT_EQ(reason, ES_RAILS_NONE);
        reason = run_epoch(group, rails);
        if (reason == ES_RAILS_KASMINA_TIMEOUT) {
            wait_for_calls(drill, n_before + 1);
        }
    }
    EXPECT_EQ(atomic_load(&drill->n_calls), n_before + 1);
    return reason;
}

TEST(seeds_that_fail_are_not_planted) {
    static Drill drill = {.first_bad = 1, .last_bad = 1};
    const EsDeadlineDrill hook = {misbehave, &drill};
    Case test;
    begin_case(&test, "eager", 2000, 3);
    EsFitRails *rails = make_rails(0, NULL);
    set_seed_deadline(rails, 60e3f, &hook);
    test.options.rails = rails;
    EsFitGroup *group = create_group(&test, 3, 0);
    EXPECT_EQ(run_to_seeds(group, rails, &drill), ES_RAILS_KASMINA_ERROR);
    EXPECT_TEXT(rails->rails.n_events > 0 ? rails->rails.events[0].name : "",
                "tolaria.kasmina_error");
    EXPECT_CONTAINS(rails->rails.events[0].attributes, "call 1 is refused");
    EXPECT_CONTAINS(rails->rails.events[0].attributes, "\"operations\": 3");
    EXPECT_EQ(rails->rails.counts.kasmina_timeouts, 0);
    expect_all_wait(group);
    EXPECT_EQ(run_epoch(group, rails), ES_RAILS_NONE); // conservative: nothing is decided
    EXPECT_EQ(atomic_load(&drill.n_calls), 1);
    EXPECT_EQ(run_to_seeds(group, rails, &drill), ES_RAILS_NONE);
    EXPECT_EQ(es_growth_snapshot(group->growth)->state.env.n_germinated[0], 1);
    es_fit_group_destroy(group);
    es_fit_rails_destroy(rails);
    end_case(&test);
}

// Two threads of the controller and two of seeds that hang are four.
TEST(seeds_that_are_late_are_not_planted) {
    static Drill seeds = {.first_bad = 1, .last_bad = 2, .hangs = 1};
    static Drill policy = {.first_bad = 1000, .last_bad = 1000, .hangs = 1};
    const EsDeadlineDrill seed_hook = {misbehave, &seeds}, policy_hook = {misbehave, &policy};
    Case test;
    begin_case(&test, "eager", 2000, 3);
    EsFitRails *rails = make_rails(60e3f, &policy_hook);
    set_seed_deadline(rails, 50, &seed_hook);
    test.options.rails = rails;
    EsFitGroup *group = create_group(&test, 3, 0);
    for (int n = 1; n <= 2; n++) {
        EXPECT_EQ(run_to_seeds(group, rails, &seeds), ES_RAILS_KASMINA_TIMEOUT);
        EXPECT_TEXT(rails->rails.n_events > 0 ? rails->rails.events[0].name : "",
                    "tolaria.kasmina_timeout");
        EXPECT_EQ(rails->rails.counts.kasmina_timeouts, n);
        expect_all_wait(group);
        EXPECT_EQ(run_epoch(group, rails), ES_RAILS_NONE); // conservative
    }
    rails->rails.settings.controller_deadline_ms = 50;
    policy.first_bad = 1;
    for (int n = 1; n <= 2; n++) {
        EXPECT_EQ(run_epoch(group, rails), ES_RAILS_TAMIYO_TIMEOUT);
        EXPECT_EQ(run_epoch(group, rails), ES_RAILS_NONE);
    }
    EXPECT_EQ(run_epoch(group, rails), ES_RAILS_NONE);
    EXPECT(rails->rails.is_spent);
    EXPECT_EQ(es_deadline_counts(rails->deadline).abandoned, ES_DEADLINE_ABANDONED_MAX);
    EXPECT_EQ(atomic_load(&seeds.n_calls), 2);
    expect_all_wait(group);
    es_fit_group_destroy(group);
    es_fit_rails_destroy(rails);
    end_case(&test);
    atomic_store(&seeds.is_open, 1); // the threads that were given up end by themselves
    atomic_store(&policy.is_open, 1);
    usleep(50000);
}
