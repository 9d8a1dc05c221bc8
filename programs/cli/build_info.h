// What was built from what, for `esper info`, benchmark records and run folders.
#ifndef ES_PROGRAMS_BUILD_INFO_H
#define ES_PROGRAMS_BUILD_INFO_H

#include <stddef.h>

// `git describe` of the tree at build time, with "-dirty" when it had changes; "unknown" outside a
// repository.
const char *es_build_commit(void);

// "Release", "Debug"; "Debug+sanitizers".
const char *es_build_type(void);

const char *es_build_compiler(void);

// "built in", "not built in"; "emulated on the CPU": for tests, far slower than the CPU device.
const char *es_build_cuda(void);

// "inih" as pkg-config knew it at build time; the library itself cannot be asked.
const char *es_build_inih_version(void);

// 16 hexadecimal digits that change with the program's bytes ("unknown" when it cannot be read).
char *es_build_binary_hash(char text[17]);

#endif
