"""``tf.contrib.training``: a train op from a loss and an optimizer, and the plain loop that runs it."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tf1.contrib.layers.optimizers import clip_gradient_norms
from tpack.tf1.contrib.slim import learning
from tpack.tf1.signatures import like
from tpack.tfutils.optimizer import ProxyOptimizer
from tpack.types import GradsAndVars


def clip_gradient_norms_fn(max_norm: float) -> Callable[[GradsAndVars], GradsAndVars]:
    """Return a function that scales down each gradient to a norm, if it is larger."""
    return lambda grads_and_vars: clip_gradient_norms(grads_and_vars, max_norm)


@like(
    learning.create_train_op,
    without="clip_gradient_norm gradient_multipliers",
    after={"variables_to_train": {"transform_grads_fn": None}},
)
def create_train_op(optimizer: tf.train.Optimizer, transform_grads_fn: Any, **given: Any) -> Any:
    """Return the loss as a tensor that makes a step of training; see ``slim.learning.create_train_op``.

    ``transform_grads_fn`` changes the gradients, such as the result of `clip_gradient_norms_fn`.
    """
    if transform_grads_fn is not None:
        optimizer = _Transforming(optimizer, transform_grads_fn)
    return learning.create_train_op(optimizer=optimizer, **given)


class _Transforming(ProxyOptimizer):
    """An optimizer whose gradients are changed by a function."""

    def __init__(self, optimizer: tf.train.Optimizer, transform: Callable[[GradsAndVars], GradsAndVars]) -> None:
        super().__init__(optimizer, optimizer.get_name())
        self._transform = transform

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Compute gradients by the optimizer, and change them."""
        return list(self._transform(self._opt.compute_gradients(*args, **kwargs)))


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
    """Run a train op until a hook stops it; return the last loss, or None without a step.

    ``logdir`` None writes neither checkpoints nor summaries; ``max_wait_secs`` is the timeout of workers for the chief;
    each step fills in ``run_metadata``.
    """
    options = locals()
    del options["train_op"], options["run_metadata"]
    options.update(checkpoint_dir=options.pop("logdir"), max_wait_secs=int(max_wait_secs))
    loss = None
    with tf.train.MonitoredTrainingSession(**options) as session:
        while not session.should_stop():
            loss = session.run(train_op, run_metadata=run_metadata)
    return loss
