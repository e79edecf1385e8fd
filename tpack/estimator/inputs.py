"""The inputs of a model: an input_fn, data of any kind, or the tensors that a server feeds to an exported model.

An input_fn returns a ``tf.data.Dataset`` or tensors: features, or a pair of features and labels. Functions of users are
called with those of the optional arguments that they take. Data in place of the function, or returned by it, become a
Dataset: arrays, lists, data sets and loaders of other libraries, generator functions. A model_fn has no signature for
data points, so the first one decides: its structure gives the features, or features and labels, and every other point
must match it.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.dataflow.arrays import is_array
from tpack.dataflow.base import DataFlow
from tpack.dataflow.batch import BatchData
from tpack.dataflow.mapping import MapData
from tpack.distribute.strategy import DistributionStrategy
from tpack.errors import ConfigError, DataPointError
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import AnyTensor, ModeKeys, Tensors
from tpack.graph_copy import op_kinds
from tpack.input_source.data_adapter import (
    are_arrays,
    check_batched_once,
    given_flow,
    is_function,
    is_generator_function,
)
from tpack.input_source.dataset import StreamElements, brought_into_graph, dataset_of_elements, is_eager
from tpack.input_source.spec_check import DataPointChecker
from tpack.input_source.stream import DataPointStream, first_point
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_count, mismatch, shown

InputFn = Callable[..., Any]
Input: TypeAlias = Any
"""An input_fn, or data for `GivenInput`."""
_RECEIVER_NAME = "input"
_EXAMPLES_NAME = "examples"
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_NUM_AHEAD = 8
"""The number of batches to prefetch."""
_TENSORS = (tf.Tensor, tf.SparseTensor, tf.RaggedTensor, tf.Variable)
_ALIKE = "whose data points must be like the first; input_fn may return a tf.data.Dataset where shapes differ"
# The structure of a data point: tuples and dicts that hold the names of its leaves.
_Layout: TypeAlias = Any


@check_arguments
class ServingInputReceiver(NamedTuple):
    """The features of a served model, and the tensors that are fed.

    Attributes:
        features: a tensor or a dict of tensors for the model_fn.
        receiver_tensors: placeholders, a tensor or a dict by the names for clients. A single one is named ``input``.
        receiver_tensors_alternatives: further ways to feed the model: name to a dict of tensors. Each gives every
            export output another signature, ``<output>:<name>``.
    """

    features: Tensors
    receiver_tensors: Tensors
    receiver_tensors_alternatives: Mapping[str, Tensors] | None = None


@check_arguments
def build_raw_serving_input_receiver_fn(
    features: Mapping[str, tf.Tensor | tf.TensorSpec | np.ndarray], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Return a function that creates a placeholder per feature.

    Args:
        features: name to a tensor, ``tf.TensorSpec`` or array with the dtype and shape.
        default_batch_size: the first dimension of the placeholders; None for any.

    Shapes:
        [B, ...] to [default_batch_size, ...].

    Raises:
        ConfigError: A feature has no first dimension.

    Source:
        The function of the same name in ``tf.estimator.export``.
    """
    if default_batch_size is not None:
        check_count("build_raw_serving_input_receiver_fn", "default_batch_size", default_batch_size)
    specs = {name: (tf.as_dtype(item.dtype), tf.TensorShape(item.shape)) for name, item in features.items()}
    for name, (_, shape) in specs.items():
        if shape.rank == 0:
            raise ConfigError(f"the feature {name!r} has shape (): expected a batch dimension")

    def receive() -> ServingInputReceiver:
        placeholders = {
            name: tf.placeholder(dtype, None if shape.rank is None else [default_batch_size, *shape[1:]], name=name)
            for name, (dtype, shape) in specs.items()
        }
        return ServingInputReceiver(placeholders, placeholders)

    return receive


@check_arguments
def build_parsing_serving_input_receiver_fn(
    feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Return a function that creates a placeholder for serialized ``tf.train.Example`` messages and parses them.

    Args:
        feature_spec: as for ``tf.io.parse_example``.
        default_batch_size: the number of examples; None for any.

    Shapes:
        [default_batch_size] strings to their features.

    Raises:
        ConfigError: The spec is empty.

    Source:
        The function of the same name in ``tf.estimator.export``.
    """
    if default_batch_size is not None:
        check_count("build_parsing_serving_input_receiver_fn", "default_batch_size", default_batch_size)
    if not feature_spec:
        name = "build_parsing_serving_input_receiver_fn"
        raise ConfigError(f"{name} got an empty feature_spec: expected the features to parse")

    def receive() -> ServingInputReceiver:
        examples = tf.placeholder(tf.string, [default_batch_size], name="input_example_tensor")
        return ServingInputReceiver(tf.io.parse_example(examples, dict(feature_spec)), {_EXAMPLES_NAME: examples})

    return receive


def receiver_tensors_by_name(tensors: Tensors) -> dict[str, AnyTensor]:
    """Return a fed tensor, or a dict of them, as a dict; refuse other objects."""
    named = dict(tensors) if isinstance(tensors, Mapping) else {_RECEIVER_NAME: tensors}
    for name, tensor in named.items():
        if not isinstance(tensor, tf.Tensor | tf.SparseTensor):
            raise ConfigError(f"receiver_tensors got {name!r}: {tensor!r}: expected a tensor")
    return named


@dataclass(frozen=True)
class GivenInput:
    """The input as a user gave it.

    Attributes:
        data: an input_fn, or data.
        batch_size: examples per step, over all towers, for data of examples; None for data of batches.
        is_repeated: whether to repeat data without end; a ``tf.data.Dataset`` or tensors from an input_fn are not.

    Raises:
        WrongTypeError: The data cannot be read.
        ConfigError: They are arrays without a batch size, or batches with one.
    """

    data: Any
    batch_size: int | None = None
    is_repeated: bool = False

    def __post_init__(self) -> None:
        if self.batch_size is not None:
            check_count("an Estimator", "batch_size", self.batch_size)
        if not self.is_input_fn:
            _check(self.data, self.batch_size)

    @property
    def is_input_fn(self) -> bool:
        """Whether the data are a function that returns the input."""
        return is_function(self.data) and not is_generator_function(self.data)


class GivenDataset(NamedTuple):
    """The input in the current graph.

    Attributes:
        dataset: of features, or of pairs of features and labels; or the tensors from an input_fn.
        elements: the reader of data in Python, or None.
    """

    dataset: Any
    elements: StreamElements | None


@dataclass(frozen=True)
class Inputs:
    """The input of a model.

    Attributes:
        features: any nest of tensors.
        labels: any nest of tensors, or None.
        initializer: an operation that opens the dataset, or None.
        num_left: a tensor with the number of batches left at the end for fewer than K towers, -1 if unknown; None where
            no batch can be left.
        elements: the reader of data in Python, which closes with the session, or None.
    """

    features: object
    labels: object
    initializer: tf.Operation | None = None
    num_left: tf.Tensor | None = None
    elements: StreamElements | None = None


def call_input_fn(given: GivenInput, mode: str, *, params: object, config: RunConfig) -> Inputs:
    """Call an input_fn in the current graph, on the CPU, or read data.

    Args:
        given: an input_fn, which takes any of ``mode``, ``params`` and ``config``; or data.
        mode: one of `ModeKeys`. In prediction, only the first part of a sequence is used.
        params: the parameters of the model.
        config: the `RunConfig`.

    Raises:
        ConfigError: It returns a sequence other than a pair, or a Dataset of another graph; or as `given_dataset`.
    """
    with tf.device("/device:CPU:0"):
        result, elements = _call(given, 1, {"mode": mode, "params": params, "config": config})
        initializer = None
        if isinstance(result, tf.compat.v2.data.Dataset):
            iterator = _iterator(tf.data.make_initializable_iterator, result)
            result, initializer = iterator.get_next(), iterator.initializer
    return replace(_parted(result, initializer, mode), elements=elements)


def call_distributed_input_fn(
    given: GivenInput, mode: str, strategy: DistributionStrategy, *, params: object, config: RunConfig
) -> Inputs:
    """Call an input_fn in the current graph, or read data, with its own batches for each tower of a strategy.

    The arguments are those of `call_input_fn`, but an input_fn must return a Dataset or data.

    Shapes:
        [B, ...] in the Dataset, and for each tower.

    Raises:
        ConfigError: It does not return data, or its Dataset has sequences other than pairs; or as `given_dataset`.

    Source:
        The input of TensorFlow 1's estimators under a strategy.
    """
    num_towers = len(strategy.worker_devices)
    with tf.device("/device:CPU:0"):
        arguments = {"mode": mode, "params": params, "config": config}
        dataset, elements = _call(given, num_towers, arguments)
        if not isinstance(dataset, tf.compat.v2.data.Dataset):
            returned = f"input_fn returned {shown(dataset)} under a distribution strategy"
            raise ConfigError(f"{returned}: expected a tf.data.Dataset, or data for one")
        size = tf.data.experimental.cardinality(dataset)
        num_left = tf.where(size < 0, tf.constant(-1, size.dtype), size % num_towers)
    distributed = strategy.distribute_dataset(lambda: dataset)
    iterator = _iterator(type(distributed).make_initializable_iterator, distributed)
    inputs = _parted(iterator.get_next(), iterator.initializer, mode)
    return replace(inputs, num_left=num_left, elements=elements)


def warn_if_endless(inputs: Inputs, doing: str) -> None:
    """Warn if the input, and with it an activity, cannot end, given the operations of the current graph."""
    has_queues = bool(tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS))
    types = {operation.type for operation in tf.get_default_graph().get_operations()}
    if inputs.initializer is None and not has_queues and not types & op_kinds.ITERATORS:
        logger.warning(f"The input is neither a Dataset nor a queue, so neither it nor {doing} ends.")


def call_with_accepted(fn: Callable[..., Any], optional: Mapping[str, Any], **arguments: Any) -> Any:
    """Call ``fn`` with ``arguments``, and with those of ``optional`` that it takes."""
    return fn(**arguments, **{name: value for name, value in optional.items() if takes_argument(fn, name)})


def takes_argument(fn: Callable[..., Any], name: str) -> bool:
    """Tell whether a callable takes an argument of this name; a partial does not take those it has fixed by name."""
    if isinstance(fn, functools.partial) and name in fn.keywords:
        return False
    parameters = inspect.signature(fn).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return True
    return any(parameter.name == name and parameter.kind in _NAMED for parameter in parameters)


def required_arguments(fn: Callable[..., Any]) -> list[str]:
    """Return the names of a function's required arguments."""
    parameters = inspect.signature(fn).parameters.values()
    return [p.name for p in parameters if p.kind in _NAMED and p.default is inspect.Parameter.empty]


def _call(given: GivenInput, num_towers: int, arguments: Mapping[str, Any]) -> GivenDataset:
    """Return tensors, or a dataset and its reader."""
    mode = arguments["mode"]
    read = functools.partial(
        given_dataset, num_towers=num_towers, is_training=mode == ModeKeys.TRAIN, has_labels=mode != ModeKeys.PREDICT
    )
    if not given.is_input_fn:
        if is_generator_function(given.data):
            taken = {name: value for name, value in arguments.items() if takes_argument(given.data, name)}
            given = replace(given, data=functools.partial(given.data, **taken))
        return read(given)
    result = call_with_accepted(given.data, arguments)
    is_dataset = isinstance(result, tf.compat.v2.data.Dataset)
    if is_dataset or not are_tensors(result):
        return read(replace(given, data=result, is_repeated=given.is_repeated and not is_dataset))
    if given.batch_size is not None:
        raise ConfigError(f"got batch_size={given.batch_size}: expected None where input_fn returns tensors, a batch")
    return GivenDataset(result, None)


def _iterator(make: Callable[[Any], Any], dataset: Any) -> Any:
    try:
        return make(dataset)
    except ValueError as error:
        raise ConfigError("the tf.data.Dataset belongs to another graph; use an input_fn that creates it") from error


def _parted(result: Any, initializer: tf.Operation | None, mode: str) -> Inputs:
    """Return features and labels from the result of an input_fn or its Dataset."""
    is_sequence = isinstance(result, tuple | list)
    if result is None or (is_sequence and len(result) > 0 and result[0] is None):
        what = "None" if result is None else "None as the features"
        raise ConfigError(f"input_fn returned {what}: expected a Dataset, features, or a pair of features and labels")
    if not is_sequence:
        return Inputs(result, None, initializer)
    if result and mode == ModeKeys.PREDICT:
        # The first part are the features, even where they are a pair themselves.
        return Inputs(result[0], None, initializer)
    if len(result) != 2:
        raise ConfigError(f"input_fn returned {shown(result)}: expected features, or a pair of features and labels")
    return Inputs(result[0], result[1], initializer)


def are_tensors(result: object) -> bool:
    """Tell whether an input_fn returned tensors or nothing, and not data to read."""
    if result is None or (isinstance(result, tuple | list) and (len(result) == 0 or result[0] is None)):
        return True
    # The first data points of a list suffice.
    parts = result[:2] if isinstance(result, list) else result
    return any(isinstance(part, _TENSORS) for part in tf.nest.flatten(parts))


def given_dataset(
    given: GivenInput, num_towers: int = 1, *, is_training: bool = False, has_labels: bool = True
) -> GivenDataset:
    """Make a dataset of data.

    Args:
        given: the data, not an input_fn.
        num_towers: K; the examples of a step are divided among so many batches.
        is_training: whether to shuffle arrays and lists on each pass, and drop an incomplete last batch.
        has_labels: whether to use the second component of a data point.

    Shapes:
        [...] each example, and [batch_size / K, ...] each batch of them.

    Raises:
        ConfigError: The data have less than one batch, or K does not divide ``batch_size``.
        DataPointError: The first data point is neither features nor features and labels.
        DataExhaustedError: There is no data point.
        InputError: The reader raised.
    """
    _check(given.data, given.batch_size)
    size = given.batch_size
    if size is not None and size % num_towers:
        expected = f"a multiple of {num_towers}, the number of towers that share the examples of a step"
        raise ConfigError(mismatch("an Estimator", "batch_size", size, expected))
    size = None if size is None else size // num_towers
    if isinstance(given.data, tf.compat.v2.data.Dataset):
        dataset = brought_into_graph(given.data, "an Estimator") if is_eager(given.data) else given.data
        dataset = dataset if size is None else dataset.batch(size, drop_remainder=is_training)
        return GivenDataset(dataset.repeat() if given.is_repeated else dataset, None)
    flow, name = _flow(given.data, shuffle=is_training)
    layout, leaves = _leaves_of(first_point(flow, name), has_labels)
    specs = [_spec(where, leaf, name, is_batch=size is None) for where, leaf in leaves.items()]
    flow = MapData(flow, functools.partial(_read, has_labels=has_labels, layout=layout))
    flow = flow if size is None else BatchData(flow, size, remainder=not is_training)
    if size is not None:
        specs = [tf.TensorSpec([None, *spec.shape], spec.dtype, spec.name) for spec in specs]
    stream = DataPointStream(flow, DataPointChecker(specs, f"{name}, {_ALIKE}"), infinite=given.is_repeated)
    elements = StreamElements(stream, f"the input, {name}")
    logger.info(f"The input is {name}: {', '.join(f'{spec.name} {spec.dtype.name} {spec.shape}' for spec in specs)}")
    dataset = dataset_of_elements(elements, specs).prefetch(_NUM_AHEAD)
    return GivenDataset(dataset.map(lambda *parts: _packed(layout, dict(zip(leaves, parts, strict=True)))), elements)


def _check(data: object, batch_size: int | None) -> None:
    """Refuse data that cannot be read, without reading."""
    if isinstance(data, tf.compat.v2.data.Dataset):
        return
    check_batched_once(data, batch_size)
    if are_arrays(data) or _are_nested_arrays(data):
        if batch_size is None:
            expected = "batch_size, the number of rows per step over all towers"
            raise ConfigError(f"got the arrays {shown(data)} without a batch size: expected {expected}")
    else:
        given_flow(data, shuffle=False)


def _are_nested_arrays(data: object) -> bool:
    """Tell whether data are a nest of arrays in tuples and dicts, such as ``({"x": x}, y)``."""
    if not isinstance(data, tuple | Mapping) or not data:
        return False
    parts = data.values() if isinstance(data, Mapping) else data
    return all(is_array(part) or _are_nested_arrays(part) for part in parts)


def _flow(data: Any, *, shuffle: bool) -> tuple[DataFlow, str]:
    """Return data as a flow, with a short description."""
    if are_arrays(data) or not _are_nested_arrays(data):
        return given_flow(data, shuffle=shuffle)
    columns: dict[str, Any] = {}
    layout = _layout_of(data, "", columns)
    rows, name = given_flow(columns, shuffle=shuffle)
    return MapData(rows, functools.partial(_packed, layout)), name


def _leaves_of(point: Any, has_labels: bool) -> tuple[_Layout, dict[str, Any]]:
    """Return the structure of a data point, and its leaves by their place in it."""
    leaves: dict[str, Any] = {}
    layouts = [_layout_of(part, name, leaves) for name, part in _features_and_labels(point, has_labels).items()]
    return tuple(layouts) if len(layouts) > 1 else layouts[0], leaves


def _features_and_labels(point: Any, has_labels: bool) -> dict[str, Any]:
    if not isinstance(point, list | tuple):
        return {"features": point}
    if len(point) == 1 or (len(point) > 1 and not has_labels):
        return {"features": point[0]}
    if len(point) == 2:
        return {"features": point[0], "labels": point[1]}
    raise DataPointError(
        f"a data point has {len(point)} components: expected features, or features and labels; use a dict or tuple of "
        "several features, as by MapData(flow, lambda point: ({'a': point[0], 'b': point[1]}, point[2]))"
    )


def _layout_of(value: Any, where: str, leaves: dict[str, Any]) -> _Layout:
    """Return the structure of a value, and add its leaves."""
    if isinstance(value, Mapping):
        return {key: _layout_of(part, f"{where}[{key!r}]", leaves) for key, part in value.items()}
    # Loaders of PyTorch turn the tuples of their data sets into lists; any other list is one array.
    is_tuple = isinstance(value, list) and len(value) > 0 and all(isinstance(part, np.ndarray) for part in value)
    if is_tuple or isinstance(value, tuple):
        return tuple(_layout_of(part, f"{where}[{number}]", leaves) for number, part in enumerate(value))
    leaves[where] = _as_array(value, where) if isinstance(value, list) else value
    return where


def _as_array(values: list[Any], where: str) -> np.ndarray:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DataPointError(f"{where} of a data point is {shown(values)}, not an array: {error}") from error
    # A dtype of fixed width would differ from point to point.
    return np.array(values, object) if array.dtype.kind in "SU" else array


def _packed(layout: _Layout, leaves: Mapping[str, Any]) -> Any:
    """Return the value of a structure and its leaves."""
    if isinstance(layout, dict):
        return {key: _packed(part, leaves) for key, part in layout.items()}
    return tuple(_packed(part, leaves) for part in layout) if isinstance(layout, tuple) else leaves[layout]


def _read(point: Any, has_labels: bool, layout: _Layout) -> dict[str, Any]:
    """Return the leaves of a data point."""
    found, leaves = _leaves_of(point, has_labels)
    if found != layout:
        raise DataPointError(f"a data point has the structure {found}: expected that of the first one, {layout}")
    return leaves


def _spec(where: str, leaf: Any, name: str, *, is_batch: bool) -> tf.TensorSpec:
    """Return the spec of the leaves at a place, from the first of them."""
    array = np.asarray(leaf)
    if array.dtype.kind == "O" and not all(isinstance(item, str | bytes) for item in array.flat):
        raise DataPointError(f"{where} of the first data point of {name} is {shown(leaf)}: expected numbers or strings")
    dtype = tf.string if array.dtype.kind in "OSUT" else tf.as_dtype(array.dtype)
    shape = [None, *array.shape[1:]] if is_batch and array.ndim else array.shape
    return tf.TensorSpec(shape, tf.float32 if dtype == tf.float64 else dtype, where)
