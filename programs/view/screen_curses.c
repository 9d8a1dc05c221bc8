// The screen by ncurses, which keeps its state in globals of its own.
#include <locale.h>
#include <ncurses.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "telemetry/text.h"
#include "view/screen.h"

static int attribute_of(EsLineStyle style) {
    switch (style) {
    case ES_LINE_TITLE:
        return (int)A_BOLD;
    case ES_LINE_BAR:
        return (int)A_REVERSE;
    case ES_LINE_WARNING:
        return (int)(A_BOLD | (has_colors() ? COLOR_PAIR(1) : 0));
    default:
        return (int)A_NORMAL;
    }
}

int es_screen_open(void) {
    const char *terminal = getenv("TERM");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || terminal == NULL ||
        strcmp(terminal, "dumb") == 0) {
        return 0;
    }
    setlocale(LC_CTYPE, "");
    SCREEN *screen = newterm(NULL, stdout, stdin);
    if (screen == NULL) {
        return 0;
    }
    set_term(screen);
    if (has_colors()) {
        start_color();
        use_default_colors();
        init_pair(1, COLOR_RED, -1);
    }
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    curs_set(0);
    return 1;
}

void es_screen_close(void) { endwin(); }

void es_screen_size(int *width, int *height) { getmaxyx(stdscr, *height, *width); }

void es_screen_draw(const EsScreenLine *lines, int n_lines) {
    erase();
    for (int i = 0; i < n_lines; i++) {
        const EsScreenLine *line = &lines[i];
        size_t bytes = strlen(line->text),
               fit = es_text_fit(line->text, bytes, (size_t)line->width);
        attrset(attribute_of(line->style));
        if (line->style == ES_LINE_BAR) {
            mvhline(line->y, line->x, ' ', line->width);
        }
        mvaddnstr(line->y, line->x, line->text, (int)fit);
        attrset((int)A_NORMAL);
    }
    refresh();
}

int es_screen_key(int milliseconds) {
    timeout(milliseconds);
    int key = getch();
    switch (key) {
    case ERR:
    case KEY_RESIZE:
        return ES_KEY_NONE;
    case KEY_LEFT:
        return ES_KEY_LEFT;
    case KEY_RIGHT:
        return ES_KEY_RIGHT;
    case KEY_UP:
        return ES_KEY_UP;
    case KEY_DOWN:
        return ES_KEY_DOWN;
    default:
        return key;
    }
}
