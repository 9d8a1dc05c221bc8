// Growing text, and the ways in which sinks write numbers and foreign strings into it.
//
// Additions never fail one by one: the first that finds no memory marks the text, later ones do
// nothing, and the writer looks at `status` once at the end. Numbers do not depend on the locale.
//
//     EsText text = {0};
//     es_text_add_string(&text, "loss ");
//     es_text_add_real(&text, 0.25);
//     ... text.bytes, text.length ...
//     es_text_destroy(&text);
#ifndef ES_TELEMETRY_TEXT_H
#define ES_TELEMETRY_TEXT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "esper/status.h"

typedef struct EsText {
    char *bytes; // owned, from es_allocate; not ended by 0
    size_t length, capacity;
    EsStatus status; // MEMORY after an addition that failed
} EsText;

// Empty it and forget a failure; the memory is kept.
void es_text_reset(EsText *text);
void es_text_destroy(EsText *text);

void es_text_add(EsText *text, const void *bytes, size_t n_bytes);
void es_text_add_string(EsText *text, const char *string);
void es_text_add_int(EsText *text, int64_t value);

// A finite number with the fewest digits, 15 to 17, that read back give the same bits. There is
// always a point or an exponent, so that readers that guess a column's type see a real.
void es_text_add_real(EsText *text, double value);

// A finite number with `n_decimals` digits after the point.
void es_text_add_fixed(EsText *text, double value, int n_decimals);

// A finite number with up to `n_digits` significant digits, for people.
void es_text_add_rounded(EsText *text, double value, int n_digits);

typedef enum EsTextEscape {
    ES_TEXT_PLAIN,    // nothing
    ES_TEXT_JSON,     // inside quotes: quote, backslash and control characters escaped
    ES_TEXT_LABEL,    // Prometheus, inside quotes: quote, backslash and newline escaped
    ES_TEXT_HELP,     // Prometheus: backslash and newline escaped
    ES_TEXT_TERMINAL, // characters that could command a terminal become U+FFFD
    ES_TEXT_HTML      // as TERMINAL; markup becomes entities, for elements and quoted attributes
} EsTextEscape;

// A string of unknown origin. Bytes that are not UTF-8 become U+FFFD, and so do control characters
// that the form has no escape for (PLAIN lets them through).
void es_text_add_utf8(EsText *text, const char *bytes, size_t n_bytes, EsTextEscape escape);

// Bytes in base64, with padding.
void es_text_add_base64(EsText *text, const uint8_t *bytes, size_t n);

// A new text for JSON, in which bytes that are not UTF-8 become U+FFFD: jansson would refuse it.
// NULL without memory.
json_t *es_text_json(const char *bytes, size_t n_bytes);

// Decode the character at `bytes` (n_bytes >= 1) and return its length. A malformed one is U+FFFD
// and as long as its longest valid start, at least 1.
size_t es_utf8_next(const char *bytes, size_t n_bytes, uint32_t *code_point);

// The character at `bytes` (n_bytes >= 1) as a terminal may show it; returns its length there.
// *shown are *n_shown bytes of UTF-8: the character itself, or U+FFFD in place of control
// characters (C0, DEL, C1), line and paragraph separators, bidirectional embeddings, overrides and
// isolates, and malformed bytes. Needs no memory: messages about a lack of it are written with
// this, too.
size_t es_text_next_shown(const char *bytes, size_t n_bytes, const char **shown, size_t *n_shown);

// Columns a terminal needs: two for East Asian characters and emoji, none for combining marks.
size_t es_text_width(const char *bytes, size_t n_bytes);

// Counts the bytes, in whole characters, that fit into n_columns.
size_t es_text_fit(const char *bytes, size_t n_bytes, size_t n_columns);

#endif
