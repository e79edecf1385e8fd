"""Ready-made models on feature columns: linear ones and networks of dense layers; and what all ready-made models share.

Each family has a model with any head, a classifier and a regressor.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.building import ModelFn, WarmStartSettings
from tpack.estimator.estimator import Estimator
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import EstimatorSpec
from tpack.tf1.estimator.heads.base import Head
from tpack.tf1.estimator.heads.classification import BinaryClassHead, MultiClassHead
from tpack.tf1.estimator.heads.regression import RegressionHead
from tpack.tf1.estimator.logits import (
    Activation,
    DnnOptions,
    Partitioner,
    check_columns,
    dnn_logit_fn,
    input_partitioner,
    linear_logit_fn_builder,
    one_part,
)
from tpack.tf1.estimator.optimizers import OptimizerLike, check_optimizer, make_optimizer
from tpack.tf1.signatures import like, parameter
from tpack.utils.validation import check_arguments, check_count, check_instance

# Parameters of classifiers and regressors besides those of the models with any head.
CLASSES = {
    "n_classes": 2,
    "weight_column": None,
    "label_vocabulary": parameter("label_vocabulary", Sequence[str] | None, None),
}
NUMBERS = {"label_dimension": 1, "weight_column": None}
WARM_START = {"warm_start_from": parameter("warm_start_from", str | WarmStartSettings | None, None)}
LOSS = {"loss_reduction": tf.losses.Reduction.SUM}

_DNN_RATE = 0.05
_LINEAR_RATE = 0.2


class Family(Estimator):
    """Base of the models of a family, which make the model_fn for a head and the arguments of the family."""

    def _make(self, head: Head, **given: Any) -> ModelFn:
        raise NotImplementedError

    def _init(self, head: Head, **given: Any) -> None:
        check_instance(self, "head", head, Head, "a head, such as tf.estimator.MultiClassHead(3)")
        places = [given.pop(name, None) for name in ("model_dir", "config", "warm_start_from")]
        model_dir, config, warm_start_from = places
        Estimator.__init__(self, self._make(head, **given), model_dir, config, None, warm_start_from)


def classification_head(
    n_classes: int, weight_column: Any, label_vocabulary: Sequence[str] | None, loss_reduction: str
) -> Head:
    """Return the head for ``n_classes`` classes; raise ConfigError if there are fewer than two classes."""
    if check_count("a classifier", "n_classes", n_classes, minimum=2) == 2:
        return BinaryClassHead(weight_column, None, label_vocabulary, loss_reduction)
    return MultiClassHead(n_classes, weight_column, label_vocabulary, loss_reduction)


def init_classifier(
    self: Any, n_classes: int, weight_column: Any, label_vocabulary: Any, loss_reduction: str, **given: Any
) -> None:
    """Make a classifier of a family; the ``__init__`` of each."""
    self._init(classification_head(n_classes, weight_column, label_vocabulary, loss_reduction), **given)


def init_regressor(self: Any, label_dimension: int, weight_column: Any, loss_reduction: str, **given: Any) -> None:
    """Make a regressor of a family; the ``__init__`` of each."""
    self._init(RegressionHead(label_dimension, weight_column, loss_reduction), **given)


def model_scope(name: str, partitioner: Callable[..., Any]) -> Any:
    """Open the variable scope of a part of a model, with a partitioner for its variables."""
    return tf.variable_scope(name, partitioner=partitioner, use_resource=True)


@dataclass(frozen=True)
class LinearPart:
    """The linear model, or the linear part of one."""

    columns: Any
    optimizer: OptimizerLike
    partitioner: Partitioner | None
    sparse_combiner: str
    highest_rate: float = _LINEAR_RATE
    name: ClassVar[str] = "linear"

    def scope(self) -> Any:
        """Open the variable scope."""
        return model_scope(self.name, self.partitioner or input_partitioner())

    def logits(self, units: int, features: Any, mode: str) -> tf.Tensor:
        """Return the logits of so many units, in the scope."""
        del mode
        return linear_logit_fn_builder(units, self.columns, self.sparse_combiner)(features)

    def make_optimizer(self) -> tf.train.Optimizer:
        """Return the optimizer."""
        return make_optimizer(self.optimizer, min(self.highest_rate, 1.0 / math.sqrt(len(self.columns))))


@dataclass(frozen=True)
class DeepPart:
    """The network, or the network in a model."""

    columns: Any
    optimizer: OptimizerLike
    options: DnnOptions
    rate: float = _DNN_RATE
    name: ClassVar[str] = "dnn"

    def scope(self) -> Any:
        """Open the variable scope."""
        return model_scope(self.name, one_part())

    def logits(self, units: int, features: Any, mode: str) -> tf.Tensor:
        """Return the logits of so many units, in the scope."""
        return dnn_logit_fn(units, self.columns, self.options)(features, mode)

    def make_optimizer(self) -> tf.train.Optimizer:
        """Return the optimizer."""
        return make_optimizer(self.optimizer, self.rate)


def check_features(features: Any) -> None:
    """Check that features are a dict, for feature columns; raise ConfigError if they are not."""
    if not isinstance(features, dict):
        raise ConfigError(f"a model with feature columns got {features!r}: expected a dict of features")


def _model_of_part(head: Head, part: LinearPart | DeepPart) -> ModelFn:
    check_optimizer(part.optimizer)

    def model_fn(features: Any, labels: Any, mode: str, config: RunConfig | None = None) -> EstimatorSpec:
        check_features(features)
        with part.scope():
            logits = part.logits(head.logits_dimension, features, mode)
            return head.create_estimator_spec(features, mode, logits, labels, optimizer=part.make_optimizer())

    return model_fn


class _DNN(Family):
    def _make(self, head: Head, **given: Any) -> ModelFn:
        columns = check_columns(self, given["feature_columns"])
        names = ("activation_fn", "dropout", "input_layer_partitioner", "batch_norm")
        options = DnnOptions(tuple(given["hidden_units"]), *(given[name] for name in names))
        return _model_of_part(head, DeepPart(columns, given["optimizer"], options))


@check_arguments
class DNNEstimator(_DNN):
    """A network of dense layers with any head.

    Args:
        head: the meaning of the logits.
        hidden_units: the widths of the hidden layers.
        feature_columns: the columns, which have to be dense.
        model_dir: as for `Estimator`.
        optimizer: an optimizer, its name, or a function that makes one. A name stands for a learning rate of 0.05.
        activation_fn: of the hidden layers; None for none.
        dropout: the share of each hidden layer that is dropped in training.
        input_layer_partitioner: for the variables of columns, such as embeddings.
        config: as for `Estimator`.
        warm_start_from: as for `Estimator`.
        batch_norm: normalise each hidden layer.

    Raises:
        ConfigError: There are no columns, a width is not positive, or the optimizer is unknown.
    """

    def __init__(
        self,
        head: Head,
        hidden_units: Sequence[int],
        feature_columns: Any,
        model_dir: str | None = None,
        optimizer: OptimizerLike = "Adagrad",
        activation_fn: Activation | None = tf.nn.relu,
        dropout: float | None = None,
        input_layer_partitioner: Partitioner | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | WarmStartSettings | None = None,
        batch_norm: bool = False,
    ) -> None:
        given = locals()
        del given["self"]
        self._init(**given)


@check_arguments
class DNNClassifier(_DNN):
    """A network of dense layers that predicts classes.

    The arguments are those of `DNNEstimator`, ``n_classes``, ``weight_column``, which is a key of the features or a
    numeric column, ``label_vocabulary``, the names of the classes, and the ``loss_reduction`` of examples' losses.

    Raises:
        ConfigError: As for `DNNEstimator`, or there are fewer than two classes.
    """

    __init__ = like(DNNEstimator.__init__, without="head", after={"model_dir": CLASSES, "warm_start_from": LOSS})(
        init_classifier
    )


@check_arguments
class DNNRegressor(_DNN):
    """A network of dense layers that predicts ``label_dimension`` numbers; see `DNNClassifier`.

    Raises:
        ConfigError: As for `DNNEstimator`, or the dimension is not positive.
    """

    __init__ = like(DNNEstimator.__init__, without="head", after={"model_dir": NUMBERS, "warm_start_from": LOSS})(
        init_regressor
    )


class _LinearModel(Family):
    def _make(self, head: Head, **given: Any) -> ModelFn:
        names = ("optimizer", "partitioner", "sparse_combiner")
        columns = check_columns(self, given["feature_columns"])
        return _model_of_part(head, LinearPart(columns, *(given[name] for name in names)))


@check_arguments
class LinearEstimator(_LinearModel):
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
        del given["self"]
        self._init(**given)


@check_arguments
class LinearClassifier(_LinearModel):
    """A linear classifier: logistic regression, of two classes or several.

    Its arguments are those of `LinearEstimator`, of classes as for `DNNClassifier`, and ``warm_start_from``.

    Raises:
        ConfigError: As for `LinearEstimator`, or there are fewer than two classes.
    """

    __init__ = like(
        LinearEstimator.__init__, without="head", after={"model_dir": CLASSES, "partitioner": WARM_START | LOSS}
    )(init_classifier)


@check_arguments
class LinearRegressor(_LinearModel):
    """A linear regression by the squared error, of ``label_dimension`` numbers; see `LinearClassifier`.

    Raises:
        ConfigError: As for `LinearEstimator`, or the dimension is not positive.
    """

    __init__ = like(
        LinearEstimator.__init__, without="head", after={"model_dir": NUMBERS, "partitioner": WARM_START | LOSS}
    )(init_regressor)
