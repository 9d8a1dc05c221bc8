// The page's server in a build without libmicrohttpd: it refuses, and says why.
#include "base/macros.h"
#include "view/page_server.h"

EsStatus es_page_server_start(const EsPageServerOptions *options, EsPageServer **server) {
    (void)options;
    (void)server;
    return ES_FAIL(UNSUPPORTED, "this build has no web server (libmicrohttpd was missing); "
                                "`esper report` writes the same panels into a file");
}

int es_page_server_stop(EsPageServer *server) {
    (void)server;
    return 1;
}

int es_page_server_port_taken(const EsPageServer *server) {
    (void)server;
    return 0;
}

int es_page_server_n_runs(EsPageServer *server) {
    (void)server;
    return 0;
}
