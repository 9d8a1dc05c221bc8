#include "es_test.h"
#include "inspect/result_writer.h"

static EsResultCell text(const char *value) {
    return (EsResultCell){.kind = ES_RESULT_TEXT, .bytes = value, .n_bytes = strlen(value)};
}

static EsResultCell integer(int64_t value) {
    return (EsResultCell){.kind = ES_RESULT_INT, .integer = value};
}

static EsResultCell real(double value) {
    return (EsResultCell){.kind = ES_RESULT_REAL, .real = value};
}

// Write the rows and return all output; free it.
static char *print_rows(EsResultFormat format, int width, const char *const *names, int n_columns,
                        const EsResultCell *cells, int n_rows) {
    char *output = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&output, &bytes);
    EsResultWriter *writer = NULL;
    REQUIRE_OK(es_result_writer_create(stream, format, width, names, n_columns, &writer));
    for (int i = 0; i < n_rows; i++) {
        REQUIRE_OK(es_result_writer_add(writer, cells + (ptrdiff_t)i * n_columns));
    }
    REQUIRE_OK(es_result_writer_finish(writer));
    es_result_writer_destroy(writer);
    fclose(stream);
    return output;
}

static const char *const two_names[] = {"n", "text"};

TEST(numbers_to_the_right_texts_to_the_left) {
    const EsResultCell cells[] = {integer(7), text("a"), integer(-1234567), {0}};
    char *output = print_rows(ES_RESULT_TABLE, 0, two_names, 2, cells, 2);
    EXPECT_TEXT(output, "       n  text\n--------  ----\n       7  a\n-1234567  -\n");
    free(output);
    output = print_rows(ES_RESULT_TABLE, 0, two_names, 2, NULL, 0);
    EXPECT_TEXT(output, "n  text\n-  ----\n");
    free(output);
}

TEST(a_name_stands_over_its_numbers) {
    static const char *const names[] = {"accuracy"};
    const EsResultCell cells[] = {real(1.5), {0}};
    char *output = print_rows(ES_RESULT_TABLE, 0, names, 1, cells, 2);
    EXPECT_TEXT(output, "accuracy\n--------\n     1.5\n       -\n");
    free(output);
}

TEST(texts_are_cut_to_the_width_numbers_are_not) {
    const EsResultCell cells[] = {integer(123456789), text("\xc3\xa4\xc3\xb6\xc3\xbc"
                                                           "defghijklmnop")};
    char *output = print_rows(ES_RESULT_TABLE, 21, two_names, 2, cells, 1);
    EXPECT_TEXT(output, "        n  text\n---------  ----------\n"
                        "123456789  \xc3\xa4\xc3\xb6\xc3\xbc"
                        "defghi\xe2\x80\xa6\n");
    free(output);
    // not below eight characters, and nothing is cut without a width
    output = print_rows(ES_RESULT_TABLE, 5, two_names, 2, cells, 1);
    EXPECT_CONTAINS(output, "123456789  \xc3\xa4\xc3\xb6\xc3\xbc"
                            "defg\xe2\x80\xa6\n");
    free(output);
    output = print_rows(ES_RESULT_TABLE, 0, two_names, 2, cells, 1);
    EXPECT_CONTAINS(output, "defghijklmnop\n");
    free(output);
}

TEST(a_long_text_does_not_take_the_table) {
    char longer[9001], cut[128];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    snprintf(cut, sizeof cut, "%.99s\xe2\x80\xa6  7\n", longer);
    static const char *const names[] = {"text", "n"};
    const EsResultCell cells[] = {text(longer), integer(7)};
    char *output = print_rows(ES_RESULT_TABLE, 0, names, 2, cells, 1);
    EXPECT_CONTAINS(output, cut);
    free(output);
    // alone in its row it disturbs nobody; programs get all of it
    output = print_rows(ES_RESULT_TABLE, 0, names, 1, cells, 1);
    EXPECT_CONTAINS(output, longer);
    free(output);
    output = print_rows(ES_RESULT_CSV, 0, names, 2, cells, 1);
    EXPECT_CONTAINS(output, longer);
    free(output);
    output = print_rows(ES_RESULT_JSON, 0, names, 2, cells, 1);
    EXPECT_CONTAINS(output, longer);
    free(output);
}

TEST(wide_and_combining_characters) {
    // two Han characters, five columns with the letter; "e" and a combining accent, one
    const EsResultCell cells[] = {text("\xe6\xbc\xa2\xe5\xad\x97x"), integer(1), text("e\xcc\x81"),
                                  integer(2)};
    static const char *const names[] = {"text", "n"};
    char *output = print_rows(ES_RESULT_TABLE, 0, names, 2, cells, 2);
    EXPECT_TEXT(output, "text   n\n-----  -\n\xe6\xbc\xa2\xe5\xad\x97x  1\ne\xcc\x81      2\n");
    free(output);
    // cut to eight columns: three characters, the ellipsis, and half a place that stays empty
    const EsResultCell row[] = {
        text("\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2"), integer(1)};
    output = print_rows(ES_RESULT_TABLE, 11, names, 2, row, 1);
    EXPECT_CONTAINS(output, "\n\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe2\x80\xa6   1\n");
    free(output);
}

TEST(rows_behind_the_window_keep_its_widths) {
    enum { N = 1500 };
    static EsResultCell cells[2 * N];
    for (int i = 0; i < N; i++) {
        cells[2 * i] = integer(i);
        cells[2 * i + 1] = text(i == N - 1 ? "wider" : "x");
    }
    char *output = print_rows(ES_RESULT_TABLE, 0, two_names, 2, cells, N);
    EXPECT_CONTAINS(output, "  n  text\n---  ----\n  0  x\n  1  x\n");
    EXPECT_CONTAINS(output, "\n999  x\n1000  x\n");
    EXPECT_CONTAINS(output, "\n1499  wider\n");
    int n_lines = 0;
    for (const char *at = output; *at != '\0'; at++) {
        n_lines += *at == '\n';
    }
    EXPECT_EQ(n_lines, N + 2);
    free(output);
}

TEST(reals_read_back_as_the_same_number) {
    static const char *const names[] = {"x"};
    static const double values[] = {0.1, 1.0 / 3.0, 1e300, 5e-324, -2.0, 1e15, 123456.789};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        const EsResultCell cell = real(values[i]);
        char *output = print_rows(ES_RESULT_CSV, 0, names, 1, &cell, 1);
        EXPECT(strtod(output + 3, NULL) == values[i]);
        free(output);
    }
    const EsResultCell cells[] = {real(0.1), real(-2.0), real(1e300)};
    char *output = print_rows(ES_RESULT_CSV, 0, names, 1, cells, 3);
    EXPECT_TEXT(output, "x\r\n0.1\r\n-2.0\r\n1e+300\r\n");
    free(output);
}

TEST(large_reals_are_readable_in_a_table) {
    static const char *const names[] = {"x"};
    const EsResultCell cells[] = {real(1700000000.25), real(15360.123), real(1e-7), real(INFINITY)};
    char *output = print_rows(ES_RESULT_TABLE, 0, names, 1, cells, 4);
    EXPECT_CONTAINS(output, "1700000000.25\n      15360.1\n        1e-07\n     Infinity\n");
    free(output);
}

TEST(a_writer_that_is_destroyed_early_writes_no_end) {
    char *output = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&output, &bytes);
    EsResultWriter *writer = NULL;
    REQUIRE_OK(es_result_writer_create(stream, ES_RESULT_JSON, 0, two_names, 2, &writer));
    es_result_writer_destroy(writer);
    es_result_writer_destroy(NULL);
    fclose(stream);
    EXPECT_TEXT(output, "[");
    free(output);
}
