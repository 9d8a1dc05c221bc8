// A network's file: the parameters, states and optimiser moments of all environments, by name, in
// one safetensors file that is written atomically.
//
// Tensors are named as in the graph ("block0.conv.weight", [E, ...], [1, ...] of a shared store);
// moments carry the prefix "moment1." or "moment2.", Adam's step counts are "n_steps". Loading
// checks everything before it changes anything.
#ifndef ES_NETWORK_NETWORK_FILE_H
#define ES_NETWORK_NETWORK_FILE_H

#include "network/slab_optimiser.h"
#include "tensor/safetensors.h"

ES_EXTERN_C_BEGIN

// The optimiser is nullable. Waits for the stream.
EsStatus es_network_file_save(const char *path, const EsGraph *graph, const EsStore *store,
                              const EsOptimiser *optimiser, EsStream *stream,
                              const EsMetadata *metadata, int n_metadata);

// Values that a network's numbers may take.
typedef enum EsNumbers {
    ES_NUMBERS_ANY,   // one of many that diverged goes on as it is
    ES_NUMBERS_FINITE // nothing sensible follows from others
} EsNumbers;

// Loads a file that es_network_file_save wrote. INPUT names the tensor that is missing, of another
// shape or with a number that cannot be; the network is then as it was before. With an optimiser
// its moments must be in the file. Waits for the stream.
EsStatus es_network_file_load(const char *path, const EsGraph *graph, EsStore *store,
                              EsOptimiser *optimiser, EsStream *stream, EsNumbers numbers);

ES_EXTERN_C_END

#endif
