"""Adasum in numpy, in float64."""

import numpy as np


def adasum(arrays):
    """Combine arrays pair by pair: neighbours first, a last one without a neighbour as it is."""
    level = [np.asarray(array, np.float64) for array in arrays]
    while len(level) > 1:
        pairs = [level[n : n + 2] for n in range(0, len(level), 2)]
        level = [_pair(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0]


def _pair(a, b):
    product = np.sum(a * b)
    in_a, in_b = (product / (2 * np.sum(each * each)) if each.any() else 0.0 for each in (a, b))
    return a * (1 - in_a) + b * (1 - in_b)
