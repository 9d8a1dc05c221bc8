// Groups of candidates, those that are dropped, and the best network so far.
#include "runs/fit/fit_search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "esper/version.h"
#include "growth/host/host_file.h"

// candidates are dropped in this share of the epochs, the first one
#define DROP_SHARE (1.0 / 3)

// samples that a decision is measured on; candidates are ranked on the whole split
#define DECISION_SAMPLES 2000

// --- the plan ---

EsStatus es_fit_open_device(const EsFitSettings *settings, EsDevice **device) {
    EsDeviceOptions options = {.n_threads = settings->run.n_threads};
    ES_TRY(es_device_open(settings->run.device, &options, device));
    if (es_device_info(*device)->kind != ES_DEVICE_CPU) {
        es_device_close(*device);
        *device = NULL;
        return ES_FAIL(UNSUPPORTED, "fit runs on the CPU; --device cpu. `esper grow --keep-best` "
                                    "grows networks on a GPU");
    }
    return ES_STATUS_OK;
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

EsStatus es_fit_plan_create(const EsFitSettings *settings, const EsDataset *dataset,
                            EsFitPlan *plan) {
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
    return ES_STATUS_OK;
}

void es_fit_plan_destroy(EsFitPlan *plan) { es_host_unload(&plan->named_host); }

EsFitSearchOptions es_fit_plan_search(const EsFitPlan *plan, const EsFitSettings *settings,
                                      const EsDataset *dataset, EsDevice *device) {
    return (EsFitSearchOptions){.settings = settings,
                                .dataset = dataset,
                                .device = device,
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

// --- life ---

// An epoch has as many updates as many steps of `esper grow`: every stage lasts one, a blend one to
// three.
static void set_dwells(EsGrowthSettings *settings) {
    settings->training_dwell = settings->blending_dwell = settings->holding_dwell = 1;
    settings->embargo_dwell = settings->reset_dwell = settings->prune_age = 1;
    for (int i = 0; i < 3; i++) {
        settings->tempo[i] = i + 1;
    }
    settings->governor_minimum = 5;
}

static EsStatus create_group(EsFitSearch *search, const EsHostSpec *host, int n, int first,
                             EsFitGroup **group) {
    const EsFitSearchOptions *options = &search->options;
    const EsFitSettings *settings = options->settings;
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0, n_epochs = (int)options->n_epochs;
    ES_TRY(es_slots_parse(host, "all", slots, &n_slots));
    EsGrowthOptions growth = es_growth_defaults(host, slots, n_slots, n);
    set_dwells(&growth.settings);
    growth.settings.episode_steps = n_epochs;
    growth.batch = options->batch;
    growth.step_batches = options->n_updates;
    growth.n_validation_images = ES_MIN(options->dataset->validation.count, DECISION_SAMPLES);
    growth.seed = options->seed;
    growth.host_learning_rate = settings->host_learning_rate;
    growth.seed_learning_rate = settings->seed_learning_rate;
    growth.clip = settings->clip;
    growth.recipe = settings->recipe;
    growth.is_stopped = options->is_stopped;
    growth.context = options->context;
    const EsFitGroupOptions group_options = {
        .growth = growth,
        .dataset = options->dataset,
        .device = options->device,
        .policy = options->policy,
        .policy_folder = getenv("ES_POLICY_DIR"),
        .max_parameters = settings->max_parameters,
        .planted = options->planted != NULL ? options->planted + (first - options->first_candidate)
                                            : NULL};
    return es_fit_group_create(&group_options, n, first, group);
}

// Candidates are shared out over the hosts, one more for the first ones.
static EsStatus create_groups(EsFitSearch *search) {
    int n_all = search->options.n_candidates, first = search->options.first_candidate;
    int n_hosts = ES_MIN(search->options.n_hosts, n_all);
    for (int g = 0; g < n_hosts; g++) {
        int n = n_all / n_hosts + (g < n_all % n_hosts);
        ES_TRY(create_group(search, &search->options.hosts[g], n, first, &search->groups[g]));
        search->n_groups++;
        first += n;
    }
    return ES_STATUS_OK;
}

EsStatus es_fit_search_create(const EsFitSearchOptions *options, EsFitSearch **search_out) {
    EsFitSearch *search = NULL;
    *search_out = NULL;
    ES_TRY(es_allocate(sizeof *search, (void **)&search));
    search->options = *options;
    search->best_accuracy = -1;
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
    return ES_STATUS_OK;
}

// --- an epoch ---

static EsStatus take_best(EsFitSearch *search, int64_t epoch) {
    EsFitPlace places[ES_FIT_CANDIDATES_MAX];
    EsGrownNetwork *network = NULL;
    int n = es_fit_search_list(search, places);
    search->is_new_best =
        n > 0 && places[0].accuracy >= 0 &&
        is_better(places[0].accuracy, places[0].loss, search->best_accuracy, search->best_loss);
    if (!search->is_new_best) {
        return ES_STATUS_OK;
    }
    EsFitGroup *group = search->groups[places[0].group];
    ES_TRY(
        es_grown_network_take(group->growth, places[0].position, search->options.device, &network));
    es_grown_network_destroy(search->best);
    search->best = network;
    search->best_epoch = epoch;
    search->best_group = places[0].group;
    search->best_candidate = group->candidates[places[0].position];
    search->best_accuracy = places[0].accuracy;
    search->best_loss = places[0].loss;
    return ES_STATUS_OK;
}

EsStatus es_fit_search_advance(EsFitSearch *search, int64_t epoch) {
    for (int g = 0; g < search->n_groups; g++) {
        if (search->groups[g]->n > 0) {
            ES_TRY(es_fit_group_advance(search->groups[g]));
        }
    }
    return take_best(search, epoch);
}

void es_fit_search_note_origin(EsFitSearch *search, const char *data_sha256) {
    EsGrownOrigin *origin = &search->best->origin;
    *origin = (EsGrownOrigin){.version = ES_VERSION,
                              .command = "fit",
                              .seed = (int64_t)search->options.seed,
                              .episode = search->best_candidate,
                              .validation_accuracy = search->best_accuracy,
                              .test_accuracy = NAN};
    snprintf(origin->data, sizeof origin->data, "%s", search->options.dataset->name);
    snprintf(origin->data_sha256, sizeof origin->data_sha256, "%s", data_sha256);
    snprintf(origin->policy, sizeof origin->policy, "%s",
             search->groups[search->best_group]->policy_name);
}

EsStatus es_fit_search_decide(EsFitSearch *search, int64_t epoch) {
    for (int g = 0; g < search->n_groups; g++) {
        if (search->groups[g]->n > 0) {
            ES_TRY(es_fit_group_decide(search->groups[g]));
        }
    }
    if (search->options.decided != NULL) {
        search->options.decided(search->options.context);
    }
    return drop_weak(search, epoch);
}
