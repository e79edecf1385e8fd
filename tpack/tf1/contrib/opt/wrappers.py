"""Optimizers around others: clipping of variables, moving averages, and decoupled weight decay.

Source:
    Loshchilov and Hutter, "Decoupled weight decay regularization" (2019), of the decay, which takes a share off each
    variable before its step.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import GraphBuildError, WrongTypeError
from tpack.optimizers.base import ResourceOptimizer, shrink
from tpack.optimizers.hyper import as_dtype_of
from tpack.tf1.signatures import like, parameter
from tpack.tfutils.optimizer import ProxyOptimizer
from tpack.tower.context import get_current_tower_context
from tpack.utils.validation import check_instance, shown


class VariableClippingOptimizer(ProxyOptimizer):
    """Apply another optimizer, then make variables smaller whose norm is larger than allowed.

    Of a variable with a sparse gradient the rows that it has are clipped, if each row has a norm of its own.

    Args:
        vars_to_clip_dims: {variable: dimensions over which its norm is taken}, such as ``{embedding: [1]}`` for a norm
            for each row.
        max_norm: the largest norm that is allowed.
        colocate_clip_ops_with_vars: whether clipping is done where the variable is.
    """

    def __init__(
        self,
        opt: tf.train.Optimizer,
        vars_to_clip_dims: Mapping[Any, Sequence[int]],
        max_norm: float,
        use_locking: bool = False,
        colocate_clip_ops_with_vars: bool = False,
        name: str = "VariableClipping",
    ) -> None:
        super().__init__(check_instance(self, "opt", opt, tf.train.Optimizer), name)
        self._use_locking = use_locking
        # By name, since each tower has variables of its own.
        self._clip_dims = {_name_in_tower(var): list(dims) for var, dims in vars_to_clip_dims.items()}
        self._max_norm = max_norm
        self._colocate_clip_ops_with_vars = colocate_clip_ops_with_vars

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Apply gradients by the other optimizer, and clip."""
        pairs = list(grads_and_vars)
        with tf.name_scope(name, self._name):
            update = self._opt.apply_gradients(pairs, global_step=global_step)
            with tf.control_dependencies([update]):
                clipped = [self._clip(grad, var) for grad, var in pairs if grad is not None and self._is_clipped(var)]
            return tf.group(update, *clipped)

    def _is_clipped(self, var: Any) -> bool:
        return _name_in_tower(var) in self._clip_dims

    def _clip(self, grad: Any, var: Any) -> Any:
        dims = self._clip_dims[_name_in_tower(var)]
        device = var.device if self._colocate_clip_ops_with_vars else None
        with tf.device(device):
            if isinstance(grad, tf.IndexedSlices) and 0 not in dims:
                indices = tf.unique(grad.indices).y
                rows = tf.clip_by_norm(tf.gather(var, indices), self._max_norm, dims)
                return tf.group(var.scatter_update(tf.IndexedSlices(rows, indices), use_locking=self._use_locking))
            clipped = tf.clip_by_norm(var.read_value(), self._max_norm, dims)
            return tf.group(var.assign(clipped, use_locking=self._use_locking))


def _name_in_tower(var: Any) -> str:
    """Return the name of a variable without that of the current tower's own variables before it."""
    tower = get_current_tower_context()
    scope = tower.vs_name if tower is not None else ""
    return var.op.name.removeprefix(f"{scope}/") if scope else var.op.name


def clip_gradients_by_global_norm(gradients_variables: Any, clip_norm: float = 20.0) -> list[tuple[Any, Any]]:
    """Return pairs of gradients and variables, with gradients scaled to a joint norm of at most ``clip_norm``."""
    gradients, variables = zip(*gradients_variables, strict=True)
    clipped, _ = tf.clip_by_global_norm(gradients, clip_norm)
    return list(zip(clipped, variables, strict=True))


class MovingAverageOptimizer(ProxyOptimizer):
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
        super().__init__(check_instance(self, "opt", opt, tf.train.Optimizer), opt.get_name())
        self._ema = tf.train.ExponentialMovingAverage(average_decay, num_updates=num_updates)
        # The name of each variable to that of its average, and back.
        self._swapped_names: dict[str, str] | None = None
        self._sequential_update = sequential_update

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Apply gradients by the other optimizer, and update the averages."""
        pairs = list(grads_and_vars)
        train_op = self._opt.apply_gradients(pairs, global_step=global_step, name=name)
        variables = [var for grad, var in pairs if grad is not None]
        with tf.control_dependencies([train_op] if self._sequential_update else []):
            average_op = self._ema.apply(variables)
        names = {var.op.name: self._ema.average(var).op.name for var in variables}
        self._swapped_names = {**names, **{average: var for var, average in names.items()}}
        return tf.group(train_op, average_op, name="train_with_avg")

    def swapping_saver(self, var_list: Any = None, name: str = "swapping_saver", **kwargs: Any) -> tf.train.Saver:
        """Return a saver that writes each average under the name of its variable, and the variable under the average's.

        ``var_list`` is a list or {name: variable} that has the averages; ``kwargs`` go to ``tf.train.Saver``.

        Raises:
            GraphBuildError: Gradients were not applied yet, or an average is not among what is saved.
        """
        if self._swapped_names is None:
            raise GraphBuildError("swapping_saver got an optimizer without averages: call apply_gradients before it")
        saved_list = tf.global_variables() if var_list is None else var_list
        by_name = saved_list if isinstance(saved_list, dict) else {var.op.name: var for var in saved_list}
        of_operation = {var.op.name: var for var in by_name.values()}
        swapped = {}
        for saved, var in by_name.items():
            other = self._swapped_names.get(var.op.name, var.op.name)
            if other not in of_operation:
                raise GraphBuildError(f"swapping_saver got no {other}, which is to be saved as {saved}")
            swapped[saved] = of_operation[other]
        return tf.train.Saver(swapped, name=name, **kwargs)


class DecoupledWeightDecayExtension(ResourceOptimizer):
    """Mixed into an optimizer, before it: takes ``weight_decay`` times the variable off before each step.

    The decay is not multiplied by the learning rate, so a rate that goes down wants a decay that goes down with it. Of
    a variable with a sparse gradient only the rows that it has decay.

    Two things are as TensorFlow 1.15 documents them and not as it does them: the gradients are of the variables before
    they decay (there nothing waits, and they may be of either), and ``minimize`` keeps to its ``decay_var_list`` (there
    it is forgotten, and all variables decay).

    Args:
        weight_decay: the share, a number, a tensor or a function that returns one.
        **kwargs: what the optimizer takes.
    """

    def __init__(self, weight_decay: Any, **kwargs: Any) -> None:
        # None is all variables. Operation names and not variables, which a copy of the optimizer has others of.
        self._decay_var_list: set[str] | None = None
        self._weight_decay = weight_decay
        super().__init__(**kwargs)

    @like(tf.train.Optimizer.minimize, after={"grad_loss": {"decay_var_list": None}})
    def minimize(self, decay_var_list: Any, **given: Any) -> Any:
        """Make one step on a loss, as the optimizer does; ``decay_var_list`` decays, or all variables."""
        self._decay_only(decay_var_list)
        return super().minimize(**given)  # type: ignore[misc]

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None, decay_var_list: Any = None
    ) -> Any:
        """Apply gradients, as the optimizer does.

        ``decay_var_list`` decays, or what ``minimize`` was given, or all variables.
        """
        self._decay_only(decay_var_list)
        return super().apply_gradients(grads_and_vars, global_step=global_step, name=name)  # type: ignore[misc]

    def _decay_only(self, decay_var_list: Any) -> None:
        if decay_var_list is not None:
            self._decay_var_list = {var.op.name for var in decay_var_list}

    def _decays(self, var: Any) -> bool:
        return self._decay_var_list is None or var.op.name in self._decay_var_list

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        with tf.control_dependencies(shrink(var, grad, self._weight_decay) if self._decays(var) else []):
            return super()._resource_apply_dense(grad, var)  # type: ignore[misc]

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        before = []
        if self._decays(var):
            (decay,) = as_dtype_of(var, self._weight_decay)
            with tf.control_dependencies([grad]):
                before = [var.scatter_sub(tf.IndexedSlices(decay * tf.gather(var, indices), indices))]
        with tf.control_dependencies(before):
            return super()._resource_apply_sparse(grad, var, indices)  # type: ignore[misc]


def extend_with_decoupled_weight_decay(base_optimizer: type[tf.train.Optimizer]) -> type[tf.train.Optimizer]:
    """Return a subclass of ``base_optimizer`` that takes ``weight_decay`` first, and the other arguments by name.

    Raises:
        WrongTypeError: It is not a class of optimizers.

    Example:
        optimizer = extend_with_decoupled_weight_decay(tf.train.AdagradOptimizer)(weight_decay=1e-4, learning_rate=0.1)
    """
    if not (isinstance(base_optimizer, type) and issubclass(base_optimizer, tf.train.Optimizer)):
        raise WrongTypeError(f"got base_optimizer={shown(base_optimizer)}: expected a class of tf.train.Optimizer")

    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecayExtension, base_optimizer):
        """The optimizer with decoupled weight decay."""

    return OptimizerWithDecoupledWeightDecay


_DECAY: Any = {"self": {"weight_decay": parameter("weight_decay", Any)}}


class MomentumWOptimizer(DecoupledWeightDecayExtension, tf.train.MomentumOptimizer):
    """Momentum with decoupled weight decay."""

    @like(tf.train.MomentumOptimizer.__init__, after=_DECAY, name="MomentumW")
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)


class AdamWOptimizer(DecoupledWeightDecayExtension, tf.train.AdamOptimizer):
    """Adam with decoupled weight decay."""

    @like(tf.train.AdamOptimizer.__init__, after=_DECAY, name="AdamW")
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
