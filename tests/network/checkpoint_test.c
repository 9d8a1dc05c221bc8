// Checkpoints: continuing from a file gives the same bits, and a file that does not fit changes
// nothing.
#include "network_case.h"

#include "network/checkpoint.h"
#include "temp_folder.h"

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
            REQUIRE_OK(es_checkpoint_save(checkpoint_path(), run.graph, run.store, run.optimiser,
                                          run.stream, metadata, 1));
        } else {
            REQUIRE_OK(es_checkpoint_load(checkpoint_path(), run.graph, run.store, run.optimiser,
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
    REQUIRE_OK(es_checkpoint_save(checkpoint_path(), run.graph, run.store, NULL, run.stream,
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
    REQUIRE_OK(es_checkpoint_save(checkpoint_path(), small.graph, small.store, NULL, small.stream,
                                  NULL, 0));
    network_end(&small);
    NetworkRun run = network_begin(&network_shapes[0], "cpu", 1, 0, ES_COMPILE_DEFAULT);
    record(&run, before);
    EXPECT_STATUS(es_checkpoint_load(checkpoint_path(), run.graph, run.store, NULL, run.stream,
                                     ES_NUMBERS_ANY),
                  INPUT);
    EXPECT_CONTAINS(
        es_status_detail(),
        "\"block0.conv.weight\" is F32 [2, 3, 1, 3, 3], this network needs F32 [2, 5, 3, 3, 3]");
    // without moments in the file, an optimiser cannot be resumed
    REQUIRE_OK(
        es_checkpoint_save(checkpoint_path(), run.graph, run.store, NULL, run.stream, NULL, 0));
    EXPECT_STATUS(es_checkpoint_load(checkpoint_path(), run.graph, run.store, run.optimiser,
                                     run.stream, ES_NUMBERS_ANY),
                  INPUT);
    EXPECT_CONTAINS(es_status_detail(), "moment1.block0.conv.weight");
    record(&run, after);
    EXPECT(memcmp(before, after, sizeof before) == 0);
    unlink(checkpoint_path());
    EXPECT_STATUS(es_checkpoint_load(checkpoint_path(), run.graph, run.store, NULL, run.stream,
                                     ES_NUMBERS_ANY),
                  IO);
    network_end(&run);
}
