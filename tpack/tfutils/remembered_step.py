"""A step that asks for the very objects that an earlier one asked for, and so needs no second look.

Callbacks that want the same thing at each step return one and the same object. Comparing identities is all that is left
to do then; see `tpack.tfutils.step.hooked_session`.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tfutils.step.fetch_plan import FetchPlan

NO_VALUES = tf.train.SessionRunValues(results=None, options=None, run_metadata=None)
"""What a callback is told that asked for nothing, or for operations only."""


class RememberedStep:
    """The plan of a run that may come again, and who is told which of its values.

    The step is known by the ids of its fetches and requests, which it keeps alive.

    Args:
        plan: fetches a list: the run's own fetches, then what each request asks for.
        told: each callback with an ``after_run``, and the position of its request; None for no request.
        fetches: the run's own fetches.
        requests: what the callbacks returned; all `is_constant`.

    Attributes:
        plan: the plan.
        told: what to call after the run, each with the position of its value in what the plan returns; None where
            there is no value.
    """

    def __init__(self, plan: FetchPlan, told: Sequence[Any], fetches: Any, requests: Sequence[Any]) -> None:
        self.plan = plan
        self.told = [(callback.bound("after_run"), _value_position(position, requests)) for callback, position in told]
        self._kept_alive = (fetches, requests)


def is_constant(request: Any) -> bool:
    """Tell whether an object asks for the same each time: the content of a list may change, and so may feeds."""
    if isinstance(request, tf.train.SessionRunArgs):
        is_plain = request.options is None or timeout_alone(request.options) > 0
        return request.feed_dict is None and is_plain and is_constant(request.fetches)
    if isinstance(request, tuple):
        return all(map(is_constant, request))
    return request is None or isinstance(request, (tf.Tensor, tf.Operation))


def timeout_alone(options: Any) -> int:
    """Return the timeout that run options ask for, in milliseconds; 0 if they ask for anything else, or nothing."""
    if options is None or not options.timeout_in_ms:
        return 0
    return int(options.timeout_in_ms) if options == tf.RunOptions(timeout_in_ms=options.timeout_in_ms) else 0


def _value_position(position: int | None, requests: Sequence[Any]) -> int | None:
    request = None if position is None else requests[position]
    wanted = request.fetches if isinstance(request, tf.train.SessionRunArgs) else request
    if position is None or wanted is None or isinstance(wanted, tf.Operation):
        return None
    return position + 1
