// Reports on networks: confusions and recalls of a network whose answers are known, and the
// drawing, whose numbers add up.
#include "fit/network_report.h"

#include "base/json.h"
#include "fit/random_network.h"
#include "growth/growing_host.h"
#include "temp_folder.h"

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

// --- the file of confusions ---

static int compare_down(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

TEST(the_surest_mistakes_are_kept) {
    EsGrownNetwork *network = random_network(0);
    EsDataset dataset;
    EsNetworkScore score;
    int64_t n_wrong = 0;
    label_images(network, &dataset, &n_wrong);
    int K = network->spec.host.n_classes, n = 0;
    float *logits = malloc(sizeof *logits * SAMPLES * (size_t)K);
    double *sure = malloc(sizeof *sure * SAMPLES);
    REQUIRE_OK(
        es_grown_network_predict(network, NULL, ES_INPUT_BYTES, dataset.images, SAMPLES, logits));
    for (int64_t i = 6; i < SAMPLES; i += 7) {
        double sum = 0, most = -INFINITY;
        for (int k = 0; k < K; k++) {
            most = fmax(most, (double)logits[i * K + k]);
        }
        for (int k = 0; k < K; k++) {
            sum += exp((double)logits[i * K + k] - most);
        }
        sure[n++] = 1 / sum;
    }
    qsort(sure, (size_t)n, sizeof *sure, compare_down);
    REQUIRE_OK(es_network_score(network, NULL, &dataset, &dataset.test, &score));
    EXPECT(n > ES_MISTAKES_KEPT);
    EXPECT_EQ(score.n_mistakes, ES_MISTAKES_KEPT);
    for (int i = 0; i < score.n_mistakes; i++) {
        const EsMistake *mistake = &score.mistakes[i];
        EXPECT_EQ(mistake->index % 7, 6);
        EXPECT_EQ(mistake->label, dataset.labels[mistake->index]);
        EXPECT_EQ((mistake->found + 1) % K, mistake->label);
        EXPECT_NEAR(mistake->probability, sure[i], 1e-12);
    }
    free(sure);
    free(logits);
    es_network_score_destroy(&score);
    destroy_small_dataset(&dataset);
    es_grown_network_destroy(network);
}

static json_t *write_and_read(const EsGrownNetwork *network, const EsDataset *dataset,
                              const EsNetworkScore *score) {
    json_t *root = NULL;
    REQUIRE_OK(
        es_network_write_confusion(network, dataset, &dataset->test, "test", score, temp_folder()));
    REQUIRE_OK(es_json_load(temp_path(ES_NETWORK_CONFUSION_FILE), &root));
    return root;
}

// Images of 130 x 130 pixels become pictures of 43 x 43, of 3 x 3 means each.
TEST(confusions_are_of_test_samples_where_there_are_any) {
    EsDataset dataset = {.n_classes = 10, .validation = {.count = 10}, .test = {.count = 5}};
    EXPECT(es_network_confusion_split(&dataset) == &dataset.test);
    dataset.n_classes = 5000;
    EXPECT(es_network_confusion_split(&dataset) == &dataset.test);
    dataset.test.count = 0;
    EXPECT(es_network_confusion_split(&dataset) == NULL);
    dataset.n_classes = 10;
    EXPECT(es_network_confusion_split(&dataset) == &dataset.validation);
    dataset.validation.count = 0;
    EXPECT(es_network_confusion_split(&dataset) == NULL);
}

TEST(confusions_of_large_images) {
    enum { SIDE = 130, SMALL = 43 };
    EsGrownNetwork *network = random_network(0);
    char hash[ES_SHA256_TEXT_BYTES];
    int K = network->spec.host.n_classes;
    EsDataset dataset;
    begin_gray_dataset(&dataset, "large", SIDE, K, 2);
    memset(dataset.images, 7, 2 * dataset.image_bytes);
    uint8_t *second = dataset.images + dataset.image_bytes;
    second[0] = 100; // of the first square, whose mean is (100 + 8 * 7) / 9 = 17.3
    dataset.test = (EsSplit){dataset.images, dataset.labels, 2};
    int64_t *confused = calloc((size_t)K * (size_t)K, sizeof *confused);
    confused[0] = 1;
    confused[1] = 1; // of class 0, taken for class 1
    const EsNetworkScore score = {.n = 2,
                                  .n_correct = 1,
                                  .n_classes = K,
                                  .confused = confused,
                                  .mistakes = {{1, 0, 1, 0.875}},
                                  .n_mistakes = 1};
    json_t *root = write_and_read(network, &dataset, &score);
    REQUIRE_OK(es_grown_network_hash(network, hash));
    EXPECT_TEXT(json_string_value(json_object_get(root, "tensors_sha256")), hash);
    EXPECT_TEXT(json_string_value(json_object_get(root, "split")), "test");
    EXPECT_EQ(json_array_size(json_object_get(root, "classes")), (size_t)K);
    char *cells = json_dumps(json_object_get(root, "cells"), JSON_COMPACT);
    EXPECT_TEXT(cells, "[[0,0,1],[0,1,1]]");
    free(cells);
    const json_t *picture = json_object_get(root, "picture");
    EXPECT_EQ(json_integer_value(json_object_get(picture, "height")), SMALL);
    EXPECT_EQ(json_integer_value(json_object_get(picture, "width")), SMALL);
    const json_t *mistake = json_array_get(json_object_get(root, "mistakes"), 0);
    EXPECT_NEAR(json_number_value(json_object_get(mistake, "probability")), 0.875, 1e-9);
    const char *pixels = json_string_value(json_object_get(mistake, "pixels"));
    EXPECT_EQ(strlen(pixels), (size_t)(SMALL * SMALL + 2) / 3 * 4);
    EXPECT(strncmp(pixels, "EQcHBwcH", 8) == 0);          // 17, 7, 7, 7, 7, 7
    EXPECT_TEXT(pixels + strlen(pixels) - 8, "BwcHBw=="); // 1849 bytes: two of padding
    json_decref(root);
    free(confused);
    destroy_small_dataset(&dataset);
    es_grown_network_destroy(network);
}

// Of ten columns the eight that lie farthest from their mean, as they were measured.
TEST(confusions_of_rows) {
    EsGrownNetwork *network = random_network(0);
    float rows[2][10] = {{0}, {3, -2, 0.5f, 4, -5, 6, 7, -0.25f, 9, 10}}, mean[10], std[10];
    const char *names[10] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "<j>"};
    uint16_t labels[2] = {0, 0};
    int64_t *confused =
        calloc((size_t)network->spec.host.n_classes * (size_t)network->spec.host.n_classes,
               sizeof *confused);
    for (int c = 0; c < 10; c++) {
        mean[c] = 100;
        std[c] = 2;
    }
    const EsDataset dataset = {.kind = ES_DATASET_ROWS,
                               .n_channels = 10,
                               .rows = rows[0],
                               .labels = labels,
                               .test = {.labels = labels, .count = 2},
                               .column_mean = mean,
                               .column_std = std,
                               .column_names = names};
    const EsNetworkScore score = {.n = 2,
                                  .n_correct = 1,
                                  .n_classes = network->spec.host.n_classes,
                                  .confused = confused,
                                  .mistakes = {{1, 0, 1, 0.5}},
                                  .n_mistakes = 1};
    json_t *root = write_and_read(network, &dataset, &score);
    const json_t *mistake = json_array_get(json_object_get(root, "mistakes"), 0);
    const json_t *values = json_object_get(mistake, "values");
    static const int shown[8] = {0, 1, 3, 4, 5, 6, 8, 9};
    EXPECT_EQ(json_array_size(values), (size_t)8);
    for (size_t i = 0; i < 8; i++) {
        const json_t *value = json_array_get(values, i);
        EXPECT_EQ(json_integer_value(json_object_get(value, "column")), shown[i]);
        EXPECT_TEXT(json_string_value(json_object_get(value, "name")), names[shown[i]]);
        EXPECT_NEAR(json_number_value(json_object_get(value, "value")),
                    100 + 2 * (double)rows[1][shown[i]], 1e-4);
    }
    EXPECT(json_object_get(root, "picture") == NULL);
    EXPECT(json_object_get(mistake, "pixels") == NULL);
    json_decref(root);
    free(confused);
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
