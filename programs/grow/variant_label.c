// Finds the shortest end of a path that no other policy of a comparison has.
#include "grow/variant_label.h"

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

static int is_taken(const EsGrowEvaluation *evaluation, int variant, const char *tail,
                    int n_parts) {
    for (int a = 0; a < evaluation->n_variants; a++) {
        const char *path = find_path(evaluation->variants[a].name);
        if (a != variant && strcmp(find_tail(path, n_parts), tail) == 0) {
            return 1;
        }
    }
    return 0;
}

const char *es_variant_label(const EsGrowEvaluation *evaluation, int variant,
                             char label[ES_VARIANT_LABEL_BYTES]) {
    const char *name = evaluation->variants[variant].name, *path = find_path(name);
    int n_parts = 1;
    const char *tail = find_tail(path, n_parts);
    while (tail > path && is_taken(evaluation, variant, tail, n_parts)) {
        tail = find_tail(path, ++n_parts);
    }
    snprintf(label, ES_VARIANT_LABEL_BYTES, "%.*s%s", (int)(path - name), name, tail);
    return label;
}
