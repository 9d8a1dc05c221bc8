// The alternatives to a fit, each a search of its own, and their outcomes in comparison.json.
#include "runs/fit/fit_compare.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "esper/log.h"
#include "fit/network_report.h"
#include "runs/stop_signal.h"

#define FILE_NAME "comparison.json"
#define FORMAT    "esper.fit_comparison.1"

typedef struct Comparing {
    EsFitSearchOptions options; // of the fit, with a way to stop
    EsRun *run;                 // borrowed
    EsThreadPool *pool;         // owned
    EsFitComparison *comparison;
    int n_filed; // seeds of comparison.json: those asked for, or more of an earlier session
} Comparing;

const char *es_fit_variant_name(EsFitVariant variant) {
    static const char *const names[] = {
#define X(NAME, name, meaning) #name,
        ES_FIT_VARIANT_LIST(X)
#undef X
    };
    return names[variant];
}

const char *es_fit_variant_meaning(EsFitVariant variant) {
    static const char *const meanings[] = {
#define X(NAME, name, meaning) meaning,
        ES_FIT_VARIANT_LIST(X)
#undef X
    };
    return meanings[variant];
}

// --- alternatives ---

// Random topologies of the hosts for all candidates.
static EsStatus draw_topologies(const EsFitSearchOptions *options, EsFitTopology *topologies) {
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    for (int g = 0; g < options->n_hosts; g++) {
        const EsHostSpec *host = &options->hosts[g];
        EsFitShare share = es_fit_share(options->n_candidates, options->n_hosts, g);
        ES_TRY(es_slots_parse(host, "all", slots, &n_slots));
        for (int k = share.first; k < share.first + share.n; k++) {
            es_fit_topology_draw(&topologies[k], host, slots, n_slots,
                                 options->settings->max_parameters, options->seed, (uint32_t)k);
        }
    }
    return ES_STATUS_OK;
}

// The host of a candidate.
static const EsHostSpec *host_of(const EsFitSearchOptions *options, int candidate) {
    int g = 0;
    while (candidate >= es_fit_share(options->n_candidates, options->n_hosts, g + 1).first) {
        g++;
    }
    return &options->hosts[g];
}

// A whole search; *network is its best one, NULL when all candidates diverged.
static EsStatus run_search(const EsFitSearchOptions *options, EsGrownNetwork **network) {
    EsFitSearch *search = NULL;
    ES_TRY(es_fit_search_create(options, &search));
    EsStatus status = ES_STATUS_OK;
    for (int64_t epoch = 1; status == ES_STATUS_OK && epoch <= options->n_epochs; epoch++) {
        status = es_fit_search_advance(search, epoch);
        status = status == ES_STATUS_OK ? es_fit_search_decide(search, epoch) : status;
    }
    if (status == ES_STATUS_OK) {
        *network = search->best;
        search->best = NULL;
    }
    es_fit_search_destroy(search);
    return status;
}

// One candidate: the host of the fit's winner, or what became of it, from the same start.
static EsStatus run_single(const EsFitSearchOptions *options, EsFitVariant variant,
                           const EsGrownNetwork *fitted, EsGrownNetwork **network) {
    EsFitSearchOptions single = *options;
    EsFitTopology topology;
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    // a file may say anything
    int winner = (int)ES_MAX(ES_MIN(fitted->origin.episode, options->n_candidates - 1), 0);
    EsHostSpec host = *host_of(options, winner);
    // hosts come in a few sizes: a tenth more, where the limit leaves it, so that the nearest is
    // rarely the host itself
    int64_t n_static =
        ES_MIN(fitted->n_parameters + fitted->n_parameters / 10, options->settings->max_parameters);
    if (variant == ES_FIT_WIDER) {
        host = es_host_widen(&host, n_static);
    } else if (variant == ES_FIT_DEEPER) {
        host = es_host_deepen(&host, n_static, ES_HOST_BLOCKS_MAX);
    } else if (variant == ES_FIT_SCRATCH) {
        // the network's own host, from a file, has slots at every place
        ES_TRY(es_slots_parse(&host, "all", slots, &n_slots));
        ES_TRY(es_fit_topology_of(&topology, &fitted->spec, slots, n_slots));
        single.planted = &topology;
    }
    single.hosts = &host;
    single.n_hosts = single.n_candidates = 1;
    single.first_candidate = winner;
    single.policy = "wait";
    return run_search(&single, network);
}

EsStatus es_fit_variant_run(const EsFitSearchOptions *options, EsFitVariant variant,
                            const EsGrownNetwork *fitted, EsGrownNetwork **network) {
    EsFitSearchOptions changed = *options;
    EsFitTopology *topologies = NULL;
    *network = NULL;
    switch (variant) {
    case ES_FIT_FIT:
        return run_search(options, network);
    case ES_FIT_RANDOM:
        changed.policy = "random";
        return run_search(&changed, network);
    case ES_FIT_SEARCH:
        ES_TRY(
            es_allocate(sizeof *topologies * (size_t)options->n_candidates, (void **)&topologies));
        changed.policy = "wait";
        changed.planted = topologies;
        EsStatus status = draw_topologies(options, topologies);
        status = status == ES_STATUS_OK ? run_search(&changed, network) : status;
        es_release(topologies);
        return status;
    default:
        return run_single(options, variant, fitted, network);
    }
}

// --- outcomes ---

static int is_stopped(void *context) {
    (void)context;
    return es_stop_signal_time_ns() != 0;
}

// NULL: the variant diverged.
static EsStatus score(const Comparing *c, EsGrownNetwork *network, EsFitOutcome *outcome) {
    EsNetworkScore scored;
    *outcome = (EsFitOutcome){1, NAN, NAN, NAN};
    if (network == NULL) {
        return ES_STATUS_OK;
    }
    ES_TRY(
        es_network_score(network, c->pool, c->options.dataset, &c->options.dataset->test, &scored));
    network->origin.test_accuracy = scored.accuracy;
    *outcome = (EsFitOutcome){.is_known = 1,
                              .test_accuracy = scored.accuracy,
                              .validation_accuracy = network->origin.validation_accuracy,
                              .n_parameters = (double)network->n_parameters};
    es_network_score_destroy(&scored);
    return ES_STATUS_OK;
}

static void network_folder(const Comparing *c, int i, char folder[ES_RUN_PATH_BYTES]) {
    char name[32];
    snprintf(name, sizeof name, ES_RUN_NETWORKS "/%d", i + 1);
    es_run_folder_path(es_run_folder(c->run), name, folder);
}

static EsFitSearchOptions options_of_seed(const Comparing *c, int i) {
    EsFitSearchOptions options = c->options;
    options.seed += (uint64_t)i;
    return options;
}

// The fit of seed i: the network of the run folder, or a new one that is put there; NULL: it
// diverged.
static EsStatus find_fit(const Comparing *c, int i, EsGrownNetwork **network) {
    EsFitOutcome *outcome = &c->comparison->outcomes[ES_FIT_FIT][i];
    char folder[ES_RUN_PATH_BYTES];
    network_folder(c, i, folder);
    *network = NULL;
    if (i > 0 && outcome->is_known && isnan(outcome->test_accuracy)) {
        return ES_STATUS_OK;
    }
    if (i == 0 || outcome->is_known) {
        ES_TRY(es_grown_network_load(folder, c->options.cpu, network));
        return score(c, *network, outcome);
    }
    EsFitSearchOptions options = options_of_seed(c, i);
    ES_TRY(es_fit_variant_run(&options, ES_FIT_FIT, NULL, network));
    ES_TRY(score(c, *network, outcome));
    if (*network == NULL) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_folder_make(folder));
    return es_grown_network_save(*network, folder);
}

static EsStatus run_variant(const Comparing *c, EsFitVariant variant, int i,
                            const EsGrownNetwork *fitted) {
    EsFitSearchOptions options = options_of_seed(c, i);
    EsGrownNetwork *network = NULL;
    ES_TRY(es_fit_variant_run(&options, variant, fitted, &network));
    EsStatus status = score(c, network, &c->comparison->outcomes[variant][i]);
    es_grown_network_destroy(network);
    return status;
}

// --- the file ---

static json_t *outcome_json(const EsFitOutcome *outcome) {
    return json_pack("{s:o, s:o, s:o}", "test_accuracy", es_json_number(outcome->test_accuracy),
                     "validation_accuracy", es_json_number(outcome->validation_accuracy),
                     "parameters", es_json_number(outcome->n_parameters));
}

static EsStatus save(const Comparing *c) {
    const EsFitComparison *comparison = c->comparison;
    char path[ES_RUN_PATH_BYTES];
    json_t *root = json_pack("{s:s, s:i}", "format", FORMAT, "seeds", c->n_filed);
    for (int v = 0; root != NULL && v < ES_FIT_VARIANTS; v++) {
        json_t *list = json_array();
        for (int i = 0; list != NULL && i < c->n_filed; i++) {
            const EsFitOutcome *outcome = &comparison->outcomes[v][i];
            json_array_append_new(list, outcome->is_known ? outcome_json(outcome) : json_null());
        }
        json_object_set_new(root, es_fit_variant_name((EsFitVariant)v), list);
    }
    es_run_folder_path(es_run_folder(c->run), FILE_NAME, path);
    char *text = NULL;
    ES_TRY(es_json_dump(path, root, JSON_INDENT(2) | JSON_REAL_PRECISION(17), &text));
    EsStatus status = es_file_write_all(path, text, strlen(text));
    free(text);
    return status;
}

static double member(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

// Outcomes of an earlier session, which may have had fewer or more seeds.
static void load(Comparing *c) {
    EsFitComparison *comparison = c->comparison;
    char path[ES_RUN_PATH_BYTES];
    es_run_folder_path(es_run_folder(c->run), FILE_NAME, path);
    json_t *root = json_load_file(path, 0, NULL);
    const char *format = json_string_value(json_object_get(root, "format"));
    int is_same = format != NULL && strcmp(format, FORMAT) == 0;
    json_int_t n_there = is_same ? json_integer_value(json_object_get(root, "seeds")) : 0;
    c->n_filed = ES_MAX(comparison->n_seeds, (int)ES_MIN(n_there, ES_FIT_SEEDS_MAX));
    for (int v = 0; is_same && v < ES_FIT_VARIANTS; v++) {
        const json_t *list = json_object_get(root, es_fit_variant_name((EsFitVariant)v));
        for (int i = 0; i < c->n_filed; i++) {
            const json_t *found = json_array_get(list, (size_t)i);
            double test = member(found, "test_accuracy");
            if (json_is_object(found) && (isnan(test) || (test >= 0 && test <= 100))) {
                comparison->outcomes[v][i] =
                    (EsFitOutcome){.is_known = 1,
                                   .test_accuracy = test,
                                   .validation_accuracy = member(found, "validation_accuracy"),
                                   .n_parameters = member(found, "parameters")};
            }
        }
    }
    json_decref(root);
}

// --- all of them ---

static void log_outcome(const Comparing *c, EsFitVariant variant, int i) {
    const EsFitOutcome *outcome = &c->comparison->outcomes[variant][i];
    char accuracy[48] = "diverged";
    if (!es_run_has_progress(c->run)) {
        return;
    }
    if (isfinite(outcome->test_accuracy)) {
        snprintf(accuracy, sizeof accuracy, "test accuracy %.2f %%", outcome->test_accuracy);
    }
    es_log(ES_LOG_INFO, "comparison, seed %d of %d: %s, %s", i + 1, c->comparison->n_seeds,
           es_fit_variant_meaning(variant), accuracy);
}

static EsStatus compare_seed(const Comparing *c, int i) {
    EsGrownNetwork *network = NULL;
    EsStatus status = find_fit(c, i, &network);
    status = status == ES_STATUS_OK ? save(c) : status;
    for (int v = ES_FIT_FIT + 1; status == ES_STATUS_OK && v < ES_FIT_VARIANTS; v++) {
        // without a network there is no final topology and no final size
        int is_possible = network != NULL || v == ES_FIT_RANDOM || v == ES_FIT_SEARCH;
        if (c->comparison->outcomes[v][i].is_known || !is_possible) {
            continue;
        }
        status = run_variant(c, (EsFitVariant)v, i, network);
        if (status == ES_STATUS_OK) {
            log_outcome(c, (EsFitVariant)v, i);
            status = save(c);
        }
    }
    es_grown_network_destroy(network);
    return status;
}

// Student's mean of the numbers that are finite; NaN when there is none.
static EsInterval mean_of_finite(const double *values, int n) {
    double finite[ES_FIT_SEEDS_MAX];
    int n_finite = 0;
    for (int i = 0; i < n; i++) {
        if (isfinite(values[i])) {
            finite[n_finite++] = values[i];
        }
    }
    return n_finite > 0 ? es_student_mean(finite, n_finite, sizeof *finite)
                        : (EsInterval){NAN, NAN, NAN};
}

static void measure_variant(EsFitComparison *comparison, int v) {
    double accuracies[ES_FIT_SEEDS_MAX], differences[ES_FIT_SEEDS_MAX], sizes[ES_FIT_SEEDS_MAX];
    comparison->n_diverged[v] = 0;
    for (int i = 0; i < comparison->n_seeds; i++) {
        const EsFitOutcome *outcome = &comparison->outcomes[v][i];
        accuracies[i] = outcome->is_known ? outcome->test_accuracy : NAN;
        differences[i] = accuracies[i] - comparison->outcomes[ES_FIT_FIT][i].test_accuracy;
        sizes[i] = outcome->is_known ? outcome->n_parameters : NAN;
        comparison->n_diverged[v] += outcome->is_known && isnan(outcome->test_accuracy);
    }
    comparison->mean[v] = mean_of_finite(accuracies, comparison->n_seeds);
    comparison->difference[v] = mean_of_finite(differences, comparison->n_seeds);
    comparison->n_parameters[v] = mean_of_finite(sizes, comparison->n_seeds).mean;
}

static int is_better(const EsFitComparison *comparison, int v, int other) {
    double mean = comparison->mean[v].mean, other_mean = comparison->mean[other].mean;
    return mean > other_mean || (isnan(other_mean) && !isnan(mean));
}

void es_fit_comparison_measure(EsFitComparison *comparison) {
    for (int v = 0; v < ES_FIT_VARIANTS; v++) {
        measure_variant(comparison, v);
        int at = v; // the fit stands before those that are only as good
        for (; at > 0 && is_better(comparison, v, comparison->order[at - 1]); at--) {
            comparison->order[at] = comparison->order[at - 1];
        }
        comparison->order[at] = v;
    }
}

EsStatus es_fit_compare(const EsFitSearchOptions *options, EsRun *run, int n_seeds,
                        EsFitComparison *comparison) {
    Comparing c = {.options = *options, .run = run, .comparison = comparison};
    c.options.rails = NULL; // budgets are of the fit itself
    memset(comparison, 0, sizeof *comparison);
    comparison->n_seeds = n_seeds;
    c.options.is_stopped = is_stopped;
    c.options.decided = NULL;
    c.options.context = NULL;
    load(&c);
    ES_TRY(es_thread_pool_create(&c.pool, options->settings->run.n_threads));
    EsStatus status = ES_STATUS_OK;
    for (int i = 0; status == ES_STATUS_OK && i < n_seeds; i++) {
        status = compare_seed(&c, i);
    }
    es_thread_pool_destroy(c.pool);
    ES_TRY(status);
    es_fit_comparison_measure(comparison);
    return ES_STATUS_OK;
}
