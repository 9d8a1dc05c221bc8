// Text from outside (names, paths, values) on stdout: what could command a terminal, and what is
// not UTF-8, is shown as U+FFFD, as es_message does on stderr. Output for programs (--json, --csv)
// has escapes of its own. Nothing here needs memory.
//
//     es_padded_text_print(name, width, stdout);
//     es_print("%s: %d rules\n", path, n_rules);
#ifndef ES_PROGRAMS_PADDED_TEXT_H
#define ES_PROGRAMS_PADDED_TEXT_H

#include <stdio.h>

// Columns the text takes when printed by es_padded_text_print.
int es_padded_text_width(const char *text);

// Print it and blanks up to `width` columns.
void es_padded_text_print(const char *text, int width, FILE *stream);

// printf for a line with text from outside, of at most 16,000 bytes. Newlines at the begin and the
// end of the format are kept; all others come from outside and are shown as U+FFFD.
void es_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
