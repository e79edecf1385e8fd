"""Step counters of asynchronous workers, with their stop flag.

Each worker counts its steps in a variable on the first parameter server, and reads those of all after each step.
"""

import tensorflow.compat.v1 as tf

from tpack.multi_worker.coordinated_stop import StopFlag
from tpack.multi_worker.gradient_queues import FIRST_SERVER
from tpack.reduction.sums import on_device

_KEY = "multi_worker_progress"


class Progress:
    """Step counters of the workers of a training, since it began here.

    Attributes:
        steps: the steps of each worker, right after a step of this one.
        variables: the counters, for worker 0 to initialise first.
    """

    steps: tf.Tensor

    def __init__(self, rank: int, num_workers: int) -> None:
        self._rank = rank
        self._num_workers = num_workers
        self.variables: list[tf.Variable] = []

    def build(self, update: tf.Operation, stop_flag: StopFlag) -> tf.Operation:
        """Return a step (an update) that is counted, and adds this worker's stop flag.

        Shapes:
            ``steps`` gets [W].

        Creates:
            W + 1 scalars on the first parameter server, in a collection of their own.
        """
        said = stop_flag.build()
        with tf.name_scope("progress"), on_device(FIRST_SERVER), tf.control_dependencies([update]):
            counts = [self._shared(f"progress/worker{rank}", tf.int64) for rank in range(self._num_workers)]
            word = self._shared("progress/word", tf.float32)
            noted = [counts[self._rank].assign_add(1, read_value=False), word.assign_add(said, read_value=False)]
            with tf.control_dependencies(noted):
                self.steps = tf.stack([count.read_value() for count in counts])
                stop_flag.total = word.read_value()
        self.now = tf.stack([count.read_value() for count in counts]), word.read_value()
        return tf.group(update, *noted, name="train_op")

    def _shared(self, name: str, dtype: tf.DType) -> tf.Variable:
        with tf.control_dependencies(None), tf.device(FIRST_SERVER):
            variable = tf.get_variable(
                name, [], dtype, tf.zeros_initializer(), trainable=False, collections=[_KEY], use_resource=True
            )
        self.variables.append(variable)
        return variable
