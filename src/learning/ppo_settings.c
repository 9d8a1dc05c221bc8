// Defaults and limits of PPO's settings.
#include "learning/ppo.h"

EsPpoSettings es_ppo_defaults(void) {
    EsPpoSettings settings = {
#define X(type, name, start, lowest, highest, help) .name = (type)(start),
        ES_PPO_SETTINGS(X)
#undef X
    };
    for (int h = 0; h < ES_POLICY_HEADS_MAX; h++) {
        settings.head[h] = (EsPpoHead){.entropy_weight = 1};
    }
    return settings;
}

static EsStatus check_head(const EsPpoHead *head, int h) {
    // written so that NaN fails
    if (!(head->floor >= 0 && head->floor <= 1)) {
        return ES_FAIL(CONFIG, "ppo: the least probability of head %d is %g, must be 0 to 1", h,
                       (double)head->floor);
    }
    if (!(head->entropy_weight >= 0 && head->entropy_weight <= 100)) {
        return ES_FAIL(CONFIG, "ppo: the entropy weight of head %d is %g, must be 0 to 100", h,
                       (double)head->entropy_weight);
    }
    if (!(head->entropy_floor >= 0 && head->entropy_floor <= 1)) {
        return ES_FAIL(CONFIG, "ppo: the entropy floor of head %d is %g, must be 0 to 1", h,
                       (double)head->entropy_floor);
    }
    if (!(head->floor_penalty >= 0 && head->floor_penalty <= 100)) {
        return ES_FAIL(CONFIG, "ppo: the entropy penalty of head %d is %g, must be 0 to 100", h,
                       (double)head->floor_penalty);
    }
    return ES_STATUS_OK;
}

EsStatus es_ppo_settings_check(const EsPpoSettings *settings, int n_heads) {
#define X(type, name, start, lowest, highest, help)                                                \
    if (!((double)settings->name >= (double)(type)(lowest) &&                                      \
          (double)settings->name <= (double)(type)(highest))) {                                    \
        return ES_FAIL(CONFIG, "ppo: %s is %g, must be %g to %g", #name, (double)settings->name,   \
                       (double)(lowest), (double)(highest));                                       \
    }
    ES_PPO_SETTINGS(X)
#undef X
    for (int h = 0; h < n_heads; h++) {
        ES_TRY(check_head(&settings->head[h], h));
    }
    return ES_STATUS_OK;
}
