// Fills a data set with generated images (generated_images.h), in pieces on a thread pool.
#include "data/dataset_internal.h"
#include "data/generated_images.h"

// images per piece of work: about a millisecond of drawing
#define PIECE_IMAGES 64

// more would not fit the 32-bit image number
#define MAX_IMAGES_PER_SPLIT ((int64_t)1 << 30)

typedef struct Job {
    EsDataset *dataset;
    const EsImageRecipe *recipe;
    uint64_t seed;
} Job;

// Piece p draws images p PIECE_IMAGES and following of the whole set. The splits lie one after
// another; within its split an image is numbered from 0.
static void draw_piece(void *context, int64_t piece, int worker) {
    (void)worker;
    const Job *job = context;
    EsDataset *dataset = job->dataset;
    int64_t first = piece * PIECE_IMAGES;
    int64_t end = ES_MIN(first + PIECE_IMAGES, dataset->n_images);
    for (int64_t i = first; i < end; i++) {
        uint32_t split = 0;
        int64_t index = i;
        if (index >= dataset->train.count) {
            index -= dataset->train.count;
            split = 1;
            if (index >= dataset->validation.count) {
                index -= dataset->validation.count;
                split = 2;
            }
        }
        uint8_t label = es_generated_label(job->recipe, job->seed, split, (uint32_t)index);
        dataset->labels[i] = label;
        es_generated_image_draw(job->recipe, job->seed, split, (uint32_t)index, label,
                                dataset->images + (size_t)i * dataset->image_bytes);
    }
}

EsStatus es_dataset_generate(EsDataset *dataset, EsGeneratedKind kind,
                             const EsDatasetOptions *options, EsThreadPool *pool) {
    int is_tiny = kind == ES_GENERATED_TINY;
    int64_t asked[3] = {options->n_train, options->n_validation, options->n_test};
    int64_t counts[3] = {is_tiny ? 8000 : 20000, is_tiny ? 2000 : 4000, is_tiny ? 2000 : 4000};
    for (int i = 0; i < 3; i++) {
        if (asked[i] < 0 || asked[i] > MAX_IMAGES_PER_SPLIT) {
            return ES_FAIL(ARGUMENT,
                           "cannot generate %lld images per split, expected 0 (default) to %lld",
                           (long long)asked[i], (long long)MAX_IMAGES_PER_SPLIT);
        }
        counts[i] = asked[i] > 0 ? asked[i] : counts[i];
    }
    const EsImageRecipe *recipe = is_tiny ? &es_recipe_tiny : &es_recipe_generated;
    int shape[3] = {recipe->n_channels, recipe->size, recipe->size};
    ES_TRY(es_dataset_allocate(dataset, is_tiny ? "tiny" : "generated", shape, ES_PICTOGRAM_CLASSES,
                               counts));
    EsStatus status =
        es_names_copy(es_pictogram_names, ES_PICTOGRAM_CLASSES, &dataset->class_names);
    if (status != ES_STATUS_OK) {
        es_dataset_destroy(dataset);
        return status;
    }

    Job job = {dataset, recipe, options->seed};
    int64_t n_pieces = (dataset->n_images + PIECE_IMAGES - 1) / PIECE_IMAGES;
    if (pool != NULL) {
        es_thread_pool_run(pool, n_pieces, draw_piece, &job);
    } else {
        for (int64_t piece = 0; piece < n_pieces; piece++) {
            draw_piece(&job, piece, 0);
        }
    }
    es_dataset_measure(dataset);
    return ES_STATUS_OK;
}
