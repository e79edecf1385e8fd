"""The optimizer of a ready-made model: given by name, as an object, or as a function that makes one."""

from collections.abc import Callable
from typing import Any, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.estimator.replicated import current_model_fn_tower
from tpack.estimator.tower_optimizer import TowerOptimizer
from tpack.tfutils.optimizer import ProxyOptimizer
from tpack.utils.validation import shown

OptimizerLike: TypeAlias = str | tf.train.Optimizer | Callable[[], tf.train.Optimizer]

_BY_NAME: dict[str, Callable[[float], tf.train.Optimizer]] = {
    "Adagrad": tf.train.AdagradOptimizer,
    "Adam": tf.train.AdamOptimizer,
    "Ftrl": tf.train.FtrlOptimizer,
    "RMSProp": tf.train.RMSPropOptimizer,
    "SGD": tf.train.GradientDescentOptimizer,
}


def check_optimizer(optimizer: OptimizerLike) -> OptimizerLike:
    """Return an optimizer, its name, or a function without arguments that makes one.

    Raises:
        ConfigError: The name is unknown.
        WrongTypeError: It is something else, such as an optimizer of Keras.
    """
    if isinstance(optimizer, str):
        if optimizer not in _BY_NAME:
            raise ConfigError(f"got optimizer={optimizer!r}: expected one of {', '.join(_BY_NAME)}")
        return optimizer
    if not isinstance(optimizer, tf.train.Optimizer) and (_is_of_keras(optimizer) or not callable(optimizer)):
        raise WrongTypeError(
            f"got optimizer={shown(optimizer)}: expected a tf.train.Optimizer of TensorFlow 1, its name, or a function "
            "that makes one"
        )
    return optimizer


def is_like_optimizer(optimizer: object) -> bool:
    """Tell whether an object minimizes like an optimizer, such as a wrapper of one.

    None does in several towers of ``replicate_model_fn``, since its gradients would not be summed.
    """
    tower = current_model_fn_tower()
    is_alone = tower is None or tower.total == 1
    return is_alone and callable(getattr(optimizer, "minimize", None)) and not _is_of_keras(optimizer)


def _is_of_keras(optimizer: object) -> bool:
    return any(kind.__module__.partition(".")[0] in ("keras", "tf_keras") for kind in type(optimizer).__mro__)


def make_optimizer(optimizer: OptimizerLike, learning_rate: float) -> tf.train.Optimizer:
    """Return an optimizer for the current graph, also in the towers of ``replicate_model_fn``.

    Args:
        optimizer: as for `check_optimizer`.
        learning_rate: for an optimizer given by name.

    Raises:
        ConfigError: The name is unknown.
        WrongTypeError: It is, or the function returned, something else than an optimizer.
    """
    optimizer = check_optimizer(optimizer)
    if isinstance(optimizer, str):
        optimizer = _BY_NAME[optimizer](learning_rate)
    elif not isinstance(optimizer, tf.train.Optimizer):
        made = optimizer()
        if not isinstance(made, tf.train.Optimizer):
            raise WrongTypeError(f"the function of an optimizer returned {shown(made)}: expected a tf.train.Optimizer")
        optimizer = made
    return in_towers(optimizer)


def in_towers(optimizer: tf.train.Optimizer) -> tf.train.Optimizer:
    """Return an optimizer that sums gradients over several towers of ``replicate_model_fn``, else itself."""
    tower = current_model_fn_tower()
    if tower is None or tower.total == 1 or isinstance(optimizer, TowerOptimizer):
        return optimizer
    return TowerOptimizer(_InScope(optimizer, tf.get_variable_scope()))


class _InScope(ProxyOptimizer):
    """Applies gradients in the variable scope of the model, like one tower, for the names of slots."""

    def __init__(self, optimizer: tf.train.Optimizer, scope: tf.VariableScope) -> None:
        super().__init__(optimizer, optimizer.get_name())
        self._scope = scope

    def apply_gradients(
        self, grads_and_vars: Any, global_step: tf.Variable | None = None, name: str | None = None
    ) -> tf.Operation:
        """Apply gradients by the wrapped optimizer."""
        # A tower that is not the first one reuses variables, and slots are to be made.
        with tf.variable_scope(self._scope, reuse=tf.AUTO_REUSE, auxiliary_name_scope=False):
            return self._opt.apply_gradients(grads_and_vars, global_step, name)
