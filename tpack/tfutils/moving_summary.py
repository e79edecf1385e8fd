"""Scalars that are written as their moving averages, since one batch's value is too noisy to read.

The average is a weighted mean of all values so far, the newest with the largest weight. Numerator and denominator both
start at zero and are updated alike, so the first average is the first value and early ones are not drawn towards zero.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tfutils.keys import MOVING_SUMMARY_OPS_KEY
from tpack.tfutils.summary_ops import add_scalar_summary, check_scalar
from tpack.tfutils.tower_scope import name_without_tower, shared_by_towers, writes_summaries


def add_moving_summary(*args: Any, collection: str = MOVING_SUMMARY_OPS_KEY, decay: float = 0.95) -> list[Any]:
    """Write moving averages of scalars.

    Outside of towers and in the main training tower; anywhere else it does nothing and returns an empty list. The
    update operation runs every step when the callback MovingAverageSummary is used, which is a default.

    Args:
        *args: scalar tensors, or lists of them.
        collection: the collection that the operation which updates the averages goes to.
        decay: how much of the average stays at each update.

    Returns:
        The averages, one for each scalar; NaN before the first update.

    Creates:
        For each call one float32 resource variable in LOCAL_VARIABLES: averages describe one run, so they are not
        saved. A summary for each scalar in SUMMARIES, called like the tensor without the tower's name scope.

    Raises:
        GraphBuildError: Something is not a scalar tensor of numbers. Of which shape it is must be known.
        ConfigError: The decay is not in [0, 1).
    """
    if not 0 <= decay < 1:
        raise ConfigError(f"wanted a decay in [0, 1), got {decay!r}")
    if not writes_summaries():
        return []
    scalars = [tensor for arg in args for tensor in (arg if isinstance(arg, list | tuple) else [arg])]
    for tensor in scalars:
        check_scalar(tensor)
    return add_named_moving_summary(
        [(name_without_tower(tensor), tensor) for tensor in scalars], collection=collection, decay=decay
    )


def add_named_moving_summary(
    named: Sequence[tuple[str, Any]], *, collection: str = MOVING_SUMMARY_OPS_KEY, decay: float = 0.95
) -> list[Any]:
    """Write moving averages of scalars under names of the caller's choice, whatever the tower.

    Args:
        named: (name, scalar tensor) pairs.
        collection: as for ``add_moving_summary``.
        decay: as for ``add_moving_summary``.

    Returns:
        The averages.
    """
    if not named:
        return []
    with tf.name_scope(None, "MovingSummary"):
        state = _build_state([tensor for _, tensor in named], collection, decay)
        # An average can be read whenever it is, also by a step in which what is around here does not run.
        with tf.control_dependencies(None):
            *numerators, weight = tf.unstack(state.read_value())
            averages = [numerator / weight for numerator in numerators]
            for (name, _), average in zip(named, averages, strict=True):
                add_scalar_summary(name, average)
    return averages


def _build_state(scalars: list[Any], collection: str, decay: float) -> Any:
    """Return one variable for all scalars, with its update: updating a vector costs no more than updating a scalar."""
    # Weighted sums; the last one, of the constant 1, is the weight that the others have gathered so far.
    with shared_by_towers():
        state = tf.Variable(
            lambda: tf.zeros([len(scalars) + 1]),
            trainable=False,
            collections=[tf.GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
            name="state",
        )
    values = tf.stack([*(tf.cast(tensor, tf.float32) for tensor in scalars), 1.0])
    update = state.assign(state * decay + values, read_value=False, name="update")
    tf.add_to_collection(collection, update)
    return state
