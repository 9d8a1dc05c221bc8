// Seeds in a fused step: the launchers for what happens at a slot, and the sizes they need.
//
// A row whose slot mixes its seed in (EsBlendMode from ADD on) has the slot's output in memory of
// its own; its gradient goes back to what entered the slot. A row that incubates its seed only
// learns the seed's parameters. Blocks of threads of all other rows leave at once, so one launch
// per slot and direction serves every row, whatever it holds.
//
// In a training step: forward of each slot after its block's convolution; backward of each slot
// before its block's, slot after the pool first. Packing their weights and summing their gradients
// goes with the host's (fused_kernels.h).
#ifndef ES_GROWTH_FUSED_SEED_H
#define ES_GROWTH_FUSED_SEED_H

#include "growth/fused/fused_net.h"

ES_EXTERN_C_BEGIN

// Bytes of packed weights of the largest blueprint at a place, forward and for input gradients.
size_t es_fused_seed_packed_bytes(const EsFusedPlace *place, EsDtype precision);

// Floats of one part of the gradients of a place's gate and seed.
int es_fused_seed_part_length(const EsFusedPlace *place);

// Shared memory of the kernels with so many images per part.
size_t es_fused_seed_forward_bytes(const EsFusedPlace *place, EsDtype precision, int n_images);
size_t es_fused_seed_backward_bytes(const EsFusedPlace *place, EsDtype precision, int n_images);

// What images are shared out over.
typedef struct EsFusedRoom {
    int64_t n_rows, n_images; // of a row
    int n_units;              // multiprocessors
    size_t shared_limit;      // bytes of shared memory of a block of threads
} EsFusedRoom;

// Images per part (es_row_begin) of both directions: as many as let three blocks of threads
// (backward two) share a multiprocessor, else fewer blocks; fewer images where parts would leave
// more than every other multiprocessor idle. UNSUPPORTED when one image is too many.
EsStatus es_fused_seed_images(const EsFusedPlace *place, EsDtype precision, const EsFusedRoom *room,
                              int *forward_images, int *backward_images);

// Rows that mix: y = blend(h, seed(h)), into memory[b].middle (before the pool; pooled where the
// block has one) or memory[b].out (after it).
void es_fused_seed_forward(EsStream *stream, EsDtype precision, const EsFusedArguments *args,
                           int slot, int images_per_part);

// Rows whose seed runs: gradients of its parameters, a part each, into seed_parts[slot], [R]
// [n_seed_parts[slot] = ceil(N / images_per_part)][es_fused_seed_part_length]. Where it mixes, the
// gradient of what entered the slot too: memory[b].d_relu (before the pool) or d_middle (after it),
// and the sums for the block's batch norm unless another mixing slot of the block lies before this
// one.
void es_fused_seed_backward(EsStream *stream, EsDtype precision, const EsFusedArguments *args,
                            int slot, int images_per_part);

ES_EXTERN_C_END

#endif
