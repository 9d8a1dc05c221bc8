// Contributions, interactions and Shapley values from ablation patterns.
#include "growth/rules/contribution_rules.h"

#include "base/random_rules.h"
#include "es_test.h"

typedef struct Garden {
    EsGrowthSettings settings;
    EsGrowthEnv env;
    EsSeed seeds[ES_SLOTS_MAX];
} Garden;

static Garden garden_with(int32_t n_slots) {
    Garden g;
    g.settings = es_growth_settings_default(n_slots, 10);
    es_growth_env_reset(&g.env);
    for (int32_t s = 0; s < ES_SLOTS_MAX; s++) {
        es_seed_reset(&g.seeds[s]);
        es_seed_reset_report(&g.seeds[s]);
    }
    return g;
}

static void put(Garden *g, int32_t slot, int32_t stage, float alpha) {
    g->seeds[slot].stage = stage;
    es_alpha_set(&g->seeds[slot], alpha);
}

static EsInteractions record(Garden *g, const float *accuracy) {
    EsAblation list = es_ablation_list(&g->settings, g->seeds);
    EsInteractions pairs = {0};
    es_contribution_record(&g->settings, &g->env, g->seeds, &list, accuracy, &pairs);
    return pairs;
}

TEST(who_can_be_ablated) {
    Garden g = garden_with(8);
    put(&g, 0, ES_STAGE_TRAINING, 0);
    put(&g, 1, ES_STAGE_BLENDING, 0); // not yet in the output
    put(&g, 2, ES_STAGE_BLENDING, 0.25f);
    put(&g, 3, ES_STAGE_HOLDING, 1);
    put(&g, 4, ES_STAGE_FOSSILIZED, 1);
    put(&g, 5, ES_STAGE_EMBARGOED, 0);
    EsAblation list = es_ablation_list(&g.settings, g.seeds);
    EXPECT_EQ(list.n, 2);
    EXPECT_EQ(list.slot[0], 2);
    EXPECT_EQ(list.slot[1], 3);
}

TEST(patterns_never_repeat) {
    const int32_t counts[] = {1, 2, 4, 8, 16, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};
    for (int32_t n = 0; n <= 16; n++) {
        EsAblation list = {.n = n};
        for (int32_t i = 0; i < n; i++) {
            list.slot[i] = i;
        }
        int32_t count = es_ablation_count(&list);
        EXPECT_EQ(count, counts[n]);
        EXPECT(count <= ES_ABLATION_PATTERNS_MAX);
        EXPECT_EQ(es_ablation_off(&list, 0), 0);
        EXPECT_EQ(es_ablation_off(&list, count - 1), (1 << n) - 1);
        for (int32_t a = 0; a < count; a++) {
            for (int32_t b = a + 1; b < count; b++) {
                EXPECT(es_ablation_off(&list, a) != es_ablation_off(&list, b));
            }
        }
        for (int32_t i = 0; i < n; i++) {
            EXPECT_EQ(es_ablation_off(&list, es_ablation_one_off(&list, i)), 1 << i);
        }
    }
    EsAblation list = {.n = 2, .slot = {3, 9}};
    EXPECT_EQ(es_ablation_slots_off(&list, 3), 1 << 3 | 1 << 9);
    EXPECT_EQ(es_ablation_slots_off(&list, 2), 1 << 9);
}

TEST(contribution_and_velocity) {
    Garden g = garden_with(1);
    put(&g, 0, ES_STAGE_HOLDING, 1);
    EXPECT(!es_contribution_is_measured(&g.seeds[0]));
    record(&g, (float[]){60, 57});
    EXPECT_NEAR(g.seeds[0].contribution, 3, 0);
    EXPECT_NEAR(g.seeds[0].contribution_velocity, 0, 0); // no previous one
    EXPECT_EQ(g.seeds[0].contribution_age, 0);
    EXPECT_NEAR(g.env.committed_accuracy, 57, 0);
    record(&g, (float[]){62, 57});
    EXPECT_NEAR(g.seeds[0].contribution_velocity, 0.3 * 2, 1e-6);
    record(&g, (float[]){62, 61});
    EXPECT_NEAR(g.seeds[0].contribution_velocity, 0.7 * 0.6 + 0.3 * -4, 1e-6);
}

TEST(missing_measurements_change_nothing) {
    Garden g = garden_with(2);
    put(&g, 0, ES_STAGE_HOLDING, 1);
    put(&g, 1, ES_STAGE_HOLDING, 1);
    EsInteractions pairs = record(&g, (float[]){60, NAN, 59, 50});
    EXPECT(!es_contribution_is_measured(&g.seeds[0]));
    EXPECT_NEAR(g.seeds[1].contribution, 1, 0);
    EXPECT_EQ(pairs.n_pairs, 0);
    record(&g, (float[]){NAN, 50, 59, NAN});
    EXPECT(!es_contribution_is_measured(&g.seeds[0]));
    EXPECT_NEAR(g.env.committed_accuracy, ES_NOT_MEASURED, 0);
}

TEST(without_seeds_the_host_is_committed) {
    Garden g = garden_with(2);
    record(&g, (float[]){44});
    EXPECT_NEAR(g.env.committed_accuracy, 44, 0);
}

// Original: interactions only for three or four seeds, never for two.
TEST(two_seeds_interact) {
    Garden g = garden_with(3);
    put(&g, 0, ES_STAGE_HOLDING, 1);
    put(&g, 2, ES_STAGE_BLENDING, 0.5f);
    // by the set that is off: none, first, second, both
    EsInteractions pairs = record(&g, (float[]){60, 54, 55, 50});
    // f(both) - f(first) - f(second) + f(none) = 60 - 55 - 54 + 50
    EXPECT_EQ(pairs.n_pairs, 1);
    EXPECT_EQ(pairs.slot_a[0], 0);
    EXPECT_EQ(pairs.slot_b[0], 2);
    EXPECT_NEAR(pairs.value[0], 1, 0);
    EXPECT_NEAR(g.seeds[0].interaction_sum, 1, 0);
    EXPECT_NEAR(g.seeds[2].boost_received, 1, 0);
    EXPECT_EQ(g.seeds[0].boosted_by, 1 << 2);
    EXPECT_EQ(g.seeds[2].boosted_by, 1 << 0);
    record(&g, (float[]){60, 56, 56, 50}); // -2: they get in each other's way
    EXPECT_NEAR(g.seeds[0].interaction_sum, -2, 0);
    EXPECT_NEAR(g.seeds[0].boost_received, 0, 0);
    EXPECT_EQ(g.seeds[0].boosted_by, 0);
}

// f(on) = 40 + sum of w_i + sum of planted pair terms: every planted term must come back.
TEST(planted_interactions_come_back) {
    for (int32_t n = 2; n <= 4; n++) {
        Garden g = garden_with(n);
        float accuracy[16];
        const double planted[4][4] = {
            {0, 1, -2, 0.5}, {1, 0, 3, -1}, {-2, 3, 0, 4}, {0.5, -1, 4, 0}};
        for (int32_t off = 0; off < 1 << n; off++) {
            double value = 40;
            for (int32_t i = 0; i < n; i++) {
                for (int32_t j = i; j < n; j++) {
                    int both_on = !((off >> i) & 1) && !((off >> j) & 1);
                    value += both_on ? (i == j ? 2 + i : planted[i][j]) : 0;
                }
            }
            accuracy[off] = (float)value;
        }
        for (int32_t s = 0; s < n; s++) {
            put(&g, s, ES_STAGE_HOLDING, 1);
        }
        EsInteractions pairs = record(&g, accuracy);
        EXPECT_EQ(pairs.n_pairs, n * (n - 1) / 2);
        for (int32_t k = 0; k < pairs.n_pairs; k++) {
            EXPECT_NEAR(pairs.value[k], planted[pairs.slot_a[k]][pairs.slot_b[k]], 1e-5);
        }
        for (int32_t i = 0; i < n; i++) {
            double sum = 0, best = 0;
            for (int32_t j = 0; j < n; j++) {
                sum += planted[i][j];
                best = planted[i][j] > best ? planted[i][j] : best;
            }
            EXPECT_NEAR(g.seeds[i].interaction_sum, sum, 1e-5);
            EXPECT_NEAR(g.seeds[i].boost_received, best, 1e-5);
        }
        // Shapley: own weight plus half of every pair
        double phi[4];
        es_shapley_exact(n, accuracy, phi);
        for (int32_t i = 0; i < n; i++) {
            double expected = 2 + i;
            for (int32_t j = 0; j < n; j++) {
                expected += planted[i][j] / 2;
            }
            EXPECT_NEAR(phi[i], expected, 1e-5);
        }
    }
}

TEST(shapley_adds_up_and_ignores_dummies) {
    for (uint32_t trial = 0; trial < 200; trial++) {
        int32_t n = 1 + (int32_t)(trial % 4);
        float accuracy[16];
        double phi[4], sum = 0;
        for (uint32_t k = 0; k < 16; k++) {
            EsRandom4 r = es_random_draw(3, trial, ES_PURPOSE_SHAPLEY, k, 0);
            accuracy[k] = 100 * es_random_uniform(r.word[0]);
        }
        for (int32_t off = 0; off < 1 << n; off++) { // the last seed changes nothing
            accuracy[off] = accuracy[off & ~(1 << (n - 1))];
        }
        es_shapley_exact(n, accuracy, phi);
        for (int32_t i = 0; i < n; i++) {
            sum += phi[i];
        }
        EXPECT_NEAR(sum, (double)accuracy[0] - (double)accuracy[(1 << n) - 1], 1e-9);
        EXPECT_NEAR(phi[n - 1], 0, 1e-12);
    }
}

TEST(five_seeds_have_contributions_alone) {
    Garden g = garden_with(5);
    float accuracy[ES_ABLATION_PATTERNS_MAX] = {60, 59, 58, 57, 56, 55, 40};
    for (int32_t s = 0; s < 5; s++) {
        put(&g, s, ES_STAGE_HOLDING, 1);
    }
    EXPECT_EQ(record(&g, accuracy).n_pairs, 0);
    for (int32_t s = 0; s < 5; s++) {
        EXPECT_NEAR(g.seeds[s].contribution, s + 1, 0);
        EXPECT_NEAR(g.seeds[s].interaction_sum, 0, 0);
    }
    EXPECT_NEAR(g.env.committed_accuracy, 40, 0);
}

// Original: sums over the order of slot names, which is not the order of execution for two rows.
TEST(alpha_sums_follow_execution) {
    Garden g = garden_with(4);
    for (int32_t s = 0; s < 4; s++) { // r0c0 r0c1 r1c0 r1c1; executed r0c0 r1c0 r0c1 r1c1
        g.settings.slot_row[s] = s / 2;
        g.settings.slot_column[s] = s % 2;
    }
    put(&g, 0, ES_STAGE_HOLDING, 1);
    put(&g, 1, ES_STAGE_BLENDING, 0.5f);
    put(&g, 2, ES_STAGE_FOSSILIZED, 0.25f);
    put(&g, 3, ES_STAGE_EMBARGOED, 0);
    float accuracy[] = {50, 50, 50, 50};
    record(&g, accuracy);
    EXPECT_NEAR(g.seeds[0].upstream_alpha, 0, 0);
    EXPECT_NEAR(g.seeds[0].downstream_alpha, 0.75, 0);
    EXPECT_NEAR(g.seeds[1].upstream_alpha, 1.25, 0); // r1c0 runs before r0c1
    EXPECT_NEAR(g.seeds[1].downstream_alpha, 0, 0);
    EXPECT_NEAR(g.seeds[2].upstream_alpha, 1, 0);
    EXPECT_NEAR(g.seeds[2].downstream_alpha, 0.5, 0);
    EXPECT_NEAR(g.seeds[3].upstream_alpha, 0, 0);
    // columns of two digits: r0c2 before r0c10
    g.settings.slot_row[0] = g.settings.slot_row[1] = 0;
    g.settings.slot_column[0] = 2;
    g.settings.slot_column[1] = 10;
    EXPECT(es_slot_runs_before(&g.settings, 0, 1));
    EXPECT(!es_slot_runs_before(&g.settings, 1, 0));
}
