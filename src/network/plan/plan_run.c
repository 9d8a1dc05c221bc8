// Running a plan, as a whole or in halves, and capturing it on CUDA.
#include <stdio.h>

#include "network/plan/plan_internal.h"
#include "tensor/profile.h"

// --- one node ---

// NULL for an absent optional value
static const EsTensor *at(const EsTensor *tensors, EsValueId value) {
    return value == ES_NO_VALUE ? NULL : &tensors[value];
}

// Runs one node as one kernel call. The switch is generated from the list of operations, so that a
// node's operands are named in one place.
void es_execute_node(const EsKernels *k, EsStream *s, const EsNode *node, const EsTensor *tensors) {
    const EsTensor *in[ES_MAX_NODE_INPUTS] = {0}, *out[ES_MAX_NODE_OUTPUTS] = {0};
    const int n_inputs = node->n_inputs;
    for (int i = 0; i < n_inputs; i++) {
        in[i] = at(tensors, node->input[i]);
    }
    for (int i = 0; i < node->n_outputs; i++) {
        out[i] = at(tensors, node->output[i]);
    }
    const EsAttributes *a = &node->attributes;
    switch (node->op) {
#define X(name, kernel, inputs, outputs, arguments)                                                \
    case ES_OP_##name:                                                                             \
        k->kernel arguments;                                                                       \
        break;
        ES_KERNEL_OP_LIST(X)
#undef X
#define X(name, kernel, inputs, outputs) case ES_OP_##name:
        ES_ALIAS_OP_LIST(X)
#undef X
        break;
    case ES_OP_COUNT:
        ES_ASSERT(node->op != ES_OP_COUNT);
    }
}

// --- a plan ---

void es_plan_forget_captures(EsPlan *plan) {
    for (int range = 0; range < PLAN_RANGES; range++) {
        es_graph_capture_forget(&plan->graph_capture[range]);
    }
    plan->report.is_captured = 0;
}

EsStatus es_plan_bind(EsPlan *plan, EsValueId input, const EsTensor *tensor) {
    if (input < 0 || input >= plan->graph->n_values) {
        return ES_FAIL(ARGUMENT, "there is no value %d in the graph", input);
    }
    const EsValue *value = &plan->graph->values[input];
    if (value->role != ES_ROLE_INPUT) {
        return ES_FAIL(ARGUMENT, "\"%s\" is not an input of the graph", value->name);
    }
    EsTensor wanted =
        es_tensor_view(NULL, value->dtype, plan->store->device, value->rank, value->dim);
    if (tensor->dtype != value->dtype || !es_tensor_same_shape(tensor, &wanted) ||
        !es_tensor_is_contiguous(tensor)) {
        char given[96], expected[96];
        return ES_FAIL(ARGUMENT, "input \"%s\" is %s, expected contiguous %s", value->name,
                       es_tensor_describe(tensor, given, sizeof given),
                       es_tensor_describe(&wanted, expected, sizeof expected));
    }
    if (tensor->device != plan->store->device) {
        return ES_FAIL(ARGUMENT, "input \"%s\" is on another device than the plan", value->name);
    }
    plan->tensors[input] = *tensor;
    plan->all_bound = 0;
    // a capture holds the old address: the next run captures again
    es_plan_forget_captures(plan);
    // gradients that come in under one shape may go on under another; aliases follow their sources
    for (int v = input + 1; v < plan->graph->n_values && plan->lanes == NULL; v++) {
        EsValueId source = plan->graph->values[v].alias_of;
        if (source != ES_NO_VALUE) {
            plan->tensors[v].data = plan->tensors[source].data;
        }
    }
    return ES_STATUS_OK;
}

static EsStatus check_bound(EsPlan *plan) {
    for (int v = 0; v < plan->graph->n_values && !plan->all_bound; v++) {
        if (plan->graph->values[v].role == ES_ROLE_INPUT && plan->tensors[v].data == NULL) {
            return ES_FAIL(ARGUMENT, "input \"%s\" is not bound", plan->graph->values[v].name);
        }
    }
    plan->all_bound = 1;
    return ES_STATUS_OK;
}

// Times a plan's calls on the CPU; on CUDA launches time themselves.
static int begin_on_cpu(const EsPlan *plan, const char *name) {
    EsDevice *device = plan->store->device;
    return es_device_info(device)->kind == ES_DEVICE_CPU
               ? es_profile_span_begin(device, NULL, ES_PROFILE_LAUNCH, name)
               : -1;
}

static void end_on_cpu(const EsPlan *plan, int span) {
    es_profile_span_end(plan->store->device, NULL, span);
}

static EsStatus run_nodes(EsPlan *plan, PlanRange range, EsStream *stream) {
    const EsGraph *graph = plan->graph;
    const EsKernels *kernels = es_kernels_of(plan->store->device);
    int has_halves = graph->n_forward_nodes > 0;
    int first = range == PLAN_BACKWARD ? graph->n_forward_nodes : 0;
    int last = range == PLAN_FORWARD && has_halves ? graph->n_forward_nodes : graph->n_nodes;
    if (range != PLAN_FORWARD && plan->clears_gradients) {
        // gradients left there by another plan of this store must not move a parameter
        EsTensor *slab = &plan->store->gradients;
        ES_TRY(es_stream_fill(stream, slab->data, 0, es_tensor_bytes(slab)));
    }
    for (int n = first; n < last; n++) {
        if (plan->lanes == NULL || plan->is_left_out[n]) {
            int span = begin_on_cpu(plan, es_op_name(graph->nodes[n].op));
            es_execute_node(kernels, stream, &graph->nodes[n], plan->tensors);
            end_on_cpu(plan, span);
        }
    }
    if (plan->lanes != NULL) {
        int span = begin_on_cpu(plan, "vector_engine");
        es_lane_program_run(plan->lanes, stream);
        end_on_cpu(plan, span);
    }
    if (range == PLAN_FORWARD) {
        return ES_STATUS_OK;
    }
    if (plan->options.optimiser != NULL) {
        int span = begin_on_cpu(plan, "optimiser_step");
        es_optimiser_step(plan->options.optimiser, stream);
        end_on_cpu(plan, span);
    }
    if (plan->options.step != ES_NO_VALUE) {
        kernels->count_steps(stream, &plan->tensors[plan->options.step]);
    }
    return ES_STATUS_OK;
}

// The arguments of queue_range, which es_graph_capture_run calls.
typedef struct RangeRun {
    EsPlan *plan;
    PlanRange range;
} RangeRun;

static EsStatus queue_range(void *context, EsStream *stream) {
    const RangeRun *run = context;
    return run_nodes(run->plan, run->range, stream);
}

static EsStatus run_range(EsPlan *plan, PlanRange range, EsStream *stream) {
    if (plan->options.is_hosted) {
        return ES_FAIL(ARGUMENT, "a hosted plan is run by its workers (network/plan/plan_host.h)");
    }
    ES_TRY(check_bound(plan));
    EsGraphCapture *graph_capture = &plan->graph_capture[range];
    RangeRun run = {plan, range};
    ES_TRY(es_graph_capture_run(graph_capture, stream, plan->options.mode == ES_COMPILE_DEFAULT,
                                queue_range, &run));
    plan->report.is_captured = graph_capture->capture != NULL;
    plan->report.capture_ms = graph_capture->capture_ms;
    if (graph_capture->fallback[0] != '\0') {
        snprintf(plan->report.fallback, sizeof plan->report.fallback, "%s",
                 graph_capture->fallback);
    }
    plan->has_forward = range == PLAN_FORWARD;
    return ES_STATUS_OK;
}

EsStatus es_plan_run(EsPlan *plan, EsStream *stream) { return run_range(plan, PLAN_WHOLE, stream); }

EsStatus es_plan_run_forward(EsPlan *plan, EsStream *stream) {
    if (plan->lanes != NULL) {
        return ES_FAIL(UNSUPPORTED, "a plan on the vector engine runs as a whole; ES_COMPILE_OFF "
                                    "makes one that runs in halves");
    }
    return run_range(plan, PLAN_FORWARD, stream);
}

EsStatus es_plan_run_backward(EsPlan *plan, EsStream *stream) {
    if (plan->lanes != NULL) {
        return ES_FAIL(UNSUPPORTED, "a plan on the vector engine runs as a whole; ES_COMPILE_OFF "
                                    "makes one that runs in halves");
    }
    if (plan->graph->n_forward_nodes == 0) {
        return ES_FAIL(ARGUMENT, "the graph has no gradients to run backward");
    }
    if (!plan->has_forward) {
        return ES_FAIL(ARGUMENT, "each backward half follows a forward half of its own");
    }
    return run_range(plan, PLAN_BACKWARD, stream);
}
