// The fit is a search over a grid: first one set of weights for all predicates, then, for each
// predicate with enough questions, a set of its own, chosen on one half of its questions and tried
// on the other, both ways.
#include "proof/ranking/fusion.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "proof/ranking/ranking.h"

// fewer questions than this say nothing of a predicate
#define MIN_QUESTIONS 20

// the grid: gain of a proof of one step over none, cost of each further step, weight of
// log-probabilities, all in units of w
static const float gains[] = {0, 0.125f, 0.25f, 0.5f, 0.75f, 1, 1.5f, 2, 3, 4, 6, 8, 12, 16, 32};
static const float step_costs[] = {0, 0.125f, 0.25f, 0.5f, 1, 2, 4};
static const float log_weights[] = {0, 0.125f, 0.25f, 0.5f, 1, 2, 4};

EsFusionWeights es_fusion_defaults(void) {
    return (EsFusionWeights){.embedding = 2.0f, .bonus = 1.0f, .penalty = 0.5f};
}

EsStatus es_fusion_create(const EsKnowledgeGraph *graph, EsFusionWeights weights,
                          EsFusion **fusion) {
    *fusion = NULL;
    if (!(weights.embedding > 0) || !isfinite(weights.embedding) || !isfinite(weights.bonus) ||
        !isfinite(weights.penalty) || !isfinite(weights.per_step) ||
        !isfinite(weights.log_probability)) {
        return ES_FAIL(ARGUMENT,
                       "fusion: embedding %g, bonus %g, penalty %g, per step %g, log-probability "
                       "%g: all must be finite, the first above 0",
                       (double)weights.embedding, (double)weights.bonus, (double)weights.penalty,
                       (double)weights.per_step, (double)weights.log_probability);
    }
    size_t n_rows = (size_t)graph->n_predicates + 1;
    void *memory = NULL;
    ES_TRY(es_allocate(sizeof(EsFusion), &memory));
    EsFusion *made = memory;
    EsStatus status = ES_STATUS_OK;
    made->overall = weights;
    made->n_predicates = graph->n_predicates;
    ES_TRY_GOTO(es_allocate(n_rows * sizeof(EsFusionWeights), &memory));
    made->of_predicate = memory;
    ES_TRY_GOTO(es_allocate(n_rows, &memory));
    made->has_own = memory;
    for (size_t p = 0; p < n_rows; p++) {
        made->of_predicate[p] = weights;
    }
    *fusion = made;
    made = NULL;
done:
    es_fusion_destroy(made);
    return status;
}

void es_fusion_destroy(EsFusion *fusion) {
    if (fusion != NULL) {
        es_release(fusion->of_predicate);
        es_release(fusion->has_own);
        es_release(fusion);
    }
}

// --- scores ---

static double score_one(const EsFusionWeights *weights, const EsFusionEvidence *evidence,
                        int64_t i) {
    double score = (double)weights->embedding * (double)evidence->log_embedding[i];
    if (evidence->depth[i] < 0) {
        return score - (double)weights->penalty;
    }
    score += (double)weights->bonus;
    score -= (double)weights->per_step * ES_MAX(evidence->depth[i] - 1, 0);
    if (evidence->log_probability != NULL) {
        score += (double)weights->log_probability * (double)evidence->log_probability[i];
    }
    return score;
}

void es_fusion_score(const EsFusion *fusion, int32_t predicate, const EsFusionEvidence *evidence,
                     int32_t count, double *score) {
    ES_ASSERT(predicate >= 1 && predicate <= fusion->n_predicates);
    for (int32_t i = 0; i < count; i++) {
        score[i] = score_one(&fusion->of_predicate[predicate], evidence, i);
    }
}

// --- the fit ---

// The expected reciprocal rank of a question's first candidate, ties in random order.
static double reciprocal_rank(const EsFusionWeights *weights, const EsFusionQuestions *questions,
                              int32_t question) {
    int64_t begin = questions->first[question], end = questions->first[question + 1];
    double own = score_one(weights, &questions->evidence, begin);
    int32_t n_better = 0, n_equal = 0;
    for (int64_t i = begin + 1; i < end; i++) {
        double other = score_one(weights, &questions->evidence, i);
        n_better += other > own;
        n_equal += other == own;
    }
    return es_expected_reciprocal(n_better, n_equal);
}

// Some of the questions: `count` of a list, from `begin` in steps of `step`.
typedef struct Subset {
    const EsFusionQuestions *questions;
    const int32_t *list;
    int32_t count, begin, step;
} Subset;

static double sum_ranks(const EsFusionWeights *weights, const Subset *subset) {
    double sum = 0;
    for (int32_t i = subset->begin; i < subset->count; i += subset->step) {
        sum += reciprocal_rank(weights, subset->questions, subset->list[i]);
    }
    return sum;
}

// The best weights of the grid; of equals the first, whose proofs weigh least.
static EsFusionWeights choose_weights(EsFusionWeights start, const Subset *subset) {
    size_t n_logs =
        subset->questions->evidence.log_probability != NULL ? ES_COUNT_OF(log_weights) : 1;
    EsFusionWeights best = start;
    double best_sum = -1;
    for (size_t g = 0; g < ES_COUNT_OF(gains); g++) {
        for (size_t s = 0; s < ES_COUNT_OF(step_costs); s++) {
            for (size_t l = 0; l < n_logs; l++) {
                EsFusionWeights weights = start;
                weights.bonus = start.embedding * gains[g] - start.penalty;
                weights.per_step = start.embedding * step_costs[s];
                weights.log_probability = start.embedding * log_weights[l];
                double sum = sum_ranks(&weights, subset);
                if (sum > best_sum) {
                    best_sum = sum;
                    best = weights;
                }
            }
        }
    }
    return best;
}

// Returns whether weights chosen on one half of a predicate's questions serve the other half.
static int holds_up(EsFusionWeights overall, Subset subset) {
    double gained = 0;
    subset.step = 2;
    for (int32_t half = 0; half < 2; half++) {
        Subset chosen_on = subset, tried_on = subset;
        chosen_on.begin = half;
        tried_on.begin = 1 - half;
        EsFusionWeights own = choose_weights(overall, &chosen_on);
        double gain = sum_ranks(&own, &tried_on) - sum_ranks(&overall, &tried_on);
        if (gain < 0) {
            return 0;
        }
        gained += gain;
    }
    return gained > 0;
}

static double mean_after(const EsFusion *fusion, const EsFusionQuestions *questions) {
    double sum = 0;
    for (int32_t i = 0; i < questions->count; i++) {
        sum += reciprocal_rank(&fusion->of_predicate[questions->predicate[i]], questions, i);
    }
    return sum / questions->count;
}

EsStatus es_fusion_fit(EsFusion *fusion, const EsFusionQuestions *questions,
                       EsFusionReport *report) {
    memset(report, 0, sizeof *report);
    if (questions->count < 1) {
        return ES_FAIL(ARGUMENT, "fusion: no questions to fit the weights on");
    }
    void *memory = NULL;
    ES_TRY(es_allocate((size_t)questions->count * sizeof(int32_t), &memory));
    int32_t *list = memory;
    for (int32_t i = 0; i < questions->count; i++) {
        list[i] = i;
    }
    Subset all = {questions, list, questions->count, 0, 1};
    const EsFusionWeights embedding = {.embedding = 1};
    report->mrr_embedding = sum_ranks(&embedding, &all) / questions->count;
    report->mrr_before = mean_after(fusion, questions);
    fusion->overall = choose_weights(fusion->overall, &all);
    report->mrr_overall = sum_ranks(&fusion->overall, &all) / questions->count;
    for (int32_t p = 1; p <= fusion->n_predicates; p++) {
        Subset own = {questions, list, 0, 0, 1};
        for (int32_t i = 0; i < questions->count; i++) {
            if (questions->predicate[i] == p) {
                list[own.count++] = i;
            }
        }
        fusion->has_own[p] = own.count >= MIN_QUESTIONS && holds_up(fusion->overall, own);
        fusion->of_predicate[p] =
            fusion->has_own[p] ? choose_weights(fusion->overall, &own) : fusion->overall;
        report->n_own += fusion->has_own[p];
    }
    report->mrr_after = mean_after(fusion, questions);
    es_release(memory);
    return ES_STATUS_OK;
}
