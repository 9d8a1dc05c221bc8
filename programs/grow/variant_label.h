// What a policy is called in a table: names as they are, files by the shortest end of their path
// that no other policy of the comparison has.
//
//     /tmp/a/checkpoints/93/policy.safetensors   93/policy.safetensors
//     /tmp/a/checkpoints/90/policy.safetensors   90/policy.safetensors
//     script:plans/early.txt                     script:early.txt
#ifndef ES_PROGRAMS_VARIANT_LABEL_H
#define ES_PROGRAMS_VARIANT_LABEL_H

#include "runs/grow/grow_evaluate.h"

#define ES_VARIANT_LABEL_BYTES sizeof(((EsGrowVariant *)0)->name)

// Returns `label`.
const char *es_variant_label(const EsGrowEvaluation *evaluation, int variant,
                             char label[ES_VARIANT_LABEL_BYTES]);

#endif
