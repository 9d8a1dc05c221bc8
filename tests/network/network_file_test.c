// Checkpoints: continuing from a file gives the same bits, and a file that does not fit changes
// nothing.
#include "network_case.h"

#include "mutate.h"
#include "network/network_file.h"

#define MAX_VALUES 20000

static const char *checkpoint_path(void) { return temp_path("checkpoint.safetensors"); }

static void record(NetworkRun *run, float *values) {
    copy_out(run, values, &run->store->parameters);
    copy_out(run, values + es_tensor_count(&run->store->parameters), &run->store->states);
}

static void check_continuation(const char *device, int adam) {
    static float straight[MAX_VALUES], resumed[MAX_VALUES];
    float losses[4];
    memset(straight, 0, sizeof straight);
    memset(resumed, 0, sizeof resumed);
    for (int part = 0; part < 2; part++) {
        NetworkRun run = network_begin(&network_shapes[0], device, 1, 0, ES_COMPILE_DEFAULT);
        if (adam) {
            network_use_adam(&run);
        }
        if (part == 0) {
            for (int step = 0; step < 3; step++) {
                network_step(&run, losses);
            }
            EsMetadata metadata[] = {{"step", "3"}};
            REQUIRE_OK(es_network_file_save(checkpoint_path(), run.graph, run.store, run.optimiser,
                                            run.stream, metadata, 1));
        } else {
            REQUIRE_OK(es_network_file_load(checkpoint_path(), run.graph, run.store, run.optimiser,
                                            run.stream, ES_NUMBERS_ANY));
        }
        for (int step = 0; step < 3; step++) {
            network_step(&run, losses);
        }
        record(&run, part == 0 ? straight : resumed);
        network_end(&run);
    }
    EXPECT(memcmp(straight, resumed, sizeof straight) == 0);
}

TEST(continues_with_equal_bits) {
    check_continuation("cpu", 0);
    check_continuation("cpu", 1);
}

TEST(continues_with_equal_bits_on_cuda) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    check_continuation("cuda", 0);
    check_continuation("cuda", 1);
}

TEST(names_are_those_of_the_graph) {
    NetworkRun run = network_begin(&network_shapes[0], "cpu", 1, 0, ES_COMPILE_DEFAULT);
    REQUIRE_OK(es_network_file_save(checkpoint_path(), run.graph, run.store, NULL, run.stream,
                                    &(EsMetadata){"round", "7"}, 1));
    EsSafetensors *file = NULL;
    REQUIRE_OK(es_safetensors_open(checkpoint_path(), &file));
    EXPECT_TEXT(es_safetensors_metadata(file, "round"), "7");
    EsTensor weight;
    REQUIRE_OK(es_safetensors_find(file, "block0.conv.weight", &weight));
    EsTensor golden = golden_tensor(&run, "", "block0.conv.weight");
    EXPECT(es_tensor_same_shape(&weight, &golden));
    EXPECT(memcmp(weight.data, golden.data, es_tensor_bytes(&golden)) == 0);
    EXPECT_EQ(es_safetensors_count(file),
              8 + 4); // 2 x (conv, gamma, beta) + head's two; running values
    es_safetensors_close(file);
    network_end(&run);
}

TEST(misfit_changes_nothing) {
    static float before[MAX_VALUES], after[MAX_VALUES];
    NetworkRun small = network_begin(&network_shapes[1], "cpu", 1, 0, ES_COMPILE_DEFAULT);
    REQUIRE_OK(es_network_file_save(checkpoint_path(), small.graph, small.store, NULL, small.stream,
                                    NULL, 0));
    network_end(&small);
    NetworkRun run = network_begin(&network_shapes[0], "cpu", 1, 0, ES_COMPILE_DEFAULT);
    record(&run, before);
    EXPECT_STATUS(es_network_file_load(checkpoint_path(), run.graph, run.store, NULL, run.stream,
                                       ES_NUMBERS_ANY),
                  INPUT);
    EXPECT_CONTAINS(
        es_status_detail(),
        "\"block0.conv.weight\" is F32 [2, 3, 1, 3, 3], this network needs F32 [2, 5, 3, 3, 3]");
    // without moments in the file, an optimiser cannot be resumed
    REQUIRE_OK(
        es_network_file_save(checkpoint_path(), run.graph, run.store, NULL, run.stream, NULL, 0));
    EXPECT_STATUS(es_network_file_load(checkpoint_path(), run.graph, run.store, run.optimiser,
                                       run.stream, ES_NUMBERS_ANY),
                  INPUT);
    EXPECT_CONTAINS(es_status_detail(), "moment1.block0.conv.weight");
    record(&run, after);
    EXPECT(memcmp(before, after, sizeof before) == 0);
    unlink(checkpoint_path());
    EXPECT_STATUS(es_network_file_load(checkpoint_path(), run.graph, run.store, NULL, run.stream,
                                       ES_NUMBERS_ANY),
                  IO);
    network_end(&run);
}

// --- crafted numbers ---

static EsStatus load_crafted(NetworkRun *run, EsNumbers numbers) {
    return es_network_file_load(temp_path("crafted"), run->graph, run->store, run->optimiser,
                                run->stream, numbers);
}

TEST(numbers_that_cannot_be_are_refused) {
    static float before[MAX_VALUES], after[MAX_VALUES];
    static const char *const tensors[] = {"block0.conv.weight", "moment1.head.bias",
                                          "moment2.head.weight", "block1.norm.running_mean"};
    static const float wrong[] = {NAN, INFINITY, -INFINITY};
    static const int32_t steps[] = {INT32_MIN, -1, ES_OPTIMISER_STEPS_MAX + 1, INT32_MAX};
    float losses[4];
    char named[64];
    NetworkRun run = network_begin(&network_shapes[0], "cpu", 1, 0, ES_COMPILE_DEFAULT);
    network_use_adam(&run);
    network_step(&run, losses);
    REQUIRE_OK(es_network_file_save(checkpoint_path(), run.graph, run.store, run.optimiser,
                                    run.stream, NULL, 0));
    record(&run, before);
    for (size_t v = 0; v < ES_COUNT_OF(wrong); v++) {
        for (size_t i = 0; i < ES_COUNT_OF(tensors); i++) {
            craft_number(checkpoint_path(), temp_path("crafted"), tensors[i], 1, &wrong[v], 4);
            EXPECT_STATUS(load_crafted(&run, ES_NUMBERS_FINITE), INPUT);
            snprintf(named, sizeof named, "%s[1] is ", tensors[i]);
            EXPECT_CONTAINS(es_status_detail(), named);
        }
    }
    craft_number(checkpoint_path(), temp_path("crafted"), tensors[2], 0, &(float){-1}, 4);
    EXPECT_STATUS(load_crafted(&run, ES_NUMBERS_FINITE), INPUT);
    // a count of steps has its range whatever the numbers may be
    for (size_t v = 0; v < ES_COUNT_OF(steps); v++) {
        craft_number(checkpoint_path(), temp_path("crafted"), "n_steps", 1, &steps[v], 4);
        EXPECT_STATUS(load_crafted(&run, ES_NUMBERS_ANY), INPUT);
        EXPECT_CONTAINS(es_status_detail(), "n_steps[1] is ");
    }
    record(&run, after);
    EXPECT(memcmp(before, after, sizeof before) == 0);
    network_end(&run);
}

// One of many networks that diverged comes back as it was, bit for bit.
TEST(diverged_numbers_come_back) {
    NetworkRun run = network_begin(&network_shapes[0], "cpu", 1, 0, ES_COMPILE_DEFAULT);
    const uint32_t odd_nan = 0xffc01234;
    REQUIRE_OK(es_network_file_save(checkpoint_path(), run.graph, run.store, run.optimiser,
                                    run.stream, NULL, 0));
    craft_number(checkpoint_path(), temp_path("crafted"), "head.bias", 1, &odd_nan, 4);
    REQUIRE_OK(load_crafted(&run, ES_NUMBERS_ANY));
    REQUIRE_OK(es_network_file_save(checkpoint_path(), run.graph, run.store, run.optimiser,
                                    run.stream, NULL, 0));
    FileBytes crafted = read_bytes(temp_path("crafted")), again = read_bytes(checkpoint_path());
    EXPECT_EQ(crafted.count, again.count);
    EXPECT(memcmp(crafted.bytes, again.bytes, crafted.count) == 0);
    es_release(crafted.bytes);
    es_release(again.bytes);
    network_end(&run);
}

TEST(changed_files_are_refused_or_trained) {
    static float losses[4];
    NetworkRun run = network_begin(&network_shapes[0], "cpu", 1, 0, ES_COMPILE_DEFAULT);
    network_use_adam(&run);
    REQUIRE_OK(es_network_file_save(checkpoint_path(), run.graph, run.store, run.optimiser,
                                    run.stream, NULL, 0));
    FileBytes file = read_bytes(checkpoint_path());
    Mutator mutator = {.seed = 101};
    int n_all = mutation_count(300), n_refused = 0;
    for (int i = 0; i < n_all; i++) {
        mutate_safetensors(&mutator, &file, temp_path("crafted"));
        EsStatus status = load_crafted(&run, i % 2 == 0 ? ES_NUMBERS_ANY : ES_NUMBERS_FINITE);
        EXPECT(status == ES_STATUS_OK || status == ES_STATUS_INPUT);
        n_refused += status != ES_STATUS_OK;
        if (status == ES_STATUS_OK && i % 16 < 2) {
            network_step(&run, losses);
        }
    }
    printf("  %d of %d refused\n", n_refused, n_all);
    EXPECT(n_refused > n_all / 4 && n_refused < n_all);
    es_release(file.bytes);
    network_end(&run);
}
