"""Optimizer, counter and moving averages for training code in the towers of a strategy.

Each works like TensorFlow's own outside of strategies. In a tower it waits for the other towers, and updates each
device of a variable once with the requests of all of them.
"""

from collections.abc import Iterable, Sequence

import tensorflow.compat.v1 as tf

from tpack.compat.graphs import BaseVariable
from tpack.distribute.contexts import get_distribution_strategy, get_tower_context, has_distribution_strategy
from tpack.distribute.strategy import DistributionStrategy, is_updating
from tpack.distribute.values import PlainValue, Value, Variable
from tpack.distribute.variables.replicated import MirroredVariable
from tpack.errors import ConfigError, StrategyError, WrongTypeError
from tpack.tfutils.optimizer import ProxyOptimizer
from tpack.tfutils.scope_utils import whole_variable
from tpack.utils.validation import check_arguments, shown


@check_arguments
class DistributedOptimizer(ProxyOptimizer):
    """Optimizer whose ``apply_gradients`` and ``minimize`` reduce gradients over towers and update every mirror.

    A TensorFlow optimizer does so in a tower. This one does it across towers too, and around optimizers that wrap
    others, which then get reduced gradients; otherwise the innermost optimizer would reduce. Outside of all strategies
    it acts as the inner optimizer. Each tower makes its own, and that of the first tower does the work.
    ``compute_gradients`` returns gradients of the tower alone. Where a strategy applies reduced gradients, it acts as
    the inner optimizer, so it can be wrapped or be given to `StrategyTrainer`.

    Raises:
        GraphBuildError: It is something else.

    Example:
        def tower_fn(x, y):
            clipped = apply_grad_processors(tf.train.AdamOptimizer(), [GlobalNormClip(1.0)])
            optimizer = DistributedOptimizer(clipped)
            return optimizer.minimize(loss(x, y))

        train_op = strategy.group(strategy.call_for_each_tower(tower_fn, *iterator.get_next()))

    Source:
        What optimizers of TensorFlow 1 did in towers.
    """

    def __init__(self, optimizer: tf.train.Optimizer) -> None:
        super().__init__(optimizer, "DistributedOptimizer")

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Value | None, Variable]],
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> tf.Operation:
        """Return the operation that applies the gradients of all towers; see `DistributionStrategy.apply_gradients`."""
        if is_updating():
            return super().apply_gradients(list(grads_and_vars), global_step, name)
        return get_distribution_strategy().apply_gradients(self._opt, grads_and_vars, global_step, name)

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """Return a slot, on all devices of the variable."""
        return whole_variable(super().get_slot(whole_variable(var), name))

    def variables(self) -> list[Variable]:
        """Return slots and counters with all their devices, to initialise or save them."""
        return list(map(whole_variable, super().variables()))


@check_arguments
def increment_var(v: Variable, amount: PlainValue = 1) -> tf.Operation:
    """Add to a variable, such as the global step, once from any number of towers.

    Returns:
        The operation, the same in all towers.

    Shapes:
        ``amount`` is a scalar, or of the variable's shape.

    Raises:
        StrategyError: This is a cross-tower context.

    Source:
        The seed ``distribute``.
    """
    if not hasattr(v, "assign_add"):
        raise WrongTypeError(f"increment_var got v={shown(v)}: expected a variable")
    context = get_tower_context()
    if context is None:
        raise StrategyError("increment_var is called in a tower; in a cross-tower context, use update()")

    def add(variable: BaseVariable) -> BaseVariable:
        return tf.assign_add(variable, amount)

    def merge(strategy: DistributionStrategy, variable: Variable) -> tf.Operation:
        return strategy.group(strategy.update(variable, add))

    return context.merge_call(merge, v)


@check_arguments
class DistributedMovingAverage(tf.train.ExponentialMovingAverage):
    """``tf.train.ExponentialMovingAverage`` for mirrored variables.

    TensorFlow's own takes them for tensors, whose averages start from zero. Under a strategy the averages are mirrored
    too. For plain variables, and in everything else, it is TensorFlow's. In a trainer, use the callback `EMA` instead.

    Args:
        decay: the part of the average that stays at each update.
        num_updates: the number of updates, which reduces the decay at the beginning, or None.
        name: the suffix of averages: ``<variable>/<name>``.

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

    def __init__(
        self, decay: float | tf.Tensor, num_updates: PlainValue | None = None, *, name: str = "ExponentialMovingAverage"
    ) -> None:
        super().__init__(decay, num_updates=num_updates, name=name)

    def apply(self, var_list: Iterable[Variable | tf.Tensor] | None = None) -> tf.Operation:
        """Return the operation that updates the averages, which are created on first use, with the variables' shapes.

        It is the same in all towers; of the towers' own objects, the first one's is updated.

        Args:
            var_list: the variables; by default the trainable ones. Outside of towers, tensors as well.

        Raises:
            ConfigError: In a strategy's tower, an element is not a variable.
        """
        averaged = list(tf.trainable_variables() if var_list is None else var_list)
        context = get_tower_context()
        if context is None or not has_distribution_strategy():
            return self._apply(averaged)
        tensors = [value for value in averaged if tf.is_tensor(value) and not hasattr(value, "initializer")]
        if tensors:
            raise ConfigError(f"DistributedMovingAverage got {tensors!r} in a tower: expected variables")
        return context.merge_call(lambda strategy, merged: self._apply(merged), averaged)

    def _apply(self, averaged: Sequence[Variable | tf.Tensor]) -> tf.Operation:
        for variable in averaged:
            if isinstance(variable, MirroredVariable) and variable.ref() not in self._averages:
                self._averages[variable.ref()] = self._make_average(variable)
                tf.add_to_collection(tf.GraphKeys.MOVING_AVERAGE_VARIABLES, variable)
        return super().apply(averaged)

    def _make_average(self, variable: MirroredVariable) -> Variable:
        beside = get_distribution_strategy().colocate_vars_with(variable)
        # The names are those that TensorFlow gives.
        with tf.init_scope(), tf.variable_scope(None, f"{variable.op.name}/{self.name}"), beside:
            return tf.get_variable("", initializer=variable.initialized_value(), trainable=False, use_resource=True)
