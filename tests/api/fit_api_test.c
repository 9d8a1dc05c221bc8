// The public header of fits: networks of rows and images in memory, equal on any number of threads
// and after a visit to the disk, stopped by their callback, and mistakes that are answered.
#include "esper/fit.h"

#include <math.h>

#include "base/memory.h"
#include "temp_folder.h"
#include "tensor/device.h"

enum { ROWS = 120, COLUMNS = 3, SIDE = 8 };

static float rows[ROWS][COLUMNS];
static int32_t labels[ROWS];

// Two clusters, apart by a line; the third column says nothing.
static EsDataArrays make_rows(void) {
    static const char *const names[] = {"low", "high"};
    for (int i = 0; i < ROWS; i++) {
        labels[i] = i % 2;
        rows[i][0] = (float)(labels[i] * 40 + i % 7);
        rows[i][1] = (float)(i % 11) - (float)labels[i] * 9;
        rows[i][2] = (float)(i % 13);
    }
    return (EsDataArrays){.name = "clusters",
                          .rows = &rows[0][0],
                          .labels = labels,
                          .n = ROWS,
                          .n_channels = COLUMNS,
                          .n_classes = 2,
                          .class_names = names};
}

static EsData *copy_rows(void) {
    EsData *data = NULL;
    EsDataArrays arrays = make_rows();
    REQUIRE_OK(es_data_copy(&arrays, NULL, &data));
    return data;
}

static int n_calls;
static EsFitProgress last;

static int stop_at_third(void *context, const EsFitProgress *progress) {
    EXPECT(context == &n_calls);
    EXPECT_EQ(progress->epoch, ++n_calls);
    last = *progress;
    return progress->epoch == 3;
}

TEST(rows_are_fitted_and_predicted) {
    EsData *data = copy_rows();
    EsNetwork *network = NULL, *again = NULL;
    EsFitOptions options = {.max_parameters = 400, .n_epochs = 8, .n_candidates = 2, .seed = 3};
    float one[ROWS * 2], other[ROWS * 2];
    options.n_threads = 1;
    REQUIRE_OK(es_fit(data, &options, &network));
    const EsNetworkInfo *info = es_network_info(network);
    EXPECT(info->is_rows && info->n_channels == COLUMNS && info->n_classes == 2);
    EXPECT_TEXT(info->class_names[1], "high");
    EXPECT_TEXT(info->data, "clusters");
    EXPECT(info->n_parameters > 0 && info->n_parameters <= 400);
    EXPECT_NEAR(info->validation_accuracy, 100, 0);
    EXPECT_NEAR(info->test_accuracy, 100, 0);
    REQUIRE_OK(es_network_predict(network, &rows[0][0], ROWS, one));
    for (int i = 0; i < ROWS; i++) {
        EXPECT((one[i * 2 + 1] > one[i * 2]) == labels[i]);
    }
    options.n_threads = 2;
    REQUIRE_OK(es_fit(data, &options, &again));
    REQUIRE_OK(es_network_predict(again, &rows[0][0], ROWS, other));
    EXPECT(memcmp(one, other, sizeof one) == 0);
    es_network_close(again);
    REQUIRE_OK(es_network_save(network, temp_path("kept")));
    REQUIRE_OK(es_network_open(temp_path("kept"), 1, &again));
    REQUIRE_OK(es_network_predict(again, &rows[0][0], ROWS, other));
    EXPECT(memcmp(one, other, sizeof one) == 0);
    EXPECT_NEAR(es_network_info(again)->test_accuracy, 100, 0);
    es_network_close(again);
    es_network_close(network);
    es_data_close(data);
}

TEST(a_callback_stops_it_and_sees_candidates_dropped) {
    EsData *data = copy_rows();
    EsNetwork *network = NULL;
    EsFitOptions options = {.max_parameters = 400,
                            .n_epochs = 9,
                            .n_candidates = 4,
                            .policy = "wait",
                            .is_stopped = stop_at_third,
                            .context = &n_calls};
    REQUIRE_OK(es_fit(data, &options, &network));
    EXPECT_EQ(n_calls, 3);
    EXPECT_EQ(last.n_epochs, 9);
    EXPECT_EQ(last.n_candidates, 1); // halved twice in the first third
    EXPECT_EQ(last.n_parameters, es_network_info(network)->n_parameters);
    EXPECT_EQ(last.n_seeds, 0);
    EXPECT_NEAR(last.best_accuracy, es_network_info(network)->validation_accuracy, 0);
    EXPECT(last.accuracy <= last.best_accuracy);
    es_network_close(network);
    es_data_close(data);
}

// Stripes of two directions, letter-boxed.
static EsData *copy_images(void) {
    static uint8_t pixels[ROWS][SIDE][SIDE - 2];
    EsData *data = NULL;
    for (int i = 0; i < ROWS; i++) {
        labels[i] = i % 2;
        for (int y = 0; y < SIDE; y++) {
            for (int x = 0; x < SIDE - 2; x++) {
                pixels[i][y][x] = (uint8_t)(((labels[i] ? x : y) % 2) * 200 + i % 50);
            }
        }
    }
    EsDataArrays arrays = {.name = "stripes",
                           .pixels = &pixels[0][0][0],
                           .labels = labels,
                           .n = ROWS,
                           .n_channels = 1,
                           .height = SIDE,
                           .width = SIDE - 2,
                           .n_classes = 2};
    REQUIRE_OK(es_data_copy(&arrays, NULL, &data));
    return data;
}

TEST(images_are_fitted) {
    EsData *data = copy_images();
    EsNetwork *network = NULL;
    EXPECT(es_data_info(data)->is_fitted && es_data_info(data)->width == SIDE);
    EsFitOptions options = {.max_parameters = 1000,
                            .n_epochs = 20,
                            .n_candidates = 1,
                            .target_accuracy = 90,
                            .n_threads = 1};
    REQUIRE_OK(es_fit(data, &options, &network));
    EXPECT(es_network_info(network)->validation_accuracy >= 90);
    EXPECT_EQ(es_network_info(network)->height, SIDE);
    EXPECT_TEXT(es_network_info(network)->class_names[1], "1");
    es_network_close(network);
    es_data_close(data);
}

TEST(answers_mistakes) {
    EsData *data = copy_rows();
    EsNetwork *network = NULL;
    const char *unknown = "fit.flipp=on", *gpu = "run.device=tpu";
    EXPECT_STATUS(es_fit(data, &(EsFitOptions){.n_candidates = 257}, &network), CONFIG);
    EXPECT_STATUS(es_fit(data, &(EsFitOptions){.n_epochs = -1}, &network), CONFIG);
    EXPECT_STATUS(es_fit(data, &(EsFitOptions){.policy = "best"}, &network), ARGUMENT);
    EXPECT_STATUS(es_fit(data, &(EsFitOptions){.task = "none"}, &network), ARGUMENT);
    EXPECT_STATUS(es_fit(data, &(EsFitOptions){.settings = &unknown, .n_settings = 1}, &network),
                  CONFIG);
    EXPECT_CONTAINS(es_status_detail(), "fit.flip");
    EXPECT_STATUS(es_fit(data, &(EsFitOptions){.settings = &gpu, .n_settings = 1}, &network),
                  ARGUMENT);
    EXPECT(network == NULL);
    es_data_close(data);
}

// --- on a GPU ---

// The network stays on the CPU, and nothing else is left, whether there is one or not.
TEST(a_gpu_is_closed_again) {
    const char *settings[] = {"run.device=cuda", "fit.batch=4", "fit.epoch_batches=2",
                              "recipe.optimiser=adamw"};
    EsFitOptions options = {.max_parameters = 400,
                            .n_epochs = 2,
                            .n_candidates = 1,
                            .n_threads = 1,
                            .settings = settings,
                            .n_settings = 3};
    float input[SIDE * SIDE] = {0}, logits[2];
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    EsData *data = copy_images();
    EsNetwork *network = NULL;
    size_t before = es_allocation_held();
    REQUIRE_OK(es_fit(data, &options, &network));
    REQUIRE_OK(es_network_predict(network, input, 1, logits));
    EXPECT(isfinite(logits[0]) && isfinite(logits[1]));
    es_network_close(network);
    EXPECT_EQ(es_allocation_held(), before);
    options.n_settings = 4;
    EXPECT_STATUS(es_fit(data, &options, &network), UNSUPPORTED);
    EXPECT_CONTAINS(es_status_detail(), "recipe.optimiser = adamw");
    EXPECT_EQ(es_allocation_held(), before);
    es_data_close(data);
}
