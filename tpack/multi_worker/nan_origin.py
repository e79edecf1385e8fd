"""Origin of NaN among workers that exchange gradients, which carry it to all of them within a step.

All workers find NaN in the same epoch, in weights that are equal. The one whose own cost or gradients, before the
exchange, were the first that were not finite is at fault; the control channel compares.
"""

from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps
from tpack.multi_worker.all_reduce import WorkerGroup
from tpack.reduction.sums import on_device
from tpack.tower.grads import Gradient, is_sparse


class NonFiniteOrigin(Callback):
    """Record of the step since which this worker's own costs or gradients are not finite.

    Each gradient is read once more in a step, beside the exchange, which nothing waits for.

    Args:
        group: the workers.
        own_gradients: returns the gradients of this worker before the exchange; called when the graph is built.
    """

    _chief_only = False

    def __init__(self, group: WorkerGroup, own_gradients: Callable[[], Sequence[Gradient]]) -> None:
        self._group = group
        self._own_gradients = own_gradients
        self._steps: tf.Variable
        self._since: tf.Variable
        self._record: tf.Operation | None = None

    def _setup_graph(self) -> None:
        checks = [tf.is_finite(cost) for cost in self.trainer.costs or ()]
        checks += [_is_finite(each) for each in self._own_gradients() if _dtype_of(each).is_floating]
        if not checks:
            return
        with on_device(self._group.device()):
            self._steps, self._since = _counter("steps", 0), _counter("since", -1)
            step, is_bad = self._steps.assign_add(1), tf.logical_not(tf.reduce_all(tf.stack(checks)))
            since = self._since.read_value()
            # Steps that are skipped, as those of a scaled cost, are forgotten.
            now = tf.where(is_bad, tf.where(since < 0, step, since), tf.constant(-1, tf.int64))
            self._record = self._since.assign(now, read_value=False)

    def _before_run(self, ctx: tf.train.SessionRunContext) -> object:
        return self._record if ctx.original_args.fetches is self.trainer.train_op else None

    def _with_several_steps(self) -> WithSteps:
        return WithSteps() if self._record is None else WithSteps(each=(self._record,))

    def first_step(self) -> int:
        """Return the first of the steps since which they are not finite; -1 if they were finite in the last one."""
        if self._record is None:
            return -1
        steps, since = self.trainer.sess.run([self._steps, self._since])
        return -1 if since < 0 else int(self.global_step - (steps - since))


def _is_finite(gradient: Gradient) -> tf.Tensor:
    """Return whether a gradient is finite: its sum of squares is, which is read in one pass, without a copy."""
    values = gradient.values if is_sparse(gradient) else gradient
    with on_device(values.device):
        wide = tf.cast(values, tf.float32) if values.dtype.base_dtype == tf.float16 else values
        return tf.is_finite(tf.nn.l2_loss(wide))


def _dtype_of(gradient: Gradient) -> tf.DType:
    return (gradient.values if is_sparse(gradient) else gradient).dtype.base_dtype


def _counter(name: str, first: int) -> tf.Variable:
    return tf.get_variable(
        f"not_finite/{name}",
        [],
        tf.int64,
        tf.constant_initializer(first),
        trainable=False,
        collections=[tf.GraphKeys.LOCAL_VARIABLES],
        use_resource=True,
    )
