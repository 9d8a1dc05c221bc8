// JSON without silent losses when memory is short.
//
// jansson answers NULL both where memory is short and where a text is not UTF-8, its parser drops
// characters of a token whose buffer cannot grow, or aborts, and values are built by many calls
// that are not checked one by one. So the allocations themselves are watched, from the program's
// start: one that failed is remembered for its thread until it is asked for. Build a value as you
// like, then hand it to a function from here; it fails with MEMORY when a part may be missing.
//
//     json_t *root = json_object();
//     json_object_set_new(root, "name", json_string(name));
//     ES_TRY(es_json_write(root, JSON_INDENT(2), stdout));
#ifndef ES_BASE_JSON_H
#define ES_BASE_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#include "esper/status.h"

// Returns whether an allocation of jansson failed in this thread since the last call. For code that
// has to know why a call of jansson failed.
int es_json_lacked_memory(void);

// Read the text; json_decref the value. MEMORY, or INPUT with "NAME:LINE: REASON" as the detail;
// `error` then has jansson's reason and position.
EsStatus es_json_parse(const char *name, const char *text, size_t bytes, json_t **value,
                       json_error_t *error);

// The same for a whole file. One that cannot be read is INPUT as well.
EsStatus es_json_load(const char *path, json_t **value);

// Text of the value, which is taken over and may be NULL; free() it. `name` says in a message which
// value failed.
EsStatus es_json_dump(const char *name, json_t *value, size_t flags, char **text);

// Write the text and a line's end; takes over the value, which may be NULL. Nothing is written
// unless all of it is there.
EsStatus es_json_write(json_t *value, size_t flags, FILE *stream);

// A new number; NaN and the infinities, which JSON does not have, become null.
json_t *es_json_number(double value);

#endif
