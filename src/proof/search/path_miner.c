// A piece of the work is two relations: for each x all ways to go along them are listed, each is
// prolonged by every third relation, and the ends are marked with a stamp, so that each counts
// once. A further piece per predicate and argument counts the rules with constants, by sorting what
// the constants x of its facts have in common. The rules of all threads are sorted into one list.
#include "proof/search/path_miner.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/first_error.h"
#include "base/memory.h"
#include "proof/graph/text_line.h"
#include "proof/search/proof_array.h"

EsPathMinerSettings es_path_miner_defaults(void) {
    return (EsPathMinerSettings){
        .min_support = 2, .min_confidence = 0.01, .max_steps = 3, .finds_constants = 1};
}

int es_path_leaves(const EsKnowledgeGraph *graph, int32_t relation, int32_t u, int32_t other) {
    EsAtomSpan facts = es_path_facts_from(graph, relation, u);
    for (int32_t i = 0; i < facts.count; i++) {
        int32_t z = es_path_other_end(relation, facts.atoms[i]);
        if (z != u && z != other) {
            return 1;
        }
    }
    return 0;
}

// --- facts of a constant under any predicate ---

typedef struct FactIndex {
    EsAtom *atoms; // by a, or by b; owned                                               (n_facts)
    int32_t *row;  // facts of x: row[x] to row[x + 1] - 1; owned                          (C + 2)
} FactIndex;

static EsStatus make_index(const EsKnowledgeGraph *graph, int by_b, FactIndex *index) {
    size_t n_rows = (size_t)graph->n_constants + 2;
    int32_t *next = NULL;
    ES_TRY(es_allocate((size_t)ES_MAX(graph->n_facts, 1) * sizeof *index->atoms,
                       (void **)&index->atoms));
    ES_TRY(es_allocate(n_rows * sizeof *index->row, (void **)&index->row));
    ES_TRY(es_allocate(n_rows * sizeof *next, (void **)&next));
    for (int32_t i = 0; i < graph->n_facts; i++) {
        index->row[(by_b ? graph->facts[i].b : graph->facts[i].a) + 1]++;
    }
    for (int32_t x = 0; x <= graph->n_constants; x++) {
        index->row[x + 1] += index->row[x];
        next[x] = index->row[x];
    }
    for (int32_t i = 0; i < graph->n_facts; i++) {
        index->atoms[next[by_b ? graph->facts[i].b : graph->facts[i].a]++] = graph->facts[i];
    }
    es_release(next);
    return ES_STATUS_OK;
}

// --- one thread ---

// Inner constants of a way along two relations.
typedef struct Way {
    int32_t z, w;
} Way;

// R = 2P relations. Row t of the counts is the body that goes on along relation t, row R the body
// that ends before.
typedef struct Counter {
    int64_t *n_given; //                                                                 (R + 1)
    int32_t *support; //                                                         (R + 1 x P + 1)
    uint32_t *stamps; // of the ends y seen                                              (C + 1)
    uint32_t stamp;
    Way *ways; // of the x at hand
    int64_t n_ways, ways_capacity;
    int64_t *keys; // of constants: (relation, d) of every x of a head
    int64_t n_keys, keys_capacity;
    EsPathRule *rules; // found
    int64_t n_rules, rules_capacity;
    EsFirstError first_error;
} Counter;

typedef struct Work {
    const EsKnowledgeGraph *graph;
    const EsPathMinerSettings *settings;
    FactIndex by_a, by_b;
    // x with relation(x,z) for some z but x: leaving_row[r] to leaving_row[r + 1] - 1; owned
    int32_t *leaving;     //                                                     (2 n_facts at most)
    int32_t *leaving_row; //                                                                 (R + 1)
    int32_t n_relations;
    int64_t n_path_pieces, n_pieces;
    Counter *counters;
    atomic_llong n_done;
    atomic_int is_stopped;
} Work;

static EsStatus add_rule(const Work *work, Counter *counter, const EsPathRule *rule) {
    const EsPathMinerSettings *settings = work->settings;
    if (rule->support < settings->min_support ||
        (double)rule->support < settings->min_confidence * (double)rule->n_given) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_proof_array_grow((void **)&counter->rules, sizeof *counter->rules, counter->n_rules,
                               counter->n_rules + 1, &counter->rules_capacity));
    counter->rules[counter->n_rules++] = *rule;
    return ES_STATUS_OK;
}

// --- paths ---

static void begin_ends(const Work *work, Counter *counter) {
    if (++counter->stamp == 0) { // all stamps were used
        memset(counter->stamps, 0,
               ((size_t)work->graph->n_constants + 1) * sizeof *counter->stamps);
        counter->stamp = 1;
    }
}

static void add_end(Counter *counter, int32_t row, int32_t y) {
    if (counter->stamps[y] != counter->stamp) {
        counter->stamps[y] = counter->stamp;
        counter->n_given[row]++;
    }
}

// The facts of x that end where the body does.
static void count_support(const Work *work, Counter *counter, int32_t row, int32_t x) {
    size_t n_heads = (size_t)work->graph->n_predicates + 1;
    for (int32_t i = work->by_a.row[x]; i < work->by_a.row[x + 1]; i++) {
        EsAtom fact = work->by_a.atoms[i];
        counter->support[(size_t)row * n_heads + (size_t)fact.predicate] +=
            counter->stamps[fact.b] == counter->stamp;
    }
}

static void count_one_step(const Work *work, Counter *counter, int32_t first, int32_t x) {
    EsAtomSpan steps = es_path_facts_from(work->graph, first, x);
    begin_ends(work, counter);
    for (int32_t i = 0; i < steps.count; i++) {
        int32_t y = es_path_other_end(first, steps.atoms[i]);
        if (y != x) {
            add_end(counter, work->n_relations, y);
        }
    }
    count_support(work, counter, work->n_relations, x);
}

static EsStatus list_ways(const Work *work, Counter *counter, int32_t first, int32_t second,
                          int32_t x) {
    EsAtomSpan steps = es_path_facts_from(work->graph, first, x);
    counter->n_ways = 0;
    for (int32_t i = 0; i < steps.count; i++) {
        int32_t z = es_path_other_end(first, steps.atoms[i]);
        EsAtomSpan next = es_path_facts_from(work->graph, second, z);
        if (z == x || next.count == 0) {
            continue;
        }
        ES_TRY(es_proof_array_grow((void **)&counter->ways, sizeof *counter->ways, counter->n_ways,
                                   counter->n_ways + next.count, &counter->ways_capacity));
        for (int32_t k = 0; k < next.count; k++) {
            int32_t w = es_path_other_end(second, next.atoms[k]);
            if (w != x && w != z) {
                counter->ways[counter->n_ways++] = (Way){z, w};
            }
        }
    }
    return ES_STATUS_OK;
}

static void count_third_step(const Work *work, Counter *counter, int32_t third, int32_t x) {
    int64_t n_before = counter->n_given[third];
    begin_ends(work, counter);
    for (int64_t i = 0; i < counter->n_ways; i++) {
        Way way = counter->ways[i];
        EsAtomSpan steps = es_path_facts_from(work->graph, third, way.w);
        for (int32_t k = 0; k < steps.count; k++) {
            int32_t y = es_path_other_end(third, steps.atoms[k]);
            if (y != x && y != way.z && y != way.w) {
                add_end(counter, third, y);
            }
        }
    }
    if (counter->n_given[third] > n_before) {
        count_support(work, counter, third, x);
    }
}

static EsStatus count_more_steps(const Work *work, Counter *counter, int32_t first, int32_t second,
                                 int32_t x) {
    ES_TRY(list_ways(work, counter, first, second, x));
    if (counter->n_ways == 0) {
        return ES_STATUS_OK;
    }
    begin_ends(work, counter);
    for (int64_t i = 0; i < counter->n_ways; i++) {
        add_end(counter, work->n_relations, counter->ways[i].w);
    }
    count_support(work, counter, work->n_relations, x);
    for (int32_t third = 0; third < work->n_relations && work->settings->max_steps > 2; third++) {
        count_third_step(work, counter, third, x);
    }
    return ES_STATUS_OK;
}

// Take the rules of one row and clear it. second is -1 for bodies of one step.
static EsStatus take_row(const Work *work, Counter *counter, int32_t first, int32_t second,
                         int32_t row) {
    int32_t n_predicates = work->graph->n_predicates;
    int32_t *support = counter->support + (size_t)row * ((size_t)n_predicates + 1);
    int is_longer = row < work->n_relations;
    EsPathRule rule = {.n_steps = second < 0 ? 1 : 2 + is_longer,
                       .relations = {first, second, is_longer ? row : -1},
                       .n_given = counter->n_given[row]};
    for (int32_t h = 1; h <= n_predicates && rule.n_given > 0; h++) {
        rule.head = h;
        rule.support = support[h];
        int is_itself = second < 0 && first == 2 * (h - 1);
        ES_TRY(is_itself ? ES_STATUS_OK : add_rule(work, counter, &rule));
        support[h] = 0;
    }
    counter->n_given[row] = 0;
    return ES_STATUS_OK;
}

static EsStatus mine_paths(const Work *work, Counter *counter, int32_t first, int32_t second) {
    for (int32_t i = work->leaving_row[first]; i < work->leaving_row[first + 1]; i++) {
        int32_t x = work->leaving[i];
        if (second < 0) {
            count_one_step(work, counter, first, x);
        } else {
            ES_TRY(count_more_steps(work, counter, first, second, x));
        }
    }
    for (int32_t t = 0; t <= work->n_relations; t++) {
        ES_TRY(take_row(work, counter, first, second, t));
    }
    return ES_STATUS_OK;
}

// --- constants ---

static int compare_keys(const void *left, const void *right) {
    const int64_t *x = left, *y = right;
    return (*x > *y) - (*x < *y);
}

// Add (relation, d) for every fact relation(x,d), and (relation, 0) once for every relation.
static EsStatus add_keys(const Work *work, Counter *counter, int32_t x, int32_t fixed) {
    int64_t base = (int64_t)work->graph->n_constants + 1;
    for (int is_reversed = 0; is_reversed < 2; is_reversed++) {
        const FactIndex *index = is_reversed ? &work->by_b : &work->by_a;
        int32_t begin = index->row[x], end = index->row[x + 1], last = -1;
        ES_TRY(es_proof_array_grow((void **)&counter->keys, sizeof *counter->keys, counter->n_keys,
                                   counter->n_keys + 2 * (int64_t)(end - begin),
                                   &counter->keys_capacity));
        for (int32_t i = begin; i < end; i++) {
            int32_t relation = 2 * (index->atoms[i].predicate - 1) + is_reversed;
            int32_t d = es_path_other_end(relation, index->atoms[i]);
            if (d == x || d == fixed) {
                continue;
            }
            counter->keys[counter->n_keys++] = relation * base + d;
            // an index has the facts of one predicate side by side
            if (relation != last) {
                counter->keys[counter->n_keys++] = relation * base;
                last = relation;
            }
        }
    }
    return ES_STATUS_OK;
}

// Constants x, other than `fixed`, that the body relation(x,end) gives.
static int64_t count_given(const Work *work, int32_t relation, int32_t end, int32_t fixed) {
    const EsKnowledgeGraph *graph = work->graph;
    EsAtomSpan facts = es_path_facts_from(graph, relation ^ 1, end != 0 ? end : fixed);
    if (end != 0) {
        return facts.count - es_path_has_step(graph, relation, fixed, end) -
               es_path_has_step(graph, relation, end, end);
    }
    // all that leave, less `fixed` and those that only lead there
    int64_t n_given = (int64_t)work->leaving_row[relation + 1] - work->leaving_row[relation] -
                      es_path_leaves(graph, relation, fixed, fixed);
    for (int32_t i = 0; i < facts.count; i++) {
        int32_t x = es_path_other_end(relation ^ 1, facts.atoms[i]);
        n_given -= x != fixed && !es_path_leaves(graph, relation, x, fixed);
    }
    return n_given;
}

static EsStatus take_keys(const Work *work, Counter *counter, int32_t head, int is_fixed_a,
                          int32_t fixed) {
    int64_t base = (int64_t)work->graph->n_constants + 1;
    if (counter->n_keys > 0) {
        qsort(counter->keys, (size_t)counter->n_keys, sizeof *counter->keys, compare_keys);
    }
    for (int64_t i = 0, next; i < counter->n_keys; i = next) {
        for (next = i + 1; next < counter->n_keys && counter->keys[next] == counter->keys[i];
             next++) {
        }
        if (next - i < work->settings->min_support) {
            continue;
        }
        int32_t relation = (int32_t)(counter->keys[i] / base);
        EsPathRule rule = {.head = head,
                           .n_steps = 1,
                           .relations = {relation, -1, -1},
                           .fixed = fixed,
                           .is_fixed_a = is_fixed_a,
                           .end = (int32_t)(counter->keys[i] % base),
                           .support = (int32_t)(next - i)};
        rule.n_given = count_given(work, relation, rule.end, fixed);
        ES_TRY(add_rule(work, counter, &rule));
    }
    return ES_STATUS_OK;
}

// All rules with this head and a constant as its first or second argument.
static EsStatus mine_constants(const Work *work, Counter *counter, int32_t head, int is_fixed_a) {
    const EsKnowledgeGraph *graph = work->graph;
    int32_t relation = 2 * (head - 1) + !is_fixed_a; // from the constant to the x
    for (int32_t fixed = 1; fixed <= graph->n_constants; fixed++) {
        EsAtomSpan facts = es_path_facts_from(graph, relation, fixed);
        if (facts.count < work->settings->min_support) {
            continue;
        }
        counter->n_keys = 0;
        for (int32_t i = 0; i < facts.count; i++) {
            int32_t x = es_path_other_end(relation, facts.atoms[i]);
            if (x != fixed) {
                ES_TRY(add_keys(work, counter, x, fixed));
            }
        }
        ES_TRY(take_keys(work, counter, head, is_fixed_a, fixed));
    }
    return ES_STATUS_OK;
}

// --- all pieces ---

static EsStatus mine_piece(const Work *work, Counter *counter, int64_t piece) {
    int32_t n_seconds = work->settings->max_steps > 1 ? work->n_relations + 1 : 1;
    if (piece >= work->n_path_pieces) {
        int64_t number = piece - work->n_path_pieces;
        return mine_constants(work, counter, (int32_t)(1 + number / 2), (int)(number % 2));
    }
    return mine_paths(work, counter, (int32_t)(piece / n_seconds),
                      (int32_t)(piece % n_seconds) - 1);
}

static void take_piece(void *context, int64_t piece, int worker) {
    Work *work = context;
    const EsPathMinerSettings *settings = work->settings;
    Counter *counter = &work->counters[worker];
    if (settings->should_stop != NULL && settings->should_stop(settings->context)) {
        atomic_store(&work->is_stopped, 1);
    }
    if (counter->first_error.status == ES_STATUS_OK && !atomic_load(&work->is_stopped)) {
        es_first_error_capture(&counter->first_error, mine_piece(work, counter, piece));
    }
    int64_t n_done = atomic_fetch_add(&work->n_done, 1) + 1;
    // worker 0 is the calling thread
    if (worker == 0 && settings->report != NULL) {
        settings->report(settings->context, n_done, work->n_pieces);
    }
}

static int compare_rules(const void *left, const void *right) {
    const EsPathRule *x = left, *y = right;
    const int32_t of_x[] = {x->head,         x->fixed != 0,   x->n_steps,
                            x->relations[0], x->relations[1], x->relations[2],
                            x->is_fixed_a,   x->fixed,        x->end};
    const int32_t of_y[] = {y->head,         y->fixed != 0,   y->n_steps,
                            y->relations[0], y->relations[1], y->relations[2],
                            y->is_fixed_a,   y->fixed,        y->end};
    for (size_t i = 0; i < ES_COUNT_OF(of_x); i++) {
        if (of_x[i] != of_y[i]) {
            return of_x[i] < of_y[i] ? -1 : 1;
        }
    }
    return 0;
}

static EsStatus gather(const Work *work, int n_threads, EsPathRules *rules) {
    int64_t count = 0;
    for (int w = 0; w < n_threads; w++) {
        ES_TRY(es_first_error_rethrow(&work->counters[w].first_error));
        count += work->counters[w].n_rules;
    }
    if (count > INT32_MAX) {
        return ES_FAIL(ARGUMENT, "%lld rules; ask for more support or confidence",
                       (long long)count);
    }
    size_t n_starts = (size_t)work->graph->n_predicates + 2;
    ES_TRY(es_allocate((size_t)ES_MAX(count, 1) * sizeof *rules->items, (void **)&rules->items));
    ES_TRY(es_allocate(n_starts * sizeof *rules->start, (void **)&rules->start));
    for (int w = 0; w < n_threads; w++) {
        const Counter *counter = &work->counters[w];
        for (int64_t i = 0; i < counter->n_rules; i++) {
            const EsPathRule *rule = &counter->rules[i];
            rules->items[rules->count++] = *rule;
            rules->n_paths[rule->fixed != 0 ? 0 : rule->n_steps]++;
            rules->start[rule->head + 1]++;
        }
    }
    // no two compare equal, so the order does not depend on the threads
    qsort(rules->items, (size_t)rules->count, sizeof *rules->items, compare_rules);
    for (size_t p = 1; p < n_starts; p++) {
        rules->start[p] += rules->start[p - 1];
    }
    return ES_STATUS_OK;
}

// --- memory ---

static EsStatus make_counter(const Work *work, Counter *counter) {
    size_t n_rows = (size_t)work->n_relations + 1;
    size_t n_cells = n_rows * ((size_t)work->graph->n_predicates + 1);
    ES_TRY(es_allocate(n_rows * sizeof *counter->n_given, (void **)&counter->n_given));
    ES_TRY(es_allocate(n_cells * sizeof *counter->support, (void **)&counter->support));
    return es_allocate(((size_t)work->graph->n_constants + 1) * sizeof *counter->stamps,
                       (void **)&counter->stamps);
}

// Count the x of every relation, or list them behind leaving_row, which they move on.
static void visit_leaving(Work *work, int is_listing) {
    for (int is_reversed = 0; is_reversed < 2; is_reversed++) {
        const FactIndex *index = is_reversed ? &work->by_b : &work->by_a;
        for (int32_t x = 1; x <= work->graph->n_constants; x++) {
            int32_t last = -1;
            for (int32_t i = index->row[x]; i < index->row[x + 1]; i++) {
                int32_t relation = 2 * (index->atoms[i].predicate - 1) + is_reversed;
                if (relation == last || es_path_other_end(relation, index->atoms[i]) == x) {
                    continue;
                }
                last = relation;
                if (is_listing) {
                    work->leaving[work->leaving_row[relation]++] = x;
                } else {
                    work->leaving_row[relation + 1]++;
                }
            }
        }
    }
}

static EsStatus list_leaving(Work *work) {
    size_t n_rows = (size_t)work->n_relations + 1;
    ES_TRY(es_allocate(n_rows * sizeof *work->leaving_row, (void **)&work->leaving_row));
    ES_TRY(es_allocate((2 * (size_t)work->graph->n_facts + 1) * sizeof *work->leaving,
                       (void **)&work->leaving));
    visit_leaving(work, 0);
    for (size_t r = 1; r < n_rows; r++) {
        work->leaving_row[r] += work->leaving_row[r - 1];
    }
    visit_leaving(work, 1);
    // every row now begins where the next one did
    memmove(work->leaving_row + 1, work->leaving_row, (n_rows - 1) * sizeof *work->leaving_row);
    work->leaving_row[0] = 0;
    return ES_STATUS_OK;
}

static EsStatus begin_work(Work *work, int n_threads) {
    int64_t n = work->n_relations;
    work->n_path_pieces = work->settings->max_steps > 1 ? n * (n + 1) : n;
    work->n_pieces = work->n_path_pieces + (work->settings->finds_constants ? n : 0);
    ES_TRY(make_index(work->graph, 0, &work->by_a));
    ES_TRY(make_index(work->graph, 1, &work->by_b));
    ES_TRY(list_leaving(work));
    ES_TRY(es_allocate((size_t)n_threads * sizeof *work->counters, (void **)&work->counters));
    for (int w = 0; w < n_threads; w++) {
        ES_TRY(make_counter(work, &work->counters[w]));
    }
    return ES_STATUS_OK;
}

static void end_work(Work *work, int n_threads) {
    for (int w = 0; w < n_threads && work->counters != NULL; w++) {
        Counter *counter = &work->counters[w];
        es_release(counter->n_given);
        es_release(counter->support);
        es_release(counter->stamps);
        es_release(counter->ways);
        es_release(counter->keys);
        es_release(counter->rules);
    }
    es_release(work->counters);
    es_release(work->leaving);
    es_release(work->leaving_row);
    es_release(work->by_a.atoms);
    es_release(work->by_a.row);
    es_release(work->by_b.atoms);
    es_release(work->by_b.row);
}

static EsStatus check_settings(const EsPathMinerSettings *settings) {
    if (settings->min_support < 1 ||
        !(settings->min_confidence >= 0 && settings->min_confidence <= 1) ||
        settings->max_steps < 1 || settings->max_steps > ES_PATH_MAX_STEPS) {
        return ES_FAIL(ARGUMENT,
                       "mining paths with support %d, confidence %g, %d steps: expected support "
                       "from 1, confidence 0 to 1, 1 to %d steps",
                       settings->min_support, settings->min_confidence, settings->max_steps,
                       ES_PATH_MAX_STEPS);
    }
    return ES_STATUS_OK;
}

// Notes for the rules whose text depends on it which predicates have a fact p(u,u).
static EsStatus note_loops(const EsKnowledgeGraph *graph, EsPathRules *rules) {
    unsigned char *has_loop = NULL;
    ES_TRY(es_allocate((size_t)graph->n_predicates + 1, (void **)&has_loop));
    for (int32_t i = 0; i < graph->n_facts; i++) {
        has_loop[graph->facts[i].predicate] |= graph->facts[i].a == graph->facts[i].b;
    }
    for (int32_t i = 0; i < rules->count; i++) {
        EsPathRule *rule = &rules->items[i];
        if (rule->fixed != 0 && rule->end == 0) {
            rule->has_loop = has_loop[rule->relations[0] / 2 + 1];
        }
    }
    es_release(has_loop);
    return ES_STATUS_OK;
}

EsStatus es_path_rules_mine(const EsKnowledgeGraph *graph, const EsPathMinerSettings *settings,
                            EsThreadPool *pool, EsPathRules *rules) {
    memset(rules, 0, sizeof *rules);
    ES_TRY(check_settings(settings));
    int n_threads = es_thread_pool_size(pool);
    Work work = {.graph = graph, .settings = settings, .n_relations = 2 * graph->n_predicates};
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(begin_work(&work, n_threads));
    es_thread_pool_run(pool, work.n_pieces, take_piece, &work);
    if (atomic_load(&work.is_stopped)) {
        status = ES_FAIL(INTERRUPTED, "mining was stopped; no rules are kept");
        goto done;
    }
    ES_TRY_GOTO(gather(&work, n_threads, rules));
    ES_TRY_GOTO(note_loops(graph, rules));
done:
    end_work(&work, n_threads);
    if (status != ES_STATUS_OK) {
        es_path_rules_destroy(rules);
    }
    return status;
}

void es_path_rules_destroy(EsPathRules *rules) {
    es_release(rules->items);
    es_release(rules->start);
    memset(rules, 0, sizeof *rules);
}

// --- text ---

// In quotes where it has anything but letters, digits and underscores.
static void add_predicate(EsTextOut *text, const char *name) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    if (name[strspn(name, plain)] != '\0' || strcmp(name, "not") == 0) {
        es_text_out_add_quoted(text, name);
    } else {
        es_text_out_add_text(text, name);
    }
}

// A constant, always in quotes, or a variable by its letter.
typedef struct Term {
    int32_t constant; // 0: a variable
    const char *variable;
} Term;

static void add_term(EsTextOut *text, const EsKnowledgeGraph *graph, Term term) {
    if (term.constant != 0) {
        es_text_out_add_quoted(text, graph->constant_names[term.constant]);
    } else {
        es_text_out_add_text(text, term.variable);
    }
}

static void add_atom(EsTextOut *text, const EsKnowledgeGraph *graph, int32_t predicate, Term a,
                     Term b) {
    add_predicate(text, graph->predicate_names[predicate]);
    es_text_out_add_text(text, "(");
    add_term(text, graph, a);
    es_text_out_add_text(text, ",");
    add_term(text, graph, b);
    es_text_out_add_text(text, ")");
}

static void add_step(EsTextOut *text, const EsKnowledgeGraph *graph, int32_t relation, Term u,
                     Term v) {
    add_atom(text, graph, relation / 2 + 1, relation % 2 ? v : u, relation % 2 ? u : v);
}

static void add_unequal(EsTextOut *text, const EsKnowledgeGraph *graph, int is_needed, Term u,
                        Term v) {
    if (is_needed) {
        es_text_out_add_text(text, ", ");
        add_term(text, graph, u);
        es_text_out_add_text(text, " != ");
        add_term(text, graph, v);
    }
}

// With the inequalities that the facts make a difference to.
static void add_fixed(EsTextOut *text, const EsKnowledgeGraph *graph, const EsPathRule *rule) {
    Term x = {0, rule->is_fixed_a ? "y" : "x"}, end = {rule->end, "z"}, fixed = {rule->fixed, NULL};
    int32_t r = rule->relations[0];
    add_step(text, graph, r, x, end);
    if (rule->end != 0) {
        add_unequal(text, graph, es_path_has_step(graph, r, rule->fixed, rule->end), x, fixed);
        add_unequal(text, graph,
                    rule->end != rule->fixed && es_path_has_step(graph, r, rule->end, rule->end), x,
                    end);
    } else {
        add_unequal(text, graph, es_path_facts_from(graph, r, rule->fixed).count > 0, x, fixed);
        add_unequal(text, graph, rule->has_loop, end, x);
        add_unequal(text, graph, es_path_facts_from(graph, r ^ 1, rule->fixed).count > 0, end,
                    fixed);
    }
    es_text_out_add_text(text, " -> ");
    add_atom(text, graph, rule->head, rule->is_fixed_a ? fixed : x, rule->is_fixed_a ? x : fixed);
}

int es_path_rule_format(const EsKnowledgeGraph *graph, const EsPathRule *rule, char *text,
                        size_t bytes) {
    static const char *const places[ES_PATH_MAX_STEPS][ES_PATH_MAX_STEPS + 1] = {
        {"x", "y", "", ""}, {"x", "z", "y", ""}, {"x", "z", "w", "y"}};
    EsTextOut out = {text, bytes, 0};
    if (rule->fixed != 0) {
        add_fixed(&out, graph, rule);
        return es_text_out_end(&out);
    }
    for (int32_t k = 0; k < rule->n_steps; k++) {
        const char *const *place = places[rule->n_steps - 1] + k;
        es_text_out_add_text(&out, k > 0 ? ", " : "");
        add_step(&out, graph, rule->relations[k], (Term){0, place[0]}, (Term){0, place[1]});
    }
    es_text_out_add_text(&out, " -> ");
    add_atom(&out, graph, rule->head, (Term){0, "x"}, (Term){0, "y"});
    return es_text_out_end(&out);
}
