"""What workers do that share embedding tables, for `tests.helpers.worker_job`; and the same in one process."""

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.worker_scenarios import place
from tpack.callbacks.base import Callback
from tpack.callbacks.saver import ModelSaver
from tpack.errors import TpackError
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.tensors import TensorInput
from tpack.multi_worker.all_reduce import Exchange
from tpack.multi_worker.codecs.quantization import Int8
from tpack.multi_worker.replicated_trainer import MultiWorkerTrainerReplicated
from tpack.multi_worker.tables.embedding import sharded_embedding
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tower.context import current_tower_context
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.resume import AutoResumeTrainConfig

STEPS, ROWS, WIDTH, TAGS = 6, 7, 2, 5
_RNG = np.random.default_rng(5)
IDS = _RNG.integers(0, ROWS, size=(STEPS, 6, 4))
"""The ids of each step, of up to six towers of all workers; some are there twice."""
TARGETS = _RNG.integers(-8, 8, size=(STEPS, 6, 1, WIDTH)) / 4.0
FIRST = _RNG.integers(-8, 8, size=(ROWS, WIDTH)) / 4.0

OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.25),
    "momentum": lambda: tf.train.MomentumOptimizer(0.25, 0.5),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
}


class Tables(ModelDesc):
    """Two tables, one of them in two look-ups, and a weight; all numbers are exact in binary.

    Args:
        optimizer: one of `OPTIMIZERS`. That of Adam gets gradients that do not depend on the rows, which are rounded.
    """

    def __init__(self, optimizer: str) -> None:
        self._name = optimizer

    def inputs(self) -> list[Any]:
        return [tf.TensorSpec([4], tf.int64, "ids"), tf.TensorSpec([1, WIDTH], tf.float64, "target")]

    def build_graph(self, ids: Any, target: Any) -> Any:
        weight = tf.get_variable("w", [WIDTH], tf.float64, tf.zeros_initializer())
        rows = sharded_embedding("emb", tf.reshape(ids, [2, 2]), ROWS, WIDTH, initializer=FIRST, dtype="float64")
        again = sharded_embedding("emb", ids[:2], ROWS, WIDTH, initializer=FIRST, dtype="float64")  # [2, 2]
        with tf.variable_scope("more"):
            tags = sharded_embedding("tags", ids % TAGS, TAGS, 1, initializer=tf.ones_initializer(), dtype="float64")
        tf.identity(tf.reduce_sum(rows, axis=[0, 1]), name="rows_sum")  # [2]
        if self._name == "adam":
            cost = tf.reduce_sum(rows * target) + tf.reduce_sum(tags) * target[0, 0] + tf.reduce_sum(weight * target)
        else:
            cost = sum(tf.reduce_sum(tf.square(each - target)) / 8 for each in (rows, tags, weight))
        return cost + tf.reduce_sum(again) / 4

    def optimizer(self) -> Any:
        return OPTIMIZERS[self._name]()


def data_of(towers: int, rank: int) -> TensorInput:
    """Return the part of each tower of a worker."""

    def get_tensors() -> list[Any]:
        tower = rank * towers + current_tower_context().index
        step = get_global_step_var().read_value()
        return [tf.constant(each[:, tower])[step] for each in (IDS, TARGETS)]

    return TensorInput(get_tensors, size=STEPS)


class Saved(Callback):
    """Keeps the values of all saved variables at the end, and the shapes of the local ones."""

    _chief_only = False

    def __init__(self) -> None:
        self.values: dict[str, np.ndarray] = {}
        self.local: dict[str, list[int]] = {}

    def _trigger_epoch(self) -> None:
        variables = tf.global_variables()
        values = self.trainer.sess.run(variables)
        self.values = {v.op.name: value for v, value in zip(variables, values, strict=True)}
        self.local = {v.op.name: v.shape.as_list() for v in tf.local_variables()}


class Sent(Callback):
    """Counts the bytes that tables send in each step, by what is sent."""

    _chief_only = False

    def __init__(self) -> None:
        self.steps: list[dict[str, int]] = []

    def _setup_graph(self) -> None:
        self._sizes: dict[str, list[Any]] = {}
        for op in self.graph.get_operations():
            name = op.inputs[0].op.get_attr("shared_name").decode() if op.type == "QueueEnqueueV2" else ""
            if "/tables/" in name:
                sizes = [tf.size(each) * each.dtype.size for each in op.inputs[1:]]
                self._sizes.setdefault(name.split("/")[-2], []).extend(sizes)

    def _before_run(self, ctx: Any) -> Any:
        return tf.train.SessionRunArgs(self._sizes)

    def _after_run(self, ctx: Any, values: Any) -> None:
        self.steps.append({what: sum(map(int, sizes)) for what, sizes in values.results.items()})


class Predicts(Callback):
    """Predicts with the tables at the end of each epoch, in this worker alone."""

    _chief_only = False

    def __init__(self) -> None:
        self.found: list[np.ndarray] = []

    def _setup_graph(self) -> None:
        self._predictor = self.trainer.get_predictor(["ids", "target"], ["rows_sum"])

    def _trigger_epoch(self) -> None:
        if self.trainer.is_chief:
            self.found.append(self._predictor(np.arange(4) + 3, np.zeros([1, WIDTH]))[0])


def train(
    optimizer: str,
    trainer: Any,
    towers: int,
    *callbacks: Callback,
    config: Any = TrainConfig,
    model: Any = None,
    **settings: Any,
) -> Saved:
    """Train `Tables`, or another model of the same data; return what was kept."""
    saved, model = Saved(), model or Tables(optimizer)
    options = {"steps_per_epoch": 3, "max_epoch": 2, "extra_callbacks": [], "monitors": [], **settings}
    rank = 0 if trainer.peers is None else trainer.peers.rank
    data = data_of(towers, rank)
    launch_train_with_config(config(model=model, data=data, callbacks=[saved, *callbacks], **options), trainer)
    return saved


def equal(towers: int, average: bool) -> dict[str, Any]:
    """Train with each optimizer; return the values of saved variables, and the shapes of the local ones."""
    found = {}
    for name in OPTIMIZERS:
        with tf.Graph().as_default():
            saved = train(name, MultiWorkerTrainerReplicated(towers, average=average), towers)
            found[name] = [saved.values, saved.local]
    return found


def save(directory: str, max_epoch: int, towers: int, asynchronous: bool = False) -> dict[str, Any]:
    """Train to an epoch with a checkpoint in each, from the last one that is there."""
    with tf.Graph().as_default():
        return train(
            "adam",
            MultiWorkerTrainerReplicated(towers, average=False),
            towers,
            ModelSaver(asynchronous=asynchronous),
            config=AutoResumeTrainConfig,
            steps_per_epoch=2,
            max_epoch=max_epoch,
            log_dir=directory,
        ).values


class Wrong(Tables):
    """Asks, in the last worker, for a row that is not there."""

    def build_graph(self, ids: Any, target: Any) -> Any:
        rank, size = place()
        return super().build_graph(ids + (ROWS if rank == size - 1 else 0), target)


class Single(ModelDesc):
    """A table of float32, whose look-ups include one that the cost does not depend on."""

    def inputs(self) -> list[Any]:
        return [tf.TensorSpec([4], tf.int64, "ids"), tf.TensorSpec([1, WIDTH], tf.float64, "target")]

    def build_graph(self, ids: Any, target: Any) -> Any:
        rows = sharded_embedding("emb", ids, ROWS, WIDTH, initializer=FIRST)
        sharded_embedding("emb", ids[:1], ROWS, WIDTH)
        self.dtype = rows.dtype
        weight = tf.get_variable("w", [300, WIDTH], initializer=tf.ones_initializer())
        return tf.reduce_sum(tf.cast(rows, tf.float32)) + tf.cast(tf.reduce_sum(weight), tf.float32)

    def optimizer(self) -> Any:
        return tf.train.GradientDescentOptimizer(0.25)


def features() -> dict[str, Any]:
    """Train in several ways, one after the other; return what came of each."""
    found: dict[str, Any] = {}

    def case(name: str, *callbacks: Callback, model: Any = None, settings: Any = None, **options: Any) -> Any:
        with tf.Graph().as_default():
            trainer = MultiWorkerTrainerReplicated(2, **options)
            try:
                saved = train("momentum", trainer, 2, *callbacks, model=model, **(settings or {}))
                found[name] = saved.values
            except TpackError as error:
                found[name] = f"{type(error).__name__}: {error}"
        return trainer

    sent, predicts = Sent(), Predicts()
    trainer = case("plain", sent, predicts)
    found["sent"], found["predicted"] = sent.steps, predicts.found
    if trainer.is_chief:
        found["weights"] = trainer.get_weights()
        after = trainer.get_predictor(["ids", "target"], ["rows_sum"])
        found["predicted"].append(after(np.arange(4) + 3, np.zeros([1, WIDTH]))[0])
    case("several steps", settings={"steps_per_call": 3})
    case("compiled", compile="xla")
    case("encoded", model=Single(), exchange=Exchange("bfloat16", codec=Int8()))
    model = Single()
    case("bfloat16", model=model, precision="bfloat16")
    found["dtype"] = model.dtype.name
    case("float16", model=Single(), precision="float16")
    with tf.Graph().as_default():
        try:
            train("sgd", MultiWorkerTrainerReplicated(1), 1, model=Wrong("sgd"))
        except Exception as error:
            found["wrong ids"] = f"{type(error).__name__}: {error}"
    return found
