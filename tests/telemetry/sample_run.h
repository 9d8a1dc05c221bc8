// A small run for tests: a sink is given the events of a few rounds, with all kinds of values.
#ifndef ES_TESTS_SAMPLE_RUN_H
#define ES_TESTS_SAMPLE_RUN_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "telemetry/sink.h"

static int64_t sample_sequence;

// Encode the rows and give them to the sink, as the hub would.
static inline EsStatus send_rows(EsSink *sink, EsEventType type, EsEventTime time, const void *rows,
                                 int64_t n_rows) {
    void *bytes = NULL;
    size_t n_bytes = es_packet_bytes(type, rows, n_rows);
    ES_TRY(es_allocate(n_bytes, &bytes));
    EsPacketHeader header = {.unix_us = 1700000000000000 + time.round * 60000000,
                             .sequence = ++sample_sequence,
                             .round = time.round,
                             .step = time.step};
    es_packet_encode(type, rows, n_rows, &header, bytes);
    EsPacket packet;
    EsStatus status = es_packet_open(bytes, n_bytes, &packet);
    if (status == ES_STATUS_OK) {
        status = sink->write(sink->state, &packet);
    }
    es_release(bytes);
    return status;
}

static inline EsStatus send_metric(EsSink *sink, int64_t round, const char *name, double value) {
    EsMetricEvent row = {.name = name, .value = value};
    return send_rows(sink, ES_EVENT_METRIC, (EsEventTime){round, -1}, &row, 1);
}

// One row of any type in which every value is missing.
static inline EsStatus send_missing(EsSink *sink, EsEventType type, EsEventTime time) {
    union {
        int64_t integer;
        double real;
        const char *text;
    } cells[64];
    const EsEventSchema *schema = es_event_schema(type);
    for (int i = 0; i < schema->n_columns; i++) {
        switch (schema->columns[i].type) {
        case ES_COLUMN_INT:
            cells[i].integer = ES_MISSING_INT;
            break;
        case ES_COLUMN_REAL:
            cells[i].real = es_missing_real();
            break;
        case ES_COLUMN_TEXT:
            cells[i].text = NULL;
            break;
        }
    }
    return send_rows(sink, type, time, cells, 1);
}

static inline EsStatus send_start(EsSink *sink) {
    EsRunStartedEvent row = {.kind = "grow",
                             .run_id = "sample",
                             .task = "tiny",
                             .device = "cpu",
                             .build = "test",
                             .config = "[run]\nkind = grow\n",
                             .seed = 42,
                             .n_envs = 2,
                             .n_rounds = 3,
                             .n_host_parameters = 438,
                             .n_ranks = 1};
    return send_rows(sink, ES_EVENT_RUN_STARTED, (EsEventTime){0, -1}, &row, 1);
}

// Two seeds in the first round: "a" is fossilised in environment 0, "b" is pruned in environment 1;
// in later rounds one that stays alive.
static inline EsStatus send_seeds(EsSink *sink, int64_t round) {
    char id[2][16];
    snprintf(id[0], sizeof id[0], "%s%d", round == 1 ? "a" : "c", (int)round);
    snprintf(id[1], sizeof id[1], "b%d", (int)round);
    EsSeedGerminatedEvent born[2] = {
        {0, 2 * round, "r0c1", id[0], "norm", 12, "ADD", 2},
        {1, 2 * round + 1, "r0c0", id[1], "depthwise", 40, "GATE", 3},
    };
    ES_TRY(send_rows(sink, ES_EVENT_SEED_GERMINATED, (EsEventTime){round, 0}, born,
                     round == 1 ? 2 : 1));
    static const char *const stages[] = {"GERMINATED", "TRAINING", "BLENDING", "HOLDING"};
    for (int i = 0; i + 1 < 4; i++) {
        EsSeedStageChangedEvent change = {.env = 0,
                                          .episode = 2 * round,
                                          .slot = "r0c1",
                                          .seed_id = id[0],
                                          .blueprint = "norm",
                                          .from_stage = stages[i],
                                          .to_stage = stages[i + 1],
                                          .alpha = i / 2.0,
                                          .n_steps_in_stage = 3,
                                          .accuracy_delta = 0.5};
        ES_TRY(
            send_rows(sink, ES_EVENT_SEED_STAGE_CHANGED, (EsEventTime){round, i + 1}, &change, 1));
    }
    if (round != 1) {
        return ES_STATUS_OK;
    }
    EsSeedGateEvaluatedEvent gates[2] = {
        {0, 2, "r0c1", id[0], "norm", "G2", 0, "dwell"},
        {0, 2, "r0c1", id[0], "norm", "G2", 1, NULL},
    };
    ES_TRY(send_rows(sink, ES_EVENT_SEED_GATE_EVALUATED, (EsEventTime){1, 2}, gates, 2));
    EsSeedFossilizedEvent kept = {0, 2, "r0c1", id[0], "norm", 12, 3.5, 2.25, 9};
    ES_TRY(send_rows(sink, ES_EVENT_SEED_FOSSILIZED, (EsEventTime){1, 9}, &kept, 1));
    EsSeedPrunedEvent gone = {
        1, 3, "r0c0", id[1], "depthwise", "no contribution", "policy", -1.5, es_missing_real(), 5};
    return send_rows(sink, ES_EVENT_SEED_PRUNED, (EsEventTime){1, 5}, &gone, 1);
}

static inline EsStatus send_steps(EsSink *sink, int64_t round) {
    EsEventTime time = {round, 0};
    EsStepTimedEvent timed = {4.0, 3.0, 0.5, 0.5};
    EsDecisionTakenEvent decisions[2] = {
        {.env = 0,
         .episode = 2 * round,
         .op = "GERMINATE",
         .slot = "r0c1",
         .blueprint = "norm",
         .style = "ADD",
         .tempo = 2,
         .alpha_target = 1.0,
         .confidence = 0.6,
         .entropy = 1.1,
         .value = 0.2,
         .is_forced = 0,
         .is_success = 1},
        {.env = 1,
         .episode = 2 * round + 1,
         .op = "WAIT",
         .tempo = ES_MISSING_INT,
         .alpha_target = es_missing_real(),
         .confidence = 1.0,
         .entropy = 0.0,
         .value = -0.1,
         .is_forced = 1,
         .is_success = 1},
    };
    EsRewardComputedEvent rewards[2] = {{.env = 0, .total = 0.5}, {.env = 1, .total = -0.25}};
    EsContributionMeasuredEvent worth = {
        .env = 0, .slot = "r0c1", .contribution = 2.25, .shapley = es_missing_real()};
    EsSeedMeasuredEvent seed = {.env = 0,
                                .episode = 2 * round,
                                .slot = "r0c1",
                                .seed_id = "ep2_env0_seed_1",
                                .blueprint = "norm",
                                .stage = "BLENDING",
                                .alpha = 0.5,
                                .gradient_norm = 0.75,
                                .health = 1,
                                .ratio = es_missing_real(),
                                .weight = 0.375,
                                .share = 0.25,
                                .conflicts = ES_MISSING_INT,
                                .conflict_ratio = es_missing_real(),
                                .teacher_share = es_missing_real()};
    for (; time.step < 20; time.step += 10) {
        ES_TRY(send_rows(sink, ES_EVENT_STEP_TIMED, time, &timed, 1));
        ES_TRY(send_rows(sink, ES_EVENT_DECISION_TAKEN, time, decisions, 2));
        ES_TRY(send_rows(sink, ES_EVENT_REWARD_COMPUTED, time, rewards, 2));
        ES_TRY(send_rows(sink, ES_EVENT_CONTRIBUTION_MEASURED, time, &worth, 1));
        ES_TRY(send_rows(sink, ES_EVENT_SEED_MEASURED, time, &seed, 1));
    }
    return ES_STATUS_OK;
}

static inline EsStatus send_outcomes(EsSink *sink, int64_t round) {
    EsEventTime time = {round, -1};
    EsEpisodeOutcomeEvent outcomes[2];
    for (int env = 0; env < 2; env++) {
        // accuracy and reward lie on one line: their correlation is 1
        double accuracy = 50.0 + 2.0 * (double)round + env;
        outcomes[env] = (EsEpisodeOutcomeEvent){.env = env,
                                                .episode = 2 * round + env,
                                                .final_accuracy = accuracy,
                                                .final_loss = 1.25,
                                                .parameter_ratio = 1.1,
                                                .n_fossils = 1 - env,
                                                .n_contributing = 1 - env,
                                                .reward = 0.5 * accuracy - 20.0,
                                                .stability = 0.9,
                                                .n_steps = 30,
                                                .n_germinated = 1,
                                                .n_pruned = env,
                                                .n_rollbacks = 0};
    }
    EsUpdateCompletedEvent update = {.policy_loss = -0.01,
                                     .value_loss = 0.5,
                                     .entropy = 1.2,
                                     .kl_divergence = 0.004,
                                     .clip_fraction = 0.1,
                                     .explained_variance = 0.3};
    EsRoundCompletedEvent done = {.n_episodes = 2 * round,
                                  .accuracy = 50.5 + 2.0 * (double)round,
                                  .accuracy_std = 0.5,
                                  .rolling_accuracy = es_missing_real(),
                                  .reward = 5.25,
                                  .loss = 1.25,
                                  .n_seeds = 1,
                                  .n_fossils = 1,
                                  .n_steps = 60,
                                  .n_images = 7680,
                                  .seconds = 0.5,
                                  .steps_per_second = 120,
                                  .images_per_second = 15360,
                                  .utilisation = 87.5};
    ES_TRY(send_rows(sink, ES_EVENT_EPISODE_OUTCOME, time, outcomes, 2));
    ES_TRY(send_rows(sink, ES_EVENT_UPDATE_COMPLETED, time, &update, 1));
    return send_rows(sink, ES_EVENT_ROUND_COMPLETED, time, &done, 1);
}

// One round of two environments, with two metrics; not flushed.
static inline EsStatus send_round(EsSink *sink, int64_t round) {
    ES_TRY(send_steps(sink, round));
    ES_TRY(send_seeds(sink, round));
    ES_TRY(send_outcomes(sink, round));
    ES_TRY(send_metric(sink, round, "charts/SPS", 120.0 + (double)round));
    return send_metric(sink, round, "losses/value_loss", 0.5 / (double)round);
}

static inline EsStatus send_troubles(EsSink *sink, int64_t round) {
    EsAnomalyDetectedEvent anomaly = {"kl_spike", "warning", "GRADIENT_ANOMALY", ES_MISSING_INT,
                                      0.2,        0.1,       "KL was 0.2"};
    EsGovernorRollbackEvent rollback = {1, 3, "divergence", INFINITY, 4.0, 2, -10.0};
    ES_TRY(send_rows(sink, ES_EVENT_ANOMALY_DETECTED, (EsEventTime){round, -1}, &anomaly, 1));
    return send_rows(sink, ES_EVENT_GOVERNOR_ROLLBACK, (EsEventTime){round, 7}, &rollback, 1);
}

static inline EsStatus send_proofs(EsSink *sink, int64_t round) {
    EsProofRoundEvent proofs = {.n_positives = 4, .positives_proved = 75.0, .depth = 2.5};
    EsProofRankedEvent ranked = {.arm = "policy", .split = "valid", .n_queries = 9, .mrr = 0.25};
    EsProofDepthCountedEvent depths[] = {
        {.label = 1, .counted_by = "proof", .depth = 2, .n_asked = 3, .n_proved = 3, .actions = 2},
        {.label = 1, .counted_by = "actions", .depth = 4, .n_asked = 1, .actions = 4}};
    EsProofPredicateCountedEvent predicate = {
        .predicate = "uncle", .label = 1, .n_asked = 4, .n_proved = 3, .actions = 2.5};
    EsProofFoundEvent found = {.env = 2,
                               .episode = 7,
                               .query = "wife(eve,adam)",
                               .n_steps = 1,
                               .n_atoms = 2,
                               .proof = "wife(eve,adam)\trule 3: husband(y,x) -> wife(x,y)\n"
                                        "  husband(adam,eve)\tfact\n"};
    const EsEventTime time = {round, -1};
    ES_TRY(send_rows(sink, ES_EVENT_PROOF_ROUND, time, &proofs, 1));
    ES_TRY(send_rows(sink, ES_EVENT_PROOF_DEPTH_COUNTED, time, depths, 2));
    ES_TRY(send_rows(sink, ES_EVENT_PROOF_PREDICATE_COUNTED, time, &predicate, 1));
    ES_TRY(send_rows(sink, ES_EVENT_PROOF_FOUND, (EsEventTime){round, 4}, &found, 1));
    return send_rows(sink, ES_EVENT_PROOF_RANKED, (EsEventTime){round, -1}, &ranked, 1);
}

static inline EsStatus send_rails(EsSink *sink, int64_t round) {
    EsTrainerEventEvent event = {"tolaria.epoch_budget_exceeded", "warning",
                                 "{\"latency_ms\": 21.500}"};
    ES_TRY(send_metric(sink, round, "tolaria.training.latency_ms", 21.5));
    ES_TRY(send_metric(sink, round, "tolaria.breaker.state", 1));
    return send_rows(sink, ES_EVENT_TRAINER_EVENT, (EsEventTime){round, -1}, &event, 1);
}

static inline EsStatus send_end(EsSink *sink, int64_t round) {
    EsRunEndedEvent row = {"done", NULL, 1.5, 0, 0};
    return send_rows(sink, ES_EVENT_RUN_ENDED, (EsEventTime){round, -1}, &row, 1);
}

// A whole run of `n_rounds` in a new database.
static inline EsStatus write_sample_run(const char *path, int n_rounds) {
    EsSink sink;
    sample_sequence = 0;
    ES_TRY(es_sqlite_sink_open(path, -1, &sink));
    EsStatus status = send_start(&sink);
    for (int round = 1; round <= n_rounds && status == ES_STATUS_OK; round++) {
        status = send_round(&sink, round);
    }
    if (status == ES_STATUS_OK) {
        status = send_troubles(&sink, n_rounds);
    }
    if (status == ES_STATUS_OK) {
        status = send_proofs(&sink, n_rounds);
    }
    if (status == ES_STATUS_OK) {
        status = send_rails(&sink, n_rounds);
    }
    if (status == ES_STATUS_OK) {
        status = send_end(&sink, n_rounds);
    }
    if (status == ES_STATUS_OK) {
        status = sink.flush(sink.state);
    }
    sink.close(sink.state);
    return status;
}

#endif
