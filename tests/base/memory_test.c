// Allocation and slab layout: alignment, zeroing, limits.
#include "base/memory.h"
#include "es_test.h"

static int is_aligned(const void *memory) { return (uintptr_t)memory % ES_ALIGNMENT == 0; }

TEST(aligns_up) {
    EXPECT_EQ(es_align_up(0), 0);
    EXPECT_EQ(es_align_up(1), 64);
    EXPECT_EQ(es_align_up(64), 64);
    EXPECT_EQ(es_align_up(65), 128);
}

TEST(allocates_zeroed_and_aligned) {
    static const size_t sizes[] = {0, 1, 63, 64, 65, 100000};
    for (size_t i = 0; i < ES_COUNT_OF(sizes); i++) {
        unsigned char *memory = NULL;
        REQUIRE_OK(es_allocate(sizes[i], (void **)&memory));
        EXPECT(memory != NULL && is_aligned(memory));
        int n_nonzero = 0;
        for (size_t k = 0; k < sizes[i]; k++) {
            n_nonzero += memory[k] != 0;
        }
        EXPECT_EQ(n_nonzero, 0);
        es_release(memory);
    }
    es_release(NULL);
}

TEST(a_limit_refuses_and_tells_the_peak) {
    static const size_t mib = (size_t)1 << 20;
    void *first = NULL, *second = NULL, *third = NULL;
    es_allocation_begin(10 * mib);
    REQUIRE_OK(es_allocate(4 * mib, &first));
    REQUIRE_OK(es_allocate(4 * mib, &second));
    es_release(second);
    EXPECT_STATUS(es_allocate(8 * mib, &third), MEMORY);
    EXPECT(third == NULL);
    EXPECT_STATUS(es_allocate(SIZE_MAX - 100, &third), MEMORY);
    REQUIRE_OK(es_allocate(5 * mib, &second));
    EsAllocation allocation = es_allocation_end();
    EXPECT(allocation.is_refused);
    EXPECT(allocation.held_bytes >= 9 * mib && allocation.held_bytes < 10 * mib);
    // beyond its end nothing is refused
    REQUIRE_OK(es_allocate(12 * mib, &third));
    es_release(third);
    es_release(second);
    es_allocation_begin(0);
    es_release(first);
    REQUIRE_OK(es_allocate(20 * mib, &first));
    es_release(first);
    allocation = es_allocation_end();
    EXPECT(!allocation.is_refused);
    EXPECT_EQ(allocation.held_bytes, 0);
    EXPECT(allocation.peak_bytes >= 15 * mib && allocation.peak_bytes < 17 * mib);
}

TEST(refuses_what_cannot_be_had) {
    void *memory = &memory;
    EXPECT_STATUS(es_allocate(SIZE_MAX - 5, &memory), MEMORY);
    EXPECT(memory == NULL);
    memory = &memory;
    EXPECT_STATUS(es_allocate((size_t)1 << 60, &memory), MEMORY);
    EXPECT(memory == NULL);
    EXPECT_TEXT(es_status_detail(), "not enough memory: cannot allocate 1099511627776.0 MiB");
}

TEST(slab_members_are_aligned_and_disjoint) {
    static const size_t sizes[] = {4, 64, 100, 0, 1};
    static const size_t offsets[] = {0, 64, 128, 256, 256};
    size_t slab_bytes = 0;
    for (size_t i = 0; i < ES_COUNT_OF(sizes); i++) {
        EXPECT_EQ(es_slab_add(&slab_bytes, sizes[i]), offsets[i]);
    }
    EXPECT_EQ(slab_bytes, 257);
}
