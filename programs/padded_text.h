// Texts from files in the columns of a table.
#ifndef ES_PROGRAMS_PADDED_TEXT_H
#define ES_PROGRAMS_PADDED_TEXT_H

#include <stdio.h>

// Columns the text takes when printed by es_padded_text_print.
int es_padded_text_width(const char *text);

// Print it and blanks up to `width` columns. What could move the cursor, and what is not UTF-8, is
// shown as U+FFFD.
void es_padded_text_print(const char *text, int width, FILE *stream);

#endif
