// Chooses hosts: as wide as the limit of parameters allows, for each shape.
#include "fit/host_choice.h"

#include <stdio.h>
#include <string.h>

#define SMALLEST_SIDE 4 // of the last maps; images below it are not pooled
#define POOLS_MAX     5
#define WIDTH_STEP    0.25 // of the channels of first blocks, before they are rounded
#define WIDTH_MAX     256.0
#define CHANNEL_STEP  4
#define BATCH         128

// An image is halved while more than the smallest side is left.
static int count_pools(int side) {
    int n = 0;
    while (side / 2 >= SMALLEST_SIDE && n < POOLS_MAX) {
        side /= 2;
        n++;
    }
    return n;
}

// Whole vectors of channels are the fastest.
static int round_channels(double width) { return CHANNEL_STEP * (int)(width / CHANNEL_STEP + 0.5); }

// `depth` blocks at each resolution, the last of them with the pool; the first one alone where
// pixels are most. Seeds are put behind pools, and behind every block at the last resolution.
static EsHostSpec make_host(const EsDataset *dataset, const char *name, int depth, double width) {
    int n_levels = count_pools(dataset->height) + 1;
    EsHostSpec host = {.name = name,
                       .dataset = "",
                       .image_channels = dataset->n_channels,
                       .image_size = dataset->height,
                       .base = round_channels(width),
                       .kernel = 3,
                       .n_classes = dataset->n_classes,
                       .batch = BATCH};
    for (int level = 0; level < n_levels; level++) {
        int n_here = level == 0 && n_levels > 1 ? 1 : depth;
        for (int i = 0; i < n_here && host.n_blocks < ES_HOST_BLOCKS_MAX; i++) {
            int has_pool = level + 1 < n_levels && i + 1 == n_here;
            host.blocks[host.n_blocks++] =
                (EsHostBlock){.n_channels = round_channels(width * (double)(1 << level)),
                              .kernel = 3,
                              .has_pool = has_pool,
                              .places = has_pool                ? ES_HOST_AFTER_POOL
                                        : level + 1 == n_levels ? ES_HOST_BEFORE_POOL
                                                                : 0};
            host.n_pools += has_pool;
        }
    }
    if (host.n_blocks < 2) { // a host has two at least
        host.blocks[1] = host.blocks[0];
        host.n_blocks = 2;
    }
    return host;
}

// The widest host of a shape within the limit; its n_blocks is 0 when there is none.
static EsHostSpec widest_host(const EsDataset *dataset, const char *name, int depth, double limit) {
    EsHostSpec best = {.n_blocks = 0};
    for (double width = CHANNEL_STEP; width <= WIDTH_MAX; width += WIDTH_STEP) {
        EsHostSpec host = make_host(dataset, name, depth, width);
        if ((double)es_host_parameter_count(&host) <= limit) {
            best = host;
        }
    }
    return best;
}

// "12, 24 and 48 channels"
static void print_channels(FILE *text, const EsHostSpec *host) {
    for (int i = 0; i < host->n_blocks; i++) {
        fprintf(text, "%s%d",
                i == 0                   ? ""
                : i + 1 < host->n_blocks ? ", "
                                         : " and ",
                es_host_block(host, i).n_channels);
    }
    fputs(" channels", text);
}

static EsStatus explain(const EsDataset *dataset, int64_t max_parameters, EsHostChoice *choice) {
    FILE *text = fmemopen(choice->reason, sizeof choice->reason, "w");
    if (text == NULL) {
        return ES_FAIL(MEMORY, "no memory for the choice of hosts");
    }
    fprintf(text, "Images of %d x %d x %d, %d classes, at most %lld parameters:", dataset->width,
            dataset->height, dataset->n_channels, dataset->n_classes, (long long)max_parameters);
    for (int i = 0; i < choice->n_hosts; i++) {
        const EsHostSpec *host = &choice->hosts[i];
        int side = host->image_size >> host->n_pools;
        int64_t count = es_host_parameter_count(host);
        fprintf(text, "%s host \"%s\" has %d blocks of 3x3 convolutions with ", i > 0 ? ";" : "",
                host->name, host->n_blocks);
        print_channels(text, host);
        fprintf(text, ", pooled to %d x %d, %lld parameters, which leaves %lld to seeds", side,
                side, (long long)count, (long long)(max_parameters - count));
    }
    fputs(".", text);
    fclose(text);
    return ES_STATUS_OK;
}

EsStatus es_host_choose(const EsDataset *dataset, int64_t max_parameters, double share,
                        EsHostChoice *choice) {
    static const struct {
        const char *name;
        int depth;
    } shapes[ES_HOST_SHAPES] = {{"wide", 1}, {"deep", 2}};
    memset(choice, 0, sizeof *choice);
    for (int i = 0; i < ES_HOST_SHAPES; i++) {
        EsHostSpec host =
            widest_host(dataset, shapes[i].name, shapes[i].depth, share * (double)max_parameters);
        if (host.n_blocks > 0) {
            choice->hosts[choice->n_hosts++] = host;
        }
    }
    if (choice->n_hosts == 0) {
        EsHostSpec smallest = make_host(dataset, shapes[0].name, 1, CHANNEL_STEP);
        return ES_FAIL(ARGUMENT,
                       "--max-params %lld is too small for images of %d x %d and %d classes: the "
                       "smallest host has %lld, and %.0f %% of the parameters are the host's",
                       (long long)max_parameters, dataset->width, dataset->height,
                       dataset->n_classes, (long long)es_host_parameter_count(&smallest),
                       100 * share);
    }
    return explain(dataset, max_parameters, choice);
}
