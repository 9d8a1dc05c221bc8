// Softmax of the vector engine (lanes.h), compiled once per vector width: one row of logits per
// lane.
#include "kernels/lanes/lanes_internal.h"
#include "kernels/lanes/lanes_math.h"

void LANES_FUNCTION(softmax)(const EsLaneMap *x, const float *scale, const EsLaneMap *y,
                             float *maximum, float *sum) {
    Vector largest = load(x->data), total = broadcast(0.0f);
    for (int c = 1; c < x->channels; c++) {
        largest = larger(largest, load(x->data + c * x->plane));
    }
    for (int c = 0; c < x->channels; c++) {
        Vector e = negative_exponential(load(x->data + c * x->plane) - largest);
        total += e;
        if (y->data != NULL) {
            store(y->data + c * y->plane, e);
        }
    }
    for (int c = 0; c < x->channels && y->data != NULL; c++) {
        store(y->data + c * y->plane, load(y->data + c * y->plane) / total * load(scale));
    }
    store(maximum, largest);
    store(sum, total);
}
