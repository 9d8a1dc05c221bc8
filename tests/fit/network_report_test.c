// Reports on networks: confusions and recalls of a network whose answers are known, and the
// drawing, whose numbers add up.
#include "fit/network_report.h"

#include "fit/random_network.h"
#include "growth/growing_host.h"

// --- scores ---

enum { SAMPLES = 1300 }; // two whole runs of samples and a rest

// Images for the network, labelled by its own answers but for every seventh, which is one class on.
static void label_images(EsGrownNetwork *network, EsDataset *dataset, int64_t *n_wrong) {
    int K = network->spec.host.n_classes, size = network->spec.host.image_size;
    begin_gray_dataset(dataset, "known", size, K, SAMPLES);
    for (size_t i = 0; i < SAMPLES * dataset->image_bytes; i++) {
        dataset->images[i] = (uint8_t)(255.99f * random_unit(9, 0, (uint32_t)i));
    }
    float *logits = malloc(sizeof *logits * SAMPLES * (size_t)K);
    REQUIRE_OK(
        es_grown_network_predict(network, NULL, ES_INPUT_BYTES, dataset->images, SAMPLES, logits));
    *n_wrong = 0;
    for (int64_t i = 0; i < SAMPLES; i++) {
        int best = 0;
        for (int k = 1; k < K; k++) {
            best = logits[i * K + k] > logits[i * K + best] ? k : best;
        }
        *n_wrong += i % 7 == 6;
        dataset->labels[i] = (uint16_t)(i % 7 == 6 ? (best + 1) % K : best);
    }
    dataset->test = (EsSplit){dataset->images, dataset->labels, SAMPLES};
    free(logits);
}

TEST(a_known_network_is_scored) {
    EsGrownNetwork *network = random_network(0);
    EsDataset dataset;
    EsNetworkScore score;
    EsThreadPool *pool = NULL;
    int64_t n_wrong = 0, by_class[64] = {0}, n_measured = 0;
    label_images(network, &dataset, &n_wrong);
    REQUIRE_OK(es_thread_pool_create(&pool, 2));
    REQUIRE_OK(es_network_score(network, pool, &dataset, &dataset.test, &score));
    int K = score.n_classes;
    EXPECT_EQ(score.n, SAMPLES);
    EXPECT_EQ(score.n_correct, SAMPLES - n_wrong);
    EXPECT_NEAR(score.accuracy, 100.0 * (double)(SAMPLES - n_wrong) / SAMPLES, 1e-9);
    EXPECT(score.low < score.accuracy && score.accuracy < score.high);
    for (int64_t i = 0; i < SAMPLES; i++) {
        by_class[dataset.labels[i]]++;
    }
    for (int k = 0; k < K; k++) {
        int64_t n_found = score.confused[k * K + k], n_row = 0;
        for (int j = 0; j < K; j++) {
            n_row += score.confused[k * K + j];
            // a wrong label is one class on from the answer
            EXPECT(j == k || (j + 1) % K == k || score.confused[k * K + j] == 0);
        }
        EXPECT_EQ(n_row, by_class[k]);
        double recall = es_network_score_recall(&score, k);
        if (n_row > 0) {
            EXPECT_NEAR(recall, 100.0 * (double)n_found / (double)n_row, 1e-9);
            n_measured++;
        } else {
            EXPECT(isnan(recall));
        }
    }
    EXPECT(n_measured > 1);
    es_network_score_destroy(&score);
    dataset.test.count = 0;
    EXPECT_STATUS(es_network_score(network, pool, &dataset, &dataset.test, &score), INPUT);
    EXPECT(score.confused == NULL);
    es_thread_pool_destroy(pool);
    destroy_small_dataset(&dataset);
    es_grown_network_destroy(network);
}

// Labels index the table of confusions, samples are read by the network's sizes.
TEST(other_data_is_refused) {
    EsGrownNetwork *network = random_network(0);
    EsDataset dataset;
    EsNetworkScore score;
    int64_t n_wrong = 0;
    label_images(network, &dataset, &n_wrong);
    int *const sizes[] = {&dataset.n_classes, &dataset.n_channels, &dataset.height, &dataset.width};
    for (size_t i = 0; i < ES_COUNT_OF(sizes); i++) {
        (*sizes[i])++;
        EXPECT_STATUS(es_network_score(network, NULL, &dataset, &dataset.test, &score), INPUT);
        EXPECT_CONTAINS(es_status_detail(), "the network takes");
        EXPECT(score.confused == NULL);
        (*sizes[i])--;
    }
    dataset.kind = ES_DATASET_ROWS;
    EXPECT_STATUS(es_network_score(network, NULL, &dataset, &dataset.test, &score), INPUT);
    dataset.kind = ES_DATASET_IMAGES;
    EXPECT_STATUS(es_network_check_data(network, &dataset, "data"), OK);
    destroy_small_dataset(&dataset);
    es_grown_network_destroy(network);
}

// --- drawings ---

static char *draw(const EsGrownNetwork *network) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    es_grown_network_draw(network, stream);
    fclose(stream);
    return text;
}

// The parameters of all lines, from the column that ends every line that has some.
static int64_t sum_lines(const char *text, int64_t *n_lines) {
    int64_t sum = 0;
    *n_lines = 0;
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        const char *end = strchr(line, '\n');
        (*n_lines)++;
        if (strncmp(line, "  in all", 8) != 0 && end - line > 53) {
            sum += atoll(line + 53);
        }
    }
    return sum;
}

TEST(the_numbers_of_a_drawing_add_up) {
    for (int i = 0; i < RANDOM_NETWORKS; i++) {
        EsGrownNetwork *network = random_network(i);
        const EsHostSpec *host = &network->spec.host;
        char *text = draw(network), last[80];
        int64_t n_lines = 0, n_pools = 0;
        for (int b = 0; b < host->n_blocks; b++) {
            n_pools += host->blocks[b].has_pool;
        }
        EXPECT_EQ(sum_lines(text, &n_lines), network->n_parameters);
        // input, blocks, pools, seeds, classifier, sum
        EXPECT_EQ(n_lines, 1 + host->n_blocks + n_pools + network->spec.n_seeds + 2);
        snprintf(last, sizeof last, "%9lld\n", (long long)network->n_parameters);
        EXPECT_TEXT(text + strlen(text) - strlen(last), last);
        for (int s = 0; s < network->spec.n_seeds; s++) {
            char seed[96];
            snprintf(seed, sizeof seed, "  + %s in %s, %.0f %%",
                     es_blueprint_name(network->spec.seeds[s].blueprint),
                     network->spec.seeds[s].slot.name, 100 * (double)network->spec.seeds[s].alpha);
            EXPECT_CONTAINS(text, seed);
        }
        free(text);
        es_grown_network_destroy(network);
    }
}

TEST(a_host_as_text) {
    const char *classes[] = {"a", "b", "c"};
    EsGrownSpec spec = {.host = small_host(),
                        .mean = (float[]){0.5f},
                        .std = (float[]){0.25f},
                        .class_names = classes};
    EsGrownNetwork *network = NULL;
    REQUIRE_OK(es_grown_network_create(&spec, network_device(), &network));
    char *text = draw(network);
    EXPECT_TEXT(text, "  input                              8 x 8 x 1       \n"
                      "  conv 3x3, norm, relu               8 x 8 x 4               44\n"
                      "  max pool 2x2                       4 x 4 x 4       \n"
                      "  conv 3x3, norm, relu               4 x 4 x 8              304\n"
                      "  max pool 2x2                       2 x 2 x 8       \n"
                      "  mean over pixels, linear           3                       27\n"
                      "  in all                                                    375\n");
    free(text);
    es_grown_network_destroy(network);
}
