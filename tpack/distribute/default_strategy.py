"""The default strategy, which is current outside of all others and changes nothing.

Layers and optimizers can therefore ask for the current tower or strategy anywhere.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import tensorflow.compat.v1 as tf

from tpack.distribute.contexts import (
    ReplicaContext,
    UpdateContext,
    current_strategy,
    require_distribution_strategy_scope,
    strategy_of,
)
from tpack.distribute.multi_step import MultiStepContext, run_steps
from tpack.distribute.strategy import DatasetFn, DistributionStrategy, StepFn
from tpack.distribute.values import (
    Aggregation,
    Destinations,
    DistributedValues,
    Structure,
    Value,
    Variable,
    update_on_devices,
)
from tpack.errors import StrategyError
from tpack.tower.context import current_frame


class DefaultStrategy(DistributionStrategy):
    """Strategy that changes nothing; its one instance is `DEFAULT_STRATEGY`, with one tower context.

    Values that another strategy made for several devices stay whole: they are updated on all of them.
    """

    is_default = True

    @contextmanager
    def scope(self) -> Iterator[DistributionStrategy]:
        """Enter the default strategy's cross-tower context; raise a `StrategyError` in another strategy."""
        frame = current_frame()
        current = strategy_of(frame)
        if frame.tower is not None or (current is not None and current is not self):
            raise StrategyError(
                f"scope got {current or frame.tower!r} as the current strategy: expected none, as scopes do not nest"
            )
        with current_strategy(self, lambda next_creator, **kwargs: next_creator(**kwargs)):
            yield self

    def read_var(self, v: Variable) -> tf.Tensor:
        """Return the value of a variable, on the current device."""
        return tf.identity(v)

    @contextmanager
    def colocate_vars_with(self, colocate_with_variable: Destinations) -> Iterator[None]:
        """Make variables in a block on the device of another one; raise a `StrategyError` in another strategy."""
        require_distribution_strategy_scope(self)
        with tf.colocate_with(colocate_with_variable):
            yield

    def _distribute_dataset(self, dataset_fn: DatasetFn) -> tf.compat.v2.data.Dataset:
        return self._call_dataset_fn(dataset_fn)

    def _broadcast(self, tensor: Value, destinations: Destinations | None) -> Value:
        if destinations is not None:
            raise StrategyError(f"the default strategy has no devices to broadcast to, got {destinations!r}")
        return tensor

    def _run_steps_on_dataset(
        self, fn: StepFn, iterator: Any, iterations: int, initial_loop_values: Mapping[str, Structure]
    ) -> MultiStepContext:
        return run_steps(self, fn, iterator, iterations, initial_loop_values)

    def _call_for_each_tower(self, fn: Callable[..., Structure], *args: Structure, **kwargs: Structure) -> Structure:
        with DEFAULT_TOWER_CONTEXT:
            return fn(*args, **kwargs)

    def _reduce(self, aggregation: Aggregation, value: Value, destinations: Destinations | None) -> Value:
        return value

    def _update(self, var: Variable, fn: Callable[..., Structure], *args: Structure, **kwargs: Structure) -> Structure:
        if isinstance(var, DistributedValues):
            return update_on_devices(fn, {device: (part,) for device, part in var.index.items()}, args, kwargs)
        with tf.colocate_with(var), UpdateContext(var.device):
            return fn(var, *args, **kwargs)

    def _update_non_slot(
        self, colocate_with: Any, fn: Callable[..., Structure], *args: Structure, **kwargs: Structure
    ) -> Structure:
        if isinstance(colocate_with, DistributedValues):
            return update_on_devices(fn, {device: () for device in colocate_with.devices}, args, kwargs)
        with tf.colocate_with(colocate_with), UpdateContext(colocate_with.device):
            return fn(*args, **kwargs)

    @property
    def num_towers(self) -> int:
        """One."""
        return 1

    @property
    def worker_devices(self) -> list[str]:
        """Refused with a `StrategyError`: the tower is wherever its code is placed."""
        raise _has_no("worker_devices")

    @property
    def parameter_devices(self) -> list[str]:
        """Refused with a `StrategyError`: variables are wherever their code is placed."""
        raise _has_no("parameter_devices")

    def non_slot_devices(self, var_list: Sequence[Variable]) -> Variable:
        """Return the variable with the first name, so that it is the same one in every build."""
        return min(var_list, key=lambda variable: variable.name)

    def _worker_device_index(self) -> NoReturn:
        raise _has_no("worker_device_index")


def _has_no(name: str) -> StrategyError:
    return StrategyError(f"{name} is unsupported by the default strategy, which has no list of devices")


DEFAULT_STRATEGY = DefaultStrategy()
"""The strategy that is current outside of all others."""

DEFAULT_TOWER_CONTEXT = ReplicaContext(DEFAULT_STRATEGY, tower_id=0)
"""The tower context outside of all strategies and towers."""
