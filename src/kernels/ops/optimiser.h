// Optimiser steps over a whole slab of parameters, rates per environment.
//
// parameter, gradient, momentum, moment1, moment2 f32 [E, P], each with its own stride over E;
// rates f32 [E], contiguous. With lr the learning rate:
//
//     sgd   d = gradient + weight_decay p; buffer = momentum buffer + d; p -= lr buffer
//           (a zero buffer is the first step); by Nesterov p -= lr (d + momentum buffer).
//           lr follows its schedule (schedule_rules.h) where there is one
//     adam  n_steps i32 [E] is advanced first; moment1 = b1 moment1 + (1 - b1) g;
//           moment2 = b2 moment2 + (1 - b2) g^2;
//           p -= lr (moment1 / (1 - b1^n)) / (sqrt(moment2 / (1 - b2^n)) + epsilon)
//
// The _finite ones leave an environment as it is, its step count too, where n_nonfinite i32 [E, S]
// (slab_norms) has a count above 0.
#ifndef ES_KERNELS_OPTIMISER_H
#define ES_KERNELS_OPTIMISER_H

#include "kernels/kernel_types.h"

// clang-format off
#define ES_OPTIMISER_KERNELS(X) \
    X(sgd_step, (EsStream *s, const EsSgdRates *rates, EsIn gradient, EsOut momentum, \
                 EsOut parameter)) \
    X(adam_step, (EsStream *s, EsAdamOptions options, EsIn learning_rate, EsIn gradient, \
                  EsOut moment1, EsOut moment2, EsOut n_steps, EsOut parameter)) \
    X(sgd_step_finite, (EsStream *s, const EsSgdRates *rates, EsIn n_nonfinite, EsIn gradient, \
                        EsOut momentum, EsOut parameter)) \
    X(adam_step_finite, (EsStream *s, EsAdamOptions options, EsIn learning_rate, EsIn n_nonfinite, \
                         EsIn gradient, EsOut moment1, EsOut moment2, EsOut n_steps, \
                         EsOut parameter))
// clang-format on

#endif
