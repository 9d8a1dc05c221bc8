#include "proof/cuda/expand_cuda.h"

#include "kernels/cuda/cuda_common.cuh"

#define THREADS 32

static __global__ void expand_kernel(const __grid_constant__ EsKnowledgeGraph graph,
                                     const __grid_constant__ EsProofSettings settings, int32_t n,
                                     const ExpandTask *tasks, EsSuccessors *out) {
    int32_t i = (int32_t)(blockIdx.x * THREADS + threadIdx.x);
    if (i < n) {
        expand_task(&graph, &settings, &tasks[i], &out[i]);
    }
}

EsStatus expand_on_device(EsStream *stream, const EsKnowledgeGraph *view,
                          const EsProofSettings *settings, int32_t n, const ExpandTask *tasks,
                          EsSuccessors *out) {
    {
        EsLaunch launch(stream, "proof_expand");
        launch.start(expand_kernel, dim3((unsigned)es_ceil_div(n, THREADS)), THREADS, *view,
                     *settings, n, tasks, out);
    }
    return es_stream_synchronize(stream);
}
