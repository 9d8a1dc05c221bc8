// Writing a result row by row: cells in each format, tables whose columns fit a window of rows,
// JSON and CSV.
#include "inspect/result_writer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/memory.h"
#include "cli/frame.h"
#include "telemetry/text.h"

// --- cells ---

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

// A JSON value; infinities and NaN as strings, since JSON has none.
static void add_json_cell(EsText *text, const EsResultCell *cell) {
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

static void add_csv_text(EsText *text, const char *bytes, size_t n_bytes) {
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

// A field of RFC 4180; a text is quoted where it must be, and when it is empty.
static void add_csv_cell(EsText *text, const EsResultCell *cell) {
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
        add_csv_text(text, cell->bytes, cell->n_bytes);
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

// For people: six digits of a real, NULL as "-", nothing that would move a cursor.
static void add_table_cell(EsText *text, const EsResultCell *cell) {
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
        add_csv_cell(text, cell);
        break;
    }
}

// rows of a table that are held back to find its widths
#define WINDOW_ROWS 1000
// columns of a table are this far apart
#define GAP 2
// a text column is not cut below this width
#define MIN_TEXT_WIDTH 8
// nor is a text among others let grow above this one: a whole configuration can stand in a cell
#define MAX_TEXT_WIDTH 100

typedef struct Column {
    const char *name; // borrowed
    size_t width;     // columns of a terminal
    int has_text;     // a cell of the window is neither a number nor NULL
} Column;

struct EsResultWriter {
    FILE *stream; // borrowed
    EsResultFormat format;
    size_t max_width;
    Column *columns; // owned
    int n_columns;
    int64_t n_rows;
    EsText line; // the row at hand
    // table: cells of the window one after another, and where each ends
    EsText cells;
    size_t *ends; // owned [WINDOW_ROWS][n_columns]
    int is_streaming;
};

// --- tables ---

static void add_spaces(EsText *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        es_text_add(text, " ", 1);
    }
}

// The columns that a text may take. A table without a limit of its own keeps rows readable where
// there are other columns beside.
static size_t text_limit(const EsResultWriter *writer, const Column *column) {
    if (writer->max_width > 0) {
        return column->width;
    }
    return writer->n_columns > 1 ? MAX_TEXT_WIDTH : SIZE_MAX;
}

// Add a cell in its column. A text that is too wide is cut, a number never.
static void add_aligned(EsResultWriter *writer, int index, const char *bytes, size_t n_bytes) {
    const Column *column = &writer->columns[index];
    size_t n = es_text_width(bytes, n_bytes);
    size_t padding = n < column->width ? column->width - n : 0;
    add_spaces(&writer->line, index > 0 ? GAP : 0);
    add_spaces(&writer->line, column->has_text ? 0 : padding);
    size_t limit = text_limit(writer, column);
    if (column->has_text && n > limit) {
        size_t n_kept = es_text_fit(bytes, n_bytes, limit - 1);
        es_text_add(&writer->line, bytes, n_kept);
        es_text_add_string(&writer->line, "\xe2\x80\xa6"); // an ellipsis, one column
        // a wide character may have left half of its place
        padding = limit - 1 - es_text_width(bytes, n_kept);
    } else {
        es_text_add(&writer->line, bytes, n_bytes);
    }
    if (column->has_text && index + 1 < writer->n_columns) {
        add_spaces(&writer->line, padding);
    }
}

static EsStatus write_line(EsResultWriter *writer, const char *end) {
    es_text_add_string(&writer->line, end);
    ES_TRY(writer->line.status);
    fwrite(writer->line.bytes, 1, writer->line.length, writer->stream);
    es_text_reset(&writer->line);
    return ES_STATUS_OK;
}

static size_t total_width(const EsResultWriter *writer) {
    size_t total = 0;
    for (int i = 0; i < writer->n_columns; i++) {
        total += writer->columns[i].width + (i > 0 ? GAP : 0);
    }
    return total;
}

// Narrow the widest text column until the table fits or nothing is left to narrow.
static void fit_width(EsResultWriter *writer) {
    for (int i = 0; i < writer->n_columns && writer->n_columns > 1; i++) {
        Column *column = &writer->columns[i];
        column->width = column->has_text ? ES_MIN(column->width, MAX_TEXT_WIDTH) : column->width;
    }
    for (size_t total = total_width(writer); writer->max_width > 0 && total > writer->max_width;
         total--) {
        Column *widest = NULL;
        for (int i = 0; i < writer->n_columns; i++) {
            Column *column = &writer->columns[i];
            if (column->has_text && column->width > MIN_TEXT_WIDTH &&
                (widest == NULL || column->width > widest->width)) {
                widest = column;
            }
        }
        if (widest == NULL) {
            return;
        }
        widest->width--;
    }
}

// Print the names and the window; from here on rows are printed as they come.
static EsStatus print_window(EsResultWriter *writer) {
    size_t n_columns = (size_t)writer->n_columns;
    ES_TRY(writer->cells.status);
    fit_width(writer);
    writer->is_streaming = 1;
    for (int i = 0; i < writer->n_columns; i++) {
        const char *name = writer->columns[i].name;
        EsText title = {0};
        es_text_add_utf8(&title, name, strlen(name), ES_TEXT_TERMINAL);
        EsStatus status = title.status;
        if (status == ES_STATUS_OK) {
            add_aligned(writer, i, title.bytes, title.length);
        }
        es_text_destroy(&title);
        ES_TRY(status);
    }
    ES_TRY(write_line(writer, "\n"));
    for (int i = 0; i < writer->n_columns; i++) {
        add_spaces(&writer->line, i > 0 ? GAP : 0);
        for (size_t j = 0; j < writer->columns[i].width; j++) {
            es_text_add(&writer->line, "-", 1);
        }
    }
    ES_TRY(write_line(writer, "\n"));
    for (int64_t row = 0; row < writer->n_rows; row++) {
        for (int i = 0; i < writer->n_columns; i++) {
            size_t cell = (size_t)row * n_columns + (size_t)i;
            size_t begin = cell > 0 ? writer->ends[cell - 1] : 0;
            add_aligned(writer, i, writer->cells.bytes + begin, writer->ends[cell] - begin);
        }
        ES_TRY(write_line(writer, "\n"));
    }
    return ES_STATUS_OK;
}

static EsStatus add_table_row(EsResultWriter *writer, const EsResultCell *cells) {
    for (int i = 0; i < writer->n_columns; i++) {
        Column *column = &writer->columns[i];
        size_t begin = writer->is_streaming ? 0 : writer->cells.length;
        if (writer->is_streaming) {
            es_text_reset(&writer->cells);
        }
        add_table_cell(&writer->cells, &cells[i]);
        ES_TRY(writer->cells.status);
        const char *bytes = writer->cells.bytes + begin;
        size_t n_bytes = writer->cells.length - begin;
        if (writer->is_streaming) {
            add_aligned(writer, i, bytes, n_bytes);
            continue;
        }
        writer->ends[writer->n_rows * writer->n_columns + i] = writer->cells.length;
        column->width = ES_MAX(column->width, es_text_width(bytes, n_bytes));
        column->has_text |= cells[i].kind == ES_RESULT_TEXT || cells[i].kind == ES_RESULT_BLOB;
    }
    writer->n_rows++;
    if (writer->is_streaming) {
        return write_line(writer, "\n");
    }
    return writer->n_rows == WINDOW_ROWS ? print_window(writer) : ES_STATUS_OK;
}

// --- JSON, CSV ---

// The name, with a number when an earlier column has it already.
static void add_key(EsResultWriter *writer, int index) {
    const char *name = writer->columns[index].name;
    int n_same = 1;
    for (int i = 0; i < index; i++) {
        n_same += strcmp(writer->columns[i].name, name) == 0;
    }
    es_text_add_string(&writer->line, "\"");
    es_text_add_utf8(&writer->line, name, strlen(name), ES_TEXT_JSON);
    if (n_same > 1) {
        es_text_add_string(&writer->line, "_");
        es_text_add_int(&writer->line, n_same);
    }
    es_text_add_string(&writer->line, "\": ");
}

static EsStatus add_json_row(EsResultWriter *writer, const EsResultCell *cells) {
    es_text_add_string(&writer->line, writer->n_rows > 0 ? ",\n  {" : "\n  {");
    for (int i = 0; i < writer->n_columns; i++) {
        es_text_add_string(&writer->line, i > 0 ? ", " : "");
        add_key(writer, i);
        add_json_cell(&writer->line, &cells[i]);
    }
    writer->n_rows++;
    return write_line(writer, "}");
}

static EsStatus add_csv_row(EsResultWriter *writer, const EsResultCell *cells) {
    for (int i = 0; i < writer->n_columns; i++) {
        es_text_add_string(&writer->line, i > 0 ? "," : "");
        add_csv_cell(&writer->line, &cells[i]);
    }
    writer->n_rows++;
    return write_line(writer, "\r\n");
}

static EsStatus begin_result(EsResultWriter *writer) {
    switch (writer->format) {
    case ES_RESULT_TABLE:
        return ES_STATUS_OK;
    case ES_RESULT_JSON:
        return write_line(writer, "[");
    case ES_RESULT_CSV:
        for (int i = 0; i < writer->n_columns; i++) {
            const char *name = writer->columns[i].name;
            es_text_add_string(&writer->line, i > 0 ? "," : "");
            add_csv_text(&writer->line, name, strlen(name));
        }
        return write_line(writer, "\r\n");
    }
    return ES_STATUS_OK;
}

// --- the life of a writer ---

EsStatus es_result_writer_create(FILE *stream, EsResultFormat format, int width,
                                 const char *const *names, int n_columns, EsResultWriter **writer) {
    *writer = NULL;
    void *memory = NULL;
    EsStatus status;
    ES_TRY(es_allocate(sizeof(EsResultWriter), &memory));
    EsResultWriter *created = memory;
    created->stream = stream;
    created->format = format;
    created->max_width = (size_t)ES_MAX(width, 0);
    created->n_columns = n_columns;
    ES_TRY_GOTO(es_allocate((size_t)n_columns * sizeof(Column), &memory));
    created->columns = memory;
    for (int i = 0; i < n_columns; i++) {
        created->columns[i].name = names[i];
        created->columns[i].width = (size_t)ES_MAX(es_padded_text_width(names[i]), 1);
    }
    if (format == ES_RESULT_TABLE) {
        ES_TRY_GOTO(es_allocate(WINDOW_ROWS * (size_t)n_columns * sizeof(size_t), &memory));
        created->ends = memory;
    }
    ES_TRY_GOTO(begin_result(created));
    *writer = created;
done:
    if (status != ES_STATUS_OK) {
        es_result_writer_destroy(created);
    }
    return status;
}

EsStatus es_result_writer_add(EsResultWriter *writer, const EsResultCell *cells) {
    switch (writer->format) {
    case ES_RESULT_JSON:
        return add_json_row(writer, cells);
    case ES_RESULT_CSV:
        return add_csv_row(writer, cells);
    default:
        return add_table_row(writer, cells);
    }
}

EsStatus es_result_writer_finish(EsResultWriter *writer) {
    switch (writer->format) {
    case ES_RESULT_JSON:
        return write_line(writer, writer->n_rows > 0 ? "\n]\n" : "]\n");
    case ES_RESULT_CSV:
        return ES_STATUS_OK;
    default:
        return writer->is_streaming ? ES_STATUS_OK : print_window(writer);
    }
}

void es_result_writer_destroy(EsResultWriter *writer) {
    if (writer != NULL) {
        es_text_destroy(&writer->line);
        es_text_destroy(&writer->cells);
        es_release(writer->ends);
        es_release(writer->columns);
        es_release(writer);
    }
}
