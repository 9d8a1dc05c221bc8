// Defaults and ranges of the reward's settings, both from the one list.
#include "reward/reward_settings.h"

EsRewardSettings es_reward_settings_default(void) {
    EsRewardSettings settings = {.mode = ES_REWARD_SHAPED, .gamma = 0.995f};
#define X(T, m, kind, name, value, lowest, highest, help)                                          \
    settings.name = (ES_REWARD_TYPE_##kind)(value);
    ES_REWARD_SETTINGS(X, , )
#undef X
    return settings;
}

static EsStatus check_number(const char *name, double value, double low, double high) {
    // written so that NaN fails
    if (!(value >= low && value <= high)) {
        return ES_FAIL(CONFIG, "reward: %s is %g, must be %g to %g", name, value, low, high);
    }
    return ES_STATUS_OK;
}

EsStatus es_reward_settings_check(const EsRewardSettings *settings) {
    if (settings->mode < 0 || settings->mode >= ES_N_REWARD_MODES) {
        return ES_FAIL(CONFIG, "reward: mode is %d, must be 0 to %d (%s)", settings->mode,
                       ES_N_REWARD_MODES - 1, ES_REWARD_MODE_CHOICES);
    }
    if (!(settings->gamma > 0 && settings->gamma <= 1)) {
        return ES_FAIL(CONFIG, "reward: gamma is %g, must be above 0 and at most 1",
                       (double)settings->gamma);
    }
    // bounds in the precision of the fields: 0.001 as a float lies above 0.001
#define X(T, m, kind, name, value, lowest, highest, help)                                          \
    ES_TRY(check_number(#name, (double)settings->name, (double)(ES_REWARD_TYPE_##kind)(lowest),    \
                        (double)(ES_REWARD_TYPE_##kind)(highest)));
    ES_REWARD_SETTINGS(X, , )
#undef X
    return ES_STATUS_OK;
}

const char *es_reward_mode_name(int32_t mode) {
    static const char *const names[ES_N_REWARD_MODES] = {"shaped", "basic", "sparse"};
    return mode >= 0 && mode < ES_N_REWARD_MODES ? names[mode] : "?";
}
