// A trained policy as a file: safetensors with the weights and the feature normaliser, and metadata
// about the hosts it fits: slots in order, observation version, episode length, dwell times, sizes;
// of a policy of version 2, which has no normaliser, ranges of slots, steps and budgets: those it
// accepts, and those that its training covered (policy_metadata.c). A host that differs is refused
// with a message; nothing is rescaled silently. docs/file-formats.md has the bytes.
//
//     EsPolicyMetadata metadata; ES_TRY(es_policy_file_metadata(path, &metadata));
//     ES_TRY(es_policy_metadata_check(&metadata, &settings, path));
//     ES_TRY(es_policy_network_create(device, &metadata.spec, n_envs, 0, &network));
//     ES_TRY(es_policy_file_load(path, network, &features));
#ifndef ES_CONTROL_POLICY_FILE_H
#define ES_CONTROL_POLICY_FILE_H

#include "control/policy/policy_network.h"
#include "growth/host/host.h"
#include "tensor/safetensors.h"

ES_EXTERN_C_BEGIN

// --- ranges of the hosts that a policy of version 2 decides for ---

// Least and most; all positive, the least not above the most. Of a training both are 0 where it met
// none, such as a budget.
typedef struct EsPolicyRanges {
    double slots[2];
    double steps[2];
    double budget[2]; // times the host's parameters; a host without a limit is always in range
} EsPolicyRanges;

// 1 to 12 slots, 20 to 300 steps, 1 to 100 times the host.
EsPolicyRanges es_policy_ranges_default(void);

// Widen the ranges so that they take in this host; ranges of 0 become the host's.
void es_policy_ranges_include(EsPolicyRanges *ranges, const EsGrowthSettings *settings);

// INPUT says what is out of range, which range, and the option to change.
EsStatus es_policy_ranges_check(const EsPolicyRanges *ranges, const EsGrowthSettings *settings,
                                const char *path);

// Names what of this host the ranges of a training do not cover: "6 slots (in training 1 to 5)".
// Returns whether there is such a thing.
#define ES_POLICY_OUTSIDE_BYTES 320
int es_policy_ranges_describe_outside(const EsPolicyRanges *ranges,
                                      const EsGrowthSettings *settings,
                                      char text[ES_POLICY_OUTSIDE_BYTES]);

// Entries of the metadata: hosts that are accepted, and those that training covered.
#define ES_POLICY_ACCEPTED "ranges"
#define ES_POLICY_TRAINED  "trained"

// As the text of a JSON object, to be freed; NULL when memory is short. Reading refuses, as INPUT
// that names the file and the entry, what is missing, unknown, not a pair of numbers, or no range.
char *es_policy_ranges_write(const EsPolicyRanges *ranges);
EsStatus es_policy_ranges_read(const char *text, const char *path, const char *entry,
                               EsPolicyRanges *ranges);

// --- files ---

// Metadata of a policy's file.
typedef struct EsPolicyMetadata {
    EsPolicySpec spec;
    int observation_version;
    // settings of its training; sizes of blueprints are not kept, they belong to the host
    EsGrowthSettings settings;
    float floor[ES_N_HEADS]; // least probabilities it was trained with
    EsPolicyRanges ranges;   // version 2: that it accepts,
    EsPolicyRanges trained;  // and of its training, at most where an earlier file does not say
} EsPolicyMetadata;

// Entries of a file's header that hold the metadata, at most.
#define ES_POLICY_METADATA_MAX 8

// The metadata as entries, *n of them, whose values the caller releases; MEMORY when they cannot be
// made.
EsStatus es_policy_metadata_write(const EsPolicyMetadata *metadata,
                                  EsMetadata entries[ES_POLICY_METADATA_MAX], int *n);
void es_policy_metadata_release(EsMetadata entries[ES_POLICY_METADATA_MAX]);

// Reads them again; INPUT names the file and the entry that is missing, unknown or out of range.
EsStatus es_policy_metadata_read(const EsSafetensors *file, const char *path,
                                 EsPolicyMetadata *metadata);

// Written atomically. The metadata must be that of the network. Waits for the network's stream.
EsStatus es_policy_file_save(const char *path, const EsPolicyMetadata *metadata,
                             const EsPolicyNetwork *network, const EsFeatureNormaliser *features);

// INPUT names the file and the entry of its metadata that is missing, unknown or out of range.
EsStatus es_policy_file_metadata(const char *path, EsPolicyMetadata *metadata);

// INPUT names the first thing that differs between the file and the host, both values: observation,
// slots, blueprints, length of an episode, how seeds advance, dwell times, ramps. Thresholds of
// gates, governor and tracker are in the file for the record and may differ. Of a policy of version
// 2: slots, steps and budget out of range, blueprints it was not trained with, how seeds advance,
// targets of ramps.
EsStatus es_policy_metadata_check(const EsPolicyMetadata *metadata,
                                  const EsGrowthSettings *settings, const char *path);

// Weights into a network of the file's slots (version 2: any) and widths, scales into a normaliser
// of its observation. Everything is checked first: after a failure both are as they were.
EsStatus es_policy_file_load(const char *path, EsPolicyNetwork *network,
                             EsFeatureNormaliser *features);

ES_EXTERN_C_END

#endif
