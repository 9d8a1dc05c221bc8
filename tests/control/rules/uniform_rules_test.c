// The random policy: only legal actions, all of them alike, the same ones for the same key.
#include "control/rules/uniform_rules.h"

#include "control/random_life.h"
#include "es_test.h"
#include "growth/lifecycle_case.h"

TEST(bits_of_a_mask) {
    EXPECT_EQ(es_uniform_bit(0x1, 0xFFFFFFFFu), 0);
    EXPECT_EQ(es_uniform_bit(0x8000, 0), 15);
    EXPECT_EQ(es_uniform_bit(0x50, 0), 4);
    EXPECT_EQ(es_uniform_bit(0x50, 0x80000000u), 6);
    EXPECT_EQ(es_uniform_bit(0, 7), 0);
}

TEST(never_illegal) {
    static RandomLife life;
    int64_t n_steps = 0, n_ops[ES_N_GROWTH_OPS] = {0};
    for (uint32_t world = 0; n_steps < 100000; world++) {
        life_begin(&life, 9, world);
        EsAction action;
        do {
            life_measure(&life);
            EsActionKey key = {1, world, (uint32_t)life.env.step};
            action = es_uniform_action(&key, &life.masks);
            if (!life_allows(&life, &action)) {
                ES_TEST_FAIL("world %u, step %d: an illegal action", world, life.env.step);
                return;
            }
            n_ops[action.head[ES_HEAD_OP]]++;
            n_steps++;
        } while (life_act(&life, &action));
    }
    for (int op = 0; op < ES_N_GROWTH_OPS; op++) {
        EXPECT(n_ops[op] > 100); // all of them came up
    }
}

// Chi-square of n cells against equal shares.
static double chi_square(const int64_t *counts, int n, int64_t total) {
    double sum = 0, share = (double)total / n;
    for (int i = 0; i < n; i++) {
        sum += ((double)counts[i] - share) * ((double)counts[i] - share) / share;
    }
    return sum;
}

TEST(all_legal_values_alike) {
    LifecycleCase c = case_begin(es_growth_settings_tiny(3, 10));
    case_measure(&c); // WAIT and GERMINATE are legal, 7 blueprints, 3 slots
    int64_t n_ops[ES_N_GROWTH_OPS] = {0}, n_blueprints[ES_N_BLUEPRINT_IDS] = {0},
            n_slots[ES_SLOTS_MAX] = {0};
    const int64_t n = 60000;
    for (uint32_t i = 0; i < n; i++) {
        EsActionKey key = {77, i, 1};
        EsAction action = es_uniform_action(&key, &c.masks);
        EXPECT(action.head[ES_HEAD_OP] <= ES_GROWTH_OP_GERMINATE);
        n_ops[action.head[ES_HEAD_OP]]++;
        if (action.head[ES_HEAD_OP] == ES_GROWTH_OP_GERMINATE) {
            n_blueprints[action.head[ES_HEAD_BLUEPRINT]]++;
            n_slots[action.head[ES_HEAD_SLOT]]++;
        }
    }
    // 99.99 percentiles of chi-square with 1, 6 and 2 degrees of freedom
    EXPECT(chi_square(n_ops, 2, n) < 15.1);
    EXPECT(chi_square(n_blueprints + 1, 7, n_ops[1]) < 27.9);
    EXPECT(chi_square(n_slots, 3, n_ops[1]) < 18.4);
}

TEST(heads_that_do_not_matter_keep_their_placeholders) {
    LifecycleCase c = case_begin(es_growth_settings_tiny(3, 10));
    case_measure(&c);
    for (uint32_t i = 0; i < 100; i++) {
        EsActionKey key = {77, i, 1};
        EsAction action = es_uniform_action(&key, &c.masks), wait = es_action_wait();
        if (action.head[ES_HEAD_OP] == ES_GROWTH_OP_WAIT) {
            EXPECT(memcmp(&action, &wait, sizeof wait) == 0);
        }
        EXPECT_EQ(action.head[ES_HEAD_ALPHA_SPEED], 0);
    }
}
