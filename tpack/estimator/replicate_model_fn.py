"""Replicate a model_fn over the GPUs of one machine, with optimizers of its own or with one that stands beside it.

Each tower gets its part of the batch: a tensor, a sparse tensor, or dicts, lists and tuples of such, whose first
dimension counts the examples.
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
from tpack.utils.validation import check_arguments

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
        tower_building: how the third tower and all that follow come about; see `call_in_replicated_towers`. Towers that
            train by a `TowerOptimizer` meet, and are always built.

    Returns:
        A model_fn that takes features, labels, mode, params and config. Its loss is that of the whole batch;
        predictions and export outputs are concatenated; metrics are those of the whole batch. All else in its spec
        is the first tower's.

    Shapes:
        Features and labels: [B, ...], where K divides B, to K times [B / K, ...].

    Raises:
        ConfigError: The losses are not reduced, or ``model_fn`` is no model_fn. When the returned function is called: K
            does not divide the batch, an optimizer is not wrapped, or the towers differ in variables, optimizers,
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
    """Return a model_fn that builds one tower for each device and trains them by one optimizer.

    The model_fn makes no train op of its own: it returns ``tf.no_op()``, which is not run. Losses and gradients of the
    towers are summed, so a loss that is a mean over examples counts K times.

    Args:
        model_fn: as for an `Estimator`.
        optimizer_fn: returns an optimizer. It may take ``params``.
        devices: names of devices, or None for all GPUs, or the CPU on a machine without any.
        variable_placement: where the shared variables go.
        tower_building: how the third tower and all that follow come about; see `call_in_replicated_towers`.

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
    check_tower_building("replicate_model_fn", tower_building)
    replication = replication_over(devices, variable_placement)

    def replicated_model_fn(
        features: object, labels: object, mode: str, params: object = None, config: RunConfig | None = None
    ) -> EstimatorSpec:
        shards = shard_inputs(features, labels, replication)
        tower_grads: list[GradsAndVars] = []

        def build(features: object, labels: object) -> tuple[EstimatorSpec, GradsAndVars]:
            spec = call_model_fn(model_fn, features, labels, mode, params=params, config=config)
            return spec, _gradients(spec.loss) if mode == ModeKeys.TRAIN else []

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
                raise ConfigError(f"optimizer_fn must return a tf.compat.v1.train.Optimizer, got {optimizer!r}")
            train_op = optimizer.apply_gradients(sum_tower_gradients(tower_grads), tf.train.get_global_step())
        return spec._replace(train_op=train_op)

    return replicated_model_fn


def shard_inputs(features: object, labels: object, replication: Replication) -> list[tuple[object, object]]:
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


def split_batch(batch: object, num_shards: int) -> list[Any]:
    """Cut a batch along its first dimension, on the current device.

    Args:
        batch: a tensor or ``SparseTensor``, a nest of them, or None.
        num_shards: K, how many parts.

    Returns:
        K batches of the structure of the whole one, or K times None.

    Shapes:
        [B, ...] to K times [B / K, ...], for each tensor.

    Raises:
        ConfigError: A tensor has no first dimension, or one that K does not divide. Where it is not known before the
            graph runs, the run fails with an ``InvalidArgumentError`` that says the same.

    Source:
        The splitting of inputs in the seeds of ``replicate_model_fn``, which do not check sparse tensors.
    """
    if batch is None:
        return [None] * num_shards
    leaves = [_split(leaf, num_shards) for leaf in tf.nest.flatten(batch)]
    return [tf.nest.pack_sequence_as(batch, [shards[k] for shards in leaves]) for k in range(num_shards)]


def _check_optimizer(spec: EstimatorSpec, num_towers: int) -> None:
    if spec.mode == ModeKeys.TRAIN and num_towers > 1 and not TowerOptimizer.has_been_used():
        raise ConfigError(
            "wrap the optimizers of a model_fn by TowerOptimizer to replicate it over several devices: its train_op, "
            f"{spec.train_op!r}, was made without one"
        )


def _gradients(loss: tf.Tensor) -> GradsAndVars:
    variables = tf.trainable_variables()
    return list(zip(tf.gradients(loss, variables), variables, strict=True))


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
        raise ConfigError(f"{leaf!r} has no batch dimension, and is to be split over {num_shards} towers")
    size = tf.compat.dimension_value(shape[0]) if shape.rank else None
    if size is not None and size % num_shards:
        raise ConfigError(f"{ODD_BATCH}, {num_shards}: {leaf.op.name} in the features or labels has {size} example(s)")


def _guards(size: tf.Tensor, shape: tf.TensorShape, num_shards: int, name: str) -> list[tf.Operation]:
    """Return the check that is left for when the graph runs."""
    if shape.rank is not None and tf.compat.dimension_value(shape[0]) is not None:
        return []
    message = f"{ODD_BATCH}, {num_shards}; that of {name} in the features or labels is not"
    return [tf.debugging.assert_equal(size % num_shards, tf.zeros([], size.dtype), message=message)]
