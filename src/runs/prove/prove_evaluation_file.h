// A comparison of a run of kind "prove" as JSON: evaluation.json of its folder, and what --json
// prints. It says of which weights it is, so that a finished run that is resumed tells what it has
// and ranks nothing again.
//
//     ES_TRY(es_prove_evaluation_take(path, &wanted, &evaluation, &is_taken));
//     if (!is_taken) {
//         ... rank, then es_prove_evaluation_save(&evaluation, path)
//     }
#ifndef ES_RUNS_PROVE_EVALUATION_FILE_H
#define ES_RUNS_PROVE_EVALUATION_FILE_H

#include <jansson.h>

#include "runs/prove/prove_evaluate.h"

// Equal runs have equal bytes but for the times ("seconds" of each arm). The caller owns it; NULL
// without memory.
json_t *es_prove_evaluation_json(const EsProveEvaluation *evaluation);

// Written atomically, every number with all its bits.
EsStatus es_prove_evaluation_save(const EsProveEvaluation *evaluation, const char *path);

// What the file does not have is missing (seconds) or 0 (the scorers' further counts); null is NaN.
// INPUT names what is wrong.
EsStatus es_prove_evaluation_load(const char *path, EsProveEvaluation *evaluation);

// Whether the file has the comparison that is wanted: after as many rounds, with the same last
// weights, of as many queries and corruptions. Then it is loaded. A file that cannot be used is
// warned of; one that is not there is not. Fails with MEMORY alone.
EsStatus es_prove_evaluation_take(const char *path, const EsProveEvaluation *wanted,
                                  EsProveEvaluation *evaluation, int *is_taken);

#endif
