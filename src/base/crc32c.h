// CRC-32C (Castagnoli), the checksum of iSCSI, ext4 and TensorBoard's event files.
#ifndef ES_BASE_CRC32C_H
#define ES_BASE_CRC32C_H

#include <stddef.h>

#include "base/macros.h"

ES_EXTERN_C_BEGIN

uint32_t es_crc32c(const void *data, size_t bytes);

// The same, rotated and shifted as TFRecord files store it, so that a checksum over data that
// contain checksums stays a good one.
uint32_t es_crc32c_masked(const void *data, size_t bytes);

ES_EXTERN_C_END

#endif
