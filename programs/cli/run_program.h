// The frame of a command that trains: opens the run, builds its work within the memory that is
// there, then either prints the plan of a dry run or trains its rounds and prints the results.
//
//     static const EsRunProgram program = {.name = "hosts", .create = create_hosts, ...};
//     EsRunInput input = {&command, &config, &settings.run, &settings.n_envs, as_json};
//     return es_run_program(&program, &input);
#ifndef ES_PROGRAMS_RUN_PROGRAM_H
#define ES_PROGRAMS_RUN_PROGRAM_H

#include "cli/run_command.h"
#include "cli/run_memory.h"

// of the text that a run begins with
#define ES_RUN_ABOUT_BYTES 768

// A command line that was understood; everything is borrowed.
typedef struct EsRunInput {
    const EsRunCommand *command;
    const EsConfig *config; // its settings are the program's own
    EsRunSettings *run;     // among them
    int *n_envs;            // likewise
    int as_json;
} EsRunInput;

// The parts of a command that trains. `work` is made by create, NULL until then.
typedef struct EsRunProgram {
    const char *name;    // of the command, in messages
    const char *smaller; // another way to less memory: "a smaller --batch"
    EsStatus (*create)(const void *settings, void **work);
    void (*destroy)(void *work);                        // accepts NULL
    EsStatus (*find_need)(void *work, EsRunNeed *need); // memory beside it; NULL: none
    EsRunWork (*rounds)(void *work);
    // Describes its data, printed when a new run starts.
    void (*describe)(void *work, const void *settings, char text[ES_RUN_ABOUT_BYTES]);
    EsStatus (*print_plan)(void *work, const EsConfig *config, const EsRunMemory *memory);
    EsStatus (*print_results)(void *work, const EsRunInput *input, const char *folder);
    void (*print_unsaved)(void *work, const EsRunInput *input); // NULL: nothing; after IO
} EsRunProgram;

// Opens, creates, runs and closes, or prints the plan. The work stays for its results, after a
// failure too; the caller destroys it.
EsStatus es_run_program_train(const EsRunProgram *program, const EsRunInput *input, void **work,
                              EsRunSession *session);

// All of it, with the results. Returns the command's exit code.
EsExit es_run_program(const EsRunProgram *program, const EsRunInput *input);

#endif
