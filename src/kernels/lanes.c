#include "kernels/lanes.h"

extern const EsLaneKernels es_lanes_table_4;
#ifdef ES_HAVE_WIDE_LANES
extern const EsLaneKernels es_lanes_table_8, es_lanes_table_16;
#endif

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
