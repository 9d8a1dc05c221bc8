// Runs one host of a plan with memory of a worker; every tensor is narrowed to its environment.
#include "network/plan/plan_host.h"

#include <string.h>

#include "base/memory.h"
#include "network/lanes/lane_host.h"
#include "network/plan/plan_internal.h"
#include "tensor/profile.h"

struct EsPlanWorker {
    EsDevice *device; // borrowed: its counters see the allocations
    EsDevice *serial; // owned: a CPU of one thread, for plain kernels; NULL in a team
    EsStream *stream; // owned: on it; of a team on the device; on CUDA borrowed
    int is_cuda;
    EsThreadPool *pool; // of a team: the device's; else NULL
    int n_threads;      // that run a host
    void *memory;       // owned [memory_bytes]: lane memory, then the plan's slab
    size_t memory_bytes;
    EsTensor *tensors; // owned [n_tensors], narrowed to the host
    int n_tensors;
    const EsPlan *plan; // borrowed, of the last begin
    int64_t created_ns; // of that plan
};

static EsStatus create(EsDevice *device, int is_team, EsPlanWorker **worker_out) {
    *worker_out = NULL;
    if (es_device_info(device)->kind != ES_DEVICE_CPU) {
        return ES_FAIL(ARGUMENT, "threads run hosts on the CPU; a stream does on CUDA");
    }
    EsPlanWorker *worker = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_allocate(sizeof *worker, (void **)&worker));
    worker->device = device;
    if (!is_team) {
        ES_TRY_GOTO(es_device_open_serial(device, &worker->serial));
    }
    ES_TRY_GOTO(es_stream_create(is_team ? device : worker->serial, &worker->stream));
    worker->pool = is_team ? es_stream_pool(worker->stream) : NULL;
    worker->n_threads = is_team ? es_thread_pool_size(worker->pool) : 1;
done:
    if (status != ES_STATUS_OK) {
        es_plan_worker_destroy(worker);
        return status;
    }
    *worker_out = worker;
    return ES_STATUS_OK;
}

EsStatus es_plan_worker_create(EsDevice *device, EsPlanWorker **worker) {
    return create(device, 0, worker);
}

EsStatus es_plan_team_create(EsDevice *device, EsPlanWorker **team) {
    return create(device, 1, team);
}

EsStatus es_plan_stream_worker_create(EsStream *stream, EsPlanWorker **worker) {
    EsDevice *device = es_stream_device(stream);
    *worker = NULL;
    if (es_device_info(device)->kind != ES_DEVICE_CUDA) {
        return ES_FAIL(ARGUMENT, "a stream runs hosts on CUDA; threads do on the CPU");
    }
    ES_TRY(es_allocate(sizeof **worker, (void **)worker));
    (*worker)->device = device;
    (*worker)->stream = stream;
    (*worker)->is_cuda = 1;
    (*worker)->n_threads = 1;
    return ES_STATUS_OK;
}

void es_plan_worker_destroy(EsPlanWorker *worker) {
    if (worker == NULL) {
        return;
    }
    es_device_release(worker->device, worker->memory);
    es_device_release_host(worker->device, worker->tensors);
    if (!worker->is_cuda) {
        es_stream_destroy(worker->stream);
    }
    es_device_close(worker->serial);
    es_release(worker);
}

static size_t lane_bytes(const EsPlan *plan, int n_threads) {
    return plan->lanes != NULL ? es_align_up(es_lane_host_bytes(plan->lanes, n_threads)) : 0;
}

size_t es_plan_worker_held(const EsPlanWorker *worker) { return worker->memory_bytes; }

size_t es_plan_worker_bytes(const EsPlan *plan) {
    return lane_bytes(plan, 1) + plan->slab_bytes +
           sizeof(EsTensor) * (size_t)plan->graph->n_values;
}

EsStatus es_plan_worker_reserve(EsPlanWorker *worker, const EsPlan *plan) {
    if (!plan->options.is_hosted || plan->store->device != worker->device) {
        return ES_FAIL(ARGUMENT, "a worker runs hosted plans of its own device");
    }
    size_t bytes = lane_bytes(plan, worker->n_threads) + plan->slab_bytes;
    if (bytes > worker->memory_bytes) {
        ES_TRY(worker->is_cuda ? es_stream_synchronize(worker->stream) : ES_STATUS_OK);
        es_device_release(worker->device, worker->memory);
        worker->memory = NULL;
        worker->memory_bytes = 0;
        worker->plan = NULL;
        ES_TRY(es_device_allocate(worker->device, bytes, &worker->memory));
        worker->memory_bytes = bytes;
    }
    if (plan->graph->n_values > worker->n_tensors) {
        es_device_release_host(worker->device, worker->tensors);
        worker->tensors = NULL;
        worker->n_tensors = 0;
        worker->plan = NULL;
        ES_TRY(es_device_allocate_host(worker->device,
                                       sizeof(EsTensor) * (size_t)plan->graph->n_values,
                                       (void **)&worker->tensors));
        worker->n_tensors = plan->graph->n_values;
    }
    return ES_STATUS_OK;
}

void es_plan_worker_begin(EsPlanWorker *worker, const EsPlan *plan, int64_t env) {
    const EsGraph *graph = plan->graph;
    ES_ASSERT(plan->options.is_hosted && plan->store->device == worker->device);
    ES_ASSERT(env >= 0 && env < graph->n_envs);
    ES_ASSERT(lane_bytes(plan, worker->n_threads) + plan->slab_bytes <= worker->memory_bytes &&
              graph->n_values <= worker->n_tensors);
    unsigned char *slab = (unsigned char *)worker->memory + lane_bytes(plan, worker->n_threads);
    for (int v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        const EsTensor *tensor = &plan->tensors[v];
        worker->tensors[v] = *tensor;
        if (plan->offsets[v] != ES_PLAN_NO_OFFSET) {
            worker->tensors[v].data = slab + plan->offsets[v];
        } else if (value->alias_of != ES_NO_VALUE) {
            // aliases come after their sources
            worker->tensors[v].data = worker->tensors[value->alias_of].data;
        } else if (tensor->data != NULL && !value->is_shared) {
            worker->tensors[v] = es_tensor_slice(tensor, 0, env, 1);
        }
    }
    int is_same = worker->plan == plan && worker->created_ns == plan->created_ns;
    if (plan->lanes != NULL && !is_same) {
        EsLaneHost host = es_lane_host_in(plan->lanes, NULL, worker->n_threads, worker->memory);
        es_lane_host_clear_borders(&host, worker->n_threads);
    }
    worker->plan = plan;
    worker->created_ns = plan->created_ns;
}

static void set_tensor(EsPlanWorker *worker, EsValueId id, EsRole role, const EsTensor *tensor) {
    ES_ASSERT(worker->plan != NULL && id >= 0 && id < worker->plan->graph->n_values);
    const EsValue *value = &worker->plan->graph->values[id];
    EsTensor wanted = es_tensor_view(NULL, value->dtype, NULL, value->rank, value->dim);
    if (!value->is_shared) {
        wanted.dim[0] = 1;
    }
    ES_ASSERT(value->role == role && tensor->dtype == value->dtype);
    ES_ASSERT(es_tensor_same_shape(tensor, &wanted) && es_tensor_is_contiguous(tensor));
    worker->tensors[id] = *tensor;
}

void es_plan_worker_bind(EsPlanWorker *worker, EsValueId input, const EsTensor *tensor) {
    set_tensor(worker, input, ES_ROLE_INPUT, tensor);
}

void es_plan_worker_place(EsPlanWorker *worker, EsValueId result, const EsTensor *tensor) {
    ES_ASSERT(worker->plan != NULL && worker->plan->lanes == NULL);
    // its kernel writes where the tensor is; an alias would be written through its source
    ES_ASSERT(worker->plan->graph->values[result].alias_of == ES_NO_VALUE);
    set_tensor(worker, result, ES_ROLE_RESULT, tensor);
}

void es_plan_worker_run(EsPlanWorker *worker) {
    const EsPlan *plan = worker->plan;
    ES_ASSERT(plan != NULL);
    const EsGraph *graph = plan->graph;
    for (int v = 0; v < graph->n_values; v++) {
        ES_ASSERT(graph->values[v].role != ES_ROLE_INPUT || worker->tensors[v].data != NULL);
    }
    const EsKernels *kernels = es_kernels_of(worker->device);
    for (int n = 0; worker->is_cuda && n < graph->n_nodes; n++) {
        es_plan_run_node(worker->device, &graph->nodes[n], worker->tensors, worker->stream);
    }
    for (int n = 0; !worker->is_cuda && n < graph->n_nodes; n++) {
        if (plan->lanes == NULL || plan->is_left_out[n]) {
            const char *name = es_op_name(graph->nodes[n].op);
            int span = es_profile_span_begin(worker->device, NULL, ES_PROFILE_LAUNCH, name);
            es_profile_span_result(worker->device, span,
                                   es_node_result(&graph->nodes[n], worker->tensors));
            es_execute_node(kernels, worker->stream, &graph->nodes[n], worker->tensors);
            es_profile_span_end(worker->device, NULL, span);
        }
    }
    if (plan->lanes != NULL) {
        int span = es_profile_span_begin(worker->device, NULL, ES_PROFILE_LAUNCH, "vector_engine");
        EsLaneHost host =
            es_lane_host_in(plan->lanes, worker->tensors, worker->n_threads, worker->memory);
        if (worker->pool != NULL) {
            es_lane_host_run_on(&host, worker->pool);
        } else {
            es_lane_host_run(&host, 0);
        }
        es_profile_span_end(worker->device, NULL, span);
    }
}

EsStream *es_plan_worker_stream(const EsPlanWorker *worker) { return worker->stream; }

EsTensor es_plan_worker_tensor(const EsPlanWorker *worker, EsValueId value) {
    ES_ASSERT(worker->plan != NULL && value >= 0 && value < worker->plan->graph->n_values);
    return worker->tensors[value];
}
