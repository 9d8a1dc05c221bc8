// Plans: a graph made ready to run on a device. Memory is assigned, kernels are chosen, and on CUDA
// the whole step becomes a captured graph.
//
// ES_COMPILE_OFF runs node by node through the plain kernels, every value in memory of its own: for
// debugging, and the specification of the rest. ES_COMPILE_DEFAULT lets activations share memory,
// runs the vector engine on the CPU where the graph allows it (network/lanes/lane_program.h; never
// with a shared store or gradients from outside), and on CUDA captures the second run and replays
// it from then on. A capture that fails is reported and changes nothing but speed: the kernels are
// the same.
//
//     EsPlanOptions options = es_plan_defaults();
//     options.optimiser = optimiser;
//     EsPlan *plan; ES_TRY(es_plan_create(graph, store, &options, &plan));
//     ES_TRY(es_plan_bind(plan, images, &images_tensor));
//     ES_TRY(es_plan_run(plan, stream));
//     EsTensor loss = es_plan_tensor(plan, loss_value);
#ifndef ES_NETWORK_PLAN_H
#define ES_NETWORK_PLAN_H

#include "network/slab_optimiser.h"
#include "network/store.h"

ES_EXTERN_C_BEGIN

typedef enum EsCompileMode { ES_COMPILE_OFF, ES_COMPILE_DEFAULT } EsCompileMode;

typedef struct EsPlanOptions {
    EsCompileMode mode;
    EsDtype activation_dtype; // F32, or BF16 on CUDA for graphs of the CNN path
    EsOptimiser *optimiser;   // borrowed, nullable: stepped after the graph
    EsValueId step;           // i32 [1] input advanced at the end of a run, or ES_NO_VALUE
    int is_hosted; // CPU: no memory of its own; run by es_plan_worker_run alone (plan_host.h)
} EsPlanOptions;

// Sizes and choices of a finished plan, for reports such as `esper info` and telemetry.
typedef struct EsPlanReport {
    int n_nodes;
    int uses_lanes;          // the vector engine runs it
    int is_fused;            // CUDA: the fused executor runs it (growth/fused/fused_step.h)
    int is_captured;         // replayed as one launch, or one for each half
    size_t activation_bytes; // of the plan, shared
    size_t unshared_bytes;   // their bytes without sharing
    double build_ms, capture_ms;
    char fallback[256]; // why the faster way was not taken; "" when it was
} EsPlanReport;

#define ES_EXECUTOR_BYTES 384

// Writes what runs the work: "fused kernels", "vector engine" or "plan of 41 single operations",
// and where a faster way was not taken ": " and why. Returns text.
const char *es_plan_report_executor(const EsPlanReport *report, char text[ES_EXECUTOR_BYTES]);

typedef struct EsPlan EsPlan;

EsPlanOptions es_plan_defaults(void);

// The graph, store and optimiser are borrowed and must outlive the plan.
EsStatus es_plan_create(const EsGraph *graph, EsStore *store, const EsPlanOptions *options,
                        EsPlan **plan);
void es_plan_destroy(EsPlan *plan);

// Give an input its memory: same device, dtype and shape. Later again to change it; a captured plan
// is then captured anew.
EsStatus es_plan_bind(EsPlan *plan, EsValueId input, const EsTensor *tensor);

// Queue one run. Fails when an input is unbound, or when the device has failed.
EsStatus es_plan_run(EsPlan *plan, EsStream *stream);

// The two halves of es_plan_run for a differentiated graph, in turn, with the same bits: code
// between them can compute the inputs of the second (es_graph_differentiate_from). Results of the
// first half are there until it runs again; optimiser and step counter belong to the second. A
// forward half may also run alone, and again. UNSUPPORTED for plans on the vector engine, which
// fuses the halves.
EsStatus es_plan_run_forward(EsPlan *plan, EsStream *stream);
EsStatus es_plan_run_backward(EsPlan *plan, EsStream *stream);

// The memory of any value the plan holds; activations are valid only in mode OFF or when kept
// (es_graph_keep).
EsTensor es_plan_tensor(const EsPlan *plan, EsValueId value);

EsPlanReport es_plan_report(const EsPlan *plan);

ES_EXTERN_C_END

#endif
