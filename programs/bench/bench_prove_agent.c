#include "bench/bench_prove_agent.h"

#include "base/clock.h"
#include "base/memory.h"
#include "proof/agent/proof_policy_inference.h"
#include "proof/agent/proof_training.h"
#include "proof/ranking/ranking_scorers.h"
#include "prove/prove_action.h"

#define ROUND_STEPS 32
// of the ranking: queries, corruptions of either side, and nodes of a search
#define N_QUERIES     16
#define N_CORRUPTIONS 20
#define N_NODES       20

typedef struct AgentState {
    const EsBenchProve *wanted;
    EsKnowledgeGraph *graph; // owned, as is all below
    EsProofTraining *training;
    double env_ms, policy_ms, update_ms; // of all rounds
    EsProofTraineeCounters kept;         // after the last
    int n_threads;
    // evaluation
    EsKnownAtoms *known;
    EsProofGuides guides;
    EsProofScorer *scorer;
} AgentState;

void es_bench_prove_agent_end(void *context) {
    AgentState *state = context;
    if (state == NULL) {
        return;
    }
    es_proof_scorer_destroy(state->scorer);
    es_proof_guides_destroy(&state->guides);
    es_known_atoms_destroy(state->known);
    es_proof_training_destroy(state->training);
    es_kg_destroy(state->graph);
    es_release(state);
}

static EsStatus open_training(AgentState *state, const EsBench *bench) {
    EsProveSource source = {.folder = state->wanted->folder, .seed = 1};
    EsProofTrainingSettings settings = es_proof_training_defaults();
    settings.env.n_slots = state->wanted->n_envs;
    settings.n_steps = ROUND_STEPS;
    if (state->wanted->n_wide > 0) {
        settings.policy.embed = settings.policy.hidden = state->wanted->n_wide;
        settings.policy.layers = state->wanted->n_layers;
    }
    ES_TRY(es_prove_source_load(&source, &state->graph));
    ES_TRY(es_proof_training_create(bench->device, state->graph, &settings, &state->training));
    state->n_threads = es_thread_pool_size(es_proof_training_pool(state->training));
    return ES_STATUS_OK;
}

static EsStatus finish_begin(EsStatus status, AgentState *state, void **state_out) {
    if (status != ES_STATUS_OK) {
        es_bench_prove_agent_end(state);
        state = NULL;
    }
    *state_out = state;
    return status;
}

EsStatus es_bench_prove_agent_begin(const EsBenchCase *bench_case, const EsBench *bench,
                                    void **state_out) {
    AgentState *state = NULL;
    ES_TRY(es_allocate(sizeof *state, (void **)&state));
    state->wanted = bench_case->settings;
    return finish_begin(open_training(state, bench), state, state_out);
}

// --- rounds ---

static void add_round(AgentState *state, const EsProofRound *round) {
    state->env_ms += round->env_ms;
    state->policy_ms += round->policy_ms;
    state->update_ms += round->update_ms;
    state->kept = es_proof_training_counters(state->training);
}

EsStatus es_bench_prove_rollout_run(void *context, int variant) {
    AgentState *state = context;
    EsProofRound round;
    (void)variant;
    ES_TRY(es_proof_training_rollout(state->training, NULL, &round));
    add_round(state, &round);
    return ES_STATUS_OK;
}

EsStatus es_bench_prove_train_run(void *context, int variant) {
    AgentState *state = context;
    EsProofRound round;
    (void)variant;
    ES_TRY(es_proof_training_round(state->training, NULL, &round));
    add_round(state, &round);
    return ES_STATUS_OK;
}

double es_bench_prove_count_steps(const EsBenchCase *bench_case) {
    return (double)((const EsBenchProve *)bench_case->settings)->n_envs * ROUND_STEPS;
}

// What the threads did in the network counts by their number; what is missing to the time that it
// took is waiting for the last of them.
int es_bench_prove_agent_parts(void *context, EsBenchPart parts[ES_BENCH_MAX_PARTS]) {
    const AgentState *state = context;
    double all = state->env_ms + state->policy_ms + state->update_ms;
    double embed = state->kept.embed_ms / state->n_threads;
    double layers = state->kept.layer_ms / state->n_threads;
    const EsBenchPart found[] = {
        {"environment", "% environment", state->env_ms / all},
        {"embedding", "% embedding", embed / all},
        {"linear layers", "% linear layers", layers / all},
        {"transfers", "% transfers", 0}, // all is in one memory
        {"synchronisation", "% synchronisation", (state->kept.network_ms - embed - layers) / all},
        {"other", "% other", (state->policy_ms + state->update_ms - state->kept.network_ms) / all}};
    for (size_t i = 0; i < ES_COUNT_OF(found); i++) {
        parts[i] = found[i];
    }
    return ES_COUNT_OF(found);
}

// --- evaluation ---

static EsStatus open_ranking(AgentState *state, const EsBench *bench) {
    EsProofSearchSettings search = es_proof_search_defaults();
    search.max_expanded = N_NODES;
    search.max_depth = 4;
    search.batch = 4;
    ES_TRY(open_training(state, bench));
    if (state->graph->splits[ES_KG_SPLIT_TEST].count < N_QUERIES) {
        return ES_FAIL(INPUT, "the graph has %d test queries; %d are ranked",
                       state->graph->splits[ES_KG_SPLIT_TEST].count, N_QUERIES);
    }
    ES_TRY(es_known_atoms_create(state->graph, &state->known));
    ES_TRY(es_proof_guides_create(es_proof_training_policy(state->training), state->n_threads,
                                  &state->guides));
    return es_proof_scorer_create_search(state->graph, &search, state->guides.guides,
                                         ES_SCORE_PROBABILITY, state->n_threads, &state->scorer);
}

EsStatus es_bench_prove_ranking_begin(const EsBenchCase *bench_case, const EsBench *bench,
                                      void **state_out) {
    AgentState *state = NULL;
    ES_TRY(es_allocate(sizeof *state, (void **)&state));
    state->wanted = bench_case->settings;
    return finish_begin(open_ranking(state, bench), state, state_out);
}

// The judges begin anew each time: what they remember of the run before would make it look faster.
EsStatus es_bench_prove_ranking_run(void *context, int variant) {
    AgentState *state = context;
    EsRankingSettings settings = es_ranking_defaults();
    EsProofPolicy *policy = es_proof_training_policy(state->training);
    EsCandidateScorer scorer = es_proof_scorer_candidates(state->scorer);
    EsRanking *ranking = NULL;
    (void)variant;
    settings.n_corruptions = N_CORRUPTIONS;
    es_proof_policy_copy(policy, policy);
    ES_TRY(
        es_ranking_create(state->known, &settings, &scorer, es_proof_training_pool(state->training),
                          state->graph->splits[ES_KG_SPLIT_TEST].atoms, NULL, N_QUERIES, &ranking));
    es_ranking_destroy(ranking);
    return ES_STATUS_OK;
}

double es_bench_prove_count_candidates(const EsBenchCase *bench_case) {
    (void)bench_case;
    return N_QUERIES * (1 + ES_N_CORRUPT_SIDES * N_CORRUPTIONS);
}
