// Facts of a policy: what they are, as JSON text, and against a host. policy_facts_read.c is the
// way back.
#include "control/policy/policy_facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "growth/rules/growth_names.h"

// --- fields ---

#define FIELD(type, member, kind, count, is_checked)                                               \
    { #member, offsetof(type, member), kind, count, is_checked }
#define CHECKED(member, kind, count)  FIELD(EsGrowthSettings, member, kind, count, 1)
#define RECORDED(member, kind, count) FIELD(EsGrowthSettings, member, kind, count, 0)

static const EsFact growth_fields[] = {
    CHECKED(max_seeds, ES_FACT_INTEGER, 1),
    CHECKED(episode_steps, ES_FACT_INTEGER, 1),
    CHECKED(is_strict, ES_FACT_INTEGER, 1),
    CHECKED(auto_forward, ES_FACT_INTEGER, 1),
    CHECKED(training_dwell, ES_FACT_INTEGER, 1),
    CHECKED(blending_dwell, ES_FACT_INTEGER, 1),
    CHECKED(embargo_dwell, ES_FACT_INTEGER, 1),
    CHECKED(reset_dwell, ES_FACT_INTEGER, 1),
    CHECKED(holding_dwell, ES_FACT_INTEGER, 1),
    CHECKED(prune_age, ES_FACT_INTEGER, 1),
    CHECKED(tempo, ES_FACT_INTEGER, 3),
    CHECKED(alpha_speed, ES_FACT_INTEGER, 4),
    CHECKED(alpha_target, ES_FACT_REAL, 3),
    RECORDED(min_health, ES_FACT_REAL, 1),
    RECORDED(min_improvement, ES_FACT_REAL, 1),
    RECORDED(min_ratio, ES_FACT_REAL, 1),
    RECORDED(min_contribution, ES_FACT_REAL, 1),
    RECORDED(vanishing_norm, ES_FACT_REAL, 1),
    RECORDED(exploding_clips, ES_FACT_REAL, 1),
    RECORDED(vanishing_penalty, ES_FACT_REAL, 1),
    RECORDED(exploding_penalty, ES_FACT_REAL, 1),
    RECORDED(gradient_decay, ES_FACT_REAL, 1),
    RECORDED(velocity_decay, ES_FACT_REAL, 1),
    RECORDED(governor_window, ES_FACT_INTEGER, 1),
    RECORDED(governor_minimum, ES_FACT_INTEGER, 1),
    RECORDED(divergences_to_panic, ES_FACT_INTEGER, 1),
    RECORDED(snapshot_every, ES_FACT_INTEGER, 1),
    RECORDED(divergence_sigmas, ES_FACT_REAL, 1),
    RECORDED(divergence_means, ES_FACT_REAL, 1),
    RECORDED(divergence_loss, ES_FACT_REAL, 1),
    RECORDED(random_loss, ES_FACT_REAL, 1),
    RECORDED(lobotomy_mean, ES_FACT_REAL, 1),
    RECORDED(lobotomy_band, ES_FACT_REAL, 1),
    RECORDED(governor_prune_penalty, ES_FACT_REAL, 1),
    RECORDED(plateau_points, ES_FACT_REAL, 1),
    RECORDED(stable_steps, ES_FACT_INTEGER, 1),
    RECORDED(stable_gain, ES_FACT_REAL, 1),
    RECORDED(stable_loss, ES_FACT_REAL, 1),
};

// every number of the settings is in the list, apart from the slots, the blueprints and their sizes
_Static_assert(sizeof(EsGrowthSettings) ==
                   4 * (ES_COUNT_OF(growth_fields) + 7) +
                       sizeof(int32_t) * (2 + 3 * ES_SLOTS_MAX + ES_SLOTS_MAX * ES_N_BLUEPRINT_IDS),
               "a setting of growth is missing among the facts of a policy");

static const EsFact network_fields[] = {
    FIELD(EsPolicySpec, n_slots, ES_FACT_INTEGER, 1, 1),
    FIELD(EsPolicySpec, n_hidden, ES_FACT_INTEGER, 1, 1),
    FIELD(EsPolicySpec, n_features, ES_FACT_INTEGER, 1, 1),
    FIELD(EsPolicySpec, dropout, ES_FACT_REAL, 1, 0),
    FIELD(EsPolicySpec, aux_stops, ES_FACT_INTEGER, 1, 0),
};
_Static_assert(sizeof(EsPolicySpec) == 4 * ES_COUNT_OF(network_fields),
               "a part of the spec is missing among the facts of a policy");

const EsFactList es_facts_of_growth = {"growth", growth_fields, ES_COUNT_OF(growth_fields)};
const EsFactList es_facts_of_network = {"network", network_fields, ES_COUNT_OF(network_fields)};

static double field_value(const void *from, const EsFact *field, int i) {
    const unsigned char *place = (const unsigned char *)from + field->offset + (size_t)i * 4;
    int32_t integer;
    float real;
    memcpy(&integer, place, sizeof integer);
    memcpy(&real, place, sizeof real);
    return field->kind == ES_FACT_INTEGER ? (double)integer : (double)real;
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

static json_t *number_json(const void *from, const EsFact *field, int i) {
    double value = field_value(from, field, i);
    return field->kind == ES_FACT_INTEGER ? json_integer((json_int_t)value)
                                          : real_json((float)value);
}

static void write_fields(json_t *object, const EsFactList *list, const void *from) {
    for (size_t f = 0; f < list->n_facts; f++) {
        const EsFact *field = &list->facts[f];
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
    (void)es_json_dump("the facts of a policy", object, JSON_REAL_PRECISION(9), &text);
    return text;
}

static char *dump_growth(const EsGrowthSettings *settings) {
    json_t *object = json_object();
    json_object_set_new(object, "slots", slots_json(settings));
    json_object_set_new(object, "blueprints", blueprints_json(settings->blueprints));
    write_fields(object, &es_facts_of_growth, settings);
    return dump(object);
}

static char *dump_network(const EsPolicySpec *spec) {
    json_t *object = json_object();
    write_fields(object, &es_facts_of_network, spec);
    return dump(object);
}

static char *dump_floors(const float *floor) {
    json_t *object = json_object();
    for (int32_t head = 0; head < ES_N_HEADS; head++) {
        json_object_set_new(object, es_head_name(head), real_json(floor[head]));
    }
    return dump(object);
}

EsStatus es_policy_metadata_create(const EsPolicyFacts *facts,
                                   EsMetadata metadata[ES_POLICY_METADATA]) {
    char version[16], observation[16];
    (void)es_json_lacked_memory(); // an earlier attempt is no concern of this one
    snprintf(version, sizeof version, "%d", ES_POLICY_VERSION);
    snprintf(observation, sizeof observation, "%d", facts->observation_version);
    const EsMetadata entries[ES_POLICY_METADATA] = {
        {"format", strdup(ES_POLICY_FORMAT)},
        {"version", strdup(version)},
        {"observation", strdup(observation)},
        {es_facts_of_network.name, dump_network(&facts->spec)},
        {es_facts_of_growth.name, dump_growth(&facts->settings)},
        {"floors", dump_floors(facts->floor)},
    };
    int is_whole = 1;
    for (int i = 0; i < ES_POLICY_METADATA; i++) {
        metadata[i] = entries[i];
        is_whole = is_whole && entries[i].value != NULL;
    }
    if (!is_whole) {
        es_policy_metadata_destroy(metadata);
        return ES_FAIL(MEMORY, "not enough memory for the facts of a policy");
    }
    return ES_STATUS_OK;
}

void es_policy_metadata_destroy(EsMetadata metadata[ES_POLICY_METADATA]) {
    for (int i = 0; i < ES_POLICY_METADATA; i++) {
        free((char *)metadata[i].value);
        metadata[i].value = NULL;
    }
}

// --- comparing ---

// What differs is told by the option that sets it, or by the task where no option does.
#define OTHER_TASK "play it with the --task it was trained with"

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

static const char *write_value(const EsFact *field, double value, char text[32]) {
    if (strcmp(field->name, "is_strict") == 0) {
        return value != 0 ? "strict" : "permissive";
    }
    if (strcmp(field->name, "auto_forward") == 0 && (value == 0 || value == ES_AUTO_FORWARD_ALL)) {
        return value != 0 ? "on" : "off";
    }
    snprintf(text, 32, "%g", value);
    return text;
}

static EsStatus fail_field(const char *path, const EsFact *field, int i, double trained,
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
                   "%s: the policy was trained on hosts whose seeds live otherwise (%s%s is %g "
                   "there and %g here); " OTHER_TASK,
                   path, field->name, position, trained, host);
}

EsStatus es_policy_facts_check(const EsPolicyFacts *facts, const EsGrowthSettings *settings,
                               const char *path) {
    if (facts->observation_version != ES_OBSERVATION_VERSION) {
        return ES_FAIL(INPUT,
                       "%s: the policy reads observations of version %d; this program "
                       "makes version %d",
                       path, facts->observation_version, ES_OBSERVATION_VERSION);
    }
    ES_TRY(compare_slots(path, slots_json(&facts->settings), slots_json(settings)));
    ES_TRY(compare_blueprints(path, blueprints_json(facts->settings.blueprints),
                              blueprints_json(settings->blueprints)));
    for (size_t f = 0; f < es_facts_of_growth.n_facts; f++) {
        const EsFact *field = &es_facts_of_growth.facts[f];
        for (int i = 0; i < field->count && field->is_checked; i++) {
            double trained = field_value(&facts->settings, field, i);
            double host = field_value(settings, field, i);
            if (trained != host) {
                return fail_field(path, field, i, trained, host);
            }
        }
    }
    return ES_STATUS_OK;
}
