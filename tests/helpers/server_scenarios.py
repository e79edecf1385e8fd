"""What workers and parameter servers do in tests: functions that `tests.helpers.worker_job` calls in each process."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.equivalence import STEPS, batches
from tests.helpers.worker_scenarios import (
    KEYS,
    Equivalence,
    FailAt,
    NotFinite,
    Ordered,
    SignalAt,
    Slope,
    StopAt,
    Values,
    rows_of_worker,
)
from tpack.callbacks.base import Callback
from tpack.callbacks.param_setters import ScheduledHyperParamSetter
from tpack.callbacks.run_op import RunUpdateOps
from tpack.callbacks.saver import ModelSaver
from tpack.errors import TpackError
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.tensors import TensorInput
from tpack.multi_worker.ps_trainer import (
    DistributedTrainer,
    DistributedTrainerParameterServer,
    DistributedTrainerReplicated,
)
from tpack.multi_worker.trainer import WaitLimits
from tpack.tfutils.dependency import ancestors
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tfutils.sesscreate import get_distributed_session_creator
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.resume import AutoResumeTrainConfig
from tpack.utils import logger

TRAINERS: dict[str, Callable[..., DistributedTrainer]] = {
    "synchronous": lambda towers, **options: DistributedTrainerParameterServer(towers, synchronous=True, **options),
    "synchronous-compiled": lambda towers, **options: DistributedTrainerParameterServer(
        towers, synchronous=True, compile="xla", **options
    ),
    "uncached": lambda towers: DistributedTrainerParameterServer(towers, None, None, synchronous=True),
    "replicated": DistributedTrainerReplicated,
    "asynchronous": DistributedTrainerParameterServer,
}


def number() -> int:
    """Return the number of this process among workers and parameter servers."""
    return int(os.environ["TEST_RANK"])


def train_on_servers(
    kind: str, model: ModelDesc, data: Any, towers: int = 1, *, config: Any = TrainConfig, **settings: Any
) -> dict[str, Any]:
    """Train; return the values of all variables after the last step, and where they lie; nothing in a server.

    Besides, whether the step of this worker waits for the collection of updates.
    """
    options = settings.pop("options", {})
    trainer = TRAINERS[kind](towers, **options)
    values, places = Values(), Places()
    given = config(
        model=model,
        data=data,
        callbacks=[*settings.pop("callbacks", ()), values, places],
        extra_callbacks=[RunUpdateOps()],
        monitors=[],
        **{"steps_per_epoch": STEPS, "max_epoch": 1, **settings},
    )
    launch_train_with_config(given, trainer)
    waits = not trainer.serves and {each.op for each in tf.get_collection(tf.GraphKeys.UPDATE_OPS)} <= ancestors(
        [trainer.train_op]
    )
    return {"values": values.values, "places": places.places, "step": trainer.loop.global_step, "waits": waits}


def own_server() -> dict[str, Any]:
    """Start a server as scripts of tensorpack do; return the settings by which it is used."""
    told = json.loads(os.environ["TF_CONFIG"])
    server = tf.train.Server(told["cluster"], told["task"]["type"], told["task"]["index"])
    return {"options": {"server": server}, "session_creator": get_distributed_session_creator(server)}


def equivalence(kinds: list[str], optimizers: list[str], size: int, towers: int, given: bool) -> dict[str, Any]:
    """Train the model of `tests.helpers.equivalence` with several trainers and optimizers, on a given server or not."""
    found, settings = {}, own_server() if given else {}
    for kind in kinds:
        for name in optimizers:
            with tf.Graph().as_default():
                data = rows_of_worker(size, towers, number() % size)
                found[f"{kind} {name}"] = train_on_servers(kind, Equivalence(name), data, towers, **settings)
    return found


class Places(Callback):
    """Keeps where the global variables lie, and what their gradients travel as."""

    _chief_only = False

    def __init__(self) -> None:
        self.places: dict[str, str] = {}

    def _setup_graph(self) -> None:
        self.places = {v.op.name: tf.DeviceSpec.from_string(v.device).job or "here" for v in tf.global_variables()}
        for variable in tf.global_variables():
            spec = tf.DeviceSpec.from_string(variable.device)
            if spec.job == "ps":
                self.places[variable.op.name] = f"ps {spec.task}"


class Steady(ModelDesc):
    """A cost whose gradient is the mean of the data, whatever the variables are."""

    def inputs(self) -> list[Any]:
        return [tf.TensorSpec([2], tf.float64, "x")]

    def build_graph(self, x: Any) -> Any:
        w = tf.get_variable("w", [2], tf.float64, tf.zeros_initializer())
        return tf.reduce_sum(w * x)

    def optimizer(self) -> Any:
        rate = tf.get_variable("learning_rate", initializer=np.float64(1.0), trainable=False)
        return tf.train.GradientDescentOptimizer(rate, use_locking=True)


def ones_of(rank: int) -> TensorInput:
    """Return 1 and 1000 ** rank in each step."""
    return TensorInput(lambda: [tf.constant([1.0, 1000.0**rank], tf.float64)], size=STEPS)


class Tables(ModelDesc):
    """An embedding that is cut over the servers, beside a smaller one and a scalar."""

    def inputs(self) -> list[Any]:
        return [tf.TensorSpec([None], tf.int64, "ids")]

    def build_graph(self, ids: Any) -> Any:
        start = tf.random_uniform_initializer(seed=3)
        large = tf.get_variable(
            "large", [1001, 8], initializer=start, partitioner=tf.min_max_variable_partitioner(2, min_slice_size=8000)
        )
        small = tf.get_variable("small", [10, 4], initializer=start)
        scale = tf.get_variable("scale", [], initializer=tf.ones_initializer())
        rows = tf.nn.embedding_lookup(large, ids, partition_strategy="div")
        return scale * tf.reduce_mean(tf.square(rows - 1)) + tf.reduce_mean(tf.gather(small, ids % 10))

    def optimizer(self) -> Any:
        return tf.train.AdamOptimizer(0.1)


def some_ids() -> TensorInput:
    """Return a few rows of the tables."""
    return TensorInput(lambda: [tf.constant([0, 5, 600, 600, 1000], tf.int64)], size=STEPS)


class Sent(Callback):
    """Keeps what is put into the queues of gradients."""

    _chief_only = False

    def _setup_graph(self) -> None:
        queues = [op for op in self.graph.get_operations() if op.type == "QueueEnqueueV2"]
        self.sent = {op.inputs[0].op.get_attr("shared_name").decode(): len(op.inputs) - 1 for op in queues}


class Slow(Callback):
    """Makes a worker slow, and keeps how far the workers were before each of its steps."""

    _chief_only = False

    def __init__(self, secs: float) -> None:
        self._secs = secs
        self.ahead: list[int] = []

    def _setup_graph(self) -> None:
        self._now = self.trainer._progress.now[0]

    def _trigger_step(self) -> None:
        time.sleep(self._secs)

    def _before_run(self, ctx: Any) -> None:
        steps = self.trainer.sess.run(self._now)
        self.ahead.append(int(steps[self.trainer.peers.rank] - steps.min()))


class WaitForStop(Callback):
    """Lets an asynchronous worker 0 wait, after a step, until another one has said that it wants to end.

    Args:
        step: the step.
    """

    _chief_only = False

    def __init__(self, step: int) -> None:
        self._step = step

    def _trigger_step(self) -> None:
        if self.trainer.peers.rank == 0 and self.global_step == self._step:
            while not self.trainer.sess.run(self.trainer._progress.now)[1]:
                time.sleep(0.01)


class Raising(ScheduledHyperParamSetter):
    """Sets the learning rate of the second epoch."""

    def __init__(self) -> None:
        super().__init__("learning_rate", [(1, 3.0)])


class KillServer(StopAt):
    """Kills the first parameter server, in a step of a worker."""

    def __init__(self, rank: int, step: int, server: int) -> None:
        super().__init__(rank, step, True)
        self._server = server

    def _stop(self, in_step: bool) -> None:
        if (self.trainer.peers.rank, self.global_step, in_step) == self._at:
            os.kill(int(Path(f"pid{self._server}").read_text()), signal.SIGKILL)


def outcome(function: Callable[[], Any]) -> Any:
    """Call a function in a graph of its own; return what it returns, or the words of tpack's error."""
    try:
        with tf.Graph().as_default():
            return function()
    except TpackError as error:
        return f"{type(error).__name__}: {error}"


def features() -> dict[str, Any]:
    """Train in several ways, one after the other, and return what came of each."""
    rank, found = number(), {}

    def case(name: str, function: Callable[[], Any]) -> None:
        start = time.time()
        found[name] = outcome(function)
        print("CASE", name, round(time.time() - start, 2), flush=True)

    def steady(kind: str, **settings: Any) -> dict[str, Any]:
        return train_on_servers(kind, Steady(), ones_of(rank), **settings)

    def bounded(limit: int | None) -> Any:
        slow = Slow(0.03 if rank == 0 else 0.0)
        train = steady("asynchronous", options={"max_staleness": limit}, callbacks=[slow], steps_per_epoch=20)
        return {**train, "ahead": slow.ahead}

    def tables() -> Any:
        sent = Sent()
        found = train_on_servers("synchronous", Tables(), some_ids(), callbacks=[sent])
        return {**found, "sent": getattr(sent, "sent", None)}

    case("two towers", lambda: steady("synchronous", towers=2))
    case("asynchronous", lambda: steady("asynchronous"))
    case("no bound", lambda: bounded(None))
    case("a bound", lambda: bounded(2))
    case("tables", tables)
    case("uncached, updates", lambda: train_on_servers("uncached", Slope(), points(rank), max_epoch=2))
    for kind in ("synchronous", "replicated", "asynchronous"):
        case(f"{kind}, another rate", lambda kind=kind: steady(kind, callbacks=[Raising()], max_epoch=2))
        stops = [StopAt(1, 2, True), *([WaitForStop(2)] if kind == "asynchronous" else [])]
        case(f"{kind}, stopped in a step", lambda kind=kind, stops=stops: steady(kind, callbacks=stops))
        case(f"{kind}, stopped", lambda kind=kind: steady(kind, callbacks=[StopAt(0, STEPS, False)], max_epoch=3))
        case(f"{kind}, updates", lambda kind=kind: train_on_servers(kind, Slope(), points(rank), max_epoch=2))
    case("other variables", lambda: train_on_servers("synchronous", Slope("own" if rank else ""), points(rank)))
    for kind in ("synchronous", "replicated", "asynchronous"):
        case(f"{kind}, other order", lambda kind=kind: train_on_servers(kind, Ordered(), points(rank)))
    case("other settings", lambda: steady(["synchronous", "asynchronous"][min(rank, 1)]))
    found["calls to lost servers fail"] = os.environ.get("GRPC_FAIL_FAST")
    return found


def not_finite() -> dict[str, Any]:
    """Train until NaN is found, which arises in the gradients of one worker; return what came of each training."""
    return {
        kind: outcome(
            lambda kind=kind: train_on_servers(kind, NotFinite("gradients", 1), points(number() % 2), 2, max_epoch=2)
        )
        for kind in ("synchronous", "replicated")
    }


def points(rank: int) -> TensorInput:
    """Return the points of a worker, other ones than those of the others."""
    x = (np.linspace(-1, 1, 4, dtype="float32") + 0.25) * (rank + 1)
    return TensorInput(lambda: [tf.constant(x), tf.constant(3 * x)], size=6)


def whole_batch(size: int) -> TensorInput:
    """Return an input that gives one tower the rows of all workers."""
    data = batches(size, "float64")
    return TensorInput(lambda: [tf.gather(tf.constant(data[key]), get_global_step_var()) for key in KEYS], size=STEPS)


def resume(kind: str, max_epoch: int, size: int, at: Any = None, how: str = "") -> dict[str, Any]:
    """Train with Adam in a log directory, going on from what is there; end in a step of a process, if it is wanted."""
    Path(f"pid{number()}").write_text(str(os.getpid()))
    logger.set_logger_dir("log", action="k")
    callbacks: list[Callback] = [ModelSaver()]
    if how == "signal":
        callbacks.append(SignalAt(*at, True))
    elif how == "kill a server":
        callbacks.append(KillServer(*at, size))
    elif how:
        callbacks.append(FailAt(*at, how))
    data = rows_of_worker(size, 1, number() % size)
    options = {"waits": WaitLimits(heartbeat_secs=3.0)}
    return train_on_servers(
        kind,
        Equivalence("adam"),
        data,
        config=AutoResumeTrainConfig,
        options=options,
        callbacks=callbacks,
        steps_per_epoch=2,
        max_epoch=max_epoch,
    )
