"""Combinations on several workers, real processes on this machine, beside plain TensorFlow.

Above each combination stands the function that its workers and parameter servers run, with ``_`` before the name. A
worker's values are those of all variables; what must be equal in all workers is compared bit by bit.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
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
    trained,
    unchanged,
)
from tests.helpers.strategies import devices_of
from tests.helpers.worker_job import run_workers, values_of
from tests.trials.combinations_of_data import moving_statistics, normalised
from tests.trials.combinations_of_files import StopAt, compare_exports, outputs, saved_each
from tests.trials.combinations_of_steps import NAMES, adam, branching, by_schedule, cast_net, replicated, scheduled
from tpack.callbacks.base import Callback
from tpack.callbacks.inference.inferencers import ScalarStats
from tpack.callbacks.inference.runners import InferenceRunner
from tpack.callbacks.param_setters import ScheduledHyperParamSetter
from tpack.callbacks.run_op import RunUpdateOps
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.weight_averages.ema import EMA
from tpack.callbacks.weight_averages.swa import SWA
from tpack.dataflow.batch import BatchData
from tpack.dataflow.shard import ShardData
from tpack.dataflow.sources import DataFromList
from tpack.distribute.strategies import CollectiveAllReduceStrategy
from tpack.graph_builder.loss_scale import LossScaling
from tpack.graph_builder.precision import PrecisionPolicy
from tpack.multi_worker.ps_trainer import DistributedTrainerParameterServer, DistributedTrainerReplicated
from tpack.multi_worker.replicated_trainer import MultiWorkerTrainerReplicated
from tpack.multi_worker.strategy_trainer import MultiWorkerStrategyTrainer
from tpack.tfutils.gradproc import GlobalNormClip
from tpack.tfutils.optimizer import AccumGradOptimizer, apply_grad_processors
from tpack.train.resume import AutoResumeTrainConfig

TRAINERS: dict[str, Callable[..., Any]] = {
    "replicated": MultiWorkerTrainerReplicated,
    "strategy": lambda k, **options: MultiWorkerStrategyTrainer(
        CollectiveAllReduceStrategy(devices=devices_of(k), **options)
    ),
    "servers": lambda k, **options: DistributedTrainerParameterServer(k, synchronous=True, **options),
    "replicated by servers": DistributedTrainerReplicated,
    "one process": lambda k: replicated(k)(),
}
UNEVEN = ([3, 3, 3, 3], [3, 3, 3, 3], [3, 3, 3, 3], [4, 1, 5, 2])
"""The rows of four towers in each of four steps."""


def _in_processes(scenario: Callable[..., Any], workers: int = 2, *, kind: str = "", **arguments: Any) -> list[Any]:
    """Return what a function returned in each worker; it gets the number of workers and the kind of the trainer."""
    servers = 2 if "servers" in kind else 0
    name = f"{scenario.__module__}.{scenario.__name__}"
    given = {"workers": workers, **({"kind": kind} if kind else {}), **arguments}
    by = "TF_CONFIG" if servers else "RANK"
    found = run_workers(name, workers, Path.cwd(), by=by, num_ps=servers, arguments=given, preload=scenario.__module__)
    for rank, each in enumerate(found):
        assert each.code == 0, f"process {rank} ended with {each.code}: {each.text[-1500:]}"
    return values_of(found)[:workers]


def _rank() -> int:
    return int(os.environ.get("RANK", os.environ.get("TEST_RANK", "0")))


def _shares(batches: Any, workers: int, towers: int, sizes: Any = None) -> DataFromList:
    """Return the batches of the towers of this worker, of batches of all.

    Args:
        batches: those of all, one for each step.
        workers: their number.
        towers: of each.
        sizes: the rows of each tower of all workers in each step, where they differ.
    """
    total, first = workers * towers, _rank() * towers
    points = []
    for step, batch in enumerate(batches):
        ends = np.cumsum(sizes[step])[:-1] if sizes else total
        parts = list(zip(*(np.split(each, ends) for each in batch), strict=True))
        # A server is no worker, and reads nothing.
        points += [list(part) for part in parts[first : first + towers] or parts]
    return DataFromList(points, shuffle=False)


def _assert_equal(workers: Sequence[Weights], wanted: Weights, rtol: float = 1e-9, atol: float = 1e-11) -> None:
    """Compare the first worker's values with others, and the others' with its, bit by bit."""
    assert_near(workers[0], wanted, rtol, atol)
    for rank, values in enumerate(workers[1:], 1):
        for name in wanted:
            assert values[name].tobytes() == workers[0][name].tobytes(), f"{name} of worker {rank}"


def _weights(wanted: Weights, *more: str) -> Weights:
    return {name: wanted[name] for name in (*NAMES, *more)}


def _clip(pairs: Any) -> Any:
    gradients, variables = zip(*pairs, strict=True)
    return list(zip(tf.clip_by_global_norm(gradients, 0.05)[0], variables, strict=True))


def _clipping(workers: int, kind: str, options: Any) -> Weights:
    desc = Net(lambda: apply_grad_processors(adam(), [GlobalNormClip(0.05)]))
    return trained(lambda: TRAINERS[kind](2, **options), desc, _shares(examples(4), workers, 2), 4).last


def clipping_with_rows_by_every_trainer_of_workers() -> None:
    wanted = _weights(plain(examples(4), adam, change=_clip)[-1])
    cases: tuple[tuple[str, Any], ...] = (
        ("replicated", {}),
        ("replicated", {"mode": "xring"}),
        ("strategy", {}),
        ("servers", {}),
        ("replicated by servers", {}),
    )
    for kind, options in cases:
        _assert_equal(_in_processes(_clipping, kind=kind, options=options), wanted)


def _normalisation(workers: int, kind: str) -> Weights:
    points = _shares(examples(4), workers, 2, UNEVEN)
    return trained(lambda: TRAINERS[kind](2), Net(adam, normalised), points, 4, RunUpdateOps()).last


def normalisation_on_workers_with_uneven_last_batches() -> None:
    """Each worker normalises the batches of its own towers as one, and the averages are those of worker 0."""
    data = examples(4)
    wanted = _weights(_normalised_by_worker(data), "bn/beta", "bn/gamma")
    of_chief = [[each[: sum(sizes[:2])] for each in batch] for batch, sizes in zip(data, UNEVEN, strict=True)]
    wanted |= moving_statistics(of_chief, 0.5)
    for kind in ("replicated", "strategy", "servers", "replicated by servers"):
        _assert_equal(_in_processes(_normalisation, kind=kind), wanted, 1e-8, 1e-10)


def _normalised_by_worker(batches: Any) -> Weights:
    """Train in plain TensorFlow: the mean of four costs, of which each two have their rows normalised as one."""
    with tf.Graph().as_default(), tf.Session(config=unchanged()) as session:
        inputs = [[tf.placeholder(each.dtype, [None, *each.shape[1:]]) for each in batches[0]] for _ in range(4)]
        beta = tf.get_variable("bn/beta", [4], tf.float64, tf.zeros_initializer())
        gamma = tf.get_variable("bn/gamma", [4], tf.float64, tf.ones_initializer())
        costs = []
        for pair in (inputs[:2], inputs[2:]):
            mean, variance = tf.nn.moments(tf.concat([pair[0][0], pair[1][0]], 0), [0])
            for x, ids, y in pair:
                with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
                    costs.append(net(tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-5), ids, y))
        train = adam().minimize(tf.add_n(costs) / 4)
        session.run(tf.global_variables_initializer())
        for batch, sizes in zip(batches, UNEVEN, strict=True):
            parts = zip(*(np.split(each, np.cumsum(sizes)[:-1]) for each in batch), strict=True)
            feeds: dict[Any, Any] = {}
            for names, part in zip(inputs, parts, strict=True):
                feeds |= dict(zip(names, part, strict=True))
            session.run(train, feeds)
        return {each.op.name: session.run(each) for each in tf.global_variables()}


def _momentum() -> Any:
    # Adam would magnify rounding where gradients are small.
    return tf.train.MomentumOptimizer(0.5, 0.9)


def _bfloat16(workers: int, kind: str) -> Any:
    desc = Net(lambda: AccumGradOptimizer(_momentum(), 2), dtype=tf.float32)
    points = _shares(examples(6, dtype="float32"), workers, 2)
    got = trained(lambda: TRAINERS[kind](2, precision="bfloat16"), desc, points, 6, EMA(0.5))
    return got.last, [{name: step[name] for name in NAMES} for step in got.steps]


def bfloat16_with_accumulation_and_average_on_workers() -> None:
    data = examples(6, dtype="float32")
    # Whole batches of two steps, computed in eight parts: rounding to 16 bits is that of each part.
    wanted = plain(
        joined(data, 2), _momentum, cast_net(8), lambda pairs: [(tf.convert_to_tensor(g) / 8.0, v) for g, v in pairs]
    )
    got = _in_processes(_bfloat16, kind="replicated")
    _assert_equal([last for last, _ in got], _weights(wanted[-1]), 1e-3, 1e-4)
    for name in NAMES:
        average = moving_average([step[name] for step in got[0][1]], 0.5)
        assert_near(got[0][0], {f"{name}/ExponentialMovingAverage": average}, 1e-5, 1e-6)


def _float16(workers: int) -> Weights:
    policy = PrecisionPolicy("float16", LossScaling(initial=2.0**24, growth_steps=1000))
    desc = Net(lambda: AccumGradOptimizer(tf.train.GradientDescentOptimizer(0.1), 2), dtype=tf.float32)
    points = _shares([*examples(2, dtype="float32")] * 20, workers, 2)
    return trained(
        lambda: MultiWorkerTrainerReplicated(2, precision=policy), desc, points, 40, EMA(0.5), check_cost=False
    ).last


def float16_with_overflow_and_accumulation_on_workers() -> None:
    """Steps that overflow in some worker are left out in all, also of sums over steps."""
    got = _in_processes(_float16)
    skipped = int(got[0]["loss_scale/skipped_steps"])
    assert 2 < skipped < 30, skipped
    left = ([*examples(2, dtype="float32")] * 20)[skipped:]
    wanted = plain(joined(left, 2), lambda: tf.train.GradientDescentOptimizer(0.1))[-1]
    _assert_equal(got, _weights(wanted), 2e-2, 5e-3)


def _schedule(workers: int, last: int, call: int) -> Weights:
    points = [(0, 0.01), (5, 0.06), (9, 0.02)]
    setter = ScheduledHyperParamSetter("rate", points, "linear", step_based=True)
    ends = [StopAt(last)] if last < 12 else []
    return trained(
        lambda: MultiWorkerTrainerReplicated(2),
        Net(scheduled),
        _shares(examples(12), workers, 2),
        12,
        setter,
        saved_each(4),
        *ends,
        steps_per_epoch=6,
        steps_per_call=call,
        config=AutoResumeTrainConfig,
        log_dir=f"run{call}",
    ).last


def schedules_in_several_steps_a_call_of_workers_resumed_in_the_middle() -> None:
    wanted = by_schedule(examples(12), np.interp(np.arange(12), [0, 5, 9], [0.01, 0.06, 0.02]))
    for call in (1, 5):
        _in_processes(_schedule, last=8, call=call)
        got = _in_processes(_schedule, last=12, call=call)
        _assert_equal(got, wanted, 1e-7, 1e-9)


def _other_workers(workers: int, towers: int, last: int) -> Weights:
    points = [list(point) for point in zip(*joined(examples(5), 5)[0], strict=True)]
    flow = BatchData(ShardData(DataFromList(points, shuffle=False)), 12 // workers // towers)
    ends = [StopAt(last)] if last < 12 else []
    return trained(
        lambda: MultiWorkerTrainerReplicated(towers),
        Net(adam),
        flow,
        12,
        EMA(0.6),
        SWA(1, every_steps=2),
        saved_each(1),
        *ends,
        steps_per_epoch=6,
        config=AutoResumeTrainConfig,
    ).last


def resumed_by_other_numbers_of_workers_and_towers() -> None:
    """Two workers of two towers, then three of one, one of three, and two of one."""
    arrays = tuple(joined(examples(5), 5)[0])
    rows = [[each.take(range(12 * step, 12 * step + 12), 0, mode="wrap") for each in arrays] for step in range(12)]
    trajectory = plain(rows, adam)
    for workers, towers, last in ((2, 2, 3), (3, 1, 5), (1, 3, 8), (2, 1, 12)):
        got = _in_processes(_other_workers, workers, towers=towers, last=last)
    _assert_equal(got, _weights(trajectory[-1]))
    for name in NAMES:
        each = [step[name] for step in trajectory]
        assert_near(got[0], {f"{name}/ExponentialMovingAverage": moving_average(each, 0.6)})
        assert_near(got[0], {f"{name}/SWA": np.mean(each[1::2], 0)})


def _accumulation(workers: int, kind: str, last: int) -> Weights:
    towers = 4 // workers
    ends = [StopAt(last)] if last < 9 else []
    parts = [list(part) for batch in examples(9) for part in zip(*(np.split(each, 4) for each in batch), strict=True)]
    return trained(
        lambda: TRAINERS[kind](towers),
        Net(lambda: AccumGradOptimizer(adam(), 3)),
        ShardData(DataFromList(parts, shuffle=False)),
        9,
        saved_each(1),
        *ends,
        steps_per_epoch=9,
        config=AutoResumeTrainConfig,
    ).last


def accumulation_on_workers_resumed_halfway_by_other_trainers() -> None:
    wanted = _weights(plain(joined(examples(9), 3), adam)[-1])
    parts = (("replicated", 2, 1), ("servers", 2, 3), ("one process", 1, 5), ("strategy", 2, 7), ("replicated", 4, 9))
    for kind, workers, last in parts:
        got = _in_processes(_accumulation, workers, kind=kind, last=last)
    _assert_equal(got, wanted)


def _exported(workers: int, kind: str) -> Weights:
    ema = EMA(0.6).set_chief_only(False)
    averaged = ema.evaluate(ModelSaver(checkpoint_dir="averaged"))
    points = _shares(examples(5), workers, 2)
    return trained(lambda: TRAINERS[kind](2), Net(adam), points, 5, ema, averaged, ModelSaver(), log_dir="run").last


def averaged_weights_of_workers_in_exports() -> None:
    trajectory = plain(examples(5), adam)
    means = {name: moving_average([step[name] for step in trajectory], 0.6) for name in NAMES}
    _assert_equal(_in_processes(_exported, kind="replicated"), _weights(trajectory[-1]))
    compare_exports(means, trajectory[-1], *examples(5)[0][:2])


def _with_keras(x: Any, ids: Any, y: Any) -> Any:
    mask = keras.layers.Dropout(0.5, seed=3)(tf.ones_like(x), training=True)
    tf.identity(mask, name="mask")
    shared = keras.layers.Dense(4, activation="tanh", name="shared")
    return net(shared(shared(x * mask)), ids, y)


class _Masks(Callback):
    """The masks of the towers of this worker in each step, and the first weights."""

    _chief_only = False

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.start: Weights = {}

    def _before_train(self) -> None:
        variables = tf.global_variables()
        self.start = {
            each.op.name: value for each, value in zip(variables, self.trainer.sess.run(variables), strict=True)
        }

    def _before_run(self, ctx: Any) -> Any:
        return [tower.get_tensors(["mask"])[0] for tower in self.trainer.towers.training()]

    def _after_run(self, ctx: Any, values: Any) -> None:
        self.seen.append(np.array(values.results))


def _keras_layers(workers: int, kind: str, directory: str) -> Any:
    masks = _Masks()
    keras.backend.set_floatx("float64")
    points = _shares(examples(4), workers, 2)
    desc = Net(adam, _with_keras)
    got = trained(lambda: TRAINERS[kind](2), desc, points, 4, RunUpdateOps(), masks, seed=5, log_dir=directory)
    return got.last, masks.start, masks.seen


def shared_keras_layers_and_dropout_on_workers() -> None:
    """All towers of all workers drop others, in each step, and the same in a second run."""
    for kind in ("replicated", "strategy", "servers"):
        runs = [_in_processes(_keras_layers, kind=kind, directory=f"{kind} {number}") for number in range(2)]
        masks = [np.concatenate([seen for _, _, seen in run], 1) for run in runs]
        np.testing.assert_array_equal(*masks)
        drawn = masks[0].reshape(4 * 4, -1)
        assert len({each.tobytes() for each in drawn}) == 16, f"{kind}: some towers or steps dropped the same"
        start = runs[0][0][1]

        def cost(x: Any, ids: Any, y: Any, mask: Any, start: Weights = start) -> Any:
            kernel, bias = (tf.get_variable(name, initializer=start[name]) for name in ("shared/kernel", "shared/bias"))
            for _ in range(2):
                x, mask = tf.tanh((x * mask) @ kernel + bias), 1.0
            return net(x, ids, y)

        data = [[*batch, np.concatenate(mask)] for batch, mask in zip(examples(4), masks[0], strict=True)]
        wanted = _weights(plain(data, adam, cost)[-1], "shared/kernel", "shared/bias")
        _assert_equal([last for last, _, _ in runs[0]], wanted)


def _one_after_another(workers: int, kind: str) -> list[Weights]:
    kinds = ("servers", "replicated by servers", "servers") if "servers" in kind else ("replicated", "strategy") * 2
    return [
        trained(
            lambda each=each: TRAINERS[each](2),
            Net(adam),
            _shares(examples(4), workers, 2),
            4,
            ModelSaver(),
            log_dir=f"run{number}",
        ).last
        for number, each in enumerate(kinds)
    ]


def trainings_one_after_another_in_the_same_workers() -> None:
    wanted = _weights(plain(examples(4), adam)[-1])
    for kind in ("alone", "with servers"):
        for got in zip(*_in_processes(_one_after_another, kind=kind), strict=True):
            _assert_equal(got, wanted)


def _branches(workers: int, kind: str, options: Any, call: int) -> Weights:
    points = _shares(examples(4), workers, 3)
    settings = {"steps_per_epoch": 4, "steps_per_call": call}
    return trained(lambda: TRAINERS[kind](3, **options), Net(adam, branching), points, 4, **settings).last


def branches_and_loops_on_copied_towers_of_workers() -> None:
    wanted = _weights(plain(examples(4), adam, branching)[-1], "scale", "turn")
    for kind, call in (("replicated", 1), ("replicated", 3), ("strategy", 1), ("servers", 1)):
        got = _in_processes(_branches, kind=kind, options={"tower_building": "copy"}, call=call)
        _assert_equal(got, wanted)


def _rounded(workers: int, dtype: str) -> Weights:
    desc = Net(lambda: apply_grad_processors(_momentum(), [GlobalNormClip(0.05)]))
    return trained(
        lambda: MultiWorkerTrainerReplicated(2, wire_dtype=dtype), desc, _shares(examples(4), workers, 2), 4
    ).last


def gradients_rounded_on_the_wire_and_clipped() -> None:
    """The gradients of each worker are rounded once, added in 32 bits, and clipped after that."""
    for dtype in ("bfloat16", "float16"):
        wanted = _rounded_by_worker(examples(4), tf.as_dtype(dtype))
        _assert_equal(_in_processes(_rounded, dtype=dtype), _weights(wanted))


def _rounded_by_worker(batches: Any, wire: Any) -> Weights:
    """Train in plain TensorFlow: clip the mean of two workers' gradients, which are rounded before."""
    with tf.Graph().as_default(), tf.Session(config=unchanged()) as session:
        inputs = [tf.placeholder(each.dtype, [12, *each.shape[1:]]) for each in batches[0]]
        costs = []
        for part in zip(*(tf.split(each, 2) for each in inputs), strict=True):
            with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
                costs.append(net(*part))
        variables = tf.trainable_variables()
        pairs = []
        for variable, gradients in zip(
            variables, zip(*(tf.gradients(cost, variables) for cost in costs), strict=True), strict=True
        ):
            if isinstance(gradients[0], tf.IndexedSlices):
                values = [tf.cast(tf.cast(each.values, wire), tf.float64) for each in gradients]
                rows = tf.concat([each.indices for each in gradients], 0)
                pairs.append((tf.IndexedSlices(tf.concat(values, 0) / 2, rows, gradients[0].dense_shape), variable))
            else:
                first, second = (tf.cast(tf.cast(each, wire), tf.float32) for each in gradients)
                pairs.append((tf.cast((first + second) / 2, tf.float64), variable))
        train = _momentum().apply_gradients(_clip(pairs))
        session.run(tf.global_variables_initializer())
        for batch in batches:
            session.run(train, dict(zip(inputs, batch, strict=True)))
        return {each.op.name: session.run(each) for each in variables}


def _uneven_shards(workers: int, remainder: str) -> Weights:
    arrays = [each[:23] for each in joined(examples(2), 2)[0]]
    points = [list(point) for point in zip(*arrays, strict=True)]
    flow = BatchData(ShardData(DataFromList(points, shuffle=False), remainder=remainder), 3, remainder=True)
    return trained(lambda: MultiWorkerTrainerReplicated(1), Net(adam), flow, 10, steps_per_epoch=5).last


def shares_of_uneven_data_in_epochs_of_other_lengths() -> None:
    """23 points are 12 or 11 for each of two workers, in four batches, and an epoch has five."""
    arrays = [each[:23] for each in joined(examples(2), 2)[0]]
    for remainder, total in (("wrap", 24), ("drop", 22)):
        order = [*range(23), 22][:total]
        shares = [[order[at] for at in range(rank, total, 2)] for rank in range(2)]
        # The last point of a round that is not full is dealt to both.
        batches = [[own[at : at + 3] for at in range(0, len(own), 3)] for own in shares]
        steps = [[each[step % len(each)] for each in batches] for step in range(10)]
        wanted = _mean_of_workers(arrays, steps)
        _assert_equal(_in_processes(_uneven_shards, remainder=remainder), _weights(wanted))


def _mean_of_workers(arrays: Any, steps: Any) -> Weights:
    """Train in plain TensorFlow: the mean of the costs of two workers, each of its rows."""
    with tf.Graph().as_default(), tf.Session(config=unchanged()) as session:
        inputs = [[tf.placeholder(each.dtype, [None, *each.shape[1:]]) for each in arrays] for _ in range(2)]
        costs = []
        for own in inputs:
            with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
                costs.append(net(*own))
        train = adam().minimize(tf.add_n(costs) / 2)
        session.run(tf.global_variables_initializer())
        for step in steps:
            feeds: dict[Any, Any] = {}
            for own, rows in zip(inputs, step, strict=True):
                feeds |= {name: each[rows] for name, each in zip(own, arrays, strict=True)}
            session.run(train, feeds)
        return {each.op.name: session.run(each) for each in tf.trainable_variables()}


def _in_a_thread(workers: int, kind: str, last: int, asynchronous: bool) -> Weights:
    ends = [StopAt(last)] if last < 6 else []
    return trained(
        lambda: TRAINERS[kind](2),
        Net(adam),
        _shares(examples(6), workers, 2),
        6,
        EMA(0.6),
        saved_each(1, asynchronous=asynchronous),
        *ends,
        steps_per_epoch=6,
        config=AutoResumeTrainConfig,
        log_dir=f"{kind} {asynchronous}",
    ).last


def checkpoints_in_a_thread_of_workers_resumed() -> None:
    """Written in a thread or not, they make the same bits."""
    trajectory = plain(examples(6), adam)
    wanted = _weights(trajectory[-1])
    for kind in ("replicated", "strategy", "servers", "replicated by servers"):
        found = []
        for asynchronous in (True, False):
            _in_processes(_in_a_thread, kind=kind, last=2, asynchronous=asynchronous)
            found += _in_processes(_in_a_thread, kind=kind, last=6, asynchronous=asynchronous)
        _assert_equal(found, wanted)
        for name in NAMES:
            average = moving_average([step[name] for step in trajectory], 0.6)
            assert_near(found[0], {f"{name}/ExponentialMovingAverage": average})


def _with_errors(x: Any, ids: Any, y: Any) -> Any:
    loss = net(x, ids, y)
    output = tf.get_default_graph().get_tensor_by_name(loss.op.name.rpartition("cost")[0] + "output:0")
    tf.reduce_sum(tf.square(output - y), 1, name="errors")
    return loss


class _Found(Callback):
    """The errors of each epoch, by the averages and by the weights of that moment."""

    _chief_only = False
    reads_statistics = True

    def __init__(self) -> None:
        self.epochs: list[Any] = []

    def _trigger_epoch(self) -> None:
        self.epochs.append([self.trainer.monitors.get_latest(f"{name}_errors") for name in ("average", "now")])


def _evaluation(workers: int, kind: str) -> Any:
    data = [np.concatenate(parts)[:31] for parts in zip(*examples(3), strict=True)]
    ema, found = EMA(0.6).set_chief_only(False), _Found()

    def runner(prefix: str) -> Callback:
        return InferenceRunner(tuple(data), ScalarStats("errors", prefix=prefix), batch_size=7)

    desc, points = Net(adam, _with_errors), _shares(examples(5), workers, 2)
    trained(lambda: TRAINERS[kind](2), desc, points, 5, ema, ema.evaluate(runner("average")), runner("now"), found)
    return found.epochs


def evaluation_of_averages_by_workers_with_smaller_last_batches() -> None:
    trajectory = plain(examples(5), adam)
    x, ids, y = (np.concatenate(parts)[:31] for parts in zip(*examples(3), strict=True))
    for kind in ("replicated", "strategy", "replicated by servers"):
        got = _in_processes(_evaluation, kind=kind)
        assert got[0] == got[1], kind
        for step in range(5):
            means = {name: moving_average([each[name] for each in trajectory[: step + 1]], 0.6) for name in NAMES}
            wanted = [np.square(outputs(each, x, ids) - y).sum(1).mean() for each in (means, trajectory[step])]
            np.testing.assert_allclose(got[0][step], wanted, 1e-7, err_msg=f"{kind} {step}")
