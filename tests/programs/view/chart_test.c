// Charts and what they are made of: escapes, numbers for people, scales and their ticks, gaps in
// lines, bands, bars.
#include "view/chart.h"

#include <math.h>
#include <stdio.h>

#include "base/macros.h"
#include "es_test.h"
#include "html_text.h"

static void expect_html(const char *foreign, const char *expected) {
    EsText text = {0};
    es_html_add(&text, foreign);
    EXPECT_TEXT(string_of(&text), expected);
    es_text_destroy(&text);
}

TEST(foreign_text_is_harmless) {
    expect_html("plain_name-1 (x)", "plain_name-1 (x)");
    expect_html("<script>alert('a & \"b\"')</script>",
                "&lt;script&gt;alert(&#39;a &amp; &quot;b&quot;&#39;)&lt;/script&gt;");
    expect_html("a\x1b[31m\x07z", "a\xef\xbf\xbd[31m\xef\xbf\xbdz");
    expect_html("\xe2\x80\xae"
                "x",
                "\xef\xbf\xbd"
                "x"); // right-to-left override
    expect_html("\xff\xc3", "\xef\xbf\xbd\xef\xbf\xbd");
    expect_html("gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f");
    expect_html("back\\slash", "back\\slash");
    expect_html("", "");
}

static void expect_number(double value, int n_digits, const char *expected) {
    EsText text = {0};
    es_html_number(&text, value, n_digits);
    EXPECT_TEXT(string_of(&text), expected);
    es_text_destroy(&text);
}

TEST(numbers_for_people) {
    expect_number(0, 4, "0");
    expect_number(NAN, 4, "\xe2\x80\x93");
    expect_number(INFINITY, 4, "\xe2\x88\x9e");
    expect_number(62.4375, 4, "62.44");
    expect_number(-3.403, 4,
                  "\xe2\x88\x92"
                  "3.403");
    expect_number(12, 4, "12");
    expect_number(147507.2, 3,
                  "147\xe2\x80\xaf"
                  "507");
    expect_number(1234567, 9,
                  "1\xe2\x80\xaf"
                  "234\xe2\x80\xaf"
                  "567");
    expect_number(0.0123, 3, "0.0123");
    expect_number(0.5, 4, "0.500");
    expect_number(-0.0004, 4,
                  "\xe2\x88\x92"
                  "0.0004000");
    expect_number(-1e-7, 3,
                  "\xe2\x88\x92"
                  "1.00e-07");
    expect_number(1e-7, 3, "1.00e-07");
    expect_number(1e20, 3, "1.00e+20");
}

TEST(lines_have_gaps_bands_and_labels) {
    const double x[] = {1, 2, 3, 4, 5}, y[] = {10, 20, NAN, 40, 50};
    const double low[] = {5, 15, NAN, 35, 45}, high[] = {15, 25, NAN, 45, 60};
    const EsSeries series[] = {{.label = "a<b", .x = x, .y = y, .low = low, .high = high, .n = 5},
                               {.label = "c", .x = x, .y = x, .n = 5, .colour = 1}};
    EsText text = {0};
    es_chart_lines(
        &text,
        &(EsChart){
            .title = "Accuracy", .unit = "%", .x_label = "round", .series = series, .n_series = 2});
    const char *html = string_of(&text);
    EXPECT(strstr(html, "data-y=\"0 60 208 12\"") != NULL); // round ends around 1 to 60
    EXPECT(strstr(html, "last: a&lt;b 50, c 5\"") != NULL);
    EXPECT(strstr(html, "a<b") == NULL);
    const char *line = strstr(html, "<path class=\"line c0\"");
    EXPECT(line != NULL && strchr(line, 'M') != NULL);
    char first[200];
    snprintf(first, sizeof first, "%.*s", (int)(strchr(line, '>') - line), line);
    EXPECT_EQ(count(first, "M"), 2);           // the gap
    EXPECT_EQ(count(html, "class=\"band"), 2); // on both sides of it
    EXPECT_EQ(count(html, "<li>"), 2);
    EXPECT(strstr(html, ">round</text>") != NULL);
    es_text_destroy(&text);
}

TEST(charts_of_awkward_numbers) {
    const double x[] = {7}, y[] = {0}, nothing[] = {NAN}, huge[] = {1e300}, none[] = {-0.0};
    const double *all[] = {y, nothing, huge, none};
    for (size_t i = 0; i < ES_COUNT_OF(all); i++) {
        const EsSeries series = {.label = "s", .x = x, .y = all[i], .n = 1};
        EsText text = {0};
        es_chart_lines(
            &text,
            &(EsChart){
                .title = "t", .unit = "", .x_label = "round", .series = &series, .n_series = 1});
        const char *html = string_of(&text);
        EXPECT(strstr(html, "nan") == NULL && strstr(html, "inf") == NULL);
        EXPECT_EQ(count(html, "<circle"), all[i] == nothing ? 0 : 1);
        EXPECT_EQ(strstr(html, "Nothing recorded yet") != NULL, all[i] == nothing);
        es_text_destroy(&text);
    }
    EsText text = {0};
    es_chart_lines(&text, &(EsChart){.title = "t", .unit = "", .x_label = "round"});
    EXPECT(strstr(string_of(&text), "Nothing recorded yet") != NULL);
    es_text_destroy(&text);
}

TEST(counts_of_nothing_are_not_negative) {
    const double x[] = {1, 2}, y[] = {0, 0};
    const EsSeries series = {.label = "s", .x = x, .y = y, .n = 2};
    EsText text = {0};
    es_chart_lines(&text, &(EsChart){.title = "t",
                                     .unit = "",
                                     .x_label = "round",
                                     .series = &series,
                                     .n_series = 1,
                                     .starts_at_zero = 1});
    EXPECT(strstr(string_of(&text), "data-y=\"0 1 ") != NULL);
    es_text_destroy(&text);
}

// There is room for seven characters left of an axis.
TEST(ticks_are_short) {
    static const double largest[] = {999999, 1.6e6, 3.2e7, 1.5e9, 7e12, 1.004e6, 0.0003};
    for (size_t i = 0; i < ES_COUNT_OF(largest); i++) {
        const double x[] = {1, 2}, y[] = {i == 5 ? 1e6 : -largest[i], largest[i]};
        const EsSeries series = {.label = "s", .x = x, .y = y, .n = 2};
        EsText text = {0};
        es_chart_lines(
            &text,
            &(EsChart){
                .title = "t", .unit = "", .x_label = "round", .series = &series, .n_series = 1});
        const char *at = string_of(&text);
        int n = 0;
        while ((at = strstr(at, "text-anchor=\"end\">")) != NULL) {
            at += strlen("text-anchor=\"end\">");
            size_t bytes = strcspn(at, "<");
            if (es_text_width(at, bytes) > 7 + (at[0] == '\xe2')) { // and a sign
                ES_TEST_FAIL("a tick of %g: %.*s", largest[i], (int)bytes, at);
            }
            n++;
        }
        EXPECT(n >= 3);
        es_text_destroy(&text);
    }
}

// A character takes up to 8.2 of the 480 units of a picture.
TEST(numbers_behind_bars_stay_in_the_picture) {
    const EsBar bars[] = {{"total", 0.0561712, NAN, NAN, NULL},
                          {"noted", 0.0561712, NAN, NAN, "of 12,345"}};
    for (int i = 0; i < 2; i++) {
        EsText text = {0};
        es_chart_bars(&text, "Terms", "", &bars[i], 1);
        const char *value = strstr(string_of(&text), "class=\"value\" x=\"");
        EXPECT(value != NULL);
        EXPECT_CONTAINS(value, "0.05617");
        EXPECT(strtod(value + strlen("class=\"value\" x=\""), NULL) + 8.2 * (i == 0 ? 7 : 17) <=
               480);
        es_text_destroy(&text);
    }
}

TEST(bars_of_both_signs) {
    const EsBar bars[] = {
        {"more", 10, 8, 12, NULL}, {"less", -5, NAN, NAN, "x"}, {"-", NAN, NAN, NAN, NULL}};
    EsText text = {0};
    es_chart_bars(&text, "Terms", "points", bars, 3);
    const char *html = string_of(&text);
    EXPECT_EQ(count(html, "class=\"bar\""), 2);
    EXPECT_EQ(count(html, "class=\"whisker\""), 1);
    EXPECT(strstr(html, "\xe2\x88\x92"
                        "5 x<") != NULL);
    EXPECT(strstr(html, "nan") == NULL && strstr(html, "width=\"-") == NULL);
    es_text_destroy(&text);
}

// --- slots ---
