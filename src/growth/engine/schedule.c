// Parses written schedules line by line and looks up the actions of a step.
#include "growth/engine/schedule.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/memory.h"
#include "growth/rules/growth_names.h"

#define MAX_FILE_BYTES (16 << 20)
#define MAX_WORDS      16
#define WORD_BYTES     64

// A line cut into words, and where in the file it is, for messages.
typedef struct Line {
    const char *path;
    int number;
    int n_words;
    char word[MAX_WORDS][WORD_BYTES];
    int column[MAX_WORDS]; // from 1
    const EsScheduleLimits *limits;
} Line;

static EsStatus fail_word(const Line *line, int word, const char *what) {
    return ES_FAIL(INPUT, "%s:%d:%d: \"%s\" is not %s", line->path, line->number,
                   line->column[word], line->word[word], what);
}

// The position of a name in a head's values, upper or lower case; -1 when it is none.
static int find_value(const char *text, const char *(*name_of)(int32_t), int n_values) {
    for (int i = 0; i < n_values; i++) {
        if (strcasecmp(text, name_of(i)) == 0) {
            return i;
        }
    }
    return -1;
}

// The values a word may have.
typedef struct Choices {
    const char *what;
    const char *(*name_of)(int32_t);
    int n_values;
    int32_t offered; // as bits: those that a message names
} Choices;

static EsStatus parse_value(const Line *line, int word, const char *text, const Choices *choices,
                            int8_t *value) {
    int found = find_value(text, choices->name_of, choices->n_values);
    if (found >= 0) {
        *value = (int8_t)found;
        return ES_STATUS_OK;
    }
    char names[256] = "";
    size_t used = 0;
    for (int i = 0; i < choices->n_values; i++) {
        if (choices->offered >> i & 1) {
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                     used > 0 ? ", " : "", choices->name_of(i));
            used = ES_MIN(used, sizeof names - 1);
        }
    }
    return ES_FAIL(INPUT, "%s:%d:%d: \"%s\" is no %s; there are %s", line->path, line->number,
                   line->column[word], text, choices->what, names);
}

// --- the parts of a line ---

static EsStatus parse_count(const Line *line, int word, const char *text, const char *what,
                            long *count) {
    char *end = NULL;
    *count = strtol(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || *count > 1000000000) {
        return fail_word(line, word, what);
    }
    return ES_STATUS_OK;
}

// "*", "3", "0-3"
static EsStatus parse_envs(const Line *line, int word, const char *text, EsScheduleEntry *entry) {
    char part[WORD_BYTES];
    long first = 0, last = 0;
    if (strcmp(text, "*") == 0) {
        entry->first_env = entry->end_env = 0;
        return ES_STATUS_OK;
    }
    snprintf(part, sizeof part, "%s", text);
    char *dash = strchr(part, '-');
    if (dash != NULL) {
        *dash = '\0';
    }
    static const char what[] = "an environment: *, a number, or first-last";
    ES_TRY(parse_count(line, word, part, what, &first));
    last = first;
    if (dash != NULL) {
        ES_TRY(parse_count(line, word, dash + 1, what, &last));
    }
    if (last < first) {
        return fail_word(line, word, "a range of environments: the first is above the last");
    }
    if (last >= line->limits->n_envs) {
        return ES_FAIL(INPUT, "%s:%d:%d: there is no environment %ld; the run has %lld, from 0 on",
                       line->path, line->number, line->column[word], last,
                       (long long)line->limits->n_envs);
    }
    entry->first_env = (int32_t)first;
    entry->end_env = (int32_t)last + 1;
    return ES_STATUS_OK;
}

static EsStatus parse_slot(const Line *line, int word, int8_t *slot) {
    for (int i = 0; i < line->limits->n_slots; i++) {
        if (strcmp(line->word[word], line->limits->slots[i].name) == 0) {
            *slot = (int8_t)i;
            return ES_STATUS_OK;
        }
    }
    return fail_word(line, word, "a slot of this run (--slots)");
}

// "style=sigmoid_add" and the like
static EsStatus parse_setting(const Line *line, int word, int op, EsAction *action) {
    static const struct {
        int head;
        Choices choices;
    } settings[] = {
        {ES_HEAD_STYLE, {"style", es_style_name, ES_N_STYLES, -1}},
        {ES_HEAD_TEMPO, {"tempo", es_tempo_name, 3, -1}},
        {ES_HEAD_ALPHA_TARGET, {"target", es_alpha_target_name, 3, -1}},
        {ES_HEAD_ALPHA_SPEED, {"speed", es_alpha_speed_name, 4, -1}},
        {ES_HEAD_ALPHA_CURVE, {"curve", es_curve_choice_name, 5, -1}},
    };
    const char *text = line->word[word];
    const char *equals = strchr(text, '=');
    for (size_t i = 0; equals != NULL && i < ES_COUNT_OF(settings); i++) {
        const char *key = settings[i].choices.what;
        size_t length = strlen(key);
        if ((size_t)(equals - text) == length && strncmp(text, key, length) == 0) {
            if (!es_head_matters(op, settings[i].head)) {
                return ES_FAIL(INPUT, "%s:%d:%d: %s has no use for %s", line->path, line->number,
                               line->column[word], es_growth_op_name(op), key);
            }
            return parse_value(line, word, equals + 1, &settings[i].choices,
                               &action->head[settings[i].head]);
        }
    }
    return fail_word(line, word, "a setting: style=, tempo=, target=, speed= or curve=");
}

static EsStatus parse_op(const Line *line, int word, int8_t *op) {
    // the word of the file for SET_ALPHA_TARGET is short
    const char *text =
        strcasecmp(line->word[word], "set_alpha") == 0 ? "SET_ALPHA_TARGET" : line->word[word];
    static const Choices operations = {"operation", es_growth_op_name, ES_N_GROWTH_OPS, -1};
    return parse_value(line, word, text, &operations, op);
}

static EsStatus parse_action(const Line *line, EsAction *action) {
    int8_t op = 0;
    ES_TRY(parse_op(line, 2, &op));
    action->head[ES_HEAD_OP] = op;
    int next = 3;
    if (op != ES_GROWTH_OP_WAIT) {
        if (line->n_words <= next) {
            return ES_FAIL(INPUT, "%s:%d: %s needs a slot", line->path, line->number,
                           es_growth_op_name(op));
        }
        ES_TRY(parse_slot(line, next++, &action->head[ES_HEAD_SLOT]));
    }
    if (op == ES_GROWTH_OP_GERMINATE) {
        if (line->n_words <= next) {
            return ES_FAIL(INPUT, "%s:%d: GERMINATE needs a blueprint after the slot", line->path,
                           line->number);
        }
        const Choices blueprints = {"blueprint", es_blueprint_id_name, ES_N_BLUEPRINT_IDS,
                                    line->limits->blueprints};
        ES_TRY(parse_value(line, next, line->word[next], &blueprints,
                           &action->head[ES_HEAD_BLUEPRINT]));
        if (!(line->limits->blueprints >> action->head[ES_HEAD_BLUEPRINT] & 1)) {
            return fail_word(line, next, "a blueprint that this host can hold");
        }
        next++;
    }
    for (; next < line->n_words; next++) {
        ES_TRY(parse_setting(line, next, op, action));
    }
    return ES_STATUS_OK;
}

// --- the file ---

static EsStatus cut_words(Line *line, const char *text, size_t length) {
    line->n_words = 0;
    for (size_t i = 0; i < length;) {
        if (text[i] == '#') {
            break;
        }
        if (isspace((unsigned char)text[i])) {
            i++;
            continue;
        }
        size_t end = i;
        while (end < length && !isspace((unsigned char)text[end]) && text[end] != '#') {
            end++;
        }
        if (line->n_words == MAX_WORDS || end - i >= WORD_BYTES) {
            return ES_FAIL(INPUT, "%s:%d:%d: at most %d words of %d bytes per line", line->path,
                           line->number, (int)i + 1, MAX_WORDS, WORD_BYTES - 1);
        }
        memcpy(line->word[line->n_words], text + i, end - i);
        line->word[line->n_words][end - i] = '\0';
        line->column[line->n_words++] = (int)i + 1;
        i = end;
    }
    return ES_STATUS_OK;
}

// A list of environments makes one entry per part.
static EsStatus parse_line(const Line *line, EsSchedule *schedule) {
    long step = 0;
    char envs[WORD_BYTES];
    EsScheduleEntry entry = {.action = es_action_wait()};
    if (line->n_words < 3) {
        return ES_FAIL(INPUT, "%s:%d: a line is: step, environments, operation, arguments",
                       line->path, line->number);
    }
    ES_TRY(parse_count(line, 0, line->word[0], "a step, 1 or more", &step));
    if (step < 1) {
        return fail_word(line, 0, "a step, 1 or more");
    }
    if (step > line->limits->n_steps) {
        return ES_FAIL(INPUT, "%s:%d:%d: there is no step %ld; an episode has %d", line->path,
                       line->number, line->column[0], step, line->limits->n_steps);
    }
    entry.step = (int32_t)step;
    ES_TRY(parse_action(line, &entry.action));
    snprintf(envs, sizeof envs, "%s", line->word[1]);
    char *rest = envs;
    int n_parts = 0;
    for (char *part = strtok_r(envs, ",", &rest); part != NULL; part = strtok_r(NULL, ",", &rest)) {
        ES_TRY(parse_envs(line, 1, part, &entry));
        schedule->entries[schedule->n_entries++] = entry;
        n_parts++;
    }
    return n_parts > 0 ? ES_STATUS_OK : fail_word(line, 1, "a list of environments");
}

// A schedule that cannot be read is wrong input: the user has named it.
static EsStatus read_text(const char *path, void **data, size_t *bytes) {
    if (path[0] == '\0') {
        return ES_FAIL(INPUT, "a schedule needs a file: script:FILE");
    }
    EsStatus status = es_file_read_all(path, MAX_FILE_BYTES, data, bytes);
    return status != ES_STATUS_IO ? status : ES_FAIL(INPUT, "schedule: %s", es_status_detail());
}

EsStatus es_schedule_load(const char *path, const EsScheduleLimits *limits, EsSchedule *schedule) {
    void *data = NULL;
    size_t bytes = 0;
    EsStatus status = ES_STATUS_OK;
    *schedule = (EsSchedule){0};
    ES_TRY(read_text(path, &data, &bytes));
    const char *text = data;
    // every entry takes at least two bytes of text
    ES_TRY_GOTO(
        es_allocate(sizeof *schedule->entries * (bytes / 2 + 1), (void **)&schedule->entries));
    Line line = {.path = path, .limits = limits};
    for (size_t at = 0; at < bytes;) {
        const char *newline = memchr(text + at, '\n', bytes - at);
        size_t length = newline != NULL ? (size_t)(newline - (text + at)) : bytes - at;
        line.number++;
        ES_TRY_GOTO(cut_words(&line, text + at, length));
        if (line.n_words > 0) {
            ES_TRY_GOTO(parse_line(&line, schedule));
        }
        at += length + 1;
    }
done:
    es_release(data);
    if (status != ES_STATUS_OK) {
        es_schedule_destroy(schedule);
    }
    return status;
}

void es_schedule_destroy(EsSchedule *schedule) {
    es_release(schedule->entries);
    *schedule = (EsSchedule){0};
}

void es_schedule_actions(const EsSchedule *schedule, int32_t step, int64_t n_envs,
                         EsAction *actions) {
    for (int64_t e = 0; e < n_envs; e++) {
        actions[e] = es_action_wait();
    }
    for (int i = 0; i < schedule->n_entries; i++) {
        const EsScheduleEntry *entry = &schedule->entries[i];
        int64_t end = entry->end_env == 0 ? n_envs : ES_MIN(entry->end_env, n_envs);
        for (int64_t e = entry->first_env; entry->step == step && e < end; e++) {
            actions[e] = entry->action;
        }
    }
}
