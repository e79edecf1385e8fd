"""The checks of the fields of an EstimatorSpec: each takes what was given and returns what is kept."""

from collections.abc import Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.export_outputs import ExportOutput, PredictOutput
from tpack.estimator.mode_keys import MODES, ModeKeys

_TENSORS = (tf.Tensor, tf.SparseTensor)
# What assigning a variable returns looks like one, and like that of TensorFlow 2 only.
_RUNNABLE = (tf.Tensor, tf.Operation, tf.compat.v2.Variable)
_DEFAULT_SIGNATURE = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


def check_mode(mode: Any) -> None:
    """Refuse anything but a mode."""
    if mode not in MODES:
        raise ConfigError(f"an EstimatorSpec wants a mode out of {', '.join(MODES)}, got {mode!r}")


def checked_predictions(predictions: Any, mode: str) -> Any:
    """Return a tensor or a dict of tensors; refuse anything else, and nothing where predictions are wanted."""
    if predictions is None:
        if mode == ModeKeys.PREDICT:
            raise ConfigError("an EstimatorSpec to predict wants predictions, and they are missing")
        return {}
    for value in predictions.values() if isinstance(predictions, Mapping) else [predictions]:
        if not isinstance(value, _TENSORS):
            raise ConfigError(f"predictions must be a tensor or a dict of tensors, got {predictions!r}")
        _check_graph("a prediction", value)
    return predictions


def checked_loss(loss: Any, mode: str) -> Any:
    """Return the loss as a scalar tensor; refuse one with several elements, and none where it is wanted."""
    if loss is None:
        if mode != ModeKeys.PREDICT:
            raise ConfigError(f"an EstimatorSpec of mode {mode!r} wants a loss, and it is missing")
        return None
    loss = tf.convert_to_tensor(loss)
    _check_graph("the loss", loss)
    if loss.shape.num_elements() not in (None, 1):
        raise ConfigError(f"the loss must have one element, got {loss.name} of shape {loss.shape}")
    return loss if loss.shape.rank == 0 else tf.reshape(loss, [])


def checked_train_op(train_op: Any, mode: str) -> Any:
    """Return the train op; refuse none where it is wanted, and what cannot be run."""
    if train_op is None:
        if mode == ModeKeys.TRAIN:
            raise ConfigError("an EstimatorSpec to train wants a train_op, and it is missing")
        return None
    if not isinstance(train_op, _RUNNABLE):
        raise ConfigError(f"train_op must be an operation or a tensor, got {train_op!r}")
    _check_graph("the train_op", train_op)
    return train_op


def checked_metrics(metrics: Any) -> dict[str, Any]:
    """Return name to (value, update op); refuse anything else."""
    metrics = {} if metrics is None else metrics
    if not isinstance(metrics, Mapping):
        raise ConfigError(f"eval_metric_ops must be a dict, got {metrics!r}")
    for name, pair in metrics.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ConfigError(f"eval_metric_ops must be pairs (value, update_op), and {name!r} is {pair!r}")
        if not all(isinstance(item, _RUNNABLE) for item in pair):
            raise ConfigError(f"eval_metric_ops must be tensors or operations, and {name!r} is {pair!r}")
        for item in pair:
            _check_graph(f"the metric {name!r}", item)
    return dict(metrics)


def checked_export_outputs(outputs: Any, predictions: Any, mode: str) -> dict[str, Any] | None:
    """Return signature name to output, one of them the default one where there are any; refuse anything else."""
    if outputs is None:
        can_export = mode == ModeKeys.PREDICT and not _has_sparse(predictions)
        return {_DEFAULT_SIGNATURE: PredictOutput(predictions)} if can_export else None
    if not isinstance(outputs, Mapping):
        raise ConfigError(f"export_outputs must be a dict, got {outputs!r}")
    for name, output in outputs.items():
        if not isinstance(output, ExportOutput):
            raise ConfigError(f"export_outputs must be ExportOutput objects, and {name!r} is {output!r}")
    if _DEFAULT_SIGNATURE in outputs or not outputs:
        return dict(outputs)
    if len(outputs) > 1:
        raise ConfigError(
            f"one of several export_outputs must be called {_DEFAULT_SIGNATURE!r}, got only {', '.join(outputs)}"
        )
    return {**outputs, _DEFAULT_SIGNATURE: next(iter(outputs.values()))}


def checked_hooks(what: str, hooks: Any) -> tuple[Any, ...]:
    """Return session hooks as a tuple; refuse anything else."""
    hooks = tuple(hooks or ())
    for hook in hooks:
        if not isinstance(hook, tf.train.SessionRunHook):
            raise ConfigError(f"{what} must be tf.train.SessionRunHook objects, got {hook!r}")
    return hooks


def checked_scaffold(scaffold: Any) -> Any:
    """Return a new scaffold if none is given; refuse anything else."""
    if scaffold is None:
        return tf.train.Scaffold()
    if not isinstance(scaffold, tf.train.Scaffold):
        raise ConfigError(f"scaffold must be a tf.train.Scaffold, got {scaffold!r}")
    return scaffold


def _has_sparse(predictions: Any) -> bool:
    values = predictions.values() if isinstance(predictions, Mapping) else [predictions]
    return any(isinstance(value, tf.SparseTensor) for value in values)


def _check_graph(what: str, item: Any) -> None:
    if item.graph is not tf.get_default_graph():
        raise ConfigError(f"{what} is {item!r} of another graph than the one that the model_fn was called in")
