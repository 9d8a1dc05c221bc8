// The learned policy in training: what its rows keep, rollbacks, the update, and going on from a
// file.
#include "control/ruled_hosts.h"
#include "control/rules/sampling_rules.h"
#include "temp_folder.h"
#include "tensor/safetensors.h"

typedef struct Training {
    Hosts hosts;
    EsDevice *device;
    EsPolicy *policy;
} Training;

static void training_begin(Training *t, int32_t n_slots, int32_t n_envs, uint64_t seed) {
    hosts_create(&t->hosts, n_slots, n_envs);
    t->device = open_cpu();
    t->policy = create_learned(&t->hosts, t->device, seed);
}

static void training_end(Training *t) {
    es_policy_destroy(t->policy);
    es_device_close(t->device);
    hosts_destroy(&t->hosts);
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes) {
    const unsigned char *byte = data;
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ byte[i]) * 1099511628211u;
    }
    return hash;
}

// Everything that training moves.
static uint64_t training_hash(const Training *t) {
    const EsLearned *learned = &t->policy->learned;
    const EsTensor *weights = &es_policy_network_store(learned->network)->parameters;
    const EsOptimiser *optimiser = es_policy_network_optimiser(learned->network);
    size_t row_bytes = sizeof(double) * (size_t)learned->features.n_features;
    const EsPpoState *ppo = es_ppo_state(learned->ppo);
    uint64_t hash = hash_bytes(14695981039346656037u, weights->data, es_tensor_bytes(weights));
    hash = hash_bytes(hash, optimiser->moment1.data, es_tensor_bytes(&optimiser->moment1));
    hash = hash_bytes(hash, optimiser->moment2.data, es_tensor_bytes(&optimiser->moment2));
    hash = hash_bytes(hash, optimiser->n_steps.data, es_tensor_bytes(&optimiser->n_steps));
    hash = hash_bytes(hash, learned->features.mean, row_bytes);
    hash = hash_bytes(hash, learned->features.variance, row_bytes);
    hash = hash_bytes(hash, &ppo->rewards, sizeof ppo->rewards);
    hash = hash_bytes(hash, &ppo->values, sizeof ppo->values);
    hash = hash_bytes(hash, &ppo->n_updates, sizeof ppo->n_updates);
    return hash_bytes(hash, &ppo->n_passes, sizeof ppo->n_passes);
}

// Checks a row against the state of the rules.
static void check_row(Training *t, int64_t step, int64_t e, const EsActionMasks *masks,
                      const int32_t *contribution_age, const float *contribution) {
    const EsRollout *r = t->policy->learned.rollout;
    const EsGrowthState *state = &t->hosts.state;
    int64_t row = es_rollout_row(r, step, e), n_slots = state->n_slots;
    const EsAction *action = &t->hosts.actions[e];
    int32_t op = es_action_value(action, ES_HEAD_OP);
    for (int head = 0; head < ES_N_HEADS; head++) {
        EXPECT_EQ(r->action[row * ES_N_HEADS + head], action->head[head]);
        int is_used = (r->used[row] >> head) & 1;
        EXPECT_EQ(is_used, es_head_matters(op, head));
        EXPECT(!is_used || (r->mask[row * ES_N_HEADS + head] >> action->head[head] & 1));
    }
    EXPECT_EQ(r->is_forced[row], masks[e].head[ES_HEAD_OP] == 1);
    EXPECT_EQ(r->is_valid[row], 1);
    EXPECT_EQ(r->causal[row], es_growth_op_heads(state->env.effective_op[e]));
    EXPECT(r->reward[row] == t->hosts.rewards[e]);
    int is_last = step == t->hosts.settings.episode_steps - 1;
    EXPECT_EQ(r->is_done[row], is_last);
    EXPECT_EQ(r->is_truncated[row], is_last);
    EXPECT_EQ(r->is_reset[row], step == 0);
    for (int64_t s = 0; s < n_slots; s++) {
        EXPECT_EQ(r->has_target[row * n_slots + s], contribution_age[e * n_slots + s] == 0);
        EXPECT(!r->has_target[row * n_slots + s] ||
               r->target[row * n_slots + s] == contribution[e * n_slots + s]);
    }
}

TEST(rows) {
    static Training t;
    training_begin(&t, 3, 4, 5);
    EsActionMasks masks[4];
    int32_t ages[12];
    float contributions[12];
    int64_t n_targets = 0;
    for (int64_t round = 0; round < 8; round++) {
        hosts_begin(&t.hosts, 4 * round);
        REQUIRE_OK(es_policy_begin(t.policy, 4 * round));
        for (int32_t step = 0; step < t.hosts.settings.episode_steps; step++) {
            hosts_measure(&t.hosts);
            memcpy(masks, t.hosts.masks, sizeof masks);
            memcpy(ages, t.hosts.state.seed.contribution_age, sizeof ages);
            memcpy(contributions, t.hosts.state.seed.contribution, sizeof contributions);
            REQUIRE_OK(es_policy_decide(t.policy, &t.hosts.state, t.hosts.masks, t.hosts.actions));
            hosts_act(&t.hosts);
            REQUIRE_OK(es_policy_training_record(t.policy, &t.hosts.state, t.hosts.rewards, 10));
            for (int64_t e = 0; e < 4; e++) {
                check_row(&t, step, e, masks, ages, contributions);
                for (int s = 0; s < 3; s++) {
                    n_targets += ages[e * 3 + s] == 0;
                }
            }
        }
    }
    // the original's targets were always stale
    EXPECT(n_targets > 20);
    training_end(&t);
}

// A refused action is credited as WAIT, the sampled action stays.
TEST(credit_goes_to_what_was_carried_out) {
    static Training t;
    training_begin(&t, 2, 3, 5);
    const EsRollout *r = t.policy->learned.rollout;
    int64_t n_refused = 0;
    for (int64_t round = 0; round < 20; round++) {
        hosts_begin(&t.hosts, 3 * round);
        REQUIRE_OK(es_policy_begin(t.policy, 3 * round));
        for (int64_t step = 0; step < 10; step++) {
            hosts_measure(&t.hosts);
            REQUIRE_OK(es_policy_decide(t.policy, &t.hosts.state, t.hosts.masks, t.hosts.actions));
            for (int64_t e = 0; e < 3; e++) { // the step was not measured after all
                t.hosts.state.env.accuracy[e] = NAN;
            }
            hosts_act(&t.hosts);
            REQUIRE_OK(es_policy_training_record(t.policy, &t.hosts.state, t.hosts.rewards, 10));
            for (int64_t e = 0; e < 3; e++) {
                int64_t row = es_rollout_row(r, step, e);
                EXPECT_EQ(r->causal[row], 1 << ES_HEAD_OP);
                n_refused += r->used[row] != r->causal[row];
            }
        }
    }
    EXPECT(n_refused > 20);
    training_end(&t);
}

TEST(rollbacks_break_the_row) {
    static Training t;
    training_begin(&t, 2, 3, 5);
    t.hosts.nan_env = 1;
    t.hosts.nan_step = 4;
    for (int step = 1; step <= 6; step++) {
        hosts_step(&t.hosts, t.policy);
    }
    const EsRollout *r = t.policy->learned.rollout;
    EXPECT_EQ(r->is_valid[es_rollout_row(r, 3, 1)], 0);
    int64_t last = es_rollout_row(r, 2, 1);
    EXPECT(r->is_valid[last] && r->is_done[last] && !r->is_truncated[last]);
    EXPECT(r->penalty[last] == -10);
    EXPECT_EQ(r->is_reset[es_rollout_row(r, 4, 1)], 1);
    EXPECT_EQ(r->is_valid[es_rollout_row(r, 4, 1)], 1);
    EXPECT_EQ(r->is_valid[es_rollout_row(r, 3, 0)], 1); // the others are left alone
    EXPECT_EQ(r->is_reset[es_rollout_row(r, 4, 0)], 0);
    training_end(&t);
}

// The value after the last step: that of the state then, with the recurrent state of then.
TEST(bootstrap_looks_at_the_state_after_the_last_step) {
    static Training t;
    training_begin(&t, 2, 3, 5);
    const EsRollout *r = t.policy->learned.rollout;
    EsOutputs outputs;
    EsPpoReport report;
    hosts_play(&t.hosts, t.policy, 0, NULL);
    float raw[3 * 85], normalised[3 * 85], values[3];
    int32_t blueprints[6];
    EXPECT_EQ(es_observation_size(2), 85);
    es_learned_observe(t.policy, &t.hosts.state, raw, normalised, blueprints);
    EXPECT(raw[0] == 1); // the episode is over
    REQUIRE_OK(
        es_policy_inference_act(t.policy->learned.network, normalised, blueprints, 1, &outputs));
    memcpy(values, outputs.value, sizeof values);
    REQUIRE_OK(es_policy_training_update(t.policy, &t.hosts.state, &report));
    for (int64_t e = 0; e < 3; e++) {
        EXPECT(r->bootstrap[es_rollout_row(r, r->shape.n_steps - 1, e)] == values[e]);
        EXPECT(r->bootstrap[es_rollout_row(r, r->shape.n_steps - 2, e)] == 0);
    }
    training_end(&t);
}

// The last step ends the episode, and its return is its reward. A round that stops earlier was cut:
// its last rows go on with the value of the state after them.
TEST(episodes_end_and_rounds_are_cut) {
    static Training t;
    EsPpoReport report;
    EXPECT_EQ(es_policy_ppo_defaults().bootstraps, 0);
    training_begin(&t, 2, 3, 5);
    const EsRollout *r = t.policy->learned.rollout;
    double gamma = (double)es_policy_ppo_defaults().gamma;
    hosts_play(&t.hosts, t.policy, 0, &report);
    for (int64_t e = 0; e < 3; e++) {
        int64_t row = es_rollout_row(r, r->shape.n_steps - 1, e);
        EXPECT(r->is_done[row] && r->bootstrap[row] != 0);
        EXPECT_NEAR(r->returns[row], r->scaled_reward[row], 1e-6);
    }
    double scale = es_value_scale(&es_ppo_state(t.policy->learned.ppo)->values);
    hosts_begin(&t.hosts, 3);
    REQUIRE_OK(es_policy_begin(t.policy, 3));
    for (int step = 0; step < 5; step++) {
        hosts_step(&t.hosts, t.policy);
    }
    REQUIRE_OK(es_policy_training_update(t.policy, &t.hosts.state, &report));
    EXPECT_EQ(report.n_valid, 15);
    for (int64_t e = 0; e < 3; e++) {
        int64_t row = es_rollout_row(r, 4, e);
        double after = gamma * scale * (double)r->bootstrap[row];
        EXPECT(!r->is_done[row] && r->bootstrap[row] != 0);
        EXPECT_NEAR(r->returns[row], (double)r->scaled_reward[row] + after, 1e-5);
    }
    training_end(&t);
}

TEST(an_update_moves_weights_and_normaliser) {
    static Training t, same;
    EsPpoReport report;
    training_begin(&t, 2, 3, 5);
    training_begin(&same, 2, 3, 5);
    t.hosts.nan_env = same.hosts.nan_env = 1;
    t.hosts.nan_step = same.hosts.nan_step = 7;
    uint64_t before = training_hash(&t);
    EXPECT(training_hash(&same) == before);
    hosts_play(&t.hosts, t.policy, 0, &report);
    EXPECT_EQ(report.n_valid, 3 * 30 - 1);
    EXPECT(report.n_epochs >= 1 && !report.is_skipped);
    EXPECT_EQ(es_ppo_state(t.policy->learned.ppo)->n_updates, 1);
    EXPECT(training_hash(&t) != before);
    // by 1 %, with the raw features of the rows that count
    const EsLearned *learned = &t.policy->learned;
    double mean = 0;
    for (int64_t row = 0; row < learned->rollout->n_rows; row++) {
        mean += learned->rollout->is_valid[row] ? (double)learned->raw[row * 85 + 2] / 89 : 0;
    }
    EXPECT_NEAR(learned->features.mean[2], 0.01 * mean, 1e-9);
    EXPECT_EQ(learned->features.n_merged, 1);
    hosts_play(&same.hosts, same.policy, 0, &report);
    EXPECT(training_hash(&same) == training_hash(&t)); // bit for bit
    training_end(&t);
    training_end(&same);
}

// Play a round in which waiting pays and anything else costs; the share of waiting where there was
// a choice.
static double play_waiting(Training *t, int64_t round) {
    EsPpoReport report;
    int64_t n_waits = 0, n_choices = 0, n_envs = t->hosts.state.n_envs;
    hosts_begin(&t->hosts, n_envs * round);
    REQUIRE_OK(es_policy_begin(t->policy, n_envs * round));
    for (int32_t step = 0; step < t->hosts.settings.episode_steps; step++) {
        hosts_measure(&t->hosts);
        REQUIRE_OK(es_policy_decide(t->policy, &t->hosts.state, t->hosts.masks, t->hosts.actions));
        hosts_act(&t->hosts);
        for (int64_t e = 0; e < n_envs; e++) {
            int is_wait = t->hosts.actions[e].head[ES_HEAD_OP] == ES_GROWTH_OP_WAIT;
            t->hosts.rewards[e] = is_wait ? 1 : -1;
            n_waits += is_wait && !es_policy_action_stats(t->policy)[e].is_forced;
            n_choices += !es_policy_action_stats(t->policy)[e].is_forced;
        }
        REQUIRE_OK(es_policy_training_record(t->policy, &t->hosts.state, t->hosts.rewards, 10));
    }
    REQUIRE_OK(es_policy_training_update(t->policy, &t->hosts.state, &report));
    return (double)n_waits / (double)n_choices;
}

// The whole loop learns: what pays is done more often, up to what the floors leave.
TEST(what_pays_is_learned) {
    static Training t;
    training_begin(&t, 2, 8, 5);
    double first = play_waiting(&t, 0), last = 0;
    for (int64_t round = 1; round < 30; round++) {
        last = play_waiting(&t, round);
    }
    printf("  waits %.2f of its choices at first, %.2f at last\n", first, last);
    EXPECT(first < 0.5);
    EXPECT(last > 0.65);
    training_end(&t);
}

// --- files ---

TEST(training_goes_on_from_a_file) {
    static Training t, later;
    EsPpoReport report;
    const char *path = temp_path("training.safetensors");
    training_begin(&t, 2, 3, 5);
    training_begin(&later, 2, 3, 77); // other weights, until it loads
    hosts_play(&t.hosts, t.policy, 0, &report);
    hosts_play(&t.hosts, t.policy, 3, &report);
    REQUIRE_OK(es_policy_training_save(t.policy, path));
    REQUIRE_OK(es_policy_training_load(later.policy, path));
    EXPECT(training_hash(&later) == training_hash(&t));
    later.policy->context.seed = 5; // the run's seed is not in the file
    hosts_play(&t.hosts, t.policy, 6, &report);
    hosts_play(&later.hosts, later.policy, 6, &report);
    EXPECT(training_hash(&later) == training_hash(&t));
    training_end(&t);
    training_end(&later);
}

// Copy a file with some bytes other than they were; length < 0 leaves it as long.
static void copy_file(const char *from, const char *to, long length, long at, const void *bytes,
                      size_t n_bytes) {
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    EXPECT(in != NULL && out != NULL);
    for (long i = 0; length < 0 || i < length; i++) {
        int byte = fgetc(in);
        if (byte == EOF) {
            break;
        }
        int is_changed = i >= at && i < at + (long)n_bytes;
        fputc(is_changed ? ((const unsigned char *)bytes)[i - at] : byte, out);
    }
    fclose(in);
    fclose(out);
}

TEST(files_that_are_refused) {
    static Training t, other;
    const char *path = temp_path("training.safetensors"), *bad = temp_path("bad.safetensors");
    training_begin(&t, 2, 3, 5);
    REQUIRE_OK(es_policy_training_save(t.policy, path));
    uint64_t before = training_hash(&t);
    FILE *file = fopen(path, "rb");
    EXPECT(file != NULL && fseek(file, 0, SEEK_END) == 0);
    long size = ftell(file);
    fclose(file);
    // cut off anywhere
    for (int i = 0; i < 40; i++) {
        copy_file(path, bad, size * i / 40, size, NULL, 0);
        EXPECT(es_policy_training_load(t.policy, bad) != ES_STATUS_OK);
    }
    // a number that training cannot go on with
    const EsOptimiser *optimiser = es_policy_network_optimiser(t.policy->learned.network);
    float *numbers[] = {es_policy_network_store(t.policy->learned.network)->parameters.data,
                        optimiser->moment1.data, optimiser->moment2.data};
    const float wrong[] = {INFINITY, NAN, -1};
    for (int i = 0; i < 3; i++) {
        float right = numbers[i][0];
        numbers[i][0] = wrong[i];
        REQUIRE_OK(es_policy_training_save(t.policy, bad));
        numbers[i][0] = right;
        EXPECT_STATUS(es_policy_training_load(t.policy, bad), INPUT);
        EXPECT_CONTAINS(es_status_detail(), i == 2 ? "not negative" : "must be finite");
    }
    // the last numbers of the file are some tensor's: NaN, all bits set
    const unsigned char ones[8] = {255, 255, 255, 255, 255, 255, 255, 255};
    copy_file(path, bad, -1, size - 8, ones, sizeof ones);
    EXPECT_STATUS(es_policy_training_load(t.policy, bad), INPUT);
    EXPECT_CONTAINS(es_status_detail(), ": policy.");
    // any other file of tensors
    const float zero = 0;
    const int64_t one = 1;
    EsNamedTensor tensor = {"policy.n_steps",
                            es_tensor_view((void *)(uintptr_t)&zero, ES_DTYPE_F32, NULL, 1, &one)};
    REQUIRE_OK(es_safetensors_save(bad, &tensor, 1, NULL, 0));
    EXPECT_STATUS(es_policy_training_load(t.policy, bad), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "format is not said");
    EXPECT_STATUS(es_policy_training_load(t.policy, "/nowhere/at/all"), IO);
    EXPECT(training_hash(&t) == before); // nothing was touched
    // a policy of another shape
    training_begin(&other, 3, 3, 5);
    EXPECT_STATUS(es_policy_training_load(other.policy, path), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "this policy needs");
    training_end(&t);
    training_end(&other);
}
