// Readers of bytes that other programs made or a crash may have cut: image files, packets of events
// and what holds them, benchmark records, command lines.
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "bench/bench_suite.h"
#include "cli/options.h"
#include "data/dataset.h"
#include "data/image.h"
#include "data/inputs.h"
#include "fuzz.h"
#include "telemetry/sink.h"
#include "telemetry/spill.h"

// --- image files ---

// An input is files one after the other, each with its length in front, 4 bytes, cut to what is
// there.
static void take_file(const uint8_t **data, size_t *bytes, const char *name) {
    uint32_t length = 0;
    if (*bytes >= sizeof length) {
        memcpy(&length, *data, sizeof length);
        *data += sizeof length;
        *bytes -= sizeof length;
    }
    size_t taken = ES_MIN((size_t)length, *bytes);
    fuzz_file(name, *data, taken);
    *data += taken;
    *bytes -= taken;
}

static FuzzVerdict finish_dataset(EsDataset *dataset, EsStatus status) {
    FuzzVerdict verdict = fuzz_judge(status);
    if (verdict == FUZZ_ACCEPTED) {
        char text[ES_SHA256_TEXT_BYTES], description[512];
        es_dataset_fingerprint(dataset, text);
        es_dataset_describe(dataset, description, sizeof description);
        for (int64_t i = 0; i < dataset->n_images; i++) {
            FUZZ_CHECK(dataset->labels[i] < dataset->n_classes);
        }
    }
    es_dataset_destroy(dataset);
    return verdict;
}

static EsDatasetOptions options_of(const char *name) {
    static char folder[512];
    snprintf(folder, sizeof folder, "%s", fuzz_path(name));
    mkdir(folder, 0700);
    return (EsDatasetOptions){.folder = folder, .allows_short_files = 1};
}

FuzzVerdict fuzz_idx(const uint8_t *data, size_t bytes) {
    static const char *const names[] = {"idx/train-images-idx3-ubyte",
                                        "idx/train-labels-idx1-ubyte", "idx/t10k-images-idx3-ubyte",
                                        "idx/t10k-labels-idx1-ubyte"};
    EsDatasetOptions options = options_of("idx");
    EsDataset dataset = {.n_images = 0};
    for (size_t i = 0; i < ES_COUNT_OF(names); i++) {
        take_file(&data, &bytes, names[i]);
    }
    return finish_dataset(&dataset, es_dataset_load_idx(&dataset, &options));
}

FuzzVerdict fuzz_cifar10(const uint8_t *data, size_t bytes) {
    static const char *const names[] = {"cifar/data_batch_1.bin", "cifar/data_batch_2.bin",
                                        "cifar/data_batch_3.bin", "cifar/data_batch_4.bin",
                                        "cifar/data_batch_5.bin", "cifar/test_batch.bin"};
    EsDatasetOptions options = options_of("cifar");
    EsDataset dataset = {.n_images = 0};
    for (size_t i = 0; i < ES_COUNT_OF(names); i++) {
        take_file(&data, &bytes, names[i]);
    }
    return finish_dataset(&dataset, es_dataset_load_cifar10(&dataset, &options));
}

// Training images packed by gzip, beside plain files of 10 images of 2 x 2.
FuzzVerdict fuzz_idx_packed(const uint8_t *data, size_t bytes) {
    const uint8_t labels[18] = {0, 0, 8, 1, 0, 0, 0, 10};
    const uint8_t images[56] = {0, 0, 8, 3, 0, 0, 0, 10, 0, 0, 0, 2, 0, 0, 0, 2};
    EsDatasetOptions options = options_of("packed");
    EsDataset dataset = {.n_images = 0};
    fuzz_file("packed/train-images-idx3-ubyte.gz", data, bytes);
    fuzz_file("packed/train-labels-idx1-ubyte", labels, sizeof labels);
    fuzz_file("packed/t10k-images-idx3-ubyte", images, sizeof images);
    fuzz_file("packed/t10k-labels-idx1-ubyte", labels, sizeof labels);
    return finish_dataset(&dataset, es_dataset_load_idx(&dataset, &options));
}

FuzzVerdict fuzz_csv(const uint8_t *data, size_t bytes) {
    EsDatasetOptions options = {.seed = 1};
    EsDataset dataset = {.n_images = 0};
    const char *path = fuzz_file("table.csv", data, bytes);
    FuzzVerdict verdict = finish_dataset(&dataset, es_dataset_open(&dataset, path, &options, NULL));
    options.label = "0";
    finish_dataset(&dataset, es_dataset_open(&dataset, path, &options, NULL));
    return verdict;
}

// Inputs and labels, one array after the other.
FuzzVerdict fuzz_npy(const uint8_t *data, size_t bytes) {
    EsDatasetOptions options = {.seed = 1};
    EsDataset dataset = {.n_images = 0};
    char path[512];
    snprintf(path, sizeof path, "%s", fuzz_path("X.npy"));
    take_file(&data, &bytes, "X.npy");
    take_file(&data, &bytes, "y.npy");
    return finish_dataset(&dataset, es_dataset_open(&dataset, path, &options, NULL));
}

// Inputs for a network, to the end: finite numbers, every one with a name.
static FuzzVerdict read_inputs(const char *path, const EsInputShape *shape) {
    static float inputs[ES_INPUTS_MAX * 16];
    EsInputReader *reader = NULL;
    int64_t n = 1;
    EsStatus status = es_input_reader_open(path, shape, &reader);
    while (status == ES_STATUS_OK && n > 0) {
        status = es_input_reader_next(reader, ES_INPUTS_MAX, inputs, &n);
        for (int64_t i = 0; status == ES_STATUS_OK && i < n; i++) {
            FUZZ_CHECK(es_input_reader_name(reader, i)[0] != '\0');
            for (int k = 0; k < shape->n_channels * shape->size * shape->size; k++) {
                FUZZ_CHECK(isfinite(inputs[i * shape->n_channels * shape->size * shape->size + k]));
            }
        }
    }
    es_input_reader_close(reader);
    return fuzz_judge(status);
}

// As images, and as rows.
FuzzVerdict fuzz_input_array(const uint8_t *data, size_t bytes) {
    const EsInputShape images = {.n_channels = 1, .size = 4};
    const EsInputShape rows = {.is_rows = 1, .n_channels = 4, .size = 1};
    const char *path = fuzz_file("inputs.npy", data, bytes);
    FuzzVerdict verdict = read_inputs(path, &images), other = read_inputs(path, &rows);
    return ES_MAX(verdict, other);
}

// By place, and by name.
FuzzVerdict fuzz_input_table(const uint8_t *data, size_t bytes) {
    static const char *const names[] = {"width", "height"};
    EsInputShape rows = {.is_rows = 1, .n_channels = 2, .size = 1};
    const char *path = fuzz_file("inputs.csv", data, bytes);
    FuzzVerdict verdict = read_inputs(path, &rows);
    rows.column_names = names;
    FuzzVerdict other = read_inputs(path, &rows);
    return ES_MAX(verdict, other);
}

// The checksum of each chunk of a PNG file, so that a changed byte is refused for itself.
static void fit_checksums(uint8_t *png, size_t bytes) {
    for (size_t at = 8; bytes >= 12 && at <= bytes - 12;) {
        size_t length = (size_t)png[at] << 24 | (size_t)png[at + 1] << 16 |
                        (size_t)png[at + 2] << 8 | (size_t)png[at + 3];
        if (length > bytes - 12 - at) {
            return;
        }
        uint32_t crc = 0xffffffff;
        for (size_t i = at + 4; i < at + 8 + length; i++) {
            crc ^= png[i];
            for (int b = 0; b < 8; b++) {
                crc = crc & 1 ? 0xedb88320u ^ (crc >> 1) : crc >> 1;
            }
        }
        for (size_t k = 0; k < 4; k++) {
            png[at + 8 + length + k] = (uint8_t)(~crc >> (24 - 8 * k));
        }
        at += length + 12;
    }
}

FuzzVerdict fuzz_image_file(const uint8_t *data, size_t bytes) {
    uint8_t *copy = malloc(bytes + 1), planes[3 * 16 * 16];
    EsImage header, image;
    FUZZ_CHECK(copy != NULL);
    memcpy(copy, data, bytes);
    fit_checksums(copy, bytes);
    EsStatus early = es_image_decode_header("fuzz", copy, bytes, &header);
    EsStatus status = es_image_decode("fuzz", copy, bytes, &image);
    FuzzVerdict verdict = fuzz_judge(status);
    if (verdict == FUZZ_ACCEPTED) {
        FUZZ_CHECK(early == ES_STATUS_OK && header.width == image.width &&
                   header.height == image.height && header.n_channels == image.n_channels);
        FUZZ_OK(es_image_fit(&image, 16, 3, planes));
    }
    es_image_destroy(&image);
    free(copy);
    return verdict;
}

// --- events ---

// Read every cell; texts lie inside the packet and carry no zero byte.
static void read_packet(const EsPacket *packet, size_t bytes) {
    const char *begin = (const char *)packet->header;
    FUZZ_CHECK(packet->header->bytes <= bytes && packet->n_rows >= 1);
    for (int64_t row = 0; row < packet->n_rows; row++) {
        for (int column = 0; column < packet->schema->n_columns; column++) {
            EsColumnType type = packet->schema->columns[column].type;
            size_t length = 0;
            const char *text = NULL;
            if (type == ES_COLUMN_INT) {
                es_packet_int(packet, row, column);
            } else if (type == ES_COLUMN_REAL) {
                es_packet_real(packet, row, column);
            } else if ((text = es_packet_text(packet, row, column, &length)) != NULL) {
                FUZZ_CHECK(text >= begin && length <= bytes &&
                           (size_t)(text - begin) <= bytes - length);
                FUZZ_CHECK(memchr(text, 0, length) == NULL);
            }
        }
    }
}

FuzzVerdict fuzz_packet(const uint8_t *data, size_t bytes) {
    EsPacket packet;
    FuzzVerdict verdict = fuzz_judge(es_packet_open(data, bytes, &packet));
    if (verdict == FUZZ_ACCEPTED) {
        read_packet(&packet, bytes);
    }
    return verdict;
}

// A spill file whose bytes have changed on disk since they were appended.
FuzzVerdict fuzz_spill(const uint8_t *data, size_t bytes) {
    static const EsMetricEvent rows[] = {{.name = "loss", .value = 0.5}};
    const EsPacketHeader header = {.unix_us = 1, .sequence = 1, .round = 1, .step = -1};
    const char *folder = fuzz_path("spill");
    EsSpill *spill = NULL;
    mkdir(folder, 0700);
    FUZZ_OK(es_spill_open(folder, "fuzz", 1 << 16, &spill));
    for (int i = 0; i < 3; i++) {
        FUZZ_CHECK(es_spill_append(spill, ES_EVENT_METRIC, rows, 1, &header) == 0);
    }
    int descriptor = open(es_spill_path(spill), O_WRONLY | O_CLOEXEC);
    FUZZ_CHECK(descriptor >= 0 && pwrite(descriptor, data, bytes, 0) == (ssize_t)bytes);
    close(descriptor);
    FuzzVerdict verdict = FUZZ_ACCEPTED;
    while (es_spill_n_pending(spill) > 0 && verdict == FUZZ_ACCEPTED) {
        EsPacket packet;
        verdict = fuzz_judge(es_spill_peek(spill, &packet));
        if (verdict == FUZZ_ACCEPTED) {
            read_packet(&packet, packet.header->bytes);
            es_spill_release(spill);
        }
    }
    int64_t lost[ES_EVENT_COUNT] = {0};
    es_spill_discard(spill, lost);
    es_spill_close(spill);
    return verdict;
}

// Trimming a second time finds nothing to do.
FuzzVerdict fuzz_jsonl_trim(const uint8_t *data, size_t bytes) {
    int64_t last_round = bytes > 0 ? data[0] % 8 - 1 : 0;
    const char *path = fuzz_file("events.jsonl", data, bytes);
    void *once = NULL, *twice = NULL;
    size_t n_once = 0, n_twice = 0;
    FuzzVerdict verdict = fuzz_judge(es_jsonl_trim(path, last_round));
    FUZZ_OK(es_file_read_all(path, 1 << 24, &once, &n_once));
    FUZZ_OK(es_jsonl_trim(path, last_round));
    FUZZ_OK(es_file_read_all(path, 1 << 24, &twice, &n_twice));
    FUZZ_CHECK(n_once <= bytes && n_once == n_twice && memcmp(once, twice, n_once) == 0);
    FUZZ_CHECK(n_once == 0 || ((const char *)once)[n_once - 1] == '\n');
    es_release(once);
    es_release(twice);
    return verdict;
}

// --- the program's ---

FuzzVerdict fuzz_bench_baseline(const uint8_t *data, size_t bytes) {
    EsBenchRecord record = {.suite = "kernels",
                            .name = "matmul",
                            .parameters = "E=4 mode=fast",
                            .metric = "time",
                            .unit = "ms",
                            .is_lower_better = 1,
                            .summary = {0.5, 0.01, 11}};
    EsBenchRecords records = {.record = &record, .n_records = 1};
    return fuzz_judge(es_bench_records_compare(&records, fuzz_file("base.json", data, bytes)));
}

typedef struct OptionSettings {
    int n_rounds, mode;
    float rate;
    char name[16];
} OptionSettings;

static const EsConfigKey option_keys[] = {
    ES_CONFIG_INT(OptionSettings, n_rounds, "run", "rounds", "3", 1, 1000000000, "rounds"),
    ES_CONFIG_CHOICE(OptionSettings, mode, "run", "mode", "off", "off|default|max", "how"),
    ES_CONFIG_FLOAT(OptionSettings, rate, "run", "rate", "0.1", 0, 10, "learning rate"),
    ES_CONFIG_TEXT(OptionSettings, name, "run", "name", "", "what it is called"),
};

// One argument per line.
FuzzVerdict fuzz_options(const uint8_t *data, size_t bytes) {
    OptionSettings settings;
    EsConfig config = {option_keys, (int)ES_COUNT_OF(option_keys), &settings, sizeof settings};
    int is_fast, n_samples;
    double share;
    const char *device;
    const EsOption options[] = {
        ES_OPTION_FLAG("fast", &is_fast, "skip what is slow"),
        ES_OPTION_INT("samples", &n_samples, "11", 5, 100000, "N", "timed samples"),
        ES_OPTION_FLOAT("share", &share, "0.5", 0, 1, "X", "of the whole"),
        ES_OPTION_TEXT("device", &device, "cpu", "NAME", "cpu, cuda or cuda:N"),
        ES_OPTION_KEY("rounds", "run.rounds", "N"),
    };
    EsOptionTable table = {.command = "fuzz",
                           .usage = "[options]",
                           .options = options,
                           .n_options = (int)ES_COUNT_OF(options),
                           .max_positional = 2,
                           .config = &config};
    char *text = fuzz_text(data, bytes), *rest = text, *argv[200] = {"fuzz"};
    int argc = 1;
    for (char *line; argc < 199 && (line = strsep(&rest, "\n")) != NULL;) {
        argv[argc++] = line;
    }
    EsArguments arguments;
    memset(&settings, 0, sizeof settings);
    es_config_reset(&config);
    FuzzVerdict verdict = fuzz_judge(es_options_parse(&table, argc, argv, &arguments));
    if (verdict == FUZZ_ACCEPTED && !arguments.wants_help) {
        FUZZ_CHECK(n_samples >= 5 && n_samples <= 100000 && share >= 0 && share <= 1);
        FUZZ_CHECK(arguments.n_positional <= 2);
        verdict = fuzz_judge(es_options_apply(&table, &arguments));
        FUZZ_CHECK(settings.n_rounds >= 1 && settings.rate >= 0 && settings.rate <= 10);
    }
    free(text);
    return verdict;
}

// --- first inputs ---

// A file of the container above: its length, then its bytes.
static void put_file(FILE *to, const void *data, uint32_t bytes) {
    FUZZ_CHECK(fwrite(&bytes, sizeof bytes, 1, to) == 1 && fwrite(data, 1, bytes, to) == bytes);
}

static void write_idx_seed(const char *path) {
    uint8_t images[16 + 10 * 4] = {0, 0, 8, 3, 0, 0, 0, 10, 0, 0, 0, 2, 0, 0, 0, 2};
    uint8_t labels[8 + 10] = {0, 0, 8, 1, 0, 0, 0, 10};
    for (size_t i = 0; i < 10; i++) {
        images[16 + 4 * i] = labels[8 + i] = (uint8_t)i;
    }
    FILE *to = fopen(path, "wb");
    FUZZ_CHECK(to != NULL);
    for (int split = 0; split < 2; split++) {
        put_file(to, images, sizeof images);
        put_file(to, labels, sizeof labels);
    }
    FUZZ_CHECK(fclose(to) == 0);
}

// Six files of one record each.
static void write_cifar_seed(const char *path) {
    static uint8_t record[1 + 3 * 32 * 32];
    FILE *to = fopen(path, "wb");
    FUZZ_CHECK(to != NULL);
    for (uint8_t i = 0; i < 6; i++) {
        record[0] = record[1] = i;
        put_file(to, record, sizeof record);
    }
    FUZZ_CHECK(fclose(to) == 0);
}

void fuzz_write_data_seeds(const char *folder) {
    const EsMetricEvent rows[] = {{.name = "loss", .value = 0.5}, {.name = NULL, .value = 1}};
    const EsPacketHeader header = {.unix_us = 1, .sequence = 1, .round = 1, .step = -1};
    uint64_t packet[64];
    size_t bytes = es_packet_bytes(ES_EVENT_METRIC, rows, 2);
    FUZZ_CHECK(bytes > 0 && bytes <= sizeof packet);
    es_packet_encode(ES_EVENT_METRIC, rows, 2, &header, packet);
    FUZZ_OK(es_file_write_all(fuzz_seed_path(folder, "packet"), packet, bytes));
    bytes = es_packet_bytes(ES_EVENT_METRIC, rows, 1);
    es_packet_encode(ES_EVENT_METRIC, rows, 1, &header, packet);
    FUZZ_OK(es_file_write_all(fuzz_seed_path(folder, "spill"), packet, bytes));
    write_idx_seed(fuzz_seed_path(folder, "idx"));
    write_cifar_seed(fuzz_seed_path(folder, "cifar10"));
}
