// The list of settings: as defaults, as keys of a configuration, and as ranges.
#include "reward/reward_settings.h"

#include "es_test.h"

typedef struct Settings {
    EsRewardSettings reward;
} Settings;

static const EsConfigKey keys[] = {ES_REWARD_CONFIG_KEYS(Settings, reward)};

TEST(defaults_pass_the_check) {
    EsRewardSettings settings = es_reward_settings_default();
    EXPECT_STATUS(es_reward_settings_check(&settings), OK);
    EXPECT_EQ(settings.mode, ES_REWARD_SHAPED);
    EXPECT_NEAR(settings.gamma, 0.995, 1e-7);
    EXPECT_NEAR(settings.germinate_cost, 0.15, 1e-7);
    EXPECT_NEAR(settings.fossil_bonus, 3 * tanh(1.0 / 3), 1e-6);
}

TEST(a_configuration_has_the_same_defaults) {
    Settings settings;
    memset(&settings, 0, sizeof settings);
    EsConfig config = {keys, ES_COUNT_OF(keys), &settings, sizeof settings};
    es_config_reset(&config);
    EsRewardSettings expected = es_reward_settings_default();
    settings.reward.gamma = expected.gamma; // no key
    EXPECT(memcmp(&settings.reward, &expected, sizeof expected) == 0);
    EXPECT_EQ(ES_COUNT_OF(keys), sizeof expected / 4 - 2); // gamma and control
}

TEST(a_configuration_reads_them) {
    Settings settings;
    memset(&settings, 0, sizeof settings);
    EsConfig config = {keys, ES_COUNT_OF(keys), &settings, sizeof settings};
    es_config_reset(&config);
    EXPECT_STATUS(es_config_override(&config, "--reward.mode=sparse"), OK);
    EXPECT_STATUS(es_config_override(&config, "--reward.rent_cap=0.25"), OK);
    EXPECT_STATUS(es_config_override(&config, "reward.param_budget=123456"), OK);
    EXPECT_EQ(settings.reward.mode, ES_REWARD_SPARSE);
    EXPECT_NEAR(settings.reward.rent_cap, 0.25, 0);
    EXPECT_EQ(settings.reward.param_budget, 123456);
    EXPECT_STATUS(es_config_override(&config, "reward.rent_cap=-1"), CONFIG);
    EXPECT_STATUS(es_config_override(&config, "reward.mode=escrow"), CONFIG);
}

// Every key, at its bounds and beyond: the check and the configuration agree.
TEST(every_setting_has_its_range_checked) {
    for (size_t i = 0; i < ES_COUNT_OF(keys); i++) {
        const EsConfigKey *key = &keys[i];
        for (int beyond = 0; beyond < 4 && key->type != ES_CONFIG_TYPE_CHOICE; beyond++) {
            Settings settings = {es_reward_settings_default()};
            double low = key->min, high = key->max;
            double wrong = beyond == 0 ? low : beyond == 1 ? high : beyond == 2 ? low - 1 : NAN;
            void *field = (char *)&settings + key->offset;
            if (key->type == ES_CONFIG_TYPE_FLOAT) {
                *(float *)field = (float)wrong;
            } else if (beyond < 3) {
                *(int32_t *)field = (int32_t)wrong;
            } else {
                continue;
            }
            if (beyond < 2) {
                EXPECT_STATUS(es_reward_settings_check(&settings.reward), OK);
            } else {
                EXPECT_STATUS(es_reward_settings_check(&settings.reward), CONFIG);
                EXPECT_CONTAINS(es_status_detail(), key->key);
            }
        }
    }
}

TEST(modes_and_discounts_are_checked) {
    EsRewardSettings settings = es_reward_settings_default();
    settings.mode = 4;
    EXPECT_STATUS(es_reward_settings_check(&settings), CONFIG);
    EXPECT_TEXT(es_status_detail(),
                "reward: mode is 4, must be 0 to 3 (shaped|basic|sparse|budget)");
    settings = es_reward_settings_default();
    const float wrong[] = {0, -1, 1.5f, NAN};
    for (size_t i = 0; i < ES_COUNT_OF(wrong); i++) {
        settings.gamma = wrong[i];
        EXPECT_STATUS(es_reward_settings_check(&settings), CONFIG);
    }
    settings = es_reward_settings_default();
    settings.rent_cap = -1;
    EXPECT_STATUS(es_reward_settings_check(&settings), CONFIG);
    EXPECT_TEXT(es_status_detail(), "reward: rent_cap is -1, must be 0 to 100");
    EXPECT_TEXT(es_reward_mode_name(ES_REWARD_BASIC), "basic");
    EXPECT_TEXT(es_reward_mode_name(7), "?");
}
