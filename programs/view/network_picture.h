// Pictures of growth: a host with its slots and seeds at one step, and the lives of its seeds as
// lanes over the steps of an episode.
//
// Made of changes of stage and measured contributions; between two changes of a blend alpha is
// interpolated and marked with "≈". Where the host's blocks are not known, from a network's file,
// it is drawn up to its last slot: telemetry knows no layers beyond.
#ifndef ES_PROGRAMS_NETWORK_PICTURE_H
#define ES_PROGRAMS_NETWORK_PICTURE_H

#include <jansson.h>

#include "telemetry/text.h"

#define ES_PICTURE_MAX_SLOTS 32

// The records of one environment's episode: tables of run_view.h.
typedef struct EsEpisodeTables {
    const json_t *seeds, *stages, *contributions, *steps, *ends; // borrowed
} EsEpisodeTables;

typedef struct EsPictureSlot {
    char name[16];                            // r0c1
    int row, column;                          // of the name
    char blueprint[32];                       // "" when empty
    char stage[16];                           // "" when empty
    double alpha, contribution, n_parameters; // NaN when unknown
    int is_alpha_exact;                       // recorded at this very step, not interpolated
} EsPictureSlot;

typedef struct EsPicture {
    EsPictureSlot slots[ES_PICTURE_MAX_SLOTS]; // in the order of the data's way through the host
    int n_slots;
    char blocks[ES_PICTURE_MAX_SLOTS][2][24]; // two lines about each block, where they are known
    int n_blocks;                             // 0: unknown, drawn up to the last slot
} EsPicture;

// Adds a slot, unless it is there or is no slot's name.
void es_picture_add_slot(EsPicture *picture, const char *name);

// Adds the slots of a list "r0c0,r0c1"; other words are passed over.
void es_picture_add_list(EsPicture *picture, const char *list);

// Fills in the seeds as of `step`.
void es_picture_set_step(EsPicture *picture, const EsEpisodeTables *episode, double step);

// The last step that the tables mention; -1 when they are empty.
int es_episode_last_step(const EsEpisodeTables *episode);

void es_picture_draw(EsText *text, const EsPicture *picture, const char *title);

// Lanes of all slots up to n_steps, with a line at `step` (negative: none), labelled by
// `step_word`.
void es_picture_draw_lanes(EsText *text, const EsPicture *picture, const EsEpisodeTables *episode,
                           int n_steps, double step, const char *step_word);

#endif
