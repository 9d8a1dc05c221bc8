// Proofs over a knowledge graph for programs of your own: ask for the consequences of facts and
// rules, and train a policy that finds proofs with fewer detours.
//
// es_prove_ask answers exactly, by the rules alone. es_prove_search looks for one proof under a
// limit on states, steered by the policy: at first one of random weights, after es_prove_train or
// es_prove_load_policy one that has learned. Training is PPO over many proofs side by side, of the
// facts themselves: each is to be proved without itself.
//
// One thread at a time may use an EsProve; different ones are independent. It has threads of its
// own, whose number does not change any result. A failing call returns its status and leaves a text
// (es_status_detail). Memory that a call returns belongs to the EsProve and is valid until the next
// call.
//
//     EsProveOptions options = {.folder = "kg/family"};
//     ES_TRY_GOTO(es_prove_create(&options, &prove));
//     ES_TRY_GOTO(es_prove_ask(prove, "uncle(otto,X)", &answers));
//     ES_TRY_GOTO(es_prove_train(prove, 100, &progress));
//     ES_TRY_GOTO(es_prove_search(prove, "uncle(otto,nora)", &found));
#ifndef ESPER_PROVE_H
#define ESPER_PROVE_H

#include <stddef.h>
#include <stdint.h>

#include "esper/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- life ---

// Everything 0 or NULL is a sensible choice. Texts are borrowed during create.
typedef struct EsProveOptions {
    const char *folder;  // with train.txt, rules.txt (docs/proving.md); NULL = a generated graph
    const char *rules;   // a file of the folder, or a path; NULL = rules.txt
    int n_people;        // of the generated graph; 0 = 1,000
    int max_depth;       // steps of a proof; 0 = 4
    int max_atoms;       // left to prove at a time; 0 = 6
    int n_nodes;         // states that a search expands at most; 0 = 1,000
    int n_envs;          // proofs side by side in training; 0 = 128
    int n_steps;         // of each between two updates; 0 = 32
    float learning_rate; // of Adam; 0 = 0.001
    int n_threads;       // 0 = one per processor
    uint64_t seed;       // of weights and training; 0 = 42
    uint64_t graph_seed; // of the generated graph; 0 = 1
} EsProveOptions;

typedef struct EsProve EsProve;

// ARGUMENT when options do not fit, INPUT with file, line and column when a file is wrong, MEMORY.
// *prove is NULL on failure.
ES_API EsStatus es_prove_create(const EsProveOptions *options, EsProve **prove);
ES_API void es_prove_destroy(EsProve *prove); // accepts NULL

// A line of text: constants, predicates, facts, rules, queries. Cut to fit, always terminated.
ES_API void es_prove_describe(const EsProve *prove, char *text, size_t text_bytes);

// --- asking ---

typedef struct EsProveAnswer {
    const char *predicate, *a, *b; // the first two arguments, "" for one that it has not
    int32_t n_steps;               // of its shortest proof; 0: a fact
    int32_t n_arguments;           // 0 to 4
    const char *arguments[4];
} EsProveAnswer;

typedef struct EsProveAnswers {
    const EsProveAnswer *items; // fewest steps first, then by name
    int32_t count;
    int is_complete; // none within max_depth and max_atoms is missing
} EsProveAnswers;

// "uncle(otto,X)": arguments that begin with a capital letter, _ or ? are variables. INPUT when the
// question cannot be read, or has a name that the graph does not.
ES_API EsStatus es_prove_ask(EsProve *prove, const char *question, EsProveAnswers *answers);

typedef struct EsProveFound {
    int is_proved;
    int32_t n_steps;        // of the proof
    int64_t n_expanded;     // states
    double log_probability; // with which the policy takes it
    const char *proof;      // goals left before each step, a line each; "" without a proof
} EsProveFound;

// One ground atom, best first. Not found under the limit is no refutation.
ES_API EsStatus es_prove_search(EsProve *prove, const char *atom, EsProveFound *found);

// --- training ---

typedef struct EsProveProgress {
    int64_t n_rounds;        // in all
    double positives_proved; // percent of the true queries of the last round that ended,
    double negatives_proved; // and of the false ones; NaN where none ended
    double reward;           // mean of an episode, -1 to 1; NaN likewise
    double entropy;          // of choices, as a share of the largest possible
} EsProveProgress;

// Train for some rounds; may be called again and again. INPUT when no query can be learned from:
// no rule has the predicate of a fact for its head. `progress` may be NULL.
ES_API EsStatus es_prove_train(EsProve *prove, int n_rounds, EsProveProgress *progress);

// Weights alone: safetensors, as `esper prove train` writes them. A policy of names fits the graph
// it was trained on, one of structure any graph with rules. A loaded one is searched with; training
// goes on with its own.
ES_API EsStatus es_prove_save_policy(EsProve *prove, const char *path);
ES_API EsStatus es_prove_load_policy(EsProve *prove, const char *path);

#ifdef __cplusplus
}
#endif

#endif
