// Reads hosts from INI files and opens the data sets that they name.
#include "growth/host/host_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/words.h"
#include "esper/config.h"
#include "esper/log.h"

// No description of a host comes near this.
#define LARGEST_FILE_BYTES (1 << 20)

enum { POOL_NONE, POOL_MAX };

typedef struct BlockSettings {
    int n_channels;
    int kernel; // position in KERNELS
    int pool;
    int before_pool, after_pool;
} BlockSettings;

typedef struct HostSettings {
    char name[48], data[32];
    int kind; // EsHostKind
    char layers[128];
    int image_channels, image_size, n_classes, batch;
    int base, kernel, n_blocks, n_pools, before_pool, after_pool; // of a family
    BlockSettings blocks[ES_HOST_BLOCKS_MAX];
} HostSettings;

#define KERNELS "1|3|5|7"
static const int kernel_sizes[] = {1, 3, 5, 7};

#define BLOCK_KEYS(i)                                                                              \
    ES_CONFIG_INT(HostSettings, blocks[i].n_channels, "block" #i, "channels", "1", 1,              \
                  ES_HOST_CHANNELS_MAX, "channels the block gives"),                               \
        ES_CONFIG_CHOICE(HostSettings, blocks[i].kernel, "block" #i, "kernel", "3", KERNELS,       \
                         "size of the convolution"),                                               \
        ES_CONFIG_CHOICE(HostSettings, blocks[i].pool, "block" #i, "pool", "none", "none|max",     \
                         "max halves height and width"),                                           \
        ES_CONFIG_BOOL(HostSettings, blocks[i].before_pool, "block" #i, "before_pool", "on",       \
                       "seeds may be put after the ReLU (r0c" #i ")"),                             \
        ES_CONFIG_BOOL(HostSettings, blocks[i].after_pool, "block" #i, "after_pool", "off",        \
                       "seeds may be put after the pool (r1c" #i ")")

static const EsConfigKey keys[] = {
    ES_CONFIG_TEXT(HostSettings, name, "host", "name", "", "empty: the file's name"),
    ES_CONFIG_TEXT(HostSettings, data, "host", "data", "",
                   "data set: tiny, generated, cifar10, idx; empty: given elsewhere"),
    ES_CONFIG_CHOICE(HostSettings, kind, "host", "kind", "cnn", "cnn|dense",
                     "cnn for images, dense for rows of numbers"),
    ES_CONFIG_TEXT(HostSettings, layers, "host", "layers", "",
                   "widths of a dense host's layers, with commas; empty: a linear classifier"),
    ES_CONFIG_INT(HostSettings, image_channels, "host", "image_channels", "1", 1, 4,
                  "of the images"),
    ES_CONFIG_INT(HostSettings, image_size, "host", "image_size", "16", 1, 256,
                  "height and width of the images"),
    ES_CONFIG_INT(HostSettings, n_classes, "host", "classes", "10", 2, 256, "outputs"),
    ES_CONFIG_INT(HostSettings, batch, "host", "batch", "64", 1, 65536, "images of an update"),
    ES_CONFIG_INT(HostSettings, base, "host", "base", "4", 1, 1024,
                  "channels of the first block; they double from block to block"),
    ES_CONFIG_CHOICE(HostSettings, kernel, "host", "kernel", "3", KERNELS,
                     "size of every convolution"),
    ES_CONFIG_INT(HostSettings, n_blocks, "host", "blocks", "2", 2, ES_HOST_BLOCKS_MAX, "blocks"),
    ES_CONFIG_INT(HostSettings, n_pools, "host", "pools", "2", 0, ES_HOST_BLOCKS_MAX,
                  "number of first blocks that end in a pool; left out: all"),
    ES_CONFIG_BOOL(HostSettings, before_pool, "host", "before_pool", "on",
                   "seeds may be put after the ReLU of each block (r0c0, r0c1, ...)"),
    ES_CONFIG_BOOL(HostSettings, after_pool, "host", "after_pool", "off",
                   "seeds may be put after each pool (r1c0, r1c1, ...)"),
    BLOCK_KEYS(0),
    BLOCK_KEYS(1),
    BLOCK_KEYS(2),
    BLOCK_KEYS(3),
    BLOCK_KEYS(4),
    BLOCK_KEYS(5),
    BLOCK_KEYS(6),
    BLOCK_KEYS(7),
    BLOCK_KEYS(8),
    BLOCK_KEYS(9),
    BLOCK_KEYS(10),
    BLOCK_KEYS(11),
};

static const char *const sections[] = {"block0", "block1", "block2",  "block3",
                                       "block4", "block5", "block6",  "block7",
                                       "block8", "block9", "block10", "block11"};
_Static_assert(ES_COUNT_OF(sections) == ES_HOST_BLOCKS_MAX, "a section per block");

// A file while its settings become a host.
typedef struct Description {
    const char *file_name; // without folders, for messages
    const char *text;      // the whole file, which es_config_load has accepted
    HostSettings settings;
} Description;

// --- where things stand in the file ---

static size_t trim(const char **start, size_t length) {
    while (length > 0 && (**start == ' ' || **start == '\t')) {
        (*start)++;
        length--;
    }
    while (length > 0 && strchr(" \t\r", (*start)[length - 1]) != NULL) {
        length--;
    }
    return length;
}

static int is_word(const char *start, size_t length, const char *word) {
    length = trim(&start, length);
    return strlen(word) == length && memcmp(start, word, length) == 0;
}

// The line of a key, or with NULL that of the section's heading; 0 when it is not there.
static int line_of(const Description *d, const char *section, const char *key) {
    int line = 0, is_inside = 0;
    for (const char *at = d->text; *at != '\0';) {
        size_t taken = strcspn(at, "\n");
        const char *start = at;
        size_t length = trim(&start, taken);
        line++;
        at += taken + (at[taken] == '\n');
        if (length > 0 && start[0] == '[') {
            is_inside = is_word(start + 1, strcspn(start + 1, "]\n"), section);
            if (is_inside && key == NULL) {
                return line;
            }
        } else if (is_inside && key != NULL && is_word(start, strcspn(start, "=:\n"), key)) {
            return line;
        }
    }
    return 0;
}

static int is_given(const Description *d, const char *section, const char *key) {
    return line_of(d, section, key) > 0;
}

// --- making the host ---

static EsStatus check_data(const Description *d) {
    static const char *const known[] = {"", "tiny", "generated", "cifar10", "idx", "fashion-mnist"};
    EsSpelling spelling = es_spelling_begin(d->settings.data);
    for (size_t i = 0; i < ES_COUNT_OF(known); i++) {
        if (strcmp(d->settings.data, known[i]) == 0) {
            return ES_STATUS_OK;
        }
        es_spelling_offer(&spelling, known[i]);
    }
    const char *nearest = es_spelling_suggestion(&spelling);
    return ES_FAIL(CONFIG,
                   "%s:%d: [host] data: \"%s\" is not one of tiny, generated, cifar10, idx, "
                   "fashion-mnist%s%s%s",
                   d->file_name, line_of(d, "host", "data"), d->settings.data,
                   nearest != NULL ? "; did you mean \"" : "", nearest != NULL ? nearest : "",
                   nearest != NULL ? "\"?" : "");
}

// A family is either complete in [host] or not there: its keys beside [block<i>] contradict them.
static EsStatus check_one_way(const Description *d) {
    static const char *const family[] = {"base",  "kernel",      "blocks",
                                         "pools", "before_pool", "after_pool"};
    for (size_t i = 0; i < ES_COUNT_OF(family); i++) {
        int line = line_of(d, "host", family[i]);
        if (line > 0) {
            return ES_FAIL(CONFIG,
                           "%s:%d: [host] %s describes all blocks, but the file also has [block0] "
                           "and so on; use one of the two",
                           d->file_name, line, family[i]);
        }
    }
    return ES_STATUS_OK;
}

static EsStatus make_block(const Description *d, int i, EsHostBlock *block) {
    const BlockSettings *wanted = &d->settings.blocks[i];
    const char *section = sections[i];
    if (!is_given(d, section, "channels")) {
        return ES_FAIL(CONFIG, "%s:%d: [%s] needs channels", d->file_name,
                       line_of(d, section, NULL), section);
    }
    if (wanted->after_pool && wanted->pool == POOL_NONE) {
        return ES_FAIL(CONFIG, "%s:%d: [%s] after_pool is on, but the block has no pool",
                       d->file_name, line_of(d, section, "after_pool"), section);
    }
    *block = (EsHostBlock){.n_channels = wanted->n_channels,
                           .kernel = kernel_sizes[wanted->kernel],
                           .has_pool = wanted->pool == POOL_MAX,
                           .places = (wanted->before_pool ? ES_HOST_BEFORE_POOL : 0) |
                                     (wanted->after_pool ? ES_HOST_AFTER_POOL : 0)};
    return ES_STATUS_OK;
}

static EsStatus make_described(const Description *d, EsHostSpec *host) {
    ES_TRY(check_one_way(d));
    int n_blocks = 0, last_line = 0;
    for (int i = 0; i < ES_HOST_BLOCKS_MAX; i++) {
        int line = line_of(d, sections[i], NULL);
        if (line == 0) {
            continue;
        }
        if (i > n_blocks) {
            return ES_FAIL(CONFIG, "%s:%d: [%s] is there without [%s]", d->file_name, line,
                           sections[i], sections[n_blocks]);
        }
        ES_TRY(make_block(d, i, &host->blocks[i]));
        host->n_pools += host->blocks[i].has_pool;
        n_blocks++;
        last_line = line;
    }
    if (n_blocks < 2) {
        return ES_FAIL(CONFIG, "%s:%d: one block is too few; a host has 2 to %d", d->file_name,
                       last_line, ES_HOST_BLOCKS_MAX);
    }
    host->n_blocks = n_blocks;
    host->base = host->blocks[0].n_channels;
    host->kernel = host->blocks[0].kernel;
    return ES_STATUS_OK;
}

static EsStatus make_family(const Description *d, EsHostSpec *host) {
    const HostSettings *settings = &d->settings;
    host->base = settings->base;
    host->kernel = kernel_sizes[settings->kernel];
    host->n_blocks = settings->n_blocks;
    host->n_pools = is_given(d, "host", "pools") ? settings->n_pools : settings->n_blocks;
    if (host->n_pools > host->n_blocks) {
        return ES_FAIL(CONFIG, "%s:%d: [host] pools: %d pools in %d blocks", d->file_name,
                       line_of(d, "host", "pools"), host->n_pools, host->n_blocks);
    }
    for (int i = 0; i < host->n_blocks; i++) {
        int64_t n_channels = (int64_t)settings->base << i;
        if (n_channels > ES_HOST_CHANNELS_MAX) {
            return ES_FAIL(CONFIG, "%s:%d: [host] base: block %d has %lld channels, at most %d",
                           d->file_name, line_of(d, "host", "base"), i, (long long)n_channels,
                           ES_HOST_CHANNELS_MAX);
        }
        host->blocks[i] =
            (EsHostBlock){.n_channels = (int)n_channels,
                          .kernel = host->kernel,
                          .has_pool = i < host->n_pools,
                          .places = (settings->before_pool ? ES_HOST_BEFORE_POOL : 0) |
                                    (settings->after_pool ? ES_HOST_AFTER_POOL : 0)};
    }
    return ES_STATUS_OK;
}

// Every key of blocks, images and pools describes a CNN.
static EsStatus check_dense_keys(const Description *d) {
    static const char *const others[] = {"base",       "kernel",        "blocks",
                                         "pools",      "before_pool",   "after_pool",
                                         "image_size", "image_channels"};
    for (size_t i = 0; i < ES_COUNT_OF(others); i++) {
        int line = line_of(d, "host", others[i]);
        if (line > 0) {
            return ES_FAIL(CONFIG,
                           "%s:%d: [host] %s is of hosts of kind cnn; a dense host has layers",
                           d->file_name, line, others[i]);
        }
    }
    for (int i = 0; i < ES_HOST_BLOCKS_MAX; i++) {
        int line = line_of(d, sections[i], NULL);
        if (line > 0) {
            return ES_FAIL(CONFIG,
                           "%s:%d: [%s] is of hosts of kind cnn; a dense host has layers = 32, 16",
                           d->file_name, line, sections[i]);
        }
    }
    return ES_STATUS_OK;
}

// A layer per width, each with a place for seeds behind it.
static EsStatus make_dense(const Description *d, EsHostSpec *host) {
    const char *at = d->settings.layers;
    ES_TRY(check_dense_keys(d));
    at += strspn(at, " \t");
    while (*at != '\0') {
        char *end = NULL;
        long width = strtol(at, &end, 10);
        end += strspn(end, " \t");
        if (end == at || (*end != ',' && *end != '\0') || width < 1 ||
            width > ES_HOST_CHANNELS_MAX || host->n_blocks == ES_HOST_BLOCKS_MAX ||
            (*end == ',' && end[1 + strspn(end + 1, " \t")] == '\0')) {
            return ES_FAIL(CONFIG,
                           "%s:%d: [host] layers: \"%s\" is not a list of up to %d widths of 1 to "
                           "%d, such as 32, 16",
                           d->file_name, line_of(d, "host", "layers"), d->settings.layers,
                           ES_HOST_BLOCKS_MAX, ES_HOST_CHANNELS_MAX);
        }
        host->blocks[host->n_blocks++] =
            (EsHostBlock){.n_channels = (int)width, .kernel = 1, .places = ES_HOST_BEFORE_POOL};
        at = end + (*end == ',');
    }
    host->kind = ES_HOST_DENSE;
    host->image_channels = host->image_size = host->kernel = 1;
    host->base = ES_MAX(host->blocks[0].n_channels, 1);
    return ES_STATUS_OK;
}

static int has_blocks(const Description *d) {
    int n = 0;
    for (int i = 0; i < ES_HOST_BLOCKS_MAX; i++) {
        n += line_of(d, sections[i], NULL) > 0;
    }
    return n > 0;
}

// Name and data set, in one piece of memory that the host owns.
static EsStatus copy_names(const Description *d, EsHostSpec *host) {
    const char *name = d->settings.name;
    size_t name_length = strlen(name), data_length = strlen(d->settings.data);
    if (name_length == 0) {
        name = d->file_name;
        name_length = strlen(name);
        if (name_length > 4 && strcmp(name + name_length - 4, ".ini") == 0) {
            name_length -= 4;
        }
    }
    ES_TRY(es_allocate(name_length + data_length + 2, (void **)&host->text));
    memcpy(host->text, name, name_length);
    host->text[name_length] = '\0';
    memcpy(host->text + name_length + 1, d->settings.data, data_length + 1);
    host->name = host->text;
    host->dataset = host->text + name_length + 1;
    return ES_STATUS_OK;
}

static EsStatus make_host(const Description *d, EsHostSpec *host, EsSlot *slots, int *n_slots) {
    EsSlot all[2 * ES_SLOTS_MAX];
    host->image_channels = d->settings.image_channels;
    host->image_size = d->settings.image_size;
    host->n_classes = d->settings.n_classes;
    host->batch = d->settings.batch;
    host->states_images =
        is_given(d, "host", "image_channels") || is_given(d, "host", "image_size");
    host->states_classes = is_given(d, "host", "classes");
    ES_TRY(check_data(d));
    if (d->settings.kind == ES_HOST_CNN && is_given(d, "host", "layers")) {
        return ES_FAIL(CONFIG, "%s:%d: [host] layers is of hosts of kind dense", d->file_name,
                       line_of(d, "host", "layers"));
    }
    ES_TRY(d->settings.kind == ES_HOST_DENSE ? make_dense(d, host)
           : has_blocks(d)                   ? make_described(d, host)
                                             : make_family(d, host));
    if (host->image_size >> host->n_pools < 1) {
        return ES_FAIL(CONFIG, "%s: %d pools are too many for images of %d x %d", d->file_name,
                       host->n_pools, host->image_size, host->image_size);
    }
    int n = es_slots_of(host, all);
    if (n == 0 && host->kind == ES_HOST_DENSE) {
        ES_TRY(copy_names(d, host));
        return es_host_check(host); // a linear classifier: it trains, and nothing grows
    }
    if (n < 1 || n > ES_SLOTS_MAX) {
        return ES_FAIL(CONFIG,
                       "%s: before_pool and after_pool make %d slots, must be 1..%d; %s some of "
                       "them",
                       d->file_name, n, ES_SLOTS_MAX, n < 1 ? "switch on" : "switch off");
    }
    ES_TRY(copy_names(d, host));
    ES_TRY(es_host_check(host));
    return es_slots_parse(host, "all", slots, n_slots);
}

EsStatus es_host_load(const char *path, EsHostSpec *host, EsSlot *slots, int *n_slots) {
    EsStatus status = ES_STATUS_OK;
    void *text = NULL;
    size_t text_bytes = 0;
    const char *slash = strrchr(path, '/');
    Description d = {.file_name = slash != NULL ? slash + 1 : path};
    const EsConfig config = {keys, ES_COUNT_OF(keys), &d.settings, sizeof d.settings};
    memset(host, 0, sizeof *host);
    *n_slots = 0;
    es_config_reset(&config);
    ES_TRY(es_config_load(&config, path));
    ES_TRY(es_file_read_all(path, LARGEST_FILE_BYTES, &text, &text_bytes));
    // editors may begin a file with a byte order mark, which the parser of the settings skips too
    d.text = strncmp(text, "\xEF\xBB\xBF", 3) == 0 ? (const char *)text + 3 : text;
    ES_TRY_GOTO(make_host(&d, host, slots, n_slots));
done:
    es_release(text);
    if (status != ES_STATUS_OK) {
        es_host_unload(host);
        memset(host, 0, sizeof *host);
    }
    return status;
}

void es_host_unload(EsHostSpec *host) {
    if (host->text != NULL) {
        es_release(host->text);
        host->text = NULL;
        host->name = host->dataset = "";
    }
}

// --- hosts and data sets by name ---

static int is_nonempty(const char *text) { return text != NULL && text[0] != '\0'; }

int es_host_is_file(const char *task) {
    size_t length = strlen(task);
    return strchr(task, '/') != NULL || (length > 4 && strcmp(task + length - 4, ".ini") == 0);
}

EsStatus es_host_find(const char *task, EsHostSpec *host) {
    if (!es_host_is_file(task)) {
        return es_host_preset(task, host);
    }
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    EsStatus status = es_host_load(task, host, slots, &n_slots);
    // a description that cannot be read is wrong input: the user has named it
    return status != ES_STATUS_IO ? status : ES_FAIL(INPUT, "host: %s", es_status_detail());
}

// The data's sizes are taken; a file that states others was written for other data.
static void note_sizes(const EsHostSpec *host, const EsDataset *dataset) {
    if (host->states_images &&
        (host->image_channels != dataset->n_channels || host->image_size != dataset->height)) {
        es_log(ES_LOG_WARNING,
               "host \"%.100s\": its file says images of %d x %d x %d, data set \"%s\" has %d x %d "
               "x %d; the host is made for these",
               host->name, host->image_size, host->image_size, host->image_channels, dataset->name,
               dataset->height, dataset->width, dataset->n_channels);
    }
    if (host->states_classes && host->n_classes != dataset->n_classes) {
        es_log(
            ES_LOG_WARNING,
            "host \"%.100s\": its file says %d classes, data set \"%s\" has %d; the host is made "
            "for these",
            host->name, host->n_classes, dataset->name, dataset->n_classes);
    }
}

EsStatus es_host_open_dataset(EsHostSpec *host, const char *data, const EsDatasetOptions *options,
                              int n_threads, EsDataset *dataset) {
    const char *folder = options->folder;
    const char *name = is_nonempty(data) ? data : host->dataset;
    int is_read = strcmp(name, "cifar10") == 0 || strcmp(name, "idx") == 0;
    int is_drawn = strcmp(name, "tiny") == 0 || strcmp(name, "generated") == 0;
    const char *source = is_nonempty(folder) ? folder : is_read ? getenv("ES_DATA_DIR") : NULL;
    if (name[0] == '\0') {
        return ES_FAIL(ARGUMENT, "host \"%s\" names no data set, and none is given", host->name);
    }
    if (is_read && !is_nonempty(source)) {
        return ES_FAIL(ARGUMENT, "data set \"%s\" needs a folder (--folder DIR) or ES_DATA_DIR",
                       name);
    }
    if (!is_read && is_nonempty(folder)) {
        return ES_FAIL(ARGUMENT,
                       "data set \"%s\" %s and has no use for folder \"%s\"; cifar10 and idx "
                       "read files",
                       name, is_drawn ? "is generated" : "says where it lies", folder);
    }
    EsDatasetOptions wanted = *options;
    wanted.folder = source;
    wanted.n_classes = host->n_classes;
    EsThreadPool *pool = NULL;
    ES_TRY(es_thread_pool_create(&pool, n_threads));
    EsStatus status = es_dataset_open(dataset, name, &wanted, pool);
    es_thread_pool_destroy(pool);
    ES_TRY(status);
    if ((dataset->kind == ES_DATASET_ROWS) != (host->kind == ES_HOST_DENSE)) {
        int is_rows = dataset->kind == ES_DATASET_ROWS;
        es_dataset_destroy(dataset);
        return is_rows
                   ? ES_FAIL(INPUT,
                             "data set \"%s\" has rows of numbers, and host \"%s\" takes images; "
                             "choose --task dense, or a host file with kind = dense",
                             name, host->name)
                   : ES_FAIL(INPUT,
                             "data set \"%s\" has images, and host \"%s\" is dense: it takes "
                             "rows of numbers; choose a host of kind cnn",
                             name, host->name);
    }
    note_sizes(host, dataset);
    host->image_channels = dataset->n_channels;
    host->image_size = dataset->height;
    host->n_classes = dataset->n_classes;
    return ES_STATUS_OK;
}
