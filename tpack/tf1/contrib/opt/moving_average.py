"""`MovingAverageOptimizer`: an optimizer that keeps averages of what it trains, and saves them in its place."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import GraphBuildError
from tpack.utils.validation import check_instance

__all__ = ["MovingAverageOptimizer"]


class MovingAverageOptimizer(tf.train.Optimizer):
    """Apply another optimizer, then update the moving averages of the variables that it changed.

    Train with ``scaffold=tf.train.Scaffold(saver=opt.swapping_saver())`` and evaluate as always: the checkpoint has the
    averages under the names of the variables, and the variables under those of the averages.

    Args:
        average_decay: how much of an average is kept in a step.
        num_updates: counts updates; with it the decay begins small.
        sequential_update: whether averages are updated after the variables, or at any time in the step.
    """

    def __init__(
        self,
        opt: tf.train.Optimizer,
        average_decay: Any = 0.9999,
        num_updates: Any = None,
        sequential_update: bool = True,
    ) -> None:
        self._optimizer = check_instance(self, "opt", opt, tf.train.Optimizer)
        super().__init__(use_locking=False, name=opt.get_name())
        self._ema = tf.train.ExponentialMovingAverage(average_decay, num_updates=num_updates)
        # The name of each variable to that of its average, and back.
        self._swapped_names: dict[str, str] | None = None
        self._sequential_update = sequential_update

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Compute gradients as the other optimizer does."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Apply gradients by the other optimizer, and update the averages."""
        pairs = list(grads_and_vars)
        train_op = self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)
        variables = [var for grad, var in pairs if grad is not None]
        with tf.control_dependencies([train_op] if self._sequential_update else []):
            average_op = self._ema.apply(variables)
        names = {var.op.name: self._ema.average(var).op.name for var in variables}
        self._swapped_names = {**names, **{average: var for var, average in names.items()}}
        return tf.group(train_op, average_op, name="train_with_avg")

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """Return a slot of the other optimizer."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """Return the names of the other optimizer's slots."""
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self) -> Any:
        """Return the variables of the other optimizer."""
        return self._optimizer.variables()

    def swapping_saver(self, var_list: Any = None, name: str = "swapping_saver", **kwargs: Any) -> tf.train.Saver:
        """Return a saver that writes each average under the name of its variable, and the variable under the average's.

        ``var_list`` is a list or {name: variable} that has the averages; ``kwargs`` go to ``tf.train.Saver``.

        Raises:
            GraphBuildError: Gradients were not applied yet, or an average is not among what is saved.
        """
        if self._swapped_names is None:
            raise GraphBuildError("swapping_saver got an optimizer without averages: call apply_gradients before it")
        by_name = _by_saved_name(tf.global_variables() if var_list is None else var_list)
        of_operation = {var.op.name: var for var in by_name.values()}
        swapped = {}
        for saved, var in by_name.items():
            other = self._swapped_names.get(var.op.name, var.op.name)
            if other not in of_operation:
                raise GraphBuildError(f"swapping_saver got no {other}, which is to be saved as {saved}")
            swapped[saved] = of_operation[other]
        return tf.train.Saver(swapped, name=name, **kwargs)


def _by_saved_name(variables: Any) -> dict[str, Any]:
    return dict(variables) if isinstance(variables, dict) else {var.op.name: var for var in variables}
