#include "cli/command.h"

#include <stdio.h>

#include "cli/message.h"

EsExit es_command_finish(const char *command, EsStatus status) {
    if (status == ES_STATUS_OK) {
        return ES_EXIT_DONE;
    }
    const char *space = command[0] != '\0' ? " " : "";
    fflush(stdout);
    es_message("esper%s%s: %s\n", space, command,
               es_status_detail()[0] != '\0' ? es_status_detail() : es_status_message(status));
    switch (status) {
    case ES_STATUS_ARGUMENT:
        es_message("try: esper%s%s --help\n", space, command);
        return ES_EXIT_USAGE;
    case ES_STATUS_CONFIG:
    case ES_STATUS_INPUT:
    case ES_STATUS_UNSUPPORTED:
        return ES_EXIT_USAGE;
    case ES_STATUS_INTERRUPTED:
        return ES_EXIT_INTERRUPTED;
    default:
        return ES_EXIT_FAILED;
    }
}
