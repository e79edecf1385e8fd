"""What a Transform is: one change of an image that was decided on, which can be made to whatever belongs to the image.

An augmentor draws random numbers once and returns a transform. The transform draws none: it moves the pixels of the
image, of its mask, its coordinates and its boxes alike, as often as it is asked to.

Coordinates are continuous: the image is the rectangle from (0, 0) to (W, H), and the pixel in row i and column j is the
square from (j, i) to (j + 1, i + 1), so its centre is (j + 0.5, i + 0.5). Whoever has indices of pixels adds 0.5 to
them before, and rounds down after. All transforms keep to this. (In tensorpack resizing and flipping did, and affine
warping was half a pixel off.) Nothing is cut off at the border of the image.
"""

from typing import Any

import numpy as np

from tpack.dataflow.imgaug.checks import check_points
from tpack.errors import ConfigError

# The corners of a box (x1, y1, x2, y2), as columns of x and y.
_CORNERS = [[0, 1], [2, 1], [2, 3], [0, 3]]


class UnsupportedTransformError(ConfigError, NotImplementedError):
    """A transform was asked to change something that it does not know how to change."""


class Transform:
    """The base of all transforms; a subclass has ``apply_image`` and, if it can, ``apply_coords``.

    A subclass may have more methods ``apply_*`` of one argument; a `TransformList` has those that all its members have.
    No method changes its argument; what it returns may share memory with it.
    """

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Return the image changed.

        Raises:
            UnsupportedTransformError: The transform cannot; that is what one says that does not override this.
        """
        raise UnsupportedTransformError(f"{self!r} cannot change images: it has no apply_image()")

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Return where points of the image have gone.

        Args:
            coords: floats of shape (N, 2); a row is (x, y), see the top of this module.

        Raises:
            UnsupportedTransformError: The transform cannot; that is what one says that does not override this.
        """
        raise UnsupportedTransformError(f"{self!r} cannot change coordinates: it has no apply_coords()")

    def apply_box(self, box: np.ndarray) -> np.ndarray:
        """Return the upright boxes around where the corners of boxes have gone.

        Args:
            box: floats of shape (N, 4); a row is (x1, y1, x2, y2), the upper left and the lower right corner.
        """
        return corners_to_boxes(self.apply_coords(boxes_to_corners(self, box)))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={_shorten(value)}" for name, value in vars(self).items() if name[0] != "_")
        return f"{type(self).__name__}({fields})"


class NoOpTransform(Transform):
    """Change nothing."""

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Return the image itself."""
        return img

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Return the coordinates."""
        return check_points(self, coords, 2)


def boxes_to_corners(owner: Any, boxes: np.ndarray) -> np.ndarray:
    """Return the four corners of each box.

    Shapes:
        (N, 4) to (4 N, 2)
    """
    return check_points(owner, boxes, 4)[:, _CORNERS].reshape(-1, 2)


def corners_to_boxes(corners: np.ndarray) -> np.ndarray:
    """Return the upright boxes around each four points.

    Shapes:
        (4 N, 2) to (N, 4)
    """
    points = corners.reshape(-1, 4, 2)
    return np.concatenate([points.min(axis=1), points.max(axis=1)], axis=1)


def _shorten(value: Any) -> str:
    """Write a field of a transform in a few characters."""
    if isinstance(value, np.ndarray) and value.size > 9:
        return f"<array of shape {value.shape}>"
    return " ".join(repr(value).split())
