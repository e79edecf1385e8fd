"""Models that look at no feature: they learn the mean label, or how frequent classes are."""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.estimator import Estimator
from tpack.estimator.model_fn import ModelFn
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import EstimatorSpec
from tpack.tf1.estimator.canned import check_head, classification_head, regression_head
from tpack.tf1.estimator.heads.base import Head
from tpack.tf1.estimator.optimizers import OptimizerLike, check_optimizer, make_optimizer
from tpack.utils.validation import check_arguments

_LEARNING_RATE = 0.3
_SUM = tf.losses.Reduction.SUM


@check_arguments
class BaselineEstimator(Estimator):
    """A bias for each logit, and any head.

    Args:
        head: what the logits mean.
        model_dir: as for `Estimator`.
        optimizer: an optimizer, its name, or a function that makes one. That of a name learns at a rate of 0.3.
        config: as for `Estimator`.

    Raises:
        ConfigError: There is no such optimizer.
    """

    def __init__(
        self,
        head: Head,
        model_dir: str | None = None,
        optimizer: OptimizerLike = "Ftrl",
        config: RunConfig | None = None,
    ) -> None:
        super().__init__(_baseline_model_fn(check_head(self, head), optimizer), model_dir, config)


@check_arguments
class BaselineClassifier(Estimator):
    """How frequent each class is.

    Args:
        model_dir: as for `Estimator`.
        n_classes: how many classes.
        weight_column: a key of the features, or a numeric column.
        label_vocabulary: the names of the classes.
        optimizer: as for `BaselineEstimator`.
        config: as for `Estimator`.
        loss_reduction: how the losses of examples become one.

    Raises:
        ConfigError: There are fewer than two classes, or no such optimizer.
    """

    def __init__(
        self,
        model_dir: str | None = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: OptimizerLike = "Ftrl",
        config: RunConfig | None = None,
        loss_reduction: str = _SUM,
    ) -> None:
        head = classification_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        super().__init__(_baseline_model_fn(head, optimizer), model_dir, config)


@check_arguments
class BaselineRegressor(Estimator):
    """The mean label.

    Args:
        model_dir: as for `Estimator`.
        label_dimension: how many numbers an example has.
        weight_column: a key of the features, or a numeric column.
        optimizer: as for `BaselineEstimator`.
        config: as for `Estimator`.
        loss_reduction: how the losses of examples become one.

    Raises:
        ConfigError: The dimension is not positive, or there is no such optimizer.
    """

    def __init__(
        self,
        model_dir: str | None = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: OptimizerLike = "Ftrl",
        config: RunConfig | None = None,
        loss_reduction: str = _SUM,
    ) -> None:
        head = regression_head(label_dimension, weight_column, loss_reduction)
        super().__init__(_baseline_model_fn(head, optimizer), model_dir, config)


def _baseline_model_fn(head: Head, optimizer: OptimizerLike) -> ModelFn:
    check_optimizer(optimizer)

    def model_fn(features: Any, labels: Any, mode: str, config: RunConfig | None = None) -> EstimatorSpec:
        logits = _logits(features, head.logits_dimension)
        made = make_optimizer(optimizer, _LEARNING_RATE)
        return head.create_estimator_spec(features, mode, logits, labels, optimizer=made)

    return model_fn


def _logits(features: Any, units: int) -> tf.Tensor:
    if not isinstance(features, dict) or not features:
        raise ConfigError(f"a baseline model counts examples by a dict of features, got {features!r}")
    tensor = next(iter(features.values()))
    num_examples = tensor.dense_shape[0] if isinstance(tensor, tf.SparseTensor) else tf.shape(tensor)[0]
    with tf.variable_scope("baseline", use_resource=True):
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        return tf.ones([num_examples, 1]) * bias
