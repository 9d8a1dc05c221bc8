// `esper prove train`: trains a policy to prove queries of a knowledge graph.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/frame.h"
#include "cli/run_program.h"
#include "prove/prove_action.h"
#include "runs/prove/prove_evaluate.h"
#include "runs/prove/prove_run.h"

// titles of the variants in the table
static const char *const variant_titles[ES_N_PROVE_VARIANTS] = {
    "trained policy",          "untrained policy",
    "symbolic, proved or not", "symbolic, shortest proof first",
    "uniform best-first",      "breadth-first"};

// --- results ---

static EsStatus print_json(const EsProveRun *prove, const EsProveSettings *settings,
                           const char *folder) {
    const EsProveEvaluation *evaluation = es_prove_run_evaluation(prove);
    const EsProveProofs *proofs = es_prove_run_proofs(prove);
    double mrr = 0;
    int64_t best_round = es_prove_run_best(prove, &mrr);
    json_t *root =
        json_pack("{s:s, s:s, s:i, s:i, s:I, s:o, s:o, s:o}", "run", folder, "data",
                  es_prove_settings_data(settings), "seed", settings->run.seed, "rounds",
                  settings->run.n_rounds, "best_round", (json_int_t)best_round, "validation_mrr",
                  best_round > 0 ? es_json_number(mrr) : json_null(), "evaluation",
                  evaluation != NULL ? es_prove_evaluation_json(evaluation) : json_null(), "proofs",
                  proofs != NULL ? es_prove_proofs_json(proofs) : json_null());
    return es_json_print(root, 15);
}

static void print_variant(const EsProveVariant *variant, int kind) {
    const EsRankingSummary *all = &variant->all;
    char difference[48] = "";
    if (kind != ES_PROVE_VARIANT_POLICY) {
        snprintf(difference, sizeof difference, "%+.3f [%+.3f, %+.3f]", variant->difference.mean,
                 variant->difference.low, variant->difference.high);
    }
    printf("%-32s %.3f [%.3f, %.3f]  %.3f  %.3f  %5.1f %%  %6.2f %%  %9.1f   %s\n",
           variant_titles[kind], all->reciprocal.mean, all->reciprocal.low, all->reciprocal.high,
           all->hits[0], all->hits[2], 100.0 * all->n_proved / ES_MAX(all->n_queries, 1),
           100.0 * (double)all->n_negatives_proved / (double)ES_MAX(all->n_negatives, 1),
           (double)variant->report.n_expanded / (double)ES_MAX(variant->report.n_candidates, 1),
           difference);
}

// Says how many queries of a split no ranking can have.
static void note_without(const EsKnowledgeGraph *graph, EsKgSplit split, const char *ranking) {
    int32_t n_without = graph->splits[split].count - es_prove_queries_count(graph, split);
    if (n_without > 0) {
        printf("%d %s without arguments, and so without corruptions, %s left out of the %s\n",
               n_without, es_prove_noun(n_without, "query", "queries"),
               es_prove_noun(n_without, "is", "are"), ranking);
    }
}

static void print_evaluation(const EsProveEvaluation *evaluation, const EsProveSettings *settings,
                             const EsKnowledgeGraph *graph) {
    char corruptions[32] = "all";
    if (settings->n_evaluated_corruptions > 0) {
        snprintf(corruptions, sizeof corruptions, "%d", settings->n_evaluated_corruptions);
    }
    es_print("%s: %d test %s against %s %s %s; proofs of at most %d %s, policies by %s search with "
             "%d %s",
             es_prove_settings_data(settings), evaluation->n_queries,
             es_prove_noun(evaluation->n_queries, "query", "queries"), corruptions,
             es_prove_noun(settings->n_evaluated_corruptions, "corruption", "corruptions"),
             es_prove_per_place(graph), settings->search_depth,
             es_prove_noun(settings->search_depth, "step", "steps"),
             es_search_kind_names[settings->search], settings->n_nodes,
             es_prove_noun(settings->n_nodes, "node", "nodes"));
    es_prove_print_value_weight((double)settings->value_weight);
    printf("\n");
    printf("%-32s %-20s  %-5s  %-5s  %7s  %8s  %9s   %s\n", "", "MRR, 95 %", "H@1", "H@10",
           "proved", "negatives", "nodes", "trained - this");
    for (int a = 0; a < ES_N_PROVE_VARIANTS; a++) {
        print_variant(&evaluation->variants[a], a);
    }
}

static EsStatus print_results(void *prove, const EsRunInput *input, const char *folder) {
    const EsProveSettings *settings = input->config->settings;
    const EsProveEvaluation *evaluation = es_prove_run_evaluation(prove);
    double mrr = 0;
    int64_t best_round = es_prove_run_best(prove, &mrr);
    if (input->as_json) {
        return print_json(prove, settings, folder);
    }
    if (best_round > 0) {
        printf("best on validation: round %lld, MRR %.3f\n", (long long)best_round, mrr);
    }
    note_without(es_prove_run_graph(prove), ES_KG_SPLIT_VALID, "validation");
    if (evaluation != NULL) {
        print_evaluation(evaluation, settings, es_prove_run_graph(prove));
        note_without(es_prove_run_graph(prove), ES_KG_SPLIT_TEST, "ranking");
    }
    if (es_prove_run_proofs(prove) != NULL) {
        es_prove_print_proofs(es_prove_run_proofs(prove));
    }
    if (!input->command->is_quiet) {
        es_message(
            "the policy is in %s/policy.safetensors; use it with esper prove eval --policy\n",
            folder);
    }
    return ES_STATUS_OK;
}

// --- dry run ---

// Runs one round and prints its figures.
static EsStatus print_plan(void *prove, const EsConfig *config, const EsRunMemory *memory) {
    const EsProveSettings *settings = config->settings;
    const EsKnowledgeGraph *graph = es_prove_run_graph(prove);
    EsProofTraining *training = es_prove_run_training(prove);
    const EsProofEnv *env = es_proof_training_env(training);
    int64_t n_parameters = es_proof_policy_parameter_count(es_proof_training_policy(training));
    EsProofRound round;
    int64_t start_ns = es_clock_ns();
    ES_TRY(es_proof_training_round(training, NULL, &round));
    double seconds = es_clock_seconds_since(start_ns);
    ES_TRY(es_run_command_print_config(config));
    es_print("\n# graph       %s: %d constants, %d predicates, %d facts, %d rules\n",
             es_prove_settings_data(settings), graph->n_constants, graph->n_predicates,
             es_kg_count_facts(graph), graph->n_rules);
    printf("# queries     %d to learn from, %d for validation, %d for the comparison\n",
           es_proof_env_queries(env).count, es_prove_queries_count(graph, ES_KG_SPLIT_VALID),
           es_prove_queries_count(graph, ES_KG_SPLIT_TEST));
    printf("# policy      %lld parameters, %.1f MiB with gradients and moments\n",
           (long long)n_parameters, 4.0 * 4.0 * (double)n_parameters / 1048576);
    printf("# memory      %.1f MiB of environments; %d distinct states in a round\n",
           (double)es_proof_env_saved_bytes(env) / 1048576, round.kept.n_states);
    es_run_memory_print(memory);
    printf("# time        %.2f s per round of %d x %d steps (environment %.2f, acting %.2f, "
           "learning %.2f), %.0f s for %d rounds, plus validation\n",
           seconds, settings->n_envs, settings->n_steps, round.env_ms * 1e-3,
           round.policy_ms * 1e-3, round.update_ms * 1e-3, seconds * settings->run.n_rounds,
           settings->run.n_rounds);
    return ES_STATUS_OK;
}

// --- the run ---

static EsStatus create_prove(const void *settings, void **prove) {
    return es_prove_run_create(settings, (EsProveRun **)prove);
}

static void destroy_prove(void *prove) { es_prove_run_destroy(prove); }

static EsStatus find_prove_need(void *prove, EsRunNeed *need) {
    return es_prove_run_need(prove, need);
}

static EsRunWork rounds_of_prove(void *prove) { return es_prove_run_work(prove); }

static void describe(void *prove, const void *settings, char text[ES_RUN_ABOUT_BYTES]) {
    const EsKnowledgeGraph *graph = es_prove_run_graph(prove);
    snprintf(text, ES_RUN_ABOUT_BYTES, "graph: %.100s, %d constants, %d facts, %d rules",
             es_prove_settings_data(settings), graph->n_constants, es_kg_count_facts(graph),
             graph->n_rules);
}

static const char *find_input_hash(void *prove) { return es_prove_run_data_hash(prove); }

static const EsRunProgram program = {.name = "prove train",
                                     .smaller = "a smaller --steps or graph",
                                     .create = create_prove,
                                     .destroy = destroy_prove,
                                     .find_need = find_prove_need,
                                     .rounds = rounds_of_prove,
                                     .describe = describe,
                                     .print_plan = print_plan,
                                     .print_results = print_results,
                                     .input_hash = find_input_hash};

static int is_given(const EsArguments *arguments, const char *name) {
    for (int i = 0; i < arguments->n_overrides; i++) {
        const EsOption *option = arguments->overrides[i].option;
        if (option != NULL && strcmp(option->name, name) == 0) {
            return 1;
        }
    }
    return 0;
}

// --generated goes before a folder that a file of settings names.
static EsStatus check_source(const EsArguments *arguments, EsProveSettings *settings) {
    if (!is_given(arguments, "generated")) {
        return ES_STATUS_OK;
    }
    if (is_given(arguments, "data")) {
        return ES_FAIL(ARGUMENT, "--data and --generated exclude each other");
    }
    if (is_given(arguments, "rules")) {
        return ES_FAIL(ARGUMENT, "--rules goes with --data; a generated graph has its own rules");
    }
    settings->folder[0] = settings->rules[0] = '\0';
    return ES_STATUS_OK;
}

EsExit cmd_prove_train(int argc, char **argv) {
    EsRunCommand command = {0};
    EsProveSettings settings, before;
    int as_json;
    EsConfig config = es_prove_run_config(&settings);
    const EsOption options[] = {
        ES_OPTION_KEY("data", "prove.folder", "DIR"),
        ES_OPTION_KEY("rules", "prove.rules", "FILE"),
        ES_OPTION_KEY("generated", "prove.people", "N"),
        ES_OPTION_KEY("graph-seed", "prove.graph_seed", "N"),
        ES_OPTION_KEY("rounds", "run.rounds", "N"),
        ES_OPTION_KEY("envs", "env.envs", "N"),
        ES_OPTION_KEY("steps", "env.steps", "N"),
        ES_OPTION_KEY("rate", "ppo.rate", "X"),
        ES_OPTION_KEY("search", "search.kind", "NAME"),
        ES_OPTION_KEY("nodes", "search.nodes", "N"),
        ES_OPTION_KEY("depth", "search.max_depth", "N"),
        ES_OPTION_KEY("eval-every", "validate.every", "N"),
        ES_OPTION_KEY("eval", "evaluate.queries", "N"),
        ES_RUN_COMMAND_OPTIONS(&command),
        ES_OPTION_FLAG("json", &as_json, "print the results as JSON"),
    };
    const EsOptionTable table = {
        .command = "prove train",
        .usage = "[options]",
        .summary =
            "Trains a policy that chooses the next step of a proof, with PPO over many "
            "proofs side by side.\nA round is some steps of all of them and one update. "
            "The weights that rank validation queries\nbest are kept; at the end they are "
            "compared with the untrained policy and with symbolic proofs.\n`mpirun "
            "-n R esper prove train ...` shares the network's work among R processes, with the\n"
            "bits of one (docs/scaling.md).",
        .example = "esper prove train --config configs/prove_generated.ini --out runs/proofs",
        .options = options,
        .n_options = ES_COUNT_OF(options),
        .config = &config,
    };
    EsArguments arguments;
    EsExit code;
    if (!es_options_begin(&table, argc, argv, &arguments, &code)) {
        return code;
    }
    if (command.is_dry_run && as_json) {
        return es_command_finish("prove train",
                                 ES_FAIL(ARGUMENT, "--dry-run prints settings and figures, not "
                                                   "JSON; leave --json out"));
    }
    EsStatus status = es_run_command_configure(&command, &table, &arguments, &before);
    if (status == ES_STATUS_OK) {
        status = check_source(&arguments, &settings);
    }
    if (status == ES_STATUS_OK && settings.folder[0] != '\0') {
        es_options_note_unused(&table, &arguments, "graph-seed",
                               "with --data: it is the seed of the generated graph");
    }
    const EsRunInput input = {&command, &config, &settings.run, &settings.n_envs, as_json};
    if (status != ES_STATUS_OK) {
        return es_command_finish("prove train", status);
    }
    EsProgramRun run = es_run_program_begin(&program, &input);
    if (run.is_started) {
        run.status = es_run_rounds(run.session.run, &run.rounds);
    }
    return es_run_program_end(&run);
}
