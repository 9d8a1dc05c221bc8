// The batch over environments: bit for bit the rules one by one, with settings per environment.
#include "reward/reward.h"

#include "es_test.h"
#include "growth/engine/lifecycle.h"
#include "reward/rewarded_case.h"

#define N_ENVS  6
#define N_SLOTS 3

typedef struct Batch {
    RewardedCase cases[N_ENVS]; // the reference
    void *slab;
    EsGrowthState state;
    EsReward *reward;
} Batch;

static EsRewardSettings arm(int e) {
    EsRewardSettings settings = es_reward_settings_default();
    settings.mode = e % 3;
    settings.shaping_weight = e < 3 ? 0.3f : 0.1f;
    return settings;
}

static void store_case(Batch *b, int e) {
    es_growth_env_store(&b->state.env, (size_t)e, &b->cases[e].life.env);
    for (int s = 0; s < N_SLOTS; s++) {
        es_seed_store(&b->state.seed, (size_t)e * N_SLOTS + (size_t)s, &b->cases[e].life.seeds[s]);
    }
}

static void begin_episode(Batch *b, const EsGrowthSettings *growth, uint32_t world) {
    es_reward_reset(b->reward);
    for (int e = 0; e < N_ENVS; e++) {
        b->cases[e] = rewarded_begin(*growth);
        b->cases[e].world = world * N_ENVS + (uint32_t)e;
        b->cases[e].settings = arm(e);
        store_case(b, e);
    }
}

static void step_all(Batch *b) {
    EsAction actions[N_ENVS];
    for (int e = 0; e < N_ENVS; e++) {
        random_measurements(&b->cases[e]);
        actions[e] = random_action(&b->cases[e]);
        store_case(b, e);
    }
    es_reward_latch(b->reward, &b->state);
    for (int e = 0; e < N_ENVS; e++) {
        LifecycleCase *life = &b->cases[e].life;
        rewarded_decide(&b->cases[e], actions[e]);
        EXPECT_EQ(life->env.n_unrewarded_prunes, 0);
    }
    es_lifecycle_apply(&b->state, &b->cases[0].life.settings, actions);
    es_lifecycle_tick(&b->state, &b->cases[0].life.settings);
    es_reward_compute(b->reward, &b->state);
    es_lifecycle_settle_prunes(&b->state, es_reward_settled_prunes(b->reward));
    for (int e = 0; e < N_ENVS; e++) {
        const EsRewardTerms *terms = &es_reward_terms(b->reward)[e];
        EXPECT(memcmp(terms, &b->cases[e].terms, sizeof *terms) == 0);
        EXPECT(es_reward_totals(b->reward)[e] == b->cases[e].memory.total);
        EXPECT_EQ(b->state.env.n_unrewarded_prunes[e], 0);
    }
}

TEST(the_batch_is_the_rules_one_by_one) {
    EsGrowthSettings growth = es_growth_settings_tiny(N_SLOTS, 10);
    growth.auto_forward = ES_AUTO_FORWARD_G1 | ES_AUTO_FORWARD_G2;
    Batch b = {.slab = malloc(es_growth_state_bytes(N_ENVS, N_SLOTS))};
    es_growth_state_bind(&b.state, b.slab, N_ENVS, N_SLOTS);
    EsRewardSettings settings = es_reward_settings_default();
    REQUIRE_OK(es_reward_create(&settings, &growth, REWARDED_HOST, N_ENVS, &b.reward));
    for (int e = 0; e < N_ENVS; e++) {
        settings = arm(e);
        REQUIRE_OK(es_reward_configure(b.reward, e, 1, &settings));
    }
    int64_t n_rollbacks = 0, n_paid = 0;
    for (uint32_t world = 1; world <= 40; world++) {
        begin_episode(&b, &growth, world);
        while (b.cases[0].life.env.step <= growth.episode_steps) {
            step_all(&b);
            n_paid += fabsf(es_reward_terms(b.reward)[2].total) > 0;
        }
        for (int e = 0; e < N_ENVS; e++) {
            n_rollbacks += b.cases[e].life.env.n_rollbacks;
            EXPECT(es_reward_stability(b.reward, e) == es_reward_env_stability(&b.cases[e].memory));
        }
    }
    EXPECT(n_rollbacks > 10);
    EXPECT(n_paid >= 40 && n_paid < 40 * growth.episode_steps); // SPARSE: at the end, and rollbacks
    es_reward_destroy(b.reward);
    free(b.slab);
}

TEST(stability_looks_at_the_last_twenty) {
    EsRewardEnv memory;
    es_reward_env_reset(&memory);
    EXPECT_NEAR(es_reward_env_stability(&memory), 1, 0);
    for (int i = 0; i < 45; i++) {
        memory.recent[memory.n_rewards++ % ES_REWARD_WINDOW] = i < 25 ? 1000.0f : (float)(i % 2);
    }
    EXPECT_NEAR(es_reward_env_stability(&memory), 1 / 1.25, 1e-12);
    es_reward_env_reset(&memory);
    memory.recent[memory.n_rewards++] = 3;
    EXPECT_NEAR(es_reward_env_stability(&memory), 1, 0);
}

TEST(wrong_arguments_are_refused) {
    EsGrowthSettings growth = es_growth_settings_tiny(N_SLOTS, 10);
    EsRewardSettings settings = es_reward_settings_default();
    EsReward *reward = NULL;
    EXPECT_STATUS(es_reward_create(&settings, &growth, 0, 4, &reward), ARGUMENT);
    EXPECT_STATUS(es_reward_create(&settings, &growth, 100, 0, &reward), ARGUMENT);
    settings.rent_weight = NAN;
    EXPECT_STATUS(es_reward_create(&settings, &growth, 100, 4, &reward), CONFIG);
    EXPECT(reward == NULL);
    es_reward_destroy(NULL);
    settings = es_reward_settings_default();
    REQUIRE_OK(es_reward_create(&settings, &growth, 100, 4, &reward));
    EXPECT_STATUS(es_reward_configure(reward, 2, 3, &settings), ARGUMENT);
    EXPECT_TEXT(es_status_detail(), "reward: environments 2 to 4, there are 4");
    EXPECT_STATUS(es_reward_configure(reward, 0, 4, &settings), OK);
    settings.gamma = 0;
    EXPECT_STATUS(es_reward_configure(reward, 0, 4, &settings), CONFIG);
    es_reward_destroy(reward);
}
