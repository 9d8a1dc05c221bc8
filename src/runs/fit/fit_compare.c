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
#include "base/random_rules.h"
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

// --- one search ---

static int is_stopped(void *context) {
    (void)context;
    return es_stop_signal_time_ns() != 0;
}

static EsStatus score(const Comparing *c, EsGrownNetwork *network, double validation_accuracy,
                      EsFitOutcome *outcome) {
    EsNetworkScore scored;
    ES_TRY(
        es_network_score(network, c->pool, c->options.dataset, &c->options.dataset->test, &scored));
    *outcome = (EsFitOutcome){.is_known = 1,
                              .test_accuracy = scored.accuracy,
                              .validation_accuracy = validation_accuracy,
                              .n_parameters = (double)network->n_parameters};
    es_network_score_destroy(&scored);
    return ES_STATUS_OK;
}

// A whole search; *network, where it is wanted, is its best one and becomes the caller's.
static EsStatus run_search(const Comparing *c, const EsFitSearchOptions *options,
                           EsFitOutcome *outcome, EsGrownNetwork **network) {
    EsFitSearch *search = NULL;
    ES_TRY(es_fit_search_create(options, &search));
    EsStatus status = ES_STATUS_OK;
    for (int64_t epoch = 1; status == ES_STATUS_OK && epoch <= options->n_epochs; epoch++) {
        status = es_fit_search_advance(search, epoch);
        status = status == ES_STATUS_OK ? es_fit_search_decide(search, epoch) : status;
    }
    if (status == ES_STATUS_OK && search->best == NULL) {
        // it diverged: that is its outcome
        *outcome = (EsFitOutcome){.is_known = 1, .n_parameters = NAN};
    } else if (status == ES_STATUS_OK) {
        status = score(c, search->best, search->best_accuracy, outcome);
    }
    if (status == ES_STATUS_OK && network != NULL && search->best != NULL) {
        *network = search->best;
        (*network)->origin.episode = search->best_candidate;
        search->best = NULL;
    }
    es_fit_search_destroy(search);
    return status;
}

// --- fits of further seeds ---

static void network_folder(const Comparing *c, int i, char folder[ES_RUN_PATH_BYTES]) {
    char name[32];
    snprintf(name, sizeof name, ES_RUN_NETWORKS "/%d", i + 1);
    es_run_folder_path(es_run_folder(c->run), name, folder);
}

// The fit of seed i: the network of the run folder, or a new one that is put there.
static EsStatus find_fit(const Comparing *c, int i, EsGrownNetwork **network) {
    EsFitOutcome *outcome = &c->comparison->outcomes[ES_FIT_FIT][i];
    char folder[ES_RUN_PATH_BYTES];
    network_folder(c, i, folder);
    *network = NULL;
    if (i == 0 || outcome->is_known) {
        ES_TRY(es_grown_network_load(folder, c->options.device, network));
        return score(c, *network, (*network)->origin.validation_accuracy, outcome);
    }
    EsFitSearchOptions options = c->options;
    options.seed += (uint64_t)i;
    ES_TRY(run_search(c, &options, outcome, network));
    if (*network == NULL) {
        return ES_FAIL(NUMERIC, "the fit of seed %lld diverged; there is nothing to compare",
                       (long long)options.seed);
    }
    (*network)->origin.validation_accuracy = outcome->validation_accuracy;
    ES_TRY(es_folder_make(folder));
    return es_grown_network_save(*network, folder);
}

// --- alternatives ---

// The seeds of a network in the slots of its host.
static EsStatus topology_of(const EsGrownSpec *spec, EsFitTopology *topology) {
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    ES_TRY(es_slots_parse(&spec->host, "all", slots, &n_slots));
    *topology = (EsFitTopology){.n_seeds = spec->n_seeds};
    for (int k = 0; k < spec->n_seeds; k++) {
        const EsGrownSeed *seed = &spec->seeds[k];
        topology->seeds[k].slot =
            es_slot_at(slots, n_slots, seed->slot.column, seed->slot.row == 1);
        topology->seeds[k].blueprint = (int)seed->blueprint;
        topology->seeds[k].style = seed->style;
    }
    return ES_STATUS_OK;
}

// The k-th blueprint of a set, counted around.
static int pick_blueprint(int32_t blueprints, uint32_t k) {
    int legal[ES_N_BLUEPRINT_IDS], n = 0;
    for (int b = 0; b < ES_N_BLUEPRINT_IDS; b++) {
        if ((blueprints >> b) & 1) {
            legal[n++] = b;
        }
    }
    return legal[k % (uint32_t)n];
}

// Seeds of random blueprints in half of the slots, as far as the limit goes.
static EsStatus draw_topology(const EsFitSearchOptions *options, const EsHostSpec *host,
                              int candidate, EsFitTopology *topology) {
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    int64_t left = options->settings->max_parameters - es_host_parameter_count(host);
    ES_TRY(es_slots_parse(host, "all", slots, &n_slots));
    int32_t blueprints = es_slots_blueprints(host) & ES_BLUEPRINTS_ALL;
    memset(topology, 0, sizeof *topology);
    for (int s = 0; s < n_slots; s++) {
        EsRandom4 draw = es_random_draw(options->seed, (uint32_t)candidate, ES_PURPOSE_EVALUATION,
                                        (uint32_t)s, 0);
        int blueprint = pick_blueprint(blueprints, draw.word[1]);
        int64_t n = es_blueprint_parameter_count((EsBlueprint)blueprint, slots[s].n_channels);
        if (draw.word[0] % 2 == 0 && n <= left) {
            left -= n;
            topology->seeds[topology->n_seeds].slot = s;
            topology->seeds[topology->n_seeds].blueprint = blueprint;
            topology->seeds[topology->n_seeds++].style = ES_STYLE_SIGMOID_ADD;
        }
    }
    return ES_STATUS_OK;
}

static EsStatus run_random_search(const Comparing *c, const EsFitSearchOptions *options,
                                  EsFitOutcome *outcome) {
    EsFitSearchOptions wanted = *options;
    EsFitTopology *topologies = NULL;
    int n_all = options->n_candidates, n_hosts = ES_MIN(options->n_hosts, n_all), k = 0;
    ES_TRY(es_allocate(sizeof *topologies * (size_t)n_all, (void **)&topologies));
    EsStatus status = ES_STATUS_OK;
    for (int g = 0; g < n_hosts; g++) { // shared out as the search does
        int n = n_all / n_hosts + (g < n_all % n_hosts);
        for (int i = 0; status == ES_STATUS_OK && i < n; i++, k++) {
            status = draw_topology(options, &options->hosts[g], k, &topologies[k]);
        }
    }
    wanted.policy = "wait";
    wanted.planted = topologies;
    status = status == ES_STATUS_OK ? run_search(c, &wanted, outcome, NULL) : status;
    es_release(topologies);
    return status;
}

// One variant of seed i, whose fit ended with `network`.
static EsStatus run_variant(const Comparing *c, EsFitVariant variant, int i,
                            const EsGrownNetwork *network) {
    EsFitOutcome *outcome = &c->comparison->outcomes[variant][i];
    EsFitSearchOptions options = c->options;
    EsHostSpec host = network->spec.host;
    EsFitTopology topology;
    options.seed += (uint64_t)i;
    if (variant == ES_FIT_RANDOM) {
        options.policy = "random";
        return run_search(c, &options, outcome, NULL);
    }
    if (variant == ES_FIT_SEARCH) {
        return run_random_search(c, &options, outcome);
    }
    options.hosts = &host;
    options.n_hosts = options.n_candidates = 1;
    // the same start as the fit's winner; a file may say anything
    options.first_candidate =
        (int)ES_MAX(ES_MIN(network->origin.episode, c->options.n_candidates - 1), 0);
    options.policy = "wait";
    if (variant == ES_FIT_WIDER) {
        host = es_host_widen(&network->spec.host, network->n_parameters);
    } else if (variant == ES_FIT_DEEPER) {
        host = es_host_deepen(&network->spec.host, network->n_parameters);
    } else if (variant == ES_FIT_SCRATCH) {
        ES_TRY(topology_of(&network->spec, &topology));
        options.planted = &topology;
    }
    return run_search(c, &options, outcome, NULL);
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
    json_t *root = json_pack("{s:s, s:i}", "format", FORMAT, "seeds", comparison->n_seeds);
    for (int v = 0; root != NULL && v < ES_FIT_VARIANTS; v++) {
        json_t *list = json_array();
        for (int i = 0; list != NULL && i < comparison->n_seeds; i++) {
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

// Outcomes of an earlier session with as many seeds; others are made anew.
static void load(const Comparing *c) {
    EsFitComparison *comparison = c->comparison;
    char path[ES_RUN_PATH_BYTES];
    es_run_folder_path(es_run_folder(c->run), FILE_NAME, path);
    json_t *root = json_load_file(path, 0, NULL);
    const char *format = json_string_value(json_object_get(root, "format"));
    int is_same = format != NULL && strcmp(format, FORMAT) == 0 &&
                  json_integer_value(json_object_get(root, "seeds")) == comparison->n_seeds;
    for (int v = 0; is_same && v < ES_FIT_VARIANTS; v++) {
        const json_t *list = json_object_get(root, es_fit_variant_name((EsFitVariant)v));
        for (int i = 0; i < comparison->n_seeds; i++) {
            const json_t *found = json_array_get(list, (size_t)i);
            double test = member(found, "test_accuracy");
            if (test >= 0 && test <= 100) {
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

static EsStatus compare_seed(const Comparing *c, int i) {
    EsGrownNetwork *network = NULL;
    EsStatus status = find_fit(c, i, &network);
    status = status == ES_STATUS_OK ? save(c) : status;
    for (int v = ES_FIT_FIT + 1; status == ES_STATUS_OK && v < ES_FIT_VARIANTS; v++) {
        const EsFitOutcome *outcome = &c->comparison->outcomes[v][i];
        if (outcome->is_known) {
            continue;
        }
        status = run_variant(c, (EsFitVariant)v, i, network);
        if (status == ES_STATUS_OK) {
            es_log(ES_LOG_INFO, "comparison, seed %d of %d: %s, test accuracy %.2f %%", i + 1,
                   c->comparison->n_seeds, es_fit_variant_meaning((EsFitVariant)v),
                   outcome->test_accuracy);
            status = save(c);
        }
    }
    es_grown_network_destroy(network);
    return status;
}

void es_fit_comparison_measure(EsFitComparison *comparison) {
    double differences[ES_FIT_SEEDS_MAX];
    for (int v = 0; v < ES_FIT_VARIANTS; v++) {
        const EsFitOutcome *outcomes = comparison->outcomes[v];
        for (int i = 0; i < comparison->n_seeds; i++) {
            differences[i] =
                outcomes[i].test_accuracy - comparison->outcomes[ES_FIT_FIT][i].test_accuracy;
        }
        comparison->mean[v] =
            es_student_mean(&outcomes[0].test_accuracy, comparison->n_seeds, sizeof *outcomes);
        comparison->difference[v] =
            es_student_mean(differences, comparison->n_seeds, sizeof *differences);
        int at = v; // the fit stands before those that are only as good
        for (;
             at > 0 && comparison->mean[v].mean > comparison->mean[comparison->order[at - 1]].mean;
             at--) {
            comparison->order[at] = comparison->order[at - 1];
        }
        comparison->order[at] = v;
    }
}

EsStatus es_fit_compare(const EsFitSearchOptions *options, EsRun *run, int n_seeds,
                        EsFitComparison *comparison) {
    Comparing c = {.options = *options, .run = run, .comparison = comparison};
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
