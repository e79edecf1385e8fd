"""Networks of dense layers on feature columns."""

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
    Activation,
    DnnOptions,
    Partitioner,
    check_columns,
    dnn_logit_fn,
    one_part,
)
from tpack.tf1.estimator.optimizers import OptimizerLike, check_optimizer, make_optimizer
from tpack.utils.validation import check_arguments

_LEARNING_RATE = 0.05
_SUM = tf.losses.Reduction.SUM


@check_arguments
class DNNEstimator(Estimator):
    """A network of dense layers with any head.

    Args:
        head: what the logits mean.
        hidden_units: the widths of the hidden layers.
        feature_columns: the columns, which have to be dense.
        model_dir: as for `Estimator`.
        optimizer: an optimizer, its name, or a function that makes one. That of a name learns at a rate of 0.05.
        activation_fn: of the hidden layers; None for none.
        dropout: how much of each hidden layer is dropped in training.
        input_layer_partitioner: for the variables of columns, such as embeddings.
        config: as for `Estimator`.
        warm_start_from: as for `Estimator`.
        batch_norm: normalise each hidden layer.

    Raises:
        ConfigError: There are no columns, a width is not positive, or there is no such optimizer.
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
        columns = check_columns(self, feature_columns)
        options = DnnOptions(tuple(hidden_units), activation_fn, dropout, input_layer_partitioner, batch_norm)
        model_fn = _dnn_model_fn(check_head(self, head), columns, options, optimizer)
        super().__init__(model_fn, model_dir, config, None, warm_start_from)


@check_arguments
class DNNClassifier(Estimator):
    """A network of dense layers that tells classes.

    Args:
        hidden_units: the widths of the hidden layers.
        feature_columns: the columns, which have to be dense.
        model_dir: as for `Estimator`.
        n_classes: how many classes.
        weight_column: a key of the features, or a numeric column.
        label_vocabulary: the names of the classes.
        optimizer: as for `DNNEstimator`.
        activation_fn: of the hidden layers; None for none.
        dropout: how much of each hidden layer is dropped in training.
        input_layer_partitioner: for the variables of columns, such as embeddings.
        config: as for `Estimator`.
        warm_start_from: as for `Estimator`.
        loss_reduction: how the losses of examples become one.
        batch_norm: normalise each hidden layer.

    Raises:
        ConfigError: There are no columns, fewer than two classes, a width that is not positive, or no such optimizer.
    """

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Any,
        model_dir: str | None = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: OptimizerLike = "Adagrad",
        activation_fn: Activation | None = tf.nn.relu,
        dropout: float | None = None,
        input_layer_partitioner: Partitioner | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | WarmStartSettings | None = None,
        loss_reduction: str = _SUM,
        batch_norm: bool = False,
    ) -> None:
        head = classification_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        columns = check_columns(self, feature_columns)
        options = DnnOptions(tuple(hidden_units), activation_fn, dropout, input_layer_partitioner, batch_norm)
        super().__init__(_dnn_model_fn(head, columns, options, optimizer), model_dir, config, None, warm_start_from)


@check_arguments
class DNNRegressor(Estimator):
    """A network of dense layers that predicts numbers.

    Args:
        hidden_units: the widths of the hidden layers.
        feature_columns: the columns, which have to be dense.
        model_dir: as for `Estimator`.
        label_dimension: how many numbers an example has.
        weight_column: a key of the features, or a numeric column.
        optimizer: as for `DNNEstimator`.
        activation_fn: of the hidden layers; None for none.
        dropout: how much of each hidden layer is dropped in training.
        input_layer_partitioner: for the variables of columns, such as embeddings.
        config: as for `Estimator`.
        warm_start_from: as for `Estimator`.
        loss_reduction: how the losses of examples become one.
        batch_norm: normalise each hidden layer.

    Raises:
        ConfigError: There are no columns, a number is not positive, or there is no such optimizer.
    """

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Any,
        model_dir: str | None = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: OptimizerLike = "Adagrad",
        activation_fn: Activation | None = tf.nn.relu,
        dropout: float | None = None,
        input_layer_partitioner: Partitioner | None = None,
        config: RunConfig | None = None,
        warm_start_from: str | WarmStartSettings | None = None,
        loss_reduction: str = _SUM,
        batch_norm: bool = False,
    ) -> None:
        head = regression_head(label_dimension, weight_column, loss_reduction)
        columns = check_columns(self, feature_columns)
        options = DnnOptions(tuple(hidden_units), activation_fn, dropout, input_layer_partitioner, batch_norm)
        super().__init__(_dnn_model_fn(head, columns, options, optimizer), model_dir, config, None, warm_start_from)


def _dnn_model_fn(head: Head, columns: list[Any], options: DnnOptions, optimizer: OptimizerLike) -> ModelFn:
    check_optimizer(optimizer)

    def model_fn(features: Any, labels: Any, mode: str, config: RunConfig | None = None) -> EstimatorSpec:
        check_features(features)
        with model_scope("dnn", one_part()):
            logits = dnn_logit_fn(head.logits_dimension, columns, options)(features, mode)
            made = make_optimizer(optimizer, _LEARNING_RATE)
            return head.create_estimator_spec(features, mode, logits, labels, optimizer=made)

    return model_fn
