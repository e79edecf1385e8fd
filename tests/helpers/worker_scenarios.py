"""What workers do in tests: functions that `tests.helpers.worker_job` calls in each process."""

import logging
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.equivalence import OPTIMIZERS, STEPS, TOWER_BATCH, batches, build_cost
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import Callback, WithSteps
from tpack.callbacks.inference.inferencers import ScalarStats
from tpack.callbacks.inference.runners import InferenceRunner
from tpack.callbacks.min_max_saver import MaxSaver
from tpack.callbacks.nan_checks import CheckNumerics
from tpack.callbacks.run_op import RunUpdateOps
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.stopping import MaxTime
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.dataflow.arrays import DataFromArrays
from tpack.dataflow.base import DataFlow, UnknownLengthError
from tpack.dataflow.mapping import MapData
from tpack.dataflow.shard import ShardData
from tpack.dataflow.sources import DataFromList
from tpack.distribute.strategies import CollectiveAllReduceStrategy
from tpack.errors import StopTraining, TpackError
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.base import InputSource
from tpack.input_source.feed import FeedInput
from tpack.input_source.queue_input import QueueInput
from tpack.input_source.tensors import TensorInput
from tpack.multi_worker.memory_saver import MemorySaver
from tpack.multi_worker.replicated_trainer import MultiWorkerTrainerReplicated
from tpack.multi_worker.strategy_trainer import MultiWorkerStrategyTrainer
from tpack.multi_worker.trainer import WaitLimits
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tfutils.sesscreate import ReuseSessionCreator
from tpack.tower.context import current_tower_context
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.resume import AutoResumeTrainConfig
from tpack.utils import logger
from tpack.utils.launch_env import MEMORY_VARIABLE

KEYS = ("x", "p", "ids", "y")


class Equivalence(ModelDesc):
    """The model of `tests.helpers.equivalence`."""

    def __init__(self, optimizer: str) -> None:
        self._name = optimizer

    def inputs(self) -> list[Any]:
        data = batches(1, "float64")
        return [tf.TensorSpec([None, *data[key].shape[2:]], data[key].dtype, key) for key in KEYS]

    def build_graph(self, *inputs: Any) -> Any:
        return build_cost(*inputs)

    def optimizer(self) -> Any:
        return OPTIMIZERS[self._name]()


class Values(Callback):
    """Keeps the values of all variables before training and at the end of each epoch."""

    _chief_only = False

    def __init__(self) -> None:
        self.start: dict[str, np.ndarray] = {}
        self.values: dict[str, np.ndarray] = {}
        self.steps = 0

    def _before_train(self) -> None:
        self.start = self._now()

    def _trigger_epoch(self) -> None:
        self.values = self._now()

    def _after_train(self) -> None:
        self.steps = self.global_step

    def _now(self) -> dict[str, np.ndarray]:
        variables = [*tf.global_variables(), *tf.local_variables()]
        return {v.op.name: value for v, value in zip(variables, self.trainer.sess.run(variables), strict=True)}


def place() -> tuple[int, int]:
    """Return the rank and the number of workers."""
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def rows_of_worker(num_workers: int, num_towers: int, rank: int) -> TensorInput:
    """Return an input that gives each tower of a worker its rows of each step's batch."""
    data = batches(num_workers * num_towers, "float64")

    def get_tensors() -> list[Any]:
        first = (rank * num_towers + current_tower_context().index) * TOWER_BATCH
        step = get_global_step_var()
        return [tf.gather(tf.constant(data[key][:, first : first + TOWER_BATCH]), step) for key in KEYS]

    return TensorInput(get_tensors, size=STEPS)


def train_equivalence(
    towers: int, optimizers: list[str], size: int, compiled: str = "", **options: Any
) -> dict[str, dict[str, Any]]:
    """Train with each optimizer in turn, and with one compiled; return the values of all variables at the end."""
    found = {}
    for name in [*optimizers, *([f"{compiled} compiled"] if compiled else [])]:
        with tf.Graph().as_default():
            compile_mode = "xla" if name.endswith("compiled") else None
            trainer = MultiWorkerTrainerReplicated(towers, compile=compile_mode, **options)
            values = Values()
            config = TrainConfig(
                model=Equivalence(name.split()[0]),
                data=rows_of_worker(size, towers, trainer.peers.rank),
                callbacks=[values],
                extra_callbacks=[],
                monitors=[],
                steps_per_epoch=STEPS,
                max_epoch=1,
            )
            launch_train_with_config(config, trainer)
            found[name] = values.values
    return found


def train_sharded(towers: int, optimizers: list[str], size: int) -> list[dict[str, dict[str, Any]]]:
    """Train with the state of the optimizer in each tower, then with it divided; return what each found."""
    return [train_equivalence(towers, optimizers, size, shard_optimizer=is_sharded) for is_sharded in (False, True)]


def save_sharded(directory: str, max_epoch: int, shard_optimizer: bool) -> dict[str, Any]:
    """Train to an epoch with a checkpoint in each, from the last one that is there; return the values of variables."""
    rank, size = place()
    with tf.Graph().as_default():
        values = Values()
        config = AutoResumeTrainConfig(
            model=Equivalence("adam"),
            data=rows_of_worker(size, 2, rank),
            callbacks=[values, ModelSaver()],
            extra_callbacks=[],
            monitors=[],
            steps_per_epoch=1,
            max_epoch=max_epoch,
            log_dir=directory,
        )
        launch_train_with_config(config, MultiWorkerTrainerReplicated(2, shard_optimizer=shard_optimizer))
    return values.values


class Slope(ModelDesc):
    """Fits y = w * x, with a variable that is not trained and one that only some workers have."""

    def __init__(self, extra: str = "", factor: float = 1.0, momentum: float = 0.9) -> None:
        self._extra = extra
        self._factor = factor
        self._momentum = momentum

    def inputs(self) -> list[Any]:
        return [tf.TensorSpec([None], tf.float32, "x"), tf.TensorSpec([None], tf.float32, "y")]

    def build_graph(self, x: Any, y: Any) -> Any:
        w = tf.get_variable("w", [3], initializer=tf.random_normal_initializer())
        if self._extra:
            tf.get_variable(self._extra, [2])
        mean = tf.VariableAggregation.MEAN
        seen = tf.get_variable("seen", [], initializer=tf.zeros_initializer(), trainable=False, aggregation=mean)
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, seen.assign_add(tf.reduce_mean(x)))
        tf.add(0 * x, seen, name="seen_by_all")  # [B]
        return tf.reduce_mean(tf.square(tf.reduce_sum(w) * x - y) * self._factor, name="cost")

    def optimizer(self) -> Any:
        rate = tf.get_variable("learning_rate", initializer=0.1, trainable=False)
        return tf.train.MomentumOptimizer(rate, self._momentum)


class Ordered(Slope):
    """Has two trained variables, created in another order by some workers."""

    def build_graph(self, x: Any, y: Any) -> Any:
        is_first = os.environ.get("RANK", os.environ.get("TEST_RANK")) == "0"
        made = {name: tf.get_variable(name, [2]) for name in (["u", "v"] if is_first else ["v", "u"])}
        return tf.reduce_mean(tf.square(tf.reduce_sum(made["u"]) * x + tf.reduce_sum(made["v"]) - y), name="cost")


class Line(Slope):
    """Has two trained variables, which always begin with the same values."""

    def build_graph(self, x: Any, y: Any) -> Any:
        with tf.variable_scope(tf.get_variable_scope(), initializer=tf.constant_initializer(0.5)):
            w, bias = tf.get_variable("w", [3]), tf.get_variable("bias", [])
        return tf.reduce_mean(tf.square(tf.reduce_sum(w) * x + bias - y), name="cost")


class MadeHere(Callback):
    """Creates two variables, in another order in some workers."""

    _chief_only = False

    def _setup_graph(self) -> None:
        names = ["made_first", "made_second"] if self.trainer.is_chief else ["made_second", "made_first"]
        for name in names:
            tf.get_variable(name, [], initializer=tf.zeros_initializer(), trainable=False)


def points_of(rank: int) -> TensorInput:
    """Return the points of a worker, other ones than those of the others."""
    x = (np.linspace(-1, 1, 4, dtype="float32") + 0.25) * (rank + 1)
    return TensorInput(lambda: [tf.constant(x), tf.constant(3 * x)], size=6)


def train_slope(model: ModelDesc, trainer: Any, config: Any = TrainConfig, **settings: Any) -> Values:
    """Train a `Slope` for two epochs; return what was kept of it."""
    values = Values()
    settings = {"steps_per_epoch": 3, "max_epoch": 2, **settings}
    callbacks = [*settings.pop("callbacks", ()), values]
    extra = [RunUpdateOps()]
    given = config(
        model=model,
        data=points_of(trainer.peers.rank),
        callbacks=callbacks,
        extra_callbacks=extra,
        monitors=[],
        **settings,
    )
    launch_train_with_config(given, trainer)
    return values


def outcome(function: Any) -> Any:
    """Call a function in a graph of its own; return the values that it kept, or the words of tpack's error."""
    try:
        with tf.Graph().as_default():
            return function().values
    except TpackError as error:
        return f"{type(error).__name__}: {error}"


class StopAt(Callback):
    """Ends training on one worker, in a step or at the end of an epoch."""

    _chief_only = False

    def __init__(self, rank: int, step: int, in_step: bool) -> None:
        self._at = (rank, step, in_step)

    def _with_several_steps(self) -> WithSteps:
        return WithSteps()

    def _stop(self, in_step: bool) -> None:
        if (self.trainer.peers.rank, self.global_step, in_step) == self._at:
            raise StopTraining("the test wants it")

    def _trigger_step(self) -> None:
        self._stop(True)

    def _trigger_epoch(self) -> None:
        self._stop(False)


class CallsOf(Callback):
    """Lets runs of several steps be shorter in the chief."""

    def __init__(self, num_steps: int) -> None:
        self._num_steps = num_steps

    def _trigger_step(self) -> None:
        """Want to be called."""

    def _with_several_steps(self) -> WithSteps:
        return WithSteps(steps_left=lambda: self._num_steps - self.local_step % self._num_steps)


class InterruptIn(Callback):
    """Sends a worker Ctrl-C right before it makes several steps, as one that comes while they are made."""

    _chief_only = False

    def __init__(self, rank: int, step: int) -> None:
        self._at = (rank, step)

    def _before_run(self, ctx: Any) -> None:
        if (self.trainer.peers.rank, self.global_step) == self._at:
            os.kill(os.getpid(), signal.SIGINT)

    def _with_several_steps(self) -> WithSteps:
        return WithSteps()


class ChangeOn(StopAt):
    """Changes a variable, by default a trained one, on one worker alone."""

    def __init__(self, rank: int, step: int, in_step: bool, name: str = "w") -> None:
        super().__init__(rank, step, in_step)
        self._name = name

    def _setup_graph(self) -> None:
        (variable,) = (each for each in tf.global_variables() if each.op.name == self._name)
        self._change = variable.assign_add([0.0, 1.0, 0.0])

    def _stop(self, in_step: bool) -> None:
        if (self.trainer.peers.rank, self.global_step, in_step) == self._at:
            self.trainer.sess.run(self._change)


class SignalAt(StopAt):
    """Sends a worker a signal, in a step."""

    def _stop(self, in_step: bool) -> None:
        if (self.trainer.peers.rank, self.global_step, in_step) == self._at:
            os.kill(os.getpid(), signal.SIGTERM)


class NotFinite(Slope):
    """Has NaN in the cost, or in the gradients alone, of some workers in a step."""

    def __init__(self, where: str, *ranks: int) -> None:
        super().__init__()
        self._where, self._ranks = where, ranks

    def build_graph(self, x: Any, y: Any) -> Any:
        cost = super().build_graph(x, y)
        rank = int(os.environ.get("RANK", os.environ.get("TEST_RANK", "0")))
        is_bad = tf.equal(get_global_step_var(), 2) & (rank in self._ranks)
        if self._where == "cost":
            return cost * tf.where(is_bad, np.nan, 1.0)
        # The derivative of a root is infinite at zero.
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            return cost + tf.sqrt(tf.square(tf.get_variable("w", [3])[0]) * tf.where(is_bad, 0.0, 1.0))


def trainer(towers: int = 1, **options: Any) -> MultiWorkerTrainerReplicated:
    """Return a trainer."""
    return MultiWorkerTrainerReplicated(towers, **options)


def features() -> dict[str, Any]:
    """Train in several ways, one after the other, and return what came of each."""
    rank, _ = place()
    found: dict[str, Any] = {}

    def case(name: str, function: Any) -> None:
        found[name] = outcome(function)

    def steps(*callbacks: Callback, **settings: Any) -> int:
        with tf.Graph().as_default():
            return train_slope(Slope(), trainer(), callbacks=callbacks, **settings).steps

    def steps_of_pass(batch_size: int, *, is_dealt_out: bool) -> int:
        x = np.linspace(-1, 1, 32, dtype="float32")
        with tf.Graph().as_default():
            one, flow = trainer(2), ShardData(DataFromArrays((x, 3 * x))) if is_dealt_out else (x, 3 * x)
            options = {"extra_callbacks": [], "monitors": [], "max_epoch": 1}
            launch_train_with_config(TrainConfig(flow, model=Slope(), batch_size=batch_size, **options), one)
            return one.loop.global_step

    def evaluated(name: str) -> float:
        x = np.ones(4, "float32")
        with tf.Graph().as_default():
            one, runner = trainer(), InferenceRunner((x, x), ScalarStats(name), batch_size=1)
            train_slope(Slope(), one, callbacks=[runner])
            return one.monitors.get_latest(f"validation_{name}")

    def interrupted(**settings: Any) -> Any:
        made = Values()
        try:
            steps(InterruptIn(1, 0), CallsOf(3), made, **settings)
        except KeyboardInterrupt:
            return ["KeyboardInterrupt", made.steps]
        return ["ended well", made.steps]

    case("two towers", lambda: train_slope(Slope(), trainer(2)))
    case("plain", lambda: train_slope(Slope(), trainer()))
    found["evaluated"] = evaluated("seen_by_all")
    case("other variables", lambda: train_slope(Slope("own" if rank else ""), trainer()))
    case("other order", lambda: train_slope(Ordered(), trainer()))
    case("other order of callbacks", lambda: train_slope(Slope(), trainer(), callbacks=[MadeHere()]))
    strategy = CollectiveAllReduceStrategy
    case("other order with a strategy", lambda: train_slope(Ordered(), MultiWorkerStrategyTrainer(strategy())))
    case("other steps", lambda: train_slope(Slope(), trainer(), max_epoch=2 + rank))
    case("other reducer", lambda: train_slope(Slope(), trainer(2, mode=["pscpu", "xring"][rank])))
    found["stop in a step"] = steps(StopAt(1, 1, True))
    found["stop in the last step"] = steps(StopAt(1, 3, True))
    found["stop after an epoch"] = steps(StopAt(0, 3, False))
    case("several steps", lambda: train_slope(Slope(), trainer(2), steps_per_call=3))
    case("other session", lambda: train_slope(Slope(), trainer(), session_creator=ReuseSessionCreator(tf.Session())))
    case("sum", lambda: train_slope(Slope(), trainer(1, average=False)))
    case("bfloat16", lambda: train_slope(Slope(), trainer(1, wire_dtype="bfloat16")))
    case("compiled in several steps", lambda: train_slope(Slope(), trainer(2, compile="xla"), steps_per_call=3))
    case("compiled or not", lambda: train_slope(Slope(), trainer(1, compile="auto")))
    case("other optimizer", lambda: train_slope(Slope(momentum=[0.9, 0.5][rank]), trainer()))
    case("changed on one", lambda: train_slope(Slope(), trainer(), callbacks=[ChangeOn(1, 2, True)]))
    several = {"steps_per_epoch": 20, "steps_per_call": 8}
    found["stop in several steps"] = steps(StopAt(1, 8, True), CallsOf(3), **several)
    found["stop of the chief in several steps"] = steps(StopAt(0, 3, True), CallsOf(3), **several)
    found["steps of a pass"] = steps_of_pass(8, is_dealt_out=True)
    found["steps of a pass over arrays"] = steps_of_pass(8, is_dealt_out=False)
    found["time is over"] = steps(MaxTime([1000.0, 0.001][rank]))
    found["interrupted in several steps"] = interrupted(steps_per_epoch=2_000_000, steps_per_call=1_000_000)
    case("overflow", lambda: train_slope(Slope(factor=[1.0, 1e30][rank]), trainer(1, precision="float16")))
    return found


def not_finite() -> dict[str, Any]:
    """Train until NaN is found, which arises in different workers and places; return what came of each training."""
    found = {
        f"cost of {ranks}": outcome(lambda ranks=ranks: train_slope(NotFinite("cost", *ranks), trainer(2)))
        for ranks in ((0,), (1,), (0, 1))
    }
    for name, settings in (
        ("gradients", {}),
        ("several steps", {"steps_per_call": 3}),
        ("its step", {"callbacks": [CheckNumerics(run_step=True)]}),
    ):
        found[name] = outcome(lambda kept=settings: train_slope(NotFinite("gradients", 1), trainer(), **kept))
    for towers in (1, 2):
        strategy = CollectiveAllReduceStrategy(devices=[f"/cpu:{k}" for k in range(towers)])
        found[f"a strategy of {towers}"] = outcome(
            lambda kept=strategy: train_slope(NotFinite("gradients", 1), MultiWorkerStrategyTrainer(kept))
        )
    return found


class Score(Callback):
    """Reports the step as a statistic, in the chief."""

    def _trigger_step(self) -> None:
        self.trainer.monitors.put_scalar("score", self.global_step)


class Counted(DataFlow):
    """A flow of a number of batches, of which it says nothing or something else."""

    def __init__(self, count: int, length: int | None = None) -> None:
        self._count = count
        self._length = length

    def __iter__(self) -> Iterator[Any]:
        for number in range(self._count):
            x = np.full(2, number, "float32")
            yield [x, 3 * x]

    def __len__(self) -> int:
        if self._length is None:
            raise UnknownLengthError("the test does not say how long it is")
        return self._length


def saves() -> dict[str, Any]:
    """Save in several ways when one worker has other values; return the end, the saved steps and the log of each."""
    found = {}

    def case(name: str, *callbacks: Callback, **settings: Any) -> None:
        logger.set_logger_dir(f"log-{name}", action="k")
        settings = {"steps_per_epoch": 6, "max_epoch": 1, **settings}
        with captured_log() as lines:
            try:
                end = outcome(lambda: train_slope(Slope(), trainer(), callbacks=callbacks, **settings))
            except SystemExit as error:
                end = f"exit {error.code}"
        directory = logger.get_logger_dir() or ""
        files = sorted(each for each in os.listdir(directory) if each.endswith(".index"))
        found[name] = [end if isinstance(end, str) else "ended well", files, "\n".join(lines)]

    def often(**options: Any) -> Callback:
        return PeriodicTrigger(ModelSaver(**options), every_k_steps=2)

    case("equal", often(), Score(), PeriodicTrigger(MaxSaver("score"), every_k_steps=3))
    case("other worker", ChangeOn(1, 3, True), often())
    case("chief", ChangeOn(0, 3, True), often())
    case("slot", ChangeOn(1, 3, True, "w/Momentum"), often())
    case("asynchronous", ChangeOn(1, 3, True), often(asynchronous=True))
    case("best", ChangeOn(1, 3, True), Score(), PeriodicTrigger(MaxSaver("score"), every_k_steps=2))
    case("time is over", ChangeOn(1, 1, True), ModelSaver(), MaxTime([1000.0, 0.001][place()[0]]))
    case("end of epoch", ChangeOn(1, 6, False), ModelSaver(), max_epoch=2)
    case("signal", ChangeOn(1, 1, True), ModelSaver(), SignalAt(1, 1, True))
    return found


def lengths() -> dict[str, Any]:
    """Train on data that are shorter in one worker; return the end and the log of each."""
    rank, found = place()[0], {}

    def case(name: str, data: Any, **settings: Any) -> None:
        source = data if isinstance(data, InputSource) else QueueInput(data)
        options = {"extra_callbacks": [], "monitors": [], "steps_per_epoch": 6, "max_epoch": 2, **settings}

        def train() -> Any:
            launch_train_with_config(TrainConfig(data=source, model=Slope(), **options), trainer())
            return Values()

        with captured_log() as lines:
            end = outcome(train)
        found[name] = [end if isinstance(end, str) else "ended well", "\n".join(lines)]

    short = [10, 7][rank]
    case("known", ShardData(DataFromList([[np.zeros(2, "f"), np.zeros(2, "f")]] * short)))
    case("unknown", ShardData(Counted(short)))
    case("other list", MapData(ShardData(DataFromList([[k] for k in range(rank, 8 + rank)])), _as_batch))
    case("equal", ShardData(Counted(10)))
    case("its own", Counted(short, short))
    case("its own, unknown", Counted([8, 5][rank]))
    case("its own, nearly equal", Counted(10 - rank, 10 - rank))
    case("ends", FeedInput(Counted([20, 8][rank]), infinite=False))
    return found


def _as_batch(point: Any) -> Any:
    return [np.full(2, point[0], "float32"), np.zeros(2, "float32")]


class FailAt(StopAt):
    """Fails on a worker, or kills it, in a step."""

    def __init__(self, rank: int, step: int, how: str) -> None:
        super().__init__(rank, step, True)
        self._how = how

    def _stop(self, in_step: bool) -> None:
        if (self.trainer.peers.rank, self.global_step, in_step) == self._at:
            if self._how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("the test wants a failure")


class Slow(Slope):
    """Takes, in one step on one worker, until the log says that others wait for it."""

    def build_graph(self, x: Any, y: Any) -> Any:
        is_noticed = threading.Event()

        def look(record: logging.LogRecord) -> bool:
            if "the others wait for it" in record.getMessage():
                is_noticed.set()
            return True

        def wait(step: np.ndarray) -> np.ndarray:
            if step == 2 and place()[0] == 1:
                is_noticed.wait(40)
            return np.float32(1)

        logger.addFilter(look)
        one = tf.ensure_shape(tf.numpy_function(wait, [get_global_step_var()], tf.float32), [])
        return super().build_graph(x * one, y)


def straggle() -> int:
    """Train with a worker that is slow in a step, which others are to notice; return the number of steps."""
    waits = WaitLimits(heartbeat_secs=3.0, straggler_secs=3.0)
    with tf.Graph().as_default():
        return train_slope(Slow(), trainer(waits=waits)).steps


class Hanging(Slope):
    """Never ends, on one worker, a step of its forward or its backward pass."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self._place = place

    def build_graph(self, x: Any, y: Any) -> Any:
        cost = super().build_graph(x, y)
        # A bucket of its own, which is missing in the backward pass when the first one has arrived.
        first = tf.get_variable("first", [1_100_000], initializer=tf.ones_initializer())
        step = get_global_step_var()

        def hang(value: np.ndarray, step: np.ndarray) -> np.ndarray:
            if step == 2 and place()[0] == 1:
                threading.Event().wait()
            return value

        @tf.custom_gradient
        def slow(value: Any) -> Any:
            def through(value: Any) -> Any:
                return tf.ensure_shape(tf.numpy_function(hang, [value, step], tf.float32), value.shape)

            is_forward = self._place == "forward"
            return through(value) if is_forward else value, lambda d: d if is_forward else through(d)

        return cost + tf.reduce_mean(slow(tf.identity(first)))


def hang(place: str) -> int:
    """Train with a worker that hangs in a step."""
    waits = WaitLimits(heartbeat_secs=3.0, straggler_secs=3.0, step_timeout_secs=8.0)
    with tf.Graph().as_default():
        return train_slope(Hanging(place), trainer(waits=waits)).steps


def resume_from_memory(machines: list[str], at: Any = None, how: str = "", **options: Any) -> dict[str, Any]:
    """Train as `resume`, with checkpoints after every second step in the memory of some machines.

    Args:
        machines: of each worker, the directory that is its machine's memory.
        at: the rank and the step at which a worker ends.
        how: how it ends.
        options: further arguments of the trainer.
    """
    rank = int(os.environ["RANK"])
    os.environ[MEMORY_VARIABLE] = machines[rank]
    os.environ["LOCAL_RANK"] = str(machines[:rank].count(machines[rank]))
    os.environ["LOCAL_WORLD_SIZE"] = str(machines.count(machines[rank]))
    logger.set_logger_dir("log", action="k")
    callbacks: list[Callback] = [PeriodicTrigger(MemorySaver(), every_k_steps=2)]
    if how:
        callbacks.append(FailAt(*at, how))
    kept = train_slope(
        Line(), trainer(waits=WaitLimits(heartbeat_secs=3.0), **options), AutoResumeTrainConfig, callbacks=callbacks
    )
    return {"start": kept.start, "values": kept.values}


def resume(max_epoch: int, towers: int = 1, at: Any = None, how: str = "") -> dict[str, Any]:
    """Train in a log directory, going on from what is there; end, if it is wanted, in a step on a worker."""
    logger.set_logger_dir("log", action="k")
    callbacks: list[Callback] = [ModelSaver()]
    if how == "signal":
        callbacks.append(SignalAt(*at, True))
    elif how:
        callbacks.append(FailAt(*at, how))
    waits = WaitLimits(heartbeat_secs=3.0)
    kept = train_slope(
        Slope(), trainer(towers, waits=waits), AutoResumeTrainConfig, max_epoch=max_epoch, callbacks=callbacks
    )
    directory = logger.get_logger_dir() or ""
    return {"start": kept.start, "values": kept.values, "directory": directory, "files": os.listdir(directory)}
