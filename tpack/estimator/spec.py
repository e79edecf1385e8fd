"""The result of a model_fn: tensors and operations for one of the three modes, and the outputs of an exported model.

The fields are those of TensorFlow 1's estimators. They are checked at construction, because a wrong one would fail much
later and elsewhere.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.compat.runtime import silent_deprecations
from tpack.errors import ConfigError
from tpack.utils.validation import check_arguments, check_instance, check_instances, mismatch, owner_name

AnyTensor: TypeAlias = tf.Tensor | tf.SparseTensor
Tensors: TypeAlias = AnyTensor | Mapping[str, AnyTensor]
"""One tensor, or several by name."""
Runnable: TypeAlias = tf.Tensor | tf.Operation | tf.Variable
"""An op; a variable stands for the assignment that returned it."""
Metrics: TypeAlias = Mapping[str, tuple[Runnable, Runnable]]
"""Name to value and update op."""

_OWNER = "EstimatorSpec"
_TENSORS = (tf.Tensor, tf.SparseTensor)
# The result of an assignment looks like a variable, but only like TensorFlow 2's.
_RUNNABLE = (tf.Tensor, tf.Operation, tf.compat.v2.Variable)
_DEFAULT_SIGNATURE = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
_CONSTANTS = tf.saved_model.signature_constants


class ModeKeys:
    """The three values of the argument ``mode`` of a model_fn."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


ODD_BATCH = "a batch must be divisible by the number of towers"
"""The message for odd batches, while building and in a step."""

MODES = (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT)


class _Fields(NamedTuple):
    mode: str
    predictions: Tensors
    loss: tf.Tensor | None
    train_op: Runnable | None
    eval_metric_ops: dict[str, tuple[Runnable, Runnable]]
    export_outputs: "dict[str, ExportOutput] | None"
    training_chief_hooks: tuple[tf.train.SessionRunHook, ...]
    training_hooks: tuple[tf.train.SessionRunHook, ...]
    scaffold: tf.train.Scaffold
    evaluation_hooks: tuple[tf.train.SessionRunHook, ...]
    prediction_hooks: tuple[tf.train.SessionRunHook, ...]


@check_arguments
class EstimatorSpec(_Fields):
    """The result of a model_fn, a named tuple; fields not given become an empty dict or tuple, or None.

    Args:
        mode: one of `ModeKeys`.
        predictions: a tensor or a dict of tensors; required to predict.
        loss: a tensor with one element; required to train and to evaluate.
        train_op: the operation of a training step; required to train.
        eval_metric_ops: name to ``(value tensor, update op)``, as from ``tf.metrics``.
        export_outputs: signature name to `ExportOutput`; by default, in prediction, the predictions. One of several
            must have the name of the default signature.
        training_chief_hooks: session hooks for training, on the chief.
        training_hooks: session hooks for training.
        scaffold: a ``tf.train.Scaffold`` with the model's own saver or initialisation.
        evaluation_hooks: session hooks for evaluation.
        prediction_hooks: session hooks for prediction.

    Raises:
        ConfigError: A required field is missing, or a field is wrong.

    Source:
        ``tf.estimator.EstimatorSpec`` of TensorFlow 1.
    """

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Tensors | None = None,
        loss: tf.Tensor | float | None = None,
        train_op: Runnable | None = None,
        eval_metric_ops: Metrics | None = None,
        export_outputs: "Mapping[str, ExportOutput] | None" = None,
        training_chief_hooks: Sequence[tf.train.SessionRunHook] | None = None,
        training_hooks: Sequence[tf.train.SessionRunHook] | None = None,
        scaffold: tf.train.Scaffold | None = None,
        evaluation_hooks: Sequence[tf.train.SessionRunHook] | None = None,
        prediction_hooks: Sequence[tf.train.SessionRunHook] | None = None,
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
        """Return a checked spec with other values; refuse another mode."""
        if changes.get("mode", self.mode) != self.mode:
            raise ConfigError(mismatch(self, "mode", changes["mode"], f"{self.mode!r}, as before"))
        return EstimatorSpec(**{**self._asdict(), **changes})


class ExportOutput:
    """The base of outputs, each a signature of a SavedModel."""

    def as_signature_def(self, receiver_tensors: Mapping[str, AnyTensor]) -> Any:
        """Return the SignatureDef for the tensors that are fed, by the names for clients.

        Raises:
            ConfigError: This kind of output is impossible with these tensors.
        """
        raise NotImplementedError


@check_arguments
class ClassificationOutput(ExportOutput):
    """Scores of classes, names of classes, or both.

    Args:
        scores: floats; one row per example, one column per class.
        classes: strings of the same shape, or of the chosen classes.

    Raises:
        ConfigError: Both are missing, or one has another dtype.
    """

    def __init__(self, scores: tf.Tensor | None = None, classes: tf.Tensor | None = None) -> None:
        if scores is None and classes is None:
            raise ConfigError("ClassificationOutput got neither scores nor classes: expected one of them at least")
        if scores is not None:
            _check_tensor(self, "scores", scores, "floats")
        if classes is not None:
            _check_tensor(self, "classes", classes, "strings")
        self.scores = scores
        self.classes = classes

    def as_signature_def(self, receiver_tensors: Mapping[str, AnyTensor]) -> Any:
        """Return a signature for classification; refuse all but one tensor of serialized examples."""
        outputs = {_CONSTANTS.CLASSIFY_OUTPUT_SCORES: self.scores, _CONSTANTS.CLASSIFY_OUTPUT_CLASSES: self.classes}
        return _signature(
            {_CONSTANTS.CLASSIFY_INPUTS: _examples(self, receiver_tensors)},
            {name: tensor for name, tensor in outputs.items() if tensor is not None},
            _CONSTANTS.CLASSIFY_METHOD_NAME,
        )


@check_arguments
class RegressionOutput(ExportOutput):
    """One number per example.

    Args:
        value: floats.

    Raises:
        ConfigError: It has another dtype.
    """

    def __init__(self, value: tf.Tensor) -> None:
        _check_tensor(self, "value", value, "floats")
        self.value = value

    def as_signature_def(self, receiver_tensors: Mapping[str, AnyTensor]) -> Any:
        """Return a signature for regression; refuse all but one tensor of serialized examples."""
        return _signature(
            {_CONSTANTS.REGRESS_INPUTS: _examples(self, receiver_tensors)},
            {_CONSTANTS.REGRESS_OUTPUTS: self.value},
            _CONSTANTS.REGRESS_METHOD_NAME,
        )


class PredictOutput(ExportOutput):
    """Any tensors by name.

    Args:
        outputs: a dict of tensors, or one tensor, named ``output``.

    Raises:
        ConfigError: The dict is empty, or an entry is not a tensor with a string as its name.
    """

    def __init__(self, outputs: tf.Tensor | Mapping[str, tf.Tensor]) -> None:
        named = dict(outputs) if isinstance(outputs, Mapping) else {"output": outputs}
        for name, tensor in named.items():
            if not isinstance(name, str) or not isinstance(tensor, tf.Tensor):
                raise ConfigError(f"PredictOutput got {name!r}: {tensor!r}: expected tensors by name")
        if not named:
            raise ConfigError("PredictOutput got an empty dict: expected at least one tensor")
        self.outputs = named

    def as_signature_def(self, receiver_tensors: Mapping[str, AnyTensor]) -> Any:
        """Return a signature for prediction from any tensors."""
        return _signature(receiver_tensors, self.outputs, _CONSTANTS.PREDICT_METHOD_NAME)


def operation_of(item: Runnable) -> tf.Operation:
    """Return the operation of a tensor or of a variable's assignment; an operation is returned as it is.

    The result of ``variable.assign_add`` looks like the variable; as a control dependency it would assign nothing.
    """
    return item if isinstance(item, tf.Operation) else item.op


def checked_hooks(what: str, hooks: Iterable[tf.train.SessionRunHook] | None) -> tuple[tf.train.SessionRunHook, ...]:
    """Return session hooks as a tuple; refuse anything else."""
    expected = "a list of tf.train.SessionRunHook objects"
    return tuple(check_instances("an Estimator", what, hooks or (), tf.train.SessionRunHook, expected=expected))


def check_mode(mode: object) -> None:
    """Refuse anything but a mode."""
    if mode not in MODES:
        raise ConfigError(mismatch(_OWNER, "mode", mode, f"one of {', '.join(MODES)}"))


def checked_predictions(predictions: Tensors | None, mode: str) -> Tensors:
    """Return a tensor or a dict of tensors; refuse anything else, and None to predict."""
    if predictions is None:
        _refuse_missing("predictions", mode, ModeKeys.PREDICT)
        return {}
    for value in predictions.values() if isinstance(predictions, Mapping) else [predictions]:
        if not isinstance(value, _TENSORS):
            raise ConfigError(mismatch(_OWNER, "predictions", predictions, "a tensor or a dict of tensors"))
        _check_graph("a prediction", value)
    return predictions


def checked_loss(loss: tf.Tensor | float | None, mode: str) -> tf.Tensor | None:
    """Return the loss as a scalar tensor; refuse one with several elements, and None to train or evaluate."""
    if loss is None:
        _refuse_missing("loss", mode, ModeKeys.TRAIN, ModeKeys.EVAL)
        return None
    if not isinstance(loss, (*_TENSORS, tf.Variable, float, int)) and not hasattr(loss, "__array__"):
        raise ConfigError(mismatch(_OWNER, "loss", loss, "a tensor"))
    tensor: tf.Tensor = tf.convert_to_tensor(loss)
    _check_graph("the loss", tensor)
    if tensor.shape.num_elements() not in (None, 1):
        raise ConfigError(f"{_OWNER} got the loss {tensor.name} of shape {tensor.shape}: expected one element")
    return tensor if tensor.shape.rank == 0 else tf.reshape(tensor, [])


def checked_train_op(train_op: Runnable | None, mode: str) -> Runnable | None:
    """Return the train op; refuse None to train, and objects that cannot be run."""
    if train_op is None:
        _refuse_missing("train_op", mode, ModeKeys.TRAIN)
        return None
    if not isinstance(train_op, _RUNNABLE):
        raise ConfigError(mismatch(_OWNER, "train_op", train_op, "an operation or a tensor"))
    _check_graph("the train_op", train_op)
    return train_op


def checked_metrics(metrics: Metrics | None) -> dict[str, tuple[Runnable, Runnable]]:
    """Return name to (value, update op); refuse anything else."""
    metrics = {} if metrics is None else metrics
    if not isinstance(metrics, Mapping):
        raise ConfigError(mismatch(_OWNER, "eval_metric_ops", metrics, "a dict"))
    for name, pair in metrics.items():
        entry = f"eval_metric_ops[{name!r}]"
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ConfigError(mismatch(_OWNER, entry, pair, "a pair (value, update_op)"))
        if not all(isinstance(item, _RUNNABLE) for item in pair):
            raise ConfigError(mismatch(_OWNER, entry, pair, "a pair of tensors or operations"))
        for item in pair:
            _check_graph(f"the metric {name!r}", item)
    return dict(metrics)


def checked_export_outputs(
    outputs: Mapping[str, ExportOutput] | None, predictions: Tensors, mode: str
) -> dict[str, ExportOutput] | None:
    """Return signature name to output, with a default one if there are any; refuse anything else."""
    if outputs is None:
        can_export = mode == ModeKeys.PREDICT and not _has_sparse(predictions)
        return {_DEFAULT_SIGNATURE: PredictOutput(predictions)} if can_export else None
    if not isinstance(outputs, Mapping):
        raise ConfigError(mismatch(_OWNER, "export_outputs", outputs, "a dict"))
    for name, output in outputs.items():
        check_instance(_OWNER, f"export_outputs[{name!r}]", output, ExportOutput)
    if _DEFAULT_SIGNATURE in outputs or not outputs:
        return dict(outputs)
    if len(outputs) > 1:
        names = ", ".join(outputs)
        raise ConfigError(f"{_OWNER} got the export_outputs {names}: expected one named {_DEFAULT_SIGNATURE!r}")
    return {**outputs, _DEFAULT_SIGNATURE: next(iter(outputs.values()))}


def checked_scaffold(scaffold: tf.train.Scaffold | None) -> tf.train.Scaffold:
    """Return the scaffold, or a new one for None; refuse anything else."""
    if scaffold is None:
        return tf.train.Scaffold()
    return check_instance(_OWNER, "scaffold", scaffold, tf.train.Scaffold, "a tf.train.Scaffold")


def _refuse_missing(name: str, mode: str, *required_in: str) -> None:
    if mode in required_in:
        raise ConfigError(f"{_OWNER} of mode {mode!r} got no {name}: expected it in this mode")


def _has_sparse(predictions: Tensors) -> bool:
    values = predictions.values() if isinstance(predictions, Mapping) else [predictions]
    return any(isinstance(value, tf.SparseTensor) for value in values)


def _check_graph(what: str, item: AnyTensor | Runnable) -> None:
    if item.graph is not tf.get_default_graph():
        raise ConfigError(f"{what} is {item!r} of another graph: expected the graph of the model_fn's call")


def _check_tensor(owner: ExportOutput, name: str, tensor: tf.Tensor, kind: str) -> None:
    dtype = tensor.dtype if isinstance(tensor, tf.Tensor) else None
    if dtype is None or not (dtype == tf.string if kind == "strings" else dtype.is_floating):
        raise ConfigError(f"{owner_name(owner)} got {name}={tensor!r}: expected a tensor of {kind}")


def _examples(output: ExportOutput, receiver_tensors: Mapping[str, AnyTensor]) -> tf.Tensor:
    tensors = list(receiver_tensors.values())
    if len(tensors) != 1 or tensors[0].dtype != tf.string:
        raise ConfigError(
            f"{owner_name(output)} got the receiver tensors {dict(receiver_tensors)!r}: expected one tensor of "
            "serialized examples (strings); use a PredictOutput for other tensors"
        )
    return tensors[0]


def _signature(inputs: Mapping[str, AnyTensor], outputs: Mapping[str, tf.Tensor], method: str) -> Any:
    with silent_deprecations():
        return tf.saved_model.build_signature_def(
            {name: tf.saved_model.build_tensor_info(tensor) for name, tensor in inputs.items()},
            {name: tf.saved_model.build_tensor_info(tensor) for name, tensor in outputs.items()},
            method,
        )
