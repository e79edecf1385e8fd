"""Summaries of what tensors and parameters look like: their distribution, size and sparsity."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tfutils.summary_ops import add_histogram_summary, add_scalar_summary
from tpack.tfutils.tower_scope import name_without_tower, variable_name_without_tower, writes_summaries
from tpack.utils import logger


def rms(x: Any) -> Any:
    """Return the root of the mean square of all elements of a tensor."""
    return tf.sqrt(tf.reduce_mean(tf.square(x)))


_REDUCTIONS: dict[str, Callable[[Any], Any]] = {"sparsity": tf.nn.zero_fraction, "mean": tf.reduce_mean, "rms": rms}
_TYPES = ("scalar", "histogram", *_REDUCTIONS)


def add_tensor_summary(
    x: Any,
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
        name: by default what the tensor is called, without the tower's name scope.
        collections: where the summaries go, by default SUMMARIES.
        main_tower_only: do nothing in any tower but the main training tower.

    Raises:
        ConfigError: A type is unknown.
        GraphBuildError: The type is ``"scalar"`` and ``x`` is none.
    """
    unknown = set(types) - set(_TYPES)
    if isinstance(types, str) or unknown:
        raise ConfigError(f"wanted a list of summary types out of {', '.join(_TYPES)}, got {types!r}")
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
                add_scalar_summary(f"{tag}-{kind}", _REDUCTIONS[kind](_as_floating(x)), collections)


def add_activation_summary(
    x: Any, types: Sequence[str] | None = None, name: str | None = None, collections: Iterable[str] | None = None
) -> None:
    """Write summaries of a layer's output, under ``activation-summary/``.

    Args:
        x: a tensor with at least two dimensions; for another one a warning is logged and nothing is written.
        types: as for ``add_tensor_summary``; by default sparsity, rms and histogram.
        name: by default what the tensor is called, without the tower's name scope.
        collections: where the summaries go, by default SUMMARIES.

    Raises:
        ConfigError: A type is unknown.
    """
    if not writes_summaries():
        return
    tag = name_without_tower(x) if name is None else name
    if x.shape.rank is not None and x.shape.rank < 2:
        logger.warning(f"{tag} of shape {x.shape} is no layer's output: wanted two dimensions or more, so no summary")
        return
    wanted = ("sparsity", "rms", "histogram") if types is None else types
    add_tensor_summary(x, wanted, name=f"activation-summary/{tag}", collections=collections)


def add_param_summary(*summary_lists: tuple[str, Sequence[str]], collections: Iterable[str] | None = None) -> None:
    """Write summaries of trainable variables, under ``param-summary/``.

    Args:
        *summary_lists: pairs of a regular expression, which must match a variable's whole name, and the types of
            summaries for these variables, as for ``add_tensor_summary``.
        collections: where the summaries go, by default SUMMARIES.

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
                add_tensor_summary(variable, types, name=f"param-summary/{name}", collections=collections)


def _parse_pair(pair: Any) -> tuple[re.Pattern[str], Sequence[str]]:
    try:
        regex, types = pair
        return re.compile(regex), types
    except (TypeError, ValueError, re.error) as error:
        raise ConfigError(f"wanted a pair of a regular expression and a list of summary types, got {pair!r}") from error


def _as_floating(x: Any) -> Any:
    tensor = tf.convert_to_tensor(x)
    return tensor if tensor.dtype.is_floating else tf.cast(tensor, tf.float32)
