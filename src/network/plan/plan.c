// Makes a plan: which values share memory (activations whose lifetimes do not overlap), tensors
// bound to slabs, and the lowering to the vector engine where it can run the graph.
#include "network/plan/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "esper/log.h"
#include "network/plan/plan_internal.h"
#include "tensor/profile.h"

// The time a value's memory is needed: nodes [first, last].
typedef struct Lifetime {
    int first, last;
    size_t bytes, offset;
    int is_placed;
} Lifetime;

EsPlanOptions es_plan_defaults(void) {
    return (EsPlanOptions){ES_COMPILE_DEFAULT, ES_DTYPE_F32, NULL, ES_NO_VALUE, 0};
}

static int is_planned(const EsValue *value) {
    return value->role == ES_ROLE_ACTIVATION || value->role == ES_ROLE_RESULT;
}

static EsDtype planned_dtype(const EsPlan *plan, const EsValue *value) {
    return value->dtype == ES_DTYPE_F32 && value->is_rounded ? plan->options.activation_dtype
                                                             : value->dtype;
}

// The memory of a planned value: of all hosts, or of the one a worker runs.
static EsTensor planned_view(const EsPlan *plan, const EsValue *value, void *data) {
    EsTensor tensor = es_tensor_view(data, planned_dtype(plan, value), plan->store->device,
                                     value->rank, value->dim);
    if (plan->options.is_hosted) {
        ES_ASSERT(!value->is_shared);
        tensor.dim[0] = 1;
    }
    return tensor;
}

static void find_lifetimes(const EsPlan *plan, Lifetime *lives) {
    const EsGraph *graph = plan->graph;
    for (int v = 0; v < graph->n_values; v++) {
        lives[v] = (Lifetime){.first = -1, .last = -1};
        if (is_planned(&graph->values[v])) {
            EsTensor shape = planned_view(plan, &graph->values[v], NULL);
            lives[v].bytes = es_tensor_bytes(&shape);
        }
    }
    for (int n = 0; n < graph->n_nodes; n++) {
        const EsNode *node = &graph->nodes[n];
        for (int i = 0; i < node->n_inputs; i++) {
            if (node->input[i] != ES_NO_VALUE) {
                lives[node->input[i]].last = n;
            }
        }
        for (int i = 0; i < node->n_outputs; i++) {
            if (node->output[i] != ES_NO_VALUE) {
                Lifetime *life = &lives[node->output[i]];
                life->first = life->first < 0 ? n : life->first;
                life->last = ES_MAX(life->last, n);
            }
        }
    }
    // an alias keeps its source alive; aliases come after their sources, so walk backwards
    for (int v = graph->n_values - 1; v >= 0; v--) {
        if (graph->values[v].alias_of != ES_NO_VALUE) {
            Lifetime *source = &lives[graph->values[v].alias_of];
            source->last =
                ES_MAX(source->last,
                       graph->values[v].role == ES_ROLE_RESULT ? graph->n_nodes : lives[v].last);
        }
    }
    for (int v = 0; v < graph->n_values; v++) {
        if (graph->values[v].role == ES_ROLE_RESULT || plan->options.mode == ES_COMPILE_OFF) {
            lives[v].first = 0;
            lives[v].last = graph->n_nodes;
        }
    }
}

// The lowest offset at which `life` meets no value placed before that is alive at the same time.
static size_t lowest_offset(const Lifetime *lives, int n_values, const Lifetime *life) {
    size_t offset = 0;
    for (int again = 1; again;) {
        again = 0;
        for (int v = 0; v < n_values; v++) {
            const Lifetime *other = &lives[v];
            if (other->is_placed && other->first <= life->last && life->first <= other->last &&
                other->offset < offset + life->bytes && offset < other->offset + other->bytes) {
                offset = es_align_up(other->offset + other->bytes);
                again = 1;
            }
        }
    }
    return offset;
}

// Large values first, each at the lowest free offset of its lifetime. Returns the slab's size.
static size_t place_values(EsPlan *plan, Lifetime *lives, const unsigned char *is_needed) {
    const EsGraph *graph = plan->graph;
    size_t slab_bytes = 0;
    for (;;) {
        Lifetime *next = NULL;
        for (int v = 0; v < graph->n_values; v++) {
            if (is_needed[v] && !lives[v].is_placed &&
                (next == NULL || lives[v].bytes > next->bytes)) {
                next = &lives[v];
            }
        }
        if (next == NULL) {
            return slab_bytes;
        }
        next->offset = lowest_offset(lives, graph->n_values, next);
        next->is_placed = 1;
        slab_bytes = ES_MAX(slab_bytes, next->offset + next->bytes);
        plan->report.unshared_bytes += es_align_up(next->bytes);
    }
}

// With the vector engine, only its inputs, its results and the nodes that run before it need memory
// here.
static void mark_needed(const EsPlan *plan, unsigned char *is_needed) {
    const EsGraph *graph = plan->graph;
    for (int v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        int is_before =
            value->producer >= 0 && plan->lanes != NULL && plan->is_left_out[value->producer];
        // the engine copies its results out, aliases as well
        is_needed[v] =
            is_planned(value) && (plan->lanes == NULL ? value->alias_of == ES_NO_VALUE
                                                      : value->role == ES_ROLE_RESULT || is_before);
    }
}

static EsStatus assign_memory(EsPlan *plan) {
    const EsGraph *graph = plan->graph;
    Lifetime *lives = NULL;
    unsigned char *is_needed = NULL;
    EsStatus status = ES_STATUS_OK;
    size_t n_values = (size_t)ES_MAX(graph->n_values, 1);
    ES_TRY_GOTO(es_allocate(sizeof *lives * n_values, (void **)&lives));
    ES_TRY_GOTO(es_allocate(n_values, (void **)&is_needed));
    find_lifetimes(plan, lives);
    mark_needed(plan, is_needed);
    if (plan->lanes != NULL) {
        // outputs of nodes before the engine must live through all of it
        for (int v = 0; v < graph->n_values; v++) {
            lives[v].last = graph->n_nodes;
        }
    }
    plan->slab_bytes = place_values(plan, lives, is_needed);
    plan->report.activation_bytes = plan->slab_bytes;
    if (!plan->options.is_hosted) {
        ES_TRY_GOTO(es_device_allocate(plan->store->device, plan->slab_bytes, &plan->slab));
    }
    for (int v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        plan->offsets[v] = is_needed[v] ? lives[v].offset : ES_PLAN_NO_OFFSET;
        if (is_needed[v]) {
            unsigned char *slab = plan->slab;
            plan->tensors[v] =
                planned_view(plan, value, slab != NULL ? slab + lives[v].offset : NULL);
        } else if (value->alias_of != ES_NO_VALUE && plan->lanes == NULL) {
            EsTensor shape = planned_view(plan, value, NULL);
            // an input has no memory until it is bound, which gives it to its aliases
            plan->tensors[v] =
                graph->values[value->alias_of].role == ES_ROLE_INPUT
                    ? shape
                    : es_tensor_reshape(&plan->tensors[value->alias_of], value->rank, shape.dim);
        }
    }
done:
    es_release(lives);
    es_release(is_needed);
    return status;
}

// Try the vector engine; a graph it cannot run falls back to the plain kernels, and the report says
// why.
static EsStatus try_lanes(EsPlan *plan) {
    EsStatus status;
    if (plan->graph->is_given_gradients) {
        status = ES_FAIL(UNSUPPORTED, "the loss is computed outside the graph");
    } else if (plan->store->is_shared) {
        status = ES_FAIL(UNSUPPORTED, "the environments share their parameters");
    } else {
        status = es_lane_program_create(plan->graph, plan->tensors, plan->store->device,
                                        plan->options.is_hosted, plan->is_left_out, &plan->lanes);
    }
    if (status == ES_STATUS_UNSUPPORTED) {
        snprintf(plan->report.fallback, sizeof plan->report.fallback, "%s", es_status_detail());
        es_log(ES_LOG_DEBUG, "plan: plain kernels, because %s", es_status_detail());
        return ES_STATUS_OK;
    }
    plan->report.uses_lanes = status == ES_STATUS_OK;
    return status;
}

// F32 in every precision: the alphas of blends, one number per environment.
static int is_alpha(const EsNode *node, int input) {
    return (node->op == ES_OP_BLEND_FORWARD || node->op == ES_OP_BLEND_BACKWARD) &&
           input == ES_BLEND_INPUT_ALPHA;
}

// A gather rounds what it reads.
static int is_gathered(const EsNode *node, int input) {
    return node->op == ES_OP_GATHER_IMAGES && input == 0;
}

static EsStatus check_options(const EsGraph *graph, const EsStore *store,
                              const EsPlanOptions *options) {
    ES_TRY(es_graph_status(graph));
    ES_TRY(es_store_check(store, graph));
    if (options->activation_dtype != ES_DTYPE_F32 &&
        (options->activation_dtype != ES_DTYPE_BF16 ||
         es_device_info(store->device)->kind != ES_DEVICE_CUDA)) {
        return ES_FAIL(UNSUPPORTED,
                       "activations in %s are not supported on this device; the CPU computes F32",
                       es_dtype_name(options->activation_dtype));
    }
    for (int n = 0; n < graph->n_nodes && options->activation_dtype != ES_DTYPE_F32; n++) {
        const EsNode *node = &graph->nodes[n];
        if (node->op == ES_OP_LSTM_FORWARD || node->op == ES_OP_EMBEDDING_FORWARD) {
            return ES_FAIL(UNSUPPORTED, "%s runs in F32 alone", es_op_name(node->op));
        }
        for (int i = 0; i < node->n_inputs; i++) {
            const EsValue *value =
                node->input[i] != ES_NO_VALUE ? &graph->values[node->input[i]] : NULL;
            if (value != NULL && value->role == ES_ROLE_INPUT && value->dtype == ES_DTYPE_F32 &&
                !is_alpha(node, i) && !is_gathered(node, i)) {
                return ES_FAIL(UNSUPPORTED,
                               "input \"%s\" is F32; a BF16 plan takes its images through a gather",
                               value->name);
            }
        }
    }
    if (options->is_hosted && graph->is_given_gradients) {
        return ES_FAIL(UNSUPPORTED, "a hosted plan computes its loss inside the graph");
    }
    if (options->is_hosted && (options->optimiser != NULL || options->step != ES_NO_VALUE)) {
        return ES_FAIL(ARGUMENT, "a hosted plan has no optimiser and no step counter");
    }
    if (options->step != ES_NO_VALUE && (options->step < 0 || options->step >= graph->n_values ||
                                         graph->values[options->step].role != ES_ROLE_INPUT ||
                                         graph->values[options->step].dtype != ES_DTYPE_I32 ||
                                         !graph->values[options->step].is_shared)) {
        return ES_FAIL(ARGUMENT,
                       "the plan's step must be a shared I32 input of the graph, or ES_NO_VALUE");
    }
    return ES_STATUS_OK;
}

// Returns whether gradients are read that no node of this graph writes: those of parameters that
// the loss does not reach, and of environments that the store has and the graph has not.
static int leaves_gradients(const EsPlan *plan) {
    const EsGraph *graph = plan->graph;
    if (plan->options.optimiser == NULL && !graph->is_given_gradients) {
        return 0;
    }
    int is_left = graph->n_envs < plan->store->gradients.dim[0];
    for (int v = 0; v < graph->n_values; v++) {
        is_left |=
            graph->values[v].role == ES_ROLE_PARAMETER && graph->values[v].gradient == ES_NO_VALUE;
    }
    return is_left;
}

EsStatus es_plan_create(const EsGraph *graph, EsStore *store, const EsPlanOptions *options,
                        EsPlan **plan_out) {
    *plan_out = NULL;
    ES_TRY(check_options(graph, store, options));
    int64_t start_ns = es_clock_ns();
    EsPlan *plan = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_allocate(sizeof *plan, (void **)&plan));
    plan->graph = graph;
    plan->store = store;
    plan->options = *options;
    plan->created_ns = start_ns;
    plan->report.n_nodes = graph->n_nodes;
    ES_TRY_GOTO(es_allocate(sizeof(EsTensor) * (size_t)ES_MAX(graph->n_values, 1),
                            (void **)&plan->tensors));
    ES_TRY_GOTO(
        es_allocate(sizeof(size_t) * (size_t)ES_MAX(graph->n_values, 1), (void **)&plan->offsets));
    ES_TRY_GOTO(es_allocate((size_t)ES_MAX(graph->n_nodes, 1), (void **)&plan->is_left_out));
    for (int v = 0; v < graph->n_values; v++) {
        EsRole role = graph->values[v].role;
        if (role == ES_ROLE_PARAMETER || role == ES_ROLE_GRADIENT || role == ES_ROLE_STATE) {
            plan->tensors[v] = es_store_tensor(store, graph, v);
        }
    }
    plan->clears_gradients = leaves_gradients(plan);
    if (options->mode == ES_COMPILE_DEFAULT &&
        es_device_info(store->device)->kind == ES_DEVICE_CPU) {
        ES_TRY_GOTO(try_lanes(plan));
    }
    ES_TRY_GOTO(assign_memory(plan));
    if (plan->lanes != NULL) {
        plan->report.activation_bytes += es_lane_program_bytes(plan->lanes);
    }
    plan->report.build_ms = es_clock_seconds_since(start_ns) * 1e3;
done:
    if (status != ES_STATUS_OK) {
        es_plan_destroy(plan);
        return status;
    }
    *plan_out = plan;
    return ES_STATUS_OK;
}

void es_plan_destroy(EsPlan *plan) {
    if (plan == NULL) {
        return;
    }
    es_plan_forget_captures(plan);
    es_lane_program_destroy(plan->lanes);
    es_device_release(plan->store->device, plan->slab);
    es_release(plan->tensors);
    es_release(plan->offsets);
    es_release(plan->is_left_out);
    es_release(plan);
}

EsTensor es_plan_tensor(const EsPlan *plan, EsValueId value) {
    ES_ASSERT(value >= 0 && value < plan->graph->n_values);
    return plan->tensors[value];
}

EsPlanReport es_plan_report(const EsPlan *plan) { return plan->report; }

const char *es_plan_report_executor(const EsPlanReport *report, char text[ES_EXECUTOR_BYTES]) {
    int used =
        report->is_fused || report->uses_lanes
            ? snprintf(text, ES_EXECUTOR_BYTES, "%s",
                       report->is_fused ? "fused kernels" : "vector engine")
            : snprintf(text, ES_EXECUTOR_BYTES, "plan of %d single operations", report->n_nodes);
    if (report->fallback[0] != '\0') {
        snprintf(text + used, ES_EXECUTOR_BYTES - (size_t)used, ": %s", report->fallback);
    }
    return text;
}

// --- running ---

// Running a plan, as a whole or in halves, and capturing it on CUDA.

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

const EsTensor *es_node_result(const EsNode *node, const EsTensor *tensors) {
    int i = 0;
    while (node->output[i] == ES_NO_VALUE) { // every node has one
        i++;
    }
    return &tensors[node->output[i]];
}

// Times a plan's calls on the CPU; on CUDA launches time themselves.
static int begin_on_cpu(EsDevice *device, const char *name) {
    return es_device_info(device)->kind == ES_DEVICE_CPU
               ? es_profile_span_begin(device, NULL, ES_PROFILE_LAUNCH, name)
               : -1;
}

// On either device the spans carry the shape of the node's first output.
void es_plan_run_node(EsDevice *device, const EsNode *node, const EsTensor *tensors,
                      EsStream *stream) {
    int first = es_profile_next_span(device);
    int span = begin_on_cpu(device, es_op_name(node->op));
    es_execute_node(es_kernels_of(device), stream, node, tensors);
    es_profile_span_end(device, NULL, span);
    for (int i = first; i < es_profile_next_span(device); i++) {
        es_profile_span_result(device, i, es_node_result(node, tensors));
    }
}

static EsStatus run_nodes(EsPlan *plan, PlanRange range, EsStream *stream) {
    const EsGraph *graph = plan->graph;
    EsDevice *device = plan->store->device;
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
            es_plan_run_node(device, &graph->nodes[n], plan->tensors, stream);
        }
    }
    if (plan->lanes != NULL) {
        int span = begin_on_cpu(device, "vector_engine");
        es_lane_program_run(plan->lanes, stream);
        es_profile_span_end(device, NULL, span);
    }
    if (range == PLAN_FORWARD) {
        return ES_STATUS_OK;
    }
    if (plan->options.optimiser != NULL) {
        int span = begin_on_cpu(device, "optimiser_step");
        es_optimiser_step(plan->options.optimiser, stream);
        es_profile_span_end(device, NULL, span);
    }
    if (plan->options.step != ES_NO_VALUE) {
        es_kernels_of(device)->count_steps(stream, &plan->tensors[plan->options.step]);
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
