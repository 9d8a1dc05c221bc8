// Texts with mistakes in them for tests of parsers, the same ones each time.
#ifndef ES_TESTS_PROOF_DAMAGED_TEXT_H
#define ES_TESTS_PROOF_DAMAGED_TEXT_H

#include <string.h>

#include "base/random_rules.h"

#define DAMAGED_MAX_BYTES 512

// Draws of one text; those from index 10 on are damage_text's.
typedef struct DamageDraws {
    uint32_t seed, round;
} DamageDraws;

static inline uint32_t damage_draw(DamageDraws draws, uint32_t index, uint32_t n) {
    EsRandom4 r = es_random_draw(draws.seed, draws.round, ES_PURPOSE_EVALUATION, index, 0);
    return es_random_below(r.word[0], n);
}

// Copy a text without its end; returns how long it is.
static inline size_t put_text(char *to, const char *text) {
    size_t bytes = 0;
    for (; text[bytes] != '\0'; bytes++) {
        to[bytes] = text[bytes];
    }
    return bytes;
}

// Up to seven places: a byte becomes one of `special`, goes away, is the last, or all from there on
// comes twice. Returns the new length.
static inline size_t damage_text(DamageDraws draws, const char *special, size_t n_special,
                                 char text[DAMAGED_MAX_BYTES], size_t bytes) {
    uint32_t n_changes = damage_draw(draws, 1, 8);
    for (uint32_t i = 0; i < n_changes && bytes > 1; i++) {
        size_t at = damage_draw(draws, 10 + 4 * i, (uint32_t)bytes);
        switch (damage_draw(draws, 11 + 4 * i, 4)) {
        case 0:
            text[at] = special[damage_draw(draws, 12 + 4 * i, (uint32_t)n_special)];
            break;
        case 1:
            memmove(text + at, text + at + 1, bytes - at - 1);
            bytes--;
            break;
        case 2:
            bytes = at + 1;
            break;
        default:
            if (2 * bytes - at <= DAMAGED_MAX_BYTES) {
                memmove(text + bytes, text + at, bytes - at);
                bytes += bytes - at;
            }
        }
    }
    return bytes;
}

#endif
