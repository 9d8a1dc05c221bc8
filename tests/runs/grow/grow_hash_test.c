// Whole runs of `esper grow`, telemetry on: two with the same seed hold the same bits after every
// round, by the hash that each round_completed event carries; one bit of difference is another
// hash.
#include "base/file.h"
#include "runs/grow/grow_run.h"
#include "temp_folder.h"

#define ROUNDS 3

typedef struct Hashes {
    char text[ROUNDS][17];
    int n;
} Hashes;

static EsGrowSettings small_settings(const char *device) {
    EsGrowSettings settings;
    EsConfig config = es_grow_run_config(&settings);
    es_config_reset(&config);
    snprintf(settings.run.device, sizeof settings.run.device, "%s", device);
    settings.run.n_rounds = ROUNDS;
    settings.run.n_threads = 1;
    settings.run.jsonl = 1; // beside run.db and tensorboard/
    settings.run.checkpoint_every = 1;
    settings.n_envs = 2;
    settings.batch = 8;
    settings.step_batches = 1;
    settings.validation_images = 8;
    settings.episode_steps = 5;
    settings.n_hidden = 8;
    settings.n_evaluated = 0;
    return settings;
}

static void runner(const char *name, int is_resumed, EsGrowSettings *settings) {
    static EsGrowSettings declared;
    EsConfig config = es_grow_run_config(&declared); // for its keys
    config.settings = settings;
    const char *path = temp_path(name);
    EsRunOptions options = {.config = &config,
                            .settings = &settings->run,
                            .out = is_resumed ? NULL : path,
                            .resume = is_resumed ? path : NULL,
                            .build = "test"};
    EsGrowRun *grow = NULL;
    EsRun *run = NULL;
    EsRunOutcome outcome;
    REQUIRE_OK(es_grow_run_create(settings, &grow));
    REQUIRE_OK(es_run_open(&options, &run));
    REQUIRE_OK(es_run_start(run));
    EsRunWork work = es_grow_run_work(grow);
    REQUIRE_OK(es_run_close(run, es_run_rounds(run, &work), &outcome));
    EXPECT_EQ(outcome.has_lost_events, 0);
    es_grow_run_destroy(grow);
}

// In the order of the rounds; of a round that was played twice the later one.
static Hashes read_hashes(const char *name) {
    Hashes hashes = {.n = 0};
    char path[64];
    void *data = NULL;
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/events.jsonl", name);
    REQUIRE_OK(es_file_read_all(temp_path(path), 1 << 24, &data, &bytes));
    const char *key = "\"state_hash\":\"", *at = data;
    for (; (at = strstr(at, key)) != NULL && hashes.n < ROUNDS; hashes.n++) {
        at += strlen(key);
        snprintf(hashes.text[hashes.n], sizeof hashes.text[0], "%.16s", at);
        EXPECT_EQ(strspn(hashes.text[hashes.n], "0123456789abcdef"), 16);
    }
    es_release(data);
    EXPECT_EQ(hashes.n, ROUNDS);
    return hashes;
}

static void compare(const char *what, const Hashes *a, const Hashes *b) {
    for (int i = 0; i < ROUNDS; i++) {
        if (strcmp(a->text[i], b->text[i]) != 0) {
            ES_TEST_FAIL("%s, round %d: %s and %s", what, i + 1, a->text[i], b->text[i]);
        }
    }
}

// The same seed twice; again with other telemetry; again in two sessions; then another seed.
static void check(EsGrowSettings *settings) {
    runner("first", 0, settings);
    Hashes first = read_hashes("first");
    EXPECT(count_names(temp_path("first/tensorboard")) > 0);
    EXPECT(strcmp(first.text[0], first.text[1]) != 0 && strcmp(first.text[1], first.text[2]) != 0);
    runner("second", 0, settings);
    Hashes second = read_hashes("second");
    compare("the same seed", &first, &second);
    printf("%s, %d rounds: %s %s %s, twice\n", settings->run.device, ROUNDS, first.text[0],
           first.text[1], first.text[2]);

    EsGrowSettings other = *settings;
    other.run.level = ES_LEVEL_DEBUG;
    other.run.stride = 1;
    runner("debug", 0, &other);
    Hashes debug = read_hashes("debug");
    compare("everything recorded", &first, &debug);

    other = *settings;
    other.run.seed++;
    runner("other", 0, &other);
    Hashes differs = read_hashes("other");
    for (int i = 0; i < ROUNDS; i++) {
        EXPECT(strcmp(first.text[i], differs.text[i]) != 0);
    }
}

// Hosts are new in every round, and so is all that is hashed but the policy.
static void check_resumed(EsGrowSettings *settings) {
    runner("whole", 0, settings);
    Hashes whole = read_hashes("whole");
    EsGrowSettings part = *settings;
    part.run.n_rounds = ROUNDS - 1;
    runner("part", 0, &part);
    part.run.n_rounds = ROUNDS;
    runner("part", 1, &part);
    Hashes resumed = read_hashes("part");
    compare("resumed", &whole, &resumed);
}

TEST(cpu) {
    EsGrowSettings settings = small_settings("cpu");
    check(&settings);
}

TEST(cpu_random_resumed) {
    EsGrowSettings settings = small_settings("cpu");
    snprintf(settings.policy, sizeof settings.policy, "random");
    settings.episode_steps = 8;
    check_resumed(&settings);
}

TEST(cuda) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    EsGrowSettings settings = small_settings("cuda");
    check(&settings);
}

// A run whose every launch and replay is waited for and checked has the same bits: no result
// depends on what runs beside what.
TEST(cuda_checked) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    EsGrowSettings settings = small_settings("cuda");
    runner("plain", 0, &settings);
    Hashes plain = read_hashes("plain");
    setenv("ES_CUDA_SYNC", "1", 1);
    runner("checked", 0, &settings);
    unsetenv("ES_CUDA_SYNC");
    Hashes checked = read_hashes("checked");
    compare("ES_CUDA_SYNC=1", &plain, &checked);
}

TEST(cuda_random_resumed) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    EsGrowSettings settings = small_settings("cuda");
    snprintf(settings.policy, sizeof settings.policy, "random");
    settings.episode_steps = 8;
    check_resumed(&settings);
}
