// Tables of `esper grow` for a person and as JSON: one comparison of policies, and one over seeds.
#include "grow/grow_tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/macros.h"
#include "cli/frame.h"

#define SEEDS_MAX 1000 // of one table over seeds

// --- labels ---

#define SCRIPT "script:"

static const char *find_path(const char *name) {
    return strncmp(name, SCRIPT, strlen(SCRIPT)) == 0 ? name + strlen(SCRIPT) : name;
}

// The last n parts of a path; all of it where it has fewer.
static const char *find_tail(const char *path, int n_parts) {
    const char *tail = path + strlen(path);
    while (tail > path && n_parts > 0) {
        tail--;
        n_parts -= tail > path && tail[-1] == '/';
    }
    return tail;
}

static int is_taken(const EsGrowEvaluation *evaluation, int variant, const char *tail,
                    int n_parts) {
    for (int a = 0; a < evaluation->n_variants; a++) {
        const char *path = find_path(evaluation->variants[a].name);
        if (a != variant && strcmp(find_tail(path, n_parts), tail) == 0) {
            return 1;
        }
    }
    return 0;
}

const char *es_variant_label(const EsGrowEvaluation *evaluation, int variant,
                             char label[ES_VARIANT_LABEL_BYTES]) {
    const char *name = evaluation->variants[variant].name, *path = find_path(name);
    int n_parts = 1;
    if (evaluation->is_sweep) {
        snprintf(label, ES_VARIANT_LABEL_BYTES, "%s", name);
        return label;
    }
    const char *tail = find_tail(path, n_parts);
    while (tail > path && is_taken(evaluation, variant, tail, n_parts)) {
        tail = find_tail(path, ++n_parts);
    }
    snprintf(label, ES_VARIANT_LABEL_BYTES, "%.*s%s", (int)(path - name), name, tail);
    return label;
}

// --- hosts ---

void es_grow_print_hosts(const EsGrowEnding *endings, const EsGrowSettings *settings,
                         int64_t n_host_parameters) {
    if (settings->tasks.n_groups > 0) {
        es_print("last round: %d hosts with %d tasks, policy %s, seed %d\n", settings->n_envs,
                 settings->tasks.n_groups, settings->policy, settings->run.seed);
    } else {
        es_print("last round: %d x %s, %lld parameters before growing, policy %s, seed %d\n",
                 settings->n_envs, settings->task, (long long)n_host_parameters, settings->policy,
                 settings->run.seed);
    }
    printf("host   validation %%   reward   parameters   fossils   pruned   rollbacks   seeds\n");
    for (int e = 0; e < ES_MIN(settings->n_envs, 16); e++) {
        const EsGrowEnding *ending = &endings[e];
        es_print("%4d   %12.2f   %6.2f   %9.2f x   %7d   %6d   %9d   %s\n", e,
                 ending->validation_accuracy, ending->reward, ending->parameter_ratio,
                 ending->n_fossils, ending->n_pruned, ending->n_rollbacks,
                 ending->seeds[0] != '\0' ? ending->seeds : "-");
        if (ending->task[0] != '\0' &&
            (e + 1 == settings->n_envs || strcmp(ending->task, endings[e + 1].task) != 0)) {
            es_print("       alone %5.2f: %s\n", ending->control_accuracy, ending->task);
        }
    }
    if (settings->n_envs > 16) {
        printf("        (%d more)\n", settings->n_envs - 16);
    }
}

json_t *es_grow_hosts_json(const EsGrowEnding *endings, int n_envs) {
    json_t *hosts = json_array();
    int is_complete = hosts != NULL;
    for (int e = 0; e < n_envs && is_complete && endings != NULL; e++) {
        const EsGrowEnding *ending = &endings[e];
        json_t *host = json_pack(
            "{s:i, s:o, s:o, s:o, s:f, s:i, s:i, s:i, s:s, s:s?, s:o}", "host", e,
            "validation_loss", es_json_number(ending->validation_loss), "validation_accuracy",
            es_json_number(ending->validation_accuracy), "reward", es_json_number(ending->reward),
            "parameter_ratio", ending->parameter_ratio, "fossils", ending->n_fossils, "pruned",
            ending->n_pruned, "rollbacks", ending->n_rollbacks, "seeds", ending->seeds, "task",
            ending->task[0] != '\0' ? ending->task : NULL, "control_accuracy",
            es_json_number(ending->control_accuracy));
        is_complete = json_array_append_new(hosts, host) == 0;
    }
    if (!is_complete) {
        json_decref(hosts);
        return NULL;
    }
    return hosts;
}

// --- the comparison ---

#define CELL_BYTES 64
#define CELL_WIDTH 24

// Drops the sign of values that round to zero: "+0.00", not "-0.00".
static double shown(double value) { return fabs(value) < 0.005 ? 0 : value; }

// "71.23 [70.10, 72.31]", or without an interval where there is none; signs on differences.
static const char *write_interval(const EsInterval *interval, int is_signed, char *cell) {
    const char *both = is_signed ? "%+.2f [%+.2f, %+.2f]" : "%.2f [%.2f, %.2f]";
    if (isnan(interval->mean)) {
        snprintf(cell, CELL_BYTES, "-");
    } else if (isnan(interval->low)) {
        snprintf(cell, CELL_BYTES, is_signed ? "%+.2f" : "%.2f", shown(interval->mean));
    } else {
        snprintf(cell, CELL_BYTES, both, shown(interval->mean), shown(interval->low),
                 shown(interval->high));
    }
    return cell;
}

static void print_intervals(const EsInterval *intervals, int is_signed) {
    static const EsGrowMeasure measures[] = {ES_MEASURE_TEST_ACCURACY,
                                             ES_MEASURE_VALIDATION_ACCURACY, ES_MEASURE_REWARD};
    char cell[CELL_BYTES];
    for (size_t i = 0; i < ES_COUNT_OF(measures); i++) {
        int is_last = i + 1 == ES_COUNT_OF(measures); // no blanks at a line's end
        printf("  %-*s", is_last ? 0 : CELL_WIDTH,
               write_interval(&intervals[measures[i]], is_signed, cell));
    }
}

// Columns for the variants' names.
static int name_width(const EsGrowEvaluation *evaluation) {
    int width = (int)strlen("difference to");
    for (int a = 0; a < evaluation->n_variants; a++) {
        char label[ES_VARIANT_LABEL_BYTES];
        width = ES_MAX(width, es_padded_text_width(es_variant_label(evaluation, a, label)));
    }
    return width;
}

static void print_head(const char *first, int width) {
    printf("%-*s  %-*s  %-*s  reward\n", width, first, CELL_WIDTH, "test %", CELL_WIDTH,
           "validation %");
}

typedef void (*RowFunction)(const void *context, int variant, EsInterval *mean,
                            EsInterval *difference);

// The variant with the best mean test accuracy stands first.
static void find_order(const EsGrowEvaluation *evaluation, RowFunction row, const void *context,
                       int order[ES_GROW_VARIANTS_MAX]) {
    double means[ES_GROW_VARIANTS_MAX];
    for (int a = 0; a < evaluation->n_variants; a++) {
        EsInterval mean[ES_N_MEASURES], difference[ES_N_MEASURES];
        row(context, a, mean, difference);
        means[a] = mean[ES_MEASURE_TEST_ACCURACY].mean;
    }
    es_grow_evaluation_order(means, evaluation->n_variants, order);
}

// Prints the sizes of the networks in a table of their own: one table with the accuracies would be
// wider than a terminal.
static void print_sizes(const EsGrowEvaluation *evaluation, RowFunction row, const void *context,
                        const int *order, int width) {
    EsInterval mean[ES_N_MEASURES], difference[ES_N_MEASURES];
    char label[ES_VARIANT_LABEL_BYTES];
    printf("\n%-*s  parameters  fossils  rollbacks  %12s  training FLOPs\n", width,
           evaluation->is_sweep ? "variant" : "policy", "FLOPs/image");
    for (int k = 0; k < evaluation->n_variants; k++) {
        int a = order[k];
        row(context, a, mean, difference);
        es_padded_text_print(es_variant_label(evaluation, a, label), width, stdout);
        printf("  %8.2f x  %7.2f  %9.2f", mean[ES_MEASURE_PARAMETER_RATIO].mean,
               mean[ES_MEASURE_FOSSILS].mean, mean[ES_MEASURE_ROLLBACKS].mean);
        int is_counted = !isnan(mean[ES_MEASURE_FLOPS].mean);
        char flops[32] = "-", training[32] = "-";
        if (is_counted) {
            snprintf(flops, sizeof flops, "%.3g", mean[ES_MEASURE_FLOPS].mean);
            snprintf(training, sizeof training, "%.3g", mean[ES_MEASURE_TRAINING_FLOPS].mean);
        }
        printf("  %12s  %14s\n", flops, training);
    }
}

// Says what the rows are that are no policies.
static void print_baselines(const EsGrowEvaluation *evaluation) {
    const char *space = "\n"; // before the first
    for (int a = 1; a < evaluation->n_variants; a++) {
        const char *name = evaluation->variants[a].name;
        EsGrowBaseline baseline = es_grow_baseline_parse(name);
        if (baseline != ES_BASELINE_NONE) {
            printf("%s%s: %s\n", space, name, es_grow_baseline_meaning(baseline));
            space = "";
        }
    }
}

// Rows of means, of sizes, then of differences, the best variant first; `row` supplies the numbers
// of a variant.
static void print_variants(const EsGrowEvaluation *evaluation, RowFunction row,
                           const void *context) {
    EsInterval mean[ES_N_MEASURES], difference[ES_N_MEASURES];
    char label[ES_VARIANT_LABEL_BYTES];
    int width = name_width(evaluation), order[ES_GROW_VARIANTS_MAX];
    find_order(evaluation, row, context, order);
    print_head(evaluation->is_sweep ? "variant" : "policy", width);
    for (int k = 0; k < evaluation->n_variants; k++) {
        int a = order[k];
        row(context, a, mean, difference);
        es_padded_text_print(es_variant_label(evaluation, a, label), width, stdout);
        print_intervals(mean, 0);
        printf("\n");
    }
    print_sizes(evaluation, row, context, order, width);
    if (evaluation->n_variants < 2) {
        return;
    }
    printf("\n");
    print_head("difference to", width);
    for (int k = 0; k < evaluation->n_variants; k++) {
        int a = order[k];
        if (a == 0) {
            continue;
        }
        row(context, a, mean, difference);
        es_padded_text_print(es_variant_label(evaluation, a, label), width, stdout);
        print_intervals(difference, 1);
        printf("\n");
    }
    print_baselines(evaluation);
}

static void take_variant(const void *context, int variant, EsInterval *mean,
                         EsInterval *difference) {
    const EsGrowEvaluation *evaluation = context;
    memcpy(mean, evaluation->variants[variant].mean, sizeof evaluation->variants[variant].mean);
    memcpy(difference, evaluation->variants[variant].difference,
           sizeof evaluation->variants[variant].difference);
}

// Ends a footer with the direction of differences, if there are any.
static void print_direction(const char *words, const EsGrowEvaluation *evaluation) {
    char label[ES_VARIANT_LABEL_BYTES];
    if (evaluation->n_variants > 1) {
        printf("%s", words);
        es_padded_text_print(es_variant_label(evaluation, 0, label), 0, stdout);
        printf(" - other");
    }
    printf(")\n");
}

// Says what a larger budget is worth, and whether one was ever exceeded.
static void print_budgets(const EsGrowEvaluation *evaluation) {
    double n_over = 0;
    char label[ES_VARIANT_LABEL_BYTES], cell[CELL_BYTES];
    for (int a = 0; a < evaluation->n_variants; a++) {
        n_over += evaluation->variants[a].mean[ES_MEASURE_OVER_BUDGET].mean *
                  (double)evaluation->n_episodes;
    }
    if (n_over > 0) {
        printf("\nnetworks were over their budget in %.0f steps\n", n_over);
    }
    for (int i = 0; i < evaluation->n_budget_gains; i++) {
        const struct EsGrowBudgetGain *gain = &evaluation->budget_gains[i];
        printf("%stest %% of %s", i == 0 ? "\n" : "", evaluation->variants[gain->to].name);
        printf(" - ");
        es_padded_text_print(es_variant_label(evaluation, gain->from, label), 0, stdout);
        printf(": %s%s\n", write_interval(&gain->gained, 1, cell),
               gain->gained.high < 0 ? ", a larger budget is worse" : "");
    }
}

void es_grow_print_evaluation(const EsGrowEvaluation *evaluation, int seed) {
    char tasks[48] = "";
    int has_tasks = evaluation->n_tasks > 0;
    if (has_tasks) {
        snprintf(tasks, sizeof tasks, " of %lld task%s", (long long)evaluation->n_tasks,
                 evaluation->n_tasks == 1 ? "" : "s");
    }
    printf("%lld held-out episode%s%s, the same for every %s; seed %d; learned policies %s\n",
           (long long)evaluation->n_episodes, evaluation->n_episodes == 1 ? "" : "s", tasks,
           evaluation->is_sweep ? "variant" : "policy", seed,
           evaluation->is_greedy ? "take the most likely action" : "draw");
    print_variants(evaluation, take_variant, evaluation);
    print_budgets(evaluation);
    if (evaluation->n_episodes > 1) {
        printf("\nmeans with intervals of 95 %% (bootstrap over %s",
               has_tasks ? "tasks" : "episodes");
        print_direction(", paired for differences: ", evaluation);
    }
}

// --- over seeds ---

typedef struct Seeds {
    EsGrowEvaluation *const *evaluations; // borrowed [n]
    int n;
} Seeds;

static void take_seeds(const void *context, int variant, EsInterval *mean, EsInterval *difference) {
    const Seeds *seeds = context;
    double means[SEEDS_MAX], differences[SEEDS_MAX];
    for (int m = 0; m < ES_N_MEASURES; m++) {
        for (int i = 0; i < seeds->n; i++) {
            means[i] = seeds->evaluations[i]->variants[variant].mean[m].mean;
            differences[i] = seeds->evaluations[i]->variants[variant].difference[m].mean;
        }
        mean[m] = es_student_mean(means, seeds->n, sizeof means[0]);
        difference[m] = es_student_mean(differences, seeds->n, sizeof differences[0]);
    }
}

static void print_seed_rows(const Seeds *seeds, int first_seed) {
    const EsGrowEvaluation *any = seeds->evaluations[0];
    char label[ES_VARIANT_LABEL_BYTES];
    int width = ES_MAX(name_width(any), 12);
    printf("test %% of each seed\n%-8s", "seed");
    for (int a = 0; a < any->n_variants; a++) {
        printf("   ");
        es_padded_text_print(es_variant_label(any, a, label), a + 1 < any->n_variants ? width : 0,
                             stdout);
    }
    printf("\n");
    for (int i = 0; i < seeds->n; i++) {
        printf("%-8d", first_seed + i);
        for (int a = 0; a < any->n_variants; a++) {
            printf("   %-*.2f", a + 1 < any->n_variants ? width : 0,
                   seeds->evaluations[i]->variants[a].mean[ES_MEASURE_TEST_ACCURACY].mean);
        }
        printf("\n");
    }
    printf("\n");
}

void es_grow_print_seeds(EsGrowEvaluation *const *evaluations, int n, int first_seed) {
    Seeds seeds = {evaluations, ES_MIN(n, SEEDS_MAX)};
    print_seed_rows(&seeds, first_seed);
    print_variants(evaluations[0], take_seeds, &seeds);
    if (n > 1) {
        printf("\nmeans over %d seeds with intervals of 95 %% (Student's, over the seeds' means",
               seeds.n);
        print_direction("; differences: ", evaluations[0]);
    }
}

static json_t *seeds_variant_json(const Seeds *seeds, int variant) {
    EsInterval mean[ES_N_MEASURES], difference[ES_N_MEASURES];
    take_seeds(seeds, variant, mean, difference);
    return json_pack("{s:s, s:o, s:o}", "policy", seeds->evaluations[0]->variants[variant].name,
                     "mean", es_grow_intervals_json(mean), "policy_minus_this",
                     es_grow_intervals_json(difference));
}

json_t *es_grow_seeds_json(EsGrowEvaluation *const *evaluations, int n, int first_seed) {
    Seeds seeds = {evaluations, ES_MIN(n, SEEDS_MAX)};
    json_t *variants = json_array();
    int is_complete = variants != NULL;
    for (int a = 0; a < evaluations[0]->n_variants && is_complete; a++) {
        is_complete = json_array_append_new(variants, seeds_variant_json(&seeds, a)) == 0;
    }
    if (!is_complete) {
        json_decref(variants);
        return NULL;
    }
    return json_pack("{s:i, s:i, s:s, s:o}", "seeds", seeds.n, "first_seed", first_seed,
                     "intervals", "Student's over the seeds' means, 95 %", "arms", variants);
}

const char *es_grow_describe_execution(const EsGrowSettings *settings,
                                       const EsEpisodeRunner *runner,
                                       char text[ES_GROW_EXECUTION_BYTES]) {
    const EsDeviceInfo *device = es_device_info(runner->device);
    char executor[ES_EXECUTOR_BYTES];
    es_growth_executor(runner->growth, executor);
    EsDtype dtype = es_growth_options(runner->growth)->precision;
    int is_fused = es_growth_is_fused(runner->growth);
    char why[64] = "";
    if (settings->amp_dtype == 0 && device->kind == ES_DEVICE_CUDA) {
        snprintf(why, sizeof why, " (--amp-dtype auto; compute capability %d.%d)",
                 device->capability / 10, device->capability % 10);
    }
    snprintf(text, ES_GROW_EXECUTION_BYTES, "hosts compute in %s%s%s, %s",
             dtype == ES_DTYPE_BF16  ? "bfloat16"
             : dtype == ES_DTYPE_F16 ? "float16, with a loss scale for each"
                                     : "float32",
             dtype == ES_DTYPE_F32 && settings->is_tf32 && is_fused ? ", products in TF32" : "",
             why, executor);
    return text;
}
