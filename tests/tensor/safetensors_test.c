// Safetensors: round trips, files that lie, and a mutation loop that must never crash.
#include "tensor/safetensors.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/file.h"
#include "mutate.h"

static const char *target_path(void) { return temp_path("target"); }

// --- round trips ---

static EsNamedTensor name_tensor(const char *name, void *data, EsDtype dtype, int rank,
                                 const int64_t *dims) {
    return (EsNamedTensor){name, es_tensor_view(data, dtype, NULL, rank, dims)};
}

static unsigned char sample_bytes[ES_DTYPE_COUNT][48];

// One tensor per dtype [2, 3], an empty one and a scalar; odd sizes come before wide elements.
static int make_samples(EsNamedTensor *tensors) {
    static const char *names[ES_DTYPE_COUNT] = {"a.weight",  "b", "c/d", "e \"quoted\"",
                                                "f\xC3\xA9", "g", "h",   "i"};
    int n_tensors = 0;
    for (int i = ES_DTYPE_COUNT - 1; i >= 0; i--) {
        for (int k = 0; k < 48; k++) {
            sample_bytes[i][k] = (unsigned char)(17 * i + 31 * k + 5);
        }
        tensors[n_tensors++] =
            name_tensor(names[i], sample_bytes[i], (EsDtype)i, 2, (int64_t[]){2, 3});
    }
    tensors[n_tensors++] =
        name_tensor("empty", sample_bytes[0], ES_DTYPE_F32, 3, (int64_t[]){4, 0, 2});
    tensors[n_tensors++] = name_tensor("scalar", sample_bytes[1], ES_DTYPE_F64, 0, NULL);
    tensors[n_tensors++] =
        name_tensor("odd", sample_bytes[2], ES_DTYPE_U8, 6, (int64_t[]){1, 1, 3, 1, 1, 1});
    return n_tensors;
}

static const EsMetadata sample_metadata[] = {
    {"format", "pt"}, {"note", "line\nand \"quotes\""}, {"empty", ""}};

TEST(round_trip) {
    EsNamedTensor tensors[16];
    int n_tensors = make_samples(tensors);
    REQUIRE_OK(es_safetensors_save(target_path(), tensors, n_tensors, sample_metadata, 3));
    EsSafetensors *file = NULL;
    REQUIRE_OK(es_safetensors_open(target_path(), &file));
    EXPECT_EQ(es_safetensors_count(file), n_tensors);
    for (int i = 0; i < n_tensors; i++) {
        EsTensor found = {0};
        EXPECT_STATUS(es_safetensors_find(file, tensors[i].name, &found), OK);
        EXPECT_EQ(found.dtype, tensors[i].tensor.dtype);
        EXPECT(es_tensor_same_shape(&found, &tensors[i].tensor));
        EXPECT(es_tensor_is_contiguous(&found));
        EXPECT_EQ((uintptr_t)found.data % ES_ALIGNMENT, 0);
        EXPECT_EQ(memcmp(found.data, tensors[i].tensor.data, es_tensor_bytes(&found)), 0);
    }
    for (int i = 0; i < 3; i++) {
        EXPECT_TEXT(es_safetensors_metadata(file, sample_metadata[i].key),
                    sample_metadata[i].value);
    }
    EXPECT(es_safetensors_metadata(file, "absent") == NULL);
    EsTensor view;
    EXPECT_STATUS(es_safetensors_find(file, "absent", &view), INPUT);
    EXPECT_CONTAINS(es_status_detail(), target_path());
    EXPECT_CONTAINS(es_status_detail(), "absent");
    EXPECT_STATUS(es_safetensors_find(file, "__metadata__", &view), INPUT);
    es_safetensors_close(file);
    es_safetensors_close(NULL);
}

TEST(equal_dtypes_keep_their_order) {
    float data[3] = {1, 2, 3};
    EsNamedTensor tensors[3];
    const char *names[3] = {"z", "a", "m"};
    for (int i = 0; i < 3; i++) {
        tensors[i] = name_tensor(names[i], data + i, ES_DTYPE_F32, 1, (int64_t[]){1});
    }
    REQUIRE_OK(es_safetensors_save(target_path(), tensors, 3, NULL, 0));
    EsSafetensors *file = NULL;
    REQUIRE_OK(es_safetensors_open(target_path(), &file));
    for (int i = 0; i < 3; i++) {
        EsNamedTensor found = es_safetensors_at(file, i);
        EXPECT_TEXT(found.name, names[i]);
        EXPECT_NEAR(*(float *)found.tensor.data, data[i], 0);
    }
    EXPECT(es_safetensors_metadata(file, "format") == NULL);
    es_safetensors_close(file);
}

TEST(no_tensors_at_all) {
    REQUIRE_OK(es_safetensors_save(target_path(), NULL, 0, NULL, 0));
    EsSafetensors *file = NULL;
    REQUIRE_OK(es_safetensors_open(target_path(), &file));
    EXPECT_EQ(es_safetensors_count(file), 0);
    es_safetensors_close(file);
}

TEST(data_begins_aligned) {
    float value = 1;
    EsNamedTensor tensor = name_tensor("w", &value, ES_DTYPE_F32, 1, (int64_t[]){1});
    REQUIRE_OK(es_safetensors_save(target_path(), &tensor, 1, NULL, 0));
    void *data = NULL;
    size_t bytes = 0;
    REQUIRE_OK(es_file_read_all(target_path(), 4096, &data, &bytes));
    EXPECT_EQ((bytes - sizeof value) % ES_ALIGNMENT, 0);
    EXPECT_EQ(((unsigned char *)data)[8], '{');
    es_release(data);
}

TEST(save_refuses_bad_names) {
    float value = 1;
    EsNamedTensor pair[2] = {name_tensor("w", &value, ES_DTYPE_F32, 0, NULL),
                             name_tensor("w", &value, ES_DTYPE_F32, 0, NULL)};
    EXPECT_STATUS(es_safetensors_save(target_path(), pair, 2, NULL, 0), ARGUMENT);
    pair[0].name = "__metadata__";
    EXPECT_STATUS(es_safetensors_save(target_path(), pair, 1, NULL, 0), ARGUMENT);
    pair[0].name = "\xFF\xFE";
    EXPECT_STATUS(es_safetensors_save(target_path(), pair, 1, NULL, 0), ARGUMENT);
    pair[0].name = "w";
    const EsMetadata twice[2] = {{"k", "1"}, {"k", "2"}};
    EXPECT_STATUS(es_safetensors_save(target_path(), pair, 1, twice, 2), ARGUMENT);
    const EsMetadata not_text[1] = {{"k", "\xFF"}};
    EXPECT_STATUS(es_safetensors_save(target_path(), pair, 1, not_text, 1), ARGUMENT);
    float grid[4] = {0};
    EsTensor square = es_tensor_view(grid, ES_DTYPE_F32, NULL, 2, (int64_t[]){2, 2});
    pair[0].tensor = es_tensor_slice(&square, 1, 0, 1);
    EXPECT_STATUS(es_safetensors_save(target_path(), pair, 1, NULL, 0), ARGUMENT);
    EXPECT_EQ(access(target_path(), F_OK), -1);
}

TEST(failed_save_keeps_the_old_file) {
    static float data[1000];
    EsNamedTensor tensor = name_tensor("w", data, ES_DTYPE_F32, 1, (int64_t[]){1000});
    EXPECT_STATUS(es_safetensors_save("/tmp/es_no_such_folder/f", &tensor, 1, NULL, 0), IO);
    EXPECT_CONTAINS(es_status_detail(), "/tmp/es_no_such_folder/f");
    data[0] = 42;
    REQUIRE_OK(es_safetensors_save(target_path(), &tensor, 1, NULL, 0));
    // a limit on the file's size stands for a full disk
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = 2000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    data[0] = 43;
    EXPECT_STATUS(es_safetensors_save(target_path(), &tensor, 1, NULL, 0), IO);
    EXPECT_CONTAINS(es_status_detail(), strerror(EFBIG));
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    EsSafetensors *file = NULL;
    REQUIRE_OK(es_safetensors_open(target_path(), &file));
    EXPECT_NEAR(*(float *)es_safetensors_at(file, 0).tensor.data, 42, 0);
    es_safetensors_close(file);
    EXPECT_EQ(count_names(temp_folder()), 1);
}

TEST(missing_file) {
    EsSafetensors *file = NULL;
    EXPECT_STATUS(es_safetensors_open("/tmp/es_no_such_file", &file), IO);
    EXPECT(file == NULL);
    EXPECT_STATUS(es_safetensors_open("/tmp", &file), INPUT);
}

// --- the hash of the tensors ---

static const EsMetadata hashed_metadata[] = {{"format", "pt"}, {ES_TENSORS_HASH, NULL}};

// As a Python script computes it from its description in docs/file-formats.md.
TEST(the_hash_is_the_documented_one) {
    float b[] = {1, 2}, s = 0.5f;
    int64_t a = -3;
    EsNamedTensor tensors[] = {name_tensor("b", b, ES_DTYPE_F32, 1, (int64_t[]){2}),
                               name_tensor("a.x", &a, ES_DTYPE_I64, 2, (int64_t[]){1, 1}),
                               name_tensor("s", &s, ES_DTYPE_F32, 0, NULL)};
    const char *expected = "7554d3476c06d1929c0c91ea6b417526c556cbb2b9247d11a2ceeb89d4801a14";
    for (int turn = 0; turn < 3; turn++) {
        EsNamedTensor first = tensors[0];
        EsSafetensors *file = NULL;
        REQUIRE_OK(es_safetensors_save(target_path(), tensors, 3, hashed_metadata, 2));
        REQUIRE_OK(es_safetensors_open(target_path(), &file));
        EXPECT_TEXT(es_safetensors_metadata(file, ES_TENSORS_HASH), expected);
        EXPECT_TEXT(es_safetensors_metadata(file, "format"), "pt");
        es_safetensors_close(file);
        // another order changes nothing
        tensors[0] = tensors[1], tensors[1] = tensors[2], tensors[2] = first;
    }
}

TEST(tensors_that_do_not_fit_their_hash_are_refused) {
    EsNamedTensor tensors[16];
    EsSafetensors *file = NULL;
    int n_tensors = make_samples(tensors);
    REQUIRE_OK(es_safetensors_save(target_path(), tensors, n_tensors, hashed_metadata, 2));
    FileBytes bytes = read_bytes(target_path());
    const char *changed = temp_path("changed");
    for (size_t i = 8 + (size_t)header_bytes(&bytes); i < bytes.count; i++) {
        bytes.bytes[i] ^= 4;
        write_bytes(changed, bytes.bytes, bytes.count);
        EXPECT_STATUS(es_safetensors_open(changed, &file), INPUT);
        EXPECT_CONTAINS(es_status_detail(), "tensors_sha256");
        EXPECT_CONTAINS(es_status_detail(), changed);
        bytes.bytes[i] ^= 4;
    }
    // a tensor of another name or dtype is another one
    static const struct {
        const char *from, *to;
    } texts[] = {{"a.weight", "a.heigth"}, {"\"F32\"", "\"I32\""}, {"[2,3]", "[3,2]"}};
    for (size_t t = 0; t < ES_COUNT_OF(texts); t++) {
        FileBytes other = read_bytes(target_path());
        unsigned char *place =
            memmem(other.bytes, other.count, texts[t].from, strlen(texts[t].from));
        EXPECT(place != NULL);
        memcpy(place, texts[t].to, strlen(texts[t].to));
        write_bytes(changed, other.bytes, other.count);
        EXPECT_STATUS(es_safetensors_open(changed, &file), INPUT);
        EXPECT_CONTAINS(es_status_detail(), "tensors_sha256");
        EXPECT(refit_safetensors(other.bytes, other.count));
        write_bytes(changed, other.bytes, other.count);
        REQUIRE_OK(es_safetensors_open(changed, &file));
        es_safetensors_close(file);
        es_release(other.bytes);
    }
    // no hash of ours
    static const char *const hashes[] = {"", "x", "ABCDEF", "\x1b[2J"};
    for (size_t i = 0; i < ES_COUNT_OF(hashes); i++) {
        craft_metadata(target_path(), changed, ES_TENSORS_HASH, hashes[i]);
        EXPECT_STATUS(es_safetensors_open(changed, &file), INPUT);
        EXPECT(strchr(es_status_detail(), '\x1b') == NULL);
    }
    craft_metadata(target_path(), changed, ES_TENSORS_HASH, NULL);
    REQUIRE_OK(es_safetensors_open(changed, &file));
    es_safetensors_close(file);
    es_release(bytes.bytes);
}

// --- files that lie ---

typedef struct Hostile {
    const char *header;
    int64_t length;      // written in front of the header; -1 = the true one
    int data_bytes;      // of zeros behind it
    const char *message; // part of the error; NULL: the file is good
} Hostile;

#define TENSOR(name, dtype, shape, offsets)                                                        \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const Hostile hostile[] = {
    {"{" TENSOR("w", "F32", "[2]", "[0,8]") "}", -1, 8, NULL},
    {"{" TENSOR("w", "F32", "[2]", "[1,9]") "," TENSOR("b", "U8", "[1]", "[0,1]") "}   ", -1, 9,
     NULL},
    {"{" TENSOR("w", "F32", "[0]", "[0,0]") "," TENSOR("v", "F32", "[0,5]", "[0,0]") "}", -1, 0,
     NULL},
    // the header itself
    {"{" TENSOR("w", "F32", "[2]", "[0,8]") "}", INT64_MAX, 8, "above the limit"},
    {"{" TENSOR("w", "F32", "[2]", "[0,8]") "}", -2, 8, "above the limit"},
    {"{" TENSOR("w", "F32", "[2]", "[0,8]") "}", 5000, 8, "passes the end of the file"},
    {"{" TENSOR("w", "F32", "[2]", "[0,8]") "}", 20, 8, "not JSON at byte"},
    {"", -1, 0, "not JSON at byte"},
    {"{\"w\":", -1, 0, "not JSON at byte"},
    {"[1, 2]", -1, 0, "not a JSON object"},
    {" {}", -1, 0, "not a JSON object"},
    {"{} {}", -1, 0, "not JSON at byte"},
    {"{\"\xFF\xFE\":1}", -1, 0, "unable to decode byte 0xff"},
    {"{" TENSOR("a\\u0000b", "F32", "[2]", "[0,8]") "}", -1, 8, "not JSON at byte"},
    {"{\"__metadata__\":[1]}", -1, 0, "__metadata__ is not an object"},
    {"{\"__metadata__\":{\"k\":1}}", -1, 0, "is not a string"},
    // entries
    {"{" TENSOR("w", "F32", "[2]", "[0,8]") "," TENSOR("w", "F32", "[2]", "[8,16]") "}", -1, 16,
     "duplicate"},
    {"{\"w\":3}", -1, 0, "is not an object"},
    {"{\"w\":{}}", -1, 0, "dtype"},
    {"{" TENSOR("w", "F8_E4M3", "[8]", "[0,8]") "}", -1, 8, "dtype \"F8_E4M3\""},
    {"{\"w\":{\"dtype\":7,\"shape\":[2],\"data_offsets\":[0,8]}}", -1, 8, "dtype"},
    {"{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", -1, 8, "shape of \"w\""},
    {"{" TENSOR("w", "F32", "[1,1,1,1,1,1,2]", "[0,8]") "}", -1, 8, "at most 6"},
    {"{" TENSOR("w", "F32", "[-2]", "[0,8]") "}", -1, 8, "axis 0"},
    {"{" TENSOR("w", "F32", "[2, 1.5]", "[0,8]") "}", -1, 8, "axis 1"},
    {"{" TENSOR("w", "F32", "[4294967296,4294967296]", "[0,0]") "}", -1, 0, "overflows"},
    {"{" TENSOR("w", "F32", "[0,4294967296,4294967296]", "[0,0]") "}", -1, 0, "overflows"},
    {"{" TENSOR("w", "F32", "[9223372036854775807]", "[0,8]") "}", -1, 8, "overflows"},
    {"{" TENSOR("w", "F32", "[99999999999999999999]", "[0,8]") "}", -1, 8, "not JSON at byte"},
    {"{" TENSOR("w", "F32", "[2]", "[0]") "}", -1, 8, "data_offsets"},
    {"{" TENSOR("w", "F32", "[2]", "[0,8,16]") "}", -1, 16, "data_offsets"},
    {"{" TENSOR("w", "F32", "[2]", "[8,0]") "}", -1, 8, "data_offsets"},
    {"{" TENSOR("w", "F32", "[2]", "[-8,0]") "}", -1, 8, "data_offsets"},
    {"{" TENSOR("w", "F32", "[2]", "[0,\\\"8\\\"]") "}", -1, 8, "not JSON"},
    {"{" TENSOR("w", "F32", "[2]", "[0.0,8.0]") "}", -1, 8, "data_offsets"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2]}}", -1, 8, "data_offsets"},
    {"{" TENSOR("w", "F32", "[2]", "[0,8]") "}", -1, 7, "ends at byte"},
    {"{" TENSOR("w", "F32", "[2]", "[9223372036854775800,9223372036854775807]") "}", -1, 8,
     "ends at byte"},
    {"{" TENSOR("w", "F32", "[3]", "[0,8]") "}", -1, 8, "its shape needs 12"},
    {"{" TENSOR("w", "F32", "[2]", "[0,8]") "," TENSOR("v", "F32", "[2]", "[4,12]") "}", -1, 12,
     "overlapping"},
    {"{" TENSOR("w", "F32", "[2]", "[0,8]") "," TENSOR("v", "F32", "[2]", "[0,8]") "}", -1, 8,
     "overlapping"},
    {"{" TENSOR("w", "F32", "[2]", "[4,12]") "}", -1, 12, "leaving a gap"},
    {"{" TENSOR("w", "F32", "[2]", "[0,8]") "}", -1, 9, "the file at byte"},
    {"{}", -1, 1, "the file at byte"},
    {"{" TENSOR("w\\u001b[31m", "F32", "[3]", "[0,8]") "}", -1, 8, "w?[31m"},
};

static void write_hostile(const Hostile *file) {
    unsigned char bytes[1024] = {0};
    uint64_t true_length = strlen(file->header);
    uint64_t length = file->length == -1 ? true_length : (uint64_t)file->length;
    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(length >> (8 * i));
    }
    memcpy(bytes + 8, file->header, true_length);
    REQUIRE_OK(es_file_write_all(target_path(), bytes, 8 + true_length + (size_t)file->data_bytes));
}

TEST(files_that_lie) {
    for (size_t i = 0; i < ES_COUNT_OF(hostile); i++) {
        write_hostile(&hostile[i]);
        EsSafetensors *file = NULL;
        EsStatus status = es_safetensors_open(target_path(), &file);
        if (hostile[i].message == NULL) {
            if (status != ES_STATUS_OK) {
                ES_TEST_FAIL("case %zu refused: %s", i, es_status_detail());
            }
            es_safetensors_close(file);
        } else if (status != ES_STATUS_INPUT || file != NULL) {
            ES_TEST_FAIL("case %zu gives %s, expected INPUT", i, es_status_name(status));
            es_safetensors_close(file);
        } else {
            EXPECT_CONTAINS(es_status_detail(), hostile[i].message);
            EXPECT_CONTAINS(es_status_detail(), target_path());
        }
    }
}

// a float at an odd byte of the file is still aligned in memory
TEST(misplaced_floats_are_aligned) {
    write_hostile(&hostile[1]);
    EsSafetensors *file = NULL;
    REQUIRE_OK(es_safetensors_open(target_path(), &file));
    EsTensor view;
    REQUIRE_OK(es_safetensors_find(file, "w", &view));
    EXPECT_EQ((uintptr_t)view.data % ES_ALIGNMENT, 0);
    es_safetensors_close(file);
}

TEST(every_truncation_is_refused) {
    EsNamedTensor tensors[16];
    int n_tensors = make_samples(tensors);
    REQUIRE_OK(es_safetensors_save(target_path(), tensors, n_tensors, sample_metadata, 3));
    unsigned char *bytes = NULL;
    size_t n_bytes = 0;
    REQUIRE_OK(es_file_read_all(target_path(), 4096, (void **)&bytes, &n_bytes));
    for (size_t length = n_bytes; length-- > 0;) {
        EXPECT_EQ(truncate(target_path(), (off_t)length), 0);
        EsSafetensors *file = NULL;
        EXPECT_STATUS(es_safetensors_open(target_path(), &file), INPUT);
        es_safetensors_close(file);
    }
    es_release(bytes);
}

// --- mutations ---

// 1 to 4 bytes changed to anything, or to a neighbour in the header's alphabet; at times the end
// cut off
static size_t mutate(const unsigned char *original, size_t n_bytes, uint32_t round,
                     unsigned char *mutated) {
    static const char alphabet[] = "{}[]\",:0123456789-.eF ";
    memcpy(mutated, original, n_bytes);
    EsRandom4 r = es_random_draw(7, round, ES_PURPOSE_EVALUATION, 0, 0);
    uint32_t n_changes = 1 + es_random_below(r.word[0], 4);
    for (uint32_t i = 0; i < n_changes; i++) {
        EsRandom4 change = es_random_draw(7, round, ES_PURPOSE_EVALUATION, 1, i);
        uint32_t at = es_random_below(change.word[0], (uint32_t)n_bytes);
        uint32_t letter = es_random_below(change.word[1], sizeof alphabet - 1);
        mutated[at] =
            change.word[2] >> 31 ? (unsigned char)alphabet[letter] : (unsigned char)change.word[3];
    }
    return r.word[1] % 8 == 0 ? es_random_below(r.word[2], (uint32_t)n_bytes) : n_bytes;
}

// A file in memory and the path it is opened by: 20,000 files on a disk would take half a minute.
typedef struct MemoryFile {
    int descriptor;
    char path[64];
} MemoryFile;

static MemoryFile make_memory_file(void) {
    MemoryFile file = {.descriptor = memfd_create("es_safetensors_test", MFD_CLOEXEC)};
    snprintf(file.path, sizeof file.path, "/proc/self/fd/%d", file.descriptor);
    return file;
}

static void overwrite(const MemoryFile *file, const unsigned char *bytes, size_t n_bytes) {
    if (ftruncate(file->descriptor, (off_t)n_bytes) != 0 ||
        pwrite(file->descriptor, bytes, n_bytes, 0) != (ssize_t)n_bytes) {
        printf("cannot write %s\n", file->path);
        exit(1);
    }
}

// With a hash, it is refitted.
static void expect_no_crash(const EsMetadata *metadata, int n_metadata) {
    EsNamedTensor tensors[16];
    int n_tensors = make_samples(tensors);
    REQUIRE_OK(es_safetensors_save(target_path(), tensors, n_tensors, metadata, n_metadata));
    unsigned char *bytes = NULL;
    size_t n_bytes = 0;
    REQUIRE_OK(es_file_read_all(target_path(), 4096, (void **)&bytes, &n_bytes));
    MemoryFile memory = make_memory_file();
    unsigned char mutated[4096];
    int n_accepted = 0, n_refused = 0;
    unsigned sum = 0;
    for (uint32_t round = 0; round < 20000; round++) {
        size_t mutated_bytes = mutate(bytes, n_bytes, round, mutated);
        refit_safetensors(mutated, mutated_bytes);
        overwrite(&memory, mutated, mutated_bytes);
        EsSafetensors *file = NULL;
        EsStatus status = es_safetensors_open(memory.path, &file);
        if (status == ES_STATUS_OK) {
            n_accepted++;
            for (int i = 0; i < es_safetensors_count(file); i++) {
                EsTensor tensor = es_safetensors_at(file, i).tensor;
                for (size_t k = 0; k < es_tensor_bytes(&tensor); k++) {
                    sum += ((unsigned char *)tensor.data)[k];
                }
            }
            es_safetensors_close(file);
        } else {
            n_refused++;
            EXPECT_EQ(status, ES_STATUS_INPUT);
        }
    }
    printf("%d accepted, %d refused, byte sum %u\n", n_accepted, n_refused, sum);
    EXPECT(n_accepted > 100); // changes of data bytes alone leave a good file
    EXPECT(n_refused > 10000);
    es_release(bytes);
    close(memory.descriptor);
}

TEST(mutated_files_never_crash) {
    expect_no_crash(sample_metadata, 3);
    expect_no_crash(hashed_metadata, 2);
}
