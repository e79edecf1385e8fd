"""Towers of a strategy, and the tower context of any towers that call merge_call.

They are towers of `tpack.tower`. Those of a strategy share its variables, and each updates its own part of them.

TensorFlow's optimizers, ``init_from_checkpoint``, metrics and moving averages ask TensorFlow for the current strategy
and tower, and use its ``merge_call``. While a tower is built they get the shims here, so that model code without
strategies trains in towers unchanged, and nothing of TensorFlow is replaced. Across towers and everywhere else they get
TensorFlow's default strategy.
"""

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, NamedTuple, cast

import tensorflow.compat.v1 as tf

from tpack.compat.graphs import (
    current_control_dependencies,
    current_device,
    optimizer_that_applies,
    shown_strategy,
    watch_operations,
)
from tpack.distribute.contexts import ReplicaContext, across_towers, require_tower_context, show_tower, tower_context_of
from tpack.distribute.values import Destinations, Structure, Value, Variable, regroup, select_device, tie_together
from tpack.distribute.write_guard import refuse_lone_change
from tpack.errors import StrategyError
from tpack.graph_copy.towers import TowerBuilding, call_in_replicated_towers, replicate_by_copy
from tpack.tfutils.scope_utils import whole_variable
from tpack.tower.context import TrainTowerContext, current_frame, current_tower_context
from tpack.tower.devices import Device, device_key, list_gpus, resolve_device
from tpack.tower.names import join_scope, tower_name
from tpack.tower.ownership import MirrorOwnership
from tpack.types import Strategy
from tpack.utils.validation import mismatch

_SAME_METHODS = {"colocate_vars_with", "group", "non_slot_devices", "read_var"}
"""The methods that strategies of TensorFlow and of tpack share."""


class Arrival(NamedTuple):
    """A tower at merge_call: its device, an operation that its part runs after, or None, and its name scope."""

    device: str
    gate: tf.Operation | None
    name_scope: str


class MergeCallContext(ReplicaContext):
    """One tower of several, which wait in `merge_call` for all of them.

    Args:
        distribution_strategy: the strategy.
        tower_id: the number of the tower, from 0.
        arrivals: one dict for all towers, by their numbers, which each fills in `merge_call`.
        device: the device of the tower; None for the current one.
        variable_scope: the scope of merged functions, in the first tower's name scope; None for the root of both.

    Source:
        The mirrored strategy of the seed ``distribute``.
    """

    def __init__(
        self,
        distribution_strategy: Strategy,
        tower_id: int,
        arrivals: dict[int, Arrival],
        *,
        device: str | None = None,
        variable_scope: tf.VariableScope | None = None,
    ) -> None:
        super().__init__(distribution_strategy, tower_id)
        self._arrivals = arrivals
        self._device = device
        self._variable_scope = variable_scope

    @property
    def device(self) -> str:
        """The device of this tower, as a string; without a device scope, TensorFlow's default."""
        require_tower_context(self)
        if self._device is not None:
            return self._device
        return device_key(current_device() or (list_gpus() or [resolve_device(-1)])[0])

    def _merge_call(self, merge_fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        # Towers are compared by the function that they call, so the wrapper must not hide it.
        @functools.wraps(merge_fn)
        def merge(*values: list[Any]) -> list[Any]:
            return self._merge(merge_fn, values, has_kwargs=bool(kwargs))

        self._arrivals[self._tower_id] = Arrival(self.device, _gate(), tf.get_default_graph().get_name_scope())
        return current_tower_context().merge_call(merge, *args, *([kwargs] if kwargs else []))

    def _merge(self, merge_fn: Callable[..., Any], values: tuple[list[Any], ...], *, has_kwargs: bool) -> list[Any]:
        """Call the function with the values of all towers; return a list of each tower's part."""
        arrivals = [self._arrivals[index] for index in sorted(self._arrivals)]
        devices = [arrival.device for arrival in arrivals]
        if len(set(devices)) < len(devices) or not all(devices):
            raise StrategyError(f"merge_call got towers on {devices}: expected different devices")
        args = [regroup(dict(zip(devices, each, strict=True))) for each in values]
        kwargs = args.pop() if has_kwargs else {}
        gates = [arrival.gate for arrival in arrivals if arrival.gate is not None]
        with ExitStack() as blocks:
            blocks.enter_context(across_towers(self._distribution_strategy))
            if self._variable_scope is not None:
                blocks.enter_context(_scopes_of_meeting(self._variable_scope, arrivals[0].name_scope))
            if gates:
                blocks.enter_context(tf.control_dependencies([tf.group(*gates, name="towers_met")]))
            merged = merge_fn(self._distribution_strategy, *args, **kwargs)
        return [select_device(device, merged) for device in devices]


@contextmanager
def _scopes_of_meeting(variable_scope: tf.VariableScope, name_scope: str) -> Iterator[None]:
    # A function finds the variables that it made in these scopes in an earlier merge_call.
    reuse = variable_scope.reuse or tf.AUTO_REUSE
    with ExitStack() as scopes:
        scopes.enter_context(tf.variable_scope(variable_scope, reuse=reuse, auxiliary_name_scope=False))
        scopes.enter_context(tf.name_scope(f"{name_scope}/" if name_scope else None))
        yield


def _gate() -> tf.Operation | None:
    """Return one operation for the control dependencies of the tower's part, or None."""
    return tf.no_op(name="tower_meets") if current_control_dependencies() else None


class StrategyTower(TrainTowerContext):
    """One of K towers of a strategy; ``main`` is the first one, for the others.

    The first tower makes the variables, each on all devices, and the others share them. Names of the first tower have
    no prefix. Update operations of every tower are kept, since each updates its own part of a variable.

    Source:
        The mirrored strategy of the seed ``distribute``.
    """

    def __init__(self, index: int, total: int, device: Device, main: "StrategyTower | None" = None) -> None:
        name = join_scope(tf.get_default_graph().get_name_scope(), tower_name(index)) if index > 0 else ""
        super().__init__(
            name,
            index=index,
            total=total,
            device=device,
            has_own_variables=False,
            reuse=main is not None,
            ownership=None if main is None else MirrorOwnership(main.recorder),
        )


def call_in_strategy_towers(
    strategy: Strategy,
    devices: Sequence[str],
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    tower_building: TowerBuilding = "auto",
) -> Any:
    """Call a function in each tower of a strategy; return the `regroup` of the K results.

    Args:
        strategy: the strategy, whose cross-tower context is current.
        devices: the devices of the K towers.
        fn: builds one tower.
        args: its arguments; each tower gets its part of values of several devices.
        kwargs: more of them.
        tower_building: see `call_in_replicated_towers`.

    Raises:
        StrategyError: A value of several devices has none for a tower, or a tower changes a variable alone, as
            optimizers do.
        TowerMismatchError: The towers differ in their merge_calls, variables or results.
    """
    main = StrategyTower(0, len(devices), devices[0])
    others = [StrategyTower(k, len(devices), device, main) for k, device in enumerate(devices[1:], start=1)]
    arrivals: dict[int, Arrival] = {}
    scope = tf.get_variable_scope()
    for tower, device in zip((main, *others), devices, strict=True):
        show_tower(tower, MergeCallContext(strategy, tower.index, arrivals, device=device, variable_scope=scope))

    def call(own_args: Sequence[Any], own_kwargs: Mapping[str, Any]) -> Any:
        with watch_operations(refuse_lone_change) if len(devices) > 1 else nullcontext():
            return fn(*own_args, **own_kwargs)

    def build() -> Any:
        device = devices[current_tower_context().index]
        return replicate_by_copy(call, *select_device(device, (tuple(args), dict(kwargs))))

    results = call_in_replicated_towers([main, *others], build, tower_building)
    return regroup(dict(zip(devices, results, strict=True)))


def seen_by_tensorflow(fn: Callable[..., Structure]) -> Callable[..., Structure]:
    """Return a function that builds a tower, with the strategy visible to TensorFlow."""

    @functools.wraps(fn)
    def build(*args: Structure, **kwargs: Structure) -> Structure:
        seen = TFReplicaShim(cast(ReplicaContext, tower_context_of(current_frame())))
        with shown_strategy(seen.strategy, seen):
            return fn(*args, **kwargs)

    return build


class TFReplicaShim:
    """A tower of a strategy, for TensorFlow's functions."""

    def __init__(self, context: ReplicaContext) -> None:
        self._context = context
        self.strategy = TFStrategyShim(context.distribution_strategy)

    def merge_call(
        self,
        merge_fn: Callable[..., Any],
        args: Sequence[Structure] = (),
        kwargs: Mapping[str, Structure] | None = None,
    ) -> Structure:
        """Call a function with the strategy for TensorFlow and the towers' values; see `ReplicaContext.merge_call`.

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
