"""What a model offers when it is exported, and the signature that a server sees of each kind.

A classification and a regression take serialized examples, one string for each; a prediction takes whatever the model
does.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError

_CONSTANTS = tf.saved_model.signature_constants


class ExportOutput:
    """The base of all kinds: something that becomes a signature of a SavedModel."""

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        """Return the SignatureDef from the tensors that a server feeds to this output.

        Args:
            receiver_tensors: the tensors that are fed, by the names that clients use.

        Raises:
            ConfigError: This kind of output cannot be had from these tensors.
        """
        raise NotImplementedError


class ClassificationOutput(ExportOutput):
    """Scores of classes, names of classes, or both.

    Args:
        scores: floats; one row for each example, one column for each class.
        classes: strings of the same shape, or of the classes that were chosen.

    Raises:
        ConfigError: Both are missing, or one has another dtype.
    """

    def __init__(self, scores: Any = None, classes: Any = None) -> None:
        if scores is None and classes is None:
            raise ConfigError("a ClassificationOutput wants scores, classes or both, and got neither")
        if scores is not None:
            _check_tensor("scores of a ClassificationOutput", scores, "floats")
        if classes is not None:
            _check_tensor("classes of a ClassificationOutput", classes, "strings")
        self.scores = scores
        self.classes = classes

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
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


class RegressionOutput(ExportOutput):
    """One number for each example.

    Args:
        value: floats.

    Raises:
        ConfigError: It has another dtype.
    """

    def __init__(self, value: Any) -> None:
        _check_tensor("value of a RegressionOutput", value, "floats")
        self.value = value

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
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

    def __init__(self, outputs: Any) -> None:
        named = dict(outputs) if isinstance(outputs, Mapping) else {"output": outputs}
        for name, tensor in named.items():
            if not isinstance(name, str) or not isinstance(tensor, tf.Tensor):
                raise ConfigError(f"a PredictOutput wants tensors by name, got {name!r}: {tensor!r}")
        if not named:
            raise ConfigError("a PredictOutput wants at least one tensor, got an empty dict")
        self.outputs = named

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        """Return a signature for prediction.

        Args:
            receiver_tensors: any tensors by name.
        """
        return _signature(receiver_tensors, self.outputs, _CONSTANTS.PREDICT_METHOD_NAME)


def _check_tensor(what: str, tensor: Any, kind: str) -> None:
    dtype = tensor.dtype if isinstance(tensor, tf.Tensor) else None
    if dtype is None or not (dtype == tf.string if kind == "strings" else dtype.is_floating):
        raise ConfigError(f"{what} must be a tensor of {kind}, got {tensor!r}")


def _examples(output: ExportOutput, receiver_tensors: Mapping[str, Any]) -> Any:
    tensors = list(receiver_tensors.values())
    if len(tensors) != 1 or tensors[0].dtype != tf.string:
        raise ConfigError(
            f"a {type(output).__name__} is served from one tensor of serialized examples (strings), and the receiver "
            f"has {dict(receiver_tensors)!r}: use a PredictOutput for other tensors"
        )
    return tensors[0]


def _signature(inputs: Mapping[str, Any], outputs: Mapping[str, Any], method: str) -> Any:
    return tf.saved_model.build_signature_def(
        {name: tf.saved_model.build_tensor_info(tensor) for name, tensor in inputs.items()},
        {name: tf.saved_model.build_tensor_info(tensor) for name, tensor in outputs.items()},
        method,
    )
