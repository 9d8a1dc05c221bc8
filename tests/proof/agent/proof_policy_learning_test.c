// Does a proof policy learn? On a small generated graph a few updates must raise the share of
// queries proved, on other draws of queries than it learned from, well beyond chance.
#include "proof/agent/proof_policy_training.h"
#include "proof/proof_episodes.h"
#include "proof/proof_policy_case.h"

enum { N_ENVS = 48, N_STEPS = 24, N_UPDATES = 24 };

// Share of episodes that end in a proof, by drawn actions.
static double success_rate(const EsProofPolicy *policy, const EsKnowledgeGraph *graph) {
    static float logits[EPISODES_ENVS_MAX * EPISODES_STATES];
    Episodes *episodes = episodes_create(graph, N_ENVS, ES_GOAL_CONSTRAINED, 77);
    EsProofPolicyScorer *scorer = NULL;
    int n_done = 0, n_proved = 0;
    REQUIRE_OK(es_proof_policy_scorer_create(policy, NULL, 1 << 16, &scorer));
    for (int t = 0; t < 60; t++) {
        int32_t action[N_ENVS];
        EsProofChoices choices = episodes_choices(episodes);
        REQUIRE_OK(es_proof_policy_scorer_logits(scorer, &choices, logits, NULL));
        REQUIRE_OK(
            es_proof_policy_scorer_choose(scorer, &choices, logits, 5, episodes->key, action));
        episodes_step(episodes, action);
        for (int i = 0; i < N_ENVS; i++) {
            n_done += episodes->is_done[i];
            n_proved += episodes->is_proved[i];
        }
    }
    es_proof_policy_scorer_destroy(scorer);
    episodes_destroy(episodes);
    return n_proved / (double)n_done;
}

static void episodes_round(EsProofPolicyTraining *training, Episodes *episodes, EsRollout *r) {
    int32_t action[N_ENVS];
    es_rollout_reset(r);
    es_proof_policy_training_reset(training);
    for (int64_t t = 0; t < N_STEPS; t++) {
        EsProofChoices choices = episodes_choices(episodes);
        REQUIRE_OK(
            es_proof_policy_training_act(training, &choices, 3, episodes->key, r, t, action));
        episodes_step(episodes, action);
        for (int64_t e = 0; e < N_ENVS; e++) {
            int64_t row = es_rollout_row(r, t, e);
            r->reward[row] = episodes->reward[e];
            r->is_done[row] = episodes->is_done[e];
            r->is_valid[row] = 1;
        }
    }
    EsProofChoices choices = episodes_choices(episodes);
    REQUIRE_OK(es_proof_policy_training_values(training, &choices,
                                               r->bootstrap + es_rollout_row(r, N_STEPS - 1, 0)));
}

TEST(updates_raise_the_success_rate) {
    EsProofPolicySettings settings = small_settings(32, 64, 1);
    PolicyCase test = make_case(&settings, 60, 0);
    EsRolloutShape shape = es_proof_rollout_shape(N_STEPS, N_ENVS, EPISODES_STATES);
    EsPpoSettings ppo_settings = es_ppo_defaults();
    ppo_settings.rate = 2e-3f;
    ppo_settings.target_kl = 0.05f;
    ppo_settings.entropy_start = ppo_settings.entropy_end = 0.01f;
    EsProofPolicyTraining *training = NULL;
    EsRollout *rollout = NULL;
    EsPpo *ppo = NULL;
    EsPpoReport report;
    REQUIRE_OK(es_proof_policy_training_create(test.policy, &training));
    REQUIRE_OK(es_rollout_create(&shape, &rollout));
    REQUIRE_OK(es_ppo_create(&ppo_settings, &shape, &ppo));
    EsPpoModel interface = es_proof_policy_training_model(training);
    Episodes *episodes = episodes_create(test.graph, N_ENVS, ES_GOAL_CONSTRAINED, 1);
    double before = success_rate(test.policy, test.graph);
    for (int i = 0; i < N_UPDATES; i++) {
        episodes_round(training, episodes, rollout);
        REQUIRE_OK(es_ppo_update(ppo, rollout, &interface, &report));
    }
    double after = success_rate(test.policy, test.graph);
    printf("  proved: %.3f before, %.3f after %d updates\n", before, after, N_UPDATES);
    EXPECT(after > before + 0.15);
    episodes_destroy(episodes);
    es_ppo_destroy(ppo);
    es_rollout_destroy(rollout);
    es_proof_policy_training_destroy(training);
    destroy_case(&test);
}
