// Saving and loading the environment: a head that says what the bytes belong to, then the slab.
// Successors are found again. The slab steers loops and indexes arrays of fixed size, so that every
// number of it is checked before it is taken, whatever its checksum says.
#include <stddef.h>
#include <string.h>

#include "base/checksum.h"
#include "base/memory.h"
#include "base/range_check.h"
#include "proof/agent/proof_env_internal.h"

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

// --- loading ---

// A state: predicates of the graph; constants, and variables numbered by first occurrence.
static EsStatus check_atoms(const char *path, const EsProofEnv *env, int32_t slot,
                            const EsAtom *atoms, int32_t n_atoms) {
    const EsFileField predicate = {path, "predicate in a state of slot", slot};
    const EsFileField term = {path, "term in a state of slot", slot};
    int32_t highest = env->graph->n_constants + 1; // the first variable that has not occurred
    for (int32_t i = 0; i < n_atoms; i++) {
        ES_TRY(es_check_integer(predicate, atoms[i].predicate, 1, env->graph->n_predicates));
        ES_TRY(es_check_integer(term, atoms[i].a, 1, highest));
        highest += atoms[i].a == highest;
        ES_TRY(es_check_integer(term, atoms[i].b, 1, highest));
        highest += atoms[i].b == highest;
    }
    return ES_STATUS_OK;
}

static EsStatus check_visited(const char *path, const EsProofEnv *env, int32_t slot) {
    int32_t max_atoms = env->settings.max_atoms;
    for (int32_t i = 0; i < env->slots[slot].n_visited; i++) {
        size_t at = (size_t)slot * (size_t)env->max_visited + (size_t)i;
        const EsAtom *atoms = env->visited + at * (size_t)max_atoms;
        int32_t n_atoms = env->n_visited_atoms[at];
        ES_TRY(es_check_integer((EsFileField){path, "n_visited_atoms", (int64_t)at}, n_atoms, 1,
                                max_atoms));
        ES_TRY(check_atoms(path, env, slot, atoms, n_atoms));
        if (env->visited_hash[at] != es_proof_hash(atoms, n_atoms)) {
            return ES_FAIL(INPUT, "%s: visited_hash[%zu] is not the hash of its state", path, at);
        }
    }
    return ES_STATUS_OK;
}

static EsStatus check_slot(const char *path, const EsProofEnv *env, int32_t slot) {
    const EsProofSlot *at = &env->slots[slot];
    const EsProofEnvSettings *settings = &env->settings;
    // an action remembers the state it leads to and those passed over
    int32_t per_action = env->max_visited / (settings->max_depth + 1);
    if (!es_kg_is_ground(env->graph, at->query)) {
        return ES_FAIL(INPUT, "%s: query[%d] is %d(%d,%d), not over %d predicates and %d constants",
                       path, slot, at->query.predicate, at->query.a, at->query.b,
                       env->graph->n_predicates, env->graph->n_constants);
    }
    ES_TRY(es_check_integer((EsFileField){path, "label", slot}, at->label, 0, 1));
    ES_TRY(es_check_integer((EsFileField){path, "depth", slot}, at->depth, 0,
                            settings->max_depth - 1));
    ES_TRY(es_check_integer((EsFileField){path, "n_atoms", slot}, at->n_atoms, 1,
                            settings->max_atoms));
    ES_TRY(es_check_integer((EsFileField){path, "n_visited", slot}, at->n_visited,
                            env->max_visited > 0, (at->depth + 1) * per_action));
    ES_TRY(check_atoms(path, env, slot, es_proof_env_state(env, slot), at->n_atoms));
    return check_visited(path, env, slot);
}

static EsStatus check_counters(const char *path, const EsProofEnvCounters *counters,
                               int64_t block) {
#define FIELD(member)                                                                              \
    { #member, offsetof(EsProofEnvCounters, member) }
    static const struct {
        const char *name;
        size_t offset;
    } fields[] = {
        FIELD(n_steps),     FIELD(n_episodes[0]),  FIELD(n_episodes[1]),  FIELD(n_proved[0]),
        FIELD(n_proved[1]), FIELD(n_truncated[0]), FIELD(n_truncated[1]), FIELD(n_by_end[0]),
        FIELD(n_by_end[1]), FIELD(n_actions[0]),   FIELD(n_actions[1]),   FIELD(n_not_corrupted),
        FIELD(n_skipped),   FIELD(n_successors),   FIELD(n_overlong),     FIELD(n_overflow)};
#undef FIELD
    const double most = 2 * (double)ES_COUNTER_MAX; // a reward is at most 1.5
    _Static_assert(sizeof *counters == (ES_COUNT_OF(fields) + 2) * sizeof(int64_t), "all of them");
    for (size_t i = 0; i < ES_COUNT_OF(fields); i++) {
        int64_t value;
        memcpy(&value, (const unsigned char *)counters + fields[i].offset, sizeof value);
        ES_TRY(es_check_counter((EsFileField){path, fields[i].name, block}, value));
    }
    for (int label = 0; label < 2; label++) {
        ES_TRY(es_check_real((EsFileField){path, "reward", block}, counters->reward[label], -most,
                             most));
    }
    return ES_STATUS_OK;
}

// An environment that differs in its slab alone.
static EsStatus check_slab(const char *path, const EsProofEnv *env) {
    for (int32_t slot = 0; slot < env->settings.n_slots; slot++) {
        ES_TRY(check_slot(path, env, slot));
    }
    for (int32_t b = 0; b < env->n_blocks; b++) {
        ES_TRY(check_counters(path, &env->counters[b], b));
    }
    return ES_STATUS_OK;
}

static EsStatus check_head(const EsProofEnv *env, const char *path, const unsigned char *saved,
                           size_t saved_bytes) {
    SavedHead expected = describe(env), head;
    if (saved_bytes != es_proof_env_saved_bytes(env)) {
        return ES_FAIL(INPUT, "%s: a saved proof environment of %zu bytes, this one needs %zu",
                       path, saved_bytes, es_proof_env_saved_bytes(env));
    }
    memcpy(&head, saved, sizeof head);
    expected.slab_crc = head.slab_crc;
    if (memcmp(&head, &expected, sizeof head) != 0) {
        return ES_FAIL(INPUT, "%s: a saved proof environment of another graph or other settings",
                       path);
    }
    if (es_crc32c(saved + sizeof head, env->slab_bytes) != head.slab_crc) {
        return ES_FAIL(INPUT, "%s: a saved proof environment whose checksum does not fit: damaged",
                       path);
    }
    return ES_STATUS_OK;
}

EsStatus es_proof_env_load(EsProofEnv *env, const char *path, const void *saved,
                           size_t saved_bytes) {
    ES_TRY(check_head(env, path, saved, saved_bytes));
    EsProofEnv loaded = *env;
    unsigned char *slab = NULL;
    ES_TRY(es_allocate(env->slab_bytes, (void **)&slab)); // aligned, unlike `saved`
    memcpy(slab, (const unsigned char *)saved + sizeof(SavedHead), env->slab_bytes);
    es_proof_env_lay_out(&loaded, slab);
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(check_slab(path, &loaded));
    memcpy(env->slab, slab, env->slab_bytes);
    status = es_proof_env_restore(env);
    // what finding the successors again has counted was counted before
    memcpy(env->counters, loaded.counters, (size_t)env->n_blocks * sizeof *env->counters);
done:
    es_release(slab);
    return status;
}
