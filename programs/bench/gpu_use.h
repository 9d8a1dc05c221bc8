// Who else uses a GPU. Benchmarks refuse to run beside others.
#ifndef ES_PROGRAMS_GPU_USE_H
#define ES_PROGRAMS_GPU_USE_H

// Number of other processes that compute on CUDA device `index`, or -1 when that cannot be found
// out.
int es_gpu_other_processes(int index);

#endif
