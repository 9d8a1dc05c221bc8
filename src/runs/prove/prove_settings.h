// The settings of a run of kind "prove": graph, environment, policy, learning, search, validation
// and comparison. Lists of the modules below become keys as they are.
#ifndef ES_RUNS_PROVE_SETTINGS_H
#define ES_RUNS_PROVE_SETTINGS_H

#include "proof/agent/proof_training.h"
#include "proof/ranking/ranking_scorers.h"
#include "runs/run_settings.h"

typedef struct EsProveSettings {
    EsRunSettings run;
    // [prove]
    char folder[1024]; // "" = generated
    char rules[1024];  // "" = rules.txt of the folder
    int n_people;
    int graph_seed;
    // [env]
    int n_envs, n_steps;
    int selection; // EsGoalSelection
    int max_atoms, max_states, max_depth;
    int has_end, has_memory, skips_unary;
    int min_query_depth, max_query_depth;
    int finds_depths, is_balanced;
    int order; // EsQueryOrder
    int n_negatives;
    int corrupts; // 0 both, 1 head, 2 tail
    int uses_domains;
    int reward_type;
    // [policy]
    EsProofPolicySettings policy;
    int embedder, encoder;
    // [ppo]
    EsPpoSettings ppo; // es_prove_settings_training fills fields without a key
    EsProofSchedule schedule;
    int anneal_rounds; // 0 = all rounds of the run
    // [search]
    int search; // EsSearchKind
    int score;  // EsScoreKind
    float temperature, value_weight;
    int n_nodes, search_depth, beam_width, n_samples, search_batch, search_end;
    // [validate]
    int validate_every; // 0 = never
    int n_validated, n_validated_corruptions;
    // [evaluate]
    int n_evaluated; // -1 = none
    int n_evaluated_corruptions;
    int n_proofs; // -1 = none
} EsProveSettings;

// The declared keys over `settings`, which is filled with defaults.
EsConfig es_prove_run_config(EsProveSettings *settings);

// Checks the settings against each other, beyond the ranges of single keys.
EsStatus es_prove_settings_check(const EsProveSettings *settings);

// Read or make the graph, with the depths of its facts that the settings ask for.
EsStatus es_prove_settings_graph(const EsProveSettings *settings, EsKnowledgeGraph **graph);

// The name of the graph: the folder's last component, or "generated".
const char *es_prove_settings_data(const EsProveSettings *settings);

EsProofTrainingSettings es_prove_settings_training(const EsProveSettings *settings);
EsProofSearchSettings es_prove_settings_search(const EsProveSettings *settings);

// Candidates of `n_corruptions` a side, of the sides that are corrupted in training.
EsRankingSettings es_prove_settings_ranking(const EsProveSettings *settings, int n_corruptions);

// --- queries ---

// Evenly spaced queries of a split, owned.
typedef struct EsProveQueries {
    EsAtom *atoms; // (count x query_cells of the graph)
    int32_t count;
} EsProveQueries;

// Queries to rank, n of them evenly spaced, 0: all. Those without arguments have no corruption to
// be ranked against and are left out.
EsStatus es_prove_queries_create(const EsKnowledgeGraph *graph, EsKgSplit split, int32_t n,
                                 EsProveQueries *queries);
void es_prove_queries_destroy(EsProveQueries *queries);

// How many such queries there are.
int32_t es_prove_queries_count(const EsKnowledgeGraph *graph, EsKgSplit split);

// Queries to train on in which every depth comes as often as every other. Deep facts are few, 4 %
// of those of family; drawn evenly they would hardly be seen.
//
// Facts whose depth in the graph is min_query_depth to max_query_depth, by depth. Those of a depth
// that has fewer than another are repeated until there are as many: all n times, and the first of
// them once more. INPUT when there are none.
EsStatus es_prove_balance_queries(const EsProveSettings *settings, const EsKnowledgeGraph *graph,
                                  EsProveQueries *queries);

#endif
