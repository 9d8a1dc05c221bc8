// Training and evaluating small convolutional hosts with their seeds on a GPU, all networks of a
// batch in a few launches. CUDA alone; growth_train.c and growth_validate.c are the specification.
//
// A training step falls into cuts at the sums over the batch that batch norm needs. Inside a cut
// everything is per image, so a thread block takes some images of one network through it with their
// activations in shared memory. A network's behaviour at a slot is read from its own row of a table
// in device memory: topology is data, so germinating, blending and pruning rebuild nothing and the
// launches of a step are always the same.
//
//     EsFusedStep *fused; ES_TRY(es_fused_step_create(&options, &fused));
//     es_fused_step_train(fused, stream, &instances, &batch); // gradients, loss, counts
//     es_fused_step_evaluate(fused, stream, &instances, first_image, n_images);
//
// Nothing here allocates, waits or reads device memory after create: all of it can be captured.
//
// R instances (networks to run), E environments, S slots, N images of a batch.
#ifndef ES_GROWTH_FUSED_STEP_H
#define ES_GROWTH_FUSED_STEP_H

#include "growth/host/growth_graph.h"
#include "network/store.h"

ES_EXTERN_C_BEGIN

// Behaviour of an instance at one slot; written by kernels or copied in.
typedef struct EsFusedSlot {
    int32_t blueprint; // EsBlueprint; ES_NO_SEED: nothing is there
    int32_t mode;      // EsBlendMode; NONE: the seed is not run
    float alpha;
    int32_t has_gate;
} EsFusedSlot;

// Networks to run. All pointers are device memory and are read when the work runs.
typedef struct EsFusedInstances {
    int64_t n_instances;     // R: grids are sized for it
    const int32_t *n_active; // [1], nullable: instances from here on are skipped
    const int32_t *env;      // [R]: whose parameters, order of samples and statistics
    // [R, S], slots in the order of the model. In evaluation instances of one environment differ in
    // which slots mix a seed in and in nothing else: their common part is computed once.
    const EsFusedSlot *slots;
} EsFusedInstances;

typedef struct EsFusedOptions {
    const EsGrowthModel *model; // borrowed, with its layout
    EsStore *store;             // borrowed, on a CUDA device: the weights that are trained,
    EsStore *evaluated;         // borrowed: and those that are evaluated; NULL: the same
    EsTensor images, labels;    // the data set on that device, u8 [M, C, H, W] and u16 [M]
    EsTensor episode;           // i32 [E]
    EsDtype precision;          // of activations: F32, BF16 or F16
    int is_tf32;                // F32 alone: convolutions and their gradients multiply in TF32
    int64_t batch;              // N of training
    int64_t max_instances;      // R at most, in training and evaluation
    int64_t max_evaluated;      // images of one instance in one pass of evaluation
} EsFusedOptions;

// One batch of training: instance r trains environment env[r].
typedef struct EsFusedBatch {
    const int32_t *step;     // device, [1]: number of the batch in the episode (gather_rules.h)
    const float *loss_scale; // device, [E], nullable: gradients come out multiplied by it
} EsFusedBatch;

// Results in device memory, valid until the next run of the kind.
typedef struct EsFusedResults {
    EsTensor loss;      // f32 [R]: mean over the batch; evaluation: sum over its images
    EsTensor n_correct; // i32 [R]
    EsTensor n_invalid; // i32 [R]: labels out of range
} EsFusedResults;

typedef struct EsFusedStep EsFusedStep;

// Checks that this host can run here; UNSUPPORTED names the obstacle (kernel size, shared memory).
EsStatus es_fused_step_check(const EsGrowthModel *model, const EsDevice *device, EsDtype precision);

EsStatus es_fused_step_create(const EsFusedOptions *options, EsFusedStep **fused);
void es_fused_step_destroy(EsFusedStep *fused);

// Forward, loss, backward of one batch with the batch's statistics; running statistics move.
// Gradients of the host and of every seed that runs (mode not NONE; of the gate where has_gate and
// mode GATE) are written into the store's gradient slab; other parts of it are left alone.
void es_fused_step_train(EsFusedStep *fused, EsStream *stream, const EsFusedInstances *instances,
                         const EsFusedBatch *batch);

// Images [first_image, first_image + n_images) of the data set through every instance, with running
// statistics and no augmentation. Several passes where n_images is more than max_evaluated; results
// are of all of them together.
void es_fused_step_evaluate(EsFusedStep *fused, EsStream *stream, const EsFusedInstances *instances,
                            int64_t first_image, int64_t n_images);

EsFusedResults es_fused_step_trained(const EsFusedStep *fused);
EsFusedResults es_fused_step_evaluated(const EsFusedStep *fused);

size_t es_fused_step_bytes(const EsFusedStep *fused); // device memory it holds

ES_EXTERN_C_END

#endif
