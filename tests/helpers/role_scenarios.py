"""What the processes of a cluster do in tests of Estimators: functions that `tests.helpers.role_job` calls in each."""

import os
import signal
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.optimizers import OPTIMIZERS
from tests.helpers.replicated_models import batch, regression
from tests.helpers.worker_scenarios import Equivalence, Values, rows_of_worker
from tpack.distribute.strategies import CollectiveAllReduceStrategy, ParameterServerStrategy
from tpack.estimator import distributed_run
from tpack.estimator.estimator import Estimator
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import EstimatorSpec, ModeKeys
from tpack.estimator.train_and_evaluate import EvalSpec, TrainSpec, train_and_evaluate
from tpack.multi_worker.strategy_trainer import MultiWorkerStrategyTrainer
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config

STEPS = 5
ROWS = 8
DATA = batch(np.random.default_rng(7), 2 * STEPS * ROWS)


class Last(tf.train.SessionRunHook):
    """Keeps the values of all variables at the end, those of all components, and where they are."""

    def __init__(self) -> None:
        self.values: dict[str, np.ndarray] = {}
        self.devices: dict[str, str] = {}

    def end(self, session: Any) -> None:
        parts = [part for each in tf.global_variables() for part in getattr(each, "components", [each])]
        self.devices = {part.op.name: part.device for part in parts}
        self.values = {part.op.name: value for part, value in zip(parts, session.run(parts), strict=True)}


def rows_of(worker: int, num_workers: int, num_towers: int) -> Any:
    """Return an input_fn with a worker's rows of each batch, in a batch for each of its towers."""

    def input_fn() -> Any:
        share = ROWS // num_workers
        index = np.arange(len(DATA[1])).reshape(-1, ROWS)[:, worker * share : (worker + 1) * share].ravel()
        features, labels = DATA
        own = ({name: values[index] for name, values in features.items()}, labels[index])
        return tf.data.Dataset.from_tensor_slices(own).batch(share // num_towers)

    return input_fn


def worker_number(config: RunConfig) -> int:
    """Return the number of this process among those that train."""
    return int(config.global_id_in_cluster or 0)


def train_collective(towers: int, directory: str, optimizers: list[str]) -> dict[str, Any]:
    """Train with each optimizer up to step 5, and with Adam 5 steps more; return what the variables are then."""
    found: dict[str, Any] = {}
    for name in optimizers:
        strategy = CollectiveAllReduceStrategy(devices=[f"/cpu:{k}" for k in range(towers)])
        config = RunConfig(tf_random_seed=1, train_distribute=strategy)
        # Only the chief has the directory with the checkpoints.
        own = os.path.join(directory if config.is_chief else f"{directory}-of-others", name)
        estimator = Estimator(regression, own, config, params={"optimizer": OPTIMIZERS[name]})
        input_fn = rows_of(worker_number(config), config.num_worker_replicas, towers)
        last = Last()
        estimator.train(input_fn, hooks=[last], max_steps=STEPS)
        if name == "adam":
            estimator.train(input_fn, hooks=[last], steps=STEPS)
        found[name] = [last.values, os.path.exists(own)]
    return found


def train_with_trainer(towers: int, size: int, optimizers: list[str]) -> dict[str, Any]:
    """Train five steps with each optimizer, with a trainer; return what the variables are then."""
    found = {}
    for name in optimizers:
        with tf.Graph().as_default():
            strategy = CollectiveAllReduceStrategy(devices=[f"/cpu:{k}" for k in range(towers)])
            trainer = MultiWorkerStrategyTrainer(strategy)
            values = Values()
            config = TrainConfig(
                model=Equivalence(name),
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


def train_on_servers(directory: str, with_strategy: bool, max_steps: int) -> dict[str, Any]:
    """Do this process's part of train_and_evaluate, with variables on parameter servers."""
    strategy = ParameterServerStrategy() if with_strategy else None
    config = RunConfig(directory, train_distribute=strategy, save_checkpoints_steps=10, keep_checkpoint_max=2)
    estimator = Estimator(regression, config=config)
    last, number = Last(), worker_number(config)
    results, exports = train_and_evaluate(
        estimator,
        TrainSpec(lambda: rows_of(number % 2, 2, 1)().repeat(), max_steps, hooks=[last]),
        EvalSpec(rows_of(0, 1, 1), steps=None, start_delay_secs=0, throttle_secs=0),
        evaluator_timeout_secs=60,
    )
    return {"results": results, "exports": exports, "devices": last.devices, "values": last.values}


def train_synchronously_on_servers(directory: str) -> dict[str, Any]:
    """Train with TensorFlow's SyncReplicasOptimizer, whose gradients meet on the parameter servers."""
    config = RunConfig(directory, save_checkpoints_steps=100)
    count = config.num_worker_replicas

    def model(features: Any, labels: Any, mode: str) -> Any:
        weights = tf.get_variable("weights", [3], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(tf.linalg.matvec(features["x"], weights) - labels))
        optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.05), count, count)
        train_op = optimizer.minimize(loss, tf.train.get_global_step())
        hook = optimizer.make_session_run_hook(config.is_chief, num_tokens=0)
        return EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])

    last = Last()
    input_fn = rows_of(worker_number(config) % count, count, 1)
    estimator = Estimator(model, config=config)
    train_and_evaluate(estimator, TrainSpec(lambda: input_fn().repeat(), STEPS, hooks=[last]), EvalSpec(input_fn))
    return {"values": last.values}


class Dies(tf.train.SessionRunHook):
    """Ends this process at a step as a signal that cannot be caught does, or stops it."""

    def __init__(self, step: int, number: int) -> None:
        self._left = step
        self._number = number

    def before_run(self, run_context: Any) -> None:
        self._left -= 1
        if self._left < 0:
            os.kill(os.getpid(), self._number)


class Changes(tf.train.SessionRunHook):
    """Changes a trained variable after a step."""

    def __init__(self, step: int) -> None:
        self._left = step

    def begin(self) -> None:
        variable = tf.trainable_variables()[0]
        self._change = variable.assign_add(tf.ones_like(variable))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._left -= 1
        if not self._left:
            run_context.session.run(self._change)


def lose_one(directory: str, who: str, kind: str) -> None:
    """Train for ever, until one process is killed at its third step, or differs from the others."""
    strategy = CollectiveAllReduceStrategy() if kind != "servers" else None
    saving = {"save_checkpoints_steps": 2} if kind == "changed" else {}
    config = RunConfig(directory, train_distribute=strategy, **saving)
    number = worker_number(config)
    is_lost = f"{config.task_type}{config.task_id}" == who
    hooks: list[Any] = [Dies(3, signal.SIGKILL)] if is_lost and kind in ("killed", "servers") else []
    if kind == "changed":
        hooks = [Changes(4 if is_lost else 10**9)]
    distributed_run._END_SECS = 4.0

    def model(features: Any, labels: Any, mode: str) -> Any:
        is_other = is_lost and kind == "other model"
        if is_other:
            tf.get_variable("more", [2])
        for name in ("v", "u") if is_lost and kind == "other order" else ("u", "v"):
            tf.get_variable(name, [], trainable=False)
        rate = 0.25 if is_other else 0.05
        return regression(features, labels, mode, {"optimizer": lambda: tf.train.GradientDescentOptimizer(rate)})

    def input_fn() -> Any:
        data = rows_of(number % 2, 2, 1)()
        return data if is_lost and kind == "short data" else data.repeat()

    estimator = Estimator(model, config=config)
    train_and_evaluate(
        estimator,
        TrainSpec(input_fn, 10**6, hooks),
        EvalSpec(input_fn, steps=2, start_delay_secs=0, throttle_secs=0),
        evaluator_timeout_secs=5,
    )
    assert estimator.config.task_type in ("ps", ModeKeys.EVAL)
