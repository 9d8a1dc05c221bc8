// Write a run folder for tests of the commands that look at runs.
//
// usage: make_sample_run FOLDER ROUNDS [--kill]
//   --kill   end like a killed run: everything flushed, nothing closed
#include <signal.h>
#include <sys/stat.h>

#include "telemetry/sample_run.h"

static EsStatus write_and_die(const char *path, int n_rounds) {
    EsSink sink;
    ES_TRY(es_sqlite_sink_open(path, -1, &sink));
    ES_TRY(send_start(&sink));
    for (int round = 1; round <= n_rounds; round++) {
        ES_TRY(send_round(&sink, round));
    }
    ES_TRY(sink.flush(sink.state));
    raise(SIGKILL);
    return ES_STATUS_OK;
}

int main(int argc, char **argv) {
    char path[4096];
    if (argc < 3) {
        fprintf(stderr, "usage: make_sample_run FOLDER ROUNDS [--kill]\n");
        return 2;
    }
    mkdir(argv[1], 0777);
    snprintf(path, sizeof path, "%s/run.db", argv[1]);
    int n_rounds = (int)strtol(argv[2], NULL, 10);
    EsStatus status = argc > 3 && strcmp(argv[3], "--kill") == 0 ? write_and_die(path, n_rounds)
                                                                 : write_sample_run(path, n_rounds);
    if (status != ES_STATUS_OK) {
        fprintf(stderr, "make_sample_run: %s\n", es_status_detail());
        return 1;
    }
    return 0;
}
