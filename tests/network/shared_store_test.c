// One set of parameters for all environments: the same bits as with copies, through every operation
// of a policy; graphs of any number of environments; files.
#include "policy_graph_case.h"

#include "network/network_file.h"
#include "temp_folder.h"

static void check_copies(const char *name) {
    enum { ENVS = 3 };
    EsDevice *device;
    EsStream *stream;
    open_device(name, &device, &stream);
    Policy one, copies;
    EsStore *shared = NULL, *apart = NULL;
    open_policy(&one, device, stream, ENVS, 1);
    open_policy(&copies, device, stream, ENVS, 1);
    REQUIRE_OK(es_store_create_shared(one.graph, device, ENVS, &shared));
    REQUIRE_OK(es_store_create(copies.graph, device, &apart));
    EXPECT_EQ(shared->parameters.dim[0], 1);
    EXPECT_EQ(shared->gradients.dim[0], ENVS);
    REQUIRE_OK(es_store_initialise(shared, one.graph, stream, 8, (int32_t[]){4}));
    REQUIRE_OK(es_store_initialise(apart, copies.graph, stream, 8, (int32_t[]){4, 4, 4}));
    plan_policy(&one, shared, NULL);
    plan_policy(&copies, apart, NULL);
    for (int run = 0; run < 3; run++) {
        REQUIRE_OK(es_plan_run(one.plan, stream));
        REQUIRE_OK(es_plan_run(copies.plan, stream));
    }
    for (int i = 0; i < 2; i++) {
        EsTensor a = es_plan_tensor(one.plan, one.values[i]);
        EsTensor b = es_plan_tensor(copies.plan, copies.values[i]);
        expect_equal(stream, &a, &b, "a result");
    }
    expect_equal(stream, &shared->gradients, &apart->gradients, "a gradient");
    EsTensor weight = es_store_tensor(shared, one.graph, es_graph_find(one.graph, "policy.weight"));
    EXPECT_EQ(weight.dim[0], ENVS);
    EXPECT_EQ(weight.stride[0], 0);
    close_policy(&one);
    close_policy(&copies);
    es_store_destroy(shared);
    es_store_destroy(apart);
    es_stream_destroy(stream);
    es_device_close(device);
}

TEST(shared_parameters_give_the_bits_of_copies) { check_copies("cpu"); }

TEST(shared_parameters_give_the_bits_of_copies_on_cuda) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    check_copies("cuda");
}

TEST(graphs_of_any_size_share_a_store) {
    EsDevice *device;
    EsStream *stream;
    open_device("cpu", &device, &stream);
    Policy training, acting, large, other;
    EsStore *store = NULL;
    open_policy(&training, device, stream, 2, 1);
    open_policy(&acting, device, stream, 7, 0);
    open_policy(&large, device, stream, 3, 1);
    REQUIRE_OK(es_store_create_shared(training.graph, device, 2, &store));
    REQUIRE_OK(es_store_check(store, training.graph));
    REQUIRE_OK(es_store_check(store, acting.graph));
    EXPECT_STATUS(es_store_check(store, large.graph), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "gradients of 3 environments; the store has room for 2");
    REQUIRE_OK(es_store_initialise(store, acting.graph, stream, 8, (int32_t[]){4}));
    plan_policy(&acting, store, NULL);
    REQUIRE_OK(es_plan_run_forward(acting.plan, stream));
    // one name more
    memset(&other, 0, sizeof other);
    build_policy(&other, 2, 0);
    es_graph_parameter(other.graph, "more", 1, (int64_t[]){1}, 1.0f, 0.0f);
    EXPECT_STATUS(es_store_check(store, other.graph), ARGUMENT);
    EsStore *refused = NULL;
    es_graph_state(other.graph, "running", 1, (int64_t[]){1}, 0.0f);
    EXPECT_STATUS(es_store_create_shared(other.graph, device, 2, &refused), UNSUPPORTED);
    EXPECT_CONTAINS(es_status_detail(), "running statistics");
    EXPECT_STATUS(es_store_create_shared(training.graph, device, 0, &refused), ARGUMENT);
    close_policy(&training);
    close_policy(&acting);
    close_policy(&large);
    close_policy(&other);
    es_store_destroy(store);
    es_stream_destroy(stream);
    es_device_close(device);
}

// A network trained with three environments goes on with seven.
TEST(checkpoints_do_not_know_the_environments) {
    const char *path = temp_path("policy.safetensors");
    EsDevice *device;
    EsStream *stream;
    open_device("cpu", &device, &stream);
    Policy first, second;
    EsStore *saved = NULL, *loaded = NULL;
    EsOptimiser *before = NULL, *after = NULL;
    EsOptimiserOptions options = adam_options();
    open_policy(&first, device, stream, 3, 1);
    open_policy(&second, device, stream, 7, 1);
    REQUIRE_OK(es_store_create_shared(first.graph, device, 3, &saved));
    REQUIRE_OK(es_store_create_shared(second.graph, device, 7, &loaded));
    REQUIRE_OK(es_store_initialise(saved, first.graph, stream, 8, (int32_t[]){4}));
    REQUIRE_OK(es_optimiser_create(first.graph, saved, &options, &before));
    REQUIRE_OK(es_optimiser_create(second.graph, loaded, &options, &after));
    plan_policy(&first, saved, before);
    REQUIRE_OK(es_plan_run(first.plan, stream));
    REQUIRE_OK(es_network_file_save(path, first.graph, saved, before, stream, NULL, 0));
    REQUIRE_OK(es_network_file_load(path, second.graph, loaded, after, stream, ES_NUMBERS_ANY));
    expect_equal(stream, &saved->parameters, &loaded->parameters, "a parameter");
    expect_equal(stream, &before->moment1, &after->moment1, "a moment");
    EXPECT_EQ(steps_of(after, stream), 1);
    close_policy(&first);
    close_policy(&second);
    es_optimiser_destroy(before);
    es_optimiser_destroy(after);
    es_store_destroy(saved);
    es_store_destroy(loaded);
    es_stream_destroy(stream);
    es_device_close(device);
}
