// Each level is asked twice: first whether some state of it is one step from a proof, which needs
// no successor lists, and only then are its states expanded. A state whose ground atoms cannot all
// be resolved in the steps left is not kept.
#include "proof/search/prover.h"

#include <string.h>

#include "base/first_error.h"
#include "base/memory.h"
#include "proof/search/goal_table.h"

struct EsProver {
    const EsKnowledgeGraph *graph; // borrowed
    EsProverSettings settings;
    EsProofSettings listing;  // every successor
    EsProofSettings deciding; // none of them: whether a proof is one step away
    EsSuccessors successors;
    EsGoalTable goals; // level by level in the order they were found
};

// --- buffers ---

// the table that finds duplicates has at least twice as many places
#define MAX_SUCCESSORS (1 << 29)

int32_t es_proof_max_candidates(const EsKnowledgeGraph *graph) {
    int32_t most = 1;
    for (int32_t p = 1; p <= graph->n_predicates; p++) {
        int32_t n_rules;
        es_kg_rules_of(graph, p, &n_rules);
        most = ES_MAX(most, es_kg_count_facts_of(graph, p) + n_rules);
    }
    return most;
}

EsStatus es_successors_create(int32_t max_states, int32_t max_atoms, EsSuccessors *successors) {
    ES_ASSERT(max_states >= 1 && max_atoms >= 0 && max_atoms <= ES_PROOF_MAX_ATOMS);
    memset(successors, 0, sizeof *successors);
    if (max_states > MAX_SUCCESSORS || ((int64_t)max_states + 1) * max_atoms > INT32_MAX) {
        return ES_FAIL(MEMORY,
                       "%d successors of %d atoms are more than one list holds; a limit on "
                       "successors or fewer atoms would help",
                       max_states, max_atoms);
    }
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
    successors->atoms = (void *)(slab + atoms); // first in the slab, released by destroy
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

// --- the search ---

// A ground atom that is left is no fact that may be used, and no substitution changes it: it takes
// a step of its own, by a rule.
int es_proof_may_end(const EsKnowledgeGraph *graph, EsAtomSpan state, int32_t n_steps) {
    int32_t n_ground = 0;
    for (int32_t i = 0; i < state.count; i += es_kg_cells(graph, state.atoms[i].predicate)) {
        if (es_proof_is_ground(graph, &state.atoms[i])) {
            int32_t n_rules;
            es_kg_rules_of(graph, state.atoms[i].predicate, &n_rules);
            n_ground++;
            if (n_rules == 0 || n_ground > n_steps) {
                return 0;
            }
        }
    }
    return 1;
}

// Returns whether a proof is one step away from some state of the level [begin, end).
static int level_has_proof(EsProver *prover, const EsAtom *query, int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; i++) {
        EsAtomSpan state = es_goal_table_at(&prover->goals, i);
        es_proof_expand(prover->graph, &prover->deciding, query, state.atoms, state.count, NULL,
                        &prover->successors);
        if (prover->successors.outcome == ES_PROOF_PROVED) {
            return 1;
        }
    }
    return 0;
}

// Add the successors of node i that may be proved in n_steps.
static EsStatus expand_node(EsProver *prover, const EsAtom *query, int32_t i, int32_t n_steps,
                            EsProverAnswer *answer) {
    EsSuccessors *successors = &prover->successors;
    EsAtomSpan parent = es_goal_table_at(&prover->goals, i);
    int32_t number;
    es_proof_expand(prover->graph, &prover->listing, query, parent.atoms, parent.count, NULL,
                    successors);
    answer->n_expanded++;
    answer->n_overlong += successors->n_overlong;
    ES_ASSERT(successors->n_overflow == 0);
    for (int32_t k = 0; k < successors->count && successors->outcome == ES_PROOF_OPEN; k++) {
        EsAtomSpan state = es_successor(successors, k);
        if (es_proof_may_end(prover->graph, state, n_steps)) {
            ES_TRY(es_goal_table_add(&prover->goals, state.atoms, state.count, successors->hash[k],
                                     &number));
        }
    }
    return ES_STATUS_OK;
}

static EsStatus search_levels(EsProver *prover, const EsAtom *query, EsProverAnswer *answer) {
    int32_t begin = 0, number, n_cells = es_kg_cells(prover->graph, query->predicate);
    ES_TRY(
        es_goal_table_add(&prover->goals, query, n_cells, es_proof_hash(query, n_cells), &number));
    for (int32_t depth = 1; depth <= prover->settings.max_depth; depth++) {
        int32_t end = prover->goals.count;
        if (level_has_proof(prover, query, begin, end)) {
            answer->depth = depth;
            return ES_STATUS_OK;
        }
        int32_t n_steps = prover->settings.max_depth - depth;
        for (int32_t i = begin; i < end && n_steps > 0; i++) {
            ES_TRY(expand_node(prover, query, i, n_steps, answer));
            if (prover->goals.count > prover->settings.max_states) {
                answer->depth = ES_PROVER_DEPTH_UNKNOWN;
                return ES_STATUS_OK;
            }
        }
        begin = end;
    }
    return ES_STATUS_OK;
}

EsProverSettings es_prover_defaults(void) {
    EsProverSettings settings = {
        .selection = ES_GOAL_CONSTRAINED, .max_depth = 4, .max_atoms = 6, .max_states = 4000000};
    return settings;
}

EsStatus es_proof_check_graph(const EsKnowledgeGraph *graph) {
    return graph->n_decided >= 0
               ? ES_STATUS_OK
               : ES_FAIL(INPUT, "rules with negation are for the closure and for questions; proofs "
                                "are searched for with atoms and comparisons alone");
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
    ES_TRY(es_proof_check_graph(graph));
    if (settings->uses_published_naming) {
        ES_TRY(es_kg_check_binary(graph, "the published naming"));
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
    made->goals.compares_sets = settings->uses_published_naming;
    EsStatus status = es_successors_create(max_candidates, settings->max_atoms, &made->successors);
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
    es_goal_table_destroy(&prover->goals);
    es_release(prover);
}

EsStatus es_proof_check_query(const EsKnowledgeGraph *graph, const EsAtom *query) {
    if (!es_kg_is_ground(graph, query)) {
        return ES_FAIL(
            ARGUMENT, "the query %d(%d,%d) is not over the graph's %d predicates and %d constants",
            query->predicate, query->a, query->b, graph->n_predicates, graph->n_constants);
    }
    return ES_STATUS_OK;
}

EsStatus es_prover_find_depth(EsProver *prover, const EsAtom *query, EsProverAnswer *answer) {
    memset(answer, 0, sizeof *answer);
    answer->depth = ES_KG_DEPTH_NONE;
    ES_TRY(es_proof_check_query(prover->graph, query));
    EsStatus status = search_levels(prover, query, answer);
    answer->n_states = prover->goals.count;
    es_goal_table_clear(&prover->goals);
    return status;
}

// --- many queries ---

// queries per piece of work: enough to make taking one cheap, few enough to share out evenly
#define BLOCK 8

typedef struct Worker {
    EsProver *prover; // owned
    EsProverReport report;
    EsFirstError first_error;
} Worker;

typedef struct Work {
    Worker *workers;
    const EsAtom *queries;
    int32_t count, query_cells;
    int32_t *depths;
} Work;

static void prove_block(void *context, int64_t piece, int worker_index) {
    Work *work = context;
    Worker *worker = &work->workers[worker_index];
    EsProverReport *report = &worker->report;
    int64_t end = ES_MIN((piece + 1) * BLOCK, (int64_t)work->count);
    for (int64_t i = piece * BLOCK; i < end && worker->first_error.status == ES_STATUS_OK; i++) {
        EsProverAnswer answer;
        const EsAtom *query = work->queries + i * work->query_cells;
        es_first_error_capture(&worker->first_error,
                               es_prover_find_depth(worker->prover, query, &answer));
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

EsStatus es_prover_find_depths(const EsKnowledgeGraph *graph, const EsProverSettings *settings,
                               EsThreadPool *pool, const EsAtom *queries, int32_t count,
                               int32_t *depths, EsProverReport *report) {
    int n_workers = es_thread_pool_size(pool);
    void *memory;
    ES_TRY(es_allocate((size_t)n_workers * sizeof(Worker), &memory));
    Work work = {.workers = memory,
                 .queries = queries,
                 .count = count,
                 .query_cells = graph->query_cells,
                 .depths = depths};
    EsStatus status = ES_STATUS_OK;
    for (int w = 0; w < n_workers && status == ES_STATUS_OK; w++) {
        status = es_prover_create(graph, settings, &work.workers[w].prover);
    }
    if (status == ES_STATUS_OK) {
        es_thread_pool_run(pool, ((int64_t)count + BLOCK - 1) / BLOCK, prove_block, &work);
        sum_reports(work.workers, n_workers, report);
    }
    for (int w = 0; w < n_workers; w++) {
        if (status == ES_STATUS_OK) {
            status = es_first_error_rethrow(&work.workers[w].first_error);
        }
        es_prover_destroy(work.workers[w].prover);
    }
    es_release(memory);
    return status;
}
