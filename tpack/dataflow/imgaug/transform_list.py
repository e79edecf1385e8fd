"""Transforms made one after the other, as one."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tpack.dataflow.imgaug.transform import Transform, boxes_to_corners, corners_to_boxes
from tpack.errors import ConfigError


class TransformList(Transform):
    """Make each transform of a list to what the one before it gave.

    The list itself is ``tfms``, with the members of lists in it in their place. It has each method ``apply_*`` that
    all of them have. Two lists, or a list and a transform, are put together by ``+``.
    """

    def __init__(self, tfms: Iterable[Transform]) -> None:
        """Make the list.

        Raises:
            ConfigError: A member is no Transform.
        """
        self.tfms: list[Transform] = []
        for transform in tfms:
            if not isinstance(transform, Transform):
                raise ConfigError(f"TransformList got a {type(transform).__name__}: wanted a Transform")
            self.tfms.extend(transform.tfms if isinstance(transform, TransformList) else [transform])

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Return the image with all changes."""
        for transform in self.tfms:
            img = transform.apply_image(img)
        return img

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Return where points of the image have gone after all."""
        for transform in self.tfms:
            coords = transform.apply_coords(coords)
        return coords

    def apply_box(self, box: np.ndarray) -> np.ndarray:
        """Return the upright boxes around the corners after all, unless a member has boxes of its own kind.

        Upright boxes after each member would grow with each rotation.
        """
        if not any(_has_own_boxes(transform) for transform in self.tfms):
            return corners_to_boxes(self.apply_coords(boxes_to_corners(self, box)))
        for transform in self.tfms:
            box = transform.apply_box(box)
        return box

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        if not name.startswith("apply_"):
            raise AttributeError(f"a TransformList has no attribute {name!r}")
        methods = [getattr(transform, name) for transform in self.tfms]

        def apply_all(value: Any) -> Any:
            """Call the method of each member."""
            for method in methods:
                value = method(value)
            return value

        return apply_all

    def __len__(self) -> int:
        return len(self.tfms)

    def __add__(self, other: Transform) -> "TransformList":
        return TransformList([self, other])

    def __radd__(self, other: Transform) -> "TransformList":
        return TransformList([other, self])


def _has_own_boxes(transform: Transform) -> bool:
    """Whether a transform does something else with boxes than moving their corners."""
    return "apply_box" in vars(transform) or type(transform).apply_box is not Transform.apply_box
