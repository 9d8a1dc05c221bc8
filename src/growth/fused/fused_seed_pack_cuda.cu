// Memory that seeds need besides activations: packed weights, partial sums of gradients, and the
// images that fit a thread block.
#include "growth/fused/fused_seed_layout.cuh"

extern "C" size_t es_fused_seed_packed_bytes(const EsFusedPlace *place, EsDtype precision) {
    size_t most = 0;
    for (int b = 0; b < ES_BLUEPRINT_COUNT; b++) {
        size_t bytes = 0;
        ES_DISPATCH_FUSED(
            precision, T,
            bytes = es_seed_packed_offset<T>(place->n_channels, b, es_seed_tensor_count(b), 0));
        most = ES_MAX(most, bytes);
    }
    return (most + 255) / 256 * 256;
}

extern "C" int es_fused_seed_partial_length(const EsFusedPlace *place) {
    int most = 0;
    for (int b = 0; b < ES_BLUEPRINT_COUNT; b++) {
        most = ES_MAX(most, es_seed_partial_offset(place->n_channels, b, es_seed_tensor_count(b)));
    }
    return most;
}

// --- images per chunk ---

typedef size_t (*BytesFunction)(const EsFusedPlace *place, EsDtype precision, int n_images);

// As many as let most_blocks thread blocks share shared_limit bytes, else fewer blocks; fewer again
// where chunks would leave more than every other multiprocessor idle. 0: not even one image fits.
static int most_images(const EsFusedPlace *place, EsDtype precision, const EsFusedLimits *limits,
                       int most_blocks, BytesFunction bytes_of) {
    for (int n_blocks = most_blocks; n_blocks > 0; n_blocks--) {
        // a block's static shared memory, and the device's own reserve, are up to 2 KB
        size_t limit = limits->shared_limit / (size_t)n_blocks - 2048;
        int n = 0;
        while (n < limits->n_images && bytes_of(place, precision, n + 1) <= limit &&
               (n == 0 ||
                2 * limits->n_instances * es_ceil_div(limits->n_images, n + 1) >= limits->n_sms)) {
            n++;
        }
        if (n > 0) {
            return n;
        }
    }
    return 0;
}

extern "C" EsStatus es_fused_seed_images(const EsFusedPlace *place, EsDtype precision,
                                         const EsFusedLimits *limits, int *forward_images,
                                         int *backward_images) {
    *forward_images =
        most_images(place, precision, limits, ES_SEED_FORWARD_BLOCKS, es_fused_seed_forward_bytes);
    *backward_images = most_images(place, precision, limits, ES_SEED_BACKWARD_BLOCKS,
                                   es_fused_seed_backward_bytes);
    if (*forward_images == 0 || *backward_images == 0) {
        return ES_FAIL(UNSUPPORTED,
                       "a seed on %d maps of %d x %d needs %zu bytes of shared "
                       "memory; a block of "
                       "threads has %zu",
                       (int)place->n_channels, (int)place->size, (int)place->size,
                       es_fused_seed_backward_bytes(place, precision, 1), limits->shared_limit);
    }
    return ES_STATUS_OK;
}
