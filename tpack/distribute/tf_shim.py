"""Shim for TensorFlow's own functions in the towers of a strategy.

TensorFlow's optimizers, ``init_from_checkpoint``, metrics and moving averages ask TensorFlow for the current strategy
and tower, and use its ``merge_call``. While a tower is built they get the objects here, so that model code without
strategies trains in towers unchanged, and nothing of TensorFlow is replaced. Across towers and everywhere else they get
TensorFlow's default strategy.
"""

import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import tensorflow.compat.v1 as tf

from tpack.compat import optimizer_that_applies, shown_strategy
from tpack.distribute.contexts import TowerContext, tower_context_of
from tpack.distribute.values import Destinations, Structure, Value, Variable, tie_together
from tpack.errors import StrategyError
from tpack.tfutils.scope_utils import whole_variable
from tpack.tower.context import current_frame
from tpack.utils.validation import mismatch

_SAME_METHODS = {"colocate_vars_with", "group", "non_slot_devices", "read_var"}
"""The methods that strategies of TensorFlow and of tpack share."""


def seen_by_tensorflow(fn: Callable[..., Structure]) -> Callable[..., Structure]:
    """Return a function that builds a tower, with the strategy visible to TensorFlow."""

    @functools.wraps(fn)
    def build(*args: Structure, **kwargs: Structure) -> Structure:
        seen = TFReplicaShim(cast(TowerContext, tower_context_of(current_frame())))
        with shown_strategy(seen.strategy, seen):
            return fn(*args, **kwargs)

    return build


class TFReplicaShim:
    """A tower of a strategy, for TensorFlow's functions."""

    def __init__(self, context: TowerContext) -> None:
        self._context = context
        self.strategy = TFStrategyShim(context.distribution_strategy)

    def merge_call(
        self,
        merge_fn: Callable[..., Any],
        args: Sequence[Structure] = (),
        kwargs: Mapping[str, Structure] | None = None,
    ) -> Structure:
        """Call a function with the strategy for TensorFlow and the values of all towers; see `TowerContext.merge_call`.

        Optimizers that apply gradients use the strategy's `apply_gradients`.
        """
        strategy = self._context.distribution_strategy
        optimizer = optimizer_that_applies(merge_fn)
        if optimizer is not None:
            return strategy.apply_gradients(optimizer, *args, **(kwargs or {}))

        # Towers are compared by the function that they call, so the wrapper must not hide it.
        @functools.wraps(merge_fn)
        def merge(_: object, *values: Structure, **more: Structure) -> Structure:
            with shown_strategy(self.strategy):
                return merge_fn(self.strategy, *values, **more)

        return self._context.merge_call(merge, *args, **(kwargs or {}))

    def all_reduce(self, reduce_op: Any, value: Structure, options: object = None) -> Structure:
        """Sum or average a structure of all towers, as for synchronised statistics; ``options`` are ignored."""

        def merge(strategy: Any, values: list[Value]) -> list[Value]:
            return list(strategy.batch_reduce(_aggregation(reduce_op), [(each, None) for each in values]))

        return tf.nest.pack_sequence_as(value, self._context.merge_call(merge, tf.nest.flatten(value)))

    @property
    def num_replicas_in_sync(self) -> int:
        """See `TFStrategyShim`."""
        return self.strategy.num_replicas_in_sync

    @property
    def replica_id_in_sync_group(self) -> int:
        """The number of this tower."""
        number = self._context.number
        # Summaries ask for the first tower; any other caller may make towers differ.
        if not sys._getframe(1).f_globals.get("__name__", "").endswith(".summary_op_util"):
            number = self._context.tower_id
        return number

    _replica_id = replica_id_in_sync_group


class TFStrategyShim:
    """The part of a strategy that TensorFlow's functions use.

    Attributes:
        num_replicas_in_sync: the divisor of losses for the sum of their gradients to be a mean: one, since tpack's
            strategies average gradients themselves.
    """

    num_replicas_in_sync = 1
    _scale_loss_for_estimator = False
    # A ``tf.function`` is built for each tower, since each reads its own components of variables.
    _retrace_functions_for_each_device = True

    def __init__(self, strategy: Any) -> None:
        self._strategy = strategy

    @property
    def extended(self) -> "TFStrategyShim":
        """This object: TensorFlow splits a strategy into two objects."""
        return self

    def reduce_to(self, reduce_op: Any, value: Value, destinations: Destinations) -> Value:
        """Sum or average a value over the towers."""
        return self._strategy.reduce(_aggregation(reduce_op), value, destinations)

    def batch_reduce_to(
        self, reduce_op: Any, value_destination_pairs: Iterable[tuple[Value, Destinations]]
    ) -> list[Value]:
        """Sum or average several values over the towers."""
        return list(self._strategy.batch_reduce(_aggregation(reduce_op), value_destination_pairs))

    def broadcast_to(self, tensor: Value, destinations: Destinations) -> Value:
        """Copy a tensor to several devices."""
        return self._strategy.broadcast(tensor, destinations)

    def update(
        self,
        var: Variable,
        fn: Callable[..., Structure],
        args: Sequence[Structure] = (),
        kwargs: Mapping[str, Structure] | None = None,
        group: bool = True,
    ) -> Structure:
        """Call a function on each device of a variable."""
        return self._grouped(self._strategy.update(var, fn, *args, **(kwargs or {})), group)

    def update_non_slot(
        self,
        colocate_with: Destinations,
        fn: Callable[..., Structure],
        args: Sequence[Structure] = (),
        kwargs: Mapping[str, Structure] | None = None,
        group: bool = True,
    ) -> Structure:
        """Call a function on each device of non-slot variables."""
        return self._grouped(self._strategy.update_non_slot(colocate_with, fn, *args, **(kwargs or {})), group)

    def _grouped(self, updated: Structure, group: bool) -> Structure:
        return tie_together(updated) if group else self._strategy.unwrap(updated)

    def value_container(self, value: Any) -> Any:
        """Return the variable of a component, or else the value."""
        return whole_variable(value)

    def experimental_local_results(self, value: Value) -> tuple[Any, ...]:
        """Return the values of all devices."""
        return tuple(self._strategy.unwrap(value))

    def __getattr__(self, name: str) -> Any:
        if name in _SAME_METHODS:
            return getattr(self._strategy, name)
        raise AttributeError(f"TensorFlow asks for {name!r} of {self!r}, and tpack's strategies have no such thing")

    def __repr__(self) -> str:
        return repr(self._strategy)


def _aggregation(reduce_op: Any) -> tf.VariableAggregation:
    name = str(getattr(reduce_op, "name", reduce_op)).upper()
    if name not in ("SUM", "MEAN"):
        raise StrategyError(mismatch("a tower", "reduce_op", reduce_op, "tf.distribute.ReduceOp.SUM or MEAN"))
    return tf.VariableAggregation[name]
