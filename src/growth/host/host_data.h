// Hosts and their data sets, found by what a user writes.
#ifndef ES_GROWTH_HOST_DATA_H
#define ES_GROWTH_HOST_DATA_H

#include "data/dataset.h"
#include "growth/host/host_file.h"

ES_EXTERN_C_BEGIN

// Whether a task is the path of a described host: it has a '/' or ends in ".ini".
int es_host_is_file(const char *task);

// A preset by name, or the host described in a file; released with es_host_unload either way. INPUT
// when the file cannot be read.
EsStatus es_host_find(const char *task, EsHostSpec *host);

// Open `data` ("" or NULL: the host's own) and give the host the size, channels and classes of its
// images. cifar10 and idx are read from `folder` ("" or NULL: ES_DATA_DIR); for the others `seed`
// generates, with n_threads. ARGUMENT when there is no data set, or the folder is missing or of no
// use; INPUT when the images are not square.
EsStatus es_host_open_dataset(EsHostSpec *host, const char *data, const char *folder, uint64_t seed,
                              int n_threads, EsDataset *dataset);

ES_EXTERN_C_END

#endif
