// The public face of proofs: include/esper/prove.h over answers, search and training. Results are
// copied into plain public rows, so the engine can change without breaking programs.
#include "base/memory.h"
#include "esper/prove.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "proof/agent/proof_policy_file.h"
#include "proof/agent/proof_policy_inference.h"
#include "proof/agent/proof_training.h"
#include "proof/graph/kinship_graph.h"
#include "proof/graph/knowledge_file.h"
#include "proof/search/answers.h"
#include "proof/search/proof_search.h"

#define DEFAULT_PEOPLE 1000
#define REMEMBERED     (1 << 16)

struct EsProve {
    EsKnowledgeGraph *graph; // owned, as is all below
    EsDevice *device;
    EsStream *stream;
    EsProofTrainingSettings training_settings;
    EsAnswersSettings answers_settings;
    EsProofSearchSettings search_settings;
    EsProofPolicy *policy;       // that searches,
    int is_loaded;               // and comes from a file
    EsProofPolicyScorer *scorer; // of it
    EsProofGuide guide;
    EsProofSearch *search;
    EsProofTraining *training; // NULL until it is wanted
    EsProveAnswer *answers;
    char *proof; // text of the last one found
};

// --- life ---

static EsStatus check_options(const EsProveOptions *options) {
    const struct {
        const char *name;
        int64_t value, high;
    } ranges[] = {
        {"n_people", options->n_people, ES_KINSHIP_MAX_PEOPLE},
        {"max_depth", options->max_depth, ES_SEARCH_MAX_DEPTH},
        {"max_atoms", options->max_atoms, ES_PROOF_MAX_ATOMS},
        {"n_nodes", options->n_nodes, INT32_MAX},
        {"n_envs", options->n_envs, ES_PROOF_MAX_ENVS},
        {"n_steps", options->n_steps, 4096},
        {"n_threads", options->n_threads, 1024},
    };
    for (size_t i = 0; i < ES_COUNT_OF(ranges); i++) {
        if (ranges[i].value < 0 || ranges[i].value > ranges[i].high) {
            return ES_FAIL(ARGUMENT, "%s is %lld, must be 0..%lld", ranges[i].name,
                           (long long)ranges[i].value, (long long)ranges[i].high);
        }
    }
    if (!(options->learning_rate >= 0 && options->learning_rate <= 1)) {
        return ES_FAIL(ARGUMENT, "learning_rate is %g, must be 0..1",
                       (double)options->learning_rate);
    }
    if (options->folder == NULL && options->rules != NULL) {
        return ES_FAIL(ARGUMENT, "rules go with a folder; a generated graph has its own");
    }
    return ES_STATUS_OK;
}

static int or_default(int value, int otherwise) { return value > 0 ? value : otherwise; }

static void choose_settings(EsProve *prove, const EsProveOptions *options) {
    EsProofTrainingSettings *training = &prove->training_settings;
    EsProofSearchSettings *search = &prove->search_settings;
    EsProverSettings *prover = &prove->answers_settings.prover;
    prove->answers_settings = es_answers_defaults();
    *search = es_proof_search_defaults();
    *training = es_proof_training_defaults();
    prover->max_depth = search->max_depth = or_default(options->max_depth, prover->max_depth);
    prover->max_atoms = search->max_atoms = or_default(options->max_atoms, prover->max_atoms);
    search->max_expanded = or_default(options->n_nodes, (int)search->max_expanded);
    training->env.max_atoms = prover->max_atoms;
    training->env.n_envs = or_default(options->n_envs, training->env.n_envs);
    training->n_steps = or_default(options->n_steps, training->n_steps);
    training->seed = options->seed != 0 ? options->seed : training->seed;
    training->ppo.rate = options->learning_rate > 0 ? options->learning_rate : 0.001f;
}

static EsStatus load_graph(const EsProveOptions *options, EsKnowledgeGraph **graph) {
    if (options->folder != NULL) {
        return es_kg_load(options->folder, options->rules, graph);
    }
    return es_kinship_graph_create(or_default(options->n_people, DEFAULT_PEOPLE),
                                   options->graph_seed != 0 ? options->graph_seed : 1, graph);
}

static EsStatus create_parts(EsProve *prove, const EsProveOptions *options) {
    EsDeviceOptions device = {.n_threads = options->n_threads};
    ES_TRY(check_options(options));
    choose_settings(prove, options);
    ES_TRY(load_graph(options, &prove->graph));
    ES_TRY(es_device_open("cpu", &device, &prove->device));
    ES_TRY(es_stream_create(prove->device, &prove->stream));
    ES_TRY(es_proof_policy_create(prove->device, prove->graph, &prove->training_settings.policy,
                                  prove->training_settings.seed, &prove->policy));
    ES_TRY(es_proof_policy_scorer_create(prove->policy, es_stream_pool(prove->stream), REMEMBERED,
                                         &prove->scorer));
    prove->guide = es_proof_policy_scorer_guide(prove->scorer);
    return es_proof_search_create(prove->graph, &prove->search_settings, &prove->guide,
                                  &prove->search);
}

EsStatus es_prove_create(const EsProveOptions *options, EsProve **prove_out) {
    EsProve *prove = NULL;
    *prove_out = NULL;
    ES_TRY(es_allocate(sizeof *prove, (void **)&prove));
    EsStatus status = create_parts(prove, options);
    if (status != ES_STATUS_OK) {
        es_prove_destroy(prove);
        return status;
    }
    *prove_out = prove;
    return ES_STATUS_OK;
}

void es_prove_destroy(EsProve *prove) {
    if (prove == NULL) {
        return;
    }
    es_proof_training_destroy(prove->training);
    es_proof_search_destroy(prove->search);
    es_proof_policy_scorer_destroy(prove->scorer);
    es_proof_policy_destroy(prove->policy);
    es_stream_destroy(prove->stream);
    es_device_close(prove->device);
    es_kg_destroy(prove->graph);
    es_release(prove->answers);
    es_release(prove->proof);
    es_release(prove);
}

void es_prove_describe(const EsProve *prove, char *text, size_t text_bytes) {
    const EsKnowledgeGraph *graph = prove->graph;
    snprintf(text, text_bytes,
             "%d constants, %d predicates, %d facts, %d rules, %d validation and %d test queries",
             graph->n_constants, graph->n_predicates, es_kg_count_facts(graph), graph->n_rules,
             graph->splits[ES_KG_SPLIT_VALID].count, graph->splits[ES_KG_SPLIT_TEST].count);
}

// --- asking ---

static EsStatus check_single(const EsQuestion *question, const char *text) {
    return es_question_is_single(question)
               ? ES_STATUS_OK
               : ES_FAIL(INPUT, "%.200s asks for more than one atom", text);
}

EsStatus es_prove_ask(EsProve *prove, const char *text, EsProveAnswers *answers_out) {
    const EsKnowledgeGraph *graph = prove->graph;
    EsQuestion question;
    EsAnswers answers;
    *answers_out = (EsProveAnswers){.count = 0};
    ES_TRY(es_question_parse(graph, text, &question));
    ES_TRY(check_single(&question, text));
    ES_TRY(es_answers_find(graph, &prove->answers_settings, es_stream_pool(prove->stream),
                           question.goals[0].cells, &answers));
    es_release(prove->answers);
    prove->answers = NULL;
    EsStatus status = es_allocate((size_t)ES_MAX(answers.count, 1) * sizeof *prove->answers,
                                  (void **)&prove->answers);
    // those whose proofs are beyond the limits come last and are left out
    int32_t count = 0;
    for (; count < answers.count && answers.items[count].n_steps != ES_ANSWER_BEYOND &&
           status == ES_STATUS_OK;
         count++) {
        const EsAtom *atom = answers.items[count].cells;
        EsProveAnswer *answer = &prove->answers[count];
        *answer = (EsProveAnswer){.predicate = graph->predicate_names[atom->predicate],
                                  .a = graph->constant_names[atom->a],
                                  .b = graph->constant_names[atom->b],
                                  .n_steps = answers.items[count].n_steps,
                                  .n_arguments = graph->arities[atom->predicate]};
        for (int i = 0; i < answer->n_arguments; i++) {
            answer->arguments[i] = graph->constant_names[es_atom_term(atom, i)];
        }
    }
    if (status == ES_STATUS_OK) {
        *answers_out =
            (EsProveAnswers){.items = prove->answers,
                             .count = count,
                             .is_complete = answers.is_complete && answers.n_undecided == 0};
    }
    es_answers_destroy(&answers);
    return status;
}

// Variables of a state are numbered on from the constants.
static void print_term(FILE *stream, const EsKnowledgeGraph *graph, int32_t term) {
    if (term > graph->n_constants) {
        fprintf(stream, "V%d", term - graph->n_constants);
    } else {
        fputs(graph->constant_names[term], stream);
    }
}

static void print_atom(FILE *stream, const EsKnowledgeGraph *graph, const EsAtom *atom) {
    int arity = graph->arities[atom->predicate];
    fputs(graph->predicate_names[atom->predicate], stream);
    for (int i = 0; i < arity; i++) {
        fputc(i == 0 ? '(' : ',', stream);
        print_term(stream, graph, es_atom_term(atom, i));
    }
    fputs(arity > 0 ? ")" : "", stream);
}

// The states of a proof, a line each.
static EsStatus write_proof(EsProve *prove, const EsProofAnswer *answer) {
    FILE *stream = NULL;
    char *text = NULL;
    size_t bytes = 0;
    es_release(prove->proof);
    prove->proof = NULL;
    stream = open_memstream(&text, &bytes);
    if (stream == NULL) {
        return ES_FAIL(MEMORY, "no memory for the text of a proof");
    }
    for (int32_t i = 0; i < answer->depth; i++) {
        const EsAtom *atoms = answer->path[i].atoms;
        for (int32_t k = 0; k < answer->path[i].count;
             k += es_kg_cells(prove->graph, atoms[k].predicate)) {
            fputs(k > 0 ? ", " : "", stream);
            print_atom(stream, prove->graph, &atoms[k]);
        }
        fputc('\n', stream);
    }
    EsStatus status = es_memory_stream_close(stream, &text);
    if (status == ES_STATUS_OK) {
        status = es_allocate(bytes + 1, (void **)&prove->proof);
    }
    if (status == ES_STATUS_OK) {
        memcpy(prove->proof, text, bytes + 1);
    }
    free(text);
    return status;
}

EsStatus es_prove_search(EsProve *prove, const char *text, EsProveFound *found) {
    EsQuestion question;
    EsProofAnswer answer;
    *found = (EsProveFound){.proof = ""};
    ES_TRY(es_question_parse(prove->graph, text, &question));
    ES_TRY(check_single(&question, text));
    if (question.n_variables > 0) {
        return ES_FAIL(ARGUMENT, "%.200s has a variable; es_prove_ask takes it", text);
    }
    ES_TRY(es_proof_search_find(prove->search, question.goals[0].cells, &answer));
    found->is_proved = answer.is_proved;
    found->n_steps = answer.is_proved ? answer.depth : 0;
    found->n_expanded = answer.n_expanded;
    found->log_probability = answer.log_probability;
    if (answer.is_proved) {
        ES_TRY(write_proof(prove, &answer));
        found->proof = prove->proof;
    }
    return ES_STATUS_OK;
}

// --- training ---

// Search with another policy, which is taken over, also on failure.
static EsStatus adopt(EsProve *prove, EsProofPolicy *policy, int is_loaded) {
    EsProofPolicyScorer *scorer = NULL;
    EsStatus status =
        es_proof_policy_scorer_create(policy, es_stream_pool(prove->stream), REMEMBERED, &scorer);
    if (status != ES_STATUS_OK) {
        es_proof_policy_destroy(policy);
        return status;
    }
    es_proof_policy_scorer_destroy(prove->scorer);
    es_proof_policy_destroy(prove->policy);
    prove->scorer = scorer;
    prove->policy = policy;
    prove->is_loaded = is_loaded;
    prove->guide = es_proof_policy_scorer_guide(scorer); // the search has a pointer to it
    return ES_STATUS_OK;
}

// The weights of the training; a policy from a file may have another size.
static EsStatus take_weights(EsProve *prove) {
    if (prove->is_loaded) {
        EsProofPolicy *policy = NULL;
        ES_TRY(es_proof_policy_create(prove->device, prove->graph, &prove->training_settings.policy,
                                      0, &policy));
        ES_TRY(adopt(prove, policy, 0));
    }
    es_proof_policy_copy(prove->policy, es_proof_training_policy(prove->training));
    return ES_STATUS_OK;
}

static double ratio(double part, int64_t whole) { return whole > 0 ? part / (double)whole : NAN; }

EsStatus es_prove_train(EsProve *prove, int n_rounds, EsProveProgress *progress) {
    EsProofRound round = {.learning_rate = 0};
    if (n_rounds < 1) {
        return ES_FAIL(ARGUMENT, "training for %d rounds: at least one is needed", n_rounds);
    }
    if (prove->training == NULL) {
        ES_TRY(es_proof_training_create(prove->device, prove->graph, &prove->training_settings,
                                        &prove->training));
    }
    for (int i = 0; i < n_rounds; i++) {
        ES_TRY(es_proof_training_round(prove->training, NULL, &round));
    }
    ES_TRY(take_weights(prove));
    if (progress != NULL) {
        const EsProofEnvCounters *n = &round.counted;
        *progress = (EsProveProgress){
            .n_rounds = es_proof_training_rounds_done(prove->training),
            .positives_proved = ratio(100.0 * (double)n->n_proved[1], n->n_episodes[1]),
            .negatives_proved = ratio(100.0 * (double)n->n_proved[0], n->n_episodes[0]),
            .reward = ratio(n->reward[0] + n->reward[1], n->n_episodes[0] + n->n_episodes[1]),
            .entropy = round.update.entropy};
    }
    return ES_STATUS_OK;
}

EsStatus es_prove_save_policy(EsProve *prove, const char *path) {
    return es_proof_policy_file_save(prove->policy, path);
}

EsStatus es_prove_load_policy(EsProve *prove, const char *path) {
    EsProofPolicy *policy = NULL;
    ES_TRY(es_proof_policy_file_load(prove->device, prove->graph, path, &policy));
    return adopt(prove, policy, 1);
}
