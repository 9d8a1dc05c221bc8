// The public face of growth: include/esper/grow.h over growth.h. Results of a step are copied from
// the engine's arrays into plain public rows, so the engine can change without breaking programs.
#include "esper/grow.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "esper/version.h"
#include "fit/grown_network.h"
#include "growth/host/host_file.h"
#include "growth/rules/growth_names.h"

_Static_assert(sizeof(EsAction) == ES_N_HEADS, "an action is its heads");

struct EsGrow {
    EsHostSpec host; // owns its names when it came from a file
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots;
    EsDevice *device;      // owned
    EsDataset dataset;     // owned
    EsGrowth *growth;      // owned
    EsGrowHost *hosts;     // owned [E]
    EsGrowSlot *slot_rows; // owned [E][S]
    EsGrowMasks *masks;    // owned [E]
    int is_ready;          // an episode runs, or has ended well
};

// --- create ---

static EsStatus check_options(const EsGrowOptions *options) {
    const struct {
        const char *name;
        int64_t value, high;
    } ranges[] = {
        {"n_envs", options->n_envs, 1 << 20},
        {"batch", options->batch, 1 << 20},
        {"step_batches", options->step_batches, 1 << 20},
        {"validation_images", options->validation_images, INT32_MAX},
        {"episode_steps", options->episode_steps, 1000000},
        {"max_seeds", options->max_seeds, 1000000},
        {"strict_gates", options->strict_gates, 1},
        {"auto_forward", options->auto_forward, 1},
        {"n_threads", options->n_threads, 1024},
    };
    for (size_t i = 0; i < ES_COUNT_OF(ranges); i++) {
        if (ranges[i].value < 0 || ranges[i].value > ranges[i].high) {
            return ES_FAIL(ARGUMENT, "%s is %lld, must be 0..%lld", ranges[i].name,
                           (long long)ranges[i].value, (long long)ranges[i].high);
        }
    }
    if (options->task != NULL && options->host_file != NULL) {
        return ES_FAIL(ARGUMENT, "task \"%s\" and host file \"%s\" are given; use one of them",
                       options->task, options->host_file);
    }
    return ES_STATUS_OK;
}

// The host, and the slots it offers when none are named: for a preset those before the pools.
static EsStatus choose_host(EsGrow *grow, const EsGrowOptions *options) {
    if (options->host_file != NULL) {
        ES_TRY(es_host_load(options->host_file, &grow->host, grow->slots, &grow->n_slots));
    } else {
        ES_TRY(es_host_preset(options->task != NULL ? options->task : "tiny", &grow->host));
        char names[16 * ES_HOST_BLOCKS_MAX] = "";
        for (int i = 0; i < grow->host.n_blocks; i++) {
            size_t used = strlen(names);
            snprintf(names + used, sizeof names - used, "%sr0c%d", i > 0 ? "," : "", i);
        }
        ES_TRY(es_slots_parse(&grow->host, names, grow->slots, &grow->n_slots));
    }
    return options->slots == NULL
               ? ES_STATUS_OK
               : es_slots_parse(&grow->host, options->slots, grow->slots, &grow->n_slots);
}

// A preset takes on the images' size, a dense host the columns; a CNN from a file keeps its own
// size, which the engine checks.
static EsStatus open_dataset(EsGrow *grow, const EsGrowOptions *options) {
    EsHostSpec fitted = grow->host;
    const EsDatasetOptions wanted = {.seed = options->data_seed != 0 ? options->data_seed : 1,
                                     .folder = options->folder};
    EsStatus status =
        es_host_open_dataset(&fitted, options->data, &wanted, options->n_threads, &grow->dataset);
    if (options->host_file == NULL || fitted.kind == ES_HOST_DENSE) {
        grow->host = fitted;
    }
    return status;
}

static EsStatus open_device(EsGrow *grow, const EsGrowOptions *options) {
    EsDeviceOptions device_options = {.n_threads = options->n_threads};
    return es_device_open(options->device != NULL ? options->device : "cpu", &device_options,
                          &grow->device);
}

static EsStatus choose_precision(const EsGrowOptions *options, EsDtype automatic,
                                 EsDtype *precision) {
    static const struct {
        const char *name;
        EsDtype dtype;
    } types[] = {{"off", ES_DTYPE_F32}, {"bfloat16", ES_DTYPE_BF16}, {"float16", ES_DTYPE_F16}};
    const char *name = options->amp_dtype != NULL ? options->amp_dtype : "auto";
    for (size_t i = 0; i < ES_COUNT_OF(types); i++) {
        if (strcmp(name, types[i].name) == 0) {
            *precision = types[i].dtype;
            return ES_STATUS_OK;
        }
    }
    if (strcmp(name, "auto") != 0) {
        return ES_FAIL(ARGUMENT, "amp_dtype is \"%.60s\", not auto, off, bfloat16 or float16",
                       name);
    }
    *precision = automatic;
    return ES_STATUS_OK;
}

static EsStatus create_engine(EsGrow *grow, const EsGrowOptions *options) {
    int64_t n_envs = options->n_envs > 0 ? options->n_envs : 1;
    EsGrowthOptions wanted = es_growth_defaults(&grow->host, grow->slots, grow->n_slots, n_envs);
    wanted.batch = options->batch > 0 ? options->batch : wanted.batch;
    wanted.step_batches = options->step_batches > 0 ? options->step_batches : wanted.step_batches;
    wanted.n_validation_images =
        options->validation_images > 0
            ? options->validation_images
            : ES_MIN(wanted.n_validation_images, grow->dataset.validation.count);
    wanted.seed = options->seed != 0 ? options->seed : wanted.seed;
    if (options->episode_steps > 0) {
        wanted.settings.episode_steps = options->episode_steps;
    }
    EsDtype automatic =
        es_growth_auto_precision(&grow->host, grow->slots, grow->n_slots, grow->device);
    ES_TRY(choose_precision(options, automatic, &wanted.precision));
    wanted.settings.max_seeds = options->max_seeds;
    wanted.settings.is_strict = options->strict_gates;
    wanted.settings.auto_forward = options->auto_forward ? ES_AUTO_FORWARD_ALL : 0;
    ES_TRY(es_growth_create(&wanted, &grow->dataset, grow->device, &grow->growth));
    size_t n = (size_t)n_envs;
    ES_TRY(es_allocate(sizeof *grow->hosts * n, (void **)&grow->hosts));
    ES_TRY(es_allocate(sizeof *grow->slot_rows * n * (size_t)grow->n_slots,
                       (void **)&grow->slot_rows));
    return es_allocate(sizeof *grow->masks * n, (void **)&grow->masks);
}

// --- rows ---

static float or_nan(float value, int is_measured) { return is_measured ? value : NAN; }

static EsGrowSlot copy_slot(const EsSeedView *seed, size_t i) {
    return (EsGrowSlot){
        .stage = seed->stage[i],
        .blueprint = seed->blueprint[i],
        .steps_in_stage = seed->steps_in_stage[i],
        .age = seed->age[i],
        .n_parameters = seed->n_parameters[i],
        .alpha = seed->alpha[i],
        .contribution = or_nan(seed->contribution[i], seed->contribution_age[i] >= 0),
        .contribution_age = seed->contribution_age[i],
        .gradient_health = or_nan(seed->gradient_health[i], seed->gradient_health[i] >= 0)};
}

static void copy_rows(EsGrow *grow) {
    const EsGrowthState *state = &es_growth_snapshot(grow->growth)->state;
    const EsGrowthResult *results = es_growth_results(grow->growth);
    const EsActionMasks *masks = es_growth_masks(grow->growth);
    for (int32_t e = 0; e < state->n_envs; e++) {
        int64_t n_parameters = es_growth_model(grow->growth)->layout.n_host_weights;
        for (int s = 0; s < grow->n_slots; s++) {
            size_t i = (size_t)e * (size_t)grow->n_slots + (size_t)s;
            grow->slot_rows[i] = copy_slot(&state->seed, i);
            if (es_stage_in(state->seed.stage[i], ES_STAGES_LIVING)) {
                n_parameters += state->seed.n_parameters[i];
            }
        }
        grow->hosts[e] = (EsGrowHost){.train_loss = results[e].train_loss,
                                      .train_accuracy = results[e].train_accuracy,
                                      .validation_loss = results[e].validation_loss,
                                      .validation_accuracy = results[e].validation_accuracy,
                                      .n_parameters = n_parameters,
                                      .op = state->env.effective_op[e],
                                      .refusal = state->env.refusal[e],
                                      .n_rollbacks = state->env.n_rollbacks[e]};
        memcpy(grow->masks[e].head, masks[e].head, sizeof masks[e].head);
        memcpy(grow->masks[e].slot_by_op, masks[e].slot_by_op, sizeof masks[e].slot_by_op);
    }
}

// --- life ---

EsStatus es_grow_create(const EsGrowOptions *options, EsGrow **grow_out) {
    *grow_out = NULL;
    ES_TRY(check_options(options));
    EsGrow *grow = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_allocate(sizeof *grow, (void **)&grow));
    ES_TRY_GOTO(choose_host(grow, options));
    ES_TRY_GOTO(open_dataset(grow, options));
    ES_TRY_GOTO(open_device(grow, options));
    ES_TRY_GOTO(create_engine(grow, options));
done:
    if (status != ES_STATUS_OK) {
        es_grow_destroy(grow);
        return status;
    }
    *grow_out = grow;
    return ES_STATUS_OK;
}

void es_grow_destroy(EsGrow *grow) {
    if (grow == NULL) {
        return;
    }
    es_growth_destroy(grow->growth);
    es_device_close(grow->device);
    es_dataset_destroy(&grow->dataset);
    es_host_unload(&grow->host);
    es_release(grow->hosts);
    es_release(grow->slot_rows);
    es_release(grow->masks);
    es_release(grow);
}

EsStatus es_grow_reset(EsGrow *grow, int64_t first_episode) {
    int64_t n_envs = es_growth_options(grow->growth)->n_envs;
    if (first_episode < 0 || first_episode > INT32_MAX - n_envs) {
        return ES_FAIL(ARGUMENT, "first episode is %lld, must be 0..%lld", (long long)first_episode,
                       (long long)(INT32_MAX - n_envs));
    }
    grow->is_ready = 0;
    ES_TRY(es_growth_reset(grow->growth, first_episode));
    grow->is_ready = 1;
    copy_rows(grow);
    return ES_STATUS_OK;
}

EsStatus es_grow_step(EsGrow *grow, const int8_t *actions) {
    if (!grow->is_ready) {
        return ES_FAIL(ARGUMENT, "no episode runs; reset begins one");
    }
    if (es_growth_is_over(grow->growth)) {
        return ES_FAIL(ARGUMENT, "the episode is over; reset begins another");
    }
    // an action is eight bytes and nothing else, so the caller's array is one of actions
    const EsAction *rows = (const void *)actions;
    grow->is_ready = 0;
    ES_TRY(es_growth_step(grow->growth, rows));
    grow->is_ready = 1;
    copy_rows(grow);
    return ES_STATUS_OK;
}

void es_grow_fill_action(int8_t action[ES_N_HEADS], EsGrowthOp op, int slot) {
    EsAction wait = es_action_wait();
    memcpy(action, wait.head, sizeof wait.head);
    action[ES_HEAD_BLUEPRINT] = ES_BLUEPRINT_ID_CONV_LIGHT;
    action[ES_HEAD_OP] = (int8_t)op;
    action[ES_HEAD_SLOT] = (int8_t)slot;
}

// --- looking at it ---

EsGrowView es_grow_observe(const EsGrow *grow) {
    const EsGrowthState *state = &es_growth_snapshot(grow->growth)->state;
    return (EsGrowView){.n_envs = state->n_envs,
                        .n_slots = grow->n_slots,
                        .step = state->env.step[0],
                        .is_over = !grow->is_ready || es_growth_is_over(grow->growth),
                        .hosts = grow->hosts,
                        .slots = grow->slot_rows,
                        .masks = grow->masks};
}

int es_grow_export_seed_states(const EsGrow *grow, int64_t host, EsGrowSeedState *states) {
    const EsSeedView *all = &es_growth_snapshot(grow->growth)->state.seed;
    int n = 0;
    if (!grow->is_ready || host < 0 || host >= es_growth_options(grow->growth)->n_envs) {
        return 0;
    }
    for (int s = 0; s < grow->n_slots; s++) {
        EsSeed seed = es_seed_load(all, (size_t)host * (size_t)grow->n_slots + (size_t)s);
        if (es_stage_in(seed.stage, ES_STAGES_LIVING)) {
            states[n++] = (EsGrowSeedState){
                .slot = s,
                .stage = seed.stage,
                .blueprint = seed.blueprint,
                .age = seed.age,
                .alpha = seed.alpha,
                .alpha_steps = seed.alpha_ticks_done,
                .alpha_total_steps = seed.alpha_ticks,
                .alpha_temperature = (float)seed.alpha_ticks / seed.alpha_steepness,
                .is_blend_allowed = es_stage_in(seed.stage, ES_STAGES_BLENDED)};
        }
    }
    return n;
}

EsStatus es_grow_attribute_batch(EsGrow *grow, int64_t first, int64_t count, double *weights) {
    if (!grow->is_ready) {
        return ES_FAIL(ARGUMENT, "no episode runs; reset begins one");
    }
    return es_growth_attribute_batch(grow->growth, first, count, weights);
}

// Text that is cut at the end of its buffer.
typedef struct Text {
    char *start;
    size_t used, bytes;
} Text;

__attribute__((format(printf, 2, 3))) static void append(Text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text->start + text->used, text->bytes - text->used, format, arguments);
    va_end(arguments);
    text->used += n > 0 ? ES_MIN((size_t)n, text->bytes - text->used - 1) : 0;
}

static void describe_blocks(const EsHostSpec *host, Text *text) {
    int size = host->image_size;
    for (int i = 0; i < host->n_blocks; i++) {
        EsHostBlock block = es_host_block(host, i);
        append(text, "  block%d: %dx%d, %d channels, %d x %d", i, block.kernel, block.kernel,
               block.n_channels, size, size);
        if (block.has_pool) {
            size /= 2;
            append(text, ", pooled to %d x %d", size, size);
        }
        append(text, "\n");
    }
}

static void describe_slots(const EsGrow *grow, Text *text) {
    for (int s = 0; s < grow->n_slots; s++) {
        const EsGrowthSettings *settings = es_growth_settings(grow->growth);
        int32_t smallest = INT32_MAX, largest = 0;
        for (int b = 0; b < ES_N_BLUEPRINT_IDS; b++) {
            if (settings->blueprints & ES_BLUEPRINT_ID_BIT(b)) {
                smallest = ES_MIN(smallest, settings->blueprint_parameters[s][b]);
                largest = ES_MAX(largest, settings->blueprint_parameters[s][b]);
            }
        }
        append(text, "  slot %d: %s, %lld channels, seeds of %d to %d parameters\n", s,
               grow->slots[s].name, (long long)grow->slots[s].n_channels, smallest, largest);
    }
}

EsStatus es_grow_save_network(EsGrow *grow, int64_t host, const char *folder) {
    EsDevice *cpu = NULL;
    EsGrownNetwork *network = NULL;
    EsStatus status = ES_STATUS_OK;
    if (!grow->is_ready || host < 0 || host >= es_growth_options(grow->growth)->n_envs) {
        return ES_FAIL(ARGUMENT, "there is no host %lld in an episode", (long long)host);
    }
    ES_TRY(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &cpu));
    ES_TRY_GOTO(es_grown_network_take(grow->growth, host, cpu, &network));
    const EsGrowthResult *result = &es_growth_results(grow->growth)[host];
    network->origin = (EsGrownOrigin){.version = ES_VERSION,
                                      .seed = (int64_t)es_growth_options(grow->growth)->seed,
                                      .episode = es_growth_episode(grow->growth, host),
                                      .validation_accuracy = result->validation_accuracy,
                                      .test_accuracy = result->test_accuracy};
    snprintf(network->origin.data, sizeof network->origin.data, "%s", grow->dataset.name);
    status = es_grown_network_save(network, folder);
done:
    es_grown_network_destroy(network);
    es_device_close(cpu);
    return status;
}

void es_grow_describe(const EsGrow *grow, char *text_out, size_t text_bytes) {
    if (text_bytes == 0) {
        return;
    }
    Text text = {text_out, 0, text_bytes};
    const EsHostSpec *host = &grow->host;
    const EsGrowthOptions *options = es_growth_options(grow->growth);
    const EsDataset *dataset = &grow->dataset;
    text_out[0] = '\0';
    append(&text, "host \"%s\": %lld parameters, images %d x %d x %d, %d classes\n", host->name,
           (long long)es_growth_model(grow->growth)->layout.n_host_weights, host->image_size,
           host->image_size, host->image_channels, host->n_classes);
    describe_blocks(host, &text);
    describe_slots(grow, &text);
    append(&text, "data \"%s\": %lld training, %lld validation, %lld test images\n", dataset->name,
           (long long)dataset->train.count, (long long)dataset->validation.count,
           (long long)dataset->test.count);
    append(
        &text,
        "environments: %lld, episodes of %d steps; a step trains %lld batches of %lld, validates "
        "on %lld images\n",
        (long long)options->n_envs, options->settings.episode_steps,
        (long long)options->step_batches, (long long)options->batch,
        (long long)options->n_validation_images);
    EsGrowthPlansReport plans = es_growth_plans(grow->growth);
    append(&text,
           "memory: %.2f MiB weights and snapshots, %.2f MiB images; %d plans, built as hosts take "
           "new shapes\n",
           (double)es_growth_weight_bytes(grow->growth) / (1 << 20),
           (double)dataset->image_bytes * (double)dataset->n_images / (1 << 20), plans.n_plans);
}

const char *es_grow_stage_name(int stage) { return es_stage_name(stage); }

const char *es_grow_op_name(int op) { return es_growth_op_name(op); }

const char *es_grow_blueprint_name(int blueprint) { return es_blueprint_id_name(blueprint); }

const char *es_grow_refusal_message(int refusal) { return es_refusal_message(refusal); }

const char *es_grow_slot_name(const EsGrow *grow, int slot) {
    return slot >= 0 && slot < grow->n_slots ? grow->slots[slot].name : "?";
}
