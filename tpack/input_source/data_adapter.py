"""Adapters of users' data to input sources: arrays, lists, datasets and loaders of other libraries, functions."""

import inspect
import itertools
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.dataflow.adapters import as_dataflow
from tpack.dataflow.arrays import DataFromArrays, is_array
from tpack.dataflow.base import DataFlow, length_or_none
from tpack.dataflow.batch import BatchData
from tpack.dataflow.mapping import MapData
from tpack.dataflow.shard import ShardData
from tpack.dataflow.sources import DataFromGenerator, DataFromList
from tpack.errors import ConfigError, DataPointError, WrongTypeError
from tpack.input_source.base import InputSource
from tpack.input_source.dataset import TFDatasetInput
from tpack.input_source.feed import FeedInput
from tpack.input_source.queue_input import QueueInput
from tpack.input_source.stream import samples_of
from tpack.types import Peers
from tpack.utils.serialize import dumps
from tpack.utils.validation import check_arguments, check_count, shown

_MOST_COMPARED = 1000
"""The most points of a list that are compared between workers."""
_FIRST_COMPARED = 8
"""The points of a generator function that are compared between workers."""
_WANTED = (
    "a DataFlow, arrays such as (x, y), a list of data points, a tf.data.Dataset or a function that makes one, a "
    "generator function, or a dataset or loader that can be iterated again and again"
)


@check_arguments
class GivenData:
    """Data of any supported kind, with their input source.

    Arrays and lists are shuffled on each pass; everything else keeps its order. The data are repeated without end.

    Args:
        data: a DataFlow; arrays of one length, in a tuple or by name in a dict; a list of data points; a
            ``tf.data.Dataset``, or a function that returns one; a generator function; or an argument of `AdaptedData`,
            such as a Hugging Face ``Dataset``, a PyTorch ``DataLoader`` or a grain loader.
        batch_size: the examples of a step, over all towers, where the data are examples. None where each data point is
            a tower's batch.
        is_once: make one pass in the order of the data, as for an evaluation.

    Attributes:
        source: the input source.
        flow: the batches; None for a ``tf.data.Dataset``.
        name: the kind of the data.

    Raises:
        WrongTypeError: The data are something else.
        ConfigError: Arrays have no batch size; some data are arrays and some are lists; or there is a batch size, and
            the data make batches themselves.
    """

    def __init__(self, data: Any, batch_size: int | None = None, *, is_once: bool = False) -> None:
        self._is_once = is_once
        self._given = data
        self._batch_size = None if batch_size is None else check_count(self, "batch_size", batch_size)
        # Makes the batches of a tower, where they are made here.
        self._batches: BatchData | TFDatasetInput | None = None
        self.flow: DataFlow | None = None
        self.name = type(data).__name__
        self.source = self._source_of(data)

    def fit_to_towers(self, num_towers: int) -> None:
        """Divide the batch size by the K towers before `setup`; raise ConfigError if it is not a multiple of K."""
        if self._batches is None or self._batch_size is None:
            return
        share, rest = divmod(self._batch_size, num_towers)
        if rest:
            raise ConfigError(
                f"batch_size got {self._batch_size}, the examples of a step over all towers: expected a multiple of "
                f"{num_towers}, the number of towers"
            )
        self._batches.batch_size = share

    def share_data(self, peers: Peers, seed: int) -> bool:
        """Share data that all of several workers were given, before `setup`; return whether each takes its share.

        Shared are arrays, lists and generator functions. Workers with different ones keep theirs, which the script has
        shared. The order has one seed.

        Raises:
            ConfigError: The data cannot be compared, in one worker.
        """
        batches = self._batches if isinstance(self._batches, BatchData) else None
        flow = self.flow if batches is None else batches.ds
        is_ours = flow is not None and flow is not self._given
        of_all = peers.gather("the data to train on", self._fingerprint(flow) if is_ours and flow is not None else None)
        if lacking := next((each for each in of_all if isinstance(each, str)), None):
            raise ConfigError(lacking)
        if flow is None or of_all[0] is None or any(each != of_all[0] for each in of_all):
            return False
        share = ShardData(flow, peers.rank, peers.size, seed=seed)
        if batches is not None:
            batches.ds = share
        elif isinstance(self.source, QueueInput):
            self.flow = self.source.ds = share
        return True

    def _fingerprint(self, flow: DataFlow) -> list[Any] | str | None:
        """Return facts that tell data from others; what to write if they cannot be compared; None for other kinds."""
        if isinstance(flow, DataFromArrays):
            return flow.fingerprint()
        if not isinstance(flow, DataFromList | DataFromGenerator):
            return None
        try:
            if isinstance(flow, DataFromList):
                step = max(1, len(flow) // _MOST_COMPARED)
                return ["a list", len(flow), *(crc32(dumps(each)) for each in flow.lst[::step])]
            flow.reset_state()
            return [self.name, *(crc32(dumps(each)) for each in itertools.islice(flow, _FIRST_COMPARED))]
        except DataPointError as error:
            made = "DataFromList(points)" if isinstance(flow, DataFromList) else "DataFromGenerator(points)"
            return (
                f"dataflow got {self.name} of points that cannot be compared between workers ({error}): expected "
                f"arrays, numbers and text, which are dealt out; use dataflow=BatchData(ShardData({made}), size)"
            )

    def _source_of(self, data: Any) -> InputSource:
        makes_dataset = is_function(data) and not is_generator_function(data)
        if isinstance(data, tf.compat.v2.data.Dataset) or makes_dataset:
            source = TFDatasetInput(data, batch_size=self._batch_size, repeat=not self._is_once)
            self._batches = source
            self.name = "a function" if makes_dataset else "a tf.data.Dataset"
            return source
        flow = self._flow_of(data)
        if self._batch_size is not None:
            _check_fills_batch(flow, self._batch_size, is_once=self._is_once)
            flow = self._batches = BatchData(flow, self._batch_size, remainder=self._is_once)
        self.flow = flow
        return FeedInput(flow, infinite=False) if self._is_once else QueueInput(flow)

    def _flow_of(self, data: Any) -> DataFlow:
        check_batched_once(data, self._batch_size)
        parts = data.values() if isinstance(data, Mapping) else data if isinstance(data, tuple) else [data]
        if any(isinstance(part, tf.Tensor | tf.Variable) for part in parts):
            raise WrongTypeError(
                f"the data are {shown(data)} with tensors: expected arrays; use tensor.numpy() of eager ones"
            )
        if isinstance(data, tuple) and any(map(is_array, data)) and any(isinstance(part, list) for part in data):
            raise ConfigError(
                f"the data are {shown(data)}, of which some are arrays and some are lists: expected arrays of one "
                "length, as np.asarray makes them of lists"
            )
        if are_arrays(data) and self._batch_size is None:
            raise ConfigError(
                f"the data are arrays, {shown(data)}, and their rows are examples: say how many of them a step "
                "takes, over all towers, by batch_size"
            )
        flow, self.name = given_flow(data, shuffle=not self._is_once)
        return flow


def _check_fills_batch(flow: DataFlow, batch_size: int, *, is_once: bool) -> None:
    """Refuse data of a known length that make no batch."""
    length = length_or_none(flow)
    if length == 0:
        raise ConfigError(f"the data are empty: expected examples for batches of batch_size={batch_size}")
    if length is not None and length < batch_size and not is_once:
        raise ConfigError(
            f"batch_size got {batch_size}: expected at most {length}, the examples of the data; use batch_size=None if "
            "each data point is the batch of a tower"
        )


def check_batched_once(data: Any, batch_size: int | None) -> None:
    """Refuse to make batches of what a flow or a loader batches already; a batch size of None asks for none."""
    own = samples_of(data)[0] if isinstance(data, DataFlow) else getattr(data, "batch_size", None)
    if batch_size is not None and isinstance(own, int):
        raise ConfigError(
            f"batch_size={batch_size} was given, and the {type(data).__name__} makes batches of {own} "
            "itself: leave one of the two out. What it makes is what one tower takes in a step"
        )


def given_flow(data: Any, *, shuffle: bool) -> tuple[DataFlow, str]:
    """Return data, as `GivenData` takes them but for TensorFlow's datasets, as a flow, and its kind in a few words.

    Raises:
        WrongTypeError: They are something else, or have rows that are not read by number.
        ConfigError: They are arrays of different lengths, or can be gone through once.
    """
    name = type(data).__name__
    if isinstance(data, DataFlow):
        return data, name
    if are_arrays(data):
        return DataFromArrays(data, shuffle=shuffle), "arrays"
    if isinstance(data, list):
        return DataFromList(data, shuffle=shuffle), name
    if is_generator_function(data):
        return DataFromGenerator(data), "a generator function"
    try:
        # What was stored in columns, as a data set of Hugging Face, gives lists of numbers where others give arrays.
        return MapData(as_dataflow(data), _with_arrays), name
    except WrongTypeError as error:
        raise WrongTypeError(f"the data are {shown(data)}: expected {_WANTED}") from error


def _with_arrays(point: Any) -> Any:
    """Return a data point with arrays in place of lists of numbers or strings, if they make one."""
    if isinstance(point, Mapping):
        return {key: _as_array(part) for key, part in point.items()}
    return [_as_array(part) for part in point] if isinstance(point, list | tuple) else point


def _as_array(value: Any) -> Any:
    if not isinstance(value, list) or any(isinstance(part, np.ndarray) for part in value):
        return value
    try:
        array = np.asarray(value)
    except ValueError:
        return value
    return np.array(value, object) if array.dtype.kind in "SU" else array


def is_function(data: Any) -> bool:
    """Tell whether data are a function to call, and nothing that can be iterated or indexed."""
    return callable(data) and not (isinstance(data, type) or hasattr(data, "__iter__") or hasattr(data, "__getitem__"))


def is_generator_function(data: Any) -> bool:
    """Tell whether data are a generator function, or a partial one."""
    return is_function(data) and inspect.isgeneratorfunction(inspect.unwrap(getattr(data, "func", data)))


def are_arrays(data: Any) -> bool:
    """Tell whether data are an array, or arrays in a tuple or dict, whose rows are examples."""
    if isinstance(data, Mapping):
        return bool(data) and all(map(is_array, data.values()))
    if isinstance(data, Sequence) and not isinstance(data, list):
        return len(data) > 0 and all(map(is_array, data))
    return is_array(data) and not hasattr(data, "__getitems__")
