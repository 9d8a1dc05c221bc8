// The assessment of epochs, event by event, and the breaker's states.
#include "fit/rails.h"

#include <string.h>

#include "es_test.h"

#define SECOND 1000000000LL

static const EsRailsSettings settings = {.is_on = 1,
                                         .epoch_budget_ms = 18,
                                         .hook_budget_ms = 5,
                                         .breaker_failures = 3,
                                         .breaker_successes = 2,
                                         .breaker_seconds = 30,
                                         .halt_failures = 5};

static int has_event(const EsRails *rails, const char *name, const char *attributes) {
    for (int i = 0; i < rails->n_events; i++) {
        if (strcmp(rails->events[i].name, name) == 0 &&
            strcmp(rails->events[i].attributes, attributes) == 0) {
            return 1;
        }
    }
    return 0;
}

static EsRailsVerdict run_epoch(EsRails *rails, double latency_ms, double hook_ms, int64_t now_ns) {
    const EsRailsEpoch epoch = {.latency_ms = latency_ms, .hook_ms = hook_ms};
    es_rails_begin_epoch(rails);
    return es_rails_assess(rails, &epoch, now_ns);
}

TEST(a_good_epoch_changes_nothing) {
    EsRails rails;
    es_rails_begin(&rails, &settings);
    for (int i = 0; i < 10; i++) {
        // a budget is what an epoch may take, to its end
        EsRailsVerdict verdict = run_epoch(&rails, 18, 5, i);
        EXPECT_EQ(verdict.reason, ES_RAILS_NONE);
        EXPECT_EQ(verdict.must_halt, 0);
        EXPECT_EQ(rails.n_events, 0);
    }
    EXPECT_EQ(rails.counts.epochs, 10);
    EXPECT_EQ(rails.counts.failed, 0);
    EXPECT_EQ(rails.breaker.state, ES_BREAKER_CLOSED);
    EXPECT_EQ(rails.level, ES_EMERGENCY_NOTICE);
    EXPECT(es_rails_asks_controller(&rails));
}

TEST(the_first_that_holds_is_the_reason) {
    EsRails rails;
    es_rails_begin(&rails, &settings);
    EXPECT_EQ(run_epoch(&rails, 10, 5.5, 0).reason, ES_RAILS_HOOK_BUDGET);
    EXPECT(has_event(&rails, "tolaria.hook_budget_exceeded", "{\"latency_ms\": 5.500}"));
    es_rails_begin(&rails, &settings);
    es_rails_begin_epoch(&rails);
    es_rails_controller_failed(&rails, "a \"name\"\n with \\");
    EXPECT(has_event(&rails, "tolaria.tamiyo_error", "{\"error\": \"a \\\"name\\\"? with \\\\\"}"));
    EXPECT_EQ(es_rails_assess(&rails, &(EsRailsEpoch){.latency_ms = 10, .hook_ms = 6}, 0).reason,
              ES_RAILS_TAMIYO_ERROR);
    es_rails_begin(&rails, &settings);
    es_rails_begin_epoch(&rails);
    es_rails_controller_timed_out(&rails, 2);
    EXPECT_EQ(es_rails_assess(&rails, &(EsRailsEpoch){.latency_ms = 20, .hook_ms = 6}, 0).reason,
              ES_RAILS_EPOCH_BUDGET);
    EXPECT_EQ(rails.counts.tamiyo_timeouts, 1);
    EXPECT(has_event(&rails, "tolaria.epoch_budget_exceeded", "{\"latency_ms\": 20.000}"));
    EXPECT(has_event(&rails, "tolaria.hook_budget_exceeded", "{\"latency_ms\": 6.000}"));
    EXPECT(
        has_event(&rails, "tolaria.conservative_mode_entered", "{\"reason\": \"tamiyo_timeout\"}"));
}

TEST(conservative_mode_ends_with_a_good_epoch) {
    EsRails rails;
    es_rails_begin(&rails, &settings);
    run_epoch(&rails, 19, 0, 0);
    EXPECT(
        has_event(&rails, "tolaria.conservative_mode_entered", "{\"reason\": \"epoch_budget\"}"));
    EXPECT(has_event(&rails, "tolaria.emergency.escalated",
                     "{\"level\": 2, \"reason\": \"epoch_budget\"}"));
    EXPECT(!es_rails_asks_controller(&rails));
    run_epoch(&rails, 19, 0, 0);
    EXPECT_EQ(rails.n_events, 1); // the budget alone: mode and level are as they were
    run_epoch(&rails, 1, 0, 0);
    EXPECT(has_event(&rails, "tolaria.conservative_mode_cleared", "{}"));
    EXPECT(es_rails_asks_controller(&rails));
    EXPECT_EQ(rails.level, ES_EMERGENCY_NOTICE);
    EXPECT_EQ(rails.n_failed_in_row, 0);
    EXPECT_EQ(rails.counts.failed, 2);
}

TEST(the_breaker_opens_half_opens_and_closes) {
    EsRails rails;
    es_rails_begin(&rails, &settings);
    run_epoch(&rails, 19, 0, 0);
    run_epoch(&rails, 19, 0, 0);
    run_epoch(&rails, 1, 0, 0); // a success clears the count
    EXPECT_EQ(rails.breaker.n_failures, 0);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(rails.breaker.state, ES_BREAKER_CLOSED);
        run_epoch(&rails, 19, 0, SECOND);
    }
    EXPECT_EQ(rails.breaker.state, ES_BREAKER_OPEN);
    EXPECT(has_event(&rails, "tolaria.breaker_opened", "{\"failures\": 3}"));
    // good epochs fail while it is open
    EXPECT_EQ(run_epoch(&rails, 1, 0, 30 * SECOND).reason, ES_RAILS_BREAKER_OPEN);
    EXPECT_EQ(rails.level, ES_EMERGENCY_CONSERVATIVE);
    EXPECT(!has_event(&rails, "tolaria.breaker_opened", "{\"failures\": 4}"));
    // its time begins with its opening, whatever failed since
    EXPECT_EQ(run_epoch(&rails, 1, 0, 31 * SECOND).reason, ES_RAILS_NONE);
    EXPECT_EQ(rails.breaker.state, ES_BREAKER_HALF_OPEN);
    run_epoch(&rails, 19, 0, 32 * SECOND);
    EXPECT_EQ(rails.breaker.state, ES_BREAKER_OPEN);
    EXPECT_EQ(run_epoch(&rails, 1, 0, 61 * SECOND).reason, ES_RAILS_BREAKER_OPEN);
    run_epoch(&rails, 1, 0, 62 * SECOND);
    EXPECT_EQ(rails.breaker.state, ES_BREAKER_HALF_OPEN);
    run_epoch(&rails, 1, 0, 62 * SECOND);
    EXPECT_EQ(rails.breaker.state, ES_BREAKER_CLOSED);
}

TEST(an_open_breaker_survives_a_clock_that_goes_back) {
    const int64_t second = 1000000000, hour = 3600 * second;
    EsBreaker breaker = {.state = ES_BREAKER_OPEN, .opened_ns = hour};
    EXPECT_EQ(es_breaker_allows(&breaker, &settings, 10 * second), 0); // its time begins anew
    EXPECT_EQ(es_breaker_allows(&breaker, &settings, 39 * second), 0);
    EXPECT_EQ(es_breaker_allows(&breaker, &settings, 40 * second), 1);
    EXPECT_EQ(breaker.state, ES_BREAKER_HALF_OPEN);
}

TEST(an_epoch_whose_training_went_wrong_is_rolled_back) {
    EsRails rails;
    EsRailsSettings undoing = settings;
    undoing.rollback = 1;
    undoing.gradient_limit = 10;
    es_rails_begin(&rails, &undoing);
    EsRailsEpoch epoch = {.latency_ms = 1, .hook_ms = 1, .gradient_norm = 10};
    es_rails_begin_epoch(&rails);
    EXPECT_EQ(es_rails_assess(&rails, &epoch, 0).must_roll_back, 0);
    epoch.gradient_norm = 11;
    es_rails_begin_epoch(&rails);
    EsRailsVerdict verdict = es_rails_assess(&rails, &epoch, 0);
    EXPECT_EQ(verdict.reason, ES_RAILS_GRADIENT);
    EXPECT_EQ(verdict.must_roll_back, 1);
    EXPECT(has_event(&rails, "esper.rails.gradient_exploded", "{\"norm\": 11, \"limit\": 10}"));
    es_rails_rolled_back(&rails, 1, 2.5);
    EXPECT(has_event(&rails, "tolaria.rollback.restored",
                     "{\"tier\": \"fast\", \"latency_ms\": 2.500}"));
    epoch.has_diverged = 1;
    epoch.latency_ms = 1e9; // and late
    es_rails_begin_epoch(&rails);
    verdict = es_rails_assess(&rails, &epoch, 0);
    EXPECT_EQ(verdict.reason, ES_RAILS_NO_LOSS);
    EXPECT_EQ(verdict.must_roll_back, 1);
    es_rails_restore_failed(&rails, "read_error", "no \"file\"", 3);
    EXPECT(has_event(&rails, "tolaria.rollback.restore_failed",
                     "{\"reason\": \"read_error\", \"detail\": \"no \\\"file\\\"\"}"));
    EXPECT_EQ(rails.level == ES_EMERGENCY_HALT, 0);
    es_rails_restore_late(&rails, verdict.reason, 250);
    EXPECT_EQ(rails.level, ES_EMERGENCY_HALT);
    EXPECT_EQ(rails.counts.halts, 1);
    EXPECT_EQ(rails.counts.fast_hits, 1);
    EXPECT_EQ(rails.counts.fast_misses, 2);
    EXPECT_EQ(rails.counts.restore_failures, 1);
    EXPECT_EQ(rails.counts.restore_deadlines, 1);
    // a late epoch is late, not wrong
    epoch = (EsRailsEpoch){.latency_ms = 1e9, .gradient_norm = -1};
    es_rails_begin_epoch(&rails);
    EXPECT_EQ(es_rails_assess(&rails, &epoch, 0).must_roll_back, 0);
}

TEST(failures_in_a_row_halt) {
    EsRails rails;
    es_rails_begin(&rails, &settings);
    for (int i = 0; i < 4; i++) {
        EXPECT_EQ(run_epoch(&rails, 19, 0, 0).must_halt, 0);
    }
    EXPECT_EQ(run_epoch(&rails, 19, 0, 0).must_halt, 1);
    EXPECT(has_event(&rails, "tolaria.emergency.halt",
                     "{\"level\": 4, \"reason\": \"breaker_open\", \"streak\": 5}"));
    EXPECT_EQ(rails.counts.halts, 1);
    EsRailsSettings patient = settings;
    patient.halt_failures = 0;
    es_rails_begin(&rails, &patient);
    for (int i = 0; i < 100; i++) {
        EXPECT_EQ(run_epoch(&rails, 19, 0, 0).must_halt, 0);
    }
}

TEST(seeds_that_are_late_fail_the_epoch) {
    EsRails rails;
    es_rails_begin(&rails, &settings);
    es_rails_begin_epoch(&rails);
    es_rails_seeds_prepared(&rails, 1.5);
    es_rails_seeds_timed_out(&rails, 5, 2);
    EXPECT_EQ(rails.counts.kasmina_timeouts, 1);
    EXPECT(rails.seeds_ms == 0);
    EXPECT(rails.is_conservative);
    EXPECT(has_event(&rails, "tolaria.kasmina_timeout",
                     "{\"error\": \"not ready within 5 ms\", \"deadline_ms\": 5, "
                     "\"operations\": 2}"));
    EXPECT(has_event(&rails, "tolaria.conservative_mode_entered",
                     "{\"reason\": \"kasmina_timeout\"}"));
    EsRailsEpoch epoch = {.latency_ms = 1, .hook_ms = 1};
    EXPECT_EQ(es_rails_assess(&rails, &epoch, 0).reason, ES_RAILS_KASMINA_TIMEOUT);
    run_epoch(&rails, 1, 0, 0); // good
    es_rails_begin_epoch(&rails);
    es_rails_seeds_failed(&rails, "no memory", 1);
    EXPECT(!rails.is_conservative); // until the epoch has failed
    EXPECT(has_event(&rails, "tolaria.kasmina_error",
                     "{\"error\": \"no memory\", \"operations\": 1}"));
    EXPECT_EQ(es_rails_assess(&rails, &epoch, 0).reason, ES_RAILS_KASMINA_ERROR);
    EXPECT(rails.is_conservative);
}

TEST(a_controller_that_hangs_too_often_is_not_asked_again) {
    EsRails rails;
    es_rails_begin(&rails, &settings);
    es_rails_begin_epoch(&rails);
    es_rails_controller_spent(&rails, 4);
    es_rails_controller_spent(&rails, 4);
    EXPECT_EQ(rails.n_events, 1);
    EXPECT(has_event(&rails, "tolaria.tamiyo_abandoned", "{\"threads\": 4}"));
    run_epoch(&rails, 1, 0, 0); // good, and still
    EXPECT(!es_rails_asks_controller(&rails));
}
