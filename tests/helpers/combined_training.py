"""A small model with dense and sparse gradients, its training by tpack, and the same in plain TensorFlow."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.dataflow.sources import DataFromList
from tpack.graph_builder.model_desc import ModelDesc
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.utils import logger

Weights = dict[str, np.ndarray]
ROWS = 12


def examples(steps: int, rows: int = ROWS, dtype: str = "float64") -> list[list[np.ndarray]]:
    """Return a batch (x, ids, y) for each step, in which rows of the embedding occur several times."""
    rng = np.random.default_rng(5)
    return [
        [
            rng.normal(size=(rows, 4)).astype(dtype),
            rng.integers(0, 7, (rows, 2)).astype("int32"),
            rng.normal(size=(rows, 2)).astype(dtype),
        ]
        for _ in range(steps)
    ]


def weight(name: str, *shape: int, dtype: Any = tf.float64) -> Any:
    """Make a variable whose first value depends on its name and shape alone."""
    values = np.random.default_rng(sum(name.encode())).normal(size=shape, scale=0.5)
    return tf.get_variable(name, shape, dtype, tf.constant_initializer(values))


def net(x: Any, ids: Any, y: Any) -> Any:
    """Return the cost of a dense layer and an embedding, the mean over the batch."""
    dtype = tf.float64 if x.dtype == tf.float64 else tf.float32
    table = tf.cast(tf.nn.embedding_lookup(weight("table", 7, 2, dtype=dtype), ids), x.dtype)
    hidden = tf.tanh(x @ weight("dense/W", 4, 3, dtype=dtype) + weight("dense/b", 3, dtype=dtype))
    output = tf.add(hidden @ weight("out/W", 3, 2, dtype=dtype), tf.reduce_sum(table, 1), name="output")
    return tf.reduce_mean(tf.square(output - y), name="cost")


class Net(ModelDesc):
    """A model of a cost function and an optimizer."""

    def __init__(self, optimizer: Callable[[], Any], cost: Callable[..., Any] = net, dtype: Any = tf.float64) -> None:
        self._optimizer, self._cost, self._dtype = optimizer, cost, dtype

    def inputs(self) -> list[Any]:
        dtype = self._dtype
        shapes = (("x", dtype, 4), ("ids", tf.int32, 2), ("y", dtype, 2))
        return [tf.TensorSpec([None, size], kind, name) for name, kind, size in shapes]

    def build_graph(self, *inputs: Any) -> Any:
        return self._cost(*inputs)

    def optimizer(self) -> Any:
        return self._optimizer()


class EachStep(Callback):
    """The values of all variables after each step, or each call of several steps, and at the end."""

    _chief_only = False

    def __init__(self) -> None:
        self.steps: list[Weights] = []
        self.last: Weights = {}

    def _now(self) -> Weights:
        variables = {each.op.name: each for each in (*tf.global_variables(), *tf.local_variables())}
        return dict(zip(variables, self.trainer.sess.run(list(variables.values())), strict=True))

    def _trigger_epoch(self) -> None:
        self.steps.append(self._now())

    def _after_train(self) -> None:
        self.last = self._now()


def shares(batches: Sequence[Sequence[np.ndarray]], towers: int) -> DataFromList:
    """Return the batches of towers, one after the other, of batches of all."""
    parts = [part for batch in batches for part in zip(*(np.split(each, towers) for each in batch), strict=True)]
    return DataFromList([list(part) for part in parts], shuffle=False)


def trained(trainer: Any, desc: ModelDesc, data: Any, steps: int, *callbacks: Callback, **options: Any) -> EachStep:
    """Train, an epoch for each step unless ``steps_per_epoch`` is given, and return what the weights were."""
    values = EachStep()
    cls = options.pop("config", TrainConfig)
    length = options.pop("steps_per_epoch", 1)
    options = {"extra_callbacks": [], "monitors": [], "log_dir": "run", **options}
    with tf.Graph().as_default():
        launch_train_with_config(
            cls(
                dataflow=data,
                model=desc,
                callbacks=[*callbacks, values],
                steps_per_epoch=length,
                max_epoch=-(-steps // length),
                **options,
            ),
            trainer() if isinstance(trainer, type) or callable(trainer) else trainer,
        )
    return values


def plain(
    batches: Sequence[Sequence[np.ndarray]],
    optimizer: Callable[[], Any],
    cost: Callable[..., Any] = net,
    change: Callable[[Any], Any] = lambda pairs: pairs,
) -> list[Weights]:
    """Return the weights after each step of plain TensorFlow on one device, with the whole batch."""
    with tf.Graph().as_default(), tf.Session(config=unchanged()) as session:
        inputs = [tf.placeholder(each.dtype, [None, *each.shape[1:]]) for each in batches[0]]
        loss = cost(*inputs)
        opt = optimizer()
        pairs = opt.compute_gradients(loss, tf.trainable_variables())
        train = opt.apply_gradients(change(pairs))
        variables = {each.op.name: each for each in tf.global_variables()}
        session.run(tf.global_variables_initializer())
        made = []
        for batch in batches:
            session.run(train, dict(zip(inputs, batch, strict=True)))
            made.append(dict(zip(variables, session.run(list(variables.values())), strict=True)))
        return made


def unchanged() -> Any:
    """Return a config of sessions that leaves graphs as they are."""
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config


def joined(batches: Sequence[Sequence[np.ndarray]], count: int) -> list[list[np.ndarray]]:
    """Return batches ``count`` times as large."""
    groups = [batches[at : at + count] for at in range(0, len(batches) - count + 1, count)]
    return [[np.concatenate(parts) for parts in zip(*group, strict=True)] for group in groups]


def moving_average(trajectory: Sequence[np.ndarray], decay: float) -> np.ndarray:
    """Return the mean of the values after each step, with the weight ``decay ** age``."""
    weights = decay ** np.arange(len(trajectory))[::-1]
    return np.tensordot(weights / weights.sum(), np.asarray(trajectory, "float64"), 1)


def assert_near(got: Weights, wanted: Weights, rtol: float = 1e-9, atol: float = 1e-11) -> None:
    """Compare all values of ``wanted``, by name."""
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol, atol, err_msg=name)


def assert_towers_same(got: Weights, towers: int, names: Sequence[str]) -> None:
    """Compare the copies of each variable, bit by bit."""
    for tower in range(1, towers):
        for name in names:
            copy = got[f"tower{tower}/{name}"]
            assert copy.tobytes() == got[name].tobytes(), f"{name} of tower {tower}"


@contextmanager
def working_in(directory: Path) -> Iterator[None]:
    """Work in a directory, and let go of the log directory at the end."""
    before = os.getcwd()
    os.chdir(directory)
    try:
        yield
    finally:
        logger.close_logger_dir()
        os.chdir(before)
