// The order of a command that trains, the same for every program: open, create, then plan or
// start, rounds, close and results.
#include "cli/run_program.h"

static EsStatus start(const EsRunProgram *program, const EsRunInput *input, void *work,
                      EsRunSession *session) {
    const EsRunCommand *command = input->command;
    char text[ES_RUN_ABOUT_BYTES] = "";
    int is_known = command->resume != NULL || command->is_further;
    if (!is_known) {
        program->describe(work, input->config->settings, text);
    }
    return es_run_command_start(command, input->run, is_known ? NULL : text, session);
}

EsStatus es_run_program_train(const EsRunProgram *program, const EsRunInput *input, void **work,
                              EsRunSession *session) {
    const EsRunCommand *command = input->command;
    EsRunMemory memory;
    EsRunMaker maker = {.settings = input->config->settings,
                        .n_envs = input->n_envs,
                        .create = program->create,
                        .destroy = program->destroy,
                        .find_need = program->find_need,
                        .run_need = es_run_need(input->run, !command->is_quiet),
                        .smaller = program->smaller};
    *work = NULL;
    EsStatus status = es_run_command_open(command, input->config, input->run, session);
    if (status == ES_STATUS_OK) {
        status = es_run_memory_create(&maker, work, &memory);
    }
    if (status == ES_STATUS_OK && command->is_dry_run) {
        status = program->print_plan(*work, input->config, &memory);
    } else if (status == ES_STATUS_OK) {
        status = start(program, input, *work, session);
        if (status == ES_STATUS_OK) {
            EsRunWork rounds = program->rounds(*work);
            status = es_run_rounds(session->run, &rounds);
        }
    }
    return es_run_command_close(session, status);
}

EsExit es_run_program(const EsRunProgram *program, const EsRunInput *input) {
    void *work = NULL;
    EsRunSession session;
    EsStatus status = es_run_program_train(program, input, &work, &session);
    int has_run = work != NULL && !input->command->is_dry_run;
    if (status == ES_STATUS_OK && has_run) {
        status = program->print_results(work, input, session.folder);
    } else if (status == ES_STATUS_IO && has_run && program->print_unsaved != NULL) {
        program->print_unsaved(work, input);
    }
    program->destroy(work);
    return es_run_command_finish(program->name, status, &session.outcome);
}
