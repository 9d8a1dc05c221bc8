// Writes the random networks with all their exports, 1,000 inputs each, and our own logits, for
// other programs to compare with: FOLDER/<i>/{network.json, network.onnx, network.py, network.c,
// inputs.f32, logits.f32}.
//
// usage: ES_EXPORTS=FOLDER make_exports
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "fit/export_int8.h"
#include "fit/random_network.h"

enum { N = 1000, N_INT8 = 100 };

static void write_numbers(const char *folder, const char *name, const float *numbers,
                          int64_t count) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    REQUIRE_OK(es_file_write_all(path, numbers, sizeof *numbers * (size_t)count));
}

// FOLDER/int8/network.c, with scales from the first inputs, and FOLDER/int8/n_equal: of how many of
// these inputs our own int8 arithmetic finds the class that floats find.
static void write_int8(const EsGrownNetwork *network, const char *folder, const float *inputs,
                       const float *logits) {
    char path[4096], text[32];
    uint16_t labels[N_INT8];
    int n_classes = network->spec.host.n_classes;
    for (int i = 0; i < N_INT8; i++) {
        labels[i] = 0;
        for (int k = 1; k < n_classes; k++) {
            const float *row = logits + i * n_classes;
            labels[i] = (uint16_t)(row[k] > row[labels[i]] ? k : labels[i]);
        }
    }
    const EsInt8Samples samples = {.inputs = inputs, .labels = labels, .n = N_INT8};
    snprintf(path, sizeof path, "%s/int8", folder);
    EsExportC options = {.folder = path, .name = "network", .int8 = &samples};
    REQUIRE_OK(es_grown_export_c(network, &options));
    EXPECT(options.float_accuracy >= 99); // rounding may move a tie
    EXPECT(options.int8_accuracy >= 85);
    snprintf(path, sizeof path, "%s/int8/n_equal", folder);
    int length = snprintf(text, sizeof text, "%.0f\n", options.int8_accuracy * N_INT8 / 100);
    REQUIRE_OK(es_file_write_all(path, text, (size_t)length));
}

static void write_network(const char *root, int number) {
    char folder[4000], path[4096];
    EsGrownNetwork *network = random_network(number);
    float *inputs = random_inputs(network, N);
    float *logits = malloc(sizeof *logits * N * (size_t)network->spec.host.n_classes);
    snprintf(folder, sizeof folder, "%s/%d", root, number);
    REQUIRE_OK(es_folder_make(folder));
    REQUIRE_OK(es_grown_network_save(network, folder));
    snprintf(path, sizeof path, "%s/network.onnx", folder);
    REQUIRE_OK(es_grown_export_onnx(network, path));
    snprintf(path, sizeof path, "%s/network.py", folder);
    REQUIRE_OK(es_grown_export_torch(network, path));
    REQUIRE_OK(es_grown_export_c(network, &(EsExportC){.folder = folder, .name = "network"}));
    REQUIRE_OK(es_grown_network_predict(network, NULL, ES_INPUT_PLAIN, inputs, N, logits));
    write_int8(network, folder, inputs, logits);
    write_numbers(folder, "inputs.f32", inputs, N * es_grown_network_input_count(network));
    write_numbers(folder, "logits.f32", logits, (int64_t)N * network->spec.host.n_classes);
    free(inputs);
    free(logits);
    es_grown_network_destroy(network);
}

TEST(write) {
    const char *root = getenv("ES_EXPORTS");
    if (root == NULL) {
        SKIP("ES_EXPORTS names no folder");
    }
    for (int i = 0; i < RANDOM_NETWORKS; i++) {
        write_network(root, i);
    }
}
