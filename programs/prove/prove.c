// `esper prove`: finds the action and hands over.
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/words.h"
#include "prove/prove_action.h"

static const EsCommand actions[] = {
    {"closure", "what the rules derive from the facts, and which queries that holds",
     es_prove_closure_run},
    {"curve", "proofs found against states expanded, by what steers the search",
     es_prove_curve_run},
    {"embed", "train an embedding model on the facts", es_prove_embed_run},
    {"depths", "how many steps the shortest proof of each query takes", es_prove_depths_run},
    {"eval", "ranks queries against false ones: MRR, Hits@k, proof rates", es_prove_eval_run},
    {"export", "write facts and rules as a Prolog program", es_prove_export_run},
    {"mine", "find rules that the facts obey", es_prove_mine_run},
    {"query", "which atoms can be proved, and how", es_prove_query_run},
    {"train", "an agent learns to prove: PPO over many proofs side by side", es_prove_train_run},
};

static void print_help(FILE *stream) {
    fprintf(stream, "usage: esper prove ACTION [options]\n\n"
                    "Works on a knowledge graph: facts, Horn rules, and queries to prove. Without\n"
                    "--data it makes one, families of several generations.\n\n"
                    "actions:\n");
    for (size_t i = 0; i < ES_COUNT_OF(actions); i++) {
        fprintf(stream, "  %-12s %s\n", actions[i].name, actions[i].summary);
    }
    fprintf(stream, "\n`esper prove ACTION --help` describes an action.\n"
                    "\nexample: esper prove closure --generated 500\n");
}

static EsStatus fail_action(const char *name) {
    EsSpelling spelling = es_spelling_begin(name);
    for (size_t i = 0; i < ES_COUNT_OF(actions); i++) {
        es_spelling_offer(&spelling, actions[i].name);
    }
    const char *nearest = es_spelling_suggestion(&spelling);
    if (name[0] == '-') {
        return ES_FAIL(ARGUMENT, "the action comes first, then options such as \"%.100s\"", name);
    }
    return nearest != NULL
               ? ES_FAIL(ARGUMENT, "unknown action \"%.100s\"; did you mean \"%s\"?", name, nearest)
               : ES_FAIL(ARGUMENT, "unknown action \"%.100s\"", name);
}

EsExit es_prove_run(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return ES_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return ES_EXIT_DONE;
    }
    for (size_t i = 0; i < ES_COUNT_OF(actions); i++) {
        if (strcmp(argv[1], actions[i].name) == 0) {
            return actions[i].run(argc - 1, argv + 1);
        }
    }
    return es_command_finish("prove", fail_action(argv[1]));
}
