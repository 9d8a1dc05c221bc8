// The order of a command that trains, the same for every program: open, create, then plan or
// start, rounds, close and results.
#include "cli/run_program.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "esper/log.h"
#include "esper/version.h"
#include "tensor/device.h"

// --- ranks ---

static EsStatus join_ranks(EsProgramRun *run) {
    const EsRunInput *input = run->input;
    int n_launched = es_ranks_launched();
    if (input->command->has_ranks) {
        return ES_STATUS_OK;
    }
    if (run->program->input_hash == NULL || input->command->is_further) {
        return n_launched == 1
                   ? ES_STATUS_OK
                   : ES_FAIL(UNSUPPORTED,
                             "%d processes were started together, and this command runs in one",
                             n_launched);
    }
    ES_TRY(es_ranks_open(&input->run->ranks));
    if (es_ranks_count(input->run->ranks) > 1 && input->command->is_dry_run) {
        return ES_FAIL(ARGUMENT, "--dry-run describes the work of one process; leave mpirun out");
    }
    if (es_ranks_number(input->run->ranks) > 0) { // rank 0 speaks for all
        es_log_set_handler(es_message_log, NULL, ES_LOG_ERROR);
    }
    return ES_STATUS_OK;
}

// Version, compiler, and the vector width, on which bits depend.
static EsStatus describe_build(char text[160]) {
    EsDevice *cpu = NULL;
    ES_TRY(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &cpu));
    snprintf(text, 160, "esper %s %.40s, %.60s, vectors of %d", ES_VERSION, es_build_commit(),
             es_build_compiler(), es_device_info(cpu)->n_lanes);
    es_device_close(cpu);
    return ES_STATUS_OK;
}

// Refuses ranks that would not compute the same.
static EsStatus agree(EsProgramRun *run) {
    const EsRunInput *input = run->input;
    char build[160], *settings = NULL;
    size_t settings_bytes = 0;
    if (es_ranks_count(input->run->ranks) == 1) {
        return ES_STATUS_OK;
    }
    ES_TRY(describe_build(build));
    FILE *stream = open_memstream(&settings, &settings_bytes);
    if (stream == NULL) {
        return ES_FAIL(MEMORY, "no memory for the configuration's text");
    }
    EsStatus status = es_config_print(input->config, stream);
    EsStatus closed = es_memory_stream_close(stream, &settings);
    status = status == ES_STATUS_OK ? closed : status;
    const EsRankFact facts[] = {
        {"build", build}, {"settings", settings}, {"data", run->program->input_hash(run->work)}};
    if (status == ES_STATUS_OK) {
        status = es_ranks_agree(input->run->ranks, facts, ES_COUNT_OF(facts));
    }
    free(settings);
    return status;
}

// Ends all ranks unless the end is one that they have in common: the others wait for what will not
// come. After a failed transfer MPI still has the buffers of the work, which must not be freed.
static void abort_ranks(const EsProgramRun *run, EsExit code) {
    EsRanks *ranks = run->input->run->ranks;
    int is_orderly = run->status == ES_STATUS_OK || run->status == ES_STATUS_INTERRUPTED ||
                     es_ranks_differ(ranks);
    if (es_ranks_count(ranks) > 1 && (!is_orderly || es_ranks_status(ranks) != ES_STATUS_OK)) {
        es_ranks_abort(ranks, (int)code);
    }
}

static EsExit leave_ranks(EsProgramRun *run, EsExit code) {
    EsRanks *ranks = run->input->run->ranks;
    int is_first = es_ranks_number(ranks) == 0;
    if (!run->input->command->has_ranks) {
        es_ranks_close(ranks);
    }
    run->input->run->ranks = NULL;
    return is_first ? code : ES_EXIT_DONE; // a launcher takes any other for a crash
}

// --- the order ---

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
    ES_TRY(join_ranks(run));
    ES_TRY(es_run_command_open(input->command, input->config, input->run, &run->session));
    ES_TRY(es_run_memory_create(&maker, &run->work, &memory));
    ES_TRY(agree(run)); // first: choosing may take all ranks
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
    int is_first = es_ranks_number(run->input->run->ranks) == 0;
    int has_run = run->work != NULL && !run->input->command->is_dry_run && is_first;
    if (run->status == ES_STATUS_OK && has_run) {
        run->status = program->print_results(run->work, run->input, run->session.folder);
    } else if (run->status == ES_STATUS_IO && has_run && program->print_unsaved != NULL) {
        program->print_unsaved(run->work, run->input);
    } else if (run->status == ES_STATUS_INTERRUPTED && has_run && program->print_stopped != NULL) {
        program->print_stopped(run->work, run->session.folder);
    }
    int is_silent = !is_first && (es_ranks_differ(run->input->run->ranks) ||
                                  run->status == ES_STATUS_INTERRUPTED);
    EsExit code = is_silent
                      ? ES_EXIT_DONE
                      : es_run_command_finish(program->name, run->status, &run->session.outcome);
    abort_ranks(run, code);
    program->destroy(run->work);
    return leave_ranks(run, code);
}
