#include "proof/ranking/fusion_scorer.h"

#include "base/memory.h"

// Scratch of one thread: what is known of the candidates of one call.
typedef struct Worker {
    float *log_embedding;   // (max_candidates)
    float *log_probability; // (max_candidates)
    int32_t *depth;         // (max_candidates)
    double *fused;          // (max_candidates)
} Worker;

struct EsFusionScorer {
    const EsEmbeddingModel *model; // borrowed
    EsFusion *fusion;              // borrowed
    EsFusionProofs proofs;
    int32_t max_candidates;
    int n_workers;
    Worker *workers; // owned
};

static EsStatus make_worker(Worker *worker, size_t max_candidates) {
    const struct {
        void **at;
        size_t bytes;
    } members[] = {
        {(void **)&worker->log_embedding, sizeof *worker->log_embedding},
        {(void **)&worker->depth, sizeof *worker->depth},
        {(void **)&worker->log_probability, sizeof *worker->log_probability},
        {(void **)&worker->fused, sizeof *worker->fused},
    };
    for (size_t i = 0; i < ES_COUNT_OF(members); i++) {
        ES_TRY(es_allocate(max_candidates * members[i].bytes, members[i].at));
    }
    return ES_STATUS_OK;
}

int32_t es_fusion_scorer_candidates_of(const EsKnownAtoms *known,
                                       const EsRankingSettings *settings) {
    int32_t most = es_corruptions_capacity(known);
    if (settings->n_corruptions > 0) {
        most = ES_MIN(most, settings->n_corruptions);
    }
    return 1 + ES_N_CORRUPT_SIDES * most;
}

EsStatus es_fusion_scorer_create(const EsEmbeddingModel *model, EsFusion *fusion,
                                 const EsFusionProofs *proofs, int n_workers,
                                 int32_t max_candidates, EsFusionScorer **scorer) {
    *scorer = NULL;
    void *memory = NULL;
    ES_TRY(es_allocate(sizeof(EsFusionScorer), &memory));
    EsFusionScorer *made = memory;
    *made = (EsFusionScorer){.model = model, .fusion = fusion, .proofs = *proofs};
    made->max_candidates = max_candidates;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_allocate((size_t)n_workers * sizeof(Worker), &memory));
    made->workers = memory;
    made->n_workers = n_workers;
    for (int w = 0; w < n_workers; w++) {
        ES_TRY_GOTO(make_worker(&made->workers[w], (size_t)max_candidates));
    }
    *scorer = made;
    made = NULL;
done:
    es_fusion_scorer_destroy(made);
    return status;
}

void es_fusion_scorer_destroy(EsFusionScorer *scorer) {
    if (scorer == NULL) {
        return;
    }
    for (int w = 0; w < scorer->n_workers; w++) {
        Worker *worker = &scorer->workers[w];
        es_release(worker->log_embedding);
        es_release(worker->depth);
        es_release(worker->log_probability);
        es_release(worker->fused);
    }
    es_release(scorer->workers);
    es_release(scorer);
}

EsFusion *es_fusion_scorer_weights(EsFusionScorer *scorer) { return scorer->fusion; }

int es_fusion_scorer_gives_probability(const EsFusionScorer *scorer) {
    return scorer->proofs.gives_probability;
}

// --- evidence ---

EsStatus es_fusion_scorer_gather(EsFusionScorer *scorer, int worker_index, const EsAtom *candidates,
                                 int32_t count, EsCandidateScore *scores,
                                 EsFusionEvidence *evidence) {
    Worker *worker = &scorer->workers[worker_index];
    const EsCandidateScorer *proofs = &scorer->proofs.scorer;
    ES_ASSERT(count >= 1 && count <= scorer->max_candidates);
    if (proofs->score != NULL) {
        ES_TRY(proofs->score(proofs->context, worker_index, candidates, count, scores));
    }
    for (int32_t i = 0; i < count; i++) {
        if (proofs->score == NULL) {
            scores[i] = (EsCandidateScore){.depth = ES_KG_DEPTH_NONE};
        }
        worker->depth[i] = scores[i].depth;
        worker->log_probability[i] = (float)scores[i].score;
    }
    worker->log_embedding[0] = 0;
    for (int32_t i = 1, end; i < count; i = end) {
        int is_head = candidates[i].a != candidates[0].a;
        for (end = i + 1; end < count && (candidates[end].a != candidates[0].a) == is_head; end++) {
        }
        es_embedding_model_ratios(scorer->model, is_head ? ES_CORRUPT_HEAD : ES_CORRUPT_TAIL,
                                  candidates[0], candidates + i, end - i,
                                  worker->log_embedding + i);
    }
    *evidence =
        (EsFusionEvidence){worker->log_embedding, worker->depth,
                           scorer->proofs.gives_probability ? worker->log_probability : NULL};
    return ES_STATUS_OK;
}

static EsStatus score_candidates(void *context, int worker_index, const EsAtom *candidates,
                                 int32_t count, EsCandidateScore *scores) {
    EsFusionScorer *scorer = context;
    Worker *worker = &scorer->workers[worker_index];
    EsFusionEvidence evidence;
    ES_TRY(es_fusion_scorer_gather(scorer, worker_index, candidates, count, scores, &evidence));
    es_fusion_score(scorer->fusion, candidates[0].predicate, &evidence, count, worker->fused);
    for (int32_t i = 0; i < count; i++) {
        scores[i].score = worker->fused[i];
    }
    return ES_STATUS_OK;
}

EsCandidateScorer es_fusion_scorer_candidates(EsFusionScorer *scorer) {
    EsCandidateScorer candidates = {.context = scorer, .score = score_candidates};
    return candidates;
}
