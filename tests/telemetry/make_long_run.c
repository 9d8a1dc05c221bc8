// Write a run of many rounds through the hub and the SQLite sink, with fewer rows a round than a
// real one: for the time that it takes to open it.
//
// usage: make_long_run FOLDER ROUNDS [ENVS]
//   ENVS   environments (default 4); with more than 4 of them half of the steps are recorded
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/macros.h"
#include "telemetry/hub.h"

#define MAX_ENVS  128
#define N_METRICS 12

static int n_envs = 4;

static double wave(int64_t round, double period) { return sin((double)round / period); }

static void emit_learning(EsHub *hub, EsEventTime time, double gained) {
    int64_t round = time.round;
    EsRoundCompletedEvent done = {.n_episodes = round * n_envs,
                                  .accuracy = 40 + gained + wave(round, 7),
                                  .accuracy_std = 3,
                                  .rolling_accuracy = 40 + gained,
                                  .reward = gained / 3,
                                  .loss = 2 - gained / 30,
                                  .n_seeds = n_envs,
                                  .n_fossils = 2,
                                  .n_steps = 30 * n_envs,
                                  .n_images = 30720,
                                  .seconds = 0.4,
                                  .steps_per_second = 300,
                                  .images_per_second = 76800,
                                  .utilisation = 87.5,
                                  .state_hash = "0123456789abcdef"};
    EsUpdateCompletedEvent update = {.policy_loss = 0.1,
                                     .value_loss = 2 + wave(round, 11),
                                     .entropy = 0.5 + 0.4 * wave(round, 3000),
                                     .kl_divergence = 0.01,
                                     .clip_fraction = 0.1,
                                     .gradient_norm = 1,
                                     .explained_variance = 0.6,
                                     .n_epochs = 10,
                                     .update_ms = 30};
    es_emit_round_completed(hub, time, &done, 1);
    es_emit_update_completed(hub, time, &update, 1);
}

static void emit_episodes(EsHub *hub, EsEventTime time, double gained) {
    EsEpisodeOutcomeEvent outcomes[MAX_ENVS] = {{0}};
    for (int env = 0; env < n_envs; env++) {
        outcomes[env] = (EsEpisodeOutcomeEvent){.env = env,
                                                .episode = time.round * n_envs + env,
                                                .final_accuracy = 40 + gained,
                                                .final_loss = 1,
                                                .test_accuracy = es_missing_real(),
                                                .parameter_ratio = 1.3,
                                                .reward = gained / 3,
                                                .n_steps = 30,
                                                .control_accuracy = es_missing_real()};
    }
    es_emit_episode_outcome(hub, time, outcomes, n_envs);
}

// Decisions, a recorded step, and the life of a seed.
static void emit_growth(EsHub *hub, int64_t round) {
    static const char *const ops[] = {"WAIT", "GERMINATE", "WAIT", "FOSSILIZE"};
    static const char *const stages[] = {"GERMINATED", "TRAINING", "BLENDING", "HOLDING",
                                         "FOSSILIZED"};
    char seed_id[40];
    snprintf(seed_id, sizeof seed_id, "ep%lld_env0_seed_1", (long long)round * n_envs);
    EsEnvSteppedEvent steps[MAX_ENVS];
    EsDecisionTakenEvent decisions[MAX_ENVS];
    for (int env = 0; env < n_envs; env++) {
        steps[env] = (EsEnvSteppedEvent){.env = env,
                                         .episode = round * n_envs + env,
                                         .validation_accuracy = 50 + env,
                                         .n_seeds = 1};
        decisions[env] =
            (EsDecisionTakenEvent){.env = env,
                                   .episode = round * n_envs + env,
                                   .op = ops[env % 4],
                                   .confidence = 0.5,
                                   .is_success = 1,
                                   .op_probabilities = "{\"WAIT\":0.5,\"GERMINATE\":0.25,"
                                                       "\"FOSSILIZE\":0.25}",
                                   .slot_probabilities = "{\"r0c0\":0.75,\"r0c1\":0.25}"};
    }
    int stride = n_envs > 4 ? 2 : 10;
    for (int64_t step = 0; step < 30; step += stride) {
        es_emit_env_stepped(hub, (EsEventTime){round, step}, steps, n_envs);
        es_emit_decision_taken(hub, (EsEventTime){round, step}, decisions, n_envs);
    }
    EsSeedGerminatedEvent seed = {.slot = "r0c0",
                                  .seed_id = seed_id,
                                  .blueprint = "conv_small",
                                  .n_parameters = 100,
                                  .style = "ADD",
                                  .tempo = 3};
    es_emit_seed_germinated(hub, (EsEventTime){round, 1}, &seed, 1);
    for (size_t i = 0; i < ES_COUNT_OF(stages); i++) {
        EsSeedStageChangedEvent change = {.slot = "r0c0",
                                          .seed_id = seed_id,
                                          .from_stage = i > 0 ? stages[i - 1] : "DORMANT",
                                          .to_stage = stages[i],
                                          .alpha = i < 3 ? 0 : 1};
        es_emit_seed_stage_changed(hub, (EsEventTime){round, 1 + 4 * (int64_t)i}, &change, 1);
    }
    EsSeedFossilizedEvent fossil = {.slot = "r0c0",
                                    .seed_id = seed_id,
                                    .blueprint = "conv_small",
                                    .n_parameters = 100,
                                    .contribution = 3};
    es_emit_seed_fossilized(hub, (EsEventTime){round, 17}, &fossil, 1);
}

static void emit_round(EsHub *hub, int64_t round) {
    const EsEventTime time = {round, -1};
    double gained = 30 * (1 - exp(-(double)round / 20000));
    emit_learning(hub, time, gained);
    emit_episodes(hub, time, gained);
    emit_growth(hub, round);
    static const char *const phases[] = {"train", "validate", "decide", "update", "round"};
    EsPhaseProfiledEvent times[ES_COUNT_OF(phases)];
    for (size_t i = 0; i < ES_COUNT_OF(phases); i++) {
        times[i] = (EsPhaseProfiledEvent){phases[i], 30, 100, 3, 4, 5};
    }
    es_emit_phase_profiled(hub, time, times, ES_COUNT_OF(phases));
    EsMetricEvent metrics[N_METRICS];
    char names[N_METRICS][32];
    for (int i = 0; i < N_METRICS; i++) {
        snprintf(names[i], sizeof names[i], "charts/number_%d", i);
        metrics[i] = (EsMetricEvent){.name = names[i], .value = (double)round};
    }
    es_emit_metric(hub, time, metrics, N_METRICS);
}

static EsStatus write_run(const char *folder, int64_t n_rounds) {
    char path[4096];
    EsHub *hub = NULL;
    EsSink sink;
    EsHubOptions options = es_hub_defaults();
    options.spill_folder = folder;
    options.close_seconds = 600;
    snprintf(path, sizeof path, "%s/run.db", folder);
    ES_TRY(es_hub_create(&options, &hub));
    ES_TRY(es_sqlite_sink_open(path, -1, &sink));
    ES_TRY(es_hub_add_sink(hub, &sink));
    EsRunStartedEvent started = {.kind = "grow",
                                 .run_id = "long",
                                 .task = "tiny",
                                 .device = "cpu",
                                 .config = "[run]\nkind = grow\n",
                                 .n_envs = n_envs,
                                 .n_rounds = n_rounds};
    es_emit_run_started(hub, (EsEventTime){0, -1}, &started, 1);
    for (int64_t round = 1; round <= n_rounds; round++) {
        emit_round(hub, round);
        // nothing is to be dropped: the sink is given time
        if (round % (n_envs > 4 ? 10 : 40) == 0 && !es_hub_flush(hub, 60)) {
            return ES_FAIL(IO, "the sink is too slow");
        }
    }
    EsRunEndedEvent ended = {.outcome = "done", .seconds = 0.4 * (double)n_rounds};
    es_emit_run_ended(hub, (EsEventTime){n_rounds, -1}, &ended, 1);
    EsHubHealth health;
    es_hub_close(hub, &health);
    return es_hub_health_has_losses(&health) ? ES_FAIL(IO, "events were lost") : ES_STATUS_OK;
}

int main(int argc, char **argv) {
    n_envs = argc == 4 ? atoi(argv[3]) : 4;
    if (argc < 3 || argc > 4 || n_envs < 1 || n_envs > MAX_ENVS) {
        fprintf(stderr, "usage: make_long_run FOLDER ROUNDS [ENVS]\n");
        return 2;
    }
    mkdir(argv[1], 0777);
    if (write_run(argv[1], strtoll(argv[2], NULL, 10)) != ES_STATUS_OK) {
        fprintf(stderr, "make_long_run: %s\n", es_status_detail());
        return 1;
    }
    return 0;
}
