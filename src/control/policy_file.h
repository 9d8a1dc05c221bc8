// A trained policy as a file: safetensors with the weights and the feature normaliser, and metadata
// that says what it fits: slots in order, observation version, episode length, dwell times, sizes.
// A host that differs is refused with a message; nothing is rescaled silently.
#ifndef ES_CONTROL_POLICY_FILE_H
#define ES_CONTROL_POLICY_FILE_H

#include "control/policy_network.h"
#include "growth/slot.h"

ES_EXTERN_C_BEGIN

// What stands in a file's metadata.
typedef struct EsPolicyFacts {
    EsPolicySpec spec;
    int observation_version;
    EsGrowthSettings settings; // slots, episode length, dwell times, tempo, ramps: what was trained on
    float floor[ES_N_HEADS];   // least probabilities it was trained with
} EsPolicyFacts;

EsStatus es_policy_file_save(const char *path, const EsPolicyFacts *facts,
                             const EsPolicyNetwork *network, const EsFeatureNormaliser *features);

EsStatus es_policy_file_facts(const char *path, EsPolicyFacts *facts);

// INPUT names the first thing that differs between the file and the host, both values.
EsStatus es_policy_facts_check(const EsPolicyFacts *facts, const EsGrowthSettings *settings,
                               const char *path);

EsStatus es_policy_file_load(const char *path, EsPolicyNetwork *network,
                             EsFeatureNormaliser *features);

ES_EXTERN_C_END

#endif
