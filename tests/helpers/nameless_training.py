"""What is trained and called without private names of TensorFlow: see `tests.helpers.without_names`."""

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from tests.helpers.toy_training import Line, line_input
from tpack.callbacks.base import Callback
from tpack.compat import operations, runtime
from tpack.compat.graphs import SaveableValue
from tpack.distribute.strategies import MirroredStrategy
from tpack.errors import TpackError
from tpack.graph_copy.towers import call_in_replicated_towers
from tpack.tower.context import TowerContext, current_tower_context
from tpack.tower.tower_threads import call_in_towers
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SyncMultiGPUTrainerReplicated


class Adam(Line):
    """A line in a variable scope, with a summary."""

    def build_graph(self, x: Any, y: Any) -> Any:
        """Return the cost."""
        with tf.variable_scope("layer"):
            cost = super().build_graph(x, y)
        tf.summary.scalar("cost", cost)
        return cost

    def optimizer(self) -> Any:
        """Return an optimizer with slots."""
        return tf.train.AdamOptimizer(0.1)


class Weights(Callback):
    """Keeps all values at the end."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def _after_train(self) -> None:
        values = self.trainer.sess.run({v.op.name: v for v in tf.global_variables()})
        self.found = {name: value.tolist() for name, value in values.items()}


def train() -> dict[str, Any]:
    """Train three towers, and return their weights."""
    weights = Weights()
    with tf.Graph().as_default():
        config = TrainConfig(
            model=Adam(), data=line_input(), callbacks=[weights], monitors=[], steps_per_epoch=3, max_epoch=2
        )
        launch_train_with_config(config, SyncMultiGPUTrainerReplicated(3))
    return weights.found


def _strategy() -> None:
    with tf.Graph().as_default(), MirroredStrategy(["/cpu:0", "/cpu:1"]).scope():
        tf.get_variable("w", [])


def _copied() -> None:
    with tf.Graph().as_default():
        towers = [TowerContext(f"tower{k}", index=k, total=3, device=f"/cpu:{k}", is_training=True) for k in range(3)]
        call_in_replicated_towers(towers, lambda: tf.constant(1.0), "copy")


def _merge() -> None:
    with tf.Graph().as_default():
        towers = [TowerContext(f"tower{k}", index=k, total=2, device="/cpu:0", is_training=True) for k in range(2)]
        call_in_towers(towers, lambda: current_tower_context().merge_call(lambda parts: parts, 1))


def _edited() -> None:
    with tf.Graph().as_default():
        operations.run_after(tf.no_op(), [tf.no_op()])


def _placed() -> None:
    with tf.Graph().as_default() as graph:
        tf.no_op()
        operations.place_in_task(graph.get_operations(), "/job:worker/task:1", "run")


def _of_runtime(name: str, *arguments: Any) -> Callable[[], None]:
    def call() -> None:
        getattr(runtime if hasattr(runtime, name) else operations, name)(*arguments)

    return call


def _look_up() -> None:
    runtime.lookup_ops.index_table_from_tensor(["a"])


def _eager() -> None:
    with tf.Graph().as_default(), runtime.eager_mode():
        tf.constant(1)


def _saved() -> None:
    with tf.Graph().as_default():
        w = tf.get_variable("w", [], use_resource=True)
        SaveableValue(w, "w", w.read_value, w.assign, "")


ENTRIES: dict[str, Callable[[], None]] = {
    "copied towers": _copied,
    "merge calls of towers": _merge,
    "distribution strategies": _strategy,
    "variables that are saved in parts": _saved,
    "attributes of operations": _placed,
    "changes of operations": _edited,
    "eager blocks in graph mode": _eager,
    "compilation by XLA": _of_runtime("compiled_kernels", "MatMul", "CPU"),
    "measured reducers": _of_runtime("list_local_devices"),
    "traces of steps": _of_runtime("chrome_trace", tf.RunMetadata()),
    "iterators of strategies": _of_runtime("make_multi_device_iterator", None, [], 1),
    "tf.contrib.lookup": _look_up,
}
"""What needs each feature that has no way out, or not in all of its uses."""


def errors_of(entries: list[str]) -> dict[str, str]:
    """Return the error of tpack that each entry raises; "" for none."""
    found = {}
    for name in entries:
        try:
            ENTRIES[name]()
            found[name] = ""
        except TpackError as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found
