// Safetensors files: named tensors in one file, read into aligned memory, written atomically.
//
// Layout: 8 bytes little-endian header length, JSON header {"name": {"dtype", "shape",
// "data_offsets"}, "__metadata__"}, then the data. Opening checks everything (lengths, overlaps,
// bounds, dtypes, the hash of the tensors where the file has one), so a view can be trusted. The
// reader checks the numbers themselves (base/range_check.h).
//
//     EsSafetensors *file; ES_TRY(es_safetensors_open("model.safetensors", &file));
//     EsTensor weight;     ES_TRY(es_safetensors_find(file, "conv.weight", &weight));
//     es_safetensors_close(file);
#ifndef ES_TENSOR_SAFETENSORS_H
#define ES_TENSOR_SAFETENSORS_H

#include "base/checksum.h"
#include "esper/status.h"
#include "tensor/tensor.h"

ES_EXTERN_C_BEGIN

typedef struct EsSafetensors EsSafetensors;

typedef struct EsNamedTensor {
    const char *name; // borrowed
    EsTensor tensor;  // CPU memory, contiguous
} EsNamedTensor;

typedef struct EsMetadata {
    const char *key, *value; // borrowed
} EsMetadata;

// Metadata entry with the SHA-256 of all tensors: names, dtypes, shapes and numbers, in any order
// in the file; docs/file-formats.md says how. es_safetensors_save fills it in for the entry
// ES_TENSORS_HASH_ENTRY, es_safetensors_open refuses a file that does not fit it.
#define ES_TENSORS_HASH       "tensors_sha256"
#define ES_TENSORS_HASH_ENTRY ((EsMetadata){ES_TENSORS_HASH, NULL})

// Opens and checks a file. INPUT names the fault and its byte; IO says why it cannot be read.
EsStatus es_safetensors_open(const char *path, EsSafetensors **file);
void es_safetensors_close(EsSafetensors *file);

int es_safetensors_count(const EsSafetensors *file);

// Tensor `i` in file order; the view borrows the file's memory and is valid until close.
EsNamedTensor es_safetensors_at(const EsSafetensors *file, int i);

// INPUT with the file's name when there is no such tensor.
EsStatus es_safetensors_find(const EsSafetensors *file, const char *name, EsTensor *view);

// NULL when the file has no such entry.
const char *es_safetensors_metadata(const EsSafetensors *file, const char *key);

// Note in the log that a file has no hash of its tensors, as those of earlier versions.
void es_safetensors_note_hash(const EsSafetensors *file);

// The value of that entry for these tensors, which are contiguous.
EsStatus es_safetensors_hash(const EsNamedTensor *tensors, int n_tensors,
                             char text[ES_SHA256_TEXT_BYTES]);

// Write a file through a temporary, fsync, rename and fsync of the folder: after a crash there is
// the old file or the new. A value of NULL is for ES_TENSORS_HASH alone.
EsStatus es_safetensors_save(const char *path, const EsNamedTensor *tensors, int n_tensors,
                             const EsMetadata *metadata, int n_metadata);

ES_EXTERN_C_END

#endif
