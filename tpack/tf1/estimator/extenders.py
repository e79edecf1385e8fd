"""Estimators made of others: with more metrics, with features among their predictions, with clipped gradients."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.estimator import Estimator
from tpack.estimator.inputs import call_with_accepted, required_arguments
from tpack.estimator.model_fn import call_model_fn
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import EstimatorSpec, ModeKeys, PredictOutput
from tpack.types import GradsAndVars
from tpack.utils.validation import check_arguments, check_instance, check_number, shown

_METRIC_ARGUMENTS = ("features", "labels", "predictions", "config")


@check_arguments
def add_metrics(estimator: Estimator, metric_fn: Callable[..., Mapping[str, Any]]) -> Estimator:
    """Return an Estimator like another one, in the same directory, that is evaluated by more metrics.

    Args:
        estimator: the other one.
        metric_fn: takes any of ``features``, ``labels``, ``predictions`` and ``config``; returns name to
            ``(value, update op)``. A metric of the model with the same name is replaced.

    Raises:
        ConfigError: ``metric_fn`` is no function of these arguments.
    """
    unknown = [name for name in required_arguments(metric_fn) if name not in _METRIC_ARGUMENTS]
    if unknown:
        raise ConfigError(f"metric_fn wants {', '.join(unknown)}, and may take {', '.join(_METRIC_ARGUMENTS)}")

    def model_fn(features: Any, labels: Any, mode: str, config: RunConfig | None = None) -> EstimatorSpec:
        spec = _call(estimator, features, labels, mode, config)
        if mode != ModeKeys.EVAL:
            return spec
        given = {"features": features, "labels": labels, "predictions": spec.predictions, "config": config}
        metrics = call_with_accepted(metric_fn, given)
        if not isinstance(metrics, Mapping):
            raise ConfigError(f"metric_fn must return a dict of metrics, got {shown(metrics)}")
        return spec._replace(eval_metric_ops={**spec.eval_metric_ops, **metrics})

    return Estimator(model_fn, estimator.model_dir, estimator.config)


@check_arguments
def forward_features(
    estimator: Estimator,
    keys: str | Sequence[str] | None = None,
    sparse_default_values: Mapping[str, Any] | None = None,
) -> Estimator:
    """Return an Estimator like another one, in the same directory, that predicts some of its features too.

    They tell whose predictions the others are.

    Args:
        estimator: the other one.
        keys: the features; None for all.
        sparse_default_values: what sparse features are filled with where they have nothing, by name.

    Raises:
        ConfigError: In prediction: there is no such feature, it is sparse and has no value to be filled with, or
            has one and is not sparse, or a prediction has its name.
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
            raise ConfigError("forward_features wants a dict of features and a model that predicts a dict")
        added = {key: _dense_feature(before, key, fill) for key in (list(before) if wanted is None else wanted)}
        taken = sorted(set(added) & set(spec.predictions))
        if taken:
            raise ConfigError(f"the model predicts {', '.join(taken)} already, so no feature can be called so")
        outputs = {
            name: PredictOutput({**output.outputs, **added}) if isinstance(output, PredictOutput) else output
            for name, output in (spec.export_outputs or {}).items()
        }
        return spec._replace(predictions={**spec.predictions, **added}, export_outputs=outputs)

    return Estimator(model_fn, estimator.model_dir, estimator.config)


@check_arguments
def clip_gradients_by_norm(optimizer: tf.train.Optimizer, clip_norm: float) -> tf.train.Optimizer:
    """Return an optimizer that clips all gradients together to a norm and leaves the rest to another one.

    In the towers of ``replicate_model_fn`` put it into the ``TowerOptimizer``, so that the sum of gradients is clipped.

    Args:
        optimizer: the other one.
        clip_norm: the largest norm.

    Raises:
        ConfigError: The norm is not positive.
    """
    check_instance("clip_gradients_by_norm", "optimizer", optimizer, tf.train.Optimizer)
    if check_number("clip_gradients_by_norm", "clip_norm", clip_norm, low=0) == 0:
        raise ConfigError("clip_norm must be positive, got 0")
    return _ClippingOptimizer(optimizer, clip_norm)


class _ClippingOptimizer(tf.train.Optimizer):
    def __init__(self, optimizer: tf.train.Optimizer, clip_norm: float) -> None:
        super().__init__(use_locking=False, name=f"ClipByNorm{optimizer.get_name()}")
        self._opt = optimizer
        self._clip_norm = clip_norm

    def compute_gradients(self, *args: Any, **kwargs: Any) -> GradsAndVars:
        """Return the pairs of the wrapped optimizer."""
        return list(self._opt.compute_gradients(*args, **kwargs))

    def apply_gradients(
        self, grads_and_vars: GradsAndVars, global_step: tf.Variable | None = None, name: str | None = None
    ) -> tf.Operation:
        """Clip gradients, and have the wrapped optimizer apply them."""
        pairs = [(grad, variable) for grad, variable in grads_and_vars if grad is not None]
        clipped, _ = tf.clip_by_global_norm([grad for grad, _ in pairs], self._clip_norm)
        together = list(zip(clipped, (variable for _, variable in pairs), strict=True))
        return self._opt.apply_gradients(together, global_step, name)

    def get_slot(self, *args: Any, **kwargs: Any) -> tf.Variable | None:
        """Return a slot of the wrapped optimizer."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        """Return the names of the wrapped optimizer's slots."""
        return list(self._opt.get_slot_names(*args, **kwargs))

    def variables(self) -> list[tf.Variable]:
        """Return the variables of the wrapped optimizer."""
        return list(self._opt.variables())


def _call(estimator: Estimator, features: Any, labels: Any, mode: str, config: RunConfig | None) -> EstimatorSpec:
    return call_model_fn(estimator.model_fn, features, labels, mode, params=estimator.params, config=config)


def _dense_feature(features: dict[str, Any], key: str, fill: dict[str, Any]) -> tf.Tensor:
    if key not in features:
        raise ConfigError(f"there is no feature {key!r} to forward, there are {', '.join(map(str, features))}")
    feature = features[key]
    if not isinstance(feature, tf.SparseTensor):
        if key in fill:
            raise ConfigError(f"sparse_default_values says how to fill the feature {key!r}, which is not sparse")
        return tf.convert_to_tensor(feature)
    if key not in fill:
        raise ConfigError(f"the feature {key!r} is sparse, and sparse_default_values does not say how to fill it")
    return tf.sparse.to_dense(feature, default_value=fill[key])
