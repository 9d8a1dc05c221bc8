// Fills typed rows from the reports of training and ranking and emits them; figures that were not
// measured stay missing, and such curves are left out.
#include "runs/prove/prove_events.h"

#include <math.h>

#include "runs/update_events.h"

// environments whose episodes are emitted, and bytes of a query's text
#define SAMPLED_ENVS 4
#define QUERY_BYTES  256

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
