// Median, spread, baselines and the option parser: what `esper bench` says must be right.
#include "bench/bench_suite.h"

#include "cli/options.h"
#include "temp_folder.h"

TEST(median_and_spread) {
    double one[] = {7};
    EsBenchSummary summary = es_bench_summarise(one, 1);
    EXPECT(summary.median == 7 && summary.spread == 0);
    EXPECT_EQ(summary.n_samples, 1);
    double five[] = {5, 1, 4, 2, 3};
    summary = es_bench_summarise(five, 5);
    EXPECT(summary.median == 3 && summary.spread == 2);
    double four[] = {4, 1, 3, 2};
    summary = es_bench_summarise(four, 4);
    EXPECT_NEAR(summary.median, 2.5, 1e-15);
    EXPECT_NEAR(summary.spread, 1.5, 1e-15);
    // an outlier moves neither
    double outlier[] = {5, 1, 4, 2, 1e9};
    summary = es_bench_summarise(outlier, 5);
    EXPECT(summary.median == 4 && summary.spread == 3);
}

TEST(change_needs_three_percent_and_the_spread) {
    EsBenchSummary base = {100, 1, 5};
    EXPECT(!es_bench_is_change((EsBenchSummary){102.9, 0, 5}, base));
    EXPECT(es_bench_is_change((EsBenchSummary){103.1, 0, 5}, base));
    EXPECT(es_bench_is_change((EsBenchSummary){96.9, 0, 5}, base));
    EXPECT(!es_bench_is_change((EsBenchSummary){110, 11, 5}, base));
    base.spread = 20;
    EXPECT(!es_bench_is_change((EsBenchSummary){110, 0, 5}, base));
    EXPECT(es_bench_is_change((EsBenchSummary){121, 0, 5}, base));
}

static EsBenchRecord make_record(const char *metric, int is_lower_better, double value) {
    return (EsBenchRecord){.suite = "s",
                           .name = "c",
                           .parameters = "E=4 kind=fast",
                           .metric = metric,
                           .unit = "u",
                           .is_lower_better = is_lower_better,
                           .summary = {value, 0.1, 5}};
}

TEST(ratio_says_times_better) {
    const char *path = temp_path("records.json");
    FILE *file = fopen(path, "w");
    EsBenchOrigin origin = {"commit", "device", "build", "esper bench", "2026-01-01T00:00:00Z"};
    EsBenchRecords before = {0}, after = {0};
    EsBenchRecord records[] = {make_record("time", 1, 10), make_record("rate", 0, 10),
                               make_record("other", 0, 1)};
    for (int i = 0; i < 3; i++) {
        REQUIRE_OK(es_bench_records_add(&before, &records[i]));
        records[i].summary.median *= 2;
    }
    REQUIRE_OK(es_bench_records_print_json(&before, &origin, file));
    fclose(file);
    records[2].parameters = "E=5 kind=fast";
    for (int i = 0; i < 3; i++) {
        REQUIRE_OK(es_bench_records_add(&after, &records[i]));
    }
    REQUIRE_OK(es_bench_records_compare(&after, path));
    EXPECT_TEXT(after.record[0].peer, "baseline");
    EXPECT_NEAR(after.record[0].ratio, 0.5, 1e-12); // twice the time
    EXPECT_NEAR(after.record[1].ratio, 2.0, 1e-12); // twice the rate
    EXPECT(after.record[0].is_change && after.record[1].is_change);
    EXPECT(after.record[2].peer == NULL); // other parameters: another case
    unlink(path);
    EXPECT_STATUS(es_bench_records_compare(&after, path), INPUT);
    es_bench_records_destroy(&before);
    es_bench_records_destroy(&after);
}

TEST(commands_are_what_a_shell_reads) {
    char *const arguments[] = {"bench", "--filter", "E=4 H=8", "it's", "", "--sweep=envs=1,4"};
    EsText text = {0};
    REQUIRE_OK(es_bench_write_command(6, arguments, &text));
    EXPECT_TEXT(text.bytes, "esper bench --filter 'E=4 H=8' 'it'\\''s' '' --sweep=envs=1,4");
    es_text_destroy(&text);
}

// However long and whatever its bytes, a command is whole and is in the record.
TEST(every_command_reaches_its_record) {
    char quotes[1201], expected[4 * 1200 + 16] = "esper '";
    memset(quotes, '\'', 1200);
    quotes[1200] = '\0';
    for (int i = 0; i < 1200; i++) {
        memcpy(expected + 7 + 4 * i, "'\\''", 5);
    }
    memcpy(expected + 7 + 4 * 1200, "'", 2);
    char *const arguments[] = {quotes}, *const foreign[] = {"a\xff z\xc3\xa4"};
    EsText text = {0};
    REQUIRE_OK(es_bench_write_command(1, arguments, &text));
    EXPECT_TEXT(text.bytes, expected);
    es_text_reset(&text);
    REQUIRE_OK(es_bench_write_command(1, foreign, &text));
    EXPECT_TEXT(text.bytes, "esper 'a\xef\xbf\xbd z\xc3\xa4'");

    char json[2048] = "";
    EsBenchOrigin origin = {
        .commit = "c", .device = "d", .build = "b", .command = text.bytes, .date = "now"};
    EsBenchRecords records = {0};
    EsBenchRecord record = {
        .suite = "s", .name = "n", .parameters = "", .metric = "time", .unit = "ms"};
    REQUIRE_OK(es_bench_records_add(&records, &record));
    FILE *file = fmemopen(json, sizeof json, "w");
    ES_ASSERT(file != NULL);
    REQUIRE_OK(es_bench_records_print_json(&records, &origin, file));
    fclose(file);
    EXPECT_CONTAINS(json, "\"command\": \"esper 'a\xef\xbf\xbd z\xc3\xa4'\"");
    es_bench_records_destroy(&records);
    es_text_destroy(&text);
}

TEST(options_take_every_form) {
    int n_samples = 0, flag = 7;
    double rate = 0;
    const char *text = "?";
    struct {
        int y, z;
    } settings;
    const EsConfigKey keys[] = {
        {"x", "y", ES_CONFIG_TYPE_INT, 0, sizeof(int), "3", 0, 9, NULL, "first"},
        {"x", "z", ES_CONFIG_TYPE_BOOL, sizeof(int), sizeof(int), "off", 0, 1, NULL, "second"},
    };
    const EsConfig config = {keys, 2, &settings, sizeof settings};
    const EsOption options[] = {
        ES_OPTION_INT("samples", &n_samples, "11", 5, 100, "N", "samples"),
        ES_OPTION_FLOAT("rate", &rate, "0.5", 0, 1, "X", "rate"),
        ES_OPTION_TEXT("text", &text, NULL, "T", "text"),
        ES_OPTION_FLAG("flag", &flag, "flag"),
        ES_OPTION_KEY("why", "x.y", "N"),
        ES_OPTION_KEY("zed", "x.z", NULL),
    };
    EsOptionTable table = {.command = "c",
                           .usage = "",
                           .summary = "",
                           .example = "",
                           .options = options,
                           .n_options = 6,
                           .max_positional = 2,
                           .config = &config};
    EsArguments arguments;
    char *none[] = {"c"};
    REQUIRE_OK(es_options_parse(&table, 1, none, &arguments));
    EXPECT_EQ(n_samples, 11);
    EXPECT(rate == 0.5 && text == NULL && flag == 0);
    char *all[] = {"c",       "a",      "--samples", "7",  "--rate=0.25",
                   "--text=", "--flag", "--x.y=1",   "--", "--b"};
    REQUIRE_OK(es_options_parse(&table, 10, all, &arguments));
    EXPECT_EQ(n_samples, 7);
    EXPECT(rate == 0.25 && flag == 1);
    EXPECT_TEXT(text, "");
    EXPECT_EQ(arguments.n_positional, 2);
    EXPECT_TEXT(arguments.positional[1], "--b");
    EXPECT_EQ(arguments.n_overrides, 1);
    EXPECT_TEXT(arguments.overrides[0].text, "--x.y=1");
    // the later of two settings wins; a key that is on or off takes no value
    char *keyed[] = {"c", "--x.y=1", "--why", "4", "--zed"};
    REQUIRE_OK(es_options_parse(&table, 5, keyed, &arguments));
    es_config_reset(&config);
    REQUIRE_OK(es_options_apply(&table, &arguments));
    EXPECT_EQ(settings.y, 4);
    EXPECT_EQ(settings.z, 1);
    char *outside[] = {"c", "--why=10"};
    REQUIRE_OK(es_options_parse(&table, 2, outside, &arguments));
    EXPECT_STATUS(es_options_apply(&table, &arguments), CONFIG);
    char *valued[] = {"c", "--zed=1"};
    EXPECT_STATUS(es_options_parse(&table, 2, valued, &arguments), ARGUMENT);
    char *wide[] = {"c", "--rate", "nan"};
    EXPECT_STATUS(es_options_parse(&table, 3, wide, &arguments), ARGUMENT);
    EXPECT_TEXT(es_status_detail(), "--rate: \"nan\" is not a number");
    char *huge[] = {"c", "--samples=99999999999999999999"};
    EXPECT_STATUS(es_options_parse(&table, 2, huge, &arguments), ARGUMENT);
    EXPECT_TEXT(es_status_detail(), "--samples: 99999999999999999999 is outside 5..100");
    char *junk[] = {"c", "--samples=+-5"};
    EXPECT_STATUS(es_options_parse(&table, 2, junk, &arguments), ARGUMENT);
    table.config = NULL;
    table.n_options = 4;
    char *override[] = {"c", "--x.y=1"};
    EXPECT_STATUS(es_options_parse(&table, 2, override, &arguments), ARGUMENT);
    char *help[] = {"c", "--nonsense", "--help"};
    REQUIRE_OK(es_options_parse(&table, 3, help, &arguments));
    EXPECT_EQ(arguments.wants_help, 1);
}

// --- sweeps ---

TEST(sweep_reads_names_and_values) {
    EsBenchSweep sweep;
    REQUIRE_OK(es_bench_sweep_parse(NULL, &sweep));
    EXPECT_EQ(sweep.what, ES_BENCH_SWEPT_NONE);
    EXPECT_EQ(sweep.n_values, 1);
    REQUIRE_OK(es_bench_sweep_parse("envs=1,4,65536", &sweep));
    EXPECT_EQ(sweep.what, ES_BENCH_SWEPT_ENVS);
    EXPECT_EQ(sweep.n_values, 3);
    EXPECT_EQ(sweep.values[0], 1);
    EXPECT_EQ(sweep.values[2], 65536);
    REQUIRE_OK(es_bench_sweep_parse("threads=2", &sweep));
    EXPECT_EQ(sweep.what, ES_BENCH_SWEPT_THREADS);
    EXPECT_TEXT(es_bench_swept_name(sweep.what), "threads");
}

TEST(sweep_refuses_what_it_does_not_know) {
    static const char *const wrong[] = {
        "",           "envs",    "envs=",   "envs=1,",  "envs=,1",  "envs=x",     "envs=0",
        "envs=65537", "envs=-1", "envs= 1", "envs=1x",  "envs=1,1", "env=1",      "seeds=1",
        "envs=+1",    "=1",      "Envs=1",  "envs=1;2", "envs=1.5", "hidden=4097"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        EsBenchSweep sweep;
        if (es_bench_sweep_parse(wrong[i], &sweep) != ES_STATUS_ARGUMENT) {
            ES_TEST_FAIL("\"%s\" was taken", wrong[i]);
        }
    }
}

// --- counts ---

static void add_count(EsBenchRecords *records, const char *parameters, const char *metric,
                      double value) {
    EsBenchRecord record = {.suite = "sync",
                            .name = "growth",
                            .parameters = parameters,
                            .metric = metric,
                            .unit = "u",
                            .is_lower_better = 1,
                            .summary = {value, 0, 8}};
    REQUIRE_OK(es_bench_records_add(records, &record));
}

TEST(counts_that_stay_pass) {
    EsBenchRecords records = {NULL, 0, 0};
    add_count(&records, "E=16 a", "copies", 2);
    add_count(&records, "E=4 a", "copies", 2);
    add_count(&records, "E=64 a", "copies", 1); // fewer is no growth
    add_count(&records, "E=16 b", "copies", 9); // another case
    add_count(&records, "E=64 a", "launches", 5);
    EXPECT_STATUS(es_bench_count_compare(&records, "sync"), OK);
    EXPECT_TEXT(records.record[0].peer, "fewest environments");
    EXPECT_NEAR(records.record[0].ratio, 1, 0);
    EXPECT(records.record[1].peer == NULL && records.record[3].peer == NULL);
    EXPECT_NEAR(records.record[2].ratio, 2, 0);
    EXPECT_STATUS(es_bench_count_compare(&records, "other"), OK);
    es_bench_records_destroy(&records);
}

TEST(counts_that_grow_fail) {
    EsBenchRecords records = {NULL, 0, 0};
    add_count(&records, "E=1 a", "copies", 0);
    add_count(&records, "E=8 a", "copies", 0.125); // once in eight runs
    EXPECT_STATUS(es_bench_count_compare(&records, "sync"), NUMERIC);
    EXPECT_CONTAINS(es_status_detail(),
                    "copies grow with the number of environments: 0 per step at "
                    "E=1, 0.125 at E=8");
    EXPECT(records.record[1].is_change);
    EXPECT_NEAR(records.record[1].ratio, 0, 0);
    es_bench_records_destroy(&records);
}
