// A run as lines for a terminal: sections one below the other, in two columns where there is room.
//
//     EsWatchFrame *frame; ...
//     ES_TRY(es_watch_frame_draw(frame, view, &position, 80, 24));
//     es_screen_draw(frame->lines, frame->n_lines);
#ifndef ES_PROGRAMS_WATCH_FRAME_H
#define ES_PROGRAMS_WATCH_FRAME_H

#include "view/run_view.h"
#include "view/screen.h"

#define ES_WATCH_MAX_LINES 400

// The part of the run that is looked at.
typedef struct EsWatchPosition {
    int64_t round; // 0: the newest, live
    int64_t env;   // -1: the most accurate
    int is_replay; // rounds follow each other by themselves
    int wants_help;
} EsWatchPosition;

typedef struct EsWatchFrame {
    EsScreenLine lines[ES_WATCH_MAX_LINES];
    int n_lines;
    int64_t last_round; // newest that was completed
    int64_t n_envs;
    int is_old; // its title says so
} EsWatchFrame;

// Draws for a terminal of this size, at least 20 x 5; height 0: as many lines as there are, for
// plain output.
EsStatus es_watch_frame_draw(EsWatchFrame *frame, EsRunView *view, const EsWatchPosition *position,
                             int width, int height);

// Says in the title line that the frame is older than the run, and why.
void es_watch_frame_mark_old(EsWatchFrame *frame, const char *reason);

#endif
