"""A reducer that measures when it first sees gradients, and then is the one that was fastest.

What is fastest depends on the shapes, and those are known when gradients are reduced and not when a trainer is made. So
the choice is itself a reducer.
"""

from collections.abc import Sequence
from typing import Any

from tpack.errors import ReductionError
from tpack.reduction.base import Column, ReduceOp, Reducer
from tpack.reduction.choose.by_kind import choose_by_kind
from tpack.reduction.choose.by_measurement import MeasuredChoice, choose_by_measurement
from tpack.reduction.measurement import format_table
from tpack.utils import logger


class AutoReducer(Reducer):
    """Reduce dense gradients with what `choose_by_measurement` finds for them; the log says what, and why.

    Measuring takes some seconds for each candidate before the graph is built, and nothing when the same towers and
    gradients were measured on this machine before. Gradients that cannot be measured, because a shape is not fully
    defined or a tower has no device of its own, are reduced by what suits the kinds of the devices.

    Args:
        session_config: the ``ConfigProto`` of the session that will train, or None.
        choose_options: other keyword arguments of `choose_by_measurement`.

    Source:
        tpack's own.
    """

    name = "auto"

    def __init__(self, session_config: Any = None, **choose_options: Any) -> None:
        self._session_config = session_config
        self._choose_options = choose_options

    def _reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        if not columns:
            return []
        chosen = self._choose(columns)
        logger.info(f"Gradients of {len(columns[0])} towers are reduced by {chosen.reducer.name}: {chosen.reason}.")
        if chosen.rows:
            logger.info("What was measured:\n" + format_table(chosen.rows))
        return list(zip(*chosen.reducer.reduce(list(zip(*columns, strict=True)), op), strict=True))

    def _choose(self, columns: Sequence[Column]) -> MeasuredChoice:
        devices = [tensor.device for tensor in columns[0]]
        shapes, dtypes = [column[0].shape for column in columns], [column[0].dtype for column in columns]
        try:
            return choose_by_measurement(devices, shapes, dtypes, self._session_config, **self._choose_options)
        except ReductionError as error:
            copying = choose_by_kind(devices)
            return MeasuredChoice(copying.reducer, f"nothing was measured, since {error}; {copying.reason}")
