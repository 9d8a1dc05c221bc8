// Words in messages: the nearest known name to a mistyped one, and words quoted for a command line
// that a person copies.
//
//     EsSpelling spelling = es_spelling_begin("learnig_rate");
//     for (int i = 0; i < n_names; i++) { es_spelling_offer(&spelling, names[i]); }
//     const char *near = es_spelling_suggestion(&spelling);  // NULL when nothing is close
#ifndef ES_BASE_WORDS_H
#define ES_BASE_WORDS_H

#include <stddef.h>

#include "base/macros.h"

ES_EXTERN_C_BEGIN

typedef struct EsSpelling {
    const char *word; // borrowed
    const char *best; // borrowed, the first of the nearest candidates so far
    int best_distance;
} EsSpelling;

EsSpelling es_spelling_begin(const char *word);
void es_spelling_offer(EsSpelling *spelling, const char *candidate);

// The nearest candidate, if at most a third of its letters (at least one) are wrong; NULL
// otherwise.
const char *es_spelling_suggestion(const EsSpelling *spelling);

// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`. Only the
// first 63 bytes count.
int es_spelling_distance(const char *a, const char *b);

// --- shell words ---

// `word` as a shell takes it, into `text`: as it is where nothing in it means anything to a shell,
// else in single quotes. Cut where there is no room; 4 times the word's length and 3 always do.
// Returns `text`.
const char *es_shell_word(const char *word, char *text, size_t text_bytes);

ES_EXTERN_C_END

#endif
