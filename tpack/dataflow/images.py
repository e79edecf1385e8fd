"""Images in data points: read from files, and augmented.

A position includes the generators of the augmentors, so a continued run sees the images that it would have seen.
"""

import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from tpack.dataflow.base import DataFlow, ProxyDataFlow
from tpack.dataflow.imgaug.base import (
    AugmentorList,
    ImageAugmentor,
    generator_states,
    read_generator_states,
    set_generators,
)
from tpack.dataflow.imgaug.checks import check_shape
from tpack.dataflow.imgaug.resize import Resize
from tpack.dataflow.iterator_state import StateReader, make_state
from tpack.dataflow.mapping import Index, Point
from tpack.dataflow.opencv import opencv
from tpack.dataflow.sources import IndexedDataFlow
from tpack.errors import ConfigError, InputError
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_choice, check_path

_Augmentors: TypeAlias = Sequence[ImageAugmentor] | ImageAugmentor

# The number of exceptions that are all logged, and the interval of those logged later.
_ALL_LOGGED = 10
_LOGGED_EVERY = 100


@check_arguments
class ImageFromFile(IndexedDataFlow):
    """Yield ``[image]`` for each of a list of files: uint8 of shape (H, W, 3), in blue, green and red, or (H, W, 1).

    Args:
        channel: 3 for colour, 1 for grey.
        resize: height and width of the images after resizing, or one number for both; None leaves them as they are.

    Raises:
        ConfigError: There is no file, or another number of channels.
    """

    def __init__(
        self,
        files: Sequence[str | os.PathLike[str]],
        channel: int = 3,
        resize: int | Sequence[int] | None = None,
        shuffle: bool = False,
    ) -> None:
        if len(files) == 0:
            raise ConfigError("ImageFromFile got files=[]: expected a list of at least one path")
        super().__init__(shuffle)
        self.files = [check_path(self, f"files[{k}]", file) for k, file in enumerate(files)]
        self.channel = check_choice(self, "channel", channel, (1, 3))
        self.resize = None if resize is None else Resize(check_shape(self, "resize", resize))

    def __len__(self) -> int:
        return len(self.files)

    def _read(self, index: int) -> list[Any]:
        image = read_image(self.files[index], self.channel)
        return [image if self.resize is None else self.resize.augment(image)]


class _AugmentingDataFlow(ProxyDataFlow):
    """The base of the three flows: augmentors, their generators, and the handling of their exceptions."""

    holds_nothing_back = True

    def __init__(self, ds: DataFlow, augmentors: _Augmentors, copy: bool, catch_exceptions: bool) -> None:
        super().__init__(ds)
        if not isinstance(augmentors, AugmentorList):
            augmentors = AugmentorList([augmentors] if isinstance(augmentors, ImageAugmentor) else augmentors)
        self.augs = augmentors
        self._copy = copy
        self._catch_exceptions = catch_exceptions
        self._num_caught = 0

    def __iter__(self) -> Iterator[Any]:
        for number, point in enumerate(self.ds):
            try:
                augmented = self._augment(Point(number, point))
            except Exception:
                if not self._catch_exceptions:
                    raise
                self._num_caught += 1
                if self._num_caught <= _ALL_LOGGED or self._num_caught % _LOGGED_EVERY == 0:
                    name, count = type(self).__name__, self._num_caught
                    logger.exception("%s dropped data point %d of this pass, %d in all", name, number, count)
            else:
                yield augmented

    @abstractmethod
    def _augment(self, point: Point) -> list[Any] | dict[Any, Any]:
        """Return the data point augmented."""

    def _own(self, image: Any) -> Any:
        """Return an array that augmentors may change."""
        return image.copy() if self._copy and isinstance(image, np.ndarray) else image

    def reset_state(self) -> None:
        """Reset the wrapped flow and the augmentors."""
        super().reset_state()
        self.augs.reset_state()

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the wrapped flow and the generators of the augmentors."""
        return make_state(self, ds=self.ds.state_dict(), augmentors=generator_states(self.augs))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Send the wrapped flow to a position, and set the generators of the augmentors."""
        saved = StateReader(self, state, "ds", "augmentors")
        generators = read_generator_states(self.augs, saved["augmentors"])
        self.ds.load_state_dict(saved["ds"])
        set_generators(self.augs, generators)


@check_arguments
class AugmentImageComponent(_AugmentingDataFlow):
    """Augment the image in each data point.

    Args:
        augmentors: the augmentors, one after the other.
        index: the component with the image: its place, or its key in a dict.
        copy: copy the image first, which takes time; only needed if an augmentor of yours changes its argument.
        catch_exceptions: drop and log a data point if an augmentor raises.
    """

    def __init__(
        self, ds: DataFlow, augmentors: _Augmentors, index: Index = 0, copy: bool = True, catch_exceptions: bool = False
    ) -> None:
        super().__init__(ds, augmentors, copy, catch_exceptions)
        self.index = index

    def _augment(self, point: Point) -> list[Any] | dict[Any, Any]:
        return point.replace({self.index: self.augs.augment(self._own(point.get(self.index)))})


@check_arguments
class AugmentImageCoordinates(_AugmentingDataFlow):
    """Augment the image in each data point, and move its coordinates alike.

    See `AugmentImageComponent` for the other arguments; coordinates are copied in any case.

    Args:
        img_index: the component with the image: its place, or its key in a dict.
        coords_index: the component with coordinates: floats of shape (N, 2), as `imgaug.Transform` takes them.
    """

    def __init__(
        self,
        ds: DataFlow,
        augmentors: _Augmentors,
        img_index: Index = 0,
        coords_index: Index = 1,
        copy: bool = True,
        catch_exceptions: bool = False,
    ) -> None:
        super().__init__(ds, augmentors, copy, catch_exceptions)
        self.img_index = img_index
        self.coords_index = coords_index

    def _augment(self, point: Point) -> list[Any] | dict[Any, Any]:
        coords = point.get(self.coords_index)
        image, transform = self.augs.augment_return_params(self._own(point.get(self.img_index)))
        return point.replace({self.img_index: image, self.coords_index: transform.apply_coords(coords)})


@check_arguments
class AugmentImageComponents(_AugmentingDataFlow):
    """Augment several images of each data point alike, such as an image and its mask, and move coordinates with them.

    Random decisions are made on the first image; the others must have its height and width wherever that matters. See
    `AugmentImageComponent` for the other arguments; coordinates are copied in any case.

    Args:
        index: the components with images; at least one.
        coords_index: the components with coordinates.

    Raises:
        ConfigError: No component is an image.
    """

    def __init__(
        self,
        ds: DataFlow,
        augmentors: _Augmentors,
        index: Sequence[Index] = (0, 1),
        coords_index: Index | Sequence[Index] = (),
        copy: bool = True,
        catch_exceptions: bool = False,
    ) -> None:
        super().__init__(ds, augmentors, copy, catch_exceptions)
        places = ((one,) if isinstance(one, (int, str)) else tuple(one) for one in (index, coords_index))
        self.index, self.coords_index = places
        if not self.index:
            raise ConfigError("AugmentImageComponents got index=(): expected at least one component with an image")

    def _augment(self, point: Point) -> list[Any] | dict[Any, Any]:
        first, *others = self.index
        coords = {place: point.get(place) for place in self.coords_index}
        image, transform = self.augs.augment_return_params(self._own(point.get(first)))
        images = {place: transform.apply_image(self._own(point.get(place))) for place in others}
        moved = {place: transform.apply_coords(value) for place, value in coords.items()}
        return point.replace({first: image, **images, **moved})


def read_image(path: str, channel: int = 3) -> np.ndarray:
    """Return the image in a file, with the channels blue, green and red, or of shape (H, W, 1) if ``channel`` is 1.

    Raises:
        InputError: The file is missing, or is not an image that OpenCV reads.
    """
    cv2 = opencv()
    try:
        content = np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        raise InputError(f"{path}: the image cannot be read: {error}") from error
    image = None
    if content.size:
        image = cv2.imdecode(content, cv2.IMREAD_GRAYSCALE if channel == 1 else cv2.IMREAD_COLOR)
    if image is None:
        raise InputError(f"{path}: OpenCV finds no image in its {content.size} bytes")
    return image[:, :, np.newaxis] if channel == 1 else image
