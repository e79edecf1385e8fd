"""What flows that map in workers share, with workers that a test plays."""

import pytest

from tests.helpers.fake_pool import FakePool
from tests.helpers.flows import COUNT, Counting, same
from tpack.dataflow.base import DataFlowTerminated
from tpack.dataflow.iterator_state import StatelessError
from tpack.dataflow.parallel.map_flow import MapFlow
from tpack.errors import ConfigError


class FakeMap(MapFlow):
    """Map in this process, in random order."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.pools = []

    def _start_pool(self):
        self.close()
        self.pools.append(FakePool(self.map_func))
        return self.pools[-1]


@pytest.mark.parametrize("arguments", [(None, 3, True), (3, 3, True), (same, 0, True)])
def test_arguments_that_make_no_sense_are_refused(arguments):
    with pytest.raises(ConfigError, match="FakeMap got"):
        FakeMap(Counting(), *arguments)


def test_strict_keeps_the_order_and_otherwise_it_is_that_of_the_workers():
    for strict in (True, False):
        ds = FakeMap(Counting(30), same, 10, strict)
        ds.reset_state()
        found = [k for k, _ in ds]
        assert len(found) == 30
        assert (found == sorted(found)) == strict


def test_flow_that_is_reset_again_closes_its_workers():
    ds = FakeMap(Counting(), same, 2, True)
    ds.close()
    ds.reset_state()
    next(iter(ds))
    ds.reset_state()
    assert [pool.is_closed for pool in ds.pools] == [True, False]
    assert len(list(ds)) == COUNT
    ds.close()
    with pytest.raises(DataFlowTerminated, match=r"workers of FakeMap were ended: use reset_state\(\)"):
        list(ds)


def test_order_of_the_workers_has_no_position():
    ds = FakeMap(Counting(), same, 2, False)
    ds.reset_state()
    with pytest.raises(
        StatelessError,
        match="FakeMap has no position, since its order depends on the speed of workers: use strict=True",
    ):
        ds.state_dict()
    ds.end_pass()
