// Sets of states: numbers, growth, and states that differ though their hashes do not.
#include "proof/proof_policy_states.h"

#include "es_test.h"

// An atom with predicate p whose hash, as a state of its own, is that of `atom`: the rounds of
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

TEST(states_with_equal_hashes_are_told_apart) {
    EsStateSet states = {0};
    int n_twins = 0;
    for (int32_t i = 1; i <= 50; i++) {
        EsAtom atom = {3, i, 7 * i}, twin = find_twin(atom, 5);
        if (es_proof_hash(&atom, 1) != es_proof_hash(&twin, 1)) {
            continue;
        }
        int32_t number = -1, other = -1;
        REQUIRE_OK(es_state_set_add(&states, (EsAtomSpan){&atom, 1}, &number));
        REQUIRE_OK(es_state_set_add(&states, (EsAtomSpan){&twin, 1}, &other));
        EXPECT_EQ(other, number + 1);
        n_twins++;
    }
    EXPECT(n_twins > 10);
    es_state_set_release(&states);
}

TEST(numbers_stay_while_the_set_grows) {
    enum { N = 5000 };
    EsStateSet states = {0};
    for (int round = 0; round < 3; round++) {
        for (int32_t i = 0; i < N; i++) {
            // two thirds of the atoms of state i are those of others
            EsAtom atoms[] = {{1, i % 10, 2}, {2, 3, i}, {1, i / 10, 5}};
            int32_t number = -1, count = 1 + i % 3;
            REQUIRE_OK(es_state_set_add(&states, (EsAtomSpan){atoms, count}, &number));
            if (round == 0 && count > 1) {
                EXPECT_EQ(number, states.count - 1);
            }
            EsAtomSpan kept = es_state_set_at(&states, number);
            EXPECT_EQ(kept.count, count);
            EXPECT(es_proof_states_equal(kept.atoms, atoms, count));
        }
        // those of one atom repeat after ten
        EXPECT_EQ(states.count, N - (N + 2) / 3 + 10);
    }
    es_state_set_clear(&states);
    int32_t number = -1;
    EsAtom atom = {1, 2, 3};
    REQUIRE_OK(es_state_set_add(&states, (EsAtomSpan){&atom, 1}, &number));
    EXPECT_EQ(number, 0);
    EXPECT_EQ(states.count, 1);
    es_state_set_release(&states);
}
