#include "bench/bench_sweep.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/words.h"

static const struct {
    const char *name;
    EsBenchSwept what;
    long most;
} names[] = {{"envs", ES_BENCH_SWEPT_ENVS, 65536},
             {"batch", ES_BENCH_SWEPT_BATCH, 65536},
             {"hidden", ES_BENCH_SWEPT_HIDDEN, 4096},
             {"threads", ES_BENCH_SWEPT_THREADS, 1024}};

const char *es_bench_swept_name(EsBenchSwept what) {
    return what == ES_BENCH_SWEPT_NONE ? "" : names[what - ES_BENCH_SWEPT_ENVS].name;
}

static EsStatus find_name(const char *text, size_t length, long *most, EsBenchSwept *what) {
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)ES_MIN(length, 60), text);
    EsSpelling spelling = es_spelling_begin(word);
    for (size_t i = 0; i < ES_COUNT_OF(names); i++) {
        if (strcmp(names[i].name, word) == 0) {
            *most = names[i].most;
            *what = names[i].what;
            return ES_STATUS_OK;
        }
        es_spelling_offer(&spelling, names[i].name);
    }
    const char *nearest = es_spelling_suggestion(&spelling);
    return nearest != NULL ? ES_FAIL(ARGUMENT, "--sweep: unknown name \"%s\"; did you mean \"%s\"?",
                                     word, nearest)
                           : ES_FAIL(ARGUMENT,
                                     "--sweep: unknown name \"%s\"; it is envs, batch, hidden or "
                                     "threads",
                                     word);
}

EsStatus es_bench_sweep_parse(const char *text, EsBenchSweep *sweep) {
    long most = 0;
    memset(sweep, 0, sizeof *sweep);
    sweep->n_values = 1;
    if (text == NULL) {
        return ES_STATUS_OK;
    }
    size_t length = strcspn(text, "=");
    ES_TRY(find_name(text, length, &most, &sweep->what));
    sweep->n_values = 0;
    const char *at = text + length;
    while (*at != '\0') {
        char *end = NULL;
        at++; // the equals sign or a comma
        errno = 0;
        long value = strtol(at, &end, 10);
        if (end == at || *at < '0' || *at > '9' || (*end != ',' && *end != '\0') || errno != 0 ||
            value < 1 || value > most) {
            return ES_FAIL(ARGUMENT, "--sweep %.100s: \"%.*s\" is not a number from 1 to %ld", text,
                           (int)ES_MIN(strcspn(at, ","), 40), at, most);
        }
        for (int i = 0; i < sweep->n_values; i++) {
            if (sweep->values[i] == value) {
                return ES_FAIL(ARGUMENT, "--sweep %.100s: %ld stands there twice", text, value);
            }
        }
        if (sweep->n_values == ES_BENCH_MAX_SWEPT) {
            return ES_FAIL(ARGUMENT, "--sweep: more than %d values", ES_BENCH_MAX_SWEPT);
        }
        sweep->values[sweep->n_values++] = (int)value;
        at = end;
    }
    return sweep->n_values > 0
               ? ES_STATUS_OK
               : ES_FAIL(ARGUMENT, "--sweep %.100s has no values; write --sweep %.*s=1,4,16", text,
                         (int)length, text);
}
