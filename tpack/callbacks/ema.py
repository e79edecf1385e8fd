"""Exponential moving averages of the weights, which usually predict better than the weights of any one step.

The averages take the weights' place while a callback is triggered on them and at no other time, so that no other
callback can mistake one for the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps
from tpack.callbacks.group import ProxyCallback
from tpack.errors import CallbackError, ConfigError
from tpack.utils import logger
from tpack.utils.argument_types import check_arguments
from tpack.utils.checks import check_text


@check_arguments
class EMA(Callback):
    """Keep a moving average of each trainable variable, and evaluate on the averages.

    After step t the average is the weighted mean of the variable after each of the steps 1 to t, where step i has the
    weight ``decay ** (t - i)``. So the early averages are not drawn towards the first values of the variables: the
    average after the first step is the variable after it, and no schedule of decays is needed to warm up.

    With several towers, it is the main tower's variables that are averaged. The averages are updated in the run of the
    train op, after it. A step that does not run the train op is averaged when it is over. Variables that are not
    trainable, such as the statistics of batch normalisation, are not averaged and stay as they are.

    The averages are saved and restored with the weights, and a run that resumes goes on as if it had not been
    interrupted. A checkpoint without them is restored as well: then averaging begins there.

    Args:
        decay: how much of the average stays at each step, in [0, 1).
        name: what the averages are called: ``<variable>/<name>``.

    Creates:
        A global variable for each trainable one, on its device, and ``<name>/num_updates``.

    Raises:
        ConfigError: the decay is outside of [0, 1).

    Example:
        ema = EMA(0.999)
        callbacks = [ema, ema.evaluate(InferenceRunner(validation, ScalarStats("error", prefix="ema"))), ModelSaver()]
    """

    adds_variables = True

    def __init__(self, decay: float = 0.9999, *, name: str = "ExponentialMovingAverage") -> None:
        if not 0 <= decay < 1:
            raise ConfigError(f"EMA wants a decay in [0, 1), got {decay!r}")
        self._decay = decay
        self._suffix = check_text(self, "name", name)
        self._num_updates: tf.Variable
        self._update: tf.Operation
        self._request: tf.train.SessionRunArgs | None = None
        self._begin: tf.Operation
        self._exchange: tf.Operation
        self._has_begun = False
        self._is_updated = False
        self._are_in_use = False

    def evaluate(self, cb: Callback) -> Callback:
        """Return a callback that is triggered on the averages, to be used in the place of ``cb``.

        Args:
            cb: an `InferenceRunner`, or any other callback. A `MinSaver`, or a `ModelSaver` with a directory of its
                own, saves averages under the names of the weights, and weights under those of averages.
        """
        return _OnAverages(self, cb)

    def require_setup(self) -> None:
        """Check that this belongs to a training.

        Raises:
            CallbackError: it does not.
        """
        if self._trainer is None:
            raise CallbackError(f"a callback is evaluated on {self}, which is not itself among the callbacks: add it")

    @contextmanager
    def averages_in_use(self) -> Iterator[None]:
        """Put the averages in the place of the weights for a block, between steps.

        The weights come back however the block ends. A block inside another one changes nothing.
        """
        if self._are_in_use:
            yield
            return
        self._begin_averaging()
        try:
            self._exchange_with_weights()
            yield
        except BaseException:
            # The error of the block is the one to see.
            self._put_weights_back_after_error()
            raise
        self._exchange_with_weights()

    def _exchange_with_weights(self) -> None:
        """Give the weights the averages' values, and the averages theirs."""
        interruption = self.trainer.interruption
        # A signal must not end training between the exchange and what is known of it.
        with nullcontext() if interruption is None else interruption.held():
            self.trainer.sess.run(self._exchange)
            self._are_in_use = not self._are_in_use

    def _put_weights_back_after_error(self) -> None:
        try:
            if self._are_in_use:
                self._exchange_with_weights()
        except (RuntimeError, tf.errors.OpError) as error:
            logger.warning(f"{self} cannot put the weights back, is the session closed already? {error}")

    def _setup_graph(self) -> None:
        variables = [v for v in tf.trainable_variables() if v.dtype.base_dtype.is_floating]
        self._check(variables)
        averages = [self._make_average(variable) for variable in variables]
        self._num_updates = _make_variable(f"{self._suffix}/num_updates", [], tf.int64, "")
        pairs = list(zip(variables, averages, strict=True))
        self._begin = tf.group(*(average.assign(variable.read_value()).op for variable, average in pairs), name="begin")
        self._exchange = _exchange_values(pairs)
        self._update = self._make_update(pairs)
        train_op = self.trainer.train_op
        if train_op is not None:
            with tf.control_dependencies(tf.nest.flatten(train_op)):
                self._request = tf.train.SessionRunArgs(self._make_update(pairs))

    def _check(self, variables: Sequence[tf.Variable]) -> None:
        if not variables:
            raise CallbackError(f"{self} averages trainable variables, and there are none")
        known = {variable.op.name for variable in tf.global_variables()}
        for variable in variables:
            if not hasattr(variable, "handle"):
                raise CallbackError(f"{self} wants resource variables: make {variable.op.name} with use_resource=True")
            if f"{variable.op.name}/{self._suffix}" in known:
                raise CallbackError(f"there are averages called {self._suffix} already: give {self} another name")

    def _make_average(self, variable: tf.Variable) -> tf.Variable:
        name = f"{variable.op.name}/{self._suffix}"
        return _make_variable(name, variable.shape, variable.dtype.base_dtype, variable.device)

    def _make_update(self, pairs: Sequence[tuple[tf.Variable, tf.Variable]]) -> tf.Operation:
        with tf.name_scope("update"):
            count = tf.cast(self._num_updates.assign_add(1).read_value(), tf.float64)
            # The newest value has the weight 1 among all that sum up to (1 - decay ** t) / (1 - decay).
            log_decay = math.log(self._decay) if self._decay else -math.inf
            rate = (1 - self._decay) / -tf.math.expm1(count * log_decay)
            updates = []
            for variable, average in pairs:
                with tf.device(variable.device), tf.control_dependencies([rate]):
                    change = (variable.read_value() - average.read_value()) * tf.cast(rate, variable.dtype.base_dtype)
                    updates.append(average.assign_add(change, read_value=False))
            return tf.group(*updates, name="update_averages")

    def _begin_averaging(self) -> None:
        """Give the averages values if they were not restored: before the first step the weights are their own mean."""
        if not self._has_begun:
            self._has_begun = True
            if self.trainer.sess.run(self._num_updates) == 0:
                self.trainer.sess.run(self._begin)

    def _before_train(self) -> None:
        self._begin_averaging()

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        if self._request is None or ctx.original_args.fetches is not self.trainer.train_op:
            return None
        self._is_updated = True
        return self._request

    def _with_several_steps(self) -> WithSteps | None:
        return None if self._request is None else WithSteps(each=(self._request.fetches,))

    def _trigger_step(self) -> None:
        if not self._is_updated:
            self.trainer.sess.run(self._update)
        self._is_updated = False


class _OnAverages(ProxyCallback):
    """Trigger a callback on averaged weights, whether before training, after a step or after an epoch.

    What it does around each step, and after training, it does on the weights themselves.

    Args:
        ema: who keeps the averages.
        cb: the callback, for example an `InferenceRunner`, or a `MinSaver` to save averages under the names of weights.
    """

    def __init__(self, ema: EMA, cb: Callback) -> None:
        super().__init__(cb)
        self._ema = ema

    def _setup_graph(self) -> None:
        self._ema.require_setup()
        super()._setup_graph()

    def _before_train(self) -> None:
        with self._ema.averages_in_use():
            self.cb.before_train()

    def _trigger_step(self) -> None:
        with self._ema.averages_in_use():
            self.cb.trigger_step()

    def _with_several_steps(self) -> WithSteps | None:
        return self.cb.with_several_steps()

    def _trigger_epoch(self) -> None:
        with self._ema.averages_in_use():
            self.cb.trigger_epoch()

    def _trigger(self) -> None:
        with self._ema.averages_in_use():
            self.cb.trigger()

    def implements(self, hook: str) -> bool:
        """Tell whether the callback does anything in ``hook``: weights are not exchanged for nothing."""
        return self.cb.implements(hook)


def _make_variable(name: str, shape: tf.TensorShape | Sequence[int], dtype: tf.DType, device: str) -> tf.Variable:
    root = tf.VariableScope(reuse=False, name="")
    with tf.variable_scope(root, auxiliary_name_scope=False), tf.name_scope(None), tf.device(device or None):
        return tf.get_variable(
            name, shape, dtype, initializer=tf.zeros_initializer(), trainable=False, use_resource=True
        )


def _exchange_values(pairs: Sequence[tuple[tf.Variable, tf.Variable]]) -> tf.Operation:
    """Return an operation that gives the two variables of each pair each other's value; no values are copied."""
    assignments = []
    with tf.name_scope("exchange"):
        for one, other in pairs:
            with tf.device(one.device):
                values = one.read_value(), other.read_value()
                with tf.control_dependencies(values):
                    assignments.append(one.assign(values[1], read_value=False))
                    assignments.append(other.assign(values[0], read_value=False))
    return tf.group(*assignments, name="exchange_values")
