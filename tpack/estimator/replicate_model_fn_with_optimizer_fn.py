"""Replicate a model_fn over the GPUs of one machine, with one optimizer that stands beside it."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.arguments import call_with_accepted
from tpack.estimator.joining import join_towers
from tpack.estimator.mode_keys import ModeKeys
from tpack.estimator.model_fn import ModelFn, call_model_fn, check_model_fn
from tpack.estimator.replicate_model_fn import shard_inputs
from tpack.estimator.replicated import build_towers, outside_of_towers
from tpack.estimator.replication import replication_over
from tpack.estimator.spec import EstimatorSpec
from tpack.estimator.tower_gradients import sum_tower_gradients
from tpack.estimator.variable_placement import VariablePlacement

OptimizerFn = Callable[..., Any]


def replicate_model_fn_with_optimizer_fn(
    model_fn: ModelFn,
    optimizer_fn: OptimizerFn,
    devices: Sequence[str] | None = None,
    *,
    variable_placement: VariablePlacement = VariablePlacement.ONE_DEVICE,
) -> Callable[..., EstimatorSpec]:
    """Return a model_fn that builds one tower for each device and trains them by one optimizer.

    The model_fn makes no train op of its own: it returns ``tf.no_op()``, which is not run. Losses and gradients of the
    towers are summed, so a loss that is a mean over examples counts K times.

    Args:
        model_fn: as for an `Estimator`.
        optimizer_fn: returns an optimizer. It may take ``params``.
        devices: names of devices, or None for all GPUs, or the CPU on a machine without any.
        variable_placement: where the shared variables go.

    Returns:
        A model_fn, as `replicate_model_fn` returns it.

    Shapes:
        Features and labels: [B, ...], where K divides B, to K times [B / K, ...].

    Raises:
        ConfigError: ``model_fn`` or ``optimizer_fn`` is no function. When the returned function is called: K does not
            divide the batch, ``optimizer_fn`` returns no optimizer, no variable has a gradient, or the towers differ.
        DeviceError: There are GPUs, and one that is asked for is not among them.

    Source:
        The seed ``replicate_model_fn_with_optimizer_fn``.
    """
    check_model_fn(model_fn)
    if not callable(optimizer_fn):
        raise ConfigError(f"optimizer_fn must be a function that returns an optimizer, got {optimizer_fn!r}")
    replication = replication_over(devices, variable_placement)

    def replicated_model_fn(
        features: Any, labels: Any, mode: str, params: Any = None, config: Any = None
    ) -> EstimatorSpec:
        shards = shard_inputs(features, labels, replication)
        tower_grads: list[Any] = []

        def call(index: int) -> EstimatorSpec:
            spec = call_model_fn(model_fn, *shards[index], mode, params=params, config=config)
            if mode == ModeKeys.TRAIN:
                tower_grads.append(_gradients(spec.loss))
            return spec

        towers = build_towers(call, replication, mode, averages_losses=False)
        spec = join_towers(towers, mode, replication.consolidation_device)
        if mode != ModeKeys.TRAIN:
            return spec
        with outside_of_towers():
            optimizer = call_with_accepted(optimizer_fn, {"params": params})
            if not isinstance(optimizer, tf.train.Optimizer):
                raise ConfigError(f"optimizer_fn must return a tf.compat.v1.train.Optimizer, got {optimizer!r}")
            train_op = optimizer.apply_gradients(sum_tower_gradients(tower_grads), tf.train.get_global_step())
        return spec._replace(train_op=train_op)

    return replicated_model_fn


def _gradients(loss: Any) -> list[tuple[Any, Any]]:
    variables = tf.trainable_variables()
    return list(zip(tf.gradients(loss, variables), variables, strict=True))
