// `esper grow --repeat N`: the same run with N seeds, each in a folder of its own, and a table over
// them.
#ifndef ES_PROGRAMS_GROW_REPEAT_H
#define ES_PROGRAMS_GROW_REPEAT_H

#include "cli/run_command.h"
#include "cli/run_memory.h"
#include "runs/grow/grow_run.h"

// Create a run within the memory that is there; `memory` is nullable.
EsStatus es_grow_create_run(EsGrowSettings *settings, EsGrowRun **grow, EsRunMemory *memory);

// Play one run in the folder that the command names.
EsStatus es_grow_play_run(const EsRunCommand *command, const EsConfig *config, EsGrowRun *grow,
                          EsRunPlayed *played);

// Whether the folder has runs seed-<n>, and is none itself.
int es_grow_repeat_has(const char *root);

// Runs OUT/seed-<n>, and OUT/seeds.json with the table over them when all are done. With --resume
// OUT those that are there go on where they were, finished ones tell what they have, and missing
// ones are begun.
EsExit es_grow_repeat(const EsRunCommand *command, const EsOptionTable *table,
                      const EsArguments *arguments, int n_repeats, int as_json);

#endif
