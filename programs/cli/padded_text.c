#include "cli/padded_text.h"

#include <stdarg.h>
#include <string.h>

#include "base/macros.h"
#include "telemetry/text.h"

// Print the bytes as a terminal may show them, to no stream when it is NULL; returns their columns.
static int show(const char *bytes, size_t n_bytes, FILE *stream) {
    size_t width = 0;
    while (n_bytes > 0) {
        const char *shown;
        size_t n_shown, length = es_text_next_shown(bytes, n_bytes, &shown, &n_shown);
        if (stream != NULL) {
            fwrite(shown, 1, n_shown, stream);
        }
        width += es_text_width(shown, n_shown);
        bytes += length;
        n_bytes -= length;
    }
    return (int)width;
}

int es_padded_text_width(const char *text) { return show(text, strlen(text), NULL); }

void es_padded_text_print(const char *text, int width, FILE *stream) {
    int n = show(text, strlen(text), stream);
    fprintf(stream, "%*s", ES_MAX(width - n, 0), "");
}

void es_print(const char *format, ...) {
    char text[16384];
    va_list arguments;
    va_start(arguments, format);
    int n_printed = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (n_printed <= 0) {
        return;
    }
    size_t length = ES_MIN((size_t)n_printed, sizeof text - 1);
    size_t n_format = strlen(format), n_begin = strspn(format, "\n");
    int has_end = n_format > n_begin && format[n_format - 1] == '\n';
    fwrite(text, 1, n_begin, stdout);
    // what was cut off took the newline with it
    size_t n_end = has_end && text[length - 1] == '\n' ? 1 : 0;
    show(text + n_begin, length - n_begin - n_end, stdout);
    if (has_end) {
        putchar('\n');
    }
}
