"""Values between the towers of a list of devices: the localities T, M, V and N of the seed's table."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import MEAN, ON_READ, SUM, devices_of, in_scope, started, tower_number, values
from tpack.distribute.contexts import get_update_device
from tpack.distribute.cross_tower_ops import ReductionToOneDeviceCrossTowerOps
from tpack.distribute.multi_device import MultiDeviceStrategy
from tpack.distribute.values import MapOutput, Mirrored, PerDevice
from tpack.errors import ConfigError, ReductionError, StrategyError

K = 3
V = ["/device:CPU:2", "/device:CPU:1"]


@pytest.fixture
def strategy(session8):
    with in_scope(K) as mirrored:
        yield mirrored


@pytest.fixture
def per_tower(strategy):
    """A value of locality T: 1, 2 and 3."""
    return strategy.call_for_each_tower(tower_number)


@pytest.fixture
def elsewhere(strategy):
    """A variable v on other devices than the towers, in another order, so that V(v) is not M."""
    with strategy.colocate_vars_with(V):
        return tf.get_variable("elsewhere", [], initializer=tf.zeros_initializer())


def assert_mirrored(session, value, devices, number):
    assert isinstance(value, Mirrored)
    assert value.devices == devices
    assert values(session, value) == [number] * len(devices)
    for device, tensor in value.index.items():
        assert tensor.device == device


def test_variables_have_the_locality_of_what_they_are_colocated_with(strategy, elsewhere):
    def tower():
        with strategy.colocate_vars_with(elsewhere):
            return tf.get_variable("in_tower", [])

    with strategy.colocate_vars_with(elsewhere):
        across = tf.get_variable("across", [])
    with strategy.colocate_vars_with(strategy.non_slot_devices([elsewhere])):
        non_slot = tf.get_variable("non_slot", [])
    assert elsewhere.devices == across.devices == V
    assert strategy.call_for_each_tower(tower).devices == V
    assert tf.get_variable("own", []).devices == non_slot.devices == devices_of(K)


def test_broadcast_gives_m_or_v(strategy, session8, elsewhere):
    tensor = tf.constant(5.0)
    assert_mirrored(session8, strategy.broadcast(tensor), devices_of(K), 5.0)
    assert_mirrored(session8, strategy.broadcast(tensor, elsewhere), V, 5.0)
    assert_mirrored(session8, strategy.broadcast(tensor, "/cpu:6"), ["/device:CPU:6"], 5.0)


@pytest.mark.parametrize(("aggregation", "number"), [(SUM, 6.0), (MEAN, 2.0)])
def test_reduce_takes_t_and_gives_m_or_v(strategy, session8, per_tower, elsewhere, aggregation, number):
    assert isinstance(per_tower, PerDevice)
    assert_mirrored(session8, strategy.reduce(aggregation, per_tower), devices_of(K), number)
    assert_mirrored(session8, strategy.reduce(aggregation, per_tower, elsewhere), V, number)
    pairs = [(per_tower, elsewhere), (per_tower, None), (per_tower, per_tower)]
    to_variable, to_workers, to_value = strategy.batch_reduce(aggregation, pairs)
    assert_mirrored(session8, to_variable, V, number)
    assert_mirrored(session8, to_workers, devices_of(K), number)
    assert_mirrored(session8, to_value, devices_of(K), number)


def test_reduce_refuses_m(strategy):
    mirrored = strategy.broadcast(tf.constant(1.0))
    for value in (mirrored, tf.get_variable("v", [])):
        with pytest.raises(StrategyError, match="expected a value that differs between towers"):
            strategy.reduce(SUM, value)


def test_what_is_the_same_for_all_towers_counts_once_for_each(strategy, session8):
    tensor = tf.constant(4.0)
    rows = tf.IndexedSlices(tf.ones([1, 1]), tf.constant([2]), tf.constant([3, 1]))
    assert_mirrored(session8, strategy.reduce(SUM, tensor), devices_of(K), 12.0)
    assert_mirrored(session8, strategy.reduce(MEAN, 4.0, "/cpu:1"), ["/device:CPU:1"], 4.0)
    total, mean = strategy.batch_reduce(SUM, [(rows, None), (0, "/cpu:1")])
    assert_mirrored(session8, mean, ["/device:CPU:1"], 0)
    np.testing.assert_array_equal(session8.run(total.get("/cpu:2")).values, [[3.0]])


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([1.0, 2.0], ConfigError, "reduce got the list .*: expected one value"),
        ((), ConfigError, "reduce got the tuple .*: expected one value"),
        (MapOutput([1.0]), ConfigError, "reduce got the MapOutput .*: expected one value"),
        (None, ConfigError, "got None: expected a tensor, IndexedSlices, a variable or a number"),
        (object(), ConfigError, "got <object.*: expected a tensor, IndexedSlices, a variable or a number"),
        ("text", ReductionError, "dtype string, which cannot be summed"),
        (True, ReductionError, "dtype bool, which cannot be summed"),
    ],
    ids=["list", "tuple", "MapOutput", "None", "object", "text", "bool"],
)
@pytest.mark.parametrize("num_towers", [1, 3])
def test_what_cannot_be_summed_is_refused(graph, value, error, message, num_towers):
    with in_scope(num_towers) as strategy, pytest.raises(error, match=message):
        strategy.reduce(SUM, value)


def test_pairs_can_be_any_iterable(strategy, session8, per_tower):
    (result,) = strategy.batch_reduce(SUM, zip([per_tower], ["/cpu:5"], strict=True))
    assert_mirrored(session8, result, ["/device:CPU:5"], 6.0)


def test_call_for_each_tower_takes_t_m_and_any_variable(strategy, session8, per_tower, elsewhere):
    variable = tf.get_variable("v", [], initializer=tf.ones_initializer())

    def tower(own, same, *, own_variable, other):
        assert own_variable is variable.get()
        return own + same + own_variable + other

    with pytest.raises(StrategyError, match="is not one of"):
        strategy.call_for_each_tower(lambda v: v, elsewhere)
    same = strategy.broadcast(tf.constant(10.0))
    result = strategy.call_for_each_tower(tower, per_tower, same, own_variable=variable, other=tf.constant(100.0))
    assert isinstance(result, PerDevice)
    assert values(started(session8), result) == [112.0, 113.0, 114.0]


def test_update_takes_v_and_gives_v(strategy, session8, per_tower, elsewhere):
    def update(mirror, delta, *, scale):
        assert get_update_device() == mirror.device
        return mirror.assign_add(delta * scale)

    delta, scale = strategy.reduce(SUM, per_tower, elsewhere), strategy.broadcast(tf.constant(10.0), elsewhere)
    updated = strategy.update(elsewhere, update, delta, scale=scale)
    assert isinstance(updated, Mirrored)
    assert updated.devices == V
    assert values(started(session8), updated) == [60.0, 60.0]
    assert session8.run(elsewhere.components) == [60.0, 60.0]
    with pytest.raises(StrategyError, match="expected mirrored values"):
        strategy.update(elsewhere, update, per_tower, scale=scale)
    with pytest.raises(StrategyError, match="is not one of"):
        strategy.update(elsewhere, update, strategy.broadcast(tf.constant(1.0), "/cpu:0"), scale=scale)


def test_update_of_a_plain_variable_is_where_it_is(session8):
    with tf.device("/cpu:5"):
        plain = tf.get_variable("plain", [], initializer=tf.zeros_initializer(), use_resource=True)
    with in_scope(K) as strategy:
        total = strategy.reduce(SUM, strategy.call_for_each_tower(tower_number), plain)
        updated = strategy.update(plain, tf.assign_add, total)
    assert updated.device == "/device:CPU:5"
    assert started(session8).run(updated) == 6.0


def test_update_of_variables_of_each_tower_takes_each(strategy, session8, per_tower):
    local = tf.get_variable("local", [], initializer=tf.zeros_initializer(), synchronization=ON_READ, aggregation=SUM)
    updated = strategy.update(local, tf.assign_add, strategy.reduce(SUM, per_tower))
    assert values(started(session8), updated) == [6.0] * K


def test_update_non_slot_takes_n_and_gives_n(strategy):
    where = strategy.non_slot_devices([])
    number = Mirrored({device: device for device in where})
    seen = strategy.update_non_slot(where, lambda n: (n, get_update_device(), tf.no_op()), number)
    assert [part.devices for part in seen] == [devices_of(K)] * 3
    for device in devices_of(K):
        assert [seen[0].get(device), seen[1].get(device), seen[2].get(device).device] == [device] * 3


def test_unwrap_gives_the_parts_in_the_order_of_the_devices(strategy, per_tower, elsewhere):
    assert strategy.unwrap(per_tower) == [per_tower.get(device) for device in devices_of(K)]
    assert strategy.unwrap(elsewhere) == elsewhere.components
    assert strategy.unwrap(7) == [7]


def test_the_index_of_a_tower_tells_its_device(strategy):
    def tower(number):
        assert strategy.worker_devices[number] == tf.no_op().device
        return number

    assert strategy.unwrap(strategy.call_for_each_tower(tower, strategy.worker_device_index)) == list(range(K))


def test_reading_a_variable_aggregates_what_is_local_to_towers_in_either_context(strategy, session8):
    def tower():
        local = tf.get_variable("n", [], synchronization=ON_READ, aggregation=SUM, initializer=tf.ones_initializer())
        plain = tf.get_variable("v", [], initializer=tf.ones_initializer())
        return strategy.read_var(local), strategy.read_var(plain)

    local, plain = strategy.call_for_each_tower(tower)
    across = [strategy.read_var(variable) for variable in tf.global_variables()]
    started(session8)
    assert (values(session8, local), values(session8, plain)) == ([3.0] * K, [1.0] * K)
    assert session8.run(across) == [3.0, 1.0]


class Fixed(MultiDeviceStrategy):
    worker_devices = ["/device:CPU:0", "/device:CPU:1"]


def test_cross_tower_ops_are_given_or_those_of_one_device(graph):
    strategy = Fixed()
    assert isinstance(strategy.cross_tower_ops, ReductionToOneDeviceCrossTowerOps)
    assert strategy.cross_tower_ops is strategy.cross_tower_ops
    own = ReductionToOneDeviceCrossTowerOps()
    assert Fixed(own).cross_tower_ops is own


def test_without_a_choice_there_is_one_for_the_devices(graph, session8):
    with Fixed().scope() as strategy:
        value = PerDevice({device: tf.constant(float(k)) for k, device in enumerate(strategy.worker_devices)})
        assert values(session8, strategy.reduce(SUM, value)) == [1.0, 1.0]
        assert (strategy.num_towers, strategy.is_single_tower) == (2, False)
