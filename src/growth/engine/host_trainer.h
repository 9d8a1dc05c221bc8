// Trains E hosts side by side on one data set, each on its own order of the samples.
//
// The data set stays on the device as bytes; a step gathers a batch per host, runs forward,
// backward and the optimiser, all in one plan. Evaluation runs every host over a whole split in
// batches, with running batch-norm statistics; with the averaged weights and statistics where the
// recipe has an average.
//
//     EsHostTrainerOptions options = es_host_trainer_defaults(&spec, n_envs);
//     EsHostTrainer *trainer; ES_TRY(es_host_trainer_create(&options, &dataset, device, &trainer));
//     ES_TRY(es_host_trainer_train(trainer, n_steps));
//     ES_TRY(es_host_trainer_evaluate(trainer, &dataset.validation, results));
#ifndef ES_GROWTH_HOST_TRAINER_H
#define ES_GROWTH_HOST_TRAINER_H

#include "data/dataset.h"
#include "growth/host/host.h"
#include "growth/rules/recipe.h"
#include "network/plan/plan.h"

ES_EXTERN_C_BEGIN

typedef struct EsHostTrainerOptions {
    EsHostSpec host;
    int64_t n_envs;
    int64_t batch; // images per host and step
    uint64_t seed;
    int32_t first_episode; // host e is episode first_episode + e
    EsRecipe recipe;       // of labels, images and averages, and the learning rate's course; the
                           // numbers of the updates are the optimiser's (es_recipe_optimiser)
    int64_t n_updates;     // of the run, for that course; 0: it stays
    int64_t epoch_updates; // of an epoch, for a course by epochs; 0: there is one epoch
    EsDtype precision;     // of activations: F32; on CUDA also BF16, and F16 where it runs fused
    int is_tf32;           // CUDA, F32, fused: convolutions multiply in TF32; on by default
    EsCompileMode mode;
    int is_generic; // CUDA: the plan of single kernels also where the fused executor could run
    EsOptimiserOptions optimiser;
    EsStream *stream; // borrowed, nullable: the trainer then has its own
} EsHostTrainerOptions;

typedef struct EsHostResult {
    double loss;     // mean over images
    double accuracy; // percent
} EsHostResult;

typedef struct EsHostTrainer EsHostTrainer;

EsHostTrainerOptions es_host_trainer_defaults(const EsHostSpec *host, int64_t n_envs);

// The data set and device are borrowed. Fails where the images do not fit the host.
EsStatus es_host_trainer_create(const EsHostTrainerOptions *options, const EsDataset *dataset,
                                EsDevice *device, EsHostTrainer **trainer);
void es_host_trainer_destroy(EsHostTrainer *trainer);

// Queue n_steps batches; es_host_trainer_wait waits for them.
EsStatus es_host_trainer_train(EsHostTrainer *trainer, int64_t n_steps);
EsStatus es_host_trainer_wait(EsHostTrainer *trainer);

// Loss and accuracy of the last training batch, into results [E]. Waits.
EsStatus es_host_trainer_last_batch(EsHostTrainer *trainer, EsHostResult *results);

// Loss and accuracy over a split, into results [E]. Waits. INPUT when a label is out of range.
EsStatus es_host_trainer_evaluate(EsHostTrainer *trainer, const EsSplit *split,
                                  EsHostResult *results);

// The step counter, i32 [1] in device memory: a resumed run must restore it, since the order of the
// samples follows from it.
EsTensor es_host_trainer_step(const EsHostTrainer *trainer);

// Numbers of the trainer, for reports.
EsStore *es_host_trainer_store(EsHostTrainer *trainer);
EsStore *es_host_trainer_average(EsHostTrainer *trainer); // the averaged weights; NULL without
const EsGraph *es_host_trainer_graph(const EsHostTrainer *trainer);
EsOptimiser *es_host_trainer_optimiser(EsHostTrainer *trainer);
EsPlanReport es_host_trainer_report(const EsHostTrainer *trainer); // of training

ES_EXTERN_C_END

#endif
