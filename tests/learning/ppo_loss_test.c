// PPO's loss against a plain re-computation, its gradients against finite differences of the total.
#include "learning/ppo_loss.h"

#include "base/random_rules.h"
#include "es_test.h"

// A random batch, with its outputs and everything they need.
typedef struct Batch {
    EsPpoSettings settings;
    EsRollout *rollout;
    EsPpoBatch batch;
    EsOutputs outputs, gradients;
    double *log_probability;
    float *members[4]; // of outputs
    int64_t counts[4];
    uint32_t seed, draw;
} Batch;

static uint32_t next_word(Batch *b) {
    return es_random_draw(b->seed, 0, ES_PURPOSE_EVALUATION, 0, b->draw++).word[0];
}

static float between(Batch *b, float low, float high) {
    return low + (high - low) * es_random_uniform(next_word(b));
}

static void *take(int64_t n, size_t size) {
    void *memory = calloc((size_t)n + 1, size);
    if (memory == NULL) {
        exit(1);
    }
    return memory;
}

static void fill_rows(Batch *b) {
    EsRollout *r = b->rollout;
    const EsPolicyShape *shape = &r->shape.policy;
    for (int64_t row = 0; row < r->n_rows; row++) {
        r->is_valid[row] = next_word(b) % 5 != 0;
        r->is_forced[row] = next_word(b) % 6 == 0;
        if (r->first_logit != NULL) {
            r->first_logit[row + 1] = r->first_logit[row] + 1 + next_word(b) % 90;
        }
        for (int h = 0; h < shape->n_heads; h++) {
            int64_t at = row * shape->n_heads + h;
            int64_t n = r->first_logit != NULL ? r->first_logit[row + 1] - r->first_logit[row]
                                               : shape->head_size[h];
            r->action[at] = (int16_t)(next_word(b) % (uint32_t)n);
            if (r->first_logit == NULL) { // sizes below 64
                r->mask[at] = next_word(b) | ((uint64_t)1 << r->action[at]);
                r->mask[at] &= ((uint64_t)1 << n) - 1;
            }
        }
        uint32_t every = (1u << shape->n_heads) - 1;
        r->used[row] = (next_word(b) & every) | 1u;
        r->causal[row] = next_word(b) % 3 == 0 ? 1u : r->used[row];
        r->available[row] = (r->used[row] | next_word(b)) & every;
        for (int64_t k = 0; k < r->shape.n_targets; k++) {
            int64_t at = row * r->shape.n_targets + k;
            r->has_target[at] = next_word(b) % 3 == 0;
            r->target[at] = between(b, -15, 15); // some beyond the clip
        }
    }
}

static void fill_outputs(Batch *b) {
    const EsRollout *r = b->rollout;
    int64_t n_logits =
        r->first_logit != NULL ? r->first_logit[r->n_rows] : r->n_rows * r->shape.policy.n_logits;
    const int64_t counts[] = {n_logits, r->n_rows, r->n_rows, r->n_rows * r->shape.n_targets};
    float *gradients[4];
    for (int m = 0; m < 4; m++) {
        b->counts[m] = counts[m];
        b->members[m] = take(counts[m], sizeof(float));
        gradients[m] = take(counts[m], sizeof(float));
        for (int64_t i = 0; i < counts[m]; i++) {
            b->members[m][i] = between(b, -2, 2);
        }
    }
    b->outputs = (EsOutputs){b->members[0], b->members[1], b->members[2], b->members[3]};
    b->gradients = (EsOutputs){gradients[0], gradients[1], gradients[2], gradients[3]};
}

// In place: the batch points at the settings.
static void make_batch(Batch *b, uint32_t seed, int is_ragged) {
    const int sizes[] = {6, 3, 13, 1}, none[] = {0};
    *b = (Batch){.seed = seed, .settings = es_ppo_defaults()};
    EsRolloutShape shape = {.n_steps = 7, .n_envs = 5, .n_targets = 2};
    shape.policy = is_ragged ? es_policy_shape(1, none) : es_policy_shape(4, sizes);
    shape.policy.n_logits = is_ragged ? 90 : shape.policy.n_logits;
    REQUIRE_OK(es_rollout_create(&shape, &b->rollout));
    for (int h = 0; h < shape.policy.n_heads; h++) {
        b->settings.head[h] = (EsPpoHead){.floor = h == 1 ? 0 : 0.004f + 0.02f * (float)h,
                                          .entropy_weight = 1 + 0.1f * (float)h,
                                          .entropy_floor = 0.95f, // in force
                                          .floor_penalty = 0.3f};
    }
    b->settings.auxiliary_clip = 10;
    fill_rows(b);
    fill_outputs(b);
    int64_t n_rows = b->rollout->n_rows, n_heads = shape.policy.n_heads;
    float *advantage = take(n_rows, sizeof(float)), *target = take(n_rows, sizeof(float));
    double *reference = take(n_rows * n_heads, sizeof(double));
    b->log_probability = take(n_rows * n_heads, sizeof(double));
    for (int64_t row = 0; row < n_rows; row++) {
        advantage[row] = between(b, -2, 2);
        target[row] = between(b, -2, 2);
    }
    b->batch = (EsPpoBatch){.settings = &b->settings,
                            .rollout = b->rollout,
                            .advantage = advantage,
                            .value_target = target,
                            .scratch = take(90, sizeof(double)),
                            .coefficients = {0.4, 0.05, 1.5, 0.03}};
    EsPpoLoss loss;
    es_ppo_loss(&b->batch, &b->outputs, b->log_probability, &loss);
    for (int64_t at = 0; at < n_rows * n_heads; at++) {
        // ratios of 0.67 to 1.5; now and then one where the clamp of the log ratio holds
        double shift = next_word(b) % 12 == 0 ? 25 : (double)between(b, -0.4f, 0.4f);
        // off the edges of the clip, where the loss has a kink and differences mean nothing
        double edge = fmin(fabs(shift + log(1.2)), fabs(shift + log(0.8)));
        shift += edge < 0.01 ? 0.03 : 0;
        reference[at] = b->log_probability[at] == 0 ? 0 : b->log_probability[at] + shift;
    }
    b->batch.reference = reference;
}

static void drop_batch(Batch *b) {
    free((void *)b->batch.advantage);
    free((void *)b->batch.value_target);
    free((void *)b->batch.reference);
    free(b->batch.scratch);
    free(b->log_probability);
    for (int m = 0; m < 4; m++) {
        free(b->members[m]);
    }
    free(b->gradients.logits);
    free(b->gradients.value);
    free(b->gradients.action_value);
    free(b->gradients.auxiliary);
    es_rollout_destroy(b->rollout);
}

// log p and normalised entropy of one head in one row, with libm and without any of our rules
static void judge(const Batch *b, int64_t row, int h, double *log_p, double *entropy) {
    const EsRollout *r = b->rollout;
    const EsPolicyShape *shape = &r->shape.policy;
    int64_t first = row * shape->n_logits, n = shape->head_size[h];
    for (int k = 0; k < h; k++) {
        first += shape->head_size[k];
    }
    uint64_t mask = r->mask[row * shape->n_heads + h];
    if (r->first_logit != NULL) {
        first = r->first_logit[row];
        n = r->first_logit[row + 1] - first;
    }
    double sum = 0, n_legal = 0;
    for (int64_t i = 0; i < n; i++) {
        int is_legal = r->first_logit != NULL || ((mask >> i) & 1);
        sum += is_legal ? exp((double)b->outputs.logits[first + i]) : 0;
        n_legal += is_legal;
    }
    double f = fmin((double)b->settings.head[h].floor, 0.99 / n_legal);
    *entropy = 0;
    for (int64_t i = 0; i < n; i++) {
        if (r->first_logit != NULL || ((mask >> i) & 1)) {
            double p = (1 - n_legal * f) * exp((double)b->outputs.logits[first + i]) / sum + f;
            *entropy -= n_legal > 1 ? p * log(p) / log(n_legal) : 0;
            if (i == r->action[row * shape->n_heads + h]) {
                *log_p = log(p);
            }
        }
    }
}

typedef struct PlainHead {
    double policy, kl, n, entropy, available_entropy, n_available;
} PlainHead;

static PlainHead plain_head(const Batch *b, int h) {
    const EsRollout *r = b->rollout;
    PlainHead head = {0};
    for (int64_t row = 0; row < r->n_rows; row++) {
        double log_p = 0, entropy = 0, w = r->is_valid[row] && !r->is_forced[row];
        judge(b, row, h, &log_p, &entropy);
        int64_t at = row * r->shape.policy.n_heads + h;
        double x = (r->used[row] >> h) & 1 ? log_p - b->batch.reference[at] : 0;
        x = fmax(-20, fmin(20, x));
        double a = (double)b->batch.advantage[row], rho = exp(x);
        double is_causal = w * ((r->causal[row] >> h) & 1);
        double is_available = w * ((r->available[row] >> h) & 1);
        double e = (double)b->settings.clip;
        head.policy -= is_causal * fmin(rho * a, fmax(1 - e, fmin(1 + e, rho)) * a);
        head.kl += is_causal * (rho - 1 - x);
        head.entropy += is_causal * entropy;
        head.n += is_causal;
        head.available_entropy += is_available * entropy;
        head.n_available += is_available;
    }
    return head;
}

static double plain_values(const Batch *b, const float *values) {
    double sum = 0, weights = 0;
    for (int64_t row = 0; row < b->rollout->n_rows; row++) {
        double w = b->rollout->is_forced[row] ? (double)b->settings.forced_value_weight : 1;
        w = b->rollout->is_valid[row] ? w : 0;
        double error = (double)values[row] - (double)b->batch.value_target[row];
        sum += 0.5 * w * error * error;
        weights += w;
    }
    return sum / fmax(1, weights);
}

static double plain_auxiliary(const Batch *b) {
    double sum = 0, n = 0;
    for (int64_t at = 0; at < b->counts[3]; at++) {
        if (b->rollout->is_valid[at / 2] && b->rollout->has_target[at]) {
            double target = fmax(-10, fmin(10, (double)b->rollout->target[at]));
            sum += pow((double)b->outputs.auxiliary[at] - target, 2);
            n++;
        }
    }
    return sum / fmax(1, n);
}

static void check_loss(uint32_t seed, int is_ragged) {
    Batch b;
    make_batch(&b, seed, is_ragged);
    EsPpoLoss loss;
    es_ppo_loss(&b.batch, &b.outputs, b.log_probability, &loss);
    double policy = 0, entropy = 0, floor = 0, kl = 0, n = 0;
    for (int h = 0; h < b.rollout->shape.policy.n_heads; h++) {
        PlainHead head = plain_head(&b, h);
        const EsPpoHead *settings = &b.settings.head[h];
        policy += head.policy / fmax(1, head.n);
        entropy += (double)settings->entropy_weight * head.entropy / fmax(1, head.n);
        double gap = (double)settings->entropy_floor - head.available_entropy / head.n_available;
        floor +=
            head.n_available > 0 ? 1.5 * (double)settings->floor_penalty * pow(fmax(0, gap), 2) : 0;
        kl += head.kl;
        n += head.n;
        EXPECT_NEAR(loss.head[h].n_causal, head.n, 0);
    }
    EXPECT_EQ(loss.n_nonfinite, 0);
    EXPECT_NEAR(loss.policy, policy, 1e-12);
    EXPECT_NEAR(loss.entropy, entropy, 1e-11);
    EXPECT_NEAR(loss.floor, floor, 1e-11);
    EXPECT(floor > 1e-4);
    EXPECT_NEAR(loss.kl, kl / n, 1e-12 * kl / n);
    double value = plain_values(&b, b.outputs.value);
    double action_value = plain_values(&b, b.outputs.action_value);
    EXPECT_NEAR(loss.value, value, 1e-12);
    EXPECT_NEAR(loss.action_value, action_value, 1e-12);
    double auxiliary = plain_auxiliary(&b);
    EXPECT_NEAR(loss.auxiliary, auxiliary, 1e-12);
    EXPECT_NEAR(loss.total,
                policy + 0.4 * value + 0.2 * action_value - 0.05 * entropy + floor +
                    0.03 * auxiliary,
                1e-12);
    drop_batch(&b);
}

TEST(loss_is_that_of_the_specification) {
    for (uint32_t seed = 1; seed <= 10; seed++) {
        check_loss(seed, 0);
        check_loss(seed, 1);
    }
}

static double total_of(Batch *b) {
    EsPpoLoss loss;
    es_ppo_loss(&b->batch, &b->outputs, b->log_probability, &loss);
    return loss.total;
}

static void check_gradients(uint32_t seed, int is_ragged) {
    Batch b;
    make_batch(&b, seed, is_ragged);
    EsPpoLoss loss;
    es_ppo_loss(&b.batch, &b.outputs, b.log_probability, &loss);
    es_ppo_loss_gradient(&b.batch, &b.outputs, b.log_probability, &loss, &b.gradients);
    const float *gradients[] = {b.gradients.logits, b.gradients.value, b.gradients.action_value,
                                b.gradients.auxiliary};
    const char *names[] = {"logits", "value", "action_value", "auxiliary"};
    for (int m = 0; m < 4; m++) {
        double size = 0;
        for (int64_t i = 0; i < b.counts[m]; i++) {
            float *x = &b.members[m][i], start = *x;
            *x = start + 0x1p-11f;
            double above = total_of(&b), up = (double)*x;
            *x = start - 0x1p-11f;
            double below = total_of(&b), down = (double)*x;
            *x = start;
            double slope = (above - below) / (up - down), actual = (double)gradients[m][i];
            size = fmax(size, fabs(slope));
            if (!(fabs(actual - slope) <= 2e-7)) {
                ES_TEST_FAIL("seed %u, %s %lld: gradient %.9g, difference %.9g", seed, names[m],
                             (long long)i, actual, slope);
            }
        }
        EXPECT(size > 1e-4);
    }
    drop_batch(&b);
}

TEST(gradients_are_finite_differences_of_the_total) {
    for (uint32_t seed = 1; seed <= 6; seed++) {
        check_gradients(seed, 0);
        check_gradients(seed, 1);
    }
}

TEST(rows_that_are_not_valid_weigh_nothing) {
    Batch b;
    make_batch(&b, 3, 0);
    double before = total_of(&b);
    const EsRollout *r = b.rollout;
    int n_spoiled = 0;
    for (int64_t row = 0; row < r->n_rows; row++) {
        if (!r->is_valid[row]) {
            n_spoiled++;
            b.outputs.value[row] = b.outputs.action_value[row] = (float)NAN;
            for (int i = 0; i < r->shape.policy.n_logits; i++) {
                b.outputs.logits[row * r->shape.policy.n_logits + i] = (float)NAN;
            }
        }
    }
    EXPECT(n_spoiled > 0);
    EsPpoLoss loss;
    es_ppo_loss(&b.batch, &b.outputs, b.log_probability, &loss);
    EXPECT(loss.total == before && loss.n_nonfinite == 0);
    es_ppo_loss_gradient(&b.batch, &b.outputs, b.log_probability, &loss, &b.gradients);
    for (int64_t i = 0; i < b.counts[0]; i++) {
        EXPECT(isfinite(b.gradients.logits[i]));
    }
    drop_batch(&b);
}

TEST(numbers_that_are_not_finite_are_counted) {
    Batch b;
    make_batch(&b, 4, 0);
    const EsRollout *r = b.rollout;
    int64_t row = 0;
    while (!(r->is_valid[row] && !r->is_forced[row])) {
        row++;
    }
    EsPpoLoss loss;
    b.outputs.value[row] = (float)INFINITY;
    es_ppo_loss(&b.batch, &b.outputs, b.log_probability, &loss);
    EXPECT_EQ(loss.n_nonfinite, 1);
    b.outputs.value[row] = 0;
    b.outputs.action_value[row] = (float)NAN;
    es_ppo_loss(&b.batch, &b.outputs, b.log_probability, &loss);
    EXPECT_EQ(loss.n_nonfinite, 1);
    b.outputs.action_value[row] = 0;
    b.outputs.logits[row * r->shape.policy.n_logits + r->action[row * 4]] = (float)NAN;
    es_ppo_loss(&b.batch, &b.outputs, b.log_probability, &loss);
    EXPECT_EQ(loss.n_nonfinite, 2); // its log-probability and its entropy
    drop_batch(&b);
}

TEST(without_a_reference_ratios_are_one) {
    Batch b;
    make_batch(&b, 5, 0);
    free((void *)b.batch.reference);
    b.batch.reference = NULL;
    EsPpoLoss loss;
    es_ppo_loss(&b.batch, &b.outputs, b.log_probability, &loss);
    EXPECT(loss.kl == 0 && loss.ratio_min == 1 && loss.ratio_max == 1 && loss.ratio_std == 0);
    EXPECT(loss.n_above == 0 && loss.n_below == 0);
    drop_batch(&b);
}

TEST(a_clamped_log_ratio_has_no_gradient) {
    Batch b;
    make_batch(&b, 7, 1);
    EsRollout *r = b.rollout;
    memset(r->is_valid, 0, (size_t)r->n_rows);
    int64_t row = 0;
    while (r->first_logit[row + 1] - r->first_logit[row] < 2) {
        row++;
    }
    r->is_valid[row] = 1;
    r->is_forced[row] = 0;
    r->used[row] = r->causal[row] = r->available[row] = 1;
    ((float *)b.batch.advantage)[row] = -1; // an action that became likely and was bad: no clip
    b.batch.coefficients.entropy = b.batch.coefficients.floor = 0;
    EsPpoLoss loss;
    for (int is_clamped = 0; is_clamped < 2; is_clamped++) {
        double shift = is_clamped ? 25 : 15;
        es_ppo_loss(&b.batch, &b.outputs, b.log_probability, &loss);
        ((double *)b.batch.reference)[row] = b.log_probability[row] - shift;
        es_ppo_loss(&b.batch, &b.outputs, b.log_probability, &loss);
        EXPECT_NEAR(loss.policy, exp(fmin(shift, 20)), 1e-12 * exp(20));
        es_ppo_loss_gradient(&b.batch, &b.outputs, b.log_probability, &loss, &b.gradients);
        float slope = b.gradients.logits[r->first_logit[row] + r->action[row]];
        EXPECT(is_clamped ? slope == 0 : slope > 1e3f);
    }
    drop_batch(&b);
}

TEST(outputs_may_be_missing) {
    Batch b;
    make_batch(&b, 6, 0);
    EsPpoLoss with, without;
    es_ppo_loss(&b.batch, &b.outputs, b.log_probability, &with);
    b.outputs.action_value = b.outputs.auxiliary = NULL;
    b.gradients.action_value[0] = b.gradients.auxiliary[0] = 7;
    es_ppo_loss(&b.batch, &b.outputs, b.log_probability, &without);
    EXPECT_NEAR(without.total, with.total - 0.2 * with.action_value - 0.03 * with.auxiliary, 1e-12);
    es_ppo_loss_gradient(&b.batch, &b.outputs, b.log_probability, &without, &b.gradients);
    EXPECT(b.gradients.action_value[0] == 0 && b.gradients.auxiliary[0] == 0);
    drop_batch(&b);
}

TEST(coefficients_follow_their_schedules) {
    EsPpoSettings s = es_ppo_defaults();
    s.entropy_start = 0.1f;
    s.entropy_end = 0.02f;
    EsPpoCoefficients c = es_ppo_coefficients(&s, 0);
    EXPECT_NEAR(c.value, 0.05, 1e-8);
    EXPECT_NEAR(c.entropy, 0.1, 1e-8);
    EXPECT_NEAR(c.floor, 1, 0);
    EXPECT_NEAR(c.auxiliary, 0, 0);
    s.entropy_anneal = 8;
    s.total_updates = 100;
    c = es_ppo_coefficients(&s, 4);
    EXPECT_NEAR(c.value, 0.5 * (0.1 + 0.9 * 0.4), 1e-8);
    EXPECT_NEAR(c.entropy, 0.06, 1e-8);
    EXPECT_NEAR(c.auxiliary, 0.05 * 0.004, 1e-9);
    const int64_t updates[] = {0, 24, 25, 75, 90, 100, 1000};
    const double floors[] = {1.5, 1.5, 1, 1, 0.7, 0.5, 0.5};
    for (int i = 0; i < 7; i++) {
        EXPECT_NEAR(es_ppo_coefficients(&s, updates[i]).floor, floors[i], 1e-12);
    }
    c = es_ppo_coefficients(&s, 5000);
    EXPECT_NEAR(c.value, 0.5, 1e-8);
    EXPECT_NEAR(c.entropy, 0.02, 1e-8);
    EXPECT_NEAR(c.auxiliary, 0.05, 1e-8);
}
