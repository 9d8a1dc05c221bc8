// One host of a plan, run by one thread, or on CUDA queued on one stream.
//
// Hosts may differ in topology. On the CPU every thread runs whole hosts, each with the plan of its
// own shape; on CUDA those of a worker follow each other on its stream. Such a plan is
// *hosted* (EsPlanOptions.is_hosted): it has no memory for activations and is not changed by runs,
// so several workers can run it at the same time, each with memory of its own. The graph still has
// all E environments and the store their slabs; a worker narrows every tensor to one environment.
// The bits are those of es_plan_run.
//
// On CUDA a run queues its work and waits for nothing, and all of it can be captured; addresses
// change with a reservation that needs more memory, and with nothing else.
//
// Creating, reserving and binding inputs of a plan (es_plan_bind) belong to one thread while no
// worker runs. begin, bind, run and tensor of different workers may run side by side, as pieces of
// es_thread_pool_run.
//
//     EsPlanWorker *worker; ES_TRY(es_plan_worker_create(device, &worker));
//     ES_TRY(es_plan_worker_reserve(worker, plan));
//     es_plan_worker_begin(worker, plan, env);
//     es_plan_worker_run(worker);
//     EsTensor loss = es_plan_worker_tensor(worker, loss_value);
#ifndef ES_NETWORK_PLAN_HOST_H
#define ES_NETWORK_PLAN_HOST_H

#include "network/plan/plan.h"

ES_EXTERN_C_BEGIN

// Memory for activations and results of one host, enough for the largest plan reserved.
typedef struct EsPlanWorker EsPlanWorker;

// The device is the plans', a CPU; borrowed.
EsStatus es_plan_worker_create(EsDevice *device, EsPlanWorker **worker);

// A worker whose hosts run on all threads of the device, where there are fewer hosts than threads;
// it runs while no other does. The bits are those of a single thread.
EsStatus es_plan_team_create(EsDevice *device, EsPlanWorker **team);

// A worker whose hosts run on a CUDA stream, which is borrowed.
EsStatus es_plan_stream_worker_create(EsStream *stream, EsPlanWorker **worker);
void es_plan_worker_destroy(EsPlanWorker *worker);

// Make room for running this plan, before the first begin. Allocates only when it needs more than
// any before, and then waits for the stream; counted by the device.
EsStatus es_plan_worker_reserve(EsPlanWorker *worker, const EsPlan *plan);

// Bytes of device memory that a worker holds; they change when its memory moves.
size_t es_plan_worker_held(const EsPlanWorker *worker);

// Bytes that reserving this plan takes in a worker that has nothing yet.
size_t es_plan_worker_bytes(const EsPlan *plan);

// Prepares to run environment env of the plan: every tensor with an environment axis is narrowed to
// it, [1, ...]. Tensors bound with es_plan_bind stay bound.
void es_plan_worker_begin(EsPlanWorker *worker, const EsPlan *plan, int64_t env);

// Another tensor in place of an input until the next begin: contiguous [1, ...], or shared.
void es_plan_worker_bind(EsPlanWorker *worker, EsValueId input, const EsTensor *tensor);

// Memory of the caller for a result until the next begin, of the result's type and shape [1, ...].
void es_plan_worker_place(EsPlanWorker *worker, EsValueId result, const EsTensor *tensor);

// Run it once on the calling thread: forward, and backward where the graph was differentiated. No
// optimiser, no step counter. May be repeated. Every input must be bound.
void es_plan_worker_run(EsPlanWorker *worker);

// The worker's own stream, which has this one thread: for kernels outside the plan.
EsStream *es_plan_worker_stream(const EsPlanWorker *worker);

// Memory of a value after the run, [1, ...]; parameters, gradients, inputs and results. Results
// last until the worker's next begin.
EsTensor es_plan_worker_tensor(const EsPlanWorker *worker, EsValueId value);

ES_EXTERN_C_END

#endif
