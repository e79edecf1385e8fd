"""The optimizer of a ready-made model: given by name, as an object, or as a function that makes one."""

from collections.abc import Callable
from typing import TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.estimator.replicated import current_model_fn_tower
from tpack.estimator.tower_optimizer import TowerOptimizer
from tpack.types import GradsAndVars
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
    """Return what stands for an optimizer.

    Args:
        optimizer: a name, an optimizer, or a function without arguments that makes one.

    Raises:
        ConfigError: It is a name that stands for none.
        WrongTypeError: It is something else, such as an optimizer of Keras.
    """
    if isinstance(optimizer, str):
        if optimizer not in _BY_NAME:
            raise ConfigError(f"there is no optimizer called {optimizer!r}: expected one of {', '.join(_BY_NAME)}")
        return optimizer
    if not isinstance(optimizer, tf.train.Optimizer) and (_is_of_keras(optimizer) or not callable(optimizer)):
        raise WrongTypeError(
            "an optimizer is a tf.train.Optimizer of TensorFlow 1, its name, or a function that makes one; got "
            f"{shown(optimizer)}"
        )
    return optimizer


def is_like_optimizer(optimizer: object) -> bool:
    """Tell whether an object minimizes as an optimizer does, such as a wrapper of one.

    Where ``replicate_model_fn`` has several towers none does, since gradients would not meet.
    """
    tower = current_model_fn_tower()
    is_alone = tower is None or tower.total == 1
    return is_alone and callable(getattr(optimizer, "minimize", None)) and not _is_of_keras(optimizer)


def _is_of_keras(optimizer: object) -> bool:
    return any(kind.__module__.partition(".")[0] in ("keras", "tf_keras") for kind in type(optimizer).__mro__)


def make_optimizer(optimizer: OptimizerLike, learning_rate: float) -> tf.train.Optimizer:
    """Return an optimizer for the current graph, which works in the towers of ``replicate_model_fn`` too.

    Args:
        optimizer: as for `check_optimizer`.
        learning_rate: for an optimizer that is given by its name.

    Raises:
        ConfigError: It is a name that stands for none.
        WrongTypeError: It is, or the function returned, something else than an optimizer.
    """
    optimizer = check_optimizer(optimizer)
    if isinstance(optimizer, str):
        optimizer = _BY_NAME[optimizer](learning_rate)
    elif not isinstance(optimizer, tf.train.Optimizer):
        made = optimizer()
        if not isinstance(made, tf.train.Optimizer):
            raise WrongTypeError(f"the function of an optimizer must return a tf.train.Optimizer, got {shown(made)}")
        optimizer = made
    return in_towers(optimizer)


def in_towers(optimizer: tf.train.Optimizer) -> tf.train.Optimizer:
    """Return an optimizer whose gradients meet, where the current tower is one of ``replicate_model_fn``; else itself.

    Args:
        optimizer: the optimizer of a model.
    """
    tower = current_model_fn_tower()
    if tower is None or tower.total == 1 or isinstance(optimizer, TowerOptimizer):
        return optimizer
    return TowerOptimizer(_InScope(optimizer, tf.get_variable_scope()))


class _InScope(tf.train.Optimizer):
    """Applies gradients in the variable scope of the model, as is done in one tower: it shows in the names of slots."""

    def __init__(self, optimizer: tf.train.Optimizer, scope: tf.VariableScope) -> None:
        super().__init__(use_locking=False, name=optimizer.get_name())
        self._opt = optimizer
        self._scope = scope

    def compute_gradients(self, *args: object, **kwargs: object) -> GradsAndVars:
        """Return the pairs of the wrapped optimizer."""
        return list(self._opt.compute_gradients(*args, **kwargs))

    def apply_gradients(
        self, grads_and_vars: GradsAndVars, global_step: tf.Variable | None = None, name: str | None = None
    ) -> tf.Operation:
        """Let the wrapped optimizer apply them."""
        # A tower that is not the first one reuses variables, and slots are to be made.
        with tf.variable_scope(self._scope, reuse=tf.AUTO_REUSE, auxiliary_name_scope=False):
            return self._opt.apply_gradients(grads_and_vars, global_step, name)

    def variables(self) -> list[tf.Variable]:
        """Return the variables of the wrapped optimizer."""
        return list(self._opt.variables())
