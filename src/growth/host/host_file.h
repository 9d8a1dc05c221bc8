// Hosts by name, with their data sets: a preset, or a host of your own described in an INI file.
//
// Blocks are given either as a family (channels double from block to block) or one by one; then
// every block has its own channels, kernel and pool:
//
//     [host]                     [host]
//     name = slim                name = hourglass
//     data = tiny                data = tiny
//     base = 3                   [block0]
//     kernel = 5                 channels = 12
//     blocks = 3                 kernel = 5
//     pools = 2                  pool = max
//                                after_pool = on
//                                [block1]
//                                channels = 4
//
// A host for rows has layers instead, each with a slot behind it:
//
//     [host]
//     kind = dense
//     layers = 32, 16
//
// before_pool and after_pool choose the places for seeds; a slot is then r0c<block> or r1c<block>
// (host.h). Missing keys have defaults; anything unknown or impossible is CONFIG and names file,
// line and the nearest valid name.
//
//     EsHostSpec host; EsSlot slots[ES_SLOTS_MAX]; int n_slots;
//     ES_TRY(es_host_load("hourglass.ini", &host, slots, &n_slots));
//     ...                                 // copies of `host` are good until
//     es_host_unload(&host);
#ifndef ES_GROWTH_HOST_FILE_H
#define ES_GROWTH_HOST_FILE_H

#include "data/dataset.h"
#include "growth/host/host.h"

ES_EXTERN_C_BEGIN

// Read a host and the slots it offers, row by row. `slots` takes ES_SLOTS_MAX. On failure nothing
// is kept, and *host needs no unload.
EsStatus es_host_load(const char *path, EsHostSpec *host, EsSlot *slots, int *n_slots);

// Release the names of a loaded host. Presets, and hosts already unloaded, are left alone.
void es_host_unload(EsHostSpec *host);

// Returns whether a task is the path of a host file: it has a '/' or ends in ".ini".
int es_host_is_file(const char *task);

// A preset by name, or the host described in a file; released with es_host_unload either way. INPUT
// when the file cannot be read.
EsStatus es_host_find(const char *task, EsHostSpec *host);

// Opens `data` ("" or NULL: the host's own), a name or a path (es_dataset_open), and gives the host
// size, channels and classes of its images, a dense host columns and classes of its rows. cifar10
// and idx are read from options->folder ("" or NULL: ES_DATA_DIR); the others generate from the
// seed or are split by it, with n_threads; options->n_classes is the host's. ARGUMENT when there is
// no data set, or the folder is missing or of no use; INPUT when it has images and the host takes
// rows, or the other way round.
EsStatus es_host_open_dataset(EsHostSpec *host, const char *data, const EsDatasetOptions *options,
                              int n_threads, EsDataset *dataset);

ES_EXTERN_C_END

#endif
