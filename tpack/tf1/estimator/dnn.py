"""Networks of dense layers on feature columns."""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.estimator.building import ModelFn, WarmStartSettings
from tpack.estimator.estimator import Estimator
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import EstimatorSpec
from tpack.tf1.estimator.canned import (
    CLASSES,
    LOSS,
    NUMBERS,
    check_features,
    check_head,
    classification_head,
    model_scope,
)
from tpack.tf1.estimator.heads.base import Head
from tpack.tf1.estimator.heads.regression import RegressionHead
from tpack.tf1.estimator.logits import Activation, DnnOptions, Partitioner, check_columns, dnn_logit_fn, one_part
from tpack.tf1.estimator.optimizers import OptimizerLike, check_optimizer, make_optimizer
from tpack.tf1.signatures import like
from tpack.utils.validation import check_arguments

_LEARNING_RATE = 0.05


@check_arguments
class DNNEstimator(Estimator):
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
        del given["self"], given["head"], given["__class__"]
        super().__init__(*_arguments(self, head, **given))


@check_arguments
class DNNClassifier(Estimator):
    """A network of dense layers that predicts classes.

    Args:
        n_classes: the number of classes.
        weight_column: a key of the features, or a numeric column.
        label_vocabulary: the names of the classes.
        loss_reduction: of the losses of examples.
        **given: as for `DNNEstimator`.

    Raises:
        ConfigError: As for `DNNEstimator`, or there are fewer than two classes.
    """

    @like(DNNEstimator.__init__, without="head", after={"model_dir": CLASSES, "warm_start_from": LOSS})
    def __init__(
        self, n_classes: int, weight_column: Any, label_vocabulary: Any, loss_reduction: str, **given: Any
    ) -> None:
        head = classification_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        super().__init__(*_arguments(self, head, **given))


@check_arguments
class DNNRegressor(Estimator):
    """A network of dense layers that predicts numbers.

    Args:
        label_dimension: the number of numbers of an example.
        weight_column: a key of the features, or a numeric column.
        loss_reduction: of the losses of examples.
        **given: as for `DNNEstimator`.

    Raises:
        ConfigError: As for `DNNEstimator`, or the dimension is not positive.
    """

    @like(DNNEstimator.__init__, without="head", after={"model_dir": NUMBERS, "warm_start_from": LOSS})
    def __init__(self, label_dimension: int, weight_column: Any, loss_reduction: str, **given: Any) -> None:
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        super().__init__(*_arguments(self, head, **given))


def _arguments(owner: object, head: Head, *, hidden_units: Sequence[int], **given: Any) -> tuple[Any, ...]:
    """Return the arguments of `Estimator`."""
    columns = check_columns(owner, given["feature_columns"])
    names = ("activation_fn", "dropout", "input_layer_partitioner", "batch_norm")
    options = DnnOptions(tuple(hidden_units), *(given[name] for name in names))
    model_fn = _dnn_model_fn(check_head(owner, head), columns, options, given["optimizer"])
    return model_fn, given["model_dir"], given["config"], None, given["warm_start_from"]


def _dnn_model_fn(head: Head, columns: list[Any], options: DnnOptions, optimizer: OptimizerLike) -> ModelFn:
    check_optimizer(optimizer)

    def model_fn(features: Any, labels: Any, mode: str, config: RunConfig | None = None) -> EstimatorSpec:
        check_features(features)
        with model_scope("dnn", one_part()):
            logits = dnn_logit_fn(head.logits_dimension, columns, options)(features, mode)
            made = make_optimizer(optimizer, _LEARNING_RATE)
            return head.create_estimator_spec(features, mode, logits, labels, optimizer=made)

    return model_fn
