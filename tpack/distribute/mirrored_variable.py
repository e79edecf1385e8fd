"""A variable that is kept the same on several devices, by making every change to it on all of them."""

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.context import get_cross_tower_context, get_tower_context, has_distribution_strategy
from tpack.distribute.tower_context import TowerContext
from tpack.distribute.update_context import get_update_device
from tpack.distribute.update_on_devices import update_on_devices
from tpack.distribute.values import Mirrored
from tpack.distribute.variables import DistributedVariable
from tpack.errors import StrategyError, TowerMismatchError


class MirroredVariable(DistributedVariable, Mirrored):
    """A variable of locality V(v), a mirror of which is on each device of a strategy.

    What ``assign``, ``assign_add`` and ``assign_sub`` do depends on where they are called. In a function given to
    `update` or `update_non_slot`, they change the mirror of the update's device. In a cross-tower context, and outside
    of every strategy, they change all mirrors, by `update`. In a tower, what all towers assign is aggregated first,
    which needs an aggregation and every tower to take part; each tower gets the operation of its mirror.

    Args:
        index: the mirror on each device.
        aggregation: how what the towers assign is aggregated: ``tf.VariableAggregation.SUM``, ``MEAN`` or
            ``ONLY_FIRST_TOWER``; with ``NONE``, towers cannot assign.

    Raises:
        StrategyError: In a tower, it is changed and has no aggregation.
        TowerMismatchError: The towers change different variables, or in different ways.

    Source:
        The class of the same name that belongs to the seed ``distribute``.
    """

    def assign(self, value: Any, **options: Any) -> Any:
        """Assign a value; the options are those of ``tf.Variable.assign``."""
        return self._change("assign", value, options)

    def assign_add(self, delta: Any, **options: Any) -> Any:
        """Add a value; the options are those of ``tf.Variable.assign_add``."""
        return self._change("assign_add", delta, options)

    def assign_sub(self, delta: Any, **options: Any) -> Any:
        """Subtract a value; the options are those of ``tf.Variable.assign_sub``."""
        return self._change("assign_sub", delta, options)

    def scatter_add(self, sparse_delta: Any, **options: Any) -> Any:
        """Add ``IndexedSlices``; the options are those of ``tf.Variable.scatter_add``."""
        return self._change("scatter_add", sparse_delta, options)

    def scatter_sub(self, sparse_delta: Any, **options: Any) -> Any:
        """Subtract ``IndexedSlices``; the options are those of ``tf.Variable.scatter_sub``."""
        return self._change("scatter_sub", sparse_delta, options)

    def _change(self, method: str, value: Any, options: dict[str, Any]) -> Any:
        def change(mirror: Any, value: Any) -> Any:
            return getattr(mirror, method)(value, **options)

        strategy = get_cross_tower_context()
        device = get_update_device()
        if strategy is not None and device is not None and self.on_device(device):
            return change(self.get(device), value)
        if strategy is not None:
            return _together(strategy.update(self, change, value))
        if not has_distribution_strategy():
            return self._on_all_devices(change, value)
        if self.aggregation == tf.VariableAggregation.NONE:
            raise StrategyError(
                f"a tower calls {method} of {self.op.name}, which is mirrored: make it with an aggregation, such as "
                "tf.VariableAggregation.MEAN, that says what becomes of the towers' values"
            )

        def merge(strategy: Any, variable: Any, method: Any, value: Any) -> Any:
            if variable is not self or not isinstance(method, str):
                raise TowerMismatchError(f"towers change {variable!r} by {method!r}: wanted the same in all towers")
            return strategy.update(self, change, self._aggregate(strategy, value))

        # Numbers become tensors, so that each tower's counts once.
        brought = value if isinstance(value, tf.IndexedSlices) else tf.convert_to_tensor(value, self.dtype)
        return _tower_context().merge_call(merge, self, method, brought)

    def _aggregate(self, strategy: Any, value: Any) -> Any:
        if self.aggregation != tf.VariableAggregation.ONLY_FIRST_TOWER:
            return strategy.reduce(self.aggregation, value, self)
        return strategy.broadcast(strategy.unwrap(value)[0], self)

    def _on_all_devices(self, change: Callable[..., Any], value: Any) -> Any:
        subjects = {device: (mirror,) for device, mirror in self.index.items()}
        return _together(update_on_devices(change, subjects, (value,), {}))

    def _saved_value(self) -> Any:
        return self.primary.value()


def _together(changed: Any) -> Any:
    """Let each part of a value come after the changes on all devices, so that whoever runs one part runs them all."""
    if not isinstance(changed, Mirrored):
        return changed
    tied = {}
    with tf.control_dependencies([getattr(part, "op", part) for part in changed.index.values()]):
        for device, part in changed.index.items():
            with tf.device(device):
                tied[device] = tf.no_op() if isinstance(part, tf.Operation) else tf.identity(part)
    return Mirrored(tied)


def _tower_context() -> TowerContext:
    context = get_tower_context()
    if context is None:
        raise StrategyError("wanted a tower context, and this is a cross-tower context")
    return context
