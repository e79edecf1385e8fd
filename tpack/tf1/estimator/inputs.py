"""``tf.estimator.inputs``: functions that feed arrays and data frames of pandas to an Estimator.

Batches are cut from one stream of epochs, so that a batch may have the end of one and the beginning of the next; the
last one may be smaller. Arrays stay outside of the graph.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.distribute.contexts import strategy_of
from tpack.errors import ConfigError, DependencyError, WrongTypeError
from tpack.tf1.signatures import like
from tpack.tower.context import current_frame
from tpack.utils.validation import check_arguments, check_count, shown

Arrays = dict[str, np.ndarray]

_X = "x"
_Y = "y"


@check_arguments
def numpy_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
) -> Callable[[], Any]:
    """Return an input_fn that makes batches of arrays.

    It returns tensors, whose data source is opened with the tables; under a distribution strategy a
    ``tf.data.Dataset``.

    Args:
        x: the features, an array or a dict of arrays.
        y: the labels, an array or a dict of arrays; None for none.
        batch_size: examples in a batch.
        num_epochs: the number of epochs; None for no limit.
        shuffle: reorder the examples of each epoch; required.
        queue_capacity: of no effect: there is no queue.
        num_threads: of no effect: examples come from one thread, in order.

    Returns:
        A function without arguments, which returns features, or features and labels.

    Shapes:
        [N, ...] to [batch_size, ...] at most.

    Raises:
        ConfigError: ``shuffle`` is not given, there are no features, arrays have different lengths, or a feature and a
            label have one name.
    """
    _check_options(batch_size, num_epochs, shuffle, queue_capacity, num_threads)
    features, labels = _named("x", x, _X), {} if y is None else _named("y", y, _Y)
    both = sorted(set(features) & set(labels)) if isinstance(y, Mapping) and isinstance(x, Mapping) else []
    if both:
        raise ConfigError(f"got a feature and a label of one name, {', '.join(both)}: expected different names")
    _check_lengths(features, labels)
    parts = [("x", features, isinstance(x, Mapping)), ("y", labels, isinstance(y, Mapping))]
    return _input_fn(parts[: 1 if y is None else 2], batch_size, num_epochs, shuffle=bool(shuffle))


@check_arguments
@like(numpy_input_fn, after={"num_threads": {"target_column": "target"}})
def pandas_input_fn(
    x: Any, y: Any, batch_size: int, num_epochs: int | None, shuffle: bool | None, target_column: str, **given: Any
) -> Callable[[], Any]:
    """Return an input_fn that makes batches of a data frame, whose columns are features by their names.

    Args:
        x: a ``DataFrame``.
        y: a ``Series`` with the labels, or a ``DataFrame``, with the index of ``x``; None for none.
        batch_size: see `numpy_input_fn`.
        num_epochs: see `numpy_input_fn`.
        shuffle: see `numpy_input_fn`.
        target_column: the name of the labels, which no feature may have.
        **given: see `numpy_input_fn`.

    Raises:
        DependencyError: pandas is not installed.
        ConfigError: As for `numpy_input_fn`, or the indexes differ, or a feature has the labels' name.
    """
    pandas = _import_pandas()
    _check_options(batch_size, num_epochs, shuffle, **given)
    if not isinstance(x, pandas.DataFrame):
        raise WrongTypeError(f"pandas_input_fn got x={shown(x)}: expected a DataFrame")
    features = {str(name): _array(x[name].to_numpy()) for name in x.columns}
    if y is None:
        return _input_fn([("x", features, True)], batch_size, num_epochs, shuffle=bool(shuffle))
    if not isinstance(y, (pandas.Series, pandas.DataFrame)):
        raise WrongTypeError(f"pandas_input_fn got y={shown(y)}: expected a Series or a DataFrame")
    if not x.index.equals(y.index):
        raise ConfigError("pandas_input_fn got x and y of different indexes: expected the same index")
    has_columns = isinstance(y, pandas.DataFrame)
    if not has_columns and target_column in features:
        raise ConfigError(f"got target_column={target_column!r}: expected another name than that of a feature")
    labels = (
        {str(name): _array(y[name].to_numpy()) for name in y.columns} if has_columns else {_Y: _array(y.to_numpy())}
    )
    parts = [("x", features, True), ("y", labels, has_columns)]
    return _input_fn(parts, batch_size, num_epochs, shuffle=bool(shuffle))


def _input_fn(
    parts: list[tuple[str, Arrays, bool]], batch_size: int, num_epochs: int | None, *, shuffle: bool
) -> Callable[[], Any]:
    """Return the function that feeds features and perhaps labels, each by name or alone."""
    named = [arrays for _, arrays, _ in parts]
    size = len(next(iter(named[0].values())))

    def batches() -> Iterator[Any]:
        for rows in _rows(size, batch_size, num_epochs, shuffle=shuffle):
            yield tuple({name: array[rows] for name, array in arrays.items()} for arrays in named)

    def structure(*found: Mapping[str, tf.Tensor]) -> Any:
        plain = [
            dict(tensors) if by_name else next(iter(tensors.values()))
            for tensors, (_, _, by_name) in zip(found, parts, strict=True)
        ]
        return plain[0] if len(plain) == 1 else tuple(plain)

    def input_fn() -> Any:
        # A batch is only sure to be whole if there is no last one.
        first = batch_size if num_epochs is None else None
        specs = tuple(
            {
                name: tf.TensorSpec([first, *array.shape[1:]], tf.string if array.dtype.kind in "OSU" else array.dtype)
                for name, array in arrays.items()
            }
            for arrays in named
        )
        dataset = tf.data.Dataset.from_generator(batches, output_signature=specs).map(structure).prefetch(1)
        strategy = strategy_of(current_frame())
        if strategy is not None and not strategy.is_default:
            return dataset
        iterator = tf.data.make_initializable_iterator(dataset)
        tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        return iterator.get_next()

    return input_fn


def _rows(size: int, batch_size: int, num_epochs: int | None, *, shuffle: bool) -> Iterator[np.ndarray]:
    waiting = np.empty(0, np.int64)
    epoch = 0
    while num_epochs is None or epoch < num_epochs:
        order = np.random.permutation(size) if shuffle else np.arange(size)
        waiting = np.concatenate([waiting, order])
        epoch += 1
        num_whole = len(waiting) // batch_size
        for index in range(num_whole):
            yield waiting[index * batch_size : (index + 1) * batch_size]
        waiting = waiting[num_whole * batch_size :]
    if len(waiting):
        yield waiting


def _named(what: str, arrays: Any, alone: str) -> Arrays:
    named = dict(arrays) if isinstance(arrays, Mapping) else {alone: arrays}
    if not named:
        raise ConfigError(f"numpy_input_fn got {what}={{}}: expected at least one array")
    for name, array in named.items():
        if not isinstance(array, np.ndarray) or array.ndim == 0:
            raise WrongTypeError(
                f"numpy_input_fn got {name!r} in {what}={shown(array)}: expected an array or a dict of arrays"
            )
    return {name: _array(array) for name, array in named.items()}


def _check_lengths(features: Arrays, labels: Arrays) -> None:
    lengths = {name: len(array) for arrays in (features, labels) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise ConfigError(f"numpy_input_fn got x and y of {lengths} examples: expected one number")
    if not next(iter(lengths.values())):
        raise ConfigError("numpy_input_fn got x without examples: expected at least one")


def _check_options(
    batch_size: int, num_epochs: int | None, shuffle: bool | None, queue_capacity: int, num_threads: int
) -> None:
    if shuffle is None:
        raise ConfigError("got shuffle=None: expected True to train, or False to evaluate and to predict")
    counts = {"batch_size": batch_size, "queue_capacity": queue_capacity, "num_threads": num_threads}
    for name, value in counts.items():
        check_count("an input_fn", name, value)
    if num_epochs is not None:
        check_count("an input_fn", "num_epochs", num_epochs)


def _array(array: np.ndarray) -> np.ndarray:
    """Return an array for a generator: text stored as objects becomes text."""
    is_text = array.dtype.kind == "O" and all(isinstance(entry, (str, bytes)) for entry in array.flat)
    return array.astype(np.str_) if is_text and all(isinstance(entry, str) for entry in array.flat) else array


def _import_pandas() -> Any:
    try:
        return importlib.import_module("pandas")
    except ImportError as error:
        raise DependencyError(
            "pandas_input_fn got no pandas: expected it to be installed; use pip install pandas"
        ) from error
