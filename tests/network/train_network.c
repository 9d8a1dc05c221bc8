// Three copies of a small network learn to tell bright columns from bright rows, side by side in
// one plan.
//
// Shows the life of a network: graph, differentiation, store, optimiser, plan, run.
#include <stdio.h>
#include <stdlib.h>

#include "network/plan/plan.h"

enum { N_ENVS = 3, N_IMAGES = 32, SIZE = 8 };

// Stripes of one kind per image: label 0 has a bright row, label 1 a bright column.
static void draw_images(float *x, int32_t *labels) {
    for (int n = 0; n < N_ENVS * N_IMAGES; n++) {
        labels[n] = n % 2;
        int place = n * 5 % SIZE;
        for (int k = 0; k < SIZE * SIZE; k++) {
            int at = labels[n] == 0 ? k / SIZE : k % SIZE;
            x[n * SIZE * SIZE + k] = at == place ? 1.0f : 0.0f;
        }
    }
}

static EsStatus train(EsDevice *device, EsStream *stream, EsGraph *graph, float *x,
                      int32_t *labels) {
    // the network: a convolution, batch norm, ReLU, pooling, and a linear layer on the averages
    EsValueId images =
        es_graph_input(graph, "x", ES_DTYPE_F32, 4, (int64_t[]){N_IMAGES, 1, SIZE, SIZE});
    EsValueId targets = es_graph_input(graph, "labels", ES_DTYPE_I32, 1, (int64_t[]){N_IMAGES});
    EsValueId h = es_graph_conv2d(graph, "conv", images, 4, 3, 0);
    h = es_graph_activation(graph, ES_ACTIVATION_RELU, es_graph_batchnorm(graph, "norm", h, 1));
    h = es_graph_pool(graph, ES_POOL_GLOBAL, es_graph_pool(graph, ES_POOL_MAX2, h));
    EsLoss loss = es_graph_cross_entropy(graph, es_graph_linear(graph, "head", h, 2), targets);
    ES_TRY(es_graph_status(graph));
    ES_TRY(es_graph_differentiate(graph, loss.loss));

    // memory for three of them, each with its own start
    EsStore *store = NULL;
    EsOptimiser *optimiser = NULL;
    EsPlan *plan = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_store_create(graph, device, &store));
    ES_TRY_GOTO(es_store_initialise(store, graph, stream, 42, (int32_t[N_ENVS]){0, 1, 2}));
    EsOptimiserOptions sgd = es_optimiser_defaults(ES_OPTIMISER_SGD);
    ES_TRY_GOTO(es_optimiser_create(graph, store, &sgd, &optimiser));

    EsPlanOptions options = es_plan_defaults();
    options.optimiser = optimiser;
    ES_TRY_GOTO(es_plan_create(graph, store, &options, &plan));
    EsTensor x_tensor =
        es_tensor_view(x, ES_DTYPE_F32, device, 5, (int64_t[]){N_ENVS, N_IMAGES, 1, SIZE, SIZE});
    EsTensor label_tensor =
        es_tensor_view(labels, ES_DTYPE_I32, device, 2, (int64_t[]){N_ENVS, N_IMAGES});
    ES_TRY_GOTO(es_plan_bind(plan, images, &x_tensor));
    ES_TRY_GOTO(es_plan_bind(plan, targets, &label_tensor));

    for (int step = 0; step <= 200; step++) {
        ES_TRY_GOTO(es_plan_run(plan, stream));
        const float *losses = es_plan_tensor(plan, loss.loss).data;
        if (step % 50 == 0) {
            printf("step %3d  losses %.4f %.4f %.4f\n", step, (double)losses[0], (double)losses[1],
                   (double)losses[2]);
        }
    }
done:
    es_plan_destroy(plan);
    es_optimiser_destroy(optimiser);
    es_store_destroy(store);
    return status;
}

int main(void) {
    static _Alignas(64) float x[N_ENVS * N_IMAGES * SIZE * SIZE];
    static int32_t labels[N_ENVS * N_IMAGES];
    draw_images(x, labels);
    EsDevice *device = NULL;
    EsStream *stream = NULL;
    EsGraph *graph = NULL;
    EsStatus status = es_device_open("cpu", NULL, &device);
    status = status != ES_STATUS_OK ? status : es_stream_create(device, &stream);
    status = status != ES_STATUS_OK ? status : es_graph_create(N_ENVS, &graph);
    status = status != ES_STATUS_OK ? status : train(device, stream, graph, x, labels);
    if (status != ES_STATUS_OK) {
        fprintf(stderr, "%s\n", es_status_detail());
    }
    es_graph_destroy(graph);
    es_stream_destroy(stream);
    es_device_close(device);
    return status == ES_STATUS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
