"""Adapters of the data that Keras's ``fit`` takes to flat columns or batches for towers.

Keras nests data: ``(x, y)`` or ``(x, y, sample_weight)``, each one array, a list or a dict of them. A tower takes a
flat list. Arrays make the batches of Keras, the last of which may be smaller; each is split over the towers as evenly
as its examples allow, and a tower's cost counts by the examples that it has.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat.runtime import eager_mode
from tpack.dataflow.arrays import DataFromArrays, is_array
from tpack.dataflow.base import DataFlow, ProxyDataFlow
from tpack.dataflow.batch import BatchData
from tpack.dataflow.iterator_state import Passes, StateReader, make_state
from tpack.dataflow.mapping import MapData
from tpack.dataflow.sources import DataFromGenerator
from tpack.errors import ConfigError
from tpack.input_source.data_adapter import is_generator_function
from tpack.keras.layout import flatten, map_named


@dataclass(frozen=True)
class NestedData:
    """Data as Keras nests them.

    Attributes:
        x: the inputs: arrays, or specs of batches.
        y: the targets; None without any.
        weight: the weights of the examples; None without any.
        batches: a flow or a ``tf.data.Dataset`` of flat batches; None for arrays.
    """

    x: Any
    y: Any = None
    weight: Any = None
    batches: Any = None

    @property
    def columns(self) -> list[Any]:
        """The arrays, flat."""
        return [*flatten(self.x), *flatten(self.y), *flatten(self.weight)]

    @property
    def num_rows(self) -> int:
        """The number of examples of arrays."""
        return len(self.columns[0])

    def first_inputs(self) -> Any:
        """Return the inputs of some examples, as arrays."""
        if not isinstance(self.batches, tf.compat.v2.data.Dataset):
            return self.x
        with eager_mode():
            flat = next(iter(self.batches.take(1)))
        return keras.tree.pack_sequence_as(self.x, [each.numpy() for each in flat[: len(flatten(self.x))]])

    def split(self, fraction: float) -> tuple["NestedData", "NestedData"]:
        """Return arrays without their last rows, and those rows; refuse batches, and a part without rows."""
        if self.batches is not None:
            raise ConfigError("fit got validation_split and no arrays: expected arrays; use validation_data")
        at = int(np.floor(self.num_rows * (1.0 - fraction)))
        if not 0 < at < self.num_rows:
            raise ConfigError(
                f"fit got validation_split={fraction} and {self.num_rows} examples: expected a fraction between 0 and "
                "1 that leaves some for each part"
            )
        return self._rows(slice(0, at)), self._rows(slice(at, None))

    def weighted(self, weight: Any, class_weight: Mapping[int, float] | None) -> "NestedData":
        """Return arrays with the weights of the examples, given or by their classes; refuse them for batches."""
        if weight is None and class_weight is None:
            return self
        if self.batches is not None or self.weight is not None:
            raise ConfigError(
                "fit got sample_weight or class_weight and data with their own weights or batches: expected arrays "
                "(x, y); use (x, y, sample_weight) as the data"
            )
        if class_weight is None:
            return replace(self, weight=weight)
        if weight is not None or not is_array(self.y):
            raise ConfigError("fit got class_weight with sample_weight or several targets: expected one target alone")
        return replace(self, weight=weights_of_classes(np.asarray(self.y), class_weight))

    def _rows(self, rows: slice) -> "NestedData":
        parts = (None if part is None else keras.tree.map_structure(lambda c: c[rows], part) for part in self._parts)
        return NestedData(*parts)

    @property
    def _parts(self) -> tuple[Any, Any, Any]:
        return self.x, self.y, self.weight


def weights_of_classes(y: np.ndarray, class_weight: Mapping[int, float]) -> np.ndarray:
    """Return the weight of each example by its class; classes are numbers or, in several columns, the largest."""
    if y.ndim > 1:
        y = np.argmax(y, axis=-1) if y.shape[-1] != 1 else y[..., 0]
    classes = np.round(y).astype(np.int64)
    return np.vectorize(lambda k: class_weight.get(int(k), 1.0), otypes=[keras.config.floatx()])(classes)


def nested_arrays(data: Any, num_inputs: int | None, num_targets: int) -> NestedData | None:
    """Return arrays as Keras nests them; None for other data.

    A flat tuple has the inputs, then the targets, and at its end maybe the weights.

    Args:
        data: an array, or a tuple or dict of arrays, which may be nested.
        num_inputs: the number of inputs of the model; None if it does not know.
        num_targets: the number of losses.
    """
    data = _in_arrays(data)
    if not isinstance(data, tuple):
        is_one = is_array(data) and not hasattr(data, "__getitems__")
        return NestedData(data) if is_one or (num_targets == 0 and _is_of_arrays(data)) else None
    if not data or not all(map(_is_of_arrays, data)):
        return None
    if all(map(is_array, data)):
        return _flat_arrays(data, num_inputs, num_targets)
    return NestedData(*data) if len(data) <= 3 else None


def _flat_arrays(data: tuple[Any, ...], num_inputs: int | None, num_targets: int) -> NestedData:
    weights: Sequence[Any] = ()
    is_of_keras = len(data) == 3 and num_targets == 1 and num_inputs in (None, 1)
    if is_of_keras or (num_inputs is not None and len(data) == num_inputs + num_targets + 1):
        data, weights = data[:-1], data[-1:]
    inputs, targets = data[: len(data) - num_targets], data[len(data) - num_targets :]
    if not inputs:
        raise ConfigError(f"fit got {len(data)} array(s): expected the inputs, then {num_targets} of targets")
    return NestedData(_alone(inputs), _alone(targets), _alone(weights))


def _in_arrays(data: Any) -> Any:
    """Return data with arrays in place of eager tensors and columns or frames of pandas."""
    if isinstance(data, Mapping):
        return {key: _in_arrays(part) for key, part in data.items()}
    if type(data) in (list, tuple):
        return type(data)(map(_in_arrays, data))
    if tf.is_tensor(data) and hasattr(data, "numpy"):
        return data.numpy()
    return data.to_numpy() if hasattr(data, "iloc") and hasattr(data, "to_numpy") else data


def _alone(parts: Sequence[Any]) -> Any:
    return None if not parts else parts[0] if len(parts) == 1 else list(parts)


def _is_of_arrays(part: Any) -> bool:
    if isinstance(part, Mapping):
        return bool(part) and all(map(_is_of_arrays, part.values()))
    if isinstance(part, list | tuple):
        return bool(part) and all(map(_is_of_arrays, part))
    return is_array(part)


def nested_batches(data: Any) -> NestedData | None:
    """Return batches that Keras nests, with a source of the flat ones; None for data in another form.

    Args:
        data: a ``tf.data.Dataset`` of batches, a ``keras.utils.PyDataset``, or a generator function of batches.
    """
    if isinstance(data, tf.compat.v2.data.Dataset):
        with eager_mode():
            batches = data.map(lambda *point: tuple(_flat_point(point)))
        return replace(_nested(data.element_spec), batches=batches)
    if isinstance(data, keras.utils.PyDataset):
        return replace(_nested(data[0]), batches=MapData(_PyDatasetFlow(data), _flat_point))
    if is_generator_function(data):
        return replace(_nested(next(iter(data()))), batches=MapData(DataFromGenerator(data), _flat_point))
    return None


def _parts_of(point: Any) -> tuple[Any, ...]:
    return tuple(point) if isinstance(point, tuple | list) and len(point) <= 3 else (point,)


def _nested(point: Any) -> NestedData:
    return NestedData(*_parts_of(point))


def _flat_point(point: Any) -> list[Any]:
    return [entry for part in _parts_of(point) for entry in flatten(part)]


class _PyDatasetFlow(DataFlow):
    """The batches of a ``keras.utils.PyDataset``, which is shown the end of each pass."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __iter__(self) -> Iterator[Any]:
        for number in range(len(self._dataset)):
            yield self._dataset[number]
        self._dataset.on_epoch_end()


def named_specs(data: Any, known: Any, name: str) -> Any:
    """Return specs, nested like data, of the dtypes that Keras converts them to.

    Args:
        data: arrays or specs of batches.
        known: the specs of a model that knows its inputs, flat; None for none.
        name: the name of a single one.
    """
    flat = flatten(data)
    if known and len(known) == len(flat) and not isinstance(data, Mapping):
        return [_as_given(spec, each) for spec, each in zip(known, flat, strict=True)]
    by_name = {spec.name: spec for spec in known or ()}
    return map_named(
        lambda own, each: _as_given(by_name[own], each) if own in by_name else _spec(each, own), data, name
    )


def _as_given(spec: tf.TensorSpec, column: Any) -> tf.TensorSpec:
    """Return a model's spec, or that of data with a dimension of 1 more or less at the end, which Keras adapts."""
    own, given = spec.shape.as_list()[1:], list(column.shape[1:])
    if own[-1:] == [1] and given == own[:-1] or given[-1:] == [1] and given[:-1] == own:
        return tf.TensorSpec([None, *given], spec.dtype, spec.name)
    return spec


def _spec(column: Any, name: str) -> tf.TensorSpec:
    dtype = column.dtype if hasattr(column, "dtype") and not isinstance(column.dtype, np.dtype) else None
    kept = tf.as_dtype(np.asarray(column[:1]).dtype) if not isinstance(dtype, tf.DType) else dtype
    is_float = kept.is_floating and kept.size >= tf.float32.size
    return tf.TensorSpec([None, *column.shape[1:]], tf.as_dtype(keras.config.floatx()) if is_float else kept, name)


class TowerBatches(ProxyDataFlow):
    """Batches of all towers, split evenly: K data points for each, with the towers' shares of the cost at their ends.

    A tower without an example gets the first one of the batch with a share of 0.

    Args:
        ds: batches, as lists of arrays.
        num_towers: K.

    Shapes:
        [B, ...] to K times about [B / K, ...]; shares have [B / K].
    """

    def __init__(self, ds: DataFlow, num_towers: int) -> None:
        super().__init__(ds)
        self._num_towers = num_towers
        # The number of the towers that have their part of the newest batch, and the position before that batch.
        self._passes: Passes[tuple[int, Any]] = Passes((0, None))

    def __len__(self) -> int:
        return len(self.ds) * self._num_towers

    def __iter__(self) -> Iterator[list[np.ndarray]]:
        one = self._passes.begin()
        first, _ = one.value
        batches, before = iter(self.ds), self.ds.state_dict()
        for batch in batches:
            for number in range(first, self._num_towers):
                is_last = number == self._num_towers - 1
                one.value = (0, None) if is_last else (number + 1, before)
                yield split_for_tower(batch, number, self._num_towers)
            first, before = 0, self.ds.state_dict()
        self._passes.end(one)

    def state_dict(self) -> dict[str, Any]:
        """Return the position before the newest batch, and the number of the towers that have their part of it."""
        number, before = self._passes.value
        return make_state(self, ds=before if number else self.ds.state_dict(), number=number)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position."""
        saved = StateReader(self, state, "ds", "number")
        number = saved.count("number", at_most=self._num_towers - 1)
        self.ds.load_state_dict(saved["ds"])
        self._passes.go_to((number, saved["ds"] if number else None))


def split_for_tower(batch: Sequence[np.ndarray], number: int, num_towers: int) -> list[np.ndarray]:
    """Return a tower's rows of a batch, and in each row the tower's share: its rows times K over those of the batch."""
    total = len(batch[0])
    begin, end = (total * k // num_towers for k in (number, number + 1))
    rows, factor = slice(begin, end), (end - begin) * num_towers / total
    if begin == end:
        rows = slice(0, 1)
    shares = np.full([rows.stop - rows.start], factor, keras.config.floatx())
    return [*(column[rows] for column in batch), shares]


def tower_batches(columns: Sequence[Any], batch_size: int, num_towers: int, *, shuffle: bool) -> DataFlow:
    """Return the flow of arrays in batches of Keras, for K towers."""
    return TowerBatches(BatchData(DataFromArrays(list(columns), shuffle), batch_size, remainder=True), num_towers)
