// Growth on the CPU and on a GPU side by side, for tests: `tiny` hosts on a few images.
#ifndef ES_TEST_DEVICE_CASE_H
#define ES_TEST_DEVICE_CASE_H

#include "growth/cuda/growth_on_device.h"
#include "growth/growing_case.h"

static inline EsSplit split_at(const EsDataset *dataset, int64_t first, int64_t count) {
    uint8_t *images = dataset->images;
    return (EsSplit){images == NULL ? NULL : images + (size_t)first * dataset->image_bytes,
                     dataset->labels + first, count};
}

static inline void split_dataset(EsDataset *dataset, int64_t n_train, int64_t n_validation,
                                 int64_t n_test) {
    dataset->train = split_at(dataset, 0, n_train);
    dataset->validation = split_at(dataset, n_train, n_validation);
    dataset->test = split_at(dataset, n_train + n_validation, n_test);
}

// size x size images of ten classes that differ in a stripe, with noise.
static inline void make_stripes_of(EsDataset *dataset, int size, int64_t n_train,
                                   int64_t n_validation, int64_t n_test) {
    enum { CLASSES = 10 };
    int64_t n = n_train + n_validation + n_test;
    begin_gray_dataset(dataset, "stripes", size, CLASSES, n);
    for (int64_t i = 0; i < n; i++) {
        int label = (int)(i * 7 % 11 % CLASSES);
        dataset->labels[i] = (uint16_t)label;
        for (int p = 0; p < size * size; p++) {
            int line = (label < 5 ? p / size : p % size) * 16 / size;
            float noise = 60.0f * small_draw((uint32_t)(i * size * size + p));
            dataset->images[i * size * size + p] =
                (uint8_t)(110.0f + (line / 3 == label % 5 ? 70.0f : 0.0f) + noise);
        }
    }
    split_dataset(dataset, n_train, n_validation, n_test);
}

// 16 x 16 of them.
static inline void make_stripes(EsDataset *dataset, int64_t n_train, int64_t n_validation,
                                int64_t n_test) {
    make_stripes_of(dataset, 16, n_train, n_validation, n_test);
}

// Batches of 16, two per step, 40 validation images, everything automatic.
static inline EsGrowthOptions stripes_options(const char *slot_names, int64_t n_envs) {
    EsHostSpec host;
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    REQUIRE_OK(es_host_preset("tiny", &host));
    REQUIRE_OK(es_slots_parse(&host, slot_names, slots, &n_slots));
    EsGrowthOptions options = es_growth_defaults(&host, slots, n_slots, n_envs);
    options.settings.auto_forward = ES_AUTO_FORWARD_ALL;
    options.settings.episode_steps = 14;
    options.batch = 16;
    options.step_batches = 2;
    options.n_validation_images = 40;
    options.is_tf32 = 0; // compared with the CPU
    return options;
}

// Growth on the GPU, or NULL where it cannot run: no device, or not in this precision.
static inline EsGrowth *create_on_cuda(EsGrowthOptions options, const EsDataset *dataset) {
    EsGrowth *growth = NULL;
    if (es_device_cuda_count() == 0) {
        return NULL;
    }
    EsStatus status = create_growth_on("cuda", 1, &options, dataset, &growth);
    if (status != ES_STATUS_OK && status != ES_STATUS_UNSUPPORTED) {
        REQUIRE_OK(status);
    }
    return growth;
}

#define SKIP_WITHOUT(growth)                                                                       \
    do {                                                                                           \
        if ((growth) == NULL) {                                                                    \
            destroy_small_dataset(&dataset);                                                       \
            SKIP("no CUDA device that runs this host");                                            \
        }                                                                                          \
    } while (0)

// --- memory of either device ---

static inline void fetch(const EsGrowth *growth, void *to, const void *from, size_t bytes) {
    REQUIRE_OK(es_stream_copy(growth->stream, to, from, bytes, ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(growth->stream));
}

static inline void put(const EsGrowth *growth, void *to, const void *from, size_t bytes) {
    REQUIRE_OK(es_stream_copy(growth->stream, to, from, bytes, ES_COPY_TO_DEVICE));
    REQUIRE_OK(es_stream_synchronize(growth->stream));
}

// A slab in host memory, to be freed.
static inline float *fetch_slab(const EsGrowth *growth, const EsTensor *slab) {
    float *copy = malloc(es_tensor_bytes(slab));
    fetch(growth, copy, slab->data, es_tensor_bytes(slab));
    return copy;
}

enum { N_SLABS = 6 };
static inline void list_slabs(const EsGrowth *growth, const EsTensor *slabs[N_SLABS]) {
    const EsTensor *all[] = {&growth->store->parameters, &growth->store->gradients,
                             &growth->store->states,     &growth->momentum,
                             &growth->saved_parameters,  &growth->saved_states};
    memcpy(slabs, all, sizeof all);
}

// Weights and small state of `from`, on the CPU, into `to`.
static inline void copy_growth(const EsGrowth *from, EsGrowth *to) {
    const EsTensor *theirs[N_SLABS], *ours[N_SLABS];
    list_slabs(from, theirs);
    list_slabs(to, ours);
    for (int i = 0; i < N_SLABS; i++) {
        put(to, ours[i]->data, theirs[i]->data, es_tensor_bytes(ours[i]));
    }
    size_t bytes = es_growth_state_bytes(from->shown.state.n_envs, from->shown.state.n_slots);
    put(to, to->on_device->live, from->slab, bytes);
    memcpy(to->slab, from->slab, bytes);
    put(to, to->episode.data, from->episode_ids, sizeof(int32_t) * (size_t)from->options.n_envs);
}

static inline uint64_t hash_slabs(const EsGrowth *growth) {
    const EsTensor *slabs[N_SLABS];
    uint64_t hash = 14695981039346656037u;
    list_slabs(growth, slabs);
    for (int i = 0; i < N_SLABS; i++) {
        if (i == 1) {
            continue; // gradients: clipping writes them on the CPU alone
        }
        float *copy = fetch_slab(growth, slabs[i]);
        hash = hash_bytes(copy, es_tensor_bytes(slabs[i]), hash);
        free(copy);
    }
    return hash;
}

// The mirror, or the state itself on the CPU.
static inline uint64_t hash_state(const EsGrowth *growth) {
    uint64_t hash = 14695981039346656037u;
    for (int32_t e = 0; e < growth->shown.state.n_envs; e++) {
        for (int32_t s = 0; s < growth->shown.state.n_slots; s++) {
            size_t at = (size_t)e * (size_t)growth->shown.state.n_slots + (size_t)s;
            EsSeed seed = es_seed_load(&growth->shown.state.seed, at);
            hash = hash_bytes(&seed, sizeof seed, hash);
        }
        EsGrowthEnv env = es_growth_env_load(&growth->shown.state.env, (size_t)e);
        hash = hash_bytes(&env, sizeof env, hash);
    }
    return hash;
}

// Hashes the device's own state, not a mirror.
static inline uint64_t hash_device_state(EsGrowth *growth) {
    EsGrowthState mirror = growth->shown.state;
    size_t bytes = es_growth_state_bytes(mirror.n_envs, mirror.n_slots);
    void *copy = malloc(bytes);
    fetch(growth, copy, growth->on_device->live, bytes);
    es_growth_state_bind(&growth->shown.state, copy, mirror.n_envs, mirror.n_slots);
    uint64_t hash = hash_state(growth);
    growth->shown.state = mirror;
    free(copy);
    return hash;
}

static inline void wild_actions(const EsGrowth *growth, uint64_t salt, EsAction *actions) {
    for (int64_t e = 0; e < growth->options.n_envs; e++) {
        actions[e] = wild_action(growth, e, salt);
    }
}

#endif
