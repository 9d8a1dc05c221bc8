// The comparison of a run of kind "prove" as a file: every number comes back, files that are none
// are refused, and only the comparison that is wanted is taken.
#include "runs/prove/prove_evaluate.h"

#include <math.h>

#include "base/range_check.h"
#include "mutate.h"

static EsProveEvaluation make_case(void) {
    EsProveEvaluation made = {.n_rounds = 12,
                              .best_round = 10,
                              .best_mrr = 1.0 / 3,
                              .policy_hash = "abc",
                              .last_hash = "def",
                              .n_queries = 7,
                              .n_corruptions = 3};
    for (int a = 0; a < ES_N_PROVE_VARIANTS; a++) {
        EsProveVariant *variant = &made.variants[a];
        variant->all.n_queries = 6;
        variant->all.n_proved = a;
        variant->all.n_negatives = 40 + a;
        variant->all.n_negatives_proved = 2 + a;
        variant->all.reciprocal = (EsInterval){0.1 * (a + 1), 0.1 / (a + 3), 0.7 / (a + 1)};
        for (int i = 0; i < ES_N_HITS; i++) {
            variant->all.hits[i] = 1.0 / (a + i + 3);
        }
        variant->report.n_candidates = 50 + a;
        variant->report.n_expanded = ((int64_t)1 << 40) + a;
        variant->report.n_limited = a;
        variant->seconds = 2.0 / (a + 3);
        if (a != ES_PROVE_VARIANT_POLICY) {
            variant->difference = (EsInterval){-0.1 / (a + 6), NAN, 1e-300};
        }
    }
    return made;
}

static int is_equal(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static int are_intervals_equal(const EsInterval *a, const EsInterval *b) {
    return is_equal(a->mean, b->mean) && is_equal(a->low, b->low) && is_equal(a->high, b->high);
}

TEST(a_file_keeps_every_bit) {
    const char *path = temp_path("evaluation.json");
    EsProveEvaluation was = make_case(), kept;
    REQUIRE_OK(es_prove_evaluation_save(&was, path));
    REQUIRE_OK(es_prove_evaluation_load(path, &kept));
    EXPECT_EQ(kept.n_rounds, 12);
    EXPECT_EQ(kept.best_round, 10);
    EXPECT(kept.best_mrr == was.best_mrr);
    EXPECT_TEXT(kept.policy_hash, "abc");
    EXPECT_TEXT(kept.last_hash, "def");
    EXPECT_EQ(kept.n_queries, 7);
    EXPECT_EQ(kept.n_corruptions, 3);
    for (int a = 0; a < ES_N_PROVE_VARIANTS; a++) {
        const EsProveVariant *x = &kept.variants[a], *y = &was.variants[a];
        EXPECT(are_intervals_equal(&x->all.reciprocal, &y->all.reciprocal));
        EXPECT(are_intervals_equal(&x->difference, &y->difference));
        for (int i = 0; i < ES_N_HITS; i++) {
            EXPECT(x->all.hits[i] == y->all.hits[i]);
        }
        EXPECT_EQ(x->all.n_queries, y->all.n_queries);
        EXPECT_EQ(x->all.n_proved, y->all.n_proved);
        EXPECT_EQ(x->all.n_negatives, y->all.n_negatives);
        EXPECT_EQ(x->all.n_negatives_proved, y->all.n_negatives_proved);
        EXPECT_EQ(x->report.n_candidates, y->report.n_candidates);
        EXPECT_EQ(x->report.n_expanded, y->report.n_expanded);
        EXPECT_EQ(x->report.n_limited, y->report.n_limited);
        EXPECT(x->seconds == y->seconds);
    }
}

TEST(a_run_without_validation_has_no_best_round) {
    const char *path = temp_path("evaluation.json");
    EsProveEvaluation was = make_case(), kept;
    was.best_round = 0;
    REQUIRE_OK(es_prove_evaluation_save(&was, path));
    REQUIRE_OK(es_prove_evaluation_load(path, &kept));
    EXPECT_EQ(kept.best_round, 0);
    EXPECT(kept.best_mrr == 0);
}

static int is_taken(const char *path, const EsProveEvaluation *wanted, EsProveEvaluation *taken) {
    int is = -1;
    REQUIRE_OK(es_prove_evaluation_take(path, wanted, taken, &is));
    return is;
}

TEST(only_the_comparison_that_is_wanted_is_taken) {
    const char *path = temp_path("evaluation.json");
    EsProveEvaluation was = make_case(), wanted = make_case(), taken = {.n_rounds = -1};
    EXPECT(!is_taken(path, &wanted, &taken));
    REQUIRE_OK(es_prove_evaluation_save(&was, path));
    // what the comparison finds out is not asked
    wanted.best_round = 0;
    wanted.best_mrr = 0;
    wanted.policy_hash[0] = '\0';
    memset(wanted.variants, 0, sizeof wanted.variants);
    const EsProveEvaluation asked = wanted;
    wanted.n_rounds++;
    EXPECT(!is_taken(path, &wanted, &taken));
    wanted = asked;
    wanted.n_queries--;
    EXPECT(!is_taken(path, &wanted, &taken));
    wanted = asked;
    wanted.n_corruptions = 0;
    EXPECT(!is_taken(path, &wanted, &taken));
    wanted = asked;
    wanted.last_hash[0] = 'x';
    EXPECT(!is_taken(path, &wanted, &taken));
    EXPECT_EQ(taken.n_rounds, -1);
    EXPECT(is_taken(path, &asked, &taken));
    EXPECT_EQ(taken.best_round, 10);
    EXPECT_TEXT(taken.policy_hash, "abc");
}

TEST(files_that_are_none_are_refused) {
    const char *path = temp_path("evaluation.json");
    static const char *const texts[] = {"", "{", "[]", "{}", "{\"queries\": 2, \"arms\": []}"};
    EsProveEvaluation loaded;
    for (size_t i = 0; i < ES_COUNT_OF(texts); i++) {
        write_temp_text("evaluation.json", texts[i]);
        EXPECT_STATUS(es_prove_evaluation_load(path, &loaded), INPUT);
        EXPECT_CONTAINS(es_status_detail(), "evaluation.json");
    }
    // a variant less, and two in the wrong order
    const EsProveEvaluation was = make_case();
    for (int is_swapped = 0; is_swapped < 2; is_swapped++) {
        json_t *root = es_prove_evaluation_json(&was);
        json_t *arms = json_object_get(root, "arms");
        json_t *last = json_incref(json_array_get(arms, ES_N_PROVE_VARIANTS - 1));
        json_array_remove(arms, ES_N_PROVE_VARIANTS - 1);
        if (is_swapped) {
            json_array_insert(arms, 0, last);
        }
        EXPECT_EQ(json_dump_file(root, path, 0), 0);
        EXPECT_STATUS(es_prove_evaluation_load(path, &loaded), INPUT);
        EXPECT_CONTAINS(es_status_detail(), is_swapped ? "arms[0] is \"breadth\", not \"policy\""
                                                       : "\"arms\" has 5 entries instead of 6");
        json_decref(last);
        json_decref(root);
    }
    unlink(path);
    EXPECT_STATUS(es_prove_evaluation_load(path, &loaded), INPUT);
}

// Replace or, with NULL, leave out one value of a saved comparison, and load it.
static EsStatus load_changed(int arm, const char *part, const char *key, json_t *value,
                             EsProveEvaluation *loaded) {
    const char *path = temp_path("evaluation.json");
    const EsProveEvaluation was = make_case();
    json_t *root = es_prove_evaluation_json(&was), *at = root;
    at = arm >= 0 ? json_array_get(json_object_get(root, "arms"), (size_t)arm) : at;
    at = part != NULL ? json_object_get(at, part) : at;
    EXPECT_EQ(value != NULL ? json_object_set_new(at, key, value) : json_object_del(at, key), 0);
    EXPECT_EQ(json_dump_file(root, path, 0), 0);
    json_decref(root);
    return es_prove_evaluation_load(path, loaded);
}

TEST(a_number_is_a_number_or_null) {
    EsProveEvaluation loaded;
    static const struct {
        int arm;
        const char *part, *key, *named;
    } cases[] = {{-1, NULL, "validation_mrr", "json: \"validation_mrr\" is"},
                 {0, NULL, "hits_3", "arms[0]: \"hits_3\" is"},
                 {1, "mrr", "low", "arms[1]: mrr: \"low\" is"},
                 {2, "policy_minus_this", "mean", "arms[2]: policy_minus_this: \"mean\" is"},
                 {3, NULL, "seconds", "arms[3]: \"seconds\" is"}};
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        json_t *const wrong[] = {json_string("0.5"), json_object(), json_true(), json_array()};
        for (size_t k = 0; k < ES_COUNT_OF(wrong); k++) {
            EXPECT_STATUS(
                load_changed(cases[i].arm, cases[i].part, cases[i].key, wrong[k], &loaded), INPUT);
            EXPECT_CONTAINS(es_status_detail(), cases[i].named);
        }
        EXPECT_STATUS(load_changed(cases[i].arm, cases[i].part, cases[i].key, json_null(), &loaded),
                      OK);
        EXPECT_STATUS(
            load_changed(cases[i].arm, cases[i].part, cases[i].key, json_integer(1), &loaded), OK);
    }
    // an interval that is none
    EXPECT_STATUS(load_changed(1, NULL, "mrr", json_real(0.5), &loaded), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "arms[1]: mrr: \"mean\" is missing");
    EXPECT_STATUS(load_changed(1, NULL, "hits_1", NULL, &loaded), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "\"hits_1\" is missing");
}

TEST(a_file_without_times_has_none) {
    EsProveEvaluation loaded;
    REQUIRE_OK(load_changed(2, NULL, "seconds", NULL, &loaded));
    EXPECT(es_is_missing_real(loaded.variants[2].seconds));
    EXPECT(loaded.variants[1].seconds > 0);
    REQUIRE_OK(load_changed(0, NULL, "hits_1", json_null(), &loaded));
    EXPECT(isnan(loaded.variants[0].all.hits[0]));
}

// --- crafted files ---

TEST(numbers_out_of_range_are_refused) {
    EsProveEvaluation loaded;
    static const struct {
        int arm;
        const char *part, *key;
        int64_t most; // of a count; 0: a share
    } fields[] = {{-1, NULL, "rounds", INT32_MAX},
                  {-1, NULL, "best_round", 12},
                  {-1, NULL, "corruptions", INT32_MAX},
                  {-1, NULL, "queries", INT32_MAX},
                  {-1, NULL, "validation_mrr", 0},
                  {0, NULL, "queries", INT32_MAX},
                  {1, NULL, "proved", INT32_MAX},
                  {2, NULL, "negatives", ES_COUNTER_MAX},
                  {3, NULL, "negatives_proved", ES_COUNTER_MAX},
                  {0, NULL, "candidates", ES_COUNTER_MAX},
                  {1, NULL, "expanded", ES_COUNTER_MAX},
                  {2, NULL, "limited", ES_COUNTER_MAX},
                  {0, NULL, "hits_1", 0},
                  {3, NULL, "hits_10", 0},
                  {1, "mrr", "high", 0},
                  {2, "policy_minus_this", "low", 0}};
    for (size_t i = 0; i < ES_COUNT_OF(fields); i++) {
        int64_t most = fields[i].most;
        json_t *const wrong[] = {json_integer(INT64_MIN), json_integer(-2), json_integer(most + 2),
                                 json_integer(INT64_MAX), json_real(1e300), json_string("1")};
        for (size_t v = 0; v < ES_COUNT_OF(wrong); v++) {
            EXPECT_STATUS(
                load_changed(fields[i].arm, fields[i].part, fields[i].key, wrong[v], &loaded),
                INPUT);
            EXPECT_CONTAINS(es_status_detail(), "evaluation.json: ");
            EXPECT_CONTAINS(es_status_detail(), fields[i].key);
        }
    }
    EXPECT_STATUS(load_changed(3, NULL, "seconds", json_integer(-1), &loaded), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "seconds is -1, must be finite and not negative");
}

TEST(changed_texts_are_refused_or_read) {
    const EsProveEvaluation was = make_case();
    const char *path = temp_path("evaluation.json");
    REQUIRE_OK(es_prove_evaluation_save(&was, path));
    FileBytes file = read_bytes(path);
    unsigned char *crafted = malloc(file.count);
    Mutator mutator = {.seed = 81};
    int n_all = mutation_count(300), n_refused = 0;
    for (int i = 0; i < n_all; i++) {
        EsProveEvaluation loaded;
        memcpy(crafted, file.bytes, file.count);
        mutate_text(&mutator, crafted, 0, file.count);
        write_bytes(path, crafted, file.count);
        EsStatus status = es_prove_evaluation_load(path, &loaded);
        EXPECT(status == ES_STATUS_OK || status == ES_STATUS_INPUT);
        n_refused += status != ES_STATUS_OK;
    }
    printf("  %d of %d refused\n", n_refused, n_all);
    EXPECT(n_refused > n_all / 4 && n_refused < n_all);
    free(crafted);
    es_release(file.bytes);
}
