// The parts of an EsGrowth: shared by growth.c (order of a step), growth_train.c, growth_validate.c
// and growth_weights.c.
#ifndef ES_GROWTH_GROWTH_INTERNAL_H
#define ES_GROWTH_GROWTH_INTERNAL_H

#include <stdatomic.h>

#include "growth/engine/growth_device.h"
#include "growth/engine/seed_preparation.h"
#include "network/plan/plan_host.h"

// images of one evaluation run
#define ES_GROWTH_EVALUATION_BATCH 250

// room for the trials of one environment's Shapley values
#define ES_GROWTH_MIN_TRIALS (16 * (ES_SLOTS_MAX + 1))

// State of a thread that runs hosts.
typedef struct EsGrowthWorker {
    EsPlanWorker *runner; // owned
    EsStream *stream;     // borrowed from the runner: kernels outside the plans
    float alpha[ES_SLOTS_MAX];
    int32_t mode[ES_SLOTS_MAX]; // EsBlendMode
    int32_t batch_number;       // of the episode; the order of samples follows from it
    int32_t index[ES_GROWTH_EVALUATION_BATCH];
    double *sum_squares;  // owned [spans]
    int32_t *n_nonfinite; // owned [spans]
    float max_norm[1 + ES_SLOTS_MAX], group_norm[1 + ES_SLOTS_MAX];
    float *routes; // owned; NULL without aggregation
} EsGrowthWorker;

// One evaluation: an environment with some slots switched off.
typedef struct EsGrowthTrial {
    int32_t env, pattern;
    EsGrowthPlan *plan, *rest; // full batches, and the last one (NULL when there is none)
    int32_t slots_off;         // bits
    int64_t first_image, n_images;
    double loss; // sum over images
    int64_t n_correct, n_invalid;
} EsGrowthTrial;

// Averaged weights of all environments (recipe.average); all zero without.
typedef struct EsGrowthAverage {
    EsStore *store;                          // owned: the averages of parameters and states
    EsTensor saved_parameters, saved_states; // owned: of them at the snapshot
    EsTensor n_updates;                      // owned i32 [E, parts]: updates in each average
} EsGrowthAverage;

// Work that is queued on a device (growth_device.h).
typedef struct EsGrowthQueue {
    const EsGrowthDevice *(*device)(const EsGrowth *growth);
    EsGrowthDeviceReport (*report)(const EsGrowth *growth);
    EsStatus (*queue_reset)(EsGrowth *growth, int64_t first_episode);
    EsStatus (*queue_advance)(EsGrowth *growth);
    EsStatus (*queue_decision)(EsGrowth *growth);
    EsStatus (*queue_report)(EsGrowth *growth, EsGrowthMoment moment);
    EsStatus (*queue_collect)(EsGrowth *growth);
    EsStatus (*receive)(EsGrowth *growth, EsGrowthMoment moment);
    EsStatus (*reserve_report)(EsGrowth *growth, size_t bytes, void **device_memory);
    const void *(*received_report)(const EsGrowth *growth);
} EsGrowthQueue;

// The half of growth that depends on the device. es_growth_create chooses it; nothing asks for the
// device after that.
typedef struct EsGrowthBackend {
    EsStatus (*create)(EsGrowth *growth);                       // model, slabs and store exist
    void (*destroy)(EsGrowth *growth);                          // of everything that create made
    EsStatus (*reset)(EsGrowth *growth, int64_t first_episode); // advance comes next
    EsStatus (*decide)(EsGrowth *growth, const EsAction *actions);
    EsStatus (*advance)(EsGrowth *growth);
    EsStatus (*advance_own)(EsGrowth *growth); // the part of advance that ranks divide; NULL: none
    EsStatus (*plant)(EsGrowth *growth, int64_t env); // the requests of a seed in the small state
    EsStatus (*settle_prunes)(EsGrowth *growth); // after the mirror changed; NULL: there is none
    EsStatus (*adopt_state)(EsGrowth *growth);   // likewise, for all of the small state
    void (*begin_trials)(EsGrowth *growth);      // before the first of a set
    EsStatus (*prepare_trial)(EsGrowth *growth, EsGrowthTrial *trial); // environment and slots set
    EsStatus (*run_trials)(EsGrowth *growth);
    EsStatus (*measure_episodes)(EsGrowth *growth, int64_t n_episodes, int n_seeds, size_t *bytes);
    const EsGrowthQueue *queue; // NULL: nothing is queued
} EsGrowthBackend;

// NULL in a build without CUDA.
const EsGrowthBackend *es_growth_backend_cuda(void);

typedef struct EsGrowthOnDevice EsGrowthOnDevice;

// On a GPU the rows from `slab` to `accuracy` and n_invalid are mirrors: they point into pinned
// memory, and the originals are in on_device. Plans and workers are there where the planned step
// runs the hosts.
struct EsGrowth {
    const EsGrowthBackend *backend; // constant
    EsGrowthOptions options;
    EsGrowthModel model;
    EsGrowthRates *rates; // owned [E]; NULL: the options' for all
    int32_t *owner;       // owned [E]: ranks that train the environments,
    int64_t *own;         // owned [n_own]: and those of this rank, in order
    int64_t n_own;
    int32_t *wanted;                         // owned [E]: owners after the next move,
    double *cost, *load;                     // owned [E], [ranks]: by operations of a step
    int is_assigned;                         // es_growth_assign has said who trains
    int has_run_own;                         // es_growth_advance_own, of the step at hand
    EsDevice *device;                        // borrowed
    EsStream *stream;                        // owned
    EsStore *store;                          // owned
    EsTensor momentum;                       // owned [E, P], offsets of the parameters; of AdamW
                                             // the first moment,
    EsTensor moment2;                        // owned [E, P]: the second; without data for SGD
    EsTensor adam_steps;                     // owned i32 [E, parts]: its steps; likewise
    EsTensor saved_parameters, saved_states; // owned [E, P], [E, states]: the snapshots
    EsGrowthAverage average;
    EsStore *evaluated;          // borrowed: the average's store, else the store
    EsTensor episode;            // owned i32 [E]
    int32_t *episode_ids;        // owned [E]: the same in CPU memory
    EsGrowthOnDevice *on_device; // owned; NULL on the CPU
    EsGrowthPlans *plans;        // owned
    EsGraph
        *seed_graphs[ES_SLOTS_MAX][ES_BLUEPRINT_END]; // owned: initial values of seeds that fit,
    EsGraph *gate_graphs[ES_SLOTS_MAX];               // owned: and of gate networks
    const EsSeedPreparation *preparation;             // borrowed, during a decision; NULL without
    // one for each thread, and behind them the team of all threads where it is of use
    EsGrowthWorker *workers; // owned [n_workers + has_team]
    int n_workers, has_team; // threads
    atomic_int is_stopped;   // during a step: options.is_stopped has said so

    void *slab; // owned, of state
    EsGrowthSnapshot shown;
    EsActionMasks *masks;              // owned [E]
    EsGrowthResult *results;           // owned [E]
    EsAblation *ablations;             // owned [E]
    EsInteractions *pairs;             // owned [E]
    float *accuracy;                   // owned [E, ES_ABLATION_PATTERNS_MAX]
    float *loss_row, *accuracy_row;    // owned [E]: of the whole host
    EsGradientSums *host_sums;         // owned [E]
    EsGradientSums *seed_sums;         // owned [E, S]
    EsRouteReport *routes;             // owned [E]; NULL without aggregation
    int64_t behind_slot[ES_SLOTS_MAX]; // with it: the host's parameters from here on lie between
                                       // the slot and the loss
    EsGrowthPlan **train_plans;        // owned [E]
    int32_t *n_invalid;    // owned [E]: labels out of range; on a GPU [2, E], of training
                           // and validation
    EsGrowthTrial *trials; // owned [E * ES_ABLATION_PATTERNS_MAX], and at least
                           // ES_GROWTH_MIN_TRIALS
    int n_trials;
    double *shapley, *shapley_error; // owned [E, S]: NaN where there is no value
    EsGrowthTimes times;
};

// Returns whether the host can hold seeds of a blueprint.
static inline int es_growth_fits(const EsGrowth *growth, int blueprint) {
    return (es_slots_blueprints(&growth->model.host) & ES_BLUEPRINT_ID_BIT(blueprint)) != 0;
}

// Returns the slot's blend mode in training; NONE without a seed to run.
EsBlendMode es_growth_blend_mode(const EsGrowth *growth, int64_t env, int slot);

// growth_train.c: alpha and mode of the plan's slots, as they are in this environment, bound to the
// worker.
void es_growth_bind_slots(const EsGrowth *growth, EsGrowthWorker *worker, const EsGrowthPlan *plan,
                          int64_t env);

// growth_train.c: what an environment of this state trains with.
EsTopology es_growth_topology(const EsGrowthState *state, int64_t env);

// growth.c: numbers of an environment's training.
EsGrowthRates es_growth_rates(const EsGrowth *growth, int64_t env);

// growth.c: after how many environments episodes repeat: E, fewer with variants, 1 where paired.
int64_t es_growth_episode_period(const EsGrowthOptions *options);

// growth_train.c: all batches of a step, in every environment of this rank.
EsStatus es_growth_train(EsGrowth *growth);

// growth_train.c: how many of n hosts or trials the team runs: those left over when all threads
// have had their share, where it ends sooner than single threads.
int64_t es_growth_team_share(int n_workers, int64_t n);

// growth_train.c: how many of n hosts or trials threads run alone; the others are the team's, whose
// worker is number n_workers.
int64_t es_growth_alone(const EsGrowth *growth, int64_t n);

// growth_train.c: makes room for a plan in every worker.
EsStatus es_growth_reserve(EsGrowth *growth, const EsGrowthPlan *plan);

// Memory of a worker for gradients by route: P parameters, R = 1 + S routes at most, the teacher's
// first, then those of seeds by slot. A packed gradient holds the numbers of the host and of seeds
// with routes alone.
typedef struct EsRouteMemory {
    float *row;    // [P]: the gradient as it was computed at once
    float *plain;  // [P]: the same, packed
    float *out;    // [P]: aggregated, packed
    float *routes; // [R, P]: packed
    float *states; // [states]: running statistics behind the update
} EsRouteMemory;
EsRouteMemory es_growth_route_memory(const EsGrowth *growth, const EsGrowthWorker *worker);

// growth_routes.c: gradients by route, where the options ask for them; nothing otherwise. Begin and
// end frame the updates of a step; update comes between a run of the plan and its optimiser.
EsStatus es_growth_routes_create(EsGrowth *growth);
EsStatus es_growth_routes_create_worker(const EsGrowth *growth, EsGrowthWorker *worker);
void es_growth_routes_begin_step(EsGrowth *growth, int64_t env);
void es_growth_routes_update(EsGrowth *growth, EsGrowthWorker *worker, const EsGrowthPlan *plan,
                             int64_t env);
void es_growth_routes_end_step(EsGrowth *growth, int64_t env);

// growth_validate.c: validation and ablations; fills results, accuracy, loss_row, accuracy_row of
// this rank's environments.
EsStatus es_growth_validate(EsGrowth *growth);

// growth_validate.c: what an environment is validated with, without some slots.
EsTopology es_growth_trial_topology(const EsGrowthState *state, int64_t env, int32_t slots_off);

// growth_owners.c: who trains what; several ranks on the CPU. Without them all is this process's.
EsStatus es_growth_owners_create(EsGrowth *growth);
void es_growth_owners_destroy(EsGrowth *growth);

// growth_owners.c: fills cost, and load and wanted: the owners that make loads even, from those
// there are on. Returns how many environments would move.
int es_growth_find_owners(EsGrowth *growth);

// growth_owners.c: before a step: gives environments to other ranks until loads are even.
EsStatus es_growth_balance(EsGrowth *growth);

// growth_owners.c: gives every rank the rows [E] that the owners have.
EsStatus es_growth_share_rows(EsGrowth *growth, const char *what, const EsRankColumn *columns,
                              int n_columns);

// growth_file.c: all memory that an environment has a row of beside the small state; returns how
// many.
#define ES_GROWTH_ROWS_MAX 16
int es_growth_list_rows(const EsGrowth *growth, EsRankColumn columns[ES_GROWTH_ROWS_MAX]);

// growth_validate.c: gives every rank what the others have measured in a step.
EsStatus es_growth_gather_step(EsGrowth *growth);

// growth_validate.c: the CPU's half of trials, for its backend.
void es_growth_begin_trials(EsGrowth *growth);
EsStatus es_growth_prepare_trial(EsGrowth *growth, EsGrowthTrial *trial);

// growth_validate.c: the trial's plans of `batch` images, and of the rest, for a small state.
EsStatus es_growth_find_trial(EsGrowth *growth, const EsGrowthState *state, int64_t batch,
                              EsGrowthTrial *trial);
EsStatus es_growth_run_trials(EsGrowth *growth);

// growth_weights.c: a graph of nothing but the parameters of one module, at their places in the
// slab: of a seed, or with ES_NO_SEED of the slot's gate network.
EsStatus es_growth_module_graph(const EsGrowthModel *model, int slot, int blueprint,
                                EsGraph **graph);

// seed_preparation.c: the prepared weights of a slot, from the start of its region on; NULL when
// there are none for the seed, episode and step that the environment is at now.
const float *es_seed_preparation_values(const EsSeedPreparation *preparation,
                                        const EsGrowth *growth, int64_t env, int slot);

// growth_weights.c: fresh hosts for new episodes, and the requests that the rules left.
EsStatus es_growth_weights_create(EsGrowth *growth);
void es_growth_weights_destroy(EsGrowth *growth);
EsStatus es_growth_weights_reset(EsGrowth *growth);
void es_growth_weights_update(EsGrowth *growth);
void es_growth_weights_update_env(EsGrowth *growth, int64_t env);

#endif
