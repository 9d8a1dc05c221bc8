// `esper serve`: runs as a page in the browser, live while they are going on.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "cli/frame.h"
#include "cli/options.h"
#include "runs/stop_signal.h"
#include "view/page_server.h"

static EsStatus serve(const EsPageServerOptions *options) {
    EsPageServer *server = NULL;
    ES_TRY(es_stop_signal_begin(NULL, NULL));
    EsStatus status = es_page_server_start(options, &server);
    if (status == ES_STATUS_OK) {
        int is_six = strchr(options->address, ':') != NULL;
        es_print("http://%s%s%s:%d/\n", is_six ? "[" : "", options->address, is_six ? "]" : "",
                 es_page_server_port_taken(server));
        fflush(stdout);
        es_message("%d run%s; Ctrl-C ends\n", es_page_server_n_runs(server),
                   es_page_server_n_runs(server) == 1 ? "" : "s");
        while (es_stop_signal_time_ns() == 0) {
            usleep(100000); // a signal ends it early
        }
    }
    if (!es_page_server_stop(server)) {
        fflush(NULL);
        _exit((int)es_command_finish("serve", status));
    }
    es_stop_signal_end();
    return status;
}

static void print_more(void) {
    printf(
        "\nThe page shows learning curves with intervals over seeds, the network as it grows with "
        "a\n"
        "slider over its steps, environments, decisions, rewards, the policy's health, anomalies,\n"
        "speed, the rails of a fit, proofs by depth and predicate, the newest events and all\n"
        "settings (docs/watching.md). It updates itself while a run writes. Nothing is loaded "
        "from\n"
        "outside, nothing is written, and requests can neither name files nor hold SQL.\n"
        "\nAddresses of other machines need a token: open http://ADDRESS:PORT/?token=TOKEN once. "
        "In\n"
        "the environment variable ESPER_TOKEN it does not stand in the list of processes. The "
        "token\n"
        "and all data travel unencrypted: put a proxy with TLS before it on networks that you do "
        "not\n"
        "trust, or use ssh -L 8080:localhost:8080.\n");
}

EsExit cmd_serve(int argc, char **argv) {
    EsPageServerOptions server = {0};
    const EsOption options[] = {
        ES_OPTION_INT("port", &server.port, "8080", 0, 65535, "N", "port; 0 takes a free one"),
        ES_OPTION_TEXT("bind", &server.address, "127.0.0.1", "ADDRESS",
                       "address to serve at, in digits"),
        ES_OPTION_TEXT(
            "token", &server.token, NULL, "TOKEN",
            "secret of 16 to 128 letters and digits that visitors need, or $ESPER_TOKEN"),
    };
    const EsOptionTable table = {
        .command = "serve",
        .usage = "[options] RUN|FOLDER",
        .summary =
            "Show a run, or all runs of a folder, as a page in the browser. Several runs are\n"
            "compared; a run may be going on.",
        .example = "esper serve runs",
        .print_more = print_more,
        .options = options,
        .n_options = ES_COUNT_OF(options),
        .max_positional = 1,
    };
    EsArguments arguments;
    EsExit code;
    if (!es_options_begin(&table, argc, argv, &arguments, &code)) {
        return code;
    }
    if (arguments.n_positional != 1) {
        return es_command_finish("serve",
                                 ES_FAIL(ARGUMENT, "which runs? give a run or a folder of runs"));
    }
    server.path = arguments.positional[0];
    const char *token = getenv("ESPER_TOKEN");
    if (server.token == NULL && token != NULL && token[0] != '\0') {
        server.token = token;
    }
    return es_command_finish("serve", serve(&server));
}
