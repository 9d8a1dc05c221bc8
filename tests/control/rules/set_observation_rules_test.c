// Observations of version 2 over random lives of random hosts, against the table of docs/growing.md
// written once more with libm, number by number; always finite, always in range, and a slot's
// numbers independent of its index.
#include "control/rules/set_observation_rules.h"

#include "control/random_life.h"
#include "control/rules/sampling_rules.h"
#include "es_test.h"

#define BOUND 2e-6

static float features[39 + 66 * ES_SLOTS_MAX];
static int32_t blueprints[ES_SLOTS_MAX];

// --- the table once more: positions by number, as the document has them ---

static double clip(double x, double low, double high) { return fmin(fmax(x, low), high); }

static double logarithm(double x) { return isfinite(x) && x >= 0 ? clip(log1p(x) / 7, 0, 2) : -1; }

static double ratio(double part, double whole) {
    return whole > 0 && part > 0 ? clip(log1p(part / whole) / 2, 0, 2) : 0;
}

static double percent(double x) { return isfinite(x) && x >= 0 ? clip(x / 100, 0, 1) : -1; }

static double points(double x) { return isfinite(x) ? clip(x / 10, -1, 1) : 0; }

static int is_living(const EsSeed *seed) {
    return seed->stage == ES_STAGE_GERMINATED || seed->stage == ES_STAGE_TRAINING ||
           seed->stage == ES_STAGE_BLENDING || seed->stage == ES_STAGE_HOLDING ||
           seed->stage == ES_STAGE_FOSSILIZED;
}

static double grown(const RandomLife *life) {
    double sum = 0;
    for (int s = 0; s < life->settings.n_slots; s++) {
        sum += is_living(&life->seeds[s]) ? life->seeds[s].n_parameters : 0;
    }
    return sum;
}

// -1 without a limit
static double left(const RandomLife *life) {
    const EsGrowthSettings *g = &life->settings;
    return g->max_parameters > 0
               ? fmax(0, (double)g->max_parameters - g->n_host_parameters - grown(life))
               : -1;
}

static double learning_rate(const EsGrowthSettings *g, int step) {
    double n = g->episode_steps, at = fmin(step + 1, n), warmup = (double)g->rate_warmup * n;
    int n_drops = step / g->rate_steps;
    double end = (double)g->rate_final, progress = n > warmup ? (at - warmup) / (n - warmup) : 1;
    if (at < warmup) {
        return at / warmup;
    }
    switch (g->rate_decay) {
    case ES_DECAY_LINEAR:
        return 1 + (end - 1) * progress;
    case ES_DECAY_COSINE:
        return end + (1 - end) * (1 + cos(M_PI * progress)) / 2;
    case ES_DECAY_STEP:
        return pow((double)g->rate_factor, n_drops);
    default:
        return 1;
    }
}

static double history(const EsGrowthEnv *env, const float *ring, int back) {
    return back < env->n_tracked && back < 10 ? (double)ring[(env->n_tracked - 1 - back) % 10] : -1;
}

static double share_in(const RandomLife *life, int a, int b) {
    double n = 0;
    for (int s = 0; s < life->settings.n_slots; s++) {
        n += life->seeds[s].stage == a || life->seeds[s].stage == b;
    }
    return n / life->settings.n_slots;
}

static double host_feature(const RandomLife *life, int i) {
    const EsGrowthSettings *g = &life->settings;
    const EsGrowthEnv *env = &life->env;
    double steps = g->episode_steps, rest = left(life), host = g->n_host_parameters;
    if (i >= 3 && i < 8) {
        return logarithm(history(env, env->loss_history, 7 - i));
    }
    if (i >= 8 && i < 13) {
        return percent(history(env, env->accuracy_history, 12 - i));
    }
    if (i >= 18 && i < 24) {
        return env->sampled_op == i - 18;
    }
    if (i >= 35 && i < 38) {
        return (g->auto_forward >> (i - 35)) % 2;
    }
    switch (i) {
    case 0:
        return 1 - clip(env->step / steps, 0, 1);
    case 1:
        return logarithm((double)env->loss);
    case 2:
        return percent((double)env->accuracy);
    case 13:
        return share_in(life, ES_STAGE_TRAINING, ES_STAGE_TRAINING);
    case 14:
        return share_in(life, ES_STAGE_BLENDING, ES_STAGE_BLENDING);
    case 15:
        return share_in(life, ES_STAGE_HOLDING, ES_STAGE_FOSSILIZED);
    case 16:
        return 1 - share_in(life, ES_STAGE_DORMANT, ES_STAGE_DORMANT);
    case 17:
        return env->is_success != 0;
    case 24:
        return learning_rate(g, env->step);
    case 25:
        return logarithm(g->n_classes);
    case 26:
        return g->max_parameters > 0;
    case 27:
        return rest < 0 ? 0 : clip((host + grown(life)) / g->max_parameters, 0, 1);
    case 28:
        return rest < 0 ? 2 : ratio(rest, host);
    case 29:
        return ratio(grown(life), host);
    case 30:
        return clip(g->training_dwell / steps, 0, 1);
    case 31:
        return clip(g->tempo[0] / steps, 0, 1);
    case 32:
        return clip(g->tempo[2] / steps, 0, 1);
    case 33:
        return clip((g->embargo_dwell + g->reset_dwell) / steps, 0, 1);
    case 34:
        return g->is_strict != 0;
    default:
        return g->n_slots / 16.0;
    }
}

static double place_feature(const RandomLife *life, int s, int i) {
    const EsGrowthSettings *g = &life->settings;
    double rest = left(life);
    int is_share = i >= 52, b = is_share ? i - 52 : i - 39;
    double cost = i == 65 ? g->gate_parameters[s] : i >= 39 ? g->blueprint_parameters[s][b] : 0;
    double share = rest < 0 || cost == 0 ? 0 : rest > 0 ? clip(cost / rest, 0, 2) : 2;
    switch (i) {
    case 0:
        return clip((g->slot_column[s] + 1.0) / g->n_blocks, 0, 1);
    case 1:
        return logarithm(g->slot_channels[s]);
    case 2:
        return logarithm(g->slot_side[s]);
    case 3:
        return g->slot_pool[s] == 1;
    case 4:
        return g->slot_pool[s] == 2;
    case 65:
        return share;
    default:
        return !((g->blueprints >> b) & 1) ? -1
               : is_share                  ? share
                                           : ratio(cost, g->n_host_parameters);
    }
}

static double dwell_of(const EsGrowthSettings *g, const EsSeed *seed) {
    switch (seed->stage) {
    case ES_STAGE_TRAINING:
        return g->training_dwell;
    case ES_STAGE_BLENDING:
        return g->is_strict ? fmax(g->blending_dwell, seed->alpha_ticks) : seed->alpha_ticks;
    case ES_STAGE_HOLDING:
        return g->holding_dwell;
    case ES_STAGE_EMBARGOED:
        return g->embargo_dwell;
    case ES_STAGE_RESETTING:
        return g->reset_dwell;
    default:
        return 0;
    }
}

static double over(double steps, double dwell) { return dwell > 0 ? clip(steps / dwell, 0, 1) : 1; }

static double health(double x) { return isfinite(x) && x >= 0 ? clip(x, 0, 1) : -1; }

// i from 5 to 38
static double seed_feature(const RandomLife *life, int s, int i) {
    static const int stages[] = {0, 1, 2, 3, 4, 6, 7, 8, 9, 10}; // as EsStage has them
    const EsGrowthSettings *g = &life->settings;
    const EsSeed *seed = &life->seeds[s];
    double steps = g->episode_steps;
    int is_measured = seed->contribution_age >= 0;
    if (seed->stage == ES_STAGE_DORMANT) {
        return 0;
    }
    if (i >= 6 && i < 16) {
        return seed->stage == stages[i - 6];
    }
    switch (i) {
    case 5:
        return 1;
    case 16:
        return (double)seed->alpha;
    case 17:
        return is_measured ? points((double)seed->contribution) : 0;
    case 18:
        return points((double)seed->contribution_velocity);
    case 19:
        return clip(seed->tempo / steps, 0, 1);
    case 20:
        return (double)seed->alpha_target;
    case 21:
        return seed->alpha_mode / 2.0;
    case 22:
        return clip(seed->alpha_ticks / steps, 0, 1);
    case 23:
        return clip(seed->alpha_ticks_done / steps, 0, 1);
    case 24:
        return clip((seed->alpha_ticks - seed->alpha_ticks_done) / steps, 0, 1);
    case 25:
        return clip((double)es_alpha_velocity(seed), -1, 1);
    case 26:
        return clip((seed->algorithm - 1) / 2.0, 0, 1);
    case 27:
        return points((double)seed->interaction_sum);
    case 28:
        return logarithm((double)seed->gradient_norm);
    case 29:
        return health((double)seed->gradient_health);
    case 30:
        return seed->n_vanishing > 0;
    case 31:
        return seed->n_exploding > 0;
    case 32:
        return health((double)seed->previous_health);
    case 33:
        return clip(seed->steps_in_stage / steps, 0, 1);
    case 34:
        return is_measured ? 1 - clip(seed->contribution_age / steps, 0, 1) : -1;
    case 35:
        return clip(seed->age / steps, 0, 1);
    case 36:
        return over(seed->steps_in_stage, dwell_of(g, seed));
    case 37:
        return over(seed->age, g->prune_age);
    default:
        return is_living(seed) ? ratio(seed->n_parameters, g->n_host_parameters) : 0;
    }
}

static double expected_feature(const RandomLife *life, int i) {
    if (i < 39) {
        return host_feature(life, i);
    }
    int s = (i - 39) / 66, k = (i - 39) % 66;
    return k >= 5 && k < 39 ? seed_feature(life, s, k) : place_feature(life, s, k);
}

// --- random hosts ---

// A host of any outline, with or without a budget, which may be exceeded.
static void outline(RandomLife *life) {
    EsGrowthSettings *g = &life->settings;
    g->n_host_parameters = 200 + (int32_t)life_below(life, 20000);
    g->max_parameters =
        life_below(life, 3) > 0 ? (int32_t)life_below(life, 4 * (uint32_t)g->n_host_parameters) : 0;
    g->n_classes = 2 + (int32_t)life_below(life, 1000);
    g->n_blocks = g->slot_column[g->n_slots - 1] + 1 + (int32_t)life_below(life, 3);
    g->rate_decay = (int32_t)life_below(life, 4);
    g->rate_warmup = life_between(life, 0, 0.3f);
    g->rate_final = life_between(life, 0, 0.5f);
    g->rate_steps = 1 + (int32_t)life_below(life, 20);
    g->rate_factor = life_between(life, 0.1f, 1);
    for (int s = 0; s < g->n_slots; s++) {
        g->slot_channels[s] = 1 + (int32_t)life_below(life, 512);
        g->slot_side[s] = 1 + (int32_t)life_below(life, 224);
        g->slot_pool[s] = (int32_t)life_below(life, 3);
        g->gate_parameters[s] = (int32_t)life_below(life, 100);
        for (int b = 1; b < ES_N_BLUEPRINT_IDS; b++) {
            g->blueprint_parameters[s][b] = (int32_t)life_below(life, 10000);
        }
    }
}

static int compare(const RandomLife *life, uint32_t world) {
    int n_features = 39 + 66 * life->settings.n_slots;
    for (int i = 0; i < n_features; i++) {
        double expected = expected_feature(life, i);
        // written so that NaN fails
        if (!(fabs((double)features[i] - expected) <= BOUND) || !(fabsf(features[i]) <= 2)) {
            ES_TEST_FAIL("world %u, step %d: feature %d (slot %d) is %g, expected %g", world,
                         life->env.step, i < 39 ? i : (i - 39) % 66, i < 39 ? -1 : (i - 39) / 66,
                         (double)features[i], expected);
            return 0;
        }
    }
    return 1;
}

TEST(sizes) {
    EXPECT_EQ(es_set_observation_size(1), 105);
    EXPECT_EQ(es_set_observation_size(12), 39 + 66 * 12);
    EXPECT_EQ(ES_SET_SLOT_GATE, 65);
    EXPECT_EQ(ES_SET_HOST_SLOTS, 38);
}

TEST(random_lives_against_the_table) {
    static RandomLife life;
    int64_t n_steps = 0, n_over = 0, n_seeds = 0, n_free = 0;
    for (uint32_t world = 0; n_steps < 20000; world++) {
        life_begin(&life, 17, world);
        outline(&life);
        EsAction action;
        do {
            life_measure(&life);
            es_set_observe(&life.settings, &life.env, life.seeds, features, blueprints);
            if (!compare(&life, world)) {
                return;
            }
            for (int s = 0; s < life.settings.n_slots; s++) {
                EXPECT((blueprints[s] == 13) == (life.seeds[s].stage == ES_STAGE_DORMANT));
                n_seeds += blueprints[s] != 13;
                n_over += features[39 + 66 * s + 52 + 3] > 1;
            }
            n_free += features[26] == 0;
            EsActionKey key = {5, world, (uint32_t)life.env.step};
            action = es_uniform_action(&key, &life.masks);
            n_steps++;
        } while (life_act(&life, &action));
    }
    EXPECT(n_seeds > 10000); // slots were full and empty, budgets tight, exceeded and absent
    EXPECT(n_over > 1000);
    EXPECT(n_free > 1000);
}

// Two slots change places, with everything that belongs to them: so do their numbers, and nothing
// else changes.
TEST(a_slot_is_where_it_is) {
    static RandomLife life;
    static float before[sizeof features / sizeof *features];
    for (uint32_t world = 0; world < 50; world++) {
        life_begin(&life, 23, world);
        outline(&life);
        EsGrowthSettings *g = &life.settings;
        if (g->n_slots < 2) {
            continue;
        }
        for (int step = 0; step < 12; step++) {
            life_measure(&life);
            EsActionKey key = {5, world, (uint32_t)life.env.step};
            EsAction action = es_uniform_action(&key, &life.masks);
            life_act(&life, &action);
        }
        es_set_observe(g, &life.env, life.seeds, before, blueprints);
        int a = 0, b = g->n_slots - 1;
#define SWAP(type, array)                                                                          \
    do {                                                                                           \
        type kept;                                                                                 \
        memcpy(&kept, &(array)[a], sizeof kept);                                                   \
        memcpy(&(array)[a], &(array)[b], sizeof kept);                                             \
        memcpy(&(array)[b], &kept, sizeof kept);                                                   \
    } while (0)
        SWAP(EsSeed, life.seeds);
        SWAP(int32_t, g->slot_column);
        SWAP(int32_t, g->slot_channels);
        SWAP(int32_t, g->slot_side);
        SWAP(int32_t, g->slot_pool);
        SWAP(int32_t, g->gate_parameters);
        SWAP(
            struct { int32_t of[ES_N_BLUEPRINT_IDS]; }, g->blueprint_parameters);
        es_set_observe(g, &life.env, life.seeds, features, blueprints);
        for (int i = 0; i < 39 + 66 * g->n_slots; i++) {
            int s = (i - 39) / 66, k = (i - 39) % 66;
            int from = i < 39 ? i : 39 + 66 * (s == a ? b : s == b ? a : s) + k;
            EXPECT_EQ(features[i], before[from]);
        }
    }
}

// Hidden inputs change, and nothing beside them.
TEST(hidden_inputs_are_hidden) {
    static RandomLife life;
    static float whole[sizeof features / sizeof *features];
    int n_differ[2] = {0, 0};
    for (uint32_t world = 0; world < 50; world++) {
        life_begin(&life, 29, world);
        outline(&life);
        EsGrowthSettings *g = &life.settings;
        life_measure(&life);
        es_set_observe(g, &life.env, life.seeds, whole, blueprints);
        for (int32_t hidden = ES_HIDE_BUDGET; hidden <= ES_HIDE_PLACE; hidden++) {
            g->hidden_inputs = hidden;
            es_set_observe(g, &life.env, life.seeds, features, blueprints);
            for (int i = 0; i < 39 + 66 * g->n_slots; i++) {
                int s = (i - 39) / 66, k = i < 39 ? -1 : (i - 39) % 66;
                int is_budget = (i >= 26 && i <= 28) || k >= 52, is_place = k >= 0 && k <= 4;
                int is_hidden = hidden == ES_HIDE_BUDGET ? is_budget : is_place;
                n_differ[hidden - 1] += features[i] != whole[i];
                EXPECT(is_hidden || features[i] == whole[i]);
                EXPECT(hidden != ES_HIDE_BUDGET || !is_budget ||
                       features[i] == (i == 28 ? 2.0f : 0.0f) || features[i] == -1.0f);
                EXPECT(hidden != ES_HIDE_PLACE || !is_place ||
                       features[i] == (k == 0 ? (float)(s + 1) / 16 : 0.0f));
            }
        }
        g->hidden_inputs = ES_HIDE_NONE;
    }
    EXPECT(n_differ[0] > 100 && n_differ[1] > 100);
}

// An episode ten times as long, with all times ten times as long, looks the same.
TEST(times_are_shares) {
    EsGrowthSettings settings = es_growth_settings_tiny(2, 10);
    static EsSeed seeds[ES_SLOTS_MAX];
    EsGrowthEnv env;
    float longer[39 + 2 * 66];
    settings.n_blocks = 2;
    es_env_reset(&settings, &env, seeds);
    env.step = 9;
    seeds[1].stage = ES_STAGE_TRAINING;
    seeds[1].blueprint = 1;
    seeds[1].age = 5;
    seeds[1].steps_in_stage = 2;
    seeds[1].tempo = 3;
    es_set_observe(&settings, &env, seeds, features, blueprints);
    int32_t *const times[] = {
        &settings.episode_steps, &settings.training_dwell, &settings.tempo[0],  &settings.tempo[2],
        &settings.embargo_dwell, &settings.reset_dwell,    &settings.prune_age, &env.step,
        &seeds[1].age,           &seeds[1].steps_in_stage, &seeds[1].tempo};
    for (size_t i = 0; i < ES_COUNT_OF(times); i++) {
        *times[i] *= 10;
    }
    es_set_observe(&settings, &env, seeds, longer, blueprints);
    for (int i = 0; i < 39 + 2 * 66; i++) {
        EXPECT_NEAR(longer[i], features[i], 1e-6);
    }
}
