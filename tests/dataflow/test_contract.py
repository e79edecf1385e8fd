"""What every flow must do, tested on each of them."""

import pickle
import threading
import traceback

import numpy as np
import pytest

from tests.helpers.flow_members import CHAINS, SOURCES, WRAPPERS, flow_types, wrapped
from tests.helpers.flows import Broken, Counting, Unsized
from tpack.dataflow.repeat import FixedSizeData
from tpack.errors import ConfigError
from tpack.utils.rng import fix_rng_seed

FLOWS = {**SOURCES, **wrapped(Counting), **CHAINS}
# Not flows by themselves, but bases of such.
BASES = {"DataFlow", "RNGDataFlow", "IndexedDataFlow", "FlowList", "MixedBatches", "_DrawnFlows"}
# Modules and flows that are held to contracts in test files of their own.
ELSEWHERE = ("reshard", "parallel", "dataset", "image", "remote")
WITHOUT_END = {"DataFromQueue"}

every_flow = pytest.mark.parametrize("member", FLOWS.values(), ids=FLOWS)
every_wrapper = pytest.mark.parametrize("member", WRAPPERS.values(), ids=WRAPPERS)


@pytest.fixture(autouse=True)
def no_seed():
    """Leave no fixed seed behind."""
    yield
    fix_rng_seed(None)


def ready(member, *inner):
    ds = member.make(*inner)
    ds.reset_state()
    return ds


def assert_same_points(found, wanted):
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            np.testing.assert_array_equal(left, right)


def assert_length(points, member):
    """Hold the number of points of a pass against what it should be, where passes are of one length."""
    assert len(points) == member.length or (member.length is None and len(points) > 0)


@every_flow
def test_length_is_that_of_a_pass(member):
    ds = ready(member)
    assert_length(list(ds), member)
    if member.has_len:
        assert len(ds) == member.length


@every_flow
def test_later_passes_are_as_long_as_the_first(member):
    ds = ready(member)
    for _ in range(3):
        assert_length(list(ds), member)


@every_flow
def test_pass_after_one_that_was_broken_off_is_whole(member):
    ds = ready(member)
    for _ in ds:
        break
    assert_length(list(ds), member)


@every_flow
def test_points_are_lists_or_as_they_came(member):
    assert {type(point) for point in ready(member)} <= {list, tuple}


@every_flow
def test_runs_repeat_under_a_fixed_seed(member):
    runs = []
    for _ in range(2):
        fix_rng_seed(7)
        ds = ready(member)
        runs.append([*ds, *ds])
    assert_same_points(*runs)


@every_flow
def test_pickled_flow_works_even_after_a_pass_was_broken_off(member):
    ds = ready(member)
    points = iter(ds)
    next(points)
    copy = pickle.loads(pickle.dumps(ds))
    copy.reset_state()
    assert_length(list(copy), member)


@every_flow
def test_flow_works_in_another_thread(member):
    ds = member.make()
    fix_rng_seed(7)
    ds.reset_state()
    found = []
    thread = threading.Thread(target=lambda: found.extend(ds))
    thread.start()
    thread.join()
    fix_rng_seed(7)
    assert_same_points(found, list(ready(member)))


@every_wrapper
def test_reset_state_is_passed_on_once(member):
    inner = Counting()
    ready(member, inner)
    assert inner.num_resets == 1
    assert inner.num_passes == 0


@every_wrapper
def test_making_a_flow_neither_resets_nor_begins_the_wrapped(member):
    inner = Counting()
    member.make(inner)
    assert (inner.num_resets, inner.num_passes) == (0, 0)


@every_wrapper
def test_flow_over_one_of_unknown_length_can_be_listed(member):
    if member.needs_len:
        with pytest.raises(NotImplementedError, match="does not know its length"):
            member.make(Unsized())
        return
    ds = ready(member, Unsized())
    assert_length(list(ds), member)
    if not isinstance(ds, FixedSizeData):
        with pytest.raises(NotImplementedError, match="does not know its length"):
            len(ds)


@every_wrapper
def test_exception_in_the_middle_comes_out_with_its_traceback(member):
    # Where the wrapped flow is drawn at random, with a seed that reaches the exception.
    fix_rng_seed(7)
    ds = ready(member, Broken())
    with pytest.raises(OSError, match="the disk is gone") as caught:
        list(ds)
    assert traceback.extract_tb(caught.value.__traceback__)[-1].filename.endswith("flows.py")
    assert_length(list(ds), member)


@every_wrapper
def test_what_is_no_flow_is_refused(member):
    with pytest.raises(
        ConfigError, match=r"got (ds|df_lists\[\d\])=.*: expected a DataFlow; as_dataflow makes one of a list"
    ):
        member.make([1, 2, 3])


def test_every_flow_is_in_these_tables():
    ours = {kind for kind in flow_types() if kind.__module__.startswith("tpack.dataflow.")}
    here = {kind for kind in ours if not kind.__module__.removeprefix("tpack.dataflow.").startswith(ELSEWHERE)}
    tested = {type(member.make()) for member in FLOWS.values()}
    inside = {type(ds.ds) for ds in (member.make() for member in FLOWS.values()) if hasattr(ds, "ds")}
    assert {kind.__name__ for kind in here - tested - inside} == BASES | WITHOUT_END
