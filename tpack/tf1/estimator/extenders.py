"""Estimators made of others: with more metrics, with features among their predictions, with clipped gradients."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.building import call_model_fn
from tpack.estimator.estimator import Estimator
from tpack.estimator.inputs import call_with_accepted, required_arguments
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import EstimatorSpec, ModeKeys, PredictOutput
from tpack.tfutils.optimizer import ProxyOptimizer
from tpack.utils.validation import check_arguments, check_instance, check_number, shown

_METRIC_ARGUMENTS = ("features", "labels", "predictions", "config")


@check_arguments
def add_metrics(estimator: Estimator, metric_fn: Callable[..., Mapping[str, Any]]) -> Estimator:
    """Return an Estimator like another one, in the same directory, with more evaluation metrics.

    Args:
        estimator: the other one.
        metric_fn: takes any of ``features``, ``labels``, ``predictions`` and ``config``; returns name to
            ``(value, update op)``. A metric of the model with the same name is replaced.

    Raises:
        ConfigError: ``metric_fn`` is not a function of these arguments.
    """
    unknown = [name for name in required_arguments(metric_fn) if name not in _METRIC_ARGUMENTS]
    if unknown:
        raise ConfigError(
            f"got a metric_fn that takes {', '.join(unknown)}: expected some of {', '.join(_METRIC_ARGUMENTS)}"
        )

    def model_fn(features: Any, labels: Any, mode: str, config: RunConfig | None = None) -> EstimatorSpec:
        spec = _call(estimator, features, labels, mode, config)
        if mode != ModeKeys.EVAL:
            return spec
        given = {"features": features, "labels": labels, "predictions": spec.predictions, "config": config}
        metrics = call_with_accepted(metric_fn, given)
        if not isinstance(metrics, Mapping):
            raise ConfigError(f"metric_fn returned {shown(metrics)}: expected a dict of metrics")
        return spec._replace(eval_metric_ops={**spec.eval_metric_ops, **metrics})

    return Estimator(model_fn, estimator.model_dir, estimator.config)


@check_arguments
def forward_features(
    estimator: Estimator,
    keys: str | Sequence[str] | None = None,
    sparse_default_values: Mapping[str, Any] | None = None,
) -> Estimator:
    """Return an Estimator like another one, in the same directory, that also predicts some features, such as ids.

    Args:
        estimator: the other one.
        keys: the features; None for all.
        sparse_default_values: fill values of sparse features, by name.

    Raises:
        ConfigError: In prediction: a feature is missing, is sparse without a fill value or dense with one, or has the
            name of a prediction.
    """
    wanted = [keys] if isinstance(keys, str) else keys
    fill = dict(sparse_default_values or {})

    def model_fn(features: Any, labels: Any, mode: str, config: RunConfig | None = None) -> EstimatorSpec:
        # Models may change their features.
        before = dict(features) if isinstance(features, Mapping) else features
        spec = _call(estimator, features, labels, mode, config)
        if mode != ModeKeys.PREDICT:
            return spec
        if not isinstance(before, dict) or not isinstance(spec.predictions, Mapping):
            raise ConfigError("forward_features got other features or predictions: expected dicts of both")
        added = {key: _dense_feature(before, key, fill) for key in (list(before) if wanted is None else wanted)}
        taken = sorted(set(added) & set(spec.predictions))
        if taken:
            raise ConfigError(
                f"forward_features got {', '.join(taken)}, which the model predicts: expected other names"
            )
        outputs = {
            name: PredictOutput({**output.outputs, **added}) if isinstance(output, PredictOutput) else output
            for name, output in (spec.export_outputs or {}).items()
        }
        return spec._replace(predictions={**spec.predictions, **added}, export_outputs=outputs)

    return Estimator(model_fn, estimator.model_dir, estimator.config)


@check_arguments
def clip_gradients_by_norm(optimizer: tf.train.Optimizer, clip_norm: float) -> tf.train.Optimizer:
    """Return an optimizer that clips all gradients together to a norm before another one applies them.

    In the towers of ``replicate_model_fn`` put it into the ``TowerOptimizer``, so that the sum of gradients is clipped.

    Args:
        optimizer: the other one.
        clip_norm: the largest norm.

    Raises:
        ConfigError: The norm is not positive.
    """
    check_instance("clip_gradients_by_norm", "optimizer", optimizer, tf.train.Optimizer)
    if check_number("clip_gradients_by_norm", "clip_norm", clip_norm, low=0) == 0:
        raise ConfigError("got clip_norm=0: expected a positive number")
    return _ClippingOptimizer(optimizer, clip_norm)


class _ClippingOptimizer(ProxyOptimizer):
    def __init__(self, optimizer: tf.train.Optimizer, clip_norm: float) -> None:
        super().__init__(optimizer, f"ClipByNorm{optimizer.get_name()}")
        self._clip_norm = clip_norm

    def apply_gradients(
        self, grads_and_vars: Any, global_step: tf.Variable | None = None, name: str | None = None
    ) -> tf.Operation:
        """Clip gradients, and apply them by the wrapped optimizer."""
        pairs = [(grad, variable) for grad, variable in grads_and_vars if grad is not None]
        clipped, _ = tf.clip_by_global_norm([grad for grad, _ in pairs], self._clip_norm)
        together = list(zip(clipped, (variable for _, variable in pairs), strict=True))
        return self._opt.apply_gradients(together, global_step, name)


def _call(estimator: Estimator, features: Any, labels: Any, mode: str, config: RunConfig | None) -> EstimatorSpec:
    return call_model_fn(estimator.model_fn, features, labels, mode, params=estimator.params, config=config)


def _dense_feature(features: dict[str, Any], key: str, fill: dict[str, Any]) -> tf.Tensor:
    if key not in features:
        raise ConfigError(f"forward_features got {key!r}: expected some of {', '.join(map(str, features))}")
    feature = features[key]
    if not isinstance(feature, tf.SparseTensor):
        if key in fill:
            raise ConfigError(f"got sparse_default_values with {key!r}, which is dense: expected sparse features")
        return tf.convert_to_tensor(feature)
    if key not in fill:
        raise ConfigError(f"got the sparse feature {key!r}: expected its fill value in sparse_default_values")
    return tf.sparse.to_dense(feature, default_value=fill[key])
