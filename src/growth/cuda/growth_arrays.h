// Interface of growth's CUDA kernels: one struct of device pointers that every launcher takes, and
// the launchers. Nothing here allocates, waits or reads device memory; all of it can be captured.
//
// E environments, S slots, P parameters of one environment, B batches of a step, R trials (an
// environment with some seeds switched off).
#ifndef ES_GROWTH_GROWTH_ARRAYS_H
#define ES_GROWTH_GROWTH_ARRAYS_H

#include "growth/engine/growth_device.h"
#include "growth/fused/fused_step.h"

ES_EXTERN_C_BEGIN

// --- where parameters lie, as tables in device memory ---

// The sections of an environment's rows; the first three lie in the parameters, the last in the
// states.
enum {
    ES_GROWTH_SECTION_HOST,
    ES_GROWTH_SECTION_GATE,
    ES_GROWTH_SECTION_SEED,
    ES_GROWTH_SECTION_STATE
};

// One tensor.
typedef struct EsGrowthSpan {
    int64_t offset; // of its first element in the row
    EsInitialTensor tensor;
} EsGrowthSpan;

// Tensors [first, first + n) of the list, and where the last one ends.
typedef struct EsGrowthRange {
    int32_t first, n;
    int64_t end;
} EsGrowthRange;

typedef struct EsGrowthMap {
    EsGrowthRange host, state;
    EsGrowthRange gate[ES_SLOTS_MAX];
    EsGrowthRange seed[ES_SLOTS_MAX][ES_BLUEPRINT_END]; // empty where it does not fit
} EsGrowthMap;

// A stretch of a row that one block serves; it lies in one section.
#define ES_GROWTH_CHUNK 1024
typedef struct EsGrowthChunk {
    int32_t section, slot; // slot: of gates and seeds
    int64_t first, end;
} EsGrowthChunk;

// A tensor that an environment can have: number k of the host, of a gate, or of the seed in the
// slot, if any. The places of a group follow each other, a slot's gate before its seed.
typedef struct EsGrowthPlace {
    int32_t section, slot, number;
} EsGrowthPlace;

// A stretch of the tensor at a place that one block measures; where the tensor in the place is
// shorter there is nothing to measure. The pieces of a place follow each other.
#define ES_GROWTH_PIECE 2048
typedef struct EsGrowthPiece {
    EsGrowthPlace place;
    int64_t first; // element of the tensor
} EsGrowthPiece;

// Places [first, end) of the host (0) and of slot s (1 + s).
typedef struct EsGrowthGroups {
    int32_t first[2 + ES_SLOTS_MAX];
} EsGrowthGroups;

// Loss scales of float16.
#define ES_LOSS_SCALE_START 65536.0f
#define ES_LOSS_SCALE_MAX   16777216.0f // 2^24
#define ES_LOSS_SCALE_STEPS 2000        // good ones until it doubles

// --- all pointers ---

typedef struct EsGrowthArrays {
    int32_t n_envs, n_slots, n_places, n_pieces;
    int32_t n_chunks, n_parameter_chunks; // all; of parameters, which come first
    int32_t max_patterns;                 // of one environment's validation
    int32_t is_scaled;                    // float16: gradients come multiplied by loss_scale
    int64_t n_parameters, n_states;
    int64_t step_batches, batch, n_validation_images;
    uint64_t seed;
    // constant tables
    const EsGrowthSettings *settings;
    const EsGrowthMap *map;
    const EsGrowthSpan *spans;
    const EsGrowthChunk *chunks; // [n_chunks]
    const EsGrowthPlace *places; // [n_places]
    const EsGrowthPiece *pieces; // [n_pieces]
    const int32_t *first_piece;  // [n_places]
    EsGrowthGroups groups;
    // weights
    float *parameters, *gradients, *momentum, *saved_parameters; // [E, P]
    float *states, *saved_states;                                // [E, n_states]
    // averaged weights, as they lie in an EsGrowthAverage; NULL without
    float *average, *average_states, *saved_average, *saved_average_states;
    int32_t *average_updates; // [E, parts]
    float *average_share;     // [E, parts]: of this batch; -1: stays
    float average_decay;      // 0 = no average
    int32_t *episode;         // [E]
    EsGrowthSgd rates;
    EsLearningRateSchedule schedule; // of both learning rates; 0 updates: they stay
    const float *epoch_share;        // [steps of an episode]: of both, by the step; NULL: 1
    int32_t is_nesterov;
    // the small state, and the arrays reported with it
    EsGrowthState state;
    EsActionMasks *masks;    // [E]
    EsGrowthResult *results; // [E]
    EsAblation *ablations;   // [E]
    EsInteractions *pairs;   // [E]
    float *accuracy;         // [E, ES_ABLATION_PATTERNS_MAX]
    int32_t *n_invalid;      // [2, E]: labels out of range in training, in validation
    EsAction *actions;       // [E]
    // training
    int32_t *train_env;        // [E]: 0, 1, ...
    EsFusedSlot *train_slots;  // [E, S]
    int32_t *batch_number;     // [B], of the episode
    double *sum_squares;       // [E, n_pieces], of gradients that are not multiplied any more
    int32_t *n_nonfinite;      // [E, n_pieces]
    int32_t *n_arrived;        // [E]: blocks that have measured; 0 between launches
    float *clip_factor;        // [E, 1 + S]; 1 = as they are, -1 = leave the weights alone
    float *unscale;            // [E]: 1 / the loss scale of this batch
    float *loss_scale;         // [E]
    int32_t *n_good;           // [E]: steps since the loss scale changed
    EsGradientSums *host_sums; // [E]
    EsGradientSums *seed_sums; // [E, S]
    double *train_loss;        // [E]: sum over the batches so far
    int64_t *train_correct;    // [E]
    const float *trained_loss; // [E], as the fused step leaves it
    const int32_t *trained_correct, *trained_invalid;
    // validation
    int32_t *n_trials;              // [1]
    int32_t *first_trial;           // [E]
    int32_t *trial_env;             // [R]
    int32_t *trial_off;             // [R]: slots switched off, as bits
    EsFusedSlot *trial_slots;       // [R, S]
    float *loss_row, *accuracy_row; // [E]
    const float *evaluated_loss;    // [R], as the fused step leaves it
    const int32_t *evaluated_correct, *evaluated_invalid;
} EsGrowthArrays;

// --- launchers ---

// lifecycle_cuda.cu: a thread per environment.
// Episode ids (first_episode + e % period) and states of fresh episodes, and fresh loss scales.
void es_growth_cuda_reset(const EsGrowthArrays *arrays, EsStream *stream, int64_t first_episode,
                          int64_t period);
// Measurements, gradients, contributions, masks, in this order (lifecycle.h).
void es_growth_cuda_measure(const EsGrowthArrays *arrays, EsStream *stream);
// Actions and tick.
void es_growth_cuda_decide(const EsGrowthArrays *arrays, EsStream *stream);

// growth_weights_cuda.cu: the requests of the rules; all hosts are made anew before when is_fresh.
void es_growth_cuda_weights(const EsGrowthArrays *arrays, EsStream *stream, int is_fresh);

// slot_table_cuda.cu: fills the slots that each environment trains in this step, and clears sums.
void es_growth_cuda_begin_step(const EsGrowthArrays *arrays, EsStream *stream);
// Lists the seeds to switch off, and the trials of that, environment by environment.
void es_growth_cuda_list_trials(const EsGrowthArrays *arrays, EsStream *stream);
// Slots of the n trials whose environments and switched-off slots are in trial_env and trial_off.
void es_growth_cuda_fill_trials(const EsGrowthArrays *arrays, EsStream *stream, int64_t n);

// growth_update_cuda.cu: the work after each batch: its loss and counts are added up, gradients are
// measured when is_measured, clipped and applied. update i32 [1]: number of the batch in its
// episode.
void es_growth_cuda_update(const EsGrowthArrays *arrays, const int32_t *update, EsStream *stream,
                           int is_measured);

// slot_table_cuda.cu: what a pass of n_images has given n trials, into their results of all passes:
// mean losses times n_images, and counts; adds: to what is there.
void es_growth_cuda_add_pass(EsStream *stream, const EsFusedResults *pass,
                             const EsFusedResults *results, int64_t n, int64_t n_images, int adds);

// slot_table_cuda.cu: means over the batches of the step, and its trials as accuracies.
void es_growth_cuda_results(const EsGrowthArrays *arrays, EsStream *stream);

ES_EXTERN_C_END

#endif
