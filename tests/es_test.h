// The test helper: TEST(name) registers a function, EXPECT_* print both values and fail the
// process.
//
//     TEST(adds) { EXPECT_EQ(1 + 1, 2); }
//
// Run a binary with no argument for all its tests, with a name for one, with --list for the names.
// Exit code 77 = skipped.
#ifndef ES_TEST_H
#define ES_TEST_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "esper/status.h"

typedef struct EsTestCase {
    const char *name;
    void (*run)(void);
    struct EsTestCase *next;
} EsTestCase;

static EsTestCase *es_test_first;
static int es_test_failures;
static int es_test_skipped;
static void (*es_test_cleanup)(void); // called after a test that has set it (temp_folder.h)

#define TEST(test_name)                                                                            \
    static void test_name(void);                                                                   \
    __attribute__((constructor)) static void register_##test_name(void) {                          \
        static EsTestCase test_case = {#test_name, test_name, NULL};                               \
        EsTestCase **end = &es_test_first;                                                         \
        while (*end != NULL) {                                                                     \
            end = &(*end)->next;                                                                   \
        }                                                                                          \
        *end = &test_case;                                                                         \
    }                                                                                              \
    static void test_name(void)

#define ES_TEST_FAIL(...)                                                                          \
    do {                                                                                           \
        printf("%s:%d: ", __FILE__, __LINE__);                                                     \
        printf(__VA_ARGS__);                                                                       \
        printf("\n");                                                                              \
        es_test_failures++;                                                                        \
    } while (0)

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            ES_TEST_FAIL("expected %s", #condition);                                               \
        }                                                                                          \
    } while (0)

#define EXPECT_EQ(actual, expected)                                                                \
    do {                                                                                           \
        long long es_a_ = (long long)(actual), es_b_ = (long long)(expected);                      \
        if (es_a_ != es_b_) {                                                                      \
            ES_TEST_FAIL("%s is %lld, expected %lld", #actual, es_a_, es_b_);                      \
        }                                                                                          \
    } while (0)

// written so that NaN fails
#define EXPECT_NEAR(actual, expected, bound)                                                       \
    do {                                                                                           \
        double es_a_ = (double)(actual), es_b_ = (double)(expected);                               \
        if (!(fabs(es_a_ - es_b_) <= (double)(bound))) {                                           \
            ES_TEST_FAIL("%s is %.9g, expected %.9g within %.3g", #actual, es_a_, es_b_,           \
                         (double)(bound));                                                         \
        }                                                                                          \
    } while (0)

#define EXPECT_TEXT(actual, expected)                                                              \
    do {                                                                                           \
        const char *es_a_ = (actual), *es_b_ = (expected);                                         \
        if (strcmp(es_a_, es_b_) != 0) {                                                           \
            ES_TEST_FAIL("%s is \"%s\", expected \"%s\"", #actual, es_a_, es_b_);                  \
        }                                                                                          \
    } while (0)

#define EXPECT_CONTAINS(text, part)                                                                \
    do {                                                                                           \
        const char *es_a_ = (text), *es_b_ = (part);                                               \
        if (strstr(es_a_, es_b_) == NULL) {                                                        \
            ES_TEST_FAIL("%s is \"%s\", which does not contain \"%s\"", #text, es_a_, es_b_);      \
        }                                                                                          \
    } while (0)

#define EXPECT_STATUS(call, expected)                                                              \
    do {                                                                                           \
        EsStatus es_a_ = (call);                                                                   \
        if (es_a_ != ES_STATUS_##expected) {                                                       \
            ES_TEST_FAIL("%s gives %s (%s), expected %s", #call, es_status_name(es_a_),            \
                         es_status_detail(), #expected);                                           \
        }                                                                                          \
    } while (0)

// a failure that makes the rest of the test pointless
#define REQUIRE_OK(call)                                                                           \
    do {                                                                                           \
        EsStatus es_a_ = (call);                                                                   \
        if (es_a_ != ES_STATUS_OK) {                                                               \
            printf("%s:%d: %s gives %s (%s)\n", __FILE__, __LINE__, #call, es_status_name(es_a_),  \
                   es_status_detail());                                                            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

// end the test as not run, and say why
#define SKIP(...)                                                                                  \
    do {                                                                                           \
        printf("skipped: " __VA_ARGS__);                                                           \
        printf("\n");                                                                              \
        es_test_skipped++;                                                                         \
        return;                                                                                    \
    } while (0)

int main(int argc, char **argv) {
    int n_run = 0;
    for (EsTestCase *test = es_test_first; test != NULL; test = test->next) {
        if (argc > 1 && strcmp(argv[1], "--list") == 0) {
            printf("%s\n", test->name);
            n_run++;
            continue;
        }
        if (argc > 1 && strcmp(argv[1], test->name) != 0) {
            continue;
        }
        int before = es_test_failures;
        test->run();
        if (es_test_cleanup != NULL) {
            es_test_cleanup();
        }
        printf("%s %s\n", es_test_failures > before ? "FAIL" : "done", test->name);
        n_run++;
    }
    if (n_run == 0) {
        printf("no test named %s\n", argc > 1 ? argv[1] : "(any)");
        return 1;
    }
    return es_test_failures > 0 ? 1 : (es_test_skipped == n_run ? 77 : 0);
}

#endif
