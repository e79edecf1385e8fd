"""Moving averages of mirrored variables, which start from the variables' values and can be updated in towers."""

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.current import get_distribution_strategy, get_tower_context, has_distribution_strategy
from tpack.distribute.variables.mirrored import MirroredVariable
from tpack.errors import ConfigError


class DistributedMovingAverage(tf.train.ExponentialMovingAverage):
    """Do for mirrored variables what ``tf.train.ExponentialMovingAverage`` does for plain ones.

    TensorFlow's own takes them for tensors, whose averages start from zero, and cannot be applied in a strategy's
    towers. Under a strategy the averages are mirrored too. Everything else is as in TensorFlow, and so is all of it for
    plain variables. In a trainer, use the callback `EMA` instead.

    Args:
        decay: how much of the average stays at each update.
        num_updates: a count of updates by which the decay is smaller at the beginning, or None.
        name: what the averages are called: ``<variable>/<name>``.

    Creates:
        A global variable for each variable that is averaged; none of them is trained.

    Example:
        average = DistributedMovingAverage(0.999)
        with tf.control_dependencies([train_op]):
            update = average.apply(tf.trainable_variables())
        saver = tf.train.Saver(average.variables_to_restore())

    Source:
        TensorFlow's class, for the variables of the seed ``distribute``.
    """

    def __init__(self, decay: Any, num_updates: Any = None, *, name: str = "ExponentialMovingAverage") -> None:
        super().__init__(decay, num_updates=num_updates, name=name)

    def apply(self, var_list: Iterable[Any] | None = None) -> Any:
        """Return the operation that updates the averages, which are made when they are first asked for.

        Args:
            var_list: the variables; by default the trainable ones. Outside of towers, tensors as well.

        Returns:
            The operation, the same one in all towers; where each made an object of its own, the first one's is
            updated.

        Shapes:
            The averages have those of the variables.

        Raises:
            ConfigError: In a strategy's tower, something else than a variable is to be averaged.

        Source:
            The method of TensorFlow's class.
        """
        averaged = list(tf.trainable_variables() if var_list is None else var_list)
        context = get_tower_context()
        if context is None or not has_distribution_strategy():
            return self._apply(averaged)
        tensors = [value for value in averaged if tf.is_tensor(value) and not hasattr(value, "initializer")]
        if tensors:
            raise ConfigError(f"wanted variables to average in a tower, got {tensors!r}")
        return context.merge_call(lambda strategy, merged: self._apply(merged), averaged)

    def _apply(self, averaged: Sequence[Any]) -> Any:
        for variable in averaged:
            if isinstance(variable, MirroredVariable) and variable.ref() not in self._averages:
                self._averages[variable.ref()] = self._make_average(variable)
                tf.add_to_collection(tf.GraphKeys.MOVING_AVERAGE_VARIABLES, variable)
        return super().apply(averaged)

    def _make_average(self, variable: MirroredVariable) -> Any:
        beside = get_distribution_strategy().colocate_vars_with(variable)
        # The names are those that TensorFlow gives.
        with tf.init_scope(), tf.variable_scope(None, f"{variable.op.name}/{self.name}"), beside:
            return tf.get_variable("", initializer=variable.initialized_value(), trainable=False, use_resource=True)
