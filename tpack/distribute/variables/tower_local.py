"""Variable with a value of each tower, such as a count of examples, of which only all together are a result."""

from collections.abc import Mapping

import tensorflow.compat.v1 as tf

from tpack.compat import BaseVariable
from tpack.distribute.values import PerDevice, Value
from tpack.distribute.variables.distributed import Change, DistributedVariable, TensorOrArray, assign_to_components
from tpack.errors import ConfigError, StrategyError
from tpack.reduction.sums import on_device
from tpack.tower.context import current_frame

_SUM, _MEAN = tf.VariableAggregation.SUM, tf.VariableAggregation.MEAN


class TowerLocalVariable(DistributedVariable, PerDevice):
    """A variable whose components differ between towers, and are aggregated when it is read across towers or saved.

    A tower reads and changes its own component. Across towers, and outside of every strategy, its value is the sum or
    the mean of the components, or the first tower's; assigning it, as restoring does, gives the components parts of the
    same value.

    Args:
        index: the component of each device.
        aggregation: ``tf.VariableAggregation.SUM``, ``MEAN`` or ``ONLY_FIRST_TOWER``; ``NONE`` for use in towers only.

    Raises:
        ConfigError: It is not numeric, and is to be summed or averaged.
        StrategyError: It is read across towers without an aggregation, or changed there by another method than
            ``assign``.

    Source:
        The seed ``distribute``.
    """

    differs_between_towers = True

    def __init__(self, index: Mapping[str, BaseVariable], aggregation: tf.VariableAggregation) -> None:
        super().__init__(index, aggregation)
        if aggregation in (_SUM, _MEAN) and not (
            self.dtype.is_floating or self.dtype.is_integer or self.dtype.is_complex
        ):
            raise ConfigError(
                f"{self.op.name} is local to towers and of {self.dtype.name}, which has no sum or mean: make it with "
                "tf.VariableAggregation.ONLY_FIRST_TOWER"
            )
        self._aggregate: tf.Tensor | None = None
        if aggregation != tf.VariableAggregation.NONE:
            with tf.init_scope(), on_device(self.primary.device), tf.name_scope(f"{self.op.name}/across_towers/"):
                self._aggregate = tf.identity(self._get_cross_tower())

    def _change(self, method: str, values: tuple[Value, ...], options: Mapping[str, object]) -> Change:
        """Change this tower's component; across towers, only a value of all together can be assigned."""
        key = self._key_in_tower()
        if key is not None:
            return getattr(self._index[key], method)(*values, **options)
        if method == "assign":
            return assign_to_components(self, *values)
        raise StrategyError(
            f"{method} of {self.op.name}, which is local to towers, may only be called in a tower context"
        )

    def _lazy_read(self, operation: tf.Operation) -> BaseVariable:
        """Return the result of functions that change it by its handle, as ``tf.scatter_add``, in towers only."""
        if self._key_in_tower() is None:
            raise StrategyError(
                f"{operation.type} of {self.op.name}, which is local to towers, may only be called in a tower context"
            )
        return self.component()._lazy_read(operation)

    def split_value(self, value: TensorOrArray) -> list[TensorOrArray]:
        """Return the value of each component for a tensor or array to be the variable's value across towers."""
        others = len(self._index) - 1
        if self.aggregation != _SUM or others == 0:
            return super().split_value(value)
        share = value / (others + 1) if self.dtype.is_floating or self.dtype.is_complex else value // (others + 1)
        share = _cast(share, value)
        # What dividing leaves over goes to the first, so that the sum is what it was.
        return [value - share * others, *([share] * others)]

    def _key_in_tower(self) -> str | None:
        return None if current_frame().strategy is not None else self._key_here()

    def _get_cross_tower(self) -> tf.Tensor:
        values = [component.value() for component in self.components]
        if self.aggregation == tf.VariableAggregation.ONLY_FIRST_TOWER:
            return values[0]
        if self.aggregation == _SUM:
            return tf.add_n(values)
        if self.aggregation == _MEAN:
            total = tf.add_n(values)
            return tf.cast(total / len(values), total.dtype)
        raise StrategyError(
            f"{self.op.name} is local to towers and has no aggregation: its value across towers is unknown"
        )

    def _as_graph_element(self) -> tf.Tensor:
        """Return this tower's component for sessions, otherwise the aggregate."""
        if self._key_in_tower() is not None:
            return super()._as_graph_element()
        return self._get_cross_tower() if self._aggregate is None else self._aggregate

    def _saved_value(self) -> tf.Tensor:
        return self._get_cross_tower()


def _cast(share: TensorOrArray, value: TensorOrArray) -> TensorOrArray:
    return tf.cast(share, value.dtype) if tf.is_tensor(value) else share.astype(value.dtype)
