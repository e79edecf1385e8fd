"""Replicate a model_fn over the GPUs of one machine, with the optimizers of the model_fn's own."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.joining import join_towers
from tpack.estimator.mode_keys import ModeKeys
from tpack.estimator.model_fn import ModelFn, call_model_fn, check_model_fn
from tpack.estimator.replicated import build_towers, current_model_fn_tower
from tpack.estimator.replication import Replication, replication_over
from tpack.estimator.spec import EstimatorSpec
from tpack.estimator.split_batch import split_batch
from tpack.estimator.tower_optimizer import TowerOptimizer
from tpack.estimator.variable_placement import VariablePlacement


def replicate_model_fn(
    model_fn: ModelFn,
    loss_reduction: str = tf.losses.Reduction.SUM_BY_NONZERO_WEIGHTS,
    devices: Sequence[str] | None = None,
    *,
    variable_placement: VariablePlacement = VariablePlacement.ONE_DEVICE,
) -> Callable[..., EstimatorSpec]:
    """Return a model_fn that builds one tower for each device, each on its part of the batch.

    The model_fn describes one tower. To train, it wraps its optimizers by `TowerOptimizer`. Variables are shared. On
    one device, nothing is split and nothing is added up.

    A model that is exported should not be replicated: requests seldom have as many examples as K divides.

    Args:
        model_fn: as for an `Estimator`.
        loss_reduction: how the model_fn makes one loss of those of its examples. With ``SUM`` the towers' losses and
            gradients are summed, with any other they are averaged.
        devices: names of devices, or None for all GPUs, or the CPU on a machine without any.
        variable_placement: where the shared variables go.

    Returns:
        A model_fn that takes features, labels, mode, params and config. Its loss is that of the whole batch;
        predictions and export outputs are concatenated; metrics are those of the whole batch. All else in its spec
        is the first tower's.

    Shapes:
        Features and labels: [B, ...], where K divides B, to K times [B / K, ...].

    Raises:
        ConfigError: The losses are not reduced, or ``model_fn`` is none. When the returned function is called: K does
            not divide the batch, an optimizer is not wrapped, or the towers differ in variables, optimizers,
            predictions, export outputs or metrics.
        DeviceError: There are GPUs, and one that is asked for is not among them.

    Example:
        estimator = Estimator(replicate_model_fn(model_fn, devices=["/gpu:0", "/gpu:1"]), model_dir="run")

    Source:
        The seed ``replicate_model_fn_with_tower_optimizer``.
    """
    if loss_reduction not in tf.losses.Reduction.all() or loss_reduction == tf.losses.Reduction.NONE:
        raise ConfigError(f"losses of towers must be reduced in some way, got loss_reduction={loss_reduction!r}")
    check_model_fn(model_fn)
    replication = replication_over(devices, variable_placement)
    averages_losses = loss_reduction != tf.losses.Reduction.SUM

    def replicated_model_fn(
        features: Any, labels: Any, mode: str, params: Any = None, config: Any = None
    ) -> EstimatorSpec:
        shards = shard_inputs(features, labels, replication)

        def call(index: int) -> EstimatorSpec:
            spec = call_model_fn(model_fn, *shards[index], mode, params=params, config=config)
            _check_optimizer(spec, replication.num_towers)
            tower = current_model_fn_tower()
            return spec if tower is None else spec._replace(loss=tower.scale_loss(spec.loss))

        towers = build_towers(call, replication, mode, averages_losses=averages_losses)
        return join_towers(towers, mode, replication.consolidation_device)

    return replicated_model_fn


def shard_inputs(features: Any, labels: Any, replication: Replication) -> list[tuple[Any, Any]]:
    """Return (features, labels) for each tower; those of the whole batch where there is one tower.

    Args:
        features: a batch.
        labels: a batch, or None.
        replication: the towers.

    Shapes:
        [B, ...] to K times [B / K, ...].

    Raises:
        ConfigError: K does not divide a batch.

    Source:
        The seeds of ``replicate_model_fn``.
    """
    if replication.num_towers == 1:
        return [(features, labels)]
    with tf.name_scope("split_inputs"), tf.device(replication.consolidation_device):
        parts = [split_batch(batch, replication.num_towers) for batch in (features, labels)]
    return list(zip(*parts, strict=True))


def _check_optimizer(spec: EstimatorSpec, num_towers: int) -> None:
    if spec.mode == ModeKeys.TRAIN and num_towers > 1 and not TowerOptimizer.has_been_used():
        raise ConfigError(
            "wrap the optimizers of a model_fn by TowerOptimizer to replicate it over several devices: its train_op, "
            f"{spec.train_op!r}, was made without one"
        )
