// Tables of numbers with a label column: values separated by commas, semicolons or tabs, fields in
// quotes where they hold one, a header or none.
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "data/dataset_internal.h"

#define MAX_FILE_BYTES ((size_t)4 << 30)

typedef struct Table {
    const char *path;
    char *text, *next, *end; // the file; records are cut into fields where they stand
    char separator;
    int64_t line;        // of `next`, from 1
    int64_t record_line; // where the record at hand begins
    char **fields;       // owned     [n_columns] of the record at hand
    int n_fields, fields_capacity;
    int n_columns; // label included
    int label;     // column of the label
    int has_header;
    float *values;       // owned   [n_rows, n_columns - 1]
    const char **labels; // owned   [n_rows], texts in `text`
    int64_t n_rows, rows_capacity;
} Table;

// --- records ---

static EsStatus add_field(Table *t, char *field) {
    if (t->n_fields == t->fields_capacity) {
        int capacity = ES_MAX(2 * t->fields_capacity, 64);
        if (t->n_fields > ES_DATASET_MAX_COLUMNS) {
            return ES_FAIL(INPUT, "%s: line %lld: more than %d columns", t->path,
                           (long long)t->record_line, ES_DATASET_MAX_COLUMNS);
        }
        ES_TRY(es_reallocate((void **)&t->fields, (size_t)t->fields_capacity * sizeof *t->fields,
                             (size_t)capacity * sizeof *t->fields));
        t->fields_capacity = capacity;
    }
    t->fields[t->n_fields++] = field;
    return ES_STATUS_OK;
}

// A field in quotes, `next` behind the first one: what is inside moves to the front, doubled quotes
// become one.
static EsStatus read_quoted(Table *t, char *to) {
    for (;;) {
        if (t->next == t->end) {
            return ES_FAIL(INPUT, "%s: line %lld: a quote is not closed", t->path,
                           (long long)t->record_line);
        }
        char c = *t->next++;
        if (c == '"' && t->next < t->end && *t->next == '"') {
            t->next++;
        } else if (c == '"') {
            break;
        }
        t->line += c == '\n';
        *to++ = c;
    }
    if (t->next < t->end && *t->next != t->separator && *t->next != '\n' && *t->next != '\r') {
        return ES_FAIL(INPUT, "%s: line %lld, column %d: text behind a closed quote", t->path,
                       (long long)t->line, t->n_fields);
    }
    *to = '\0';
    return ES_STATUS_OK;
}

// Cuts the next record into fields. *is_end: there is none. Empty lines are passed over.
static EsStatus read_record(Table *t, int *is_end) {
    while (t->next < t->end && (*t->next == '\n' || *t->next == '\r')) {
        t->line += *t->next++ == '\n';
    }
    *is_end = t->next == t->end;
    t->n_fields = 0;
    t->record_line = t->line;
    while (t->next < t->end || t->n_fields == 0) {
        if (*is_end) {
            return ES_STATUS_OK;
        }
        char *field = t->next;
        ES_TRY(add_field(t, field));
        if (*field == '"') {
            t->next++;
            ES_TRY(read_quoted(t, field));
        } else {
            while (t->next < t->end && *t->next != t->separator && *t->next != '\n' &&
                   *t->next != '\r') {
                t->next++;
            }
        }
        char stop = t->next < t->end ? *t->next : '\0';
        *t->next = '\0'; // a byte of the file, or the one behind it
        if (t->next < t->end) {
            t->next++;
        }
        if (stop != t->separator) {
            if (stop == '\r' && t->next < t->end && *t->next == '\n') {
                t->next++;
            }
            t->line += stop != '\0';
            return ES_STATUS_OK;
        }
        if (t->next == t->end) { // a separator ends the file: one more, empty
            return add_field(t, t->end);
        }
    }
    return ES_STATUS_OK;
}

// --- the first line ---

// The separator that the first line has most of, outside quotes.
static char find_separator(const Table *t) {
    static const char candidates[3] = {',', ';', '\t'};
    int64_t count[3] = {0, 0, 0};
    int is_quoted = 0;
    for (const char *c = t->next; c < t->end && (is_quoted || *c != '\n'); c++) {
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

// A finite decimal number: digits, point, sign, exponent, and nothing else.
static int parse_number(char *text, float *value) {
    text = trim(text);
    if (text[0] == '\0' || strspn(text, "0123456789+-.eE") != strlen(text)) {
        return 0;
    }
    char *end = NULL;
    double found = strtod(text, &end);
    *value = (float)found;
    return *end == '\0' && isfinite(*value);
}

static int find_column(const Table *t, const char *name) {
    for (int i = 0; i < t->n_fields; i++) {
        if (strcmp(trim(t->fields[i]), name) == 0) {
            return i;
        }
    }
    return -1;
}

// Which column the label is: by name, by number from 0, or the last.
static EsStatus find_label(Table *t, const char *wanted) {
    t->label = t->n_columns - 1;
    if (wanted == NULL || wanted[0] == '\0') {
        return ES_STATUS_OK;
    }
    t->label = find_column(t, wanted);
    char *end = NULL;
    long number = strtol(wanted, &end, 10);
    if (t->label < 0 && end != wanted && *end == '\0' && number >= 0 && number < t->n_columns) {
        t->label = (int)number;
    }
    return t->label >= 0 ? ES_STATUS_OK
                         : ES_FAIL(INPUT,
                                   "%s: no column is called \"%.100s\", and it is no number from 0 "
                                   "to %d",
                                   t->path, wanted, t->n_columns - 1);
}

// The first record names the columns when no field beside the label is a number and not all are
// empty.
static int is_header(const Table *t) {
    int n_named = 0;
    for (int i = 0; i < t->n_fields; i++) {
        float value;
        if (i != t->label && parse_number(t->fields[i], &value)) {
            return 0;
        }
        n_named += i != t->label && trim(t->fields[i])[0] != '\0';
    }
    return n_named > 0;
}

// --- rows ---

static EsStatus add_row(Table *t, const char *const *names) {
    if (t->n_fields != t->n_columns) {
        return ES_FAIL(INPUT, "%s: line %lld: %d columns, expected %d as in the first line",
                       t->path, (long long)t->record_line, t->n_fields, t->n_columns);
    }
    size_t D = (size_t)t->n_columns - 1;
    if (t->n_rows == t->rows_capacity) {
        int64_t capacity = ES_MAX(2 * t->rows_capacity, 256);
        size_t before = (size_t)t->rows_capacity, after = (size_t)capacity;
        ES_TRY(es_reallocate((void **)&t->values, before * D * sizeof *t->values,
                             after * D * sizeof *t->values));
        ES_TRY(es_reallocate((void **)&t->labels, before * sizeof *t->labels,
                             after * sizeof *t->labels));
        t->rows_capacity = capacity;
    }
    float *to = t->values + (size_t)t->n_rows * D;
    for (int i = 0; i < t->n_columns; i++) {
        char *text = trim(t->fields[i]);
        const char *name = names != NULL ? names[i] : "";
        if (text[0] == '\0') {
            return ES_FAIL(INPUT, "%s: line %lld, column %d%s%.60s: the value is missing", t->path,
                           (long long)t->record_line, i, name[0] != '\0' ? " " : "", name);
        }
        if (i == t->label) {
            t->labels[t->n_rows] = text;
        } else if (!parse_number(text, to++)) {
            return ES_FAIL(INPUT, "%s: line %lld, column %d%s%.60s: \"%.60s\" is no finite number",
                           t->path, (long long)t->record_line, i, name[0] != '\0' ? " " : "", name,
                           text);
        }
    }
    t->n_rows++;
    return ES_STATUS_OK;
}

static EsStatus read_rows(Table *t, const char *wanted, const char *const **header) {
    int is_end = 0;
    t->separator = find_separator(t);
    ES_TRY(read_record(t, &is_end));
    t->n_columns = t->n_fields;
    if (is_end || t->n_columns < 2) {
        return ES_FAIL(INPUT, "%s: %s", t->path,
                       is_end ? "empty, expected rows of numbers with a label"
                              : "one column, expected numbers and a label");
    }
    ES_TRY(find_label(t, wanted));
    t->has_header = is_header(t);
    if (t->has_header) {
        for (int i = 0; i < t->n_fields; i++) {
            t->fields[i] = trim(t->fields[i]);
        }
        ES_TRY(es_names_copy((const char *const *)t->fields, t->n_fields, header));
    } else {
        ES_TRY(add_row(t, NULL));
    }
    for (;;) {
        ES_TRY(read_record(t, &is_end));
        if (is_end) {
            break;
        }
        ES_TRY(add_row(t, *header));
    }
    return t->n_rows > 0 ? ES_STATUS_OK : ES_FAIL(INPUT, "%s: a header and no rows", t->path);
}

// --- the data set ---

// Names of the columns without that of the label.
static EsStatus keep_names(EsDataset *dataset, const Table *t, const char *const *header) {
    const char **names = NULL;
    int n = 0;
    ES_TRY(es_allocate((size_t)t->n_columns * sizeof *names, (void **)&names));
    for (int i = 0; i < t->n_columns; i++) {
        if (i != t->label) {
            names[n++] = header[i];
        }
    }
    EsStatus status = es_names_copy(names, n, &dataset->column_names);
    es_release(names);
    return status;
}

static EsStatus build_dataset(EsDataset *dataset, const Table *t, const EsDatasetOptions *options,
                              const char *const *header) {
    EsStatus status = ES_STATUS_OK;
    uint16_t *labels = NULL;
    const char *const *class_names = NULL;
    int64_t *order = NULL, counts[3];
    int n_classes = 0, D = t->n_columns - 1;
    char name[ES_DATASET_NAME_BYTES];
    es_dataset_name_of(t->path, name);
    ES_TRY_GOTO(
        es_dataset_number_labels(t->path, t->labels, t->n_rows, &labels, &class_names, &n_classes));
    ES_TRY_GOTO(es_dataset_share_out(options, t->path, labels, NULL, t->n_rows, n_classes,
                                     class_names, &order, counts));
    ES_TRY_GOTO(es_dataset_allocate_rows(dataset, name, D, n_classes, counts));
    for (int64_t i = 0; i < t->n_rows; i++) {
        memcpy(dataset->rows + i * D, t->values + order[i] * D, dataset->image_bytes);
        dataset->labels[i] = labels[order[i]];
    }
    dataset->class_names = class_names;
    class_names = NULL;
    if (header != NULL) {
        ES_TRY_GOTO(keep_names(dataset, t, header));
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

EsStatus es_dataset_load_csv(EsDataset *dataset, const char *path,
                             const EsDatasetOptions *options) {
    EsStatus status = ES_STATUS_OK;
    Table t = {.path = path, .line = 1};
    const char *const *header = NULL;
    size_t n_bytes = 0;
    memset(dataset, 0, sizeof *dataset);
    ES_TRY_GOTO(es_file_read_all(path, MAX_FILE_BYTES, (void **)&t.text, &n_bytes));
    t.next = t.text;
    t.end = t.text + n_bytes;
    if (n_bytes >= 3 && memcmp(t.text, "\xef\xbb\xbf", 3) == 0) {
        t.next += 3; // the mark that some programs put before UTF-8
    }
    const char *zero = memchr(t.next, 0, (size_t)(t.end - t.next));
    if (zero != NULL) {
        status = ES_FAIL(INPUT, "%s: a zero byte at offset %lld: no text file (UTF-16?)", path,
                         (long long)(zero - t.text));
        goto done;
    }
    ES_TRY_GOTO(read_rows(&t, options->label, &header));
    ES_TRY_GOTO(build_dataset(dataset, &t, options, header));
done:
    es_release((void *)(uintptr_t)header);
    es_release(t.fields);
    es_release(t.values);
    es_release(t.labels);
    es_release(t.text);
    return status;
}
