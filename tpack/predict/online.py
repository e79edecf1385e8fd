"""Prediction in a session that is there already, such as the one that trains."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow.compat.v1 as tf
from numpy.typing import ArrayLike

from tpack.errors import ConfigError, DataPointError
from tpack.input_source.component import Component, Misfit
from tpack.predict.base import PredictorBase, make_predict_function


class OnlinePredictor(PredictorBase):
    """Feed some tensors of a graph and fetch others.

    Args:
        input_tensors: what a data point is fed to.
        output_tensors: what is returned.
        return_input: return ``(data_point, outputs)`` in place of the outputs alone.
        sess: the session; None means the one that is the default when the predictor is called.

    Raises:
        ConfigError: Something is not a tensor; in a call, there is no session.
        DataPointError: In a call, the number of inputs is wrong, or the rank, shape or dtype of one.
    """

    def __init__(
        self,
        input_tensors: Sequence[tf.Tensor],
        output_tensors: Sequence[tf.Tensor],
        return_input: bool = False,
        sess: tf.Session | None = None,
    ) -> None:
        self.input_tensors = _check_tensors("input", input_tensors)
        self.output_tensors = _check_tensors("output", output_tensors)
        self.return_input = return_input
        self.sess = sess
        self._components = input_components(self.input_tensors, [tensor.op.name for tensor in self.input_tensors])
        self._compiled: tuple[tf.Session, Callable[..., list[np.ndarray]]] | None = None

    def _do_call(self, dp: Sequence[ArrayLike]) -> list[np.ndarray]:
        feeds = convert_inputs(type(self).__name__, self._components, dp)
        session = tf.get_default_session() if self.sess is None else self.sess
        if session is None:
            raise ConfigError(
                "OnlinePredictor was given no session and none is the default: call it inside 'with session:'"
            )
        # Looked at and replaced as one thing, since other threads may have other sessions.
        compiled = self._compiled
        if compiled is None or compiled[0] is not session:
            function = make_predict_function(session, self.input_tensors, self.output_tensors)
            self._compiled = compiled = (session, function)
        return compiled[1](*feeds)


def input_components(tensors: Sequence[tf.Tensor], names: Sequence[str]) -> list[Component]:
    """Return what checks the inputs of a predictor that feeds these tensors."""
    specs = [tf.TensorSpec(tensor.shape, tensor.dtype, name) for tensor, name in zip(tensors, names, strict=True)]
    return [Component(position, spec, "input") for position, spec in enumerate(specs)]


def convert_inputs(predictor: str, components: Sequence[Component], dp: Sequence[ArrayLike]) -> list[np.ndarray]:
    """Return a data point as arrays of the dtypes to be fed.

    Args:
        predictor: who asks, for messages.
        components: what `input_components` made.
        dp: the data point.

    Raises:
        DataPointError: The number of inputs is wrong, or the rank, shape or dtype of one.
    """
    if len(dp) != len(components):
        names = ", ".join(component.name for component in components)
        raise DataPointError(f"{predictor} takes {len(components)} inputs ({names}), got {len(dp)}")
    try:
        arrays = [component.check(value) for component, value in zip(components, dp, strict=True)]
    except Misfit as misfit:
        raise DataPointError(f"{predictor}: {misfit}") from misfit.__cause__
    return [array.astype(item.dtype, copy=False) for array, item in zip(arrays, components, strict=True)]


def _check_tensors(role: str, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    for tensor in tensors:
        if not isinstance(tensor, tf.Tensor):
            raise ConfigError(f"an {role} of OnlinePredictor must be a tensor, got {tensor!r}")
    return list(tensors)
