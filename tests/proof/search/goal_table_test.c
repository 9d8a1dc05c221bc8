// Goal tables: numbers, growth, and lists that differ though their hashes do not.
#include "proof/search/goal_table.h"

#include "es_test.h"

// An atom with predicate p whose hash, as a list of its own, is that of `atom`: the rounds of
// es_proof_hash_atom backwards. The last two are the same for both.
static EsAtom find_twin(EsAtom atom, int32_t p) {
    const uint64_t factor = 0x9E3779B97F4A7C15u;
    uint64_t first = (((uint64_t)(uint32_t)atom.a << 32) | (uint32_t)atom.b) * factor;
    uint64_t wanted = first ^ ((first >> 29) + (uint64_t)atom.predicate), x = wanted, inverse = 1;
    for (int i = 0; i < 64; i++) {
        x = wanted ^ ((x >> 29) + (uint64_t)p); // high bits settle first
        inverse *= 2 - factor * inverse;        // Newton
    }
    x *= inverse;
    return (EsAtom){p, (int32_t)(uint32_t)(x >> 32), (int32_t)(uint32_t)x};
}

static EsStatus add(EsGoalTable *goals, const EsAtom *atoms, int32_t n_atoms, int32_t *number) {
    return es_goal_table_add(goals, atoms, n_atoms, es_proof_hash(atoms, n_atoms), number);
}

TEST(lists_with_equal_hashes_are_told_apart) {
    EsGoalTable goals = {0};
    int n_twins = 0;
    for (int32_t i = 1; i <= 50; i++) {
        EsAtom atom = {3, i, 7 * i}, twin = find_twin(atom, 5);
        if (es_proof_hash(&atom, 1) != es_proof_hash(&twin, 1)) {
            continue;
        }
        int32_t number = -1, other = -1;
        REQUIRE_OK(add(&goals, &atom, 1, &number));
        REQUIRE_OK(add(&goals, &twin, 1, &other));
        EXPECT_EQ(other, number + 1);
        n_twins++;
    }
    EXPECT(n_twins > 10);
    es_goal_table_destroy(&goals);
}

TEST(numbers_stay_while_the_set_grows) {
    enum { N = 5000 };
    EsGoalTable goals = {0};
    for (int round = 0; round < 3; round++) {
        for (int32_t i = 0; i < N; i++) {
            // two thirds of the atoms of list i are those of others
            EsAtom atoms[] = {{1, i % 10, 2}, {2, 3, i}, {1, i / 10, 5}};
            int32_t number = -1, count = 1 + i % 3;
            REQUIRE_OK(add(&goals, atoms, count, &number));
            if (round == 0 && count > 1) {
                EXPECT_EQ(number, goals.count - 1);
            }
            EsAtomSpan kept = es_goal_table_at(&goals, number);
            EXPECT_EQ(kept.count, count);
            EXPECT(es_goals_equal(kept.atoms, atoms, count));
        }
        // those of one atom repeat after ten
        EXPECT_EQ(goals.count, N - (N + 2) / 3 + 10);
    }
    es_goal_table_clear(&goals);
    int32_t number = -1;
    EsAtom atom = {1, 2, 3};
    REQUIRE_OK(add(&goals, &atom, 1, &number));
    EXPECT_EQ(number, 0);
    EXPECT_EQ(goals.count, 1);
    es_goal_table_destroy(&goals);
}

TEST(a_set_that_was_never_filled_can_be_cleared) {
    EsGoalTable goals = {0};
    es_goal_table_clear(&goals);
    EXPECT_EQ(goals.count, 0);
    es_goal_table_destroy(&goals);
}

// Few lists of a large table are taken out one by one, many all at once.
TEST(cleared_lists_are_forgotten) {
    EsGoalTable goals = {0};
    const int32_t counts[] = {3000, 2, 500, 1, 3000};
    for (size_t round = 0; round < sizeof counts / sizeof *counts; round++) {
        for (int32_t i = 0; i < counts[round]; i++) {
            EsAtom atom = {1, i, (int32_t)round};
            int32_t number = -1;
            REQUIRE_OK(add(&goals, &atom, 1, &number));
            EXPECT_EQ(number, i);
        }
        es_goal_table_clear(&goals);
    }
    int32_t n_in_use = 0;
    for (int32_t place = 0; place < goals.table_size; place++) {
        n_in_use += goals.table[place] != 0;
    }
    EXPECT_EQ(n_in_use, 0);
    es_goal_table_destroy(&goals);
}

TEST(lists_of_the_same_atoms_are_one_where_sets_are_compared) {
    EsAtom forward[] = {{1, 2, 3}, {4, 5, 6}}, backward[] = {{4, 5, 6}, {1, 2, 3}, {4, 5, 6}};
    for (int compares_sets = 0; compares_sets < 2; compares_sets++) {
        EsGoalTable goals = {.compares_sets = compares_sets};
        int32_t first = -1, second = -1;
        REQUIRE_OK(add(&goals, forward, 2, &first));
        REQUIRE_OK(add(&goals, backward, 3, &second));
        EXPECT_EQ(first, 0);
        EXPECT_EQ(second, compares_sets ? 0 : 1);
        es_goal_table_destroy(&goals);
    }
}
