#include "padded_text.h"

#include <string.h>

#include "base/macros.h"
#include "telemetry/text.h"

// Out of memory there is nothing better to show than nothing.
static EsText clean(const char *text) {
    EsText cleaned = {0};
    es_text_add_utf8(&cleaned, text, strlen(text), ES_TEXT_TERMINAL);
    return cleaned;
}

int es_padded_text_width(const char *text) {
    EsText cleaned = clean(text);
    int width = (int)es_text_width(cleaned.bytes, cleaned.length);
    es_text_destroy(&cleaned);
    return width;
}

void es_padded_text_print(const char *text, int width, FILE *stream) {
    EsText cleaned = clean(text);
    fwrite(cleaned.bytes, 1, cleaned.length, stream);
    int n = (int)es_text_width(cleaned.bytes, cleaned.length);
    fprintf(stream, "%*s", ES_MAX(width - n, 0), "");
    es_text_destroy(&cleaned);
}
