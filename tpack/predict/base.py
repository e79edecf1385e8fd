"""The contract of a predictor: a function of one numpy data point."""

from collections.abc import Sequence
from typing import Any


class PredictorBase:
    """Call it with the components of a data point to get the outputs; subclasses override `_do_call`.

    Attributes:
        return_input: return ``(data_point, outputs)`` in place of the outputs alone.
    """

    return_input = False

    def __call__(self, *dp: Any) -> Any:
        """Predict.

        Args:
            *dp: one value for each input.

        Returns:
            The list of outputs, or ``(dp, outputs)`` with `return_input`.
        """
        output = self._do_call(dp)
        return (dp, output) if self.return_input else output

    def _do_call(self, dp: Sequence[Any]) -> Any:
        """Return the outputs for one data point."""
        raise NotImplementedError(f"{type(self).__name__} does not override _do_call")
