"""What every flow must do, tested on each of them."""

import pickle
import traceback

import numpy as np
import pytest

from tests.helpers.flows import COUNT, Broken, Counting, Unsized, generate, same
from tpack.dataflow.base import DataFlow, ProxyDataFlow
from tpack.dataflow.batch import BatchData
from tpack.dataflow.fake import FakeData
from tpack.dataflow.fixed_size import FixedSizeData
from tpack.dataflow.from_generator import DataFromGenerator
from tpack.dataflow.from_iterable import DataFromIterable
from tpack.dataflow.from_list import DataFromList
from tpack.dataflow.mapping import MapData, MapDataComponent
from tpack.dataflow.repeat import RepeatedData
from tpack.dataflow.speed import TestDataSpeed
from tpack.errors import ConfigError
from tpack.utils.rng import fix_rng_seed

POINTS = list(Counting())

# By name: a function that makes the flow, and the length of its passes.
SOURCES = {
    "list": (lambda: DataFromList(POINTS, shuffle=False), COUNT),
    "shuffled list": (lambda: DataFromList(POINTS), COUNT),
    "iterable": (lambda: DataFromIterable(POINTS), COUNT),
    "generator": (lambda: DataFromGenerator(generate), COUNT),
    "fake": (lambda: FakeData([(2, 3), ()], size=COUNT), COUNT),
    "same fake": (lambda: FakeData([(2, 3)], size=COUNT, random=False), COUNT),
}
# By name: a function that wraps a flow, and the length of passes if it wraps one of COUNT data points.
WRAPPERS = {
    "proxy": (ProxyDataFlow, COUNT),
    "batch": (lambda ds: BatchData(ds, 3), 2),
    "batch with remainder": (lambda ds: BatchData(ds, 3, remainder=True), 3),
    "batch of lists": (lambda ds: BatchData(ds, 3, use_list=True), 2),
    "map": (lambda ds: MapData(ds, same), COUNT),
    "map component": (lambda ds: MapDataComponent(ds, str, 0), COUNT),
    "repeat": (lambda ds: RepeatedData(ds, 2), 2 * COUNT),
    "shorter": (lambda ds: FixedSizeData(ds, 5), 5),
    "longer": (lambda ds: FixedSizeData(ds, 10), 10),
    "longer, anew": (lambda ds: FixedSizeData(ds, 10, keep_state=False), 10),
    "speed": (lambda ds: TestDataSpeed(ds, 5), COUNT),
}
WRAPPED = {name: (lambda wrap=wrap: wrap(Counting()), length) for name, (wrap, length) in WRAPPERS.items()}
FLOWS = {
    **SOURCES,
    **WRAPPED,
    "all of them": (lambda: BatchData(RepeatedData(MapData(FakeData([(2,)], COUNT), same), 2), 4, remainder=True), 4),
}

every_flow = pytest.mark.parametrize(("make", "length"), FLOWS.values(), ids=FLOWS)
every_wrapper = pytest.mark.parametrize(("wrap", "length"), WRAPPERS.values(), ids=WRAPPERS)


@pytest.fixture(autouse=True)
def no_seed():
    """Leave no fixed seed behind."""
    yield
    fix_rng_seed(None)


def ready(make):
    ds = make()
    ds.reset_state()
    return ds


def assert_same_points(found, wanted):
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            np.testing.assert_array_equal(left, right)


@every_flow
def test_length_is_that_of_a_pass(make, length):
    ds = ready(make)
    assert len(list(ds)) == length
    if not isinstance(ds, DataFromGenerator):
        assert len(ds) == length


@every_flow
def test_second_pass_is_as_long_as_the_first(make, length):
    ds = ready(make)
    assert [len(list(ds)) for _ in range(3)] == [length] * 3


@every_flow
def test_pass_after_one_that_was_broken_off_is_whole(make, length):
    ds = ready(make)
    for _ in ds:
        break
    assert len(list(ds)) == length


@every_flow
def test_points_are_lists(make, length):
    assert {type(point) for point in ready(make)} == {list}


@every_flow
def test_runs_repeat_under_a_fixed_seed(make, length):
    runs = []
    for _ in range(2):
        fix_rng_seed(7)
        ds = ready(make)
        runs.append([*ds, *ds])
    assert_same_points(*runs)


@every_flow
def test_pickled_flow_works_even_after_a_pass_was_broken_off(make, length):
    ds = ready(make)
    points = iter(ds)
    next(points)
    copy = pickle.loads(pickle.dumps(ds))
    copy.reset_state()
    assert len(list(copy)) == length


@every_wrapper
def test_reset_state_is_passed_on_once(wrap, length):
    inner = Counting()
    wrap(inner).reset_state()
    assert inner.num_resets == 1
    assert inner.num_passes == 0


@every_wrapper
def test_making_a_flow_neither_resets_nor_begins_the_wrapped(wrap, length):
    inner = Counting()
    wrap(inner)
    assert (inner.num_resets, inner.num_passes) == (0, 0)


@every_wrapper
def test_flow_over_one_of_unknown_length_can_be_listed(wrap, length):
    ds = wrap(Unsized())
    ds.reset_state()
    assert len(list(ds)) == length
    if not isinstance(ds, FixedSizeData):
        with pytest.raises(NotImplementedError, match="does not know its length"):
            len(ds)


@every_wrapper
def test_exception_in_the_middle_comes_out_with_its_traceback(wrap, length):
    ds = wrap(Broken())
    ds.reset_state()
    with pytest.raises(OSError, match="the disk is gone") as caught:
        list(ds)
    assert traceback.extract_tb(caught.value.__traceback__)[-1].filename.endswith("flows.py")
    assert len(list(ds)) == length


@every_wrapper
def test_what_is_no_flow_is_refused(wrap, length):
    with pytest.raises(ConfigError, match="got a list: wanted a DataFlow"):
        wrap([1, 2, 3])


def test_every_public_flow_is_in_this_file():
    public = set(DataFlow.__subclasses__())
    for kind in list(public):
        public |= set(kind.__subclasses__())
    ours = {kind for kind in public if kind.__module__.startswith("tpack.dataflow.")}
    tested = {type(make()) for make, _ in FLOWS.values()}
    assert {kind.__name__ for kind in ours - tested} == {"RNGDataFlow"}
