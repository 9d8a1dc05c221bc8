// Policies as files: what comes back, and what is refused.
#include "proof/agent/proof_policy_file.h"
#include "proof/agent/proof_policy_inference.h"
#include "proof/agent/proof_policy_network.h"
#include "proof/proof_episodes.h"
#include "proof/proof_policy_case.h"
#include "proof/small_graph.h"
#include "temp_folder.h"

TEST(a_policy_comes_back_bit_for_bit) {
    EsProofPolicySettings settings = small_settings(9, 13, 3);
    settings.separate_value = 1;
    settings.temperature = 0.1f;
    settings.embedder = ES_PROOF_EMBEDDER_SUM;
    PolicyCase test = make_case(&settings, 40, 1);
    EsProofPolicy *loaded = NULL;
    const char *path = temp_path("policy.safetensors");
    REQUIRE_OK(es_proof_policy_file_save(test.policy, path));
    REQUIRE_OK(es_proof_policy_file_load(test.device, test.graph, path, &loaded));
    EXPECT_EQ(memcmp(es_proof_policy_settings(loaded), &settings, sizeof settings), 0);
    EXPECT_EQ(es_proof_policy_parameter_count(loaded),
              es_proof_policy_parameter_count(test.policy));
    EXPECT_EQ(memcmp(es_proof_policy_parameters(loaded), es_proof_policy_parameters(test.policy),
                     es_tensor_bytes(&test.policy->store->parameters)),
              0);
    es_proof_policy_destroy(loaded);
    destroy_case(&test);
}

TEST(another_graph_is_refused) {
    EsProofPolicySettings settings = small_settings(4, 4, 1);
    PolicyCase test = make_case(&settings, 40, 1);
    const char *rule = "parent(x,y) parent(y,z) -> grand(x,z)";
    EsKnowledgeGraph *graph = make_small_graph("parent(ann,bob) parent(bob,cy)", rule, "");
    EsKnowledgeGraph *renamed = make_small_graph("parent(ann,bob) parent(bob,dan)", rule, "");
    EsProofPolicy *policy = NULL, *loaded = NULL;
    const char *path = temp_path("policy.safetensors");
    REQUIRE_OK(es_proof_policy_create(test.device, graph, &settings, 1, &policy));
    REQUIRE_OK(es_proof_policy_file_save(policy, path));
    EXPECT_STATUS(es_proof_policy_file_load(test.device, test.graph, path, &loaded), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "3 constants and 2 predicates");
    EXPECT_CONTAINS(es_status_detail(), path);
    EXPECT_STATUS(es_proof_policy_file_load(test.device, renamed, path, &loaded), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "not the same names");
    EXPECT(loaded == NULL);
    REQUIRE_OK(es_proof_policy_file_load(test.device, graph, path, &loaded));
    es_proof_policy_destroy(loaded);
    es_proof_policy_destroy(policy);
    es_kg_destroy(graph);
    es_kg_destroy(renamed);
    destroy_case(&test);
}

// Weights that know no names act on other graphs: the logits there are those of a policy that was
// made for that graph and has the same weights.
TEST(a_policy_by_structure_is_taken_by_other_graphs) {
    EsProofPolicySettings settings = small_settings(4, 6, 1);
    settings.encoder = ES_PROOF_ENCODER_STRUCTURE;
    PolicyCase test = make_case(&settings, 40, 1);
    EsKnowledgeGraph *graph = make_small_graph("parent(ann,bob) parent(bob,cy)",
                                               "parent(x,y) parent(y,z) -> grand(x,z)", "");
    EsKnowledgeGraph *bare = make_small_graph("parent(ann,bob)", "", "");
    EsProofPolicy *native = NULL, *loaded = NULL;
    const char *path = temp_path("policy.safetensors");
    REQUIRE_OK(es_proof_policy_file_save(test.policy, path));
    REQUIRE_OK(es_proof_policy_file_load(test.device, graph, path, &loaded));
    EXPECT_EQ(memcmp(es_proof_policy_settings(loaded), &settings, sizeof settings), 0);
    REQUIRE_OK(es_proof_policy_create(test.device, graph, &settings, 17, &native));
    EXPECT_EQ(memcmp(es_proof_policy_parameters(loaded), es_proof_policy_parameters(native),
                     es_tensor_bytes(&native->store->parameters)),
              0);
    EXPECT_EQ(es_proof_policy_parameter_count(loaded), es_graph_parameter_count(native->layout));
    EXPECT(!es_proof_policy_file_is_foreign(path, graph));
    es_proof_policy_destroy(loaded);
    EXPECT_STATUS(es_proof_policy_file_load(test.device, bare, path, &loaded), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "without rules");
    EXPECT(loaded == NULL);
    es_proof_policy_destroy(native);
    es_kg_destroy(graph);
    es_kg_destroy(bare);
    destroy_case(&test);
}

// What programs before the encoders wrote has no word of them.
TEST(policies_of_names_say_nothing_of_encoders) {
    EsProofPolicySettings settings = small_settings(4, 4, 1);
    PolicyCase test = make_case(&settings, 40, 1);
    EsProofPolicyMetadata notes;
    es_proof_policy_file_metadata(test.policy, &notes);
    EXPECT_EQ(notes.count, 12);
    for (int i = 0; i < notes.count; i++) {
        EXPECT(strcmp(notes.entry[i].key, "encoder") != 0);
        EXPECT(strcmp(notes.entry[i].key, "format") != 0 ||
               strcmp(notes.entry[i].value, "esper proof policy 1") == 0);
    }
    destroy_case(&test);
}

TEST(files_that_are_no_policy_are_refused) {
    EsProofPolicySettings settings = small_settings(4, 4, 1);
    PolicyCase test = make_case(&settings, 40, 1);
    EsProofPolicy *loaded = NULL;
    const char *path = temp_path("policy.safetensors");
    EXPECT_STATUS(es_proof_policy_file_load(test.device, test.graph, "/nowhere/at/all", &loaded),
                  INPUT);
    EXPECT_CONTAINS(es_status_detail(), "/nowhere/at/all");
    float one = 1;
    int64_t dim = 1;
    EsNamedTensor tensor = {"x", es_tensor_view(&one, ES_DTYPE_F32, NULL, 1, &dim)};
    REQUIRE_OK(es_safetensors_save(path, &tensor, 1, NULL, 0));
    EXPECT_STATUS(es_proof_policy_file_load(test.device, test.graph, path, &loaded), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "not a proof policy");
    // settings that are there and weights that are not
    EsProofPolicyMetadata notes;
    es_proof_policy_file_metadata(test.policy, &notes);
    REQUIRE_OK(es_safetensors_save(path, &tensor, 1, notes.entry, notes.count));
    EXPECT_STATUS(es_proof_policy_file_load(test.device, test.graph, path, &loaded), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "body0.weight");
    // a setting out of range
    for (int i = 0; i < notes.count; i++) {
        if (strcmp(notes.entry[i].key, "hidden") == 0) {
            strcpy(notes.text[i], "1e30");
        }
    }
    REQUIRE_OK(es_safetensors_save(path, &tensor, 1, notes.entry, notes.count));
    EXPECT_STATUS(es_proof_policy_file_load(test.device, test.graph, path, &loaded), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "hidden");
    destroy_case(&test);
}
