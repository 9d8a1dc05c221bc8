// Range checks: what passes, and messages that name file, field and value.
#include "base/range_check.h"

#include "es_test.h"

static EsFileField field(int64_t index) {
    return (EsFileField){"run/training.bin", "depth", index};
}

TEST(integers) {
    EXPECT_STATUS(es_check_integer(field(2), 0, 0, 5), OK);
    EXPECT_STATUS(es_check_integer(field(2), 5, 0, 5), OK);
    EXPECT_STATUS(es_check_integer(field(2), 6, 0, 5), INPUT);
    EXPECT_TEXT(es_status_detail(), "run/training.bin: depth[2] is 6, must be 0 to 5");
    EXPECT_STATUS(es_check_integer(field(ES_NO_INDEX), INT64_MIN, 0, INT64_MAX), INPUT);
    EXPECT_TEXT(es_status_detail(), "run/training.bin: depth is -9223372036854775808, must be 0 to "
                                    "9223372036854775807");
    EXPECT_STATUS(es_check_integer(field(0), 3, 4, 4), INPUT);
    EXPECT_TEXT(es_status_detail(), "run/training.bin: depth[0] is 3, must be 4");
    EXPECT_STATUS(es_check_counter(field(0), ES_COUNTER_MAX), OK);
    EXPECT_STATUS(es_check_counter(field(0), ES_COUNTER_MAX + 1), INPUT);
    EXPECT_STATUS(es_check_counter(field(0), -1), INPUT);
}

TEST(reals) {
    EXPECT_STATUS(es_check_real(field(0), 1, 0, 1), OK);
    EXPECT_STATUS(es_check_real(field(0), 1.5, 0, 1), INPUT);
    EXPECT_TEXT(es_status_detail(), "run/training.bin: depth[0] is 1.5, must be 0 to 1");
    EXPECT_STATUS(es_check_real(field(0), NAN, 0, 1), INPUT);
    EXPECT_STATUS(es_check_real(field(0), DBL_MAX, -DBL_MAX, DBL_MAX), OK);
    EXPECT_STATUS(es_check_real(field(0), INFINITY, -DBL_MAX, DBL_MAX), INPUT);
    EXPECT_TEXT(es_status_detail(), "run/training.bin: depth[0] is inf, must be finite");
    EXPECT_STATUS(es_check_real(field(0), -1, 0, DBL_MAX), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "is -1, must be finite and not negative");
}

TEST(tensors) {
    const float good[] = {0, -1, 3e38f}, bad[] = {0, 1, -INFINITY, NAN};
    EXPECT_STATUS(es_check_finite("a.safetensors", "w", good, 3), OK);
    EXPECT_STATUS(es_check_finite("a.safetensors", "w", bad, 2), OK);
    EXPECT_STATUS(es_check_finite("a.safetensors", "w", bad, 4), INPUT);
    EXPECT_TEXT(es_status_detail(), "a.safetensors: w[2] is -inf, must be finite");
}
