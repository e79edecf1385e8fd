"""Linear models of feature columns."""

import math
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.estimator.building import WarmStartSettings
from tpack.estimator.estimator import Estimator
from tpack.estimator.model_fn import ModelFn
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import EstimatorSpec
from tpack.tf1.estimator.canned import check_features, check_head, classification_head, model_scope, regression_head
from tpack.tf1.estimator.heads.base import Head
from tpack.tf1.estimator.logits import (
    Partitioner,
    check_columns,
    input_partitioner,
    linear_logit_fn_builder,
)
from tpack.tf1.estimator.optimizers import OptimizerLike, check_optimizer, make_optimizer
from tpack.utils.validation import check_arguments

_HIGHEST_RATE = 0.2
_SUM = tf.losses.Reduction.SUM


@check_arguments
class LinearEstimator(Estimator):
    """A linear model with any head.

    Args:
        head: what the logits mean.
        feature_columns: the columns.
        model_dir: as for `Estimator`.
        optimizer: an optimizer, its name, or a function that makes one. That of a name learns at a rate of 0.2, or one
            over the root of the number of columns if that is less.
        config: as for `Estimator`.
        partitioner: for the variables.
        sparse_combiner: how the weights of an example's several categories are added up: ``"sum"``, ``"mean"`` or
            ``"sqrtn"``.

    Raises:
        ConfigError: There are no columns, or no such optimizer.
    """

    def __init__(
        self,
        head: Head,
        feature_columns: Any,
        model_dir: str | None = None,
        optimizer: OptimizerLike = "Ftrl",
        config: RunConfig | None = None,
        partitioner: Partitioner | None = None,
        sparse_combiner: str = "sum",
    ) -> None:
        check_head(self, head)
        columns = check_columns(self, feature_columns)
        super().__init__(_linear_model_fn(head, columns, optimizer, partitioner, sparse_combiner), model_dir, config)


@check_arguments
class LinearClassifier(Estimator):
    """A linear classifier: logistic regression, of two classes or several.

    Args:
        feature_columns: the columns.
        model_dir: as for `Estimator`.
        n_classes: how many classes.
        weight_column: a key of the features, or a numeric column.
        label_vocabulary: the names of the classes.
        optimizer: as for `LinearEstimator`.
        config: as for `Estimator`.
        partitioner: for the variables.
        warm_start_from: as for `Estimator`.
        loss_reduction: how the losses of examples become one.
        sparse_combiner: as for `LinearEstimator`.

    Raises:
        ConfigError: There are no columns, fewer than two classes, or no such optimizer.
    """

    def __init__(
        self,
        feature_columns: Any,
        model_dir: str | None = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: OptimizerLike = "Ftrl",
        config: RunConfig | None = None,
        partitioner: Partitioner | None = None,
        warm_start_from: str | WarmStartSettings | None = None,
        loss_reduction: str = _SUM,
        sparse_combiner: str = "sum",
    ) -> None:
        head = classification_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        columns = check_columns(self, feature_columns)
        model_fn = _linear_model_fn(head, columns, optimizer, partitioner, sparse_combiner)
        super().__init__(model_fn, model_dir, config, None, warm_start_from)


@check_arguments
class LinearRegressor(Estimator):
    """A linear regression by the squared error.

    Args:
        feature_columns: the columns.
        model_dir: as for `Estimator`.
        label_dimension: how many numbers an example has.
        weight_column: a key of the features, or a numeric column.
        optimizer: as for `LinearEstimator`.
        config: as for `Estimator`.
        partitioner: for the variables.
        warm_start_from: as for `Estimator`.
        loss_reduction: how the losses of examples become one.
        sparse_combiner: as for `LinearEstimator`.

    Raises:
        ConfigError: There are no columns, the dimension is not positive, or there is no such optimizer.
    """

    def __init__(
        self,
        feature_columns: Any,
        model_dir: str | None = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: OptimizerLike = "Ftrl",
        config: RunConfig | None = None,
        partitioner: Partitioner | None = None,
        warm_start_from: str | WarmStartSettings | None = None,
        loss_reduction: str = _SUM,
        sparse_combiner: str = "sum",
    ) -> None:
        head = regression_head(label_dimension, weight_column, loss_reduction)
        columns = check_columns(self, feature_columns)
        model_fn = _linear_model_fn(head, columns, optimizer, partitioner, sparse_combiner)
        super().__init__(model_fn, model_dir, config, None, warm_start_from)


def _linear_model_fn(
    head: Head, columns: list[Any], optimizer: OptimizerLike, partitioner: Partitioner | None, sparse_combiner: str
) -> ModelFn:
    check_optimizer(optimizer)
    rate = min(_HIGHEST_RATE, 1.0 / math.sqrt(len(columns)))

    def model_fn(features: Any, labels: Any, mode: str, config: RunConfig | None = None) -> EstimatorSpec:
        check_features(features)
        with model_scope("linear", partitioner or input_partitioner()):
            logits = linear_logit_fn_builder(head.logits_dimension, columns, sparse_combiner)(features)
            return head.create_estimator_spec(features, mode, logits, labels, optimizer=make_optimizer(optimizer, rate))

    return model_fn
