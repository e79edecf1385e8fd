"""Rectangles in images by their corners, in whole pixels or real numbers."""

from collections.abc import Sequence

import numpy as np

from tpack.errors import ConfigError


class BoxBase:
    """A rectangle from (x1, y1), the upper left corner, to (x2, y2), all attributes."""

    def __init__(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self.x1, self.y1, self.x2, self.y2 = x1, y1, x2, y2

    def __repr__(self) -> str:
        return f"{type(self).__name__}(x1={self.x1}, y1={self.y1}, x2={self.x2}, y2={self.y2})"

    def as_array(self) -> np.ndarray:
        """Return the four numbers."""
        return np.array([self.x1, self.y1, self.x2, self.y2])

    def copy(self) -> "BoxBase":
        """Return a copy."""
        return type(self)(self.x1, self.y1, self.x2, self.y2)

    def is_box(self) -> bool:
        """Tell whether it has an area."""
        return self.w > 0 and self.h > 0

    @property
    def w(self) -> float:
        """The width."""
        return self.x2 - self.x1

    @property
    def h(self) -> float:
        """The height."""
        return self.y2 - self.y1

    def area(self) -> float:
        """Return width times height."""
        return self.w * self.h

    def validate(self) -> None:
        """Raise an error without an area.

        Raises:
            ConfigError: It has none.
        """
        if not self.is_box():
            raise ConfigError(f"{self!r} has no area")


class IntBox(BoxBase):
    """A rectangle of whole pixels, including (x2, y2).

    Raises:
        ConfigError: A number is not whole.
    """

    def __init__(self, x1: float, y1: float, x2: float, y2: float) -> None:
        if any(value != int(value) for value in (x1, y1, x2, y2)):
            raise ConfigError(f"IntBox got {(x1, y1, x2, y2)}: expected whole numbers")
        super().__init__(int(x1), int(y1), int(x2), int(y2))

    @property
    def w(self) -> float:
        """The number of columns."""
        return self.x2 - self.x1 + 1

    @property
    def h(self) -> float:
        """The number of rows."""
        return self.y2 - self.y1 + 1

    def is_valid_box(self, shape: Sequence[int]) -> bool:
        """Tell whether it is inside an image of this (height, width)."""
        return 0 <= self.x1 <= self.x2 < shape[1] and 0 <= self.y1 <= self.y2 < shape[0]

    def clip_by_shape(self, shape: Sequence[int]) -> None:
        """Clip it to an image of this (height, width)."""
        self.x1, self.x2 = (int(np.clip(x, 0, shape[1] - 1)) for x in (self.x1, self.x2))
        self.y1, self.y2 = (int(np.clip(y, 0, shape[0] - 1)) for y in (self.y1, self.y2))

    def roi(self, img: np.ndarray) -> np.ndarray:
        """Return this part of an image.

        Raises:
            ConfigError: It is not inside.
        """
        if not self.is_valid_box(img.shape):
            raise ConfigError(f"{self!r} is not inside an image of shape {img.shape}")
        return img[int(self.y1) : int(self.y2) + 1, int(self.x1) : int(self.x2) + 1]


class FloatBox(BoxBase):
    """A rectangle whose corners are between pixels, or fractions of an image."""

    def clip_by_shape(self, shape: Sequence[int]) -> None:
        """Clip it to an image of this (height, width)."""
        self.x1, self.x2 = (float(np.clip(x, 0, shape[1])) for x in (self.x1, self.x2))
        self.y1, self.y2 = (float(np.clip(y, 0, shape[0])) for y in (self.y1, self.y2))

    @classmethod
    def from_intbox(cls, intbox: IntBox) -> "FloatBox":
        """Return the rectangle around whole pixels."""
        return cls(intbox.x1, intbox.y1, intbox.x2 + 1, intbox.y2 + 1)
