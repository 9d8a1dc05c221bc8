// A search: how many candidates go on, that those which go on are the best, and that the network
// that is kept is the best of all epochs, or of few rows a late one.
#include "runs/fit/fit_search.h"

#include "es_test.h"

#include "base/clock.h"
#include "base/random_rules.h"
#include "base/statistics.h"
#include "fit/network_report.h"
#include "growth/growing_case.h"
#include "temp_folder.h"

// --- halving ---

TEST(half_of_the_candidates_goes_on_again_and_again) {
    static const struct {
        int n;
        int64_t n_epochs, epoch;
        int n_kept;
    } rows[] = {{4, 30, 1, 4},  {4, 30, 4, 4},   {4, 30, 5, 2},   {4, 30, 9, 2},  {4, 30, 10, 1},
                {4, 30, 30, 1}, {8, 90, 9, 8},   {8, 90, 10, 4},  {8, 90, 20, 2}, {8, 90, 30, 1},
                {5, 18, 2, 3},  {5, 18, 4, 2},   {5, 18, 6, 1},   {1, 10, 1, 1},  {2, 3, 1, 1},
                {4, 1, 1, 2},   {256, 24, 8, 1}, {256, 3, 1, 128}};
    for (size_t i = 0; i < ES_COUNT_OF(rows); i++) {
        EXPECT_EQ(es_fit_count_kept(rows[i].n, rows[i].n_epochs, rows[i].epoch), rows[i].n_kept);
    }
}

// Never fewer than one, never more than before, halves alone, and a single one after a third where
// there are epochs enough.
TEST(counts_fall_by_halves) {
    for (int n = 1; n <= 256; n++) {
        for (int64_t n_epochs = 1; n_epochs <= 60; n_epochs++) {
            int before = n;
            for (int64_t epoch = 1; epoch <= n_epochs; epoch++) {
                int now = es_fit_count_kept(n, n_epochs, epoch);
                EXPECT(now >= 1 && now <= before);
                EXPECT(n_epochs < 27 || now == before || now == (before + 1) / 2);
                before = now;
            }
            EXPECT(n_epochs < 27 || before == 1);
        }
    }
}

// As many as there is time for, with a reserve; one and 200 are the limits.
TEST(epochs_follow_from_the_time) {
    EXPECT_EQ(es_fit_count_epochs(1, 1, 0.1), 1);
    EXPECT_EQ(es_fit_count_epochs(1, 1, -5), 1);
    EXPECT_EQ(es_fit_count_epochs(1, 1, 26.1), 20);
    EXPECT_EQ(es_fit_count_epochs(1, 1, 25.9), 19);
    EXPECT_EQ(es_fit_count_epochs(1, 0.001, 1e6), 200);
    // four candidates train 4, 2 and 1 of them in 5, 5 and 20 epochs of 30: 50 in all
    EXPECT_EQ(es_fit_count_epochs(4, 4, 1.3 * 50 + 0.1), 30);
    EXPECT_EQ(es_fit_count_epochs(4, 4, 1.3 * 50 - 0.1), 29);
}

TEST(tables_have_more_epochs_and_a_lower_rate) {
    const EsDataset rows = {.kind = ES_DATASET_ROWS}, images = {.kind = ES_DATASET_IMAGES};
    EXPECT_EQ(es_fit_usual_epochs(&rows, 8), 38);
    EXPECT_EQ(es_fit_usual_epochs(&rows, 14), 22);
    EXPECT_EQ(es_fit_usual_epochs(&rows, 15), 20);
    EXPECT_EQ(es_fit_usual_epochs(&rows, 1000), 20);
    EXPECT_EQ(es_fit_usual_epochs(&images, 1), 20);
    EXPECT_NEAR((double)es_fit_learning_rate(&rows, 0), 0.01, 1e-8);
    EXPECT_NEAR((double)es_fit_learning_rate(&images, 0), 0.1, 1e-8);
    EXPECT_NEAR((double)es_fit_learning_rate(&rows, 0.5f), 0.5, 0);
}

TEST(candidates_are_shared_out_over_hosts) {
    for (int n = 1; n <= 20; n++) {
        for (int n_hosts = 1; n_hosts <= ES_HOST_SHAPES; n_hosts++) {
            int first = 0;
            for (int g = 0; g < n_hosts; g++) {
                EsFitShare share = es_fit_share(n, n_hosts, g);
                EXPECT_EQ(share.first, first);
                EXPECT(share.n == n / n_hosts || share.n == n / n_hosts + 1);
                EXPECT(g == 0 || share.n <= es_fit_share(n, n_hosts, g - 1).n);
                first += share.n;
            }
            EXPECT_EQ(first, n);
        }
    }
}

// --- a search ---

enum { EPOCHS = 12, CANDIDATES = 5 };

typedef struct Case {
    EsDataset dataset;
    EsFitDevices devices;
    EsFitSettings settings;
    EsHostSpec hosts[2];
    int n_decided; // calls of `decided`
    EsFitSearchOptions options;
} Case;

static void count_decided(void *context) { (*(int *)context)++; }

// Five candidates of two hosts: three of the first, two of the second.
static void begin_case(Case *test, const char *device) {
    memset(test, 0, sizeof *test);
    make_small_dataset(&test->dataset, 64, 40);
    es_fit_run_config(&test->settings);
    snprintf(test->settings.run.device, sizeof test->settings.run.device, "%s", device);
    test->settings.run.n_threads = 2;
    REQUIRE_OK(es_fit_devices_open(&test->settings, &test->devices));
    test->settings.max_parameters = 3000;
    test->hosts[0] = small_host();
    test->hosts[1] = small_host();
    test->hosts[1].base = 6;
    test->options = (EsFitSearchOptions){.settings = &test->settings,
                                         .dataset = &test->dataset,
                                         .data_sha256 = "1234",
                                         .device = test->devices.device,
                                         .cpu = test->devices.cpu,
                                         .hosts = test->hosts,
                                         .n_hosts = 2,
                                         .n_candidates = CANDIDATES,
                                         .batch = 16,
                                         .n_updates = 4,
                                         .n_epochs = EPOCHS,
                                         .seed = 3,
                                         .policy = "random",
                                         .decided = count_decided,
                                         .context = &test->n_decided};
}

static void end_case(Case *test) {
    es_fit_devices_close(&test->devices);
    destroy_small_dataset(&test->dataset);
}

// Numbers of the candidates that are left, as bits.
static int candidates_left(const EsFitSearch *search) {
    int left = 0;
    for (int g = 0; g < search->n_groups; g++) {
        for (int i = 0; i < search->groups[g]->n; i++) {
            left |= 1 << search->groups[g]->candidates[i];
        }
    }
    return left;
}

TEST(the_best_go_on_and_the_best_network_is_kept) {
    Case test;
    EsFitSearch *search = NULL;
    double best = -1, best_loss = 0;
    begin_case(&test, "cpu");
    REQUIRE_OK(es_fit_search_create(&test.options, &search));
    EXPECT_EQ(search->groups[0]->n, 3);
    EXPECT_EQ(search->groups[1]->n, 2);
    EXPECT_EQ(candidates_left(search), 31);
    for (int64_t epoch = 1; epoch <= EPOCHS; epoch++) {
        EsFitPlace places[ES_FIT_CANDIDATES_MAX];
        REQUIRE_OK(es_fit_search_advance(search, epoch));
        int n = es_fit_search_list(search, places);
        int n_kept = es_fit_count_kept(CANDIDATES, EPOCHS, epoch), expected = 0;
        for (int i = 0; i < n; i++) {
            EXPECT(i == 0 || places[i - 1].accuracy >= places[i].accuracy);
            const EsFitGroup *group = search->groups[places[i].group];
            EXPECT_NEAR(places[i].accuracy, group->accuracy[places[i].position], 0);
            expected |= i < n_kept ? 1 << group->candidates[places[i].position] : 0;
        }
        int is_better =
            places[0].accuracy > best || (places[0].accuracy == best && places[0].loss < best_loss);
        EXPECT_EQ(search->is_new_best, is_better);
        best = fmax(best, places[0].accuracy);
        best_loss = is_better ? places[0].loss : best_loss;
        EXPECT_NEAR(search->best_accuracy, best, 0);
        if (search->is_new_best) {
            EXPECT_EQ(search->best_epoch, epoch);
            EXPECT_EQ(search->best_group, places[0].group);
            EXPECT_EQ(search->best_candidate,
                      search->groups[places[0].group]->candidates[places[0].position]);
            EXPECT_EQ(search->best->origin.episode, search->best_candidate);
            EXPECT_NEAR(search->best->origin.validation_accuracy, best, 0);
            EXPECT_TEXT(search->best->origin.data_sha256, "1234");
            EXPECT_TEXT(search->best->origin.policy, "random");
            // seeds that do not take part yet are left out
            EXPECT(search->best->n_parameters <=
                   es_growth_parameter_count(search->groups[places[0].group]->growth,
                                             places[0].position));
        }
        REQUIRE_OK(es_fit_search_decide(search, epoch));
        EXPECT_EQ(candidates_left(search), expected);
        EXPECT_EQ(test.n_decided, epoch);
    }
    EXPECT(search->best != NULL && best > 33);
    es_fit_search_destroy(search);
    end_case(&test);
}

// --- a search by few rows ---

enum { ROWS = 200, COLUMNS = 3 };

// Two classes by the first column, three labels of ten at random: 20 rows to choose by, of which no
// network knows all.
static void make_rows(EsDataset *dataset) {
    static float rows[ROWS][COLUMNS];
    static int32_t labels[ROWS];
    for (uint32_t i = 0; i < ROWS; i++) {
        EsRandom4 draw = es_random_draw(5, i, ES_PURPOSE_DATA_GENERATION, 0, 0);
        for (int c = 0; c < COLUMNS; c++) {
            rows[i][c] = es_random_uniform(draw.word[c]);
        }
        labels[i] = (rows[i][0] > 0.5f) ^ (draw.word[3] % 10 < 3);
    }
    const EsDataArrays arrays = {.name = "noisy",
                                 .rows = &rows[0][0],
                                 .labels = labels,
                                 .n = ROWS,
                                 .n_channels = COLUMNS,
                                 .n_classes = 2};
    REQUIRE_OK(es_dataset_copy(dataset, &arrays, &(EsDatasetOptions){.seed = 1}));
}

TEST(of_few_rows_the_later_network_is_kept) {
    Case test;
    EsDataset rows;
    EsHostChoice choice;
    EsFitSearch *search = NULL;
    int n_lower = 0;
    begin_case(&test, "cpu");
    make_rows(&rows);
    REQUIRE_OK(es_host_choose(&rows, 1000, &choice));
    test.options.dataset = &rows;
    test.options.hosts = choice.hosts;
    test.options.n_hosts = choice.n_hosts;
    REQUIRE_OK(es_fit_search_create(&test.options, &search));
    for (int64_t epoch = 1; epoch <= EPOCHS; epoch++) {
        EsFitPlace places[ES_FIT_CANDIDATES_MAX];
        double low = -1, high, top = search->top_accuracy;
        if (epoch == EPOCHS) {
            search->top_accuracy = top = 100; // an epoch that was far better
        }
        if (epoch > 1) {
            int64_t n = rows.validation.count;
            es_wilson_interval((int64_t)(top / 100 * (double)n + 0.5), n, &low, &high);
        }
        REQUIRE_OK(es_fit_search_advance(search, epoch));
        es_fit_search_list(search, places);
        EXPECT_EQ(search->is_new_best, places[0].accuracy >= low);
        EXPECT_NEAR(search->top_accuracy, fmax(top, search->best_accuracy), 0);
        if (search->is_new_best) {
            EXPECT_EQ(search->best_epoch, epoch);
            EXPECT_NEAR(search->best_accuracy, places[0].accuracy, 0);
            n_lower += search->best_accuracy < top;
        }
        REQUIRE_OK(es_fit_search_decide(search, epoch));
    }
    EXPECT(n_lower > 0);
    EXPECT(search->best_epoch < EPOCHS);
    es_fit_search_destroy(search);
    es_dataset_destroy(&rows);
    end_case(&test);
}

// --- on a GPU ---

// A group that is saved and loaded goes on with the same bits.
static void check_group_file(EsFitGroup *group) {
    EsFitGroup *loaded = NULL;
    const char *growth = temp_path("growth.safetensors"), *policy = temp_path("policy.safetensors");
    REQUIRE_OK(es_fit_group_create(&group->options, group->n, 0, &loaded));
    REQUIRE_OK(es_fit_group_save(group, growth, policy));
    REQUIRE_OK(es_fit_group_load(loaded, group->candidates, group->n, growth, policy));
    REQUIRE_OK(es_fit_group_advance(loaded));
    REQUIRE_OK(es_fit_group_advance(group));
    for (int i = 0; i < group->n; i++) {
        EXPECT_NEAR(loaded->loss[i], group->loss[i], 0);
        EXPECT_NEAR(loaded->accuracy[i], group->accuracy[i], 0);
    }
    es_fit_group_destroy(loaded);
}

// Weak candidates are dropped there, and the network that is brought from there has the accuracy
// that was measured there, but for two samples of 40: there in bfloat16, here in float32.
TEST(networks_grow_on_a_gpu) {
    Case test;
    EsFitSearch *search = NULL;
    EsNetworkScore score;
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    begin_case(&test, "cuda");
    REQUIRE_OK(es_fit_search_create(&test.options, &search));
    for (int64_t epoch = 1; epoch <= EPOCHS; epoch++) {
        REQUIRE_OK(es_fit_search_advance(search, epoch));
        if (search->is_new_best) {
            REQUIRE_OK(es_network_score(search->best, NULL, &test.dataset, &test.dataset.validation,
                                        &score));
            EXPECT_NEAR(score.accuracy, search->best_accuracy, 5.01);
            es_network_score_destroy(&score);
        }
        REQUIRE_OK(es_fit_search_decide(search, epoch));
    }
    EXPECT_EQ(search->groups[0]->n + search->groups[1]->n, 1);
    EXPECT(search->best_accuracy > 33);
    es_fit_search_destroy(search);
    test.options.n_candidates = 2;
    test.options.n_hosts = 1;
    REQUIRE_OK(es_fit_search_create(&test.options, &search));
    REQUIRE_OK(es_fit_search_advance(search, 1));
    REQUIRE_OK(es_fit_group_decide(search->groups[0]));
    check_group_file(search->groups[0]);
    es_fit_search_destroy(search);
    end_case(&test);
}

// An epoch of more updates than a day has time for is known after a few of them.
TEST(an_epoch_on_a_gpu_is_measured_by_few_updates) {
    Case test;
    double epoch_seconds = 0;
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    begin_case(&test, "cuda");
    test.settings.max_seconds = 1;
    test.options.n_candidates = test.options.n_hosts = 1;
    test.options.batch = 2;
    test.options.n_updates = 1000000000;
    test.options.n_epochs = 0;
    int64_t start_ns = es_clock_ns();
    REQUIRE_OK(es_fit_choose_epochs(&test.options, 0, &epoch_seconds));
    EXPECT(epoch_seconds > es_clock_seconds_since(start_ns));
    EXPECT_EQ(test.options.n_epochs, 1);
    end_case(&test);
}
