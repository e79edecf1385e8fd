"""The two tables of the seed ``distribute``, rule by rule, for every strategy: localities, and contexts of methods."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import MEAN, ON_READ, SUM, devices_of, started, tower_number
from tpack.distribute.contexts import get_cross_tower_context, get_tower_context, get_update_device
from tpack.distribute.multi_device import MultiDeviceStrategy
from tpack.distribute.strategies import (
    CollectiveAllReduceStrategy,
    MirroredStrategy,
    OneDeviceStrategy,
    ParameterServerStrategy,
)
from tpack.distribute.trainer_strategy import TrainerTowersStrategy
from tpack.distribute.values import DistributedValues
from tpack.distribute.variables.distributed import DistributedVariable
from tpack.errors import StrategyError

ELSEWHERE = ["/device:CPU:7"]


class ElsewhereStrategy(MirroredStrategy):
    """Has its non-slot variables elsewhere, so that the locality N is neither M nor V(v)."""

    def non_slot_devices(self, var_list):
        return list(ELSEWHERE)


STRATEGIES = {
    "one device": lambda: OneDeviceStrategy("/cpu:2"),
    "mirrored on 3": lambda: MirroredStrategy(devices_of(3)),
    "non-slot elsewhere": lambda: ElsewhereStrategy(devices_of(2)),
    "parameter server": lambda: ParameterServerStrategy(devices=devices_of(3)),
    "collective": lambda: CollectiveAllReduceStrategy(devices=devices_of(2)),
}


@pytest.fixture(params=STRATEGIES.values(), ids=STRATEGIES)
def strategy(request, graph):
    with request.param().scope() as current:
        yield current


def places(value):
    """Return the devices of a variable or of a value's parts."""
    if isinstance(value, DistributedVariable):
        assert [component.device for component in value.components] == value.devices
        return value.devices
    return [part.device for part in value.index.values()] if isinstance(value, DistributedValues) else [value.device]


def made(name="v", **options):
    return tf.get_variable(name, [], initializer=tf.zeros_initializer(), **options)


def made_elsewhere(strategy, **options):
    """Return a variable v such that V(v) is not M."""
    with strategy.colocate_vars_with(ELSEWHERE[0]):
        return made("elsewhere", **options)


def in_both_contexts(strategy, build):
    """Return what is built across towers and in towers."""
    across = build()
    with tf.variable_scope("towers"):
        return across, strategy.call_for_each_tower(build)


def numbers(session, strategy, value):
    return session.run(strategy.unwrap(value))


# Localities: what each method takes and gives.


def test_scope_goes_from_the_default_tower_to_the_strategy_s_cross_tower_context(strategy):
    assert get_tower_context() is None
    assert get_cross_tower_context() is strategy


def test_variables_colocated_with_v_have_the_locality_of_v(strategy):
    v = made_elsewhere(strategy)

    def build():
        with strategy.colocate_vars_with(v):
            return made()

    for variable in in_both_contexts(strategy, build):
        assert places(variable) == places(v) == ELSEWHERE


def test_variables_colocated_with_non_slot_devices_have_the_locality_n(strategy):
    where = strategy.non_slot_devices([made()])

    def build():
        with strategy.colocate_vars_with(where):
            return made("non_slot")

    for variable in in_both_contexts(strategy, build):
        assert places(variable) == (where if isinstance(where, list) else places(where))


def test_variables_are_made_in_both_contexts_with_a_locality_of_their_own(strategy):
    for variable in in_both_contexts(strategy, made):
        assert set(places(variable)) <= set(strategy.parameter_devices)
        is_mirrored = isinstance(strategy, MirroredStrategy | CollectiveAllReduceStrategy)
        assert len(places(variable)) == (strategy.num_towers if is_mirrored else 1)


def test_a_dataset_s_iterator_gives_t(strategy, session8):
    element = strategy.distribute_dataset(lambda: tf.data.Dataset.range(9)).make_one_shot_iterator().get_next()
    count = strategy.num_towers
    assert places(element) == strategy.worker_devices
    assert [numbers(session8, strategy, element) for _ in range(2)] == [
        list(range(count)),
        list(range(count, 2 * count)),
    ]


def test_broadcast_gives_m_and_with_v_its_locality(strategy, session8):
    v = made_elsewhere(strategy)
    with tf.device(strategy.worker_devices[0]):
        tensor = tf.constant(5.0)
    mirrored, beside = strategy.broadcast(tensor), strategy.broadcast(tensor, v)
    assert places(mirrored) == strategy.worker_devices
    assert places(beside) == ELSEWHERE
    assert numbers(session8, strategy, mirrored) == [5.0] * strategy.num_towers
    assert numbers(session8, strategy, beside) == [5.0]


def test_towers_take_t_and_m_and_any_variable(strategy, session8):
    v, other = made(), made("other")
    own, same = strategy.call_for_each_tower(tower_number), strategy.broadcast(tf.constant(10.0))
    seen = []

    def tower(own, *, same, other):
        seen.append(get_tower_context().merge_call(lambda merging: get_cross_tower_context() is merging is strategy))
        assert (get_cross_tower_context(), get_tower_context().tower_id) == (None, len(seen) - 1)
        assert own.device == get_tower_context().device == strategy.worker_devices[get_tower_context().tower_id]
        return own + same + v + other

    result = strategy.call_for_each_tower(tower, own, same=same, other=other)
    assert seen == [True] * strategy.num_towers
    assert places(result) == strategy.worker_devices
    assert numbers(started(session8), strategy, result) == [11.0 + k for k in range(strategy.num_towers)]


@pytest.mark.parametrize("aggregation", [SUM, MEAN])
def test_reduce_takes_t_and_gives_m_and_with_v_its_locality(strategy, session8, aggregation):
    v, count = made_elsewhere(strategy), strategy.num_towers
    own = strategy.call_for_each_tower(tower_number)
    total = count * (count + 1) / 2
    wanted = total if aggregation == SUM else total / count
    to_workers = [strategy.reduce(aggregation, own), strategy.batch_reduce(aggregation, [(own, None)])[0]]
    to_v = [strategy.reduce(aggregation, own, v), strategy.batch_reduce(aggregation, [(own, None), (own, v)])[1]]
    for value in to_workers:
        assert places(value) == strategy.worker_devices
        assert numbers(session8, strategy, value) == [wanted] * count
    for value in to_v:
        assert places(value) == ELSEWHERE
        assert numbers(session8, strategy, value) == [wanted]


def test_update_takes_v_and_gives_v_once_for_each_device(strategy, session8):
    v = made()
    delta = strategy.broadcast(tf.constant(5.0), v)
    calls = []

    def update(component, x, *, scale):
        assert get_tower_context() is None
        calls.append(get_update_device())
        assert x.device == component.device == get_update_device()
        return component.assign_add(x * scale)

    updated = strategy.update(v, update, delta, scale=2.0)
    assert places(updated) == calls == places(v)
    assert numbers(started(session8), strategy, updated) == [10.0] * len(calls)
    assert session8.run(getattr(v, "components", [v])) == [10.0] * len(calls)


def test_update_non_slot_takes_n_and_gives_n_once_for_each_device(strategy, session8):
    where = strategy.non_slot_devices([made()])
    devices = where if isinstance(where, list) else places(where)
    number = strategy.broadcast(tf.constant(5.0), where)
    calls = []

    def update(x):
        calls.append(get_update_device())
        assert x.device == get_update_device()
        return x + 1

    updated = strategy.update_non_slot(where, update, number)
    assert places(updated) == calls == devices
    assert numbers(session8, strategy, updated) == [6.0] * len(devices)


def test_read_var_gives_the_value_on_the_device_of_the_current_scope(strategy, session8):
    v, count = made(), strategy.num_towers
    local = made("local", synchronization=ON_READ, aggregation=SUM)
    added = strategy.group(strategy.call_for_each_tower(lambda: local.assign_add(tower_number())))
    read = {}
    for device in (strategy.worker_devices[-1], *ELSEWHERE):
        with tf.device(device):
            read[device] = [strategy.read_var(v), strategy.read_var(local)]
        assert [tensor.device for tensor in read[device]] == [device] * 2
    in_towers = strategy.call_for_each_tower(lambda: (strategy.read_var(v), strategy.read_var(local)))
    assert [places(tensor) for tensor in in_towers] == [strategy.worker_devices] * 2
    started(session8).run([added, v.assign(4.0, read_value=False)])
    wanted = [4.0, count * (count + 1) / 2]
    assert session8.run(list(read.values())) == [wanted] * 2
    assert [numbers(session8, strategy, tensor) for tensor in in_towers] == [[number] * count for number in wanted]


# Contexts: where each method may be called.


def enter(block):
    with block:
        return "entered"


ACROSS_TOWERS_ONLY = {
    "scope": lambda s, v: enter(s.scope()),
    "distribute_dataset": lambda s, v: s.distribute_dataset(lambda: tf.data.Dataset.range(4)),
    "broadcast": lambda s, v: s.broadcast(tf.constant(1.0)),
    "call_for_each_tower": lambda s, v: s.call_for_each_tower(tower_number),
    "reduce": lambda s, v: s.reduce(SUM, tf.constant(1.0)),
    "batch_reduce": lambda s, v: s.batch_reduce(SUM, [(tf.constant(1.0), v)]),
    "update": lambda s, v: s.update(v, tf.identity),
    "update_non_slot": lambda s, v: s.update_non_slot(s.non_slot_devices([v]), tf.no_op),
    "unwrap": lambda s, v: s.unwrap(v),
    "group": lambda s, v: s.group(tf.no_op()),
    "worker_device_index": lambda s, v: s.worker_device_index,
}
EVERYWHERE_IN_SCOPE = {
    "colocate_vars_with": lambda s, v: enter(s.colocate_vars_with(v)),
    "get_variable": lambda s, v: made("another"),
    "read_var": lambda s, v: s.read_var(v),
    "non_slot_devices": lambda s, v: s.non_slot_devices([v]),
    "num_towers": lambda s, v: s.num_towers,
    "is_single_tower": lambda s, v: s.is_single_tower is not None,
    "worker_devices": lambda s, v: s.worker_devices,
    "parameter_devices": lambda s, v: s.parameter_devices,
}
IN_THE_TOWER_ONLY = {
    "merge_call": lambda c: c.merge_call(lambda strategy: "merged"),
    "is_single_tower": lambda c: c.is_single_tower is not None,
    "tower_id": lambda c: c.tower_id + 1,
    "device": lambda c: c.device,
}


@pytest.mark.parametrize("method", ACROSS_TOWERS_ONLY)
def test_methods_across_towers_work_there_and_are_refused_elsewhere(strategy, method):
    v, call = made(), ACROSS_TOWERS_ONLY[method]

    def merge(merging):
        assert call(merging, v) is not None

    def tower():
        with pytest.raises(StrategyError, match=r"requires being in cross-tower context.*merge_call\(\)"):
            call(strategy, v)
        get_tower_context().merge_call(merge)

    assert call(strategy, v) is not None
    strategy.call_for_each_tower(tower)


@pytest.mark.parametrize("kind", STRATEGIES)
@pytest.mark.parametrize("method", sorted(ACROSS_TOWERS_ONLY.keys() - {"scope", "distribute_dataset"}))
def test_methods_across_towers_are_refused_outside_and_under_another_strategy(graph, kind, method):
    one, call = STRATEGIES[kind](), ACROSS_TOWERS_ONLY[method]
    with one.scope():
        v = made()
    with pytest.raises(StrategyError, match='need to be inside "with distribution_strategy.scope'):
        call(one, v)
    with STRATEGIES[kind]().scope(), pytest.raises(StrategyError, match="mixing different DistributionStrategy obj"):
        call(one, v)


@pytest.mark.parametrize("method", EVERYWHERE_IN_SCOPE)
def test_other_methods_work_in_all_contexts(strategy, method):
    v, call = made(), EVERYWHERE_IN_SCOPE[method]
    counts = []

    def tower():
        counts.append(call(strategy, v) is not None)
        with tf.variable_scope("merged"):
            counts.append(get_tower_context().merge_call(lambda merging: call(merging, v) is not None))

    assert call(strategy, v) is not None
    with tf.variable_scope("towers"):
        strategy.call_for_each_tower(tower)
    assert counts == [True] * 2 * strategy.num_towers


@pytest.mark.parametrize("ask", IN_THE_TOWER_ONLY)
def test_a_tower_s_context_answers_in_the_tower_only(strategy, ask):
    contexts, call = [], IN_THE_TOWER_ONLY[ask]

    def refused(_=None):
        with pytest.raises(StrategyError, match="need to be inside `call_for_each_tower"):
            call(contexts[0])

    def tower():
        context = get_tower_context()
        contexts.append(context)
        assert call(context)
        assert (context.num_towers, context.distribution_strategy) == (strategy.num_towers, strategy)
        context.merge_call(refused)

    strategy.call_for_each_tower(tower)
    refused()
    assert contexts[0].num_towers == strategy.num_towers == len(contexts)


def test_the_strategies_are_all_that_have_a_list_of_devices():
    kinds = {type(make()) for make in STRATEGIES.values()}
    own = {kind for kind in MultiDeviceStrategy.__subclasses__() if kind.__module__.startswith("tpack.distribute")}
    assert own - kinds == {TrainerTowersStrategy}
