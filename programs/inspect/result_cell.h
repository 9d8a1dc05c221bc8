// One cell of a result as text, in each of the formats of result_writer.h.
#ifndef ES_PROGRAMS_RESULT_CELL_H
#define ES_PROGRAMS_RESULT_CELL_H

#include "inspect/result_writer.h"
#include "telemetry/text.h"

// For people: six digits of a real, NULL as "-", nothing that would move a cursor.
void es_result_cell_add_table(EsText *text, const EsResultCell *cell);

// A JSON value; infinities and NaN as strings, since JSON has none.
void es_result_cell_add_json(EsText *text, const EsResultCell *cell);

// A field of RFC 4180; a text is quoted where it must be, and when it is empty.
void es_result_cell_add_csv(EsText *text, const EsResultCell *cell);
void es_result_cell_add_csv_text(EsText *text, const char *bytes, size_t n_bytes);

#endif
