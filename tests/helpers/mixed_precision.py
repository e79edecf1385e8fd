"""A small model with a convolution, a dense layer and an embedding, and runs of it with any trainer and precision."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import CallbackFactory
from tpack.callbacks.monitors.base import MonitorBase
from tpack.input_source.tensors import TensorInput
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tower.context import current_tower_context

BATCH = 8
SIGNATURE = [
    tf.TensorSpec([None, 4, 4, 2], tf.float32, "image"),
    tf.TensorSpec([None, 2], tf.int32, "ids"),
    tf.TensorSpec([None], tf.int32, "label"),
]


class Scalars(MonitorBase):
    """Keeps the scalars of each epoch."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {}

    def process_scalar(self, name: str, val: float) -> None:
        self.values.setdefault(name, []).append(val)


@dataclass(frozen=True)
class Run:
    """What a training left.

    Attributes:
        towers: the variables of each tower that has its own, by the names of their originals in the main tower.
        saved: the variables that a checkpoint holds.
        scalars: what went to the monitors, epoch by epoch.
        graph: the graph.
    """

    towers: list[dict[str, np.ndarray]]
    saved: dict[str, np.ndarray]
    scalars: dict[str, list[float]]
    graph: Any


def logits_of(image: Any, ids: Any) -> Any:
    """Build the model up to its logits, in the dtype of the image."""
    features = tf.nn.relu(tf.nn.conv2d(image, _weight("conv/W", 3, 3, 2, 4), strides=1, padding="SAME"))
    features = tf.reduce_mean(features, [1, 2]) + tf.reduce_sum(tf.nn.embedding_lookup(_weight("table", 5, 4), ids), 1)
    return tf.add(tf.matmul(features, _weight("fc/W", 4, 3)), _weight("fc/b", 3), name="logits")


def cost_of(overflow: tuple[int, int] | None) -> Any:
    """Return a function that builds the cost; it is infinite in one (step, tower)."""

    def cost(image: Any, ids: Any, label: Any) -> Any:
        logits = tf.cast(logits_of(image, ids), tf.float32, name="logits32")
        cost = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits))
        if overflow is None or not current_tower_context().is_training:
            return cost
        step, tower = overflow
        if current_tower_context().index != tower:
            return cost
        return cost * tf.where(tf.equal(get_global_step_var(), step), np.float32("inf"), np.float32(1))

    return cost


def data() -> list[np.ndarray]:
    """Return one batch, the same at each call."""
    rng = np.random.default_rng(3)
    return [
        rng.normal(size=(BATCH, 4, 4, 2)).astype("float32"),
        rng.integers(0, 5, size=(BATCH, 2)).astype("int32"),
        rng.integers(0, 3, size=BATCH).astype("int32"),
    ]


def train(make_trainer: Any, *, steps: int = 4, overflow: tuple[int, int] | None = None, **options: Any) -> Run:
    """Train on one batch, split over the towers, and return what came out.

    Args:
        make_trainer: makes the trainer, in a new graph.
        steps: how many; an epoch has two.
        overflow: the (step, tower) whose cost is infinite.
        **options: ``optimizer``, by default Adam; ``session_init`` and ``callbacks`` for the training.
    """
    optimizer = options.pop("optimizer", lambda: tf.train.AdamOptimizer(0.02))
    towers: list[dict[str, np.ndarray]] = []
    saved: dict[str, np.ndarray] = {}

    def note(callback: Any) -> None:
        session = callback.trainer.sess
        saved.update(session.run({variable.op.name: variable for variable in tf.global_variables()}))
        recorders = [tower.context.recorder for tower in callback.trainer.towers.training()]
        names = [variable.op.name for variable in recorders[0].variables]
        # Towers that share the first one's variables created none.
        for recorder in filter(lambda recorder: recorder.variables, recorders):
            towers.append(session.run(dict(zip(names, recorder.variables, strict=True))))

    scalars = Scalars()
    with tf.Graph().as_default() as graph:
        trainer = make_trainer()
        trainer.setup_graph(SIGNATURE, TensorInput(_split_over_towers), cost_of(overflow), optimizer)
        trainer.train_with_defaults(
            callbacks=[CallbackFactory(after_train=note), *options.pop("callbacks", [])],
            monitors=[scalars],
            extra_callbacks=[],
            steps_per_epoch=2,
            max_epoch=steps // 2,
            **options,
        )
    return Run(towers, saved, scalars.values, graph)


def _split_over_towers() -> list[Any]:
    tower = current_tower_context()
    rows = BATCH // tower.total
    return [tf.constant(part[tower.index * rows : (tower.index + 1) * rows]) for part in data()]


def _weight(name: str, *shape: int) -> Any:
    values = np.random.default_rng(len(name)).normal(size=shape, scale=0.5)
    return tf.get_variable(name, shape, initializer=tf.constant_initializer(values))
