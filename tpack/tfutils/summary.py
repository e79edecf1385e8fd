"""Summaries: of tensors and parameters, moving averages of scalars, and of numpy values from outside the graph.

Averages smooth the noise of single batches. Each is a weighted mean of all values so far, the newest with the largest
weight; numerator and denominator both start at zero, so the first average is the first value. Values that are not
finite are left out; where these have more than half of the weight, the average is NaN: one NaN among many numbers does
not hide the others, and a cost that became NaN for good shows.

Averages and parameters are read after the step that changes them: their summaries are in `STATE_SUMMARIES_KEY` too.
Tags are exactly the requested ones, while ``tf.summary.scalar`` makes them unique in the graph.
"""

import re
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import tensorflow.compat.v1 as tf
from numpy.typing import ArrayLike

from tpack.errors import ConfigError, GraphBuildError
from tpack.tfutils.scope_utils import (
    name_without_tower,
    shared_by_towers,
    variable_name_without_tower,
    writes_summaries,
)
from tpack.tower.collections import MOVING_SUMMARY_OPS_KEY
from tpack.utils import logger
from tpack.utils.validation import check_arguments, mismatch

__all__ = [
    "MOVING_SUMMARY_OPS_KEY",
    "add_activation_summary",
    "add_moving_summary",
    "add_param_summary",
    "add_tensor_summary",
    "create_image_summary",
    "create_scalar_summary",
]
STATE_SUMMARIES_KEY = "STATE_SUMMARIES"
"""Summaries of what the updates of a step change, which are read when the step is over."""

MOVING_AVERAGES_KEY = "MOVING_AVERAGES"
"""A `MovingAverages` of each call that made some."""

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# PNG's colour type for each number of channels: grey, RGB, RGB with alpha.
_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}


@dataclass(frozen=True)
class MovingAverages:
    """The averages of one call, which are kept over a resumption.

    Attributes:
        name: the variable's name; collections are exported by names.
        tags: the names of the averages.
        state: the variable, of shape [3, number of averages].
        update: the operation that adds the values of a step.
    """

    name: str
    tags: tuple[str, ...]
    state: tf.Variable
    update: tf.Operation


@check_arguments
def add_moving_summary(
    *args: tf.Tensor | Sequence[tf.Tensor], collection: str = MOVING_SUMMARY_OPS_KEY, decay: float = 0.95
) -> list[tf.Tensor]:
    """Write moving averages of scalars, outside of towers and in the main training tower.

    The update runs with every step by the default callback MovingAverageSummary, which also keeps the averages over a
    resumption.

    Args:
        *args: scalar tensors, or lists of them.
        collection: the collection for the operation that updates the averages.
        decay: the share of the average that stays at each update.

    Returns:
        The averages, NaN before the first update; an empty list in other towers.

    Creates:
        For each call one float32 resource variable in LOCAL_VARIABLES. A summary for each scalar in SUMMARIES, called
        like the tensor without the tower's name scope.

    Raises:
        GraphBuildError: Something is not a scalar tensor of numbers of known shape.
        ConfigError: The decay is not in [0, 1).
    """
    if not 0 <= decay < 1:
        raise ConfigError(mismatch("add_moving_summary", "decay", decay, "a number in [0, 1)"))
    if not writes_summaries():
        return []
    scalars: list[tf.Tensor] = [tensor for arg in args for tensor in (arg if isinstance(arg, list | tuple) else [arg])]
    for tensor in scalars:
        check_scalar(tensor)
    named = [(name_without_tower(tensor), tensor) for tensor in scalars]
    return add_named_moving_summary(named, collection=collection, decay=decay)


@check_arguments
def add_tensor_summary(
    x: tf.Tensor | tf.Variable,
    types: Sequence[str],
    name: str | None = None,
    collections: Iterable[str] | None = None,
    main_tower_only: bool = True,
) -> None:
    """Write summaries of a tensor.

    Args:
        x: a tensor or variable.
        types: some of ``"scalar"``, ``"histogram"``, ``"sparsity"``, ``"mean"`` and ``"rms"``. The first two have the
            tag ``name``, the others ``name-sparsity`` and so on.
        name: by default the tensor's, without the tower's name scope.
        collections: of the summaries, by default SUMMARIES.
        main_tower_only: do nothing in any tower but the main training tower.

    Raises:
        ConfigError: A type is unknown.
        GraphBuildError: The type is ``"scalar"`` and ``x`` is not a scalar.
    """
    unknown = set(types) - set(_TYPES)
    if isinstance(types, str) or unknown:
        raise ConfigError(mismatch("add_tensor_summary", "types", types, f"a list out of {', '.join(_TYPES)}"))
    if main_tower_only and not writes_summaries():
        return
    tag = name_without_tower(x) if name is None else name
    with tf.name_scope(None, "TensorSummary"):
        for kind in types:
            if kind == "scalar":
                add_scalar_summary(tag, x, collections)
            elif kind == "histogram":
                add_histogram_summary(tag, x, collections)
            else:
                tensor = tf.convert_to_tensor(x)
                floating = tensor if tensor.dtype.is_floating else tf.cast(tensor, tf.float32)
                add_scalar_summary(f"{tag}-{kind}", _REDUCTIONS[kind](floating), collections)


@check_arguments
def add_activation_summary(
    x: tf.Tensor, types: Sequence[str] | None = None, name: str | None = None, collections: Iterable[str] | None = None
) -> None:
    """Write summaries of a layer's output, under ``activation-summary/``.

    Args:
        x: a tensor with at least two dimensions; others get a warning and no summary.
        types: as for ``add_tensor_summary``; by default sparsity, rms and histogram.
        name: by default the tensor's, without the tower's name scope.
        collections: of the summaries, by default SUMMARIES.

    Raises:
        ConfigError: A type is unknown.
    """
    if not writes_summaries():
        return
    tag = name_without_tower(x) if name is None else name
    if x.shape.rank is not None and x.shape.rank < 2:
        logger.warning(f"{tag} of shape {x.shape} gets no summary: expected two dimensions or more")
        return
    wanted = ("sparsity", "rms", "histogram") if types is None else types
    add_tensor_summary(x, wanted, name=f"activation-summary/{tag}", collections=collections)


@check_arguments
def add_param_summary(*summary_lists: tuple[str, Sequence[str]], collections: Iterable[str] | None = None) -> None:
    """Write summaries of trainable variables, under ``param-summary/``.

    Args:
        *summary_lists: pairs of a regular expression, which must match a variable's whole name, and types of summaries.
        collections: of the summaries, by default SUMMARIES.

    Raises:
        ConfigError: A type is unknown, or something is not such a pair.

    Example:
        add_param_summary((".*/W", ["histogram", "rms"]))
    """
    patterns = [_parse_pair(pair) for pair in summary_lists]
    if not writes_summaries():
        return
    for variable in tf.trainable_variables():
        name = variable_name_without_tower(variable)
        for pattern, types in patterns:
            if pattern.fullmatch(name):
                add_tensor_summary(variable, types, f"param-summary/{name}", _after_step(collections))


def create_scalar_summary(name: str, value: float) -> tf.Summary:
    """Return a tf.Summary with one number."""
    return tf.Summary(value=[tf.Summary.Value(tag=name, simple_value=float(value))])


@check_arguments
def create_image_summary(name: str, val: ArrayLike) -> tf.Summary:
    """Return a tf.Summary with images.

    Args:
        name: the tag; of several images, the k-th has the tag ``name/k``.
        val: numpy array of shape (N, H, W, C) with 1, 3 or 4 channels; other dtypes than uint8 are values in [0, 255],
            which are rounded.

    Raises:
        ConfigError: The shape is another one.
    """
    images = np.asarray(val)
    if images.ndim != 4 or images.shape[-1] not in (1, 3, 4) or not images.size:
        expected = f"a val of shape (N, H, W, 1, 3 or 4), not {images.shape}"
        raise ConfigError(mismatch("create_image_summary", "val", val, expected))
    if images.dtype != np.uint8:
        images = np.clip(np.rint(images), 0, 255).astype(np.uint8)
    count, height, width, channels = images.shape
    summary = tf.Summary()
    for k, image in enumerate(images):
        value = summary.value.add(tag=name if count == 1 else f"{name}/{k}")
        value.image.height, value.image.width, value.image.colorspace = height, width, channels
        value.image.encoded_image_string = encode_png(image)
    return summary


@contextmanager
def event_writer(directory: str) -> Iterator[tf.summary.FileWriter]:
    """Open a new event file in a directory for a block; the current default graph is required."""
    # TensorFlow names the file by the second, and of two in one second the later one would take the place of the other
    # (tensorflow/tensorflow#33595).
    writer = tf.summary.FileWriter(directory, filename_suffix=f".{time.time_ns()}")
    try:
        yield writer
    finally:
        writer.close()


def add_named_moving_summary(
    named: Sequence[tuple[str, tf.Tensor]], *, collection: str = MOVING_SUMMARY_OPS_KEY, decay: float = 0.95
) -> list[tf.Tensor]:
    """Write moving averages of (name, scalar tensor) pairs, whatever the tower; see `add_moving_summary`."""
    if not named:
        return []
    with tf.name_scope(None, "MovingSummary"):
        state = _build_state(named, collection, decay)
        # An average can be read whenever it is, also by a step in which what is around here does not run.
        with tf.control_dependencies(None):
            sums, finite_weights, weights = tf.unstack(state.read_value())
            averages = tf.unstack(tf.where(2 * finite_weights >= weights, sums / finite_weights, weights * np.nan))
            for (name, _), average in zip(named, averages, strict=True):
                add_scalar_summary(name, average, _after_step(None))
    return averages


def add_scalar_summary(tag: str, value: tf.Tensor | tf.Variable, collections: Iterable[str] | None = None) -> None:
    """Add a summary of a scalar to collections, by default SUMMARIES; raise a GraphBuildError for other tensors."""
    check_scalar(value)
    _collect(tf.raw_ops.ScalarSummary(tags=tag, values=tf.cast(value, tf.float32)), collections)


def scalar_tags() -> set[str]:
    """Return the tags of the scalar summaries in the current graph."""
    summaries = [summary.op for summary in tf.get_collection(tf.GraphKeys.SUMMARIES)]
    tags = [tf.get_static_value(op.inputs[0]) for op in summaries if op.type == "ScalarSummary"]
    return {tag.decode() for known in tags if known is not None for tag in np.ravel(known)}


def add_histogram_summary(tag: str, values: tf.Tensor | tf.Variable, collections: Iterable[str] | None = None) -> None:
    """Add a summary of a tensor's distribution to collections, by default SUMMARIES."""
    _collect(tf.raw_ops.HistogramSummary(tag=tag, values=tf.convert_to_tensor(values)), collections)


def check_scalar(tensor: tf.Tensor | tf.Variable) -> None:
    """Raise a GraphBuildError unless something is a tensor or variable with one number, of known shape."""
    if not tf.is_tensor(tensor):
        raise GraphBuildError(f"a summary got {tensor!r:.100}: expected a scalar tensor")
    dtype = tensor.dtype.base_dtype
    if tensor.shape.rank != 0 or not (dtype.is_floating or dtype.is_integer or dtype.is_bool):
        raise GraphBuildError(
            f"a summary got {tensor.name} of shape {tensor.shape} and dtype {dtype.name}: expected a numeric scalar; "
            "use for example tf.reduce_mean"
        )


def rms(x: tf.Tensor) -> tf.Tensor:
    """Return the root mean square of all elements of a tensor."""
    return tf.sqrt(tf.reduce_mean(tf.square(x)))


_REDUCTIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "sparsity": tf.nn.zero_fraction,
    "mean": tf.reduce_mean,
    "rms": rms,
}
_TYPES = ("scalar", "histogram", *_REDUCTIONS)


def _build_state(named: Sequence[tuple[str, tf.Tensor]], collection: str, decay: float) -> tf.Variable:
    """Return one variable for all scalars, with its update: updating a vector costs no more than updating a scalar."""
    # In rows: weighted sums of the finite values, their weights so far, and the weights of all values so far.
    with shared_by_towers():
        options = {"trainable": False, "collections": [tf.GraphKeys.LOCAL_VARIABLES], "use_resource": True}
        state = tf.Variable(lambda: tf.zeros([3, len(named)]), name="state", **options)
    values = tf.stack([tf.cast(tensor, tf.float32) for _, tensor in named])
    # What is added up must be finite too, and values of one size add up to this much of it.
    is_finite = tf.abs(values) <= np.finfo(np.float32).max * (1 - decay)
    counted = tf.where(is_finite, values, tf.zeros_like(values))
    news = tf.stack([counted, tf.cast(is_finite, tf.float32), tf.ones_like(values)])
    update = state.assign(state * decay + news, read_value=False, name="update")
    tf.add_to_collection(collection, update)
    names = tuple(name for name, _ in named)
    tf.add_to_collection(MOVING_AVERAGES_KEY, MovingAverages(state.op.name, names, state, update))
    return state


def _after_step(collections: Iterable[str] | None) -> list[str]:
    """Return the collections for a summary of values that steps change, which is read after the step."""
    return [*([tf.GraphKeys.SUMMARIES] if collections is None else collections), STATE_SUMMARIES_KEY]


def _parse_pair(pair: tuple[str, Sequence[str]]) -> tuple[re.Pattern[str], Sequence[str]]:
    try:
        regex, types = pair
        return re.compile(regex), types
    except (TypeError, ValueError, re.error) as error:
        expected = "pairs of a regular expression and a list of summary types"
        raise ConfigError(mismatch("add_param_summary", "summary_lists", pair, expected)) from error


def _collect(summary: tf.Tensor, collections: Iterable[str] | None) -> None:
    tf.add_to_collections([tf.GraphKeys.SUMMARIES] if collections is None else list(collections), summary)


def encode_png(image: np.ndarray) -> bytes:
    """Return the PNG file of one image, made with zlib alone, unfiltered and so larger than a real encoder's.

    Args:
        image: uint8 of shape (height, width, channels) with 1, 3 or 4 channels.

    Raises:
        ConfigError: The dtype or the shape is another one.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] not in _COLOUR_TYPES or not image.size:
        raise ConfigError(mismatch("encode_png", "image", image, "uint8 of shape (H, W, 1, 3 or 4)"))
    height, width, channels = image.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    # Each row begins with the number of its filter; 0 leaves it as it is.
    rows = np.zeros((height, 1 + width * channels), np.uint8)
    rows[:, 1:] = image.reshape(height, -1)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows.tobytes())) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
