// Folders of PNG and JPEG images, one sub-folder per class; or train/, test/ and validation/ above
// these. Names are sorted, so that nothing depends on the order in which a file system lists them.
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/first_error.h"
#include "base/memory.h"
#include "data/dataset_internal.h"
#include "data/image.h"
#include "esper/log.h"

#define MAX_IMAGES ((int64_t)1 << 30)

// Names of a folder, sorted by their bytes; those that begin with a dot are left out.
typedef struct Names {
    char **name; // owned, each owned
    int64_t n, capacity;
} Names;

typedef struct ImageFile {
    char *path; // owned
    EsImage header;
    uint16_t label;
    uint8_t split;
} ImageFile;

typedef struct Listing {
    const char *root;
    ImageFile *files; // owned
    int64_t n, capacity;
    Names classes;
    int64_t n_ignored; // files that are no images by their name
} Listing;

static void release_names(Names *names) {
    for (int64_t i = 0; i < names->n; i++) {
        free(names->name[i]);
    }
    es_release(names->name);
    *names = (Names){NULL, 0, 0};
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static EsStatus grow_array(void **array, int64_t n, int64_t *capacity, size_t item_bytes) {
    if (n < *capacity) {
        return ES_STATUS_OK;
    }
    int64_t larger = ES_MAX(2 * *capacity, 64);
    ES_TRY(es_reallocate(array, (size_t)*capacity * item_bytes, (size_t)larger * item_bytes));
    *capacity = larger;
    return ES_STATUS_OK;
}

static EsStatus add_name(Names *names, const char *name) {
    ES_TRY(grow_array((void **)&names->name, names->n, &names->capacity, sizeof *names->name));
    char *copy = strdup(name);
    if (copy == NULL) {
        return ES_FAIL(MEMORY, "no memory for a file name");
    }
    names->name[names->n++] = copy;
    return ES_STATUS_OK;
}

static EsStatus list_folder(const char *path, Names *names) {
    *names = (Names){NULL, 0, 0};
    DIR *folder = opendir(path);
    if (folder == NULL) {
        int error = errno;
        return error == EACCES
                   ? ES_FAIL(IO, "%s: cannot list the folder: %s", path, strerror(error))
                   : ES_FAIL(INPUT, "%s: cannot list the folder: %s", path, strerror(error));
    }
    EsStatus status = ES_STATUS_OK;
    errno = 0;
    for (struct dirent *entry; status == ES_STATUS_OK && (entry = readdir(folder)) != NULL;) {
        status = entry->d_name[0] == '.' ? ES_STATUS_OK : add_name(names, entry->d_name);
        errno = 0;
    }
    if (status == ES_STATUS_OK && errno != 0) {
        status = ES_FAIL(IO, "%s: cannot list the folder: %s", path, strerror(errno));
    }
    closedir(folder);
    if (status != ES_STATUS_OK) {
        release_names(names);
        return status;
    }
    if (names->n > 0) {
        qsort(names->name, (size_t)names->n, sizeof *names->name, compare_names);
    }
    return ES_STATUS_OK;
}

// A link is followed; a broken or circular one is an error.
static EsStatus is_folder(const char *path, int *yes) {
    struct stat info;
    if (stat(path, &info) != 0) {
        return ES_FAIL(INPUT, "%s: %s", path, strerror(errno));
    }
    *yes = S_ISDIR(info.st_mode);
    return ES_STATUS_OK;
}

static EsStatus add_file(Listing *l, const char *path, int64_t label, int split) {
    if (l->n == MAX_IMAGES) {
        return ES_FAIL(INPUT, "%s: more than %lld images", l->root, (long long)MAX_IMAGES);
    }
    ES_TRY(grow_array((void **)&l->files, l->n, &l->capacity, sizeof *l->files));
    char *copy = strdup(path);
    if (copy == NULL) {
        return ES_FAIL(MEMORY, "no memory for a file name");
    }
    l->files[l->n++] = (ImageFile){copy, {0}, (uint16_t)label, (uint8_t)split};
    return ES_STATUS_OK;
}

// The images of one class in one split.
static EsStatus list_class(Listing *l, const char *folder, int64_t label, int split) {
    Names names;
    char path[ES_DATA_PATH_BYTES];
    int64_t n_before = l->n;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(list_folder(folder, &names));
    for (int64_t i = 0; i < names.n; i++) {
        int yes = 0;
        ES_TRY_GOTO(es_data_path_join(path, folder, names.name[i]));
        ES_TRY_GOTO(is_folder(path, &yes));
        if (yes) {
            status = ES_FAIL(INPUT,
                             "%s: a folder inside a class; images lie in FOLDER/CLASS/ or in "
                             "FOLDER/train/CLASS/ and FOLDER/test/CLASS/",
                             path);
            goto done;
        }
        if (es_image_is_name(names.name[i])) {
            ES_TRY_GOTO(add_file(l, path, label, split));
        } else {
            l->n_ignored++;
        }
    }
    if (l->n == n_before) {
        status = ES_FAIL(INPUT, "%s: a class without images (.png, .jpg, .jpeg)", folder);
    }
done:
    release_names(&names);
    return status;
}

static int64_t find_class(const Names *classes, const char *name) {
    for (int64_t i = 0; i < classes->n; i++) {
        if (strcmp(classes->name[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

// The classes of one split. Those of training are the classes of the set.
static EsStatus list_split(Listing *l, const char *folder, int split) {
    Names names;
    char path[ES_DATA_PATH_BYTES];
    EsStatus status = ES_STATUS_OK;
    ES_TRY(list_folder(folder, &names));
    for (int64_t i = 0; i < names.n; i++) {
        int yes = 0;
        ES_TRY_GOTO(es_data_path_join(path, folder, names.name[i]));
        ES_TRY_GOTO(is_folder(path, &yes));
        if (!yes && es_image_is_name(names.name[i])) {
            status = ES_FAIL(INPUT, "%s: an image beside the folders of the classes", path);
            goto done;
        }
        if (!yes) {
            l->n_ignored++;
            continue;
        }
        if (split == 0) {
            ES_TRY_GOTO(add_name(&l->classes, names.name[i]));
        }
        int64_t label = split == 0 ? l->classes.n - 1 : find_class(&l->classes, names.name[i]);
        if (label < 0 || label >= ES_DATASET_MAX_CLASSES) {
            status = label < 0 ? ES_FAIL(INPUT, "%s: a class that has no training images", path)
                               : ES_FAIL(INPUT, "%s: more than %d classes", folder,
                                         ES_DATASET_MAX_CLASSES);
            goto done;
        }
        ES_TRY_GOTO(list_class(l, path, label, split));
    }
    if (split == 0 && l->classes.n < 2) {
        status = ES_FAIL(INPUT,
                         "%s: %lld folders of images, expected one for each of at least 2 classes",
                         folder, (long long)l->classes.n);
    }
done:
    release_names(&names);
    return status;
}

// train/, and test/ or validation/, beside no other folder's name: the set has splits of its own.
static EsStatus list_images(Listing *l) {
    static const struct {
        const char *name;
        int split;
    } folders[] = {{"train", 0}, {"training", 0}, {"validation", 1}, {"valid", 1},
                   {"val", 1},   {"test", 2},     {"testing", 2}};
    Names names;
    char path[ES_DATA_PATH_BYTES];
    int n_found[3] = {0, 0, 0};
    const char *found[3] = {NULL, NULL, NULL};
    ES_TRY(list_folder(l->root, &names));
    for (size_t i = 0; i < ES_COUNT_OF(folders); i++) {
        if (find_class(&names, folders[i].name) >= 0) {
            n_found[folders[i].split]++;
            found[folders[i].split] = folders[i].name;
        }
    }
    release_names(&names);
    if (n_found[0] == 0 || n_found[1] + n_found[2] == 0) {
        return list_split(l, l->root, 0);
    }
    for (int split = 0; split < 3; split++) {
        if (n_found[split] > 1) {
            return ES_FAIL(INPUT, "%s: two folders for the same split, %s among them", l->root,
                           found[split]);
        }
        if (n_found[split] == 1) {
            ES_TRY(es_data_path_join(path, l->root, found[split]));
            ES_TRY(list_split(l, path, split));
        }
    }
    return ES_STATUS_OK;
}

// --- reading ---

// images of a piece of work
#define BLOCK 16

typedef struct Job {
    Listing *listing;
    EsDataset *dataset;   // NULL: headers alone
    const int64_t *order; // place to file
    EsFirstError *errors; // owned [pieces]
} Job;

static EsStatus read_image(const Job *job, int64_t place) {
    EsDataset *dataset = job->dataset;
    if (dataset == NULL) {
        ImageFile *file = &job->listing->files[place];
        return es_image_load_header(file->path, &file->header);
    }
    const ImageFile *file = &job->listing->files[job->order[place]];
    EsImage image;
    ES_TRY(es_image_load(file->path, &image));
    EsStatus status = es_image_fit(&image, dataset->height, dataset->n_channels,
                                   dataset->images + (size_t)place * dataset->image_bytes);
    es_image_destroy(&image);
    dataset->labels[place] = file->label;
    return status;
}

static void read_block(void *context, int64_t piece, int worker) {
    (void)worker;
    const Job *job = context;
    int64_t end = ES_MIN((piece + 1) * BLOCK, job->listing->n);
    for (int64_t i = piece * BLOCK; i < end && job->errors[piece].status == ES_STATUS_OK; i++) {
        es_first_error_capture(&job->errors[piece], read_image(job, i));
    }
}

// Reads all headers or all images. The error of the first place is reported, whichever thread was
// first to fail.
static EsStatus read_all(Job *job, EsThreadPool *pool) {
    int64_t n_pieces = (job->listing->n + BLOCK - 1) / BLOCK;
    ES_TRY(es_allocate((size_t)n_pieces * sizeof *job->errors, (void **)&job->errors));
    if (pool != NULL) {
        es_thread_pool_run(pool, n_pieces, read_block, job);
    }
    EsStatus status = ES_STATUS_OK;
    for (int64_t i = 0; i < n_pieces && status == ES_STATUS_OK; i++) {
        if (pool == NULL) {
            read_block(job, i, 0);
        }
        status = es_first_error_rethrow(&job->errors[i]);
    }
    es_release(job->errors);
    job->errors = NULL;
    return status;
}

static int compare_sides(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

// Sizes as they were found; *n_channels is 3 where any image has colours.
static EsStatus measure_sizes(const Listing *l, EsImageSizes *sizes, int *n_channels) {
    int *sides = NULL;
    int64_t fewest = INT64_MAX, most = 0;
    ES_TRY(es_allocate((size_t)l->n * sizeof *sides, (void **)&sides));
    *n_channels = 1;
    for (int64_t i = 0; i < l->n; i++) {
        const EsImage *header = &l->files[i].header;
        int64_t n_pixels = (int64_t)header->width * header->height;
        sides[i] = ES_MAX(header->width, header->height);
        *n_channels = ES_MAX(*n_channels, header->n_channels);
        if (n_pixels < fewest) {
            fewest = n_pixels;
            memcpy(sizes->smallest, (int[2]){header->width, header->height},
                   sizeof sizes->smallest);
        }
        if (n_pixels > most) {
            most = n_pixels;
            memcpy(sizes->largest, (int[2]){header->width, header->height}, sizeof sizes->largest);
        }
    }
    qsort(sides, (size_t)l->n, sizeof *sides, compare_sides);
    sizes->median_side = sides[l->n / 2];
    es_release(sides);
    return ES_STATUS_OK;
}

// Labels, and the splits that the folders say.
static EsStatus share_out(const Listing *l, const EsDatasetOptions *options, int64_t **order,
                          int64_t counts[3]) {
    EsStatus status = ES_STATUS_OK;
    uint16_t *labels = NULL;
    uint8_t *own = NULL;
    ES_TRY_GOTO(es_allocate((size_t)l->n * sizeof *labels, (void **)&labels));
    ES_TRY_GOTO(es_allocate((size_t)l->n, (void **)&own));
    for (int64_t i = 0; i < l->n; i++) {
        labels[i] = l->files[i].label;
        own[i] = l->files[i].split;
    }
    ES_TRY_GOTO(es_dataset_share_out(options, l->root, labels, own, l->n, (int)l->classes.n,
                                     (const char *const *)l->classes.name, order, counts));
done:
    es_release(labels);
    es_release(own);
    return status;
}

static EsStatus build_dataset(EsDataset *dataset, Listing *l, const EsDatasetOptions *options,
                              EsThreadPool *pool, int64_t **order) {
    Job job = {.listing = l};
    EsImageSizes sizes;
    int64_t counts[3];
    int shape[3];
    char name[ES_DATASET_NAME_BYTES];
    es_dataset_name_of(l->root, name);
    ES_TRY(read_all(&job, pool));
    ES_TRY(measure_sizes(l, &sizes, &shape[0]));
    shape[1] = options->image_size > 0 ? options->image_size
                                       : ES_MIN(sizes.median_side, ES_IMAGE_DEFAULT_SIDE);
    shape[2] = shape[1];
    ES_TRY(share_out(l, options, order, counts));
    ES_TRY(es_dataset_allocate(dataset, name, shape, (int)l->classes.n, counts));
    dataset->sizes = sizes;
    dataset->is_fitted = 1;
    ES_TRY(
        es_names_copy((const char *const *)l->classes.name, l->classes.n, &dataset->class_names));
    job.dataset = dataset;
    job.order = *order;
    ES_TRY(read_all(&job, pool));
    es_dataset_measure(dataset);
    return ES_STATUS_OK;
}

EsStatus es_dataset_load_folder(EsDataset *dataset, const char *path,
                                const EsDatasetOptions *options, EsThreadPool *pool) {
    Listing l = {.root = path};
    int64_t *order = NULL;
    memset(dataset, 0, sizeof *dataset);
    EsStatus status = list_images(&l);
    if (status == ES_STATUS_OK) {
        status = build_dataset(dataset, &l, options, pool, &order);
    }
    if (status == ES_STATUS_OK && l.n_ignored > 0) {
        es_log(ES_LOG_WARNING, "%.200s: %lld files are no images by their names and are left out",
               path, (long long)l.n_ignored);
    }
    for (int64_t i = 0; i < l.n; i++) {
        free(l.files[i].path);
    }
    es_release(l.files);
    es_release(order);
    release_names(&l.classes);
    if (status != ES_STATUS_OK) {
        es_dataset_destroy(dataset);
    }
    return status;
}
