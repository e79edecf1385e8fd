"""Images: boxes, text and intensities drawn, grids, and the images of a data flow in files."""

import colorsys
import itertools
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from tpack.errors import ConfigError, DependencyError
from tpack.utils.argtools import shape2d
from tpack.utils.fs import atomic_write
from tpack.utils.lazy import import_optional
from tpack.utils.validation import check_function

__all__ = [
    "draw_boxes",
    "draw_text",
    "dump_dataflow_images",
    "gen_stack_patches",
    "intensity_to_rgb",
    "interactive_imshow",
    "stack_patches",
]


_WINDOW = "tpack"
_BOX_COLOUR = (180, 119, 31)
_NUM_COLOURS = 80
_HUES = 36
_SATURATIONS = (0.4, 0.65, 0.9)
_BRIGHTNESSES = (0.5, 0.75, 1.0)


def _make_palette() -> np.ndarray:
    """Return bright colours, each the farthest from those before it."""
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
"""Distinct colours, the most different first: red, green and blue in [0, 255], shape (80, 3), int32, read-only."""


class _DataFlow(Protocol):
    def reset_state(self) -> None: ...

    def __iter__(self) -> Iterator[Any]: ...


def draw_text(
    img: np.ndarray, pos: tuple[int, int], text: str, color: Sequence[int], font_scale: float = 0.4
) -> np.ndarray:
    """Return an image with white text on a filled rectangle.

    Args:
        img: a BGR image in [0, 255]; it is not changed.
        pos: (x, y) of the upper left corner; text is moved inside the image.
        text: one line.
        color: of the rectangle, BGR.
        font_scale: the size of the letters.

    Raises:
        DependencyError: OpenCV is not installed.
    """
    cv2 = import_optional("cv2", "vision")
    image = _as_canvas(img)
    font = cv2.FONT_HERSHEY_SIMPLEX
    (width, height), below = cv2.getTextSize(text, font, font_scale, 1)
    x = max(min(int(pos[0]), image.shape[1] - width), 0)
    y = max(min(int(pos[1]), image.shape[0] - height - below), 0)
    cv2.rectangle(image, (x, y), (x + width, y + height + below - 1), _colour(color), cv2.FILLED)
    cv2.putText(image, text, (x, y + height), font, font_scale, (255, 255, 255), lineType=cv2.LINE_AA)
    return image


def draw_boxes(
    im: np.ndarray, boxes: ArrayLike, labels: Sequence[str] | None = None, color: Sequence[int] | None = None
) -> np.ndarray:
    """Return an image with boxes on it, small ones above large ones.

    Args:
        im: a BGR image in [0, 255], or a grey one of shape (H, W); it is not changed.
        boxes: of shape (N, 4), with rows (x1, y1, x2, y2).
        labels: a text for each box.
        color: of all boxes, BGR.

    Raises:
        ConfigError: The boxes have another shape, a box is empty or outside the image, or the number of labels differs.
        DependencyError: OpenCV is not installed.
    """
    cv2 = import_optional("cv2", "vision")
    image = _as_canvas(im)
    corners = _check_boxes(boxes, image.shape, labels)
    colour = _colour(_BOX_COLOUR if color is None else color)
    areas = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    for index in np.argsort(-areas, kind="stable"):
        x1, y1, x2, y2 = (int(value) for value in corners[index])
        if labels is not None:
            image = draw_text(image, (x1, y1), labels[index], colour)
        cv2.rectangle(image, (x1, y1), (x2, y2), colour, thickness=1)
    return image


def intensity_to_rgb(intensity: ArrayLike, cmap: str = "cubehelix", normalize: bool = False) -> np.ndarray:
    """Return an image of intensities by a colour map of matplotlib.

    Args:
        intensity: of shape (H, W), in [0, 1]; other values get the colours of the ends.
        cmap: the name of the map.
        normalize: stretch the extremes to 0 and 1 first; equal intensities become 0.

    Returns:
        Red, green and blue in [0, 255]: float32 of shape (H, W, 3).

    Raises:
        ConfigError: The shape differs, or there is no such map.
        DependencyError: matplotlib is not installed.
    """
    maps = import_optional("matplotlib", "plot").colormaps
    values = np.asarray(intensity, np.float32)
    if values.ndim != 2:
        raise ConfigError(f"expected intensities of shape (H, W), got {values.shape}")
    if cmap not in maps:
        raise ConfigError(f"matplotlib has no colour map {cmap!r}")
    if normalize:
        least, span = values.min(initial=np.inf), np.ptp(values) if values.size else 0.0
        values = (values - least) / span if span > 0 else np.zeros_like(values)
    return np.asarray(maps[cmap](values)[..., :3] * 255.0, np.float32)


def stack_patches(
    patch_list: Iterable[ArrayLike],
    nr_row: int,
    nr_col: int,
    border: int | None = None,
    pad: bool = False,
    bgcolor: int | Sequence[int] = 255,
    viz: bool = False,
    lclick_cb: Callable[..., object] | None = None,
) -> np.ndarray:
    """Put images into a grid, row by row.

    Args:
        patch_list: a list or array of images in [0, 255], of shape (H, W) or (H, W, C).
        nr_row: rows of the grid.
        nr_col: its columns.
        border: pixels between images; 5 % of the smaller side unless given.
        pad: allow smaller images, centred in their places.
        bgcolor: the background: a number, or one for each channel.
        viz: show the grid by `interactive_imshow` as well.
        lclick_cb: called with an image and its number when it is clicked in the window, which it opens.

    Returns:
        The grid, uint8 of shape (height, width, C).

    Raises:
        ConfigError: There are no images or more than places, or their shapes differ.
        DependencyError: There is no window to open; see `interactive_imshow`.
    """
    patches = _as_patches(patch_list)
    if len(patches) > nr_row * nr_col:
        raise ConfigError(f"{len(patches)} images do not fit into {nr_row} x {nr_col} places")
    height, width, gap = _cell(patches, border)
    if not pad and any(patch.shape[:2] != (height, width) for patch in patches):
        raise ConfigError("the images are of different sizes: expected one size, or pad=True")
    # Grey images may stand on a coloured background.
    channels = max(patches[0].shape[2], np.size(bgcolor))
    canvas = np.empty((nr_row * (height + gap) - gap, nr_col * (width + gap) - gap, channels), np.uint8)
    canvas[:] = bgcolor
    for index, patch in enumerate(patches):
        row, column = divmod(index, nr_col)
        top = row * (height + gap) + (height - patch.shape[0]) // 2
        left = column * (width + gap) + (width - patch.shape[1]) // 2
        canvas[top : top + patch.shape[0], left : left + patch.shape[1]] = patch

    def on_click(_: np.ndarray, x: int, y: int) -> None:
        number = y // (height + gap) * nr_col + x // (width + gap)
        if lclick_cb is not None and number < len(patches):
            lclick_cb(patches[number], number)

    if viz or lclick_cb is not None:
        interactive_imshow(canvas, on_click)
    return canvas


def gen_stack_patches(
    patch_list: Iterable[ArrayLike],
    nr_row: int | None = None,
    nr_col: int | None = None,
    border: int | None = None,
    max_width: int = 1000,
    max_height: int = 1000,
    bgcolor: int | Sequence[int] = 255,
    viz: bool = False,
    lclick_cb: Callable[..., object] | None = None,
) -> Iterator[np.ndarray]:
    """Yield grids of all images; the last one may have empty places. For arguments and errors see ``stack_patches``.

    Args:
        patch_list: images of any sizes.
        nr_row: rows of a grid; by default ``max_height`` decides.
        nr_col: columns of a grid; by default ``max_width`` decides.
        border: pixels between images.
        max_width: in pixels.
        max_height: in pixels.
        bgcolor: the background.
        viz: show each grid.
        lclick_cb: called with an image and its number in the grid.
    """
    patches = _as_patches(patch_list)
    height, width, gap = _cell(patches, border)
    rows = nr_row or max((max_height + gap) // (height + gap), 1)
    columns = nr_col or max((max_width + gap) // (width + gap), 1)
    for number in range(math.ceil(len(patches) / (rows * columns))):
        part = patches[number * rows * columns : (number + 1) * rows * columns]
        yield stack_patches(part, rows, columns, gap, pad=True, bgcolor=bgcolor, viz=viz, lclick_cb=lclick_cb)


def interactive_imshow(
    img: np.ndarray,
    lclick_cb: Callable[[np.ndarray, int, int], object] | None = None,
    rclick_cb: Callable[[np.ndarray, int, int], object] | None = None,
    **key_callbacks: Callable[[np.ndarray], object],
) -> None:
    """Show an image in a window until a key is pressed: ``s`` writes ``out.png``, ``x`` ends the program.

    Args:
        img: a BGR image in [0, 255].
        lclick_cb: called with the image, x and y at a click of the left button.
        rclick_cb: the same for the right button.
        **key_callbacks: ``key_cb_a`` is called with the image when ``a`` is pressed, and so on.

    Raises:
        ConfigError: A keyword names no key, or its value is not callable.
        DependencyError: OpenCV is not installed, or has no windows, like that of the extra ``vision``, or no screen.
    """
    by_key = {name.removeprefix("key_cb_"): callback for name, callback in key_callbacks.items()}
    for key, name in zip(by_key, key_callbacks, strict=True):
        if len(key) != 1 or not name.startswith("key_cb_"):
            raise ConfigError(f"interactive_imshow has no argument {name!r}: expected key_cb_a for the key 'a'")
        check_function("interactive_imshow", name, by_key[key])
    cv2 = import_optional("cv2", "vision")
    try:
        cv2.imshow(_WINDOW, _as_canvas(img))
        cv2.setMouseCallback(_WINDOW, _on_click(cv2, img, lclick_cb, rclick_cb))
        key = chr(cv2.waitKey(0) & 0xFF)
        cv2.destroyWindow(_WINDOW)
    except cv2.error as error:
        raise DependencyError(
            "this OpenCV cannot open a window: install opencv-python in place of opencv-python-headless, on a machine "
            "with a screen, or write the image to a file"
        ) from error
    if key in by_key:
        by_key[key](img)
    elif key == "s":
        cv2.imwrite("out.png", img)
    elif key == "x":
        sys.exit()


def _on_click(cv2: ModuleType, img: np.ndarray, *callbacks: Callable[..., object] | None) -> Callable[..., None]:
    by_event = dict(zip((cv2.EVENT_LBUTTONUP, cv2.EVENT_RBUTTONUP), callbacks, strict=True))

    def on_mouse(event: int, x: int, y: int, *_: object) -> None:
        callback = by_event.get(event)
        if callback is not None:
            callback(img, x, y)

    return on_mouse


def dump_dataflow_images(
    df: _DataFlow,
    index: int = 0,
    batched: bool = True,
    number: int = 1000,
    output_dir: str | os.PathLike[str] | None = None,
    scale: float = 1,
    resize: int | Sequence[int] | None = None,
    viz: int | Sequence[int] | None = None,
    flipRGB: bool = False,  # noqa: N803 (tensorpack's name)
) -> None:
    """Write images as ``001.jpg``, ``002.jpg``, ..., up to a number or the end of the data flow.

    Args:
        df: the data flow; it is reset first.
        index: the component of a data point with images.
        batched: the component has several, along the first dimension.
        number: the most images to write.
        output_dir: the directory; made if missing.
        scale: factor of the values, such as 255 for images in [0, 1].
        resize: (width, height), or one number for both.
        viz: (rows, columns), or one number for both: write grids of this size. (tensorpack shows them in windows.)
        flipRGB: reverse the channels, for images that are not BGR.

    Raises:
        ConfigError: There is no directory.
        DependencyError: OpenCV is not installed.
    """
    if output_dir is None:
        raise ConfigError("dump_dataflow_images writes files: expected an output_dir")
    cv2 = import_optional("cv2", "vision")
    size = None if resize is None else tuple(shape2d(resize))
    os.makedirs(output_dir, exist_ok=True)
    df.reset_state()
    images = (_prepare(cv2, image, scale, size, flipRGB) for image in _images(df, index, batched, number))
    pages = images if viz is None else _grids(images, *shape2d(viz))
    for count, page in enumerate(pages, 1):
        encoded = cv2.imencode(".jpg", page)[1]
        with atomic_write(os.path.join(output_dir, f"{count:03d}.jpg"), "wb") as file:
            file.write(encoded.tobytes())


def _as_canvas(image: np.ndarray) -> np.ndarray:
    """Return a copy of an image in OpenCV's format, in colour."""
    copy = np.array(image, np.uint8, order="C")
    if copy.ndim == 2:
        copy = copy[:, :, np.newaxis]
    if copy.ndim != 3 or copy.shape[2] not in (1, 3):
        raise ConfigError(f"expected an image of shape (H, W), (H, W, 1) or (H, W, 3), got {np.shape(image)}")
    return np.repeat(copy, 3, axis=2) if copy.shape[2] == 1 else copy


def _check_boxes(boxes: ArrayLike, shape: tuple[int, ...], labels: Sequence[str] | None) -> np.ndarray:
    corners = np.asarray(boxes, np.float64)
    if corners.ndim != 2 or corners.shape[1] != 4:
        raise ConfigError(f"expected boxes of shape (N, 4), got {corners.shape}")
    if labels is not None and len(labels) != len(corners):
        raise ConfigError(f"got {len(labels)} labels for {len(corners)} boxes: expected as many")
    for box in corners:
        x1, y1, x2, y2 = box
        if not (0 <= x1 < x2 <= shape[1] and 0 <= y1 < y2 <= shape[0]):
            raise ConfigError(
                f"the box {box.tolist()} is empty or outside of the image, which is {shape[1]} wide and {shape[0]} high"
            )
    return corners


def _colour(color: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(value) for value in color)


def _as_patches(patch_list: Iterable[ArrayLike]) -> list[np.ndarray]:
    patches = [np.asarray(patch) for patch in patch_list]
    if not patches:
        raise ConfigError("expected at least one image to put into a grid, got none")
    patches = [patch[:, :, np.newaxis] if patch.ndim == 2 else patch for patch in patches]
    if any(patch.ndim != 3 for patch in patches) or len({patch.shape[2] for patch in patches}) > 1:
        shapes = sorted({patch.shape for patch in patches})
        raise ConfigError(f"expected images of shape (H, W) or (H, W, C) with one number of channels, got {shapes}")
    return patches


def _cell(patches: Sequence[np.ndarray], border: int | None) -> tuple[int, int, int]:
    """Return height and width of a place in a grid, and the border."""
    height, width = (max(patch.shape[axis] for patch in patches) for axis in (0, 1))
    return height, width, int(0.05 * min(height, width)) if border is None else border


def _images(df: _DataFlow, index: int, batched: bool, number: int) -> Iterator[np.ndarray]:
    """Yield up to ``number`` images from as few data points as possible."""
    if number <= 0:
        return
    count = 0
    for dp in df:
        for image in dp[index] if batched else [dp[index]]:
            yield np.asarray(image)
            count += 1
            if count == number:
                return


def _prepare(cv2: ModuleType, image: np.ndarray, scale: float, size: tuple[int, ...] | None, flip: bool) -> np.ndarray:
    if scale != 1:
        image = image * scale
    if image.dtype != np.uint8:
        image = np.clip(np.rint(image), 0, 255).astype(np.uint8)
    if size is not None:
        image = cv2.resize(image, size)
    return np.ascontiguousarray(image[:, :, ::-1]) if flip and image.ndim == 3 else image


def _grids(images: Iterator[np.ndarray], rows: int, columns: int) -> Iterator[np.ndarray]:
    waiting: list[np.ndarray] = []
    for image in images:
        waiting.append(image)
        if len(waiting) == rows * columns:
            yield stack_patches(waiting, rows, columns, pad=True)
            waiting = []
    if waiting:
        yield stack_patches(waiting, rows, columns, pad=True)
