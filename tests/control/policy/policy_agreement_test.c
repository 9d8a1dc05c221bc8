// Acting and updating must agree: the training plan over a round's rows says of every decision what
// the acting plan said when it was made. Otherwise PPO would credit actions with probabilities that
// nobody drew from, and no other test would see it.
#include "control/ruled_hosts.h"
#include "control/rules/sampling_rules.h"

enum { N_ENVS = 13, N_SLOTS = 3, N_ROUNDS = 12, N_LOGITS = 41, N_ROWS_MAX = 30 * N_ENVS };

typedef struct Scene {
    Hosts hosts;
    EsDevice *device;
    EsPolicy *policy;
    double acted[N_ROWS_MAX]; // log probability of each decision when it was made
    int64_t n_grown;          // decisions that were not WAIT
} Scene;

static double head_log_probability(const Scene *s, const float *logits, int32_t head, uint64_t mask,
                                   int value) {
    double p[ES_CHOICE_MAX];
    es_choice_probabilities(logits + es_head_first_logit(head, N_SLOTS),
                            es_head_size(head, N_SLOTS), mask, s->policy->learned.floor[head], p);
    return es_choice_log_probability(p, value);
}

// Computes the acting plan's outputs of this step without moving its state on.
static void peek(const Scene *s, float *logits) {
    const EsGrowthState *state = &s->hosts.state;
    EsPolicyNetwork *network = s->policy->learned.network;
    static float raw[N_ENVS * 128], normalised[N_ENVS * 128];
    int32_t blueprints[N_ENVS * N_SLOTS];
    uint8_t is_reset[N_ENVS];
    EsOutputs outputs;
    for (int64_t e = 0; e < N_ENVS; e++) {
        is_reset[e] = state->env.refusal[e] == ES_REFUSAL_ROLLED_BACK;
    }
    REQUIRE_OK(es_policy_inference_reset(network, is_reset));
    es_learned_observe(s->policy, state, raw, normalised, blueprints);
    REQUIRE_OK(es_policy_inference_act(network, normalised, blueprints, 1, &outputs));
    memcpy(logits, outputs.logits, sizeof(float) * N_ENVS * N_LOGITS);
}

// One step; probabilities from the masks as the rules gave them, not as the rows keep them.
static void act(Scene *s, int64_t t) {
    static float logits[N_ENVS * N_LOGITS];
    Hosts *hosts = &s->hosts;
    hosts_measure(hosts);
    peek(s, logits);
    REQUIRE_OK(es_policy_decide(s->policy, &hosts->state, hosts->masks, hosts->actions));
    for (int64_t e = 0; e < N_ENVS; e++) {
        const EsAction *action = &hosts->actions[e];
        int32_t op = es_action_value(action, ES_HEAD_OP);
        double sum = 0;
        for (int32_t head = 0; head < ES_N_HEADS; head++) {
            if (es_head_matters(op, head)) {
                uint32_t mask = head == ES_HEAD_OP ? hosts->masks[e].head[ES_HEAD_OP]
                                                   : es_masks_head(&hosts->masks[e], op, head);
                sum += head_log_probability(s, logits + e * N_LOGITS, head, mask,
                                            es_action_value(action, head));
            }
        }
        s->acted[t * N_ENVS + e] = sum;
        s->n_grown += op != ES_GROWTH_OP_WAIT;
    }
    hosts_act(hosts);
    REQUIRE_OK(es_policy_training_record(s->policy, &hosts->state, hosts->rewards, 10));
}

// Returns the largest difference of a log probability, over all rows, valid or not.
static double compare(Scene *s) {
    const EsRollout *r = s->policy->learned.rollout;
    EsPpoModel model = es_policy_training_model(s->policy->learned.network);
    EsOutputs outputs;
    double worst = 0;
    REQUIRE_OK(model.begin(model.context, r));
    REQUIRE_OK(model.forward(model.context, 0, &outputs));
    for (int64_t row = 0; row < r->n_rows; row++) {
        double sum = 0;
        for (int32_t head = 0; head < ES_N_HEADS; head++) {
            int64_t at = row * ES_N_HEADS + head;
            if ((r->used[row] >> head) & 1) {
                sum += head_log_probability(s, outputs.logits + row * N_LOGITS, head, r->mask[at],
                                            r->action[at]);
            }
        }
        worst = fmax(worst, fabs(sum - s->acted[row]));
        EXPECT_NEAR(outputs.value[row], r->value[row], 1e-5);
    }
    return worst;
}

TEST(the_training_plan_repeats_what_was_acted_on) {
    static Scene s;
    EsPpoReport report;
    int64_t n_broken = 0;
    hosts_create(&s.hosts, N_SLOTS, N_ENVS);
    s.device = open_cpu();
    s.policy = create_learned(&s.hosts, s.device, 5);
    const EsRollout *r = s.policy->learned.rollout;
    EXPECT_EQ(r->shape.policy.n_logits, N_LOGITS);
    EXPECT(r->n_rows <= N_ROWS_MAX && r->shape.n_features <= 128);
    for (int round = 0; round < N_ROUNDS; round++) {
        s.hosts.nan_env = round;
        s.hosts.nan_step = 1 + round * 7 % 30;
        hosts_begin(&s.hosts, (int64_t)N_ENVS * round);
        REQUIRE_OK(es_policy_begin(s.policy, (int64_t)N_ENVS * round));
        for (int64_t t = 0; t < r->shape.n_steps; t++) {
            act(&s, t);
        }
        for (int64_t row = 0; row < r->n_rows; row++) {
            n_broken += !r->is_valid[row];
        }
        EXPECT_NEAR(compare(&s), 0, 1e-5);
        REQUIRE_OK(es_policy_training_update(s.policy, &s.hosts.state, &report));
    }
    EXPECT_EQ(n_broken, N_ROUNDS);
    EXPECT(s.n_grown > 500);
    es_policy_destroy(s.policy);
    es_device_close(s.device);
    hosts_destroy(&s.hosts);
}
