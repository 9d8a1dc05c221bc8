// Status codes: names, detail text, origin, and that each thread has its own.
#include "esper/status.h"

#include <pthread.h>

#include "es_test.h"

TEST(names_and_messages) {
    EXPECT_EQ(ES_STATUS_OK, 0);
    EXPECT_TEXT(es_status_name(ES_STATUS_OK), "OK");
    EXPECT_TEXT(es_status_name(ES_STATUS_CONFIG), "CONFIG");
    EXPECT_TEXT(es_status_name(ES_STATUS_INTERRUPTED), "INTERRUPTED");
    EXPECT_TEXT(es_status_message(ES_STATUS_MEMORY), "out of memory");
    EXPECT_TEXT(es_status_name((EsStatus)999), "UNKNOWN");
    EXPECT_TEXT(es_status_message((EsStatus)999), "unknown status");
}

TEST(starts_without_detail) {
    EXPECT_TEXT(es_status_detail(), "");
    EXPECT_TEXT(es_status_origin(), "");
}

TEST(keeps_detail_and_origin) {
    int line = __LINE__ + 1;
    EXPECT_STATUS(ES_FAIL(INPUT, "bad byte %d in %s", 7, "file"), INPUT);
    EXPECT_TEXT(es_status_detail(), "bad byte 7 in file");
    char origin[64];
    snprintf(origin, sizeof origin, "status_test.c:%d", line);
    EXPECT_TEXT(es_status_origin(), origin);
}

TEST(detail_may_quote_the_old_detail) {
    EXPECT_STATUS(ES_FAIL(IO, "inner"), IO);
    EXPECT_STATUS(ES_FAIL(INPUT, "outer: %s", es_status_detail()), INPUT);
    EXPECT_TEXT(es_status_detail(), "outer: inner");
}

TEST(long_detail_is_cut) {
    char text[4000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    EXPECT_STATUS(ES_FAIL(INPUT, "%s", text), INPUT);
    EXPECT_EQ(strlen(es_status_detail()), 1023);
}

static EsStatus try_twice(int *n_calls) {
    ES_TRY(((*n_calls)++, ES_STATUS_OK));
    ES_TRY(((*n_calls)++, ES_FAIL(NUMERIC, "second")));
    (*n_calls)++;
    return ES_STATUS_OK;
}

static EsStatus try_goto(int *is_cleaned) {
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(ES_FAIL(DEVICE, "first"));
    status = ES_STATUS_OK;
done:
    *is_cleaned = 1;
    return status;
}

TEST(tries_stop_at_the_first_failure) {
    int n_calls = 0, is_cleaned = 0;
    EXPECT_STATUS(try_twice(&n_calls), NUMERIC);
    EXPECT_EQ(n_calls, 2);
    EXPECT_STATUS(try_goto(&is_cleaned), DEVICE);
    EXPECT_EQ(is_cleaned, 1);
}

static void *fail_elsewhere(void *seen) {
    *(int *)seen = es_status_detail()[0] == '\0';
    return ES_FAIL(IO, "from the thread") == ES_STATUS_IO ? seen : NULL;
}

TEST(threads_do_not_share_details) {
    EXPECT_STATUS(ES_FAIL(INPUT, "from the test"), INPUT);
    pthread_t thread;
    int was_empty = 0;
    void *result = NULL;
    EXPECT_EQ(pthread_create(&thread, NULL, fail_elsewhere, &was_empty), 0);
    pthread_join(thread, &result);
    EXPECT(result == &was_empty);
    EXPECT(was_empty);
    EXPECT_TEXT(es_status_detail(), "from the test");
}
