"""Flows in threads: arguments, that it is threads, and whose flows they iterate. See test_contract.py for the rest."""

import threading

import pytest

from tests.helpers.flows import COUNT, Counting, same
from tpack.dataflow.iterator_state import StatelessError
from tpack.dataflow.parallel.threads import MultiThreadMapData, MultiThreadRunner
from tpack.errors import ConfigError
from tpack.utils.env import usable_cores


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [((), {}, "map_func=None"), ((0, same), {}, "num_thread=0"), ((1, same), {"buffer_size": 0}, "buffer_size=0")],
)
def test_arguments_that_make_no_sense_are_refused(arguments, options, message):
    with pytest.raises(ConfigError, match=message):
        MultiThreadMapData(Counting(), *arguments, **options)


def test_there_is_a_thread_for_each_core():
    assert MultiThreadMapData(Counting(), map_func=same).num_thread == usable_cores()


@pytest.mark.parametrize("strict", [False, True])
def test_points_are_mapped_in_the_threads_at_the_same_time(strict):
    barrier = threading.Barrier(3)

    def meet(point):
        barrier.wait(30)
        return [threading.current_thread().name]

    ds = MultiThreadMapData(Counting(9), 3, meet, strict=strict, buffer_size=3)
    ds.reset_state()
    found = {name for (name,) in ds}
    assert found == {f"MultiThreadMapData-{k}" for k in range(3)}


def test_none_drops_a_point_in_order():
    ds = MultiThreadMapData(Counting(), 2, lambda point: point if point[0] % 2 else None, strict=True)
    ds.reset_state()
    assert [[k for k, _ in ds] for _ in range(2)] == [list(range(1, COUNT, 2))] * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Counting, 0, 1), "^MultiThreadRunner got num_prefetch="),
        ((Counting, 1, 0), "num_thread=0"),
        ((Counting(), 1, 1), "get_df=.*: expected a function"),
        ((list, 1, 1), r"^MultiThreadRunner got get_df\(\)="),
        ((lambda ds=Counting(): ds, 1, 2), "same flow from get_df again: expected a new one"),  # noqa: B008
    ],
)
def test_arguments_of_a_runner_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        MultiThreadRunner(*arguments)


def test_each_thread_of_a_runner_has_its_flow_and_each_is_reset_once():
    ds = MultiThreadRunner(Counting, 3, 3)
    assert len(set(map(id, ds.flows))) == 3
    ds.reset_state()
    assert [flow.num_resets for flow in ds.flows] == [1, 1, 1]
    ds.close()


def test_runner_has_no_position():
    ds = MultiThreadRunner(Counting, 3, 1)
    for action in (ds.state_dict, lambda: ds.load_state_dict({})):
        with pytest.raises(StatelessError, match="MultiThreadRunner has no position: its threads run ahead"):
            action()
