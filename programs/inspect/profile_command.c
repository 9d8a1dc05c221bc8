// `esper profile`: where the time of a growth step goes.
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "cli/frame.h"
#include "cli/run_command.h"
#include "inspect/profile_tables.h"
#include "runs/grow/grow_play.h"

// spans of all active steps; each costs two events on CUDA
#define CAPACITY_CPU  (1 << 18)
#define CAPACITY_CUDA (1 << 14)

// --- playing steps ---

// Steps of one schedule. A step lasts from one decision wanted to the next.
typedef struct Schedule {
    EsGrowPlay *play;
    EsPolicy *policy;
    EsProfileResult *result;
    EsProfileReport *report; // filled at the end
    EsDevice *devices[2];    // of growth and, where it is another, of the policy
    int n_devices;
    int forbids_capture;
    int n_steps; // done
    int is_started, is_done;
    int64_t active_ns; // when the first active step began
} Schedule;

static EsStatus start_profile(Schedule *schedule) {
    schedule->is_started = 1;
    for (int i = 0; i < schedule->n_devices; i++) {
        int is_cuda = es_device_info(schedule->devices[i])->kind == ES_DEVICE_CUDA;
        EsProfileOptions options = {.capacity = is_cuda ? CAPACITY_CUDA : CAPACITY_CPU,
                                    .forbids_capture = schedule->forbids_capture};
        ES_TRY(es_profile_start(schedule->devices[i], &options));
    }
    return ES_STATUS_OK;
}

static EsStatus report_profile(Schedule *schedule) {
    ES_TRY(es_profile_report(schedule->devices[0], schedule->report));
    for (int i = 1; i < schedule->n_devices; i++) {
        EsProfileReport other;
        ES_TRY(es_profile_report(schedule->devices[i], &other));
        EsStatus status = es_profile_report_merge(schedule->report, &other);
        es_profile_report_destroy(&other);
        ES_TRY(status);
    }
    return ES_STATUS_OK;
}

// Captures are made in the first steps, so refusing them begins before.
static EsStatus step_measured(void *context, int64_t step) {
    Schedule *schedule = context;
    EsProfileResult *result = schedule->result;
    int first_active = result->n_wait + result->n_warmup;
    (void)step;
    if (schedule->n_steps == result->n_wait && !schedule->is_started) {
        ES_TRY(start_profile(schedule));
    }
    if (schedule->n_steps == first_active) {
        for (int i = 0; i < schedule->n_devices; i++) {
            es_profile_reset(schedule->devices[i]);
        }
        schedule->active_ns = es_clock_ns();
    }
    if (schedule->n_steps == first_active + result->n_active) {
        if (!schedule->forbids_capture) {
            result->active_ms = es_clock_seconds_since(schedule->active_ns) * 1e3;
        }
        ES_TRY(report_profile(schedule));
        schedule->is_done = 1;
        return ES_FAIL(INTERRUPTED, "the profile is complete");
    }
    schedule->n_steps++;
    return ES_STATUS_OK;
}

static EsStatus step_decided(void *context, int64_t step) {
    const Schedule *schedule = context;
    const EsGrowPlay *play = schedule->play;
    (void)step;
    return es_grow_settings_train(play->settings)
               ? es_policy_record(schedule->policy, es_growth_state(play->growth), play->paid,
                                  play->settings->reward.rollback_penalty)
               : ES_STATUS_OK;
}

// Episodes one after the other until the schedule is through.
static EsStatus play_steps(Schedule *schedule) {
    EsGrowWatch watch = {schedule, step_measured, step_decided};
    int64_t n_envs = schedule->play->settings->n_envs;
    if (schedule->forbids_capture) {
        ES_TRY(start_profile(schedule));
    }
    for (int64_t episode = 0; !schedule->is_done; episode += n_envs) {
        EsStatus status = es_grow_play_episode(schedule->play, schedule->policy, episode, &watch);
        if (status != ES_STATUS_OK && !schedule->is_done) {
            return status;
        }
    }
    return ES_STATUS_OK;
}

// Hosts and a policy of its own for every pass, so that both begin alike.
static EsStatus run_pass(EsProfileResult *result, int forbids_capture, EsProfileReport *report) {
    const EsGrowSettings *settings = result->settings;
    EsGrowPlay play = {0};
    EsPolicy *policy = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_grow_play_create(settings, &play));
    ES_TRY_GOTO(es_grow_settings_train(settings)
                    ? es_grow_play_create_policy(&play, &policy)
                    : es_grow_play_open_policy(&play, settings->policy, &policy));
    EsDevice *device = es_growth_store(play.growth)->device;
    result->device = *es_device_info(device);
    Schedule schedule = {.play = &play,
                         .policy = policy,
                         .result = result,
                         .report = report,
                         .devices = {device, play.device},
                         .n_devices = play.device != NULL && play.device != device ? 2 : 1,
                         .forbids_capture = forbids_capture};
    status = play_steps(&schedule);
done:
    es_policy_destroy(policy);
    es_grow_play_destroy(&play);
    return status;
}

static int has_replays(const EsProfileReport *report) {
    for (int i = 0; i < report->n_rows; i++) {
        if (report->rows[i].kind == ES_PROFILE_REPLAY) {
            return 1;
        }
    }
    return 0;
}

// --- the command ---

static EsStatus check_trace(const char *path) {
    FILE *file = path != NULL ? fopen(path, "a") : NULL;
    if (path != NULL && file == NULL) {
        return ES_FAIL(INPUT, "--trace: cannot write %s", path);
    }
    return file == NULL || fclose(file) == 0 ? ES_STATUS_OK : ES_FAIL(IO, "cannot close %s", path);
}

static EsStatus run_profile(EsProfileResult *result, const char *trace, int as_json) {
    EsStatus status = ES_STATUS_OK;
    ES_TRY(check_trace(trace)); // before the work, not after it
    ES_TRY_GOTO(run_pass(result, 0, &result->report));
    result->is_split = has_replays(&result->report);
    if (result->is_split) {
        ES_TRY_GOTO(run_pass(result, 1, &result->direct));
    }
    if (trace != NULL) {
        ES_TRY_GOTO(es_profile_write_trace(result, trace));
        es_message("trace of %d spans: %s (open it at ui.perfetto.dev or chrome://tracing)\n",
                   result->report.n_spans + result->direct.n_spans, trace);
    }
    if (as_json) {
        status = es_profile_print_json(result);
    } else {
        es_profile_print_tables(result);
    }
done:
    es_profile_report_destroy(&result->report);
    es_profile_report_destroy(&result->direct);
    return status;
}

static const char summary[] =
    "Time the steps of `esper grow`, without a run folder: phases of a step, every operation by "
    "name,\nidle time, and launches, copies, synchronisations and allocations per step. Steps are "
    "waited out,\nthen timed and forgotten (warm-up), then timed and kept. To see grown hosts, "
    "wait until seeds\nstand: --policy heuristic --wait 40. On a GPU the steps run as captured "
    "work, as always; a second\npass without captures times launch by launch.";

EsExit es_profile_run(int argc, char **argv) {
    EsRunCommand command = {0};
    EsGrowSettings settings, before;
    EsProfileResult result = {.settings = &settings};
    const char *trace;
    int as_json;
    EsConfig config = es_grow_run_config(&settings);
    const EsOption options[] = {
        ES_OPTION_INT("wait", &result.n_wait, "1", 0, 1000000, "N",
                      "steps before anything is timed"),
        ES_OPTION_INT("warmup", &result.n_warmup, "2", 0, 1000000, "N",
                      "steps timed and forgotten"),
        ES_OPTION_INT("active", &result.n_active, "5", 1, 100000, "N", "steps timed and kept"),
        ES_OPTION_TEXT("trace", &trace, NULL, "FILE",
                       "write the active steps as a timeline for Perfetto (Chrome trace JSON)"),
        ES_OPTION_FLAG("json", &as_json, "print the profile as JSON"),
        ES_OPTION_KEY("task", "grow.task", "NAME"),
        ES_OPTION_KEY("envs", "grow.envs", "N"),
        ES_OPTION_KEY("policy", "grow.policy", "P"),
        ES_OPTION_KEY("episode-steps", "grow.episode_steps", "N"),
        ES_OPTION_KEY("slots", "grow.slots", "LIST"),
        ES_OPTION_KEY("max-seeds", "grow.max_seeds", "N"),
        ES_OPTION_KEY("batch", "grow.batch", "N"),
        ES_OPTION_KEY("step-batches", "grow.step_batches", "N"),
        ES_OPTION_KEY("validation-images", "grow.validation_images", "N"),
        ES_OPTION_KEY("amp-dtype", "grow.amp_dtype", "TYPE"),
        ES_OPTION_KEY("tf32", "grow.tf32", "on|off"),
        ES_OPTION_KEY("unfused", "grow.unfused", NULL),
        ES_OPTION_KEY("hidden", "policy.hidden", "N"),
        ES_OPTION_KEY("data", "grow.data", "NAME"),
        ES_OPTION_KEY("folder", "grow.folder", "DIR"),
        ES_OPTION_KEY("data-seed", "grow.data_seed", "N"),
        ES_OPTION_KEY("device", "run.device", "NAME"),
        ES_OPTION_KEY("threads", "run.threads", "N"),
        ES_OPTION_KEY("seed", "run.seed", "N"),
        ES_OPTION_TEXT("config", &command.config_path, NULL, "FILE",
                       "settings of `esper grow` to begin with; the command line wins"),
    };
    const EsOptionTable table = {
        .command = "profile",
        .usage = "[options]",
        .summary = summary,
        .example = "esper profile --task cifar_baseline --envs 4 --policy heuristic --trace "
                   "step.json",
        .options = options,
        .n_options = ES_COUNT_OF(options),
        .config = &config,
    };
    EsArguments arguments;
    EsExit code;
    if (!es_options_begin(&table, argc, argv, &arguments, &code)) {
        return code;
    }
    EsStatus status = es_run_command_configure(&command, &table, &arguments, &before);
    if (status == ES_STATUS_OK) {
        status = run_profile(&result, trace, as_json);
    }
    return es_command_finish("profile", status);
}
