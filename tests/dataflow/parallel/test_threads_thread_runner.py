"""Flows in threads: arguments, and which flows are made and reset. See test_contract.py for the rest."""

import pytest

from tests.helpers.flows import Counting
from tpack.dataflow.parallel.threads import MultiThreadRunner
from tpack.dataflow.state import StatelessError
from tpack.errors import ConfigError


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Counting, 0, 1), "num_prefetch=0"),
        ((Counting, 1, 0), "num_thread=0"),
        ((Counting(), 1, 1), "get_df=.*: wanted a function that makes a DataFlow"),
        ((list, 1, 1), "wanted a new DataFlow each time"),
        ((lambda ds=Counting(): ds, 1, 2), "wanted a new DataFlow each time"),  # noqa: B008
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        MultiThreadRunner(*arguments)


def test_each_thread_has_its_flow_and_each_is_reset_once():
    ds = MultiThreadRunner(Counting, 3, 3)
    assert len(set(map(id, ds.flows))) == 3
    ds.reset_state()
    assert [flow.num_resets for flow in ds.flows] == [1, 1, 1]
    ds.close()


def test_there_is_no_position():
    ds = MultiThreadRunner(Counting, 3, 1)
    for action in (ds.state_dict, lambda: ds.load_state_dict({})):
        with pytest.raises(StatelessError, match="MultiThreadRunner has no position: its threads run ahead"):
            action()
