// Tables of numbers: records and fields of any of them, and a data set of one with a label column,
// or of one per split.
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "data/dataset_internal.h"

#define MAX_FILE_BYTES ((size_t)4 << 30)

// --- the file ---

// The separator that the first line has most of, outside quotes.
static char find_separator(const EsCsvText *csv) {
    static const char candidates[3] = {',', ';', '\t'};
    int64_t count[3] = {0, 0, 0};
    int is_quoted = 0;
    for (const char *c = csv->next; c < csv->end && (is_quoted || *c != '\n'); c++) {
        is_quoted ^= *c == '"';
        for (int i = 0; i < 3; i++) {
            count[i] += !is_quoted && *c == candidates[i];
        }
    }
    int best = 0;
    for (int i = 1; i < 3; i++) {
        best = count[i] > count[best] ? i : best;
    }
    return candidates[best];
}

EsStatus es_csv_open(EsCsvText *csv, const char *path) {
    size_t n_bytes = 0;
    *csv = (EsCsvText){.path = path, .line = 1};
    ES_TRY(es_file_read_all(path, MAX_FILE_BYTES, (void **)&csv->text, &n_bytes));
    csv->next = csv->text;
    csv->end = csv->text + n_bytes;
    if (n_bytes >= 3 && memcmp(csv->text, "\xef\xbb\xbf", 3) == 0) {
        csv->next += 3; // the mark that some programs put before UTF-8
    }
    const char *zero = memchr(csv->next, 0, (size_t)(csv->end - csv->next));
    if (zero != NULL) {
        return ES_FAIL(INPUT, "%s: a zero byte at offset %lld: no text file (UTF-16?)", path,
                       (long long)(zero - csv->text));
    }
    csv->separator = find_separator(csv);
    return ES_STATUS_OK;
}

void es_csv_close(EsCsvText *csv) {
    es_release(csv->fields);
    es_release(csv->text);
    *csv = (EsCsvText){0};
}

// --- records ---

static EsStatus add_field(EsCsvText *csv, char *field) {
    if (csv->n_fields == csv->fields_capacity) {
        int capacity = ES_MAX(2 * csv->fields_capacity, 64);
        if (csv->n_fields > ES_DATASET_MAX_COLUMNS) {
            return ES_FAIL(INPUT, "%s: line %lld: more than %d columns", csv->path,
                           (long long)csv->record_line, ES_DATASET_MAX_COLUMNS);
        }
        ES_TRY(es_reallocate((void **)&csv->fields,
                             (size_t)csv->fields_capacity * sizeof *csv->fields,
                             (size_t)capacity * sizeof *csv->fields));
        csv->fields_capacity = capacity;
    }
    csv->fields[csv->n_fields++] = field;
    return ES_STATUS_OK;
}

static int is_line_end(char c) { return c == '\n' || c == '\r'; }

// A field in quotes, `next` behind the first one: its text moves to the front, doubled quotes
// become one.
static EsStatus read_quoted(EsCsvText *csv, char *to) {
    for (;;) {
        if (csv->next == csv->end) {
            return ES_FAIL(INPUT, "%s: line %lld: a quote is not closed", csv->path,
                           (long long)csv->record_line);
        }
        char c = *csv->next++;
        if (c == '"' && csv->next < csv->end && *csv->next == '"') {
            csv->next++;
        } else if (c == '"') {
            break;
        }
        csv->line += c == '\n';
        *to++ = c;
    }
    if (csv->next < csv->end && *csv->next != csv->separator && !is_line_end(*csv->next)) {
        return ES_FAIL(INPUT, "%s: line %lld, column %d: text behind a closed quote", csv->path,
                       (long long)csv->line, csv->n_fields);
    }
    *to = '\0';
    return ES_STATUS_OK;
}

// Cuts one field off at `next`, which moves behind the byte that ends it; returns that byte in
// *stop, 0 at the end of the file.
static EsStatus read_field(EsCsvText *csv, char *stop) {
    char *field = csv->next;
    ES_TRY(add_field(csv, field));
    if (*field == '"') {
        csv->next++;
        ES_TRY(read_quoted(csv, field));
    } else {
        while (csv->next < csv->end && *csv->next != csv->separator && !is_line_end(*csv->next)) {
            csv->next++;
        }
    }
    *stop = csv->next < csv->end ? *csv->next : '\0';
    *csv->next = '\0'; // a byte of the file, or the one behind it
    csv->next += csv->next < csv->end;
    return ES_STATUS_OK;
}

// All fields of the record that begins at `next`.
static EsStatus read_record(EsCsvText *csv) {
    char stop = '\0';
    do {
        ES_TRY(read_field(csv, &stop));
    } while (stop == csv->separator && csv->next < csv->end);
    if (stop == csv->separator) { // a separator ends the file: one more, empty
        return add_field(csv, csv->end);
    }
    if (stop == '\r' && csv->next < csv->end && *csv->next == '\n') {
        csv->next++;
    }
    csv->line += stop != '\0';
    return ES_STATUS_OK;
}

static char *trim(char *text) {
    while (isspace((unsigned char)*text)) {
        text++;
    }
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1])) {
        text[--length] = '\0';
    }
    return text;
}

EsStatus es_csv_next(EsCsvText *csv, int *is_end) {
    while (csv->next < csv->end && is_line_end(*csv->next)) {
        csv->line += *csv->next++ == '\n';
    }
    *is_end = csv->next == csv->end;
    csv->n_fields = 0;
    csv->record_line = csv->line;
    if (*is_end) {
        return ES_STATUS_OK;
    }
    ES_TRY(read_record(csv));
    csv->n_columns = csv->n_columns > 0 ? csv->n_columns : csv->n_fields;
    if (csv->n_fields != csv->n_columns) {
        return ES_FAIL(INPUT, "%s: line %lld: %d columns, expected %d as in the first line",
                       csv->path, (long long)csv->record_line, csv->n_fields, csv->n_columns);
    }
    for (int i = 0; i < csv->n_fields; i++) {
        csv->fields[i] = trim(csv->fields[i]);
    }
    return ES_STATUS_OK;
}

// --- fields ---

static int parse_number(const char *text, float *value) {
    if (text[0] == '\0' || strspn(text, "0123456789+-.eE") != strlen(text)) {
        return 0;
    }
    char *end = NULL;
    double found = strtod(text, &end);
    *value = (float)found;
    return *end == '\0' && isfinite(*value);
}

int es_csv_is_header(const EsCsvText *csv, int label) {
    int n_named = 0;
    for (int i = 0; i < csv->n_fields; i++) {
        float value;
        if (i != label && parse_number(csv->fields[i], &value)) {
            return 0;
        }
        n_named += i != label && csv->fields[i][0] != '\0';
    }
    return n_named > 0;
}

EsStatus es_csv_field(const EsCsvText *csv, int column, const char *name, const char **text) {
    *text = csv->fields[column];
    name = name != NULL ? name : "";
    return (*text)[0] != '\0'
               ? ES_STATUS_OK
               : ES_FAIL(INPUT, "%s: line %lld, column %d%s%.60s: the value is missing", csv->path,
                         (long long)csv->record_line, column, name[0] != '\0' ? " " : "", name);
}

EsStatus es_csv_number(const EsCsvText *csv, int column, const char *name, float *value) {
    const char *text;
    ES_TRY(es_csv_field(csv, column, name, &text));
    name = name != NULL ? name : "";
    return parse_number(text, value)
               ? ES_STATUS_OK
               : ES_FAIL(INPUT, "%s: line %lld, column %d%s%.60s: \"%.60s\" is no finite number",
                         csv->path, (long long)csv->record_line, column, name[0] != '\0' ? " " : "",
                         name, text);
}

// --- the label ---

typedef struct Table {
    const char *path;          // borrowed: the file, or the folder of the files
    EsCsvText csv[3];          // owned: a file per split; without text where a split has none
    const char *const *header; // owned: names of all columns; NULL without
    int n_columns, label;      // the label's column is one of them
    float *values;             // owned   [n_rows, n_columns - 1]
    const char **labels;       // owned   [n_rows], texts in the files
    uint8_t *splits;           // owned   [n_rows]
    int64_t n_rows, rows_capacity;
} Table;

static int find_column(const EsCsvText *csv, const char *name) {
    for (int i = 0; i < csv->n_fields; i++) {
        if (strcmp(csv->fields[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

// Which column the label is: by name, by number from 0, or the last.
static EsStatus find_label(Table *t, const EsCsvText *csv, const char *wanted) {
    int n_columns = csv->n_columns;
    t->label = n_columns - 1;
    if (wanted == NULL || wanted[0] == '\0') {
        return ES_STATUS_OK;
    }
    t->label = find_column(csv, wanted);
    char *end = NULL;
    long number = strtol(wanted, &end, 10);
    if (t->label < 0 && end != wanted && *end == '\0' && number >= 0 && number < n_columns) {
        t->label = (int)number;
    }
    return t->label >= 0 ? ES_STATUS_OK
                         : ES_FAIL(INPUT,
                                   "%s: no column is called \"%.100s\", and it is no number from 0 "
                                   "to %d",
                                   csv->path, wanted, n_columns - 1);
}

// --- rows ---

static EsStatus reserve_row(Table *t) {
    size_t D = (size_t)t->n_columns - 1;
    if (t->n_rows < t->rows_capacity) {
        return ES_STATUS_OK;
    }
    int64_t capacity = ES_MAX(2 * t->rows_capacity, 256);
    size_t before = (size_t)t->rows_capacity, after = (size_t)capacity;
    ES_TRY(es_reallocate((void **)&t->values, before * D * sizeof *t->values,
                         after * D * sizeof *t->values));
    ES_TRY(
        es_reallocate((void **)&t->labels, before * sizeof *t->labels, after * sizeof *t->labels));
    ES_TRY(
        es_reallocate((void **)&t->splits, before * sizeof *t->splits, after * sizeof *t->splits));
    t->rows_capacity = capacity;
    return ES_STATUS_OK;
}

// The record at hand of a split's file.
static EsStatus add_row(Table *t, int split) {
    ES_TRY(reserve_row(t));
    float *to = t->values + (size_t)t->n_rows * ((size_t)t->n_columns - 1);
    for (int i = 0; i < t->n_columns; i++) {
        const char *name = t->header != NULL ? t->header[i] : NULL;
        if (i == t->label) {
            ES_TRY(es_csv_field(&t->csv[split], i, name, &t->labels[t->n_rows]));
        } else {
            ES_TRY(es_csv_number(&t->csv[split], i, name, to++));
        }
    }
    t->splits[t->n_rows++] = (uint8_t)split;
    return ES_STATUS_OK;
}

// Columns and label by the first record of the training file, which may be a header.
static EsStatus set_columns(Table *t, const char *wanted) {
    const EsCsvText *csv = &t->csv[0];
    if (csv->n_columns < 2) {
        return ES_FAIL(INPUT, "%s: one column, expected numbers and a label", csv->path);
    }
    t->n_columns = csv->n_columns;
    ES_TRY(find_label(t, csv, wanted));
    return es_csv_is_header(csv, t->label)
               ? es_names_copy((const char *const *)csv->fields, csv->n_fields, &t->header)
               : ES_STATUS_OK;
}

// The first record of another file: the same columns, named the same where they are.
static EsStatus check_columns(const Table *t, const EsCsvText *csv) {
    const char *first = t->csv[0].path;
    if (csv->n_columns != t->n_columns) {
        return ES_FAIL(INPUT, "%s: %d columns, expected %d as in %s", csv->path, csv->n_columns,
                       t->n_columns, first);
    }
    if (es_csv_is_header(csv, t->label) != (t->header != NULL)) {
        return ES_FAIL(INPUT, "%s: the columns have %snames, unlike those of %s", csv->path,
                       t->header != NULL ? "no " : "", first);
    }
    for (int i = 0; t->header != NULL && i < t->n_columns; i++) {
        if (strcmp(csv->fields[i], t->header[i]) != 0) {
            return ES_FAIL(INPUT, "%s: column %d is \"%.60s\", expected \"%.60s\" as in %s",
                           csv->path, i, csv->fields[i], t->header[i], first);
        }
    }
    return ES_STATUS_OK;
}

static EsStatus read_rows(Table *t, int split, const char *wanted) {
    EsCsvText *csv = &t->csv[split];
    int64_t n_before = t->n_rows;
    int is_end = 0;
    ES_TRY(es_csv_next(csv, &is_end));
    if (is_end) {
        return ES_FAIL(INPUT, "%s: empty, expected rows of numbers with a label", csv->path);
    }
    ES_TRY(split == 0 ? set_columns(t, wanted) : check_columns(t, csv));
    if (t->header == NULL) {
        ES_TRY(add_row(t, split));
    }
    for (;;) {
        ES_TRY(es_csv_next(csv, &is_end));
        if (is_end) {
            break;
        }
        ES_TRY(add_row(t, split));
    }
    return t->n_rows > n_before ? ES_STATUS_OK
                                : ES_FAIL(INPUT, "%s: a header and no rows", csv->path);
}

// --- the data set ---

// Names of the columns without that of the label.
static EsStatus keep_names(EsDataset *dataset, const Table *t) {
    const char **names = NULL;
    int n = 0;
    ES_TRY(es_allocate((size_t)t->n_columns * sizeof *names, (void **)&names));
    for (int i = 0; i < t->n_columns; i++) {
        if (i != t->label) {
            names[n++] = t->header[i];
        }
    }
    EsStatus status = es_names_copy(names, n, &dataset->column_names);
    es_release(names);
    return status;
}

static EsStatus build_dataset(EsDataset *dataset, const Table *t, const EsDatasetOptions *options) {
    EsStatus status = ES_STATUS_OK;
    uint16_t *labels = NULL;
    const char *const *class_names = NULL;
    int64_t *order = NULL, counts[3];
    int n_classes = 0, D = t->n_columns - 1;
    char name[ES_DATASET_NAME_BYTES];
    es_dataset_name_of(t->path, name);
    ES_TRY_GOTO(
        es_dataset_number_labels(t->path, t->labels, t->n_rows, &labels, &class_names, &n_classes));
    ES_TRY_GOTO(es_dataset_share_out(options, t->path, labels, t->splits, t->n_rows, n_classes,
                                     class_names, &order, counts));
    ES_TRY_GOTO(es_dataset_allocate_rows(dataset, name, D, n_classes, counts));
    for (int64_t i = 0; i < t->n_rows; i++) {
        memcpy(dataset->rows + i * D, t->values + order[i] * D, dataset->image_bytes);
        dataset->labels[i] = labels[order[i]];
    }
    dataset->class_names = class_names;
    class_names = NULL;
    if (t->header != NULL) {
        ES_TRY_GOTO(keep_names(dataset, t));
    }
    es_dataset_normalise_rows(dataset);
done:
    es_release(labels);
    es_release(order);
    es_release((void *)(uintptr_t)class_names);
    if (status != ES_STATUS_OK) {
        es_dataset_destroy(dataset);
    }
    return status;
}

EsStatus es_dataset_load_csv(EsDataset *dataset, const char *path, const char *const files[3],
                             const EsDatasetOptions *options) {
    EsStatus status = ES_STATUS_OK;
    Table t = {.path = path};
    memset(dataset, 0, sizeof *dataset);
    for (int split = 0; split < 3; split++) {
        if (files[split] != NULL) {
            ES_TRY_GOTO(es_csv_open(&t.csv[split], files[split]));
            ES_TRY_GOTO(read_rows(&t, split, options->label));
        }
    }
    ES_TRY_GOTO(build_dataset(dataset, &t, options));
done:
    es_release((void *)(uintptr_t)t.header);
    es_release(t.values);
    es_release(t.labels);
    es_release(t.splits);
    for (int split = 0; split < 3; split++) {
        es_csv_close(&t.csv[split]);
    }
    return status;
}
