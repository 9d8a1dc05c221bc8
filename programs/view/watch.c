// `esper watch`: a run in the terminal, live or replayed; plain lines where there is no terminal.
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/memory.h"
#include "cli/frame.h"
#include "cli/options.h"
#include "runs/stop_signal.h"
#include "view/screen.h"
#include "view/watch_frame.h"

// a look at the run's files, and a round of a replay
#define REFRESH_MS 1000

static EsStatus draw(EsWatchFrame *frame, const char *path, const EsWatchPosition *position,
                     int width, int height) {
    EsRunView *view = NULL;
    ES_TRY(es_run_view_open(path, &view)); // anew each time: the run goes on, and may be replaced
    EsStatus status = es_watch_frame_draw(frame, view, position, width, height);
    es_run_view_close(view);
    return status;
}

static EsStatus print_lines(EsWatchFrame *frame, const char *path,
                            const EsWatchPosition *position) {
    ES_TRY(draw(frame, path, position, 100, 0));
    for (int i = 0; i < frame->n_lines; i++) {
        const EsScreenLine *line = &frame->lines[i];
        int n_margin = line->style == ES_LINE_BAR && line->text[0] == ' ';
        printf("%s%s\n", line->style == ES_LINE_TITLE ? "\n" : "", line->text + n_margin);
    }
    return ES_STATUS_OK;
}

// Returns whether the key was to quit.
static int take_key(int key, const EsWatchFrame *frame, EsWatchPosition *position) {
    int64_t round = position->round > 0 ? position->round : frame->last_round;
    switch (key) {
    case 'q':
    case 3: // Ctrl-C, where the terminal makes no signal of it
        return 1;
    case ES_KEY_LEFT:
        position->env = ES_MAX(position->env - 1, 0);
        break;
    case ES_KEY_RIGHT:
        position->env = ES_MIN(position->env + 1, frame->n_envs - 1);
        break;
    case 'a':
        position->env = -1;
        break;
    case ES_KEY_UP:
        position->round = round < frame->last_round ? round + 1 : 0;
        break;
    case ES_KEY_DOWN:
        position->round = ES_MAX(round - 1, 1);
        break;
    case 'l':
        position->round = position->is_replay = 0;
        break;
    case 'r':
        position->is_replay = 1;
        position->round = 1;
        break;
    case '?':
        position->wants_help = !position->wants_help;
        break;
    default:
        break;
    }
    return 0;
}

// A replay ends where the run is.
static void advance(const EsWatchFrame *frame, EsWatchPosition *position) {
    if (position->is_replay && position->round < frame->last_round) {
        position->round++;
    } else if (position->is_replay) {
        position->round = position->is_replay = 0;
    }
}

// Draws until a key or a signal ends it. A run that cannot be read keeps its last frame.
static void follow(EsWatchFrame *frame, EsWatchFrame *next, const char *path,
                   EsWatchPosition *position) {
    int width, height, is_over = 0;
    while (!is_over && es_stop_signal_time_ns() == 0) {
        es_screen_size(&width, &height);
        if (draw(next, path, position, ES_MAX(width, 20), ES_MAX(height, 5)) == ES_STATUS_OK) {
            EsWatchFrame *drawn = next;
            next = frame;
            frame = drawn;
        } else {
            es_watch_frame_mark_old(frame, es_status_detail());
        }
        es_screen_draw(frame->lines, frame->n_lines);
        int key = es_screen_key(REFRESH_MS);
        is_over = take_key(key, frame, position);
        if (key == ES_KEY_NONE) {
            advance(frame, position);
        }
    }
}

static EsStatus watch(const char *path, int is_replay) {
    EsWatchFrame *frames = NULL; // shown, and to draw the next on
    EsWatchPosition position = {.env = -1, .is_replay = is_replay, .round = is_replay ? 1 : 0};
    setlocale(LC_CTYPE, "");
    ES_TRY(es_allocate(2 * sizeof *frames, (void **)&frames));
    // a run that cannot be read says so before the screen is taken
    EsStatus status = draw(&frames[0], path, &position, 80, 24);
    if (status == ES_STATUS_OK && es_screen_open()) {
        status = es_stop_signal_begin(NULL, NULL);
        if (status == ES_STATUS_OK) {
            follow(&frames[0], &frames[1], path, &position);
            es_stop_signal_end();
        }
        es_screen_close();
    } else if (status == ES_STATUS_OK) {
        status = print_lines(&frames[0], path, &position);
    }
    es_release(frames);
    return status;
}

static void print_more(void) {
    printf(
        "\nkeys: q quit, left and right: environment (a: the most accurate), up and down: round,\n"
        "r replay, l live, ? help. Better in a larger terminal: from 120 columns on there are two\n"
        "columns. Where stdin or stdout is no terminal, and in a build without ncurses, the state\n"
        "of the run is printed once, as plain lines.\n");
}

EsExit cmd_watch(int argc, char **argv) {
    int is_replay = 0;
    const EsOption options[] = {
        ES_OPTION_FLAG("replay", &is_replay, "begin with the first round, one round a second"),
    };
    const EsOptionTable table = {
        .command = "watch",
        .usage = "[options] RUN",
        .summary =
            "Watch a run in the terminal: curves, the policy's health, speed, environments,\n"
            "seeds and decisions, the rails of a fit, proofs, anomalies and the newest events.\n"
            "The run may be going on or be over; it is not touched.",
        .example = "esper watch runs/demo",
        .print_more = print_more,
        .options = options,
        .n_options = ES_COUNT_OF(options),
        .max_positional = 1,
    };
    EsArguments arguments;
    EsExit code;
    if (!es_options_begin(&table, argc, argv, &arguments, &code)) {
        return code;
    }
    EsStatus status = arguments.n_positional == 1
                          ? watch(arguments.positional[0], is_replay)
                          : ES_FAIL(ARGUMENT, "which run? give a run folder");
    return es_command_finish("watch", status);
}
