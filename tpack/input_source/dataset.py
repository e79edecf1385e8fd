"""Data that TensorFlow's own pipeline produces.

All towers share one iterator, so that the stream is split over them and no element is used twice.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.dataflow.base import DataFlow
from tpack.dataflow.state import StatelessError
from tpack.errors import ConfigError, DataPointError
from tpack.input_source.base import FeedfreeInput
from tpack.input_source.data_point import DataPointChecker
from tpack.input_source.dataset_shapes import with_checked_shapes
from tpack.input_source.dequeue_chain import DequeueChain
from tpack.input_source.resumable import ResumableInput
from tpack.input_source.stream import DataPointStream, check_dataflow, describe
from tpack.input_source.taken_counter import TakenCounter


class TFDatasetInput(ResumableInput, FeedfreeInput):
    """Take the elements of a ``tf.data.Dataset``; each tower takes the next one.

    A step that finds the dataset at its end fails: call its ``repeat()`` to train for several epochs. Elements whose
    shapes TensorFlow does not know in advance are held against the signature one by one. The position of a DataFlow is
    saved with checkpoints; that of a dataset is not.

    Args:
        dataset: a dataset of the current graph, a function that makes one, or a DataFlow, which is repeated for
            ever. An element is a tuple in the order of the signature, a dict with its names as keys, or a single
            tensor.

    Raises:
        ConfigError: In `setup`, it is none of these, or a dataset of another graph or of eager mode.
        DataPointError: In `setup`, the elements do not fit the signature.
    """

    def __init__(self, dataset: Any) -> None:
        self._source = dataset
        self._iterator: Any = None
        self._chain = DequeueChain()
        self._failures = _Failures()
        self._taken: TakenCounter

    @staticmethod
    def dataflow_to_dataset(df: DataFlow, types: Sequence[Any]) -> Any:
        """Make a dataset of one pass over a DataFlow.

        Its elements pass through Python one by one, in a thread of TensorFlow: `QueueInput` is much faster, unless
        the dataset has more to do.

        Args:
            df: the dataflow; its state is reset at the first iteration.
            types: the dtype of each component.

        Returns:
            A dataset of tuples of tensors whose shapes are unknown.

        Raises:
            ConfigError: `df` is no DataFlow.
        """
        check_dataflow(df, "dataflow_to_dataset")
        specs = [tf.TensorSpec(None, dtype, f"component{position}") for position, dtype in enumerate(types)]
        stream = DataPointStream(df, DataPointChecker(specs, describe(df)), infinite=False)
        return _dataset_of_stream(stream, specs, _Failures())

    def load_data_state(self, state: Any) -> None:
        """Let a DataFlow begin at a position; see `ResumableInput`.

        Raises:
            StatelessError: The data are a ``tf.data.Dataset``.
        """
        if not isinstance(self._source, DataFlow):
            raise StatelessError(f"{self} of a tf.data.Dataset has no position to go to")
        super().load_data_state(state)

    def _setup(self, signature: Sequence[Any]) -> None:
        with self.cached_name_scope(), tf.device("/device:CPU:0"):
            self._taken = TakenCounter()
            dataset = self._make_dataset(signature)
            try:
                self._iterator = tf.data.make_initializable_iterator(dataset)
            except ValueError as error:
                raise ConfigError(
                    f"{self} got a dataset that was made in another graph or eagerly: give it a function that makes "
                    "the dataset, which is called in the right graph"
                ) from error

    def _make_dataset(self, signature: Sequence[Any]) -> Any:
        source = self._source
        if isinstance(source, DataFlow):
            stream = self._open_stream(source, signature)
            return _dataset_of_stream(stream, signature, self._failures)
        dataset = source() if callable(source) else source
        if not isinstance(dataset, tf.compat.v2.data.Dataset):
            raise ConfigError(
                f"{self} takes a tf.data.Dataset, a function that makes one, or a DataFlow; got {dataset!r}"
            )
        parts = _parts(dataset.element_spec, [spec.name for spec in signature])
        return dataset if parts is None else with_checked_shapes(dataset, parts, signature)

    def _get_input_tensors(self) -> Sequence[Any]:
        names = [spec.name for spec in self._require_setup()]
        with self.cached_name_scope(), tf.device("/device:CPU:0"), self._chain.link(), self._taken.counting(1):
            element = self._iterator.get_next()
        for component in tf.nest.flatten(element)[:1]:
            self._chain.append(component.op)
        return _in_order(element, names)

    def _get_callbacks(self) -> Sequence[Callback]:
        return [self._failures]

    def _reset_state(self) -> None:
        session = self._require_session()
        # Before the initializer, after which TensorFlow may take the first elements at any time.
        self._taken.connect(session)
        session.run(self._iterator.initializer)

    def _num_used(self) -> int:
        return self._taken.value() - self._num_held_back


class _Failures(Callback):
    """Keeps the error that Python code inside a dataset raised, of which TensorFlow passes on only the text."""

    _chief_only = False

    def __init__(self) -> None:
        self._error: BaseException | None = None

    def watch(self, make_iterator: Callable[[], Iterator[Any]]) -> Callable[[], Iterator[Any]]:
        def watched() -> Iterator[Any]:
            try:
                yield from make_iterator()
            except Exception as error:
                self._error = error
                raise

        return watched

    def failure(self) -> BaseException | None:
        return self._error


def _dataset_of_stream(stream: DataPointStream, specs: Sequence[Any], failures: _Failures) -> Any:
    def elements() -> Iterator[Any]:
        for point in stream:
            yield tuple(array.astype(dtype, copy=False) for array, dtype in zip(point, stream.dtypes, strict=True))

    signature = tuple(tf.TensorSpec(spec.shape, spec.dtype) for spec in specs)
    return tf.data.Dataset.from_generator(failures.watch(elements), output_signature=signature)


def _parts(element: Any, names: Sequence[str]) -> list[Any] | None:
    """Return the positions or keys of an element's parts, in the order of the signature; None if they do not fit it."""
    if isinstance(element, dict):
        return list(names) if set(element) == set(names) else None
    if isinstance(element, (list, tuple)):
        return list(range(len(names))) if len(element) == len(names) else None
    return [] if len(names) == 1 else None


def _in_order(element: Any, names: Sequence[str]) -> list[Any]:
    if isinstance(element, dict):
        if set(element) != set(names):
            raise DataPointError(f"an element of the dataset is a dict with the keys {list(element)}, wanted {names}")
        return [element[name] for name in names]
    return list(element) if isinstance(element, (list, tuple)) else [element]
