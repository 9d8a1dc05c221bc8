// The hooks of a run of kind "prove": a round trains and now and then validates, a checkpoint holds
// training, counters and the best weights, and the end writes policies and the comparison.
#include "runs/prove/prove_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/range_check.h"
#include "proof/agent/proof_policy_file.h"
#include "proof/agent/proof_policy_inference.h"
#include "runs/prove/prove_evaluate.h"
#include "runs/prove/prove_events.h"
#include "runs/prove/prove_settings.h"
#include "runs/stop_signal.h"

// files of a checkpoint: weights with the optimiser, the rest of the training, the best weights
#define TRAINING_FILE "training.safetensors"
#define STATE_FILE    "training.bin"
#define BEST_FILE     "best.safetensors"
// of a finished run: the best weights, the last, and how the best compare
#define POLICY_FILE     "policy.safetensors"
#define LAST_FILE       "last.safetensors"
#define EVALUATION_FILE "evaluation.json"

struct EsProveRun {
    const EsProveSettings *settings; // borrowed
    EsKnowledgeGraph *graph;         // owned, as is all below
    char hash[ES_SHA256_TEXT_BYTES]; // of the graph
    EsDevice *device;
    EsProofTraining *training;
    EsStateHash *hasher;
    EsProofPolicy *best; // weights of the best validation
    int64_t best_round;  // 0: none yet
    double best_mrr;
    EsKnownAtoms *known;
    EsProveQueries valid;
    EsProofCounts *counts;
    EsProofRound last;
    int has_last;
    EsProveEvaluation evaluation;
    int has_evaluation;
    EsProveProofs proofs;
    int has_proofs;
    EsRun *run; // borrowed, during a round
    EsEventTime time;
};

// --- set-up ---

static void hash_names(EsSha256 *hash, const char **names, int32_t count) {
    for (int32_t i = 1; i <= count; i++) {
        es_sha256_append(hash, names[i], strlen(names[i]) + 1);
    }
}

// Everything that a run reads of a graph but its domains, whose use shows in the settings.
static void hash_graph(const EsKnowledgeGraph *graph, char text[ES_SHA256_TEXT_BYTES]) {
    EsSha256 hash;
    es_sha256_begin(&hash);
    hash_names(&hash, graph->constant_names, graph->n_constants);
    hash_names(&hash, graph->predicate_names, graph->n_predicates);
    es_sha256_append(&hash, graph->facts, (size_t)graph->n_facts * sizeof *graph->facts);
    if (graph->has_wide) {
        es_sha256_append(&hash, graph->wide.atoms, 2 * (size_t)graph->wide.count * sizeof(EsAtom));
    }
    for (int32_t r = 0; r < graph->n_rules; r++) {
        const EsHornRule *rule = &graph->rules[r];
        es_sha256_append(&hash, &rule->head,
                         (size_t)es_kg_cells(graph, rule->head.predicate) * sizeof rule->head);
        es_sha256_append(&hash, rule->body, (size_t)ES_MAX(rule->n_body, 3) * sizeof *rule->body);
    }
    for (int s = 0; s < ES_KG_N_SPLITS; s++) {
        const EsQuerySplit *split = &graph->splits[s];
        es_sha256_append(&hash, split->atoms,
                         (size_t)split->count * (size_t)graph->query_cells * sizeof *split->atoms);
        es_sha256_append(&hash, split->depths, (size_t)split->count * sizeof *split->depths);
    }
    es_sha256_end(&hash, text);
}

// The training, on queries that the settings ask for.
static EsStatus create_training(EsProveRun *prove, EsProofTrainingSettings *training) {
    EsProveQueries queries = {.count = 0};
    if (prove->settings->is_balanced) {
        ES_TRY(es_prove_balance_queries(prove->settings, prove->graph, &queries));
        training->env.queries = queries.atoms;
        training->env.n_queries = queries.count;
    }
    EsStatus status =
        es_proof_training_create(prove->device, prove->graph, training, &prove->training);
    es_prove_queries_destroy(&queries); // the environment has a copy
    training->env.queries = NULL;
    return status;
}

static EsStatus create_parts(EsProveRun *prove) {
    const EsProveSettings *settings = prove->settings;
    EsDeviceOptions options = {.n_threads = settings->run.n_threads};
    ES_TRY(es_prove_settings_check(settings));
    ES_TRY(es_prove_settings_graph(settings, &prove->graph));
    hash_graph(prove->graph, prove->hash);
    ES_TRY(es_device_open("cpu", &options, &prove->device));
    EsProofTrainingSettings training = es_prove_settings_training(settings);
    ES_TRY(create_training(prove, &training));
    ES_TRY(es_proof_counts_create(prove->graph, es_proof_training_env(prove->training),
                                  &prove->counts));
    ES_TRY(es_proof_policy_create(prove->device, prove->graph, &training.policy, training.seed,
                                  &prove->best));
    ES_TRY(es_state_hash_create(prove->device, 1, &prove->hasher));
    ES_TRY(es_known_atoms_create(prove->graph, &prove->known));
    ES_TRY(es_prove_queries_create(prove->graph, ES_KG_SPLIT_VALID, settings->n_validated,
                                   &prove->valid));
    int is_compared = settings->n_evaluated >= 0 || settings->n_proofs >= 0;
    // a ranking leaves out queries without arguments
    int32_t n_test = settings->n_evaluated >= 0
                         ? es_prove_queries_count(prove->graph, ES_KG_SPLIT_TEST)
                         : prove->graph->splits[ES_KG_SPLIT_TEST].count;
    if (is_compared && n_test == 0) {
        return ES_FAIL(
            INPUT, "%s has no queries %sin the split test to compare on; %s=-1 trains without",
            es_prove_settings_data(settings), settings->n_evaluated >= 0 ? "with arguments " : "",
            settings->n_evaluated >= 0 ? "--evaluate.queries" : "--evaluate.proofs");
    }
    return ES_STATUS_OK;
}

EsStatus es_prove_run_create(const EsProveSettings *settings, EsProveRun **prove_out) {
    EsProveRun *prove = NULL;
    *prove_out = NULL;
    ES_TRY(es_allocate(sizeof *prove, (void **)&prove));
    prove->settings = settings;
    EsStatus status = create_parts(prove);
    if (status != ES_STATUS_OK) {
        es_prove_run_destroy(prove);
        return status;
    }
    *prove_out = prove;
    return ES_STATUS_OK;
}

void es_prove_run_destroy(EsProveRun *prove) {
    if (prove == NULL) {
        return;
    }
    es_proof_counts_destroy(prove->counts);
    es_prove_queries_destroy(&prove->valid);
    es_known_atoms_destroy(prove->known);
    es_proof_policy_destroy(prove->best);
    es_state_hash_destroy(prove->hasher);
    es_proof_training_destroy(prove->training);
    es_device_close(prove->device);
    es_kg_destroy(prove->graph);
    es_release(prove);
}

// --- memory ---

// Bytes of the guides of all threads in a ranking.
static double find_ranking_bytes(const EsProveRun *prove, const EsProofSample *sample,
                                 int32_t n_queries, int n_corruptions) {
    const EsProveSettings *settings = prove->settings;
    int32_t all = es_corruptions_capacity(prove->known);
    int n_threads = es_thread_pool_size(es_proof_training_pool(prove->training));
    double n_negatives = n_corruptions > 0 ? ES_MIN(n_corruptions, all) : all;
    double n_places = prove->graph->has_wide ? ES_KG_MAX_ARITY : 2;
    double n_searches = n_queries * (1 + n_places * n_negatives) / n_threads;
    double n_nodes = settings->n_nodes;
    if (settings->search == ES_SEARCH_GREEDY || settings->search == ES_SEARCH_SAMPLED) {
        double n_walks = settings->search == ES_SEARCH_SAMPLED ? settings->n_samples : 1;
        n_nodes = ES_MIN(n_nodes, n_walks * settings->search_depth);
    }
    double n_states = n_searches * n_nodes * sample->n_successors;
    return n_queries > 0 ? (double)n_threads *
                               (double)es_proof_guide_bytes(prove->best, n_states, sample->n_atoms)
                         : 0;
}

EsStatus es_prove_run_need(EsProveRun *prove, EsRunNeed *need) {
    const EsProveSettings *settings = prove->settings;
    EsProofSample sample;
    ES_TRY(es_proof_training_sample(prove->training, &sample));
    double validation = 0, comparison = 0;
    if (settings->validate_every > 0) {
        validation = find_ranking_bytes(prove, &sample, prove->valid.count,
                                        settings->n_validated_corruptions);
    }
    if (settings->n_evaluated >= 0) {
        comparison =
            find_ranking_bytes(prove, &sample, es_prove_evaluated_queries(settings, prove->graph),
                               settings->n_evaluated_corruptions);
    }
    *need = (EsRunNeed){.sure_bytes = sample.least_bytes,
                        .peak_bytes = sample.round_bytes + (size_t)ES_MAX(validation, comparison)};
    return ES_STATUS_OK;
}

// --- validation ---

// Threads ask this, each in its own time, and ranks could not agree: several of them finish the
// ranking.
static int must_drop(void *context) {
    EsProveRun *prove = context;
    return es_ranks_count(prove->settings->run.ranks) == 1 && es_run_must_drop(prove->run);
}

static int was_asked_to_stop(void *context) {
    (void)context;
    return es_stop_signal_time_ns() != 0;
}

static EsProveRanker make_ranker(EsProveRun *prove, int (*must_stop)(void *context)) {
    return (EsProveRanker){.settings = prove->settings,
                           .graph = prove->graph,
                           .known = prove->known,
                           .pool = es_proof_training_pool(prove->training),
                           .must_stop = must_stop,
                           .context = prove};
}

// Rank the validation queries with the weights at hand, and keep these when they did best.
static EsStatus validate(EsProveRun *prove, EsRun *run, int64_t round,
                         int (*must_stop)(void *context)) {
    EsProveRanker ranker = make_ranker(prove, must_stop);
    EsProofPolicy *policy = es_proof_training_policy(prove->training);
    EsProveRanked ranked = {.variant = "policy", .split = "valid"};
    EsRanking *ranking = NULL;
    int64_t start_ns = es_clock_ns();
    ES_TRY(es_prove_rank(&ranker, policy, &prove->valid, prove->settings->n_validated_corruptions,
                         &ranking, &ranked.report));
    double mrr = ranking->all.reciprocal.mean;
    ranked.is_best = prove->best_round == 0 || mrr > prove->best_mrr;
    if (ranked.is_best) {
        prove->best_round = round;
        prove->best_mrr = mrr;
        es_proof_policy_copy(prove->best, policy);
    }
    ranked.all = &ranking->all;
    ranked.seconds = es_run_phase_end(run, ES_PHASE_VALIDATE, start_ns) * 1e-3;
    es_prove_events_ranked(es_run_hub(run), (EsEventTime){.round = round, .step = -1}, &ranked);
    es_ranking_destroy(ranking);
    return ES_STATUS_OK;
}

static int has_validation(const EsProveRun *prove) {
    return prove->settings->validate_every > 0 && prove->valid.count > 0;
}

static int is_validated(const EsProveRun *prove, int64_t round) {
    return has_validation(prove) && round % prove->settings->validate_every == 0;
}

// --- a round ---

static EsStatus step_done(void *context, const EsProofEnv *env, int32_t step) {
    EsProveRun *prove = context;
    EsHub *hub = es_run_hub(prove->run);
    if (es_run_must_drop(prove->run)) {
        return ES_FAIL(INTERRUPTED, "the round was dropped");
    }
    prove->time.step = step;
    if (es_hub_wants(hub, ES_EVENT_PROOF_EPISODE, step)) {
        es_prove_events_stepped(hub, prove->time, prove->graph, env);
    }
    es_proof_counts_step(prove->counts, hub, prove->time, env);
    es_hub_tick(hub);
    return ES_STATUS_OK;
}

static void count_phases(const EsProveRun *prove) {
    const EsProofRound *round = &prove->last;
    int64_t now_ns = es_clock_ns();
    es_run_phase_end(prove->run, ES_PHASE_ENVIRONMENT, now_ns - (int64_t)(round->env_ms * 1e6));
    es_run_phase_end(prove->run, ES_PHASE_DECIDE, now_ns - (int64_t)(round->policy_ms * 1e6));
    es_run_phase_end(prove->run, ES_PHASE_UPDATE, now_ns - (int64_t)(round->update_ms * 1e6));
}

static void summarise(const EsProveRun *prove, EsRoundReport *report) {
    const EsProofEnvCounters *counted = &prove->last.counted;
    report->n_episodes = counted->n_episodes[0] + counted->n_episodes[1];
    report->n_steps = counted->n_steps;
    report->n_images = ES_MISSING_INT;
    report->accuracy = es_prove_accuracy(counted);
    if (report->n_episodes > 0) {
        report->reward = (counted->reward[0] + counted->reward[1]) / (double)report->n_episodes;
    }
    // an update without a step had outputs or gradients that are not finite; weights seldom are
    // not, since such steps are left out
    report->has_diverged = prove->last.update.is_skipped ||
                           !es_proof_policy_is_finite(es_proof_training_policy(prove->training));
    if (prove->best_round > 0) {
        report->score = prove->best_mrr; // a checkpoint has the best weights of all before it
    }
}

static EsStatus hash_state(EsProveRun *prove, EsRoundReport *report) {
    es_state_hash_begin(prove->hasher);
    ES_TRY(es_proof_training_append_state(prove->training, prove->hasher));
    snprintf(report->state_hash, sizeof report->state_hash, "%016llx",
             (unsigned long long)es_state_hash_value(prove->hasher));
    return ES_STATUS_OK;
}

static EsStatus run_round(void *context, EsRun *run, int64_t round, EsRoundReport *report) {
    EsProveRun *prove = context;
    EsProofWatch watch = {prove, step_done};
    prove->run = run;
    prove->time = (EsEventTime){.round = round, .step = 0};
    es_proof_counts_reset(prove->counts);
    ES_TRY(es_proof_training_round(prove->training, &watch, &prove->last));
    prove->has_last = 1;
    prove->time.step = -1;
    count_phases(prove);
    es_prove_events_round(run, prove->time, &prove->last);
    es_proof_counts_emit(prove->counts, es_run_hub(run), prove->time);
    if (is_validated(prove, round)) {
        ES_TRY(validate(prove, run, round, must_drop));
    }
    summarise(prove, report);
    return hash_state(prove, report);
}

// --- the end ---

static EsStatus save_policy(EsRun *run, const EsProofPolicy *policy, const char *name,
                            char hash[ES_SHA256_TEXT_BYTES]) {
    char path[ES_RUN_PATH_BYTES];
    es_run_folder_path(es_run_folder(run), name, path);
    ES_TRY(es_proof_policy_file_save(policy, path));
    return es_sha256_file(path, hash, NULL);
}

// Checks whether an earlier session has compared these weights, and the policy's file is as it left
// it. The best weights in memory stay those of the checkpoint; they are not used any more.
static EsStatus take_comparison(EsProveRun *prove, EsRun *run, int *is_taken) {
    char path[ES_RUN_PATH_BYTES], hash[ES_SHA256_TEXT_BYTES];
    EsProveEvaluation saved;
    es_run_folder_path(es_run_folder(run), EVALUATION_FILE, path);
    ES_TRY(es_prove_evaluation_take(path, &prove->evaluation, &saved, is_taken));
    if (!*is_taken) {
        return ES_STATUS_OK;
    }
    es_run_folder_path(es_run_folder(run), POLICY_FILE, path);
    EsStatus status = es_sha256_file(path, hash, NULL);
    *is_taken = status == ES_STATUS_OK && strcmp(hash, saved.policy_hash) == 0;
    if (!*is_taken) {
        return status == ES_STATUS_MEMORY ? status : ES_STATUS_OK;
    }
    prove->evaluation = saved;
    prove->has_evaluation = 1;
    prove->best_round = saved.best_round;
    prove->best_mrr = saved.best_mrr;
    es_prove_evaluation_emit(&saved, run);
    return ES_STATUS_OK;
}

// The weights that the run began with.
static EsStatus create_untrained(const EsProveRun *prove, EsProofPolicy **untrained) {
    EsProofTrainingSettings training = es_prove_settings_training(prove->settings);
    return es_proof_policy_create(prove->device, prove->graph, &training.policy, training.seed,
                                  untrained);
}

static EsStatus compare(EsProveRun *prove, EsRun *run) {
    char path[ES_RUN_PATH_BYTES];
    EsProveRanker ranker = make_ranker(prove, was_asked_to_stop);
    EsProofPolicy *untrained = NULL;
    ES_TRY(create_untrained(prove, &untrained));
    prove->evaluation.best_round = prove->best_round;
    prove->evaluation.best_mrr = prove->best_mrr;
    EsStatus status = es_prove_evaluate(&ranker, prove->best, untrained, run, &prove->evaluation);
    es_proof_policy_destroy(untrained);
    ES_TRY(status);
    prove->has_evaluation = 1;
    es_run_folder_path(es_run_folder(run), EVALUATION_FILE, path);
    return es_prove_evaluation_save(&prove->evaluation, path);
}

// The searches of the policy's file, best weights or not in memory; quick enough to be made again
// by every session that finishes.
static EsStatus compare_searches(EsProveRun *prove, EsRun *run) {
    char path[ES_RUN_PATH_BYTES];
    const EsQuerySplit *test = &prove->graph->splits[ES_KG_SPLIT_TEST];
    EsProofPolicy *trained = NULL, *untrained = NULL;
    EsStatus status = ES_STATUS_OK;
    if (prove->settings->n_proofs < 0) {
        return ES_STATUS_OK;
    }
    es_run_folder_path(es_run_folder(run), POLICY_FILE, path);
    ES_TRY_GOTO(create_untrained(prove, &untrained));
    ES_TRY_GOTO(es_proof_policy_file_load(prove->device, prove->graph, path, &trained));
    EsProveContest contest = {.graph = prove->graph,
                              .settings = es_prove_settings_search(prove->settings),
                              .trained = trained,
                              .untrained = untrained,
                              .pool = es_proof_training_pool(prove->training),
                              .queries = test->atoms,
                              .n_queries = test->count,
                              .max_steps = prove->settings->search_depth,
                              .n_most = prove->settings->n_proofs};
    ES_TRY_GOTO(es_prove_proofs_count(&contest, &prove->proofs));
    prove->has_proofs = 1;
done:
    es_proof_policy_destroy(trained);
    es_proof_policy_destroy(untrained);
    return status;
}

// The last weights count among the best; this is decided outside of any checkpoint, so that
// a run that goes on to more rounds is the same as one that never stopped.
static EsStatus finish_rankings(EsProveRun *prove, EsRun *run) {
    const EsProofPolicy *last = es_proof_training_policy(prove->training);
    const EsProveSettings *settings = prove->settings;
    int64_t round = es_proof_training_rounds_done(prove->training);
    EsProveEvaluation *evaluation = &prove->evaluation;
    *evaluation =
        (EsProveEvaluation){.n_rounds = round,
                            .n_queries = es_prove_evaluated_queries(settings, prove->graph),
                            .n_corruptions = settings->n_evaluated_corruptions};
    ES_TRY(save_policy(run, last, LAST_FILE, evaluation->last_hash));
    int is_taken = 0;
    if (settings->n_evaluated >= 0) {
        ES_TRY(take_comparison(prove, run, &is_taken));
    }
    if (is_taken) {
        return ES_STATUS_OK;
    }
    if (has_validation(prove) && !is_validated(prove, round)) {
        ES_TRY(validate(prove, run, round, was_asked_to_stop));
    }
    if (prove->best_round == 0) {
        es_proof_policy_copy(prove->best, last);
    }
    ES_TRY(save_policy(run, prove->best, POLICY_FILE, evaluation->policy_hash));
    return settings->n_evaluated >= 0 ? compare(prove, run) : ES_STATUS_OK;
}

// By rank 0 alone: the others have nothing to add.
static EsStatus finish(void *context, EsRun *run) {
    if (!es_run_is_writer(run)) {
        return ES_STATUS_OK;
    }
    ES_TRY(finish_rankings(context, run));
    return compare_searches(context, run);
}

// --- state ---

static void describe(void *context, EsRunStartedEvent *row) {
    const EsProveRun *prove = context;
    row->task = es_prove_settings_data(prove->settings);
    row->n_envs = prove->settings->n_envs;
}

static EsStatus save(void *context, EsCheckpoint *checkpoint) {
    EsProveRun *prove = context;
    char weights[ES_RUN_PATH_BYTES], state[ES_RUN_PATH_BYTES], best[ES_RUN_PATH_BYTES];
    ES_TRY(es_checkpoint_put_text(checkpoint, "graph_sha256", prove->hash));
    ES_TRY(es_checkpoint_put_int(checkpoint, "best_round", prove->best_round));
    ES_TRY(es_checkpoint_put_real(checkpoint, "best_mrr", prove->best_mrr));
    ES_TRY(es_checkpoint_add_file(checkpoint, TRAINING_FILE, weights));
    ES_TRY(es_checkpoint_add_file(checkpoint, STATE_FILE, state));
    ES_TRY(es_proof_training_save(prove->training, weights, state));
    if (prove->best_round == 0) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_checkpoint_add_file(checkpoint, BEST_FILE, best));
    return es_proof_policy_file_save(prove->best, best);
}

static EsStatus load_best(EsProveRun *prove, const EsCheckpoint *checkpoint) {
    char path[ES_RUN_PATH_BYTES];
    return es_proof_policy_file_reload(prove->best,
                                       es_checkpoint_path(checkpoint, BEST_FILE, path));
}

// The best validation so far; its mean is NaN when no query had a corruption to be ranked against.
static EsStatus take_best(EsProveRun *prove, const EsCheckpoint *checkpoint) {
    char path[ES_RUN_PATH_BYTES];
    es_checkpoint_path(checkpoint, "rank0.json", path);
    ES_TRY(es_checkpoint_int(checkpoint, "best_round", &prove->best_round));
    ES_TRY(es_checkpoint_real(checkpoint, "best_mrr", &prove->best_mrr));
    ES_TRY(es_check_integer((EsFileField){path, "best_round", ES_NO_INDEX}, prove->best_round, 0,
                            es_checkpoint_round(checkpoint)));
    return isnan(prove->best_mrr)
               ? ES_STATUS_OK
               : es_check_real((EsFileField){path, "best_mrr", ES_NO_INDEX}, prove->best_mrr, 0, 1);
}

static EsStatus load(void *context, const EsCheckpoint *checkpoint) {
    EsProveRun *prove = context;
    char weights[ES_RUN_PATH_BYTES], state[ES_RUN_PATH_BYTES];
    ES_TRY(
        es_checkpoint_check_input(checkpoint, "graph_sha256", prove->hash, "the knowledge graph"));
    ES_TRY(take_best(prove, checkpoint));
    ES_TRY(es_proof_training_load(prove->training,
                                  es_checkpoint_path(checkpoint, TRAINING_FILE, weights),
                                  es_checkpoint_path(checkpoint, STATE_FILE, state)));
    int64_t round = es_checkpoint_round(checkpoint);
    ES_TRY(es_check_integer((EsFileField){state, "rounds done", ES_NO_INDEX},
                            es_proof_training_rounds_done(prove->training), round, round));
    return prove->best_round > 0 ? load_best(prove, checkpoint) : ES_STATUS_OK;
}

EsRunWork es_prove_run_work(EsProveRun *prove) {
    return (EsRunWork){.context = prove,
                       .describe = describe,
                       .round = run_round,
                       .save = save,
                       .load = load,
                       .finish = finish};
}

// --- looking at it ---

const char *es_prove_run_data_hash(const EsProveRun *prove) { return prove->hash; }

const EsKnowledgeGraph *es_prove_run_graph(const EsProveRun *prove) { return prove->graph; }

EsProofTraining *es_prove_run_training(EsProveRun *prove) { return prove->training; }

int64_t es_prove_run_best(const EsProveRun *prove, double *mrr) {
    *mrr = prove->best_mrr;
    return prove->best_round;
}

const EsProveEvaluation *es_prove_run_evaluation(const EsProveRun *prove) {
    return prove->has_evaluation ? &prove->evaluation : NULL;
}

const EsProveProofs *es_prove_run_proofs(const EsProveRun *prove) {
    return prove->has_proofs ? &prove->proofs : NULL;
}

const EsProofRound *es_prove_run_last(const EsProveRun *prove) {
    return prove->has_last ? &prove->last : NULL;
}
