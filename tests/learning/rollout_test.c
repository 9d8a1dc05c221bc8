// The rollout: advantages by hand and by an independent formula, breaks, bad shapes.
#include "learning/rollout.h"

#include "base/random_rules.h"
#include "es_test.h"

static EsRollout *make_rollout(int64_t n_steps, int64_t n_envs) {
    const int sizes[] = {3, 2};
    EsRolloutShape shape = {.n_steps = n_steps,
                            .n_envs = n_envs,
                            .n_features = 4,
                            .n_ids = 1,
                            .n_targets = 2,
                            .policy = es_policy_shape(2, sizes)};
    EsRollout *rollout = NULL;
    REQUIRE_OK(es_rollout_create(&shape, &rollout));
    return rollout;
}

static const EsAdvantageOptions plain = {.gamma = 0.5,
                                         .lambda = 0.5,
                                         .reward_scale = 1,
                                         .reward_clip = 10,
                                         .value_scale = 1,
                                         .bootstraps = 1};

static void fill_three_rows(EsRollout *rollout) {
    const float rewards[] = {1, 2, 4}, values[] = {1, 1, 2};
    for (int t = 0; t < 3; t++) {
        rollout->reward[t] = rewards[t];
        rollout->value[t] = values[t];
        rollout->is_valid[t] = 1;
    }
    rollout->is_done[2] = 1;
    rollout->bootstrap[2] = 8;
}

TEST(advantages_by_hand_at_an_end) {
    EsRollout *rollout = make_rollout(3, 1);
    fill_three_rows(rollout);
    es_rollout_finish(rollout, &plain);
    // deltas: 1 + 0.5*1 - 1, 2 + 0.5*2 - 1, 4 - 2; each advantage adds a quarter of the next
    const float deltas[] = {0.5f, 2, 2}, advantages[] = {1.125f, 2.5f, 2};
    for (int t = 0; t < 3; t++) {
        EXPECT_NEAR(rollout->td_error[t], deltas[t], 0);
        EXPECT_NEAR(rollout->advantage[t], advantages[t], 0);
        EXPECT_NEAR(rollout->returns[t], advantages[t] + rollout->value[t], 0);
    }
    es_rollout_destroy(rollout);
}

TEST(truncated_rows_go_on_with_their_bootstrap_or_not) {
    EsRollout *rollout = make_rollout(3, 1);
    fill_three_rows(rollout);
    rollout->is_truncated[2] = 1;
    EsAdvantageOptions options = plain;
    es_rollout_finish(rollout, &options);
    EXPECT_NEAR(rollout->advantage[2], 4 + 0.5 * 8 - 2, 0);
    EXPECT_NEAR(rollout->advantage[1], 2 + 6.0 / 4, 0);
    options.bootstraps = 0;
    es_rollout_finish(rollout, &options);
    EXPECT_NEAR(rollout->advantage[2], 2, 0);
    // a rollout that was cut in the middle of an episode goes on either way
    rollout->is_truncated[2] = rollout->is_done[2] = 0;
    es_rollout_finish(rollout, &options);
    EXPECT_NEAR(rollout->advantage[2], 6, 0);
    // in the middle, too: the next episode's value stays out
    rollout->is_done[1] = rollout->is_truncated[1] = 1;
    rollout->bootstrap[1] = -2;
    options.bootstraps = 1;
    es_rollout_finish(rollout, &options);
    EXPECT_NEAR(rollout->advantage[1], 2 + 0.5 * -2 - 1, 0);
    es_rollout_destroy(rollout);
}

TEST(rewards_are_scaled_and_clipped) {
    EsRollout *rollout = make_rollout(3, 1);
    fill_three_rows(rollout);
    EsAdvantageOptions options = plain;
    options.reward_scale = 0.5;
    options.reward_clip = 5;
    options.value_scale = 3;
    rollout->reward[0] = -40;
    es_rollout_finish(rollout, &options);
    EXPECT_NEAR(rollout->scaled_reward[0], -5, 0);
    EXPECT_NEAR(rollout->scaled_reward[1], 4, 0);
    EXPECT_NEAR(rollout->scaled_reward[2], 5, 0);
    EXPECT_NEAR(rollout->td_error[1], 4 + 0.5 * 6 - 3, 0);
    EXPECT_NEAR(rollout->returns[2], 5, 0);
    rollout->reward[1] = (float)NAN;
    es_rollout_finish(rollout, &options);
    EXPECT(isnan(rollout->returns[1]) && isnan(rollout->returns[0]));
    EXPECT_NEAR(rollout->returns[2], 5, 0);
    es_rollout_destroy(rollout);
}

TEST(rows_that_are_not_valid_are_stepped_over) {
    EsRollout *rollout = make_rollout(4, 1);
    fill_three_rows(rollout);
    // rows 0, 2, 3 of a life of three
    for (int t = 3; t >= 2; t--) {
        rollout->reward[t] = rollout->reward[t - 1];
        rollout->value[t] = rollout->value[t - 1];
        rollout->is_valid[t] = 1;
        rollout->is_done[t] = rollout->is_done[t - 1];
    }
    rollout->is_valid[1] = 0;
    rollout->reward[1] = (float)NAN;
    es_rollout_finish(rollout, &plain);
    EXPECT_NEAR(rollout->advantage[0], 1.125, 0);
    EXPECT_NEAR(rollout->advantage[2], 2.5, 0);
    EXPECT(rollout->advantage[1] == 0 && rollout->returns[1] == 0 && rollout->td_error[1] == 0);
    es_rollout_destroy(rollout);
}

// A_t = sum over s >= t of (gamma lambda)^(s - t) delta_s over the valid rows of one life,
// with positions counted among valid rows: O(n^2), nothing carried along.
static double advantage_by_sum(const EsRollout *r, int64_t env, int64_t start,
                               const EsAdvantageOptions *o) {
    double sum = 0, factor = 1;
    for (int64_t t = start; t < r->shape.n_steps; t++) {
        int64_t row = t * r->shape.n_envs + env;
        if (!r->is_valid[row]) {
            continue;
        }
        int64_t follower = -1;
        for (int64_t later = t + 1; later < r->shape.n_steps && follower < 0; later++) {
            int64_t other = later * r->shape.n_envs + env;
            follower = r->is_valid[other] ? other : -1;
        }
        double next;
        if (r->is_done[row]) {
            next = r->is_truncated[row] && o->bootstraps ? (double)r->bootstrap[row] : 0;
        } else {
            next = follower >= 0 ? (double)r->value[follower] : (double)r->bootstrap[row];
        }
        double reward = (double)r->reward[row] / o->reward_scale;
        reward = fmax(-o->reward_clip, fmin(o->reward_clip, reward));
        double delta = reward + o->value_scale * (o->gamma * next - (double)r->value[row]);
        sum += factor * delta;
        factor *= o->gamma * o->lambda;
        if (r->is_done[row]) {
            break;
        }
    }
    return sum;
}

TEST(advantages_equal_the_sum_over_the_rest_of_the_episode) {
    for (uint32_t seed = 0; seed < 20; seed++) {
        EsRollout *r = make_rollout(1 + seed * 3, 1 + seed % 5);
        for (int64_t row = 0; row < r->n_rows; row++) {
            EsRandom4 a = es_random_draw(seed, (uint32_t)row, ES_PURPOSE_ACTION, 0, 0);
            EsRandom4 b = es_random_draw(seed, (uint32_t)row, ES_PURPOSE_ACTION, 0, 1);
            r->is_valid[row] = a.word[0] % 5 != 0;
            r->is_done[row] = a.word[1] % 6 == 0;
            r->is_truncated[row] = r->is_done[row] && a.word[2] % 2 == 0;
            r->reward[row] = 4 * es_random_uniform(a.word[3]) - 2;
            r->value[row] = 4 * es_random_uniform(b.word[0]) - 2;
            r->bootstrap[row] = 4 * es_random_uniform(b.word[1]) - 2;
        }
        EsAdvantageOptions options = {.gamma = 0.97,
                                      .lambda = seed % 3 == 0 ? 1 : 0.9,
                                      .reward_scale = 0.4,
                                      .reward_clip = 3,
                                      .value_scale = 1.7,
                                      .bootstraps = (int)(seed % 2)};
        es_rollout_finish(r, &options);
        for (int64_t row = 0; row < r->n_rows; row++) {
            int64_t env = row % r->shape.n_envs, t = row / r->shape.n_envs;
            double expected = r->is_valid[row] ? advantage_by_sum(r, env, t, &options) : 0;
            EXPECT_NEAR(r->advantage[row], expected, 4e-6);
        }
        es_rollout_destroy(r);
    }
}

TEST(a_break_punishes_the_last_valid_row_alone) {
    EsRollout *r = make_rollout(5, 2);
    for (int64_t row = 0; row < r->n_rows; row++) {
        r->is_valid[row] = 1;
        r->reward[row] = 1;
    }
    r->is_truncated[es_rollout_row(r, 1, 1)] = 1; // stale: the row has not ended
    es_rollout_break(r, 2, 1, -10, 0);
    EXPECT_EQ(r->is_valid[es_rollout_row(r, 2, 1)], 0);
    EXPECT_NEAR(r->reward[es_rollout_row(r, 1, 1)], -9, 0);
    EXPECT_EQ(r->is_done[es_rollout_row(r, 1, 1)], 1);
    EXPECT_EQ(r->is_truncated[es_rollout_row(r, 1, 1)], 0);
    EXPECT_EQ(r->is_reset[es_rollout_row(r, 3, 1)], 1);
    EXPECT_NEAR(r->reward[es_rollout_row(r, 0, 1)], 1, 0);
    for (int64_t t = 0; t < 5; t++) {
        int64_t row = es_rollout_row(r, t, 0); // the neighbour saw nothing of it
        EXPECT(r->is_valid[row] == 1 && r->is_done[row] == 0 && r->reward[row] == 1);
        EXPECT_EQ(r->is_reset[row], t == 0);
    }
    // broken again before it did anything: nobody is to blame
    es_rollout_break(r, 3, 1, -10, 0);
    EXPECT_NEAR(r->reward[es_rollout_row(r, 1, 1)], -9, 0);
    EXPECT_EQ(r->is_reset[es_rollout_row(r, 4, 1)], 1);
    es_rollout_finish(r, &plain);
    EXPECT_NEAR(r->advantage[es_rollout_row(r, 1, 1)], -9, 0);
    EXPECT_NEAR(r->advantage[es_rollout_row(r, 0, 1)], 1 - 9 / 4.0, 0);
    es_rollout_destroy(r);
}

TEST(a_penalty_is_not_scaled) {
    EsRollout *r = make_rollout(2, 1);
    r->is_valid[0] = r->is_valid[1] = 1;
    r->reward[0] = 6;
    es_rollout_break(r, 1, 0, 2, -7);
    EXPECT(r->reward[0] == 8 && r->penalty[0] == -7);
    EsAdvantageOptions options = plain;
    options.reward_scale = 4;
    options.reward_clip = 10;
    es_rollout_finish(r, &options);
    EXPECT_NEAR(r->scaled_reward[0], 8 / 4.0 - 7, 0);
    options.reward_clip = 3; // the clip holds for the sum
    es_rollout_finish(r, &options);
    EXPECT_NEAR(r->scaled_reward[0], -3, 0);
    es_rollout_destroy(r);
}

TEST(a_break_at_the_edges) {
    EsRollout *r = make_rollout(2, 1);
    r->is_valid[0] = r->is_valid[1] = 1;
    es_rollout_break(r, 0, 0, -10, -5); // nothing before it: reward and penalty reach no row
    EXPECT(r->reward[0] == 0 && r->is_done[0] == 0 && r->is_valid[0] == 0 && r->is_reset[1] == 1);
    es_rollout_finish(r, &plain);
    EXPECT(r->scaled_reward[0] == 0 && r->scaled_reward[1] == 0);
    es_rollout_reset(r);
    EXPECT(r->is_valid[1] == 0 && r->is_reset[0] == 1 && r->is_reset[1] == 0);
    r->is_valid[0] = r->is_valid[1] = 1;
    es_rollout_break(r, 1, 0, -10, 0); // nothing after it
    EXPECT(r->reward[0] == -10 && r->is_done[0] == 1);
    es_rollout_destroy(r);
}

TEST(bad_shapes_are_refused) {
    const int sizes[] = {3, 65};
    EsRollout *r = NULL;
    EsRolloutShape shape = {.n_steps = 0, .n_envs = 1, .policy = es_policy_shape(1, sizes)};
    EXPECT_STATUS(es_rollout_create(&shape, &r), ARGUMENT);
    EXPECT(r == NULL);
    shape.n_steps = 1;
    shape.policy = es_policy_shape(2, sizes);
    EXPECT_STATUS(es_rollout_create(&shape, &r), ARGUMENT);
    EXPECT_TEXT(es_status_detail(), "rollout: head 1 has 65 values, must have 1 to 64");
    shape.policy = es_policy_shape(1, sizes);
    shape.policy.n_logits = 4;
    EXPECT_STATUS(es_rollout_create(&shape, &r), ARGUMENT);
    EXPECT_TEXT(es_status_detail(), "rollout: 4 logits in a row, but the heads have 3 values");
    const int none[] = {0};
    shape.policy = es_policy_shape(1, none);
    EXPECT_STATUS(es_rollout_create(&shape, &r), ARGUMENT);
    shape.policy.n_logits = 7;
    EXPECT_STATUS(es_rollout_create(&shape, &r), OK);
    EXPECT(es_policy_shape_is_ragged(&r->shape.policy) && r->first_logit != NULL);
    es_rollout_destroy(r);
    es_rollout_destroy(NULL);
}
