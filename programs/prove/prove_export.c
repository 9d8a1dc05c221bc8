// `esper prove export`: a knowledge graph as a Prolog program.
#include <stdio.h>

#include "base/file.h"
#include "base/macros.h"
#include "cli/frame.h"
#include "proof/graph/prolog_text.h"
#include "prove/prove_action.h"
#include "prove/prove_source.h"
#include "prove/prove_words.h"

static EsStatus export_graph(const EsProveSource *source, const char *out) {
    EsKnowledgeGraph *graph = NULL;
    ES_TRY(es_prove_source_load(source, &graph));
    EsStatus status = es_prolog_text_save(graph, out);
    if (status == ES_STATUS_OK && !es_file_is_stdout(out)) {
        es_print("%s: %d %s, %d %s\n", out, graph->n_facts,
                 es_prove_noun(graph->n_facts, "fact", "facts"), graph->n_rules,
                 es_prove_noun(graph->n_rules, "rule", "rules"));
    }
    es_kg_destroy(graph);
    return status;
}

EsExit es_prove_export_run(int argc, char **argv) {
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
    EsStatus status = out == NULL ? ES_FAIL(ARGUMENT, "--out FILE is missing: where to?")
                                  : export_graph(&source, out);
    return es_command_finish("prove export", status);
}
