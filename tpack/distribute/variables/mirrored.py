"""Variable that is kept equal on several devices, by changing it on all of them."""

from collections.abc import Mapping, Sequence

import tensorflow.compat.v1 as tf

from tpack.compat import BaseVariable, keep_watching
from tpack.distribute.contexts import (
    TowerContext,
    get_cross_tower_context,
    get_tower_context,
    get_update_device,
    has_distribution_strategy,
)
from tpack.distribute.strategy import DistributionStrategy
from tpack.distribute.values import Mirrored, PlainValue, TensorOrSlices, Value, tie_together, update_on_devices
from tpack.distribute.variables.distributed import TO_AGGREGATE, Change, DistributedVariable
from tpack.distribute.write_guard import refuse_partial_change
from tpack.errors import StrategyError, TowerMismatchError
from tpack.tower.keras_values import is_giving_value


class MirroredVariable(DistributedVariable, Mirrored):
    """A variable of locality V(v), a mirror of which is on each device of a strategy.

    The effect of ``assign`` and the other changing methods depends on the context. In a function given to `update` or
    `update_non_slot`, they change the mirror of the update's device. In a cross-tower context, and outside of every
    strategy, they change all mirrors, by `update`. In a tower, the values of all towers are aggregated first, which
    needs an aggregation and every tower to take part; each tower gets the operation of its mirror. Values that a Keras
    layer loads are initial values of all mirrors.

    TensorFlow's own operations on its handle, such as those of ``tf.train.Optimizer`` outside of `apply_gradients`,
    would change one mirror: they are errors where they are made.

    Args:
        index: the mirror on each device.
        aggregation: the ``tf.VariableAggregation`` of towers' assignments: ``SUM``, ``MEAN`` or ``ONLY_FIRST_TOWER``;
            with ``NONE``, towers cannot assign.

    Raises:
        StrategyError: In a tower, it is changed without an aggregation, or by a change that cannot be aggregated; in an
            update, it has no mirror on the device.
        TowerMismatchError: The towers change different variables, or in different ways.

    Source:
        The seed ``distribute``.
    """

    @property
    def handle(self) -> tf.Tensor:
        """The handle of the current mirror, by which only updates may change it."""
        if len(self._index) > 1:
            keep_watching(refuse_partial_change)
        return super().handle

    def _lazy_read(self, operation: tf.Operation) -> BaseVariable:
        """Return the result of functions that change a variable by its handle, as in an update they can."""
        return self.component()._lazy_read(operation)

    def _change(self, method: str, values: tuple[Value, ...], options: Mapping[str, object]) -> Change:
        def change(mirror: BaseVariable, *values: PlainValue) -> Change:
            return getattr(mirror, method)(*values, **options)

        strategy = get_cross_tower_context()
        device = get_update_device()
        if strategy is not None and device is not None:
            # Refused where there is no mirror: all mirrors would be changed, once for each device that is updated.
            return change(self.get(device), *values)
        if strategy is not None:
            return tie_together(strategy.update(self, change, *values))
        if not has_distribution_strategy() or (method == "assign" and is_giving_value()):
            subjects = {device: (mirror,) for device, mirror in self.index.items()}
            return tie_together(update_on_devices(change, subjects, values, {}))
        self._check_aggregation(method)

        def merge(strategy: DistributionStrategy, variable: Value, method: object, values: Sequence[Value]) -> Change:
            if variable is not self or not isinstance(method, str):
                raise TowerMismatchError(f"towers change {variable!r} by {method!r}: expected the same in all towers")
            return strategy.update(self, change, *(self._aggregate(strategy, value) for value in values))

        # Numbers become tensors, so that each tower's counts once.
        brought = (*map(tf.convert_to_tensor, values[:-1]), self._as_tensor(values[-1]))
        return _tower_context().merge_call(merge, self, method, brought)

    def _check_aggregation(self, method: str) -> None:
        """Check that values of all towers can become one that changes every mirror."""
        if self.aggregation == tf.VariableAggregation.NONE:
            raise StrategyError(
                f"a tower calls {method} of {self.op.name}, which is mirrored: make it with an aggregation, such as "
                "tf.VariableAggregation.MEAN, that says what becomes of the towers' values, or wrap the optimizer that "
                "does it in a DistributedOptimizer"
            )
        if method not in TO_AGGREGATE and self.aggregation != tf.VariableAggregation.ONLY_FIRST_TOWER:
            raise StrategyError(
                f"a tower calls {method} of {self.op.name}, whose towers are aggregated by {self.aggregation}: only "
                f"{', '.join(TO_AGGREGATE)} can be, others with tf.VariableAggregation.ONLY_FIRST_TOWER or in "
                "merge_call"
            )

    def _as_tensor(self, value: Value) -> TensorOrSlices:
        return value if isinstance(value, tf.IndexedSlices) else tf.convert_to_tensor(value, self.dtype)

    def _aggregate(self, strategy: DistributionStrategy, value: Value) -> Value:
        if self.aggregation != tf.VariableAggregation.ONLY_FIRST_TOWER:
            return strategy.reduce(self.aggregation, value, self)
        return strategy.broadcast(strategy.unwrap(value)[0], self)

    def _saved_value(self) -> tf.Tensor:
        return self.primary.value()


def _tower_context() -> TowerContext:
    context = get_tower_context()
    if context is None:
        raise StrategyError("expected a tower context, and this is a cross-tower context")
    return context
