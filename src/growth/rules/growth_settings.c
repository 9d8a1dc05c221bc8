// Checks that the settings of growth are within the rules' assumptions.
#include "growth/rules/growth_settings.h"

typedef struct IntegerRange {
    const char *name;
    int32_t value, low, high;
} IntegerRange;

static EsStatus check_integers(const EsGrowthSettings *s) {
    const int32_t most = 1000000;
    const IntegerRange ranges[] = {
        {"slots", s->n_slots, 1, ES_SLOTS_MAX},
        {"max_seeds", s->max_seeds, 0, most},
        {"episode_steps", s->episode_steps, 1, most},
        {"auto_forward", s->auto_forward, 0, ES_AUTO_FORWARD_ALL},
        {"training_dwell", s->training_dwell, 0, most},
        {"blending_dwell", s->blending_dwell, 0, most},
        {"embargo_dwell", s->embargo_dwell, 1, most},
        {"reset_dwell", s->reset_dwell, 1, most},
        {"holding_dwell", s->holding_dwell, 0, most},
        {"prune_age", s->prune_age, 0, most},
        {"tempo FAST", s->tempo[0], 1, most},
        {"tempo STANDARD", s->tempo[1], 1, most},
        {"tempo SLOW", s->tempo[2], 1, most},
        {"alpha_speed INSTANT", s->alpha_speed[0], 0, 0},
        {"alpha_speed FAST", s->alpha_speed[1], 0, most},
        {"alpha_speed MEDIUM", s->alpha_speed[2], 0, most},
        {"alpha_speed SLOW", s->alpha_speed[3], 0, most},
        {"governor_window", s->governor_window, 1, ES_GOVERNOR_WINDOW_MAX},
        {"governor_minimum", s->governor_minimum, 1, s->governor_window},
        {"divergences_to_panic", s->divergences_to_panic, 1, most},
        {"snapshot_every", s->snapshot_every, 1, most},
        {"stable_steps", s->stable_steps, 1, most},
        {"max_parameters", s->max_parameters, 0, INT32_MAX},
    };
    for (size_t i = 0; i < ES_COUNT_OF(ranges); i++) {
        if (ranges[i].value < ranges[i].low || ranges[i].value > ranges[i].high) {
            return ES_FAIL(CONFIG, "growth: %s is %d, must be %d to %d", ranges[i].name,
                           ranges[i].value, ranges[i].low, ranges[i].high);
        }
    }
    return ES_STATUS_OK;
}

typedef struct RealRange {
    const char *name;
    float value, low, high;
} RealRange;

static EsStatus check_reals(const EsGrowthSettings *s) {
    const RealRange ranges[] = {
        {"min_health", s->min_health, 0, 1},
        {"min_improvement", s->min_improvement, 0, 100},
        {"min_ratio", s->min_ratio, 0, 1e6f},
        {"min_contribution", s->min_contribution, -100, 100},
        {"vanishing_norm", s->vanishing_norm, 0, 1},
        {"exploding_clips", s->exploding_clips, 1, 1e6f},
        {"vanishing_penalty", s->vanishing_penalty, 0, 1},
        {"exploding_penalty", s->exploding_penalty, 0, 1},
        {"gradient_decay", s->gradient_decay, 0, 1},
        {"velocity_decay", s->velocity_decay, 0, 1},
        {"divergence_sigmas", s->divergence_sigmas, 0, 1e6f},
        {"divergence_means", s->divergence_means, 0, 1e6f},
        {"divergence_loss", s->divergence_loss, 0, 1e30f},
        {"random_loss", s->random_loss, 0, 1e6f},
        {"lobotomy_mean", s->lobotomy_mean, 0, 1},
        {"lobotomy_band", s->lobotomy_band, 0, 1},
        {"governor_prune_penalty", s->governor_prune_penalty, -1e6f, 0},
        {"plateau_points", s->plateau_points, 0, 100},
        {"stable_gain", s->stable_gain, 0, 1},
        {"stable_loss", s->stable_loss, 0, 1},
    };
    for (size_t i = 0; i < ES_COUNT_OF(ranges); i++) {
        // written so that NaN fails
        if (!(ranges[i].value >= ranges[i].low && ranges[i].value <= ranges[i].high)) {
            return ES_FAIL(CONFIG, "growth: %s is %g, must be %g to %g", ranges[i].name,
                           (double)ranges[i].value, (double)ranges[i].low, (double)ranges[i].high);
        }
    }
    for (int i = 0; i < 3; i++) {
        if (!(s->alpha_target[i] > 0 && s->alpha_target[i] <= 1)) {
            return ES_FAIL(CONFIG, "growth: alpha_target %d is %g, must be above 0 and at most 1",
                           i, (double)s->alpha_target[i]);
        }
    }
    return ES_STATUS_OK;
}

static EsStatus check_slots(const EsGrowthSettings *s) {
    for (int32_t i = 0; i < s->n_slots; i++) {
        if (s->slot_row[i] < 0 || s->slot_column[i] < 0) {
            return ES_FAIL(CONFIG, "growth: slot %d is r%dc%d; rows and columns begin at 0", i,
                           s->slot_row[i], s->slot_column[i]);
        }
        int rises =
            i == 0 || s->slot_row[i] > s->slot_row[i - 1] ||
            (s->slot_row[i] == s->slot_row[i - 1] && s->slot_column[i] > s->slot_column[i - 1]);
        if (!rises) {
            return ES_FAIL(CONFIG, "growth: slot r%dc%d follows r%dc%d; slots go row by row, once",
                           s->slot_row[i], s->slot_column[i], s->slot_row[i - 1],
                           s->slot_column[i - 1]);
        }
    }
    return ES_STATUS_OK;
}

EsStatus es_growth_settings_check(const EsGrowthSettings *settings) {
    ES_TRY(check_integers(settings));
    ES_TRY(check_reals(settings));
    ES_TRY(check_slots(settings));
    int32_t known = (1 << ES_N_BLUEPRINT_IDS) - 1;
    int32_t trainable = known & ~ES_BLUEPRINT_ID_BIT(ES_BLUEPRINT_ID_NOOP);
    if ((settings->blueprints & ~known) != 0 || (settings->blueprints & trainable) == 0) {
        return ES_FAIL(CONFIG,
                       "growth: blueprints is 0x%x, must hold at least one of bits 1 to %d and "
                       "none above",
                       (unsigned)settings->blueprints, ES_N_BLUEPRINT_IDS - 1);
    }
    return ES_STATUS_OK;
}
