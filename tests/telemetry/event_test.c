#include "telemetry/event.h"

#include "es_test.h"
#include "packet_fuzz.h"

// bytes of a small valid packet: one row of metric, name "abc"
enum { METRIC_NAME = 0, METRIC_VALUE = 1, METRIC_BYTES = 48 + 40 + 8 };

static void *copy_packet(EsEventType type, const void *rows, int64_t n_rows, size_t *bytes) {
    *bytes = es_packet_bytes(type, rows, n_rows);
    void *data = malloc(*bytes);
    EsPacketHeader header = {.unix_us = 11, .sequence = 12, .round = 13, .step = -1};
    es_packet_encode(type, rows, n_rows, &header, data);
    return data;
}

TEST(schema_matches_the_lists) {
    EXPECT_TEXT(es_event_schema(ES_EVENT_ENV_STEPPED)->name, "env_stepped");
    EXPECT_EQ(es_event_schema(ES_EVENT_ENV_STEPPED)->delivery, ES_DELIVERY_LOSSY);
    EXPECT_EQ(es_event_schema(ES_EVENT_ENV_STEPPED)->pace, ES_PACE_STRIDED);
    EXPECT_EQ(es_event_schema(ES_EVENT_ENV_STEPPED)->level, ES_LEVEL_NORMAL);
    EXPECT_EQ(es_event_schema(ES_EVENT_EPISODE_OUTCOME)->delivery, ES_DELIVERY_KEPT);
    EXPECT_EQ(es_event_schema(ES_EVENT_METRIC)->n_columns, 5);
    EXPECT_EQ(es_event_schema(ES_EVENT_METRIC)->columns[METRIC_NAME].type, ES_COLUMN_TEXT);
    EXPECT_EQ(es_event_column(ES_EVENT_METRIC, "value"), METRIC_VALUE);
    EXPECT_EQ(es_event_column(ES_EVENT_METRIC, "valu"), -1);
    for (int a = 0; a < ES_EVENT_COUNT; a++) {
        const EsEventSchema *schema = es_event_schema((EsEventType)a);
        for (int b = 0; b < a; b++) {
            EXPECT(strcmp(schema->name, es_event_schema((EsEventType)b)->name) != 0);
        }
        for (int i = 0; i < schema->n_columns; i++) {
            // the first of that name: fails when a name occurs twice
            EXPECT_EQ(es_event_column((EsEventType)a, schema->columns[i].name), i);
        }
    }
}

TEST(missing_numbers_are_unlike_computed_ones) {
    EXPECT(isnan(es_missing_real()));
    EXPECT(es_is_missing_real(es_missing_real()));
    volatile double zero = 0;
    EXPECT(!es_is_missing_real(zero / zero));
    EXPECT(!es_is_missing_real(nan("")));
    EXPECT(!es_is_missing_real((double)INFINITY));
    EXPECT(!es_is_missing_real(0));
}

static void expect_cell(const EsPacket *packet, int64_t row, int column, uint64_t cell) {
    if (packet->schema->columns[column].type == ES_COLUMN_INT) {
        EXPECT_EQ(es_packet_int(packet, row, column), (int64_t)cell);
    } else if (packet->schema->columns[column].type == ES_COLUMN_REAL) {
        double value = es_packet_real(packet, row, column);
        EXPECT(memcmp(&value, &cell, sizeof cell) == 0);
    } else {
        const char *expected = NULL;
        memcpy(&expected, &cell, sizeof expected);
        size_t length = 99;
        const char *text = es_packet_text(packet, row, column, &length);
        EXPECT_EQ(text == NULL, expected == NULL);
        EXPECT_EQ(length, expected != NULL ? strlen(expected) : 0);
        EXPECT(text == NULL || memcmp(text, expected, length) == 0);
    }
}

TEST(every_type_survives_the_round_trip) {
    uint64_t state = 7;
    for (int type = 0; type < ES_EVENT_COUNT; type++) {
        for (int64_t n_rows = 1; n_rows <= FUZZ_MAX_ROWS; n_rows++) {
            uint64_t cells[FUZZ_MAX_CELLS];
            fill_fuzz_rows((EsEventType)type, n_rows, &state, cells);
            size_t bytes = 0;
            void *data = copy_packet((EsEventType)type, cells, n_rows, &bytes);
            EsPacket packet;
            REQUIRE_OK(es_packet_open(data, bytes, &packet));
            EXPECT_EQ(packet.type, type);
            EXPECT_EQ(packet.n_rows, n_rows);
            EXPECT_EQ(packet.header->bytes, bytes);
            EXPECT_EQ(packet.header->unix_us, 11);
            EXPECT_EQ(packet.header->sequence, 12);
            EXPECT_EQ(packet.header->round, 13);
            EXPECT_EQ(packet.header->step, -1);
            for (int64_t row = 0; row < n_rows; row++) {
                for (int column = 0; column < packet.schema->n_columns; column++) {
                    expect_cell(&packet, row, column,
                                cells[row * packet.schema->n_columns + column]);
                }
            }
            free(data);
        }
    }
}

TEST(typed_rows_have_the_layout_of_the_schema) {
    EsEpisodeOutcomeEvent rows[2] = {
        {.env = 5, .arm = "B", .final_accuracy = 61.5, .final_loss = es_missing_real()},
        {.env = ES_MISSING_INT, .arm = NULL, .n_rollbacks = 3}};
    size_t bytes = 0;
    void *data = copy_packet(ES_EVENT_EPISODE_OUTCOME, rows, 2, &bytes);
    EsPacket packet;
    REQUIRE_OK(es_packet_open(data, bytes, &packet));
    size_t length = 0;
    EXPECT_EQ(es_packet_int(&packet, 0, es_event_column(packet.type, "env")), 5);
    EXPECT_EQ(es_packet_int(&packet, 1, es_event_column(packet.type, "env")), ES_MISSING_INT);
    EXPECT_EQ(*es_packet_text(&packet, 0, es_event_column(packet.type, "arm"), &length), 'B');
    EXPECT_EQ(length, 1);
    EXPECT(es_packet_text(&packet, 1, es_event_column(packet.type, "arm"), &length) == NULL);
    EXPECT_NEAR(es_packet_real(&packet, 0, es_event_column(packet.type, "final_accuracy")), 61.5,
                0);
    EXPECT(
        es_is_missing_real(es_packet_real(&packet, 0, es_event_column(packet.type, "final_loss"))));
    EXPECT_EQ(es_packet_int(&packet, 1, es_event_column(packet.type, "n_rollbacks")), 3);
    free(data);
}

// Length of a text of n_before plain bytes and `tail`, after the round trip.
static size_t length_after_cut(size_t n_before, const char *tail) {
    char *text = malloc(n_before + strlen(tail) + 1);
    memset(text, 'a', n_before);
    memcpy(text + n_before, tail, strlen(tail) + 1);
    EsMetricEvent row = {.name = text, .value = 1};
    size_t bytes = 0, length = 0;
    void *data = copy_packet(ES_EVENT_METRIC, &row, 1, &bytes);
    EsPacket packet;
    REQUIRE_OK(es_packet_open(data, bytes, &packet));
    const char *cut = es_packet_text(&packet, 0, METRIC_NAME, &length);
    EXPECT(memcmp(cut, text, length) == 0);
    free(data);
    free(text);
    return length;
}

TEST(long_texts_are_cut_at_a_whole_character) {
    const size_t limit = ES_PACKET_MAX_TEXT;
    EXPECT_EQ(length_after_cut(limit - 1, "b"), limit);
    EXPECT_EQ(length_after_cut(limit, "b"), limit);
    EXPECT_EQ(length_after_cut(limit + 1000, ""), limit);
    // two, three and four bytes, torn at each place, and whole
    EXPECT_EQ(length_after_cut(limit - 1, "\xc3\xa9z"), limit - 1);
    EXPECT_EQ(length_after_cut(limit - 2, "\xc3\xa9z"), limit);
    EXPECT_EQ(length_after_cut(limit - 1, "\xe2\x82\xacz"), limit - 1);
    EXPECT_EQ(length_after_cut(limit - 2, "\xe2\x82\xacz"), limit - 2);
    EXPECT_EQ(length_after_cut(limit - 3, "\xe2\x82\xacz"), limit);
    EXPECT_EQ(length_after_cut(limit - 3, "\xf0\x9f\x8c\xb1z"), limit - 3);
    EXPECT_EQ(length_after_cut(limit - 4, "\xf0\x9f\x8c\xb1z"), limit);
    // not UTF-8: no lead byte within reach
    EXPECT_EQ(length_after_cut(limit - 5, "\x80\x80\x80\x80\x80\x80\x80\x80"), limit);
}

TEST(sizes_beyond_the_limit_are_refused) {
    EsMetricEvent row = {.name = "abc", .value = 1};
    EXPECT_EQ(es_packet_bytes(ES_EVENT_METRIC, &row, 1), METRIC_BYTES);
    EXPECT_EQ(es_packet_bytes(ES_EVENT_METRIC, &row, 0), 0);
    EXPECT_EQ(es_packet_bytes(ES_EVENT_METRIC, &row, -1), 0);
    // refused by their number alone: there is only one row to read
    EXPECT_EQ(es_packet_bytes(ES_EVENT_METRIC, &row, ES_PACKET_MAX_BYTES / 40 + 1), 0);
    EXPECT_EQ(es_packet_bytes(ES_EVENT_METRIC, &row, INT64_MAX), 0);
    char *text = malloc(ES_PACKET_MAX_TEXT + 1);
    memset(text, 'a', ES_PACKET_MAX_TEXT);
    text[ES_PACKET_MAX_TEXT] = '\0';
    static EsMetricEvent rows[1024];
    for (int i = 0; i < 1024; i++) {
        rows[i] = (EsMetricEvent){.name = text};
    }
    // 65,535 of text and 40 of cells per row: 1023 rows take 67,083,273 bytes with the header
    EXPECT_EQ(es_packet_bytes(ES_EVENT_METRIC, rows, 1023), (48 + 1023 * 65575 + 7) / 8 * 8);
    EXPECT_EQ(es_packet_bytes(ES_EVENT_METRIC, rows, 1024), 0);
    free(text);
}

// Damage one field of the small packet and see what is said.
static void expect_refusal(size_t at, const void *value, size_t value_bytes, const char *message) {
    EsMetricEvent row = {.name = "abc", .value = 1};
    size_t bytes = 0;
    unsigned char *data = copy_packet(ES_EVENT_METRIC, &row, 1, &bytes);
    memcpy(data + at, value, value_bytes);
    EsPacket packet = {0};
    EXPECT_STATUS(es_packet_open(data, bytes, &packet), INPUT);
    EXPECT_CONTAINS(es_status_detail(), message);
    EXPECT(packet.header == NULL);
    free(data);
}

static void expect_refusal_u32(size_t at, uint32_t value, const char *message) {
    expect_refusal(at, &value, sizeof value, message);
}

TEST(hostile_bytes_are_refused_with_their_place) {
    expect_refusal_u32(0, 0x12345678, "byte 0 begins with 0x12345678");
    expect_refusal(4, "\xff\xff", 2, "schema version 65535 at byte 4");
    expect_refusal(6, "\xff\x7f", 2, "unknown event type 32767 at byte 6");
    expect_refusal_u32(8, 0, "size at byte 8 as 0");
    expect_refusal_u32(8, METRIC_BYTES - 1, "size at byte 8 as 95");
    expect_refusal_u32(8, 0xfffffff8, "size at byte 8 as 4294967288");
    expect_refusal_u32(8, METRIC_BYTES + 8, "cut off after byte 96");
    expect_refusal_u32(8, METRIC_BYTES - 8, "is 3 bytes long, 0 are left");
    expect_refusal_u32(12, 0, "0 rows of metric at byte 12");
    expect_refusal_u32(12, 2, "2 rows of metric at byte 12");
    expect_refusal_u32(12, 0xffffffff, "4294967295 rows");
    // the text cell: offset, then length
    expect_refusal_u32(48, 0, "at byte 48 of a packet points to byte 0, expected 88");
    expect_refusal_u32(48, 89, "points to byte 89");
    expect_refusal_u32(48, 0xffffffff, "points to byte 4294967295");
    expect_refusal_u32(52, 9, "is 9 bytes long, 8 are left");
    expect_refusal_u32(52, 0xfffffffe, "is 4294967294 bytes long");
    expect_refusal_u32(52, 4, "a zero at byte 91");
    expect_refusal(89, "\0", 1, "a zero at byte 89");
    expect_refusal(95, "x", 1, "padding of a packet is not zero at byte 95");
    // a missing text whose bytes are still there
    expect_refusal(48, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, "texts end at byte 88");
}

TEST(a_packet_that_is_cut_off_is_refused_at_every_length) {
    EsMetricEvent rows[2] = {{.name = "abc", .value = 1}, {.name = "d", .value = 2}};
    size_t bytes = 0;
    void *data = copy_packet(ES_EVENT_METRIC, rows, 2, &bytes);
    for (size_t n = 0; n < bytes; n++) {
        void *part = malloc(n > 0 ? n : 1);
        memcpy(part, data, n);
        EsPacket packet;
        EXPECT_STATUS(es_packet_open(part, n, &packet), INPUT);
        EXPECT_CONTAINS(es_status_detail(), "cut off");
        free(part);
    }
    // bytes behind it belong to the next one
    void *longer = calloc(1, bytes + 64);
    memcpy(longer, data, bytes);
    EsPacket packet;
    EXPECT_STATUS(es_packet_open(longer, bytes + 64, &packet), OK);
    EXPECT_EQ(packet.header->bytes, bytes);
    free(longer);
    free(data);
}

TEST(damaged_packets_are_refused_or_readable) {
    FuzzCounts counts = fuzz_packets(250000, 20240607);
    EXPECT_EQ(counts.n_violations, 0);
    // both happen often, else nothing was tested
    EXPECT(counts.n_opened > 25000);
    EXPECT(counts.n_refused > 25000);
    printf("%lld opened, %lld refused\n", (long long)counts.n_opened, (long long)counts.n_refused);
}
