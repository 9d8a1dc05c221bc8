// The ways of `esper grow`: one run (grow.c); --repeat N (grow_repeat.c): the same with N seeds,
// each in a folder of its own, and a table over them; --sweep (grow_sweep_command.c): variants of
// its settings, and a table of them.
#ifndef ES_PROGRAMS_GROW_COMMAND_H
#define ES_PROGRAMS_GROW_COMMAND_H

#include "cli/run_program.h"
#include "runs/grow/grow_run.h"

// --- one run ---

extern const EsRunProgram es_grow_program;

// --- several seeds ---

// Returns whether --repeat wrote the folder: it has runs seed-<n>, and is none itself.
int es_grow_is_repeat_folder(const char *path);

// Runs OUT/seed-<n>, and OUT/seeds.json with the table over them when all are done. With --resume
// OUT those that are there go on where they were, finished ones give their results, and missing
// ones are begun.
EsExit cmd_grow_repeat(const EsRunCommand *command, const EsOptionTable *table,
                       const EsArguments *arguments, int n_repeats, int as_json);

// The outcome of several runs after one more: its own, with the losses of all.
void es_grow_join_outcome(EsRunOutcome *all, const EsRunOutcome *last);

// --- several settings ---

// Returns whether --sweep wrote the folder as runs of their own: it has variant-1, and is no run.
int es_grow_is_sweep_folder(const char *path);

// Runs the variants of the --sweep options and prints the table of them: as one run in OUT, or as
// OUT/variant-<n> with OUT/sweep.json and OUT/run.db over them. With --resume OUT and the same
// options it goes on.
EsExit cmd_grow_sweep(const EsRunCommand *command, const EsOptionTable *table,
                      const EsArguments *arguments, const EsOptionList *list, int as_json);

#endif
