"""Linear models of feature columns."""

import math
from typing import Any

from tpack.estimator.building import ModelFn
from tpack.estimator.estimator import Estimator
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import EstimatorSpec
from tpack.tf1.estimator.canned import (
    CLASSES,
    LOSS,
    NUMBERS,
    WARM_START,
    check_features,
    check_head,
    classification_head,
    model_scope,
)
from tpack.tf1.estimator.heads.base import Head
from tpack.tf1.estimator.heads.regression import RegressionHead
from tpack.tf1.estimator.logits import Partitioner, check_columns, input_partitioner, linear_logit_fn_builder
from tpack.tf1.estimator.optimizers import OptimizerLike, check_optimizer, make_optimizer
from tpack.tf1.signatures import like
from tpack.utils.validation import check_arguments

_HIGHEST_RATE = 0.2


@check_arguments
class LinearEstimator(Estimator):
    """A linear model with any head.

    Args:
        head: the meaning of the logits.
        feature_columns: the columns.
        model_dir: as for `Estimator`.
        optimizer: an optimizer, its name, or a function that makes one. A name stands for a learning rate of 0.2, or
            1 / sqrt(number of columns) if that is less.
        config: as for `Estimator`.
        partitioner: for the variables.
        sparse_combiner: of the weights of an example's categories: ``"sum"``, ``"mean"`` or ``"sqrtn"``.

    Raises:
        ConfigError: There are no columns, or the optimizer is unknown.
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
        given = locals()
        del given["self"], given["head"], given["__class__"]
        super().__init__(*_arguments(self, check_head(self, head), **given))


@check_arguments
class LinearClassifier(Estimator):
    """A linear classifier: logistic regression, of two classes or several.

    Args:
        n_classes: the number of classes.
        weight_column: a key of the features, or a numeric column.
        label_vocabulary: the names of the classes.
        loss_reduction: of the losses of examples.
        **given: as for `LinearEstimator` and, with ``warm_start_from``, `Estimator`.

    Raises:
        ConfigError: As for `LinearEstimator`, or there are fewer than two classes.
    """

    @like(LinearEstimator.__init__, without="head", after={"model_dir": CLASSES, "partitioner": WARM_START | LOSS})
    def __init__(
        self, n_classes: int, weight_column: Any, label_vocabulary: Any, loss_reduction: str, **given: Any
    ) -> None:
        head = classification_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        super().__init__(*_arguments(self, head, **given))


@check_arguments
class LinearRegressor(Estimator):
    """A linear regression by the squared error.

    Args:
        label_dimension: the number of numbers of an example.
        weight_column: a key of the features, or a numeric column.
        loss_reduction: of the losses of examples.
        **given: as for `LinearEstimator` and, with ``warm_start_from``, `Estimator`.

    Raises:
        ConfigError: As for `LinearEstimator`, or the dimension is not positive.
    """

    @like(LinearEstimator.__init__, without="head", after={"model_dir": NUMBERS, "partitioner": WARM_START | LOSS})
    def __init__(self, label_dimension: int, weight_column: Any, loss_reduction: str, **given: Any) -> None:
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        super().__init__(*_arguments(self, head, **given))


def _arguments(owner: object, head: Head, *, feature_columns: Any, **given: Any) -> tuple[Any, ...]:
    """Return the arguments of `Estimator`."""
    columns = check_columns(owner, feature_columns)
    model_fn = _linear_model_fn(head, columns, given["optimizer"], given["partitioner"], given["sparse_combiner"])
    return model_fn, given["model_dir"], given["config"], None, given.get("warm_start_from")


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
