"""Sources of data points: lists, iterables, generator functions, queues, and random numbers for trials."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tpack.dataflow.base import DataFlow, RNGDataFlow, UnknownLengthError
from tpack.dataflow.iterator_state import Passes, StateReader, close_iterator, make_state, skip
from tpack.errors import ConfigError, DataExhaustedError, InputError, WrongTypeError
from tpack.utils.validation import check_arguments, check_count, shown

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


@check_arguments
class IndexedDataFlow(RNGDataFlow):
    """Yield numbered data points, in a new random order on each pass or in their own.

    For data with random access, such as a list or an array in a file: a subclass has ``__len__`` and ``_read``. The
    position is the number of points taken and, with ``shuffle``, the generator at the beginning of the pass: going to
    one costs one shuffle.
    """

    # Whether reading single points costs about as much, in a subclass that reads whole passes in its own way.
    _is_read_at_will = False

    def __init__(self, shuffle: bool) -> None:
        self.shuffle = shuffle
        self._passes: Passes[int] = Passes(0)

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of data points."""

    @abstractmethod
    def _read(self, index: int) -> object:
        """Return a data point."""

    def __iter__(self) -> Iterator[Any]:
        one = self._passes.begin(self.rng if self.shuffle else None)
        for point in self._points(one.value):
            one.value += 1
            yield point
        self._passes.end(one)

    def unread(self) -> Iterator[Callable[[], object]]:
        """Begin a pass, and yield for each data point a function that reads it, for use of some of them only."""
        one = self._passes.begin(self.rng if self.shuffle else None)
        for index in self._draw_order()[one.value :].tolist():
            one.value += 1
            yield partial(self._read, index)
        self._passes.end(one)

    def state_dict(self) -> dict[str, Any]:
        """Return the number of points taken and the generator of their order."""
        rng = self._passes.drawn_from(self.rng) if self.shuffle else None
        return make_state(self, index=self._passes.value, rng=rng, size=len(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position; refuse one of another flow."""
        saved = StateReader(self, state, "index", "rng", "size")
        if saved["size"] != len(self):
            name, size = type(self).__name__, saved["size"]
            raise InputError(f"{name} got a state over {size} data points and has {len(self)}: the data has changed")
        index, rng = saved.count("index", at_most=len(self)), saved.generator_of_order("rng", shuffle=self.shuffle)
        if rng is not None:
            self.rng = rng
        self._passes.go_to(index)

    def end_pass(self) -> None:
        """Give up the rest of the newest pass."""
        self._passes.give_up(self._draw_order)

    def _points(self, start: int) -> Iterator[Any]:
        """Yield the data points of a pass, without the first ``start``."""
        for index in self._draw_order()[start:].tolist():
            yield self._read(index)

    def _draw_order(self) -> np.ndarray:
        order = np.arange(len(self))
        if self.shuffle:
            self.rng.shuffle(order)
        return order


@check_arguments
class DataFromList(IndexedDataFlow):
    """Yield the elements of a sequence themselves, not copies, in a new random order on each pass or in their own.

    Args:
        lst: the data points, in any object with a length and integer indices; others raise a ConfigError.
    """

    def __init__(self, lst: Sequence[Any], shuffle: bool = True) -> None:
        super().__init__(shuffle)
        self.lst = lst

    def __len__(self) -> int:
        return len(self.lst)

    def _read(self, index: int) -> object:
        return self.lst[index]


@check_arguments
class DataFromIterable(DataFlow):
    """Yield the elements of an iterable.

    An iterator, such as a generator, can usually be iterated once: a pass continues where the last one stopped, and one
    that finds nothing raises an error. To go to a position, points are taken again and dropped; the iterable must
    therefore yield the same in another process, unlike a set of strings.

    Raises:
        ConfigError: It cannot be iterated.
    """

    def __init__(self, iterable: Iterable[Any]) -> None:
        self._iterable = iterable
        self._was_begun = False
        self._passes: Passes[int] = Passes(0)
        # For an iterator, over all passes: the number of points taken, and of those to drop first.
        self._num_taken = 0
        self._num_to_skip = 0

    def __len__(self) -> int:
        if not isinstance(self._iterable, Sized):
            raise UnknownLengthError(f"the {type(self._iterable).__name__} in {type(self).__name__} has no length")
        return len(self._iterable)

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass; raise DataExhaustedError for an iterator that an earlier pass has used up."""
        was_begun, self._was_begun = self._was_begun, True
        one = self._passes.begin()
        points = iter(self._iterable)
        if self._is_iterator():
            count, self._num_to_skip = self._num_to_skip, 0
            skip(self, points, count)
            self._num_taken += count
        else:
            skip(self, points, one.value)
        # Not ``yield from``, which would close the user's generator when a pass is broken off.
        for point in points:
            one.value += 1
            self._num_taken += 1
            yield point
        self._passes.end(one)
        if one.value == 0 and was_begun and self._is_iterator():
            raise DataExhaustedError(
                f"{type(self).__name__} got an iterator that an earlier pass has used up: use a list, or "
                "DataFromGenerator with a generator function"
            )

    def reset_state(self) -> None:
        """Forget the position; an iterator stays where it is."""
        super().reset_state()
        self._num_to_skip = 0

    def state_dict(self) -> dict[str, Any]:
        """Return the number of points taken."""
        taken = self._num_taken + self._num_to_skip if self._is_iterator() else 0
        return make_state(self, index=self._passes.value, taken=taken, was_begun=self._was_begun)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position: the next pass drops the points taken before, or raises InputError if there are too few.

        A position before the place of an iterator is refused; nothing is changed.
        """
        saved = StateReader(self, state, "index", "taken", "was_begun")
        index, taken, was_begun = saved.count("index"), saved.count("taken"), saved.flag("was_begun")
        if self._is_iterator() and taken < self._num_taken:
            raise InputError(
                f"{type(self).__name__} got a position after {taken} data points, and its iterator is after "
                f"{self._num_taken}: an iterator cannot go back"
            )
        self._was_begun = was_begun
        self._num_to_skip = taken - self._num_taken if self._is_iterator() else 0
        self._passes.go_to(index)

    def _is_iterator(self) -> bool:
        return isinstance(self._iterable, Iterator)


@check_arguments
class DataFromGenerator(DataFlow):
    """Call a generator function for each pass and yield its data points. The length is not known.

    To go to a position, points are taken again and dropped. The function must therefore yield the same in another
    process, and neither draw random numbers of its own nor count its calls.

    Args:
        gen: a function without arguments that returns an iterable; or one, as for ``DataFromIterable``. Others are
            refused.
    """

    def __init__(self, gen: Callable[[], Iterable[Any]] | Iterable[Any]) -> None:
        self._gen = gen if callable(gen) else DataFromIterable(gen)
        self._passes: Passes[int] = Passes(0)
        # The last result of the function, if that is an iterator.
        self._returned: object = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_returned": None}

    def __iter__(self) -> Iterator[Any]:
        one = self._passes.begin()
        is_function = callable(self._gen)
        points = self._call(self._gen) if callable(self._gen) else iter(self._gen)
        try:
            skip(self, points, one.value if is_function else 0)
            for point in points:
                one.value += 1
                yield point
        finally:
            close_iterator(points)
        self._passes.end(one)

    def _call(self, gen: Callable[[], Iterable[Any]]) -> Iterator[Any]:
        """Call the function, which must return a new iterator each time, or an iterable."""
        returned = gen()
        if not isinstance(returned, Iterable):
            raise InputError(f"DataFromGenerator got {shown(returned)} from its function: expected an iterable")
        if returned is self._returned:
            raise DataExhaustedError(
                "DataFromGenerator got the same iterator from its function again, which an earlier pass has used up: "
                "expected a new one for each pass"
            )
        self._returned = returned if isinstance(returned, Iterator) else None
        return iter(returned)

    def reset_state(self) -> None:
        """Forget the position."""
        super().reset_state()
        if isinstance(self._gen, DataFromIterable):
            self._gen.reset_state()

    def state_dict(self) -> dict[str, Any]:
        """Return the number of points taken."""
        inner = self._gen.state_dict() if isinstance(self._gen, DataFromIterable) else None
        return make_state(self, index=self._passes.value, iterable=inner)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position: the next pass drops the points before, or raises InputError; refuse other states."""
        saved = StateReader(self, state, "index", "iterable")
        index = saved.count("index")
        if isinstance(self._gen, DataFromIterable):
            self._gen.load_state_dict(saved["iterable"])
        elif saved["iterable"] is not None:
            raise InputError("DataFromGenerator got the state of one with an iterable: expected one with a function")
        self._passes.go_to(index)

    def end_pass(self) -> None:
        """Give up the rest of the newest pass."""
        super().end_pass()
        if isinstance(self._gen, DataFromIterable):
            self._gen.end_pass()


@check_arguments
class DataFromQueue(DataFlow):
    """Yield the elements of a queue, with a method ``get``, without end; a pass waits while it is empty.

    They cannot be had again, so there is neither a position nor a length. Other objects are refused.
    """

    def __init__(self, queue: Any) -> None:
        if not callable(getattr(queue, "get", None)):
            raise WrongTypeError(f"DataFromQueue got queue={shown(queue)}: expected a queue, with a method get()")
        self.queue = queue

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield self.queue.get()


@check_arguments
class FakeData(RNGDataFlow):
    """Yield lists of uniform random arrays of given shapes and types.

    Args:
        random: draw each data point; else one for each pass.
        dtype: a dtype of numpy; or a list of one for each component.
        domain: the least number and the end of the range; or a list of one such pair for each component.

    Raises:
        ConfigError: A type, a shape or a range is invalid, or a list has not one entry for each component.
    """

    def __init__(
        self,
        shapes: Sequence[Sequence[int]],
        size: int = 1000,
        random: bool = True,
        dtype: DTypeLike | Sequence[DTypeLike] = "float32",
        domain: tuple[float, float] | Sequence[tuple[float, float]] = (0, 1),
    ) -> None:
        self._size = check_count(self, "size", size)
        self._random = random
        count = len(shapes)
        dtypes: Sequence[Any] = dtype if isinstance(dtype, (list, tuple)) else [dtype] * count
        is_pair = not all(map(np.iterable, domain))
        domains: Sequence[Any] = [domain] * count if is_pair else domain
        for name, values in (("dtype", dtypes), ("domain", domains)):
            if len(values) != count:
                raise ConfigError(f"FakeData got {count} shapes and {len(values)} of {name}: expected one for each")
        self._components = [_make(k, *spec) for k, spec in enumerate(zip(shapes, dtypes, domains, strict=True))]
        self._passes: Passes[int] = Passes(0)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[list[np.ndarray]]:
        one = self._passes.begin(None if self._random else self.rng)
        fixed = None if self._random else self._draw()
        while one.value < self._size:
            point = self._draw() if fixed is None else fixed
            one.value += 1
            yield point
        self._passes.end(one)

    def state_dict(self) -> dict[str, Any]:
        """Return the number of points taken and the generator of the next ones."""
        return make_state(self, index=self._passes.value, rng=self._passes.drawn_from(self.rng))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position."""
        saved = StateReader(self, state, "index", "rng")
        index, rng = saved.count("index", at_most=self._size), saved.generator("rng")
        self.rng = rng
        self._passes.go_to(index)

    def end_pass(self) -> None:
        """Give up the rest of the newest pass."""
        self._passes.give_up(lambda: None if self._random else self._draw())

    def _draw(self) -> list[np.ndarray]:
        return [component.draw(self.rng) for component in self._components]


@dataclass(frozen=True)
class _Component:
    """Shape, type and range of one component of a data point."""

    shape: tuple[int, ...]
    dtype: np.dtype
    domain: tuple[float, float]

    def draw(self, rng: np.random.RandomState) -> np.ndarray:
        """Draw an array uniformly from the range, its upper end excluded (but for rounding)."""
        return np.asarray(rng.uniform(*self.domain, size=self.shape)).astype(self.dtype)


def _make(index: int, shape: Sequence[int], dtype: DTypeLike, domain: Sequence[float]) -> _Component:
    """Return a component after checking its parts."""
    if dtype is None:
        # numpy would take it for float64.
        raise ConfigError(f"FakeData got dtype=None for component {index}: expected a dtype")
    try:
        component = _Component(tuple(map(int, shape)), np.dtype(dtype), (float(domain[0]), float(domain[1])))
    except (TypeError, ValueError, IndexError) as error:
        given = f"shapes[{index}]={shown(shape)}, dtype={shown(dtype)} and domain={shown(domain)}"
        raise ConfigError(f"FakeData got {given}: expected sizes, a dtype and a range (low, high)") from error
    if min(component.shape, default=0) < 0 or not component.domain[0] <= component.domain[1]:
        raise ConfigError(
            f"FakeData got shapes[{index}]={shown(shape)} and domain={shown(domain)}: expected sizes of at least 0 and "
            "a range (low, high)"
        )
    return component
