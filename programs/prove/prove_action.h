// The actions of `esper prove` and all that they share: the options that say where the knowledge
// graph comes from, the words that options take, and those that follow a number in a table.
//
// An action is a source of its own; prove.c holds the table of them.
#ifndef ES_PROGRAMS_PROVE_ACTION_H
#define ES_PROGRAMS_PROVE_ACTION_H

#include "cli/frame.h"
#include "cli/options.h"
#include "proof/agent/proof_policy_file.h"
#include "proof/graph/knowledge_file.h"
#include "proof/search/proof_rules.h"
#include "runs/prove/prove_evaluate.h"

// --- the actions ---

// argv[0] is the action's name.
EsExit cmd_prove_closure(int argc, char **argv);
EsExit cmd_prove_curve(int argc, char **argv);
EsExit cmd_prove_depths(int argc, char **argv);
EsExit cmd_prove_embed(int argc, char **argv);
EsExit cmd_prove_eval(int argc, char **argv);
EsExit cmd_prove_mine(int argc, char **argv);
EsExit cmd_prove_query(int argc, char **argv);
EsExit cmd_prove_train(int argc, char **argv);

// --- the graph ---

typedef struct EsProveSource {
    const char *folder; // NULL: generated
    const char *rules;  // NULL: rules.txt of the folder
    int n_people;       // 0: not given
    int seed;
    int is_seed_shared; // set before: --seed is for more than the generated graph
    const char *soft;   // file of soft facts, NULL: none
    double soft_min_score;
    int soft_max_rank;  // 0: any
    int skips_unknown;  // clauses of a Prolog file
    EsThreadPool *pool; // set before loading, to read on its threads; NULL: on one
} EsProveSource;

// Entries for a table of options.
#define ES_PROVE_SOURCE_OPTIONS(source)                                                            \
    ES_OPTION_TEXT(                                                                                \
        "data", &(source)->folder, NULL, "DIR",                                                    \
        "folder with train.txt, rules.txt, valid.txt, test.txt, or a Prolog file x.pl"),           \
        ES_OPTION_TEXT(                                                                            \
            "rules", &(source)->rules, NULL, "FILE",                                               \
            "rules instead of rules.txt: a file of that folder, or a path; in it x, y2,"           \
            " X, _a and ?b are variables, other names and those in quotes constants"),             \
        ES_OPTION_INT("generated", &(source)->n_people, "0", 0, 1000000, "N",                      \
                      "generate families of N people; 0 without --data = 1000"),                   \
        ES_OPTION_INT("graph-seed", &(source)->seed, "1", 0, 2147483647, "N",                      \
                      "seed of the generated graph"),                                              \
        ES_OPTION_INT("seed", &(source)->seed, "1", 0, 2147483647, "N",                            \
                      "same as --graph-seed (in prove train: seed of the run)"),                   \
        ES_OPTION_TEXT("soft", &(source)->soft, NULL, "FILE",                                      \
                       "add facts \"p(a,b) SCORE RANK\"; valid and test atoms are dropped"),       \
        ES_OPTION_FLOAT("soft-min-score", &(source)->soft_min_score, "-1e300", -1e300, 1e300, "X", \
                        "leave out soft facts of lower scores"),                                   \
        ES_OPTION_INT("soft-max-rank", &(source)->soft_max_rank, "0", 0, 2147483647, "N",          \
                      "leave out soft facts of higher ranks; 0: none"),                            \
        ES_OPTION_FLAG("skip-unknown", &(source)->skips_unknown,                                   \
                       "pass over clauses of a Prolog file that are not understood")

// es_options_begin for a table that has these options; also reports those that contradict each
// other or have no effect.
int es_prove_source_begin(const EsProveSource *source, const EsOptionTable *table, int argc,
                          char **argv, EsArguments *arguments, EsExit *code);

// Read or make the graph; ARGUMENT when the options contradict each other.
EsStatus es_prove_source_load(const EsProveSource *source, EsKnowledgeGraph **graph);

// The same for actions that can do without the rules of a folder.
EsStatus es_prove_source_load_using(const EsProveSource *source, EsKgRulesUse rules_use,
                                    EsKnowledgeGraph **graph);

// Replace a graph by its part of predicates of two arguments (es_kg_binary_part) where it has
// others, which `what` leaves out; a note says how many, as does *n_left_out.
// Says how many predicates `what` leaves out, which takes those of two arguments, and returns it.
int32_t es_prove_note_left_out(const EsKnowledgeGraph *graph, const char *what);

EsStatus es_prove_take_binary(EsKnowledgeGraph **graph, const char *what, int32_t *n_left_out);

// es_proof_policy_file_load, with a failure that says which options make the generated graph.
EsStatus es_prove_source_load_policy(const EsProveSource *source, EsDevice *device,
                                     const EsKnowledgeGraph *graph, const char *path,
                                     EsProofPolicy **policy);

// The name of the graph in results: the folder, or "generated".
const char *es_prove_source_name(const EsProveSource *source);

// --- words ---

extern const char *const es_prove_split_names[ES_KG_N_SPLITS]; // by EsKgSplit
extern const char *const es_prove_selection_names[2];          // by EsGoalSelection

// The index of a word in a list; ARGUMENT names the option and the words there are.
EsStatus es_prove_parse_word(const char *option, const char *word, const char *const *words,
                             int n_words, int *index);

// The values of --split and --selection, which several actions have; fails likewise.
EsStatus es_prove_parse_queries(const char *split, const char *selection, EsKgSplit *split_out,
                                EsGoalSelection *selection_out);

// "a side", or "an argument" in a graph with predicates of other than two arguments.
const char *es_prove_per_place(const EsKnowledgeGraph *graph);

// The word that goes with a number.
const char *es_prove_noun(int64_t count, const char *one, const char *more);

// Continues a line about searches with the weight of the policy's values in their order; weight 0:
// prints nothing.
void es_prove_print_value_weight(double weight);

// Prints a table of proofs by the steps of queries, a column per search.
void es_prove_print_proofs(const EsProveProofs *proofs);

#endif
