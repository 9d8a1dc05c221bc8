// Stands for the table of CUDA kernels in a build without CUDA.
#include "kernels/kernels.h"

const EsKernels *es_kernels_cuda(void) { return NULL; }
