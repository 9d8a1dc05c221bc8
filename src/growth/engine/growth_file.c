// An episode in a file, between a decision and the next step: weights, moments, statistics, the
// governor's snapshots, averaged weights, and every field of the small state as a tensor of its
// own. The order of samples and all draws follow from episode and step, so that nothing else is
// needed to go on with the same bits.
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/range_check.h"
#include "growth/engine/growth_internal.h"
#include "tensor/safetensors.h"

#define FORMAT "esper.growth.1"

#define NORM_EPSILON        "norm_epsilon"
#define NORM_EPSILON_BEFORE "1e-05" // of files that do not say it

#define N_SLABS        5
#define N_OF_ADAMW     2 // with recipe.optimiser = adamw alone
#define N_AVERAGES     5 // with recipe.average alone
#define COUNT_ONE(...) +1
enum {
    N_FIELDS =
        0 ES_SEED_FIELDS(COUNT_ONE) ES_GROWTH_ENV_FIELDS(COUNT_ONE) ES_GROWTH_ENV_ARRAYS(COUNT_ONE),
    N_TENSORS = N_SLABS + N_OF_ADAMW + N_AVERAGES + N_FIELDS + 1 // the episodes
};
#undef COUNT_ONE

#define DTYPE_float   ES_DTYPE_F32
#define DTYPE_int32_t ES_DTYPE_I32

// All tensors of an episode, over growth's own memory, in the order of the file.
typedef struct Episode {
    EsNamedTensor tensors[N_TENSORS];
    int n;
    int n_slabs; // the first ones: in the memory of growth's device; the others in CPU memory
} Episode;

static void list_slabs(const EsGrowth *growth, Episode *episode) {
    EsNamedTensor *tensors = episode->tensors;
    int n = 0;
    const EsNamedTensor slabs[N_SLABS] = {{"parameters", growth->store->parameters},
                                          {"momentum", growth->momentum},
                                          {"states", growth->store->states},
                                          {"saved_parameters", growth->saved_parameters},
                                          {"saved_states", growth->saved_states}};
    for (; n < N_SLABS; n++) {
        tensors[n] = slabs[n];
    }
    if (growth->moment2.data != NULL) {
        tensors[n++] = (EsNamedTensor){"moment2", growth->moment2};
        tensors[n++] = (EsNamedTensor){"adam_steps", growth->adam_steps};
    }
    const EsGrowthAverage *average = &growth->average;
    if (average->store != NULL) {
        tensors[n++] = (EsNamedTensor){"average", average->store->parameters};
        tensors[n++] = (EsNamedTensor){"average_states", average->store->states};
        tensors[n++] = (EsNamedTensor){"saved_average", average->saved_parameters};
        tensors[n++] = (EsNamedTensor){"saved_average_states", average->saved_states};
        tensors[n++] = (EsNamedTensor){"average_updates", average->n_updates};
    }
    episode->n = episode->n_slabs = n;
}

// With the gradients: those of seeds that are no more would else be another episode's.
int es_growth_list_rows(const EsGrowth *growth, EsRankColumn columns[ES_GROWTH_ROWS_MAX]) {
    Episode episode = {0};
    int n = 0;
    list_slabs(growth, &episode);
    episode.tensors[episode.n++] = (EsNamedTensor){"gradients", growth->store->gradients};
    for (int i = 0; i < episode.n; i++) {
        const EsTensor *tensor = &episode.tensors[i].tensor;
        size_t row_bytes = es_tensor_bytes(tensor) / (size_t)growth->options.n_envs;
        if (row_bytes > 0) { // a host without statistics has no states
            columns[n++] = (EsRankColumn){tensor->data, row_bytes};
        }
    }
    return n;
}

static Episode list_tensors(const EsGrowth *growth) {
    const EsGrowthState *state = &growth->shown.state;
    int64_t n_envs = state->n_envs, n_slots = state->n_slots;
    Episode episode = {0};
    EsNamedTensor *tensors = episode.tensors;
    list_slabs(growth, &episode);
    int n = episode.n;
    tensors[n++] =
        (EsNamedTensor){"episode", es_tensor_view(growth->episode_ids, ES_DTYPE_I32, growth->device,
                                                  1, (int64_t[]){n_envs})};
#define X(type, field, empty, meaning)                                                             \
    tensors[n++] = (EsNamedTensor){"seed." #field,                                                 \
                                   es_tensor_view(state->seed.field, DTYPE_##type, growth->device, \
                                                  2, (int64_t[]){n_envs, n_slots})};
    ES_SEED_FIELDS(X)
#undef X
#define X(type, field, start, meaning)                                                             \
    tensors[n++] =                                                                                 \
        (EsNamedTensor){"env." #field, es_tensor_view(state->env.field, DTYPE_##type,              \
                                                      growth->device, 1, (int64_t[]){n_envs})};
    ES_GROWTH_ENV_FIELDS(X)
#undef X
#define X(type, field, count, meaning)                                                             \
    tensors[n++] = (EsNamedTensor){"env." #field,                                                  \
                                   es_tensor_view(state->env.field, DTYPE_##type, growth->device,  \
                                                  2, (int64_t[]){n_envs, (count)})};
    ES_GROWTH_ENV_ARRAYS(X)
#undef X
    episode.n = n;
    return episode;
}

// The slabs of a GPU in CPU memory, which the caller releases.
static EsStatus fetch_slabs(EsGrowth *growth, Episode *episode, unsigned char **copy) {
    size_t bytes = 0;
    for (int i = 0; i < episode->n_slabs; i++) {
        bytes += es_tensor_bytes(&episode->tensors[i].tensor);
    }
    ES_TRY(es_allocate(bytes, (void **)copy));
    unsigned char *to = *copy;
    for (int i = 0; i < episode->n_slabs; i++) {
        EsTensor *slab = &episode->tensors[i].tensor;
        ES_TRY(
            es_stream_copy(growth->stream, to, slab->data, es_tensor_bytes(slab), ES_COPY_TO_HOST));
        slab->data = to;
        to += es_tensor_bytes(slab);
    }
    return es_stream_synchronize(growth->stream);
}

static EsStatus check_precision(const EsGrowth *growth) {
    return growth->options.precision == ES_DTYPE_F16
               ? ES_FAIL(UNSUPPORTED,
                         "episodes in float16 are not moved: their loss scales would be lost")
               : ES_STATUS_OK;
}

// The norms' epsilon as a text: nothing else in the file shows it.
static void write_epsilon(const EsGrowth *growth, char text[32]) {
    snprintf(text, 32, "%g", (double)es_host_norm_epsilon(&growth->model.host));
}

EsStatus es_growth_save(EsGrowth *growth, const char *path) {
    char epsilon[32];
    write_epsilon(growth, epsilon);
    const EsMetadata metadata[] = {
        {"format", FORMAT}, {NORM_EPSILON, epsilon}, ES_TENSORS_HASH_ENTRY};
    Episode episode = list_tensors(growth);
    unsigned char *copy = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_ASSERT(growth->shown.moment == ES_GROWTH_DECIDED);
    ES_TRY(check_precision(growth));
    if (growth->on_device != NULL) {
        status = fetch_slabs(growth, &episode, &copy);
    }
    if (status == ES_STATUS_OK) {
        status =
            es_safetensors_save(path, episode.tensors, episode.n, metadata, ES_COUNT_OF(metadata));
    }
    es_release(copy);
    return status;
}

// --- loading ---

// A field of the small state that indexes something, or counts.
typedef struct Range {
    const char *name;
    int64_t least, most;
} Range;

// Numbers that are neither listed nor floats are counts.
#define COUNT_MAX (1 << 30)

static EsStatus check_integers(const char *path, const EsGrowth *growth,
                               const EsNamedTensor *named) {
    const EsGrowthSettings *settings = &growth->options.settings;
    const Range ranges[] = {
        {"seed.stage", 0, ES_N_STAGES},
        {"seed.previous_stage", 0, ES_N_STAGES},
        {"seed.blueprint", ES_NO_SEED, ES_BLUEPRINT_END - 1},
        {"seed.ramp", ES_RAMP_NONE, ES_RAMP_GATED},
        {"seed.algorithm", ES_ALGORITHM_NONE, ES_ALGORITHM_GATE},
        {"seed.alpha_mode", ES_ALPHA_HOLD, ES_ALPHA_DOWN},
        {"seed.alpha_curve", ES_CURVE_NONE, ES_CURVE_SIGMOID},
        {"env.step", 2, settings->episode_steps + 1},
        {"env.sampled_op", INT32_MIN, INT32_MAX}, // never read again
        {"env.effective_op", ES_GROWTH_OP_WAIT, ES_GROWTH_OP_ADVANCE},
        {"env.acted_slot", -1, settings->n_slots - 1},
        {"env.refusal", 0, ES_N_REFUSALS - 1},
        {"env.n_governed", 0, ES_GOVERNOR_WINDOW_MAX},
        {"env.next_governed", 0, ES_GOVERNOR_WINDOW_MAX - 1},
        {"env.n_tracked", 0, COUNT_MAX},
        {"seed.stage_path", INT32_MIN, INT32_MAX},
        {"episode", 0, INT32_MAX},
        {"average_updates", 0, COUNT_MAX},
        {"adam_steps", 0, COUNT_MAX},
    };
    Range range = {named->name, -1, COUNT_MAX};
    const int32_t *values = named->tensor.data;
    for (size_t i = 0; i < ES_COUNT_OF(ranges); i++) {
        range = strcmp(ranges[i].name, named->name) == 0 ? ranges[i] : range;
    }
    for (int64_t i = 0; i < es_tensor_count(&named->tensor); i++) {
        ES_TRY(es_check_integer((EsFileField){path, named->name, i}, values[i], range.least,
                                range.most));
    }
    return ES_STATUS_OK;
}

// Shares of seeds lie in 0..1. Losses and weights may be anything: a host that diverged goes on.
static EsStatus check_shares(const char *path, const EsNamedTensor *named) {
    static const char *const shares[] = {"seed.alpha", "seed.alpha_start", "seed.alpha_target",
                                         "seed.first_target"};
    const float *values = named->tensor.data;
    for (size_t k = 0; k < ES_COUNT_OF(shares); k++) {
        int is_share = strcmp(shares[k], named->name) == 0;
        for (int64_t i = 0; is_share && i < es_tensor_count(&named->tensor); i++) {
            ES_TRY(es_check_real((EsFileField){path, named->name, i}, (double)values[i], 0.0, 1.0));
        }
    }
    return ES_STATUS_OK;
}

// A living seed has a blueprint that fits the host; all environments are at the same step.
static EsStatus check_together(const char *path, const EsGrowth *growth, const int32_t *stage,
                               const int32_t *blueprint, const int32_t *step) {
    int64_t n_envs = growth->shown.state.n_envs;
    for (int64_t i = 0; i < n_envs * growth->shown.state.n_slots; i++) {
        if (!es_stage_in(stage[i], ES_STAGES_LIVING)) {
            continue;
        }
        ES_TRY(es_check_integer((EsFileField){path, "seed.blueprint", i}, blueprint[i], 1,
                                ES_BLUEPRINT_END - 1));
        if (!es_growth_fits(growth, blueprint[i])) {
            return ES_FAIL(INPUT, "%s: seed.blueprint[%lld] is %d, which does not fit the host",
                           path, (long long)i, blueprint[i]);
        }
    }
    for (int64_t e = 1; e < n_envs; e++) {
        ES_TRY(es_check_integer((EsFileField){path, "env.step", e}, step[e], step[0], step[0]));
    }
    return ES_STATUS_OK;
}

static EsStatus check_epsilon(const char *path, const EsGrowth *growth, const EsSafetensors *file) {
    const char *found = es_safetensors_metadata(file, NORM_EPSILON);
    char wanted[32];
    write_epsilon(growth, wanted);
    found = found != NULL ? found : NORM_EPSILON_BEFORE;
    return strcmp(found, wanted) == 0
               ? ES_STATUS_OK
               : ES_FAIL(INPUT,
                         "%s: its norms have the epsilon %s, those of this program %s: start over",
                         path, found, wanted);
}

// Every tensor is there, of growth's shape, and in range. `found` [N_TENSORS] borrows the file.
static EsStatus check_file(EsGrowth *growth, const char *path, const EsSafetensors *file,
                           const EsNamedTensor *own, int n, EsNamedTensor *found) {
    const int32_t *stage = NULL, *blueprint = NULL, *step = NULL;
    const char *format = es_safetensors_metadata(file, "format");
    if (format == NULL || strcmp(format, FORMAT) != 0) {
        return ES_FAIL(INPUT, "%s: its format is \"%s\", not \"%s\"", path,
                       format != NULL ? format : "", FORMAT);
    }
    ES_TRY(check_epsilon(path, growth, file));
    for (int i = 0; i < n; i++) {
        found[i].name = own[i].name;
        ES_TRY(es_safetensors_find(file, own[i].name, &found[i].tensor));
        if (found[i].tensor.dtype != own[i].tensor.dtype ||
            !es_tensor_same_shape(&found[i].tensor, &own[i].tensor)) {
            return ES_FAIL(INPUT, "%s: tensor \"%s\" is not of this host and its slots", path,
                           own[i].name);
        }
        ES_TRY(found[i].tensor.dtype == ES_DTYPE_I32 ? check_integers(path, growth, &found[i])
                                                     : check_shares(path, &found[i]));
        const int32_t **const kept[] = {&stage, &blueprint, &step};
        static const char *const names[] = {"seed.stage", "seed.blueprint", "env.step"};
        for (size_t k = 0; k < ES_COUNT_OF(names); k++) {
            if (strcmp(names[k], own[i].name) == 0) {
                *kept[k] = found[i].tensor.data;
            }
        }
    }
    return check_together(path, growth, stage, blueprint, step);
}

// After all tensors have changed. Gradients of another episode would move numbers between tensors.
static EsStatus show_decided(EsGrowth *growth) {
    ES_TRY(es_stream_fill(growth->stream, growth->store->gradients.data, 0,
                          es_tensor_bytes(&growth->store->gradients)));
    ES_TRY(es_stream_copy(growth->stream, growth->episode.data, growth->episode_ids,
                          es_tensor_bytes(&growth->episode), ES_COPY_TO_DEVICE));
    growth->shown.step = growth->shown.state.env.step[0] - 1;
    growth->shown.moment = ES_GROWTH_DECIDED;
    if (growth->backend->adopt_state != NULL) {
        ES_TRY(growth->backend->adopt_state(growth));
    }
    return es_stream_synchronize(growth->stream);
}

EsStatus es_growth_load(EsGrowth *growth, const char *path) {
    EsNamedTensor found[N_TENSORS];
    EsSafetensors *file = NULL;
    Episode own = list_tensors(growth);
    EsStatus status = ES_STATUS_OK;
    ES_TRY(check_precision(growth));
    ES_TRY(es_safetensors_open(path, &file));
    ES_TRY_GOTO(check_file(growth, path, file, own.tensors, own.n, found));
    for (int i = 0; i < own.n; i++) {
        EsTensor *to = &own.tensors[i].tensor;
        if (i < own.n_slabs) {
            ES_TRY_GOTO(es_stream_copy(growth->stream, to->data, found[i].tensor.data,
                                       es_tensor_bytes(to), ES_COPY_TO_DEVICE));
        } else {
            memcpy(to->data, found[i].tensor.data, es_tensor_bytes(to));
        }
    }
    status = show_decided(growth);
done:
    es_safetensors_close(file);
    return status;
}

// --- moving to another growth ---

EsStatus es_growth_take_envs(EsGrowth *growth, EsGrowth *from, const int64_t *envs) {
    Episode own = list_tensors(growth), theirs = list_tensors(from);
    ES_ASSERT(from->shown.moment == ES_GROWTH_DECIDED);
    ES_TRY(check_precision(growth));
    ES_TRY(es_stream_synchronize(from->stream));
    for (int i = 0; i < own.n; i++) {
        // every tensor has a row for each environment
        size_t row_bytes = es_tensor_bytes(&own.tensors[i].tensor) / (size_t)growth->options.n_envs;
        for (int64_t e = 0; e < growth->options.n_envs; e++) {
            unsigned char *to = (unsigned char *)own.tensors[i].tensor.data + (size_t)e * row_bytes;
            const unsigned char *row =
                (const unsigned char *)theirs.tensors[i].tensor.data + (size_t)envs[e] * row_bytes;
            if (i < own.n_slabs) {
                ES_TRY(es_stream_copy(growth->stream, to, row, row_bytes, ES_COPY_ON_DEVICE));
            } else {
                memcpy(to, row, row_bytes);
            }
        }
    }
    return show_decided(growth);
}
