"""Models that ignore features: they learn the mean label, or the frequencies of classes."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.building import ModelFn
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import EstimatorSpec
from tpack.tf1.estimator.canned import CLASSES, LOSS, NUMBERS, Family, init_classifier, init_regressor
from tpack.tf1.estimator.heads.base import Head
from tpack.tf1.estimator.optimizers import OptimizerLike, check_optimizer, make_optimizer
from tpack.tf1.signatures import like
from tpack.utils.validation import check_arguments

_LEARNING_RATE = 0.3


class _Baseline(Family):
    def _make(self, head: Head, **given: Any) -> ModelFn:
        optimizer = given["optimizer"]
        check_optimizer(optimizer)

        def model_fn(features: Any, labels: Any, mode: str, config: RunConfig | None = None) -> EstimatorSpec:
            logits = _baseline_logits(features, head.logits_dimension)
            made = make_optimizer(optimizer, _LEARNING_RATE)
            return head.create_estimator_spec(features, mode, logits, labels, optimizer=made)

        return model_fn


@check_arguments
class BaselineEstimator(_Baseline):
    """A bias for each logit, and any head, whatever the features.

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
        self._init(head, model_dir=model_dir, optimizer=optimizer, config=config)


@check_arguments
class BaselineClassifier(_Baseline):
    """The frequency of each class; arguments of classes are those of `DNNClassifier`.

    Raises:
        ConfigError: There are fewer than two classes, or the optimizer is unknown.
    """

    __init__ = like(BaselineEstimator.__init__, without="head", after={"model_dir": CLASSES, "config": LOSS})(
        init_classifier
    )


@check_arguments
class BaselineRegressor(_Baseline):
    """The mean of ``label_dimension`` numbers of labels.

    Raises:
        ConfigError: The dimension is not positive, or the optimizer is unknown.
    """

    __init__ = like(BaselineEstimator.__init__, without="head", after={"model_dir": NUMBERS, "config": LOSS})(
        init_regressor
    )


def _baseline_logits(features: Any, units: int) -> tf.Tensor:
    if not isinstance(features, dict) or not features:
        raise ConfigError(f"a baseline model got {features!r}: expected a dict of features, to count examples")
    tensor = next(iter(features.values()))
    num_examples = tensor.dense_shape[0] if isinstance(tensor, tf.SparseTensor) else tf.shape(tensor)[0]
    with tf.variable_scope("baseline", use_resource=True):
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        return tf.ones([num_examples, 1]) * bias
