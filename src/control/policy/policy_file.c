// A trained policy as a file: the metadata about the hosts it fits, as JSON texts, and the tensors.
// Everything that is read comes from outside: nothing is taken that is missing, unknown, of another
// type or out of range.
#include "control/policy/policy_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/range_check.h"
#include "growth/rules/growth_names.h"
#include "tensor/safetensors.h"

#define N_METADATA 7 // at most
#define FORMAT     "esper-policy"

#define MEAN     "normaliser.mean"
#define VARIANCE "normaliser.variance"
#define MERGED   "normaliser.n_merged"
#define N_SCALES 3

// --- metadata: one list of fields serves writing, reading and comparing ---

typedef enum FieldKind { FIELD_INTEGER, FIELD_REAL } FieldKind;

// `count` numbers of 4 bytes at an offset of a struct.
typedef struct Field {
    const char *name;
    size_t offset;
    FieldKind kind;
    int count;      // above 1: an array
    int is_checked; // a host that differs is refused: by version 1, CHECK_FLAT, or both, CHECK_ALL
} Field;

enum { CHECK_NONE, CHECK_FLAT, CHECK_ALL };

typedef struct FieldList {
    const char *name; // of the metadata entry
    const Field *fields;
    size_t n_fields;
} FieldList;

#define FIELD(type, member, kind, count, is_checked)                                               \
    { #member, offsetof(type, member), kind, count, is_checked }
#define CHECKED(member, kind, count)  FIELD(EsGrowthSettings, member, kind, count, CHECK_FLAT)
#define ALWAYS(member, kind, count)   FIELD(EsGrowthSettings, member, kind, count, CHECK_ALL)
#define RECORDED(member, kind, count) FIELD(EsGrowthSettings, member, kind, count, CHECK_NONE)

static const Field growth_fields[] = {
    CHECKED(max_seeds, FIELD_INTEGER, 1),
    CHECKED(episode_steps, FIELD_INTEGER, 1),
    ALWAYS(is_strict, FIELD_INTEGER, 1),
    ALWAYS(auto_forward, FIELD_INTEGER, 1),
    CHECKED(training_dwell, FIELD_INTEGER, 1),
    CHECKED(blending_dwell, FIELD_INTEGER, 1),
    CHECKED(embargo_dwell, FIELD_INTEGER, 1),
    CHECKED(reset_dwell, FIELD_INTEGER, 1),
    CHECKED(holding_dwell, FIELD_INTEGER, 1),
    CHECKED(prune_age, FIELD_INTEGER, 1),
    CHECKED(tempo, FIELD_INTEGER, 3),
    CHECKED(alpha_speed, FIELD_INTEGER, 4),
    ALWAYS(alpha_target, FIELD_REAL, 3),
    RECORDED(min_health, FIELD_REAL, 1),
    RECORDED(min_improvement, FIELD_REAL, 1),
    RECORDED(min_ratio, FIELD_REAL, 1),
    RECORDED(min_contribution, FIELD_REAL, 1),
    RECORDED(vanishing_norm, FIELD_REAL, 1),
    RECORDED(exploding_clips, FIELD_REAL, 1),
    RECORDED(vanishing_penalty, FIELD_REAL, 1),
    RECORDED(exploding_penalty, FIELD_REAL, 1),
    RECORDED(gradient_decay, FIELD_REAL, 1),
    RECORDED(velocity_decay, FIELD_REAL, 1),
    RECORDED(governor_window, FIELD_INTEGER, 1),
    RECORDED(governor_minimum, FIELD_INTEGER, 1),
    RECORDED(divergences_to_panic, FIELD_INTEGER, 1),
    RECORDED(snapshot_every, FIELD_INTEGER, 1),
    RECORDED(divergence_sigmas, FIELD_REAL, 1),
    RECORDED(divergence_means, FIELD_REAL, 1),
    RECORDED(divergence_loss, FIELD_REAL, 1),
    RECORDED(random_loss, FIELD_REAL, 1),
    RECORDED(lobotomy_mean, FIELD_REAL, 1),
    RECORDED(lobotomy_band, FIELD_REAL, 1),
    RECORDED(governor_prune_penalty, FIELD_REAL, 1),
    RECORDED(plateau_points, FIELD_REAL, 1),
    RECORDED(stable_steps, FIELD_INTEGER, 1),
    RECORDED(stable_gain, FIELD_REAL, 1),
    RECORDED(stable_loss, FIELD_REAL, 1),
};

// every number of the settings is in the list, apart from slots, blueprints and their sizes,
// and the budget and what else belongs to the host, which stand last
_Static_assert(offsetof(EsGrowthSettings, max_parameters) ==
                   4 * (ES_COUNT_OF(growth_fields) + 7) +
                       sizeof(int32_t) * (2 + 3 * ES_SLOTS_MAX + ES_SLOTS_MAX * ES_N_BLUEPRINT_IDS),
               "a setting of growth is missing among the metadata of a policy");

static const Field network_fields[] = {
    FIELD(EsPolicySpec, n_slots, FIELD_INTEGER, 1, CHECK_FLAT),
    FIELD(EsPolicySpec, n_hidden, FIELD_INTEGER, 1, CHECK_FLAT),
    FIELD(EsPolicySpec, n_features, FIELD_INTEGER, 1, CHECK_FLAT),
    FIELD(EsPolicySpec, dropout, FIELD_REAL, 1, CHECK_NONE),
    FIELD(EsPolicySpec, aux_stops, FIELD_INTEGER, 1, CHECK_NONE),
};
// and the version, which is an entry of its own
_Static_assert(sizeof(EsPolicySpec) == 4 * (ES_COUNT_OF(network_fields) + 1),
               "a part of the spec is missing among the metadata of a policy");

// EsGrowthSettings, but for slots and blueprints; EsPolicySpec.
static const FieldList growth_list = {"growth", growth_fields, ES_COUNT_OF(growth_fields)};
static const FieldList network_list = {"network", network_fields, ES_COUNT_OF(network_fields)};

static double field_value(const void *from, const Field *field, int i) {
    const unsigned char *place = (const unsigned char *)from + field->offset + (size_t)i * 4;
    int32_t integer;
    float real;
    memcpy(&integer, place, sizeof integer);
    memcpy(&real, place, sizeof real);
    return field->kind == FIELD_INTEGER ? (double)integer : (double)real;
}

// --- writing ---

// The shortest decimal that reads back as the same float.
static json_t *real_json(float value) {
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) {
            break;
        }
    }
    return json_real(strtod(text, NULL));
}

static json_t *number_json(const void *from, const Field *field, int i) {
    double value = field_value(from, field, i);
    return field->kind == FIELD_INTEGER ? json_integer((json_int_t)value) : real_json((float)value);
}

static void write_fields(json_t *object, const FieldList *list, const void *from) {
    for (size_t f = 0; f < list->n_fields; f++) {
        const Field *field = &list->fields[f];
        if (field->count == 1) {
            json_object_set_new(object, field->name, number_json(from, field, 0));
            continue;
        }
        json_t *array = json_array();
        for (int i = 0; i < field->count; i++) {
            json_array_append_new(array, number_json(from, field, i));
        }
        json_object_set_new(object, field->name, array);
    }
}

static json_t *slots_json(const EsGrowthSettings *settings) {
    json_t *slots = json_array();
    for (int32_t i = 0; i < settings->n_slots; i++) {
        char name[24];
        es_slot_write(settings->slot_row[i], settings->slot_column[i], name);
        json_array_append_new(slots, json_string(name));
    }
    return slots;
}

static json_t *blueprints_json(int32_t blueprints) {
    json_t *names = json_array();
    for (int32_t b = 0; b < ES_N_BLUEPRINT_IDS; b++) {
        if (blueprints & ES_BLUEPRINT_ID_BIT(b)) {
            json_array_append_new(names, json_string(es_blueprint_id_name(b)));
        }
    }
    return names;
}

// Takes over the object. NULL when memory is short.
static char *dump(json_t *object) {
    char *text = NULL;
    (void)es_json_dump("the metadata of a policy", object, JSON_REAL_PRECISION(9), &text);
    return text;
}

static char *dump_growth(const EsGrowthSettings *settings) {
    json_t *object = json_object();
    json_object_set_new(object, "slots", slots_json(settings));
    json_object_set_new(object, "blueprints", blueprints_json(settings->blueprints));
    write_fields(object, &growth_list, settings);
    return dump(object);
}

static char *dump_network(const EsPolicySpec *spec) {
    json_t *object = json_object();
    write_fields(object, &network_list, spec);
    return dump(object);
}

static char *dump_floors(const float *floor) {
    json_t *object = json_object();
    for (int32_t head = 0; head < ES_N_HEADS; head++) {
        json_object_set_new(object, es_head_name(head), real_json(floor[head]));
    }
    return dump(object);
}

static void destroy_metadata(EsMetadata entries[N_METADATA]) {
    for (int i = 0; i < N_METADATA; i++) {
        free((char *)entries[i].value);
        entries[i].value = NULL;
    }
}

// Entries whose values destroy_metadata frees; returns their number in *n, the last one is of
// version 2. MEMORY when they cannot be made.
static EsStatus create_metadata(const EsPolicyMetadata *metadata, EsMetadata entries[N_METADATA],
                                int *n) {
    char version[16];
    int is_set = metadata->spec.is_set;
    (void)es_json_lacked_memory(); // an earlier attempt is no concern of this one
    snprintf(version, sizeof version, "%d", metadata->observation_version);
    const EsMetadata made[N_METADATA] = {
        {"format", strdup(FORMAT)},
        {"version", strdup(version)},
        {"observation", strdup(version)},
        {network_list.name, dump_network(&metadata->spec)},
        {growth_list.name, dump_growth(&metadata->settings)},
        {"floors", dump_floors(metadata->floor)},
        {"ranges", is_set ? es_policy_ranges_write(&metadata->ranges) : NULL},
    };
    int is_whole = 1;
    *n = is_set ? N_METADATA : N_METADATA - 1;
    for (int i = 0; i < *n; i++) {
        entries[i] = made[i];
        is_whole = is_whole && entries[i].value != NULL;
    }
    if (!is_whole) {
        destroy_metadata(entries);
        return ES_FAIL(MEMORY, "not enough memory for the metadata of a policy");
    }
    return ES_STATUS_OK;
}

// --- comparing ---

// A message names the option behind a difference, or the task if there is none.
#define OTHER_TASK "run it with the --task it was trained with"

// Items "a,b,c" into text.
static void join(const json_t *items, const char *comma, char *text, size_t text_bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < json_array_size(items) && used < text_bytes; i++) {
        int n = snprintf(text + used, text_bytes - used, "%s%s", i > 0 ? comma : "",
                         json_string_value(json_array_get(items, i)));
        used += (size_t)n;
    }
}

static EsStatus compare_slots(const char *path, json_t *trained, json_t *host) {
    EsStatus status = ES_STATUS_OK;
    if (es_json_lacked_memory()) {
        status = ES_FAIL(MEMORY, "not enough memory to compare %s with this run", path);
    } else if (!json_equal(trained, host)) {
        char ours[256], theirs[256];
        join(trained, ",", ours, sizeof ours);
        join(host, ",", theirs, sizeof theirs);
        status = ES_FAIL(INPUT, "%s: the policy was trained with --slots %s; this run has %s", path,
                         ours, theirs);
    }
    json_decref(trained);
    json_decref(host);
    return status;
}

static EsStatus compare_blueprints(const char *path, json_t *trained, json_t *host) {
    EsStatus status = ES_STATUS_OK;
    if (es_json_lacked_memory()) {
        status = ES_FAIL(MEMORY, "not enough memory to compare %s with this run", path);
    } else if (!json_equal(trained, host)) {
        char ours[256], theirs[256];
        join(trained, ", ", ours, sizeof ours);
        join(host, ", ", theirs, sizeof theirs);
        status = ES_FAIL(
            INPUT,
            "%s: the policy was trained with the blueprints %s; this host has %s; " OTHER_TASK,
            path, ours, theirs);
    }
    json_decref(trained);
    json_decref(host);
    return status;
}

static const char *write_value(const Field *field, double value, char text[32]) {
    if (strcmp(field->name, "is_strict") == 0) {
        return value != 0 ? "strict" : "permissive";
    }
    if (strcmp(field->name, "auto_forward") == 0 && (value == 0 || value == ES_AUTO_FORWARD_ALL)) {
        return value != 0 ? "on" : "off";
    }
    snprintf(text, 32, "%g", value);
    return text;
}

static EsStatus fail_field(const char *path, const Field *field, int i, double trained,
                           double host) {
    static const struct {
        const char *fact, *option;
    } options[] = {{"max_seeds", "--max-seeds "},
                   {"episode_steps", "--episode-steps "},
                   {"is_strict", "--gates "},
                   {"auto_forward", "--grow.auto_forward="}};
    char ours[32], theirs[32], position[16] = "";
    for (size_t o = 0; o < ES_COUNT_OF(options); o++) {
        if (strcmp(options[o].fact, field->name) == 0) {
            return ES_FAIL(INPUT, "%s: the policy was trained with %s%s; this run has %s", path,
                           options[o].option, write_value(field, trained, ours),
                           write_value(field, host, theirs));
        }
    }
    if (field->count > 1) {
        snprintf(position, sizeof position, "[%d]", i);
    }
    return ES_FAIL(INPUT,
                   "%s: the policy was trained on hosts with other growth settings (%s%s is %g "
                   "there and %g here); " OTHER_TASK,
                   path, field->name, position, trained, host);
}

EsStatus es_policy_metadata_check(const EsPolicyMetadata *metadata,
                                  const EsGrowthSettings *settings, const char *path) {
    int is_set = metadata->spec.is_set;
    int32_t trained_with = metadata->settings.blueprints, hosts = settings->blueprints;
    if (metadata->observation_version != es_policy_spec_version(&metadata->spec)) {
        return ES_FAIL(INPUT,
                       "%s: the policy reads observations of version %d; this program makes "
                       "version %d for networks like its own",
                       path, metadata->observation_version,
                       es_policy_spec_version(&metadata->spec));
    }
    if (is_set) {
        ES_TRY(es_policy_ranges_check(&metadata->ranges, settings, path));
        hosts = (hosts & ~trained_with) == 0 ? trained_with : hosts; // fewer are as good
    } else {
        ES_TRY(compare_slots(path, slots_json(&metadata->settings), slots_json(settings)));
    }
    ES_TRY(compare_blueprints(path, blueprints_json(trained_with), blueprints_json(hosts)));
    for (size_t f = 0; f < growth_list.n_fields; f++) {
        const Field *field = &growth_list.fields[f];
        int is_checked = field->is_checked >= (is_set ? CHECK_ALL : CHECK_FLAT);
        for (int i = 0; i < field->count && is_checked; i++) {
            double trained = field_value(&metadata->settings, field, i);
            double host = field_value(settings, field, i);
            if (trained != host) {
                return fail_field(path, field, i, trained, host);
            }
        }
    }
    return ES_STATUS_OK;
}

// --- metadata: reading ---

static void set_field(void *to, const Field *field, int i, double value) {
    unsigned char *place = (unsigned char *)to + field->offset + (size_t)i * 4;
    int32_t integer = field->kind == FIELD_INTEGER ? (int32_t)value : 0;
    float real = field->kind == FIELD_REAL ? (float)value : 0.0f;
    if (field->kind == FIELD_INTEGER) {
        memcpy(place, &integer, sizeof integer);
    } else {
        memcpy(place, &real, sizeof real);
    }
}

// Texts come from outside: cuts them short and leaves out control characters.
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

static EsStatus read_number(const char *path, const FieldList *list, const Field *field, int i,
                            const json_t *number, void *to) {
    double value = json_number_value(number);
    int is_good = field->kind == FIELD_INTEGER ? json_is_integer(number) && fabs(value) <= INT32_MAX
                                               : json_is_number(number) && fabs(value) <= 3e38;
    if (!is_good) {
        return ES_FAIL(INPUT, "%s: %s: \"%s\" is not %s", path, list->name, field->name,
                       field->count > 1               ? "an array of the numbers expected"
                       : field->kind == FIELD_INTEGER ? "an integer of 32 bits"
                                                      : "a number");
    }
    set_field(to, field, i, value);
    return ES_STATUS_OK;
}

// Reads every field of the list, once; `n_more` other members are read elsewhere.
static EsStatus read_fields(const char *path, const FieldList *list, const json_t *object,
                            size_t n_more, void *to) {
    for (size_t f = 0; f < list->n_fields; f++) {
        const Field *field = &list->fields[f];
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
    if (json_object_size(object) != list->n_fields + n_more) {
        return ES_FAIL(INPUT, "%s: %s has %zu members, this program knows %zu", path, list->name,
                       json_object_size(object), list->n_fields + n_more);
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
    ES_TRY_GOTO(read_object(file, path, growth_list.name, &object));
    ES_TRY_GOTO(read_slots(path, json_object_get(object, "slots"), settings));
    ES_TRY_GOTO(read_blueprints(path, json_object_get(object, "blueprints"), settings));
    ES_TRY_GOTO(read_fields(path, &growth_list, object, 2, settings));
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
    ES_TRY_GOTO(read_object(file, path, network_list.name, &object));
    ES_TRY_GOTO(read_fields(path, &network_list, object, 0, spec));
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

static EsStatus read_metadata(const EsSafetensors *file, const char *path,
                              EsPolicyMetadata *metadata) {
    const char *format = es_safetensors_metadata(file, "format");
    if (format == NULL || strcmp(format, FORMAT) != 0) {
        return ES_FAIL(INPUT, "%s is not a policy file: its metadata has no format \"%s\"", path,
                       FORMAT);
    }
    int version = 0;
    memset(metadata, 0, sizeof *metadata);
    ES_TRY(read_integer_entry(file, path, "version", &version));
    if (version != ES_OBSERVATION_VERSION && version != ES_SET_OBSERVATION_VERSION) {
        return ES_FAIL(INPUT,
                       "%s: a policy file of version %d, this program reads versions %d and %d",
                       path, version, ES_OBSERVATION_VERSION, ES_SET_OBSERVATION_VERSION);
    }
    ES_TRY(read_integer_entry(file, path, "observation", &metadata->observation_version));
    ES_TRY(read_network(file, path, &metadata->spec));
    metadata->spec.is_set = version == ES_SET_OBSERVATION_VERSION;
    if (metadata->spec.is_set) {
        ES_TRY(es_policy_ranges_read(es_safetensors_metadata(file, "ranges"), path,
                                     &metadata->ranges));
    }
    ES_TRY(read_growth(file, path, &metadata->settings));
    ES_TRY(read_floors(file, path, metadata->floor));
    if (metadata->spec.n_slots != metadata->settings.n_slots) {
        return ES_FAIL(INPUT, "%s: the network has %d slots, its growth %d", path,
                       metadata->spec.n_slots, metadata->settings.n_slots);
    }
    return ES_STATUS_OK;
}

// --- tensors ---

// The shape of a parameter in a file: without the environment axis.
static EsTensor file_view(const EsValue *value, float *data) {
    return es_tensor_view(data, ES_DTYPE_F32, NULL, value->rank - 1, value->dim + 1);
}

// Tensors of the normaliser, which version 2 does not have.
static int count_scales(const EsPolicySpec *spec) { return spec->is_set ? 0 : N_SCALES; }

// Features that the normaliser is for.
static int count_normalised(const EsPolicySpec *spec) {
    return spec->is_set ? 0 : es_observation_size(spec->n_slots);
}

static int count_parameters(const EsGraph *graph) {
    int n = 0;
    for (int v = 0; v < graph->n_values; v++) {
        n += graph->values[v].role == ES_ROLE_PARAMETER;
    }
    return n;
}

// --- saving ---

static EsStatus check_metadata(const EsPolicyMetadata *metadata, const EsPolicySpec *spec,
                               const EsFeatureNormaliser *features) {
    if (metadata->spec.n_slots != spec->n_slots || metadata->spec.n_hidden != spec->n_hidden ||
        metadata->spec.n_features != spec->n_features || metadata->spec.is_set != spec->is_set ||
        metadata->settings.n_slots != spec->n_slots) {
        return ES_FAIL(ARGUMENT,
                       "the metadata is of another policy: %d slots (growth: %d), %d hidden units, "
                       "%d features; the network has %d, %d and %d",
                       metadata->spec.n_slots, metadata->settings.n_slots, metadata->spec.n_hidden,
                       metadata->spec.n_features, spec->n_slots, spec->n_hidden, spec->n_features);
    }
    int n_wanted = count_normalised(spec);
    if (features->n_features != n_wanted) {
        return ES_FAIL(ARGUMENT, "the normaliser is for %d features, the policy observes %d",
                       features->n_features, n_wanted);
    }
    return es_growth_settings_check(&metadata->settings);
}

static void list_tensors(const EsGraph *graph, float *slab, const EsFeatureNormaliser *features,
                         EsNamedTensor *tensors) {
    int n = 0;
    int64_t n_features = features->n_features, one = 1;
    for (int v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        if (value->role == ES_ROLE_PARAMETER) {
            tensors[n++] =
                (EsNamedTensor){value->name, file_view(value, slab + value->slab_offset)};
        }
    }
    if (n_features == 0) {
        return;
    }
    tensors[n++] =
        (EsNamedTensor){MEAN, es_tensor_view(features->mean, ES_DTYPE_F64, NULL, 1, &n_features)};
    tensors[n++] = (EsNamedTensor){
        VARIANCE, es_tensor_view(features->variance, ES_DTYPE_F64, NULL, 1, &n_features)};
    tensors[n] = (EsNamedTensor){
        MERGED, es_tensor_view((int64_t *)&features->n_merged, ES_DTYPE_I64, NULL, 1, &one)};
}

EsStatus es_policy_file_save(const char *path, const EsPolicyMetadata *metadata,
                             const EsPolicyNetwork *network, const EsFeatureNormaliser *features) {
    ES_TRY(check_metadata(metadata, es_policy_network_spec(network), features));
    const EsGraph *graph = es_policy_network_graph(network);
    const EsStore *store = es_policy_network_store(network);
    EsStream *stream = es_policy_network_stream(network);
    size_t slab_bytes = es_tensor_bytes(&store->parameters);
    int n_tensors = count_parameters(graph) + count_scales(es_policy_network_spec(network));
    int n_entries = 0;
    float *slab = NULL;
    EsNamedTensor *tensors = NULL;
    EsMetadata entries[N_METADATA + 1] = {0};
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_allocate(slab_bytes, (void **)&slab));
    ES_TRY_GOTO(es_allocate(sizeof *tensors * (size_t)n_tensors, (void **)&tensors));
    ES_TRY_GOTO(es_stream_copy(stream, slab, store->parameters.data, slab_bytes, ES_COPY_TO_HOST));
    ES_TRY_GOTO(es_stream_synchronize(stream));
    ES_TRY_GOTO(create_metadata(metadata, entries, &n_entries));
    list_tensors(graph, slab, features, tensors);
    entries[n_entries] = ES_TENSORS_HASH_ENTRY;
    status = es_safetensors_save(path, tensors, n_tensors, entries, n_entries + 1);
    entries[n_entries] = (EsMetadata){0}; // not to be freed
done:
    destroy_metadata(entries);
    es_release(tensors);
    es_release(slab);
    return status;
}

// --- loading ---

// Returns whether the file begins as safetensors do: the length of a header, and its brace.
static int begins_well(const char *path) {
    unsigned char start[9] = {0};
    FILE *stream = fopen(path, "rbe");
    size_t n = stream != NULL ? fread(start, 1, sizeof start, stream) : 0;
    if (stream != NULL) {
        fclose(stream);
    }
    // headers are far below 2^32 bytes
    return n == sizeof start && memcmp(start + 4, "\0\0\0", 4) == 0 && start[8] == '{';
}

// A file that cannot be read is wrong input: the user has named it.
static EsStatus open_file(const char *path, EsSafetensors **file) {
    EsStatus status = es_safetensors_open(path, file);
    if (status == ES_STATUS_IO) {
        return ES_FAIL(INPUT, "%s", es_status_detail());
    }
    return status != ES_STATUS_INPUT
               ? status
               : ES_FAIL(INPUT, "%s is %s (%s)", path,
                         begins_well(path) ? "cut short or damaged" : "not a policy file",
                         es_status_detail());
}

// A tensor of the file with exactly this type and shape.
static EsStatus find(const EsSafetensors *file, const char *path, const char *name,
                     const EsTensor *wanted, EsTensor *view) {
    ES_TRY(es_safetensors_find(file, name, view));
    if (view->dtype != wanted->dtype || view->rank != wanted->rank ||
        !es_tensor_same_shape(view, wanted)) {
        char found[96], expected[96];
        return ES_FAIL(INPUT, "%s: \"%s\" is %s, this policy needs %s", path, name,
                       es_tensor_describe(view, found, sizeof found),
                       es_tensor_describe(wanted, expected, sizeof expected));
    }
    return ES_STATUS_OK;
}

// Networks are built from the metadata, so that these may not ask for more than the file holds.
static EsStatus check_sizes(const EsSafetensors *file, const char *path, const EsPolicySpec *spec) {
    const int64_t n_features = spec->n_features, recurrent[] = {4 * spec->n_hidden, spec->n_hidden};
    EsTensor view, bias = es_tensor_view(NULL, ES_DTYPE_F32, NULL, 1, &n_features);
    EsTensor weight = es_tensor_view(NULL, ES_DTYPE_F32, NULL, 2, recurrent);
    ES_TRY(find(file, path, spec->is_set ? "host.bias" : "feature.bias", &bias, &view));
    return find(file, path, "lstm.weight_hh", &weight, &view);
}

EsStatus es_policy_file_metadata(const char *path, EsPolicyMetadata *metadata) {
    EsSafetensors *file = NULL;
    ES_TRY(open_file(path, &file));
    EsStatus status = read_metadata(file, path, metadata);
    if (status == ES_STATUS_OK) {
        status = check_sizes(file, path, &metadata->spec);
    }
    es_safetensors_close(file);
    return status;
}

static EsStatus check_network(const EsPolicyMetadata *metadata, const EsPolicySpec *spec,
                              const EsFeatureNormaliser *features, const char *path) {
    if ((metadata->spec.n_slots != spec->n_slots && !spec->is_set) ||
        metadata->spec.n_hidden != spec->n_hidden ||
        metadata->spec.n_features != spec->n_features || metadata->spec.is_set != spec->is_set) {
        return ES_FAIL(INPUT,
                       "%s: a policy of %d slots, %d hidden units and %d features; the network "
                       "has %d, %d and %d",
                       path, metadata->spec.n_slots, metadata->spec.n_hidden,
                       metadata->spec.n_features, spec->n_slots, spec->n_hidden, spec->n_features);
    }
    if (features->n_features != count_normalised(spec)) {
        return ES_FAIL(ARGUMENT, "the normaliser is for %d features, the policy in %s observes %d",
                       features->n_features, path, count_normalised(spec));
    }
    return ES_STATUS_OK;
}

static EsStatus read_parameters(const EsSafetensors *file, const char *path, const EsGraph *graph,
                                float *slab) {
    for (int v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        if (value->role != ES_ROLE_PARAMETER) {
            continue;
        }
        EsTensor view, wanted = file_view(value, NULL);
        ES_TRY(find(file, path, value->name, &wanted, &view));
        ES_TRY(es_check_finite(path, value->name, view.data, es_tensor_count(&view)));
        memcpy(slab + value->slab_offset, view.data, es_tensor_bytes(&view));
    }
    return ES_STATUS_OK;
}

typedef struct Scales {
    EsTensor mean, variance, n_merged; // views of the file
} Scales;

static EsStatus read_scales(const EsSafetensors *file, const char *path, int64_t n_features,
                            Scales *scales) {
    const int64_t one = 1;
    EsTensor wanted = es_tensor_view(NULL, ES_DTYPE_F64, NULL, 1, &n_features);
    EsTensor number = es_tensor_view(NULL, ES_DTYPE_I64, NULL, 1, &one);
    ES_TRY(find(file, path, MEAN, &wanted, &scales->mean));
    ES_TRY(find(file, path, VARIANCE, &wanted, &scales->variance));
    ES_TRY(find(file, path, MERGED, &number, &scales->n_merged));
    const double *mean = scales->mean.data, *variance = scales->variance.data;
    for (int64_t i = 0; i < n_features; i++) {
        ES_TRY(es_check_real((EsFileField){path, MEAN, i}, mean[i], -DBL_MAX, DBL_MAX));
        ES_TRY(es_check_real((EsFileField){path, VARIANCE, i}, variance[i], 0, DBL_MAX));
    }
    return es_check_counter((EsFileField){path, MERGED, ES_NO_INDEX},
                            *(const int64_t *)scales->n_merged.data);
}

EsStatus es_policy_file_load(const char *path, EsPolicyNetwork *network,
                             EsFeatureNormaliser *features) {
    const EsGraph *graph = es_policy_network_graph(network);
    EsStore *store = es_policy_network_store(network);
    EsStream *stream = es_policy_network_stream(network);
    size_t slab_bytes = es_tensor_bytes(&store->parameters);
    int n_wanted = count_parameters(graph) + count_scales(es_policy_network_spec(network));
    EsSafetensors *file = NULL;
    float *slab = NULL;
    EsPolicyMetadata metadata;
    Scales scales;
    ES_TRY(es_safetensors_open(path, &file));
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(read_metadata(file, path, &metadata));
    ES_TRY_GOTO(check_network(&metadata, es_policy_network_spec(network), features, path));
    ES_TRY_GOTO(es_allocate(slab_bytes, (void **)&slab));
    ES_TRY_GOTO(read_parameters(file, path, graph, slab));
    if (features->n_features > 0) {
        ES_TRY_GOTO(read_scales(file, path, features->n_features, &scales));
    }
    if (es_safetensors_count(file) != n_wanted) {
        status = ES_FAIL(INPUT, "%s has %d tensors, a policy of these sizes has %d", path,
                         es_safetensors_count(file), n_wanted);
        goto done;
    }
    es_safetensors_note_hash(file);
    // from here on nothing can be wrong with the file
    if (features->n_features > 0) {
        size_t scale_bytes = (size_t)features->n_features * sizeof(double);
        memcpy(features->mean, scales.mean.data, scale_bytes);
        memcpy(features->variance, scales.variance.data, scale_bytes);
        features->n_merged = *(const int64_t *)scales.n_merged.data;
    }
    ES_TRY_GOTO(
        es_stream_copy(stream, store->parameters.data, slab, slab_bytes, ES_COPY_TO_DEVICE));
    status = es_stream_synchronize(stream);
done:
    es_release(slab);
    es_safetensors_close(file);
    return status;
}
