// Which rank trains which environment, on the CPU. Every environment has one owner, whose memory
// has its weights; the small state is everybody's. Before each step all ranks find the same owners
// from that state: loads by the operations of the step to come are made even by giving whole
// environments, with their weights, to another rank. No result depends on who trains, and no clock
// is read, so that runs repeat.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "growth/engine/growth_internal.h"

// Environments move when the busiest rank gets so much of the mean load lighter.
#define WORTH_MOVING 0.01
// Beyond so many environments pairs are not exchanged: single ones are a small part of a load.
#define EXCHANGED_MOST 128

// --- lists ---

static void list_own(EsGrowth *growth) {
    int rank = es_ranks_number(growth->options.ranks);
    growth->n_own = 0;
    for (int64_t e = 0; e < growth->options.n_envs; e++) {
        if (growth->owner[e] == rank) {
            growth->own[growth->n_own++] = e;
        }
    }
}

EsStatus es_growth_owners_create(EsGrowth *growth) {
    size_t n = (size_t)growth->options.n_envs;
    ES_TRY(es_allocate(sizeof *growth->owner * n, (void **)&growth->owner));
    ES_TRY(es_allocate(sizeof *growth->wanted * n, (void **)&growth->wanted));
    ES_TRY(es_allocate(sizeof *growth->cost * n, (void **)&growth->cost));
    ES_TRY(es_allocate(sizeof *growth->own * n, (void **)&growth->own));
    ES_TRY(es_allocate(sizeof *growth->load * (size_t)es_ranks_count(growth->options.ranks),
                       (void **)&growth->load));
    for (size_t e = 0; e < n; e++) {
        growth->owner[e] = es_ranks_owner(growth->options.ranks, (int64_t)n, (int64_t)e);
    }
    list_own(growth);
    return ES_STATUS_OK;
}

void es_growth_owners_destroy(EsGrowth *growth) {
    es_release(growth->owner);
    es_release(growth->wanted);
    es_release(growth->cost);
    es_release(growth->own);
    es_release(growth->load);
}

void es_growth_assign(EsGrowth *growth, int64_t first, int64_t n_all) {
    growth->is_assigned = 1;
    for (int64_t e = 0; e < growth->options.n_envs; e++) {
        growth->owner[e] = es_ranks_owner(growth->options.ranks, n_all, first + e);
    }
    list_own(growth);
}

int64_t es_growth_own_count(const EsGrowth *growth) { return growth->n_own; }

EsStatus es_growth_share_rows(EsGrowth *growth, const char *what, const EsRankColumn *columns,
                              int n_columns) {
    return es_ranks_gather_rows(growth->options.ranks, what, growth->options.n_envs, growth->owner,
                                columns, n_columns);
}

// --- loads ---

static double topology_flops(const EsGrowth *growth, const EsTopology *topology) {
    double flops = es_host_flops(&growth->model.host);
    for (int s = 0; s < growth->model.n_slots; s++) {
        if (topology->blueprint[s] != ES_NO_SEED) {
            flops += es_blueprint_flops((EsBlueprint)topology->blueprint[s],
                                        growth->model.slots[s].n_channels,
                                        growth->options.settings.slot_side[s]);
        }
    }
    return flops;
}

// Times that a batch runs: once, and again for every route of its gradient (growth_routes.c).
static int count_passes(const EsGrowth *growth, int64_t env) {
    const EsSeedView *seed = &growth->shown.state.seed;
    int n_on = 0;
    for (int s = 0; growth->routes != NULL && s < growth->model.n_slots; s++) {
        int64_t i = env * growth->model.n_slots + s;
        n_on += es_slot_is_on(seed->stage[i], seed->alpha[i], 0, s);
    }
    return n_on < 2 ? 1 : 2 + n_on;
}

// Operations of an environment's next step: three times forward for a training sample, as often as
// batches run, and forward for each trial of a validation sample.
static double step_cost(const EsGrowth *growth, int64_t env) {
    const EsGrowthOptions *options = &growth->options;
    EsTopology topology = es_growth_topology(&growth->shown.state, env);
    double trained =
        3.0 * (double)(options->batch * options->step_batches) * count_passes(growth, env);
    double cost = trained * topology_flops(growth, &topology);
    for (int32_t k = 0; k < es_ablation_count(&growth->ablations[env]); k++) {
        topology = es_growth_trial_topology(&growth->shown.state, env,
                                            es_ablation_slots_off(&growth->ablations[env], k));
        cost += (double)options->n_validation_images * topology_flops(growth, &topology);
    }
    return cost;
}

// A change of owners: `env` goes from the busiest rank to another; `back` comes in turn, or -1.
typedef struct Change {
    int64_t env, back;
    int to;
    double gain; // of the greater of both loads
} Change;

static void offer(const EsGrowth *growth, int busiest, int64_t env, int64_t back, int to,
                  Change *best) {
    double moved = growth->cost[env] - (back >= 0 ? growth->cost[back] : 0);
    double after = ES_MAX(growth->load[busiest] - moved, growth->load[to] + moved);
    double gain = growth->load[busiest] - after;
    if (gain > best->gain) {
        *best = (Change){env, back, to, gain};
    }
}

// The change that makes the busiest rank lightest, of equals the first.
static Change find_change(const EsGrowth *growth, int n_ranks) {
    int64_t n = growth->options.n_envs;
    int busiest = 0, least = 0;
    Change best = {-1, -1, -1, 0};
    for (int r = 1; r < n_ranks; r++) {
        busiest = growth->load[r] > growth->load[busiest] ? r : busiest;
        least = growth->load[r] < growth->load[least] ? r : least;
    }
    for (int64_t e = 0; e < n; e++) {
        if (growth->wanted[e] != busiest) {
            continue;
        }
        offer(growth, busiest, e, -1, least, &best);
        for (int64_t back = 0; back < n && n <= EXCHANGED_MOST; back++) {
            if (growth->wanted[back] != busiest) {
                offer(growth, busiest, e, back, growth->wanted[back], &best);
            }
        }
    }
    return best;
}

int es_growth_find_owners(EsGrowth *growth) {
    int64_t n = growth->options.n_envs;
    int n_ranks = es_ranks_count(growth->options.ranks), n_moved = 0;
    double sum = 0;
    es_lifecycle_list_ablations(&growth->shown.state, &growth->options.settings, growth->ablations);
    memset(growth->load, 0, sizeof *growth->load * (size_t)n_ranks);
    for (int64_t e = 0; e < n; e++) {
        growth->cost[e] = step_cost(growth, e);
        growth->wanted[e] = growth->owner[e];
        growth->load[growth->owner[e]] += growth->cost[e];
        sum += growth->cost[e];
    }
    for (int64_t i = 0; i < n;
         i++) { // each makes the greatest load lighter; rarely more than a few
        Change change = find_change(growth, n_ranks);
        if (change.env < 0 || change.gain < WORTH_MOVING * sum / n_ranks) {
            break;
        }
        int busiest = growth->wanted[change.env];
        double moved = growth->cost[change.env];
        moved -= change.back >= 0 ? growth->cost[change.back] : 0;
        growth->load[busiest] -= moved;
        growth->load[change.to] += moved;
        growth->wanted[change.env] = change.to;
        if (change.back >= 0) {
            growth->wanted[change.back] = busiest;
        }
    }
    for (int64_t e = 0; e < n; e++) {
        n_moved += growth->wanted[e] != growth->owner[e];
    }
    return n_moved;
}

EsStatus es_growth_balance(EsGrowth *growth) {
    EsRankColumn columns[ES_GROWTH_ROWS_MAX];
    if (es_ranks_count(growth->options.ranks) == 1 || growth->is_assigned) {
        return ES_STATUS_OK;
    }
    if (es_growth_find_owners(growth) == 0) {
        return ES_STATUS_OK;
    }
    int n = es_growth_list_rows(growth, columns);
    ES_TRY(es_ranks_move(growth->options.ranks, "environments that move", growth->options.n_envs,
                         growth->owner, growth->wanted, columns, n));
    memcpy(growth->owner, growth->wanted, sizeof *growth->owner * (size_t)growth->options.n_envs);
    list_own(growth);
    return ES_STATUS_OK;
}

EsStatus es_growth_gather_weights(EsGrowth *growth) {
    EsRankColumn columns[ES_GROWTH_ROWS_MAX];
    int n = es_growth_list_rows(growth, columns);
    return es_growth_share_rows(growth, "weights of all environments", columns, n);
}
