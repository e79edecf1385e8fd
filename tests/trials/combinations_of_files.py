"""Combinations with checkpoints and exports: resumed in the middle, in other numbers of towers, averaged weights."""

import os
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.combined_training import (
    Net,
    Weights,
    assert_near,
    examples,
    joined,
    moving_average,
    net,
    plain,
    shares,
    trained,
)
from tests.helpers.strategies import mirrored
from tests.trials.combinations_of_steps import NAMES, adam, by_schedule, replicated, scheduled
from tpack.callbacks.base import Callback, WithSteps
from tpack.callbacks.param_setters import ScheduledHyperParamSetter
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.callbacks.weight_averages.ema import EMA
from tpack.callbacks.weight_averages.swa import SWA
from tpack.dataflow.arrays import DataFromArrays
from tpack.distribute.trainer import StrategyTrainer
from tpack.errors import StopTraining
from tpack.graph_builder.loss_scale import LossScaling
from tpack.graph_builder.precision import PrecisionPolicy
from tpack.models.dropout import Dropout
from tpack.predict.config import PredictConfig
from tpack.predict.offline import OfflinePredictor
from tpack.tfutils.export import ModelExporter
from tpack.tfutils.optimizer import AccumGradOptimizer
from tpack.tfutils.sessinit import SmartInit
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerParameterServer


class StopAt(Callback):
    """Ends training after a step."""

    def __init__(self, step: int) -> None:
        self._step = step

    def _trigger_step(self) -> None:
        if self.global_step == self._step:
            raise StopTraining("the trial ends here")

    def _with_several_steps(self) -> WithSteps:
        return WithSteps(steps_left=lambda: max(1, self._step - self.global_step))


def saved_each(steps: int, **options: Any) -> Callback:
    return PeriodicTrigger(ModelSaver(**options), every_k_steps=steps)


def _resumed(parts: Any, data: Any, steps: int, callbacks: Any, desc: Any, **options: Any) -> Any:
    """Train in parts, (trainer, last step), each from the checkpoint of the one before; return the last one's."""
    got = None
    for make, last in parts:
        ends = [StopAt(last)] if last < steps else []
        flow = data(make) if callable(data) else data
        got = trained(make, desc(), flow, steps, *callbacks(), *ends, config=AutoResumeTrainConfig, **options)
    return got


def schedules_in_several_steps_a_call_resumed_in_the_middle() -> None:
    data = examples(12)

    def callbacks() -> Any:
        points = [(0, 0.01), (5, 0.06), (9, 0.02)]
        return [ScheduledHyperParamSetter("rate", points, "linear", step_based=True), saved_each(4)]

    wanted = by_schedule(data, np.interp(np.arange(12), [0, 5, 9], [0.01, 0.06, 0.02]))
    got = _resumed(
        [(replicated(2), 8), (replicated(2), 12)],
        lambda _: shares(data, 2),
        12,
        callbacks,
        lambda: Net(scheduled),
        steps_per_epoch=6,
        steps_per_call=5,
    )
    assert_near(got.last, wanted, 1e-7, 1e-9)


def resumed_in_other_numbers_of_towers() -> None:
    arrays = tuple(joined(examples(5), 5)[0])
    rows = [[each.take(range(12 * step, 12 * step + 12), 0, mode="wrap") for each in arrays] for step in range(10)]
    trajectory = plain(rows, adam)
    parts = [(replicated(2), 3), (replicated(3), 7), (SimpleTrainer, 10)]
    got = _resumed(
        parts,
        lambda _: DataFromArrays(arrays, shuffle=False),
        10,
        lambda: [EMA(0.6), SWA(1, every_steps=2), saved_each(1)],
        lambda: Net(adam),
        steps_per_epoch=5,
        batch_size=12,
    )
    assert_near(got.last, {name: trajectory[-1][name] for name in NAMES})
    for name in NAMES:
        each = [step[name] for step in trajectory]
        assert_near(got.last, {f"{name}/ExponentialMovingAverage": moving_average(each, 0.6)})
        assert_near(got.last, {f"{name}/SWA": np.mean(each[1::2], 0)})


def accumulation_resumed_halfway_by_other_trainers() -> None:
    data = examples(9)
    wanted = plain(joined(data, 3), adam)[-1]
    parts = [
        (replicated(2), 1),
        (lambda: SyncMultiGPUTrainerParameterServer(2), 4),
        (lambda: StrategyTrainer(mirrored(2)), 5),
        (replicated(2), 9),
    ]
    got = _resumed(
        parts,
        lambda _: shares(data, 2),
        9,
        lambda: [saved_each(1)],
        lambda: Net(lambda: AccumGradOptimizer(adam(), 3)),
        steps_per_epoch=9,
    )
    assert_near(got.last, {name: wanted[name] for name in NAMES})


def checkpoints_in_a_thread_with_averages_resumed() -> None:
    data = examples(6)
    trajectory = plain(data, adam)
    got = _resumed(
        [(replicated(2), 2), (replicated(2), 6)],
        lambda _: shares(data, 2),
        6,
        lambda: [EMA(0.6), saved_each(1, asynchronous=True)],
        lambda: Net(adam),
        steps_per_epoch=6,
    )
    assert_near(got.last, {name: trajectory[-1][name] for name in NAMES})
    for name in NAMES:
        each = [step[name] for step in trajectory]
        assert_near(got.last, {f"{name}/ExponentialMovingAverage": moving_average(each, 0.6)})


def _dropped(x: Any, ids: Any, y: Any) -> Any:
    return net(Dropout("drop", x, rate=0.5), ids, y)


def random_numbers_in_several_steps_a_call_resumed() -> None:
    """A run that was resumed draws what one in a single piece draws, bit by bit."""
    data = examples(8)
    results = []
    for ends, call in (((8,), 1), ((3, 8), 1), ((3, 8), 4)):
        parts = [(replicated(2), end) for end in ends]
        directory = f"run{len(results)}"
        results.append(
            _resumed(
                parts,
                lambda _: shares(data, 2),
                8,
                lambda: [saved_each(1)],
                lambda: Net(adam, _dropped),
                steps_per_epoch=8,
                steps_per_call=call,
                seed=7,
                log_dir=directory,
            ).last
        )
    for other in results[1:]:
        assert_near(other, {name: results[0][name] for name in NAMES}, 0, 0)


def float16_with_overflow_accumulation_and_resume() -> None:
    """A scale of the cost that is far too large is halved, and skipped steps change nothing."""
    # Large numbers, whose gradients overflow with a scale of 2 ** 24.
    data = examples(1, dtype="float32")
    data = data * 40
    policy = PrecisionPolicy("float16", LossScaling(initial=2.0**24, growth_steps=1000))
    got = _resumed(
        [(replicated(2, precision=policy), 3), (replicated(2, precision=policy), 40)],
        lambda _: shares(data, 2),
        40,
        lambda: [saved_each(1)],
        lambda: Net(lambda: tf.train.GradientDescentOptimizer(0.1), dtype=tf.float32),
        steps_per_epoch=40,
        check_cost=False,
    )
    skipped = int(got.last["loss_scale/skipped_steps"])
    assert 2 < skipped < 30, skipped
    wanted = plain(data[: 40 - skipped], lambda: tf.train.GradientDescentOptimizer(0.1))[-1]
    assert_near(got.last, {name: wanted[name] for name in NAMES}, 2e-2, 5e-3)


def two_trainings_and_a_predictor_in_one_process() -> None:
    """The second training changes nothing of the first one, nor of a predictor made between them."""
    data = examples(4)
    wanted = plain(data, adam)[-1]
    for number in range(2):
        got = trained(replicated(2), Net(adam), shares(data, 2), 4, ModelSaver(), log_dir=f"run{number}")
        assert_near(got.last, {name: wanted[name] for name in NAMES})
        if number == 0:
            predict = OfflinePredictor(config_of("run0"))
            before = predict(data[0][0], data[0][1])[0]
    np.testing.assert_allclose(before, outputs(wanted, *data[0][:2]), 1e-9)
    np.testing.assert_array_equal(predict(data[0][0], data[0][1])[0], before)


def config_of(directory: str) -> PredictConfig:
    return PredictConfig(
        model=Net(adam), session_init=SmartInit(directory), input_names=["x", "ids"], output_names=["output"]
    )


def outputs(weights: Any, x: Any, ids: Any) -> Any:
    return np.tanh(x @ weights["dense/W"] + weights["dense/b"]) @ weights["out/W"] + weights["table"][ids].sum(1)


def averaged_weights_in_exports() -> None:
    data = examples(5)
    trajectory = plain(data, adam)
    ema = EMA(0.6)
    averaged = ema.evaluate(ModelSaver(checkpoint_dir="averaged"))
    trained(replicated(2), Net(adam), shares(data, 2), 5, ema, averaged, ModelSaver())
    means = {name: moving_average([step[name] for step in trajectory], 0.6) for name in NAMES}
    compare_exports(means, trajectory[-1], *data[0][:2])


def compare_exports(averaged: Weights, last: Weights, x: Any, ids: Any) -> None:
    """Export the checkpoints of the averages and of the run, and compare what the files compute."""
    for directory, weights in (("averaged", averaged), ("run", last)):
        exporter = ModelExporter(config_of(directory))
        exporter.export_serving(os.path.join("exported", directory))
        exporter.export_compact(f"{directory}.pb")
        wanted = outputs(weights, x, ids)
        np.testing.assert_allclose(served(os.path.join("exported", directory), x, ids), wanted, 1e-9)
        np.testing.assert_allclose(frozen(f"{directory}.pb", x, ids), wanted, 1e-9)


def served(path: str, x: Any, ids: Any) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
        names = {key: each.name for key, each in signature.inputs.items()}
        return session.run(signature.outputs["output"].name, {names["x"]: x, names["ids"]: ids})


def frozen(path: str, x: Any, ids: Any) -> Any:
    graph_def = tf.GraphDef()
    with open(path, "rb") as file:
        graph_def.ParseFromString(file.read())
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(graph_def, name="")
        return session.run("output:0", {"x:0": x, "ids:0": ids})
