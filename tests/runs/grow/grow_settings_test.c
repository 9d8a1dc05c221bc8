// Values derived from the settings of growth.
#include "runs/grow/grow_settings.h"

#include "es_test.h"
#include "growth/engine/growth.h"

TEST(the_schedule_of_learning_follows_the_rounds) {
    EsGrowSettings settings;
    EsConfig config = es_grow_run_config(&settings);
    settings.run.n_rounds = 77;
    EXPECT_EQ(es_grow_settings_ppo(&settings).total_updates, 77);
    settings.run.n_rounds = 1000000000;
    EsPpoSettings longest = es_grow_settings_ppo(&settings);
    EXPECT_STATUS(es_ppo_settings_check(&longest, ES_N_HEADS), OK);
    EXPECT_STATUS(es_config_override(&config, "ppo.total_updates=5"), CONFIG);
    EXPECT_STATUS(es_config_override(&config, "ppo.n_epochs=5"), OK);
    EXPECT_EQ(settings.ppo.n_epochs, 5);
}

TEST(an_episode_ends_unless_told_otherwise) {
    EsGrowSettings settings;
    EsConfig config = es_grow_run_config(&settings);
    EXPECT_EQ(settings.ppo.bootstraps, 0);
    EXPECT_STATUS(es_config_override(&config, "ppo.bootstraps=1"), OK);
    EXPECT_EQ(es_grow_settings_ppo(&settings).bootstraps, 1);
}

TEST(precision_follows_the_device_unless_told) {
    static const struct {
        EsDeviceKind kind;
        int capability;
        const char *amp;
        EsDtype dtype;
    } cases[] = {{ES_DEVICE_CPU, 0, "auto", ES_DTYPE_F32},
                 {ES_DEVICE_CUDA, 90, "auto", ES_DTYPE_BF16},
                 {ES_DEVICE_CUDA, 80, "auto", ES_DTYPE_BF16},
                 {ES_DEVICE_CUDA, 75, "auto", ES_DTYPE_F16},
                 {ES_DEVICE_CUDA, 90, "off", ES_DTYPE_F32},
                 {ES_DEVICE_CUDA, 90, "float16", ES_DTYPE_F16},
                 {ES_DEVICE_CUDA, 75, "bfloat16", ES_DTYPE_BF16}, // as told, even where it is slow
                 {ES_DEVICE_CPU, 0, "off", ES_DTYPE_F32},
                 {ES_DEVICE_CPU, 0, "bfloat16", ES_DTYPE_BF16}}; // growth refuses the last
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        EsGrowSettings settings;
        EsConfig config = es_grow_run_config(&settings);
        char text[64];
        EsDeviceInfo device = {.kind = cases[i].kind, .capability = cases[i].capability};
        snprintf(text, sizeof text, "grow.amp_dtype=%s", cases[i].amp);
        EXPECT_STATUS(es_config_override(&config, text), OK);
        EXPECT_EQ(es_grow_settings_precision(&settings, es_growth_device_precision(&device)),
                  cases[i].dtype);
    }
}

TEST(tf32_is_on_unless_told) {
    EsGrowSettings settings;
    EsConfig config = es_grow_run_config(&settings);
    EXPECT_EQ(settings.is_tf32, 1);
    EXPECT_STATUS(es_config_override(&config, "grow.tf32=off"), OK);
    EXPECT_EQ(settings.is_tf32, 0);
}

TEST(learned_policies_are_evaluated) {
    static const struct {
        const char *policy;
        int n;
    } cases[] = {{"ppo", 64},      {"a/policy.safetensors", 64}, {"wait", 0}, {"random", 0},
                 {"heuristic", 0}, {"script:plan.txt", 0}};
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        EsGrowSettings settings;
        es_grow_run_config(&settings);
        snprintf(settings.policy, sizeof settings.policy, "%s", cases[i].policy);
        EXPECT_EQ(es_grow_settings_evaluated(&settings), cases[i].n);
        settings.n_evaluated = 5;
        EXPECT_EQ(es_grow_settings_evaluated(&settings), 5);
    }
}

// no more batches of episodes than all hosts would need, and no more hosts than that takes
TEST(as_many_hosts_as_episodes_need) {
    static const int cases[][3] = {{16, 64, 16}, {16, 4, 4}, {256, 1, 1}, {4, 6, 3},
                                   {8, 10, 5},   {8, 9, 5},  {3, 7, 3},   {1, 5, 1}};
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        EsGrowSettings settings;
        es_grow_run_config(&settings);
        settings.n_envs = cases[i][0];
        settings.n_evaluated = cases[i][1];
        EXPECT_EQ(es_grow_settings_evaluated_envs(&settings), cases[i][2]);
    }
}
