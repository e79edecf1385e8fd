"""What an augmentor is, an object that draws random numbers and says how an image is changed; and what it says.

``get_transform(img)`` is all that an augmentor has to write; the other methods stand on it. It draws random numbers
once and returns a `Transform`: one change that was decided on, which draws none. That moves the pixels of the image, of
its mask, its coordinates and its boxes alike, as often as it is asked to. Augmentors written for early tensorpack, with
``_get_augment_params`` and ``_augment``, work too. There are lists of both, which are used one after the other, and a
transform made of functions.

Coordinates are continuous: the image is the rectangle from (0, 0) to (W, H), and the pixel in row i and column j is the
square from (j, i) to (j + 1, i + 1), so its centre is (j + 0.5, i + 0.5). Whoever has indices of pixels adds 0.5 to
them before, and rounds down after. All transforms keep to this. (In tensorpack resizing and flipping did, and affine
warping was half a pixel off.) Nothing is cut off at the border of the image.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from tpack.dataflow.imgaug.checks import check_points
from tpack.errors import ConfigError
from tpack.utils.rng import get_rng
from tpack.utils.validation import check_arguments, check_instance, check_instances, shown

# The corners of a box (x1, y1, x2, y2), as columns of x and y.
_CORNERS = [[0, 1], [2, 1], [2, 3], [0, 3]]


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


class TransformList(Transform):
    """Make each transform of a list to what the one before it gave.

    The list itself is ``tfms``, with the members of lists in it in their place. It has each method ``apply_*`` that
    all of them have. Two lists, or a list and a transform, are put together by ``+``.

    Raises:
        ConfigError: A member is not a Transform.
    """

    def __init__(self, tfms: Iterable[Transform]) -> None:
        self.tfms: list[Transform] = []
        for transform in check_instances(self, "tfms", tfms, Transform):
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


@check_arguments
class TransformFactory(Transform):
    """Do what functions do; boxes follow from the coordinates unless they have a function of their own.

    Args:
        name: what it is called in messages.
        **kwargs: functions of one argument by the name of the method, such as ``apply_image``.

    Raises:
        ConfigError: A name does not begin with ``apply_``, or its value is no function.

    Example:
        ``TransformFactory(name="Invert", apply_image=lambda img: 255 - img, apply_coords=lambda coords: coords)``
    """

    def __init__(self, name: str | None = None, **kwargs: Callable[[Any], Any]) -> None:
        for method, function in kwargs.items():
            if not method.startswith("apply_") or not callable(function):
                raise ConfigError(
                    f"TransformFactory got {method}={shown(function)}: expected functions by names such as apply_image"
                )
        self._name = name
        vars(self).update(kwargs)

    def __repr__(self) -> str:
        return super().__repr__() if self._name is None else f"TransformFactory({self._name!r})"


class UnsupportedTransformError(ConfigError, NotImplementedError):
    """A transform was asked to change something that it does not know how to change."""


class ImageAugmentor:
    """The base of all augmentors.

    An image is an array of shape (H, W) or (H, W, C) of dtype uint8, with values from 0 to 255, or float32; those that
    only move pixels take every dtype. An augmentor does not change it; what it returns may be the same array or share
    memory with it.

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

    @overload
    def _rand_range(self, low: float = ..., high: float | None = ...) -> float: ...

    @overload
    def _rand_range(self, low: float, high: float | None, size: int | Sequence[int]) -> np.ndarray: ...

    def _rand_range(
        self, low: float = 1.0, high: float | None = None, size: int | Sequence[int] | None = None
    ) -> float | np.ndarray:
        """Draw from the numbers between two; from 0 to ``low`` if ``high`` is not given."""
        if high is None:
            low, high = 0.0, low
        return self.rng.uniform(low, high, size)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if name[0] != "_")
        return f"{type(self).__name__}({fields})"


# The name that scripts know besides.
Augmentor = ImageAugmentor


@check_arguments
class AugmentorList(ImageAugmentor):
    """Use each augmentor of a list on what the one before it gave.

    Raises:
        ConfigError: A member is not an ImageAugmentor.
    """

    def __init__(self, augmentors: Iterable[ImageAugmentor]) -> None:
        self.augmentors = check_instances(self, "augmentors", augmentors, ImageAugmentor)

    def get_transform(self, img: np.ndarray) -> Transform:
        """Decide how an image is changed; all but the last change are made to find out what comes after them."""
        transforms: list[Transform] = []
        for augmentor in self.augmentors[:-1]:
            img, transform = augmentor.augment_return_params(img)
            transforms.append(transform)
        return TransformList([*transforms, *(last.get_transform(img) for last in self.augmentors[-1:])])

    def augment_return_params(self, d: np.ndarray) -> tuple[np.ndarray, Transform]:
        """Return an image changed in a way that is decided on anew, and that way; each change is made once."""
        transforms: list[Transform] = []
        for augmentor in self.augmentors:
            d, transform = augmentor.augment_return_params(d)
            transforms.append(transform)
        return d, TransformList(transforms)

    def augment(self, img: np.ndarray) -> np.ndarray:
        """Return an image changed in a way that is decided on anew."""
        for augmentor in self.augmentors:
            img = augmentor.augment(img)
        return img


def check_augmentor(owner: object, name: str, augmentor: object) -> ImageAugmentor:
    """Return the argument.

    Raises:
        WrongTypeError: It is no ImageAugmentor.
    """
    return check_instance(owner, name, augmentor, ImageAugmentor)


class _OldStyleTransform(Transform):
    """What an augmentor with ``_augment(img, params)`` does, once its parameters are drawn."""

    def __init__(self, augmentor: Any, params: object) -> None:
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


def boxes_to_corners(owner: object, boxes: np.ndarray) -> np.ndarray:
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


def _find(value: object) -> Iterable[ImageAugmentor]:
    """Yield the augmentors in the value of an attribute."""
    if isinstance(value, ImageAugmentor):
        yield value
    elif isinstance(value, Mapping):
        yield from _find(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for member in value:
            yield from _find(member)


def _shorten(value: object) -> str:
    """Write a field of a transform in a few characters."""
    if isinstance(value, np.ndarray) and value.size > 9:
        return f"<array of shape {value.shape}>"
    return " ".join(repr(value).split())


def _has_own_boxes(transform: Transform) -> bool:
    """Whether a transform does something else with boxes than moving their corners."""
    return "apply_box" in vars(transform) or type(transform).apply_box is not Transform.apply_box
