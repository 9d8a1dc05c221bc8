#include "proof/prover.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

// A state that was reached; level by level in the order they were found.
typedef struct Node {
    uint64_t hash; // of the key
    size_t start;  // its atoms, and behind them the key's if that is another list
    int32_t n_atoms, n_key;
} Node;

struct EsProver {
    const EsKnowledgeGraph *graph; // borrowed
    EsProverSettings settings;
    EsProofSettings listing;  // every successor
    EsProofSettings deciding; // none of them: whether a proof is one step away
    EsSuccessors successors;
    Node *nodes; // owned, as are the next two; they grow from query to query
    int32_t n_nodes, node_capacity;
    EsAtom *atoms;
    size_t n_atoms, atom_capacity;
    int32_t *table; // node + 1 by hash, 0: free
    int32_t table_size;
};

// --- buffers ---

int32_t es_proof_max_candidates(const EsKnowledgeGraph *graph) {
    int32_t most = 1;
    for (int32_t p = 1; p <= graph->n_predicates; p++) {
        int32_t n_rules;
        es_kg_rules_of(graph, p, &n_rules);
        most = ES_MAX(most, es_kg_facts_of(graph, p).count + n_rules);
    }
    return most;
}

EsStatus es_successors_create(int32_t max_states, int32_t max_atoms, EsSuccessors *successors) {
    ES_ASSERT(max_states >= 1 && max_states <= 1 << 28 && max_atoms >= 0 &&
              max_atoms <= ES_PROOF_MAX_ATOMS);
    memset(successors, 0, sizeof *successors);
    int32_t table_size = 4;
    while (table_size < 2 * max_states) {
        table_size *= 2;
    }
    size_t bytes = 0, n_states = (size_t)max_states;
    size_t atoms = es_slab_add(&bytes, (n_states + 1) * (size_t)ES_MAX(max_atoms, 1) *
                                           sizeof *successors->atoms);
    size_t start = es_slab_add(&bytes, (n_states + 2) * sizeof *successors->start);
    size_t hash = es_slab_add(&bytes, (n_states + 1) * sizeof *successors->hash);
    size_t place = es_slab_add(&bytes, (n_states + 1) * sizeof *successors->place);
    size_t table = es_slab_add(&bytes, (size_t)table_size * sizeof *successors->table);
    void *memory;
    ES_TRY(es_allocate(bytes, &memory));
    unsigned char *slab = memory;
    successors->atoms = (void *)(slab + atoms); // first in the slab: what destroy releases
    successors->start = (void *)(slab + start);
    successors->hash = (void *)(slab + hash);
    successors->place = (void *)(slab + place);
    successors->table = (void *)(slab + table);
    successors->table_size = table_size;
    return ES_STATUS_OK;
}

void es_successors_destroy(EsSuccessors *successors) {
    es_release(successors->atoms);
    memset(successors, 0, sizeof *successors);
}

// Room for `wanted` elements, at least doubling; the contents stay.
static EsStatus grow_array(void **array, size_t element_bytes, size_t used, size_t wanted,
                           size_t *capacity) {
    if (wanted <= *capacity) {
        return ES_STATUS_OK;
    }
    size_t larger = ES_MAX(wanted, *capacity * 2);
    void *memory;
    ES_TRY(es_allocate(larger * element_bytes, &memory));
    if (used > 0) {
        memcpy(memory, *array, used * element_bytes);
    }
    es_release(*array);
    *array = memory;
    *capacity = larger;
    return ES_STATUS_OK;
}

// --- visited states ---

// The set of the atoms, as a sorted list without repetitions.
static int32_t make_set(const EsAtom *state, int32_t n_atoms, EsAtom *set) {
    memcpy(set, state, (size_t)n_atoms * sizeof *set);
    qsort(set, (size_t)n_atoms, sizeof *set, es_atom_compare);
    int32_t n_set = 0;
    for (int32_t i = 0; i < n_atoms; i++) {
        if (n_set == 0 || !es_atom_equals(set[n_set - 1], set[i])) {
            set[n_set++] = set[i];
        }
    }
    return n_set;
}

static const EsAtom *key_of(const EsProver *prover, const Node *node) {
    const EsAtom *atoms = prover->atoms + node->start;
    return prover->settings.uses_published_naming ? atoms + node->n_atoms : atoms;
}

static EsStatus grow_table(EsProver *prover) {
    int32_t table_size = ES_MAX(prover->table_size * 2, 1 << 10);
    void *memory;
    ES_TRY(es_allocate((size_t)table_size * sizeof *prover->table, &memory));
    es_release(prover->table);
    prover->table = memory;
    prover->table_size = table_size;
    for (int32_t i = 0; i < prover->n_nodes; i++) {
        int32_t place = (int32_t)(prover->nodes[i].hash & (uint64_t)(table_size - 1));
        while (prover->table[place] != 0) {
            place = (place + 1) & (table_size - 1);
        }
        prover->table[place] = i + 1;
    }
    return ES_STATUS_OK;
}

// The place of the key in the table: that of a node equal to it, or a free one.
static int32_t find_place(const EsProver *prover, const EsAtom *key, int32_t n_key, uint64_t hash) {
    int32_t place = (int32_t)(hash & (uint64_t)(prover->table_size - 1));
    for (; prover->table[place] != 0; place = (place + 1) & (prover->table_size - 1)) {
        const Node *node = &prover->nodes[prover->table[place] - 1];
        if (node->hash == hash && node->n_key == n_key &&
            es_proof_states_equal(key_of(prover, node), key, n_key)) {
            break;
        }
    }
    return place;
}

// Room for one more node of at most twice ES_PROOF_MAX_ATOMS atoms.
static EsStatus make_room(EsProver *prover) {
    if (prover->n_nodes >= prover->table_size / 2) {
        ES_TRY(grow_table(prover));
    }
    size_t n_nodes = (size_t)prover->n_nodes, capacity = (size_t)prover->node_capacity;
    void *nodes = prover->nodes, *atoms = prover->atoms;
    EsStatus status = grow_array(&nodes, sizeof(Node), n_nodes, n_nodes + 1, &capacity);
    prover->nodes = nodes;
    prover->node_capacity = (int32_t)capacity;
    ES_TRY(status);
    status = grow_array(&atoms, sizeof(EsAtom), prover->n_atoms,
                        prover->n_atoms + (size_t)2 * ES_PROOF_MAX_ATOMS, &prover->atom_capacity);
    prover->atoms = atoms;
    return status;
}

// Add a state unless it was there before.
static EsStatus visit(EsProver *prover, const EsAtom *state, int32_t n_atoms, uint64_t hash) {
    EsAtom set[ES_PROOF_MAX_ATOMS];
    const EsAtom *key = state;
    int32_t n_key = n_atoms;
    if (prover->settings.uses_published_naming) {
        n_key = make_set(state, n_atoms, set);
        key = set;
        hash = es_proof_hash(set, n_key);
    }
    ES_TRY(make_room(prover));
    int32_t place = find_place(prover, key, n_key, hash);
    if (prover->table[place] != 0) {
        return ES_STATUS_OK;
    }
    Node node = {.hash = hash, .start = prover->n_atoms, .n_atoms = n_atoms, .n_key = n_key};
    memcpy(prover->atoms + prover->n_atoms, state, (size_t)n_atoms * sizeof *state);
    prover->n_atoms += (size_t)n_atoms;
    if (key != state) {
        memcpy(prover->atoms + prover->n_atoms, key, (size_t)n_key * sizeof *key);
        prover->n_atoms += (size_t)n_key;
    }
    prover->nodes[prover->n_nodes++] = node;
    prover->table[place] = prover->n_nodes;
    return ES_STATUS_OK;
}

// --- the search ---

// Whether the state may still be proved in n_steps. A ground atom that is left is no fact that may
// be used, and no substitution changes it: it takes a step of its own, by a rule.
static int may_be_proved(const EsKnowledgeGraph *graph, const EsAtom *state, int32_t n_atoms,
                         int32_t n_steps) {
    int32_t n_ground = 0;
    for (int32_t i = 0; i < n_atoms; i++) {
        if (state[i].a <= graph->n_constants && state[i].b <= graph->n_constants) {
            int32_t n_rules;
            es_kg_rules_of(graph, state[i].predicate, &n_rules);
            n_ground++;
            if (n_rules == 0 || n_ground > n_steps) {
                return 0;
            }
        }
    }
    return 1;
}

// Whether a proof is one step away from some state of the level [begin, end).
static int level_has_proof(EsProver *prover, EsAtom query, int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; i++) {
        const Node *node = &prover->nodes[i];
        es_proof_expand(prover->graph, &prover->deciding, query, prover->atoms + node->start,
                        node->n_atoms, NULL, &prover->successors);
        if (prover->successors.outcome == ES_PROOF_PROVED) {
            return 1;
        }
    }
    return 0;
}

// Add the successors of node i that may be proved in n_steps.
static EsStatus expand_node(EsProver *prover, EsAtom query, int32_t i, int32_t n_steps,
                            EsProverAnswer *answer) {
    EsSuccessors *successors = &prover->successors;
    es_proof_expand(prover->graph, &prover->listing, query, prover->atoms + prover->nodes[i].start,
                    prover->nodes[i].n_atoms, NULL, successors);
    answer->n_expanded++;
    answer->n_overlong += successors->n_overlong;
    ES_ASSERT(successors->n_overflow == 0);
    for (int32_t k = 0; k < successors->count && successors->outcome == ES_PROOF_OPEN; k++) {
        EsAtomSpan state = es_successor(successors, k);
        if (may_be_proved(prover->graph, state.atoms, state.count, n_steps)) {
            ES_TRY(visit(prover, state.atoms, state.count, successors->hash[k]));
        }
    }
    return ES_STATUS_OK;
}

static EsStatus search_levels(EsProver *prover, EsAtom query, EsProverAnswer *answer) {
    ES_TRY(visit(prover, &query, 1, es_proof_hash(&query, 1)));
    int32_t begin = 0;
    for (int32_t depth = 1; depth <= prover->settings.max_depth; depth++) {
        int32_t end = prover->n_nodes;
        if (level_has_proof(prover, query, begin, end)) {
            answer->depth = depth;
            return ES_STATUS_OK;
        }
        int32_t n_steps = prover->settings.max_depth - depth;
        for (int32_t i = begin; i < end && n_steps > 0; i++) {
            ES_TRY(expand_node(prover, query, i, n_steps, answer));
            if (prover->n_nodes > prover->settings.max_states) {
                answer->depth = ES_PROVER_DEPTH_UNKNOWN;
                return ES_STATUS_OK;
            }
        }
        begin = end;
    }
    return ES_STATUS_OK;
}

// Forget the states of the last query; after a long search clearing places one by one would cost
// more than clearing all.
static void forget_states(EsProver *prover) {
    if (prover->n_nodes < prover->table_size / 16) {
        for (int32_t i = prover->n_nodes - 1; i >= 0; i--) {
            const Node *node = &prover->nodes[i];
            prover->table[find_place(prover, key_of(prover, node), node->n_key, node->hash)] = 0;
        }
    } else {
        memset(prover->table, 0, (size_t)prover->table_size * sizeof *prover->table);
    }
    prover->n_nodes = 0;
    prover->n_atoms = 0;
}

EsProverSettings es_prover_defaults(void) {
    EsProverSettings settings = {
        .selection = ES_GOAL_CONSTRAINED, .max_depth = 4, .max_atoms = 6, .max_states = 4000000};
    return settings;
}

EsStatus es_prover_create(const EsKnowledgeGraph *graph, const EsProverSettings *settings,
                          EsProver **prover) {
    *prover = NULL;
    if (settings->max_depth < 1 || settings->max_atoms < 1 ||
        settings->max_atoms > ES_PROOF_MAX_ATOMS || settings->max_states < 1 ||
        settings->max_states > 1 << 28) {
        return ES_FAIL(ARGUMENT,
                       "a prover of depth %d with %d atoms a state and %d states: the depth must "
                       "be at least 1, the atoms 1 to %d, the states 1 to %d",
                       settings->max_depth, settings->max_atoms, settings->max_states,
                       ES_PROOF_MAX_ATOMS, 1 << 28);
    }
    void *memory;
    ES_TRY(es_allocate(sizeof(EsProver), &memory));
    EsProver *made = memory;
    made->graph = graph;
    made->settings = *settings;
    int32_t max_candidates = es_proof_max_candidates(graph);
    EsProofSettings listing = {.selection = settings->selection,
                               .max_atoms = settings->max_atoms,
                               .max_states = max_candidates,
                               .uses_published_naming = settings->uses_published_naming};
    made->listing = listing;
    made->deciding = listing;
    made->deciding.max_atoms = 0;
    EsStatus status = es_successors_create(max_candidates, settings->max_atoms, &made->successors);
    if (status == ES_STATUS_OK) {
        status = grow_table(made);
    }
    if (status != ES_STATUS_OK) {
        es_prover_destroy(made);
        return status;
    }
    *prover = made;
    return ES_STATUS_OK;
}

void es_prover_destroy(EsProver *prover) {
    if (prover == NULL) {
        return;
    }
    es_successors_destroy(&prover->successors);
    es_release(prover->nodes);
    es_release(prover->atoms);
    es_release(prover->table);
    es_release(prover);
}

EsStatus es_prover_find_depth(EsProver *prover, EsAtom query, EsProverAnswer *answer) {
    const EsKnowledgeGraph *graph = prover->graph;
    memset(answer, 0, sizeof *answer);
    answer->depth = ES_KG_DEPTH_NONE;
    if (query.predicate < 1 || query.predicate > graph->n_predicates || query.a < 1 ||
        query.a > graph->n_constants || query.b < 1 || query.b > graph->n_constants) {
        return ES_FAIL(ARGUMENT,
                       "the query %d(%d,%d) is not over the graph's %d predicates and %d constants",
                       query.predicate, query.a, query.b, graph->n_predicates, graph->n_constants);
    }
    EsStatus status = search_levels(prover, query, answer);
    answer->n_states = prover->n_nodes;
    forget_states(prover);
    return status;
}

// --- many queries ---

// queries per piece of work: enough to make taking one cheap, few enough to share out evenly
#define BLOCK 8

typedef struct Worker {
    EsProver *prover; // owned
    EsProverReport report;
    EsStatus status;
} Worker;

typedef struct Work {
    Worker *workers;
    const EsAtom *queries;
    int32_t count;
    int32_t *depths;
} Work;

static void prove_block(void *context, int64_t piece, int worker_index) {
    Work *work = context;
    Worker *worker = &work->workers[worker_index];
    EsProverReport *report = &worker->report;
    int64_t end = ES_MIN((piece + 1) * BLOCK, (int64_t)work->count);
    for (int64_t i = piece * BLOCK; i < end && worker->status == ES_STATUS_OK; i++) {
        EsProverAnswer answer;
        worker->status = es_prover_find_depth(worker->prover, work->queries[i], &answer);
        work->depths[i] = answer.depth;
        report->n_proved += answer.depth > 0;
        report->n_unproved += answer.depth == ES_KG_DEPTH_NONE;
        report->n_unknown += answer.depth == ES_PROVER_DEPTH_UNKNOWN;
        report->n_states += answer.n_states;
        report->n_expanded += answer.n_expanded;
        report->n_overlong += answer.n_overlong;
    }
}

static void sum_reports(const Worker *workers, int n_workers, EsProverReport *sum) {
    memset(sum, 0, sizeof *sum);
    for (int w = 0; w < n_workers; w++) {
        const EsProverReport *report = &workers[w].report;
        sum->n_proved += report->n_proved;
        sum->n_unproved += report->n_unproved;
        sum->n_unknown += report->n_unknown;
        sum->n_states += report->n_states;
        sum->n_expanded += report->n_expanded;
        sum->n_overlong += report->n_overlong;
    }
}

// A worker's failure has left its text with the worker's thread, so it is said again here.
static EsStatus first_failure(const Worker *workers, int n_workers, int32_t count) {
    for (int w = 0; w < n_workers; w++) {
        if (workers[w].status == ES_STATUS_MEMORY) {
            return ES_FAIL(MEMORY, "out of memory in the proof search of %d queries on %d threads",
                           count, n_workers);
        }
        if (workers[w].status != ES_STATUS_OK) {
            return ES_FAIL(ARGUMENT,
                           "one of %d queries is not over the graph's predicates and constants",
                           count);
        }
    }
    return ES_STATUS_OK;
}

EsStatus es_prover_find_depths(const EsKnowledgeGraph *graph, const EsProverSettings *settings,
                               EsThreadPool *pool, const EsAtom *queries, int32_t count,
                               int32_t *depths, EsProverReport *report) {
    int n_workers = es_thread_pool_size(pool);
    void *memory;
    ES_TRY(es_allocate((size_t)n_workers * sizeof(Worker), &memory));
    Work work = {.workers = memory, .queries = queries, .count = count, .depths = depths};
    EsStatus status = ES_STATUS_OK;
    for (int w = 0; w < n_workers && status == ES_STATUS_OK; w++) {
        status = es_prover_create(graph, settings, &work.workers[w].prover);
    }
    if (status == ES_STATUS_OK) {
        es_thread_pool_run(pool, ((int64_t)count + BLOCK - 1) / BLOCK, prove_block, &work);
        sum_reports(work.workers, n_workers, report);
        status = first_failure(work.workers, n_workers, count);
    }
    for (int w = 0; w < n_workers; w++) {
        es_prover_destroy(work.workers[w].prover);
    }
    es_release(memory);
    return status;
}
