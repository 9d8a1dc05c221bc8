// Maps of the vector engine for its tests: allocation, random contents, and access by (channel,
// row, column, lane).
#ifndef LANES_CASE_H
#define LANES_CASE_H

#include "base/memory.h"
#include "es_test.h"
#include "kernels/lanes/lanes.h"
#include "tensor/device.h"

#define MAX_LANES ES_LANES_MAX

typedef struct Map {
    EsLaneMap map;
    float *memory;
    size_t count;
    int halo, n_lanes;
} Map;

// The engine of this width, or NULL where this machine cannot run it.
static const EsLaneKernels *engine(int n_lanes) {
    EsDevice *device = NULL;
    EsDeviceOptions options = {.n_threads = 1, .n_lanes = n_lanes};
    EsStatus status = es_device_open("cpu", &options, &device);
    es_device_close(device);
    return status == ES_STATUS_OK ? es_lane_kernels(n_lanes) : NULL;
}

static uint64_t random_state = 1;

static double uniform(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(random_state >> 11) / 9007199254740992.0;
}

// about normal
static float normal(double mean, double deviation) {
    double sum = -6.0;
    for (int i = 0; i < 12; i++) {
        sum += uniform();
    }
    return (float)(mean + deviation * sum);
}

static float *aligned_floats(size_t count) {
    float *memory = NULL;
    REQUIRE_OK(es_allocate(ES_MAX(count, 1) * sizeof(float), (void **)&memory));
    return memory;
}

static Map make_map(int n_lanes, int channels, int height, int width, int halo) {
    Map m = {.halo = halo, .n_lanes = n_lanes};
    m.map.channels = channels;
    m.map.height = height;
    m.map.width = width;
    m.map.row = (ptrdiff_t)(width + 2 * halo) * n_lanes;
    m.map.plane = (ptrdiff_t)(height + 2 * halo) * m.map.row;
    m.count = (size_t)(channels * m.map.plane);
    m.memory = aligned_floats(m.count);
    m.map.data = m.memory + halo * m.map.row + halo * n_lanes;
    return m;
}

static float *at(const Map *m, int c, int r, int k, int lane) {
    return m->map.data + c * m->map.plane + r * m->map.row + k * m->n_lanes + lane;
}

#define FOR_EACH_ELEMENT(m)                                                                        \
    for (int c = 0; c < (m)->map.channels; c++)                                                    \
        for (int r = 0; r < (m)->map.height; r++)                                                  \
            for (int k = 0; k < (m)->map.width; k++)                                               \
                for (int lane = 0; lane < (m)->n_lanes; lane++)

static void fill_map(Map *m, double mean, double deviation) {
    FOR_EACH_ELEMENT(m) { *at(m, c, r, k, lane) = normal(mean, deviation); }
}

// The border of a map must stay zero: convolutions read it.
static void expect_clean_border(const Map *m, const char *what) {
    int n_dirty = 0;
    for (size_t i = 0; i < m->count; i++) {
        ptrdiff_t in_plane = (ptrdiff_t)i % m->map.plane;
        int r = (int)(in_plane / m->map.row) - m->halo;
        int k = (int)(in_plane % m->map.row) / m->n_lanes - m->halo;
        int is_inside = r >= 0 && r < m->map.height && k >= 0 && k < m->map.width;
        n_dirty += !is_inside && m->memory[i] != 0.0f;
    }
    if (n_dirty != 0) {
        ES_TEST_FAIL("%s: %d elements of the border were written", what, n_dirty);
    }
}

// Error and size of a tensor, by norm.
typedef struct Distance {
    double error, size;
} Distance;

static void add_distance(Distance *d, double actual, double expected) {
    d->error += (actual - expected) * (actual - expected);
    d->size += expected * expected;
}

static void expect_close(Distance d, double bound, const char *what) {
    double relative = sqrt(d.error / (d.size > 0.0 ? d.size : 1.0));
    if (!(relative <= bound)) {
        ES_TEST_FAIL("%s: relative error %.3g, bound %.3g", what, relative, bound);
    }
}

#endif
