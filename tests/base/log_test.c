// The log handler: levels, formatting, replacement, and one line at a time from many threads.
#include "esper/log.h"

#include <pthread.h>

#include "es_test.h"

typedef struct Seen {
    int n_lines;
    EsLogLevel level;
    char line[2048];
    int n_inside, n_overlaps; // handlers running at once
} Seen;

static void remember(void *context, EsLogLevel level, const char *line) {
    Seen *seen = context;
    seen->n_overlaps += seen->n_inside++ != 0;
    seen->n_lines++;
    seen->level = level;
    snprintf(seen->line, sizeof seen->line, "%s", line);
    seen->n_inside--;
}

TEST(drops_lines_without_handler) {
    es_log(ES_LOG_ERROR, "nobody hears this");
    Seen seen = {0};
    es_log_set_handler(remember, &seen, ES_LOG_DEBUG);
    EXPECT_EQ(seen.n_lines, 0);
    es_log_set_handler(NULL, NULL, ES_LOG_DEBUG);
    es_log(ES_LOG_ERROR, "nor this");
    EXPECT_EQ(seen.n_lines, 0);
}

TEST(passes_levels_from_the_lowest_on) {
    Seen seen = {0};
    es_log_set_handler(remember, &seen, ES_LOG_WARNING);
    es_log(ES_LOG_DEBUG, "a");
    es_log(ES_LOG_INFO, "b");
    EXPECT_EQ(seen.n_lines, 0);
    es_log(ES_LOG_WARNING, "%s %d", "c", 3);
    EXPECT_EQ(seen.n_lines, 1);
    EXPECT_EQ(seen.level, ES_LOG_WARNING);
    EXPECT_TEXT(seen.line, "c 3");
    es_log(ES_LOG_ERROR, "d");
    EXPECT_EQ(seen.n_lines, 2);
    es_log_set_handler(NULL, NULL, ES_LOG_INFO);
}

TEST(cuts_long_lines) {
    Seen seen = {0};
    char text[3000];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    es_log_set_handler(remember, &seen, ES_LOG_DEBUG);
    es_log(ES_LOG_INFO, "%s", text);
    EXPECT_EQ(strlen(seen.line), 1023);
    es_log_set_handler(NULL, NULL, ES_LOG_INFO);
}

TEST(parses_levels) {
    EsLogLevel level = ES_LOG_ERROR;
    EXPECT_EQ(es_log_level_parse("debug", &level), 1);
    EXPECT_EQ(level, ES_LOG_DEBUG);
    EXPECT_EQ(es_log_level_parse("warning", &level), 1);
    EXPECT_EQ(level, ES_LOG_WARNING);
    EXPECT_EQ(es_log_level_parse("loud", &level), 0);
    EXPECT_EQ(es_log_level_parse("", &level), 0);
    EXPECT_EQ(level, ES_LOG_WARNING);
}

static void *log_many(void *context) {
    (void)context;
    for (int i = 0; i < 2000; i++) {
        es_log(ES_LOG_INFO, "line %d", i);
    }
    return NULL;
}

TEST(handler_runs_one_line_at_a_time) {
    Seen seen = {0};
    pthread_t threads[4];
    es_log_set_handler(remember, &seen, ES_LOG_DEBUG);
    for (int i = 0; i < 4; i++) {
        EXPECT_EQ(pthread_create(&threads[i], NULL, log_many, NULL), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    es_log_set_handler(NULL, NULL, ES_LOG_INFO);
    EXPECT_EQ(seen.n_lines, 8000);
    EXPECT_EQ(seen.n_overlaps, 0);
}
