// Taking lines out of an events.jsonl: what a resumed run will write again, and a torn end.
#ifndef ES_TELEMETRY_JSONL_TRIM_H
#define ES_TELEMETRY_JSONL_TRIM_H

#include <stdint.h>

#include "esper/status.h"

// Remove the lines of rounds above `last_round` (negative: none) and what follows the last newline.
// Lines that this program did not write are kept. The file is replaced through a temporary, or left
// untouched when there is nothing to remove; it may be of any size, and missing.
EsStatus es_jsonl_trim(const char *path, int64_t last_round);

#endif
