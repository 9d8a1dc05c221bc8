// Does a proof policy learn? On a small generated graph a few updates must raise the share of
// queries proved, on other draws of queries than it learned from, well beyond chance.
#include "proof/agent/proof_policy_training.h"
#include "proof/proof_play.h"
#include "proof/proof_policy_case.h"

enum { N_SLOTS = 48, N_STEPS = 24, N_UPDATES = 24 };

// Share of episodes that end in a proof, by drawn actions.
static double success_rate(const EsProofPolicy *policy, const EsKnowledgeGraph *graph) {
    static float logits[PLAY_SLOTS_MAX * PLAY_STATES];
    Play *play = play_create(graph, N_SLOTS, ES_GOAL_CONSTRAINED, 77);
    EsProofJudge *judge = NULL;
    int n_done = 0, n_proved = 0;
    REQUIRE_OK(es_proof_judge_create(policy, NULL, 1 << 16, &judge));
    for (int t = 0; t < 60; t++) {
        int32_t action[N_SLOTS];
        EsProofChoices choices = play_choices(play);
        REQUIRE_OK(es_proof_judge_logits(judge, &choices, logits, NULL));
        REQUIRE_OK(es_proof_judge_choose(judge, &choices, logits, 5, play->turn, action));
        play_step(play, action);
        for (int i = 0; i < N_SLOTS; i++) {
            n_done += play->is_done[i];
            n_proved += play->is_proved[i];
        }
    }
    es_proof_judge_destroy(judge);
    play_destroy(play);
    return n_proved / (double)n_done;
}

static void play_round(EsProofTrainee *trainee, Play *play, EsRollout *r) {
    int32_t action[N_SLOTS];
    es_rollout_reset(r);
    es_proof_trainee_reset(trainee);
    for (int64_t t = 0; t < N_STEPS; t++) {
        EsProofChoices choices = play_choices(play);
        REQUIRE_OK(es_proof_trainee_act(trainee, &choices, 3, play->turn, r, t, action));
        play_step(play, action);
        for (int64_t e = 0; e < N_SLOTS; e++) {
            int64_t row = es_rollout_row(r, t, e);
            r->reward[row] = play->reward[e];
            r->is_done[row] = play->is_done[e];
            r->is_valid[row] = 1;
        }
    }
    EsProofChoices choices = play_choices(play);
    REQUIRE_OK(es_proof_trainee_values(trainee, &choices,
                                       r->bootstrap + es_rollout_row(r, N_STEPS - 1, 0)));
}

TEST(updates_raise_the_success_rate) {
    EsProofPolicySettings settings = small_settings(32, 64, 1);
    PolicyCase test = make_case(&settings, 60, 0);
    EsRolloutShape shape = es_proof_rollout_shape(N_STEPS, N_SLOTS, PLAY_STATES);
    EsPpoSettings ppo_settings = es_ppo_defaults();
    ppo_settings.rate = 2e-3f;
    ppo_settings.target_kl = 0.05f;
    ppo_settings.entropy_start = ppo_settings.entropy_end = 0.01f;
    EsProofTrainee *trainee = NULL;
    EsRollout *rollout = NULL;
    EsPpo *ppo = NULL;
    EsPpoReport report;
    REQUIRE_OK(es_proof_trainee_create(test.policy, &trainee));
    REQUIRE_OK(es_rollout_create(&shape, &rollout));
    REQUIRE_OK(es_ppo_create(&ppo_settings, &shape, &ppo));
    EsTrainee interface = es_proof_trainee_interface(trainee);
    Play *play = play_create(test.graph, N_SLOTS, ES_GOAL_CONSTRAINED, 1);
    double before = success_rate(test.policy, test.graph);
    for (int i = 0; i < N_UPDATES; i++) {
        play_round(trainee, play, rollout);
        REQUIRE_OK(es_ppo_update(ppo, rollout, &interface, &report));
    }
    double after = success_rate(test.policy, test.graph);
    printf("  proved: %.3f before, %.3f after %d updates\n", before, after, N_UPDATES);
    EXPECT(after > before + 0.15);
    play_destroy(play);
    es_ppo_destroy(ppo);
    es_rollout_destroy(rollout);
    es_proof_trainee_destroy(trainee);
    destroy_case(&test);
}
