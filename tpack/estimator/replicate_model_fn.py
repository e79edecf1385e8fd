"""Replicate a model_fn over the GPUs of one machine, with its own optimizers or a separate one.

Each tower gets its part of the batch: a tensor, a sparse tensor, or nested dicts, lists and tuples of them, split along
the first dimension.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.building import ModelFn, call_model_fn, check_model_fn
from tpack.estimator.inputs import call_with_accepted
from tpack.estimator.merge_specs import join_towers
from tpack.estimator.replicated import (
    Replication,
    VariablePlacement,
    build_towers,
    current_model_fn_tower,
    outside_of_towers,
    replication_over,
)
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import ODD_BATCH, AnyTensor, EstimatorSpec, ModeKeys
from tpack.estimator.tower_optimizer import TowerOptimizer, sum_tower_gradients
from tpack.graph_copy.towers import TowerBuilding, check_tower_building, replicate_by_copy
from tpack.types import GradsAndVars
from tpack.utils.validation import check_arguments, mismatch

OptimizerFn = Callable[..., tf.train.Optimizer]


@check_arguments
def replicate_model_fn(
    model_fn: ModelFn,
    loss_reduction: str = tf.losses.Reduction.SUM_BY_NONZERO_WEIGHTS,
    devices: Sequence[str] | None = None,
    *,
    variable_placement: VariablePlacement = VariablePlacement.ONE_DEVICE,
    tower_building: TowerBuilding = "auto",
) -> Callable[..., EstimatorSpec]:
    """Return a model_fn that builds one tower per device, each on its part of the batch.

    The model_fn describes one tower. To train, it wraps its optimizers by `TowerOptimizer`. Variables are shared. On
    one device, nothing is split or added.

    Do not replicate a model for export: K seldom divides the number of examples in a request.

    Args:
        model_fn: as for an `Estimator`.
        loss_reduction: the model_fn's reduction of the losses of examples. ``SUM`` sums the towers' losses and
            gradients, any other averages them.
        devices: names of devices, or None for all GPUs, or the CPU on a machine without any.
        variable_placement: the rule for the devices of shared variables.
        tower_building: how towers 2 to K-1 are built; see `call_in_replicated_towers`. Towers that train with a
            `TowerOptimizer` use merge calls, and are never copied.

    Returns:
        A model_fn that takes features, labels, mode, params and config. Loss and metrics are those of the whole batch;
        predictions and export outputs are concatenated. The rest of its spec is the first tower's.

    Shapes:
        Features and labels: [B, ...], where K divides B, to K times [B / K, ...].

    Raises:
        ConfigError: The losses are not reduced, or ``model_fn`` is not a model_fn. In a call of the result: K does not
            divide the batch, an optimizer is not wrapped, or the towers differ in variables, optimizers, predictions,
            export outputs or metrics.
        DeviceError: A GPU is missing on a machine that has GPUs.

    Example:
        estimator = Estimator(replicate_model_fn(model_fn, devices=["/gpu:0", "/gpu:1"]), model_dir="run")

    Source:
        The seed ``replicate_model_fn_with_tower_optimizer``.
    """
    if loss_reduction not in tf.losses.Reduction.all() or loss_reduction == tf.losses.Reduction.NONE:
        raise ConfigError(mismatch("replicate_model_fn", "loss_reduction", loss_reduction, "a reduction to one number"))
    check_model_fn(model_fn)
    check_tower_building("replicate_model_fn", tower_building)
    replication = replication_over(devices, variable_placement)
    averages_losses = loss_reduction != tf.losses.Reduction.SUM

    def replicated_model_fn(
        features: object, labels: object, mode: str, params: object = None, config: RunConfig | None = None
    ) -> EstimatorSpec:
        shards = shard_inputs(features, labels, replication)

        def build(features: object, labels: object) -> EstimatorSpec:
            spec = call_model_fn(model_fn, features, labels, mode, params=params, config=config)
            _check_optimizer(spec, replication.num_towers)
            tower = current_model_fn_tower()
            return spec if tower is None else spec._replace(loss=tower.scale_loss(spec.loss))

        def call(index: int) -> EstimatorSpec:
            spec: EstimatorSpec = replicate_by_copy(build, *shards[index])
            return spec

        towers = build_towers(call, replication, mode, averages_losses=averages_losses, tower_building=tower_building)
        return join_towers(towers, mode, replication.consolidation_device)

    return replicated_model_fn


@check_arguments
def replicate_model_fn_with_optimizer_fn(
    model_fn: ModelFn,
    optimizer_fn: OptimizerFn,
    devices: Sequence[str] | None = None,
    *,
    variable_placement: VariablePlacement = VariablePlacement.ONE_DEVICE,
    tower_building: TowerBuilding = "auto",
) -> Callable[..., EstimatorSpec]:
    """Return a model_fn that builds one tower per device and trains them with one optimizer, as `replicate_model_fn`.

    The model_fn has no train op: it returns ``tf.no_op()``, which is not run. Losses and gradients of the towers are
    summed, so a loss that is a mean over examples counts K times.

    Args:
        model_fn: as for an `Estimator`.
        optimizer_fn: returns an optimizer. It may take ``params``.
        devices: this and the others as for `replicate_model_fn`.
        variable_placement: see there.
        tower_building: see there.

    Shapes:
        Features and labels: [B, ...], where K divides B, to K times [B / K, ...].

    Raises:
        ConfigError: ``model_fn`` or ``optimizer_fn`` is not a function. In a call of the result: K does not divide the
            batch, ``optimizer_fn`` does not return an optimizer, no variable has a gradient, or the towers differ.
        DeviceError: A GPU is missing on a machine that has GPUs.

    Source:
        The seed ``replicate_model_fn_with_optimizer_fn``.
    """
    check_model_fn(model_fn)
    check_tower_building("replicate_model_fn", tower_building)
    replication = replication_over(devices, variable_placement)

    def replicated_model_fn(
        features: object, labels: object, mode: str, params: object = None, config: RunConfig | None = None
    ) -> EstimatorSpec:
        shards = shard_inputs(features, labels, replication)
        tower_grads: list[GradsAndVars] = []

        def build(features: object, labels: object) -> tuple[EstimatorSpec, GradsAndVars]:
            spec = call_model_fn(model_fn, features, labels, mode, params=params, config=config)
            variables = tf.trainable_variables() if mode == ModeKeys.TRAIN else []
            return spec, list(zip(tf.gradients(spec.loss, variables), variables, strict=True)) if variables else []

        def call(index: int) -> EstimatorSpec:
            spec: EstimatorSpec
            spec, grads = replicate_by_copy(build, *shards[index])
            tower_grads.append(grads)
            return spec

        towers = build_towers(call, replication, mode, averages_losses=False, tower_building=tower_building)
        spec = join_towers(towers, mode, replication.consolidation_device)
        if mode != ModeKeys.TRAIN:
            return spec
        with outside_of_towers():
            optimizer = call_with_accepted(optimizer_fn, {"params": params})
            if not isinstance(optimizer, tf.train.Optimizer):
                raise ConfigError(f"optimizer_fn returned {optimizer!r}: expected a tf.compat.v1.train.Optimizer")
            train_op = optimizer.apply_gradients(sum_tower_gradients(tower_grads), tf.train.get_global_step())
        return spec._replace(train_op=train_op)

    return replicated_model_fn


def shard_inputs(features: object, labels: object, replication: Replication) -> list[tuple[object, object]]:
    """Return (features, labels) for each tower, the whole batch for a single one; see `split_batch`."""
    if replication.num_towers == 1:
        return [(features, labels)]
    with tf.name_scope("split_inputs"), tf.device(replication.consolidation_device):
        parts = [split_batch(batch, replication.num_towers) for batch in (features, labels)]
    return list(zip(*parts, strict=True))


def split_batch(batch: object, num_shards: int) -> list[Any]:
    """Split a batch along its first dimension, on the current device, into K batches of the same structure.

    Args:
        batch: a tensor or ``SparseTensor``, a nest of them, or None.
        num_shards: K.

    Shapes:
        [B, ...] to K times [B / K, ...], for each tensor.

    Raises:
        ConfigError: A tensor has no first dimension, or one that K does not divide. If it is unknown before the run,
            the run fails with an ``InvalidArgumentError`` of the same text.

    Source:
        The splitting of inputs in the seeds of ``replicate_model_fn``, which do not check sparse tensors.
    """
    if batch is None:
        return [None] * num_shards
    leaves = [_split(leaf, num_shards) for leaf in tf.nest.flatten(batch)]
    return [tf.nest.pack_sequence_as(batch, [shards[k] for shards in leaves]) for k in range(num_shards)]


def _check_optimizer(spec: EstimatorSpec, num_towers: int) -> None:
    if spec.mode == ModeKeys.TRAIN and num_towers > 1 and not TowerOptimizer.has_been_used():
        raise ConfigError(f"model_fn returned the train_op {spec.train_op!r}: expected one of a TowerOptimizer")


def _split(leaf: AnyTensor, num_shards: int) -> list[AnyTensor]:
    if isinstance(leaf, tf.SparseTensor):
        _check_known_size(leaf, num_shards)
        with tf.control_dependencies(_guards(leaf.dense_shape[0], leaf.shape, num_shards, leaf.op.name)):
            guarded = tf.SparseTensor(tf.identity(leaf.indices), tf.identity(leaf.values), leaf.dense_shape)
        guarded_split: list[AnyTensor] = tf.sparse.split(sp_input=guarded, num_split=num_shards, axis=0)
        return guarded_split
    leaf = tf.convert_to_tensor(leaf)
    _check_known_size(leaf, num_shards)
    with tf.control_dependencies(_guards(tf.shape(leaf)[0], leaf.shape, num_shards, leaf.op.name)):
        return list(tf.split(leaf, num_shards))


def _check_known_size(leaf: AnyTensor, num_shards: int) -> None:
    shape = leaf.shape
    if shape.rank == 0:
        raise ConfigError(f"{leaf!r} has no batch dimension: expected one to split over {num_shards} towers")
    size = tf.compat.dimension_value(shape[0]) if shape.rank else None
    if size is not None and size % num_shards:
        raise ConfigError(f"{ODD_BATCH}, {num_shards}: {leaf.op.name} in the features or labels has {size} example(s)")


def _guards(size: tf.Tensor, shape: tf.TensorShape, num_shards: int, name: str) -> list[tf.Operation]:
    """Return the check at run time, if the size is unknown."""
    if shape.rank is not None and tf.compat.dimension_value(shape[0]) is not None:
        return []
    message = f"{ODD_BATCH}, {num_shards}; that of {name} in the features or labels is not"
    return [tf.debugging.assert_equal(size % num_shards, tf.zeros([], size.dtype), message=message)]
