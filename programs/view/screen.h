// A terminal as a place for lines: opened once, drawn whole, and asked for keys. ncurses behind it,
// or nothing: then it does not open, and plain lines have to do.
//
//     if (es_screen_open()) {
//         es_screen_draw(lines, n_lines);
//         int key = es_screen_key(500);
//         es_screen_close();
//     }
#ifndef ES_PROGRAMS_SCREEN_H
#define ES_PROGRAMS_SCREEN_H

typedef enum EsLineStyle {
    ES_LINE_PLAIN,
    ES_LINE_TITLE,   // of a section
    ES_LINE_BAR,     // first and last line of the screen
    ES_LINE_WARNING, // something is wrong
} EsLineStyle;

#define ES_LINE_BYTES 768

typedef struct EsScreenLine {
    int x, y, width; // columns; the text is cut to the width
    EsLineStyle style;
    char text[ES_LINE_BYTES]; // UTF-8 that is safe to show
} EsScreenLine;

// Returns whether stdin and stdout are a terminal that can be drawn on.
int es_screen_open(void);
void es_screen_close(void);

void es_screen_size(int *width, int *height);

void es_screen_draw(const EsScreenLine *lines, int n_lines);

typedef enum EsKey {
    ES_KEY_NONE = 0, // time is up, or the size has changed
    ES_KEY_LEFT = 256,
    ES_KEY_RIGHT,
    ES_KEY_UP,
    ES_KEY_DOWN
} EsKey;

// Waits for a key: a letter, or one of EsKey.
int es_screen_key(int milliseconds);

#endif
