// A network is fitted to digits that the program draws itself, and reads three more of them.
//
// Shows how data in memory becomes a network: es_data_copy, es_fit with a callback, then draw,
// predict, close.
#include <stdio.h>
#include <stdlib.h>

#include "esper/fit.h"

enum { SAMPLES = 2000, SIDE = 12, DIGITS = 10, GLYPH_ROWS = 7, GLYPH_COLUMNS = 5 };

// The digits, a row of five pixels per number.
static const uint8_t glyphs[DIGITS][GLYPH_ROWS] = {
    {14, 17, 19, 21, 25, 17, 14}, {4, 12, 4, 4, 4, 4, 14},  {14, 17, 1, 2, 4, 8, 31},
    {31, 2, 4, 2, 1, 17, 14},     {2, 6, 10, 18, 31, 2, 2}, {31, 16, 30, 1, 1, 17, 14},
    {6, 8, 16, 30, 17, 17, 14},   {31, 1, 2, 4, 8, 8, 8},   {14, 17, 17, 14, 17, 17, 14},
    {14, 17, 17, 15, 1, 2, 12}};

static uint32_t draw_number(uint32_t *state, uint32_t n) {
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 16) % n;
}

// A digit somewhere in the image, some of its pixels weak, on a noisy ground.
static void draw_digit(int digit, uint32_t *state, uint8_t image[SIDE][SIDE]) {
    int top = (int)draw_number(state, SIDE - GLYPH_ROWS + 1);
    int left = (int)draw_number(state, SIDE - GLYPH_COLUMNS + 1);
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            int row = y - top, column = x - left;
            int is_inside = row >= 0 && row < GLYPH_ROWS && column >= 0 && column < GLYPH_COLUMNS;
            int is_ink = is_inside && glyphs[digit][row] >> (GLYPH_COLUMNS - 1 - column) & 1;
            image[y][x] = (uint8_t)(draw_number(state, 90) + (is_ink ? 165 : 0));
        }
    }
}

static int print_epoch(void *context, const EsFitProgress *progress) {
    (void)context;
    printf("epoch %2d/%d  %d candidates  validation %5.1f %%  best %5.1f %%, %lld parameters\n",
           progress->epoch, progress->n_epochs, progress->n_candidates, progress->accuracy,
           progress->best_accuracy, (long long)progress->n_parameters);
    return progress->best_accuracy >= 100; // nothing is left to learn
}

static EsStatus fit_digits(EsNetwork **network) {
    static uint8_t pixels[SAMPLES][SIDE][SIDE];
    static int32_t labels[SAMPLES];
    uint32_t state = 1;
    EsData *data = NULL;
    EsStatus status = ES_STATUS_OK;
    for (int i = 0; i < SAMPLES; i++) {
        labels[i] = i % DIGITS;
        draw_digit(labels[i], &state, pixels[i]);
    }
    const EsDataArrays arrays = {.name = "digits",
                                 .pixels = &pixels[0][0][0],
                                 .labels = labels,
                                 .n = SAMPLES,
                                 .n_channels = 1,
                                 .height = SIDE,
                                 .width = SIDE,
                                 .n_classes = DIGITS};
    const char *settings[] = {"fit.flip=off"}; // a mirrored digit is no digit
    EsFitOptions options = {.max_parameters = 4000,
                            .n_epochs = 25,
                            .n_candidates = 2,
                            .settings = settings,
                            .n_settings = 1,
                            .is_stopped = print_epoch};
    ES_TRY_GOTO(es_data_copy(&arrays, NULL, &data));
    ES_TRY_GOTO(es_fit(data, &options, network));
done:
    es_data_close(data);
    return status;
}

static EsStatus read_digits(EsNetwork *network) {
    static uint8_t images[3][SIDE][SIDE];
    const int digits[3] = {3, 8, 0};
    float scores[3 * DIGITS];
    uint32_t state = 77; // other noise, other places
    for (int i = 0; i < 3; i++) {
        draw_digit(digits[i], &state, images[i]);
    }
    ES_TRY(es_network_predict_bytes(network, &images[0][0][0], 3, scores));
    es_network_softmax(network, scores, 3);
    for (int i = 0; i < 3; i++) {
        int best = 0;
        for (int k = 1; k < DIGITS; k++) {
            best = scores[i * DIGITS + k] > scores[i * DIGITS + best] ? k : best;
        }
        printf("a %d is read as %s\n", digits[i], es_network_info(network)->class_names[best]);
    }
    return ES_STATUS_OK;
}

int main(void) {
    EsNetwork *network = NULL;
    EsStatus status = fit_digits(&network);
    if (status == ES_STATUS_OK) {
        const EsNetworkInfo *info = es_network_info(network);
        printf("\n");
        es_network_draw(network, stdout);
        printf("\n%.1f %% of the test digits are read\n", info->test_accuracy);
        status = read_digits(network);
    }
    if (status != ES_STATUS_OK) {
        fprintf(stderr, "%s: %s\n", es_status_message(status), es_status_detail());
    }
    int is_good = status == ES_STATUS_OK && es_network_info(network)->test_accuracy >= 90;
    es_network_close(network);
    return is_good ? EXIT_SUCCESS : EXIT_FAILURE;
}
