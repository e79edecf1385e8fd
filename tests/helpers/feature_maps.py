"""Convolution and pooling of feature maps in numpy, written out; the channels are last."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def padding_numbers(
    rule: Any, size: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int] = (1, 1)
) -> list[list[int]]:
    """Return [[top, bottom], [left, right]] for TensorFlow's rule ``"same"`` or ``"valid"``, or numbers as they are."""
    if not isinstance(rule, str):
        return [list(pair) for pair in rule]
    pairs = []
    for n, k, s, d in zip(size, kernel, strides, dilations, strict=True):
        total = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0) if rule == "same" else 0
        pairs.append([total // 2, total - total // 2])
    return pairs


def conv2d(
    x: np.ndarray,
    kernel: np.ndarray,
    strides: Sequence[int] = (1, 1),
    padding: Any = "same",
    dilations: Sequence[int] = (1, 1),
) -> np.ndarray:
    """Convolve [N, H, W, C] with [h, w, C / groups, F]; the number of groups follows from the shapes."""
    pairs = padding_numbers(padding, x.shape[1:3], kernel.shape[:2], strides, dilations)
    x = np.pad(x, [[0, 0], *pairs, [0, 0]])
    groups = x.shape[3] // kernel.shape[2]
    outputs = []
    for part, weights in zip(np.split(x, groups, axis=3), np.split(kernel, groups, axis=3), strict=True):
        windows = _windows(part, kernel.shape[:2], strides, dilations)
        outputs.append(np.einsum("nijhwc,hwcf->nijf", windows, weights))
    return np.concatenate(outputs, axis=3)


def conv2d_transpose(x: np.ndarray, kernel: np.ndarray, strides: Sequence[int], padding: str) -> np.ndarray:
    """Spread [N, H, W, C] by [h, w, F, C]: each input adds its multiple of the kernel to the output."""
    (height, width), (h, w) = x.shape[1:3], kernel.shape[:2]
    extra = [max(k - s, 0) if padding == "valid" else 0 for k, s in zip((h, w), strides, strict=True)]
    out = [n * s + e for n, s, e in zip((height, width), strides, extra, strict=True)]
    pairs = padding_numbers(padding, out, (h, w), strides)
    full = np.zeros([len(x), out[0] + sum(pairs[0]) + h, out[1] + sum(pairs[1]) + w, kernel.shape[2]])
    for i in range(height):
        for j in range(width):
            top, left = i * strides[0], j * strides[1]
            full[:, top : top + h, left : left + w] += np.einsum("nc,hwfc->nhwf", x[:, i, j], kernel)
    return full[:, pairs[0][0] : pairs[0][0] + out[0], pairs[1][0] : pairs[1][0] + out[1]]


def pool2d(
    reduce: Callable[..., np.ndarray], x: np.ndarray, size: Sequence[int], strides: Sequence[int], padding: str
) -> np.ndarray:
    """Reduce each window of [N, H, W, C] by ``np.nanmax`` or ``np.nanmean``, which leave out what was padded."""
    pairs = padding_numbers(padding, x.shape[1:3], size, strides)
    padded = np.pad(x, [[0, 0], *pairs, [0, 0]], constant_values=np.nan)
    return reduce(_windows(padded, size, strides, (1, 1)), axis=(3, 4))


def _windows(x: np.ndarray, size: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> np.ndarray:
    """Return [N, rows, columns, h, w, C]."""
    (h, w), (down, right) = size, dilations
    reach = [(h - 1) * down + 1, (w - 1) * right + 1]
    rows = range(0, x.shape[1] - reach[0] + 1, strides[0])
    columns = range(0, x.shape[2] - reach[1] + 1, strides[1])
    cut = [[x[:, i : i + reach[0] : down, j : j + reach[1] : right] for j in columns] for i in rows]
    return np.stack([np.stack(row, axis=1) for row in cut], axis=1)
