"""``tf.contrib.estimator`` of TensorFlow 1: heads as functions, and what it added to Estimators."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tf1.estimator.heads.base import Head, LossFn
from tpack.tf1.estimator.heads.classification import BinaryClassHead, MultiClassHead
from tpack.tf1.estimator.heads.multi import MultiHead
from tpack.tf1.estimator.heads.multi_label import MultiLabelHead
from tpack.tf1.estimator.heads.regression import LogisticRegressionHead, PoissonRegressionHead, RegressionHead
from tpack.tf1.name_table import look_up
from tpack.utils.validation import check_arguments

_MEAN = tf.losses.Reduction.SUM_OVER_BATCH_SIZE

_HEADS = (
    "binary_classification_head logistic_regression_head multi_class_head multi_head multi_label_head "
    "poisson_regression_head regression_head"
)

__getattr__, __dir__, __all__ = look_up(
    __name__,
    {
        "tpack.estimator": "TowerOptimizer replicate_model_fn",
        "tpack.tf1.estimator": "BaselineEstimator DNNEstimator DNNLinearCombinedEstimator LinearEstimator",
        "tpack.tf1.estimator.early_stopping": "read_eval_metrics",
        "tpack.tf1.estimator.experimental": "*",
        "tpack.tf1.estimator.exporters": "StepsExporter",
        "tpack.tf1.estimator.extenders": "add_metrics clip_gradients_by_norm forward_features",
    },
    own=_HEADS.split(),
)


@check_arguments
def binary_classification_head(
    weight_column: Any = None,
    thresholds: Sequence[float] | None = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = _MEAN,
    loss_fn: LossFn | None = None,
    name: str | None = None,
) -> Head:
    """Return a `BinaryClassHead`, whose arguments these are."""
    return BinaryClassHead(weight_column, thresholds, label_vocabulary, loss_reduction, loss_fn, name)


@check_arguments
def multi_class_head(
    n_classes: int,
    weight_column: Any = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = _MEAN,
    loss_fn: LossFn | None = None,
    name: str | None = None,
) -> Head:
    """Return a `MultiClassHead`, whose arguments these are."""
    return MultiClassHead(n_classes, weight_column, label_vocabulary, loss_reduction, loss_fn, name)


@check_arguments
def multi_label_head(
    n_classes: int,
    weight_column: Any = None,
    thresholds: Sequence[float] | None = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = _MEAN,
    loss_fn: LossFn | None = None,
    classes_for_class_based_metrics: Sequence[Any] | None = None,
    name: str | None = None,
) -> Head:
    """Return a `MultiLabelHead`, whose arguments these are."""
    return MultiLabelHead(
        n_classes,
        weight_column,
        thresholds,
        label_vocabulary,
        loss_reduction,
        loss_fn,
        classes_for_class_based_metrics,
        name,
    )


@check_arguments
def regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: str = _MEAN,
    loss_fn: LossFn | None = None,
    inverse_link_fn: Callable[[tf.Tensor], tf.Tensor] | None = None,
    name: str | None = None,
) -> Head:
    """Return a `RegressionHead`; the first two of its arguments change places."""
    return RegressionHead(label_dimension, weight_column, loss_reduction, loss_fn, inverse_link_fn, name)


@check_arguments
def poisson_regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: str = _MEAN,
    compute_full_loss: bool = True,
    name: str | None = None,
) -> Head:
    """Return a `PoissonRegressionHead`; the first two of its arguments change places."""
    return PoissonRegressionHead(label_dimension, weight_column, loss_reduction, compute_full_loss, name)


@check_arguments
def logistic_regression_head(weight_column: Any = None, loss_reduction: str = _MEAN, name: str | None = None) -> Head:
    """Return a `LogisticRegressionHead`, whose arguments these are."""
    return LogisticRegressionHead(weight_column, loss_reduction, name)


@check_arguments
def multi_head(heads: Sequence[Head], head_weights: Sequence[float] | None = None) -> Head:
    """Return a `MultiHead`, whose arguments these are."""
    return MultiHead(heads, head_weights)
