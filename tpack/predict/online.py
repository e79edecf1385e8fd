"""Prediction in an existing session, such as that of training."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow.compat.v1 as tf
from numpy.typing import ArrayLike

from tpack.errors import ConfigError, DataPointError
from tpack.input_source.spec_check import Component, SpecMismatch
from tpack.predict.base import PredictorBase, make_predict_function
from tpack.tfutils.dependency import ancestors
from tpack.utils.renames import point_of
from tpack.utils.validation import check_arguments, check_function, check_instances


@check_arguments
class OnlinePredictor(PredictorBase):
    """Predictor that feeds some tensors of a graph and fetches others.

    Args:
        input_tensors: the tensors to feed with a data point.
        output_tensors: the tensors to fetch.
        return_input: return ``(data_point, outputs)`` in place of the outputs alone.
        sess: the session; None means the default session at each call.

    Raises:
        ConfigError: Something is not a tensor, or an output needs a placeholder that is not an input; in a call, there
            is no session, or it was closed.
        DataPointError: In a call, the number of inputs is wrong, or the rank, shape or dtype of one.
    """

    def __init__(
        self,
        input_tensors: Sequence[tf.Tensor],
        output_tensors: Sequence[tf.Tensor],
        return_input: bool = False,
        sess: tf.Session | None = None,
    ) -> None:
        self.input_tensors = check_instances(self, "input_tensors", input_tensors, tf.Tensor)
        self.output_tensors = check_instances(self, "output_tensors", output_tensors, tf.Tensor)
        self.return_input = return_input
        if sess is not None:
            check_function(self, "sess", getattr(sess, "run", sess), "a session")
        check_that_inputs_suffice(self.input_tensors, self.output_tensors)
        self.sess = sess
        self._components = input_components(self.input_tensors, [tensor.op.name for tensor in self.input_tensors])
        self._compiled: tuple[tf.Session, Callable[..., list[np.ndarray]]] | None = None

    def _do_call(self, dp: Sequence[ArrayLike]) -> list[np.ndarray]:
        feeds = convert_inputs(type(self).__name__, self._components, point_of(dp, len(self._components)))
        session = tf.get_default_session() if self.sess is None else self.sess
        if session is None:
            raise ConfigError(
                "OnlinePredictor has no session and there is no default one: call it inside 'with session:'"
            )
        # Read and replaced as one object, since threads may have other sessions.
        compiled = self._compiled
        try:
            if compiled is None or compiled[0] is not session:
                function = make_predict_function(session, self.input_tensors, self.output_tensors)
                self._compiled = compiled = (session, function)
            return compiled[1](*feeds)
        except (RuntimeError, tf.errors.CancelledError) as error:
            if "closed" not in str(error):
                raise
            raise ConfigError(f"the session of this {type(self).__name__} was closed: use a new one") from error


def input_components(tensors: Sequence[tf.Tensor], names: Sequence[str]) -> list[Component]:
    """Return the checkers of a predictor's inputs."""
    specs = [tf.TensorSpec(tensor.shape, tensor.dtype, name) for tensor, name in zip(tensors, names, strict=True)]
    return [Component(position, spec, "input") for position, spec in enumerate(specs)]


def convert_inputs(predictor: str, components: Sequence[Component], dp: Sequence[ArrayLike]) -> list[np.ndarray]:
    """Return a data point as arrays of the dtypes to feed; the name of the predictor is for messages.

    Raises:
        DataPointError: The number of inputs is wrong, or the rank, shape or dtype of one.
    """
    if len(dp) != len(components):
        names = ", ".join(component.name for component in components)
        raise DataPointError(f"{predictor} got {len(dp)} inputs: expected {len(components)} ({names})")
    try:
        arrays = [component.check(value) for component, value in zip(components, dp, strict=True)]
    except SpecMismatch as misfit:
        raise DataPointError(f"{predictor}: {misfit}") from misfit.__cause__
    return [array.astype(item.dtype, copy=False) for array, item in zip(arrays, components, strict=True)]


def check_that_inputs_suffice(inputs: Sequence[tf.Tensor], outputs: Sequence[tf.Tensor]) -> None:
    """Raise a `ConfigError` for outputs that need a placeholder that is not fed."""
    # Operations before an input are not run.
    needed = ancestors(outputs, up_to=inputs)
    missing = sorted(op.name for op in needed if op.type == "Placeholder")
    if missing:
        raise ConfigError(
            f"the outputs {_names(outputs)} need the input {', '.join(missing)} too: the inputs are {_names(inputs)}"
        )


def _names(tensors: Sequence[tf.Tensor]) -> str:
    return ", ".join(tensor.op.name for tensor in tensors) or "none"
