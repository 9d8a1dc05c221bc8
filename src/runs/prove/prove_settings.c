// The table of configuration keys, built from the lists of the modules below, then the settings,
// graph and queries that follow from their values.
#include "runs/prove/prove_settings.h"

#include <string.h>

#include "base/macros.h"
#include "base/memory.h"
#include "proof/graph/kinship_graph.h"
#include "proof/graph/knowledge_file.h"

// --- keys ---

#define CONFIG_float(field, section, key, start, lowest, highest, help)                            \
    ES_CONFIG_FLOAT(EsProveSettings, field, section, key, start, lowest, highest, help)
#define CONFIG_int(field, section, key, start, lowest, highest, help)                              \
    ES_CONFIG_INT(EsProveSettings, field, section, key, start, lowest, highest, help)

// Numbers of PPO are keys but those with a DERIVED_ macro: they follow from other settings, or
// belong to outputs that a proof policy does not have. The comma puts OMIT in the place of the
// second argument.
#define DERIVED_total_updates            , OMIT
#define DERIVED_entropy_anneal           , OMIT
#define DERIVED_entropy_floor_scale      , OMIT
#define DERIVED_action_value_coefficient , OMIT
#define DERIVED_auxiliary_coefficient    , OMIT
#define DERIVED_auxiliary_warmup         , OMIT
#define DERIVED_auxiliary_clip           , OMIT
#define DERIVED_bootstraps               , OMIT
#define OMIT(...)
#define KEY_float(...)    CONFIG_float(__VA_ARGS__),
#define KEY_int(...)      CONFIG_int(__VA_ARGS__),
#define SECOND(a, b, ...) b
#define CHOOSE(...)       SECOND(__VA_ARGS__)

// Defaults of proofs where they are not those of growth.
#define START_rate              , "0.001"
#define START_target_kl         , "0.07"
#define START_gamma             , "0.99"
#define START_lambda            , "0.95"
#define START_max_norm          , "0.5"
#define START_entropy_start     , "0.05"
#define START_entropy_end       , "0.005"
#define SECOND_START(a, b, ...) b
#define CHOOSE_START(...)       SECOND_START(__VA_ARGS__)

#define PPO_KEY(type, name, start, lowest, highest, help)                                          \
    CHOOSE(DERIVED_##name, KEY_##type, ~)                                                          \
    (ppo.name, "ppo", #name, CHOOSE_START(START_##name, #start, ~), lowest, highest, help)
#define POLICY_KEY(type, name, start, lowest, highest, help)                                       \
    KEY_##type(policy.name, "policy", #name, #start, lowest, highest, help)
#define SCHEDULE_KEY(type, name, start, lowest, highest, help)                                     \
    KEY_##type(schedule.name, "ppo", #name, #start, lowest, highest, help)

#define INT(field, section, key, start, lowest, highest, help)                                     \
    CONFIG_int(field, section, key, start, lowest, highest, help)
#define BOOL(field, section, key, start, help)                                                     \
    ES_CONFIG_BOOL(EsProveSettings, field, section, key, start, help)
#define CHOICE(field, section, key, start, words, help)                                            \
    ES_CONFIG_CHOICE(EsProveSettings, field, section, key, start, words, help)

static const EsConfigKey keys[] = {
    ES_RUN_CONFIG_KEYS_CALLED(EsProveSettings, run, "prove", "round", "200", 1,
                              "total number of rounds", "cpu"),
    ES_CONFIG_TEXT(EsProveSettings, folder, "prove", "folder", "",
                   "folder with train.txt, rules.txt, valid.txt, test.txt (empty: generated)"),
    ES_CONFIG_TEXT(EsProveSettings, rules, "prove", "rules", "",
                   "rules instead of rules.txt: a file of that folder, or a path"),
    INT(n_people, "prove", "people", "1000", ES_KINSHIP_MIN_PEOPLE, ES_KINSHIP_MAX_PEOPLE,
        "people of the generated graph"),
    INT(graph_seed, "prove", "graph_seed", "1", 0, 2147483647, "seed of the generated graph"),
    INT(n_envs, "env", "envs", "128", 1, ES_PROOF_MAX_ENVS,
        "environments, each with a proof of its own"),
    INT(n_steps, "env", "steps", "32", 1, 4096, "steps of every environment between two updates"),
    CHOICE(selection, "env", "selection", "constrained", "constrained|leftmost",
           "goal to resolve next"),
    INT(max_atoms, "env", "max_atoms", "6", 1, ES_PROOF_MAX_ATOMS,
        "maximum atoms left to prove at a time"),
    INT(max_states, "env", "max_states", "0", 0, 32767,
        "maximum successors of a state, 0 = as many as the graph can give"),
    INT(max_depth, "env", "max_depth", "20", 1, ES_PROOF_MAX_DEPTH, "maximum steps of a proof"),
    BOOL(has_end, "env", "end", "on", "offer giving up as a choice"),
    BOOL(has_memory, "env", "memory", "on", "do not offer states of the same episode again"),
    BOOL(skips_unary, "env", "skip_unary", "off", "skip states with one successor"),
    INT(min_query_depth, "env", "min_query_depth", "0", 0, 1000,
        "minimum depth of a query; 0 with max_query_depth 0 = any"),
    INT(max_query_depth, "env", "max_query_depth", "0", 0, 1000,
        "maximum depth of a query; 0 with min_query_depth 0 = any"),
    BOOL(finds_depths, "env", "find_depths", "off",
         "find depths of queries by breadth-first search, not in published files"),
    BOOL(is_balanced, "env", "balance_depths", "off",
         "train on every depth of the range equally often"),
    CHOICE(order, "env", "order", "uniform", "uniform|round_robin", "order of queries"),
    INT(n_negatives, "env", "negatives", "1", 0, 1000, "corruptions after each query"),
    CHOICE(corrupts, "env", "corrupt", "both", "both|head|tail",
           "arguments that corruptions replace: head is the first, tail the others"),
    BOOL(uses_domains, "env", "domains", "off",
         "replace arguments by constants of the same domain"),
    INT(reward_type, "env", "reward", "4", 0, ES_N_PROOF_REWARDS - 1,
        "reward type, see docs/proving.md"),
    ES_PROOF_POLICY_SETTINGS(POLICY_KEY) // ends in a comma
    CHOICE(embedder, "policy", "embedder", "transe", ES_PROOF_EMBEDDERS,
           "embedding of an atom: transe p + h - t, sum p - h - t"),
    CHOICE(encoder, "policy", "encoder", "names", ES_PROOF_ENCODERS,
           "what the policy knows of constants and predicates: their names, or what they do"),
    ES_PPO_SETTINGS(PPO_KEY)                 // likewise
    ES_PROOF_SCHEDULE_SETTINGS(SCHEDULE_KEY) // likewise
    INT(anneal_rounds, "ppo", "anneal_rounds", "0", 0, 1000000000,
        "rounds of the learning rate and entropy schedules, 0 = all of the run"),
    CHOICE(search, "search", "kind", "best_first", "breadth|best_first|beam|greedy|sampled",
           "kind of search for validation and comparison"),
    CHOICE(score, "search", "score", "probability", "proved|shortest|probability|evidence",
           "score of a candidate"),
    CONFIG_float(temperature, "search", "temperature", "3", 0.001, 1e6,
                 "divisor of log-probabilities of proofs in evidence"),
    CONFIG_float(value_weight, "search", "value_weight", "0", 0, ES_SEARCH_MAX_VALUE_WEIGHT,
                 "weight of log(value of a state) in the order of best_first and beam"),
    INT(n_nodes, "search", "nodes", "50", 1, 1000000000, "maximum expansions per candidate"),
    INT(search_depth, "search", "max_depth", "4", 1, ES_SEARCH_MAX_DEPTH,
        "maximum steps of a proof, also for the symbolic baseline"),
    INT(beam_width, "search", "beam_width", "16", 1, 1 << 20, "states kept per level of a beam"),
    INT(n_samples, "search", "samples", "16", 1, 1 << 20, "walks of a sampled search"),
    INT(search_batch, "search", "batch", "4", 1, 1 << 16, "states scored together"),
    BOOL(search_end, "search", "end", "on",
         "offer giving up in searches, too: its share of probability separates queries"),
    INT(validate_every, "validate", "every", "20", 0, 1000000000,
        "rounds between validations, besides that of the last round; 0 = none"),
    INT(n_validated, "validate", "queries", "200", 1, 1000000000,
        "queries of the split valid to rank, evenly spaced"),
    INT(n_validated_corruptions, "validate", "corruptions", "20", 1, 1000000000,
        "corruptions per validation query and argument"),
    INT(n_evaluated, "evaluate", "queries", "500", -1, 1000000000,
        "queries of the split test to rank at the end; 0 = all, -1 = no comparison"),
    INT(n_evaluated_corruptions, "evaluate", "corruptions", "100", 0, 1000000000,
        "corruptions per test query and argument, 0 = all"),
    INT(n_proofs, "evaluate", "proofs", "-1", -1, 1000000000,
        "queries of the split test, of two steps or more, whose proofs by [search] are counted by "
        "depth; 0 = all, -1 = none"),
};

EsConfig es_prove_run_config(EsProveSettings *settings) {
    EsConfig config = {keys, ES_COUNT_OF(keys), settings, sizeof *settings};
    memset(settings, 0, sizeof *settings);
    es_config_reset(&config);
    return config;
}

// --- settings that follow from the keys ---

EsStatus es_prove_settings_check(const EsProveSettings *settings) {
    if (settings->folder[0] == '\0' && settings->rules[0] != '\0') {
        return ES_FAIL(CONFIG, "[prove] rules goes with a folder; a generated graph has its own");
    }
    if (settings->min_query_depth > settings->max_query_depth) {
        return ES_FAIL(CONFIG, "[env] min_query_depth is %d, above max_query_depth %d",
                       settings->min_query_depth, settings->max_query_depth);
    }
    if (settings->score == ES_SCORE_EVIDENCE &&
        (settings->search == ES_SEARCH_GREEDY || settings->search == ES_SEARCH_SAMPLED)) {
        return ES_FAIL(CONFIG,
                       "[search] score evidence needs all proofs, which kind %s does not "
                       "look for",
                       es_search_kind_names[settings->search]);
    }
    if (settings->value_weight > 0 && settings->search != ES_SEARCH_BEST_FIRST &&
        settings->search != ES_SEARCH_BEAM) {
        return ES_FAIL(CONFIG, "[search] value_weight orders best_first and beam, not kind %s",
                       es_search_kind_names[settings->search]);
    }
    if (settings->is_balanced && settings->max_query_depth == 0) {
        return ES_FAIL(CONFIG,
                       "[env] balance_depths needs a range of depths; max_query_depth is 0");
    }
    if (strcmp(settings->run.device, "cpu") != 0) {
        return ES_FAIL(CONFIG, "[run] device is %s; proofs are trained on the cpu",
                       settings->run.device);
    }
    return ES_STATUS_OK;
}

// Depths of the facts up to max_query_depth, each proved without itself, in place of published
// ones.
static EsStatus find_depths(const EsProveSettings *settings, EsKnowledgeGraph *graph) {
    EsQuerySplit *split = &graph->splits[ES_KG_SPLIT_TRAIN];
    EsProverSettings prover = es_prover_defaults();
    EsProverReport report;
    EsThreadPool *pool = NULL;
    prover.selection = (EsGoalSelection)settings->selection;
    prover.max_atoms = settings->max_atoms;
    prover.max_depth = settings->max_query_depth;
    ES_TRY(es_thread_pool_create(&pool, settings->run.n_threads));
    EsStatus status = es_prover_find_depths(graph, &prover, pool, split->atoms, split->count,
                                            split->depths, &report);
    es_thread_pool_destroy(pool);
    return status;
}

static EsStatus make_graph(const EsProveSettings *settings, EsKnowledgeGraph **graph) {
    if (settings->folder[0] == '\0') {
        return es_kinship_graph_create(settings->n_people, (uint64_t)settings->graph_seed, graph);
    }
    return es_kg_load(settings->folder, settings->rules[0] != '\0' ? settings->rules : NULL, graph);
}

EsStatus es_prove_settings_graph(const EsProveSettings *settings, EsKnowledgeGraph **graph) {
    EsStatus status = ES_STATUS_OK;
    ES_TRY(make_graph(settings, graph));
    if (settings->uses_domains) {
        status =
            es_corruptions_need_domains(*graph, "[env] domains", es_prove_settings_data(settings));
    }
    if (status == ES_STATUS_OK && settings->finds_depths && settings->max_query_depth > 0) {
        status = find_depths(settings, *graph);
    }
    if (status != ES_STATUS_OK) {
        es_kg_destroy(*graph);
        *graph = NULL;
    }
    return status;
}

const char *es_prove_settings_data(const EsProveSettings *settings) {
    const char *slash = strrchr(settings->folder, '/');
    if (settings->folder[0] == '\0') {
        return "generated";
    }
    return slash != NULL && slash[1] != '\0' ? slash + 1 : settings->folder;
}

static void set_sides(const EsProveSettings *settings, int sides[ES_N_CORRUPT_SIDES]) {
    sides[ES_CORRUPT_HEAD] = settings->corrupts != 2;
    sides[ES_CORRUPT_TAIL] = settings->corrupts != 1;
}

EsProofTrainingSettings es_prove_settings_training(const EsProveSettings *settings) {
    EsProofTrainingSettings made = es_proof_training_defaults();
    EsPpoSettings defaults = made.ppo;
    made.seed = (uint64_t)settings->run.seed;
    made.ranks = settings->run.ranks;
    made.n_steps = settings->n_steps;
    made.policy = settings->policy;
    made.policy.embedder = (EsProofEmbedder)settings->embedder;
    made.policy.encoder = (EsProofEncoder)settings->encoder;
    made.ppo = settings->ppo;
    memcpy(made.ppo.head, defaults.head, sizeof made.ppo.head);
    made.ppo.auxiliary_clip = defaults.auxiliary_clip;
    made.schedule = settings->schedule;
    made.schedule.n_rounds =
        settings->anneal_rounds > 0 ? settings->anneal_rounds : settings->run.n_rounds;
    made.env.n_envs = settings->n_envs;
    made.env.selection = (EsGoalSelection)settings->selection;
    made.env.max_atoms = settings->max_atoms;
    made.env.max_states = settings->max_states;
    made.env.max_depth = settings->max_depth;
    made.env.has_end = settings->has_end;
    made.env.has_memory = settings->has_memory;
    made.env.skips_unary = settings->skips_unary;
    made.env.min_query_depth = settings->min_query_depth;
    made.env.max_query_depth = settings->max_query_depth;
    made.env.order = (EsQueryOrder)settings->order;
    made.env.n_negatives = settings->n_negatives;
    set_sides(settings, made.env.is_corrupting);
    made.env.uses_domains = settings->uses_domains;
    made.env.reward_type = settings->reward_type;
    return made;
}

EsProofSearchSettings es_prove_settings_search(const EsProveSettings *settings) {
    EsProofSearchSettings made = es_proof_search_defaults();
    made.kind = (EsSearchKind)settings->search;
    made.selection = (EsGoalSelection)settings->selection;
    made.max_expanded = settings->n_nodes;
    made.max_depth = settings->search_depth;
    made.max_atoms = settings->max_atoms;
    made.beam_width = settings->beam_width;
    made.n_samples = settings->n_samples;
    made.batch = settings->search_batch;
    made.has_end = settings->search_end;
    made.temperature = (double)settings->temperature;
    made.value_weight = (double)settings->value_weight;
    made.seed = (uint64_t)settings->run.seed;
    return made;
}

EsRankingSettings es_prove_settings_ranking(const EsProveSettings *settings, int n_corruptions) {
    EsRankingSettings made = es_ranking_defaults();
    made.n_corruptions = n_corruptions;
    made.corruptions.uses_domains = settings->uses_domains;
    set_sides(settings, made.uses_side);
    return made;
}

// --- queries ---

EsStatus es_prove_queries_create(const EsKnowledgeGraph *graph, EsKgSplit split, int32_t n,
                                 EsProveQueries *queries) {
    const EsRankingChoice choice = {
        .split = split, .min_arity = 1, .max_arity = ES_KG_MAX_ARITY, .n = n, .is_spaced = 1};
    *queries = (EsProveQueries){.count = 0};
    return es_ranking_take(graph, &choice, &queries->atoms, &queries->count);
}

int32_t es_prove_queries_count(const EsKnowledgeGraph *graph, EsKgSplit split) {
    const EsRankingChoice choice = {.split = split, .min_arity = 1, .max_arity = ES_KG_MAX_ARITY};
    return es_ranking_count(graph, &choice);
}

void es_prove_queries_destroy(EsProveQueries *queries) {
    es_release(queries->atoms);
    queries->atoms = NULL;
    queries->count = 0;
}

// Facts of one depth whose predicate heads a rule, as an environment takes them; into `atoms`
// unless it is NULL. Returns how many.
static int32_t list_depth(const EsKnowledgeGraph *graph, int32_t depth, EsAtom *atoms) {
    const EsQuerySplit *split = &graph->splits[ES_KG_SPLIT_TRAIN];
    size_t cells = (size_t)graph->query_cells;
    int32_t count = 0;
    for (int32_t i = 0; i < split->count; i++) {
        const EsAtom *query = es_kg_query(graph, ES_KG_SPLIT_TRAIN, i);
        int32_t n_rules;
        es_kg_rules_of(graph, query->predicate, &n_rules);
        if (split->depths[i] == depth && n_rules > 0) {
            if (atoms != NULL) {
                memcpy(atoms + (size_t)count * cells, query, cells * sizeof *atoms);
            }
            count++;
        }
    }
    return count;
}

EsStatus es_prove_balance_queries(const EsProveSettings *settings, const EsKnowledgeGraph *graph,
                                  EsProveQueries *queries) {
    int32_t most = 0, n_depths = 0;
    *queries = (EsProveQueries){.count = 0};
    for (int32_t d = settings->min_query_depth; d <= settings->max_query_depth; d++) {
        int32_t count = list_depth(graph, d, NULL);
        most = ES_MAX(most, count);
        n_depths += count > 0;
    }
    if (most == 0) {
        return ES_FAIL(INPUT, "no fact of %s has a depth of %d to %d to train on",
                       es_prove_settings_data(settings), settings->min_query_depth,
                       settings->max_query_depth);
    }
    size_t capacity = (size_t)n_depths * (size_t)most;
    if (capacity > INT32_MAX) {
        return ES_FAIL(MEMORY, "%zu queries of balanced depths, above %d", capacity, INT32_MAX);
    }
    size_t cells = (size_t)graph->query_cells;
    ES_TRY(es_allocate(capacity * cells * sizeof *queries->atoms, (void **)&queries->atoms));
    for (int32_t d = settings->min_query_depth; d <= settings->max_query_depth; d++) {
        EsAtom *atoms = queries->atoms + (size_t)queries->count * cells;
        int32_t count = list_depth(graph, d, atoms);
        for (size_t i = (size_t)count * cells; count > 0 && i < (size_t)most * cells; i++) {
            atoms[i] = atoms[i - (size_t)count * cells];
        }
        queries->count += count > 0 ? most : 0;
    }
    return ES_STATUS_OK;
}
