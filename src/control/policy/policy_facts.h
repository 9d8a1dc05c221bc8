// The metadata of policy files: facts as texts, and back.
#ifndef ES_CONTROL_POLICY_FACTS_H
#define ES_CONTROL_POLICY_FACTS_H

#include "control/policy/policy_file.h"
#include "tensor/safetensors.h"

ES_EXTERN_C_BEGIN

#define ES_POLICY_METADATA 6
#define ES_POLICY_FORMAT   "esper-policy"
#define ES_POLICY_VERSION  1

// Entries whose values are freed by es_policy_metadata_destroy. MEMORY when they cannot be made.
EsStatus es_policy_metadata_create(const EsPolicyFacts *facts,
                                   EsMetadata metadata[ES_POLICY_METADATA]);
void es_policy_metadata_destroy(EsMetadata metadata[ES_POLICY_METADATA]);

// INPUT names the file, the entry and what is wrong with it.
EsStatus es_policy_metadata_read(const EsSafetensors *file, const char *path, EsPolicyFacts *facts);

// --- one list of fields serves writing, reading and comparing ---

typedef enum EsFactKind { ES_FACT_INTEGER, ES_FACT_REAL } EsFactKind;

// `count` numbers of 4 bytes at an offset of a struct.
typedef struct EsFact {
    const char *name;
    size_t offset;
    EsFactKind kind;
    int count;      // above 1: an array
    int is_checked; // a host that differs is refused
} EsFact;

typedef struct EsFactList {
    const char *name; // of the metadata entry
    const EsFact *facts;
    size_t n_facts;
} EsFactList;

extern const EsFactList es_facts_of_growth;  // EsGrowthSettings, but for slots and blueprints
extern const EsFactList es_facts_of_network; // EsPolicySpec

ES_EXTERN_C_END

#endif
