"""Data augmentation that mixes the examples of a batch and their labels: MixUp and CutMix.

Each example is paired with another of its batch by a permutation. One weight a batch, from Beta(alpha, alpha), is the
part of an example that stays, in its image as in its label. Labels become soft, of [B, classes], with rows that sum to
1.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from tpack.dataflow.base import DataFlow, ProxyDataFlow, RNGDataFlow
from tpack.dataflow.iterator_state import StateReader, make_state, rng_state
from tpack.dataflow.mapping import Index, Point
from tpack.errors import ConfigError, DataPointError
from tpack.utils.validation import check_arguments, check_count, check_number


class MixedBatches(ProxyDataFlow, RNGDataFlow):
    """The base of flows that mix the examples of a batch; a subclass has ``mix_images``.

    Args:
        ds: a flow of batches, as ``BatchData`` makes them: lists, tuples or dicts of arrays.
        alpha: parameter of the distribution Beta(alpha, alpha) of weights, above 0; smaller values mix less.
        num_classes: the number of classes, if labels are class numbers. By default labels must be soft.
        image: the component with the images: its place, or its key in a dict.
        label: the component with the labels.

    Raises:
        ConfigError: ``alpha`` is not above 0, ``num_classes`` is less than 1, or images and labels are one component. A
            batch that cannot be mixed raises DataPointError in iteration.
    """

    holds_nothing_back = True

    def __init__(
        self, ds: DataFlow, alpha: float, *, num_classes: int | None = None, image: Index = 0, label: Index = 1
    ) -> None:
        super().__init__(ds)
        self.alpha = check_number(self, "alpha", alpha, 0, is_low_allowed=False)
        self.num_classes = None if num_classes is None else check_count(self, "num_classes", num_classes)
        if image == label:
            raise ConfigError(f"{type(self).__name__} got image={image!r} and label={label!r}: expected two components")
        self.image = image
        self.label = label

    @abstractmethod
    def mix_images(self, images: np.ndarray, order: np.ndarray, weight: float) -> tuple[np.ndarray, float]:
        """Return new images, each mixed with that of number ``order`` by a weight, and the part that stays."""

    def reset_state(self) -> None:
        """Get a new generator and reset the wrapped flow."""
        RNGDataFlow.reset_state(self)
        ProxyDataFlow.reset_state(self)

    def __iter__(self) -> Iterator[Any]:
        for number, point in enumerate(self.ds):
            yield self._mix(number, point)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the wrapped flow, and the generator."""
        return make_state(self, ds=self.ds.state_dict(), rng=rng_state(self.rng))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position."""
        saved = StateReader(self, state, "ds", "rng")
        rng = saved.generator("rng")
        self.ds.load_state_dict(saved["ds"])
        self.rng = rng

    def _mix(self, number: int, point: Any) -> list[Any] | dict[Any, Any]:
        batch = Point(number, point)
        images = self._checked_images(number, batch.get(self.image))
        labels = self._soft_labels(number, batch.get(self.label), len(images))
        # Places may be counted from the end, so that two of them may be one.
        is_list = isinstance(point, (list, tuple)) and isinstance(self.image, int) and isinstance(self.label, int)
        if is_list and (self.image - self.label) % len(point) == 0:  # type: ignore[operator]
            raise DataPointError(
                f"{type(self).__name__} got image={self.image} and label={self.label}, one component of data point "
                f"{number}, a {type(point).__name__} of {len(point)}: expected two"
            )
        weight, order = self.rng.beta(self.alpha, self.alpha), self.rng.permutation(len(images))
        mixed, own = self.mix_images(images, order, weight)
        return batch.replace({self.image: mixed, self.label: blend(labels, order, own)})

    def _checked_images(self, number: int, images: object) -> np.ndarray:
        is_batch = isinstance(images, np.ndarray) and images.ndim >= 2
        if is_batch and (images.dtype == np.uint8 or images.dtype.kind == "f"):  # type: ignore[attr-defined]
            return images  # type: ignore[return-value]
        raise DataPointError(
            f"{type(self).__name__} got {_described(images)} as component {self.image!r} of data point {number}: "
            "expected a batch of images, an array of uint8 or floats; use BatchData before it"
        )

    def _soft_labels(self, number: int, labels: object, size: int) -> np.ndarray:
        """Return labels of [B, classes]."""
        given = f"{type(self).__name__} got {_described(labels)} as component {self.label!r} of data point {number}"
        array = labels if isinstance(labels, np.ndarray) else np.empty(())
        if self.num_classes is None:
            if array.ndim == 2 and len(array) == size and array.dtype.kind == "f":
                return array
            raise DataPointError(f"{given}: expected floats of [{size}, classes]; use num_classes= for class numbers")
        if array.shape != (size,) or array.dtype.kind not in "iu":
            raise DataPointError(f"{given}: expected {size} integers, class numbers, since num_classes was given")
        if array.size and not 0 <= array.min() <= array.max() < self.num_classes:
            last = self.num_classes - 1
            raise DataPointError(f"{given}, from {array.min()} to {array.max()}: expected class numbers up to {last}")
        soft = np.zeros((size, self.num_classes), np.float32)
        soft[np.arange(size), array] = 1
        return soft


@check_arguments
class MixUp(MixedBatches):
    """Yield batches in which each image, and its label, is blended with another of the batch.

    An example becomes ``w * example + (1 - w) * other``, with the arguments of `MixedBatches`. Images, or any other
    arrays, keep their dtype; uint8 is rounded to the nearest.

    Shapes:
        images [B, ...], of uint8 or floats, stay so; labels [B] with ``num_classes``, or soft ones of [B, classes],
        become [B, classes], of float32 where they were numbers.

    Example:
        ``MixUp(BatchData(ds, 64), num_classes=1000)``

    Source:
        Zhang et al., mixup: Beyond Empirical Risk Minimization (2018), with 0.2 for ImageNet.
    """

    def __init__(
        self, ds: DataFlow, alpha: float = 0.2, *, num_classes: int | None = None, image: Index = 0, label: Index = 1
    ) -> None:
        super().__init__(ds, alpha, num_classes=num_classes, image=image, label=label)

    def mix_images(self, images: np.ndarray, order: np.ndarray, weight: float) -> tuple[np.ndarray, float]:
        """Return blended images, and the weight."""
        return blend(images, order, weight), weight


@check_arguments
class CutMix(MixedBatches):
    """Yield batches in which a box of each image is replaced by that of another image of the batch.

    The box, the same for all, has sides of ``sqrt(1 - w)`` of the image's and any pixel as its centre; parts outside
    are cut off. Labels are weighted by the area really replaced. For arguments see `MixedBatches`; with ``alpha`` of 1,
    the paper's, ``w`` is uniform.

    Shapes:
        images [B, H, W] or [B, H, W, C], of uint8 or floats, stay so (channels come last: others have no such box);
        labels [B] with ``num_classes``, or soft ones of [B, classes], become [B, classes].

    Example:
        ``CutMix(BatchData(ds, 64), num_classes=1000)``

    Source:
        Yun et al., CutMix: Regularization Strategy to Train Strong Classifiers with Localizable Features (2019).
    """

    def __init__(
        self, ds: DataFlow, alpha: float = 1.0, *, num_classes: int | None = None, image: Index = 0, label: Index = 1
    ) -> None:
        super().__init__(ds, alpha, num_classes=num_classes, image=image, label=label)

    def mix_images(self, images: np.ndarray, order: np.ndarray, weight: float) -> tuple[np.ndarray, float]:
        """Return images with a box of another and the area outside of it; raise DataPointError for other dimensions."""
        if images.ndim not in (3, 4) or 0 in images.shape:
            raise DataPointError(
                f"CutMix got images of shape {list(images.shape)}: expected [B, H, W] or [B, H, W, C], none of them 0"
            )
        height, width = images.shape[1:3]
        (top, bottom), (left, right) = (self._draw_side(size, weight) for size in (height, width))
        mixed = images.copy()
        mixed[:, top:bottom, left:right] = images[order, top:bottom, left:right]
        return mixed, 1 - (bottom - top) * (right - left) / (height * width)

    def _draw_side(self, size: int, weight: float) -> tuple[int, int]:
        """Draw the beginning and the end of a box along one side of the image."""
        half = int(size * math.sqrt(1 - weight)) // 2
        centre = int(self.rng.randint(size))
        return max(centre - half, 0), min(centre + half, size)


def blend(values: np.ndarray, order: np.ndarray, weight: float) -> np.ndarray:
    """Return ``weight`` of each row and the rest of that of number ``order``, in the rows' dtype; uint8 is rounded."""
    if values.dtype != np.uint8:
        kind = values.dtype.type
        return values * kind(weight) + values[order] * kind(1 - weight)
    mixed = values * np.float32(weight) + values[order] * np.float32(1 - weight)
    return np.rint(mixed).clip(0, 255).astype(np.uint8)


def _described(value: object) -> str:
    return f"an array of {value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
