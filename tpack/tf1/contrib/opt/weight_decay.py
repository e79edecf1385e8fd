"""Weight decay that is decoupled from the gradient: a share of each variable is taken off before its step.

Source:
    Loshchilov and Hutter, "Decoupled weight decay regularization" (2019).
"""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import WrongTypeError
from tpack.optimizers.base import ResourceOptimizer, shrink
from tpack.optimizers.hyper import as_dtype_of
from tpack.tf1.signatures import like, parameter
from tpack.utils.validation import shown

__all__ = [
    "AdamWOptimizer",
    "DecoupledWeightDecayExtension",
    "MomentumWOptimizer",
    "extend_with_decoupled_weight_decay",
]


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

    def minimize(
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = tf.train.Optimizer.GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
        decay_var_list: Any = None,
    ) -> Any:
        """Make one step on a loss, as the optimizer does; ``decay_var_list`` decays, or all variables."""
        self._decay_only(decay_var_list)
        return super().minimize(  # type: ignore[misc]
            loss,
            global_step=global_step,
            var_list=var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            name=name,
            grad_loss=grad_loss,
        )

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
        WrongTypeError: It is no class of optimizers.

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
