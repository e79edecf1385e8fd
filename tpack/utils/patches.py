"""Several images as one, in a grid."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tpack.errors import ConfigError


def stack_patches(
    patch_list: Any,
    nr_row: int,
    nr_col: int,
    border: int | None = None,
    pad: bool = False,
    bgcolor: int | Sequence[int] = 255,
    viz: bool = False,
    lclick_cb: Callable[..., Any] | None = None,
) -> np.ndarray:
    """Put images into a grid, row by row.

    Args:
        patch_list: images in [0, 255] of shape (H, W) or (H, W, C), a list or an array of them.
        nr_row: rows of the grid.
        nr_col: its columns.
        border: pixels between images; 5 % of the smaller side unless given.
        pad: let images be smaller than the largest: they are put in the middle of their place.
        bgcolor: of what no image covers: a number, or one for each channel.
        viz: not offered. tensorpack shows the grid in a window here; the OpenCV of the extra ``vision`` has none.
        lclick_cb: not offered either.

    Returns:
        The grid, uint8 of shape (height, width, C).

    Raises:
        ConfigError: There are no images or more than places, their shapes differ, or a window is wanted.
    """
    if viz or lclick_cb is not None:
        raise ConfigError("stack_patches opens no window: write what it returns to a file, with viz=False")
    patches = _as_patches(patch_list)
    if len(patches) > nr_row * nr_col:
        raise ConfigError(f"{len(patches)} images do not fit into {nr_row} x {nr_col} places")
    height, width = (max(patch.shape[axis] for patch in patches) for axis in (0, 1))
    if not pad and any(patch.shape[:2] != (height, width) for patch in patches):
        raise ConfigError("the images are of different sizes: wanted one size, or pad=True")
    gap = int(0.05 * min(height, width)) if border is None else border
    channels = patches[0].shape[2]
    canvas = np.empty((nr_row * (height + gap) - gap, nr_col * (width + gap) - gap, channels), np.uint8)
    canvas[:] = bgcolor
    for index, patch in enumerate(patches):
        row, column = divmod(index, nr_col)
        top = row * (height + gap) + (height - patch.shape[0]) // 2
        left = column * (width + gap) + (width - patch.shape[1]) // 2
        canvas[top : top + patch.shape[0], left : left + patch.shape[1]] = patch
    return canvas


def gen_stack_patches(
    patch_list: Any,
    nr_row: int | None = None,
    nr_col: int | None = None,
    border: int | None = None,
    max_width: int = 1000,
    max_height: int = 1000,
    bgcolor: int | Sequence[int] = 255,
    viz: bool = False,
    lclick_cb: Callable[..., Any] | None = None,
) -> Iterator[np.ndarray]:
    """Yield as many grids as the images need; the last one may have empty places.

    Args:
        patch_list: as for ``stack_patches``; images may be of different sizes.
        nr_row: rows of a grid; as many as fit into ``max_height`` unless given.
        nr_col: columns of a grid; as many as fit into ``max_width`` unless given.
        border: as for ``stack_patches``.
        max_width: in pixels.
        max_height: in pixels.
        bgcolor: as for ``stack_patches``.
        viz: as for ``stack_patches``.
        lclick_cb: as for ``stack_patches``.

    Raises:
        ConfigError: As for ``stack_patches``.
    """
    patches = _as_patches(patch_list)
    height, width = (max(patch.shape[axis] for patch in patches) for axis in (0, 1))
    gap = int(0.05 * min(height, width)) if border is None else border
    rows = nr_row or max((max_height + gap) // (height + gap), 1)
    columns = nr_col or max((max_width + gap) // (width + gap), 1)
    for number in range(math.ceil(len(patches) / (rows * columns))):
        part = patches[number * rows * columns : (number + 1) * rows * columns]
        yield stack_patches(part, rows, columns, gap, pad=True, bgcolor=bgcolor, viz=viz, lclick_cb=lclick_cb)


def _as_patches(patch_list: Any) -> list[np.ndarray]:
    """Return the images with three dimensions each."""
    patches = [np.asarray(patch) for patch in patch_list]
    if not patches:
        raise ConfigError("wanted at least one image to put into a grid, got none")
    patches = [patch[:, :, np.newaxis] if patch.ndim == 2 else patch for patch in patches]
    if any(patch.ndim != 3 for patch in patches) or len({patch.shape[2] for patch in patches}) > 1:
        shapes = sorted({patch.shape for patch in patches})
        raise ConfigError(f"wanted images of shape (H, W) or (H, W, C) with one number of channels, got {shapes}")
    return patches
