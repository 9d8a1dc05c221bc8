// The metadata of a policy file as facts. Everything here comes from outside: nothing is taken
// that is missing, unknown, of another type or out of range.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/range_check.h"
#include "control/policy/policy_facts.h"
#include "growth/rules/growth_names.h"

static void set_field(void *to, const EsFact *field, int i, double value) {
    unsigned char *place = (unsigned char *)to + field->offset + (size_t)i * 4;
    int32_t integer = field->kind == ES_FACT_INTEGER ? (int32_t)value : 0;
    float real = field->kind == ES_FACT_REAL ? (float)value : 0.0f;
    if (field->kind == ES_FACT_INTEGER) {
        memcpy(place, &integer, sizeof integer);
    } else {
        memcpy(place, &real, sizeof real);
    }
}

// Texts come from outside: cut them short and leave out what would act on a terminal.
static const char *show(const char *text, char shown[48]) {
    snprintf(shown, 48, "%s", text != NULL ? text : "");
    for (char *c = shown; *c != '\0'; c++) {
        *c = (unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c;
    }
    return shown;
}

static EsStatus read_integer_entry(const EsSafetensors *file, const char *path, const char *key,
                                   int *value) {
    const char *text = es_safetensors_metadata(file, key);
    char *end = NULL, shown[48];
    long number = text != NULL ? strtol(text, &end, 10) : 0;
    if (text == NULL || end == text || *end != '\0' || number < 0 || number > 1000000) {
        return ES_FAIL(INPUT, "%s: metadata entry \"%s\" is \"%s\", expected a number", path, key,
                       show(text, shown));
    }
    *value = (int)number;
    return ES_STATUS_OK;
}

// An entry that holds an object; json_decref it.
static EsStatus read_object(const EsSafetensors *file, const char *path, const char *key,
                            json_t **object) {
    const char *text = es_safetensors_metadata(file, key);
    if (text == NULL) {
        return ES_FAIL(INPUT, "%s: metadata entry \"%s\" is missing", path, key);
    }
    json_error_t error;
    if (es_json_parse(path, text, strlen(text), object, &error) == ES_STATUS_MEMORY) {
        return ES_STATUS_MEMORY;
    }
    if (!json_is_object(*object)) {
        json_decref(*object);
        *object = NULL;
        return ES_FAIL(INPUT, "%s: metadata entry \"%s\" is not a JSON object", path, key);
    }
    return ES_STATUS_OK;
}

static EsStatus read_number(const char *path, const EsFactList *list, const EsFact *field, int i,
                            const json_t *number, void *to) {
    double value = json_number_value(number);
    int is_good = field->kind == ES_FACT_INTEGER
                      ? json_is_integer(number) && fabs(value) <= INT32_MAX
                      : json_is_number(number) && fabs(value) <= 3e38;
    if (!is_good) {
        return ES_FAIL(INPUT, "%s: %s: \"%s\" is not %s", path, list->name, field->name,
                       field->count > 1                 ? "an array of the numbers expected"
                       : field->kind == ES_FACT_INTEGER ? "an integer of 32 bits"
                                                        : "a number");
    }
    set_field(to, field, i, value);
    return ES_STATUS_OK;
}

// Every field of the list, once; `n_more` members besides are somebody else's.
static EsStatus read_fields(const char *path, const EsFactList *list, const json_t *object,
                            size_t n_more, void *to) {
    for (size_t f = 0; f < list->n_facts; f++) {
        const EsFact *field = &list->facts[f];
        const json_t *member = json_object_get(object, field->name);
        if (member == NULL) {
            return ES_FAIL(INPUT, "%s: %s: \"%s\" is missing", path, list->name, field->name);
        }
        if (field->count > 1 && json_array_size(member) != (size_t)field->count) {
            return ES_FAIL(INPUT, "%s: %s: \"%s\" is not an array of %d numbers", path, list->name,
                           field->name, field->count);
        }
        for (int i = 0; i < field->count; i++) {
            const json_t *number = field->count > 1 ? json_array_get(member, (size_t)i) : member;
            ES_TRY(read_number(path, list, field, i, number, to));
        }
    }
    if (json_object_size(object) != list->n_facts + n_more) {
        return ES_FAIL(INPUT, "%s: %s has %zu members, this program knows %zu", path, list->name,
                       json_object_size(object), list->n_facts + n_more);
    }
    return ES_STATUS_OK;
}

static EsStatus read_slots(const char *path, const json_t *slots, EsGrowthSettings *settings) {
    size_t n = json_array_size(slots);
    if (n < 1 || n > ES_SLOTS_MAX) {
        return ES_FAIL(INPUT, "%s: growth: \"slots\" is not an array of 1 to %d names", path,
                       ES_SLOTS_MAX);
    }
    settings->n_slots = (int32_t)n;
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(slots, i));
        char shown[48];
        if (name == NULL || es_slot_parse(name, &settings->slot_row[i],
                                          &settings->slot_column[i]) != ES_STATUS_OK) {
            return ES_FAIL(INPUT, "%s: growth: slot %zu is \"%s\", expected r<row>c<column>", path,
                           i, show(name, shown));
        }
    }
    return ES_STATUS_OK;
}

static int32_t find_blueprint(const char *name) {
    for (int32_t b = 0; name != NULL && b < ES_N_BLUEPRINT_IDS; b++) {
        if (strcmp(name, es_blueprint_id_name(b)) == 0) {
            return b;
        }
    }
    return -1;
}

static EsStatus read_blueprints(const char *path, const json_t *names, EsGrowthSettings *settings) {
    if (!json_is_array(names)) {
        return ES_FAIL(INPUT, "%s: growth: \"blueprints\" is not an array of names", path);
    }
    settings->blueprints = 0;
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        int32_t blueprint = find_blueprint(name);
        if (blueprint < 0) {
            char shown[48];
            return ES_FAIL(INPUT, "%s: growth: there is no blueprint \"%s\"", path,
                           show(name, shown));
        }
        settings->blueprints |= ES_BLUEPRINT_ID_BIT(blueprint);
    }
    return ES_STATUS_OK;
}

static EsStatus read_growth(const EsSafetensors *file, const char *path,
                            EsGrowthSettings *settings) {
    json_t *object = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(read_object(file, path, es_facts_of_growth.name, &object));
    ES_TRY_GOTO(read_slots(path, json_object_get(object, "slots"), settings));
    ES_TRY_GOTO(read_blueprints(path, json_object_get(object, "blueprints"), settings));
    ES_TRY_GOTO(read_fields(path, &es_facts_of_growth, object, 2, settings));
    if (es_growth_settings_check(settings) != ES_STATUS_OK) {
        status = ES_FAIL(INPUT, "%s: %s", path, es_status_detail());
    }
done:
    json_decref(object);
    return status;
}

static EsStatus read_network(const EsSafetensors *file, const char *path, EsPolicySpec *spec) {
    json_t *object = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(read_object(file, path, es_facts_of_network.name, &object));
    ES_TRY_GOTO(read_fields(path, &es_facts_of_network, object, 0, spec));
    ES_TRY_GOTO(es_check_integer((EsFileField){path, "network: aux_stops", ES_NO_INDEX},
                                 spec->aux_stops, 0, 1));
    if (es_policy_spec_check(spec) != ES_STATUS_OK) {
        status = ES_FAIL(INPUT, "%s: %s", path, es_status_detail());
    }
done:
    json_decref(object);
    return status;
}

static EsStatus read_floors(const EsSafetensors *file, const char *path, float *floor) {
    json_t *object = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(read_object(file, path, "floors", &object));
    for (int32_t head = 0; head < ES_N_HEADS; head++) {
        const json_t *number = json_object_get(object, es_head_name(head));
        double value = json_number_value(number);
        if (!json_is_number(number) || !(value >= 0 && value <= 1)) {
            status = ES_FAIL(INPUT, "%s: the floor of head \"%s\" is missing or not in 0 to 1",
                             path, es_head_name(head));
            goto done;
        }
        floor[head] = (float)value;
    }
    if (json_object_size(object) != ES_N_HEADS) {
        status = ES_FAIL(INPUT, "%s: floors has %zu members, this program knows %d", path,
                         json_object_size(object), (int)ES_N_HEADS);
    }
done:
    json_decref(object);
    return status;
}

EsStatus es_policy_metadata_read(const EsSafetensors *file, const char *path,
                                 EsPolicyFacts *facts) {
    const char *format = es_safetensors_metadata(file, "format");
    if (format == NULL || strcmp(format, ES_POLICY_FORMAT) != 0) {
        return ES_FAIL(INPUT, "%s is not a policy file: its metadata has no format \"%s\"", path,
                       ES_POLICY_FORMAT);
    }
    int version = 0;
    memset(facts, 0, sizeof *facts);
    ES_TRY(read_integer_entry(file, path, "version", &version));
    if (version != ES_POLICY_VERSION) {
        return ES_FAIL(INPUT, "%s: a policy file of version %d, this program reads version %d",
                       path, version, ES_POLICY_VERSION);
    }
    ES_TRY(read_integer_entry(file, path, "observation", &facts->observation_version));
    ES_TRY(read_network(file, path, &facts->spec));
    ES_TRY(read_growth(file, path, &facts->settings));
    ES_TRY(read_floors(file, path, facts->floor));
    if (facts->spec.n_slots != facts->settings.n_slots) {
        return ES_FAIL(INPUT, "%s: the network has %d slots, its growth %d", path,
                       facts->spec.n_slots, facts->settings.n_slots);
    }
    return ES_STATUS_OK;
}
