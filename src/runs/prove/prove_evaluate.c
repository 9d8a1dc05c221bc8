// A ranking runs under a guard that asks before every call whether to give up. The comparison ranks
// the variants one after the other on the same queries and pairs their reciprocal ranks; its JSON
// is read back field by field, each checked against its range.
#include "runs/prove/prove_evaluate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/range_check.h"
#include "esper/log.h"
#include "proof/agent/proof_policy_inference.h"
#include "proof/search/prover.h"
#include "runs/prove/prove_events.h"

const char *es_prove_variant_name(EsProveVariantKind kind) {
    static const char *const names[] = {
#define X(NAME, name) #name,
        ES_PROVE_VARIANTS(X)
#undef X
    };
    return names[kind];
}

// --- one ranking ---

// A scorer that asks before each piece of work whether it is still wanted.
typedef struct Guard {
    const EsProveRanker *ranker;
    EsCandidateScorer scorer;
} Guard;

static EsStatus score_guarded(void *context, int worker, const EsAtom *candidates, int32_t count,
                              EsCandidateScore *scores) {
    const Guard *guard = context;
    if (guard->ranker->must_stop(guard->ranker->context)) {
        return ES_FAIL(INTERRUPTED, "the ranking was stopped");
    }
    return guard->scorer.score(guard->scorer.context, worker, candidates, count, scores);
}

static EsStatus rank(const EsProveRanker *ranker, EsProofScorer *scorer,
                     const EsProveQueries *queries, int n_corruptions, EsRanking **ranking,
                     EsScorerReport *report) {
    Guard guard = {ranker, es_proof_scorer_candidates(scorer)};
    EsCandidateScorer guarded = {.context = &guard, .score = score_guarded};
    EsRankingSettings settings = es_prove_settings_ranking(ranker->settings, n_corruptions);
    ES_TRY(es_ranking_create(ranker->known, &settings, &guarded, ranker->pool, queries->atoms, NULL,
                             queries->count, ranking));
    *report = es_proof_scorer_report(scorer);
    return ES_STATUS_OK;
}

// policy NULL: equal probabilities.
static EsStatus rank_by_search(const EsProveRanker *ranker, const EsProofPolicy *policy,
                               const EsProofSearchSettings *search, const EsProveQueries *queries,
                               int n_corruptions, EsRanking **ranking, EsScorerReport *report) {
    int n_workers = es_thread_pool_size(ranker->pool);
    EsProofGuides guides = {.n_guides = 0};
    EsProofScorer *scorer = NULL;
    EsStatus status = ES_STATUS_OK;
    *ranking = NULL;
    if (policy != NULL) {
        ES_TRY(es_proof_guides_create(policy, n_workers, &guides));
    }
    ES_TRY_GOTO(es_proof_scorer_create_search(ranker->graph, search, guides.guides,
                                              (EsScoreKind)ranker->settings->score, n_workers,
                                              &scorer));
    ES_TRY_GOTO(rank(ranker, scorer, queries, n_corruptions, ranking, report));
done:
    es_proof_scorer_destroy(scorer);
    es_proof_guides_destroy(&guides);
    return status;
}

EsStatus es_prove_rank(const EsProveRanker *ranker, const EsProofPolicy *policy,
                       const EsProveQueries *queries, int n_corruptions, EsRanking **ranking,
                       EsScorerReport *report) {
    EsProofSearchSettings search = es_prove_settings_search(ranker->settings);
    return rank_by_search(ranker, policy, &search, queries, n_corruptions, ranking, report);
}

// The same search without a policy, best first or breadth first.
static EsProofSearchSettings without_policy(EsProofSearchSettings search, EsSearchKind kind) {
    search.kind = kind;
    search.value_weight = 0;
    return search;
}

static EsStatus rank_unguided(const EsProveRanker *ranker, EsSearchKind kind,
                              const EsProveQueries *queries, EsRanking **ranking,
                              EsScorerReport *report) {
    EsProofSearchSettings search = without_policy(es_prove_settings_search(ranker->settings), kind);
    return rank_by_search(ranker, NULL, &search, queries, ranker->settings->n_evaluated_corruptions,
                          ranking, report);
}

// The bounded prover, with nothing learned.
static EsStatus rank_symbolic(const EsProveRanker *ranker, EsScoreKind kind,
                              const EsProveQueries *queries, EsRanking **ranking,
                              EsScorerReport *report) {
    EsProverSettings prover = es_prover_defaults();
    EsProofScorer *scorer = NULL;
    prover.selection = (EsGoalSelection)ranker->settings->selection;
    prover.max_depth = ranker->settings->search_depth;
    prover.max_atoms = ranker->settings->max_atoms;
    ES_TRY(es_proof_scorer_create_prover(ranker->graph, &prover, kind,
                                         es_thread_pool_size(ranker->pool), &scorer));
    EsStatus status =
        rank(ranker, scorer, queries, ranker->settings->n_evaluated_corruptions, ranking, report);
    es_proof_scorer_destroy(scorer);
    return status;
}

// --- the comparison ---

typedef struct Comparison {
    const EsProveRanker *ranker;
    const EsProofPolicy *policies[ES_N_PROVE_VARIANTS]; // NULL: without
    EsProveQueries queries;                             // owned
    double *ranks[ES_N_PROVE_VARIANTS];                 // owned: reciprocal ranks of all queries
    EsProveEvaluation *evaluation;
} Comparison;

// Emits in the round after the last one.
static void emit_variant(const EsProveEvaluation *evaluation, EsProveVariantKind kind, EsRun *run) {
    const EsProveVariant *variant = &evaluation->variants[kind];
    EsProveRanked ranked = {es_prove_variant_name(kind),
                            "test",
                            &variant->all,
                            variant->report,
                            variant->seconds,
                            ES_MISSING_INT};
    EsEventTime time = {.round = evaluation->n_rounds + 1, .step = -1};
    es_prove_events_ranked(es_run_hub(run), time, &ranked);
}

void es_prove_evaluation_emit(const EsProveEvaluation *evaluation, EsRun *run) {
    for (int a = 0; a < ES_N_PROVE_VARIANTS; a++) {
        emit_variant(evaluation, (EsProveVariantKind)a, run);
    }
}

static EsStatus make_ranking(const Comparison *comparison, EsProveVariantKind kind,
                             EsRanking **ranking, EsScorerReport *report) {
    const EsProveRanker *ranker = comparison->ranker;
    const EsProveQueries *queries = &comparison->queries;
    switch (kind) {
    case ES_PROVE_VARIANT_PROVED:
        return rank_symbolic(ranker, ES_SCORE_PROVED, queries, ranking, report);
    case ES_PROVE_VARIANT_SHORTEST:
        return rank_symbolic(ranker, ES_SCORE_SHORTEST, queries, ranking, report);
    case ES_PROVE_VARIANT_UNIFORM:
        return rank_unguided(ranker, ES_SEARCH_BEST_FIRST, queries, ranking, report);
    case ES_PROVE_VARIANT_BREADTH:
        return rank_unguided(ranker, ES_SEARCH_BREADTH, queries, ranking, report);
    default:
        return es_prove_rank(ranker, comparison->policies[kind], queries,
                             ranker->settings->n_evaluated_corruptions, ranking, report);
    }
}

static EsStatus rank_variant(Comparison *comparison, EsProveVariantKind kind, EsRun *run) {
    EsProveVariant *variant = &comparison->evaluation->variants[kind];
    EsRanking *ranking = NULL;
    EsStatus status = ES_STATUS_OK;
    int64_t start_ns = es_clock_ns();
    ES_TRY(make_ranking(comparison, kind, &ranking, &variant->report));
    variant->seconds = es_clock_seconds_since(start_ns);
    variant->all = ranking->all;
    size_t n = (size_t)ES_MAX(ranking->n_queries, 1);
    ES_TRY_GOTO(es_allocate(n * sizeof(double), (void **)&comparison->ranks[kind]));
    for (int32_t i = 0; i < ranking->n_queries; i++) {
        comparison->ranks[kind][i] = ranking->queries[i].mean.reciprocal;
    }
    emit_variant(comparison->evaluation, kind, run);
done:
    es_ranking_destroy(ranking);
    return status;
}

// Queries without a corruption have rank 0 for all variants and change nothing but the divisor;
// they are left out of means, and so here.
static EsStatus compare_variants(Comparison *comparison) {
    EsProveEvaluation *evaluation = comparison->evaluation;
    const double *first = comparison->ranks[ES_PROVE_VARIANT_POLICY];
    double *difference = NULL;
    ES_TRY(
        es_allocate((size_t)comparison->queries.count * sizeof *difference, (void **)&difference));
    EsStatus status = ES_STATUS_OK;
    for (int a = 1; a < ES_N_PROVE_VARIANTS && status == ES_STATUS_OK; a++) {
        int64_t n = 0;
        for (int32_t i = 0; i < comparison->queries.count; i++) {
            if (first[i] > 0) {
                difference[n++] = first[i] - comparison->ranks[a][i];
            }
        }
        if (n > 0) {
            status = es_bootstrap_mean(difference, n, sizeof *difference,
                                       (uint64_t)comparison->ranker->settings->run.seed,
                                       (uint32_t)a, &evaluation->variants[a].difference);
        }
    }
    es_release(difference);
    return status;
}

int32_t es_prove_evaluated_queries(const EsProveSettings *settings, const EsKnowledgeGraph *graph) {
    int32_t n_all = es_prove_queries_count(graph, ES_KG_SPLIT_TEST);
    return settings->n_evaluated > 0 ? ES_MIN(settings->n_evaluated, n_all) : n_all;
}

EsStatus es_prove_evaluate(const EsProveRanker *ranker, const EsProofPolicy *policy,
                           const EsProofPolicy *untrained, EsRun *run,
                           EsProveEvaluation *evaluation) {
    Comparison comparison = {.ranker = ranker, .evaluation = evaluation};
    EsStatus status = ES_STATUS_OK;
    memset(evaluation->variants, 0, sizeof evaluation->variants);
    comparison.policies[ES_PROVE_VARIANT_POLICY] = policy;
    comparison.policies[ES_PROVE_VARIANT_UNTRAINED] = untrained;
    ES_TRY(es_prove_queries_create(ranker->graph, ES_KG_SPLIT_TEST, ranker->settings->n_evaluated,
                                   &comparison.queries));
    ES_ASSERT(comparison.queries.count == evaluation->n_queries);
    for (int a = 0; a < ES_N_PROVE_VARIANTS; a++) {
        ES_TRY_GOTO(rank_variant(&comparison, (EsProveVariantKind)a, run));
    }
    ES_TRY_GOTO(compare_variants(&comparison));
done:
    for (int a = 0; a < ES_N_PROVE_VARIANTS; a++) {
        es_release(comparison.ranks[a]);
    }
    es_prove_queries_destroy(&comparison.queries);
    return status;
}

// --- proofs within a limit ---

const char *es_prove_guide_name(EsProveGuide guide) {
    static const char *const names[] = {
#define X(NAME, name) #name,
        ES_PROVE_GUIDES(X)
#undef X
    };
    return names[guide];
}

void es_prove_group_name(int group, char text[16]) {
    if (group < 2) {
        snprintf(text, 16, "%s", group == 0 ? "all" : "3 or more");
    } else {
        snprintf(text, 16, "%d", group);
    }
}

// Queries to count proofs of, with the steps of their shortest ones; owned.
typedef struct DeepQueries {
    EsAtom *atoms; // (count x query_cells)
    int32_t *depths;
    int32_t count, query_cells;
} DeepQueries;

static void destroy_queries(DeepQueries *queries) {
    es_release(queries->atoms);
    es_release(queries->depths);
}

static void move_query(DeepQueries *queries, int32_t to, int32_t from) {
    size_t cells = (size_t)queries->query_cells;
    memmove(queries->atoms + (size_t)to * cells, queries->atoms + (size_t)from * cells,
            cells * sizeof *queries->atoms);
    queries->depths[to] = queries->depths[from];
}

// Keep those of two steps or more, evenly spaced ones of them.
static EsStatus keep_deep(DeepQueries *queries, int32_t n_most) {
    int32_t n_deep = 0, *numbers = NULL;
    for (int32_t i = 0; i < queries->count; i++) {
        if (queries->depths[i] >= 2) {
            move_query(queries, n_deep++, i);
        }
    }
    ES_TRY(es_allocate((size_t)ES_MAX(n_deep, 1) * sizeof *numbers, (void **)&numbers));
    queries->count = es_ranking_choose(n_deep, n_most, 1, numbers);
    // numbers ascend, so none is overwritten before it is read
    for (int32_t i = 0; i < queries->count; i++) {
        move_query(queries, i, numbers[i]);
    }
    es_release(numbers);
    return ES_STATUS_OK;
}

static EsStatus find_deep(const EsProveContest *contest, DeepQueries *deep) {
    EsProverSettings prover = es_prover_defaults();
    EsProverReport report;
    size_t capacity = (size_t)ES_MAX(contest->n_queries, 1);
    prover.selection = contest->settings.selection;
    prover.max_depth = contest->max_steps;
    prover.max_atoms = contest->settings.max_atoms;
    size_t cells = (size_t)contest->graph->query_cells;
    deep->count = contest->n_queries;
    deep->query_cells = contest->graph->query_cells;
    ES_TRY(es_allocate(capacity * cells * sizeof *deep->atoms, (void **)&deep->atoms));
    ES_TRY(es_allocate(capacity * sizeof *deep->depths, (void **)&deep->depths));
    memcpy(deep->atoms, contest->queries, (size_t)deep->count * cells * sizeof *deep->atoms);
    ES_TRY(es_prover_find_depths(contest->graph, &prover, contest->pool, deep->atoms, deep->count,
                                 deep->depths, &report));
    return keep_deep(deep, contest->n_most);
}

// policy NULL: equal probabilities, or breadth first.
static EsStatus count_proofs(const EsProveContest *contest, const EsProofSearchSettings *settings,
                             const EsProofPolicy *policy, const DeepQueries *queries,
                             EsProofTally tallies[ES_N_PROVE_GROUPS]) {
    EsProofGuides guides = {.n_guides = 0};
    EsProofCurve *curve = NULL;
    EsStatus status = ES_STATUS_OK;
    if (policy != NULL) {
        ES_TRY(es_proof_guides_create(policy, es_thread_pool_size(contest->pool), &guides));
    }
    ES_TRY_GOTO(es_proof_curve_create(contest->graph, settings, guides.guides, contest->pool,
                                      queries->atoms, queries->count, &curve));
    for (int group = 0; group < ES_N_PROVE_GROUPS; group++) {
        int32_t lowest = group < 2 ? 2 + group : group, highest = group < 2 ? INT32_MAX : group;
        tallies[group] =
            es_proof_curve_tally(curve, queries->depths, lowest, highest, settings->max_expanded);
    }
done:
    es_proof_curve_destroy(curve);
    es_proof_guides_destroy(&guides);
    return status;
}

EsStatus es_prove_proofs_count(const EsProveContest *contest, EsProveProofs *proofs) {
    const EsProofPolicy *const policies[ES_N_PROVE_GUIDES] = {contest->trained, contest->untrained};
    DeepQueries deep = {.count = 0};
    EsStatus status = ES_STATUS_OK;
    *proofs = (EsProveProofs){.n_nodes = contest->settings.max_expanded,
                              .max_steps = contest->max_steps,
                              .has_untrained = contest->untrained != NULL};
    ES_TRY_GOTO(find_deep(contest, &deep));
    for (int guide = 0; guide < ES_N_PROVE_GUIDES; guide++) {
        EsProofSearchSettings search = contest->settings;
        search.finds_all = 0;
        if (guide == ES_PROVE_GUIDE_UNTRAINED && !proofs->has_untrained) {
            continue;
        }
        if (guide >= ES_PROVE_GUIDE_UNIFORM) {
            search = without_policy(search, guide == ES_PROVE_GUIDE_BREADTH ? ES_SEARCH_BREADTH
                                                                            : ES_SEARCH_BEST_FIRST);
        }
        ES_TRY_GOTO(count_proofs(contest, &search, policies[guide], &deep, proofs->tallies[guide]));
    }
done:
    destroy_queries(&deep);
    return status;
}

static json_t *tally_json(const EsProofTally *tally) {
    return json_pack(
        "{s:i, s:i, s:o, s:o, s:o, s:I}", "queries", tally->n_queries, "proved", tally->n_proved,
        "percent",
        es_json_number(tally->n_queries > 0 ? 100.0 * tally->n_proved / tally->n_queries : NAN),
        "low", es_json_number(tally->low), "high", es_json_number(tally->high), "expanded",
        (json_int_t)tally->n_expanded);
}

json_t *es_prove_proofs_json(const EsProveProofs *proofs) {
    json_t *guides = json_object();
    for (int guide = 0; guide < ES_N_PROVE_GUIDES && guides != NULL; guide++) {
        json_t *groups = json_object();
        if (guide == ES_PROVE_GUIDE_UNTRAINED && !proofs->has_untrained) {
            json_decref(groups);
            continue;
        }
        for (int group = 0; group < ES_N_PROVE_GROUPS; group++) {
            char name[16];
            es_prove_group_name(group, name);
            if (group < 2 || proofs->tallies[guide][group].n_queries > 0) {
                json_object_set_new(groups, name, tally_json(&proofs->tallies[guide][group]));
            }
        }
        json_object_set_new(guides, es_prove_guide_name((EsProveGuide)guide), groups);
    }
    // a part that is lacking for want of memory shows in es_json_lacked_memory
    return json_pack("{s:I, s:i, s:o}", "nodes", (json_int_t)proofs->n_nodes, "max_steps",
                     proofs->max_steps, "by_steps", guides);
}

// --- the file ---

// of a path with the place in the file, for messages
#define WHERE_BYTES 4200

// --- writing ---

static json_t *interval_json(const EsInterval *interval) {
    return json_pack("{s:o, s:o, s:o}", "mean", es_json_number(interval->mean), "low",
                     es_json_number(interval->low), "high", es_json_number(interval->high));
}

static json_t *variant_json(const EsProveVariant *variant, EsProveVariantKind kind) {
    const EsRankingSummary *all = &variant->all;
    return json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "arm",
        es_prove_variant_name(kind), "mrr", interval_json(&all->reciprocal), "hits_1",
        es_json_number(all->hits[0]), "hits_3", es_json_number(all->hits[1]), "hits_10",
        es_json_number(all->hits[2]), "queries", all->n_queries, "proved", all->n_proved,
        "negatives", (json_int_t)all->n_negatives, "negatives_proved",
        (json_int_t)all->n_negatives_proved, "candidates", (json_int_t)variant->report.n_candidates,
        "expanded", (json_int_t)variant->report.n_expanded, "limited",
        (json_int_t)variant->report.n_limited, "policy_minus_this",
        kind == ES_PROVE_VARIANT_POLICY ? json_null() : interval_json(&variant->difference),
        "seconds", es_json_number(variant->seconds));
}

json_t *es_prove_evaluation_json(const EsProveEvaluation *evaluation) {
    json_t *list = json_array();
    for (int a = 0; a < ES_N_PROVE_VARIANTS && list != NULL; a++) {
        // json_pack gives NULL when a part is, and takes the others with it
        json_t *variant = variant_json(&evaluation->variants[a], (EsProveVariantKind)a);
        if (json_array_append_new(list, variant) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    json_t *mrr = evaluation->best_round > 0 ? es_json_number(evaluation->best_mrr) : json_null();
    return json_pack("{s:I, s:I, s:o, s:s, s:s, s:i, s:i, s:o}", "rounds",
                     (json_int_t)evaluation->n_rounds, "best_round",
                     (json_int_t)evaluation->best_round, "validation_mrr", mrr, "policy_sha256",
                     evaluation->policy_hash, "last_sha256", evaluation->last_hash, "corruptions",
                     evaluation->n_corruptions, "queries", evaluation->n_queries, "arms", list);
}

EsStatus es_prove_evaluation_save(const EsProveEvaluation *evaluation, const char *path) {
    char *text = NULL;
    ES_TRY(es_json_dump(path, es_prove_evaluation_json(evaluation),
                        JSON_INDENT(1) | JSON_REAL_PRECISION(17), &text));
    EsStatus status = es_file_write_all(path, text, strlen(text));
    free(text);
    return status;
}

// --- reading ---

// A number from `least` to `most`, or null for NaN. `where` stands before the key in
// an INPUT failure.
static EsStatus read_number(const json_t *object, const char *key, const char *where, double least,
                            double most, double *number) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value) && !json_is_null(value)) {
        return ES_FAIL(INPUT, "%s: \"%s\" is %s, expected a number or null", where, key,
                       value == NULL ? "missing" : "something else");
    }
    *number = json_is_number(value) ? json_number_value(value) : NAN;
    return json_is_null(value)
               ? ES_STATUS_OK
               : es_check_real((EsFileField){where, key, ES_NO_INDEX}, *number, least, most);
}

static EsStatus read_count(const json_t *object, const char *key, const char *where, int64_t most,
                           int64_t *count) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value)) {
        return ES_FAIL(INPUT, "%s: \"%s\" is %s, expected a whole number", where, key,
                       value == NULL ? "missing" : "something else");
    }
    *count = json_integer_value(value);
    return es_check_integer((EsFileField){where, key, ES_NO_INDEX}, *count, 0, most);
}

static EsStatus read_count_32(const json_t *object, const char *key, const char *where,
                              int32_t *count) {
    int64_t wide = 0;
    ES_TRY(read_count(object, key, where, INT32_MAX, &wide));
    *count = (int32_t)wide;
    return ES_STATUS_OK;
}

static EsStatus read_interval(const json_t *object, const char *key, const char *where,
                              double least, EsInterval *interval) {
    char inside[WHERE_BYTES];
    const json_t *part = json_object_get(object, key);
    snprintf(inside, sizeof inside, "%.4100s: %.50s", where, key);
    ES_TRY(read_number(part, "mean", inside, least, 1, &interval->mean));
    ES_TRY(read_number(part, "low", inside, least, 1, &interval->low));
    return read_number(part, "high", inside, least, 1, &interval->high);
}

static EsStatus read_numbers(const json_t *object, EsProveVariantKind kind, const char *where,
                             EsProveVariant *variant) {
    static const char *const hits_names[ES_N_HITS] = {"hits_1", "hits_3", "hits_10"};
    ES_TRY(read_interval(object, "mrr", where, 0, &variant->all.reciprocal));
    for (int i = 0; i < ES_N_HITS; i++) {
        ES_TRY(read_number(object, hits_names[i], where, 0, 1, &variant->all.hits[i]));
    }
    if (kind != ES_PROVE_VARIANT_POLICY) {
        ES_TRY(read_interval(object, "policy_minus_this", where, -1, &variant->difference));
    }
    variant->seconds = es_missing_real();
    int has_seconds = json_object_get(object, "seconds") != NULL; // earlier files have none
    return has_seconds ? read_number(object, "seconds", where, 0, DBL_MAX, &variant->seconds)
                       : ES_STATUS_OK;
}

static EsStatus read_variant(const json_t *object, EsProveVariantKind kind, const char *path,
                             EsProveVariant *variant) {
    char where[WHERE_BYTES];
    const char *name = json_string_value(json_object_get(object, "arm"));
    snprintf(where, sizeof where, "%.4100s: arms[%d]", path, (int)kind);
    if (name == NULL) {
        return ES_FAIL(INPUT, "%s: \"arm\" is missing or not a text", where);
    }
    if (strcmp(name, es_prove_variant_name(kind)) != 0) {
        return ES_FAIL(INPUT, "%s is \"%.100s\", not \"%s\"", where, name,
                       es_prove_variant_name(kind));
    }
    EsRankingSummary *all = &variant->all;
    EsScorerReport *report = &variant->report;
    ES_TRY(read_count_32(object, "queries", where, &all->n_queries));
    ES_TRY(read_count_32(object, "proved", where, &all->n_proved));
    ES_TRY(read_count(object, "negatives", where, ES_COUNTER_MAX, &all->n_negatives));
    ES_TRY(read_count(object, "negatives_proved", where, ES_COUNTER_MAX, &all->n_negatives_proved));
    ES_TRY(read_count(object, "candidates", where, ES_COUNTER_MAX, &report->n_candidates));
    ES_TRY(read_count(object, "expanded", where, ES_COUNTER_MAX, &report->n_expanded));
    ES_TRY(read_count(object, "limited", where, ES_COUNTER_MAX, &report->n_limited));
    return read_numbers(object, kind, where, variant);
}

static EsStatus read_evaluation(json_t *root, const char *path, EsProveEvaluation *evaluation) {
    const json_t *list;
    const char *policy_hash, *last_hash;
    json_error_t error;
    if (json_unpack_ex(root, &error, 0, "{s:s, s:s, s:o}", "policy_sha256", &policy_hash,
                       "last_sha256", &last_hash, "arms", &list) != 0) {
        return ES_FAIL(INPUT, "%s: %s", path, error.text);
    }
    ES_TRY(read_count(root, "rounds", path, INT32_MAX, &evaluation->n_rounds));
    ES_TRY(read_count(root, "best_round", path, evaluation->n_rounds, &evaluation->best_round));
    ES_TRY(read_count_32(root, "corruptions", path, &evaluation->n_corruptions));
    ES_TRY(read_count_32(root, "queries", path, &evaluation->n_queries));
    if (json_array_size(list) != ES_N_PROVE_VARIANTS) {
        return ES_FAIL(INPUT, "%s: \"arms\" has %d entries instead of %d", path,
                       (int)json_array_size(list), (int)ES_N_PROVE_VARIANTS);
    }
    if (evaluation->best_round > 0) {
        ES_TRY(read_number(root, "validation_mrr", path, 0, 1, &evaluation->best_mrr));
    }
    snprintf(evaluation->policy_hash, sizeof evaluation->policy_hash, "%s", policy_hash);
    snprintf(evaluation->last_hash, sizeof evaluation->last_hash, "%s", last_hash);
    for (int a = 0; a < ES_N_PROVE_VARIANTS; a++) {
        ES_TRY(read_variant(json_array_get(list, (size_t)a), (EsProveVariantKind)a, path,
                            &evaluation->variants[a]));
    }
    return ES_STATUS_OK;
}

EsStatus es_prove_evaluation_load(const char *path, EsProveEvaluation *evaluation) {
    json_t *root = NULL;
    *evaluation = (EsProveEvaluation){.n_queries = 0};
    ES_TRY(es_json_load(path, &root));
    EsStatus status = read_evaluation(root, path, evaluation);
    json_decref(root);
    // json_unpack needs memory of its own
    return es_json_lacked_memory() ? ES_FAIL(MEMORY, "not enough memory to read %s", path) : status;
}

EsStatus es_prove_evaluation_take(const char *path, const EsProveEvaluation *wanted,
                                  EsProveEvaluation *evaluation, int *is_taken) {
    EsProveEvaluation saved;
    struct stat info;
    *is_taken = 0;
    if (stat(path, &info) != 0) {
        return ES_STATUS_OK;
    }
    EsStatus status = es_prove_evaluation_load(path, &saved);
    if (status == ES_STATUS_MEMORY) {
        return status;
    }
    if (status != ES_STATUS_OK) {
        es_log(ES_LOG_WARNING, "%s; the queries are ranked again", es_status_detail());
        return ES_STATUS_OK;
    }
    *is_taken = saved.n_rounds == wanted->n_rounds && saved.n_queries == wanted->n_queries &&
                saved.n_corruptions == wanted->n_corruptions &&
                strcmp(saved.last_hash, wanted->last_hash) == 0;
    if (*is_taken) {
        *evaluation = saved;
    }
    return ES_STATUS_OK;
}
