// Batched matrix product: c[e] = op(a[e]) op(b[e]) + beta c[e].
//
// op(a) is [E, M, K], op(b) is [E, K, N], c is [E, M, N]; trans_a says that a is stored [E, K, M],
// trans_b that b is stored [E, N, K]. Each of the three has its own stride over E. With beta = 0
// the old c is not read. Sums over K run in a fixed order, for any number of threads. Bound against
// float64: |error| <= 2e-6 * sqrt(K) * max|a| * max|b| * 4.
#ifndef ES_KERNELS_MATMUL_H
#define ES_KERNELS_MATMUL_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_MATMUL_KERNELS(X) \
    X(matmul, (EsStream *s, int trans_a, int trans_b, float beta, EsIn a, EsIn b, EsOut c))
// clang-format on

#endif
