// Images of pictograms on textured ground, made from a seed.
//
// An image is one drawing of its class, posed at random, in a random colour, on a random ground,
// among stray strokes and under noise. The class decides the drawing alone; nothing else in the
// image depends on it. A class has several drawings that look nothing alike, so a network needs
// features for each of them: so capacity counts.
//
// Every image is a pure function of (recipe, seed, split, index), and the same bits on every
// machine: Philox numbers, and float32 arithmetic from + - * / and square root alone, which IEEE
// 754 rounds exactly.
#ifndef ES_DATA_GENERATED_IMAGES_H
#define ES_DATA_GENERATED_IMAGES_H

#include "data/dataset.h"

ES_EXTERN_C_BEGIN

// --- drawings ---

// The line drawings that the generated data sets are made of: ten classes, four drawings each.
//
// A drawing is a few polylines on a grid of 9 x 9 points. In text form each point is two digits,
// column then row from the top left, and a space lifts the pen: "0484 518457" is an arrow. All
// points lie in -1..1 after parsing.
//
// No drawing becomes one of another class when it is mirrored left to right, so that a horizontal
// flip is a fair augmentation.

#define ES_PICTOGRAM_CLASSES      10
#define ES_PICTOGRAM_VARIANTS     4
#define ES_PICTOGRAM_MAX_SEGMENTS 16

typedef struct EsSegment {
    float x0, y0; // start
    float x1, y1; // end
} EsSegment;

typedef struct EsPictogram {
    int n_segments;
    EsSegment segments[ES_PICTOGRAM_MAX_SEGMENTS];
} EsPictogram;

// Names of the classes, by label.
extern const char *const es_pictogram_names[ES_PICTOGRAM_CLASSES];

// Drawing `variant` of class `label`, both in range.
EsPictogram es_pictogram_parse(int label, int variant);

// --- images ---

#define ES_GENERATED_MAX_CHANNELS 3
#define ES_GENERATED_MAX_SIZE     32

// Lengths in pixels, brightness in 0..1; a pair of values is a range drawn from evenly.
typedef struct EsImageRecipe {
    uint32_t stream; // keeps the recipes' random numbers apart
    int n_classes;   // 0: the ten of es_pictogram_names, with their own drawings; else all drawings
                     // are dealt out to so many classes by the seed, n_variants to each
    int n_channels;
    int size;              // height and width, a multiple of 4
    int n_variants;        // drawings in use per class, 1..ES_PICTOGRAM_VARIANTS
    float half_extent[2];  // of the drawing, before rotation
    float aspect;          // width and height are each scaled by 1 - aspect .. 1 + aspect
    float turn;            // rotation by up to 2 atan(turn) either way
    float shift;           // of the centre, either way, along each axis
    float pen[2];          // half width of the drawing's lines
    float contrast[2];     // of the lines against the ground
    float ground[2];       // brightness of the ground, per channel
    int n_strays[2];       // stray strokes, half of them behind the drawing and half in front
    float stray_length[2]; // of a stray stroke's segment
    float texture;         // amplitude of the ground's texture
    float noise;           // amplitude of the pixels' noise
} EsImageRecipe;

extern const EsImageRecipe es_recipe_tiny;      // 16 x 16 x 1
extern const EsImageRecipe es_recipe_generated; // 32 x 32 x 3

#define ES_PICTOGRAM_DRAWINGS (ES_PICTOGRAM_CLASSES * ES_PICTOGRAM_VARIANTS)

// The label of image `index`: each run of as many images as there are classes holds every class
// once, in a random order.
uint8_t es_generated_label(const EsImageRecipe *recipe, uint64_t seed, uint32_t split,
                           uint32_t index);

// Drawing `variant` of class `label`, as a number below ES_PICTOGRAM_DRAWINGS: variants of the
// named classes stand together.
int es_generated_drawing(const EsImageRecipe *recipe, uint64_t seed, int label, int variant);

// Draw image `index` of class `label` into pixels u8 [n_channels, size, size].
void es_generated_image_draw(const EsImageRecipe *recipe, uint64_t seed, uint32_t split,
                             uint32_t index, int label, uint8_t *pixels);

// Draws a data set of such images: counts of training, validation and test images, each at least 1
// and below 2^30. The pool may be NULL; the number of threads changes nothing.
EsStatus es_dataset_draw(EsDataset *dataset, const char *name, const EsImageRecipe *recipe,
                         uint64_t seed, const int64_t counts[3], EsThreadPool *pool);

ES_EXTERN_C_END

#endif
