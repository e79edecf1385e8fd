"""Images pasted onto a larger background."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tpack.dataflow.imgaug.base import ImageAugmentor, Transform
from tpack.dataflow.imgaug.checks import check_image, check_image_size, check_points, check_shape
from tpack.dataflow.imgaug.photometric import fill_values
from tpack.errors import ConfigError, DataPointError
from tpack.utils.validation import check_arguments


class BackgroundFiller:
    """The base of fillers, which make backgrounds; a subclass has ``_fill``."""

    def fill(self, background_shape: Sequence[int], img: np.ndarray) -> np.ndarray:
        """Return a new background of a height and width, with the dtype and channels of the image to paste.

        Raises:
            DataPointError: The subclass made one of another shape or dtype.
        """
        shape = (*background_shape, *img.shape[2:])
        background = self._fill(tuple(background_shape), img)
        if background.shape != shape or background.dtype != img.dtype:
            made = f"{type(self).__name__} made a background of shape {background.shape} and dtype {background.dtype}"
            raise DataPointError(f"{made}: expected {shape} and {img.dtype}")
        return background

    def _fill(self, background_shape: tuple[int, ...], img: np.ndarray) -> np.ndarray:
        raise ConfigError(f"{type(self).__name__} has no _fill(): define it in the subclass")


@check_arguments
class ConstantBackgroundFiller(BackgroundFiller):
    """A background of one value, or one for each channel."""

    def __init__(self, value: float | Sequence[float]) -> None:
        self.value = value

    def _fill(self, background_shape: tuple[int, ...], img: np.ndarray) -> np.ndarray:
        background = np.empty((*background_shape, *img.shape[2:]), img.dtype)
        background[...] = fill_values(self, self.value, img)
        return background


class PasteTransform(Transform):
    """Paste an image of height ``h`` and width ``w`` at row ``y0`` and column ``x0`` of a background and its filler."""

    def __init__(self, y0: int, x0: int, h: int, w: int, background: tuple[Sequence[int], BackgroundFiller]) -> None:
        self.y0 = y0
        self.x0 = x0
        self.h = h
        self.w = w
        self.background = background

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Return a background with the image on it."""
        check_image_size(self, img, self.h, self.w)
        shape, filler = self.background
        canvas = filler.fill(shape, img)
        canvas[self.y0 : self.y0 + self.h, self.x0 : self.x0 + self.w] = img
        return canvas

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Count the coordinates from the corner of the background."""
        coords = check_points(self, coords, 2)
        coords += np.array([self.x0, self.y0], dtype=coords.dtype)
        return coords


@check_arguments
class CenterPaste(ImageAugmentor):
    """Paste the image onto the middle of a background.

    Args:
        background_shape: height and width of the background, or one number for both.
        background_filler: its filler; None makes it of zeros.

    Raises:
        ConfigError: The filler is not a BackgroundFiller.
    """

    def __init__(
        self, background_shape: int | Sequence[int], background_filler: BackgroundFiller | None = None
    ) -> None:
        filler = ConstantBackgroundFiller(0) if background_filler is None else background_filler
        self.background_shape = check_shape(self, "background_shape", background_shape)
        self.background_filler = filler

    def get_transform(self, img: np.ndarray) -> Transform:
        """Find the place; raise a DataPointError if the image is larger than the background."""
        height, width = check_image(self, img)
        free_height, free_width = self.background_shape[0] - height, self.background_shape[1] - width
        if free_height < 0 or free_width < 0:
            limit = f"{self.background_shape[0]} x {self.background_shape[1]}"
            raise DataPointError(f"{type(self).__name__} got an image of shape {img.shape}: expected at most {limit}")
        y0, x0 = self._choose_place(free_height, free_width)
        return PasteTransform(y0, x0, height, width, (self.background_shape, self.background_filler))

    def _choose_place(self, free_height: int, free_width: int) -> tuple[Any, Any]:
        return free_height // 2, free_width // 2


class RandomPaste(CenterPaste):
    """Paste the image onto a random place of a background, each with the same probability."""

    def _choose_place(self, free_height: int, free_width: int) -> tuple[Any, Any]:
        return self.rng.randint(free_height + 1), self.rng.randint(free_width + 1)
