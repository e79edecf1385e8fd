"""The base of all heads: from logits and labels to an `EstimatorSpec`.

A head gives a meaning to the logits of a model: predictions, and with labels a loss and metrics. The same head serves
ready-made models and a user's model_fn.
"""

import abc
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.inputs import call_with_accepted
from tpack.estimator.spec import EstimatorSpec, ExportOutput, Metrics, ModeKeys, PredictOutput
from tpack.tf1.estimator.heads.checks import check_labels, check_logits, check_reduction, weights_of
from tpack.tf1.estimator.optimizers import in_towers, is_like_optimizer
from tpack.tower.context import get_current_tower_context
from tpack.utils.validation import check_text

DEFAULT_SIGNATURE = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
LossFn = Callable[..., tf.Tensor]
_LOSS_FN_ARGUMENTS = ("labels", "logits", "features", "loss_reduction")
TrainOpFn = Callable[[tf.Tensor], Any]


class LossSpec(NamedTuple):
    """The loss that a head computes from logits and labels.

    Attributes:
        training_loss: a scalar, that of the batch.
        unreduced_loss: [B, 1] or [B, D], the examples' losses without weights.
        weights: of the examples, or 1.0.
        processed_labels: the labels as numbers.
    """

    training_loss: tf.Tensor
    unreduced_loss: Any
    weights: Any
    processed_labels: Any


class MultiLossSpec(LossSpec):
    """A `LossSpec` whose losses, weights and labels are dicts by the names of heads, weighted like their heads.

    Attributes:
        parts: the `LossSpec` of each head, by its name.
    """

    parts: Mapping[Any, LossSpec]


class Head(abc.ABC):
    """The meaning of a model's logits.

    Source:
        ``tf.estimator.Head`` of TensorFlow 1.15 and the heads of ``tf.contrib.estimator``, in one family.
    """

    @property
    @abc.abstractmethod
    def name(self) -> str | None:
        """The name, a suffix of those of metrics."""

    @property
    @abc.abstractmethod
    def logits_dimension(self) -> int:
        """The number of logits of an example."""

    @property
    @abc.abstractmethod
    def loss_reduction(self) -> str:
        """The reduction of the examples' losses."""

    @abc.abstractmethod
    def create_loss(self, features: Any, mode: str, logits: Any, labels: Any) -> LossSpec:
        """Return the loss of a batch and its parts."""

    @abc.abstractmethod
    def predictions(self, logits: Any, keys: Sequence[str] | None = None) -> dict[Any, tf.Tensor]:
        """Return predictions by name: all, or the requested ones."""

    @abc.abstractmethod
    def export_outputs(self, predictions: Mapping[Any, tf.Tensor]) -> dict[str, ExportOutput]:
        """Return the export outputs of a model with this head."""

    @abc.abstractmethod
    def metric_ops(
        self, found: LossSpec, predictions: Mapping[Any, tf.Tensor], regularization: tf.Tensor | None
    ) -> Metrics:
        """Return metrics for evaluation, by name."""

    @abc.abstractmethod
    def add_summaries(self, found: LossSpec, regularization: tf.Tensor | None) -> None:
        """Add summaries of losses, except the whole loss, which the Estimator summarises."""

    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Any = None,
        mode: str | None = None,
        regularization_losses: Iterable[tf.Tensor] | None = None,
    ) -> tf.Tensor:
        """Return the loss of a batch as a scalar."""
        found = self.create_loss(features, mode or ModeKeys.TRAIN, logits, labels)
        return _added(found.training_loss, _total(regularization_losses))

    def create_estimator_spec(
        self,
        features: Any,
        mode: str,
        logits: Any,
        labels: Any = None,
        optimizer: tf.train.Optimizer | None = None,
        trainable_variables: Sequence[tf.Variable] | None = None,
        train_op_fn: TrainOpFn | None = None,
        update_ops: Sequence[Any] | None = None,
        regularization_losses: Iterable[tf.Tensor] | None = None,
    ) -> EstimatorSpec:
        """Return the spec of a model for one mode.

        To train, one of ``optimizer`` and ``train_op_fn`` is needed.

        Args:
            features: the input, with the weights if there are any.
            mode: one of `ModeKeys`.
            logits: [B, D].
            labels: the answers; not needed to predict.
            optimizer: minimizes the loss and counts the global step.
            trainable_variables: the variables to train; None for all trainable variables.
            train_op_fn: takes the loss and returns a train op, in place of an optimizer.
            update_ops: operations that run with each step; None for this tower's UPDATE_OPS.
            regularization_losses: scalars that are added to the loss.

        Raises:
            ConfigError: Logits, labels or weights do not fit, or not one of optimizer and ``train_op_fn`` is given.
        """
        with tf.name_scope(self.name, "head"):
            predictions = self.predictions(logits)
            if mode == ModeKeys.PREDICT:
                return EstimatorSpec(mode, predictions, export_outputs=self.export_outputs(predictions))
            found = self.create_loss(features, mode, logits, labels)
            regularization = _total(regularization_losses)
            loss = _added(found.training_loss, regularization)
            if mode == ModeKeys.EVAL:
                metrics = self.metric_ops(found, predictions, regularization)
                return EstimatorSpec(mode, predictions, loss, eval_metric_ops=metrics)
            train_op = _train_op(loss, optimizer, trainable_variables, train_op_fn=train_op_fn, update_ops=update_ops)
        if is_main_tower():
            with tf.name_scope(None):
                self.add_summaries(found, regularization)
        return EstimatorSpec(mode, predictions, loss, train_op)


class SingleHead(Head):
    """A head with one kind of logits; its subclasses give the meaning.

    Args:
        name: a suffix of the names of metrics.
        weight_column: a key of the features, or a numeric column: the weights of examples.
        loss_reduction: one of ``tf.losses.Reduction``, or TensorFlow 2's ``"sum"`` or ``"sum_over_batch_size"``.
        loss_fn: takes ``labels`` and ``logits`` and optionally ``features`` and ``loss_reduction``; returns the losses
            of examples. None for the loss of the head.

    Raises:
        ConfigError: The losses are not reduced.
    """

    _loss_width = 1

    def __init__(
        self, name: str | None, weight_column: Any, loss_reduction: str, loss_fn: LossFn | None = None
    ) -> None:
        self._name = name if name is None else check_text(self, "name", name)
        self._weight_column = weight_column
        self._loss_reduction = check_reduction(loss_reduction)
        self._loss_fn = loss_fn if loss_fn is None else _check_loss_fn(loss_fn)

    @property
    def name(self) -> str | None:
        """The name, a suffix of those of metrics."""
        return self._name

    @property
    def loss_reduction(self) -> str:
        """The reduction of the examples' losses."""
        return self._loss_reduction

    def create_loss(self, features: Any, mode: str, logits: Any, labels: Any) -> LossSpec:
        """Return the loss of a batch and its parts."""
        logits = check_logits(logits, self.logits_dimension)
        labels = self.numbered_labels(labels, logits)
        if self._loss_fn is None:
            unreduced = self.unreduced_loss(labels, logits)
        else:
            options = {"features": features, "loss_reduction": self._loss_reduction}
            found = tf.convert_to_tensor(call_with_accepted(self._loss_fn, options, labels=labels, logits=logits))
            unreduced = check_labels(found, logits, self._loss_width, "results of loss_fn")
        weights = weights_of(features, self._weight_column, unreduced)
        loss = tf.losses.compute_weighted_loss(
            unreduced, weights, reduction=self._loss_reduction, scope="weighted_loss"
        )
        return LossSpec(loss, unreduced, weights, labels)

    @abc.abstractmethod
    def numbered_labels(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        """Return labels as numbers, checked."""

    @abc.abstractmethod
    def unreduced_loss(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Return the examples' losses, where the user gives no function for them."""

    def add_summaries(self, found: LossSpec, regularization: tf.Tensor | None) -> None:
        """Add summaries of losses, with the regularization that is added to them."""
        if self._name is not None:
            tf.summary.scalar(self.key("loss"), _added(found.training_loss, regularization))
        if self._loss_reduction == tf.losses.Reduction.SUM:
            weight = tf.reduce_sum(found.weights * tf.ones_like(found.unreduced_loss))
            tf.summary.scalar(self.key("average_loss"), tf.math.divide_no_nan(found.training_loss, weight))
        if regularization is not None:
            tf.summary.scalar(self.key("regularization_loss"), regularization)

    def loss_metrics(self, found: LossSpec, regularization: tf.Tensor | None) -> dict[str, Any]:
        """Return the metrics that all heads have."""
        metrics = {self.key("average_loss"): tf.metrics.mean(found.unreduced_loss, weights=found.weights)}
        if regularization is not None:
            metrics[self.key("regularization_loss")] = tf.metrics.mean(regularization)
        return metrics

    def key(self, key: str) -> str:
        """Return the name of a metric or summary of this head."""
        return f"{key}/{self._name}" if self._name else key


def exported(
    kind: str, output: ExportOutput, predictions: Mapping[Any, tf.Tensor], **more: ExportOutput
) -> dict[str, ExportOutput]:
    """Return an output by default and by its kind, others, and one of all predictions."""
    return {DEFAULT_SIGNATURE: output, kind: output, **more, "predict": PredictOutput(dict(predictions))}


def chosen(predictions: dict[str, tf.Tensor], keys: Sequence[str] | None) -> dict[str, tf.Tensor]:
    """Return the requested predictions; raise ConfigError if a requested prediction is unknown."""
    unknown = [key for key in keys or () if key not in predictions]
    if unknown:
        raise ConfigError(f"got keys {', '.join(map(str, unknown))}: expected some of {', '.join(predictions)}")
    return predictions if keys is None else {key: predictions[key] for key in keys}


def _check_loss_fn(loss_fn: LossFn) -> LossFn:
    parameters = inspect.signature(loss_fn).parameters.values()
    fixed = set(loss_fn.keywords) if isinstance(loss_fn, functools.partial) else set()
    names = [each.name for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters)
    missing = [name for name in ("labels", "logits") if name not in names and not takes_all]
    unknown = [name for name in names if name not in (*_LOSS_FN_ARGUMENTS, *fixed)]
    if missing or unknown:
        raise ConfigError(
            f"got a loss_fn that takes {', '.join(names) or 'nothing'}: expected labels and logits, and optionally "
            "features and loss_reduction"
        )
    return loss_fn


def is_main_tower() -> bool:
    """Tell whether summaries are made here: outside of towers, and in the first tower."""
    tower = get_current_tower_context()
    return tower is None or tower.is_main_tower


def _train_op(
    loss: tf.Tensor,
    optimizer: tf.train.Optimizer | None,
    variables: Sequence[tf.Variable] | None,
    *,
    train_op_fn: TrainOpFn | None,
    update_ops: Sequence[Any] | None,
) -> Any:
    if (optimizer is None) == (train_op_fn is None):
        came = "none" if optimizer is None else "both"
        raise ConfigError(f"a head got {came} of optimizer and train_op_fn: expected one of them to train")
    if train_op_fn is not None:
        train_op = train_op_fn(loss)
    elif isinstance(optimizer, tf.train.Optimizer):
        train_op = in_towers(optimizer).minimize(loss, tf.train.get_global_step(), var_list=variables)
    elif optimizer is not None and is_like_optimizer(optimizer):
        only = {} if variables is None else {"var_list": variables}
        train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step(), **only)
    else:
        raise ConfigError(f"a head got optimizer={optimizer!r}: expected a tf.train.Optimizer of TensorFlow 1")
    updates = update_ops if update_ops is not None else _update_ops_of_tower()
    return tf.group(train_op, *updates) if updates else train_op


def _update_ops_of_tower() -> list[Any]:
    tower = get_current_tower_context()
    if tower is None:
        return list(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
    return list(tower.get_collection_in_tower(tf.GraphKeys.UPDATE_OPS))


def _total(losses: Iterable[tf.Tensor] | None) -> tf.Tensor | None:
    losses = list(losses or ())
    return tf.add_n(losses) if losses else None


def _added(loss: tf.Tensor, regularization: tf.Tensor | None) -> tf.Tensor:
    return loss if regularization is None else loss + regularization
