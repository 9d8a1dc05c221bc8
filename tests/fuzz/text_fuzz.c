// Readers of texts that people write: configurations, hosts, schedules, knowledge graphs,
// questions. What was accepted is used, and what the program would write of it is read again.
#include "base/file.h"
#include "base/file_fault.h"
#include "base/memory.h"
#include "fuzz.h"
#include "growth/engine/schedule.h"
#include "growth/host/host_file.h"
#include "proof/graph/knowledge_builder.h"
#include "proof/graph/knowledge_file.h"
#include "proof/graph/knowledge_text.h"
#include "proof/graph/prolog_text.h"
#include "proof/search/answers.h"
#include "proof/search/closure.h"
#include "runs/grow/grow_settings.h"
#include "runs/grow/hosts_run.h"
#include "runs/prove/prove_settings.h"

// --- configurations ---

// Accepted settings come back, bit for bit, from the file written of them.
static FuzzVerdict load_config(const EsConfig *config, void *copy, const char *path) {
    es_config_reset(config);
    FuzzVerdict verdict = fuzz_judge(es_config_load(config, path));
    if (verdict == FUZZ_ACCEPTED) {
        memcpy(copy, config->settings, config->settings_bytes);
        const char *written = fuzz_path("written.ini");
        FUZZ_OK(es_config_write(config, written));
        es_config_reset(config);
        FUZZ_OK(es_config_load(config, written));
        FUZZ_CHECK(memcmp(copy, config->settings, config->settings_bytes) == 0);
    }
    return verdict;
}

// A file is offered to every kind of run; its lines, to the command line, as --section.key=value.
FuzzVerdict fuzz_config(const uint8_t *data, size_t bytes) {
    static EsGrowSettings grow, grow_copy;
    static EsProveSettings prove, prove_copy;
    static EsHostsSettings hosts, hosts_copy;
    const char *path = fuzz_file("config.ini", data, bytes);
    EsConfig configs[] = {es_grow_run_config(&grow), es_prove_run_config(&prove),
                          es_hosts_run_config(&hosts)};
    void *const copies[] = {&grow_copy, &prove_copy, &hosts_copy};
    FuzzVerdict verdict = FUZZ_REFUSED;
    for (size_t i = 0; i < ES_COUNT_OF(configs); i++) {
        verdict = ES_MAX(verdict, load_config(&configs[i], copies[i], path));
    }
    char *text = fuzz_text(data, bytes), *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        fuzz_judge(es_config_override(&configs[0], line));
    }
    fuzz_judge(es_prove_settings_check(&prove));
    free(text);
    return verdict;
}

FuzzVerdict fuzz_host_file(const uint8_t *data, size_t bytes) {
    EsHostSpec host;
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    FuzzVerdict verdict =
        fuzz_judge(es_host_load(fuzz_file("host.ini", data, bytes), &host, slots, &n_slots));
    if (verdict != FUZZ_ACCEPTED) {
        return verdict;
    }
    FUZZ_CHECK(n_slots >= 1 && n_slots <= ES_SLOTS_MAX);
    FUZZ_OK(es_host_check(&host));
    EsGraph *graph = NULL;
    FUZZ_OK(es_graph_create(1, &graph));
    int64_t dims[] = {1, host.image_channels, host.image_size, host.image_size};
    es_host_build(graph, &host, es_graph_input(graph, "x", ES_DTYPE_F32, 4, dims), 1);
    FUZZ_OK(es_graph_status(graph));
    es_graph_destroy(graph);
    es_host_unload(&host);
    return verdict;
}

FuzzVerdict fuzz_schedule(const uint8_t *data, size_t bytes) {
    static const EsSlot slots[] = {{.name = "r0c0"}, {.name = "r0c1", .column = 1, .order = 1}};
    const EsScheduleLimits limits = {slots, 2, 6, 30, ES_BLUEPRINTS_CNN};
    EsSchedule schedule;
    EsAction actions[6];
    FuzzVerdict verdict =
        fuzz_judge(es_schedule_load(fuzz_file("plan.txt", data, bytes), &limits, &schedule));
    if (verdict == FUZZ_ACCEPTED) {
        for (int32_t step = 1; step <= limits.n_steps; step++) {
            es_schedule_actions(&schedule, step, limits.n_envs, actions);
            for (int64_t e = 0; e < limits.n_envs; e++) {
                FUZZ_CHECK(actions[e].head[ES_HEAD_SLOT] >= 0 && actions[e].head[ES_HEAD_SLOT] < 2);
            }
        }
        es_schedule_destroy(&schedule);
    }
    return verdict;
}

// The fault is not armed: it would strike the fuzzer's own files.
FuzzVerdict fuzz_file_fault(const uint8_t *data, size_t bytes) {
    EsFileFault fault = {.n = 0};
    char *text = fuzz_text(data, bytes);
    FuzzVerdict verdict = fuzz_judge(es_file_fault_parse(text, &fault));
    FUZZ_CHECK(verdict != FUZZ_ACCEPTED || (fault.call < ES_FILE_CALL_COUNT && fault.n >= 0));
    free(text);
    return verdict;
}

// --- knowledge graphs ---

// Every number of a graph lies in its range.
static void check_graph(const EsKnowledgeGraph *graph) {
    for (int32_t i = 0; i < graph->n_facts; i++) {
        FUZZ_CHECK(es_kg_is_ground(graph, &graph->facts[i]));
        FUZZ_CHECK(es_kg_has_fact(graph, graph->facts[i]));
    }
    for (int32_t i = 0; i < graph->wide.count; i++) {
        const EsAtom *fact = graph->wide.atoms + 2 * (size_t)i;
        FUZZ_CHECK(es_kg_is_ground(graph, fact) && es_kg_is_fact(graph, fact));
    }
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        for (int32_t i = 0; i < graph->splits[split].count; i++) {
            FUZZ_CHECK(es_kg_is_ground(graph, es_kg_query(graph, (EsKgSplit)split, i)));
        }
    }
    for (int32_t i = 1; i <= graph->n_constants; i++) {
        FUZZ_CHECK(es_kg_constant(graph, graph->constant_names[i]) == i);
    }
    for (int32_t i = 0; i < graph->n_rules; i++) {
        FUZZ_CHECK(graph->rules[i].head.predicate >= 1 &&
                   graph->rules[i].head.predicate <= graph->n_predicates);
    }
}

// The part read before a failure still makes a graph.
static FuzzVerdict finish_graph(EsKgBuilder *builder, EsStatus status) {
    EsKnowledgeGraph *graph = NULL;
    FuzzVerdict verdict = fuzz_judge(status);
    FUZZ_OK(es_kg_builder_finish(builder, &graph));
    check_graph(graph);
    es_kg_destroy(graph);
    es_kg_builder_destroy(builder);
    return verdict;
}

FuzzVerdict fuzz_kg_triples(const uint8_t *data, size_t bytes) {
    EsKgBuilder *builder = NULL;
    int32_t n_read = 0;
    FUZZ_OK(es_kg_builder_create(&builder));
    return finish_graph(builder, es_kg_text_read_triples(builder, ES_KG_SPLIT_TRAIN, "fuzz",
                                                         (const char *)data, bytes, &n_read));
}

static FuzzVerdict read_rules(const char *text, size_t bytes, EsKnowledgeGraph **graph) {
    EsKgBuilder *builder = NULL;
    int32_t n_read = 0;
    FUZZ_OK(es_kg_builder_create(&builder));
    FuzzVerdict verdict = fuzz_judge(es_kg_text_read_rules(builder, "fuzz", text, bytes, &n_read));
    FUZZ_OK(es_kg_builder_finish(builder, graph));
    es_kg_builder_destroy(builder);
    check_graph(*graph);
    return verdict;
}

// Every rule that was read is written, and read again gives the same text; all of them together
// have a closure, or a cycle through negation.
FuzzVerdict fuzz_kg_rules(const uint8_t *data, size_t bytes) {
    static char line[ES_RULE_TEXT_BYTES + 8], again[ES_RULE_TEXT_BYTES];
    EsKnowledgeGraph *graph = NULL, *read = NULL;
    EsClosure *closure = NULL;
    FuzzVerdict verdict = read_rules((const char *)data, bytes, &graph);
    for (int32_t i = 0; i < graph->n_rules; i++) {
        int length = snprintf(line, sizeof line, "r:1:");
        length += es_horn_rule_format(graph, &graph->rules[i], line + length,
                                      sizeof line - (size_t)length);
        FUZZ_CHECK(read_rules(line, (size_t)length, &read) == FUZZ_ACCEPTED && read->n_rules == 1);
        es_horn_rule_format(read, &read->rules[0], again, sizeof again);
        FUZZ_CHECK(strcmp(line + 4, again) == 0);
        es_kg_destroy(read);
    }
    EsStatus status = es_closure_create(graph, 1000, &closure);
    FUZZ_CHECK(status == ES_STATUS_OK ? closure->count == 0
                                      : status == ES_STATUS_INPUT && graph->has_negation);
    es_closure_destroy(closure);
    es_kg_destroy(graph);
    return verdict;
}

static FuzzVerdict read_prolog(const char *text, size_t bytes, EsKnowledgeGraph **graph) {
    EsKgBuilder *builder = NULL;
    EsPrologCounts counts;
    FUZZ_OK(es_kg_builder_create(&builder));
    FuzzVerdict verdict = fuzz_judge(es_prolog_text_read(builder, "fuzz", text, bytes, 1, &counts));
    FUZZ_OK(es_kg_builder_finish(builder, graph));
    es_kg_builder_destroy(builder);
    check_graph(*graph);
    return verdict;
}

// A program that was read is written, and what was written is read again, to the same graph.
FuzzVerdict fuzz_prolog(const uint8_t *data, size_t bytes) {
    EsKnowledgeGraph *graph = NULL, *again = NULL;
    FuzzVerdict verdict = read_prolog((const char *)data, bytes, &graph);
    if (verdict == FUZZ_ACCEPTED) {
        const char *path = fuzz_path("written.pl");
        void *written = NULL;
        size_t n_written = 0;
        FUZZ_OK(es_prolog_text_save(graph, path));
        FUZZ_OK(es_file_read_all(path, 1 << 24, &written, &n_written));
        FUZZ_CHECK(read_prolog(written, n_written, &again) == FUZZ_ACCEPTED);
        FUZZ_CHECK(es_kg_count_facts(again) == es_kg_count_facts(graph) &&
                   again->n_rules == graph->n_rules);
        es_release(written);
        es_kg_destroy(again);
    }
    es_kg_destroy(graph);
    return verdict;
}

// A small graph made anew: depths and domains become part of it.
static EsKnowledgeGraph *make_graph(void) {
    static const char facts[] = "likes(ann,bob)\nlikes(bob,cy)\nknows(c,d)\nrain.\nold(ann)\n"
                                "gives(ann,7,bob)\nroute(c,d,1,20)\n";
    static const char queries[] = "likes(ann,cy)\nknows(d,d)\nold(cy)\ngives(bob,7,cy)\n";
    static const char rules[] = "r1:0.5:likes(x,y), likes(y,z) -> knows(x,z)\n"
                                "r2:1:gives(x,z,y), old(x), rain -> gives(y,z,x)\n"
                                "r3:1:route(x,y,_,z) -> gives(x,z,y)\n";
    EsKgBuilder *builder = NULL;
    EsKnowledgeGraph *graph = NULL;
    int32_t n_read = 0;
    FUZZ_OK(es_kg_builder_create(&builder));
    FUZZ_OK(es_kg_text_read_triples(builder, ES_KG_SPLIT_TRAIN, "train", facts, sizeof facts - 1,
                                    &n_read));
    FUZZ_OK(es_kg_text_read_triples(builder, ES_KG_SPLIT_TEST, "test", queries, sizeof queries - 1,
                                    &n_read));
    FUZZ_OK(es_kg_text_read_rules(builder, "rules", rules, sizeof rules - 1, &n_read));
    FUZZ_OK(es_kg_builder_finish(builder, &graph));
    es_kg_builder_destroy(builder);
    return graph;
}

FuzzVerdict fuzz_kg_depths(const uint8_t *data, size_t bytes) {
    EsKnowledgeGraph *graph = make_graph();
    FuzzVerdict verdict = fuzz_judge(
        es_kg_text_read_depths(graph, ES_KG_SPLIT_TEST, "fuzz", (const char *)data, bytes));
    check_graph(graph);
    es_kg_destroy(graph);
    return verdict;
}

FuzzVerdict fuzz_kg_domains(const uint8_t *data, size_t bytes) {
    EsKnowledgeGraph *graph = make_graph();
    FuzzVerdict verdict =
        fuzz_judge(es_kg_text_read_domains(graph, "fuzz", (const char *)data, bytes));
    const EsDomains *domains = &graph->domains;
    for (int32_t d = 1; verdict == FUZZ_ACCEPTED && d <= domains->count; d++) {
        for (int32_t i = domains->start[d]; i < domains->start[d + 1]; i++) {
            FUZZ_CHECK(domains->members[i] >= 1 && domains->members[i] <= graph->n_constants);
        }
    }
    es_kg_destroy(graph);
    return verdict;
}

FuzzVerdict fuzz_soft_facts(const uint8_t *data, size_t bytes) {
    EsKnowledgeGraph *before = make_graph();
    EsKgBuilder *builder = NULL;
    EsSoftFilter filter = {-1e300, 0};
    EsSoftCounts counts;
    FUZZ_OK(es_kg_builder_create_from(before, &builder));
    for (int32_t i = 0; i < before->n_facts; i++) {
        FUZZ_OK(es_kg_builder_add_fact(builder, &before->facts[i]));
    }
    for (int32_t i = 0; i < before->wide.count; i++) {
        FUZZ_OK(es_kg_builder_add_fact(builder, before->wide.atoms + 2 * (size_t)i));
    }
    FuzzVerdict verdict =
        finish_graph(builder, es_soft_facts_read(builder, before, &filter, "fuzz",
                                                 (const char *)data, bytes, &counts));
    es_kg_destroy(before);
    return verdict;
}

// A question of several goals.
static void ask_all(const EsKnowledgeGraph *graph, const EsQuestion *question) {
    EsJoinedAnswers answers;
    const EsClosureSettings settings = {.limit = 1000};
    FUZZ_OK(es_question_join(graph, question, &settings, &answers));
    for (int32_t i = 0; i < answers.count; i++) {
        const int32_t *row = es_joined_row(&answers, i);
        for (int k = 0; k < question->n_goals; k++) {
            EsWideAtom goal = es_question_goal(graph, question, k, row);
            FUZZ_CHECK(es_kg_is_ground(graph, goal.cells));
        }
    }
    es_joined_answers_destroy(&answers);
}

// A question that was understood is answered.
FuzzVerdict fuzz_question(const uint8_t *data, size_t bytes) {
    static EsKnowledgeGraph *graph;
    static EsThreadPool *pool;
    if (graph == NULL) {
        graph = make_graph();
        FUZZ_OK(es_thread_pool_create(&pool, 1));
    }
    EsQuestion question;
    EsAnswers answers;
    EsAnswersSettings settings = es_answers_defaults();
    settings.prover.max_states = 100;
    char *text = fuzz_text(data, bytes);
    FuzzVerdict verdict = fuzz_judge(es_question_parse(graph, text, &question));
    if (verdict == FUZZ_ACCEPTED && es_question_is_single(&question)) {
        const EsAtom *form = question.goals[0].cells;
        FUZZ_OK(es_answers_find(graph, &settings, pool, form, &answers));
        for (int32_t i = 0; i < answers.count; i++) {
            FUZZ_CHECK(es_question_matches(graph, form, answers.items[i].cells));
        }
        es_answers_destroy(&answers);
    } else if (verdict == FUZZ_ACCEPTED) {
        ask_all(graph, &question);
    }
    free(text);
    return verdict;
}
