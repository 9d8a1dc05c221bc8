// E environments, N rows, I inputs, O outputs: three products.
#include "kernels/ops/matmul_cuda.cuh"

void es_linear_forward_cuda(EsStream *s, EsIn x, EsIn weight, EsIn bias, EsOut y) {
    EsLaunch launch(s, "linear_forward");
    int64_t n_rows = x->dim[1], n_in = x->dim[2], n_out = y->dim[2];
    EsProduct product = {};
    product.n_envs = x->dim[0];
    product.m = n_rows;
    product.n = n_out;
    product.k = n_in;
    product.a = es_matrix(x, n_in, 0);
    product.b = es_matrix(weight, n_in, 1);
    product.c = es_matrix(y, n_out, 0);
    product.bias = es_in<float>(bias);
    product.rounds_b = x->dtype == ES_DTYPE_BF16;
    es_product_start(launch, product);
}

void es_linear_backward_input_cuda(EsStream *s, EsIn weight, EsIn d_y, EsOut d_x) {
    EsLaunch launch(s, "linear_backward_input");
    int64_t n_rows = d_x->dim[1], n_in = d_x->dim[2], n_out = d_y->dim[2];
    EsProduct product = {};
    product.n_envs = d_x->dim[0];
    product.m = n_rows;
    product.n = n_in;
    product.k = n_out;
    product.a = es_matrix(d_y, n_out, 0);
    product.b = es_matrix(weight, n_in, 0);
    product.c = es_matrix(d_x, n_in, 0);
    product.rounds_b = d_y->dtype == ES_DTYPE_BF16;
    es_product_start(launch, product);
}

void es_linear_backward_weight_cuda(EsStream *s, EsIn x, EsIn d_y, EsOut d_weight, EsOut d_bias) {
    EsLaunch launch(s, "linear_backward_weight");
    int64_t n_rows = x->dim[1], n_in = x->dim[2], n_out = d_y->dim[2];
    EsProduct product = {};
    product.n_envs = x->dim[0];
    product.m = n_out;
    product.n = n_in;
    product.k = n_rows;
    product.a = es_matrix(d_y, n_out, 1);
    product.b = es_matrix(x, n_in, 0);
    product.c = es_matrix(d_weight, n_in, 0);
    es_product_start(launch, product);
    if (d_bias != NULL) {
        es_column_sums_start(launch, d_y, n_rows, n_out, d_bias, NULL);
    }
}
