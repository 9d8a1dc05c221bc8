// Building graphs: shapes, names, counts, and mistakes that are told where they are made.
#include "es_test.h"

#include "growth/host/host.h"
#include "network/graph/graph.h"

static EsValueId add_images(EsGraph *graph, int64_t n, int64_t channels, int64_t size) {
    return es_graph_input(graph, "x", ES_DTYPE_F32, 4, (int64_t[]){n, channels, size, size});
}

static int64_t count_parameters(const char *name) {
    EsHostSpec spec;
    REQUIRE_OK(es_host_preset(name, &spec));
    REQUIRE_OK(es_host_check(&spec));
    EsGraph *graph = NULL;
    REQUIRE_OK(es_graph_create(3, &graph));
    es_host_build(graph, &spec, add_images(graph, 2, spec.image_channels, spec.image_size), 1);
    REQUIRE_OK(es_graph_status(graph));
    int64_t count = es_graph_parameter_count(graph);
    es_graph_destroy(graph);
    return count;
}

TEST(hosts_have_their_parameter_counts) {
    EXPECT_EQ(count_parameters("cifar_baseline"), 6418);
    EXPECT_EQ(count_parameters("cifar_scale"), 99922);
    EXPECT_EQ(count_parameters("cifar_impaired"), 77);
    EXPECT_EQ(count_parameters("cifar_minimal"), 164);
    EXPECT_EQ(count_parameters("cifar_multichannel"), 6418);
    EXPECT_EQ(count_parameters("cifar_postpool"), 24346);
    EXPECT_EQ(count_parameters("cifar_highres"), 24346);
    EXPECT_EQ(count_parameters("cifar_deep_multichannel"), 99922);
    EXPECT_EQ(count_parameters("cifar_deep_impaired"), 1140);
    EXPECT_EQ(count_parameters("tiny"), 438);
}

TEST(unknown_host_names_the_known_ones) {
    EsHostSpec spec;
    EXPECT_STATUS(es_host_preset("cifar_base", &spec), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(),
                    "no host is called \"cifar_base\"; there are tiny, cifar_baseline");
    REQUIRE_OK(es_host_preset("tiny", &spec));
    spec.n_pools = 3;
    EXPECT_STATUS(es_host_check(&spec), ARGUMENT);
}

TEST(first_mistake_is_kept) {
    EsGraph *graph = NULL;
    REQUIRE_OK(es_graph_create(2, &graph));
    EsValueId x = add_images(graph, 4, 3, 8);
    EsValueId y = es_graph_conv2d(graph, "even", x, 8, 4, 0);
    EXPECT_EQ(y, ES_NO_VALUE);
    es_graph_linear(graph, "head", es_graph_pool(graph, ES_POOL_GLOBAL, y), 10);
    EXPECT_STATUS(es_graph_status(graph), ARGUMENT);
    EXPECT_TEXT(es_status_detail(), "even: kernel size 4 is not 1, 3, 5 or 7");
    es_graph_destroy(graph);
}

TEST(wrong_ranks_and_names_are_refused) {
    EsGraph *graph = NULL;
    REQUIRE_OK(es_graph_create(1, &graph));
    es_graph_linear(graph, "head", add_images(graph, 4, 3, 8), 10);
    EXPECT_STATUS(es_graph_status(graph), ARGUMENT);
    EXPECT_TEXT(es_status_detail(), "head: \"x\" is F32 of rank 5, expected F32 of rank 3");
    es_graph_destroy(graph);

    REQUIRE_OK(es_graph_create(1, &graph));
    EsValueId x = add_images(graph, 4, 3, 8);
    es_graph_conv2d(graph, "conv", x, 3, 3, 0);
    es_graph_conv2d(graph, "conv", x, 3, 3, 0);
    EXPECT_STATUS(es_graph_status(graph), ARGUMENT);
    EXPECT_TEXT(es_status_detail(), "parameter \"conv.weight\" exists already");
    es_graph_destroy(graph);
    EXPECT_STATUS(es_graph_create(0, &graph), ARGUMENT);
}

TEST(misuse_is_told) {
    EsGraph *graph = NULL;
    REQUIRE_OK(es_graph_create(2, &graph));
    es_graph_activation(graph, ES_ACTIVATION_RELU, es_graph_find(graph, "missing"));
    EXPECT_STATUS(es_graph_status(graph), ARGUMENT);
    EXPECT_TEXT(es_status_detail(), "activation: no such value");
    es_graph_destroy(graph);

    REQUIRE_OK(es_graph_create(2, &graph));
    EsValueId alpha = es_graph_parameter(graph, "alpha", 3, (int64_t[]){3, 8, 8}, 0.0f, 1.0f);
    es_graph_add(graph, alpha, alpha);
    EXPECT_STATUS(es_graph_status(graph), ARGUMENT);
    EXPECT_TEXT(es_status_detail(), "add: \"alpha\" is a parameter or a state");
    es_graph_destroy(graph);

    REQUIRE_OK(es_graph_create(2, &graph));
    es_graph_conv2d(
        graph, "conv",
        es_graph_shared_input(graph, "all", ES_DTYPE_F32, 5, (int64_t[]){7, 4, 3, 8, 8}), 3, 3, 0);
    EXPECT_STATUS(es_graph_status(graph), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "\"all\" is shared by all environments");
    es_graph_destroy(graph);

    REQUIRE_OK(es_graph_create(2, &graph));
    EsValueId x = es_graph_input(graph, "x", ES_DTYPE_F32, 3, (int64_t[]){4, 3, 5});
    EsValueId start = es_graph_input(graph, "start", ES_DTYPE_F32, 2, (int64_t[]){3, 7});
    es_graph_lstm(graph, "lstm", x, ES_NO_VALUE, start, ES_NO_VALUE, 6);
    EXPECT_STATUS(es_graph_status(graph), ARGUMENT);
    EXPECT_TEXT(es_status_detail(), "lstm: \"start\" has 7 at axis 2, expected 6");
    es_graph_destroy(graph);

    REQUIRE_OK(es_graph_create(2, &graph));
    EsValueId rows = es_graph_input(graph, "rows", ES_DTYPE_F32, 2, (int64_t[]){4, 10});
    EsLoss loss = es_graph_cross_entropy(
        graph, rows, es_graph_input(graph, "labels", ES_DTYPE_I32, 1, (int64_t[]){4}));
    EXPECT_STATUS(es_graph_differentiate(graph, loss.loss), ARGUMENT);
    EXPECT_TEXT(es_status_detail(), "the loss depends on no parameter");
    es_graph_destroy(graph);
}

TEST(only_a_loss_can_be_differentiated) {
    EsGraph *graph = NULL;
    REQUIRE_OK(es_graph_create(1, &graph));
    EsValueId x = add_images(graph, 4, 3, 8);
    EsValueId pooled =
        es_graph_pool(graph, ES_POOL_GLOBAL, es_graph_batchnorm(graph, "norm", x, 0));
    EsLoss loss =
        es_graph_cross_entropy(graph, es_graph_linear(graph, "head", pooled, 10),
                               es_graph_input(graph, "labels", ES_DTYPE_I32, 1, (int64_t[]){4}));
    EXPECT_STATUS(es_graph_differentiate(graph, pooled), ARGUMENT);
    // running statistics are constants of the loss that we do not differentiate
    EXPECT_STATUS(es_graph_differentiate(graph, loss.loss), UNSUPPORTED);
    EXPECT_CONTAINS(es_status_detail(), "batch norm with running statistics");
    es_graph_destroy(graph);
}
