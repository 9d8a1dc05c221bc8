// The suite `growth`: whole steps of E environments, training, validation with ablations, rules,
// with seeds in all slots; by the engine alone (policy=none) and end to end, as `esper grow` runs
// them (policy=learned). Steps are environment steps.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "bench/bench_cases.h"
#include "bench/bench_suite.h"
#include "cli/frame.h"
#include "control/policy/policy_training.h"
#include "esper/log.h"
#include "growth/engine/growth.h"
#include "growth/host/host_file.h"
#include "growth/rules/growth_names.h"
#include "runs/grow/grow_episode.h"
#include "runs/grow/grow_events.h"

// --- growth under a policy ---

// Growth as `esper grow` runs it (runs/grow/grow_episode.h): a policy in training decides for all
// environments, rewards are computed, rollout rows and telemetry are written. The network is the
// task's with fresh weights, but for one: its bias towards WAIT is so large, and no probability has
// a floor, that it never draws anything else. All operations stay legal, all heads are computed and
// sampled, and the hosts do not change.
//
// Rounds follow each other without an update: rows are fetched and begun anew.

typedef struct PolicyRunner PolicyRunner;

// the others' logits are within a few hundredths of 0: they have 1e-21 of the probability
#define WAIT_BIAS 50.0f

struct PolicyRunner {
    EsGrowSettings settings;
    EsEpisodeRunner runner;           // owned but for growth
    EsPolicy *policy;                 // owned
    EsGrowEvents *events;             // owned
    EsHub *hub;                       // owned
    char folder[ES_BENCH_PATH_BYTES]; // owned: removed at the end
    int64_t n_steps;                  // of a round
    int64_t round, step;              // of the next step
};

static void destroy_policy_runner(PolicyRunner *bench) {
    if (bench == NULL) {
        return;
    }
    es_hub_close(bench->hub, NULL);
    es_bench_folder_remove(bench->folder);
    es_grow_events_destroy(bench->events);
    es_grow_episode_destroy_policy(&bench->runner, bench->policy);
    bench->runner.growth = NULL;
    es_grow_episode_destroy(&bench->runner);
    es_release(bench);
}

// --- set-up ---

static void write_settings(PolicyRunner *bench, const char *task) {
    EsGrowSettings *settings = &bench->settings;
    EsConfig config = es_grow_run_config(settings);
    es_config_reset(&config);
    snprintf(settings->task, sizeof settings->task, "%s", task);
    settings->n_envs = (int)es_growth_snapshot(bench->runner.growth)->state.n_envs;
    settings->floor_scale = 0;
}

static EsStatus prefer_waiting(EsPolicyNetwork *network) {
    char name[ES_NAME_BYTES];
    const EsGraph *graph = es_policy_network_graph(network);
    EsStream *stream = es_policy_network_stream(network);
    float bias = WAIT_BIAS;
    snprintf(name, sizeof name, "head.%s.linear1.bias", es_head_name(ES_HEAD_OP));
    EsValueId id = es_graph_find(graph, name);
    ES_ASSERT(id >= 0);
    float *parameters = es_policy_network_store(network)->parameters.data;
    ES_TRY(es_stream_copy(stream, parameters + graph->values[id].slab_offset + ES_GROWTH_OP_WAIT,
                          &bias, sizeof bias, ES_COPY_TO_DEVICE));
    return es_stream_synchronize(stream);
}

static EsStatus open_policy(PolicyRunner *bench) {
    const EsEpisodeRunner *runner = &bench->runner;
    const EsGrowthModel *model = es_growth_model(runner->growth);
    EsPolicyContext context = {.settings = es_growth_settings(runner->growth),
                               .slots = model->slots,
                               .device = runner->device,
                               .n_envs = bench->settings.n_envs,
                               .seed = (uint64_t)bench->settings.run.seed};
    EsPpoSettings ppo = es_grow_settings_ppo(&bench->settings);
    EsPolicySpec spec;
    ES_TRY(es_grow_settings_spec(&bench->settings, context.settings->n_slots,
                                 model->layout.n_host_weights, &spec));
    ES_TRY(es_policy_create(&spec, &ppo, &context, bench->n_steps, &bench->policy));
    return prefer_waiting(es_policy_network(bench->policy));
}

// The sinks that a run has by default.
static EsStatus open_hub(PolicyRunner *bench) {
    EsHubOptions options = es_hub_defaults();
    EsSink sink;
    char path[ES_BENCH_PATH_BYTES + 8];
    ES_TRY(es_bench_folder_create(bench->folder));
    options.spill_folder = bench->folder;
    ES_TRY(es_hub_create(&options, &bench->hub));
    snprintf(path, sizeof path, "%s/run.db", bench->folder);
    EsStatus status = es_sqlite_sink_open(path, -1, &sink);
    if (status != ES_STATUS_UNSUPPORTED) { // a build without SQLite records curves alone
        ES_TRY(status);
        ES_TRY(es_hub_add_sink(bench->hub, &sink));
    }
    ES_TRY(es_tensorboard_sink_open(bench->folder, -1, &sink));
    return es_hub_add_sink(bench->hub, &sink);
}

// Before growth's first step; growth is borrowed. n_steps: of a round.
static EsStatus create_policy_runner(EsGrowth *growth, const char *task, int64_t n_steps,
                                     PolicyRunner **bench_out) {
    PolicyRunner *bench = NULL;
    EsStatus status = ES_STATUS_OK;
    *bench_out = NULL;
    ES_TRY(es_allocate(sizeof *bench, (void **)&bench));
    bench->runner = (EsEpisodeRunner){.settings = &bench->settings,
                                      .device = es_growth_store(growth)->device,
                                      .growth = growth,
                                      .has_borrowed_dataset = 1,
                                      .keeps_logits = 1};
    bench->n_steps = n_steps;
    write_settings(bench, task);
    ES_TRY_GOTO(es_grow_episode_create_reward_and_buffers(&bench->runner));
    ES_TRY_GOTO(open_policy(bench));
    ES_TRY_GOTO(
        es_grow_events_create(growth, es_growth_snapshot(growth)->state.n_envs, &bench->events));
    ES_TRY_GOTO(open_hub(bench));
    *bench_out = bench;
done:
    if (status != ES_STATUS_OK) {
        destroy_policy_runner(bench);
    }
    return status;
}

// --- a step ---

static EsGrowMoment moment_of(const PolicyRunner *bench, int64_t step) {
    return (EsGrowMoment){.hub = bench->hub,
                          .time = {.round = bench->round + 1, .step = step},
                          .first_episode = bench->round * bench->settings.n_envs};
}

static EsStatus step_measured(void *context, int64_t step) {
    PolicyRunner *bench = context;
    EsGrowMoment moment = moment_of(bench, step);
    es_grow_events_measured(bench->events, &moment, bench->runner.decide_ms);
    return ES_STATUS_OK;
}

static EsStatus step_decided(void *context, int64_t step) {
    PolicyRunner *bench = context;
    EsGrowMoment moment = moment_of(bench, step);
    const EsEpisodeRunner *runner = &bench->runner;
    for (int e = 0; e < bench->settings.n_envs; e++) {
        int op = es_action_value(&runner->actions[e], ES_HEAD_OP);
        if (op != ES_GROWTH_OP_WAIT) {
            return ES_FAIL(NUMERIC, "the policy of environment %d chose %s, not WAIT", e,
                           es_growth_op_name(op));
        }
    }
    ES_TRY(es_policy_training_record(bench->policy, &es_growth_snapshot(runner->growth)->state,
                                     runner->rewards, bench->settings.reward.rollback_penalty));
    es_grow_events_decided(bench->events, &moment, runner->actions, es_growth_masks(runner->growth),
                           bench->policy);
    es_grow_events_rewarded(bench->events, &moment, runner);
    es_hub_tick(bench->hub);
    return ES_STATUS_OK;
}

// One step of all environments. Growth wants a decision before it and after it.
static EsStatus step_policy_runner(PolicyRunner *bench) {
    EsGrowWatch watch = {bench, step_measured, step_decided};
    if (bench->step == bench->n_steps) {
        ES_TRY(es_grow_episode_end(&bench->runner));
        bench->round++;
        bench->step = 0;
    }
    if (bench->step == 0) {
        ES_TRY(es_grow_episode_begin(&bench->runner, bench->policy,
                                     bench->round * bench->settings.n_envs));
    }
    return es_grow_episode_step(&bench->runner, bench->policy, bench->step++, &watch);
}

#define MAX_SEEDS 3
#define BATCHES   8
#define IMAGES    2000

// training images of the hosts' data sets
#define TRAIN_IMAGES_TINY 8000
#define TRAIN_IMAGES      20000

typedef struct GrowthFixture {
    int64_t n_envs;
    int blueprints[MAX_SEEDS]; // of the slots
    int n_seeds;
    EsHostSpec host;      // owned: names of a host file
    EsDataset dataset;    // owned
    EsGrowth *growth;     // owned
    EsAction *actions;    // owned [E]
    PolicyRunner *runner; // owned; NULL: the engine alone
} GrowthFixture;

// --- the request ---

// The first of the host's slots, one per block, as far as seeds may stand: "r0c0,r0c1,r0c2".
// Returns their number.
static int write_slots(const EsHostSpec *host, char text[128]) {
    EsSlot all[2 * ES_SLOTS_MAX];
    int n = ES_MIN(es_slots_of(host, all), ES_MIN(host->n_blocks, MAX_SEEDS));
    size_t used = 0;
    text[0] = '\0';
    for (int s = 0; s < n; s++) {
        used += (size_t)snprintf(text + used, 128 - used, "%s%s", s > 0 ? "," : "", all[s].name);
    }
    return n;
}

static EsStatus parse_seeds(const char *text, int n_slots, int blueprints[MAX_SEEDS],
                            int *n_seeds) {
    char words[128], *rest = NULL;
    *n_seeds = 0;
    if (text == NULL || strcmp(text, "none") == 0) {
        return ES_STATUS_OK;
    }
    int is_holding = strcmp(text, "holding") == 0;
    snprintf(words, sizeof words, "%s", is_holding ? "norm,depthwise,conv_light" : text);
    for (char *word = strtok_r(words, ",", &rest); word != NULL;
         word = strtok_r(NULL, ",", &rest)) {
        EsBlueprint blueprint;
        if (*n_seeds == n_slots && is_holding) {
            break; // a small host takes the first of them
        }
        if (*n_seeds == n_slots) {
            return ES_FAIL(ARGUMENT, "--seeds %.100s: the host has %d slots", text, n_slots);
        }
        if (es_blueprint_parse(word, &blueprint) != ES_STATUS_OK) {
            return ES_FAIL(ARGUMENT, "--seeds: %s; or \"none\" or \"holding\"", es_status_detail());
        }
        blueprints[(*n_seeds)++] = (int)blueprint;
    }
    return ES_STATUS_OK;
}

static EsStatus parse_precision(const char *text, EsDtype automatic, EsDtype *precision) {
    static const struct {
        const char *name;
        EsDtype dtype;
    } names[] = {{"off", ES_DTYPE_F32}, {"bfloat16", ES_DTYPE_BF16}, {"float16", ES_DTYPE_F16}};
    if (text != NULL && strcmp(text, "auto") == 0) {
        *precision = automatic;
        return ES_STATUS_OK;
    }
    for (size_t i = 0; i < ES_COUNT_OF(names); i++) {
        if (text == NULL || strcmp(text, names[i].name) == 0) {
            *precision = names[i].dtype;
            return ES_STATUS_OK;
        }
    }
    return ES_FAIL(ARGUMENT, "--amp-dtype \"%.40s\" is not auto, off, bfloat16 or float16", text);
}

static int is_played(const EsBenchHost *wanted) {
    return wanted->policy != NULL && strcmp(wanted->policy, "learned") == 0;
}

static int64_t train_images(const EsHostSpec *host) {
    return strcmp(host->dataset, "tiny") == 0 ? TRAIN_IMAGES_TINY : TRAIN_IMAGES;
}

static int64_t batch_of(const EsBenchHost *wanted, const EsHostSpec *host) {
    return wanted->batch > 0 ? wanted->batch : host->batch;
}

// `wanted` says how many environments.
static int64_t batches_of(const EsBenchHost *wanted, const EsHostSpec *host) {
    int64_t share = train_images(host) / (wanted->n_envs * batch_of(wanted, host));
    return wanted->step_batches > 0    ? wanted->step_batches
           : wanted->step_batches == 0 ? BATCHES
                                       : ES_MAX(share, 1);
}

// --- set-up ---

void es_bench_growth_end(void *context) {
    GrowthFixture *fixture = context;
    if (fixture != NULL && fixture->growth != NULL) {
        EsGrowthTimes times = es_growth_times(fixture->growth);
        es_log(ES_LOG_DEBUG, "last step: train %.3f ms, validate %.3f ms, decide %.3f ms",
               times.train_ms, times.validate_ms, times.decide_ms);
    }
    if (fixture != NULL) {
        destroy_policy_runner(fixture->runner);
        es_growth_destroy(fixture->growth);
        es_dataset_destroy(&fixture->dataset);
        es_host_unload(&fixture->host);
        es_release(fixture->actions);
        es_release(fixture);
    }
}

static EsStatus step_all(GrowthFixture *fixture, const EsAction *action) {
    for (int64_t e = 0; e < fixture->n_envs; e++) {
        fixture->actions[e] = *action;
    }
    return es_growth_step(fixture->growth, fixture->actions);
}

static EsStatus check_holding(const GrowthFixture *fixture) {
    const EsGrowthState *seeds = &es_growth_snapshot(fixture->growth)->state;
    for (int64_t e = 0; e < fixture->n_envs; e++) {
        for (int s = 0; s < fixture->n_seeds; s++) {
            int32_t stage = seeds->seed.stage[e * seeds->n_slots + s];
            if (stage != ES_STAGE_HOLDING) {
                return ES_FAIL(INPUT, "the seed in slot %s of environment %lld is %s, not HOLDING",
                               es_growth_model(fixture->growth)->slots[s].name, (long long)e,
                               es_stage_name(stage));
            }
        }
    }
    return ES_STATUS_OK;
}

// Seeds one after the other, since development is sequential, up to HOLDING.
static EsStatus plant(GrowthFixture *fixture) {
    const EsGrowthSettings *settings = es_growth_settings(fixture->growth);
    int n_steps = settings->training_dwell + settings->tempo[0] + 2;
    EsAction wait = es_action_wait();
    for (int s = 0; s < fixture->n_seeds; s++) {
        EsAction action = es_action_wait();
        action.head[ES_HEAD_OP] = ES_GROWTH_OP_GERMINATE;
        action.head[ES_HEAD_SLOT] = (int8_t)s;
        action.head[ES_HEAD_BLUEPRINT] = (int8_t)fixture->blueprints[s];
        action.head[ES_HEAD_STYLE] = ES_STYLE_LINEAR_ADD;
        action.head[ES_HEAD_TEMPO] = 0;
        ES_TRY(step_all(fixture, &action));
        for (int i = 0; i < n_steps; i++) {
            ES_TRY(step_all(fixture, &wait));
        }
    }
    return check_holding(fixture);
}

// Stages go on by themselves as far as HOLDING; no gate and no governor is in the way.
static void hold_still(EsGrowthSettings *settings) {
    settings->auto_forward = ES_AUTO_FORWARD_ALL;
    settings->episode_steps = 1000000;
    settings->min_health = 0;
    settings->divergence_loss = 1e30f;
    settings->lobotomy_mean = 0;
}

// Says why hosts do not run in the fastest way, where they do not.
static void note_executor(const GrowthFixture *fixture) {
    char executor[ES_EXECUTOR_BYTES];
    es_growth_executor(fixture->growth, executor);
    if (strchr(executor, ':') != NULL) { // a reason follows
        es_message("note: host \"%s\" grows by %s\n", fixture->host.name, executor);
    }
}

static EsStatus create_growth(GrowthFixture *fixture, const EsBenchHost *wanted,
                              const EsBench *bench) {
    EsHostSpec *host = &fixture->host;
    EsSlot slots[ES_SLOTS_MAX];
    char slots_text[128];
    int n_slots = 0;
    ES_TRY(es_bench_open_host(wanted, host));
    int64_t n_validation = wanted->n_validation > 0 ? wanted->n_validation : IMAGES;
    ES_TRY(es_bench_open_data(host, train_images(host), n_validation, &fixture->dataset));
    n_validation = ES_MIN(n_validation, fixture->dataset.validation.count);
    write_slots(host, slots_text);
    ES_TRY(es_slots_parse(host, slots_text, slots, &n_slots));
    ES_TRY(parse_seeds(wanted->seeds, n_slots, fixture->blueprints, &fixture->n_seeds));
    EsGrowthOptions options = es_growth_defaults(host, slots, n_slots, wanted->n_envs);
    EsDtype automatic = es_growth_auto_precision(host, slots, n_slots, bench->device);
    ES_TRY(parse_precision(wanted->amp_dtype, automatic, &options.precision));
    ES_TRY(es_bench_parse_tf32(wanted, &options.is_tf32));
    options.batch = batch_of(wanted, host);
    options.step_batches = batches_of(wanted, host);
    options.n_validation_images = n_validation;
    int64_t round_steps = options.settings.episode_steps;
    hold_still(&options.settings);
    ES_TRY(es_growth_create(&options, &fixture->dataset, bench->device, &fixture->growth));
    if (is_played(wanted)) {
        ES_TRY(create_policy_runner(fixture->growth, wanted->task, round_steps, &fixture->runner));
    }
    return es_allocate(sizeof *fixture->actions * (size_t)wanted->n_envs,
                       (void **)&fixture->actions);
}

EsStatus es_bench_growth_begin(const EsBenchHost *wanted, const EsBench *bench,
                               void **fixture_out) {
    GrowthFixture *fixture = NULL;
    EsStatus status = ES_STATUS_OK;
    *fixture_out = NULL;
    ES_TRY(es_allocate(sizeof *fixture, (void **)&fixture));
    fixture->n_envs = wanted->n_envs;
    ES_TRY_GOTO(create_growth(fixture, wanted, bench));
    ES_TRY_GOTO(es_growth_reset(fixture->growth, 0));
    note_executor(fixture); // plans are built by now
    ES_TRY_GOTO(plant(fixture));
    *fixture_out = fixture;
done:
    if (status != ES_STATUS_OK) {
        es_bench_growth_end(fixture);
    }
    return status;
}

// --- measured ---

EsStatus es_bench_growth_step(void *context, int variant) {
    GrowthFixture *fixture = context;
    EsAction wait = es_action_wait();
    (void)variant;
    ES_TRY(fixture->runner != NULL ? step_policy_runner(fixture->runner)
                                   : step_all(fixture, &wait));
    return check_holding(fixture);
}

EsDeviceCounters es_bench_growth_counters(void *context) {
    return es_device_counters(es_growth_store(((GrowthFixture *)context)->growth)->device);
}

static EsStatus begin_growth(const EsBenchCase *bench_case, const EsBench *bench, void **fixture) {
    return es_bench_growth_begin(bench_case->settings, bench, fixture);
}

static double count_steps(const EsBenchCase *bench_case) {
    return ((const EsBenchHost *)bench_case->settings)->n_envs;
}

static int64_t count_allocations(void *context) {
    return es_bench_growth_counters(context).n_allocations;
}

#define GROWTH_CASE(n, label, ...)                                                                 \
    {                                                                                              \
        .name = n, .parameters = label, .settings = &(const EsBenchHost){__VA_ARGS__},             \
        .begin = begin_growth, .run = es_bench_growth_step, .end = es_bench_growth_end,            \
        .work = count_steps, .rate_unit = "steps/s", .allocations = count_allocations              \
    }

#define TINY  .task = "tiny", .n_envs = 16
#define CIFAR .task = "cifar_baseline", .n_envs = 4, .seeds = "holding"

static const EsBenchCase cases[] = {
    GROWTH_CASE("tiny", "E=16 seeds=none policy=none", TINY, .seeds = "none"),
    GROWTH_CASE("tiny", "E=16 seeds=holding policy=none", TINY, .seeds = "holding"),
    GROWTH_CASE("tiny", "E=16 seeds=holding policy=learned", TINY, .seeds = "holding",
                .policy = "learned"),
    GROWTH_CASE("cifar_baseline", "E=4 seeds=holding policy=none", CIFAR),
    GROWTH_CASE("cifar_baseline", "E=4 seeds=holding policy=learned", CIFAR, .policy = "learned"),
};

// --- the command line ---

EsStatus es_bench_growth_choose(const EsBenchHost *wanted, const char *policy, EsBenchHost *chosen,
                                char *parameters, size_t parameters_bytes, int *is_chosen) {
    EsHostSpec host;
    EsDtype precision;
    int blueprints[MAX_SEEDS], n_seeds, is_tf32;
    ES_TRY(es_bench_parse_tf32(wanted, &is_tf32));
    *is_chosen = wanted->task != NULL || wanted->n_envs > 0 || wanted->batch > 0 ||
                 wanted->step_batches != 0 || wanted->n_validation > 0 || wanted->seeds != NULL ||
                 strcmp(wanted->amp_dtype, "off") != 0 || !is_tf32;
    if (!*is_chosen) {
        return ES_STATUS_OK;
    }
    *chosen = *wanted;
    chosen->task = wanted->task != NULL ? wanted->task : "cifar_baseline";
    chosen->n_envs = wanted->n_envs > 0 ? wanted->n_envs : 4;
    chosen->seeds = wanted->seeds != NULL ? wanted->seeds : "holding";
    chosen->policy = policy;
    ES_TRY(parse_precision(wanted->amp_dtype, ES_DTYPE_F32, &precision));
    ES_TRY(es_bench_open_host(chosen, &host));
    char slots[128];
    EsStatus status = parse_seeds(chosen->seeds, write_slots(&host, slots), blueprints, &n_seeds);
    snprintf(parameters, parameters_bytes,
             "E=%d N=%lld batches=%lld V=%d seeds=%s P=%s%s policy=%s", chosen->n_envs,
             (long long)batch_of(chosen, &host), (long long)batches_of(chosen, &host),
             wanted->n_validation > 0 ? wanted->n_validation : IMAGES, chosen->seeds,
             wanted->amp_dtype, is_tf32 ? "" : " tf32=off", policy);
    es_host_unload(&host);
    return status;
}

static EsStatus choose_growth(const EsBenchHost *wanted, EsBenchCase *custom, int *n_custom) {
    static const char *const policies[] = {"none", "learned"};
    static EsBenchHost chosen[ES_COUNT_OF(policies)]; // cases run one after the other
    static char parameters[ES_COUNT_OF(policies)][160];
    int is_chosen = 0;
    *n_custom = 0;
    for (size_t i = 0; i < ES_COUNT_OF(policies); i++) {
        ES_TRY(es_bench_growth_choose(wanted, policies[i], &chosen[i], parameters[i],
                                      sizeof parameters[i], &is_chosen));
        if (is_chosen) {
            EsBenchCase *made = &custom[(*n_custom)++];
            *made = cases[0];
            made->name = chosen[i].task;
            made->parameters = parameters[i];
            made->settings = &chosen[i];
        }
    }
    return ES_STATUS_OK;
}

const EsBenchSuite es_bench_growth = {
    .name = "growth",
    .summary =
        "whole steps of growing hosts, engine alone and under a policy, and their allocations",
    .cases = cases,
    .n_cases = ES_COUNT_OF(cases),
    .choose = choose_growth,
    .sweeps = "envs batch",
};
