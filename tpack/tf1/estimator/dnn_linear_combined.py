"""Wide and deep: the sum of a linear model's logits and those of a network, each with its optimizer."""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.building import ModelFn
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import EstimatorSpec
from tpack.tf1.estimator.canned import (
    CLASSES,
    LOSS,
    NUMBERS,
    WARM_START,
    DeepPart,
    Family,
    LinearPart,
    check_features,
    init_classifier,
    init_regressor,
)
from tpack.tf1.estimator.heads.base import Head
from tpack.tf1.estimator.logits import Activation, DnnOptions, Partitioner, check_columns, summarize_layer
from tpack.tf1.estimator.optimizers import OptimizerLike, check_optimizer
from tpack.tf1.signatures import like
from tpack.utils.validation import check_arguments

_DNN_RATE = 0.001
_HIGHEST_LINEAR_RATE = 0.005
_OPTIONS = WARM_START | LOSS | {"batch_norm": False}


class _Combined(Family):
    def _make(self, head: Head, **given: Any) -> ModelFn:
        hidden, partitioner = tuple(given["dnn_hidden_units"] or ()), given["input_layer_partitioner"]
        activation, dropout = given["dnn_activation_fn"], given["dnn_dropout"]
        options = DnnOptions(hidden, activation, dropout, partitioner, given.get("batch_norm", False))
        columns = {
            kind: check_columns(self, given[f"{kind}_feature_columns"]) if given[f"{kind}_feature_columns"] else []
            for kind in ("linear", "dnn")
        }
        linear_options = (given["linear_optimizer"], partitioner, given["linear_sparse_combiner"])
        linear = LinearPart(columns["linear"], *linear_options, _HIGHEST_LINEAR_RATE)
        deep = DeepPart(columns["dnn"], given["dnn_optimizer"], options, _DNN_RATE)
        check_optimizer(linear.optimizer)
        check_optimizer(deep.optimizer)
        if not linear.columns and not deep.columns:
            raise ConfigError("got no feature columns: expected linear_feature_columns, dnn_feature_columns or both")
        if deep.columns and not hidden:
            raise ConfigError("got dnn_feature_columns without dnn_hidden_units: expected both")
        return _model_of_parts(head, [part for part in (deep, linear) if part.columns])


@check_arguments
class DNNLinearCombinedEstimator(_Combined):
    """A linear model and a network with any head: the sum of their logits, each with its optimizer.

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
        del given["self"]
        self._init(**given)


@check_arguments
class DNNLinearCombinedClassifier(_Combined):
    """A linear model and a network that predict classes.

    Its arguments are those of `DNNLinearCombinedEstimator`, of classes as for `DNNClassifier`, ``batch_norm`` to
    normalise each hidden layer, and ``warm_start_from`` as for `Estimator`.

    Raises:
        ConfigError: As for `DNNLinearCombinedEstimator`, or there are fewer than two classes.
    """

    __init__ = like(
        DNNLinearCombinedEstimator.__init__, without="head", after={"dnn_dropout": CLASSES, "config": _OPTIONS}
    )(init_classifier)


@check_arguments
class DNNLinearCombinedRegressor(_Combined):
    """A linear model and a network that predict ``label_dimension`` numbers; see `DNNLinearCombinedClassifier`.

    Raises:
        ConfigError: As for `DNNLinearCombinedEstimator`, or the dimension is not positive.
    """

    __init__ = like(
        DNNLinearCombinedEstimator.__init__, without="head", after={"dnn_dropout": NUMBERS, "config": _OPTIONS}
    )(init_regressor)


def _model_of_parts(head: Head, parts: Sequence[LinearPart | DeepPart]) -> ModelFn:
    def model_fn(features: Any, labels: Any, mode: str, config: RunConfig | None = None) -> EstimatorSpec:
        check_features(features)
        found = []
        for part in parts:
            with part.scope() as scope:
                found.append(part.logits(head.logits_dimension, features, mode))
                if isinstance(part, LinearPart):
                    summarize_layer(found[-1], scope.name)
        logits = found[0] if len(found) == 1 else found[0] + found[1]
        return head.create_estimator_spec(
            features, mode, logits, labels, train_op_fn=lambda loss: _minimize(loss, parts)
        )

    return model_fn


def _minimize(loss: tf.Tensor, parts: Sequence[LinearPart | DeepPart]) -> tf.Operation:
    """Return the operation that trains all parts, and then counts the step."""
    around = tf.get_variable_scope().name
    optimizers = [part.make_optimizer() for part in parts]
    pairs = []
    for optimizer, part in zip(optimizers, parts, strict=True):
        prefix = f"{around}/{part.name}/" if around else f"{part.name}/"
        trained = [variable for variable in tf.trainable_variables() if variable.op.name.startswith(prefix)]
        pairs.append(optimizer.compute_gradients(loss, trained))
    done: list[tf.Operation] = []
    for index, optimizer in enumerate(optimizers):
        is_last = index == len(parts) - 1
        with tf.control_dependencies(done):
            done.append(optimizer.apply_gradients(pairs[index], tf.train.get_global_step() if is_last else None))
    return tf.group(*done)
