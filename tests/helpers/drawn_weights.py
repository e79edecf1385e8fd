"""A model whose steps are exact in binary, to compare trainings bit for bit.

A weight is drawn to a target in each step. Gradients are of few bits, and so are sums and means of them, in any order.
"""

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.tensors import TensorInput
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tower.context import current_tower_context
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config

NUM_STEPS, RATE = 12, 0.25
TARGETS = np.random.default_rng(3).integers(-8, 8, size=(NUM_STEPS, 4)) / 4.0
"""One row for each step, one entry for each of up to four towers of all workers."""


class Drawn(ModelDesc):
    """A weight that is drawn to the target of each step, and a table of which each step touches one row.

    Args:
        make_optimizer: by default that of gradient descent.
        bad_step: the step, counted from 0, in which a tower's cost is infinite.
        bad_tower: that tower.
        dtype: that of the weight.
    """

    def __init__(
        self, make_optimizer: Any = None, *, bad_step: int = -1, bad_tower: int = 0, dtype: str = "float64"
    ) -> None:
        self._dtype = tf.as_dtype(dtype)
        self._make_optimizer = make_optimizer or (lambda: tf.train.GradientDescentOptimizer(RATE))
        self._bad = (bad_step, bad_tower)

    def inputs(self) -> list[Any]:
        return [tf.TensorSpec([], self._dtype, name) for name in ("target", "factor")] + [
            tf.TensorSpec([], tf.int64, "step")
        ]

    def build_graph(self, target: Any, factor: Any, step: Any) -> Any:
        weight = tf.get_variable("w", [], self._dtype, tf.zeros_initializer())
        table = tf.get_variable("table", [3, 1], self._dtype, tf.zeros_initializer())
        row = tf.nn.embedding_lookup(table, [step % 3])
        return (tf.square(weight - target) / 2 + tf.reduce_sum(row) * target) * factor

    def optimizer(self) -> Any:
        return self._make_optimizer()

    def data(self, num_towers: int, rank: int = 0) -> TensorInput:
        """Return the targets of the towers of a worker."""
        bad_step, bad_tower = self._bad

        def get_tensors() -> list[Any]:
            tower = rank * num_towers + current_tower_context().index
            step = tf.cast(get_global_step_var().read_value(), tf.int64)
            is_bad = tf.equal(step, bad_step) & tf.constant(tower == bad_tower)
            factor = tf.where(is_bad, tf.constant(np.inf, self._dtype), tf.constant(1, self._dtype))
            return [tf.constant(TARGETS[:, tower], self._dtype)[step], factor, step]

        return TensorInput(get_tensors, size=NUM_STEPS)


class Weights(Callback):
    """Keeps the first weight, that of each tower after each step, and the values of all saved variables at the end.

    Attributes:
        trainer: that of the training.
        values: those of the model, after it.
    """

    _chief_only = False

    def __init__(self) -> None:
        self.seen: list[list[float]] = []
        self.last: dict[str, np.ndarray] = {}
        self.steps = 0
        self.values: dict[str, np.ndarray] = {}

    def _setup_graph(self) -> None:
        self._weights = [tower.get_variable("w") for tower in self.trainer.towers]

    def _before_train(self) -> None:
        self.start = self.trainer.sess.run(self._weights[0])

    def _trigger_step(self) -> None:
        self.seen.append(self.trainer.sess.run(self._weights))

    def _after_train(self) -> None:
        variables = tf.global_variables()
        self.last = dict(zip([v.op.name for v in variables], self.trainer.sess.run(variables), strict=True))
        self.steps = self.global_step

    @property
    def first(self) -> list[float]:
        """The weight of the main tower after each step."""
        return [weights[0] for weights in self.seen]


def train(
    make_trainer: Any, model: Any = None, callbacks: Any = (), config: Any = TrainConfig, **settings: Any
) -> Weights:
    """Train two epochs of six steps in a graph of its own; with ``steps_per_call`` without the weights of each."""
    model, weights = model or Drawn(), Weights()
    options = {"steps_per_epoch": 6, "max_epoch": 2, **settings}
    with tf.Graph().as_default():
        trainer = make_trainer()
        rank = 0 if trainer.peers is None else trainer.peers.rank
        given = config(
            model=model,
            data=model.data(len(trainer.devices), rank),
            callbacks=[*callbacks, *([] if options.get("steps_per_call") else [weights])],
            extra_callbacks=[],
            monitors=[],
            **options,
        )
        launch_train_with_config(given, trainer)
        if trainer.is_chief:
            weights.values = trainer.get_weights()
    return weights


def drawn(num_towers: int, applied_after: list[int], left_out: Any = ()) -> list[float]:
    """Return the weight after each step as numpy has it, with the steps after which gradients are applied."""
    weight, since, seen = 0.0, 0, []
    for step in range(1, max(applied_after) + 1):
        if step in applied_after:
            if step not in left_out:
                weight -= RATE * np.mean([weight - TARGETS[number, :num_towers] for number in range(since, step)])
            since = step
        seen.append(weight)
    return seen
