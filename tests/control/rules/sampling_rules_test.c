// From logits to actions: frequencies, masks, log-probabilities by hand, what a row keeps.
#include "control/rules/sampling_rules.h"

#include "control/random_life.h"
#include "es_test.h"
#include "growth/lifecycle_case.h"

#define LOGITS_MAX (ES_SLOTS_MAX + 13 + 4 + 3 + 3 + 4 + 5 + 6)

static const float no_floor[ES_N_HEADS];

// Two ops legal (WAIT, GERMINATE), three slots, seven blueprints.
static EsActionMasks open_masks(void) {
    LifecycleCase c = case_begin(es_growth_settings_tiny(3, 10));
    case_measure(&c);
    return c.masks;
}

TEST(places_of_logits) {
    const int sizes[] = {3, 13, 4, 3, 3, 4, 5, 6};
    int first = 0;
    for (int head = 0; head < ES_N_HEADS; head++) {
        EXPECT_EQ(es_head_first_logit(head, 3), first);
        first += sizes[head];
    }
    EXPECT_EQ(es_head_first_logit(ES_N_HEADS, 3), 41);
}

TEST(log_probability_is_the_sum_over_the_heads_that_matter) {
    EsActionMasks masks = open_masks();
    float logits[41] = {0};
    logits[35 + ES_GROWTH_OP_GERMINATE] = 200; // certain, but for the floor
    logits[35 + ES_GROWTH_OP_PRUNE] = 500;     // not legal
    logits[0] = (float)log(2);                 // slot 0: a half, 1 and 2: a quarter
    float floor[ES_N_HEADS] = {0};
    floor[ES_HEAD_OP] = 0.15f;
    EsActionKey key = {1, 2, 3};
    EsSampled s = es_policy_sample(logits, 3, &masks, floor, &key, 1);
    EXPECT_EQ(s.action.head[ES_HEAD_OP], ES_GROWTH_OP_GERMINATE);
    EXPECT_EQ(s.action.head[ES_HEAD_SLOT], 0);
    EXPECT_EQ(s.action.head[ES_HEAD_BLUEPRINT], 1); // the first legal of equal ones
    EXPECT_NEAR(s.confidence, 0.85, 1e-6);
    double expected = log(0.85) + log(0.5) - log(7) - log(4) - log(3) - log(3);
    EXPECT_NEAR(s.log_probability, expected, 1e-5);
    double entropy = -(0.85 * log(0.85) + 0.15 * log(0.15)) / log(2);
    EXPECT_NEAR(s.entropy, entropy, 1e-6);
}

TEST(waiting_has_no_other_choice) {
    EsActionMasks masks = open_masks();
    float logits[41] = {0};
    logits[35] = 100;
    EsActionKey key = {1, 2, 3};
    EsSampled s = es_policy_sample(logits, 3, &masks, no_floor, &key, 0);
    EsAction wait = es_action_wait();
    EXPECT(memcmp(&s.action, &wait, sizeof wait) == 0);
    EXPECT_NEAR(s.log_probability, 0, 1e-6);
    EXPECT_NEAR(s.confidence, 1, 0);
}

// Chi-square of counts against probabilities; cells that are impossible must be empty.
static double chi_square(const int64_t *counts, const double *p, int n, int64_t total) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double share = p[i] * (double)total;
        if (p[i] == 0) {
            EXPECT_EQ(counts[i], 0);
            continue;
        }
        sum += ((double)counts[i] - share) * ((double)counts[i] - share) / share;
    }
    return sum;
}

TEST(frequencies_match_probabilities) {
    EsActionMasks masks = open_masks();
    float logits[41], floor[ES_N_HEADS];
    for (int i = 0; i < 41; i++) {
        logits[i] = (float)((i * 37) % 11) * 0.3f - 1;
    }
    for (int head = 0; head < ES_N_HEADS; head++) {
        floor[head] = 0.05f;
    }
    int64_t counts[ES_N_HEADS][ES_SLOTS_MAX] = {{0}}, n = 100000, n_germinated = 0;
    for (uint32_t i = 0; i < n; i++) {
        EsActionKey key = {11, i, 4};
        EsAction action = es_policy_sample(logits, 3, &masks, floor, &key, 0).action;
        counts[ES_HEAD_OP][action.head[ES_HEAD_OP]]++;
        n_germinated += action.head[ES_HEAD_OP] == ES_GROWTH_OP_GERMINATE;
        for (int head = 0; action.head[ES_HEAD_OP] != 0 && head < ES_HEAD_OP; head++) {
            counts[head][action.head[head]]++;
        }
    }
    // 99.99 percentiles of chi-square by degrees of freedom, 0 to 6
    const double bound[] = {0, 15.14, 18.42, 21.11, 23.51, 25.74, 27.86};
    for (int head = 0; head < ES_N_HEADS; head++) {
        double p[ES_CHOICE_MAX];
        int size = es_head_size(head, 3);
        uint32_t mask = head == ES_HEAD_OP ? masks.head[head]
                                           : es_masks_head(&masks, ES_GROWTH_OP_GERMINATE, head);
        const float *z = logits + es_head_first_logit(head, 3);
        int n_legal = es_choice_probabilities(z, size, mask, floor[head], p);
        double x = chi_square(counts[head], p, size, head == ES_HEAD_OP ? n : n_germinated);
        if (!(x <= bound[n_legal - 1])) {
            ES_TEST_FAIL("head %d: chi-square %g with %d values", head, x, n_legal);
        }
    }
}

// Logits of any size, NaN and infinities among them: what is drawn is legal.
TEST(never_illegal_over_random_lives) {
    static RandomLife life;
    int64_t n_steps = 0, n_ops[ES_N_GROWTH_OPS] = {0};
    for (uint32_t world = 0; n_steps < 100000; world++) {
        life_begin(&life, 8, world);
        EsAction action;
        do {
            life_measure(&life);
            float logits[LOGITS_MAX], floor[ES_N_HEADS];
            for (int i = 0; i < LOGITS_MAX; i++) {
                logits[i] = life_between(&life, -30, 30);
            }
            uint32_t kind = life_below(&life, 50);
            logits[life_below(&life, LOGITS_MAX)] = kind == 0   ? NAN
                                                    : kind == 1 ? INFINITY
                                                    : kind == 2 ? -INFINITY
                                                    : kind == 3 ? 3e38f
                                                                : 0;
            for (int head = 0; head < ES_N_HEADS; head++) {
                floor[head] = life_between(&life, 0, 0.2f);
            }
            EsActionKey key = {2, world, (uint32_t)life.env.step};
            action = es_policy_sample(logits, life.settings.n_slots, &life.masks, floor, &key,
                                      life_below(&life, 4) == 0)
                         .action;
            if (!life_allows(&life, &action)) {
                ES_TEST_FAIL("world %u, step %d: an illegal action", world, life.env.step);
                return;
            }
            EsLegality legality =
                es_masks_legality(&life.masks, es_action_value(&action, ES_HEAD_OP));
            for (int head = 0; head < ES_N_HEADS; head++) {
                EXPECT(legality.mask[head] != 0);
                EXPECT(!((legality.used >> head) & 1) ||
                       ((legality.mask[head] >> action.head[head]) & 1));
            }
            EXPECT((legality.used & ~legality.available) == 0);
            n_ops[action.head[ES_HEAD_OP]]++;
            n_steps++;
        } while (life_act(&life, &action));
    }
    for (int op = 0; op < ES_N_GROWTH_OPS; op++) {
        EXPECT(n_ops[op] > 50); // all of them came up
    }
}

// The table of the documents: which heads an op makes available.
TEST(available_heads) {
    const uint32_t slot = 1u << ES_HEAD_SLOT, op = 1u << ES_HEAD_OP;
    const uint32_t blend = 1u << ES_HEAD_STYLE | 1u << ES_HEAD_ALPHA_TARGET;
    const uint32_t ramp = 1u << ES_HEAD_ALPHA_SPEED | 1u << ES_HEAD_ALPHA_CURVE;
    const uint32_t fresh = 1u << ES_HEAD_BLUEPRINT | 1u << ES_HEAD_TEMPO;
    const struct {
        uint32_t legal, available;
    } rows[] = {
        {1u << ES_GROWTH_OP_WAIT, op},
        {1u << ES_GROWTH_OP_WAIT | 1u << ES_GROWTH_OP_GERMINATE, op | slot | blend | fresh},
        {1u << ES_GROWTH_OP_WAIT | 1u << ES_GROWTH_OP_SET_ALPHA_TARGET, op | slot | blend | ramp},
        {1u << ES_GROWTH_OP_WAIT | 1u << ES_GROWTH_OP_PRUNE, op | slot | ramp},
        {1u << ES_GROWTH_OP_WAIT | 1u << ES_GROWTH_OP_FOSSILIZE, op | slot},
        {1u << ES_GROWTH_OP_WAIT | 1u << ES_GROWTH_OP_ADVANCE, op | slot},
    };
    for (size_t i = 0; i < ES_COUNT_OF(rows); i++) {
        EsActionMasks masks = {.slot_by_op = {7, 1, 2, 4, 1, 2}};
        masks.head[ES_HEAD_OP] = (uint16_t)rows[i].legal;
        for (int other = 1; other < ES_N_GROWTH_OPS; other++) {
            if (!((rows[i].legal >> other) & 1)) {
                masks.slot_by_op[other] = 0;
            }
        }
        EsLegality legality = es_masks_legality(&masks, ES_GROWTH_OP_WAIT);
        EXPECT_EQ(legality.available, rows[i].available);
        EXPECT_EQ(legality.used, op);
        EXPECT_EQ(legality.is_forced, i == 0);
    }
}

// WAIT was drawn: the slot's mask is what any other op could act on; an op: its own slots.
TEST(slots_of_a_row) {
    EsActionMasks masks = {.slot_by_op = {0xF, 1, 0, 6, 0, 0}};
    masks.head[ES_HEAD_OP] =
        1u << ES_GROWTH_OP_WAIT | 1u << ES_GROWTH_OP_GERMINATE | 1u << ES_GROWTH_OP_PRUNE;
    EXPECT_EQ(es_masks_legality(&masks, ES_GROWTH_OP_WAIT).mask[ES_HEAD_SLOT], 7);
    EXPECT_EQ(es_masks_legality(&masks, ES_GROWTH_OP_GERMINATE).mask[ES_HEAD_SLOT], 1);
    EXPECT_EQ(es_masks_legality(&masks, ES_GROWTH_OP_PRUNE).mask[ES_HEAD_SLOT], 6);
    EsActionMasks none = {.slot_by_op = {0xF, 0, 0, 0, 0, 0}};
    none.head[ES_HEAD_OP] = 1u << ES_GROWTH_OP_WAIT;
    EXPECT_EQ(es_masks_legality(&none, ES_GROWTH_OP_WAIT).mask[ES_HEAD_SLOT], 1);
}

// --- the random policy: only legal actions, all of them alike, the same ones for the same key ---

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
static double uniform_chi_square(const int64_t *counts, int n, int64_t total) {
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
    EXPECT(uniform_chi_square(n_ops, 2, n) < 15.1);
    EXPECT(uniform_chi_square(n_blueprints + 1, 7, n_ops[1]) < 27.9);
    EXPECT(uniform_chi_square(n_slots, 3, n_ops[1]) < 18.4);
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
