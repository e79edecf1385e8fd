"""What a model_fn returns: tensors and operations for one of the three modes.

The fields are those that people know from TensorFlow 1's estimators. All are checked when a spec is made, since what is
wrong in one shows much later otherwise, and somewhere else.
"""

from typing import Any, NamedTuple

from tpack.errors import ConfigError
from tpack.estimator.spec_checks import (
    check_mode,
    checked_export_outputs,
    checked_hooks,
    checked_loss,
    checked_metrics,
    checked_predictions,
    checked_scaffold,
    checked_train_op,
)


class _Fields(NamedTuple):
    mode: str
    predictions: Any
    loss: Any
    train_op: Any
    eval_metric_ops: Any
    export_outputs: Any
    training_chief_hooks: Any
    training_hooks: Any
    scaffold: Any
    evaluation_hooks: Any
    prediction_hooks: Any


class EstimatorSpec(_Fields):
    """The answer of a model_fn.

    It is a named tuple. What is not given becomes an empty dict or tuple, or None.

    Args:
        mode: one of `ModeKeys`.
        predictions: a tensor or a dict of tensors; required to predict.
        loss: a tensor with one element; required to train and to evaluate.
        train_op: the operation of a training step; required to train.
        eval_metric_ops: name to ``(value tensor, update op)``, as functions of ``tf.metrics`` return them.
        export_outputs: signature name to `ExportOutput`. In prediction, the predictions are offered if none is given,
            and of several one must have the name of the default signature.
        training_chief_hooks: session hooks for training.
        training_hooks: session hooks for training.
        scaffold: a ``tf.train.Scaffold`` with a saver or initialisation of the model's own.
        evaluation_hooks: session hooks for evaluation.
        prediction_hooks: session hooks for prediction.

    Raises:
        ConfigError: Something required is missing, or a field holds something else than it should.

    Source:
        ``tf.estimator.EstimatorSpec`` of TensorFlow 1.
    """

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: Any = None,
        export_outputs: Any = None,
        training_chief_hooks: Any = None,
        training_hooks: Any = None,
        scaffold: Any = None,
        evaluation_hooks: Any = None,
        prediction_hooks: Any = None,
    ) -> "EstimatorSpec":
        """Check all fields."""
        check_mode(mode)
        predictions = checked_predictions(predictions, mode)
        return super().__new__(
            cls,
            mode,
            predictions,
            checked_loss(loss, mode),
            checked_train_op(train_op, mode),
            checked_metrics(eval_metric_ops),
            checked_export_outputs(export_outputs, predictions, mode),
            checked_hooks("training_chief_hooks", training_chief_hooks),
            checked_hooks("training_hooks", training_hooks),
            checked_scaffold(scaffold),
            checked_hooks("evaluation_hooks", evaluation_hooks),
            checked_hooks("prediction_hooks", prediction_hooks),
        )

    def _replace(self, **changes: Any) -> "EstimatorSpec":
        """Return a spec with other values, checked like any.

        Raises:
            ConfigError: The mode would change, or a field be wrong.
        """
        if changes.get("mode", self.mode) != self.mode:
            raise ConfigError(f"the mode of a spec cannot change: it is {self.mode!r}, got {changes['mode']!r}")
        return EstimatorSpec(**{**self._asdict(), **changes})
