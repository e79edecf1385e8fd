"""The contract of predictors: functions of one numpy data point."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat.runtime import make_callable
from tpack.step.op_traceback import with_origin
from tpack.utils.renames import on_unknown_name

__getattr__ = on_unknown_name(__name__)


class PredictorBase:
    """Function of a data point's components; subclasses override `_do_call`.

    Attributes:
        return_input: return ``(data_point, outputs)`` in place of the outputs alone.
    """

    return_input = False

    def __call__(self, *dp: Any) -> Any:
        """Return the list of outputs for one value of each input, or ``(dp, outputs)`` with `return_input`."""
        output = self._do_call(dp)
        return (dp, output) if self.return_input else output

    def _do_call(self, dp: Sequence[Any]) -> Any:
        """Return the outputs of one data point."""
        raise NotImplementedError(f"{type(self).__name__} does not override _do_call")


def make_predict_function(
    session: tf.Session, inputs: Sequence[tf.Tensor], outputs: Sequence[tf.Tensor]
) -> Callable[..., list[np.ndarray]]:
    """Return a function of one array for each input that returns the outputs, while the session is open.

    Outputs may be inputs too, as where an input has a default, such as the noise of a generator; they are returned as
    given, since TensorFlow's fast callables reject a tensor that is both fed and fetched. The error of a failed
    operation names the line of the program that made it, if the function was not loaded.
    """
    position_of = {tensor.name: position for position, tensor in enumerate(inputs)}
    computed = [tensor for tensor in outputs if tensor.name not in position_of]
    call = make_callable(session, feeds=inputs, fetches=computed) if computed else lambda *arrays: []

    def function(*arrays: np.ndarray) -> list[np.ndarray]:
        try:
            return call(*arrays)
        except tf.errors.OpError as error:
            raise with_origin(error, session.graph) from None

    if len(computed) == len(outputs):
        return function

    def predict(*arrays: np.ndarray) -> list[np.ndarray]:
        values = iter(function(*arrays))
        return [arrays[position_of[each.name]] if each.name in position_of else next(values) for each in outputs]

    return predict
