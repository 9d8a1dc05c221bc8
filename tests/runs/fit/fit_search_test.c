// A search: how many candidates go on, that those which go on are the best, and that the network
// that is kept is the best of all epochs.
#include "runs/fit/fit_search.h"

#include "es_test.h"

#include "growth/growing_case.h"

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

// --- a search ---

enum { EPOCHS = 12, CANDIDATES = 5 };

typedef struct Case {
    EsDataset dataset;
    EsDevice *device;
    EsFitSettings settings;
    EsHostSpec hosts[2];
    int n_decided; // calls of `decided`
    EsFitSearchOptions options;
} Case;

static void count_decided(void *context) { (*(int *)context)++; }

// Five candidates of two hosts: three of the first, two of the second.
static void begin_case(Case *test) {
    memset(test, 0, sizeof *test);
    make_small_dataset(&test->dataset, 64, 40);
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 2}, &test->device));
    es_fit_run_config(&test->settings);
    test->settings.max_parameters = 3000;
    test->hosts[0] = small_host();
    test->hosts[1] = small_host();
    test->hosts[1].base = 6;
    test->options = (EsFitSearchOptions){.settings = &test->settings,
                                         .dataset = &test->dataset,
                                         .device = test->device,
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
    es_device_close(test->device);
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
    begin_case(&test);
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
