// Events: typed rows, and the packet of bytes in which they travel to the sinks.
//
// One packet holds all rows of one event: a step of 64 environments is one packet of 64 rows. A row
// is a struct made from event_schema.h; in the packet it is the same row of 8-byte cells, with
// texts moved to the end. Queue and spill file hold packets; es_packet_open checks every byte
// before a reader may trust it.
//
//     EsEnvSteppedEvent rows[2] = {{.env = 0, ...}, {.env = 1, ...}};
//     es_emit_env_stepped(hub, (EsEventTime){.round = 3, .step = 10}, rows, 2);
#ifndef ES_TELEMETRY_EVENT_H
#define ES_TELEMETRY_EVENT_H

#include <stddef.h>
#include <stdint.h>

#include "esper/status.h"
#include "telemetry/event_schema.h"

typedef enum EsEventType {
#define X(NAME, Name, name, delivery, level, pace, help) ES_EVENT_##NAME,
    ES_EVENT_LIST(X)
#undef X
        ES_EVENT_COUNT
} EsEventType;

typedef enum EsEventDelivery { ES_DELIVERY_LOSSY, ES_DELIVERY_KEPT } EsEventDelivery;
typedef enum EsEventPace { ES_PACE_ALWAYS, ES_PACE_STRIDED } EsEventPace;
typedef enum EsTelemetryLevel {
    ES_LEVEL_OFF,
    ES_LEVEL_MINIMAL,
    ES_LEVEL_NORMAL,
    ES_LEVEL_DEBUG
} EsTelemetryLevel;
typedef enum EsColumnType { ES_COLUMN_INT, ES_COLUMN_REAL, ES_COLUMN_TEXT } EsColumnType;

// --- rows ---

#define ES_CELL_TYPE_INT    int64_t
#define ES_CELL_TYPE_REAL   double
#define ES_CELL_TYPE_TEXT   const char *
#define C(TYPE, name, help) ES_CELL_TYPE_##TYPE name;
#define X(NAME, Name, name, delivery, level, pace, help)                                           \
    typedef struct Es##Name##Event {                                                               \
        ES_##NAME##_COLUMNS(C)                                                                     \
    } Es##Name##Event;
ES_EVENT_LIST(X)
#undef X
#undef C

// A number by name, without labels.
static inline EsMetricEvent es_metric(const char *name, double value) {
    return (EsMetricEvent){.name = name, .value = value};
}

// An integer that was not measured.
#define ES_MISSING_INT INT64_MIN

// A number that was not measured: a NaN of its own, unlike one that was computed.
double es_missing_real(void);
int es_is_missing_real(double value);

// --- the schema at run time ---

typedef struct EsEventColumn {
    EsColumnType type;
    const char *name, *help;
} EsEventColumn;

typedef struct EsEventSchema {
    const char *name; // "env_stepped"
    const char *help;
    EsEventDelivery delivery;
    EsTelemetryLevel level;
    EsEventPace pace;
    const EsEventColumn *columns;
    int n_columns;
} EsEventSchema;

const EsEventSchema *es_event_schema(EsEventType type);

// --- packets ---

// Time of an event within the run. Rounds count from 1; events before the first have round 0.
typedef struct EsEventTime {
    int64_t round;
    int64_t step; // in the round, from 0; -1 for events of a whole round
} EsEventTime;

// The start of a packet, little-endian as in memory. Cells [n_rows][n_columns] of 8 bytes follow,
// then the texts; a text cell is its offset from the packet's start (low 32 bits) and its length in
// bytes (high 32), or -1 when missing. Texts follow one another in the order of their cells, carry
// no zero byte, and are not checked to be UTF-8. The packet is padded to 8 bytes with zeros.
typedef struct EsPacketHeader {
    uint32_t magic;      // ES_PACKET_MAGIC
    uint16_t version;    // ES_EVENT_SCHEMA_VERSION
    uint16_t type;       // EsEventType
    uint32_t bytes;      // of the whole packet
    uint32_t n_rows;     // at least 1
    int64_t unix_us;     // when it was emitted
    int64_t sequence;    // position in the order of emission, from 1 in each session
    int64_t round, step; // EsEventTime
} EsPacketHeader;

#define ES_PACKET_MAGIC     0x4b505345u // "ESPK"
#define ES_PACKET_MAX_BYTES (64u << 20)
#define ES_PACKET_MAX_TEXT  65535 // longer texts are cut, at a whole UTF-8 character

// Bytes the rows would take; 0 when that is above ES_PACKET_MAX_BYTES or n_rows < 1.
size_t es_packet_bytes(EsEventType type, const void *rows, int64_t n_rows);

// Write a packet of es_packet_bytes() bytes at `into` (8-byte aligned). The caller has filled in
// everything it knows in *header; magic, version, type, bytes and n_rows are set here.
void es_packet_encode(EsEventType type, const void *rows, int64_t n_rows,
                      const EsPacketHeader *header, void *into);

// A checked packet; borrows its bytes.
typedef struct EsPacket {
    const EsPacketHeader *header;
    const EsEventSchema *schema;
    EsEventType type;
    int64_t n_rows;
} EsPacket;

// Check that `bytes` of memory (8-byte aligned) begin with a whole, well-formed packet. INPUT says
// the defect and its byte.
EsStatus es_packet_open(const void *data, size_t bytes, EsPacket *packet);

// Cells; the column's type must match. *bytes of text are borrowed and not ended by 0; NULL when it
// is missing.
int64_t es_packet_int(const EsPacket *packet, int64_t row, int column);
double es_packet_real(const EsPacket *packet, int64_t row, int column);
const char *es_packet_text(const EsPacket *packet, int64_t row, int column, size_t *bytes);

// Position of a column by name, -1 when there is none.
int es_event_column(EsEventType type, const char *name);

#endif
