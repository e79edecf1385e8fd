"""Wide and deep: the sum of a linear model's logits and those of a network, each with its optimizer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
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
from tpack.tf1.estimator.logits import (
    Activation,
    DnnOptions,
    Partitioner,
    check_columns,
    dnn_logit_fn,
    input_partitioner,
    linear_logit_fn_builder,
    one_part,
    summarize_layer,
)
from tpack.tf1.estimator.optimizers import OptimizerLike, check_optimizer, make_optimizer
from tpack.tf1.signatures import like
from tpack.utils.validation import check_arguments

_DNN_RATE = 0.001
_HIGHEST_LINEAR_RATE = 0.005
_OPTIONS = WARM_START | LOSS | {"batch_norm": False}


@dataclass(frozen=True)
class _Linear:
    """The linear part; None as the columns where there is none."""

    columns: Any
    optimizer: OptimizerLike
    sparse_combiner: str

    @property
    def learning_rate(self) -> float:
        """That of an optimizer that is given by its name."""
        return min(_HIGHEST_LINEAR_RATE, 1.0 / math.sqrt(len(self.columns)))


@dataclass(frozen=True)
class _Deep:
    """The network; None as the columns where there is none."""

    columns: Any
    optimizer: OptimizerLike
    options: DnnOptions


@check_arguments
class DNNLinearCombinedEstimator(Estimator):
    """A linear model and a network with any head.

    Args:
        head: the meaning of the logits.
        model_dir: as for `Estimator`.
        linear_feature_columns: the columns of the linear model; empty for no linear model.
        linear_optimizer: an optimizer, its name, or a function that makes one. A name stands for a learning rate of
            0.005, or 1 / sqrt(number of columns) if that is less.
        dnn_feature_columns: the columns of the network; empty for no network.
        dnn_optimizer: the same for the network, where a name stands for a learning rate of 0.001.
        dnn_hidden_units: the widths of the hidden layers.
        dnn_activation_fn: of the hidden layers; None for none.
        dnn_dropout: the share of each hidden layer that is dropped in training.
        input_layer_partitioner: for the variables of columns.
        config: as for `Estimator`.
        linear_sparse_combiner: of the weights of an example's categories.

    Raises:
        ConfigError: There are no columns at all, a network without hidden units, or the optimizer is unknown.
    """

    def __init__(
        self,
        head: Head,
        model_dir: str | None = None,
        linear_feature_columns: Any = None,
        linear_optimizer: OptimizerLike = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: OptimizerLike = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Activation | None = tf.nn.relu,
        dnn_dropout: float | None = None,
        input_layer_partitioner: Partitioner | None = None,
        config: RunConfig | None = None,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        given = locals()
        del given["self"], given["head"], given["__class__"]
        super().__init__(*_arguments(self, check_head(self, head), **given))


@check_arguments
class DNNLinearCombinedClassifier(Estimator):
    """A linear model and a network that predict classes.

    Args:
        n_classes: the number of classes.
        weight_column: a key of the features, or a numeric column.
        label_vocabulary: the names of the classes.
        loss_reduction: of the losses of examples.
        **given: as for `DNNLinearCombinedEstimator`; with ``batch_norm`` to normalise each hidden layer, and
            ``warm_start_from`` as for `Estimator`.

    Raises:
        ConfigError: As for `DNNLinearCombinedEstimator`, or there are fewer than two classes.
    """

    @like(DNNLinearCombinedEstimator.__init__, without="head", after={"dnn_dropout": CLASSES, "config": _OPTIONS})
    def __init__(
        self, n_classes: int, weight_column: Any, label_vocabulary: Any, loss_reduction: str, **given: Any
    ) -> None:
        head = classification_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        super().__init__(*_arguments(self, head, **given))


@check_arguments
class DNNLinearCombinedRegressor(Estimator):
    """A linear model and a network that predict numbers.

    Args:
        label_dimension: the number of numbers of an example.
        weight_column: a key of the features, or a numeric column.
        loss_reduction: of the losses of examples.
        **given: as for `DNNLinearCombinedClassifier`.

    Raises:
        ConfigError: As for `DNNLinearCombinedEstimator`, or the dimension is not positive.
    """

    @like(DNNLinearCombinedEstimator.__init__, without="head", after={"dnn_dropout": NUMBERS, "config": _OPTIONS})
    def __init__(self, label_dimension: int, weight_column: Any, loss_reduction: str, **given: Any) -> None:
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        super().__init__(*_arguments(self, head, **given))


def _arguments(owner: object, head: Head, **given: Any) -> tuple[Any, ...]:
    """Return the arguments of `Estimator`."""
    hidden, partitioner = tuple(given["dnn_hidden_units"] or ()), given["input_layer_partitioner"]
    activation, dropout = given["dnn_activation_fn"], given["dnn_dropout"]
    options = DnnOptions(hidden, activation, dropout, partitioner, given.get("batch_norm", False))
    columns = _columns(owner, given["linear_feature_columns"])
    linear = _Linear(columns, given["linear_optimizer"], given["linear_sparse_combiner"])
    deep = _Deep(_columns(owner, given["dnn_feature_columns"]), given["dnn_optimizer"], options)
    model_fn = _combined_model_fn(head, linear, deep)
    return model_fn, given["model_dir"], given["config"], None, given.get("warm_start_from")


def _columns(owner: object, columns: Any) -> list[Any]:
    return check_columns(owner, columns) if columns else []


def _combined_model_fn(head: Head, linear: _Linear, deep: _Deep) -> ModelFn:
    check_optimizer(linear.optimizer)
    check_optimizer(deep.optimizer)
    if not linear.columns and not deep.columns:
        raise ConfigError("got no feature columns: expected linear_feature_columns, dnn_feature_columns or both")
    if deep.columns and not deep.options.hidden_units:
        raise ConfigError("got dnn_feature_columns without dnn_hidden_units: expected both")

    def model_fn(features: Any, labels: Any, mode: str, config: RunConfig | None = None) -> EstimatorSpec:
        check_features(features)
        parts = []
        if deep.columns:
            with model_scope("dnn", one_part()):
                parts.append(dnn_logit_fn(head.logits_dimension, deep.columns, deep.options)(features, mode))
        if linear.columns:
            partitioner = deep.options.input_partitioner or input_partitioner()
            with model_scope("linear", partitioner) as scope:
                build = linear_logit_fn_builder(head.logits_dimension, linear.columns, linear.sparse_combiner)
                parts.append(build(features))
                summarize_layer(parts[-1], scope.name)
        logits = parts[0] if len(parts) == 1 else parts[0] + parts[1]
        return head.create_estimator_spec(
            features, mode, logits, labels, train_op_fn=lambda loss: _minimize(loss, linear, deep)
        )

    return model_fn


def _minimize(loss: tf.Tensor, linear: _Linear, deep: _Deep) -> tf.Operation:
    """Return the operation that trains both parts, and then counts the step."""
    parts = []
    if deep.columns:
        parts.append((make_optimizer(deep.optimizer, _DNN_RATE), "dnn"))
    if linear.columns:
        parts.append((make_optimizer(linear.optimizer, linear.learning_rate), "linear"))
    pairs = [optimizer.compute_gradients(loss, _trainable_in(scope)) for optimizer, scope in parts]
    done: list[tf.Operation] = []
    for index, (optimizer, _) in enumerate(parts):
        is_last = index == len(parts) - 1
        with tf.control_dependencies(done):
            done.append(optimizer.apply_gradients(pairs[index], tf.train.get_global_step() if is_last else None))
    return tf.group(*done)


def _trainable_in(scope: str) -> list[tf.Variable]:
    around = tf.get_variable_scope().name
    prefix = f"{around}/{scope}/" if around else f"{scope}/"
    return [variable for variable in tf.trainable_variables() if variable.op.name.startswith(prefix)]
