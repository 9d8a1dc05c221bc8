// Threads take one query at a time: list its corruptions, score them with the query, count better
// and tied ones. All sums and the bootstrap run afterwards on the calling thread, in the order of
// the queries.
#include "proof/ranking/ranking.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/first_error.h"
#include "base/memory.h"

const int32_t es_hits_at[ES_N_HITS] = {1, 3, 10};

// queries per thread between two looks for a failure
#define ROUND_PER_THREAD 16

// --- ranks ---

double es_expected_reciprocal(int32_t n_better, int32_t n_tied) {
    double sum = 0;
    for (int32_t i = n_tied + 1; i >= 1; i--) { // the smallest terms first
        sum += 1.0 / ((double)n_better + i);
    }
    return sum / ((double)n_tied + 1);
}

EsExpectedRank es_expected_rank(int32_t n_better, int32_t n_tied) {
    EsExpectedRank expected = {.reciprocal = es_expected_reciprocal(n_better, n_tied)};
    double n_places = (double)n_tied + 1;
    for (int i = 0; i < ES_N_HITS; i++) {
        double n_hits = ES_MAX((double)es_hits_at[i] - (double)n_better, 0.0);
        expected.hits[i] = ES_MIN(n_hits, n_places) / n_places;
    }
    return expected;
}

int32_t es_ranking_choose(int32_t count, int32_t n, int is_spaced, int32_t *numbers) {
    int32_t n_chosen = n == 0 || n > count ? count : n;
    int32_t stride = is_spaced && n_chosen > 0 ? count / n_chosen : 1;
    for (int32_t i = 0; i < n_chosen; i++) {
        // above half of them every stride is 1, and steps of one and two alternate instead
        numbers[i] =
            is_spaced && stride == 1 ? (int32_t)((int64_t)i * count / n_chosen) : i * stride;
    }
    return n_chosen;
}

// --- the figures ---

// side of a summary over both
#define BOTH_SIDES ES_N_CORRUPT_SIDES

// A query with the key of its group.
typedef struct Member {
    int32_t key, query;
} Member;

static int compare_members(const void *left, const void *right) {
    const Member *x = left, *y = right;
    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    return (x->query > y->query) - (x->query < y->query);
}

// Add a query's ranks on one side, or on both. Returns 0 when it has no negatives there.
static int add_query(const EsQueryRank *rank, int side, EsRankingSummary *summary,
                     EsExpectedRank *sum, double *reciprocal) {
    int32_t n_negatives = 0;
    int first = side == BOTH_SIDES ? 0 : side;
    int last = side == BOTH_SIDES ? BOTH_SIDES - 1 : side;
    for (int s = first; s <= last; s++) {
        n_negatives += rank->n_negatives[s];
        summary->n_negatives += rank->n_negatives[s];
        summary->n_negatives_proved += rank->n_negatives_proved[s];
        summary->n_negatives_limited += rank->n_negatives_limited[s];
    }
    if (n_negatives == 0) {
        return 0;
    }
    const EsExpectedRank *expected = side == BOTH_SIDES ? &rank->mean : &rank->sides[side];
    summary->n_queries++;
    summary->n_proved += rank->positive.depth > 0;
    summary->n_limited += rank->positive.met_limit != 0;
    *reciprocal = expected->reciprocal;
    for (int i = 0; i < ES_N_HITS; i++) {
        sum->hits[i] += expected->hits[i];
    }
    return 1;
}

// Over the queries of the members; `values` is room for one number each. `number` keeps the
// draws of one bootstrap apart from those of another.
static EsStatus summarise(const EsRanking *ranking, const Member *members, int32_t n_members,
                          int side, uint64_t seed, uint32_t number, double *values,
                          EsRankingSummary *summary) {
    EsExpectedRank sum = {0};
    memset(summary, 0, sizeof *summary);
    for (int32_t i = 0; i < n_members; i++) {
        const EsQueryRank *rank = &ranking->queries[members[i].query];
        add_query(rank, side, summary, &sum, &values[summary->n_queries]);
    }
    if (summary->n_queries == 0) {
        return ES_STATUS_OK;
    }
    for (int i = 0; i < ES_N_HITS; i++) {
        summary->hits[i] = sum.hits[i] / summary->n_queries;
    }
    return es_bootstrap_mean(values, summary->n_queries, sizeof *values, seed, number,
                             &summary->reciprocal);
}

// Groups of neighbouring members with the same key.
static EsStatus make_groups(const EsRanking *ranking, Member *members, uint64_t seed,
                            uint32_t number, double *values, EsRankingGroup **groups,
                            int32_t *n_groups) {
    int32_t count = ranking->n_queries;
    qsort(members, (size_t)count, sizeof *members, compare_members);
    *n_groups = 0;
    for (int32_t i = 0; i < count; i++) {
        *n_groups += i == 0 || members[i].key != members[i - 1].key;
    }
    void *memory;
    ES_TRY(es_allocate((size_t)*n_groups * sizeof **groups, &memory));
    *groups = memory;
    for (int32_t begin = 0, g = 0; begin < count; g++) {
        int32_t end = begin;
        while (end < count && members[end].key == members[begin].key) {
            end++;
        }
        (*groups)[g].key = members[begin].key;
        ES_TRY(summarise(ranking, members + begin, end - begin, BOTH_SIDES, seed,
                         number + (uint32_t)g, values, &(*groups)[g].summary));
        begin = end;
    }
    return ES_STATUS_OK;
}

// Fill everything but `queries`; depths as in es_ranking_create.
static EsStatus summarise_all(EsRanking *ranking, const EsKnowledgeGraph *graph,
                              const EsAtom *queries, const int32_t *depths, uint64_t seed) {
    int32_t count = ranking->n_queries;
    Member *members = NULL;
    double *values = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_allocate((size_t)count * sizeof *members, (void **)&members));
    ES_TRY_GOTO(es_allocate((size_t)count * sizeof *values, (void **)&values));
    for (int32_t i = 0; i < count; i++) {
        members[i].key = depths != NULL ? depths[i] : ranking->queries[i].positive.depth;
        members[i].query = i;
    }
    ES_TRY_GOTO(summarise(ranking, members, count, BOTH_SIDES, seed, 0, values, &ranking->all));
    ranking->n_without = count - ranking->all.n_queries;
    for (int side = 0; side < ES_N_CORRUPT_SIDES; side++) {
        ES_TRY_GOTO(summarise(ranking, members, count, side, seed, 1 + (uint32_t)side, values,
                              &ranking->sides[side]));
    }
    uint32_t number = 1 + ES_N_CORRUPT_SIDES;
    ES_TRY_GOTO(make_groups(ranking, members, seed, number, values, &ranking->by_depth,
                            &ranking->n_depths));
    for (int32_t i = 0; i < count; i++) {
        members[i].key = queries[(int64_t)members[i].query * graph->query_cells].predicate;
    }
    number += (uint32_t)ranking->n_depths;
    ES_TRY_GOTO(make_groups(ranking, members, seed, number, values, &ranking->by_predicate,
                            &ranking->n_predicates));
done:
    es_release(members);
    es_release(values);
    return status;
}

// --- one query ---

typedef struct Worker {
    EsAtom *candidates;       // the query, then the corruptions; owned
    EsCandidateScore *scores; // owned
    EsFirstError first_error;
} Worker;

typedef struct Work {
    const EsKnownAtoms *known;
    const EsRankingSettings *settings;
    const EsCandidateScorer *scorer;
    const EsAtom *queries;
    EsQueryRank *ranks;
    Worker *workers;
    int32_t begin, count; // first query of the round; of all queries
    atomic_int n_done;
} Work;

// Sum of ranks, to be divided by n.
typedef struct RankSum {
    EsExpectedRank sum;
    int n;
} RankSum;

static void add_rank(RankSum *sum, const EsExpectedRank *expected) {
    sum->sum.reciprocal += expected->reciprocal;
    for (int i = 0; i < ES_N_HITS; i++) {
        sum->sum.hits[i] += expected->hits[i];
    }
    sum->n++;
}

static EsExpectedRank mean_rank(const RankSum *sum) {
    EsExpectedRank mean = sum->sum;
    mean.reciprocal /= ES_MAX(sum->n, 1);
    for (int i = 0; i < ES_N_HITS; i++) {
        mean.hits[i] /= ES_MAX(sum->n, 1);
    }
    return mean;
}

// The query's rank among the corruptions of one place, of which there are some.
static EsExpectedRank rank_place(const EsCandidateScore *positive,
                                 const EsCandidateScore *negatives, int32_t n_negatives,
                                 EsCorruptSide side, EsQueryRank *rank) {
    int32_t n_better = 0, n_tied = 0;
    for (int32_t i = 0; i < n_negatives; i++) {
        n_better += negatives[i].score > positive->score;
        n_tied += negatives[i].score == positive->score;
        rank->n_negatives_proved[side] += negatives[i].depth > 0;
        rank->n_negatives_limited[side] += negatives[i].met_limit != 0;
    }
    rank->n_negatives[side] += n_negatives;
    return es_expected_rank(n_better, n_tied);
}

static void rank_places(const EsCandidateScore *scores, const int32_t n_negatives[ES_KG_MAX_ARITY],
                        EsQueryRank *rank) {
    RankSum all = {.n = 0}, sides[ES_N_CORRUPT_SIDES] = {{.n = 0}};
    const EsCandidateScore *negatives = scores + 1;
    rank->positive = scores[0];
    for (int place = 0; place < ES_KG_MAX_ARITY; place++) {
        if (n_negatives[place] > 0) {
            EsCorruptSide side = es_corrupt_side(place);
            EsExpectedRank expected =
                rank_place(&scores[0], negatives, n_negatives[place], side, rank);
            add_rank(&sides[side], &expected);
            add_rank(&all, &expected);
            negatives += n_negatives[place];
        }
    }
    for (int side = 0; side < ES_N_CORRUPT_SIDES; side++) {
        rank->sides[side] = mean_rank(&sides[side]);
    }
    rank->mean = mean_rank(&all);
}

static EsStatus check_scores(const Work *work, const Worker *worker, int32_t count) {
    const EsKnowledgeGraph *graph = es_known_atoms_graph(work->known);
    size_t n_cells = (size_t)es_kg_cells(graph, worker->candidates[0].predicate);
    for (int32_t i = 0; i < count; i++) {
        if (isnan(worker->scores[i].score)) {
            char text[256];
            es_kg_format_atom(graph, worker->candidates + (size_t)i * n_cells, text, sizeof text);
            return ES_FAIL(NUMERIC, "the score of the candidate %s is not a number", text);
        }
    }
    return ES_STATUS_OK;
}

static EsStatus rank_query(const Work *work, Worker *worker, int worker_index, const EsAtom *query,
                           EsQueryRank *rank) {
    const EsRankingSettings *settings = work->settings;
    const EsKnowledgeGraph *graph = es_known_atoms_graph(work->known);
    size_t n_cells = (size_t)es_kg_cells(graph, query->predicate);
    int32_t n_negatives[ES_KG_MAX_ARITY] = {0}, count = 1;
    memcpy(worker->candidates, query, n_cells * sizeof *query);
    for (int place = 0; place < graph->arities[query->predicate]; place++) {
        if (settings->uses_side[es_corrupt_side(place)]) {
            n_negatives[place] = es_corruptions_list(work->known, &settings->corruptions, query,
                                                     place, settings->n_corruptions,
                                                     worker->candidates + (size_t)count * n_cells);
            count += n_negatives[place];
        }
    }
    ES_TRY(work->scorer->score(work->scorer->context, worker_index, worker->candidates, count,
                               worker->scores));
    ES_TRY(check_scores(work, worker, count));
    rank_places(worker->scores, n_negatives, rank);
    return ES_STATUS_OK;
}

static void rank_piece(void *context, int64_t piece, int worker_index) {
    Work *work = context;
    Worker *worker = &work->workers[worker_index];
    int64_t i = work->begin + piece;
    int64_t cells = es_known_atoms_graph(work->known)->query_cells;
    if (worker->first_error.status == ES_STATUS_OK) {
        es_first_error_capture(
            &worker->first_error,
            rank_query(work, worker, worker_index, work->queries + i * cells, &work->ranks[i]));
    }
    int32_t n_done = atomic_fetch_add(&work->n_done, 1) + 1;
    // worker 0 is the calling thread
    if (worker_index == 0 && work->settings->progress != NULL) {
        work->settings->progress(work->settings->progress_context, n_done, work->count);
    }
}

// --- all queries ---

static EsStatus make_worker(const Work *work, Worker *worker) {
    int32_t capacity = es_corruptions_capacity(work->known);
    if (work->settings->n_corruptions > 0) {
        capacity = ES_MIN(capacity, work->settings->n_corruptions);
    }
    const EsKnowledgeGraph *graph = es_known_atoms_graph(work->known);
    size_t n_places = graph->has_wide ? ES_KG_MAX_ARITY : 2, cells = (size_t)graph->query_cells;
    size_t n_candidates = 1 + n_places * (size_t)capacity;
    void *memory;
    ES_TRY(es_allocate(n_candidates * cells * sizeof *worker->candidates, &memory));
    worker->candidates = memory;
    ES_TRY(es_allocate(n_candidates * sizeof *worker->scores, &memory));
    worker->scores = memory;
    return ES_STATUS_OK;
}

static EsStatus rank_rounds(Work *work, EsThreadPool *pool, int32_t count) {
    int n_workers = es_thread_pool_size(pool);
    int32_t per_round = ROUND_PER_THREAD * n_workers;
    work->count = count;
    for (work->begin = 0; work->begin < count; work->begin += per_round) {
        int32_t n_pieces = ES_MIN(per_round, count - work->begin);
        es_thread_pool_run(pool, n_pieces, rank_piece, work);
        for (int w = 0; w < n_workers; w++) {
            ES_TRY(es_first_error_rethrow(&work->workers[w].first_error));
        }
    }
    return ES_STATUS_OK;
}

EsRankingSettings es_ranking_defaults(void) {
    EsRankingSettings settings = {.n_corruptions = 100, .uses_side = {1, 1}};
    return settings;
}

static EsStatus check_arguments(const EsRankingSettings *settings, int32_t count) {
    if (count < 1 || settings->n_corruptions < 0) {
        return ES_FAIL(ARGUMENT, "a ranking of %d queries against %d corruptions each", count,
                       settings->n_corruptions);
    }
    if (!settings->uses_side[ES_CORRUPT_HEAD] && !settings->uses_side[ES_CORRUPT_TAIL]) {
        return ES_FAIL(ARGUMENT,
                       "ranking: neither head nor tail is corrupted; at least one side is needed");
    }
    return ES_STATUS_OK;
}

EsStatus es_ranking_create(const EsKnownAtoms *known, const EsRankingSettings *settings,
                           const EsCandidateScorer *scorer, EsThreadPool *pool,
                           const EsAtom *queries, const int32_t *depths, int32_t count,
                           EsRanking **ranking) {
    *ranking = NULL;
    ES_TRY(check_arguments(settings, count));
    int n_workers = es_thread_pool_size(pool);
    Work work = {.known = known, .settings = settings, .scorer = scorer, .queries = queries};
    EsRanking *made = NULL;
    EsStatus status = ES_STATUS_OK;
    void *memory = NULL;
    ES_TRY_GOTO(es_allocate((size_t)n_workers * sizeof(Worker), &memory));
    work.workers = memory;
    for (int w = 0; w < n_workers; w++) {
        ES_TRY_GOTO(make_worker(&work, &work.workers[w]));
    }
    ES_TRY_GOTO(es_allocate(sizeof *made, &memory));
    made = memory;
    made->n_queries = count;
    ES_TRY_GOTO(es_allocate((size_t)count * sizeof *made->queries, &memory));
    made->queries = work.ranks = memory;
    ES_TRY_GOTO(rank_rounds(&work, pool, count));
    ES_TRY_GOTO(summarise_all(made, es_known_atoms_graph(known), queries, depths,
                              settings->corruptions.seed));
    *ranking = made;
    made = NULL;
done:
    for (int w = 0; w < n_workers && work.workers != NULL; w++) {
        es_release(work.workers[w].candidates);
        es_release(work.workers[w].scores);
    }
    es_release(work.workers);
    es_ranking_destroy(made);
    return status;
}

void es_ranking_destroy(EsRanking *ranking) {
    if (ranking == NULL) {
        return;
    }
    es_release(ranking->queries);
    es_release(ranking->by_depth);
    es_release(ranking->by_predicate);
    es_release(ranking);
}

static int is_wanted(const EsKnowledgeGraph *graph, const EsRankingChoice *choice, int32_t i) {
    int arity = graph->arities[es_kg_query(graph, choice->split, i)->predicate];
    return arity >= choice->min_arity && arity <= choice->max_arity;
}

int32_t es_ranking_count(const EsKnowledgeGraph *graph, const EsRankingChoice *choice) {
    int32_t count = 0;
    for (int32_t i = 0; i < graph->splits[choice->split].count; i++) {
        count += is_wanted(graph, choice, i);
    }
    return count;
}

EsStatus es_ranking_take(const EsKnowledgeGraph *graph, const EsRankingChoice *choice,
                         EsAtom **queries, int32_t *count) {
    const EsQuerySplit *split = &graph->splits[choice->split];
    size_t n_all = (size_t)ES_MAX(split->count, 1), cells = (size_t)graph->query_cells;
    int32_t *numbers = NULL, *chosen = NULL, n_wanted = 0;
    EsStatus status = ES_STATUS_OK;
    *queries = NULL;
    *count = 0;
    ES_TRY_GOTO(es_allocate(n_all * sizeof *numbers, (void **)&numbers));
    ES_TRY_GOTO(es_allocate(n_all * sizeof *chosen, (void **)&chosen));
    ES_TRY_GOTO(es_allocate(n_all * cells * sizeof **queries, (void **)queries));
    for (int32_t i = 0; i < split->count; i++) {
        if (is_wanted(graph, choice, i)) {
            numbers[n_wanted++] = i;
        }
    }
    *count = es_ranking_choose(n_wanted, choice->n, choice->is_spaced, chosen);
    for (int32_t i = 0; i < *count; i++) {
        memcpy(*queries + (size_t)i * cells, es_kg_query(graph, choice->split, numbers[chosen[i]]),
               cells * sizeof **queries);
    }
done:
    es_release(numbers);
    es_release(chosen);
    return status;
}
