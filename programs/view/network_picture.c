// From records to slots, from slots to SVG.
#include "view/network_picture.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "view/chart.h"
#include "view/run_view.h"

// --- slots ---

static int compare_slots(const void *a, const void *b) {
    const EsPictureSlot *first = a, *second = b;
    return first->column != second->column ? first->column - second->column
                                           : first->row - second->row;
}

void es_picture_add_slot(EsPicture *picture, const char *name) {
    EsPictureSlot slot = {.alpha = NAN, .contribution = NAN, .n_parameters = NAN};
    int end = 0;
    if (sscanf(name, "r%3dc%3d%n", &slot.row, &slot.column, &end) != 2 || name[end] != '\0' ||
        slot.row < 0 || slot.column < 0 || picture->n_slots == ES_PICTURE_MAX_SLOTS) {
        return;
    }
    snprintf(slot.name, sizeof slot.name, "%s", name);
    for (int i = 0; i < picture->n_slots; i++) {
        if (strcmp(picture->slots[i].name, slot.name) == 0) {
            return;
        }
    }
    picture->slots[picture->n_slots++] = slot;
    qsort(picture->slots, (size_t)picture->n_slots, sizeof slot, compare_slots);
}

void es_picture_add_list(EsPicture *picture, const char *list) {
    while (*list != '\0') {
        char name[16];
        size_t bytes = strcspn(list, ", ");
        if (bytes > 0 && bytes < sizeof name) {
            memcpy(name, list, bytes);
            name[bytes] = '\0';
            es_picture_add_slot(picture, name);
        }
        list += bytes + (list[bytes] != '\0');
    }
}

static int is_over(const char *stage) {
    static const char *const over[] = {"PRUNED", "EMBARGOED", "RESETTING", "DORMANT", ""};
    for (size_t i = 0; i < ES_COUNT_OF(over); i++) {
        if (strcmp(stage, over[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

// The next change of the slot after row i, -1 when there is none.
static int next_change(const json_t *stages, int i) {
    const char *slot = es_column_text(stages, "slot", i);
    int n = es_table_n_rows(stages);
    for (int k = i + 1; k < n; k++) {
        if (strcmp(es_column_text(stages, "slot", k), slot) == 0) {
            return k;
        }
    }
    return -1;
}

static void set_stage(EsPictureSlot *slot, const json_t *stages, double step) {
    int n = es_table_n_rows(stages), last = -1;
    for (int i = 0; i < n && es_column_real(stages, "step", i) <= step; i++) {
        last = strcmp(es_column_text(stages, "slot", i), slot->name) == 0 ? i : last;
    }
    if (last < 0 || is_over(es_column_text(stages, "to_stage", last))) {
        return;
    }
    snprintf(slot->stage, sizeof slot->stage, "%s", es_column_text(stages, "to_stage", last));
    double begin = es_column_real(stages, "step", last);
    slot->alpha = es_column_real(stages, "alpha", last);
    slot->is_alpha_exact = begin == step || strcmp(slot->stage, "BLENDING") != 0;
    int next = slot->is_alpha_exact ? -1 : next_change(stages, last);
    if (next >= 0) {
        double end = es_column_real(stages, "step", next);
        double target = es_column_real(stages, "alpha", next);
        slot->alpha += (target - slot->alpha) * (step - begin) / fmax(end - begin, 1);
    }
}

static void set_seed(EsPictureSlot *slot, const EsEpisodeTables *episode, double step) {
    double begin = -1;
    int n = es_table_n_rows(episode->seeds);
    for (int i = 0; i < n; i++) {
        double germinated = es_column_real(episode->seeds, "germinated_step", i);
        if (strcmp(es_column_text(episode->seeds, "slot", i), slot->name) == 0 &&
            germinated <= step && germinated >= begin) {
            begin = germinated;
            snprintf(slot->blueprint, sizeof slot->blueprint, "%s",
                     es_column_text(episode->seeds, "blueprint", i));
            slot->n_parameters = es_column_real(episode->seeds, "n_parameters", i);
            slot->contribution = es_column_real(episode->seeds, "fossilized_step", i) <= step
                                     ? es_column_real(episode->seeds, "contribution", i)
                                     : NAN;
        }
    }
    n = es_table_n_rows(episode->contributions);
    for (int i = 0; i < n; i++) {
        double at = es_column_real(episode->contributions, "step", i);
        if (at > begin && at <= step &&
            strcmp(es_column_text(episode->contributions, "slot", i), slot->name) == 0) {
            slot->contribution = es_column_real(episode->contributions, "contribution", i);
        }
    }
}

void es_picture_set_step(EsPicture *picture, const EsEpisodeTables *episode, double step) {
    for (int i = 0; i < picture->n_slots; i++) {
        EsPictureSlot *slot = &picture->slots[i];
        slot->blueprint[0] = slot->stage[0] = '\0';
        slot->alpha = slot->contribution = slot->n_parameters = NAN;
        set_stage(slot, episode->stages, step);
        if (slot->stage[0] != '\0') {
            set_seed(slot, episode, step);
        }
    }
}

// Of an episode; a record that says more is damaged.
#define MAX_STEPS 1e9

int es_episode_last_step(const EsEpisodeTables *episode) {
    double last = -1;
    const json_t *tables[] = {episode->stages, episode->contributions, episode->steps,
                              episode->ends};
    for (size_t t = 0; t < ES_COUNT_OF(tables); t++) {
        int n = es_table_n_rows(tables[t]);
        for (int i = 0; i < n; i++) {
            last = fmax(last, es_column_real(tables[t], "step", i));
        }
    }
    return (int)fmin(last, MAX_STEPS);
}

// --- the host ---

#define BLOCK_WIDTH    76
#define SLOT_WIDTH     132
#define FLOW_Y         148
#define CARD_TOP       14
#define CARD_HEIGHT    92
#define PICTURE_HEIGHT 204

// The class of a stage's colours; stages are our own words, but a file may hold anything.
static const char *stage_class(const char *stage) {
    static const char *const stages[][2] = {
        {"GERMINATED", "germinated"}, {"TRAINING", "training"},     {"BLENDING", "blending"},
        {"HOLDING", "holding"},       {"FOSSILIZED", "fossilized"}, {"PRUNED", "pruned"},
        {"EMBARGOED", "pruned"},      {"RESETTING", "pruned"},
    };
    for (size_t i = 0; i < ES_COUNT_OF(stages); i++) {
        if (strcmp(stage, stages[i][0]) == 0) {
            return stages[i][1];
        }
    }
    return "empty-slot";
}

static void add_text(EsText *text, const char *style, double x, double y, const char *words) {
    es_html_print(text, "<text class=\"%s\" x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">", style,
                  x, y);
    es_html_add(text, words);
    es_text_add_string(text, "</text>");
}

static void add_box(EsText *text, double x, const char *words, int is_end) {
    es_html_print(text,
                  "<rect class=\"%s\" x=\"%.0f\" y=\"%d\" width=\"%d\" height=\"36\" rx=\"%d\"/>",
                  is_end ? "end" : "block", x, FLOW_Y - 18, BLOCK_WIDTH, is_end ? 18 : 6);
    add_text(text, "label", x + BLOCK_WIDTH / 2.0, FLOW_Y + 5, words);
}

static void add_card(EsText *text, const EsPictureSlot *slot, double x) {
    double middle = x + SLOT_WIDTH / 2.0, left = x + 8, width = SLOT_WIDTH - 16;
    es_html_print(text, "<path class=\"branch\" d=\"M%.0f %dV%d H%.0f V%d\"/>", x + 14, FLOW_Y,
                  CARD_TOP + CARD_HEIGHT - 20, x + SLOT_WIDTH - 14, FLOW_Y);
    es_html_print(text,
                  "<rect class=\"seed %s\" x=\"%.0f\" y=\"%d\" width=\"%.0f\" height=\"%d\" "
                  "rx=\"8\"/>",
                  stage_class(slot->stage), left, CARD_TOP, width, CARD_HEIGHT);
    add_text(text, "name", middle, CARD_TOP + 18, slot->blueprint);
    add_text(text, "label", middle, CARD_TOP + 34, slot->stage);
    es_html_print(
        text, "<rect class=\"gauge\" x=\"%.0f\" y=\"%d\" width=\"%.0f\" height=\"6\" rx=\"3\"/>",
        left + 10, CARD_TOP + 42, width - 20);
    if (isfinite(slot->alpha)) {
        es_html_print(text,
                      "<rect class=\"gauge-fill\" x=\"%.0f\" y=\"%d\" width=\"%.1f\" height=\"6\" "
                      "rx=\"3\"/>",
                      left + 10, CARD_TOP + 42, (width - 20) * fmin(fmax(slot->alpha, 0), 1));
        es_html_print(text,
                      "<text class=\"label\" x=\"%.0f\" y=\"%d\" text-anchor=\"middle\">alpha "
                      "%s%.2f</text>",
                      middle, CARD_TOP + 64, slot->is_alpha_exact ? "" : "≈ ", slot->alpha);
    }
    es_html_print(text, "<text class=\"label\" x=\"%.0f\" y=\"%d\" text-anchor=\"middle\">", middle,
                  CARD_TOP + 82);
    if (isfinite(slot->contribution)) {
        es_html_print(text, "%s%.1f points", slot->contribution < 0 ? "−" : "+",
                      fabs(slot->contribution));
    } else if (strcmp(slot->stage, "FOSSILIZED") != 0) {
        es_text_add_string(text, "not measured");
    }
    es_text_add_string(text, "</text>");
}

static void add_slot(EsText *text, const EsPictureSlot *slot, double x) {
    double middle = x + SLOT_WIDTH / 2.0;
    if (slot->stage[0] != '\0') {
        add_card(text, slot, x);
    } else {
        es_html_print(text,
                      "<rect class=\"empty-slot\" x=\"%.0f\" y=\"%d\" width=\"84\" height=\"40\" "
                      "rx=\"8\"/><path class=\"empty-branch\" d=\"M%.0f %dV%d\"/>",
                      middle - 42, CARD_TOP + 40, middle, CARD_TOP + 80, FLOW_Y);
        add_text(text, "label", middle, CARD_TOP + 64, "empty");
    }
    es_html_print(text, "<circle class=\"node\" cx=\"%.0f\" cy=\"%d\" r=\"5\"/>", middle, FLOW_Y);
    add_text(text, "label", middle, FLOW_Y + 28, slot->name);
    es_text_add_string(text, "\n");
}

static void describe(EsText *text, const EsPicture *picture) {
    for (int i = 0; i < picture->n_slots; i++) {
        const EsPictureSlot *slot = &picture->slots[i];
        es_html_print(text, "%sslot ", i > 0 ? ", " : "");
        es_html_add(text, slot->name);
        es_text_add_string(text, slot->stage[0] != '\0' ? " holds " : " is empty");
        es_html_add(text, slot->blueprint);
        es_text_add_string(text, slot->stage[0] != '\0' ? ", " : "");
        es_html_add(text, slot->stage);
    }
}

void es_picture_draw(EsText *text, const EsPicture *picture, const char *title) {
    int n_blocks = picture->n_slots > 0 ? picture->slots[picture->n_slots - 1].column + 1 : 0;
    int n_drawn = ES_MIN(ES_MAX(n_blocks, picture->n_blocks), ES_PICTURE_MAX_SLOTS);
    int width = (2 + n_drawn) * (BLOCK_WIDTH + 12) + picture->n_slots * SLOT_WIDTH;
    es_text_add_string(text, "<figure class=\"picture\"><figcaption>");
    es_html_add(text, title);
    es_html_print(text,
                  "</figcaption>\n<div class=\"scroll\" tabindex=\"0\"><svg class=\"%s\" "
                  "width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\" "
                  "aria-label=\"host: ",
                  width <= 720 ? "small" : "large", width, PICTURE_HEIGHT, width, PICTURE_HEIGHT);
    describe(text, picture);
    es_html_print(text, "\"><path class=\"flow\" d=\"M%d %dH%d\"/>\n", BLOCK_WIDTH, FLOW_Y,
                  width - BLOCK_WIDTH);
    double x = 0;
    add_box(text, x, "input", 1);
    x += BLOCK_WIDTH + 12;
    for (int column = 0, i = 0; column < n_drawn; column++) {
        char words[24];
        snprintf(words, sizeof words, "block %d", column);
        add_box(text, x, words, 0);
        if (column < picture->n_blocks) {
            add_text(text, "label", x + BLOCK_WIDTH / 2.0, FLOW_Y + 34, picture->blocks[column][0]);
            add_text(text, "label", x + BLOCK_WIDTH / 2.0, FLOW_Y + 49, picture->blocks[column][1]);
        }
        x += BLOCK_WIDTH + 12;
        for (; i < picture->n_slots && picture->slots[i].column == column; i++) {
            add_slot(text, &picture->slots[i], x - 6);
            x += SLOT_WIDTH;
        }
    }
    add_box(text, width - BLOCK_WIDTH, "classifier", 1);
    es_text_add_string(text, "</svg></div></figure>\n");
}

// --- lanes ---

#define LANE_WIDTH  620
#define LANE_LEFT   48
#define LANE_HEIGHT 26

static double lane_x(double step, int n_steps) {
    return LANE_LEFT + step / ES_MAX(n_steps, 1) * (LANE_WIDTH - LANE_LEFT - 12);
}

static void add_segment(EsText *text, const json_t *stages, int i, int lane, int n_steps) {
    const char *stage = es_column_text(stages, "to_stage", i);
    if (strcmp(stage, "DORMANT") == 0 || stage[0] == '\0') {
        return;
    }
    int next = next_change(stages, i);
    double begin = lane_x(es_column_real(stages, "step", i), n_steps);
    double end = lane_x(next >= 0 ? es_column_real(stages, "step", next) : n_steps, n_steps);
    if (end - begin < 0.5) {
        return; // left in the step it was entered
    }
    int y = lane * LANE_HEIGHT + 4;
    es_html_print(
        text, "<rect class=\"seed %s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"18\"><title>",
        stage_class(stage), begin, y, end - begin);
    es_html_add(text, stage);
    es_text_add_string(text, " ");
    es_html_add(text, es_column_text(stages, "seed_id", i));
    es_html_print(text, ", from step %.0f</title></rect>", es_column_real(stages, "step", i));
    if (end - begin >= 14) {
        char letter[2] = {isalpha((unsigned char)stage[0]) ? stage[0] : '?', '\0'};
        add_text(text, "letter", (begin + end) / 2, y + 13, letter);
    }
}

void es_picture_draw_lanes(EsText *text, const EsPicture *picture, const EsEpisodeTables *episode,
                           int n_steps, double step, const char *step_word) {
    int n_rows = es_table_n_rows(episode->stages), bottom = picture->n_slots * LANE_HEIGHT + 4;
    es_html_print(text,
                  "<figure class=\"picture\"><figcaption>Lives of the seeds <span "
                  "class=\"unit\">slots over the steps of the episode</span></figcaption>\n"
                  "<div class=\"scroll\" tabindex=\"0\"><svg width=\"%d\" height=\"%d\" "
                  "viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"stages of seeds by slot and "
                  "step\">\n",
                  LANE_WIDTH, bottom + 38, LANE_WIDTH, bottom + 38);
    for (int lane = 0; lane < picture->n_slots; lane++) {
        es_html_print(text, "<text class=\"tick\" x=\"%d\" y=\"%d\" text-anchor=\"end\">",
                      LANE_LEFT - 8, lane * LANE_HEIGHT + 18);
        es_html_add(text, picture->slots[lane].name);
        es_html_print(text, "</text><path class=\"grid\" d=\"M%d %dH%d\"/>", LANE_LEFT,
                      lane * LANE_HEIGHT + 13, LANE_WIDTH - 12);
        for (int i = 0; i < n_rows; i++) {
            if (strcmp(es_column_text(episode->stages, "slot", i), picture->slots[lane].name) ==
                0) {
                add_segment(text, episode->stages, i, lane, n_steps);
            }
        }
        es_text_add_string(text, "\n");
    }
    int spacing = n_steps / 10 + 1;
    for (int at = 0; at <= n_steps; at += spacing) {
        es_html_print(text,
                      "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>",
                      lane_x(at, n_steps), bottom + 14, at);
    }
    add_text(text, "label", (LANE_LEFT + LANE_WIDTH) / 2.0, bottom + 32, step_word);
    if (step >= 0) {
        es_html_print(text, "<path class=\"now\" d=\"M%.1f 0V%d\"/>", lane_x(step, n_steps),
                      bottom);
    }
    es_text_add_string(text,
                       "</svg></div><p class=\"note\">G germinated, T training behind the host, B "
                       "blending in, H holding, F fossilized (stays), P pruned or E embargoed, R "
                       "resetting (the slot cools down)</p></figure>\n");
}
