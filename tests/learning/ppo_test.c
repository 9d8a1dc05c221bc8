// The update: what it calls, when it stops, what it reports, and what it leaves alone.
#include "learning/ppo.h"

#include "base/random_rules.h"
#include "learning/ppo_loss.h"
#include "linear_model.h"

enum { N_STEPS = 6, N_ENVS = 4 };

typedef struct Scene {
    EsRollout *rollout;
    EsPpoSettings settings;
    EsPpo *ppo;
    LinearModel linear;
    EsPpoModel model;
    EsPpoReport report;
} Scene;

static EsRolloutShape scene_shape(void) {
    const int sizes[] = {4, 3};
    return (EsRolloutShape){.n_steps = N_STEPS,
                            .n_envs = N_ENVS,
                            .n_features = 3,
                            .n_targets = 1,
                            .policy = es_policy_shape(2, sizes)};
}

static void fill_scene(Scene *s, uint32_t round) {
    EsRollout *r = s->rollout;
    es_rollout_reset(r);
    for (int64_t row = 0; row < r->n_rows; row++) {
        EsRandom4 a = es_random_draw(7, round, ES_PURPOSE_ACTION, (uint32_t)row, 0);
        EsRandom4 b = es_random_draw(7, round, ES_PURPOSE_ACTION, (uint32_t)row, 1);
        for (int i = 0; i < 3; i++) {
            r->features[row * 3 + i] = i == 0 ? 1 : 2 * es_random_uniform(a.word[i]) - 1;
        }
        r->action[row * 2] = (int16_t)(a.word[0] % 4);
        r->action[row * 2 + 1] = (int16_t)(a.word[3] % 3);
        r->mask[row * 2] = 0xF;
        r->mask[row * 2 + 1] = 0x7;
        r->used[row] = r->causal[row] = r->action[row * 2] == 1 ? 3 : 1;
        r->available[row] = 3;
        r->is_valid[row] = 1;
        r->value[row] = 2 * es_random_uniform(b.word[0]) - 1;
        r->reward[row] = 2 * es_random_uniform(b.word[1]) - 0.5f * (float)r->action[row * 2];
        r->has_target[row] = b.word[2] % 2 == 0;
        r->target[row] = 3 * es_random_uniform(b.word[3]);
        r->is_done[row] = r->is_truncated[row] = row >= (N_STEPS - 1) * N_ENVS;
    }
    r->is_forced[5] = 1;
    r->is_valid[9] = 0;
}

static void make_scene(Scene *s) {
    EsRolloutShape shape = scene_shape();
    REQUIRE_OK(es_rollout_create(&shape, &s->rollout));
    REQUIRE_OK(es_ppo_create(&s->settings, &shape, &s->ppo));
    s->linear = linear_model(&shape, 0);
    s->model = linear_interface(&s->linear);
    fill_scene(s, 0);
}

static void drop_scene(Scene *s) {
    es_ppo_destroy(s->ppo);
    es_rollout_destroy(s->rollout);
}

TEST(one_epoch_has_ratios_of_one) {
    Scene s = {.settings = es_ppo_defaults()};
    s.settings.n_epochs = 1;
    s.settings.rate = 0.1f;
    make_scene(&s);
    for (int k = 0; k < 3; k++) {
        fill_scene(&s, (uint32_t)k);
        REQUIRE_OK(es_ppo_update(s.ppo, s.rollout, &s.model, &s.report));
        EXPECT(s.report.ratio_min == 1 && s.report.ratio_max == 1 && s.report.ratio_mean == 1);
        EXPECT(s.report.kl_divergence == 0 && s.report.clip_fraction == 0);
        EXPECT(s.report.head_ratio_max[0] == 1 && s.report.head_ratio_max[1] == 1);
        EXPECT_EQ(s.report.n_epochs, 1);
        EXPECT_EQ(s.report.is_stopped, 0);
    }
    EXPECT_EQ(s.linear.n_steps, 3);
    EXPECT_EQ(s.linear.n_forward, 3);
    EXPECT_EQ(es_ppo_state(s.ppo)->n_updates, 3);
    EXPECT_EQ(es_ppo_state(s.ppo)->n_passes, 3);
    drop_scene(&s);
}

// Repeats an update step by step, from its parts.
static void update_by_hand(Scene *s, int n_epochs) {
    enum { N_ROWS = N_STEPS * N_ENVS };
    EsRollout *r = s->rollout;
    float advantage[N_ROWS], target[N_ROWS], logits[N_ROWS * 7], value[N_ROWS], q[N_ROWS];
    float guess[N_ROWS], d_logits[N_ROWS * 7], d_value[N_ROWS], d_q[N_ROWS], d_guess[N_ROWS];
    double now[N_ROWS * 2], anchor[N_ROWS * 2], scratch[7], mean = 0, squares = 0;
    EsAdvantageOptions options = {
        (double)s->settings.gamma, (double)s->settings.lambda, 1, 10, 1, 1};
    es_rollout_finish(r, &options);
    for (int row = 0; row < N_ROWS; row++) { // 23 valid rows; the others have advantage 0
        mean += (double)r->advantage[row] / 23;
    }
    for (int row = 0; row < N_ROWS; row++) {
        squares += r->is_valid[row] ? pow((double)r->advantage[row] - mean, 2) / 23 : 0;
    }
    for (int row = 0; row < N_ROWS; row++) {
        advantage[row] = (float)(((double)r->advantage[row] - mean) / (sqrt(squares) + 1e-8));
        target[row] = r->returns[row]; // fewer than 32 samples: scale 1
    }
    EsPpoBatch batch = {.settings = &s->settings,
                        .rollout = r,
                        .advantage = advantage,
                        .value_target = target,
                        .scratch = scratch,
                        .coefficients = es_ppo_coefficients(&s->settings, 0)};
    REQUIRE_OK(linear_begin(&s->linear, r));
    for (int k = 0; k < n_epochs; k++) {
        EsOutputs outputs = {logits, value, q, guess},
                  gradients = {d_logits, d_value, d_q, d_guess};
        EsPpoLoss loss;
        EsStepReport step;
        REQUIRE_OK(linear_forward(&s->linear, 0, &outputs));
        if (k == 0) {
            es_ppo_loss(&batch, &outputs, anchor, &loss);
            batch.reference = anchor;
        }
        es_ppo_loss(&batch, &outputs, now, &loss);
        es_ppo_loss_gradient(&batch, &outputs, now, &loss, &gradients);
        REQUIRE_OK(
            linear_step(&s->linear, &gradients, s->settings.rate, s->settings.max_norm, &step));
    }
}

TEST(an_update_is_the_sum_of_its_parts) {
    Scene s = {.settings = es_ppo_defaults()}, hand = {.settings = es_ppo_defaults()};
    s.settings.rate = hand.settings.rate = 0.05f; // far enough for clipping
    s.settings.target_kl = hand.settings.target_kl = 0;
    s.settings.n_epochs = 8;
    make_scene(&s);
    make_scene(&hand);
    REQUIRE_OK(es_ppo_update(s.ppo, s.rollout, &s.model, &s.report));
    EXPECT(s.report.clip_fraction > 0.1);
    update_by_hand(&hand, 8);
    for (int i = 0; i < linear_count(&s.linear); i++) {
        EXPECT_NEAR(s.linear.weights[i], hand.linear.weights[i], 1e-6);
    }
    drop_scene(&s);
    drop_scene(&hand);
}

TEST(an_update_stops_when_the_policy_has_moved_too_far) {
    Scene s = {.settings = es_ppo_defaults()};
    s.settings.n_epochs = 20;
    s.settings.rate = 0.03f;
    s.settings.target_kl = 0.01f;
    make_scene(&s);
    REQUIRE_OK(es_ppo_update(s.ppo, s.rollout, &s.model, &s.report));
    EXPECT_EQ(s.report.is_stopped, 1);
    EXPECT(s.report.kl_divergence > 1.5 * (double)s.settings.target_kl);
    EXPECT(s.report.n_epochs >= 2 && s.report.n_epochs < 20);
    EXPECT_EQ(s.linear.n_forward, s.report.n_epochs + 1); // the pass that saw it made no step
    EXPECT_EQ(s.linear.n_steps, s.report.n_epochs);
    EXPECT(s.report.ratio_max > 1 && s.report.ratio_min < 1);
    EXPECT_EQ(es_ppo_state(s.ppo)->n_updates, 1);
    int n_stopped = s.report.n_epochs;
    drop_scene(&s);

    s = (Scene){.settings = s.settings};
    s.settings.target_kl = 0; // never
    make_scene(&s);
    REQUIRE_OK(es_ppo_update(s.ppo, s.rollout, &s.model, &s.report));
    EXPECT_EQ(s.report.is_stopped, 0);
    EXPECT_EQ(s.report.n_epochs, 20);
    EXPECT(n_stopped < 20 && s.report.clip_fraction > 0);
    drop_scene(&s);
}

static void check_skips(int spoils_outputs) {
    Scene s = {.settings = es_ppo_defaults()};
    s.settings.rate = 0.1f;
    make_scene(&s);
    REQUIRE_OK(es_ppo_update(s.ppo, s.rollout, &s.model, &s.report));
    EsPpoState before = *es_ppo_state(s.ppo);
    double weights[LINEAR_WEIGHTS_MAX];
    memcpy(weights, s.linear.weights, sizeof weights);
    int *switch_on = spoils_outputs ? &s.linear.spoils_outputs : &s.linear.spoils_gradients;
    *switch_on = 1;
    for (int k = 1; k <= 3; k++) {
        fill_scene(&s, (uint32_t)k);
        if (k < 3) {
            EXPECT_STATUS(es_ppo_update(s.ppo, s.rollout, &s.model, &s.report), OK);
        } else {
            EXPECT_STATUS(es_ppo_update(s.ppo, s.rollout, &s.model, &s.report), NUMERIC);
            EXPECT_CONTAINS(es_status_detail(), "3 updates in a row without a step");
        }
        EXPECT(s.report.is_skipped == 1 && s.report.n_epochs == 0 && s.report.n_nonfinite > 0);
        EXPECT(isnan(s.report.policy_loss));
        EsPpoState *state = es_ppo_state(s.ppo);
        EXPECT_EQ(state->n_skipped, k);
        EXPECT_EQ(state->n_passes, before.n_passes + k);
        EsPpoState rest = *state;
        rest.n_skipped = before.n_skipped;
        rest.n_passes = before.n_passes;
        EXPECT(memcmp(&rest, &before, sizeof rest) == 0);
        EXPECT(memcmp(weights, s.linear.weights, sizeof weights) == 0);
    }
    *switch_on = 0; // recovered
    REQUIRE_OK(es_ppo_update(s.ppo, s.rollout, &s.model, &s.report));
    EXPECT_EQ(es_ppo_state(s.ppo)->n_skipped, 0);
    EXPECT_EQ(es_ppo_state(s.ppo)->n_updates, 2);
    drop_scene(&s);
}

TEST(outputs_that_are_not_finite_leave_everything_alone) { check_skips(1); }
TEST(gradients_that_are_not_finite_leave_everything_alone) { check_skips(0); }

TEST(bad_rows_are_named) {
    Scene s = {.settings = es_ppo_defaults()};
    make_scene(&s);
    s.rollout->reward[6] = (float)NAN;
    EXPECT_STATUS(es_ppo_update(s.ppo, s.rollout, &s.model, &s.report), NUMERIC);
    EXPECT_CONTAINS(es_status_detail(), "step 1, environment 2: the return is not finite");
    fill_scene(&s, 0);
    s.rollout->mask[13 * 2] = 0xF & ~(1u << s.rollout->action[13 * 2]);
    EXPECT_STATUS(es_ppo_update(s.ppo, s.rollout, &s.model, &s.report), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "step 3, environment 1: value ");
    EXPECT_CONTAINS(es_status_detail(), " of head 0 is not legal");
    fill_scene(&s, 0);
    s.rollout->has_target[4] = 1;
    s.rollout->target[4] = (float)INFINITY;
    EXPECT_STATUS(es_ppo_update(s.ppo, s.rollout, &s.model, &s.report), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "step 1, environment 0: target 0 is measured, but not");
    EXPECT_EQ(s.linear.n_begun, 0);
    EXPECT_EQ(es_ppo_state(s.ppo)->n_updates, 0);
    drop_scene(&s);
}

TEST(a_rollout_without_a_valid_row_changes_nothing) {
    Scene s = {.settings = es_ppo_defaults()};
    make_scene(&s);
    EsPpoState before = *es_ppo_state(s.ppo);
    es_rollout_reset(s.rollout);
    REQUIRE_OK(es_ppo_update(s.ppo, s.rollout, &s.model, &s.report));
    EXPECT(memcmp(&before, es_ppo_state(s.ppo), sizeof before) == 0);
    EXPECT_EQ(s.linear.n_begun, 0);
    EXPECT(s.report.is_skipped == 0 && s.report.n_epochs == 0 && s.report.n_valid == 0);
    EXPECT(isnan(s.report.explained_variance) && isnan(s.report.policy_loss));
    drop_scene(&s);
}

TEST(the_actor_needs_no_row_of_its_own) {
    Scene s = {.settings = es_ppo_defaults()};
    make_scene(&s);
    memset(s.rollout->is_forced, 1, (size_t)s.rollout->n_rows);
    REQUIRE_OK(es_ppo_update(s.ppo, s.rollout, &s.model, &s.report));
    EXPECT(s.report.n_usable_steps == 0 && s.report.n_epochs == 4);
    EXPECT(s.report.policy_loss == 0 && s.report.value_loss > 0);
    EXPECT(isnan(s.report.ratio_max) && isnan(s.report.head_entropy[0]));
    for (int i = 0; i < 7 * 3; i++) {
        EXPECT(s.linear.weights[i] == 0); // logits
    }
    EXPECT(s.linear.weights[7 * 3] != 0); // value
    drop_scene(&s);
}

TEST(scales_move_at_the_end_of_an_update) {
    Scene s = {.settings = es_ppo_defaults()};
    make_scene(&s);
    REQUIRE_OK(es_ppo_update(s.ppo, s.rollout, &s.model, &s.report));
    EXPECT(s.report.reward_scale == 1 && s.report.value_scale == 1); // 23 samples: too few
    EXPECT_EQ(es_ppo_state(s.ppo)->rewards.n_samples, 23);
    double scale = es_reward_scale(&es_ppo_state(s.ppo)->rewards);
    double sum = 0, squares = 0;
    for (int row = 0; row < N_STEPS * N_ENVS; row++) {
        if (s.rollout->is_valid[row]) {
            sum += (double)s.rollout->reward[row];
            squares += pow((double)s.rollout->reward[row], 2);
        }
    }
    EXPECT_NEAR(scale, sqrt((squares - sum * sum / 23) / 22), 1e-12);
    fill_scene(&s, 1);
    REQUIRE_OK(es_ppo_update(s.ppo, s.rollout, &s.model, &s.report));
    EXPECT(s.report.reward_scale == scale); // frozen since the last update
    EXPECT_NEAR(s.rollout->scaled_reward[0], (double)s.rollout->reward[0] / scale, 1e-6);
    // 46 samples: this round's returns are in the scale of its targets
    EXPECT(s.report.value_scale == es_value_scale(&es_ppo_state(s.ppo)->values));
    EXPECT(s.report.value_scale != 1);
    drop_scene(&s);
}

TEST(the_report_says_what_the_rows_say) {
    Scene s = {.settings = es_ppo_defaults()};
    make_scene(&s);
    REQUIRE_OK(es_ppo_update(s.ppo, s.rollout, &s.model, &s.report));
    const EsRollout *r = s.rollout;
    const EsPpoReport *p = &s.report;
    double n = 0, v = 0, g = 0, vv = 0, gg = 0, vg = 0, td = 0;
    for (int row = 0; row < N_STEPS * N_ENVS; row++) {
        if (r->is_valid[row]) {
            double value = (double)r->value[row], returns = (double)r->returns[row];
            n++, v += value, g += returns, td += fabs((double)r->td_error[row]);
            vv += value * value, gg += returns * returns, vg += value * returns;
        }
    }
    double var_v = vv / n - v * v / n / n, var_g = gg / n - g * g / n / n;
    double cov = vg / n - v * g / n / n;
    EXPECT_EQ(p->n_valid, 23);
    EXPECT_EQ(p->n_usable_steps, 22);
    EXPECT_NEAR(p->forced_ratio, 1.0 / 23, 1e-12);
    EXPECT_NEAR(p->value_mean, v / n, 1e-12);
    EXPECT_NEAR(p->return_std, sqrt(var_g), 1e-9);
    EXPECT_NEAR(p->value_correlation, cov / sqrt(var_v * var_g), 1e-9);
    double sample = n / (n - 1), unexplained = sample * (var_g + var_v - 2 * cov);
    EXPECT_NEAR(p->explained_variance, 1 - unexplained / fmax(1, sample * var_g), 1e-9);
    EXPECT_NEAR(p->value_error, sqrt(unexplained) / (sqrt(sample * var_g) + 1), 1e-9);
    EXPECT_NEAR(p->bellman_error, td / n, 1e-12);
    EXPECT(p->return_p10 < p->return_p50 && p->return_p50 < p->return_p90);
    EXPECT_NEAR(p->value_coefficient, 0.05, 1e-8);
    EXPECT_NEAR(p->entropy_coefficient, 0.05, 1e-8);
    EXPECT(p->auxiliary_coefficient == 0 && p->auxiliary_loss > 0);
    // the weights began at 0: every choice was uniform, every prediction 0
    EXPECT(p->head_entropy[0] > 0.99 && p->head_entropy[0] <= 1 && p->entropy > 0.99);
    EXPECT_NEAR(p->log_probability_max, -log(3), 0.05);
    EXPECT(isnan(p->auxiliary_correlation) && p->auxiliary_explained <= 0.01);
    EXPECT(p->head_learnable[1] > 0 && p->head_learnable[1] < p->head_learnable[0]);
    EXPECT_NEAR(p->head_learnable[0], 22.0 / 23, 1e-12);
    EXPECT(p->gradient_norm > 0);
    drop_scene(&s);
}

TEST(settings_are_checked) {
    EsPpoSettings s = es_ppo_defaults();
    EXPECT_STATUS(es_ppo_settings_check(&s, 16), OK);
    s.clip = 0;
    EXPECT_STATUS(es_ppo_settings_check(&s, 1), CONFIG);
    EXPECT_TEXT(es_status_detail(), "ppo: clip is 0, must be 0.001 to 10");
    s = es_ppo_defaults();
    s.gamma = (float)NAN;
    EXPECT_STATUS(es_ppo_settings_check(&s, 1), CONFIG);
    s = es_ppo_defaults();
    s.head[2].floor = -0.5f;
    EXPECT_STATUS(es_ppo_settings_check(&s, 2), OK); // not a head of this policy
    EXPECT_STATUS(es_ppo_settings_check(&s, 3), CONFIG);
    EXPECT_TEXT(es_status_detail(), "ppo: the least probability of head 2 is -0.5, must be 0 to 1");
    EsRolloutShape shape = scene_shape();
    s.n_epochs = 0;
    EsPpo *ppo = NULL;
    EXPECT_STATUS(es_ppo_create(&s, &shape, &ppo), CONFIG);
    EXPECT(ppo == NULL);
    es_ppo_destroy(NULL);
}
