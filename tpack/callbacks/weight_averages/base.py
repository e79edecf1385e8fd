"""Averages of the weights, which replace the weights only while a callback is triggered on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TypeAlias

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps
from tpack.callbacks.group import ProxyCallback
from tpack.callbacks.weight_averages.batch_norm import BatchNormStatistics
from tpack.errors import CallbackError
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_text

Pairs: TypeAlias = Sequence[tuple[tf.Variable, tf.Variable]]
"""(weight, its average)."""


@check_arguments
class WeightAverages(Callback):
    """The base of averages of each trainable variable; subclasses override `_make_update`.

    With several towers, the main tower's variables are averaged.

    Args:
        name: the averages are called ``<variable>/<name>``.
        batch_norm: estimates batch normalization statistics for the averages; None keeps those of the weights.

    Creates:
        A global variable for each trainable one, on its device, and ``<name>/num_updates``.
    """

    adds_variables = True

    def __init__(self, name: str, batch_norm: BatchNormStatistics | None = None) -> None:
        self._suffix = check_text(self, "name", name)
        self._batch_norm = batch_norm
        self._pairs: Pairs = ()
        self._num_updates: tf.Variable
        self._update: tf.Operation
        self._exchange: tf.Operation
        self._are_in_use = False

    def evaluate(self, cb: Callback) -> Callback:
        """Return a callback that is triggered on the averages, for use in place of ``cb``.

        Args:
            cb: an `InferenceRunner`, or any other callback. A `MinSaver`, or a `ModelSaver` with a directory of its
                own, saves averages under the names of the weights, and weights under those of the averages.
        """
        return _OnAverages(self, cb)

    def require_setup(self) -> None:
        """Check that this callback is set up.

        Raises:
            CallbackError: it is not.
        """
        if self._trainer is None:
            raise CallbackError(
                f"{self} is used by a callback in a process where it does not run: expected it among the callbacks; "
                "where several workers evaluate, use set_chief_only(False) for it if each has its own weights, and "
                "set_chief_only(True) for the callback if they share them, as with parameter servers"
            )

    @contextmanager
    def averages_in_use(self) -> Iterator[None]:
        """Replace the weights by the averages in a block between steps, unless nested or before there are averages."""
        if self._are_in_use or not self._has_averages():
            yield
            return
        try:
            self._exchange_with_weights()
            if self._batch_norm is not None:
                self._batch_norm.use_those_of(self._count())
            yield
        except BaseException:
            try:
                if self._are_in_use:
                    self._put_weights_back()
            except (RuntimeError, tf.errors.OpError) as error:
                # The block's own error is raised.
                logger.warning(f"{self} cannot put the weights back, is the session closed already? {error}")
            raise
        self._put_weights_back()

    def _put_weights_back(self) -> None:
        if self._batch_norm is not None:
            self._batch_norm.put_back()
        self._exchange_with_weights()

    def _exchange_with_weights(self) -> None:
        interruption = self.trainer.interruption
        # A signal must not end training between the exchange and its record.
        with nullcontext() if interruption is None else interruption.held():
            self.trainer.sess.run(self._exchange)
            self._are_in_use = not self._are_in_use

    def _setup_graph(self) -> None:
        variables = [v for v in tf.trainable_variables() if v.dtype.base_dtype.is_floating]
        self._check(variables)
        averages = [
            make_variable(f"{v.op.name}/{self._suffix}", v.shape, v.dtype.base_dtype, v.device) for v in variables
        ]
        self._num_updates = make_variable(f"{self._suffix}/num_updates", [], tf.int64, "")
        self._pairs = list(zip(variables, averages, strict=True))
        self._exchange = _exchange_values(self._pairs)
        self._update = self._make_update()
        if self._batch_norm is not None:
            self._batch_norm.setup(self.trainer)

    def _check(self, variables: Sequence[tf.Variable]) -> None:
        if not variables:
            raise CallbackError(f"{self} got no trainable variables: expected at least one")
        known = {variable.op.name for variable in tf.global_variables()}
        for variable in variables:
            if not hasattr(variable, "handle"):
                got = f"{self} got {variable.op.name}, a reference variable"
                raise CallbackError(f"{got}: expected resource variables; use use_resource=True")
            if f"{variable.op.name}/{self._suffix}" in known:
                raise CallbackError(f"{self} got name={self._suffix!r}, which is taken: expected another name")

    def _make_update(self) -> tf.Operation:
        """Return an operation that increments ``num_updates`` and updates the averages."""
        raise NotImplementedError(f"{type(self).__name__} must override _make_update")

    def _move_averages(self, rate: tf.Tensor) -> tf.Operation:
        """Return an operation that moves each average towards its weight by a fraction of the difference."""
        updates = []
        for variable, average in self._pairs:
            with tf.device(variable.device), tf.control_dependencies([rate]):
                change = (variable.read_value() - average.read_value()) * tf.cast(rate, variable.dtype.base_dtype)
                updates.append(average.assign_add(change, read_value=False))
        return tf.group(*updates, name="update_averages")

    def _count(self) -> int:
        return int(self.trainer.sess.run(self._num_updates))

    def _has_averages(self) -> bool:
        """Tell whether there are averages."""
        return self._count() > 0

    def _after_train(self) -> None:
        if self._batch_norm is not None:
            self._batch_norm.close()


class _OnAverages(ProxyCallback):
    """A callback that sees averaged weights before training, after steps and after epochs, not around steps."""

    def __init__(self, averages: WeightAverages, cb: Callback) -> None:
        super().__init__(cb)
        self._averages = averages

    def _setup_graph(self) -> None:
        self._averages.require_setup()
        super()._setup_graph()

    def _before_train(self) -> None:
        with self._averages.averages_in_use():
            self.cb.before_train()

    def _trigger_step(self) -> None:
        with self._averages.averages_in_use():
            self.cb.trigger_step()

    # In the class of the hooks above: otherwise each step would be seen.
    def _with_several_steps(self) -> WithSteps | None:
        return self.cb.with_several_steps()

    def _trigger_epoch(self) -> None:
        with self._averages.averages_in_use():
            self.cb.trigger_epoch()

    def _trigger(self) -> None:
        with self._averages.averages_in_use():
            self.cb.trigger()

    def implements(self, hook: str) -> bool:
        """Tell whether the callback overrides ``hook``, so that weights are exchanged only if needed."""
        return self.cb.implements(hook)


def make_variable(name: str, shape: tf.TensorShape | Sequence[int], dtype: tf.DType, device: str) -> tf.Variable:
    """Return a variable of zeros that is not trained, under exactly this name.

    Args:
        name: the name.
        shape: the shape.
        dtype: the type.
        device: the device; empty for any.
    """
    root = tf.VariableScope(reuse=False, name="")
    with tf.variable_scope(root, auxiliary_name_scope=False), tf.name_scope(None), tf.device(device or None):
        return tf.get_variable(
            name, shape, dtype, initializer=tf.zeros_initializer(), trainable=False, use_resource=True
        )


def _exchange_values(pairs: Pairs) -> tf.Operation:
    """Return an operation that swaps the values of each pair."""
    assignments = []
    with tf.name_scope("exchange"):
        for one, other in pairs:
            with tf.device(one.device):
                values = one.read_value(), other.read_value()
                with tf.control_dependencies(values):
                    assignments.append(one.assign(values[1], read_value=False))
                    assignments.append(other.assign(values[0], read_value=False))
    return tf.group(*assignments, name="exchange_values")
