// Checksums: SHA-256 (FIPS 180-4) detects files that changed after they were written; CRC-32C
// (Castagnoli) is the checksum of iSCSI, ext4 and TensorBoard's event files.
//
//     EsSha256 hash; es_sha256_begin(&hash);
//     es_sha256_append(&hash, data, bytes);
//     char text[ES_SHA256_TEXT_BYTES]; es_sha256_end(&hash, text);
#ifndef ES_BASE_CHECKSUM_H
#define ES_BASE_CHECKSUM_H

#include <stddef.h>

#include "base/macros.h"
#include "esper/status.h"

ES_EXTERN_C_BEGIN

// 64 lower-case hexadecimal digits and the end
#define ES_SHA256_TEXT_BYTES 65

typedef struct EsSha256 {
    uint32_t state[8];
    uint64_t n_bytes;        // appended so far
    unsigned char block[64]; // the first n_bytes % 64 bytes wait here
    int uses_instructions;   // the processor's own SHA instructions
} EsSha256;

void es_sha256_begin(EsSha256 *hash);
void es_sha256_append(EsSha256 *hash, const void *data, size_t bytes);
void es_sha256_end(EsSha256 *hash, char text[ES_SHA256_TEXT_BYTES]);

// that reading a file takes
#define ES_SHA256_FILE_BYTES ((size_t)1 << 20)

// Hash a whole file, read in pieces. `bytes` takes its size, nullable.
EsStatus es_sha256_file(const char *path, char text[ES_SHA256_TEXT_BYTES], int64_t *bytes);

// --- CRC-32C ---

uint32_t es_crc32c(const void *data, size_t bytes);

// The same, rotated and shifted as TFRecord files store it, so that a checksum over data that
// contain checksums stays a good one.
uint32_t es_crc32c_masked(const void *data, size_t bytes);

ES_EXTERN_C_END

#endif
