"""How the towers of one source take their data: in the order of the towers, counted, and timed."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.input_source.data_wait import WaitClock, now
from tpack.input_source.dequeue_chain import DequeueChain
from tpack.input_source.taken_counter import TakenCounter


class DataTaker:
    """Makes the operations that take data; to be made outside of towers.

    Creates:
        The variables of its counter and its clock.
    """

    def __init__(self) -> None:
        self._chain = DequeueChain()
        self._counter = TakenCounter()
        self._clock = WaitClock()

    def take(self, make: Callable[[], Sequence[Any]], num_points: int, *, timed: bool) -> list[Any]:
        """Take the data of one tower.

        Args:
            make: makes an operation that takes data, and returns its outputs.
            num_points: how many data points it takes.
            timed: whether the step waits for them, and not something that runs beside it.

        Returns:
            The outputs, on the CPU.
        """
        with tf.device("/device:CPU:0"), self._chain.link(), self._counter.counting(num_points):
            begin = now() if timed else tf.no_op()
            with tf.control_dependencies([begin]):
                tensors = list(make())
            ops = [tensor.op for tensor in tensors[:1] if isinstance(tensor, tf.Tensor)]
            with tf.control_dependencies(ops):
                end = now() if timed else tf.no_op()
            # The next tower begins to wait when this one has ended.
            self._chain.append(end.op if timed else end)
            if not timed or not all(isinstance(tensor, tf.Tensor) for tensor in tensors):
                return tensors
            waited = self._clock.add(end - begin)
            # Whoever uses the data makes the time be taken; nothing has to be fetched for it.
            with tf.control_dependencies([waited]):
                return list(tf.identity_n(tensors))

    def connect(self, session: Any) -> None:
        """Count in a session, from now on."""
        self._counter.connect(session)
        self._clock.connect(session)

    def restart(self) -> None:
        """Count from 0 again; no step may be running."""
        self._counter.restart()

    def num_taken(self) -> int:
        """Return how many data points were taken since `connect` or `restart`."""
        return self._counter.value()

    def waited(self) -> float:
        """Return for how many seconds steps have waited."""
        return self._clock.value()
