#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "es_test.h"
#include "temp_folder.h"

// A string of jansson's for which there is no memory on any machine.
static json_t *impossible(void) { return json_stringn_nocheck("x", (size_t)1 << 60); }

TEST(lack_of_memory_is_remembered_once) {
    EXPECT_EQ(es_json_lacked_memory(), 0);
    EXPECT(impossible() == NULL);
    EXPECT_EQ(es_json_lacked_memory(), 1);
    EXPECT_EQ(es_json_lacked_memory(), 0);
}

TEST(a_value_with_a_missing_part_is_not_written) {
    char *text = NULL;
    json_t *root = json_object();
    json_object_set_new(root, "name", json_string("a"));
    json_object_set_new(root, "text", impossible()); // nobody looks
    EXPECT_STATUS(es_json_dump("a value", root, JSON_COMPACT, &text), MEMORY);
    EXPECT(text == NULL);
    EXPECT_TEXT(es_status_detail(), "not enough memory to write a value as JSON");

    // the next one is none the worse
    root = json_object();
    json_object_set_new(root, "name", json_string("a"));
    REQUIRE_OK(es_json_dump("a value", root, JSON_COMPACT, &text));
    EXPECT_TEXT(text, "{\"name\":\"a\"}");
    free(text);
}

TEST(bad_text_is_not_lack_of_memory) {
    char *text = NULL;
    EXPECT_STATUS(es_json_dump("a name", json_string("\xff"), JSON_ENCODE_ANY, &text), INPUT);
    EXPECT_TEXT(es_status_detail(), "cannot write a name as JSON: a text in it is not UTF-8");
}

TEST(parsing_tells_the_place) {
    json_t *value = NULL;
    json_error_t error;
    EXPECT(impossible() == NULL); // of something else, long ago
    REQUIRE_OK(es_json_parse("here", "[1]", 3, &value, &error));
    EXPECT_EQ(json_integer_value(json_array_get(value, 0)), 1);
    json_decref(value);
    EXPECT_STATUS(es_json_parse("here", "[1,\n,]", 6, &value, &error), INPUT);
    EXPECT(value == NULL);
    EXPECT(strncmp(es_status_detail(), "here:2: ", 8) == 0);
    EXPECT_STATUS(es_json_load(temp_path("nowhere"), &value), INPUT);
}

TEST(writing_is_all_or_nothing) {
    const char *path = temp_path("value.json");
    FILE *stream = fopen(path, "w");
    json_t *array = json_array();
    json_array_append_new(array, impossible());
    EXPECT_STATUS(es_json_write(array, JSON_COMPACT, stream), MEMORY);
    array = json_array();
    json_array_append_new(array, json_integer(7));
    REQUIRE_OK(es_json_write(array, JSON_COMPACT, stream));
    fclose(stream);
    json_t *value = NULL;
    REQUIRE_OK(es_json_load(path, &value));
    EXPECT_EQ(json_array_size(value), 1u);
    json_decref(value);
}
