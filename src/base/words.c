// Edit distance by dynamic programming over three rows, and quotation for a shell.
#include "base/words.h"

#include <limits.h>
#include <string.h>

#define LONGEST 63

int es_spelling_distance(const char *a, const char *b) {
    // rows of the dynamic programme, row i = distances of the first i bytes of `a`; a swap looks
    // two rows back
    int rows[3][LONGEST + 1];
    int a_length = (int)strnlen(a, LONGEST);
    int b_length = (int)strnlen(b, LONGEST);
    for (int j = 0; j <= b_length; j++) {
        rows[0][j] = j;
    }
    for (int i = 1; i <= a_length; i++) {
        int *row = rows[i % 3];
        const int *above = rows[(i + 2) % 3];
        const int *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= b_length; j++) {
            int replaced = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = ES_MIN(replaced, ES_MIN(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = ES_MIN(row[j], two_above[j - 2] + 1);
            }
        }
    }
    return rows[a_length % 3][b_length];
}

EsSpelling es_spelling_begin(const char *word) { return (EsSpelling){word, NULL, INT_MAX}; }

void es_spelling_offer(EsSpelling *spelling, const char *candidate) {
    int distance = es_spelling_distance(spelling->word, candidate);
    if (distance < spelling->best_distance) {
        spelling->best = candidate;
        spelling->best_distance = distance;
    }
}

const char *es_spelling_suggestion(const EsSpelling *spelling) {
    if (spelling->best == NULL) {
        return NULL;
    }
    int allowed = (int)strlen(spelling->best) / 3;
    return spelling->best_distance <= ES_MAX(allowed, 1) ? spelling->best : NULL;
}

// --- shell words ---

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                            "_-./:,+@%=";

typedef struct Writing {
    char *text;
    size_t bytes, used;
} Writing;

static void add(Writing *writing, const char *piece) {
    size_t length = strlen(piece);
    length = ES_MIN(length, writing->bytes - 1 - writing->used);
    memcpy(writing->text + writing->used, piece, length);
    writing->used += length;
    writing->text[writing->used] = '\0';
}

const char *es_shell_word(const char *word, char *text, size_t text_bytes) {
    ES_ASSERT(text_bytes >= 1);
    Writing writing = {text, text_bytes, 0};
    text[0] = '\0';
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        add(&writing, word);
        return text;
    }
    add(&writing, "'");
    for (; *word != '\0'; word++) {
        const char letter[] = {*word, '\0'};
        // a quote ends the quotation, stands escaped, and begins the next
        add(&writing, *word == '\'' ? "'\\''" : letter);
    }
    add(&writing, "'");
    return text;
}
