"""Models that ignore features: they learn the mean label, or the frequencies of classes."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.building import ModelFn
from tpack.estimator.estimator import Estimator
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import EstimatorSpec
from tpack.tf1.estimator.canned import CLASSES, LOSS, NUMBERS, check_head, classification_head
from tpack.tf1.estimator.heads.base import Head
from tpack.tf1.estimator.heads.regression import RegressionHead
from tpack.tf1.estimator.optimizers import OptimizerLike, check_optimizer, make_optimizer
from tpack.tf1.signatures import like
from tpack.utils.validation import check_arguments

_LEARNING_RATE = 0.3


@check_arguments
class BaselineEstimator(Estimator):
    """A bias for each logit, and any head.

    Args:
        head: the meaning of the logits.
        model_dir: as for `Estimator`.
        optimizer: an optimizer, its name, or a function that makes one. A name stands for a learning rate of 0.3.
        config: as for `Estimator`.

    Raises:
        ConfigError: The optimizer is unknown.
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
    """The frequency of each class.

    Args:
        n_classes: the number of classes.
        weight_column: a key of the features, or a numeric column.
        label_vocabulary: the names of the classes.
        optimizer: as for `BaselineEstimator`.
        loss_reduction: of the losses of examples.
        **given: as for `Estimator`.

    Raises:
        ConfigError: There are fewer than two classes, or the optimizer is unknown.
    """

    @like(BaselineEstimator.__init__, without="head", after={"model_dir": CLASSES, "config": LOSS})
    def __init__(
        self,
        n_classes: int,
        weight_column: Any,
        label_vocabulary: Any,
        loss_reduction: str,
        optimizer: OptimizerLike,
        **given: Any,
    ) -> None:
        head = classification_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        super().__init__(_baseline_model_fn(head, optimizer), **given)


@check_arguments
class BaselineRegressor(Estimator):
    """The mean label.

    Args:
        label_dimension: the number of numbers of an example.
        weight_column: a key of the features, or a numeric column.
        optimizer: as for `BaselineEstimator`.
        loss_reduction: of the losses of examples.
        **given: as for `Estimator`.

    Raises:
        ConfigError: The dimension is not positive, or the optimizer is unknown.
    """

    @like(BaselineEstimator.__init__, without="head", after={"model_dir": NUMBERS, "config": LOSS})
    def __init__(
        self, label_dimension: int, weight_column: Any, loss_reduction: str, optimizer: OptimizerLike, **given: Any
    ) -> None:
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        super().__init__(_baseline_model_fn(head, optimizer), **given)


def _baseline_model_fn(head: Head, optimizer: OptimizerLike) -> ModelFn:
    check_optimizer(optimizer)

    def model_fn(features: Any, labels: Any, mode: str, config: RunConfig | None = None) -> EstimatorSpec:
        logits = _logits(features, head.logits_dimension)
        made = make_optimizer(optimizer, _LEARNING_RATE)
        return head.create_estimator_spec(features, mode, logits, labels, optimizer=made)

    return model_fn


def _logits(features: Any, units: int) -> tf.Tensor:
    if not isinstance(features, dict) or not features:
        raise ConfigError(f"a baseline model got {features!r}: expected a dict of features, to count examples")
    tensor = next(iter(features.values()))
    num_examples = tensor.dense_shape[0] if isinstance(tensor, tf.SparseTensor) else tf.shape(tensor)[0]
    with tf.variable_scope("baseline", use_resource=True):
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        return tf.ones([num_examples, 1]) * bias
