// Candidates with the query's first argument a are the ends of walks from a, those with its second
// argument b of walks from b, the other way round. A walk visits no constant twice. What it reaches
// is noted by rule, and a counting sort makes one list per candidate of it.
#include "proof/ranking/rule_firing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "proof/search/proof_array.h"

typedef struct EsFiringEntry {
    int32_t candidate, rule;
} EsFiringEntry;

// --- the rules ---

int es_firing_rule_passes(const EsPathRule *rule, const EsConfidenceSettings *settings) {
    return rule->support >= settings->min_support &&
           es_path_rule_confidence(rule, settings->smoothing) >= settings->min_confidence &&
           (rule->fixed != 0 ? settings->uses_constants : rule->n_steps <= settings->max_steps);
}

// qsort is not stable: rules of one confidence keep their order by their place in the list mined.
typedef struct SortedRule {
    double confidence;
    int32_t head, number;
} SortedRule;

static int compare_sorted(const void *left, const void *right) {
    const SortedRule *x = left, *y = right;
    if (x->head != y->head) {
        return x->head < y->head ? -1 : 1;
    }
    if (x->confidence != y->confidence) {
        return x->confidence > y->confidence ? -1 : 1;
    }
    return (x->number > y->number) - (x->number < y->number);
}

EsStatus es_firing_rules_create(const EsKnowledgeGraph *graph, const EsPathRules *mined,
                                const EsConfidenceSettings *settings, EsFiringRules *rules) {
    memset(rules, 0, sizeof *rules);
    size_t n_mined = (size_t)ES_MAX(mined->count, 1), n_starts = (size_t)graph->n_predicates + 2;
    SortedRule *sorted = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_allocate(n_mined * sizeof *sorted, (void **)&sorted));
    ES_TRY_GOTO(es_allocate(n_mined * sizeof *rules->items, (void **)&rules->items));
    ES_TRY_GOTO(es_allocate(n_starts * sizeof *rules->start, (void **)&rules->start));
    for (int32_t i = 0; i < mined->count; i++) {
        const EsPathRule *rule = &mined->items[i];
        if (es_firing_rule_passes(rule, settings)) {
            double confidence = es_path_rule_confidence(rule, settings->smoothing);
            sorted[rules->count++] = (SortedRule){confidence, rule->head, i};
            rules->start[rule->head + 1]++;
        }
    }
    qsort(sorted, (size_t)rules->count, sizeof *sorted, compare_sorted);
    for (int32_t i = 0; i < rules->count; i++) {
        rules->items[i] = (EsFiringRule){.rule = mined->items[sorted[i].number],
                                         .confidence = sorted[i].confidence,
                                         .evidence = -log1p(-sorted[i].confidence)};
    }
    for (size_t p = 1; p < n_starts; p++) {
        rules->start[p] += rules->start[p - 1];
    }
done:
    es_release(sorted);
    if (status != ES_STATUS_OK) {
        es_firing_rules_destroy(rules);
    }
    return status;
}

void es_firing_rules_destroy(EsFiringRules *rules) {
    es_release(rules->items);
    es_release(rules->start);
    memset(rules, 0, sizeof *rules);
}

// --- memory ---

EsStatus es_firing_create(const EsKnowledgeGraph *graph, const EsFiringRules *rules,
                          EsFiring **firing) {
    *firing = NULL;
    EsFiring *made = NULL;
    size_t n_constants = (size_t)graph->n_constants + 1;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_allocate(sizeof *made, (void **)&made));
    made->graph = graph;
    made->rules = rules;
    ES_TRY_GOTO(es_allocate(n_constants * sizeof *made->slots, (void **)&made->slots));
    ES_TRY_GOTO(es_allocate(n_constants * sizeof *made->slot_stamps, (void **)&made->slot_stamps));
    ES_TRY_GOTO(es_allocate(n_constants * sizeof *made->end_stamps, (void **)&made->end_stamps));
    *firing = made;
    made = NULL;
done:
    es_firing_destroy(made);
    return status;
}

void es_firing_destroy(EsFiring *firing) {
    if (firing != NULL) {
        es_release(firing->start);
        es_release(firing->fired);
        es_release(firing->entries);
        es_release(firing->slots);
        es_release(firing->slot_stamps);
        es_release(firing->end_stamps);
        es_release(firing);
    }
}

// The next stamp of an array of them; all are cleared when the numbers are used up.
static uint32_t next_stamp(const EsFiring *firing, uint32_t stamp, uint32_t *stamps) {
    if (stamp == UINT32_MAX) {
        memset(stamps, 0, ((size_t)firing->graph->n_constants + 1) * sizeof *stamps);
        stamp = 0;
    }
    return stamp + 1;
}

// --- one rule ---

static int is_candidate(const EsFiring *firing, int32_t constant) {
    return firing->slot_stamps[constant] == firing->side;
}

// The rule fires for the candidate that has this constant, if one has.
static void reach(EsFiring *firing, int32_t rule, int32_t constant) {
    if (!is_candidate(firing, constant) || firing->end_stamps[constant] == firing->reached) {
        return;
    }
    firing->end_stamps[constant] = firing->reached;
    if (firing->status == ES_STATUS_OK) {
        firing->status = es_proof_array_grow((void **)&firing->entries, sizeof *firing->entries,
                                             firing->n_entries, firing->n_entries + 1,
                                             &firing->entries_capacity);
    }
    if (firing->status == ES_STATUS_OK) {
        firing->entries[firing->n_entries++] = (EsFiringEntry){firing->slots[constant], rule};
    }
}

// A path at work.
typedef struct Walk {
    int32_t rule, n_steps;
    int32_t relations[ES_PATH_MAX_STEPS];
    int32_t way[ES_PATH_MAX_STEPS]; // constants passed, from the first on
} Walk;

// Returns whether the way up to step k has not passed the constant.
static int is_new(const Walk *walk, int32_t k, int32_t constant) {
    for (int32_t i = 0; i <= k; i++) {
        if (walk->way[i] == constant) {
            return 0;
        }
    }
    return 1;
}

// Take step k and all that follow it.
static void go_on(EsFiring *firing, Walk *walk, int32_t k) {
    if (k >= ES_PATH_MAX_STEPS) {
        return;
    }
    int32_t relation = walk->relations[k];
    EsAtomSpan steps = es_path_facts_from(firing->graph, relation, walk->way[k]);
    for (int32_t i = 0; i < steps.count; i++) {
        int32_t next = es_path_other_end(relation, steps.atoms[i]);
        if (!is_new(walk, k, next)) {
            continue;
        }
        if (k + 1 < walk->n_steps && k + 1 < ES_PATH_MAX_STEPS) {
            walk->way[k + 1] = next;
            go_on(firing, walk, k + 1);
        } else {
            reach(firing, walk->rule, next);
        }
    }
}

static void fire_path(EsFiring *firing, int32_t number, const EsPathRule *rule, int is_tail,
                      int32_t bound) {
    Walk walk = {.rule = number, .n_steps = rule->n_steps, .way = {bound}};
    for (int32_t k = 0; k < rule->n_steps; k++) {
        walk.relations[k] =
            is_tail ? rule->relations[k] : rule->relations[rule->n_steps - 1 - k] ^ 1;
    }
    go_on(firing, &walk, 0);
}

// Returns whether the body of a rule with constants gives x.
static int gives(const EsFiring *firing, const EsPathRule *rule, int32_t x) {
    if (rule->end == 0) {
        return es_path_leaves(firing->graph, rule->relations[0], x, rule->fixed);
    }
    return x != rule->end && es_path_has_step(firing->graph, rule->relations[0], x, rule->end);
}

static void fire_constant(EsFiring *firing, int32_t number, const EsPathRule *rule, int is_tail,
                          int32_t bound) {
    if (is_tail != rule->is_fixed_a) { // the candidate has the rule's constant, `bound` is x
        if (is_candidate(firing, rule->fixed) && bound != rule->fixed &&
            gives(firing, rule, bound)) {
            reach(firing, number, rule->fixed);
        }
        return;
    }
    if (bound != rule->fixed) {
        return;
    }
    if (rule->end != 0) {
        EsAtomSpan facts = es_path_facts_from(firing->graph, rule->relations[0] ^ 1, rule->end);
        for (int32_t i = 0; i < facts.count; i++) {
            int32_t x = es_path_other_end(rule->relations[0] ^ 1, facts.atoms[i]);
            if (x != bound && x != rule->end) {
                reach(firing, number, x);
            }
        }
        return;
    }
    for (int32_t i = 0; i < firing->n_candidates; i++) {
        int32_t x = is_tail ? firing->candidates[i].b : firing->candidates[i].a;
        if (x != bound && is_candidate(firing, x) && gives(firing, rule, x)) {
            reach(firing, number, x);
        }
    }
}

// --- one query ---

// All rules from one side; `takes_query` puts the query among the candidates of this one.
static void fire_side(EsFiring *firing, int is_tail, int takes_query) {
    EsAtom query = firing->candidates[0];
    int32_t bound = is_tail ? query.a : query.b;
    firing->side = next_stamp(firing, firing->side, firing->slot_stamps);
    for (int32_t i = takes_query ? 0 : 1; i < firing->n_candidates; i++) {
        EsAtom atom = firing->candidates[i];
        if ((is_tail ? atom.a : atom.b) == bound) {
            int32_t constant = is_tail ? atom.b : atom.a;
            firing->slots[constant] = i;
            firing->slot_stamps[constant] = firing->side;
        }
    }
    for (int32_t r = firing->rules->start[query.predicate];
         r < firing->rules->start[query.predicate + 1]; r++) {
        const EsPathRule *rule = &firing->rules->items[r].rule;
        firing->reached = next_stamp(firing, firing->reached, firing->end_stamps);
        if (rule->fixed != 0) {
            fire_constant(firing, r, rule, is_tail, bound);
        } else {
            fire_path(firing, r, rule, is_tail, bound);
        }
    }
}

// Rules were taken in ascending order from each side, and a candidate is on one side alone.
static EsStatus sort_entries(EsFiring *firing) {
    int32_t count = firing->n_candidates;
    ES_TRY(es_proof_array_grow((void **)&firing->start, sizeof *firing->start, 0,
                               (int64_t)count + 2, &firing->start_capacity));
    ES_TRY(es_proof_array_grow((void **)&firing->fired, sizeof *firing->fired, 0,
                               firing->n_entries + 1, &firing->fired_capacity));
    memset(firing->start, 0, ((size_t)count + 2) * sizeof *firing->start);
    // start[i + 1] is where list i goes on, and in the end where it ends
    for (int64_t k = 0; k < firing->n_entries; k++) {
        firing->start[firing->entries[k].candidate + 2]++;
    }
    for (int32_t i = 0; i <= count; i++) {
        firing->start[i + 1] += firing->start[i];
    }
    for (int64_t k = 0; k < firing->n_entries; k++) {
        firing->fired[firing->start[firing->entries[k].candidate + 1]++] = firing->entries[k].rule;
    }
    return ES_STATUS_OK;
}

EsStatus es_firing_gather(EsFiring *firing, const EsAtom *candidates, int32_t count) {
    int n_sides[2] = {0, 0}; // head, tail
    ES_ASSERT(count >= 1);
    for (int32_t i = 1; i < count; i++) {
        int is_tail = candidates[i].a == candidates[0].a;
        ES_ASSERT(is_tail != (candidates[i].b == candidates[0].b));
        n_sides[is_tail]++;
    }
    firing->candidates = candidates;
    firing->n_candidates = count;
    firing->n_entries = 0;
    firing->status = ES_STATUS_OK;
    int is_query_tail = n_sides[1] > 0 || n_sides[0] == 0;
    for (int is_tail = 0; is_tail < 2; is_tail++) {
        if (n_sides[is_tail] > 0 || is_tail == is_query_tail) {
            fire_side(firing, is_tail, is_tail == is_query_tail);
        }
    }
    ES_TRY(firing->status);
    if (firing->n_entries > INT32_MAX) {
        return ES_FAIL(ARGUMENT, "%lld rules fire for the candidates of one query, at most %d",
                       (long long)firing->n_entries, INT32_MAX);
    }
    return sort_entries(firing);
}
