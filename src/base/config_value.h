// One configuration value: text to field and back. Shared by the files that implement
// esper/config.h.
#ifndef ES_BASE_CONFIG_VALUE_H
#define ES_BASE_CONFIG_VALUE_H

#include "base/macros.h"
#include "esper/config.h"

ES_EXTERN_C_BEGIN

// inih reads lines into 200 bytes; "key = value" must fit with some bytes to spare.
#define ES_CONFIG_LINE_BYTES 190

// room for any value that passes es_config_value_parse
#define ES_CONFIG_VALUE_BYTES 256

// Parse `text` into the key's field of `settings`. CONFIG, starting with "where: [section] key: ",
// or with "where: " alone when that is an option ("--rounds"), when it is not a value of this key;
// the field is then unchanged.
EsStatus es_config_value_parse(const EsConfigKey *key, void *settings, const char *text,
                               const char *where);

// Spell the key's field so that es_config_value_parse gives the same bits.
void es_config_value_format(const EsConfigKey *key, const void *settings,
                            char text[ES_CONFIG_VALUE_BYTES]);

// A bound as people write it: 1000000000, not 1e+09. Returns `text`.
const char *es_config_bound_format(double bound, char text[32]);

ES_EXTERN_C_END

#endif
