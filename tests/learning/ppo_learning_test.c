// Does PPO learn? Small problems with a linear policy whose best answer, or value, is known.
#include "base/random_rules.h"
#include "learning/choice_rules.h"
#include "learning/ppo.h"
#include "linear_model.h"

static float uniform(uint32_t round, int64_t row, uint32_t draw) {
    EsRandom4 r = es_random_draw(11, round, ES_PURPOSE_ACTION, (uint32_t)row, draw);
    return es_random_uniform(r.word[0]);
}

// --- two heads: `pull` (0 leave, 1 pull, 2 break) and the arm, which pulling alone reads ---

enum { N_STEPS = 4, N_ENVS = 32, N_PULL = 3, N_ARMS = 4 };

static int best_arm(const float *x) { return x[0] > 0 ? 2 : 3; }

// Leaving is safe, the right arm of a context pays, others cost: the second head must be learned
// through rows that chose to read it.
static float payment(const float *x, int pull, int arm) {
    if (pull == 1) {
        return arm == best_arm(x) ? 1.0f : -0.2f;
    }
    return pull == 0 ? 0.1f : -0.5f;
}

static void play_round(EsRollout *r, const EsPpoSettings *settings, LinearModel *linear,
                       uint32_t round) {
    es_rollout_reset(r);
    linear->rollout = r;
    for (int64_t row = 0; row < r->n_rows; row++) {
        float *x = r->features + row * 2, logits[N_PULL + N_ARMS];
        double p[ES_CHOICE_MAX];
        x[0] = uniform(round, row, 0) < 0.5f;
        x[1] = 1 - x[0];
        for (int o = 0; o < N_PULL + N_ARMS; o++) {
            logits[o] = (float)linear_dot(linear->weights + o * 2, x, 2);
        }
        // now and then an arm is missing, never the best one
        r->mask[row * 2] = 0x7;
        r->mask[row * 2 + 1] = uniform(round, row, 1) < 0.3f ? 0xE : 0xF;
        es_choice_probabilities(logits, N_PULL, 0x7, settings->head[0].floor, p);
        int pull = es_choice_draw(p, N_PULL, 0x7, uniform(round, row, 2));
        es_choice_probabilities(logits + N_PULL, N_ARMS, r->mask[row * 2 + 1],
                                settings->head[1].floor, p);
        int arm = es_choice_draw(p, N_ARMS, r->mask[row * 2 + 1], uniform(round, row, 3));
        r->action[row * 2] = (int16_t)pull;
        r->action[row * 2 + 1] = (int16_t)arm;
        r->used[row] = r->causal[row] = pull == 1 ? 3 : 1;
        r->available[row] = 3;
        r->value[row] = (float)linear_dot(linear->weights + (N_PULL + N_ARMS) * 2, x, 2);
        r->reward[row] = payment(x, pull, arm);
        r->is_valid[row] = r->is_done[row] = 1;
    }
}

TEST(two_heads_find_the_arm_that_pays) {
    const int sizes[] = {N_PULL, N_ARMS};
    EsRolloutShape shape = {
        .n_steps = N_STEPS, .n_envs = N_ENVS, .n_features = 2, .policy = es_policy_shape(2, sizes)};
    EsPpoSettings settings = es_ppo_defaults();
    settings.rate = 0.03f;
    settings.entropy_start = settings.entropy_end = 0.003f;
    settings.head[0].floor = settings.head[1].floor = 0.005f;
    EsRollout *r = NULL;
    EsPpo *ppo = NULL;
    REQUIRE_OK(es_rollout_create(&shape, &r));
    REQUIRE_OK(es_ppo_create(&settings, &shape, &ppo));
    LinearModel linear = linear_model(&shape, 0);
    EsPpoModel model = linear_interface(&linear);
    EsPpoReport report;
    double first_loss = 0, first_reward = 0, last_reward = 0;
    for (uint32_t round = 0; round < 150; round++) {
        play_round(r, &settings, &linear, round);
        REQUIRE_OK(es_ppo_update(ppo, r, &model, &report));
        first_loss = round == 0 ? report.value_loss : first_loss;
        last_reward = 0;
        for (int64_t row = 0; row < r->n_rows; row++) {
            last_reward += (double)r->reward[row] / (double)r->n_rows;
        }
        first_reward = round == 0 ? last_reward : first_reward;
    }
    EXPECT(first_reward < 0.1);
    EXPECT(last_reward > 0.85);
    EXPECT(report.value_loss < 0.5 * first_loss);
    EXPECT(report.head_entropy[0] < 0.3 && report.head_entropy[1] < 0.3);
    for (int context = 0; context < 2; context++) {
        const float x[] = {(float)context, (float)(1 - context)};
        float logits[N_PULL + N_ARMS];
        double p[N_ARMS];
        for (int o = 0; o < N_PULL + N_ARMS; o++) {
            logits[o] = (float)linear_dot(linear.weights + o * 2, x, 2);
        }
        es_choice_probabilities(logits, N_PULL, 0x7, 0, p);
        EXPECT(p[1] > 0.9);
        es_choice_probabilities(logits + N_PULL, N_ARMS, 0xF, 0, p);
        EXPECT(p[best_arm(x)] > 0.9);
    }
    es_ppo_destroy(ppo);
    es_rollout_destroy(r);
}

// --- ragged: among 2 to 100 candidates one has the sign that pays ---

enum { N_SIGNS = 4, N_CANDIDATES_MAX = 100, N_RAGGED_ROWS = 96 };

static float candidates[N_RAGGED_ROWS * N_CANDIDATES_MAX * N_SIGNS];
static int16_t good[N_RAGGED_ROWS];

// Returns the mean reward.
static double play_ragged(EsRollout *r, LinearModel *linear, uint32_t round) {
    es_rollout_reset(r);
    double sum = 0;
    for (int64_t row = 0; row < r->n_rows; row++) {
        int n = 2 + (int)(uniform(round, row, 0) * 99);
        good[row] = (int16_t)(uniform(round, row, 1) * (float)n);
        float *x = candidates + r->first_logit[row] * N_SIGNS, logits[N_CANDIDATES_MAX];
        double p[N_CANDIDATES_MAX];
        for (int i = 0; i < n; i++) {
            x[i * N_SIGNS] = i == good[row];
            for (int k = 1; k < N_SIGNS; k++) {
                x[i * N_SIGNS + k] = 2 * uniform(round, row, 10 + (uint32_t)(i * N_SIGNS + k)) - 1;
            }
            logits[i] =
                (float)linear_dot(linear->weights + linear->n_outputs, x + i * N_SIGNS, N_SIGNS);
        }
        r->first_logit[row + 1] = r->first_logit[row] + n;
        es_choice_probabilities(logits, n, ES_CHOICE_ALL, 0, p);
        r->action[row] = (int16_t)es_choice_draw(p, n, ES_CHOICE_ALL, uniform(round, row, 2));
        r->features[row] = 1;
        r->used[row] = r->causal[row] = r->available[row] = 1;
        r->value[row] = (float)linear->weights[0];
        r->reward[row] = r->action[row] == good[row];
        r->is_valid[row] = r->is_done[row] = 1;
        sum += (double)r->reward[row];
    }
    return sum / (double)r->n_rows;
}

TEST(a_ragged_head_finds_the_candidate_that_pays) {
    const int sizes[] = {0};
    EsRolloutShape shape = {
        .n_steps = 3, .n_envs = 32, .n_features = 1, .policy = es_policy_shape(1, sizes)};
    shape.policy.n_logits = N_CANDIDATES_MAX;
    EsPpoSettings settings = es_ppo_defaults();
    settings.rate = 0.05f;
    settings.entropy_start = settings.entropy_end = 0;
    settings.bootstraps = 0;
    EsRollout *r = NULL;
    EsPpo *ppo = NULL;
    REQUIRE_OK(es_rollout_create(&shape, &r));
    REQUIRE_OK(es_ppo_create(&settings, &shape, &ppo));
    LinearModel linear = linear_model(&shape, N_SIGNS);
    linear.candidates = candidates;
    EsPpoModel model = linear_interface(&linear);
    EsPpoReport report;
    double first = play_ragged(r, &linear, 0), last = 0;
    for (uint32_t round = 0; round < 120; round++) {
        last = play_ragged(r, &linear, round);
        REQUIRE_OK(es_ppo_update(ppo, r, &model, &report));
    }
    EXPECT(first < 0.2);
    EXPECT(last > 0.9);
    const double *w = linear.weights + linear.n_outputs;
    // the signs that mean nothing stay small beside the one that pays
    EXPECT(w[0] > 5 * fmax(fabs(w[1]), fmax(fabs(w[2]), fabs(w[3]))));
    es_ppo_destroy(ppo);
    es_rollout_destroy(r);
}

// --- episodes of one length, with a clock to see: what the value is worth in the end ---

enum { N_CLOCK = 10, N_CLOCK_ENVS = 16 };

static const float step_pay = 0.5f, end_pay = 2; // the end is paid for in the last step

// The policy sees the clock, one feature per step, and what it does is without effect. The state
// after the last step looks like the last one: the clock stands.
static void play_clock(EsRollout *r, const LinearModel *linear) {
    es_rollout_reset(r);
    for (int64_t row = 0; row < r->n_rows; row++) {
        int64_t t = row / N_CLOCK_ENVS;
        int is_last = t == N_CLOCK - 1;
        float value = (float)linear->weights[2 * N_CLOCK + t];
        r->features[row * N_CLOCK + t] = 1;
        r->action[row] = (int16_t)(row % 2);
        r->mask[row] = 0x3;
        r->used[row] = r->causal[row] = r->available[row] = 1;
        r->value[row] = value;
        r->bootstrap[row] = is_last ? value : 0;
        r->reward[row] = is_last ? step_pay + end_pay : step_pay;
        r->is_valid[row] = 1;
        r->is_done[row] = r->is_truncated[row] = (uint8_t)is_last;
    }
}

// Mean value over what the rows really return, in the rounds after the first `n_warmup`: the lowest
// and the highest of any round.
static void watch_value(int bootstraps, int n_rounds, int n_warmup, double *lowest,
                        double *highest) {
    const int sizes[] = {2};
    EsRolloutShape shape = {.n_steps = N_CLOCK,
                            .n_envs = N_CLOCK_ENVS,
                            .n_features = N_CLOCK,
                            .policy = es_policy_shape(1, sizes)};
    EsPpoSettings settings = es_ppo_defaults();
    EXPECT_EQ(settings.bootstraps, 0);
    settings.rate = 0.03f;
    settings.bootstraps = bootstraps;
    EsRollout *r = NULL;
    EsPpo *ppo = NULL;
    REQUIRE_OK(es_rollout_create(&shape, &r));
    REQUIRE_OK(es_ppo_create(&settings, &shape, &ppo));
    LinearModel linear = linear_model(&shape, 0);
    EsPpoModel model = linear_interface(&linear);
    EsPpoReport report;
    *lowest = INFINITY;
    *highest = -INFINITY;
    for (int round = 0; round < n_rounds; round++) {
        play_clock(r, &linear);
        REQUIRE_OK(es_ppo_update(ppo, r, &model, &report));
        double to_come = 0, truth = 0;
        for (int64_t t = N_CLOCK - 1; t >= 0; t--) { // on the scale of scaled rewards
            to_come = (double)r->scaled_reward[t * N_CLOCK_ENVS] + (double)settings.gamma * to_come;
            truth += to_come / N_CLOCK;
        }
        if (round >= n_warmup) {
            *lowest = fmin(*lowest, report.value_mean / truth);
            *highest = fmax(*highest, report.value_mean / truth);
        }
    }
    es_ppo_destroy(ppo);
    es_rollout_destroy(r);
}

TEST(the_value_of_an_episode_that_ends_stays_near_its_return) {
    double lowest, highest;
    watch_value(0, 600, 100, &lowest, &highest);
    printf("  value over return, rounds 100 to 600: %.3f to %.3f\n", lowest, highest);
    EXPECT(lowest > 0.98);
    EXPECT(highest < 1.02);
}

// Why the default is not the published 1: the target of the last row's value contains that value,
// which so climbs towards 2.5 / (1 - 0.995) = 500 where 2.5 is true.
TEST(a_bootstrap_after_an_observed_end_inflates_the_value) {
    double early, late, unused;
    watch_value(1, 100, 99, &early, &unused);
    watch_value(1, 600, 599, &late, &unused);
    printf("  value over return: %.2f in round 100, %.2f in round 600\n", early, late);
    EXPECT(early > 10);
    EXPECT(late > early);
}
