// The public header of networks: a host saved out of growth opens again, predicts, exports, and
// mistakes are answered.
#include "esper/network.h"

#include "esper/grow.h"
#include "temp_folder.h"

// A tiny host after two steps, in the test's folder.
static EsNetwork *open_grown(int n_threads) {
    EsGrow *grow = NULL;
    EsNetwork *network = NULL;
    int8_t action[ES_N_HEADS];
    EsGrowOptions options = {
        .task = "tiny", .n_envs = 2, .step_batches = 2, .validation_images = 100, .n_threads = 1};
    REQUIRE_OK(es_grow_create(&options, &grow));
    EXPECT_STATUS(es_grow_save_network(grow, 0, temp_folder()), ARGUMENT); // no episode yet
    REQUIRE_OK(es_grow_reset(grow, 0));
    es_grow_fill_action(action, ES_GROWTH_OP_WAIT, 0);
    int8_t actions[2 * ES_N_HEADS];
    memcpy(actions, action, sizeof action);
    memcpy(actions + ES_N_HEADS, action, sizeof action);
    REQUIRE_OK(es_grow_step(grow, actions));
    EXPECT_STATUS(es_grow_save_network(grow, 2, temp_folder()), ARGUMENT);
    EXPECT_STATUS(es_grow_save_network(grow, -1, temp_folder()), ARGUMENT);
    REQUIRE_OK(es_grow_save_network(grow, 1, temp_folder()));
    double accuracy = es_grow_observe(grow).hosts[1].validation_accuracy;
    es_grow_destroy(grow);
    REQUIRE_OK(es_network_open(temp_folder(), n_threads, &network));
    EXPECT_NEAR(es_network_info(network)->validation_accuracy, accuracy, 0);
    return network;
}

TEST(info_says_what_it_takes) {
    EsNetwork *network = open_grown(1);
    const EsNetworkInfo *info = es_network_info(network);
    EXPECT_EQ(info->is_rows, 0);
    EXPECT_EQ(info->n_channels, 1);
    EXPECT_EQ(info->height, 16);
    EXPECT_EQ(info->width, 16);
    EXPECT_EQ(info->n_inputs, 256);
    EXPECT_EQ(info->n_classes, 10);
    EXPECT_EQ(info->n_seeds, 0);
    EXPECT_EQ(info->n_parameters, 438);
    EXPECT_TEXT(info->class_names[0], "arrow");
    EXPECT(info->column_names == NULL);
    EXPECT_TEXT(info->host, "tiny");
    EXPECT_TEXT(info->data, "tiny");
    EXPECT(isnan(info->test_accuracy));
    es_network_close(network);
    es_network_close(NULL);
}

TEST(predicts_data_in_memory) {
    EsNetwork *network = open_grown(2);
    uint8_t bytes[3 * 256];
    float pixels[3 * 256], one[30], other[30];
    for (int i = 0; i < 3 * 256; i++) {
        bytes[i] = (uint8_t)(i * 7);
        pixels[i] = (float)bytes[i];
    }
    REQUIRE_OK(es_network_predict(network, pixels, 3, one));
    REQUIRE_OK(es_network_predict_bytes(network, bytes, 3, other));
    EXPECT(memcmp(one, other, sizeof one) == 0);
    REQUIRE_OK(es_network_predict(network, pixels, 0, one));
    EXPECT_STATUS(es_network_predict(network, pixels, -1, one), ARGUMENT);
    es_network_softmax(network, one, 3);
    for (int i = 0; i < 3; i++) {
        double sum = 0;
        for (int k = 0; k < 10; k++) {
            sum += (double)one[10 * i + k];
        }
        EXPECT_NEAR(sum, 1, 1e-6);
    }
    es_network_close(network);
}

TEST(reads_files_a_few_at_a_time) {
    EsNetwork *network = open_grown(1);
    EsNetworkReader *reader = NULL;
    unsigned char idx[16 + 3 * 256] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 16, 0, 0, 0, 16, 5};
    float inputs[2 * 256];
    int64_t n = 0;
    const char *path = write_temp_file("x.idx", idx, sizeof idx);
    REQUIRE_OK(es_network_reader_open(network, path, &reader));
    REQUIRE_OK(es_network_reader_next(reader, 2, inputs, &n));
    EXPECT_EQ(n, 2);
    EXPECT_NEAR(inputs[0], 5, 0);
    EXPECT_CONTAINS(es_network_reader_name(reader, 1), "x.idx[1]");
    REQUIRE_OK(es_network_reader_next(reader, 2, inputs, &n));
    EXPECT_EQ(n, 1);
    REQUIRE_OK(es_network_reader_next(reader, 2, inputs, &n));
    EXPECT_EQ(n, 0);
    es_network_reader_close(reader);
    es_network_reader_close(NULL);
    EXPECT_STATUS(es_network_reader_open(network, temp_path("none"), &reader), INPUT);
    EXPECT(reader == NULL);
    es_network_close(network);
}

static int exists(const char *name) { return access(temp_path(name), F_OK) == 0; }

TEST(exports) {
    EsNetwork *network = open_grown(1);
    EsNetworkInt8 report;
    REQUIRE_OK(es_network_export(network, ES_NETWORK_ONNX, temp_path("x.onnx"), NULL));
    REQUIRE_OK(es_network_export(network, ES_NETWORK_TORCH, temp_path("x.py"), NULL));
    REQUIRE_OK(es_network_export(network, ES_NETWORK_C99, temp_path("c"), "mine"));
    EXPECT(exists("x.onnx") && exists("x.py") && exists("c/mine.c") && exists("c/mine.h"));
    EXPECT_STATUS(es_network_export(network, ES_NETWORK_C99, temp_path("c"), "no name"), ARGUMENT);
    EXPECT_STATUS(es_network_export(network, ES_NETWORK_ONNX, temp_path("no/x.onnx"), NULL), IO);
    EXPECT_STATUS(es_network_export(network, (EsNetworkFormat)9, temp_path("x"), NULL), ARGUMENT);
    REQUIRE_OK(es_network_export_int8(network, temp_path("i"), "small", "tiny", &report));
    EXPECT(exists("i/small.c"));
    EXPECT_EQ(report.n_samples, 2000);
    EXPECT_NEAR(report.float_accuracy, es_network_info(network)->validation_accuracy, 10);
    EXPECT_NEAR(report.int8_accuracy, report.float_accuracy, 3);
    EXPECT_STATUS(es_network_export_int8(network, temp_path("i"), "small", "generated", &report),
                  INPUT);
    es_network_close(network);
}

TEST(refuses_what_is_no_network) {
    EsNetwork *network = NULL;
    EXPECT_STATUS(es_network_open(temp_folder(), 1, &network), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "holds no network");
    EXPECT(network == NULL);
    EXPECT_STATUS(es_network_open(temp_folder(), -1, &network), ARGUMENT);
}
