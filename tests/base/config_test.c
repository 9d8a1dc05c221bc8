// Configuration: every kind of value, the exact text of every error, round trips and mutated files.
#include "esper/config.h"

#include <float.h>
#include <stdint.h>

#include "base/random_rules.h"
#include "base/words.h"
#include "temp_folder.h"

typedef enum Mode { MODE_OFF, MODE_DEFAULT, MODE_MAX_AUTOTUNE } Mode;

typedef struct Settings {
    int n_envs;
    int64_t seed;
    float rate;
    double epsilon;
    int use_tf32;
    char out[64];
    Mode mode;
    float decay;
} Settings;

static const EsConfigKey keys[] = {
    ES_CONFIG_INT(Settings, n_envs, "run", "environments", "64", 1, 4096,
                  "hosts trained side by side"),
    ES_CONFIG_INT(Settings, seed, "run", "seed", "0", -9e18, 9e18, "seed of all random numbers"),
    ES_CONFIG_BOOL(Settings, use_tf32, "run", "tf32", "on", "round matrix operands to TF32"),
    ES_CONFIG_TEXT(Settings, out, "run", "out", "", "run folder, empty = named by date"),
    ES_CONFIG_CHOICE(Settings, mode, "run", "compile_mode", "default", "off|default|max-autotune",
                     "how plans run"),
    ES_CONFIG_FLOAT(Settings, rate, "host", "learning_rate", "0.05", 0, 10, "step size of SGD"),
    ES_CONFIG_FLOAT(Settings, decay, "host", "weight_decay", "0.1", 0, 0.1, "pull towards 0"),
    ES_CONFIG_FLOAT(Settings, epsilon, "host", "epsilon", "1e-5", 1e-300, 1, "added to variances"),
};

static Settings settings;
static const EsConfig config = {keys, sizeof keys / sizeof keys[0], &settings, sizeof settings};

static const char *run_file(void) { return temp_path("run.ini"); }

static EsStatus load_text(const char *text) {
    es_config_reset(&config);
    write_temp_text("run.ini", text);
    return es_config_load(&config, run_file());
}

static void expect_refused(const char *text, const char *message) {
    es_config_reset(&config);
    settings.n_envs = 77;
    Settings before = settings;
    write_temp_text("run.ini", text);
    EXPECT_STATUS(es_config_load(&config, run_file()), CONFIG);
    EXPECT_TEXT(es_status_detail(), message);
    EXPECT(memcmp(&before, &settings, sizeof before) == 0);
}

static void expect_override_refused(const char *argument, const char *message) {
    es_config_reset(&config);
    Settings before = settings;
    EXPECT_STATUS(es_config_override(&config, argument), CONFIG);
    EXPECT_TEXT(es_status_detail(), message);
    EXPECT(memcmp(&before, &settings, sizeof before) == 0);
}

TEST(defaults) {
    es_config_reset(&config);
    EXPECT_EQ(settings.n_envs, 64);
    EXPECT_EQ(settings.seed, 0);
    EXPECT_EQ(settings.use_tf32, 1);
    EXPECT_TEXT(settings.out, "");
    EXPECT_EQ(settings.mode, MODE_DEFAULT);
    EXPECT(settings.rate == 0.05f);
    EXPECT(settings.decay == 0.1f);
    EXPECT(settings.epsilon == 1e-5);
}

TEST(loads_every_type) {
    REQUIRE_OK(load_text(
        "# comment\n; another\n\n[run]\nenvironments = 16\nseed=-9000000000\ntf32: no\n"
        "  out = runs/a b;c # d ; comment\r\ncompile_mode = max-autotune   \n[host] ; the host\n"
        "learning_rate = +1.5e-3\nepsilon=.25\n[run]"));
    EXPECT_EQ(settings.n_envs, 16);
    EXPECT_EQ(settings.seed, -9000000000);
    EXPECT_EQ(settings.use_tf32, 0);
    EXPECT_TEXT(settings.out, "runs/a b;c # d");
    EXPECT_EQ(settings.mode, MODE_MAX_AUTOTUNE);
    EXPECT(settings.rate == 1.5e-3f);
    EXPECT(settings.epsilon == 0.25);
    EXPECT(settings.decay == 0.1f);
}

TEST(keeps_what_a_file_does_not_name) {
    REQUIRE_OK(load_text("[run]\nenvironments = 16\n"));
    write_temp_file("run.ini", "[run]\nseed = 5\n", 15);
    REQUIRE_OK(es_config_load(&config, run_file()));
    EXPECT_EQ(settings.n_envs, 16);
    EXPECT_EQ(settings.seed, 5);
    REQUIRE_OK(load_text(""));
}

TEST(names_the_nearest) {
    expect_refused(
        "[host]\nlearnig_rate = 1\n",
        "run.ini:2: unknown key \"learnig_rate\" in [host]; did you mean \"learning_rate\"?");
    expect_refused("[hots]\nlearning_rate = 1\n",
                   "run.ini:1: unknown section [hots]; did you mean [host]?");
    expect_refused("[run]\n\n\n[optimiser]\n", "run.ini:4: unknown section [optimiser]");
    expect_refused("[run]\nlearning_rate = 1\n",
                   "run.ini:2: unknown key \"learning_rate\" in [run]; it belongs in [host]");
    expect_refused("[run]\nquux = 1\n", "run.ini:2: unknown key \"quux\" in [run]");
    expect_refused("[run]\ncompile_mode = of\n", "run.ini:2: [run] compile_mode: \"of\" is not one "
                                                 "of off, default, max-autotune; did you mean "
                                                 "\"off\"?");
    expect_refused(
        "[run]\ncompile_mode = fast\n",
        "run.ini:2: [run] compile_mode: \"fast\" is not one of off, default, max-autotune");
}

TEST(refuses_bad_numbers) {
    expect_refused("[run]\nenvironments = many\n",
                   "run.ini:2: [run] environments: \"many\" is not a whole number");
    expect_refused("[run]\nenvironments =\n",
                   "run.ini:2: [run] environments: \"\" is not a whole number");
    expect_refused("[run]\nenvironments = 16x\n",
                   "run.ini:2: [run] environments: \"16x\" is not a whole number");
    expect_refused("[run]\nenvironments = 1.5\n",
                   "run.ini:2: [run] environments: \"1.5\" is not a whole number");
    expect_refused("[run]\nenvironments = 0\n",
                   "run.ini:2: [run] environments: 0 is outside 1..4096");
    expect_refused("[run]\nenvironments = 4097\n",
                   "run.ini:2: [run] environments: 4097 is outside 1..4096");
    expect_refused("[run]\nenvironments = 4294967297\n",
                   "run.ini:2: [run] environments: 4294967297 is outside 1..4096");
    expect_refused("[run]\nseed = 99999999999999999999\n",
                   "run.ini:2: [run] seed: 99999999999999999999 is outside "
                   "-9000000000000000000..9000000000000000000");
    expect_refused("[host]\nlearning_rate = 0,1\n",
                   "run.ini:2: [host] learning_rate: \"0,1\" is not a number");
    expect_refused("[host]\nlearning_rate = nan\n",
                   "run.ini:2: [host] learning_rate: \"nan\" is not a number");
    expect_refused("[host]\nlearning_rate = 0x1p-3\n",
                   "run.ini:2: [host] learning_rate: \"0x1p-3\" is not a number");
    expect_refused("[host]\nlearning_rate = 1e-3e\n",
                   "run.ini:2: [host] learning_rate: \"1e-3e\" is not a number");
    expect_refused("[host]\nlearning_rate = 1e39\n",
                   "run.ini:2: [host] learning_rate: \"1e39\" is not within the range of float32");
    expect_refused("[host]\nlearning_rate = 1e-60\n",
                   "run.ini:2: [host] learning_rate: \"1e-60\" is not within the range of float32");
    expect_refused("[host]\nepsilon = 1e-999\n",
                   "run.ini:2: [host] epsilon: \"1e-999\" is not within the range of float64");
    expect_refused("[host]\nlearning_rate = -0.5\n",
                   "run.ini:2: [host] learning_rate: -0.5 is outside 0..10");
    expect_refused("[host]\nweight_decay = 0.1000001\n",
                   "run.ini:2: [host] weight_decay: 0.1000001 is outside 0..0.1");
    expect_refused("[run]\ntf32 = maybe\n",
                   "run.ini:2: [run] tf32: \"maybe\" is not true or false");
}

TEST(refuses_bad_lines) {
    expect_refused("[run]\nseed = 1\nenvironments = 2\nseed = 1\n",
                   "run.ini:4: [run] seed is set twice, first in line 2");
    expect_refused("seed = 1\n", "run.ini:1: \"seed\" stands before the first [section]");
    expect_refused("[run]\nnonsense\n", "run.ini:2: expected \"key = value\" or \"[section]\"");
    expect_refused("[run]\nout = a\n   continued\n",
                   "run.ini:3: expected \"key = value\" or \"[section]\"");
    expect_refused("[run\nseed = 1\n", "run.ini:1: expected \"key = value\" or \"[section]\"");
    expect_refused("[run] seed = 1\n", "run.ini:1: unexpected text after [run]");
    // the first of two errors is the one reported
    expect_refused("[run]\nnonsense\nseed = x\n",
                   "run.ini:2: expected \"key = value\" or \"[section]\"");
    expect_refused("[run]\nseed = x\nnonsense\n",
                   "run.ini:2: [run] seed: \"x\" is not a whole number");
    char wide[400];
    snprintf(wide, sizeof wide, "[run]\nout = %0360d\n", 0);
    expect_refused(wide, "run.ini:2: the line is longer than 199 bytes");
    snprintf(wide, sizeof wide, "[run]\nout = %078d\n", 0);
    expect_refused(wide, "run.ini:2: [run] out: the text is 78 bytes long, at most 63 fit");
    es_config_reset(&config);
    write_temp_file("run.ini", "[run]\nseed = 1\0 2\n", 18);
    EXPECT_STATUS(es_config_load(&config, run_file()), CONFIG);
    EXPECT_TEXT(es_status_detail(), "run.ini:2: the line contains a zero byte");
}

TEST(refuses_files_that_are_none) {
    EXPECT_STATUS(es_config_load(&config, "/nowhere/run.ini"), IO);
    EXPECT_CONTAINS(es_status_detail(), "/nowhere/run.ini");
    EXPECT_CONTAINS(es_status_detail(), "No such file or directory");
    EXPECT_STATUS(es_config_load(&config, "/"), INPUT);
    EXPECT_STATUS(es_config_write(&config, "/nowhere/run.ini"), IO);
}

TEST(overrides) {
    es_config_reset(&config);
    REQUIRE_OK(es_config_override(&config, "--host.learning_rate=0.25"));
    REQUIRE_OK(es_config_override(&config, "run.out=a=b.c"));
    REQUIRE_OK(es_config_override(&config, "--run.compile_mode=off"));
    EXPECT(settings.rate == 0.25f);
    EXPECT_TEXT(settings.out, "a=b.c");
    EXPECT_EQ(settings.mode, MODE_OFF);
    expect_override_refused("--host.learnig_rate=1",
                            "--host.learnig_rate: unknown key \"learnig_rate\" in [host]; did "
                            "you mean \"learning_rate\"?");
    expect_override_refused("--hst.rate=1",
                            "--hst.rate: unknown section [hst]; did you mean [host]?");
    expect_override_refused("--run.seed", "--run.seed: expected --section.key=value");
    expect_override_refused("--seed=1", "--seed=1: expected --section.key=value");
    expect_override_refused("--.seed=1", "--.seed=1: expected --section.key=value");
    expect_override_refused("--run.=1", "--run.=1: expected --section.key=value");
    expect_override_refused("--run.seed= 1", "--run.seed: \" 1\" is not a whole number");
    expect_override_refused(
        "--run.out=a ;b", "--run.out: the text contains \" ;\", which starts a comment in a file");
    expect_override_refused(
        "--run.out= a", "--run.out: the text starts or ends with a space, which a file would lose");
    expect_override_refused("--run.out=a\tb", "--run.out: the text contains a control character");
}

// any float32 survives writing and reading: the bounds are the whole range here
TEST(round_trip_is_exact) {
    typedef struct Numbers {
        float single;
        double twice;
        int64_t wide;
    } Numbers;
    static const EsConfigKey number_keys[] = {
        ES_CONFIG_FLOAT(Numbers, single, "n", "single", "0", -FLT_MAX, FLT_MAX, "any float32"),
        ES_CONFIG_FLOAT(Numbers, twice, "n", "twice", "0", -DBL_MAX, DBL_MAX, "any float64"),
        ES_CONFIG_INT(Numbers, wide, "n", "wide", "0", -0x1p63, 0x1p63, "any int64"),
    };
    Numbers numbers, wanted;
    EsConfig number_config = {number_keys, 3, &numbers, sizeof numbers};
    for (uint32_t i = 0; i < 200; i++) {
        es_config_reset(&number_config);
        EsRandom4 r = es_random_draw(7, i, ES_PURPOSE_EVALUATION, 0, 0);
        memcpy(&numbers.single, &r.word[0], 4);
        memcpy(&numbers.twice, &r.word[1], 8);
        memcpy(&numbers.wide, &r.word[2], 8);
        if (i == 0) {
            numbers.single = 0x1p-149f;
            numbers.twice = -0.0;
            numbers.wide = INT64_MIN;
        }
        if (!isfinite(numbers.single) || !isfinite(numbers.twice)) {
            EXPECT_STATUS(es_config_write(&number_config, run_file()), CONFIG);
            continue;
        }
        wanted = numbers;
        REQUIRE_OK(es_config_write(&number_config, run_file()));
        es_config_reset(&number_config);
        REQUIRE_OK(es_config_load(&number_config, run_file()));
        EXPECT(memcmp(&numbers, &wanted, sizeof numbers) == 0);
    }
}

TEST(writes_help_and_values) {
    es_config_reset(&config);
    REQUIRE_OK(es_config_override(&config, "run.out=runs/x"));
    REQUIRE_OK(es_config_write(&config, run_file()));
    char text[4096] = "";
    FILE *file = fopen(run_file(), "rb");
    size_t bytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    EXPECT(bytes > 0);
    EXPECT_TEXT(
        text, "[run]\n"
              "# hosts trained side by side (1..4096)\nenvironments = 64\n"
              "# seed of all random numbers (-9000000000000000000..9000000000000000000)\nseed = 0\n"
              "# round matrix operands to TF32\ntf32 = true\n"
              "# run folder, empty = named by date\nout = runs/x\n"
              "# how plans run (off|default|max-autotune)\ncompile_mode = default\n"
              "\n[host]\n"
              "# step size of SGD (0..10)\nlearning_rate = 0.05\n"
              "# pull towards 0 (0..0.1)\nweight_decay = 0.1\n"
              "# added to variances (1e-300..1)\nepsilon = 1e-05\n");
    Settings wanted = settings;
    es_config_reset(&config);
    REQUIRE_OK(es_config_load(&config, run_file()));
    EXPECT(memcmp(&wanted, &settings, sizeof wanted) == 0);
    settings.mode = (Mode)9;
    EXPECT_STATUS(es_config_write(&config, run_file()), CONFIG);
    EXPECT_CONTAINS(es_status_detail(), "\"9\" is not one of off, default, max-autotune");
    EXPECT_EQ(count_names(temp_folder()), 1); // no temporary is left
}

static int is_valid(void) {
    return settings.n_envs >= 1 && settings.n_envs <= 4096 && settings.rate >= 0 &&
           settings.rate <= 10 && settings.decay >= 0 && settings.decay <= 0.1f &&
           settings.epsilon >= 1e-300 && settings.epsilon <= 1 &&
           (settings.use_tf32 == 0 || settings.use_tf32 == 1) && (unsigned)settings.mode <= 2 &&
           memchr(settings.out, 0, sizeof settings.out) != NULL;
}

// A mutated file either loads into valid settings that survive another round trip, or fails with a
// message that names a line and changes nothing.
TEST(survives_mutated_files) {
    static const char start[] =
        "[run]\nenvironments = 64\nseed = 12\ntf32 = on\nout = runs/x y\n"
        "compile_mode = off ; comment\n# comment\n[host]\nlearning_rate = 0.05\nepsilon=1e-5\n";
    static const char bytes[] = "\0\n\r[]=;#: \t.-+eE019xyz\xef\xbb\xbf\xff";
    int n_loaded = 0, n_refused = 0;
    for (uint32_t i = 0; i < 4000; i++) {
        char text[sizeof start];
        memcpy(text, start, sizeof start);
        size_t length = sizeof start - 1;
        EsRandom4 r = es_random_draw(11, i, ES_PURPOSE_EVALUATION, 0, 0);
        uint32_t n_changes = 1 + r.word[3] % 4;
        for (uint32_t change = 0; change < n_changes; change++) {
            EsRandom4 c = es_random_draw(11, i, ES_PURPOSE_EVALUATION, 1, change);
            size_t at = c.word[0] % length;
            if (c.word[1] % 3 == 0) {
                memmove(text + at, text + at + 1, --length - at);
            } else {
                text[at] = bytes[c.word[2] % (sizeof bytes - 1)];
            }
        }
        es_config_reset(&config);
        Settings before = settings;
        write_temp_file("run.ini", text, length);
        if (es_config_load(&config, run_file()) != ES_STATUS_OK) {
            n_refused++;
            EXPECT(strncmp(es_status_detail(), "run.ini:", 8) == 0);
            EXPECT(memcmp(&before, &settings, sizeof before) == 0);
            continue;
        }
        n_loaded++;
        EXPECT(is_valid());
        Settings wanted = settings;
        REQUIRE_OK(es_config_write(&config, run_file()));
        es_config_reset(&config);
        REQUIRE_OK(es_config_load(&config, run_file()));
        EXPECT(memcmp(&wanted, &settings, sizeof wanted) == 0);
    }
    // both outcomes must really occur
    EXPECT(n_loaded > 200);
    EXPECT(n_refused > 200);
    EXPECT_EQ(count_names(temp_folder()), 1); // no temporary is left
}

TEST(spelling_distances) {
    EXPECT_EQ(es_spelling_distance("", ""), 0);
    EXPECT_EQ(es_spelling_distance("", "abc"), 3);
    EXPECT_EQ(es_spelling_distance("kitten", "sitting"), 3);
    EXPECT_EQ(es_spelling_distance("hots", "host"), 1);
    EXPECT_EQ(es_spelling_distance("abc", "cab"), 2);
    char long_word[200];
    memset(long_word, 'x', sizeof long_word - 1);
    long_word[sizeof long_word - 1] = '\0';
    EXPECT_EQ(es_spelling_distance(long_word, "x"), 62);
    EsSpelling spelling = es_spelling_begin("tset");
    EXPECT(es_spelling_suggestion(&spelling) == NULL);
    es_spelling_offer(&spelling, "bench");
    EXPECT(es_spelling_suggestion(&spelling) == NULL);
    es_spelling_offer(&spelling, "test");
    EXPECT_TEXT(es_spelling_suggestion(&spelling), "test");
}
