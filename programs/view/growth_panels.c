// Panels of growth: the network with its seeds, grown topologies, environments, rewards, and the
// comparison with baselines.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/memory.h"
#include "base/statistics.h"
#include "runs/grow/grow_run.h"
#include "view/chart.h"
#include "view/network_picture.h"
#include "view/panels.h"

// --- the network ---

// Tables of one environment's episode, and the slots of its host.
typedef struct Episode {
    json_t *seeds, *stages, *contributions, *slots, *steps, *ends; // owned
    EsViewQuestion question; // with round and environment resolved
    EsEpisodeTables tables;
    EsPicture picture;
} Episode;

static void release_episode(Episode *episode) {
    json_decref(episode->seeds);
    json_decref(episode->stages);
    json_decref(episode->contributions);
    json_decref(episode->slots);
    json_decref(episode->steps);
    json_decref(episode->ends);
}

// Adds the slots that the run's settings name.
static void add_configured_slots(EsPicture *picture, const char *recipe) {
    const char *line = strstr(recipe, "\nslots = r");
    if (line != NULL) {
        char list[256];
        line += strlen("\nslots = ");
        snprintf(list, sizeof list, "%.*s", (int)ES_MIN(strcspn(line, "\n"), sizeof list - 1),
                 line);
        es_picture_add_list(picture, list);
    }
}

static EsStatus read_episode(EsRunView *view, const EsViewQuestion *question, Episode *episode) {
    episode->question = *question;
    ES_TRY(es_run_view_resolve(view, &episode->question));
    ES_TRY(es_run_view_read(view, "seeds", &episode->question, &episode->seeds));
    ES_TRY(es_run_view_read(view, "stages", &episode->question, &episode->stages));
    ES_TRY(es_run_view_read(view, "contributions", &episode->question, &episode->contributions));
    ES_TRY(es_run_view_read(view, "slots", &episode->question, &episode->slots));
    ES_TRY(es_run_view_read(view, "steps", &episode->question, &episode->steps));
    ES_TRY(es_run_view_read(view, "ends", &episode->question, &episode->ends));
    add_configured_slots(&episode->picture, es_run_view_recipe(view));
    for (int i = 0; i < es_table_n_rows(episode->slots); i++) {
        es_picture_add_slot(&episode->picture, es_column_text(episode->slots, "slot", i));
    }
    for (int i = 0; i < es_table_n_rows(episode->seeds); i++) {
        es_picture_add_slot(&episode->picture, es_column_text(episode->seeds, "slot", i));
    }
    episode->tables = (EsEpisodeTables){episode->seeds, episode->stages, episode->contributions,
                                        episode->steps, episode->ends};
    return ES_STATUS_OK;
}

// The slider's range is in the element's data; the page's script shows one. Without a script the
// last step is drawn.
static void draw_episode(const Episode *episode, int64_t wanted_step, int is_whole, EsText *html) {
    int last = es_episode_last_step(&episode->tables);
    double step = wanted_step >= 0 ? (double)ES_MIN(wanted_step, last) : (double)last;
    EsPicture picture = episode->picture;
    es_picture_set_step(&picture, &episode->tables, step);
    char title[120];
    if (is_whole) {
        snprintf(title, sizeof title, "Candidate %lld at epoch %.0f",
                 (long long)episode->question.env, step);
    } else {
        snprintf(title, sizeof title, "Environment %lld, round %lld, step %.0f",
                 (long long)episode->question.env, (long long)episode->question.round, step);
    }
    es_html_print(html,
                  "<div class=\"steps\" data-last=\"%d\" data-step=\"%.0f\" data-round=\"%lld\" "
                  "data-env=\"%lld\" data-whole=\"%d\"></div>\n",
                  last, step, (long long)episode->question.round, (long long)episode->question.env,
                  is_whole);
    es_picture_draw(html, &picture, title);
    es_picture_draw_lanes(html, &picture, &episode->tables, last, step,
                          is_whole ? "epoch" : "step");
    es_panel_note_full(html, episode->stages, "changes of stage the newest");
    es_panel_note_full(html, episode->contributions, "measured contributions the newest");
}

static EsStatus draw_blueprints(EsRunView *view, const EsViewQuestion *question, EsText *html) {
    json_t *table = NULL;
    ES_TRY(es_run_view_read(view, "blueprints", question, &table));
    int n = es_table_n_rows(table);
    if (n > 0) {
        es_panel_begin_table(html, "Seeds of the last hundred rounds, by blueprint",
                             "blueprint|#germinated|#fossilized|#pruned|#contribution, points");
    }
    for (int i = 0; i < n; i++) {
        es_text_add_string(html, "<tr>");
        es_panel_cell(html, es_column_text(table, "blueprint", i));
        es_panel_number_cell(html, es_column_real(table, "n", i), 6);
        es_panel_number_cell(html, es_column_real(table, "n_fossilized", i), 6);
        es_panel_number_cell(html, es_column_real(table, "n_pruned", i), 6);
        es_panel_number_cell(html, es_column_real(table, "contribution", i), 3);
        es_text_add_string(html, "</tr>\n");
    }
    if (n > 0) {
        es_panel_end_table(html);
    }
    json_decref(table);
    return ES_STATUS_OK;
}

EsStatus es_panel_network(const EsPanelInput *input, EsText *html) {
    Episode episode = {0};
    EsRunView *view = input->views[0];
    EsStatus status = read_episode(view, &input->question, &episode);
    if (status == ES_STATUS_OK && es_table_n_rows(episode.stages) == 0) {
        es_html_print(html,
                      "<div class=\"steps\" data-last=\"-1\" data-step=\"0\" data-round=\"%lld\" "
                      "data-env=\"%lld\" data-whole=\"%d\"></div>\n",
                      (long long)episode.question.round, (long long)episode.question.env,
                      es_run_view_is_one_episode(view));
        es_html_empty(html,
                      "No seed in this episode. Its host and seeds appear here from the first "
                      "germination on (telemetry level normal or debug).");
    } else if (status == ES_STATUS_OK) {
        draw_episode(&episode, input->step, es_run_view_is_one_episode(view), html);
    }
    release_episode(&episode);
    if (status == ES_STATUS_OK) {
        status = es_panel_draw_seeds(view, &input->question, "share", "Gradient of its seeds",
                                     "share of the norms of host and seeds", html);
    }
    // growth has them beside its grown networks
    return status == ES_STATUS_OK && es_run_view_is_one_episode(view)
               ? draw_blueprints(view, &input->question, html)
               : status;
}

// --- topologies ---

#define N_TOPOLOGIES 4

// A host of the table "topologies", whose rows [begin, end) are its fossils.
static void draw_topology(const json_t *table, int begin, int end, const EsPicture *slots,
                          EsText *html) {
    EsPicture picture = *slots;
    for (int row = begin; row < end; row++) {
        for (int i = 0; i < picture.n_slots; i++) {
            EsPictureSlot *slot = &picture.slots[i];
            if (strcmp(slot->name, es_column_text(table, "slot", row)) == 0) {
                snprintf(slot->blueprint, sizeof slot->blueprint, "%s",
                         es_column_text(table, "blueprint", row));
                snprintf(slot->stage, sizeof slot->stage, "FOSSILIZED");
                slot->contribution = es_column_real(table, "contribution", row);
                slot->alpha = 1;
                slot->is_alpha_exact = 1;
            }
        }
    }
    char title[160];
    snprintf(title, sizeof title,
             "Environment %.0f: %.1f %% validation accuracy, %.2f times the "
             "host's parameters",
             es_column_real(table, "env", begin), es_column_real(table, "final_accuracy", begin),
             es_column_real(table, "parameter_ratio", begin));
    es_picture_draw(html, &picture, title);
}

static void draw_topologies(const json_t *table, const json_t *slots_table, const char *recipe,
                            EsText *html) {
    EsPicture slots = {0};
    int n = es_table_n_rows(table), n_drawn = 0;
    add_configured_slots(&slots, recipe);
    for (int i = 0; i < es_table_n_rows(slots_table); i++) {
        es_picture_add_slot(&slots, es_column_text(slots_table, "slot", i));
    }
    es_text_add_string(html, "<div class=\"pictures\">\n");
    for (int begin = 0; begin < n && n_drawn < N_TOPOLOGIES; n_drawn++) {
        int end = begin + 1;
        while (end < n &&
               es_column_real(table, "env", end) == es_column_real(table, "env", begin)) {
            end++;
        }
        draw_topology(table, begin, end, &slots, html);
        begin = end;
    }
    es_text_add_string(html, "</div>\n");
}

EsStatus es_panel_topologies(const EsPanelInput *input, EsText *html) {
    EsRunView *view = input->views[0];
    json_t *table = NULL, *slots = NULL;
    EsStatus status = es_run_view_read(view, "topologies", &(EsViewQuestion){0}, &table);
    if (status == ES_STATUS_OK) {
        status = es_run_view_read(view, "slots", &input->question, &slots);
    }
    if (status == ES_STATUS_OK && es_table_n_rows(table) == 0) {
        es_html_empty(html, "The most accurate networks of a round appear here when it has ended.");
    } else if (status == ES_STATUS_OK) {
        draw_topologies(table, slots, es_run_view_recipe(view), html);
        status = draw_blueprints(view, &input->question, html);
    }
    json_decref(table);
    json_decref(slots);
    return status;
}

// --- the network of a fit ---

static void read_blocks(const json_t *blocks, EsPicture *picture) {
    size_t i;
    json_t *block;
    json_array_foreach(blocks, i, block) {
        if (i < ES_PICTURE_MAX_SLOTS) {
            long long kernel = json_integer_value(json_object_get(block, "kernel"));
            long long channels = json_integer_value(json_object_get(block, "channels"));
            snprintf(picture->blocks[i][0], sizeof picture->blocks[i][0], "%lld maps", channels);
            snprintf(picture->blocks[i][1], sizeof picture->blocks[i][1], "%lld×%lld%s", kernel,
                     kernel, json_is_true(json_object_get(block, "pool")) ? ", pool" : "");
            picture->n_blocks = (int)i + 1;
        }
    }
}

static void read_seeds(const json_t *seeds, EsPicture *picture) {
    size_t i;
    json_t *seed;
    json_array_foreach(seeds, i, seed) {
        const char *name = json_string_value(json_object_get(seed, "slot"));
        const char *blueprint = json_string_value(json_object_get(seed, "blueprint"));
        es_picture_add_slot(picture, name != NULL ? name : "");
        for (int s = 0; s < picture->n_slots; s++) {
            EsPictureSlot *slot = &picture->slots[s];
            if (name != NULL && strcmp(slot->name, name) == 0) {
                snprintf(slot->blueprint, sizeof slot->blueprint, "%.31s",
                         blueprint != NULL ? blueprint : "?");
                snprintf(slot->stage, sizeof slot->stage, "FOSSILIZED");
                slot->alpha = json_number_value(json_object_get(seed, "alpha"));
                slot->is_alpha_exact = 1;
            }
        }
    }
}

static void add_percent(EsText *html, const char *name, const json_t *value) {
    if (json_is_number(value)) {
        es_html_print(html, "<div><dt>%s</dt><dd>%.2f %%</dd></div>", name,
                      json_number_value(value));
    }
}

static void draw_fitted(const json_t *network, EsText *html) {
    EsPicture picture = {.n_slots = 0};
    const json_t *host = json_object_get(network, "host");
    const json_t *origin = json_object_get(network, "made_by");
    const char *name = json_string_value(json_object_get(host, "name"));
    es_text_add_string(html, "<dl class=\"facts\">");
    add_percent(html, "test accuracy", json_object_get(origin, "test_accuracy"));
    add_percent(html, "validation accuracy", json_object_get(origin, "validation_accuracy"));
    es_text_add_string(html, "<div><dt>parameters</dt><dd>");
    es_html_number(html, json_number_value(json_object_get(network, "parameters")), 9);
    es_html_print(html, "</dd></div><div><dt>classes</dt><dd>%zu</dd></div></dl>\n",
                  json_array_size(json_object_get(network, "classes")));
    read_blocks(json_object_get(host, "blocks"), &picture);
    read_seeds(json_object_get(network, "seeds"), &picture);
    if (picture.n_blocks > 0) {
        char title[80];
        snprintf(title, sizeof title, "Host %.40s with its seeds", name != NULL ? name : "");
        es_picture_draw(html, &picture, title);
    }
}

EsStatus es_panel_fitted(const EsPanelInput *input, EsText *html) {
    json_t *network = NULL;
    ES_TRY(es_run_view_network(input->views[0], &network));
    if (network == NULL) {
        es_html_empty(html, "The best network so far appears here after the first epoch, with its "
                            "test accuracy when the fit has ended.");
    } else {
        draw_fitted(network, html);
    }
    json_decref(network);
    return ES_STATUS_OK;
}

// --- environments ---

static void draw_environment(const json_t *table, int i, EsText *html) {
    double accuracy = es_column_real(table, "validation_accuracy", i);
    int shade = isfinite(accuracy) ? (int)ES_MIN(ES_MAX(accuracy / 20, 0), 4) : 0;
    // the page's script looks at the network of the one that is chosen
    es_html_print(html,
                  "<li><button type=\"button\" class=\"env shade%d\" data-env=\"%.0f\" "
                  "title=\"environment %.0f, step %.0f\"><b>",
                  shade, es_column_real(table, "env", i), es_column_real(table, "env", i),
                  es_column_real(table, "step", i));
    es_html_number(html, accuracy, 3);
    es_html_print(html, " %%</b><span>no. %.0f: ", es_column_real(table, "env", i));
    es_html_number(html, es_column_real(table, "n_seeds", i), 2);
    es_html_print(html, " seed%s</span></button></li>\n",
                  es_column_real(table, "n_seeds", i) == 1 ? "" : "s");
}

EsStatus es_panel_environments(const EsPanelInput *input, EsText *html) {
    json_t *table = NULL;
    ES_TRY(es_run_view_read(input->views[0], "environments", &input->question, &table));
    int n = es_table_n_rows(table);
    if (n == 0) {
        es_html_empty(html, "Every host appears here with its validation accuracy, after the first "
                            "recorded step (telemetry level normal or debug).");
    } else {
        es_text_add_string(html, "<ul class=\"envs\">\n");
        for (int i = 0; i < ES_MIN(n, 512); i++) {
            draw_environment(table, i, html);
        }
        es_text_add_string(html, "</ul>\n");
        if (n > 512) {
            es_html_print(html, "<p class=\"note\">512 of %d are shown.</p>\n", n);
        }
    }
    json_decref(table);
    return ES_STATUS_OK;
}

// --- rewards ---

EsStatus es_panel_rewards(const EsPanelInput *input, EsText *html) {
    static const char *const terms[] = {"attribution", "action",  "warning",   "synergy",
                                        "rent",        "shock",   "occupancy", "terminal",
                                        "shaping",     "penalty", "total"};
    json_t *table = NULL;
    ES_TRY(es_run_view_read(input->views[0], "rewards", &input->question, &table));
    EsBar bars[ES_COUNT_OF(terms)];
    int n = 0;
    for (size_t i = 0; i < ES_COUNT_OF(terms); i++) {
        double value = es_column_real(table, terms[i], 0);
        if (isfinite(value) && (value != 0 || strcmp(terms[i], "total") == 0)) {
            bars[n++] = (EsBar){terms[i], value, NAN, NAN, NULL};
        }
    }
    if (n == 0) {
        es_html_empty(html, "The terms of the reward appear here after the first recorded step.");
    } else {
        es_chart_bars(html, "Terms of the reward", "per step; terms that are 0 are left out", bars,
                      n);
    }
    json_decref(table);
    return ES_STATUS_OK;
}

// --- comparison ---

#define MAX_VARIANTS ES_GROW_VARIANTS_MAX

typedef struct Variants {
    const char *names[MAX_VARIANTS]; // borrowed from the table; the run's own policy first
    int begin[MAX_VARIANTS + 1];     // rows of each
    int n;
    uint64_t seed; // of the run: intervals are those that `esper grow` prints
} Variants;

static void find_variants(const json_t *table, Variants *variants) {
    int n_rows = es_table_n_rows(table);
    for (int i = 0; i < n_rows; i++) {
        const char *name = es_column_text(table, "variant", i);
        if (variants->n == 0 || strcmp(variants->names[variants->n - 1], name) != 0) {
            if (variants->n == MAX_VARIANTS) {
                n_rows = i;
                break;
            }
            variants->begin[variants->n] = i;
            variants->names[variants->n++] = name;
        }
    }
    variants->begin[variants->n] = n_rows;
}

// A column of the episodes, and its number among the measures that `esper grow` bootstraps.
typedef struct Measure {
    const char *column;
    EsGrowMeasure number;
} Measure;

// The interval of a measure of variant v, or of the difference of variant 0 and v. Episodes of one
// task count once, as their mean: what they share is no chance. The best of a search stand against
// the best of as many episodes, which are not told apart here: their difference is left out.
static EsStatus compare(const json_t *table, const Variants *variants, int v, Measure measure,
                        int is_difference, double *values, EsInterval *interval) {
    int n = variants->begin[v + 1] - variants->begin[v];
    int n_first = variants->begin[1] - variants->begin[0], n_values = 0;
    *interval = (EsInterval){NAN, NAN, NAN};
    if (is_difference &&
        (n != n_first || es_grow_baseline_parse(variants->names[v]) == ES_BASELINE_SEARCH)) {
        return ES_STATUS_OK;
    }
    for (int begin = 0, end; begin < n; begin = end) {
        const char *task = es_column_text(table, "task", variants->begin[v] + begin);
        double sum = 0;
        for (end = begin; end < n; end++) {
            int row = variants->begin[v] + end;
            if (end > begin &&
                (task[0] == '\0' || strcmp(es_column_text(table, "task", row), task) != 0)) {
                break;
            }
            double value = es_column_real(table, measure.column, row);
            sum += is_difference ? es_column_real(table, measure.column, end) - value : value;
        }
        values[n_values++] = sum / (end - begin);
    }
    return es_bootstrap_mean(values, n_values, sizeof values[0], variants->seed, measure.number,
                             interval);
}

// The name of a policy's file without its folders.
static const char *short_name(const char *name) {
    const char *slash = strrchr(name, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : name;
}

static EsStatus draw_measure(const json_t *table, const Variants *variants, Measure measure,
                             int is_difference, const char *title, const char *unit, double *values,
                             EsText *html) {
    EsBar bars[MAX_VARIANTS];
    int n = 0;
    for (int v = is_difference; v < variants->n; v++) {
        EsInterval interval;
        ES_TRY(compare(table, variants, v, measure, is_difference, values, &interval));
        if (!is_difference || isfinite(interval.mean)) {
            bars[n++] = (EsBar){short_name(variants->names[v]), interval.mean, interval.low,
                                interval.high, NULL};
        }
    }
    es_chart_bars(html, title, unit, bars, n);
    return ES_STATUS_OK;
}

static EsStatus draw_outcomes(const json_t *table, int64_t seed, EsText *html) {
    Variants variants = {.seed = (uint64_t)seed};
    double *values = NULL;
    find_variants(table, &variants);
    ES_TRY(es_allocate(sizeof *values * (size_t)es_table_n_rows(table), (void **)&values));
    EsStatus status = ES_STATUS_OK;
    int has_test = isfinite(es_column_real(table, "test_accuracy", 0));
    const Measure accuracy = {has_test ? "test_accuracy" : "final_accuracy",
                              has_test ? ES_MEASURE_TEST_ACCURACY : ES_MEASURE_VALIDATION_ACCURACY};
    const Measure parameters = {"parameter_ratio", ES_MEASURE_PARAMETER_RATIO};
    const Measure reward = {"reward", ES_MEASURE_REWARD};
    es_text_add_string(html, "<div class=\"charts\">\n");
    ES_TRY_GOTO(draw_measure(table, &variants, accuracy, 0,
                             has_test ? "Test accuracy" : "Validation accuracy", "%", values,
                             html));
    ES_TRY_GOTO(draw_measure(table, &variants, accuracy, 1, "The run's policy minus the other",
                             "percent points, paired by episode", values, html));
    ES_TRY_GOTO(draw_measure(table, &variants, parameters, 0, "Parameters", "times the host's",
                             values, html));
    ES_TRY_GOTO(
        draw_measure(table, &variants, reward, 0, "Reward of an episode", "", values, html));
    es_html_print(
        html,
        "</div>\n<p class=\"note\">%d episodes each; intervals are bootstrapped over "
        "episodes (over tasks where there are several). A difference whose interval holds 0 "
        "does not tell the two apart.</p>\n",
        variants.begin[1]);
    es_panel_note_full(html, table, "held-out episodes of all policies the first");
done:
    es_release(values);
    return status;
}

static void draw_rankings(const json_t *table, EsText *html) {
    es_panel_begin_table(html, "Rankings against corruptions, mean reciprocal rank (MRR)",
                         "#round|scorer|split|#queries|#MRR|#95 % from|#to|#hits@1|#hits@10");
    int n = es_table_n_rows(table);
    for (int i = ES_MAX(n - 40, 0); i < n; i++) {
        static const char *const columns[] = {"n_queries", "mrr",    "mrr_low",
                                              "mrr_high",  "hits_1", "hits_10"};
        es_text_add_string(html, "<tr>");
        es_panel_number_cell(html, es_column_real(table, "round", i), 6);
        es_panel_cell(html, es_column_text(table, "variant", i));
        es_panel_cell(html, es_column_text(table, "split", i));
        for (size_t c = 0; c < ES_COUNT_OF(columns); c++) {
            es_panel_number_cell(html, es_column_real(table, columns[c], i), 4);
        }
        es_text_add_string(html, "</tr>\n");
    }
    es_panel_end_table(html);
    if (n > 40) {
        es_html_print(html, "<p class=\"note\">The newest 40 of %d.</p>\n", n);
    }
}

EsStatus es_panel_comparison(const EsPanelInput *input, EsText *html) {
    json_t *table = NULL;
    int is_proof = strcmp(es_run_view_kind(input->views[0]), "prove") == 0;
    ES_TRY(es_run_view_read(input->views[0], is_proof ? "rankings" : "outcomes", &input->question,
                            &table));
    EsStatus status = ES_STATUS_OK;
    if (es_table_n_rows(table) == 0) {
        es_html_empty(html, is_proof ? "Rankings appear here when a run validates by ranking or "
                                       "compares at its end."
                                     : "Held-out episodes appear here when training has ended "
                                       "(esper grow --eval N --evaluate.against=wait,scratch).");
    } else if (is_proof) {
        draw_rankings(table, html);
    } else {
        status = draw_outcomes(table, es_run_view_seed(input->views[0]), html);
    }
    json_decref(table);
    return status;
}
