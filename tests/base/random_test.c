// Philox against the known answers of Random123 1.09 (kat_vectors, philox4x32 10), and the helpers
// on top of it.
#include "base/random_rules.h"

#include "es_test.h"

static void expect_philox(EsRandom4 counter, uint32_t key0, uint32_t key1, EsRandom4 expected) {
    EsRandom4 actual = es_philox4x32(counter, key0, key1);
    for (int i = 0; i < 4; i++) {
        EXPECT_EQ(actual.word[i], expected.word[i]);
    }
}

TEST(philox_known_answers) {
    const uint32_t ones = 0xffffffffu;
    expect_philox((EsRandom4){{0, 0, 0, 0}}, 0, 0,
                  (EsRandom4){{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}});
    expect_philox((EsRandom4){{ones, ones, ones, ones}}, ones, ones,
                  (EsRandom4){{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}});
    expect_philox((EsRandom4){{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}}, 0xa4093822u,
                  0x299f31d0u, (EsRandom4){{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}});
}

TEST(draw_places_its_arguments) {
    // purpose 3 is germination; the seed is the key, low word first
    EsRandom4 actual = es_random_draw(0x1122334455667788u, 9, ES_PURPOSE_GERMINATION, 5, 6);
    expect_philox((EsRandom4){{9, 3, 5, 6}}, 0x55667788u, 0x11223344u, actual);
}

TEST(uniform_stays_below_one) {
    EXPECT(es_random_uniform(0) == 0.0f);
    EXPECT(es_random_uniform(0xffffffffu) == 0x1.fffffep-1f);
    EXPECT(es_random_uniform(0x80000000u) == 0.5f);
    double sum = 0, sum_squares = 0;
    const int n = 40000;
    for (int i = 0; i < n; i++) {
        EsRandom4 r = es_random_draw(1, 2, ES_PURPOSE_EVALUATION, 3, (uint32_t)i / 4);
        double u = (double)es_random_uniform(r.word[i % 4]);
        sum += u;
        sum_squares += u * u;
    }
    // five standard errors of the mean (0.2887 / 200) and of the mean square (0.2981 / 200)
    EXPECT_NEAR(sum / n, 0.5, 5 * 0.2887 / 200);
    EXPECT_NEAR(sum_squares / n, 1.0 / 3.0, 5 * 0.2981 / 200);
}

TEST(below_covers_its_range) {
    EXPECT_EQ(es_random_below(0, 10), 0);
    EXPECT_EQ(es_random_below(0xffffffffu, 10), 9);
    EXPECT_EQ(es_random_below(0xffffffffu, 1), 0);
    int count[7] = {0};
    for (uint32_t i = 0; i < 7000; i++) {
        count[es_random_below(es_random_draw(4, i, ES_PURPOSE_ACTION, 0, 0).word[0], 7)]++;
    }
    for (int i = 0; i < 7; i++) {
        // 1000 expected, standard deviation 29.3
        EXPECT_NEAR(count[i], 1000, 5 * 29.3);
    }
}

static const uint32_t counts[] = {1, 2, 3, 4, 5, 16, 17, 255, 256, 257, 1000, 20000, 65536, 65537};

TEST(permute_is_a_bijection) {
    static unsigned char is_taken[65537];
    for (size_t i = 0; i < ES_COUNT_OF(counts); i++) {
        for (uint32_t k = 0; k < 4; k++) {
            EsRandom4 key = es_random_draw(k, k, ES_PURPOSE_DATA_ORDER, 0, 0);
            memset(is_taken, 0, sizeof is_taken);
            uint32_t n_bad = 0;
            for (uint32_t index = 0; index < counts[i]; index++) {
                uint32_t at = es_random_permute(index, counts[i], key);
                n_bad += at >= counts[i] || is_taken[at];
                is_taken[at < counts[i] ? at : 0] = 1;
            }
            EXPECT_EQ(n_bad, 0);
        }
    }
}

TEST(permute_depends_on_every_key_word) {
    for (size_t i = 0; i < ES_COUNT_OF(counts); i++) {
        if (counts[i] < 16) {
            continue;
        }
        EsRandom4 key = es_random_draw(3, 1, ES_PURPOSE_DATA_ORDER, 0, 0);
        for (int word = 0; word < 4; word++) {
            EsRandom4 other = key;
            other.word[word] = es_random_draw(4, 1, ES_PURPOSE_DATA_ORDER, 0, 0).word[word];
            uint32_t n_equal = 0;
            for (uint32_t index = 0; index < counts[i]; index++) {
                n_equal += es_random_permute(index, counts[i], key) ==
                           es_random_permute(index, counts[i], other);
            }
            EXPECT(n_equal < counts[i] / 2);
        }
    }
}

// Over many keys every element is equally likely at position 0 of 16.
TEST(permute_has_no_favourite) {
    int count[16] = {0};
    for (uint32_t k = 0; k < 16000; k++) {
        count[es_random_permute(0, 16, es_random_draw(9, k, ES_PURPOSE_DATA_ORDER, 0, 0))]++;
    }
    for (int i = 0; i < 16; i++) {
        // 1000 expected, standard deviation 30.6
        EXPECT_NEAR(count[i], 1000, 5 * 30.6);
    }
}
