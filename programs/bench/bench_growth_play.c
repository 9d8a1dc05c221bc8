#include "bench/bench_growth_play.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "bench/bench_folder.h"
#include "growth/rules/growth_names.h"
#include "runs/grow/grow_events.h"
#include "runs/grow/grow_play_device.h"

// the others' logits are within a few hundredths of 0: they have 1e-21 of the probability
#define WAIT_BIAS 50.0f

struct EsBenchPlay {
    EsGrowSettings settings;
    EsGrowPlay play;                  // owned but for growth
    EsPolicy *policy;                 // owned
    EsGrowEvents *events;             // owned
    EsHub *hub;                       // owned
    char folder[ES_BENCH_PATH_BYTES]; // owned: removed at the end
    int64_t n_steps;                  // of a round
    int64_t round, step;              // of the step that is played next
};

void es_bench_play_destroy(EsBenchPlay *bench) {
    if (bench == NULL) {
        return;
    }
    es_hub_close(bench->hub, NULL);
    es_bench_folder_remove(bench->folder);
    es_grow_events_destroy(bench->events);
    es_policy_destroy(bench->policy);
    bench->play.growth = NULL;
    es_grow_play_destroy(&bench->play);
    es_release(bench);
}

// --- set-up ---

static void write_settings(EsBenchPlay *bench, const char *task) {
    EsGrowSettings *settings = &bench->settings;
    EsConfig config = es_grow_run_config(settings);
    const EsDeviceInfo *info = es_device_info(es_growth_store(bench->play.growth)->device);
    es_config_reset(&config);
    snprintf(settings->task, sizeof settings->task, "%s", task);
    if (info->kind == ES_DEVICE_CUDA) {
        snprintf(settings->run.device, sizeof settings->run.device, "cuda:%d", info->index);
    } else {
        settings->run.n_threads = info->n_units;
    }
    settings->n_envs = (int)es_growth_state(bench->play.growth)->n_envs;
    settings->floor_scale = 0;
}

static EsStatus open_play(EsBenchPlay *bench) {
    const EsGrowSettings *settings = &bench->settings;
    EsGrowPlay *play = &bench->play;
    EsDeviceOptions device = {.n_threads = settings->run.n_threads};
    play->settings = settings;
    play->has_borrowed_dataset = 1;
    ES_TRY(es_device_open(settings->run.device, &device, &play->device));
    return es_grow_play_surround(play);
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

static EsStatus open_policy(EsBenchPlay *bench) {
    const EsGrowPlay *play = &bench->play;
    const EsGrowthModel *model = es_growth_model(play->growth);
    EsPolicyContext context = {.settings = es_growth_settings(play->growth),
                               .slots = model->slots,
                               .device = play->device,
                               .n_envs = bench->settings.n_envs,
                               .seed = (uint64_t)bench->settings.run.seed};
    EsPpoSettings ppo = es_grow_settings_ppo(&bench->settings);
    EsPolicySpec spec;
    ES_TRY(es_grow_settings_spec(&bench->settings, context.settings->n_slots,
                                 model->layout.n_host_weights, &spec));
    ES_TRY(es_policy_create(&spec, &ppo, &context, bench->n_steps, &bench->policy));
    return prefer_waiting(es_policy_network(bench->policy));
}

// The sinks that a run has unless it is told otherwise.
static EsStatus open_hub(EsBenchPlay *bench) {
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

EsStatus es_bench_play_create(EsGrowth *growth, const char *task, int64_t n_steps,
                              EsBenchPlay **bench_out) {
    EsBenchPlay *bench = NULL;
    EsStatus status = ES_STATUS_OK;
    *bench_out = NULL;
    ES_TRY(es_allocate(sizeof *bench, (void **)&bench));
    bench->play.growth = growth;
    bench->n_steps = n_steps;
    write_settings(bench, task);
    ES_TRY_GOTO(open_play(bench));
    ES_TRY_GOTO(open_policy(bench));
    ES_TRY_GOTO(es_grow_events_create(&bench->play, &bench->events));
    ES_TRY_GOTO(open_hub(bench));
    *bench_out = bench;
done:
    if (status != ES_STATUS_OK) {
        es_bench_play_destroy(bench);
    }
    return status;
}

// --- a step ---

static EsGrowMoment moment_of(const EsBenchPlay *bench, int64_t step) {
    return (EsGrowMoment){.hub = bench->hub,
                          .time = {.round = bench->round + 1, .step = step},
                          .first_episode = bench->round * bench->settings.n_envs};
}

static EsStatus step_measured(void *context, int64_t step) {
    EsBenchPlay *bench = context;
    EsGrowMoment moment = moment_of(bench, step);
    es_grow_events_measured(bench->events, &moment);
    return ES_STATUS_OK;
}

static EsStatus step_decided(void *context, int64_t step) {
    EsBenchPlay *bench = context;
    EsGrowMoment moment = moment_of(bench, step);
    const EsGrowPlay *play = &bench->play;
    for (int e = 0; e < bench->settings.n_envs; e++) {
        int op = es_action_value(&play->actions[e], ES_HEAD_OP);
        if (op != ES_GROWTH_OP_WAIT) {
            return ES_FAIL(NUMERIC, "the policy of environment %d chose %s, not WAIT", e,
                           es_growth_op_name(op));
        }
    }
    ES_TRY(es_policy_record(bench->policy, es_growth_state(play->growth), play->paid,
                            bench->settings.reward.rollback_penalty));
    es_grow_events_decided(bench->events, &moment, es_policy_thoughts(bench->policy));
    es_hub_tick(bench->hub);
    return ES_STATUS_OK;
}

EsStatus es_bench_play_step(EsBenchPlay *bench) {
    EsGrowWatch watch = {bench, step_measured, step_decided};
    if (bench->step == bench->n_steps) {
        ES_TRY(es_grow_play_end(&bench->play, bench->policy));
        bench->round++;
        bench->step = 0;
    }
    if (bench->step == 0) {
        ES_TRY(
            es_grow_play_begin(&bench->play, bench->policy, bench->round * bench->settings.n_envs));
    }
    return es_grow_play_step(&bench->play, bench->policy, bench->step++, &watch);
}

EsDeviceCounters es_bench_play_counters(const EsBenchPlay *bench) {
    EsDeviceCounters sum = es_device_counters(es_growth_store(bench->play.growth)->device);
    EsDeviceCounters policy = es_device_counters(bench->play.device);
    sum.n_allocations += policy.n_allocations;
    sum.n_synchronizations += policy.n_synchronizations;
    sum.n_copies += policy.n_copies;
    sum.n_launches += policy.n_launches;
    return sum;
}
