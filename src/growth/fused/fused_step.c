// The fused step: the description of a network for the kernels, memory, and the order of the
// launches.
//
// R instances, E environments, N images of an instance, B blocks.
#include "growth/fused/fused_step.h"

#include <string.h>

#include "base/memory.h"
#include "growth/fused/fused_kernels.h"

// Thread blocks that share a multiprocessor: as many as their registers allow. The classifier's is
// that of cifar_baseline in 16 bits; of the general one two do, which then take turns.
#define FORWARD_SHARING    3
#define BACKWARD_SHARING   2
#define CLASSIFIER_SHARING 4
// Shared memory that the system takes of each block's.
#define RESERVED_BYTES 1024
// Fixed cost of a chunk, in images.
#define PART_COST             0.7
#define IMAGES_PER_CHUNK_MAX  16
#define CLASSIFIER_IMAGES_MIN 8 // warps of a thread block
#define CLASSIFIER_IMAGES_MAX 32

// Images that a thread block takes at a time, by kernel.
typedef struct Chunks {
    int forward[ES_FUSED_BLOCKS_MAX], classifier, backward[ES_FUSED_BLOCKS_MAX];
    int seed_forward[ES_SLOTS_MAX], seed_backward[ES_SLOTS_MAX];
} Chunks;

struct EsFusedStep {
    EsFusedOptions options;
    EsDevice *device; // borrowed
    int64_t n_envs;
    EsFusedArguments args;  // of both kinds of run; instances, images and results change
    EsFusedSharing sharing; // of evaluation
    Chunks training, evaluation;
    void *slab; // owned: everything but the results
    size_t slab_bytes;
    EsFusedResults trained, evaluated; // owned
};

// --- the network in the kernels' words ---

static int32_t c8_of(int n_channels) { return (n_channels + ES_C8 - 1) / ES_C8; }

static void set_reciprocals(EsFusedBlock *block) {
    block->by_size = es_fused_reciprocal(block->size);
    block->by_pixels = es_fused_reciprocal(block->size * block->size);
    block->by_out_size = es_fused_reciprocal(block->out_size);
    block->by_out_pixels = es_fused_reciprocal(block->out_size * block->out_size);
}

static int32_t count_slots_before(const EsGrowthModel *model, int block) {
    int32_t n = 0;
    for (int s = 0; s < model->n_slots; s++) {
        n += model->slots[s].column < block;
    }
    return n;
}

static EsStatus describe_blocks(const EsGrowthModel *model, EsFusedNet *net) {
    const EsHostSpec *host = &model->host;
    int n_in = host->image_channels, size = host->image_size;
    for (int b = 0; b < host->n_blocks; b++) {
        const EsHostBlock block = es_host_block(host, b);
        if ((block.kernel != 1 && block.kernel != 3) || block.n_channels > 256 ||
            (block.has_pool && size % 2 != 0)) {
            return ES_FAIL(UNSUPPORTED,
                           "block %d of host \"%s\" (kernel %d, %d channels, %d x %d): fused "
                           "kernels are of 1 or 3, channels at most 256, pooled sizes even",
                           b, host->name, block.kernel, block.n_channels, size, size);
        }
        net->block[b] = (EsFusedBlock){.n_in = n_in,
                                       .n_out = block.n_channels,
                                       .in_c8 = c8_of(n_in),
                                       .out_c8 = c8_of(block.n_channels),
                                       .size = size,
                                       .out_size = block.has_pool ? size / 2 : size,
                                       .kernel = block.kernel,
                                       .has_pool = block.has_pool,
                                       .slot = {es_slot_at(model->slots, model->n_slots, b, 0),
                                                es_slot_at(model->slots, model->n_slots, b, 1)},
                                       .depth = count_slots_before(model, b)};
        set_reciprocals(&net->block[b]);
        n_in = block.n_channels;
        size = net->block[b].out_size;
    }
    return ES_STATUS_OK;
}

static EsStatus place_parameters(const EsGrowthModel *model, EsFusedNet *net) {
    EsSpans spans;
    ES_TRY(es_growth_host_spans(model, &spans));
    ES_ASSERT(spans.n == 3 * net->n_blocks + 2);
    for (int b = 0; b < net->n_blocks; b++) {
        net->block[b].weight = spans.offset[3 * b];
        net->block[b].gamma = spans.offset[3 * b + 1];
        net->block[b].beta = spans.offset[3 * b + 2];
    }
    net->classifier_weight = spans.offset[3 * net->n_blocks];
    net->classifier_bias = spans.offset[3 * net->n_blocks + 1];
    return ES_STATUS_OK;
}

static EsStatus place_states(const EsGrowthModel *model, EsFusedNet *net) {
    EsSpans spans;
    ES_TRY(es_growth_host_states(model, &spans));
    ES_ASSERT(spans.n == 2 * net->n_blocks);
    for (int b = 0; b < net->n_blocks; b++) {
        net->block[b].running_mean = spans.offset[2 * b];
        net->block[b].running_variance = spans.offset[2 * b + 1];
    }
    return ES_STATUS_OK;
}

static EsStatus describe_tensors(const EsSpans *spans, int limit, EsFusedSeed *seed) {
    ES_ASSERT(spans->n <= limit);
    seed->n_tensors = spans->n;
    for (int i = 0; i < spans->n; i++) {
        seed->offset[i] = spans->offset[i];
        seed->length[i] = (int32_t)spans->length[i];
    }
    return ES_STATUS_OK;
}

static EsStatus describe_place(const EsGrowthModel *model, int s, EsFusedNet *net) {
    const EsSlot *slot = &model->slots[s];
    const EsFusedBlock *block = &net->block[slot->column];
    EsFusedPlace *place = &net->place[s];
    EsSpans spans;
    place->depth = slot->order;
    net->order[slot->order] = s;
    place->block = slot->column;
    place->is_after_pool = slot->row;
    place->n_channels = block->n_out;
    place->n_c8 = block->out_c8;
    place->size = slot->row == 0 ? block->size : block->out_size;
    place->by_size = es_fused_reciprocal(place->size);
    place->by_pixels = es_fused_reciprocal(place->size * place->size);
    place->n_groups = es_blueprint_group_count(block->n_out);
    for (int b = 0; b < ES_BLUEPRINT_COUNT; b++) {
        ES_TRY(es_growth_seed_spans(model, s, (EsBlueprint)b, &spans));
        ES_TRY(describe_tensors(&spans, ES_FUSED_TENSORS_MAX, &place->seed[b]));
    }
    ES_TRY(es_growth_gate_spans(model, s, &spans));
    return describe_tensors(&spans, ES_FUSED_GATE_TENSORS, &place->gate);
}

static EsStatus describe_net(const EsGrowthModel *model, EsFusedNet *net) {
    const EsHostSpec *host = &model->host;
    memset(net, 0, sizeof *net);
    if (host->kind == ES_HOST_DENSE) {
        return ES_FAIL(UNSUPPORTED, "host \"%s\" has layers on rows; fused kernels are of images",
                       host->name);
    }
    if (host->n_blocks > ES_FUSED_BLOCKS_MAX || host->image_channels > ES_C8) {
        return ES_FAIL(UNSUPPORTED,
                       "host \"%s\" has %d blocks (at most %d), images of %d channels (at most %d)",
                       host->name, host->n_blocks, ES_FUSED_BLOCKS_MAX, host->image_channels,
                       ES_C8);
    }
    net->n_blocks = host->n_blocks;
    net->n_slots = model->n_slots;
    net->n_classes = host->n_classes;
    net->image_channels = host->image_channels;
    ES_TRY(describe_blocks(model, net));
    ES_TRY(place_parameters(model, net));
    ES_TRY(place_states(model, net));
    for (int s = 0; s < model->n_slots; s++) {
        ES_TRY(describe_place(model, s, net));
    }
    return ES_STATUS_OK;
}

// --- images per chunk ---

static int64_t count_chunks(int64_t n_images, int images) {
    return (n_images + images - 1) / images;
}

typedef size_t (*BytesFunction)(const EsFusedNet *net, EsDtype precision, int block, int n_images);

// The number for which the thread blocks take the fewest turns, a turn being as long as its images
// and a little more for the chunk's fixed cost.
static EsStatus choose_images(const EsFusedNet *net, EsDtype precision, const EsFusedLimits *limits,
                              BytesFunction bytes, int n_sharing, int block, int *images) {
    size_t limit = limits->shared_limit;
    int64_t n_places = (int64_t)n_sharing * limits->n_sms;
    double best = 0;
    if (bytes(net, precision, block, 1) > limit) {
        return ES_FAIL(UNSUPPORTED,
                       "block %d of the host needs %zu bytes of shared memory for one image, the "
                       "GPU has %zu; fewer channels, smaller images or 16-bit numbers take less",
                       block, bytes(net, precision, block, 1), limit);
    }
    for (int n = 1; n <= ES_MIN(limits->n_images, IMAGES_PER_CHUNK_MAX); n++) {
        if (n > 1 && bytes(net, precision, block, n) > limit / (size_t)n_sharing - RESERVED_BYTES) {
            break;
        }
        int64_t n_blocks = limits->n_instances * count_chunks(limits->n_images, n);
        double turns = (double)((n_blocks + n_places - 1) / n_places);
        double cost = turns * (n + PART_COST);
        if (n == 1 || cost < best) {
            best = cost;
            *images = n;
        }
    }
    return ES_STATUS_OK;
}

// Images of the classifier's kernel, where a warp takes an image: one each, and more where thread
// blocks would otherwise take turns.
static EsStatus choose_classifier_images(const EsFusedNet *net, EsDtype precision,
                                         const EsFusedLimits *limits, int *images) {
    int64_t n_places = CLASSIFIER_SHARING * (int64_t)limits->n_sms;
    int n = CLASSIFIER_IMAGES_MIN;
    if (es_fused_classifier_bytes(net, precision, n) > limits->shared_limit) {
        return ES_FAIL(UNSUPPORTED,
                       "the end of the host needs %zu bytes of shared memory, the GPU has %zu; "
                       "fewer channels or classes take less",
                       es_fused_classifier_bytes(net, precision, n), limits->shared_limit);
    }
    while (2 * n <= CLASSIFIER_IMAGES_MAX &&
           limits->n_instances * count_chunks(limits->n_images, n) > n_places &&
           es_fused_classifier_bytes(net, precision, 2 * n) <=
               limits->shared_limit / CLASSIFIER_SHARING - RESERVED_BYTES) {
        n *= 2;
    }
    *images = n;
    return ES_STATUS_OK;
}

// n_leaders: instances that compute before the first slot; 2^d times as many behind d of them, all
// at most.
static EsStatus choose_chunks(const EsFusedNet *net, EsDtype precision, const EsDevice *device,
                              int64_t n_instances, int64_t n_leaders, int64_t n_images,
                              Chunks *chunks) {
    EsFusedLimits limits = {n_instances, n_images, es_device_info(device)->n_processors, 0};
    ES_TRY(es_fused_shared_limit(device, &limits.shared_limit));
    EsFusedLimits leaders = limits; // of a block or slot in a forward pass
    for (int b = 0; b < net->n_blocks; b++) {
        leaders.n_instances = ES_MIN(n_instances, n_leaders << net->block[b].depth);
        ES_TRY(choose_images(net, precision, &leaders, es_fused_forward_bytes, FORWARD_SHARING, b,
                             &chunks->forward[b]));
        ES_TRY(choose_images(net, precision, &limits, es_fused_backward_bytes, BACKWARD_SHARING, b,
                             &chunks->backward[b]));
    }
    ES_TRY(choose_classifier_images(net, precision, &limits, &chunks->classifier));
    for (int s = 0; s < net->n_slots; s++) {
        leaders.n_instances = ES_MIN(n_instances, n_leaders << net->place[s].depth);
        ES_TRY(es_fused_seed_images(&net->place[s], precision, &leaders, &chunks->seed_forward[s],
                                    &chunks->seed_backward[s]));
    }
    return ES_STATUS_OK;
}

EsStatus es_fused_step_check(const EsGrowthModel *model, const EsDevice *device,
                             EsDtype precision) {
    EsFusedNet net;
    Chunks chunks;
    if (es_device_info(device)->kind != ES_DEVICE_CUDA) {
        return ES_FAIL(UNSUPPORTED, "fused steps run on CUDA devices");
    }
    ES_TRY(describe_net(model, &net));
    return choose_chunks(&net, precision, device, 1, 1, 1, &chunks);
}

// --- memory ---

// Hands out pieces of a slab; with base NULL it only counts.
typedef struct Slab {
    unsigned char *base;
    size_t used;
} Slab;

static void *take(Slab *slab, int64_t count, size_t element_bytes) {
    void *piece = slab->base == NULL ? NULL : slab->base + slab->used;
    slab->used += ((size_t)count * element_bytes + 255) / 256 * 256;
    return piece;
}

// n_trained and n_held: images of all instances in training, and at most in any run.
static void place_block(EsFusedStep *fused, Slab *slab, int b, int64_t n_trained, int64_t n_held,
                        int64_t n_instances) {
    const EsFusedBlock *block = &fused->args.net.block[b];
    EsFusedMemory *memory = &fused->args.memory[b];
    size_t bytes = es_dtype_bytes(fused->options.precision);
    int64_t channels = block->out_c8 * ES_C8;
    int64_t full = channels * block->size * block->size;
    int64_t out_length = channels * block->out_size * block->out_size;
    memory->raw = take(slab, n_held * full, bytes);
    memory->pooled = block->has_pool ? take(slab, n_held * out_length, bytes) : memory->raw;
    memory->middle = block->slot[0] >= 0 ? take(slab, n_held * out_length, bytes) : NULL;
    memory->out = block->slot[1] >= 0 ? take(slab, n_held * out_length, bytes) : NULL;
    memory->d_middle = block->slot[1] >= 0 ? take(slab, n_trained * out_length, bytes) : NULL;
    memory->d_relu = block->slot[0] >= 0 ? take(slab, n_trained * full, bytes) : NULL;
    memory->winners = block->slot[0] >= 0 && block->has_pool
                          ? take(slab, n_trained * out_length / ES_C8, sizeof(uint16_t))
                          : NULL;
    memory->d_out =
        b < fused->args.net.n_blocks - 1 ? take(slab, n_trained * out_length, bytes) : NULL;
    memory->mean = take(slab, n_instances * channels, sizeof(float));
    memory->inv_std = take(slab, n_instances * channels, sizeof(float));
    memory->norm_sums = take(slab, n_instances * 2 * channels, sizeof(float));
}

static void place_memory(EsFusedStep *fused, Slab *slab) {
    const EsFusedOptions *options = &fused->options;
    EsFusedArguments *args = &fused->args;
    const EsFusedNet *net = &args->net;
    int64_t n_envs = fused->n_envs, batch = options->batch, most_channels = 0;
    int64_t n_instances = ES_MAX(n_envs, options->max_instances), n_trained = n_envs * batch;
    int64_t n_held = ES_MAX(n_trained, options->max_instances * options->max_evaluated);
    for (int b = 0; b < net->n_blocks; b++) {
        place_block(fused, slab, b, n_trained, n_held, n_instances);
        most_channels = ES_MAX(most_channels, net->block[b].out_c8 * ES_C8);
        args->n_chunks[b] = (int32_t)count_chunks(batch, fused->training.backward[b]);
        args->weight_partials[b] =
            take(slab, n_envs * args->n_chunks[b] * es_fused_partial_length(net, b), sizeof(float));
    }
    args->n_chunks[net->n_blocks] = (int32_t)count_chunks(batch, fused->training.classifier);
    args->weight_partials[net->n_blocks] = take(
        slab, n_envs * args->n_chunks[net->n_blocks] * es_fused_partial_length(net, net->n_blocks),
        sizeof(float));
    for (int s = 0; s < net->n_slots; s++) {
        args->n_seed_chunks[s] = (int32_t)count_chunks(batch, fused->training.seed_backward[s]);
        args->seed_partials[s] = take(
            slab, n_envs * args->n_seed_chunks[s] * es_fused_seed_partial_length(&net->place[s]),
            sizeof(float));
    }
    const EsFusedBlock *last = &net->block[net->n_blocks - 1];
    args->d_features = take(slab, n_trained * last->out_c8 * ES_C8, sizeof(float));
    args->packed = take(slab, n_envs * net->packed_bytes, 1);
    args->seed_packed = take(slab, n_envs * net->seed_packed_bytes, 1);
    args->counters = take(slab, n_instances, sizeof(int32_t));
    fused->sharing.leader =
        take(slab, (net->n_slots + 1) * options->max_instances, sizeof(int32_t));
    int64_t n_points = net->n_blocks + net->n_slots;
    fused->sharing.listed = take(slab, n_points * options->max_instances, sizeof(int32_t));
    fused->sharing.first = take(slab, n_envs, sizeof(int32_t));
    args->norm_partials = take(slab, n_trained * 2 * most_channels, sizeof(float));
    args->loss_partials = take(slab, n_held * 3, sizeof(float));
    args->samples = take(slab, n_trained, sizeof(EsFusedSample));
}

static EsStatus create_results(EsFusedStep *fused, int64_t n_instances, EsFusedResults *results) {
    EsDevice *device = fused->device;
    ES_TRY(es_device_create_tensor(device, ES_DTYPE_F32, 1, &n_instances, &results->loss));
    ES_TRY(es_device_create_tensor(device, ES_DTYPE_I32, 1, &n_instances, &results->n_correct));
    return es_device_create_tensor(device, ES_DTYPE_I32, 1, &n_instances, &results->n_invalid);
}

static void fill_arguments(EsFusedStep *fused) {
    const EsFusedOptions *options = &fused->options;
    const EsGrowthModel *model = options->model;
    const EsDataset *dataset = model->dataset;
    EsFusedArguments *args = &fused->args;
    args->n_envs = fused->n_envs;
    args->images = options->images.data;
    args->labels = options->labels.data;
    args->episode = options->episode.data;
    args->order = es_growth_order(model);
    args->is_tf32 = options->is_tf32;
    args->gather = es_recipe_gather(&model->recipe, model->seed);
    args->smoothing = model->recipe.smoothing;
    for (int c = 0; c < dataset->n_channels; c++) {
        args->gather.mean[c] = dataset->mean[c];
        args->gather.inv_std[c] = 1.0f / dataset->std[c];
    }
    args->parameters = options->store->parameters.data;
    args->gradients = options->store->gradients.data;
    args->states = options->store->states.data;
    args->parameter_stride = options->store->parameters.stride[0];
    args->state_stride = options->store->states.stride[0];
}

static EsStatus create_partials(EsFusedStep *fused) {
    const EsFusedOptions *options = &fused->options;
    EsFusedNet *net = &fused->args.net;
    ES_TRY(describe_net(options->model, net));
    es_fused_pack_layout(net, options->precision);
    for (int s = 0; s < net->n_slots; s++) {
        net->place[s].packed = net->seed_packed_bytes;
        net->seed_packed_bytes +=
            (int64_t)es_fused_seed_packed_bytes(&net->place[s], options->precision);
    }
    ES_TRY(choose_chunks(net, options->precision, fused->device, fused->n_envs, fused->n_envs,
                         options->batch, &fused->training));
    ES_TRY(choose_chunks(net, options->precision, fused->device, options->max_instances,
                         fused->n_envs, options->max_evaluated, &fused->evaluation));
    fill_arguments(fused);
    Slab slab = {NULL, 0};
    place_memory(fused, &slab);
    fused->slab_bytes = slab.used;
    ES_TRY(es_device_allocate(fused->device, slab.used, &fused->slab));
    slab = (Slab){fused->slab, 0};
    place_memory(fused, &slab);
    ES_TRY(create_results(fused, fused->n_envs, &fused->trained));
    return create_results(fused, options->max_instances, &fused->evaluated);
}

EsStatus es_fused_step_create(const EsFusedOptions *options, EsFusedStep **fused_out) {
    *fused_out = NULL;
    ES_ASSERT(options->batch > 0 && options->max_instances > 0 && options->max_evaluated > 0);
    EsFusedStep *fused = NULL;
    ES_TRY(es_allocate(sizeof *fused, (void **)&fused));
    fused->options = *options;
    fused->device = options->store->device;
    fused->n_envs = options->store->parameters.dim[0];
    EsStatus status = create_partials(fused);
    if (status != ES_STATUS_OK) {
        es_fused_step_destroy(fused);
        return status;
    }
    *fused_out = fused;
    return ES_STATUS_OK;
}

static void destroy_results(EsFusedResults *results) {
    es_device_destroy_tensor(&results->loss);
    es_device_destroy_tensor(&results->n_correct);
    es_device_destroy_tensor(&results->n_invalid);
}

void es_fused_step_destroy(EsFusedStep *fused) {
    if (fused == NULL) {
        return;
    }
    es_device_release(fused->device, fused->slab);
    destroy_results(&fused->trained);
    destroy_results(&fused->evaluated);
    es_release(fused);
}

// --- runs ---

static void set_results(EsFusedArguments *args, const EsFusedResults *results) {
    args->loss = results->loss.data;
    args->n_correct = results->n_correct.data;
    args->n_invalid = results->n_invalid.data;
}

static void run_forward(EsFusedStep *fused, EsStream *stream, const EsFusedArguments *args,
                        const Chunks *chunks) {
    EsDtype precision = fused->options.precision;
    for (int b = 0; b < args->net.n_blocks; b++) {
        es_fused_forward(stream, precision, args, b, chunks->forward[b]);
        for (int k = 0; k < 2; k++) {
            int s = args->net.block[b].slot[k];
            if (s >= 0) {
                es_fused_seed_forward(stream, precision, args, s, chunks->seed_forward[s]);
            }
        }
    }
    es_fused_classifier(stream, precision, args, chunks->classifier);
}

static void run_backward(EsFusedStep *fused, EsStream *stream, const EsFusedArguments *args) {
    const Chunks *chunks = &fused->training;
    EsDtype precision = fused->options.precision;
    for (int b = args->net.n_blocks - 1; b >= 0; b--) {
        for (int k = 1; k >= 0; k--) {
            int s = args->net.block[b].slot[k];
            if (s >= 0) {
                es_fused_seed_backward(stream, precision, args, s, chunks->seed_backward[s]);
            }
        }
        es_fused_backward(stream, precision, args, b, chunks->backward[b]);
    }
    es_fused_reduce(stream, args);
}

void es_fused_step_train(EsFusedStep *fused, EsStream *stream, const EsFusedInstances *instances,
                         const EsFusedBatch *batch) {
    EsFusedArguments args = fused->args;
    ES_ASSERT(instances->n_instances <= fused->n_envs);
    args.instances = *instances;
    args.step = batch->step;
    args.loss_scale = batch->loss_scale;
    args.n_images = (int32_t)fused->options.batch;
    args.instance_images = fused->options.batch;
    args.is_training = 1;
    set_results(&args, &fused->trained);
    es_fused_prepare(stream, fused->options.precision, &args);
    run_forward(fused, stream, &args, &fused->training);
    run_backward(fused, stream, &args);
}

void es_fused_step_evaluate(EsFusedStep *fused, EsStream *stream, const EsFusedInstances *instances,
                            int64_t first_image, int64_t n_images) {
    EsFusedArguments args = fused->args;
    ES_ASSERT(instances->n_instances <= fused->options.max_instances);
    args.instances = *instances;
    args.sharing = fused->sharing;
    args.is_training = 0;
    args.gather.pad = args.gather.flip = 0;
    args.gather.erase = args.smoothing = 0.0f;
    if (fused->options.evaluated != NULL) {
        args.parameters = fused->options.evaluated->parameters.data;
        args.states = fused->options.evaluated->states.data;
    }
    set_results(&args, &fused->evaluated);
    es_fused_share(stream, &args);
    es_fused_prepare(stream, fused->options.precision, &args);
    for (int64_t done = 0; done < n_images;) {
        int64_t n = ES_MIN(n_images - done, fused->options.max_evaluated);
        args.first_image = first_image + done;
        args.n_images = (int32_t)n;
        args.instance_images = n;
        args.adds = done > 0;
        run_forward(fused, stream, &args, &fused->evaluation);
        done += n;
    }
}

EsFusedResults es_fused_step_trained(const EsFusedStep *fused) { return fused->trained; }

EsFusedResults es_fused_step_evaluated(const EsFusedStep *fused) { return fused->evaluated; }

size_t es_fused_step_bytes(const EsFusedStep *fused) { return fused->slab_bytes; }
