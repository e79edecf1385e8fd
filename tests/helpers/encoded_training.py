"""What workers do in tests of encoded exchanges, beside `tests.helpers.worker_scenarios`."""

import os
import socket
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.worker_scenarios import SignalAt, StopAt, Values, place
from tpack.callbacks.base import Callback
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.errors import TpackError
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.tensors import TensorInput
from tpack.multi_worker.all_reduce import Exchange
from tpack.multi_worker.codecs.base import Cast
from tpack.multi_worker.codecs.memory import MomentumCorrection, MomentumFeedback
from tpack.multi_worker.codecs.power_sgd import PowerSGD
from tpack.multi_worker.codecs.quantization import Int8, OneBit
from tpack.multi_worker.codecs.sparsification import TopK
from tpack.multi_worker.replicated_trainer import MultiWorkerTrainerReplicated
from tpack.optimizers.one_bit_adam import OneBitAdam
from tpack.tfutils.gradproc import GlobalNormClip
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tfutils.optimizer import apply_grad_processors
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.resume import AutoResumeTrainConfig
from tpack.utils import logger

SIZE = 48
STEPS = 4
EXCHANGES = {
    "int8": "int8",
    "stochastic": Exchange(codec=Int8(rounding="stochastic"), memory=None),
    "top_k": Exchange(codec=TopK(0.1, warm_up_steps=6), memory=MomentumCorrection(0.5)),
    "power_sgd": Exchange(codec=PowerSGD(2), start_step=3),
    "one_bit_adam": Exchange(codec=OneBit(), memory=MomentumFeedback(0.9), start_step=6),
}


class Matrix(ModelDesc):
    """Fits a matrix, with a bias and an embedding; the gradients of the latter are sparse."""

    def __init__(self, optimizer: tf.train.Optimizer | None = None, factor: float = 1.0) -> None:
        self._optimizer = optimizer
        self._factor = factor

    def inputs(self) -> list[Any]:
        return [tf.TensorSpec([None, SIZE], tf.float32, "x"), tf.TensorSpec([None], tf.int32, "ids")]

    def build_graph(self, x: Any, ids: Any) -> Any:
        w = tf.get_variable("w", [SIZE, SIZE], initializer=tf.random_normal_initializer(seed=3))
        b = tf.get_variable("b", [SIZE], initializer=tf.zeros_initializer())
        table = tf.get_variable("table", [8, SIZE], initializer=tf.zeros_initializer())
        y = tf.matmul(x, tf.cast(w, x.dtype)) + tf.cast(b, x.dtype) + tf.cast(tf.gather(table, ids), x.dtype)
        return tf.reduce_mean(tf.square(y - 3.0 * x) * self._factor, name="cost")

    def optimizer(self) -> Any:
        return self._optimizer or tf.train.MomentumOptimizer(0.5, 0.5)


def points(rank: int) -> TensorInput:
    """Return the points of a worker, which differ from step to step by the global step."""
    rng = np.random.default_rng(rank)
    x = rng.normal(size=(64, SIZE)).astype("float32")

    def get_tensors() -> list[Any]:
        start = tf.cast(get_global_step_var(), tf.int32) % 8 * 8
        return [tf.ensure_shape(tf.constant(x)[start : start + 8], [8, SIZE]), tf.range(8) % (rank + 2)]

    return TensorInput(get_tensors, size=STEPS)


def train(exchange: Any, max_epoch: int, config: Any = TrainConfig, towers: int = 1, **options: Any) -> Values:
    """Train a `Matrix`; return what was kept of it."""
    rank, _ = place()
    values, model = Values(), options.pop("model", None) or Matrix()
    callbacks: list[Callback] = [*options.pop("callbacks", ()), values]
    settings = {name: options.pop(name) for name in ("accumulate", "precision", "wire_dtype") if name in options}
    trainer = MultiWorkerTrainerReplicated(towers, exchange=exchange, **settings)
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        given = config(
            model=model,
            data=points(rank),
            callbacks=callbacks,
            extra_callbacks=[],
            monitors=[],
            max_epoch=max_epoch,
            **{"steps_per_epoch": STEPS, **options},
        )
        launch_train_with_config(given, trainer)
    return values


def adam(name: str, freeze_step: int) -> Any:
    """Return the optimizer for an exchange: 1-bit Adam where momentum travels."""
    return OneBitAdam(0.01, freeze_step=freeze_step) if name == "one_bit_adam" else None


def trainings() -> dict[str, Any]:
    """Train with each exchange in one go, and in two runs; and in other ways that go together with it."""
    rank, _ = place()
    # First, since the server of a process keeps its number of devices.
    found: dict[str, Any] = {"three towers": train("int8", 2, towers=3).values}
    for name, exchange in EXCHANGES.items():
        for how, epochs in (("whole", [3]), ("resumed", [1, 3])):
            for max_epoch in epochs:
                logger.set_logger_dir(f"{name}-{how}", action="k")
                model = Matrix(adam(name, 6))
                kept = train(exchange, max_epoch, AutoResumeTrainConfig, callbacks=[ModelSaver()], model=model)
            found[f"{name} {how}"] = kept.values
            found[f"{name} {how} files"] = sorted(os.listdir(logger.get_logger_dir() or ""))
    logger.set_logger_dir("others", action="d")
    found["plain"] = train(None, 2).values
    found["accumulated"] = train("int8", 2, accumulate=2).values
    found["accumulated plain"] = train(None, 2, accumulate=2).values
    found["accumulated in 32 bits"] = train(Exchange(codec=Cast("float32"), memory=None), 2, accumulate=2).values
    found["several steps"] = train("int8", 2, steps_per_call=STEPS).values
    found["step by step"] = train("int8", 2).values
    clipped = apply_grad_processors(tf.train.MomentumOptimizer(0.5, 0.5), [GlobalNormClip(0.1)])
    found["clipped"] = train("int8", 2, model=Matrix(clipped)).values
    found["float16"] = train("int8", 2, precision="float16").values
    overflowing = Matrix(factor=[1.0, 1e30][rank])
    found["overflow"] = train("int8", 2, precision="float16", model=overflowing).values
    found["adam"] = train(None, 1, model=Matrix(tf.train.AdamOptimizer(0.01))).values
    found["adam before the freeze"] = train(EXCHANGES["one_bit_adam"], 1, model=Matrix(adam("one_bit_adam", 6))).values
    found["other freeze"] = _error(lambda: train(EXCHANGES["one_bit_adam"], 1, model=Matrix(adam("one_bit_adam", 5))))
    found["other optimizer"] = _error(lambda: train(EXCHANGES["one_bit_adam"], 1))
    found["other codec"] = _error(lambda: train(Exchange(codec=[Int8(), Int8(chunk=64)][rank]), 1))
    return found


class FilesAt(Callback):
    """Lists the files in the log directory after a step."""

    _chief_only = False

    def __init__(self, step: int) -> None:
        self._step = step
        self.found: list[str] = []

    def _trigger_step(self) -> None:
        if self.local_step == self._step:
            self.found = sorted(os.listdir(logger.get_logger_dir() or ""))


def often_saved() -> list[str]:
    """Save each step of an epoch, and keep one checkpoint; return the files before the eleventh is saved."""
    logger.set_logger_dir("log", action="k")
    files = FilesAt(11)
    kept = PeriodicTrigger(ModelSaver(max_to_keep=1), every_k_steps=1)
    train("int8", 1, callbacks=[kept, files], steps_per_epoch=12)
    return files.found


def resume(max_epoch: int, signal_at: int = 0) -> dict[str, Any]:
    """Go on in a log directory; end by a signal to worker 1 after a step, if it is wanted."""
    logger.set_logger_dir("log", action="k")
    callbacks: list[Callback] = [ModelSaver()]
    if signal_at:
        callbacks.append(SignalAt(1, signal_at, True))
    return train("int8", max_epoch, AutoResumeTrainConfig, callbacks=callbacks).values


def traffic() -> dict[str, Any]:
    """Return the bytes that this worker gets in a step with each exchange, on its own connections."""
    found = {}
    for name in ("plain", "int8", "one_bit", "top_k:0.05"):
        counter = Received()
        train(None if name == "plain" else name, 2, model=Large(), callbacks=[counter])
        found[name] = counter.bytes_of_step
    return found


class Large(Matrix):
    """Has one large matrix, and little else."""

    def build_graph(self, x: Any, ids: Any) -> Any:
        w = tf.get_variable("w", [SIZE, 2**14], initializer=tf.zeros_initializer())
        return tf.reduce_mean(tf.square(tf.matmul(x, w) - 1.0), name="cost")


class Received(Callback):
    """Counts the bytes that come over this process's connections in the steps of an epoch after the first one."""

    _chief_only = False
    bytes_of_step = 0.0

    def _trigger_step(self) -> None:
        if self.local_step == 1:
            self._before = received_bytes()
        elif self.local_step == STEPS:
            self.bytes_of_step = (received_bytes() - self._before) / (STEPS - 1)


def received_bytes() -> int:
    """Return the bytes that the TCP connections of this process have received."""
    total = 0
    for name in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{name}"
        if not os.path.lexists(path) or not os.readlink(path).startswith("socket:"):
            continue
        connection = socket.socket(fileno=os.dup(int(name)))
        with connection:
            if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM:
                # tcpi_bytes_received of the kernel's struct tcp_info.
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136)
                total += int.from_bytes(info[128:136], "little")
    return total


def _error(function: Any) -> str:
    try:
        function()
    except TpackError as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def adasum() -> dict[str, Any]:
    """Train two towers in each worker with Adasum between the workers, to the end and until one of them stops."""
    return {
        "whole": train("adasum", 2, towers=2).values,
        "steps of the stopped one": train("adasum", 2, towers=2, callbacks=[StopAt(1, 3, True)]).steps,
        "plain": train(None, 2, towers=2).values,
    }
