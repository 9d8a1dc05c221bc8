// The sink's thread fills the table, the HTTP server's thread renders it; a mutex stands between.
//
// Clients that connect and then say nothing, or a byte now and then, must not keep a scrape out:
// when KEPT_CONNECTIONS are open, a new one takes the place of the oldest. A limit per address
// would not do, for all clients of one machine or behind one router share it.
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "esper/log.h"
#include "telemetry/sink.h"
#include "telemetry/sinks/prometheus_table.h"

// A scrape takes milliseconds and Prometheus keeps one connection; these bound the resources of
// idle or hostile clients. The server stops accepting at MAX_CONNECTIONS: room for those that were
// cut off and are not closed yet.
#define KEPT_CONNECTIONS 32
#define MAX_CONNECTIONS  128
#define TIMEOUT_SECONDS  5

typedef struct PrometheusSink {
    pthread_mutex_t lock; // guards table
    EsPrometheusTable table;
    struct MHD_Daemon *daemon; // owns the socket once started
    int name_column, value_column;
    // of the server's thread: sockets that are open and not cut off, the oldest first
    int connections[KEPT_CONNECTIONS];
    int n_connections;
} PrometheusSink;

// --- the HTTP server's thread ---

static void forget_connection(PrometheusSink *sink, int index) {
    sink->n_connections--;
    memmove(&sink->connections[index], &sink->connections[index + 1],
            (size_t)(sink->n_connections - index) * sizeof sink->connections[0]);
}

// Called when a connection begins and before its socket is closed.
static void note_connection(void *state, struct MHD_Connection *connection, void **context,
                            enum MHD_ConnectionNotificationCode code) {
    PrometheusSink *sink = state;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    (void)context;
    if (info == NULL) {
        return;
    }
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        if (sink->n_connections == KEPT_CONNECTIONS) {
            // the server sees its end and closes it
            shutdown(sink->connections[0], SHUT_RDWR);
            forget_connection(sink, 0);
        }
        sink->connections[sink->n_connections++] = info->connect_fd;
        return;
    }
    for (int i = 0; i < sink->n_connections; i++) {
        if (sink->connections[i] == info->connect_fd) {
            forget_connection(sink, i);
            return;
        }
    }
}

static enum MHD_Result send_text(struct MHD_Connection *connection, unsigned code, char *text,
                                 size_t bytes, const char *content_type) {
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback(bytes, text, es_release);
    if (response == NULL) {
        es_release(text);
        return MHD_NO;
    }
    enum MHD_Result result =
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    if (result == MHD_YES && code == MHD_HTTP_METHOD_NOT_ALLOWED) {
        result = MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    }
    if (result == MHD_YES) {
        result = MHD_queue_response(connection, code, response);
    }
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_hint(struct MHD_Connection *connection, unsigned code,
                                 const char *hint) {
    EsText text = {0};
    es_text_add_string(&text, hint);
    if (text.status != ES_STATUS_OK) {
        return MHD_NO;
    }
    return send_text(connection, code, text.bytes, text.length, "text/plain; charset=utf-8");
}

static enum MHD_Result send_metrics(PrometheusSink *sink, struct MHD_Connection *connection) {
    EsText text = {0};
    pthread_mutex_lock(&sink->lock);
    es_prometheus_table_render(&sink->table, &text);
    pthread_mutex_unlock(&sink->lock);
    if (text.status != ES_STATUS_OK) {
        es_text_destroy(&text);
        return send_hint(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "Out of memory.\n");
    }
    return send_text(connection, MHD_HTTP_OK, text.bytes, text.length,
                     "text/plain; version=0.0.4; charset=utf-8");
}

static enum MHD_Result answer(void *state, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **request) {
    (void)version;
    (void)upload;
    (void)upload_bytes;
    (void)request;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        return send_hint(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "Metrics can only be read.\n");
    }
    if (strcmp(url, "/metrics") != 0) {
        return send_hint(connection, MHD_HTTP_NOT_FOUND, "The metrics are at /metrics.\n");
    }
    return send_metrics(state, connection);
}

static void log_line(void *state, const char *format, va_list arguments) {
    (void)state;
    char line[512];
    vsnprintf(line, sizeof line, format, arguments);
    line[strcspn(line, "\r\n")] = '\0';
    es_log(ES_LOG_DEBUG, "metrics server: %s", line);
}

// --- the sink's thread ---

static EsStatus write_packet(void *state, const EsPacket *packet) {
    PrometheusSink *sink = state;
    EsStatus status = ES_STATUS_OK;
    pthread_mutex_lock(&sink->lock);
    es_prometheus_table_count(&sink->table, packet->type);
    if (packet->type == ES_EVENT_METRIC) {
        for (int64_t row = 0; row < packet->n_rows && status == ES_STATUS_OK; row++) {
            size_t bytes = 0;
            const char *name = es_packet_text(packet, row, sink->name_column, &bytes);
            double value = es_packet_real(packet, row, sink->value_column);
            // not measured this time: the latest measured value stays
            if (bytes > 0 && !es_is_missing_real(value)) {
                status = es_prometheus_table_set(&sink->table, name, bytes, value);
            }
        }
    }
    pthread_mutex_unlock(&sink->lock);
    return status;
}

static EsStatus flush_nothing(void *state) {
    (void)state;
    return ES_STATUS_OK;
}

static void close_sink(void *state) {
    PrometheusSink *sink = state;
    if (sink->daemon != NULL) {
        MHD_stop_daemon(sink->daemon);
    }
    es_prometheus_table_destroy(&sink->table);
    pthread_mutex_destroy(&sink->lock);
    es_release(sink);
}

// --- opening ---

static EsStatus fail_to_listen(const char *address, int port, int error) {
    const char *advice = error == EADDRINUSE ? "; choose another port, or 0 for any free one" : "";
    return ES_FAIL(IO, "cannot serve metrics at %s port %d: %s%s", address, port, strerror(error),
                   advice);
}

// A listening socket at one of the address's candidates; -1 with errno of the last one.
static int listen_at(const struct addrinfo *candidate) {
    for (; candidate != NULL; candidate = candidate->ai_next) {
        int listener = socket(candidate->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        // a port whose last connections are still winding down may be taken again
        int yes = 1;
        if (listener >= 0 &&
            setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
            bind(listener, candidate->ai_addr, candidate->ai_addrlen) == 0 &&
            listen(listener, MAX_CONNECTIONS) == 0) {
            return listener;
        }
        int error = errno;
        if (listener >= 0) {
            close(listener);
        }
        errno = error;
    }
    return -1;
}

static EsStatus open_listener(const char *address, int port, int *listener) {
    if (port < 0 || port > 65535) {
        return ES_FAIL(ARGUMENT, "cannot serve metrics at port %d: ports are 0 to 65535", port);
    }
    char service[8];
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo wanted = {.ai_family = AF_UNSPEC,
                              .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int problem = getaddrinfo(address, service, &wanted, &found);
    if (problem != 0) {
        return ES_FAIL(ARGUMENT, "cannot serve metrics at \"%s\": %s", address,
                       gai_strerror(problem));
    }
    *listener = listen_at(found);
    int error = errno;
    freeaddrinfo(found);
    return *listener < 0 ? fail_to_listen(address, port, error) : ES_STATUS_OK;
}

static int port_of(int listener) {
    struct sockaddr_storage name = {0};
    socklen_t bytes = sizeof name;
    int problem = getsockname(listener, (struct sockaddr *)&name, &bytes);
    ES_ASSERT(problem == 0);
    uint16_t port = name.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&name)->sin6_port
                                               : ((struct sockaddr_in *)&name)->sin_port;
    return ntohs(port);
}

// The server's thread blocks all signals: Ctrl-C belongs to the program's own threads.
static struct MHD_Daemon *start_daemon(PrometheusSink *sink, int listener) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_AUTO_INTERNAL_THREAD | MHD_USE_ERROR_LOG, 0, NULL, NULL, answer,
                         sink, MHD_OPTION_EXTERNAL_LOGGER, log_line, NULL, MHD_OPTION_LISTEN_SOCKET,
                         listener, MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX_CONNECTIONS,
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_SECONDS,
                         MHD_OPTION_NOTIFY_CONNECTION, note_connection, sink, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return daemon;
}

const char *es_prometheus_sink_version(void) { return MHD_get_version(); }

EsStatus es_prometheus_sink_open(const char *address, int port, const char *labels, int *port_taken,
                                 EsSink *sink) {
    PrometheusSink *state = NULL;
    ES_TRY(es_allocate(sizeof *state, (void **)&state));
    pthread_mutex_init(&state->lock, NULL);
    state->name_column = es_event_column(ES_EVENT_METRIC, "name");
    state->value_column = es_event_column(ES_EVENT_METRIC, "value");
    int listener = -1;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_prometheus_table_create(&state->table, labels));
    ES_TRY_GOTO(open_listener(address, port, &listener));
    *port_taken = port_of(listener);
    state->daemon = start_daemon(state, listener);
    if (state->daemon == NULL) {
        close(listener);
        status = ES_FAIL(IO, "cannot serve metrics at %s port %d: the HTTP server does not start",
                         address, port);
        goto done;
    }
    *sink = (EsSink){"prometheus", state, write_packet, flush_nothing, close_sink};
    return ES_STATUS_OK;
done:
    close_sink(state);
    return status;
}
