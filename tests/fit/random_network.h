// Networks with random weights for tests: CNN and dense hosts of odd and even sizes, and between
// them every blueprint, every blend style, gates, shares below 1, slots before and after pools.
//
//     EsGrownNetwork *network = random_network(3);
#ifndef ES_TEST_RANDOM_NETWORK_H
#define ES_TEST_RANDOM_NETWORK_H

#include "base/random_rules.h"
#include "es_test.h"
#include "fit/grown_network.h"

#define RANDOM_NETWORKS 12

typedef struct RandomHost {
    const char *name;
    int is_dense, n_inputs, size, n_classes, n_blocks;
    EsHostBlock blocks[8]; // channels, kernel, pool; places are all
} RandomHost;

// clang-format off
static const RandomHost random_hosts[RANDOM_NETWORKS] = {
    {"tiny",     0, 1, 16, 10, 2, {{4, 3, 1, 0}, {8, 3, 1, 0}}},
    {"cifar",    0, 3, 32, 10, 3, {{8, 3, 1, 0}, {16, 3, 1, 0}, {32, 3, 1, 0}}},
    {"odd",      0, 3, 15,  5, 3, {{6, 7, 1, 0}, {10, 1, 0, 0}, {7, 5, 1, 0}}},
    {"rows",     1, 13, 1,  3, 2, {{8, 1, 0, 0}, {4, 1, 0, 0}}},
    {"wide",     0, 1, 12,  2, 2, {{64, 3, 1, 0}, {96, 3, 0, 0}}},
    {"narrow",   0, 2,  9, 40, 2, {{1, 1, 0, 0}, {3, 3, 1, 0}}},
    {"deep",     0, 3, 32,  7, 4, {{8, 3, 1, 0}, {8, 3, 0, 0}, {12, 5, 1, 0}, {16, 3, 1, 0}}},
    {"iris",     1, 4, 1,   3, 3, {{8, 1, 0, 0}, {32, 1, 0, 0}, {8, 1, 0, 0}}},
    {"fashion",  0, 1, 28, 10, 3, {{8, 3, 1, 0}, {16, 3, 1, 0}, {24, 3, 0, 0}}},
    {"alpha",    0, 4,  8, 10, 2, {{20, 3, 0, 0}, {32, 1, 1, 0}}},
    {"linear",   1, 5,  1,  4, 0, {{0, 0, 0, 0}}},
    {"column",   1, 1,  1,  2, 8, {{33, 1, 0, 0}, {6, 1, 0, 0}, {24, 1, 0, 0}, {8, 1, 0, 0},
                                   {7, 1, 0, 0}, {16, 1, 0, 0}, {128, 1, 0, 0}, {8, 1, 0, 0}}},
};
// clang-format on

static inline float random_unit(int number, uint32_t stream, uint32_t index) {
    EsRandom4 draw = es_random_draw(77, (uint32_t)number, ES_PURPOSE_ACTION, stream, index);
    return (float)(draw.word[0] >> 8) / (float)(1 << 24);
}

// Weights as large as those of trained networks, statistics about 1.
static inline float random_weight(const EsValue *value, int number, EsValueId v, int64_t i) {
    float unit = random_unit(number, 100 + (uint32_t)v, (uint32_t)i), sign = 2 * unit - 1;
    if (strstr(value->name, "running_variance") != NULL) {
        return 0.25f + unit;
    }
    if (strstr(value->name, "gamma") != NULL) {
        return sign < -0.7f ? sign : 0.5f + unit;
    }
    if (value->rank == 2) { // biases, betas, running means, mixes
        return 0.5f * sign;
    }
    int64_t fan_in = es_value_count(value) / value->dim[1];
    return 1.7f * sign / sqrtf((float)fan_in);
}

static inline void fill_weights(EsGrownNetwork *network, int number) {
    const EsGraph *graph = network->single.graph;
    for (EsValueId v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        if (value->role == ES_ROLE_PARAMETER || value->role == ES_ROLE_STATE) {
            float *weights = (float *)(uintptr_t)es_grown_network_weights(network, v);
            for (int64_t i = 0; i < es_value_count(value); i++) {
                weights[i] = random_weight(value, number, v, i);
            }
        }
    }
}

// The device of all networks of a test, open until its end.
static inline EsDevice *network_device(void) {
    static EsDevice *device;
    if (device == NULL) {
        REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &device));
    }
    return device;
}

// Blueprints of the host's kind take turns.
static inline EsBlueprint random_blueprint(const RandomHost *host, int turn) {
    static const EsBlueprint dense[] = {ES_BLUEPRINT_MLP, ES_BLUEPRINT_NORM,
                                        ES_BLUEPRINT_MLP_SMALL};
    return host->is_dense ? dense[turn % 3] : (EsBlueprint)(turn % ES_BLUEPRINT_COUNT);
}

static inline EsGrownNetwork *random_network(int number) {
    const RandomHost *from = &random_hosts[number];
    EsGrownSpec spec = {.host = {.name = from->name,
                                 .dataset = "",
                                 .image_channels = from->n_inputs,
                                 .image_size = from->size,
                                 .n_blocks = from->n_blocks,
                                 .n_classes = from->n_classes,
                                 .kind = from->is_dense ? ES_HOST_DENSE : ES_HOST_CNN},
                        .kind = from->is_dense ? ES_INPUT_ROWS : ES_INPUT_IMAGES};
    float mean[16], std[16];
    const char *classes[64];
    static char class_names[64][24];
    for (int i = 0; i < from->n_blocks; i++) {
        spec.host.blocks[i] = from->blocks[i];
        spec.host.blocks[i].places = ES_HOST_BEFORE_POOL | ES_HOST_AFTER_POOL;
    }
    for (int c = 0; c < from->n_inputs; c++) {
        mean[c] =
            from->is_dense ? 10 * random_unit(number, 1, (uint32_t)c) : 0.3f + 0.05f * (float)c;
        std[c] = from->is_dense ? 0.5f + random_unit(number, 2, (uint32_t)c) : 0.25f;
    }
    for (int k = 0; k < from->n_classes; k++) {
        snprintf(class_names[k], sizeof class_names[k], "class %d", k);
        classes[k] = class_names[k];
    }
    spec.mean = mean;
    spec.std = std;
    spec.class_names = classes;
    // every second slot at least holds a seed; blueprints and styles take turns over all networks
    EsSlot slots[2 * ES_SLOTS_MAX];
    int n_slots = es_slots_of(&spec.host, slots), next = 3 * number;
    for (int place = 0; place < 2 * from->n_blocks; place++) {
        for (int s = 0; s < n_slots; s++) {
            if (slots[s].column != place / 2 || slots[s].row != place % 2 ||
                random_unit(number, 3, (uint32_t)place) < 0.2f) {
                continue;
            }
            float share = random_unit(number, 4, (uint32_t)place);
            spec.seeds[spec.n_seeds++] = (EsGrownSeed){.slot = slots[s],
                                                       .blueprint = random_blueprint(from, next),
                                                       .style = (next + next / 8) % 4,
                                                       .alpha = share < 0.5f ? 1.0f : share};
            next++;
        }
    }
    EsGrownNetwork *network = NULL;
    REQUIRE_OK(es_grown_network_create(&spec, network_device(), &network));
    fill_weights(network, number);
    return network;
}

// Plain inputs: pixels are whole numbers, so that they are the same as bytes.
static inline float *random_inputs(const EsGrownNetwork *network, int64_t n) {
    int64_t count = es_grown_network_input_count(network) * n;
    float *inputs = malloc(sizeof *inputs * (size_t)count);
    for (int64_t i = 0; i < count; i++) {
        float unit = random_unit(5, (uint32_t)(i >> 20), (uint32_t)(i & 0xfffff));
        inputs[i] = network->spec.kind == ES_INPUT_IMAGES ? floorf(unit * 255.99f) : 12 * unit - 1;
    }
    return inputs;
}

#endif
