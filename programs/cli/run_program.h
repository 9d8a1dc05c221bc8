// The frame of a command that trains: opens the run, builds its work within the memory that is
// there, then either prints the plan of a dry run or trains its rounds and prints the results.
//
//     static const EsRunProgram program = {.name = "hosts", .create = create_hosts, ...};
//     EsRunInput input = {&command, &config, &settings.run, &settings.n_envs, as_json};
//     EsProgramRun run = es_run_program_begin(&program, &input);
//     if (run.is_started) {
//         run.status = es_run_rounds(run.session.run, &run.rounds);
//     }
//     return es_run_program_end(&run);
#ifndef ES_PROGRAMS_RUN_PROGRAM_H
#define ES_PROGRAMS_RUN_PROGRAM_H

#include "cli/run_command.h"
#include "cli/run_memory.h"

// of the text that a run begins with
#define ES_RUN_ABOUT_BYTES 4096

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
    // Fills in settings that follow from the work, before it starts or its plan is printed; NULL:
    // none do.
    EsStatus (*choose)(void *work, void *settings);
    EsRunWork (*rounds)(void *work);
    // Describes its data, printed when a new run starts.
    void (*describe)(void *work, const void *settings, char text[ES_RUN_ABOUT_BYTES]);
    EsStatus (*print_plan)(void *work, const EsConfig *config, const EsRunMemory *memory);
    EsStatus (*print_results)(void *work, const EsRunInput *input, const char *folder);
    void (*print_unsaved)(void *work, const EsRunInput *input); // NULL: nothing; after IO
    void (*print_stopped)(void *work, const char *folder); // NULL: nothing; after Ctrl-C, to stderr
    // SHA-256 of its data, which all ranks must have alike; NULL: it runs in one process.
    const char *(*input_hash)(void *work);
} EsRunProgram;

// A command between its two halves.
typedef struct EsProgramRun {
    const EsRunProgram *program; // borrowed
    const EsRunInput *input;     // borrowed
    void *work;                  // owned; NULL until it is made
    EsRunSession session;
    EsRunWork rounds; // of es_run_rounds, where it is_started
    int is_started;   // 0 in a dry run, and after a failure
    EsStatus status;
} EsProgramRun;

// Opens the run, builds its work, and starts it or prints the plan. A program with an input_hash
// joins the ranks that mpirun has started, once in a process; those that differ in build, machine,
// settings or data are refused.
EsProgramRun es_run_program_begin(const EsRunProgram *program, const EsRunInput *input);

// Closes the run; its work stays for its results.
void es_run_program_close(EsProgramRun *run);

// Closes the run, prints the results and destroys the work. Returns the command's exit code. Where
// one of several ranks has failed alone it ends them all, after its message, and does not return.
EsExit es_run_program_end(EsProgramRun *run);

#endif
