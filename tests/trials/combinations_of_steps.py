"""Combinations of what happens in a step: precision, accumulation, clipping, averages, schedules, branches, loops."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.combined_training import (
    Net,
    assert_near,
    assert_towers_same,
    examples,
    joined,
    moving_average,
    net,
    plain,
    shares,
    trained,
    unchanged,
    weight,
)
from tests.helpers.strategies import mirrored
from tpack.callbacks.param_setters import ScheduledHyperParamSetter
from tpack.callbacks.weight_averages.ema import EMA
from tpack.callbacks.weight_averages.swa import SWA
from tpack.distribute.trainer import StrategyTrainer
from tpack.models.regularize import regularize_cost
from tpack.optimizers.weight_decay import AdamW
from tpack.reduction.algorithms.one_device import RoundRobinReducer
from tpack.reduction.wrappers.conversion import DensifyReducer, WireDtypeReducer
from tpack.tfutils.gradproc import GlobalNormClip, ScaleGradient
from tpack.tfutils.optimizer import AccumGradOptimizer, VariableAssignmentOptimizer, apply_grad_processors
from tpack.train.trainers import (
    AsyncMultiGPUTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainerHierarchical,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)

NAMES = ("table", "dense/W", "dense/b", "out/W")


def adam() -> Any:
    return tf.train.AdamOptimizer(0.05)


def replicated(towers: int, **options: Any) -> Callable[[], Any]:
    return lambda: SyncMultiGPUTrainerReplicated(towers, **options)


def cast_net(parts: int) -> Callable[..., Any]:
    """Return the cost of ``net`` in bfloat16, the sum over parts of the batch that are computed apart."""

    def cost(x: Any, ids: Any, y: Any) -> Any:
        costs = []
        for part in zip(*(tf.split(each, parts) for each in (x, ids, y)), strict=True):
            with tf.variable_scope(tf.get_variable_scope(), custom_getter=_cast, reuse=tf.AUTO_REUSE):
                inputs = [tf.cast(each, tf.bfloat16) if each.dtype.is_floating else each for each in part]
                costs.append(tf.cast(net(*inputs), tf.float32))
        return tf.add_n(costs)

    return cost


def _cast(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    # Rows are looked up before they are cast, so that their gradients are added in 32 bits.
    variable = getter(name, *args, **kwargs)
    return variable if name == "table" else tf.cast(variable, tf.bfloat16)


def bfloat16_with_accumulation_and_average_on_three_copied_towers() -> None:
    data = examples(6, dtype="float32")
    ema = EMA(0.5)

    # Adam would magnify rounding where gradients are small.
    def momentum() -> Any:
        return tf.train.MomentumOptimizer(0.5, 0.9)

    desc = Net(lambda: AccumGradOptimizer(momentum(), 2), dtype=tf.float32)
    trainer = replicated(3, precision="bfloat16", tower_building="copy")
    got = trained(trainer, desc, shares(data, 3), 6, ema)

    # Whole batches of two steps, computed in six parts: rounding to 16 bits is that of each part.
    # The mean is taken in 32 bits, as of towers.
    wanted = plain(
        joined(data, 2), momentum, cast_net(6), lambda pairs: [(tf.convert_to_tensor(g) / 6.0, v) for g, v in pairs]
    )
    assert_near(got.last, {name: wanted[-1][name] for name in NAMES}, 1e-3, 1e-4)
    each = [{name: step[name] for name in NAMES} for step in got.steps]
    for name in NAMES:
        assert_near(
            got.last,
            {f"{name}/ExponentialMovingAverage": moving_average([step[name] for step in each], 0.5)},
            1e-5,
            1e-6,
        )
    assert_towers_same(got.last, 3, NAMES)


def _clipped_by_every_builder(make: Callable[[], Any], towers: int, limit: float, **compare: Any) -> None:
    data = examples(4)
    got = trained(make, Net(lambda: apply_grad_processors(adam(), [GlobalNormClip(limit)])), shares(data, towers), 4)

    def clip(pairs: Any) -> Any:
        gradients, variables = zip(*pairs, strict=True)
        return list(zip(tf.clip_by_global_norm(gradients, limit)[0], variables, strict=True))

    wanted = plain(data, adam, change=clip)[-1]
    assert_near(got.last, {name: wanted[name] for name in NAMES}, **compare)


def clipping_with_rows_on_one_tower() -> None:
    _clipped_by_every_builder(SimpleTrainer, 1, 0.05)


def clipping_with_rows_on_replicated_towers() -> None:
    _clipped_by_every_builder(replicated(3), 3, 0.05)


def clipping_with_rows_on_a_ring_of_towers() -> None:
    _clipped_by_every_builder(replicated(3, mode="xring"), 3, 0.05)


def clipping_with_rows_on_hierarchical_towers() -> None:
    _clipped_by_every_builder(lambda: SyncMultiGPUTrainerHierarchical(4), 4, 0.05)


def clipping_with_rows_on_towers_that_share() -> None:
    _clipped_by_every_builder(lambda: SyncMultiGPUTrainerParameterServer(3), 3, 0.05)


def clipping_with_rows_under_a_strategy() -> None:
    _clipped_by_every_builder(lambda: StrategyTrainer(mirrored(2)), 2, 0.05)


def clipping_with_rows_by_collectives() -> None:
    _clipped_by_every_builder(replicated(2, mode="collective"), 2, 0.05)


def clipping_with_rows_on_one_asynchronous_tower() -> None:
    _clipped_by_every_builder(lambda: AsyncMultiGPUTrainer(1), 1, 0.05)


def clipping_with_rows_made_dense() -> None:
    _clipped_by_every_builder(replicated(3, mode=DensifyReducer(RoundRobinReducer())), 3, 0.05)


def clipping_inside_accumulation_on_two_towers() -> None:
    data = examples(6)

    def inner() -> Any:
        return AccumGradOptimizer(apply_grad_processors(adam(), [GlobalNormClip(0.05)]), 3)

    got = trained(replicated(2), Net(inner), shares(data, 2), 6)

    def clip(pairs: Any) -> Any:
        # The sum of several steps has each row once.
        gradients = [tf.convert_to_tensor(gradient) for gradient, _ in pairs]
        clipped = tf.clip_by_global_norm(gradients, 0.05)[0]
        return [(gradient, variable) for gradient, (_, variable) in zip(clipped, pairs, strict=True)]

    wanted = plain(joined(data, 3), adam, change=clip)[-1]
    assert_near(got.last, {name: wanted[name] for name in NAMES})


def scaled_gradients_accumulated_with_momentum_on_shared_variables() -> None:
    data = examples(6)

    def scaled() -> Any:
        inner = AccumGradOptimizer(tf.train.MomentumOptimizer(0.1, 0.9), 2)
        return apply_grad_processors(inner, [ScaleGradient([("dense/.*", 3.0), ("table", 0.0)])])

    got = trained(lambda: SyncMultiGPUTrainerParameterServer(3), Net(scaled), shares(data, 3), 6)

    def change(pairs: Any) -> Any:
        return [
            (gradient * 3.0 if variable.op.name.startswith("dense") else gradient, variable)
            for gradient, variable in pairs
            if variable.op.name != "table"
        ]

    wanted = plain(joined(data, 2), lambda: tf.train.MomentumOptimizer(0.1, 0.9), change=change)[-1]
    assert_near(got.last, {name: wanted[name] for name in NAMES})


def adamw_with_rows_and_accumulation_on_two_towers() -> None:
    data = examples(4)
    got = trained(
        replicated(2), Net(lambda: AccumGradOptimizer(AdamW(0.05, 0.1, no_decay="/b$"), 2)), shares(data, 2), 4
    )
    wanted = _adamw(joined(data, 2), 0.05, 0.1)
    # TensorFlow keeps the powers of Adam's betas in 24 bits.
    assert_near(got.last, wanted, 1e-5, 1e-6)


def _adamw(batches: Any, rate: float, decay: float) -> dict[str, np.ndarray]:
    """AdamW in numpy on gradients of plain TensorFlow."""
    with tf.Graph().as_default(), tf.Session(config=unchanged()) as session:
        inputs = [tf.placeholder(each.dtype, [None, *each.shape[1:]]) for each in batches[0]]
        cost = net(*inputs)
        variables = tf.trainable_variables()
        gradients = [tf.convert_to_tensor(each) for each in tf.gradients(cost, variables)]
        session.run(tf.global_variables_initializer())
        values = {each.op.name: session.run(each) for each in variables}
        slots = {name: [np.zeros_like(value), np.zeros_like(value)] for name, value in values.items()}
        for step, batch in enumerate(batches, 1):
            for variable in variables:
                variable.load(values[variable.op.name], session)
            found = session.run(gradients, dict(zip(inputs, batch, strict=True)))
            for name, gradient in zip(values, found, strict=True):
                m, v = slots[name]
                m += (1 - 0.9) * (gradient - m)
                v += (1 - 0.999) * (gradient**2 - v)
                change = m * np.sqrt(1 - 0.999**step) / (1 - 0.9**step) / (np.sqrt(v) + 1e-8)
                values[name] = values[name] - rate * change - rate * (0 if name == "dense/b" else decay) * values[name]
        return values


def weights_kept_small_with_averages_on_replicated_towers() -> None:
    data = examples(5)
    got = trained(
        replicated(2),
        Net(lambda: VariableAssignmentOptimizer(adam(), lambda each: tf.clip_by_value(each, -0.2, 0.2))),
        shares(data, 2),
        5,
        EMA(0.8),
        SWA(2),
    )
    with tf.Graph().as_default(), tf.Session(config=unchanged()) as session:
        inputs = [tf.placeholder(each.dtype, [None, *each.shape[1:]]) for each in data[0]]
        train = adam().minimize(net(*inputs))
        variables = tf.trainable_variables()
        session.run(tf.global_variables_initializer())
        steps = []
        for batch in data:
            session.run(train, dict(zip(inputs, batch, strict=True)))
            for variable in variables:
                variable.load(np.clip(session.run(variable), -0.2, 0.2), session)
            steps.append({each.op.name: session.run(each) for each in variables})
    assert_near(got.last, steps[-1])
    for name in NAMES:
        assert_near(got.last, {f"{name}/ExponentialMovingAverage": moving_average([step[name] for step in steps], 0.8)})
        assert_near(got.last, {f"{name}/SWA": np.mean([step[name] for step in steps[1:]], 0)})


def regularizers_on_towers_that_share_and_that_do_not() -> None:
    def cost(*inputs: Any) -> Any:
        return net(*inputs) + regularize_cost("W$", lambda each: tf.cast(tf.nn.l2_loss(each), tf.float64) * 0.1)

    def wanted_cost(*inputs: Any) -> Any:
        loss = net(*inputs)
        return loss + 0.1 * sum(tf.nn.l2_loss(each) for each in tf.trainable_variables() if each.op.name.endswith("W"))

    data = examples(4)
    wanted = plain(data, adam, wanted_cost)[-1]
    for make in (replicated(3), lambda: SyncMultiGPUTrainerParameterServer(3), lambda: StrategyTrainer(mirrored(3))):
        got = trained(make, Net(adam, cost), shares(data, 3), 4)
        assert_near(got.last, {name: wanted[name] for name in NAMES})


def branching(x: Any, ids: Any, y: Any) -> Any:
    """Return a cost whose variables are made and read in a branch and a loop."""
    scale, turn = weight("scale", 4), weight("turn", 4, 4)
    x = tf.cond(tf.reduce_sum(x) > -1e9, lambda: x * scale, lambda: x - scale)
    turns = tf.while_loop(lambda i, _: i < 3, lambda i, h: (i + 1, tf.tanh(h @ turn)), (0, x))
    return net(turns[1], ids, y)


def branches_and_loops_on_copied_towers() -> None:
    data = examples(4)
    wanted = plain(data, adam, branching)[-1]
    wanted = {name: wanted[name] for name in (*NAMES, "scale", "turn")}
    for make in (
        replicated(4, tower_building="copy"),
        replicated(4, tower_building="build"),
        lambda: SyncMultiGPUTrainerParameterServer(4, tower_building="copy"),
    ):
        got = trained(make, Net(adam, branching), shares(data, 4), 4)
        assert_near(got.last, wanted)


def branches_and_loops_in_several_steps_a_call() -> None:
    data = examples(6)
    wanted = plain(data, adam, branching)[-1]
    for executor in ("pool", "caller"):

        def make(executor: str = executor) -> Any:
            trainer = SyncMultiGPUTrainerReplicated(3, tower_building="copy")
            trainer.executor = executor
            return trainer

        got = trained(make, Net(adam, branching), shares(data, 3), 6, steps_per_epoch=6, steps_per_call=4)
        assert_near(got.last, {name: wanted[name] for name in (*NAMES, "scale", "turn")})


def _branch_by_tower(x: Any, ids: Any, y: Any) -> Any:
    """Return a cost that takes another branch in some towers."""
    scale = weight("scale", 4)
    x = tf.cond(tf.reduce_sum(x) > 0, lambda: x * scale, lambda: x - scale)
    return net(x, ids, y)


def towers_that_take_different_branches() -> None:
    data = examples(4)

    def parts(x: Any, ids: Any, y: Any) -> Any:
        costs = []
        for part in zip(*(tf.split(each, 3) for each in (x, ids, y)), strict=True):
            with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
                costs.append(_branch_by_tower(*part))
        return tf.add_n(costs) / 3

    wanted = plain(data, adam, parts)[-1]
    for make in (replicated(3, tower_building="copy"), lambda: StrategyTrainer(mirrored(3))):
        got = trained(make, Net(adam, _branch_by_tower), shares(data, 3), 4)
        assert_near(got.last, {name: wanted[name] for name in (*NAMES, "scale")})


def scheduled() -> Any:
    return tf.train.MomentumOptimizer(
        tf.get_variable("rate", initializer=np.float64(0.5), trainable=False), np.float64(0.9)
    )


def by_schedule(data: Any, rates: Any) -> dict[str, np.ndarray]:
    """Return the weights after steps of momentum at other rates, in plain TensorFlow."""
    with tf.Graph().as_default(), tf.Session(config=unchanged()) as session:
        inputs = [tf.placeholder(each.dtype, [None, *each.shape[1:]]) for each in data[0]]
        rate = tf.placeholder(tf.float64, [])
        train = tf.train.MomentumOptimizer(rate, np.float64(0.9)).minimize(net(*inputs))
        session.run(tf.global_variables_initializer())
        for batch, value in zip(data, rates, strict=True):
            session.run(train, {**dict(zip(inputs, batch, strict=True)), rate: value})
        return {each.op.name: session.run(each) for each in tf.trainable_variables()}


def schedules_of_steps_in_several_steps_a_call() -> None:
    data = examples(12)
    setter = ScheduledHyperParamSetter("rate", [(0, 0.01), (5, 0.06), (9, 0.02)], "linear", step_based=True)
    points = np.interp(np.arange(12), [0, 5, 9], [0.01, 0.06, 0.02])
    wanted = by_schedule(data, points)
    for calls in (1, 5):
        setter = ScheduledHyperParamSetter("rate", [(0, 0.01), (5, 0.06), (9, 0.02)], "linear", step_based=True)
        got = trained(
            replicated(2), Net(scheduled), shares(data, 2), 12, setter, steps_per_epoch=6, steps_per_call=calls
        )
        assert_near(got.last, wanted, 1e-7, 1e-9)


def averages_accumulation_and_several_steps_a_call() -> None:
    data = examples(8)
    got = trained(
        replicated(2),
        Net(lambda: AccumGradOptimizer(adam(), 2)),
        shares(data, 2),
        8,
        EMA(0.7),
        SWA(1, every_steps=3),
        steps_per_epoch=8,
        steps_per_call=5,
    )
    wanted = plain(joined(data, 2), adam)
    assert_near(got.last, {name: wanted[-1][name] for name in NAMES})
    with_start = [_first(), *wanted]
    each = [with_start[(step + 1) // 2] for step in range(8)]
    for name in NAMES:
        assert_near(got.last, {f"{name}/ExponentialMovingAverage": moving_average([step[name] for step in each], 0.7)})
        assert_near(got.last, {f"{name}/SWA": np.mean([each[2][name], each[5][name]], 0)})


def _first() -> dict[str, np.ndarray]:
    with tf.Graph().as_default(), tf.Session() as session:
        net(*(tf.constant(each) for each in examples(1)[0]))
        session.run(tf.global_variables_initializer())
        return {each.op.name: session.run(each) for each in tf.global_variables()}


def compiled_accumulation_on_two_towers() -> None:
    data = examples(4)
    got = trained(
        lambda: SyncMultiGPUTrainerReplicated(2, compile="xla"),
        Net(lambda: AccumGradOptimizer(adam(), 2)),
        shares(data, 2),
        4,
        EMA(0.5),
    )
    wanted = plain(joined(data, 2), adam)
    assert_near(got.last, {name: wanted[-1][name] for name in NAMES})


def gradients_in_16_bits_with_rows_and_accumulation() -> None:
    data = examples(4)
    trainer = replicated(2, mode=WireDtypeReducer(RoundRobinReducer(), "bfloat16"))
    got = trained(
        trainer, Net(lambda: AccumGradOptimizer(tf.train.GradientDescentOptimizer(0.1), 2)), shares(data, 2), 4
    )
    wanted = plain(joined(data, 2), lambda: tf.train.GradientDescentOptimizer(0.1))
    assert_near(got.last, {name: wanted[-1][name] for name in NAMES}, 1e-2, 2e-3)
    assert_towers_same(got.last, 2, NAMES)
