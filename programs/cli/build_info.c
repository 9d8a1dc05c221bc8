#include "cli/build_info.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

// written by build_commit.cmake at every build
#include "build_commit.h"

const char *es_build_commit(void) { return ES_BUILD_COMMIT; }

const char *es_build_type(void) { return ES_BUILD_TYPE; }

const char *es_build_compiler(void) {
#if defined(__clang__)
    return "clang " __clang_version__;
#else
    return "gcc " __VERSION__;
#endif
}

const char *es_build_cuda(void) { return ES_BUILD_CUDA; }

const char *es_build_inih_version(void) { return ES_BUILD_INIH; }

char *es_build_binary_hash(char text[17]) {
    snprintf(text, 17, "unknown");
    FILE *file = fopen("/proc/self/exe", "rb");
    if (file == NULL) {
        return text;
    }
    // FNV-1a, 64 bits: tells builds apart, no more
    uint64_t hash = 0xcbf29ce484222325u;
    unsigned char block[65536];
    for (size_t n_bytes; (n_bytes = fread(block, 1, sizeof block, file)) > 0;) {
        for (size_t i = 0; i < n_bytes; i++) {
            hash = (hash ^ block[i]) * 0x100000001b3u;
        }
    }
    if (!ferror(file)) {
        snprintf(text, 17, "%016" PRIx64, hash);
    }
    fclose(file);
    return text;
}
