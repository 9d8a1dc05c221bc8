"""What the modules of golden cases share: the registry and reproducible inputs.

    @golden("stem")
    def stem(rng):
        return {"case0.x": uniform(rng, 2, 3), ...}

makes tests/golden/stem.safetensors. Inputs are float32; results are computed in float64 and stored
as float32, so that a golden value is better than what it is compared with.
"""

import numpy

CASES = {}  # stem -> function(rng) that returns {name: array}


def golden(stem):
    """Register a function of a numpy random generator as the source of one golden file."""

    def register(function):
        if stem in CASES:
            raise ValueError(f"two sources for the golden file {stem}")
        CASES[stem] = function
        return function

    return register


def uniform(rng, *shape, low=-1.0, high=1.0):
    """float32 values in [low, high)."""
    return rng.uniform(low, high, shape).astype(numpy.float32)


def integers(rng, *shape, low, high):
    """int32 values in [low, high], both included."""
    return rng.integers(low, high, shape, dtype=numpy.int32, endpoint=True)
