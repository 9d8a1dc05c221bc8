// Fuzz targets: one per reader of bytes that come from outside.
//
// A target hands its input to a reader, uses all that the reader accepts, and says how far the
// input came. Checksums and hashes are fitted to the bytes by the target itself, so that an input
// is never refused for them alone and a corpus outlives a change of the hash. Under clang the
// targets are libFuzzer's (tests/fuzz/CMakeLists.txt); in every build fuzz_replay_test feeds them
// their corpora and some thousand mutations of these.
//
//     tools/run_fuzzers runs=10000 safetensors
//     ES_FUZZ_TARGET=safetensors build-fuzz/tests/fuzz/esper_fuzz finding
#ifndef ES_TESTS_FUZZ_H
#define ES_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "esper/status.h"

// Stage that an input reached.
typedef enum FuzzVerdict {
    FUZZ_UNFIT,   // not of the form at all: there was no checksum to fit
    FUZZ_REFUSED, // behind the checksum, where the format has one
    FUZZ_ACCEPTED,
    FUZZ_N_VERDICTS
} FuzzVerdict;

// name, how inputs are mutated
#define FUZZ_TARGETS(X)                                                                            \
    X(safetensors, tensors)                                                                        \
    X(network_checkpoint, tensors)                                                                 \
    X(policy_file, tensors)                                                                        \
    X(policy_training, tensors)                                                                    \
    X(grown_tensors, tensors)                                                                      \
    X(grown_json, json)                                                                            \
    X(embedding_model, tensors)                                                                    \
    X(proof_policy, tensors)                                                                       \
    X(proof_weights, tensors)                                                                      \
    X(proof_training, numbers)                                                                     \
    X(checkpoint_folder, json)                                                                     \
    X(run_resume, json)                                                                            \
    X(run_config, text)                                                                            \
    X(run_marker, json)                                                                            \
    X(grow_evaluation, json)                                                                       \
    X(prove_evaluation, json)                                                                      \
    X(config, text)                                                                                \
    X(host_file, text)                                                                             \
    X(schedule, text)                                                                              \
    X(kg_triples, text)                                                                            \
    X(kg_rules, text)                                                                              \
    X(kg_depths, text)                                                                             \
    X(kg_domains, text)                                                                            \
    X(prolog, text)                                                                                \
    X(soft_facts, text)                                                                            \
    X(question, text)                                                                              \
    X(idx, numbers)                                                                                \
    X(cifar10, numbers)                                                                            \
    X(idx_packed, numbers)                                                                         \
    X(csv, text)                                                                                   \
    X(npy, text)                                                                                   \
    X(input_array, text)                                                                           \
    X(input_table, text)                                                                           \
    X(image_file, numbers)                                                                         \
    X(packet, numbers)                                                                             \
    X(spill, numbers)                                                                              \
    X(jsonl_trim, text)                                                                            \
    X(options, text)                                                                               \
    X(bench_baseline, json)                                                                        \
    X(file_fault, text)

typedef struct FuzzTarget {
    const char *name;
    FuzzVerdict (*run)(const uint8_t *data, size_t bytes);
    size_t (*mutate)(uint8_t *data, size_t bytes, size_t max_bytes, unsigned seed);
} FuzzTarget;

// Each target: fuzz_<name>.
#define X(name, way) FuzzVerdict fuzz_##name(const uint8_t *data, size_t bytes);
FUZZ_TARGETS(X)
#undef X

// NULL when there is none of that name.
const FuzzTarget *fuzz_find_target(const char *name);

// Run a target once and count its verdict. The detail of a failure is looked at, too: a reader that
// refuses must say why.
FuzzVerdict fuzz_run(const FuzzTarget *target, const uint8_t *data, size_t bytes);

// Inputs by verdict, of this process.
int64_t fuzz_count(FuzzVerdict verdict);

// --- for targets ---

// A path of that name in a folder of this process, under $TMPDIR or in memory where the system has
// such; the folder goes when the process ends, unless it crashes. Valid until the process ends.
const char *fuzz_path(const char *name);

// Write that file there; returns its path.
const char *fuzz_file(const char *name, const void *data, size_t bytes);

// The input with a zero byte after it, for readers of C strings; zero bytes inside become spaces.
// Released with free.
char *fuzz_text(const uint8_t *data, size_t bytes);

// A violation ends the process, which is what a fuzzer calls a finding.
#define FUZZ_CHECK(condition) ((condition) ? (void)0 : fuzz_fail(#condition, __FILE__, __LINE__))
// A call of the target's own set-up, or one that must succeed after a reader has accepted.
#define FUZZ_OK(call) FUZZ_CHECK((call) == ES_STATUS_OK)
_Noreturn void fuzz_fail(const char *what, const char *file, int line);

// The verdict of a reader that returned `status`: refused with one of the statuses that a reader
// may have, else a finding.
FuzzVerdict fuzz_judge(EsStatus status);

// Write the first input of every binary format into <folder>/<target>/, for a corpus to be made
// anew after a format has changed: fuzz_replay_test --write-seeds FOLDER.
void fuzz_write_tensor_seeds(const char *folder);
void fuzz_write_state_seeds(const char *folder);
void fuzz_write_data_seeds(const char *folder);

// <folder>/<target>/start, valid until the next call; makes the folder of the target.
const char *fuzz_seed_path(const char *folder, const char *target);

// --- mutators ---

#define FUZZ_MUTATOR(way)                                                                          \
    size_t fuzz_mutate_##way(uint8_t *data, size_t bytes, size_t max_bytes, unsigned seed)
FUZZ_MUTATOR(numbers); // words of 1 to 8 bytes become limits of integers and reals
FUZZ_MUTATOR(text);    // words and lines go, come twice, change places, become numbers
FUZZ_MUTATOR(json);    // values of every depth; JSON and hexadecimal digits inside texts, too
FUZZ_MUTATOR(tensors); // safetensors: header as JSON with offsets fitted again, data as numbers

// The fuzzer's own mutation of bytes: libFuzzer's, or a simple one in fuzz_replay_test.
size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t max_bytes);

#endif
