#include "telemetry/sinks/prometheus_labels.h"

#include <string.h>

#define MAX_LABELS 16

typedef struct Name {
    const char *bytes; // borrowed
    size_t length;
} Name;

typedef struct LabelParser {
    const char *labels, *next; // the whole list, and what is left of it
    Name names[MAX_LABELS];
    int n_names;
} LabelParser;

static EsStatus fail_here(const LabelParser *parser, const char *problem) {
    return ES_FAIL(ARGUMENT, "labels %s: at byte %zu: %s", parser->labels,
                   (size_t)(parser->next - parser->labels), problem);
}

static int is_name_byte(char byte, int is_first) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_' ||
           (!is_first && byte >= '0' && byte <= '9');
}

static int is_same(Name a, Name b) {
    return a.length == b.length && memcmp(a.bytes, b.bytes, a.length) == 0;
}

static EsStatus take_name(LabelParser *parser, EsText *text) {
    Name name = {parser->next, 0};
    while (is_name_byte(name.bytes[name.length], name.length == 0)) {
        name.length++;
    }
    if (name.length == 0) {
        return fail_here(parser, "expected a name of letters, digits and underscores");
    }
    if (strncmp(name.bytes, "__", 2) == 0) {
        return fail_here(parser, "names that begin with __ belong to Prometheus");
    }
    if (is_same(name, (Name){"type", 4}) || is_same(name, (Name){"raw_name", 8})) {
        return fail_here(parser, "the names type and raw_name are taken");
    }
    for (int i = 0; i < parser->n_names; i++) {
        if (is_same(name, parser->names[i])) {
            return fail_here(parser, "this name was given before");
        }
    }
    if (parser->n_names == MAX_LABELS) {
        return fail_here(parser, "more than 16 labels");
    }
    parser->names[parser->n_names++] = name;
    es_text_add(text, name.bytes, name.length);
    parser->next += name.length;
    return ES_STATUS_OK;
}

static EsStatus take_value(LabelParser *parser, EsText *text) {
    if (strncmp(parser->next, "=\"", 2) != 0) {
        return fail_here(parser, "expected =\" and a value");
    }
    parser->next += 2;
    es_text_add_string(text, "=\"");
    while (*parser->next != '"') {
        if (*parser->next == '\\') {
            char escaped = parser->next[1];
            if (escaped == '\0' || strchr("\\\"n", escaped) == NULL) {
                return fail_here(parser, "expected \\\\, \\\" or \\n");
            }
            es_text_add(text, parser->next, 2);
            parser->next += 2;
            continue;
        }
        size_t bytes = strcspn(parser->next, "\"\\");
        if (parser->next[bytes] == '\0') {
            parser->next += bytes;
            return fail_here(parser, "the value has no closing quote");
        }
        es_text_add_utf8(text, parser->next, bytes, ES_TEXT_LABEL);
        parser->next += bytes;
    }
    es_text_add_string(text, "\"");
    parser->next++;
    return ES_STATUS_OK;
}

EsStatus es_prometheus_labels_check(const char *labels, EsText *text) {
    LabelParser parser = {.labels = labels, .next = labels};
    while (*parser.next != '\0') {
        if (parser.n_names > 0) {
            if (*parser.next != ',') {
                return fail_here(&parser, "expected a comma");
            }
            parser.next++;
            es_text_add_string(text, ",");
        }
        ES_TRY(take_name(&parser, text));
        ES_TRY(take_value(&parser, text));
    }
    return text->status;
}
