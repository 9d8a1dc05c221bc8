// SHA-256 against the examples of NIST, and pieces of every size against the whole.
#include "base/checksum.h"
#include "base/file.h"
#include "es_test.h"
#include "temp_folder.h"

static void hash_text(const char *text, size_t bytes, int plain, char out[ES_SHA256_TEXT_BYTES]) {
    EsSha256 hash;
    es_sha256_begin(&hash);
    hash.uses_instructions = plain ? 0 : hash.uses_instructions;
    es_sha256_append(&hash, text, bytes);
    es_sha256_end(&hash, out);
}

// FIPS 180-2 appendix B, and the one-byte and empty messages of the validation suite
static const struct {
    const char *message, *expected;
} vectors[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"\xbd", "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqr"
     "lmnopqrsmnopqrstnopqrstu",
     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
};

TEST(nist_vectors) {
    char text[ES_SHA256_TEXT_BYTES];
    for (size_t i = 0; i < ES_COUNT_OF(vectors); i++) {
        for (int plain = 0; plain < 2; plain++) {
            hash_text(vectors[i].message, strlen(vectors[i].message), plain, text);
            EXPECT_TEXT(text, vectors[i].expected);
        }
    }
}

TEST(a_million_times_a) {
    char piece[1000], text[ES_SHA256_TEXT_BYTES];
    memset(piece, 'a', sizeof piece);
    for (int plain = 0; plain < 2; plain++) {
        EsSha256 hash;
        es_sha256_begin(&hash);
        hash.uses_instructions = plain ? 0 : hash.uses_instructions;
        for (int i = 0; i < 1000; i++) {
            es_sha256_append(&hash, piece, sizeof piece);
        }
        es_sha256_end(&hash, text);
        EXPECT_TEXT(text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
}

// around the ends of blocks and of the padding, with and without the processor's instructions
TEST(pieces_make_the_whole) {
    char data[300], whole[ES_SHA256_TEXT_BYTES], plain[ES_SHA256_TEXT_BYTES];
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (char)(i * 37 + 11);
    }
    for (size_t bytes = 0; bytes <= 200; bytes++) {
        hash_text(data, bytes, 0, whole);
        hash_text(data, bytes, 1, plain);
        EXPECT_TEXT(plain, whole);
        for (size_t step = 1; step <= 130; step += 13) {
            char text[ES_SHA256_TEXT_BYTES];
            EsSha256 hash;
            es_sha256_begin(&hash);
            for (size_t at = 0; at < bytes; at += step) {
                es_sha256_append(&hash, data + at, ES_MIN(step, bytes - at));
            }
            es_sha256_end(&hash, text);
            EXPECT_TEXT(text, whole);
        }
    }
}

TEST(files_in_pieces) {
    const char *path = temp_path("data");
    size_t bytes = ((size_t)2 << 20) + 5; // two pieces and a rest
    char *data = malloc(bytes), expected[ES_SHA256_TEXT_BYTES], text[ES_SHA256_TEXT_BYTES];
    for (size_t i = 0; i < bytes; i++) {
        data[i] = (char)(i * i >> 7);
    }
    REQUIRE_OK(es_file_write_all(path, data, bytes));
    int64_t found = 0;
    REQUIRE_OK(es_sha256_file(path, text, &found));
    hash_text(data, bytes, 1, expected);
    EXPECT_TEXT(text, expected);
    EXPECT_EQ(found, bytes);
    free(data);
    unlink(path);
    EXPECT_STATUS(es_sha256_file(path, text, NULL), IO);
    EXPECT_CONTAINS(es_status_detail(), path);
}

// --- CRC-32C ---

// CRC-32C against the vectors of RFC 3720 (B.4) and against the first bytes of every TensorBoard
// event file.

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
