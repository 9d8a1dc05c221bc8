// Routing of requests, the limits on clients, and the watcher that wakes those who wait for events.
//
// A few threads answer, each for connections of its own, so that a run whose database is slow or
// locked does not hold up everybody. The connections that wait for events are suspended in
// libmicrohttpd; `lock` guards the lists of connections and the counters that listeners compare
// themselves with. An answer has all else for itself: it opens the runs that it reads.
#include "view/page_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/macros.h"
#include "base/memory.h"
#include "esper/log.h"
#include "page_assets.h"
#include "view/chart.h"
#include "view/panels.h"
#include "view/run_shelf.h"

// A browser keeps six connections. When KEPT are open a new one takes the place of the oldest that
// does not wait for events; the server stops accepting at MAX, room for those not closed yet.
#define KEPT_CONNECTIONS 256
#define MAX_CONNECTIONS  512
#define MAX_LISTENERS    64 // connections that wait for events
#define HEADER_BYTES     16384
#define TIMEOUT_SECONDS  20
#define N_THREADS        4 // that answer
#define WATCH_MS         500
#define STOP_SECONDS     2  // that a stop waits for answers under way and connections that close
#define BEAT_WATCHES     20 // a comment keeps a quiet stream open, and finds those that are gone

// A connection that waits for events.
typedef struct Listener {
    EsPageServer *server;              // borrowed
    struct MHD_Connection *connection; // borrowed
    uint64_t n_changes, n_beats;       // that it knows of
    int is_suspended;
} Listener;

struct EsPageServer {
    struct MHD_Daemon *daemon; // owns the socket once started
    EsRunShelf *shelf;         // owned
    const char *token;         // borrowed; NULL: none
    int port;
    char host[64];   // the address it serves at, as a request names it
    char cookie[32]; // name of the token's cookie; cookies of a host are shared by all its ports
    pthread_t watcher;
    int has_watcher;

    pthread_mutex_t lock; // guards what follows
    pthread_cond_t stops;
    int is_stopping;
    uint64_t n_changes, n_beats;
    Listener *listeners[MAX_LISTENERS]; // owned by their responses
    int n_listeners;
    int connections[KEPT_CONNECTIONS]; // sockets that do not wait for events, the oldest first
    int n_connections;
};

// --- answers ---

static const char page_policy[] =
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static enum MHD_Result send_response(struct MHD_Connection *connection, unsigned code,
                                     struct MHD_Response *response, const char *type) {
    if (response == NULL) {
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(response, "Content-Security-Policy", page_policy);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    }
    enum MHD_Result result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

// A text that lives as long as the program.
static enum MHD_Result send_words(struct MHD_Connection *connection, unsigned code,
                                  const char *words, const char *type) {
    return send_response(connection, code,
                         MHD_create_response_from_buffer(strlen(words), (void *)(uintptr_t)words,
                                                         MHD_RESPMEM_PERSISTENT),
                         type);
}

static enum MHD_Result send_hint(struct MHD_Connection *connection, unsigned code,
                                 const char *hint) {
    return send_words(connection, code, hint, "text/plain; charset=utf-8");
}

// The detail of a failure, without characters that could command a terminal.
static enum MHD_Result send_failure(struct MHD_Connection *connection, EsStatus status) {
    unsigned code = status == ES_STATUS_ARGUMENT || status == ES_STATUS_INPUT
                        ? MHD_HTTP_NOT_FOUND
                        : MHD_HTTP_INTERNAL_SERVER_ERROR;
    EsText text = {0};
    const char *detail = es_status_detail();
    es_text_add_utf8(&text, detail, strlen(detail), ES_TEXT_TERMINAL);
    es_text_add_string(&text, "\n");
    if (text.status != ES_STATUS_OK) {
        return MHD_NO;
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback(text.length, text.bytes, es_release);
    if (response == NULL) {
        es_text_destroy(&text);
    }
    return send_response(connection, code, response, "text/plain; charset=utf-8");
}

static enum MHD_Result send_json(struct MHD_Connection *connection, json_t *value) {
    char *text = NULL;
    // 17 digits give every double back
    EsStatus status =
        es_json_dump("an answer", value, JSON_COMPACT | JSON_REAL_PRECISION(17), &text);
    if (status != ES_STATUS_OK) {
        return send_failure(connection, status);
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback(strlen(text), text, free);
    if (response == NULL) {
        free(text);
    }
    return send_response(connection, MHD_HTTP_OK, response, "application/json");
}

// --- questions ---

// A whole number of the address, or `missing`; -2 is never valid and says that it is malformed.
static int64_t number_of(struct MHD_Connection *connection, const char *name, int64_t missing) {
    const char *text = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);
    if (text == NULL || text[0] == '\0') {
        return missing;
    }
    size_t length = strspn(text, "0123456789");
    return length > 0 && length < 16 && text[length] == '\0' ? strtoll(text, NULL, 10) : -2;
}

typedef struct Question {
    EsRunView *views[ES_PANEL_MAX_VIEWS]; // owned
    EsPanelInput input;
} Question;

static void close_question(Question *question) {
    for (int i = 0; i < question->input.n_views; i++) {
        es_run_view_close(question->views[i]);
    }
}

// Opens the runs of a list of numbers, such as "0,2".
static EsStatus open_runs(EsPageServer *server, const char *list, Question *question) {
    while (*list != '\0') {
        char path[4096];
        size_t length = strspn(list, "0123456789");
        if (length == 0 || length > 6 || (list[length] != ',' && list[length] != '\0')) {
            return ES_FAIL(ARGUMENT, "runs are numbers with commas between");
        }
        if (question->input.n_views == ES_PANEL_MAX_VIEWS) {
            return ES_FAIL(ARGUMENT, "at most %d runs are compared", ES_PANEL_MAX_VIEWS);
        }
        if (!es_run_shelf_path(server->shelf, atoi(list), path)) {
            return ES_FAIL(ARGUMENT, "there is no run of this number");
        }
        ES_TRY(es_run_view_open(path, &question->views[question->input.n_views]));
        question->input.n_views++;
        list += length + (list[length] == ',');
    }
    return question->input.n_views > 0 ? ES_STATUS_OK : ES_FAIL(ARGUMENT, "which run? runs=0");
}

static EsStatus open_question(EsPageServer *server, struct MHD_Connection *connection,
                              Question *question) {
    const char *runs = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "runs");
    question->input.views = question->views;
    question->input.question.round = number_of(connection, "round", 0);
    question->input.question.env = number_of(connection, "env", -1);
    question->input.step = number_of(connection, "step", -1);
    if (question->input.question.round == -2 || question->input.question.env == -2 ||
        question->input.step == -2) {
        return ES_FAIL(ARGUMENT, "round, env and step are whole numbers");
    }
    return open_runs(server, runs != NULL ? runs : "", question);
}

static enum MHD_Result send_panel(EsPageServer *server, struct MHD_Connection *connection,
                                  const char *name) {
    const EsPanel *panel = es_panel_find(name);
    if (panel == NULL) {
        return send_hint(connection, MHD_HTTP_NOT_FOUND, "There is no such panel.\n");
    }
    Question question = {0};
    EsText html = {0};
    EsStatus status = open_question(server, connection, &question);
    if (status == ES_STATUS_OK) {
        status = es_panel_draw(panel, &question.input, &html);
    }
    close_question(&question);
    if (status != ES_STATUS_OK) {
        es_text_destroy(&html);
        return send_failure(connection, status);
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback(html.length, html.bytes, es_release);
    if (response == NULL) {
        es_text_destroy(&html);
    }
    return send_response(connection, MHD_HTTP_OK, response, "text/html; charset=utf-8");
}

static enum MHD_Result send_table(EsPageServer *server, struct MHD_Connection *connection,
                                  const char *name) {
    Question question = {0};
    json_t *table = NULL;
    EsStatus status = open_question(server, connection, &question);
    if (status == ES_STATUS_OK) {
        EsViewQuestion *asked = &question.input.question;
        status = es_run_view_resolve(question.views[0], asked);
        asked->round = number_of(connection, "round", 0);
    }
    if (status == ES_STATUS_OK) {
        status = es_run_view_read(question.views[0], name, &question.input.question, &table);
    }
    close_question(&question);
    return status == ES_STATUS_OK ? send_json(connection, table) : send_failure(connection, status);
}

// The panels for the runs that are asked for: [{"name", "title", "is_wide", "compares"}, ...]
static enum MHD_Result send_panels(EsPageServer *server, struct MHD_Connection *connection) {
    Question question = {0};
    EsStatus status = open_question(server, connection, &question);
    json_t *list = json_array();
    for (int p = 0; status == ES_STATUS_OK && p < es_panel_count(); p++) {
        const EsPanel *panel = es_panel(p);
        int is_wanted = 0;
        for (int i = 0; i < question.input.n_views; i++) {
            is_wanted |= es_kind_is_among(panel->kinds, es_run_view_kind(question.views[i])) &&
                         (i == 0 || panel->compares);
        }
        if (is_wanted) {
            json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:b}", "name", panel->name,
                                                  "title", panel->title, "is_wide", panel->is_wide,
                                                  "compares", panel->compares));
        }
    }
    close_question(&question);
    if (status != ES_STATUS_OK) {
        json_decref(list);
        return send_failure(connection, status);
    }
    return send_json(connection, list);
}

// --- events ---

// Called by a thread of the server whenever the stream can take more; suspends it when there is no
// news.
static ssize_t read_events(void *state, uint64_t position, char *buffer, size_t max_bytes) {
    Listener *listener = state;
    EsPageServer *server = listener->server;
    int length = 0;
    (void)position;
    pthread_mutex_lock(&server->lock);
    if (server->is_stopping) {
        pthread_mutex_unlock(&server->lock);
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    if (listener->n_changes != server->n_changes) {
        listener->n_changes = server->n_changes;
        length = snprintf(buffer, max_bytes, "event: changed\ndata: %llu\n\n",
                          (unsigned long long)server->n_changes);
    } else if (listener->n_beats != server->n_beats) {
        length = snprintf(buffer, max_bytes, ": beat\n\n");
    } else {
        listener->is_suspended = 1;
        MHD_suspend_connection(listener->connection);
    }
    listener->n_beats = server->n_beats;
    pthread_mutex_unlock(&server->lock);
    return ES_MIN((ssize_t)length, (ssize_t)max_bytes);
}

static void end_events(void *state) {
    Listener *listener = state;
    EsPageServer *server = listener->server;
    pthread_mutex_lock(&server->lock);
    for (int i = 0; i < server->n_listeners; i++) {
        if (server->listeners[i] == listener) {
            server->listeners[i] = server->listeners[--server->n_listeners];
            break;
        }
    }
    pthread_mutex_unlock(&server->lock);
    es_release(listener);
}

// `lock` is held.
static void forget_connection(EsPageServer *server, int socket) {
    for (int i = 0; i < server->n_connections; i++) {
        if (server->connections[i] == socket) {
            server->n_connections--;
            memmove(&server->connections[i], &server->connections[i + 1],
                    (size_t)(server->n_connections - i) * sizeof server->connections[0]);
            return;
        }
    }
}

static enum MHD_Result send_events(EsPageServer *server, struct MHD_Connection *connection) {
    Listener *listener = NULL;
    if (es_allocate(sizeof *listener, (void **)&listener) != ES_STATUS_OK) {
        return MHD_NO;
    }
    listener->server = server;
    listener->connection = connection;
    pthread_mutex_lock(&server->lock);
    int has_room = server->n_listeners < MAX_LISTENERS;
    if (has_room) {
        server->listeners[server->n_listeners++] = listener;
        listener->n_beats = server->n_beats;
    }
    pthread_mutex_unlock(&server->lock);
    if (!has_room) {
        es_release(listener);
        return send_hint(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                         "Too many pages are open; reload this one to update it.\n");
    }
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, 1024, read_events, listener, end_events);
    if (response == NULL) {
        end_events(listener);
        return MHD_NO;
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info != NULL) {
        pthread_mutex_lock(&server->lock);
        forget_connection(server, info->connect_fd);
        pthread_mutex_unlock(&server->lock);
    }
    return send_response(connection, MHD_HTTP_OK, response, "text/event-stream");
}

// Wakes all that wait; `lock` is held.
static void wake_listeners(EsPageServer *server) {
    for (int i = 0; i < server->n_listeners; i++) {
        if (server->listeners[i]->is_suspended) {
            server->listeners[i]->is_suspended = 0;
            MHD_resume_connection(server->listeners[i]->connection);
        }
    }
}

static void *watch(void *state) {
    EsPageServer *server = state;
    pthread_mutex_lock(&server->lock);
    for (int n = 1; !server->is_stopping; n++) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += WATCH_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&server->stops, &server->lock, &until);
        uint64_t n_changes = server->n_changes;
        if (server->n_listeners > 0 && !server->is_stopping) {
            pthread_mutex_unlock(&server->lock);
            if (es_run_shelf_refresh(server->shelf, &n_changes) != ES_STATUS_OK) {
                es_log(ES_LOG_WARNING, "looking for changes: %s", es_status_detail());
            }
            pthread_mutex_lock(&server->lock);
        }
        if (n_changes != server->n_changes || n % BEAT_WATCHES == 0) {
            server->n_changes = n_changes;
            server->n_beats += n % BEAT_WATCHES == 0;
            wake_listeners(server);
        }
    }
    wake_listeners(server);
    pthread_mutex_unlock(&server->lock);
    return NULL;
}

// --- who may ask ---

// Compares in a time that depends on the length of `given` alone.
static int is_token(const char *token, const char *given, size_t bytes) {
    size_t n_token = strlen(token);
    unsigned char difference = n_token != bytes;
    for (size_t i = 0; i < bytes; i++) {
        difference |= (unsigned char)(given[i] ^ token[i % n_token]);
    }
    return difference == 0;
}

static int has_token(const EsPageServer *server, struct MHD_Connection *connection) {
    const char *header =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    const char *cookie = MHD_lookup_connection_value(connection, MHD_COOKIE_KIND, server->cookie);
    if (header != NULL && strncmp(header, "Bearer ", 7) == 0) {
        return is_token(server->token, header + 7, strlen(header + 7));
    }
    return cookie != NULL && is_token(server->token, cookie, strlen(cookie));
}

// Without a token a page of another site could ask by a name that leads to this machine: only the
// machine's own names are answered, and the address that is served at.
static int is_local_name(const EsPageServer *server, struct MHD_Connection *connection) {
    const char *const names[] = {"localhost", "127.0.0.1", "[::1]", server->host};
    const char *host =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    for (size_t i = 0; host != NULL && i < ES_COUNT_OF(names); i++) {
        size_t length = strlen(names[i]);
        if (strncmp(host, names[i], length) == 0 && (host[length] == ':' || host[length] == '\0')) {
            return 1;
        }
    }
    return 0;
}

// A browser says where a request comes from. Pages of other sites may lead here, and may load
// nothing.
static int is_of_other_site(struct MHD_Connection *connection) {
    const char *site = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Sec-Fetch-Site");
    const char *mode = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Sec-Fetch-Mode");
    const char *target = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Sec-Fetch-Dest");
    int is_visit = mode != NULL && strcmp(mode, "navigate") == 0 &&
                   (target == NULL || strcmp(target, "document") == 0); // not in a frame
    return site != NULL && strcmp(site, "cross-site") == 0 && !is_visit;
}

// A visit with the token in the address: keeps it in a cookie and leaves the address.
static enum MHD_Result send_cookie(EsPageServer *server, struct MHD_Connection *connection) {
    char cookie[256];
    struct MHD_Response *response =
        MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
    if (response != NULL) {
        snprintf(cookie, sizeof cookie, "%s=%s; HttpOnly; SameSite=Strict; Path=/", server->cookie,
                 server->token);
        MHD_add_response_header(response, MHD_HTTP_HEADER_SET_COOKIE, cookie);
        MHD_add_response_header(response, MHD_HTTP_HEADER_LOCATION, "/");
    }
    return send_response(connection, MHD_HTTP_SEE_OTHER, response, "text/plain");
}

// --- requests ---

static enum MHD_Result route(EsPageServer *server, struct MHD_Connection *connection,
                             const char *url) {
    if (strcmp(url, "/") == 0) {
        return send_words(connection, MHD_HTTP_OK, page_html, "text/html; charset=utf-8");
    }
    if (strcmp(url, "/page.css") == 0) {
        return send_words(connection, MHD_HTTP_OK, page_css, "text/css; charset=utf-8");
    }
    if (strcmp(url, "/page.js") == 0) {
        return send_words(connection, MHD_HTTP_OK, page_js, "text/javascript; charset=utf-8");
    }
    if (strcmp(url, "/events") == 0) {
        return send_events(server, connection);
    }
    if (strcmp(url, "/api/runs") == 0) {
        uint64_t n_changes;
        EsStatus status = es_run_shelf_refresh(server->shelf, &n_changes);
        return status == ES_STATUS_OK ? send_json(connection, es_run_shelf_list(server->shelf))
                                      : send_failure(connection, status);
    }
    if (strcmp(url, "/api/panels") == 0) {
        return send_panels(server, connection);
    }
    if (strncmp(url, "/api/table/", 11) == 0) {
        return send_table(server, connection, url + 11);
    }
    if (strncmp(url, "/panel/", 7) == 0) {
        return send_panel(server, connection, url + 7);
    }
    return send_hint(connection, MHD_HTTP_NOT_FOUND, "There is nothing here; the page is at /.\n");
}

static enum MHD_Result answer(void *state, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **request) {
    EsPageServer *server = state;
    (void)version;
    (void)upload;
    (void)upload_bytes;
    (void)request;
    int is_head = strcmp(method, "HEAD") == 0;
    if ((strcmp(method, "GET") != 0 && !is_head) || (is_head && strcmp(url, "/events") == 0)) {
        return send_hint(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "Runs can only be read.\n");
    }
    if (is_of_other_site(connection)) {
        return send_hint(connection, MHD_HTTP_FORBIDDEN, "Other sites may not load this page.\n");
    }
    if (server->token == NULL) {
        return is_local_name(server, connection)
                   ? route(server, connection, url)
                   : send_hint(connection, MHD_HTTP_FORBIDDEN,
                               "This page answers to localhost, 127.0.0.1 and the address that it "
                               "serves at alone.\n");
    }
    // first, so that the token leaves the address of visitors who have the cookie, too
    const char *given = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "token");
    if (given != NULL && strcmp(url, "/") == 0 && is_token(server->token, given, strlen(given))) {
        return send_cookie(server, connection);
    }
    if (has_token(server, connection)) {
        return route(server, connection, url);
    }
    return send_hint(
        connection, MHD_HTTP_UNAUTHORIZED,
        "A token is needed: open /?token=TOKEN once, or send Authorization: Bearer.\n");
}

// Called when a connection begins and before its socket is closed.
static void note_connection(void *state, struct MHD_Connection *connection, void **context,
                            enum MHD_ConnectionNotificationCode code) {
    EsPageServer *server = state;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    (void)context;
    if (info == NULL) {
        return;
    }
    pthread_mutex_lock(&server->lock);
    if (code != MHD_CONNECTION_NOTIFY_STARTED) {
        forget_connection(server, info->connect_fd);
    } else {
        if (server->n_connections == KEPT_CONNECTIONS) {
            // the thread that has it sees its end and closes it; not before it is forgotten here
            int oldest = server->connections[0];
            shutdown(oldest, SHUT_RDWR);
            forget_connection(server, oldest);
        }
        server->connections[server->n_connections++] = info->connect_fd;
    }
    pthread_mutex_unlock(&server->lock);
}

static void log_line(void *state, const char *format, va_list arguments) {
    char line[512];
    (void)state;
    vsnprintf(line, sizeof line, format, arguments);
    line[strcspn(line, "\r\n")] = '\0';
    es_log(ES_LOG_DEBUG, "page server: %s", line);
}

// --- life ---

// An address in digits, as a socket address; 0 when it is none.
static socklen_t parse_address(const char *text, int port, struct sockaddr_storage *address) {
    struct sockaddr_in *four = (struct sockaddr_in *)address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;
    const char *digits = strcmp(text, "localhost") == 0 ? "127.0.0.1" : text;
    memset(address, 0, sizeof *address);
    if (inet_pton(AF_INET, digits, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons((uint16_t)port);
        return sizeof *four;
    }
    if (inet_pton(AF_INET6, digits, &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
        six->sin6_port = htons((uint16_t)port);
        return sizeof *six;
    }
    return 0;
}

static int is_loopback(const struct sockaddr_storage *address) {
    if (address->ss_family == AF_INET) {
        return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
    }
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

static EsStatus check_token(const char *token) {
    size_t length = token != NULL ? strlen(token) : 0;
    size_t n_good = token != NULL ? strspn(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                  "abcdefghijklmnopqrstuvwxyz0123456789-_")
                                  : 0;
    if (token != NULL && (length < 16 || length > 128 || n_good != length)) {
        return ES_FAIL(ARGUMENT,
                       "a token has 16 to 128 letters, digits, - or _; try $(openssl rand "
                       "-hex 16)");
    }
    return ES_STATUS_OK;
}

static EsStatus listen_at(const EsPageServerOptions *options, int *listener) {
    struct sockaddr_storage address;
    socklen_t bytes = parse_address(options->address, options->port, &address);
    if (bytes == 0) {
        return ES_FAIL(ARGUMENT, "\"%.100s\" is no address in digits, such as 127.0.0.1 or ::1",
                       options->address);
    }
    if (options->token == NULL && !is_loopback(&address)) {
        return ES_FAIL(ARGUMENT,
                       "%s can be reached from other machines: that needs a token (--token, or "
                       "ESPER_TOKEN)",
                       options->address);
    }
    int yes = 1;
    *listener = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*listener < 0 || setsockopt(*listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(*listener, (struct sockaddr *)&address, bytes) != 0 ||
        listen(*listener, MAX_CONNECTIONS) != 0) {
        int error = errno;
        if (*listener >= 0) {
            close(*listener);
        }
        return ES_FAIL(IO, "cannot serve at %s port %d: %s%s", options->address, options->port,
                       strerror(error),
                       error == EADDRINUSE ? "; choose another --port, or 0 for any free one" : "");
    }
    return ES_STATUS_OK;
}

// Notes the address and the port that the socket has got.
static void note_address(EsPageServer *server, int listener) {
    struct sockaddr_storage name = {0};
    const struct sockaddr_in *four = (const struct sockaddr_in *)&name;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&name;
    socklen_t bytes = sizeof name;
    char digits[INET6_ADDRSTRLEN] = "";
    ES_ASSERT(getsockname(listener, (struct sockaddr *)&name, &bytes) == 0);
    int is_six = name.ss_family == AF_INET6;
    inet_ntop(name.ss_family, is_six ? (const void *)&six->sin6_addr : &four->sin_addr, digits,
              sizeof digits);
    server->port = ntohs(is_six ? six->sin6_port : four->sin_port);
    snprintf(server->host, sizeof server->host, is_six ? "[%s]" : "%s", digits);
    snprintf(server->cookie, sizeof server->cookie, "esper_token_%d", server->port);
}

// The threads block all signals: Ctrl-C belongs to the program's own.
static EsStatus start_threads(EsPageServer *server, int listener) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    server->daemon = MHD_start_daemon(
        MHD_USE_AUTO_INTERNAL_THREAD | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
        answer, server, MHD_OPTION_EXTERNAL_LOGGER, log_line, NULL, MHD_OPTION_LISTEN_SOCKET,
        listener, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)N_THREADS, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)MAX_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_SECONDS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES, MHD_OPTION_NOTIFY_CONNECTION,
        note_connection, server, MHD_OPTION_END);
    server->has_watcher =
        server->daemon != NULL && pthread_create(&server->watcher, NULL, watch, server) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (server->daemon == NULL) {
        close(listener);
    }
    return server->has_watcher ? ES_STATUS_OK : ES_FAIL(IO, "the web server does not start");
}

EsStatus es_page_server_start(const EsPageServerOptions *options, EsPageServer **server) {
    EsPageServer *made = NULL;
    int listener = -1;
    ES_TRY(check_token(options->token));
    ES_TRY(es_allocate(sizeof *made, (void **)&made));
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->stops, NULL);
    made->token = options->token;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_run_shelf_open(options->path, &made->shelf));
    ES_TRY_GOTO(listen_at(options, &listener));
    note_address(made, listener);
    ES_TRY_GOTO(start_threads(made, listener));
    *server = made;
    return ES_STATUS_OK;
done:
    es_page_server_stop(made);
    return status;
}

static void *stop_daemon(void *daemon) {
    MHD_stop_daemon(daemon);
    return NULL;
}

// Returns whether the thread ended in time; one that did not is left alone.
static int is_joined(pthread_t thread, const struct timespec *until) {
    if (pthread_timedjoin_np(thread, NULL, until) == 0) {
        return 1;
    }
    pthread_detach(thread);
    es_log(ES_LOG_WARNING, "some answers were not waited for: they take more than %d s",
           STOP_SECONDS);
    return 0;
}

// Closes all connections and ends the threads that answer. Returns whether it was done in time: a
// locked database, or libmicrohttpd among many clients that close, can hold it up for 20 s.
static int stop_answering(EsPageServer *server, const struct timespec *until) {
    pthread_t stopper;
    if (pthread_create(&stopper, NULL, stop_daemon, server->daemon) != 0) {
        MHD_stop_daemon(server->daemon);
        return 1;
    }
    return is_joined(stopper, until);
}

int es_page_server_stop(EsPageServer *server) {
    struct timespec until;
    if (server == NULL) {
        return 1;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += STOP_SECONDS;
    pthread_mutex_lock(&server->lock);
    server->is_stopping = 1;
    pthread_cond_signal(&server->stops);
    pthread_mutex_unlock(&server->lock);
    // the watcher may be in a folder that does not answer
    if (server->has_watcher && !is_joined(server->watcher, &until)) {
        return 0;
    }
    if (server->daemon != NULL && !stop_answering(server, &until)) {
        return 0;
    }
    es_run_shelf_close(server->shelf);
    pthread_cond_destroy(&server->stops);
    pthread_mutex_destroy(&server->lock);
    es_release(server);
    return 1;
}

int es_page_server_port_taken(const EsPageServer *server) { return server->port; }
int es_page_server_n_runs(EsPageServer *server) { return es_run_shelf_count(server->shelf); }
