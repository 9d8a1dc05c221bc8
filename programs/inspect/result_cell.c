#include "inspect/result_cell.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The shortest digits that read back as the same number; never without a point or exponent.
static void add_exact(EsText *text, double value) {
    char digits[40];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) {
            break;
        }
    }
    es_text_add_string(text, digits);
    if (strspn(digits, "-0123456789") == strlen(digits)) {
        es_text_add_string(text, ".0");
    }
}

// Six digits, but large numbers (times, counts that were averaged) with all before the point.
static void add_readable(EsText *text, double value) {
    char digits[40];
    double size = fabs(value);
    snprintf(digits, sizeof digits, size >= 1e5 && size < 1e15 ? "%.2f" : "%.6g", value);
    es_text_add_string(text, digits);
}

static const char *name_special(double value) {
    return isnan(value) ? "NaN" : (value > 0 ? "Infinity" : "-Infinity");
}

static void add_hexadecimal(EsText *text, const EsResultCell *cell) {
    const unsigned char *bytes = cell->bytes;
    for (size_t i = 0; i < cell->n_bytes; i++) {
        char digits[4];
        snprintf(digits, sizeof digits, "%02x", bytes[i]);
        es_text_add_string(text, digits);
    }
}

static void add_quoted(EsText *text, const char *bytes, size_t n_bytes) {
    es_text_add_string(text, "\"");
    es_text_add_utf8(text, bytes, n_bytes, ES_TEXT_JSON);
    es_text_add_string(text, "\"");
}

void es_result_cell_add_json(EsText *text, const EsResultCell *cell) {
    switch (cell->kind) {
    case ES_RESULT_NULL:
        es_text_add_string(text, "null");
        break;
    case ES_RESULT_INT:
        es_text_add_int(text, cell->integer);
        break;
    case ES_RESULT_REAL:
        if (isfinite(cell->real)) {
            add_exact(text, cell->real);
        } else {
            const char *name = name_special(cell->real);
            add_quoted(text, name, strlen(name));
        }
        break;
    case ES_RESULT_TEXT:
        add_quoted(text, cell->bytes, cell->n_bytes);
        break;
    case ES_RESULT_BLOB:
        es_text_add_string(text, "\"");
        add_hexadecimal(text, cell);
        es_text_add_string(text, "\"");
        break;
    }
}

void es_result_cell_add_csv_text(EsText *text, const char *bytes, size_t n_bytes) {
    int is_plain = n_bytes > 0;
    for (size_t i = 0; i < n_bytes && is_plain; i++) {
        is_plain = bytes[i] != '\0' && strchr("\",\r\n", bytes[i]) == NULL;
    }
    if (is_plain) {
        es_text_add(text, bytes, n_bytes);
        return;
    }
    es_text_add_string(text, "\"");
    for (size_t i = 0; i < n_bytes; i++) {
        es_text_add(text, "\"\"", bytes[i] == '"' ? 1 : 0);
        es_text_add(text, &bytes[i], 1);
    }
    es_text_add_string(text, "\"");
}

void es_result_cell_add_csv(EsText *text, const EsResultCell *cell) {
    switch (cell->kind) {
    case ES_RESULT_NULL:
        break;
    case ES_RESULT_INT:
        es_text_add_int(text, cell->integer);
        break;
    case ES_RESULT_REAL:
        if (isfinite(cell->real)) {
            add_exact(text, cell->real);
        } else {
            es_text_add_string(text, name_special(cell->real));
        }
        break;
    case ES_RESULT_TEXT:
        es_result_cell_add_csv_text(text, cell->bytes, cell->n_bytes);
        break;
    case ES_RESULT_BLOB:
        add_hexadecimal(text, cell);
        break;
    }
}

// Lines would break the table: they become "\n". Other control characters are not for terminals.
static void add_table_text(EsText *text, const char *bytes, size_t n_bytes) {
    const char *end = bytes + n_bytes;
    while (bytes < end) {
        const char *newline = memchr(bytes, '\n', (size_t)(end - bytes));
        const char *stop = newline != NULL ? newline : end;
        es_text_add_utf8(text, bytes, (size_t)(stop - bytes), ES_TEXT_TERMINAL);
        if (newline != NULL) {
            es_text_add_string(text, "\\n");
        }
        bytes = newline != NULL ? newline + 1 : end;
    }
}

void es_result_cell_add_table(EsText *text, const EsResultCell *cell) {
    switch (cell->kind) {
    case ES_RESULT_NULL:
        es_text_add_string(text, "-");
        break;
    case ES_RESULT_REAL:
        if (isfinite(cell->real)) {
            add_readable(text, cell->real);
        } else {
            es_text_add_string(text, name_special(cell->real));
        }
        break;
    case ES_RESULT_TEXT:
        add_table_text(text, cell->bytes, cell->n_bytes);
        break;
    case ES_RESULT_INT:
    case ES_RESULT_BLOB:
        es_result_cell_add_csv(text, cell);
        break;
    }
}
