// Text that grows, numbers that read back as the same bits, UTF-8 from outside made safe, and the
// width of characters on a terminal.
#include "telemetry/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/memory.h"

#define REPLACEMENT      0xfffdu
#define REPLACEMENT_UTF8 "\xef\xbf\xbd"

void es_text_reset(EsText *text) {
    text->length = 0;
    text->status = ES_STATUS_OK;
}

void es_text_destroy(EsText *text) {
    es_release(text->bytes);
    memset(text, 0, sizeof *text);
}

static int make_room(EsText *text, size_t n_bytes) {
    if (text->status != ES_STATUS_OK) {
        return 0;
    }
    if (n_bytes <= text->capacity - text->length) {
        return 1;
    }
    size_t capacity = ES_MAX(2 * text->capacity, text->length + n_bytes + 256);
    char *bytes = NULL;
    text->status = es_allocate(capacity, (void **)&bytes);
    if (text->status != ES_STATUS_OK) {
        return 0;
    }
    if (text->length > 0) {
        memcpy(bytes, text->bytes, text->length);
    }
    es_release(text->bytes);
    text->bytes = bytes;
    text->capacity = capacity;
    return 1;
}

void es_text_add(EsText *text, const void *bytes, size_t n_bytes) {
    if (n_bytes > 0 && make_room(text, n_bytes)) {
        memcpy(text->bytes + text->length, bytes, n_bytes);
        text->length += n_bytes;
    }
}

void es_text_add_string(EsText *text, const char *string) {
    es_text_add(text, string, strlen(string));
}

void es_text_add_int(EsText *text, int64_t value) {
    char digits[24];
    size_t first = sizeof digits;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        digits[--first] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0) {
        digits[--first] = '-';
    }
    es_text_add(text, digits + first, sizeof digits - first);
}

// Adds the digits of printf, with a point for the locale's decimal sign, which may be
// several bytes long.
static void add_printed(EsText *text, const char *printed) {
    int was_sign = 0;
    for (; *printed != '\0'; printed++) {
        int is_plain = strchr("0123456789+-e", *printed) != NULL;
        if (is_plain) {
            es_text_add(text, printed, 1);
        } else if (!was_sign) {
            es_text_add(text, ".", 1);
        }
        was_sign = !is_plain;
    }
}

void es_text_add_real(EsText *text, double value) {
    // whole numbers are common (counts, percentages) and printf is slow
    if (fabs(value) < 1e15 && value == (double)(int64_t)value && !(value == 0 && signbit(value))) {
        es_text_add_int(text, (int64_t)value);
        es_text_add(text, ".0", 2);
        return;
    }
    char printed[48];
    for (int n_digits = 15; n_digits <= 17; n_digits++) {
        snprintf(printed, sizeof printed, "%.*g", n_digits, value);
        if (strtod(printed, NULL) == value) {
            break;
        }
    }
    add_printed(text, printed);
    if (strspn(printed, "-0123456789") == strlen(printed)) {
        es_text_add(text, ".0", 2);
    }
}

void es_text_add_fixed(EsText *text, double value, int n_decimals) {
    char printed[400]; // the largest double has 309 digits before the point
    snprintf(printed, sizeof printed, "%.*f", n_decimals, value);
    add_printed(text, printed);
}

void es_text_add_rounded(EsText *text, double value, int n_digits) {
    char printed[64];
    snprintf(printed, sizeof printed, "%.*g", n_digits, value);
    add_printed(text, printed);
}

size_t es_utf8_next(const char *bytes, size_t n_bytes, uint32_t *code_point) {
    const unsigned char *byte = (const unsigned char *)bytes;
    uint32_t first = byte[0];
    *code_point = first;
    if (first < 0x80) {
        return 1;
    }
    *code_point = REPLACEMENT;
    if (first < 0xc2 || first > 0xf4) {
        return 1;
    }
    size_t length = first < 0xe0 ? 2 : (first < 0xf0 ? 3 : 4);
    // the second byte's range excludes overlong forms, surrogates and code points above U+10FFFF
    uint32_t low = first == 0xe0 ? 0xa0 : (first == 0xf0 ? 0x90 : 0x80);
    uint32_t high = first == 0xed ? 0x9f : (first == 0xf4 ? 0x8f : 0xbf);
    uint32_t value = first & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (i >= n_bytes || byte[i] < low || byte[i] > high) {
            return i;
        }
        value = value << 6 | (byte[i] & 0x3fu);
        low = 0x80;
        high = 0xbf;
    }
    *code_point = value;
    return length;
}

static int is_control(uint32_t code_point) {
    return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0);
}

// Characters that move the cursor, command the terminal, or reorder text: a name with U+202E could
// seem to end in another extension.
static int commands_terminal(uint32_t code_point) {
    return is_control(code_point) || (code_point >= 0x2028 && code_point <= 0x202e) ||
           (code_point >= 0x2066 && code_point <= 0x2069);
}

// A malformed character shows by its bytes: U+FFFD itself is EF BF BD.
static int is_malformed(const char *bytes, size_t length, uint32_t code_point) {
    return code_point == REPLACEMENT && (length != 3 || memcmp(bytes, REPLACEMENT_UTF8, 3) != 0);
}

size_t es_text_next_shown(const char *bytes, size_t n_bytes, const char **shown, size_t *n_shown) {
    uint32_t code_point;
    size_t length = es_utf8_next(bytes, n_bytes, &code_point);
    int is_itself = !is_malformed(bytes, length, code_point) && !commands_terminal(code_point);
    *shown = is_itself ? bytes : REPLACEMENT_UTF8;
    *n_shown = is_itself ? length : strlen(REPLACEMENT_UTF8);
    return length;
}

static void add_json_escape(EsText *text, uint32_t code_point) {
    static const char letters[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (const char *letter = letters; *letter != '\0'; letter += 2) {
        if ((uint32_t)(unsigned char)*letter == code_point) {
            es_text_add(text, "\\", 1);
            es_text_add(text, letter + 1, 1);
            return;
        }
    }
    char code[8];
    snprintf(code, sizeof code, "\\u%04x", (unsigned)(code_point & 0xffff));
    es_text_add_string(text, code);
}

static const char *html_entity(uint32_t code_point) {
    switch (code_point) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

// Add the written form of a character that the form cannot take as it is; 0 when it can.
static int add_escaped(EsText *text, uint32_t code_point, EsTextEscape escape) {
    if (escape == ES_TEXT_PLAIN) {
        return 0;
    }
    int is_quote = code_point == '"', is_backslash = code_point == '\\';
    if (escape == ES_TEXT_JSON) {
        if (!is_quote && !is_backslash && !is_control(code_point)) {
            return 0;
        }
        add_json_escape(text, code_point);
        return 1;
    }
    if (escape == ES_TEXT_LABEL || escape == ES_TEXT_HELP) {
        if (is_backslash || (is_quote && escape == ES_TEXT_LABEL)) {
            es_text_add_string(text, is_quote ? "\\\"" : "\\\\");
            return 1;
        }
        if (code_point == '\n') {
            es_text_add_string(text, "\\n");
            return 1;
        }
    }
    const char *entity = escape == ES_TEXT_HTML ? html_entity(code_point) : NULL;
    if (entity != NULL) {
        es_text_add_string(text, entity);
        return 1;
    }
    int is_for_people = escape == ES_TEXT_TERMINAL || escape == ES_TEXT_HTML;
    if (is_for_people ? commands_terminal(code_point) : is_control(code_point)) {
        es_text_add_string(text, REPLACEMENT_UTF8);
        return 1;
    }
    return 0;
}

void es_text_add_utf8(EsText *text, const char *bytes, size_t n_bytes, EsTextEscape escape) {
    size_t copied = 0, next = 0; // [copied, next) can be taken as it is
    while (next < n_bytes) {
        unsigned char byte = (unsigned char)bytes[next];
        int is_markup = escape == ES_TEXT_HTML && html_entity(byte) != NULL;
        if (byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\' && !is_markup) {
            next++;
            continue;
        }
        uint32_t code_point;
        size_t length = es_utf8_next(bytes + next, n_bytes - next, &code_point);
        es_text_add(text, bytes + copied, next - copied);
        if (is_malformed(bytes + next, length, code_point)) {
            es_text_add_string(text, REPLACEMENT_UTF8);
        } else if (!add_escaped(text, code_point, escape)) {
            es_text_add(text, bytes + next, length);
        }
        next += length;
        copied = next;
    }
    es_text_add(text, bytes + copied, n_bytes - copied);
}

// --- columns ---

// Columns of characters on a terminal (Unicode Annex 11), from tables that cover the scripts people
// name things in; a rare character that is missing shifts its line by a column, no more.

typedef struct Range {
    uint32_t first, last;
} Range;

// combining marks and invisible characters
static const Range empty[] = {
    {0x0300, 0x036f},   {0x0483, 0x0489}, {0x0591, 0x05bd}, {0x05bf, 0x05c7},   {0x0610, 0x061a},
    {0x064b, 0x065f},   {0x0670, 0x0670}, {0x06d6, 0x06dc}, {0x06df, 0x06e4},   {0x0900, 0x0902},
    {0x093c, 0x093c},   {0x0941, 0x0948}, {0x094d, 0x094d}, {0x0e31, 0x0e31},   {0x0e34, 0x0e3a},
    {0x0e47, 0x0e4e},   {0x1160, 0x11ff}, {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff},   {0x200b, 0x200f},
    {0x202a, 0x202e},   {0x2060, 0x2064}, {0x20d0, 0x20f0}, {0x302a, 0x302d},   {0x3099, 0x309a},
    {0xfe00, 0xfe0f},   {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}, {0x1f3fb, 0x1f3ff}, {0xe0001, 0xe007f},
    {0xe0100, 0xe01ef},
};

static const Range wide[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x2329, 0x232a},   {0x23e9, 0x23ec},
    {0x23f0, 0x23f0},   {0x23f3, 0x23f3},   {0x25fd, 0x25fe},   {0x2614, 0x2615},
    {0x2648, 0x2653},   {0x267f, 0x267f},   {0x2693, 0x2693},   {0x26a1, 0x26a1},
    {0x26bd, 0x26be},   {0x26c4, 0x26c5},   {0x26d4, 0x26d4},   {0x26ea, 0x26ea},
    {0x26f2, 0x26f5},   {0x26fa, 0x26fd},   {0x2705, 0x2705},   {0x270a, 0x270b},
    {0x2728, 0x2728},   {0x274c, 0x274e},   {0x2753, 0x2757},   {0x2795, 0x2797},
    {0x27b0, 0x27b0},   {0x2b1b, 0x2b1c},   {0x2b50, 0x2b55},   {0x2e80, 0x303e},
    {0x3041, 0x33ff},   {0x3400, 0x4dbf},   {0x4e00, 0xa4cf},   {0xa960, 0xa97f},
    {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe10, 0xfe19},   {0xfe30, 0xfe6f},
    {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x16fe0, 0x18aff}, {0x1b000, 0x1b2ff},
    {0x1f18e, 0x1f18e}, {0x1f191, 0x1f19a}, {0x1f200, 0x1f320}, {0x1f32d, 0x1f335},
    {0x1f337, 0x1f37c}, {0x1f37e, 0x1f393}, {0x1f3a0, 0x1f3ca}, {0x1f3cf, 0x1f3d3},
    {0x1f3e0, 0x1f3f0}, {0x1f3f4, 0x1f3f4}, {0x1f3f8, 0x1f43e}, {0x1f440, 0x1f440},
    {0x1f442, 0x1f4fc}, {0x1f4ff, 0x1f53d}, {0x1f54b, 0x1f567}, {0x1f57a, 0x1f57a},
    {0x1f595, 0x1f596}, {0x1f5a4, 0x1f5a4}, {0x1f5fb, 0x1f64f}, {0x1f680, 0x1f6c5},
    {0x1f6cc, 0x1f6d7}, {0x1f6dd, 0x1f6fc}, {0x1f7e0, 0x1f7f0}, {0x1f90c, 0x1f9ff},
    {0x1fa70, 0x1faff}, {0x20000, 0x3fffd},
};

// By bisection: the ranges ascend.
static int is_in(const Range *ranges, size_t n, uint32_t code_point) {
    size_t first = 0;
    while (n > 0) {
        const Range *middle = &ranges[first + n / 2];
        if (code_point >= middle->first && code_point <= middle->last) {
            return 1;
        }
        if (code_point > middle->last) {
            first += n / 2 + 1;
            n -= n / 2 + 1;
        } else {
            n /= 2;
        }
    }
    return 0;
}

static size_t width_of(uint32_t code_point) {
    if (code_point < empty[0].first) {
        return 1;
    }
    if (is_in(empty, ES_COUNT_OF(empty), code_point)) {
        return 0;
    }
    return is_in(wide, ES_COUNT_OF(wide), code_point) ? 2 : 1;
}

size_t es_text_width(const char *bytes, size_t n_bytes) {
    size_t n_columns = 0;
    for (size_t i = 0; i < n_bytes;) {
        uint32_t code_point;
        i += es_utf8_next(bytes + i, n_bytes - i, &code_point);
        n_columns += width_of(code_point);
    }
    return n_columns;
}

size_t es_text_fit(const char *bytes, size_t n_bytes, size_t n_columns) {
    size_t i = 0;
    while (i < n_bytes) {
        uint32_t code_point;
        size_t length = es_utf8_next(bytes + i, n_bytes - i, &code_point);
        size_t width = width_of(code_point);
        if (width > n_columns) {
            break;
        }
        n_columns -= width;
        i += length;
    }
    return i;
}

void es_text_add_base64(EsText *text, const uint8_t *bytes, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        uint32_t bits = (uint32_t)bytes[i] << 16 | (i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0) |
                        (i + 2 < n ? (uint32_t)bytes[i + 2] : 0);
        const char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63],
                              i + 1 < n ? digits[bits >> 6 & 63] : '=',
                              i + 2 < n ? digits[bits & 63] : '='};
        es_text_add(text, four, sizeof four);
    }
}

json_t *es_text_json(const char *bytes, size_t n_bytes) {
    json_t *value = json_stringn(bytes, n_bytes);
    if (value == NULL) {
        EsText mended = {0};
        es_text_add_utf8(&mended, bytes, n_bytes, ES_TEXT_PLAIN);
        value = json_stringn(mended.bytes, mended.length);
        es_text_destroy(&mended);
    }
    return value;
}
