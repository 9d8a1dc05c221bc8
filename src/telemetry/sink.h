// A sink: where packets end up. The hub gives every sink a queue and a thread of its own, so a sink
// may be slow or block; it is never called from two threads at a time.
//
// write may buffer; flush makes everything written so far durable, or as durable as the sink gets.
// The hub calls flush when the queue runs empty, at least every second while packets come, and
// before close. A failing write or flush loses its packets: the hub counts them, logs that
// once, and goes on calling, since the disk may have room again.
#ifndef ES_TELEMETRY_SINK_H
#define ES_TELEMETRY_SINK_H

#include "telemetry/event.h"

typedef struct EsSink {
    const char *name; // "sqlite"; static
    void *state;      // owned
    EsStatus (*write)(void *state, const EsPacket *packet);
    EsStatus (*flush)(void *state);
    void (*close)(void *state); // ends the sink and frees its state
} EsSink;

// Each of these opens a sink; `sink` is untouched on failure. Paths are borrowed for the call.

// One table per event type ("event_" and its name) and the views of docs/telemetry.md, in WAL mode;
// an existing database is continued, UNSUPPORTED when it has another schema version. Rows of rounds
// above `last_round` are deleted first, in one transaction (-1: keep all), after the file was read
// whole: INPUT when it is damaged or no database. One transaction per flush. A ranking replaces one
// of the same round, `arm` and split. UNSUPPORTED without SQLite in the build.
EsStatus es_sqlite_sink_open(const char *path, int64_t last_round, EsSink *sink);

// One JSON object per row and line: {"event", "time", "sequence", "round", "step", columns...};
// missing is null, a number that is not finite is the string "NaN", "Infinity" or "-Infinity".
// Lines of rounds above `last_round`, and a torn last line, are taken out of an existing file
// first, through a temporary.
EsStatus es_jsonl_sink_open(const char *path, int64_t last_round, EsSink *sink);

// The first step of es_jsonl_sink_open: removes the lines of rounds above `last_round` (negative:
// none) and everything behind the last newline. Lines that this program did not write are kept. The
// file is replaced through a temporary, or left untouched when there is nothing to remove; it may
// be of any size, and missing.
EsStatus es_jsonl_trim(const char *path, int64_t last_round);

// An event file of TensorBoard's in `folder`; every metric row becomes a scalar with its round as
// the step, the configuration a text and hyperparameters. Another file, in `folder`/env_steps, has
// the curves of growth/ or proof/ with the run's environment steps as the step. Resuming
// (last_round >= 0) starts new files whose session start makes readers drop the points of earlier
// ones above last_round.
EsStatus es_tensorboard_sink_open(const char *folder, int64_t last_round, EsSink *sink);

// The latest value of every metric, and counters of events by type, as Prometheus text over HTTP
// at /metrics. `address` is "127.0.0.1" unless the user asked for another; port 0 takes a free one.
// *port_taken receives the port. Characters outside [a-zA-Z0-9_:] become underscores in names; all
// begin with esper_, tolaria_, kasmina_ or tamiyo_. Help texts and types come from one table.
// `labels` is a list like run="demo",kind="hosts", nullable.
EsStatus es_prometheus_sink_open(const char *address, int port, const char *labels, int *port_taken,
                                 EsSink *sink);

// Versions of the libraries behind the sinks at run time, NULL when one is not built in.
const char *es_sqlite_sink_version(void);
const char *es_prometheus_sink_version(void);

// Progress for a person: one line per round. On a terminal every complete round leaves its line,
// and that of the current round is drawn again in place; elsewhere plain lines, at most one per
// `seconds_between`, and one every thirty seconds of a round that lasts longer.
typedef struct EsConsoleOptions {
    int descriptor;         // borrowed; a write that blocks holds up this sink alone
    int is_terminal;        // may move the cursor
    int n_rounds;           // of the whole run, for the time left
    int first_round;        // rounds done before this session
    double seconds_between; // plain lines; 0 = every round
} EsConsoleOptions;
EsStatus es_console_sink_open(const EsConsoleOptions *options, EsSink *sink);

#endif
