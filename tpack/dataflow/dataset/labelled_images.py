"""Flows over images in memory, each with a label."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tpack.dataflow.indexed import IndexedDataFlow


class LabelledImages(IndexedDataFlow):
    """Yield ``[image, label]``: an array of an image's own and an integer.

    ``images`` and ``labels`` hold all of them.
    """

    def __init__(self, images: np.ndarray, labels: np.ndarray, shuffle: bool) -> None:
        """Make the flow.

        Args:
            images: of shape (N, ...).
            labels: of shape (N,).
            shuffle: whether each pass has a new order.
        """
        super().__init__(bool(shuffle))
        self.images = images
        self.labels = labels

    def __len__(self) -> int:
        return len(self.images)

    def _read(self, index: int) -> list[Any]:
        return [self._make_image(self.images[index]), int(self.labels[index])]

    def _make_image(self, stored: np.ndarray) -> np.ndarray:
        """Return what is yielded for an image that is kept."""
        return stored.copy()


class UnitImages(LabelledImages):
    """Images that are kept as integers and yielded as float32, from 0 to 1."""

    _greatest = 255

    def _make_image(self, stored: np.ndarray) -> np.ndarray:
        return stored.astype(np.float32) / np.float32(self._greatest)


def mean_image(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the mean over all images of several arrays of shape (N, ...), as float32."""
    total: Any = sum(part.sum(axis=0, dtype=np.float64) for part in parts)
    return (total / sum(map(len, parts))).astype(np.float32)
