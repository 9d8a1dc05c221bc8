#include "base/crc32c.h"

// The remainder of each half byte under the reflected polynomial 0x82f63b78. Two look-ups per byte
// keep the whole table in one cache line; what is summed here are small records.
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
