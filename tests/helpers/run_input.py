"""Run an input source as a trainer does: set up, tensors for each tower, the callbacks' life cycle around steps."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tpack.input_source.base import InputSource
from tpack.tower.context import TowerContext
from tpack.tower.names import tower_name

SIGNATURE = (tf.TensorSpec([None, 2], tf.float32, "image"), tf.TensorSpec([], tf.int32, "label"))


class InputRun:
    """A training on an input source, whose steps do nothing but fetch each tower's inputs."""

    def __init__(self, source: InputSource, signature: Sequence[Any], num_towers: int) -> None:
        self.source = source
        self.callbacks = source.setup(signature)
        self.inputs: list[Any] = []
        # What a model makes of the inputs, so that no run fetches what a source itself made.
        self.towers: list[Any] = []
        for k in range(num_towers):
            with TowerContext(tower_name(k), True, index=k, total=num_towers, device=f"/device:CPU:{k}"):
                self.inputs.append(source.get_input_tensors())
                self.towers.append([tf.identity(tensor) for tensor in self.inputs[-1]])
        self.trainer = FakeTrainer(train_op=tf.no_op())

    def step(self, feed_dict: Any = None) -> list[list[Any]]:
        """Run one step and return each tower's values."""
        return self.trainer.hooked_sess.run(self.towers, feed_dict)

    def labels(self, num_steps: int) -> list[int]:
        """Run steps and return the second component of every data point, in the order of steps and towers."""
        return [int(values[1]) for _ in range(num_steps) for values in self.step()]


@contextmanager
def running(source: InputSource, signature: Sequence[Any] = SIGNATURE, *, num_towers: int = 1) -> Iterator[InputRun]:
    """Train on an input source during the block, in the current graph."""
    run = InputRun(source, signature, num_towers)
    run.trainer.setup(run.callbacks)
    with run.trainer.sess.as_default():
        try:
            run.trainer.callbacks.before_train()
            yield run
        finally:
            run.trainer.callbacks.after_train()
            run.trainer.sess.close()
