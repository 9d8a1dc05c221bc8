// Names of a fused step's launches in profiles: one for each block and slot, so that a table shows
// which of them the time goes to. Reports keep the pointers, so they are static.
#ifndef ES_GROWTH_FUSED_NAMES_H
#define ES_GROWTH_FUSED_NAMES_H

#include "growth/fused/fused_net.h"

typedef enum EsFusedPass { ES_FUSED_PASS_FORWARD, ES_FUSED_PASS_BACKWARD } EsFusedPass;

// "fused_forward block 0"; blocks count from the images on.
static inline const char *es_fused_block_name(EsFusedPass pass, int block) {
#define NAMES(stem)                                                                                \
    { stem "0", stem "1", stem "2", stem "3", stem "4", stem "5" }
    static const char *const names[2][ES_FUSED_BLOCKS_MAX] = {NAMES("fused_forward block "),
                                                              NAMES("fused_backward block ")};
#undef NAMES
    return names[pass][block];
}

// "fused_seed_forward slot 0"; slots in the order of actions.
static inline const char *es_fused_slot_name(EsFusedPass pass, int slot) {
#define NAMES(stem)                                                                                \
    {                                                                                              \
        stem "0", stem "1", stem "2", stem "3", stem "4", stem "5", stem "6", stem "7", stem "8",  \
            stem "9", stem "10", stem "11", stem "12", stem "13", stem "14", stem "15"             \
    }
    static const char *const names[2][ES_SLOTS_MAX] = {NAMES("fused_seed_forward slot "),
                                                       NAMES("fused_seed_backward slot ")};
#undef NAMES
    return names[pass][slot];
}

#endif
