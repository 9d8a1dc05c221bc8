// The environments of proofs as kernels, a warp for each; every decision is in the rules. A list of
// successors is that of es_proof_expand, byte for byte: lanes write 32 candidates at a time, in its
// order, and of equal ones the lowest lane's stays.
#include "kernels/cuda/cuda_common.cuh"
#include "proof/cuda/proof_env_arrays.h"

#define WARP     32
#define WARPS    4 // of a block; they share nothing
#define BLOCKS   6 // of a multiprocessor at once, which leaves a thread 80 registers
#define ALL      0xFFFFFFFFu
#define SCANNERS 1024

// --- a warp ---

// The place of a warp, and its shared memory.
struct Warp {
    int32_t lane, number;
    EsProofEnvCounters *counters; // of the environment at work
    EsAtom *query;                // [2]
    EsAtom *state;                // [A]
    EsAtom *rest, *marked;        // [A]
    int32_t *candidate_rows;      // [32, stride], a row per lane
    int32_t stride;               // words: odd, so that lanes do not meet in a bank

    __device__ EsAtom *candidate_of(int32_t of_lane) const {
        return (EsAtom *)(candidate_rows + of_lane * stride);
    }
};

#define ATOM_WORDS 3
static_assert(sizeof(EsAtom) == ATOM_WORDS * sizeof(int32_t), "atoms are copied by words");

#define COUNTER_WORDS ((int32_t)(sizeof(EsProofEnvCounters) / sizeof(int32_t)))

// Words of a candidate's row, and of all that a warp has: a whole number of 8 bytes.
static __host__ __device__ int32_t row_words(int32_t max_atoms) {
    return (ATOM_WORDS * max_atoms) | 1;
}

static __host__ __device__ int32_t shared_words(int32_t max_atoms) {
    int32_t words = COUNTER_WORDS + ATOM_WORDS * (ES_ATOM_MAX_CELLS + 3 * max_atoms) +
                    WARP * row_words(max_atoms);
    return words + words % 2;
}

static size_t shared_bytes(int32_t max_atoms) {
    return WARPS * (size_t)shared_words(max_atoms) * sizeof(int32_t);
}

static __device__ Warp this_warp(const EsProofEnvArrays &arrays, unsigned char *memory) {
    int32_t A = arrays.settings.max_atoms, of_block = (int32_t)threadIdx.x / WARP;
    int32_t *words = (int32_t *)memory + of_block * shared_words(A);
    Warp warp;
    warp.lane = (int32_t)threadIdx.x % WARP;
    warp.number = (int32_t)blockIdx.x * WARPS + of_block;
    warp.counters = (EsProofEnvCounters *)words;
    warp.query = (EsAtom *)(words + COUNTER_WORDS);
    warp.state = warp.query + ES_ATOM_MAX_CELLS;
    warp.rest = warp.state + A;
    warp.marked = warp.rest + A;
    warp.candidate_rows = (int32_t *)(warp.marked + A);
    warp.stride = row_words(A);
    return warp;
}

static __device__ void copy_atoms(const Warp &warp, EsAtom *to, const EsAtom *from,
                                  int32_t n_atoms) {
    for (int32_t i = warp.lane; i < ATOM_WORDS * n_atoms; i += WARP) {
        ((int32_t *)to)[i] = ((const int32_t *)from)[i];
    }
}

// --- a state to resolve ---

// The goals of warp.state but the selected one and ground facts, in their order.
template <int WIDE>
static __device__ __forceinline__ int32_t keep_rest(const EsProofEnvArrays &arrays,
                                                    const Warp &warp, int32_t n_atoms,
                                                    int32_t selected) {
    int32_t i = warp.lane;
    EsAtom cell = {0, 0, 0};
    int is_kept = 0;
    if (i < n_atoms) {
        cell = warp.state[i];
        is_kept = cell.predicate != ES_ATOM_MORE && i != selected &&
                  !es_proof_holds_as(&arrays.graph, warp.state + i, warp.query, WIDE);
    }
    unsigned kept = __ballot_sync(ALL, is_kept);
    if (WIDE) { // second cells go where the first ones go
        is_kept |= i > 0 && i < n_atoms && cell.predicate == ES_ATOM_MORE && (kept >> (i - 1) & 1u);
        kept = __ballot_sync(ALL, is_kept);
    }
    if (is_kept) {
        warp.rest[__popc(kept & ((1u << i) - 1))] = cell;
    }
    return __popc(kept);
}

// Every lane has the resolvent; its lists of goals are the warp's.
template <int WIDE>
static __device__ __forceinline__ void prepare(const EsProofEnvArrays &arrays, const Warp &warp,
                                               int32_t n_atoms, EsResolvent *resolvent) {
    es_resolvent_begin(resolvent, &arrays.graph, &arrays.listing, warp.query, warp.rest);
    resolvent->marked = warp.marked;
    int32_t selected =
        es_proof_select_as(&arrays.graph, warp.state, n_atoms, arrays.listing.selection, WIDE);
    es_resolvent_take_goal(resolvent, warp.state + selected, WIDE);
    resolvent->n_rest = keep_rest<WIDE>(arrays, warp, n_atoms, selected);
    __syncwarp();
    es_resolvent_find_facts(resolvent, WIDE);
    if (warp.lane == 0) {
        es_resolvent_mark_rest(resolvent);
    }
    __syncwarp();
}

// Candidate c: rules come first, then facts. Returns 0 where it does not unify.
template <int WIDE>
static __device__ __forceinline__ int apply(const EsResolvent *resolvent, int32_t c, EsAtom *atoms,
                                            EsCandidate *candidate) {
    return c < resolvent->n_rules
               ? es_resolvent_apply_rule(resolvent, c, atoms, candidate, WIDE)
               : es_resolvent_apply_fact(resolvent, c - resolvent->n_rules, atoms, candidate, WIDE);
}

// Returns whether candidate c is these atoms. Rare: where hashes are equal.
template <int WIDE>
static __device__ __noinline__ int is_candidate(EsResolvent resolvent, int32_t c,
                                                const EsAtom *atoms, int32_t n_atoms) {
    EsAtom again[ES_PROOF_MAX_ATOMS];
    EsCandidate candidate;
    es_candidate_begin(&candidate, again);
    return apply<WIDE>(&resolvent, c, again, &candidate) && candidate.n_atoms == n_atoms &&
           es_goals_equal(again, atoms, n_atoms);
}

// --- the list of successors ---

// The successors of an environment's state.
struct List {
    EsProofOutcome outcome;
    int32_t count, n_atoms; // successors and their atoms
    int32_t n_overlong, n_overflow;
    uint32_t epoch; // of the table; 0: it is not in use
    // different in each lane: the successor in its row, -1: none, and its atoms
    int32_t held, n_held_atoms;
};

// The number of the warp's next use of its table.
static __device__ __forceinline__ uint32_t begin_epoch(const EsProofEnvArrays &arrays,
                                                       const Warp &warp) {
    uint32_t epoch = arrays.epoch[warp.number] + 1;
    __syncwarp();
    if (epoch == 0) { // after 2^32 uses: old entries must not look new
        for (int32_t i = warp.lane; i < arrays.table_size; i += WARP) {
            arrays.table[(size_t)warp.number * (size_t)arrays.table_size + (size_t)i] = 0;
        }
        epoch = 1;
    }
    if (warp.lane == 0) {
        arrays.epoch[warp.number] = epoch;
    }
    __syncwarp();
    return epoch;
}

// Returns whether a successor of an earlier chunk is this candidate. Entries are written by atomic
// operations, which the first-level cache does not see: they are read past it.
template <int WIDE>
static __device__ __forceinline__ int is_listed(const EsProofEnvArrays &arrays, const Warp &warp,
                                                size_t row, const EsResolvent *resolvent,
                                                const EsCandidate *candidate, uint32_t epoch) {
    size_t S = (size_t)arrays.listing.max_states;
    uint32_t mask = (uint32_t)arrays.table_size - 1, place = (uint32_t)candidate->hash & mask;
    const volatile EsListSlot *table =
        arrays.table + (size_t)warp.number * (size_t)arrays.table_size;
    for (;; place = (place + 1) & mask) {
        EsListSlot slot = table[place];
        if ((uint32_t)(slot >> 32) != epoch) {
            return 0;
        }
        uint32_t k = (uint32_t)slot;
        if (arrays.hash[(size_t)warp.number * S + k] == candidate->hash &&
            is_candidate<WIDE>(*resolvent, arrays.candidates[row + k], candidate->atoms,
                               candidate->n_atoms)) {
            return 1;
        }
    }
}

// Enters successor k, which no other lane has; equal hashes take places one behind the other.
static __device__ void enter_table(const EsProofEnvArrays &arrays, const Warp &warp, uint64_t hash,
                                   int32_t k, uint32_t epoch) {
    uint32_t mask = (uint32_t)arrays.table_size - 1, place = (uint32_t)hash & mask;
    EsListSlot *table = arrays.table + (size_t)warp.number * (size_t)arrays.table_size;
    EsListSlot entry = (EsListSlot)epoch << 32 | (uint32_t)k;
    arrays.hash[(size_t)warp.number * (size_t)arrays.listing.max_states + (size_t)k] = hash;
    for (;; place = (place + 1) & mask) {
        EsListSlot old = ((volatile EsListSlot *)table)[place];
        while ((uint32_t)(old >> 32) != epoch) {
            EsListSlot found = atomicCAS(&table[place], old, entry);
            if (found == old) {
                return;
            }
            old = found;
        }
    }
}

// The lowest lane with the same candidate, among those of `news`; its own where it is that, or is
// not new.
static __device__ __forceinline__ int32_t find_leader(const Warp &warp,
                                                      const EsCandidate *candidate, unsigned news) {
    int32_t leader = warp.lane;
    int is_new = news >> warp.lane & 1u;
    for (unsigned left = news; left != 0; left &= left - 1) {
        int32_t other = __ffs((int)left) - 1;
        uint64_t hash = __shfl_sync(ALL, candidate->hash, other);
        int32_t n_atoms = __shfl_sync(ALL, candidate->n_atoms, other);
        if (is_new && other < leader && leader == warp.lane && hash == candidate->hash &&
            n_atoms == candidate->n_atoms &&
            es_goals_equal(warp.candidate_of(other), candidate->atoms, n_atoms)) {
            leader = other;
        }
    }
    return leader;
}

// Candidates base to base + 31 of environment e. Returns 0 at a proof.
template <int WIDE>
static __device__ __forceinline__ int
list_chunk(const EsProofEnvArrays &arrays, const Warp &warp, size_t row,
           const EsResolvent *resolvent, const EsVisitedGoals *visited, int32_t base, List *list) {
    const int32_t n_candidates = resolvent->n_rules + resolvent->n_facts;
    const int32_t A = arrays.listing.max_atoms, c = base + warp.lane;
    const int32_t most = arrays.listing.max_states - (arrays.listing.has_end != 0);
    EsCandidate candidate;
    es_candidate_begin(&candidate, warp.candidate_of(warp.lane));
    int exists = c < n_candidates && apply<WIDE>(resolvent, c, candidate.atoms, &candidate) &&
                 !candidate.is_refuted;
    // behind a proof nothing counts any more
    unsigned proofs = __ballot_sync(ALL, exists && candidate.n_atoms == 0);
    unsigned before = proofs != 0 ? (1u << (__ffs((int)proofs) - 1)) - 1 : ALL;
    exists = exists && (before >> warp.lane & 1u);
    int is_overlong = exists && candidate.n_atoms > A;
    int is_new = exists && !is_overlong &&
                 !(list->epoch != 0 &&
                   is_listed<WIDE>(arrays, warp, row, resolvent, &candidate, list->epoch)) &&
                 !es_candidate_was_visited(&candidate, visited);
    __syncwarp(); // candidates are written
    int32_t leader = find_leader(warp, &candidate, __ballot_sync(ALL, is_new));
    int is_first = is_new && leader == warp.lane;
    unsigned firsts = __ballot_sync(ALL, is_first);
    int32_t k = list->count + __popc(firsts & ((1u << warp.lane) - 1));
    int32_t k_of_leader = __shfl_sync(ALL, k, leader);
    int is_stored = is_first && k < most;
    if (is_stored) {
        arrays.candidates[row + (size_t)k] = c;
    }
    list->n_overlong += __popc(__ballot_sync(ALL, is_overlong));
    list->n_overflow += __popc(__ballot_sync(ALL, is_new && k_of_leader >= most));
    list->n_atoms += __reduce_add_sync(ALL, is_stored ? candidate.n_atoms : 0);
    if (proofs == 0 && base + WARP < n_candidates) {
        list->epoch = list->epoch != 0 ? list->epoch : begin_epoch(arrays, warp);
        if (is_stored) {
            enter_table(arrays, warp, candidate.hash, k, list->epoch);
        }
    }
    list->count += __popc(__ballot_sync(ALL, is_stored));
    list->held = is_stored && n_candidates <= WARP ? k : -1;
    list->n_held_atoms = candidate.n_atoms;
    __syncwarp(); // before the rows are written again
    return proofs == 0;
}

// An environment at work; equal in all lanes.
struct Env {
    int32_t e;
    EsProofEpisode at;
    List list;
};

// The successors of warp.state. Leaves the resolvent, too.
template <int WIDE>
static __device__ __forceinline__ void expand(const EsProofEnvArrays &arrays, const Warp &warp,
                                              Env *env, EsResolvent *resolvent) {
    size_t first = (size_t)env->e * (size_t)arrays.max_visited;
    size_t row = (size_t)env->e * (size_t)arrays.listing.max_states;
    EsVisitedGoals visited = {arrays.visited + first * (size_t)arrays.settings.max_atoms,
                              arrays.n_visited_atoms + first, arrays.visited_hash + first,
                              arrays.max_visited > 0 ? env->at.n_visited : 0,
                              arrays.settings.max_atoms};
    List list = {ES_PROOF_OPEN, 0, 0, 0, 0, 0, -1, 0};
    prepare<WIDE>(arrays, warp, env->at.n_atoms, resolvent);
    int32_t n_candidates = resolvent->n_rules + resolvent->n_facts;
    int goes_on = 1;
    for (int32_t base = 0; base < n_candidates && goes_on; base += WARP) {
        goes_on = list_chunk<WIDE>(arrays, warp, row, resolvent, &visited, base, &list);
    }
    if (!goes_on || list.count == 0) {
        list.outcome = goes_on ? ES_PROOF_FAILED : ES_PROOF_PROVED;
        list.count = list.n_atoms = 1;
        list.held = -1; // the successor is a terminal state
    } else if (arrays.listing.has_end) {
        list.count++;
        list.n_atoms++;
    }
    env->list = list;
    if (warp.lane == 0) {
        warp.counters->n_overlong += list.n_overlong;
        warp.counters->n_overflow += list.n_overflow;
    }
}

// --- states and episodes ---

// Makes this the environment's state, and remembers it; `atoms` are shared memory.
static __device__ __forceinline__ void enter_state(const EsProofEnvArrays &arrays, const Warp &warp,
                                                   Env *env, const EsAtom *atoms, int32_t n_atoms) {
    size_t A = (size_t)arrays.settings.max_atoms, e = (size_t)env->e;
    env->at.n_atoms = n_atoms;
    copy_atoms(warp, warp.state, atoms, n_atoms);
    copy_atoms(warp, arrays.states + e * A, atoms, n_atoms);
    if (arrays.max_visited > 0) {
        size_t v = e * (size_t)arrays.max_visited + (size_t)env->at.n_visited++;
        copy_atoms(warp, arrays.visited + v * A, atoms, n_atoms);
        if (warp.lane == 0) {
            arrays.n_visited_atoms[v] = n_atoms;
            arrays.visited_hash[v] = es_proof_hash(atoms, n_atoms);
        }
    }
    __syncwarp();
}

static __device__ __forceinline__ void begin_episode(const EsProofEnvArrays &arrays,
                                                     const Warp &warp, Env *env, uint32_t episode) {
    uint32_t number = (uint32_t)(arrays.settings.first_env + env->e);
    int32_t label = 0;
    if (warp.lane == 0) {
        EsWideAtom query;
        int is_uncorrupted;
        label = es_episode_draw(&arrays.graph, &arrays.known, &arrays.settings, number, episode,
                                &query, &is_uncorrupted);
        warp.counters->n_not_corrupted += is_uncorrupted;
        warp.query[0] = query.cells[0];
        warp.query[1] = query.cells[1];
        if (arrays.query_rest != NULL) {
            arrays.query_rest[env->e] = query.cells[1];
        }
    }
    __syncwarp();
    EsProofEpisode *at = &env->at;
    at->query = warp.query[0];
    at->episode = episode;
    at->label = __shfl_sync(ALL, label, 0);
    at->depth = at->n_visited = 0;
    enter_state(arrays, warp, env, warp.query, es_kg_cells(&arrays.graph, at->query.predicate));
}

// Keeps the states of an episode that ended with a proof.
static __device__ void keep_trace(const EsProofEnvArrays &arrays, const Warp &warp, const Env *env,
                                  int is_proved) {
    size_t V = (size_t)arrays.max_visited, A = (size_t)arrays.settings.max_atoms;
    size_t first = (size_t)env->e * V;
    int32_t n = is_proved && V > 0 ? env->at.n_visited : 0;
    copy_atoms(warp, arrays.traced + first * A, arrays.visited + first * A, n * (int32_t)A);
    for (int32_t i = warp.lane; i < n; i += WARP) {
        arrays.n_traced_atoms[first + (size_t)i] = arrays.n_visited_atoms[first + (size_t)i];
    }
    if (warp.lane == 0) {
        arrays.n_traced[env->e] = n;
    }
}

// The results of a step; lane 0 writes.
static __device__ void write_result(const EsProofEnvArrays &arrays, const Warp &warp,
                                    const Env *env, const EsEpisodeEnd *end, int32_t n_reached) {
    size_t e = (size_t)env->e, cells = (size_t)arrays.graph.query_cells;
    const EsProofEpisode *at = &env->at;
    arrays.n_reached[e] = n_reached;
    for (size_t i = 0; i < cells; i++) {
        arrays.query[e * cells + i] = warp.query[i];
    }
    arrays.reward[e] = end->reward;
    arrays.depth[e] = at->depth;
    arrays.is_done[e] = (unsigned char)end->is_done;
    arrays.is_success[e] = (unsigned char)end->is_success;
    arrays.is_truncated[e] = (unsigned char)end->is_truncated;
    arrays.is_by_end[e] = (unsigned char)end->is_by_end;
    arrays.label[e] = (unsigned char)at->label;
}

// Counts a step; lane 0.
static __device__ void count_step(EsProofEnvCounters *counters, const EsProofEpisode *at,
                                  const EsEpisodeEnd *end) {
    counters->n_steps++;
    if (end->is_done) {
        counters->n_episodes[at->label]++;
        counters->n_proved[at->label] += end->is_success;
        counters->n_truncated[at->label] += end->is_truncated;
        counters->n_by_end[at->label] += end->is_by_end;
        counters->n_actions[at->label] += at->depth;
        counters->reward[at->label] += (double)end->reward;
    }
}

// Writes successor k of the list, which is in it; returns its atoms. A lane's work.
template <int WIDE>
static __device__ __forceinline__ int32_t write_atoms(const EsProofEnvArrays &arrays,
                                                      const Env *env, const EsResolvent *resolvent,
                                                      int32_t k, EsAtom *atoms) {
    size_t row = (size_t)env->e * (size_t)arrays.listing.max_states;
    EsProofOutcome outcome = env->list.outcome;
    if (outcome == ES_PROOF_OPEN && arrays.listing.has_end && k == env->list.count - 1) {
        outcome = ES_PROOF_ENDED;
    }
    if (outcome != ES_PROOF_OPEN) {
        *atoms = es_proof_terminal(&arrays.graph, outcome);
        return 1;
    }
    EsCandidate candidate;
    es_candidate_begin(&candidate, atoms);
    apply<WIDE>(resolvent, arrays.candidates[row + (size_t)k], atoms, &candidate);
    return candidate.n_atoms;
}

// Successor k where the warp can read it, in a lane's row; *row is the lane.
template <int WIDE>
static __device__ __forceinline__ int32_t write_successor(const EsProofEnvArrays &arrays,
                                                          const Warp &warp, Env *env,
                                                          const EsResolvent *resolvent, int32_t k,
                                                          int32_t *row) {
    unsigned holders = __ballot_sync(ALL, env->list.held == k);
    int32_t n_atoms = env->list.n_held_atoms;
    *row = holders != 0 ? __ffs((int)holders) - 1 : 0;
    if (holders == 0) {
        if (warp.lane == 0) {
            n_atoms = write_atoms<WIDE>(arrays, env, resolvent, k, warp.candidate_of(0));
        }
        env->list.held = -1; // row 0 has another one
        __syncwarp();
    }
    return __shfl_sync(ALL, n_atoms, *row);
}

// A step so far: how the episode ended, if it did, and the state that was reached.
struct Step {
    EsEpisodeEnd end;
    const EsAtom *next; // shared memory
    int32_t n_next;
};

// Takes successor k of the list, as far as the end of an episode; its state is entered by `move`.
// Results are written where they are shown.
template <int WIDE>
static __device__ __forceinline__ Step take(const EsProofEnvArrays &arrays, const Warp &warp,
                                            Env *env, const EsResolvent *resolvent, int32_t k,
                                            int is_shown) {
    Step step;
    int32_t row;
    step.n_next = write_successor<WIDE>(arrays, warp, env, resolvent, k, &row);
    step.next = warp.candidate_of(row);
    env->at.depth++;
    EsProofOutcome outcome = es_goals_outcome(&arrays.graph, step.next, step.n_next);
    step.end = es_episode_end(&arrays.settings, outcome, env->at.depth, env->at.label);
    if (is_shown) {
        copy_atoms(warp, arrays.reached + (size_t)env->e * (size_t)arrays.settings.max_atoms,
                   step.next, step.n_next);
        if (env->e < ES_PROOF_TRACED) {
            keep_trace(arrays, warp, env, step.end.is_success);
        }
    }
    if (warp.lane == 0) {
        count_step(warp.counters, &env->at, &step.end);
        if (is_shown) {
            write_result(arrays, warp, env, &step.end, step.n_next);
        }
    }
    __syncwarp(); // the query is read
    return step;
}

// --- kernels ---

static __device__ __forceinline__ void load_env(const EsProofEnvArrays &arrays, const Warp &warp,
                                                int32_t e, Env *env) {
    env->e = e;
    env->at = arrays.episodes[e];
    List list = {
        (EsProofOutcome)arrays.outcome[e], arrays.count[e], arrays.n_atoms[e], 0, 0, 0, -1, 0};
    env->list = list;
    __syncwarp(); // the environment before may still be read
    for (int32_t i = warp.lane; i < COUNTER_WORDS; i += WARP) {
        ((int32_t *)warp.counters)[i] = ((const int32_t *)&arrays.counters[e])[i];
    }
    copy_atoms(warp, warp.state, arrays.states + (size_t)e * (size_t)arrays.settings.max_atoms,
               env->at.n_atoms);
    if (warp.lane == 0) {
        warp.query[0] = env->at.query;
        if (arrays.query_rest != NULL) {
            warp.query[1] = arrays.query_rest[e];
        }
    }
    __syncwarp();
}

static __device__ void store_env(const EsProofEnvArrays &arrays, const Warp &warp, const Env *env) {
    __syncwarp(); // lane 0 has counted
    for (int32_t i = warp.lane; i < COUNTER_WORDS; i += WARP) {
        ((int32_t *)&arrays.counters[env->e])[i] = ((const int32_t *)warp.counters)[i];
    }
    if (warp.lane == 0) {
        arrays.episodes[env->e] = env->at;
        arrays.outcome[env->e] = (unsigned char)env->list.outcome;
        arrays.count[env->e] = env->list.count;
        arrays.n_atoms[env->e] = env->list.n_atoms;
    }
}

static __device__ void write_row(const EsProofEnvArrays &arrays, const EsProofRows &rows, int32_t t,
                                 int32_t e, int32_t action, int32_t count,
                                 const EsEpisodeEnd *end) {
    size_t row = (size_t)t * (size_t)arrays.n_envs + (size_t)e;
    if (rows.action != NULL) {
        rows.action[row] = action;
    }
    if (rows.count != NULL) {
        rows.count[row] = count;
    }
    if (rows.reward != NULL) {
        rows.reward[row] = end->reward;
    }
    if (rows.is_done != NULL) {
        rows.is_done[row] = (unsigned char)end->is_done;
    }
}

// The first half of a step: an action, or the first episode. Then warp.state is a new one.
template <int WIDE>
static __device__ __forceinline__ void
move(const EsProofEnvArrays &arrays, const Warp &warp, EsProofEnvWork work, int32_t t, int is_shown,
     const EsProofRows &rows, const EsResolvent *resolvent, Env *env) {
    Step step = {{1, 0, 0, 0, 0.0f}, NULL, 0};
    uint32_t episode = 0;
    if (work != ES_PROOF_ENV_BEGIN) {
        int32_t count = env->list.count;
        uint32_t number = (uint32_t)(arrays.settings.first_env + env->e);
        int32_t k = work == ES_PROOF_ENV_UNIFORM
                        ? es_proof_random_action(arrays.settings.seed, number, env->at.episode,
                                                 env->at.depth, count)
                        : arrays.actions[env->e];
        step = take<WIDE>(arrays, warp, env, resolvent, k, is_shown);
        episode = env->at.episode + 1;
        if (warp.lane == 0) {
            write_row(arrays, rows, t, env->e, k, count, &step.end);
        }
    }
    if (step.end.is_done) {
        begin_episode(arrays, warp, env, episode);
    } else {
        enter_state(arrays, warp, env, step.next, step.n_next);
    }
}

// The successors of the state, after states with a single one were passed over.
template <int WIDE>
static __device__ __forceinline__ void list_successors(const EsProofEnvArrays &arrays,
                                                       const Warp &warp, int max_skips, Env *env,
                                                       EsResolvent *resolvent) {
    int32_t n_ends = arrays.listing.has_end != 0, n_skips = 0;
    for (;; n_skips++) {
        expand<WIDE>(arrays, warp, env, resolvent);
        if (n_skips == max_skips || env->list.outcome != ES_PROOF_OPEN ||
            env->list.count - n_ends != 1) {
            break;
        }
        int32_t row, n_atoms = write_successor<WIDE>(arrays, warp, env, resolvent, 0, &row);
        enter_state(arrays, warp, env, warp.candidate_of(row), n_atoms);
    }
    if (warp.lane == 0) {
        warp.counters->n_skipped += n_skips;
        warp.counters->n_successors += env->list.count;
    }
}

template <int WIDE>
static __global__ void __launch_bounds__(WARPS *WARP, BLOCKS)
    run_kernel(const __grid_constant__ EsProofEnvArrays arrays, EsProofEnvWork work,
               int32_t n_steps, const __grid_constant__ EsProofRows rows) {
    ES_DYNAMIC_SHARED(memory);
    Warp warp = this_warp(arrays, memory);
    int max_skips =
        arrays.settings.skips_unary && work != ES_PROOF_ENV_LIST ? ES_PROOF_MAX_SKIPS : 0;
    for (int32_t e = warp.number; e < arrays.n_envs && warp.number < arrays.n_warps;
         e += arrays.n_warps) {
        Env env;
        EsResolvent resolvent;
        load_env(arrays, warp, e, &env);
        if (work == ES_PROOF_ENV_TAKE || work == ES_PROOF_ENV_UNIFORM) {
            prepare<WIDE>(arrays, warp, env.at.n_atoms, &resolvent);
        }
        for (int32_t t = 0; t < n_steps; t++) {
            if (work != ES_PROOF_ENV_LIST) {
                move<WIDE>(arrays, warp, work, t, t == n_steps - 1, rows, &resolvent, &env);
            }
            list_successors<WIDE>(arrays, warp, max_skips, &env, &resolvent);
        }
        store_env(arrays, warp, &env);
    }
}

// Successors base to base + 31 of an environment, from atom `at` on; returns how many atoms.
template <int WIDE>
static __device__ __forceinline__ int32_t fill_chunk(const EsProofEnvArrays &arrays,
                                                     const Warp &warp, const Env *env,
                                                     const EsResolvent *resolvent, int32_t base,
                                                     int64_t at, EsAtom *atoms, int32_t *start) {
    int32_t k = base + warp.lane, n_atoms = 0;
    EsAtom *mine = warp.candidate_of(warp.lane);
    if (k < env->list.count) {
        n_atoms = write_atoms<WIDE>(arrays, env, resolvent, k, mine);
    }
    int32_t end = n_atoms; // sum up to this lane
    for (int offset = 1; offset < WARP; offset *= 2) {
        int32_t below = __shfl_up_sync(ALL, end, (unsigned)offset);
        end += warp.lane >= offset ? below : 0;
    }
    int64_t begin = at + end - n_atoms;
    for (int32_t i = 0; i < n_atoms; i++) {
        atoms[begin + i] = mine[i];
    }
    if (k < env->list.count) {
        start[arrays.first[env->e] + k] = (int32_t)begin;
    }
    return __shfl_sync(ALL, end, WARP - 1);
}

template <int WIDE>
static __global__ void __launch_bounds__(WARPS *WARP, BLOCKS)
    fill_kernel(const __grid_constant__ EsProofEnvArrays arrays, EsAtom *atoms, int32_t *start) {
    ES_DYNAMIC_SHARED(memory);
    Warp warp = this_warp(arrays, memory);
    const int64_t *first_atom = arrays.first + arrays.n_envs + 1;
    for (int32_t e = warp.number; e < arrays.n_envs && warp.number < arrays.n_warps;
         e += arrays.n_warps) {
        Env env;
        EsResolvent resolvent;
        load_env(arrays, warp, e, &env);
        prepare<WIDE>(arrays, warp, env.at.n_atoms, &resolvent);
        int64_t at = first_atom[e];
        for (int32_t base = 0; base < env.list.count; base += WARP) {
            at += fill_chunk<WIDE>(arrays, warp, &env, &resolvent, base, at, atoms, start);
        }
        if (e == arrays.n_envs - 1 && warp.lane == 0) {
            start[arrays.first[arrays.n_envs]] = (int32_t)at;
        }
    }
}

// Sums before each environment; one block, a stretch of environments per thread.
static __global__ void number_kernel(const __grid_constant__ EsProofEnvArrays arrays) {
    __shared__ int64_t sums[2][SCANNERS];
    int32_t t = (int32_t)threadIdx.x, N = arrays.n_envs;
    int32_t each = (N + SCANNERS - 1) / SCANNERS;
    int32_t begin = min(t * each, N), end = min(begin + each, N);
    int64_t sum[2] = {0, 0};
    for (int32_t e = begin; e < end; e++) {
        sum[0] += arrays.count[e];
        sum[1] += arrays.n_atoms[e];
    }
    for (int i = 0; i < 2; i++) {
        sums[i][t] = sum[i];
    }
    __syncthreads();
    for (int32_t offset = 1; offset < SCANNERS; offset *= 2) {
        int64_t below[2] = {0, 0};
        for (int i = 0; i < 2 && t >= offset; i++) {
            below[i] = sums[i][t - offset];
        }
        __syncthreads();
        for (int i = 0; i < 2; i++) {
            sums[i][t] += below[i];
        }
        __syncthreads();
    }
    int64_t at[2] = {sums[0][t] - sum[0], sums[1][t] - sum[1]};
    for (int32_t e = begin; e < end; e++) {
        arrays.first[e] = at[0];
        arrays.first[N + 1 + e] = at[1];
        at[0] += arrays.count[e];
        at[1] += arrays.n_atoms[e];
    }
    if (t == SCANNERS - 1) {
        arrays.first[N] = sums[0][t];
        arrays.first[2 * N + 1] = sums[1][t];
    }
}

// --- launchers ---

static dim3 grid_of(const EsProofEnvArrays *arrays) {
    return dim3((unsigned)es_ceil_div(arrays->n_warps, WARPS));
}

void es_proof_env_cuda_run(const EsProofEnvArrays *arrays, EsStream *stream, EsProofEnvWork work,
                           int32_t n_steps, const EsProofRows *rows) {
    EsLaunch launch(stream, "proof_env_run");
    EsProofRows none = {NULL, NULL, NULL, NULL};
    launch.start_shared(arrays->graph.has_wide ? run_kernel<1> : run_kernel<0>, grid_of(arrays),
                        WARPS * WARP, shared_bytes(arrays->settings.max_atoms), *arrays, work,
                        n_steps, rows != NULL ? *rows : none);
}

void es_proof_env_cuda_number(const EsProofEnvArrays *arrays, EsStream *stream) {
    EsLaunch launch(stream, "proof_env_number");
    launch.start(number_kernel, 1, SCANNERS, *arrays);
}

void es_proof_env_cuda_fill(const EsProofEnvArrays *arrays, EsStream *stream, EsAtom *atoms,
                            int32_t *start) {
    EsLaunch launch(stream, "proof_env_fill");
    launch.start_shared(arrays->graph.has_wide ? fill_kernel<1> : fill_kernel<0>, grid_of(arrays),
                        WARPS * WARP, shared_bytes(arrays->settings.max_atoms), *arrays, atoms,
                        start);
}

int32_t es_proof_env_cuda_warps(EsStream *stream, int has_wide, int32_t max_atoms) {
    EsLaunch launch(stream, "proof_env_warps");
    int64_t n_blocks = launch.count_resident(has_wide ? run_kernel<1> : run_kernel<0>, WARPS * WARP,
                                             shared_bytes(max_atoms));
    return (int32_t)ES_MAX(n_blocks * WARPS, 1);
}
