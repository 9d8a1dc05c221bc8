// The screen of a build without ncurses: it never opens, so that `esper watch` prints plain lines.
#include "view/screen.h"

int es_screen_open(void) { return 0; }

void es_screen_close(void) {}

void es_screen_size(int *width, int *height) { *width = *height = 0; }

void es_screen_draw(const EsScreenLine *lines, int n_lines) {
    (void)lines;
    (void)n_lines;
}

int es_screen_key(int milliseconds) {
    (void)milliseconds;
    return ES_KEY_NONE;
}
