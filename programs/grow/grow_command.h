// The parts of `esper grow`: one run (grow.c), and --repeat N (grow_repeat.c): the same run with N
// seeds, each in a folder of its own, and a table over them.
#ifndef ES_PROGRAMS_GROW_COMMAND_H
#define ES_PROGRAMS_GROW_COMMAND_H

#include "cli/run_command.h"
#include "cli/run_memory.h"
#include "runs/grow/grow_run.h"

// --- one run ---

// Builds the work of a run within the memory that is there; `memory` is nullable.
EsStatus es_grow_command_create(const EsRunCommand *command, EsGrowSettings *settings,
                                EsGrowRun **grow, EsRunMemory *memory);

// Starts the session, which is open, and prints what it will run on.
EsStatus es_grow_command_start(const EsRunCommand *command, const EsGrowSettings *settings,
                               EsGrowRun *grow, EsRunSession *session);

// --- several seeds ---

// Whether the folder has runs seed-<n>, and is none itself.
int es_grow_repeat_has(const char *root);

// Runs OUT/seed-<n>, and OUT/seeds.json with the table over them when all are done. With --resume
// OUT those that are there go on where they were, finished ones give their results, and missing
// ones are begun.
EsExit es_grow_repeat(const EsRunCommand *command, const EsOptionTable *table,
                      const EsArguments *arguments, int n_repeats, int as_json);

#endif
