// The Prometheus sink of a build without libmicrohttpd: opening says so.
#include "telemetry/sink.h"

const char *es_prometheus_sink_version(void) { return NULL; }

EsStatus es_prometheus_sink_open(const char *address, int port, const char *labels, int *port_taken,
                                 EsSink *sink) {
    (void)labels;
    (void)port_taken;
    (void)sink;
    return ES_FAIL(UNSUPPORTED,
                   "cannot serve metrics at %s:%d: this build is without libmicrohttpd", address,
                   port);
}
