// CRC-32C against the vectors of RFC 3720 (B.4) and against the first bytes of every TensorBoard
// event file.
#include "base/crc32c.h"

#include "es_test.h"

TEST(known_sums) {
    unsigned char zeros[32] = {0}, ones[32], rising[32], falling[32];
    for (int i = 0; i < 32; i++) {
        ones[i] = 0xff;
        rising[i] = (unsigned char)i;
        falling[i] = (unsigned char)(31 - i);
    }
    EXPECT_EQ(es_crc32c(zeros, 32), 0x8a9136aa);
    EXPECT_EQ(es_crc32c(ones, 32), 0x62a8ab43);
    EXPECT_EQ(es_crc32c(rising, 32), 0x46dd794e);
    EXPECT_EQ(es_crc32c(falling, 32), 0x113fdb5c);
    EXPECT_EQ(es_crc32c("123456789", 9), 0xe3069283);
    EXPECT_EQ(es_crc32c("", 0), 0);
}

TEST(every_bit_counts) {
    unsigned char data[64] = {0};
    uint32_t whole = es_crc32c(data, sizeof data);
    for (size_t bit = 0; bit < 8 * sizeof data; bit++) {
        data[bit / 8] ^= (unsigned char)(1u << (bit % 8));
        EXPECT(es_crc32c(data, sizeof data) != whole);
        data[bit / 8] ^= (unsigned char)(1u << (bit % 8));
    }
    EXPECT(es_crc32c(data, 63) != whole);
}

// an event file begins with the length 24, 64 bits, and its masked sum
TEST(masked_as_in_event_files) {
    unsigned char length[8] = {24};
    EXPECT_EQ(es_crc32c_masked(length, sizeof length), 0x224b7fa3);
}
