// Comparing policies: paired intervals, and the file that keeps them.
#include "runs/grow/grow_evaluate.h"

#include <math.h>
#include <stdlib.h>

#include "mutate.h"

enum { EPISODES = 20 };

static double draw(uint32_t episode, uint32_t measure) {
    EsRandom4 words = es_random_draw(3, episode, ES_PURPOSE_EVALUATION, measure, 0);
    return 10.0 + 80.0 * (double)words.word[0] * 0x1p-32; // measures that an episode can have
}

static void add_variant(EsGrowEvaluation *evaluation, const char *name, double shift) {
    EsGrowVariant *variant = &evaluation->variants[evaluation->n_variants++];
    snprintf(variant->name, sizeof variant->name, "%s", name);
    REQUIRE_OK(es_allocate(sizeof *variant->outcomes * EPISODES, (void **)&variant->outcomes));
    for (uint32_t i = 0; i < EPISODES; i++) {
        for (uint32_t m = 0; m < ES_N_MEASURES; m++) {
            variant->outcomes[i].measure[m] = draw(i, m) - shift;
        }
    }
}

// The second arm is the first, the third is worse by 2 in every episode.
static EsGrowEvaluation *create_case(void) {
    EsGrowEvaluation *evaluation = NULL;
    REQUIRE_OK(es_allocate(sizeof *evaluation, (void **)&evaluation));
    evaluation->n_episodes = EPISODES;
    evaluation->group_size = 1;
    evaluation->n_rounds = 12;
    evaluation->is_greedy = 1;
    add_variant(evaluation, "first", 0);
    add_variant(evaluation, "same", 0);
    add_variant(evaluation, "worse", 2);
    return evaluation;
}

TEST(differences_are_paired) {
    EsGrowEvaluation *evaluation = create_case();
    REQUIRE_OK(es_grow_evaluation_compare(evaluation, 42));
    for (int m = 0; m < ES_N_MEASURES; m++) {
        const EsInterval *mean = &evaluation->variants[0].mean[m];
        EXPECT(mean->low < mean->mean && mean->mean < mean->high);
        const EsInterval *same = &evaluation->variants[1].difference[m];
        EXPECT(same->mean == 0 && same->low == 0 && same->high == 0);
        EXPECT(memcmp(mean, &evaluation->variants[1].mean[m], sizeof *mean) == 0);
        // episodes differ by tens, and yet every one of them says 2
        const EsInterval *worse = &evaluation->variants[2].difference[m];
        EXPECT_NEAR(worse->mean, 2, 1e-12);
        EXPECT_NEAR(worse->low, 2, 1e-12);
        EXPECT_NEAR(worse->high, 2, 1e-12);
        EXPECT(mean->high - mean->low > 5);
    }
    es_grow_evaluation_destroy(evaluation);
}

// A search has chosen among the training of a task; so has what it is paired with.
TEST(a_search_is_paired_with_the_best) {
    EsGrowEvaluation *evaluation = create_case();
    const EsGrowOutcome *first = evaluation->variants[0].outcomes;
    EsGrowOutcome *other = evaluation->variants[1].outcomes;
    double gap = 0;
    evaluation->group_size = 5;
    evaluation->n_tasks = EPISODES / 5;
    snprintf(evaluation->variants[1].name, sizeof evaluation->variants[1].name, "search");
    for (int g = 0; g < EPISODES / 5; g++) {
        int best = 5 * g;
        double sum = 0, test = 0;
        for (int i = 5 * g; i < 5 * g + 5; i++) {
            double accuracy = first[i].measure[ES_MEASURE_VALIDATION_ACCURACY];
            best = accuracy > first[best].measure[ES_MEASURE_VALIDATION_ACCURACY] ? i : best;
            sum += first[i].measure[ES_MEASURE_TRAINING_FLOPS];
            test += first[i].measure[ES_MEASURE_TEST_ACCURACY];
        }
        gap += first[best].measure[ES_MEASURE_TEST_ACCURACY] - test / 5;
        es_grow_outcomes_select(first + 5 * g, 5, other + 5 * g);
        for (int i = 5 * g; i < 5 * g + 5; i++) {
            EXPECT(other[i].measure[ES_MEASURE_TEST_ACCURACY] ==
                   first[best].measure[ES_MEASURE_TEST_ACCURACY]);
            EXPECT_NEAR(other[i].measure[ES_MEASURE_TRAINING_FLOPS], sum / 5, 1e-9);
            other[i].measure[ES_MEASURE_TEST_ACCURACY] -= 3;
        }
    }
    EXPECT(gap != 0); // or the pairing makes no difference
    REQUIRE_OK(es_grow_evaluation_compare(evaluation, 42));
    EXPECT_NEAR(evaluation->variants[1].difference[ES_MEASURE_TEST_ACCURACY].mean, 3, 1e-9);
    EXPECT_NEAR(evaluation->variants[1].difference[ES_MEASURE_TEST_ACCURACY].low, 3, 1e-9);
    EXPECT_NEAR(evaluation->variants[1].difference[ES_MEASURE_TRAINING_FLOPS].mean, 0, 1e-9);
    EXPECT_NEAR(evaluation->variants[2].difference[ES_MEASURE_TEST_ACCURACY].mean, 2, 1e-9);
    es_grow_evaluation_destroy(evaluation);
    const EsGrowOutcome lost = {{[ES_MEASURE_VALIDATION_ACCURACY] = NAN}}, poor = {{0}};
    EXPECT(es_grow_outcome_is_better(&poor, &lost) && !es_grow_outcome_is_better(&lost, &poor) &&
           !es_grow_outcome_is_better(&lost, &lost));
}

TEST(larger_budgets_are_compared_with_each_other) {
    EsGrowEvaluation *evaluation = create_case();
    snprintf(evaluation->variants[2].name, sizeof evaluation->variants[2].name, "budget2");
    REQUIRE_OK(es_grow_evaluation_compare(evaluation, 42));
    EXPECT_EQ(evaluation->n_budget_gains, 1);
    add_variant(evaluation, "budget4", -1);
    REQUIRE_OK(es_grow_evaluation_compare(evaluation, 42));
    static const struct {
        int from, to;
        double gained;
    } expected[] = {{0, 2, -2}, {0, 3, 1}, {2, 3, 3}};
    EXPECT_EQ(evaluation->n_budget_gains, 3);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(evaluation->budget_gains[i].from, expected[i].from);
        EXPECT_EQ(evaluation->budget_gains[i].to, expected[i].to);
        EXPECT_NEAR(evaluation->budget_gains[i].gained.mean, expected[i].gained, 1e-9);
        EXPECT_NEAR(evaluation->budget_gains[i].gained.high, expected[i].gained, 1e-9);
    }
    es_grow_evaluation_destroy(evaluation);
}

TEST(the_best_stands_first) {
    static const double means[] = {3, 1, 5, 3, 4};
    static const int expected[] = {2, 4, 0, 3, 1}; // the first of equals before the other
    int order[ES_COUNT_OF(means)];
    es_grow_evaluation_order(means, ES_COUNT_OF(means), order);
    for (size_t k = 0; k < ES_COUNT_OF(means); k++) {
        EXPECT_EQ(order[k], expected[k]);
    }
}

TEST(static_hosts_are_found_in_the_list) {
    static const struct {
        const char *against;
        int has_static;
    } lists[] = {{"wait,random", 0},    {"", 0},           {"wait, wider ", 1},
                 {"scratch,deeper", 1}, {"topologies", 0}, {"wider.safetensors", 0},
                 {"best,search", 0},    {"budget2", 1}};
    EsGrowSettings settings;
    es_grow_run_config(&settings);
    for (size_t i = 0; i < ES_COUNT_OF(lists); i++) {
        snprintf(settings.against, sizeof settings.against, "%s", lists[i].against);
        EXPECT_EQ(es_grow_evaluate_has_static(&settings), lists[i].has_static);
    }
}

TEST(comparisons_for_one_table_are_alike) {
    EsGrowEvaluation *a = create_case(), *b = create_case();
    EXPECT(es_grow_evaluation_difference(a, b) == NULL);
    snprintf(b->variants[0].hash, sizeof b->variants[0].hash, "%s",
             "another file of the same name");
    b->n_rounds++;
    EXPECT(es_grow_evaluation_difference(a, b) == NULL);
    b->is_greedy = 0;
    EXPECT_TEXT(es_grow_evaluation_difference(a, b), "whether learned policies draw");
    b->is_greedy = 1;
    b->n_episodes--;
    EXPECT_TEXT(es_grow_evaluation_difference(a, b), "the number of held-out episodes");
    b->n_episodes++;
    b->n_tasks = EPISODES; // of one episode each: still tasks
    EXPECT_TEXT(es_grow_evaluation_difference(a, b), "the number of held-out tasks");
    b->n_tasks = 0;
    snprintf(b->variants[2].name, sizeof b->variants[2].name, "%s", "other");
    EXPECT_TEXT(es_grow_evaluation_difference(a, b), "the policies");
    es_release(b->variants[2].outcomes);
    b->variants[2].outcomes = NULL;
    b->n_variants--;
    EXPECT_TEXT(es_grow_evaluation_difference(a, b), "the policies");
    es_grow_evaluation_destroy(a);
    es_grow_evaluation_destroy(b);
}

TEST(variants_that_have_not_run_are_left_out) {
    const char *path = temp_path("evaluation.json");
    EsGrowEvaluation *evaluation = create_case(), *loaded = NULL;
    es_release(evaluation->variants[1].outcomes);
    evaluation->variants[1].outcomes = NULL;
    REQUIRE_OK(es_grow_evaluation_compare(evaluation, 42));
    REQUIRE_OK(es_grow_evaluation_save(evaluation, path));
    REQUIRE_OK(es_grow_evaluation_load(path, &loaded));
    EXPECT_EQ(loaded->n_variants, 2);
    EXPECT_TEXT(loaded->variants[0].name, "first");
    EXPECT_TEXT(loaded->variants[1].name, "worse");
    es_grow_evaluation_destroy(loaded);
    es_grow_evaluation_destroy(evaluation);
}

TEST(a_file_keeps_every_bit) {
    const char *path = temp_path("evaluation.json");
    EsGrowEvaluation *evaluation = create_case(), *loaded = NULL;
    evaluation->variants[1].outcomes[3].measure[2] = NAN;
    evaluation->n_tasks = EPISODES;
    REQUIRE_OK(es_grow_evaluation_compare(evaluation, 42));
    REQUIRE_OK(es_grow_evaluation_save(evaluation, path));
    REQUIRE_OK(es_grow_evaluation_load(path, &loaded));
    EXPECT_EQ(loaded->n_episodes, EPISODES);
    EXPECT_EQ(loaded->n_tasks, EPISODES);
    EXPECT_EQ(loaded->group_size, 1);
    EXPECT_EQ(loaded->n_variants, 3);
    EXPECT_EQ(loaded->n_rounds, 12);
    EXPECT_EQ(loaded->is_greedy, 1);
    EXPECT_TEXT(loaded->variants[2].name, "worse");
    for (int a = 0; a < 3; a++) {
        for (int i = 0; i < EPISODES; i++) {
            for (int m = 0; m < ES_N_MEASURES; m++) {
                double kept = loaded->variants[a].outcomes[i].measure[m];
                double was = evaluation->variants[a].outcomes[i].measure[m];
                EXPECT(kept == was || (isnan(kept) && isnan(was)));
            }
        }
    }
    es_grow_evaluation_destroy(loaded);
    es_grow_evaluation_destroy(evaluation);
}

TEST(files_that_are_none_are_refused) {
    const char *path = temp_path("evaluation.json");
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\"n_episodes\": 2, \"arms\": []}",
        "{\"n_episodes\": 4, \"tasks\": 3, \"task_episodes\": 2, \"arms\": [{}]}",
        "{\"n_episodes\": 4, \"tasks\": 0, \"task_episodes\": 2, \"arms\": [{}]}",
        "{\"n_episodes\": 4, \"tasks\": \"2\", \"task_episodes\": 2, \"arms\": [{}]}",
        "{\"n_episodes\": -1, \"arms\": [{}]}",
        "{\"n_episodes\": 99999999999, \"arms\": [{}]}",
        "{\"n_episodes\": 2, \"arms\": [{}]}",
        "{\"n_episodes\": 2, \"arms\": [{\"policy\": \"a\", \"sha256\": \"\"}]}",
        "{\"n_episodes\": 1, \"arms\": [{\"policy\": \"\", \"sha256\": \"\", \"episodes\": 1}]}",
    };
    for (size_t i = 0; i < ES_COUNT_OF(texts); i++) {
        EsGrowEvaluation *loaded = NULL;
        write_temp_text("evaluation.json", texts[i]);
        EXPECT_STATUS(es_grow_evaluation_load(path, &loaded), INPUT);
        EXPECT(loaded == NULL);
        EXPECT_CONTAINS(es_status_detail(), "evaluation.json");
    }
    EsGrowEvaluation *loaded = NULL;
    unlink(path);
    EXPECT_STATUS(es_grow_evaluation_load(path, &loaded), INPUT);
}

// --- crafted files ---

// The comparison with one number of its second policy replaced; takes over `value`.
static EsStatus load_changed(const char *measure, json_t *value) {
    const char *path = temp_path("evaluation.json");
    EsGrowEvaluation *evaluation = create_case(), *loaded = NULL;
    json_t *root = es_grow_evaluation_json(evaluation);
    const json_t *variant = json_array_get(json_object_get(root, "arms"), 1);
    json_t *values = json_object_get(json_object_get(variant, "episodes"), measure);
    EXPECT_EQ(measure != NULL ? json_array_set_new(values, 3, value)
                              : json_object_set_new(root, "rounds", value),
              0);
    EXPECT_EQ(json_dump_file(root, path, 0), 0);
    EsStatus status = es_grow_evaluation_load(path, &loaded);
    es_grow_evaluation_destroy(loaded);
    es_grow_evaluation_destroy(evaluation);
    json_decref(root);
    return status;
}

TEST(numbers_out_of_range_are_refused) {
    static const struct {
        const char *measure;
        double least, most;
        int may_lack;
    } fields[] = {{"test_accuracy", 0, 100, 1}, {"validation_accuracy", 0, 100, 1},
                  {"reward", -1e308, 1e308, 1}, {"parameter_ratio", 0, 1e308, 1},
                  {"fossils", 0, INT32_MAX, 0}, {"rollbacks", 0, INT32_MAX, 0}};
    static const double numbers[] = {-1e300, -1, 0, 101, 2147483648.0, 1e300};
    char named[40];
    for (size_t i = 0; i < ES_COUNT_OF(fields); i++) {
        snprintf(named, sizeof named, "%s[3] is", fields[i].measure);
        for (size_t v = 0; v < ES_COUNT_OF(numbers); v++) {
            int is_good = numbers[v] >= fields[i].least && numbers[v] <= fields[i].most;
            EsStatus status = load_changed(fields[i].measure, json_real(numbers[v]));
            EXPECT_EQ(status, is_good ? ES_STATUS_OK : ES_STATUS_INPUT);
            EXPECT(is_good || strstr(es_status_detail(), named) != NULL);
        }
        EXPECT_STATUS(load_changed(fields[i].measure, json_string("1")), INPUT);
        EXPECT_CONTAINS(es_status_detail(), named);
        EXPECT_EQ(load_changed(fields[i].measure, json_null()),
                  fields[i].may_lack ? ES_STATUS_OK : ES_STATUS_INPUT);
    }
    EXPECT_STATUS(load_changed(NULL, json_integer(-1)), INPUT);
    EXPECT_STATUS(load_changed(NULL, json_integer(INT64_MAX)), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "evaluation.json: rounds is 9223372036854775807");
}

TEST(changed_texts_are_refused_or_read) {
    EsGrowEvaluation *evaluation = create_case();
    const char *path = temp_path("evaluation.json");
    REQUIRE_OK(es_grow_evaluation_compare(evaluation, 42));
    REQUIRE_OK(es_grow_evaluation_save(evaluation, path));
    FileBytes file = read_bytes(path);
    unsigned char *crafted = malloc(file.count);
    Mutator mutator = {.seed = 91};
    int n_all = mutation_count(300), n_refused = 0;
    for (int i = 0; i < n_all; i++) {
        EsGrowEvaluation *loaded = NULL;
        memcpy(crafted, file.bytes, file.count);
        mutate_text(&mutator, crafted, 0, file.count);
        write_bytes(path, crafted, file.count);
        EsStatus status = es_grow_evaluation_load(path, &loaded);
        EXPECT(status == ES_STATUS_OK || status == ES_STATUS_INPUT);
        n_refused += status != ES_STATUS_OK;
        es_grow_evaluation_destroy(loaded);
    }
    printf("  %d of %d refused\n", n_refused, n_all);
    EXPECT(n_refused > n_all / 4 && n_refused < n_all);
    free(crafted);
    es_release(file.bytes);
    es_grow_evaluation_destroy(evaluation);
}
