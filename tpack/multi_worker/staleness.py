"""What asynchronous workers know of each other in a step: how far each is, and whether one wants to end.

Each worker counts its steps in a variable on the first parameter server, and reads those of all after each of its own.
"""

import tensorflow.compat.v1 as tf

from tpack.multi_worker.gradient_queues import FIRST_SERVER
from tpack.multi_worker.stop_flag import StopFlag
from tpack.reduction.sums import on_device

_KEY = "multi_worker_progress"


class Progress:
    """How many steps the workers of a training have made since it began here.

    Args:
        rank: this worker's.
        num_workers: how many there are.

    Attributes:
        steps: how many each worker has made, right after a step of this one.
        variables: what is counted in; worker 0 is to initialise them before anybody begins.
    """

    steps: tf.Tensor

    def __init__(self, rank: int, num_workers: int) -> None:
        self._rank = rank
        self._num_workers = num_workers
        self.variables: list[tf.Variable] = []

    def build(self, update: tf.Operation, end_signal: StopFlag) -> tf.Operation:
        """Return a step that is counted, and tells the others what this worker wants.

        Args:
            update: the step.
            end_signal: what this worker wants, and what is heard from the others.

        Shapes:
            ``steps`` gets [W].

        Creates:
            W + 1 scalars on the first parameter server, in a collection of their own.
        """
        said = end_signal.build()
        with tf.name_scope("progress"), on_device(FIRST_SERVER), tf.control_dependencies([update]):
            counts = [self._shared(f"progress/worker{rank}", tf.int64) for rank in range(self._num_workers)]
            word = self._shared("progress/word", tf.float32)
            noted = [counts[self._rank].assign_add(1, read_value=False), word.assign_add(said, read_value=False)]
            with tf.control_dependencies(noted):
                self.steps = tf.stack([count.read_value() for count in counts])
                end_signal.told = word.read_value()
        self.now = tf.stack([count.read_value() for count in counts]), word.read_value()
        return tf.group(update, *noted, name="train_op")

    def _shared(self, name: str, dtype: tf.DType) -> tf.Variable:
        with tf.control_dependencies(None), tf.device(FIRST_SERVER):
            variable = tf.get_variable(
                name, [], dtype, tf.zeros_initializer(), trainable=False, collections=[_KEY], use_resource=True
            )
        self.variables.append(variable)
        return variable
