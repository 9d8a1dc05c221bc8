// A worker lists the rules that fire for the candidates of a call (rule_firing.h) and turns each
// list into a score.
#include "proof/ranking/confidence_scorer.h"

#include <math.h>
#include <stdlib.h>

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
