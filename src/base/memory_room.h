// How much memory this process may still take: the least of what the machine has, what its control
// groups leave it, and what its own limit on addresses (ulimit -v) allows.
//
//     EsMemoryRoom room = es_memory_room("");
//     if (needed_bytes > room.bytes) { ... "%s has %.1f GiB", room.holder ... }
#ifndef ES_BASE_MEMORY_ROOM_H
#define ES_BASE_MEMORY_ROOM_H

#include "base/macros.h"

ES_EXTERN_C_BEGIN

typedef struct EsMemoryRoom {
    uint64_t bytes;   // UINT64_MAX where nobody tells
    char holder[160]; // who has no more: "the machine", "control group /a/b", "the limit of ulimit
                      // -v"
} EsMemoryRoom;

// Read from `root`/proc and `root`/sys/fs/cgroup, versions 1 and 2, a group's parents included;
// `root` is "" outside tests. Files in memory that the system can drop count as room, and so does
// swap where the group may use it. What cannot be read limits nothing.
EsMemoryRoom es_memory_room(const char *root);

ES_EXTERN_C_END

#endif
