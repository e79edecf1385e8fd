"""``tf.contrib.estimator`` of TensorFlow 1: heads as functions, and what it added to Estimators."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tf1.estimator.heads.base import Head
from tpack.tf1.estimator.heads.classification import BinaryClassHead, MultiClassHead, MultiLabelHead
from tpack.tf1.estimator.heads.multi import MultiHead
from tpack.tf1.estimator.heads.regression import LogisticRegressionHead, PoissonRegressionHead, RegressionHead
from tpack.tf1.name_table import look_up
from tpack.tf1.signatures import like
from tpack.utils.validation import check_arguments

_MEAN = tf.losses.Reduction.SUM_OVER_BATCH_SIZE
_DIMENSION_SECOND = {"weight_column": {"label_dimension": 1}}

_HEADS = (
    "binary_classification_head logistic_regression_head multi_class_head multi_head multi_label_head "
    "poisson_regression_head regression_head"
)

__getattr__, __dir__, __all__ = look_up(
    __name__,
    {
        "tpack.estimator": "TowerOptimizer replicate_model_fn",
        "tpack.tf1.estimator": "BaselineEstimator DNNEstimator DNNLinearCombinedEstimator LinearEstimator",
        "tpack.tf1.estimator.hooks": "read_eval_metrics",
        "tpack.tf1.estimator.experimental": "*",
        "tpack.tf1.estimator.export": "StepsExporter",
        "tpack.tf1.estimator.extenders": "add_metrics clip_gradients_by_norm forward_features",
    },
    own=_HEADS.split(),
)


@check_arguments
@like(BinaryClassHead, loss_reduction=_MEAN)
def binary_classification_head(**given: Any) -> Head:
    """Return a `BinaryClassHead`, whose arguments these are."""
    return BinaryClassHead(**given)


@check_arguments
@like(MultiClassHead, loss_reduction=_MEAN)
def multi_class_head(**given: Any) -> Head:
    """Return a `MultiClassHead`, whose arguments these are."""
    return MultiClassHead(**given)


@check_arguments
@like(MultiLabelHead, loss_reduction=_MEAN)
def multi_label_head(**given: Any) -> Head:
    """Return a `MultiLabelHead`, whose arguments these are."""
    return MultiLabelHead(**given)


@check_arguments
@like(RegressionHead, without="label_dimension", after=_DIMENSION_SECOND, loss_reduction=_MEAN)
def regression_head(**given: Any) -> Head:
    """Return a `RegressionHead`, with its first two arguments swapped."""
    return RegressionHead(**given)


@check_arguments
@like(PoissonRegressionHead, without="label_dimension", after=_DIMENSION_SECOND, loss_reduction=_MEAN)
def poisson_regression_head(**given: Any) -> Head:
    """Return a `PoissonRegressionHead`, with its first two arguments swapped."""
    return PoissonRegressionHead(**given)


@check_arguments
@like(LogisticRegressionHead, loss_reduction=_MEAN)
def logistic_regression_head(**given: Any) -> Head:
    """Return a `LogisticRegressionHead`, whose arguments these are."""
    return LogisticRegressionHead(**given)


@check_arguments
@like(MultiHead)
def multi_head(**given: Any) -> Head:
    """Return a `MultiHead`, whose arguments these are."""
    return MultiHead(**given)
