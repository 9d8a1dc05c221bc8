// Every operation of kernel_list.h gives the same bits on one thread and on two. A new operation
// needs a line here: the table is generated from the list, so that one without it does not compile.
#include "base/random_rules.h"
#include "es_test.h"
#include "kernels/kernels.h"
#include "kernels/test_arena.h"

#define ARENA_BYTES ((size_t)16 << 20)

// One run: all its tensors come out of one arena, in the same order and with the same values each
// time, so that two runs are compared by comparing arenas.
typedef struct Run {
    EsDevice *device;
    EsStream *stream;
    const EsKernels *kernels;
    TestArena arena;
    uint32_t n_tensors;
    int64_t E;
} Run;

static EsTensor take(Run *r, EsDtype dtype, int rank, const int64_t *dims) {
    EsTensor tensor = es_tensor_view(NULL, dtype, r->device, rank, dims);
    tensor.data = arena_take(&r->arena, es_tensor_bytes(&tensor));
    ES_ASSERT(tensor.data != NULL);
    memset(tensor.data, 0, es_tensor_bytes(&tensor));
    r->n_tensors++;
    return tensor;
}

static uint32_t draw(const Run *r, int64_t i) {
    return es_random_draw(11, r->n_tensors, ES_PURPOSE_EVALUATION, 0, (uint32_t)(i / 4))
        .word[i % 4];
}

// f32 in [low, high)
static EsTensor floats_in(Run *r, float low, float high, int rank, const int64_t *dims) {
    EsTensor tensor = take(r, ES_DTYPE_F32, rank, dims);
    for (int64_t i = 0; i < es_tensor_count(&tensor); i++) {
        ((float *)tensor.data)[i] = low + (high - low) * es_random_uniform(draw(r, i));
    }
    return tensor;
}

static EsTensor floats(Run *r, int rank, const int64_t *dims) {
    return floats_in(r, -1.0f, 1.0f, rank, dims);
}

// I32, U8 or U16 in [0, n)
static EsTensor numbers(Run *r, EsDtype dtype, uint32_t n, int rank, const int64_t *dims) {
    EsTensor tensor = take(r, dtype, rank, dims);
    for (int64_t i = 0; i < es_tensor_count(&tensor); i++) {
        uint32_t value = es_random_below(draw(r, i), n);
        if (dtype == ES_DTYPE_U8) {
            ((unsigned char *)tensor.data)[i] = (unsigned char)value;
        } else if (dtype == ES_DTYPE_U16) {
            ((uint16_t *)tensor.data)[i] = (uint16_t)value;
        } else {
            ((int32_t *)tensor.data)[i] = (int32_t)value;
        }
    }
    return tensor;
}

#define DIMS(...)                                                                                  \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

// --- one call per operation; sizes above one piece and no multiple of it ---

static void run_add(Run *r) {
    EsTensor a = floats(r, DIMS(r->E, 10007)), b = floats(r, DIMS(r->E, 10007));
    EsTensor y = floats(r, DIMS(r->E, 10007));
    r->kernels->add(r->stream, &a, &b, &y);
}

static void run_convert(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 10007)), y = take(r, ES_DTYPE_BF16, DIMS(r->E, 10007));
    r->kernels->convert(r->stream, &x, &y);
}

static void run_masked_copy(Run *r) {
    EsTensor mask = numbers(r, ES_DTYPE_U8, 2, DIMS(r->E));
    EsTensor from = floats(r, DIMS(r->E, 10007)), to = floats(r, DIMS(r->E, 10007));
    r->kernels->masked_copy(r->stream, &mask, &from, &to);
}

static void run_slab_hash(Run *r) {
    EsTensor slab = floats(r, DIMS(r->E, 10007)), hash = take(r, ES_DTYPE_I64, DIMS(r->E));
    r->kernels->slab_hash(r->stream, &slab, &hash);
}

static void run_matmul(Run *r) {
    EsTensor a = floats(r, DIMS(r->E, 200, 67)), b = floats(r, DIMS(r->E, 67, 131));
    EsTensor c = floats(r, DIMS(r->E, 67, 67));
    EsTensor tall = floats(r, DIMS(r->E, 200, 131));
    r->kernels->matmul(r->stream, 0, 0, 0.0f, &a, &b, &tall);
    r->kernels->matmul(r->stream, 1, 0, 0.5f, &a, &a, &c);
}

static void run_linear_forward(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 100, 65)), weight = floats(r, DIMS(r->E, 33, 65));
    EsTensor bias = floats(r, DIMS(r->E, 33)), y = floats(r, DIMS(r->E, 100, 33));
    r->kernels->linear_forward(r->stream, &x, &weight, &bias, &y);
}

static void run_linear_backward_input(Run *r) {
    EsTensor weight = floats(r, DIMS(r->E, 33, 65)), d_y = floats(r, DIMS(r->E, 100, 33));
    EsTensor d_x = floats(r, DIMS(r->E, 100, 65));
    r->kernels->linear_backward_input(r->stream, &weight, &d_y, &d_x);
}

static void run_linear_backward_weight(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 300, 65)), d_y = floats(r, DIMS(r->E, 300, 70));
    EsTensor d_weight = floats(r, DIMS(r->E, 70, 65)), d_bias = floats(r, DIMS(r->E, 70));
    r->kernels->linear_backward_weight(r->stream, &x, &d_y, &d_weight, &d_bias);
}

static void run_conv2d_forward(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 9, 5, 11, 7)), weight = floats(r, DIMS(r->E, 7, 5, 3, 3));
    EsTensor bias = floats(r, DIMS(r->E, 7)), y = floats(r, DIMS(r->E, 9, 7, 11, 7));
    r->kernels->conv2d_forward(r->stream, &x, &weight, &bias, &y);
}

static void run_conv2d_backward_input(Run *r) {
    EsTensor weight = floats(r, DIMS(r->E, 7, 5, 3, 3)), d_y = floats(r, DIMS(r->E, 9, 7, 11, 7));
    EsTensor d_x = floats(r, DIMS(r->E, 9, 5, 11, 7));
    r->kernels->conv2d_backward_input(r->stream, &weight, &d_y, &d_x);
}

static void run_conv2d_backward_weight(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 70, 5, 11, 7)), d_y = floats(r, DIMS(r->E, 70, 7, 11, 7));
    EsTensor d_weight = floats(r, DIMS(r->E, 7, 5, 3, 3)), d_bias = floats(r, DIMS(r->E, 7));
    r->kernels->conv2d_backward_weight(r->stream, &x, &d_y, &d_weight, &d_bias);
}

static void run_depthwise_forward(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 9, 5, 11, 7)), weight = floats(r, DIMS(r->E, 5, 3, 3));
    EsTensor y = floats(r, DIMS(r->E, 9, 5, 11, 7));
    r->kernels->depthwise_forward(r->stream, &x, &weight, &y);
}

static void run_depthwise_backward_input(Run *r) {
    EsTensor weight = floats(r, DIMS(r->E, 5, 3, 3)), d_y = floats(r, DIMS(r->E, 9, 5, 11, 7));
    EsTensor d_x = floats(r, DIMS(r->E, 9, 5, 11, 7));
    r->kernels->depthwise_backward_input(r->stream, &weight, &d_y, &d_x);
}

static void run_depthwise_backward_weight(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 70, 5, 11, 7)), d_y = floats(r, DIMS(r->E, 70, 5, 11, 7));
    EsTensor d_weight = floats(r, DIMS(r->E, 5, 3, 3));
    r->kernels->depthwise_backward_weight(r->stream, &x, &d_y, &d_weight);
}

static const EsNormOptions norm_options = {.epsilon = 1e-5f, .momentum = 0.1f, .n_groups = 3};

static void run_batchnorm_statistics(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 70, 6, 5, 7));
    EsTensor mean = floats(r, DIMS(r->E, 6)), inv_std = floats(r, DIMS(r->E, 6));
    EsTensor running_mean = floats(r, DIMS(r->E, 6)), running = floats(r, DIMS(r->E, 6));
    r->kernels->batchnorm_statistics(r->stream, norm_options, &x, &mean, &inv_std, &running_mean,
                                     &running);
}

static void run_batchnorm_from_running(Run *r) {
    EsTensor running_mean = floats(r, DIMS(r->E, 67));
    EsTensor running = floats_in(r, 0.5f, 2.0f, DIMS(r->E, 67));
    EsTensor mean = floats(r, DIMS(r->E, 67)), inv_std = floats(r, DIMS(r->E, 67));
    r->kernels->batchnorm_from_running(r->stream, norm_options, &running_mean, &running, &mean,
                                       &inv_std);
}

static void run_batchnorm_apply(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 70, 6, 5, 7)), y = floats(r, DIMS(r->E, 70, 6, 5, 7));
    EsTensor mean = floats(r, DIMS(r->E, 6)), inv_std = floats(r, DIMS(r->E, 6));
    EsTensor gamma = floats(r, DIMS(r->E, 6)), beta = floats(r, DIMS(r->E, 6));
    r->kernels->batchnorm_apply(r->stream, &x, &mean, &inv_std, &gamma, &beta, &y);
}

static void run_batchnorm_backward_sums(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 70, 6, 5, 7)), d_y = floats(r, DIMS(r->E, 70, 6, 5, 7));
    EsTensor mean = floats(r, DIMS(r->E, 6)), inv_std = floats(r, DIMS(r->E, 6));
    EsTensor d_gamma = floats(r, DIMS(r->E, 6)), d_beta = floats(r, DIMS(r->E, 6));
    r->kernels->batchnorm_backward_sums(r->stream, &x, &mean, &inv_std, &d_y, &d_gamma, &d_beta);
}

static void run_batchnorm_backward_input(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 70, 6, 5, 7)), d_y = floats(r, DIMS(r->E, 70, 6, 5, 7));
    EsTensor mean = floats(r, DIMS(r->E, 6)), inv_std = floats(r, DIMS(r->E, 6));
    EsTensor gamma = floats(r, DIMS(r->E, 6)), d_gamma = floats(r, DIMS(r->E, 6));
    EsTensor d_beta = floats(r, DIMS(r->E, 6)), d_x = floats(r, DIMS(r->E, 70, 6, 5, 7));
    r->kernels->batchnorm_backward_input(r->stream, &x, &mean, &inv_std, &gamma, &d_gamma, &d_beta,
                                         &d_y, &d_x);
}

static void run_groupnorm_forward(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 33, 6, 5, 7)), y = floats(r, DIMS(r->E, 33, 6, 5, 7));
    EsTensor gamma = floats(r, DIMS(r->E, 6)), beta = floats(r, DIMS(r->E, 6));
    EsTensor mean = floats(r, DIMS(r->E, 33, 3)), inv_std = floats(r, DIMS(r->E, 33, 3));
    r->kernels->groupnorm_forward(r->stream, norm_options, &x, &gamma, &beta, &mean, &inv_std, &y);
}

static void run_groupnorm_backward(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 33, 6, 5, 7)), d_y = floats(r, DIMS(r->E, 33, 6, 5, 7));
    EsTensor mean = floats(r, DIMS(r->E, 33, 3)), inv_std = floats(r, DIMS(r->E, 33, 3));
    EsTensor gamma = floats(r, DIMS(r->E, 6)), d_x = floats(r, DIMS(r->E, 33, 6, 5, 7));
    EsTensor d_gamma = floats(r, DIMS(r->E, 6)), d_beta = floats(r, DIMS(r->E, 6));
    r->kernels->groupnorm_backward(r->stream, norm_options, &x, &mean, &inv_std, &gamma, &d_y, &d_x,
                                   &d_gamma, &d_beta);
}

static void run_layernorm_forward(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 131, 65)), y = floats(r, DIMS(r->E, 131, 65));
    EsTensor gamma = floats(r, DIMS(r->E, 65)), beta = floats(r, DIMS(r->E, 65));
    EsTensor mean = floats(r, DIMS(r->E, 131)), inv_std = floats(r, DIMS(r->E, 131));
    r->kernels->layernorm_forward(r->stream, norm_options, &x, &gamma, &beta, &mean, &inv_std, &y);
}

static void run_layernorm_backward(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 131, 65)), d_y = floats(r, DIMS(r->E, 131, 65));
    EsTensor mean = floats(r, DIMS(r->E, 131)), inv_std = floats(r, DIMS(r->E, 131));
    EsTensor gamma = floats(r, DIMS(r->E, 65)), d_x = floats(r, DIMS(r->E, 131, 65));
    EsTensor d_gamma = floats(r, DIMS(r->E, 65)), d_beta = floats(r, DIMS(r->E, 65));
    r->kernels->layernorm_backward(r->stream, &x, &mean, &inv_std, &gamma, &d_y, &d_x, &d_gamma,
                                   &d_beta);
}

static void run_activation_forward(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 10007)), y = floats(r, DIMS(r->E, 10007));
    r->kernels->activation_forward(r->stream, ES_ACTIVATION_TANH, &x, &y);
}

static void run_activation_backward(Run *r) {
    EsTensor y = floats(r, DIMS(r->E, 10007)), d_y = floats(r, DIMS(r->E, 10007));
    EsTensor d_x = floats(r, DIMS(r->E, 10007));
    r->kernels->activation_backward(r->stream, ES_ACTIVATION_SIGMOID, &y, &d_y, &d_x);
}

static void run_pool_forward(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 33, 5, 9, 7)), y = floats(r, DIMS(r->E, 33, 5, 4, 3));
    EsTensor average = floats(r, DIMS(r->E, 33, 5));
    r->kernels->pool_forward(r->stream, ES_POOL_MAX2, &x, &y);
    r->kernels->pool_forward(r->stream, ES_POOL_GLOBAL, &x, &average);
}

static void run_pool_backward(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 33, 5, 9, 7)), d_y = floats(r, DIMS(r->E, 33, 5, 4, 3));
    EsTensor d_x = floats(r, DIMS(r->E, 33, 5, 9, 7));
    r->kernels->pool_backward(r->stream, ES_POOL_MAX2, &x, &d_y, &d_x);
}

// GATE first, whose sums cross an image
static EsTensor blend_modes(Run *r) {
    EsTensor mode = take(r, ES_DTYPE_I32, DIMS(r->E));
    for (int64_t e = 0; e < r->E; e++) {
        ((int32_t *)mode.data)[e] = (int32_t)(ES_BLEND_GATE + e) % (ES_BLEND_MULTIPLY + 1);
    }
    return mode;
}

static void run_blend_forward(Run *r) {
    EsTensor h = floats(r, DIMS(r->E, 33, 5, 9, 7)), seed = floats(r, DIMS(r->E, 33, 5, 9, 7));
    EsTensor gate = floats_in(r, 0.0f, 1.0f, DIMS(r->E, 33)), mode = blend_modes(r);
    EsTensor alpha = floats_in(r, 0.1f, 0.9f, DIMS(r->E)), y = floats(r, DIMS(r->E, 33, 5, 9, 7));
    r->kernels->blend_forward(r->stream, &h, &seed, &gate, &alpha, &mode, &y);
}

static void run_blend_backward(Run *r) {
    EsTensor h = floats(r, DIMS(r->E, 33, 5, 9, 7)), seed = floats(r, DIMS(r->E, 33, 5, 9, 7));
    EsTensor gate = floats_in(r, 0.0f, 1.0f, DIMS(r->E, 33)), mode = blend_modes(r);
    EsTensor alpha = floats_in(r, 0.1f, 0.9f, DIMS(r->E)), d_gate = floats(r, DIMS(r->E, 33));
    EsTensor d_y = floats(r, DIMS(r->E, 33, 5, 9, 7)), d_h = floats(r, DIMS(r->E, 33, 5, 9, 7));
    EsTensor d_seed = floats(r, DIMS(r->E, 33, 5, 9, 7));
    r->kernels->blend_backward(r->stream, &h, &seed, &gate, &alpha, &mode, &d_y, &d_h, &d_seed,
                               &d_gate);
}

static void run_seed_input_backward(Run *r) {
    EsTensor mode = blend_modes(r), d_x = floats(r, DIMS(r->E, 33, 5, 9, 7));
    EsTensor d_h = floats(r, DIMS(r->E, 33, 5, 9, 7));
    r->kernels->seed_input_backward(r->stream, &mode, &d_x, &d_h);
}

static void run_channel_scale_forward(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 33, 5, 9, 7)), w = floats(r, DIMS(r->E, 33, 5));
    EsTensor y = floats(r, DIMS(r->E, 33, 5, 9, 7));
    r->kernels->channel_scale_forward(r->stream, &x, &w, &y);
}

static void run_channel_scale_backward(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 33, 5, 9, 7)), w = floats(r, DIMS(r->E, 33, 5));
    EsTensor d_y = floats(r, DIMS(r->E, 33, 5, 9, 7)), d_w = floats(r, DIMS(r->E, 33, 5));
    EsTensor d_x = floats(r, DIMS(r->E, 33, 5, 9, 7));
    r->kernels->channel_scale_backward(r->stream, &x, &w, &d_y, &d_x, &d_w);
}

static void run_norm_mix_forward(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 66, 5, 9, 7)), n = floats(r, DIMS(r->E, 66, 5, 9, 7));
    EsTensor g = floats(r, DIMS(r->E, 1)), y = floats(r, DIMS(r->E, 66, 5, 9, 7));
    r->kernels->norm_mix_forward(r->stream, &x, &n, &g, &y);
}

static void run_norm_mix_backward(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 66, 5, 9, 7)), n = floats(r, DIMS(r->E, 66, 5, 9, 7));
    EsTensor g = floats(r, DIMS(r->E, 1)), d_g = floats(r, DIMS(r->E, 1));
    EsTensor d_y = floats(r, DIMS(r->E, 66, 5, 9, 7)), d_x = floats(r, DIMS(r->E, 66, 5, 9, 7));
    EsTensor d_n = floats(r, DIMS(r->E, 66, 5, 9, 7));
    r->kernels->norm_mix_backward(r->stream, &x, &n, &g, &d_y, &d_x, &d_n, &d_g);
}

static void run_cross_entropy_forward(Run *r) {
    EsTensor logits = floats(r, DIMS(r->E, 200, 10));
    EsTensor labels = numbers(r, ES_DTYPE_I32, 11, DIMS(r->E, 200)), loss = floats(r, DIMS(r->E));
    EsTensor n_correct = take(r, ES_DTYPE_I32, DIMS(r->E));
    EsTensor n_invalid = take(r, ES_DTYPE_I32, DIMS(r->E));
    r->kernels->cross_entropy_forward(r->stream, 0.1f, &logits, &labels, &loss, &n_correct,
                                      &n_invalid);
}

static void run_cross_entropy_backward(Run *r) {
    EsTensor logits = floats(r, DIMS(r->E, 200, 10)), d_loss = floats(r, DIMS(r->E));
    EsTensor labels = numbers(r, ES_DTYPE_I32, 11, DIMS(r->E, 200));
    EsTensor d_logits = floats(r, DIMS(r->E, 200, 10));
    r->kernels->cross_entropy_backward(r->stream, 0.1f, &logits, &labels, &d_loss, &d_logits);
}

static void run_embedding_forward(Run *r) {
    EsTensor table = floats(r, DIMS(r->E, 20, 70));
    EsTensor ids = numbers(r, ES_DTYPE_I32, 21, DIMS(r->E, 600));
    EsTensor y = floats(r, DIMS(r->E, 600, 70)), n_invalid = take(r, ES_DTYPE_I32, DIMS(r->E));
    r->kernels->embedding_forward(r->stream, &table, &ids, &y, &n_invalid);
}

static void run_embedding_backward(Run *r) {
    EsTensor ids = numbers(r, ES_DTYPE_I32, 21, DIMS(r->E, 600));
    EsTensor d_y = floats(r, DIMS(r->E, 600, 70)), d_table = floats(r, DIMS(r->E, 20, 70));
    r->kernels->embedding_backward(r->stream, &ids, &d_y, &d_table);
}

// 3 steps, 70 rows, 9 inputs, 67 units
static EsLstmWeights lstm_weights(Run *r) {
    return (EsLstmWeights){.input = floats(r, DIMS(r->E, 4 * 67, 9)),
                           .recurrent = floats(r, DIMS(r->E, 4 * 67, 67)),
                           .bias_input = floats(r, DIMS(r->E, 4 * 67)),
                           .bias_recurrent = floats(r, DIMS(r->E, 4 * 67))};
}

static void run_lstm_forward(Run *r) {
    EsLstmWeights weights = lstm_weights(r);
    EsTensor x = floats(r, DIMS(r->E, 3, 70, 9));
    EsTensor reset = numbers(r, ES_DTYPE_U8, 2, DIMS(r->E, 3, 70));
    EsTensor h_start = floats(r, DIMS(r->E, 70, 67)), c_start = floats(r, DIMS(r->E, 70, 67));
    EsTensor gates = floats(r, DIMS(r->E, 3, 70, 4 * 67)), c = floats(r, DIMS(r->E, 3, 70, 67));
    EsTensor y = floats(r, DIMS(r->E, 3, 70, 67));
    r->kernels->lstm_forward(r->stream, &weights, &x, &reset, &h_start, &c_start, &gates, &c, &y);
}

static void run_lstm_backward(Run *r) {
    EsLstmWeights weights = lstm_weights(r), d_weights = lstm_weights(r);
    EsTensor x = floats(r, DIMS(r->E, 3, 70, 9)), d_x = floats(r, DIMS(r->E, 3, 70, 9));
    EsTensor reset = numbers(r, ES_DTYPE_U8, 2, DIMS(r->E, 3, 70));
    EsTensor h_start = floats(r, DIMS(r->E, 70, 67)), c_start = floats(r, DIMS(r->E, 70, 67));
    EsTensor d_h_start = floats(r, DIMS(r->E, 70, 67)), d_c_start = floats(r, DIMS(r->E, 70, 67));
    EsTensor gates = floats_in(r, 0.1f, 0.9f, DIMS(r->E, 3, 70, 4 * 67));
    EsTensor d_gates = floats(r, DIMS(r->E, 3, 70, 4 * 67));
    EsTensor c = floats(r, DIMS(r->E, 3, 70, 67)), y = floats(r, DIMS(r->E, 3, 70, 67));
    EsTensor d_y = floats(r, DIMS(r->E, 3, 70, 67));
    r->kernels->lstm_backward(r->stream, &weights, &x, &reset, &h_start, &c_start, &gates, &c, &y,
                              &d_y, &d_gates, &d_x, &d_h_start, &d_c_start, &d_weights);
}

static void run_dropout(Run *r) {
    EsTensor episode = numbers(r, ES_DTYPE_I32, 100, DIMS(r->E));
    EsTensor step = numbers(r, ES_DTYPE_I32, 100, DIMS(1));
    EsTensor x = floats(r, DIMS(r->E, 10007)), y = floats(r, DIMS(r->E, 10007));
    EsDropoutOptions options = {.seed = 5, .layer = 1, .probability = 0.4f};
    r->kernels->dropout(r->stream, options, &episode, &step, &x, &y);
}

// two spans that cover 10007 parameters
static EsTensor take_spans(Run *r) {
    static const int64_t values[4] = {0, 5001, 5001, 5006};
    EsTensor spans = take(r, ES_DTYPE_I64, DIMS(2, 2));
    memcpy(spans.data, values, sizeof values);
    return spans;
}

static void run_slab_norms(Run *r) {
    EsTensor slab = floats(r, DIMS(r->E, 10007)), spans = take_spans(r);
    EsTensor sums = take(r, ES_DTYPE_F64, DIMS(r->E, 2));
    EsTensor n_nonfinite = take(r, ES_DTYPE_I32, DIMS(r->E, 2));
    r->kernels->slab_norms(r->stream, &slab, &spans, &sums, &n_nonfinite);
}

static void run_slab_clip(Run *r) {
    EsTensor slab = floats(r, DIMS(r->E, 10007)), spans = take_spans(r);
    EsTensor groups = numbers(r, ES_DTYPE_I32, 1, DIMS(2));
    EsTensor sums = take(r, ES_DTYPE_F64, DIMS(r->E, 2));
    for (int64_t i = 0; i < es_tensor_count(&sums); i++) {
        ((double *)sums.data)[i] = 3.0 + (double)i;
    }
    EsTensor max_norm = floats_in(r, 0.5f, 1.0f, DIMS(r->E, 1)), norm = floats(r, DIMS(r->E, 1));
    r->kernels->slab_clip(r->stream, &spans, &groups, &sums, &max_norm, &slab, &norm);
}

static void run_sgd_step(Run *r) {
    EsSgdRates rates = {.learning_rate = floats(r, DIMS(r->E)),
                        .momentum = floats(r, DIMS(r->E)),
                        .weight_decay = floats(r, DIMS(r->E))};
    EsTensor gradient = floats(r, DIMS(r->E, 10007)), momentum = floats(r, DIMS(r->E, 10007));
    EsTensor parameter = floats(r, DIMS(r->E, 10007));
    r->kernels->sgd_step(r->stream, &rates, &gradient, &momentum, &parameter);
}

static void run_adam_step(Run *r) {
    EsAdamOptions options = {.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f};
    EsTensor learning_rate = floats(r, DIMS(r->E)), gradient = floats(r, DIMS(r->E, 10007));
    EsTensor moment1 = floats(r, DIMS(r->E, 10007));
    EsTensor moment2 = floats_in(r, 0.0f, 1.0f, DIMS(r->E, 10007));
    EsTensor n_steps = numbers(r, ES_DTYPE_I32, 100, DIMS(r->E));
    EsTensor parameter = floats(r, DIMS(r->E, 10007));
    r->kernels->adam_step(r->stream, options, &learning_rate, &gradient, &moment1, &moment2,
                          &n_steps, &parameter);
}

static void run_sgd_step_finite(Run *r) {
    EsSgdRates rates = {.learning_rate = floats(r, DIMS(r->E)),
                        .momentum = floats(r, DIMS(r->E)),
                        .weight_decay = floats(r, DIMS(r->E))};
    EsTensor gradient = floats(r, DIMS(r->E, 10007)), momentum = floats(r, DIMS(r->E, 10007));
    EsTensor n_nonfinite = numbers(r, ES_DTYPE_I32, 2, DIMS(r->E, 1));
    EsTensor parameter = floats(r, DIMS(r->E, 10007));
    r->kernels->sgd_step_finite(r->stream, &rates, &n_nonfinite, &gradient, &momentum, &parameter);
}

static void run_adam_step_finite(Run *r) {
    EsAdamOptions options = {.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f};
    EsTensor learning_rate = floats(r, DIMS(r->E)), gradient = floats(r, DIMS(r->E, 10007));
    EsTensor moment1 = floats(r, DIMS(r->E, 10007));
    EsTensor moment2 = floats_in(r, 0.0f, 1.0f, DIMS(r->E, 10007));
    EsTensor n_steps = numbers(r, ES_DTYPE_I32, 100, DIMS(r->E));
    EsTensor n_nonfinite = numbers(r, ES_DTYPE_I32, 2, DIMS(r->E, 1));
    EsTensor parameter = floats(r, DIMS(r->E, 10007));
    r->kernels->adam_step_finite(r->stream, options, &learning_rate, &n_nonfinite, &gradient,
                                 &moment1, &moment2, &n_steps, &parameter);
}

static void run_tree_sum(Run *r) {
    EsTensor slab = floats(r, DIMS(5 * r->E, 10007)), y = floats(r, DIMS(1, 10007));
    r->kernels->tree_sum(r->stream, &slab, &y);
}

static void run_concat_forward(Run *r) {
    EsTensor a = floats(r, DIMS(r->E, 130, 7)), b = floats(r, DIMS(r->E, 130, 5));
    EsTensor y = floats(r, DIMS(r->E, 130, 12));
    r->kernels->concat_forward(r->stream, 2, (const EsTensor *[]){&a, &b}, &y);
}

static void run_concat_backward(Run *r) {
    EsTensor d_y = floats(r, DIMS(r->E, 130, 12)), d_x = floats(r, DIMS(r->E, 130, 5));
    r->kernels->concat_backward(r->stream, 7, &d_y, &d_x);
}

static void run_set_sum(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 37, 5, 13)), w = floats(r, DIMS(r->E, 37, 5));
    EsTensor y = floats(r, DIMS(r->E, 37, 13));
    r->kernels->set_sum(r->stream, 0.2f, &x, &w, &y);
}

static void run_set_broadcast(Run *r) {
    EsTensor y = floats(r, DIMS(r->E, 37, 13)), w = floats(r, DIMS(r->E, 37, 5));
    EsTensor x = floats(r, DIMS(r->E, 37, 5, 13));
    r->kernels->set_broadcast(r->stream, 0.2f, &y, &w, &x);
}

static void run_set_max_forward(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 37, 5, 13)), y = floats(r, DIMS(r->E, 37, 13));
    r->kernels->set_max_forward(r->stream, &x, &y);
}

static void run_set_max_backward(Run *r) {
    EsTensor x = floats(r, DIMS(r->E, 37, 5, 13)), y = floats(r, DIMS(r->E, 37, 13));
    EsTensor d_y = floats(r, DIMS(r->E, 37, 13)), d_x = floats(r, DIMS(r->E, 37, 5, 13));
    r->kernels->set_max_forward(r->stream, &x, &y);
    r->kernels->set_max_backward(r->stream, &x, &y, &d_y, &d_x);
}

static void run_gather_order(Run *r) {
    EsTensor episode = numbers(r, ES_DTYPE_I32, 100, DIMS(r->E));
    EsTensor step = numbers(r, ES_DTYPE_I32, 100, DIMS(1));
    EsTensor index = take(r, ES_DTYPE_I32, DIMS(r->E, 130));
    const EsSampleOrder order = {.seed = 9, .n_samples = 1000, .n_shares = 2};
    r->kernels->gather_order(r->stream, &order, &episode, &step, &index);
}

static void run_gather_images(Run *r) {
    EsGatherOptions options = {.seed = 9, .pad = 2, .flip = 1, .inv_std = {1.0f, 2.0f, 3.0f}};
    EsTensor images = numbers(r, ES_DTYPE_U8, 256, DIMS(50, 3, 9, 7));
    EsTensor index = numbers(r, ES_DTYPE_I32, 50, DIMS(r->E, 70));
    EsTensor episode = numbers(r, ES_DTYPE_I32, 100, DIMS(r->E));
    EsTensor step = numbers(r, ES_DTYPE_I32, 100, DIMS(1));
    EsTensor y = floats(r, DIMS(r->E, 70, 3, 9, 7));
    r->kernels->gather_images(r->stream, &options, &images, &index, &episode, &step, &y);
}

static void run_gather_labels(Run *r) {
    EsTensor labels = numbers(r, ES_DTYPE_U16, 65536, DIMS(50));
    EsTensor index = numbers(r, ES_DTYPE_I32, 50, DIMS(r->E, 130));
    EsTensor y = take(r, ES_DTYPE_I32, DIMS(r->E, 130));
    r->kernels->gather_labels(r->stream, &labels, &index, &y);
}

static void run_count_steps(Run *r) {
    EsTensor step = numbers(r, ES_DTYPE_I32, 100, DIMS(1));
    r->kernels->count_steps(r->stream, &step);
}

// --- comparing ---

static const struct {
    const char *name;
    void (*run)(Run *r);
} operations[] = {
#define X(name, parameters) {#name, run_##name},
    ES_KERNEL_LIST(X)
#undef X
};

static void open_run(Run *r, int n_threads) {
    memset(r, 0, sizeof *r);
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = n_threads}, &r->device));
    REQUIRE_OK(es_stream_create(r->device, &r->stream));
    REQUIRE_OK(arena_create(&r->arena, ARENA_BYTES));
    r->kernels = es_kernels_of(r->device);
}

static void close_run(Run *r) {
    arena_destroy(&r->arena);
    es_stream_destroy(r->stream);
    es_device_close(r->device);
}

static void execute(Run *r, size_t operation, int64_t E) {
    arena_release(&r->arena, 0);
    r->n_tensors = 0;
    r->E = E;
    operations[operation].run(r);
}

TEST(one_and_two_threads_give_equal_bits) {
    Run one, two;
    open_run(&one, 1);
    open_run(&two, 2);
    EXPECT_EQ(es_device_info(two.device)->n_processors, 2);
    // one environment, whose work must be divided inside; three, which two threads share unevenly
    for (int64_t E = 1; E <= 3; E += 2) {
        for (size_t i = 0; i < ES_COUNT_OF(operations); i++) {
            execute(&one, i, E);
            for (int repeat = 0; repeat < 3; repeat++) {
                execute(&two, i, E);
                EXPECT_EQ(two.arena.used_bytes, one.arena.used_bytes);
                if (memcmp(one.arena.base, two.arena.base, one.arena.used_bytes) != 0) {
                    ES_TEST_FAIL("%s with %lld environments differs on two threads",
                                 operations[i].name, (long long)E);
                }
            }
        }
    }
    close_run(&one);
    close_run(&two);
}
