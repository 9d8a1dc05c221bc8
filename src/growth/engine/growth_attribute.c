// What each seed was worth over all orders of adding them: Shapley values of the validation
// accuracy at the end of an episode. Exact from the table of all subsets up to four seeds; above,
// means over random orders and their reverses, with standard errors.
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/random_rules.h"
#include "growth/engine/growth_internal.h"

// orders drawn per environment; each is walked forwards and backwards
#define ORDERS 8

typedef struct Orders {
    int n;
    int8_t seed[2 * ORDERS][ES_SLOTS_MAX]; // positions in the ablation list
} Orders;

static Orders draw_orders(const EsGrowth *growth, int64_t env, int n) {
    Orders orders = {.n = n};
    uint32_t episode = (uint32_t)growth->episode_ids[env];
    for (int k = 0; k < ORDERS; k++) {
        int8_t *order = orders.seed[2 * k];
        for (int i = 0; i < n; i++) {
            order[i] = (int8_t)i;
        }
        for (int i = n - 1; i > 0; i--) {
            EsRandom4 draw = es_random_draw(growth->options.seed, episode, ES_PURPOSE_SHAPLEY,
                                            (uint32_t)k, (uint32_t)i);
            int other = (int)(draw.word[0] % (uint32_t)(i + 1));
            int8_t held = order[i];
            order[i] = order[other];
            order[other] = held;
        }
        for (int i = 0; i < n; i++) {
            orders.seed[2 * k + 1][i] = order[n - 1 - i];
        }
    }
    return orders;
}

// Seeds that are still off when the first `n_on` of an order are on, as bits of slots.
static int32_t slots_off(const EsAblation *list, const int8_t *order, int n_on) {
    int32_t off = 0;
    for (int i = n_on; i < list->n; i++) {
        off |= 1 << list->slot[order[i]];
    }
    return off;
}

// The trial of this environment with these slots off; added when it is new.
static EsStatus find_trial(EsGrowth *growth, int64_t env, int32_t off, int *position) {
    for (int i = 0; i < growth->n_trials; i++) {
        if (growth->trials[i].slots_off == off) {
            *position = i;
            return ES_STATUS_OK;
        }
    }
    *position = growth->n_trials;
    return es_growth_add_trial(growth, env, off);
}

static EsStatus sample(EsGrowth *growth, int64_t env, const EsAblation *list) {
    int position[2 * ORDERS][ES_SLOTS_MAX + 1];
    Orders orders = draw_orders(growth, env, list->n);
    growth->n_trials = 0;
    if (growth->plans != NULL) {
        es_growth_plans_begin_step(growth->plans);
    }
    for (int k = 0; k < 2 * ORDERS; k++) {
        for (int n_on = 0; n_on <= list->n; n_on++) {
            ES_TRY(
                find_trial(growth, env, slots_off(list, orders.seed[k], n_on), &position[k][n_on]));
        }
    }
    ES_TRY(es_growth_run_trials(growth));
    double n_images = (double)growth->options.n_validation_images;
    for (int i = 0; i < list->n; i++) {
        double sum = 0, squares = 0;
        // an order and its reverse are one draw: their mean varies less than two independent ones
        for (int k = 0; k < ORDERS; k++) {
            double pair = 0;
            for (int side = 0; side < 2; side++) {
                const int8_t *order = orders.seed[2 * k + side];
                int place = 0;
                while (order[place] != i) {
                    place++;
                }
                const int *at = position[2 * k + side];
                pair += 50.0 *
                        (double)(growth->trials[at[place + 1]].n_correct -
                                 growth->trials[at[place]].n_correct) /
                        n_images;
            }
            sum += pair;
            squares += pair * pair;
        }
        double mean = sum / ORDERS, variance = (squares - sum * mean) / (ORDERS - 1);
        int64_t at = env * growth->model.n_slots + list->slot[i];
        growth->shapley[at] = mean;
        growth->shapley_error[at] = sqrt(ES_MAX(variance, 0) / ORDERS);
    }
    return ES_STATUS_OK;
}

EsStatus es_growth_attribute(EsGrowth *growth) {
    int64_t n_all = growth->options.n_envs * growth->model.n_slots;
    for (int64_t i = 0; i < n_all; i++) {
        growth->shapley[i] = growth->shapley_error[i] = NAN;
    }
    for (int64_t e = 0; e < growth->options.n_envs; e++) {
        const EsAblation *list = &growth->ablations[e];
        if (list->n > ES_ABLATION_FULL_MAX) {
            ES_TRY(sample(growth, e, list));
            continue;
        }
        double values[ES_ABLATION_FULL_MAX];
        es_shapley_exact(list->n, growth->accuracy + e * ES_ABLATION_PATTERNS_MAX, values);
        for (int i = 0; i < list->n; i++) {
            growth->shapley[e * growth->model.n_slots + list->slot[i]] = values[i];
            growth->shapley_error[e * growth->model.n_slots + list->slot[i]] = 0;
        }
    }
    return ES_STATUS_OK;
}
