"""Merge the EstimatorSpecs of K towers into one for the whole batch.

Losses are added; for an average they were scaled before. Predictions and export outputs are concatenated, metrics
reduced. The rest is the first tower's.

A metric of TensorFlow computes its value from a few sums, of hits and of examples for instance. The towers' sums are
added to those of the first tower and the others set to zero, so that a repeated reduction changes nothing.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.replicated import TowerSpec
from tpack.estimator.spec import (
    AnyTensor,
    ClassificationOutput,
    EstimatorSpec,
    ExportOutput,
    ModeKeys,
    PredictOutput,
    RegressionOutput,
    Tensors,
    operation_of,
)
from tpack.reduction.sums import sum_tensors


def join_towers(towers: Sequence[TowerSpec], mode: str, device: str) -> EstimatorSpec:
    """Return the spec of the whole batch.

    Args:
        towers: the K towers; their losses are parts of the whole one.
        mode: one of `ModeKeys`.
        device: the device of the results.

    Returns:
        The first tower's spec with the sum of the losses and, over the whole batch, metrics and any predictions in
        evaluation, or predictions and export outputs in prediction.

    Shapes:
        Predictions: K times [B / K, ...] to [B, ...].

    Raises:
        ConfigError: The towers differ in their metrics, predictions or export outputs.

    Source:
        The seeds of ``replicate_model_fn``. There, predictions in evaluation are the first tower's, classes of a
        classification are stacked, not concatenated, and in one of the seeds the rest in training is the last tower's.
    """
    specs = [tower.spec for tower in towers]
    if len(specs) == 1:
        return specs[0]
    changes: dict[str, Any] = {}
    with tf.device(device):
        if mode != ModeKeys.PREDICT:
            changes["loss"] = tf.identity(sum_tensors([spec.loss for spec in specs]), name="loss")
        if mode != ModeKeys.TRAIN:
            changes["predictions"] = _join_predictions([spec.predictions for spec in specs])
        if mode == ModeKeys.PREDICT:
            changes["export_outputs"] = _join_export_outputs(specs)
    if mode == ModeKeys.EVAL:
        changes["eval_metric_ops"] = _join_metrics(towers)
    return specs[0]._replace(**changes)


def reduce_metric_variables(tower_variables: Sequence[Sequence[tf.Variable]]) -> tf.Operation:
    """Add all towers' metric variables to those of the first tower, and set the others to zero.

    Args:
        tower_variables: K lists of N variables, each list in the order of creation.

    Returns:
        An operation, under the current control dependencies.

    Shapes:
        K x N variables; the n-th of all towers have the same shape.

    Raises:
        ConfigError: Towers have different numbers of variables, or of different shapes or dtypes.

    Source:
        The reduction of metrics in the seeds of ``replicate_model_fn``, which identifies variables by their positions
        in one collection.
    """
    if len(tower_variables) == 1:
        return tf.no_op(name="no_eval_metric_reduction")
    _check_alike(tower_variables)
    with tf.name_scope("reduce_metrics"):
        return tf.group(*(_reduce(*column) for column in zip(*tower_variables, strict=True)))


def _join_metrics(towers: Sequence[TowerSpec]) -> dict[str, Any]:
    metrics = [tower.spec.eval_metric_ops for tower in towers]
    _check_same_names("eval_metric_ops", metrics)
    updates = [operation_of(update) for named in metrics for _, update in named.values()]
    with tf.control_dependencies(updates):
        reduced = reduce_metric_variables(_metric_variables(towers))
    return {name: (value, reduced) for name, (value, _) in metrics[0].items()}


def _metric_variables(towers: Sequence[TowerSpec]) -> list[list[tf.Variable]]:
    """Return each tower's metric variables, in the first tower's order of creation by name."""
    towers_named = []
    for tower in towers:
        names = {id(variable): name for name, variable in tower.context.recorder.by_name().items()}
        collected = tower.context.get_collection_in_tower(tf.GraphKeys.METRIC_VARIABLES)
        towers_named.append({names.get(id(variable), variable.op.name): variable for variable in collected})
    _check_same_names("variables of eval_metric_ops", towers_named)
    return [[named[name] for name in towers_named[0]] for named in towers_named]


def _join_predictions(predictions: Sequence[Tensors]) -> Tensors:
    if not isinstance(predictions[0], dict):
        return _concat(predictions)
    _check_same_names("predictions", predictions)
    # A name may be a pair of a head's name and its prediction's.
    return {name: _concat([named[name] for named in predictions], str(name)) for name in predictions[0]}


def _join_export_outputs(specs: Sequence[EstimatorSpec]) -> dict[str, ExportOutput] | None:
    outputs = [spec.export_outputs or {} for spec in specs]
    _check_same_names("export_outputs", outputs)
    joined: dict[str, ExportOutput] = {}
    done: dict[int, ExportOutput] = {}
    for name, first in outputs[0].items():
        # One output may have two names.
        if id(first) not in done:
            done[id(first)] = _join_output(name, [named[name] for named in outputs])
        joined[name] = done[id(first)]
    return joined or None


def _join_output(name: str, outputs: Sequence[Any]) -> ExportOutput:
    first = outputs[0]
    if len({type(output) for output in outputs}) > 1:
        raise ConfigError(f"towers have {list(outputs)!r} as the export output {name!r}: expected one class")
    if isinstance(first, PredictOutput):
        return PredictOutput(_join_predictions([output.outputs for output in outputs]))
    if isinstance(first, RegressionOutput):
        return RegressionOutput(_concat([output.value for output in outputs]))
    if isinstance(first, ClassificationOutput):
        scores, classes = ([getattr(output, part) for output in outputs] for part in ("scores", "classes"))
        return ClassificationOutput(
            None if first.scores is None else _concat(scores), None if first.classes is None else _concat(classes)
        )
    raise ConfigError(f"cannot concatenate the export output {name!r} of {type(first).__name__}")


def _concat(tensors: Sequence[AnyTensor], name: str = "concat") -> AnyTensor:
    if isinstance(tensors[0], tf.SparseTensor):
        return tf.sparse.concat(axis=0, sp_inputs=list(tensors))
    return tf.concat(list(tensors), axis=0, name=re.sub(r"[^A-Za-z0-9_.\\/>-]", "_", name).lstrip("_/\\>-") or "concat")


def _check_same_names(what: str, named: Sequence[Mapping[str, Any]]) -> None:
    for index, one in enumerate(named):
        if set(one) != set(named[0]):
            got = f"tower 0 has the {what} [{', '.join(named[0])}], tower {index} has [{', '.join(one)}]"
            raise ConfigError(f"{got}: expected the same in each call of model_fn")


def _reduce(main: tf.Variable, *others: tf.Variable) -> tf.Operation:
    with tf.device(main.device):
        values = [variable.read_value() for variable in others]
        added = main.assign_add(sum_tensors(values) if len(values) > 1 else values[0], read_value=False)
    zeroed = []
    with tf.control_dependencies([added]):
        for variable in others:
            with tf.device(variable.device):
                zeroed.append(variable.assign(tf.zeros(variable.shape, variable.dtype.base_dtype), read_value=False))
    return tf.group(*zeroed)


def _check_alike(tower_variables: Sequence[Sequence[tf.Variable]]) -> None:
    main = tower_variables[0]
    for index, variables in enumerate(tower_variables):
        if len(variables) != len(main):
            got = f"tower 0 has {len(main)} metric variable(s), tower {index} has {len(variables)}"
            raise ConfigError(f"{got}: expected the same in each call of model_fn")
        for one, other in zip(main, variables, strict=True):
            if one.shape != other.shape or one.dtype.base_dtype != other.dtype.base_dtype:
                got = f"tower 0 has the metric variable {one!r} where tower {index} has {other!r}"
                raise ConfigError(f"{got}: expected the same in each call of model_fn")
