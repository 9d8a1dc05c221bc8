// Slots, instructions and phases of a lane program: the choice between storing a value and
// computing it again.
#include <string.h>

#include "base/memory.h"
#include "network/lanes/lane_internal.h"

void es_lane_fail_node(EsLowering *l, int node, const char *why) {
    if (l->status == ES_STATUS_OK) {
        l->status = ES_FAIL(UNSUPPORTED, "node %d (%s) %s", node,
                            es_op_name(l->graph->nodes[node].op), why);
    }
}

static void *append(EsLowering *l, void **array, int *count, int *capacity, size_t element_bytes) {
    if (*count == *capacity) {
        int wanted = *capacity == 0 ? 64 : *capacity * 2;
        if (es_reallocate(array, (size_t)*capacity * element_bytes,
                          (size_t)wanted * element_bytes) != ES_STATUS_OK) {
            l->status = ES_FAIL(MEMORY, "out of memory for a lane program");
            return NULL;
        }
        *capacity = wanted;
    }
    void *element = (unsigned char *)*array + (size_t)*count * element_bytes;
    memset(element, 0, element_bytes);
    (*count)++;
    return element;
}

int es_lane_add_activation(EsLowering *l, EsValueId value, int channels, int height, int width) {
    EsLaneProgram *p = l->program;
    LaneActivation *activation = append(l, (void **)&p->activations, &p->n_activations,
                                        &p->activations_capacity, sizeof *activation);
    if (activation == NULL) {
        return -1;
    }
    *activation = (LaneActivation){.channels = channels,
                                   .height = height,
                                   .width = width,
                                   .value = value,
                                   .producer = -1,
                                   .overwrites = -1};
    if (value != ES_NO_VALUE) {
        l->activation_of[value] = p->n_activations - 1;
    }
    return p->n_activations - 1;
}

int es_lane_output_activation(EsLowering *l, EsValueId value) {
    const EsValue *v = &l->graph->values[value];
    return es_lane_add_activation(l, value, (int)v->dim[2], v->rank == 5 ? (int)v->dim[3] : 1,
                                  v->rank == 5 ? (int)v->dim[4] : 1);
}

// Cheaper to run again in a later phase than to store its result. Images are small before they are
// loaded and large after, unless the map is small enough to stay in the cache.
static int is_repeatable(const EsLaneProgram *p, LaneOp op, const LaneActivation *result) {
    if (op == LANE_LOAD_IMAGES) {
        int count = result->channels * result->height * result->width * p->kernels->n_lanes;
        return count > ES_LANE_STORED_IMAGES;
    }
    return op == LANE_BATCHNORM_APPLY || op == LANE_FROM_ROWS;
}

// Make the activation readable in `phase`.
static void require(EsLowering *l, int activation, int phase) {
    EsLaneProgram *p = l->program;
    if (activation < 0 || l->status != ES_STATUS_OK) {
        return;
    }
    LaneInstruction producer = p->instructions[p->activations[activation].producer];
    if (producer.phase == phase) {
        return;
    }
    if (!is_repeatable(p, producer.op, &p->activations[activation])) {
        p->activations[activation].is_stored = 1;
        p->activations[activation].last_phase =
            ES_MAX(p->activations[activation].last_phase, phase);
        return;
    }
    for (int i = 0; i < p->n_instructions; i++) {
        const LaneInstruction *other = &p->instructions[i];
        if (other->op == producer.op && other->phase == phase && other->a == producer.a &&
            other->b == producer.b) {
            return;
        }
    }
    producer.phase = phase;
    es_lane_emit(l, producer);
}

// Returns the number of operands that are read; those after them are written.
static int n_reads(LaneOp op) {
    switch (op) {
    case LANE_LOAD_IMAGES:
    case LANE_FROM_ROWS:
        return 0;
    case LANE_CONV2D_BACKWARD_WEIGHT:
    case LANE_BATCHNORM_BACKWARD_SUMS:
    case LANE_ACTIVATION_BACKWARD:
    case LANE_POOL_BACKWARD:
    case LANE_ADD:
    case LANE_DEPTHWISE_BACKWARD_WEIGHT:
    case LANE_CHANNEL_SCALE_FORWARD:
    case LANE_NORM_MIX_FORWARD:
    case LANE_GROUPNORM_FORWARD:
    case LANE_SEED_INPUT_BACKWARD:
        return 2;
    case LANE_BATCHNORM_BACKWARD_INPUT:
    case LANE_PATCH_BACKWARD_WEIGHT:
    case LANE_CHANNEL_SCALE_BACKWARD:
    case LANE_NORM_MIX_BACKWARD:
    case LANE_BLEND_FORWARD:
        return 3;
    case LANE_GROUPNORM_BACKWARD:
    case LANE_BLEND_BACKWARD:
        return 4;
    default:
        return 1;
    }
}

int es_lane_emit(EsLowering *l, LaneInstruction instruction) {
    EsLaneProgram *p = l->program;
    int operands[ES_LANE_OPERANDS];
    es_lane_operands(&instruction, operands);
    int reads = n_reads(instruction.op);
    for (int i = 0; i < reads; i++) {
        if (operands[i] >= 0 && l->status == ES_STATUS_OK) {
            int phase = p->instructions[p->activations[operands[i]].producer].phase;
            instruction.phase = ES_MAX(instruction.phase, phase);
        }
    }
    for (int i = 0; i < reads; i++) {
        require(l, operands[i], instruction.phase);
    }
    LaneInstruction *added = append(l, (void **)&p->instructions, &p->n_instructions,
                                    &p->instructions_capacity, sizeof *added);
    if (added == NULL || l->status != ES_STATUS_OK) {
        return 0;
    }
    *added = instruction;
    for (int i = reads; i < ES_LANE_OPERANDS; i++) {
        if (operands[i] >= 0 && p->activations[operands[i]].producer < 0) {
            p->activations[operands[i]].producer = p->n_instructions - 1;
        }
    }
    p->n_phases = ES_MAX(p->n_phases, instruction.phase + 1);
    return instruction.phase;
}

LaneInstruction es_lane_make(LaneOp op, int node, int a, int b, int c) {
    return (LaneInstruction){.op = op,
                             .a = a,
                             .b = b,
                             .c = c,
                             .d = -1,
                             .e = -1,
                             .f = -1,
                             .g = -1,
                             .layer = -1,
                             .norm = -1,
                             .sums = -1,
                             .node = node,
                             .value = ES_NO_VALUE};
}

int es_lane_input_activation(EsLowering *l, int node, EsValueId value, int halo) {
    if (l->status != ES_STATUS_OK) {
        return -1;
    }
    const EsValue *v = &l->graph->values[value];
    if (l->activation_of[value] < 0) {
        if (v->role != ES_ROLE_INPUT || v->dtype != ES_DTYPE_F32 ||
            (v->rank != 5 && v->rank != 3 && v->rank != 2)) {
            es_lane_fail_node(l, node, "reads a value the vector engine does not hold");
            return -1;
        }
        LaneInstruction load =
            es_lane_make(LANE_FROM_ROWS, node, es_lane_output_activation(l, value), -1, -1);
        load.value = value;
        es_lane_emit(l, load);
    }
    int activation = l->activation_of[value];
    if (activation >= 0) {
        l->program->activations[activation].halo =
            ES_MAX(l->program->activations[activation].halo, halo);
    }
    return activation;
}

void es_lane_copy_result(EsLowering *l, EsValueId value, int node) {
    if (l->status == ES_STATUS_OK && l->graph->values[value].role == ES_ROLE_RESULT) {
        LaneInstruction copy = es_lane_make(LANE_TO_ROWS, node, l->activation_of[value], -1, -1);
        copy.value = value;
        es_lane_emit(l, copy);
    }
}
