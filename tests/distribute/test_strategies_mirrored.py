"""The mirrored strategy: devices, towers and their variables, meetings in meetings, and what happens on errors."""

import threading
import traceback

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import MEAN, ON_READ, SUM, devices_of, in_scope, mirrored, started, tower_number, values
from tpack.distribute.contexts import get_distribution_strategy, get_tower_context
from tpack.distribute.cross_tower_ops import ReductionToOneDeviceCrossTowerOps
from tpack.distribute.strategies import MirroredStrategy
from tpack.distribute.values import PerDevice
from tpack.errors import ConfigError, DeviceError, TowerMismatchError
from tpack.tower.context import current_tower_context, get_current_tower_context


@pytest.fixture(autouse=True)
def no_thread_left():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) - before == set()


# Devices.


def test_devices_are_named_or_counted(monkeypatch):
    monkeypatch.setattr("tpack.tower.devices.list_gpus", lambda: [])
    monkeypatch.setattr("tpack.distribute.strategies.list_gpus", lambda: [])
    assert MirroredStrategy(["/gpu:2", "/cpu:0"]).worker_devices == ["/device:CPU:2", "/device:CPU:0"]
    assert MirroredStrategy(["/gpu:0", "/cpu:0"]).worker_devices == ["/device:CPU:1", "/device:CPU:0"]
    assert MirroredStrategy(num_gpus=3).worker_devices == devices_of(3)
    assert MirroredStrategy(num_gpus_per_worker=3).worker_devices == devices_of(3)
    assert MirroredStrategy(num_gpus=0).worker_devices == ["/device:CPU:0"]
    assert MirroredStrategy().worker_devices == ["/device:CPU:0"]
    assert repr(mirrored()) == "<MirroredStrategy on /device:CPU:0, /device:CPU:1>"


def test_without_arguments_all_gpus_are_used(monkeypatch):
    gpus = ["/device:GPU:0", "/device:GPU:1"]
    monkeypatch.setattr("tpack.tower.devices.list_gpus", lambda: gpus)
    monkeypatch.setattr("tpack.distribute.strategies.list_gpus", lambda: gpus)
    assert MirroredStrategy().worker_devices == gpus
    with pytest.raises(DeviceError, match="there is no GPU 7"):
        MirroredStrategy(["/gpu:7"])


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"devices": ["/cpu:0"], "num_gpus": 1}, "got devices=.* and num_gpus=1: expected one of them"),
        ({"devices": []}, "got devices with 0 entries"),
        ({"devices": ["/cpu:0", "/device:CPU:0"]}, "got devices=.*: expected a list of one or more different devices"),
        ({"num_gpus": -1}, "an integer of at least 0"),
        ({"num_gpus": 1, "num_gpus_per_worker": 1}, "got num_gpus=1 and num_gpus_per_worker=1: expected one of them"),
    ],
)
def test_devices_that_cannot_be_are_errors(options, what):
    with pytest.raises(ConfigError, match=what):
        MirroredStrategy(**options)


# Towers.


def test_names_of_the_first_tower_have_no_prefix_and_variables_none_at_all(graph):
    def tower():
        with tf.variable_scope("layer"):
            weight = tf.get_variable("w", [2])
            bias = tf.Variable(tf.zeros([2]), name="b")
            return tf.add(weight, bias, name="sum"), weight, bias

    with tf.name_scope("outer"), in_scope() as strategy:
        sums, weight, bias = strategy.call_for_each_tower(tower)
        names = [part.op.name for part in strategy.unwrap(sums)]
    assert names == ["outer/layer/sum", "outer/tower1/layer/sum"]
    assert tf.global_variables() == tf.trainable_variables() == [weight, bias]
    assert [v.op.name for v in tf.global_variables()] == ["layer/w", "outer/layer/b"]


def test_variables_of_every_kind_are_shared_by_all_towers(graph):
    def tower():
        with tf.variable_scope(None, default_name="block"):
            made = [tf.get_variable("v", []), tf.Variable(1.0, name="v"), tf.Variable(1.0, name="v")]
            made.append(tf.Variable(1.0, name="n", collections=[tf.GraphKeys.LOCAL_VARIABLES], trainable=False))
        made.append(tf.keras.layers.Dense(1, name="dense")(tf.ones([1, 2])))
        return made[:-1]

    with in_scope(4) as strategy:
        first = strategy.call_for_each_tower(tower)
        with tf.variable_scope("second"):
            second = strategy.call_for_each_tower(tower)
    assert not any(isinstance(variable, PerDevice) for variable in [*first, *second])
    # A second call makes variables of its own, as it does without a strategy.
    assert not set(map(id, first)) & set(map(id, second))
    assert len(tf.trainable_variables()) == 2 * (3 + 2)


def test_a_variable_that_the_first_tower_lacks_is_an_error(graph):
    def get():
        return tf.get_variable(f"v{get_tower_context().tower_id}", [])

    def make():
        return tf.Variable(1.0, name=f"v{get_tower_context().tower_id}")

    with in_scope() as strategy:
        for tower in (get, make):
            with pytest.raises(TowerMismatchError, match="'v1'.*which the main training tower did not"):
                strategy.call_for_each_tower(tower)


def test_layers_of_keras_are_trained(session8):
    def tower():
        layer = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
        loss = tf.reduce_sum(layer(tf.fill([1, 2], tower_number())))
        (variable,) = layer.trainable_weights
        return tf.gradients(loss, variable.value)[0]

    with in_scope() as strategy:
        gradients = strategy.call_for_each_tower(tower)
    assert [v.ravel().tolist() for v in values(started(session8), gradients)] == [[1.0, 1.0], [2.0, 2.0]]


def test_losses_belong_to_towers_and_updates_of_all_are_kept(graph):
    def tower():
        tf.losses.add_loss(tf.constant(1.0))
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.no_op())
        tf.summary.scalar("s", 1.0)
        assert len(tf.losses.get_losses()) == 1
        assert current_tower_context().is_training
        assert current_tower_context().updates_variables

    with in_scope(3) as strategy:
        strategy.call_for_each_tower(tower)
    assert len(tf.losses.get_losses()) == 1
    assert [op.device for op in tf.get_collection(tf.GraphKeys.UPDATE_OPS)] == devices_of(3)
    assert len(tf.get_collection(tf.GraphKeys.SUMMARIES)) == 1


def test_each_tower_gets_its_elements_of_one_dataset(session8):
    with in_scope(3) as strategy:
        batch = strategy.distribute_dataset(lambda: tf.data.Dataset.range(6)).make_one_shot_iterator().get_next()
        doubled = strategy.call_for_each_tower(lambda x: x * 2, batch)
    assert [values(session8, doubled) for _ in range(2)] == [[0, 2, 4], [6, 8, 10]]


def test_values_of_towers_come_together_by_their_structure(graph):
    same = tf.constant(1.0)

    def tower():
        number = get_tower_context().tower_id
        return {"own": number, "same": same, "variable": tf.get_variable("v", []), "nested": [(number, None)]}

    with in_scope() as strategy:
        result = strategy.call_for_each_tower(tower)
        assert strategy.unwrap(result["own"]) == strategy.unwrap(result["nested"][0][0]) == [0, 1]
    assert result["same"] is same
    assert result["nested"][0][1] is None
    assert result["variable"] is tf.global_variables()[0]


def test_one_device_is_a_strategy_too(session8):
    def tower():
        variable = tf.get_variable("v", [], initializer=tf.zeros_initializer(), aggregation=SUM)
        total = get_tower_context().merge_call(lambda s, x: s.reduce(SUM, x), tf.constant(2.0))
        return variable.assign_add(total)

    with in_scope(1) as strategy:
        updated = strategy.call_for_each_tower(tower)
        assert strategy.worker_device_index == 0
        assert strategy.is_single_tower
    assert started(session8).run(updated) == 2.0


# Meetings in meetings, errors, threads.


def nested(depth):
    """Return a tower function that meets, calls for each tower from there, and meets again, so many levels deep."""

    def merge(strategy, x):
        total = strategy.reduce(SUM, x)
        return strategy.call_for_each_tower(nested(depth - 1), total) if depth > 1 else total

    def tower(x):
        scale = tf.get_variable(f"scale{depth}", [], initializer=tf.ones_initializer())
        local = tf.get_variable(
            f"local{depth}", [], initializer=tf.ones_initializer(), synchronization=ON_READ, aggregation=MEAN
        )
        for _ in range(2):
            x = get_tower_context().merge_call(merge, x * scale * local)
        tf.add_to_collection(f"depth{depth}", x)
        return x

    return tower


def test_towers_that_meet_can_call_for_each_tower_and_meet_again(session8):
    with in_scope(3) as strategy, tf.variable_scope("", reuse=tf.AUTO_REUSE):
        ones = strategy.broadcast(tf.constant(1.0))
        result = strategy.call_for_each_tower(nested(3), ones)
    # Towers meet twice; a meeting multiplies by 3, and by what the towers do that it calls.
    innermost = 3.0**2
    middle = (3.0 * innermost) ** 2
    assert values(started(session8), result) == [(3.0 * middle) ** 2] * 3
    assert len(tf.global_variables()) == 6


def meet_in_meeting(error=None):
    """Build towers that meet, and call for each tower where they meet; raise an error after it."""

    def inner(x):
        return get_tower_context().merge_call(lambda strategy, y: strategy.unwrap(y)[0], x + 1)

    def merge(strategy, x):
        result = strategy.call_for_each_tower(inner, x)
        if error is not None:
            raise error
        return result

    return get_tower_context().merge_call(merge, tf.constant(get_tower_context().tower_id))


def test_two_hundred_builds_with_nested_meetings_hang_nowhere_and_leave_no_thread():
    threads = set(threading.enumerate())
    sizes = set()
    for build in range(200):
        with tf.Graph().as_default() as graph, in_scope(8) as strategy:
            if build % 4 == 3:
                with pytest.raises(KeyError):
                    strategy.call_for_each_tower(meet_in_meeting, KeyError("an error"))
            else:
                strategy.call_for_each_tower(meet_in_meeting)
                sizes.add(len(graph.get_operations()))
        assert set(threading.enumerate()) == threads
    assert len(sizes) == 1


def test_an_error_in_one_tower_has_its_own_traceback(graph):
    def break_down(number):
        if number == 2:
            raise KeyError("tower 2")

    def tower():
        break_down(get_tower_context().tower_id)
        get_tower_context().merge_call(lambda strategy: None)

    with in_scope(4) as strategy, pytest.raises(KeyError, match="tower 2") as caught:
        strategy.call_for_each_tower(tower)
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "break_down"
    assert get_current_tower_context() is None


def test_an_error_where_towers_meet_ends_all_of_them(graph):
    left = []

    def merge(strategy):
        raise KeyError("merging")

    def tower():
        try:
            get_tower_context().merge_call(merge)
        finally:
            left.append(get_tower_context().tower_id)

    with in_scope(3) as strategy, pytest.raises(KeyError, match="merging"):
        strategy.call_for_each_tower(tower)
    assert sorted(left) == [0, 1, 2]


def test_strategies_in_different_threads_do_not_meet():
    results = {}

    def build(num_towers):
        with tf.Graph().as_default(), in_scope(num_towers) as strategy:
            for _ in range(5):
                total = strategy.call_for_each_tower(
                    lambda: get_tower_context().merge_call(
                        lambda s, x: (get_distribution_strategy() is s, sum(s.unwrap(x))), get_tower_context().tower_id
                    )
                )
            results[num_towers] = total

    workers = [threading.Thread(target=build, args=(k,)) for k in (2, 3, 4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == {2: (True, 1), 3: (True, 3), 4: (True, 6)}


def test_two_builds_give_the_same_graph():
    def build():
        with tf.Graph().as_default() as graph, in_scope(4) as strategy, tf.variable_scope("", reuse=tf.AUTO_REUSE):
            strategy.call_for_each_tower(nested(2), strategy.broadcast(tf.constant(1.0)))
            return graph.as_graph_def()

    assert build() == build()


def test_a_loop_by_hand_gives_the_weights_of_one_big_batch(session8, rng):
    data = rng.normal(size=(5, 8, 3)).astype(np.float32)

    def tower(x):
        weight = tf.get_variable("w", [3, 1], initializer=tf.ones_initializer())
        loss = tf.reduce_mean((tf.matmul(x, weight) - 1) ** 2)
        (gradient,) = tf.gradients(loss, weight)

        def merge(strategy, gradient, variable):
            mean = strategy.reduce(MEAN, gradient, variable)
            return strategy.group(strategy.update(variable, lambda mirror, g: mirror.assign_sub(0.1 * g), mean))

        return get_tower_context().merge_call(merge, gradient, weight)

    with in_scope(4) as strategy:
        dataset = tf.data.Dataset.from_tensor_slices(data.reshape(5 * 4, 2, 3))
        batch = strategy.distribute_dataset(lambda: dataset).make_one_shot_iterator().get_next()
        train = strategy.call_for_each_tower(tower, batch)
    started(session8)
    wanted = np.ones([3, 1], np.float64)
    for step in data:
        session8.run(train)
        wanted -= 0.1 * 2 * step.T @ (step @ wanted - 1) / len(step)
    mirrors = session8.run(tf.global_variables()[0].components)
    np.testing.assert_allclose(mirrors[0], wanted, rtol=1e-5)
    assert all(mirror.tobytes() == mirrors[0].tobytes() for mirror in mirrors)


def test_cross_tower_ops_are_chosen_when_they_are_needed_for_the_session(graph, monkeypatch):
    asked = []
    chosen = ReductionToOneDeviceCrossTowerOps()

    def choose(devices, session_config):
        asked.append((devices, session_config))
        return chosen

    monkeypatch.setattr("tpack.distribute.strategies.choose_the_best", choose)
    strategy = MirroredStrategy(devices_of(2))
    config = tf.ConfigProto(allow_soft_placement=True)
    strategy.configure(config)
    assert asked == []
    assert strategy.cross_tower_ops is strategy.cross_tower_ops is chosen
    assert asked == [(devices_of(2), config)]
    own = ReductionToOneDeviceCrossTowerOps()
    assert MirroredStrategy(devices_of(2), cross_tower_ops=own).cross_tower_ops is own
