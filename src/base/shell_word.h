// Words for a command line that a person copies from a message.
#ifndef ES_BASE_SHELL_WORD_H
#define ES_BASE_SHELL_WORD_H

#include <stddef.h>

// `word` as a shell takes it, into `text`: as it is where nothing in it means anything to a shell,
// else in single quotes. Cut where there is no room; 4 times the word's length and 3 always do.
// Returns `text`.
const char *es_shell_word(const char *word, char *text, size_t text_bytes);

#endif
