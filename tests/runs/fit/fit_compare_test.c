// A comparison: variants start as the fit's winner did, and means, paired differences and the order
// of the variants leave out those that diverged.
#include "runs/fit/fit_compare.h"

#include "es_test.h"
#include "temp_folder.h"

#include "growth/growing_case.h"

// --- outcomes ---

static EsFitComparison make_comparison(void) {
    // fit first, then the others as they are listed; rows are seeds
    static const double accuracies[3][ES_FIT_VARIANTS] = {
        {90, 88, 91, 90, 92, 80, 89}, {92, 89, 92, 92, 94, 82, 91}, {91, 87, 93, 91, 93, 81, 90}};
    EsFitComparison comparison = {.n_seeds = 3};
    for (int v = 0; v < ES_FIT_VARIANTS; v++) {
        for (int i = 0; i < 3; i++) {
            comparison.outcomes[v][i] =
                (EsFitOutcome){.is_known = 1, .test_accuracy = accuracies[i][v]};
        }
    }
    es_fit_comparison_measure(&comparison);
    return comparison;
}

TEST(the_winner_stands_first) {
    static const int expected[] = {ES_FIT_SCRATCH, ES_FIT_WIDER, ES_FIT_FIT,   ES_FIT_DEEPER,
                                   ES_FIT_SEARCH,  ES_FIT_HOST,  ES_FIT_RANDOM};
    EsFitComparison comparison = make_comparison();
    for (int k = 0; k < ES_FIT_VARIANTS; k++) {
        EXPECT_EQ(comparison.order[k], expected[k]); // the fit before a variant that is as good
    }
}

TEST(differences_are_paired) {
    EsFitComparison comparison = make_comparison();
    EXPECT_NEAR(comparison.mean[ES_FIT_FIT].mean, 91, 1e-12);
    EXPECT_NEAR(comparison.difference[ES_FIT_FIT].mean, 0, 1e-12);
    // always 2 points better: the pairs have no spread, though the accuracies have
    EXPECT_NEAR(comparison.difference[ES_FIT_SCRATCH].mean, 2, 1e-12);
    EXPECT_NEAR(comparison.difference[ES_FIT_SCRATCH].low, 2, 1e-12);
    EXPECT_NEAR(comparison.difference[ES_FIT_SCRATCH].high, 2, 1e-12);
    EXPECT(comparison.mean[ES_FIT_SCRATCH].low < 92);
    // 1, 0, 2: mean 1, deviation 1, t = 4.3027 with two degrees of freedom
    EXPECT_NEAR(comparison.difference[ES_FIT_WIDER].low, 1 - 4.3027 / 1.7320508, 1e-4);
    EXPECT_NEAR(comparison.difference[ES_FIT_WIDER].high, 1 + 4.3027 / 1.7320508, 1e-4);
}

TEST(diverged_seeds_are_left_out_and_counted) {
    EsFitComparison comparison = make_comparison();
    const EsFitOutcome diverged = {1, NAN, NAN, NAN}, unknown = {0};
    comparison.outcomes[ES_FIT_FIT][1] = diverged; // 90 and 91 are left
    comparison.outcomes[ES_FIT_HOST][1] = unknown;
    comparison.outcomes[ES_FIT_WIDER][0] = diverged;
    for (int i = 0; i < 3; i++) {
        comparison.outcomes[ES_FIT_SCRATCH][i] = diverged;
    }
    es_fit_comparison_measure(&comparison);
    EXPECT_EQ(comparison.n_diverged[ES_FIT_FIT], 1);
    EXPECT_EQ(comparison.n_diverged[ES_FIT_HOST], 0);
    EXPECT_EQ(comparison.n_diverged[ES_FIT_SCRATCH], 3);
    EXPECT_NEAR(comparison.mean[ES_FIT_FIT].mean, 90.5, 1e-12);
    EXPECT_NEAR(comparison.mean[ES_FIT_HOST].mean, 87.5, 1e-12);
    EXPECT_NEAR(comparison.difference[ES_FIT_HOST].mean, -3, 1e-12);
    EXPECT_NEAR(comparison.mean[ES_FIT_WIDER].mean, 92.5, 1e-12);    // of two seeds
    EXPECT_NEAR(comparison.difference[ES_FIT_WIDER].mean, 2, 1e-12); // of the last one
    EXPECT(isnan(comparison.mean[ES_FIT_SCRATCH].mean));
    EXPECT_EQ(comparison.order[0], ES_FIT_WIDER);
    EXPECT_EQ(comparison.order[ES_FIT_VARIANTS - 1], ES_FIT_SCRATCH);
}

// --- variants ---

enum { SIZE = 32, TRAIN = 32, VALIDATION = 16, EPOCHS = 3 };

typedef struct Case {
    EsDataset dataset;
    EsDevice *device;
    EsFitSettings settings;
    EsHostSpec hosts[2];
    EsFitSearchOptions options;
} Case;

// Images that are bright in their upper or in their lower half.
static void make_dataset(EsDataset *dataset) {
    begin_gray_dataset(dataset, "halves", SIZE, 2, TRAIN + VALIDATION);
    for (int i = 0; i < TRAIN + VALIDATION; i++) {
        dataset->labels[i] = (uint16_t)(i % 2);
        for (int p = 0; p < SIZE * SIZE; p++) {
            float noise = 70.0f * small_draw((uint32_t)(i * SIZE * SIZE + p));
            int is_bright = (p / SIZE < SIZE / 2) == (i % 2 == 0);
            dataset->images[i * SIZE * SIZE + p] =
                (uint8_t)(128.0f + (is_bright ? 20.0f : -20.0f) + noise);
        }
    }
    dataset->train = (EsSplit){dataset->images, dataset->labels, TRAIN};
    dataset->validation =
        (EsSplit){dataset->images + TRAIN * SIZE * SIZE, dataset->labels + TRAIN, VALIDATION};
}

// Places for seeds behind the pools and behind the last block alone, as es_host_choose has them.
static EsHostSpec make_host(const char *name, int n_blocks, int n_pools) {
    EsHostSpec host = {.name = name,
                       .dataset = "",
                       .image_channels = 1,
                       .image_size = SIZE,
                       .base = 4,
                       .kernel = 3,
                       .n_blocks = n_blocks,
                       .n_pools = n_pools,
                       .n_classes = 2,
                       .batch = 16};
    for (int i = 0; i < n_blocks; i++) {
        int has_pool = i < n_pools, is_last = i + 1 == n_blocks;
        int places = has_pool ? ES_HOST_AFTER_POOL : is_last ? ES_HOST_BEFORE_POOL : 0;
        host.blocks[i] = (EsHostBlock){4, 3, has_pool, places};
    }
    return host;
}

// With a slot at every place the second host would have 17, more than there can be.
static void begin_case(Case *test, const char *policy) {
    memset(test, 0, sizeof *test);
    make_dataset(&test->dataset);
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 2}, &test->device));
    es_fit_run_config(&test->settings);
    test->hosts[0] = make_host("shallow", 3, 2);
    test->hosts[1] = make_host("deepest", 12, 5);
    test->options = (EsFitSearchOptions){.settings = &test->settings,
                                         .dataset = &test->dataset,
                                         .data_sha256 = "",
                                         .device = test->device,
                                         .cpu = test->device,
                                         .hosts = test->hosts,
                                         .n_hosts = 2,
                                         .n_candidates = 2,
                                         .batch = 16,
                                         .n_updates = 2,
                                         .n_epochs = EPOCHS,
                                         .seed = 3,
                                         .policy = policy};
}

static void end_case(Case *test) {
    es_device_close(test->device);
    destroy_small_dataset(&test->dataset);
}

// The network of a fit as a later session finds it.
static EsGrownNetwork *run_fit(const Case *test) {
    EsGrownNetwork *network = NULL, *loaded = NULL;
    REQUIRE_OK(es_fit_variant_run(&test->options, ES_FIT_FIT, NULL, &network));
    REQUIRE_OK(es_grown_network_save(network, temp_folder()));
    es_grown_network_destroy(network);
    REQUIRE_OK(es_grown_network_load(temp_folder(), test->device, &loaded));
    return loaded;
}

static int has_same_weights(const EsGrownNetwork *a, const EsGrownNetwork *b) {
    const EsTensor *x = &a->store->parameters, *y = &b->store->parameters;
    return es_tensor_bytes(x) == es_tensor_bytes(y) &&
           memcmp(x->data, y->data, es_tensor_bytes(x)) == 0;
}

// A fit whose policy waits is its host alone, and its topology is that host.
TEST(hosts_of_variants_start_as_the_winner_did) {
    for (int k = 0; k < 2; k++) {
        Case test;
        begin_case(&test, "wait");
        test.options.hosts = &test.hosts[k];
        test.options.n_hosts = 1;
        EsGrownNetwork *fitted = run_fit(&test);
        for (int v = ES_FIT_HOST; v <= ES_FIT_SCRATCH; v++) {
            EsGrownNetwork *network = NULL;
            REQUIRE_OK(es_fit_variant_run(&test.options, (EsFitVariant)v, fitted, &network));
            EXPECT_EQ(network->n_parameters, fitted->n_parameters);
            EXPECT(has_same_weights(network, fitted));
            EXPECT_NEAR(network->origin.validation_accuracy, fitted->origin.validation_accuracy, 0);
            es_grown_network_destroy(network);
        }
        es_grown_network_destroy(fitted);
        end_case(&test);
    }
}

TEST(the_topology_of_the_fit_is_trained_on_the_winners_host) {
    for (uint64_t seed = 1; seed <= 4; seed++) {
        Case test;
        begin_case(&test, "eager");
        test.options.seed = seed;
        EsGrownNetwork *fitted = run_fit(&test), *network = NULL;
        REQUIRE_OK(es_fit_variant_run(&test.options, ES_FIT_SCRATCH, fitted, &network));
        EXPECT_TEXT(network->spec.host.name, fitted->spec.host.name);
        EXPECT_EQ(network->spec.n_seeds, fitted->spec.n_seeds);
        EXPECT_EQ(network->n_parameters, fitted->n_parameters);
        EXPECT_EQ(network->origin.episode, fitted->origin.episode);
        es_grown_network_destroy(network);
        es_grown_network_destroy(fitted);
        end_case(&test);
    }
}

TEST(a_variant_that_diverges_has_no_network) {
    Case test;
    begin_case(&test, "wait");
    test.settings.host_learning_rate = 1e30f;
    test.settings.clip = 0;
    EsGrownNetwork *network = NULL;
    REQUIRE_OK(es_fit_variant_run(&test.options, ES_FIT_SEARCH, NULL, &network));
    EXPECT(network == NULL);
    end_case(&test);
}
