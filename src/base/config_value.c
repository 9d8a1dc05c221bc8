#include "base/config_value.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/spelling.h"

static EsStatus fail_value(const EsConfigKey *key, const char *where, const char *problem) {
    if (strncmp(where, "--", 2) == 0) {
        return ES_FAIL(CONFIG, "%s: %s", where, problem);
    }
    return ES_FAIL(CONFIG, "%s: [%s] %s: %s", where, key->section, key->key, problem);
}

const char *es_config_bound_format(double bound, char text[32]) {
    int is_whole = fabs(bound) < 1e19 && bound == floor(bound);
    snprintf(text, 32, is_whole ? "%.0f" : "%.9g", bound);
    return text;
}

// "3 is outside 0..1", with the bounds as people write them
static EsStatus fail_range(const EsConfigKey *key, const char *where, const char *text) {
    char problem[320], min[32], max[32];
    snprintf(problem, sizeof problem, "%.200s is outside %s..%s", text,
             es_config_bound_format(key->min, min), es_config_bound_format(key->max, max));
    return fail_value(key, where, problem);
}

static EsStatus fail_kind(const EsConfigKey *key, const char *where, const char *text,
                          const char *kind) {
    char problem[320];
    snprintf(problem, sizeof problem, "\"%.200s\" is not %s", text, kind);
    return fail_value(key, where, problem);
}

static EsStatus parse_int(const EsConfigKey *key, void *field, const char *text,
                          const char *where) {
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    // strtoll would skip leading space; a number starts with a digit or a sign
    if (end == text || *end != '\0' || isspace((unsigned char)text[0])) {
        return fail_kind(key, where, text, "a whole number");
    }
    // long double holds every 64-bit integer exactly
    int fits = key->bytes == 8 || (value >= INT32_MIN && value <= INT32_MAX);
    if (errno == ERANGE || !fits || (long double)value < (long double)key->min ||
        (long double)value > (long double)key->max) {
        return fail_range(key, where, text);
    }
    if (key->bytes == 8) {
        int64_t wide = value;
        memcpy(field, &wide, sizeof wide);
    } else {
        int32_t narrow = (int32_t)value;
        memcpy(field, &narrow, sizeof narrow);
    }
    return ES_STATUS_OK;
}

// strtod also knows hexadecimal, "inf" and "nan"; a configuration has plain decimals alone
static int is_decimal(const char *text) {
    return text[0] != '\0' && strspn(text, "0123456789+-.eE") == strlen(text);
}

static EsStatus parse_float(const EsConfigKey *key, void *field, const char *text,
                            const char *where) {
    char *end = NULL;
    int is_double = key->bytes == sizeof(double);
    errno = 0;
    double value = is_double ? strtod(text, &end) : (double)strtof(text, &end);
    if (!is_decimal(text) || end == text || *end != '\0') {
        return fail_kind(key, where, text, "a number");
    }
    // ERANGE also reports results that lost bits to underflow; only those that became 0 are refused
    if (errno == ERANGE && (isinf(value) || value == 0.0)) {
        return fail_kind(key, where, text,
                         is_double ? "within the range of float64" : "within the range of float32");
    }
    // a float32 0.1 is above the double 0.1: bounds are rounded as the value was
    double min = is_double ? key->min : (double)(float)key->min;
    double max = is_double ? key->max : (double)(float)key->max;
    if (!(value >= min && value <= max)) {
        return fail_range(key, where, text);
    }
    if (is_double) {
        memcpy(field, &value, sizeof value);
    } else {
        float narrow = (float)value;
        memcpy(field, &narrow, sizeof narrow);
    }
    return ES_STATUS_OK;
}

static EsStatus parse_bool(const EsConfigKey *key, void *field, const char *text,
                           const char *where) {
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < ES_COUNT_OF(words); i++) {
        if (strcmp(text, words[i]) == 0) {
            int value = (int)(i % 2);
            memcpy(field, &value, sizeof value);
            return ES_STATUS_OK;
        }
    }
    return fail_kind(key, where, text, "true or false");
}

// Refuses what a file could not give back: inih strips outer blanks and cuts at a semicolon after a
// blank.
static EsStatus parse_text(const EsConfigKey *key, void *field, const char *text,
                           const char *where) {
    size_t length = strlen(text);
    size_t longest = ES_MIN(key->bytes - 1, ES_CONFIG_LINE_BYTES - strlen(key->key));
    if (length > longest) {
        char problem[128];
        snprintf(problem, sizeof problem, "the text is %zu bytes long, at most %zu fit", length,
                 longest);
        return fail_value(key, where, problem);
    }
    for (size_t i = 0; i < length; i++) {
        unsigned char letter = (unsigned char)text[i];
        int is_after_blank = i == 0 || text[i - 1] == ' ';
        if (iscntrl(letter)) {
            return fail_value(key, where, "the text contains a control character");
        }
        if (letter == ';' && is_after_blank) {
            return fail_value(key, where,
                              "the text contains \" ;\", which starts a comment in a file");
        }
    }
    if (length > 0 && (text[0] == ' ' || text[length - 1] == ' ')) {
        return fail_value(key, where,
                          "the text starts or ends with a space, which a file would lose");
    }
    memset(field, 0, key->bytes);
    memcpy(field, text, length);
    return ES_STATUS_OK;
}

// Choice number `index` of "a|b|c" into `name`; returns 0 past the last.
static int copy_choice(const char *choices, int index, char *name, size_t name_bytes) {
    for (; index > 0; index--) {
        choices = strchr(choices, '|');
        if (choices == NULL) {
            return 0;
        }
        choices++;
    }
    snprintf(name, name_bytes, "%.*s", (int)strcspn(choices, "|"), choices);
    return 1;
}

static EsStatus fail_choice(const EsConfigKey *key, const char *where, const char *text) {
    char name[64], nearest[64] = "", list[256] = "", problem[600];
    EsSpelling spelling = {text, nearest, INT_MAX};
    for (int i = 0; copy_choice(key->choices, i, name, sizeof name); i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", name);
        int distance = es_spelling_distance(text, name);
        if (distance < spelling.best_distance) {
            spelling.best_distance = distance;
            memcpy(nearest, name, sizeof nearest);
        }
    }
    const char *suggestion = es_spelling_suggestion(&spelling);
    snprintf(problem, sizeof problem, "\"%.120s\" is not one of %s%s%s%s", text, list,
             suggestion != NULL ? "; did you mean \"" : "", suggestion != NULL ? suggestion : "",
             suggestion != NULL ? "\"?" : "");
    return fail_value(key, where, problem);
}

static EsStatus parse_choice(const EsConfigKey *key, void *field, const char *text,
                             const char *where) {
    char name[64];
    for (int i = 0; copy_choice(key->choices, i, name, sizeof name); i++) {
        if (strcmp(text, name) == 0) {
            memcpy(field, &i, sizeof i);
            return ES_STATUS_OK;
        }
    }
    return fail_choice(key, where, text);
}

EsStatus es_config_value_parse(const EsConfigKey *key, void *settings, const char *text,
                               const char *where) {
    void *field = (char *)settings + key->offset;
    switch (key->type) {
    case ES_CONFIG_TYPE_INT:
        return parse_int(key, field, text, where);
    case ES_CONFIG_TYPE_FLOAT:
        return parse_float(key, field, text, where);
    case ES_CONFIG_TYPE_BOOL:
        return parse_bool(key, field, text, where);
    case ES_CONFIG_TYPE_TEXT:
        return parse_text(key, field, text, where);
    case ES_CONFIG_TYPE_CHOICE:
        return parse_choice(key, field, text, where);
    }
    ES_ASSERT(key->type <= ES_CONFIG_TYPE_CHOICE);
    return ES_STATUS_OK;
}

// The fewest digits that give the same bits back: 9 always do for float32, 17 for float64.
static void format_float(float value, char text[ES_CONFIG_VALUE_BYTES]) {
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, ES_CONFIG_VALUE_BYTES, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) {
            return;
        }
    }
}

static void format_double(double value, char text[ES_CONFIG_VALUE_BYTES]) {
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, ES_CONFIG_VALUE_BYTES, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            return;
        }
    }
}

void es_config_value_format(const EsConfigKey *key, const void *settings,
                            char text[ES_CONFIG_VALUE_BYTES]) {
    const char *field = (const char *)settings + key->offset;
    int32_t narrow = 0;
    int64_t wide = 0;
    float single = 0;
    double twice = 0;
    switch (key->type) {
    case ES_CONFIG_TYPE_INT:
        if (key->bytes == sizeof wide) {
            memcpy(&wide, field, sizeof wide);
        } else {
            memcpy(&narrow, field, sizeof narrow);
            wide = narrow;
        }
        snprintf(text, ES_CONFIG_VALUE_BYTES, "%lld", (long long)wide);
        return;
    case ES_CONFIG_TYPE_FLOAT:
        if (key->bytes == sizeof twice) {
            memcpy(&twice, field, sizeof twice);
            format_double(twice, text);
        } else {
            memcpy(&single, field, sizeof single);
            format_float(single, text);
        }
        return;
    case ES_CONFIG_TYPE_BOOL:
        memcpy(&narrow, field, sizeof narrow);
        snprintf(text, ES_CONFIG_VALUE_BYTES, "%s", narrow != 0 ? "true" : "false");
        return;
    case ES_CONFIG_TYPE_TEXT:
        snprintf(text, ES_CONFIG_VALUE_BYTES, "%.*s",
                 (int)ES_MIN(key->bytes, ES_CONFIG_VALUE_BYTES), field);
        return;
    case ES_CONFIG_TYPE_CHOICE:
        memcpy(&narrow, field, sizeof narrow);
        // a number outside the list is spelt as such and refused by whoever parses it
        if (narrow < 0 || !copy_choice(key->choices, narrow, text, ES_CONFIG_VALUE_BYTES)) {
            snprintf(text, ES_CONFIG_VALUE_BYTES, "%d", narrow);
        }
        return;
    }
}
