"""Data of TensorFlow's own pipeline, from one iterator for all towers, so that each element is used once.

A pipeline through Python has no static shapes, and a model that reads the number of channels would get None. So
elements with unknown shapes are checked against the signature one by one.

The elements of a DataFlow are taken by a thread of TensorFlow, which keeps the iterator for an unknown time: the owner
can end it, and keeps its errors, of which TensorFlow passes on only the text.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, TypeAlias

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.compat.runtime import eager_mode
from tpack.dataflow.base import DataFlow
from tpack.dataflow.iterator_state import StatelessError
from tpack.errors import ConfigError, DataPointError
from tpack.input_source.base import FeedfreeInput
from tpack.input_source.dequeue import DataWaitReport, TimedDequeue
from tpack.input_source.resumable import ResumableInput
from tpack.input_source.spec_check import DataPointChecker
from tpack.input_source.stream import DataPointStream, check_dataflow, describe, samples_of
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_count, shown

# The elements of a DataFlow that wait for a step; and more than ever wait, all staging areas included.
_NUM_AHEAD = 8


_MAX_UNDER_WAY = 1000

# A policy for state outside of a dataset in `tf.raw_ops.DatasetToGraphV2`, which can warn, ignore it or fail.
_IGNORES_STATE = 1

# The position or the key of a part of an element; None is all of it.
_Part: TypeAlias = int | str | None

# The time that the end of training waits for the current data point of the dataflow.
JOIN_TIMEOUT_SECS = 5.0


@check_arguments
class TFDatasetInput(ResumableInput, FeedfreeInput):
    """Source of the elements of a ``tf.data.Dataset``; each tower takes the next one.

    A step at the end of the dataset fails: use its ``repeat()`` to train for several epochs. Elements with unknown
    shapes are checked against the signature. The position of a DataFlow is saved with checkpoints; that of a dataset is
    not.

    Args:
        dataset: a dataset of the current graph or of eager mode, a function that returns one, or a DataFlow, which is
            repeated without end. An element is a tuple in the order of the signature, a dict by its names, or a tensor.
        batch_size: the elements of a dataset in a tower's batch; None where they are batches. The last batch may be
            smaller, and is left out where the dataset is repeated.
        repeat: whether a dataset starts again at its end.

    Attributes:
        batch_size: may be changed before `setup`.

    Raises:
        WrongTypeError: It is something else.
        ConfigError: ``batch_size`` is less than 1, or is given with a DataFlow; in `setup`, the function returned
            something else, or the dataset is of another graph, or of eager mode and cannot be moved into a graph.
        DataPointError: In `setup`, the elements do not fit the signature.
    """

    def __init__(
        self,
        dataset: tf.compat.v2.data.Dataset | Callable[[], tf.data.Dataset] | DataFlow,
        *,
        batch_size: int | None = None,
        repeat: bool = False,
    ) -> None:
        if batch_size is not None:
            check_count(self, "batch_size", batch_size)
            if isinstance(dataset, DataFlow):
                raise ConfigError(f"TFDatasetInput got batch_size={batch_size} and a DataFlow: batch it by BatchData")
        self._source = dataset
        self.batch_size = batch_size
        self._is_repeated = repeat
        self._iterator: tf.data.Iterator
        self._elements: StreamElements | None = None
        self._taker: TimedDequeue

    @staticmethod
    def dataflow_to_dataset(df: DataFlow, types: Sequence[tf.DType]) -> tf.data.Dataset:
        """Return a dataset of one pass over a DataFlow: tuples of tensors of given dtypes and unknown shapes.

        Its elements pass through Python one by one: `QueueInput` is much faster, unless the dataset does more. Anything
        but a DataFlow is refused; its state is reset at the first iteration.
        """
        check_dataflow(df, "dataflow_to_dataset")
        specs = [tf.TensorSpec(None, dtype, f"component{position}") for position, dtype in enumerate(types)]
        stream = DataPointStream(df, DataPointChecker(specs, describe(df)), infinite=False)
        return dataset_of_elements(StreamElements(stream, describe(df)), specs)

    @property
    def dataflow(self) -> DataFlow | None:
        """The DataFlow, if the data are one."""
        return self._source if isinstance(self._source, DataFlow) else None

    def samples(self) -> tuple[int | None, int | None]:
        """Return the samples of a DataFlow's batches, or of the batches made here."""
        if isinstance(self._source, DataFlow):
            return samples_of(self._source)
        return self.batch_size, None if self.batch_size is None else _cardinality(self._source)

    def load_data_state(self, state: dict[str, Any]) -> None:
        """Start a DataFlow at a position; raise StatelessError for a ``tf.data.Dataset``."""
        if not isinstance(self._source, DataFlow):
            raise StatelessError(f"{self} of a tf.data.Dataset has no position to go to")
        super().load_data_state(state)

    def _setup(self, signature: Sequence[tf.TensorSpec]) -> None:
        with self.cached_name_scope(), tf.device("/device:CPU:0"):
            self._taker = TimedDequeue()
            dataset = self._make_dataset(signature)
            try:
                self._iterator = tf.data.make_initializable_iterator(dataset)
            except ValueError as error:
                raise ConfigError(
                    f"{self} got a dataset of another graph: use a function that returns the dataset, which is called "
                    "in the right graph"
                ) from error

    def _make_dataset(self, signature: Sequence[tf.TensorSpec]) -> tf.data.Dataset:
        source = self._source
        if isinstance(source, DataFlow):
            # A thread of TensorFlow iterates: running the session there would block its end.
            stream = self._open_stream(source, signature, max_under_way=_MAX_UNDER_WAY)
            self._elements = StreamElements(stream, describe(source))
            return dataset_of_elements(self._elements, signature).prefetch(_NUM_AHEAD)
        dataset = source() if callable(source) else source
        if not isinstance(dataset, tf.compat.v2.data.Dataset):
            raise ConfigError(f"the dataset function of {self} returned {shown(dataset)}: expected a tf.data.Dataset")
        if is_eager(dataset):
            dataset = brought_into_graph(dataset, str(self))
        if self.batch_size is not None:
            dataset = dataset.batch(self.batch_size, drop_remainder=self._is_repeated)
        if self._is_repeated:
            dataset = dataset.repeat()
        parts = _parts(dataset.element_spec, [spec.name for spec in signature])
        return dataset if parts is None else _with_checked_shapes(dataset, parts, signature)

    def _get_input_tensors(self) -> Sequence[tf.Tensor]:
        names = [spec.name for spec in self._require_setup()]
        with self.cached_name_scope():
            parts = self._taker.take(
                lambda: tf.nest.flatten(self._iterator.get_next()), 1, timed=not self._num_prefetched
            )
        return _in_order(tf.nest.pack_sequence_as(self._iterator.element_spec, parts), names)

    def _get_callbacks(self) -> Sequence[Callback]:
        report = DataWaitReport(str(self), self._waited)
        return [report] if self._elements is None else [self._elements, report]

    def _reset_state(self) -> None:
        session = self._require_session()
        # Before the initializer, after which TensorFlow may take the first elements at any time.
        self._taker.connect(session)
        session.run(self._iterator.initializer)

    def _size(self) -> int:
        if isinstance(self._source, DataFlow):
            return len(self._source)
        size = _cardinality(self._source)
        if size is None:
            return super()._size()
        full, rest = divmod(size, self.batch_size or 1)
        return full + int(rest > 0 and not self._is_repeated)

    def _num_used(self) -> int:
        return self._taker.num_taken() - self._num_prefetched

    def _waited(self) -> float | None:
        return None if self._num_prefetched else self._taker.waited()


def _cardinality(source: tf.data.Dataset | Callable[[], tf.data.Dataset]) -> int | None:
    """Return the number of elements of a dataset; None where it is unknown or endless."""
    with tf.Graph().as_default() if callable(source) else eager_mode() if is_eager(source) else nullcontext():
        size = tf.data.experimental.cardinality(source() if callable(source) else source)
        if hasattr(size, "numpy"):
            size = size.numpy()
        elif tf.is_tensor(size):
            try:
                # Whoever makes the first session with GPUs decides about their memory: that is the training's.
                with tf.Session(graph=size.graph, config=tf.ConfigProto(device_count={"GPU": 0})) as session:
                    size = session.run(size)
            except tf.errors.OpError:
                # It depends on values that only the training feeds or initialises.
                return None
    return int(size) if size >= 0 else None


def is_eager(dataset: tf.data.Dataset) -> bool:
    """Return whether a dataset was made in eager mode, and belongs to no graph."""
    return hasattr(tf.data.experimental.to_variant(dataset), "numpy")


def brought_into_graph(dataset: tf.data.Dataset, owner: str) -> tf.data.Dataset:
    """Copy a dataset of eager mode, with its functions, into the current graph; refuse one that is not serializable.

    Its resources, such as tables, must exist when the session runs.
    """
    try:
        with eager_mode():
            variant = tf.data.experimental.to_variant(dataset)
            # External state, such as a Python generator, belongs to this process, which will run it.
            written = tf.raw_ops.DatasetToGraphV2(input_dataset=variant, external_state_policy=_IGNORES_STATE)
    except tf.errors.OpError as error:
        raise ConfigError(
            f"{owner} got a dataset of eager mode that cannot be brought into a graph: {error.message}; use a "
            "function that returns the dataset, which is called in the right graph"
        ) from error
    definition = tf.GraphDef.FromString(written.numpy())
    (result,) = [node for node in definition.node if node.op == "_Retval"]
    definition.node.remove(result)
    source = result.input[0]
    source = source if ":" in source else f"{source}:0"
    (variant,) = tf.import_graph_def(definition, return_elements=[source], name="dataset")
    return tf.data.experimental.from_variant(variant, dataset.element_spec)


class StreamElements(Callback):
    """Factory of iterators over a named stream, called without arguments; ends them with training."""

    _chief_only = False

    def __init__(self, stream: DataPointStream, name: str) -> None:
        self._stream = stream
        self._name = name
        self._iterators: list[_Elements] = []
        self._error: BaseException | None = None

    def __call__(self) -> _Elements:
        """Start an iteration at the first data point."""
        self._iterators = [elements for elements in self._iterators if not elements.is_over]
        self._iterators.append(_Elements(self._stream, self))
        return self._iterators[-1]

    def failure(self) -> BaseException | None:
        """Return the error of the stream, if it had one."""
        return self._error

    def keep_error(self, error: BaseException) -> None:
        """Keep an error of the stream."""
        self._error = error

    def _after_train(self) -> None:
        self.close()

    def close(self) -> None:
        """End all iterations, and the workers of the dataflow."""
        iterators, self._iterators = self._iterators, []
        for elements in iterators:
            elements.is_over = True
        self._stream.interrupt()
        waiting = [elements for elements in iterators if not elements.close(JOIN_TIMEOUT_SECS)]
        self._stream.close()
        # An iteration that waited for workers has ended.
        if not all([elements.close(JOIN_TIMEOUT_SECS) for elements in waiting]):
            logger.warning(f"A thread of TensorFlow still waits for {self._name} and is left alone.")


class _Elements:
    """One iteration, which another thread may end."""

    def __init__(self, stream: DataPointStream, owner: StreamElements) -> None:
        self._dtypes = stream.dtypes
        self._points = iter(stream)
        self._owner = owner
        self._lock = threading.Lock()
        self.is_over = False

    def __iter__(self) -> _Elements:
        return self

    def __next__(self) -> tuple[np.ndarray, ...]:
        with self._lock:
            try:
                if self.is_over:
                    raise StopIteration
                point = next(self._points)
            except StopIteration:
                self.is_over = True
                raise
            except Exception as error:
                # An error caused by ending the dataflow is ignored.
                if self.is_over:
                    raise StopIteration from error
                self.is_over = True
                self._owner.keep_error(error)
                raise
        return tuple(array.astype(dtype, copy=False) for array, dtype in zip(point, self._dtypes, strict=True))

    def close(self, timeout_secs: float) -> bool:
        """Close the iteration over the stream; return whether that succeeded within the timeout."""
        if not self._lock.acquire(timeout=timeout_secs):
            return False
        try:
            self._points.close()
        finally:
            self._lock.release()
        return True


def dataset_of_elements(elements: StreamElements, specs: Sequence[tf.TensorSpec]) -> tf.data.Dataset:
    """Return a dataset in the current graph of the data points of a stream, as tuples."""
    signature = tuple(tf.TensorSpec(spec.shape, spec.dtype) for spec in specs)
    return tf.data.Dataset.from_generator(elements, output_signature=signature)


def _parts(element: object, names: Sequence[str]) -> Sequence[_Part] | None:
    """Return the positions or keys of an element's parts in the order of the signature; None if they do not fit."""
    if isinstance(element, dict):
        return list(names) if set(element) == set(names) else None
    if isinstance(element, (list, tuple)):
        return list(range(len(names))) if len(element) == len(names) else None
    return [] if len(names) == 1 else None


def _in_order(element: object, names: Sequence[str]) -> list[tf.Tensor]:
    if isinstance(element, dict):
        if set(element) != set(names):
            raise DataPointError(f"an element of the dataset is a dict with the keys {list(element)}, expected {names}")
        return [element[name] for name in names]
    return list(element) if isinstance(element, (list, tuple)) else [element]


def _with_checked_shapes(
    dataset: tf.data.Dataset, components: Sequence[_Part], signature: Sequence[tf.TensorSpec]
) -> tf.data.Dataset:
    """Return the dataset with the shapes of the signature; an element of a wrong shape fails, with its number and part.

    ``components`` are the positions or keys of an element's parts, or empty for a tensor. The dataset stays as it is if
    all static shapes are known, or one of them is wrong.
    """
    wanted: dict[_Part, tf.TensorSpec] = dict(zip(components, signature, strict=False)) or {None: signature[0]}
    open_ones = {part: spec for part, spec in wanted.items() if _adds_to(_part(dataset.element_spec, part), spec)}
    if not open_ones:
        return dataset

    @tf.autograph.experimental.do_not_convert
    def check(index: tf.Tensor, element: Any) -> Any:
        checked = {
            part: _checked(index, _part(element, part), f"component {list(wanted).index(part)} ({spec.name})", spec)
            for part, spec in open_ones.items()
        }
        if None in checked:
            return checked[None]
        if isinstance(element, dict):
            return {**element, **checked}
        return tuple(checked.get(k, item) for k, item in enumerate(element))

    return dataset.enumerate().map(check)


def _part(element: Any, part: _Part) -> Any:
    return element if part is None else element[part]


def _adds_to(known: tf.TypeSpec, wanted: tf.TensorSpec) -> bool:
    """Return whether a shape refines a known one."""
    if not isinstance(known, tf.TensorSpec) or not known.shape.is_compatible_with(wanted.shape):
        return False
    return str(known.shape.merge_with(wanted.shape)) != str(known.shape)


def _checked(index: tf.Tensor, tensor: tf.Tensor, label: str, spec: tf.TensorSpec) -> tf.Tensor:
    wanted = [-1 if size is None else size for size in spec.shape.as_list()]
    came = tf.shape(tensor)
    fits = tf.cond(
        tf.equal(tf.rank(tensor), len(wanted)),
        lambda: tf.reduce_all(tf.equal(came, wanted) | tf.equal(wanted, -1)),
        lambda: tf.constant(False),
    )
    # Without quotes, which an assertion would escape.
    message = tf.strings.format(
        f"element {{}} of the dataset: {label} has shape {{}}, expected {spec.shape}", (index, came)
    )
    with tf.control_dependencies([tf.debugging.Assert(fits, [message])]):
        same = tf.identity(tensor)
    same.set_shape(spec.shape)
    return same
