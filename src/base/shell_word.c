#include "base/shell_word.h"

#include <string.h>

#include "base/macros.h"

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
