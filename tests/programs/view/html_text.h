// Looking into HTML that a test has made.
#ifndef ES_TESTS_HTML_TEXT_H
#define ES_TESTS_HTML_TEXT_H

#include <string.h>

#include "es_test.h"
#include "telemetry/text.h"

// The text as a string, for strstr; good until the next call.
static inline const char *string_of(EsText *text) {
    EXPECT_STATUS(text->status, OK);
    es_text_add(text, "", 1);
    return text->bytes;
}

// Counts the places of a part.
static inline int count(const char *text, const char *part) {
    int n = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        n++;
    }
    return n;
}

#endif
