// Short names of policies in tables.
#include "grow/grow_tables.h"

#include "es_test.h"

static EsGrowEvaluation evaluation;

static void set_variants(int n, const char *const *names) {
    evaluation.n_variants = n;
    for (int a = 0; a < n; a++) {
        snprintf(evaluation.variants[a].name, sizeof evaluation.variants[a].name, "%s", names[a]);
    }
}

static void expect_labels(int n, const char *const *names, const char *const *labels) {
    char label[ES_VARIANT_LABEL_BYTES];
    set_variants(n, names);
    for (int a = 0; a < n; a++) {
        EXPECT_TEXT(es_variant_label(&evaluation, a, label), labels[a]);
    }
}

TEST(names_stay) {
    const char *const names[] = {"ppo", "wait", "policy.safetensors", "a", ""};
    expect_labels(5, names, names);
}

TEST(paths_lose_what_no_one_needs) {
    const char *const names[] = {"/tmp/run-a/checkpoints/93/policy.safetensors", "wait",
                                 "script:/tmp/plan.txt", "runs/x/other.safetensors"};
    const char *const labels[] = {"policy.safetensors", "wait", "script:plan.txt",
                                  "other.safetensors"};
    expect_labels(4, names, labels);
}

TEST(equal_ends_are_told_apart) {
    const char *const names[] = {"/tmp/a/checkpoints/93/policy.safetensors",
                                 "/tmp/a/checkpoints/90/policy.safetensors",
                                 "/tmp/b/checkpoints/90/policy.safetensors",
                                 "policy.safetensors",
                                 "script:x/plan.txt",
                                 "script:y/plan.txt"};
    const char *const labels[] = {"93/policy.safetensors",
                                  "a/checkpoints/90/policy.safetensors",
                                  "b/checkpoints/90/policy.safetensors",
                                  "policy.safetensors",
                                  "script:x/plan.txt",
                                  "script:y/plan.txt"};
    expect_labels(6, names, labels);
}

// a file that is called as a policy is, and slashes where they are no help
TEST(odd_paths) {
    const char *const names[] = {"wait", "./wait", "/wait", "dir/", "/"};
    const char *const labels[] = {"wait", "./wait", "/wait", "dir/", "/"};
    expect_labels(5, names, labels);
}
