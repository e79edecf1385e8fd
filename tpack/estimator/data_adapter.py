"""What people have as data, as the input of a model: arrays, lists, datasets and loaders of other libraries, functions.

A model_fn has no signature that data points could be held against. So the first one is looked at before the model is
built: what it is made of becomes the features, or features and labels, and every other point has to be like it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.dataflow.arrays import is_array
from tpack.dataflow.base import DataFlow
from tpack.dataflow.batch import BatchData
from tpack.dataflow.mapping import MapData
from tpack.errors import ConfigError, DataPointError
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
from tpack.utils.validation import check_count, shown

_NUM_AHEAD = 8
"""How many batches wait for the step."""
_TENSORS = (tf.Tensor, tf.SparseTensor, tf.RaggedTensor, tf.Variable)
_ALIKE = "whose data points must be like the first; input_fn may return a tf.data.Dataset where shapes differ"
# How a data point is made up: tuples and dicts, and in place of what they hold the name of it.
_Layout: TypeAlias = Any


@dataclass(frozen=True)
class GivenInput:
    """What a model reads, as it was given, and how it is gone over.

    Attributes:
        data: an input_fn, or data.
        batch_size: how many examples a step takes, over all towers, where the data are examples; None where they are
            batches.
        is_repeated: whether data are gone over again and again. What an input_fn returns as a ``tf.data.Dataset`` or
            as tensors is taken as it is.

    Raises:
        WrongTypeError: The data are something that cannot be read.
        ConfigError: They are arrays, and there is no batch size; or they make batches themselves, and there is one.
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
        """Whether the data are a function that returns what is read."""
        return is_function(self.data) and not is_generator_function(self.data)


class GivenDataset(NamedTuple):
    """What a model reads, in the current graph.

    Attributes:
        dataset: of features, or of pairs of features and labels; or the tensors that an input_fn returned.
        elements: what reads the data; None where TensorFlow does it alone.
    """

    dataset: Any
    elements: StreamElements | None


def are_tensors(result: object) -> bool:
    """Tell whether what an input_fn returned are tensors, or nothing at all, and no data to read."""
    if result is None or (isinstance(result, tuple | list) and (len(result) == 0 or result[0] is None)):
        return True
    # Of a list of data points the first will do.
    parts = result[:2] if isinstance(result, list) else result
    return any(isinstance(part, _TENSORS) for part in tf.nest.flatten(parts))


def given_dataset(
    given: GivenInput, num_towers: int = 1, *, is_training: bool = False, has_labels: bool = True
) -> GivenDataset:
    """Make a dataset of data.

    Args:
        given: the data, and no input_fn.
        num_towers: K, by how many the examples of a step are shared where each takes a batch of its own.
        is_training: whether arrays and lists come in a new order on each pass, and the last examples of a pass are left
            out if they make no whole batch.
        has_labels: whether the second component of a data point is looked at.

    Shapes:
        [...] each example, and [batch_size / K, ...] each batch of them.

    Raises:
        ConfigError: The data make not one batch, or towers cannot share a batch evenly.
        DataPointError: The first data point is not made of features, or of features and labels.
        DataExhaustedError: There is no data point.
        InputError: What reads them raised.
    """
    _check(given.data, given.batch_size)
    size = _share(given.batch_size, num_towers)
    if isinstance(given.data, tf.compat.v2.data.Dataset):
        dataset = brought_into_graph(given.data, "an Estimator") if is_eager(given.data) else given.data
        dataset = dataset if size is None else dataset.batch(size, drop_remainder=is_training)
        return GivenDataset(dataset.repeat() if given.is_repeated else dataset, None)
    flow, name = _flow(given.data, shuffle=is_training)
    layout, leaves = _leaves_of(first_point(flow, name), has_labels)
    specs = [_spec(where, leaf, name, is_batch=size is None) for where, leaf in leaves.items()]
    flow = MapData(flow, partial(_read, has_labels=has_labels, layout=layout))
    flow = flow if size is None else BatchData(flow, size, remainder=not is_training)
    if size is not None:
        specs = [tf.TensorSpec([None, *spec.shape], spec.dtype, spec.name) for spec in specs]
    stream = DataPointStream(flow, DataPointChecker(specs, f"{name}, {_ALIKE}"), infinite=given.is_repeated)
    elements = StreamElements(stream, f"the input, {name}")
    logger.info(f"The input is {name}: {', '.join(f'{spec.name} {spec.dtype.name} {spec.shape}' for spec in specs)}")
    dataset = dataset_of_elements(elements, specs).prefetch(_NUM_AHEAD)
    return GivenDataset(dataset.map(lambda *parts: _packed(layout, dict(zip(leaves, parts, strict=True)))), elements)


def _check(data: object, batch_size: int | None) -> None:
    """Refuse data that cannot be read, as far as that is seen without reading."""
    if isinstance(data, tf.compat.v2.data.Dataset):
        return
    check_batched_once(data, batch_size)
    if are_arrays(data) or _are_nested_arrays(data):
        if batch_size is None:
            raise ConfigError(
                f"the data are arrays, {shown(data)}, and their rows are examples: say how many of them a step takes, "
                "over all towers, by batch_size"
            )
    else:
        given_flow(data, shuffle=False)


def _share(batch_size: int | None, num_towers: int) -> int | None:
    if batch_size is None:
        return None
    if batch_size % num_towers:
        raise ConfigError(
            f"batch_size={batch_size} is how many examples a step takes over all towers, and {num_towers} towers "
            f"cannot share them evenly: expected a multiple of {num_towers}"
        )
    return batch_size // num_towers


def _are_nested_arrays(data: object) -> bool:
    """Tell whether data are arrays in tuples and dicts of tuples and dicts, such as ``({"x": x}, y)``."""
    if not isinstance(data, tuple | Mapping) or not data:
        return False
    parts = data.values() if isinstance(data, Mapping) else data
    return all(is_array(part) or _are_nested_arrays(part) for part in parts)


def _flow(data: Any, *, shuffle: bool) -> tuple[DataFlow, str]:
    """Return data as a flow, and what they are in a few words."""
    if are_arrays(data) or not _are_nested_arrays(data):
        return given_flow(data, shuffle=shuffle)
    columns: dict[str, Any] = {}
    layout = _layout_of(data, "", columns)
    rows, name = given_flow(columns, shuffle=shuffle)
    return MapData(rows, partial(_packed, layout)), name


def _leaves_of(point: Any, has_labels: bool) -> tuple[_Layout, dict[str, Any]]:
    """Return how a data point is made up, and what of, by names that say where it stands in it."""
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
        f"a data point has {len(point)} components: expected features, or features and labels. Several features are a "
        "dict or a tuple: MapData(flow, lambda point: ({'a': point[0], 'b': point[1]}, point[2])) makes them"
    )


def _layout_of(value: Any, where: str, leaves: dict[str, Any]) -> _Layout:
    """Return how a value is made up, and add what of to the leaves."""
    if isinstance(value, Mapping):
        return {key: _layout_of(part, f"{where}[{key!r}]", leaves) for key, part in value.items()}
    # Loaders of PyTorch make lists of the tuples of their data sets; any other list is one array.
    is_tuple = isinstance(value, list) and len(value) > 0 and all(isinstance(part, np.ndarray) for part in value)
    if is_tuple or isinstance(value, tuple):
        return tuple(_layout_of(part, f"{where}[{number}]", leaves) for number, part in enumerate(value))
    leaves[where] = _as_array(value, where) if isinstance(value, list) else value
    return where


def _as_array(values: list[Any], where: str) -> np.ndarray:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DataPointError(f"{where} of a data point is {shown(values)}, which makes no array: {error}") from error
    # As a dtype of one width, strings of other points would be of another dtype.
    return np.array(values, object) if array.dtype.kind in "SU" else array


def _packed(layout: _Layout, leaves: Mapping[str, Any]) -> Any:
    """Return a value that is made up so of such leaves."""
    if isinstance(layout, dict):
        return {key: _packed(part, leaves) for key, part in layout.items()}
    return tuple(_packed(part, leaves) for part in layout) if isinstance(layout, tuple) else leaves[layout]


def _read(point: Any, has_labels: bool, layout: _Layout) -> dict[str, Any]:
    """Return what a data point is made of."""
    found, leaves = _leaves_of(point, has_labels)
    if found != layout:
        raise DataPointError(f"a data point is made up as {found}, and the first one as {layout}: expected them alike")
    return leaves


def _spec(where: str, leaf: Any, name: str, *, is_batch: bool) -> tf.TensorSpec:
    """Return what the leaves at a place are, by the first of them."""
    array = np.asarray(leaf)
    if array.dtype.kind == "O" and not all(isinstance(item, str | bytes) for item in array.flat):
        raise DataPointError(f"{where} of the first data point of {name} is {shown(leaf)}: expected numbers or strings")
    dtype = tf.string if array.dtype.kind in "OSUT" else tf.as_dtype(array.dtype)
    shape = [None, *array.shape[1:]] if is_batch and array.ndim else array.shape
    return tf.TensorSpec(shape, tf.float32 if dtype == tf.float64 else dtype, where)
