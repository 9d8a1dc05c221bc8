// `esper prove mine`: rules that the facts of a graph obey.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/macros.h"
#include "cli/frame.h"
#include "proof/graph/knowledge_graph.h"
#include "proof/search/path_miner.h"
#include "proof/search/rule_miner.h"
#include "prove/prove_action.h"
#include "runs/stop_signal.h"

// between two lines of progress
#define PROGRESS_NS 2000000000

typedef struct Mining {
    const EsProveSource *source;
    EsMinerSettings settings;
    const char *out;
    int limit, as_json, n_threads;
    int32_t n_left_out;    // predicates of another number of arguments than two
    int finds_constants;   // rules with constants, too
    EsPathRules constants; // these, the most confident first
    int64_t reported_ns;
    double seconds;
} Mining;

static void report_progress(void *context, int64_t n_done, int64_t n_all) {
    Mining *mining = context;
    int64_t now_ns = es_clock_ns();
    if (now_ns - mining->reported_ns >= PROGRESS_NS) {
        mining->reported_ns = now_ns;
        es_message("mine: counted %lld of %lld parts\n", (long long)n_done, (long long)n_all);
    }
}

static int should_stop(void *context) {
    (void)context;
    return es_stop_signal_time_ns() != 0;
}

static json_t *rule_json(const EsKnowledgeGraph *graph, const EsMinedRule *rule) {
    char text[ES_RULE_TEXT_BYTES];
    es_horn_rule_format(graph, &rule->rule, text, sizeof text);
    // names are bytes; JSON holds UTF-8 alone
    json_t *string = json_string(text);
    return json_pack("{s:o, s:I, s:I, s:f, s:f, s:I, s:f}", "rule",
                     string != NULL ? string : json_null(), "support", (json_int_t)rule->support,
                     "given", (json_int_t)rule->n_given, "confidence",
                     es_mined_rule_confidence(rule), "pca_confidence",
                     es_mined_rule_pca_confidence(rule), "kept_support", (json_int_t)rule->n_kept,
                     "kept_confidence", es_mined_rule_kept_confidence(rule));
}

// --- rules with constants ---

static int compare_constants(const void *left, const void *right) {
    const EsPathRule *x = left, *y = right;
    double of_x = es_path_rule_confidence(x, 0), of_y = es_path_rule_confidence(y, 0);
    if (of_x != of_y) {
        return of_x > of_y ? -1 : 1;
    }
    if (x->support != y->support) {
        return x->support > y->support ? -1 : 1;
    }
    return memcmp(x, y, offsetof(EsPathRule, support));
}

// Keeps those with constants of the rules of one step, sorted.
static EsStatus mine_constants(Mining *mining, const EsKnowledgeGraph *graph, EsThreadPool *pool) {
    EsPathRules *rules = &mining->constants;
    EsPathMinerSettings settings = {.min_support =
                                        (int32_t)ES_MIN(mining->settings.min_support, INT32_MAX),
                                    .min_confidence = mining->settings.min_confidence,
                                    .max_steps = 1,
                                    .finds_constants = 1,
                                    .report = report_progress,
                                    .should_stop = should_stop,
                                    .context = mining};
    ES_TRY(es_path_rules_mine(graph, &settings, pool, rules));
    int32_t count = 0;
    for (int32_t i = 0; i < rules->count; i++) {
        if (rules->items[i].fixed != 0) {
            rules->items[count++] = rules->items[i];
        }
    }
    rules->count = count;
    qsort(rules->items, (size_t)count, sizeof *rules->items, compare_constants);
    return ES_STATUS_OK;
}

static json_t *describe_constants(const Mining *mining, const EsKnowledgeGraph *graph) {
    json_t *list = json_array();
    for (int32_t i = 0; i < mining->constants.count && i < mining->limit; i++) {
        const EsPathRule *rule = &mining->constants.items[i];
        char text[ES_PATH_RULE_TEXT_BYTES];
        es_path_rule_format(graph, rule, text, sizeof text);
        json_t *string = json_string(text);
        json_array_append_new(list, json_pack("{s:o, s:i, s:I, s:f}", "rule",
                                              string != NULL ? string : json_null(), "support",
                                              rule->support, "given", (json_int_t)rule->n_given,
                                              "confidence", es_path_rule_confidence(rule, 0)));
    }
    return json_pack("{s:i, s:o}", "count", mining->constants.count, "rules", list);
}

static void print_constants(const Mining *mining, const EsKnowledgeGraph *graph) {
    printf("%d %s with constants, counted on all facts:\n", mining->constants.count,
           es_prove_noun(mining->constants.count, "rule", "rules"));
    for (int32_t i = 0; i < mining->constants.count && i < mining->limit; i++) {
        const EsPathRule *rule = &mining->constants.items[i];
        char text[ES_PATH_RULE_TEXT_BYTES];
        es_path_rule_format(graph, rule, text, sizeof text);
        printf("%7d  %10.3f  ", rule->support, es_path_rule_confidence(rule, 0));
        es_padded_text_print(text, 0, stdout);
        putchar('\n');
    }
}

// --- output ---

static EsStatus print_json(const Mining *mining, const EsKnowledgeGraph *graph,
                           const EsMinedRules *rules, int32_t n_shown) {
    json_t *list = json_array();
    for (int32_t i = 0; i < n_shown; i++) {
        json_array_append_new(list, rule_json(graph, &rules->items[i]));
    }
    json_t *name = json_string(es_prove_source_name(mining->source));
    json_t *root =
        json_pack("{s:o, s:i, s:i, s:i, s:i, s:i, s:f, s:o}", "data",
                  name != NULL ? name : json_null(), "facts", rules->n_facts, "kept_facts",
                  rules->n_kept, "predicates_left_out", mining->n_left_out, "count", rules->count,
                  "shown", n_shown, "seconds", mining->seconds, "rules", list);
    if (mining->finds_constants && root != NULL) {
        json_object_set_new(root, "with_constants", describe_constants(mining, graph));
    }
    return es_json_print(root, 6);
}

static void print_table(const Mining *mining, const EsKnowledgeGraph *graph,
                        const EsMinedRules *rules, int32_t n_shown) {
    es_print("%s: mined from %d %s, %d kept back: %d %s in %.2f s\n",
             es_prove_source_name(mining->source), rules->n_facts,
             es_prove_noun(rules->n_facts, "fact", "facts"), rules->n_kept, rules->count,
             es_prove_noun(rules->count, "rule", "rules"), mining->seconds);
    printf("support  confidence    PCA    kept  of new  rule\n");
    for (int32_t i = 0; i < n_shown; i++) {
        const EsMinedRule *rule = &rules->items[i];
        char text[ES_RULE_TEXT_BYTES];
        es_horn_rule_format(graph, &rule->rule, text, sizeof text);
        printf("%7lld  %10.3f  %5.3f %7lld  %6.3f  ", (long long)rule->support,
               es_mined_rule_confidence(rule), es_mined_rule_pca_confidence(rule),
               (long long)rule->n_kept, es_mined_rule_kept_confidence(rule));
        es_padded_text_print(text, 0, stdout);
        putchar('\n');
    }
    if (n_shown < rules->count) {
        printf("%d more %s not shown (--limit raises it)\n", rules->count - n_shown,
               es_prove_noun(rules->count - n_shown, "is", "are"));
    }
    if (mining->finds_constants) {
        print_constants(mining, graph);
    }
}

static EsStatus run_mine(Mining *mining) {
    EsKnowledgeGraph *graph = NULL;
    EsThreadPool *pool = NULL;
    EsMinedRules rules = {.items = NULL};
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_stop_signal_begin("\nstopping; no rules are kept\n",
                                "\nstopped at once; nothing was written\n"));
    if (mining->out != NULL) {
        ES_TRY_GOTO(es_file_writer_try(mining->out));
    }
    ES_TRY_GOTO(es_prove_source_load_using(mining->source, ES_KG_RULES_LEFT_OUT, &graph));
    ES_TRY_GOTO(es_prove_take_binary(&graph, "mining rules", &mining->n_left_out));
    ES_TRY_GOTO(es_thread_pool_create(&pool, mining->n_threads));
    int64_t start_ns = es_clock_ns();
    mining->reported_ns = start_ns;
    ES_TRY_GOTO(es_rules_mine(graph, &mining->settings, pool, &rules));
    if (mining->finds_constants) {
        ES_TRY_GOTO(mine_constants(mining, graph, pool));
    }
    mining->seconds = es_clock_seconds_since(start_ns);
    if (mining->out != NULL) {
        ES_TRY_GOTO(es_mined_rules_save(
            graph, &rules, mining->finds_constants ? &mining->constants : NULL, mining->out));
    }
    int32_t n_shown = ES_MIN(mining->limit, rules.count);
    // a rule file on stdout stands there alone
    int is_alone = mining->out != NULL && es_file_is_stdout(mining->out);
    if (mining->as_json && !is_alone) {
        ES_TRY_GOTO(print_json(mining, graph, &rules, n_shown));
    } else if (!is_alone) {
        print_table(mining, graph, &rules, n_shown);
    }
done:
    es_stop_signal_end();
    es_path_rules_destroy(&mining->constants);
    es_mined_rules_destroy(&rules);
    es_thread_pool_destroy(pool);
    es_kg_destroy(graph);
    return status;
}

EsExit cmd_prove_mine(int argc, char **argv) {
    EsProveSource source = {.is_seed_shared = 1};
    Mining mining = {.source = &source, .settings = es_miner_defaults()};
    int min_support;
    const EsOption options[] = {
        ES_PROVE_SOURCE_OPTIONS(&source),
        ES_OPTION_INT("min-support", &min_support, "10", 1, 2147483647, "N",
                      "minimum facts that a rule derives"),
        ES_OPTION_FLOAT("min-confidence", &mining.settings.min_confidence, "0.5", 0, 1, "X",
                        "minimum share of facts among the pairs that a rule derives"),
        ES_OPTION_INT("max-body", &mining.settings.max_body, "2", 1, 3, "N",
                      "maximum atoms of a body; 3 adds paths of three steps"),
        ES_OPTION_FLOAT("held-out", &mining.settings.held_out, "0.1", 0, 0.9, "X",
                        "share of the facts kept back to check the rules with"),
        ES_OPTION_FLAG("constants", &mining.finds_constants,
                       "rules with constants, too, such as lives(x,'rome') -> speaks(x,'latin')"),
        ES_OPTION_TEXT("out", &mining.out, NULL, "FILE", "write all rules there, as a rule file"),
        ES_OPTION_INT("limit", &mining.limit, "20", 0, 2147483647, "N", "show at most N rules"),
        ES_OPTION_INT("threads", &mining.n_threads, "0", 0, 1024, "N",
                      "threads; 0: one per processor"),
        ES_OPTION_FLAG("json", &mining.as_json, "print the result as JSON"),
    };
    const EsOptionTable table = {
        .command = "prove mine",
        .usage = "[options]",
        .summary = "Finds rules of one to three atoms that the facts obey, the most confident "
                   "first. The graph needs\nno rules of its own; --seed also picks the facts kept "
                   "back. Rules are paths: predicates of\nother than two arguments are left "
                   "out.",
        .example = "esper prove mine --data kg/family --min-confidence 0.5 --out mined.txt",
        .options = options,
        .n_options = ES_COUNT_OF(options),
    };
    EsArguments arguments;
    EsExit code;
    if (!es_prove_source_begin(&source, &table, argc, argv, &arguments, &code)) {
        return code;
    }
    es_options_note_unused(&table, &arguments, "rules", "here: the graph's rules are left out");
    mining.settings.min_support = min_support;
    mining.settings.seed = (uint64_t)source.seed;
    mining.settings.report = report_progress;
    mining.settings.should_stop = should_stop;
    mining.settings.report_context = &mining;
    return es_command_finish("prove mine", run_mine(&mining));
}
