// Memory of a lane program: which maps are stored for all groups, and where everything lies.
#include <string.h>

#include "base/memory.h"
#include "network/lanes/lane_internal.h"

static size_t take(size_t *used, size_t count, size_t element_bytes) {
    size_t boundary = ES_ALIGNMENT / element_bytes;
    size_t offset = (*used + boundary - 1) / boundary * boundary;
    *used = offset + count;
    return offset;
}

// The gradient through a batch norm may overwrite the values it is computed from (lanes.h). If they
// are not read again it takes their place, and a group has one large map less in the cache.
static int can_overwrite(const EsLaneProgram *program, const LaneInstruction *norm_input) {
    const LaneActivation *x = &program->activations[norm_input->a],
                         *d_x = &program->activations[norm_input->d];
    if (!x->is_stored || x->halo != 0 || d_x->is_stored || d_x->halo != 0) {
        return 0;
    }
    const LaneInstruction *end = program->instructions + program->n_instructions;
    for (const LaneInstruction *i = norm_input + 1; i < end; i++) {
        int operands[ES_LANE_OPERANDS];
        es_lane_operands(i, operands);
        for (int k = 0; k < ES_LANE_OPERANDS; k++) {
            if (operands[k] == norm_input->a) {
                return 0;
            }
        }
    }
    return 1;
}

// The instructions of one phase between which a transient map is in use; first > last: it is not.
typedef struct Use {
    int first, last;
} Use;

static int is_transient(const LaneActivation *activation) {
    return !activation->is_skipped && !activation->is_stored && activation->overwrites < 0;
}

// use [n_activations][n_phases]
static void find_uses(const EsLaneProgram *program, Use *use) {
    int n_phases = program->n_phases;
    for (int i = 0; i < program->n_activations * n_phases; i++) {
        use[i] = (Use){program->n_instructions, -1};
    }
    for (int i = 0; i < program->n_instructions; i++) {
        int operands[ES_LANE_OPERANDS];
        es_lane_operands(&program->instructions[i], operands);
        for (int k = 0; k < ES_LANE_OPERANDS; k++) {
            if (operands[k] >= 0) {
                Use *u = &use[operands[k] * n_phases + program->instructions[i].phase];
                u->first = ES_MIN(u->first, i);
                u->last = i;
            }
        }
    }
}

static int are_used_together(const Use *a, const Use *b, int n_phases) {
    for (int phase = 0; phase < n_phases; phase++) {
        if (a[phase].first <= b[phase].last && b[phase].first <= a[phase].last) {
            return 1;
        }
    }
    return 0;
}

static int can_share(const LaneActivation *a, const LaneActivation *b) {
    // borders must stay zero: maps with one lie on each other, or apart
    return a->halo == b->halo && (a->halo == 0 || (a->channels == b->channels &&
                                                   a->height == b->height && a->width == b->width));
}

// The lowest offset for a transient map among those placed before it.
static size_t lowest_offset(const EsLaneProgram *program, const Use *use, int index) {
    const LaneActivation *activation = &program->activations[index];
    size_t offset = 0;
    for (int again = 1; again;) {
        again = 0;
        for (int i = 0; i < program->n_activations; i++) {
            const LaneActivation *other = &program->activations[i];
            int is_apart = !is_transient(other) || !other->is_placed ||
                           offset >= other->offset + other->count ||
                           other->offset >= offset + activation->count;
            int is_shared = can_share(activation, other) &&
                            (activation->halo == 0 || offset == other->offset) &&
                            !are_used_together(use + index * program->n_phases,
                                               use + i * program->n_phases, program->n_phases);
            if (!is_apart && !is_shared) {
                size_t boundary = ES_ALIGNMENT / sizeof(float);
                offset = (other->offset + other->count + boundary - 1) / boundary * boundary;
                again = 1;
            }
        }
    }
    return offset;
}

// Transient maps live within a phase and share memory when they are not in use together, so that a
// group's maps stay in the cache. Large ones first.
static EsStatus place_transient(EsLaneProgram *program) {
    Use *use = NULL;
    size_t count = (size_t)program->n_activations * (size_t)program->n_phases;
    ES_TRY(es_allocate(sizeof *use * ES_MAX(count, 1), (void **)&use));
    find_uses(program, use);
    for (;;) {
        int next = -1;
        for (int i = 0; i < program->n_activations; i++) {
            const LaneActivation *activation = &program->activations[i];
            if (is_transient(activation) && !activation->is_placed &&
                (next < 0 || activation->count > program->activations[next].count)) {
                next = i;
            }
        }
        if (next < 0) {
            break;
        }
        LaneActivation *activation = &program->activations[next];
        activation->offset = lowest_offset(program, use, next);
        activation->is_placed = 1;
        program->worker_floats =
            ES_MAX(program->worker_floats, activation->offset + activation->count);
    }
    es_release(use);
    return ES_STATUS_OK;
}

static EsStatus place_maps(EsLaneProgram *program) {
    for (int i = 0; i < program->n_instructions; i++) {
        const LaneInstruction *instruction = &program->instructions[i];
        if (instruction->op == LANE_BATCHNORM_BACKWARD_INPUT &&
            can_overwrite(program, instruction)) {
            program->activations[instruction->d].overwrites = instruction->a;
        }
    }
    for (int i = 0; i < program->n_activations; i++) {
        LaneActivation *activation = &program->activations[i];
        ptrdiff_t row =
            (ptrdiff_t)(activation->width + 2 * activation->halo) * program->kernels->n_lanes;
        activation->map = (EsLaneMap){.channels = activation->channels,
                                      .height = activation->height,
                                      .width = activation->width,
                                      .row = row,
                                      .plane = (activation->height + 2 * activation->halo) * row};
        activation->count = (size_t)(activation->channels * activation->map.plane);
    }
    ES_TRY(place_transient(program));
    // Stored maps share memory when one is dead before the other is made. A border must stay zero,
    // so maps with one keep their place to themselves. There are few: look at all earlier ones.
    for (int i = 0; i < program->n_activations; i++) {
        LaneActivation *activation = &program->activations[i];
        if (activation->is_skipped || !activation->is_stored) {
            continue;
        }
        int phase = program->instructions[activation->producer].phase;
        LaneActivation *home = NULL;
        for (int j = 0; j < program->n_activations && activation->halo == 0 && home == NULL; j++) {
            LaneActivation *dead = &program->activations[j];
            if (j != i && dead->is_stored && !dead->is_skipped && dead->halo == 0 &&
                dead->is_placed && !dead->is_reused && dead->last_phase < phase &&
                dead->count >= activation->count) {
                home = dead;
            }
        }
        activation->is_placed = 1;
        if (home != NULL) {
            activation->offset = home->offset;
            home->is_reused = 1;
        } else {
            activation->offset = take(&program->stored_floats, activation->count, sizeof(float));
        }
    }
    for (int i = 0; i < program->n_activations; i++) {
        LaneActivation *activation = &program->activations[i];
        if (activation->overwrites >= 0) {
            activation->is_stored = 1;
            activation->offset = program->activations[activation->overwrites].offset;
        }
    }
    return ES_STATUS_OK;
}

static void place_patches(EsLaneProgram *program, LaneLayer *layer) {
    size_t lanes = (size_t)program->kernels->n_lanes, n_out = (size_t)layer->filter.n_out;
    layer->packed = take(&program->host_floats, n_out * ES_LANES_PATCH_FILTER, sizeof(float));
    layer->accumulator =
        take(&program->shard_floats, n_out * ES_LANES_PATCH_GRADIENT * lanes, sizeof(float));
    layer->patch_accumulator =
        take(&program->shard_floats, ES_LANES_PATCH_SUMS * lanes, sizeof(float));
    program->norms[layer->norm].patches =
        take(&program->host_doubles, sizeof(EsLanePatches) / sizeof(double), sizeof(double));
}

static void place_records(EsLaneProgram *program) {
    const EsLaneKernels *kernels = program->kernels;
    size_t lanes = (size_t)kernels->n_lanes;
    for (int i = 0; i < program->n_layers; i++) {
        LaneLayer *layer = &program->layers[i];
        if (layer->is_patched) {
            place_patches(program, layer);
            continue;
        }
        layer->packed =
            take(&program->host_floats, kernels->packed_count(&layer->filter), sizeof(float));
        if (layer->needs_flipped) {
            EsLaneFilter flipped = layer->filter;
            flipped.n_in = layer->filter.n_out;
            flipped.n_out = layer->filter.n_in;
            layer->flipped =
                take(&program->host_floats, kernels->packed_count(&flipped), sizeof(float));
        }
        if (layer->gradient_phase >= 0) {
            layer->accumulator = take(&program->shard_floats,
                                      kernels->accumulator_count(&layer->filter), sizeof(float));
            layer->bias_accumulator =
                take(&program->shard_floats, (size_t)layer->filter.n_out * lanes, sizeof(float));
        }
    }
    for (int i = 0; i < program->n_norms; i++) {
        LaneNormRecord *norm = &program->norms[i];
        size_t *const arrays[] = {&norm->sign,    &norm->scale,    &norm->shift,        &norm->mean,
                                  &norm->inv_std, &norm->mean_d_z, &norm->mean_d_z_xhat};
        for (size_t k = 0; k < ES_COUNT_OF(arrays); k++) {
            *arrays[k] = take(&program->host_floats, (size_t)norm->channels, sizeof(float));
        }
        norm->sums = take(&program->host_doubles,
                          (size_t)program->n_groups * (size_t)norm->channels * 2, sizeof(double));
    }
    for (int i = 0; i < program->n_sums; i++) {
        LaneSums *sums = &program->sums[i];
        sums->accumulator =
            take(&program->shard_floats, (size_t)sums->count * lanes, sizeof(float));
    }
    // loss, correct and invalid rows of each group
    program->loss_sums =
        take(&program->host_doubles, (size_t)program->n_groups * 3, sizeof(double));
}

EsStatus es_lane_program_place(EsLaneProgram *program, int n_workers) {
    ES_TRY(place_maps(program));
    place_records(program);
    program->shard_floats = es_align_up(program->shard_floats * sizeof(float)) / sizeof(float);
    program->accumulators_start = take(
        &program->host_floats, program->shard_floats * (size_t)program->n_shards, sizeof(float));
    size_t *const parts[] = {&program->worker_floats, &program->host_floats,
                             &program->stored_floats};
    for (size_t i = 0; i < ES_COUNT_OF(parts); i++) {
        *parts[i] = es_align_up(*parts[i] * sizeof(float)) / sizeof(float);
    }
    program->host_doubles = es_align_up(program->host_doubles * sizeof(double)) / sizeof(double);

    program->n_workers = n_workers;
    program->n_host_areas = program->n_envs >= n_workers ? n_workers : 1;
    size_t host_bytes =
        (program->host_floats + program->stored_floats * (size_t)program->n_groups) *
            sizeof(float) +
        program->host_doubles * sizeof(double);
    program->total_bytes = program->worker_floats * (size_t)n_workers * sizeof(float) +
                           host_bytes * (size_t)program->n_host_areas;
    return ES_STATUS_OK;
}

EsStatus es_lane_program_allocate(EsLaneProgram *program) {
    size_t n_hosts = (size_t)program->n_host_areas;
    ES_TRY(es_allocate(program->worker_floats * (size_t)program->n_workers * sizeof(float),
                       (void **)&program->worker_memory));
    ES_TRY(es_allocate(program->host_floats * n_hosts * sizeof(float),
                       (void **)&program->host_memory));
    ES_TRY(es_allocate(program->host_doubles * n_hosts * sizeof(double),
                       (void **)&program->sum_memory));
    return es_allocate(program->stored_floats * (size_t)program->n_groups * n_hosts * sizeof(float),
                       (void **)&program->stored_memory);
}
