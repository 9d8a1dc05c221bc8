// Words that options of `esper prove` take, and those that follow a number in what it prints.
#ifndef ES_PROGRAMS_PROVE_WORDS_H
#define ES_PROGRAMS_PROVE_WORDS_H

#include "proof/search/proof_rules.h"

extern const char *const es_prove_split_names[ES_KG_N_SPLITS]; // by EsKgSplit
extern const char *const es_prove_selection_names[2];          // by EsGoalSelection

// The index of a word in a list; ARGUMENT names the option and the words there are.
EsStatus es_prove_parse_word(const char *option, const char *word, const char *const *words,
                             int n_words, int *index);

// The values of --split and --selection, which several actions have; fails likewise.
EsStatus es_prove_parse_queries(const char *split, const char *selection, EsKgSplit *split_out,
                                EsGoalSelection *selection_out);

// The word that goes with a number.
const char *es_prove_noun(int64_t count, const char *one, const char *more);

// Goes on with a line about searches: what the values of a policy weigh in their order; weight 0:
// nothing.
void es_prove_print_value_weight(double weight);

#endif
