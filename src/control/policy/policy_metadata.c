// The metadata of a policy's file: texts about the hosts it fits, most of them JSON, and for a
// policy of version 2 the ranges of such hosts. One list of fields serves writing, reading and
// comparing. What is read comes from outside: nothing is taken that is missing, unknown, of another
// type or out of range.
#include "control/policy/policy_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/range_check.h"
#include "growth/rules/growth_names.h"

#define FORMAT "esper-policy"

// --- ranges ---

typedef struct Range {
    const char *name;
    size_t offset;
    const char *option;  // that sets it, and
    const char *measure; // what it counts, for messages
    double most;         // that a file may name
    int is_whole;
} Range;

static const Range range_list[] = {
    {"slots", offsetof(EsPolicyRanges, slots), "--slots or --tasks.slots", "slots", ES_SLOTS_MAX,
     1},
    {"steps", offsetof(EsPolicyRanges, steps), "--episode-steps or --tasks.steps", "steps", 1000000,
     1},
    {"budget", offsetof(EsPolicyRanges, budget), "the limit of parameters",
     "times the host's parameters", 1e9, 0},
};

static double *range_of(EsPolicyRanges *ranges, const Range *range) {
    return (double *)(void *)((unsigned char *)ranges + range->offset);
}

static const double *range_in(const EsPolicyRanges *ranges, const Range *range) {
    return (const double *)(const void *)((const unsigned char *)ranges + range->offset);
}

EsPolicyRanges es_policy_ranges_default(void) {
    return (EsPolicyRanges){.slots = {1, 12}, .steps = {20, 300}, .budget = {1, 100}};
}

// The host's value; -1: there is no limit.
static double value_of(const Range *range, const EsGrowthSettings *settings) {
    if (strcmp(range->name, "slots") == 0) {
        return settings->n_slots;
    }
    if (strcmp(range->name, "steps") == 0) {
        return settings->episode_steps;
    }
    return settings->max_parameters > 0 && settings->n_host_parameters > 0
               ? (double)settings->max_parameters / settings->n_host_parameters
               : -1;
}

void es_policy_ranges_include(EsPolicyRanges *ranges, const EsGrowthSettings *settings) {
    for (size_t i = 0; i < ES_COUNT_OF(range_list); i++) {
        double *ends = range_of(ranges, &range_list[i]), value = value_of(&range_list[i], settings);
        if (value > 0) {
            ends[0] = ends[0] > 0 ? ES_MIN(ends[0], value) : value;
            ends[1] = ES_MAX(ends[1], value);
        }
    }
}

// Returns whether the host's value lies beside the range. More budget than a policy has seen is as
// good as none.
static int is_outside(const Range *range, const double ends[2], double value) {
    int is_too_large = value > ends[1] && (strcmp(range->name, "budget") != 0 || ends[1] == 0);
    return value >= 0 && (value < ends[0] || is_too_large);
}

int es_policy_ranges_describe_outside(const EsPolicyRanges *ranges,
                                      const EsGrowthSettings *settings,
                                      char text[ES_POLICY_OUTSIDE_BYTES]) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < ES_COUNT_OF(range_list); i++) {
        const double *ends = range_in(ranges, &range_list[i]),
                     value = value_of(&range_list[i], settings);
        if (!is_outside(&range_list[i], ends, value)) {
            continue;
        }
        char covered[64] = "none";
        if (ends[1] > 0) {
            snprintf(covered, sizeof covered, "%.4g to %.4g", ends[0], ends[1]);
        }
        used += (size_t)snprintf(text + used, ES_POLICY_OUTSIDE_BYTES - used,
                                 "%s%.4g %s (in training %s)", used > 0 ? ", " : "", value,
                                 range_list[i].measure, covered);
    }
    return used > 0;
}

EsStatus es_policy_ranges_check(const EsPolicyRanges *ranges, const EsGrowthSettings *settings,
                                const char *path) {
    for (size_t i = 0; i < ES_COUNT_OF(range_list); i++) {
        const double *ends = range_in(ranges, &range_list[i]),
                     value = value_of(&range_list[i], settings);
        if (is_outside(&range_list[i], ends, value)) {
            return ES_FAIL(INPUT, "%s: the policy is for %g to %g %s; this run has %.4g (%s)", path,
                           ends[0], ends[1], range_list[i].measure, value, range_list[i].option);
        }
    }
    return ES_STATUS_OK;
}

char *es_policy_ranges_write(const EsPolicyRanges *ranges) {
    json_t *object = json_object();
    for (size_t i = 0; i < ES_COUNT_OF(range_list); i++) {
        const double *ends = range_in(ranges, &range_list[i]);
        json_t *pair = json_array();
        for (int end = 0; end < 2; end++) {
            json_array_append_new(pair, range_list[i].is_whole ? json_integer((json_int_t)ends[end])
                                                               : json_real(ends[end]));
        }
        json_object_set_new(object, range_list[i].name, pair);
    }
    char *text = NULL;
    (void)es_json_dump("the ranges of a policy", object, JSON_REAL_PRECISION(17), &text);
    return text;
}

static EsStatus read_range(const json_t *object, const Range *range, const char *path,
                           const char *entry, EsPolicyRanges *ranges) {
    const json_t *pair = json_object_get(object, range->name);
    const json_t *low = json_array_get(pair, 0), *high = json_array_get(pair, 1);
    int is_pair = json_array_size(pair) == 2 && json_is_number(low) && json_is_number(high) &&
                  (!range->is_whole || (json_is_integer(low) && json_is_integer(high)));
    double ends[2] = {json_number_value(low), json_number_value(high)};
    int is_unseen = strcmp(entry, ES_POLICY_TRAINED) == 0 && ends[0] == 0 && ends[1] == 0;
    int is_range = ends[0] > 0 && ends[0] <= ends[1] && ends[1] <= range->most;
    if (!is_pair || !(is_range || is_unseen)) {
        return ES_FAIL(INPUT,
                       "%s: %s: \"%s\" is not a pair of %s, the least above 0 and the most at "
                       "most %g",
                       path, entry, range->name, range->is_whole ? "integers" : "numbers",
                       range->most);
    }
    memcpy(range_of(ranges, range), ends, sizeof ends);
    return ES_STATUS_OK;
}

EsStatus es_policy_ranges_read(const char *text, const char *path, const char *entry,
                               EsPolicyRanges *ranges) {
    json_t *object = NULL;
    json_error_t error;
    if (text == NULL) {
        return ES_FAIL(INPUT, "%s: metadata entry \"%s\" is missing", path, entry);
    }
    if (es_json_parse(path, text, strlen(text), &object, &error) == ES_STATUS_MEMORY) {
        return ES_STATUS_MEMORY;
    }
    EsStatus status = ES_STATUS_OK;
    if (!json_is_object(object) || json_object_size(object) != ES_COUNT_OF(range_list)) {
        status = ES_FAIL(INPUT, "%s: %s is not a JSON object of %zu members", path, entry,
                         ES_COUNT_OF(range_list));
    }
    for (size_t i = 0; status == ES_STATUS_OK && i < ES_COUNT_OF(range_list); i++) {
        status = read_range(object, &range_list[i], path, entry, ranges);
    }
    json_decref(object);
    return status;
}

// --- fields ---

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

void es_policy_metadata_release(EsMetadata entries[ES_POLICY_METADATA_MAX]) {
    for (int i = 0; i < ES_POLICY_METADATA_MAX; i++) {
        free((char *)entries[i].value);
        entries[i].value = NULL;
    }
}

EsStatus es_policy_metadata_write(const EsPolicyMetadata *metadata,
                                  EsMetadata entries[ES_POLICY_METADATA_MAX], int *n) {
    char version[16];
    int is_set = metadata->spec.is_set;
    (void)es_json_lacked_memory(); // an earlier attempt is no concern of this one
    snprintf(version, sizeof version, "%d", metadata->observation_version);
    const EsMetadata made[ES_POLICY_METADATA_MAX] = {
        {"format", strdup(FORMAT)},
        {"version", strdup(version)},
        {"observation", strdup(version)},
        {network_list.name, dump_network(&metadata->spec)},
        {growth_list.name, dump_growth(&metadata->settings)},
        {"floors", dump_floors(metadata->floor)},
        {ES_POLICY_ACCEPTED, is_set ? es_policy_ranges_write(&metadata->ranges) : NULL},
        {ES_POLICY_TRAINED, is_set ? es_policy_ranges_write(&metadata->trained) : NULL},
    };
    int is_whole = 1;
    *n = is_set ? ES_POLICY_METADATA_MAX : ES_POLICY_METADATA_MAX - 2;
    for (int i = 0; i < *n; i++) {
        entries[i] = made[i];
        is_whole = is_whole && entries[i].value != NULL;
    }
    if (!is_whole) {
        es_policy_metadata_release(entries);
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

// --- reading ---

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

// Files from before there was "trained" say the largest of their training alone, as their growth.
static EsStatus read_ranges(const EsSafetensors *file, const char *path,
                            EsPolicyMetadata *metadata) {
    const char *trained = es_safetensors_metadata(file, ES_POLICY_TRAINED);
    ES_TRY(es_policy_ranges_read(es_safetensors_metadata(file, ES_POLICY_ACCEPTED), path,
                                 ES_POLICY_ACCEPTED, &metadata->ranges));
    if (trained != NULL) {
        return es_policy_ranges_read(trained, path, ES_POLICY_TRAINED, &metadata->trained);
    }
    metadata->trained = metadata->ranges;
    metadata->trained.slots[1] = metadata->settings.n_slots;
    metadata->trained.steps[1] = metadata->settings.episode_steps;
    return ES_STATUS_OK;
}

EsStatus es_policy_metadata_read(const EsSafetensors *file, const char *path,
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
    ES_TRY(read_growth(file, path, &metadata->settings));
    if (metadata->spec.is_set) {
        ES_TRY(read_ranges(file, path, metadata));
    }
    ES_TRY(read_floors(file, path, metadata->floor));
    if (metadata->spec.n_slots != metadata->settings.n_slots) {
        return ES_FAIL(INPUT, "%s: the network has %d slots, its growth %d", path,
                       metadata->spec.n_slots, metadata->settings.n_slots);
    }
    return ES_STATUS_OK;
}
