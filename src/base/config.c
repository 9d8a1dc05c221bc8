// Configuration files by inih, checked against the declared keys: unknown sections and keys, values
// outside their range. Errors name file, line and the nearest valid name.
#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/config_value.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/words.h"
#include "esper/config.h"

// Whole files are read at once; no configuration comes near this.
#define LARGEST_FILE_BYTES (1 << 20)
#define LONGEST_NAME       47

static const EsConfigKey *find_key(const EsConfig *config, const char *section, const char *name) {
    for (int i = 0; i < config->n_keys; i++) {
        const EsConfigKey *key = &config->keys[i];
        if (strcmp(key->section, section) == 0 && strcmp(key->key, name) == 0) {
            return key;
        }
    }
    return NULL;
}

static int has_section(const EsConfig *config, const char *section) {
    for (int i = 0; i < config->n_keys; i++) {
        if (strcmp(config->keys[i].section, section) == 0) {
            return 1;
        }
    }
    return 0;
}

static EsStatus fail_section(const EsConfig *config, const char *section, const char *where) {
    EsSpelling spelling = es_spelling_begin(section);
    for (int i = 0; i < config->n_keys; i++) {
        es_spelling_offer(&spelling, config->keys[i].section);
    }
    const char *nearest = es_spelling_suggestion(&spelling);
    if (nearest != NULL) {
        return ES_FAIL(CONFIG, "%s: unknown section [%.100s]; did you mean [%s]?", where, section,
                       nearest);
    }
    return ES_FAIL(CONFIG, "%s: unknown section [%.100s]", where, section);
}

static EsStatus fail_key(const EsConfig *config, const char *section, const char *name,
                         const char *where) {
    EsSpelling spelling = es_spelling_begin(name);
    const char *elsewhere = NULL;
    for (int i = 0; i < config->n_keys; i++) {
        const EsConfigKey *key = &config->keys[i];
        if (strcmp(key->section, section) == 0) {
            es_spelling_offer(&spelling, key->key);
        } else if (strcmp(key->key, name) == 0 && elsewhere == NULL) {
            elsewhere = key->section;
        }
    }
    const char *nearest = es_spelling_suggestion(&spelling);
    if (elsewhere != NULL) {
        return ES_FAIL(CONFIG, "%s: unknown key \"%.100s\" in [%s]; it belongs in [%s]", where,
                       name, section, elsewhere);
    }
    if (nearest != NULL) {
        return ES_FAIL(CONFIG, "%s: unknown key \"%.100s\" in [%s]; did you mean \"%s\"?", where,
                       name, section, nearest);
    }
    return ES_FAIL(CONFIG, "%s: unknown key \"%.100s\" in [%s]", where, name, section);
}

static EsStatus set_value(const EsConfig *config, void *settings, const char *section,
                          const char *name, const char *text, const char *where) {
    if (!has_section(config, section)) {
        return fail_section(config, section, where);
    }
    const EsConfigKey *key = find_key(config, section, name);
    if (key == NULL) {
        return fail_key(config, section, name, where);
    }
    return es_config_value_parse(key, settings, text, where);
}

static void check_declaration(const EsConfig *config, const EsConfigKey *key) {
    ES_ASSERT(strlen(key->section) >= 1 && strlen(key->section) <= LONGEST_NAME);
    ES_ASSERT(strlen(key->key) >= 1 && strlen(key->key) <= LONGEST_NAME);
    ES_ASSERT(key->offset + key->bytes <= config->settings_bytes);
    ES_ASSERT(key->bytes == 4 || key->bytes == 8 || key->type == ES_CONFIG_TYPE_TEXT);
    ES_ASSERT(key->bytes == 4 ||
              (key->type != ES_CONFIG_TYPE_BOOL && key->type != ES_CONFIG_TYPE_CHOICE));
    ES_ASSERT((key->choices != NULL) == (key->type == ES_CONFIG_TYPE_CHOICE));
    ES_ASSERT(key->help != NULL && strpbrk(key->help, "\r\n") == NULL);
    int is_first_of_name = find_key(config, key->section, key->key) == key;
    ES_ASSERT(is_first_of_name);
}

void es_config_reset(const EsConfig *config) {
    memset(config->settings, 0, config->settings_bytes);
    for (int i = 0; i < config->n_keys; i++) {
        check_declaration(config, &config->keys[i]);
        EsStatus status = es_config_value_parse(&config->keys[i], config->settings,
                                                config->keys[i].default_value, "default");
        ES_ASSERT(status == ES_STATUS_OK);
    }
}

// --- files ---

typedef struct Reading {
    const EsConfig *config;
    const char *file_name; // without folders, for messages
    void *settings;        // the copy that is filled
    int *line_of_key;      // line on which each key was set, 0 = not yet
    const char *text;      // the rest of the file
    size_t text_bytes;
    int line;
    EsStatus status; // first failure; reading ends with it
} Reading;

static const char *name_place(const Reading *reading, char place[300]) {
    snprintf(place, 300, "%.250s:%d", reading->file_name, reading->line);
    return place;
}

// Rejects text after the bracket of a section and empty sections: inih reports neither.
static EsStatus check_section_line(const Reading *reading, const char *line) {
    char place[300], section[128];
    size_t length = strcspn(line + 1, "]");
    const char *rest = line + 1 + length;
    if (*rest != ']') {
        return ES_STATUS_OK; // inih calls it a syntax error
    }
    rest += 1 + strspn(rest + 1, " \t\r\n");
    if (*rest != '\0' && *rest != ';' && *rest != '#') {
        return ES_FAIL(CONFIG, "%s: unexpected text after [%.*s]", name_place(reading, place),
                       (int)ES_MIN(length, 100), line + 1);
    }
    snprintf(section, sizeof section, "%.*s", (int)ES_MIN(length, 120), line + 1);
    return has_section(reading->config, section)
               ? ES_STATUS_OK
               : fail_section(reading->config, section, name_place(reading, place));
}

// The reader inih calls for each line, like fgets. Leading blanks are dropped: inih takes an
// indented line for a continuation of the value above.
static char *read_line(char *line, int line_bytes, void *context) {
    Reading *reading = context;
    if (reading->status != ES_STATUS_OK || reading->text_bytes == 0) {
        return NULL;
    }
    char place[300];
    const char *newline = memchr(reading->text, '\n', reading->text_bytes);
    size_t taken = newline != NULL ? (size_t)(newline - reading->text) + 1 : reading->text_bytes;
    const char *start = reading->text;
    size_t length = taken;
    reading->text += taken;
    reading->text_bytes -= taken;
    reading->line++;
    while (length > 0 && (*start == ' ' || *start == '\t')) {
        start++;
        length--;
    }
    if (memchr(start, '\0', length) != NULL) {
        reading->status =
            ES_FAIL(CONFIG, "%s: the line contains a zero byte", name_place(reading, place));
        return NULL;
    }
    if (*start == '#' || *start == ';') {
        length = 1; // a comment may be as long as it likes
    }
    if (length >= (size_t)line_bytes) {
        reading->status = ES_FAIL(CONFIG, "%s: the line is longer than %d bytes",
                                  name_place(reading, place), line_bytes - 1);
        return NULL;
    }
    memcpy(line, start, length);
    line[length] = '\0';
    if (line[0] == '[') {
        reading->status = check_section_line(reading, line);
    }
    return reading->status == ES_STATUS_OK ? line : NULL;
}

// The handler inih calls for each value: 1 = go on.
static int accept_value(void *context, const char *section, const char *name, const char *value) {
    Reading *reading = context;
    char place[300];
    name_place(reading, place);
    if (section[0] == '\0') {
        reading->status =
            ES_FAIL(CONFIG, "%s: \"%.100s\" stands before the first [section]", place, name);
        return 0;
    }
    const EsConfigKey *key = find_key(reading->config, section, name);
    if (key != NULL) {
        int *line_of_key = &reading->line_of_key[key - reading->config->keys];
        if (*line_of_key != 0) {
            reading->status = ES_FAIL(CONFIG, "%s: [%s] %s is set twice, first in line %d", place,
                                      section, name, *line_of_key);
            return 0;
        }
        *line_of_key = reading->line;
    }
    reading->status = set_value(reading->config, reading->settings, section, name, value, place);
    return reading->status == ES_STATUS_OK;
}

static EsStatus parse_lines(Reading *reading) {
    int error_line = ini_parse_stream(read_line, reading, accept_value, reading);
    // inih goes on after a line it cannot parse, so a failure of ours may come from further down
    if (error_line > 0 && (reading->status == ES_STATUS_OK || error_line < reading->line)) {
        return ES_FAIL(CONFIG, "%s:%d: expected \"key = value\" or \"[section]\"",
                       reading->file_name, error_line);
    }
    if (error_line < 0) {
        return ES_FAIL(MEMORY, "no memory to parse %s", reading->file_name);
    }
    return reading->status;
}

EsStatus es_config_load(const EsConfig *config, const char *path) {
    EsStatus status = ES_STATUS_OK;
    void *text = NULL;
    const char *slash = strrchr(path, '/');
    Reading reading = {.config = config, .file_name = slash != NULL ? slash + 1 : path};
    ES_TRY_GOTO(es_file_read_all(path, LARGEST_FILE_BYTES, &text, &reading.text_bytes));
    reading.text = text;
    ES_TRY_GOTO(es_allocate(config->settings_bytes, &reading.settings));
    memcpy(reading.settings, config->settings, config->settings_bytes);
    ES_TRY_GOTO(es_allocate(sizeof(int) * (size_t)config->n_keys, (void **)&reading.line_of_key));
    ES_TRY_GOTO(parse_lines(&reading));
    memcpy(config->settings, reading.settings, config->settings_bytes);
done:
    es_release(text);
    es_release(reading.settings);
    es_release(reading.line_of_key);
    return status;
}

EsStatus es_config_override(const EsConfig *config, const char *argument) {
    const char *start = strncmp(argument, "--", 2) == 0 ? argument + 2 : argument;
    const char *equals = strchr(start, '=');
    const char *dot = equals != NULL ? memchr(start, '.', (size_t)(equals - start)) : NULL;
    if (dot == NULL || dot == start || dot + 1 == equals) {
        return ES_FAIL(CONFIG, "%.200s: expected --section.key=value", argument);
    }
    char section[128], name[128], where[256];
    snprintf(section, sizeof section, "%.*s", (int)ES_MIN(dot - start, 120), start);
    snprintf(name, sizeof name, "%.*s", (int)ES_MIN(equals - dot - 1, 120), dot + 1);
    snprintf(where, sizeof where, "--%.*s", (int)ES_MIN(equals - start, 200), start);
    return set_value(config, config->settings, section, name, equals + 1, where);
}

// --- writing ---

static void print_key(const EsConfigKey *key, const char *value, FILE *stream) {
    fprintf(stream, "# %s", key->help);
    if (key->type == ES_CONFIG_TYPE_INT || key->type == ES_CONFIG_TYPE_FLOAT) {
        char min[32], max[32];
        fprintf(stream, " (%s..%s)", es_config_bound_format(key->min, min),
                es_config_bound_format(key->max, max));
    } else if (key->type == ES_CONFIG_TYPE_CHOICE) {
        fprintf(stream, " (%s)", key->choices);
    }
    fprintf(stream, "\n%s = %s\n", key->key, value);
}

EsStatus es_config_print(const EsConfig *config, FILE *stream) {
    EsStatus status = ES_STATUS_OK;
    const char *section = "";
    void *copy = NULL;
    ES_TRY(es_allocate(config->settings_bytes, &copy));
    for (int i = 0; i < config->n_keys; i++) {
        const EsConfigKey *key = &config->keys[i];
        char value[ES_CONFIG_VALUE_BYTES];
        es_config_value_format(key, config->settings, value);
        // settings changed in code must still be values that a file may hold
        ES_TRY_GOTO(es_config_value_parse(key, copy, value, "settings"));
        if (strcmp(section, key->section) != 0) {
            fprintf(stream, "%s[%s]\n", i > 0 ? "\n" : "", key->section);
            section = key->section;
        }
        print_key(key, value, stream);
    }
    if (fflush(stream) != 0 || ferror(stream)) {
        status = ES_FAIL(IO, "cannot write the configuration: %s", strerror(errno));
    }
done:
    es_release(copy);
    return status;
}

EsStatus es_config_write(const EsConfig *config, const char *path) {
    char *text = NULL;
    size_t text_bytes = 0;
    FILE *memory = open_memstream(&text, &text_bytes);
    if (memory == NULL) {
        return ES_FAIL(MEMORY, "no memory to write %s", path);
    }
    EsStatus status = es_config_print(config, memory);
    EsStatus closed = es_memory_stream_close(memory, &text);
    status = status == ES_STATUS_OK ? closed : status;
    if (status == ES_STATUS_OK) {
        status = es_file_write_all(path, text, text_bytes);
    }
    free(text);
    return status;
}

// --- values ---

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

// Refuses texts that a file could not return unchanged: inih strips outer blanks and cuts at a
// semicolon after a blank.
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
        // a number outside the list is spelt as such and refused by the parser
        if (narrow < 0 || !copy_choice(key->choices, narrow, text, ES_CONFIG_VALUE_BYTES)) {
            snprintf(text, ES_CONFIG_VALUE_BYTES, "%d", narrow);
        }
        return;
    }
}
