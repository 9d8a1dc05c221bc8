// Acting and updating must agree: the training plan over a round's rows says of every decision what
// the acting plan said when it was made. Otherwise PPO would credit actions with probabilities that
// nobody drew from, and no other test would see it.
#include "control/ruled_hosts.h"

enum { N_ENVS = 13, N_SLOTS = 3, N_ROUNDS = 12, N_ROWS_MAX = 30 * N_ENVS };

typedef struct Scene {
    Hosts hosts;
    EsDevice *device;
    EsPolicy *policy;
    double acted[N_ROWS_MAX]; // log probability of each decision when it was made
    int64_t n_grown;          // decisions that were not WAIT
    int64_t n_narrowed;       // and those from which the budget took values
} Scene;

// Computes the acting plan's outputs of this step without moving its state on.
static const float *peek(const Scene *s) {
    const EsGrowthState *state = &s->hosts.state;
    EsPolicyNetwork *network = s->policy->learned.network;
    static float raw[N_ENVS * 256], normalised[N_ENVS * 256];
    int32_t blueprints[N_ENVS * N_SLOTS];
    uint8_t is_reset[N_ENVS];
    EsOutputs outputs;
    for (int64_t e = 0; e < N_ENVS; e++) {
        is_reset[e] = state->env.refusal[e] == ES_REFUSAL_ROLLED_BACK;
    }
    REQUIRE_OK(es_policy_inference_reset(network, is_reset));
    es_learned_observe(s->policy, state, raw, normalised, blueprints);
    REQUIRE_OK(es_policy_inference_act(network, normalised, blueprints, 1, &outputs));
    return outputs.logits;
}

// One step; probabilities from the masks as the rules gave them, not as the rows keep them.
static void act(Scene *s, int64_t t) {
    static float logits[N_ENVS * 256];
    Hosts *hosts = &s->hosts;
    hosts_measure(hosts);
    const float *peeked = peek(s);
    size_t n = (size_t)(logits_of(s->policy, peeked, N_ENVS).data - peeked);
    EXPECT(n <= ES_COUNT_OF(logits));
    memcpy(logits, peeked, n * sizeof *logits);
    REQUIRE_OK(es_policy_decide(s->policy, &hosts->state, hosts->masks, hosts->actions));
    for (int64_t e = 0; e < N_ENVS; e++) {
        EsLogits own = logits_of(s->policy, logits, e);
        s->acted[t * N_ENVS + e] = acted_log_probability(
            &own, &hosts->masks[e], s->policy->learned.floor, &hosts->actions[e]);
        s->n_grown += es_action_value(&hosts->actions[e], ES_HEAD_OP) != ES_GROWTH_OP_WAIT;
        s->n_narrowed += is_narrowed(&hosts->masks[e], &hosts->actions[e]);
    }
    hosts_act(hosts);
    REQUIRE_OK(es_policy_training_record(s->policy, &hosts->state, hosts->rewards, 10));
}

static void play(int version, int is_limited) {
    static Scene s;
    EsPpoReport report;
    int64_t n_broken = 0;
    s.n_grown = s.n_narrowed = 0;
    hosts_create(&s.hosts, N_SLOTS, N_ENVS);
    if (is_limited) {
        hosts_limit(&s.hosts);
    }
    s.device = open_cpu();
    s.policy = create_version(&s.hosts, s.device, version, 5);
    const EsRollout *r = s.policy->learned.rollout;
    EXPECT(r->n_rows <= N_ROWS_MAX && r->shape.n_features <= 256);
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
        EXPECT_NEAR(compare_agreement(s.policy, s.acted, 1e-5), 0, 1e-5);
        REQUIRE_OK(es_policy_training_update(s.policy, &s.hosts.state, &report));
    }
    EXPECT_EQ(n_broken, N_ROUNDS);
    EXPECT(s.n_grown > 500);
    EXPECT(is_limited ? s.n_narrowed > 100 : s.n_narrowed == 0);
    es_policy_destroy(s.policy);
    es_device_close(s.device);
    hosts_destroy(&s.hosts);
}

TEST(the_training_plan_repeats_what_was_acted_on) { play(ES_OBSERVATION_VERSION, 0); }

TEST(so_does_that_of_slots_as_a_set) { play(ES_SET_OBSERVATION_VERSION, 0); }

// A budget narrows masks as heads are drawn: rows keep what was left of them.
TEST(and_under_a_budget) {
    play(ES_OBSERVATION_VERSION, 1);
    play(ES_SET_OBSERVATION_VERSION, 1);
}
