// Saving and loading the environment: a head that says what the bytes belong to, then the slab.
// Successors are found again.
#include <string.h>

#include "base/crc32c.h"
#include "proof/proof_env_internal.h"

// "esproof1" in the order of bytes of this machine, which a file of another order lacks
#define SAVED_MAGIC UINT64_C(0x31666f6f72707365)

// Settings and checksums that must agree; no padding, so that bytes can be compared.
typedef struct SavedHead {
    uint64_t magic, seed, slab_bytes;
    int32_t n_slots, first_slot, selection, max_atoms, max_states, max_depth;
    int32_t has_end, has_memory, skips_unary, order, n_negatives, corrupts_head, corrupts_tail;
    int32_t uses_domains, reward_type, n_constants, n_predicates, n_facts, n_rules, n_queries;
    uint32_t facts_crc, rules_crc, queries_crc, slab_crc;
} SavedHead;

_Static_assert(sizeof(SavedHead) == 3 * sizeof(uint64_t) + 24 * sizeof(int32_t), "no padding");

static SavedHead describe(const EsProofEnv *env) {
    const EsProofEnvSettings *settings = &env->settings;
    const EsKnowledgeGraph *graph = env->graph;
    SavedHead head = {.magic = SAVED_MAGIC,
                      .seed = settings->seed,
                      .slab_bytes = env->slab_bytes,
                      .n_slots = settings->n_slots,
                      .first_slot = settings->first_slot,
                      .selection = (int32_t)settings->selection,
                      .max_atoms = settings->max_atoms,
                      .max_states = settings->max_states,
                      .max_depth = settings->max_depth,
                      .has_end = settings->has_end != 0,
                      .has_memory = settings->has_memory != 0,
                      .skips_unary = settings->skips_unary != 0,
                      .order = (int32_t)settings->order,
                      .n_negatives = settings->n_negatives,
                      .corrupts_head = settings->is_corrupting[ES_CORRUPT_HEAD] != 0,
                      .corrupts_tail = settings->is_corrupting[ES_CORRUPT_TAIL] != 0,
                      .uses_domains = settings->uses_domains != 0,
                      .reward_type = settings->reward_type,
                      .n_constants = graph->n_constants,
                      .n_predicates = graph->n_predicates,
                      .n_facts = graph->n_facts,
                      .n_rules = graph->n_rules,
                      .n_queries = settings->n_queries};
    head.facts_crc = es_crc32c(graph->facts, (size_t)graph->n_facts * sizeof *graph->facts);
    for (int32_t r = 0; r < graph->n_rules; r++) {
        const EsHornRule *rule = &graph->rules[r];
        head.rules_crc = 31 * head.rules_crc + es_crc32c(&rule->head, sizeof rule->head) +
                         es_crc32c(rule->body, sizeof rule->body);
    }
    head.queries_crc = es_crc32c(env->queries, (size_t)settings->n_queries * sizeof *env->queries);
    return head;
}

size_t es_proof_env_saved_bytes(const EsProofEnv *env) {
    return sizeof(SavedHead) + env->slab_bytes;
}

void es_proof_env_save(const EsProofEnv *env, void *saved) {
    SavedHead head = describe(env);
    head.slab_crc = es_crc32c(env->slab, env->slab_bytes);
    memcpy(saved, &head, sizeof head);
    memcpy((unsigned char *)saved + sizeof head, env->slab, env->slab_bytes);
}

EsStatus es_proof_env_load(EsProofEnv *env, const void *saved, size_t saved_bytes) {
    SavedHead expected = describe(env), head;
    if (saved_bytes != es_proof_env_saved_bytes(env)) {
        return ES_FAIL(INPUT, "a saved proof environment of %zu bytes, this one needs %zu",
                       saved_bytes, es_proof_env_saved_bytes(env));
    }
    memcpy(&head, saved, sizeof head);
    const unsigned char *slab = (const unsigned char *)saved + sizeof head;
    expected.slab_crc = head.slab_crc;
    if (memcmp(&head, &expected, sizeof head) != 0) {
        return ES_FAIL(INPUT, "a saved proof environment of another graph or other settings");
    }
    if (es_crc32c(slab, env->slab_bytes) != head.slab_crc) {
        return ES_FAIL(INPUT, "a saved proof environment whose checksum does not fit: damaged");
    }
    memcpy(env->slab, slab, env->slab_bytes);
    EsStatus status = es_proof_env_restore(env);
    // what finding the successors again has counted was counted before
    size_t counters = (size_t)((unsigned char *)env->counters - env->slab);
    memcpy(env->counters, slab + counters, (size_t)env->n_blocks * sizeof *env->counters);
    return status;
}
