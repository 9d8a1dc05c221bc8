// A trained policy as a file: safetensors with the weights and the feature normaliser, and metadata
// about the hosts it fits: slots in order, observation version, episode length, dwell times, sizes.
// A host that differs is refused with a message; nothing is rescaled silently. docs/file-formats.md
// has the bytes.
//
//     EsPolicyMetadata metadata; ES_TRY(es_policy_file_metadata(path, &metadata));
//     ES_TRY(es_policy_metadata_check(&metadata, &settings, path));
//     ES_TRY(es_policy_network_create(device, &metadata.spec, n_envs, 0, &network));
//     ES_TRY(es_policy_file_load(path, network, &features));
#ifndef ES_CONTROL_POLICY_FILE_H
#define ES_CONTROL_POLICY_FILE_H

#include "control/policy/policy_network.h"
#include "growth/host/slot.h"

ES_EXTERN_C_BEGIN

// Metadata of a policy's file.
typedef struct EsPolicyMetadata {
    EsPolicySpec spec;
    int observation_version;
    // settings of its training; sizes of blueprints are not kept, they belong to the host
    EsGrowthSettings settings;
    float floor[ES_N_HEADS]; // least probabilities it was trained with
} EsPolicyMetadata;

// Written atomically. The metadata must be that of the network. Waits for the network's stream.
EsStatus es_policy_file_save(const char *path, const EsPolicyMetadata *metadata,
                             const EsPolicyNetwork *network, const EsFeatureNormaliser *features);

// INPUT names the file and the entry of its metadata that is missing, unknown or out of range.
EsStatus es_policy_file_metadata(const char *path, EsPolicyMetadata *metadata);

// INPUT names the first thing that differs between the file and the host, both values: observation,
// slots, blueprints, length of an episode, how seeds advance, dwell times, ramps. Thresholds of
// gates, governor and tracker are in the file for the record and may differ.
EsStatus es_policy_metadata_check(const EsPolicyMetadata *metadata,
                                  const EsGrowthSettings *settings, const char *path);

// Weights into a network of the file's slots and widths, scales into a normaliser of its
// observation. Everything is checked first: after a failure both are as they were.
EsStatus es_policy_file_load(const char *path, EsPolicyNetwork *network,
                             EsFeatureNormaliser *features);

ES_EXTERN_C_END

#endif
