// Rows of a result for people and programs: an aligned table, JSON or CSV.
//
// JSON is an array of objects (a name that comes twice gets a number); CSV is RFC 4180 with a line
// of names, NULL empty and an empty text as "". A table aligns by its first 1,000 rows, numbers to
// the right, NULL as "-"; later rows are printed as they come.
//
//     EsResultWriter *writer;
//     ES_TRY(es_result_writer_create(stdout, ES_RESULT_TABLE, 0, names, 2, &writer));
//     EsResultCell cells[2] = {{.kind = ES_RESULT_INT, .integer = 3}, {.kind = ES_RESULT_NULL}};
//     ES_TRY_GOTO(es_result_writer_add(writer, cells));
//     status = es_result_writer_finish(writer);
//     done: es_result_writer_destroy(writer);
#ifndef ES_PROGRAMS_RESULT_WRITER_H
#define ES_PROGRAMS_RESULT_WRITER_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "esper/status.h"

typedef enum EsResultFormat { ES_RESULT_TABLE, ES_RESULT_JSON, ES_RESULT_CSV } EsResultFormat;

typedef enum EsResultKind {
    ES_RESULT_NULL,
    ES_RESULT_INT,
    ES_RESULT_REAL,
    ES_RESULT_TEXT,
    ES_RESULT_BLOB // printed as hexadecimal digits
} EsResultKind;

typedef struct EsResultCell {
    EsResultKind kind;
    int64_t integer;
    double real;
    const void *bytes; // TEXT, BLOB; borrowed for the call
    size_t n_bytes;
} EsResultCell;

typedef struct EsResultWriter EsResultWriter;

// `width` is the most columns a line of a table may have, 0 for any: texts are cut to fit, and to
// 100 columns where they are not alone in their row. JSON and CSV cut nothing. Names are borrowed
// until the end.
EsStatus es_result_writer_create(FILE *stream, EsResultFormat format, int width,
                                 const char *const *names, int n_columns, EsResultWriter **writer);

// One row, a cell per name.
EsStatus es_result_writer_add(EsResultWriter *writer, const EsResultCell *cells);

// Writes the rows still held back and the end of the result.
EsStatus es_result_writer_finish(EsResultWriter *writer);

// Accepts NULL; an unfinished result stays unfinished.
void es_result_writer_destroy(EsResultWriter *writer);

#endif
