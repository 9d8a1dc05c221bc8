// Groups of candidates, those that are dropped, and the best network so far.
#include "runs/fit/fit_search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/statistics.h"
#include "esper/version.h"
#include "fit/network_report.h"
#include "growth/host/host_file.h"

// candidates are dropped in this share of the epochs, the first one
#define DROP_SHARE (1.0 / 3)

// samples that a decision is measured on; candidates are ranked on the whole split
#define DECISION_SAMPLES 2000

// --- growth ---

float es_fit_learning_rate(const EsDataset *dataset, float learning_rate) {
    int is_rows = dataset->kind == ES_DATASET_ROWS;
    return learning_rate > 0 ? learning_rate : is_rows ? ES_FIT_ROWS_RATE : ES_FIT_RATE;
}

// Options of n candidates on one host; `slots` are theirs.
static EsStatus set_growth(const EsFitSearchOptions *options, const EsHostSpec *host, int n,
                           EsSlot slots[ES_SLOTS_MAX], EsGrowthOptions *growth) {
    const EsFitSettings *settings = options->settings;
    const EsDeviceInfo *info = es_device_info(options->device);
    int n_slots = 0;
    ES_TRY(es_slots_parse(host, "all", slots, &n_slots));
    *growth = es_growth_defaults(host, slots, n_slots, n);
    es_growth_settings_set_pace(&growth->settings, ES_PACE_SWIFT);
    growth->settings.episode_steps = (int)options->n_epochs;
    growth->batch = options->batch;
    growth->step_batches = options->n_updates;
    growth->n_validation_images = ES_MIN(options->dataset->validation.count, DECISION_SAMPLES);
    growth->seed = options->seed;
    growth->host_learning_rate =
        es_fit_learning_rate(options->dataset, settings->host_learning_rate);
    growth->seed_learning_rate =
        es_fit_learning_rate(options->dataset, settings->seed_learning_rate);
    growth->clip = settings->clip;
    growth->aggregation = (EsAggregation)settings->aggregation;
    growth->recipe = settings->recipe;
    growth->is_stopped = options->is_stopped;
    growth->ranks = settings->run.ranks;
    growth->context = options->context;
    if (info->kind != ES_DEVICE_CPU) {
        // candidates move when some are dropped, which those in float16 cannot
        EsDtype precision = es_growth_auto_precision(host, slots, n_slots, options->device);
        growth->precision = precision == ES_DTYPE_F16 ? ES_DTYPE_F32 : precision;
    }
    return ES_STATUS_OK;
}

// --- the plan ---

EsStatus es_fit_devices_open(const EsFitSettings *settings, EsFitDevices *devices) {
    const EsDeviceOptions options = {.n_threads = settings->run.n_threads};
    *devices = (EsFitDevices){0};
    ES_TRY(es_device_open(settings->run.device, &options, &devices->device));
    if (es_device_info(devices->device)->kind == ES_DEVICE_CPU) {
        devices->cpu = devices->device;
        return ES_STATUS_OK;
    }
    EsStatus status = es_device_open("cpu", &options, &devices->cpu);
    if (status != ES_STATUS_OK) {
        es_fit_devices_close(devices);
    }
    return status;
}

void es_fit_devices_close(EsFitDevices *devices) {
    if (devices->cpu != devices->device) {
        es_device_close(devices->cpu);
    }
    es_device_close(devices->device);
    *devices = (EsFitDevices){0};
}

// A host that was asked for takes on the sizes of the data.
static EsStatus find_host(const EsFitSettings *settings, const EsDataset *dataset,
                          EsFitPlan *plan) {
    EsHostSpec *named = &plan->named_host;
    ES_TRY(es_host_find(settings->task, named));
    named->image_channels = dataset->n_channels;
    named->image_size = dataset->height;
    named->n_classes = dataset->n_classes;
    ES_TRY(es_host_check(named));
    int64_t count = es_host_parameter_count(named);
    if (count > settings->max_parameters) {
        return ES_FAIL(CONFIG,
                       "host \"%s\" has %lld parameters for this data, more than "
                       "--max-params %d",
                       named->name, (long long)count, settings->max_parameters);
    }
    plan->choice.hosts[0] = *named;
    plan->choice.n_hosts = 1;
    snprintf(plan->choice.reason, sizeof plan->choice.reason,
             "Host \"%s\" as asked for: %lld parameters, which leaves %lld to seeds.", named->name,
             (long long)count, (long long)(settings->max_parameters - count));
    return ES_STATUS_OK;
}

// Leaves out the hosts that the GPU cannot run, and says so, as it does of those that it runs by
// plans. A recipe that it cannot train by is no fault of theirs.
static EsStatus suit_gpu(EsFitPlan *plan, const EsFitSettings *settings, const EsDataset *dataset,
                         const EsFitDevices *devices) {
    EsHostChoice *choice = &plan->choice;
    EsFitSearchOptions options = es_fit_plan_search(plan, settings, dataset, devices);
    int n_left = 0;
    ES_TRY(es_recipe_check(&settings->recipe, devices->device));
    options.n_epochs = ES_MAX(options.n_epochs, 1);
    for (int g = 0; g < choice->n_hosts; g++) {
        EsSlot slots[ES_SLOTS_MAX];
        EsGrowthOptions growth_options;
        EsGrowth *growth = NULL;
        size_t used = strlen(choice->reason);
        ES_TRY(set_growth(&options, &choice->hosts[g], 1, slots, &growth_options));
        EsStatus status = es_growth_create(&growth_options, dataset, devices->device, &growth);
        if (status == ES_STATUS_OK && !es_growth_is_fused(growth)) {
            char executor[ES_EXECUTOR_BYTES];
            snprintf(choice->reason + used, sizeof choice->reason - used,
                     " Host \"%s\" runs by %s.", choice->hosts[g].name,
                     es_growth_executor(growth, executor));
        }
        es_growth_destroy(growth);
        if (status == ES_STATUS_OK) {
            choice->hosts[n_left++] = choice->hosts[g];
        } else if (status == ES_STATUS_UNSUPPORTED) {
            snprintf(choice->reason + used, sizeof choice->reason - used, " Left out here: %s.",
                     es_status_detail());
        } else {
            return status;
        }
    }
    if (n_left == 0) { // the detail is that of the last host
        return ES_FAIL(UNSUPPORTED, "no host for this data runs on the GPU: %s",
                       es_status_detail());
    }
    choice->n_hosts = n_left;
    return ES_STATUS_OK;
}

EsStatus es_fit_plan_create(const EsFitSettings *settings, const EsDataset *dataset,
                            const EsFitDevices *devices, EsFitPlan *plan) {
    int64_t n_train = dataset->train.count;
    memset(plan, 0, sizeof *plan);
    if (n_train < 2 || dataset->validation.count < 1) {
        return ES_FAIL(INPUT,
                       "data set \"%s\" has %lld training and %lld validation samples; "
                       "networks are chosen by validation",
                       dataset->name, (long long)n_train, (long long)dataset->validation.count);
    }
    if (dataset->n_classes < 2) {
        return ES_FAIL(INPUT, "data set \"%s\" has one class; there is nothing to tell apart",
                       dataset->name);
    }
    if (es_policy_parse_kind(settings->policy) == ES_POLICY_SCRIPT && settings->n_candidates > 1) {
        return ES_FAIL(CONFIG,
                       "a schedule names slots of one host and steps of one network; --policy "
                       "script:FILE goes with --candidates 1, not %d",
                       settings->n_candidates);
    }
    ES_TRY(settings->task[0] != '\0'
               ? find_host(settings, dataset, plan)
               : es_host_choose(dataset, settings->max_parameters, &plan->choice));
    // a small table gets a few updates per pass
    plan->batch = settings->batch > 0 ? settings->batch
                                      : ES_MAX(ES_MIN(plan->choice.hosts[0].batch, n_train / 8), 1);
    if (plan->batch > n_train) {
        return ES_FAIL(CONFIG, "a batch of %lld is larger than the %lld training samples",
                       (long long)plan->batch, (long long)n_train);
    }
    plan->n_updates = settings->epoch_batches > 0 ? settings->epoch_batches : n_train / plan->batch;
    es_dataset_fingerprint(dataset, plan->data_sha256);
    return devices->device != devices->cpu ? suit_gpu(plan, settings, dataset, devices)
                                           : ES_STATUS_OK;
}

void es_fit_plan_destroy(EsFitPlan *plan) { es_host_unload(&plan->named_host); }

EsFitSearchOptions es_fit_plan_search(const EsFitPlan *plan, const EsFitSettings *settings,
                                      const EsDataset *dataset, const EsFitDevices *devices) {
    return (EsFitSearchOptions){.settings = settings,
                                .dataset = dataset,
                                .data_sha256 = plan->data_sha256,
                                .device = devices->device,
                                .cpu = devices->cpu,
                                .hosts = plan->choice.hosts,
                                .n_hosts = plan->choice.n_hosts,
                                .n_candidates = settings->n_candidates,
                                .batch = plan->batch,
                                .n_updates = plan->n_updates,
                                .n_epochs = settings->run.n_rounds,
                                .seed = (uint64_t)settings->run.seed,
                                .policy = settings->policy};
}

int es_fit_is_enough(const EsFitSettings *settings, double seconds, double best_accuracy) {
    int is_late = settings->max_seconds > 0 && seconds >= (double)settings->max_seconds;
    int is_good =
        settings->target_accuracy > 0 && best_accuracy >= (double)settings->target_accuracy;
    return is_late || is_good;
}

// --- the number of epochs ---

#define CHOSEN_MOST      200
#define MEASURED_UPDATES 32
// the time of an epoch in reserve for seeds, and for candidates that are alone on several threads
#define TIME_SPARE 1.3

int64_t es_fit_usual_epochs(const EsDataset *dataset, int64_t n_updates) {
    int64_t least = dataset->kind == ES_DATASET_ROWS ? ES_FIT_ROWS_UPDATES : 0;
    return ES_MAX(ES_FIT_EPOCHS, (least + n_updates - 1) / n_updates);
}

// Seconds of a whole search of n candidates, half of which is dropped again and again.
static double search_seconds(int n, int n_epochs, double epoch_seconds) {
    int64_t n_trained = n; // candidates, over all epochs
    for (int epoch = 1; epoch < n_epochs; epoch++) {
        n_trained += es_fit_count_kept(n, n_epochs, epoch);
    }
    return TIME_SPARE * epoch_seconds * (double)n_trained / n;
}

int es_fit_count_epochs(int n, double epoch_seconds, double seconds) {
    int n_epochs = 1;
    while (n_epochs < CHOSEN_MOST && search_seconds(n, n_epochs + 1, epoch_seconds) <= seconds) {
        n_epochs++;
    }
    return n_epochs;
}

// Of a search with fewer updates in an epoch, the first epoch that is like all later ones: on a CPU
// the second one, since plans are made in the first; on a GPU the third one, since the second one
// captures what the first one ran.
static EsStatus measure_epoch(const EsFitSearchOptions *options, double *seconds) {
    EsFitSearchOptions shorter = *options;
    EsFitSearch *search = NULL;
    EsStatus status = ES_STATUS_OK;
    double train_seconds = 0;
    int64_t measured = es_device_info(options->device)->kind == ES_DEVICE_CPU ? 2 : 3;
    shorter.n_updates = ES_MIN(options->n_updates, MEASURED_UPDATES);
    shorter.n_epochs = 1000; // no candidate is dropped yet
    shorter.decided = NULL;
    ES_TRY(es_fit_search_create(&shorter, &search));
    for (int64_t epoch = 1; epoch < measured; epoch++) {
        ES_TRY_GOTO(es_fit_search_advance(search, epoch));
        ES_TRY_GOTO(es_fit_search_decide(search, epoch));
    }
    int64_t start_ns = es_clock_ns();
    ES_TRY_GOTO(es_fit_search_advance(search, measured));
    *seconds = es_clock_seconds_since(start_ns);
    for (int g = 0; g < search->n_groups; g++) {
        train_seconds += es_growth_times(search->groups[g]->growth).train_ms * 1e-3;
    }
    *seconds += train_seconds * ((double)options->n_updates / (double)shorter.n_updates - 1);
done:
    es_fit_search_destroy(search);
    return status;
}

EsStatus es_fit_choose_epochs(EsFitSearchOptions *options, double spent_seconds,
                              double *epoch_seconds) {
    double max_seconds = (double)options->settings->max_seconds;
    int64_t start_ns = es_clock_ns();
    *epoch_seconds = 0;
    if (max_seconds <= 0) {
        options->n_epochs = es_fit_usual_epochs(options->dataset, options->n_updates);
        return ES_STATUS_OK;
    }
    ES_TRY(measure_epoch(options, epoch_seconds));
    double left = max_seconds - spent_seconds - es_clock_seconds_since(start_ns);
    options->n_epochs = es_fit_count_epochs(options->n_candidates, *epoch_seconds, left);
    return ES_STATUS_OK;
}

// --- life ---

EsFitShare es_fit_share(int n, int n_hosts, int host) {
    int n_extra = n % n_hosts;
    return (EsFitShare){.first = host * (n / n_hosts) + ES_MIN(host, n_extra),
                        .n = n / n_hosts + (host < n_extra)};
}

static EsStatus create_group(EsFitSearch *search, const EsHostSpec *host, EsFitShare share,
                             EsFitGroup **group) {
    const EsFitSearchOptions *options = &search->options;
    EsSlot slots[ES_SLOTS_MAX];
    EsGrowthOptions growth;
    ES_TRY(set_growth(options, host, share.n, slots, &growth));
    const EsFitGroupOptions group_options = {
        .growth = growth,
        .dataset = options->dataset,
        .device = options->device,
        .cpu = options->cpu,
        .policy = options->policy,
        .policy_folder = search->policy_folder,
        .max_parameters = options->settings->max_parameters,
        .planted = options->planted != NULL ? options->planted + share.first : NULL,
        .rails = options->rails};
    return es_fit_group_create(&group_options, share.n, options->first_candidate + share.first,
                               group);
}

// The folder of shipped policies: that of ES_POLICY_DIR, else the one that `make install` puts
// beside the program, else the source's, for a program in its build folder.
static void find_policies(char folder[ES_FIT_PATH_BYTES]) {
    static const char *const places[] = {"../share/esper/policies", "../../policies"};
    const char *named = getenv("ES_POLICY_DIR");
    char program[ES_FIT_PATH_BYTES / 2] = "";
    char *absolute = named != NULL ? realpath(named, NULL) : NULL;
    snprintf(folder, ES_FIT_PATH_BYTES, "%s",
             absolute != NULL ? absolute
             : named != NULL  ? named
                              : "");
    free(absolute);
    if (folder[0] != '\0' || readlink("/proc/self/exe", program, sizeof program - 1) < 1) {
        return;
    }
    static const char built[] = "/programs/esper";
    size_t length = strlen(program), n_built = strlen(built);
    int is_built = length > n_built && strcmp(program + length - n_built, built) == 0;
    char *slash = strrchr(program, '/');
    for (int i = 0; slash != NULL && i < 1 + is_built; i++) {
        char place[ES_FIT_PATH_BYTES];
        snprintf(place, sizeof place, "%.*s/%s", (int)(slash - program), program, places[i]);
        absolute = realpath(place, NULL);
        if (absolute != NULL) {
            snprintf(folder, ES_FIT_PATH_BYTES, "%s", absolute);
            free(absolute);
            return;
        }
    }
}

static EsStatus create_groups(EsFitSearch *search) {
    const EsFitSearchOptions *options = &search->options;
    int n_hosts = ES_MIN(options->n_hosts, options->n_candidates);
    for (int g = 0; g < n_hosts; g++) {
        EsFitShare share = es_fit_share(options->n_candidates, n_hosts, g);
        ES_TRY(create_group(search, &options->hosts[g], share, &search->groups[g]));
        search->n_groups++;
    }
    es_fit_search_assign(search);
    return ES_STATUS_OK;
}

void es_fit_search_assign(EsFitSearch *search) {
    int n_all = 0, first = 0;
    for (int g = 0; g < search->n_groups; g++) {
        n_all += search->groups[g]->n;
    }
    for (int g = 0; g < search->n_groups; g++) {
        if (search->groups[g]->n > 0) {
            es_fit_group_assign(search->groups[g], first, n_all);
        }
        first += search->groups[g]->n;
    }
}

EsStatus es_fit_search_create(const EsFitSearchOptions *options, EsFitSearch **search_out) {
    EsFitSearch *search = NULL;
    *search_out = NULL;
    ES_TRY(es_allocate(sizeof *search, (void **)&search));
    search->options = *options;
    search->best_accuracy = search->top_accuracy = -1;
    find_policies(search->policy_folder);
    EsStatus status = create_groups(search);
    if (status != ES_STATUS_OK) {
        es_fit_search_destroy(search);
        return status;
    }
    *search_out = search;
    return ES_STATUS_OK;
}

void es_fit_search_destroy(EsFitSearch *search) {
    if (search == NULL) {
        return;
    }
    es_grown_network_destroy(search->best);
    for (int g = 0; g < search->n_groups; g++) {
        es_fit_group_destroy(search->groups[g]);
    }
    es_release(search);
}

// --- candidates over all groups ---

static int is_better(double accuracy, double loss, double other_accuracy, double other_loss) {
    return accuracy > other_accuracy || (accuracy == other_accuracy && loss < other_loss);
}

static int compare_places(const void *a, const void *b) {
    const EsFitPlace *x = a, *y = b;
    if (is_better(x->accuracy, x->loss, y->accuracy, y->loss)) {
        return -1;
    }
    if (is_better(y->accuracy, y->loss, x->accuracy, x->loss)) {
        return 1;
    }
    return x->group != y->group ? x->group - y->group : x->position - y->position;
}

int es_fit_search_list(const EsFitSearch *search, EsFitPlace places[ES_FIT_CANDIDATES_MAX]) {
    int n = 0;
    for (int g = 0; g < search->n_groups; g++) {
        const EsFitGroup *group = search->groups[g];
        for (int i = 0; i < group->n; i++) {
            int is_finite = isfinite(group->loss[i]);
            places[n++] = (EsFitPlace){g, i, is_finite ? group->accuracy[i] : -1,
                                       is_finite ? group->loss[i] : INFINITY};
        }
    }
    qsort(places, (size_t)n, sizeof *places, compare_places);
    return n;
}

int es_fit_count_kept(int n, int64_t n_epochs, int64_t epoch) {
    int n_kept = n, n_halvings = 0;
    for (int left = n; left > 1; left = (left + 1) / 2) {
        n_halvings++;
    }
    for (int i = 1; i <= n_halvings; i++) {
        double from = fmax(DROP_SHARE * i / n_halvings * (double)n_epochs, i);
        n_kept = (double)epoch >= from ? (n_kept + 1) / 2 : n_kept;
    }
    return n_kept;
}

static EsStatus drop_weak(EsFitSearch *search, int64_t epoch) {
    EsFitPlace places[ES_FIT_CANDIDATES_MAX];
    int n = es_fit_search_list(search, places);
    int n_kept = es_fit_count_kept(search->options.n_candidates, search->options.n_epochs, epoch);
    for (int g = 0; n_kept < n && g < search->n_groups; g++) {
        int kept[ES_FIT_CANDIDATES_MAX], n_here = 0;
        for (int i = 0; i < search->groups[g]->n; i++) {
            for (int k = 0; k < n_kept; k++) {
                if (places[k].group == g && places[k].position == i) {
                    kept[n_here++] = i;
                }
            }
        }
        ES_TRY(es_fit_group_keep(search->groups[g], kept, n_here));
    }
    es_fit_search_assign(search);
    return ES_STATUS_OK;
}

// --- an epoch ---

// Notes in the best network where it comes from; its test accuracy is not known yet.
static void note_origin(EsFitSearch *search) {
    EsGrownOrigin *origin = &search->best->origin;
    *origin = (EsGrownOrigin){.version = ES_VERSION,
                              .command = "fit",
                              .seed = (int64_t)search->options.seed,
                              .episode = search->best_candidate,
                              .validation_accuracy = search->best_accuracy,
                              .test_accuracy = NAN};
    snprintf(origin->data, sizeof origin->data, "%s", search->options.dataset->name);
    snprintf(origin->data_sha256, sizeof origin->data_sha256, "%s", search->options.data_sha256);
    snprintf(origin->policy, sizeof origin->policy, "%s",
             search->groups[search->best_group]->policy_name);
}

// Returns if an epoch's best candidate replaces the network that is kept. Tables have few rows to
// choose by: a network that was lucky with 15 of them after a few updates would win over all that
// are trained further. There the later one does, unless it is below the interval of the best one.
static int is_new_best(const EsFitSearch *search, const EsFitPlace *place) {
    const EsDataset *dataset = search->options.dataset;
    int64_t n = dataset->validation.count;
    double low, high;
    if (dataset->kind != ES_DATASET_ROWS || search->best == NULL) {
        return is_better(place->accuracy, place->loss, search->best_accuracy, search->best_loss);
    }
    es_wilson_interval(llround(search->top_accuracy / 100 * (double)n), n, &low, &high);
    return place->accuracy >= low;
}

static EsStatus take_best(EsFitSearch *search, int64_t epoch) {
    EsFitPlace places[ES_FIT_CANDIDATES_MAX];
    EsGrownNetwork *network = NULL;
    int n = es_fit_search_list(search, places);
    search->is_new_best = n > 0 && places[0].accuracy >= 0 && is_new_best(search, &places[0]);
    if (!search->is_new_best) {
        return ES_STATUS_OK;
    }
    EsFitGroup *group = search->groups[places[0].group];
    ES_TRY(es_grown_network_take(group->growth, places[0].position, search->options.cpu, &network));
    es_grown_network_destroy(search->best);
    search->best = network;
    search->best_epoch = epoch;
    search->best_group = places[0].group;
    search->best_candidate = group->candidates[places[0].position];
    search->best_accuracy = places[0].accuracy;
    search->best_loss = places[0].loss;
    search->top_accuracy = fmax(search->top_accuracy, search->best_accuracy);
    note_origin(search);
    return ES_STATUS_OK;
}

EsStatus es_fit_search_advance(EsFitSearch *search, int64_t epoch) {
    for (int part = 0; part < ES_FIT_ADVANCE_PARTS; part++) {
        for (int g = 0; g < search->n_groups; g++) {
            if (search->groups[g]->n > 0) {
                ES_TRY(es_fit_group_advance_part(search->groups[g], part));
            }
        }
    }
    return take_best(search, epoch);
}

EsStatus es_fit_search_decide(EsFitSearch *search, int64_t epoch) {
    for (int g = 0; g < search->n_groups; g++) {
        if (search->groups[g]->n > 0) {
            ES_TRY(es_fit_group_decide(search->groups[g]));
            ES_TRY(es_growth_gather_weights(search->groups[g]->growth));
        }
    }
    if (search->options.decided != NULL) {
        search->options.decided(search->options.context);
    }
    return drop_weak(search, epoch);
}
