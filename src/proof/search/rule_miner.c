// A share of the facts, drawn by number, becomes the valid split of a second graph; the bodies are
// counted on the rest, over the threads a relation at a time, or two for paths of three steps, and
// the rules of all threads are sorted into one list.
#include "proof/search/rule_miner.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/random_rules.h"
#include "proof/graph/knowledge_builder.h"
#include "proof/graph/knowledge_graph.h"
#include "proof/search/rule_miner_count.h"

EsMinerSettings es_miner_defaults(void) {
    return (EsMinerSettings){
        .min_support = 10, .min_confidence = 0.5, .max_body = 2, .held_out = 0.1, .seed = 1};
}

static double ratio(int64_t part, int64_t whole) {
    return whole > 0 ? (double)part / (double)whole : 0;
}

double es_mined_rule_confidence(const EsMinedRule *rule) {
    return ratio(rule->support, rule->n_given);
}

double es_mined_rule_pca_confidence(const EsMinedRule *rule) {
    return ratio(rule->support, rule->n_closed);
}

double es_mined_rule_kept_confidence(const EsMinedRule *rule) {
    return ratio(rule->n_kept, rule->n_given - rule->support);
}

// --- facts kept back ---

int es_miner_keeps_back(const EsMinerSettings *settings, int32_t index) {
    EsRandom4 r = es_random_draw(settings->seed, (uint32_t)index, ES_PURPOSE_DATA_GENERATION, 0, 0);
    return (double)es_random_uniform(r.word[0]) < settings->held_out;
}

// The graph to mine from: names and facts, those kept back as its valid split, by (a, predicate,
// b).
static EsStatus split_facts(const EsKnowledgeGraph *graph, const EsMinerSettings *settings,
                            EsKnowledgeGraph **mined) {
    EsKnowledgeGraph names = *graph;
    EsKgBuilder *builder = NULL;
    names.n_rules = 0;
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        names.splits[split].count = 0;
    }
    ES_TRY(es_kg_builder_create_from(&names, &builder));
    EsStatus status = ES_STATUS_OK;
    for (int32_t i = 0; i < graph->n_facts; i++) {
        ES_TRY_GOTO(es_miner_keeps_back(settings, i)
                        ? es_kg_builder_add_query(builder, ES_KG_SPLIT_VALID, &graph->facts[i])
                        : es_kg_builder_add_fact(builder, &graph->facts[i]));
    }
    ES_TRY_GOTO(es_kg_builder_finish(builder, mined));
done:
    es_kg_builder_destroy(builder);
    return status;
}

static int compare_by_a(const void *left, const void *right) {
    const EsAtom *x = left, *y = right;
    return x->a != y->a ? (x->a < y->a ? -1 : 1) : es_atom_compare(x, y);
}

static EsStatus index_kept(EsKnowledgeGraph *mined, int32_t **kept_row) {
    EsQuerySplit *kept = &mined->splits[ES_KG_SPLIT_VALID];
    ES_TRY(es_allocate(((size_t)mined->n_constants + 2) * sizeof **kept_row, (void **)kept_row));
    if (kept->count > 0) {
        qsort(kept->atoms, (size_t)kept->count, sizeof *kept->atoms, compare_by_a);
    }
    for (int32_t i = 0; i < kept->count; i++) {
        (*kept_row)[kept->atoms[i].a + 1]++;
    }
    for (int32_t x = 0; x <= mined->n_constants; x++) {
        (*kept_row)[x + 1] += (*kept_row)[x];
    }
    return ES_STATUS_OK;
}

// --- all relations ---

typedef struct Work {
    EsRuleCounter *counters; // one per thread
    const EsMinerSettings *settings;
    int64_t n_relations;
    int64_t n_pieces; // a relation each; then, of paths of three steps, two relations each
    atomic_llong n_done;
    atomic_int is_stopped;
} Work;

static EsStatus mine_piece(const Work *work, EsRuleCounter *counter, int64_t piece) {
    if (piece < work->n_relations) {
        return es_rule_counter_take(counter, (int32_t)piece);
    }
    int64_t pair = piece - work->n_relations;
    return es_rule_counter_take_paths(counter, (int32_t)(pair / work->n_relations),
                                      (int32_t)(pair % work->n_relations));
}

static void take_piece(void *context, int64_t piece, int worker) {
    Work *work = context;
    const EsMinerSettings *settings = work->settings;
    EsRuleCounter *counter = &work->counters[worker];
    if (settings->should_stop != NULL && settings->should_stop(settings->report_context)) {
        atomic_store(&work->is_stopped, 1);
    }
    if (counter->status == ES_STATUS_OK && !atomic_load(&work->is_stopped)) {
        counter->status = mine_piece(work, counter, piece);
    }
    int64_t n_done = atomic_fetch_add(&work->n_done, 1) + 1;
    // worker 0 is the calling thread
    if (worker == 0 && settings->report != NULL) {
        settings->report(settings->report_context, n_done, work->n_pieces);
    }
}

static int compare_atoms(const EsHornRule *x, const EsHornRule *y) {
    int order = es_atom_compare(&x->head, &y->head);
    for (int k = 0; k < ES_HORN_MAX_BODY && order == 0; k++) {
        order = es_atom_compare(&x->body[k], &y->body[k]);
    }
    return order;
}

static int compare_rules(const void *left, const void *right) {
    const EsMinedRule *x = left, *y = right;
    double confidence_x = es_mined_rule_confidence(x), confidence_y = es_mined_rule_confidence(y);
    if (confidence_x != confidence_y) {
        return confidence_x > confidence_y ? -1 : 1;
    }
    if (x->support != y->support) {
        return x->support > y->support ? -1 : 1;
    }
    return compare_atoms(&x->rule, &y->rule);
}

static EsStatus gather(const Work *work, int n_threads, EsMinedRules *rules) {
    int64_t count = 0;
    for (int w = 0; w < n_threads; w++) {
        if (work->counters[w].status != ES_STATUS_OK) {
            return ES_FAIL(MEMORY, "out of memory for the rules mined on %d threads", n_threads);
        }
        count += work->counters[w].n_rules;
    }
    if (count > INT32_MAX) {
        return ES_FAIL(ARGUMENT, "%lld rules; ask for more support or confidence",
                       (long long)count);
    }
    ES_TRY(es_allocate((size_t)ES_MAX(count, 1) * sizeof *rules->items, (void **)&rules->items));
    for (int w = 0; w < n_threads; w++) {
        const EsRuleCounter *counter = &work->counters[w];
        if (counter->n_rules > 0) {
            memcpy(rules->items + rules->count, counter->rules,
                   (size_t)counter->n_rules * sizeof *counter->rules);
            rules->count += counter->n_rules;
        }
    }
    // no two compare equal, so the order does not depend on the threads
    qsort(rules->items, (size_t)rules->count, sizeof *rules->items, compare_rules);
    for (int32_t i = 0; i < rules->count; i++) {
        rules->items[i].rule.line = i + 1;
    }
    return ES_STATUS_OK;
}

static EsStatus check_settings(const EsMinerSettings *settings) {
    if (settings->min_support < 1 ||
        !(settings->min_confidence >= 0 && settings->min_confidence <= 1) ||
        settings->max_body < 1 || settings->max_body > 3 ||
        !(settings->held_out >= 0 && settings->held_out <= 0.9)) {
        return ES_FAIL(ARGUMENT,
                       "mining with support %lld, confidence %g, bodies of %d, %g kept back: "
                       "expected support from 1, confidence 0 to 1, bodies of 1 to 3, 0 to 0.9 "
                       "kept back",
                       (long long)settings->min_support, settings->min_confidence,
                       settings->max_body, settings->held_out);
    }
    return ES_STATUS_OK;
}

EsStatus es_rules_mine(const EsKnowledgeGraph *graph, const EsMinerSettings *settings,
                       EsThreadPool *pool, EsMinedRules *rules) {
    memset(rules, 0, sizeof *rules);
    ES_TRY(check_settings(settings));
    if (graph->n_predicates > ES_MINER_MAX_PREDICATES) {
        return ES_FAIL(INPUT, "%d predicates, rules are mined for at most %d", graph->n_predicates,
                       ES_MINER_MAX_PREDICATES);
    }
    int n_threads = es_thread_pool_size(pool);
    EsKnowledgeGraph *mined = NULL;
    int32_t *kept_row = NULL;
    double *one_atom = NULL;
    size_t n_heads = (size_t)graph->n_predicates + 1;
    Work work = {.settings = settings, .n_relations = 2 * (int64_t)graph->n_predicates};
    work.n_pieces =
        work.n_relations + (settings->max_body > 2 ? work.n_relations * work.n_relations : 0);
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(split_facts(graph, settings, &mined));
    ES_TRY_GOTO(index_kept(mined, &kept_row));
    ES_TRY_GOTO(
        es_allocate((size_t)work.n_relations * n_heads * sizeof *one_atom, (void **)&one_atom));
    ES_TRY_GOTO(es_allocate((size_t)n_threads * sizeof *work.counters, (void **)&work.counters));
    for (int w = 0; w < n_threads; w++) {
        ES_TRY_GOTO(es_rule_counter_create(mined, settings, kept_row, one_atom, &work.counters[w]));
    }
    for (int32_t r = 0; r < work.n_relations; r++) {
        es_rule_counter_take_one(&work.counters[0], r, one_atom + (size_t)r * n_heads);
    }
    es_thread_pool_run(pool, work.n_pieces, take_piece, &work);
    if (atomic_load(&work.is_stopped)) {
        status = ES_FAIL(INTERRUPTED, "mining was stopped; no rules are kept");
        goto done;
    }
    ES_TRY_GOTO(gather(&work, n_threads, rules));
    rules->n_facts = mined->n_facts;
    rules->n_kept = mined->splits[ES_KG_SPLIT_VALID].count;
done:
    for (int w = 0; w < n_threads && work.counters != NULL; w++) {
        es_rule_counter_destroy(&work.counters[w]);
    }
    es_release(work.counters);
    es_release(kept_row);
    es_release(one_atom);
    es_kg_destroy(mined);
    if (status != ES_STATUS_OK) {
        es_mined_rules_destroy(rules);
    }
    return status;
}

void es_mined_rules_destroy(EsMinedRules *rules) {
    es_release(rules->items);
    memset(rules, 0, sizeof *rules);
}

// --- the file ---

static EsStatus append_rule(EsFileWriter *writer, int32_t number, double confidence,
                            const char *rule) {
    char line[ES_RULE_TEXT_BYTES + 64];
    int length = snprintf(line, sizeof line, "r%d:%.6g:%s\n", number, confidence, rule);
    return es_file_writer_append(writer, line, (size_t)length);
}

EsStatus es_mined_rules_save(const EsKnowledgeGraph *graph, const EsMinedRules *rules,
                             const EsPathRules *constants, const char *path) {
    EsFileWriter *writer;
    ES_TRY(es_file_writer_open(path, &writer));
    EsStatus status = ES_STATUS_OK;
    char text[ES_RULE_TEXT_BYTES];
    for (int32_t i = 0; i < rules->count; i++) {
        const EsMinedRule *rule = &rules->items[i];
        es_horn_rule_format(graph, &rule->rule, text, sizeof text);
        ES_TRY_GOTO(append_rule(writer, i + 1, es_mined_rule_confidence(rule), text));
    }
    for (int32_t i = 0; constants != NULL && i < constants->count; i++) {
        const EsPathRule *rule = &constants->items[i];
        es_path_rule_format(graph, rule, text, sizeof text);
        ES_TRY_GOTO(
            append_rule(writer, rules->count + i + 1, es_path_rule_confidence(rule, 0), text));
    }
    return es_file_writer_commit(writer);
done:
    es_file_writer_abandon(writer);
    return status;
}
