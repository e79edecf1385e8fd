"""Augmentors, which draw random numbers and decide on a change of an image, and transforms, the decided changes.

An augmentor needs only ``get_transform(img)``, which returns a `Transform`. That draws no numbers: it moves the image,
its mask, coordinates and boxes alike, as often as it is called. Augmentors in the style of early tensorpack, with
``_get_augment_params`` and ``_augment``, work too.

Coordinates are continuous: the image is the rectangle from (0, 0) to (W, H), and the pixel in row i and column j is the
square from (j, i) to (j + 1, i + 1). For indices of pixels, add 0.5 before and round down after. (In tensorpack
resizing and flipping did so, and affine warping was half a pixel off.) Nothing is cut off at the border of the image.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np

from tpack.dataflow.imgaug.checks import check_points
from tpack.dataflow.iterator_state import rng_from_state, rng_state
from tpack.errors import ConfigError, InputError
from tpack.utils.renames import on_unknown_name
from tpack.utils.rng import get_rng
from tpack.utils.validation import check_arguments, check_instance, check_instances, shown

__getattr__ = on_unknown_name(__name__)

# The corners of a box (x1, y1, x2, y2), as columns of x and y.
_CORNERS = [[0, 1], [2, 1], [2, 3], [0, 3]]


class Transform:
    """The base of all transforms; a subclass has ``apply_image`` and, if it can, ``apply_coords``.

    It may have more methods ``apply_*`` of one argument. None changes its argument; results may share memory with it.
    """

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Return the changed image; raise an UnsupportedTransformError unless a subclass overrides this."""
        raise UnsupportedTransformError(f"{self!r} cannot change images: it has no apply_image()")

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Return the new places of points of the image.

        Shapes:
            Floats (N, 2); a row is (x, y), see the top of this module.

        Raises:
            UnsupportedTransformError: The subclass does not override this.
        """
        raise UnsupportedTransformError(f"{self!r} cannot change coordinates: it has no apply_coords()")

    def apply_box(self, box: np.ndarray) -> np.ndarray:
        """Return the upright boxes around the new corners of boxes.

        Shapes:
            Floats (N, 4); a row is (x1, y1, x2, y2), the upper left and the lower right corner.
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
    """Apply each transform of a list to the result of the one before it; refuse members of other classes.

    Nested lists in ``tfms`` are flattened. The list has each method ``apply_*`` that all members have; ``+`` joins it
    with another or a transform.
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
        """Return the new places of points of the image."""
        for transform in self.tfms:
            coords = transform.apply_coords(coords)
        return coords

    def apply_box(self, box: np.ndarray) -> np.ndarray:
        """Return the upright boxes around the new corners, unless a member has its own treatment of boxes.

        Upright boxes after each member would grow with each rotation.
        """
        own = ("apply_box" in vars(t) or type(t).apply_box is not Transform.apply_box for t in self.tfms)
        if not any(own):
            return super().apply_box(box)
        for transform in self.tfms:
            box = transform.apply_box(box)
        return box

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        if not name.startswith("apply_"):
            raise AttributeError(f"a TransformList has no attribute {name!r}")
        methods = [getattr(transform, name) for transform in self.tfms]

        def apply_all(value: Any) -> Any:
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
    """A transform made of functions; boxes follow from the coordinates unless they have a function of their own.

    Args:
        **kwargs: functions of one argument by the name of the method, such as ``apply_image``.

    Raises:
        ConfigError: A name does not begin with ``apply_``, or its value is not a function.

    Example:
        ``TransformFactory(name="Invert", apply_image=lambda img: 255 - img, apply_coords=lambda coords: coords)``
    """

    def __init__(self, name: str | None = None, **kwargs: Callable[[Any], Any]) -> None:
        for method, function in kwargs.items():
            if not method.startswith("apply_") or not callable(function):
                raise ConfigError(f"TransformFactory got {method}={shown(function)}: expected apply_image=function")
        self._name = name
        vars(self).update(kwargs)

    def __repr__(self) -> str:
        return super().__repr__() if self._name is None else f"TransformFactory({self._name!r})"


class UnsupportedTransformError(ConfigError, NotImplementedError):
    """A transform cannot change this kind of data."""


class ImageAugmentor:
    """The base of all augmentors.

    An image is an array of shape (H, W) or (H, W, C) of dtype uint8, with values from 0 to 255, or float32; augmentors
    that only move pixels take every dtype. The result may share memory with it.

    Example:
        class Invert(ImageAugmentor):
            def get_transform(self, img):
                return TransformFactory(apply_image=lambda img: 255 - img, apply_coords=lambda coords: coords)
    """

    _rng: "np.random.RandomState | None" = None
    _rng_process: int | None = None

    @property
    def rng(self) -> "np.random.RandomState":
        """The generator of this augmentor in this process, made on first use; pickling and forking do not copy it."""
        if self._rng is None or self._rng_process != os.getpid():
            self.rng = get_rng(self)
        return self._rng  # type: ignore[return-value]

    @rng.setter
    def rng(self, rng: "np.random.RandomState") -> None:
        self._rng = rng
        self._rng_process = os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_rng", "_rng_process")}

    def reset_state(self) -> None:
        """Get a new generator, for this augmentor and its parts.

        Flows call it once in the process that augments; ``fix_rng_seed`` before it makes runs repeatable.
        """
        self.rng = get_rng(self)
        for part in self.parts():
            part.reset_state()

    def parts(self) -> "list[ImageAugmentor]":
        """Return the augmentors in the attributes of this one, and in lists and dicts there."""
        return [found for value in vars(self).values() for found in _find(value)]

    def get_transform(self, img: np.ndarray) -> Transform:
        """Decide on the change of an image, by its size and content, and return it for all that belongs to the image.

        Raises:
            UnsupportedTransformError: The subclass has neither this method nor ``_augment``.
        """
        if not hasattr(self, "_augment"):
            raise UnsupportedTransformError(f"{type(self).__name__} has no get_transform(): define it in the subclass")
        params = self._get_augment_params(img)
        return params if isinstance(params, Transform) else _OldStyleTransform(self, params)

    def augment(self, img: np.ndarray) -> np.ndarray:
        """Return an image with a newly decided change."""
        return self.augment_return_params(img)[0]

    def augment_return_params(self, d: np.ndarray) -> tuple[np.ndarray, Transform]:
        """Return an image with a newly decided change, and that change."""
        transform = self.get_transform(d)
        return transform.apply_image(d), transform

    def augment_with_params(self, d: np.ndarray, param: Transform) -> np.ndarray:
        """Return an image with a former change: ``param.apply_image(d)``."""
        return param.apply_image(d)

    def augment_coords(self, coords: np.ndarray, param: Transform) -> np.ndarray:
        """Return the places of points after a former change: ``param.apply_coords(coords)``."""
        return param.apply_coords(coords)

    def _get_augment_params(self, img: np.ndarray) -> Any:
        """Return the parameters of ``_augment``; overridden in the old style."""
        return None

    def _init(self, params: Mapping[str, Any] | None = None) -> None:
        """Keep the arguments of a constructor, given as ``locals()``, as attributes."""
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


# Another name in scripts.
Augmentor = ImageAugmentor


@check_arguments
class AugmentorList(ImageAugmentor):
    """Apply each augmentor of a list to the result of the one before it; refuse members of other classes."""

    def __init__(self, augmentors: Iterable[ImageAugmentor]) -> None:
        self.augmentors = check_instances(self, "augmentors", augmentors, ImageAugmentor)

    def get_transform(self, img: np.ndarray) -> Transform:
        """Decide on the change of an image; all changes but the last are made on the way."""
        transforms: list[Transform] = []
        for augmentor in self.augmentors[:-1]:
            img, transform = augmentor.augment_return_params(img)
            transforms.append(transform)
        return TransformList([*transforms, *(last.get_transform(img) for last in self.augmentors[-1:])])

    def augment_return_params(self, d: np.ndarray) -> tuple[np.ndarray, Transform]:
        """Return an image with newly decided changes, and these; each change is made once."""
        transforms: list[Transform] = []
        for augmentor in self.augmentors:
            d, transform = augmentor.augment_return_params(d)
            transforms.append(transform)
        return d, TransformList(transforms)

    def augment(self, img: np.ndarray) -> np.ndarray:
        """Return an image with newly decided changes."""
        for augmentor in self.augmentors:
            img = augmentor.augment(img)
        return img


def check_augmentor(owner: object, name: str, augmentor: object) -> ImageAugmentor:
    """Return the argument, or refuse it unless it is an ImageAugmentor."""
    return check_instance(owner, name, augmentor, ImageAugmentor)


class _OldStyleTransform(Transform):
    """The change of an augmentor with ``_augment(img, params)``, after its parameters were drawn."""

    def __init__(self, augmentor: Any, params: object) -> None:
        self.augmentor = augmentor
        self.params = params

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Call ``_augment``."""
        return self.augmentor._augment(img, self.params)

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Call ``_augment_coords``, if the augmentor has it."""
        if not hasattr(self.augmentor, "_augment_coords"):
            return super().apply_coords(coords)
        # Such methods may change the array, so they get a copy.
        return self.augmentor._augment_coords(np.array(coords), self.params)


def boxes_to_corners(owner: object, boxes: np.ndarray) -> np.ndarray:
    """Return the four corners of each box: of (N, 4) an array of (4 N, 2)."""
    return check_points(owner, boxes, 4)[:, _CORNERS].reshape(-1, 2)


def corners_to_boxes(corners: np.ndarray) -> np.ndarray:
    """Return the upright boxes around each four points: of (4 N, 2) an array of (N, 4)."""
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
    if isinstance(value, np.ndarray) and value.size > 9:
        return f"<array of shape {value.shape}>"
    return " ".join(repr(value).split())


def generator_states(augmentor: ImageAugmentor) -> list[Any]:
    """Return the states of the generators of an augmentor and its parts, each part once, wherever it is used."""
    return [rng_state(part.rng) for part in _all_parts(augmentor)]


def read_generator_states(augmentor: ImageAugmentor, states: object) -> "list[np.random.RandomState]":
    """Return generators in the states of an augmentor built alike; raise InputError for invalid states."""
    count = sum(1 for _ in _all_parts(augmentor))
    if not isinstance(states, (list, tuple)) or len(states) != count:
        found = f"{len(states)} states" if isinstance(states, (list, tuple)) else f"a {type(states).__name__}"
        raise InputError(f"the augmentors got {found}: expected {count}; build them as in the run that saved it")
    return [rng_from_state(state) for state in states]


def set_generators(augmentor: ImageAugmentor, generators: "list[np.random.RandomState]") -> None:
    """Set the generators of an augmentor and its parts, from ``read_generator_states``."""
    for part, generator in zip(_all_parts(augmentor), generators, strict=True):
        part.rng = generator


def seed_generators(augmentor: ImageAugmentor, seed: int) -> None:
    """Give an augmentor and its parts one generator with a seed from 0 to ``2**32 - 1``.

    A function in a worker, which has no position, becomes repeatable if the seed comes with the image.
    """
    generator = np.random.RandomState(seed)
    for part in _all_parts(augmentor):
        part.rng = generator


def _all_parts(augmentor: ImageAugmentor) -> Iterator[ImageAugmentor]:
    """Yield an augmentor and its parts, each once, outer ones first."""
    seen: set[int] = set()
    waiting = [augmentor]
    while waiting:
        part = waiting.pop(0)
        if id(part) not in seen:
            seen.add(id(part))
            waiting += part.parts()
            yield part
