// Opens data sets by name or path or from memory, and does for all readers: samples shared out over
// the splits, labels that are texts numbered, images fitted to a square.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/memory.h"
#include "base/random_rules.h"
#include "data/dataset_internal.h"
#include "data/image.h"

#define DEFAULT_SHARE 0.1
#define FASHION_MNIST "/usr/share/datasets/fashion-mnist" // of Debian's package

// --- splits ---

enum { TRAIN, VALIDATION, TEST };

// How many of a class's samples go into a split that has none of its own: its share, rounded, and
// at least one where the class has three.
static int64_t share_of(int64_t n, double share) {
    int64_t count = (int64_t)((double)n * share + 0.5);
    return ES_MAX(count, n >= 3 ? 1 : 0);
}

static EsStatus check_shares(const EsDatasetOptions *options, double shares[3]) {
    shares[VALIDATION] = options->validation_share > 0 ? options->validation_share : DEFAULT_SHARE;
    shares[TEST] = options->test_share > 0 ? options->test_share : DEFAULT_SHARE;
    if (options->validation_share < 0 || options->test_share < 0 ||
        shares[VALIDATION] + shares[TEST] > 0.9) {
        return ES_FAIL(ARGUMENT,
                       "shares of %g for validation and %g for testing, expected positive ones of "
                       "at most 0.9 together",
                       shares[VALIDATION], shares[TEST]);
    }
    if (options->n_train != 0 || options->n_validation != 0 || options->n_test != 0) {
        return ES_FAIL(ARGUMENT,
                       "numbers of samples are for tiny, generated, cifar10 and idx; other "
                       "sets take shares");
    }
    return ES_STATUS_OK;
}

typedef struct Sharing {
    const uint16_t *labels;
    uint8_t *split;   // [n]
    int64_t *members; // [n]: samples by class, those that are to be shared out
    int64_t *first;   // [n_classes + 1]: a class's first member
    int64_t n;
    int n_classes;
    uint64_t seed;
} Sharing;

// Lists the training samples by class, in their order.
static void list_members(Sharing *s) {
    for (int64_t i = 0; i < s->n; i++) {
        s->first[s->labels[i] + 1] += s->split[i] == TRAIN;
    }
    for (int c = 0; c < s->n_classes; c++) {
        s->first[c + 1] += s->first[c];
    }
    for (int64_t i = 0; i < s->n; i++) {
        if (s->split[i] == TRAIN) {
            s->members[s->first[s->labels[i]]++] = i;
        }
    }
    for (int c = s->n_classes; c > 0; c--) { // each stands where the next one began
        s->first[c] = s->first[c - 1];
    }
    s->first[0] = 0;
}

static void share_class(Sharing *s, int c, const double shares[3], const int is_missing[3]) {
    int64_t *members = s->members + s->first[c], n = s->first[c + 1] - s->first[c];
    int64_t n_validation = is_missing[VALIDATION] ? share_of(n, shares[VALIDATION]) : 0;
    int64_t n_test = is_missing[TEST] ? share_of(n, shares[TEST]) : 0;
    while (n_validation + n_test >= n && n_validation + n_test > 0) {
        *(n_test > n_validation ? &n_test : &n_validation) -= 1;
    }
    EsRandom4 key = es_random_draw(s->seed, (uint32_t)c, ES_PURPOSE_DATA_SPLIT, 0, 0);
    for (int64_t i = 0; i < n_validation + n_test; i++) {
        uint32_t k = es_random_permute((uint32_t)i, (uint32_t)n, key);
        s->split[members[k]] = i < n_validation ? VALIDATION : TEST;
    }
}

// Writes the samples of each split one after another, mixed.
static void order_splits(const Sharing *s, int64_t *order, int64_t counts[3]) {
    int64_t *next = s->members, first = 0; // the list has served its purpose
    for (int split = 0; split < 3; split++) {
        int64_t n = 0;
        for (int64_t i = 0; i < s->n; i++) {
            if (s->split[i] == split) {
                next[n++] = i;
            }
        }
        EsRandom4 key = es_random_draw(s->seed, (uint32_t)split, ES_PURPOSE_DATA_SPLIT, 1, 0);
        for (int64_t i = 0; i < n; i++) {
            order[first + i] = next[es_random_permute((uint32_t)i, (uint32_t)n, key)];
        }
        counts[split] = n;
        first += n;
    }
}

static EsStatus check_classes(const Sharing *s, const char *path, const char *const *class_names,
                              const int64_t counts[3]) {
    for (int c = 0; c < s->n_classes; c++) {
        if (s->first[c + 1] == s->first[c]) {
            return ES_FAIL(INPUT, "%s: class \"%.100s\" has no samples for training", path,
                           class_names[c]);
        }
    }
    if (counts[VALIDATION] == 0 || counts[TEST] == 0) {
        return ES_FAIL(INPUT,
                       "%s: %lld samples of %d classes are too few to split: a class needs 3 to be "
                       "in training, validation and test",
                       path, (long long)s->n, s->n_classes);
    }
    return ES_STATUS_OK;
}

EsStatus es_dataset_share_out(const EsDatasetOptions *options, const char *path,
                              const uint16_t *labels, const uint8_t *own, int64_t n, int n_classes,
                              const char *const *class_names, int64_t **order, int64_t counts[3]) {
    EsStatus status = ES_STATUS_OK;
    Sharing s = {.labels = labels, .n = n, .n_classes = n_classes, .seed = options->seed};
    double shares[3];
    int is_missing[3] = {0, 1, 1};
    *order = NULL;
    ES_TRY(check_shares(options, shares));
    if (n > INT32_MAX) {
        return ES_FAIL(INPUT, "%s: %lld samples, at most %d", path, (long long)n, INT32_MAX);
    }
    ES_TRY_GOTO(es_allocate((size_t)n, (void **)&s.split));
    ES_TRY_GOTO(es_allocate((size_t)n * sizeof *s.members, (void **)&s.members));
    ES_TRY_GOTO(es_allocate(((size_t)n_classes + 1) * sizeof *s.first, (void **)&s.first));
    ES_TRY_GOTO(es_allocate((size_t)n * sizeof **order, (void **)order));
    for (int64_t i = 0; own != NULL && i < n; i++) {
        s.split[i] = own[i];
        is_missing[own[i]] = 0;
    }
    list_members(&s);
    for (int c = 0; c < n_classes; c++) {
        share_class(&s, c, shares, is_missing);
    }
    order_splits(&s, *order, counts);
    ES_TRY_GOTO(check_classes(&s, path, class_names, counts));
done:
    es_release(s.split);
    es_release(s.members);
    es_release(s.first);
    if (status != ES_STATUS_OK) {
        es_release(*order);
        *order = NULL;
    }
    return status;
}

// --- labels ---

static int is_whole_number(const char *text) {
    const char *digits = text + (text[0] == '-');
    size_t n = strspn(digits, "0123456789");
    return n > 0 && n < 18 && digits[n] == '\0';
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int compare_numbers(const void *a, const void *b) {
    long long x = atoll(*(const char *const *)a), y = atoll(*(const char *const *)b);
    return x != y ? (x > y) - (x < y) : compare_texts(a, b); // 1 and 01 are two labels
}

EsStatus es_dataset_number_labels(const char *path, const char *const *texts, int64_t n,
                                  uint16_t **labels, const char *const **class_names,
                                  int *n_classes) {
    EsStatus status = ES_STATUS_OK;
    const char **sorted = NULL;
    int is_numeric = 1;
    *labels = NULL;
    *class_names = NULL;
    ES_TRY_GOTO(es_allocate((size_t)n * sizeof *sorted, (void **)&sorted));
    ES_TRY_GOTO(es_allocate((size_t)n * sizeof **labels, (void **)labels));
    for (int64_t i = 0; i < n; i++) {
        sorted[i] = texts[i];
        is_numeric = is_numeric && is_whole_number(texts[i]);
    }
    int (*compare)(const void *, const void *) = is_numeric ? compare_numbers : compare_texts;
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    int64_t n_distinct = 0;
    for (int64_t i = 0; i < n; i++) {
        if (n_distinct == 0 || strcmp(sorted[n_distinct - 1], sorted[i]) != 0) {
            sorted[n_distinct++] = sorted[i];
        }
    }
    if (n_distinct < 2 || n_distinct > ES_DATASET_MAX_CLASSES) {
        status = ES_FAIL(INPUT, "%s: %lld different labels, expected 2 to %d", path,
                         (long long)n_distinct, ES_DATASET_MAX_CLASSES);
        goto done;
    }
    for (int64_t i = 0; i < n; i++) {
        const char **found =
            bsearch(&texts[i], sorted, (size_t)n_distinct, sizeof *sorted, compare);
        (*labels)[i] = (uint16_t)(found - sorted);
    }
    ES_TRY_GOTO(es_names_copy(sorted, n_distinct, class_names));
    *n_classes = (int)n_distinct;
done:
    es_release(sorted);
    if (status != ES_STATUS_OK) {
        es_release(*labels);
        *labels = NULL;
    }
    return status;
}

// --- images of another size ---

// An image of a set as one of its own; `pixels` takes image_bytes.
static EsImage interleave(const EsDataset *dataset, const uint8_t *planes, uint8_t *pixels) {
    size_t n_pixels = (size_t)dataset->height * (size_t)dataset->width;
    size_t C = (size_t)dataset->n_channels;
    for (size_t c = 0; c < C; c++) {
        for (size_t p = 0; p < n_pixels; p++) {
            pixels[p * C + c] = planes[c * n_pixels + p];
        }
    }
    return (EsImage){dataset->width, dataset->height, dataset->n_channels, pixels};
}

// Fits all images to a square of that size.
static EsStatus fit_dataset(EsDataset *dataset, int size) {
    EsDataset fitted;
    uint8_t *pixels = NULL;
    const int64_t counts[3] = {dataset->train.count, dataset->validation.count,
                               dataset->test.count};
    const int shape[3] = {dataset->n_channels, size, size};
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_dataset_allocate(&fitted, dataset->name, shape, dataset->n_classes, counts));
    ES_TRY_GOTO(es_allocate(dataset->image_bytes, (void **)&pixels));
    for (int64_t i = 0; i < dataset->n_images; i++) {
        EsImage image =
            interleave(dataset, dataset->images + (size_t)i * dataset->image_bytes, pixels);
        ES_TRY_GOTO(es_image_fit(&image, size, dataset->n_channels,
                                 fitted.images + (size_t)i * fitted.image_bytes));
        fitted.labels[i] = dataset->labels[i];
    }
    fitted.class_names = dataset->class_names;
    fitted.sizes = dataset->sizes;
    fitted.is_fitted = 1;
    dataset->class_names = NULL;
    es_dataset_destroy(dataset);
    *dataset = fitted;
    es_dataset_measure(dataset);
done:
    es_release(pixels);
    if (status != ES_STATUS_OK) {
        es_dataset_destroy(&fitted);
    }
    return status;
}

// --- names and paths ---

void es_dataset_name_of(const char *path, char name[ES_DATASET_NAME_BYTES]) {
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') {
        end--;
    }
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') {
        begin--;
    }
    snprintf(name, ES_DATASET_NAME_BYTES, "%.*s", (int)(end - begin), path + begin);
}

static int ends_with(const char *text, const char *end) {
    size_t length = strlen(text), n = strlen(end);
    return length >= n && strcasecmp(text + length - n, end) == 0;
}

// Returns whether a file of one of the names lies in the folder.
static int has_file(const char *folder, const char *const *names, size_t n_names) {
    for (size_t i = 0; i < n_names; i++) {
        char path[ES_DATA_PATH_BYTES + 64];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (access(path, F_OK) == 0) {
            return 1;
        }
    }
    return 0;
}

static EsStatus load_idx_folder(EsDataset *dataset, const char *folder, const char *path,
                                const EsDatasetOptions *options) {
    EsDatasetOptions of_folder = *options;
    of_folder.folder = folder;
    of_folder.n_classes = ES_DATASET_COUNT_CLASSES;
    ES_TRY(es_dataset_load_idx(dataset, &of_folder));
    es_dataset_name_of(path, dataset->name);
    return ES_STATUS_OK;
}

// The tables of a folder by split, in `paths`; files[split] is NULL where there is none.
static EsStatus find_tables(const char *folder, char paths[3][ES_DATA_PATH_BYTES],
                            const char *files[3]) {
    static const struct {
        const char *name;
        int split;
    } tables[] = {{"train", 0}, {"training", 0}, {"validation", 1}, {"valid", 1},
                  {"val", 1},   {"test", 2},     {"testing", 2}};
    for (size_t i = 0; i < 2 * ES_COUNT_OF(tables); i++) {
        char name[32], path[ES_DATA_PATH_BYTES];
        int split = tables[i / 2].split;
        snprintf(name, sizeof name, "%s%s", tables[i / 2].name, i % 2 == 0 ? ".csv" : ".tsv");
        ES_TRY(es_data_path_join(path, folder, name));
        if (access(path, F_OK) != 0) {
            continue;
        }
        if (files[split] != NULL) {
            return ES_FAIL(INPUT, "%s: two tables for the same split, %s among them", folder, name);
        }
        memcpy(paths[split], path, sizeof path);
        files[split] = paths[split];
    }
    return ES_STATUS_OK;
}

// Sets *yes when the folder has folders, which are classes of images: tables beside them are notes.
static EsStatus has_folders(const char *path, int *yes) {
    EsFolderEntry *entries = NULL;
    int n = 0;
    *yes = 0;
    ES_TRY(es_folder_list(path, &entries, &n));
    for (int i = 0; i < n; i++) {
        char inside[ES_DATA_PATH_BYTES];
        struct stat info; // a link is followed
        *yes |= entries[i].name[0] != '.' &&
                es_data_path_join(inside, path, entries[i].name) == ES_STATUS_OK &&
                stat(inside, &info) == 0 && S_ISDIR(info.st_mode);
    }
    es_release(entries);
    return ES_STATUS_OK;
}

static EsStatus open_folder(EsDataset *dataset, const char *path, const EsDatasetOptions *options,
                            EsThreadPool *pool) {
    static const char *const of_cifar10[] = {"data_batch_1.bin",
                                             "cifar-10-batches-bin/data_batch_1.bin"};
    static const char *const of_idx[] = {"train-images-idx3-ubyte", "train-images.idx3-ubyte",
                                         "train-images-idx3-ubyte.gz",
                                         "train-images.idx3-ubyte.gz"};
    char paths[3][ES_DATA_PATH_BYTES];
    const char *tables[3] = {NULL, NULL, NULL};
    if (has_file(path, of_cifar10, ES_COUNT_OF(of_cifar10))) {
        EsDatasetOptions of_folder = *options;
        of_folder.folder = path;
        return es_dataset_load_cifar10(dataset, &of_folder);
    }
    if (has_file(path, of_idx, ES_COUNT_OF(of_idx))) {
        return load_idx_folder(dataset, path, path, options);
    }
    ES_TRY(find_tables(path, paths, tables));
    int has_classes = 0;
    int has_tables = tables[0] != NULL || tables[1] != NULL || tables[2] != NULL;
    if (has_tables) {
        ES_TRY(has_folders(path, &has_classes));
    }
    if (has_tables && !has_classes) {
        if (tables[0] == NULL) {
            return ES_FAIL(INPUT, "%s has a table of another split, but no train.csv", path);
        }
        return es_dataset_load_csv(dataset, path, tables, options);
    }
    return es_dataset_load_folder(dataset, path, options, pool);
}

// An IDX file stands for the four of its folder.
static EsStatus open_idx_file(EsDataset *dataset, const char *path,
                              const EsDatasetOptions *options) {
    char folder[ES_DATA_PATH_BYTES];
    const char *slash = strrchr(path, '/');
    int length = slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path);
    if (length >= ES_DATA_PATH_BYTES) {
        return ES_FAIL(ARGUMENT, "the path is longer than %d bytes", ES_DATA_PATH_BYTES - 1);
    }
    snprintf(folder, sizeof folder, "%.*s", length, slash == NULL ? "." : path);
    return load_idx_folder(dataset, folder, path, options);
}

static EsStatus open_path(EsDataset *dataset, const char *path, const EsDatasetOptions *options,
                          EsThreadPool *pool) {
    struct stat info;
    if (stat(path, &info) != 0) {
        int error = errno;
        return strchr(path, '/') == NULL && error == ENOENT
                   ? ES_FAIL(ARGUMENT,
                             "no data set is called \"%s\"; known: tiny, generated, cifar10, idx, "
                             "fashion-mnist, or the path of a folder or file of data",
                             path)
                   : ES_FAIL(INPUT, "%s: %s", path, strerror(error));
    }
    if (S_ISDIR(info.st_mode)) {
        return open_folder(dataset, path, options, pool);
    }
    if (ends_with(path, ".csv") || ends_with(path, ".tsv")) {
        const char *const files[3] = {path, NULL, NULL};
        return es_dataset_load_csv(dataset, path, files, options);
    }
    if (ends_with(path, ".npy")) {
        return es_dataset_load_npy(dataset, path, options);
    }
    if (ends_with(path, ".gz") || ends_with(path, "ubyte") || ends_with(path, ".idx")) {
        return open_idx_file(dataset, path, options);
    }
    return ES_FAIL(INPUT,
                   "%s: the name does not say what it holds; data are .csv, .tsv, .npy and IDX "
                   "files, or a folder of images by class",
                   path);
}

static EsStatus open_fashion_mnist(EsDataset *dataset, const EsDatasetOptions *options) {
    static const char *const class_names[10] = {"T-shirt/top", "trouser",   "pullover", "dress",
                                                "coat",        "sandal",    "shirt",    "sneaker",
                                                "bag",         "ankle boot"};
    const char *folder = options->folder != NULL ? options->folder : FASHION_MNIST;
    if (access(folder, F_OK) != 0) {
        return ES_FAIL(INPUT,
                       "fashion-mnist: %s is not there; Debian and its kin have it as a package: "
                       "apt-get install dataset-fashion-mnist",
                       folder);
    }
    EsDatasetOptions of_folder = *options;
    of_folder.folder = folder;
    of_folder.n_classes = 10;
    ES_TRY(es_dataset_load_idx(dataset, &of_folder));
    snprintf(dataset->name, sizeof dataset->name, "fashion-mnist");
    return es_names_copy(class_names, 10, &dataset->class_names);
}

static EsStatus open_named(EsDataset *dataset, const char *text, const EsDatasetOptions *options,
                           EsThreadPool *pool) {
    if (strcmp(text, "tiny") == 0) {
        return es_dataset_generate(dataset, ES_GENERATED_TINY, options, pool);
    }
    if (strcmp(text, "generated") == 0) {
        return es_dataset_generate(dataset, ES_GENERATED_STANDARD, options, pool);
    }
    if (strcmp(text, "cifar10") == 0) {
        return es_dataset_load_cifar10(dataset, options);
    }
    if (strcmp(text, "idx") == 0) {
        return es_dataset_load_idx(dataset, options);
    }
    if (strcmp(text, "fashion-mnist") == 0) {
        return open_fashion_mnist(dataset, options);
    }
    return open_path(dataset, text, options, pool);
}

EsDatasetOptions es_data_settings_options(const EsDataSettings *settings) {
    EsDatasetOptions options = {.seed = (uint64_t)settings->seed,
                                .folder = settings->folder,
                                .image_size = settings->image_size,
                                .label = settings->label,
                                .labels = settings->labels};
    return options;
}

static EsStatus check_image_size(const EsDatasetOptions *options) {
    if (options->image_size < 0 || options->image_size > ES_IMAGE_MAX_FIT) {
        return ES_FAIL(ARGUMENT, "an image size of %d, expected 1 to %d", options->image_size,
                       ES_IMAGE_MAX_FIT);
    }
    return ES_STATUS_OK;
}

// Images become squares of the size that the options ask for, or of their longer side.
static EsStatus fit_images(EsDataset *dataset, const EsDatasetOptions *options) {
    int side = ES_MAX(dataset->height, dataset->width);
    int size = options->image_size > 0 ? options->image_size : ES_MIN(side, ES_IMAGE_MAX_FIT);
    if (dataset->kind != ES_DATASET_IMAGES || (dataset->height == size && dataset->width == size)) {
        return ES_STATUS_OK;
    }
    return fit_dataset(dataset, size);
}

EsStatus es_dataset_open(EsDataset *dataset, const char *text, const EsDatasetOptions *options,
                         EsThreadPool *pool) {
    memset(dataset, 0, sizeof *dataset);
    ES_TRY(check_image_size(options));
    EsStatus status = open_named(dataset, text, options, pool);
    status = status == ES_STATUS_OK ? fit_images(dataset, options) : status;
    if (status != ES_STATUS_OK) {
        es_dataset_destroy(dataset);
    }
    return status;
}

// --- samples in memory ---

static EsStatus check_arrays(const EsDataArrays *a) {
    int is_rows = a->rows != NULL;
    int most = is_rows ? ES_DATASET_MAX_COLUMNS : ES_DATASET_MAX_CHANNELS;
    if ((a->pixels != NULL) == is_rows || a->labels == NULL || a->n < 1) {
        return ES_FAIL(ARGUMENT, "%s: expected samples, images or rows, and their labels", a->name);
    }
    if (a->n_channels < 1 || a->n_channels > most) {
        return ES_FAIL(ARGUMENT, "%s: %d %s, expected 1 to %d", a->name, a->n_channels,
                       is_rows ? "columns" : "channels", most);
    }
    if (!is_rows && (a->height < 1 || a->width < 1 || a->height > ES_IMAGE_MAX_FIT ||
                     a->width > ES_IMAGE_MAX_FIT)) {
        return ES_FAIL(ARGUMENT, "%s: images of %d x %d, expected 1 to %d a side", a->name,
                       a->width, a->height, ES_IMAGE_MAX_FIT);
    }
    if (a->n_classes < 2 || a->n_classes > ES_DATASET_MAX_CLASSES) {
        return ES_FAIL(ARGUMENT, "%s: %d classes, expected 2 to %d", a->name, a->n_classes,
                       ES_DATASET_MAX_CLASSES);
    }
    for (int64_t i = 0; i < a->n; i++) {
        if (a->labels[i] < 0 || a->labels[i] >= a->n_classes) {
            return ES_FAIL(ARGUMENT, "%s: label %lld is %d, expected 0 to %d", a->name,
                           (long long)i, a->labels[i], a->n_classes - 1);
        }
    }
    for (int64_t i = 0; is_rows && i < a->n * a->n_channels; i++) {
        if (!isfinite(a->rows[i])) {
            return ES_FAIL(ARGUMENT, "%s: row %lld, column %lld is not a finite number", a->name,
                           (long long)(i / a->n_channels), (long long)(i % a->n_channels));
        }
    }
    return ES_STATUS_OK;
}

// Copies the names of the classes, or their numbers where they have none.
static EsStatus name_classes(const EsDataArrays *a, const char *const **names) {
    enum { NUMBER_BYTES = 8 };
    size_t n = (size_t)a->n_classes;
    const char **numbers = NULL;
    if (a->class_names != NULL) {
        return es_names_copy(a->class_names, a->n_classes, names);
    }
    ES_TRY(es_allocate(n * (sizeof *numbers + NUMBER_BYTES), (void **)&numbers));
    for (size_t k = 0; k < n; k++) { // pointers first, then the texts
        char *text = (char *)(numbers + n) + k * NUMBER_BYTES;
        snprintf(text, NUMBER_BYTES, "%d", (int)(uint16_t)k);
        numbers[k] = text;
    }
    *names = numbers;
    return ES_STATUS_OK;
}

// Samples in their places, and constants that normalise them.
static EsStatus fill_dataset(EsDataset *dataset, const EsDataArrays *a, const int64_t *order,
                             const int64_t counts[3]) {
    const int shape[3] = {a->n_channels, a->height, a->width};
    ES_TRY(a->rows != NULL
               ? es_dataset_allocate_rows(dataset, a->name, a->n_channels, a->n_classes, counts)
               : es_dataset_allocate(dataset, a->name, shape, a->n_classes, counts));
    uint8_t *to = a->rows != NULL ? (uint8_t *)dataset->rows : dataset->images;
    const uint8_t *from = a->rows != NULL ? (const uint8_t *)a->rows : a->pixels;
    size_t bytes = dataset->image_bytes;
    for (int64_t i = 0; i < a->n; i++) {
        memcpy(to + (size_t)i * bytes, from + (size_t)order[i] * bytes, bytes);
        dataset->labels[i] = (uint16_t)a->labels[order[i]];
    }
    if (a->rows == NULL) {
        es_dataset_measure(dataset);
        return ES_STATUS_OK;
    }
    es_dataset_normalise_rows(dataset);
    return a->column_names != NULL
               ? es_names_copy(a->column_names, a->n_channels, &dataset->column_names)
               : ES_STATUS_OK;
}

EsStatus es_dataset_copy(EsDataset *dataset, const EsDataArrays *arrays,
                         const EsDatasetOptions *options) {
    EsStatus status = ES_STATUS_OK;
    const char *const *class_names = NULL;
    uint16_t *labels = NULL;
    int64_t *order = NULL, counts[3];
    memset(dataset, 0, sizeof *dataset);
    ES_TRY(check_image_size(options));
    ES_TRY(check_arrays(arrays));
    ES_TRY_GOTO(name_classes(arrays, &class_names));
    ES_TRY_GOTO(es_allocate((size_t)arrays->n * sizeof *labels, (void **)&labels));
    for (int64_t i = 0; i < arrays->n; i++) {
        labels[i] = (uint16_t)arrays->labels[i];
    }
    ES_TRY_GOTO(es_dataset_share_out(options, arrays->name, labels, NULL, arrays->n,
                                     arrays->n_classes, class_names, &order, counts));
    ES_TRY_GOTO(fill_dataset(dataset, arrays, order, counts));
    dataset->class_names = class_names;
    class_names = NULL;
    ES_TRY_GOTO(fit_images(dataset, options));
done:
    es_release(labels);
    es_release(order);
    es_release((void *)(uintptr_t)class_names);
    if (status != ES_STATUS_OK) {
        es_dataset_destroy(dataset);
    }
    return status;
}
