"""By which a worker tells the others, in a step, that this step is to be the last of all.

Workers end after the same step, or one would wait in a step that the others do not make. So who wants to end says so,
and makes one more step, in which all hear it. Where several steps are one run, the run ends with that step, in each
worker: the graph itself looks at what was heard.
"""

import tensorflow.compat.v1 as tf


class StopFlag:
    """What workers tell each other with the gradients of a step; what several say in one step is added up.

    Attributes:
        told: what was said in a step, a scalar; None before the graph is built.
    """

    STOP, SIGNAL = 1, 4096

    def __init__(self) -> None:
        self.told: tf.Tensor | None = None

    def build(self) -> tf.Tensor:
        """Return what this worker says, in the current graph.

        Creates:
            A local variable.
        """
        self._said = _local("end_signal", tf.zeros_initializer(), tf.float32)
        self._says = {what: self._said.assign(what, read_value=False) for what in (self.STOP, self.SIGNAL)}
        return self._said.read_value()

    def say(self, session: tf.Session, what: int) -> None:
        """Say something in the next step: `STOP`, or `SIGNAL` where it comes from outside of the program.

        While several steps are made, it may be called from another thread: the next one of them says it.
        """
        session.run(self._says[what])

    def keep(self) -> tuple[tf.Operation, tf.Variable]:
        """Return what keeps in each step what was said, and a variable: whether nothing was.

        Creates:
            Two local variables.
        """
        self._kept = _local("end_signal_kept", tf.zeros_initializer(), tf.float32)
        goes_on = _local("end_signal_goes_on", tf.ones_initializer(), tf.bool)
        is_silent = tf.equal(self.told, 0.0)
        kept = [self._kept.assign(self.told, read_value=False), goes_on.assign(is_silent, read_value=False)]
        return tf.group(*kept, name="keep_end_signal"), goes_on

    def kept(self, session: tf.Session) -> float:
        """Return what was said in the last step; after `keep`."""
        return float(session.run(self._kept))


def _local(name: str, initializer: tf.Tensor, dtype: tf.DType) -> tf.Variable:
    collections = [tf.GraphKeys.LOCAL_VARIABLES]
    return tf.get_variable(name, [], dtype, initializer, trainable=False, collections=collections, use_resource=True)
