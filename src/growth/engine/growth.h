// Growth: E hosts that grow seeds, in lock-step, on the CPU or on a GPU.
//
// A step of all environments is: train on a few batches, validate (also with seeds switched off, to
// measure the worth of each), decide, tick. es_growth_reset and es_growth_step end where a decision
// is wanted; the state (seed_fields.h) then says everything a policy may know, and masks hold the
// legal actions. On the CPU a thread trains whole hosts, each with the plan of its own topology; on
// a GPU all of them train in the same launches, or each by plans where the fused step does not run
// the host (growth_device.h). Results do not depend on the number of threads, nor an environment's
// on the others. With several ranks (distributed/ranks.h) create, save and load are each rank's
// own, all other calls that train, evaluate or read weights are collective.
//
//     EsGrowth *growth; ES_TRY(es_growth_create(&options, &dataset, device, &growth));
//     ES_TRY(es_growth_reset(growth, first_episode));
//     while (!es_growth_is_over(growth)) {
//         choose(&es_growth_snapshot(growth)->state, es_growth_masks(growth), actions);
//         ES_TRY(es_growth_step(growth, actions));
//     }
//
// E environments, S slots.
#ifndef ES_GROWTH_GROWTH_H
#define ES_GROWTH_GROWTH_H

#include "distributed/ranks.h"
#include "growth/engine/growth_plans.h"
#include "growth/engine/lifecycle.h"
#include "network/state_hash.h"

ES_EXTERN_C_BEGIN

// Treatment of gradients that reach a host through several seeds (gradient_routes.h).
typedef enum EsAggregation {
    ES_AGGREGATION_NONE, // the gradient as it is
    ES_AGGREGATION_SEED  // by route: weighted, conflicts taken off; CPU
} EsAggregation;

// Numbers of one environment's training.
typedef struct EsGrowthRates {
    float host_learning_rate, seed_learning_rate, momentum, weight_decay, clip;
} EsGrowthRates;

typedef struct EsGrowthOptions {
    EsHostSpec host;
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots;
    EsGrowthSettings settings; // n_slots, places and parameter counts are filled in by create
    int64_t n_envs;
    int64_t batch;               // images per SGD update
    int64_t step_batches;        // updates per step
    int64_t n_validation_images; // taken from the start of the validation split, the same for all
    uint64_t seed;
    EsDtype precision; // of activations: F32; on CUDA also BF16, F16
    int is_tf32;       // CUDA, F32: convolutions multiply in TF32
    int64_t n_shares;  // episodes that divide each pass over the training images; 0 or 1 = none
    int is_paired;     // all environments are in the first one's episode: the same initial
                       // weights, batches and seeds, so that decisions alone tell them apart
    int n_variants;    // environments [0, E / n) begin the episodes, and so do the next E / n, ...:
                       // variants of the same ones; 0 or 1 = none
    EsCompileMode mode;
    int is_generic; // CUDA: plans of single operations, also where the fused step runs the host
    int plan_capacity;
    float host_learning_rate, seed_learning_rate;
    EsRecipe recipe;
    float clip;          // L2 norm of the host's and of each seed's gradient; 0 = none
    int gradient_stride; // batches between measurements of gradients
    EsAggregation aggregation;
    const EsGrowthRates *rates; // [E], read by create: in place of learning rates, momentum, weight
                                // decay and clip above; NULL: the same for all
    // CPU: called after every batch of every host, on the thread that trained it; NULL: never. Once
    // it returns 1 the hosts stop, and the call that trains them is INTERRUPTED.
    int (*is_stopped)(void *context);
    void *context; // of is_stopped
    // Borrowed; NULL: one process. On the CPU each rank trains and validates its share of the
    // environments and then has the measurements of all; weights stay with their owner, who changes
    // where a step's work is spread unevenly.
    EsRanks *ranks;
} EsGrowthOptions;

// A host's defaults with these slots: batch 128 (tiny 64), 8 batches, 2,000 images, SGD 0.01 with
// momentum 0.9, clip 1, stride 10, TF32.
EsGrowthOptions es_growth_defaults(const EsHostSpec *host, const EsSlot *slots, int n_slots,
                                   int64_t n_envs);

// Default precision of hosts on a device: F32 on the CPU; on CUDA BF16 from compute capability 8.0
// on, whose tensor cores have it, else F16.
EsDtype es_growth_device_precision(const EsDeviceInfo *device);

// The same of one host: F32 of layers on rows, which are too small to gain from less, and of hosts
// that do not run fused where the device's default is F16.
EsDtype es_growth_auto_precision(const EsHostSpec *host, const EsSlot *slots, int n_slots,
                                 const EsDevice *device);

// The numbers that the options have for every environment.
EsGrowthRates es_growth_options_rates(const EsGrowthOptions *options);

// The course of learning rates over the updates of an episode.
EsLearningRateSchedule es_growth_schedule(const EsGrowthOptions *options);

typedef struct EsGrowth EsGrowth;
typedef struct EsSeedPreparation EsSeedPreparation;

// Data set and device are borrowed; on a CPU the device's pool trains the hosts, and nothing else
// may use it during calls. UNSUPPORTED when the device cannot run this host, and why.
EsStatus es_growth_create(const EsGrowthOptions *options, const EsDataset *dataset,
                          EsDevice *device, EsGrowth **growth);
void es_growth_destroy(EsGrowth *growth);

// A new episode in every environment, with ids from first_episode on; then the first step up to its
// decision.
EsStatus es_growth_reset(EsGrowth *growth, int64_t first_episode);

// The same without the first step, which es_growth_advance runs; before it hosts may get seeds.
EsStatus es_growth_begin(EsGrowth *growth, int64_t first_episode);

// A seed that the host has from its first step on, as a fossil with fresh weights: how a topology
// is trained from scratch. ARGUMENT when the slot has one already, or the values are out of range.
EsStatus es_growth_plant(EsGrowth *growth, int64_t env, int slot, int blueprint, int style);

// Carry out the actions [E] (refused ones count as WAIT), tick, and run the next step up to its
// decision, unless the episode is over: es_growth_decide, then es_growth_advance.
EsStatus es_growth_step(EsGrowth *growth, const EsAction *actions);

// The two halves of a step, for callers who read the effect of a decision before training goes on:
// the measurements in the state are then still those behind the decision.
EsStatus es_growth_decide(EsGrowth *growth, const EsAction *actions);
EsStatus es_growth_advance(EsGrowth *growth);

// The part of es_growth_advance in which ranks train and validate their own environments; they wait
// for each other only where weights change owners before it. It may come before the whole, so that
// several growths are trained before the first is waited for.
EsStatus es_growth_advance_own(EsGrowth *growth);

// The first half with seeds and graphs that were made ready before (seed_preparation.h), or with
// none; the same bits either way. It takes the graphs out of the preparation.
EsStatus es_growth_decide_prepared(EsGrowth *growth, const EsAction *actions,
                                   EsSeedPreparation *preparation);

// After the rewards of a decision: take the prunes [E] that they account for off the state
// (es_reward_settled_prunes).
EsStatus es_growth_settle_prunes(EsGrowth *growth, const int32_t *n_settled);

// No decision is wanted any more.
int es_growth_is_over(const EsGrowth *growth);

// --- looking at it, valid until the next step ---

// Moments of a step.
typedef enum EsGrowthMoment {
    ES_GROWTH_MEASURED, // before the decision: state, masks, results, ablations
    ES_GROWTH_DECIDED   // after the tick: the state
} EsGrowthMoment;

// The state of all environments at one moment. On the CPU that is now; on a GPU it is the moment of
// the last packed copy that was received, and the queued work may be further on.
typedef struct EsGrowthSnapshot {
    EsGrowthState state;
    int32_t step; // of the episode, from 1, the same in all environments; 0 before the first
    EsGrowthMoment moment; // of that step
} EsGrowthSnapshot;

const EsGrowthOptions *es_growth_options(const EsGrowth *growth);
const EsGrowthSettings *es_growth_settings(const EsGrowth *growth); // of the options
const EsGrowthSnapshot *es_growth_snapshot(const EsGrowth *growth);
const EsActionMasks *es_growth_masks(const EsGrowth *growth); // [E]

typedef struct EsGrowthResult {
    double train_loss, train_accuracy;           // of the step's batches
    double validation_loss, validation_accuracy; // of the host as it is
    double host_gradient_norm;       // last measured, before clipping; -1 = not measured
    double test_loss, test_accuracy; // filled by es_growth_test, NaN from the next validation on
} EsGrowthResult;
const EsGrowthResult *es_growth_results(const EsGrowth *growth); // [E]

// A seed's route in the updates of a step; means over those in which it had one, NaN without any.
typedef struct EsSeedRoute {
    int32_t n_updates;
    int32_t n_conflicts;        // other routes that it opposed, sum over the updates
    double conflict_ratio;      // share of the other routes
    double weight, norm, share; // share: of the norms of all routes
} EsSeedRoute;

typedef struct EsRouteReport {
    int32_t n_updates;     // of the step
    int32_t n_routed;      // with two seeds or more that change the output
    int32_t n_conflicts;   // pairs of routes, sum over the updates
    double conflict_ratio; // share of the pairs, mean over routed updates; NaN without any
    double teacher_share;  // of the norms of all routes, likewise
    EsSeedRoute seed[ES_SLOTS_MAX];
} EsRouteReport;
const EsRouteReport *es_growth_routes(const EsGrowth *growth); // [E]; NULL without aggregation

// Seeds switched off in the last validation, and the accuracies [E, ES_ABLATION_PATTERNS_MAX].
const EsAblation *es_growth_ablations(const EsGrowth *growth); // [E]
const float *es_growth_ablation_accuracy(const EsGrowth *growth);

// Shapley values of the accuracy for the seeds that were switched off in the last validation: the
// gain by each, averaged over all orders of adding them. Call it when the episode is over; above
// four seeds it evaluates random orders. Values and standard errors [E, S], percent points; NaN
// where there is no such seed, error 0 where exact.
EsStatus es_growth_attribute(EsGrowth *growth);
const double *es_growth_shapley(const EsGrowth *growth);
const double *es_growth_shapley_error(const EsGrowth *growth);

// Whom a batch's loss owes what to: of the training samples [first, first + count), the share of
// each seed in what the loss would rise by without it, over the seeds that lower it. Weights [E, S]
// of an environment add up to 1, or all are 0: no seed lowers the loss. Between steps; changes no
// state.
EsStatus es_growth_attribute_batch(EsGrowth *growth, int64_t first, int64_t count, double *weights);

// Loss and accuracy of every host as it is, on the whole test split, into the results. For the end
// of an episode: nothing that is decided may depend on it.
EsStatus es_growth_test(EsGrowth *growth);

// The same on any split, into losses and accuracies [E], percent; results stay as they are.
EsStatus es_growth_evaluate(EsGrowth *growth, const EsSplit *split, double *losses,
                            double *accuracies);

// Its halves: this rank's environments, and those of the others.
EsStatus es_growth_evaluate_own(EsGrowth *growth, const EsSplit *split, double *losses,
                                double *accuracies);
EsStatus es_growth_evaluate_gather(EsGrowth *growth, double *losses, double *accuracies);

// Parameters of the host with its living seeds.
int64_t es_growth_parameter_count(const EsGrowth *growth, int64_t env);

// Floating-point operations of one image through the host with its living seeds, as es_host_flops
// has them; gates, which see the means of channels, are left out.
double es_growth_flops(const EsGrowth *growth, int64_t env);

// Parameters over those of the host alone.
double es_growth_parameter_ratio(const EsGrowth *growth, int64_t env);

// Estimates the bytes that n_episodes will allocate, with at most `n_seeds` in a host: activations
// for every thread, as many as any topology takes, and a guess of the plans, since the topologies
// that will be met are not known. 0 on a GPU: the fused step has allocated all by then, and what
// plans of topologies to come will take is not estimated.
EsStatus es_growth_episode_bytes(EsGrowth *growth, int64_t n_episodes, int n_seeds, size_t *bytes);

// With ranks: environment e is number `first` + e of n_all, whose ranks follow from that number and
// no longer change. Between steps; all ranks have the weights of all (they have after create, load,
// take_envs and gather_weights).
void es_growth_assign(EsGrowth *growth, int64_t first, int64_t n_all);

// Environments that this rank trains.
int64_t es_growth_own_count(const EsGrowth *growth);

// Gives every rank the weights of all environments, as saving and moving them need. Collective.
EsStatus es_growth_gather_weights(EsGrowth *growth);

// Copies one environment's parameters and running statistics, as many as the model's layout says,
// to the caller's memory: those that validation measured, the averaged ones where the recipe has
// an average. Waits for a GPU; collective.
EsStatus es_growth_read_weights(EsGrowth *growth, int64_t env, float *parameters, float *states);

// Id of the episode that an environment is in.
int64_t es_growth_episode(const EsGrowth *growth, int64_t env);

// Bytes of the weights of all hosts, with gradients, momentum, statistics, snapshots and averages.
size_t es_growth_weight_bytes(const EsGrowth *growth);

// The executor of the hosts in words, and why there is no faster one; on the CPU of the plans that
// are built.
const char *es_growth_executor(const EsGrowth *growth, char text[ES_EXECUTOR_BYTES]);

// Returns whether that is the fused step; 0 on the CPU.
int es_growth_is_fused(const EsGrowth *growth);

// Returns whether the device runs such a host in the fastest way that it has for any, before there
// is anything else: on CUDA fused; UNSUPPORTED says why not. A CPU has one way for all.
EsStatus es_growth_check_fused(const EsHostSpec *host, const EsSlot *slots, int n_slots,
                               const EsDevice *device, EsDtype precision);

// The executor of a model's hosts on a CUDA device: fused kernels, or plans of single operations,
// and then the reason. UNSUPPORTED in float16, which plans have not.
EsStatus es_growth_choose_executor(const EsGrowthModel *model, const EsDevice *device,
                                   EsDtype precision, int is_generic, int *is_fused,
                                   char not_fused[256]);

const EsGrowthModel *es_growth_model(const EsGrowth *growth);
EsStore *es_growth_store(EsGrowth *growth);
EsGrowthPlansReport es_growth_plans(const EsGrowth *growth);

// Append all that an episode has made of the hosts: parameters, momentum, statistics, snapshots,
// averages, and the small state as it is shown.
EsStatus es_growth_append_state(EsGrowth *growth, EsStateHash *hash);

// An episode in a file, after es_growth_decide and before es_growth_advance; with ranks after
// es_growth_gather_weights; UNSUPPORTED in
// float16, as is the next one. A growth of the same options that loads it goes on with the same
// bits. Loading checks all that the file has before it changes anything: INPUT names the field that
// is out of range.
EsStatus es_growth_save(EsGrowth *growth, const char *path);
EsStatus es_growth_load(EsGrowth *growth, const char *path);

// Environment i goes on with the episode that environment envs[i] of `from` is in, for all E; at
// the same moment. Options may differ in n_envs alone, and the device is the same; on a GPU another
// n_envs may change the last bits of later steps.
EsStatus es_growth_take_envs(EsGrowth *growth, EsGrowth *from, const int64_t *envs);

typedef struct EsGrowthTimes {
    double train_ms, validate_ms, decide_ms; // of the last step
} EsGrowthTimes;
EsGrowthTimes es_growth_times(const EsGrowth *growth);

ES_EXTERN_C_END

#endif
