// Parts of views: the state of slots at a step, and tables of a real database, in buckets and out
// of old schemas.
#include <sqlite3.h>
#include <sys/stat.h>

#include "es_test.h"
#include "html_text.h"
#include "telemetry/sample_run.h"
#include "telemetry/text.h"
#include "temp_folder.h"
#include "view/chart.h"
#include "view/network_picture.h"
#include "view/panels.h"
#include "view/run_view.h"
#include "view/watch_frame.h"

TEST(slots_are_in_the_order_of_the_host) {
    EsPicture picture = {.n_slots = 0};
    es_picture_add_list(&picture, "r0c1,r1c0,, r0c0,all,r0c1,r-1c0,r0c1x,rc");
    EXPECT_EQ(picture.n_slots, 3);
    EXPECT_TEXT(picture.slots[0].name, "r0c0");
    EXPECT_TEXT(picture.slots[1].name, "r1c0");
    EXPECT_TEXT(picture.slots[2].name, "r0c1");
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "r0c%d", i);
        es_picture_add_slot(&picture, name);
    }
    EXPECT_EQ(picture.n_slots, ES_PICTURE_MAX_SLOTS);
}

TEST(a_slot_at_a_step) {
    json_t *seeds =
        json_pack("{s:[s,s], s:[s,s], s:[i,i], s:[i,n], s:[i,i], s:[f,n]}", "slot", "r0c0", "r0c0",
                  "blueprint", "norm", "conv_heavy", "germinated_step", 2, 20, "fossilized_step",
                  99, "n_parameters", 8, 90, "contribution", 1.5);
    json_t *stages =
        json_pack("{s:[i,i,i,i,i], s:[s,s,s,s,s], s:[s,s,s,s,s], s:[f,f,f,f,f]}", "step", 2, 4, 8,
                  10, 20, "slot", "r0c0", "r0c0", "r0c0", "r0c0", "r0c0", "to_stage", "TRAINING",
                  "BLENDING", "PRUNED", "DORMANT", "GERMINATED", "alpha", 0.0, 0.0, 1.0, 0.0, 0.0);
    json_t *contributions =
        json_pack("{s:[i], s:[s], s:[f]}", "step", 6, "slot", "r0c0", "contribution", -2.5);
    const EsEpisodeTables episode = {seeds, stages, contributions, NULL, NULL};
    EsPicture picture = {.n_slots = 0};
    EsPictureSlot *slot = &picture.slots[0];
    es_picture_add_slot(&picture, "r0c0");
    es_picture_set_step(&picture, &episode, 1);
    EXPECT_TEXT(slot->stage, ""); // not yet
    es_picture_set_step(&picture, &episode, 3);
    EXPECT_TEXT(slot->stage, "TRAINING");
    EXPECT_TEXT(slot->blueprint, "norm");
    EXPECT(slot->is_alpha_exact && isnan(slot->contribution));
    es_picture_set_step(&picture, &episode, 6); // half of the blend, which is not recorded
    EXPECT_TEXT(slot->stage, "BLENDING");
    EXPECT_NEAR(slot->alpha, 0.5, 1e-12);
    EXPECT(!slot->is_alpha_exact);
    EXPECT_NEAR(slot->contribution, -2.5, 1e-12);
    es_picture_set_step(&picture, &episode, 12);
    EXPECT_TEXT(slot->stage, ""); // pruned
    es_picture_set_step(&picture, &episode, 25);
    EXPECT_TEXT(slot->blueprint, "conv_heavy");
    EXPECT(isnan(slot->contribution)); // that one was of the seed before
    EXPECT_EQ(es_episode_last_step(&episode), 20);
    json_decref(seeds);
    json_decref(stages);
    json_decref(contributions);
}

// --- tables ---

static EsRunView *open_sample(const char *folder, int n_rounds) {
    char path[4096];
    EsRunView *view = NULL;
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "%s/run.db", folder);
    EXPECT_STATUS(write_sample_run(path, n_rounds), OK);
    EXPECT_STATUS(es_run_view_open(folder, &view), OK);
    return view;
}

// Changes the database of a run.
static void change(const char *folder, const char *sql) {
    char path[4200];
    sqlite3 *db = NULL;
    snprintf(path, sizeof path, "%s/run.db", folder);
    EXPECT_EQ(sqlite3_open(path, &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

TEST(curves_in_buckets) {
    const char *folder = temp_path("run");
    EsRunView *view = open_sample(folder, 100);
    json_t *table = NULL;
    EXPECT_STATUS(es_run_view_read(view, "curves", &(EsViewQuestion){0}, &table), OK);
    EXPECT_EQ(es_table_n_rows(table), 100);
    json_decref(table);
    EXPECT_STATUS(es_run_view_read(view, "curves", &(EsViewQuestion){.n_points = 30}, &table), OK);
    EXPECT_EQ(es_table_n_rows(table), 25); // four rounds each
    EXPECT_EQ((int)es_column_real(table, "round", 0), 4);
    EXPECT_EQ((int)es_column_real(table, "round", 24), 100);
    EXPECT_EQ((int)es_column_real(table, "n", 24), 4);
    json_decref(table);
    EXPECT_STATUS(es_run_view_read(view, "curves; DROP TABLE meta", &(EsViewQuestion){0}, &table),
                  ARGUMENT);
    es_run_view_close(view);
}

// The tables of a run hold the same numbers, up to the order in which they were added.
static void expect_same(const json_t *a, const json_t *b) {
    const char *column;
    json_t *cells;
    EXPECT_EQ(es_table_n_rows(a), es_table_n_rows(b));
    EXPECT_EQ((int)json_object_size(a), (int)json_object_size(b));
    json_object_foreach((json_t *)b, column, cells) {
        for (int i = 0; i < (int)json_array_size(cells); i++) {
            double x = es_column_real(a, column, i), y = es_column_real(b, column, i);
            if (!(isnan(x) && isnan(y)) && !(fabs(x - y) <= 1e-9 * (1 + fabs(y)))) {
                ES_TEST_FAIL("%s, row %d: %.17g, expected %.17g", column, i, x, y);
            }
        }
    }
}

TEST(curves_are_the_same_without_summaries) {
    static const char *const names[] = {"curves", "utilisation", "episodes", "updates", "proofs"};
    const char *folder = temp_path("run");
    const EsViewQuestion question = {.n_points = 30}; // 32 rounds each
    json_t *summed[ES_COUNT_OF(names)], *table = NULL;
    EsRunView *view = open_sample(folder, 700);
    for (size_t i = 0; i < ES_COUNT_OF(names); i++) {
        EXPECT_STATUS(es_run_view_read(view, names[i], &question, &summed[i]), OK);
    }
    EXPECT_EQ(es_table_n_rows(summed[0]), 22);
    es_run_view_close(view);
    change(folder, "DROP TABLE summary_round_completed; DROP TABLE summary_update_completed;\n"
                   "DROP TABLE summary_episode_outcome; DROP TABLE summary_proof_round");
    EXPECT_STATUS(es_run_view_open(folder, &view), OK);
    for (size_t i = 0; i < ES_COUNT_OF(names); i++) {
        EXPECT_STATUS(es_run_view_read(view, names[i], &question, &table), OK);
        expect_same(summed[i], table);
        json_decref(summed[i]);
        json_decref(table);
    }
    es_run_view_close(view);
}

// The summaries, and not the rows, are what long curves are read from.
TEST(curves_are_read_from_summaries) {
    const char *folder = temp_path("run");
    json_t *table = NULL;
    es_run_view_close(open_sample(folder, 700));
    change(folder, "UPDATE event_round_completed SET accuracy = -1 WHERE round <= 688");
    EsRunView *view = NULL;
    EXPECT_STATUS(es_run_view_open(folder, &view), OK);
    EXPECT_STATUS(es_run_view_read(view, "curves", &(EsViewQuestion){.n_points = 30}, &table), OK);
    EXPECT_NEAR(es_column_real(table, "accuracy", 0), 50.5 + 2 * 16.5, 1e-9);
    json_decref(table);
    // by eight rounds there are few rows: those are read
    EXPECT_STATUS(es_run_view_read(view, "curves", &(EsViewQuestion){.n_points = 100}, &table), OK);
    EXPECT_NEAR(es_column_real(table, "accuracy", 0), -1, 1e-9);
    json_decref(table);
    es_run_view_close(view);
}

// Every decision on the stride counts, not those of some rounds.
TEST(shares_of_operations_are_of_all_rounds) {
    const char *folder = temp_path("run");
    char path[4200];
    EsSink sink;
    EsRunView *view = NULL;
    json_t *table = NULL;
    double n = 0;
    EXPECT_EQ(mkdir(folder, 0777), 0);
    snprintf(path, sizeof path, "%s/run.db", folder);
    EXPECT_STATUS(es_sqlite_sink_open(path, -1, &sink), OK);
    EXPECT_STATUS(send_start(&sink), OK);
    for (int64_t round = 1; round <= 100; round++) {
        EXPECT_STATUS(send_missing(&sink, ES_EVENT_ENV_STEPPED, (EsEventTime){round, 0}), OK);
        EXPECT_STATUS(send_round(&sink, round), OK);
    }
    EXPECT_STATUS(sink.flush(sink.state), OK);
    EXPECT_STATUS(es_run_view_open(folder, &view), OK);
    EXPECT_STATUS(es_run_view_read(view, "actions", &(EsViewQuestion){.n_points = 30}, &table), OK);
    for (int i = 0; i < es_table_n_rows(table); i++) {
        n += es_column_real(table, "n", i);
    }
    EXPECT_EQ((int)n, 200); // two environments, the first step of each round
    EXPECT_EQ((int)es_column_real(table, "round", es_table_n_rows(table) - 1), 100);
    json_decref(table);
    es_run_view_close(view);
    sink.close(sink.state);
}

// Of more records of an episode than a table holds there are the newest, and the panel says so.
TEST(a_full_table_says_so) {
    const char *folder = temp_path("run");
    es_run_view_close(open_sample(folder, 1));
    change(folder,
           "WITH RECURSIVE many(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM many WHERE\n"
           "  i < 20010) INSERT INTO event_seed_stage_changed (sequence, row, round, step,\n"
           "  env, slot, seed_id, to_stage) SELECT 1000 + i, 0, 1, i, 0, 'r0c1', 'a1',\n"
           "  'TRAINING' FROM many");
    EsRunView *view = NULL;
    json_t *table = NULL;
    EsText text = {0};
    const EsViewQuestion question = {.round = 1};
    EXPECT_STATUS(es_run_view_open(folder, &view), OK);
    EXPECT_STATUS(es_run_view_read(view, "stages", &question, &table), OK);
    EXPECT_EQ(es_table_n_rows(table), ES_TABLE_MAX_ROWS);
    EXPECT_EQ((int)es_column_real(table, "step", ES_TABLE_MAX_ROWS - 1), 20010);
    json_decref(table);
    const EsPanelInput input = {&view, 1, question, -1};
    EXPECT_STATUS(es_panel_draw(es_panel_find("network"), &input, &text), OK);
    EXPECT(strstr(string_of(&text),
                  "more than is shown: of the changes of stage the newest 20000") != NULL);
    es_text_destroy(&text);
    es_run_view_close(view);
}

// The rails' percentiles are of so many epochs, and say it.
TEST(epochs_of_a_long_fit) {
    const char *folder = temp_path("run");
    es_run_view_close(open_sample(folder, 3));
    change(folder, "UPDATE event_run_started SET kind = 'fit'; DELETE FROM event_metric;\n"
                   "WITH RECURSIVE many(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM many WHERE\n"
                   "  i < 2500) INSERT INTO event_metric (sequence, row, round, name, value)\n"
                   "  SELECT 1000 + i, 0, i, 'tolaria.training.latency_ms', i FROM many;\n"
                   "INSERT INTO event_metric (sequence, row, round, name, value) VALUES\n"
                   "  (9000, 0, 2500, 'tolaria.hook.latency_ms', 7.5)");
    EsRunView *view = NULL;
    json_t *table = NULL;
    EsText text = {0};
    EXPECT_STATUS(es_run_view_open(folder, &view), OK);
    EXPECT_STATUS(es_run_view_read(view, "epochs", &(EsViewQuestion){0}, &table), OK);
    EXPECT_EQ(es_table_n_rows(table), 2000);
    EXPECT_EQ((int)es_column_real(table, "latency_ms", 0), 501);
    EXPECT_NEAR(es_column_real(table, "hook_ms", 1999), 7.5, 0);
    EXPECT(isnan(es_column_real(table, "hook_ms", 1998)));
    json_decref(table);
    const EsPanelInput input = {&view, 1, {0}, -1};
    EXPECT_STATUS(es_panel_draw(es_panel_find("rails"), &input, &text), OK);
    EXPECT(strstr(string_of(&text), "of the newest 2000 epochs") != NULL);
    es_text_destroy(&text);
    es_run_view_close(view);
}

TEST(every_table_can_be_read) {
    const char *folder = temp_path("run");
    EsRunView *view = open_sample(folder, 3);
    for (int i = 0; i < es_view_table_count(); i++) {
        json_t *table = NULL;
        const char *name = es_view_table_name(i);
        EXPECT_STATUS(es_run_view_read(view, name, &(EsViewQuestion){0}, &table), OK);
        // a query that the schema refuses has no columns
        if (json_object_size(table) == 0) {
            ES_TEST_FAIL("table %s does not fit the schema", name);
        }
        EXPECT(es_view_table_help(i)[0] != '\0');
        json_decref(table);
    }
    es_run_view_close(view);
}

// The first line of a frame that contains `part`; "" when there is none.
static const char *line_with(const EsWatchFrame *frame, const char *part) {
    for (int i = 0; i < frame->n_lines; i++) {
        if (strstr(frame->lines[i].text, part) != NULL) {
            return frame->lines[i].text;
        }
    }
    return "";
}

TEST(a_frame_ends_at_its_round) {
    const char *folder = temp_path("run");
    static EsWatchFrame frame;
    es_run_view_close(open_sample(folder, 6));
    // environments were recorded up to round 2 only, and a time and a loss are missing
    change(folder, "DELETE FROM event_env_stepped WHERE round > 2;\n"
                   "UPDATE event_seed_germinated SET unix_time = NULL;\n"
                   "UPDATE event_round_completed SET loss = NULL WHERE round = 3");
    EsRunView *view = NULL;
    EXPECT_STATUS(es_run_view_open(folder, &view), OK);
    EsWatchPosition position = {.env = -1};
    EXPECT_STATUS(es_watch_frame_draw(&frame, view, &position, 80, 0), OK);
    EXPECT(strstr(line_with(&frame, "accuracy  "), "62.50 %") != NULL); // of round 6
    EXPECT(line_with(&frame, "germinated")[0] != '\0');
    position.round = 4;
    EXPECT_STATUS(es_watch_frame_draw(&frame, view, &position, 80, 0), OK);
    EXPECT(strstr(line_with(&frame, "accuracy  "), "58.50 %") != NULL);
    es_run_view_close(view);
    // of a long run the number of its last round, not the mean of the last bucket, and all its bars
    es_run_view_close(open_sample(temp_path("long"), 700));
    EXPECT_STATUS(es_run_view_open(temp_path("long"), &view), OK);
    position = (EsWatchPosition){.env = -1};
    EXPECT_STATUS(es_watch_frame_draw(&frame, view, &position, 80, 0), OK);
    EXPECT(line_with(&frame, "Curves, newest round and means of 8 rounds")[0] != '\0');
    const char *curve = strstr(line_with(&frame, "accuracy  "), "1450.50 %");
    EXPECT(curve != NULL);
    EXPECT(curve != NULL && strlen(curve + 10) == 57); // as wide as the terminal
    es_run_view_close(view);
    position.round = 4;
    EXPECT_STATUS(es_run_view_open(folder, &view), OK);
    EXPECT_STATUS(es_watch_frame_draw(&frame, view, &position, 80, 0), OK);
    es_run_view_close(view);
    // an old frame says so, once, and shows nothing that commands the terminal
    es_watch_frame_mark_old(&frame, "gone\x1b[31m");
    es_watch_frame_mark_old(&frame, "gone twice");
    EXPECT(strncmp(frame.lines[0].text, " not up to date: gone", 21) == 0);
    EXPECT(strstr(frame.lines[0].text, "twice") == NULL);
    EXPECT(strchr(frame.lines[0].text, '\x1b') == NULL);
    EXPECT(strstr(frame.lines[0].text, "[at round 4]") != NULL);
}

TEST(an_earlier_schema_lacks_tables) {
    const char *folder = temp_path("run");
    es_run_view_close(open_sample(folder, 2));
    change(folder, "DROP TABLE event_phase_profiled");
    EsRunView *view = NULL;
    json_t *table = NULL;
    EXPECT_STATUS(es_run_view_open(folder, &view), OK);
    EXPECT_STATUS(es_run_view_read(view, "phases", &(EsViewQuestion){0}, &table), OK);
    EXPECT_EQ(es_table_n_rows(table), 0);
    EXPECT(isnan(es_column_real(table, "total_ms", 0)));
    EXPECT_TEXT(es_column_text(table, "phase", 0), "");
    json_decref(table);
    es_run_view_close(view);
    EXPECT_STATUS(es_run_view_open("/dev/null/none", &view), INPUT);
}

// --- decisions ---

// Draws the panel of decisions of environment 0 in round 1, whose operation's choice is as given.
static void draw_choice(const char *folder, const char *choice, EsText *html) {
    char sql[2000];
    EsRunView *view = NULL;
    snprintf(sql, sizeof sql, "UPDATE event_decision_taken SET op_probabilities = %s", choice);
    change(folder, sql);
    EXPECT_STATUS(es_run_view_open(folder, &view), OK);
    EsPanelInput input = {.views = &view, .n_views = 1, .question = {.round = 1}, .step = -1};
    *html = (EsText){0};
    EXPECT_STATUS(es_panel_decisions(&input, html), OK);
    es_run_view_close(view);
}

static void expect_choice(const char *folder, const char *choice, int n_options, const char *part) {
    EsText html;
    draw_choice(folder, choice, &html);
    const char *text = string_of(&html);
    EXPECT_EQ(count(text, "class=\"option"), 2 * n_options); // two steps
    EXPECT(strstr(text, "<th scope=\"col\">why</th>") != NULL);
    if (strstr(text, part) == NULL) {
        ES_TEST_FAIL("%s: the panel has no \"%s\": %s", choice, part, text);
    }
    EXPECT(strstr(text, "<img") == NULL);
    es_text_destroy(&html);
}

TEST(why_a_decision_was_taken) {
    const char *folder = temp_path("run");
    es_run_view_close(open_sample(folder, 2));
    expect_choice(folder, "'{\"WAIT\":0.4,\"GERMINATE\":0.6}'", 2, "</svg> 40.0 %");
    expect_choice(folder, "'{\"WAIT\":0.4,\"GERMINATE\":0.6}'", 2,
                  "<span class=\"option chosen\">GERMINATE <svg");
    // the four most probable and the chosen one; what has no probability is listed
    expect_choice(folder,
                  "'{\"a\":0.3,\"b\":0.01,\"c\":0.2,\"d\":0.25,\"e\":0.2,\"f\":0.02,"
                  "\"GERMINATE\":0.02}'",
                  5, "and 2 more");
    expect_choice(folder, "'{\"WAIT\":null,\"GERMINATE\":null}'", 2,
                  "<span class=\"option\">WAIT</span>");
    // nothing, or nothing of ours
    expect_choice(folder, "NULL", 0, "GERMINATE");
    expect_choice(folder, "'{}'", 0, "GERMINATE");
    expect_choice(folder, "'[1,2'", 0, "GERMINATE");
    expect_choice(folder, "'[0.5]'", 0, "GERMINATE");
    expect_choice(folder, "17", 0, "GERMINATE");
    expect_choice(folder, "'{\"<img src=x>\":7e300,\"b\":\"<img>\"}'", 2, "&lt;img src=x&gt;");
    expect_choice(folder, "'{\"a\":-1,\"b\":{\"c\":1}}'", 2, "width=\"0.0\"");
    expect_choice(folder,
                  "'{\"0\":0,\"1\":0,\"2\":0,\"3\":0,\"4\":0,\"5\":0,\"6\":0,\"7\":0,\"8\":0,\"9\":"
                  "0,\"10\":0,\"11\":0,\"12\":0,\"13\":0,\"14\":0,\"15\":0,\"16\":0,\"17\":0}'",
                  4, "and 12 more");
    // earlier versions recorded none
    change(folder, "DROP VIEW decisions; DROP VIEW raw_events;\n"
                   "ALTER TABLE event_decision_taken DROP COLUMN blueprint_probabilities");
    expect_choice(folder, "NULL", 0, "GERMINATE");
}

TEST(heads_by_what_was_chosen) {
    const char *folder = temp_path("run");
    EsRunView *view = NULL;
    json_t *table = NULL;
    es_run_view_close(open_sample(folder, 30));
    // shares of operations are of the stride's steps, here the first
    change(folder, "DELETE FROM event_env_stepped; INSERT INTO event_env_stepped (sequence, row,\n"
                   "  round, step, env) SELECT sequence, row, round, step, env\n"
                   "FROM event_decision_taken WHERE step = 0;\n"
                   "DELETE FROM event_decision_taken WHERE step = 10 AND op = 'WAIT'");
    EXPECT_STATUS(es_run_view_open(folder, &view), OK);
    EXPECT_STATUS(es_run_view_read(view, "heads", &(EsViewQuestion){.round = 25}, &table), OK);
    // 20 rounds of two steps, in which one environment germinates and the other waits
    EXPECT_TEXT(es_column_text(table, "head", 0), "op");
    EXPECT_TEXT(es_column_text(table, "value", 1), "WAIT");
    EXPECT_NEAR(es_column_real(table, "n", 1), 20, 0);
    EXPECT_NEAR(es_column_real(table, "percent", 1), 50, 0);
    EXPECT_TEXT(es_column_text(table, "head", 2), "slot");
    EXPECT_TEXT(es_column_text(table, "value", 2), "r0c1");
    EXPECT_NEAR(es_column_real(table, "n", 2), 40, 0);
    EXPECT_NEAR(es_column_real(table, "percent", 2), 100, 0);
    int n = es_table_n_rows(table);
    EXPECT_TEXT(es_column_text(table, "head", n - 1), "alpha_target");
    EXPECT_TEXT(es_column_text(table, "value", n - 1), "1");
    EXPECT_TEXT(es_column_text(table, "value", n - 2), "2 steps");
    json_decref(table);
    static EsWatchFrame frame;
    EsWatchPosition position = {.round = 25, .env = -1};
    EXPECT_STATUS(es_watch_frame_draw(&frame, view, &position, 80, 0), OK);
    EXPECT_TEXT(line_with(&frame, "operation  "), "operation    GERMINATE 50 %  WAIT 50 %  ");
    EXPECT_TEXT(line_with(&frame, "blueprint  "), "blueprint    norm 100 %  ");
    es_run_view_close(view);
    // where no step of all environments was recorded nothing is said of operations
    change(folder, "DELETE FROM event_env_stepped");
    EXPECT_STATUS(es_run_view_open(folder, &view), OK);
    EXPECT_STATUS(es_watch_frame_draw(&frame, view, &position, 80, 0), OK);
    EXPECT_TEXT(line_with(&frame, "operation  "), "");
    EXPECT_TEXT(line_with(&frame, "slot  "), "slot         r0c1 100 %  ");
    EXPECT_STATUS(es_watch_frame_draw(&frame, view, &position, 80, 24), OK);
    EXPECT_TEXT(line_with(&frame, "Chosen"), "");
    es_run_view_close(view);
}

// --- means over runs ---

// The points of the first line of a chart: how many, and how many changes of height they have.
static void count_points(const char *html, int *n_points, int *n_changes) {
    const char *at = strstr(html, "<path class=\"line c");
    double x, y, before = NAN;
    *n_points = *n_changes = 0;
    at = at != NULL ? strstr(at, " d=\"") : NULL;
    for (at = at != NULL ? at + 4 : ""; sscanf(at, "%*1[ML]%lf %lf", &x, &y) == 2;) {
        *n_changes += *n_points > 0 && y != before;
        before = y;
        ++*n_points;
        at += 1 + strcspn(at + 1, "ML\"");
    }
}

// The accuracy of two sample runs; returns the number of lines. Of the first of them: its points,
// changes of height, and the end of its axis.
static int draw_two(const char *first, const char *second, int *n_points, int *n_changes,
                    double *last_x) {
    EsRunView *views[2] = {NULL, NULL};
    EsText text = {0};
    double first_x = 0;
    EXPECT_STATUS(es_run_view_open(first, &views[0]), OK);
    EXPECT_STATUS(es_run_view_open(second, &views[1]), OK);
    const EsPanelInput input = {views, 2, {.env = -1}, -1};
    EXPECT_STATUS(
        es_panel_draw_curve(&input, &text, "curves", "accuracy", "Accuracy", "percent", 0), OK);
    const char *html = string_of(&text);
    const char *x = strstr(html, "data-x=\"");
    EXPECT(x != NULL && sscanf(x, "data-x=\"%lf %lf", &first_x, last_x) == 2);
    count_points(html, n_points, n_changes);
    int n = count(html, "<li>"); // of the legend
    es_text_destroy(&text);
    es_run_view_close(views[0]);
    es_run_view_close(views[1]);
    return n;
}

TEST(a_mean_over_seeds_of_different_length) {
    char folders[2][4096];
    double last_x = 0;
    int n_points, n_changes;
    snprintf(folders[0], sizeof folders[0], "%s", temp_path("long"));
    snprintf(folders[1], sizeof folders[1], "%s", temp_path("short"));
    es_run_view_close(open_sample(folders[0], 1000));
    es_run_view_close(open_sample(folders[1], 700));
    change(folders[0], "UPDATE event_round_completed SET accuracy = 50, accuracy_std = 0");
    change(folders[1], "UPDATE event_round_completed SET accuracy = 90, accuracy_std = 0");
    // runs of one seed are two lines
    EXPECT_EQ(draw_two(folders[0], folders[1], &n_points, &n_changes, &last_x), 2);
    change(folders[1], "UPDATE event_run_started SET seed = seed + 1");
    // buckets of eight and of four rounds: the mean is 70 as long as both go on, then 50
    EXPECT_EQ(draw_two(folders[0], folders[1], &n_points, &n_changes, &last_x), 1);
    EXPECT_EQ(n_points, 125);
    EXPECT_EQ(n_changes, 1);
    EXPECT(last_x >= 1000);
}

TEST(the_last_round_is_no_mean) {
    const char *folder = temp_path("run");
    es_run_view_close(open_sample(folder, 1000));
    change(folder, "UPDATE event_round_completed SET accuracy = round / 10.0");
    EsRunView *view = NULL;
    json_t *table = NULL;
    EXPECT_STATUS(es_run_view_open(folder, &view), OK);
    EXPECT_STATUS(es_run_view_read(view, "last", &(EsViewQuestion){0}, &table), OK);
    EXPECT_EQ((int)es_column_real(table, "accuracy", 0), 100);
    json_decref(table);
    es_run_view_close(view);
}

TEST(a_database_of_something_else_is_refused) {
    const char *folder = temp_path("run");
    EsRunView *view = NULL;
    es_run_view_close(open_sample(folder, 2));
    change(folder, "DROP VIEW runs");
    EXPECT_STATUS(es_run_view_open(folder, &view), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "not of a run");
}

// --- confusions ---

// Two classes with markup in their names, one grey picture of two pixels, one mistake.
static const char good_confusion[] =
    "{\"format\": \"esper.confusion.1\", \"tensors_sha256\": \"abc\", \"split\": \"test\","
    " \"samples\": 10, \"correct\": 9, \"classes\": [\"<b>cat\", \"d\\\"og\"],"
    " \"cells\": [[0, 0, 4], [0, 1, 1], [1, 1, 5]],"
    " \"picture\": {\"channels\": 1, \"height\": 1, \"width\": 2},"
    " \"mistakes\": [{\"index\": 3, \"label\": 0, \"predicted\": 1, \"probability\": 0.75,"
    " \"pixels\": \"/wA=\"}]}";

static void write_text(const char *folder, const char *name, const char *text, size_t bytes) {
    char path[4200];
    snprintf(path, sizeof path, "%s/networks", folder);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/networks/1", folder);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/networks/1/%s", folder, name);
    FILE *file = fopen(path, "wb");
    EXPECT(file != NULL && fwrite(text, 1, bytes, file) == bytes && fclose(file) == 0);
}

// The panel of a run whose confusion.json is this text.
static void draw_confusion(const char *folder, const char *text, size_t bytes, EsText *html) {
    EsRunView *view = NULL;
    write_text(folder, "network.json", "{\"tensors_sha256\": \"abc\"}", 25);
    write_text(folder, "confusion.json", text, bytes);
    EXPECT_STATUS(es_run_view_open(folder, &view), OK);
    const EsPanelInput input = {&view, 1, {.env = -1}, -1};
    EXPECT_STATUS(es_panel_draw(es_panel_find("confusion"), &input, html), OK);
    es_run_view_close(view);
}

TEST(confusions_are_shown) {
    const char *folder = temp_path("run");
    EsText text = {0};
    es_run_view_close(open_sample(folder, 2));
    draw_confusion(folder, good_confusion, strlen(good_confusion), &text);
    const char *html = string_of(&text);
    EXPECT(strstr(html, "9 of 10 samples of the test split are right, 90.00 %") != NULL);
    EXPECT(strstr(html, "<td class=\"cell hit4\">4 <small>80 %</small></td>"
                        "<td class=\"cell miss3\">1 <small>20 %</small></td>"
                        "<td class=\"number\">5</td><td class=\"number\">80.0 %</td>") != NULL);
    EXPECT(strstr(html, "<td class=\"cell miss0\">0</td><td class=\"cell hit4\">5") != NULL);
    EXPECT(strstr(html, "<b>") == NULL && strstr(html, "d\"og") == NULL);
    EXPECT(strstr(html, "&lt;b&gt;cat \xe2\x86\x92 d&quot;og") != NULL);
    EXPECT(strstr(html, "(75 %) no. 3") != NULL);
    // a bitmap of 2 x 1 pixels, a white and a black one, and two bytes to fill the row
    EXPECT(strstr(html, "\"data:image/bmp;base64,"
                        "Qk0+AAAAAAAAADYAAAAoAAAAAgAAAAEAAAABABgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
                        "////AAAAAAA=\"") != NULL);
    es_text_destroy(&text);
}

TEST(confusions_of_rows_have_their_columns) {
    const char *folder = temp_path("run");
    static const char rows[] =
        "{\"format\": \"esper.confusion.1\", \"tensors_sha256\": \"abc\", \"split\":"
        " \"validation\", \"samples\": 1, \"correct\": 0, \"classes\": [\"a\", \"b\"],"
        " \"cells\": [[1, 0, 1]], \"mistakes\": [{\"index\": 0, \"label\": 1, \"predicted\": 0,"
        " \"probability\": 1.0, \"values\": [{\"column\": 2, \"name\": \"<i>\", \"value\": 1.5},"
        " {\"column\": 7, \"value\": -2}]}]}";
    EsText text = {0};
    es_run_view_close(open_sample(folder, 2));
    draw_confusion(folder, rows, strlen(rows), &text);
    const char *html = string_of(&text);
    EXPECT(strstr(html, "0 of 1 samples of the validation split") != NULL);
    EXPECT(strstr(html, "&lt;i&gt; 1.500, column 7 \xe2\x88\x92"
                        "2</td>") != NULL);
    EXPECT(strstr(html, "<img") == NULL);
    es_text_destroy(&text);
}

// Of 40 classes those that take part in most confusions, in their order; the others in a column.
TEST(confusions_of_many_classes) {
    const char *folder = temp_path("run");
    EsText file = {0}, text = {0};
    es_run_view_close(open_sample(folder, 2));
    es_text_add_string(&file, "{\"format\": \"esper.confusion.1\", \"tensors_sha256\": \"abc\","
                              "\"split\": \"test\", \"samples\": 86, \"correct\": 40,"
                              "\"mistakes\": [], \"classes\": [");
    for (int k = 0; k < 40; k++) {
        es_html_print(&file, "%s\"class%02d\"", k > 0 ? "," : "", k);
    }
    es_text_add_string(&file, "], \"cells\": [");
    for (int k = 0; k < 40; k++) { // one right each; class 39 is taken for the first 31 of them
        es_html_print(&file, "%s[%d,%d,1]", k > 0 ? "," : "", k, k);
    }
    file.length -= strlen("[39,39,1]");
    for (int k = 0; k < 31; k++) {
        es_html_print(&file, "%s[39,%d,%d]", k > 0 ? "," : "", k, k < 15 ? 2 : 1);
    }
    es_text_add_string(&file, ",[39,39,1]]}");
    draw_confusion(folder, file.bytes, file.length, &text);
    const char *html = string_of(&text);
    EXPECT(strstr(html, "the 30 of 40 classes that are confused most") != NULL);
    EXPECT_EQ(count(html, "<tr>"), 1 + 30);
    EXPECT_EQ(count(html, "class=\"cell turned\""), 30);
    EXPECT(strstr(html, "class28") != NULL && strstr(html, "class29") == NULL);
    // its 47 samples: one right, 44 taken for classes that are shown, two for others
    EXPECT(strstr(html, "<td class=\"cell hit1\" title=\"2 %\">1</td>"
                        "<td class=\"cell miss1\" title=\"4 %\">2</td>"
                        "<td class=\"number\">47</td>") != NULL);
    es_text_destroy(&file);
    es_text_destroy(&text);
}

// A file of another network, none, and files that lie: a sentence in place of the matrix.
TEST(bad_confusions_are_refused) {
    static const struct {
        const char *part, *with, *words;
    } lies[] = {
        {"esper.confusion.1", "esper.confusion.2", "is not of the format"},
        {"abc", "abd", "is of another network"},
        {"\"samples\": 10", "\"samples\": 9e99", "&quot;samples&quot; is missing"},
        {"\"samples\": 10", "\"samples\": 11", "have 10 samples, 9 of them right"},
        {"\"correct\": 9", "\"correct\": 8", "say 10 and 8"},
        {"\"correct\": 9", "\"correct\": -1", "&quot;correct&quot; is missing"},
        {"[0, 1, 1]", "[0, 2, 1]", "cells[1] is not"},
        {"[0, 1, 1]", "[0, -1, 1]", "cells[1] is not"},
        {"[0, 1, 1]", "[0, 0, 1]", "cells[1] is out of order"},
        {"[0, 1, 1]", "[0, 1, 9223372036854775807]", "cells[1] is not"},
        {"[0, 1, 1]", "\"x\"", "cells[1] is not"},
        {"[\"<b>cat\", ", "[7, ", "classes[0] is not a text"},
        {"\"width\": 2", "\"width\": 65", "&quot;width&quot; is missing"},
        {"/wA=", "/wAA", "are not 2 bytes"},
        {"/wA=", "/w==", "are not 2 bytes"},
        {"/wA=", "<>A=", "are not 2 bytes"},
        {"\"pixels\": \"/wA=\"", "\"pixels\": 5", "are not 2 bytes"},
        {"\"label\": 0", "\"label\": 2", "&quot;label&quot; is missing"},
        {"0.75", "1.75", "not from 0 to 1"},
        {"\"index\": 3", "\"index\": 10", "&quot;index&quot; is missing"},
        {"\"mistakes\": [", "\"mistakes\": 5, \"x\": [", "not a list of 0 to 24 entries"},
    };
    const char *folder = temp_path("run");
    es_run_view_close(open_sample(folder, 2));
    for (size_t i = 0; i < ES_COUNT_OF(lies); i++) {
        char file[2048];
        const char *at = strstr(good_confusion, lies[i].part);
        EsText text = {0};
        EXPECT(at != NULL);
        snprintf(file, sizeof file, "%.*s%s%s", (int)(at - good_confusion), good_confusion,
                 lies[i].with, at + strlen(lies[i].part));
        draw_confusion(folder, file, strlen(file), &text);
        EXPECT_CONTAINS(string_of(&text), lies[i].words);
        es_text_destroy(&text);
    }
    for (size_t bytes = 0; bytes < strlen(good_confusion); bytes += 7) { // cut short
        EsText text = {0};
        draw_confusion(folder, good_confusion, bytes, &text);
        EXPECT_CONTAINS(string_of(&text), "This panel is not whole: networks/1/confusion.json");
        es_text_destroy(&text);
    }
}

// --- seeds and rails ---

TEST(measured_seeds_are_curves) {
    const char *folder = temp_path("run");
    EsText text = {0};
    EsRunView *view = open_sample(folder, 2);
    EXPECT_STATUS(es_panel_draw_seeds(view, &(EsViewQuestion){.round = 2, .env = 0}, "share",
                                      "Gradient", "share", &text),
                  OK);
    const char *html = string_of(&text);
    EXPECT_CONTAINS(html, "last: r0c1 norm, from step 0 0.5");  // alpha
    EXPECT_CONTAINS(html, "last: r0c1 norm, from step 0 0.25"); // its share
    EXPECT_EQ(count(html, "<figure"), 2);
    es_text_destroy(&text);
    EXPECT_STATUS(es_panel_draw_seeds(view, &(EsViewQuestion){.round = 2, .env = 1}, "share",
                                      "Gradient", "share", &text),
                  OK);
    EXPECT_CONTAINS(string_of(&text), "class=\"empty\"");
    es_text_destroy(&text);
    es_run_view_close(view);
}

TEST(rails_say_what_nothing_measures) {
    const char *folder = temp_path("run");
    EsText text = {0};
    EsRunView *view = open_sample(folder, 2);
    const EsPanelInput input = {&view, 1, {.env = -1}, -1};
    EXPECT_STATUS(es_panel_draw(es_panel_find("rails"), &input, &text), OK);
    const char *html = string_of(&text);
    EXPECT(strstr(html, "<th scope=\"row\">epoch, p95</th><td class=\"number\">21.50 ms</td>") !=
           NULL);
    EXPECT(strstr(html, "<th scope=\"row\">breaker</th><td class=\"number\">closed</td>") != NULL);
    static const char *const missing[] = {
        "tolaria.train.compile_enabled",    "tolaria.train.graph_enabled",
        "tolaria.compile_warmup_remaining", "kasmina.prefetch.inflight",
        "tolaria.grad_agg.conflict_ratio",  "tolaria.grad_agg.teacher_share"};
    for (size_t i = 0; i < ES_COUNT_OF(missing); i++) {
        char row[160];
        snprintf(row, sizeof row, "not measured</td><td class=\"number\"></td><td>%s</td></tr>",
                 missing[i]);
        EXPECT_CONTAINS(html, row);
    }
    es_text_destroy(&text);
    es_run_view_close(view);
}

TEST(utilisation_is_missing_in_earlier_schemas) {
    const char *folder = temp_path("run");
    static EsWatchFrame frame;
    EsRunView *view = open_sample(folder, 3);
    json_t *table = NULL;
    EXPECT_STATUS(es_run_view_read(view, "utilisation", &(EsViewQuestion){0}, &table), OK);
    EXPECT_NEAR(es_column_real(table, "utilisation", 2), 87.5, 1e-12);
    json_decref(table);
    EXPECT_STATUS(es_watch_frame_draw(&frame, view, &(EsWatchPosition){.env = -1}, 80, 0), OK);
    EXPECT_CONTAINS(line_with(&frame, "s per round"), "88 % busy");
    es_run_view_close(view);
    change(folder,
           "DROP VIEW throughput; ALTER TABLE event_round_completed DROP COLUMN utilisation");
    EXPECT_STATUS(es_run_view_open(folder, &view), OK);
    EXPECT_STATUS(es_watch_frame_draw(&frame, view, &(EsWatchPosition){.env = -1}, 80, 0), OK);
    EXPECT(strstr(line_with(&frame, "s per round"), "busy") == NULL);
    EXPECT(line_with(&frame, "s per round")[0] != '\0');
    es_run_view_close(view);
}
