// The presets, and the graph of a host block by block.
#include "growth/host/host.h"

#include <stdio.h>
#include <string.h>

#include "growth/host/blueprint.h"

// name, data set, image channels and size, base, kernel, blocks, pools, classes, batch; kind
static const EsHostSpec presets[] = {
    {"tiny", "tiny", 1, 16, 4, 3, 2, 2, 10, 64, {{0}}, NULL, 0, 0, ES_HOST_CNN},
    {"cifar_baseline", "generated", 3, 32, 8, 3, 3, 3, 10, 128, {{0}}, NULL, 0, 0, ES_HOST_CNN},
    {"cifar_scale", "generated", 3, 32, 8, 3, 5, 5, 10, 128, {{0}}, NULL, 0, 0, ES_HOST_CNN},
    {"cifar_impaired", "generated", 3, 32, 1, 1, 3, 3, 10, 128, {{0}}, NULL, 0, 0, ES_HOST_CNN},
    {"cifar_minimal", "generated", 3, 32, 2, 1, 3, 0, 10, 128, {{0}}, NULL, 0, 0, ES_HOST_CNN},
    {"cifar_multichannel", "generated", 3, 32, 8, 3, 3, 3, 10, 128, {{0}}, NULL, 0, 0, ES_HOST_CNN},
    {"cifar_postpool", "generated", 3, 32, 16, 3, 3, 3, 10, 128, {{0}}, NULL, 0, 0, ES_HOST_CNN},
    {"cifar_highres", "generated", 3, 32, 16, 3, 3, 3, 10, 128, {{0}}, NULL, 0, 0, ES_HOST_CNN},
    {"cifar_deep_multichannel",
     "generated",
     3,
     32,
     8,
     3,
     5,
     5,
     10,
     128,
     {{0}},
     NULL,
     0,
     0,
     ES_HOST_CNN},
    {"cifar_deep_impaired",
     "generated",
     3,
     32,
     2,
     1,
     5,
     5,
     10,
     128,
     {{0}},
     NULL,
     0,
     0,
     ES_HOST_CNN},
    {"dense", "", 1, 1, 32, 1, 2, 0, 10, 32, {{0}}, NULL, 0, 0, ES_HOST_DENSE},
};

int es_host_preset_count(void) { return (int)ES_COUNT_OF(presets); }

const EsHostSpec *es_host_preset_at(int i) { return &presets[i]; }

EsStatus es_host_preset(const char *name, EsHostSpec *spec) {
    char names[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < ES_COUNT_OF(presets); i++) {
        if (strcmp(name, presets[i].name) == 0) {
            *spec = presets[i];
            return ES_STATUS_OK;
        }
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                                 presets[i].name);
    }
    return ES_FAIL(ARGUMENT, "no host is called \"%s\"; there are %s", name, names);
}

EsHostBlock es_host_block(const EsHostSpec *spec, int i) {
    EsHostBlock block = spec->blocks[i];
    if (block.n_channels == 0) {
        block = (EsHostBlock){.n_channels = spec->base << i,
                              .kernel = spec->kernel,
                              .has_pool = i < spec->n_pools,
                              .places = ES_HOST_BEFORE_POOL | ES_HOST_AFTER_POOL};
    }
    block.places &= block.has_pool ? ES_HOST_BEFORE_POOL | ES_HOST_AFTER_POOL : ES_HOST_BEFORE_POOL;
    return block;
}

// Layers alone, of rows alone.
static EsStatus check_dense(const EsHostSpec *spec) {
    for (int i = 0; i < spec->n_blocks; i++) {
        const EsHostBlock layer = es_host_block(spec, i);
        if (layer.kernel != 1 || layer.has_pool) {
            return ES_FAIL(
                ARGUMENT,
                "host \"%s\": layer %d of a dense host has a kernel of %d%s; layers have "
                "a kernel of 1 and no pool",
                spec->name, i, layer.kernel, layer.has_pool ? " and a pool" : "");
        }
    }
    if (spec->image_size != 1) {
        return ES_FAIL(ARGUMENT, "host \"%s\": a dense host takes rows, not images of %d x %d",
                       spec->name, spec->image_size, spec->image_size);
    }
    return ES_STATUS_OK;
}

static EsStatus check_block(const EsHostSpec *spec, int i) {
    const EsHostBlock *block = &spec->blocks[i];
    if (block->n_channels < 0 || block->n_channels > ES_HOST_CHANNELS_MAX) {
        return ES_FAIL(ARGUMENT, "host \"%s\": block %d has %d channels, must be 1..%d", spec->name,
                       i, block->n_channels, ES_HOST_CHANNELS_MAX);
    }
    int kernel = es_host_block(spec, i).kernel;
    if (kernel < 1 || kernel > 7 || kernel % 2 == 0) {
        return ES_FAIL(ARGUMENT, "host \"%s\": kernel size %d is not 1, 3, 5 or 7", spec->name,
                       kernel);
    }
    return ES_STATUS_OK;
}

EsStatus es_host_check(const EsHostSpec *spec) {
    int is_dense = spec->kind == ES_HOST_DENSE, least = is_dense ? 0 : 2;
    int follows_base = 0, n_pools = 0;
    if (spec->n_blocks < least || spec->n_blocks > ES_HOST_BLOCKS_MAX) {
        return ES_FAIL(ARGUMENT, "host \"%s\": %d %s, must be %d..%d", spec->name, spec->n_blocks,
                       is_dense ? "layers" : "blocks", least, ES_HOST_BLOCKS_MAX);
    }
    for (int i = 0; i < spec->n_blocks; i++) {
        follows_base |= spec->blocks[i].n_channels == 0;
    }
    if (follows_base && (spec->base < 1 || spec->base > 1024)) {
        return ES_FAIL(ARGUMENT, "host \"%s\": blocks from %d channels on, must be 1..1024",
                       spec->name, spec->base);
    }
    if (follows_base && (spec->n_pools < 0 || spec->n_pools > spec->n_blocks)) {
        return ES_FAIL(ARGUMENT, "host \"%s\": %d pools for %d blocks; a block has one at most",
                       spec->name, spec->n_pools, spec->n_blocks);
    }
    for (int i = 0; i < spec->n_blocks; i++) {
        ES_TRY(check_block(spec, i));
        n_pools += es_host_block(spec, i).has_pool;
    }
    if (spec->image_size >> n_pools < 1) {
        int n_fitting = 0;
        while (spec->image_size >> (n_fitting + 1) >= 1) {
            n_fitting++;
        }
        return ES_FAIL(ARGUMENT,
                       "host \"%s\": each of %d blocks with a pool halves images of %d x %d; %d of "
                       "them fit",
                       spec->name, n_pools, spec->image_size, spec->image_size, n_fitting);
    }
    return is_dense ? check_dense(spec) : ES_STATUS_OK;
}

int64_t es_host_parameter_count(const EsHostSpec *spec) {
    int64_t n_in = spec->image_channels, count = 0;
    for (int i = 0; i < spec->n_blocks; i++) {
        const EsHostBlock block = es_host_block(spec, i);
        count += n_in * block.n_channels * block.kernel * block.kernel + 2 * block.n_channels;
        n_in = block.n_channels;
    }
    return count + (n_in + 1) * spec->n_classes;
}

double es_host_flops(const EsHostSpec *spec) {
    int64_t n_in = spec->image_channels, side = spec->image_size;
    double count = 0;
    for (int i = 0; i < spec->n_blocks; i++) {
        const EsHostBlock block = es_host_block(spec, i);
        count +=
            2.0 * (double)(side * side * n_in * block.n_channels) * block.kernel * block.kernel;
        n_in = block.n_channels;
        side = block.has_pool ? side / 2 : side;
    }
    return count + 2.0 * (double)(n_in * spec->n_classes);
}

float es_host_norm_epsilon(const EsHostSpec *spec) {
    return spec->kind == ES_HOST_DENSE ? ES_NORM_EPSILON_ROWS : ES_NORM_EPSILON_IMAGES;
}

EsValueId es_host_build(EsGraph *graph, const EsHostSpec *spec, EsValueId images, int is_training) {
    return es_host_build_with(graph, spec, images, is_training, NULL, NULL);
}

EsValueId es_host_build_with(EsGraph *graph, const EsHostSpec *spec, EsValueId images,
                             int is_training, EsHostHook hook, void *context) {
    EsValueId x = images;
    for (int i = 0; i < spec->n_blocks; i++) {
        const EsHostBlock block = es_host_block(spec, i);
        char name[ES_NAME_BYTES];
        snprintf(name, sizeof name, "block%d.conv", i);
        x = es_graph_conv2d(graph, name, x, block.n_channels, block.kernel, 0);
        snprintf(name, sizeof name, "block%d.norm", i);
        x = es_graph_batchnorm(graph, name, x, is_training);
        x = es_graph_activation(graph, ES_ACTIVATION_RELU, x);
        x = hook != NULL ? hook(context, graph, i, 0, x) : x;
        if (block.has_pool) {
            x = es_graph_pool(graph, ES_POOL_MAX2, x);
            x = hook != NULL ? hook(context, graph, i, 1, x) : x;
        }
    }
    return es_graph_linear(graph, "head", es_graph_pool(graph, ES_POOL_GLOBAL, x), spec->n_classes);
}

// --- slots ---

// Parses lists of slots and finds the place of each in a host.

int es_slots_of(const EsHostSpec *host, EsSlot slots[2 * ES_SLOTS_MAX]) {
    int n = 0, n_columns = ES_MIN(host->n_blocks, ES_HOST_BLOCKS_MAX);
    for (int row = 0; row < 2; row++) {
        for (int column = 0; column < n_columns; column++) {
            const EsHostBlock block = es_host_block(host, column);
            if (block.places & (row == 0 ? ES_HOST_BEFORE_POOL : ES_HOST_AFTER_POOL)) {
                EsSlot *slot = &slots[n++];
                *slot = (EsSlot){.row = row, .column = column, .n_channels = block.n_channels};
                snprintf(slot->name, sizeof slot->name, "r%dc%d", row, column);
            }
        }
    }
    return n;
}

static EsStatus fail_name(const EsHostSpec *host, const char *name, size_t length) {
    EsSlot all[2 * ES_SLOTS_MAX];
    char names[256] = "";
    size_t used = 0;
    int n = es_slots_of(host, all);
    if (n == 0) {
        return ES_FAIL(ARGUMENT,
                       "host \"%s\" has no layers and so no slots: nothing can grow in it",
                       host->name);
    }
    for (int i = 0; i < n; i++) {
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                                 all[i].name);
    }
    return ES_FAIL(ARGUMENT, "host \"%s\" has no slot \"%.*s\"; it has %s", host->name,
                   (int)ES_MIN(length, 40), name, names);
}

// Positions in running order: block by block, before the pool first.
static void set_order(EsSlot *slots, int n_slots) {
    for (int i = 0; i < n_slots; i++) {
        slots[i].order = 0;
        for (int k = 0; k < n_slots; k++) {
            slots[i].order +=
                2 * slots[k].column + slots[k].row < 2 * slots[i].column + slots[i].row;
        }
    }
}

EsStatus es_slots_parse(const EsHostSpec *host, const char *names, EsSlot slots[ES_SLOTS_MAX],
                        int *n_slots) {
    EsSlot all[2 * ES_SLOTS_MAX];
    int is_wanted[2 * ES_SLOTS_MAX] = {0};
    int n_all = es_slots_of(host, all), n_wanted = 0;
    int wants_all = strcmp(names, "all") == 0;
    for (const char *at = names; !wants_all && *at != '\0';) {
        size_t length = strcspn(at, ",");
        int found = -1;
        for (int i = 0; i < n_all; i++) {
            if (strlen(all[i].name) == length && strncmp(all[i].name, at, length) == 0) {
                found = i;
            }
        }
        if (found < 0) {
            return fail_name(host, at, length);
        }
        if (is_wanted[found]) {
            return ES_FAIL(ARGUMENT, "slot \"%s\" comes twice in \"%s\"", all[found].name, names);
        }
        is_wanted[found] = 1;
        at += length + (at[length] == ',');
    }
    for (int i = 0; i < n_all; i++) {
        if (!wants_all && !is_wanted[i]) {
            continue;
        }
        if (n_wanted == ES_SLOTS_MAX) {
            return ES_FAIL(ARGUMENT, "\"%s\" are more than %d slots", names, ES_SLOTS_MAX);
        }
        slots[n_wanted++] = all[i];
    }
    if (n_wanted == 0) {
        return ES_FAIL(ARGUMENT, "a list of slots is empty");
    }
    set_order(slots, n_wanted);
    *n_slots = n_wanted;
    return ES_STATUS_OK;
}

int32_t es_slots_blueprints(const EsHostSpec *host) {
    int32_t of_kind = host->kind == ES_HOST_DENSE
                          ? ES_BLUEPRINT_ID_BIT(ES_BLUEPRINT_ID_NORM) |
                                ES_BLUEPRINT_ID_BIT(ES_BLUEPRINT_ID_MLP_SMALL) |
                                ES_BLUEPRINT_ID_BIT(ES_BLUEPRINT_ID_MLP)
                          : ES_BLUEPRINTS_CNN;
    return of_kind | ES_BLUEPRINT_ID_BIT(ES_BLUEPRINT_ID_NOOP);
}

int es_slot_at(const EsSlot *slots, int n_slots, int block, int is_after_pool) {
    for (int i = 0; i < n_slots; i++) {
        if (slots[i].column == block && slots[i].row == is_after_pool) {
            return i;
        }
    }
    return -1;
}
