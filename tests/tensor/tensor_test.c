// Tensor views: strides, slices, reshapes, descriptions.
#include "tensor/tensor.h"

#include "es_test.h"

TEST(dtypes) {
    EXPECT_EQ(es_dtype_bytes(ES_DTYPE_F32), 4);
    EXPECT_EQ(es_dtype_bytes(ES_DTYPE_BF16), 2);
    EXPECT_EQ(es_dtype_bytes(ES_DTYPE_I64), 8);
    EXPECT_EQ(es_dtype_bytes(ES_DTYPE_U8), 1);
    for (int i = 0; i < ES_DTYPE_COUNT; i++) {
        EsDtype parsed = ES_DTYPE_COUNT;
        EXPECT_EQ(es_dtype_parse(es_dtype_name((EsDtype)i), &parsed), 1);
        EXPECT_EQ(parsed, i);
    }
    EsDtype untouched = ES_DTYPE_U8;
    EXPECT_EQ(es_dtype_parse("F8", &untouched), 0);
    EXPECT_EQ(es_dtype_parse("f32", &untouched), 0);
    EXPECT_EQ(untouched, ES_DTYPE_U8);
}

TEST(view_is_row_major) {
    float memory[24];
    EsTensor x = es_tensor_view(memory, ES_DTYPE_F32, NULL, 3, (int64_t[]){2, 3, 4});
    EXPECT_EQ(x.rank, 3);
    EXPECT_EQ(x.stride[0], 12);
    EXPECT_EQ(x.stride[1], 4);
    EXPECT_EQ(x.stride[2], 1);
    EXPECT_EQ(x.dim[3], 1);
    EXPECT_EQ(x.dim[5], 1);
    EXPECT_EQ(es_tensor_count(&x), 24);
    EXPECT_EQ(es_tensor_bytes(&x), 96);
    EXPECT(es_tensor_is_contiguous(&x));
}

TEST(scalars_and_empty_tensors) {
    float value;
    EsTensor scalar = es_tensor_view(&value, ES_DTYPE_F32, NULL, 0, NULL);
    EXPECT_EQ(es_tensor_count(&scalar), 1);
    EXPECT(es_tensor_is_contiguous(&scalar));
    EsTensor empty = es_tensor_view(NULL, ES_DTYPE_F64, NULL, 2, (int64_t[]){3, 0});
    EXPECT_EQ(es_tensor_count(&empty), 0);
    EXPECT_EQ(es_tensor_bytes(&empty), 0);
    EXPECT(es_tensor_is_contiguous(&empty));
}

TEST(slice_shares_memory) {
    int32_t memory[2][3][4];
    EsTensor x = es_tensor_view(memory, ES_DTYPE_I32, NULL, 3, (int64_t[]){2, 3, 4});
    EsTensor second = es_tensor_slice(&x, 0, 1, 1);
    EXPECT(second.data == memory[1]);
    EXPECT_EQ(es_tensor_count(&second), 12);
    EXPECT(es_tensor_is_contiguous(&second));
    EsTensor columns = es_tensor_slice(&x, 2, 1, 2);
    EXPECT(columns.data == &memory[0][0][1]);
    EXPECT_EQ(columns.stride[1], 4);
    EXPECT(!es_tensor_is_contiguous(&columns));
    // rows of one environment are contiguous, rows of two are not
    EsTensor rows = es_tensor_slice(&x, 1, 1, 2);
    EXPECT(!es_tensor_is_contiguous(&rows));
    EsTensor rows_of_one = es_tensor_slice(&second, 1, 1, 2);
    EXPECT(rows_of_one.data == &memory[1][1][0]);
    EXPECT(es_tensor_is_contiguous(&rows_of_one));
    EsTensor none = es_tensor_slice(&x, 0, 2, 0);
    EXPECT_EQ(es_tensor_count(&none), 0);
}

TEST(reshape_keeps_memory_and_count) {
    float memory[24];
    EsTensor x = es_tensor_view(memory, ES_DTYPE_F32, NULL, 3, (int64_t[]){2, 3, 4});
    EsTensor flat = es_tensor_reshape(&x, 1, (int64_t[]){24});
    EXPECT(flat.data == memory);
    EXPECT_EQ(flat.rank, 1);
    EXPECT_EQ(flat.stride[0], 1);
    EsTensor six = es_tensor_reshape(&flat, 6, (int64_t[]){1, 2, 1, 3, 4, 1});
    EXPECT_EQ(six.stride[1], 12);
    EXPECT(es_tensor_is_contiguous(&six));
}

TEST(same_shape) {
    EsTensor a = es_tensor_view(NULL, ES_DTYPE_F32, NULL, 2, (int64_t[]){2, 3});
    EsTensor b = es_tensor_view(NULL, ES_DTYPE_BF16, NULL, 2, (int64_t[]){2, 3});
    EsTensor c = es_tensor_view(NULL, ES_DTYPE_F32, NULL, 2, (int64_t[]){3, 2});
    EsTensor d = es_tensor_view(NULL, ES_DTYPE_F32, NULL, 3, (int64_t[]){2, 3, 1});
    EXPECT(es_tensor_same_shape(&a, &b));
    EXPECT(!es_tensor_same_shape(&a, &c));
    EXPECT(!es_tensor_same_shape(&a, &d));
}

TEST(describe_fits_its_buffer) {
    EsTensor x = es_tensor_view(NULL, ES_DTYPE_F32, NULL, 3, (int64_t[]){4, 128, 10});
    char text[64], small[8];
    EXPECT_TEXT(es_tensor_describe(&x, text, sizeof text), "F32 [4, 128, 10]");
    EXPECT_TEXT(es_tensor_describe(&x, small, sizeof small), "F32 [4,");
    EsTensor scalar = es_tensor_view(NULL, ES_DTYPE_U8, NULL, 0, NULL);
    EXPECT_TEXT(es_tensor_describe(&scalar, text, sizeof text), "U8 []");
}
