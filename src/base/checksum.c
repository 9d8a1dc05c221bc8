// Two compression functions: the standard's formulas for any machine, and the processor's SHA
// instructions where there are any, which hash several times faster.
#include "base/checksum.h"

#include <string.h>

#include "base/file.h"
#include "base/memory.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#define BLOCK_BYTES 64

// first 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS
// 180-4, 4.2.2)
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate_right(uint32_t x, int n) { return x >> n | x << (32 - n); }

static uint32_t load_big_endian(const unsigned char *from) {
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

// FIPS 180-4, 6.2.2
static void compress_block(uint32_t state[8], const unsigned char *block) {
    uint32_t w[64];
    for (int t = 0; t < 16; t++) {
        w[t] = load_big_endian(block + (size_t)t * 4);
    }
    for (int t = 16; t < 64; t++) {
        uint32_t x = w[t - 15], y = w[t - 2];
        uint32_t sigma0 = rotate_right(x, 7) ^ rotate_right(x, 18) ^ x >> 3;
        uint32_t sigma1 = rotate_right(y, 17) ^ rotate_right(y, 19) ^ y >> 10;
        w[t] = sigma1 + w[t - 7] + sigma0 + w[t - 16];
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int t = 0; t < 64; t++) {
        uint32_t sum1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
        uint32_t choice = (e & f) ^ (~e & g);
        uint32_t t1 = h + sum1 + choice + round_constants[t] + w[t];
        uint32_t sum0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
        uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + sum0 + majority;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
}

#if defined(__x86_64__)

static int has_sha_instructions(void) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    int has_sha = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1U << 29) != 0;
    // SSSE3 (byte shuffles) and SSE4.1 go with it on every processor, but are promised apart
    return has_sha && __get_cpuid(1, &a, &b, &c, &d) && (c & 1U << 9) != 0 && (c & 1U << 19) != 0;
}

// Each sha256rnds2 does two rounds on the state split as ABEF and CDGH; w holds the last 16 words
// of the schedule, four to a vector.
__attribute__((target("sha,ssse3,sse4.1"))) static void
compress_blocks_sha(uint32_t state[8], const unsigned char *data, size_t n_blocks) {
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i abcd = _mm_loadu_si128((const __m128i *)(const void *)&state[0]);
    __m128i efgh = _mm_loadu_si128((const __m128i *)(const void *)&state[4]);
    __m128i cdab = _mm_shuffle_epi32(abcd, 0xb1);
    __m128i hgfe = _mm_shuffle_epi32(efgh, 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, hgfe, 8);
    __m128i cdgh = _mm_blend_epi16(hgfe, cdab, 0xf0);
    for (size_t block = 0; block < n_blocks; block++, data += BLOCK_BYTES) {
        __m128i old_abef = abef, old_cdgh = cdgh, w[4];
        for (int i = 0; i < 4; i++) {
            const void *from = data + (size_t)i * 16;
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)from), swap);
        }
        for (int t = 0; t < 16; t++) {
            __m128i constants =
                _mm_loadu_si128((const __m128i *)(const void *)&round_constants[t * 4]);
            __m128i sum = _mm_add_epi32(w[t & 3], constants);
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
            // w[t+16..t+19] takes the place of w[t..t+3]
            __m128i next = _mm_sha256msg1_epu32(w[t & 3], w[(t + 1) & 3]);
            next = _mm_add_epi32(next, _mm_alignr_epi8(w[(t + 3) & 3], w[(t + 2) & 3], 4));
            w[t & 3] = _mm_sha256msg2_epu32(next, w[(t + 3) & 3]);
        }
        abef = _mm_add_epi32(abef, old_abef);
        cdgh = _mm_add_epi32(cdgh, old_cdgh);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
    __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    abcd = _mm_blend_epi16(feba, dchg, 0xf0);
    efgh = _mm_alignr_epi8(dchg, feba, 8);
    _mm_storeu_si128((__m128i *)(void *)&state[0], abcd);
    _mm_storeu_si128((__m128i *)(void *)&state[4], efgh);
}

#else

static int has_sha_instructions(void) { return 0; }

static void compress_blocks_sha(uint32_t state[8], const unsigned char *data, size_t n_blocks) {
    for (size_t block = 0; block < n_blocks; block++) {
        compress_block(state, data + block * BLOCK_BYTES);
    }
}

#endif

static void compress_blocks(EsSha256 *hash, const unsigned char *data, size_t n_blocks) {
    if (hash->uses_instructions) {
        compress_blocks_sha(hash->state, data, n_blocks);
        return;
    }
    for (size_t block = 0; block < n_blocks; block++) {
        compress_block(hash->state, data + block * BLOCK_BYTES);
    }
}

void es_sha256_begin(EsSha256 *hash) {
    // first 32 bits of the fractional parts of the square roots of the first 8 primes (5.3.3)
    static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memset(hash, 0, sizeof *hash);
    memcpy(hash->state, initial, sizeof initial);
    hash->uses_instructions = has_sha_instructions();
}

void es_sha256_append(EsSha256 *hash, const void *data, size_t bytes) {
    const unsigned char *next = data;
    size_t waiting = (size_t)(hash->n_bytes % BLOCK_BYTES);
    hash->n_bytes += bytes;
    if (waiting > 0) {
        size_t taken = ES_MIN(bytes, BLOCK_BYTES - waiting);
        memcpy(hash->block + waiting, next, taken);
        next += taken;
        bytes -= taken;
        if (waiting + taken < BLOCK_BYTES) {
            return;
        }
        compress_blocks(hash, hash->block, 1);
    }
    compress_blocks(hash, next, bytes / BLOCK_BYTES);
    if (bytes % BLOCK_BYTES > 0) {
        memcpy(hash->block, next + bytes / BLOCK_BYTES * BLOCK_BYTES, bytes % BLOCK_BYTES);
    }
}

void es_sha256_end(EsSha256 *hash, char text[ES_SHA256_TEXT_BYTES]) {
    static const char digits[] = "0123456789abcdef";
    // a one bit, zeros up to 8 bytes before the end of a block, the length in bits
    unsigned char padding[2 * BLOCK_BYTES] = {0x80};
    uint64_t n_bits = hash->n_bytes * 8;
    size_t waiting = (size_t)(hash->n_bytes % BLOCK_BYTES);
    size_t n_padding = (waiting < BLOCK_BYTES - 8 ? BLOCK_BYTES : 2 * BLOCK_BYTES) - waiting;
    for (size_t i = 0; i < 8; i++) {
        padding[n_padding - 1 - i] = (unsigned char)(n_bits >> 8 * i);
    }
    es_sha256_append(hash, padding, n_padding);
    for (size_t i = 0; i < 32; i++) {
        uint32_t byte = hash->state[i / 4] >> (24 - 8 * (i % 4)) & 0xff;
        text[2 * i] = digits[byte >> 4];
        text[2 * i + 1] = digits[byte & 15];
    }
    text[64] = '\0';
}

EsStatus es_sha256_file(const char *path, char text[ES_SHA256_TEXT_BYTES], int64_t *bytes) {
    EsFileReader *reader = NULL;
    void *piece = NULL;
    EsSha256 hash;
    es_sha256_begin(&hash);
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_file_reader_open(path, &reader));
    uint64_t n_bytes = es_file_reader_bytes(reader);
    // marks of checkpoints are small: clearing a whole piece would take longer than hashing them
    ES_TRY_GOTO(es_allocate((size_t)ES_MIN(n_bytes, (uint64_t)ES_SHA256_FILE_BYTES), &piece));
    for (uint64_t offset = 0; offset < n_bytes; offset += ES_SHA256_FILE_BYTES) {
        size_t wanted = (size_t)ES_MIN(n_bytes - offset, (uint64_t)ES_SHA256_FILE_BYTES);
        ES_TRY_GOTO(es_file_reader_read(reader, offset, piece, wanted));
        es_sha256_append(&hash, piece, wanted);
    }
    es_sha256_end(&hash, text);
    if (bytes != NULL) {
        *bytes = (int64_t)n_bytes;
    }
done:
    es_release(piece);
    es_file_reader_close(reader);
    return status;
}

// --- CRC-32C ---

// The remainder of each half byte under the reflected polynomial 0x82f63b78. Two look-ups per byte
// keep the whole table in one cache line; the records summed here are small.
static const uint32_t half_byte_table[16] = {
    0x00000000u, 0x105ec76fu, 0x20bd8edeu, 0x30e349b1u, 0x417b1dbcu, 0x5125dad3u,
    0x61c69362u, 0x7198540du, 0x82f63b78u, 0x92a8fc17u, 0xa24bb5a6u, 0xb21572c9u,
    0xc38d26c4u, 0xd3d3e1abu, 0xe330a81au, 0xf36e6f75u,
};

uint32_t es_crc32c(const void *data, size_t bytes) {
    const unsigned char *next = data;
    uint32_t crc = ~0u;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= next[i];
        crc = (crc >> 4) ^ half_byte_table[crc & 15];
        crc = (crc >> 4) ^ half_byte_table[crc & 15];
    }
    return ~crc;
}

uint32_t es_crc32c_masked(const void *data, size_t bytes) {
    uint32_t crc = es_crc32c(data, bytes);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}
