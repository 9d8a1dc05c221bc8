// Schemas of events from the list in event_schema.h, and packets: rows encoded column by column,
// and opened again with every offset checked.
#include "telemetry/event.h"

#include <string.h>

#include "base/macros.h"

_Static_assert(sizeof(const char *) == 8, "a text cell of a row struct is one 8-byte pointer");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "packets are little-endian as in memory");
_Static_assert(sizeof(EsPacketHeader) == 48, "the header has no padding of the compiler's");

#define CELL_BYTES 8u

// not measured: a quiet NaN whose payload no arithmetic produces
#define MISSING_REAL_BITS 0x7ff8000045534d56u
#define MISSING_TEXT_CELL UINT64_MAX

// --- schema ---

#define C(TYPE, column_name, column_help) {ES_COLUMN_##TYPE, #column_name, column_help},
#define X(NAME, Name, name, delivery, level, pace, help)                                           \
    static const EsEventColumn name##_columns[] = {ES_##NAME##_COLUMNS(C)};                        \
    _Static_assert(sizeof(Es##Name##Event) == ES_COUNT_OF(name##_columns) * CELL_BYTES,            \
                   "a row of " #name " is its cells and nothing else");
ES_EVENT_LIST(X)
#undef X
#undef C

static const EsEventSchema schemas[ES_EVENT_COUNT] = {
#define X(NAME, Name, event_name, event_delivery, event_level, event_pace, event_help)             \
    {.name = #event_name,                                                                          \
     .help = event_help,                                                                           \
     .delivery = ES_DELIVERY_##event_delivery,                                                     \
     .level = ES_LEVEL_##event_level,                                                              \
     .pace = ES_PACE_##event_pace,                                                                 \
     .columns = event_name##_columns,                                                              \
     .n_columns = (int)ES_COUNT_OF(event_name##_columns)},
    ES_EVENT_LIST(X)
#undef X
};

const EsEventSchema *es_event_schema(EsEventType type) {
    ES_ASSERT((unsigned)type < ES_EVENT_COUNT);
    return &schemas[type];
}

int es_event_column(EsEventType type, const char *name) {
    const EsEventSchema *schema = es_event_schema(type);
    for (int i = 0; i < schema->n_columns; i++) {
        if (strcmp(schema->columns[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

// --- missing numbers ---

double es_missing_real(void) {
    uint64_t bits = MISSING_REAL_BITS;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

int es_is_missing_real(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits == MISSING_REAL_BITS;
}

// --- encoding ---

// Length of the text as it travels: cut to ES_PACKET_MAX_TEXT, in front of the character that would
// be torn. Bytes that are not UTF-8 are cut anywhere.
static size_t cut_text(const char *text) {
    size_t length = strnlen(text, ES_PACKET_MAX_TEXT + 1);
    if (length <= ES_PACKET_MAX_TEXT) {
        return length;
    }
    for (size_t cut = ES_PACKET_MAX_TEXT; cut + 4 > ES_PACKET_MAX_TEXT; cut--) {
        if (((unsigned char)text[cut] & 0xc0) != 0x80) {
            return cut;
        }
    }
    return ES_PACKET_MAX_TEXT;
}

static const char *row_text(const void *rows, size_t cell) {
    const char *text;
    memcpy(&text, (const unsigned char *)rows + cell * CELL_BYTES, sizeof text);
    return text;
}

static size_t align_to_cell(size_t bytes) {
    return (bytes + CELL_BYTES - 1) / CELL_BYTES * CELL_BYTES;
}

size_t es_packet_bytes(EsEventType type, const void *rows, int64_t n_rows) {
    const EsEventSchema *schema = es_event_schema(type);
    size_t n_columns = (size_t)schema->n_columns;
    if (n_rows < 1 || (uint64_t)n_rows > ES_PACKET_MAX_BYTES / (n_columns * CELL_BYTES)) {
        return 0;
    }
    size_t bytes = sizeof(EsPacketHeader) + (size_t)n_rows * n_columns * CELL_BYTES;
    for (size_t column = 0; column < n_columns; column++) {
        if (schema->columns[column].type != ES_COLUMN_TEXT) {
            continue;
        }
        for (size_t row = 0; row < (size_t)n_rows; row++) {
            const char *text = row_text(rows, row * n_columns + column);
            bytes += text != NULL ? cut_text(text) : 0;
            if (bytes > ES_PACKET_MAX_BYTES) {
                return 0;
            }
        }
    }
    bytes = align_to_cell(bytes);
    return bytes <= ES_PACKET_MAX_BYTES ? bytes : 0;
}

static int has_texts(const EsEventSchema *schema) {
    for (int i = 0; i < schema->n_columns; i++) {
        if (schema->columns[i].type == ES_COLUMN_TEXT) {
            return 1;
        }
    }
    return 0;
}

// Move the texts of all rows behind the cells, in the order of the cells; returns where they end.
static size_t encode_texts(const EsEventSchema *schema, const void *rows, size_t n_rows,
                           unsigned char *packet) {
    size_t n_columns = (size_t)schema->n_columns;
    size_t end = sizeof(EsPacketHeader) + n_rows * n_columns * CELL_BYTES;
    if (!has_texts(schema)) {
        return end;
    }
    for (size_t row = 0; row < n_rows; row++) {
        for (size_t column = 0; column < n_columns; column++) {
            if (schema->columns[column].type != ES_COLUMN_TEXT) {
                continue;
            }
            size_t cell = row * n_columns + column;
            const char *text = row_text(rows, cell);
            uint64_t value = MISSING_TEXT_CELL;
            if (text != NULL) {
                size_t length = cut_text(text);
                value = (uint64_t)length << 32 | end;
                memcpy(packet + end, text, length);
                end += length;
            }
            memcpy(packet + sizeof(EsPacketHeader) + cell * CELL_BYTES, &value, sizeof value);
        }
    }
    return end;
}

void es_packet_encode(EsEventType type, const void *rows, int64_t n_rows,
                      const EsPacketHeader *header, void *into) {
    const EsEventSchema *schema = es_event_schema(type);
    ES_ASSERT(n_rows >= 1 && (uintptr_t)into % CELL_BYTES == 0);
    unsigned char *packet = into;
    size_t cell_bytes = (size_t)n_rows * (size_t)schema->n_columns * CELL_BYTES;
    memcpy(packet + sizeof(EsPacketHeader), rows, cell_bytes);
    size_t end = encode_texts(schema, rows, (size_t)n_rows, packet);
    size_t bytes = align_to_cell(end);
    ES_ASSERT(bytes <= ES_PACKET_MAX_BYTES);
    memset(packet + end, 0, bytes - end);

    EsPacketHeader whole = *header;
    whole.magic = ES_PACKET_MAGIC;
    whole.version = ES_EVENT_SCHEMA_VERSION;
    whole.type = (uint16_t)type;
    whole.bytes = (uint32_t)bytes;
    whole.n_rows = (uint32_t)n_rows;
    memcpy(packet, &whole, sizeof whole);
}

// --- opening ---

static uint64_t load_cell(const EsPacketHeader *header, size_t cell) {
    uint64_t value;
    memcpy(&value, (const unsigned char *)(header + 1) + cell * CELL_BYTES, sizeof value);
    return value;
}

static EsStatus check_header(const EsPacketHeader *header, size_t bytes) {
    if (header->magic != ES_PACKET_MAGIC) {
        return ES_FAIL(INPUT, "not a packet: byte 0 begins with 0x%08x, expected 0x%08x",
                       (unsigned)header->magic, (unsigned)ES_PACKET_MAGIC);
    }
    if (header->version != ES_EVENT_SCHEMA_VERSION) {
        return ES_FAIL(INPUT, "packet of schema version %u at byte 4, this program reads %u",
                       (unsigned)header->version, (unsigned)ES_EVENT_SCHEMA_VERSION);
    }
    if (header->type >= ES_EVENT_COUNT) {
        return ES_FAIL(INPUT, "packet of unknown event type %u at byte 6, there are %u",
                       (unsigned)header->type, (unsigned)ES_EVENT_COUNT);
    }
    if (header->bytes < sizeof *header || header->bytes > ES_PACKET_MAX_BYTES ||
        header->bytes % CELL_BYTES != 0) {
        return ES_FAIL(INPUT, "packet gives its size at byte 8 as %u, which no packet has",
                       (unsigned)header->bytes);
    }
    if (header->bytes > bytes) {
        return ES_FAIL(INPUT, "packet of %u bytes is cut off after byte %zu",
                       (unsigned)header->bytes, bytes);
    }
    // at most 2^32 rows of a few dozen columns: the product fits
    uint64_t cell_bytes =
        (uint64_t)header->n_rows * (uint64_t)schemas[header->type].n_columns * CELL_BYTES;
    if (header->n_rows < 1 || cell_bytes > header->bytes - sizeof *header) {
        return ES_FAIL(INPUT, "packet gives %u rows of %s at byte 12, but has %u bytes",
                       (unsigned)header->n_rows, schemas[header->type].name,
                       (unsigned)header->bytes);
    }
    return ES_STATUS_OK;
}

// Texts must follow one another in the order of their cells. So no two overlap, and reading all of
// them is linear in the packet's size for any bytes.
static EsStatus check_text(const EsPacketHeader *header, size_t cell, size_t *end) {
    uint64_t value = load_cell(header, cell);
    if (value == MISSING_TEXT_CELL) {
        return ES_STATUS_OK;
    }
    size_t at_byte = sizeof *header + cell * CELL_BYTES;
    size_t offset = (size_t)(value & UINT32_MAX), length = (size_t)(value >> 32);
    if (offset != *end) {
        return ES_FAIL(INPUT, "text cell at byte %zu of a packet points to byte %zu, expected %zu",
                       at_byte, offset, *end);
    }
    if (length > ES_PACKET_MAX_TEXT || length > header->bytes - offset) {
        return ES_FAIL(INPUT, "text cell at byte %zu of a packet is %zu bytes long, %zu are left",
                       at_byte, length, header->bytes - offset);
    }
    const unsigned char *text = (const unsigned char *)header + offset;
    const unsigned char *zero = memchr(text, 0, length);
    if (zero != NULL) {
        return ES_FAIL(INPUT, "text of a packet has a zero at byte %zu",
                       offset + (size_t)(zero - text));
    }
    *end += length;
    return ES_STATUS_OK;
}

static EsStatus check_texts(const EsPacketHeader *header) {
    const EsEventSchema *schema = &schemas[header->type];
    size_t n_columns = (size_t)schema->n_columns;
    size_t end = sizeof *header + (size_t)header->n_rows * n_columns * CELL_BYTES;
    size_t n_text_rows = has_texts(schema) ? header->n_rows : 0;
    for (size_t row = 0; row < n_text_rows; row++) {
        for (size_t column = 0; column < n_columns; column++) {
            if (schema->columns[column].type == ES_COLUMN_TEXT) {
                ES_TRY(check_text(header, row * n_columns + column, &end));
            }
        }
    }
    if (align_to_cell(end) != header->bytes) {
        return ES_FAIL(INPUT, "packet of %u bytes has %zu after its texts end at byte %zu",
                       (unsigned)header->bytes, header->bytes - end, end);
    }
    for (; end < header->bytes; end++) {
        if (((const unsigned char *)header)[end] != 0) {
            return ES_FAIL(INPUT, "padding of a packet is not zero at byte %zu", end);
        }
    }
    return ES_STATUS_OK;
}

EsStatus es_packet_open(const void *data, size_t bytes, EsPacket *packet) {
    ES_ASSERT((uintptr_t)data % CELL_BYTES == 0);
    if (bytes < sizeof(EsPacketHeader)) {
        return ES_FAIL(INPUT, "packet is cut off inside its header, after byte %zu", bytes);
    }
    const EsPacketHeader *header = data;
    ES_TRY(check_header(header, bytes));
    ES_TRY(check_texts(header));
    packet->header = header;
    packet->type = (EsEventType)header->type;
    packet->schema = &schemas[header->type];
    packet->n_rows = header->n_rows;
    return ES_STATUS_OK;
}

// --- cells ---

static uint64_t read_cell(const EsPacket *packet, int64_t row, int column, EsColumnType type) {
    ES_ASSERT(row >= 0 && row < packet->n_rows && column >= 0 &&
              column < packet->schema->n_columns);
    ES_ASSERT(packet->schema->columns[column].type == type);
    return load_cell(packet->header,
                     (size_t)row * (size_t)packet->schema->n_columns + (size_t)column);
}

int64_t es_packet_int(const EsPacket *packet, int64_t row, int column) {
    return (int64_t)read_cell(packet, row, column, ES_COLUMN_INT);
}

double es_packet_real(const EsPacket *packet, int64_t row, int column) {
    uint64_t bits = read_cell(packet, row, column, ES_COLUMN_REAL);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

const char *es_packet_text(const EsPacket *packet, int64_t row, int column, size_t *bytes) {
    uint64_t value = read_cell(packet, row, column, ES_COLUMN_TEXT);
    if (value == MISSING_TEXT_CELL) {
        *bytes = 0;
        return NULL;
    }
    *bytes = (size_t)(value >> 32);
    return (const char *)packet->header + (value & UINT32_MAX);
}
