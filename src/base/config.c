#include "esper/config.h"

#include <errno.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>

#include "base/config_value.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/spelling.h"

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
    int *line_of_key;      // where each key was set, 0 = not yet
    const char *text;      // what is left of the file
    size_t text_bytes;
    int line;
    EsStatus status; // first failure; reading ends with it
} Reading;

static const char *name_place(const Reading *reading, char place[300]) {
    snprintf(place, 300, "%.250s:%d", reading->file_name, reading->line);
    return place;
}

// inih neither reports an empty section nor what follows the bracket
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
