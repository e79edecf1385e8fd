"""Tiny models, inputs and callbacks for tests of trainers."""

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.tensors import TensorInput


class Line(ModelDesc):
    """Fits y = w * x + b; the data says w = 2 and b = 1."""

    def inputs(self) -> list[Any]:
        return [tf.TensorSpec([None], tf.float32, "x"), tf.TensorSpec([None], tf.float32, "y")]

    def build_graph(self, x: Any, y: Any) -> Any:
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        b = tf.get_variable("b", [], initializer=tf.zeros_initializer())
        prediction = tf.add(w * x, b, name="prediction")
        return tf.reduce_mean(tf.square(prediction - y), name="cost")

    def optimizer(self) -> Any:
        rate = tf.get_variable("learning_rate", initializer=0.1, trainable=False)
        return tf.train.GradientDescentOptimizer(rate)


def points() -> list[list[np.ndarray]]:
    """Return eight batches of four (x, y) points on the line."""
    xs = np.linspace(-1, 1, 32, dtype="float32").reshape(8, 4)
    return [[x, 2 * x + 1] for x in xs]


def line_input(size: int | None = 8) -> TensorInput:
    """Return an input that gives the same batch of points at each step."""
    x, y = (np.concatenate(part) for part in zip(*points(), strict=True))
    return TensorInput(lambda: [tf.constant(x), tf.constant(y)], size=size)


class Recorder(Callback):
    """Writes down which hooks were called, with the counters at that time."""

    _chief_only = False

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.weights: dict[str, Any] = {}

    def _note(self, hook: str) -> None:
        self.calls.append((hook, self.epoch_num, self.local_step, self.global_step))

    def _setup_graph(self) -> None:
        self.calls.append(("setup_graph",))

    def _before_train(self) -> None:
        self._note("before_train")

    def _before_epoch(self) -> None:
        self._note("before_epoch")

    def _before_run(self, ctx: Any) -> None:
        self._note("before_run")

    def _after_run(self, ctx: Any, values: Any) -> None:
        self._note("after_run")

    def _trigger_step(self) -> None:
        self._note("trigger_step")

    def _after_epoch(self) -> None:
        self._note("after_epoch")

    def _trigger_epoch(self) -> None:
        self._note("trigger_epoch")

    def _after_train(self) -> None:
        self._note("after_train")
        session = self.trainer.sess
        self.weights = {variable.op.name: session.run(variable) for variable in tf.global_variables()}
