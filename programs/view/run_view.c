// The list of tables, and reading one into columns.
#include "view/run_view.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/memory.h"
#include "telemetry/sinks/run_database.h"
#include "telemetry/text.h"

// seconds that one table may take; the page has others to serve
#define TABLE_SECONDS 10
#define N_POINTS      240

#define CONFUSION_BYTES_MAX (4 << 20) // as the writer has it, fit/grown_network.h

// A table that was read before.
typedef struct Remembered {
    const char *name;        // of the list
    EsViewQuestion question; // it answers
    json_t *table;           // owned
} Remembered;

#define N_REMEMBERED 26

struct EsRunView {
    EsRunDatabase *database; // owned
    json_t *run;             // owned: the table "run"
    char *recipe;            // owned
    Remembered remembered[N_REMEMBERED];
    int n_remembered;
};

// --- the tables ---

// Parameters of a query, in the order of its question marks:
//   b  rounds per bucket of a curve
//   r  the round that is looked at, or the newest with recorded steps; e the environment
//   o  the same round, or the newest whose episodes have ended
//   p  the same round, or the newest of proving
//   u  the round that is looked at, or a number above all
//   f, l  first and last round of the episode that is looked at: of growth the same round. Hosts
//      and fits have one episode, of all rounds, whose steps are those: then s is 1
typedef struct Table {
    const char *name, *parameters, *help, *sql;
} Table;

// A table of curves as it is read from a summary: what is selected of its rows, by buckets.
typedef struct SummedTable {
    const char *name, *summary, *select;
} SummedTable;

// Columns of a curve, from the rows of an event and from those of their summary.
#define ROW_MEAN(x)      ", avg(" #x ") AS " #x
#define ROW_SUM(x, name) ", sum(" #x ") AS " #name
#define ROW_MIN(x, name) ", min(" #x ") AS " #name
#define ROW_MAX(x, name) ", max(" #x ") AS " #name
#define SUM_MEAN(x)      ", 1.0 * sum(" #x "_sum) / sum(" #x "_n) AS " #x
#define SUM_SUM(x, name) ", sum(" #x "_sum) AS " #name
#define SUM_MIN(x, name) ", min(" #x "_min) AS " #name
#define SUM_MAX(x, name) ", max(" #x "_max) AS " #name

// the formatter moves lists of macros to the right
// clang-format off
#define CURVE(name, help, event, where, COLUMNS)                                                   \
    {name, "b", help,                                                                              \
     "SELECT max(round) AS round, count(*) AS n" COLUMNS(ROW_MEAN, ROW_SUM, ROW_MIN, ROW_MAX)      \
     " FROM event_" event " " where "GROUP BY (round - 1) / ?1 ORDER BY 1"}
#define SUMMED_CURVE(name, event, COLUMNS)                                                         \
    {name, event,                                                                                  \
     "SELECT max(last) AS round, sum(n_rows) AS n" COLUMNS(SUM_MEAN, SUM_SUM, SUM_MIN, SUM_MAX)}

#define ROUND_COLUMNS(MEAN, SUM, MIN, MAX)                                                         \
    MEAN(accuracy) MIN(accuracy, accuracy_min) MAX(accuracy, accuracy_max) MEAN(accuracy_std)      \
    MEAN(rolling_accuracy) MEAN(reward) MEAN(loss) MEAN(n_seeds) MEAN(n_fossils) MEAN(seconds)     \
    MEAN(steps_per_second) MEAN(images_per_second)
#define UTILISATION_COLUMNS(MEAN, SUM, MIN, MAX) MEAN(utilisation)
#define EPISODE_COLUMNS(MEAN, SUM, MIN, MAX)                                                       \
    MEAN(final_accuracy) MIN(final_accuracy, accuracy_min) MAX(final_accuracy, accuracy_max)       \
    MEAN(final_loss) MEAN(parameter_ratio) MEAN(n_fossils) MEAN(reward) MEAN(n_steps)              \
    SUM(n_germinated, n_germinated) SUM(n_pruned, n_pruned) SUM(n_rollbacks, n_rollbacks)
#define UPDATE_COLUMNS(MEAN, SUM, MIN, MAX)                                                        \
    MEAN(policy_loss) MEAN(value_loss) MEAN(entropy) MEAN(kl_divergence) MEAN(clip_fraction)       \
    MEAN(gradient_norm) MEAN(explained_variance) MIN(ratio_min, ratio_min)                         \
    MAX(ratio_max, ratio_max) MEAN(learning_rate) SUM(n_nonfinite, n_nonfinite)                    \
    SUM(is_skipped, n_skipped)
#define PROOF_COLUMNS(MEAN, SUM, MIN, MAX)                                                         \
    MEAN(positives_proved) MEAN(negatives_proved) MEAN(depth) MEAN(successors)                     \
    SUM(n_positives, n_positives) SUM(n_negatives, n_negatives) SUM(n_truncated, n_truncated)
// clang-format on

// the newest round of a table; by rowid, which needs no scan
#define NEWEST(table) "(SELECT round FROM " table " ORDER BY rowid DESC LIMIT 1)"

#define NEWEST_STEPPED "SELECT max(round) FROM event_env_stepped"

// the hundred rounds up to the one that is looked at
#define HUNDRED_ROUNDS "round > ?1 - 100 AND round <= ?1"

// the newest rows of one environment's episode, in the order of the query
#define MOST_TEXT(n) #n
#define MOST_ROWS(n) MOST_TEXT(n)
#define NEWEST_ROWS(event)                                                                         \
    "\nLIMIT " MOST_ROWS(ES_TABLE_MAX_ROWS) " OFFSET (SELECT max(count(*) - " MOST_ROWS(           \
        ES_TABLE_MAX_ROWS) ", 0)\n"                                                                \
                           "  FROM " event " WHERE round BETWEEN ?1 AND ?2 AND env = ?3)"

// a metric of the rails, of which an epoch has one
#define EPOCH_METRIC(name, column)                                                                 \
    ",\n  max(iif(name = 'tolaria." name "', value, NULL)) AS " column

// the step of an episode
#define STEP "iif(?4, round, step) AS step"

// the formatter cuts SQL into pieces around NEWEST
// clang-format off
static const Table tables[] = {
    {"run", "", "what was run, on what, and how it ended; one row",
     "SELECT run_id, kind, task, device, build, seed, n_envs, n_rounds, last_round,\n"
     "  n_host_parameters, n_ranks, started, outcome, detail, seconds,\n"
     "  n_dropped, n_lost, config,\n"
     "  1 + (SELECT count(*) FROM event_checkpoint_loaded) AS n_sessions,\n"
     "  (SELECT max(unix_time) - min(unix_time) FROM (\n"
     "    SELECT min(unix_time) AS unix_time FROM event_run_started UNION ALL\n"
     "    SELECT max(unix_time) FROM event_round_completed WHERE round =\n"
     "      (SELECT max(round) FROM event_round_completed))) AS elapsed_seconds\n"
     "FROM runs"},
    CURVE("curves", "rounds: accuracy, reward, loss, growth and speed, means of a bucket",
          "round_completed", "", ROUND_COLUMNS),
    CURVE("utilisation", "rounds: how busy the processors were, means of a bucket",
          "round_completed", "", UTILISATION_COLUMNS),
    CURVE("episodes", "episodes of training: accuracy, parameters, growth, by bucket of rounds",
          "episode_outcome", "WHERE arm IS NULL ", EPISODE_COLUMNS),
    {"last", "", "the newest complete round",
     "SELECT round, accuracy, reward, loss, seconds, steps_per_second, images_per_second\n"
     "FROM event_round_completed ORDER BY round DESC LIMIT 1"},
    {"reached", "u", "the round that is looked at, without one the newest complete one",
     "SELECT r.round, r.accuracy, r.reward, r.loss, r.n_fossils, r.seconds, r.steps_per_second,\n"
     "  r.images_per_second, u.entropy, u.kl_divergence, u.clip_fraction,\n"
     "  u.explained_variance, u.gradient_norm\n"
     "FROM (SELECT * FROM event_round_completed WHERE round <= ?1 ORDER BY round DESC LIMIT 1) r\n"
     "LEFT JOIN event_update_completed u ON u.round = r.round ORDER BY u.rowid DESC LIMIT 1"},
    {"reached_utilisation", "u", "how busy the processors were in that round",
     "SELECT utilisation FROM event_round_completed WHERE round <= ?1 ORDER BY round DESC LIMIT 1"},
    CURVE("updates", "the policy's updates (PPO), means of a bucket", "update_completed", "",
          UPDATE_COLUMNS),
    {"phases", "", "where the time of the last thousand rounds went, by phase",
     "SELECT phase, sum(n_calls) AS n_calls, sum(total_ms) AS total_ms, avg(p50_ms) AS p50_ms,\n"
     "  max(p95_ms) AS p95_ms, max(max_ms) AS max_ms\n"
     "FROM event_phase_profiled WHERE round > " NEWEST("event_phase_profiled") " - 1000\n"
     "  AND phase <> 'round' GROUP BY phase ORDER BY total_ms DESC"},
    {"environments", "r", "the newest recorded step of each environment of a round",
     "SELECT env, max(step) AS step, episode, train_loss, train_accuracy, validation_loss,\n"
     "  validation_accuracy, host_gradient_norm, n_seeds\n"
     "FROM event_env_stepped WHERE round = ?1 GROUP BY env ORDER BY env LIMIT 4096"},
    {"steps", "fles", "recorded steps of one environment in a round",
     "SELECT " STEP ", train_loss, train_accuracy, validation_loss, validation_accuracy,\n"
     "  host_gradient_norm, n_seeds\n"
     "FROM event_env_stepped WHERE round BETWEEN ?1 AND ?2 AND env = ?3 ORDER BY round, step"
     NEWEST_ROWS("event_env_stepped")},
    {"ends", "fles", "the last step of one environment's episode, once it has ended",
     "SELECT n_steps - 1 AS step FROM event_episode_outcome\n"
     "WHERE round BETWEEN ?1 AND ?2 AND env = ?3 AND ?4 = 0 AND arm IS NULL"},
    {"seeds", "fles", "seeds of one environment in a round: slot, blueprint, how they ended",
     "SELECT g.seed_id, g.slot, g.blueprint, g.style, g.tempo, g.n_parameters,\n"
     "  iif(?4, g.round, g.step) AS germinated_step, iif(?4, f.round, f.step) AS fossilized_step,\n"
     "  iif(?4, p.round, p.step) AS pruned_step,\n"
     "  coalesce(f.improvement, p.improvement) AS improvement,\n"
     "  coalesce(f.contribution, p.contribution) AS contribution, p.reason, p.initiator\n"
     "FROM event_seed_germinated g\n"
     "LEFT JOIN event_seed_fossilized f ON f.round BETWEEN ?1 AND ?2 AND f.seed_id = g.seed_id\n"
     "LEFT JOIN event_seed_pruned p ON p.round BETWEEN ?1 AND ?2 AND p.seed_id = g.seed_id\n"
     "WHERE g.round BETWEEN ?1 AND ?2 AND g.env = ?3 ORDER BY g.round, g.step, g.slot"
     NEWEST_ROWS("event_seed_germinated")},
    {"stages", "fles", "changes of stage of one environment's seeds in a round",
     "SELECT " STEP ", slot, seed_id, from_stage, to_stage, alpha, accuracy_delta\n"
     "FROM event_seed_stage_changed WHERE round BETWEEN ?1 AND ?2 AND env = ?3\n"
     "ORDER BY round, sequence, row" NEWEST_ROWS("event_seed_stage_changed")},
    {"contributions", "fles", "measured contributions of one environment's seeds in a round",
     "SELECT " STEP ", slot, contribution, velocity, interaction, shapley, shapley_error\n"
     "FROM event_contribution_measured WHERE round BETWEEN ?1 AND ?2 AND env = ?3\n"
     "ORDER BY round, step, slot" NEWEST_ROWS("event_contribution_measured")},
    {"measured", "fles", "measured seeds of one environment in a round: alpha, weight, gradient",
     "SELECT " STEP ", slot, seed_id, blueprint, stage, alpha, weight, share, gradient_norm,\n"
     "  health, ratio, conflict_ratio, teacher_share\n"
     "FROM event_seed_measured WHERE round BETWEEN ?1 AND ?2 AND env = ?3\n"
     "ORDER BY seed_id, round, step"},
    {"decisions", "fles", "decisions for one environment in a round, with their probability",
     "SELECT " STEP ", op, slot, blueprint, style, alpha_target, confidence, entropy, value,\n"
     "  is_forced, is_success, refusal\n"
     "FROM event_decision_taken WHERE round BETWEEN ?1 AND ?2 AND env = ?3 ORDER BY round, step"
     NEWEST_ROWS("event_decision_taken")},
    {"why", "fles", "of the newest thirty of these: legal values of the heads with probabilities",
     "SELECT * FROM (SELECT " STEP ", op_probabilities, slot_probabilities,\n"
     "  blueprint_probabilities, style_probabilities, tempo_probabilities,\n"
     "  alpha_target_probabilities, alpha_speed_probabilities, alpha_curve_probabilities\n"
     "  FROM event_decision_taken WHERE round BETWEEN ?1 AND ?2 AND env = ?3\n"
     "  ORDER BY round DESC, step DESC LIMIT 30) ORDER BY step"},
    {"heads", "fles", "values chosen in each head, over twenty rounds up to one; a fit: 500 epochs",
     "WITH span(first, last) AS (SELECT iif(?4,\n"
     "  max(?1, " NEWEST("event_decision_taken") " - 499), ?1 - 19), ?2),\n"
     "recent AS MATERIALIZED (SELECT round, step, op, slot, blueprint, style, tempo,\n"
     "  alpha_target, alpha_speed, alpha_curve FROM event_decision_taken\n"
     "  WHERE round BETWEEN (SELECT first FROM span) AND (SELECT last FROM span)),\n"
     "counted(place, head, value, n) AS (\n"
     // waiting is recorded on the stride alone: shares of operations are of its steps
     "SELECT 1, 'op', op, count(*) FROM recent WHERE (round, step) IN (SELECT round, step\n"
     "  FROM event_env_stepped WHERE round BETWEEN (SELECT first FROM span) AND\n"
     "  (SELECT last FROM span)) GROUP BY op\n"
     "UNION ALL SELECT 2, 'slot', slot, count(*) FROM recent GROUP BY slot\n"
     "UNION ALL SELECT 3, 'blueprint', blueprint, count(*) FROM recent GROUP BY blueprint\n"
     "UNION ALL SELECT 4, 'style', style, count(*) FROM recent GROUP BY style\n"
     "UNION ALL SELECT 5, 'tempo', tempo || iif(tempo = 1, ' step', ' steps'), count(*)\n"
     "  FROM recent GROUP BY tempo\n"
     "UNION ALL SELECT 6, 'alpha_target', printf('%.2g', alpha_target), count(*) FROM recent\n"
     "  WHERE alpha_target IS NOT NULL GROUP BY alpha_target\n"
     "UNION ALL SELECT 7, 'alpha_speed', alpha_speed, count(*) FROM recent GROUP BY alpha_speed\n"
     "UNION ALL SELECT 8, 'alpha_curve', alpha_curve, count(*) FROM recent GROUP BY alpha_curve)\n"
     "SELECT head, value, n, 100.0 * n / sum(n) OVER (PARTITION BY head) AS percent\n"
     "FROM counted WHERE value IS NOT NULL ORDER BY place, n DESC, value LIMIT 200"},
    {"slots", "", "slots that had a seed in the last hundred rounds",
     "SELECT slot, count(*) AS n FROM event_seed_germinated\n"
     "WHERE round > " NEWEST("event_seed_germinated") " - 100 GROUP BY slot ORDER BY slot"},
    {"topologies", "o", "networks of a round as they ended: seeds that stayed, by environment",
     "SELECT o.env, o.final_accuracy, o.parameter_ratio, o.reward, f.slot, f.blueprint,\n"
     "  f.n_parameters, f.contribution\n"
     "FROM event_episode_outcome o LEFT JOIN event_seed_fossilized f\n"
     "  ON f.round = o.round AND f.env = o.env AND f.episode = o.episode\n"
     "WHERE o.round = ?1 AND o.arm IS NULL\n"
     "ORDER BY o.final_accuracy DESC, o.env, f.slot LIMIT 400"},
    // without a summary a sample, the last round of each bucket: all decisions are too many
    {"actions", "b", "operations chosen in the recorded steps, by bucket of rounds",
     "WITH RECURSIVE sampled(round) AS (SELECT ?1 UNION ALL SELECT round + ?1 FROM sampled\n"
     "  WHERE round + ?1 <= " NEWEST("event_decision_taken") ")\n"
     "SELECT round, op, count(*) AS n, sum(is_forced) AS n_forced\n"
     "FROM sampled CROSS JOIN event_decision_taken d USING (round)\n"
     // on the stride, where waiting is recorded, too; not correlated: that would be quadratic
     "WHERE (round, step) IN (SELECT round, step FROM sampled CROSS JOIN event_env_stepped\n"
     "  USING (round))\n"
     "GROUP BY round, op\n"
     "ORDER BY round, op"},
    {"rewards", "r", "terms of the reward in a round, mean of its recorded steps",
     "SELECT count(*) AS n, avg(total) AS total, avg(attribution) AS attribution,\n"
     "  avg(action) AS action, avg(warning) AS warning, avg(synergy) AS synergy,\n"
     "  avg(rent) AS rent, avg(shock) AS shock, avg(occupancy) AS occupancy,\n"
     "  avg(terminal) AS terminal, avg(shaping) AS shaping, avg(penalty) AS penalty\n"
     "FROM event_reward_computed WHERE round = ?1"},
    {"outcomes", "", "held-out episodes of each policy and baseline, the run's own first",
     "SELECT arm AS variant, env, episode, task, test_accuracy, final_accuracy,\n"
     "  parameter_ratio, reward, n_fossils FROM event_episode_outcome\n"
     "WHERE round = " NEWEST("event_episode_outcome") " AND arm IS NOT NULL ORDER BY rowid"},
    {"blueprints", "", "seeds of the last hundred rounds by blueprint: how many stayed",
     "SELECT g.blueprint, count(*) AS n, count(f.seed_id) AS n_fossilized,\n"
     "  count(p.seed_id) AS n_pruned, avg(f.contribution) AS contribution\n"
     "FROM event_seed_germinated g\n"
     "LEFT JOIN (SELECT seed_id, contribution FROM event_seed_fossilized\n"
     "  WHERE round > " NEWEST("event_seed_germinated") " - 100) f ON f.seed_id = g.seed_id\n"
     "LEFT JOIN (SELECT seed_id FROM event_seed_pruned\n"
     "  WHERE round > " NEWEST("event_seed_germinated") " - 100) p ON p.seed_id = g.seed_id\n"
     "WHERE g.round > " NEWEST("event_seed_germinated") " - 100\n"
     "GROUP BY g.blueprint ORDER BY n DESC"},
    {"anomalies", "", "what rules found wrong, by rule",
     "SELECT rule, severity, count(*) AS n, min(round) AS first_round, max(round) AS last_round,\n"
     "  max(detail) AS detail FROM anomalies GROUP BY rule, severity ORDER BY n DESC LIMIT 100"},
    {"log", "", "the newest entries: seeds, anomalies, checkpoints, rails",
     "SELECT * FROM (\n"
     "SELECT unix_time, round, step, 'germinated ' || blueprint || ' in ' || slot ||\n"
     "  ', environment ' || env AS text, 'info' AS level FROM (SELECT * FROM\n"
     "  event_seed_germinated ORDER BY rowid DESC LIMIT 20)\n"
     "UNION ALL SELECT unix_time, round, step, 'fossilized ' || blueprint || ' in ' || slot ||\n"
     "  ', environment ' || env, 'good' FROM (SELECT * FROM event_seed_fossilized\n"
     "  ORDER BY rowid DESC LIMIT 20)\n"
     "UNION ALL SELECT unix_time, round, step, 'pruned ' || blueprint || ' in ' || slot ||\n"
     "  ', environment ' || env || coalesce(': ' || reason, ''), 'info' FROM (SELECT * FROM\n"
     "  event_seed_pruned ORDER BY rowid DESC LIMIT 20)\n"
     "UNION ALL SELECT unix_time, round, step, coalesce(detail, rule), severity FROM (SELECT *\n"
     "  FROM event_anomaly_detected ORDER BY rowid DESC LIMIT 20)\n"
     "UNION ALL SELECT unix_time, round, step, 'checkpoint ' || path, 'info' FROM (SELECT * FROM\n"
     "  event_checkpoint_saved ORDER BY rowid DESC LIMIT 5)\n"
     "UNION ALL SELECT unix_time, round, step, name, level FROM (SELECT * FROM\n"
     "  event_trainer_event ORDER BY rowid DESC LIMIT 20)\n"
     ") ORDER BY unix_time DESC LIMIT 40"},
    {"epochs", "", "the newest 2,000 epochs of a fit with rails: latency, breaker, mode",
     "SELECT round" EPOCH_METRIC("training.latency_ms", "latency_ms")
     EPOCH_METRIC("hook.latency_ms", "hook_ms") EPOCH_METRIC("training.loss", "loss")
     EPOCH_METRIC("training.accuracy", "accuracy") EPOCH_METRIC("breaker.state", "breaker")
     EPOCH_METRIC("mode.conservative", "is_conservative")
     EPOCH_METRIC("epochs.failed", "n_failed")
     " FROM event_metric WHERE round > " NEWEST("event_metric") " - 2000\n"
     "AND substr(name, 1, 8) = 'tolaria.' GROUP BY round HAVING latency_ms IS NOT NULL\n"
     "ORDER BY round"},
    {"rails", "", "what the rails of a fit did, the newest first",
     "SELECT round, time, name, level, attributes FROM trainer_events\n"
     "ORDER BY round DESC, time DESC LIMIT 100"},
    {"newest_metrics", "", "the newest value of each metric",
     "SELECT name, value, seed_id FROM event_metric\n"
     "WHERE round = " NEWEST("event_metric") "\n"
     // those of single seeds are many, and the first to be cut
     "ORDER BY seed_id IS NOT NULL, name, seed_id LIMIT 400"},
    CURVE("proofs", "rounds of proving: shares proved, depth, means of a bucket", "proof_round",
          "", PROOF_COLUMNS),
    {"proof_depths", "p", "true queries of a hundred rounds, all of them, by depth",
     "SELECT counted_by, depth, sum(n_asked) AS n, sum(n_proved) AS n_proved,\n"
     "  sum(n_asked * actions) / sum(n_asked) AS actions, min(round) AS first_round,\n"
     "  max(round) AS last_round FROM event_proof_depth_counted\n"
     "WHERE label = 1 AND " HUNDRED_ROUNDS "\n"
     "GROUP BY counted_by, depth ORDER BY counted_by = 'proof' DESC, depth"},
    {"proof_predicates", "p", "true queries of a hundred rounds, all of them, by predicate",
     "SELECT predicate, sum(n_asked) AS n, sum(n_proved) AS n_proved,\n"
     "  sum(n_asked * actions) / sum(n_asked) AS actions FROM event_proof_predicate_counted\n"
     "WHERE label = 1 AND " HUNDRED_ROUNDS "\n"
     "GROUP BY predicate ORDER BY 1.0 * sum(n_proved) / sum(n_asked) DESC, n DESC, predicate"},
    {"proof_corruptions", "p", "corruptions of a hundred rounds, all of them, by predicate",
     "SELECT predicate, sum(n_asked) AS n, sum(n_proved) AS n_proved,\n"
     "  sum(n_asked * actions) / sum(n_asked) AS actions FROM event_proof_predicate_counted\n"
     "WHERE label = 0 AND " HUNDRED_ROUNDS "\n"
     "GROUP BY predicate ORDER BY 1.0 * sum(n_proved) / sum(n_asked) DESC, n DESC, predicate"},
    {"proof_trees", "p", "the newest proofs that were found, as trees; a sample",
     "SELECT round, env, episode, query, n_steps, n_atoms, proof FROM event_proof_found\n"
     "WHERE round <= ?1 ORDER BY round DESC, rowid DESC LIMIT 4"},
    {"predicates", "", "sampled episodes of the last hundred rounds, by predicate",
     "SELECT substr(query, 1, instr(query, '(') - 1) AS predicate, count(*) AS n,\n"
     "  sum(is_proved) AS n_proved, avg(n_steps) AS steps FROM event_proof_episode\n"
     "WHERE label = 1 AND round > " NEWEST("event_proof_episode") " - 100\n"
     "GROUP BY 1 ORDER BY 1.0 * n_proved / n DESC, n DESC LIMIT 60"},
    {"depths", "", "sampled episodes of the last hundred rounds, by number of actions",
     "SELECT n_steps AS depth, count(*) AS n, sum(is_proved) AS n_proved\n"
     "FROM event_proof_episode\n"
     "WHERE label = 1 AND round > " NEWEST("event_proof_episode") " - 100\n"
     "GROUP BY n_steps ORDER BY n_steps LIMIT 40"},
    {"queries", "", "the newest sampled queries and what became of them",
     "SELECT round, query, label, is_proved, n_steps, reward FROM event_proof_episode\n"
     "ORDER BY rowid DESC LIMIT 20"},
    {"rankings", "", "the newest rankings against corruptions, with intervals",
     "SELECT * FROM (SELECT round, arm AS variant, split, n_queries, mrr, mrr_low, mrr_high,\n"
     "  hits_1, hits_3, hits_10 FROM rankings ORDER BY round DESC, arm DESC LIMIT 400)\n"
     "ORDER BY round, variant"},
    {"memory", "", "memory of the newest round, by device",
     "SELECT device, allocated_bytes, total_bytes, resident_bytes FROM event_memory_measured\n"
     "WHERE round = " NEWEST("event_memory_measured") " ORDER BY device LIMIT 16"},
};

static const SummedTable summed_tables[] = {
    SUMMED_CURVE("curves", "round_completed", ROUND_COLUMNS),
    SUMMED_CURVE("utilisation", "round_completed", UTILISATION_COLUMNS),
    SUMMED_CURVE("episodes", "episode_outcome", EPISODE_COLUMNS),
    SUMMED_CURVE("updates", "update_completed", UPDATE_COLUMNS),
    SUMMED_CURVE("proofs", "proof_round", PROOF_COLUMNS),
    {"actions", "decision_taken",
     "SELECT max(last) AS round, op, sum(n_rows) AS n, sum(is_forced_sum) AS n_forced"},
};
// clang-format on

int es_view_table_count(void) { return (int)ES_COUNT_OF(tables); }
const char *es_view_table_name(int index) { return tables[index].name; }
const char *es_view_table_help(int index) { return tables[index].help; }

// --- reading ---

static json_t *cell_of(const EsRunQuery *query, int column) {
    size_t bytes = 0;
    switch (es_run_query_cell(query, column)) {
    case ES_RUN_CELL_INT:
        return json_integer(es_run_query_int(query, column));
    case ES_RUN_CELL_REAL:
        return es_json_number(es_run_query_real(query, column));
    case ES_RUN_CELL_TEXT: {
        const char *text = es_run_query_text(query, column, &bytes);
        return es_text_json(text, bytes);
    }
    default:
        return json_null();
    }
}

static EsStatus read_rows(EsRunQuery *query, json_t *table) {
    int has_row = 0, n_columns = es_run_query_n_columns(query);
    for (int i = 0; i < n_columns; i++) {
        json_object_set_new(table, es_run_query_column_name(query, i), json_array());
    }
    for (int n = 0; n < ES_TABLE_MAX_ROWS; n++) {
        ES_TRY(es_run_query_step(query, &has_row));
        if (!has_row) {
            break;
        }
        for (int i = 0; i < n_columns; i++) {
            json_array_append_new(json_object_get(table, es_run_query_column_name(query, i)),
                                  cell_of(query, i));
        }
    }
    return es_json_lacked_memory() ? ES_FAIL(MEMORY, "a table of the run is too large")
                                   : ES_STATUS_OK;
}

// The first cell of a query without parameters; 0 when there is none.
static int64_t ask_int(EsRunView *view, const char *sql) {
    EsRunQuery *query = NULL;
    int has_row = 0;
    int64_t value = 0;
    if (es_run_query_begin(view->database, sql, &query) == ES_STATUS_OK &&
        es_run_query_step(query, &has_row) == ES_STATUS_OK && has_row) {
        value = es_run_query_int(query, 0);
    }
    es_run_query_end(query);
    return value;
}

int es_run_view_is_one_episode(const EsRunView *view) {
    const char *kind = es_run_view_kind(view);
    return strcmp(kind, "fit") == 0 || strcmp(kind, "hosts") == 0;
}

int64_t es_run_view_bucket(EsRunView *view, const EsViewQuestion *question) {
    int64_t n_points = question->n_points > 0 ? question->n_points : N_POINTS;
    if (question->bucket > 0) {
        return question->bucket;
    }
    int64_t n_rounds = ask_int(view, "SELECT max(round) FROM event_round_completed"), bucket = 1;
    while (bucket < INT64_MAX / 2 / n_points && bucket * n_points < n_rounds) {
        bucket *= 2; // summaries are of such
    }
    return bucket;
}

static int64_t parameter_value(EsRunView *view, char parameter, const EsViewQuestion *question) {
    if (parameter == 'e') {
        return question->env;
    }
    int is_whole = es_run_view_is_one_episode(view);
    if (parameter == 's' || (is_whole && parameter == 'f')) {
        return is_whole;
    }
    if (is_whole && parameter == 'l') {
        return INT64_MAX;
    }
    if (parameter != 'b' && question->round > 0) {
        return question->round;
    }
    if (parameter == 'u') {
        return INT64_MAX;
    }
    if (strchr("rfl", parameter) != NULL) {
        return ask_int(view, NEWEST_STEPPED);
    }
    if (parameter == 'o') {
        return ask_int(view, "SELECT round FROM event_episode_outcome WHERE arm IS NULL\n"
                             "ORDER BY round DESC LIMIT 1");
    }
    if (parameter == 'p') {
        return ask_int(view, "SELECT " NEWEST("event_proof_round"));
    }
    return es_run_view_bucket(view, question);
}

static const Table *find_table(const char *name) {
    for (size_t i = 0; i < ES_COUNT_OF(tables); i++) {
        if (strcmp(tables[i].name, name) == 0) {
            return &tables[i];
        }
    }
    return NULL;
}

static const SummedTable *find_summed(const char *name) {
    for (size_t i = 0; i < ES_COUNT_OF(summed_tables); i++) {
        if (strcmp(summed_tables[i].name, name) == 0) {
            return &summed_tables[i];
        }
    }
    return NULL;
}

static EsStatus read_table(EsRunView *view, const Table *wanted, const EsViewQuestion *question,
                           json_t **table) {
    EsRunQuery *query = NULL;
    *table = json_object();
    EsStatus status = ES_STATUS_OK;
    const SummedTable *summed = find_summed(wanted->name);
    int64_t bucket = summed != NULL ? es_run_view_bucket(view, question) : 1;
    if (summed != NULL) {
        status = es_run_query_begin_summed(view->database, summed->select, summed->summary, bucket,
                                           &query);
    }
    int is_summed = query != NULL;
    if (status == ES_STATUS_OK && !is_summed) {
        status = es_run_query_begin(view->database, wanted->sql, &query);
    }
    if (status == ES_STATUS_INPUT) {
        return ES_STATUS_OK; // written by an earlier version, which lacks a table or a column
    }
    for (int i = 0; status == ES_STATUS_OK && !is_summed && wanted->parameters[i] != '\0'; i++) {
        status = es_run_query_bind_int(query, i + 1,
                                       parameter_value(view, wanted->parameters[i], question));
    }
    if (status == ES_STATUS_OK) {
        status = read_rows(query, *table);
    }
    es_run_query_end(query);
    if (status != ES_STATUS_OK) {
        json_decref(*table);
        *table = NULL;
    }
    return status;
}

static int is_same(const EsViewQuestion *a, const EsViewQuestion *b) {
    return a->round == b->round && a->env == b->env && a->n_points == b->n_points &&
           a->bucket == b->bucket;
}

EsStatus es_run_view_read(EsRunView *view, const char *name, const EsViewQuestion *question,
                          json_t **table) {
    const Table *wanted = find_table(name);
    if (wanted == NULL) {
        return ES_FAIL(ARGUMENT, "a run has no table \"%.40s\"", name);
    }
    for (int i = 0; i < view->n_remembered; i++) {
        const Remembered *known = &view->remembered[i];
        if (known->name == wanted->name && is_same(&known->question, question)) {
            *table = json_incref(known->table);
            return ES_STATUS_OK;
        }
    }
    ES_TRY(read_table(view, wanted, question, table));
    if (view->n_remembered < N_REMEMBERED) {
        view->remembered[view->n_remembered++] =
            (Remembered){wanted->name, *question, json_incref(*table)};
    }
    return ES_STATUS_OK;
}

EsStatus es_run_view_resolve(EsRunView *view, EsViewQuestion *question) {
    if (question->round <= 0) {
        question->round = ask_int(view, NEWEST_STEPPED);
    }
    if (question->env >= 0) {
        return ES_STATUS_OK;
    }
    EsRunQuery *query = NULL;
    int has_row = 0;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_run_query_begin(view->database,
                                   "SELECT env FROM event_env_stepped WHERE round = ?1\n"
                                   "ORDER BY validation_accuracy DESC, env LIMIT 1",
                                   &query));
    ES_TRY_GOTO(es_run_query_bind_int(query, 1, question->round));
    ES_TRY_GOTO(es_run_query_step(query, &has_row));
    question->env = has_row ? es_run_query_int(query, 0) : 0;
done:
    es_run_query_end(query);
    return status;
}

// The path of a file of the network that the run has kept.
static void write_network_path(const EsRunView *view, const char *name, char path[4200]) {
    const char *database = es_run_database_path(view->database), *slash = strrchr(database, '/');
    int n_folder = slash != NULL ? (int)(slash - database) : 0;
    snprintf(path, 4200, "%.*s%snetworks/1/%s", n_folder, database, n_folder > 0 ? "/" : "", name);
}

EsStatus es_run_view_network(EsRunView *view, json_t **network) {
    char path[4200];
    write_network_path(view, "network.json", path);
    *network = NULL;
    EsStatus status = es_json_load(path, network);
    return status == ES_STATUS_MEMORY ? status : ES_STATUS_OK;
}

EsStatus es_run_view_confusion(EsRunView *view, json_t **confusion) {
    char path[4200];
    void *text = NULL;
    size_t bytes = 0;
    json_error_t error;
    write_network_path(view, "confusion.json", path);
    *confusion = NULL;
    if (access(path, F_OK) != 0) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_file_read_all(path, CONFUSION_BYTES_MAX, &text, &bytes));
    EsStatus status = es_json_parse("networks/1/confusion.json", text, bytes, confusion, &error);
    es_release(text);
    return status;
}

// --- the run ---

// Copies the lines of a configuration that say what is trained and how: no comments, no seed, no
// threads.
static void copy_recipe(const char *config, char *recipe) {
    size_t length = 0;
    while (*config != '\0') {
        size_t bytes = strcspn(config, "\n");
        if (bytes > 0 && config[0] != '#' && strncmp(config, "seed =", 6) != 0 &&
            strncmp(config, "threads =", 9) != 0) {
            memcpy(recipe + length, config, bytes);
            recipe[length + bytes] = '\n';
            length += bytes + 1;
        }
        config += bytes + (config[bytes] == '\n');
    }
    recipe[length] = '\0';
}

EsStatus es_run_view_open(const char *path, EsRunView **view) {
    EsRunView *made = NULL;
    ES_TRY(es_allocate(sizeof *made, (void **)&made));
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_run_database_open(path, &made->database));
    es_run_database_set_limits(made->database, TABLE_SECONDS, NULL);
    ES_TRY_GOTO(es_run_view_read(made, "run", &(EsViewQuestion){0}, &made->run));
    if (json_object_size(made->run) == 0) { // a run that has not begun has no rows, but columns
        status = ES_FAIL(INPUT, "%s is a database, but not of a run", path);
        goto done;
    }
    const char *config = es_column_text(made->run, "config", 0);
    ES_TRY_GOTO(es_allocate(strlen(config) + 2, (void **)&made->recipe));
    copy_recipe(config, made->recipe);
    *view = made;
    return ES_STATUS_OK;
done:
    es_run_view_close(made);
    return status;
}

void es_run_view_close(EsRunView *view) {
    if (view != NULL) {
        es_run_database_close(view->database);
        for (int i = 0; i < view->n_remembered; i++) {
            json_decref(view->remembered[i].table);
        }
        json_decref(view->run);
        es_release(view->recipe);
        es_release(view);
    }
}

const char *es_run_view_name(const EsRunView *view) {
    return es_column_text(view->run, "run_id", 0);
}
const char *es_run_view_kind(const EsRunView *view) { return es_column_text(view->run, "kind", 0); }
int64_t es_run_view_seed(const EsRunView *view) {
    double seed = es_column_real(view->run, "seed", 0);
    return isfinite(seed) ? (int64_t)seed : 0;
}

const char *es_run_view_recipe(const EsRunView *view) { return view->recipe; }

// --- cells ---

int es_table_n_rows(const json_t *table) {
    json_t *object = (json_t *)table;
    void *first = json_object_iter(object);
    return first != NULL ? (int)json_array_size(json_object_iter_value(first)) : 0;
}

int es_table_is_full(const json_t *table) { return es_table_n_rows(table) >= ES_TABLE_MAX_ROWS; }

double es_column_real(const json_t *table, const char *column, int row) {
    const json_t *cell = json_array_get(json_object_get(table, column), (size_t)row);
    return json_is_number(cell) ? json_number_value(cell) : NAN;
}

const char *es_column_text(const json_t *table, const char *column, int row) {
    const char *text =
        json_string_value(json_array_get(json_object_get(table, column), (size_t)row));
    return text != NULL ? text : "";
}
