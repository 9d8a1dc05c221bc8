// Networks out of growth give growth's own results; predictions do not depend on threads, batches
// or the way inputs are given; files bring back the same network, and hostile ones are refused.
#include "fit/grown_network.h"

#include <unistd.h>

#include "fit/random_network.h"
#include "growth/growing_case.h"
#include "mutate.h"

enum { N = 300 };

static float *predict(EsGrownNetwork *network, int n_threads, const float *inputs, int64_t n) {
    float *logits = malloc(sizeof *logits * (size_t)(n * network->spec.host.n_classes));
    EsThreadPool *pool = NULL;
    if (n_threads > 0) {
        REQUIRE_OK(es_thread_pool_create(&pool, n_threads));
    }
    REQUIRE_OK(es_grown_network_predict(network, pool, ES_INPUT_PLAIN, inputs, n, logits));
    es_thread_pool_destroy(pool);
    return logits;
}

// The graph of one input, node by node through the plain kernels: the specification.
static void predict_plainly(EsGrownNetwork *network, const float *input, float *logits) {
    const EsGrownGraph *graph = &network->single;
    const EsHostSpec *host = &network->spec.host;
    EsPlanOptions options = es_plan_defaults();
    options.mode = ES_COMPILE_OFF;
    EsPlan *plan = NULL;
    EsStream *stream = NULL;
    float *normal = malloc(sizeof *normal * (size_t)es_grown_network_input_count(network));
    int area = host->image_size * host->image_size;
    for (int i = 0; i < host->image_channels * area; i++) {
        float mean = network->spec.mean[i / area], std = network->spec.std[i / area];
        normal[i] = (input[i] / (network->spec.kind == ES_INPUT_IMAGES ? 255 : 1) - mean) / std;
    }
    float alpha[ES_SLOTS_MAX];
    int32_t mode[ES_SLOTS_MAX];
    REQUIRE_OK(es_stream_create(network->device, &stream));
    REQUIRE_OK(es_plan_create(graph->graph, network->store, &options, &plan));
    EsTensor x = es_tensor_view(normal, ES_DTYPE_F32, network->device, 5,
                                graph->graph->values[graph->input].dim);
    REQUIRE_OK(es_plan_bind(plan, graph->input, &x));
    for (int i = 0; i < network->spec.n_seeds; i++) {
        static const int32_t modes[] = {ES_BLEND_ADD, ES_BLEND_MULTIPLY, ES_BLEND_ADD,
                                        ES_BLEND_GATE}; // by style
        alpha[i] = network->spec.seeds[i].alpha;
        mode[i] = modes[network->spec.seeds[i].style];
        EsTensor a = es_tensor_view(&alpha[i], ES_DTYPE_F32, network->device, 1, (int64_t[]){1});
        EsTensor m = es_tensor_view(&mode[i], ES_DTYPE_I32, network->device, 1, (int64_t[]){1});
        REQUIRE_OK(es_plan_bind(plan, graph->alpha[i], &a));
        REQUIRE_OK(es_plan_bind(plan, graph->mode[i], &m));
    }
    REQUIRE_OK(es_plan_run(plan, stream));
    memcpy(logits, es_plan_tensor(plan, graph->logits).data,
           sizeof *logits * (size_t)host->n_classes);
    es_plan_destroy(plan);
    es_stream_destroy(stream);
    free(normal);
}

TEST(random_networks_hold_everything) {
    int has_blueprint[ES_BLUEPRINT_END] = {0}, has_style[4] = {0}, n_partial = 0, n_after = 0;
    int has_dense_style[4] = {0};
    for (int i = 0; i < RANDOM_NETWORKS; i++) {
        EsGrownNetwork *network = random_network(i);
        for (int s = 0; s < network->spec.n_seeds; s++) {
            const EsGrownSeed *seed = &network->spec.seeds[s];
            has_blueprint[seed->blueprint]++;
            has_style[seed->style]++;
            has_dense_style[seed->style] += network->spec.kind == ES_INPUT_ROWS;
            n_partial += seed->alpha < 1;
            n_after += seed->slot.row == 1;
        }
        es_grown_network_destroy(network);
    }
    for (int b = 0; b < ES_BLUEPRINT_END; b++) {
        EXPECT(has_blueprint[b] >= 2 || !es_blueprint_exists(b));
    }
    for (int s = 0; s < 4; s++) {
        EXPECT(has_style[s] >= 2 && has_dense_style[s] >= 1);
    }
    EXPECT(n_partial >= 5 && n_after >= 5);
}

TEST(predicts_as_plain_kernels_do) {
    for (int i = 0; i < RANDOM_NETWORKS; i++) {
        EsGrownNetwork *network = random_network(i);
        int n_classes = network->spec.host.n_classes;
        float *inputs = random_inputs(network, 20), *logits = predict(network, 2, inputs, 20);
        float most = 0;
        for (int k = 0; k < 20 * n_classes; k++) {
            most = fmaxf(most, fabsf(logits[k]));
        }
        for (int n = 0; n < 20; n++) {
            float expected[64];
            predict_plainly(network, inputs + n * es_grown_network_input_count(network), expected);
            for (int k = 0; k < n_classes; k++) {
                EXPECT_NEAR(logits[n * n_classes + k], expected[k], 1e-5f * most);
            }
        }
        free(inputs);
        free(logits);
        es_grown_network_destroy(network);
    }
}

TEST(bits_depend_on_neither_threads_nor_neighbours) {
    for (int i = 0; i < RANDOM_NETWORKS; i++) {
        EsGrownNetwork *network = random_network(i);
        size_t n_classes = (size_t)network->spec.host.n_classes;
        float *inputs = random_inputs(network, N);
        float *first = predict(network, 1, inputs, N);
        for (int n_threads = 0; n_threads <= 3; n_threads++) {
            float *again = predict(network, n_threads, inputs, N);
            EXPECT(memcmp(first, again, sizeof *first * N * n_classes) == 0);
            free(again);
        }
        // few inputs run in smaller batches
        for (int n = 1; n <= 17; n += 8) {
            float *few = predict(network, 2, inputs, n);
            EXPECT(memcmp(first, few, sizeof *first * (size_t)n * n_classes) == 0);
            free(few);
        }
        free(first);
        free(inputs);
        es_grown_network_destroy(network);
    }
}

TEST(bytes_are_pixels) {
    EsGrownNetwork *network = random_network(1), *rows = random_network(3);
    int64_t count = es_grown_network_input_count(network) * 5;
    float *inputs = random_inputs(network, 5), *plain = predict(network, 1, inputs, 5), other[50];
    uint8_t *bytes = malloc((size_t)count);
    for (int64_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)inputs[i];
    }
    REQUIRE_OK(es_grown_network_predict(network, NULL, ES_INPUT_BYTES, bytes, 5, other));
    EXPECT(memcmp(plain, other, sizeof other) == 0);
    EXPECT_STATUS(es_grown_network_predict(rows, NULL, ES_INPUT_BYTES, bytes, 1, other), ARGUMENT);
    es_grown_network_softmax(other, 5, 10);
    for (int i = 0; i < 5; i++) {
        double sum = 0;
        for (int k = 0; k < 10; k++) {
            sum += (double)other[10 * i + k];
        }
        EXPECT_NEAR(sum, 1, 1e-6);
    }
    free(bytes);
    free(inputs);
    free(plain);
    es_grown_network_destroy(network);
    es_grown_network_destroy(rows);
}

// --- out of growth ---

// Loss and accuracy of the network on the validation samples that growth has used.
static void compare_with_growth(EsGrowth *growth, const EsDataset *dataset, int64_t env) {
    EsGrownNetwork *network = NULL;
    REQUIRE_OK(es_grown_network_take(growth, env, network_device(), &network));
    const EsSplit *split = &dataset->validation;
    int64_t n = growth->options.n_validation_images;
    int n_classes = dataset->n_classes, n_correct = 0;
    float *logits = malloc(sizeof *logits * (size_t)(n * n_classes));
    double loss = 0;
    int is_rows = dataset->kind == ES_DATASET_ROWS;
    const void *inputs =
        is_rows
            ? (const void *)(dataset->rows + es_split_first(dataset, split) * dataset->n_channels)
            : split->images;
    REQUIRE_OK(es_grown_network_predict(
        network, NULL, is_rows ? ES_INPUT_NORMALISED : ES_INPUT_BYTES, inputs, n, logits));
    for (int64_t i = 0; i < n; i++) {
        const float *row = logits + i * n_classes;
        int best = 0;
        double sum = 0;
        for (int k = 0; k < n_classes; k++) {
            best = row[k] > row[best] ? k : best;
            sum += exp((double)row[k]);
        }
        n_correct += best == split->labels[i];
        loss += log(sum) - (double)row[split->labels[i]];
    }
    const EsGrowthResult *result = &es_growth_results(growth)[env];
    EXPECT_NEAR(loss / (double)n, result->validation_loss, 1e-5);
    EXPECT_NEAR(100.0 * n_correct / (double)n, result->validation_accuracy, 1e-9);
    free(logits);
    es_grown_network_destroy(network);
}

// Wild lives of hosts on a data set; networks are taken at every step.
static void check_taken(EsGrowthOptions options, const EsDataset *dataset) {
    enum { ENVS = 6, STEPS = 40 };
    int is_dense = options.host.kind == ES_HOST_DENSE;
    EsGrowth *growth = create_growth(&options, dataset, 2);
    int n_seeds = 0, n_blending = 0, n_gates = 0;
    REQUIRE_OK(es_growth_reset(growth, 0));
    for (int step = 0; step < STEPS && !es_growth_is_over(growth); step++) {
        EsAction actions[ENVS];
        for (int64_t e = 0; e < ENVS; e++) {
            compare_with_growth(growth, dataset, e);
            actions[e] = wild_action(growth, e, 5);
            if (is_dense) {
                actions[e].head[ES_HEAD_BLUEPRINT] =
                    (int8_t)(ES_BLUEPRINT_MLP_SMALL + actions[e].head[ES_HEAD_BLUEPRINT] % 2);
            }
            if (actions[e].head[ES_HEAD_OP] == ES_GROWTH_OP_PRUNE) {
                actions[e] = es_action_wait();
            }
        }
        REQUIRE_OK(es_growth_step(growth, actions));
        for (int64_t e = 0; e < ENVS; e++) {
            EsGrownNetwork *network = NULL;
            REQUIRE_OK(es_grown_network_take(growth, e, network_device(), &network));
            n_seeds += network->spec.n_seeds;
            for (int i = 0; i < network->spec.n_seeds; i++) {
                n_blending += network->spec.seeds[i].alpha < 1;
                n_gates += network->spec.seeds[i].style == 3;
            }
            es_grown_network_destroy(network);
        }
    }
    EXPECT(n_seeds > 100 && n_blending > 10 && n_gates > 10);
    destroy_growth(growth);
}

static void check_taken_from_images(float average) {
    EsDataset dataset;
    make_small_dataset(&dataset, 64, 40);
    EsGrowthOptions options = small_options("all", 6);
    options.recipe.average = average;
    check_taken(options, &dataset);
    destroy_small_dataset(&dataset);
}

TEST(taken_networks_have_growths_results) { check_taken_from_images(0); }

TEST(taken_networks_have_averaged_weights) { check_taken_from_images(0.9f); }

TEST(taken_networks_of_rows_have_growths_results) {
    char text[16384] = "a,b,kind\n";
    for (int i = 0; i < 400; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%d.5,%d,%c\n", i * 7 % 31, i * 11 % 17,
                 "xyz"[(i * 7 % 31 + i * 11 % 17) / 16]);
    }
    EsDatasetOptions shares = {.seed = 1, .validation_share = 0.2};
    EsDataset dataset;
    REQUIRE_OK(es_dataset_open(&dataset, write_temp_text("rows.csv", text), &shares, NULL));
    EsHostSpec host;
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    REQUIRE_OK(es_host_preset("dense", &host));
    host.image_channels = 2;
    host.n_classes = dataset.n_classes;
    host.n_blocks = 3;
    REQUIRE_OK(es_slots_parse(&host, "all", slots, &n_slots));
    EsGrowthOptions options = es_growth_defaults(&host, slots, n_slots, 6);
    options.settings.auto_forward = ES_AUTO_FORWARD_ALL;
    options.batch = 16;
    options.step_batches = 1;
    options.n_validation_images = 40;
    check_taken(options, &dataset);
    es_dataset_destroy(&dataset);
}

// --- files ---

TEST(files_bring_the_network_back) {
    static const char *const paths[] = {"", "network.json", "network.safetensors"};
    for (int i = 0; i < RANDOM_NETWORKS; i++) {
        EsGrownNetwork *network = random_network(i), *again = NULL;
        snprintf(network->origin.data, sizeof network->origin.data, "data %d \"x\"\n", i);
        network->origin.validation_accuracy = 61.5;
        float *inputs = random_inputs(network, 20), *logits = predict(network, 1, inputs, 20);
        REQUIRE_OK(es_grown_network_save(network, temp_folder()));
        REQUIRE_OK(es_grown_network_load(temp_path(paths[i % 3]), network_device(), &again));
        EXPECT_TEXT(again->origin.data, network->origin.data);
        EXPECT_NEAR(again->origin.validation_accuracy, 61.5, 0);
        EXPECT(isnan(again->origin.test_accuracy));
        EXPECT_EQ(again->n_parameters, network->n_parameters);
        EXPECT_EQ(again->spec.n_seeds, network->spec.n_seeds);
        EXPECT_TEXT(again->spec.host.name, network->spec.host.name);
        EXPECT_TEXT(again->spec.class_names[1], "class 1");
        float *other = predict(again, 2, inputs, 20);
        EXPECT(memcmp(logits, other, sizeof *logits * 20 * (size_t)network->spec.host.n_classes) ==
               0);
        free(inputs);
        free(logits);
        free(other);
        es_grown_network_destroy(network);
        es_grown_network_destroy(again);
    }
}

// Saves network `number` and replaces `from` in its network.json.
static void save_changed(int number, const char *from, const char *to) {
    EsGrownNetwork *network = random_network(number);
    REQUIRE_OK(es_grown_network_save(network, temp_folder()));
    es_grown_network_destroy(network);
    FileBytes file = read_bytes(temp_path("network.json"));
    char *at = strstr((char *)file.bytes, from);
    if (at == NULL) {
        ES_TEST_FAIL("network.json has no %s", from);
        return;
    }
    FILE *stream = fopen(temp_path("network.json"), "wb");
    fwrite(file.bytes, 1, (size_t)(at - (char *)file.bytes), stream);
    fputs(to, stream);
    fputs(at + strlen(from), stream);
    fclose(stream);
    es_release(file.bytes);
}

static void expect_refused(int number, const char *from, const char *to, const char *reason) {
    EsGrownNetwork *network = NULL;
    save_changed(number, from, to);
    EXPECT_STATUS(es_grown_network_load(temp_folder(), network_device(), &network), INPUT);
    EXPECT(network == NULL);
    EXPECT_CONTAINS(es_status_detail(), reason);
    EXPECT_CONTAINS(es_status_detail(), "network.json");
}

// Networks for rows that were saved before norm_epsilon was written had that of images.
TEST(networks_of_rows_keep_their_epsilon) {
    EsGrownNetwork *network = random_network(3), *again = NULL;
    EXPECT(network->spec.norm_epsilon == ES_NORM_EPSILON_ROWS);
    EsGrownSpec spec = network->spec;
    spec.norm_epsilon = ES_NORM_EPSILON_IMAGES;
    EsGrownNetwork *old = NULL;
    REQUIRE_OK(es_grown_network_create(&spec, network_device(), &old));
    fill_weights(old, 3);
    float *inputs = random_inputs(network, 20);
    float *logits = predict(network, 1, inputs, 20), *old_logits = predict(old, 1, inputs, 20);
    save_changed(3, "\"norm_epsilon\"", "\"once\"");
    REQUIRE_OK(es_grown_network_load(temp_folder(), network_device(), &again));
    EXPECT(again->spec.norm_epsilon == ES_NORM_EPSILON_IMAGES);
    float *loaded = predict(again, 1, inputs, 20);
    size_t bytes = sizeof *logits * 20 * (size_t)network->spec.host.n_classes;
    EXPECT(memcmp(loaded, old_logits, bytes) == 0);
    EXPECT(memcmp(loaded, logits, bytes) != 0);
    free(inputs);
    free(logits);
    free(old_logits);
    free(loaded);
    es_grown_network_destroy(network);
    es_grown_network_destroy(old);
    es_grown_network_destroy(again);
    expect_refused(3, "\"norm_epsilon\": ", "\"norm_epsilon\": 9", "norm_epsilon");
    expect_refused(3, "\"norm_epsilon\": ", "\"norm_epsilon\": -", "norm_epsilon");
    expect_refused(3, "\"norm_epsilon\": ", "\"norm_epsilon\": true, \"x\": ", "not a number");
}

TEST(refuses_descriptions_that_cannot_be) {
    expect_refused(0, "esper.network.1", "esper.network.2", "esper.network.1");
    expect_refused(0, "\"kind\": \"images\"", "\"kind\": \"films\"", "films");
    expect_refused(0, "\"channels\": 1", "\"channels\": 5", "must be 1 to 4");
    expect_refused(0, "\"channels\": 1", "\"channels\": 1.5", "not a whole number");
    expect_refused(0, "\"channels\": 1", "\"channels\": 2", "entries");
    expect_refused(0, "\"height\": 16", "\"height\": 100000", "must be 1 to 1024");
    expect_refused(0, "\"height\": 16", "\"height\": 32", "width");
    expect_refused(0, "\"mean\": [", "\"mean\": [null, ", "mean");
    expect_refused(0, "\"std\": [\n   0.25", "\"std\": [\n   0", "std[0] is 0");
    expect_refused(0, "\"std\": [\n   0.25", "\"std\": [\n   -1", "std[0]");
    expect_refused(0, "\"kernel\": 3", "\"kernel\": 4", "kernel size 4");
    expect_refused(0, "\"kernel\": 3", "\"kernel\": 9", "must be 1 to 7");
    expect_refused(0, "\"channels\": 4", "\"channels\": 4096", "numbers");
    expect_refused(0, "\"channels\": 4", "\"channels\": 1000000", "must be 1 to 4096");
    expect_refused(0, "\"channels\": 4", "\"channels\": -4", "channels is -4");
    expect_refused(0, "\"pool\": true", "\"pool\": \"yes\"", "neither true nor false");
    expect_refused(1, "\"kind\": \"cnn\"", "\"kind\": \"dense\"", "dense");
    expect_refused(1, "\"alpha\": 1", "\"alpha\": 2", "alpha is 2");
    expect_refused(1, "\"alpha\": 1", "\"alpha\": -1", "alpha");
    expect_refused(1, "\"blueprint\": \"", "\"blueprint\": \"x", "no blueprint");
    expect_refused(1, "\"style\": \"", "\"style\": \"x", "no blend style");
    expect_refused(1, "\"gate\": true", "\"gate\": false", "do not fit its style");
    expect_refused(1, "\"after_pool\": false", "\"after_pool\": true", "");
    expect_refused(1, "\"block\": 0", "\"block\": 3", "must be 0 to 2");
    expect_refused(1, "\"parameters\": ", "\"parameters\": 9", "");
    expect_refused(1, "\"tensors_sha256\": \"", "\"tensors_sha256\": \"0", "not of one network");
    expect_refused(1, "\"classes\": [", "\"classes\": [\"one more\",", "");
    expect_refused(1, "\"classes\": [", "\"classes\": [7,", "is not a text");
    expect_refused(1, "\"seeds\": [", "\"seeds\": [{}, ", "block");
    expect_refused(1, "{", "[", "");
    expect_refused(1, "\"input\"", "\"inputs\"", "kind");
}

TEST(refuses_a_million_blocks) {
    const char *block = "{\"channels\": 1, \"kernel\": 1, \"pool\": false},";
    size_t n = 1000000, length = strlen(block);
    char *many = malloc(n * length + 32);
    size_t used = (size_t)snprintf(many, 32, "\"blocks\": [");
    for (size_t i = 0; i < n; i++, used += length) {
        memcpy(many + used, block, length);
    }
    many[used] = '\0';
    expect_refused(0, "\"blocks\": [", many, "must have 0 to 12");
    free(many);
}

TEST(refuses_tensors_that_do_not_fit) {
    EsGrownNetwork *network = random_network(2), *other = NULL;
    float broken[] = {NAN, INFINITY};
    REQUIRE_OK(es_grown_network_save(network, temp_folder()));
    const char *tensors = temp_path("network.safetensors");
    for (int i = 0; i < 2; i++) {
        float *weight = (float *)(uintptr_t)es_grown_network_weights(
            network, es_graph_find(network->single.graph, "block1.conv.weight"));
        float held = weight[3];
        weight[3] = broken[i];
        REQUIRE_OK(es_grown_network_save(network, temp_folder()));
        EXPECT_STATUS(es_grown_network_load(temp_folder(), network_device(), &other), INPUT);
        EXPECT_CONTAINS(es_status_detail(), "block1.conv.weight[3]");
        weight[3] = held;
    }
    float *variance = (float *)(uintptr_t)es_grown_network_weights(
        network, es_graph_find(network->single.graph, "block0.norm.running_variance"));
    variance[1] = -1;
    REQUIRE_OK(es_grown_network_save(network, temp_folder()));
    EXPECT_STATUS(es_grown_network_load(temp_folder(), network_device(), &other), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "block0.norm.running_variance[1]");
    variance[1] = 1;
    // every length of a file that was cut, and a byte of its numbers
    REQUIRE_OK(es_grown_network_save(network, temp_folder()));
    FileBytes file = read_bytes(tensors);
    for (size_t cut = 0; cut < file.count; cut += 1 + file.count / 50) {
        write_bytes(tensors, file.bytes, cut);
        EXPECT_STATUS(es_grown_network_load(temp_folder(), network_device(), &other), INPUT);
    }
    file.bytes[file.count - 5] ^= 1;
    write_bytes(tensors, file.bytes, file.count);
    EXPECT_STATUS(es_grown_network_load(temp_folder(), network_device(), &other), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "tensors_sha256");
    es_release(file.bytes);
    // tensors of another network
    EsGrownNetwork *second = random_network(1);
    FileBytes json = read_bytes(temp_path("network.json"));
    REQUIRE_OK(es_grown_network_save(second, temp_folder()));
    write_bytes(temp_path("network.json"), json.bytes, json.count);
    EXPECT_STATUS(es_grown_network_load(temp_folder(), network_device(), &other), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "not of one network");
    es_release(json.bytes);
    EXPECT_STATUS(es_grown_network_load(temp_path("nothing.json"), network_device(), &other), IO);
    EXPECT_STATUS(es_grown_network_load(temp_path("nothing"), network_device(), &other), INPUT);
    es_grown_network_destroy(second);
    es_grown_network_destroy(network);
}

// A kill between the two files of a save: the network before is read, until the next save.
TEST(a_save_that_was_cut_leaves_the_network_before) {
    EsGrownNetwork *first = random_network(2), *second = random_network(1), *loaded = NULL;
    const char *tensors = temp_path("network.safetensors"), *json = temp_path("network.json");
    const char *before = temp_path("network.before.safetensors");
    REQUIRE_OK(es_grown_network_save(first, temp_folder()));
    FileBytes old_tensors = read_bytes(tensors), old_json = read_bytes(json);
    REQUIRE_OK(es_grown_network_save(second, temp_folder()));
    EXPECT(access(before, F_OK) != 0);
    FileBytes new_json = read_bytes(json);
    for (int is_at_end = 0; is_at_end < 2; is_at_end++) {
        // the description is the old one, or the new one and only the second name is left over
        FileBytes shown = is_at_end ? new_json : old_json;
        const EsGrownNetwork *expected = is_at_end ? second : first;
        write_bytes(before, old_tensors.bytes, old_tensors.count);
        write_bytes(json, shown.bytes, shown.count);
        REQUIRE_OK(es_grown_network_load(temp_folder(), network_device(), &loaded));
        EXPECT_EQ(loaded->n_parameters, expected->n_parameters);
        es_grown_network_destroy(loaded);
        REQUIRE_OK(es_grown_network_save(second, temp_folder()));
        EXPECT(access(before, F_OK) != 0);
        REQUIRE_OK(es_grown_network_load(temp_folder(), network_device(), &loaded));
        EXPECT_EQ(loaded->n_parameters, second->n_parameters);
        es_grown_network_destroy(loaded);
    }
    EXPECT(first->n_parameters != second->n_parameters);
    es_release(old_tensors.bytes);
    es_release(old_json.bytes);
    es_release(new_json.bytes);
    es_grown_network_destroy(first);
    es_grown_network_destroy(second);
}
