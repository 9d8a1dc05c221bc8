// A round: n_steps steps of acting and stepping fill the rollout, the value of the next state ends
// it, and one PPO update follows with the settings that the schedule gives for this round. The
// state file is a head with the round and the state of PPO, then the bytes of the environments.
#include "proof/agent/proof_training.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/range_check.h"

// "estrain1" in the order of bytes of this machine
#define STATE_MAGIC     UINT64_C(0x316e696172747365)
#define STATE_MAX_BYTES ((size_t)1 << 34)

struct EsProofTraining {
    EsProofTrainingSettings settings;
    const EsKnowledgeGraph *graph; // borrowed
    EsStream *stream;              // owned, as is all below
    EsProofEnv *env;
    EsProofPolicy *policy;
    EsProofPolicyTraining *policy_training;
    EsRollout *rollout;
    EsPpo *ppo;
    EsDrawKey *draw_keys; // (E)
    int32_t *actions;     // (E)
    int64_t n_done;       // rounds
};

// --- settings ---

EsProofTrainingSettings es_proof_training_defaults(void) {
    EsProofTrainingSettings settings = {.env = es_proof_env_defaults(),
                                        .policy = es_proof_policy_defaults(),
                                        .ppo = es_ppo_defaults(),
                                        .n_steps = 32,
                                        .seed = 42};
#define X(type, name, start, lowest, highest, help) settings.schedule.name = (type)(start);
    ES_PROOF_SCHEDULE_SETTINGS(X)
#undef X
    settings.ppo.gamma = 0.99f;
    settings.ppo.lambda = 0.95f;
    settings.ppo.target_kl = 0.07f;
    return settings;
}

// 1 at x = 0, 0 from x = 1 on, level at both ends.
static double fall(double x) { return 0.5 + 0.5 * cos(3.14159265358979323846 * fmin(x, 1)); }

EsPpoSettings es_proof_schedule_settings(const EsProofSchedule *schedule, const EsPpoSettings *ppo,
                                         int64_t n_done) {
    EsPpoSettings settings = *ppo;
    settings.bootstraps = 0; // the limit on depth ends an episode for good
    if (schedule->n_rounds == 0) {
        return settings;
    }
    double x = fmin((double)n_done / (double)schedule->n_rounds, 1);
    double warmup = (double)schedule->warmup, end = (double)schedule->rate_end;
    double first = (double)schedule->warmup_start, share = (double)schedule->entropy_share;
    double factor = x < warmup
                        ? first + (1 - first) * x / warmup
                        : end + (1 - end) * fall(warmup < 1 ? (x - warmup) / (1 - warmup) : 0);
    double high = (double)ppo->entropy_start, low = (double)ppo->entropy_end;
    double bonus = low + (high - low) * (share > 0 ? fall(x / share) : 0);
    settings.rate = (float)((double)ppo->rate * factor);
    settings.entropy_start = settings.entropy_end = (float)bonus;
    settings.entropy_anneal = 0;
    return settings;
}

// --- life ---

static EsStatus create_parts(EsProofTraining *t, EsDevice *device) {
    EsProofTrainingSettings *s = &t->settings;
    size_t n_envs = (size_t)ES_MAX(s->env.n_envs, 1);
    if (s->n_steps < 1) {
        return ES_FAIL(ARGUMENT, "proof training: a round has %d steps, at least one is needed",
                       s->n_steps);
    }
    ES_TRY(es_stream_create(device, &t->stream));
    ES_TRY(es_proof_policy_create(device, t->graph, &s->policy, s->seed, &t->policy));
    s->env.seed = s->seed;
    ES_TRY(es_proof_env_create(t->graph, &s->env, es_proof_training_pool(t), &t->env));
    ES_TRY(es_proof_policy_training_create(t->policy, &t->policy_training));
    es_proof_policy_training_share(t->policy_training, s->ranks);
    EsRolloutShape shape = es_proof_rollout_shape(s->n_steps, s->env.n_envs,
                                                  es_proof_env_settings(t->env)->max_states);
    ES_TRY(es_rollout_create(&shape, &t->rollout));
    ES_TRY(es_ppo_create(&s->ppo, &shape, &t->ppo));
    ES_TRY(es_allocate(n_envs * sizeof *t->draw_keys, (void **)&t->draw_keys));
    return es_allocate(n_envs * sizeof *t->actions, (void **)&t->actions);
}

EsStatus es_proof_training_create(EsDevice *device, const EsKnowledgeGraph *graph,
                                  const EsProofTrainingSettings *settings,
                                  EsProofTraining **training_out) {
    EsProofTraining *training = NULL;
    *training_out = NULL;
    ES_TRY(es_allocate(sizeof *training, (void **)&training));
    training->settings = *settings;
    training->graph = graph;
    EsStatus status = create_parts(training, device);
    if (status != ES_STATUS_OK) {
        es_proof_training_destroy(training);
        return status;
    }
    *training_out = training;
    return ES_STATUS_OK;
}

void es_proof_training_destroy(EsProofTraining *t) {
    if (t == NULL) {
        return;
    }
    es_ppo_destroy(t->ppo);
    es_rollout_destroy(t->rollout);
    es_proof_policy_training_destroy(t->policy_training);
    es_proof_env_destroy(t->env);
    es_proof_policy_destroy(t->policy);
    es_stream_destroy(t->stream);
    es_release(t->draw_keys);
    es_release(t->actions);
    es_release(t);
}

// --- a round ---

static void fill_draw_keys(EsProofTraining *t) {
    const EsProofEnvSettings *settings = es_proof_env_settings(t->env);
    for (int32_t i = 0; i < settings->n_envs; i++) {
        EsProofEpisode episode = es_proof_env_episode(t->env, i);
        t->draw_keys[i] = (EsDrawKey){.env = (uint32_t)(settings->first_env + i),
                                      .episode = episode.episode,
                                      .step = (uint32_t)episode.depth};
    }
}

static void store_rewards(EsProofTraining *t, int64_t step) {
    const EsProofResult *result = es_proof_env_result(t->env);
    EsRollout *r = t->rollout;
    for (int64_t e = 0; e < r->shape.n_envs; e++) {
        int64_t row = es_rollout_row(r, step, e);
        r->reward[row] = result->reward[e];
        r->is_done[row] = result->is_done[e];
        r->is_truncated[row] = result->is_truncated[e];
        r->is_valid[row] = 1;
    }
}

// after - before, field by field.
static EsProofEnvCounters subtract(EsProofEnvCounters after, const EsProofEnvCounters *before) {
    after.n_steps -= before->n_steps;
    for (int label = 0; label < 2; label++) {
        after.n_episodes[label] -= before->n_episodes[label];
        after.n_proved[label] -= before->n_proved[label];
        after.n_truncated[label] -= before->n_truncated[label];
        after.n_by_end[label] -= before->n_by_end[label];
        after.n_actions[label] -= before->n_actions[label];
        after.reward[label] -= before->reward[label];
    }
    after.n_not_corrupted -= before->n_not_corrupted;
    after.n_skipped -= before->n_skipped;
    after.n_successors -= before->n_successors;
    after.n_overlong -= before->n_overlong;
    after.n_overflow -= before->n_overflow;
    return after;
}

static EsStatus take_step(EsProofTraining *t, int32_t step, EsProofRound *report) {
    EsProofChoices choices;
    int64_t start_ns = es_clock_ns();
    ES_TRY(es_proof_env_choices(t->env, &choices));
    fill_draw_keys(t);
    int64_t act_ns = es_clock_ns();
    ES_TRY(es_proof_policy_training_act(t->policy_training, &choices, t->settings.seed,
                                        t->draw_keys, t->rollout, step, t->actions));
    int64_t step_ns = es_clock_ns();
    ES_TRY(es_proof_env_step(t->env, t->actions));
    store_rewards(t, step);
    report->policy_ms += (double)(step_ns - act_ns) * 1e-6;
    report->env_ms += (double)(es_clock_ns() - step_ns + act_ns - start_ns) * 1e-6;
    return ES_STATUS_OK;
}

EsStatus es_proof_training_rollout(EsProofTraining *t, const EsProofWatch *watch,
                                   EsProofRound *report) {
    EsProofEnvCounters before = es_proof_env_counters(t->env);
    memset(report, 0, sizeof *report);
    es_rollout_reset(t->rollout);
    es_proof_policy_training_reset(t->policy_training);
    for (int32_t step = 0; step < t->settings.n_steps; step++) {
        ES_TRY(take_step(t, step, report));
        if (watch != NULL) {
            ES_TRY(watch->stepped(watch->context, t->env, step));
        }
    }
    EsProofChoices choices;
    int64_t start_ns = es_clock_ns();
    ES_TRY(es_proof_env_choices(t->env, &choices));
    int64_t last = es_rollout_row(t->rollout, t->settings.n_steps - 1, 0);
    ES_TRY(es_proof_policy_training_values(t->policy_training, &choices,
                                           t->rollout->bootstrap + last));
    report->policy_ms += (double)(es_clock_ns() - start_ns) * 1e-6;
    report->kept = es_proof_policy_training_counters(t->policy_training);
    report->counted = subtract(es_proof_env_counters(t->env), &before);
    return ES_STATUS_OK;
}

EsStatus es_proof_training_update(EsProofTraining *t, EsProofRound *report) {
    EsPpoSettings settings =
        es_proof_schedule_settings(&t->settings.schedule, &t->settings.ppo, t->n_done);
    EsPpoModel model = es_proof_policy_training_model(t->policy_training);
    int64_t start_ns = es_clock_ns();
    ES_TRY(es_ppo_change(t->ppo, &settings));
    ES_TRY(es_ppo_update(t->ppo, t->rollout, &model, &report->update));
    report->update_ms = (double)(es_clock_ns() - start_ns) * 1e-6;
    report->learning_rate = (double)settings.rate;
    t->n_done++;
    return ES_STATUS_OK;
}

EsStatus es_proof_training_round(EsProofTraining *t, const EsProofWatch *watch,
                                 EsProofRound *report) {
    ES_TRY(es_proof_training_rollout(t, watch, report));
    return es_proof_training_update(t, report);
}

void es_proof_training_set_rounds(EsProofTraining *t, int64_t n_rounds) {
    t->settings.schedule.n_rounds = n_rounds;
}

// --- looking at it ---

EsStatus es_proof_training_sample(EsProofTraining *t, EsProofSample *sample) {
    EsProofChoices choices;
    ES_TRY(es_proof_env_choices(t->env, &choices));
    double n_envs = choices.n_states, n_steps = t->settings.n_steps;
    double n_successors = choices.first[choices.n_states], n_atoms = 0;
    for (int32_t k = 0; k < choices.first[choices.n_states]; k++) {
        n_atoms += choices.successors[k].count;
    }
    *sample = (EsProofSample){.n_successors = n_successors / n_envs,
                              .n_atoms = n_atoms / ES_MAX(n_successors, 1)};
    // the states of a step were successors in the one before
    sample->round_bytes = es_proof_policy_training_round_bytes(
        t->policy_training, n_steps * n_envs, n_steps * n_successors,
        n_envs + n_steps * n_successors, sample->n_atoms);
    double n_rows = n_steps * n_envs;
    sample->least_bytes = es_proof_policy_training_round_bytes(t->policy_training, n_rows, n_rows,
                                                               n_envs, sample->n_atoms);
    return ES_STATUS_OK;
}

EsProofPolicy *es_proof_training_policy(EsProofTraining *t) { return t->policy; }

const EsProofEnv *es_proof_training_env(const EsProofTraining *t) { return t->env; }

int64_t es_proof_training_rounds_done(const EsProofTraining *t) { return t->n_done; }

EsProofPolicyTrainingCounters es_proof_training_counters(const EsProofTraining *t) {
    return es_proof_policy_training_counters(t->policy_training);
}

EsThreadPool *es_proof_training_pool(const EsProofTraining *t) { return es_stream_pool(t->stream); }

// --- checkpoints ---

// The head before the bytes of the environments.
typedef struct SavedTraining {
    uint64_t magic;
    int64_t n_done;
    EsPpoState ppo;
} SavedTraining;

_Static_assert(sizeof(SavedTraining) == 11 * sizeof(int64_t), "no padding");

// The bytes of the state file; released by the caller.
static EsStatus write_state(const EsProofTraining *t, unsigned char **bytes, size_t *n_bytes) {
    SavedTraining state = {.magic = STATE_MAGIC, .n_done = t->n_done, .ppo = *es_ppo_state(t->ppo)};
    *n_bytes = sizeof state + es_proof_env_saved_bytes(t->env);
    ES_TRY(es_allocate(*n_bytes, (void **)bytes));
    memcpy(*bytes, &state, sizeof state);
    EsStatus status = es_proof_env_save(t->env, *bytes + sizeof state);
    if (status != ES_STATUS_OK) {
        es_release(*bytes);
        *bytes = NULL;
    }
    return status;
}

EsStatus es_proof_training_append_state(const EsProofTraining *t, EsStateHash *hash) {
    unsigned char *bytes = NULL;
    size_t n_bytes = 0;
    ES_TRY(es_proof_policy_training_append_state(t->policy_training, hash));
    ES_TRY(write_state(t, &bytes, &n_bytes));
    es_state_hash_append_bytes(hash, bytes, n_bytes);
    es_release(bytes);
    return ES_STATUS_OK;
}

EsStatus es_proof_training_save(const EsProofTraining *t, const char *weights_path,
                                const char *state_path) {
    unsigned char *bytes = NULL;
    size_t n_bytes = 0;
    ES_TRY(es_proof_policy_training_save(t->policy_training, weights_path));
    ES_TRY(write_state(t, &bytes, &n_bytes));
    EsStatus status = es_file_write_all(state_path, bytes, n_bytes);
    es_release(bytes);
    return status;
}

EsStatus es_proof_training_load(EsProofTraining *t, const char *weights_path,
                                const char *state_path) {
    unsigned char *bytes = NULL;
    size_t n_bytes = 0;
    SavedTraining state = {.magic = 0};
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_file_read_all(state_path, STATE_MAX_BYTES, (void **)&bytes, &n_bytes));
    if (n_bytes > sizeof state) {
        memcpy(&state, bytes, sizeof state);
    }
    if (state.magic != STATE_MAGIC) {
        ES_TRY_GOTO(ES_FAIL(INPUT, "%s does not hold the state of a training", state_path));
    }
    ES_TRY_GOTO(
        es_check_counter((EsFileField){state_path, "rounds done", ES_NO_INDEX}, state.n_done));
    ES_TRY_GOTO(es_ppo_state_check(&state.ppo, state_path));
    ES_TRY_GOTO(
        es_proof_env_load(t->env, state_path, bytes + sizeof state, n_bytes - sizeof state));
    ES_TRY_GOTO(es_proof_policy_training_load(t->policy_training, weights_path));
    *es_ppo_state(t->ppo) = state.ppo;
    t->n_done = state.n_done;
done:
    es_release(bytes);
    return status;
}
