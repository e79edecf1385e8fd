import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.builders import run_steps
from tpack.errors import GraphBuildError
from tpack.graph_builder.loss_scale import DynamicLossScale, LossScaleOptimizer
from tpack.graph_builder.precision import LossScaling
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.sharded import ShardedReplicatedBuilder, choose_owners
from tpack.optimizers import LAMB, LARS, AdamW, Lion
from tpack.tfutils.dependency import ancestors
from tpack.tfutils.gradproc import GlobalNormClip
from tpack.tfutils.optimizer import AccumGradOptimizer, VariableAssignmentOptimizer, apply_grad_processors
from tpack.tower.context import current_tower_context

OPTIMIZERS = {
    "SGD": lambda: tf.train.GradientDescentOptimizer(0.1),
    "Momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "Adam": lambda: tf.train.AdamOptimizer(0.1),
    "RMSProp": lambda: tf.train.RMSPropOptimizer(0.1, centered=True),
    "Adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "AdamW": lambda: AdamW(0.1, weight_decay=0.01),
    "LAMB": lambda: LAMB(0.1),
    "LARS": lambda: LARS(0.1),
    "Lion": lambda: Lion(0.1),
    "clipped": lambda: apply_grad_processors(tf.train.AdamOptimizer(0.1), [GlobalNormClip(0.5)]),
    "accumulated": lambda: AccumGradOptimizer(tf.train.MomentumOptimizer(0.1, 0.9), 2),
    "assigned": lambda: VariableAssignmentOptimizer(tf.train.AdamOptimizer(0.1), lambda v: tf.clip_by_value(v, -1, 1)),
}


def values_by_name(session):
    variables = {v.op.name: v for v in tf.global_variables()}
    return session.run(variables)


def grad_fn():
    """Return gradients that differ between towers and steps, of weights of several sizes and of rows of a table."""
    shapes = {"a": [5, 3], "b": [3], "c": [7], "table": [6, 2], "d": [2, 2]}
    weights = [
        tf.get_variable(name, shape, initializer=tf.random_normal_initializer(seed=n))
        for n, (name, shape) in enumerate(shapes.items())
    ]
    steps = tf.get_variable("batches", [], initializer=tf.zeros_initializer(), trainable=False)
    number = steps.assign_add(1.0) + current_tower_context().index
    rows = tf.gather(weights[3], [1, 3, 1])
    cost = tf.add_n([tf.reduce_sum(tf.sin(number * weight)) for n, weight in enumerate(weights) if n != 3])
    cost += tf.reduce_sum(rows * rows) * number
    return list(zip(tf.gradients(cost, weights), weights, strict=True))


def trained(builder, make_optimizer, num_steps=5):
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        optimizer = make_optimizer()
        result = builder.build(grad_fn, lambda: optimizer)
        with run_steps(result, num_steps) as session:
            replicas = [session.run(list(column)) for column in zip(*result.variables, strict=True)]
            return values_by_name(session), replicas, {v.op.name: v.device for v in tf.global_variables()}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_sharded_state_gives_the_weights_and_slots_of_replicated_state(name):
    expected, _, places = trained(SyncMultiGPUReplicatedBuilder(3), OPTIMIZERS[name])
    actual, replicas, own_places = trained(ShardedReplicatedBuilder(3), OPTIMIZERS[name])
    assert actual.keys() == expected.keys() == places.keys() == own_places.keys()
    for key, value in expected.items():
        np.testing.assert_array_equal(actual[key], value, err_msg=key)
    for column in replicas:
        for copy in column[1:]:
            np.testing.assert_array_equal(copy, column[0])


def test_what_follows_an_update_waits_for_all_gradients_of_its_tower(graph):
    gradients, clipped = [], []

    def noted():
        pairs = grad_fn()
        gradients.append([gradient for gradient, _ in pairs])
        return pairs

    def clip(variable):
        clipped.append((current_tower_context().index, tf.clip_by_value(variable.read_value(), -1, 1)))
        return clipped[-1][1]

    optimizer = VariableAssignmentOptimizer(tf.train.AdamOptimizer(0.1), clip)
    ShardedReplicatedBuilder(3).build(noted, lambda: optimizer)
    assert len(clipped) == 3 * 5
    for index, value in clipped:
        assert {gradient.op for gradient in gradients[index]} <= ancestors([value])


def test_a_skipped_step_of_a_scaled_cost_is_skipped_by_all_owners():
    def scaled():
        return LossScaleOptimizer(tf.train.AdamOptimizer(0.1), DynamicLossScale(LossScaling(initial=2.0)))

    def overflowing():
        pairs = grad_fn()
        steps = next(v for v in current_tower_context().recorder.variables if "batches" in v.op.name)
        bad = tf.where(tf.equal(steps.read_value() % 2.0, 0.0), np.float32(np.inf), np.float32(1.0))
        return [(pairs[0][0] * bad, pairs[0][1]), *pairs[1:]]

    values = []
    for builder in (SyncMultiGPUReplicatedBuilder(3), ShardedReplicatedBuilder(3)):
        with tf.Graph().as_default():
            tf.set_random_seed(1)
            optimizer = scaled()
            result = builder.build(overflowing, lambda optimizer=optimizer: optimizer)
            with run_steps(result, 4) as session:
                values.append(values_by_name(session))
    assert values[0].keys() == values[1].keys()
    for key, value in values[0].items():
        np.testing.assert_array_equal(values[1][key], value, err_msg=key)


def test_all_slots_together_are_one_copy_and_lie_with_their_owners(graph):
    optimizer = tf.train.AdamOptimizer(0.1)
    result = ShardedReplicatedBuilder(3).build(grad_fn, lambda: optimizer)
    slots = [v for v in tf.global_variables() + tf.local_variables() if "/Adam" in v.op.name]
    trained_here = [v for v in tf.trainable_variables() if not v.op.name.startswith("tower")]
    assert sum(v.shape.num_elements() for v in slots) == 2 * sum(v.shape.num_elements() for v in trained_here)
    assert {v.op.name for v in slots} == {f"{v.op.name}/{slot}" for v in trained_here for slot in ("Adam", "Adam_1")}
    owners = dict(zip([v.op.name for v in trained_here], choose_owners(result.variables[0], 3), strict=True))
    assert {v.op.name: v.device for v in slots} == {
        f"{name}/{slot}": f"/device:CPU:{owner}" for name, owner in owners.items() for slot in ("Adam", "Adam_1")
    }
    assert set(owners.values()) == {0, 1, 2}


def test_a_checkpoint_of_replicated_state_goes_on_with_sharded_state():
    make = OPTIMIZERS["Adam"]
    expected, _, _ = trained(SyncMultiGPUReplicatedBuilder(3), make, 6)
    middle, _, _ = trained(SyncMultiGPUReplicatedBuilder(3), make, 3)
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        optimizer = make()
        result = ShardedReplicatedBuilder(3).build(grad_fn, lambda: optimizer)
        with run_steps(result, 0) as session:
            for variable in tf.global_variables():
                variable.load(middle[variable.op.name], session)
            session.run(result.sync_op.op)
            for _ in range(3):
                session.run(result.train_op)
            actual = values_by_name(session)
    for key, value in expected.items():
        np.testing.assert_array_equal(actual[key], value, err_msg=key)


def test_owners_are_the_least_loaded_and_the_largest_variables_go_first(graph):
    sizes = [1, 8, 4, 4, 2]
    variables = [tf.get_variable(f"v{n}", [size]) for n, size in enumerate(sizes)]
    assert choose_owners(variables, 2) == [1, 0, 1, 1, 0]
    assert choose_owners(variables[:1], 4) == [0]


def test_an_optimizer_with_other_variables_in_a_tower_is_refused(graph):
    class Odd(tf.train.GradientDescentOptimizer):
        def _resource_apply_dense(self, grad, handle):
            tf.Variable(0.0, trainable=False, name=f"seen_{current_tower_context().index}")
            return super()._resource_apply_dense(grad, handle)

    with pytest.raises(GraphBuildError, match="^shard_optimizer got an optimizer that makes .*seen_1"):
        ShardedReplicatedBuilder(2).build(grad_fn, lambda: Odd(0.1))
