// Mutators that know the form of an input: words of numbers, words of text, values of JSON,
// tensors. Each now and then leaves the work to the fuzzer's own mutation of bytes, which knows no
// form.
#include <jansson.h>
#include <math.h>

#include "base/macros.h"
#include "fuzz.h"
#include "tensor/tensor.h"

// --- draws ---

// splitmix64 (Steele, Lea, Flood, 2014)
static uint64_t draw(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static size_t draw_below(uint64_t *state, size_t n) {
    return n > 0 ? (size_t)(draw(state) % n) : 0;
}

static const int64_t corner_integers[] = {0,
                                          1,
                                          -1,
                                          2,
                                          3,
                                          7,
                                          8,
                                          15,
                                          16,
                                          17,
                                          64,
                                          127,
                                          128,
                                          255,
                                          256,
                                          1000,
                                          4096,
                                          65535,
                                          65536,
                                          1000000,
                                          INT32_MAX,
                                          INT32_MIN,
                                          UINT32_MAX,
                                          (int64_t)1 << 32,
                                          INT64_MAX,
                                          INT64_MIN,
                                          -2,
                                          -128,
                                          100000000,
                                          1 << 30,
                                          (int64_t)1 << 53,
                                          INT64_MAX / 8};

static const double corner_reals[] = {0,    -0.0,  1,   -1,   0.5, 1e-300, 1e300, -1e300,
                                      1e30, -1e30, 1e9, 1e-9, 100, 2,      5e-324};

static int64_t draw_integer(uint64_t *state) {
    return corner_integers[draw_below(state, ES_COUNT_OF(corner_integers))];
}

static double draw_real(uint64_t *state, int may_be_odd) {
    size_t n = ES_COUNT_OF(corner_reals);
    size_t i = draw_below(state, n + (may_be_odd ? 3 : 0));
    return i < n ? corner_reals[i] : i == n ? NAN : i == n + 1 ? INFINITY : -INFINITY;
}

// --- numbers ---

// Change one aligned word in place: a limit, a neighbour, or a copy of another word.
static void change_number(uint8_t *data, size_t bytes, uint64_t *state) {
    static const size_t widths[] = {4, 8, 4, 8, 2, 1};
    size_t width = widths[draw_below(state, ES_COUNT_OF(widths))];
    if (bytes < width) {
        return;
    }
    uint8_t *at = data + draw_below(state, bytes / width) * width;
    int64_t word = 0;
    memcpy(&word, at, width);
    switch (draw_below(state, 6)) {
    case 0:
    case 1:
        word = draw_integer(state);
        break;
    case 2:
        word = (int64_t)((uint64_t)word + draw_below(state, 9) - 4);
        break;
    case 3: {
        double real = draw_real(state, 1);
        float narrow = (float)real;
        memcpy(&word, width == 8 ? (void *)&real : (void *)&narrow, width == 8 ? 8 : 4);
        break;
    }
    case 4:
        memcpy(&word, data + draw_below(state, bytes / width) * width, width);
        break;
    default:
        word ^= (int64_t)((uint64_t)1 << draw_below(state, 8 * width));
    }
    memcpy(at, &word, width);
}

FUZZ_MUTATOR(numbers) {
    uint64_t state = seed;
    if (bytes < 8 || draw_below(&state, 4) == 0) {
        return LLVMFuzzerMutate(data, bytes, max_bytes);
    }
    for (size_t n = 1 + draw_below(&state, 4); n > 0; n--) {
        change_number(data, bytes, &state);
    }
    return bytes;
}

// --- text ---

static int is_word(uint8_t byte) {
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
           (byte >= 'A' && byte <= 'Z') || byte == '_' || byte == '-' || byte == '+' ||
           byte >= 0x80;
}

typedef struct Range {
    size_t begin, end;
} Range;

// The word, or with is_line the line and its end, around a random place.
static Range draw_range(const uint8_t *data, size_t bytes, int is_line, uint64_t *state) {
    Range range = {draw_below(state, bytes), 0};
    range.end = range.begin;
    while (range.begin > 0 &&
           (is_line ? data[range.begin - 1] != '\n' : is_word(data[range.begin - 1]))) {
        range.begin--;
    }
    while (range.end < bytes && (is_line ? data[range.end] != '\n' : is_word(data[range.end]))) {
        range.end++;
    }
    range.end += is_line && range.end < bytes;
    return range;
}

// Put `new_bytes` of text in the place of a range; returns the new length, or the old one when
// there is no room.
static size_t replace_range(uint8_t *data, size_t bytes, size_t max_bytes, Range range,
                            const void *text, size_t new_bytes) {
    size_t after = bytes - range.end, total = range.begin + new_bytes + after;
    if (total > max_bytes) {
        return bytes;
    }
    memmove(data + range.begin + new_bytes, data + range.end, after);
    memcpy(data + range.begin, text, new_bytes);
    return total;
}

static size_t change_text(uint8_t *data, size_t bytes, size_t max_bytes, uint64_t *state) {
    static const char *const odd[] = {
        "",        "nan",  "inf", "-inf", "1e999", "1e-999", "0x10", "%s",       "--",
        "''",      "\"\"", "(",   ")",    ",",     "->",     ":-",   ".",        "=",
        "[",       "]",    "*",   "\t",   "\r\n",  "#",      "\\",   "\xff\xfe", "\xef\xbb\xbf",
        "\x1b[2J", "{",    "}"};
    char number[64];
    int is_line = draw_below(state, 3) == 0;
    Range range = draw_range(data, bytes, is_line, state);
    Range other = draw_range(data, bytes, is_line, state);
    size_t n_other = other.end - other.begin, n = 0;
    uint8_t *copy = NULL;
    switch (draw_below(state, 6)) {
    case 0:
        range.end = range.begin; // insert
        // fall through
    case 1:
        copy = malloc(n_other + 1);
        FUZZ_CHECK(copy != NULL);
        memcpy(copy, data + other.begin, n_other);
        n = replace_range(data, bytes, max_bytes, range, copy, n_other);
        free(copy);
        return n;
    case 2:
        return replace_range(data, bytes, max_bytes, range, "", 0);
    case 3:
        snprintf(number, sizeof number, "%lld", (long long)draw_integer(state));
        return replace_range(data, bytes, max_bytes, range, number, strlen(number));
    case 4:
        snprintf(number, sizeof number, "%.9g", draw_real(state, 1));
        return replace_range(data, bytes, max_bytes, range, number, strlen(number));
    default: {
        const char *word = odd[draw_below(state, ES_COUNT_OF(odd))];
        return replace_range(data, bytes, max_bytes, range, word, strlen(word));
    }
    }
}

FUZZ_MUTATOR(text) {
    uint64_t state = seed;
    if (bytes == 0 || draw_below(&state, 3) == 0) {
        return LLVMFuzzerMutate(data, bytes, max_bytes);
    }
    for (size_t n = 1 + draw_below(&state, 3); n > 0 && bytes > 0; n--) {
        bytes = change_text(data, bytes, max_bytes, &state);
    }
    return bytes;
}

// --- JSON ---

static json_t *draw_value(uint64_t *state) {
    static const char *const texts[] = {"",    "0",    "../x", "..",          "/",  "F32",
                                        "F64", "I64",  "U8",   "a/b",         "{}", "[]",
                                        "-1",  "%s%n", "nan",  "__metadata__"};
    switch (draw_below(state, 8)) {
    case 0:
        return json_null();
    case 1:
        return json_boolean(draw_below(state, 2));
    case 2:
        return json_string(texts[draw_below(state, ES_COUNT_OF(texts))]);
    case 3:
        return json_array();
    case 4:
        return json_object();
    case 5:
        return json_real(draw_real(state, 0));
    default:
        return json_integer((json_int_t)draw_integer(state));
    }
}

static void change_json(json_t *root, uint64_t *state);

// Digits of bytes in hexadecimal, as checkpoints keep reals and states: one word becomes a limit.
static void change_digits(char *digits, size_t length, uint64_t *state) {
    uint8_t word[8];
    int64_t integer = draw_integer(state);
    double real = draw_real(state, 1);
    memcpy(word, draw_below(state, 2) ? (void *)&integer : (void *)&real, sizeof word);
    size_t at = draw_below(state, (length + 15) / 16) * 16;
    for (size_t i = 0; i < 16 && at + i < length; i++) {
        digits[at + i] = "0123456789abcdef"[word[i / 2] >> (i % 2 ? 0 : 4) & 15];
    }
}

// Another text: of the JSON in it one value, of hexadecimal digits one word, else bytes.
static json_t *change_string(const json_t *value, uint64_t *state) {
    size_t length = json_string_length(value), room = length + 32;
    const char *old = json_string_value(value);
    json_t *inner = old[0] == '{' ? json_loads(old, 0, NULL) : NULL, *changed = NULL;
    if (inner != NULL) {
        change_json(inner, state);
        char *dumped = json_dumps(inner, JSON_COMPACT);
        changed = dumped != NULL ? json_string(dumped) : NULL;
        free(dumped);
        json_decref(inner);
        return changed;
    }
    char *text = calloc(room + 1, 1);
    FUZZ_CHECK(text != NULL);
    memcpy(text, old, length);
    if (length >= 16 && strspn(text, "0123456789abcdef") == length) {
        change_digits(text, length, state);
    } else {
        length = fuzz_mutate_text((uint8_t *)text, length, room, (unsigned)draw(state));
    }
    changed = json_stringn(text, length); // NULL when it is no longer UTF-8
    free(text);
    return changed;
}

// A value near the old one; borrowed values are copied.
static json_t *change_value(const json_t *value, uint64_t *state) {
    json_int_t step = (json_int_t)draw_below(state, 9) - 4;
    if (draw_below(state, 4) == 0) {
        return draw_value(state);
    }
    if (json_is_integer(value)) {
        uint64_t sum = (uint64_t)json_integer_value(value) + (uint64_t)step;
        return json_integer((json_int_t)sum);
    }
    if (json_is_real(value)) {
        return json_real(draw_below(state, 2) ? -json_real_value(value) : draw_real(state, 0));
    }
    return json_is_string(value) ? change_string(value, state) : draw_value(state);
}

// Walk to a value at random depth and change it in its place, take it out, or put in another.
static void change_json(json_t *root, uint64_t *state) {
    json_t *parent = root, *value = root;
    size_t index = 0;
    const char *key = NULL;
    while ((json_is_object(value) && json_object_size(value) > 0) ||
           (json_is_array(value) && json_array_size(value) > 0)) {
        if (value != root && draw_below(state, 5) == 0) {
            break; // a whole container
        }
        parent = value;
        if (json_is_object(parent)) {
            void *at = json_object_iter(parent);
            for (size_t n = draw_below(state, json_object_size(parent)); n > 0; n--) {
                at = json_object_iter_next(parent, at);
            }
            key = json_object_iter_key(at);
            value = json_object_iter_value(at);
        } else {
            index = draw_below(state, json_array_size(parent));
            value = json_array_get(parent, index);
        }
    }
    if (value == root) {
        return;
    }
    size_t way = draw_below(state, 8);
    json_t *changed = way < 6 ? change_value(value, state) : json_deep_copy(value);
    if (json_is_object(parent)) {
        char other[80];
        snprintf(other, sizeof other, "%.60s%s", key, way == 7 ? "2" : "");
        if (way == 6) {
            json_object_del(parent, key);
            json_decref(changed);
        } else if (json_object_set_new(parent, other, changed) != 0) {
            return;
        }
    } else if (way == 6) {
        json_array_remove(parent, index);
        json_decref(changed);
    } else if (way == 7) {
        json_array_insert_new(parent, index, changed);
    } else {
        json_array_set_new(parent, index, changed);
    }
}

FUZZ_MUTATOR(json) {
    uint64_t state = seed;
    json_t *root = draw_below(&state, 5) > 0 ? json_loadb((char *)data, bytes, 0, NULL) : NULL;
    if (root == NULL) {
        return LLVMFuzzerMutate(data, bytes, max_bytes);
    }
    for (size_t n = 1 + draw_below(&state, 3); n > 0; n--) {
        change_json(root, &state);
    }
    size_t needed = json_dumpb(root, (char *)data, max_bytes, JSON_COMPACT);
    json_decref(root);
    // too long: cut text is an input, too
    return needed > 0 ? ES_MIN(needed, max_bytes) : LLVMFuzzerMutate(data, bytes, max_bytes);
}

// --- tensors ---

// Bytes that a tensor's type and shape need; 0 for what is out of all bounds.
static int64_t bytes_of(const json_t *entry) {
    const char *spelling = json_string_value(json_object_get(entry, "dtype"));
    const json_t *shape = json_object_get(entry, "shape");
    EsDtype dtype = ES_DTYPE_F32;
    if (spelling != NULL) {
        es_dtype_parse(spelling, &dtype);
    }
    int64_t bytes = (int64_t)es_dtype_bytes(dtype);
    for (size_t i = 0; i < json_array_size(shape); i++) {
        int64_t dim = (int64_t)json_integer_value(json_array_get(shape, i));
        bytes = dim < 0 || dim > 1 << 20 || bytes > 1 << 20 ? 0 : bytes * dim;
    }
    return bytes;
}

// Let the tensors follow one another again, with the sizes that their shapes have; returns the sum.
static int64_t fit_offsets(json_t *header) {
    const char *name;
    json_t *entry;
    int64_t end = 0;
    json_object_foreach(header, name, entry) {
        if (strcmp(name, "__metadata__") != 0 && json_is_object(entry)) {
            int64_t begin = end;
            end += bytes_of(entry);
            json_object_set_new(entry, "data_offsets",
                                json_pack("[I, I]", (json_int_t)begin, (json_int_t)end));
        }
    }
    return end;
}

// Write header and data back; 0 when they do not fit.
static size_t join_tensors(const json_t *header, const uint8_t *values, size_t n_values,
                           size_t n_wanted, uint8_t *data, size_t max_bytes) {
    size_t room = max_bytes > 8 ? max_bytes - 8 : 0;
    size_t length = json_dumpb(header, (char *)data + 8, room, JSON_COMPACT);
    if (length == 0 || length > room || n_wanted > room - length) {
        return 0;
    }
    uint64_t word = length;
    memcpy(data, &word, sizeof word);
    size_t n_kept = ES_MIN(n_values, n_wanted);
    memcpy(data + 8 + length, values, n_kept);
    memset(data + 8 + length + n_kept, 0, n_wanted - n_kept);
    return 8 + length + n_wanted;
}

FUZZ_MUTATOR(tensors) {
    uint64_t state = seed, length = 0;
    if (bytes >= 8) {
        memcpy(&length, data, sizeof length);
    }
    size_t way = draw_below(&state, 10);
    json_t *header = bytes >= 8 && length <= bytes - 8
                         ? json_loadb((char *)data + 8, (size_t)length, 0, NULL)
                         : NULL;
    if (!json_is_object(header) || way == 0) {
        json_decref(header);
        return LLVMFuzzerMutate(data, bytes, max_bytes);
    }
    size_t n_values = bytes - 8 - (size_t)length, joined = bytes;
    if (way < 5) {
        for (size_t n = 1 + draw_below(&state, 3); n > 0; n--) {
            change_number(data + 8 + length, n_values, &state);
        }
    } else {
        uint8_t *values = malloc(n_values + 1);
        FUZZ_CHECK(values != NULL);
        memcpy(values, data + 8 + length, n_values);
        for (size_t n = 1 + draw_below(&state, 2); n > 0; n--) {
            change_json(header, &state);
        }
        size_t n_wanted = way < 9 ? (size_t)fit_offsets(header) : n_values;
        joined = join_tensors(header, values, n_values, n_wanted, data, max_bytes);
        free(values);
    }
    json_decref(header);
    return joined > 0 ? joined : LLVMFuzzerMutate(data, bytes, max_bytes);
}
