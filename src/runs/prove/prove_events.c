// Fills typed rows from the reports of training and ranking and emits them; figures that were not
// measured stay missing, and such curves are left out.
#include "runs/prove/prove_events.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "proof/search/proof_tree.h"
#include "runs/update_events.h"

// environments whose episodes are emitted, and bytes of a query's text
#define SAMPLED_ENVS ES_PROOF_TRACED
#define QUERY_BYTES  256
// proofs of a round that are emitted, and bytes of one; a longer one is left out
#define MAX_PROOFS  4
#define PROOF_BYTES ES_PACKET_MAX_TEXT
// rows of a packet of counts
#define MAX_COUNT_ROWS 64

static double percent(int64_t part, int64_t whole) {
    return whole > 0 ? 100.0 * (double)part / (double)whole : es_missing_real();
}

static double mean_of(double sum, int64_t n) { return n > 0 ? sum / (double)n : es_missing_real(); }

double es_prove_accuracy(const EsProofEnvCounters *counted) {
    int64_t n_right = counted->n_proved[1] + counted->n_episodes[0] - counted->n_proved[0];
    return percent(n_right, counted->n_episodes[0] + counted->n_episodes[1]);
}

// The environment has begun its next episode already.
void es_prove_events_stepped(EsHub *hub, EsEventTime time, const EsKnowledgeGraph *graph,
                             const EsProofEnv *env) {
    const EsProofResult *result = es_proof_env_result(env);
    const EsProofEnvSettings *settings = es_proof_env_settings(env);
    EsProofEpisodeEvent rows[SAMPLED_ENVS];
    char queries[SAMPLED_ENVS][QUERY_BYTES];
    int n_rows = 0;
    for (int32_t i = 0; i < ES_MIN(settings->n_envs, SAMPLED_ENVS); i++) {
        if (!result->is_done[i]) {
            continue;
        }
        es_kg_format_atom(graph, result->query + (size_t)i * (size_t)graph->query_cells,
                          queries[n_rows], QUERY_BYTES);
        rows[n_rows] =
            (EsProofEpisodeEvent){.env = settings->first_env + i,
                                  .episode = (int64_t)es_proof_env_episode(env, i).episode - 1,
                                  .query = queries[n_rows],
                                  .label = result->label[i],
                                  .is_proved = result->is_success[i],
                                  .is_truncated = result->is_truncated[i],
                                  .is_by_end = result->is_by_end[i],
                                  .n_steps = result->depth[i],
                                  .reward = (double)result->reward[i]};
        n_rows++;
    }
    es_emit_proof_episode(hub, time, rows, n_rows);
}

// --- counts ---

typedef struct Count {
    int64_t n_asked, n_proved, n_actions;
} Count;

// A query whose depth is known.
typedef struct KnownDepth {
    EsWideAtom query;
    int32_t depth;
} KnownDepth;

// D is ES_PROOF_MAX_DEPTH + 1; greater depths of a file count as not known.
struct EsProofCounts {
    const EsKnowledgeGraph *graph; // borrowed
    KnownDepth *known;             // sorted by query; owned, as is all below    (n_known)
    int32_t n_known;
    Count *counts;        // the memory of the three below
    size_t n_counts;      //
    Count *by_proof;      // queries taken to be true, by known depth            (D)
    Count *by_actions[2]; // the others, by label                                (D)
    Count *predicates;    // by label, then predicate                            (2 x (P + 1))
    int n_proofs;         // emitted in this round
    char *text;           //                                                     (PROOF_BYTES)
};

static int compare_known(const void *left, const void *right) {
    const KnownDepth *x = left, *y = right;
    return es_wide_atom_compare(x->query.cells, y->query.cells);
}

static EsWideAtom widen(const EsKnowledgeGraph *graph, const EsAtom *query) {
    EsWideAtom atom = {{{0, 0, 0}, {0, 0, 0}}};
    memcpy(atom.cells, query, (size_t)es_kg_cells(graph, query->predicate) * sizeof *query);
    return atom;
}

static EsStatus list_known(EsProofCounts *counts, EsKgSplit split) {
    const EsQuerySplit *queries = &counts->graph->splits[split];
    ES_TRY(es_allocate((size_t)ES_MAX(queries->count, 1) * sizeof *counts->known,
                       (void **)&counts->known));
    for (int32_t i = 0; i < queries->count; i++) {
        if (queries->depths[i] >= 0 && queries->depths[i] <= ES_PROOF_MAX_DEPTH) {
            counts->known[counts->n_known++] = (KnownDepth){
                widen(counts->graph, es_kg_query(counts->graph, split, i)), queries->depths[i]};
        }
    }
    qsort(counts->known, (size_t)counts->n_known, sizeof *counts->known, compare_known);
    return ES_STATUS_OK;
}

static EsStatus create_counts(EsProofCounts *counts, const EsProofEnv *env) {
    const size_t n_depths = ES_PROOF_MAX_DEPTH + 1;
    counts->n_counts = 3 * n_depths + 2 * ((size_t)counts->graph->n_predicates + 1);
    ES_TRY(es_allocate(counts->n_counts * sizeof *counts->counts, (void **)&counts->counts));
    counts->by_proof = counts->counts;
    counts->by_actions[0] = counts->counts + n_depths;
    counts->by_actions[1] = counts->counts + 2 * n_depths;
    counts->predicates = counts->counts + 3 * n_depths;
    ES_TRY(es_allocate(PROOF_BYTES, (void **)&counts->text));
    return list_known(counts, es_proof_env_settings(env)->split);
}

EsStatus es_proof_counts_create(const EsKnowledgeGraph *graph, const EsProofEnv *env,
                                EsProofCounts **counts_out) {
    EsProofCounts *counts = NULL;
    *counts_out = NULL;
    ES_TRY(es_allocate(sizeof *counts, (void **)&counts));
    counts->graph = graph;
    EsStatus status = create_counts(counts, env);
    if (status != ES_STATUS_OK) {
        es_proof_counts_destroy(counts);
        return status;
    }
    *counts_out = counts;
    return ES_STATUS_OK;
}

void es_proof_counts_destroy(EsProofCounts *counts) {
    if (counts != NULL) {
        es_release(counts->known);
        es_release(counts->counts);
        es_release(counts->text);
        es_release(counts);
    }
}

void es_proof_counts_reset(EsProofCounts *counts) {
    memset(counts->counts, 0, counts->n_counts * sizeof *counts->counts);
    counts->n_proofs = 0;
}

static void count_episode(EsProofCounts *counts, const EsProofResult *result, int32_t i) {
    const EsAtom *query = result->query + (size_t)i * (size_t)counts->graph->query_cells;
    const KnownDepth *known = NULL;
    int label = result->label[i];
    if (label == 1 && counts->n_known > 0) {
        KnownDepth wanted = {.query = widen(counts->graph, query)};
        known =
            bsearch(&wanted, counts->known, (size_t)counts->n_known, sizeof wanted, compare_known);
    }
    size_t predicate =
        (size_t)label * ((size_t)counts->graph->n_predicates + 1) + (size_t)query->predicate;
    Count *const places[] = {known != NULL ? &counts->by_proof[known->depth]
                                           : &counts->by_actions[label][result->depth[i]],
                             &counts->predicates[predicate]};
    for (size_t k = 0; k < ES_COUNT_OF(places); k++) {
        places[k]->n_asked++;
        places[k]->n_proved += result->is_success[i];
        places[k]->n_actions += result->depth[i];
    }
}

// A proof that cannot be written as a tree is left out: the run does not depend on it.
static void emit_proof(EsProofCounts *counts, EsHub *hub, EsEventTime time, const EsProofEnv *env,
                       int32_t i) {
    const EsProofEnvSettings *settings = es_proof_env_settings(env);
    EsProofTrace trace = es_proof_env_proof(env, i);
    EsProofTree *tree = NULL;
    char query[QUERY_BYTES];
    if (trace.count > 0 &&
        es_proof_tree_create(counts->graph, settings->selection, trace.states, trace.count,
                             &tree) == ES_STATUS_OK &&
        es_proof_tree_check(tree) == ES_STATUS_OK &&
        es_proof_tree_format(tree, counts->text, PROOF_BYTES) < PROOF_BYTES) {
        es_kg_format_atom(counts->graph, trace.states[0].atoms, query, sizeof query);
        EsProofFoundEvent row = {.env = settings->first_env + i,
                                 .episode = (int64_t)es_proof_env_episode(env, i).episode - 1,
                                 .query = query,
                                 .n_steps = es_proof_env_result(env)->depth[i],
                                 .n_atoms = tree->count,
                                 .proof = counts->text};
        es_emit_proof_found(hub, time, &row, 1);
        counts->n_proofs++;
    }
    es_proof_tree_destroy(tree);
}

void es_proof_counts_step(EsProofCounts *counts, EsHub *hub, EsEventTime time,
                          const EsProofEnv *env) {
    const EsProofResult *result = es_proof_env_result(env);
    int32_t n_envs = es_proof_env_settings(env)->n_envs;
    for (int32_t i = 0; i < n_envs; i++) {
        if (result->is_done[i]) {
            count_episode(counts, result, i);
        }
    }
    for (int32_t i = 0; i < ES_MIN(n_envs, SAMPLED_ENVS) && counts->n_proofs < MAX_PROOFS; i++) {
        if (result->is_success[i] && result->label[i] == 1 &&
            es_hub_wants(hub, ES_EVENT_PROOF_FOUND, time.step)) {
            emit_proof(counts, hub, time, env, i);
        }
    }
}

// Rows of depths, gathered for packets.
typedef struct DepthRows {
    EsProofDepthCountedEvent rows[MAX_COUNT_ROWS];
    int n;
} DepthRows;

static void add_depths(DepthRows *depths, EsHub *hub, EsEventTime time, const Count *counts,
                       int label, const char *counted_by) {
    for (int32_t depth = 0; depth <= ES_PROOF_MAX_DEPTH; depth++) {
        const Count *count = &counts[depth];
        if (count->n_asked > 0) {
            depths->rows[depths->n++] = (EsProofDepthCountedEvent){
                .label = label,
                .counted_by = counted_by,
                .depth = depth,
                .n_asked = count->n_asked,
                .n_proved = count->n_proved,
                .actions = mean_of((double)count->n_actions, count->n_asked)};
        }
        if (depths->n == MAX_COUNT_ROWS) {
            es_emit_proof_depth_counted(hub, time, depths->rows, depths->n);
            depths->n = 0;
        }
    }
}

static void emit_predicates(const EsProofCounts *counts, EsHub *hub, EsEventTime time) {
    EsProofPredicateCountedEvent rows[MAX_COUNT_ROWS];
    int32_t n_predicates = counts->graph->n_predicates, n_rows = 0;
    for (int32_t p = 1; p <= n_predicates; p++) {
        for (int label = 1; label >= 0; label--) {
            const Count *count = &counts->predicates[label * (n_predicates + 1) + p];
            if (count->n_asked > 0) {
                rows[n_rows++] = (EsProofPredicateCountedEvent){
                    .predicate = counts->graph->predicate_names[p],
                    .label = label,
                    .n_asked = count->n_asked,
                    .n_proved = count->n_proved,
                    .actions = mean_of((double)count->n_actions, count->n_asked)};
            }
            if (n_rows == MAX_COUNT_ROWS) {
                es_emit_proof_predicate_counted(hub, time, rows, n_rows);
                n_rows = 0;
            }
        }
    }
    es_emit_proof_predicate_counted(hub, time, rows, n_rows);
}

void es_proof_counts_emit(const EsProofCounts *counts, EsHub *hub, EsEventTime time) {
    DepthRows depths = {.n = 0};
    if (es_hub_wants(hub, ES_EVENT_PROOF_DEPTH_COUNTED, time.step)) {
        add_depths(&depths, hub, time, counts->by_proof, 1, "proof");
        add_depths(&depths, hub, time, counts->by_actions[1], 1, "actions");
        add_depths(&depths, hub, time, counts->by_actions[0], 0, "actions");
        es_emit_proof_depth_counted(hub, time, depths.rows, depths.n);
    }
    if (es_hub_wants(hub, ES_EVENT_PROOF_PREDICATE_COUNTED, time.step)) {
        emit_predicates(counts, hub, time);
    }
}

// --- rounds ---

static const char *name_head(int head) {
    (void)head;
    return "choice";
}

static EsProofRoundEvent round_row(const EsProofRound *round) {
    const EsProofEnvCounters *counted = &round->counted;
    int64_t n_all = counted->n_episodes[0] + counted->n_episodes[1];
    return (EsProofRoundEvent){
        .n_positives = counted->n_episodes[1],
        .n_negatives = counted->n_episodes[0],
        .positives_proved = percent(counted->n_proved[1], counted->n_episodes[1]),
        .negatives_proved = percent(counted->n_proved[0], counted->n_episodes[0]),
        .depth = mean_of((double)(counted->n_actions[0] + counted->n_actions[1]), n_all),
        .successors = mean_of((double)counted->n_successors, counted->n_steps),
        .n_truncated = counted->n_truncated[0] + counted->n_truncated[1],
        .n_by_end = counted->n_by_end[0] + counted->n_by_end[1],
        .n_not_corrupted = counted->n_not_corrupted,
        .n_skipped = counted->n_skipped,
        .n_overlong = counted->n_overlong,
        .n_overflow = counted->n_overflow,
        .n_states = round->kept.n_states,
        .env_ms = round->env_ms,
        .policy_ms = round->policy_ms,
        .update_ms = round->update_ms};
}

static void emit_known(EsHub *hub, EsEventTime time, const EsMetricEvent *all, int n_all) {
    EsMetricEvent rows[16];
    int n = 0;
    ES_ASSERT(n_all <= (int)ES_COUNT_OF(rows));
    for (int i = 0; i < n_all; i++) {
        if (!isnan(all[i].value)) {
            rows[n++] = all[i];
        }
    }
    es_emit_metric(hub, time, rows, n);
}

void es_prove_events_round(EsRun *run, EsEventTime time, const EsProofRound *round) {
    EsProofRoundEvent row = round_row(round);
    const EsMetricEvent curves[] = {
        es_metric("proof/positives_proved", row.positives_proved),
        es_metric("proof/negatives_proved", row.negatives_proved),
        es_metric("proof/depth", row.depth),
        es_metric("proof/successors", row.successors),
        es_metric("proof/entropy_coefficient", round->update.entropy_coefficient),
        es_metric("proof/overlong", (double)row.n_overlong),
        es_metric("proof/overflow", (double)row.n_overflow),
        es_metric("proof/states", (double)row.n_states)};
    EsUpdatedPolicy policy = {.n_heads = 1, .head_name = name_head};
    es_emit_proof_round(es_run_hub(run), time, &row, 1);
    emit_known(es_run_hub(run), time, curves, ES_COUNT_OF(curves));
    es_update_emit(run, time, &round->update, &policy, round->learning_rate, round->update_ms);
}

// --- rankings ---

void es_prove_events_ranked(EsHub *hub, EsEventTime time, const EsProveRanked *ranked) {
    const EsRankingSummary *all = ranked->all;
    EsProofRankedEvent row = {.arm = ranked->variant,
                              .split = ranked->split,
                              .n_queries = all->n_queries,
                              .mrr = all->reciprocal.mean,
                              .mrr_low = all->reciprocal.low,
                              .mrr_high = all->reciprocal.high,
                              .hits_1 = all->hits[0],
                              .hits_3 = all->hits[1],
                              .hits_10 = all->hits[2],
                              .queries_proved = percent(all->n_proved, all->n_queries),
                              .negatives_proved =
                                  percent(all->n_negatives_proved, all->n_negatives),
                              .n_candidates = ranked->report.n_candidates,
                              .n_expanded = ranked->report.n_expanded,
                              .n_limited = ranked->report.n_limited,
                              .seconds = ranked->seconds,
                              .is_best = ranked->is_best};
    const EsMetricEvent curves[] = {
        es_metric("proof/validation_mrr", row.mrr),
        es_metric("proof/validation_hits_10", row.hits_10),
        es_metric("proof/validation_proved", row.queries_proved),
        es_metric("proof/validation_negatives_proved", row.negatives_proved)};
    es_emit_proof_ranked(hub, time, &row, 1);
    if (ranked->is_best != ES_MISSING_INT) {
        emit_known(hub, time, curves, ES_COUNT_OF(curves));
    }
}
