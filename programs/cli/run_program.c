// The order of a command that trains, the same for every program: open, create, then plan or
// start, rounds, close and results.
#include "cli/run_program.h"

static EsStatus start(EsProgramRun *run) {
    const EsRunCommand *command = run->input->command;
    char text[ES_RUN_ABOUT_BYTES] = "";
    int is_known = command->resume != NULL || command->is_further;
    if (!is_known) {
        run->program->describe(run->work, run->input->config->settings, text);
    }
    return es_run_command_start(command, run->input->run, is_known ? NULL : text, &run->session);
}

static EsStatus begin(EsProgramRun *run) {
    const EsRunProgram *program = run->program;
    const EsRunInput *input = run->input;
    EsRunMemory memory;
    EsRunMaker maker = {.settings = input->config->settings,
                        .n_envs = input->n_envs,
                        .create = program->create,
                        .destroy = program->destroy,
                        .find_need = program->find_need,
                        .run_need = es_run_need(input->run, !input->command->is_quiet),
                        .smaller = program->smaller};
    ES_TRY(es_run_command_open(input->command, input->config, input->run, &run->session));
    ES_TRY(es_run_memory_create(&maker, &run->work, &memory));
    if (program->choose != NULL) {
        ES_TRY(program->choose(run->work, input->config->settings));
    }
    if (input->command->is_dry_run) {
        return program->print_plan(run->work, input->config, &memory);
    }
    ES_TRY(start(run));
    run->rounds = program->rounds(run->work);
    run->is_started = 1;
    return ES_STATUS_OK;
}

EsProgramRun es_run_program_begin(const EsRunProgram *program, const EsRunInput *input) {
    EsProgramRun run = {.program = program, .input = input};
    run.status = begin(&run);
    return run;
}

void es_run_program_close(EsProgramRun *run) {
    run->status = es_run_command_close(&run->session, run->status);
}

EsExit es_run_program_end(EsProgramRun *run) {
    const EsRunProgram *program = run->program;
    es_run_program_close(run);
    int has_run = run->work != NULL && !run->input->command->is_dry_run;
    if (run->status == ES_STATUS_OK && has_run) {
        run->status = program->print_results(run->work, run->input, run->session.folder);
    } else if (run->status == ES_STATUS_IO && has_run && program->print_unsaved != NULL) {
        program->print_unsaved(run->work, run->input);
    } else if (run->status == ES_STATUS_INTERRUPTED && has_run && program->print_stopped != NULL) {
        program->print_stopped(run->work, run->session.folder);
    }
    program->destroy(run->work);
    return es_run_command_finish(program->name, run->status, &run->session.outcome);
}
