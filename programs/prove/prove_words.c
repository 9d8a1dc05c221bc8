#include "prove/prove_words.h"

#include <stdio.h>
#include <string.h>

const char *const es_prove_split_names[ES_KG_N_SPLITS] = {"train", "valid", "test"};
const char *const es_prove_selection_names[2] = {"constrained", "leftmost"};

EsStatus es_prove_parse_word(const char *option, const char *word, const char *const *words,
                             int n_words, int *index) {
    char list[128] = "";
    size_t length = 0;
    for (int i = 0; i < n_words; i++) {
        if (strcmp(word, words[i]) == 0) {
            *index = i;
            return ES_STATUS_OK;
        }
        length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", i > 0 ? ", " : "",
                                   words[i]);
    }
    return ES_FAIL(ARGUMENT, "--%s is \"%.100s\", not one of %s", option, word, list);
}

EsStatus es_prove_parse_queries(const char *split, const char *selection, EsKgSplit *split_out,
                                EsGoalSelection *selection_out) {
    int index = 0;
    ES_TRY(es_prove_parse_word("split", split, es_prove_split_names, ES_KG_N_SPLITS, &index));
    *split_out = (EsKgSplit)index;
    ES_TRY(es_prove_parse_word("selection", selection, es_prove_selection_names,
                               ES_COUNT_OF(es_prove_selection_names), &index));
    *selection_out = (EsGoalSelection)index;
    return ES_STATUS_OK;
}

const char *es_prove_noun(int64_t count, const char *one, const char *more) {
    return count == 1 ? one : more;
}

void es_prove_print_value_weight(double weight) {
    if (weight > 0) {
        printf(", states ordered by values, weight %g", weight);
    }
}
