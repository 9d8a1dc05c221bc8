// A worker owns a prover or a search and asks it about one candidate after the other; depth and
// log-probability become a score as the kind says. Counts are kept per worker and summed on demand.
#include "proof/ranking/ranking_scorers.h"

#include "base/memory.h"

const char *const es_score_kind_names[ES_N_SCORE_KINDS] = {"proved", "shortest", "probability",
                                                           "evidence"};

// taken off a candidate without a proof, as in the evaluation this follows (DeepProofLog)
#define UNPROVED_PENALTY 100.0

typedef struct Worker {
    EsProver *prover; // owned; one of the two
    EsProofSearch *search;
    EsScorerReport report;
} Worker;

struct EsProofScorer {
    const EsKnowledgeGraph *graph; // borrowed
    EsScoreKind kind;
    int n_workers;
    Worker *workers; // owned
};

static double make_score(EsScoreKind kind, int32_t depth, double log_probability) {
    int is_proved = depth > 0;
    switch (kind) {
    case ES_SCORE_PROVED:
        return is_proved;
    case ES_SCORE_SHORTEST:
        return is_proved ? -(double)depth : (double)INT32_MIN;
    default:
        return log_probability - (is_proved ? 0 : UNPROVED_PENALTY);
    }
}

static EsStatus score_by_prover(const EsProofScorer *scorer, Worker *worker,
                                const EsAtom *candidate, EsCandidateScore *score) {
    EsProverAnswer answer;
    ES_TRY(es_prover_find_depth(worker->prover, candidate, &answer));
    score->met_limit = answer.depth == ES_PROVER_DEPTH_UNKNOWN;
    score->depth = score->met_limit ? ES_KG_DEPTH_NONE : answer.depth;
    score->score = make_score(scorer->kind, score->depth, 0);
    worker->report.n_expanded += answer.n_expanded;
    worker->report.n_overlong += answer.n_overlong;
    return ES_STATUS_OK;
}

static EsStatus score_by_search(const EsProofScorer *scorer, Worker *worker,
                                const EsAtom *candidate, EsCandidateScore *score) {
    EsProofAnswer answer;
    ES_TRY(es_proof_search_find(worker->search, candidate, &answer));
    score->met_limit = !answer.is_proved && (answer.met_expanded || answer.met_entries);
    score->depth = answer.depth;
    score->score =
        make_score(scorer->kind, score->depth,
                   scorer->kind == ES_SCORE_EVIDENCE ? answer.evidence : answer.log_probability);
    worker->report.n_expanded += answer.n_expanded;
    worker->report.n_overlong += answer.n_overlong;
    worker->report.n_overflow += answer.n_overflow;
    return ES_STATUS_OK;
}

static EsStatus score_candidates(void *context, int worker_index, const EsAtom *candidates,
                                 int32_t count, EsCandidateScore *scores) {
    EsProofScorer *scorer = context;
    Worker *worker = &scorer->workers[worker_index];
    int n_cells = es_kg_cells(scorer->graph, candidates->predicate);
    for (int32_t i = 0; i < count; i++, candidates += n_cells) {
        ES_TRY(worker->prover != NULL ? score_by_prover(scorer, worker, candidates, &scores[i])
                                      : score_by_search(scorer, worker, candidates, &scores[i]));
        worker->report.n_candidates++;
        worker->report.n_proved += scores[i].depth > 0;
        worker->report.n_limited += scores[i].met_limit != 0;
    }
    return ES_STATUS_OK;
}

static EsStatus create_scorer(const EsKnowledgeGraph *graph, EsScoreKind kind, int n_workers,
                              EsProofScorer **scorer) {
    void *memory;
    ES_TRY(es_allocate(sizeof **scorer, &memory));
    EsProofScorer *made = memory;
    made->graph = graph;
    made->kind = kind;
    made->n_workers = n_workers;
    EsStatus status = es_allocate((size_t)n_workers * sizeof *made->workers, &memory);
    if (status != ES_STATUS_OK) {
        es_release(made);
        return status;
    }
    made->workers = memory;
    *scorer = made;
    return ES_STATUS_OK;
}

EsStatus es_proof_scorer_create_prover(const EsKnowledgeGraph *graph,
                                       const EsProverSettings *settings, EsScoreKind kind,
                                       int n_workers, EsProofScorer **scorer) {
    EsProofScorer *made = NULL;
    *scorer = NULL;
    if (kind >= ES_SCORE_PROBABILITY) {
        return ES_FAIL(ARGUMENT, "scores by %s need a search, not the prover",
                       es_score_kind_names[kind]);
    }
    ES_TRY(create_scorer(graph, kind, n_workers, &made));
    for (int w = 0; w < n_workers; w++) {
        EsStatus status = es_prover_create(graph, settings, &made->workers[w].prover);
        if (status != ES_STATUS_OK) {
            es_proof_scorer_destroy(made);
            return status;
        }
    }
    *scorer = made;
    return ES_STATUS_OK;
}

EsStatus es_proof_scorer_create_search(const EsKnowledgeGraph *graph,
                                       const EsProofSearchSettings *settings,
                                       const EsProofGuide *guides, EsScoreKind kind, int n_workers,
                                       EsProofScorer **scorer) {
    EsProofScorer *made = NULL;
    EsProofSearchSettings own = *settings;
    own.finds_all |= kind == ES_SCORE_EVIDENCE;
    *scorer = NULL;
    ES_TRY(create_scorer(graph, kind, n_workers, &made));
    for (int w = 0; w < n_workers; w++) {
        const EsProofGuide *guide = guides != NULL ? &guides[w] : NULL;
        EsStatus status = es_proof_search_create(graph, &own, guide, &made->workers[w].search);
        if (status != ES_STATUS_OK) {
            es_proof_scorer_destroy(made);
            return status;
        }
    }
    *scorer = made;
    return ES_STATUS_OK;
}

void es_proof_scorer_destroy(EsProofScorer *scorer) {
    if (scorer == NULL) {
        return;
    }
    for (int w = 0; w < scorer->n_workers; w++) {
        es_prover_destroy(scorer->workers[w].prover);
        es_proof_search_destroy(scorer->workers[w].search);
    }
    es_release(scorer->workers);
    es_release(scorer);
}

EsCandidateScorer es_proof_scorer_candidates(EsProofScorer *scorer) {
    EsCandidateScorer candidates = {.context = scorer, .score = score_candidates};
    return candidates;
}

EsScorerReport es_proof_scorer_report(const EsProofScorer *scorer) {
    EsScorerReport sum = {0};
    for (int w = 0; w < scorer->n_workers; w++) {
        const EsScorerReport *report = &scorer->workers[w].report;
        sum.n_candidates += report->n_candidates;
        sum.n_proved += report->n_proved;
        sum.n_limited += report->n_limited;
        sum.n_expanded += report->n_expanded;
        sum.n_overlong += report->n_overlong;
        sum.n_overflow += report->n_overflow;
    }
    return sum;
}

void es_proof_scorer_reset_report(EsProofScorer *scorer) {
    for (int w = 0; w < scorer->n_workers; w++) {
        scorer->workers[w].report = (EsScorerReport){0};
    }
}
