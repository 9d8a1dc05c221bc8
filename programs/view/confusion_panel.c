// The panel of what a fitted network confuses: the matrix of true and predicted classes, and the
// samples that it was most wrongly sure of. Both are in networks/1/confusion.json, which is not
// trusted: every number is checked before it is used, and of the pixels nothing but their values
// reaches the page.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/memory.h"
#include "view/chart.h"
#include "view/panels.h"

#define MAX_CLASSES   65535
#define MAX_SAMPLES   (INT64_C(1) << 53)
#define MAX_MISTAKES  24
#define MAX_VALUES    8
#define PICTURE_SIDE  64
#define CLASSES_SHOWN 30
#define NAMES_UPRIGHT 12 // columns whose names stand upright, and whose cells have shares

// A class and the samples that it takes part in.
typedef struct Class {
    const char *name;   // borrowed from the JSON
    int64_t n, n_right; // samples of it
    int64_t n_confused; // samples of it taken for others, and of others taken for it
    int place;          // among those that are shown; -1: it is not
} Class;

typedef struct Confusion {
    const json_t *root;
    const char *path, *split;
    int64_t n, n_right;
    Class *classes; // owned
    int n_classes;
    int shown[CLASSES_SHOWN]; // classes, in their order
    int n_shown;
    // samples of the row's class that were taken for the column's; the last column has the others'
    int64_t cells[CLASSES_SHOWN][CLASSES_SHOWN + 1];
    int channels, height, width; // of pictures; 0: of rows
} Confusion;

// --- reading ---

static EsStatus read_integer(const Confusion *c, const json_t *object, const char *name,
                             int64_t least, int64_t most, int64_t *value) {
    const json_t *number = json_object_get(object, name);
    *value = json_integer_value(number);
    return json_is_integer(number) && *value >= least && *value <= most
               ? ES_STATUS_OK
               : ES_FAIL(INPUT, "%s: \"%s\" is missing, or not a whole number from %lld to %lld",
                         c->path, name, (long long)least, (long long)most);
}

static EsStatus read_list(const Confusion *c, const char *name, size_t least, size_t most,
                          const json_t **list) {
    *list = json_object_get(c->root, name);
    return json_is_array(*list) && json_array_size(*list) >= least && json_array_size(*list) <= most
               ? ES_STATUS_OK
               : ES_FAIL(INPUT, "%s: \"%s\" is missing, or not a list of %zu to %zu entries",
                         c->path, name, least, most);
}

static EsStatus read_classes(Confusion *c) {
    const json_t *list = NULL;
    ES_TRY(read_list(c, "classes", 1, MAX_CLASSES, &list));
    c->n_classes = (int)json_array_size(list);
    ES_TRY(es_allocate(sizeof *c->classes * (size_t)c->n_classes, (void **)&c->classes));
    for (int k = 0; k < c->n_classes; k++) {
        c->classes[k].name = json_string_value(json_array_get(list, (size_t)k));
        c->classes[k].place = -1;
        if (c->classes[k].name == NULL) {
            return ES_FAIL(INPUT, "%s: classes[%d] is not a text", c->path, k);
        }
    }
    return ES_STATUS_OK;
}

// A cell [label, predicted, samples]; they come by rows, each once.
typedef struct Cell {
    int label, found;
    int64_t n;
} Cell;

static EsStatus read_cell(const Confusion *c, const json_t *cells, size_t i, Cell *cell) {
    const json_t *entry = json_array_get(cells, i);
    int64_t numbers[3] = {0};
    int is_whole = json_array_size(entry) == 3;
    for (size_t k = 0; k < 3 && is_whole; k++) {
        const json_t *number = json_array_get(entry, k);
        numbers[k] = json_integer_value(number);
        is_whole = json_is_integer(number) && numbers[k] >= (k == 2) &&
                   numbers[k] <= (k == 2 ? c->n : c->n_classes - 1);
    }
    if (!is_whole) {
        return ES_FAIL(INPUT, "%s: cells[%zu] is not [true class, predicted class, samples]",
                       c->path, i);
    }
    *cell = (Cell){(int)numbers[0], (int)numbers[1], numbers[2]};
    return ES_STATUS_OK;
}

static EsStatus count_cells(Confusion *c, const json_t *cells) {
    int64_t n = 0, n_right = 0, before = -1;
    for (size_t i = 0; i < json_array_size(cells); i++) {
        Cell cell;
        ES_TRY(read_cell(c, cells, i, &cell));
        int64_t number = (int64_t)cell.label * c->n_classes + cell.found;
        if (number <= before || cell.n > c->n - n) {
            return ES_FAIL(INPUT, "%s: cells[%zu] is out of order, or one sample too many", c->path,
                           i);
        }
        before = number;
        n += cell.n;
        c->classes[cell.label].n += cell.n;
        if (cell.label == cell.found) {
            n_right += cell.n;
            c->classes[cell.label].n_right = cell.n;
        } else {
            c->classes[cell.label].n_confused += cell.n;
            c->classes[cell.found].n_confused += cell.n;
        }
    }
    return n == c->n && n_right == c->n_right
               ? ES_STATUS_OK
               : ES_FAIL(INPUT,
                         "%s: the cells have %lld samples, %lld of them right, but \"samples\" and "
                         "\"correct\" say %lld and %lld",
                         c->path, (long long)n, (long long)n_right, (long long)c->n,
                         (long long)c->n_right);
}

// Marks the classes to be shown, at most CLASSES_SHOWN: the most confused, the first of equals.
static void choose_classes(Confusion *c) {
    c->n_shown = 0;
    for (int k = 0; k < ES_MIN(c->n_classes, CLASSES_SHOWN); k++) {
        int best = -1;
        for (int i = 0; i < c->n_classes; i++) {
            if (c->classes[i].place < 0 &&
                (best < 0 || c->classes[i].n_confused > c->classes[best].n_confused)) {
                best = i;
            }
        }
        c->classes[best].place = k;
    }
    for (int i = 0; i < c->n_classes; i++) {
        if (c->classes[i].place >= 0) {
            c->classes[i].place = c->n_shown;
            c->shown[c->n_shown++] = i;
        }
    }
}

static EsStatus read_cells(Confusion *c) {
    const json_t *cells = NULL;
    ES_TRY(read_list(c, "cells", 1, (size_t)c->n, &cells));
    ES_TRY(count_cells(c, cells));
    choose_classes(c);
    for (size_t i = 0; i < json_array_size(cells); i++) {
        Cell cell;
        ES_TRY(read_cell(c, cells, i, &cell));
        int row = c->classes[cell.label].place, column = c->classes[cell.found].place;
        if (row >= 0) {
            c->cells[row][column >= 0 ? column : CLASSES_SHOWN] += cell.n;
        }
    }
    return ES_STATUS_OK;
}

static EsStatus read_picture(Confusion *c) {
    const json_t *picture = json_object_get(c->root, "picture");
    int64_t numbers[3];
    if (picture == NULL) {
        return ES_STATUS_OK;
    }
    ES_TRY(read_integer(c, picture, "channels", 1, 4, &numbers[0]));
    ES_TRY(read_integer(c, picture, "height", 1, PICTURE_SIDE, &numbers[1]));
    ES_TRY(read_integer(c, picture, "width", 1, PICTURE_SIDE, &numbers[2]));
    c->channels = (int)numbers[0];
    c->height = (int)numbers[1];
    c->width = (int)numbers[2];
    return ES_STATUS_OK;
}

static EsStatus read_confusion(Confusion *c) {
    const char *format = json_string_value(json_object_get(c->root, "format"));
    if (format == NULL || strcmp(format, "esper.confusion.1") != 0) {
        return ES_FAIL(INPUT, "%s is not of the format esper.confusion.1", c->path);
    }
    c->split = json_string_value(json_object_get(c->root, "split"));
    if (c->split == NULL) {
        return ES_FAIL(INPUT, "%s: \"split\" is missing", c->path);
    }
    ES_TRY(read_integer(c, c->root, "samples", 1, MAX_SAMPLES, &c->n));
    ES_TRY(read_integer(c, c->root, "correct", 0, c->n, &c->n_right));
    ES_TRY(read_classes(c));
    ES_TRY(read_cells(c));
    return read_picture(c);
}

// --- the matrix ---

static void add_share(EsText *html, double share) {
    if (share > 0 && share < 1) {
        es_text_add_string(html, "&lt;1 %");
    } else {
        es_html_print(html, "%.0f %%", share);
    }
}

// A cell, coloured by its share of the row's samples; those that were right lie on the diagonal.
static void draw_cell(EsText *html, int64_t n, int64_t n_row, int is_right, int has_share) {
    double share = n_row > 0 ? 100 * (double)n / (double)n_row : 0;
    int level = n == 0      ? 0
                : is_right  ? 1 + (int)ES_MIN(share / 25, 3)
                : share < 5 ? 1
                            : 2 + (share >= 15) + (share >= 30);
    es_html_print(html, "<td class=\"cell %s%d\"", is_right ? "hit" : "miss", level);
    if (n > 0 && !has_share) {
        es_text_add_string(html, " title=\"");
        add_share(html, share);
        es_text_add_string(html, "\"");
    }
    es_html_print(html, ">%lld", (long long)n);
    if (n > 0 && has_share) {
        es_text_add_string(html, " <small>");
        add_share(html, share);
        es_text_add_string(html, "</small>");
    }
    es_text_add_string(html, "</td>");
}

static void draw_heading(const Confusion *c, int has_others, EsText *html) {
    int is_turned = c->n_shown > NAMES_UPRIGHT;
    es_text_add_string(html, "</caption><thead><tr><th scope=\"col\">true class</th>");
    for (int k = 0; k < c->n_shown; k++) {
        const char *name = c->classes[c->shown[k]].name;
        es_html_print(html, "<th scope=\"col\" class=\"cell%s\" title=\"",
                      is_turned ? " turned" : "");
        es_html_add(html, name);
        es_text_add_string(html, "\"><span>");
        es_html_add(html, name);
        es_text_add_string(html, "</span></th>");
    }
    es_html_print(html,
                  "%s<th scope=\"col\" class=\"number\">samples</th><th scope=\"col\" "
                  "class=\"number\">found</th></tr></thead><tbody>\n",
                  has_others ? "<th scope=\"col\" class=\"cell\">others</th>" : "");
}

static void draw_matrix(const Confusion *c, EsText *html) {
    int has_others = c->n_shown < c->n_classes, has_shares = c->n_shown <= NAMES_UPRIGHT;
    es_html_print(html,
                  "<div class=\"scroll\" tabindex=\"0\"><table class=\"matrix%s\"><caption>Samples "
                  "by true class (rows) and predicted class (columns)",
                  has_shares ? "" : " many");
    if (has_others) {
        es_html_print(html, ": the %d of %d classes that are confused most", c->n_shown,
                      c->n_classes);
    }
    draw_heading(c, has_others, html);
    for (int row = 0; row < c->n_shown; row++) {
        const Class *own = &c->classes[c->shown[row]];
        es_text_add_string(html, "<tr><th scope=\"row\" title=\"");
        es_html_add(html, own->name);
        es_text_add_string(html, "\">");
        es_html_add(html, own->name);
        es_text_add_string(html, "</th>");
        for (int column = 0; column < c->n_shown; column++) {
            draw_cell(html, c->cells[row][column], own->n, row == column, has_shares);
        }
        if (has_others) {
            draw_cell(html, c->cells[row][CLASSES_SHOWN], own->n, 0, has_shares);
        }
        es_panel_number_cell(html, (double)own->n, 9);
        if (own->n > 0) {
            es_html_print(html, "<td class=\"number\">%.1f %%</td></tr>\n",
                          100 * (double)own->n_right / (double)own->n);
        } else {
            es_text_add_string(html, "<td class=\"number\">\xe2\x80\x93</td></tr>\n");
        }
    }
    es_panel_end_table(html);
    es_text_add_string(
        html, "<p class=\"note\">Green: predicted rightly, red: taken for another class; stronger "
              "where it is a larger share of the row.</p>\n");
}

// --- pictures ---

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Decodes exactly n bytes of base64 with padding; returns whether the text has them.
static int decode(const char *text, uint8_t *bytes, size_t n) {
    size_t length = text != NULL ? strlen(text) : 0, n_padding = (3 - n % 3) % 3;
    if (length != (n + 2) / 3 * 4 || strspn(text, digits) != length - n_padding ||
        strspn(text + length - n_padding, "=") != n_padding) {
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t high = (uint32_t)(strchr(digits, text[i / 3 * 4 + i % 3]) - digits);
        uint32_t low = (uint32_t)(strchr(digits, text[i / 3 * 4 + i % 3 + 1]) - digits);
        bytes[i] = (uint8_t)((high << 6 | low) >> (4 - 2 * (i % 3)));
    }
    return 1;
}

static void put_number(uint8_t *at, uint32_t value, int n_bytes) {
    for (int i = 0; i < n_bytes; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

#define BMP_HEADER 54
#define BMP_BYTES  (BMP_HEADER + PICTURE_SIDE * (3 * PICTURE_SIDE + 3))

// The pixels [C, H, W] as a bitmap file of 24 bits, which every browser shows: rows from below,
// blue, green, red. Two channels are grey and something else, four are colours and something else.
static size_t write_bitmap(const Confusion *c, const uint8_t *pixels, uint8_t bmp[BMP_BYTES]) {
    size_t plane = (size_t)c->height * (size_t)c->width;
    size_t row_bytes = (3 * (size_t)c->width + 3) / 4 * 4;
    size_t bytes = BMP_HEADER + row_bytes * (size_t)c->height;
    memset(bmp, 0, bytes);
    bmp[0] = 'B';
    bmp[1] = 'M';
    put_number(bmp + 2, (uint32_t)bytes, 4);
    put_number(bmp + 10, BMP_HEADER, 4);
    put_number(bmp + 14, 40, 4); // of the second header
    put_number(bmp + 18, (uint32_t)c->width, 4);
    put_number(bmp + 22, (uint32_t)c->height, 4);
    put_number(bmp + 26, 1, 2);
    put_number(bmp + 28, 24, 2);
    for (int y = 0; y < c->height; y++) {
        uint8_t *row = bmp + BMP_HEADER + row_bytes * (size_t)(c->height - 1 - y);
        for (int x = 0; x < c->width; x++) {
            const uint8_t *pixel = pixels + (size_t)y * (size_t)c->width + x;
            for (int k = 0; k < 3; k++) {
                row[3 * x + k] = pixel[c->channels >= 3 ? (size_t)(2 - k) * plane : 0];
            }
        }
    }
    return bytes;
}

// --- mistakes ---

typedef struct Mistake {
    int64_t index, label, found;
    double probability;
} Mistake;

static EsStatus read_mistake(const Confusion *c, const json_t *entry, Mistake *mistake) {
    const json_t *probability = json_object_get(entry, "probability");
    ES_TRY(read_integer(c, entry, "index", 0, c->n - 1, &mistake->index));
    ES_TRY(read_integer(c, entry, "label", 0, c->n_classes - 1, &mistake->label));
    ES_TRY(read_integer(c, entry, "predicted", 0, c->n_classes - 1, &mistake->found));
    mistake->probability = json_number_value(probability);
    return json_is_number(probability) && mistake->probability >= 0 && mistake->probability <= 1
               ? ES_STATUS_OK
               : ES_FAIL(INPUT, "%s: \"probability\" is missing, or not from 0 to 1", c->path);
}

static void add_classes(const Confusion *c, const Mistake *mistake, EsText *html) {
    es_html_add(html, c->classes[mistake->label].name);
    es_text_add_string(html, " \xe2\x86\x92 ");
    es_html_add(html, c->classes[mistake->found].name);
}

static EsStatus draw_picture(const Confusion *c, const json_t *entry, EsText *html) {
    uint8_t pixels[4 * PICTURE_SIDE * PICTURE_SIDE], bmp[BMP_BYTES];
    size_t n = (size_t)c->channels * (size_t)c->height * (size_t)c->width;
    Mistake mistake;
    ES_TRY(read_mistake(c, entry, &mistake));
    if (!decode(json_string_value(json_object_get(entry, "pixels")), pixels, n)) {
        return ES_FAIL(INPUT, "%s: the pixels of sample %lld are not %zu bytes in base64", c->path,
                       (long long)mistake.index, n);
    }
    es_text_add_string(html, "<li><img src=\"data:image/bmp;base64,");
    es_text_add_base64(html, bmp, write_bitmap(c, pixels, bmp));
    es_text_add_string(html, "\" alt=\"");
    add_classes(c, &mistake, html);
    es_text_add_string(html, "\"><span>");
    add_classes(c, &mistake, html);
    es_text_add_string(html, "</span><span class=\"unit\">(");
    es_html_number(html, 100 * mistake.probability, 4);
    es_html_print(html, " %%) no. %lld</span></li>\n", (long long)mistake.index);
    return ES_STATUS_OK;
}

static EsStatus draw_row(const Confusion *c, const json_t *entry, EsText *html) {
    const json_t *values = json_object_get(entry, "values");
    Mistake mistake;
    ES_TRY(read_mistake(c, entry, &mistake));
    es_text_add_string(html, "<tr>");
    es_panel_number_cell(html, (double)mistake.index, 12);
    es_text_add_string(html, "<td>");
    add_classes(c, &mistake, html);
    es_text_add_string(html, "</td>");
    es_panel_number_cell(html, 100 * mistake.probability, 4);
    es_text_add_string(html, "<td>");
    for (size_t i = 0; i < ES_MIN(json_array_size(values), MAX_VALUES); i++) {
        const json_t *value = json_array_get(values, i);
        const char *name = json_string_value(json_object_get(value, "name"));
        const json_t *number = json_object_get(value, "value");
        es_text_add_string(html, i > 0 ? ", " : "");
        if (name != NULL) {
            es_html_add(html, name);
        } else {
            es_html_print(html, "column %lld",
                          (long long)json_integer_value(json_object_get(value, "column")));
        }
        es_text_add_string(html, " ");
        es_html_number(html, json_is_number(number) ? json_number_value(number) : NAN, 4);
    }
    es_text_add_string(html, "</td></tr>\n");
    return ES_STATUS_OK;
}

static EsStatus draw_mistakes(const Confusion *c, EsText *html) {
    const json_t *list = NULL;
    int has_pictures = c->channels > 0;
    ES_TRY(read_list(c, "mistakes", 0, MAX_MISTAKES, &list));
    size_t n = json_array_size(list);
    if (n == 0) {
        es_html_empty(html, "No sample was taken for another class.");
        return ES_STATUS_OK;
    }
    if (has_pictures) {
        es_html_print(html,
                      "<h3>The %zu it was most wrongly sure of</h3>\n"
                      "<ul class=\"mistakes\">\n",
                      n);
    } else {
        es_panel_begin_table(html, "Those it was most wrongly sure of",
                             "#sample|true \xe2\x86\x92 predicted|#probability, %|columns farthest "
                             "from their mean");
    }
    EsStatus status = ES_STATUS_OK;
    for (size_t i = 0; i < n && status == ES_STATUS_OK; i++) {
        const json_t *entry = json_array_get(list, i);
        status = has_pictures ? draw_picture(c, entry, html) : draw_row(c, entry, html);
    }
    es_text_add_string(html, has_pictures ? "</ul>\n" : "</tbody></table></div>\n");
    return status;
}

// --- the panel ---

static EsStatus draw(Confusion *c, EsText *html) {
    ES_TRY(read_confusion(c));
    es_text_add_string(html, "<p>");
    es_html_number(html, (double)c->n_right, 9);
    es_text_add_string(html, " of ");
    es_html_number(html, (double)c->n, 9);
    es_text_add_string(html, " samples of the ");
    es_html_add(html, c->split);
    es_html_print(html, " split are right, %.2f %%.</p>\n",
                  100 * (double)c->n_right / (double)c->n);
    draw_matrix(c, html);
    return draw_mistakes(c, html);
}

static int has_same_hash(const json_t *a, const json_t *b) {
    const char *of_a = json_string_value(json_object_get(a, "tensors_sha256"));
    const char *of_b = json_string_value(json_object_get(b, "tensors_sha256"));
    return of_a != NULL && of_b != NULL && strcmp(of_a, of_b) == 0;
}

EsStatus es_panel_confusion(const EsPanelInput *input, EsText *html) {
    Confusion *c = NULL;
    json_t *network = NULL, *confusion = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_allocate(sizeof *c, (void **)&c));
    ES_TRY_GOTO(es_run_view_network(input->views[0], &network));
    ES_TRY_GOTO(es_run_view_confusion(input->views[0], &confusion));
    if (confusion == NULL) {
        es_html_empty(html, "When the fit has ended its confusion matrix on the test samples, and "
                            "the samples that it is most wrongly sure of, appear here.");
    } else if (!has_same_hash(network, confusion)) {
        es_html_empty(html, "networks/1/confusion.json is of another network than network.json "
                            "beside it. The fit writes it again when it ends.");
    } else {
        *c = (Confusion){.root = confusion, .path = "networks/1/confusion.json"};
        status = draw(c, html);
    }
done:
    es_release(c->classes);
    es_release(c);
    json_decref(network);
    json_decref(confusion);
    return status;
}
