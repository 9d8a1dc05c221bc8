// Damaged packets: valid ones of every type, changed at random, must be refused or be readable
// whole. Shared by event_test and the packet_fuzz program.
#ifndef ES_TESTS_PACKET_FUZZ_H
#define ES_TESTS_PACKET_FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "telemetry/event.h"

#define FUZZ_MAX_ROWS  4
#define FUZZ_MAX_CELLS 256

typedef struct FuzzCounts {
    int64_t n_opened, n_refused;
    int64_t n_violations; // each is printed
} FuzzCounts;

typedef struct FuzzPacket {
    unsigned char *data; // owned
    size_t bytes;
} FuzzPacket;

// splitmix64 (Steele, Lea, Flood, 2014)
static uint64_t draw_fuzz(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

// Cells of rows with some of everything: numbers, missing ones, short, empty and missing texts.
static void fill_fuzz_rows(EsEventType type, int64_t n_rows, uint64_t *state, uint64_t *cells) {
    static const char *const texts[] = {"", "r0c1", "conv_light", "na\xc3\xafve", NULL};
    const EsEventSchema *schema = es_event_schema(type);
    for (int64_t i = 0; i < n_rows * schema->n_columns; i++) {
        EsColumnType column = schema->columns[i % schema->n_columns].type;
        uint64_t random = draw_fuzz(state);
        double real = random % 4 == 0 ? es_missing_real() : (double)random * 1e-9;
        int64_t integer = random % 4 == 0 ? ES_MISSING_INT : (int64_t)random;
        if (column == ES_COLUMN_TEXT) {
            memcpy(&cells[i], &texts[random % 5], sizeof cells[i]);
        } else if (column == ES_COLUMN_REAL) {
            memcpy(&cells[i], &real, sizeof cells[i]);
        } else {
            memcpy(&cells[i], &integer, sizeof cells[i]);
        }
    }
}

static FuzzPacket create_fuzz_packet(EsEventType type, int64_t n_rows, uint64_t *state) {
    uint64_t cells[FUZZ_MAX_CELLS];
    fill_fuzz_rows(type, n_rows, state, cells);
    FuzzPacket packet = {.bytes = es_packet_bytes(type, cells, n_rows)};
    packet.data = malloc(packet.bytes);
    EsPacketHeader header = {.unix_us = 1, .sequence = 2, .round = 3, .step = 4};
    if (packet.data == NULL || packet.bytes == 0) {
        fprintf(stderr, "no packet of %s\n", es_event_schema(type)->name);
        exit(1);
    }
    es_packet_encode(type, cells, n_rows, &header, packet.data);
    return packet;
}

// Change the packet in place; *bytes may shrink, as when a file was cut off.
static void damage_packet(unsigned char *data, size_t *bytes, uint64_t *state) {
    static const uint32_t corner_values[] = {0,          1,          7,          48, 0x7fffffff,
                                             0x80000000, 0xffffffff, 0xfffffff8, 64, 65536};
    uint64_t random = draw_fuzz(state);
    size_t at = (size_t)(draw_fuzz(state) % *bytes);
    switch (random % 5) {
    case 0:
        data[at] = (unsigned char)(random >> 8);
        break;
    case 1:
        data[at] ^= (unsigned char)(1u << (random >> 8) % 8);
        break;
    case 2:
        for (uint64_t i = 0; i < 2 + (random >> 8) % 15; i++) {
            data[draw_fuzz(state) % *bytes] = (unsigned char)draw_fuzz(state);
        }
        break;
    case 3:
        memcpy(data + at / 4 * 4, &corner_values[(random >> 8) % 10], sizeof(uint32_t));
        break;
    default:
        *bytes = at;
        break;
    }
}

// Read every cell; texts must lie inside the packet and carry no zero byte.
static int is_readable(const EsPacket *packet, size_t bytes) {
    const char *begin = (const char *)packet->header;
    for (int64_t row = 0; row < packet->n_rows; row++) {
        for (int column = 0; column < packet->schema->n_columns; column++) {
            EsColumnType type = packet->schema->columns[column].type;
            if (type == ES_COLUMN_INT) {
                es_packet_int(packet, row, column);
            } else if (type == ES_COLUMN_REAL) {
                es_packet_real(packet, row, column);
            } else {
                size_t length = 0;
                const char *text = es_packet_text(packet, row, column, &length);
                if (text != NULL &&
                    (text < begin || length > bytes || (size_t)(text - begin) > bytes - length ||
                     memchr(text, 0, length) != NULL)) {
                    return 0;
                }
            }
        }
    }
    return packet->header->bytes <= bytes;
}

// Damage and open `n_rounds` packets. The memory of each is exactly as large as the packet is said
// to be, so that AddressSanitizer sees the first byte read beyond it.
static FuzzCounts fuzz_packets(int64_t n_rounds, uint64_t seed) {
    FuzzCounts counts = {0};
    uint64_t state = seed;
    FuzzPacket originals[ES_EVENT_COUNT * FUZZ_MAX_ROWS];
    for (int i = 0; i < ES_EVENT_COUNT * FUZZ_MAX_ROWS; i++) {
        originals[i] =
            create_fuzz_packet((EsEventType)(i / FUZZ_MAX_ROWS), 1 + i % FUZZ_MAX_ROWS, &state);
    }
    for (int64_t round = 0; round < n_rounds; round++) {
        const FuzzPacket *original =
            &originals[draw_fuzz(&state) % (ES_EVENT_COUNT * FUZZ_MAX_ROWS)];
        unsigned char *damaged = malloc(original->bytes);
        memcpy(damaged, original->data, original->bytes);
        size_t bytes = original->bytes;
        damage_packet(damaged, &bytes, &state);
        unsigned char *exact = malloc(bytes > 0 ? bytes : 1);
        memcpy(exact, damaged, bytes);
        EsPacket packet;
        if (es_packet_open(exact, bytes, &packet) != ES_STATUS_OK) {
            counts.n_refused++;
        } else if (is_readable(&packet, bytes)) {
            counts.n_opened++;
        } else {
            counts.n_violations++;
            printf("seed %llu, round %lld: an opened packet cannot be read whole\n",
                   (unsigned long long)seed, (long long)round);
        }
        free(exact);
        free(damaged);
    }
    for (int i = 0; i < ES_EVENT_COUNT * FUZZ_MAX_ROWS; i++) {
        free(originals[i].data);
    }
    return counts;
}

#endif
