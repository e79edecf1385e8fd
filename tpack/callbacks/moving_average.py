"""Keep the moving averages of summaries up to date.

`add_moving_summary` only puts the operations that do it into a collection; somebody has to run them.
"""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.errors import CallbackError
from tpack.tfutils.keys import MOVING_SUMMARY_OPS_KEY
from tpack.utils import logger


class MovingAverageSummary(Callback):
    """Run the operations of a collection together with every step.

    Args:
        collection: the collection that holds them.
        train_op: an operation, or its name: they become part of it, and run whenever it does. Unless given they run
            with each `trainer.hooked_sess.run`, which in a trainer that runs several train ops a step is several
            times.

    Raises:
        CallbackError: `train_op` is not in the graph.
    """

    _chief_only = False

    def __init__(self, collection: str = MOVING_SUMMARY_OPS_KEY, train_op: Any = None) -> None:
        self._collection = collection
        self._train_op = train_op
        self._fetch: Any = None

    def _setup_graph(self) -> None:
        ops = [item if isinstance(item, tf.Operation) else item.op for item in tf.get_collection(self._collection)]
        if not ops:
            return
        if self._train_op is None:
            self._fetch = tf.group(*ops, name="maintain_moving_average_summary")
            carrier = "with every step"
        else:
            train_op = self._find_train_op()
            train_op._add_control_inputs(ops)
            carrier = f"with operation {train_op.name}"
        logger.info(f"The {len(ops)} operations of collection {self._collection} run {carrier}.")

    def _find_train_op(self) -> Any:
        try:
            found = self.graph.as_graph_element(self._train_op, allow_tensor=True, allow_operation=True)
        except (KeyError, ValueError, TypeError) as error:
            raise CallbackError(
                f"{self} wants an operation of the graph as train_op, got {self._train_op!r}"
            ) from error
        return found if isinstance(found, tf.Operation) else found.op

    def _before_run(self, ctx: Any) -> Any:
        return self._fetch

    def implements(self, hook: str) -> bool:
        """Tell whether `hook` does anything; with a train op nothing is left to do around a step."""
        if hook == "before_run":
            return self._train_op is None
        return super().implements(hook)
