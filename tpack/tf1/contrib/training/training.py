"""A train op from a loss and an optimizer, and the plain loop that runs it, as ``tf.contrib.training`` had them."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tf1.contrib.slim import learning
from tpack.types import GradsAndVars

__all__ = ["clip_gradient_norms_fn", "create_train_op", "train"]

_USE_GLOBAL_STEP = 0


def clip_gradient_norms_fn(max_norm: float) -> Callable[[GradsAndVars], GradsAndVars]:
    """Return a function that scales down each gradient to a norm, if it has a larger one."""
    return lambda grads_and_vars: learning.clip_gradient_norms(grads_and_vars, max_norm)


def create_train_op(
    total_loss: Any,
    optimizer: tf.train.Optimizer,
    global_step: Any = _USE_GLOBAL_STEP,
    update_ops: Sequence[Any] | None = None,
    variables_to_train: Sequence[Any] | None = None,
    transform_grads_fn: Callable[[GradsAndVars], GradsAndVars] | None = None,
    summarize_gradients: bool = False,
    gate_gradients: int = tf.train.Optimizer.GATE_OP,
    aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False,
    check_numerics: bool = True,
) -> Any:
    """Return the loss as a tensor that makes a step of training when it is computed.

    Args:
        total_loss: a scalar.
        optimizer: makes the step.
        global_step: counted with each step; None for no counting, 0 for that of the graph.
        update_ops: what runs before the loss is computed; None for UPDATE_OPS.
        variables_to_train: None for all that can be.
        transform_grads_fn: changes the gradients, such as `clip_gradient_norms_fn` makes one.
        summarize_gradients: summarise gradients and their norms.
        gate_gradients: of the optimizer.
        aggregation_method: of the optimizer.
        colocate_gradients_with_ops: of the optimizer.
        check_numerics: fail at a loss that is not a number.
    """
    return learning.create_train_op(
        total_loss,
        optimizer if transform_grads_fn is None else _Transforming(optimizer, transform_grads_fn),
        global_step,
        update_ops=update_ops,
        variables_to_train=variables_to_train,
        summarize_gradients=summarize_gradients,
        gate_gradients=gate_gradients,
        aggregation_method=aggregation_method,
        colocate_gradients_with_ops=colocate_gradients_with_ops,
        check_numerics=check_numerics,
    )


class _Transforming(tf.train.Optimizer):
    """An optimizer whose gradients are changed by a function."""

    def __init__(self, optimizer: tf.train.Optimizer, transform: Callable[[GradsAndVars], GradsAndVars]) -> None:
        super().__init__(use_locking=False, name=optimizer.get_name())
        self._optimizer = optimizer
        self._transform = transform

    def compute_gradients(self, *args: Any, **kwargs: Any) -> GradsAndVars:
        """Compute gradients by the optimizer, and change them."""
        return self._transform(self._optimizer.compute_gradients(*args, **kwargs))

    def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Apply gradients by the optimizer."""
        return self._optimizer.apply_gradients(*args, **kwargs)


def train(
    train_op: Any,
    logdir: str | None,
    master: str = "",
    is_chief: bool = True,
    scaffold: Any = None,
    hooks: Sequence[Any] | None = None,
    chief_only_hooks: Sequence[Any] | None = None,
    save_checkpoint_secs: float | None = 600,
    save_summaries_steps: int | None = 100,
    config: Any = None,
    max_wait_secs: float = 7200,
    run_metadata: Any = None,
) -> Any:
    """Run a train op until a hook stops it.

    Args:
        train_op: what `create_train_op` made.
        logdir: where checkpoints and summaries go; None for neither.
        master: the session's target.
        is_chief: whether this process makes and saves the variables.
        scaffold: a ``tf.train.Scaffold``.
        hooks: hooks of the session; one of them is to stop it.
        chief_only_hooks: further hooks of the chief.
        save_checkpoint_secs: seconds between checkpoints.
        save_summaries_steps: steps between summaries.
        config: of the session.
        max_wait_secs: how long others wait for the chief.
        run_metadata: filled in by each step.

    Returns:
        What the last step gave, the loss; None if no step was made.
    """
    loss = None
    with tf.train.MonitoredTrainingSession(
        master=master,
        is_chief=is_chief,
        checkpoint_dir=logdir,
        scaffold=scaffold,
        hooks=hooks,
        chief_only_hooks=chief_only_hooks,
        save_checkpoint_secs=save_checkpoint_secs,
        save_summaries_steps=save_summaries_steps,
        config=config,
        max_wait_secs=int(max_wait_secs),
    ) as session:
        while not session.should_stop():
            loss = session.run(train_op, run_metadata=run_metadata)
    return loss
