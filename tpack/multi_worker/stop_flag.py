"""Stop flag that travels with the gradients of a step, so that all workers stop after the same step.

A worker that is to stop sets the flag and makes one more step, in which all receive it. Where several steps are one
session call, the call ends with that step in each worker: the graph itself looks at the flag.
"""

import tensorflow.compat.v1 as tf


class StopFlag:
    """Sum of the workers' stop flags in a step.

    Attributes:
        told: the sum, a scalar; None before the graph is built.
    """

    STOP, SIGNAL = 1, 4096

    def __init__(self) -> None:
        self.told: tf.Tensor | None = None

    def build(self) -> tf.Tensor:
        """Return this worker's flag, in the current graph.

        Creates:
            A local variable.
        """
        self._said = _local("end_signal", tf.zeros_initializer(), tf.float32)
        self._says = {what: self._said.assign(what, read_value=False) for what in (self.STOP, self.SIGNAL)}
        return self._said.read_value()

    def say(self, session: tf.Session, what: int) -> None:
        """Set the flag for the next step: `STOP`, or `SIGNAL` for a cause outside of the program.

        It may be called from another thread while a call makes several steps: the next one of them sends it.
        """
        session.run(self._says[what])

    def keep(self) -> tuple[tf.Operation, tf.Variable]:
        """Return an operation that stores the sum of each step, and a variable: whether it was zero.

        Creates:
            Two local variables.
        """
        self._kept = _local("end_signal_kept", tf.zeros_initializer(), tf.float32)
        goes_on = _local("end_signal_goes_on", tf.ones_initializer(), tf.bool)
        is_silent = tf.equal(self.told, 0.0)
        kept = [self._kept.assign(self.told, read_value=False), goes_on.assign(is_silent, read_value=False)]
        return tf.group(*kept, name="keep_end_signal"), goes_on

    def kept(self, session: tf.Session) -> float:
        """Return the sum of the last step; after `keep`."""
        return float(session.run(self._kept))


def _local(name: str, initializer: tf.Tensor, dtype: tf.DType) -> tf.Variable:
    collections = [tf.GraphKeys.LOCAL_VARIABLES]
    return tf.get_variable(name, [], dtype, initializer, trainable=False, collections=collections, use_resource=True)
