// Softmax cross-entropy, mean over rows, with the count of correct rows and of labels out of range.
//
// logits [E, N, K], labels i32 [E, N]; loss f32 [E]; n_correct, n_invalid i32 [E].
// With label smoothing s in 0..1, 0 = none:
//
//     loss     = (1/N) sum of (logsumexp(logits) - (1 - s) logits[label] - s mean(logits))
//     d_logits = (softmax - (1 - s) onehot - s / K) / N * d_loss[e]
//
// A row is correct when its label is the first largest logit. A label outside [0, K) is counted in
// n_invalid; its row adds nothing to loss, n_correct or the gradient (N stays). d_loss f32 [E] is
// nullable (= 1).
#ifndef ES_KERNELS_CROSS_ENTROPY_H
#define ES_KERNELS_CROSS_ENTROPY_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_CROSS_ENTROPY_KERNELS(X) \
    X(cross_entropy_forward, (EsStream *s, float smoothing, EsIn logits, EsIn labels, EsOut loss, EsOut n_correct, EsOut n_invalid)) \
    X(cross_entropy_backward, (EsStream *s, float smoothing, EsIn logits, EsIn labels, EsIn d_loss, EsOut d_logits))
// clang-format on

#endif
