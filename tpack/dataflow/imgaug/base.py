"""What an augmentor is: an object that draws random numbers and says how an image is to be changed.

``get_transform(img)`` is all that a subclass has to write; the other methods stand on it. Subclasses written for early
tensorpack, with ``_get_augment_params`` and ``_augment``, work too.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tpack.dataflow.imgaug.transform import Transform, UnsupportedTransformError
from tpack.utils.rng import get_rng


class ImageAugmentor:
    """The base of all augmentors.

    An image is an array of shape (H, W) or (H, W, C) of dtype uint8, with values from 0 to 255, or float32. An
    augmentor does not change it; what it returns may be the same array or share memory with it.

    Example:
        class Invert(ImageAugmentor):
            def get_transform(self, img):
                return TransformFactory(apply_image=lambda img: 255 - img, apply_coords=lambda coords: coords)
    """

    _rng: np.random.RandomState | None = None
    _rng_process: int | None = None

    @property
    def rng(self) -> np.random.RandomState:
        """The generator of this augmentor in this process; without ``reset_state`` it is made when it is first used.

        It does not go to other processes, neither by pickling nor by forking: all workers would draw the same numbers.
        """
        if self._rng is None or self._rng_process != os.getpid():
            self.rng = get_rng(self)
        return self._rng  # type: ignore[return-value]

    @rng.setter
    def rng(self, rng: np.random.RandomState) -> None:
        self._rng = rng
        self._rng_process = os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_rng", "_rng_process")}

    def reset_state(self) -> None:
        """Get a new generator, for this augmentor and those it is made of.

        To be called once in the process that augments, after ``fix_rng_seed`` if runs are to repeat. Flows do it.
        """
        self.rng = get_rng(self)
        for part in self.parts():
            part.reset_state()

    def parts(self) -> "list[ImageAugmentor]":
        """Return the augmentors that this one is made of: those in its attributes, and in lists and dicts there."""
        return [found for value in vars(self).values() for found in _find(value)]

    def get_transform(self, img: np.ndarray) -> Transform:
        """Decide how an image is changed.

        Args:
            img: the image, which is not changed; what is decided may depend on its size and content.

        Returns:
            What does it to this image and to all that belongs to it.

        Raises:
            UnsupportedTransformError: The subclass has neither this method nor ``_augment``.
        """
        if not hasattr(self, "_augment"):
            raise UnsupportedTransformError(f"{type(self).__name__} is no augmentor yet: it has no get_transform()")
        params = self._get_augment_params(img)
        return params if isinstance(params, Transform) else _OldStyleTransform(self, params)

    def augment(self, img: np.ndarray) -> np.ndarray:
        """Return an image changed in a way that is decided on anew."""
        return self.augment_return_params(img)[0]

    def augment_return_params(self, d: np.ndarray) -> tuple[np.ndarray, Transform]:
        """Return an image changed in a way that is decided on anew, and that way."""
        transform = self.get_transform(d)
        return transform.apply_image(d), transform

    def augment_with_params(self, d: np.ndarray, param: Transform) -> np.ndarray:
        """Return an image changed in a way that was decided on before: ``param.apply_image(d)``."""
        return param.apply_image(d)

    def augment_coords(self, coords: np.ndarray, param: Transform) -> np.ndarray:
        """Return where points have gone in a change that was decided on before: ``param.apply_coords(coords)``."""
        return param.apply_coords(coords)

    def _get_augment_params(self, img: np.ndarray) -> Any:
        """Return what ``_augment`` needs to know; a subclass in the old style overrides it."""
        return None

    def _init(self, params: Mapping[str, Any] | None = None) -> None:
        """Keep the arguments of a constructor, given as ``locals()``, as attributes of the same names."""
        for name, value in (params or {}).items():
            if name != "self" and not name.startswith("_"):
                setattr(self, name, value)

    def _rand_range(self, low: float = 1.0, high: float | None = None, size: Any = None) -> Any:
        """Draw from the numbers between two; from 0 to ``low`` if ``high`` is not given."""
        if high is None:
            low, high = 0.0, low
        return self.rng.uniform(low, high, size)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if name[0] != "_")
        return f"{type(self).__name__}({fields})"


class _OldStyleTransform(Transform):
    """What an augmentor with ``_augment(img, params)`` does, once its parameters are drawn."""

    def __init__(self, augmentor: Any, params: Any) -> None:
        self.augmentor = augmentor
        self.params = params

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Call ``_augment``."""
        return self.augmentor._augment(img, self.params)

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Call ``_augment_coords``, or say that the augmentor has none."""
        if not hasattr(self.augmentor, "_augment_coords"):
            return super().apply_coords(coords)
        # The caller's array is copied, since such methods were allowed to change it.
        return self.augmentor._augment_coords(np.array(coords), self.params)


def _find(value: Any) -> Iterable[ImageAugmentor]:
    """Yield the augmentors in the value of an attribute."""
    if isinstance(value, ImageAugmentor):
        yield value
    elif isinstance(value, Mapping):
        yield from _find(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for member in value:
            yield from _find(member)
