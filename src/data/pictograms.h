// The line drawings that the generated data sets are made of: ten classes, four drawings each.
//
// A drawing is a few polylines on a grid of 9 x 9 points. In text form each point is two digits,
// column then row from the top left, and a space lifts the pen: "0484 518457" is an arrow. All
// points lie in -1..1 after parsing.
//
// No drawing becomes one of another class when it is mirrored left to right, so that a horizontal
// flip is a fair augmentation.
#ifndef ES_DATA_PICTOGRAMS_H
#define ES_DATA_PICTOGRAMS_H

#include "base/macros.h"

ES_EXTERN_C_BEGIN

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

ES_EXTERN_C_END

#endif
