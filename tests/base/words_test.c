#include "base/words.h"

#include "es_test.h"

static void expect_word(const char *word, const char *expected) {
    char text[64];
    EXPECT_TEXT(es_shell_word(word, text, sizeof text), expected);
}

TEST(quotes_what_a_shell_would_read) {
    expect_word("runs/first-2_a.b", "runs/first-2_a.b");
    expect_word("", "''");
    expect_word("my runs", "'my runs'");
    expect_word("a$b;rm *", "'a$b;rm *'");
    expect_word("~", "'~'");
    expect_word("it's", "'it'\\''s'");
    expect_word("z\xc3\xbcrich", "'z\xc3\xbcrich'");
}

TEST(stays_in_its_room) {
    char text[5] = "....";
    EXPECT_TEXT(es_shell_word("abcdefgh", text, sizeof text), "abcd");
    EXPECT_TEXT(es_shell_word("a b c", text, sizeof text), "'a b");
    EXPECT_TEXT(es_shell_word("x", text, 1), "");
}
