// The width-independent half of the vector engine: the choice of a table, and the sums of patches.
#include "kernels/lanes/lanes.h"

extern const EsLaneKernels es_lanes_table_4;
#ifdef ES_HAVE_WIDE_LANES
extern const EsLaneKernels es_lanes_table_8, es_lanes_table_16;
#endif

#define REGION ES_LANES_PATCH_REGION

// kept[0] = the first two, kept[1] = all, kept[2] = the last two of three rows (`stride` apart) of
// `count` numbers: the rows that stay inside when moved by 1, 0, -1, the opposite of a tap's place.
static void keep_inside(const double *from, int stride, int count, double *const kept[3]) {
    for (int i = 0; i < count; i++) {
        double first = from[i], inner = from[stride + i], last = from[2 * stride + i];
        kept[0][i] = first + inner;
        kept[1][i] = first + inner + last;
        kept[2][i] = inner + last;
    }
}

EsLanePatches es_lane_patches(const double *totals) {
    // [row of the tap][column of the tap][entry]
    double rows[3][3 * REGION], kept[3][3][REGION];
    keep_inside(totals, 3 * REGION, 3 * REGION, (double *[3]){rows[0], rows[1], rows[2]});
    for (int r = 0; r < 3; r++) {
        keep_inside(rows[r], REGION, REGION, (double *[3]){kept[r][0], kept[r][1], kept[r][2]});
    }
    EsLanePatches patches;
    for (int s = 0; s < 9; s++) {
        const double *sums = kept[s / 3][s % 3];
        patches.tap[s] = sums[ES_LANES_PATCH_SHIFTS];
        for (int t = s; t < 9; t++) {
            // t - s points right or down, as the shifts that were summed
            int shift = 5 * (t / 3 - s / 3) + t % 3 - s % 3;
            patches.product[s][t] = patches.product[t][s] = sums[shift];
        }
    }
    return patches;
}

const EsLaneKernels *es_lane_kernels(int n_lanes) {
    switch (n_lanes) {
    case 4:
        return &es_lanes_table_4;
#ifdef ES_HAVE_WIDE_LANES
    case 8:
        return &es_lanes_table_8;
    case 16:
        return &es_lanes_table_16;
#endif
    default:
        return NULL;
    }
}
