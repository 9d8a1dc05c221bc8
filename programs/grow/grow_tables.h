// Output of `esper grow`: the hosts of the last round, the comparison of policies, and the same
// over several seeds; as tables and as JSON.
#ifndef ES_PROGRAMS_GROW_TABLES_H
#define ES_PROGRAMS_GROW_TABLES_H

#include <jansson.h>

#include "runs/grow/grow_run.h"

#define ES_VARIANT_LABEL_BYTES sizeof(((EsGrowVariant *)0)->name)

// Writes the name of a policy in a table: names as they are, files by the shortest end of their
// path that no other policy of the comparison has. Returns `label`.
//
//     /tmp/a/checkpoints/93/policy.safetensors   93/policy.safetensors
//     /tmp/a/checkpoints/90/policy.safetensors   90/policy.safetensors
//     script:plans/early.txt                     script:early.txt
const char *es_variant_label(const EsGrowEvaluation *evaluation, int variant,
                             char label[ES_VARIANT_LABEL_BYTES]);

// At most 16 hosts; the others are counted.
void es_grow_print_hosts(const EsGrowEnding *endings, const EsGrowSettings *settings,
                         int64_t n_host_parameters);
json_t *es_grow_hosts_json(const EsGrowEnding *endings, int n_envs);

void es_grow_print_evaluation(const EsGrowEvaluation *evaluation, int seed);

// The means of each seed's comparison, and Student's intervals over the seeds. Evaluations [n] have
// the same variants.
void es_grow_print_seeds(EsGrowEvaluation *const *evaluations, int n, int first_seed);
json_t *es_grow_seeds_json(EsGrowEvaluation *const *evaluations, int n, int first_seed);

#define ES_GROW_EXECUTION_BYTES 640

// Describes how the runner's hosts compute: the number type and the reason for it, and what runs
// them, with the reason where it is not the fastest.
const char *es_grow_describe_execution(const EsGrowSettings *settings,
                                       const EsEpisodeRunner *runner,
                                       char text[ES_GROW_EXECUTION_BYTES]);

#endif
