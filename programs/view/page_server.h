// The web server of `esper serve`: the page, its panels, tables as JSON, and news of changes as
// server-sent events.
//
// Requests name panels, tables and runs by words and numbers of fixed lists; no part of one becomes
// a path or SQL. Two threads: the server's answers requests, each with a view of its own that it
// opens and closes; the watcher's looks at the files of the runs twice a second and wakes the
// connections that wait for events. Nothing is ever written to a run.
#ifndef ES_PROGRAMS_PAGE_SERVER_H
#define ES_PROGRAMS_PAGE_SERVER_H

#include "esper/status.h"

typedef struct EsPageServer EsPageServer;

typedef struct EsPageServerOptions {
    const char *path;    // a run, or a folder of runs
    const char *address; // to listen at
    int port;            // 0: any free one
    const char *token;   // required with every request; NULL: none, then loopback alone
} EsPageServerOptions;

// ARGUMENT for an address that is not loopback without a token; INPUT when there is no run at
// `path`; UNSUPPORTED in a build without libmicrohttpd.
EsStatus es_page_server_start(const EsPageServerOptions *options, EsPageServer **server);

// Accepts NULL. Open connections end. Returns 0 when answers took more than two seconds: their
// threads go on and use the server, and the program is to end with _exit.
int es_page_server_stop(EsPageServer *server);

int es_page_server_port_taken(const EsPageServer *server);
int es_page_server_n_runs(EsPageServer *server);

#endif
