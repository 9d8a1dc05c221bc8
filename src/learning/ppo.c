// The order of a PPO update on the CPU: finish the rollout, prepare targets, passes until one says
// stop; and the settings with their limits.
#include <string.h>

#include "base/memory.h"
#include "base/range_check.h"
#include "learning/ppo.h"
#include "learning/ppo_internal.h"
#include "learning/ppo_report.h"

#define SKIPPED_MAX 3 // updates in a row without a finite step
#define KL_MARGIN   1.5

// Give every array its place in the slab; with slab NULL, measure it.
static void lay_out(EsPpo *p) {
    size_t rows = (size_t)p->n_rows, used_bytes = 0;
    size_t heads = rows * (size_t)p->shape.policy.n_heads;
    size_t targets = rows * (size_t)p->shape.n_targets;
#define TAKE(field, count)                                                                         \
    do {                                                                                           \
        size_t offset = es_slab_add(&used_bytes, (count) * sizeof *p->field);                      \
        p->field = p->slab == NULL ? NULL : (void *)((unsigned char *)p->slab + offset);           \
    } while (0)
    TAKE(advantage, rows);
    TAKE(value_target, rows);
    TAKE(reference, heads);
    TAKE(log_probability, heads);
    TAKE(scratch, ES_MAX(rows, (size_t)p->shape.policy.n_logits));
    TAKE(outputs.value, rows);
    TAKE(outputs.action_value, rows);
    TAKE(outputs.auxiliary, targets);
    TAKE(gradients.value, rows);
    TAKE(gradients.action_value, rows);
    TAKE(gradients.auxiliary, targets);
#undef TAKE
    p->slab_bytes = used_bytes;
}

// Room for n logits, twice. Ragged rollouts differ in size: half as much again is taken, so that
// growing ends soon.
static EsStatus reserve_logits(EsPpo *ppo, int64_t n) {
    if (n <= ppo->logit_capacity) {
        return ES_STATUS_OK;
    }
    int64_t capacity = es_policy_shape_is_ragged(&ppo->shape.policy) ? n + n / 2 : n;
    size_t half_bytes = es_align_up((size_t)capacity * sizeof(float));
    void *memory = NULL;
    ES_TRY(es_allocate(2 * half_bytes, &memory));
    es_release(ppo->logits);
    ppo->logits = memory;
    ppo->logit_capacity = capacity;
    ppo->outputs.logits = memory;
    ppo->gradients.logits = (void *)((unsigned char *)memory + half_bytes);
    return ES_STATUS_OK;
}

EsStatus es_ppo_create(const EsPpoSettings *settings, const EsRolloutShape *shape, EsPpo **ppo) {
    *ppo = NULL;
    ES_TRY(es_ppo_settings_check(settings, shape->policy.n_heads));
    void *memory = NULL;
    ES_TRY(es_allocate(sizeof(EsPpo), &memory));
    EsPpo *p = memory;
    p->settings = *settings;
    p->shape = *shape;
    p->n_rows = shape->n_steps * shape->n_envs;
    p->state.rewards = es_scale_normaliser_start();
    p->state.values = es_scale_normaliser_start();
    lay_out(p);
    EsStatus status = es_allocate(p->slab_bytes, &p->slab);
    if (status == ES_STATUS_OK && !es_policy_shape_is_ragged(&shape->policy)) {
        status = reserve_logits(p, p->n_rows * shape->policy.n_logits);
    }
    if (status != ES_STATUS_OK) {
        es_ppo_destroy(p);
        return status;
    }
    lay_out(p);
    *ppo = p;
    return ES_STATUS_OK;
}

void es_ppo_destroy(EsPpo *ppo) {
    if (ppo != NULL) {
        es_ppo_device_destroy(ppo->device);
        es_release(ppo->logits);
        es_release(ppo->slab);
        es_release(ppo);
    }
}

EsPpoState *es_ppo_state(EsPpo *ppo) { return &ppo->state; }

static EsStatus check_scale(const EsScaleNormaliser *scale, const char *path, const char *name) {
    ES_TRY(es_check_real((EsFileField){path, name, 0}, scale->mean, -DBL_MAX, DBL_MAX));
    ES_TRY(es_check_real((EsFileField){path, name, 1}, scale->variance, 0, DBL_MAX));
    return es_check_real((EsFileField){path, name, 2}, scale->n_samples, 0, (double)ES_COUNTER_MAX);
}

EsStatus es_ppo_state_check(const EsPpoState *state, const char *path) {
    ES_TRY(check_scale(&state->rewards, path, "reward_scale"));
    ES_TRY(check_scale(&state->values, path, "value_scale"));
    ES_TRY(es_check_counter((EsFileField){path, "updates", ES_NO_INDEX}, state->n_updates));
    ES_TRY(es_check_counter((EsFileField){path, "passes", ES_NO_INDEX}, state->n_passes));
    return es_check_integer((EsFileField){path, "updates without a step", ES_NO_INDEX},
                            state->n_skipped, 0, SKIPPED_MAX);
}

EsStatus es_ppo_change(EsPpo *ppo, const EsPpoSettings *settings) {
    ES_TRY(es_ppo_settings_check(settings, ppo->shape.policy.n_heads));
    ppo->settings = *settings;
    return ES_STATUS_OK;
}

static EsStatus check_choice(const EsRollout *r, int64_t row, int h) {
    const EsPolicyShape *shape = &r->shape.policy;
    int64_t at = row * shape->n_heads + h;
    int64_t n = r->first_logit != NULL ? r->first_logit[row + 1] - r->first_logit[row]
                                       : shape->head_size[h];
    uint64_t mask = r->first_logit != NULL ? ES_CHOICE_ALL : r->mask[at];
    int action = r->action[at];
    if (action < 0 || action >= n || !es_choice_is_legal(mask, action)) {
        return ES_FAIL(
            ARGUMENT, "ppo: step %lld, environment %lld: value %d of head %d is not legal",
            (long long)(row / r->shape.n_envs), (long long)(row % r->shape.n_envs), action, h);
    }
    return ES_STATUS_OK;
}

static EsStatus check_targets(const EsRollout *r, int64_t row) {
    for (int64_t k = 0; k < r->shape.n_targets; k++) {
        int64_t at = row * r->shape.n_targets + k;
        if (r->has_target[at] && !es_math_is_finite((double)r->target[at])) {
            return ES_FAIL(ARGUMENT,
                           "ppo: step %lld, environment %lld: target %lld is measured, but not "
                           "finite",
                           (long long)(row / r->shape.n_envs), (long long)(row % r->shape.n_envs),
                           (long long)k);
        }
    }
    return ES_STATUS_OK;
}

// The contract of the rows, checked once; the rest trusts it.
static EsStatus check_rows(const EsRollout *r) {
    const EsPolicyShape *shape = &r->shape.policy;
    for (int64_t row = 0; row < r->n_rows; row++) {
        if (r->first_logit != NULL) {
            int64_t n = r->first_logit[row + 1] - r->first_logit[row];
            if (n < 0 || n > shape->n_logits || r->first_logit[0] != 0) {
                return ES_FAIL(ARGUMENT, "ppo: row %lld has %lld candidates, must have 0 to %d",
                               (long long)row, (long long)n, shape->n_logits);
            }
        }
        if (!r->is_valid[row]) {
            continue;
        }
        for (int h = 0; h < shape->n_heads; h++) {
            if ((r->used[row] >> h) & 1) {
                ES_TRY(check_choice(r, row, h));
            }
        }
        ES_TRY(check_targets(r, row));
    }
    return ES_STATUS_OK;
}

// Not finite in one row, not finite in all before it: name the last one.
static EsStatus check_returns(const EsRollout *r) {
    for (int64_t row = r->n_rows - 1; row >= 0; row--) {
        if (r->is_valid[row] && !es_math_is_finite((double)r->returns[row])) {
            return ES_FAIL(NUMERIC,
                           "ppo: step %lld, environment %lld: the return is not finite (reward %g, "
                           "value %g, bootstrap %g)",
                           (long long)(row / r->shape.n_envs), (long long)(row % r->shape.n_envs),
                           (double)r->reward[row], (double)r->value[row],
                           (double)r->bootstrap[row]);
        }
    }
    return ES_STATUS_OK;
}

static void normalise_advantages(EsPpoUpdate *u) {
    const EsRollout *r = u->rollout;
    EsRowStatistics s = es_row_statistics(r->n_rows, r->advantage, 1, r->is_valid);
    double floor = (double)u->ppo->settings.advantage_floor;
    double divisor = ES_MAX(s.deviation, floor) + 1e-8;
    u->scales.advantage_mean = s.mean;
    u->scales.advantage_divisor = divisor;
    u->report->advantage_mean = s.mean;
    u->report->advantage_std = s.deviation;
    u->report->is_spread_floored = s.deviation < floor;
    for (int64_t row = 0; row < r->n_rows; row++) {
        u->ppo->advantage[row] =
            r->is_valid[row] ? (float)(((double)r->advantage[row] - s.mean) / divisor) : 0.0f;
    }
}

EsAdvantageOptions es_ppo_advantage_options(const EsPpo *ppo) {
    const EsPpoSettings *s = &ppo->settings;
    return (EsAdvantageOptions){.gamma = (double)s->gamma,
                                .lambda = (double)s->lambda,
                                .reward_scale = es_reward_scale(&ppo->state.rewards),
                                .reward_clip = (double)s->reward_clip,
                                .value_scale = es_value_scale(&ppo->state.values),
                                .bootstraps = s->bootstraps};
}

EsStatus es_ppo_prepare_targets(EsPpoUpdate *u) {
    EsPpo *ppo = u->ppo;
    const EsRollout *r = u->rollout;
    const EsPpoSettings *s = &ppo->settings;
    ES_TRY(check_returns(r));
    normalise_advantages(u);
    es_ppo_report_rows(u->report, r, ppo->advantage, es_value_scale(&ppo->state.values),
                       ppo->scratch);
    // targets are on the scale that this round's returns move
    u->values = ppo->state.values;
    es_value_scale_merge(&u->values, r->n_rows, r->returns, r->is_valid);
    double scale = u->scales.value = es_value_scale(&u->values);
    for (int64_t row = 0; row < r->n_rows; row++) {
        ppo->value_target[row] = (float)((double)r->returns[row] / scale);
    }
    EsPpoCoefficients coefficients = es_ppo_coefficients(s, ppo->state.n_updates);
    u->report->reward_scale = es_reward_scale(&ppo->state.rewards);
    u->report->value_scale = scale;
    u->report->entropy_coefficient = coefficients.entropy;
    u->report->value_coefficient = coefficients.value;
    u->report->auxiliary_coefficient = coefficients.auxiliary;
    u->batch = (EsPpoBatch){.settings = s,
                            .rollout = r,
                            .advantage = ppo->advantage,
                            .value_target = ppo->value_target,
                            .scratch = ppo->scratch,
                            .coefficients = coefficients};
    return ES_STATUS_OK;
}

int es_ppo_should_continue(EsPpoUpdate *u, const EsPpoLoss *loss, int is_first) {
    const EsPpoSettings *s = &u->ppo->settings;
    u->report->n_nonfinite += loss->n_nonfinite;
    if (loss->n_nonfinite > 0) {
        return 0; // the weights stay, so that another pass would see the same
    }
    u->report->kl_divergence = loss->kl;
    if (!is_first && s->target_kl > 0 && loss->kl > KL_MARGIN * (double)s->target_kl) {
        u->report->is_stopped = 1;
        return 0;
    }
    return 1;
}

int es_ppo_count_step(EsPpoUpdate *u, const EsPpoLoss *loss, const EsStepReport *step) {
    u->report->n_nonfinite += step->n_nonfinite;
    if (step->n_nonfinite > 0) {
        return 0;
    }
    es_ppo_report_pass(u->report, u->ppo->shape.policy.n_heads, loss, step);
    return 1;
}

// One pass and, unless it ends the update, one step.
static EsStatus run_pass(EsPpoUpdate *u, int *goes_on) {
    EsPpo *ppo = u->ppo;
    const EsPpoSettings *s = &ppo->settings;
    int is_first = u->batch.reference == NULL;
    EsOutputs outputs = ppo->outputs;
    EsPpoLoss loss;
    EsStepReport step = {0};
    ES_TRY(u->model->forward(u->model->context, (uint32_t)ppo->state.n_passes++, &outputs));
    es_ppo_loss(&u->batch, &outputs, ppo->log_probability, &loss);
    *goes_on = es_ppo_should_continue(u, &loss, is_first);
    if (!*goes_on) {
        return ES_STATUS_OK;
    }
    if (is_first) {
        memcpy(ppo->reference, ppo->log_probability,
               (size_t)(ppo->n_rows * ppo->shape.policy.n_heads) * sizeof *ppo->reference);
        u->batch.reference = ppo->reference;
        if (outputs.auxiliary != NULL) {
            EsPpoPair pair = es_ppo_compare_targets(&u->batch, &outputs);
            es_ppo_report_auxiliary(u->report, &pair);
        }
    }
    es_ppo_loss_gradient(&u->batch, &outputs, ppo->log_probability, &loss, &ppo->gradients);
    ES_TRY(u->model->step(u->model->context, &ppo->gradients, s->rate, s->max_norm, &step));
    *goes_on = es_ppo_count_step(u, &loss, &step);
    return ES_STATUS_OK;
}

static EsStatus run_on_host(EsPpoUpdate *u) {
    EsPpo *ppo = u->ppo;
    EsRollout *rollout = u->rollout;
    EsAdvantageOptions options = es_ppo_advantage_options(ppo);
    if (rollout->first_logit != NULL) {
        ES_TRY(reserve_logits(ppo, ES_MAX(rollout->first_logit[rollout->n_rows], 1)));
    }
    es_rollout_finish(rollout, &options);
    ES_TRY(es_ppo_prepare_targets(u));
    ES_TRY(u->model->begin(u->model->context, rollout));
    int goes_on = 1;
    for (int k = 0; k < ppo->settings.n_epochs && goes_on; k++) {
        ES_TRY(run_pass(u, &goes_on));
    }
    return ES_STATUS_OK;
}

// Stores the results of an update with a step, or counts one without.
static EsStatus conclude(EsPpoUpdate *u) {
    EsPpoState *state = &u->ppo->state;
    const EsRollout *r = u->rollout;
    if (u->report->n_epochs > 0) {
        state->values = u->values;
        es_reward_scale_merge(&state->rewards, r->n_rows, r->reward, r->is_valid);
        state->n_updates++;
        state->n_skipped = 0;
        return ES_STATUS_OK;
    }
    u->report->is_skipped = 1;
    state->n_skipped++;
    if (state->n_skipped >= SKIPPED_MAX) {
        return ES_FAIL(NUMERIC,
                       "ppo: %lld updates in a row without a step: %lld outputs or gradients of "
                       "the policy are not finite",
                       (long long)state->n_skipped, (long long)u->report->n_nonfinite);
    }
    return ES_STATUS_OK;
}

static int has_valid_row(const EsRollout *r) {
    return memchr(r->is_valid, 1, (size_t)r->n_rows) != NULL;
}

EsStatus es_ppo_update(EsPpo *ppo, EsRollout *rollout, const EsPpoModel *model,
                       EsPpoReport *report) {
    const EsPolicyShape *policy = &ppo->shape.policy;
    ES_ASSERT(rollout->n_rows == ppo->n_rows && rollout->shape.n_envs == ppo->shape.n_envs);
    ES_ASSERT(rollout->shape.n_targets == ppo->shape.n_targets);
    ES_ASSERT(memcmp(&rollout->shape.policy, policy, sizeof *policy) == 0);
    ES_ASSERT(rollout->on_device == NULL || model->on_device != NULL);
    es_ppo_report_begin(report, policy->n_heads);
    EsPpoUpdate u = {.ppo = ppo, .rollout = rollout, .model = model, .report = report};
    if (!has_valid_row(rollout)) {
        return ES_STATUS_OK;
    }
    ES_TRY(check_rows(rollout));
    if (model->on_device != NULL) {
        ES_TRY(es_ppo_device_finish(&u));
        ES_TRY(es_ppo_device_passes(&u));
    } else {
        ES_TRY(run_on_host(&u));
    }
    es_ppo_report_end(report, policy->n_heads);
    return conclude(&u);
}

// --- settings ---

EsPpoSettings es_ppo_defaults(void) {
    EsPpoSettings settings = {
#define X(type, name, start, lowest, highest, help) .name = (type)(start),
        ES_PPO_SETTINGS(X)
#undef X
    };
    for (int h = 0; h < ES_POLICY_HEADS_MAX; h++) {
        settings.head[h] = (EsPpoHead){.entropy_weight = 1};
    }
    return settings;
}

static EsStatus check_head(const EsPpoHead *head, int h) {
    // written so that NaN fails
    if (!(head->floor >= 0 && head->floor <= 1)) {
        return ES_FAIL(CONFIG, "ppo: the least probability of head %d is %g, must be 0 to 1", h,
                       (double)head->floor);
    }
    if (!(head->entropy_weight >= 0 && head->entropy_weight <= 100)) {
        return ES_FAIL(CONFIG, "ppo: the entropy weight of head %d is %g, must be 0 to 100", h,
                       (double)head->entropy_weight);
    }
    if (!(head->entropy_floor >= 0 && head->entropy_floor <= 1)) {
        return ES_FAIL(CONFIG, "ppo: the entropy floor of head %d is %g, must be 0 to 1", h,
                       (double)head->entropy_floor);
    }
    if (!(head->floor_penalty >= 0 && head->floor_penalty <= 100)) {
        return ES_FAIL(CONFIG, "ppo: the entropy penalty of head %d is %g, must be 0 to 100", h,
                       (double)head->floor_penalty);
    }
    return ES_STATUS_OK;
}

EsStatus es_ppo_settings_check(const EsPpoSettings *settings, int n_heads) {
#define X(type, name, start, lowest, highest, help)                                                \
    if (!((double)settings->name >= (double)(type)(lowest) &&                                      \
          (double)settings->name <= (double)(type)(highest))) {                                    \
        return ES_FAIL(CONFIG, "ppo: %s is %g, must be %g to %g", #name, (double)settings->name,   \
                       (double)(lowest), (double)(highest));                                       \
    }
    ES_PPO_SETTINGS(X)
#undef X
    for (int h = 0; h < n_heads; h++) {
        ES_TRY(check_head(&settings->head[h], h));
    }
    return ES_STATUS_OK;
}
