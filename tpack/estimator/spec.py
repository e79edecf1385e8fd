"""What a model_fn returns: tensors and operations for one of the three modes, and what the model offers when exported.

The fields are those that people know from TensorFlow 1's estimators. All are checked when a spec is made, since what is
wrong in one shows much later otherwise, and somewhere else.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.utils.validation import check_arguments, check_instances, shown

AnyTensor: TypeAlias = tf.Tensor | tf.SparseTensor
Tensors: TypeAlias = AnyTensor | Mapping[str, AnyTensor]
"""One tensor, or several by name."""
Runnable: TypeAlias = tf.Tensor | tf.Operation | tf.Variable
"""What people call an op; of a variable, it is the assignment that returned it."""
Metrics: TypeAlias = Mapping[str, tuple[Runnable, Runnable]]
"""Name to value and update op."""

_TENSORS = (tf.Tensor, tf.SparseTensor)
# What assigning a variable returns looks like one, and like that of TensorFlow 2 only.
_RUNNABLE = (tf.Tensor, tf.Operation, tf.compat.v2.Variable)
_DEFAULT_SIGNATURE = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
_CONSTANTS = tf.saved_model.signature_constants


class ModeKeys:
    """The three values of the argument ``mode`` of a model_fn."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


ODD_BATCH = "a batch must be divisible by the number of towers"
"""What is said of one that is not, where its size is known and where it is found out in a step."""

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
        """Return a spec with other values, checked like any.

        Raises:
            ConfigError: The mode would change, or a field be wrong.
        """
        if changes.get("mode", self.mode) != self.mode:
            raise ConfigError(f"the mode of a spec cannot change: it is {self.mode!r}, got {changes['mode']!r}")
        return EstimatorSpec(**{**self._asdict(), **changes})


class ExportOutput:
    """The base of all kinds: something that becomes a signature of a SavedModel."""

    def as_signature_def(self, receiver_tensors: Mapping[str, AnyTensor]) -> Any:
        """Return the SignatureDef from the tensors that a server feeds to this output.

        Args:
            receiver_tensors: the tensors that are fed, by the names that clients use.

        Raises:
            ConfigError: This kind of output cannot be had from these tensors.
        """
        raise NotImplementedError


@check_arguments
class ClassificationOutput(ExportOutput):
    """Scores of classes, names of classes, or both.

    Args:
        scores: floats; one row for each example, one column for each class.
        classes: strings of the same shape, or of the classes that were chosen.

    Raises:
        ConfigError: Both are missing, or one has another dtype.
    """

    def __init__(self, scores: tf.Tensor | None = None, classes: tf.Tensor | None = None) -> None:
        if scores is None and classes is None:
            raise ConfigError("a ClassificationOutput wants scores, classes or both, and got neither")
        if scores is not None:
            _check_tensor("scores of a ClassificationOutput", scores, "floats")
        if classes is not None:
            _check_tensor("classes of a ClassificationOutput", classes, "strings")
        self.scores = scores
        self.classes = classes

    def as_signature_def(self, receiver_tensors: Mapping[str, AnyTensor]) -> Any:
        """Return a signature for classification of serialized examples.

        Args:
            receiver_tensors: one tensor of strings.

        Raises:
            ConfigError: It is another tensor, or several.
        """
        outputs = {_CONSTANTS.CLASSIFY_OUTPUT_SCORES: self.scores, _CONSTANTS.CLASSIFY_OUTPUT_CLASSES: self.classes}
        return _signature(
            {_CONSTANTS.CLASSIFY_INPUTS: _examples(self, receiver_tensors)},
            {name: tensor for name, tensor in outputs.items() if tensor is not None},
            _CONSTANTS.CLASSIFY_METHOD_NAME,
        )


@check_arguments
class RegressionOutput(ExportOutput):
    """One number for each example.

    Args:
        value: floats.

    Raises:
        ConfigError: It has another dtype.
    """

    def __init__(self, value: tf.Tensor) -> None:
        _check_tensor("value of a RegressionOutput", value, "floats")
        self.value = value

    def as_signature_def(self, receiver_tensors: Mapping[str, AnyTensor]) -> Any:
        """Return a signature for regression from serialized examples.

        Args:
            receiver_tensors: one tensor of strings.

        Raises:
            ConfigError: It is another tensor, or several.
        """
        return _signature(
            {_CONSTANTS.REGRESS_INPUTS: _examples(self, receiver_tensors)},
            {_CONSTANTS.REGRESS_OUTPUTS: self.value},
            _CONSTANTS.REGRESS_METHOD_NAME,
        )


class PredictOutput(ExportOutput):
    """Any tensors by name.

    Args:
        outputs: a dict of tensors, or one tensor, which is then called ``output``.

    Raises:
        ConfigError: There is nothing in it, or something that is no tensor, or a name that is no string.
    """

    def __init__(self, outputs: tf.Tensor | Mapping[str, tf.Tensor]) -> None:
        named = dict(outputs) if isinstance(outputs, Mapping) else {"output": outputs}
        for name, tensor in named.items():
            if not isinstance(name, str) or not isinstance(tensor, tf.Tensor):
                raise ConfigError(f"a PredictOutput wants tensors by name, got {name!r}: {tensor!r}")
        if not named:
            raise ConfigError("a PredictOutput wants at least one tensor, got an empty dict")
        self.outputs = named

    def as_signature_def(self, receiver_tensors: Mapping[str, AnyTensor]) -> Any:
        """Return a signature for prediction.

        Args:
            receiver_tensors: any tensors by name.
        """
        return _signature(receiver_tensors, self.outputs, _CONSTANTS.PREDICT_METHOD_NAME)


def operation_of(item: Runnable) -> tf.Operation:
    """Return the operation that gives a tensor, or that assigns a variable; an operation is returned as it is.

    What ``variable.assign_add`` returns looks like the variable. As a control dependency it would stand for that, and
    nothing would be assigned.
    """
    return item if isinstance(item, tf.Operation) else item.op


def checked_hooks(what: str, hooks: Iterable[tf.train.SessionRunHook] | None) -> tuple[tf.train.SessionRunHook, ...]:
    """Return session hooks as a tuple; refuse anything else."""
    wanted = "a list of tf.train.SessionRunHook objects"
    return tuple(check_instances("an Estimator", what, hooks or (), tf.train.SessionRunHook, expected=wanted))


def check_mode(mode: object) -> None:
    """Refuse anything but a mode."""
    if mode not in MODES:
        raise ConfigError(f"an EstimatorSpec wants a mode out of {', '.join(MODES)}, got {shown(mode)}")


def checked_predictions(predictions: Tensors | None, mode: str) -> Tensors:
    """Return a tensor or a dict of tensors; refuse anything else, and nothing where predictions are wanted."""
    if predictions is None:
        if mode == ModeKeys.PREDICT:
            raise ConfigError("an EstimatorSpec to predict wants predictions, and they are missing")
        return {}
    for value in predictions.values() if isinstance(predictions, Mapping) else [predictions]:
        if not isinstance(value, _TENSORS):
            raise ConfigError(f"predictions must be a tensor or a dict of tensors, got {shown(predictions)}")
        _check_graph("a prediction", value)
    return predictions


def checked_loss(loss: tf.Tensor | float | None, mode: str) -> tf.Tensor | None:
    """Return the loss as a scalar tensor; refuse one with several elements, and none where it is wanted."""
    if loss is None:
        if mode != ModeKeys.PREDICT:
            raise ConfigError(f"an EstimatorSpec of mode {mode!r} wants a loss, and it is missing")
        return None
    if not isinstance(loss, (*_TENSORS, tf.Variable, float, int)) and not hasattr(loss, "__array__"):
        raise ConfigError(f"loss must be a tensor, got {shown(loss)}")
    tensor: tf.Tensor = tf.convert_to_tensor(loss)
    _check_graph("the loss", tensor)
    if tensor.shape.num_elements() not in (None, 1):
        raise ConfigError(f"the loss must have one element, got {tensor.name} of shape {tensor.shape}")
    return tensor if tensor.shape.rank == 0 else tf.reshape(tensor, [])


def checked_train_op(train_op: Runnable | None, mode: str) -> Runnable | None:
    """Return the train op; refuse none where it is wanted, and what cannot be run."""
    if train_op is None:
        if mode == ModeKeys.TRAIN:
            raise ConfigError("an EstimatorSpec to train wants a train_op, and it is missing")
        return None
    if not isinstance(train_op, _RUNNABLE):
        raise ConfigError(f"train_op must be an operation or a tensor, got {shown(train_op)}")
    _check_graph("the train_op", train_op)
    return train_op


def checked_metrics(metrics: Metrics | None) -> dict[str, tuple[Runnable, Runnable]]:
    """Return name to (value, update op); refuse anything else."""
    metrics = {} if metrics is None else metrics
    if not isinstance(metrics, Mapping):
        raise ConfigError(f"eval_metric_ops must be a dict, got {shown(metrics)}")
    for name, pair in metrics.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ConfigError(f"eval_metric_ops must be pairs (value, update_op), and {name!r} is {shown(pair)}")
        if not all(isinstance(item, _RUNNABLE) for item in pair):
            raise ConfigError(f"eval_metric_ops must be tensors or operations, and {name!r} is {shown(pair)}")
        for item in pair:
            _check_graph(f"the metric {name!r}", item)
    return dict(metrics)


def checked_export_outputs(
    outputs: Mapping[str, ExportOutput] | None, predictions: Tensors, mode: str
) -> dict[str, ExportOutput] | None:
    """Return signature name to output, one of them the default one where there are any; refuse anything else."""
    if outputs is None:
        can_export = mode == ModeKeys.PREDICT and not _has_sparse(predictions)
        return {_DEFAULT_SIGNATURE: PredictOutput(predictions)} if can_export else None
    if not isinstance(outputs, Mapping):
        raise ConfigError(f"export_outputs must be a dict, got {shown(outputs)}")
    for name, output in outputs.items():
        if not isinstance(output, ExportOutput):
            raise ConfigError(f"export_outputs must be ExportOutput objects, and {name!r} is {shown(output)}")
    if _DEFAULT_SIGNATURE in outputs or not outputs:
        return dict(outputs)
    if len(outputs) > 1:
        raise ConfigError(
            f"one of several export_outputs must be called {_DEFAULT_SIGNATURE!r}, got only {', '.join(outputs)}"
        )
    return {**outputs, _DEFAULT_SIGNATURE: next(iter(outputs.values()))}


def checked_scaffold(scaffold: tf.train.Scaffold | None) -> tf.train.Scaffold:
    """Return a new scaffold if none is given; refuse anything else."""
    if scaffold is None:
        return tf.train.Scaffold()
    if not isinstance(scaffold, tf.train.Scaffold):
        raise ConfigError(f"scaffold must be a tf.train.Scaffold, got {shown(scaffold)}")
    return scaffold


def _has_sparse(predictions: Tensors) -> bool:
    values = predictions.values() if isinstance(predictions, Mapping) else [predictions]
    return any(isinstance(value, tf.SparseTensor) for value in values)


def _check_graph(what: str, item: AnyTensor | Runnable) -> None:
    if item.graph is not tf.get_default_graph():
        raise ConfigError(f"{what} is {item!r} of another graph than the one that the model_fn was called in")


def _check_tensor(what: str, tensor: tf.Tensor, kind: str) -> None:
    dtype = tensor.dtype if isinstance(tensor, tf.Tensor) else None
    if dtype is None or not (dtype == tf.string if kind == "strings" else dtype.is_floating):
        raise ConfigError(f"{what} must be a tensor of {kind}, got {tensor!r}")


def _examples(output: ExportOutput, receiver_tensors: Mapping[str, AnyTensor]) -> tf.Tensor:
    tensors = list(receiver_tensors.values())
    if len(tensors) != 1 or tensors[0].dtype != tf.string:
        raise ConfigError(
            f"a {type(output).__name__} is served from one tensor of serialized examples (strings), and the receiver "
            f"has {dict(receiver_tensors)!r}: use a PredictOutput for other tensors"
        )
    return tensors[0]


def _signature(inputs: Mapping[str, AnyTensor], outputs: Mapping[str, tf.Tensor], method: str) -> Any:
    return tf.saved_model.build_signature_def(
        {name: tf.saved_model.build_tensor_info(tensor) for name, tensor in inputs.items()},
        {name: tf.saved_model.build_tensor_info(tensor) for name, tensor in outputs.items()},
        method,
    )
