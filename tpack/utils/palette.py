"""Colours for things that are to be told apart, such as the boxes in an image.

Out of many bright colours, each next one is that which is farthest from all before it.
"""

import colorsys
import itertools

import numpy as np

_NUM_COLOURS = 80
_HUES = 36
_SATURATIONS = (0.4, 0.65, 0.9)
_BRIGHTNESSES = (0.5, 0.75, 1.0)


def _make_palette() -> np.ndarray:
    tones = itertools.product(range(_HUES), _SATURATIONS, _BRIGHTNESSES)
    candidates = np.array([colorsys.hsv_to_rgb(hue / _HUES, *tone) for hue, *tone in tones])
    chosen = [len(_SATURATIONS) * len(_BRIGHTNESSES) - 1]
    distances = np.linalg.norm(candidates - candidates[chosen[0]], axis=1)
    while len(chosen) < _NUM_COLOURS:
        chosen.append(int(np.argmax(distances)))
        distances = np.minimum(distances, np.linalg.norm(candidates - candidates[chosen[-1]], axis=1))
    palette = np.rint(candidates[chosen] * 255).astype(np.int32)
    palette.setflags(write=False)
    return palette


PALETTE_RGB = _make_palette()
"""Rows of red, green and blue in [0, 255]: shape (80, 3), dtype int32, read-only. The first ones are most unlike."""
