#include "grow/arm_label.h"

#include <string.h>

#define SCRIPT "script:"

static const char *find_path(const char *name) {
    return strncmp(name, SCRIPT, strlen(SCRIPT)) == 0 ? name + strlen(SCRIPT) : name;
}

// The last n parts of a path; all of it where it has fewer.
static const char *find_tail(const char *path, int n_parts) {
    const char *tail = path + strlen(path);
    while (tail > path && n_parts > 0) {
        tail--;
        n_parts -= tail > path && tail[-1] == '/';
    }
    return tail;
}

static int is_taken(const EsGrowEvaluation *evaluation, int arm, const char *tail, int n_parts) {
    for (int a = 0; a < evaluation->n_arms; a++) {
        const char *path = find_path(evaluation->arms[a].name);
        if (a != arm && strcmp(find_tail(path, n_parts), tail) == 0) {
            return 1;
        }
    }
    return 0;
}

const char *es_arm_label(const EsGrowEvaluation *evaluation, int arm,
                         char label[ES_ARM_LABEL_BYTES]) {
    const char *name = evaluation->arms[arm].name, *path = find_path(name);
    int n_parts = 1;
    const char *tail = find_tail(path, n_parts);
    while (tail > path && is_taken(evaluation, arm, tail, n_parts)) {
        tail = find_tail(path, ++n_parts);
    }
    snprintf(label, ES_ARM_LABEL_BYTES, "%.*s%s", (int)(path - name), name, tail);
    return label;
}
