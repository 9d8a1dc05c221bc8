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
    const EsRailsEpoch epoch = {latency_ms, hook_ms};
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
    EXPECT_EQ(es_rails_assess(&rails, &(EsRailsEpoch){10, 6}, 0).reason, ES_RAILS_TAMIYO_ERROR);
    es_rails_begin(&rails, &settings);
    es_rails_begin_epoch(&rails);
    es_rails_controller_timed_out(&rails, 2);
    EXPECT_EQ(es_rails_assess(&rails, &(EsRailsEpoch){20, 6}, 0).reason, ES_RAILS_EPOCH_BUDGET);
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
