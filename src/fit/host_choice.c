// Chooses hosts, as wide as the limit of parameters allows for each shape; enlarges them, and
// plants topologies in them.
#include "fit/host_choice.h"

#include <stdio.h>
#include <string.h>

#include "base/random_rules.h"

#define SMALLEST_SIDE 4 // of the last maps; images below it are not pooled
#define POOLS_MAX     5
#define WIDTH_STEP    0.25 // of the channels of first blocks, before they are rounded
#define WIDTH_MAX     256.0
#define LAYER_MAX     64.0 // width of a dense host's layers
#define CHANNEL_STEP  4
#define BATCH         128

// A shape of hosts: blocks at each resolution or layers, and its share of the parameters; it is as
// wide as `width_share` allows, and deepened up to `share`.
typedef struct Shape {
    const char *name;
    int depth;
    double width_share, share;
} Shape;

static const Shape image_shapes[] = {{"deepest", 1, 0.4, 0.95},
                                     {"deep", 2, 0.95, 0.95},
                                     {"small deep", 2, 0.6, 0.6},
                                     {"wide", 1, 0.95, 0.95},
                                     {"small wide", 1, 0.6, 0.6}};
static const Shape row_shapes[] = {{"one layer", 1, 0.6, 0.6}, {"two layers", 2, 0.6, 0.6}};
_Static_assert(ES_COUNT_OF(image_shapes) <= ES_HOST_SHAPES, "every shape has a place");

// --- one host ---

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
static int round_channels(double width) {
    return ES_MAX(CHANNEL_STEP * (int)(width / CHANNEL_STEP + 0.5), CHANNEL_STEP);
}

static void add_block(EsHostSpec *host, double width, int has_pool, int places) {
    if (host->n_blocks < ES_HOST_BLOCKS_MAX) {
        host->blocks[host->n_blocks++] = (EsHostBlock){.n_channels = round_channels(width),
                                                       .kernel = host->kernel,
                                                       .has_pool = has_pool,
                                                       .places = places};
        host->n_pools += has_pool;
    }
}

// `depth` blocks at each resolution, the last of them with the pool; one alone where pixels are
// most. Seeds are put behind pools, and behind every block at the last resolution.
static void add_blocks(EsHostSpec *host, int depth, double width) {
    int n_levels = count_pools(host->image_size) + 1;
    for (int level = 0; level < n_levels; level++) {
        int n_here = level == 0 && n_levels > 1 ? 1 : depth, is_last = level + 1 == n_levels;
        for (int i = 0; i < n_here; i++) {
            int has_pool = !is_last && i + 1 == n_here;
            int places = has_pool ? ES_HOST_AFTER_POOL : is_last ? ES_HOST_BEFORE_POOL : 0;
            add_block(host, width * (double)(1 << level), has_pool, places);
        }
    }
    if (host->n_blocks < 2) { // a host for images has two at least
        add_block(host, width, 0, ES_HOST_BEFORE_POOL);
    }
}

static EsHostSpec make_host(const EsDataset *dataset, const Shape *shape, double width) {
    int is_rows = dataset->kind == ES_DATASET_ROWS;
    EsHostSpec host = {.name = shape->name,
                       .dataset = "",
                       .kind = is_rows ? ES_HOST_DENSE : ES_HOST_CNN,
                       .image_channels = dataset->n_channels,
                       .image_size = dataset->height,
                       .base = round_channels(width),
                       .kernel = is_rows ? 1 : 3,
                       .n_classes = dataset->n_classes,
                       .batch = BATCH};
    if (!is_rows) {
        add_blocks(&host, shape->depth, width);
    }
    for (int i = 0; is_rows && i < shape->depth; i++) {
        add_block(&host, width, 0, ES_HOST_BEFORE_POOL);
    }
    return host;
}

// The widest host of a shape within its share; its n_blocks is 0 when there is none.
static EsHostSpec widest_host(const EsDataset *dataset, const Shape *shape,
                              int64_t max_parameters) {
    EsHostSpec best = {.n_blocks = 0};
    double most = dataset->kind == ES_DATASET_ROWS ? LAYER_MAX : WIDTH_MAX;
    for (double width = CHANNEL_STEP; width <= most; width += WIDTH_STEP) {
        EsHostSpec host = make_host(dataset, shape, width);
        double count = (double)es_host_parameter_count(&host) / (double)max_parameters;
        int is_narrowest = best.n_blocks == 0 && count <= shape->share;
        best = count <= shape->width_share || is_narrowest ? host : best;
    }
    int is_deepened = best.n_blocks > 0 && shape->share > shape->width_share;
    return is_deepened ? es_host_deepen(&best, (int64_t)(shape->share * (double)max_parameters),
                                        ES_HOST_BLOCKS_MAX)
                       : best;
}

// --- the choice ---

// "12, 24 and 48 channels"
static void print_channels(FILE *text, const EsHostSpec *host) {
    for (int i = 0; i < host->n_blocks; i++) {
        fprintf(text, "%s%d",
                i == 0                   ? ""
                : i + 1 < host->n_blocks ? ", "
                                         : " and ",
                es_host_block(host, i).n_channels);
    }
    fputs(host->kind == ES_HOST_DENSE ? " units" : " channels", text);
}

static void print_host(FILE *text, const EsHostSpec *host, int64_t max_parameters) {
    int side = host->image_size >> host->n_pools;
    int64_t count = es_host_parameter_count(host);
    fprintf(text, " host \"%s\" has ", host->name);
    print_channels(text, host);
    if (host->kind == ES_HOST_CNN) {
        fprintf(text, " in 3x3 convolutions, pooled to %d x %d", side, side);
    }
    fprintf(text, ": %lld parameters, which leaves %lld to seeds", (long long)count,
            (long long)(max_parameters - count));
}

static void describe_samples(const EsDataset *dataset, char *text, size_t bytes) {
    if (dataset->kind == ES_DATASET_ROWS) {
        snprintf(text, bytes, "rows of %d columns", dataset->n_channels);
    } else {
        snprintf(text, bytes, "images of %d x %d x %d", dataset->width, dataset->height,
                 dataset->n_channels);
    }
}

static EsStatus explain(const EsDataset *dataset, int64_t max_parameters, EsHostChoice *choice) {
    FILE *text = fmemopen(choice->reason, sizeof choice->reason, "w");
    if (text == NULL) {
        return ES_FAIL(MEMORY, "no memory for the choice of hosts");
    }
    char data[64];
    describe_samples(dataset, data, sizeof data);
    fprintf(text, "For %s, %d classes and at most %lld parameters:", data, dataset->n_classes,
            (long long)max_parameters);
    for (int i = 0; i < choice->n_hosts; i++) {
        fputs(i > 0 ? ";" : "", text);
        print_host(text, &choice->hosts[i], max_parameters);
    }
    fputs(".", text);
    fclose(text);
    return ES_STATUS_OK;
}

EsStatus es_host_choose(const EsDataset *dataset, int64_t max_parameters, EsHostChoice *choice) {
    int is_rows = dataset->kind == ES_DATASET_ROWS;
    const Shape *shapes = is_rows ? row_shapes : image_shapes;
    int n_shapes = is_rows ? (int)ES_COUNT_OF(row_shapes) : (int)ES_COUNT_OF(image_shapes);
    memset(choice, 0, sizeof *choice);
    for (int i = 0; i < n_shapes; i++) {
        EsHostSpec host = widest_host(dataset, &shapes[i], max_parameters);
        if (host.n_blocks > 0) {
            choice->hosts[choice->n_hosts++] = host;
        }
    }
    if (choice->n_hosts == 0) {
        const Shape *shape = &shapes[is_rows ? 0 : 3]; // the one that takes the least
        EsHostSpec smallest = make_host(dataset, shape, CHANNEL_STEP);
        int64_t count = es_host_parameter_count(&smallest);
        char data[64];
        describe_samples(dataset, data, sizeof data);
        return ES_FAIL(
            ARGUMENT,
            "--max-params %lld is too small for %s and %d classes: the smallest host has "
            "%lld parameters and needs a limit of %lld",
            (long long)max_parameters, data, dataset->n_classes, (long long)count,
            (long long)((double)count / shape->share) + 1);
    }
    return explain(dataset, max_parameters, choice);
}

// --- larger hosts ---

// The host described block by block, whichever way it was.
static EsHostSpec describe_blocks(const EsHostSpec *host) {
    EsHostSpec described = *host;
    described.text = NULL; // the host's own
    for (int i = 0; i < host->n_blocks; i++) {
        described.blocks[i] = es_host_block(host, i);
    }
    return described;
}

EsHostSpec es_host_widen(const EsHostSpec *host, int64_t max_parameters) {
    EsHostSpec best = describe_blocks(host);
    for (double factor = 1; factor < 16; factor += 1.0 / 64) {
        EsHostSpec wider = describe_blocks(host);
        for (int i = 0; i < wider.n_blocks; i++) {
            int n = (int)(factor * wider.blocks[i].n_channels);
            wider.blocks[i].n_channels = ES_MIN(n, ES_HOST_CHANNELS_MAX);
        }
        if (es_host_parameter_count(&wider) <= max_parameters) {
            best = wider;
        }
    }
    return best;
}

// Block i twice: the second one has the pool and the places.
static EsHostSpec repeat_block(const EsHostSpec *host, int i) {
    EsHostSpec deeper = *host;
    memmove(&deeper.blocks[i + 1], &host->blocks[i],
            sizeof *host->blocks * (size_t)(host->n_blocks - i));
    deeper.blocks[i].has_pool = 0;
    deeper.blocks[i].places = 0;
    deeper.n_blocks++;
    return deeper;
}

// Blocks are repeated from the last to the first, around, while there are parameters left.
EsHostSpec es_host_deepen(const EsHostSpec *host, int64_t max_parameters, int max_blocks) {
    EsHostSpec best = describe_blocks(host);
    int at = best.n_blocks - 1, n_refused = 0;
    while (best.n_blocks > 0 && best.n_blocks < max_blocks && n_refused < best.n_blocks) {
        EsHostSpec deeper = repeat_block(&best, at);
        int fits = es_host_parameter_count(&deeper) <= max_parameters;
        n_refused = fits ? 0 : n_refused + 1;
        best = fits ? deeper : best;
        at = at > 0 ? at - 1 : best.n_blocks - 1;
    }
    return best;
}

// --- topologies ---

EsStatus es_fit_topology_of(EsFitTopology *topology, const EsGrownSpec *spec, const EsSlot *slots,
                            int n_slots) {
    *topology = (EsFitTopology){.n_seeds = spec->n_seeds};
    for (int k = 0; k < spec->n_seeds; k++) {
        const EsGrownSeed *seed = &spec->seeds[k];
        int slot = es_slot_at(slots, n_slots, seed->slot.column, seed->slot.row == 1);
        if (slot < 0) {
            return ES_FAIL(INPUT, "the network has a seed in slot %s, which its host lacks",
                           seed->slot.name);
        }
        topology->seeds[k].slot = slot;
        topology->seeds[k].blueprint = (int)seed->blueprint;
        topology->seeds[k].style = seed->style;
    }
    return ES_STATUS_OK;
}

// The k-th blueprint of a set, counted around.
static int pick_blueprint(int32_t blueprints, uint32_t k) {
    int legal[ES_N_BLUEPRINT_IDS], n = 0;
    for (int b = 0; b < ES_N_BLUEPRINT_IDS; b++) {
        if ((blueprints >> b) & 1) {
            legal[n++] = b;
        }
    }
    return legal[k % (uint32_t)n];
}

void es_fit_topology_draw(EsFitTopology *topology, const EsHostSpec *host, const EsSlot *slots,
                          int n_slots, int64_t max_parameters, uint64_t seed, uint32_t number) {
    int64_t left = max_parameters - es_host_parameter_count(host);
    int32_t blueprints = es_slots_blueprints(host) & ES_BLUEPRINTS_ALL;
    memset(topology, 0, sizeof *topology);
    for (int s = 0; s < n_slots; s++) {
        EsRandom4 draw = es_random_draw(seed, number, ES_PURPOSE_EVALUATION, (uint32_t)s, 0);
        int blueprint = pick_blueprint(blueprints, draw.word[1]);
        int64_t n = es_blueprint_parameter_count((EsBlueprint)blueprint, slots[s].n_channels);
        if (draw.word[0] % 2 == 0 && n <= left) {
            left -= n;
            topology->seeds[topology->n_seeds].slot = s;
            topology->seeds[topology->n_seeds].blueprint = blueprint;
            topology->seeds[topology->n_seeds++].style = ES_STYLE_SIGMOID_ADD;
        }
    }
}

EsStatus es_fit_topology_plant(const EsFitTopology *topology, EsGrowth *growth, int64_t env) {
    for (int k = 0; k < topology->n_seeds; k++) {
        ES_TRY(es_growth_plant(growth, env, topology->seeds[k].slot, topology->seeds[k].blueprint,
                               topology->seeds[k].style));
    }
    return ES_STATUS_OK;
}
