// `esper prove`: the table of actions, and `export`, the shortest of them.
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/macros.h"
#include "base/words.h"
#include "cli/frame.h"
#include "proof/graph/prolog_text.h"
#include "prove/prove_action.h"

// --- export ---

static EsStatus export_graph(const EsProveSource *source, const char *out) {
    EsKnowledgeGraph *graph = NULL;
    ES_TRY(es_prove_source_load(source, &graph));
    EsStatus status = es_prolog_text_save(graph, out);
    if (status == ES_STATUS_OK && !es_file_is_stdout(out)) {
        int32_t n_facts = es_kg_count_facts(graph);
        es_print("%s: %d %s, %d %s\n", out, n_facts, es_prove_noun(n_facts, "fact", "facts"),
                 graph->n_rules, es_prove_noun(graph->n_rules, "rule", "rules"));
    }
    es_kg_destroy(graph);
    return status;
}

static EsExit cmd_prove_export(int argc, char **argv) {
    EsProveSource source = {.folder = NULL};
    const char *out;
    const EsOption options[] = {
        ES_PROVE_SOURCE_OPTIONS(&source),
        ES_OPTION_TEXT("out", &out, NULL, "FILE", "the file to write, such as graph.pl"),
    };
    const EsOptionTable table = {
        .command = "prove export",
        .usage = "--out FILE [options]",
        .summary = "Writes facts and rules as a Prolog program with all predicates tabled, which "
                   "SWI-Prolog runs\nand --data reads.",
        .example = "esper prove export --data kg/family --out family.pl",
        .options = options,
        .n_options = ES_COUNT_OF(options),
    };
    EsArguments arguments;
    EsExit code;
    if (!es_prove_source_begin(&source, &table, argc, argv, &arguments, &code)) {
        return code;
    }
    EsStatus status = out == NULL
                          ? ES_FAIL(ARGUMENT, "--out FILE is missing; it names the file to write")
                          : export_graph(&source, out);
    return es_command_finish("prove export", status);
}

// --- the actions ---

static const EsCommand actions[] = {
    {"closure", "derive everything the rules give, and count the queries in it", cmd_prove_closure},
    {"curve", "compare guides of a search: proofs found against states expanded", cmd_prove_curve},
    {"embed", "train an embedding model on the facts", cmd_prove_embed},
    {"depths", "count the steps of the shortest proof of each query", cmd_prove_depths},
    {"eval", "rank queries against false ones: MRR, Hits@k, proof rates", cmd_prove_eval},
    {"export", "write facts and rules as a Prolog program", cmd_prove_export},
    {"mine", "find rules that the facts obey", cmd_prove_mine},
    {"query", "list the atoms that can be proved, with their proofs", cmd_prove_query},
    {"train", "train a policy to prove, with PPO over many environments", cmd_prove_train},
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

EsExit cmd_prove(int argc, char **argv) {
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
