// Ranges of the hosts that a policy of version 2 decides for: one list of them serves checking,
// writing and reading.
#include "control/policy/policy_file.h"

#include <string.h>

#include "base/json.h"

typedef struct Range {
    const char *name;
    size_t offset;
    const char *option;  // that sets it, and
    const char *measure; // what it counts, for messages
    double most;         // that a file may name
    int is_whole;
} Range;

static const Range list[] = {
    {"slots", offsetof(EsPolicyRanges, slots), "--slots", "slots", ES_SLOTS_MAX, 1},
    {"steps", offsetof(EsPolicyRanges, steps), "--episode-steps", "steps", 1000000, 1},
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
    for (size_t i = 0; i < ES_COUNT_OF(list); i++) {
        double *ends = range_of(ranges, &list[i]), value = value_of(&list[i], settings);
        if (value > 0) {
            ends[0] = ES_MIN(ends[0], value);
            ends[1] = ES_MAX(ends[1], value);
        }
    }
}

EsStatus es_policy_ranges_check(const EsPolicyRanges *ranges, const EsGrowthSettings *settings,
                                const char *path) {
    for (size_t i = 0; i < ES_COUNT_OF(list); i++) {
        const double *ends = range_in(ranges, &list[i]), value = value_of(&list[i], settings);
        // more budget than a policy has seen is as good as none
        int is_too_large = value > ends[1] && strcmp(list[i].name, "budget") != 0;
        if (value >= 0 && (value < ends[0] || is_too_large)) {
            return ES_FAIL(INPUT, "%s: the policy is for %g to %g %s; this run has %.4g (%s)", path,
                           ends[0], ends[1], list[i].measure, value, list[i].option);
        }
    }
    return ES_STATUS_OK;
}

char *es_policy_ranges_write(const EsPolicyRanges *ranges) {
    json_t *object = json_object();
    for (size_t i = 0; i < ES_COUNT_OF(list); i++) {
        const double *ends = range_in(ranges, &list[i]);
        json_t *pair = json_array();
        for (int end = 0; end < 2; end++) {
            json_array_append_new(pair, list[i].is_whole ? json_integer((json_int_t)ends[end])
                                                         : json_real(ends[end]));
        }
        json_object_set_new(object, list[i].name, pair);
    }
    char *text = NULL;
    (void)es_json_dump("the ranges of a policy", object, JSON_REAL_PRECISION(17), &text);
    return text;
}

static EsStatus read_range(const json_t *object, const Range *range, const char *path,
                           EsPolicyRanges *ranges) {
    const json_t *pair = json_object_get(object, range->name);
    const json_t *low = json_array_get(pair, 0), *high = json_array_get(pair, 1);
    int is_pair = json_array_size(pair) == 2 && json_is_number(low) && json_is_number(high) &&
                  (!range->is_whole || (json_is_integer(low) && json_is_integer(high)));
    double ends[2] = {json_number_value(low), json_number_value(high)};
    if (!is_pair || !(ends[0] > 0 && ends[0] <= ends[1] && ends[1] <= range->most)) {
        return ES_FAIL(INPUT,
                       "%s: ranges: \"%s\" is not a pair of %s, the least above 0 and the most at "
                       "most %g",
                       path, range->name, range->is_whole ? "integers" : "numbers", range->most);
    }
    memcpy(range_of(ranges, range), ends, sizeof ends);
    return ES_STATUS_OK;
}

EsStatus es_policy_ranges_read(const char *text, const char *path, EsPolicyRanges *ranges) {
    json_t *object = NULL;
    json_error_t error;
    if (text == NULL) {
        return ES_FAIL(INPUT, "%s: metadata entry \"ranges\" is missing", path);
    }
    if (es_json_parse(path, text, strlen(text), &object, &error) == ES_STATUS_MEMORY) {
        return ES_STATUS_MEMORY;
    }
    EsStatus status = ES_STATUS_OK;
    if (!json_is_object(object) || json_object_size(object) != ES_COUNT_OF(list)) {
        status = ES_FAIL(INPUT, "%s: ranges is not a JSON object of %zu members", path,
                         ES_COUNT_OF(list));
    }
    for (size_t i = 0; status == ES_STATUS_OK && i < ES_COUNT_OF(list); i++) {
        status = read_range(object, &list[i], path, ranges);
    }
    json_decref(object);
    return status;
}
