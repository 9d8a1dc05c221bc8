#include "proof/ranking/ranking_summary.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

// side of a summary over both
#define BOTH_SIDES ES_N_CORRUPT_SIDES

// A query, by what it is grouped by.
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

// Over the queries of the members; `values` is room for one number each. `number` tells the draws
// of one bootstrap from those of another.
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

EsStatus es_ranking_summarise(EsRanking *ranking, const EsAtom *queries, const int32_t *depths,
                              uint64_t seed) {
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
        members[i].key = queries[members[i].query].predicate;
    }
    number += (uint32_t)ranking->n_depths;
    ES_TRY_GOTO(make_groups(ranking, members, seed, number, values, &ranking->by_predicate,
                            &ranking->n_predicates));
done:
    es_release(members);
    es_release(values);
    return status;
}
