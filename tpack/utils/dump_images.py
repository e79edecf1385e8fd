"""Write the images of a data flow to files, to see what a model gets to see."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tpack.errors import ConfigError
from tpack.utils.argtools import shape2d
from tpack.utils.atomic import atomic_write
from tpack.utils.optional import import_optional
from tpack.utils.patches import stack_patches


def dump_dataflow_images(
    df: Any,
    index: int = 0,
    batched: bool = True,
    number: int = 1000,
    output_dir: str | os.PathLike[str] | None = None,
    scale: float = 1,
    resize: int | Sequence[int] | None = None,
    viz: int | Sequence[int] | None = None,
    flipRGB: bool = False,  # noqa: N803 (tensorpack's name)
) -> None:
    """Write images as ``001.jpg``, ``002.jpg``, ... until there are enough or the data flow has ended.

    Args:
        df: the data flow; it is reset first.
        index: which component of a data point holds images.
        batched: whether it holds several, along the first dimension.
        number: how many images to write at most.
        output_dir: the directory; made if it is not there.
        scale: what to multiply the values with, such as 255 for images in [0, 1].
        resize: (width, height) to resize to, or one number for both.
        viz: (rows, columns), or one number for both: write grids of so many images in place of the images. (tensorpack
            shows them in windows.)
        flipRGB: reverse the channels first, for images that are not BGR.

    Raises:
        ConfigError: There is no directory.
        DependencyError: OpenCV is not installed.
    """
    if output_dir is None:
        raise ConfigError("dump_dataflow_images writes files: wanted an output_dir")
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


def _images(df: Any, index: int, batched: bool, number: int) -> Iterator[np.ndarray]:
    """Yield up to ``number`` images, and take no data point more than they need."""
    if number <= 0:
        return
    count = 0
    for dp in df:
        for image in dp[index] if batched else [dp[index]]:
            yield np.asarray(image)
            count += 1
            if count == number:
                return


def _prepare(cv2: Any, image: np.ndarray, scale: float, size: Any, flip: bool) -> np.ndarray:
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
