// `esper prove closure`: everything the rules derive from the facts.
#include <stdio.h>

#include "base/file.h"
#include "base/macros.h"
#include "cli/frame.h"
#include "proof/graph/knowledge_text.h"
#include "proof/search/closure.h"
#include "prove/prove_action.h"

// an atom and the end of its line
#define ATOM_BYTES (ES_KG_ATOM_TEXT_BYTES + 2)

// Queries of a split: all, those that are facts, those in the closure.
typedef struct Tally {
    int32_t n_queries, n_facts, n_in_closure;
} Tally;

static Tally tally_split(const EsClosure *closure, EsKgSplit split) {
    const EsQuerySplit *queries = &closure->graph->splits[split];
    Tally tally = {queries->count, 0, es_closure_count_queries(closure, split)};
    for (int32_t i = 0; i < queries->count; i++) {
        tally.n_facts += es_kg_is_fact(closure->graph, es_kg_query(closure->graph, split, i));
    }
    return tally;
}

static EsStatus print_json(const EsProveSource *source, const EsClosure *closure) {
    const EsKnowledgeGraph *graph = closure->graph;
    Tally valid = tally_split(closure, ES_KG_SPLIT_VALID);
    Tally test = tally_split(closure, ES_KG_SPLIT_TEST);
    // a path that is not UTF-8 cannot be written as JSON
    json_t *name = json_string(es_prove_source_name(source));
    json_t *root = json_pack(
        "{s:o, s:i, s:i, s:i, s:i, s:i, s:b, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "data",
        name != NULL ? name : json_null(), "constants", graph->n_constants, "predicates",
        graph->n_predicates, "rules", graph->n_rules, "facts", closure->n_facts, "closure",
        closure->count, "complete", closure->is_complete && graph->n_skipped == 0, "limit",
        closure->limit, "valid", valid.n_queries, "valid_in_facts", valid.n_facts,
        "valid_in_closure", valid.n_in_closure, "test", test.n_queries, "test_in_facts",
        test.n_facts, "test_in_closure", test.n_in_closure);
    return es_json_print(root, 6);
}

static void print_split(const char *name, Tally tally) {
    printf("%-7s %9d %s, %d in the closure (%.1f %%), %d of them facts\n", name, tally.n_queries,
           es_prove_noun(tally.n_queries, "query", "queries"), tally.n_in_closure,
           100.0 * tally.n_in_closure / ES_MAX(tally.n_queries, 1), tally.n_facts);
}

static void print_table(const EsProveSource *source, const EsClosure *closure) {
    const EsKnowledgeGraph *graph = closure->graph;
    es_print("%s: constants %d, predicates %d, rules %d\n", es_prove_source_name(source),
             graph->n_constants, graph->n_predicates, graph->n_rules);
    printf("facts   %9d\n", closure->n_facts);
    printf("closure %9d%s\n", closure->count, closure->is_complete ? "" : " and more");
    print_split("valid", tally_split(closure, ES_KG_SPLIT_VALID));
    print_split("test", tally_split(closure, ES_KG_SPLIT_TEST));
}

// --- atoms in a file ---

#define BUFFER_BYTES 65536

// Write all atoms, one per line as in train.txt: by predicate, the facts first.
static EsStatus write_atoms(const EsClosure *closure, EsFileWriter *writer) {
    char buffer[BUFFER_BYTES];
    size_t used = 0;
    for (int32_t p = 1; p <= closure->graph->n_predicates; p++) {
        for (int32_t i = 0; i < es_closure_count(closure, p); i++) {
            EsWideAtom atom = es_closure_atom(closure, p, i);
            if (used + ATOM_BYTES > sizeof buffer) {
                ES_TRY(es_file_writer_append(writer, buffer, used));
                used = 0;
            }
            used +=
                (size_t)es_kg_format_atom(closure->graph, atom.cells, buffer + used, ATOM_BYTES);
            buffer[used++] = '.';
            buffer[used++] = '\n';
        }
    }
    return es_file_writer_append(writer, buffer, used);
}

static EsStatus save_atoms(const EsClosure *closure, const char *path) {
    EsFileWriter *writer;
    ES_TRY(es_file_writer_open(path, &writer));
    EsStatus status = write_atoms(closure, writer);
    if (status != ES_STATUS_OK) {
        es_file_writer_abandon(writer);
        return status;
    }
    return es_file_writer_commit(writer);
}

// --- the command ---

typedef struct Request {
    EsProveSource source;
    int limit, n_threads, as_json;
    const char *out;
} Request;

static EsStatus run_closure(Request *request) {
    EsProveSource *source = &request->source;
    EsKnowledgeGraph *graph = NULL;
    EsClosure *closure = NULL;
    EsThreadPool *pool = NULL;
    EsStatus status = ES_STATUS_OK;
    if (request->out != NULL) {
        ES_TRY(es_file_writer_try(request->out));
    }
    ES_TRY_GOTO(es_thread_pool_create(&pool, request->n_threads));
    source->pool = pool;
    ES_TRY_GOTO(es_prove_source_load(source, &graph));
    const EsClosureSettings settings = {.limit = request->limit, .pool = pool};
    ES_TRY_GOTO(es_closure_create_with(graph, &settings, &closure));
    if (!closure->is_complete) {
        es_message(
            "warning: stopped at %d atoms; the counts are lower bounds (--limit raises it)\n",
            closure->limit);
    }
    if (request->out != NULL) {
        ES_TRY_GOTO(save_atoms(closure, request->out));
    }
    // atoms on stdout stand there alone
    int is_alone = request->out != NULL && es_file_is_stdout(request->out);
    if (is_alone) {
        goto done;
    }
    if (request->as_json) {
        ES_TRY_GOTO(print_json(source, closure));
    } else {
        print_table(source, closure);
    }
done:
    es_closure_destroy(closure);
    es_thread_pool_destroy(pool);
    es_kg_destroy(graph);
    return status;
}

EsExit cmd_prove_closure(int argc, char **argv) {
    Request request = {.source = {.folder = NULL}};
    const EsOption options[] = {
        ES_PROVE_SOURCE_OPTIONS(&request.source),
        ES_OPTION_INT("limit", &request.limit, "5000000", 1, ES_CLOSURE_MAX_LIMIT, "N",
                      "stop at this many atoms, the facts included"),
        ES_OPTION_TEXT("out", &request.out, NULL, "FILE",
                       "write all atoms there, one per line as in train.txt"),
        ES_OPTION_INT("threads", &request.n_threads, "0", 0, 1024, "N",
                      "threads; 0: one per processor"),
        ES_OPTION_FLAG("json", &request.as_json, "print the result as JSON"),
    };
    const EsOptionTable table = {
        .command = "prove closure",
        .usage = "[options]",
        .summary = "Derives everything the rules give and counts the queries in it: those that can "
                   "be proved\nat all, at any depth.",
        .example = "esper prove closure --data kg/family --json",
        .options = options,
        .n_options = ES_COUNT_OF(options),
    };
    EsArguments arguments;
    EsExit code;
    if (!es_prove_source_begin(&request.source, &table, argc, argv, &arguments, &code)) {
        return code;
    }
    return es_command_finish(table.command, run_closure(&request));
}
