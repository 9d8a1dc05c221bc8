// A worker lists the rules that fire for the candidates of a call (rule_firing.h) and turns each
// list into a score.
//
// The choice of thresholds and aggregation: for each smoothing the rules that fire for the queries
// and their corruptions are listed once, under the loosest thresholds, and every setting of the
// grid ranks by the part of the lists that it lets through. Sums run over the queries in order, so
// that they do not depend on the threads.
#include "proof/ranking/confidence_scorer.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/first_error.h"
#include "base/memory.h"
#include "proof/ranking/rule_firing.h"

const char *const es_confidence_aggregation_names[ES_N_CONFIDENCE_AGGREGATIONS] = {"max",
                                                                                   "noisy_or"};

// below the log-odds of any confidence
#define NOTHING_FIRES (-100.0)

EsConfidenceSettings es_confidence_defaults(void) {
    return (EsConfidenceSettings){.aggregation = ES_CONFIDENCE_NOISY_OR,
                                  .top = 5,
                                  .smoothing = 5,
                                  .min_support = 2,
                                  .min_confidence = 0.01,
                                  .max_steps = ES_PATH_MAX_STEPS};
}

// A candidate's list, for the order by max.
typedef struct Place {
    const EsFiringRule *rules;
    const int32_t *fired;
    int32_t n_fired, candidate;
} Place;

typedef struct Worker {
    EsFiring *firing; // owned
    Place *places;    // owned                                                   (n_places)
    int32_t n_places;
    int64_t n_candidates, n_fired;
} Worker;

struct EsConfidenceScorer {
    EsConfidenceSettings settings;
    EsFiringRules rules; // owned
    int gives_odds;
    int n_workers;
    Worker *workers; // owned
};

EsStatus es_confidence_scorer_create(const EsKnowledgeGraph *graph, const EsPathRules *rules,
                                     const EsConfidenceSettings *settings, int n_workers,
                                     EsConfidenceScorer **scorer) {
    *scorer = NULL;
    EsConfidenceScorer *made = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_allocate(sizeof *made, (void **)&made));
    made->settings = *settings;
    ES_TRY_GOTO(es_allocate((size_t)n_workers * sizeof *made->workers, (void **)&made->workers));
    made->n_workers = n_workers;
    ES_TRY_GOTO(es_firing_rules_create(graph, rules, settings, &made->rules));
    for (int w = 0; w < n_workers; w++) {
        ES_TRY_GOTO(es_firing_create(graph, &made->rules, &made->workers[w].firing));
    }
    *scorer = made;
    made = NULL;
done:
    es_confidence_scorer_destroy(made);
    return status;
}

void es_confidence_scorer_destroy(EsConfidenceScorer *scorer) {
    if (scorer == NULL) {
        return;
    }
    for (int w = 0; w < scorer->n_workers; w++) {
        es_firing_destroy(scorer->workers[w].firing);
        es_release(scorer->workers[w].places);
    }
    es_release(scorer->workers);
    es_firing_rules_destroy(&scorer->rules);
    es_release(scorer);
}

int32_t es_confidence_scorer_n_rules(const EsConfidenceScorer *scorer) {
    return scorer->rules.count;
}

// --- scores ---

// The logarithm of the odds of p = 1 - exp(-evidence): log(p / (1 - p)) = log(exp(evidence) - 1),
// without loss at either end.
static double log_odds(double evidence) {
    return evidence < 30 ? log(expm1(evidence)) : evidence + log1p(-exp(-evidence));
}

static double score_of(const EsConfidenceScorer *scorer, const int32_t *fired, int32_t n_fired) {
    const EsFiringRule *rules = scorer->rules.items;
    int32_t top = scorer->settings.top;
    if (n_fired == 0) {
        return NOTHING_FIRES;
    }
    if (scorer->settings.aggregation == ES_CONFIDENCE_MAX) {
        return log_odds(rules[fired[0]].evidence);
    }
    double evidence = 0;
    for (int32_t k = 0; k < n_fired && (top == 0 || k < top); k++) {
        evidence += rules[fired[k]].evidence;
    }
    return log_odds(evidence);
}

// Lists by confidence, the greater last; a list that goes on is greater than one that ends.
static int compare_lists(const Place *x, const Place *y) {
    int32_t n_both = ES_MIN(x->n_fired, y->n_fired);
    for (int32_t k = 0; k < n_both; k++) {
        double of_x = x->rules[x->fired[k]].confidence, of_y = y->rules[y->fired[k]].confidence;
        if (of_x != of_y) {
            return of_x < of_y ? -1 : 1;
        }
    }
    return (x->n_fired > y->n_fired) - (x->n_fired < y->n_fired);
}

static int compare_places(const void *left, const void *right) {
    const Place *x = left, *y = right;
    int order = compare_lists(x, y);
    return order != 0 ? order : (x->candidate > y->candidate) - (x->candidate < y->candidate);
}

// Scores are places in the order of all lists; equal lists have one place.
static EsStatus score_by_place(const EsConfidenceScorer *scorer, Worker *worker, int32_t count,
                               EsCandidateScore *scores) {
    const EsFiring *firing = worker->firing;
    if (worker->n_places < count) {
        es_release(worker->places);
        worker->places = NULL;
        worker->n_places = 0;
        ES_TRY(es_allocate((size_t)count * sizeof *worker->places, (void **)&worker->places));
        worker->n_places = count;
    }
    for (int32_t i = 0; i < count; i++) {
        worker->places[i] = (Place){scorer->rules.items, firing->fired + firing->start[i],
                                    firing->start[i + 1] - firing->start[i], i};
    }
    qsort(worker->places, (size_t)count, sizeof *worker->places, compare_places);
    int32_t place = 0;
    for (int32_t i = 0; i < count; i++) {
        place += i > 0 && compare_lists(&worker->places[i - 1], &worker->places[i]) != 0;
        scores[worker->places[i].candidate].score = place;
    }
    return ES_STATUS_OK;
}

static EsStatus score_candidates(void *context, int worker_index, const EsAtom *candidates,
                                 int32_t count, EsCandidateScore *scores) {
    const EsConfidenceScorer *scorer = context;
    Worker *worker = &scorer->workers[worker_index];
    const EsFiring *firing = worker->firing;
    ES_TRY(es_firing_gather(worker->firing, candidates, count));
    for (int32_t i = 0; i < count; i++) {
        const int32_t *fired = firing->fired + firing->start[i];
        int32_t n_fired = firing->start[i + 1] - firing->start[i];
        scores[i] = (EsCandidateScore){
            .score = score_of(scorer, fired, n_fired),
            .depth = n_fired > 0 ? scorer->rules.items[fired[0]].rule.n_steps : ES_KG_DEPTH_NONE};
        worker->n_fired += n_fired > 0;
    }
    worker->n_candidates += count;
    return scorer->settings.aggregation == ES_CONFIDENCE_MAX && !scorer->gives_odds
               ? score_by_place(scorer, worker, count, scores)
               : ES_STATUS_OK;
}

EsCandidateScorer es_confidence_scorer_candidates(EsConfidenceScorer *scorer, int gives_odds) {
    scorer->gives_odds = gives_odds;
    return (EsCandidateScorer){.context = scorer, .score = score_candidates};
}

void es_confidence_scorer_count(const EsConfidenceScorer *scorer, int64_t *n_candidates,
                                int64_t *n_fired) {
    *n_candidates = *n_fired = 0;
    for (int w = 0; w < scorer->n_workers; w++) {
        *n_candidates += scorer->workers[w].n_candidates;
        *n_fired += scorer->workers[w].n_fired;
    }
}

void es_confidence_scorer_reset_count(EsConfidenceScorer *scorer) {
    for (int w = 0; w < scorer->n_workers; w++) {
        scorer->workers[w].n_candidates = scorer->workers[w].n_fired = 0;
    }
}

EsStatus es_confidence_scorer_explain(EsConfidenceScorer *scorer, int worker, EsAtom atom,
                                      double *confidences, EsPathRule *fired, int32_t capacity,
                                      int32_t *count) {
    EsFiring *firing = scorer->workers[worker].firing;
    ES_TRY(es_firing_gather(firing, &atom, 1));
    *count = firing->start[1];
    for (int32_t k = 0; k < *count && k < capacity; k++) {
        const EsFiringRule *rule = &scorer->rules.items[firing->fired[k]];
        confidences[k] = rule->confidence;
        if (fired != NULL) {
            fired[k] = rule->rule;
        }
    }
    return ES_STATUS_OK;
}

// --- the choice ---

// the grid
static const double smoothings[] = {5, 20, 50};
static const int32_t supports[] = {2, 5, 10};
static const double confidences[] = {0.01, 0.05, 0.2};
static const int limits[] = {2, 3}; // on steps
// aggregations: max, then the noisy or of so many rules
static const int32_t tops[] = {3, 5, 10, 20, 0};

#define N_TOPS         ES_COUNT_OF(tops)
#define N_AGGREGATIONS (1 + N_TOPS)
#define N_FILTERS      (ES_COUNT_OF(supports) * ES_COUNT_OF(confidences) * ES_COUNT_OF(limits) * 2)

// one bit of a mask each
_Static_assert(N_FILTERS <= 64, "filters of the grid");

// The thresholds of one bit; the rest is `base`.
static EsConfidenceSettings filter_at(const EsConfidenceSettings *base, size_t bit) {
    EsConfidenceSettings settings = *base;
    settings.uses_constants = bit % 2 != 0;
    bit /= 2;
    settings.max_steps = limits[bit % ES_COUNT_OF(limits)];
    bit /= ES_COUNT_OF(limits);
    settings.min_confidence = confidences[bit % ES_COUNT_OF(confidences)];
    bit /= ES_COUNT_OF(confidences);
    settings.min_support = supports[bit];
    return settings;
}

static EsConfidenceSettings loosest(double smoothing) {
    return (EsConfidenceSettings){.smoothing = smoothing,
                                  .min_support = supports[0],
                                  .min_confidence = confidences[0],
                                  .max_steps = ES_PATH_MAX_STEPS,
                                  .uses_constants = 1};
}

// Scratch of one thread.
typedef struct Chooser {
    EsFiring *firing; // owned
    EsAtom *atoms;    // the query and its corruptions; owned
    EsFirstError first_error;
} Chooser;

typedef struct Choosing {
    const EsKnownAtoms *known;
    const EsRankingSettings *ranking;
    const EsAtom *queries;
    EsFiringRules rules; // of the smoothing at hand
    uint64_t *passes;    // by rule: bits of the filters that let it through; owned
    Chooser *workers;    // owned
    int n_workers;
    atomic_int n_done;   // queries, under all smoothings
    int32_t n_all;       // of them
    double *reciprocals; // by query, filter and aggregation; owned
} Choosing;

// --- one query ---

// The list of one candidate under one filter.
typedef struct List {
    const int32_t *fired;
    int32_t n_fired;
} List;

static List list_of(const EsFiring *firing, int32_t candidate) {
    return (List){firing->fired + firing->start[candidate],
                  firing->start[candidate + 1] - firing->start[candidate]};
}

// Evidence of the noisy or by number of rules.
static void add_up(const Choosing *c, List list, size_t bit, double evidence[N_TOPS]) {
    double sum = 0;
    int32_t n_passed = 0;
    size_t t = 0;
    for (int32_t k = 0; k < list.n_fired; k++) {
        if ((c->passes[list.fired[k]] >> bit & 1) != 0) {
            sum += c->rules.items[list.fired[k]].evidence;
            n_passed++;
            if (t + 1 < N_TOPS && n_passed == tops[t]) {
                evidence[t++] = sum;
            }
        }
    }
    for (; t < N_TOPS; t++) {
        evidence[t] = sum;
    }
}

// The confidence of the next rule that passes, from *k on; below 0 at the end.
static double next_confidence(const Choosing *c, List list, size_t bit, int32_t *k) {
    while (*k < list.n_fired) {
        int32_t rule = list.fired[(*k)++];
        if ((c->passes[rule] >> bit & 1) != 0) {
            return c->rules.items[rule].confidence;
        }
    }
    return -1;
}

// The order by max: above 0 when x comes before y.
static int compare_by_max(const Choosing *c, List x, List y, size_t bit) {
    int32_t of_x = 0, of_y = 0;
    for (;;) {
        double next_x = next_confidence(c, x, bit, &of_x);
        double next_y = next_confidence(c, y, bit, &of_y);
        if (next_x != next_y) {
            return next_x > next_y ? 1 : -1;
        }
        if (next_x < 0) {
            return 0;
        }
    }
}

// Adds the reciprocal ranks on one side, candidates `begin` to `end` - 1, by aggregation.
static void rank_side(const Choosing *c, const EsFiring *firing, int32_t begin, int32_t end,
                      size_t bit, double sums[N_AGGREGATIONS]) {
    int32_t n_better[N_AGGREGATIONS] = {0}, n_tied[N_AGGREGATIONS] = {0};
    double own[N_TOPS], other[N_TOPS];
    List query = list_of(firing, 0);
    add_up(c, query, bit, own);
    for (int32_t i = begin; i < end; i++) {
        List list = list_of(firing, i);
        int order = compare_by_max(c, list, query, bit);
        n_better[0] += order > 0;
        n_tied[0] += order == 0;
        add_up(c, list, bit, other);
        for (size_t t = 0; t < N_TOPS; t++) {
            n_better[1 + t] += other[t] > own[t];
            n_tied[1 + t] += other[t] == own[t];
        }
    }
    for (size_t a = 0; a < N_AGGREGATIONS; a++) {
        sums[a] += es_expected_reciprocal(n_better[a], n_tied[a]);
    }
}

static EsStatus rank_query(Choosing *c, Chooser *worker, int64_t number) {
    const EsRankingSettings *ranking = c->ranking;
    int32_t ends[ES_N_CORRUPT_SIDES + 1] = {1, 1, 1}, n_sides = 0;
    worker->atoms[0] = c->queries[number * es_known_atoms_graph(c->known)->query_cells];
    for (int side = 0; side < ES_N_CORRUPT_SIDES; side++) {
        ends[side + 1] = ends[side];
        if (ranking->uses_side[side]) {
            ends[side + 1] +=
                es_corruptions_list(c->known, &ranking->corruptions, worker->atoms, side,
                                    ranking->n_corruptions, worker->atoms + ends[side]);
        }
        n_sides += ends[side + 1] > ends[side];
    }
    ES_TRY(es_firing_gather(worker->firing, worker->atoms, ends[ES_N_CORRUPT_SIDES]));
    for (size_t bit = 0; bit < N_FILTERS; bit++) {
        double sums[N_AGGREGATIONS] = {0};
        for (int side = 0; side < ES_N_CORRUPT_SIDES; side++) {
            if (ends[side + 1] > ends[side]) {
                rank_side(c, worker->firing, ends[side], ends[side + 1], bit, sums);
            }
        }
        double *mine = c->reciprocals + ((size_t)number * N_FILTERS + bit) * N_AGGREGATIONS;
        for (size_t a = 0; a < N_AGGREGATIONS; a++) {
            mine[a] = sums[a] / ES_MAX(n_sides, 1);
        }
    }
    return ES_STATUS_OK;
}

static void rank_piece(void *context, int64_t piece, int worker_index) {
    Choosing *c = context;
    Chooser *worker = &c->workers[worker_index];
    if (worker->first_error.status == ES_STATUS_OK) {
        es_first_error_capture(&worker->first_error, rank_query(c, worker, piece));
    }
    int32_t n_done = atomic_fetch_add(&c->n_done, 1) + 1;
    // worker 0 is the calling thread
    if (worker_index == 0 && c->ranking->progress != NULL) {
        c->ranking->progress(c->ranking->progress_context, n_done, c->n_all);
    }
}

// --- one smoothing ---

static EsStatus begin_smoothing(Choosing *c, const EsKnowledgeGraph *graph,
                                const EsPathRules *mined, double smoothing) {
    EsConfidenceSettings base = loosest(smoothing);
    ES_TRY(es_firing_rules_create(graph, mined, &base, &c->rules));
    ES_TRY(es_allocate((size_t)ES_MAX(c->rules.count, 1) * sizeof *c->passes, (void **)&c->passes));
    for (size_t bit = 0; bit < N_FILTERS; bit++) {
        EsConfidenceSettings filter = filter_at(&base, bit);
        for (int32_t r = 0; r < c->rules.count; r++) {
            c->passes[r] |= (uint64_t)es_firing_rule_passes(&c->rules.items[r].rule, &filter)
                            << bit;
        }
    }
    for (int w = 0; w < c->n_workers; w++) {
        ES_TRY(es_firing_create(graph, &c->rules, &c->workers[w].firing));
    }
    return ES_STATUS_OK;
}

static void end_smoothing(Choosing *c) {
    for (int w = 0; w < c->n_workers && c->workers != NULL; w++) {
        es_firing_destroy(c->workers[w].firing);
        c->workers[w].firing = NULL;
    }
    es_release(c->passes);
    c->passes = NULL;
    es_firing_rules_destroy(&c->rules);
}

// Keeps the best of one smoothing when it is better than what was found before.
static void keep_best(const Choosing *c, int32_t count, double smoothing,
                      EsConfidenceSettings *settings, EsConfidenceChoice *choice) {
    EsConfidenceSettings base = loosest(smoothing);
    for (size_t bit = 0; bit < N_FILTERS; bit++) {
        for (size_t a = 0; a < N_AGGREGATIONS; a++) {
            EsConfidenceAggregation aggregation =
                a == 0 ? ES_CONFIDENCE_MAX : ES_CONFIDENCE_NOISY_OR;
            double sum = 0;
            for (int32_t i = 0; i < count; i++) {
                sum += c->reciprocals[((size_t)i * N_FILTERS + bit) * N_AGGREGATIONS + a];
            }
            if (choice->fixes_aggregation && aggregation != choice->aggregation) {
                continue;
            }
            choice->n_tried++;
            if (choice->n_tried == 1 || sum / count > choice->mrr) {
                choice->mrr = sum / count;
                *settings = filter_at(&base, bit);
                settings->aggregation = aggregation;
                settings->top = a == 0 ? 0 : tops[a - 1];
            }
        }
    }
}

static EsStatus make_workers(Choosing *c, int32_t count) {
    int32_t capacity = es_corruptions_capacity(c->known);
    if (c->ranking->n_corruptions > 0) {
        capacity = ES_MIN(capacity, c->ranking->n_corruptions);
    }
    size_t n_atoms = 1 + ES_N_CORRUPT_SIDES * (size_t)capacity;
    ES_TRY(es_allocate((size_t)count * N_FILTERS * N_AGGREGATIONS * sizeof *c->reciprocals,
                       (void **)&c->reciprocals));
    ES_TRY(es_allocate((size_t)c->n_workers * sizeof *c->workers, (void **)&c->workers));
    for (int w = 0; w < c->n_workers; w++) {
        ES_TRY(es_allocate(n_atoms * sizeof(EsAtom), (void **)&c->workers[w].atoms));
    }
    return ES_STATUS_OK;
}

EsStatus es_confidence_choose(const EsKnownAtoms *known, const EsKnowledgeGraph *graph,
                              const EsPathRules *rules, const EsRankingSettings *ranking,
                              EsThreadPool *pool, const EsAtom *queries, int32_t count,
                              EsConfidenceSettings *settings, EsConfidenceChoice *choice) {
    ES_ASSERT(count <= INT32_MAX / (int32_t)ES_COUNT_OF(smoothings));
    if (count < 1) {
        return ES_FAIL(ARGUMENT, "confidences: no queries to choose thresholds on");
    }
    Choosing c = {.known = known, .ranking = ranking, .queries = queries};
    c.n_workers = es_thread_pool_size(pool);
    c.n_all = (int32_t)ES_COUNT_OF(smoothings) * count;
    choice->n_tried = 0;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(make_workers(&c, count));
    for (size_t s = 0; s < ES_COUNT_OF(smoothings); s++) {
        ES_TRY_GOTO(begin_smoothing(&c, graph, rules, smoothings[s]));
        es_thread_pool_run(pool, count, rank_piece, &c);
        for (int w = 0; w < c.n_workers; w++) {
            ES_TRY_GOTO(es_first_error_rethrow(&c.workers[w].first_error));
        }
        keep_best(&c, count, smoothings[s], settings, choice);
        end_smoothing(&c);
    }
done:
    end_smoothing(&c);
    for (int w = 0; w < c.n_workers && c.workers != NULL; w++) {
        es_release(c.workers[w].atoms);
    }
    es_release(c.workers);
    es_release(c.reciprocals);
    return status;
}
