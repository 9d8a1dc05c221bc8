// config.ini without a declared list of keys: whatever names a run of any kind and version has.
#include <ini.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/macros.h"
#include "base/memory.h"
#include "runs/inspect/run_facts_internal.h"

#define LARGEST_FILE_BYTES (1 << 20)

typedef struct Reading {
    EsRunFacts *facts;
    const char *text; // what is left of the file
    size_t text_bytes;
    int line;
    EsStatus status; // first failure; reading ends with it
} Reading;

// The reader inih calls for each line, like fgets. Leading blanks are dropped, since inih takes an
// indented line for a continuation; comments may be longer than its buffer.
static char *read_line(char *line, int line_bytes, void *context) {
    Reading *reading = context;
    if (reading->status != ES_STATUS_OK || reading->text_bytes == 0) {
        return NULL;
    }
    const char *start = reading->text;
    const char *newline = memchr(start, '\n', reading->text_bytes);
    size_t taken = newline != NULL ? (size_t)(newline - start) + 1 : reading->text_bytes;
    size_t length = taken;
    reading->text += taken;
    reading->text_bytes -= taken;
    reading->line++;
    while (length > 0 && (*start == ' ' || *start == '\t')) {
        start++;
        length--;
    }
    if (length > 0 && (*start == '#' || *start == ';')) {
        length = 1;
    }
    if (length >= (size_t)line_bytes || memchr(start, '\0', length) != NULL) {
        reading->status = ES_FAIL(INPUT, "%s/config.ini:%d: the line is too long or not text",
                                  reading->facts->path, reading->line);
        return NULL;
    }
    memcpy(line, start, length);
    line[length] = '\0';
    return line;
}

static EsStatus add_setting(EsRunFacts *facts, const char *section, const char *key,
                            const char *value) {
    char name[256];
    snprintf(name, sizeof name, "%.120s%s%.120s", section, section[0] != '\0' ? "." : "", key);
    ES_TRY(es_list_grow((void **)&facts->settings, facts->n_settings, sizeof *facts->settings));
    EsRunSetting *setting = &facts->settings[facts->n_settings];
    ES_TRY(es_run_facts_keep(facts, name, &setting->name));
    ES_TRY(es_run_facts_keep(facts, value, &setting->value));
    facts->n_settings++;
    return ES_STATUS_OK;
}

// The handler inih calls for each value: 1 = go on.
static int accept_value(void *context, const char *section, const char *name, const char *value) {
    Reading *reading = context;
    if (reading->status == ES_STATUS_OK) {
        reading->status = add_setting(reading->facts, section, name, value);
    }
    return reading->status == ES_STATUS_OK;
}

EsStatus es_run_facts_read_settings(EsRunFacts *facts) {
    char path[4096];
    void *text = NULL;
    Reading reading = {.facts = facts};
    snprintf(path, sizeof path, "%s/config.ini", facts->path);
    ES_TRY(es_file_read_all(path, LARGEST_FILE_BYTES, &text, &reading.text_bytes));
    reading.text = text;
    int error_line = ini_parse_stream(read_line, &reading, accept_value, &reading);
    if (reading.status == ES_STATUS_OK && error_line > 0) {
        reading.status =
            ES_FAIL(INPUT, "%s:%d: expected \"key = value\" or \"[section]\"", path, error_line);
    } else if (reading.status == ES_STATUS_OK && error_line < 0) {
        reading.status = ES_FAIL(MEMORY, "no memory to parse %s", path);
    }
    es_release(text);
    return reading.status;
}
