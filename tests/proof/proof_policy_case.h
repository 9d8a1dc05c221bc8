// A policy on a small generated graph, for tests.
#ifndef ES_TESTS_PROOF_POLICY_CASE_H
#define ES_TESTS_PROOF_POLICY_CASE_H

#include "es_test.h"
#include "proof/agent/proof_policy_file.h"
#include "proof/graph/kinship_graph.h"

typedef struct PolicyCase {
    EsDevice *device;
    EsKnowledgeGraph *graph;
    EsProofPolicy *policy;
} PolicyCase;

static inline EsProofPolicySettings small_settings(int embed, int hidden, int layers) {
    EsProofPolicySettings settings = es_proof_policy_defaults();
    settings.embed = embed;
    settings.hidden = hidden;
    settings.layers = layers;
    return settings;
}

static inline PolicyCase make_case(const EsProofPolicySettings *settings, int n_people,
                                   int n_threads) {
    PolicyCase test = {0};
    EsDeviceOptions options = {.n_threads = n_threads};
    REQUIRE_OK(es_device_open("cpu", &options, &test.device));
    REQUIRE_OK(es_kinship_graph_create(n_people, 3, &test.graph));
    REQUIRE_OK(es_proof_policy_create(test.device, test.graph, settings, 17, &test.policy));
    return test;
}

static inline void destroy_case(PolicyCase *test) {
    es_proof_policy_destroy(test->policy);
    es_kg_destroy(test->graph);
    es_device_close(test->device);
}

#endif
