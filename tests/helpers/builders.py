"""A little model for tests of builders, and steps with what a builder made."""

from typing import Any

import tensorflow.compat.v1 as tf

from tests.helpers.partition_graphs import placed_devices
from tests.helpers.sessions import cpu_session
from tpack.tower.context import TrainTowerContext
from tpack.tower.names import tower_name


def grad_fn() -> Any:
    """Return the gradients of four weights, which are the weights themselves."""
    weights = [tf.get_variable(name, [8], initializer=tf.ones_initializer()) for name in "abcd"]
    cost = tf.add_n([tf.reduce_sum(weight * weight) for weight in weights], name="cost") / 2
    return list(zip(tf.gradients(cost, weights, colocate_gradients_with_ops=True), weights, strict=True))


def build(builder: Any, optimizer: Any = None) -> Any:
    """Build `grad_fn` with an optimizer, by default one with slots."""
    optimizer = optimizer or tf.train.MomentumOptimizer(0.1, 0.9)
    return builder.build(grad_fn, lambda: optimizer)


def run_steps(result: Any, num_steps: int) -> Any:
    """Return a session with four CPU devices, after as many steps."""
    session = cpu_session(num_cpus=4)
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    if result.init_op is not None:
        session.run(result.init_op)
    for _ in range(num_steps):
        session.run(result.train_op)
    return session


def places_of(builder: Any) -> dict[str, str]:
    """Return {op name: device} of a step as it really ran."""
    result = build(builder)
    with run_steps(result, 0) as session:
        return placed_devices(session, result.train_op)


def make_towers(num_towers: int, *, own_variables: bool) -> list[TrainTowerContext]:
    """Return training towers as a builder makes them."""
    return [
        TrainTowerContext(
            tower_name(k),
            tower_name(k) if own_variables and k else "",
            index=k,
            total=num_towers,
            device=f"/device:CPU:{k}",
            has_own_variables=own_variables,
            reuse=not own_variables and k > 0,
        )
        for k in range(num_towers)
    ]
