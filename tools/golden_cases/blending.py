"""Golden cases of the kernels that growth needs: blending, channel scale, norm mix."""

import numpy
import torch

from cnn import differentiate, numbered
from golden_registry import golden, uniform

NONE, INCUBATE, ADD, GATE, MULTIPLY = range(5)


def mix(h, seed, gate, alpha, mode):
    """One environment's slot. Terms times 0 give a tensor that takes no part a gradient of 0."""
    unused = 0.0 * seed.sum() + 0.0 * gate.sum()
    opened = gate.reshape(-1, *[1] * (h.dim() - 1))
    if mode == INCUBATE:
        return h + (seed - seed.detach()) + unused
    if mode == ADD:
        return torch.lerp(h, seed, torch.tensor(alpha, dtype=h.dtype)) + unused
    if mode == GATE:
        return h + alpha * opened * (seed - h)
    if mode == MULTIPLY:
        return h * (1.0 + alpha * torch.tanh(seed - h)) + unused
    return h + unused


@golden("blend")
def blend(rng):
    cases = []
    for shape, modes in [
        ((1, 1, 1, 1, 1), [ADD]),
        ((5, 2, 3, 4, 3), [NONE, INCUBATE, ADD, GATE, MULTIPLY]),
        ((4, 3, 1, 5, 7), [GATE, MULTIPLY, GATE, ADD]),
    ]:
        E, N = shape[:2]
        inputs = {
            "h": uniform(rng, *shape, low=-2, high=2),
            "seed": uniform(rng, *shape, low=-2, high=2),
            "gate": uniform(rng, E, N, low=0, high=1),
        }
        alpha = uniform(rng, E, low=0.1, high=0.9)
        d_x = uniform(rng, *shape)
        calls = []

        def slot(h, seed, gate, modes=modes, alpha=alpha, calls=calls):
            e = len(calls)
            calls.append(e)
            return mix(h, seed, gate, float(alpha[e]), modes[e])

        case = differentiate(inputs, uniform(rng, *shape), slot, E)
        is_passed = numpy.array([mode >= ADD for mode in modes])
        case["alpha"] = alpha
        case["mode"] = numpy.array(modes, numpy.int32)
        case["d_x"] = d_x
        case["d_h_by_seed"] = d_x * is_passed.reshape(E, 1, 1, 1, 1).astype(numpy.float32)
        cases.append(case)
    return numbered(cases)


@golden("channel_scale")
def channel_scale(rng):
    cases = []
    for E, N, C, H, W in [(1, 1, 1, 1, 1), (2, 3, 5, 4, 3), (3, 2, 8, 7, 5)]:
        inputs = {"x": uniform(rng, E, N, C, H, W, low=-2, high=2), "w": uniform(rng, E, N, C)}
        cases.append(differentiate(inputs, uniform(rng, E, N, C, H, W),
                                   lambda x, w: x * w[:, :, None, None], E))
    return numbered(cases)


@golden("norm_mix")
def norm_mix(rng):
    cases = []
    for E, N, C, H, W in [(1, 1, 1, 1, 1), (2, 3, 5, 4, 3), (3, 2, 8, 7, 5)]:
        inputs = {
            "x": uniform(rng, E, N, C, H, W, low=-2, high=2),
            "n": uniform(rng, E, N, C, H, W, low=-2, high=2),
            "g": uniform(rng, E, 1, low=-1.5, high=1.5),
        }
        cases.append(differentiate(inputs, uniform(rng, E, N, C, H, W),
                                   lambda x, n, g: torch.lerp(x, n, torch.tanh(g)), E))
    return numbered(cases)
